//! Warnings before a certificate expires.

use net::tls::{UnixSeconds, Validity};

/// Says in time that a certificate expires, and says so again while nobody replaces it.
#[derive(Debug, Default)]
pub(crate) struct ExpiryWatch {
    /// Of the last warning: when the certificate expires, and when it was given.
    warned: Option<(UnixSeconds, UnixSeconds)>,
}

/// Warnings begin so many seconds before the end: 30 days.
const AHEAD: i64 = 30 * DAY;
/// Between two warnings, in seconds.
const DAY: i64 = 86_400;

impl ExpiryWatch {
    /// Whether it is time for a warning about a certificate.
    pub(crate) fn is_due(&mut self, validity: Validity, now: UnixSeconds) -> bool {
        let until = validity.until;
        let is_near = now.0 > until.0.saturating_sub(AHEAD);
        let was_warned = self.warned.is_some_and(|(of, at)| of == until && now.0 < at.0 + DAY);
        let is_due = is_near && !was_warned;
        if is_due {
            self.warned = Some((until, now));
        }
        is_due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_warning_comes_thirty_days_before_the_end_and_then_once_a_day() {
        let (mut watch, start) = (ExpiryWatch::default(), 1_800_000_000);
        let valid = |until| Validity { from: UnixSeconds(0), until: UnixSeconds(until) };
        let end = start + 31 * DAY;
        let days: Vec<i64> =
            (0..40 * 24).filter(|hour| watch.is_due(valid(end), UnixSeconds(start + hour * 3600))).collect();
        assert_eq!(days.iter().map(|hour| hour / 24).collect::<Vec<_>>(), (1..40).collect::<Vec<_>>());
        // One that replaces it and ends soon, too, is told at once.
        let now = UnixSeconds(start + 40 * DAY);
        assert!(!watch.is_due(valid(now.0 + 31 * DAY), now));
        assert!(watch.is_due(valid(now.0 + 29 * DAY), now));
        assert!(!watch.is_due(valid(now.0 + 29 * DAY), now));
    }
}

use super::super::loss::Heard;
use std::time::Duration;
use units::Nanos;

/// Whether the source is still there.
pub(super) struct Liveness {
    heard: Nanos,
    /// That moment, if it was put off last.
    pardoned: Nanos,
    /// Silence after which the session is over.
    timeout: Duration,
}

impl Liveness {
    pub(super) fn new(now: Nanos, timeout: Duration) -> Liveness {
        Liveness { heard: now, pardoned: Nanos::NEVER, timeout }
    }

    /// The source was heard.
    #[inline]
    pub(super) fn hear(&mut self, now: Nanos) {
        self.heard = now;
    }

    /// When it was last heard.
    #[inline]
    pub(super) fn heard(&self) -> Nanos {
        self.heard
    }

    /// The same for gaps.
    pub(super) fn heard_for_gaps(&self) -> Heard {
        Heard { at: self.heard, half_time: self.heard + self.timeout / 2 }
    }

    pub(super) fn timeout(&self) -> Duration {
        self.timeout
    }

    /// When the session is over if nothing is heard till then.
    pub(super) fn expiry(&self) -> Nanos {
        if units::planted(units::Bug::NeverOver) {
            return Nanos::NEVER;
        }
        self.heard + self.timeout
    }

    /// This process was stopped. A source that was stopped as well gets a quarter of its time-out to be heard again,
    /// once.
    pub(super) fn pardon(&mut self, now: Nanos, timeout: Duration) {
        let earliest = later(now, timeout / 4, timeout);
        if self.heard < earliest && self.heard != self.pardoned {
            (self.heard, self.pardoned) = (earliest, earliest);
        }
    }
}

/// When something began that is to last for `whole` and has `left` of it to go.
pub(crate) fn later(now: Nanos, left: Duration, whole: Duration) -> Nanos {
    Nanos(now.0.saturating_sub(crate::config::ns(whole.saturating_sub(left))))
}

//! Errors that come again with each attempt to connect: said once, then at most once a minute with their number. Pure.

use std::collections::VecDeque;
use std::time::Duration;

use units::Nanos;

/// So long an error that was said is not said again.
pub(super) const REPEAT: Duration = Duration::from_secs(60);
/// Errors that are remembered; of more the one that was said first is forgotten.
const TEXTS_MAX: usize = 16;

#[derive(Default)]
pub(super) struct Repeats {
    /// What was said, when, and how often it has come since.
    said: VecDeque<(String, Nanos, u64)>,
}

impl Repeats {
    /// What is to be said of an error, if anything.
    pub(super) fn admit(&mut self, now: Nanos, text: String) -> Option<String> {
        let Some((_, at, count)) = self.said.iter_mut().find(|(said, _, _)| *said == text) else {
            if self.said.len() >= TEXTS_MAX {
                self.said.pop_front();
            }
            self.said.push_back((text.clone(), now, 0));
            return Some(text);
        };
        *count += 1;
        if now < *at + REPEAT {
            return None;
        }
        let count = std::mem::take(count);
        *at = now;
        Some(format!("{text} [{count} times since it was said last]"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_that_stays_is_said_once_a_minute() {
        let (mut repeats, start) = (Repeats::default(), Nanos(1));
        let mut said = Vec::new();
        for second in 0..150 {
            said.extend(repeats.admit(start + Duration::from_secs(second), "refused".to_owned()));
            // One that alternates with another one is none the less the same.
            repeats.admit(start + Duration::from_secs(second), "broken".to_owned());
        }
        let again = "refused [60 times since it was said last]";
        assert_eq!(said, ["refused", again, again]);
    }

    #[test]
    fn errors_that_are_all_different_do_not_fill_the_memory() {
        let mut repeats = Repeats::default();
        for count in 0..1_000 {
            assert!(repeats.admit(Nanos(count), count.to_string()).is_some());
        }
        assert_eq!(repeats.said.len(), TEXTS_MAX);
        assert_eq!(repeats.admit(Nanos(1_000), "999".to_owned()), None);
        assert!(repeats.admit(Nanos(1_000), "1".to_owned()).is_some(), "it was forgotten");
    }
}

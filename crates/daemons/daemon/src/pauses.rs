//! Notices that the own thread has not run for a while: the process was stopped, or the machine was busy.

use std::time::Duration;

use units::Nanos;

/// When the thread ran last.
#[derive(Debug)]
pub struct Pauses {
    ran_at: Nanos,
    limit: Duration,
}

impl Pauses {
    /// For a thread that takes others for gone if they say nothing for `silence_timeout`. It runs at least four times a
    /// second by itself, or the shortest time-out that may be set would be its own pause.
    #[must_use]
    pub fn new(silence_timeout: Duration) -> Pauses {
        Pauses { ran_at: Nanos::NEVER, limit: silence_timeout / 2 + Duration::from_millis(250) }
    }

    /// The thread runs. Whether it had not for so long that others seem silent.
    #[inline]
    pub fn is_over(&mut self, now: Nanos) -> bool {
        let before = std::mem::replace(&mut self.ran_at, now);
        before < now && now.since(before) > self.limit
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_is_noticed_once_when_it_is_over() {
        let mut pauses = Pauses::new(Duration::from_secs(2));
        let mut at = |ms: u64| pauses.is_over(Nanos(ms * 1_000_000));
        assert_eq!(
            [at(5_000), at(5_250), at(6_500), at(7_751), at(7_751), at(8_000)],
            [false, false, false, true, false, false]
        );
    }
}

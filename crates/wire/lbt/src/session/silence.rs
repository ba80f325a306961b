use std::time::Duration;
use units::Nanos;

/// When the session messages of a silent session are due.
///
/// The first comes a short while after the last datagram, so that receivers soon find the loss of a tail;
/// each further one after twice the wait of the one before, up to a maximum. Any datagram begins the
/// schedule anew, and so does the begin of the session: one that has sent nothing yet is known to be there, and
/// its first datagram is missed if it does not arrive.
pub(crate) struct SessionMessageSchedule {
    wait_min: Duration,
    wait_max: Duration,
    wait: Duration,
    due: Nanos,
    sm_sqn: u32,
}

impl SessionMessageSchedule {
    /// That of a session which begins now.
    pub(crate) fn new(wait_min: Duration, wait_max: Duration, now: Nanos) -> SessionMessageSchedule {
        SessionMessageSchedule { wait_min, wait_max, wait: wait_min, due: now + wait_min, sm_sqn: 0 }
    }

    pub(crate) fn due(&self) -> Nanos {
        self.due
    }

    /// The number of the next session message.
    pub(crate) fn sm_sqn(&self) -> u32 {
        self.sm_sqn
    }

    pub(crate) fn on_datagram(&mut self, now: Nanos) {
        self.wait = self.wait_min;
        self.due = now + self.wait;
    }

    /// From now on session messages come at this distance, the first so long after `now`: a session that ends
    /// has no time for longer ones.
    pub(crate) fn hurry(&mut self, now: Nanos, wait: Duration) {
        (self.wait_min, self.wait_max, self.wait) = (wait, wait, wait);
        if self.due != Nanos::NEVER {
            self.due = self.due.min(now + wait);
        }
    }

    pub(crate) fn on_session_message(&mut self, now: Nanos) {
        self.sm_sqn = self.sm_sqn.wrapping_add(1);
        self.wait = self.wait.saturating_mul(2).min(self.wait_max);
        self.due = now + self.wait;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_from_the_begin_and_from_the_last_datagram_up_to_the_maximum() {
        let ms = Duration::from_millis;
        let mut schedule = SessionMessageSchedule::new(ms(200), ms(1_000), Nanos::ZERO);
        let mut sent_ms = Vec::new();
        for _ in 0..5 {
            let now = schedule.due();
            sent_ms.push(now.0 / 1_000_000);
            schedule.on_session_message(now);
        }
        assert_eq!(sent_ms, [200, 600, 1_400, 2_400, 3_400]);
        assert_eq!(schedule.sm_sqn(), 5);
        schedule.on_datagram(Nanos(7));
        assert_eq!(schedule.due(), Nanos(7) + ms(200));
    }
}

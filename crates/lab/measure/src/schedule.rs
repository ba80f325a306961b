use units::Nanos;

/// When each message of a run at a fixed rate is meant to leave.
///
/// The times depend on nothing that happens during the run, so a sender that was held up sends late messages
/// with their intended times and the delay is measured (no coordinated omission).
#[derive(Clone, Debug)]
pub struct Schedule {
    start: Nanos,
    per_second: f64,
    /// Messages that are due together.
    burst: f64,
    sent: u64,
}

impl Schedule {
    /// `per_second` messages a second, the first at `start`.
    #[must_use]
    pub fn new(start: Nanos, per_second: f64) -> Schedule {
        Schedule { start, per_second, burst: 1.0, sent: 0 }
    }

    /// The same messages in `bursts` a second: those of a burst are due together, when its first one is. As many bursts
    /// as messages, or more, are none.
    #[must_use]
    pub fn in_bursts(self, bursts: f64) -> Schedule {
        Schedule { burst: (self.per_second / bursts).max(1.0), ..self }
    }

    /// The intended time of the next message.
    #[must_use]
    pub fn next(&self) -> Nanos {
        let before_burst = (self.sent as f64 / self.burst).floor() * self.burst;
        Nanos(self.start.0 + (before_burst * 1e9 / self.per_second) as u64)
    }

    /// The intended time of the next message if it is due, which thereby counts as sent.
    pub fn take_due(&mut self, now: Nanos) -> Option<Nanos> {
        let due = self.next();
        (due <= now).then(|| {
            self.sent += 1;
            due
        })
    }

    /// How many were taken.
    #[must_use]
    pub fn sent(&self) -> u64 {
        self.sent
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_late_sender_gets_the_times_it_missed() {
        let mut schedule = Schedule::new(Nanos(1000), 1e6);
        assert_eq!(schedule.take_due(Nanos(999)), None);
        let taken: Vec<_> = std::iter::from_fn(|| schedule.take_due(Nanos(4000))).collect();
        assert_eq!(taken, [Nanos(1000), Nanos(2000), Nanos(3000), Nanos(4000)]);
        assert_eq!(schedule.sent(), 4);
    }

    #[test]
    fn a_burst_is_due_at_once() {
        let schedule = Schedule::new(Nanos(0), 1e6);
        let due = |mut schedule: Schedule| {
            std::iter::from_fn(move || schedule.take_due(Nanos(u64::MAX))).map(|due| due.0)
        };
        let milliseconds: Vec<u64> = due(schedule.clone().in_bursts(1_000.0)).take(2_001).collect();
        assert_eq!([milliseconds[0], milliseconds[999], milliseconds[1_000]], [0, 0, 1_000_000]);
        assert_eq!([milliseconds[1_999], milliseconds[2_000]], [1_000_000, 2_000_000]);
        let thirds: Vec<u64> = due(schedule.clone().in_bursts(400_000.0)).take(6).collect();
        assert_eq!(thirds, [0, 0, 0, 2_500, 2_500, 5_000], "two and three messages in turn");
        for bursts in [1e6, 2e6] {
            let none = due(schedule.clone().in_bursts(bursts)).take(100);
            assert!(none.eq(due(schedule.clone()).take(100)), "{bursts}");
        }
    }
}

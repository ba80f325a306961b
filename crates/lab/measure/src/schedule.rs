use units::Nanos;

/// When each message of a run at a fixed rate is meant to leave.
///
/// The times depend on nothing that happens during the run, so a sender that was held up sends late messages
/// with their intended times and the delay is measured (no coordinated omission).
#[derive(Clone, Debug)]
pub struct Schedule {
    start: Nanos,
    per_second: f64,
    sent: u64,
}

impl Schedule {
    /// `per_second` messages a second, the first at `start`.
    #[must_use]
    pub fn new(start: Nanos, per_second: f64) -> Schedule {
        Schedule { start, per_second, sent: 0 }
    }

    /// The intended time of the next message.
    #[must_use]
    pub fn next(&self) -> Nanos {
        Nanos(self.start.0 + (self.sent as f64 * 1e9 / self.per_second) as u64)
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
}

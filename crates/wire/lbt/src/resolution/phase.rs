use std::time::Duration;
use units::Nanos;

/// The waits of one kind of record: often at first, then now and then, then seldom or not at all.
#[derive(Clone, Copy, Debug)]
pub(super) struct Phases {
    pub(super) initial_min: Duration,
    pub(super) initial_max: Duration,
    pub(super) initial_duration: Duration,
    pub(super) sustain_interval: Duration,
    pub(super) sustain_duration: Duration,
    /// Between records after that; zero for none.
    pub(super) quiescent_interval: Duration,
}

/// Where one record stands in its phases, and when it is next due.
#[derive(Clone, Copy, Debug)]
pub(super) struct Schedule {
    phase: Phase,
    due: Nanos,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    Initial {
        wait: Duration,
        until: Nanos,
    },
    Sustaining {
        until: Nanos,
    },
    /// Seldom, for ever.
    Quiescent,
    Stopped,
}

impl Schedule {
    /// Due at once.
    pub(super) fn begin(phases: &Phases, now: Nanos) -> Schedule {
        let initial = Phase::Initial { wait: phases.initial_min, until: now + phases.initial_duration };
        let sustaining = Phase::Sustaining { until: now + phases.sustain_duration };
        let phase = if phases.initial_duration.is_zero() { sustaining } else { initial };
        Schedule { phase, due: now }
    }

    pub(super) fn phase(&self) -> Phase {
        self.phase
    }

    pub(super) fn is_stopped(&self) -> bool {
        self.phase == Phase::Stopped
    }

    pub(super) fn due(&self) -> Nanos {
        self.due
    }

    /// The record was sent because it was due.
    pub(super) fn on_sent(&mut self, phases: &Phases, now: Nanos) {
        match self.phase {
            Phase::Initial { wait, until } if now + wait <= until => {
                let wait_after = wait.saturating_mul(2).min(phases.initial_max);
                (self.due, self.phase) = (now + wait, Phase::Initial { wait: wait_after, until });
            }
            Phase::Initial { .. } => self.sustain(phases, now),
            Phase::Sustaining { until } if now + phases.sustain_interval <= until => {
                self.due = now + phases.sustain_interval;
            }
            Phase::Sustaining { .. } | Phase::Quiescent => self.rest(phases, now, 1),
            Phase::Stopped => self.stop(),
        }
    }

    /// The record was sent before it was due, because somebody asked: who hears it seldom need not hear it
    /// twice.
    pub(super) fn on_answered(&mut self, phases: &Phases, now: Nanos) {
        if self.phase == Phase::Quiescent {
            self.rest(phases, now, 1);
        }
    }

    /// Somebody wants to hear it, and does so soon if `is_answered`: the sustaining phase begins anew, unless
    /// the record is in its initial phase. One that is sent for ever needs no sustaining for an answer.
    pub(super) fn wake(&mut self, phases: &Phases, now: Nanos, is_answered: bool) {
        let due = self.due;
        match self.phase {
            Phase::Initial { .. } => {}
            Phase::Quiescent if is_answered => {}
            Phase::Sustaining { .. } | Phase::Quiescent | Phase::Stopped => {
                self.sustain(phases, now);
                self.due = self.due.min(due);
            }
        }
    }

    /// What it asked for was there and is not any more: the sustaining phase begins anew, at the latest at
    /// `due`.
    pub(super) fn begin_again(&mut self, phases: &Phases, now: Nanos, due: Nanos) {
        if !matches!(self.phase, Phase::Initial { .. }) {
            self.sustain(phases, now);
        }
        self.due = self.due.min(due);
    }

    pub(super) fn stop(&mut self) {
        (self.phase, self.due) = (Phase::Stopped, Nanos::NEVER);
    }

    /// The seldom phase, with `times` the interval of others.
    pub(super) fn rest(&mut self, phases: &Phases, now: Nanos, times: u32) {
        if phases.quiescent_interval.is_zero() {
            return self.stop();
        }
        self.phase = Phase::Quiescent;
        self.due = now + phases.quiescent_interval.saturating_mul(times);
    }

    fn sustain(&mut self, phases: &Phases, now: Nanos) {
        self.phase = Phase::Sustaining { until: now + phases.sustain_duration };
        self.due = now + phases.sustain_interval;
        if phases.sustain_duration.is_zero() {
            self.rest(phases, now, 1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn phases() -> Phases {
        Phases {
            initial_min: MS * 10,
            initial_max: MS * 500,
            initial_duration: MS * 5_000,
            sustain_interval: MS * 1_000,
            sustain_duration: MS * 60_000,
            quiescent_interval: Duration::ZERO,
        }
    }

    fn sent_ms(schedule: &mut Schedule, phases: &Phases, until_ms: u64) -> Vec<u64> {
        let mut sent = Vec::new();
        while schedule.due() <= Nanos::ZERO + MS * until_ms as u32 {
            let now = schedule.due();
            sent.push(now.0 / 1_000_000);
            schedule.on_sent(phases, now);
        }
        sent
    }

    #[test]
    fn waits_double_to_the_longest_then_sustain_then_stop() {
        let phases = phases();
        let mut schedule = Schedule::begin(&phases, Nanos::ZERO);
        let sent = sent_ms(&mut schedule, &phases, 200_000);
        assert_eq!(sent[..8], [0, 10, 30, 70, 150, 310, 630, 1_130]);
        let sustained: Vec<_> = sent.iter().filter(|&&ms| ms > 5_000).collect();
        assert_eq!((sustained.len(), schedule.phase()), (60, Phase::Stopped));
        assert_eq!(schedule.due(), Nanos::NEVER);
    }

    #[test]
    fn a_query_makes_a_quiescent_record_sustain_again() {
        let phases = Phases { initial_duration: MS * 20, sustain_duration: MS * 2_000, ..phases() };
        let mut schedule = Schedule::begin(&phases, Nanos::ZERO);
        assert_eq!(sent_ms(&mut schedule, &phases, 100_000), [0, 10, 1_010, 2_010]);
        schedule.wake(&phases, Nanos::ZERO + MS * 50_000, true);
        assert_eq!(sent_ms(&mut schedule, &phases, 100_000), [51_000, 52_000]);
    }

    #[test]
    fn phases_of_no_length_are_skipped() {
        let none = Phases { initial_duration: Duration::ZERO, sustain_duration: MS * 1_500, ..phases() };
        assert_eq!(sent_ms(&mut Schedule::begin(&none, Nanos::ZERO), &none, 100_000), [0, 1_000]);
        let only = Phases { initial_duration: MS * 40, sustain_duration: Duration::ZERO, ..phases() };
        assert_eq!(sent_ms(&mut Schedule::begin(&only, Nanos::ZERO), &only, 100_000), [0, 10, 30]);
    }

    #[test]
    fn with_a_quiescent_interval_it_never_ends_and_an_answer_counts() {
        let phases = Phases {
            initial_duration: MS * 20,
            sustain_duration: MS * 1_000,
            quiescent_interval: MS * 10_000,
            ..phases()
        };
        let mut schedule = Schedule::begin(&phases, Nanos::ZERO);
        assert_eq!(sent_ms(&mut schedule, &phases, 35_000), [0, 10, 1_010, 11_010, 21_010, 31_010]);
        let at = |ms: u32| Nanos::ZERO + MS * ms;
        schedule.wake(&phases, at(36_000), true);
        schedule.on_answered(&phases, at(36_000));
        assert_eq!(schedule.due(), at(46_000));
        schedule.wake(&phases, at(37_000), false);
        assert_eq!(schedule.due(), at(38_000));
        let times = sent_ms(&mut schedule, &phases, 60_000);
        assert_eq!(times, [38_000, 48_000, 58_000]);
        schedule.begin_again(&phases, at(60_000), at(60_000));
        assert_eq!(schedule.due(), at(60_000));
    }
}

use rwf::{Qos, Rate, Timeliness};

/// A quality that is wanted: one, or anything between a best and a worst.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct QosRange {
    /// The best.
    pub best: Qos,
    /// The worst that will do.
    pub worst: Qos,
}

impl QosRange {
    /// This quality and no other.
    #[must_use]
    pub const fn exactly(qos: Qos) -> QosRange {
        QosRange { best: qos, worst: qos }
    }

    /// What a request wants: `None` if it names no quality, so that any will do. One that names only a worst
    /// takes everything down to it.
    #[must_use]
    pub fn of(qos: Option<Qos>, worst_qos: Option<Qos>) -> Option<QosRange> {
        match (qos, worst_qos) {
            (None, None) => None,
            (best, worst) => {
                let best = best.unwrap_or(Qos::REAL_TIME);
                Some(QosRange { best, worst: worst.unwrap_or(best) })
            }
        }
    }

    /// Whether a quality will do: neither its age nor its rate may be better than the best or worse than the
    /// worst.
    ///
    /// Real time is better than a delay, a shorter delay than a longer one, a known delay than an unknown;
    /// every tick is better than conflation over an interval, a shorter interval than a longer one, and any
    /// interval than conflation at need. Whether the quality may change plays no part.
    #[must_use]
    pub fn contains(&self, qos: Qos) -> bool {
        let within = |rank: fn(Qos) -> u32| (rank(self.best)..=rank(self.worst)).contains(&rank(qos));
        within(age_rank) && within(rate_rank)
    }
}

/// Where a quality stands among others, the best first: by its age, then by its rate.
pub(super) fn qos_rank(qos: Qos) -> (u32, u32) {
    (age_rank(qos), rate_rank(qos))
}

const WORST: u32 = 1 << 16;

fn age_rank(qos: Qos) -> u32 {
    match qos.timeliness {
        Timeliness::RealTime => 0,
        Timeliness::Delayed(by) => by.into(),
        Timeliness::DelayedUnknown => WORST,
    }
}

fn rate_rank(qos: Qos) -> u32 {
    match qos.rate {
        Rate::TickByTick => 0,
        Rate::TimeConflated(interval) => interval.into(),
        Rate::JustInTimeConflated => WORST,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn qos(timeliness: Timeliness, rate: Rate) -> Qos {
        Qos { timeliness, rate, dynamic: false }
    }

    #[test]
    fn one_quality_matches_itself_only() {
        let range = QosRange::exactly(Qos::REAL_TIME);
        assert!(range.contains(Qos::REAL_TIME));
        assert!(range.contains(Qos { dynamic: true, ..Qos::REAL_TIME }));
        assert!(!range.contains(qos(Timeliness::Delayed(15), Rate::TickByTick)));
        assert!(!range.contains(qos(Timeliness::RealTime, Rate::TimeConflated(1))));
    }

    #[test]
    fn a_range_bounds_age_and_rate_each() {
        let worst = qos(Timeliness::Delayed(15), Rate::JustInTimeConflated);
        let range = QosRange { best: Qos::REAL_TIME, worst };
        assert!(range.contains(qos(Timeliness::Delayed(10), Rate::TimeConflated(u16::MAX))));
        assert!(!range.contains(qos(Timeliness::Delayed(16), Rate::TickByTick)));
        assert!(!range.contains(qos(Timeliness::DelayedUnknown, Rate::TickByTick)));
    }

    #[test]
    fn a_request_without_a_quality_takes_any_and_one_with_a_worst_takes_all_above() {
        assert_eq!(QosRange::of(None, None), None);
        let worst = qos(Timeliness::DelayedUnknown, Rate::TickByTick);
        let range = QosRange::of(None, Some(worst)).expect("a range");
        assert!(range.contains(Qos::REAL_TIME) && range.contains(worst));
        assert_eq!(QosRange::of(Some(worst), None), Some(QosRange::exactly(worst)));
    }
}

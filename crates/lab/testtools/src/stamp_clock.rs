//! The clock of time stamps: the machine's monotonic one, in the unit that both ends agree on.

use net::clock;
use units::Nanos;

/// The unit of time stamps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StampUnit {
    /// Microseconds, as the SDK's tools have it by default.
    Microseconds,
    /// Nanoseconds.
    Nanoseconds,
}

impl StampUnit {
    /// The unit of the option `--nanoseconds`.
    #[must_use]
    pub fn of(nanoseconds: bool) -> StampUnit {
        if nanoseconds { StampUnit::Nanoseconds } else { StampUnit::Microseconds }
    }

    /// Nanoseconds in one of it.
    #[must_use]
    pub fn nanos(self) -> u64 {
        match self {
            StampUnit::Microseconds => 1_000,
            StampUnit::Nanoseconds => 1,
        }
    }

    /// The stamp of a moment.
    #[must_use]
    pub fn stamp(self, at: Nanos) -> u64 {
        at.0 / self.nanos()
    }

    /// The stamp of now.
    #[must_use]
    pub fn now(self) -> u64 {
        self.stamp(clock::monotonic())
    }

    /// Nanoseconds from a stamp until now. A stamp of a zero, or of the future - of another host, or in another unit -
    /// has none.
    #[must_use]
    pub fn since(self, stamp: u64, now: Nanos) -> Option<u64> {
        // The moment itself is somewhere within the unit: what is compared are whole units.
        let units = self.stamp(now).checked_sub(stamp)?;
        (stamp > 0).then(|| units.saturating_mul(self.nanos()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stamp_is_read_in_its_unit() {
        let (now, micros, nanos) = (Nanos(5_000_900), StampUnit::of(false), StampUnit::of(true));
        assert_eq!((micros.stamp(now), nanos.stamp(now)), (5_000, 5_000_900));
        assert_eq!((micros.since(4_990, now), nanos.since(5_000_000, now)), (Some(10_000), Some(900)));
        assert_eq!((micros.since(0, now), micros.since(5_001, now)), (None, None));
    }
}

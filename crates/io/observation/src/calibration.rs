use net::timekeeping::{Discipline, KernelClock};

use crate::Clock;

/// Readings of which the quickest counts: one in which the thread was held up says little.
const TRIES: usize = 400;

/// A moment on all clocks, and how the system kept its own then.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Calibration {
    /// On the recorder's clock.
    pub ticks: u64,
    /// `CLOCK_MONOTONIC`, nanoseconds.
    pub monotonic_ns: u64,
    /// `CLOCK_MONOTONIC_RAW`, nanoseconds.
    pub raw_ns: u64,
    /// `CLOCK_REALTIME`, nanoseconds since 1970.
    pub realtime_ns: u64,
    /// `CLOCK_TAI`, nanoseconds since 1970.
    pub tai_ns: u64,
    /// Each of the others may be off by so much beside `monotonic_ns`, nanoseconds.
    pub uncertainty_ns: u64,
    /// How `CLOCK_REALTIME` was kept.
    pub discipline: Discipline,
}

impl Calibration {
    /// Now. It takes under a millisecond.
    #[must_use]
    pub fn now(clock: Clock) -> Calibration {
        let base = KernelClock::Monotonic.now_ns();
        let (mut widest, mut ahead) = (0, [0_i128; 4]);
        let readers: [&dyn Fn() -> u64; 4] = [
            &|| clock.now(),
            &|| KernelClock::MonotonicRaw.now_ns(),
            &|| KernelClock::Realtime.now_ns(),
            &|| KernelClock::Tai.now_ns(),
        ];
        let mut of_clock = (base, 0);
        for (at, read) in readers.into_iter().enumerate() {
            let (middle, value, width) = between(read);
            widest = widest.max(width);
            ahead[at] = i128::from(value) - i128::from(middle);
            if at == 0 {
                of_clock = (middle, value);
            }
        }
        // All at the moment at which the recorder's clock was read: the others keep their distance for a millisecond.
        let (monotonic_ns, ticks) = of_clock;
        let at = |ahead: i128| u64::try_from(i128::from(monotonic_ns) + ahead).unwrap_or(0);
        Calibration {
            ticks,
            monotonic_ns,
            raw_ns: at(ahead[1]),
            realtime_ns: at(ahead[2]),
            tai_ns: at(ahead[3]),
            uncertainty_ns: widest.div_ceil(2) + 1,
            discipline: Discipline::now().unwrap_or_default(),
        }
    }

    /// How far a time between two moments may be off when it is put on `CLOCK_MONOTONIC` by the straight line through them,
    /// nanoseconds: what the readings were off by, and how much the rate of that clock may have changed in between.
    #[must_use]
    pub fn error_ns(&self, end: &Calibration) -> u64 {
        let span = end.monotonic_ns.saturating_sub(self.monotonic_ns) as f64;
        let raw = end.raw_ns.saturating_sub(self.raw_ns) as f64;
        let parts = |calibration: &Calibration| calibration.discipline.frequency as f64 / 65_536.0 / 1e6;
        let (before, after) = (parts(self), parts(end));
        // A line between the ends of a curve whose slope changes by d is off by d / 4 of its length at most.
        let turned = (after - before).abs() * span / 4.0;
        // What a daemon has pushed the clock beside its rate.
        let pushed = (span - raw * (1.0 + f64::midpoint(before, after))).abs();
        let readings = self.uncertainty_ns.max(end.uncertainty_ns);
        readings.saturating_add((turned + pushed).ceil() as u64)
    }
}

/// Reads a clock between two readings of the monotonic one: their middle, what the clock showed, and how far the two were apart.
fn between(read: &dyn Fn() -> u64) -> (u64, u64, u64) {
    let tries = (0..TRIES).map(|_| {
        let before = KernelClock::Monotonic.now_ns();
        let value = read();
        let width = KernelClock::Monotonic.now_ns().saturating_sub(before);
        (before + width / 2, value, width)
    });
    tries.min_by_key(|(_, _, width)| *width).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_clocks_are_of_one_moment() {
        let first = Calibration::now(Clock::Monotonic);
        let second = Calibration::now(Clock::MonotonicRaw);
        assert!(first.ticks.abs_diff(first.monotonic_ns) <= first.uncertainty_ns, "{first:?}");
        assert_eq!(second.ticks > 0, second.raw_ns > 0);
        assert!(second.monotonic_ns > first.monotonic_ns && second.raw_ns > first.raw_ns);
        let offset = i128::from(first.tai_ns) - i128::from(first.realtime_ns);
        let seconds = i128::from(first.discipline.tai_offset_s);
        // What each was read apart from the moment that both are of.
        let apart = offset - seconds * 1_000_000_000;
        assert!(apart.abs() <= 4 * i128::from(first.uncertainty_ns), "{first:?}");
    }

    #[test]
    fn the_error_is_that_of_the_readings_and_of_a_rate_that_changes() {
        let start = Calibration { uncertainty_ns: 20, ..Calibration::default() };
        let end = |monotonic_ns, raw_ns, frequency| Calibration {
            monotonic_ns,
            raw_ns,
            uncertainty_ns: 30,
            discipline: Discipline { frequency, ..Discipline::default() },
            ..Calibration::default()
        };
        assert_eq!(start.error_ns(&end(1_000_000_000, 1_000_000_000, 0)), 30);
        // Ten parts per million more at the end than at the start: five in the middle, and a quarter of ten off.
        let turned = start.error_ns(&end(1_000_005_000, 1_000_000_000, 10 * 65_536));
        assert!((2_530..2_535).contains(&turned), "{turned}");
        // 7 us forward beside its rate.
        assert_eq!(start.error_ns(&end(1_000_007_000, 1_000_000_000, 0)), 7_030);
    }
}

/// Bits behind the point of a slope.
const SHIFT: u32 = 56;
/// Slopes that a clock can have, in ticks of the one a tick of the other.
const SLOPES: (f64, f64) = (0.01, 8.0);

/// Times of one clock in times of another: a straight line through two moments at which both were read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Line {
    from: u64,
    to: i128,
    slope: i128,
}

impl Line {
    /// The line through two points, each (time of the one, time of the other). None if they are not two moments in their order,
    /// or one clock runs more than 100 times as fast as the other, or less than an eighth.
    #[must_use]
    pub fn through(first: (u64, u64), second: (u64, u64)) -> Option<Line> {
        let (run, rise) = (second.0.checked_sub(first.0)?, second.1.checked_sub(first.1)?);
        let ratio = rise as f64 / run as f64;
        if run == 0 || !(SLOPES.0..=SLOPES.1).contains(&ratio) {
            return None;
        }
        let slope = (i128::from(rise) << SHIFT) / i128::from(run);
        Some(Line { from: first.0, to: i128::from(first.1), slope })
    }

    /// A clock in its own times.
    pub const SAME: Line = Line { from: 0, to: 0, slope: 1 << SHIFT };

    /// The time of the other clock, rounded down. Exact to a tick within days of the two moments.
    #[inline]
    #[must_use]
    pub fn at(&self, time: u64) -> i64 {
        // At most 65 bits by 60.
        let rise = ((i128::from(time) - i128::from(self.from)) * self.slope) >> SHIFT;
        (self.to + rise).clamp(i128::from(i64::MIN), i128::from(i64::MAX)) as i64
    }

    /// Ticks of the other clock a tick.
    #[must_use]
    pub fn slope(&self) -> f64 {
        self.slope as f64 / (1u64 << SHIFT) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_goes_through_both_points_and_all_between() {
        let line = Line::through((1_000, 5_000), (4_000, 6_000)).expect("a third of a tick each");
        assert_eq!([1_000, 1_003, 2_500, 4_000].map(|at| line.at(at)), [5_000, 5_000, 5_499, 5_999]);
        assert!((line.slope() - 1.0 / 3.0).abs() < 1e-12);
        assert_eq!([0, 7, i64::MAX as u64].map(|at| Line::SAME.at(at)), [0, 7, i64::MAX]);
    }

    #[test]
    fn days_apart_it_is_exact_to_a_tick() {
        // A week of a processor of 3 GHz.
        let (ticks, ns) = (3 * 604_800_000_000_007, 604_800_000_000_000);
        let line = Line::through((77, 99), (77 + ticks, 99 + ns)).expect("of two clocks");
        for part in [1, 3, 1_000, 999_983] {
            let exact = 99 + i128::from(ticks / part) * i128::from(ns) / i128::from(ticks);
            assert!((i128::from(line.at(77 + ticks / part)) - exact).abs() <= 1, "{part}");
        }
    }

    #[test]
    fn what_is_no_line_of_two_clocks_is_none_and_no_time_overflows() {
        for (first, second) in
            [((5, 5), (5, 9)), ((5, 5), (4, 9)), ((5, 5), (9, 4)), ((0, 0), (1, 9)), ((0, 0), (101, 1))]
        {
            assert_eq!(Line::through(first, second), None, "{first:?} {second:?}");
        }
        let steep = Line::through((0, u64::MAX - 8), (1, u64::MAX)).expect("as steep as may be");
        assert_eq!((steep.at(u64::MAX), Line::SAME.at(u64::MAX)), (i64::MAX, i64::MAX));
        let late = Line::through((u64::MAX - 1, 0), (u64::MAX, 8)).expect("as steep as may be");
        assert_eq!(late.at(0), i64::MIN);
    }
}

use std::fmt;

use serde::{Deserialize, Serialize};

/// How often a thread that only reads the clock was held up, by length. What the machine does to such a
/// thread it does to every other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct Jitter {
    /// Time between the first and the last reading.
    pub watched_ns: u64,
    pub over_1us: u64,
    pub over_10us: u64,
    pub over_100us: u64,
    pub over_1ms: u64,
    pub longest_ns: u64,
}

impl Jitter {
    /// Adds the time between two readings of the clock, one after the other.
    #[inline]
    pub fn record(&mut self, gap_ns: u64) {
        self.watched_ns += gap_ns;
        if gap_ns > 1_000 {
            self.record_gap(gap_ns);
        }
    }

    #[cold]
    fn record_gap(&mut self, gap_ns: u64) {
        self.over_1us += 1;
        self.over_10us += u64::from(gap_ns > 10_000);
        self.over_100us += u64::from(gap_ns > 100_000);
        self.over_1ms += u64::from(gap_ns > 1_000_000);
        self.longest_ns = self.longest_ns.max(gap_ns);
    }

    /// How many gaps a second of some length there were, by one of the counts.
    #[must_use]
    pub fn per_second(&self, count: u64) -> f64 {
        if self.watched_ns == 0 { 0.0 } else { count as f64 * 1e9 / self.watched_ns as f64 }
    }
}

impl fmt::Display for Jitter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rates = [self.over_1us, self.over_10us, self.over_100us, self.over_1ms];
        let [us, tens, hundreds, ms] = rates.map(|count| self.per_second(count));
        let (seconds, longest) = (self.watched_ns as f64 / 1e9, self.longest_ns as f64 / 1e3);
        write!(
            f,
            "gaps a second over 1 us: {us:.0}, 10 us: {tens:.0}, 100 us: {hundreds:.1}, 1 ms: {ms:.1}; \
             longest {longest:.0} us in {seconds:.1} s"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gap_counts_at_every_length_that_it_exceeds() {
        let mut jitter = Jitter::default();
        for gap in [25, 1_000, 1_001, 50_000, 50_000, 300_000, 2_000_000, 997_597_974] {
            jitter.record(gap);
        }
        assert_eq!((jitter.over_1us, jitter.over_10us, jitter.over_100us, jitter.over_1ms), (6, 5, 3, 2));
        assert_eq!((jitter.longest_ns, jitter.watched_ns), (997_597_974, 1_000_000_000));
        assert_eq!(jitter.per_second(jitter.over_1ms), 2.0);
        let text = jitter.to_string();
        assert!(text.contains("over 1 us: 6, 10 us: 5, 100 us: 3.0, 1 ms: 2.0"), "{text}");
    }

    #[test]
    fn nothing_watched_is_no_gap_a_second() {
        assert_eq!(Jitter::default().per_second(3), 0.0);
    }
}

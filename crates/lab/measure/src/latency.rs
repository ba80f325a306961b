use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

/// The longest time kept apart, nanoseconds; longer ones count as this.
const LONGEST_NS: u64 = 60_000_000_000;

/// Times in nanoseconds, kept with three significant digits.
#[derive(Clone, Debug)]
pub struct Latencies(Histogram<u64>);

/// What a set of latencies comes to. All in nanoseconds but the count.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[allow(missing_docs)]
pub struct Summary {
    pub count: u64,
    pub mean_ns: f64,
    pub stddev_ns: f64,
    pub min_ns: u64,
    pub p50_ns: u64,
    pub p90_ns: u64,
    pub p99_ns: u64,
    pub p999_ns: u64,
    pub p9999_ns: u64,
    pub p99999_ns: u64,
    pub p999999_ns: u64,
    pub max_ns: u64,
    /// How the times are spread, if that was asked for ([`Latencies::spread`]): the longest time of a bucket, and how
    /// many fell into it ([`Latencies::values`]). Buckets without any are left out; a bucket is at most a thousandth of its time wide.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub buckets: Vec<(u64, u64)>,
}

impl Default for Latencies {
    fn default() -> Self {
        Latencies(
            Histogram::new_with_bounds(1, LONGEST_NS, 3)
                .expect("1 ns to 60 s with three digits is a legal range"),
        )
    }
}

impl Latencies {
    /// Adds one time.
    #[inline]
    pub fn record(&mut self, ns: u64) {
        self.0.saturating_record(ns);
    }

    /// Adds all of another set.
    pub fn merge(&mut self, other: &Latencies) {
        self.0.add(&other.0).expect("both have the same bounds");
    }

    /// Each value that was recorded, nanoseconds as the histogram keeps them, and how often, in rising order. Recorded anew
    /// ([`Latencies::record_many`]) they come to the same figures: so processes tell each other what they have seen.
    pub fn values(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.0.iter_recorded().map(|at| (at.value_iterated_to(), at.count_at_value()))
    }

    /// Adds one time so many times.
    pub fn record_many(&mut self, ns: u64, count: u64) {
        self.0.saturating_record_n(ns, count);
    }

    /// How many were recorded.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.0.len()
    }

    /// Forgets all.
    pub fn clear(&mut self) {
        self.0.reset();
    }

    /// Percentiles and moments, with the buckets behind them.
    #[must_use]
    pub fn spread(&self) -> Summary {
        Summary { buckets: self.values().collect(), ..self.summary() }
    }

    /// Percentiles and moments.
    #[must_use]
    pub fn summary(&self) -> Summary {
        let at = |p| self.0.value_at_quantile(p);
        Summary {
            count: self.0.len(),
            mean_ns: self.0.mean(),
            stddev_ns: self.0.stdev(),
            min_ns: if self.0.is_empty() { 0 } else { self.0.min() },
            p50_ns: at(0.5),
            p90_ns: at(0.9),
            p99_ns: at(0.99),
            p999_ns: at(0.999),
            p9999_ns: at(0.9999),
            p99999_ns: at(0.99999),
            p999999_ns: at(0.999_999),
            max_ns: self.0.max(),
            buckets: Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_those_of_the_values() {
        let mut all = Latencies::default();
        let mut half = Latencies::default();
        for i in 1..=500 {
            all.record(i * 1000);
            half.record((500 + i) * 1000);
        }
        all.merge(&half);
        let s = all.summary();
        assert_eq!((s.count, s.min_ns), (1000, 1000));
        assert!(s.p50_ns.abs_diff(500_000) <= 500, "{}", s.p50_ns);
        assert!(s.p99_ns.abs_diff(990_000) <= 1000, "{}", s.p99_ns);
        assert!(s.max_ns.abs_diff(1_000_000) <= 1000, "{}", s.max_ns);
    }

    #[test]
    fn buckets_hold_every_time_near_where_it_was() {
        let times = [1_u64, 2_047, 5_000, 123_456, 59_999_999_999];
        let mut latencies = Latencies::default();
        for (at, time) in times.into_iter().enumerate() {
            (0..=at).for_each(|_| latencies.record(time));
        }
        let spread = latencies.spread();
        assert_eq!(spread.buckets.iter().map(|(_, count)| *count).collect::<Vec<_>>(), [1, 2, 3, 4, 5]);
        for ((longest, _), time) in spread.buckets.iter().zip(times) {
            assert!((time..=time + time / 1_000).contains(longest), "{time} in {longest}");
        }
        assert_eq!(Summary { buckets: Vec::new(), ..spread }, latencies.summary());
    }

    #[test]
    fn values_that_are_recorded_anew_come_to_the_same() {
        let mut all = Latencies::default();
        (0..100_000_u64).for_each(|n| all.record(n * n % 7_777_777_777));
        let mut again = Latencies::default();
        all.values().for_each(|(ns, count)| again.record_many(ns, count));
        assert_eq!(again.summary(), all.summary());
        assert_eq!(again.values().map(|(_, count)| count).sum::<u64>(), 100_000);
        assert_eq!(Latencies::default().values().count(), 0);
    }

    #[test]
    fn nothing_recorded_is_all_zero() {
        assert_eq!(Latencies::default().summary(), Summary::default());
    }
}

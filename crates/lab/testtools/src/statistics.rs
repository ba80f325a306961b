//! Latencies: moments that are exact, percentiles from a histogram.

use measure::Latencies;
use serde_json::{Value, json};

/// Count, mean, deviation, least and greatest of times in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Moments {
    /// How many.
    pub count: u64,
    mean: f64,
    /// The sum of the squares of the differences from the mean.
    squares: f64,
    /// The least, nanoseconds.
    pub min_ns: u64,
    /// The greatest, nanoseconds.
    pub max_ns: u64,
}

impl Moments {
    /// Adds a time.
    pub fn record(&mut self, ns: u64) {
        self.min_ns = if self.count == 0 { ns } else { self.min_ns.min(ns) };
        self.max_ns = self.max_ns.max(ns);
        self.count += 1;
        let before = ns as f64 - self.mean;
        self.mean += before / self.count as f64;
        self.squares += before * (ns as f64 - self.mean);
    }

    /// Adds all of others.
    pub fn merge(&mut self, other: &Moments) {
        if other.count == 0 {
            return;
        }
        if self.count == 0 {
            *self = *other;
            return;
        }
        let (ours, theirs) = (self.count as f64, other.count as f64);
        let apart = other.mean - self.mean;
        self.squares += other.squares + apart * apart * ours * theirs / (ours + theirs);
        self.mean += apart * theirs / (ours + theirs);
        self.count += other.count;
        self.min_ns = self.min_ns.min(other.min_ns);
        self.max_ns = self.max_ns.max(other.max_ns);
    }

    /// The mean, nanoseconds.
    #[must_use]
    pub fn mean_ns(&self) -> f64 {
        self.mean
    }

    /// The standard deviation of a sample (n - 1), nanoseconds; 0 for fewer than two times.
    #[must_use]
    pub fn deviation_ns(&self) -> f64 {
        if self.count < 2 { 0.0 } else { (self.squares / (self.count - 1) as f64).sqrt() }
    }
}

/// The percentiles that are shown.
const PERCENTILES: [&str; 4] = ["p50_ns", "p90_ns", "p99_ns", "p999_ns"];

/// Times in nanoseconds, with their percentiles.
#[derive(Clone, Debug, Default)]
pub struct LatencyStatistics {
    /// What is exact.
    pub moments: Moments,
    histogram: Latencies,
}

impl LatencyStatistics {
    /// Adds a time.
    pub fn record(&mut self, ns: u64) {
        self.moments.record(ns);
        self.histogram.record(ns);
    }

    /// Adds all of others.
    pub fn merge(&mut self, other: &LatencyStatistics) {
        self.moments.merge(&other.moments);
        self.histogram.merge(&other.histogram);
    }

    /// The 50th, 90th, 99th and 99.9th percentile, nanoseconds, with three significant digits.
    #[must_use]
    pub fn percentiles_ns(&self) -> [u64; 4] {
        let summary = self.histogram.summary();
        [summary.p50_ns, summary.p90_ns, summary.p99_ns, summary.p999_ns]
    }

    /// As an object: `count`, and unless that is 0 the rest in nanoseconds.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let Moments { count, min_ns, max_ns, .. } = self.moments;
        if count == 0 {
            return json!({ "count": 0 });
        }
        let mut object = json!({
            "count": count,
            "mean_ns": self.moments.mean_ns().round() as u64,
            "stddev_ns": self.moments.deviation_ns().round() as u64,
            "min_ns": min_ns,
            "max_ns": max_ns,
        });
        for (name, value) in PERCENTILES.iter().zip(self.percentiles_ns()) {
            object[*name] = value.into();
        }
        object
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_those_of_the_times_however_they_were_put_together() {
        let times: Vec<u64> = (0..1000).map(|n| 1_000_000_000 + n * n % 977).collect();
        let mean = times.iter().map(|t| *t as f64).sum::<f64>() / 1000.0;
        let variance = times.iter().map(|t| (*t as f64 - mean).powi(2)).sum::<f64>() / 999.0;
        let of = |times: &[u64]| {
            let mut moments = Moments::default();
            times.iter().for_each(|time| moments.record(*time));
            moments
        };
        let mut merged = of(&times[..300]);
        merged.merge(&of(&times[300..]));
        merged.merge(&Moments::default());
        let mut from_nothing = Moments::default();
        from_nothing.merge(&of(&times));
        for moments in [of(&times), merged, from_nothing] {
            assert!((moments.mean_ns() - mean).abs() < 1e-3, "{moments:?}");
            assert!((moments.deviation_ns() - variance.sqrt()).abs() < 1e-3, "{moments:?}");
            assert_eq!((moments.count, moments.min_ns), (1000, 1_000_000_000));
            assert_eq!(moments.max_ns, *times.iter().max().expect("some"));
        }
    }

    #[test]
    fn few_times_have_no_deviation_and_none_has_nothing() {
        let mut statistics = LatencyStatistics::default();
        assert_eq!(statistics.to_json(), json!({ "count": 0 }));
        statistics.record(5000);
        assert_eq!((statistics.moments.deviation_ns(), statistics.moments.mean_ns()), (0.0, 5000.0));
        assert_eq!(statistics.to_json()["max_ns"], 5000);
    }
}

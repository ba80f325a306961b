use crate::{Runs, Summary};

/// The latencies of several runs of one thing.
///
/// A percentile is the median of the runs'. Mean, deviation, shortest and longest are those of all points of all runs: the
/// longest of a run is a matter of luck, and its median over runs would hide half of them.
#[derive(Clone, Debug, Default)]
pub struct Summaries(Vec<Summary>);

/// The percentiles of a table: the name, and the share of the points that are not above it, with the figure of a run.
#[allow(clippy::type_complexity)]
pub const PERCENTILES: [(&str, f64, fn(&Summary) -> u64); 7] = [
    ("p50", 0.5, |s| s.p50_ns),
    ("p90", 0.9, |s| s.p90_ns),
    ("p99", 0.99, |s| s.p99_ns),
    ("p99.9", 0.999, |s| s.p999_ns),
    ("p99.99", 0.9999, |s| s.p9999_ns),
    ("p99.999", 0.99999, |s| s.p99999_ns),
    ("p99.9999", 0.999_999, |s| s.p999999_ns),
];

impl Summaries {
    /// Adds one run's.
    pub fn add(&mut self, summary: Summary) {
        self.0.push(summary);
    }

    /// Each run's.
    pub fn each(&self) -> impl Iterator<Item = &Summary> {
        self.0.iter()
    }

    /// A figure of each run.
    #[must_use]
    pub fn runs(&self, figure: impl Fn(&Summary) -> f64) -> Runs {
        self.0.iter().map(figure).collect()
    }

    /// The median latency of each run, nanoseconds.
    #[must_use]
    pub fn p50(&self) -> Runs {
        self.runs(|summary| summary.p50_ns as f64)
    }

    /// Each of [`PERCENTILES`], nanoseconds. `None` for one that stands for less than one point of a run: it would be that
    /// run's longest.
    #[must_use]
    pub fn percentiles(&self) -> [Option<f64>; PERCENTILES.len()] {
        let least = self.0.iter().map(|summary| summary.count).min().unwrap_or(0);
        PERCENTILES.map(|(_, share, figure)| {
            // A share like 0.999 is not exact: 1,000 points have one above it.
            let above = least as f64 * (1.0 - share);
            (above > 0.999).then(|| self.runs(|summary| figure(summary) as f64).median())
        })
    }

    /// How many points there are in all runs.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.0.iter().map(|summary| summary.count).sum()
    }

    /// Of all points, nanoseconds; not a number without any.
    #[must_use]
    pub fn mean_ns(&self) -> f64 {
        self.0.iter().map(|s| s.mean_ns * s.count as f64).sum::<f64>() / self.count() as f64
    }

    /// Standard deviation of all points (of the population), nanoseconds: the runs' own, and that of their means. Not a
    /// number without points.
    #[must_use]
    pub fn deviation_ns(&self) -> f64 {
        let mean = self.mean_ns();
        let squares = |s: &Summary| s.count as f64 * (s.stddev_ns.powi(2) + (s.mean_ns - mean).powi(2));
        (self.0.iter().map(squares).sum::<f64>() / self.count() as f64).sqrt()
    }

    /// The shortest of all; 0 without points.
    #[must_use]
    pub fn min_ns(&self) -> u64 {
        self.0.iter().filter(|s| s.count > 0).map(|s| s.min_ns).min().unwrap_or(0)
    }

    /// The longest of all; 0 without points.
    #[must_use]
    pub fn max_ns(&self) -> u64 {
        self.0.iter().map(|s| s.max_ns).max().unwrap_or(0)
    }
}

impl FromIterator<Summary> for Summaries {
    fn from_iter<T: IntoIterator<Item = Summary>>(summaries: T) -> Self {
        Summaries(summaries.into_iter().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Latencies;

    fn summary(values: impl IntoIterator<Item = u64>) -> Summary {
        let mut latencies = Latencies::default();
        values.into_iter().for_each(|value| latencies.record(value));
        latencies.summary()
    }

    #[test]
    fn moments_are_those_of_all_points() {
        let (few, many) = ([100, 300], [500, 600, 700, 1_000]);
        let several: Summaries = [summary(few), summary(many)].into_iter().collect();
        let all = summary(few.into_iter().chain(many));
        assert_eq!((several.count(), several.min_ns(), several.max_ns()), (6, 100, 1_000));
        assert!((several.mean_ns() - all.mean_ns).abs() < 1e-6, "{} {}", several.mean_ns(), all.mean_ns);
        assert!((several.deviation_ns() - all.stddev_ns).abs() < 1e-6);
        // By hand: the mean is 533.3, the squares of what is between sum up to 493,333.
        assert!((several.deviation_ns() - 286.744).abs() < 0.01, "{}", several.deviation_ns());
    }

    #[test]
    fn a_percentile_is_the_median_of_the_runs_and_none_beyond_the_points() {
        let runs = [1_000, 5_000, 2_000].map(|far| summary((0..999).map(|_| 100).chain([far])));
        let several: Summaries = runs.into_iter().collect();
        let [p50, .., p999, p9999, p99999, p999999] = several.percentiles();
        assert_eq!(p50, Some(100.0));
        assert!(p999.is_some() && p9999.or(p99999).or(p999999).is_none());
        let many: Summaries = [summary((0..2_000_000).map(|at| at / 1_000))].into_iter().collect();
        assert!(many.percentiles().iter().all(Option::is_some));
        assert_eq!(many.percentiles()[6], Some(1_999.0));
    }

    #[test]
    fn without_a_run_there_is_no_figure() {
        let none = Summaries::default();
        assert_eq!((none.percentiles(), none.count(), none.max_ns()), ([None; 7], 0, 0));
        assert!(none.mean_ns().is_nan() && none.deviation_ns().is_nan());
        let empty: Summaries = [Summary::default(), summary([7])].into_iter().collect();
        assert_eq!((empty.min_ns(), empty.percentiles()[0]), (7, None));
    }
}

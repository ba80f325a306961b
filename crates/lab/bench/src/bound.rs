//! What a run of several pairs comes to in a search for the highest rate.

use crate::pair::Streamed;
use crate::report;
use crate::search::{Bound, Trial};

/// A run at a rate: each pair's part of it.
#[derive(Debug)]
pub(crate) struct Tried {
    pub(crate) streams: Vec<Streamed>,
    pub(crate) bound: Option<Bound>,
}

impl Tried {
    /// What the bound is about, in nanoseconds, of the pair in which it is longest; none without a bound.
    pub(crate) fn figure_ns(&self) -> Option<u64> {
        let percentile = self.bound?.percentile;
        self.streams.iter().map(|streamed| percentile.of(&streamed.observed.latencies)).max()
    }

    /// Whether each pair keeps the bound.
    fn is_under(&self) -> bool {
        let holds =
            |bound: Bound| self.streams.iter().all(|streamed| bound.holds(&streamed.observed.latencies));
        self.bound.is_none_or(holds)
    }

    /// Why it does not do; empty if it does.
    pub(crate) fn faults(&self) -> String {
        let lost: u64 = self.streams.iter().map(Streamed::lost).sum();
        let unsent: u64 = self.streams.iter().map(|streamed| streamed.unsent).sum();
        let late = self.streams.iter().map(|streamed| streamed.late).max().unwrap_or_default();
        let is_sustained = self.streams.iter().all(Streamed::is_sustained);
        let mut faults = Vec::new();
        if lost > 0 {
            faults.push(format!("{lost} lost"));
        }
        if unsent > 0 {
            faults.push(format!("{unsent} unsent"));
        }
        if !is_sustained && faults.is_empty() {
            faults.push(format!("{} ms late", late.as_millis()));
        }
        if let (Some((bound, ns)), false) = (self.bound.zip(self.figure_ns()), self.is_under()) {
            faults.push(format!("{} {} us", bound.percentile.name(), report::micros(ns as f64)));
        }
        faults.join(", ")
    }
}

impl Trial for Tried {
    fn is_sustained(&self) -> bool {
        self.streams.iter().all(Streamed::is_sustained) && self.is_under()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use measure::Summary;

    use super::*;
    use crate::search::Search;

    fn bound(percentile: &str) -> Option<Bound> {
        let percentile = percentile.parse().expect("it is known");
        Some(Bound { percentile, under: Duration::from_millis(1) })
    }

    fn tried(bound: Option<Bound>, received: u64, p99_ns: u64) -> Tried {
        let streams = [1_000, p99_ns].map(|p99_ns| {
            let mut streamed = Streamed::of_test(100, received);
            streamed.observed.latencies =
                Summary { count: 1, p99_ns, max_ns: 2 * p99_ns, ..Summary::default() };
            streamed
        });
        Tried { streams: streams.to_vec(), bound }
    }

    #[test]
    fn the_pair_that_is_slowest_counts_and_so_does_loss() {
        assert!(tried(bound("99"), 100, 999_999).is_sustained());
        assert!(!tried(bound("99"), 100, 1_000_000).is_sustained());
        assert!(!tried(bound("max"), 100, 999_999).is_sustained());
        assert!(!tried(bound("99"), 99, 10).is_sustained());
        assert!(tried(None, 100, 1_000_000).is_sustained() && !tried(None, 99, 10).is_sustained());
        assert_eq!(tried(bound("99"), 100, 10).faults(), "");
        assert_eq!(tried(bound("99"), 99, 1_500_000).faults(), "2 lost, p99 1500.0 us");
    }

    #[test]
    fn the_search_brackets_the_rate_at_which_the_bound_is_left() {
        // The latency grows as the rate does, and passes a millisecond at 125,000 messages a second.
        let run = |rate: f64| Ok::<_, String>(tried(bound("99"), 100, (rate * 8.0) as u64));
        let search = Search { from: 25e3, bounds: (1e3, 50e6), precision: 0.05, confirmations: 2 };
        let found = search.highest(run).expect("no run fails");
        let (rate, above) = (found.rate.expect("some rate does"), found.above.expect("some rate does not").0);
        assert!(rate < 125_000.0 && above >= 125_000.0 && above <= rate * 1.05, "{rate} {above}");
        assert_eq!(found.runs.len(), 2);
        assert!(found.trials > 4);
    }
}

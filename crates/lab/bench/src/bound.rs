//! The highest rate at which a percentile of the latency stays under a bound.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use clap::Args;
use measure::{PERCENTILES, Summary};
use serde_json::{Value, json};

use crate::pair::Streamed;
use crate::report;
use crate::search::{Search, Trial};

/// A bound that a rate must keep.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct BoundArgs {
    /// Searches, in place of --rates, the highest rate at which the percentile stays under this latency (`1ms`, `500us`).
    #[arg(long, value_name = "TIME", value_parser = time, conflicts_with = "rates")]
    under: Option<Duration>,
    /// Percentile that --under bounds: 50, 90, 99, 99.9 to 99.9999, or max. The machine's own gaps, printed below the table,
    /// decide about the last ones.
    #[arg(long, value_name = "PERCENTILE", default_value_t = Percentile(Some(2)), requires = "under")]
    percentile: Percentile,
    /// The search ends when the lowest rate that does not keep the bound is at most so many percent above the highest one
    /// that does.
    #[arg(long, value_name = "PERCENT", default_value_t = 5, requires = "under",
        value_parser = clap::value_parser!(u8).range(1..=100))]
    precision: u8,
}

/// By its place in [`PERCENTILES`]; none for the longest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Percentile(Option<usize>);

impl Percentile {
    /// As a table calls it.
    pub(crate) fn name(self) -> &'static str {
        self.0.map_or("maximum", |at| PERCENTILES[at].0)
    }

    /// Nanoseconds.
    fn of(self, summary: &Summary) -> u64 {
        self.0.map_or(summary.max_ns, |at| PERCENTILES[at].2(summary))
    }
}

impl fmt::Display for Percentile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.map_or("max", |at| &PERCENTILES[at].0[1..]))
    }
}

impl FromStr for Percentile {
    type Err = String;

    fn from_str(text: &str) -> Result<Percentile, String> {
        if text == "max" {
            return Ok(Percentile(None));
        }
        let at = PERCENTILES.iter().position(|(name, ..)| name.strip_prefix('p') == Some(text));
        at.map(|at| Percentile(Some(at))).ok_or_else(|| {
            let known: Vec<&str> = PERCENTILES.iter().map(|(name, ..)| &name[1..]).collect();
            format!("{text} is none of {}, max", known.join(", "))
        })
    }
}

/// A time with its unit.
fn time(text: &str) -> Result<Duration, String> {
    let at = text.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(text.len());
    let (number, unit) = text.split_at(at);
    let scale = match unit {
        "us" => 1e-6,
        "ms" => 1e-3,
        "s" => 1.0,
        _ => return Err(format!("a time has a unit, us, ms or s: {text}")),
    };
    let seconds = number.trim().parse::<f64>().map(|number| number * scale);
    let seconds = seconds.ok().filter(|seconds| (1e-6..=60.0).contains(seconds));
    seconds.map(Duration::from_secs_f64).ok_or_else(|| format!("1us to 60s, not {text}"))
}

/// The first rate that is tried, and the range of all, messages a second.
const FROM: f64 = 25_000.0;
const BOUNDS: (f64, f64) = (1_000.0, 50e6);

impl BoundArgs {
    /// What is asked for, if anything is.
    pub(crate) fn bound(&self) -> Option<Bound> {
        self.under.map(|under| Bound { under_ns: under.as_nanos() as u64, percentile: self.percentile })
    }

    /// How the rate is searched, and so often confirmed.
    pub(crate) fn search(&self, confirmations: u32) -> Search {
        Search { from: FROM, bounds: BOUNDS, precision: f64::from(self.precision) / 100.0, confirmations }
    }
}

impl Default for BoundArgs {
    fn default() -> Self {
        BoundArgs { under: None, percentile: Percentile(Some(2)), precision: 5 }
    }
}

/// What a rate must keep.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bound {
    pub(crate) under_ns: u64,
    pub(crate) percentile: Percentile,
}

impl Bound {
    pub(crate) fn json(self) -> Value {
        json!({ "under_ns": self.under_ns, "percentile": self.percentile.to_string() })
    }
}

impl fmt::Display for Bound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} under {:?}", self.percentile.name(), Duration::from_nanos(self.under_ns))
    }
}

/// A run at a rate: each pair's part of it.
#[derive(Debug)]
pub(crate) struct Tried {
    pub(crate) streams: Vec<Streamed>,
    pub(crate) bound: Bound,
}

impl Tried {
    /// Nanoseconds of the pair in which it is longest.
    pub(crate) fn figure_ns(&self) -> u64 {
        let of = |streamed: &Streamed| self.bound.percentile.of(&streamed.observed.latencies);
        self.streams.iter().map(of).max().unwrap_or(0)
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
        if self.figure_ns() >= self.bound.under_ns {
            faults.push(format!(
                "{} {} us",
                self.bound.percentile.name(),
                report::micros(self.figure_ns() as f64)
            ));
        }
        faults.join(", ")
    }
}

impl Trial for Tried {
    fn is_sustained(&self) -> bool {
        self.streams.iter().all(Streamed::is_sustained) && self.figure_ns() < self.bound.under_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bound(percentile: &str) -> Bound {
        Bound { under_ns: 1_000_000, percentile: percentile.parse().expect("it is known") }
    }

    fn tried(bound: Bound, received: u64, p99_ns: u64) -> Tried {
        let streams = [1_000, p99_ns].map(|p99_ns| {
            let mut streamed = Streamed::of_test(100, received);
            streamed.observed.latencies = Summary { p99_ns, max_ns: 2 * p99_ns, ..Summary::default() };
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
        assert_eq!(tried(bound("99"), 100, 10).faults(), "");
        assert_eq!(tried(bound("99"), 99, 1_500_000).faults(), "2 lost, p99 1500.0 us");
    }

    #[test]
    fn the_search_brackets_the_rate_at_which_the_bound_is_left() {
        // The latency grows as the rate does, and passes a millisecond at 125,000 messages a second.
        let arguments = BoundArgs::default();
        let run = |rate: f64| Ok::<_, String>(tried(bound("99"), 100, (rate * 8.0) as u64));
        let found = arguments.search(2).highest(run).expect("no run fails");
        let (rate, above) = (found.rate.expect("some rate does"), found.above.expect("some rate does not").0);
        assert!(rate < 125_000.0 && above >= 125_000.0 && above <= rate * 1.05, "{rate} {above}");
        assert_eq!(found.runs.len(), 2);
        assert!(found.trials > 4);
    }

    #[test]
    fn times_and_percentiles_are_read_or_refused_with_what_is_allowed() {
        assert_eq!(time("1ms"), Ok(Duration::from_millis(1)));
        assert_eq!(time("1.5 us"), Ok(Duration::from_nanos(1_500)));
        for wrong in ["1", "ms", "0us", "61s", "nans", "1h", "-1ms"] {
            assert!(time(wrong).is_err(), "{wrong}");
        }
        for text in ["50", "99", "99.9", "99.9999", "max"] {
            assert_eq!(text.parse::<Percentile>().expect("it is known").to_string(), text);
        }
        assert!("98".parse::<Percentile>().expect_err("unknown").contains("99.9"));
        assert_eq!(bound("max").to_string(), "maximum under 1ms");
        assert_eq!(bound("99").to_string(), "p99 under 1ms");
    }
}

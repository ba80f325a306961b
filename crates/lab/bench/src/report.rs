//! What a workload prints.

use std::fmt::Display;
use std::io::{self, IsTerminal, Write};

use measure::{Machine, PERCENTILES, Runs, Summaries, Summary, Table};
use serde_json::{Value, json};

use crate::{BenchError, recording};

/// Rows of figures, each with its name, for people or for programs.
pub(crate) struct Report {
    title: &'static str,
    json: bool,
    heads: Vec<&'static str>,
    rows: Vec<Vec<String>>,
    notes: Vec<String>,
    /// Of the first line that standard output did not take; nothing is written after it.
    failed: Option<io::Error>,
}

impl Report {
    pub(crate) fn new(title: &'static str, json: bool, heads: &[&'static str]) -> Report {
        recording::record(|run| run.table(title, heads));
        Report { title, json, heads: heads.to_vec(), rows: Vec::new(), notes: Vec::new(), failed: None }
    }

    /// Adds a row; the object says the same for programs. What it has as [`HISTOGRAMS`] goes to the run directory alone.
    pub(crate) fn row(&mut self, cells: impl IntoIterator<Item = String>, mut object: Value) {
        let cells: Vec<String> = cells.into_iter().collect();
        let histograms = take_histograms(&mut object);
        recording::record(|run| run.row(&cells, &object, &histograms));
        if self.json {
            let machine = Machine::this().to_string();
            self.say(json!({ "workload": self.title, "machine": machine, "figures": object }));
        }
        self.rows.push(cells);
    }

    /// Adds a row of what the object of the row before has said to programs.
    pub(crate) fn continued(&mut self, cells: impl IntoIterator<Item = String>) {
        let cells: Vec<String> = cells.into_iter().collect();
        recording::record(|run| run.row(&cells, &Value::Null, &[]));
        self.rows.push(cells);
    }

    /// Adds a sentence, to stand below the table.
    pub(crate) fn note(&mut self, text: String) {
        recording::record(|run| run.note(&text, None));
        if self.json {
            self.say(json!({ "workload": self.title, "note": text }));
        }
        self.notes.push(text);
    }

    /// The same with something for programs beside it.
    pub(crate) fn note_with(&mut self, text: String, object: Value) {
        recording::record(|run| run.note(&text, Some(&object)));
        if self.json {
            self.say(json!({ "workload": self.title, "note": text, "state": object }));
        }
        self.notes.push(text);
    }

    /// Adds a sentence that has not been said yet.
    pub(crate) fn note_once(&mut self, text: String) {
        if !self.notes.contains(&text) {
            self.note(text);
        }
    }

    /// Says on a terminal what is being measured; the next line takes its place.
    pub(crate) fn progress(&self, what: &str) {
        if io::stderr().is_terminal() {
            // What cannot be shown is not missed.
            let _ = write!(io::stderr(), "\r{}: {what}\x1b[K", self.title);
        }
    }

    /// A line of standard output.
    fn say(&mut self, line: impl Display) {
        if self.failed.is_none() {
            self.failed = writeln!(io::stdout(), "{line}").err();
        }
    }

    /// Prints the table.
    ///
    /// # Errors
    /// Standard output did not take it, or a line before it.
    pub(crate) fn print(mut self) -> Result<(), BenchError> {
        if io::stderr().is_terminal() {
            let _ = write!(io::stderr(), "\r\x1b[K");
        }
        if self.json {
            return self.failed.map_or(Ok(()), |error| Err(BenchError::Output(error)));
        }
        let mut table = Table::new(&self.heads);
        self.rows.drain(..).for_each(|row| table.row(row));
        let title = self.title;
        self.say(format_args!("\n{title}: {}\n\n{table}", Machine::this()));
        for note in std::mem::take(&mut self.notes) {
            self.say(note);
        }
        self.failed.map_or(Ok(()), |error| Err(BenchError::Output(error)))
    }
}

/// Median, and the range behind it.
pub(crate) fn spread(runs: &Runs, show: impl Fn(f64) -> String) -> String {
    let (low, high) = runs.range();
    format!("{} ({} to {})", show(runs.median()), show(low), show(high))
}

/// The same for programs, with the figure of each run.
pub(crate) fn spread_json(runs: &Runs) -> Value {
    let (low, high) = runs.range();
    json!({ "median": runs.median(), "low": low, "high": high, "runs": runs.figures() })
}

/// The buckets of each run in an object that [`Report::row`] gets.
const HISTOGRAMS: &str = "histograms";

/// Takes all histograms out of an object, wherever they are in it: it is for people and programs that want figures. The first
/// ones are those of the row.
fn take_histograms(object: &mut Value) -> Vec<Vec<(u64, u64)>> {
    let Value::Object(members) = object else { return Vec::new() };
    let own = members.remove(HISTOGRAMS).and_then(|value| serde_json::from_value(value).ok());
    let inside: Vec<_> =
        members.values_mut().map(take_histograms).filter(|found| !found.is_empty()).collect();
    own.or_else(|| inside.into_iter().next()).unwrap_or_default()
}

/// Heads of the columns that [`latency_cells`] fills.
pub(crate) const LATENCY_HEADS: [&str; 12] = [
    "p50 us",
    "p90 us",
    "p99 us",
    "p99.9 us",
    "p99.99 us",
    "p99.999 us",
    "p99.9999 us",
    "mean us",
    "deviation us",
    "shortest us",
    "longest us",
    "points",
];

/// What those columns are.
pub(crate) const LATENCY_NOTE: &str = "Percentiles are medians of the runs' (p50 with the range of the runs), and left out \
     where a run has too few points; mean, standard deviation, shortest and longest are of all points of all runs.";

/// Latencies of several runs, as a table has them.
pub(crate) fn latency_cells(latencies: &Summaries, show: impl Fn(f64) -> String) -> Vec<String> {
    let none = || "-".to_owned();
    if latencies.count() == 0 {
        return LATENCY_HEADS.map(|head| if head == "points" { "0".to_owned() } else { none() }).to_vec();
    }
    let mut cells: Vec<String> =
        latencies.percentiles().map(|percentile| percentile.map_or_else(none, &show)).to_vec();
    cells[0] = spread(&latencies.p50(), &show);
    let moments = [latencies.mean_ns(), latencies.deviation_ns()];
    let ends = [latencies.min_ns(), latencies.max_ns()].map(|ns| ns as f64);
    cells.extend(moments.into_iter().chain(ends).map(show));
    cells.push(latencies.count().to_string());
    cells
}

/// The same for programs, in nanoseconds, beside `more`: `p50_ns` to `p999999_ns`, `mean_ns` and `max_ns` of the runs, median
/// and range; in `all`, of all points, `mean_ns`, `deviation_ns`, `shortest_ns`, `longest_ns` and how many `points` there are.
/// With too few points a percentile is the longest. The buckets of each run are there for [`Report::row`].
pub(crate) fn latency_json(latencies: &Summaries, mut more: Value) -> Value {
    let of_runs =
        |figure: fn(&Summary) -> u64| spread_json(&latencies.runs(|summary| figure(summary) as f64));
    for (name, _, figure) in PERCENTILES {
        more[format!("{}_ns", name.replace('.', ""))] = of_runs(figure);
    }
    more["mean_ns"] = spread_json(&latencies.runs(|summary| summary.mean_ns));
    more["max_ns"] = of_runs(|summary| summary.max_ns);
    more["all"] = json!({
        "mean_ns": latencies.mean_ns(), "deviation_ns": latencies.deviation_ns(),
        "shortest_ns": latencies.min_ns(), "longest_ns": latencies.max_ns(), "points": latencies.count(),
    });
    let buckets: Vec<_> =
        latencies.each().filter(|run| !run.buckets.is_empty()).map(|run| &run.buckets).collect();
    if !buckets.is_empty() {
        more[HISTOGRAMS] = json!(buckets);
    }
    more
}

pub(crate) fn micros(ns: f64) -> String {
    format!("{:.1}", ns / 1000.0)
}

/// With as many digits as a time in shared memory needs.
pub(crate) fn fine_micros(ns: f64) -> String {
    if ns < 10_000.0 { format!("{:.3}", ns / 1000.0) } else { micros(ns) }
}

pub(crate) fn millions(count: f64) -> String {
    format!("{:.2} M", count / 1e6)
}

pub(crate) fn one_decimal(value: f64) -> String {
    format!("{value:.1}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use measure::Latencies;

    #[test]
    fn histograms_are_in_no_object_that_is_printed() {
        let mut latencies = Latencies::default();
        [5_000, 5_000, 70_000].into_iter().for_each(|ns| latencies.record(ns));
        let runs: Summaries = [latencies.spread(), latencies.spread()].into_iter().collect();
        let buckets = latencies.spread().buckets;
        let mut plain = latency_json(&runs, json!({ "way": "a" }));
        let mut nested = json!({ "steady": latency_json(&runs, json!({})), "rate": 5 });
        nested["steady"]["alone"] = latency_json(&runs, json!({}));
        for object in [&mut plain, &mut nested] {
            assert_eq!(take_histograms(object), [buckets.clone(), buckets.clone()]);
            assert!(!object.to_string().contains(HISTOGRAMS), "{object}");
        }
        assert!(take_histograms(&mut json!(3)).is_empty());
    }
}

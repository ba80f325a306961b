//! What a workload prints.

use std::fmt::Display;
use std::io::{self, IsTerminal, Write};

use measure::{Machine, Runs, Table};
use serde_json::{Value, json};

use crate::BenchError;

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
        Report { title, json, heads: heads.to_vec(), rows: Vec::new(), notes: Vec::new(), failed: None }
    }

    /// Adds a row; the object says the same for programs.
    pub(crate) fn row(&mut self, cells: impl IntoIterator<Item = String>, object: Value) {
        if self.json {
            let machine = Machine::this().to_string();
            self.say(json!({ "workload": self.title, "machine": machine, "figures": object }));
        }
        self.rows.push(cells.into_iter().collect());
    }

    /// Adds a sentence, to stand below the table.
    pub(crate) fn note(&mut self, text: String) {
        if self.json {
            self.say(json!({ "workload": self.title, "note": text }));
        }
        self.notes.push(text);
    }

    /// The same with something for programs beside it.
    pub(crate) fn note_with(&mut self, text: String, object: Value) {
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

/// The same for programs.
pub(crate) fn spread_json(runs: &Runs) -> Value {
    let (low, high) = runs.range();
    json!({ "median": runs.median(), "low": low, "high": high })
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

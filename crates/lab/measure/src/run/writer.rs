use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use net::clock;
use serde_json::{Value, json};
use units::Nanos;

use super::disclosure::is_empty_or_absent;
use super::{
    ABOUT, ABOUT_NEW, About, Disclosure, FORMAT, HISTOGRAMS, LOGS, RECORDS, RunError, system_counters,
};

/// Processes of a run whose arguments are kept; a long run starts the same ones again and again.
const PROCESSES_MAX: usize = 1_000;

/// A run that is being recorded.
///
/// Lines are on disk before the next thing is measured. What cannot be written is told at the end: a full disk does not
/// cost the figures that are on the terminal.
pub struct RunDirectory {
    path: PathBuf,
    about: About,
    began: Nanos,
    counters: BTreeMap<String, u64>,
    records: BufWriter<File>,
    histograms: BufWriter<File>,
    rows: usize,
    processes: usize,
    failed: Option<RunError>,
}

impl RunDirectory {
    /// Makes the directory, which must not be there or be empty, and says in it what is about to run.
    ///
    /// # Errors
    /// It holds something, or cannot be written.
    pub fn create(
        path: &Path,
        command: Vec<String>,
        version: &str,
        commit: Option<&str>,
    ) -> Result<RunDirectory, RunError> {
        let at = |error| RunError::File(path.to_owned(), error);
        if !is_empty_or_absent(path).map_err(at)? {
            let what = "is not empty; a run is recorded in a directory of its own";
            return Err(RunError::Content(path.to_owned(), what.to_owned()));
        }
        let about = About {
            format: FORMAT,
            command,
            version: version.to_owned(),
            commit: commit.map(str::to_owned),
            began_ns: clock::wall_ns(),
            machine: Disclosure::this(),
            ..About::default()
        };
        // What it is comes first: without that, nobody would know what to do with the rest.
        fs::create_dir_all(path).map_err(at)?;
        write_about(path, &about)?;
        fs::create_dir(path.join(LOGS)).map_err(at)?;
        let create = |name: &str| {
            let path = path.join(name);
            File::create(&path).map(BufWriter::new).map_err(|error| RunError::File(path, error))
        };
        Ok(RunDirectory {
            path: path.to_owned(),
            about,
            began: clock::monotonic(),
            counters: system_counters(),
            records: create(RECORDS)?,
            histograms: create(HISTOGRAMS)?,
            rows: 0,
            processes: 0,
            failed: None,
        })
    }

    /// The directory.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Where the process of this name may write what it has to say.
    #[must_use]
    pub fn log(&self, name: &str) -> PathBuf {
        self.path.join(LOGS).join(format!("{name}.log"))
    }

    /// A table begins; rows and notes that follow belong to it.
    pub fn table(&mut self, name: &str, heads: &[&str]) {
        self.record(&json!({ "table": name, "heads": heads }));
    }

    /// A row, with the buckets of each of its runs: nanoseconds, count.
    pub fn row(&mut self, cells: &[String], figures: &Value, histograms: &[Vec<(u64, u64)>]) {
        let row = self.rows;
        self.rows += 1;
        self.record(&json!({ "row": row, "cells": cells, "figures": figures }));
        for (run, buckets) in histograms.iter().enumerate() {
            let line = json!({ "row": row, "run": run, "buckets": buckets });
            let written = write_line(&mut self.histograms, &line);
            self.note_failure(HISTOGRAMS, written);
        }
    }

    /// A sentence below the table.
    pub fn note(&mut self, text: &str, state: Option<&Value>) {
        self.record(&json!({ "note": text, "state": state }));
    }

    /// A process was started. The first thousand are kept.
    pub fn process(&mut self, name: &str, arguments: &[String]) {
        self.processes += 1;
        if self.processes <= PROCESSES_MAX {
            self.record(&json!({ "process": name, "arguments": arguments }));
        }
    }

    fn record(&mut self, line: &Value) {
        let written = write_line(&mut self.records, line);
        self.note_failure(RECORDS, written);
    }

    fn note_failure(&mut self, name: &str, written: io::Result<()>) {
        if let (Err(error), None) = (written, &self.failed) {
            self.failed = Some(RunError::File(self.path.join(name), error));
        }
    }

    /// The run has ended: well, or with this error.
    ///
    /// # Errors
    /// Something of it could not be written, now or before.
    pub fn finish(mut self, error: Option<&str>) -> Result<(), RunError> {
        self.about.finished = true;
        self.about.seconds = Some(clock::monotonic().since(self.began).as_secs_f64());
        self.about.error = error.map(str::to_owned);
        let changed = |(name, value): (String, u64)| {
            let grown = value.checked_sub(self.counters.get(&name).copied().unwrap_or(0))?;
            (grown > 0).then_some((name, grown))
        };
        self.about.counted = system_counters().into_iter().filter_map(changed).collect();
        write_about(&self.path, &self.about)?;
        self.failed.map_or(Ok(()), Err)
    }
}

/// As a whole or not at all: who reads it meanwhile finds the one before.
fn write_about(run: &Path, about: &About) -> Result<(), RunError> {
    let (path, new) = (run.join(ABOUT), run.join(ABOUT_NEW));
    let text = serde_json::to_string_pretty(about).map_err(io::Error::other);
    let written = text.and_then(|text| fs::write(&new, text + "\n")).and_then(|()| fs::rename(&new, &path));
    written.map_err(|error| RunError::File(path, error))
}

/// Removes a run.
///
/// # Errors
/// Something in it is none of a run's, which stays, or cannot be removed.
pub fn remove(run: &Path) -> Result<(), RunError> {
    let at = |path: &Path, error: io::Error| RunError::File(path.to_owned(), error);
    let gone = |path: &Path| match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(at(path, error)),
        _ => Ok(()),
    };
    let logs = run.join(LOGS);
    for log in fs::read_dir(&logs).into_iter().flatten() {
        let log = log.map_err(|error| at(&logs, error))?.path();
        if log.extension().is_some_and(|end| end == "log") {
            gone(&log)?;
        }
    }
    match fs::remove_dir(&logs) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(at(&logs, error)),
        _ => {}
    }
    [ABOUT_NEW, RECORDS, HISTOGRAMS].iter().try_for_each(|name| gone(&run.join(name)))?;
    // The last: until then it is a run.
    gone(&run.join(ABOUT))?;
    fs::remove_dir(run).map_err(|error| at(run, error))
}

fn write_line(file: &mut BufWriter<File>, line: &Value) -> io::Result<()> {
    writeln!(file, "{line}")?;
    file.flush()
}

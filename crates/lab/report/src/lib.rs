//! Reports of recorded runs: what `tickcast bench --out DIR` has left, as a page that is read by people.
//!
//! ```
//! use clap::Parser;
//! use tickcast_report::ReportArgs;
//!
//! /// A program with the command `report`, as `tickcast` is one.
//! #[derive(Parser)]
//! enum Command {
//!     Report(ReportArgs),
//! }
//!
//! let Command::Report(args) = Command::parse_from(["tickcast", "report", "runs/pingpong", "--to", "page"]);
//! match tickcast_report::run(&args) {
//!     Ok(written) => assert!(written[0].ends_with("page.html")),
//!     Err(error) => assert!(error.to_string().contains("runs/pingpong")),   // no such run here
//! }
//! ```
//!
//! A report has the parts of the published ones: key results with a verdict on each goal, the stack under test, the method
//! with the commands, a section for each workload (table, charts, published figures beside), limitations. It is one page of
//! HTML that loads nothing, and Markdown with its charts beside it. Every figure comes from a run directory
//! ([`measure::run`]); none is typed by hand.

mod chart;
mod charts;
mod compare;
mod compose;
mod figures;
mod goals;
mod html;
mod markdown;
mod page;
mod published;
mod scale;

use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use clap::Args;
use measure::run::{RecordedRun, RunError};
use net::whole_file;

/// Runs that one report takes.
const RUNS_MAX: usize = 1_000;

/// Makes a page of recorded runs: tables, charts, verdicts, published figures beside.
#[derive(Debug, Args)]
pub struct ReportArgs {
    /// Directories of runs (`tickcast bench --out DIR ...`), or directories that hold such directories.
    #[arg(required = true, value_name = "DIR")]
    runs: Vec<PathBuf>,
    /// Compares with the runs in these directories: ratios of the medians, with confidence intervals over the runs.
    #[arg(long, value_name = "DIR", num_args = 1..)]
    against: Vec<PathBuf>,
    /// Where the report goes: NAME.html, NAME.md, and the charts of the latter in NAME-charts/.
    #[arg(long, default_value = "report", value_name = "NAME")]
    to: PathBuf,
    /// Title of the page; else version, machine and day.
    #[arg(long)]
    title: Option<String>,
}

/// Why there is no report.
#[derive(Debug)]
pub enum ReportError {
    /// A run cannot be read.
    Run(RunError),
    /// A directory has no runs, or too many.
    Runs(PathBuf, String),
    /// A file of the report cannot be written.
    Write(PathBuf, io::Error),
}

impl fmt::Display for ReportError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ReportError::Run(error) => error.fmt(f),
            ReportError::Runs(path, what) => write!(f, "{}: {what}", path.display()),
            ReportError::Write(path, error) => write!(f, "{}: {error}", path.display()),
        }
    }
}

impl std::error::Error for ReportError {}

impl From<RunError> for ReportError {
    fn from(error: RunError) -> Self {
        ReportError::Run(error)
    }
}

/// Reads the runs and writes the report; the files that were written, the page first.
///
/// # Errors
/// A directory is no run, a run is not understood, or a file cannot be written.
pub fn run(args: &ReportArgs) -> Result<Vec<PathBuf>, ReportError> {
    let runs = read_all(&args.runs)?;
    let before = read_all(&args.against)?;
    let page = compose::page(args.title.as_deref(), &runs, &before);
    let with = |end: &str| {
        let mut name = args.to.file_name().unwrap_or_default().to_owned();
        name.push(end);
        args.to.with_file_name(name)
    };
    let (html, text, folder) = (with(".html"), with(".md"), with("-charts"));
    let folder_name = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let (markdown, charts) = markdown::page(&page, &folder_name);
    write(&html, &html::page(&page))?;
    write(&text, &markdown)?;
    if !charts.is_empty() {
        fs::create_dir_all(&folder).map_err(|error| ReportError::Write(folder.clone(), error))?;
    }
    let mut written = vec![html, text];
    for chart in charts {
        let path = folder.join(&chart.name);
        write(&path, &chart.svg)?;
        written.push(path);
    }
    Ok(written)
}

/// As a whole or not at all, so that a report that was good stays where there is no room for a new one.
fn write(path: &Path, text: &str) -> Result<(), ReportError> {
    whole_file::write(path, text.as_bytes()).map_err(|error| ReportError::Write(path.to_owned(), error))
}

fn read_all(paths: &[PathBuf]) -> Result<Vec<RecordedRun>, ReportError> {
    let mut directories: Vec<PathBuf> = Vec::new();
    for path in paths {
        // A run that is named twice is still one.
        let new =
            directories_of(path)?.into_iter().filter(|path| !directories.contains(path)).collect::<Vec<_>>();
        directories.extend(new);
    }
    if let Some(path) = directories.get(RUNS_MAX) {
        return Err(ReportError::Runs(path.clone(), format!("more than {RUNS_MAX} runs")));
    }
    Ok(directories.iter().map(|path| RecordedRun::read(path)).collect::<Result<_, _>>()?)
}

/// The directory itself if it is a run, else those in it that are, by name.
fn directories_of(path: &Path) -> Result<Vec<PathBuf>, ReportError> {
    if measure::run::is_run(path) {
        return Ok(vec![path.to_owned()]);
    }
    let at = |error: io::Error| ReportError::Runs(path.to_owned(), error.to_string());
    let mut inside = Vec::new();
    for entry in fs::read_dir(path).map_err(at)? {
        let entry = entry.map_err(at)?.path();
        if measure::run::is_run(&entry) {
            inside.push(entry);
        }
    }
    if inside.is_empty() {
        let what =
            "no run: neither it nor a directory in it has a run.json, as `tickcast bench --out DIR` makes it";
        return Err(ReportError::Runs(path.to_owned(), what.to_owned()));
    }
    inside.sort();
    Ok(inside)
}

#[cfg(test)]
mod tests {
    use super::*;
    use measure::run::RunDirectory;
    use serde_json::json;

    struct Place(PathBuf);

    impl Place {
        fn new(name: &str) -> Place {
            let path = std::env::temp_dir().join(format!("report-{}-{name}", std::process::id()));
            fs::create_dir_all(&path).expect("made");
            Place(path)
        }

        fn args(&self, runs: &[&str]) -> ReportArgs {
            let of = |name: &&str| self.0.join(name);
            ReportArgs {
                runs: runs.iter().map(of).collect(),
                against: Vec::new(),
                to: self.0.join("made"),
                title: None,
            }
        }
    }

    impl Drop for Place {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    fn record(path: &Path, p50: f64) {
        let command = vec!["tickcast".to_owned(), "bench".to_owned(), "pingpong".to_owned()];
        let mut run = RunDirectory::create(path, command, "9.9.9", None).expect("made");
        run.table("pingpong", &["path", "p50 us"]);
        let runs = [1.0, 1.01, 1.02, 1.03, 1.04].map(|by| by * p50);
        let spread = json!({ "median": runs[2], "low": runs[0], "high": runs[4], "runs": runs });
        let figures =
            json!({ "path": "tcp", "size": 64, "way": "tickcast, TCP", "to_raw": 1.2, "p50_ns": spread });
        run.row(&["tcp".to_owned(), "4.1".to_owned()], &figures, &[vec![(p50 as u64, 900), (90_000, 100)]]);
        run.note("Both ends spin.", None);
        run.finish(None).expect("written");
    }

    #[test]
    fn runs_become_a_page_that_has_their_figures() {
        let place = Place::new("page");
        record(&place.0.join("a"), 4_100.0);
        record(&place.0.join("b"), 8_200.0);
        let args = ReportArgs { against: vec![place.0.join("b")], ..place.args(&["a"]) };
        let written = run(&args).expect("a report");
        let html = fs::read_to_string(&written[0]).expect("written");
        for what in
            ["Tickcast 9.9.9", "at most 1.10", "missed", "Both ends spin.", "Solarflare", "better", "<svg "]
        {
            assert!(html.contains(what), "{what}");
        }
        let text = fs::read_to_string(&written[1]).expect("written");
        for chart in &written[2..] {
            let name = chart.file_name().expect("a file").to_string_lossy();
            assert!(text.contains(&format!("(made-charts/{name})")), "{name}");
            assert!(fs::read_to_string(chart).expect("written").contains("prefers-color-scheme"));
        }
        assert!(written.len() > 3, "{written:?}");
    }

    #[test]
    fn a_directory_of_runs_is_all_of_them() {
        let place = Place::new("all");
        record(&place.0.join("b"), 1.0);
        record(&place.0.join("a"), 2.0);
        fs::create_dir(place.0.join("c")).expect("made");
        let runs = directories_of(&place.0).expect("two");
        assert_eq!(runs, [place.0.join("a"), place.0.join("b")]);
        let none = run(&place.args(&["c"])).expect_err("it is empty").to_string();
        assert!(none.contains("/c: no run"), "{none}");
    }
}

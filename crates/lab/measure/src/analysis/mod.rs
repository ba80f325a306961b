//! Observations of several points: what became of each message between two of them.
//!
//! Messages are matched by their ids, every one of them. Files are looked through once, to know that they are whole. Then the
//! messages of a pair go by in the order of their ids. A file that is in this order is read as it is; others are sorted, and what
//! is more than the memory that is allowed goes to the disk. So 100 million messages take no more memory than a million.

mod figures;
mod files;
mod pairs;
mod samples;
mod sorter;
mod text;

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use observation::FileError;
use serde::Serialize;

pub use figures::Figures;
pub use files::FileSummary;
pub use pairs::{Pair, Span};

use files::Observed;
use pairs::Comparison;

/// Files that are analysed at once.
const MOST_FILES: usize = 1_000;
/// Points of which every pair is looked at.
const MOST_POINTS: usize = 32;

/// What is asked for.
#[derive(Clone, Debug)]
pub struct Options {
    /// The first point; without it the one whose first message was first.
    pub from: Option<String>,
    /// The second one; without it the one whose first message was last.
    pub to: Option<String>,
    /// Every pair of points.
    pub is_all: bool,
    /// Width of a bucket of the histogram, nanoseconds, 1 or more.
    pub bucket_ns: u64,
    /// Length of the spans of time that are told apart, nanoseconds.
    pub over_time_ns: Option<u64>,
    /// Where each message becomes a row: CSV, or by its name a NumPy array (`.npy`).
    pub samples: Option<PathBuf>,
    /// By how much clocks of different hosts differ at most, nanoseconds.
    pub clock_error_ns: Option<u64>,
    /// Memory for sorting, bytes.
    pub memory_bytes: usize,
    /// A folder for what is more.
    pub scratch: PathBuf,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            from: None,
            to: None,
            is_all: false,
            bucket_ns: 10_000,
            over_time_ns: None,
            samples: None,
            clock_error_ns: None,
            memory_bytes: 256 << 20,
            scratch: std::env::temp_dir(),
        }
    }
}

/// What the files come to.
#[derive(Clone, Debug, Serialize)]
pub struct Analysis {
    /// What each file is of.
    pub files: Vec<FileSummary>,
    /// Each pair of points that was asked for.
    pub pairs: Vec<Pair>,
    /// What a reader of the figures has to know.
    pub notes: Vec<String>,
}

/// Why there is no analysis.
#[derive(Debug)]
pub enum AnalysisError {
    /// The system refuses something.
    Io(io::Error),
    /// A file is wrong, or files and options do not fit together.
    Input(String),
}

impl AnalysisError {
    fn file(path: &Path, error: FileError) -> AnalysisError {
        AnalysisError::Input(format!("{}: {error}", path.display()))
    }

    fn write(path: &Path, error: &io::Error) -> AnalysisError {
        AnalysisError::Io(io::Error::new(error.kind(), format!("cannot write {}: {error}", path.display())))
    }
}

impl fmt::Display for AnalysisError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AnalysisError::Io(error) => error.fmt(f),
            AnalysisError::Input(text) => f.write_str(text),
        }
    }
}

impl std::error::Error for AnalysisError {}

impl From<io::Error> for AnalysisError {
    fn from(error: io::Error) -> Self {
        AnalysisError::Io(error)
    }
}

/// Analyses files of observations. `progress` hears what is done.
///
/// # Errors
/// A file is wrong or cannot be read; there are not two points, or not those that are asked for; what was asked for cannot be
/// written.
pub fn analyse(
    paths: &[PathBuf],
    options: &Options,
    mut progress: impl FnMut(&str),
) -> Result<Analysis, AnalysisError> {
    let input = |text: String| Err(AnalysisError::Input(text));
    if paths.len() > MOST_FILES {
        return input(format!("{} files; at most {MOST_FILES} are analysed at once", paths.len()));
    }
    if options.bucket_ns == 0 || options.bucket_ns > i64::MAX as u64 || options.over_time_ns == Some(0) {
        return input("buckets and spans of time are a nanosecond at least".to_owned());
    }
    let is_input = |samples: &PathBuf| {
        let file = samples.canonicalize().ok()?;
        paths.iter().find(|path| path.canonicalize().is_ok_and(|path| path == file))
    };
    if let Some(path) = options.samples.as_ref().and_then(is_input) {
        return input(format!("--samples {}: it is one of the files that are analysed", path.display()));
    }
    let files = paths
        .iter()
        .map(|path| {
            Observed::look(path, |records| {
                progress(&format!("looks through {}: {records} records", path.display()))
            })
        })
        .collect::<Result<Vec<_>, _>>()?;
    let points = points(&files);
    let chosen = chosen(&points, options)?;
    if options.samples.is_some() && chosen.len() > 1 {
        return input("samples are those of one pair of points: name it by --from and --to".to_owned());
    }
    let mut notes = notes(&files);
    let mut pairs = Vec::new();
    for (from, to) in chosen {
        let of = |point: &str| files.iter().filter(|file| file.head.point == point).collect::<Vec<_>>();
        let comparison = Comparison { options, from: of(from), to: of(to) };
        note_streams(&comparison, &mut notes);
        pairs.push(comparison.pair(&mut |stream| progress(&format!("compares {from} and {to} {stream}")))?);
    }
    Ok(Analysis { files: files.into_iter().map(|file| file.about).collect(), pairs, notes })
}

/// Points by when their first message was there.
fn points(files: &[Observed]) -> Vec<&str> {
    // Hosts have the time of day alike.
    let first = |file: &Observed| {
        let since = file.about.first_ns.saturating_sub(file.head.start.monotonic_ns as i64);
        (file.head.start.realtime_ns as i64).saturating_add(since)
    };
    let mut by_time: Vec<(i64, &str)> = files
        .iter()
        .map(|file| (if file.about.records == 0 { i64::MAX } else { first(file) }, &*file.head.point))
        .collect();
    by_time.sort_unstable();
    let mut points = Vec::new();
    for (_, point) in by_time {
        if !points.contains(&point) {
            points.push(point);
        }
    }
    points
}

fn chosen<'a>(points: &[&'a str], options: &Options) -> Result<Vec<(&'a str, &'a str)>, AnalysisError> {
    let names = points.join(", ");
    let input = |text: String| Err(AnalysisError::Input(text));
    let named = |option: &str, wanted: &Option<String>| match wanted {
        None => Ok(None),
        Some(name) => match points.iter().find(|point| *point == name) {
            Some(point) => Ok(Some(*point)),
            None => Err(AnalysisError::Input(format!("{option} {name}: the files have the points {names}"))),
        },
    };
    let (from, to) = (named("--from", &options.from)?, named("--to", &options.to)?);
    let &[first, .., last] = points else {
        return input(format!(
            "the files have one point alone, {names}: a message is followed from one to another"
        ));
    };
    if options.is_all {
        if points.len() > MOST_POINTS {
            return input(format!("{} points; every pair is shown of at most {MOST_POINTS}", points.len()));
        }
        let pairs = points
            .iter()
            .enumerate()
            .flat_map(|(at, one)| points[at + 1..].iter().map(move |two| (*one, *two)));
        return Ok(pairs.collect());
    }
    let other_than = |point: &str, mut order: Box<dyn Iterator<Item = &&'a str> + '_>| {
        order.find(|p| **p != point).copied()
    };
    let (from, to) = match (from, to) {
        (Some(from), Some(to)) => (from, to),
        (Some(from), None) => (from, other_than(from, Box::new(points.iter().rev())).unwrap_or(last)),
        (None, Some(to)) => (other_than(to, Box::new(points.iter())).unwrap_or(first), to),
        (None, None) => (first, last),
    };
    if from == to {
        return input(format!("--from and --to are both {from}; the files have the points {names}"));
    }
    Ok(vec![(from, to)])
}

fn notes(files: &[Observed]) -> Vec<String> {
    let mut notes = Vec::new();
    for file in files {
        let (path, about) = (file.path.display(), &file.about);
        if about.not_recorded > 0 {
            notes.push(format!(
                "{path}: the recorder was full; {} messages were not taken down, and look lost here or only at the other end",
                about.not_recorded
            ));
        }
        notes.extend(file.head.doubt().map(|doubt| format!("{path}: times are doubtful: {doubt}")));
    }
    notes
}

/// A stream that only one end has is lost as a whole, which is rarely what was meant.
fn note_streams(comparison: &Comparison<'_>, notes: &mut Vec<String>) {
    let (from, to) = (&comparison.from, &comparison.to);
    for (own, others) in [(from, to), (to, from)] {
        for file in own {
            let (stream, point) = (&file.head.stream, &file.head.point);
            if others.iter().all(|other| other.head.stream != *stream) {
                let other = &others[0].head.point;
                let note = format!(
                    "stream {stream:?} is at {point} and not at {other}: messages are matched within a stream"
                );
                if !notes.contains(&note) {
                    notes.push(note);
                }
            }
        }
    }
}

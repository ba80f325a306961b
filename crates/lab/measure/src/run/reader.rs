use std::fs::File;
use std::io::{BufRead, BufReader, ErrorKind, Read};
use std::path::Path;

use serde::Deserialize;
use serde_json::Value;

use super::{ABOUT, About, FORMAT, HISTOGRAMS, RECORDS, RunError};

/// Bytes of `run.json`.
const ABOUT_MAX: u64 = 1 << 20;
/// Bytes of a line: a histogram of all buckets that there are has less.
const LINE_MAX: u64 = 4 << 20;
/// Bytes of a file of lines.
const LINES_MAX: u64 = 1 << 30;

/// Messages of a histogram.
const COUNT_MAX: u64 = 1 << 53;
/// Runs of a row.
const RUNS_MAX: usize = 1_000;

/// A run as it is on disk.
#[derive(Clone, Debug, Default)]
pub struct RecordedRun {
    /// What it was.
    pub about: About,
    /// In the order in which they were made.
    pub tables: Vec<RecordedTable>,
    /// Name and arguments of each process.
    pub processes: Vec<(String, Vec<String>)>,
}

/// What a workload has printed.
#[derive(Clone, Debug, Default)]
pub struct RecordedTable {
    /// Name of the workload.
    pub name: String,
    /// Heads of the columns.
    pub heads: Vec<String>,
    /// Rows.
    pub rows: Vec<RecordedRow>,
    /// Sentences below.
    pub notes: Vec<String>,
    /// What some of them say to programs.
    pub states: Vec<Value>,
}

/// A row of a table.
#[derive(Clone, Debug, Default)]
pub struct RecordedRow {
    /// For people.
    pub cells: Vec<String>,
    /// For programs.
    pub figures: Value,
    /// Of each run: a time in nanoseconds, and how many were near it.
    pub histograms: Vec<Vec<(u64, u64)>>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Record {
    Table {
        table: String,
        heads: Vec<String>,
    },
    Note {
        note: String,
        #[serde(default)]
        state: Value,
    },
    Process {
        process: String,
        arguments: Vec<String>,
    },
}

#[derive(Deserialize)]
struct Row {
    row: usize,
    cells: Vec<String>,
    #[serde(default)]
    figures: Value,
}

#[derive(Deserialize)]
struct Histogram {
    row: usize,
    run: usize,
    buckets: Vec<(u64, u64)>,
}

impl RecordedRun {
    /// Reads a directory. Of a run that was interrupted, a last line that was not finished is left out.
    ///
    /// # Errors
    /// It is not one, a file of it is too large, or a line of it is not understood; the error names file and line.
    pub fn read(path: &Path) -> Result<RecordedRun, RunError> {
        let mut run = RecordedRun { about: read_about(path)?, ..RecordedRun::default() };
        let mut rows = 0;
        let finished = run.about.finished;
        lines(&path.join(RECORDS), finished, |line| run.record(line, &mut rows))?;
        // Where each row is: tables may have none.
        let places: Vec<(usize, usize)> = (run.tables.iter().enumerate())
            .flat_map(|(table, of)| (0..of.rows.len()).map(move |row| (table, row)))
            .collect();
        lines(&path.join(HISTOGRAMS), finished, |line| {
            let histogram: Histogram = serde_json::from_str(line).map_err(|error| error.to_string())?;
            let Some((table, row)) = places.get(histogram.row) else {
                return Err(format!("row {}, where there are {rows}", histogram.row));
            };
            // So many are exact as a floating point number, and the sum of all runs fits.
            let count = histogram.buckets.iter().try_fold(0, |sum: u64, (_, count)| sum.checked_add(*count));
            if count.is_none_or(|count| count > COUNT_MAX) {
                return Err(format!("more than {COUNT_MAX} messages in a histogram"));
            }
            let histograms = &mut run.tables[*table].rows[*row].histograms;
            if histograms.len() == RUNS_MAX {
                return Err(format!("more than {RUNS_MAX} runs of row {}", histogram.row));
            }
            if histogram.run != histograms.len() {
                return Err(format!(
                    "run {} of row {}, not {}",
                    histogram.run,
                    histogram.row,
                    histograms.len()
                ));
            }
            histograms.push(histogram.buckets);
            Ok(())
        })?;
        Ok(run)
    }

    fn record(&mut self, line: &str, rows: &mut usize) -> Result<(), String> {
        let value: Value = serde_json::from_str(line).map_err(|error| error.to_string())?;
        let of = |error: serde_json::Error| error.to_string();
        if value.get("cells").is_some() {
            let Row { row, cells, figures } =
                serde_json::from_value(value).map_err(|e| format!("cells: {e}"))?;
            let table = self.tables.last_mut().ok_or("a row before any table")?;
            if row != *rows {
                return Err(format!("row {row}, not {rows}"));
            }
            *rows += 1;
            table.rows.push(RecordedRow { cells, figures, histograms: Vec::new() });
            return Ok(());
        }
        if ["table", "note", "process"].iter().all(|key| value.get(key).is_none()) {
            return Err("neither table, row, note nor process".to_owned());
        }
        match serde_json::from_value(value).map_err(of)? {
            Record::Table { table, heads } => {
                self.tables.push(RecordedTable { name: table, heads, ..RecordedTable::default() });
            }
            Record::Note { note, state } => {
                let table = self.tables.last_mut().ok_or("a note before any table")?;
                table.notes.push(note);
                table.states.extend(Some(state).filter(|state| !state.is_null()));
            }
            Record::Process { process, arguments } => self.processes.push((process, arguments)),
        }
        Ok(())
    }
}

/// What a run was, without what it measured.
///
/// # Errors
/// It is no run, or one that is not understood.
pub fn read_about(path: &Path) -> Result<About, RunError> {
    let path = &path.join(ABOUT);
    let at = |error| RunError::File(path.to_owned(), error);
    let content = |what: String| RunError::Content(path.to_owned(), what);
    let mut text = String::new();
    File::open(path).map_err(at)?.take(ABOUT_MAX + 1).read_to_string(&mut text).map_err(at)?;
    if text.len() as u64 > ABOUT_MAX {
        return Err(content(format!("longer than {ABOUT_MAX} bytes")));
    }
    let value: Value = serde_json::from_str(&text).map_err(|error| content(error.to_string()))?;
    let format = value.get("format").and_then(Value::as_u64);
    if format != Some(u64::from(FORMAT)) {
        let format = format.map_or("no format".to_owned(), |format| format!("format {format}"));
        return Err(content(format!("{format}; this program reads {FORMAT}")));
    }
    serde_json::from_value(value).map_err(|error| content(error.to_string()))
}

/// Gives every line to a function; its error gets the line's number. Of a run that has not finished, the file may be missing,
/// and its last line may be unfinished.
fn lines(
    path: &Path,
    finished: bool,
    mut each: impl FnMut(&str) -> Result<(), String>,
) -> Result<(), RunError> {
    let at = |error| RunError::File(path.to_owned(), error);
    let content =
        |line: usize, what: &str| RunError::Content(path.to_owned(), format!("line {line}: {what}"));
    let file = match File::open(path) {
        Err(error) if error.kind() == ErrorKind::NotFound && !finished => return Ok(()),
        opened => opened.map_err(at)?,
    };
    let bytes = file.metadata().map_err(at)?.len();
    if bytes > LINES_MAX {
        return Err(RunError::Content(path.to_owned(), format!("{bytes} bytes, of at most {LINES_MAX}")));
    }
    let mut file = BufReader::new(file.take(LINES_MAX));
    let mut line = String::new();
    for number in 1.. {
        line.clear();
        (&mut file).take(LINE_MAX + 1).read_line(&mut line).map_err(at)?;
        if line.len() as u64 > LINE_MAX {
            return Err(content(number, &format!("longer than {LINE_MAX} bytes")));
        }
        // The end, or a line that was not finished.
        let Some(whole) = line.strip_suffix('\n') else {
            let is_torn = finished && !line.is_empty();
            return if is_torn {
                Err(content(number, "cut off, though the run has finished"))
            } else {
                Ok(())
            };
        };
        each(whole).map_err(|what| content(number, &what))?;
    }
    Ok(())
}

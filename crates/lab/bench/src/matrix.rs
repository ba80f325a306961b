//! All cells of a published matrix of messaging, one after the other: shapes, sizes, datagrams, rates.
//!
//! Each cell is a command of its own, whose figures are kept in a file. So an unattended run that was interrupted goes on
//! where it was.

use std::fs;
use std::io::{self, IsTerminal, Write};
use std::path::{Path as File, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use clap::Args;
use measure::Table;
use net::clock;
use serde_json::Value;

use crate::own::Settings;
use crate::pair::Path;
use crate::process::Scratch;
use crate::{BenchError, RunOptions, report};

#[derive(Debug, Args)]
pub struct MatrixArgs {
    #[command(flatten)]
    options: RunOptions,
    /// Workloads.
    #[arg(long, value_delimiter = ',', default_values = ["messaging-1-1", "messaging-3-3"],
        value_parser = ["messaging-1-1", "messaging-3-3"])]
    shapes: Vec<String>,
    /// By what the messages travel.
    #[arg(long, default_value_t = Path::Multicast)]
    path: Path,
    /// Bytes of a message.
    #[arg(long, value_delimiter = ',', default_values_t = [64, 128, 256, 512, 1024],
        value_parser = crate::options::message_size())]
    sizes: Vec<u32>,
    /// Longest UDP payloads of a datagram.
    #[arg(long, value_delimiter = ',', default_values_t = [1472, 8972], value_parser = crate::options::datagram_size())]
    datagrams: Vec<u32>,
    /// Messages a second of each source.
    #[arg(long, value_delimiter = ',', default_values_t = [25_000, 50_000, 100_000, 125_000],
        value_parser = clap::value_parser!(u64).range(1..=300_000_000))]
    rates: Vec<u64>,
    /// CPUs of the senders and of the receivers; with six, three-to-three has one for each end.
    #[arg(long, value_delimiter = ',', num_args = 1.., default_values_t = [0, 1])]
    cpus: Vec<usize>,
    /// Keeps the figures of each cell in this directory, and takes those that are there already for measured: an
    /// interrupted run goes on.
    #[arg(long, value_name = "DIR")]
    resume: Option<PathBuf>,
    #[command(flatten)]
    settings: Settings,
}

/// One cell.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Cell {
    shape: String,
    size: u32,
    datagram: u32,
    /// Of each source.
    rate: u64,
}

impl Cell {
    /// Messages a second of all sources.
    fn total(&self) -> u64 {
        if self.shape == "messaging-3-3" { self.rate * 3 } else { self.rate }
    }

    fn words(&self, args: &MatrixArgs) -> Vec<String> {
        let cpus = match (&args.cpus[..], self.shape.as_str()) {
            // The first sender, and the first receiver.
            (cpus @ [first, ..], "messaging-1-1") => vec![*first, cpus[cpus.len() / 2]],
            (cpus, _) => cpus.to_vec(),
        };
        let cpus: Vec<String> = cpus.iter().map(usize::to_string).collect();
        let pairs = [
            ("--path", args.path.to_string()),
            ("--sizes", self.size.to_string()),
            ("--datagram", self.datagram.to_string()),
            ("--rates", self.total().to_string()),
            ("--cpus", cpus.join(",")),
            ("--runs", args.options.runs.to_string()),
            ("--seconds", args.options.seconds.to_string()),
        ];
        let words = pairs.into_iter().flat_map(|(key, value)| [key.to_owned(), value]);
        let before = ["bench", self.shape.as_str(), "--json"].map(str::to_owned);
        before.into_iter().chain(words).chain(args.settings.words()).collect()
    }
}

/// The file of a command: named so that other parameters are another file.
fn file_name(words: &[String]) -> String {
    let text = words.join(" ");
    // FNV-1a: the name differs with the command, nothing else is asked of it.
    let hash = text.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    format!("cell-{hash:016x}.json")
}

fn cells(args: &MatrixArgs) -> Vec<Cell> {
    let mut cells = Vec::new();
    for shape in &args.shapes {
        for datagram in &args.datagrams {
            for size in args.sizes.iter().filter(|size| **size <= *datagram) {
                let cell =
                    |rate: &u64| Cell { shape: shape.clone(), size: *size, datagram: *datagram, rate: *rate };
                cells.extend(args.rates.iter().map(cell));
            }
        }
    }
    cells
}

pub(crate) fn run(args: &MatrixArgs) -> Result<(), BenchError> {
    let scratch = if args.resume.is_some() { None } else { Some(Scratch::new()?) };
    let directory = match (&args.resume, &scratch) {
        (Some(directory), _) => directory.as_path(),
        (None, Some(scratch)) => scratch.path(),
        (None, None) => return Err(BenchError::new("no directory for the cells")),
    };
    fs::create_dir_all(directory)
        .map_err(|error| BenchError::new(format!("--resume {}: {error}", directory.display())))?;
    let cells = cells(args);
    let (mut progress, mut failed) = (Progress::new(cells.len()), Vec::new());
    let mut rows = Vec::new();
    for cell in &cells {
        let words = cell.words(args);
        let file = directory.join(file_name(&words));
        let lines = match known(&file) {
            Some(lines) => lines,
            None => {
                progress.begin(cell);
                match measure(&words, &file) {
                    Ok(lines) => lines,
                    Err(error) => {
                        progress.done += 1;
                        failed.push(format!("{cell:?}: {error}"));
                        continue;
                    }
                }
            }
        };
        progress.done += 1;
        rows.extend(lines);
    }
    progress.clear();
    show(args, &rows)?;
    crate::contest::outcome(&failed)
}

/// The figures of a cell that was measured before; none of one whose file is not whole.
fn known(file: &File) -> Option<Vec<Value>> {
    let text = net::small_file::read(file, CELL_BYTES_MAX).ok()?;
    let lines: Result<Vec<Value>, _> =
        String::from_utf8(text).ok()?.lines().map(serde_json::from_str).collect();
    lines.ok().filter(|lines| lines.iter().any(|line| line["figures"].is_object()))
}

/// Longest file of a cell.
const CELL_BYTES_MAX: u64 = 16 << 20;

/// Runs the command of a cell; its file is there when it is whole, and only if nothing of it failed.
fn measure(words: &[String], file: &File) -> Result<Vec<Value>, BenchError> {
    let output = Command::new(std::env::current_exe()?)
        .args(words)
        .stdin(Stdio::null())
        .stderr(Stdio::piped())
        .output()?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        return Err(BenchError::new(format!("{}: {said}", output.status)));
    }
    let unfinished = file.with_extension("unfinished");
    fs::write(&unfinished, &output.stdout)?;
    fs::rename(&unfinished, file)?;
    known(file).ok_or_else(|| BenchError::new("it has no figures"))
}

/// How far it is, on a terminal.
struct Progress {
    cells: usize,
    done: usize,
    measured: u32,
    begun: units::Nanos,
}

impl Progress {
    fn new(cells: usize) -> Progress {
        Progress { cells, done: 0, measured: 0, begun: clock::monotonic() }
    }

    fn begin(&mut self, cell: &Cell) {
        if io::stderr().is_terminal() {
            let left = remaining(clock::monotonic().since(self.begun), self.measured, self.cells - self.done);
            let left =
                left.map_or_else(String::new, |left| format!(", {} min left", left.as_secs().div_ceil(60)));
            let Cell { shape, size, datagram, rate } = cell;
            let at = self.done + 1;
            // What cannot be shown is not missed.
            let _ = write!(
                io::stderr(),
                "\rcell {at} of {}{left}: {shape}, {size} bytes in {datagram}, {rate}/s each\x1b[K",
                self.cells
            );
        }
        self.measured += 1;
    }

    fn clear(&self) {
        if io::stderr().is_terminal() {
            let _ = write!(io::stderr(), "\r\x1b[K");
        }
    }
}

/// How long what is left takes, if it takes as long as what was measured; nothing is known before that.
fn remaining(spent: Duration, measured: u32, left: usize) -> Option<Duration> {
    (measured > 0).then(|| spent / measured * u32::try_from(left).unwrap_or(u32::MAX))
}

/// Lines as the cells have printed them, or one table of all.
fn show(args: &MatrixArgs, lines: &[Value]) -> Result<(), BenchError> {
    let mut out = io::stdout().lock();
    let figures = lines.iter().filter(|line| line["figures"].is_object());
    if args.options.json {
        for line in figures {
            writeln!(out, "{line}").map_err(BenchError::Output)?;
        }
        return Ok(());
    }
    let mut table = Table::new(&HEADS);
    figures.for_each(|line| table.row(row(line)));
    let machine = measure::Machine::this();
    let note = "Rates are of all sources of a cell together; a rate with * is not sustained. Percentiles are medians of the \
                runs', in us; --json has all figures.";
    writeln!(out, "\nmessaging-matrix: {machine}\n\n{table}\n{note}").map_err(BenchError::Output)
}

const HEADS: [&str; 14] = [
    "workload",
    "bytes",
    "datagram",
    "messages/s",
    "way",
    "pair",
    "received/s",
    "p50 us",
    "p99 us",
    "p99.9 us",
    "mean us",
    "longest us",
    "lost",
    "to raw",
];

/// Figures of a line as cells; what is not there is empty.
fn row(line: &Value) -> Vec<String> {
    let figures = &line["figures"];
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let micros = |value: &Value| value.as_f64().map_or_else(|| "-".to_owned(), report::fine_micros);
    let mark = if figures["is_sustained"] == Value::Bool(false) { "*" } else { "" };
    let received = figures["received_per_s"]["median"].as_f64().unwrap_or(f64::NAN);
    vec![
        text(&line["workload"]),
        text(&figures["size"]),
        text(&figures["datagram"]),
        format!("{}{mark}", figures["rate"]),
        text(&figures["way"]),
        text(&figures["pair"]),
        format!("{received:.0}"),
        micros(&figures["p50_ns"]["median"]),
        micros(&figures["p99_ns"]["median"]),
        micros(&figures["p999_ns"]["median"]),
        micros(&figures["all"]["mean_ns"]),
        micros(&figures["all"]["longest_ns"]),
        text(&figures["lost"]),
        crate::contest::ratio(figures["to_raw"].as_f64()),
    ]
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use serde_json::json;

    use super::*;

    #[derive(Debug, Parser)]
    struct Program {
        #[command(flatten)]
        matrix: MatrixArgs,
    }

    fn args(words: &[&str]) -> MatrixArgs {
        Program::try_parse_from([&["matrix"], words].concat()).expect("known words").matrix
    }

    #[test]
    fn the_cells_are_all_combinations_that_fit_a_datagram() {
        assert_eq!(cells(&args(&[])).len(), 2 * 2 * 5 * 4);
        let few = args(&[
            "--sizes",
            "64,1024",
            "--datagrams",
            "1000,1472",
            "--rates",
            "10",
            "--cpus",
            "0,1,2,3,4,5",
        ]);
        let cells = cells(&few);
        let of = |cell: &Cell| (cell.shape.clone(), cell.size, cell.datagram, cell.total());
        assert_eq!(cells.len(), 2 * 3);
        assert_eq!(of(&cells[0]), ("messaging-1-1".to_owned(), 64, 1_000, 10));
        assert_eq!(of(&cells[5]), ("messaging-3-3".to_owned(), 1_024, 1_472, 30));
        let cpus = |cell: &Cell| cell.words(&few).join(" ");
        assert!(cpus(&cells[0]).contains("--cpus 0,3 "), "{}", cpus(&cells[0]));
        assert!(cpus(&cells[5]).contains("--cpus 0,1,2,3,4,5 "));
        let names: std::collections::BTreeSet<String> =
            cells.iter().map(|cell| file_name(&cell.words(&few))).collect();
        assert_eq!(names.len(), cells.len());
    }

    #[test]
    fn a_cell_whose_file_is_whole_is_known() {
        let scratch = Scratch::new().expect("a directory for temporary files");
        let file = PathBuf::from(scratch.write("cell", "{\"figures\": {\"lost\": 0}}\n").expect("written"));
        assert_eq!(known(&file).map(|lines| lines.len()), Some(1));
        for broken in ["", "{\"note\": \"x\"}\n", "{\"figures\": {\"lost\""] {
            scratch.write("cell", broken).expect("written");
            assert!(known(&file).is_none(), "{broken}");
        }
        assert!(known(File::new("/nonexistent/cell")).is_none());
    }

    #[test]
    fn a_line_is_a_row_and_what_is_left_takes_as_long_as_what_was() {
        let line = json!({ "workload": "messaging-1-1", "figures": { "size": 64, "rate": 5, "is_sustained": false } });
        let row = row(&line);
        assert_eq!((row.len(), row[3].as_str(), row[7].as_str()), (HEADS.len(), "5*", "-"));
        assert_eq!(remaining(Duration::from_secs(20), 2, 3), Some(Duration::from_secs(30)));
        assert_eq!(remaining(Duration::from_secs(20), 0, 3), None);
    }
}

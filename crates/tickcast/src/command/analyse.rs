//! `tickcast analyse`: what became of messages between two points, from files of observations.

use std::io::{self, IsTerminal, Write};
use std::path::PathBuf;

use measure::analysis::{self, AnalysisError, Options};

use crate::failure::Failure;

/// Which files, and what of them.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  tickcast analyse sender.obs receiver.obs             loss, order and latency of every message
  tickcast analyse *.obs --all                         of every pair of points
  tickcast analyse *.obs --from gateway --to strategy  of these two
  tickcast analyse *.obs --over-time 1                 beside it second by second
  tickcast analyse *.obs --samples latencies.npy       each message as a row for NumPy; any other name is CSV
  tickcast analyse *.obs --json | jq .pairs[0].latency.percentiles_ns

Files of observations are written by programs that carry a recorder, in Rust, C or Python, and by `tickcast bench
messaging-1-1 --observe DIR`. Messages are matched by their ids, within the streams that the files name; none is sampled.
A latency is the time of the second point less that of the first. Percentiles are interpolated as NumPy does, and left out
where less than one message is above them.

Times of one start of one host are compared as they are. Between hosts, a latency is shown if the clocks of both were kept
by NTP or PTP, with the error that these gave at most; or if --clock-error says by how much the clocks differ at most.

Memory: 20 MiB and --memory, however many messages there are. Files whose ids go up are read as they are; of others, and of
latencies, what is more than --memory goes to files without a name in --scratch: 24 bytes a message that is to be sorted,
8 bytes a latency.

Exit status: 0 done, whatever was found; 1 a file is wrong, has no such point, or cannot be read or written; 2 wrong usage.")]
pub(crate) struct AnalyseArgs {
    /// Files of observations, of two points or more.
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// The point where messages are first; else the one whose first message was first.
    #[arg(long, value_name = "NAME", conflicts_with = "all")]
    from: Option<String>,
    /// The point where they are then; else the one whose first message was last.
    #[arg(long, value_name = "NAME", conflicts_with = "all")]
    to: Option<String>,
    /// Every pair of points, of at most 32.
    #[arg(long)]
    all: bool,
    /// Width of a bucket of the histogram, microseconds.
    #[arg(long, value_name = "US", default_value = "10", value_parser = micros)]
    buckets: u64,
    /// Latencies by when the messages were sent, in spans of so many seconds.
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    over_time: Option<u64>,
    /// Writes id, time and latency of each message, CSV or by its name a NumPy array (.npy).
    #[arg(long, value_name = "FILE")]
    samples: Option<PathBuf>,
    /// By how much the clocks of the hosts differ at most, nanoseconds.
    #[arg(long, value_name = "NS")]
    clock_error: Option<u64>,
    /// Memory for sorting, MiB.
    #[arg(long, value_name = "MIB", default_value_t = 256, value_parser = clap::value_parser!(u32).range(1..=1_048_576))]
    memory: u32,
    /// A folder for what is more; the system's for temporary files if it is not given.
    #[arg(long, value_name = "DIR")]
    scratch: Option<PathBuf>,
    /// As one JSON object.
    #[arg(long)]
    json: bool,
}

/// A time in nanoseconds, from a number of longer units.
fn nanoseconds(text: &str, unit_ns: f64, most: f64) -> Result<u64, String> {
    let number: f64 = text.parse().map_err(|_| "it is no number".to_owned())?;
    let ns = number * unit_ns;
    if !(1.0..=most * unit_ns).contains(&ns) {
        return Err(format!("it is from a nanosecond ({}) to {most}", 1.0 / unit_ns));
    }
    Ok(ns.round() as u64)
}

fn micros(text: &str) -> Result<u64, String> {
    nanoseconds(text, 1e3, 1e9)
}

fn seconds(text: &str) -> Result<u64, String> {
    nanoseconds(text, 1e9, 1e6)
}

pub(crate) fn run(args: &AnalyseArgs) -> Result<(), Failure> {
    let defaults = Options::default();
    let options = Options {
        from: args.from.clone(),
        to: args.to.clone(),
        is_all: args.all,
        bucket_ns: args.buckets,
        over_time_ns: args.over_time,
        samples: args.samples.clone(),
        clock_error_ns: args.clock_error,
        memory_bytes: (args.memory as usize) << 20,
        scratch: args.scratch.clone().unwrap_or(defaults.scratch),
    };
    let is_seen = io::stderr().is_terminal();
    let show = |what: &str| {
        if is_seen {
            // What cannot be shown is not missed.
            let _ = write!(io::stderr(), "\r{what}\x1b[K");
        }
    };
    let analysis = analysis::analyse(&args.files, &options, show);
    show("");
    let analysis = analysis.map_err(|error| match error {
        AnalysisError::Io(error) => Failure::Io(error),
        AnalysisError::Input(text) => Failure::Run(text),
    })?;
    let mut out = io::stdout().lock();
    if args.json {
        let line = serde_json::to_string(&analysis).map_err(|error| Failure::Run(error.to_string()))?;
        writeln!(out, "{line}")
    } else {
        write!(out, "{analysis}")
    }
    .map_err(Failure::Output)
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::cli::{Cli, Command};

    fn args(words: &[&str]) -> Result<AnalyseArgs, String> {
        let words = ["tickcast", "analyse"].iter().chain(words);
        match Cli::try_parse_from(words).map_err(|error| error.to_string())?.command {
            Command::Analyse(args) => Ok(args),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn times_are_given_in_the_units_of_the_options() {
        let args = args(&["a", "b", "--buckets", "0.5", "--over-time", "0.001"]).expect("both are numbers");
        assert_eq!((args.buckets, args.over_time, args.memory), (500, Some(1_000_000), 256));
    }

    #[test]
    fn what_is_out_of_range_is_refused_with_the_range() {
        for (words, said) in [
            (&["a", "--buckets", "0"][..], "from a nanosecond (0.001) to 1000000000"),
            (&["a", "--buckets", "x"], "it is no number"),
            (&["a", "--over-time", "NaN"], "from a nanosecond"),
            (&["a", "--memory", "0"], "1..=1048576"),
            (&["a", "--all", "--from", "x"], "cannot be used with"),
            (&[], "<FILE>..."),
        ] {
            let refused = args(words).expect_err("wrong");
            assert!(refused.contains(said), "{refused}");
        }
    }

    #[test]
    fn a_file_that_is_none_is_named_and_the_command_fails() {
        let folder = testkit::Folder::new();
        let path = folder.join("text");
        std::fs::write(&path, [b'x'; 2_000]).expect("a writable place");
        let failure =
            run(&args(&[&path.display().to_string()]).expect("a file")).expect_err("no observations");
        assert!(failure.to_string().contains("does not begin with TICKOBSV"), "{failure}");
        assert_eq!(format!("{:?}", failure.exit_code()), format!("{:?}", std::process::ExitCode::from(1)));
    }
}

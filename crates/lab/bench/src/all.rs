//! All workloads, one after the other: each as a command of its own, so that one that fails does not cost the others, and
//! with a directory each, so that what was interrupted goes on where it was.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use clap::Args;
use measure::run::RecordedRun;
use net::clock;

use crate::{BenchError, RunOptions, fan_out};

/// All workloads, with everything that is compared in them.
#[derive(Debug, Args)]
pub struct AllArgs {
    #[command(flatten)]
    options: RunOptions,
    /// The jar of `interop/java`: ETA's codec for Java takes turns with ours on the same messages.
    #[arg(long, value_name = "JAR")]
    eta: Option<PathBuf>,
    /// Measures TLS as well, with the certificate in this directory: ca.pem, server.pem, server.key, for
    /// localhost.
    #[arg(long, value_name = "DIR")]
    tls: Option<fan_out::TlsDirectory>,
    /// The peer of the fan-out over WebSocket; `nats-server` is looked for in the PATH if this is not given.
    #[arg(long, value_name = "FILE")]
    nats_server: Option<PathBuf>,
    /// All sizes, datagrams and rates of the published reports; else messages of 64 bytes, in 1472, and few rates.
    #[arg(long)]
    full: bool,
}

/// A workload with its arguments.
struct Step {
    words: Vec<String>,
    /// How long it takes beside the others, about; only for the time that is left.
    weight: f64,
}

impl Step {
    fn new(weight: f64, words: &[&str]) -> Step {
        Step { words: words.iter().map(|word| (*word).to_owned()).collect(), weight }
    }

    fn with(mut self, name: &str, value: Option<String>) -> Step {
        if let Some(value) = value {
            self.words.extend([name.to_owned(), value]);
        }
        self
    }

    fn name(&self) -> &str {
        &self.words[0]
    }
}

/// The rates of the published latency tables.
const PUBLISHED_RATES: &str = "1000,5000,10000,20000,30000,40000,50000,60000,70000,80000,90000,100000,150000,200000,250000,\
     300000,350000,400000,450000,500000,550000,600000,650000,700000,750000,800000";

fn steps(args: &AllArgs) -> Vec<Step> {
    let path = |path: &PathBuf| path.display().to_string();
    let (eta, nats) = (args.eta.as_ref().map(path), args.nats_server.as_ref().map(path));
    let tls = || args.tls.as_ref().map(ToString::to_string);
    let of = |short: &'static str, full: &'static str| if args.full { full } else { short };
    let sizes = of("64", "64,128,256,512,1024");
    let rates = of("25000,125000", "25000,50000,100000,125000");
    let mut steps = vec![
        Step::new(2.0, &["rwf"]).with("--eta", eta),
        Step::new(1.0, &["pingpong", "--sizes", of("64", "64,128,256,512,1024")]),
        Step::new(3.0, &["stream", "--sizes", sizes, "--datagrams", of("1472", "1472,8972")]),
        Step::new(1.0, &["messaging-1-1", "--sizes", sizes, "--rates", rates]),
        Step::new(1.0, &["messaging-3-3", "--sizes", sizes, "--rates", rates]),
        Step::new(4.0, &["end-to-end", "--rates", of("1000,10000,100000,750000", PUBLISHED_RATES)]),
        Step::new(8.0, &["no-fan-out"]),
        Step::new(3.0, &["fan-out", "--compression", "zlib,lz4"]).with("--tls", tls()),
        Step::new(2.0, &["websocket-fan-out", "--compression"]).with("--tls", tls()).with("--nats-server", nats),
        Step::new(1.0, &["images"]),
    ];
    if args.full {
        let throughput = ["--datagram", "8972", "--rates", "125000,270000,340000,650000,790000,860000"];
        steps.push(Step::new(2.0, &[&["messaging-1-1", "--sizes", sizes][..], &throughput].concat()));
        steps.push(Step::new(1.0, &["lbtrm"]));
        steps.push(Step::new(2.0, &["storm"]));
    }
    steps
}

/// Runs them; with `out` each has a directory in it, and what is whole there is not measured again.
pub(crate) fn run(args: &AllArgs, out: Option<&Path>) -> Result<(), BenchError> {
    let steps = steps(args);
    let mut failed = Vec::new();
    let (mut spent, mut done) = (Duration::ZERO, 0.0);
    for (at, step) in steps.iter().enumerate() {
        let directory = out.map(|out| out.join(format!("{:02}-{}", at + 1, step.name())));
        let words = words(args.options, step, directory.as_deref());
        if let Some(directory) = &directory
            && !is_to_run(directory, &words)?
        {
            say(&format!("{} of {}, {}: done before", at + 1, steps.len(), step.name()));
            continue;
        }
        let left: f64 = steps[at..].iter().map(|step| step.weight).sum();
        let left = (done > 0.0).then(|| spent.mul_f64(left / done));
        let left =
            left.map_or(String::new(), |left| format!(", about {} min left", left.as_secs().div_ceil(60)));
        say(&format!("{} of {}, {}{left}", at + 1, steps.len(), step.name()));
        let began = clock::monotonic();
        let status = Command::new(std::env::current_exe()?).args(&words).status()?;
        (spent, done) = (spent + clock::monotonic().since(began), done + step.weight);
        if !status.success() {
            failed.push(format!("{} ({status})", step.name()));
        }
    }
    if failed.is_empty() {
        return Ok(());
    }
    Err(BenchError::new(format!(
        "{} of {} failed, as they say above: {}",
        failed.len(),
        steps.len(),
        failed.join(", ")
    )))
}

/// The arguments of the program for a step.
fn words(options: RunOptions, step: &Step, directory: Option<&Path>) -> Vec<String> {
    let mut words = vec!["bench".to_owned(), "--ends-with-parent".to_owned()];
    words.extend(step.words.iter().cloned());
    words.extend(["--runs".to_owned(), options.runs.to_string()]);
    words.extend(["--seconds".to_owned(), options.seconds.to_string()]);
    words.extend(options.json.then(|| "--json".to_owned()));
    if let Some(directory) = directory {
        words.extend(["--out".to_owned(), directory.display().to_string()]);
    }
    words
}

/// Whether a step has to run; what an interrupted one has left is removed.
fn is_to_run(directory: &Path, words: &[String]) -> Result<bool, BenchError> {
    if !measure::run::is_run(directory) {
        return Ok(true);
    }
    let there = RecordedRun::read(directory)?.about;
    if there.command.get(1..) != Some(words) {
        return Err(BenchError::new(format!(
            "{}: a run with other arguments: {}; give a new directory, or the same options",
            directory.display(),
            there.command.join(" ")
        )));
    }
    if there.finished && there.error.is_none() {
        return Ok(false);
    }
    fs::remove_dir_all(directory)?;
    Ok(true)
}

fn say(what: &str) {
    // Without a standard error nobody reads it.
    let _ = writeln!(io::stderr(), "\n== {what}");
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;
    use measure::run::RunDirectory;

    #[derive(Parser)]
    struct Program {
        #[command(flatten)]
        args: AllArgs,
    }

    #[derive(Parser)]
    struct Bench {
        #[command(flatten)]
        args: crate::BenchArgs,
    }

    fn args(words: &[&str]) -> AllArgs {
        Program::parse_from([&["all"][..], words].concat()).args
    }

    #[test]
    fn every_step_is_a_command_that_the_program_takes() {
        let tls = concat!(env!("CARGO_MANIFEST_DIR"), "/../../io/net/testdata/tls");
        let given = ["--full", "--runs", "7", "--json", "--tls", tls, "--eta", "j", "--nats-server", "n"];
        for options in [&[][..], &given] {
            let args = args(options);
            for step in steps(&args) {
                let words = words(args.options, &step, Some(Path::new("/d")));
                if let Err(error) = Bench::try_parse_from(&words) {
                    panic!("{words:?}: {error}");
                }
            }
        }
    }

    #[test]
    fn what_is_whole_is_not_measured_again() {
        let place = std::env::temp_dir().join(format!("bench-all-{}", std::process::id()));
        let words = words(args(&[]).options, &Step::new(1.0, &["pingpong"]), Some(&place));
        let record = |words: &[String], error: Option<&str>| {
            let command = [&["tickcast".to_owned()][..], words].concat();
            RunDirectory::create(&place, command, "1", None).expect("made").finish(error).expect("written");
        };
        assert!(is_to_run(&place, &words).expect("nothing is there"));
        record(&words, Some("no CPU"));
        assert!(is_to_run(&place, &words).expect("it has failed") && !place.exists());
        record(&words, None);
        assert!(!is_to_run(&place, &words).expect("it is whole"));
        let other = is_to_run(&place, &words[..3]).expect_err("another command").to_string();
        assert!(other.contains("other arguments"), "{other}");
        fs::remove_dir_all(&place).expect("it is ours");
    }
}

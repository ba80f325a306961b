//! All workloads, one after the other.

use std::path::{Path, PathBuf};

use clap::Args;

use crate::steps::{self, Step};
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
        Step::new(2.0, &["websocket-fan-out", "--compression"])
            .with("--tls", tls())
            .with("--nats-server", nats),
        Step::new(1.0, &["images"]),
        Step::new(1.0, &["observer"]),
    ];
    if args.full {
        let throughput = ["--datagram", "8972", "--rates", "125000,270000,340000,650000,790000,860000"];
        steps.push(Step::new(2.0, &[&["messaging-1-1", "--sizes", sizes][..], &throughput].concat()));
        steps.push(Step::new(1.0, &["lbtrm"]));
        steps.push(Step::new(2.0, &["storm"]));
    }
    // In the order in which they run, also where directories are listed.
    let numbered = |(at, step): (usize, Step)| {
        let name = format!("{:02}-{}", at + 1, step.name());
        step.named(name)
    };
    steps.into_iter().enumerate().map(numbered).collect()
}

/// Runs them; with `out` each has a directory in it, and what is whole there is not measured again.
pub(crate) fn run(args: &AllArgs, out: Option<&Path>) -> Result<(), BenchError> {
    steps::run(&steps(args), args.options, out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Program {
        #[command(flatten)]
        args: AllArgs,
    }

    #[derive(Parser)]
    struct Bench {
        #[command(flatten)]
        _args: crate::BenchArgs,
    }

    #[test]
    fn every_step_is_a_command_that_the_program_takes() {
        let tls = concat!(env!("CARGO_MANIFEST_DIR"), "/../../io/net/testdata/tls");
        let given = ["--full", "--runs", "7", "--json", "--tls", tls, "--eta", "j", "--nats-server", "n"];
        for options in [&[][..], &given] {
            let args = Program::parse_from([&["all"][..], options].concat()).args;
            for step in steps(&args) {
                let words = step.words(args.options, Some(Path::new("/d")));
                if let Err(error) = Bench::try_parse_from(&words) {
                    panic!("{words:?}: {error}");
                }
            }
        }
    }
}

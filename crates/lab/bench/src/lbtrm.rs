//! Reliable multicast from one process to another: the highest rate at which nothing is lost for good.

use std::time::Duration;

use clap::Args;
use measure::Runs;
use serde_json::json;

use crate::options::Cpu;
use crate::own::Settings;
use crate::process::{Process, START_LIMIT, free_port};
use crate::report::{self, Report};
use crate::{BenchError, RunOptions};

#[derive(Debug, Args)]
pub struct LbtrmArgs {
    #[command(flatten)]
    options: RunOptions,
    /// Bytes of a message.
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u32).range(16..=1400))]
    size: u32,
    /// Messages a second, raised until they do not all get through.
    #[arg(long, value_delimiter = ',', default_values_t = RATES)]
    rates: Vec<u64>,
    /// Longest UDP payload of a datagram; 1,472 unless the settings say otherwise.
    #[arg(long, value_parser = crate::options::datagram_size())]
    datagram: Option<u32>,
    #[command(flatten)]
    settings: Settings,
}

const RATES: [u64; 8] =
    [1_000_000, 4_000_000, 8_000_000, 16_000_000, 20_000_000, 24_000_000, 28_000_000, 32_000_000];

/// A run is sustained if its last message comes within this time after it was meant to be sent.
const LATE: Duration = Duration::from_millis(50);

pub(crate) fn run(args: &LbtrmArgs) -> Result<(), BenchError> {
    let heads = ["way", "messages/s", "p50 us", "p99 us", "repaired", "lost", "sustained"];
    let mut report = Report::new("lbtrm-1-1", args.options.json, &heads);
    args.settings.check(&mut report, &[])?;
    let datagram = args.datagram.or(args.settings.datagram()?).unwrap_or(1_472);
    if args.size > datagram {
        return Err(BenchError::new(format!("a message of {} bytes in datagrams of {datagram}", args.size)));
    }
    for contender in ["raw", "lbtrm"] {
        let ports = ["--group-port", &free_port()?.to_string(), "--resolver-port", &free_port()?.to_string()]
            .map(str::to_owned);
        let size = ["--size", &args.size.to_string(), "--datagram", &datagram.to_string()].map(str::to_owned);
        let settings = ["--settings".to_owned(), args.settings.to_string()];
        let start = |name: &str, cpu| {
            Process::role(name, &[&ports[..], &size, &settings, &Cpu::on(Some(cpu)).args()].concat())
        };
        let mut receiver = start(&format!("{contender}-receiver"), 1)?;
        receiver.expect("listening", START_LIMIT)?;
        let mut sender = start(&format!("{contender}-sender"), 0)?;
        sender.expect("ready", START_LIMIT)?;
        for (rate, first_run) in args.rates.iter().zip((0..).step_by(args.options.runs as usize)) {
            if measure(args, contender, (*rate, first_run), &mut sender, &mut receiver, &mut report)? == 0 {
                break;
            }
        }
    }
    report.print()
}

/// All runs at one rate, numbered on from the first: the end of a run is sent several times, and one that has
/// been told already must differ. Returns how many were sustained.
fn measure(
    args: &LbtrmArgs,
    contender: &str,
    (rate, first_run): (u64, u32),
    sender: &mut Process,
    receiver: &mut Process,
    report: &mut Report,
) -> Result<u32, BenchError> {
    let (mut got, mut p50, mut p99) = (Runs::default(), Runs::default(), Runs::default());
    let (mut repaired, mut lost, mut sustained) = (0, 0, 0);
    for run in 0..args.options.runs {
        let seconds = args.options.seconds;
        report.progress(&format!("{contender}, {rate}/s, run {} of {}", run + 1, args.options.runs));
        let number = (first_run + run) % u32::from(u8::MAX) + 1;
        sender.tell(&json!({ "run": number, "rate": rate, "seconds": seconds }))?;
        let limit = Duration::from_secs_f64(seconds * 20.0 + 20.0);
        let sent = sender.expect("sent", limit)?["sent"].as_u64().unwrap_or(0);
        let seen = receiver.expect("run", limit)?;
        let number = |key: &str| seen[key].as_u64().unwrap_or(0);
        let missing = sent.saturating_sub(number("count"));
        let late = Duration::from_nanos(number("last_ns"));
        let took = seconds.max(seconds + late.as_secs_f64());
        got.add(number("count") as f64 / took);
        p50.add(number("p50_ns") as f64);
        p99.add(number("p99_ns") as f64);
        repaired += number("repaired");
        lost += missing;
        sustained += u32::from(missing == 0 && late < LATE);
    }
    let cells = [
        contender.to_owned(),
        report::spread(&got, report::millions),
        report::micros(p50.median()),
        report::micros(p99.median()),
        repaired.to_string(),
        lost.to_string(),
        format!("{sustained} of {}", args.options.runs),
    ];
    let object = json!({
        "way": contender, "size": args.size, "rate": rate, "received_per_s": report::spread_json(&got),
        "p50_ns": report::spread_json(&p50), "p99_ns": report::spread_json(&p99),
        "repaired": repaired, "lost": lost, "sustained": sustained,
    });
    report.row(cells, object);
    Ok(sustained)
}

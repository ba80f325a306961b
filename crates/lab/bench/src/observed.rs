//! What taking down each message costs: a call by each clock, and streams with an observer and without.

use std::path::Path;
use std::time::Duration;

use clap::Args;
use measure::{Clocks, Runs};
use observation::Clock;
use serde_json::json;

use crate::contest;
use crate::observing::Observing;
use crate::pair::{Contender, EndArgs, Pace, Path as Way, Streamed};
use crate::process::Scratch;
use crate::report::{self, Report};
use crate::{BenchError, RunOptions, own};

/// The clock that recorders have here.
fn clock() -> Clock {
    if Clock::Tsc.why_not().is_none() { Clock::Tsc } else { Clock::Monotonic }
}

/// Says below a table what observing costs, and where the files are.
pub(crate) fn note(report: &mut Report, folder: &Path) -> Result<(), BenchError> {
    let cost_ns = observation::cost_ns(clock())?;
    report.note_with(
        format!(
            "Each message of ours and of the peers is taken down at both ends, in {}: the observer costs {cost_ns:.1} ns a call \
             here, by the clock {}. `tickcast analyse` follows them from file to file; from the moment before they were sent.",
            folder.display(),
            clock().name(),
        ),
        json!({ "observer": { "cost_ns": cost_ns, "clock": clock().name() } }),
    );
    Ok(())
}

#[derive(Debug, Args)]
pub struct ObserverArgs {
    #[command(flatten)]
    options: RunOptions,
    /// By what the messages travel: a way that holds its sender back when the receiver cannot follow.
    #[arg(long, value_delimiter = ',', default_values_t = [Way::Tcp, Way::Shm], value_parser = held_back)]
    paths: Vec<Way>,
    /// Bytes of a message.
    #[arg(long, value_delimiter = ',', default_values_t = [64, 1024], value_parser = crate::options::message_size())]
    sizes: Vec<u32>,
    /// CPUs of sender and receiver, which spin.
    #[arg(long, value_delimiter = ',', num_args = 2, default_values_t = [0, 1])]
    cpus: Vec<usize>,
}

fn held_back(name: &str) -> Result<Way, String> {
    match name {
        "tcp" => Ok(Way::Tcp),
        "shm" => Ok(Way::Shm),
        other => Err(format!("{other} is not tcp or shm")),
    }
}

/// Messages of a run that there is room for, by second: no way that is measured carries as many.
const PER_SECOND: f64 = 100e6;
/// At most, 1 GiB at each end; a run is not longer than these last.
const MOST: u64 = 1 << 26;

/// What a call costs by each clock, and streams with the observer and without it in turns.
pub(crate) fn run(args: &ObserverArgs) -> Result<(), BenchError> {
    let heads = ["path", "bytes", "without", "observed", "ratio", "95 % of its median", "CPUs"];
    let mut report = Report::new("observer", args.options.json, &heads);
    let cpus = crate::options::two_cpus(&args.cpus)?;
    contest::note_jitter(&mut report, &cpus, args.options)?;
    let clocks = Clocks::this();
    report.note_with(format!("Clocks: {clocks}."), json!({ "clocks": clocks }));
    for clock in Clock::ALL {
        note_cost(&mut report, clock)?;
    }
    for path in &args.paths {
        for size in &args.sizes {
            paired(args, (*path, *size), cpus, &mut report)?;
        }
    }
    report.note(
        "Runs last 0.67 s at most, so that there is room for each message. Messages a second that arrived, with an observer at each end and without, in turns. The ratio is the median of the \
         rounds'; its interval holds the median of all runs that there might be with a confidence of 95 %, and needs six runs. \
         An end of ours does nothing else with a message but count it: an application that does more has less of a share."
            .to_owned(),
    );
    report.print()
}

fn note_cost(report: &mut Report, clock: Clock) -> Result<(), BenchError> {
    let name = clock.name();
    if let Some(why) = clock.why_not() {
        report.note_with(
            format!("Clock {name} is none here: {why}."),
            json!({ "clock": name, "why_not": why }),
        );
        return Ok(());
    }
    let cost_ns = observation::cost_ns(clock)?;
    let text = format!(
        "A call with the clock {name} costs {cost_ns:.1} ns, the median of 65 batches of 1,000 calls."
    );
    report.note_with(text, json!({ "clock": name, "cost_ns": cost_ns }));
    Ok(())
}

fn paired(
    args: &ObserverArgs,
    (path, size): (Way, u32),
    cpus: [usize; 2],
    report: &mut Report,
) -> Result<(), BenchError> {
    let seconds = args.options.seconds.min(MOST as f64 / PER_SECOND);
    let capacity = ((PER_SECOND * seconds) as u64).clamp(1, MOST);
    let scratch = Scratch::new()?;
    let end = [EndArgs::of(path, size as usize, 1472, cpus)];
    let plain = own::contenders(path, &own::BYPASSES);
    let observing = Observing::new(scratch.path(), "observer", capacity);
    let observed = plain.iter().cloned().map(|contender| contender.observed(observing.clone()));
    let mut contenders: Vec<Contender> = plain.iter().cloned().chain(observed).collect();
    let what = format!("{path}, {size} bytes");
    let span = Duration::from_secs_f64(seconds);
    let rounds = contest::in_turns(&mut contenders, cpus, args.options, report, &what, |contender| {
        let streamed = contender.streams(&end, span, Pace::FlatOut)?;
        // The next run needs the room.
        for file in std::fs::read_dir(scratch.path())? {
            std::fs::remove_file(file?.path())?;
        }
        Ok(streamed)
    })?;
    // Each is compared with itself.
    contest::outcome(&rounds.failed)?;
    let rates = |at: usize| rounds.results[at].iter().flatten().map(Streamed::per_second).collect::<Runs>();
    let (without, with) = (rates(0), rates(plain.len()));
    let ratios = with.ratios_to(&without);
    let (ratio, interval) = (ratios.median(), ratios.interval95());
    let cells = [
        path.to_string(),
        size.to_string(),
        report::spread(&without, report::millions),
        report::spread(&with, report::millions),
        format!("{ratio:.4}"),
        interval.map_or_else(|| "-".to_owned(), |(low, high)| format!("{low:.4} to {high:.4}")),
        rounds.placement.to_string(),
    ];
    let object = json!({
        "path": path.to_string(), "size": size,
        "received_per_s": report::spread_json(&without), "observed_received_per_s": report::spread_json(&with),
        "ratio": ratio, "ratio_interval95": interval.map(|(low, high)| [low, high]), "placement": rounds.placement,
    });
    report.row(cells, object);
    Ok(())
}

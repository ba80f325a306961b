//! Publisher, source distributor, point-to-point server, consumer: how long an update is under way at a fixed
//! rate.

mod consumer;
mod daemons;
mod in_process;
mod pacing;
mod publisher;

pub(crate) use consumer::{ConsumerArgs, Observer, consumer};
pub(crate) use daemons::{Backbone, Carrier, Daemons, PointOfPresence};
pub(crate) use in_process::{InProcessArgs, in_process};
pub(crate) use pacing::{Pacing, SentRun};
pub(crate) use publisher::{Items, PublisherArgs, SERVICE, SERVICE_ID, pick, pick_place, publisher};

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use measure::{Runs, Summaries, Summary};
use serde_json::{Value, json};

use crate::nats_server;
use crate::options::Cpu;
use crate::process::{Process, START_LIMIT, free_port};
use crate::report::{self, Report};
use crate::update::Profile;
use crate::{BenchError, RunOptions};

const CPUS: [usize; 4] = [0, 1, 1, 0];

#[derive(Debug, Args)]
pub struct EndToEndArgs {
    #[command(flatten)]
    options: RunOptions,
    /// Updates a second.
    #[arg(long, value_delimiter = ',', default_values_t = [1_000, 10_000, 100_000])]
    rates: Vec<u64>,
    /// Sends the updates in so many bursts a second: those of a burst are meant to leave together. Without it they are spread
    /// evenly.
    #[arg(long, value_name = "PER_SECOND", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    bursts: Option<u32>,
    /// Items that are published and watched.
    #[arg(long, default_value_t = 100_000)]
    items: u32,
    /// Which layouts are measured.
    #[arg(long, value_delimiter = ',', default_values_t = [Layout::Separate, Layout::OneProcess])]
    layouts: Vec<Layout>,
    /// What carries the backbone: the layouts `separate` and `pop` are measured over each.
    #[arg(long, value_delimiter = ',', default_values_t = [Carrier::Multicast])]
    backbones: Vec<Carrier>,
    /// The program for the backbone `nats`; `nats-server` is looked for in the PATH if this is not given.
    #[arg(long, value_name = "FILE")]
    nats_server: Option<PathBuf>,
    /// Whether the publisher waits in a loop, which takes one CPU and keeps its times, or sleeps.
    #[arg(long, default_value_t = Pacing::Sleep)]
    pacing: Pacing,
    #[command(flatten)]
    profile: Profile,
    #[command(flatten)]
    placement: Placement,
    /// Further settings of both daemons, as for their --set.
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Layout {
    /// A process for each part; all of them block while they wait.
    Separate,
    /// Everything in one process: two spinning threads.
    OneProcess,
    /// As separate, with a point of presence between the point-to-point server and the consumer.
    Pop,
}

impl std::fmt::Display for Layout {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Layout::Separate => "separate",
            Layout::OneProcess => "one-process",
            Layout::Pop => "pop",
        })
    }
}

impl EndToEndArgs {
    pub(crate) fn new(options: RunOptions) -> EndToEndArgs {
        EndToEndArgs {
            options,
            rates: vec![1_000, 10_000, 100_000],
            bursts: None,
            items: 100_000,
            layouts: vec![Layout::Separate, Layout::OneProcess],
            backbones: vec![Carrier::Multicast],
            nats_server: None,
            pacing: Pacing::Sleep,
            profile: Profile::default(),
            placement: Placement { cpus: CPUS.to_vec(), unpinned: false },
            set: Vec::new(),
        }
    }

    fn cpu(&self, part: usize) -> Cpu {
        self.placement.cpu(part)
    }
}

/// Where the four parts of the system run.
#[derive(Debug, Args)]
pub(crate) struct Placement {
    /// CPUs of publisher or provider, source distributor, point-to-point server and consumers, and of the parts of a bare
    /// chain: the applications share one, the servers the other.
    #[arg(long, value_delimiter = ',', default_values_t = CPUS)]
    cpus: Vec<usize>,
    /// Leaves the processes to the scheduler.
    #[arg(long, conflicts_with = "cpus")]
    unpinned: bool,
}

impl Placement {
    pub(crate) fn cpu(&self, part: usize) -> Cpu {
        Cpu::on(self.cpus.get(part).copied().filter(|_| !self.unpinned))
    }
}

/// One of those that are compared.
struct One {
    name: String,
    /// By which layout and carrier, if there is a choice.
    carried: Option<(Layout, Carrier)>,
    contender: Box<dyn EndToEndContender>,
    /// It has failed, and takes no part any more.
    is_out: bool,
}

impl One {
    fn new(name: String, carried: Option<(Layout, Carrier)>, contender: Box<dyn EndToEndContender>) -> One {
        One { name, carried, contender, is_out: false }
    }
}

/// One run.
struct Ran {
    seen: Summary,
    sent: u64,
    /// How long after its time the last update was handed over.
    late: Duration,
}

impl Ran {
    /// What a sender has answered, and what the receiver saw.
    fn new(sender: &Value, receiver: &Value) -> Result<Ran, BenchError> {
        let number = |key: &str| {
            sender[key].as_u64().ok_or_else(|| BenchError::new(format!("no {key} in the answer {sender}")))
        };
        Ok(Ran {
            seen: serde_json::from_value(receiver["latencies"].clone())?,
            sent: number("sent")?,
            late: Duration::from_nanos(number("late_ns")?),
        })
    }
}

/// A sender that is so far behind its times gives up: the rate is not sustained.
const GIVES_UP_MS: u64 = 2_000;
/// A rate is sustained if the last update is handed over within this of its time, and all have come.
const LATE: Duration = Duration::from_millis(50);

/// What is compared: one path from a sender to a receiver.
trait EndToEndContender {
    /// One run.
    fn run(&mut self, command: &Value, limit: Duration) -> Result<Ran, BenchError>;

    /// CPU time so far of each server, or of what stands in for it, in the order of an update's way; nothing if they have no
    /// processes of their own.
    fn busy(&self) -> Result<Vec<Duration>, BenchError>;
}

pub(crate) fn run(args: &EndToEndArgs) -> Result<(), BenchError> {
    args.profile.check()?;
    let behind = [
        "lost",
        "sustained",
        "p50 beside the chain",
        "p50 beside multicast",
        "source distributor, P2PS, point of presence, nats-server: CPU ns an update",
    ];
    let heads = [&["way", "updates/s"][..], &report::LATENCY_HEADS, &behind].concat();
    let mut report = Report::new("end-to-end", args.options.json, &heads);
    let mut contenders = vec![One::new("bare chain".to_owned(), None, Box::new(Chain::start(args)?))];
    let program = nats_server::find(args.nats_server.as_deref());
    if args.backbones.contains(&Carrier::Nats) && program.is_none() {
        report.note(nats_server::NOT_FOUND.to_owned());
    }
    for layout in &args.layouts {
        if *layout == Layout::OneProcess {
            let (name, contender) = (layout.to_string(), Box::new(OneProcess::start(args)?));
            contenders.push(One::new(name, None, contender));
            continue;
        }
        for carrier in &args.backbones {
            if *carrier == Carrier::Nats && program.is_none() {
                continue;
            }
            let name = match carrier {
                Carrier::Multicast => layout.to_string(),
                other => format!("{layout}, {other}"),
            };
            let backbone = Backbone::over(*carrier, &args.set, args.cpu(1), program.as_deref())?;
            let contender = Box::new(Separate::start(args, backbone, *layout == Layout::Pop)?);
            contenders.push(One::new(name, Some((*layout, *carrier)), contender));
        }
    }
    for rate in &args.rates {
        let mut figures: Vec<Figures> = contenders.iter().map(|_| Figures::default()).collect();
        for run in 0..=args.options.runs {
            // The first one warms caches, buffers and routes.
            let seconds = if run == 0 { args.options.seconds.min(1.0) } else { args.options.seconds };
            let command = json!({
                "run": run + 1, "rate": rate, "bursts": args.bursts, "seconds": seconds, "gives_up_ms": GIVES_UP_MS,
            });
            let limit = Duration::from_secs_f64(seconds + 20.0);
            let due = (*rate as f64 * seconds) as u64;
            let taking_part = contenders.iter_mut().zip(&mut figures).filter(|(one, _)| !one.is_out);
            for (one, figures) in taking_part {
                report.progress(&format!("{}, {rate}/s, run {run} of {}", one.name, args.options.runs));
                match measure(one, &command, limit) {
                    Ok((ran, before, busy)) if run > 0 => {
                        figures.add(&ran, due);
                        figures.add_busy(&before, &busy, ran.sent);
                    }
                    Ok(_) => {}
                    Err(error) => {
                        (one.is_out, figures.has_failed) = (true, true);
                        let name = &one.name;
                        report.note(format!("{name} at {rate}/s: {error}. It is left out from there on."));
                    }
                }
            }
        }
        let p50 = |figures: &Figures| figures.latencies.p50().median();
        let chain = p50(&figures[0]);
        for (one, of_one) in contenders.iter().zip(&figures).filter(|(_, figures)| figures.runs > 0) {
            let multicast = one.carried.map(|(layout, _)| Some((layout, Carrier::Multicast)));
            let place = contenders.iter().position(|other| Some(other.carried) == multicast);
            let multicast = place.map(|place| p50(&figures[place]));
            of_one.report(&mut report, &one.name, *rate, (chain, multicast));
        }
    }
    let bursts = args.bursts.map_or("Updates leave evenly spread".to_owned(), |bursts| {
        format!("Updates leave in {bursts} bursts a second")
    });
    report.note(format!("{} items with {}. {bursts}.", args.items, args.profile.describe()));
    report.note(report::LATENCY_NOTE.to_owned());
    report.note(format!(
        "A rate is sustained if in each run all updates were sent, the last one at most {} ms behind its time, and all have \
         come. Else the row says how many were not sent, since a sender {GIVES_UP_MS} ms behind gives up, and how late it was.",
        LATE.as_millis()
    ));
    report.print()?;
    match contenders.iter().find(|one| one.is_out) {
        None => Ok(()),
        Some(out) => Err(BenchError::new(format!("{} has failed: the notes say how", out.name))),
    }
}

/// One run, with the CPU times of the servers before it and behind it.
fn measure(
    one: &mut One,
    command: &Value,
    limit: Duration,
) -> Result<(Ran, Vec<Duration>, Vec<Duration>), BenchError> {
    let before = one.contender.busy()?;
    let ran = one.contender.run(command, limit)?;
    let busy = one.contender.busy()?;
    if ran.seen.count > ran.sent {
        return Err(BenchError::new(format!("{} sent, {} received", ran.sent, ran.seen.count)));
    }
    Ok((ran, before, busy))
}

/// What several runs came to.
#[derive(Default)]
struct Figures {
    latencies: Summaries,
    runs: u32,
    /// Updates, of all runs.
    lost: u64,
    /// Updates that the sender did not come to, of all runs.
    unsent: u64,
    /// The longest of the runs.
    late: Duration,
    /// A run came to nothing.
    has_failed: bool,
    /// CPU nanoseconds an update of each server, if it is known.
    busy_ns: Vec<Runs>,
}

impl Figures {
    fn add(&mut self, ran: &Ran, due: u64) {
        self.latencies.add(ran.seen.clone());
        self.runs += 1;
        self.lost += ran.sent - ran.seen.count;
        self.unsent += due.saturating_sub(ran.sent);
        self.late = self.late.max(ran.late);
    }

    fn is_sustained(&self) -> bool {
        !self.has_failed && self.lost == 0 && self.unsent == 0 && self.late < LATE
    }

    fn add_busy(&mut self, before: &[Duration], after: &[Duration], updates: u64) {
        self.busy_ns.resize_with(after.len(), Runs::default);
        for ((runs, before), after) in self.busy_ns.iter_mut().zip(before).zip(after) {
            runs.add(after.saturating_sub(*before).as_nanos() as f64 / updates as f64);
        }
    }

    /// `chain` and `multicast` are medians that the p50 is compared with.
    fn report(&self, report: &mut Report, name: &str, rate: u64, (chain, multicast): (f64, Option<f64>)) {
        let p50 = self.latencies.p50().median();
        let (ratio, to_multicast) = (p50 / chain, multicast.map(|multicast| p50 / multicast));
        let busy: Vec<String> = self.busy_ns.iter().map(|runs| format!("{:.0}", runs.median())).collect();
        let busy_json = (!self.busy_ns.is_empty())
            .then(|| self.busy_ns.iter().map(report::spread_json).collect::<Vec<Value>>());
        let behind = [
            self.lost.to_string(),
            if self.is_sustained() {
                "yes".to_owned()
            } else {
                format!("no: {} not sent, {} ms late", self.unsent, self.late.as_millis())
            },
            show_ratio(Some(ratio)),
            show_ratio(to_multicast),
            busy.join(", "),
        ];
        let object = json!({
            "way": name, "rate": rate, "lost": self.lost, "p50_to_chain": ratio,
            "is_sustained": self.is_sustained(), "unsent": self.unsent, "late_ns": self.late.as_nanos() as u64,
            "p50_to_multicast": to_multicast, "server_cpu_ns_per_update": busy_json,
        });
        let object = report::latency_json(&self.latencies, object);
        let of_latency = report::latency_cells(&self.latencies, report::micros);
        report.row([name.to_owned(), rate.to_string()].into_iter().chain(of_latency).chain(behind), object);
    }
}

/// Nothing beside what is not there, or has come to nothing.
fn show_ratio(ratio: Option<f64>) -> String {
    ratio.filter(|ratio| ratio.is_finite()).map_or_else(String::new, |ratio| format!("{ratio:.2}"))
}

/// Bare sockets.
struct Chain {
    source: Process,
    relays: [Process; 2],
    sink: Process,
}

impl Chain {
    fn start(args: &EndToEndArgs) -> Result<Chain, BenchError> {
        let group_port = ["--group-port".to_owned(), free_port()?.to_string()];
        let profile = args.profile.args();
        let relay = |name, part| {
            let words = [&group_port[..], &profile, &args.cpu(part).args()].concat();
            let mut relay = Process::role(name, &words)?;
            let port = relay.expect("port", START_LIMIT)?["port"].to_string();
            Ok::<_, BenchError>((relay, port))
        };
        let (out, out_port) = relay("chain-relay-out", 1)?;
        let (into, in_port) = relay("chain-relay-in", 2)?;
        let sink = ["--from".to_owned(), in_port];
        let mut sink = Process::role("chain-sink", &[&sink[..], &profile, &args.cpu(3).args()].concat())?;
        sink.expect("ready", START_LIMIT)?;
        let source = ["--to".to_owned(), out_port, "--pacing".to_owned(), args.pacing.to_string()];
        let mut source =
            Process::role("chain-source", &[&source[..], &profile, &args.cpu(0).args()].concat())?;
        source.expect("ready", START_LIMIT)?;
        Ok(Chain { source, relays: [out, into], sink })
    }
}

impl EndToEndContender for Chain {
    fn run(&mut self, command: &Value, limit: Duration) -> Result<Ran, BenchError> {
        self.source.tell(command)?;
        let sent = self.source.expect("sent", limit)?;
        Ran::new(&sent, &self.sink.expect("latencies", limit)?)
    }

    fn busy(&self) -> Result<Vec<Duration>, BenchError> {
        self.relays.iter().map(Process::cpu_time).collect()
    }
}

/// A process for each part.
struct Separate {
    publisher: Process,
    consumer: Process,
    daemons: Daemons,
    pop: Option<PointOfPresence>,
}

impl Separate {
    fn start(args: &EndToEndArgs, backbone: Backbone, has_pop: bool) -> Result<Separate, BenchError> {
        let daemons = Daemons::start_over(backbone, [args.cpu(1), args.cpu(2)], None)?;
        let pop =
            has_pop.then(|| PointOfPresence::start(daemons.rssl_port, args.cpu(2), &args.set)).transpose()?;
        let items = ["--common", "0", "--mounts", "1", "--own", &args.items.to_string()].map(str::to_owned);
        let publisher = [
            "--port".to_owned(),
            daemons.provider_port.to_string(),
            "--pacing".to_owned(),
            args.pacing.to_string(),
        ];
        let mut publisher = Process::role(
            "publisher",
            &[&publisher[..], &items, &args.profile.args(), &args.cpu(0).args()].concat(),
        )?;
        publisher.expect("ready", START_LIMIT)?;
        let port = pop.as_ref().map_or(daemons.rssl_port, |pop| pop.rssl_port);
        let consumer = ["--port", &port.to_string(), "--own", &args.items.to_string()].map(str::to_owned);
        let mut consumer = Process::role("consumer", &[&consumer[..], &args.cpu(3).args()].concat())?;
        consumer.expect("ready", START_LIMIT)?;
        Ok(Separate { publisher, consumer, daemons, pop })
    }
}

impl EndToEndContender for Separate {
    fn run(&mut self, command: &Value, limit: Duration) -> Result<Ran, BenchError> {
        self.publisher.tell(command)?;
        let sent = self.publisher.expect("sent", limit)?;
        Ran::new(&sent, &self.consumer.expect("latencies", limit)?)
    }

    fn busy(&self) -> Result<Vec<Duration>, BenchError> {
        let Daemons { distributor, server, backbone, .. } = &self.daemons;
        let pop = self.pop.as_ref().map(|pop| &pop.server);
        let daemons = [distributor, server].into_iter().chain(pop).map(Process::cpu_time);
        daemons.chain(backbone.busy()).collect()
    }
}

/// Everything in one process.
struct OneProcess(Process);

impl OneProcess {
    fn start(args: &EndToEndArgs) -> Result<OneProcess, BenchError> {
        let items = ["--own".to_owned(), args.items.to_string()];
        let mut process = Process::role("in-process", &[&items[..], &args.profile.args()].concat())?;
        process.expect("ready", START_LIMIT)?;
        // It would take both CPUs from the other contenders: it only spins while it is told to.
        Ok(OneProcess(process))
    }
}

impl EndToEndContender for OneProcess {
    fn run(&mut self, command: &Value, limit: Duration) -> Result<Ran, BenchError> {
        self.0.tell(command)?;
        let answer = self.0.expect("latencies", limit)?;
        Ran::new(&answer, &answer)
    }

    fn busy(&self) -> Result<Vec<Duration>, BenchError> {
        Ok(Vec::new())
    }
}

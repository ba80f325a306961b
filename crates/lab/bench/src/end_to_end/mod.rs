//! Publisher, source distributor, point-to-point server, consumer: how long an update is under way at a fixed
//! rate.

mod consumer;
mod contenders;
mod daemons;
mod in_process;
mod pacing;
mod publisher;

pub(crate) use consumer::{ConsumerArgs, Observer, consumer};
pub(crate) use daemons::{Backbone, Cache, Carrier, Daemons, PointOfPresence, Settings};
pub(crate) use in_process::{InProcessArgs, in_process};
pub(crate) use pacing::{Pacing, SentRun};
pub(crate) use publisher::{Items, PublisherArgs, SERVICE, SERVICE_ID, pick, publisher};

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args, ValueEnum};
use measure::{Runs, Summaries};
use serde_json::{Value, json};

use crate::contest;
use crate::decode::DecodeArgs;
use crate::nats_server;
use crate::options::Cpu;
use crate::report::{self, Report};
use crate::search::{self, Bound, Bounded, Bracket, Found, SearchArgs};
use crate::update::Profile;
use crate::{BenchError, RunOptions};

use contenders::{EndToEndContender, GIVES_UP_MS, LATE, Ran, Way};

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
    /// Whether the servers keep images. If one of them is `off`, the publisher is an interactive provider, which can be
    /// asked for images, and the source distributor dials it. The layout `one-process` has caches.
    #[arg(long, value_delimiter = ',', default_values_t = [Cache::On])]
    cache: Vec<Cache>,
    #[command(flatten)]
    decode: DecodeArgs,
    #[command(flatten)]
    search: SearchArgs,
    #[command(flatten)]
    settings: Settings,
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
    /// Whether servers can ask the publisher for images.
    fn is_interactive(&self) -> bool {
        self.cache.contains(&Cache::Off)
    }

    fn check(&self) -> Result<(), BenchError> {
        self.profile.check()?;
        if self.is_interactive() && !self.profile.is_published() {
            let text = "--cache off: the interactive publisher has updates of 74 bytes of payload alone, without --payload, \
                        --image-fields and --update-fields";
            return Err(BenchError::new(text));
        }
        Ok(())
    }

    /// What is compared, in its order.
    fn ways(&self, has_nats: bool) -> Vec<Way> {
        let mut ways = vec![Way::Chain];
        for layout in &self.layouts {
            if *layout == Layout::OneProcess {
                ways.push(Way::OneProcess);
                continue;
            }
            for carrier in self.backbones.iter().filter(|carrier| has_nats || **carrier != Carrier::Nats) {
                ways.extend(self.cache.iter().map(|cache| Way::Servers(*layout, *carrier, *cache)));
            }
        }
        ways
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
    way: Way,
    contender: Box<dyn EndToEndContender>,
    /// It has failed, and takes no part any more.
    is_out: bool,
}

pub(crate) fn run(args: &EndToEndArgs) -> Result<(), BenchError> {
    args.check()?;
    let behind = [
        "naive p50 us",
        "naive p99 us",
        "received/s",
        "lost",
        "sustained",
        "p50 beside the chain",
        "p50 beside multicast",
        "source distributor, P2PS, point of presence, nats-server: CPU ns an update",
    ];
    let searched = if args.search.is_on() { &search::SEARCH_HEADS[..] } else { &[] };
    let heads = [&["way", "updates/s"][..], &report::LATENCY_HEADS, &behind, searched].concat();
    let mut report = Report::new("end-to-end", args.options.json, &heads);
    let program = nats_server::find(args.nats_server.as_deref());
    if args.backbones.contains(&Carrier::Nats) && program.is_none() {
        report.note(nats_server::NOT_FOUND.to_owned());
    }
    let ways = args.ways(program.is_some());
    let failed = if args.search.is_on() {
        search_all(&ways, args, program.as_deref(), &mut report)?;
        None
    } else {
        at_rates(&ways, args, program.as_deref(), &mut report)?
    };
    notes(args, &mut report)?;
    report.print()?;
    failed.map_or(Ok(()), |name| Err(BenchError::new(format!("{name} has failed: the notes say how"))))
}

/// Measures all at each rate, in turns. Returns one that has failed.
fn at_rates(
    ways: &[Way],
    args: &EndToEndArgs,
    nats_server: Option<&Path>,
    report: &mut Report,
) -> Result<Option<String>, BenchError> {
    let payload = args.profile.payload_bytes();
    let start = |way: &Way| {
        let contender = way.start(args, nats_server)?;
        Ok::<_, BenchError>(One { way: *way, contender, is_out: false })
    };
    let mut contenders = ways.iter().map(start).collect::<Result<Vec<One>, _>>()?;
    for rate in &args.rates {
        let mut figures: Vec<Figures> = contenders.iter().map(|_| Figures::default()).collect();
        for run in 0..=args.options.runs {
            // The first one warms caches, buffers and routes.
            let seconds = if run == 0 { args.options.seconds.min(1.0) } else { args.options.seconds };
            let taking_part = contenders.iter_mut().zip(&mut figures).filter(|(one, _)| !one.is_out);
            for (one, figures) in taking_part {
                let name = one.way.name();
                report.progress(&format!("{name}, {rate}/s, run {run} of {}", args.options.runs));
                match contenders::run(&mut *one.contender, args, (run, *rate as f64, seconds)) {
                    Ok(ran) if run > 0 => figures.add(&ran),
                    Ok(_) => {}
                    Err(error) => {
                        one.is_out = true;
                        figures.add_broken(&error);
                        report.note(format!("{name} at {rate}/s: {error}. It is left out from there on."));
                    }
                }
            }
        }
        let chain = figures[0].p50();
        for (one, of_one) in contenders.iter().zip(&figures).filter(|(_, figures)| figures.has_row()) {
            let multicast = one.way.over_multicast();
            let place = contenders.iter().position(|other| Some(other.way) == multicast);
            let multicast = place.map(|place| figures[place].p50());
            of_one.report(report, &one.way.name(), (*rate as f64, payload), (chain, multicast), None);
        }
    }
    Ok(contenders.iter().find(|one| one.is_out).map(|one| one.way.name()))
}

/// The highest rate of each, one after the other.
fn search_all(
    ways: &[Way],
    args: &EndToEndArgs,
    nats_server: Option<&Path>,
    report: &mut Report,
) -> Result<(), BenchError> {
    let payload = args.profile.payload_bytes();
    let bound = args.search.bound();
    for way in ways {
        let found = search_one(*way, args, nats_server, report)?;
        let bracket = found.bracket();
        for (rate, runs) in found.rates() {
            let mut figures = Figures::default();
            runs.iter().for_each(|run| figures.add(&run.trial));
            figures.is_above = runs.iter().any(|run| !run.is_under());
            figures.report(report, &way.name(), (rate, payload), (f64::NAN, None), Some((bracket, bound)));
        }
    }
    Ok(())
}

/// One that fails is not sustained; the next run has new processes.
fn search_one(
    way: Way,
    args: &EndToEndArgs,
    nats_server: Option<&Path>,
    report: &Report,
) -> Result<Found<Bounded<Ran>>, BenchError> {
    let (bound, seconds) = (args.search.bound(), args.options.seconds);
    let mut first = way.start(args, nats_server)?;
    contenders::run(&mut *first, args, (0, args.search.from(), seconds.min(1.0)))?;
    let (start, mut runs) = (|| way.start(args, nats_server), 0);
    search::highest_of_processes(args.search.search(args.options.runs), first, start, |mut present, rate| {
        report.progress(&format!("{}, {rate:.0}/s", way.name()));
        runs += 1;
        match contenders::run(&mut *present, args, (runs, rate, seconds)) {
            Ok(trial) => (Bounded { trial, bound }, Some(present)),
            Err(error) => (Bounded { trial: Ran::broken(&error), bound }, None),
        }
    })
}

fn notes(args: &EndToEndArgs, report: &mut Report) -> Result<(), BenchError> {
    let bursts = args.bursts.map_or("Updates leave evenly spread".to_owned(), |bursts| {
        format!("Updates leave in {bursts} bursts a second")
    });
    let publisher = if args.is_interactive() { "an interactive" } else { "a non-interactive" };
    report.note(format!(
        "{} items of {publisher} provider with {}. {bursts}. {}",
        args.items,
        args.profile.describe(),
        args.decode.describe()
    ));
    report.note(format!("Every update is timed. {}", report::LATENCY_NOTE));
    report.note(
        "Naive is what would be seen from the time when each update was sent, in place of the time when it was meant to be: a \
         sender that waits hides what it waits for."
            .to_owned(),
    );
    report.note(format!(
        "A rate is sustained if in each run all updates were sent, the last one at most {} ms behind its time, and all have \
         come. Else the row says how many were not sent, since a sender {GIVES_UP_MS} ms behind gives up, and how late it was.",
        LATE.as_millis()
    ));
    if args.search.is_on() {
        report.note(args.search.describe(args.options.runs));
        let cpus: BTreeSet<usize> = (0..CPUS.len()).filter_map(|part| args.cpu(part).number()).collect();
        contest::note_jitter(report, &cpus, args.options)?;
    }
    Ok(())
}

/// What several runs came to.
#[derive(Default)]
struct Figures {
    latencies: Summaries,
    naive: Summaries,
    received_per_s: Runs,
    runs: u32,
    /// Updates, of all runs.
    lost: u64,
    /// Updates that the sender did not come to, of all runs.
    unsent: u64,
    /// The longest of the runs.
    late: Duration,
    /// How a run has failed.
    broken: Option<String>,
    /// A latency is not under the bound of a search.
    is_above: bool,
    /// CPU nanoseconds an update of each server, if it is known.
    busy_ns: Vec<Runs>,
}

impl Figures {
    fn add(&mut self, ran: &Ran) {
        if ran.broken.is_some() {
            self.broken.clone_from(&ran.broken);
            return;
        }
        self.latencies.add(ran.seen.clone());
        self.naive.add(ran.naive.clone());
        self.received_per_s.add(ran.seen.count as f64 / (ran.seconds + ran.late.as_secs_f64()));
        self.runs += 1;
        self.lost += ran.lost();
        self.unsent += ran.unsent();
        self.late = self.late.max(ran.late);
        self.busy_ns.resize_with(ran.busy.len(), Runs::default);
        for (runs, busy) in self.busy_ns.iter_mut().zip(&ran.busy) {
            runs.add(busy.as_nanos() as f64 / ran.sent as f64);
        }
    }

    fn add_broken(&mut self, error: &BenchError) {
        self.broken = Some(error.to_string());
    }

    /// There is something to say.
    fn has_row(&self) -> bool {
        self.runs > 0 || self.broken.is_some()
    }

    fn p50(&self) -> f64 {
        self.latencies.p50().median()
    }

    /// Why the rate is not sustained; none if it is.
    fn fault(&self) -> Option<String> {
        if let Some(broken) = &self.broken {
            return Some(broken.clone());
        }
        if self.lost == 0 && self.unsent == 0 && self.late < LATE {
            return self.is_above.then(|| "not under the bound".to_owned());
        }
        Some(format!("{} not sent, {} lost, {} ms late", self.unsent, self.lost, self.late.as_millis()))
    }

    /// `chain` and `multicast` are medians that the p50 is compared with.
    fn report(
        &self,
        report: &mut Report,
        name: &str,
        (rate, payload): (f64, usize),
        (chain, multicast): (f64, Option<f64>),
        searched: Option<(Bracket, Option<Bound>)>,
    ) {
        let p50 = self.p50();
        let finite = |ratio: f64| Some(ratio).filter(|ratio| ratio.is_finite());
        let (ratio, to_multicast) = (finite(p50 / chain), multicast.and_then(|of| finite(p50 / of)));
        let busy: Vec<String> = self.busy_ns.iter().map(|runs| format!("{:.0}", runs.median())).collect();
        let busy_json = (!self.busy_ns.is_empty())
            .then(|| self.busy_ns.iter().map(report::spread_json).collect::<Vec<Value>>());
        let fault = self.fault();
        let [naive_p50, _, naive_p99, ..] = self.naive.percentiles();
        let naive = [naive_p50, naive_p99].map(|ns| ns.map_or_else(|| "-".to_owned(), report::micros));
        let received = finite(self.received_per_s.median());
        let behind = [
            received.map_or_else(|| "-".to_owned(), |received| format!("{received:.0}")),
            self.lost.to_string(),
            fault.as_ref().map_or_else(|| "yes".to_owned(), |fault| format!("no: {fault}")),
            show_ratio(ratio),
            show_ratio(to_multicast),
            busy.join(", "),
        ];
        let mut object = json!({
            "way": name, "rate": rate_json(rate), "payload": payload, "lost": self.lost, "p50_to_chain": ratio,
            "is_sustained": fault.is_none(), "fault": fault, "unsent": self.unsent,
            "late_ns": self.late.as_nanos() as u64, "p50_to_multicast": to_multicast,
            "server_cpu_ns_per_update": busy_json,
            "received_per_s": received.map(|_| report::spread_json(&self.received_per_s)),
            "naive": (self.naive.count() > 0).then(|| report::latency_json(&self.naive, json!({}))),
        });
        let mut searched_cells = Vec::new();
        if let Some((bracket, bound)) = searched {
            searched_cells.extend(bracket.cells());
            bracket.put(&mut object, bound);
        }
        let object = report::latency_json(&self.latencies, object);
        let of_latency = report::latency_cells(&self.latencies, report::micros);
        let cells = [name.to_owned(), format!("{rate:.0}")].into_iter().chain(of_latency).chain(naive);
        report.row(cells.chain(behind).chain(searched_cells), object);
    }
}

/// A whole number where it is one.
fn rate_json(rate: f64) -> Value {
    if rate.fract() == 0.0 { json!(rate as u64) } else { json!(rate) }
}

/// Nothing beside what is not there, or has come to nothing.
fn show_ratio(ratio: Option<f64>) -> String {
    ratio.map_or_else(String::new, |ratio| format!("{ratio:.2}"))
}

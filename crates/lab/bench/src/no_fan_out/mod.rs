//! Updates for many items, each of which is watched once: the highest rate that a layout of the system sustains.
//!
//! The publisher is an interactive provider, which has an image of an item for whoever asks, as often as it is asked.
//! Each item's updates are numbered, and whoever is last compares every number with the one before it.

mod consumer;
mod publisher;
mod receiver;
mod system;
mod tally;

pub(crate) use consumer::{ConsumerArgs, consumer};
pub(crate) use publisher::{PublisherArgs, publisher};
pub(crate) use receiver::{ReceiverArgs, receiver};

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use measure::{Runs, Summaries};
use serde_json::{Map, Value, json};

use crate::decode::{Decode, DecodeArgs};
use crate::end_to_end::{Cache, Carrier, Pacing, Settings};
use crate::every::TimeEvery;
use crate::nats_server;
use crate::options::Cpu;
use crate::report::{self, Report};
use crate::search::{self, Found, Search, Trial};
use crate::update::NUMBERED_PAYLOAD_BYTES;
use crate::{BenchError, RunOptions};

use system::{Outcome, Part, System};

#[derive(Debug, Args)]
pub struct NoFanOutArgs {
    #[command(flatten)]
    options: RunOptions,
    /// Items that are published, each watched once.
    #[arg(long, default_value_t = 100_000, value_parser = clap::value_parser!(u32).range(1..=500_000))]
    items: u32,
    /// Which layouts are measured; rates stand beside that of the direct one.
    #[arg(long, value_delimiter = ',', default_values_t = [Layout::Direct, Layout::SourceDistributor, Layout::P2psLan, Layout::P2psPop])]
    layouts: Vec<Layout>,
    /// Whether the servers keep images.
    #[arg(long, value_delimiter = ',', default_values_t = [Cache::On, Cache::Off])]
    cache: Vec<Cache>,
    /// Updates a second with which the search begins. It doubles the rate, or halves it, until it has one that is sustained
    /// and one that is not.
    #[arg(long, value_name = "RATE", default_value_t = 100_000, value_parser = clap::value_parser!(u64).range(100..=100_000_000))]
    from: u64,
    /// The search ends when the lowest rate that is not sustained is at most so many percent above the highest that is.
    #[arg(long, value_name = "PERCENT", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=100))]
    precision: u32,
    /// How late the publisher may be with 99 % of the updates of a run, and the end of a run at the consumer, before the
    /// rate is not sustained.
    #[arg(long, value_name = "MS", default_value_t = 50, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    late_ms: u64,
    /// The publisher writes so many times a second: the updates of a write are meant to leave together. As many as there are
    /// updates, or more, spread them evenly.
    #[arg(long, value_name = "PER_SECOND", default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    bursts: u32,
    /// Whether the publisher waits in a loop, which takes one CPU and keeps its times, or sleeps.
    #[arg(long, default_value_t = Pacing::Sleep)]
    pacing: Pacing,
    /// CPUs of publisher, source distributor, point-to-point server, point of presence and consumer. Without it, the parts of
    /// a layout are spread over two so that both have about as much to do.
    #[arg(long, value_delimiter = ',', num_args = 5, value_name = "CPU")]
    cpus: Option<Vec<usize>>,
    /// Leaves the processes to the scheduler.
    #[arg(long, conflicts_with = "cpus")]
    unpinned: bool,
    /// What carries the backbone; a receiver at the source distributor does not hear one over NATS.
    #[arg(long, default_value_t = Carrier::Multicast)]
    backbone: Carrier,
    /// The program for the backbone `nats`; `nats-server` is looked for in the PATH if this is not given.
    #[arg(long, value_name = "FILE")]
    nats_server: Option<PathBuf>,
    #[command(flatten)]
    decode: DecodeArgs,
    #[command(flatten)]
    time_every: TimeEvery,
    /// All servers have the preset `throughput` of messaging, unless a setting names another one.
    #[command(flatten)]
    settings: Settings,
}

/// What is between publisher and consumer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Layout {
    /// Nothing: the consumer connects to the publisher.
    Direct,
    /// A source distributor, whose stream a bare receiver of the backbone follows.
    SourceDistributor,
    /// A source distributor and a point-to-point server.
    P2psLan,
    /// A source distributor, a point-to-point server, and another one that is its client.
    P2psPop,
}

impl std::fmt::Display for Layout {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Layout::Direct => "direct",
            Layout::SourceDistributor => "source-distributor",
            Layout::P2psLan => "p2ps-lan",
            Layout::P2psPop => "p2ps-pop",
        })
    }
}

impl Layout {
    /// Where the parts run, in their order: what has most to do has a CPU to itself, or is with what has least.
    fn cpus(self) -> [usize; 5] {
        match self {
            Layout::Direct => [0, 0, 0, 0, 1],
            Layout::SourceDistributor => [0, 1, 1, 1, 0],
            Layout::P2psLan => [0, 0, 1, 1, 1],
            Layout::P2psPop => [0, 0, 0, 1, 1],
        }
    }
}

/// Rates that the search does not leave, updates a second.
const BOUNDS: (f64, f64) = (100.0, 100e6);

pub(crate) fn run(args: &NoFanOutArgs) -> Result<(), BenchError> {
    let heads = [
        "layout",
        "cache",
        "updates/s",
        "sustained",
        "beside direct",
        "lost",
        "publisher's p99 late ms",
        "the end late ms",
    ];
    let behind = ["received/s", "CPU ns/update: publisher, servers, consumer", "runs"];
    let heads = [&heads[..], &report::LATENCY_HEADS, &behind].concat();
    args.check()?;
    let mut report = Report::new("no-fan-out", args.options.json, &heads);
    let mut direct = None;
    for (layout, cache) in args.ways() {
        let found = search(layout, cache, args, &report)?;
        if layout == Layout::Direct {
            direct = found.rate;
        }
        Way { layout, cache, direct, found: &found }.report(&mut report);
    }
    let (items, late) = (args.items, args.late_ms);
    report.note(format!(
        "Backbone: {}. {items} items, each watched once; updates of {NUMBERED_PAYLOAD_BYTES} bytes of payload, 11 of header. A rate is \
         sustained if every update left and came, in order, alone, and neither the publisher's p99 nor the end of the run was \
         more than {late} ms late. The publisher writes {} times a second. Found within {} %, confirmed by {} runs of {} s. {}",
        args.backbone,
        args.bursts,
        args.precision,
        args.options.runs,
        args.options.seconds,
        args.decode.describe()
    ));
    report.note(args.time_every.describe(tally::TIME_EVERY));
    report.note(report::LATENCY_NOTE.to_owned());
    report.print()
}

impl NoFanOutArgs {
    /// Whether the layouts can be measured over the backbone.
    fn check(&self) -> Result<(), BenchError> {
        if self.backbone == Carrier::Nats && self.layouts.contains(&Layout::SourceDistributor) {
            let others = "direct, p2ps-lan and p2ps-pop";
            return Err(BenchError::new(format!(
                "--layouts {} is not measured over nats: choose among {others}",
                Layout::SourceDistributor
            )));
        }
        if self.decode.decode == Decode::Image && self.layouts.contains(&Layout::SourceDistributor) {
            return Err(BenchError::new(format!(
                "--decode image: the receiver of --layouts {} keeps no images; name the other layouts",
                Layout::SourceDistributor
            )));
        }
        if self.settings.config.is_some() && self.layouts.contains(&Layout::SourceDistributor) {
            // The receiver has settings of messaging alone.
            return Err(BenchError::new(format!(
                "--layouts {} takes no --config: --set names what messaging needs",
                Layout::SourceDistributor
            )));
        }
        Ok(())
    }

    /// The server of NATS, if there is one.
    fn nats_server(&self) -> Option<PathBuf> {
        nats_server::find(self.nats_server.as_deref())
    }

    /// Where a part of a layout runs.
    fn cpu(&self, layout: Layout, part: Part) -> Cpu {
        let chosen = self.cpus.as_deref().and_then(|cpus| cpus.get(part as usize)).copied();
        Cpu::on((!self.unpinned).then(|| chosen.unwrap_or(layout.cpus()[part as usize])))
    }

    /// What is measured, in its order: nothing is kept between the two ends alone.
    fn ways(&self) -> impl Iterator<Item = (Layout, Option<Cache>)> {
        let direct =
            self.layouts.iter().filter(|layout| **layout == Layout::Direct).map(|layout| (*layout, None));
        let others = self.cache.iter().flat_map(|cache| {
            let through = self.layouts.iter().filter(|layout| **layout != Layout::Direct);
            through.map(|layout| (*layout, Some(*cache)))
        });
        direct.take(1).chain(others)
    }
}

/// The highest rate of a layout. A system that fails is not sustained; the next run has a new one.
fn search(
    layout: Layout,
    cache: Option<Cache>,
    args: &NoFanOutArgs,
    report: &Report,
) -> Result<Found<Outcome>, BenchError> {
    let seconds = args.options.seconds;
    let named = |rate: f64| {
        let cache = cache.map_or(String::new(), |cache| format!(", cache {cache}"));
        format!("{layout}{cache}, {rate:.0}/s")
    };
    let mut system = System::start(layout, cache, args)?;
    // Caches, buffers and routes are warm when it counts.
    system.run(args.from as f64, args, seconds.min(1.0))?;
    system.settle()?;
    let search = Search {
        from: args.from as f64,
        bounds: BOUNDS,
        precision: f64::from(args.precision) / 100.0,
        confirmations: args.options.runs,
    };
    search::highest_of_processes(
        search,
        system,
        || System::start(layout, cache, args),
        |mut present, rate| {
            report.progress(&named(rate));
            let mut outcome =
                present.run(rate, args, seconds).unwrap_or_else(|error| Outcome::broken(&error));
            if outcome.broken.is_none() && !outcome.is_sustained() {
                // A system that does not come to rest has failed.
                outcome.broken = present.settle().err().map(|error| error.to_string());
            }
            let still_good = outcome.broken.is_none().then_some(present);
            (outcome, still_good)
        },
    )
}

/// What was found of a layout.
struct Way<'a> {
    layout: Layout,
    cache: Option<Cache>,
    /// The rate without servers.
    direct: Option<f64>,
    found: &'a Found<Outcome>,
}

impl Way<'_> {
    /// A row for the rate that is sustained, and one for the lowest that is not.
    fn report(&self, report: &mut Report) {
        let Found { rate, runs, above, trials } = self.found;
        let bracket = json!({ "low": rate, "high": above.as_ref().map(|(rate, _)| rate) });
        if let Some(rate) = rate {
            self.row(report, *rate, runs, true, &bracket, *trials);
        }
        if let Some((rate, outcome)) = above {
            self.row(report, *rate, std::slice::from_ref(outcome), false, &bracket, *trials);
        }
    }

    fn row(
        &self,
        report: &mut Report,
        rate: f64,
        runs: &[Outcome],
        is_sustained: bool,
        bracket: &Value,
        trials: u32,
    ) {
        let of = |figure: &dyn Fn(&Outcome) -> Option<f64>| {
            let mut all = Runs::default();
            runs.iter().filter_map(figure).for_each(|figure| all.add(figure));
            all
        };
        let time = |time: &dyn Fn(&Outcome) -> Option<Duration>| {
            of(&|run| Some(time(run)?.as_nanos() as f64).filter(|_| run.broken.is_none()))
        };
        let publisher = time(&|run| Some(run.publisher_p99));
        let last = time(&|run| run.last);
        let latencies: Summaries =
            runs.iter().filter(|run| run.broken.is_none()).map(|run| run.latencies.clone()).collect();
        let received = of(&|run| run.received_per_s());
        let lost: u64 = runs.iter().map(Outcome::lost).sum();
        let parts = runs.first().map_or(&[][..], |run| &run.busy);
        let busy = parts.iter().enumerate().map(|(at, (part, _))| {
            let ns = |run: &Outcome| Some(run.busy.get(at)?.1.as_nanos() as f64 / run.sent as f64);
            (*part, of(&|run| ns(run).filter(|ns| ns.is_finite())))
        });
        let busy: Vec<_> = busy.filter(|(_, runs)| runs.median().is_finite()).collect();
        let ratio = self.direct.filter(|_| is_sustained).map(|direct| rate / direct);
        let fault = runs.iter().find_map(Outcome::fault);
        let shown = |runs: &Runs, show: &dyn Fn(f64) -> String| {
            if runs.median().is_finite() { show(runs.median()) } else { "-".to_owned() }
        };
        let millis = |ns: f64| format!("{:.1}", ns / 1e6);
        let cells = [
            self.layout.to_string(),
            self.cache.map_or("-".to_owned(), |cache| cache.to_string()),
            format!("{rate:.0}"),
            fault.as_ref().map_or_else(|| format!("{0} of {0}", runs.len()), |fault| format!("no: {fault}")),
            ratio.map_or("-".to_owned(), |ratio| format!("{ratio:.2}")),
            lost.to_string(),
            shown(&publisher, &millis),
            shown(&last, &millis),
        ];
        let behind = [
            shown(&received, &|received| format!("{received:.0}")),
            busy.iter().map(|(_, runs)| format!("{:.0}", runs.median())).collect::<Vec<_>>().join(", "),
            trials.to_string(),
        ];
        let spread = |runs: &Runs| runs.median().is_finite().then(|| report::spread_json(runs));
        let cpu: Map<String, Value> =
            busy.iter().map(|(part, runs)| (part.key().to_owned(), report::spread_json(runs))).collect();
        let object = json!({
            "layout": self.layout.to_string(), "cache": self.cache.map(|cache| cache.to_string()),
            "rate": rate, "is_sustained": is_sustained, "runs": runs.len(), "fault": fault,
            "bracket": bracket, "trials": trials, "to_direct": ratio, "lost": lost,
            "publisher_p99_late_ns": spread(&publisher), "end_late_ns": spread(&last),
            "received_per_s": spread(&received), "cpu_ns_per_update": cpu,
        });
        let object = report::latency_json(&latencies, object);
        let of_latency = report::latency_cells(&latencies, report::micros);
        report.row(cells.into_iter().chain(of_latency).chain(behind), object);
    }
}

//! One point-to-point server and many consumers: how many updates a second leave one thread.
//!
//! The workload is producer-50-50: each of M mounts watches 100 items that all watch and 100 of its own. Half
//! of the updates go to common items, half to own ones, so that one update in leaves as (M + 1) / 2 updates
//! on average. Beside it, one thread that makes records itself, copies them to as many connections, and
//! writes: no protocol, no caches.

mod bare;
mod mounts;
mod peers;
mod websocket;
mod websocket_clients;

pub(crate) use bare::{BareMountsArgs, BareServerArgs, bare_mounts, bare_server};
pub(crate) use mounts::{MountsArgs, mounts};
pub(crate) use websocket::{WebSocketFanOutArgs, run as run_websocket};
pub(crate) use websocket_clients::{WebSocketClientsArgs, websocket_clients};

use std::time::Duration;

use clap::Args;
use measure::{Latencies, Runs};
use net::clock;
use serde_json::{Value, json};

use crate::end_to_end::{Daemons, START_LIMIT};
use crate::process::Process;
use crate::report::{self, Report};
use crate::role::Cpu;
use crate::{BenchError, RunOptions};

#[derive(Debug, Args)]
pub struct FanOutArgs {
    #[command(flatten)]
    options: RunOptions,
    /// Consumers.
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=1000))]
    mounts: u32,
    /// Updates a second into the system, raised until they do not all get through in time.
    #[arg(long, value_delimiter = ',', default_values_t = RATES)]
    rates: Vec<u64>,
    /// Further settings of both daemons, as for their --set.
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
}

const RATES: [u64; 6] = [50_000, 100_000, 200_000, 300_000, 400_000, 600_000];

impl FanOutArgs {
    pub(crate) fn new(options: RunOptions) -> FanOutArgs {
        FanOutArgs { options, mounts: 100, rates: RATES.to_vec(), set: Vec::new() }
    }
}

/// Items of each kind that a mount watches.
const EACH: u32 = 100;
/// The server has one CPU, everything else the other.
const SERVER_CPU: usize = 1;
const OTHERS_CPU: usize = 0;
/// A run is sustained if its last update comes within this time after it was meant to be sent.
const LATE: Duration = Duration::from_millis(50);

pub(crate) fn run(args: &FanOutArgs) -> Result<(), BenchError> {
    let heads = [
        "way",
        "updates/s in",
        "updates/s out",
        "server CPU",
        "ns/update out",
        "beside bare",
        "p50 us",
        "p99 us",
        "sustained",
    ];
    let mut report = Report::new("producer-50-50", args.options.json, &heads);
    let mut ways = [Way::bare(args)?, Way::tickcast(args)?];
    for rate in &args.rates {
        let mut figures: [Figures; 2] = Default::default();
        for run in 0..args.options.runs {
            for (way, figures) in ways.iter_mut().zip(&mut figures) {
                report.progress(&format!(
                    "{}, {rate}/s in, run {} of {}",
                    way.name,
                    run + 1,
                    args.options.runs
                ));
                figures.add(&way.run(&args.options, run, *rate)?);
            }
        }
        let bare_ns = figures[0].ns_per_update.median();
        for (way, figures) in ways.iter().zip(&figures) {
            figures.report(&mut report, way.name, *rate, bare_ns, args.options.runs);
        }
        if figures[1].sustained == 0 {
            break;
        }
    }
    report.print();
    Ok(())
}

/// Those that take part in one way of fanning out.
struct Way {
    name: &'static str,
    /// Updates out for one in.
    copies: f64,
    // Those that would complain of a lost peer end first.
    sink: Process,
    /// Sends at the rate that it is told; none if the server itself does.
    publisher: Option<Process>,
    server: Process,
    _distributor: Option<Process>,
}

/// What came of one run.
struct Outcome {
    updates_per_s: f64,
    load: f64,
    ns_per_update: f64,
    p50_ns: f64,
    p99_ns: f64,
    sustained: bool,
}

impl Way {
    fn tickcast(args: &FanOutArgs) -> Result<Way, BenchError> {
        let others = Cpu::on(Some(OTHERS_CPU));
        let Daemons { provider_port, rssl_port, server, distributor } =
            Daemons::start([others, Cpu::on(Some(SERVER_CPU))], &args.set)?;
        let (each, mounts) = (EACH.to_string(), args.mounts.to_string());
        let items = words(&["--common", &each, "--mounts", &mounts, "--own", &each]);
        let publisher = words(&["--port", &provider_port.to_string(), "--pacing", "sleep"]);
        let mut publisher = Process::role("publisher", &[publisher, items.clone(), others.args()].concat())?;
        publisher.expect("ready", START_LIMIT)?;
        let sink = words(&["--port", &rssl_port.to_string()]);
        let mut sink = Process::role("mounts", &[sink, items, others.args()].concat())?;
        sink.expect("ready", START_LIMIT)?;
        Ok(Way {
            name: "tickcast",
            copies: f64::from(args.mounts + 1) / 2.0,
            publisher: Some(publisher),
            server,
            sink,
            _distributor: Some(distributor),
        })
    }

    fn bare(args: &FanOutArgs) -> Result<Way, BenchError> {
        let mounts = words(&["--mounts", &args.mounts.to_string()]);
        let mut server =
            Process::role("bare-server", &[&mounts[..], &Cpu::on(Some(SERVER_CPU)).args()].concat())?;
        let port = server.expect("port", START_LIMIT)?["port"].to_string();
        let sink = [words(&["--port", &port]), mounts, Cpu::on(Some(OTHERS_CPU)).args()].concat();
        let mut sink = Process::role("bare-mounts", &sink)?;
        sink.expect("ready", START_LIMIT)?;
        server.expect("ready", START_LIMIT)?;
        let copies = f64::from(args.mounts + 1) / 2.0;
        Ok(Way { name: "bare", copies, publisher: None, server, sink, _distributor: None })
    }

    fn run(&mut self, options: &RunOptions, run: u32, rate: u64) -> Result<Outcome, BenchError> {
        let configured = options.seconds;
        let limit = Duration::from_secs_f64(configured * 4.0 + 20.0);
        let (start, busy_before) = (clock::monotonic(), self.server.cpu_time()?);
        let source = self.publisher.as_mut().unwrap_or(&mut self.server);
        source.tell(&json!({ "run": run + 1, "rate": rate, "seconds": configured }))?;
        let sent = source.expect("sent", limit)?["sent"].as_f64().unwrap_or(0.0);
        let seen = self.sink.expect("run", limit)?;
        let seconds = clock::monotonic().since(start).as_secs_f64();
        let busy = (self.server.cpu_time()? - busy_before).as_secs_f64();
        let number = |key: &str| seen[key].as_f64().unwrap_or(0.0);
        let (count, expected) = (number("updates"), sent * self.copies);
        // Of an odd number of updates, one more goes to own items.
        if (count - expected).abs() > self.copies * 2.0 {
            let text = format!("{}: {expected} updates expected at {rate}/s, {count} received", self.name);
            return Err(BenchError::new(text));
        }
        Ok(Outcome {
            updates_per_s: count / seconds.max(configured),
            load: busy / seconds,
            ns_per_update: busy * 1e9 / count,
            p50_ns: number("p50_ns"),
            p99_ns: number("p99_ns"),
            sustained: number("last_ns") < LATE.as_nanos() as f64,
        })
    }
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

/// Several runs at one rate.
#[derive(Default)]
struct Figures {
    updates_per_s: Runs,
    load: Runs,
    ns_per_update: Runs,
    p50_ns: Runs,
    p99_ns: Runs,
    sustained: u32,
}

impl Figures {
    fn add(&mut self, outcome: &Outcome) {
        self.updates_per_s.add(outcome.updates_per_s);
        self.load.add(outcome.load);
        self.ns_per_update.add(outcome.ns_per_update);
        self.p50_ns.add(outcome.p50_ns);
        self.p99_ns.add(outcome.p99_ns);
        self.sustained += u32::from(outcome.sustained);
    }

    fn report(&self, report: &mut Report, way: &str, rate: u64, bare_ns: f64, runs: u32) {
        let ratio = self.ns_per_update.median() / bare_ns;
        let cells = [
            way.to_owned(),
            rate.to_string(),
            report::spread(&self.updates_per_s, report::millions),
            format!("{:.0} %", self.load.median() * 100.0),
            report::spread(&self.ns_per_update, report::one_decimal),
            format!("{ratio:.2}"),
            report::micros(self.p50_ns.median()),
            report::micros(self.p99_ns.median()),
            format!("{} of {runs}", self.sustained),
        ];
        let object = json!({
            "way": way, "rate": rate, "out_per_s": report::spread_json(&self.updates_per_s),
            "server_load": report::spread_json(&self.load), "ns_per_update": report::spread_json(&self.ns_per_update),
            "ns_to_bare": ratio, "p50_ns": report::spread_json(&self.p50_ns), "p99_ns": report::spread_json(&self.p99_ns),
            "sustained": self.sustained,
        });
        report.row(cells, object);
    }
}

/// What the mounts have seen of a run, as they tell it.
fn seen(run: u32, updates: u64, latencies: &Latencies, last_ns: u64) -> Value {
    let s = latencies.summary();
    json!({ "run": run, "updates": updates, "p50_ns": s.p50_ns, "p99_ns": s.p99_ns, "last_ns": last_ns })
}

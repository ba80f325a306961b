//! The same over WebSocket: one point-to-point server and many clients that all watch the same items, in
//! JSON.
//!
//! Each update in leaves as many as there are clients. What the server needs for one of them is its thread's
//! time divided by how many left; one thread makes as many a second as fit.

use clap::Args;

use super::{EACH, Figures, OTHERS_CPU, SERVER_CPU, Way, words};
use crate::end_to_end::{Daemons, START_LIMIT, free_port};
use crate::process::Process;
use crate::report::{self, Report};
use crate::role::Cpu;
use crate::{BenchError, RunOptions};
use serde_json::json;

#[derive(Debug, Args)]
pub struct WebSocketFanOutArgs {
    #[command(flatten)]
    options: RunOptions,
    /// Clients.
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=1000))]
    clients: u32,
    /// Updates a second into the system, raised until they do not all get through in time.
    #[arg(long, value_delimiter = ',', default_values_t = RATES)]
    rates: Vec<u64>,
    /// Clients ask for compression.
    #[arg(long)]
    compression: bool,
    /// Further settings of both daemons, as for their --set.
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
}

const RATES: [u64; 4] = [5_000, 10_000, 20_000, 40_000];

impl WebSocketFanOutArgs {
    pub(crate) fn new(options: RunOptions) -> WebSocketFanOutArgs {
        let (rates, set) = (RATES.to_vec(), Vec::new());
        WebSocketFanOutArgs { options, clients: 100, rates, compression: false, set }
    }
}

pub(crate) fn run(args: &WebSocketFanOutArgs) -> Result<(), BenchError> {
    let heads = [
        "updates/s in",
        "updates/s out",
        "server CPU",
        "ns/update out",
        "updates/s a thread",
        "p50 us",
        "p99 us",
        "sustained",
    ];
    let mut report = Report::new("websocket-fan-out", args.options.json, &heads);
    let mut way = way(args)?;
    for rate in &args.rates {
        let mut figures = Figures::default();
        for run in 0..args.options.runs {
            report.progress(&format!("{rate}/s in, run {} of {}", run + 1, args.options.runs));
            figures.add(&way.run(&args.options, run, *rate)?);
        }
        show(&figures, &mut report, *rate, args.options.runs);
        if figures.sustained == 0 {
            break;
        }
    }
    report.print();
    Ok(())
}

fn way(args: &WebSocketFanOutArgs) -> Result<Way, BenchError> {
    let (others, port) = (Cpu::on(Some(OTHERS_CPU)), free_port()?);
    let mut sets = vec![format!("p2ps.websocket_port={port}")];
    sets.extend(args.set.iter().cloned());
    let daemons = Daemons::start([others, Cpu::on(Some(SERVER_CPU))], &sets)?;
    let Daemons { provider_port, server, distributor, .. } = daemons;
    let (each, clients) = (EACH.to_string(), args.clients.to_string());
    let items = words(&["--common", &each, "--mounts", &clients, "--own", "0"]);
    let publisher = words(&["--port", &provider_port.to_string(), "--pacing", "sleep"]);
    let mut publisher = Process::role("publisher", &[publisher, items, others.args()].concat())?;
    publisher.expect("ready", START_LIMIT)?;
    let mut sink = words(&["--port", &port.to_string(), "--items", &each, "--clients", &clients]);
    sink.extend(args.compression.then(|| "--compression".to_owned()));
    let mut sink = Process::role("websocket-clients", &[sink, others.args()].concat())?;
    sink.expect("ready", START_LIMIT)?;
    Ok(Way {
        name: "tickcast",
        copies: f64::from(args.clients),
        publisher: Some(publisher),
        server,
        sink,
        _distributor: Some(distributor),
    })
}

fn show(figures: &Figures, report: &mut Report, rate: u64, runs: u32) {
    let a_thread = 1e9 / figures.ns_per_update.median();
    let cells = [
        rate.to_string(),
        report::spread(&figures.updates_per_s, report::millions),
        format!("{:.0} %", figures.load.median() * 100.0),
        report::spread(&figures.ns_per_update, report::one_decimal),
        report::millions(a_thread),
        report::micros(figures.p50_ns.median()),
        report::micros(figures.p99_ns.median()),
        format!("{} of {runs}", figures.sustained),
    ];
    let object = json!({
        "rate": rate, "out_per_s": report::spread_json(&figures.updates_per_s),
        "server_load": report::spread_json(&figures.load),
        "ns_per_update": report::spread_json(&figures.ns_per_update), "per_thread": a_thread,
        "p50_ns": report::spread_json(&figures.p50_ns), "p99_ns": report::spread_json(&figures.p99_ns),
        "sustained": figures.sustained,
    });
    report.row(cells, object);
}

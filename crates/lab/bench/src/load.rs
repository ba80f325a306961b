//! Latency under load: one way at fixed rates, every message observed, from the time it was meant to be sent.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use measure::{Runs, STAMP_BYTES};
use serde_json::json;

use crate::contest;
use crate::observing::{self, Observing};
use crate::pair::{Contender, EndArgs, Kind, Pace, Path, Streamed};
use crate::report::{self, Report};
use crate::{BenchError, RunOptions, observed, own};

#[derive(Debug, Args)]
pub struct LoadArgs {
    #[command(flatten)]
    options: RunOptions,
    /// By what the messages travel.
    #[arg(long, default_value_t = Path::Multicast)]
    path: Path,
    /// Bytes of a message.
    #[arg(long, value_delimiter = ',', default_values_t = [64], value_parser = crate::options::message_size())]
    sizes: Vec<u32>,
    /// Messages a second, of all sources together.
    #[arg(long, value_delimiter = ',', default_values_t = RATES)]
    rates: Vec<u64>,
    /// Longest UDP payload of a datagram.
    #[arg(long, default_value_t = 1472)]
    datagram: u32,
    /// CPUs of the senders and of the receivers.
    #[arg(long, value_delimiter = ',', num_args = 2, default_values_t = [0, 1])]
    cpus: Vec<usize>,
    /// Takes down each message at both ends, in files of observations in this folder: `tickcast analyse` follows them.
    #[arg(long, value_name = "DIR")]
    observe: Option<PathBuf>,
}

pub(crate) const RATES: [u64; 6] = [25_000, 50_000, 100_000, 125_000, 500_000, 1_000_000];

impl LoadArgs {
    pub(crate) fn new(options: RunOptions, sizes: &[u32], rates: &[u64]) -> LoadArgs {
        let (sizes, rates, cpus) = (sizes.to_vec(), rates.to_vec(), vec![0, 1]);
        LoadArgs { options, path: Path::Multicast, sizes, rates, datagram: 1472, cpus, observe: None }
    }
}

/// How many sources and receivers there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    OneToOne,
    ThreeToThree,
}

impl Shape {
    fn title(self) -> &'static str {
        match self {
            Shape::OneToOne => "messaging-1-1",
            Shape::ThreeToThree => "messaging-3-3",
        }
    }

    fn pairs(self) -> usize {
        match self {
            Shape::OneToOne => 1,
            Shape::ThreeToThree => 3,
        }
    }
}

pub(crate) fn run(args: &LoadArgs, shape: Shape) -> Result<(), BenchError> {
    let before = ["bytes", "messages/s", "way", "received/s"];
    let heads = [&before[..], &report::LATENCY_HEADS, &["lost", "sustained", "to raw", "CPUs"]].concat();
    let mut report = Report::new(shape.title(), args.options.json, &heads);
    let cpus = crate::options::two_cpus(&args.cpus)?;
    contest::note_jitter(&mut report, cpus, args.options)?;
    let mut contenders = contenders(args.path, shape, &mut report);
    if let Some(folder) = &args.observe {
        observing::make_folder(folder)?;
        observed::note(&mut report, folder)?;
    }
    for size in &args.sizes {
        for rate in &args.rates {
            measure(args, shape, (*size, *rate), cpus, &mut contenders, &mut report)?;
        }
    }
    let layout = match shape {
        Shape::OneToOne => "One sender, one receiver, each alone on its CPU",
        Shape::ThreeToThree => {
            "Three senders with a context and a group each share one thread and CPU, three receivers another"
        }
    };
    report.note(format!(
        "By {}. {layout}; all spin. Every message is timed, from when it was meant to be sent; the stamp is \
         {STAMP_BYTES} bytes of it. \"to raw\" is the median of the rounds' ratios of p50. {}",
        args.path,
        report::LATENCY_NOTE
    ));
    report.print()
}

fn contenders(path: Path, shape: Shape, report: &mut Report) -> Vec<Contender> {
    // What is bare has one sender; its datagrams are filled with what is due, as ours are.
    let raw = (shape == Shape::OneToOne).then(|| {
        let mode = match path {
            Path::Udp | Path::Multicast => "gso",
            Path::Shm => "each",
            Path::Tcp | Path::Veth => "",
        };
        Contender::new("raw", Kind::Raw, mode)
    });
    let mut contenders: Vec<Contender> = raw.into_iter().chain(own::contenders(path)).collect();
    match path {
        Path::Tcp if shape == Shape::OneToOne => {
            contest::with_peers(&mut contenders, "zeromq-peer", &[("zeromq", "")], report);
        }
        Path::Tcp | Path::Veth => {}
        Path::Shm | Path::Udp | Path::Multicast => {
            contest::with_peers(&mut contenders, "aeron-peer", &[("aeron", "claim")], report);
        }
    }
    contest::in_place(path, contenders, report)
}

fn measure(
    args: &LoadArgs,
    shape: Shape,
    (size, rate): (u32, u64),
    cpus: [usize; 2],
    contenders: &mut Vec<Contender>,
    report: &mut Report,
) -> Result<(), BenchError> {
    let [cpu, far_cpu] = cpus;
    let (datagram, pairs) = (args.datagram as usize, shape.pairs());
    let end = EndArgs {
        path: args.path,
        size: size as usize,
        datagram,
        mode: String::new(),
        pairs,
        port: 0,
        cpu,
        far_cpu,
    };
    let span = Duration::from_secs_f64(args.options.seconds);
    let what = format!("{size} bytes, {rate}/s");
    if let Some(folder) = &args.observe {
        let capacity = (rate as f64 * args.options.seconds) as u64 + 1_000;
        for contender in &mut *contenders {
            let label = format!("{} {size} {rate}", contender.name);
            *contender = contender.clone().observed(Observing::new(folder, label, capacity));
        }
    }
    let rounds = contest::in_turns(contenders, cpus, args.options, report, &what, |contender| {
        contender.stream(&end, span, Pace::Timed(rate))
    })?;
    let p50_of = |streamed: &Streamed| streamed.observed.latencies.p50_ns as f64;
    let p50 = contest::figures(contenders, &rounds, p50_of, f64::min);
    for (at, contender) in contenders.iter().enumerate() {
        let results = &rounds.results[at];
        let lost: u64 = results.iter().map(Streamed::lost).sum();
        let received: Runs = results.iter().map(Streamed::per_second).collect();
        let latencies = results.iter().map(|streamed| streamed.observed.latencies).collect();
        let of_latency = report::latency_cells(&latencies, report::fine_micros);
        let before =
            [size.to_string(), rate.to_string(), contender.name.clone(), format!("{:.0}", received.median())];
        let is_sustained = results.iter().all(Streamed::is_sustained);
        let behind = [
            lost.to_string(),
            if is_sustained { "yes" } else { "no" }.to_owned(),
            contest::ratio(p50.to_raw[at]),
            rounds.placement.to_string(),
        ];
        let object = json!({
            "path": args.path.to_string(), "size": size, "rate": rate, "way": contender.name,
            "received_per_s": report::spread_json(&received),
            "lost": lost, "is_sustained": is_sustained, "to_raw": p50.to_raw[at], "placement": rounds.placement,
        });
        let object = report::latency_json(&latencies, object);
        report.row(before.into_iter().chain(of_latency).chain(behind), object);
    }
    Ok(())
}

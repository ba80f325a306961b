//! A message to and fro: half of its round trip, beside the bare path and the peers.

use std::time::Duration;

use clap::Args;
use measure::Summary;
use serde_json::json;

use crate::contest;
use crate::pair::{Contender, EndArgs, Kind, Path};
use crate::report::{self, Report};
use crate::{BenchError, RunOptions, own, raw};

#[derive(Debug, Args)]
pub struct PingpongArgs {
    #[command(flatten)]
    options: RunOptions,
    /// By what the message travels.
    #[arg(long, value_delimiter = ',', default_values_t = PATHS)]
    paths: Vec<Path>,
    /// Bytes of the message.
    #[arg(long, value_delimiter = ',', default_values_t = [64], value_parser = crate::options::message_size())]
    sizes: Vec<u32>,
    /// CPUs of the two ends, which spin.
    #[arg(long, value_delimiter = ',', num_args = 2, default_values_t = [0, 1])]
    cpus: Vec<usize>,
}

const PATHS: [Path; 5] = [Path::Shm, Path::Udp, Path::Multicast, Path::Tcp, Path::Veth];

impl PingpongArgs {
    pub(crate) fn new(options: RunOptions, sizes: &[u32]) -> PingpongArgs {
        PingpongArgs { options, paths: PATHS.to_vec(), sizes: sizes.to_vec(), cpus: vec![0, 1] }
    }
}

pub(crate) fn run(args: &PingpongArgs) -> Result<(), BenchError> {
    let heads = [&["path", "bytes", "way"][..], &report::LATENCY_HEADS, &["to raw", "CPUs"]].concat();
    let mut report = Report::new("pingpong", args.options.json, &heads);
    let cpus = crate::options::two_cpus(&args.cpus)?;
    contest::note_jitter(&mut report, cpus, args.options)?;
    for path in &args.paths {
        let mut contenders = contenders(*path, &mut report);
        if contenders.is_empty() {
            continue;
        }
        for size in &args.sizes {
            measure(args, *path, *size as usize, cpus, &mut contenders, &mut report)?;
        }
    }
    report.note(format!(
        "Half round trips, both ends spinning; \"to raw\" is the median of the rounds' ratios of p50. {}",
        report::LATENCY_NOTE
    ));
    report.print()
}

fn contenders(path: Path, report: &mut Report) -> Vec<Contender> {
    let raw = |name, mode| Contender::new(name, Kind::Raw, mode);
    let mut contenders = match path {
        Path::Veth => vec![raw("raw, AF_XDP", raw::AF_XDP), raw("raw, UDP", "")],
        _ => vec![raw("raw", "")],
    };
    contenders.extend(own::contenders(path));
    match path {
        Path::Shm | Path::Udp | Path::Multicast => {
            contest::with_peers(&mut contenders, "aeron-peer", &[("aeron", "claim")], report);
        }
        Path::Tcp => contest::with_peers(&mut contenders, "zeromq-peer", &[("zeromq", "")], report),
        Path::Veth => {}
    }
    contest::in_place(path, contenders, report)
}

fn measure(
    args: &PingpongArgs,
    path: Path,
    size: usize,
    cpus: [usize; 2],
    contenders: &mut Vec<Contender>,
    report: &mut Report,
) -> Result<(), BenchError> {
    let [cpu, far_cpu] = cpus;
    let end = EndArgs { path, size, datagram: 1472, mode: String::new(), pairs: 1, port: 0, cpu, far_cpu };
    let (span, what) = (Duration::from_secs_f64(args.options.seconds), format!("{path}, {size} bytes"));
    let rounds = contest::in_turns(contenders, cpus, args.options, report, &what, |contender| {
        contender.pingpong(&end, span)
    })?;
    let p50 = contest::figures(contenders, &rounds, |summary: &Summary| summary.p50_ns as f64, f64::min);
    for (at, contender) in contenders.iter().enumerate() {
        let latencies = rounds.results[at].iter().cloned().collect();
        let of_latency = report::latency_cells(&latencies, report::fine_micros);
        let before = [path.to_string(), size.to_string(), contender.name.clone()];
        let behind = [contest::ratio(p50.to_raw[at]), rounds.placement.to_string()];
        let object = json!({
            "path": path.to_string(), "size": size, "way": contender.name,
            "to_raw": p50.to_raw[at], "placement": rounds.placement,
        });
        let object = report::latency_json(&latencies, object);
        report.row(before.into_iter().chain(of_latency).chain(behind), object);
    }
    Ok(())
}

//! One way as fast as it goes without loss, beside the bare path and the peers.

use std::time::Duration;

use clap::Args;
use serde_json::json;

use crate::contest;
use crate::pair::{Contender, EndArgs, Kind, Pace, Path, Streamed};
use crate::report::{self, Report};
use crate::sustained::Sustained;
use crate::{BenchError, RunOptions, own};

#[derive(Debug, Args)]
pub struct StreamArgs {
    #[command(flatten)]
    options: RunOptions,
    /// By what the messages travel.
    #[arg(long, value_delimiter = ',', default_values_t = PATHS)]
    paths: Vec<Path>,
    /// Bytes of a message.
    #[arg(long, value_delimiter = ',', default_values_t = [64], value_parser = crate::options::message_size())]
    sizes: Vec<u32>,
    /// Longest UDP payload of a datagram; the peers take the nearest length that they know.
    #[arg(long, value_delimiter = ',', default_values_t = [1472])]
    datagrams: Vec<u32>,
    /// CPUs of sender and receiver, which spin.
    #[arg(long, value_delimiter = ',', num_args = 2, default_values_t = [0, 1])]
    cpus: Vec<usize>,
}

const PATHS: [Path; 4] = [Path::Multicast, Path::Udp, Path::Tcp, Path::Shm];

impl StreamArgs {
    pub(crate) fn new(options: RunOptions, sizes: &[u32], datagrams: &[u32]) -> StreamArgs {
        let (sizes, datagrams) = (sizes.to_vec(), datagrams.to_vec());
        StreamArgs { options, paths: PATHS.to_vec(), sizes, datagrams, cpus: vec![0, 1] }
    }
}

pub(crate) fn run(args: &StreamArgs) -> Result<(), BenchError> {
    let heads = ["path", "bytes", "datagram", "way", "messages/s", "MB/s", "lost", "to raw", "CPUs"];
    let mut report = Report::new("stream", args.options.json, &heads);
    let cpus = crate::options::two_cpus(&args.cpus)?;
    contest::note_jitter(&mut report, cpus, args.options)?;
    for path in &args.paths {
        let mut contenders = contenders(*path, &mut report);
        if contenders.is_empty() {
            continue;
        }
        let in_datagrams = matches!(path, Path::Udp | Path::Multicast | Path::Veth);
        let datagrams = if in_datagrams { &args.datagrams[..] } else { &args.datagrams[..1] };
        for (datagram, size) in datagrams.iter().flat_map(|d| args.sizes.iter().map(move |s| (*d, *s))) {
            if in_datagrams && size > datagram {
                return Err(BenchError::new(format!("a message of {size} bytes in datagrams of {datagram}")));
            }
            let [cpu, far_cpu] = cpus;
            let (size, datagram) = (size as usize, datagram as usize);
            let end =
                EndArgs { path: *path, size, datagram, mode: String::new(), pairs: 1, port: 0, cpu, far_cpu };
            measure(args, &end, cpus, &mut contenders, &mut report)?;
        }
    }
    report.note(
        "Messages that arrived, a second; \"to raw\" is the median of the rounds' ratios to the best bare contender. \
         LBT-RM and LBT-RU run at the highest rate that they sustain without loss, the others as fast as they are let."
            .to_owned(),
    );
    report.print()
}

fn contenders(path: Path, report: &mut Report) -> Vec<Contender> {
    let raw = |name, mode| Contender::new(name, Kind::Raw, mode);
    let mut contenders = match path {
        Path::Udp | Path::Multicast => vec![raw("raw, sendmmsg", "mmsg"), raw("raw, GSO and GRO", "gso")],
        Path::Tcp => vec![raw("raw, 256 KiB a write", "")],
        Path::Shm => vec![raw("raw, published each", "each"), raw("raw, published every 16", "16")],
        // Nothing would hold a bare sender back.
        Path::Veth => Vec::new(),
    };
    contenders.extend(own::contenders(path));
    match path {
        Path::Shm | Path::Udp | Path::Multicast => {
            let modes = [("aeron, offer", "offer"), ("aeron, claim", "claim")];
            contest::with_peers(&mut contenders, "aeron-peer", &modes, report);
        }
        Path::Tcp => contest::with_peers(&mut contenders, "zeromq-peer", &[("zeromq", "")], report),
        Path::Veth => {}
    }
    contest::in_place(path, contenders, report)
}

fn measure(
    args: &StreamArgs,
    end: &EndArgs,
    cpus: [usize; 2],
    contenders: &mut Vec<Contender>,
    report: &mut Report,
) -> Result<(), BenchError> {
    let (path, size, datagram) = (end.path, end.size, end.datagram);
    let span = Duration::from_secs_f64(args.options.seconds);
    let what = format!("{path}, {size} bytes in {datagram}");
    let mut sustained = None;
    let rounds = contest::in_turns(contenders, cpus, args.options, report, &what, |contender| {
        if !contender.needs_rate() {
            return contender.stream(end, span, Pace::FlatOut);
        }
        let rate = match &mut sustained {
            Some(rate) => rate,
            none => none.insert(Sustained::search(contender, end, span)?),
        };
        rate.run(contender, end, span)
    })?;
    let figures = contest::figures(contenders, &rounds, Streamed::per_second, f64::max);
    for (at, contender) in contenders.iter().enumerate() {
        let lost: u64 = rounds.results[at].iter().map(Streamed::lost).sum();
        let runs = &figures.runs[at];
        let cells = [
            path.to_string(),
            size.to_string(),
            datagram.to_string(),
            contender.name.clone(),
            report::spread(runs, report::millions),
            format!("{:.0}", runs.median() * size as f64 / 1e6),
            lost.to_string(),
            contest::ratio(figures.to_raw[at]),
            rounds.placement.to_string(),
        ];
        let object = json!({
            "path": path.to_string(), "size": size, "datagram": datagram, "way": contender.name,
            "received_per_s": report::spread_json(runs), "lost": lost,
            "to_raw": figures.to_raw[at], "placement": rounds.placement,
        });
        report.row(cells, object);
    }
    Ok(())
}

//! One way as fast as it goes without loss, beside the bare path and the peers.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::time::Duration;

use clap::Args;
use serde_json::json;

use crate::contest;
use crate::layout::{self, PairCpus, Which};
use crate::own::{Bypass, Settings};
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
    /// Longest UDP payload of a datagram; the peers take the nearest length that they know. 1,472 unless the settings say
    /// otherwise.
    #[arg(long, value_delimiter = ',', value_parser = crate::options::datagram_size())]
    datagrams: Vec<u32>,
    /// Senders and receivers at once, a process and a multicast group each; rows for each pair and for all.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=16))]
    pairs: u8,
    /// CPUs: two, of the senders and of the receivers, or one for each end, the senders' first.
    #[arg(long, value_delimiter = ',', num_args = 1.., default_values_t = [0, 1])]
    cpus: Vec<usize>,
    /// Which ends of `veth` bypass the kernel's network stack.
    #[arg(long, value_delimiter = ',', default_values_t = own::BYPASSES)]
    bypass: Vec<Bypass>,
    #[command(flatten)]
    settings: Settings,
}

const PATHS: [Path; 4] = [Path::Multicast, Path::Udp, Path::Tcp, Path::Shm];

impl StreamArgs {
    /// The ends of a run, a process for each: they differ in CPUs and number.
    fn ends(&self, spread: &[PairCpus], path: Path, size: u32, datagram: u32) -> Vec<EndArgs> {
        let end = |(number, pair): (usize, &PairCpus)| EndArgs {
            first_pair: number,
            yields: pair.yields,
            settings: self.settings.clone(),
            ..EndArgs::of(path, size as usize, datagram as usize, pair.cpus)
        };
        spread.iter().enumerate().map(end).collect()
    }
}

pub(crate) fn run(args: &StreamArgs) -> Result<(), BenchError> {
    let heads =
        ["path", "bytes", "datagram", "way", "pair", "messages/s", "MB/s", "Gb/s", "lost", "to raw", "CPUs"];
    let mut report = Report::new("stream", args.options.json, &heads);
    let spread = layout::spread(usize::from(args.pairs), &args.cpus)?;
    args.settings.check(&mut report, &[])?;
    let datagrams = match &args.datagrams[..] {
        [] => vec![args.settings.datagram()?.unwrap_or(1_472)],
        given => given.to_vec(),
    };
    contest::note_jitter(&mut report, &layout::used(&spread), args.options)?;
    let mut failed = Vec::new();
    for path in &args.paths {
        let mut contenders = contenders(*path, &args.bypass, &mut report);
        if contenders.is_empty() {
            continue;
        }
        let in_datagrams = matches!(path, Path::Udp | Path::Multicast | Path::Veth);
        let datagrams = if in_datagrams { &datagrams[..] } else { &datagrams[..1] };
        for (datagram, size) in datagrams.iter().flat_map(|d| args.sizes.iter().map(move |s| (*d, *s))) {
            if in_datagrams && size > datagram {
                return Err(BenchError::new(format!("a message of {size} bytes in datagrams of {datagram}")));
            }
            let ends = args.ends(&spread, *path, size, datagram);
            failed.extend(measure(args, &ends, &mut contenders, &mut report)?);
        }
    }
    report.note(layout::told(&spread));
    report.note(
        "Messages that arrived, a second; \"to raw\" is the median of the rounds' ratios to the best bare contender. \
         LBT-RM and LBT-RU run at the highest rate that they sustain without loss, the others as fast as they are let."
            .to_owned(),
    );
    report.print()?;
    contest::outcome(&failed)
}

fn contenders(path: Path, bypass: &[Bypass], report: &mut Report) -> Vec<Contender> {
    let raw = |name, mode| Contender::new(name, Kind::Raw, mode);
    let mut contenders = match path {
        Path::Udp | Path::Multicast => vec![raw("raw, sendmmsg", "mmsg"), raw("raw, GSO and GRO", "gso")],
        Path::Tcp => vec![raw("raw, 256 KiB a write", "")],
        Path::Shm => vec![raw("raw, published each", "each"), raw("raw, published every 16", "16")],
        // Nothing would hold a bare sender back.
        Path::Veth => Vec::new(),
    };
    contenders.extend(own::contenders(path, bypass));
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

/// Rows of each contender; what has failed.
fn measure(
    args: &StreamArgs,
    ends: &[EndArgs],
    contenders: &mut Vec<Contender>,
    report: &mut Report,
) -> Result<Vec<String>, BenchError> {
    let [end, ..] = ends else { return Ok(Vec::new()) };
    let (path, size, datagram) = (end.path, end.size, end.datagram);
    let span = Duration::from_secs_f64(args.options.seconds);
    let what = format!("{path}, {size} bytes in {datagram}");
    let mut sustained: BTreeMap<String, Sustained> = BTreeMap::new();
    let cpus = [end.cpu, end.far_cpu];
    let rounds = contest::in_turns(contenders, cpus, args.options, report, &what, |contender| {
        if !contender.needs_rate() {
            return contender.streams(ends, span, Pace::FlatOut);
        }
        let rate = match sustained.entry(contender.name.clone()) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(none) => none.insert(Sustained::search(contender, ends, span)?),
        };
        rate.run(contender, ends, span)
    })?;
    for pair in Which::rows(ends.len()) {
        let per_second = |run: &Vec<Streamed>| pair.of(run).iter().map(Streamed::per_second).sum();
        let figures = contest::figures(contenders, &rounds, per_second, f64::max);
        for (at, contender) in contenders.iter().enumerate() {
            let lost: u64 = rounds.results[at].iter().flat_map(|run| pair.of(run)).map(Streamed::lost).sum();
            let runs = &figures.runs[at];
            let bytes_per_second = runs.median() * size as f64;
            let cells = [
                path.to_string(),
                size.to_string(),
                datagram.to_string(),
                contender.name.clone(),
                pair.to_string(),
                report::spread(runs, report::millions),
                format!("{:.0}", bytes_per_second / 1e6),
                format!("{:.2}", bytes_per_second * 8.0 / 1e9),
                lost.to_string(),
                contest::ratio(figures.to_raw[at]),
                rounds.placement.to_string(),
            ];
            let object = json!({
                "path": path.to_string(), "size": size, "datagram": datagram, "way": contender.name,
                "pair": pair.to_string(), "received_per_s": report::spread_json(runs),
                "gigabits_per_s": bytes_per_second * 8.0 / 1e9, "lost": lost,
                "to_raw": figures.to_raw[at], "placement": rounds.placement,
            });
            report.row(cells, object);
        }
    }
    Ok(rounds.failed)
}

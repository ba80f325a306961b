//! A message to and fro: half of its round trip, beside the bare path and the peers.

use std::time::Duration;

use clap::Args;
use measure::Summary;
use serde_json::json;

use crate::contest;
use crate::own::{Bypass, Settings};
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
    /// Bytes of the message, 16 to 65,536. Ours goes in fragments where a datagram does not carry it.
    #[arg(long, value_delimiter = ',', default_values_t = [64], value_parser = crate::options::long_message_size())]
    sizes: Vec<u32>,
    /// The sizes of the published tests of sockets in place of --sizes: 64 to 1,024, 1,500 and 2,048 bytes.
    #[arg(long, conflicts_with = "sizes")]
    published_sizes: bool,
    /// Longest UDP payload of a datagram of ours and of the peers; 1,472 unless the settings say otherwise. A bare one
    /// is always as long as the message.
    #[arg(long, value_parser = crate::options::datagram_size())]
    datagram: Option<u32>,
    /// Which ends of `veth` bypass the kernel's network stack.
    #[arg(long, value_delimiter = ',', default_values_t = own::BYPASSES)]
    bypass: Vec<Bypass>,
    #[command(flatten)]
    settings: Settings,
    /// CPUs of the two ends, which spin.
    #[arg(long, value_delimiter = ',', num_args = 1..=2, default_values_t = [0, 1])]
    cpus: Vec<usize>,
}

/// Of report 004 (2011), examples 1 to 3.
const PUBLISHED_SIZES: [u32; 7] = [64, 128, 256, 512, 1_024, 1_500, 2_048];

const PATHS: [Path; 5] = [Path::Shm, Path::Udp, Path::Multicast, Path::Tcp, Path::Veth];

pub(crate) fn run(args: &PingpongArgs) -> Result<(), BenchError> {
    let heads = [&["path", "bytes", "way"][..], &report::LATENCY_HEADS, &["to raw", "CPUs"]].concat();
    let mut report = Report::new("pingpong", args.options.json, &heads);
    let cpus = crate::options::two_cpus(&args.cpus)?;
    args.settings.check(&mut report, &[])?;
    contest::note_jitter(&mut report, &cpus, args.options)?;
    let datagram = args.datagram.or(args.settings.datagram()?).unwrap_or(1_472) as usize;
    let sizes = if args.published_sizes { &PUBLISHED_SIZES[..] } else { &args.sizes };
    let mut failed = Vec::new();
    for path in &args.paths {
        let mut contenders = contenders(*path, &args.bypass, &mut report);
        for size in sizes {
            let end = EndArgs {
                settings: args.settings.clone(),
                ..EndArgs::of(*path, *size as usize, datagram, cpus)
            };
            let mut able = that_carry(&contenders, *path, *size as usize, &mut report);
            let before = able.clone();
            failed.extend(measure(args, &end, cpus, &mut able, &mut report)?);
            contenders.retain(|one| {
                let is_in = |list: &[Contender]| list.iter().any(|other| other.name == one.name);
                is_in(&able) || !is_in(&before)
            });
        }
    }
    report.note(format!(
        "Half round trips, both ends spinning; \"to raw\" is the median of the rounds' ratios of p50. {}",
        report::LATENCY_NOTE
    ));
    report.print()?;
    contest::outcome(&failed)
}

/// Those that can carry a message of that size. What is bare has no fragments.
fn that_carry(contenders: &[Contender], path: Path, size: usize, report: &mut Report) -> Vec<Contender> {
    let (can, cannot): (Vec<_>, Vec<_>) =
        contenders.iter().cloned().partition(|one| size <= longest(one, path));
    for one in cannot {
        let longest = longest(&one, path);
        report.note_once(format!(
            "{path}: {} carries at most {longest} bytes, and is left out above",
            one.name
        ));
    }
    can
}

/// The longest message of a contender on a path.
fn longest(contender: &Contender, path: Path) -> usize {
    match (&contender.kind, path) {
        (Kind::Raw, Path::Veth) if contender.mode == raw::AF_XDP => FRAME_MAX_BYTES,
        (Kind::Raw, Path::Udp | Path::Multicast | Path::Veth) => net::udp::PAYLOAD_MAX_BYTES,
        _ => usize::MAX,
    }
}

/// UDP payload of an Ethernet frame.
const FRAME_MAX_BYTES: usize = 1_472;

fn contenders(path: Path, bypass: &[Bypass], report: &mut Report) -> Vec<Contender> {
    let raw = |name, mode| Contender::new(name, Kind::Raw, mode);
    let mut contenders = match path {
        Path::Veth => vec![raw("raw, AF_XDP", raw::AF_XDP), raw("raw, UDP", "")],
        _ => vec![raw("raw", "")],
    };
    contenders.extend(own::contenders(path, bypass));
    match path {
        Path::Shm | Path::Udp | Path::Multicast => {
            contest::with_peers(&mut contenders, "aeron-peer", &[("aeron", "claim")], report);
        }
        Path::Tcp => contest::with_peers(&mut contenders, "zeromq-peer", &[("zeromq", "")], report),
        Path::Veth => {}
    }
    contest::in_place(path, contenders, report)
}

/// One row for each contender; what has failed.
fn measure(
    args: &PingpongArgs,
    end: &EndArgs,
    cpus: [usize; 2],
    contenders: &mut Vec<Contender>,
    report: &mut Report,
) -> Result<Vec<String>, BenchError> {
    let (path, size) = (end.path, end.size);
    if contenders.is_empty() {
        return Ok(Vec::new());
    }
    let (span, what) = (Duration::from_secs_f64(args.options.seconds), format!("{path}, {size} bytes"));
    let rounds = contest::in_turns(contenders, cpus, args.options, report, &what, |contender| {
        contender.pingpong(end, span)
    })?;
    let p50 = contest::figures(contenders, &rounds, |summary: &Summary| summary.p50_ns as f64, f64::min);
    for (at, contender) in contenders.iter().enumerate() {
        let latencies = rounds.results[at].iter().cloned().collect();
        let of_latency = report::latency_cells(&latencies, report::fine_micros);
        let before = [path.to_string(), size.to_string(), contender.name.clone()];
        let behind = [contest::ratio(p50.to_raw[at]), rounds.placement.to_string()];
        let object = json!({
            "path": path.to_string(), "size": size, "way": contender.name,
            "datagram": end.datagram, "to_raw": p50.to_raw[at], "placement": rounds.placement,
        });
        let object = report::latency_json(&latencies, object);
        report.row(before.into_iter().chain(of_latency).chain(behind), object);
    }
    Ok(rounds.failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_bare_takes_part_as_far_as_one_datagram_goes() {
        let raw = |mode| Contender::new(format!("raw {mode}"), Kind::Raw, mode);
        let all = [raw(""), raw(raw::AF_XDP), Contender::new("ours", Kind::Own, "lbtrm")];
        let mut report = Report::new("test", false, &["way"]);
        let mut count = |path, size| that_carry(&all, path, size, &mut report).len();
        assert_eq!(
            [count(Path::Veth, 1_472), count(Path::Veth, 1_473), count(Path::Veth, 65_508)],
            [3, 2, 1]
        );
        assert_eq!([count(Path::Udp, 65_507), count(Path::Udp, 65_508), count(Path::Tcp, 65_536)], [3, 1, 3]);
        assert_eq!(count(Path::Shm, 65_536), 3);
    }
}

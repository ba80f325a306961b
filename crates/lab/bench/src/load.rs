//! Latency under load: one way at fixed rates, every message observed, from the time it was meant to be sent.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use measure::ends::Reflected;
use measure::{Placement, Runs, SENT_STAMP_BYTES, STAMP_BYTES, Summaries};
use serde_json::{Value, json};

use crate::bound::Tried;
use crate::contest::{self, Rounds};
use crate::layout::{self, PairCpus, Which};
use crate::observing::{self, Observing};
use crate::own::{Bypass, Settings};
use crate::pair::{Contender, EndArgs, GIVES_UP_MS, Kind, Pace, Path, Streamed};
use crate::report::{self, Report};
use crate::search::{Bound, Found, SearchArgs};
use crate::{BenchError, RunOptions, observed, own, probe, raw};

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
    #[arg(long, value_delimiter = ',', default_values_t = RATES, value_parser = rate())]
    rates: Vec<u64>,
    #[command(flatten)]
    search: SearchArgs,
    /// Longest UDP payload of a datagram; 1,472 unless the settings say otherwise.
    #[arg(long, value_parser = crate::options::datagram_size())]
    datagram: Option<u32>,
    /// CPUs: two, of the senders and of the receivers, or with three pairs one for each end, A,B,C of the senders and D,E,F
    /// of the receivers.
    #[arg(long, value_delimiter = ',', num_args = 1.., default_values_t = [0, 1])]
    cpus: Vec<usize>,
    /// With three pairs: one thread drives all senders and one all receivers, on two CPUs, in place of a process for each.
    #[arg(long)]
    one_thread: bool,
    /// Percent of the messages that the receiver sends back; the sender times their round trips.
    #[arg(long, value_name = "PERCENT", default_value_t = 0, value_parser = clap::value_parser!(u8).range(0..=100),
        conflicts_with_all = ["one_thread", "under", "search", "observe"])]
    reflect: u8,
    /// Which ends of `veth` bypass the kernel's network stack.
    #[arg(long, value_delimiter = ',', default_values_t = own::BYPASSES)]
    bypass: Vec<Bypass>,
    /// Takes down each message at both ends, in files of observations in this folder: `tickcast analyse` follows them.
    #[arg(long, value_name = "DIR", conflicts_with_all = ["under", "search"])]
    observe: Option<PathBuf>,
    #[command(flatten)]
    settings: Settings,
}

pub(crate) const RATES: [u64; 6] = [25_000, 50_000, 100_000, 125_000, 500_000, 1_000_000];

fn rate() -> clap::builder::RangedU64ValueParser<u64> {
    clap::value_parser!(u64).range(1..=1_000_000_000)
}

impl LoadArgs {
    /// The ends of a run, a process for each: they differ in CPUs and number.
    fn ends(&self, shape: Shape, spread: &[PairCpus], size: u32) -> Result<Vec<EndArgs>, BenchError> {
        let least = shape.pairs() as f64 / self.options.seconds;
        if let Some(rate) = self.rates.iter().find(|rate| (**rate as f64) < least) {
            let seconds = self.options.seconds;
            let text = format!("--rates {rate}: in {seconds} s that is less than a message of each source");
            return Err(BenchError::new(text));
        }
        let datagram = self.datagram.or(self.settings.datagram()?).unwrap_or(1_472);
        if self.path != Path::Shm && self.path != Path::Tcp && size > datagram {
            return Err(BenchError::new(format!("a message of {size} bytes in datagrams of {datagram}")));
        }
        let of_process = if self.one_thread { shape.pairs() } else { 1 };
        let end = |(number, pair): (usize, &PairCpus)| EndArgs {
            pairs: of_process,
            first_pair: number,
            yields: pair.yields,
            reflect: self.reflect,
            settings: self.settings.clone(),
            ..EndArgs::of(self.path, size as usize, datagram as usize, pair.cpus)
        };
        Ok(spread.iter().enumerate().map(end).collect())
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

/// What a command measures.
struct Load<'a> {
    args: &'a LoadArgs,
    spread: Vec<PairCpus>,
    span: Duration,
    /// What has failed.
    failed: Vec<String>,
}

pub(crate) fn run(args: &LoadArgs, shape: Shape) -> Result<(), BenchError> {
    if args.one_thread && shape == Shape::OneToOne {
        return Err(BenchError::new("--one-thread: one pair has a thread for each end anyway"));
    }
    let processes = if args.one_thread { 1 } else { shape.pairs() };
    let spread = layout::spread(processes, &args.cpus)?;
    let span = Duration::from_secs_f64(args.options.seconds);
    let mut load = Load { args, spread, span, failed: Vec::new() };
    let heads = if args.search.is_on() { search_heads() } else { heads(args.reflect > 0) };
    let mut report = Report::new(shape.title(), args.options.json, &heads);
    args.settings.check(&mut report, &[])?;
    contest::note_jitter(&mut report, &layout::used(&load.spread), args.options)?;
    let mut contenders = load.contenders(&mut report);
    if let Some(folder) = &args.observe {
        observing::make_folder(folder)?;
        observed::note(&mut report, folder)?;
    }
    for size in &args.sizes {
        let ends = args.ends(shape, &load.spread, *size)?;
        if args.search.is_on() {
            load.search(&ends, &contenders, &mut report);
            continue;
        }
        for rate in &args.rates {
            load.measure(&ends, *rate, &mut contenders, &mut report)?;
        }
    }
    report.note(load.layout());
    if args.reflect > 0 {
        report.note(format!(
            "Of the messages {} % come back from the receiver; a round trip counts from when the message was meant to be \
             sent. A receiver without room drops what it would send back.",
            args.reflect
        ));
    }
    report.note(if args.search.is_on() { search_note(args) } else { rates_note() });
    report.print()?;
    contest::outcome(&load.failed)
}

fn heads(is_reflected: bool) -> Vec<&'static str> {
    let before = ["bytes", "messages/s", "way", "pair", "sent/s", "received/s"];
    let behind = ["naive p50 us", "naive p99 us", "lost", "unsent", "late ms", "sustained", "to raw", "CPUs"];
    let back = if is_reflected { &REFLECTED_HEADS[..] } else { &[] };
    [&before[..], &report::LATENCY_HEADS, &behind, back].concat()
}

/// Of what comes back to the sender.
const REFLECTED_HEADS: [&str; 7] = [
    "sent back",
    "came back",
    "round trip p50 us",
    "p99 us, there and back",
    "mean us, there and back",
    "shortest us, there and back",
    "longest us, there and back",
];

fn search_heads() -> Vec<&'static str> {
    let before = ["bytes", "way", "highest messages/s", "above it", "why not", "tries"];
    [&before[..], &report::LATENCY_HEADS, &["CPUs"]].concat()
}

fn rates_note() -> String {
    format!(
        "Every message is timed, from when it was meant to be sent; the stamp is {STAMP_BYTES} bytes of it. \"naive\" counts \
         from when it was really sent, in messages of {SENT_STAMP_BYTES} bytes and more. A rate with * is not sustained: \
         something was lost, or came later than 50 ms after the end, or the sender was {GIVES_UP_MS} ms behind and left the \
         rest unsent. \"to raw\" is the median of the rounds' ratios of p50, of \"all\" that of the pairs' mean. {}",
        report::LATENCY_NOTE
    )
}

fn search_note(args: &LoadArgs) -> String {
    let found = args.search.describe(args.options.runs);
    format!(
        "{found} Rates are of all sources together, a bound is one for each pair. A rate that fails is tried once more. {}",
        report::LATENCY_NOTE
    )
}

impl Load<'_> {
    fn layout(&self) -> String {
        let told = if self.args.one_thread {
            "One thread drives all senders on one CPU, one all receivers on the other; each pair has its contexts and its \
             group; both spin."
                .to_owned()
        } else {
            layout::told(&self.spread)
        };
        format!("By {}. {told}", self.args.path)
    }

    fn contenders(&self, report: &mut Report) -> Vec<Contender> {
        let path = self.args.path;
        let raw = |name, mode| Some(Contender::new(name, Kind::Raw, mode));
        // What is bare has one sender in a thread; its datagrams are filled with what is due, as ours are. Where its ends
        // are processes, each message is a datagram.
        let raw = match (path, self.args.reflect > 0) {
            _ if self.args.one_thread => None,
            (Path::Veth, _) => raw("raw, UDP", ""),
            (Path::Udp | Path::Multicast, true) => raw("raw, UDP", raw::ENDS),
            (Path::Shm | Path::Tcp, true) => None,
            (Path::Udp | Path::Multicast, false) => raw("raw", "gso"),
            (Path::Shm, false) => raw("raw", "each"),
            (Path::Tcp, false) => raw("raw", ""),
        };
        let mut contenders: Vec<Contender> =
            raw.into_iter().chain(own::contenders(path, &self.args.bypass)).collect();
        match path {
            Path::Tcp if !self.args.one_thread => {
                contest::with_peers(&mut contenders, "zeromq-peer", &[("zeromq", "")], report);
            }
            Path::Tcp | Path::Veth => {}
            Path::Shm | Path::Udp | Path::Multicast => {
                contest::with_peers(&mut contenders, "aeron-peer", &[("aeron", "claim")], report);
            }
        }
        contest::in_place(path, contenders, report)
    }

    fn stream(
        &self,
        contender: &Contender,
        ends: &[EndArgs],
        rate: f64,
    ) -> Result<Vec<Streamed>, BenchError> {
        contender.streams(ends, self.span, Pace::Timed(rate).shared_by(ends.len()))
    }

    /// Rows of all contenders at a rate.
    fn measure(
        &mut self,
        ends: &[EndArgs],
        rate: u64,
        contenders: &mut Vec<Contender>,
        report: &mut Report,
    ) -> Result<(), BenchError> {
        let [end, ..] = ends else { return Ok(()) };
        let what = format!("{} bytes, {rate}/s", end.size);
        if let Some(folder) = &self.args.observe {
            // Of one process; there is room for what comes after a rate that was rounded.
            let capacity = (rate as f64 * self.args.options.seconds) as u64 + 1_000;
            for contender in &mut *contenders {
                let label = format!("{} {} {rate}", contender.name, end.size);
                *contender = contender.clone().observed(Observing::new(folder, label, capacity));
            }
        }
        let cpus = [end.cpu, end.far_cpu];
        let rounds = contest::in_turns(contenders, cpus, self.args.options, report, &what, |contender| {
            self.stream(contender, ends, rate as f64)
        })?;
        for pair in Which::rows(ends.len()) {
            let p50 = contest::figures(contenders, &rounds, |run| p50_ns(pair.of(run)), f64::min);
            for (at, contender) in contenders.iter().enumerate() {
                let row = Row { end, rate, name: &contender.name, pair, to_raw: p50.to_raw[at] };
                row.add(&rounds, at, report);
            }
        }
        self.failed.extend(rounds.failed);
        Ok(())
    }

    /// A row for each contender: the highest rate that keeps the bound.
    fn search(&mut self, ends: &[EndArgs], contenders: &[Contender], report: &mut Report) {
        let bound = self.args.search.bound();
        let [end, ..] = ends else { return };
        for contender in contenders {
            let (mut tries, before) = (0, probe::placement([end.cpu, end.far_cpu]));
            let found = self.args.search.search(self.args.options.runs).highest(|rate| {
                tries += 1;
                report.progress(&format!("{} bytes, {}, try {tries}, {rate:.0}/s", end.size, contender.name));
                let streams = self.stream(contender, ends, rate)?;
                Ok::<_, BenchError>(Tried { streams, bound })
            });
            let placement =
                before.and_then(|before| Ok(before.and(probe::placement([end.cpu, end.far_cpu])?)));
            match found.and_then(|found| Ok((found, placement?))) {
                Ok((found, placement)) => add_found(end, &contender.name, (bound, placement), &found, report),
                Err(error) => {
                    report.note(format!("{} bytes: {} is left out: {error}", end.size, contender.name));
                    if !matches!(contender.kind, Kind::Peer(_)) {
                        self.failed.push(format!("{} bytes, {}: {error}", end.size, contender.name));
                    }
                }
            }
        }
    }
}

fn add_found(
    end: &EndArgs,
    name: &str,
    (bound, placement): (Option<Bound>, Placement),
    found: &Found<Tried>,
    report: &mut Report,
) {
    let streams = found.runs.iter().flat_map(|run| &run.streams);
    let latencies: Summaries = streams.map(|streamed| streamed.observed.latencies.clone()).collect();
    let shown = |rate: Option<f64>| rate.map_or_else(|| "-".to_owned(), |rate| format!("{rate:.0}"));
    let above = found.above.as_ref();
    let faults = above.map(|(_, run)| run.faults());
    let cells = [
        end.size.to_string(),
        name.to_owned(),
        shown(found.rate),
        shown(above.map(|(rate, _)| *rate)),
        faults.clone().unwrap_or_else(|| "-".to_owned()),
        found.trials.to_string(),
    ];
    let mut object = json!({
        "path": end.path.to_string(), "size": end.size, "datagram": end.datagram, "way": name,
        "rate": found.rate,
        "above_fault": faults, "above_figure_ns": above.and_then(|(_, run)| run.figure_ns()),
        "runs": found.runs.len(), "placement": placement,
    });
    found.bracket().put(&mut object, bound);
    let of_latency = report::latency_cells(&latencies, report::fine_micros);
    let cells = cells.into_iter().chain(of_latency).chain([placement.to_string()]);
    report.row(cells, report::latency_json(&latencies, object));
}

/// The mean of the pairs'.
fn p50_ns(streams: &[Streamed]) -> f64 {
    let sum: u64 = streams.iter().map(|streamed| streamed.observed.latencies.p50_ns).sum();
    sum as f64 / streams.len().max(1) as f64
}

struct Row<'a> {
    end: &'a EndArgs,
    rate: u64,
    name: &'a str,
    pair: Which,
    to_raw: Option<f64>,
}

impl Row<'_> {
    fn add(&self, rounds: &Rounds<Vec<Streamed>>, at: usize, report: &mut Report) {
        let runs: Vec<&[Streamed]> = rounds.results[at].iter().map(|run| self.pair.of(run)).collect();
        let all = || runs.iter().copied().flatten();
        let per_second = |figure: fn(&Streamed) -> f64| -> Runs {
            runs.iter().map(|run| run.iter().map(figure).sum::<f64>()).collect()
        };
        let (sent, received) = (per_second(Streamed::sent_per_second), per_second(Streamed::per_second));
        let latencies: Summaries = all().map(|streamed| streamed.observed.latencies.clone()).collect();
        let naive: Summaries = all().map(|streamed| streamed.observed.naive.clone()).collect();
        let (lost, unsent): (u64, u64) =
            (all().map(Streamed::lost).sum(), all().map(|streamed| streamed.unsent).sum());
        let late = all().map(|streamed| streamed.late).max().unwrap_or_default();
        let is_sustained = all().all(Streamed::is_sustained);
        let mark = if is_sustained { "" } else { "*" };
        let before = [
            self.end.size.to_string(),
            format!("{}{mark}", self.rate),
            self.name.to_owned(),
            self.pair.to_string(),
            format!("{:.0}", sent.median()),
            format!("{:.0}", received.median()),
        ];
        let [naive_p50, naive_p99] = naive_cells(&naive);
        let behind = [
            naive_p50,
            naive_p99,
            lost.to_string(),
            unsent.to_string(),
            format!("{:.1}", late.as_secs_f64() * 1e3),
            if is_sustained { "yes" } else { "no" }.to_owned(),
            contest::ratio(self.to_raw),
            rounds.placement.to_string(),
        ];
        let object = json!({
            "path": self.end.path.to_string(), "size": self.end.size, "rate": self.rate, "way": self.name,
            "pair": self.pair.to_string(), "datagram": self.end.datagram,
            "sent_per_s": report::spread_json(&sent), "received_per_s": report::spread_json(&received),
            "lost": lost, "unsent": unsent, "late_ns": late.as_nanos() as u64, "is_sustained": is_sustained,
            "naive": naive_json(&naive), "to_raw": self.to_raw, "placement": rounds.placement,
        });
        let of_latency = report::latency_cells(&latencies, report::fine_micros);
        let mut object = report::latency_json(&latencies, object);
        let mut back = Vec::new();
        if self.end.reflect > 0 {
            let reflected: Vec<Reflected> = all().filter_map(|streamed| streamed.reflected.clone()).collect();
            back = reflected_cells(&reflected);
            object["reflected"] = reflected_json(self.end.reflect, &reflected);
        }
        report.row(before.into_iter().chain(of_latency).chain(behind).chain(back), object);
    }
}

/// Messages that are too short have no such figure.
fn naive_cells(naive: &Summaries) -> [String; 2] {
    let [p50, _, p99, ..] = naive.percentiles();
    [p50, p99].map(|figure| figure.map_or_else(|| "-".to_owned(), report::fine_micros))
}

/// Under [`REFLECTED_HEADS`]. What was built before these has nothing to say.
fn reflected_cells(reflected: &[Reflected]) -> Vec<String> {
    let round_trips: Summaries = reflected.iter().map(|back| back.round_trips.clone()).collect();
    let counts = [|back: &Reflected| back.expected, |back: &Reflected| back.came];
    let counts = counts.map(|count| reflected.iter().map(count).sum::<u64>().to_string());
    let [p50, _, p99, ..] = round_trips.percentiles();
    let is_any = round_trips.count() > 0;
    let ends = [round_trips.mean_ns(), round_trips.min_ns() as f64, round_trips.max_ns() as f64];
    let figures = [p50, p99].into_iter().chain(ends.map(|ns| is_any.then_some(ns)));
    let figures = figures.map(|ns| ns.map_or_else(|| "-".to_owned(), report::fine_micros));
    counts.into_iter().chain(figures).collect()
}

fn reflected_json(percent: u8, reflected: &[Reflected]) -> Value {
    let (round_trips, naive): (Summaries, Summaries) = (
        reflected.iter().map(|back| back.round_trips.clone()).collect(),
        reflected.iter().map(|back| back.naive.clone()).collect(),
    );
    let object = json!({
        "percent": percent, "expected": reflected.iter().map(|back| back.expected).sum::<u64>(),
        "came": reflected.iter().map(|back| back.came).sum::<u64>(), "naive": naive_json(&naive),
    });
    if round_trips.count() == 0 { object } else { report::latency_json(&round_trips, object) }
}

fn naive_json(naive: &Summaries) -> Value {
    if naive.count() == 0 { Value::Null } else { report::latency_json(naive, json!({})) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_pairs_have_a_row_each_and_one_for_all() {
        assert_eq!(Which::rows(1), [Which::All]);
        assert_eq!(Which::rows(3).iter().map(Which::to_string).collect::<Vec<_>>(), ["1", "2", "3", "all"]);
        let mut run = vec![Streamed::of_test(10, 10), Streamed::of_test(20, 20)];
        run[0].observed.latencies.p50_ns = 100;
        run[1].observed.latencies.p50_ns = 300;
        assert_eq!((Which::Pair(1).of(&run)[0].sent, Which::All.of(&run).len()), (20, 2));
        assert_eq!((p50_ns(Which::Pair(0).of(&run)), p50_ns(&run)), (100.0, 200.0));
        assert!(Which::Pair(5).of(&run).is_empty());
    }

    #[test]
    fn a_row_has_as_many_cells_as_the_table_has_columns() {
        let mut report = Report::new("test", false, &heads(false));
        let rounds = Rounds {
            results: vec![vec![vec![Streamed::of_test(10, 9)]]],
            placement: measure::Placement::Changed,
            failed: Vec::new(),
        };
        let end = EndArgs::of(Path::Udp, 64, 1_472, [0, 1]);
        let row = Row { end: &end, rate: 10, name: "raw", pair: Which::All, to_raw: None };
        row.add(&rounds, 0, &mut report);
        assert_eq!(reflected_cells(&[]).len(), REFLECTED_HEADS.len());
        report.print().expect("standard output is there");
    }
}

//! A start storm: ten thousand consumers connect at once and ask for their items, stand still while updates flow,
//! read again, and leave at once. How long they wait, what the server has of memory, and how long its threads were
//! kept from everything else.

mod crowd;

pub(crate) use crowd::{CrowdArgs, crowd};

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::time::Duration;

use clap::Args;
use measure::{Runs, Summaries, Summary};
use serde_json::{Value, json};

use crate::end_to_end::{Daemons, Pacing, Placement, Settings};
use crate::process::{Memory, Process, free_port};
use crate::report::{self, Report};
use crate::update::Profile;
use crate::{BenchError, RunOptions};

#[derive(Debug, Args)]
pub struct StormArgs {
    #[command(flatten)]
    options: RunOptions,
    /// Consumers that come at once.
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    clients: u32,
    /// Items that each of them watches.
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    each: u32,
    /// Items that are published; consumers watch them in turn.
    #[arg(long, default_value_t = 100_000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    items: u32,
    /// Updates a second of these items meanwhile.
    #[arg(long, default_value_t = 1_000, value_parser = clap::value_parser!(u64).range(1..))]
    rate: u64,
    /// Items of another consumer, whose updates are timed.
    #[arg(long, default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(1..))]
    steady: u32,
    #[command(flatten)]
    profile: Profile,
    /// Has the server ask the source distributor for each image, as after a start of its own. Else somebody watches all items already.
    #[arg(long)]
    cold: bool,
    /// Seconds for which all of them read nothing, before they read again and leave.
    #[arg(long, default_value_t = 0.0)]
    stand_still: f64,
    #[command(flatten)]
    placement: Placement,
    #[command(flatten)]
    settings: Settings,
}

/// For all to be there, or to have caught up.
const LIMIT: Duration = Duration::from_secs(180);
/// The publisher's first updates are on their way before something begins.
const RUN_UP: Duration = Duration::from_millis(500);

impl StormArgs {
    fn end(&self, role: &str, part: usize, words: &[String]) -> Result<Process, BenchError> {
        Process::role(role, &[words, &self.placement.cpu(part).args()].concat())
    }
}

fn words(pairs: &[(&str, String)]) -> Vec<String> {
    pairs.iter().flat_map(|(name, value)| [format!("--{name}"), value.clone()]).collect()
}

struct Storm<'a> {
    args: &'a StormArgs,
    provider: Process,
    steady: Process,
    _holder: Option<Process>,
    crowd: Process,
    daemons: Daemons,
    admin_port: u16,
    run: u64,
}

/// What one part of a run was like.
#[derive(Clone, Debug)]
struct Part {
    took_ns: u64,
    /// Updates of the steady consumer.
    steady: Summary,
    long_turns: LongTurns,
    memory: Memory,
}

/// Turns of the server's threads.
#[derive(Clone, Copy, Debug, Default)]
struct LongTurns {
    above_1ms: u64,
    above_5ms: u64,
    above_20ms: u64,
}

impl Storm<'_> {
    fn start(args: &StormArgs) -> Result<Storm<'_>, BenchError> {
        let admin_port = free_port()?;
        // The server forgets what nobody watches, so that each run finds it as the first one did.
        let sets = [
            "p2ps.item_linger_ms=0",
            "p2ps.rssl.connections_max=110000",
            "p2ps.rssl.connections_per_address_max=110000",
            "p2ps.rssl.ping_timeout_max_s=255",
        ];
        let settings = args.settings.behind(sets);
        let cpus = [args.placement.cpu(1), args.placement.cpu(2)];
        let daemons = Daemons::start_with_admin(cpus, settings, Some(admin_port))?;
        let items = ("own", args.items.to_string());
        let pacing = ("pacing", Pacing::Sleep.to_string());
        let to_distributor = ("port", daemons.provider_port()?.to_string());
        let publisher = [words(&[to_distributor, items.clone(), pacing]), args.profile.args()].concat();
        let mut provider = args.end("publisher", 0, &publisher)?;
        provider.expect("ready", LIMIT)?;
        let port = ("port", daemons.rssl_port.to_string());
        let some = ("own", args.steady.min(args.items).to_string());
        let mut steady = args.end("consumer", 3, &words(&[port.clone(), some]))?;
        steady.expect("ready", LIMIT)?;
        let mut holder = None;
        if !args.cold {
            let all = holder.insert(args.end("consumer", 3, &words(&[port.clone(), items]))?);
            all.expect("ready", LIMIT)?;
        }
        let clients = [("clients", args.clients), ("each", args.each), ("items", args.items)];
        let clients = clients.map(|(name, n)| (name, n.to_string()));
        let mut crowd = args.end("storm-crowd", 3, &words(&[&[port][..], &clients].concat()))?;
        crowd.expect("ready", LIMIT)?;
        Ok(Storm { args, provider, steady, _holder: holder, crowd, daemons, admin_port, run: 0 })
    }

    /// Lets updates flow while something happens; the servers are at rest before.
    fn beside(
        &mut self,
        seconds: f64,
        what: impl FnOnce(&mut Process) -> Result<u64, BenchError>,
    ) -> Result<Part, BenchError> {
        self.daemons.server.rests(LIMIT)?;
        self.daemons.distributor.rests(LIMIT)?;
        self.daemons.server.forget_peak()?;
        let turns = self.long_turns()?;
        self.run += 1;
        let (run, rate) = (self.run % 250 + 1, self.args.rate);
        self.provider.tell(&json!({ "run": run, "rate": rate, "seconds": seconds }))?;
        std::thread::sleep(RUN_UP);
        let took_ns = what(&mut self.crowd)?;
        self.provider.expect("sent", LIMIT)?;
        let latencies = self.steady.expect("latencies", LIMIT)?["latencies"].clone();
        let steady = serde_json::from_value(latencies)?;
        let memory = self.daemons.server.memory()?;
        let long_turns = self.long_turns()?.since(turns);
        Ok(Part { took_ns, steady, long_turns, memory })
    }

    fn long_turns(&self) -> Result<LongTurns, BenchError> {
        let text = metrics(self.admin_port)?;
        let of = |ms: u32| {
            let name = format!("tickcast_thread_turns_above_{ms}ms_total{{");
            let lines = text.lines().filter(|line| line.starts_with(&name));
            let turns = lines.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok());
            turns.reduce(|sum, more| sum + more).map(|sum| sum as u64)
        };
        let turns = [of(1), of(5), of(20)];
        let [Some(above_1ms), Some(above_5ms), Some(above_20ms)] = turns else {
            return Err(BenchError::new("the server does not count long turns"));
        };
        Ok(LongTurns { above_1ms, above_5ms, above_20ms })
    }
}

impl LongTurns {
    fn since(self, before: LongTurns) -> LongTurns {
        LongTurns {
            above_1ms: self.above_1ms.saturating_sub(before.above_1ms),
            above_5ms: self.above_5ms.saturating_sub(before.above_5ms),
            above_20ms: self.above_20ms.saturating_sub(before.above_20ms),
        }
    }
}

/// The counters of a daemon, as text.
fn metrics(port: u16) -> Result<String, BenchError> {
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
    stream.set_read_timeout(Some(LIMIT))?;
    stream.write_all(b"GET /metrics HTTP/1.0\r\nHost: localhost\r\n\r\n")?;
    let mut text = String::new();
    stream.read_to_string(&mut text)?;
    Ok(text)
}

/// Tells the crowd something, and waits until it is done.
fn order(crowd: &mut Process, what: &str, answer: &str) -> Result<u64, BenchError> {
    crowd.tell(&json!({ "do": what }))?;
    Ok(crowd.expect(answer, LIMIT)?[answer].as_u64().unwrap_or(0))
}

pub(crate) fn run(args: &StormArgs) -> Result<(), BenchError> {
    args.profile.check()?;
    let heads = ["part", "took s", "images/s", "turns > 1 ms", "> 5 ms", "> 20 ms", "server MiB", "at most"];
    let heads = [&heads[..], &report::LATENCY_HEADS].concat();
    let mut report = Report::new("storm", args.options.json, &heads);
    report.progress("start");
    let mut storm = Storm::start(args)?;
    let seconds = args.options.seconds;
    let mut parts: Vec<(&str, Vec<Part>)> = Vec::new();
    let mut note = |name: &'static str, part: Part| match parts.iter_mut().find(|(known, _)| *known == name) {
        Some((_, all)) => all.push(part),
        None => parts.push((name, vec![part])),
    };
    for run in 0..args.options.runs {
        let progress =
            |what: &str| report.progress(&format!("{what}, run {} of {}", run + 1, args.options.runs));
        progress("alone");
        note("alone", storm.beside(seconds, |_| Ok(0))?);
        progress("all come");
        note("come", storm.beside(seconds, |crowd| order(crowd, "come", "came_ns"))?);
        if args.stand_still > 0.0 {
            progress("all stand still");
            let stands_for = Duration::from_secs_f64(args.stand_still);
            note(
                "stand still",
                storm.beside(args.stand_still, |crowd| {
                    order(crowd, "stop", "stopped")?;
                    std::thread::sleep(stands_for);
                    Ok(stands_for.as_nanos() as u64)
                })?,
            );
            progress("all read again");
            note("catch up", storm.beside(seconds, |crowd| order(crowd, "go", "caught_up_ns"))?);
        }
        progress("all leave");
        note("leave", storm.beside(seconds, |crowd| order(crowd, "leave", "left"))?);
    }
    let images = f64::from(args.clients) * f64::from(args.each);
    for (name, all) in &parts {
        row(&mut report, name, all, images);
    }
    report.note(format!(
        "{} consumers with {} of {} items each, {}; {}. {} updates/s meanwhile; a steady consumer watches {} of the items. \
         Times are medians, maxima are those of all runs, and turns are counted over all runs.",
        args.clients,
        args.each,
        args.items,
        args.profile.describe(),
        if args.cold { "the server has none of their images" } else { "the server has the images" },
        args.rate,
        args.steady.min(args.items),
    ));
    report.note(format!(
        "Every update of the steady consumer is timed: latencies are its. {}",
        report::LATENCY_NOTE
    ));
    report.print()
}

fn row(report: &mut Report, name: &str, parts: &[Part], images: f64) {
    let of = |what: fn(&Part) -> u64| parts.iter().map(|part| what(part) as f64).collect::<Runs>();
    let most = |what: fn(&Part) -> u64| parts.iter().map(what).max().unwrap_or(0);
    let sum = |what: fn(&Part) -> u64| parts.iter().map(what).sum::<u64>();
    let took = of(|part| part.took_ns);
    let steady: Summaries = parts.iter().map(|part| part.steady.clone()).collect();
    let turns = [
        sum(|part| part.long_turns.above_1ms),
        sum(|part| part.long_turns.above_5ms),
        sum(|part| part.long_turns.above_20ms),
    ];
    let (now, peak) = (of(|part| part.memory.now), most(|part| part.memory.peak));
    let mebibytes = |bytes: f64| format!("{:.0}", bytes / f64::from(1 << 20));
    let has_time = name != "alone" && name != "leave";
    let per_s = (name == "come").then(|| images / (took.median() / 1e9));
    let cells = [
        name.to_owned(),
        if has_time { report::spread(&took, |ns| format!("{:.2}", ns / 1e9)) } else { "-".to_owned() },
        per_s.map_or_else(|| "-".to_owned(), |per_s| format!("{per_s:.0}")),
        turns[0].to_string(),
        turns[1].to_string(),
        turns[2].to_string(),
        mebibytes(now.median()),
        mebibytes(peak as f64),
    ];
    let mut of_steady = report::latency_json(&steady, json!({}));
    // Of all runs, as always.
    of_steady["max_ns"] = json!(steady.max_ns());
    let object: Value = json!({
        "part": name, "took_ns": report::spread_json(&took), "images_per_s": per_s,
        "steady": of_steady,
        "turns_above_1ms": turns[0], "turns_above_5ms": turns[1], "turns_above_20ms": turns[2],
        "server_bytes": report::spread_json(&now), "server_bytes_max": peak,
    });
    report.row(cells.into_iter().chain(report::latency_cells(&steady, report::micros)), object);
}

//! `tickcast trace`: one item's way from hop to hop, update by update, as a P2PS sees it by the updates' hop stamps.
//!
//! A question to `/trace` begins the trace, and each further one goes on with it; it ends by itself when nobody asks.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::time::{Duration, Instant};

use daemon::Query;
use serde_json::{Value, json};

use crate::admin_client::{self, encoded};
use crate::failure::Failure;
use crate::host::Stop;
use crate::terminal::shown;

/// Which item, and where.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  tickcast trace BTCUSDT                           at the P2PS of this host whose admin port is 14082
  tickcast trace BTCUSDT --p2ps localhost:14080    of a demo, which has hop stamps
  tickcast trace 8:BTCUSDT --p2ps p2ps1:14082 --count 100
  tickcast trace BTCUSDT --json --seconds 10 | jq .hops_ns.backbone

A line is an update: its number in the stream, when the source distributor has read it (UTC), and how many microseconds
each hop took. docs/guides/trace.md says from where to where each hop goes.

Updates carry hop stamps if source_distributor.hop_stamps is true where they are published. A P2PS shows items that its
clients watch. \"-\" stands where an update was written to no client: it was conflated, or waits for an image. Times below 0
say that the clocks of two hosts differ by more than the hop takes.

Exit status: 0 done; 1 the P2PS cannot be asked, or there was no update with stamps; 2 wrong usage.")]
pub(crate) struct TraceArgs {
    /// NAME for a price, DOMAIN:NAME for another domain by its number.
    #[arg(value_name = "ITEM")]
    item: String,
    /// The service that has the item; all that have one of that name if it is not given.
    #[arg(long, value_name = "NAME")]
    service: Option<String>,
    /// Admin port of the P2PS.
    #[arg(long, value_name = "HOST:PORT", default_value = "localhost:14082", value_parser = admin_client::address)]
    p2ps: String,
    /// Ends after so many updates.
    #[arg(long, value_name = "UPDATES", value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,
    /// Ends after so many seconds.
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u32).range(1..=86_400))]
    seconds: Option<u32>,
    /// A line of JSON for each update.
    #[arg(long)]
    json: bool,
}

/// Between two questions. The P2PS looks four times a second whether somebody asks.
const INTERVAL: Duration = Duration::from_millis(250);
/// So many questions without an update, and it is said why.
const QUIET_MAX: u32 = 12;

pub(crate) fn run(args: &TraceArgs) -> Result<(), Failure> {
    Query::trace(&query(args)).map_err(|error| Failure::Config(error.to_string()))?;
    let stop = Stop::default();
    stop.end_on_signals()?;
    let until = args.seconds.map(|seconds| Instant::now() + Duration::from_secs(seconds.into()));
    let (mut trace, mut out, mut quiet) = (Trace::new(args), io::stdout().lock(), 0);
    loop {
        let lines = trace.take(&ask(args, trace.after())?).map_err(Failure::Run)?;
        for line in &lines {
            writeln!(out, "{line}").map_err(Failure::Output)?;
        }
        out.flush().map_err(Failure::Output)?;
        quiet = if lines.is_empty() { quiet + 1 } else { 0 };
        if quiet == QUIET_MAX {
            note(&trace.why_quiet());
        }
        if let Some(lost) = trace.take_lost() {
            note(&format!("{lost} updates are not shown: the P2PS keeps 512 between two questions"));
        }
        let is_over = trace.is_full() || until.is_some_and(|until| Instant::now() >= until);
        if is_over || stop.wait(INTERVAL) {
            break;
        }
    }
    if trace.shown > 0 { Ok(()) } else { Err(Failure::Run(trace.why_quiet())) }
}

fn note(text: &str) {
    // Without a standard error nobody reads it.
    let _ = writeln!(io::stderr(), "tickcast: {text}");
}

/// Item and service as a P2PS is asked for them.
fn query(args: &TraceArgs) -> String {
    let service = args.service.as_ref().map_or(String::new(), |name| format!("&service={}", encoded(name)));
    format!("item={}{service}", encoded(&args.item))
}

/// What the P2PS has of the item behind a number.
fn ask(args: &TraceArgs, after: u64) -> Result<Value, Failure> {
    let (address, query) = (&args.p2ps, query(args));
    let named = |error: String| Failure::Run(format!("http://{address}/trace: {error}"));
    let path = format!("/trace?{query}&after={after}");
    let answer = admin_client::ask(address, "GET", &path).map_err(|error| named(error.to_string()))?;
    let said =
        || String::from_utf8_lossy(&answer.body).trim().chars().take(200).map(shown).collect::<String>();
    match answer.status {
        200 => serde_json::from_slice(&answer.body).map_err(|error| named(error.to_string())),
        404 => Err(named("404, an admin port that traces no items: a P2PS of this version does".to_owned())),
        status => Err(named(format!("{status}, {}", said()))),
    }
}

/// What is known of the item's way so far.
struct Trace<'a> {
    args: &'a TraceArgs,
    /// What was seen of each shard: the number to ask behind.
    seen: BTreeMap<usize, u64>,
    /// Updates of the item when this began.
    updates_before: Option<u64>,
    updates: u64,
    shown: u64,
    lost: u64,
    lost_said: u64,
    is_watched: bool,
    is_service_known: bool,
    columns: Vec<&'static str>,
}

/// The hops in the order of the way, each with its title.
const HOPS: [(&str, &str); 6] = [
    ("source_distributor", "DISTRIBUTOR"),
    ("backbone", "BACKBONE"),
    ("relay", "RELAY"),
    ("to_shard", "TO SHARD"),
    ("p2ps", "P2PS"),
    ("total", "TOTAL"),
];

impl Trace<'_> {
    fn new(args: &TraceArgs) -> Trace<'_> {
        Trace {
            args,
            seen: BTreeMap::new(),
            updates_before: None,
            updates: 0,
            shown: 0,
            lost: 0,
            lost_said: 0,
            is_watched: false,
            is_service_known: true,
            columns: Vec::new(),
        }
    }

    fn after(&self) -> u64 {
        self.seen.values().copied().min().unwrap_or(0)
    }

    fn is_full(&self) -> bool {
        self.args.count.is_some_and(|count| self.shown >= count)
    }

    /// Takes an answer; returns the lines of its updates. The error says why there will be none.
    fn take(&mut self, answer: &Value) -> Result<Vec<String>, String> {
        let parts = answer["parts"].as_array().map(Vec::as_slice).unwrap_or_default();
        if parts.is_empty() {
            return Err(format!("http://{}/trace: its answer is not that of a P2PS", self.args.p2ps));
        }
        let (mut lines, mut fresh, is_sharded) = (Vec::new(), Vec::new(), parts.len() > 1);
        // What the P2PS has kept from a trace before is not of this one.
        let begins = self.updates_before.is_none();
        for (shard, part) in parts.iter().enumerate() {
            let seen = self.seen.entry(shard).or_default();
            for record in part["records"].as_array().into_iter().flatten() {
                if !begins && record["number"].as_u64().is_some_and(|number| number > *seen) {
                    fresh.push((shard, record, part));
                }
            }
            *seen = part["next"].as_u64().unwrap_or(0).max(*seen);
        }
        // Shards are told apart by time.
        fresh.sort_by_key(|(_, record, _)| record["came_ns"].as_u64());
        for (shard, record, part) in fresh {
            if !self.is_full() {
                self.shown += 1;
                let shard = is_sharded.then_some(shard);
                self.write(record, part, shard, &mut lines);
            }
        }
        let sum = |what: &str| parts.iter().filter_map(|part| part[what].as_u64()).sum::<u64>();
        (self.updates, self.lost) = (sum("updates"), sum("overwritten"));
        if begins {
            self.lost_said = self.lost;
        }
        self.is_watched = sum("watchers") > 0;
        self.is_service_known = parts.iter().any(|part| part["service_known"] == json!(true));
        let before = *self.updates_before.get_or_insert(self.updates);
        if self.shown == 0 && self.updates > before {
            return Err(NO_STAMPS.to_owned());
        }
        Ok(lines)
    }

    fn write(&mut self, record: &Value, part: &Value, shard: Option<usize>, lines: &mut Vec<String>) {
        if self.args.json {
            let mut line = json!({
                "item": part["item"]["name"], "domain": part["item"]["domain"], "service": record["service"],
                "server": part["server"], "sequence": record["sequence"], "came_ns": record["came_ns"],
                "hops_ns": record["hops_ns"],
            });
            if let Some(shard) = shard {
                line["shard"] = json!(shard);
            }
            return lines.push(line.to_string());
        }
        if self.columns.is_empty() {
            let has = |hop: &str| record["hops_ns"].get(hop).is_some();
            self.columns = HOPS.iter().map(|(hop, _)| *hop).filter(|hop| has(hop)).collect();
            lines.push(self.head(record, part, shard));
        }
        let number = |value: &Value| value.as_u64().map_or("-".to_owned(), |number| number.to_string());
        let mut line = format!("{:>12}  {:>15}", number(&record["sequence"]), time_of(&record["came_ns"]));
        for hop in &self.columns {
            line += &format!("  {:>11}", micros(&record["hops_ns"][hop]));
        }
        line += &shard.map_or(String::new(), |shard| format!("  {shard:>5}"));
        lines.push(line);
    }

    fn head(&self, record: &Value, part: &Value, shard: Option<usize>) -> String {
        let text = |value: &Value| value.as_str().unwrap_or("-").chars().map(shown).collect::<String>();
        let mut head = format!(
            "{} of {} at P2PS {} ({}), microseconds\n{:>12}  {:>15}",
            text(&part["item"]["name"]),
            text(&record["service"]),
            text(&part["server"]),
            self.args.p2ps,
            "NUMBER",
            "TIME"
        );
        for (_, title) in HOPS.iter().filter(|(hop, _)| self.columns.contains(hop)) {
            head += &format!("  {title:>11}");
        }
        head + if shard.is_some() { "  SHARD" } else { "" }
    }

    /// How many updates had to go before they were seen, if it is more than was said.
    fn take_lost(&mut self) -> Option<u64> {
        let lost = self.lost.saturating_sub(self.lost_said);
        self.lost_said = self.lost.max(self.lost_said);
        (lost > 0).then_some(lost)
    }

    /// Why nothing is shown.
    fn why_quiet(&self) -> String {
        let (item, address) = (&self.args.item, &self.args.p2ps);
        match (&self.args.service, self.is_service_known, self.is_watched) {
            (Some(service), false, _) => {
                format!("the P2PS at {address} has no service {service}: /status there lists its services")
            }
            (_, _, false) => format!(
                "no client watches {item} at the P2PS at {address}: it has updates of watched items alone. \
                 `tickcast watch {item}` watches it"
            ),
            _ => format!("no update of {item} has come to the P2PS at {address}"),
        }
    }
}

const NO_STAMPS: &str = "\
updates come, but without hop stamps: set `hop_stamps = true` in [source_distributor] of each source distributor that
publishes the service, and start it again. (If it is set: stamps that are more than an hour away from the P2PS's clock are
ignored, and counted in p2ps_hop_stamps_refused_total.)";

/// Nanoseconds as microseconds.
fn micros(ns: &Value) -> String {
    ns.as_i64().map_or("-".to_owned(), |ns| format!("{:.1}", ns as f64 / 1_000.0))
}

/// Time of day, UTC.
fn time_of(wall_ns: &Value) -> String {
    let Some(wall_ns) = wall_ns.as_u64() else { return "-".to_owned() };
    let (second, micro) = (wall_ns / 1_000_000_000 % 86_400, wall_ns / 1_000 % 1_000_000);
    format!("{:02}:{:02}:{:02}.{micro:06}", second / 3_600, second / 60 % 60, second % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args() -> TraceArgs {
        let p2ps = "p:1".to_owned();
        TraceArgs { item: "IBM".to_owned(), service: None, p2ps, count: None, seconds: None, json: false }
    }

    fn record(number: u64, came_ns: u64) -> Value {
        let hops = json!({"source_distributor": 1_500, "backbone": -200, "p2ps": null, "total": null});
        json!({"number": number, "service": "A", "sequence": 70 + number, "came_ns": came_ns, "hops_ns": hops})
    }

    fn part(next: u64, updates: u64, records: Vec<Value>) -> Value {
        json!({
            "server": "p", "item": {"name": "IBM", "domain": 6}, "service_known": true, "watchers": 1,
            "updates": updates, "next": next, "overwritten": 0, "records": records,
        })
    }

    #[test]
    fn updates_are_lines_under_one_head_and_each_is_shown_once() {
        let args = args();
        let mut trace = Trace::new(&args);
        let of_before = part(100, 5, vec![record(99, 0)]);
        assert_eq!(trace.take(&json!({"parts": [of_before]})), Ok(vec![]), "another command had it traced");
        assert_eq!(trace.after(), 100);
        let noon = 43_200_000_000_000;
        let lines =
            trace.take(&json!({"parts": [part(200, 7, vec![record(101, noon), record(102, noon + 1_000)])]}));
        let expected = [
            "IBM of A at P2PS p (p:1), microseconds\n      NUMBER             TIME  DISTRIBUTOR     BACKBONE         P2PS        TOTAL",
            "         171  12:00:00.000000          1.5         -0.2            -            -",
            "         172  12:00:00.000001          1.5         -0.2            -            -",
        ];
        assert_eq!(lines.expect("it has stamps"), expected);
        assert_eq!(trace.take(&json!({"parts": [part(300, 7, vec![record(102, noon)])]})), Ok(vec![]));
    }

    #[test]
    fn shards_have_numbers_of_their_own_and_are_shown_in_the_order_of_time() {
        let args = TraceArgs { json: true, count: Some(2), ..args() };
        let mut trace = Trace::new(&args);
        trace.take(&json!({"parts": [part(2, 1, vec![]), part(4, 1, vec![])]})).expect("it begins");
        let parts = json!({"parts": [part(9, 1, vec![record(3, 50)]), part(12, 1, vec![record(5, 40), record(6, 60)])]});
        let lines = trace.take(&parts).expect("they have stamps");
        let shards: Vec<u64> = lines
            .iter()
            .map(|line| {
                serde_json::from_str::<Value>(line).expect("JSON")["shard"].as_u64().expect("a shard")
            })
            .collect();
        assert_eq!((shards, trace.after(), trace.is_full()), (vec![1, 0], 9, true));
        let seen = trace.seen.clone();
        assert_eq!(seen.into_values().collect::<Vec<u64>>(), [9, 12]);
    }

    #[test]
    fn what_keeps_updates_from_being_shown_is_said() {
        let args = args();
        let mut trace = Trace::new(&args);
        let nobody = json!({"parts": [{"watchers": null, "updates": null, "next": 4, "service_known": true, "records": []}]});
        assert_eq!(trace.take(&nobody), Ok(vec![]));
        assert!(
            trace.why_quiet().starts_with("no client watches IBM at the P2PS at p:1"),
            "{}",
            trace.why_quiet()
        );
        assert_eq!(trace.take(&json!({"parts": [part(5, 0, vec![])]})), Ok(vec![]));
        assert_eq!(trace.why_quiet(), "no update of IBM has come to the P2PS at p:1");
        let error = trace.take(&json!({"parts": [part(6, 1, vec![])]})).expect_err("it has none");
        assert!(error.contains("hop_stamps = true") && error.contains("[source_distributor]"), "{error}");
        let args = TraceArgs { service: Some("B".to_owned()), ..self::args() };
        let mut trace = Trace::new(&args);
        let unknown = json!({"parts": [{"service_known": false, "next": 1, "records": []}]});
        assert_eq!(trace.take(&unknown), Ok(vec![]));
        assert!(trace.why_quiet().contains("has no service B"));
        assert!(trace.take(&json!({"role": "feed"})).expect_err("no P2PS").contains("not that of a P2PS"));
    }

    #[test]
    fn what_was_overwritten_is_said_once() {
        let args = args();
        let mut trace = Trace::new(&args);
        let mut answer = json!({"parts": [part(100, 5, vec![])]});
        answer["parts"][0]["overwritten"] = json!(7);
        trace.take(&answer).expect("nothing has come");
        assert_eq!(trace.take_lost(), None, "they were lost before this began");
        answer["parts"][0]["overwritten"] = json!(10);
        trace.take(&answer).expect("nothing has come");
        assert_eq!((trace.take_lost(), trace.take_lost()), (Some(3), None));
    }
}

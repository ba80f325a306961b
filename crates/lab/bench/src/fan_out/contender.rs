//! The ways of fanning out that are compared, and what comes of each.

use std::time::Duration;

use measure::{Latencies, Runs};
use net::clock;
use serde_json::{Value, json};

use super::{OTHERS_CPU, SERVER_CPU, words};
use crate::end_to_end::Daemons;
use crate::options::Cpu;
use crate::process::{Process, START_LIMIT};
use crate::report::{self, Report};
use crate::{BenchError, RunOptions};

/// A run is sustained if its last update comes within this time after it was meant to be sent.
const LATE: Duration = Duration::from_millis(50);

/// The processes that fan out in one way that is compared.
pub(super) struct FanOutContender {
    pub(super) name: &'static str,
    /// Updates out for one in.
    pub(super) copies: f64,
    // Those that would complain of a lost peer end first.
    pub(super) sink: Process,
    /// Sends at the rate that it is told; none if the server itself does.
    pub(super) publisher: Option<Process>,
    pub(super) server: Process,
    pub(super) _distributor: Option<Process>,
    /// Readers that do not keep up, and what each of them is to read of the bytes of a common update.
    pub(super) slow: Option<(Process, f64)>,
}

/// What is different between contenders through Tickcast.
pub(super) struct Setup {
    pub(super) name: &'static str,
    pub(super) copies: f64,
    /// The items that are published, as arguments.
    pub(super) items: Vec<String>,
    /// Settings of both daemons.
    pub(super) sets: Vec<String>,
    /// The role of the consumers, and its arguments.
    pub(super) sink: (&'static str, Vec<String>),
    /// The port of consumers; one of the settings' if they have one of their own.
    pub(super) port: Option<u16>,
    /// Readers beside them that do not keep up: the arguments of their role, and what each is to read of the bytes of an
    /// update.
    pub(super) slow: Option<(Vec<String>, f64)>,
}

impl Setup {
    pub(super) fn items(common: u32, clients: u32, own: u32) -> Vec<String> {
        words(&["--common", &common.to_string(), "--mounts", &clients.to_string(), "--own", &own.to_string()])
    }
}

impl FanOutContender {
    /// Publisher, source distributor, point-to-point server and consumers.
    pub(super) fn tickcast(setup: Setup) -> Result<FanOutContender, BenchError> {
        let others = Cpu::on(Some(OTHERS_CPU));
        let Daemons { provider_port, rssl_port, server, distributor, backbone: _ } =
            Daemons::start([others, Cpu::on(Some(SERVER_CPU))], &setup.sets)?;
        let publisher = words(&["--port", &provider_port.to_string(), "--pacing", "sleep"]);
        let mut publisher = Process::role("publisher", &[publisher, setup.items, others.args()].concat())?;
        publisher.expect("ready", START_LIMIT)?;
        let (role, args) = setup.sink;
        let port = words(&["--port", &setup.port.unwrap_or(rssl_port).to_string()]);
        let mut sink = Process::role(role, &[port.clone(), args, others.args()].concat())?;
        sink.expect("ready", START_LIMIT)?;
        let slow = setup.slow.map(|(args, bytes)| {
            let mut slow = Process::role("slow-mounts", &[port, args, others.args()].concat())?;
            slow.expect("ready", START_LIMIT)?;
            Ok::<_, BenchError>((slow, bytes))
        });
        let slow = slow.transpose()?;
        let (name, copies) = (setup.name, setup.copies);
        let (publisher, _distributor) = (Some(publisher), Some(distributor));
        Ok(FanOutContender { name, copies, sink, publisher, server, _distributor, slow })
    }

    fn run(
        &mut self,
        seconds: f64,
        run: u32,
        (rate, bursts): (u64, Option<u32>),
    ) -> Result<Outcome, BenchError> {
        let limit = Duration::from_secs_f64(seconds * 4.0 + 20.0);
        if let Some((slow, bytes)) = &mut self.slow {
            slow.tell(&json!({ "bytes_per_s": *bytes * rate as f64 }))?;
        }
        let (start, busy_before) = (clock::monotonic(), self.server.cpu_time()?);
        let source = self.publisher.as_mut().unwrap_or(&mut self.server);
        source.tell(&json!({ "run": run + 1, "rate": rate, "bursts": bursts, "seconds": seconds }))?;
        let sent = source.expect("sent", limit)?["sent"].as_f64().unwrap_or(0.0);
        let seen = self.sink.expect("run", limit)?;
        let took_s = clock::monotonic().since(start).as_secs_f64();
        let busy_s = self.server.cpu_time()?.saturating_sub(busy_before).as_secs_f64();
        if let Some((slow, _)) = &mut self.slow {
            slow.tell(&json!({ "bytes_per_s": 0 }))?;
            slow.expect("drained", limit)?;
        }
        let number = |key: &str| seen[key].as_f64().unwrap_or(0.0);
        let (count, expected) = (number("updates"), sent * self.copies);
        // Of an odd number of updates, one kind of items gets one more than the other.
        let slack = if sent % 2.0 == 0.0 { 0.0 } else { self.copies };
        if (count - expected).abs() > slack {
            let text = format!("{}: {expected} updates expected at {rate}/s, {count} received", self.name);
            return Err(BenchError::new(text));
        }
        Ok(Outcome {
            updates_per_s: count / took_s.max(seconds),
            load: busy_s / took_s,
            ns_per_update: busy_s * 1e9 / count,
            bytes_per_update: number("bytes") / count,
            p50_ns: number("p50_ns"),
            p99_ns: number("p99_ns"),
            sustained: number("last_ns") < LATE.as_nanos() as f64,
            example: seen["example"].as_str().map(str::to_owned),
        })
    }
}

/// What came of one run.
struct Outcome {
    updates_per_s: f64,
    /// Processor time of the server's threads by wall-clock time.
    load: f64,
    ns_per_update: f64,
    /// As the protocol has them, before encryption.
    bytes_per_update: f64,
    p50_ns: f64,
    p99_ns: f64,
    sustained: bool,
    /// An update as a client has got it, without the time in it; of contenders that can be compared in it.
    example: Option<String>,
}

const HEADS: [&str; 11] = [
    "way",
    "updates/s in",
    "updates/s out",
    "server CPU",
    "CPU ns/update out",
    "beside the first",
    "updates/s a CPU",
    "bytes/update",
    "p50 us",
    "p99 us",
    "sustained",
];

/// The table that [`compare`] fills.
pub(super) fn report(title: &'static str, options: &RunOptions) -> Report {
    Report::new(title, options.json, &HEADS)
}

/// Raises the rate; at each, the contenders take turns. One that does not sustain a rate in any run is left out of
/// the next ones, as is one that has sustained a rate and breaks at the next: the report then says how.
///
/// # Errors
/// A contender breaks at its first rate, or two contenders were to deliver the same and did not.
pub(super) fn compare(
    contenders: Vec<FanOutContender>,
    (rates, bursts): (&[u64], Option<u32>),
    options: &RunOptions,
    report: &mut Report,
) -> Result<(), BenchError> {
    let first = contenders.first().map_or("", |contender| contender.name);
    let mut contenders: Vec<_> =
        contenders.into_iter().map(|contender| (contender, Figures::default())).collect();
    let mut is_first_rate = true;
    for rate in rates {
        for run in 0..options.runs {
            report.progress(&format!("{rate}/s in, run {} of {}", run + 1, options.runs));
            let mut examples: Vec<(&str, String)> = Vec::new();
            for (contender, figures) in contenders.iter_mut().filter(|(_, figures)| !figures.is_broken) {
                match contender.run(options.seconds, run, (*rate, bursts)) {
                    Ok(outcome) => {
                        figures.add(&outcome);
                        examples.extend(outcome.example.map(|example| (contender.name, example)));
                    }
                    Err(error) if is_first_rate => return Err(error),
                    Err(error) => {
                        figures.is_broken = true;
                        report.note(format!("{} breaks at {rate} updates/s in: {error}", contender.name));
                    }
                }
            }
            check_alike(&examples)?;
        }
        contenders.retain(|(_, figures)| !figures.is_broken);
        note_paired(&contenders, *rate, report);
        let of_first = contenders.iter().find(|(contender, _)| contender.name == first);
        let first_ns = of_first.map(|(_, figures)| figures.ns_per_update.median());
        for (contender, figures) in &contenders {
            figures.report(report, contender.name, *rate, first_ns, options.runs);
        }
        contenders.retain(|(_, figures)| figures.sustained > 0);
        contenders.iter_mut().for_each(|(_, figures)| *figures = Figures::default());
        is_first_rate = false;
    }
    Ok(())
}

/// What slow readers do to the others, run by run.
fn note_paired(contenders: &[(FanOutContender, Figures)], rate: u64, report: &mut Report) {
    for (beside, of_beside) in contenders.iter().filter(|(contender, _)| contender.slow.is_some()) {
        let Some((alone, of_alone)) =
            contenders.iter().find(|(c, _)| beside.name.starts_with(c.name) && c.slow.is_none())
        else {
            continue;
        };
        let ratios = of_beside.p99_ns.ratios_to(&of_alone.p99_ns);
        let interval = ratios.interval95();
        let shown = interval.map_or_else(
            || "six runs or more give an interval".to_owned(),
            |(low, high)| format!("{low:.2} to {high:.2} with 95 % confidence"),
        );
        let text = format!(
            "{rate}/s: p99 of {:?} is {:.2} of that of {:?} in the same round (median of paired runs; {shown}).",
            beside.name,
            ratios.median(),
            alone.name
        );
        let object = json!({
            "rate": rate, "way": beside.name, "beside": alone.name, "p99_ratio": ratios.median(),
            "interval95": interval.map(|(low, high)| [low, high]),
        });
        report.note_with(text, object);
    }
}

/// What clients get is the same, whoever sends it.
fn check_alike(examples: &[(&str, String)]) -> Result<(), BenchError> {
    let differs = examples.windows(2).find(|pair| pair[0].1 != pair[1].1);
    differs.map_or(Ok(()), |pair| {
        let [(one, update), (other, another)] = [&pair[0], &pair[1]];
        Err(BenchError::new(format!("{one} sends {update}, {other} {another}")))
    })
}

/// Several runs of a contender at one rate.
#[derive(Default)]
struct Figures {
    updates_per_s: Runs,
    load: Runs,
    ns_per_update: Runs,
    bytes_per_update: Runs,
    p50_ns: Runs,
    p99_ns: Runs,
    sustained: u32,
    is_broken: bool,
}

impl Figures {
    fn add(&mut self, outcome: &Outcome) {
        self.updates_per_s.add(outcome.updates_per_s);
        self.load.add(outcome.load);
        self.ns_per_update.add(outcome.ns_per_update);
        self.bytes_per_update.add(outcome.bytes_per_update);
        self.p50_ns.add(outcome.p50_ns);
        self.p99_ns.add(outcome.p99_ns);
        self.sustained += u32::from(outcome.sustained);
    }

    fn report(&self, report: &mut Report, contender: &str, rate: u64, first_ns: Option<f64>, runs: u32) {
        let ratio = first_ns.map(|ns| self.ns_per_update.median() / ns);
        let a_cpu = 1e9 / self.ns_per_update.median();
        let cells = [
            contender.to_owned(),
            rate.to_string(),
            report::spread(&self.updates_per_s, report::millions),
            format!("{:.0} %", self.load.median() * 100.0),
            report::spread(&self.ns_per_update, report::one_decimal),
            ratio.map_or_else(|| "-".to_owned(), |ratio| format!("{ratio:.2}")),
            report::millions(a_cpu),
            report::one_decimal(self.bytes_per_update.median()),
            report::micros(self.p50_ns.median()),
            report::micros(self.p99_ns.median()),
            format!("{} of {runs}", self.sustained),
        ];
        let object = json!({
            "way": contender, "rate": rate, "out_per_s": report::spread_json(&self.updates_per_s),
            "server_load": report::spread_json(&self.load),
            "ns_per_update": report::spread_json(&self.ns_per_update), "ns_to_first": ratio,
            "per_cpu": a_cpu, "bytes_per_update": report::spread_json(&self.bytes_per_update),
            "p50_ns": report::spread_json(&self.p50_ns), "p99_ns": report::spread_json(&self.p99_ns),
            "sustained": self.sustained,
        });
        report.row(cells, object);
    }
}

/// What clients have seen of a run.
#[derive(Default)]
pub(super) struct Seen {
    pub(super) updates: u64,
    /// Of the protocol, before encryption, with all that is around updates.
    pub(super) bytes: u64,
    pub(super) latencies: Latencies,
    pub(super) last_ns: u64,
    /// The last update, without what differs between contenders; empty if nobody compares it.
    pub(super) example: String,
}

impl Seen {
    /// As they tell it.
    pub(super) fn to_json(&self, run: u32) -> Value {
        let s = self.latencies.summary();
        let example = Some(&self.example).filter(|example| !example.is_empty());
        json!({
            "run": run, "updates": self.updates, "bytes": self.bytes, "p50_ns": s.p50_ns, "p99_ns": s.p99_ns,
            "last_ns": self.last_ns, "example": example,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ways_that_deliver_different_updates_are_no_comparison() {
        let same = |text: &str| [("one", "{}".to_owned()), ("other", text.to_owned())];
        assert!(check_alike(&same("{}")).is_ok() && check_alike(&[]).is_ok());
        let error = check_alike(&same("[]")).expect_err("they differ").to_string();
        assert_eq!(error, "one sends {}, other []");
    }

    #[test]
    fn what_clients_have_seen_is_told_with_its_bytes_and_percentiles() {
        let mut seen = Seen { updates: 2, bytes: 148, last_ns: 9, ..Seen::default() };
        seen.latencies.record(1000);
        let told = seen.to_json(3);
        assert_eq!((&told["run"], &told["updates"], &told["bytes"]), (&json!(3), &json!(2), &json!(148)));
        assert_eq!(
            (&told["p50_ns"], &told["last_ns"], &told["example"]),
            (&json!(1000), &json!(9), &Value::Null)
        );
    }
}

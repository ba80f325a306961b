//! Sources of reliable multicast that share a narrow link, with congestion control and at a fixed rate, beside
//! what a raw sender alone gets through.

mod ends;
mod network;

pub(crate) use ends::{EndArgs, receiver, sender};

use std::time::Duration;

use clap::Args;
use net::clock;
use serde_json::{Value, json};

use crate::BenchError;
use crate::own::Settings;
use crate::process::{Process, START_LIMIT};
use crate::report::Report;
use ends::Mode;
use network::{Network, RECEIVERS, SOURCES, Shape};

/// Flows, link, and how long.
#[derive(Debug, Args)]
pub struct CongestionArgs {
    /// Sources, each with a group and a receiver of its own.
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u8).range(2..=32))]
    flows: u8,
    /// Rate of the link, megabits per second.
    #[arg(long, default_value_t = 40, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    megabits_per_second: u32,
    /// What its queue holds, as a time at that rate.
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    queue_ms: u32,
    /// Seconds for which the sources adapt; shares are those of the second half.
    #[arg(long, default_value_t = 24, value_parser = clap::value_parser!(u32).range(6..=3_600))]
    seconds: u32,
    /// Seconds between the begins of two of them.
    #[arg(long, default_value_t = 0.0)]
    stagger: f64,
    /// Prints one JSON object a line in place of a table.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    settings: Settings,
}

/// What a raw sender sends beside what the link carries.
const RAW_EXCESS: f64 = 1.5;
/// The share of the link that each flow sends at a fixed rate: a third, though there are more.
const FIXED_SHARE: f64 = 1.0 / 3.0;
/// What the rate of a flow that adapts is limited to.
const LIMIT_BITS_PER_SECOND: u64 = 1_000_000_000;
/// Bytes of a message.
const MESSAGE_BYTES: f64 = ends::MESSAGE_BYTES as f64;
const RAW_SECONDS: u32 = 6;
const FIXED_SECONDS: u32 = 10;
/// For the receivers to find the sources.
const DISCOVERY: Duration = Duration::from_secs(1);
/// For what is missing at the end to be repaired.
const LINGER: Duration = Duration::from_secs(5);

pub(crate) fn run(args: &CongestionArgs) -> Result<(), BenchError> {
    let heads = [
        "way",
        "messages/s",
        "Mbit/s",
        "of raw",
        "least/most",
        "Jain",
        "dropped",
        "repaired",
        "unrecovered",
        "shares",
    ];
    let mut report = Report::new("congestion", args.json, &heads);
    args.settings.check(&mut report, &ends::OWN_KEYS)?;
    let shape = Shape { megabits_per_second: args.megabits_per_second, queue_ms: args.queue_ms };
    let network = Network::up(shape)?;
    let link = f64::from(args.megabits_per_second) * 1e6;
    let flows = Flows {
        settings: &args.settings,
        mode: Mode::Raw,
        count: 1,
        rate: (link * RAW_EXCESS) as u64,
        seconds: RAW_SECONDS,
    };
    let raw = flows.run(&network, 0.0, &report)?;
    let raw_per_second = raw.per_second();
    raw.show("raw sender alone", raw_per_second, &mut report);
    let rate = (link * FIXED_SHARE) as u64;
    let fixed = Flows {
        settings: &args.settings,
        mode: Mode::Fixed,
        count: args.flows,
        rate,
        seconds: FIXED_SECONDS,
    };
    let name = format!("{} fixed rates, a third of the link each", args.flows);
    fixed.run(&network, 0.0, &report)?.show(&name, raw_per_second, &mut report);
    let rate = LIMIT_BITS_PER_SECOND;
    let adaptive = Flows {
        settings: &args.settings,
        mode: Mode::Adaptive,
        count: args.flows,
        rate,
        seconds: args.seconds,
    };
    let came = adaptive.run(&network, args.stagger, &report)?;
    came.show(&format!("{} with congestion control", args.flows), raw_per_second, &mut report);
    report.note(format!(
        "A link of {} Mbit/s with a queue of {} ms (tc tbf); messages of 1,440 bytes, each a datagram, and Mbit/s are theirs without headers; a \
         process for each end, which waits. Shares and rates are of the second half of each run; what is dropped is that of \
         the whole run, in the queue. Receivers give a datagram up after 5 s.",
        args.megabits_per_second, args.queue_ms
    ));
    report.print()
}

/// Sources that send at the same time.
struct Flows<'a> {
    settings: &'a Settings,
    mode: Mode,
    count: u8,
    /// Bits per second of each.
    rate: u64,
    seconds: u32,
}

/// What came of each flow.
struct Came {
    /// Messages of each in the settled seconds.
    settled: Vec<u64>,
    /// How many seconds these are.
    seconds: u64,
    repaired: u64,
    /// Told as lost.
    lost: u64,
    /// Neither delivered nor told as lost by the end.
    missing: u64,
    retransmitted: u64,
    carried: u64,
    dropped: u64,
}

impl Flows<'_> {
    fn run(&self, network: &Network, stagger: f64, report: &Report) -> Result<Came, BenchError> {
        report.progress(&format!("{:?}", self.mode));
        let all = 1..=self.count;
        let receiver = |flow| self.end(network, "congestion-receiver", flow);
        let mut receivers = all.clone().map(receiver).collect::<Result<Vec<_>, _>>()?;
        let sender = |flow| self.end(network, "congestion-sender", flow);
        let mut senders = all.map(sender).collect::<Result<Vec<_>, _>>()?;
        pause(DISCOVERY);
        let before = network.carried_and_dropped()?;
        let begun = clock::monotonic();
        for (at, sender) in senders.iter_mut().enumerate() {
            clock::sleep_until(begun.after(Duration::from_secs_f64(stagger * at as f64)));
            let left = f64::from(self.seconds) - clock::monotonic().since(begun).as_secs_f64();
            sender.tell(&json!({ "seconds": left.max(0.0) }))?;
        }
        let limit = START_LIMIT + Duration::from_secs(self.seconds.into());
        let said = |sender: &mut Process| sender.expect("sent", limit);
        let mut sent = senders.iter_mut().map(said).collect::<Result<Vec<_>, _>>()?;
        if self.mode != Mode::Raw {
            pause(LINGER);
        }
        let after = network.carried_and_dropped()?;
        let heard = |receiver: &mut Process| {
            receiver.tell(&json!({ "end": true }))?;
            receiver.expect("messages", START_LIMIT)
        };
        let heard = receivers.iter_mut().map(heard).collect::<Result<Vec<_>, _>>()?;
        if self.mode != Mode::Raw {
            for (sender, sent) in senders.iter_mut().zip(&mut sent) {
                sender.close();
                sent["retransmitted"] = sender.expect("retransmitted", START_LIMIT)?["retransmitted"].take();
            }
        }
        let first = begun.0.div_ceil(1_000_000_000) + u64::from(self.seconds / 2);
        let seconds = u64::from(self.seconds - self.seconds / 2 - 1);
        let settled = heard.iter().map(|heard| messages(heard, first, first + seconds)).collect();
        let sum = |values: &[Value], name: &str| values.iter().filter_map(|v| v[name].as_u64()).sum::<u64>();
        let whole: u64 = heard.iter().map(|heard| messages(heard, 0, u64::MAX)).sum();
        let lost = sum(&heard, "lost");
        Ok(Came {
            settled,
            seconds,
            repaired: sum(&heard, "recovered"),
            lost,
            missing: sum(&sent, "sent").saturating_sub(sum(&heard, "first") + whole + lost),
            retransmitted: sum(&sent, "retransmitted"),
            carried: after.0 - before.0,
            dropped: after.1 - before.1,
        })
    }

    fn end(&self, network: &Network, role: &str, flow: u8) -> Result<Process, BenchError> {
        let host = if role == "congestion-sender" { SOURCES } else { RECEIVERS };
        let mode = match self.mode {
            Mode::Raw => "raw",
            Mode::Fixed => "fixed",
            Mode::Adaptive => "adaptive",
        };
        let words = ["--flow", &flow.to_string(), "--mode", mode, "--rate", &self.rate.to_string()]
            .map(str::to_owned);
        let interface = ["--interface".to_owned(), host.address.to_string()];
        let settings = ["--settings".to_owned(), self.settings.to_string()];
        let mut end = network.role(host, role, &[&words[..], &interface, &settings].concat())?;
        end.expect("ready", START_LIMIT)?;
        Ok(end)
    }
}

fn pause(span: Duration) {
    clock::sleep_until(clock::monotonic().after(span));
}

/// What a receiver heard from one second of the clock to before another.
fn messages(heard: &Value, begin: u64, end: u64) -> u64 {
    let first = heard["first_second"].as_u64().unwrap_or(0);
    let counts = heard["messages"].as_array().map_or(&[][..], Vec::as_slice).iter().zip(first..);
    counts.filter(|(_, at)| (begin..end).contains(at)).filter_map(|(count, _)| count.as_u64()).sum()
}

impl Came {
    fn per_second(&self) -> f64 {
        self.settled.iter().sum::<u64>() as f64 / self.seconds as f64
    }

    /// Megabits a second of messages, without any header.
    fn megabits(&self) -> f64 {
        self.per_second() * MESSAGE_BYTES * 8.0 / 1e6
    }

    /// Jain's index: 1 for equal shares.
    fn jain(&self) -> f64 {
        let squares: f64 = self.settled.iter().map(|&n| (n as f64).powi(2)).sum();
        let sum = self.settled.iter().sum::<u64>() as f64;
        if squares > 0.0 { sum * sum / (self.settled.len() as f64 * squares) } else { 0.0 }
    }

    fn least_to_most(&self) -> f64 {
        let (least, most) = (self.settled.iter().min(), self.settled.iter().max());
        least.zip(most).map_or(0.0, |(&least, &most)| least as f64 / most.max(1) as f64)
    }

    fn show(&self, contender: &str, raw_per_second: f64, report: &mut Report) {
        let of_raw = self.per_second() / raw_per_second.max(1.0);
        let (least_to_most, jain) = (self.least_to_most(), self.jain());
        let dropped = self.dropped as f64 / (self.carried + self.dropped).max(1) as f64;
        let per_second: Vec<u64> = self.settled.iter().map(|n| n / self.seconds).collect();
        // A raw sender that sends too much loses what the link does not carry, which says nothing of it.
        let unrecovered = (self.settled.len() > 1).then_some(self.lost + self.missing);
        let cells = [
            contender.to_owned(),
            format!("{:.0}", self.per_second()),
            format!("{:.1}", self.megabits()),
            format!("{of_raw:.3}"),
            format!("{least_to_most:.2}"),
            format!("{jain:.4}"),
            format!("{:.1} %", dropped * 100.0),
            self.repaired.to_string(),
            unrecovered.map_or_else(String::new, |n| n.to_string()),
            per_second.iter().map(u64::to_string).collect::<Vec<_>>().join(" "),
        ];
        let object = json!({
            "way": contender, "messages_per_second": self.per_second(),
            "megabits_per_second": self.megabits(), "of_raw": of_raw,
            "least_to_most": least_to_most, "jain": jain, "dropped": dropped, "repaired": self.repaired,
            "retransmitted": self.retransmitted, "unrecovered": unrecovered,
            "missing": self.missing, "shares": per_second,
        });
        report.row(cells, object);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn came(settled: &[u64]) -> Came {
        let settled = settled.to_vec();
        let (repaired, lost, missing, retransmitted, carried, dropped) = (0, 0, 0, 0, 0, 0);
        Came { settled, seconds: 2, repaired, lost, missing, retransmitted, carried, dropped }
    }

    #[test]
    fn shares_are_judged_by_the_least_beside_the_most_and_by_all() {
        let equal = came(&[500, 500]);
        assert_eq!((equal.per_second(), equal.least_to_most(), equal.jain()), (500.0, 1.0, 1.0));
        let uneven = came(&[300, 600]);
        assert_eq!((uneven.least_to_most(), uneven.jain()), (0.5, 0.9));
        assert_eq!((came(&[0, 0]).least_to_most(), came(&[0, 0]).jain()), (0.0, 0.0));
    }

    #[test]
    fn messages_are_those_of_the_seconds_that_are_asked_for() {
        let heard = json!({ "first_second": 7, "messages": [1, 2, 4, 8] });
        assert_eq!(messages(&heard, 8, 10), 6);
        assert_eq!(messages(&heard, 0, u64::MAX), 15);
        assert_eq!(messages(&json!({}), 0, 9), 0);
    }
}

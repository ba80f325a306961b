//! What is compared end to end, each with processes of its own, and what a run comes to.

use std::path::Path;
use std::time::Duration;

use measure::Summary;
use serde_json::{Value, json};

use super::{Backbone, Cache, Carrier, Daemons, EndToEndArgs, Items, Layout, PointOfPresence};
use crate::BenchError;
use crate::process::{Process, START_LIMIT, free_port};
use crate::search::{Timed, Trial};

/// A sender that is so far behind its times gives up: the rate is not sustained.
pub(super) const GIVES_UP_MS: u64 = 2_000;
/// A rate is sustained if the last update is handed over within this of its time, and all have come.
pub(super) const LATE: Duration = Duration::from_millis(50);

/// One run.
#[derive(Clone, Debug, Default)]
pub(super) struct Ran {
    pub(super) seen: Summary,
    /// The same from when each update was sent; without points if it does not say so.
    pub(super) naive: Summary,
    /// Updates of the schedule, and those that were sent.
    pub(super) due: u64,
    pub(super) sent: u64,
    /// How long after its time the last update was handed over.
    pub(super) late: Duration,
    /// Seconds of the run.
    pub(super) seconds: f64,
    /// CPU time of each server, or of what stands in for it, in the order of an update's way; nothing if they have no
    /// processes of their own.
    pub(super) busy: Vec<Duration>,
    /// How it has failed.
    pub(super) broken: Option<String>,
}

impl Ran {
    /// What a sender has answered, and what the receiver saw.
    fn new(sender: &Value, receiver: &Value) -> Result<Ran, BenchError> {
        let number = |key: &str| {
            sender[key].as_u64().ok_or_else(|| BenchError::new(format!("no {key} in the answer {sender}")))
        };
        Ok(Ran {
            seen: serde_json::from_value(receiver["latencies"].clone())?,
            naive: serde_json::from_value(receiver["naive"].clone())?,
            sent: number("sent")?,
            late: Duration::from_nanos(number("late_ns")?),
            ..Ran::default()
        })
    }

    /// One that came to nothing.
    pub(super) fn broken(error: &BenchError) -> Ran {
        Ran { broken: Some(error.to_string()), ..Ran::default() }
    }

    pub(super) fn lost(&self) -> u64 {
        self.sent.saturating_sub(self.seen.count)
    }

    pub(super) fn unsent(&self) -> u64 {
        self.due.saturating_sub(self.sent)
    }
}

impl Trial for Ran {
    fn is_sustained(&self) -> bool {
        self.broken.is_none() && self.lost() == 0 && self.unsent() == 0 && self.late < LATE
    }
}

impl Timed for Ran {
    fn latencies(&self) -> Option<Summary> {
        Some(self.seen.clone()).filter(|seen| seen.count > 0)
    }
}

/// One path from a sender to a receiver.
pub(super) trait EndToEndContender {
    /// One run.
    fn run(&mut self, command: &Value, limit: Duration) -> Result<Ran, BenchError>;

    /// CPU time so far of each server.
    fn busy(&self) -> Result<Vec<Duration>, BenchError>;
}

/// A run at a rate, for so many seconds.
pub(super) fn run(
    contender: &mut dyn EndToEndContender,
    args: &EndToEndArgs,
    (run, rate, seconds): (u32, f64, f64),
) -> Result<Ran, BenchError> {
    let command = json!({
        "run": run % 250 + 1, "rate": rate, "bursts": args.bursts, "seconds": seconds, "gives_up_ms": GIVES_UP_MS,
    });
    let before = contender.busy()?;
    let ran = contender.run(&command, Duration::from_secs_f64(seconds + 60.0))?;
    let after = contender.busy()?;
    if ran.seen.count > ran.sent {
        return Err(BenchError::new(format!("{} sent, {} received", ran.sent, ran.seen.count)));
    }
    let busy = after.iter().zip(&before).map(|(after, before)| after.saturating_sub(*before)).collect();
    Ok(Ran { due: (rate * seconds) as u64, seconds, busy, ..ran })
}

/// What is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// Bare sockets.
    Chain,
    /// Everything in one process.
    OneProcess,
    /// A process for each part, over a backbone.
    Servers(Layout, Carrier, Cache),
}

impl Way {
    pub(super) fn name(self) -> String {
        match self {
            Way::Chain => "bare chain".to_owned(),
            Way::OneProcess => Layout::OneProcess.to_string(),
            Way::Servers(layout, carrier, cache) => {
                let carrier = match carrier {
                    Carrier::Multicast => String::new(),
                    other => format!(", {other}"),
                };
                let cache = if cache == Cache::Off { ", cache off" } else { "" };
                format!("{layout}{carrier}{cache}")
            }
        }
    }

    /// The same over multicast, where there are servers.
    pub(super) fn over_multicast(self) -> Option<Way> {
        match self {
            Way::Servers(layout, _, cache) => Some(Way::Servers(layout, Carrier::Multicast, cache)),
            Way::Chain | Way::OneProcess => None,
        }
    }

    /// Starts its processes.
    pub(super) fn start(
        self,
        args: &EndToEndArgs,
        nats_server: Option<&Path>,
    ) -> Result<Box<dyn EndToEndContender>, BenchError> {
        Ok(match self {
            Way::Chain => Box::new(Chain::start(args)?),
            Way::OneProcess => Box::new(OneProcess::start(args)?),
            Way::Servers(layout, carrier, cache) => {
                let settings = args.settings.behind(cache.sets());
                let backbone = Backbone::over(carrier, &settings, args.cpu(1), nats_server)?;
                Box::new(Separate::start(args, backbone, (layout, cache))?)
            }
        })
    }
}

/// Bare sockets.
struct Chain {
    source: Process,
    relays: [Process; 2],
    sink: Process,
}

impl Chain {
    fn start(args: &EndToEndArgs) -> Result<Chain, BenchError> {
        let group_port = ["--group-port".to_owned(), free_port()?.to_string()];
        let profile = args.profile.args();
        let relay = |name, part| {
            let words = [&group_port[..], &profile, &args.cpu(part).args()].concat();
            let mut relay = Process::role(name, &words)?;
            let port = relay.expect("port", START_LIMIT)?["port"].to_string();
            Ok::<_, BenchError>((relay, port))
        };
        let (out, out_port) = relay("chain-relay-out", 1)?;
        let (into, in_port) = relay("chain-relay-in", 2)?;
        let sink = ["--from".to_owned(), in_port];
        let mut sink = Process::role("chain-sink", &[&sink[..], &profile, &args.cpu(3).args()].concat())?;
        sink.expect("ready", START_LIMIT)?;
        let source = [&["--to".to_owned(), out_port][..], &args.pacing.args()].concat();
        let mut source =
            Process::role("chain-source", &[&source[..], &profile, &args.cpu(0).args()].concat())?;
        source.expect("ready", START_LIMIT)?;
        Ok(Chain { source, relays: [out, into], sink })
    }
}

impl EndToEndContender for Chain {
    fn run(&mut self, command: &Value, limit: Duration) -> Result<Ran, BenchError> {
        self.source.tell(command)?;
        let sent = self.source.expect("sent", limit)?;
        Ran::new(&sent, &self.sink.expect("latencies", limit)?)
    }

    fn busy(&self) -> Result<Vec<Duration>, BenchError> {
        self.relays.iter().map(Process::cpu_time).collect()
    }
}

/// A process for each part.
// Those that would complain of a lost peer end first.
struct Separate {
    consumer: Process,
    pop: Option<PointOfPresence>,
    daemons: Daemons,
    publisher: Process,
}

impl Separate {
    fn start(
        args: &EndToEndArgs,
        backbone: Backbone,
        (layout, cache): (Layout, Cache),
    ) -> Result<Separate, BenchError> {
        let items = Items { common: 0, mounts: 1, own: args.items }.args();
        let of_publisher = [args.pacing.args(), items, args.cpu(0).args()].concat();
        let cpus = [args.cpu(1), args.cpu(2)];
        let (publisher, daemons) = if args.is_interactive() {
            let says_sent = ["--says-sent".to_owned()];
            let words = [&of_publisher[..], &says_sent].concat();
            let mut publisher = Process::role("no-fan-out-publisher", &words)?;
            let port = publisher.expect("port", START_LIMIT)?["port"].as_u64().unwrap_or(0) as u16;
            (publisher, Daemons::start_over(backbone, cpus, None, Some(port))?)
        } else {
            let daemons = Daemons::start_over(backbone, cpus, None, None)?;
            let port = ["--port".to_owned(), daemons.provider_port()?.to_string()];
            let words = [&port[..], &of_publisher, &args.profile.args()].concat();
            let mut publisher = Process::role("publisher", &words)?;
            publisher.expect("ready", START_LIMIT)?;
            (publisher, daemons)
        };
        let pop = if layout == Layout::Pop {
            let settings = args.settings.behind(cache.sets());
            Some(PointOfPresence::start(daemons.rssl_port, args.cpu(2), &settings)?)
        } else {
            None
        };
        let port = pop.as_ref().map_or(daemons.rssl_port, |pop| pop.rssl_port);
        let consumer = ["--port", &port.to_string(), "--own", &args.items.to_string()].map(str::to_owned);
        let reading = [args.decode.args(), args.profile.args(), args.cpu(3).args()].concat();
        let mut consumer = Process::role("consumer", &[&consumer[..], &reading].concat())?;
        consumer.expect("ready", START_LIMIT)?;
        Ok(Separate { publisher, consumer, daemons, pop })
    }
}

impl EndToEndContender for Separate {
    fn run(&mut self, command: &Value, limit: Duration) -> Result<Ran, BenchError> {
        self.publisher.tell(command)?;
        let sent = self.publisher.expect("sent", limit)?;
        Ran::new(&sent, &self.consumer.expect("latencies", limit)?)
    }

    fn busy(&self) -> Result<Vec<Duration>, BenchError> {
        let Daemons { distributor, server, backbone, .. } = &self.daemons;
        let pop = self.pop.as_ref().map(|pop| &pop.server);
        let daemons = [distributor, server].into_iter().chain(pop).map(Process::cpu_time);
        daemons.chain(backbone.busy()).collect()
    }
}

/// Everything in one process.
struct OneProcess(Process);

impl OneProcess {
    fn start(args: &EndToEndArgs) -> Result<OneProcess, BenchError> {
        let items = ["--own".to_owned(), args.items.to_string()];
        let reading = [args.profile.args(), args.decode.args()].concat();
        let mut process = Process::role("in-process", &[&items[..], &reading].concat())?;
        process.expect("ready", START_LIMIT)?;
        // It would take both CPUs from the other contenders: it only spins while it is told to.
        Ok(OneProcess(process))
    }
}

impl EndToEndContender for OneProcess {
    fn run(&mut self, command: &Value, limit: Duration) -> Result<Ran, BenchError> {
        self.0.tell(command)?;
        let answer = self.0.expect("latencies", limit)?;
        Ran::new(&answer, &answer)
    }

    fn busy(&self) -> Result<Vec<Duration>, BenchError> {
        Ok(Vec::new())
    }
}

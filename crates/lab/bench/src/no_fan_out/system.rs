//! The processes of a layout, and a run of them.

use std::time::Duration;

use measure::Summary;
use serde_json::{Value, json};

use super::{Layout, NoFanOutArgs, tally};
use crate::BenchError;
use crate::end_to_end::{Backbone, Cache, Items, PointOfPresence};
use crate::process::{Process, START_LIMIT, free_port};
use crate::search::Trial;

/// A publisher that is so far behind its times ends the run: the rate is not sustained, whatever comes later. At least
/// twice what may be late.
const GIVES_UP_MS: u64 = 1_000;
/// For the rest of a run to come through; at least twice what may be late.
const REST_MS: u64 = 5_000;
/// For a run to end, besides its own time.
const LIMIT: Duration = Duration::from_secs(30);

/// The parts of a system, in the order of an update's way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    Publisher,
    SourceDistributor,
    Server,
    PointOfPresence,
    Sink,
}

impl Part {
    pub(super) fn key(self) -> &'static str {
        match self {
            Part::Publisher => "publisher",
            Part::SourceDistributor => "source_distributor",
            Part::Server => "p2ps",
            Part::PointOfPresence => "point_of_presence",
            Part::Sink => "consumer",
        }
    }
}

/// The processes of a layout. Those that would complain of a lost peer end first.
pub(super) struct System {
    sink: Process,
    pop: Option<PointOfPresence>,
    server: Option<Process>,
    distributor: Option<Process>,
    publisher: Process,
    _backbone: Backbone,
    runs: u32,
}

impl System {
    /// Starts the processes, and waits until every item has its image at the last of them.
    pub(super) fn start(
        layout: Layout,
        cache: Option<Cache>,
        args: &NoFanOutArgs,
    ) -> Result<System, BenchError> {
        let items = ["--items".to_owned(), args.items.to_string()];
        let cpu = |part| args.cpu(layout, part);
        let all = Items { common: 0, mounts: 1, own: args.items }.args();
        let own = [all, args.pacing.args(), cpu(Part::Publisher).args()].concat();
        let mut publisher = Process::role("no-fan-out-publisher", &own)?;
        let published = publisher.expect("port", START_LIMIT)?["port"].as_u64().unwrap_or(0) as u16;
        // That providers are held back is what the search looks for.
        let sets = ["messaging.preset=throughput", "log.level=error"]
            .iter()
            .chain(cache.map_or(&[][..], Cache::sets));
        let settings = args.settings.behind(sets);
        let (cpu_of_nats, program) = (cpu(Part::SourceDistributor), args.nats_server());
        let backbone = Backbone::over(args.backbone, &settings, cpu_of_nats, program.as_deref())?;
        let (mut distributor, mut server, mut pop) = (None, None, None);
        if layout != Layout::Direct {
            distributor = Some(backbone.dialling(published, cpu(Part::SourceDistributor))?);
        }
        let mut port = published;
        if matches!(layout, Layout::P2psLan | Layout::P2psPop) {
            port = free_port()?;
            server.insert(backbone.server(port, cpu(Part::Server), None)?).listens(port, START_LIMIT)?;
        }
        if layout == Layout::P2psPop {
            port = pop.insert(PointOfPresence::start(port, cpu(Part::PointOfPresence), &settings)?).rssl_port;
        }
        let looks = [args.time_every.args(tally::TIME_EVERY), cpu(Part::Sink).args()].concat();
        let sink = if layout == Layout::SourceDistributor {
            let own = [&items[..], &args.decode.args(), &backbone.args(Vec::new())?, &looks].concat();
            Process::role("no-fan-out-receiver", &own)?
        } else {
            let own = ["--port".to_owned(), port.to_string()];
            let own = [&own[..], &items, &args.decode.args(), &looks].concat();
            Process::role("no-fan-out-consumer", &own)?
        };
        let mut system = System { sink, pop, server, distributor, publisher, _backbone: backbone, runs: 0 };
        system.settle()?;
        Ok(system)
    }

    /// Waits until all servers have nothing to do and every item is in order; what has come by then is forgotten.
    pub(super) fn settle(&mut self) -> Result<(), BenchError> {
        let pop = self.pop.as_mut().map(|pop| &mut pop.server);
        for server in [self.distributor.as_mut(), self.server.as_mut(), pop].into_iter().flatten() {
            server.rests(START_LIMIT)?;
        }
        self.sink.tell(&json!({ "settle": true }))?;
        self.sink.expect("settled", START_LIMIT + LIMIT)?;
        Ok(())
    }

    /// A run at a rate.
    pub(super) fn run(
        &mut self,
        rate: f64,
        args: &NoFanOutArgs,
        seconds: f64,
    ) -> Result<Outcome, BenchError> {
        self.runs += 1;
        let run = self.runs % 250 + 1;
        let before = self.busy()?;
        let at_least = |ms: u64| ms.max(2 * args.late_ms);
        let command = json!({
            "run": run, "rate": rate, "bursts": args.bursts, "seconds": seconds, "gives_up_ms": at_least(GIVES_UP_MS),
        });
        self.publisher.tell(&command)?;
        let sent = self.publisher.expect("sent", Duration::from_secs_f64(seconds) + LIMIT)?;
        self.sink.tell(&json!({ "report": run, "within_ms": at_least(REST_MS) }))?;
        let seen = self.sink.expect("received", LIMIT)?;
        let number = |of: &Value, key: &str| {
            of[key].as_u64().ok_or_else(|| BenchError::new(format!("no {key:?}: {of}")))
        };
        let mut busy = self.busy()?;
        for ((_, after), (_, before)) in busy.iter_mut().zip(&before) {
            *after = after.saturating_sub(*before);
        }
        Ok(Outcome {
            late: Duration::from_millis(args.late_ms),
            intended: (rate * seconds) as u64,
            sent: number(&sent, "sent")?,
            received: number(&seen, "received")?,
            missing: number(&seen, "lost")?,
            disordered: number(&seen, "disordered")?,
            conflated: number(&seen, "conflated")?,
            interrupted: number(&seen, "interrupted")?,
            unreadable: number(&seen, "unreadable")?,
            gaps: number(&seen, "gaps")?,
            publisher_p99: Duration::from_nanos(number(&sent, "late_p99_ns")?),
            last: seen["last_ns"].as_u64().map(Duration::from_nanos),
            seconds,
            latencies: serde_json::from_value(seen["latencies"].clone())?,
            busy,
            broken: None,
        })
    }

    /// CPU time so far of each part that there is.
    fn busy(&self) -> Result<Vec<(Part, Duration)>, BenchError> {
        let pop = self.pop.as_ref().map(|pop| &pop.server);
        let parts = [
            (Part::Publisher, Some(&self.publisher)),
            (Part::SourceDistributor, self.distributor.as_ref()),
            (Part::Server, self.server.as_ref()),
            (Part::PointOfPresence, pop),
            (Part::Sink, Some(&self.sink)),
        ];
        let there = parts.into_iter().filter_map(|(part, process)| Some((part, process?)));
        there.map(|(part, process)| Ok((part, process.cpu_time()?))).collect()
    }
}

/// What came of a run.
#[derive(Clone, Debug, Default)]
pub(super) struct Outcome {
    /// The bound of what is late.
    pub(super) late: Duration,
    /// Updates of the schedule, those that were sent by then, and those that have come.
    pub(super) intended: u64,
    pub(super) sent: u64,
    pub(super) received: u64,
    /// Updates whose numbers are missing at the sink.
    pub(super) missing: u64,
    pub(super) disordered: u64,
    pub(super) conflated: u64,
    pub(super) interrupted: u64,
    pub(super) unreadable: u64,
    /// Messages of the backbone that are missing at the receiver.
    pub(super) gaps: u64,
    /// How late the publisher was.
    pub(super) publisher_p99: Duration,
    /// How late the end of the run came, if it has.
    pub(super) last: Option<Duration>,
    /// Seconds of the schedule.
    pub(super) seconds: f64,
    pub(super) latencies: Summary,
    /// CPU time of each part.
    pub(super) busy: Vec<(Part, Duration)>,
    /// How the system has failed.
    pub(super) broken: Option<String>,
}

impl Outcome {
    /// Of a system that has failed.
    pub(super) fn broken(error: &BenchError) -> Outcome {
        Outcome { broken: Some(error.to_string()), ..Outcome::default() }
    }

    /// Updates a second that have come, until the end of the run did.
    pub(super) fn received_per_s(&self) -> Option<f64> {
        let seconds = self.seconds + self.last?.as_secs_f64();
        Some(self.received as f64 / seconds).filter(|per_s| per_s.is_finite())
    }

    /// Updates that were sent and have not come.
    pub(super) fn lost(&self) -> u64 {
        self.sent.saturating_sub(self.received).max(self.missing)
    }

    /// Why the rate is not sustained; none if it is.
    pub(super) fn fault(&self) -> Option<String> {
        let count = |count: u64, what: &str| (count > 0).then(|| format!("{count} {what}"));
        let late = |what: &str, by: Duration| {
            (by > self.late).then(|| format!("{what} {:.0} ms late", by.as_secs_f64() * 1e3))
        };
        let faults = [
            self.broken.clone(),
            count(self.intended.saturating_sub(self.sent), "not sent"),
            count(self.lost(), "lost"),
            count(self.received.saturating_sub(self.sent), "too many"),
            count(self.disordered, "out of order"),
            count(self.conflated, "conflated"),
            count(self.interrupted, "items interrupted"),
            count(self.unreadable, "unreadable"),
            count(self.gaps, "missing in the stream"),
            late("publisher", self.publisher_p99),
            match self.last {
                None => self.broken.is_none().then(|| "the end has not come".to_owned()),
                Some(by) => late("the end", by),
            },
        ];
        let faults: Vec<String> = faults.into_iter().flatten().collect();
        (!faults.is_empty()).then(|| faults.join(", "))
    }
}

impl Trial for Outcome {
    fn is_sustained(&self) -> bool {
        self.fault().is_none()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn good() -> Outcome {
        Outcome {
            late: Duration::from_millis(50),
            intended: 100,
            sent: 100,
            received: 100,
            publisher_p99: Duration::from_millis(50),
            last: Some(Duration::from_millis(50)),
            ..Outcome::default()
        }
    }

    #[test]
    fn a_run_is_sustained_if_everything_came_in_order_and_in_time() {
        assert_eq!(good().fault(), None);
        assert!(good().is_sustained());
        let ms = Duration::from_millis;
        for (outcome, fault) in [
            (Outcome { intended: 103, ..good() }, "3 not sent"),
            (Outcome { received: 98, ..good() }, "2 lost"),
            (Outcome { missing: 4, ..good() }, "4 lost"),
            (Outcome { received: 101, ..good() }, "1 too many"),
            (Outcome { disordered: 1, ..good() }, "1 out of order"),
            (Outcome { conflated: 1, ..good() }, "1 conflated"),
            (Outcome { interrupted: 1, ..good() }, "1 items interrupted"),
            (Outcome { unreadable: 1, ..good() }, "1 unreadable"),
            (Outcome { gaps: 1, ..good() }, "1 missing in the stream"),
            (Outcome { publisher_p99: ms(51), ..good() }, "publisher 51 ms late"),
            (Outcome { last: Some(ms(70)), ..good() }, "the end 70 ms late"),
            (Outcome { last: None, ..good() }, "the end has not come"),
            (Outcome { sent: 90, received: 80, ..good() }, "10 not sent, 10 lost"),
            (Outcome::broken(&BenchError::new("p2ps ended")), "p2ps ended"),
        ] {
            assert_eq!(outcome.fault().as_deref(), Some(fault));
            assert!(!outcome.is_sustained());
        }
    }
}

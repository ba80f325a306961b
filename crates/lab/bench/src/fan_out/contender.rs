//! The ways of fanning out that are compared: their processes, and a run of them.

use std::path::PathBuf;
use std::time::Duration;

use measure::Summary;
use net::clock;
use serde_json::{Value, json};

use super::seen::Seen;
use super::words;
use crate::BenchError;
use crate::end_to_end::{Backbone, Cache, Carrier, Items, PointOfPresence, Settings};
use crate::options::Cpu;
use crate::process::{Process, START_LIMIT, free_port};
use crate::search::{Timed, Trial};
use crate::update::Profile;

/// A run is sustained if its last update comes within this time after it was meant to be sent.
pub(super) const LATE: Duration = Duration::from_millis(50);
/// A sender that is so far behind its times gives up.
pub(super) const GIVES_UP_MS: u64 = 2_000;

/// The processes that fan out in one way that is compared.
pub(super) struct FanOutContender {
    pub(super) name: String,
    /// Updates out for one in.
    pub(super) copies: f64,
    // Those that would complain of a lost peer end first.
    /// The clients of each server.
    pub(super) sinks: Vec<Process>,
    pub(super) servers: Vec<Process>,
    /// What feeds the servers, the last of them first.
    pub(super) feeding: Vec<Process>,
    /// Sends at the rate that it is told; none if the servers themselves do.
    pub(super) publisher: Option<Process>,
    /// Lives as long as they do.
    pub(super) _backbone: Option<Backbone>,
    /// Readers that do not keep up, and what each of them is to read of the bytes of a common update.
    pub(super) slow: Option<(Process, f64)>,
}

/// CPUs of the servers, in turn, and of everything else.
#[derive(Clone, Debug)]
pub(super) struct Cpus {
    pub(super) servers: Vec<usize>,
    pub(super) others: Vec<usize>,
}

impl Cpus {
    pub(super) fn server(&self, at: usize) -> Cpu {
        Cpu::on(self.servers.get(at % self.servers.len().max(1)).copied())
    }

    /// The publisher and what feeds the servers have the first one, clients all in turn.
    pub(super) fn other(&self, at: usize) -> Cpu {
        Cpu::on(self.others.get(at % self.others.len().max(1)).copied())
    }
}

/// The clients of one server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Share {
    pub(super) first: u32,
    pub(super) here: u32,
}

/// So many clients, evenly over so many servers.
pub(super) fn shares(clients: u32, servers: u32) -> Vec<Share> {
    let begin = |at: u32| (u64::from(clients) * u64::from(at) / u64::from(servers)) as u32;
    (0..servers).map(|at| Share { first: begin(at), here: begin(at + 1) - begin(at) }).collect()
}

/// A process of consumers of one server.
pub(super) struct Sink {
    pub(super) role: &'static str,
    /// Arguments by which it knows its consumers.
    pub(super) of_share: fn(Share) -> Vec<String>,
    /// Those that all of them have.
    pub(super) args: Vec<String>,
}

/// What is different between contenders through Tickcast.
pub(super) struct Setup {
    pub(super) name: String,
    pub(super) copies: f64,
    pub(super) items: Items,
    pub(super) profile: Profile,
    /// The publisher can be asked for images, and the source distributor dials it.
    pub(super) is_interactive: bool,
    /// Settings of all servers.
    pub(super) settings: Settings,
    pub(super) carrier: Carrier,
    pub(super) nats_server: Option<PathBuf>,
    pub(super) cache: Cache,
    /// The servers take their data from another server, as its clients.
    pub(super) is_pop: bool,
    pub(super) shares: Vec<Share>,
    pub(super) cpus: Cpus,
    pub(super) sink: Sink,
    /// The port of consumers; one of the settings' if they have one of their own.
    pub(super) port: Option<u16>,
    /// Readers beside them that do not keep up: the arguments of their role, and what each is to read of the bytes of an
    /// update.
    pub(super) slow: Option<(Vec<String>, f64)>,
}

impl FanOutContender {
    /// Publisher, source distributor, point-to-point servers and consumers.
    pub(super) fn tickcast(setup: &Setup) -> Result<FanOutContender, BenchError> {
        let others = setup.cpus.other(0);
        let settings = setup.settings.behind(setup.cache.sets());
        let backbone = Backbone::over(setup.carrier, &settings, others, setup.nats_server.as_deref())?;
        let (publisher, distributor) = setup.publisher(&backbone, others)?;
        let mut feeding = vec![distributor];
        let hub = if setup.is_pop { Some(setup.hub(&backbone, others, &mut feeding)?) } else { None };
        let (mut servers, mut sinks) = (Vec::new(), Vec::new());
        let mut first_port = Vec::new();
        for (at, share) in setup.shares.iter().enumerate() {
            let (server, own) = setup.server(&backbone, &settings, hub, at)?;
            servers.push(server);
            let Sink { role, of_share, args } = &setup.sink;
            let port = words(&["--port", &setup.port.unwrap_or(own).to_string()]);
            let words = [&port[..], &of_share(*share), args, &setup.cpus.other(at).args()].concat();
            sinks.push(Process::role(role, &words)?);
            first_port = port;
        }
        sinks.iter_mut().try_for_each(|sink| sink.expect("ready", START_LIMIT).map(drop))?;
        let slow = setup.slow.as_ref().map(|(args, bytes)| {
            let words = [&first_port[..], args, &others.args()].concat();
            let mut slow = Process::role("slow-mounts", &words)?;
            slow.expect("ready", START_LIMIT)?;
            Ok::<_, BenchError>((slow, *bytes))
        });
        let slow = slow.transpose()?;
        let (name, copies) = (setup.name.clone(), setup.copies);
        let (publisher, _backbone) = (Some(publisher), Some(backbone));
        Ok(FanOutContender { name, copies, sinks, publisher, servers, feeding, _backbone, slow })
    }

    /// A run, of so many seconds.
    ///
    /// # Errors
    /// One of the processes has failed, or more has come than was sent.
    pub(super) fn run(
        &mut self,
        seconds: f64,
        run: u32,
        (rate, bursts): (f64, Option<u32>),
    ) -> Result<Outcome, BenchError> {
        let limit = Duration::from_secs_f64(seconds * 4.0 + 60.0);
        if let Some((slow, bytes)) = &mut self.slow {
            slow.tell(&json!({ "bytes_per_s": *bytes * rate }))?;
        }
        let (start, busy_before) = (clock::monotonic(), times(&self.servers)?);
        let feeding_before = times(&self.feeding)?;
        let command = json!({
            "run": run % 250 + 1, "rate": rate, "bursts": bursts, "seconds": seconds, "gives_up_ms": GIVES_UP_MS,
        });
        let sources = match &mut self.publisher {
            Some(publisher) => std::slice::from_mut(publisher),
            None => &mut self.servers[..],
        };
        sources.iter_mut().try_for_each(|source| source.tell(&command))?;
        let mut sent = Vec::new();
        for source in sources {
            sent.push(source.expect("sent", limit)?);
        }
        let (mut of_each, mut all) = (Vec::new(), Seen::default());
        for sink in &mut self.sinks {
            let seen = Seen::of_json(&sink.expect("run", limit)?)?;
            all.add(&seen);
            of_each.push(seen);
        }
        let took_s = clock::monotonic().since(start).as_secs_f64();
        let busy = since(&times(&self.servers)?, &busy_before);
        let feeding = since(&times(&self.feeding)?, &feeding_before);
        if let Some((slow, _)) = &mut self.slow {
            slow.tell(&json!({ "bytes_per_s": 0 }))?;
            slow.expect("drained", limit)?;
        }
        let count = Count::new(&sent, &all, self.copies, (rate * seconds) as u64)?;
        let servers = of_each.iter().zip(&busy).map(|(seen, busy)| OfServer {
            out_per_s: seen.updates as f64 / took_s.max(seconds),
            load: busy.as_secs_f64() / took_s,
            latencies: seen.latencies.spread(),
        });
        let busy_s = busy.iter().sum::<Duration>().as_secs_f64();
        let updates = all.updates as f64;
        Ok(Outcome {
            updates_per_s: updates / took_s.max(seconds),
            load: busy_s / took_s,
            feeding_load: feeding.iter().sum::<Duration>().as_secs_f64() / took_s,
            ns_per_update: busy_s * 1e9 / updates,
            bytes_per_update: all.bytes as f64 / updates,
            latencies: all.latencies.spread(),
            count,
            late: Duration::from_nanos(all.last_ns.max(count_late(&sent))),
            servers: servers.collect(),
            example: Some(all.example).filter(|example| !example.is_empty()),
            broken: None,
        })
    }
}

/// How late the last sender was at its end.
fn count_late(sent: &[Value]) -> u64 {
    sent.iter().filter_map(|sent| sent["late_ns"].as_u64()).max().unwrap_or(0)
}

fn times(processes: &[Process]) -> Result<Vec<Duration>, BenchError> {
    processes.iter().map(Process::cpu_time).collect()
}

fn since(after: &[Duration], before: &[Duration]) -> Vec<Duration> {
    after.iter().zip(before).map(|(after, before)| after.saturating_sub(*before)).collect()
}

impl Setup {
    /// Who publishes, and the source distributor.
    fn publisher(&self, backbone: &Backbone, cpu: Cpu) -> Result<(Process, Process), BenchError> {
        let pacing = words(&["--pacing", "sleep"]);
        let args = [pacing, self.items.args(), cpu.args()].concat();
        if self.is_interactive {
            let mut publisher = Process::role("no-fan-out-publisher", &args)?;
            let port = publisher.expect("port", START_LIMIT)?["port"].as_u64().unwrap_or(0) as u16;
            return Ok((publisher, backbone.dialling(port, cpu)?));
        }
        let port = free_port()?;
        let mut distributor = backbone.distributor(port, cpu, Vec::new())?;
        distributor.listens(port, START_LIMIT)?;
        let port = words(&["--port", &port.to_string()]);
        let mut publisher = Process::role("publisher", &[port, args, self.profile.args()].concat())?;
        publisher.expect("ready", START_LIMIT)?;
        Ok((publisher, distributor))
    }

    /// The server that the measured ones are clients of; its port.
    fn hub(&self, backbone: &Backbone, cpu: Cpu, feeding: &mut Vec<Process>) -> Result<u16, BenchError> {
        let port = free_port()?;
        let mut hub = backbone.server(port, cpu, None)?;
        hub.listens(port, START_LIMIT)?;
        feeding.insert(0, hub);
        Ok(port)
    }

    /// One of those that are measured, and its port.
    fn server(
        &self,
        backbone: &Backbone,
        settings: &Settings,
        hub: Option<u16>,
        at: usize,
    ) -> Result<(Process, u16), BenchError> {
        let cpu = self.cpus.server(at);
        if let Some(hub) = hub {
            // Every update is counted at the end, however long it has waited.
            let settings = settings.behind(["p2ps.conflate_above_bytes=0", "p2ps.conflate_above_ms=0"]);
            let pop = PointOfPresence::start(hub, cpu, &settings)?;
            return Ok((pop.server, pop.rssl_port));
        }
        let port = free_port()?;
        let mut server = backbone.server(port, cpu, None)?;
        server.listens(port, START_LIMIT)?;
        Ok((server, port))
    }
}

/// What was sent, and what has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Count {
    /// Updates in that the sender did not come to.
    pub(super) unsent: u64,
    /// Updates out that have not come.
    pub(super) lost: u64,
}

impl Count {
    /// Of the answers of all senders, which send the same.
    fn new(sent: &[Value], seen: &Seen, copies: f64, due: u64) -> Result<Count, BenchError> {
        let numbers = sent.iter().map(|sent| sent["sent"].as_u64().unwrap_or(0));
        let (least, most) = (numbers.clone().min().unwrap_or(0), numbers.max().unwrap_or(0));
        // Of an odd number of updates, one kind of items gets one more than the other.
        let slack = |sent: u64| if sent.is_multiple_of(2) { 0.0 } else { copies };
        let came = seen.updates as f64;
        let most_expected = most as f64 * copies + slack(most);
        if came > most_expected {
            return Err(BenchError::new(format!(
                "{most_expected} updates expected at most, {came} received"
            )));
        }
        let missing = least as f64 * copies - slack(least) - came;
        Ok(Count { unsent: due.saturating_sub(least), lost: missing.max(0.0).ceil() as u64 })
    }
}

/// Of one of several servers.
#[derive(Clone, Debug)]
pub(super) struct OfServer {
    pub(super) out_per_s: f64,
    pub(super) load: f64,
    pub(super) latencies: Summary,
}

/// What came of one run.
#[derive(Clone, Debug, Default)]
pub(super) struct Outcome {
    pub(super) updates_per_s: f64,
    /// Processor time of the servers' threads by wall-clock time.
    pub(super) load: f64,
    /// The same of what feeds them.
    pub(super) feeding_load: f64,
    pub(super) ns_per_update: f64,
    /// As the protocol has them, before encryption.
    pub(super) bytes_per_update: f64,
    pub(super) latencies: Summary,
    pub(super) count: Count,
    /// How late the end of the run was, at the sender and at the last client.
    pub(super) late: Duration,
    pub(super) servers: Vec<OfServer>,
    /// An update as a client has got it, without the time in it; of contenders that can be compared in it.
    pub(super) example: Option<String>,
    /// How it has failed.
    pub(super) broken: Option<String>,
}

impl Outcome {
    /// One that came to nothing.
    pub(super) fn broken(error: &BenchError) -> Outcome {
        Outcome { broken: Some(error.to_string()), ..Outcome::default() }
    }
}

impl Trial for Outcome {
    fn is_sustained(&self) -> bool {
        self.broken.is_none() && self.count == Count::default() && self.late < LATE
    }
}

impl Timed for Outcome {
    fn latencies(&self) -> Option<Summary> {
        Some(self.latencies.clone()).filter(|latencies| latencies.count > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_are_spread_evenly_and_each_has_one_server() {
        for (clients, servers) in [(100, 1), (100, 4), (10, 3), (3, 3), (2, 3), (10_000, 7)] {
            let shares = shares(clients, servers);
            let mut next = 0;
            for share in &shares {
                assert_eq!(share.first, next);
                next += share.here;
                assert!(share.here.abs_diff(clients / servers) <= 1, "{shares:?}");
            }
            assert_eq!((next, shares.len()), (clients, servers as usize));
        }
    }

    #[test]
    fn what_was_not_sent_and_what_has_not_come_are_counted_apart() {
        let seen = |updates| Seen { updates, ..Seen::default() };
        let sent = |sent: &[u64]| sent.iter().map(|sent| json!({ "sent": sent })).collect::<Vec<_>>();
        let count = |of: &[u64], came, due| Count::new(&sent(of), &seen(came), 3.0, due);
        let of = |of: &[u64], came, due| count(of, came, due).expect("not too many");
        assert_eq!(of(&[100], 300, 100), Count::default());
        assert_eq!(of(&[90], 270, 100), Count { unsent: 10, lost: 0 });
        assert_eq!(of(&[100], 290, 100), Count { unsent: 0, lost: 10 });
        // Of an odd number, one kind of items has one more.
        assert_eq!(of(&[101], 300, 101), Count::default());
        assert_eq!(of(&[101], 306, 101), Count::default());
        assert_eq!(of(&[100, 80], 280, 100), Count { unsent: 20, lost: 0 });
        assert!(count(&[100], 301, 100).is_err());
    }

    #[test]
    fn a_run_is_sustained_if_all_left_and_came_in_time() {
        let good = Outcome::default();
        assert!(good.is_sustained() && good.latencies().is_none());
        assert!(!Outcome { late: LATE, ..good.clone() }.is_sustained());
        assert!(!Outcome { count: Count { unsent: 1, lost: 0 }, ..good.clone() }.is_sustained());
        assert!(!Outcome { count: Count { unsent: 0, lost: 1 }, ..good }.is_sustained());
        assert!(!Outcome::broken(&BenchError::new("it ended")).is_sustained());
    }
}

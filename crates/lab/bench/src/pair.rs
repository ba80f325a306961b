//! One run between two ends: what is told to the processes of a contender, and what they answer.
//!
//! The programs, ours and others', and what is told to them: [`measure::ends`].

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::{Args, ValueEnum};
use measure::ends::{Observe, Reflected};
use measure::{Observed, Summary};
use serde::Deserialize as _;
use serde_json::{Value, json};
use testkit::hosts::Lab;

use crate::observing::{self, Observing};
use crate::own::Settings;
use crate::process::{Process, START_LIMIT, free_port};
use crate::{BenchError, own, raw};

/// By what a message travels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Path {
    /// Shared memory.
    Shm,
    /// UDP unicast over loopback.
    Udp,
    /// UDP multicast over loopback.
    Multicast,
    /// TCP over loopback.
    Tcp,
    /// UDP between two hosts (network namespaces) joined by a veth pair, by AF_XDP and by sockets; needs
    /// root.
    Veth,
}

impl std::fmt::Display for Path {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(match self {
            Path::Shm => "shm",
            Path::Udp => "udp",
            Path::Multicast => "multicast",
            Path::Tcp => "tcp",
            Path::Veth => "veth",
        })
    }
}

/// What an end of a contender is started with.
#[derive(Clone, Debug, Args)]
pub(crate) struct EndArgs {
    #[arg(long)]
    pub(crate) path: Path,
    /// Bytes of a message.
    #[arg(long)]
    pub(crate) size: usize,
    /// Longest UDP payload of a datagram, bytes.
    #[arg(long, default_value_t = 1472)]
    pub(crate) datagram: usize,
    /// Which of several ways to do it; each program knows its own.
    #[arg(long, default_value = "")]
    pub(crate) mode: String,
    /// How many sources and receivers at once, each pair by itself.
    #[arg(long, default_value_t = 1)]
    pub(crate) pairs: usize,
    /// Of both ends of one run and of no others.
    #[arg(long)]
    pub(crate) port: u16,
    /// The CPU of this end.
    #[arg(long)]
    pub(crate) cpu: usize,
    /// The CPU of the other end.
    #[arg(long)]
    pub(crate) far_cpu: usize,
    /// Number of its first pair among all that run at once.
    #[arg(long, default_value_t = 0)]
    pub(crate) first_pair: usize,
    /// Whether others have the same CPU, which it then leaves to them when it has nothing to do.
    #[arg(long, default_value_t = false, action = clap::ArgAction::Set)]
    pub(crate) yields: bool,
    /// Percent of the messages of a stream that the receiver sends back.
    #[arg(long, default_value_t = 0)]
    pub(crate) reflect: u8,
    /// Of our library.
    #[arg(long, default_value_t)]
    pub(crate) settings: Settings,
}

impl EndArgs {
    /// One end of one pair, the only one; the near one's CPU first.
    pub(crate) fn of(path: Path, size: usize, datagram: usize, [cpu, far_cpu]: [usize; 2]) -> EndArgs {
        EndArgs {
            path,
            size,
            datagram,
            mode: String::new(),
            pairs: 1,
            port: 0,
            cpu,
            far_cpu,
            first_pair: 0,
            yields: false,
            reflect: 0,
            settings: Settings::default(),
        }
    }

    fn words(&self) -> Vec<String> {
        let pairs = [
            ("--path", self.path.to_string()),
            ("--size", self.size.to_string()),
            ("--datagram", self.datagram.to_string()),
            ("--mode", self.mode.clone()),
            ("--pairs", self.pairs.to_string()),
            ("--port", self.port.to_string()),
            ("--cpu", self.cpu.to_string()),
            ("--far-cpu", self.far_cpu.to_string()),
            ("--first-pair", self.first_pair.to_string()),
            ("--yields", self.yields.to_string()),
            ("--reflect", self.reflect.to_string()),
            ("--settings", self.settings.to_string()),
        ];
        pairs.into_iter().flat_map(|(key, value)| [key.to_owned(), value]).collect()
    }

    fn other_end(&self) -> EndArgs {
        EndArgs { cpu: self.far_cpu, far_cpu: self.cpu, ..self.clone() }
    }
}

/// Something that messages can be sent by: the bare machine, this project, another's program.
#[derive(Clone, Debug)]
pub(crate) struct Contender {
    pub(crate) name: String,
    pub(crate) kind: Kind,
    pub(crate) mode: &'static str,
    /// That of the far end, if it differs.
    far_mode: Option<&'static str>,
    /// The hosts of its ends, if not both are on this one.
    hosts: Option<Arc<Lab>>,
    /// Whether its messages are taken down one by one.
    observing: Option<Observing>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// What ratios refer to.
    Raw,
    Own,
    /// A program with the roles of this module.
    Peer(PathBuf),
}

impl Contender {
    pub(crate) fn new(name: impl Into<String>, kind: Kind, mode: &'static str) -> Contender {
        Contender { name: name.into(), kind, mode, far_mode: None, hosts: None, observing: None }
    }

    /// The same with another mode at the far end.
    pub(crate) fn with_far(self, mode: &'static str) -> Contender {
        Contender { far_mode: Some(mode), ..self }
    }

    /// The same between two hosts.
    pub(crate) fn between(self, hosts: &Arc<Lab>) -> Contender {
        Contender { hosts: Some(hosts.clone()), ..self }
    }

    /// The same with its messages taken down one by one, in streams; what is bare is not observed.
    pub(crate) fn observed(self, observing: Observing) -> Contender {
        Contender { observing: Some(observing).filter(|_| self.kind != Kind::Raw), ..self }
    }

    /// Runs whose messages were taken down.
    pub(crate) fn observed_runs(&self) -> u32 {
        self.observing.as_ref().map_or(0, Observing::runs)
    }

    /// The runs after so many do not count.
    pub(crate) fn forget_runs(&self, after: u32) -> Result<(), BenchError> {
        self.observing.as_ref().map_or(Ok(()), |observing| observing.forget(after))
    }

    fn start(&self, role: &str, args: &EndArgs, more: &[String]) -> Result<Process, BenchError> {
        let words = [&args.words()[..], more].concat();
        let name = format!("{}, {role}", self.name);
        let end =
            |kind: &str| Process::role(kind, &[&["--".to_owned(), role.to_owned()], &words[..]].concat());
        let mut process = match &self.kind {
            Kind::Raw if self.has_processes() => end("raw-end")?,
            Kind::Raw => Process::role(&format!("raw-{role}"), &words)?,
            Kind::Own => end("own")?,
            Kind::Peer(program) => {
                Process::program(&name, program, &[&[role.to_owned()], &words[..]].concat())?
            }
        };
        process.expect("ready", START_LIMIT)?;
        Ok(process)
    }

    /// Whether each of its ends is a process: not what is bare and on one host, unless its messages come back.
    fn has_processes(&self) -> bool {
        self.kind != Kind::Raw || self.hosts.is_some() || self.mode == raw::ENDS
    }

    /// Starts an end on the host where it belongs.
    fn start_there(
        &self,
        role: &str,
        args: &EndArgs,
        more: &[String],
        is_far: bool,
    ) -> Result<Process, BenchError> {
        let Some(hosts) = &self.hosts else { return self.start(role, args, more) };
        // By a thread of its own, as a process starts on the host of the thread that starts it.
        std::thread::scope(|scope| {
            let starting = scope.spawn(|| {
                if is_far { hosts.to_far() } else { hosts.to_near() }?;
                self.start(role, args, more)
            });
            starting.join().map_err(|_| BenchError::new("starting an end has panicked"))?
        })
    }

    /// Both ends, the far one first, which waits for the other. What is bare has both in one process, unless
    /// they are on two hosts.
    fn pair(
        &self,
        [far, near]: [&str; 2],
        args: &EndArgs,
        more: &[String],
    ) -> Result<(Option<Process>, Process), BenchError> {
        let port = if args.port == 0 { free_port()? } else { args.port };
        let args = EndArgs { mode: self.mode.to_owned(), port, ..args.clone() };
        if self.kind == Kind::Raw && !self.has_processes() {
            return Ok((None, self.start(near, &args, more)?));
        }
        let mode = self.far_mode.unwrap_or(self.mode).to_owned();
        let far = self.start_there(far, &EndArgs { mode, ..args.other_end() }, more, true)?;
        Ok((Some(far), self.start_there(near, &args, more, false)?))
    }

    /// Half round trips of one run.
    pub(crate) fn pingpong(&self, args: &EndArgs, span: Duration) -> Result<Summary, BenchError> {
        let (far, mut near) = self.pair(["reflector", "pingpong"], args, &[])?;
        near.tell(&json!({ "seconds": span.as_secs_f64() }))?;
        let answer = near.expect("half_round_trip", limit(span))?;
        end(near, far)?;
        Ok(serde_json::from_value(answer["half_round_trip"].clone())?)
    }

    /// Whether nothing holds its sender back when the receiver cannot follow, so that it needs a rate.
    pub(crate) fn needs_rate(&self) -> bool {
        self.kind == Kind::Own && own::needs_rate(self.mode)
    }

    /// One run in one direction with one or several pairs at once, each of processes of its own and at that pace.
    pub(crate) fn streams(
        &self,
        pairs: &[EndArgs],
        span: Duration,
        pace: Pace,
    ) -> Result<Vec<Streamed>, BenchError> {
        let mut ports = Vec::new();
        let mut started = Vec::new();
        let mut observed = Vec::new();
        for args in pairs {
            let port = next_port(&mut ports)?;
            let observe = self.observing.as_ref().map(Observing::next);
            let words = observe.as_ref().map_or_else(Vec::new, Observe::words);
            started.push(self.pair(["receiver", "stream"], &EndArgs { port, ..args.clone() }, &words)?);
            observed.extend(observe.map(|observe| (observe, args.pairs)));
        }
        let command = pace.command(span);
        started.iter_mut().try_for_each(|(_, near)| near.tell(&command))?;
        let mut answers = Vec::new();
        for (far, near) in &mut started {
            let sent = near.expect("sent", limit(span))?;
            if let Some(far) = far {
                far.tell(&sent)?;
            }
            answers.push(sent);
        }
        let mut streams = Vec::new();
        for ((far, near), sent) in started.iter_mut().zip(&answers) {
            let seen = far.as_mut().unwrap_or(near).expect("received", limit(span))?;
            streams.push(Streamed::of(&self.name, sent, seen, span)?);
        }
        started.into_iter().try_for_each(|(far, near)| end(near, far))?;
        observed.iter().try_for_each(|(observe, pairs)| observing::check(observe, *pairs))?;
        Ok(streams)
    }
}

/// A port that nobody uses now, and that has no neighbour among those before: each pair takes two that differ in the lowest
/// bit.
fn next_port(before: &mut Vec<u16>) -> Result<u16, BenchError> {
    loop {
        let port = free_port()?;
        if !before.iter().any(|other| other >> 1 == port >> 1) {
            before.push(port);
            return Ok(port);
        }
    }
}

/// How fast a sender goes.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Pace {
    /// As fast as it can, which something must limit.
    FlatOut,
    /// Messages a second; the receiver times each.
    Timed(f64),
    /// Messages a second.
    Untimed(f64),
}

/// A sender that is so far behind its times leaves the rest unsent.
pub(crate) const GIVES_UP_MS: u64 = 2_000;

impl Pace {
    /// What a sender is told.
    fn command(self, span: Duration) -> Value {
        let seconds = span.as_secs_f64();
        match self {
            Pace::FlatOut => json!({ "seconds": seconds }),
            Pace::Timed(rate) => json!({ "seconds": seconds, "rate": rate, "gives_up_ms": GIVES_UP_MS }),
            Pace::Untimed(rate) => json!({ "seconds": seconds, "rate": rate, "is_timed": false }),
        }
    }

    /// The same for each of several.
    pub(crate) fn shared_by(self, pairs: usize) -> Pace {
        let share = |rate: f64| rate / pairs.max(1) as f64;
        match self {
            Pace::FlatOut => Pace::FlatOut,
            Pace::Timed(rate) => Pace::Timed(share(rate)),
            Pace::Untimed(rate) => Pace::Untimed(share(rate)),
        }
    }
}

/// What a run in one direction came to.
#[derive(Clone, Debug)]
pub(crate) struct Streamed {
    pub(crate) sent: u64,
    /// What the sender left unsent as it was too far behind.
    pub(crate) unsent: u64,
    pub(crate) observed: Observed,
    /// What came back, if the receiver was asked for that.
    pub(crate) reflected: Option<Reflected>,
    /// From the first message to the last, and at least the time of the run.
    seconds: f64,
    /// For how long the sender sent.
    sending_seconds: f64,
    /// How long after the end of the run the last message came.
    pub(crate) late: Duration,
}

/// A rate is sustained if the last message comes within this time after the end of the run.
const LATE: Duration = Duration::from_millis(50);

impl Streamed {
    /// From what the ends of a run have answered.
    fn of(name: &str, sent: &Value, seen: Value, span: Duration) -> Result<Streamed, BenchError> {
        let number = |value: &Value, key: &str| {
            value[key].as_u64().ok_or_else(|| BenchError::new(format!("{name}: no {key} in {value}")))
        };
        let took = number(&seen, "last_ns")?.saturating_sub(number(sent, "start_ns")?);
        // Peers that were built before have neither.
        let unsent = sent["unsent"].as_u64().unwrap_or(0);
        let sending = Duration::from_nanos(sent["took_ns"].as_u64().unwrap_or(0));
        Ok(Streamed {
            sent: number(sent, "sent")?,
            unsent,
            observed: serde_json::from_value(seen)?,
            reflected: Option::deserialize(&sent["reflected"])?,
            seconds: (took as f64 / 1e9).max(span.as_secs_f64()),
            sending_seconds: if unsent > 0 { sending } else { sending.max(span) }.as_secs_f64(),
            late: Duration::from_nanos(took).saturating_sub(span),
        })
    }

    /// Messages that left, in a second.
    pub(crate) fn sent_per_second(&self) -> f64 {
        self.sent as f64 / self.sending_seconds.max(f64::MIN_POSITIVE)
    }

    /// Messages that arrived, in a second.
    pub(crate) fn per_second(&self) -> f64 {
        self.observed.received as f64 / self.seconds
    }

    pub(crate) fn lost(&self) -> u64 {
        self.sent.saturating_sub(self.observed.received)
    }

    /// Everything left and came, in order and in time.
    pub(crate) fn is_sustained(&self) -> bool {
        self.unsent == 0 && self.lost() == 0 && self.observed.disordered == 0 && self.late < LATE
    }
}

/// How long a process may take to end by itself, and to write what it has observed.
const END_LIMIT: Duration = Duration::from_secs(60);

/// The near end first: the far one may keep what both need.
fn end(near: Process, far: Option<Process>) -> Result<(), BenchError> {
    near.end(END_LIMIT)?;
    far.map_or(Ok(()), |far| far.end(END_LIMIT))
}

/// How long an answer may take.
fn limit(span: Duration) -> Duration {
    span * 20 + START_LIMIT
}

/// How long a command wants the run to be.
pub(crate) fn span(command: &Value) -> Result<Duration, BenchError> {
    let seconds = command["seconds"].as_f64().filter(|seconds| *seconds > 0.0);
    seconds
        .map(Duration::from_secs_f64)
        .ok_or_else(|| BenchError::new(format!("a run needs seconds: {command}")))
}

/// The program of a peer, where it is in the PATH.
pub(crate) fn peer(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|directory| directory.join(program)).find(|file| file.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    const SPAN: Duration = Duration::from_secs(2);

    impl Streamed {
        /// So many messages in a second, of which so many came in time.
        pub(crate) fn of_test(sent: u64, received: u64) -> Streamed {
            let sent = json!({ "sent": sent, "start_ns": 0 });
            streamed(sent, received, 0)
        }
    }

    fn streamed(sent: Value, received: u64, last_ns: u64) -> Streamed {
        let seen = json!({ "received": received, "missing": 0, "disordered": 0, "latencies": {}, "last_ns": last_ns });
        Streamed::of("test", &sent, seen, SPAN).expect("all is there")
    }

    #[test]
    fn what_came_in_time_is_sustained_and_nothing_else() {
        let sent = json!({ "sent": 100, "unsent": 0, "start_ns": 1_000, "took_ns": 1_900_000_000u64 });
        let good = streamed(sent.clone(), 100, 2_000_001_000);
        assert!(good.is_sustained() && good.lost() == 0 && good.late == Duration::ZERO);
        assert_eq!((good.per_second(), good.sent_per_second()), (50.0, 50.0));
        assert!(!streamed(sent.clone(), 99, 2_000_001_000).is_sustained());
        let late = streamed(sent, 100, 2_060_001_000);
        assert!(!late.is_sustained() && late.late == Duration::from_millis(60));
        let unsent = json!({ "sent": 100, "unsent": 3, "start_ns": 0, "took_ns": 4_000_000_000u64 });
        let unsent = streamed(unsent, 100, 2_000_000_000);
        assert!(!unsent.is_sustained() && unsent.sent_per_second() == 25.0);
        // From a peer of before.
        assert!(streamed(json!({ "sent": 100, "start_ns": 0 }), 100, 2_000_000_000).is_sustained());
    }

    #[test]
    fn a_rate_is_shared_and_ports_are_no_neighbours() {
        let Pace::Timed(rate) = Pace::Timed(10.0).shared_by(3) else { panic!("it stays what it is") };
        assert!((rate - 10.0 / 3.0).abs() < 1e-9);
        let mut ports = Vec::new();
        for _ in 0..6 {
            next_port(&mut ports).expect("some are free");
        }
        ports.sort_unstable();
        assert!(ports.windows(2).all(|two| two[0] >> 1 != two[1] >> 1), "{ports:?}");
    }
}

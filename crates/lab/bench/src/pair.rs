//! One run between two ends: what is told to the processes of a contender, and what they answer.
//!
//! The programs, ours and others', and what is told to them: [`measure::ends`].

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::{Args, ValueEnum};
use measure::ends::Observe;
use measure::{Observed, Summary};
use serde_json::{Value, json};
use testkit::hosts::Lab;

use crate::observing::{self, Observing};
use crate::process::{Process, START_LIMIT, free_port};
use crate::{BenchError, own};

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
}

impl EndArgs {
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
        Contender { name: name.into(), kind, mode, hosts: None, observing: None }
    }

    /// The same between two hosts.
    pub(crate) fn between(self, hosts: &Arc<Lab>) -> Contender {
        Contender { hosts: Some(hosts.clone()), ..self }
    }

    /// The same with its messages taken down one by one, in streams; what is bare is not observed.
    pub(crate) fn observed(self, observing: Observing) -> Contender {
        Contender { observing: Some(observing).filter(|_| self.kind != Kind::Raw), ..self }
    }

    fn start(&self, role: &str, args: &EndArgs, more: &[String]) -> Result<Process, BenchError> {
        let words = [&args.words()[..], more].concat();
        let name = format!("{}, {role}", self.name);
        let end =
            |kind: &str| Process::role(kind, &[&["--".to_owned(), role.to_owned()], &words[..]].concat());
        let mut process = match &self.kind {
            Kind::Raw if self.hosts.is_some() => end("raw-end")?,
            Kind::Raw => Process::role(&format!("raw-{role}"), &words)?,
            Kind::Own => end("own")?,
            Kind::Peer(program) => {
                Process::program(&name, program, &[&[role.to_owned()], &words[..]].concat())?
            }
        };
        process.expect("ready", START_LIMIT)?;
        Ok(process)
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
        let args = EndArgs { mode: self.mode.to_owned(), port: free_port()?, ..args.clone() };
        if self.kind == Kind::Raw && self.hosts.is_none() {
            return Ok((None, self.start(near, &args, more)?));
        }
        let far = self.start_there(far, &args.other_end(), more, true)?;
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

    /// One run in one direction.
    pub(crate) fn stream(&self, args: &EndArgs, span: Duration, pace: Pace) -> Result<Streamed, BenchError> {
        let observe = self.observing.as_ref().map(Observing::next);
        let words = observe.as_ref().map_or_else(Vec::new, Observe::words);
        let (mut far, mut near) = self.pair(["receiver", "stream"], args, &words)?;
        let seconds = span.as_secs_f64();
        near.tell(&match pace {
            Pace::FlatOut => json!({ "seconds": seconds }),
            Pace::Timed(rate) => json!({ "seconds": seconds, "rate": rate }),
            Pace::Untimed(rate) => json!({ "seconds": seconds, "rate": rate, "is_timed": false }),
        })?;
        let sent = near.expect("sent", limit(span))?;
        let seen = match &mut far {
            Some(far) => {
                far.tell(&sent)?;
                far.expect("received", limit(span))?
            }
            None => near.expect("received", limit(span))?,
        };
        end(near, far)?;
        observe.map_or(Ok(()), |observe| observing::check(&observe, args.pairs))?;
        let number = |value: &Value, key: &str| {
            value[key].as_u64().ok_or_else(|| BenchError::new(format!("{}: no {key} in {value}", self.name)))
        };
        let took = number(&seen, "last_ns")?.saturating_sub(number(&sent, "start_ns")?);
        Ok(Streamed {
            sent: number(&sent, "sent")?,
            observed: serde_json::from_value(seen)?,
            seconds: (took as f64 / 1e9).max(seconds),
            late: Duration::from_nanos(took).saturating_sub(span),
        })
    }
}

/// How fast a sender goes.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Pace {
    /// As fast as it can, which something must limit.
    FlatOut,
    /// Messages a second; the receiver times each.
    Timed(u64),
    /// Messages a second.
    Untimed(u64),
}

/// What a run in one direction came to.
pub(crate) struct Streamed {
    pub(crate) sent: u64,
    pub(crate) observed: Observed,
    /// From the first message to the last, and at least the time of the run.
    seconds: f64,
    /// How long after the end of the run the last message came.
    late: Duration,
}

/// A rate is sustained if the last message comes within this time after the end of the run.
const LATE: Duration = Duration::from_millis(50);

impl Streamed {
    /// Messages that arrived, in a second.
    pub(crate) fn per_second(&self) -> f64 {
        self.observed.received as f64 / self.seconds
    }

    pub(crate) fn lost(&self) -> u64 {
        self.sent.saturating_sub(self.observed.received)
    }

    /// Everything came, in order and in time.
    pub(crate) fn is_sustained(&self) -> bool {
        self.lost() == 0 && self.observed.disordered == 0 && self.late < LATE
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

use clap::ValueEnum;
use measure::Schedule;
use net::clock;
use serde_json::{Value, json};
use std::time::Duration;
use units::Nanos;

use crate::BenchError;

/// A run that was sent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SentRun {
    pub(crate) count: u64,
    /// When the one after the last would have been due: what ends the run is meant to be sent then.
    pub(crate) end: Nanos,
    /// How long after that the last one was handed over.
    pub(crate) late: Duration,
}

impl SentRun {
    /// What a part answers to a command.
    pub(crate) fn answer(&self) -> Value {
        json!({ "sent": self.count, "late_ns": self.late.as_nanos() as u64 })
    }
}

/// How a publisher waits for the next time on its schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Pacing {
    /// In a loop: it keeps its times, and a CPU.
    Spin,
    /// Asleep: it wakes some microseconds late, which counts.
    Sleep,
}

impl std::fmt::Display for Pacing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(if *self == Pacing::Spin { "spin" } else { "sleep" })
    }
}

impl Pacing {
    /// As the arguments of a role.
    pub(crate) fn args(self) -> Vec<String> {
        vec!["--pacing".to_owned(), self.to_string()]
    }
}

/// A publisher that has nothing to send is called this often all the same, to serve its connection.
const IDLE: Duration = Duration::from_millis(5);
/// Most updates that are handed over at once when the publisher is behind.
const AT_ONCE: usize = 256;

impl Pacing {
    /// Calls `send` with the intended times of what is due, for as long and as often a second as the command
    /// says, in bursts if it says how many a second. Returns how many there were. A publisher that falls behind gets the
    /// times it has missed, unless the command says how far behind it gives up.
    pub(crate) fn run(
        self,
        command: &Value,
        send: impl FnMut(&[Nanos]) -> Result<(), BenchError>,
    ) -> Result<SentRun, BenchError> {
        self.run_beside(command, send, || ())
    }

    /// The same, and calls `beside` whenever it has looked.
    pub(crate) fn run_beside(
        self,
        command: &Value,
        mut send: impl FnMut(&[Nanos]) -> Result<(), BenchError>,
        mut beside: impl FnMut(),
    ) -> Result<SentRun, BenchError> {
        let rate = command["rate"].as_f64().filter(|rate| *rate > 0.0);
        let seconds = command["seconds"].as_f64().filter(|seconds| *seconds > 0.0);
        let (Some(rate), Some(seconds)) = (rate, seconds) else {
            return Err(BenchError::new(format!("a run needs a rate and seconds: {command}")));
        };
        let start = clock::monotonic().after(Duration::from_millis(10));
        let count = (rate * seconds) as u64;
        let mut schedule = Schedule::new(start, rate);
        if let Some(bursts) = command["bursts"].as_f64().filter(|bursts| *bursts > 0.0) {
            schedule = schedule.in_bursts(bursts);
        }
        let gives_up = command["gives_up_ms"].as_u64().map(Duration::from_millis);
        clock::fine_timers()?;
        let (mut due, mut served) = (Vec::with_capacity(AT_ONCE), start);
        while schedule.sent() < count {
            let now = clock::monotonic();
            if gives_up.is_some_and(|limit| now > schedule.next().after(limit)) {
                break;
            }
            due.clear();
            while due.len() < AT_ONCE && schedule.sent() < count {
                let Some(intended) = schedule.take_due(now) else { break };
                due.push(intended);
            }
            if !due.is_empty() || now >= served.after(IDLE) {
                send(&due)?;
                served = now;
            } else if self == Pacing::Sleep {
                clock::sleep_until(schedule.next().min(served.after(IDLE)));
            }
            beside();
        }
        let end = schedule.next();
        Ok(SentRun { count: schedule.sent(), end, late: clock::monotonic().since(end) })
    }
}

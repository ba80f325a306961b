//! The provider of test data: an interactive one here, a non-interactive one in module `publisher`.
//!
//! Each connection has its own updates, as the SDK's tools have it: nothing is shared between connections but the bytes
//! of messages. That is why it stands on the port of crate `server` and not on the client library's interactive
//! provider, which publishes an item to all who want it.

mod args;
mod core;
mod counts;
mod publish;
mod publisher;
mod report;
mod requests;
mod templates;
#[cfg(test)]
mod tests;

pub use args::TestServerArgs;
pub use counts::ServerCounts;

use std::io::Write;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use net::{Poller, Ready, clock};
use server::rssl::{ListenerCounters, RsslConfig, RsslListener, listen};
use units::Nanos;

use self::core::Core;
use self::report::Reports;
use crate::TestToolError;
use crate::command::{duration, pin};
use crate::dictionary;
use crate::messages::MessageSet;
use crate::ticks::{TICKS_MAX, Ticks};

/// The listener's tokens.
const SPACE: u32 = 1;
/// What is read from a connection at a time.
const READ_BYTES: usize = 64 << 10;
/// How long a turn waits at most, so that stops and reports are noticed.
const TURN: Duration = Duration::from_millis(50);

impl TestServerArgs {
    /// Holds values against each other.
    ///
    /// # Errors
    /// [`TestToolError::Usage`] names the options.
    pub fn check(&self) -> Result<(), TestToolError> {
        if let crate::ticks::StampRate::PerSecond(stamps) = self.latency_rate {
            for (option, rate) in [("--update-rate", self.update_rate), ("--tick-rate", self.tick_rate)] {
                // Without updates none is timed, which is no contradiction.
                if stamps > rate && self.update_rate > 0 {
                    let text = format!("--latency-rate {stamps} is above {option} {rate}");
                    return Err(TestToolError::Usage(text));
                }
            }
        }
        debug_assert!(self.tick_rate <= TICKS_MAX);
        Ok(())
    }
}

/// Runs a provider until `stop`, or to the end of its time. Reports go to `out`.
///
/// # Errors
/// [`TestToolError`].
pub fn run(
    args: &TestServerArgs,
    stop: &AtomicBool,
    out: &mut dyn Write,
) -> Result<ServerCounts, TestToolError> {
    match &args.connect {
        Some(host) => publisher::run(args, host, stop, out),
        None => TestServer::new(args)?.run(stop, out),
    }
}

/// An interactive provider of test data.
pub struct TestServer {
    args: TestServerArgs,
    core: Core,
    listener: RsslListener,
    poller: Poller,
    ready: Vec<Ready>,
}

impl TestServer {
    /// A provider that listens from now on.
    ///
    /// # Errors
    /// [`TestToolError`]: wrong values, a wrong file, a port that is taken.
    pub fn new(args: &TestServerArgs) -> Result<TestServer, TestToolError> {
        args.check()?;
        net::descriptors::raise_limit()?;
        let set = MessageSet::read(args.msg_file.as_deref())?;
        let core = Core::new(args, set, dictionary::load(args.dictionary_dir.as_deref())?)?;
        let config = RsslConfig {
            interface: Ipv4Addr::UNSPECIFIED,
            message_size_bytes: args.max_fragment_size,
            // Dictionaries and images of a turn come on top of the updates, which stop at the limit.
            backlog_max_bytes: u64::from(args.output_bytes) + (64 << 20),
            connections_per_address_max: RsslConfig::default().connections_max,
            ..RsslConfig::default()
        };
        let poller = Poller::new()?;
        let counters = ListenerCounters::default();
        let listener =
            listen(&config, args.port, poller.registrar(), SPACE, clock::seed(), READ_BYTES, counters)
                .map_err(|error| TestToolError::Failed(format!("--port {}: {error}", args.port)))?;
        Ok(TestServer { args: args.clone(), core, listener, poller, ready: Vec::new() })
    }

    /// Where it listens.
    ///
    /// # Errors
    /// None in practice.
    pub fn local_address(&self) -> std::io::Result<SocketAddr> {
        self.listener.local_address()
    }

    /// What was counted so far.
    #[must_use]
    pub fn counts(&self) -> &ServerCounts {
        &self.core.counts
    }

    /// Serves until `stop`, or to the end of its time.
    ///
    /// # Errors
    /// [`TestToolError`]: the system refuses to wait, or `out` to be written.
    pub fn run(mut self, stop: &AtomicBool, out: &mut dyn Write) -> Result<ServerCounts, TestToolError> {
        pin(self.args.cpu)?;
        // A tick that comes 50 us late is late.
        clock::fine_timers()?;
        let start = clock::monotonic();
        let end = self.args.run_time.map_or(Nanos::NEVER, |seconds| start.after(duration(seconds)));
        let mut reports = Reports::new(&self.args, start);
        reports.ready(&format!("port {}", self.local_address()?.port()), out)?;
        let mut ticks = Ticks::new(start, self.args.tick_rate);
        while !stop.load(Ordering::Acquire) && clock::monotonic() < end {
            self.turn(&mut ticks)?;
            self.core.counts.late_ticks = ticks.late();
            reports.look(clock::monotonic(), &self.core.counts, out)?;
        }
        reports.end(clock::monotonic(), &self.core.counts, out)?;
        self.goodbye()?;
        Ok(self.core.counts)
    }

    /// One tick if it is due, then what sockets bring, then images while there is time, then a wait.
    fn turn(&mut self, ticks: &mut Ticks) -> Result<(), TestToolError> {
        let now = clock::monotonic();
        let has_ticks = self.core.has_ticks();
        if !has_ticks {
            ticks.skip_to(now);
        } else if let Some(tick) = ticks.take_due(now) {
            self.core.tick(tick, &mut self.listener);
            self.flush();
        }
        self.serve(Duration::ZERO)?;
        let until = if has_ticks { ticks.next() } else { now.after(TURN) };
        while clock::monotonic() < until && self.core.images(self.args.image_burst, &mut self.listener) {
            self.flush();
            self.serve(Duration::ZERO)?;
        }
        let now = clock::monotonic();
        if now < until && !self.args.spin {
            let wakeup = self.listener.next_wakeup().min(until).min(now.after(TURN));
            // Images that wait for room have it when a socket can be written to.
            self.serve(wakeup.since(now))?;
        }
        Ok(())
    }

    /// Does what sockets ask for, which is waited for.
    fn serve(&mut self, timeout: Duration) -> Result<(), TestToolError> {
        self.ready.clear();
        self.ready.extend(self.poller.wait(Some(timeout))?);
        let now = clock::monotonic();
        for ready in self.ready.drain(..) {
            self.listener.on_ready(now, ready, &mut self.core);
        }
        self.listener.on_wakeup(now, &mut self.core);
        self.flush();
        Ok(())
    }

    fn flush(&mut self) {
        self.listener.flush(clock::monotonic(), &mut self.core);
        self.core.templates.on_flushed();
    }

    /// Ends all connections: what waits is written, within a second.
    fn goodbye(&mut self) -> Result<(), TestToolError> {
        let until = clock::monotonic().after(Duration::from_secs(1));
        self.listener.end(until);
        while !self.listener.has_ended() && clock::monotonic() < until {
            self.serve(Duration::from_millis(10))?;
        }
        Ok(())
    }
}

//! The log of a daemon. Who logs never waits: lines go into a bounded queue, and a thread of their own writes
//! them; what cannot be written is counted and reported. No place in the program logs more than
//! `log.repeats_max` lines in an interval. (`interop/system/test_log.py`: standard error full, closed, stalled.)

mod config;
mod limit;
mod queue;
mod reload;
mod target;
#[cfg(test)]
mod tests;

use std::io::{self, IsTerminal, Write};
use std::panic;
use std::sync::Arc;
use std::time::{Duration, Instant};

use counters::Registry;
use counters::table::Log as Counters;
use tracing::{error, info, warn};
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::reload::Layer as Reloadable;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Layer, Registry as Spans};

pub(crate) use self::config::{LogConfig, LogFormat};
use self::limit::{Limit, LimitLayer, OWN_TARGET};
use self::queue::{Queue, Reporter};
pub(crate) use self::reload::Reload;
use self::target::Target;
use crate::failure::Failure;
use crate::terminal::Style;

/// The variable that chooses what is logged; it is not a key of the configuration.
pub(crate) const LOG_VARIABLE: &str = "TICKCAST_LOG";

/// How long the end of the process, a panic, or a reload waits for lines to be written.
const PATIENCE: Duration = Duration::from_secs(1);

/// The log, for the life of the process: what waits is written when this is dropped, within a second.
pub(crate) struct Log {
    queue: Arc<Queue>,
}

impl Log {
    /// Waits until what was logged is written, for a moment at most.
    pub(crate) fn flusher(&self) -> impl Fn() + Send + use<> {
        let queue = Arc::clone(&self.queue);
        move || queue.flush(PATIENCE)
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        self.queue.close(PATIENCE);
    }
}

/// Starts the log; `default` is what is logged if nothing else says so.
pub(crate) fn start(
    config: &LogConfig,
    default: &'static str,
    registry: &Registry,
) -> Result<(Log, Reload), Failure> {
    let counters = Arc::new(Counters::default());
    registry.register(&[], counters.clone());
    let path = config.path();
    let target = Target::open(path.as_deref()).map_err(|e| Failure::Config(e.to_string()))?;
    let is_coloured = path.is_none() && io::stderr().is_terminal() && Style::of_environment().colours;
    let queue = Arc::new(Queue::new(config.queue_bytes as usize, counters.clone()));
    let limit = Arc::new(Limit::new(config.repeats_max, config.repeats_interval(), counters.clone()));

    let (directives, error) = directives(config, default);
    let (filter, handle) = Reloadable::new(filter(&directives));
    let lines = tracing_subscriber::fmt::layer().with_writer(Lines(Arc::clone(&queue)));
    let lines = match config.format {
        LogFormat::Text => lines.with_ansi(is_coloured).boxed(),
        LogFormat::Json => lines.json().boxed(),
    };
    let subscriber = Spans::default().with(filter).with(LimitLayer(Arc::clone(&limit))).with(lines);
    subscriber.try_init().map_err(|e| Failure::Run(e.to_string()))?;
    queue.start(target, Reports(limit))?;
    log_panics(Arc::clone(&queue));
    if let Some(error) = error {
        warn!(%error, "{LOG_VARIABLE} is not understood: it is logged as without it");
    }
    let reload = Reload { queue: Arc::clone(&queue), handle, default, counters };
    Ok((Log { queue }, reload))
}

/// What is logged, and why it is not what the variable asks for.
fn directives(config: &LogConfig, default: &str) -> (String, Option<String>) {
    let asked = std::env::var_os(LOG_VARIABLE);
    choose(asked.as_ref().map(|text| text.to_string_lossy()).as_deref(), config.level.as_deref(), default)
}

fn choose(asked: Option<&str>, level: Option<&str>, default: &str) -> (String, Option<String>) {
    let otherwise = level.unwrap_or(default).to_owned();
    match asked.map(|text| (text, config::check_level(text))) {
        None => (otherwise, None),
        Some((text, Ok(_))) => (text.to_owned(), None),
        Some((_, Err(error))) => (otherwise, Some(error)),
    }
}

/// What the log says of itself is always logged: lost lines would be silent otherwise.
fn filter(directives: &str) -> EnvFilter {
    // What the client of NATS says of its connection, the carrier says too, and what to do, and of an error that stays not
    // at each attempt. Who names it hears it.
    EnvFilter::new(format!("async_nats=off,{directives},{OWN_TARGET}=info"))
}

/// A panic is a line of the log too, and that is written before the process ends, if it can be written at all.
fn log_panics(queue: Arc<Queue>) {
    panic::set_hook(Box::new(move |panic| {
        let thread = std::thread::current();
        let trace = std::backtrace::Backtrace::capture();
        let thread = thread.name().unwrap_or("unnamed");
        error!(target: OWN_TARGET, thread, "{panic}\n{trace}");
        queue.flush(PATIENCE);
    }));
}

/// Makes lines of events; each comes in one piece.
struct Lines(Arc<Queue>);

impl<'a> MakeWriter<'a> for Lines {
    type Writer = LineWriter<'a>;

    fn make_writer(&'a self) -> LineWriter<'a> {
        LineWriter(&self.0)
    }
}

struct LineWriter<'a>(&'a Queue);

impl Write for LineWriter<'_> {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.0.push(line);
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// What the log says of itself.
struct Reports(Arc<Limit>);

impl Reporter for Reports {
    fn lost(&mut self, lines: u64) {
        warn!(target: OWN_TARGET, lines, "lines of the log were lost: they could not be written in time");
    }

    fn tick(&mut self, now: Instant, is_last: bool) {
        for one in self.0.take_suppressed(now, is_last) {
            let (lines, of, like) = (one.lines, one.of, one.like);
            match one.level {
                tracing::Level::ERROR => {
                    error!(target: OWN_TARGET, lines, of, "{lines} more suppressed: {like}")
                }
                tracing::Level::WARN => {
                    warn!(target: OWN_TARGET, lines, of, "{lines} more suppressed: {like}")
                }
                _ => info!(target: OWN_TARGET, lines, of, "{lines} more suppressed: {like}"),
            }
        }
    }
}

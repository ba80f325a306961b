//! What every daemon of this binary does around its own work: logging, signals, the admin port.

use std::io::IsTerminal;
use std::net::SocketAddrV4;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use counters::Registry;
use net::counters_file::{CountersFile, CountersFileOptions};
use net::{Registrar, Token, Waker};
use serde_json::Value;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::ParseError;

use crate::config::AdminConfig;
use crate::failure::Failure;

/// Sends the log to standard error. `TICKCAST_LOG` chooses what is logged (`warn`, `info`, `p2ps=debug` ...).
pub(crate) fn start_log(default: &str) {
    let asked = std::env::var_os(LOG_VARIABLE);
    let asked = asked.as_ref().map(|text| text.to_string_lossy());
    let (filter, error) = filter(asked.as_deref(), default);
    let is_terminal = std::io::stderr().is_terminal();
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_ansi(is_terminal)
        .with_writer(std::io::stderr)
        .init();
    if let Some(error) = error {
        tracing::warn!(%error, "{LOG_VARIABLE} is not understood: it is logged as without it");
    }
}

/// What is logged, and why it is not what was asked for.
fn filter(asked: Option<&str>, default: &str) -> (EnvFilter, Option<ParseError>) {
    match asked.map(EnvFilter::try_new) {
        None => (EnvFilter::new(default), None),
        Some(Ok(filter)) => (filter, None),
        Some(Err(error)) => (EnvFilter::new(default), Some(error)),
    }
}

/// The variable that chooses what is logged; it is not a key of the configuration.
pub(crate) const LOG_VARIABLE: &str = "TICKCAST_LOG";

/// Tells threads to stop, and wakes those that may be blocked.
#[derive(Clone, Default)]
pub(crate) struct Stop {
    flag: Arc<AtomicBool>,
    wakers: Arc<Mutex<Vec<Waker>>>,
    changed: Arc<Condvar>,
}

/// The token of the waker in every thread's poller; agents use spaces from 1 on.
const WAKER: Token = Token(0);

impl Stop {
    /// What the loops look at.
    pub(crate) fn flag(&self) -> &AtomicBool {
        &self.flag
    }

    /// Whether all is to stop.
    pub(crate) fn is_set(&self) -> bool {
        self.flag.load(Ordering::Acquire)
    }

    /// Waits for so long; returns whether all is to stop.
    pub(crate) fn wait(&self, limit: Duration) -> bool {
        let wakers = self.wakers.lock().unwrap_or_else(PoisonError::into_inner);
        let waiting = self.changed.wait_timeout_while(wakers, limit, |_| !self.is_set());
        drop(waiting);
        self.is_set()
    }

    /// Registers a thread's poller to be woken.
    pub(crate) fn watch(&self, registrar: &Registrar) -> std::io::Result<()> {
        let waker = Waker::new(registrar, WAKER)?;
        self.wakers.lock().unwrap_or_else(PoisonError::into_inner).push(waker);
        Ok(())
    }

    /// Stops all.
    pub(crate) fn stop(&self) {
        self.flag.store(true, Ordering::Release);
        let wakers = self.wakers.lock().unwrap_or_else(PoisonError::into_inner);
        wakers.iter().for_each(Waker::wake);
        self.changed.notify_all();
    }

    /// Stops all on SIGINT or SIGTERM.
    pub(crate) fn on_signals(&self) -> Result<(), Failure> {
        let mut signals = Signals::new([SIGINT, SIGTERM])?;
        let stop = self.clone();
        std::thread::Builder::new().name("signals".to_owned()).spawn(move || {
            if signals.forever().next().is_some() {
                stop.stop();
            }
        })?;
        Ok(())
    }
}

/// Serves health, metrics and status, if a port is configured.
pub(crate) fn start_admin(
    config: &AdminConfig,
    registry: &Registry,
    status: impl Fn() -> Value + Send + Sync + 'static,
) -> Result<(), Failure> {
    if let Some(port) = config.port {
        let address = SocketAddrV4::new(config.interface, port);
        let address = admin::serve(address, registry.clone(), Arc::new(status))?;
        tracing::info!(%address, "admin: /health /metrics /status");
    }
    Ok(())
}

/// Publishes the counters in a file until the result is dropped, if a directory is configured. A daemon whose
/// counters cannot be published does its work all the same.
pub(crate) fn publish_counters(
    config: &AdminConfig,
    registry: &Registry,
    role: &str,
) -> Option<CountersFile> {
    if config.counters_directory.is_empty() {
        return None;
    }
    let options = CountersFileOptions {
        directory: (&config.counters_directory).into(),
        interval: Duration::from_millis(config.counters_interval_ms.into()),
        program: format!("tickcast {role}"),
    };
    CountersFile::publish(registry.clone(), &options)
        .inspect_err(|error| tracing::warn!(%error, "`tickcast counters` will not find this process"))
        .ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_understood_of_the_log_is_told_and_the_default_counts() {
        let of = |asked| {
            let (filter, error) = filter(asked, "warn");
            (filter.to_string(), error.is_some())
        };
        assert_eq!(of(None), ("warn".to_owned(), false));
        assert_eq!(of(Some("p2ps=debug")), ("p2ps=debug".to_owned(), false));
        assert_eq!(of(Some("p2ps=loud")), ("warn".to_owned(), true));
    }
}

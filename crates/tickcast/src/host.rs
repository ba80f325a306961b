//! What every daemon of this binary does around its own work: signals, the admin port, counters in a file.

use std::net::SocketAddrV4;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use counters::Registry;
use net::counters_file::{CountersFile, CountersFileOptions};
use net::{Heartbeat, Registrar, Token, Waker};
use serde_json::Value;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use signal_hook::low_level::emulate_default_handler;

use crate::config::{AdminConfig, ConfigArgs, RootConfig};
use crate::failure::Failure;
use crate::health::{self, Alive};
use crate::log::{self, Log};
use crate::notify;

/// What a daemon begins with: its configuration, its log, its signals.
pub(crate) struct Start {
    pub(crate) config: RootConfig,
    pub(crate) registry: Registry,
    pub(crate) stop: Stop,
    /// Dropped last: what was logged until then is written.
    pub(crate) log: Log,
}

impl Start {
    /// Loads the configuration, starts the log, and takes the signals.
    pub(crate) fn new(args: &ConfigArgs) -> Result<Start, Failure> {
        let config = args.load()?.value;
        let (registry, stop) = (Registry::default(), Stop::default());
        let (log, reload) = log::start(&config.log, "info", &registry)?;
        let (args, started) = (args.clone(), config.clone());
        stop.on_signals(move || reload.reload(&args, &started))?;
        Ok(Start { config, registry, stop, log })
    }
}

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

    /// Lets the pollers rest that [`Stop::stop`] has woken.
    pub(crate) fn calm(&self) {
        let wakers = self.wakers.lock().unwrap_or_else(PoisonError::into_inner);
        wakers.iter().for_each(Waker::acknowledge);
    }

    /// Stops all.
    pub(crate) fn stop(&self) {
        self.flag.store(true, Ordering::Release);
        let wakers = self.wakers.lock().unwrap_or_else(PoisonError::into_inner);
        wakers.iter().for_each(Waker::wake);
        self.changed.notify_all();
    }

    /// Stops all on SIGINT, SIGTERM and SIGHUP; the second of them ends the process at once.
    pub(crate) fn end_on_signals(&self) -> Result<(), Failure> {
        let stop = self.clone();
        self.on_signals(move || stop.stop())
    }

    /// Stops all on SIGINT or SIGTERM; the second of them ends the process at once. Calls `hang_up` on SIGHUP.
    pub(crate) fn on_signals(&self, hang_up: impl Fn() + Send + 'static) -> Result<(), Failure> {
        let mut signals = Signals::new([SIGHUP, SIGINT, SIGTERM])?;
        let stop = self.clone();
        std::thread::Builder::new().name("signals".to_owned()).spawn(move || {
            for signal in signals.forever() {
                match signal {
                    SIGHUP => hang_up(),
                    _ if stop.is_set() => {
                        // It does not come back.
                        let _ = emulate_default_handler(signal);
                    }
                    _ => stop.stop(),
                }
            }
        })?;
        Ok(())
    }
}

/// The daemon serves: tells systemd so, and serves health, metrics and status, if a port is configured.
pub(crate) fn start_admin(
    config: &AdminConfig,
    registry: &Registry,
    stop: &Stop,
    threads: Vec<(&'static str, Heartbeat)>,
    status: impl Fn() -> Value + Send + Sync + 'static,
) -> Result<(), Failure> {
    let alive = Alive::new(threads, Duration::from_millis(config.turn_limit_ms.into()));
    if let Some(port) = config.port {
        let address = SocketAddrV4::new(config.interface, port);
        let (alive, status) = (alive.clone(), Arc::new(status));
        let (described, ending) = (status.clone(), stop.clone());
        let daemon = admin::Daemon {
            status,
            health: Arc::new(move || alive.stuck()),
            ready: Arc::new(move || health::not_ready(ending.is_set(), || described())),
        };
        let address = admin::serve(address, registry.clone(), daemon)?;
        tracing::info!(%address, "admin: /health /ready /metrics /status");
    }
    if let Err(error) = notify::start(alive, stop) {
        tracing::warn!(%error, "systemd cannot be told that the daemon is ready (NOTIFY_SOCKET)");
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

//! What every daemon of this binary does around its own work: signals, the admin port, counters in a file.

use std::net::SocketAddrV4;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError, mpsc};
use std::time::{Duration, Instant};

use config::Loaded;
use counters::Registry;
use daemon::{DaemonThread, Described, StatusError, Wish};
use net::counters_file::{CountersFile, CountersFileOptions};
use net::{Registrar, Token, Waker, clock};
use serde_json::{Value, json};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use signal_hook::low_level::emulate_default_handler;

use crate::admin::{self, NoStatus, Orders};
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
    /// Loads the configuration, starts the log, and takes the signals. `section` is what a daemon is configured by.
    pub(crate) fn new(args: &ConfigArgs, section: &str) -> Result<Start, Failure> {
        let Loaded { value: config, origins } = args.load()?;
        let (registry, stop) = (Registry::default(), Stop::default());
        let (log, reload) = log::start(&config.log, "info", &registry)?;
        stop.end_overdue(config.longest_end(section) + GRACE, log.flusher())?;
        let (source, started) = (args.clone(), config.clone());
        stop.on_signals(move || reload.reload(&source, &started))?;
        if let Some(file) = &args.config
            && !origins.iter().any(|(key, _)| is_of_section(key, section))
        {
            let file = file.display();
            tracing::warn!(
                "{file} has nothing in [{section}], which configures this daemon: all of it is as by default"
            );
        }
        Ok(Start { config, registry, stop, log })
    }
}

fn is_of_section(key: &str, section: &str) -> bool {
    key.strip_prefix(section).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

/// A port that cannot be had: the keys that choose it.
pub(crate) fn name_port(config: &RootConfig, failure: Failure) -> Failure {
    let Failure::Io(error) = &failure else { return failure };
    let (distributor, p2ps) = (&config.source_distributor, &config.p2ps);
    let ports = [
        ("source_distributor.provider_port", distributor.provider_port),
        ("source_distributor.provider.tls.port", distributor.provider.tls.as_ref().map_or(0, |tls| tls.port)),
        ("p2ps.rssl_port", p2ps.rssl_port),
        ("p2ps.rssl.tls.port", p2ps.rssl.tls.as_ref().map_or(0, |tls| tls.port)),
        ("p2ps.websocket_port", p2ps.websocket_port),
        ("p2ps.websocket.tls.port", p2ps.websocket.tls.as_ref().map_or(0, |tls| tls.port)),
        ("admin.port", config.admin.port.unwrap_or(0)),
        ("resolver.port", config.resolver.port),
    ];
    let text = error.to_string();
    let is_meant = |port: u16| port != 0 && text.contains(&format!(":{port}: "));
    let keys: Vec<&str> = ports.iter().filter(|(_, port)| is_meant(*port)).map(|(key, _)| *key).collect();
    match keys[..] {
        [] => failure,
        _ => Failure::Run(format!(
            "{text}\n{} chooses the port; --set KEY=PORT takes another one",
            keys.join(" or ")
        )),
    }
}

/// Tells threads to stop, and wakes those that may be blocked.
#[derive(Clone, Default)]
pub(crate) struct Stop {
    flag: Arc<AtomicBool>,
    /// A signal or an operator wanted it: nothing has failed.
    is_wanted: Arc<AtomicBool>,
    wakers: Arc<Mutex<Vec<Waker>>>,
    changed: Arc<Condvar>,
    /// Done before anything ends.
    last_words: Arc<Mutex<Option<LastWords>>>,
}

type LastWords = Box<dyn FnOnce() + Send>;

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

    /// Says something before all stops. It must not wait for anybody.
    pub(crate) fn say_before(&self, say: impl FnOnce() + Send + 'static) {
        *self.last_words.lock().unwrap_or_else(PoisonError::into_inner) = Some(Box::new(say));
    }

    /// Stops all because somebody wants it: there is time to move clients on.
    pub(crate) fn stop_as_wanted(&self) {
        self.is_wanted.store(true, Ordering::Release);
        self.stop();
    }

    /// Whether all is to stop because somebody wants it; otherwise a part of the process has failed.
    pub(crate) fn is_wanted(&self) -> bool {
        self.is_wanted.load(Ordering::Acquire)
    }

    /// Stops all.
    pub(crate) fn stop(&self) {
        let last_words = self.last_words.lock().unwrap_or_else(PoisonError::into_inner).take();
        last_words.into_iter().for_each(|say| say());
        // Who sees the flag and calms the pollers waits until all are woken: none is left awake.
        let wakers = self.wakers.lock().unwrap_or_else(PoisonError::into_inner);
        self.flag.store(true, Ordering::Release);
        wakers.iter().for_each(Waker::wake);
        self.changed.notify_all();
    }

    /// Stops all on SIGINT, SIGTERM and SIGHUP; the second of them ends the process at once.
    pub(crate) fn end_on_signals(&self) -> Result<(), Failure> {
        let stop = self.clone();
        self.on_signals(move || stop.stop())
    }

    /// Stops all on SIGINT or SIGTERM; the second of them ends the process at once. Calls `hang_up` on SIGHUP, on a
    /// thread of its own: it may read files, and a file system may stall.
    pub(crate) fn on_signals(&self, hang_up: impl Fn() + Send + 'static) -> Result<(), Failure> {
        let mut signals = Signals::new([SIGHUP, SIGINT, SIGTERM])?;
        let (hung_up, hang_ups) = mpsc::sync_channel(1);
        std::thread::Builder::new().name("reload".to_owned()).spawn(move || {
            for () in hang_ups {
                hang_up();
            }
        })?;
        let stop = self.clone();
        std::thread::Builder::new().name("signals".to_owned()).spawn(move || {
            for signal in signals.forever() {
                match signal {
                    SIGHUP => {
                        // One that waits for its turn stands for those behind it.
                        let _ = hung_up.try_send(());
                    }
                    _ if stop.is_set() => {
                        // It does not come back.
                        let _ = emulate_default_handler(signal);
                    }
                    _ => stop.stop_as_wanted(),
                }
            }
        })?;
        Ok(())
    }
}

impl Stop {
    /// Ends the process with status 1 if it is still there so long after all was to stop: a thread hangs, at a file
    /// system that stalls for example. `flush` is called before, and may wait for a moment.
    fn end_overdue(&self, patience: Duration, flush: impl Fn() + Send + 'static) -> Result<(), Failure> {
        let stop = self.clone();
        std::thread::Builder::new().name("overdue".to_owned()).spawn(move || {
            while !stop.wait(LONG) {}
            std::thread::sleep(patience);
            let seconds = patience.as_secs();
            tracing::error!(seconds, "a thread hangs and holds up the end: the process is ended without it");
            flush();
            signal_hook::low_level::exit(1);
        })?;
        Ok(())
    }
}

/// What the end of a daemon may take beyond the time that its clients have: to give back memory, for the most part.
const GRACE: Duration = Duration::from_secs(20);
/// Between two looks at what nobody waits for.
const LONG: Duration = Duration::from_secs(3600);

/// The daemon serves: tells systemd so, and serves health, metrics and status, if a port is configured. `longest_end` is how
/// long its end takes at most, if clients are moved on before.
pub(crate) fn start_admin(
    config: &AdminConfig,
    registry: &Registry,
    stop: &Stop,
    described: &Described,
    longest_end: Option<Duration>,
) -> Result<(), Failure> {
    let threads = described.threads();
    for DaemonThread { name, load, .. } in &threads {
        registry.register_optional(&[("thread", name)], load.clone());
    }
    let hearts = threads.iter().map(|thread| (thread.name.clone(), thread.heartbeat.clone())).collect();
    let alive = Alive::new(hearts, Duration::from_millis(config.turn_limit_ms.into()));
    if let Some(port) = config.port {
        let address = SocketAddrV4::new(config.interface, port);
        let (alive, ending) = (alive.clone(), stop.clone());
        let (to_describe, to_be_ready) = (described.clone(), described.clone());
        let (to_order, of_ledger, of_trace) = (described.clone(), described.clone(), described.clone());
        let process = Process {
            threads,
            started_at: Instant::now(),
            disconnects: config.allows_disconnects(),
            images: config.shows_images(),
        };
        let is_open = process.disconnects && !config.interface.is_loopback();
        let daemon = admin::Daemon {
            orders: process.disconnects.then(|| orders(to_order, stop.clone())),
            status: Arc::new(move |query| {
                let described = to_describe.ask(query).map(|described| process.describe_with(described));
                described.map_err(no_status)
            }),
            ledger: Arc::new(move |query| match query {
                "" => of_ledger.ledger().map_err(no_status),
                _ => Err(NoStatus::Refused("/ledger has no parameters".to_owned())),
            }),
            trace: Arc::new(move |query| of_trace.trace(query).map_err(no_status)),
            health: Arc::new(move || alive.stuck()),
            ready: Arc::new(move || {
                health::not_ready(ending.is_set(), || to_be_ready.ask("").unwrap_or_default())
            }),
        };
        let address = admin::serve(address, registry.clone(), daemon)?;
        tracing::info!(%address, "admin: /health /ready /metrics /status /ledger /trace");
        if is_open {
            tracing::warn!(%address, "admin.disconnects: who reaches this port may disconnect and move on clients");
        }
    }
    if let Err(error) = notify::start(alive, stop, longest_end) {
        tracing::warn!(%error, "systemd cannot be told that the daemon is ready (NOTIFY_SOCKET)");
    }
    Ok(())
}

/// What carries out what operators want of a daemon.
fn orders(described: Described, stop: Stop) -> Orders {
    let to_order = described.clone();
    // How often a drain was taken back, and the number of those before the drain whose end is waited for, plus one.
    let (taken_back, awaited) = (Arc::new(AtomicU64::new(0)), AtomicU64::new(0));
    let counted = Arc::clone(&taken_back);
    Orders {
        carry_out: Arc::new(move |order| {
            let carried_out = to_order.order(order.clone());
            if order.wish == Wish::Undrain && carried_out.is_ok() {
                counted.fetch_add(1, Ordering::AcqRel);
            }
            carried_out
        }),
        end_when_drained: Arc::new(move || {
            let drain = taken_back.load(Ordering::Acquire);
            if awaited.swap(drain + 1, Ordering::AcqRel) == drain + 1 {
                return;
            }
            tracing::info!("the daemon ends when it is drained");
            let (described, stop, taken_back) = (described.clone(), stop.clone(), Arc::clone(&taken_back));
            let wait = move || {
                net::affinity::step_aside();
                end_when_drained(&described, &stop, || taken_back.load(Ordering::Acquire) != drain);
            };
            if let Err(error) = std::thread::Builder::new().name("drain".to_owned()).spawn(wait) {
                tracing::error!(%error, "the daemon will not end when it is drained: end it then");
            }
        }),
    }
}

/// How often it is looked whether a daemon is drained that is to end then.
const LOOK_AGAIN: Duration = Duration::from_millis(250);

/// Ends a daemon when it is drained, unless that is taken back. It may be drained again by the time that this looks.
fn end_when_drained(described: &Described, stop: &Stop, is_taken_back: impl Fn() -> bool) {
    while !stop.wait(LOOK_AGAIN) && !is_taken_back() {
        // One that is busy is asked again.
        let status = described.ask("").unwrap_or_default();
        match health::drain_of(&status).and_then(|drain| drain["state"].as_str()) {
            Some("drained") => stop.stop_as_wanted(),
            Some("serving") => return,
            _ => {}
        }
    }
}

/// What of a process its roles do not know.
struct Process {
    threads: Vec<DaemonThread>,
    started_at: Instant,
    disconnects: bool,
    images: bool,
}

/// What stands in place of an image that is not shown.
const HIDDEN: &str = "not shown here: admin.images = true shows it";

impl Process {
    /// Adds it to a description, if there is one.
    fn describe_with(&self, mut described: Value) -> Value {
        if !self.images {
            hide_image(&mut described);
        }
        if let Value::Object(described) = &mut described {
            described.insert("process".to_owned(), self.describe());
        }
        described
    }

    fn describe(&self) -> Value {
        let thread = |DaemonThread { name, heartbeat, load }: &DaemonThread| {
            json!({
                "name": name, "turns": load.turns.get(), "working_ns": load.working_ns.get(),
                "waiting_ns": load.waiting_ns.get(), "silent_ms": heartbeat.silence().as_millis() as u64,
            })
        };
        json!({
            "version": env!("CARGO_PKG_VERSION"), "pid": std::process::id(),
            "uptime_ms": self.started_at.elapsed().as_millis() as u64, "monotonic_ns": clock::monotonic().0,
            "disconnects": self.disconnects, "threads": self.threads.iter().map(thread).collect::<Vec<Value>>(),
        })
    }
}

/// Takes the image out of a description of one role, or of several.
fn hide_image(described: &mut Value) {
    let Value::Object(parts) = described else { return };
    if let Some(Value::Object(item)) = parts.get_mut("item") {
        item.insert("image".to_owned(), json!(HIDDEN));
    }
    if !parts.contains_key("role") {
        parts.values_mut().for_each(hide_image);
    }
}

fn no_status(error: StatusError) -> NoStatus {
    match error {
        StatusError::Query(_) | StatusError::NoLedger | StatusError::NoTrace => {
            NoStatus::Refused(error.to_string())
        }
        error => NoStatus::Busy(error.to_string()),
    }
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
    use std::io;

    use signal_hook::low_level::raise;

    use super::*;

    #[test]
    fn a_port_that_cannot_be_had_comes_with_the_keys_that_choose_it() {
        let config = RootConfig::default();
        let said =
            |text: &str| name_port(&config, Failure::Io(io::Error::other(text.to_owned()))).to_string();
        let taken = said("cannot listen on 0.0.0.0:14002: Address already in use");
        assert!(taken.contains("14002: Address already in use\np2ps.rssl_port chooses the port"), "{taken}");
        let other = said("cannot listen on 0.0.0.0:1400: Address already in use");
        assert!(!other.contains("chooses"), "{other}");
    }

    fn process(config: &AdminConfig) -> Process {
        let (disconnects, images) = (config.allows_disconnects(), config.shows_images());
        let threads = vec![DaemonThread::new("p2ps", net::Heartbeat::default())];
        Process { threads, started_at: Instant::now(), disconnects, images }
    }

    #[test]
    fn what_changes_or_shows_more_is_open_on_loopback_alone_unless_it_is_said() {
        let local = AdminConfig::default();
        let wide = AdminConfig { interface: std::net::Ipv4Addr::UNSPECIFIED, ..AdminConfig::default() };
        let open = AdminConfig { disconnects: Some(true), images: Some(true), ..wide.clone() };
        let shut = AdminConfig { disconnects: Some(false), images: Some(false), ..local.clone() };
        let may = |config: &AdminConfig| (config.allows_disconnects(), config.shows_images());
        assert_eq!(
            [local, wide, open, shut].map(|config| may(&config)),
            [(true, true), (false, false), (true, true), (false, false)]
        );
    }

    #[test]
    fn a_description_has_the_process_and_an_image_only_where_it_may_be_shown() {
        let wide = AdminConfig { interface: std::net::Ipv4Addr::UNSPECIFIED, ..AdminConfig::default() };
        let p2ps = json!({"role": "p2ps", "item": {"name": "X", "image": ["BID: 1"]}});
        let shown = process(&AdminConfig::default()).describe_with(p2ps.clone());
        assert_eq!(
            (&shown["item"], &shown["process"]["threads"][0]["name"]),
            (&p2ps["item"], &json!("p2ps"))
        );
        let demo = json!({"source_distributor": {"role": "source-distributor"}, "p2ps": p2ps});
        for hidden in
            [process(&wide).describe_with(p2ps.clone()), process(&wide).describe_with(demo)["p2ps"].clone()]
        {
            assert_eq!(hidden["item"], json!({"name": "X", "image": HIDDEN}));
        }
        assert_eq!(process(&wide).describe_with(Value::Null), Value::Null, "it has not described itself yet");
    }

    fn p2ps(state: &'static str) -> Described {
        let status = move |_: &str| Ok(json!({"role": "p2ps", "drain": {"state": state}}));
        Described::new(Vec::new(), status, |_| Err(daemon::OrderError::Busy))
    }

    #[test]
    fn a_daemon_ends_when_it_is_drained_and_not_if_that_is_taken_back() {
        let stop = Stop::default();
        end_when_drained(&p2ps("serving"), &stop, || false);
        assert!(!stop.is_set());
        // Another drain, to which nobody has said that the daemon is to end.
        end_when_drained(&p2ps("drained"), &stop, || true);
        assert!(!stop.is_set());
        end_when_drained(&p2ps("drained"), &stop, || false);
        assert!(stop.is_set() && stop.is_wanted());
        // It ends by other ways.
        let failed = Stop::default();
        failed.stop();
        end_when_drained(&p2ps("draining"), &failed, || false);
        assert!(!failed.is_wanted(), "nobody is moved on where a part has failed");
    }

    #[test]
    fn keys_are_of_the_section_whose_whole_name_they_begin_with() {
        assert!(is_of_section("p2ps", "p2ps") && is_of_section("p2ps.rssl_port", "p2ps"));
        assert!(!is_of_section("p2psx.rssl_port", "p2ps") && !is_of_section("admin.port", "p2ps"));
    }

    /// A configuration on a file system that stalls keeps who reads it waiting for good.
    #[test]
    fn a_reload_that_never_ends_does_not_keep_sigterm_from_ending_all() {
        let (stop, (began, begins)) = (Stop::default(), mpsc::channel());
        let hang = move || {
            // Who looked on has failed then.
            let _ = began.send(());
            loop {
                std::thread::park();
            }
        };
        stop.on_signals(hang).expect("threads and descriptors are left");
        raise(SIGHUP).expect("a legal signal");
        begins.recv_timeout(LONG).expect("it is called");
        for _ in 0..3 {
            raise(SIGHUP).expect("a legal signal");
        }
        raise(SIGTERM).expect("a legal signal");
        assert!(stop.wait(LONG) && stop.is_wanted());
    }
}

//! The daemons' threads: the same whether they have a process to themselves or share one.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use backbone::inprocess::{Hub, InProcessInlet, InProcessOutlet};
use backbone::multicast::{MulticastInlet, MulticastOutlet};
use backbone::nats::{NatsCounters, NatsInlet, NatsOutlet};
use backbone::{BackboneCarrier, BackboneConfig, Inlet, Outlet};
use counters::Registry;
use daemon::{Described, Status, ThreadConfig, WaitConfig};
use messaging::ContextCounters;
use net::{Poller, Token, clock};
use p2ps::{PointToPointServer, RelayServer, Shard, Shards};
use resolver_daemon::{ResolverDaemon, ResolverDaemonConfig};
use rwf::Dictionary;
use source_distributor::{Providers, SavedImagesConfig, SourceDistributor, SourceDistributorConfig};
use tracing::warn;
use units::Nanos;

use crate::config::RootConfig;
use crate::failure::Failure;
use crate::host::Stop;

/// What carries the backbone.
#[derive(Clone)]
pub(crate) enum Carrier {
    Multicast,
    Nats,
    InProcess(Hub),
}

impl Carrier {
    /// The one that a daemon's configuration chooses.
    pub(crate) fn of(config: &BackboneConfig) -> Carrier {
        match config.carrier {
            BackboneCarrier::Multicast => Carrier::Multicast,
            BackboneCarrier::Nats => Carrier::Nats,
        }
    }
}

/// What a role needs beside its part of the configuration.
pub(crate) struct Surroundings<'a> {
    pub(crate) config: &'a RootConfig,
    pub(crate) dictionary: Arc<Dictionary>,
    pub(crate) carrier: Carrier,
    pub(crate) registry: &'a Registry,
    pub(crate) stop: &'a Stop,
}

/// Upper half of the tokens of a role's listener; its carrier has the one behind it.
const LISTENER: u32 = 1;
const CARRIER: u32 = LISTENER + 1;
const CARRIER_WAKER: Token = Token((CARRIER as u64) << 32);

/// Runs a source distributor on the calling thread until it is stopped. `ready` is called when its port is
/// open.
pub(crate) fn source_distributor(
    role: &Surroundings<'_>,
    ready: impl FnOnce(Described) -> Result<(), Failure>,
) -> Result<(), Failure> {
    carried(role, Providers::ConnectToo, ready)
}

fn carried(
    role: &Surroundings<'_>,
    providers: Providers,
    ready: impl FnOnce(Described) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let thread = &role.config.source_distributor.thread;
    let poller = enter(thread, role.stop)?;
    match &role.carrier {
        Carrier::Multicast => {
            let counters = context_counters(role.registry, "source_distributor");
            let (registrar, config) = (poller.registrar(), &role.config.backbone_context());
            let (seed, now) = (clock::seed(), clock::monotonic());
            check_window(role.config);
            let outlet = MulticastOutlet::new(config, registrar, CARRIER, seed, now, counters)?;
            distribute(role, providers, poller, outlet, ready)
        }
        Carrier::Nats => {
            let counters = NatsCounters::registered(role.registry, &[("role", "source_distributor")]);
            let (config, at) = (&role.config.backbone.nats, (poller.registrar(), CARRIER_WAKER));
            let outlet = NatsOutlet::new(config, at, spins(thread), clock::seed(), counters)?;
            distribute(role, providers, poller, outlet, ready)
        }
        Carrier::InProcess(hub) => {
            let outlet = InProcessOutlet::new(hub, poller.registrar(), CARRIER_WAKER, spins(thread))?;
            distribute(role, providers, poller, outlet, ready)
        }
    }
}

/// What a P2PS lacks and is waited for has to be in the transmission window still.
fn check_window(config: &RootConfig) {
    let window = config.source_distributor.flow.window_bytes;
    let retransmittable = config.messaging.lbtrm.transmission_window_size_bytes;
    if window > retransmittable / 4 {
        warn!(
            window,
            retransmittable,
            "source_distributor.flow.window_bytes is more than a quarter of messaging.lbtrm.transmission_window_size_bytes: a P2PS may lose messages before providers are held back"
        );
    }
}

fn distribute(
    role: &Surroundings<'_>,
    providers: Providers,
    mut poller: Poller,
    outlet: impl Outlet,
    ready: impl FnOnce(Described) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let (config, registrar) = (&role.config.source_distributor, poller.registrar());
    let (dictionary, seed) = (Arc::clone(&role.dictionary), clock::seed());
    let (tokens, registry) = ((registrar, LISTENER), role.registry);
    let mut distributor =
        SourceDistributor::new(config, providers, dictionary, outlet, tokens, seed, registry)?;
    ready(Described::with_ledger("source-distributor", distributor.status()))?;
    let status = distributor.status();
    let agents: &mut [&mut dyn net::agent::Agent] = &mut [&mut distributor];
    net::agent::run_counted(&mut poller, config.thread.strategy(), agents, role.stop.flag(), status.load())?;
    let until = begin_end(role.stop, config.shutdown_timeout_ms);
    distributor.begin_end(clock::monotonic(), until);
    net::agent::finish(&mut poller, &mut [&mut distributor], until)?;
    distributor.end(clock::monotonic());
    Ok(())
}

/// Runs a point-to-point server on the calling thread until it is stopped. `ready` is called when its port is
/// open.
pub(crate) fn p2ps(
    role: &Surroundings<'_>,
    ready: impl FnOnce(Described) -> Result<(), Failure>,
) -> Result<(), Failure> {
    if role.config.p2ps.upstream.is_empty() { fed(role, ready) } else { fed_by_upstream(role, ready) }
}

/// A point-to-point server that other servers feed: a source distributor on a thread of its own dials them, and memory
/// is the backbone.
fn fed_by_upstream(
    role: &Surroundings<'_>,
    ready: impl FnOnce(Described) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let others = role.config.source_distributor.interactive.len();
    if others > 0 {
        warn!(
            others,
            "source_distributor.interactive is for source distributors: of a P2PS only p2ps.upstream is dialled"
        );
    }
    let interactive = role.config.p2ps.upstream.clone();
    let source_distributor = SourceDistributorConfig {
        interactive,
        services_without_cache: role.config.p2ps.services_without_cache.clone(),
        // All that it has is asked for: there is nothing to be kept for the next run.
        saved_images: SavedImagesConfig::default(),
        ..role.config.source_distributor.clone()
    };
    let config = RootConfig { source_distributor, ..role.config.clone() };
    let carrier = Carrier::InProcess(Hub::new());
    let within = || Surroundings {
        config: &config,
        dictionary: Arc::clone(&role.dictionary),
        carrier: carrier.clone(),
        registry: role.registry,
        stop: role.stop,
    };
    // The source distributor ends behind the server, which may move its clients on for a while.
    let feeding = Stop::default();
    std::thread::scope(|scope| {
        // However this ends, the source distributor is not left.
        let stop_all = (StopAll(role.stop), StopAll(&feeding));
        let (sender, opened) = mpsc::channel();
        let upstream = Surroundings { stop: &feeding, ..within() };
        let run = move || {
            // Nor is the server, which would wait for it.
            let _stop_all = StopAll(role.stop);
            carried(&upstream, Providers::Dialled, |described| {
                _ = sender.send(described);
                Ok(())
            })
        };
        let thread = std::thread::Builder::new().name("p2ps-upstream".to_owned());
        let thread = thread.spawn_scoped(scope, run)?;
        // One that cannot begin has dropped the sender, and says why when it is joined.
        let served = match opened.recv() {
            Ok(upstream) => {
                fed(&within(), |described| ready(p2ps::describe_with_upstream(described, upstream)))
            }
            Err(mpsc::RecvError) => Ok(()),
        };
        drop(stop_all);
        let panicked = |_| Err(Failure::Run("the source distributor has panicked; see above".to_owned()));
        thread.join().unwrap_or_else(panicked).and(served)
    })
}

fn fed(role: &Surroundings<'_>, ready: impl FnOnce(Described) -> Result<(), Failure>) -> Result<(), Failure> {
    let thread = &role.config.p2ps.thread;
    // What feeds shards ends behind them, and not before all clients are gone.
    let feeding = Stop::default();
    let has_shards = role.config.p2ps.shard_count() > 1;
    let poller = enter(thread, if has_shards { &feeding } else { role.stop })?;
    match &role.carrier {
        Carrier::Multicast => {
            let counters = context_counters(role.registry, "p2ps");
            let (registrar, config) = (poller.registrar(), &role.config.p2ps_context());
            let (seed, now) = (clock::seed(), clock::monotonic());
            let inlet = MulticastInlet::new(config, registrar, CARRIER, seed, now, counters)?;
            serve(role, &feeding, poller, inlet, ready)
        }
        Carrier::Nats => {
            let counters = NatsCounters::registered(role.registry, &[("role", "p2ps")]);
            let (config, at) = (&role.config.backbone.nats, (poller.registrar(), CARRIER_WAKER));
            let inlet = NatsInlet::new(config, at, spins(thread), clock::seed(), counters)?;
            serve(role, &feeding, poller, inlet, ready)
        }
        Carrier::InProcess(hub) => {
            let inlet = InProcessInlet::new(hub, poller.registrar(), CARRIER_WAKER, spins(thread))?;
            serve(role, &feeding, poller, inlet, ready)
        }
    }
}

/// Upper half of the tokens of a relay's carrier to shards.
const SHARDS_CARRIER: u32 = CARRIER + 1;

fn serve(
    role: &Surroundings<'_>,
    feeding: &Stop,
    poller: Poller,
    inlet: impl Inlet,
    ready: impl FnOnce(Described) -> Result<(), Failure>,
) -> Result<(), Failure> {
    if role.config.p2ps.shard_count() > 1 {
        return serve_by_shards(role, feeding, poller, inlet, ready);
    }
    serve_alone(role, poller, inlet, ready)
}

/// A relay on the calling thread, until `feeding` stops, and each shard on one of its own.
fn serve_by_shards(
    role: &Surroundings<'_>,
    feeding: &Stop,
    mut poller: Poller,
    inlet: impl Inlet,
    ready: impl FnOnce(Described) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let config = &role.config.p2ps;
    let (memory, waker) = (Hub::new(), Token(u64::from(SHARDS_CARRIER) << 32));
    let outlet = InProcessOutlet::new(&memory, poller.registrar(), waker, spins(&config.thread))?;
    let dictionary = Arc::clone(&role.dictionary);
    let (inlet, outlet) = ((inlet, CARRIER), (outlet, SHARDS_CARRIER));
    let mut relay = RelayServer::new(config, dictionary, inlet, outlet, clock::seed(), role.registry);
    let shards = Shards::new(config);
    let crowd = Crowd::new(config.shard_count(), feeding);
    std::thread::scope(|scope| {
        // However this ends, no shard is left.
        let stop_all = StopAll(role.stop);
        let (mut statuses, mut threads) = (Vec::new(), Vec::new());
        // The first one opens the ports: when all are there, and the relay is about to know what they serve.
        for number in (0..config.shard_count()).rev() {
            let (shard, memory) = (shards.shard(number), memory.clone());
            let (sender, opened) = mpsc::channel();
            let crowd = &crowd;
            let run = move || {
                let ending = (StopAll(role.stop), crowd.member());
                let ended =
                    serve_shard(role, &shard, number, &memory, crowd, |status| _ = sender.send(status));
                drop(ending);
                ended
            };
            let thread = std::thread::Builder::new().name(format!("p2ps-shard-{number}"));
            threads.push(thread.spawn_scoped(scope, run)?);
            // One that cannot begin has dropped the sender, and says why when it is joined.
            let Ok(status) = opened.recv() else { break };
            statuses.push(status);
        }
        statuses.reverse();
        let served = if statuses.len() == threads.len() {
            ready(p2ps::describe_as_one(relay.status(), statuses)).and_then(|()| {
                let (strategy, status) = (config.thread.strategy(), relay.status());
                let agents: &mut [&mut dyn net::agent::Agent] = &mut [&mut relay];
                net::agent::run_counted(&mut poller, strategy, agents, feeding.flag(), status.load())?;
                Ok(())
            })
        } else {
            Ok(())
        };
        drop(stop_all);
        let panicked = |_| Err(Failure::Run("a shard has panicked; see above".to_owned()));
        let ended: Vec<_> =
            threads.into_iter().map(|thread| thread.join().unwrap_or_else(panicked)).collect();
        relay.end(clock::monotonic());
        ended.into_iter().collect::<Result<(), Failure>>().and(served)
    })
}

/// The threads that serve the clients of one server. None leaves before the clients of all are moved on: what feeds them
/// goes on until then, and each thread that does not turn would be missed.
struct Crowd<'a> {
    /// So many have clients to be moved on.
    draining: AtomicU32,
    /// So many have not ended.
    serving: AtomicU32,
    /// The end was announced.
    is_announced: AtomicBool,
    feeding: &'a Stop,
}

impl<'a> Crowd<'a> {
    fn new(threads: u32, feeding: &'a Stop) -> Crowd<'a> {
        let (draining, serving) = (AtomicU32::new(threads), AtomicU32::new(threads));
        Crowd { draining, serving, is_announced: AtomicBool::new(false), feeding }
    }

    /// One of them, until the result is dropped.
    fn member(&self) -> Member<'_> {
        Member(self)
    }
}

/// One of a crowd's threads; the last one stops what feeds them.
struct Member<'a>(&'a Crowd<'a>);

impl Drop for Member<'_> {
    fn drop(&mut self) {
        if self.0.serving.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.0.feeding.stop();
        }
    }
}

/// Moves a server's clients on, if that is configured and no part of the process has failed, while everything goes on as
/// before; then ends it.
fn end_server<I: Inlet>(
    role: &Surroundings<'_>,
    thread: &ThreadConfig,
    poller: &mut Poller,
    server: &mut PointToPointServer<I>,
    crowd: &Crowd<'_>,
) -> Result<(), Failure> {
    role.stop.calm();
    let (config, status) = (&role.config.p2ps, server.status());
    if config.drain_ms > 0 && role.stop.is_wanted() {
        let until = server.drain_to_end(clock::monotonic());
        let is_done = Cell::new(false);
        let leave = || {
            if !is_done.replace(true) {
                crowd.draining.fetch_sub(1, Ordering::AcqRel);
            }
        };
        let strategy = thread.strategy();
        net::agent::run_while(poller, strategy, &mut [server], until, status.load(), |agents| {
            if agents.iter().all(|agent| agent.has_ended()) {
                leave();
            }
            crowd.draining.load(Ordering::Acquire) > 0
        })?;
        leave();
    }
    if !crowd.is_announced.swap(true, Ordering::AcqRel) {
        tracing::info!(timeout_ms = config.shutdown_timeout_ms, "shutting down");
    }
    let until = clock::monotonic() + Duration::from_millis(config.shutdown_timeout_ms.into());
    server.end(until);
    net::agent::finish(poller, &mut [server], until)?;
    Ok(())
}

/// Stops all when it is dropped.
struct StopAll<'a>(&'a Stop);

impl Drop for StopAll<'_> {
    fn drop(&mut self) {
        if !self.0.is_set() {
            self.0.stop();
        }
    }
}

fn serve_shard(
    role: &Surroundings<'_>,
    shard: &Shard,
    number: u32,
    memory: &Hub,
    crowd: &Crowd<'_>,
    ready: impl FnOnce(Status),
) -> Result<(), Failure> {
    // Before all lines of its thread: clients are numbered by each shard.
    let _shard = tracing::error_span!("shard", number).entered();
    let config = &role.config.p2ps;
    let cpu = config.shard_cpus.get(number as usize).copied();
    let thread = ThreadConfig { cpu, ..config.thread.clone() };
    let mut poller = enter(&thread, role.stop)?;
    let inlet = InProcessInlet::new(memory, poller.registrar(), CARRIER_WAKER, spins(&thread))?;
    let (dictionary, seed) = (Arc::clone(&role.dictionary), clock::seed());
    let mut server = PointToPointServer::of_shard(
        shard,
        dictionary,
        inlet,
        poller.registrar(),
        LISTENER,
        seed,
        role.registry,
    )?;
    ready(server.status());
    let status = server.status();
    let agents: &mut [&mut dyn net::agent::Agent] = &mut [&mut server];
    net::agent::run_counted(&mut poller, thread.strategy(), agents, role.stop.flag(), status.load())?;
    end_server(role, &thread, &mut poller, &mut server, crowd)
}

fn serve_alone(
    role: &Surroundings<'_>,
    mut poller: Poller,
    inlet: impl Inlet,
    ready: impl FnOnce(Described) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let (config, registrar) = (&role.config.p2ps, poller.registrar());
    let (dictionary, seed) = (Arc::clone(&role.dictionary), clock::seed());
    let mut server =
        PointToPointServer::new(config, dictionary, inlet, registrar, LISTENER, seed, role.registry)?;
    ready(p2ps::describe_alone("p2ps", server.status()))?;
    let status = server.status();
    let agents: &mut [&mut dyn net::agent::Agent] = &mut [&mut server];
    net::agent::run_counted(&mut poller, config.thread.strategy(), agents, role.stop.flag(), status.load())?;
    let feeding = Stop::default();
    end_server(role, &config.thread, &mut poller, &mut server, &Crowd::new(1, &feeding))
}

/// When a role that is stopped has to have ended.
fn begin_end(stop: &Stop, timeout_ms: u32) -> Nanos {
    tracing::info!(timeout_ms, "shutting down");
    stop.calm();
    clock::monotonic() + Duration::from_millis(timeout_ms.into())
}

/// Runs a unicast resolver on the calling thread until it is stopped. `ready` is called when its port is open.
pub(crate) fn resolver(
    config: &ResolverDaemonConfig,
    registry: &Registry,
    stop: &Stop,
    ready: impl FnOnce(Described) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let mut poller = enter(&config.thread, stop)?;
    let mut daemon = ResolverDaemon::new(config, poller.registrar(), LISTENER, clock::monotonic(), registry)?;
    ready(Described::of("resolver", daemon.status()))?;
    let status = daemon.status();
    let agents: &mut [&mut dyn net::agent::Agent] = &mut [&mut daemon];
    net::agent::run_counted(&mut poller, config.thread.strategy(), agents, stop.flag(), status.load())?;
    Ok(())
}

fn enter(thread: &ThreadConfig, stop: &Stop) -> Result<Poller, Failure> {
    thread.enter()?;
    let descriptors_max = net::descriptors::raise_limit()?;
    tracing::debug!(descriptors_max, "connections may be as many, less what the process needs besides");
    let poller = Poller::new()?;
    stop.watch(poller.registrar())?;
    Ok(poller)
}

fn spins(thread: &ThreadConfig) -> bool {
    thread.wait == WaitConfig::Spin
}

/// What a messaging context counts, shown under the role it belongs to.
fn context_counters(registry: &Registry, role: &str) -> ContextCounters {
    ContextCounters::registered(registry, &[("role", role)])
}

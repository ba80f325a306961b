use std::collections::{BTreeMap, HashMap, VecDeque};
use std::io;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::sync::Arc;

use counters::table::{
    LbmDelivery, LbmSource, LbmrResolver, LbtrmReceiver, LbtrmSource, LbtruReceiver, LbtruSource,
    LbttcpReceiver, LbttcpSource,
};
use counters::{Counter, Registry, Roll};
use lbt::authentication::Keys;
use lbt::resolution::{QueryId, TransportSession};
use lbt::wire::lbmc::Chain;
use net::clock::Clock;
use net::fork::Home;
use net::udp::{MulticastOptions, ReceiveBatch, Sent, UdpSocket};
use net::{Interest, Registrar, Token, Waker};
use slab::Slab;
use units::{Nanos, Rng};

use crate::closing::Stage;
use crate::departed::Departed;
use crate::direct::Direct;
use crate::drops::Drops;
use crate::error::ContextError;
use crate::incoming::{Gate, IpcIncoming, Look, RmIncoming, RuIncoming, TcpIncoming};
use crate::index::Groups;
use crate::keys::{self, PayloadKeysOf};
use crate::outgoing::{Outgoing, Place, Turns};
use crate::published::{self, Labels, Lent, Shown};
use crate::receiver::{Found, ReceiverEntry, Subscription};
use crate::recovery::Recovering;
use crate::retention::Retained;
use crate::security::Security;
use crate::source::{Current, SourceEntry};
use crate::standalone::Standalone;
use crate::statistics::census::Census;
use crate::stream::Streams;
use crate::tls::Tls;
use crate::xdp::Xdp;
use crate::{Handler, MessagingConfig};

/// What a context counts into. One context is one writer.
#[derive(Clone, Default)]
#[allow(missing_docs)]
pub struct ContextCounters {
    pub source: Arc<LbtrmSource>,
    pub receiver: Arc<LbtrmReceiver>,
    pub lbm_source: Arc<LbmSource>,
    pub tcp_source: Arc<LbttcpSource>,
    pub tcp_receiver: Arc<LbttcpReceiver>,
    pub ru_source: Arc<LbtruSource>,
    pub ru_receiver: Arc<LbtruReceiver>,
    pub delivery: Arc<LbmDelivery>,
    pub resolver: Arc<LbmrResolver>,
    pub retention: Arc<counters::table::LbmRetention>,
    pub recovery: Arc<counters::table::LbmRecovery>,
    pub failover: Arc<counters::table::HotFailover>,
    pub networks: Arc<counters::table::LbtrmNetworks>,
    pub context: Arc<counters::table::MessagingContext>,
    pub xdp: Arc<counters::table::XdpSocket>,
    pub events: Arc<counters::table::EventQueue>,
    /// Where sessions that count for themselves (shared memory) are shown as long as they last. Without, the
    /// context shows all of its counters in the file of its process (`counters_directory`).
    pub registry: Option<Registry>,
    /// Under what they are shown there.
    labels: Labels,
    /// That they are shown there.
    shown: Option<Arc<Shown>>,
    /// Why they are not.
    unpublished: Option<Arc<io::Error>>,
}

impl ContextCounters {
    /// New counters that `registry` shows under `labels`.
    #[must_use]
    pub fn registered(registry: &Registry, labels: &[(&str, &str)]) -> ContextCounters {
        let shown_as = labels.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        let (registry_of, labels_of) = (Some(registry.clone()), shown_as.collect());
        let counters =
            ContextCounters { registry: registry_of, labels: labels_of, ..ContextCounters::default() };
        // What the registry has no room for it counts itself.
        for set in counters.sets() {
            registry.register(labels, set);
        }
        counters
    }

    /// Counters that nobody else shows are shown in the file of this process, as long as a copy of these
    /// lives. To be called by a thread with the CPUs and the priority that the file's thread may have.
    pub(crate) fn publish(&mut self, config: &MessagingConfig) {
        if self.registry.is_some() {
            return;
        }
        match published::show(config, &self.sets()) {
            Ok(None) => {}
            Ok(Some(shown)) => {
                self.registry = Some(shown.registry.clone());
                self.labels = shown.labels.clone();
                self.shown = Some(Arc::new(shown));
            }
            Err(error) => self.unpublished = Some(Arc::new(error)),
        }
    }

    /// Shows rows beside them as long as the result lives; none if nobody shows them.
    pub(crate) fn lend_roll(&self, roll: Roll) -> Option<Lent> {
        let labels: Vec<_> = self.labels.iter().map(|(name, value)| (&**name, &**value)).collect();
        Some(Lent::roll(self.registry.as_ref()?, &labels, roll))
    }

    /// Why `tickcast counters` does not find what a context counts, though the configuration names a
    /// directory for that (`counters_directory`): the file cannot be made there. The context works without.
    /// To be asked of [`Context::counters`].
    #[must_use]
    pub fn publish_error(&self) -> Option<&io::Error> {
        self.unpublished.as_deref()
    }

    fn sets(&self) -> [Arc<dyn counters::CounterSet>; 16] {
        [
            self.source.clone(),
            self.receiver.clone(),
            self.delivery.clone(),
            self.resolver.clone(),
            self.context.clone(),
            self.lbm_source.clone(),
            self.tcp_source.clone(),
            self.tcp_receiver.clone(),
            self.ru_source.clone(),
            self.ru_receiver.clone(),
            self.xdp.clone(),
            self.events.clone(),
            self.retention.clone(),
            self.recovery.clone(),
            self.failover.clone(),
            self.networks.clone(),
        ]
    }
}

/// The kinds of descriptors of a context, in the upper part of a token's lower half.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum Port {
    Resolver = 0,
    Outgoing = 1,
    Group = 2,
    Listener = 3,
    Connection = 4,
    TcpClient = 5,
    TcpSession = 6,
    IpcSession = 7,
    RuReceiver = 8,
    Waker = 9,
    Xdp = 10,
}

const PORT_SHIFT: u32 = 28;
const INDEX_MASK: u64 = (1 << PORT_SHIFT) - 1;

/// What a poller tells that a descriptor is ready by; `base` is the upper half.
pub(crate) fn token(base: u64, port: Port, index: usize) -> Token {
    Token(base | u64::from(port as u32) << PORT_SHIFT | index as u64)
}

/// The sockets and protocol state of one thread.
///
/// A context goes by the time it was last told: by [`Context::on_ready`], [`Context::on_wakeup`],
/// [`Context::advance`], or by its own clock in [`Context::poll`] and [`Context::wait`].
pub struct Context {
    pub(crate) home: Home,
    pub(crate) config: MessagingConfig,
    pub(crate) interface: Ipv4Addr,
    pub(crate) registrar: Registrar,
    /// The upper half of all tokens.
    pub(crate) token_base: u64,
    pub(crate) now: Nanos,
    pub(crate) clock: Clock,
    /// When timers were last looked at.
    pub(crate) woken_at: Nanos,
    /// The datagrams that were taken last filled a batch.
    pub(crate) took_batch: bool,
    pub(crate) rng: Rng,
    pub(crate) counters: ContextCounters,
    /// Hears topic resolution.
    resolver_socket: UdpSocket,
    /// Sends topic resolution and NAKs.
    pub(crate) control: UdpSocket,
    /// The second network, if there is one.
    pub(crate) second: Option<SecondNetwork>,
    pub(crate) resolver: lbt::resolution::Resolver,
    /// The last number of a source or receiver.
    number: u32,
    pub(crate) sources: Slab<SourceEntry>,
    /// By session.
    pub(crate) sources_of: Groups<usize, usize>,
    pub(crate) outgoing: Slab<Outgoing>,
    pub(crate) by_place: HashMap<Place, usize>,
    pub(crate) ports: Ports,
    pub(crate) turns: Turns,
    /// Sessions of LBT-RU, which have sockets that the poller may not watch.
    pub(crate) with_lanes: Vec<usize>,
    /// Until then flushing has nothing to do, unless something is sent or comes: see [`Context::stir`].
    pub(crate) quiet_until: Nanos,
    pub(crate) current: Current,
    pub(crate) receivers: Slab<ReceiverEntry>,
    pub(crate) subscriptions: Slab<Subscription>,
    /// Subscriptions. A hash table would have to be rebuilt as it grows, in hundreds of milliseconds for a million.
    pub(crate) by_query: BTreeMap<QueryId, usize>,
    pub(crate) found: VecDeque<Found>,
    pub(crate) streams: Streams,
    pub(crate) departed: Departed,
    pub(crate) rm_in: RmIncoming,
    pub(crate) tcp_in: TcpIncoming,
    pub(crate) ipc_in: IpcIncoming,
    pub(crate) ru_in: RuIncoming,
    pub(crate) gate: Gate,
    /// Of LBT-RM sessions with keyed codes.
    pub(crate) keys: Option<Keys>,
    /// Of LBT-RU sessions with keyed codes.
    pub(crate) ru_keys: Option<Keys>,
    /// What messages are encrypted with.
    pub(crate) payload_keys: PayloadKeysOf,
    pub(crate) tls: Tls,
    pub(crate) security: Security,
    pub(crate) xdp: Xdp,
    pub(crate) recovering: Recovering,
    pub(crate) next_session: u64,
    /// When sources known by configuration are tried again.
    pub(crate) static_due: Nanos,
    pub(crate) drops: Drops,
    pub(crate) census: Census,
    pub(crate) direct: Direct,
    /// Made with the first source that retains messages.
    pub(crate) retained: Option<Box<Retained>>,
    pub(crate) standalone: Standalone,
    waker: Option<Waker>,
    /// The poller knows of the data sockets: see [`Context::watch_data`].
    pub(crate) watches_data: bool,
    /// Taken out while its datagrams are handed on.
    pub(crate) batch: Option<Box<ReceiveBatch>>,
    /// Headers being built.
    pub(crate) chain: Chain,
    pub(crate) stage: Stage,
    /// When it began to close, or direct connections were last busy since.
    pub(crate) settling_since: Nanos,
}

impl Context {
    /// A context without sources and receivers, for a thread that has a poller of its own: the context's
    /// descriptors are added to `registrar` under tokens whose upper 32 bits are `token_space`; the thread
    /// hands those to [`Context::on_ready`]. `seed` must differ from process to process.
    ///
    /// # Errors
    /// A socket cannot be opened or an option is out of range; the error names it.
    pub fn new(
        config: &MessagingConfig,
        registrar: &Registrar,
        token_space: u32,
        seed: u64,
        now: Nanos,
        counters: ContextCounters,
    ) -> Result<Context, ContextError> {
        let clock = Clock::Machine;
        let mut context = Context::unwatched(config, registrar, token_space, seed, now, clock, counters)?;
        context.watch_data()?;
        Ok(context)
    }

    /// The same, but whoever drives it looks at the data sockets in each turn and shows them to the poller
    /// only before it sleeps: see [`Context::watch_data`].
    pub(crate) fn unwatched(
        config: &MessagingConfig,
        registrar: &Registrar,
        token_space: u32,
        seed: u64,
        now: Nanos,
        clock: Clock,
        mut counters: ContextCounters,
    ) -> Result<Context, ContextError> {
        counters.publish(config);
        let is_simulated = matches!(clock, Clock::Manual(_));
        let interface = config.interface.address()?;
        let (resolver_socket, control) = resolution_sockets(config, interface)?;
        let mut resolver =
            lbt::resolution::Resolver::new(&config.resolver(), now, counters.resolver.clone())?;
        let security = Security::new(config);
        if let Some(file) = &config.resolver_authentication_key_file {
            resolver.authenticate(keys::load(file)?, config.resolver_authentication_window());
        }
        let mut rng = Rng::new(seed);
        let second = match &config.interface_b {
            Some(second) => {
                let second = SecondNetwork::open(config, second.address()?, &mut rng)?;
                resolver.add_network(second.interface);
                Some(second)
            }
            None => None,
        };
        let mut context = Context {
            home: Home::here(),
            config: config.clone(),
            interface,
            registrar: registrar.clone(),
            token_base: u64::from(token_space) << 32,
            now,
            clock,
            woken_at: now,
            took_batch: false,
            rng,
            resolver_socket,
            control,
            second,
            resolver,
            number: 0,
            sources: Slab::new(),
            sources_of: Groups::default(),
            outgoing: Slab::new(),
            by_place: HashMap::new(),
            ports: Ports::default(),
            turns: Turns::default(),
            with_lanes: Vec::new(),
            quiet_until: Nanos::ZERO,
            current: Current::default(),
            receivers: Slab::new(),
            subscriptions: Slab::new(),
            by_query: BTreeMap::new(),
            found: VecDeque::new(),
            streams: Streams::default(),
            departed: Departed::default(),
            rm_in: RmIncoming::default(),
            tcp_in: TcpIncoming::default(),
            ipc_in: IpcIncoming::default(),
            ru_in: RuIncoming::default(),
            security,
            gate: Gate::new(config),
            tls: Tls::load(config)?,
            xdp: Xdp::open(config, interface, counters.xdp.clone())?,
            keys: config.transport_lbtrm_authentication_key_file.as_deref().map(keys::load).transpose()?,
            ru_keys: config.transport_lbtru_authentication_key_file.as_deref().map(keys::load).transpose()?,
            payload_keys: PayloadKeysOf::load(config)?,
            recovering: Recovering::default(),
            next_session: 0,
            static_due: Nanos::NEVER,
            drops: Drops::default(),
            census: if is_simulated { Census::default() } else { Census::new(config, &counters, now) },
            direct: Direct::new(config),
            retained: None,
            standalone: Standalone::new(config),
            waker: None,
            watches_data: false,
            batch: Some(Box::new(ReceiveBatch::new(RECEIVE_SLOTS))),
            chain: Chain::default(),
            stage: Stage::Open,
            settling_since: Nanos::ZERO,
            counters,
        };
        registrar.add(&context.resolver_socket, context.token(Port::Resolver, 0), Interest::Read)?;
        if let Some(second) = &context.second {
            registrar.add(&second.resolver_socket, context.token(Port::Resolver, 1), Interest::Read)?;
        }
        context.learn_static_sources()?;
        Ok(context)
    }

    /// The configuration it was made with.
    #[must_use]
    pub fn config(&self) -> &MessagingConfig {
        &self.config
    }

    /// What it counts into.
    #[must_use]
    pub fn counters(&self) -> &ContextCounters {
        &self.counters
    }

    pub(crate) fn token(&self, port: Port, index: usize) -> Token {
        token(self.token_base, port, index)
    }

    pub(crate) fn multicast_options(&self) -> MulticastOptions {
        multicast_options(&self.config, self.interface)
    }

    /// The same on the second network, if there is one.
    pub(crate) fn second_options(&self) -> Option<MulticastOptions> {
        self.second.as_ref().map(|second| multicast_options(&self.config, second.interface))
    }

    /// Shows the counters of a session as long as the result is kept.
    pub(crate) fn show(
        &self,
        transport: &TransportSession,
        set: Arc<dyn counters::CounterSet>,
    ) -> Option<Lent> {
        let registry = self.counters.registry.as_ref()?;
        Some(Lent::new(registry, &[("transport", &transport.to_string())], set))
    }

    /// Refuses what a child made by `fork` asks for.
    pub(crate) fn check_home(&self) -> Result<(), ContextError> {
        if self.home.is_here() { Ok(()) } else { Err(ContextError::Forked(self.home.forked())) }
    }

    /// Refuses to make something where nobody would drive it.
    pub(crate) fn check_open(&self, until: Stage) -> Result<(), ContextError> {
        self.check_home()?;
        self.check_before(until).map_err(|_| ContextError::Closed)
    }

    pub(crate) fn next_number(&mut self) -> u32 {
        self.number += 1;
        self.number
    }

    /// Tells the context the time, for what is sent before the next input.
    #[inline]
    pub fn advance(&mut self, now: Nanos) {
        self.now = self.now.max(now);
    }

    /// Reads its clock, where something happens that is not done for every message.
    pub(crate) fn refresh_clock(&mut self) {
        self.advance(self.clock.now());
    }

    /// A descriptor of this context is ready: takes what has arrived, up to one batch. Returns whether that was a whole
    /// batch of datagrams, so that more may be there: who has other work can take it before that, or the kernel drops
    /// what finds no room meanwhile.
    pub fn on_ready(&mut self, now: Nanos, ready: net::Ready, handler: &mut impl Handler) -> bool {
        self.advance(now);
        self.took_batch = false;
        self.tell_found(handler);
        let index = (ready.token.0 & INDEX_MASK) as usize;
        match ready.token.0 as u32 >> PORT_SHIFT {
            p if p == Port::Group as u32 => drop(self.on_group_ready(now, index, Look::Told, handler)),
            p if p == Port::Resolver as u32 => self.on_resolver_ready(index, handler),
            p if p == Port::Outgoing as u32 => drop(self.on_outgoing_ready(now, index, handler)),
            p if p == Port::TcpClient as u32 => self.on_tcp_client_ready(index, ready, handler),
            p if p == Port::IpcSession as u32 => self.on_bell(index, handler),
            p if p == Port::Xdp as u32 => self.on_xdp_ready(now, handler),
            p if p == Port::Waker as u32 => self.waker.iter().for_each(Waker::acknowledge),
            p if p == Port::RuReceiver as u32 => drop(self.on_ru_ready(now, Look::Told, handler)),
            p if p == Port::TcpSession as u32 => self.on_tcp_session_ready(index, ready, handler),
            p if p == Port::Listener as u32 => self.on_listener_ready(index, handler),
            p if p == Port::Connection as u32 => self.on_connection_ready(index, ready, handler),
            _ => {}
        }
        self.rest(now, handler);
        self.took_batch
    }

    /// Takes what topic resolution says; who waits for a source hears of it later.
    pub(crate) fn hear_resolution(&mut self) {
        let Some(mut batch) = self.batch.take() else { return };
        for index in 0..=usize::from(self.second.is_some()) {
            self.take_resolution(index, &mut batch);
        }
        self.batch = Some(batch);
        self.send_resolution();
    }

    fn take_resolution(&mut self, index: usize, batch: &mut ReceiveBatch) {
        self.tell_wall_clock();
        let second = self.second.as_ref().filter(|_| index == 1);
        let socket = second.map_or(&self.resolver_socket, |second| &second.resolver_socket);
        match socket.receive(batch) {
            Ok(received) => {
                received.datagrams().for_each(|(_, datagram)| self.on_resolution_datagram(datagram))
            }
            Err(_) => self.counters.context.receives_failed.inc(),
        }
    }

    fn on_resolver_ready(&mut self, index: usize, handler: &mut impl Handler) {
        let Some(mut batch) = self.batch.take() else { return };
        self.take_resolution(index, &mut batch);
        self.batch = Some(batch);
        self.tell_found(handler);
        self.send_resolution();
    }

    /// What ends a [`Context::wait`] from another thread.
    ///
    /// # Errors
    /// The process is out of descriptors.
    pub fn waker(&mut self) -> io::Result<Waker> {
        if let Some(waker) = &self.waker {
            return Ok(waker.clone());
        }
        let waker = Waker::new(&self.registrar, self.token(Port::Waker, 0))?;
        self.waker = Some(waker.clone());
        Ok(waker)
    }

    /// Does what is due: topic resolution, NAKs, session messages, retransmissions that waited for the rate
    /// limit.
    pub fn on_wakeup(&mut self, now: Nanos, handler: &mut impl Handler) {
        if !self.home.is_here() {
            return;
        }
        self.advance(now);
        self.tell_found(handler);
        self.end_pause(now, handler);
        self.wake_incoming(now, handler);
        if now >= self.resolver.next_wakeup() {
            self.send_resolution();
        }
        self.wake_outgoing(now, handler);
        self.wake_recovery(now, handler);
        self.streams.failovers.on_wakeup(now, handler);
        self.wake_direct(now, handler);
        self.wake_xdp(now);
        self.wake_static(now);
        self.look_for_drops(now);
        self.wake_security(now, handler);
        self.take_census(now);
        self.rest(now, handler);
    }

    /// The sockets of topic resolution, from which NAKs are sent too.
    pub(crate) fn own_sockets(&self) -> impl Iterator<Item = &UdpSocket> {
        let second = self.second.iter().flat_map(|second| [&second.resolver_socket, &second.control]);
        [&self.resolver_socket, &self.control].into_iter().chain(second)
    }

    /// Before the thread that drives this context may sleep in its poller.
    fn rest(&mut self, now: Nanos, handler: &mut impl Handler) {
        if !self.standalone.has_poller() {
            self.drain_ipc(now, handler);
        }
    }

    /// When [`Context::on_wakeup`] is due next.
    #[must_use]
    pub fn next_wakeup(&self) -> Nanos {
        self.protocol_wakeup().min(self.census.next_wakeup())
    }

    /// The same without what nobody on the network waits for.
    pub(crate) fn protocol_wakeup(&self) -> Nanos {
        if !self.found.is_empty() {
            return Nanos::ZERO;
        }
        let outgoing =
            self.turns.next(|at| self.outgoing.get(at).map_or(Nanos::NEVER, Outgoing::next_wakeup));
        let own = self.incoming_wakeup().min(self.direct_wakeup()).min(self.xdp.next_wakeup());
        let own = own.min(self.recovery_wakeup()).min(self.static_due).min(self.security.next_wakeup());
        let own = own.min(self.streams.failovers.next_wakeup()).min(self.drops.next_wakeup());
        outgoing.min(own).min(self.resolver.next_wakeup())
    }

    /// Sends everything that waits: datagrams that are not full, and direct messages. Explicit batches that
    /// are not over stay.
    pub fn flush(&mut self) {
        if let Some(at) = self.turns.last() {
            self.turn_outgoing(self.now, at);
        }
        if !self.turns.is_quiet(self.now) {
            self.flush_others();
        }
        self.flush_direct();
    }

    #[cold]
    #[inline(never)]
    fn flush_others(&mut self) {
        let turn = self.turns.take(self.now);
        for &at in &turn {
            self.turn_outgoing(self.now, at);
        }
        self.give_back_turn(turn);
    }

    /// What is sent by a session may have something to flush.
    #[inline]
    pub(crate) fn stir(&mut self, session: usize) {
        self.quiet_until = Nanos::ZERO;
        if self.turns.stir(session) {
            self.current = Current::default();
        }
    }

    /// Flushes as long as that has anything to do.
    #[inline]
    pub(crate) fn flush_stirred(&mut self) {
        if self.now >= self.quiet_until || !self.direct.is_settled() {
            self.flush();
            self.quiet_until = self.flush_due();
        }
    }

    /// When to flush again if nothing is sent or comes till then.
    fn flush_due(&self) -> Nanos {
        self.turns.next(|at| self.outgoing.get(at).map_or(Nanos::NEVER, Outgoing::flush_due))
    }

    /// Ends all sources: their sessions say the last number of each topic and the end, and sends and new sources are
    /// refused.
    /// Whoever goes on driving the context sends what waits and answers who asks again;
    /// [`Context::close`] does that for as long as it is of use, and so does dropping the context. In a child made
    /// by `fork` nothing happens.
    pub fn end(&mut self) {
        if !self.home.is_certain() {
            return;
        }
        self.refresh_clock();
        if self.stage == Stage::Open {
            self.stage = Stage::Ended;
        }
        for advertisement in self.sources.iter().filter_map(|(_, source)| source.advertisement) {
            self.resolver.withdraw(advertisement);
        }
        for at in 0..self.outgoing.capacity() {
            self.end_outgoing(self.now, at);
        }
        self.flush_direct();
    }

    /// Signed topic resolution goes by the time of day.
    fn tell_wall_clock(&mut self) {
        if self.resolver.is_signed() {
            self.resolver.set_wall_clock(net::clock::wall_ns());
        }
    }

    /// Sends topic resolution that is due: to the group, or to each unicast resolver.
    pub(crate) fn send_resolution(&mut self) {
        self.tell_wall_clock();
        let group = [resolver_group(&self.config)];
        let daemons = &self.config.resolver_unicast_daemon[..];
        let (socket, to) =
            if daemons.is_empty() { (&self.control, &group[..]) } else { (&self.resolver_socket, daemons) };
        let failed = &self.counters.context.sends_failed;
        while let Some(datagram) = self.resolver.poll_transmit(self.now) {
            send_to_each(socket, to, datagram, failed);
            if let Some(second) = &self.second {
                let socket = if daemons.is_empty() { &second.control } else { &second.resolver_socket };
                send_to_each(socket, to, self.resolver.second(), failed);
            }
        }
    }
}

fn send_to_each(socket: &UdpSocket, to: &[SocketAddrV4], datagram: &[u8], failed: &Counter) {
    for address in to {
        match socket.send_run(*address, datagram, datagram.len()) {
            Ok(Sent::Datagrams(_)) => {}
            // It is repeated by its own schedule.
            Ok(Sent::WouldBlock) | Err(_) => failed.inc(),
        }
    }
}

/// The second network of a context.
pub(crate) struct SecondNetwork {
    pub(crate) interface: Ipv4Addr,
    /// By which the sessions of this context are known as the same on both networks.
    pub(crate) instance: [u8; 8],
    resolver_socket: UdpSocket,
    pub(crate) control: UdpSocket,
}

impl SecondNetwork {
    fn open(config: &MessagingConfig, interface: Ipv4Addr, rng: &mut Rng) -> io::Result<SecondNetwork> {
        let (resolver_socket, control) = resolution_sockets(config, interface)?;
        Ok(SecondNetwork { interface, instance: rng.next_u64().to_be_bytes(), resolver_socket, control })
    }
}

/// What hears topic resolution on a network, and what sends it and NAKs.
fn resolution_sockets(config: &MessagingConfig, interface: Ipv4Addr) -> io::Result<(UdpSocket, UdpSocket)> {
    let options = multicast_options(config, interface);
    let hears = if config.resolver_unicast_daemon.is_empty() {
        UdpSocket::multicast_receiver(resolver_group(config), options)?
    } else {
        let (low, high) = (config.resolver_unicast_port_low, config.resolver_unicast_port_high);
        first_free(interface, low..=high, |a| UdpSocket::multicast_sender(a, options))?
    };
    Ok((hears, UdpSocket::multicast_sender(SocketAddrV4::new(interface, 0), options)?))
}

fn resolver_group(config: &MessagingConfig) -> SocketAddrV4 {
    SocketAddrV4::new(config.resolver_multicast_address, config.resolver_multicast_port)
}

/// Runs of datagrams taken in one receive call, 64 KiB of buffer each.
const RECEIVE_SLOTS: usize = 16;

fn multicast_options(config: &MessagingConfig, interface: Ipv4Addr) -> MulticastOptions {
    MulticastOptions {
        interface,
        ttl: config.ttl,
        buffer_bytes: config.transport_lbtrm_receiver_socket_buffer_bytes as usize,
    }
}

/// Where to look for a free port: sessions that are sent keep theirs, and the thousandth does not try those of all
/// others again.
#[derive(Default)]
pub(crate) struct Ports {
    /// By range, the port that was taken last.
    last: HashMap<(u16, u16), u16>,
}

impl Ports {
    /// The ports of a range, those first that were not tried yet.
    pub(crate) fn of(&self, low: u16, high: u16) -> impl Iterator<Item = u16> + use<> {
        let tried = self.last.get(&(low, high)).map_or(0, |last| usize::from(last - low) + 1);
        (low..=high).skip(tried).chain((low..=high).take(tried))
    }

    pub(crate) fn took(&mut self, low: u16, high: u16, port: u16) {
        self.last.insert((low, high), port.clamp(low, high));
    }
}

/// Binds the first free port of some, by `bind`.
pub(crate) fn first_free<T>(
    interface: Ipv4Addr,
    ports: impl Iterator<Item = u16>,
    bind: impl Fn(SocketAddrV4) -> io::Result<T>,
) -> io::Result<T> {
    let (mut refused, mut low, mut high) = (None, u16::MAX, 0);
    for port in ports {
        (low, high) = (low.min(port), high.max(port));
        match bind(SocketAddrV4::new(interface, port)) {
            Ok(bound) => return Ok(bound),
            Err(e) if e.kind() == io::ErrorKind::AddrInUse => refused = Some(e),
            Err(e) => return Err(e),
        }
    }
    let last = refused.map_or_else(String::new, |e| e.to_string());
    Err(io::Error::new(
        io::ErrorKind::AddrInUse,
        format!("no port from {low} to {high} is free on {interface}: {last}"),
    ))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::{Interface, Source, SourceOptions, Transport, Wait};

    /// A context on loopback; no other test's is heard.
    pub(crate) fn lone(test: u8, wait: Wait) -> Context {
        lone_with(test, |config| config.wait = wait)
    }

    /// The same, with some of the configuration changed.
    pub(crate) fn lone_with(test: u8, change: impl FnOnce(&mut MessagingConfig)) -> Context {
        let process = std::process::id();
        let (low, high) = (30_000, 45_000);
        let mut config = MessagingConfig {
            interface: Interface::Address(Ipv4Addr::LOCALHOST),
            wait: Wait::Block,
            counters_directory: String::new(),
            request_tcp_send_buffer_maximum_bytes: 1 << 20,
            resolver_multicast_address: Ipv4Addr::new(239, 247, (process / 2_000) as u8, test),
            resolver_multicast_port: 22_000 + (process % 2_000) as u16,
            transport_lbtrm_source_port_low: low,
            transport_lbtrm_source_port_high: high,
            transport_lbtru_port_low: low,
            transport_lbtru_port_high: high,
            transport_lbtru_receiver_port_low: low,
            transport_lbtru_receiver_port_high: high,
            ..MessagingConfig::default()
        };
        change(&mut config);
        Context::standalone(&config).expect("loopback is there")
    }

    /// The same with a source.
    pub(crate) fn sending(test: u8, transport: Transport) -> (Context, Source) {
        let mut context = lone(test, Wait::Block);
        let options = SourceOptions { transport: Some(transport), ..SourceOptions::default() };
        let source = context.create_source("px", &options).expect("a port is free");
        (context, source)
    }

    /// A look at a socket that is broken is counted, one at it as it was made is not.
    pub(crate) fn assert_broken_is_counted(
        mut context: Context,
        socket: impl Fn(&Context) -> &UdpSocket,
        look: impl Fn(&mut Context),
    ) {
        look(&mut context);
        assert_eq!(context.counters.context.receives_failed.get(), 0);
        net::lab::spoil(socket(&context)).expect("there are descriptors");
        look(&mut context);
        assert_eq!(context.counters.context.receives_failed.get(), 1);
    }

    /// Looks at the sockets of the first session that sources send by.
    pub(crate) fn look_at_outgoing(context: &mut Context) {
        let _ = context.on_outgoing_ready(context.now, 0, &mut ());
    }

    #[test]
    fn the_next_port_is_looked_for_behind_the_last_and_then_from_the_begin() {
        let mut ports = Ports::default();
        let of = |ports: &Ports| ports.of(10, 13).collect::<Vec<_>>();
        assert_eq!(of(&ports), [10, 11, 12, 13]);
        ports.took(10, 13, 11);
        ports.took(10, 14, 10);
        assert_eq!(of(&ports), [12, 13, 10, 11]);
        ports.took(10, 13, 13);
        assert_eq!(of(&ports), [10, 11, 12, 13]);
        ports.took(u16::MAX, u16::MAX, u16::MAX);
        assert_eq!(ports.of(u16::MAX, u16::MAX).collect::<Vec<_>>(), [u16::MAX]);
    }

    #[test]
    fn a_broken_socket_of_topic_resolution_is_counted() {
        let look = |context: &mut Context| context.on_resolver_ready(0, &mut ());
        assert_broken_is_counted(lone(1, Wait::Block), |context| &context.resolver_socket, look);
    }
}

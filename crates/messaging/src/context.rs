use std::collections::HashMap;
use std::fmt;
use std::io;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::sync::Arc;

use counters::table::{LbmDelivery, LbmrResolver, LbtrmReceiver, LbtrmSource};
use lbt::rm::SessionKey;
use net::udp::{MulticastOptions, ReceiveBatch, Sent, UdpSocket};
use net::{Interest, Registrar, Token};
use slab::Slab;
use units::{Nanos, Rng};

use crate::direct::Direct;
use crate::publish::Publisher;
use crate::subscribe::{Group, Session, Subscription};
use crate::{Handler, MessagingConfig};

/// Why a context, or a part of it, could not be made.
#[derive(Debug)]
#[non_exhaustive]
pub enum ContextError {
    /// A socket; the error says which.
    Io(io::Error),
    /// An option of the protocol.
    Config(lbt::config::ConfigError),
    /// A topic's name.
    Topic(lbt::resolution::ResolveError),
}

impl fmt::Display for ContextError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ContextError::Io(e) => e.fmt(f),
            ContextError::Config(e) => e.fmt(f),
            ContextError::Topic(e) => e.fmt(f),
        }
    }
}

impl std::error::Error for ContextError {}

impl From<io::Error> for ContextError {
    fn from(e: io::Error) -> Self {
        ContextError::Io(e)
    }
}

impl From<lbt::config::ConfigError> for ContextError {
    fn from(e: lbt::config::ConfigError) -> Self {
        ContextError::Config(e)
    }
}

impl From<lbt::resolution::ResolveError> for ContextError {
    fn from(e: lbt::resolution::ResolveError) -> Self {
        ContextError::Topic(e)
    }
}

/// What a context counts into. One context is one writer.
#[derive(Clone, Debug, Default)]
#[allow(missing_docs)]
pub struct ContextCounters {
    pub source: Arc<LbtrmSource>,
    pub receiver: Arc<LbtrmReceiver>,
    pub delivery: Arc<LbmDelivery>,
    pub resolver: Arc<LbmrResolver>,
    pub context: Arc<counters::table::MessagingContext>,
}

/// The kinds of descriptors of a context, in the upper part of a token's lower half.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum Port {
    Resolver = 0,
    Publisher = 1,
    Group = 2,
    Listener = 3,
    Connection = 4,
}

const PORT_SHIFT: u32 = 28;
const INDEX_MASK: u64 = (1 << PORT_SHIFT) - 1;

/// The sockets and protocol state of one thread.
pub struct Context {
    pub(crate) config: MessagingConfig,
    pub(crate) registrar: Registrar,
    /// The upper half of all tokens.
    token_base: u64,
    pub(crate) rng: Rng,
    pub(crate) counters: ContextCounters,
    /// Hears topic resolution.
    resolver_socket: UdpSocket,
    /// Sends topic resolution and NAKs.
    pub(crate) control: UdpSocket,
    pub(crate) resolver: lbt::resolution::Resolver,
    pub(crate) publisher: Option<Publisher>,
    pub(crate) groups: Slab<Group>,
    pub(crate) sessions: HashMap<SessionKey, Session>,
    pub(crate) next_session: u64,
    pub(crate) subscriptions: Slab<Subscription>,
    pub(crate) next_source: u32,
    pub(crate) direct: Direct,
    /// Taken out while its datagrams are handed on.
    batch: Option<ReceiveBatch>,
}

impl Context {
    /// A context without sources and receivers. Its descriptors are added to `registrar` under tokens whose
    /// upper 32 bits are `token_space`; the thread hands those to [`Context::on_ready`]. `seed` must differ
    /// from process to process.
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
        let group = SocketAddrV4::new(config.resolver_multicast_address, config.resolver_multicast_port);
        let resolver_socket = UdpSocket::multicast_receiver(group, multicast_options(config))?;
        let any_port = SocketAddrV4::new(config.interface, 0);
        let control = UdpSocket::multicast_sender(any_port, multicast_options(config))?;
        let resolver = lbt::resolution::Resolver::new(&config.resolver(), now, counters.resolver.clone())?;
        let context = Context {
            config: config.clone(),
            registrar: registrar.clone(),
            token_base: u64::from(token_space) << 32,
            rng: Rng::new(seed),
            resolver_socket,
            control,
            resolver,
            publisher: None,
            groups: Slab::new(),
            sessions: HashMap::new(),
            next_session: 0,
            subscriptions: Slab::new(),
            next_source: 0,
            direct: Direct::default(),
            batch: Some(ReceiveBatch::new(RECEIVE_SLOTS)),
            counters,
        };
        registrar.add(&context.resolver_socket, context.token(Port::Resolver, 0), Interest::Read)?;
        Ok(context)
    }

    pub(crate) fn token(&self, port: Port, index: usize) -> Token {
        Token(self.token_base | u64::from(port as u32) << PORT_SHIFT | index as u64)
    }

    pub(crate) fn options(&self) -> MulticastOptions {
        multicast_options(&self.config)
    }

    /// A descriptor of this context is ready: takes what has arrived, up to one batch.
    pub fn on_ready(&mut self, now: Nanos, ready: net::Ready, handler: &mut impl Handler) {
        let index = (ready.token.0 & INDEX_MASK) as usize;
        match ready.token.0 as u32 >> PORT_SHIFT {
            p if p == Port::Group as u32 => self.on_group_ready(now, index, handler),
            p if p == Port::Resolver as u32 => self.on_resolver_ready(now, handler),
            p if p == Port::Publisher as u32 => self.on_publisher_ready(now),
            p if p == Port::Listener as u32 => self.on_listener_ready(handler),
            p if p == Port::Connection as u32 => self.on_connection_ready(index, ready, handler),
            _ => {}
        }
    }

    fn on_group_ready(&mut self, now: Nanos, index: usize, handler: &mut impl Handler) {
        let Some(mut batch) = self.batch.take() else { return };
        if let Some(group) = self.groups.get(index)
            && let Ok(received) = group.socket.receive(&mut batch)
        {
            for (from, datagram) in received.datagrams() {
                self.on_session_datagram(now, from, datagram, handler);
            }
            self.counters.context.datagrams_dropped_by_kernel.set(batch.kernel_drops().into());
        }
        self.batch = Some(batch);
        self.send_feedback(now);
    }

    fn on_resolver_ready(&mut self, now: Nanos, handler: &mut impl Handler) {
        let Some(mut batch) = self.batch.take() else { return };
        if let Ok(received) = self.resolver_socket.receive(&mut batch) {
            for (_, datagram) in received.datagrams() {
                self.on_resolution_datagram(now, datagram, handler);
            }
        }
        self.batch = Some(batch);
        self.send_resolution(now);
    }

    fn on_publisher_ready(&mut self, now: Nanos) {
        let Some(mut batch) = self.batch.take() else { return };
        if let Some(publisher) = &mut self.publisher {
            publisher.on_ready(now, &mut batch);
            publisher.transmit(now, &self.counters.context);
        }
        self.batch = Some(batch);
    }

    /// Does what is due: topic resolution, NAKs, session messages, retransmissions that waited for the rate
    /// limit.
    pub fn on_wakeup(&mut self, now: Nanos, handler: &mut impl Handler) {
        self.wake_sessions(now, handler);
        self.send_feedback(now);
        if now >= self.resolver.next_wakeup() {
            self.send_resolution(now);
        }
        if let Some(publisher) = &mut self.publisher {
            publisher.on_wakeup(now);
            publisher.transmit(now, &self.counters.context);
        }
    }

    /// When [`Context::on_wakeup`] is due next.
    #[must_use]
    pub fn next_wakeup(&self) -> Nanos {
        let sessions = self.sessions.values().map(|s| s.receiver.next_wakeup());
        let publisher = self.publisher.as_ref().map_or(Nanos::NEVER, Publisher::next_wakeup);
        sessions.chain([publisher, self.resolver.next_wakeup()]).min().unwrap_or(Nanos::NEVER)
    }

    /// Sends everything that waits: datagrams that are not full, and direct messages.
    pub fn flush(&mut self, now: Nanos) {
        if let Some(publisher) = &mut self.publisher {
            publisher.flush(now, &self.counters.context);
        }
        self.flush_direct();
    }

    /// Tells receivers that this process ends. The context is of no use afterwards.
    pub fn end(&mut self, now: Nanos) {
        if let Some(publisher) = &mut self.publisher {
            publisher.end(now, &self.counters.context);
        }
        self.flush_direct();
    }

    /// Sends topic resolution that is due.
    pub(crate) fn send_resolution(&mut self, now: Nanos) {
        let group =
            SocketAddrV4::new(self.config.resolver_multicast_address, self.config.resolver_multicast_port);
        while let Some(datagram) = self.resolver.poll_transmit(now) {
            match self.control.send_run(group, datagram, datagram.len()) {
                Ok(Sent::Datagrams(_)) => {}
                // It is repeated by its own schedule.
                Ok(Sent::WouldBlock) | Err(_) => self.counters.context.sends_failed.inc(),
            }
        }
    }
}

/// Runs of datagrams taken in one receive call, 64 KiB of buffer each.
const RECEIVE_SLOTS: usize = 16;

fn multicast_options(config: &MessagingConfig) -> MulticastOptions {
    MulticastOptions {
        interface: config.interface,
        ttl: config.ttl,
        buffer_bytes: config.transport_lbtrm_receiver_socket_buffer_bytes as usize,
    }
}

/// Binds the first free port of a range, by `bind`.
pub(crate) fn first_free<T>(
    interface: Ipv4Addr,
    low: u16,
    high: u16,
    bind: impl Fn(SocketAddrV4) -> io::Result<T>,
) -> io::Result<T> {
    let mut refused = None;
    for port in low..=high {
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

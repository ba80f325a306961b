//! What all parts of a context stand on.

use std::collections::HashMap;
use std::io;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::AsFd;
use std::sync::Arc;

use counters::Counter;
use lbt::authentication::Keys;
use lbt::resolution::TransportSession;
use net::clock::Clock;
use net::fork::Home;
use net::udp::{MulticastOptions, ReceiveBatch, Sent, UdpSocket};
use net::{Interest, Registrar, Token};
use units::{Nanos, Rng};

use crate::closing::Stage;
use crate::context_counters::ContextCounters;
use crate::error::{Closed, ContextError};
use crate::keys::{self, PayloadKeysOf};
use crate::published::Lent;
use crate::retention::Retained;
use crate::security::Security;
use crate::tls::Tls;
use crate::xdp::Xdp;
use crate::{MessagingConfig, StaticSource};

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

pub(crate) const PORT_SHIFT: u32 = 28;
pub(crate) const INDEX_MASK: u64 = (1 << PORT_SHIFT) - 1;

/// What a poller tells that a descriptor is ready by; `base` is the upper half.
pub(crate) fn token(base: u64, port: Port, index: usize) -> Token {
    Token(base | u64::from(port as u32) << PORT_SHIFT | index as u64)
}

/// What all parts of a context stand on.
pub(crate) struct Base {
    pub(crate) home: Home,
    pub(crate) config: MessagingConfig,
    pub(crate) interface: Ipv4Addr,
    pub(crate) registrar: Registrar,
    /// The upper half of all tokens.
    pub(crate) token_base: u64,
    pub(crate) now: Nanos,
    pub(crate) clock: Clock,
    /// How far the context is on its way out.
    pub(crate) stage: Stage,
    /// The datagrams that were taken last filled a batch.
    pub(crate) took_batch: bool,
    pub(crate) rng: Rng,
    pub(crate) counters: ContextCounters,
    /// Hears topic resolution.
    pub(crate) resolver_socket: UdpSocket,
    /// Sends topic resolution and NAKs.
    pub(crate) control: UdpSocket,
    /// The second network, if there is one.
    pub(crate) second: Option<SecondNetwork>,
    pub(crate) resolver: lbt::resolution::Resolver,
    /// The last number of a source or receiver.
    number: u32,
    /// Of LBT-RM sessions with keyed codes.
    pub(crate) keys: Option<Keys>,
    /// Of LBT-RU sessions with keyed codes.
    pub(crate) ru_keys: Option<Keys>,
    /// What messages are encrypted with.
    pub(crate) payload_keys: PayloadKeysOf,
    pub(crate) tls: Tls,
    pub(crate) security: Security,
    pub(crate) xdp: Xdp,
    /// Made with the first source that retains messages.
    pub(crate) retained: Option<Box<Retained>>,
    /// The poller knows of the data sockets: see [`Context::watch_data`](crate::Context).
    pub(crate) watches_data: bool,
    /// Taken out while its datagrams are handed on.
    pub(crate) batch: Option<Box<ReceiveBatch>>,
}

impl Base {
    /// Opens the sockets of topic resolution and reads keys and certificates.
    pub(crate) fn open(
        config: &MessagingConfig,
        registrar: &Registrar,
        token_space: u32,
        seed: u64,
        now: Nanos,
        clock: Clock,
        mut counters: ContextCounters,
    ) -> Result<Base, ContextError> {
        counters.publish(config);
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
        let base = Base {
            home: Home::here(),
            config: config.clone(),
            interface,
            registrar: registrar.clone(),
            token_base: u64::from(token_space) << 32,
            now,
            clock,
            stage: Stage::Open,
            took_batch: false,
            rng,
            resolver_socket,
            control,
            second,
            resolver,
            number: 0,
            security,
            tls: Tls::load(config)?,
            xdp: Xdp::open(config, interface, counters.xdp.clone())?,
            keys: config.transport_lbtrm_authentication_key_file.as_deref().map(keys::load).transpose()?,
            ru_keys: config.transport_lbtru_authentication_key_file.as_deref().map(keys::load).transpose()?,
            payload_keys: PayloadKeysOf::load(config)?,
            retained: None,
            watches_data: false,
            batch: Some(Box::new(ReceiveBatch::new(RECEIVE_SLOTS))),
            counters,
        };
        registrar.add(&base.resolver_socket, base.token(Port::Resolver, 0), Interest::Read)?;
        if let Some(second) = &base.second {
            registrar.add(&second.resolver_socket, base.token(Port::Resolver, 1), Interest::Read)?;
        }
        Ok(base)
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

    /// Refuses what a context does not do from some stage on.
    #[inline]
    pub(crate) fn check_before(&self, stage: Stage) -> Result<(), Closed> {
        if self.stage < stage { Ok(()) } else { Err(Closed) }
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

    /// See [`Context::advance`](crate::Context::advance).
    #[inline]
    pub(crate) fn advance(&mut self, now: Nanos) {
        self.now = self.now.max(now);
    }

    /// Reads its clock, where something happens that is not done for every message.
    pub(crate) fn refresh_clock(&mut self) {
        self.advance(self.clock.now());
    }

    /// The sockets of topic resolution, from which NAKs are sent too.
    pub(crate) fn own_sockets(&self) -> impl Iterator<Item = &UdpSocket> {
        let second = self.second.iter().flat_map(|second| [&second.resolver_socket, &second.control]);
        [&self.resolver_socket, &self.control].into_iter().chain(second)
    }

    /// Signed topic resolution goes by the time of day.
    pub(crate) fn tell_wall_clock(&mut self) {
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

    /// Whether the configuration says where a session is.
    pub(crate) fn is_fixed(&self, session: &TransportSession) -> bool {
        let mut fixed = self.config.resolver_static_source.iter().flat_map(StaticSource::records);
        fixed.any(|record| record.session == *session)
    }

    pub(crate) fn check_own_address(&self, address: Ipv4Addr) -> Result<(), ContextError> {
        if address == self.interface {
            return Ok(());
        }
        let what = format!("{address} is not the address of the interface, {}", self.interface);
        Err(io::Error::new(io::ErrorKind::AddrNotAvailable, what).into())
    }

    /// Retains no more of a topic, and forgets what was retained.
    pub(crate) fn forget_retained(&mut self, session: usize, topic_index: u32) {
        if let Some(retained) = &mut self.retained {
            retained.responder.remove_topic(session as u32, topic_index);
        }
    }

    /// Its time stands still between two turns: all of what is there is to be seen at once.
    pub(crate) fn is_simulated(&self) -> bool {
        matches!(self.clock, Clock::Manual(_))
    }

    /// Receivers take a session's datagrams from the address on network B that their line names.
    pub(crate) fn check_second_network(&self, place: &StaticSource) -> Result<(), ContextError> {
        let own = self.second.as_ref().map(|second| second.interface);
        let Some(named) = place.second.filter(|named| own != Some(*named)) else { return Ok(()) };
        let own = own.map_or_else(|| "which is not set".to_owned(), |own| own.to_string());
        let what = format!("source_static_session {place}: {named} is not the address of interface_b, {own}");
        Err(io::Error::new(io::ErrorKind::AddrNotAvailable, what).into())
    }

    pub(crate) fn show_data(&self, socket: &impl AsFd, port: Port, index: usize) -> io::Result<()> {
        show(&self.registrar, socket, self.token(port, index))
    }

    /// Shows a data socket to the poller, if that watches data.
    pub(crate) fn register_data(&self, socket: &impl AsFd, port: Port, index: usize) -> io::Result<()> {
        if !self.watches_data {
            return Ok(());
        }
        self.registrar.add(socket, self.token(port, index), Interest::Read)
    }

    /// Shows the socket of AF_XDP to the poller, for good.
    pub(crate) fn watch_xdp(&mut self) -> io::Result<()> {
        let token = self.token(Port::Xdp, 0);
        self.xdp.watch(&self.registrar, token)
    }

    pub(crate) fn wake_xdp(&mut self, now: Nanos) {
        if !self.xdp.wake(now) {
            self.counters.context.receives_failed.inc();
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
    pub(crate) resolver_socket: UdpSocket,
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

/// Shows a socket to the poller, which may know it: an attempt before may have failed half way.
pub(crate) fn show(registrar: &Registrar, socket: &impl AsFd, token: Token) -> io::Result<()> {
    match registrar.add(socket, token, Interest::Read) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        shown => shown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
}

//! What all parts of a context stand on.

use std::io;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::AsFd;
use std::sync::Arc;

use lbt::authentication::Keys;
use lbt::resolution::TransportSession;
use net::clock::Clock;
use net::fork::Home;
use net::udp::{MulticastOptions, ReceiveBatch, UdpSocket};
use net::{Interest, Registrar, Token};
use units::{Nanos, Rng};

use crate::closing::Stage;
use crate::context_counters::ContextCounters;
use crate::error::{Closed, ContextError};
use crate::keys::{self, PayloadKeysOf};
use crate::ports::multicast_options;
use crate::published::Lent;
use crate::resolution::Resolution;
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
    /// Sends topic resolution and NAKs.
    pub(crate) control: UdpSocket,
    /// The second network, if there is one.
    pub(crate) second: Option<SecondNetwork>,
    pub(crate) resolution: Resolution,
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
        let (hears, control) = (Resolution::listen(config, interface)?, control_socket(config, interface)?);
        let mut resolution = Resolution::new(config, hears, now, counters.resolver.clone())?;
        let security = Security::new(config);
        let mut rng = Rng::new(seed);
        let second = match &config.interface_b {
            Some(second) => {
                let interface = second.address()?;
                resolution.add_network(interface, Resolution::listen(config, interface)?);
                Some(SecondNetwork::open(config, interface, &mut rng)?)
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
            control,
            second,
            resolution,
            number: 0,
            security,
            tls: Tls::load(config)?,
            xdp: Xdp::open(config, interface, counters.xdp.clone())?,
            keys: config.lbtrm.authentication_key_file.as_deref().map(keys::load).transpose()?,
            ru_keys: config.lbtru.authentication_key_file.as_deref().map(keys::load).transpose()?,
            payload_keys: PayloadKeysOf::load(config)?,
            retained: None,
            watches_data: false,
            batch: Some(Box::new(ReceiveBatch::new(RECEIVE_SLOTS))),
            counters,
        };
        for (index, socket) in base.resolution.sockets().enumerate() {
            registrar.add(socket, base.token(Port::Resolver, index), Interest::Read)?;
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
        let second = self.second.as_ref().map(|second| &second.control);
        self.resolution.sockets().chain([&self.control]).chain(second)
    }

    /// Sends topic resolution that is due.
    pub(crate) fn send_resolution(&mut self) {
        let second = self.second.as_ref().map(|second| &second.control);
        let failed = &self.counters.context.sends_failed;
        self.resolution.send(self.now, &self.config, [Some(&self.control), second], failed);
    }

    /// Whether the configuration says where a session is.
    pub(crate) fn is_fixed(&self, session: &TransportSession) -> bool {
        let mut fixed = self.config.resolver.static_source.iter().flat_map(StaticSource::records);
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

/// The second network of a context.
pub(crate) struct SecondNetwork {
    pub(crate) interface: Ipv4Addr,
    /// By which the sessions of this context are known as the same on both networks.
    pub(crate) instance: [u8; 8],
    pub(crate) control: UdpSocket,
}

impl SecondNetwork {
    fn open(config: &MessagingConfig, interface: Ipv4Addr, rng: &mut Rng) -> io::Result<SecondNetwork> {
        let control = control_socket(config, interface)?;
        Ok(SecondNetwork { interface, instance: rng.next_u64().to_be_bytes(), control })
    }
}

/// What sends topic resolution and NAKs on a network.
fn control_socket(config: &MessagingConfig, interface: Ipv4Addr) -> io::Result<UdpSocket> {
    UdpSocket::multicast_sender(SocketAddrV4::new(interface, 0), multicast_options(config, interface))
}

/// Runs of datagrams taken in one receive call, 64 KiB of buffer each.
const RECEIVE_SLOTS: usize = 16;

/// Shows a socket to the poller, which may know it: an attempt before may have failed half way.
pub(crate) fn show(registrar: &Registrar, socket: &impl AsFd, token: Token) -> io::Result<()> {
    match registrar.add(socket, token, Interest::Read) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        shown => shown,
    }
}

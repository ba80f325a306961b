//! LBT-RU: one socket for all sessions, told apart by the address of their sources.

use std::net::SocketAddrV4;

use counters::table::MessagingContext;
use lbt::config::{ConfigError, LbtruReceiverConfig};
use lbt::delivery::EndReason;
use lbt::resolution::TransportSession;
use lbt::ru::{Receiver as RuReceiver, SessionKey, Subscriber};
use net::udp::{Sent, UdpSocket};
use units::{Nanos, RecentMap};

use super::reliable::{ReliableIncoming, Sessions};
use crate::base::Base;
use crate::base::Port;
use crate::error::ContextError;
use crate::ports::first_free;

/// The LBT-RU sessions of a context.
#[derive(Default)]
pub(crate) struct RuIncoming {
    /// Opened with the first session.
    socket: Option<UdpSocket>,
    pub(crate) sessions: Sessions<RuReceiver>,
    by_source: RecentMap<SocketAddrV4, usize>,
}

impl RuIncoming {
    /// The session of a source.
    pub(crate) fn find(&self, address: SocketAddrV4) -> Option<usize> {
        self.by_source.get(address)
    }

    pub(crate) fn insert(&mut self, receiver: RuReceiver, number: u64) -> usize {
        let address = receiver.key().source;
        let at = self.sessions.insert(receiver, number, ());
        self.by_source.insert(address, at);
        at
    }

    /// Opens the socket of all sessions, if it is not open.
    pub(crate) fn open_socket(&mut self, base: &Base) -> Result<(), ContextError> {
        if self.socket.is_none() {
            let low = base.config.lbtru.receiver_port_low;
            let high = base.config.lbtru.receiver_port_high;
            let options = base.multicast_options();
            let socket = first_free(base.interface, low..=high, |a| UdpSocket::multicast_sender(a, options))?;
            base.register_data(&socket, Port::RuReceiver, 0)?;
            self.socket = Some(socket);
        }
        Ok(())
    }

    /// Tells the source of a session, once, that nothing more of it is wanted here. A source that does not hear of it
    /// drops us when it hears nothing else of us either.
    pub(crate) fn leave(&mut self, at: usize) {
        if let (Some(socket), Some(receiver)) = (&self.socket, self.sessions.receiver(at))
            && let Some(feedback) = receiver.leave()
        {
            for _ in 0..LEAVES {
                let _ = socket.send_run(feedback.to, feedback.datagram, feedback.datagram.len());
            }
        }
    }

    /// The same for all sessions.
    #[cold]
    pub(crate) fn leave_all(&mut self) {
        (0..self.sessions.capacity()).for_each(|at| self.leave(at));
    }

    /// Whether a session of an address is received, whichever.
    pub(crate) fn receives(&self, address: SocketAddrV4) -> bool {
        self.by_source.get(address).is_some()
    }

    /// How many sockets there are.
    pub(crate) fn descriptors(&self) -> usize {
        usize::from(self.socket.is_some())
    }
}

/// How often a source is told that it is left: nobody answers, and one may be lost.
const LEAVES: usize = 2;

/// Sends what is due of one session.
#[inline]
fn send_due(now: Nanos, socket: &UdpSocket, receiver: &mut RuReceiver, counters: &MessagingContext) {
    while let Some(feedback) = receiver.poll_transmit(now) {
        match socket.send_run(feedback.to, feedback.datagram, feedback.datagram.len()) {
            Ok(Sent::Datagrams(_)) => {}
            // All of them are repeated.
            Ok(Sent::WouldBlock) | Err(_) => counters.sends_failed.inc(),
        }
    }
}

impl RuIncoming {
    /// Sends the signs of life that are due, of all sessions, though nothing has come for them and what is due
    /// besides waits.
    pub(crate) fn send_signs_of_life(&mut self, base: &Base, now: Nanos) {
        let RuIncoming { socket: Some(socket), sessions, .. } = self else { return };
        sessions.receivers().for_each(|receiver| send_due(now, socket, receiver, &base.counters.context));
    }

    /// A receiver that is going to connect.
    pub(crate) fn new_ru(
        &mut self,
        base: &mut Base,
        key: SessionKey,
        config: &LbtruReceiverConfig,
    ) -> Result<RuReceiver, ConfigError> {
        let now = base.now;
        let (client_id, seed) = (base.rng.next_u32().max(1), base.rng.next_u64());
        let (own, delivery) = (base.counters.ru_receiver.clone(), base.counters.delivery.clone());
        let mut receiver = RuReceiver::new(config, key, client_id, seed, now, own, delivery)?;
        if let Some(keys) = &base.ru_keys {
            receiver.authenticate(keys.clone());
        }
        if let Some(keys) = &base.payload_keys.ru {
            receiver.decrypt(keys.clone());
        }
        Ok(receiver)
    }
}

impl ReliableIncoming for RuIncoming {
    type Transport = Subscriber;
    type Details = ();

    const CONNECTS: bool = true;

    fn sessions(&self) -> &Sessions<RuReceiver> {
        &self.sessions
    }

    fn sessions_mut(&mut self) -> &mut Sessions<RuReceiver> {
        &mut self.sessions
    }

    /// That of all sessions.
    #[inline]
    fn socket(&self, _: usize) -> Option<&UdpSocket> {
        self.socket.as_ref()
    }

    #[inline]
    fn find_next(&mut self, from: SocketAddrV4, _: &[u8]) -> Option<usize> {
        self.by_source.find(from)
    }

    fn transport(&self, at: usize) -> TransportSession {
        let SessionKey { source: address, session_id } = self.sessions[at].receiver.key();
        TransportSession::LbtRu { address, session_id }
    }

    /// Connect requests, signs of life, NAKs and reports.
    #[inline]
    fn send_feedback(&mut self, base: &Base, now: Nanos) {
        let RuIncoming { socket: Some(socket), sessions, .. } = self else { return };
        sessions.settle(|receiver| send_due(now, socket, receiver, &base.counters.context));
    }

    fn new_in_place(&mut self, base: &mut Base, at: usize) -> Result<RuReceiver, ConfigError> {
        let key = self.sessions[at].receiver.key();
        let mut config = base.config.lbtru_receiver();
        config.session.late_start = true;
        self.new_ru(base, key, &config)
    }

    fn stays(&self, base: &Base, at: usize) -> bool {
        let Some(receiver) = self.sessions.get(at) else { return false };
        receiver.end_reason() == Some(EndReason::Restarted)
            || receiver.knows_runs() && base.is_fixed(&self.transport(at))
    }

    fn on_ended(&mut self, at: usize) {
        self.leave(at);
    }

    /// Its source is told so.
    fn close(&mut self, _: &mut Base, at: usize) -> Option<TransportSession> {
        self.leave(at);
        let SessionKey { source, session_id } = self.sessions.remove(at)?.receiver.key();
        self.by_source.remove(source);
        Some(TransportSession::LbtRu { address: source, session_id })
    }
}

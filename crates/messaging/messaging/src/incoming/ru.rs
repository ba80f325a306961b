//! LBT-RU: one socket for all sessions, told apart by the address of their sources.

use std::net::SocketAddrV4;

use counters::table::MessagingContext;
use lbt::config::{ConfigError, LbtruReceiverConfig};
use lbt::delivery::EndReason;
use lbt::resolution::TransportSession;
use lbt::ru::{Receiver as RuReceiver, SessionKey};
use net::udp::{Sent, UdpSocket};
use units::{Nanos, RecentMap};

use super::reliable::Sessions;
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

    /// The same for the next datagram, which is mostly of the same session as the last one.
    #[inline]
    pub(crate) fn find_next(&mut self, address: SocketAddrV4) -> Option<usize> {
        self.by_source.find(address)
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

    /// Forgets a session, and tells its source so.
    pub(crate) fn close(&mut self, at: usize) -> Option<TransportSession> {
        self.leave(at);
        let SessionKey { source, session_id } = self.sessions.remove(at)?.receiver.key();
        self.by_source.remove(source);
        Some(TransportSession::LbtRu { address: source, session_id })
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

    pub(crate) fn socket(&self) -> Option<&UdpSocket> {
        self.socket.as_ref()
    }

    /// Tells what is to be told of a session; whether it is over.
    pub(crate) fn has_ended(&mut self, base: &mut Base, at: usize) -> bool {
        let SessionKey { source, session_id } = self.sessions[at].receiver.key();
        if let Some(error) = self.sessions.take_unreadable() {
            base.security.unreadable(&TransportSession::LbtRu { address: source, session_id }, error);
        }
        self.sessions.has_ended(at)
    }

    /// Whether a session that has ended is asked for without a break: its source was started again, or may be at
    /// any moment, since its place is fixed.
    pub(crate) fn stays(&self, base: &Base, at: usize) -> bool {
        let Some(receiver) = self.sessions.get(at) else { return false };
        let SessionKey { source: address, session_id } = receiver.key();
        receiver.end_reason() == Some(EndReason::Restarted)
            || receiver.knows_runs() && base.is_fixed(&TransportSession::LbtRu { address, session_id })
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

    /// Sends connect requests, signs of life and NAKs that are due for sessions to which something has happened.
    pub(crate) fn send_ru(&mut self, base: &Base, now: Nanos) {
        let RuIncoming { socket: Some(socket), sessions, .. } = self else { return };
        sessions.settle(|receiver| send_due(now, socket, receiver, &base.counters.context));
    }
}

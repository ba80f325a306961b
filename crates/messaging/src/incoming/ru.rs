//! LBT-RU: one socket for all sessions, told apart by the address of their sources.

use std::net::SocketAddrV4;

use counters::table::MessagingContext;
use lbt::config::{ConfigError, LbtruReceiverConfig};
use lbt::delivery::EndReason;
use lbt::resolution::TransportSession;
use lbt::ru::{Receiver as RuReceiver, SessionKey};
use net::udp::{ReceiveBatch, Sent, UdpSocket};
use units::{Nanos, RecentMap};

use super::Look;
use super::reliable::Sessions;
use crate::Handler;
use crate::base::Base;
use crate::base::{Port, first_free};
use crate::direct::Direct;
use crate::error::ContextError;
use crate::receiving::Receiving;
use crate::recovery;
use crate::session::SessionRef;
use crate::stream::Bridge;

/// The LBT-RU sessions of a context.
#[derive(Default)]
pub(crate) struct RuIncoming {
    /// Opened with the first session.
    socket: Option<UdpSocket>,
    pub(crate) sessions: Sessions<RuReceiver>,
    by_source: RecentMap<SocketAddrV4, usize>,
}

impl RuIncoming {
    /// Forgets a session, and tells its source so.
    pub(super) fn close(&mut self, at: usize) -> Option<TransportSession> {
        self.leave(at);
        let SessionKey { source, session_id } = self.sessions.remove(at)?.receiver.key();
        self.by_source.remove(source);
        Some(TransportSession::LbtRu { address: source, session_id })
    }

    /// Tells the source of a session, once, that nothing more of it is wanted here. A source that does not hear of it
    /// drops us when it hears nothing else of us either.
    fn leave(&mut self, at: usize) {
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
    pub(super) fn receives(&self, address: SocketAddrV4) -> bool {
        self.by_source.get(address).is_some()
    }

    /// How many sockets there are.
    pub(crate) fn descriptors(&self) -> usize {
        usize::from(self.socket.is_some())
    }

    pub(crate) fn socket(&self) -> Option<&UdpSocket> {
        self.socket.as_ref()
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

impl Receiving {
    /// Begins to connect to a session; none if another session of the same address is received still.
    pub(super) fn open_ru(
        &mut self,
        base: &mut Base,
        address: SocketAddrV4,
        session_id: Option<u32>,
    ) -> Result<Option<(SessionRef, u64)>, ContextError> {
        let now = base.now;
        let key = SessionKey { source: address, session_id };
        if let Some(at) = self.ru_in.by_source.get(address) {
            let session = &self.ru_in.sessions[at];
            return Ok((session.receiver.key() == key).then_some((SessionRef::Ru(at), session.number)));
        }
        if self.ru_in.socket.is_none() {
            let low = base.config.transport_lbtru_receiver_port_low;
            let high = base.config.transport_lbtru_receiver_port_high;
            let options = base.multicast_options();
            let socket = first_free(base.interface, low..=high, |a| UdpSocket::multicast_sender(a, options))?;
            base.register_data(&socket, Port::RuReceiver, 0)?;
            self.ru_in.socket = Some(socket);
        }
        let mut receiver = self.ru_in.new_ru(base, key, &base.config.lbtru_receiver())?;
        if let Some(next) = self.departed.next_of(&(TransportSession::LbtRu { address, session_id }, None)) {
            receiver.resume(next);
        }
        if !base.is_fixed(&TransportSession::LbtRu { address, session_id }) && session_id.is_some() {
            receiver.expect_one_run();
        }
        self.next_session += 1;
        let number = self.next_session;
        let at = self.ru_in.sessions.insert(receiver, number, ());
        self.ru_in.by_source.insert(address, at);
        self.ru_in.send_ru(base, now);
        Ok(Some((SessionRef::Ru(at), number)))
    }

    /// Takes what has arrived, up to one batch; false if that was nothing.
    pub(crate) fn on_ru_ready(
        &mut self,
        base: &mut Base,
        direct: &mut Direct,
        now: Nanos,
        look: Look,
        handler: &mut impl Handler,
    ) -> bool {
        let Some(mut batch) = base.batch.take() else { return false };
        let worked = self.receive_ru(base, direct, now, look, &mut batch, handler);
        base.batch = Some(batch);
        if worked && look == Look::Told {
            self.ru_in.send_ru(base, now);
        }
        worked
    }

    fn receive_ru(
        &mut self,
        base: &mut Base,
        direct: &mut Direct,
        now: Nanos,
        look: Look,
        batch: &mut ReceiveBatch,
        handler: &mut impl Handler,
    ) -> bool {
        let Some(socket) = &self.ru_in.socket else { return false };
        let Ok(received) = look.at(socket, batch) else {
            base.counters.context.receives_failed.inc();
            return false;
        };
        base.took_batch = received.is_full();
        for (from, datagram) in received.datagrams() {
            let Some(at) = self.ru_in.by_source.find(from) else {
                base.counters.context.unknown_datagrams.inc();
                continue;
            };
            let mut bridge = Bridge { streams: &mut self.streams, handler, now };
            if self.ru_in.sessions.on_datagram(at, now, from, datagram, &mut bridge) {
                self.look_at_ru(base, direct, at, from, datagram, handler);
            }
        }
        !received.is_empty()
    }

    /// A datagram has ended a session. If it is the first that was heard of the next one in its place, it is taken.
    #[cold]
    #[inline(never)]
    fn end_ru_by(
        &mut self,
        base: &mut Base,
        direct: &mut Direct,
        at: usize,
        from: SocketAddrV4,
        datagram: &[u8],
        handler: &mut impl Handler,
    ) {
        let now = base.now;
        let has_restarted = self.ru_in.sessions.end_reason(at) == EndReason::Restarted;
        if self.end_ru(base, direct, at, handler) && has_restarted {
            let mut bridge = Bridge { streams: &mut self.streams, handler, now: base.now };
            if self.ru_in.sessions.on_datagram(at, now, from, datagram, &mut bridge)
                && self.has_ended_ru(base, at)
            {
                self.end_ru(base, direct, at, handler);
            }
        }
    }

    pub(super) fn wake_ru(
        &mut self,
        base: &mut Base,
        direct: &mut Direct,
        now: Nanos,
        handler: &mut impl Handler,
    ) {
        self.ru_in.send_ru(base, now);
        let due = self.ru_in.sessions.take_due(now);
        for &at in &due {
            let mut bridge = Bridge { streams: &mut self.streams, handler, now };
            if self.ru_in.sessions.on_wakeup(at, now, &mut bridge) {
                self.end_ru(base, direct, at, handler);
            }
        }
        self.ru_in.sessions.give_back_due(due);
        self.ru_in.send_ru(base, now);
    }

    /// The session goes on in its place, with the source's next run as a rule: its streams end, and begin with the
    /// oldest that the source has.
    #[cold]
    fn restart_ru(
        &mut self,
        base: &mut Base,
        direct: &mut Direct,
        at: usize,
        handler: &mut impl Handler,
    ) -> Result<(), ConfigError> {
        let (run, reason) = (self.ru_in.sessions.run(at), self.ru_in.sessions.end_reason(at));
        let goes_on = self.ru_in.sessions.goes_on(at);
        let key = self.ru_in.sessions[at].receiver.key();
        let config = LbtruReceiverConfig { late_start: true, ..base.config.lbtru_receiver() };
        let mut receiver = self.ru_in.new_ru(base, key, &config)?;
        receiver.succeed(&self.ru_in.sessions[at].receiver);
        self.next_session += 1;
        self.ru_in.sessions.replace(at, receiver, self.next_session);
        self.begin_anew(base, direct, SessionRef::Ru(at), run, (reason, goes_on), handler);
        Ok(())
    }

    /// A session is over, or something is to be told of it.
    #[cold]
    #[inline(never)]
    fn look_at_ru(
        &mut self,
        base: &mut Base,
        direct: &mut Direct,
        at: usize,
        from: SocketAddrV4,
        datagram: &[u8],
        handler: &mut impl Handler,
    ) {
        if self.has_ended_ru(base, at) {
            self.end_ru_by(base, direct, at, from, datagram, handler);
        }
    }

    /// Tells what is to be told of a session; whether it is over.
    fn has_ended_ru(&mut self, base: &mut Base, at: usize) -> bool {
        let SessionKey { source, session_id } = self.ru_in.sessions[at].receiver.key();
        if let Some(error) = self.ru_in.sessions.take_unreadable() {
            base.security.unreadable(&TransportSession::LbtRu { address: source, session_id }, error);
        }
        self.ru_in.sessions.has_ended(at)
    }

    /// Ends a session, unless something of it is still asked for. Whether another one has taken its place.
    pub(super) fn end_ru(
        &mut self,
        base: &mut Base,
        direct: &mut Direct,
        at: usize,
        handler: &mut impl Handler,
    ) -> bool {
        let session = SessionRef::Ru(at);
        if self.ru_in.sessions.end_reason(at) == EndReason::Ended {
            self.ru_in.leave(at);
        }
        if self.stays_ru(base, at) && self.restart_ru(base, direct, at, handler).is_ok() {
            return true;
        }
        let recovery = recovery::of(recovery::incoming!(self), session);
        if recovery.is_some_and(|recovery| !recovery.requester.is_idle()) {
            return false;
        }
        self.forget_recovery(base, direct, session);
        let reason = self.ru_in.sessions.end_reason(at);
        let next = self.ru_in.sessions.next_number(at);
        let was_heard = self.ru_in.sessions.is_heard(at);
        if let Some(transport) = self.ru_in.close(at) {
            self.on_unreached(base, &transport, was_heard);
            self.end_session(base, session, &transport, reason, handler);
            self.departed.set_next(&(transport, None), next);
        }
        false
    }

    /// Whether a session that has ended is asked for without a break: its source was started again, or may be at
    /// any moment, since its place is fixed.
    fn stays_ru(&self, base: &Base, at: usize) -> bool {
        let Some(receiver) = self.ru_in.sessions.get(at) else { return false };
        let SessionKey { source: address, session_id } = receiver.key();
        receiver.end_reason() == Some(EndReason::Restarted)
            || receiver.knows_runs() && base.is_fixed(&TransportSession::LbtRu { address, session_id })
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
    fn new_ru(
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

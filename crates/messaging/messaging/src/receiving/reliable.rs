//! Sessions of the transports that repair what is lost: LBT-RM and LBT-RU.

use std::net::SocketAddrV4;

use lbt::config::ConfigError;
use lbt::delivery::EndReason;
use lbt::resolution::{Origin, TransportSession};
use lbt::{rm, ru};
use net::udp::ReceiveBatch;
use units::Nanos;

use super::Receiving;
use crate::Handler;
use crate::base::Base;
use crate::direct::Direct;
use crate::error::ContextError;
use crate::incoming::{Incoming, Look, ReliableIncoming, RmIncoming, RuIncoming};
use crate::session::SessionRef;
use crate::stream::Bridge;

/// Sessions of a transport as a context has them.
pub(crate) trait InContext: ReliableIncoming {
    /// Those of a context.
    fn of(incoming: &mut Incoming) -> &mut Self;
    /// The session that stands at a place among them.
    fn session_ref(at: usize) -> SessionRef;
}

impl InContext for RmIncoming {
    fn of(incoming: &mut Incoming) -> &mut RmIncoming {
        &mut incoming.rm
    }

    fn session_ref(at: usize) -> SessionRef {
        SessionRef::Rm(at)
    }
}

impl InContext for RuIncoming {
    fn of(incoming: &mut Incoming) -> &mut RuIncoming {
        &mut incoming.ru
    }

    fn session_ref(at: usize) -> SessionRef {
        SessionRef::Ru(at)
    }
}

impl Receiving {
    pub(super) fn open_rm(
        &mut self,
        base: &mut Base,
        key: rm::SessionKey,
        group: SocketAddrV4,
        origin: Option<Origin>,
    ) -> Result<(SessionRef, u64), ContextError> {
        if let Some(at) = self.incoming.rm.find(key) {
            return Ok((SessionRef::Rm(at), self.incoming.rm.sessions[at].number));
        }
        let mut receiver = self.incoming.rm.new_rm(base, key, &base.config.receiver())?;
        if let Some(next) = self.departed.next_of(&(TransportSession::LbtRm { key, group }, None)) {
            receiver.resume(next);
        }
        if !base.is_fixed(&TransportSession::LbtRm { key, group }) {
            receiver.expect_one_run();
        }
        self.incoming.rm.join_group(base, group)?;
        self.next_session += 1;
        let number = self.next_session;
        let at = self.incoming.rm.insert(receiver, number, group, origin);
        Ok((SessionRef::Rm(at), number))
    }

    /// Begins to connect to a session; none if another session of the same address is received still.
    pub(super) fn open_ru(
        &mut self,
        base: &mut Base,
        address: SocketAddrV4,
        session_id: Option<u32>,
    ) -> Result<Option<(SessionRef, u64)>, ContextError> {
        let now = base.now;
        let key = ru::SessionKey { source: address, session_id };
        if let Some(at) = self.incoming.ru.find(address) {
            let session = &self.incoming.ru.sessions[at];
            return Ok((session.receiver.key() == key).then_some((SessionRef::Ru(at), session.number)));
        }
        self.incoming.ru.open_socket(base)?;
        let mut receiver = self.incoming.ru.new_ru(base, key, &base.config.lbtru_receiver())?;
        if let Some(next) = self.departed.next_of(&(TransportSession::LbtRu { address, session_id }, None)) {
            receiver.resume(next);
        }
        if !base.is_fixed(&TransportSession::LbtRu { address, session_id }) && session_id.is_some() {
            receiver.expect_one_run();
        }
        self.next_session += 1;
        let number = self.next_session;
        let at = self.incoming.ru.insert(receiver, number);
        self.incoming.ru.send_feedback(base, now);
        Ok(Some((SessionRef::Ru(at), number)))
    }

    /// Takes what has arrived on a socket, up to one batch; false if that was nothing.
    pub(crate) fn on_socket_ready<T: InContext>(
        &mut self,
        base: &mut Base,
        direct: &mut Direct,
        now: Nanos,
        (index, look): (usize, Look),
        handler: &mut impl Handler,
    ) -> bool {
        let Some(mut batch) = base.batch.take() else { return false };
        let worked = self.receive::<T>(base, direct, now, (index, look), &mut batch, handler);
        base.batch = Some(batch);
        if worked && look == Look::Told {
            T::of(&mut self.incoming).send_feedback(base, now);
        }
        worked
    }

    fn receive<T: InContext>(
        &mut self,
        base: &mut Base,
        direct: &mut Direct,
        now: Nanos,
        (index, look): (usize, Look),
        batch: &mut ReceiveBatch,
        handler: &mut impl Handler,
    ) -> bool {
        let Some(socket) = T::of(&mut self.incoming).socket(index) else { return false };
        let Ok(received) = look.at(socket, batch) else {
            base.counters.context.receives_failed.inc();
            return false;
        };
        if received.is_empty() {
            return false;
        }
        base.took_batch = received.is_full();
        for (from, datagram) in received.datagrams() {
            self.on_session_datagram::<T>(base, direct, now, from, datagram, handler);
        }
        true
    }

    /// Looks at every group's socket once.
    pub(crate) fn poll_groups(
        &mut self,
        base: &mut Base,
        direct: &mut Direct,
        now: Nanos,
        handler: &mut impl Handler,
    ) -> bool {
        let mut worked = false;
        let mut place = 0;
        // Sessions that end take groups with them.
        while let Some(index) = self.incoming.rm.with_socket(place) {
            worked |= self.on_socket_ready::<RmIncoming>(base, direct, now, (index, Look::Direct), handler);
            place += 1;
        }
        worked
    }

    #[inline]
    pub(crate) fn on_session_datagram<T: InContext>(
        &mut self,
        base: &mut Base,
        direct: &mut Direct,
        now: Nanos,
        from: SocketAddrV4,
        datagram: &[u8],
        handler: &mut impl Handler,
    ) {
        let transport = T::of(&mut self.incoming);
        let Some(at) = transport.find_next(from, datagram) else {
            base.counters.context.unknown_datagrams.inc();
            return;
        };
        let mut bridge = Bridge { streams: &mut self.streams, handler, now };
        if transport.sessions_mut().on_datagram(at, now, from, datagram, &mut bridge) {
            self.look_at::<T>(base, direct, at, from, datagram, handler);
        }
    }

    /// A session is over, or something is to be told of it.
    #[cold]
    #[inline(never)]
    fn look_at<T: InContext>(
        &mut self,
        base: &mut Base,
        direct: &mut Direct,
        at: usize,
        from: SocketAddrV4,
        datagram: &[u8],
        handler: &mut impl Handler,
    ) {
        if T::of(&mut self.incoming).has_ended(base, at) {
            self.end_by::<T>(base, direct, at, from, datagram, handler);
        }
    }

    /// A datagram has ended a session. If it is the first that was heard of the next one in its place, it is taken.
    fn end_by<T: InContext>(
        &mut self,
        base: &mut Base,
        direct: &mut Direct,
        at: usize,
        from: SocketAddrV4,
        datagram: &[u8],
        handler: &mut impl Handler,
    ) {
        let reason = T::of(&mut self.incoming).sessions().end_reason(at);
        if !self.end::<T>(base, direct, at, handler) || reason != EndReason::Restarted {
            return;
        }
        let mut bridge = Bridge { streams: &mut self.streams, handler, now: base.now };
        let transport = T::of(&mut self.incoming);
        if transport.sessions_mut().on_datagram(at, base.now, from, datagram, &mut bridge)
            && transport.has_ended(base, at)
        {
            self.end::<T>(base, direct, at, handler);
        }
    }

    /// Does what is due for sessions.
    pub(super) fn wake<T: InContext>(
        &mut self,
        base: &mut Base,
        direct: &mut Direct,
        now: Nanos,
        handler: &mut impl Handler,
    ) {
        let transport = T::of(&mut self.incoming);
        transport.send_feedback(base, now);
        let due = transport.sessions_mut().take_due(now);
        for &at in &due {
            let mut bridge = Bridge { streams: &mut self.streams, handler, now };
            if T::of(&mut self.incoming).sessions_mut().on_wakeup(at, now, &mut bridge) {
                self.end::<T>(base, direct, at, handler);
            }
        }
        let transport = T::of(&mut self.incoming);
        transport.sessions_mut().give_back_due(due);
        transport.send_feedback(base, now);
    }

    /// The session goes on in its place, with the source's next run as a rule: its streams end, and begin with the
    /// oldest that the source has.
    #[cold]
    fn restart<T: InContext>(
        &mut self,
        base: &mut Base,
        direct: &mut Direct,
        at: usize,
        handler: &mut impl Handler,
    ) -> Result<(), ConfigError> {
        let transport = T::of(&mut self.incoming);
        let sessions = transport.sessions();
        let (run, reason, goes_on) = (sessions.run(at), sessions.end_reason(at), sessions.goes_on(at));
        let mut receiver = transport.new_in_place(base, at)?;
        receiver.succeed(&transport.sessions()[at].receiver);
        self.next_session += 1;
        transport.sessions_mut().replace(at, receiver, self.next_session);
        self.begin_anew(base, direct, T::session_ref(at), run, (reason, goes_on), handler);
        Ok(())
    }

    /// Ends a session, unless something of it is still asked for. Whether another one has taken its place.
    pub(super) fn end<T: InContext>(
        &mut self,
        base: &mut Base,
        direct: &mut Direct,
        at: usize,
        handler: &mut impl Handler,
    ) -> bool {
        let session = T::session_ref(at);
        let transport = T::of(&mut self.incoming);
        if transport.sessions().end_reason(at) == EndReason::Ended {
            transport.on_ended(at);
        }
        if transport.stays(base, at) && self.restart::<T>(base, direct, at, handler).is_ok() {
            return true;
        }
        let recovery = self.incoming.recovery_of(session);
        if recovery.is_some_and(|recovery| !recovery.requester.is_idle()) {
            return false;
        }
        self.forget_recovery(base, direct, session);
        let transport = T::of(&mut self.incoming);
        let sessions = transport.sessions();
        let (reason, next, was_heard) =
            (sessions.end_reason(at), sessions.next_number(at), sessions.is_heard(at));
        if let Some(name) = transport.close(base, at) {
            if T::CONNECTS {
                self.gate.on_unreached(base, &name, was_heard);
            }
            self.end_session(base, session, &name, reason, handler);
            self.departed.set_next(&(name, None), next);
        }
        false
    }
}

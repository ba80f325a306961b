//! Sessions of the transports that repair what is lost: LBT-RM and LBT-RU.

use std::net::SocketAddrV4;
use std::time::Duration;

use lbt::config::{ConfigError, ReceiverConfig};
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
use crate::incoming::Look;
use crate::session::SessionRef;
use crate::stream::Bridge;

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

    /// Takes what has arrived on a group's socket, up to one batch; false if that was nothing.
    pub(crate) fn on_group_ready(
        &mut self,
        base: &mut Base,
        direct: &mut Direct,
        now: Nanos,
        index: usize,
        look: Look,
        handler: &mut impl Handler,
    ) -> bool {
        let Some(mut batch) = base.batch.take() else { return false };
        let worked = self.receive_group(base, direct, now, (index, look), &mut batch, handler);
        base.batch = Some(batch);
        if worked && look == Look::Told {
            self.incoming.rm.send_feedback(base, now);
        }
        worked
    }

    fn receive_group(
        &mut self,
        base: &mut Base,
        direct: &mut Direct,
        now: Nanos,
        (index, look): (usize, Look),
        batch: &mut ReceiveBatch,
        handler: &mut impl Handler,
    ) -> bool {
        let Some(socket) = self.incoming.rm.socket(index) else { return false };
        let Ok(received) = look.at(socket, batch) else {
            base.counters.context.receives_failed.inc();
            return false;
        };
        if received.is_empty() {
            return false;
        }
        base.took_batch = received.is_full();
        for (from, datagram) in received.datagrams() {
            self.on_session_datagram(base, direct, now, from, datagram, handler);
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
            worked |= self.on_group_ready(base, direct, now, index, Look::Direct, handler);
            place += 1;
        }
        worked
    }

    #[inline]
    pub(crate) fn on_session_datagram(
        &mut self,
        base: &mut Base,
        direct: &mut Direct,
        now: Nanos,
        from: SocketAddrV4,
        datagram: &[u8],
        handler: &mut impl Handler,
    ) {
        let found = rm::SessionKey::of(*from.ip(), datagram).and_then(|key| self.incoming.rm.find_next(key));
        let Some(at) = found else {
            base.counters.context.unknown_datagrams.inc();
            return;
        };
        let mut bridge = Bridge { streams: &mut self.streams, handler, now };
        if self.incoming.rm.sessions.on_datagram(at, now, from, datagram, &mut bridge) {
            self.look_at_rm(base, direct, at, from, datagram, handler);
        }
    }

    /// A datagram has ended a session. If it is the first that was heard of the next one in its place, it is taken.
    #[cold]
    #[inline(never)]
    fn end_rm_by(
        &mut self,
        base: &mut Base,
        direct: &mut Direct,
        at: usize,
        from: SocketAddrV4,
        datagram: &[u8],
        handler: &mut impl Handler,
    ) {
        let now = base.now;
        let has_restarted = self.incoming.rm.sessions.end_reason(at) == EndReason::Restarted;
        if self.end_rm(base, direct, at, handler) && has_restarted {
            let mut bridge = Bridge { streams: &mut self.streams, handler, now: base.now };
            if self.incoming.rm.sessions.on_datagram(at, now, from, datagram, &mut bridge)
                && self.incoming.rm.has_ended(base, at)
            {
                self.end_rm(base, direct, at, handler);
            }
        }
    }

    pub(super) fn wake_rm(
        &mut self,
        base: &mut Base,
        direct: &mut Direct,
        now: Nanos,
        handler: &mut impl Handler,
    ) {
        self.incoming.rm.send_feedback(base, now);
        let due = self.incoming.rm.sessions.take_due(now);
        for &at in &due {
            let mut bridge = Bridge { streams: &mut self.streams, handler, now };
            if self.incoming.rm.sessions.on_wakeup(at, now, &mut bridge) {
                self.end_rm(base, direct, at, handler);
            }
        }
        self.incoming.rm.sessions.give_back_due(due);
        self.incoming.rm.send_feedback(base, now);
    }

    /// The session goes on in its place, with the source's next run as a rule: its streams end, and begin with the
    /// oldest that the source has.
    #[cold]
    fn restart_rm(
        &mut self,
        base: &mut Base,
        direct: &mut Direct,
        at: usize,
        handler: &mut impl Handler,
    ) -> Result<(), ConfigError> {
        let (run, reason) = (self.incoming.rm.sessions.run(at), self.incoming.rm.sessions.end_reason(at));
        let goes_on = self.incoming.rm.sessions.goes_on(at);
        // Of one that was never heard nothing is asked for.
        let late_start = self.incoming.rm.sessions.is_heard(at) || self.incoming.rm.sessions.knows_runs(at);
        let (key, second) = (
            self.incoming.rm.sessions[at].receiver.key(),
            self.incoming.rm.sessions[at].receiver.second_source(),
        );
        let mut receiver =
            self.incoming.rm.new_rm(base, key, &ReceiverConfig { late_start, ..base.config.receiver() })?;
        receiver.succeed(&self.incoming.rm.sessions[at].receiver);
        if let Some(second) = second {
            let silence = Duration::from_micros(base.config.lbtrm.network_silence_timeout_us);
            receiver.add_network(second, silence, base.counters.networks.clone());
        }
        self.next_session += 1;
        self.incoming.rm.sessions.replace(at, receiver, self.next_session);
        self.begin_anew(base, direct, SessionRef::Rm(at), run, (reason, goes_on), handler);
        Ok(())
    }

    /// A session is over, or something is to be told of it.
    #[cold]
    #[inline(never)]
    fn look_at_rm(
        &mut self,
        base: &mut Base,
        direct: &mut Direct,
        at: usize,
        from: SocketAddrV4,
        datagram: &[u8],
        handler: &mut impl Handler,
    ) {
        if self.incoming.rm.has_ended(base, at) {
            self.end_rm_by(base, direct, at, from, datagram, handler);
        }
    }

    /// Ends a session, unless something of it is still asked for. Whether another one has taken its place.
    pub(super) fn end_rm(
        &mut self,
        base: &mut Base,
        direct: &mut Direct,
        at: usize,
        handler: &mut impl Handler,
    ) -> bool {
        let session = SessionRef::Rm(at);
        if self.incoming.rm.stays(base, at) && self.restart_rm(base, direct, at, handler).is_ok() {
            return true;
        }
        let recovery = self.incoming.recovery_of(session);
        if recovery.is_some_and(|recovery| !recovery.requester.is_idle()) {
            return false;
        }
        self.forget_recovery(base, direct, session);
        let reason = self.incoming.rm.sessions.end_reason(at);
        let next = self.incoming.rm.sessions.next_number(at);
        if let Some(transport) = self.incoming.rm.close(at, &base.registrar, &mut base.xdp) {
            self.end_session(base, session, &transport, reason, handler);
            self.departed.set_next(&(transport, None), next);
        }
        false
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
        self.incoming.ru.send_ru(base, now);
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
            self.incoming.ru.send_ru(base, now);
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
        let Some(socket) = self.incoming.ru.socket() else { return false };
        let Ok(received) = look.at(socket, batch) else {
            base.counters.context.receives_failed.inc();
            return false;
        };
        base.took_batch = received.is_full();
        for (from, datagram) in received.datagrams() {
            let Some(at) = self.incoming.ru.find_next(from) else {
                base.counters.context.unknown_datagrams.inc();
                continue;
            };
            let mut bridge = Bridge { streams: &mut self.streams, handler, now };
            if self.incoming.ru.sessions.on_datagram(at, now, from, datagram, &mut bridge) {
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
        let has_restarted = self.incoming.ru.sessions.end_reason(at) == EndReason::Restarted;
        if self.end_ru(base, direct, at, handler) && has_restarted {
            let mut bridge = Bridge { streams: &mut self.streams, handler, now: base.now };
            if self.incoming.ru.sessions.on_datagram(at, now, from, datagram, &mut bridge)
                && self.incoming.ru.has_ended(base, at)
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
        self.incoming.ru.send_ru(base, now);
        let due = self.incoming.ru.sessions.take_due(now);
        for &at in &due {
            let mut bridge = Bridge { streams: &mut self.streams, handler, now };
            if self.incoming.ru.sessions.on_wakeup(at, now, &mut bridge) {
                self.end_ru(base, direct, at, handler);
            }
        }
        self.incoming.ru.sessions.give_back_due(due);
        self.incoming.ru.send_ru(base, now);
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
        let (run, reason) = (self.incoming.ru.sessions.run(at), self.incoming.ru.sessions.end_reason(at));
        let goes_on = self.incoming.ru.sessions.goes_on(at);
        let key = self.incoming.ru.sessions[at].receiver.key();
        let mut config = base.config.lbtru_receiver();
        config.session.late_start = true;
        let mut receiver = self.incoming.ru.new_ru(base, key, &config)?;
        receiver.succeed(&self.incoming.ru.sessions[at].receiver);
        self.next_session += 1;
        self.incoming.ru.sessions.replace(at, receiver, self.next_session);
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
        if self.incoming.ru.has_ended(base, at) {
            self.end_ru_by(base, direct, at, from, datagram, handler);
        }
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
        if self.incoming.ru.sessions.end_reason(at) == EndReason::Ended {
            self.incoming.ru.leave(at);
        }
        if self.incoming.ru.stays(base, at) && self.restart_ru(base, direct, at, handler).is_ok() {
            return true;
        }
        let recovery = self.incoming.recovery_of(session);
        if recovery.is_some_and(|recovery| !recovery.requester.is_idle()) {
            return false;
        }
        self.forget_recovery(base, direct, session);
        let reason = self.incoming.ru.sessions.end_reason(at);
        let next = self.incoming.ru.sessions.next_number(at);
        let was_heard = self.incoming.ru.sessions.is_heard(at);
        if let Some(transport) = self.incoming.ru.close(at) {
            self.gate.on_unreached(base, &transport, was_heard);
            self.end_session(base, session, &transport, reason, handler);
            self.departed.set_next(&(transport, None), next);
        }
        false
    }
}

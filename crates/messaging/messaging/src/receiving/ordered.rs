//! Sessions of the transports that bring bytes in order: TCP and shared memory.

use lbt::delivery::EndReason;
use units::Nanos;

use super::Receiving;
use crate::Handler;
use crate::base::Base;
use crate::direct::Direct;
use crate::incoming::{Looked, TURNS_PER_DRAIN};
use crate::session::SessionRef;

impl Receiving {
    /// Looks at every connection once.
    pub(crate) fn poll_tcp(
        &mut self,
        base: &mut Base,
        direct: &mut Direct,
        handler: &mut impl Handler,
    ) -> bool {
        let mut worked = false;
        for at in 0..self.incoming.tcp.capacity() {
            if self.incoming.tcp.is_established(at) {
                worked |= self.read_tcp(base, direct, at, handler);
            }
        }
        worked
    }

    /// Reads what has arrived of a session.
    pub(crate) fn read_tcp(
        &mut self,
        base: &mut Base,
        direct: &mut Direct,
        at: usize,
        handler: &mut impl Handler,
    ) -> bool {
        let (worked, is_over) = self.incoming.tcp.read(base, &mut self.streams, at, handler);
        if is_over {
            self.end_tcp(base, direct, at, handler);
        }
        worked
    }

    #[cold]
    pub(super) fn end_tcp(
        &mut self,
        base: &mut Base,
        direct: &mut Direct,
        at: usize,
        handler: &mut impl Handler,
    ) {
        let Some(ended) = self.incoming.tcp.end(base, &mut self.streams, at, handler) else { return };
        if !ended.was_established {
            // Nothing was heard of it: there is nothing to be complete.
            self.forget_recovery(base, direct, SessionRef::Tcp(at));
        }
        self.gate.on_unreached(base, &ended.transport, ended.was_heard);
        self.note_recovery(base, SessionRef::Tcp(at));
        self.finish_ordered(base, direct, SessionRef::Tcp(at), handler);
    }

    /// Looks at every ring once that is awake, or at all.
    #[inline]
    pub(crate) fn poll_ipc(
        &mut self,
        base: &mut Base,
        direct: &mut Direct,
        handler: &mut impl Handler,
    ) -> bool {
        !self.incoming.ipc.is_empty() && self.poll_rings(base, direct, handler)
    }

    fn poll_rings(&mut self, base: &mut Base, direct: &mut Direct, handler: &mut impl Handler) -> bool {
        let Looked { worked, over, has_idle } = self.incoming.ipc.read(base, &mut self.streams, handler);
        if let Some((at, reason)) = over {
            self.end_ipc(base, direct, at, reason, handler);
        }
        if has_idle {
            self.incoming.ipc.let_idle_rest(base);
        }
        worked
    }

    /// Reads all rings until they are empty, and lets the sources know that this thread may sleep: for
    /// threads that wait in a poller of their own. What sources write as fast as it is read has its next turn behind
    /// what else is due.
    #[inline]
    pub(crate) fn drain_ipc(
        &mut self,
        base: &mut Base,
        direct: &mut Direct,
        now: Nanos,
        handler: &mut impl Handler,
    ) {
        if !self.incoming.ipc.is_empty() {
            self.drain_rings(base, direct, now, handler);
        }
    }

    fn drain_rings(&mut self, base: &mut Base, direct: &mut Direct, now: Nanos, handler: &mut impl Handler) {
        for _ in 0..TURNS_PER_DRAIN {
            self.poll_rings(base, direct, handler);
            // Not while there is something to read still.
            if self.incoming.ipc.before_sleep(now) {
                return;
            }
        }
        self.incoming.ipc.read_on(now);
    }

    pub(super) fn wake_ipc(
        &mut self,
        base: &mut Base,
        direct: &mut Direct,
        now: Nanos,
        handler: &mut impl Handler,
    ) {
        while let Some((at, reason)) = self.incoming.ipc.next_over(base, now) {
            self.end_ipc(base, direct, at, reason, handler);
        }
    }

    #[cold]
    fn end_ipc(
        &mut self,
        base: &mut Base,
        direct: &mut Direct,
        at: usize,
        reason: EndReason,
        handler: &mut impl Handler,
    ) {
        if self.incoming.ipc.end(base.now, &mut self.streams, (at, reason), handler) {
            self.note_recovery(base, SessionRef::Ipc(at));
            self.finish_ordered(base, direct, SessionRef::Ipc(at), handler);
        }
    }

    /// Forgets a session that is over, unless something of it is still asked for.
    pub(super) fn finish_ordered(
        &mut self,
        base: &mut Base,
        direct: &mut Direct,
        session: SessionRef,
        handler: &mut impl Handler,
    ) {
        let ended = match session {
            SessionRef::Tcp(at) => self.incoming.tcp.ended(at),
            SessionRef::Ipc(at) => self.incoming.ipc.ended(at),
            SessionRef::Rm(_) | SessionRef::Ru(_) => None,
        };
        let Some(reason) = ended else { return };
        if self.incoming.recovery_of(session).is_some_and(|recovery| !recovery.requester.is_idle()) {
            return;
        }
        self.forget_recovery(base, direct, session);
        let closed = match session {
            SessionRef::Tcp(at) => self.incoming.tcp.close(at),
            SessionRef::Ipc(at) => self.incoming.ipc.close(at),
            SessionRef::Rm(_) | SessionRef::Ru(_) => None,
        };
        if let Some(transport) = closed {
            self.end_session(base, session, &transport, reason, handler);
        }
    }
}

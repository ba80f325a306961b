//! What becomes of a context that was not driven for a while: its process was stopped, or its thread had no
//! CPU.
//!
//! Messages that came meanwhile wait in the sockets' buffers. A late turn reads these before any timer judges:
//! a session that spoke is not silent, what was asked for may be there. Who is still not heard, because he was
//! stopped as well, gets a part of his time-out anew. What the buffers had no room for is missing like any
//! other datagram: it is asked for again, or reported as lost.
//!
//! `tests/pauses.rs` shows it for every transport.

use std::time::Duration;

use net::Ready;
use units::Nanos;

use crate::Handler;
use crate::context::{Context, Port};
use crate::incoming::Look;
use crate::outgoing::OutgoingKind;
use crate::source::Current;

/// A turn that comes so much later than it was due comes after a pause.
const PAUSE_MIN: Duration = Duration::from_millis(200);
/// Batches read of one socket; more than a socket's buffer holds, and a bound where a sender is faster than
/// this.
const BATCHES_MAX: usize = 4_096;

impl Context {
    /// Timers are about to judge. After a pause everything that has arrived is taken before.
    #[inline]
    pub(crate) fn end_pause(&mut self, now: Nanos, handler: &mut impl Handler) {
        if now.since(self.woken_at) >= PAUSE_MIN {
            self.look_back(now, handler);
        }
        self.woken_at = now;
    }

    #[cold]
    #[inline(never)]
    fn look_back(&mut self, now: Nanos, handler: &mut impl Handler) {
        self.rm_in.sessions.refresh(now);
        self.ru_in.sessions.refresh(now);
        // A context that had nothing to do was not late, but a session may be about to be judged.
        let is_late = now.since(self.protocol_wakeup().max(self.woken_at)) >= PAUSE_MIN;
        if !is_late && self.incoming_wakeup() > now {
            return;
        }
        self.counters.context.late_turns.add(is_late.into());
        self.take_all(now, handler);
        if !is_late {
            return;
        }
        self.rm_in.sessions.after_pause(now);
        self.ru_in.sessions.after_pause(now);
        for (at, outgoing) in &mut self.outgoing {
            if let OutgoingKind::Ru(session) = &mut outgoing.kind {
                session.after_pause(now);
                self.turns.stir(at);
                self.current = Current::default();
            }
        }
    }

    /// Reads every socket until nothing is left.
    fn take_all(&mut self, now: Nanos, handler: &mut impl Handler) {
        for _ in 0..BATCHES_MAX {
            let mut worked = self.poll_xdp(now, handler);
            worked |= self.poll_groups(now, handler);
            worked |= self.on_ru_ready(now, Look::Direct, handler);
            worked |= self.poll_tcp(handler);
            // A ring is not judged before it was read to its end, however many turns that takes.
            self.poll_ipc(handler);
            if !worked {
                break;
            }
        }
        for at in 0..self.outgoing.capacity() {
            for _ in 0..BATCHES_MAX {
                if !self.on_outgoing_ready(now, at, handler) {
                    break;
                }
            }
        }
        for at in 0..self.direct.connections.capacity() {
            let token = self.token(Port::Connection, at);
            self.on_connection_ready(at, Ready { token, readable: true, writable: false }, handler);
        }
    }
}

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

use super::Context;
use crate::Handler;
use crate::base::Port;

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
        self.receiving.refresh(now);
        // A context that had nothing to do was not late, but a session may be about to be judged.
        let is_late = now.since(self.protocol_wakeup().max(self.woken_at)) >= PAUSE_MIN;
        if !is_late && self.receiving.incoming_wakeup() > now {
            return;
        }
        self.base.counters.context.late_turns.add(is_late.into());
        self.take_all(now, handler);
        if !is_late {
            return;
        }
        self.receiving.after_pause(now);
        self.publishing.after_pause(now);
    }

    /// Reads every socket until nothing is left.
    fn take_all(&mut self, now: Nanos, handler: &mut impl Handler) {
        for _ in 0..BATCHES_MAX {
            let mut worked = self.poll_xdp(now, handler);
            worked |= self.poll_data(now, handler);
            // A ring is not judged before it was read to its end, however many turns that takes.
            self.receiving.poll_ipc(&mut self.base, &mut self.direct, handler);
            if !worked {
                break;
            }
        }
        self.publishing.take_all(&mut self.base, now, BATCHES_MAX, handler);
        for at in 0..self.direct.connection_places() {
            let token = self.base.token(Port::Connection, at);
            self.direct.on_connection_ready(
                &mut self.base,
                &mut self.receiving,
                at,
                Ready { token, readable: true, writable: false },
                handler,
            );
        }
        self.receiving.take_told(&mut self.base, &mut self.direct, handler);
    }
}

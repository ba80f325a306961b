//! Datagrams of AF_XDP.

use units::Nanos;

use super::Context;
use crate::Handler;
use crate::incoming::{ReliableIncoming, RmIncoming};

impl Context {
    /// The poller has told that something is there.
    pub(crate) fn on_xdp_ready(&mut self, now: Nanos, handler: &mut impl Handler) {
        if self.poll_xdp(now, handler) {
            self.receiving.incoming.rm.send_feedback(&self.base, now);
        }
    }

    /// Takes what has arrived, in this one's turn; false if that was nothing.
    #[inline]
    pub(crate) fn poll_xdp(&mut self, now: Nanos, handler: &mut impl Handler) -> bool {
        if self.base.xdp.is_open() { self.receive_xdp(now, handler) } else { false }
    }

    fn receive_xdp(&mut self, now: Nanos, handler: &mut impl Handler) -> bool {
        let Some(mut socket) = self.base.xdp.take() else { return false };
        let mut worked = false;
        match socket.receive() {
            Ok(received) => {
                self.base.took_batch = received.is_full();
                for datagram in received.datagrams() {
                    worked = true;
                    if datagram.to.ip().is_multicast() {
                        self.receiving.on_session_datagram::<RmIncoming>(
                            &mut self.base,
                            &mut self.direct,
                            now,
                            datagram.from,
                            datagram.payload,
                            handler,
                        );
                    } else {
                        self.publishing.on_nak(
                            &mut self.base,
                            now,
                            datagram.from,
                            datagram.to,
                            datagram.payload,
                        );
                    }
                }
            }
            // The interface is gone, and with it the sessions, which time out.
            Err(_) => self.base.counters.context.receives_failed.inc(),
        }
        self.base.xdp.put_back(socket);
        worked
    }
}

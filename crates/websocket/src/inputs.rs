//! What both ends are driven by.

/// Gives a connection the inputs and outputs of its [`Link`](crate::link::Link), which is its first field.
macro_rules! inputs {
    ($connection:ident) => {
        impl $connection {
            /// Takes what the socket had to read, in pieces of any size, and tells the handler what it
            /// brings. The bytes can be overwritten afterwards.
            ///
            /// # Errors
            /// Why the connection is over; the same again on every further call.
            pub fn on_bytes<H: Handler + ?Sized>(
                &mut self,
                now: Nanos,
                bytes: &[u8],
                handler: &mut H,
            ) -> Result<(), CloseReason> {
                self.0.on_bytes(now, bytes, handler)
            }

            /// The peer has shown that it lives though nothing is read from it for now.
            pub fn on_sign_of_life(&mut self, now: Nanos) {
                self.0.on_sign_of_life(now);
            }

            /// Looks after pings and time-outs. Read the socket first when both are due: what waits there
            /// counts as heard.
            ///
            /// # Errors
            /// Why the connection is over.
            pub fn on_wakeup(&mut self, now: Nanos) -> Result<(), CloseReason> {
                self.0.on_wakeup(now)
            }

            /// The TCP connection has ended.
            pub fn on_disconnected(&mut self, cause: Disconnect) -> CloseReason {
                self.0.on_disconnected(cause)
            }

            /// Ends the connection by this side's wish, with a close frame. What was pushed before is still
            /// pending.
            pub fn stop(&mut self, stop: Stop) -> CloseReason {
                self.0.stop(stop)
            }

            /// When [`on_wakeup`](Self::on_wakeup) is due; [`Nanos::NEVER`] after the end.
            #[must_use]
            pub fn next_wakeup(&self) -> Nanos {
                self.0.next_wakeup()
            }

            /// The way out.
            #[must_use]
            pub fn outbound(&mut self) -> &mut Outbound {
                self.0.outbound()
            }

            /// Why the connection is over, if it is.
            #[must_use]
            pub fn close_reason(&self) -> Option<CloseReason> {
                self.0.close_reason()
            }

            /// Memory this connection uses, heap and its own size.
            #[must_use]
            pub fn memory_bytes(&self) -> usize {
                self.0.memory_bytes()
            }
        }
    };
}

pub(crate) use inputs;

use super::{Phase, Receiver};
use crate::delivery::{DeliverySink, EndReason};
use crate::error::WireError;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::time::Duration;
use units::{Nanos, Sqn};

/// What a transport adds to the [`Receiver`] of a session: its packets, and what else it says to the source.
pub trait ReceiverTransport: Sized {
    /// Address of the source.
    fn source(&self) -> Ipv4Addr;

    /// Takes a datagram.
    ///
    /// # Errors
    /// What is wrong with it; nothing of it was delivered.
    fn take<S: DeliverySink>(
        session: &mut Receiver<Self>,
        now: Nanos,
        from: SocketAddrV4,
        datagram: &[u8],
        sink: &mut S,
    ) -> Result<(), WireError>;

    /// A datagram was not taken; whether the session counts why.
    fn on_refused(&mut self, _: &WireError) -> bool {
        true
    }

    /// Why the session is over that is in this phase, if the transport says so; the source was last heard at `heard`.
    fn failure(&self, now: Nanos, phase: Phase, heard: Nanos) -> Option<EndReason>;

    /// When the transport has something to do besides.
    fn due(&self, phase: Phase, heard: Nanos) -> Nanos;

    /// Whoever drives this was stopped. Returns the time-out of a silent source, if another one than the session's
    /// applies in this phase.
    fn after_pause(&mut self, now: Nanos, phase: Phase) -> Option<Duration>;

    /// When the transport may have something to say itself; it may be early.
    #[inline]
    fn write_due_at(&self) -> Nanos {
        Nanos::NEVER
    }

    /// Writes to `out` what the transport has to say itself, if it is due; the highest number that was heard of is
    /// `highest`.
    fn write_due(&mut self, _now: Nanos, _highest: Sqn, _out: &mut Vec<u8>) -> bool {
        false
    }

    /// Writes a NAK of some numbers to `out`.
    fn write_nak(&self, numbers: &[Sqn], out: &mut Vec<u8>);

    /// Writes a NAK of no numbers to `out`, to which is appended what else a receiver says.
    fn write_empty_nak(&self, out: &mut Vec<u8>);

    /// Where what was written is to go next, and whether that is on the second network of a session that has two.
    fn feedback_to(&mut self) -> (SocketAddrV4, bool);
}

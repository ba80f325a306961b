use super::packer::Packer;
use super::transmitter::Transmitter;
use crate::error::WireError;
use std::net::SocketAddrV4;
use units::{Nanos, Sqn};

/// What a transport adds to the [`Source`](super::Source) of a session: how DATA begins, whom datagrams go to, and what
/// receivers send.
pub trait SourceTransport {
    /// Bytes before the first LBMC message of a datagram.
    const DATA_HEADER_LEN: usize;

    /// Writes the header of a new datagram to the first [`SourceTransport::DATA_HEADER_LEN`] bytes of `out`.
    fn emit_data_header(&self, sqn: Sqn, trail: Sqn, out: &mut [u8]);

    /// Sets the flag of a retransmission, and the present trailing edge, in a datagram that goes out again.
    fn mark_retransmission(trail: Sqn, datagram: &mut [u8]);

    /// What was handed out, and what was begun with it, is gone from the window.
    fn forget_lent(&mut self);

    /// Writes what it keeps for sending once, so that no page of it is first touched while sending.
    fn prefault(&mut self) {}

    /// Takes a datagram that arrived at the session's port; `is_ending` where the session was ended.
    ///
    /// # Errors
    /// It is no datagram of the transport, not signed where it must be, or for another session.
    fn on_datagram(
        &mut self,
        packer: &mut Packer,
        transmitter: &mut Transmitter,
        now: Nanos,
        from: SocketAddrV4,
        datagram: &[u8],
        is_ending: bool,
    ) -> Result<(), WireError>;

    /// Takes the first `count` datagrams of what was handed out last as sent.
    fn sent(&mut self, packer: &mut Packer, transmitter: &mut Transmitter, now: Nanos, count: u32);

    /// Does what is due besides closing datagrams and announcing.
    fn on_wakeup(&mut self, _: &mut Packer, _: &mut Transmitter, _: Nanos) {}

    /// Whoever drives the session was stopped, and has taken what arrived meanwhile.
    fn after_pause(&mut self, _: Nanos) {}

    /// When there is something to transmit, or to do besides.
    fn next_due(&self, packer: &Packer, transmitter: &Transmitter) -> Nanos;

    /// Whether a retransmission or a NAK confirmation waits to be sent.
    fn owes_answers(&self) -> bool;

    /// Whether nobody waits for an answer, and nothing goes out in several steps of which some are left.
    fn is_idle(&self) -> bool;

    /// Memory held.
    fn memory_bytes(&self) -> usize;
}

use units::Sqn;

/// How DATA begins on one transport.
pub trait Framing {
    /// Bytes before the first LBMC message of a datagram.
    const DATA_HEADER_LEN: usize;

    /// Writes the header of a new datagram to the first [`Framing::DATA_HEADER_LEN`] bytes of `out`.
    fn emit_data_header(&self, sqn: Sqn, trail: Sqn, out: &mut [u8]);

    /// Bytes at the end of each datagram that [`Framing::seal`] writes; none unless the transport has some.
    #[inline]
    fn seal_len(&self) -> usize {
        0
    }

    /// Writes the last [`Framing::seal_len`] bytes of a whole datagram, once its header is written.
    fn seal(&self, _datagram: &mut [u8]) {}

    /// Sets the flag of a retransmission, and the present trailing edge, in a datagram that goes out again.
    fn mark_retransmission(trail: Sqn, datagram: &mut [u8]);

    /// What was handed out, and what was begun with it, is gone from the window.
    fn forget_lent(&mut self);
}

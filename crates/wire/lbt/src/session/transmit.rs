/// Datagrams to be sent: `count` of them in one slice, each `segment_len` long except that the last may be
/// shorter. That is the shape UDP segmentation offload takes.
#[derive(Clone, Copy, Debug)]
pub struct Transmit<'a> {
    /// The datagrams, one behind the other.
    pub bytes: &'a [u8],
    /// Length of each but the last.
    pub segment_len: usize,
    /// How many.
    pub count: u32,
}

impl<'a> Transmit<'a> {
    /// One datagram.
    pub(crate) fn one(datagram: &'a [u8]) -> Transmit<'a> {
        Transmit { bytes: datagram, segment_len: datagram.len(), count: 1 }
    }

    /// The datagrams one by one.
    pub fn datagrams(&self) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        self.bytes.chunks(self.segment_len)
    }
}

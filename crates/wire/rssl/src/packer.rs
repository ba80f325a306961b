use std::ops::Range;

use crate::compression::{Compression, Compressor};
use crate::config::{MESSAGE_SIZE_LEAST_BYTES, MESSAGE_SIZE_MOST_BYTES, in_range};
use crate::frame::{FragmentIds, HEADER_BYTES, extended_flag, flag};
use crate::{ApiMisuse, ConfigError, ConnectionVersion};

/// Length of the prefix each message has in a packed frame.
const PREFIX_BYTES: usize = 2;

/// Most fragments of a message need no more than this beside their data.
const FIRST_FRAGMENT_HEADER_MOST_BYTES: usize = 10;
const NEXT_FRAGMENT_HEADER_MOST_BYTES: usize = 6;

/// Appends messages to a byte vector as the frames of one connection.
///
/// Messages share a packed frame until the maximum user message size is reached. The frame is open until the
/// next message does not fit or [`Packer::close`] is called; a message that stayed alone in its frame then
/// becomes an ordinary one. A message above the maximum size is cut into fragments at once.
///
/// With compression every frame stays open until the next push or close, which compresses it: until then its
/// messages are there in clear, and their copies can be written to.
///
/// Between the first [`push`](Packer::push) and the [`close`](Packer::close) after it, `out` must be the same
/// vector and nobody else may change its length. One packer serves one connection, because fragment ids count
/// up over the life of the connection; [`Outbound`](crate::Outbound) holds the packer of a connection and
/// keeps these rules.
///
/// ```
/// # use tickcast_rssl::{ConnectionVersion, Packer};
/// let mut packer = Packer::new(ConnectionVersion::V14, 6144)?;
/// let mut out = Vec::new();
/// for stream_id in [5u32, 6] {
///     let copy = packer.push(&mut out, b"\0\x08\x05\x06....\0\0")?;
///     out[copy][4..8].copy_from_slice(&stream_id.to_be_bytes());
/// }
/// packer.close(&mut out);
/// assert_eq!(&out[..5], [0, 27, 0x12, 0, 10]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Packer {
    /// Longest message the open frame can still take; 0 when no frame is open.
    room: usize,
    /// Messages in the open frame; 0 when no frame is open.
    in_frame: u64,
    /// Where the open frame starts in `out`.
    start: usize,
    /// Maximum user message size; 0 before the handshake has set it and after the connection has been closed.
    size_max: usize,
    ids: FragmentIds,
    last_id: u16,
    /// What stands from `start` on is finished and waits to be compressed.
    waits: bool,
    compressor: Option<Box<Compressor>>,
    written: Written,
}

/// What a packer has written, in frames that are closed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Written {
    /// Frames of all kinds.
    pub frames: u64,
    /// Messages in them.
    pub messages: u64,
    /// Frames that hold several messages.
    pub packed_frames: u64,
    /// Messages in those.
    pub packed_messages: u64,
    /// Frames that hold a fragment.
    pub fragments: u64,
    /// Messages that were cut into fragments.
    pub fragmented_messages: u64,
    /// Payloads that were compressed.
    pub compressed_frames: u64,
    /// Bytes of these.
    pub compressed_bytes: u64,
    /// Bytes of these before compression.
    pub expanded_bytes: u64,
    /// Compressed payloads that went in two frames.
    pub split_payloads: u64,
}

impl Packer {
    /// A packer for a connection on which `version` and `size_max` (maximum user message size, bytes) were
    /// agreed.
    ///
    /// # Errors
    /// [`ConfigError::OutOfRange`] if the size is below 64 or above 65,532.
    pub fn new(version: ConnectionVersion, size_max: u16) -> Result<Packer, ConfigError> {
        in_range("size_max", size_max, MESSAGE_SIZE_LEAST_BYTES, MESSAGE_SIZE_MOST_BYTES)?;
        Ok(Packer { size_max: usize::from(size_max), ids: version.fragment_ids(), ..Packer::inactive() })
    }

    /// The same for a connection on which compression was agreed.
    pub(crate) fn compressing(
        version: ConnectionVersion,
        size_max: u16,
        how: Compression,
    ) -> Result<Packer, ConfigError> {
        let packer = Packer::new(version, size_max)?;
        let compressor = Compressor::new(how, packer.size_max + HEADER_BYTES, packer.ids);
        Ok(Packer { compressor, ..packer })
    }

    /// A packer that refuses every message.
    pub(crate) fn inactive() -> Packer {
        Packer {
            room: 0,
            in_frame: 0,
            start: 0,
            size_max: 0,
            ids: FragmentIds::TwoBytes,
            last_id: 0,
            waits: false,
            compressor: None,
            written: Written::default(),
        }
    }

    pub(crate) fn is_active(&self) -> bool {
        self.size_max > 0
    }

    /// Appends `message` and tells where its copy stands in `out`, so that the caller can write its stream id
    /// into the copy. Of a fragmented message it is the part in the first fragment, which is at least 57
    /// bytes long.
    ///
    /// The place is valid until the next call.
    ///
    /// # Errors
    /// [`ApiMisuse`] for a message of zero bytes or one of 4 GiB or more; `out` is then as after a close.
    #[inline]
    pub fn push(&mut self, out: &mut Vec<u8>, message: &[u8]) -> Result<Range<usize>, ApiMisuse> {
        // One comparison for: not empty, a frame is open, and the message fits into it.
        if message.len().wrapping_sub(1) < self.room {
            self.room = self.room.saturating_sub(message.len() + PREFIX_BYTES);
            self.in_frame += 1;
            return Ok(append_packed(out, message));
        }
        self.push_into_new_frame(out, message)
    }

    /// Completes the open frame, if there is one. Then `out` holds whole frames only and can be sent.
    ///
    /// # Panics
    /// If `out` is not the vector that the messages of the open frame were pushed to.
    #[inline]
    pub fn close(&mut self, out: &mut Vec<u8>) {
        if self.in_frame > 0 {
            self.close_frame(out);
        }
        if self.waits {
            self.compress(out);
        }
    }

    /// Where the open frame starts in the vector given to [`Packer::push`]; `None` if no frame is open.
    #[must_use]
    pub fn open_frame(&self) -> Option<usize> {
        (self.in_frame > 0 || self.waits).then_some(self.start)
    }

    /// Most bytes that a message of `message_bytes` adds to the vector, all headers included.
    #[inline]
    #[must_use]
    pub fn framed_bytes_max(&self, message_bytes: usize) -> usize {
        if message_bytes <= self.size_max {
            let framed_bytes = message_bytes + HEADER_BYTES + PREFIX_BYTES;
            return if self.compressor.is_none() { framed_bytes } else { grown_bytes_max(framed_bytes, 1) };
        }
        let least_data =
            (self.size_max + HEADER_BYTES).saturating_sub(FIRST_FRAGMENT_HEADER_MOST_BYTES).max(1);
        let further = message_bytes / least_data;
        let headers = further.saturating_mul(NEXT_FRAGMENT_HEADER_MOST_BYTES);
        let framed_bytes =
            message_bytes.saturating_add(headers).saturating_add(FIRST_FRAGMENT_HEADER_MOST_BYTES);
        if self.compressor.is_none() { framed_bytes } else { grown_bytes_max(framed_bytes, further + 1) }
    }

    /// Gives memory of the compressor back if it was not used since the last call.
    pub(crate) fn trim(&mut self) {
        if let Some(compressor) = &mut self.compressor {
            compressor.trim();
        }
    }

    /// Memory of the compressor, if there is one.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.compressor.as_ref().map_or(0, |compressor| compressor.memory_bytes())
    }

    /// What was written since this was last asked.
    pub fn take_written(&mut self) -> Written {
        std::mem::take(&mut self.written)
    }

    fn push_into_new_frame(&mut self, out: &mut Vec<u8>, message: &[u8]) -> Result<Range<usize>, ApiMisuse> {
        self.close(out);
        match message.len() {
            _ if !self.is_active() => Err(ApiMisuse::NotConnected),
            0 => Err(ApiMisuse::EmptyMessage),
            bytes if bytes > self.size_max => self.push_fragments(out, message),
            bytes if bytes + PREFIX_BYTES > self.size_max => Ok(self.push_alone(out, message)),
            bytes => {
                self.open(out);
                self.in_frame = 1;
                self.room = self.room.saturating_sub(bytes + PREFIX_BYTES);
                Ok(append_packed(out, message))
            }
        }
    }

    fn open(&mut self, out: &mut Vec<u8>) {
        self.start = out.len();
        self.room = self.size_max - PREFIX_BYTES;
        out.extend_from_slice(&[0, 0, flag::DATA | flag::PACKED]);
    }

    fn close_frame(&mut self, out: &mut Vec<u8>) {
        let start = self.start;
        let bytes = out.len().wrapping_sub(start);
        assert!(
            bytes > HEADER_BYTES + PREFIX_BYTES && bytes <= self.size_max + HEADER_BYTES,
            "close must get the vector that push has written to"
        );
        if self.in_frame == 1 {
            out.copy_within(start + HEADER_BYTES + PREFIX_BYTES.., start + HEADER_BYTES);
            out.truncate(out.len() - PREFIX_BYTES);
            out[start + 2] = flag::DATA;
        } else {
            self.written.packed_frames += 1;
            self.written.packed_messages += self.in_frame;
        }
        self.written.messages += self.in_frame;
        self.in_frame = 0;
        self.room = 0;
        self.seal(out, start);
    }

    /// A message that leaves no room for a second one and its two prefixes.
    fn push_alone(&mut self, out: &mut Vec<u8>, message: &[u8]) -> Range<usize> {
        let start = out.len();
        out.extend_from_slice(&[0, 0, flag::DATA]);
        let copy = append(out, message);
        self.start = start;
        self.written.messages += 1;
        self.seal(out, start);
        copy
    }

    fn push_fragments(&mut self, out: &mut Vec<u8>, message: &[u8]) -> Result<Range<usize>, ApiMisuse> {
        let Ok(total_bytes) = u32::try_from(message.len()) else {
            return Err(ApiMisuse::MessageTooLong { bytes: message.len(), limit_bytes: u32::MAX as usize });
        };
        out.reserve(self.framed_bytes_max(message.len()));
        let (start, id) = (out.len(), self.next_id());
        let frame_max = self.size_max + HEADER_BYTES;
        let (data, mut rest) = message.split_at(frame_max - self.ids.first_header_bytes());
        let total = total_bytes.to_be_bytes();
        let first = self.push_fragment(out, extended_flag::FIRST_FRAGMENT, &total, id, data);
        while !rest.is_empty() {
            let (data, later) = rest.split_at(rest.len().min(frame_max - self.ids.next_header_bytes()));
            self.push_fragment(out, extended_flag::NEXT_FRAGMENT, &[], id, data);
            rest = later;
        }
        self.start = start;
        self.written.messages += 1;
        self.written.fragmented_messages += 1;
        Ok(first)
    }

    fn push_fragment(
        &mut self,
        out: &mut Vec<u8>,
        kind: u8,
        total: &[u8],
        id: u16,
        data: &[u8],
    ) -> Range<usize> {
        let start = out.len();
        out.extend_from_slice(&[0, 0, flag::DATA | flag::EXTENDED, kind]);
        out.extend_from_slice(total);
        match self.ids {
            FragmentIds::OneByte => out.push(id as u8),
            FragmentIds::TwoBytes => out.extend_from_slice(&id.to_be_bytes()),
        }
        let copy = append(out, data);
        self.written.fragments += 1;
        self.seal(out, start);
        copy
    }

    /// Every finished frame passes here once, as the last bytes of `out`; its length is set.
    fn seal(&mut self, out: &mut [u8], start: usize) {
        let bytes = (out.len() - start) as u16;
        out[start..start + 2].copy_from_slice(&bytes.to_be_bytes());
        self.written.frames += 1;
        self.waits = self.compressor.is_some();
    }

    fn compress(&mut self, out: &mut Vec<u8>) {
        self.waits = false;
        if let Some(compressor) = &mut self.compressor {
            compressor.compress(out, self.start, &mut self.written);
        }
    }

    /// Ids count up and skip 0.
    fn next_id(&mut self) -> u16 {
        self.last_id = if self.last_id >= self.ids.last() { 1 } else { self.last_id + 1 };
        self.last_id
    }
}

/// Most bytes that frames of so many bytes can be after compression.
fn grown_bytes_max(bytes: usize, frames: usize) -> usize {
    bytes.saturating_add(Compressor::growth_bytes_max(bytes, frames))
}

#[inline]
fn append_packed(out: &mut Vec<u8>, message: &[u8]) -> Range<usize> {
    out.reserve(message.len() + PREFIX_BYTES);
    // A packed message is at most 65,530 bytes long: see the bounds of the maximum user message size.
    out.extend_from_slice(&(message.len() as u16).to_be_bytes());
    append(out, message)
}

#[inline]
fn append(out: &mut Vec<u8>, bytes: &[u8]) -> Range<usize> {
    let start = out.len();
    out.extend_from_slice(bytes);
    start..out.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packer(version: ConnectionVersion) -> Packer {
        Packer::new(version, 6144).expect("6144 is the usual size")
    }

    fn framed(packer: &mut Packer, messages: &[&[u8]]) -> Vec<u8> {
        let mut out = Vec::new();
        for message in messages {
            let copy = packer.push(&mut out, message).expect("not empty, not too long");
            assert_eq!(&out[copy.clone()], &message[..copy.len()]);
        }
        packer.close(&mut out);
        out
    }

    #[test]
    fn a_message_alone_becomes_an_ordinary_frame() {
        let mut packer = packer(ConnectionVersion::V14);
        assert_eq!(framed(&mut packer, &[b"abc"]), b"\x00\x06\x02abc");
        assert_eq!(packer.take_written(), Written { frames: 1, messages: 1, ..Written::default() });
    }

    #[test]
    fn several_messages_share_a_packed_frame() {
        let mut packer = packer(ConnectionVersion::V14);
        assert_eq!(framed(&mut packer, &[b"abc", b"d"]), b"\x00\x0b\x12\x00\x03abc\x00\x01d");
        let written =
            Written { frames: 1, messages: 2, packed_frames: 1, packed_messages: 2, ..Written::default() };
        assert_eq!(packer.take_written(), written);
        assert_eq!(packer.take_written(), Written::default());
    }

    #[test]
    fn a_packed_frame_is_filled_to_the_last_byte() {
        let mut packer = packer(ConnectionVersion::V14);
        let (a, b) = (vec![1; 3000], vec![2; 6144 - 3000 - 4]);
        let out = framed(&mut packer, &[&a, &b]);
        assert_eq!((out.len(), &out[..3]), (6147, &[0x18, 0x03, 0x12][..]));
        let longer = vec![2; b.len() + 1];
        let out = framed(&mut packer, &[&a, &longer, b"c"]);
        assert_eq!((&out[..3], &out[3003..3006]), (&[0x0b, 0xbb, 0x02][..], &[0x0c, 0x4d, 0x12][..]));
    }

    #[test]
    fn messages_up_to_the_maximum_size_go_unfragmented() {
        for bytes in [6141, 6142, 6143, 6144] {
            let out = framed(&mut packer(ConnectionVersion::V14), &[&vec![7; bytes], b"x"]);
            let length = (bytes as u16 + 3).to_be_bytes();
            assert_eq!(out[..4], [length[0], length[1], 0x02, 7], "{bytes}");
            assert_eq!(&out[bytes + 3..], b"\x00\x04\x02x");
        }
    }

    #[test]
    fn longer_messages_fill_their_fragments() {
        let mut packer = packer(ConnectionVersion::V14);
        let out = framed(&mut packer, &[b"x", &[7; 6137 + 6141 + 1]]);
        assert_eq!(&out[..4], b"\x00\x04\x02x");
        assert_eq!(out[4..15], [0x18, 0x03, 3, 8, 0, 0, 0x2f, 0xf7, 0, 1, 7]);
        assert_eq!(out[6151..6158], [0x18, 0x03, 3, 4, 0, 1, 7]);
        assert_eq!(out[12_298..], [0, 7, 3, 4, 0, 1, 7]);
        let written = packer.take_written();
        assert_eq!((written.frames, written.fragments, written.fragmented_messages), (4, 3, 1));
    }

    #[test]
    fn fragment_ids_count_up_and_skip_zero() {
        for (version, last) in [(ConnectionVersion::V12, 255), (ConnectionVersion::V13, 65_535)] {
            let mut packer = packer(version);
            for round in 0..2 {
                for id in 1..=last {
                    assert_eq!(packer.next_id(), id, "round {round}");
                }
            }
        }
    }

    #[test]
    fn old_versions_have_ids_of_one_byte() {
        let out = framed(&mut packer(ConnectionVersion::V12), &[&[7; 6145]]);
        assert_eq!(out[..10], [0x18, 0x03, 3, 8, 0, 0, 0x18, 0x01, 1, 7]);
        assert_eq!(out[6147..], [0, 12, 3, 4, 1, 7, 7, 7, 7, 7, 7, 7]);
    }

    #[test]
    fn an_empty_message_is_refused_and_closes_the_frame() {
        let mut packer = packer(ConnectionVersion::V14);
        let mut out = Vec::new();
        packer.push(&mut out, b"abc").expect("not empty, not too long");
        assert_eq!(packer.push(&mut out, b""), Err(ApiMisuse::EmptyMessage));
        assert_eq!((packer.open_frame(), out.as_slice()), (None, &b"\x00\x06\x02abc"[..]));
        assert_eq!(packer.push(&mut out, b""), Err(ApiMisuse::EmptyMessage));
        packer.close(&mut out);
        assert_eq!(out.len(), 6);
    }

    #[test]
    fn an_inactive_packer_refuses_everything() {
        let mut packer = Packer::inactive();
        for message in [&b""[..], b"x", &[1; 70_000]] {
            assert_eq!(packer.push(&mut Vec::new(), message), Err(ApiMisuse::NotConnected));
        }
    }

    #[test]
    fn the_size_is_bounded() {
        for (size, allowed) in [(0, false), (63, false), (64, true), (65_532, true), (65_533, false)] {
            assert_eq!(Packer::new(ConnectionVersion::V14, size).is_ok(), allowed, "{size}");
        }
    }

    #[test]
    fn the_framed_length_is_never_underestimated() {
        for version in [ConnectionVersion::V12, ConnectionVersion::V14] {
            for size in [64, 65, 100, 6144, 65_532] {
                for bytes in (1..500).chain([6143, 6144, 6145, 12_000, 65_532, 65_533, 200_000]) {
                    let mut packer = Packer::new(version, size).expect("the size is within its bounds");
                    let bound = packer.framed_bytes_max(bytes);
                    let framed = framed(&mut packer, &[&vec![1; bytes]]).len();
                    assert!(framed <= bound, "{bytes} at {size}: {framed} > {bound}");
                }
            }
        }
    }

    #[test]
    #[should_panic(expected = "the vector that push has written to")]
    fn another_vector_is_noticed() {
        let mut packer = packer(ConnectionVersion::V14);
        packer.push(&mut vec![0; 100], b"abc").expect("not empty, not too long");
        packer.close(&mut Vec::new());
    }
}

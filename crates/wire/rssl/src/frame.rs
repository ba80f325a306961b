//! Frames as they stand in a byte stream after the handshake.
//!
//! Shape: `u16` frame length including itself, `u8` flags, one extended flags byte if flag 0x01 is set,
//! payload. All integers are big endian. A frame is parsed once into a [`Frame`], which borrows from the
//! bytes it was read from.

use crate::FrameError;
pub use crate::version::FragmentIds;

/// Length of the header every frame has.
pub const HEADER_BYTES: usize = 3;

/// A frame without payload: keeps the connection alive.
pub const PING: [u8; 3] = [0x00, 0x03, flag::DATA];

/// Bits of the flags byte.
pub mod flag {
    /// An extended flags byte follows.
    pub const EXTENDED: u8 = 0x01;
    /// Uncompressed data. Every frame has this or [`COMPRESSED`].
    pub const DATA: u8 = 0x02;
    /// The payload is compressed.
    pub const COMPRESSED: u8 = 0x04;
    /// The compressed payload goes on in the next frame.
    pub const CONTINUED: u8 = 0x08;
    /// The payload is a sequence of messages.
    pub const PACKED: u8 = 0x10;
    /// In a connect ack only: the server imposes a compression.
    pub const FORCED_COMPRESSION: u8 = 0x80;
}

/// Bits of the extended flags byte.
pub mod extended_flag {
    /// Connect ack.
    pub const ACK: u8 = 0x01;
    /// Connect nak.
    pub const NAK: u8 = 0x02;
    /// A further fragment of a message.
    pub const NEXT_FRAGMENT: u8 = 0x04;
    /// The first fragment of a message.
    pub const FIRST_FRAGMENT: u8 = 0x08;
}

const PLAIN: u8 = flag::DATA;
const PACKED: u8 = flag::DATA | flag::PACKED;
const FRAGMENT: u8 = flag::DATA | flag::EXTENDED;
const COMPRESSED: u8 = flag::COMPRESSED;
const COMPRESSED_PACKED: u8 = flag::COMPRESSED | flag::PACKED;
const COMPRESSED_FRAGMENT: u8 = flag::COMPRESSED | flag::EXTENDED;

impl FragmentIds {
    /// Bytes before the data of a first fragment: frame header, extended flags, total length, id.
    #[must_use]
    pub fn first_header_bytes(self) -> usize {
        HEADER_BYTES + 1 + 4 + self.width_bytes()
    }

    /// Bytes before the data of a further fragment: frame header, extended flags, id.
    #[must_use]
    pub fn next_header_bytes(self) -> usize {
        HEADER_BYTES + 1 + self.width_bytes()
    }
}

/// Length of the frame that starts with these bytes.
///
/// # Errors
/// [`FrameError::Length`] if it is below [`HEADER_BYTES`] or above `limit_bytes`.
#[inline]
pub fn length_of(start: [u8; HEADER_BYTES], limit_bytes: u16) -> Result<usize, FrameError> {
    let bytes = u16::from_be_bytes([start[0], start[1]]);
    if bytes < HEADER_BYTES as u16 || bytes > limit_bytes {
        return Err(FrameError::Length { bytes, limit_bytes });
    }
    Ok(usize::from(bytes))
}

/// One frame of a byte stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Frame<'a> {
    /// `00 03 02`.
    Ping,
    /// One message, never empty.
    Message(&'a [u8]),
    /// Several messages.
    Packed(PackedMessages<'a>),
    /// The first fragment of a message.
    First {
        /// Length of the whole message.
        total_bytes: u32,
        /// Under which further fragments come.
        id: u16,
        /// First bytes of the message.
        data: &'a [u8],
    },
    /// A further fragment of a message.
    Next {
        /// As in the first fragment.
        id: u16,
        /// Further bytes of the message.
        data: &'a [u8],
    },
    /// A compressed payload, or one of the two parts of one.
    Compressed {
        /// Its flags.
        flags: u8,
        /// What the payload is when it is decompressed. Of a second part it says nothing.
        shape: Shape,
        /// Compressed bytes, never empty.
        data: &'a [u8],
    },
}

/// What a payload is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// One message.
    Message,
    /// Several messages.
    Packed,
    /// The first bytes of a message.
    First {
        /// Length of the whole message.
        total_bytes: u32,
        /// Under which further fragments come.
        id: u16,
    },
    /// Further bytes of a message.
    Next {
        /// As in the first fragment.
        id: u16,
    },
}

impl Shape {
    /// The frame that a payload of this shape makes.
    #[must_use]
    pub fn frame(self, payload: &[u8]) -> Frame<'_> {
        match self {
            Shape::Message => Frame::Message(payload),
            Shape::Packed => Frame::Packed(PackedMessages { rest: payload }),
            Shape::First { total_bytes, id } => Frame::First { total_bytes, id, data: payload },
            Shape::Next { id } => Frame::Next { id, data: payload },
        }
    }
}

impl<'a> Frame<'a> {
    /// Parses one whole frame: `frame` is as long as its length field says (see [`length_of`]).
    ///
    /// # Errors
    /// [`FrameError::Flags`], [`FrameError::Empty`] or [`FrameError::FragmentHeader`]. Bytes that are no
    /// frame header at all give [`FrameError::Length`].
    #[inline]
    pub fn parse(frame: &'a [u8], ids: FragmentIds) -> Result<Frame<'a>, FrameError> {
        let Some((&[.., flags], payload)) = frame.split_first_chunk::<HEADER_BYTES>() else {
            return Err(FrameError::Length { bytes: wire_len(frame), limit_bytes: u16::MAX });
        };
        match (flags, payload.is_empty()) {
            (PLAIN, false) => Ok(Frame::Message(payload)),
            (PACKED, false) => Ok(Frame::Packed(PackedMessages { rest: payload })),
            (PLAIN, true) => Ok(Frame::Ping),
            (FRAGMENT, false) => {
                let (shape, data) = split_fragment(frame, flags, ids)?;
                Ok(shape.frame(data))
            }
            (flags, _) => Self::parse_unusual(frame, flags, payload, ids),
        }
    }

    #[cold]
    fn parse_unusual(
        frame: &'a [u8],
        flags: u8,
        payload: &'a [u8],
        ids: FragmentIds,
    ) -> Result<Frame<'a>, FrameError> {
        if payload.is_empty() && (flags & flag::COMPRESSED != 0 || matches!(flags, PACKED | FRAGMENT)) {
            return Err(FrameError::Empty { flags });
        }
        let (shape, data) = match flags & !flag::CONTINUED {
            COMPRESSED => (Shape::Message, payload),
            COMPRESSED_PACKED => (Shape::Packed, payload),
            COMPRESSED_FRAGMENT => split_fragment(frame, flags, ids)?,
            _ => {
                let is_extended = flags & flag::EXTENDED != 0;
                let extended = if is_extended { payload.first().copied().unwrap_or(0) } else { 0 };
                return Err(FrameError::Flags { flags, extended });
            }
        };
        if data.is_empty() {
            return Err(FrameError::Empty { flags });
        }
        Ok(Frame::Compressed { flags, shape, data })
    }
}

/// Splits a fragment, which has an extended flags byte, into its header and what follows it.
fn split_fragment(frame: &[u8], flags: u8, ids: FragmentIds) -> Result<(Shape, &[u8]), FrameError> {
    let short =
        |least: usize| FrameError::FragmentHeader { bytes: wire_len(frame), least_bytes: least as u16 };
    match frame[HEADER_BYTES] {
        extended_flag::FIRST_FRAGMENT => {
            let header = ids.first_header_bytes();
            let (id, data) = split_id(frame, header, ids).ok_or(short(header))?;
            let total = frame[HEADER_BYTES + 1..].first_chunk();
            let total = total.expect("the header with its id is there, total is before it");
            Ok((Shape::First { total_bytes: u32::from_be_bytes(*total), id }, data))
        }
        extended_flag::NEXT_FRAGMENT => {
            let header = ids.next_header_bytes();
            let (id, data) = split_id(frame, header, ids).ok_or(short(header))?;
            Ok((Shape::Next { id }, data))
        }
        extended => Err(FrameError::Flags { flags, extended }),
    }
}

/// Splits a fragment whose header is `header` bytes long: the id is the last field of the header.
fn split_id(frame: &[u8], header: usize, ids: FragmentIds) -> Option<(u16, &[u8])> {
    let (head, data) = frame.split_at_checked(header)?;
    let id = match ids {
        FragmentIds::OneByte => u16::from(head[header - 1]),
        FragmentIds::TwoBytes => u16::from_be_bytes([head[header - 2], head[header - 1]]),
    };
    Some((id, data))
}

/// A length that came out of a `u16` field, for an error.
fn wire_len(bytes: &[u8]) -> u16 {
    u16::try_from(bytes.len()).unwrap_or(u16::MAX)
}

/// The messages of a packed frame, in order. After an error it ends.
///
/// Shape: `u16` length of the message without itself, message; repeated to the end of the frame or to a
/// length of zero.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PackedMessages<'a> {
    rest: &'a [u8],
}

impl<'a> Iterator for PackedMessages<'a> {
    type Item = Result<&'a [u8], FrameError>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let Some((&prefix, rest)) = self.rest.split_first_chunk::<2>() else { return self.end() };
        let bytes = u16::from_be_bytes(prefix);
        if bytes == 0 {
            return None;
        }
        let Some((message, rest)) = rest.split_at_checked(usize::from(bytes)) else {
            let left_bytes = wire_len(rest);
            self.rest = &[];
            return Some(Err(FrameError::PackedLength { bytes, left_bytes }));
        };
        self.rest = rest;
        Some(Ok(message))
    }
}

impl<'a> PackedMessages<'a> {
    /// Fewer than two bytes are left: the end, unless a lone byte stands where a length has to be.
    fn end(&mut self) -> Option<Result<&'a [u8], FrameError>> {
        let left_bytes = wire_len(self.rest);
        self.rest = &[];
        (left_bytes > 0).then_some(Err(FrameError::PackedLength { bytes: 1, left_bytes }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(frame: &[u8]) -> Result<Frame<'_>, FrameError> {
        Frame::parse(frame, FragmentIds::TwoBytes)
    }

    #[test]
    fn a_length_must_hold_its_header_and_keep_the_limit() {
        let length =
            |bytes: u16, limit| length_of([bytes.to_be_bytes()[0], bytes.to_be_bytes()[1], 2], limit);
        for bytes in 0..3 {
            assert_eq!(length(bytes, 6147), Err(FrameError::Length { bytes, limit_bytes: 6147 }));
        }
        assert_eq!(length(3, 6147), Ok(3));
        assert_eq!(length(6147, 6147), Ok(6147));
        assert_eq!(length(6148, 6147), Err(FrameError::Length { bytes: 6148, limit_bytes: 6147 }));
        assert_eq!(length(65535, 65535), Ok(65535));
    }

    #[test]
    fn each_kind_of_frame_is_told_by_its_flags() {
        assert_eq!(parse(&PING), Ok(Frame::Ping));
        assert_eq!(parse(&[0, 5, 2, 7, 8]), Ok(Frame::Message(&[7, 8])));
        assert_eq!(parse(&[0, 12, 3, 8, 0, 0, 1, 2, 0, 9, 5, 6]), {
            Ok(Frame::First { total_bytes: 0x102, id: 9, data: &[5, 6] })
        });
        assert_eq!(parse(&[0, 7, 3, 4, 1, 9, 5]), Ok(Frame::Next { id: 0x109, data: &[5] }));
        for (flags, shape) in [(0x04, Shape::Message), (0x14, Shape::Packed)] {
            for flags in [flags, flags | flag::CONTINUED] {
                let compressed = Frame::Compressed { flags, shape, data: &[8, 0, 0] };
                assert_eq!(parse(&[0, 6, flags, 8, 0, 0]), Ok(compressed));
            }
        }
        for flags in [0x05, 0x0d] {
            let shape = Shape::First { total_bytes: 0x102, id: 9 };
            let compressed = Frame::Compressed { flags, shape, data: &[5, 6] };
            assert_eq!(parse(&[0, 12, flags, 8, 0, 0, 1, 2, 0, 9, 5, 6]), Ok(compressed));
            let compressed = Frame::Compressed { flags, shape: Shape::Next { id: 9 }, data: &[5] };
            assert_eq!(parse(&[0, 7, flags, 4, 0, 9, 5]), Ok(compressed));
        }
    }

    #[test]
    fn one_byte_ids_are_read_for_old_versions() {
        let first = [0, 11, 3, 8, 0, 0, 1, 2, 9, 5, 6];
        let parsed = Frame::parse(&first, FragmentIds::OneByte);
        assert_eq!(parsed, Ok(Frame::First { total_bytes: 0x102, id: 9, data: &[5, 6] }));
        let next = [0, 6, 3, 4, 9, 5];
        assert_eq!(Frame::parse(&next, FragmentIds::OneByte), Ok(Frame::Next { id: 9, data: &[5] }));
    }

    #[test]
    fn every_other_combination_of_flags_is_refused() {
        let allowed = |flags: u8| matches!(flags, 0x02 | 0x12 | 0x04 | 0x14 | 0x0c | 0x1c);
        for flags in 0..=255u8 {
            let frame = [0, 12, flags, 1, 0, 0, 0, 1, 0, 1, 2, 2];
            let result = parse(&frame);
            assert_eq!(result.is_ok(), allowed(flags), "{flags:#x}: {result:?}");
            if !allowed(flags) {
                let extended = if flags & 1 != 0 { 1 } else { 0 };
                assert_eq!(result, Err(FrameError::Flags { flags, extended }));
            }
        }
    }

    #[test]
    fn only_a_ping_may_be_empty() {
        assert_eq!(parse(&[0, 3, 0x12]), Err(FrameError::Empty { flags: 0x12 }));
        assert_eq!(parse(&[0, 3, 0x03]), Err(FrameError::Empty { flags: 0x03 }));
        assert_eq!(parse(&[0, 3, 0x00]), Err(FrameError::Flags { flags: 0, extended: 0 }));
        for flags in [0x04, 0x0c, 0x14, 0x1c, 0x05, 0x0d] {
            assert_eq!(parse(&[0, 3, flags]), Err(FrameError::Empty { flags }));
        }
        assert_eq!(parse(&[0, 6, 0x05, 4, 0, 9]), Err(FrameError::Empty { flags: 5 }), "nothing compressed");
    }

    #[test]
    fn a_fragment_shorter_than_its_header_is_refused() {
        for length in 4..10u16 {
            let mut frame = vec![0, length as u8, 3, 8];
            frame.resize(usize::from(length), 1);
            assert_eq!(parse(&frame), Err(FrameError::FragmentHeader { bytes: length, least_bytes: 10 }));
        }
        assert_eq!(parse(&[0, 5, 3, 4, 1]), Err(FrameError::FragmentHeader { bytes: 5, least_bytes: 6 }));
    }

    fn unpack(payload: &[u8]) -> Vec<Result<&[u8], FrameError>> {
        PackedMessages { rest: payload }.collect()
    }

    #[test]
    fn packed_messages_end_with_the_frame_or_a_zero_length() {
        assert_eq!(unpack(&[0, 1, 7, 0, 2, 8, 9]), [Ok(&[7][..]), Ok(&[8, 9])]);
        assert_eq!(unpack(&[0, 1, 7, 0, 0, 8, 9]), [Ok(&[7][..])]);
        assert_eq!(unpack(&[0, 0]), []);
    }

    #[test]
    fn a_packed_message_beyond_its_frame_is_an_error_after_which_nothing_follows() {
        let overrun = FrameError::PackedLength { bytes: 3, left_bytes: 2 };
        assert_eq!(unpack(&[0, 1, 7, 0, 3, 8, 9]), [Ok(&[7][..]), Err(overrun)]);
        let lone = FrameError::PackedLength { bytes: 1, left_bytes: 1 };
        assert_eq!(unpack(&[0, 1, 7, 4]), [Ok(&[7][..]), Err(lone)]);
    }
}

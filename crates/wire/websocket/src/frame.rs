//! Frames of RFC 6455, section 5.2.
//!
//! ```text
//!  byte 0            byte 1             then
//!  FIN RSV1-3 opcode MASK length7       length16 if length7 = 126, length64 if 127; key if MASK; payload
//! ```
//!
//! Lengths are big-endian and in their shortest form. RSV1 marks a compressed message on its first frame.

use crate::FrameError;

/// What a frame is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Opcode {
    /// A further part of a message.
    Continuation,
    /// Text, or its first part.
    Text,
    /// Bytes, or their first part.
    Binary,
    /// The end.
    Close,
    /// To be answered with a pong.
    Ping,
    /// An answer to a ping, or a sign of life.
    Pong,
}

impl Opcode {
    /// The four bits of the wire.
    #[must_use]
    pub fn code(self) -> u8 {
        match self {
            Opcode::Continuation => 0,
            Opcode::Text => 1,
            Opcode::Binary => 2,
            Opcode::Close => 8,
            Opcode::Ping => 9,
            Opcode::Pong => 10,
        }
    }

    fn of(code: u8) -> Option<Opcode> {
        Some(match code {
            0 => Opcode::Continuation,
            1 => Opcode::Text,
            2 => Opcode::Binary,
            8 => Opcode::Close,
            9 => Opcode::Ping,
            10 => Opcode::Pong,
            _ => return None,
        })
    }

    /// Whether it may come between the fragments of a message.
    #[must_use]
    pub fn is_control(self) -> bool {
        self.code() >= 8
    }
}

/// Length of the longest head.
pub const HEAD_BYTES_MAX: usize = 14;
/// Longest payload of a control frame.
pub const CONTROL_BYTES_MAX: usize = 125;

const FIN: u8 = 0x80;
const RSV1: u8 = 0x40;
const RSV23: u8 = 0x30;
const MASK: u8 = 0x80;
const LENGTH_16: u8 = 126;
const LENGTH_64: u8 = 127;

/// The head of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// It is the last of its message.
    pub is_final: bool,
    /// RSV1: the message is compressed.
    pub is_compressed: bool,
    /// What it is.
    pub opcode: Opcode,
    /// The mask key, if the payload is masked.
    pub mask: Option<[u8; 4]>,
    /// Length of the payload.
    pub payload_bytes: u64,
}

impl Head {
    /// Length of the head that begins with these two bytes.
    #[must_use]
    pub fn length_of(start: [u8; 2]) -> usize {
        let length = match start[1] & !MASK {
            LENGTH_16 => 2,
            LENGTH_64 => 8,
            _ => 0,
        };
        2 + length + if start[1] & MASK != 0 { 4 } else { 0 }
    }

    /// Reads a head of exactly [`Head::length_of`] bytes.
    ///
    /// # Errors
    /// Reserved bits, opcode or length are not allowed whatever was sent before.
    ///
    /// # Panics
    /// If there are fewer bytes.
    pub fn parse(bytes: &[u8]) -> Result<Head, FrameError> {
        let (first, second) = (bytes[0], bytes[1]);
        if first & RSV23 != 0 {
            return Err(FrameError::ReservedBits { first_byte: first });
        }
        let code = first & 0x0f;
        let opcode = Opcode::of(code).ok_or(FrameError::Opcode { opcode: code })?;
        let (payload_bytes, rest) = length(second & !MASK, &bytes[2..])?;
        let mask = (second & MASK != 0).then(|| *rest.first_chunk().expect("the head is whole"));
        let head = Head {
            is_final: first & FIN != 0,
            is_compressed: first & RSV1 != 0,
            opcode,
            mask,
            payload_bytes,
        };
        head.check(first)
    }

    fn check(self, first_byte: u8) -> Result<Head, FrameError> {
        if self.opcode.is_control() {
            if !self.is_final {
                return Err(FrameError::ControlFragmented);
            }
            if self.payload_bytes > CONTROL_BYTES_MAX as u64 {
                return Err(FrameError::ControlLength { bytes: self.payload_bytes });
            }
        }
        if self.is_compressed && !matches!(self.opcode, Opcode::Text | Opcode::Binary) {
            return Err(FrameError::ReservedBits { first_byte });
        }
        Ok(self)
    }

    /// Appends the head.
    pub fn emit(&self, into: &mut Vec<u8>) {
        let (head, len) = self.encode();
        into.extend_from_slice(&head[..len]);
    }

    fn encode(&self) -> ([u8; HEAD_BYTES_MAX], usize) {
        let mut head = [0; HEAD_BYTES_MAX];
        head[0] = self.opcode.code();
        head[0] |= if self.is_final { FIN } else { 0 } | if self.is_compressed { RSV1 } else { 0 };
        let mut len = match self.payload_bytes {
            bytes @ 0..126 => {
                head[1] = bytes as u8;
                2
            }
            bytes @ 126..0x1_0000 => {
                head[1] = LENGTH_16;
                head[2..4].copy_from_slice(&(bytes as u16).to_be_bytes());
                4
            }
            bytes => {
                head[1] = LENGTH_64;
                head[2..10].copy_from_slice(&bytes.to_be_bytes());
                10
            }
        };
        if let Some(key) = self.mask {
            head[1] |= MASK;
            head[len..len + 4].copy_from_slice(&key);
            len += 4;
        }
        (head, len)
    }
}

/// The payload length behind its first seven bits, and what follows it.
fn length(short: u8, bytes: &[u8]) -> Result<(u64, &[u8]), FrameError> {
    let (value, size) = match short {
        LENGTH_16 => (u64::from(u16::from_be_bytes(*bytes.first_chunk().expect("the head is whole"))), 2),
        LENGTH_64 => (u64::from_be_bytes(*bytes.first_chunk().expect("the head is whole")), 8),
        short => return Ok((u64::from(short), bytes)),
    };
    let least = if size == 2 { 126 } else { 0x1_0000 };
    if value < least || value >> 63 != 0 {
        return Err(FrameError::LengthForm);
    }
    Ok((value, &bytes[size..]))
}

/// Appends `bytes` to `into`, masked with `key` from its `phase`-th byte on (masking twice is unmasking).
#[inline]
pub fn append_masked(into: &mut Vec<u8>, bytes: &[u8], key: [u8; 4], phase: usize) {
    let start = into.len();
    into.extend_from_slice(bytes);
    let [a, b, c, d] = std::array::from_fn(|i| key[(phase + i) % 4]);
    let wide = u64::from_ne_bytes([a, b, c, d, a, b, c, d]);
    let (words, rest) = into[start..].as_chunks_mut::<8>();
    for word in words {
        *word = (u64::from_ne_bytes(*word) ^ wide).to_ne_bytes();
    }
    for (byte, key) in rest.iter_mut().zip([a, b, c, d, a, b, c]) {
        *byte ^= key;
    }
}

/// A frame of a server whose payload is appended in place, length unknown.
///
/// ```
/// use tickcast_websocket::frame::{OpenFrame, Opcode};
/// let mut bytes = Vec::new();
/// let frame = OpenFrame::begin(&mut bytes);
/// bytes.extend_from_slice(b"[]");
/// frame.end(&mut bytes, Opcode::Text, false);
/// assert_eq!(bytes, [0x81, 2, b'[', b']']);
/// ```
#[must_use = "a frame without its head is no frame"]
#[derive(Debug)]
pub struct OpenFrame {
    start: usize,
}

/// Room left for the head: right for payloads of 126 to 65,535 bytes; others are moved.
const HEAD_RESERVED_BYTES: usize = 4;

impl OpenFrame {
    /// Leaves room for the head at the end of `bytes`.
    pub fn begin(bytes: &mut Vec<u8>) -> OpenFrame {
        let start = bytes.len();
        bytes.extend_from_slice(&[0; HEAD_RESERVED_BYTES]);
        OpenFrame { start }
    }

    /// Length of the payload so far.
    #[must_use]
    pub fn payload_bytes(&self, bytes: &[u8]) -> usize {
        bytes.len() - self.start - HEAD_RESERVED_BYTES
    }

    /// Writes the head before the payload, which is everything appended since. What is longer than
    /// [`FRAGMENT_BYTES_MAX`] becomes several frames of one message.
    pub fn end(self, bytes: &mut Vec<u8>, opcode: Opcode, is_compressed: bool) {
        if self.payload_bytes(bytes) > FRAGMENT_BYTES_MAX {
            return self.end_fragmented(bytes, opcode, is_compressed);
        }
        let payload_bytes = self.payload_bytes(bytes) as u64;
        let head = Head { is_final: true, is_compressed, opcode, mask: None, payload_bytes };
        let (head, len) = head.encode();
        if len == HEAD_RESERVED_BYTES {
            bytes[self.start..self.start + len].copy_from_slice(&head[..len]);
        } else {
            bytes.splice(self.start..self.start + HEAD_RESERVED_BYTES, head[..len].iter().copied());
        }
    }

    /// The first fragment says what it is, the others continue it (RFC 6455, 5.4; RFC 7692, 6.1).
    #[cold]
    fn end_fragmented(self, bytes: &mut Vec<u8>, opcode: Opcode, is_compressed: bool) {
        let payload = bytes.split_off(self.start + HEAD_RESERVED_BYTES);
        bytes.truncate(self.start);
        let count = payload.len().div_ceil(FRAGMENT_BYTES_MAX);
        bytes.reserve(payload.len() + count * HEAD_RESERVED_BYTES);
        for (number, fragment) in payload.chunks(FRAGMENT_BYTES_MAX).enumerate() {
            let is_first = number == 0;
            let head = Head {
                is_final: number + 1 == count,
                is_compressed: is_compressed && is_first,
                opcode: if is_first { opcode } else { Opcode::Continuation },
                mask: None,
                payload_bytes: fragment.len() as u64,
            };
            head.emit(bytes);
            bytes.extend_from_slice(fragment);
        }
    }
}

/// Most bytes of one frame. The vendor's libraries close a connection whose peer sends a frame that is longer than
/// ten times the message size that they announce, 61,440 by default; dictionaries and books are longer.
pub const FRAGMENT_BYTES_MAX: usize = 61_440;

#[cfg(test)]
mod tests {
    use super::*;

    fn head(payload_bytes: u64, mask: Option<[u8; 4]>) -> Head {
        Head { is_final: true, is_compressed: false, opcode: Opcode::Text, mask, payload_bytes }
    }

    #[test]
    fn lengths_take_their_shortest_form() {
        for (payload_bytes, size) in [(0, 2), (125, 2), (126, 4), (65_535, 4), (65_536, 10), (1 << 40, 10)] {
            for mask in [None, Some([1, 2, 3, 4])] {
                let mut bytes = Vec::new();
                head(payload_bytes, mask).emit(&mut bytes);
                assert_eq!(bytes.len(), size + mask.map_or(0, |_| 4));
                assert_eq!(Head::length_of([bytes[0], bytes[1]]), bytes.len());
                assert_eq!(Head::parse(&bytes), Ok(head(payload_bytes, mask)));
            }
        }
    }

    #[test]
    fn the_examples_of_the_rfc_are_read() {
        let masked_hello = [0x81, 0x85, 0x37, 0xfa, 0x21, 0x3d, 0x7f, 0x9f, 0x4d, 0x51, 0x58];
        let head = Head::parse(&masked_hello[..6]).expect("section 5.7");
        let mut text = Vec::new();
        append_masked(&mut text, &masked_hello[6..], head.mask.expect("it is masked"), 0);
        assert_eq!(text, b"Hello");
    }

    #[test]
    fn a_long_payload_goes_in_frames_that_continue_it() {
        let payload: Vec<u8> = (0..2 * FRAGMENT_BYTES_MAX + 1).map(|n| (n % 251) as u8).collect();
        let mut bytes = b"before".to_vec();
        let frame = OpenFrame::begin(&mut bytes);
        bytes.extend_from_slice(&payload);
        frame.end(&mut bytes, Opcode::Text, true);
        let (mut rest, mut back, mut heads) = (&bytes[6..], Vec::new(), Vec::new());
        while !rest.is_empty() {
            let at = Head::length_of([rest[0], rest[1]]);
            let head = Head::parse(&rest[..at]).expect("our own");
            let end = at + head.payload_bytes as usize;
            back.extend_from_slice(&rest[at..end]);
            heads.push((head.is_final, head.is_compressed, head.opcode, head.payload_bytes));
            rest = &rest[end..];
        }
        assert!(back == payload && bytes.starts_with(b"before"));
        let whole = FRAGMENT_BYTES_MAX as u64;
        let continued = |is_final, bytes| (is_final, false, Opcode::Continuation, bytes);
        assert_eq!(heads, [(false, true, Opcode::Text, whole), continued(false, whole), continued(true, 1)]);
    }

    #[test]
    fn masking_in_pieces_is_masking_at_once() {
        let bytes: Vec<u8> = (0..200).collect();
        let key = [0xa1, 0xb2, 0xc3, 0xd4];
        let mut whole = Vec::new();
        append_masked(&mut whole, &bytes, key, 0);
        for cut in 0..bytes.len() {
            let mut pieces = Vec::new();
            append_masked(&mut pieces, &bytes[..cut], key, 0);
            append_masked(&mut pieces, &bytes[cut..], key, cut);
            assert_eq!(pieces, whole, "cut at {cut}");
        }
        assert_eq!(whole[5], bytes[5] ^ key[1]);
    }

    #[test]
    fn illegal_heads_have_their_errors() {
        let parse = |bytes: &[u8]| Head::parse(bytes).expect_err("illegal");
        assert_eq!(parse(&[0xa1, 0]), FrameError::ReservedBits { first_byte: 0xa1 });
        assert_eq!(parse(&[0xc9, 0]), FrameError::ReservedBits { first_byte: 0xc9 });
        assert_eq!(parse(&[0x83, 0]), FrameError::Opcode { opcode: 3 });
        assert_eq!(parse(&[0x09, 0]), FrameError::ControlFragmented);
        assert_eq!(parse(&[0x89, 126, 0, 126]), FrameError::ControlLength { bytes: 126 });
        assert_eq!(parse(&[0x81, 126, 0, 125]), FrameError::LengthForm);
        assert_eq!(parse(&[0x81, 127, 0, 0, 0, 0, 0, 0, 0xff, 0xff]), FrameError::LengthForm);
        assert_eq!(parse(&[0x81, 127, 0x80, 0, 0, 0, 0, 1, 0, 0]), FrameError::LengthForm);
    }

    #[test]
    fn a_frame_of_any_length_gets_its_head_in_place() {
        for length in [0, 1, 125, 126, FRAGMENT_BYTES_MAX] {
            let mut bytes = b"before".to_vec();
            let frame = OpenFrame::begin(&mut bytes);
            bytes.resize(bytes.len() + length, b'x');
            assert_eq!(frame.payload_bytes(&bytes), length);
            frame.end(&mut bytes, Opcode::Text, false);
            let rest = bytes.strip_prefix(b"before").expect("untouched");
            let size = Head::length_of([rest[0], rest[1]]);
            assert_eq!(Head::parse(&rest[..size]), Ok(head(length as u64, None)));
            assert_eq!(&rest[size..], vec![b'x'; length]);
        }
    }
}

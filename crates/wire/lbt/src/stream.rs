//! LBMC over TCP: requests and their answers, unicast immediate messages.
//!
//! The stream is LBMC messages back to back, framed by their own lengths, and nothing else. A message that
//! is longer than its length field can say travels as consecutive fragments with FRAG headers, as on
//! multicast.

use crate::delivery::reassembly::{Assembly, AssemblyPool, Piece};
use crate::error::WireError;
use crate::wire::lbmc::{
    self, Chain, FRAG_LEN, Header, Headers, Kind, MESSAGE_HEADER_LEN, MESSAGE_LEN_MAX, Message,
};
use std::fmt;
use units::Sqn;

/// Longest message, fragments put together, if nothing else is configured.
pub const STREAM_MESSAGE_MAX: u32 = 64 << 20;

/// Why a stream cannot be read any further: the connection is to be closed.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamError {
    /// Bytes that are no LBMC message.
    Wire(WireError),
    /// A message is longer than allowed.
    TooLong {
        /// Its stated length.
        bytes: u32,
        /// The limit.
        max: u32,
    },
    /// A fragment that is not the next one of the message it belongs to.
    OutOfPlace {
        /// Number of the message's first fragment.
        first_sqn: Sqn,
        /// Where the fragment says it belongs.
        offset: u32,
        /// Bytes of the message that have arrived.
        expected: u32,
    },
}

impl fmt::Display for StreamError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            StreamError::Wire(error) => error.fmt(f),
            StreamError::TooLong { bytes, max } => {
                write!(f, "a message of {bytes} bytes is above the limit of {max}")
            }
            StreamError::OutOfPlace { first_sqn, offset, expected } => {
                write!(f, "fragment of message {first_sqn} at offset {offset}, expected was {expected}")
            }
        }
    }
}

impl std::error::Error for StreamError {}

impl From<WireError> for StreamError {
    fn from(error: WireError) -> StreamError {
        StreamError::Wire(error)
    }
}

/// One whole message of a stream.
#[derive(Clone, Copy, Debug)]
pub struct StreamMessage<'a> {
    /// What it is.
    pub kind: Kind,
    /// The topic; 0 for messages without one.
    pub topic_index: u32,
    /// Number of the first fragment; `sqn` if it was not fragmented.
    pub first_sqn: Sqn,
    /// Number of the message, or of its last fragment.
    pub sqn: Sqn,
    /// Extension headers; of the first fragment if it was fragmented.
    pub headers: Headers<'a>,
    /// The application data; empty for control messages.
    pub payload: &'a [u8],
}

/// Takes a byte stream in any cuts and gives whole messages.
///
/// Retransmissions are not put together: each fragment is handed on as it is.
///
/// A message that lies whole in what is pushed is handed on without a copy. Memory is bounded by one LBMC
/// message and one message being put together, and grows with what arrived, not with what was announced.
pub struct StreamDecoder {
    /// The begin of a message that is not yet whole.
    partial: Vec<u8>,
    assembly: Option<(u32, Assembly)>,
    pool: AssemblyPool,
    max: u32,
    failed: Option<StreamError>,
}

impl Default for StreamDecoder {
    fn default() -> StreamDecoder {
        StreamDecoder::new(STREAM_MESSAGE_MAX)
    }
}

impl StreamDecoder {
    /// A decoder at the begin of a stream, for messages of up to `message_max` bytes.
    #[must_use]
    pub fn new(message_max: u32) -> StreamDecoder {
        let pool = AssemblyPool::new(message_max, u64::from(message_max));
        StreamDecoder { partial: Vec::new(), assembly: None, pool, max: message_max, failed: None }
    }

    /// Takes the next bytes and calls `on_message` for every message they complete.
    ///
    /// # Errors
    /// The stream is broken. What was complete before was handed on; every further call gives the same error.
    pub fn push(
        &mut self,
        mut bytes: &[u8],
        mut on_message: impl FnMut(StreamMessage<'_>),
    ) -> Result<(), StreamError> {
        if let Some(error) = self.failed {
            return Err(error);
        }
        while !bytes.is_empty() {
            match self.step(bytes, &mut on_message) {
                Ok(rest) => bytes = rest,
                Err(error) => {
                    self.failed = Some(error);
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    /// Whether the stream may end here: no message is cut.
    #[must_use]
    pub fn is_at_boundary(&self) -> bool {
        self.partial.is_empty() && self.assembly.is_none()
    }

    /// Whether the stream is broken.
    #[must_use]
    pub fn has_failed(&self) -> bool {
        self.failed.is_some()
    }

    /// Memory held.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        self.partial.capacity() + self.pool.memory_bytes()
    }

    /// Takes one message, or as much of one as there is; returns what is left.
    fn step<'a>(
        &mut self,
        bytes: &'a [u8],
        on_message: &mut impl FnMut(StreamMessage<'_>),
    ) -> Result<&'a [u8], StreamError> {
        if self.partial.is_empty() {
            return match lbmc::stream_len(bytes)? {
                Some(len) if len <= bytes.len() => {
                    self.take(&Message::parse(&bytes[..len], 0)?, on_message)?;
                    Ok(&bytes[len..])
                }
                _ => {
                    self.partial.extend_from_slice(bytes);
                    Ok(&[])
                }
            };
        }
        let need = lbmc::stream_len(&self.partial)?.unwrap_or(lbmc::CONTROL_HEADER_LEN);
        let (here, rest) = bytes.split_at(bytes.len().min(need - self.partial.len()));
        self.partial.extend_from_slice(here);
        if lbmc::stream_len(&self.partial)? == Some(self.partial.len()) {
            let whole = std::mem::take(&mut self.partial);
            self.take(&Message::parse(&whole, 0)?, on_message)?;
            self.partial = whole;
            self.partial.clear();
        }
        Ok(rest)
    }

    fn take(
        &mut self,
        message: &Message<'_>,
        on_message: &mut impl FnMut(StreamMessage<'_>),
    ) -> Result<(), StreamError> {
        // a message that was asked for by its number comes alone, whatever it is a piece of
        let frag = message.headers.frag().filter(|_| message.kind != Kind::Retransmission);
        let Some((first_sqn, offset, length)) = frag else {
            on_message(StreamMessage {
                kind: message.kind,
                topic_index: message.topic_index,
                first_sqn: message.sqn,
                sqn: message.sqn,
                headers: message.headers,
                payload: message.data(),
            });
            return Ok(());
        };
        let number = u64::from(message.sqn.0.wrapping_sub(first_sqn.0));
        let (data, headers) = (message.data(), message.headers);
        let piece = Piece { first: 0, number, offset, length, data, headers, recovered: false };
        self.take_piece(message, first_sqn, &piece, on_message)
    }

    fn take_piece(
        &mut self,
        message: &Message<'_>,
        first_sqn: Sqn,
        piece: &Piece<'_>,
        on_message: &mut impl FnMut(StreamMessage<'_>),
    ) -> Result<(), StreamError> {
        if piece.length > self.max {
            return Err(StreamError::TooLong { bytes: piece.length, max: self.max });
        }
        let offset = piece.offset;
        let out_of_place = |expected| StreamError::OutOfPlace { first_sqn, offset, expected };
        let mut assembly = match self.assembly.take() {
            Some((first, assembly)) if first == first_sqn.0 => assembly,
            Some((_, assembly)) => return Err(out_of_place(assembly.received)),
            None => self.pool.begin(piece, false).ok_or(out_of_place(0))?,
        };
        let next = piece.is_sound() && assembly.continues_with(piece);
        if !next || !self.pool.append(&mut assembly, piece) {
            return Err(out_of_place(assembly.received));
        }
        if !assembly.is_complete() {
            self.assembly = Some((first_sqn.0, assembly));
            return Ok(());
        }
        on_message(StreamMessage {
            kind: message.kind,
            topic_index: message.topic_index,
            first_sqn,
            sqn: message.sqn,
            headers: assembly.headers(),
            payload: assembly.data(),
        });
        self.pool.end(assembly);
        Ok(())
    }
}

/// Writes messages for a stream and numbers them.
#[derive(Clone, Debug, Default)]
pub struct StreamEncoder {
    next: Sqn,
    chain: Chain,
}

impl StreamEncoder {
    /// Announces the session of this connection; to be sent first.
    pub fn session(&mut self, out: &mut Vec<u8>, session_id: u32) {
        self.chain.clear();
        self.chain.push(&Header::TcpSessionId { flags: 0, session_id });
        lbmc::emit_message(out, Kind::Control, None, &self.chain, None);
    }

    /// Appends a message, in fragments if it is too long for one, and returns its number.
    ///
    /// `topic_index` is 0 for messages without a topic; the headers travel with the first fragment.
    ///
    /// # Errors
    /// The payload is longer than a FRAG header can say; nothing was written.
    pub fn message(
        &mut self,
        out: &mut Vec<u8>,
        topic_index: u32,
        headers: &[Header<'_>],
        payload: &[u8],
    ) -> Result<Sqn, StreamError> {
        let Ok(length) = u32::try_from(payload.len()) else {
            return Err(StreamError::TooLong { bytes: u32::MAX, max: u32::MAX });
        };
        self.begin_chain(None, headers);
        if MESSAGE_HEADER_LEN + self.chain.len() + payload.len() <= MESSAGE_LEN_MAX {
            return Ok(self.emit(out, topic_index, payload));
        }
        let first_sqn = self.next;
        let (mut rest, mut headers) = (payload, headers);
        while !rest.is_empty() {
            let offset = length - rest.len() as u32;
            self.begin_chain(Some(Header::Frag { flags: 0, first_sqn, offset, length }), headers);
            let room = MESSAGE_LEN_MAX - MESSAGE_HEADER_LEN - self.chain.len();
            let (here, after) = rest.split_at(rest.len().min(room));
            self.emit(out, topic_index, here);
            (rest, headers) = (after, &[]);
        }
        Ok(self.next.prev())
    }

    fn begin_chain(&mut self, frag: Option<Header<'_>>, headers: &[Header<'_>]) {
        self.chain.clear();
        frag.iter().chain(headers).for_each(|h| self.chain.push(h));
        debug_assert!(self.chain.len() + FRAG_LEN < MESSAGE_LEN_MAX / 2, "headers leave room for data");
    }

    fn emit(&mut self, out: &mut Vec<u8>, topic_index: u32, payload: &[u8]) -> Sqn {
        let sqn = self.next;
        lbmc::emit_message(out, Kind::Message, Some((topic_index, sqn)), &self.chain, Some(payload));
        self.next = sqn.next();
        sqn
    }
}

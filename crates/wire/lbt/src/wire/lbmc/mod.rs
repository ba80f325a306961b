//! LBMC: the messages inside LBT-RM datagrams and TCP streams.
//!
//! ```text
//!  0  ver_type u8    version 0; 0 message, 1 EOT, 2 proactive retransmission, 8 control, 0xA retransmission
//!  1  next_hdr u8    first extension header; 0 = application data follows, 0xFF = nothing follows
//!  2  msglen u16     the whole message, these four bytes included
//!  4  topic_index u32, sqn u32          types 0, 2 and 0xA only
//!     chain of extension headers: next u8, len u8 (the whole header), body
//!     application data to msglen
//! ```
//!
//! The type of a header stands in the header before it. A header that is not known is skipped by its length.

mod chain;
mod element;
mod header;

pub use chain::{Chain, emit_message};
pub use element::{Element, Elements, FAILOVER_NUMBER_LEN, failover_element};
pub use header::{Header, Headers, TsniRecords, emit_tsni};

use crate::error::{Part, WireError};
use units::Sqn;

/// Bytes before the chain of a message that has a topic index.
pub const MESSAGE_HEADER_LEN: usize = 12;
/// Bytes before the chain of a control message.
pub const CONTROL_HEADER_LEN: usize = 4;
/// Bytes of the FRAG header.
pub const FRAG_LEN: usize = 16;
/// Longest message, by the width of its length field.
pub const MESSAGE_LEN_MAX: usize = 65_535;
/// Most topics in one TSNI header: the header's length is one byte.
pub const TSNI_RECORDS_MAX: usize = 31;

/// Number of the FRAG header.
pub(crate) const FRAG_KIND: u8 = header::FRAG;
const NEXT_DATA: u8 = 0x00;
const NEXT_NONE: u8 = 0xFF;

/// What a message is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Application data, or a fragment of it.
    Message,
    /// End of the transport session.
    EndOfTransport,
    /// A repetition nobody asked for.
    ProactiveRetransmission,
    /// Headers without application data.
    Control,
    /// A repetition that was asked for (late join).
    Retransmission,
    /// A type this library does not know; skipped by its length.
    Other(u8),
}

impl Kind {
    fn from_code(code: u8) -> Kind {
        match code {
            0 => Kind::Message,
            1 => Kind::EndOfTransport,
            2 => Kind::ProactiveRetransmission,
            8 => Kind::Control,
            0xA => Kind::Retransmission,
            other => Kind::Other(other),
        }
    }

    /// The low nibble of the first byte.
    #[must_use]
    pub fn code(self) -> u8 {
        match self {
            Kind::Message => 0,
            Kind::EndOfTransport => 1,
            Kind::ProactiveRetransmission => 2,
            Kind::Control => 8,
            Kind::Retransmission => 0xA,
            Kind::Other(code) => code & 0xF,
        }
    }

    /// Whether a topic index and a topic number follow the length.
    #[must_use]
    pub fn has_topic(self) -> bool {
        matches!(self, Kind::Message | Kind::ProactiveRetransmission | Kind::Retransmission)
    }
}

/// One message, checked to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message<'a> {
    /// What it is.
    pub kind: Kind,
    /// The topic within its transport session; 0 for kinds without one.
    pub topic_index: u32,
    /// The topic's number of this message or fragment; 0 for kinds without one.
    pub sqn: Sqn,
    /// The extension headers.
    pub headers: Headers<'a>,
    /// The application data; `None` if the chain ends in "nothing follows".
    pub payload: Option<&'a [u8]>,
    /// Bytes of the whole message.
    pub len: usize,
}

impl<'a> Message<'a> {
    /// Parses the message that begins at `bytes[at]`; what follows it is not looked at.
    ///
    /// # Errors
    /// Another version, a length that does not fit (the message in `bytes`, the chain in the message), or a
    /// known header with a body of the wrong size.
    #[inline]
    pub fn parse(bytes: &'a [u8], at: usize) -> Result<Message<'a>, WireError> {
        match plain(&bytes[at..]) {
            Some((topic_index, sqn, len)) => {
                let payload = Some(&bytes[at + MESSAGE_HEADER_LEN..at + len]);
                Ok(Message { kind: Kind::Message, topic_index, sqn, headers: Headers::NONE, payload, len })
            }
            None => Message::parse_any(bytes, at),
        }
    }

    fn parse_any(bytes: &'a [u8], at: usize) -> Result<Message<'a>, WireError> {
        let (kind, next_hdr, len) = frame(bytes, at)?;
        let whole = &bytes[at..at + len];
        let fixed = if kind.has_topic() { MESSAGE_HEADER_LEN } else { CONTROL_HEADER_LEN };
        if len < fixed {
            return Err(WireError::BadLength { part: Part::LbmcMessage, at, found: len, limit: fixed });
        }
        let (topic_index, sqn) = if kind.has_topic() { topic_of(whole) } else { (0, Sqn(0)) };
        if let Kind::Other(_) = kind {
            let headers = Headers::NONE;
            return Ok(Message { kind, topic_index, sqn, headers, payload: None, len });
        }
        let (headers, data_at, last) = Headers::walk(next_hdr, whole, fixed, at)?;
        let payload = (last == NEXT_DATA).then(|| &whole[data_at..]);
        if payload.is_none() && data_at != len {
            let (at, extra) = (at + data_at, len - data_at);
            return Err(WireError::Trailing { part: Part::LbmcMessage, at, extra });
        }
        Ok(Message { kind, topic_index, sqn, headers, payload, len })
    }

    /// The application data; empty if there is none.
    #[must_use]
    pub fn data(&self) -> &'a [u8] {
        self.payload.unwrap_or(&[])
    }
}

/// The first four bytes: kind, first header, and a length that fits in `bytes`.
fn frame(bytes: &[u8], at: usize) -> Result<(Kind, u8, usize), WireError> {
    let have = bytes.len() - at;
    let Some(&[ver_type, next_hdr, l0, l1]) = bytes[at..].first_chunk() else {
        let need = CONTROL_HEADER_LEN;
        return Err(WireError::Truncated { part: Part::LbmcMessage, at, need, have });
    };
    let version = u32::from(ver_type >> 4);
    if version != 0 {
        return Err(WireError::Unsupported { part: Part::LbmcMessage, found: version, limit: 0 });
    }
    let need = usize::from(u16::from_be_bytes([l0, l1]));
    if need < CONTROL_HEADER_LEN {
        let limit = CONTROL_HEADER_LEN;
        return Err(WireError::BadLength { part: Part::LbmcMessage, at, found: need, limit });
    }
    if need > have {
        return Err(WireError::Truncated { part: Part::LbmcMessage, at, need, have });
    }
    Ok((Kind::from_code(ver_type & 0xF), next_hdr, need))
}

/// The length of the message that begins with `start`, where it stands alone in a stream.
///
/// `None` if `start` is shorter than the part of the header that says it.
///
/// # Errors
/// Another version, a type that is not known (in a stream the place was lost, most likely), or a length
/// below the header's.
pub(crate) fn stream_len(start: &[u8]) -> Result<Option<usize>, WireError> {
    let Some(&[ver_type, _, l0, l1]) = start.first_chunk() else { return Ok(None) };
    let (part, found) = (Part::LbmcMessage, u32::from(ver_type));
    let kind = Kind::from_code(ver_type & 0xF);
    if ver_type >> 4 != 0 || matches!(kind, Kind::Other(_)) {
        return Err(WireError::Unsupported { part, found, limit: u32::from(Kind::Retransmission.code()) });
    }
    let len = usize::from(u16::from_be_bytes([l0, l1]));
    let limit = if kind.has_topic() { MESSAGE_HEADER_LEN } else { CONTROL_HEADER_LEN };
    if len < limit { Err(WireError::BadLength { part, at: 0, found: len, limit }) } else { Ok(Some(len)) }
}

fn topic_of(whole: &[u8]) -> (u32, Sqn) {
    let [_, _, _, _, i0, i1, i2, i3, s0, s1, s2, s3] =
        *whole.first_chunk::<MESSAGE_HEADER_LEN>().expect("the length was checked by the caller");
    (u32::from_be_bytes([i0, i1, i2, i3]), Sqn(u32::from_be_bytes([s0, s1, s2, s3])))
}

/// The messages of one datagram, which were checked with [`check`].
#[derive(Clone, Copy, Debug)]
pub struct Messages<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Messages<'a> {
    /// The messages in `bytes`, first to last.
    #[must_use]
    pub fn new(bytes: &'a [u8]) -> Messages<'a> {
        Messages { bytes, at: 0 }
    }
}

impl<'a> Iterator for Messages<'a> {
    type Item = Result<Message<'a>, WireError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.at == self.bytes.len() {
            return None;
        }
        let message = Message::parse(self.bytes, self.at);
        self.at = message.map_or(self.bytes.len(), |m| self.at + m.len);
        Some(message)
    }
}

/// Checks that `bytes` are whole, well-formed messages end to end, and counts them.
///
/// A receiver checks before it acts, so that a malformed datagram delivers nothing at all. Messages without
/// extension headers, the common case, cost a comparison each.
///
/// # Errors
/// The first defect.
#[inline]
pub fn check(bytes: &[u8]) -> Result<u32, WireError> {
    let (mut at, mut count) = (0, 0);
    while at < bytes.len() {
        at += match plain(&bytes[at..]) {
            Some((_, _, len)) => len,
            None => Message::parse_any(bytes, at)?.len,
        };
        count += 1;
    }
    Ok(count)
}

/// A message of type 0 without extension headers that begins `bytes`: topic index, number, length.
///
/// `None` for everything else, well-formed or not.
#[inline]
pub(crate) fn plain(bytes: &[u8]) -> Option<(u32, Sqn, usize)> {
    let &[z0, z1, l0, l1, i0, i1, i2, i3, s0, s1, s2, s3] = bytes.first_chunk()?;
    // version, type and next header are all zero exactly when the word is no longer than the length
    let word = u32::from_be_bytes([z0, z1, l0, l1]);
    let len = word as usize;
    if word > 0xFFFF || len < MESSAGE_HEADER_LEN || len > bytes.len() {
        return None;
    }
    Some((u32::from_be_bytes([i0, i1, i2, i3]), Sqn(u32::from_be_bytes([s0, s1, s2, s3])), len))
}

/// The header of a message of type 0 without extension headers.
///
/// `len` is the whole message's and at most [`MESSAGE_LEN_MAX`], which whoever cuts messages to datagrams
/// sees to.
#[inline]
pub(crate) fn plain_header(len: usize, topic_index: u32, sqn: Sqn) -> [u8; MESSAGE_HEADER_LEN] {
    let [l0, l1] = (len as u16).to_be_bytes();
    let [i0, i1, i2, i3] = topic_index.to_be_bytes();
    let [s0, s1, s2, s3] = sqn.0.to_be_bytes();
    [0, 0, l0, l1, i0, i1, i2, i3, s0, s1, s2, s3]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(payload: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        emit_message(&mut out, Kind::Message, Some((7, Sqn(9))), &Chain::default(), Some(payload));
        out
    }

    #[test]
    fn plain_and_full_parsing_agree() {
        let bytes = message(b"abc");
        let full = Message::parse(&bytes, 0).expect("well-formed");
        assert_eq!(plain(&bytes), Some((full.topic_index, full.sqn, full.len)));
        assert_eq!(full.data(), b"abc");
        assert_eq!(plain_header(bytes.len(), 7, Sqn(9)), bytes[..12]);
    }

    #[test]
    fn a_batch_is_walked_to_its_last_byte() {
        let mut bytes = message(b"abc");
        bytes.extend_from_slice(&message(b""));
        assert_eq!(check(&bytes), Ok(2));
        assert_eq!(Messages::new(&bytes).filter(Result::is_ok).count(), 2);
        bytes.push(0);
        let refused = WireError::Truncated { part: Part::LbmcMessage, at: 27, need: 4, have: 1 };
        assert_eq!(check(&bytes), Err(refused));
    }

    #[test]
    fn a_message_longer_than_its_datagram_is_refused() {
        let bytes = message(b"abcdef");
        for cut in 1..bytes.len() {
            assert!(matches!(check(&bytes[..cut]), Err(WireError::Truncated { .. })), "{cut}");
        }
    }

    #[test]
    fn a_message_shorter_than_its_header_is_refused() {
        let mut bytes = message(b"");
        bytes[3] = 11;
        let refused = WireError::BadLength { part: Part::LbmcMessage, at: 0, found: 11, limit: 12 };
        assert_eq!(check(&bytes), Err(refused));
        bytes[3] = 0;
        assert!(matches!(check(&bytes), Err(WireError::BadLength { found: 0, .. })));
    }

    #[test]
    fn an_unknown_type_is_skipped_by_its_length() {
        let mut bytes = vec![0x05, 0xFF, 0, 6, 1, 2];
        bytes.extend_from_slice(&message(b"x"));
        assert_eq!(check(&bytes), Ok(2));
    }
}

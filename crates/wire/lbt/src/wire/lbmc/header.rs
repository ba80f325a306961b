use super::super::Reader;
use super::element::Elements;
use super::{NEXT_DATA, NEXT_NONE, TSNI_RECORDS_MAX};
use crate::error::{Part, WireError};
use std::net::Ipv4Addr;
use units::Sqn;

pub(super) const FRAG: u8 = 0x01;
const BATCH: u8 = 0x02;
const REQUEST: u8 = 0x04;
const TOPIC_NAME: u8 = 0x05;
const CHAIN: u8 = 0x07;
const SOURCE_INDEX: u8 = 0x0E;
const RETRANSMISSION_REQUEST: u8 = 0x15;
const LATE_JOIN_INFO: u8 = 0x1E;
const TSNI: u8 = 0x20;
const STREAM: u8 = 0x4B;
const LATE_JOIN_INFO_REQUEST: u8 = 0x4E;
const TCP_SESSION_ID: u8 = 0x6B;
const EXTOPT: u8 = 0xFE;

/// Bytes of `next` and `len`, with which every header begins.
const PREFIX_LEN: usize = 2;

/// One extension header. Layouts follow the `next u8, len u8` that every header begins with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Header<'a> {
    /// FRAG 0x01: `flags u16, first_sqn u32, offset u32, length u32`.
    Frag {
        /// 0.
        flags: u16,
        /// Topic number of the first fragment.
        first_sqn: Sqn,
        /// Where this fragment's data belongs in the whole message.
        offset: u32,
        /// Bytes of the whole message.
        length: u32,
    },
    /// BATCH 0x02: `flags u16`.
    Batch {
        /// 2 first, 1 last of an explicit batch.
        flags: u16,
    },
    /// REQUEST 0x04: `flags u8, transport u8, index u32, port u16, reserved u16, ip u32`: where to answer.
    Request {
        /// 0x80: may be ignored.
        flags: u8,
        /// 0: TCP.
        transport: u8,
        /// Number of the request at the one who asks.
        index: u32,
        /// TCP port to answer to.
        port: u16,
        /// Address to answer to.
        ip: Ipv4Addr,
    },
    /// Topic name 0x05: `flags u16`, name to the end of the header.
    TopicName {
        /// 0x8000: may be ignored.
        flags: u16,
        /// The name, without a zero.
        name: &'a [u8],
    },
    /// Chain 0x07: `reserved u8, first element u8`, then elements; see [`Elements`].
    Chain {
        /// The application's elements, one at least.
        elements: Elements<'a>,
    },
    /// Source index 0x0E: `flags u16, transport u32, topic u32`: what is sent again, and of which source.
    SourceIndex {
        /// 0x8000: may be ignored.
        flags: u16,
        /// The transport session's number within its context.
        transport: u32,
        /// The topic's index.
        topic: u32,
    },
    /// Late-join information request 0x4E: `flags u16, request u32, transport u32, topic u32, ip, port u16,
    /// reserved u16, low u32, request max u32, outstanding max u32`: which messages of a topic are retained?
    LateJoinInfoRequest {
        /// Which of the last three fields are given: 1, 2, 4.
        flags: u16,
        /// Number of the request at the one who asks.
        request: u32,
        /// The transport session's number within its context.
        transport: u32,
        /// The topic's index.
        topic: u32,
        /// Address of the one who asks.
        ip: Ipv4Addr,
        /// Request port of the one who asks.
        port: u16,
        /// Lowest number wanted.
        low: Sqn,
        /// Most messages that will be asked for.
        request_max: u32,
        /// Most of them at a time.
        outstanding_max: u32,
    },
    /// Late-join information 0x1E: `flags u16, low u32, high u32, request u32`: the numbers retained.
    LateJoinInfo {
        /// 0x8000: may be ignored.
        flags: u16,
        /// Lowest number that can be asked for; after `high` if there is none.
        low: Sqn,
        /// The last number sent.
        high: Sqn,
        /// The request answered.
        request: u32,
    },
    /// Retransmission request 0x15: `flags u16, request u32, transport u32, topic u32, sqn u32, port u16,
    /// reserved u16, ip`.
    RetransmissionRequest {
        /// 0x4000: an announcement of the last number is wanted.
        flags: u16,
        /// Number of the request at the one who asks.
        request: u32,
        /// The transport session's number within its context.
        transport: u32,
        /// The topic's index.
        topic: u32,
        /// The number wanted.
        sqn: Sqn,
        /// Request port of the one who asks.
        port: u16,
        /// Address of the one who asks.
        ip: Ipv4Addr,
    },
    /// TSNI 0x20: `count u16`, then topic index and last number sent, four bytes each.
    Tsni {
        /// 0x8000: may be ignored; the count is in the records.
        flags: u16,
        /// One record a topic.
        records: TsniRecords<'a>,
    },
    /// Stream 0x4B: `flags u16, stream u32, sqn u32, context 8 bytes` (unicast immediate messages).
    Stream {
        /// 0x8000: may be ignored.
        flags: u16,
        /// The stream.
        stream: u32,
        /// Number of the message within the stream.
        sqn: Sqn,
        /// Instance of the sending context.
        context: [u8; 8],
    },
    /// TCP session id 0x6B: `flags u16, session_id u32`.
    TcpSessionId {
        /// 0x8000: may be ignored.
        flags: u16,
        /// The session this connection carries.
        session_id: u32,
    },
    /// EXTOPT 0xFE, the private extension: `flags u8, id u8, subtype u16, offset u16`, data to the end.
    ExtOpt {
        /// 0x80 may be ignored, 0x40 subtype may be ignored, 0x20 more fragments follow.
        flags: u8,
        /// Tells options of one message apart.
        id: u8,
        /// What the option is.
        subtype: u16,
        /// Where this fragment's data belongs in the option.
        offset: u16,
        /// At most 247 bytes.
        data: &'a [u8],
    },
    /// Any other header: skipped by its length.
    Other {
        /// Its number.
        kind: u8,
        /// What follows `next` and `len`.
        body: &'a [u8],
    },
}

impl<'a> Header<'a> {
    /// Parses a header of number `kind` from what follows its `next` and `len`.
    ///
    /// # Errors
    /// A known header whose body has another size than its layout.
    pub fn parse(kind: u8, body: &'a [u8]) -> Result<Header<'a>, WireError> {
        let part = if kind == FRAG { Part::Fragment } else { Part::LbmcHeader };
        let mut r = Reader::new(body, part);
        let header = match kind {
            FRAG => {
                Header::Frag { flags: r.u16()?, first_sqn: Sqn(r.u32()?), offset: r.u32()?, length: r.u32()? }
            }
            BATCH => Header::Batch { flags: r.u16()? },
            REQUEST => Header::read_request(&mut r)?,
            TOPIC_NAME => Header::TopicName { flags: r.u16()?, name: r.take(r.left())? },
            TSNI => Header::read_tsni(&mut r)?,
            CHAIN => Header::Chain { elements: Elements::read(&mut r)? },
            SOURCE_INDEX => Header::SourceIndex { flags: r.u16()?, transport: r.u32()?, topic: r.u32()? },
            LATE_JOIN_INFO_REQUEST => Header::read_late_join_request(&mut r)?,
            LATE_JOIN_INFO => Header::LateJoinInfo {
                flags: r.u16()?,
                low: Sqn(r.u32()?),
                high: Sqn(r.u32()?),
                request: r.u32()?,
            },
            RETRANSMISSION_REQUEST => Header::read_retransmission_request(&mut r)?,
            STREAM => {
                Header::Stream { flags: r.u16()?, stream: r.u32()?, sqn: Sqn(r.u32()?), context: r.array()? }
            }
            TCP_SESSION_ID => Header::TcpSessionId { flags: r.u16()?, session_id: r.u32()? },
            EXTOPT => Header::ExtOpt {
                flags: r.u8()?,
                id: r.u8()?,
                subtype: r.u16()?,
                offset: r.u16()?,
                data: r.take(r.left())?,
            },
            kind => Header::Other { kind, body: r.take(body.len())? },
        };
        r.end()?;
        Ok(header)
    }

    fn read_request(r: &mut Reader<'a>) -> Result<Header<'a>, WireError> {
        let (flags, transport, index, port) = (r.u8()?, r.u8()?, r.u32()?, r.u16()?);
        let _reserved = r.u16()?;
        Ok(Header::Request { flags, transport, index, port, ip: Ipv4Addr::from(r.array()?) })
    }

    fn read_late_join_request(r: &mut Reader<'a>) -> Result<Header<'a>, WireError> {
        let (flags, request, transport, topic) = (r.u16()?, r.u32()?, r.u32()?, r.u32()?);
        let (ip, port, _reserved) = (Ipv4Addr::from(r.array()?), r.u16()?, r.u16()?);
        let (low, request_max, outstanding_max) = (Sqn(r.u32()?), r.u32()?, r.u32()?);
        Ok(Header::LateJoinInfoRequest {
            flags,
            request,
            transport,
            topic,
            ip,
            port,
            low,
            request_max,
            outstanding_max,
        })
    }

    fn read_retransmission_request(r: &mut Reader<'a>) -> Result<Header<'a>, WireError> {
        let (flags, request, transport, topic, sqn) = (r.u16()?, r.u32()?, r.u32()?, r.u32()?, Sqn(r.u32()?));
        let (port, _reserved) = (r.u16()?, r.u16()?);
        let ip = Ipv4Addr::from(r.array()?);
        Ok(Header::RetransmissionRequest { flags, request, transport, topic, sqn, port, ip })
    }

    fn read_tsni(r: &mut Reader<'a>) -> Result<Header<'a>, WireError> {
        let count = r.u16()?;
        let records = TsniRecords(r.take(8 * usize::from(count & 0x7FFF))?);
        Ok(Header::Tsni { flags: count & 0x8000, records })
    }

    /// The number of the header.
    #[must_use]
    pub fn kind(&self) -> u8 {
        match self {
            Header::Frag { .. } => FRAG,
            Header::Batch { .. } => BATCH,
            Header::Request { .. } => REQUEST,
            Header::TopicName { .. } => TOPIC_NAME,
            Header::Chain { .. } => CHAIN,
            Header::SourceIndex { .. } => SOURCE_INDEX,
            Header::LateJoinInfoRequest { .. } => LATE_JOIN_INFO_REQUEST,
            Header::LateJoinInfo { .. } => LATE_JOIN_INFO,
            Header::RetransmissionRequest { .. } => RETRANSMISSION_REQUEST,
            Header::Tsni { .. } => TSNI,
            Header::Stream { .. } => STREAM,
            Header::TcpSessionId { .. } => TCP_SESSION_ID,
            Header::ExtOpt { .. } => EXTOPT,
            Header::Other { kind, .. } => *kind,
        }
    }

    /// Appends what follows `next` and `len`.
    pub(super) fn emit_body(&self, out: &mut Vec<u8>) {
        match *self {
            Header::Frag { flags, first_sqn, offset, length } => {
                out.extend_from_slice(&flags.to_be_bytes());
                out.extend_from_slice(&first_sqn.0.to_be_bytes());
                out.extend_from_slice(&offset.to_be_bytes());
                out.extend_from_slice(&length.to_be_bytes());
            }
            Header::Batch { flags } => out.extend_from_slice(&flags.to_be_bytes()),
            Header::Request { flags, transport, index, port, ip } => {
                out.extend_from_slice(&[flags, transport]);
                out.extend_from_slice(&index.to_be_bytes());
                out.extend_from_slice(&port.to_be_bytes());
                out.extend_from_slice(&[0, 0]);
                out.extend_from_slice(&ip.octets());
            }
            Header::TopicName { flags, name } => {
                out.extend_from_slice(&flags.to_be_bytes());
                out.extend_from_slice(name);
            }
            Header::Chain { elements } => elements.emit(out),
            Header::SourceIndex { flags, transport, topic } => {
                out.extend_from_slice(&flags.to_be_bytes());
                numbers(out, &[transport, topic]);
            }
            Header::LateJoinInfoRequest {
                flags,
                request,
                transport,
                topic,
                ip,
                port,
                low,
                request_max,
                outstanding_max,
            } => {
                out.extend_from_slice(&flags.to_be_bytes());
                numbers(out, &[request, transport, topic, ip.to_bits(), u32::from(port) << 16]);
                numbers(out, &[low.0, request_max, outstanding_max]);
            }
            Header::LateJoinInfo { flags, low, high, request } => {
                out.extend_from_slice(&flags.to_be_bytes());
                numbers(out, &[low.0, high.0, request]);
            }
            Header::RetransmissionRequest { flags, request, transport, topic, sqn, port, ip } => {
                out.extend_from_slice(&flags.to_be_bytes());
                numbers(out, &[request, transport, topic, sqn.0, u32::from(port) << 16, ip.to_bits()]);
            }
            Header::Tsni { flags, records } => {
                let count = records.len() as u16 | flags;
                out.extend_from_slice(&count.to_be_bytes());
                out.extend_from_slice(records.0);
            }
            Header::Stream { flags, stream, sqn, context } => {
                out.extend_from_slice(&flags.to_be_bytes());
                out.extend_from_slice(&stream.to_be_bytes());
                out.extend_from_slice(&sqn.0.to_be_bytes());
                out.extend_from_slice(&context);
            }
            Header::TcpSessionId { flags, session_id } => {
                out.extend_from_slice(&flags.to_be_bytes());
                out.extend_from_slice(&session_id.to_be_bytes());
            }
            Header::ExtOpt { flags, id, subtype, offset, data } => {
                out.extend_from_slice(&[flags, id]);
                out.extend_from_slice(&subtype.to_be_bytes());
                out.extend_from_slice(&offset.to_be_bytes());
                out.extend_from_slice(data);
            }
            Header::Other { body, .. } => out.extend_from_slice(body),
        }
    }
}

/// Appends numbers of four bytes each; a port with the two reserved bytes behind it is one.
fn numbers(out: &mut Vec<u8>, values: &[u32]) {
    values.iter().for_each(|value| out.extend_from_slice(&value.to_be_bytes()));
}

/// Topics and the last number sent on each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TsniRecords<'a>(&'a [u8]);

impl<'a> TsniRecords<'a> {
    /// How many topics.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len() / 8
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Topic index and last number sent.
    pub fn iter(&self) -> impl Iterator<Item = (u32, Sqn)> + use<'a> {
        self.0.as_chunks::<8>().0.iter().map(|&[i0, i1, i2, i3, s0, s1, s2, s3]| {
            (u32::from_be_bytes([i0, i1, i2, i3]), Sqn(u32::from_be_bytes([s0, s1, s2, s3])))
        })
    }
}

/// Appends a control message that announces the last number of each topic; at most [`TSNI_RECORDS_MAX`] of
/// them.
pub fn emit_tsni(out: &mut Vec<u8>, topics: &[(u32, Sqn)]) {
    assert!(topics.len() <= TSNI_RECORDS_MAX, "the length of the header is one byte");
    let header_len = 4 + 8 * topics.len();
    out.extend_from_slice(&[super::Kind::Control.code(), TSNI]);
    out.extend_from_slice(&((super::CONTROL_HEADER_LEN + header_len) as u16).to_be_bytes());
    out.extend_from_slice(&[NEXT_NONE, header_len as u8]);
    out.extend_from_slice(&(topics.len() as u16).to_be_bytes());
    for (index, sqn) in topics {
        out.extend_from_slice(&index.to_be_bytes());
        out.extend_from_slice(&sqn.0.to_be_bytes());
    }
}

/// The chain of extension headers of one message, checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Headers<'a> {
    first: u8,
    bytes: &'a [u8],
}

impl<'a> Headers<'a> {
    /// No headers.
    pub const NONE: Headers<'static> = Headers { first: NEXT_DATA, bytes: &[] };

    /// Walks the chain that begins at `whole[fixed]` with a header of number `first`; also returns where the
    /// chain ends and with what. `at` is where the message begins, for errors.
    pub(super) fn walk(
        first: u8,
        whole: &'a [u8],
        fixed: usize,
        at: usize,
    ) -> Result<(Headers<'a>, usize, u8), WireError> {
        let (mut kind, mut pos) = (first, fixed);
        while kind != NEXT_DATA && kind != NEXT_NONE {
            let (next, body) = split(&whole[pos..], at + pos)?;
            Header::parse(kind, body)?;
            pos += PREFIX_LEN + body.len();
            kind = next;
        }
        Ok((Headers { first, bytes: &whole[fixed..pos] }, pos, kind))
    }

    /// A chain of which the first header has number `first`, as [`Headers::parts`] gave it.
    ///
    /// # Errors
    /// It is no chain: it is cut, or a known header has a body of the wrong size.
    pub fn parse(first: u8, bytes: &'a [u8]) -> Result<Headers<'a>, WireError> {
        if bytes.is_empty() {
            return Ok(Headers::NONE);
        }
        let (mut kind, mut at) = (first, 0);
        while at < bytes.len() {
            let (next, body) = split(&bytes[at..], at)?;
            Header::parse(kind, body)?;
            at += PREFIX_LEN + body.len();
            kind = next;
        }
        Ok(Headers { first, bytes })
    }

    /// A chain that was walked before: the number of its first header and its bytes.
    pub(crate) fn from_checked(first: u8, bytes: &'a [u8]) -> Headers<'a> {
        Headers { first, bytes }
    }

    /// The number of the first header, and the chain's bytes.
    #[must_use]
    pub fn parts(&self) -> (u8, &'a [u8]) {
        (self.first, self.bytes)
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// The headers in their order.
    #[must_use]
    pub fn iter(&self) -> HeaderIter<'a> {
        HeaderIter { kind: self.first, bytes: self.bytes }
    }

    /// The hot failover number of the message, if it has one.
    #[must_use]
    pub fn failover_number(&self) -> Option<u64> {
        self.iter().find_map(|h| match h {
            Header::Chain { elements } => elements.failover_number(),
            _ => None,
        })
    }

    /// The FRAG header as (first number, offset, length of the whole message).
    #[must_use]
    pub fn frag(&self) -> Option<(Sqn, u32, u32)> {
        self.iter().find_map(|h| match h {
            Header::Frag { first_sqn, offset, length, .. } => Some((first_sqn, offset, length)),
            _ => None,
        })
    }
}

impl<'a> IntoIterator for Headers<'a> {
    type Item = Header<'a>;
    type IntoIter = HeaderIter<'a>;
    fn into_iter(self) -> HeaderIter<'a> {
        self.iter()
    }
}

/// Iterates over a checked chain.
#[derive(Clone, Copy, Debug)]
pub struct HeaderIter<'a> {
    kind: u8,
    bytes: &'a [u8],
}

impl<'a> Iterator for HeaderIter<'a> {
    type Item = Header<'a>;

    fn next(&mut self) -> Option<Header<'a>> {
        if self.bytes.is_empty() {
            return None;
        }
        let (next, body) = split(self.bytes, 0).ok()?;
        let header = Header::parse(self.kind, body).ok()?;
        self.kind = next;
        self.bytes = &self.bytes[PREFIX_LEN + body.len()..];
        Some(header)
    }
}

/// The next header's number and this one's body.
fn split(bytes: &[u8], at: usize) -> Result<(u8, &[u8]), WireError> {
    let part = Part::LbmcHeader;
    let Some(&[next, len]) = bytes.first_chunk() else {
        return Err(WireError::Truncated { part, at, need: PREFIX_LEN, have: bytes.len() });
    };
    let need = usize::from(len);
    if need < PREFIX_LEN {
        return Err(WireError::BadLength { part, at, found: need, limit: PREFIX_LEN });
    }
    if need > bytes.len() {
        return Err(WireError::Truncated { part, at, need, have: bytes.len() });
    }
    Ok((next, &bytes[PREFIX_LEN..need]))
}

#[cfg(test)]
mod tests {
    use super::super::{Chain, Kind, Message, emit_message};
    use super::*;

    fn with(header: Header<'_>) -> Vec<u8> {
        let mut chain = Chain::default();
        chain.push(&header);
        let mut out = Vec::new();
        emit_message(&mut out, Kind::Message, Some((1, Sqn(2))), &chain, Some(b"data"));
        out
    }

    #[test]
    fn an_unknown_header_is_skipped_by_its_length() {
        let bytes = with(Header::Other { kind: 0x7E, body: b"\0\0abcd" });
        let message = Message::parse(&bytes, 0).expect("skipped");
        assert_eq!(message.data(), b"data");
    }

    #[test]
    fn a_known_header_of_another_size_is_refused() {
        let bytes = with(Header::Other { kind: FRAG, body: &[0; 15] });
        assert!(matches!(Message::parse(&bytes, 0), Err(WireError::Trailing { extra: 1, .. })));
        let bytes = with(Header::Other { kind: TSNI, body: &[0, 2, 0, 0, 0, 0] });
        assert!(matches!(Message::parse(&bytes, 0), Err(WireError::Truncated { need: 16, .. })));
    }

    #[test]
    fn a_chain_reads_back_from_its_parts() {
        let mut chain = Chain::default();
        chain.push(&Header::Batch { flags: 2 });
        chain.push(&Header::Other { kind: 0x7E, body: b"\0\0ab" });
        let mut bytes = Vec::new();
        emit_message(&mut bytes, Kind::Message, Some((1, Sqn(2))), &chain, Some(b"data"));
        let message = Message::parse(&bytes, 0).expect("well-formed");
        let (first, parts) = message.headers.parts();
        let again = Headers::parse(first, parts).expect("it was checked");
        assert!(again.iter().eq(message.headers.iter()) && again.iter().count() == 2);
        assert_eq!(Headers::parse(0, &[]), Ok(Headers::NONE));
        assert!(Headers::parse(first, &parts[..parts.len() - 1]).is_err());
    }

    #[test]
    fn a_header_length_below_two_or_past_the_message_is_refused() {
        let good = with(Header::Batch { flags: 2 });
        for (len, expected) in [(0, 2), (1, 2)] {
            let mut bad = good.clone();
            bad[13] = len;
            let refused = WireError::BadLength {
                part: Part::LbmcHeader,
                at: 12,
                found: usize::from(len),
                limit: expected,
            };
            assert_eq!(Message::parse(&bad, 0), Err(refused));
        }
        let mut bad = good;
        bad[13] = 200;
        assert!(matches!(Message::parse(&bad, 0), Err(WireError::Truncated { need: 200, .. })));
    }

    #[test]
    fn tsni_of_many_topics_reads_back() {
        let topics: Vec<_> = (0..31).map(|i| (i, Sqn(i * 7))).collect();
        let mut bytes = Vec::new();
        emit_tsni(&mut bytes, &topics);
        let message = Message::parse(&bytes, 0).expect("well-formed");
        let Some(Header::Tsni { records, .. }) = message.headers.iter().next() else { panic!("{message:?}") };
        assert!(records.iter().eq(topics));
        assert_eq!(message.payload, None);
    }
}

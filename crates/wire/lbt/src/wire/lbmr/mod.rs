//! LBMR: topic resolution.
//!
//! ```text
//!  0  ver_type u8    version in the high nibble (not judged), 0x08 packet options follow, type in 3 bits
//!  1  queries u8     how many (extended type: its code)
//!  2  records u16    how many topic information records (resolution request: its mask)
//!  4  queries, records, packet options
//! ```
//!
//! Types: 0 queries and records, 1 wildcard queries, 2 and 3 keep-alives of unicast resolution, 7 extended;
//! the others are recognised and left alone.

mod option;
mod record;

pub use option::{PacketOption, PacketOptions};
pub use record::{TopicInformation, TopicOption, TopicOptions, Transport};

use super::Reader;
use crate::error::{Part, WireError};

/// Bytes of the header.
pub const HEADER_LEN: usize = 4;
/// Longest topic name or pattern, without its zero.
pub const NAME_LEN_MAX: usize = 255;
/// Most queries in a packet, by the width of the count.
pub const QUERIES_MAX: usize = 255;

const OPTIONS_FLAG: u8 = 0x08;
const TYPE_EXTENDED: u8 = 7;
const EXTENDED_RESOLUTION_REQUEST: u8 = 4;

/// What a packet is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Queries and topic information records.
    Normal,
    /// Wildcard queries.
    Wildcard,
    /// Keep-alive of a receiver's context to a unicast resolver.
    ReceiverAlive,
    /// Keep-alive of a source's context to a unicast resolver.
    SourceAlive,
    /// Asks everybody to repeat: bits of [`ResolutionRequest`].
    ResolutionRequest(u16),
    /// Another type; nothing but the header is looked at.
    Other {
        /// Low nibble of the first byte.
        code: u8,
        /// Second byte.
        count: u8,
        /// Third and fourth byte.
        second: u16,
    },
}

/// What a resolution request asks to have repeated.
pub struct ResolutionRequest;

impl ResolutionRequest {
    /// Wildcard queries.
    pub const WILDCARD_QUERIES: u16 = 1;
    /// Queries.
    pub const QUERIES: u16 = 2;
    /// Advertisements.
    pub const ADVERTISEMENTS: u16 = 4;
}

/// One packet, checked to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet<'a> {
    /// High nibble of the first byte; UM 6 sends 1.
    pub version: u8,
    /// What it is.
    pub kind: Kind,
    /// The queries; of patterns if the kind is [`Kind::Wildcard`].
    pub queries: Queries<'a>,
    /// The topic information records.
    pub records: TopicRecords<'a>,
    /// The packet options, if there are any.
    pub options: Option<PacketOptions<'a>>,
    /// What follows the header of a packet of [`Kind::Other`]; empty in the others.
    pub unread: &'a [u8],
}

impl<'a> Packet<'a> {
    /// Parses a whole datagram.
    ///
    /// # Errors
    /// The first record or option that does not fit, or bytes after the last.
    pub fn parse(datagram: &'a [u8]) -> Result<Packet<'a>, WireError> {
        let mut r = Reader::new(datagram, Part::LbmrHeader);
        let (ver_type, count, second) = (r.u8()?, r.u8()?, r.u16()?);
        let version = ver_type >> 4;
        let kind = Kind::of(ver_type, count, second);
        let bare = Packet { version, ..Packet::of(kind) };
        match kind {
            Kind::Other { .. } => return Ok(Packet { unread: r.rest(), ..bare }),
            Kind::ResolutionRequest(_) => return r.end().map(|()| bare),
            _ => {}
        }
        let queries = Queries::read(&mut r, count, kind == Kind::Wildcard)?;
        let records = TopicRecords::read(&mut r, second)?;
        r.part(Part::LbmrHeader);
        let flagged = ver_type & OPTIONS_FLAG != 0;
        let options = if flagged { Some(PacketOptions::read(&mut r)?) } else { None };
        r.end()?;
        Ok(Packet { queries, records, options, ..bare })
    }

    /// A packet of version 0 without records and options.
    #[must_use]
    pub fn of(kind: Kind) -> Packet<'a> {
        let (queries, records) = (Queries::NONE, TopicRecords::NONE);
        Packet { version: 0, kind, queries, records, options: None, unread: &[] }
    }

    /// Appends the packet to `out`.
    pub fn emit(&self, out: &mut Vec<u8>) {
        let flag = if self.options.is_some() { OPTIONS_FLAG } else { 0 };
        let (count, second) = match self.kind {
            Kind::ResolutionRequest(mask) => (EXTENDED_RESOLUTION_REQUEST, mask),
            Kind::Other { count, second, .. } => (count, second),
            _ => (self.queries.count, self.records.count),
        };
        out.extend_from_slice(&[self.version << 4 | flag | self.kind.code(), count]);
        out.extend_from_slice(&second.to_be_bytes());
        out.extend_from_slice(self.queries.bytes);
        out.extend_from_slice(self.records.bytes);
        if let Some(options) = self.options {
            options.emit(out);
        }
        out.extend_from_slice(self.unread);
    }
}

impl Kind {
    fn of(ver_type: u8, count: u8, second: u16) -> Kind {
        match ver_type & 7 {
            0 => Kind::Normal,
            1 => Kind::Wildcard,
            2 => Kind::ReceiverAlive,
            3 => Kind::SourceAlive,
            TYPE_EXTENDED if count == EXTENDED_RESOLUTION_REQUEST => Kind::ResolutionRequest(second),
            _ => Kind::Other { code: ver_type & 0xF, count, second },
        }
    }

    fn code(self) -> u8 {
        match self {
            Kind::Normal => 0,
            Kind::Wildcard => 1,
            Kind::ReceiverAlive => 2,
            Kind::SourceAlive => 3,
            Kind::ResolutionRequest(_) => TYPE_EXTENDED,
            Kind::Other { code, .. } => code,
        }
    }
}

/// One query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Query<'a> {
    /// A topic by its name.
    Topic(&'a [u8]),
    /// Topics by a pattern.
    Pattern {
        /// 1 PCRE, 2 POSIX extended.
        syntax: u8,
        /// The pattern.
        pattern: &'a [u8],
    },
}

/// [`Query::Pattern`] in the syntax of Perl.
pub const PATTERN_PCRE: u8 = 1;

impl Query<'_> {
    /// Appends the query.
    pub fn emit(&self, out: &mut Vec<u8>) {
        let name = match *self {
            Query::Topic(name) => name,
            Query::Pattern { syntax, pattern } => {
                out.push(syntax);
                pattern
            }
        };
        emit_name(out, name);
    }
}

/// Appends a string and its zero.
pub(super) fn emit_name(out: &mut Vec<u8>, name: &[u8]) {
    debug_assert!(!name.contains(&0) && name.len() <= NAME_LEN_MAX, "names are checked where they come in");
    out.extend_from_slice(name);
    out.push(0);
}

/// Reads a string of at most [`NAME_LEN_MAX`] bytes and its zero.
pub(super) fn read_name<'a>(r: &mut Reader<'a>, part: Part) -> Result<&'a [u8], WireError> {
    r.part(part);
    let at = r.at();
    let name = r.zero_terminated()?;
    if name.len() > NAME_LEN_MAX {
        return Err(WireError::BadLength { part, at, found: name.len(), limit: NAME_LEN_MAX });
    }
    Ok(name)
}

/// The queries of a packet, checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Queries<'a> {
    count: u8,
    wildcard: bool,
    bytes: &'a [u8],
}

impl<'a> Queries<'a> {
    /// No queries.
    pub const NONE: Queries<'static> = Queries { count: 0, wildcard: false, bytes: &[] };

    /// Queries that were written with [`Query::emit`], for a packet to be sent.
    #[must_use]
    pub fn written(count: u8, wildcard: bool, bytes: &'a [u8]) -> Queries<'a> {
        Queries { count, wildcard, bytes }
    }

    fn read(r: &mut Reader<'a>, count: u8, wildcard: bool) -> Result<Queries<'a>, WireError> {
        let whole = r.rest();
        for _ in 0..count {
            read_query(r, wildcard)?;
        }
        let bytes = &whole[..whole.len() - r.left()];
        Ok(Queries { count, wildcard, bytes })
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        usize::from(self.count)
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The queries in their order.
    pub fn iter(&self) -> impl Iterator<Item = Query<'a>> + use<'a> {
        let (mut r, wildcard) = (Reader::new(self.bytes, Part::TopicQuery), self.wildcard);
        // They were checked when the packet was read, or have just been written.
        (0..self.count).map_while(move |_| read_query(&mut r, wildcard).ok())
    }
}

fn read_query<'a>(r: &mut Reader<'a>, wildcard: bool) -> Result<Query<'a>, WireError> {
    if !wildcard {
        return read_name(r, Part::TopicQuery).map(Query::Topic);
    }
    r.part(Part::TopicQuery);
    Ok(Query::Pattern { syntax: r.u8()?, pattern: read_name(r, Part::TopicQuery)? })
}

/// The topic information records of a packet, checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TopicRecords<'a> {
    count: u16,
    bytes: &'a [u8],
}

impl<'a> TopicRecords<'a> {
    /// No records.
    pub const NONE: TopicRecords<'static> = TopicRecords { count: 0, bytes: &[] };

    /// Records that were written with [`TopicInformation::emit`], for a packet to be sent.
    #[must_use]
    pub fn written(count: u16, bytes: &'a [u8]) -> TopicRecords<'a> {
        TopicRecords { count, bytes }
    }

    fn read(r: &mut Reader<'a>, count: u16) -> Result<TopicRecords<'a>, WireError> {
        let whole = r.rest();
        for _ in 0..count {
            TopicInformation::read(r)?;
        }
        Ok(TopicRecords { count, bytes: &whole[..whole.len() - r.left()] })
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        usize::from(self.count)
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The records in their order.
    pub fn iter(&self) -> impl Iterator<Item = TopicInformation<'a>> + use<'a> {
        let mut r = Reader::new(self.bytes, Part::TopicInformation);
        (0..self.count).map_while(move |_| TopicInformation::read(&mut r).ok())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(queries: &[Query<'_>], wildcard: bool) -> Vec<u8> {
        let mut bytes = Vec::new();
        queries.iter().for_each(|q| q.emit(&mut bytes));
        let queries = Queries::written(queries.len() as u8, wildcard, &bytes);
        let kind = if wildcard { Kind::Wildcard } else { Kind::Normal };
        let mut out = Vec::new();
        Packet { queries, ..Packet::of(kind) }.emit(&mut out);
        out
    }

    #[test]
    fn queries_read_back_in_their_order() {
        let names = [Query::Topic(b"a"), Query::Topic(b"px.eq.ACME"), Query::Topic(b"")];
        let bytes = packet(&names, false);
        let parsed = Packet::parse(&bytes).expect("well-formed");
        assert!(parsed.queries.iter().eq(names));
        let patterns = [Query::Pattern { syntax: PATTERN_PCRE, pattern: b"^px" }];
        let bytes = packet(&patterns, true);
        assert!(Packet::parse(&bytes).expect("well-formed").queries.iter().eq(patterns));
    }

    #[test]
    fn a_name_without_its_zero_or_too_long_is_refused() {
        let bytes = packet(&[Query::Topic(b"abc")], false);
        let cut = &bytes[..bytes.len() - 1];
        assert_eq!(Packet::parse(cut), Err(WireError::Unterminated { part: Part::TopicQuery, at: 4 }));
        let mut long = vec![0, 1, 0, 0];
        long.extend_from_slice(&[b'x'; 256]);
        long.push(0);
        let refused = WireError::BadLength { part: Part::TopicQuery, at: 4, found: 256, limit: 255 };
        assert_eq!(Packet::parse(&long), Err(refused));
    }

    #[test]
    fn bytes_after_the_records_are_refused() {
        let mut bytes = packet(&[Query::Topic(b"abc")], false);
        bytes.extend_from_slice(b"xyz");
        assert!(matches!(Packet::parse(&bytes), Err(WireError::Trailing { extra: 3, .. })));
    }

    #[test]
    fn a_resolution_request_keeps_its_mask() {
        let kind = Kind::ResolutionRequest(ResolutionRequest::QUERIES | ResolutionRequest::ADVERTISEMENTS);
        let mut out = Vec::new();
        Packet::of(kind).emit(&mut out);
        assert_eq!(out, [7, 4, 0, 6]);
        assert_eq!(Packet::parse(&out).map(|p| p.kind), Ok(kind));
    }
}

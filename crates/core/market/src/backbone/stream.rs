use rwf::Domain;

use super::{BackboneError, Cursor, HopPart, VERSION, find_part, is_spoken, put_key_in_full};
use crate::key::ItemKey;

/// What a stream message does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// From here on the id stands for the item named in the body.
    Open,
    /// The same, with the key in full: the item is told apart by more than its name.
    OpenInFull,
    /// The provider's update.
    Update,
    /// A new image for everybody.
    Refresh,
    /// A state change for everybody.
    Status,
    /// The item is gone.
    Close,
    /// The highest sequence so far; takes none itself.
    Heartbeat,
    /// All services of the instance.
    Directory,
    /// The provider's generic message.
    Generic,
    /// A state of all items of the service at this point of the stream; about no item. Receivers of the first versions
    /// skip it: they have the directory alone, which is not ordered against the stream.
    ServiceStatus,
    /// A kind of a later version: it counts in the sequence and is skipped.
    Unknown(u8),
}

impl Kind {
    fn code(self) -> u8 {
        match self {
            Kind::Open => 1,
            Kind::OpenInFull => 65,
            Kind::Update => 2,
            Kind::Refresh => 3,
            Kind::Status => 4,
            Kind::Close => 5,
            Kind::Heartbeat => 6,
            Kind::Directory => 7,
            Kind::Generic => 8,
            Kind::ServiceStatus => 9,
            Kind::Unknown(code) => code,
        }
    }

    fn of(code: u8) -> Kind {
        match code {
            1 => Kind::Open,
            65 => Kind::OpenInFull,
            2 => Kind::Update,
            3 => Kind::Refresh,
            4 => Kind::Status,
            5 => Kind::Close,
            6 => Kind::Heartbeat,
            7 => Kind::Directory,
            8 => Kind::Generic,
            9 => Kind::ServiceStatus,
            other => Kind::Unknown(other),
        }
    }
}

/// Type of the part of an Open that says that the item's messages were not sent before.
const ANEW: u8 = 2;

/// One message of a stream. Shape: section 2 of `docs/protocol/backbone.md`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamMsg<'a> {
    /// What it does.
    pub kind: Kind,
    /// The run of the source distributor that sent it.
    pub instance: u64,
    /// Its number in the stream, from 1; for a heartbeat the highest number sent.
    pub sequence: u64,
    /// The item it is about, 0 for none.
    pub item: u32,
    /// Optional parts of the header, whole words; for most messages there are none. Unknown ones are skipped.
    pub parts: &'a [u8],
    /// What follows the header.
    pub body: &'a [u8],
}

impl<'a> StreamMsg<'a> {
    /// Bytes of a header without optional parts.
    pub const HEADER_BYTES: usize = 24;

    /// Bytes of the longest header that is written.
    pub const HEADER_BYTES_MAX: usize = Self::HEADER_BYTES + HopPart::BYTES_MAX;

    /// Reads a message.
    ///
    /// # Errors
    /// [`BackboneError`] for another version, a header length below 24 bytes or past the end.
    #[inline]
    pub fn parse(bytes: &'a [u8]) -> Result<StreamMsg<'a>, BackboneError> {
        let Some(head) = bytes.first_chunk::<{ StreamMsg::HEADER_BYTES }>() else {
            return Err(BackboneError::Truncated { need: Self::HEADER_BYTES, have: bytes.len() });
        };
        if !is_spoken(head[0]) {
            return Err(BackboneError::Version(head[0]));
        }
        let header_bytes = usize::from(head[3]) * 4;
        if header_bytes < Self::HEADER_BYTES || header_bytes > bytes.len() {
            return Err(BackboneError::HeaderLength(head[3]));
        }
        Ok(StreamMsg {
            kind: Kind::of(head[1]),
            instance: u64::from_be_bytes(*head[4..].first_chunk().expect("the header has 24 bytes")),
            sequence: u64::from_be_bytes(*head[12..].first_chunk().expect("the header has 24 bytes")),
            item: u32::from_be_bytes(*head[20..].first_chunk().expect("the header has 24 bytes")),
            parts: &bytes[Self::HEADER_BYTES..header_bytes],
            body: &bytes[header_bytes..],
        })
    }

    /// The fixed part of this message's header; optional parts and body follow it on the wire.
    #[inline]
    #[must_use]
    pub fn header(&self) -> [u8; StreamMsg::HEADER_BYTES] {
        let mut head = [0; Self::HEADER_BYTES];
        head[0] = VERSION;
        head[1] = self.kind.code();
        head[3] = ((Self::HEADER_BYTES + self.parts.len()) / 4) as u8;
        head[4..12].copy_from_slice(&self.instance.to_be_bytes());
        head[12..20].copy_from_slice(&self.sequence.to_be_bytes());
        head[20..24].copy_from_slice(&self.item.to_be_bytes());
        head
    }

    /// The header with its optional parts in one piece. Parts that are longer than any that is written are left out.
    #[inline]
    #[must_use]
    pub fn header_and_parts<'b>(&self, into: &'b mut [u8; StreamMsg::HEADER_BYTES_MAX]) -> &'b [u8] {
        let parts = if self.parts.len() <= HopPart::BYTES_MAX { self.parts } else { &[] };
        let len = Self::HEADER_BYTES + parts.len();
        into[..Self::HEADER_BYTES].copy_from_slice(&StreamMsg { parts, ..*self }.header());
        into[Self::HEADER_BYTES..len].copy_from_slice(parts);
        &into[..len]
    }

    /// The item that an Open names in its body, in the service of the stream.
    ///
    /// # Errors
    /// [`BackboneError::Truncated`] if the body is shorter than it says, [`BackboneError::Key`] for a key in
    /// full that is none.
    pub fn opened(&self, service: u16) -> Result<ItemKey<'a>, BackboneError> {
        let mut body = Cursor::new(self.body);
        if self.kind == Kind::OpenInFull {
            return body.key_in_full(service);
        }
        let domain = Domain(body.u8()?);
        Ok(ItemKey::named(service, domain, body.name()?))
    }

    /// The optional part of an Open of an item whose messages nobody wanted before: what happened until then was not sent.
    pub const ANEW: &'static [u8] = &[ANEW, 0, 0, 0];

    /// Whether an Open has [`StreamMsg::ANEW`].
    ///
    /// # Errors
    /// [`BackboneError::Truncated`] for a part that runs past the header.
    pub fn is_anew(&self) -> Result<bool, BackboneError> {
        Ok(find_part(self.parts, ANEW)?.is_some())
    }

    /// Kind and body of the message that lets an id stand for an item.
    #[must_use]
    pub fn open(key: &ItemKey<'_>) -> (Kind, Vec<u8>) {
        let mut body = Vec::with_capacity(2 + key.name.len());
        if !key.is_plain() {
            put_key_in_full(&mut body, key);
            return (Kind::OpenInFull, body);
        }
        body.extend_from_slice(&[key.domain.0, key.name.len() as u8]);
        body.extend_from_slice(key.name);
        (Kind::Open, body)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(kind: Kind) -> StreamMsg<'static> {
        StreamMsg {
            kind,
            instance: 0x0102_0304_0506_0708,
            sequence: 9,
            item: 10,
            parts: &[],
            body: b"\x06\x03IBM",
        }
    }

    #[test]
    fn every_kind_comes_back() {
        for code in 0..=255 {
            let msg = message(Kind::of(code));
            let bytes = [&msg.header()[..], msg.body].concat();
            assert_eq!(bytes[1], code);
            assert_eq!(StreamMsg::parse(&bytes), Ok(msg));
        }
    }

    #[test]
    fn the_bytes_are_those_of_the_document() {
        let header = message(Kind::Update).header();
        assert_eq!(header, *b"\x01\x02\x00\x06\x01\x02\x03\x04\x05\x06\x07\x08\0\0\0\0\0\0\0\x09\0\0\0\x0a");
    }

    #[test]
    fn optional_parts_are_skipped() {
        let msg = message(Kind::Open);
        let mut bytes = msg.header().to_vec();
        bytes[3] = 8;
        let parts = b"\x7f\x05hello\0";
        bytes.extend_from_slice(parts);
        bytes.extend_from_slice(msg.body);
        assert_eq!(StreamMsg::parse(&bytes), Ok(StreamMsg { parts, ..msg }));
        assert_eq!(msg.opened(1), Ok(ItemKey::named(1, Domain::MARKET_PRICE, b"IBM")));
    }

    #[test]
    fn an_open_has_the_key_in_full_where_there_is_more_than_a_name() {
        let plain = ItemKey::named(1, Domain::MARKET_PRICE, b"IBM");
        let more = rwf::Key { name_type: Some(2), ..plain.to_key() };
        let in_full = ItemKey::of(1, Domain::MARKET_PRICE, &more).expect("no attributes");
        for (key, kind, bytes) in [
            (plain, Kind::Open, &b"\x06\x03IBM"[..]),
            (in_full, Kind::OpenInFull, b"\x06\0\x06\x06\x03IBM\x02"),
        ] {
            let (opens, body) = StreamMsg::open(&key);
            assert_eq!((opens, &*body), (kind, bytes));
            assert_eq!(StreamMsg { body: &body, ..message(opens) }.opened(1), Ok(key));
        }
    }

    #[test]
    fn what_is_not_a_message_is_refused() {
        let mut bytes = [&message(Kind::Open).header()[..], b"\x06\x09IBM"].concat();
        let parsed = StreamMsg::parse(&bytes).expect("the header is right");
        assert_eq!(parsed.opened(1), Err(BackboneError::Truncated { need: 11, have: 5 }));
        assert_eq!(StreamMsg::parse(&bytes[..23]), Err(BackboneError::Truncated { need: 24, have: 23 }));
        bytes[3] = 5;
        assert_eq!(StreamMsg::parse(&bytes), Err(BackboneError::HeaderLength(5)));
        bytes[3] = 255;
        assert_eq!(StreamMsg::parse(&bytes), Err(BackboneError::HeaderLength(255)));
        bytes[0] = 3;
        assert_eq!(StreamMsg::parse(&bytes), Err(BackboneError::Version(3)));
    }
}

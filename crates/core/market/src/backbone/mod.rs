//! The messages of the backbone protocol (`docs/protocol/backbone.md`): borrowed values to and from bytes.

mod hops;
mod link;
mod stream;

pub use hops::{HopPart, HopTimes, Passage};
pub use link::{Features, LinkDown, LinkUp};
pub use stream::{Kind, StreamMsg};

use std::fmt;

use rwf::{DataState, DataType, DecodeError, Domain, Key, State, StateCode, StatusMsg, StreamState};

use crate::key::ItemKey;

/// The version written. What is one away is read too ([`is_spoken`]), others are refused.
pub const VERSION: u8 = 1;

/// The first version that there is.
const VERSION_FIRST: u8 = 1;

/// Whether messages of a version can be read: this build's, the one before and the one that comes after. A version only
/// adds to the one before it, in ways that this one skips (section 5 of `docs/protocol/backbone.md`).
#[inline]
#[must_use]
pub const fn is_spoken(version: u8) -> bool {
    version >= VERSION_FIRST && version.abs_diff(VERSION) <= 1
}

/// The data of the first optional part of a type among those of a header. A type 0 byte pads to a word.
///
/// # Errors
/// [`BackboneError::Truncated`] for a part that runs past the header.
fn find_part(parts: &[u8], wanted: u8) -> Result<Option<&[u8]>, BackboneError> {
    let mut parts = Cursor::new(parts);
    while !parts.is_empty() {
        let kind = parts.u8()?;
        if kind == 0 {
            continue;
        }
        let len = parts.u8()?;
        let data = parts.take(len.into())?;
        if kind == wanted {
            return Ok(Some(data));
        }
    }
    Ok(None)
}

/// What clients get of items whose service is down.
pub(crate) const SERVICE_DOWN_TEXT: &str = "the service is down: its provider has gone";

/// What all items of a service are that is down, with stream id 0.
pub(crate) fn service_status() -> Vec<u8> {
    let state =
        Some(State::new(StreamState::Open, DataState::Suspect).because(StateCode::NONE, SERVICE_DOWN_TEXT));
    let msg = StatusMsg { state, ..StatusMsg::new(Domain::MARKET_PRICE, 0, DataType::NO_DATA) };
    rwf::encode_to_vec(|w| msg.encode(w)).expect("a short text can be encoded")
}

/// Longest name of a service: that of its topic, `tickcast.service.NAME`, has 255 bytes at most.
pub const SERVICE_NAME_BYTES_MAX: usize = 238;

/// Whether a service of this name can have a topic.
pub(crate) fn can_be_topic(name: &str) -> bool {
    (1..=SERVICE_NAME_BYTES_MAX).contains(&name.len()) && !name.contains('\0')
}

/// Bytes of a peer that are not a message of this protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum BackboneError {
    /// The message ends before its fixed part or a stated length does.
    Truncated {
        /// Bytes it should have at least.
        need: usize,
        /// Bytes it has.
        have: usize,
    },
    /// A protocol version that is more than one away from this build's.
    Version(u8),
    /// A header length that does not cover the fixed part or runs past the message.
    HeaderLength(u8),
    /// A link message of an unknown kind.
    Kind(u8),
    /// More bytes of positions than there are services: bytes.
    Positions(usize),
    /// Hop stamps of a length that they cannot have: bytes.
    HopStamps(usize),
    /// A key in full that cannot be read, or is too long to be kept.
    Key(DecodeError),
}

impl fmt::Display for BackboneError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            BackboneError::Truncated { need, have } => {
                write!(f, "backbone message of {have} bytes, {need} needed")
            }
            BackboneError::Version(theirs) => write!(
                f,
                "the other side speaks version {theirs} of the backbone protocol and this one {VERSION}: they may be one \
                 apart. Upgrade the older one"
            ),
            BackboneError::HeaderLength(words) => write!(f, "backbone header length of {words} words"),
            BackboneError::Kind(kind) => write!(f, "backbone link message of unknown kind {kind}"),
            BackboneError::Positions(bytes) => {
                write!(f, "backbone positions of {bytes} bytes, {POSITIONS_BYTES_MAX} allowed")
            }
            BackboneError::HopStamps(bytes) => write!(f, "backbone message with hop stamps of {bytes} bytes"),
            BackboneError::Key(fault) => write!(f, "backbone message: {fault}"),
        }
    }
}

impl std::error::Error for BackboneError {}

/// One entry for each id of a service that there can be.
const POSITIONS_BYTES_MAX: usize = POSITION_BYTES << u16::BITS;
/// Of one entry: id `u16`, sequence `u64`.
const POSITION_BYTES: usize = 10;

/// Takes big-endian values off the front of a message.
struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Cursor<'a> {
    fn new(bytes: &'a [u8]) -> Self {
        Cursor { bytes, at: 0 }
    }

    fn take(&mut self, count: usize) -> Result<&'a [u8], BackboneError> {
        let end = self.at + count;
        let taken = self
            .bytes
            .get(self.at..end)
            .ok_or(BackboneError::Truncated { need: end, have: self.bytes.len() })?;
        self.at = end;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], BackboneError> {
        Ok(self.take(N)?.try_into().expect("take gives as many bytes as asked for"))
    }

    fn u8(&mut self) -> Result<u8, BackboneError> {
        Ok(self.array::<1>()?[0])
    }

    fn u16(&mut self) -> Result<u16, BackboneError> {
        self.array().map(u16::from_be_bytes)
    }

    fn u32(&mut self) -> Result<u32, BackboneError> {
        self.array().map(u32::from_be_bytes)
    }

    fn u64(&mut self) -> Result<u64, BackboneError> {
        self.array().map(u64::from_be_bytes)
    }

    /// A name with its length in front.
    fn name(&mut self) -> Result<&'a [u8], BackboneError> {
        let len = self.u8()?;
        self.take(len.into())
    }

    /// A key with every part that it has.
    fn key_in_full(&mut self, service: u16) -> Result<ItemKey<'a>, BackboneError> {
        let domain = Domain(self.u8()?);
        let len = self.u16()?;
        let key = Key::parse(self.take(len.into())?).map_err(BackboneError::Key)?;
        ItemKey::of(service, domain, &key).map_err(BackboneError::Key)
    }

    fn is_empty(&self) -> bool {
        self.at >= self.bytes.len()
    }

    fn rest(self) -> &'a [u8] {
        &self.bytes[self.at..]
    }

    /// The positions of as many streams as there can be.
    fn positions(self) -> Result<&'a [u8], BackboneError> {
        let rest = self.rest();
        if rest.len() > POSITIONS_BYTES_MAX { Err(BackboneError::Positions(rest.len())) } else { Ok(rest) }
    }
}

/// Appends a key with every part that it has: domain, length `u16`, message key of RWF without its service.
fn put_key_in_full(into: &mut Vec<u8>, key: &ItemKey<'_>) {
    let parts = Key { service_id: None, ..key.to_key() };
    let bytes = rwf::encode_to_vec(|w| parts.encode(w));
    let bytes = bytes.expect("an item's key has a name and attributes of limited lengths");
    into.push(key.domain.0);
    into.extend_from_slice(&(bytes.len() as u16).to_be_bytes());
    into.extend_from_slice(&bytes);
}

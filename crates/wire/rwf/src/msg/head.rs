use crate::error::clip;
use crate::reader::Reader;
use crate::writer::U16_MAX;
use crate::{DataType, DecodeError, Place, Writer};

/// The class of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MsgClass {
    /// Opens a stream, or changes an open one.
    Request = 1,
    /// An image, or a part of one.
    Refresh = 2,
    /// A change of state.
    Status = 3,
    /// A change of data.
    Update = 4,
    /// Ends a stream.
    Close = 5,
    /// The answer to a post or close.
    Ack = 6,
    /// Anything two ends agree on.
    Generic = 7,
    /// Data that a consumer contributes.
    Post = 8,
}

impl MsgClass {
    /// The class of a number.
    ///
    /// # Errors
    /// [`DecodeError::UnknownMsgClass`] for a number that RWF 14 does not have.
    #[inline]
    pub const fn from_number(class: u8) -> Result<MsgClass, DecodeError> {
        Ok(match class {
            1 => MsgClass::Request,
            2 => MsgClass::Refresh,
            3 => MsgClass::Status,
            4 => MsgClass::Update,
            5 => MsgClass::Close,
            6 => MsgClass::Ack,
            7 => MsgClass::Generic,
            8 => MsgClass::Post,
            _ => return Err(DecodeError::UnknownMsgClass { class }),
        })
    }
}

crate::code_point::code_points! {
    /// What kind of data a stream carries. The set is open: 128 and above are user defined.
    Domain, "domain";
    1 LOGIN "login"; 4 SOURCE "source directory"; 5 DICTIONARY "dictionary"; 6 MARKET_PRICE "market price";
    7 MARKET_BY_ORDER "market by order"; 8 MARKET_BY_PRICE "market by price"; 9 MARKET_MAKER "market maker";
    10 SYMBOL_LIST "symbol list"; 11 SERVICE_PROVIDER_STATUS "service provider status"; 12 HISTORY "history";
    13 HEADLINE "headline"; 14 STORY "story"; 15 REPLAY_HEADLINE "replay headline";
    16 REPLAY_STORY "replay story";
    17 TRANSACTION "transaction"; 22 YIELD_CURVE "yield curve"; 27 CONTRIBUTION "contribution";
    29 PROVIDER_ADMIN "provider admin"; 30 ANALYTICS "analytics"; 31 REFERENCE "reference";
    33 NEWS_TEXT_ANALYTICS "news text analytics"; 34 ECONOMIC_INDICATOR "economic indicator"; 35 POLL "poll";
    36 FORECAST "forecast"; 37 MARKET_BY_TIME "market by time"; 127 SYSTEM "system";
}

/// The part of a header that all classes share, read without the rest: enough to route a message.
///
/// Shape: header size `u16` (bytes behind it), class `u8`, domain `u8`, stream id `i32`, flags `u15rb`,
/// container type − 128 `u8`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MsgHead {
    /// The class.
    pub class: MsgClass,
    /// The domain.
    pub domain: Domain,
    /// The stream id.
    pub stream_id: i32,
    /// The flags as numbers; their meaning depends on the class.
    pub flags: u16,
    /// The type of the payload.
    pub container_type: DataType,
    /// Header bytes behind the size field itself.
    pub header_size: u16,
}

impl MsgHead {
    /// Where the payload begins in the message.
    #[inline]
    #[must_use]
    pub fn payload_offset(&self) -> usize {
        SIZE_FIELD + usize::from(self.header_size)
    }
}

const SIZE_FIELD: usize = 2;
const STREAM_ID_AT: usize = 4;
/// Header bytes of the smallest message: class, domain, stream id, flags, container type.
const FIXED_PART_MIN: u16 = 8;

/// Reads the fixed part of a message. That the whole header is there is checked, what is in it is not.
///
/// # Errors
/// [`DecodeError`] if the message is shorter than its header, or names a class that does not exist.
#[inline]
pub fn peek(bytes: &[u8]) -> Result<MsgHead, DecodeError> {
    Ok(split(bytes)?.0)
}

/// Gives an encoded message another stream id; nothing else of it changes.
///
/// # Errors
/// [`DecodeError::Truncated`] if the bytes end before the stream id does.
#[inline]
pub fn set_stream_id(bytes: &mut [u8], stream_id: i32) -> Result<(), DecodeError> {
    let have = bytes.len();
    let Some(field) = bytes.get_mut(STREAM_ID_AT..).and_then(<[u8]>::first_chunk_mut::<4>) else {
        return Err(DecodeError::Truncated {
            place: Place::MsgHeader,
            need_bytes: clip(STREAM_ID_AT + 4),
            have_bytes: clip(have),
        });
    };
    *field = stream_id.to_be_bytes();
    Ok(())
}

/// Reads the fixed part; returns it with a cursor at the class's own part and with the payload.
#[inline]
pub(super) fn split(bytes: &[u8]) -> Result<(MsgHead, Reader<'_>, &[u8]), DecodeError> {
    let mut whole = Reader::new(bytes);
    let header_size = whole.u16(Place::MsgHeader)?;
    let header = whole.take(header_size.into(), Place::MsgHeader)?;
    let mut r = Reader::new(header);
    let [class, domain, a, b, c, d] = *r.chunk(Place::MsgHeader)?;
    let class = MsgClass::from_number(class)?;
    let flags = r.u15rb(Place::MsgFlags)?;
    let container_type = r.container_type(Place::ContainerType)?;
    let stream_id = i32::from_be_bytes([a, b, c, d]);
    let head = MsgHead { class, domain: Domain(domain), stream_id, flags, container_type, header_size };
    Ok((head, r, whole.rest()))
}

/// Writes the fixed part with an open size.
#[inline]
pub(super) fn put_fixed_part(
    w: &mut Writer<'_>,
    class: MsgClass,
    domain: Domain,
    stream_id: i32,
    flags: u16,
    container_type: DataType,
) {
    let [a, b, c, d] = stream_id.to_be_bytes();
    let [high, low] = FIXED_PART_MIN.to_be_bytes();
    w.chunk([high, low, class as u8, domain.0, a, b, c, d], 8);
    w.u15rb(flags, Place::MsgFlags);
    w.container_type(container_type, Place::ContainerType);
}

/// Fills in the size of the header that began at `size_at`.
#[inline]
pub(super) fn close(w: &mut Writer<'_>, size_at: usize) {
    let size = w.len() - size_at - SIZE_FIELD;
    w.limit(size, U16_MAX, Place::MsgHeader);
    w.patch(size_at, (size as u16).to_be_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{UpdateMsg, encode_to_vec};

    #[test]
    fn peek_reads_what_routing_needs_and_set_stream_id_changes_only_that() {
        let update =
            UpdateMsg { payload: &[0], ..UpdateMsg::new(Domain::MARKET_PRICE, 5, DataType::FIELD_LIST) };
        let mut bytes = encode_to_vec(|w| update.encode(w)).expect("small");
        let head = peek(&bytes).expect("whole");
        assert_eq!((head.class, head.domain, head.stream_id), (MsgClass::Update, Domain::MARKET_PRICE, 5));
        assert_eq!((head.container_type, head.payload_offset()), (DataType::FIELD_LIST, bytes.len() - 1));
        set_stream_id(&mut bytes, -7).expect("whole");
        assert_eq!(UpdateMsg::parse(&bytes), Ok(UpdateMsg { stream_id: -7, ..update }));
    }

    #[test]
    fn a_message_cut_inside_its_header_is_an_error() {
        let bytes = encode_to_vec(|w| UpdateMsg::default().encode(w)).expect("small");
        for length in 0..bytes.len() {
            assert!(peek(&bytes[..length]).is_err(), "{length}");
        }
        for length in 0..8 {
            let cut =
                Err(DecodeError::Truncated { place: Place::MsgHeader, need_bytes: 8, have_bytes: length });
            assert_eq!(set_stream_id(&mut bytes.clone()[..length as usize], 1), cut);
        }
    }
}

use super::head::{Domain, MsgClass, MsgHead};
use super::{EXTENDED_HEADER, extended_header, flag_bits, msg_class, put_extended_header};
use crate::reader::Reader;
use crate::{DataType, DecodeError, Writer};

const ACK: u16 = 0x0002;
const BATCH: u16 = 0x0004;

/// Ends a stream, from the consumer's side.
///
/// Shape behind the fixed part: \[extended header\].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct CloseMsg<'a> {
    /// The domain.
    pub domain: Domain,
    /// The stream.
    pub stream_id: i32,
    /// The type of the payload.
    pub container_type: DataType,
    /// An ack is wanted.
    pub ack: bool,
    /// The payload names several streams.
    pub batch: bool,
    /// Bytes that the two ends agree on, at most 255.
    pub extended_header: Option<&'a [u8]>,
    /// The payload.
    pub payload: &'a [u8],
}

msg_class!(CloseMsg, Close);

impl<'a> CloseMsg<'a> {
    #[inline]
    pub(super) fn read(head: &MsgHead, mut r: Reader<'a>, payload: &'a [u8]) -> Result<Self, DecodeError> {
        Ok(CloseMsg {
            domain: head.domain,
            stream_id: head.stream_id,
            container_type: head.container_type,
            ack: head.flags & ACK != 0,
            batch: head.flags & BATCH != 0,
            extended_header: extended_header(&mut r, head.flags)?,
            payload,
        })
    }

    fn flags(&self) -> u16 {
        flag_bits! {
            self.extended_header.is_some() => EXTENDED_HEADER,
            self.ack => ACK,
            self.batch => BATCH,
        }
    }

    fn put_parts(&self, w: &mut Writer<'_>) {
        put_extended_header(w, self.extended_header);
    }
}

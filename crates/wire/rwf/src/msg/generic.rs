use super::head::{Domain, MsgClass, MsgHead};
use super::{
    EXTENDED_HEADER, Key, extended_header, flag_bits, msg_class, optional, optional_buf15, optional_u32,
    put_buf15, put_extended_header, put_u32,
};
use crate::reader::Reader;
use crate::{DataType, DecodeError, Place, Writer};

const PERMISSION_DATA: u16 = 0x0002;
const KEY: u16 = 0x0004;
const SEQ_NUM: u16 = 0x0008;
const COMPLETE: u16 = 0x0010;
const SECONDARY_SEQ_NUM: u16 = 0x0020;
const PART_NUM: u16 = 0x0040;
const REQUEST_KEY: u16 = 0x0080;
const PROVIDER_DRIVEN: u16 = 0x4000;

/// A message whose meaning the two ends of an open stream agree on.
///
/// Shape behind the fixed part: \[sequence number `u32`\]; \[secondary sequence number `u32`\]; \[permission
/// data\]; \[key\]; \[extended header\]; \[part number `u15rb`\]; \[request key\].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct GenericMsg<'a> {
    /// The domain, which need not be the stream's.
    pub domain: Domain,
    /// The stream.
    pub stream_id: i32,
    /// The type of the payload.
    pub container_type: DataType,
    /// It is the last, or only, part.
    pub complete: bool,
    /// The provider began the exchange.
    pub provider_driven: bool,
    /// The number of the message, where messages are numbered.
    pub seq_num: Option<u32>,
    /// The number of the message that it answers.
    pub secondary_seq_num: Option<u32>,
    /// Who may see it.
    pub permission_data: Option<&'a [u8]>,
    /// What it is about.
    pub key: Option<Key<'a>>,
    /// Bytes that the two ends agree on, at most 255.
    pub extended_header: Option<&'a [u8]>,
    /// The number of the part, from 0; at most 32767.
    pub part_num: Option<u16>,
    /// The key that was asked for, if another one is answered.
    pub request_key: Option<Key<'a>>,
    /// The payload.
    pub payload: &'a [u8],
}

msg_class!(GenericMsg, Generic);

impl<'a> GenericMsg<'a> {
    #[inline]
    pub(super) fn read(head: &MsgHead, mut r: Reader<'a>, payload: &'a [u8]) -> Result<Self, DecodeError> {
        let flags = head.flags;
        Ok(GenericMsg {
            domain: head.domain,
            stream_id: head.stream_id,
            container_type: head.container_type,
            complete: flags & COMPLETE != 0,
            provider_driven: flags & PROVIDER_DRIVEN != 0,
            seq_num: optional_u32(&mut r, flags, SEQ_NUM, Place::SeqNum)?,
            secondary_seq_num: optional_u32(&mut r, flags, SECONDARY_SEQ_NUM, Place::SeqNum)?,
            permission_data: optional_buf15(&mut r, flags, PERMISSION_DATA, Place::PermissionData)?,
            key: Key::read_optional(&mut r, flags, KEY, Place::Key)?,
            extended_header: extended_header(&mut r, flags)?,
            part_num: optional(flags, PART_NUM, || r.u15rb(Place::PartNum))?,
            request_key: Key::read_optional(&mut r, flags, REQUEST_KEY, Place::RequestKey)?,
            payload,
        })
    }

    fn flags(&self) -> u16 {
        flag_bits! {
            self.extended_header.is_some() => EXTENDED_HEADER,
            self.permission_data.is_some() => PERMISSION_DATA,
            self.key.is_some() => KEY,
            self.seq_num.is_some() => SEQ_NUM,
            self.complete => COMPLETE,
            self.secondary_seq_num.is_some() => SECONDARY_SEQ_NUM,
            self.part_num.is_some() => PART_NUM,
            self.request_key.is_some() => REQUEST_KEY,
            self.provider_driven => PROVIDER_DRIVEN,
        }
    }

    fn put_parts(&self, w: &mut Writer<'_>) {
        put_u32(w, self.seq_num);
        put_u32(w, self.secondary_seq_num);
        put_buf15(w, self.permission_data, Place::PermissionData);
        Key::put_optional(self.key.as_ref(), w, Place::Key);
        put_extended_header(w, self.extended_header);
        if let Some(part_num) = self.part_num {
            w.u15rb(part_num, Place::PartNum);
        }
        Key::put_optional(self.request_key.as_ref(), w, Place::RequestKey);
    }
}

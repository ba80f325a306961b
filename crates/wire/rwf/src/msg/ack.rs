use super::head::{Domain, MsgClass, MsgHead};
use super::{
    EXTENDED_HEADER, Key, extended_header, flag_bits, msg_class, optional, optional_u32, put_extended_header,
    put_u32,
};
use crate::reader::Reader;
use crate::{DataType, DecodeError, Place, Writer};

const TEXT: u16 = 0x0002;
const PRIVATE_STREAM: u16 = 0x0004;
const SEQ_NUM: u16 = 0x0008;
const KEY: u16 = 0x0010;
const NAK_CODE: u16 = 0x0020;
const QUALIFIED_STREAM: u16 = 0x0040;

/// The answer to a post or close that wanted one.
///
/// Shape behind the fixed part: ack id `u32`; \[nak code `u8`\]; \[text behind a `u16ob` length\]; \[sequence
/// number `u32`\]; \[key\]; \[extended header\].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct AckMsg<'a> {
    /// The domain.
    pub domain: Domain,
    /// The stream.
    pub stream_id: i32,
    /// The type of the payload.
    pub container_type: DataType,
    /// The stream is for this consumer alone.
    pub private_stream: bool,
    /// The stream is a qualified one.
    pub qualified_stream: bool,
    /// What is answered: a post id.
    pub ack_id: u32,
    /// Why it was refused; absent it was not.
    pub nak_code: Option<NakCode>,
    /// The same in words, at most 65535 bytes.
    pub text: Option<&'a [u8]>,
    /// The sequence number of what is answered.
    pub seq_num: Option<u32>,
    /// What the stream is about.
    pub key: Option<Key<'a>>,
    /// Bytes that the two ends agree on, at most 255.
    pub extended_header: Option<&'a [u8]>,
    /// The payload.
    pub payload: &'a [u8],
}

crate::code_point::code_points! {
    /// Why a post was refused. The set is open.
    NakCode, "code";
    0 NONE "none"; 1 ACCESS_DENIED "access denied"; 2 DENIED_BY_SOURCE "denied by source";
    3 SOURCE_DOWN "source down"; 4 SOURCE_UNKNOWN "source unknown"; 5 NO_RESOURCES "no resources";
    6 NO_RESPONSE "no response"; 7 GATEWAY_DOWN "gateway down"; 10 SYMBOL_UNKNOWN "symbol unknown";
    11 NOT_OPEN "not open"; 12 INVALID_CONTENT "invalid content";
}

msg_class!(AckMsg, Ack);

impl<'a> AckMsg<'a> {
    #[inline]
    pub(super) fn read(head: &MsgHead, mut r: Reader<'a>, payload: &'a [u8]) -> Result<Self, DecodeError> {
        let flags = head.flags;
        Ok(AckMsg {
            domain: head.domain,
            stream_id: head.stream_id,
            container_type: head.container_type,
            private_stream: flags & PRIVATE_STREAM != 0,
            qualified_stream: flags & QUALIFIED_STREAM != 0,
            ack_id: r.u32(Place::AckId)?,
            nak_code: optional(flags, NAK_CODE, || r.u8(Place::NakCode).map(NakCode))?,
            text: optional(flags, TEXT, || r.buf16(Place::AckText))?,
            seq_num: optional_u32(&mut r, flags, SEQ_NUM, Place::SeqNum)?,
            key: Key::read_optional(&mut r, flags, KEY, Place::Key)?,
            extended_header: extended_header(&mut r, flags)?,
            payload,
        })
    }

    fn flags(&self) -> u16 {
        flag_bits! {
            self.extended_header.is_some() => EXTENDED_HEADER,
            self.text.is_some() => TEXT,
            self.private_stream => PRIVATE_STREAM,
            self.seq_num.is_some() => SEQ_NUM,
            self.key.is_some() => KEY,
            self.nak_code.is_some() => NAK_CODE,
            self.qualified_stream => QUALIFIED_STREAM,
        }
    }

    fn put_parts(&self, w: &mut Writer<'_>) {
        w.u32(self.ack_id);
        if let Some(code) = self.nak_code {
            w.u8(code.0);
        }
        if let Some(text) = self.text {
            w.buf16(text, Place::AckText);
        }
        put_u32(w, self.seq_num);
        Key::put_optional(self.key.as_ref(), w, Place::Key);
        put_extended_header(w, self.extended_header);
    }
}

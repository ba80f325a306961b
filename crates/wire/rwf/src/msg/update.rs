use super::head::{Domain, MsgClass, MsgHead};
use super::{
    EXTENDED_HEADER, Key, PostUserInfo, extended_header, flag_bits, msg_class, optional, optional_buf15,
    optional_u32, put_buf15, put_extended_header, put_u32,
};
use crate::reader::Reader;
use crate::{DataType, DecodeError, Place, Writer};

const PERMISSION_DATA: u16 = 0x0002;
const KEY: u16 = 0x0008;
const SEQ_NUM: u16 = 0x0010;
const CONFLATION: u16 = 0x0020;
const DO_NOT_CACHE: u16 = 0x0040;
const DO_NOT_CONFLATE: u16 = 0x0080;
const DO_NOT_RIPPLE: u16 = 0x0100;
const POST_USER_INFO: u16 = 0x0200;
const DISCARDABLE: u16 = 0x0400;

/// A change of data.
///
/// Shape behind the fixed part: update type `u8`; \[sequence number `u32`\]; \[conflation count `u15rb`, time
/// `u16`\]; \[permission data\]; \[key\]; \[extended header\]; \[post user info\].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct UpdateMsg<'a> {
    /// The domain.
    pub domain: Domain,
    /// The stream.
    pub stream_id: i32,
    /// The type of the payload.
    pub container_type: DataType,
    /// What happened.
    pub update_type: UpdateType,
    /// It is not to be kept.
    pub do_not_cache: bool,
    /// It is to be sent on as it is.
    pub do_not_conflate: bool,
    /// Old values are not to be moved to the fields they ripple to.
    pub do_not_ripple: bool,
    /// It may be left out.
    pub discardable: bool,
    /// The number of the message, where messages are numbered.
    pub seq_num: Option<u32>,
    /// How many updates it stands for.
    pub conflation: Option<Conflation>,
    /// Who may see the item from now on.
    pub permission_data: Option<&'a [u8]>,
    /// What the stream is about.
    pub key: Option<Key<'a>>,
    /// Bytes that the two ends agree on, at most 255.
    pub extended_header: Option<&'a [u8]>,
    /// Who posted the data.
    pub post_user_info: Option<PostUserInfo>,
    /// The payload.
    pub payload: &'a [u8],
}

/// How many updates one update stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Conflation {
    /// How many, at most 32767.
    pub count: u16,
    /// Over which time, as the publisher counts it.
    pub time: u16,
}

crate::code_point::code_points! {
    /// What happened, in market data. The set is open and each domain may define its own.
    UpdateType, "type";
    0 UNSPECIFIED "unspecified"; 1 QUOTE "quote"; 2 TRADE "trade"; 3 NEWS_ALERT "news alert";
    4 VOLUME_ALERT "volume alert"; 5 ORDER_INDICATION "order indication"; 6 CLOSING_RUN "closing run";
    7 CORRECTION "correction"; 8 MARKET_DIGEST "market digest"; 9 QUOTES_TRADE "quotes followed by a trade";
    10 MULTIPLE "multiple"; 11 VERIFY "verify";
}

msg_class!(UpdateMsg, Update);

impl<'a> UpdateMsg<'a> {
    #[inline]
    pub(super) fn read(head: &MsgHead, mut r: Reader<'a>, payload: &'a [u8]) -> Result<Self, DecodeError> {
        let flags = head.flags;
        let has = |flag| flags & flag != 0;
        let update_type = UpdateType(r.u8(Place::UpdateType)?);
        let seq_num = optional_u32(&mut r, flags, SEQ_NUM, Place::SeqNum)?;
        let conflation = optional(flags, CONFLATION, || {
            Ok(Conflation { count: r.u15rb(Place::Conflation)?, time: r.u16(Place::Conflation)? })
        })?;
        Ok(UpdateMsg {
            domain: head.domain,
            stream_id: head.stream_id,
            container_type: head.container_type,
            update_type,
            do_not_cache: has(DO_NOT_CACHE),
            do_not_conflate: has(DO_NOT_CONFLATE),
            do_not_ripple: has(DO_NOT_RIPPLE),
            discardable: has(DISCARDABLE),
            seq_num,
            conflation,
            permission_data: optional_buf15(&mut r, flags, PERMISSION_DATA, Place::PermissionData)?,
            key: Key::read_optional(&mut r, flags, KEY, Place::Key)?,
            extended_header: extended_header(&mut r, flags)?,
            post_user_info: optional(flags, POST_USER_INFO, || PostUserInfo::read(&mut r))?,
            payload,
        })
    }

    #[inline]
    fn flags(&self) -> u16 {
        flag_bits! {
            self.extended_header.is_some() => EXTENDED_HEADER,
            self.permission_data.is_some() => PERMISSION_DATA,
            self.key.is_some() => KEY,
            self.seq_num.is_some() => SEQ_NUM,
            self.conflation.is_some() => CONFLATION,
            self.do_not_cache => DO_NOT_CACHE,
            self.do_not_conflate => DO_NOT_CONFLATE,
            self.do_not_ripple => DO_NOT_RIPPLE,
            self.post_user_info.is_some() => POST_USER_INFO,
            self.discardable => DISCARDABLE,
        }
    }

    #[inline]
    fn put_parts(&self, w: &mut Writer<'_>) {
        w.u8(self.update_type.0);
        put_u32(w, self.seq_num);
        if let Some(conflation) = self.conflation {
            w.u15rb(conflation.count, Place::Conflation);
            w.u16(conflation.time);
        }
        put_buf15(w, self.permission_data, Place::PermissionData);
        Key::put_optional(self.key.as_ref(), w, Place::Key);
        put_extended_header(w, self.extended_header);
        if let Some(user) = self.post_user_info {
            user.put(w);
        }
    }
}

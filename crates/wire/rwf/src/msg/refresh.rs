use super::head::{Domain, MsgClass, MsgHead};
use super::{
    EXTENDED_HEADER, Key, PostUserInfo, extended_header, flag_bits, msg_class, optional, optional_buf15,
    optional_u32, put_buf15, put_extended_header, put_u32,
};
use crate::primitive::Primitive;
use crate::reader::Reader;
use crate::{DataType, DecodeError, Place, Qos, State, Writer};

const PERMISSION_DATA: u16 = 0x0002;
const KEY: u16 = 0x0008;
const SEQ_NUM: u16 = 0x0010;
const SOLICITED: u16 = 0x0020;
const COMPLETE: u16 = 0x0040;
const QOS: u16 = 0x0080;
const CLEAR_CACHE: u16 = 0x0100;
const DO_NOT_CACHE: u16 = 0x0200;
const PRIVATE_STREAM: u16 = 0x0400;
const POST_USER_INFO: u16 = 0x0800;
const PART_NUM: u16 = 0x1000;
const REQUEST_KEY: u16 = 0x2000;
const QUALIFIED_STREAM: u16 = 0x4000;

/// An image, or a part of one.
///
/// Shape behind the fixed part: \[sequence number `u32`\]; state; group id; \[permission data\]; \[qos\];
/// \[key\]; \[extended header\]; \[post user info\]; \[part number `u15rb`\]; \[request key\].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RefreshMsg<'a> {
    /// The domain.
    pub domain: Domain,
    /// The stream.
    pub stream_id: i32,
    /// The type of the payload.
    pub container_type: DataType,
    /// It answers a request.
    pub solicited: bool,
    /// It is the last part of the image.
    pub complete: bool,
    /// What was known of the item before is void.
    pub clear_cache: bool,
    /// It is not to be kept.
    pub do_not_cache: bool,
    /// The stream is for this consumer alone.
    pub private_stream: bool,
    /// The stream is a qualified one.
    pub qualified_stream: bool,
    /// The number of the message, where messages are numbered.
    pub seq_num: Option<u32>,
    /// The state of stream and data.
    pub state: State<'a>,
    /// The group the item is in, at most 255 bytes; `00 00` for none.
    pub group_id: &'a [u8],
    /// Who may see the item, as the permission system writes it.
    pub permission_data: Option<&'a [u8]>,
    /// The quality of the data.
    pub qos: Option<Qos>,
    /// What the stream is about.
    pub key: Option<Key<'a>>,
    /// Bytes that the two ends agree on, at most 255.
    pub extended_header: Option<&'a [u8]>,
    /// Who posted the data.
    pub post_user_info: Option<PostUserInfo>,
    /// The number of the part, from 0; at most 32767.
    pub part_num: Option<u16>,
    /// The key that was asked for, if another one is answered.
    pub request_key: Option<Key<'a>>,
    /// The payload.
    pub payload: &'a [u8],
}

msg_class!(RefreshMsg, Refresh);

impl Default for RefreshMsg<'_> {
    fn default() -> Self {
        RefreshMsg {
            domain: Domain::default(),
            stream_id: 0,
            container_type: DataType::NO_DATA,
            solicited: false,
            complete: false,
            clear_cache: false,
            do_not_cache: false,
            private_stream: false,
            qualified_stream: false,
            seq_num: None,
            state: State::OPEN_OK,
            group_id: RefreshMsg::NO_GROUP,
            permission_data: None,
            qos: None,
            key: None,
            extended_header: None,
            post_user_info: None,
            part_num: None,
            request_key: None,
            payload: &[],
        }
    }
}

impl<'a> RefreshMsg<'a> {
    /// The group id of an item that belongs to no group.
    pub const NO_GROUP: &'static [u8] = &[0, 0];

    #[inline]
    pub(super) fn read(head: &MsgHead, mut r: Reader<'a>, payload: &'a [u8]) -> Result<Self, DecodeError> {
        let flags = head.flags;
        let has = |flag| flags & flag != 0;
        Ok(RefreshMsg {
            domain: head.domain,
            stream_id: head.stream_id,
            container_type: head.container_type,
            solicited: has(SOLICITED),
            complete: has(COMPLETE),
            clear_cache: has(CLEAR_CACHE),
            do_not_cache: has(DO_NOT_CACHE),
            private_stream: has(PRIVATE_STREAM),
            qualified_stream: has(QUALIFIED_STREAM),
            seq_num: optional_u32(&mut r, flags, SEQ_NUM, Place::SeqNum)?,
            state: State::read(&mut r)?,
            group_id: r.buf8(Place::GroupId)?,
            permission_data: optional_buf15(&mut r, flags, PERMISSION_DATA, Place::PermissionData)?,
            qos: optional(flags, QOS, || Qos::read(&mut r))?,
            key: Key::read_optional(&mut r, flags, KEY, Place::Key)?,
            extended_header: extended_header(&mut r, flags)?,
            post_user_info: optional(flags, POST_USER_INFO, || PostUserInfo::read(&mut r))?,
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
            self.solicited => SOLICITED,
            self.complete => COMPLETE,
            self.qos.is_some() => QOS,
            self.clear_cache => CLEAR_CACHE,
            self.do_not_cache => DO_NOT_CACHE,
            self.private_stream => PRIVATE_STREAM,
            self.post_user_info.is_some() => POST_USER_INFO,
            self.part_num.is_some() => PART_NUM,
            self.request_key.is_some() => REQUEST_KEY,
            self.qualified_stream => QUALIFIED_STREAM,
        }
    }

    fn put_parts(&self, w: &mut Writer<'_>) {
        put_u32(w, self.seq_num);
        self.state.put_content(w);
        w.buf8(self.group_id, Place::GroupId);
        put_buf15(w, self.permission_data, Place::PermissionData);
        if let Some(qos) = self.qos {
            qos.put_content(w);
        }
        Key::put_optional(self.key.as_ref(), w, Place::Key);
        put_extended_header(w, self.extended_header);
        if let Some(user) = self.post_user_info {
            user.put(w);
        }
        if let Some(part_num) = self.part_num {
            w.u15rb(part_num, Place::PartNum);
        }
        Key::put_optional(self.request_key.as_ref(), w, Place::RequestKey);
    }
}

use super::head::{Domain, MsgClass, MsgHead};
use super::{
    EXTENDED_HEADER, Key, PostUserInfo, extended_header, flag_bits, msg_class, optional, optional_buf15,
    put_buf15, put_extended_header,
};
use crate::primitive::Primitive;
use crate::reader::Reader;
use crate::{DataType, DecodeError, Place, State, Writer};

const PERMISSION_DATA: u16 = 0x0002;
const KEY: u16 = 0x0008;
const GROUP_ID: u16 = 0x0010;
const STATE: u16 = 0x0020;
const CLEAR_CACHE: u16 = 0x0040;
const PRIVATE_STREAM: u16 = 0x0080;
const POST_USER_INFO: u16 = 0x0100;
const REQUEST_KEY: u16 = 0x0200;
const QUALIFIED_STREAM: u16 = 0x0400;

/// A change of a stream's state, or its end.
///
/// Shape behind the fixed part: \[state\]; \[group id\]; \[permission data\]; \[key\]; \[extended header\];
/// \[post user info\]; \[request key\].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct StatusMsg<'a> {
    /// The domain.
    pub domain: Domain,
    /// The stream.
    pub stream_id: i32,
    /// The type of the payload.
    pub container_type: DataType,
    /// What was known of the item before is void.
    pub clear_cache: bool,
    /// The stream is for this consumer alone.
    pub private_stream: bool,
    /// The stream is a qualified one.
    pub qualified_stream: bool,
    /// The new state; without it the state is as before.
    pub state: Option<State<'a>>,
    /// The group the item is in from now on, at most 255 bytes.
    pub group_id: Option<&'a [u8]>,
    /// Who may see the item from now on.
    pub permission_data: Option<&'a [u8]>,
    /// What the stream is about; where to go for a redirected one.
    pub key: Option<Key<'a>>,
    /// Bytes that the two ends agree on, at most 255.
    pub extended_header: Option<&'a [u8]>,
    /// Who posted the status.
    pub post_user_info: Option<PostUserInfo>,
    /// The key that was asked for, if another one is answered.
    pub request_key: Option<Key<'a>>,
    /// The payload.
    pub payload: &'a [u8],
}

msg_class!(StatusMsg, Status);

impl<'a> StatusMsg<'a> {
    #[inline]
    pub(super) fn read(head: &MsgHead, mut r: Reader<'a>, payload: &'a [u8]) -> Result<Self, DecodeError> {
        let flags = head.flags;
        let has = |flag| flags & flag != 0;
        Ok(StatusMsg {
            domain: head.domain,
            stream_id: head.stream_id,
            container_type: head.container_type,
            clear_cache: has(CLEAR_CACHE),
            private_stream: has(PRIVATE_STREAM),
            qualified_stream: has(QUALIFIED_STREAM),
            state: optional(flags, STATE, || State::read(&mut r))?,
            group_id: optional(flags, GROUP_ID, || r.buf8(Place::GroupId))?,
            permission_data: optional_buf15(&mut r, flags, PERMISSION_DATA, Place::PermissionData)?,
            key: Key::read_optional(&mut r, flags, KEY, Place::Key)?,
            extended_header: extended_header(&mut r, flags)?,
            post_user_info: optional(flags, POST_USER_INFO, || PostUserInfo::read(&mut r))?,
            request_key: Key::read_optional(&mut r, flags, REQUEST_KEY, Place::RequestKey)?,
            payload,
        })
    }

    fn flags(&self) -> u16 {
        flag_bits! {
            self.extended_header.is_some() => EXTENDED_HEADER,
            self.permission_data.is_some() => PERMISSION_DATA,
            self.key.is_some() => KEY,
            self.group_id.is_some() => GROUP_ID,
            self.state.is_some() => STATE,
            self.clear_cache => CLEAR_CACHE,
            self.private_stream => PRIVATE_STREAM,
            self.post_user_info.is_some() => POST_USER_INFO,
            self.request_key.is_some() => REQUEST_KEY,
            self.qualified_stream => QUALIFIED_STREAM,
        }
    }

    fn put_parts(&self, w: &mut Writer<'_>) {
        if let Some(state) = self.state {
            state.put_content(w);
        }
        if let Some(group_id) = self.group_id {
            w.buf8(group_id, Place::GroupId);
        }
        put_buf15(w, self.permission_data, Place::PermissionData);
        Key::put_optional(self.key.as_ref(), w, Place::Key);
        put_extended_header(w, self.extended_header);
        if let Some(user) = self.post_user_info {
            user.put(w);
        }
        Key::put_optional(self.request_key.as_ref(), w, Place::RequestKey);
    }
}

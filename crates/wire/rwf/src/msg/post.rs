use super::head::{Domain, MsgClass, MsgHead};
use super::{
    EXTENDED_HEADER, Key, PostUserInfo, extended_header, flag_bits, msg_class, optional, optional_buf15,
    optional_u32, put_buf15, put_extended_header, put_u32,
};
use crate::reader::Reader;
use crate::{DataType, DecodeError, Place, Writer};

const POST_ID: u16 = 0x0002;
const KEY: u16 = 0x0004;
const SEQ_NUM: u16 = 0x0008;
const COMPLETE: u16 = 0x0020;
const ACK: u16 = 0x0040;
const PERMISSION_DATA: u16 = 0x0080;
const PART_NUM: u16 = 0x0100;
const USER_RIGHTS: u16 = 0x0200;

/// Data that a consumer contributes.
///
/// Shape behind the fixed part: post user info, always; \[sequence number `u32`\]; \[post id `u32`\];
/// \[permission data\]; \[key\]; \[extended header\]; \[part number `u15rb`\]; \[user rights `u15rb`\].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PostMsg<'a> {
    /// The domain of the item.
    pub domain: Domain,
    /// The item's stream, or the login stream for an item that is not open.
    pub stream_id: i32,
    /// The type of the payload.
    pub container_type: DataType,
    /// It is the last, or only, part.
    pub complete: bool,
    /// An ack is wanted.
    pub ack: bool,
    /// Who posts.
    pub post_user_info: PostUserInfo,
    /// A number that the ack copies.
    pub seq_num: Option<u32>,
    /// What pairs the parts of a post and its ack.
    pub post_id: Option<u32>,
    /// Who may see it.
    pub permission_data: Option<&'a [u8]>,
    /// The item.
    pub key: Option<Key<'a>>,
    /// Bytes that the two ends agree on, at most 255.
    pub extended_header: Option<&'a [u8]>,
    /// The number of the part, from 0; at most 32767.
    pub part_num: Option<u16>,
    /// What the user may do, as bits: 1 create, 2 delete, 4 modify permissions. At most 32767.
    pub user_rights: Option<u16>,
    /// The payload.
    pub payload: &'a [u8],
}

msg_class!(PostMsg, Post);

impl Default for PostMsg<'_> {
    fn default() -> Self {
        PostMsg {
            domain: Domain::default(),
            stream_id: 0,
            container_type: DataType::NO_DATA,
            complete: false,
            ack: false,
            post_user_info: PostUserInfo { address: 0, user_id: 0 },
            seq_num: None,
            post_id: None,
            permission_data: None,
            key: None,
            extended_header: None,
            part_num: None,
            user_rights: None,
            payload: &[],
        }
    }
}

impl<'a> PostMsg<'a> {
    #[inline]
    pub(super) fn read(head: &MsgHead, mut r: Reader<'a>, payload: &'a [u8]) -> Result<Self, DecodeError> {
        let flags = head.flags;
        Ok(PostMsg {
            domain: head.domain,
            stream_id: head.stream_id,
            container_type: head.container_type,
            complete: flags & COMPLETE != 0,
            ack: flags & ACK != 0,
            post_user_info: PostUserInfo::read(&mut r)?,
            seq_num: optional_u32(&mut r, flags, SEQ_NUM, Place::SeqNum)?,
            post_id: optional_u32(&mut r, flags, POST_ID, Place::PostId)?,
            permission_data: optional_buf15(&mut r, flags, PERMISSION_DATA, Place::PermissionData)?,
            key: Key::read_optional(&mut r, flags, KEY, Place::Key)?,
            extended_header: extended_header(&mut r, flags)?,
            part_num: optional(flags, PART_NUM, || r.u15rb(Place::PartNum))?,
            user_rights: optional(flags, USER_RIGHTS, || r.u15rb(Place::PostUserRights))?,
            payload,
        })
    }

    fn flags(&self) -> u16 {
        flag_bits! {
            self.extended_header.is_some() => EXTENDED_HEADER,
            self.post_id.is_some() => POST_ID,
            self.key.is_some() => KEY,
            self.seq_num.is_some() => SEQ_NUM,
            self.complete => COMPLETE,
            self.ack => ACK,
            self.permission_data.is_some() => PERMISSION_DATA,
            self.part_num.is_some() => PART_NUM,
            self.user_rights.is_some() => USER_RIGHTS,
        }
    }

    fn put_parts(&self, w: &mut Writer<'_>) {
        self.post_user_info.put(w);
        put_u32(w, self.seq_num);
        put_u32(w, self.post_id);
        put_buf15(w, self.permission_data, Place::PermissionData);
        Key::put_optional(self.key.as_ref(), w, Place::Key);
        put_extended_header(w, self.extended_header);
        if let Some(part_num) = self.part_num {
            w.u15rb(part_num, Place::PartNum);
        }
        if let Some(rights) = self.user_rights {
            w.u15rb(rights, Place::PostUserRights);
        }
    }
}

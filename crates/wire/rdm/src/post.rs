//! Posts: what consumers contribute, and the acks that answer them.

use rwf::{AckMsg, DataType, Domain, Msg, NakCode, PostMsg};

use crate::item::{ItemKey, require_items};
use crate::message::wrong_class;
use crate::{Part, RdmError};

/// Data that a consumer contributes, checked; or one part of it.
///
/// Shape: post message; payload any container, or a whole message to be applied to the item (usually an
/// update, on stream 0, its key without a service). Source: RWF 14.1, posts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Post<'a> {
    /// The message as it was read.
    pub msg: PostMsg<'a>,
    /// The item, where the message names it: always off-stream, and with stock consumers on-stream too.
    pub item: Option<ItemKey<'a>>,
    /// The message to apply: a refresh, an update or a status. Without one the payload is a container, of
    /// which the receiver makes an update.
    pub message: Option<Msg<'a>>,
}

/// Which item is posted to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PostTarget<'a> {
    /// The item that is open on the stream of the post.
    OnStream {
        /// The stream.
        stream_id: i32,
    },
    /// An item that need not be open; the post came on the login stream.
    OffStream(ItemKey<'a>),
}

/// What a poster may do, as bits in [`PostMsg::user_rights`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct PostUserRights(pub u16);

impl PostUserRights {
    /// Make an item that is not there.
    pub const CREATE: PostUserRights = PostUserRights(1);
    /// Remove an item.
    pub const DELETE: PostUserRights = PostUserRights(2);
    /// Change who may see an item.
    pub const MODIFY_PERMISSIONS: PostUserRights = PostUserRights(4);

    /// Whether all of `wanted` is allowed.
    #[must_use]
    pub const fn contains(self, wanted: PostUserRights) -> bool {
        self.0 & wanted.0 == wanted.0
    }
}

impl<'a> Post<'a> {
    /// Checks a post. [`ack`] and [`nak`] answer it, whether it passed or not.
    ///
    /// # Errors
    /// [`RdmError::NotAnItemDomain`]; [`RdmError::Missing`] for a key without service or name, and for a post
    /// that wants an ack but has no id to tell it by; what is wrong with the message inside.
    /// [`RdmError::nak_code`] is the code for the answer.
    pub fn parse(msg: &PostMsg<'a>) -> Result<Post<'a>, RdmError> {
        require_items(msg.domain)?;
        if msg.ack && msg.post_id.is_none() {
            return Err(RdmError::Missing { part: Part::PostId });
        }
        let item = msg.key.as_ref().map(ItemKey::parse).transpose()?;
        Ok(Post { msg: *msg, item, message: message(msg)? })
    }

    /// Which item is posted to, on a connection whose login is on `login_stream_id`.
    ///
    /// # Errors
    /// [`RdmError::Missing`] if the post is off-stream and does not name its item.
    pub fn target(&self, login_stream_id: i32) -> Result<PostTarget<'a>, RdmError> {
        match self.item {
            _ if self.msg.stream_id != login_stream_id => {
                Ok(PostTarget::OnStream { stream_id: self.msg.stream_id })
            }
            Some(item) => Ok(PostTarget::OffStream(item)),
            None => Err(RdmError::Missing { part: Part::Key }),
        }
    }

    /// What the poster may do; without a word of it nothing but post.
    #[must_use]
    pub fn user_rights(&self) -> PostUserRights {
        PostUserRights(self.msg.user_rights.unwrap_or(0))
    }

    /// Whether the whole post is in this message.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.msg.complete && self.msg.part_num.is_none_or(|part| part == 0)
    }
}

fn message<'a>(msg: &PostMsg<'a>) -> Result<Option<Msg<'a>>, RdmError> {
    if msg.container_type != DataType::MSG {
        return Ok(None);
    }
    match Msg::parse(msg.payload)? {
        inner @ (Msg::Refresh(_) | Msg::Update(_) | Msg::Status(_)) => Ok(Some(inner)),
        other => Err(wrong_class(&other)),
    }
}

/// A post that carries a container to an item that is open on `stream_id`, or, on the login stream, to
/// `item`.
#[must_use]
pub fn post<'a>(
    domain: Domain,
    stream_id: i32,
    item: ItemKey<'a>,
    container_type: DataType,
    payload: &'a [u8],
) -> PostMsg<'a> {
    PostMsg {
        complete: true,
        key: Some(item.into()),
        payload,
        ..PostMsg::new(domain, stream_id, container_type)
    }
}

/// What of a post its ack repeats, to be kept until it is answered.
#[must_use]
pub fn answerable(post: &PostMsg<'_>) -> PostMsg<'static> {
    PostMsg {
        ack: post.ack,
        post_id: post.post_id,
        seq_num: post.seq_num,
        ..PostMsg::new(post.domain, post.stream_id, DataType::NO_DATA)
    }
}

/// The ack that a post was taken; `None` if none is wanted, or none could be told from others.
#[must_use]
pub fn ack<'a>(post: &PostMsg<'_>) -> Option<AckMsg<'a>> {
    let ack_id = post.post_id.filter(|_| post.ack)?;
    Some(AckMsg {
        ack_id,
        seq_num: post.seq_num,
        ..AckMsg::new(post.domain, post.stream_id, DataType::NO_DATA)
    })
}

/// The ack that a post was refused; `None` as for [`ack`].
#[must_use]
pub fn nak<'a>(post: &PostMsg<'_>, code: NakCode, text: &'a str) -> Option<AckMsg<'a>> {
    Some(AckMsg { nak_code: Some(code), text: Some(text.as_bytes()), ..ack(post)? })
}

/// What an ack says about the post of its id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Acknowledged<'a> {
    /// It was taken.
    Taken,
    /// It was refused.
    Refused {
        /// Why.
        code: NakCode,
        /// The same in words.
        text: &'a [u8],
    },
}

impl<'a> Acknowledged<'a> {
    /// What an ack says. A nak code of none is as good as no nak code.
    #[must_use]
    pub fn of(ack: &AckMsg<'a>) -> Acknowledged<'a> {
        match ack.nak_code {
            None | Some(NakCode::NONE) => Acknowledged::Taken,
            Some(code) => Acknowledged::Refused { code, text: ack.text.unwrap_or_default() },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ToVec;
    use rwf::{CloseMsg, DecodeError, Key, UpdateMsg};

    const ITEM: ItemKey<'static> = ItemKey::new(1, b"TEST.1");

    fn bare(stream_id: i32) -> PostMsg<'static> {
        post(Domain::MARKET_PRICE, stream_id, ITEM, DataType::FIELD_LIST, &[0])
    }

    #[test]
    fn an_ack_repeats_what_the_post_can_be_told_by() {
        let wants = PostMsg { ack: true, post_id: Some(7), seq_num: Some(9), ..bare(5) };
        assert_eq!(ack(&answerable(&wants)), ack(&wants));
        let ack = ack(&wants).expect("wanted");
        assert_eq!((ack.domain, ack.stream_id, ack.ack_id, ack.seq_num), (wants.domain, 5, 7, Some(9)));
        assert_eq!(Acknowledged::of(&ack), Acknowledged::Taken);
        let refused = nak(&wants, NakCode::ACCESS_DENIED, "no").expect("wanted");
        let bytes = refused.to_vec().expect("legal");
        let back = AckMsg::parse(&bytes).expect("whole");
        let said = Acknowledged::Refused { code: NakCode::ACCESS_DENIED, text: b"no" };
        assert_eq!((back.ack_id, Acknowledged::of(&back)), (7, said));
    }

    #[test]
    fn a_post_that_wants_no_ack_gets_none() {
        assert_eq!(ack(&PostMsg { post_id: Some(7), ..bare(5) }), None);
        let nameless = PostMsg { ack: true, ..bare(5) };
        assert_eq!(ack(&nameless), None);
        assert_eq!(Post::parse(&nameless), Err(RdmError::Missing { part: Part::PostId }));
    }

    #[test]
    fn a_post_on_the_login_stream_must_name_its_item() {
        let off_stream = Post::parse(&bare(1)).expect("legal");
        assert_eq!(off_stream.target(1), Ok(PostTarget::OffStream(ITEM)));
        let on_stream = Post::parse(&PostMsg { key: None, ..bare(5) }).expect("legal");
        assert_eq!(on_stream.target(1), Ok(PostTarget::OnStream { stream_id: 5 }));
        assert_eq!(on_stream.target(5), Err(RdmError::Missing { part: Part::Key }));
        let keyed = PostMsg { key: Some(Key { name: Some(b"A"), ..Key::default() }), ..bare(1) };
        let homeless = RdmError::Missing { part: Part::ServiceId };
        assert_eq!(Post::parse(&keyed), Err(homeless));
        assert_eq!(homeless.nak_code(), NakCode::SOURCE_UNKNOWN);
    }

    #[test]
    fn a_message_inside_must_be_one_that_can_be_applied() {
        let update =
            UpdateMsg { payload: &[0], ..UpdateMsg::new(Domain::MARKET_PRICE, 0, DataType::FIELD_LIST) };
        let bytes = update.to_vec().expect("legal");
        let carries = |payload| PostMsg { container_type: DataType::MSG, payload, ..bare(5) };
        let post = carries(&bytes);
        let parsed = Post::parse(&post).expect("legal");
        assert_eq!(parsed.message, Some(Msg::Update(update)));
        let close = CloseMsg::new(Domain::MARKET_PRICE, 0, DataType::NO_DATA).to_vec().expect("legal");
        assert!(matches!(Post::parse(&carries(&close)), Err(RdmError::WrongClass { .. })));
        let cut = Post::parse(&carries(&bytes[..5])).expect_err("cut off");
        assert!(matches!(cut, RdmError::Malformed(DecodeError::Truncated { .. })));
        assert_eq!(cut.nak_code(), NakCode::INVALID_CONTENT);
    }

    #[test]
    fn parts_and_rights_are_told() {
        let first = PostMsg { complete: false, part_num: Some(0), post_id: Some(1), ..bare(5) };
        assert!(!Post::parse(&first).expect("legal").is_whole());
        let last = PostMsg { complete: true, part_num: Some(1), user_rights: Some(5), ..first };
        let last = Post::parse(&last).expect("legal");
        assert!(!last.is_whole());
        assert!(last.user_rights().contains(PostUserRights::CREATE));
        assert!(!last.user_rights().contains(PostUserRights::DELETE));
        assert!(Post::parse(&bare(5)).expect("legal").is_whole());
    }
}

//! The eight message classes, as plain structs of borrowed parts that serve both directions.

mod ack;
mod close;
mod generic;
mod head;
mod key;
mod post;
mod refresh;
mod request;
mod status;
mod update;

pub use ack::{AckMsg, NakCode};
pub use close::CloseMsg;
pub use generic::GenericMsg;
pub use head::{Domain, MsgClass, MsgHead, peek, set_stream_id};
pub use key::{Attributes, Key};
pub use post::PostMsg;
pub use refresh::RefreshMsg;
pub use request::{Priority, RequestMsg};
pub use status::StatusMsg;
pub use update::{Conflation, UpdateMsg, UpdateType};

use crate::reader::Reader;
use crate::{DataType, DecodeError, Place, Writer};

/// Who made a post.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PostUserInfo {
    /// The user's address, usually IPv4 as a number.
    pub address: u32,
    /// The user's id, usually a process id.
    pub user_id: u32,
}

impl PostUserInfo {
    #[inline]
    fn read(r: &mut Reader<'_>) -> Result<PostUserInfo, DecodeError> {
        Ok(PostUserInfo { address: r.u32(Place::PostUserInfo)?, user_id: r.u32(Place::PostUserInfo)? })
    }

    fn put(self, w: &mut Writer<'_>) {
        w.u32(self.address);
        w.u32(self.user_id);
    }
}

/// A message of any class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Msg<'a> {
    /// Opens a stream, or changes an open one.
    Request(RequestMsg<'a>),
    /// An image, or a part of one.
    Refresh(RefreshMsg<'a>),
    /// A change of state.
    Status(StatusMsg<'a>),
    /// A change of data.
    Update(UpdateMsg<'a>),
    /// Ends a stream.
    Close(CloseMsg<'a>),
    /// The answer to a post or close.
    Ack(AckMsg<'a>),
    /// Anything two ends agree on.
    Generic(GenericMsg<'a>),
    /// Data that a consumer contributes.
    Post(PostMsg<'a>),
}

macro_rules! for_each_class {
    ($msg:expr, $m:ident => $do:expr) => {
        match $msg {
            Msg::Request($m) => $do,
            Msg::Refresh($m) => $do,
            Msg::Status($m) => $do,
            Msg::Update($m) => $do,
            Msg::Close($m) => $do,
            Msg::Ack($m) => $do,
            Msg::Generic($m) => $do,
            Msg::Post($m) => $do,
        }
    };
}

impl<'a> Msg<'a> {
    /// Reads a whole message. Nothing of the payload is looked at; header bytes behind the known parts are
    /// skipped.
    ///
    /// # Errors
    /// [`DecodeError::UnknownMsgClass`] for a class that RWF 14 does not have; else what is wrong with the
    /// header.
    #[inline]
    pub fn parse(bytes: &'a [u8]) -> Result<Msg<'a>, DecodeError> {
        let (head, r, payload) = head::split(bytes)?;
        match head.class {
            MsgClass::Update => Ok(Msg::Update(UpdateMsg::read(&head, r, payload)?)),
            _ => Msg::read_other(&head, r, payload),
        }
    }

    /// Kept apart from updates, which are nearly all that comes: their path is short where it is inlined.
    #[inline(never)]
    fn read_other(head: &MsgHead, r: Reader<'a>, payload: &'a [u8]) -> Result<Msg<'a>, DecodeError> {
        Ok(match head.class {
            MsgClass::Request => Msg::Request(RequestMsg::read(head, r, payload)?),
            MsgClass::Refresh => Msg::Refresh(RefreshMsg::read(head, r, payload)?),
            MsgClass::Status => Msg::Status(StatusMsg::read(head, r, payload)?),
            MsgClass::Update => Msg::Update(UpdateMsg::read(head, r, payload)?),
            MsgClass::Close => Msg::Close(CloseMsg::read(head, r, payload)?),
            MsgClass::Ack => Msg::Ack(AckMsg::read(head, r, payload)?),
            MsgClass::Generic => Msg::Generic(GenericMsg::read(head, r, payload)?),
            MsgClass::Post => Msg::Post(PostMsg::read(head, r, payload)?),
        })
    }

    /// Writes header and payload.
    pub fn encode(&self, w: &mut Writer<'_>) {
        for_each_class!(self, m => m.encode(w));
    }

    /// Writes the header alone; the payload is to be written straight after it.
    pub fn encode_header(&self, w: &mut Writer<'_>) {
        for_each_class!(self, m => m.encode_header(w));
    }

    /// The class.
    #[must_use]
    pub fn class(&self) -> MsgClass {
        match self {
            Msg::Request(_) => MsgClass::Request,
            Msg::Refresh(_) => MsgClass::Refresh,
            Msg::Status(_) => MsgClass::Status,
            Msg::Update(_) => MsgClass::Update,
            Msg::Close(_) => MsgClass::Close,
            Msg::Ack(_) => MsgClass::Ack,
            Msg::Generic(_) => MsgClass::Generic,
            Msg::Post(_) => MsgClass::Post,
        }
    }

    /// The domain.
    #[must_use]
    pub fn domain(&self) -> Domain {
        for_each_class!(self, m => m.domain)
    }

    /// The stream id.
    #[must_use]
    pub fn stream_id(&self) -> i32 {
        for_each_class!(self, m => m.stream_id)
    }

    /// The type of the payload.
    #[must_use]
    pub fn container_type(&self) -> DataType {
        for_each_class!(self, m => m.container_type)
    }

    /// The payload.
    #[must_use]
    pub fn payload(&self) -> &'a [u8] {
        for_each_class!(self, m => m.payload)
    }

    /// The key, of the classes that may have one.
    #[must_use]
    pub fn key(&self) -> Option<Key<'a>> {
        match self {
            Msg::Request(m) => Some(m.key),
            Msg::Refresh(m) => m.key,
            Msg::Status(m) => m.key,
            Msg::Update(m) => m.key,
            Msg::Close(_) => None,
            Msg::Ack(m) => m.key,
            Msg::Generic(m) => m.key,
            Msg::Post(m) => m.key,
        }
    }
}

/// What every class has alike: whole parse, and encoding of header and payload.
macro_rules! msg_class {
    ($name:ident, $class:ident) => {
        impl<'a> $name<'a> {
            /// Reads a message of this class. Nothing of the payload is looked at; header bytes behind the
            /// known parts are skipped.
            ///
            /// # Errors
            /// [`DecodeError::OtherMsgClass`] for another class; else what is wrong with the header.
            #[inline]
            pub fn parse(bytes: &'a [u8]) -> Result<$name<'a>, DecodeError> {
                let (head, r, payload) = crate::msg::head::split(bytes)?;
                match head.class {
                    MsgClass::$class => $name::read(&head, r, payload),
                    other => {
                        Err(DecodeError::OtherMsgClass { class: other as u8, wanted: MsgClass::$class as u8 })
                    }
                }
            }

            /// A message with nothing but what every message has: no optional part, no flag, no payload.
            #[must_use]
            pub fn new(domain: Domain, stream_id: i32, container_type: DataType) -> $name<'a> {
                $name { domain, stream_id, container_type, ..$name::default() }
            }

            /// Writes header and payload.
            #[inline]
            pub fn encode(&self, w: &mut Writer<'_>) {
                self.encode_header(w);
                w.bytes(self.payload);
            }

            /// Writes the header alone; the payload is to be written straight after it.
            #[inline]
            pub fn encode_header(&self, w: &mut Writer<'_>) {
                let size_at = w.len();
                let flags = self.flags();
                crate::msg::head::put_fixed_part(
                    w,
                    MsgClass::$class,
                    self.domain,
                    self.stream_id,
                    flags,
                    self.container_type,
                );
                self.put_parts(w);
                crate::msg::head::close(w, size_at);
            }
        }
    };
}
pub(crate) use msg_class;

/// The bits of the flags that are set, from parts that are there.
macro_rules! flag_bits {
    ($($set:expr => $bit:expr),* $(,)?) => {
        0 $(| if $set { $bit } else { 0 })*
    };
}
pub(crate) use flag_bits;

/// A part that is there if its flag is set.
#[inline]
fn optional<T>(
    flags: u16,
    flag: u16,
    read: impl FnOnce() -> Result<T, DecodeError>,
) -> Result<Option<T>, DecodeError> {
    if flags & flag == 0 { Ok(None) } else { read().map(Some) }
}

/// A sequence number that is there if its flag is set.
#[inline]
fn optional_u32(r: &mut Reader<'_>, flags: u16, flag: u16, place: Place) -> Result<Option<u32>, DecodeError> {
    optional(flags, flag, || r.u32(place))
}

/// A part of bytes behind a `u15rb` length that is there if its flag is set.
#[inline]
fn optional_buf15<'a>(
    r: &mut Reader<'a>,
    flags: u16,
    flag: u16,
    place: Place,
) -> Result<Option<&'a [u8]>, DecodeError> {
    optional(flags, flag, || r.buf15(place))
}

/// The extended header, which all classes have behind flag 1.
#[inline]
fn extended_header<'a>(r: &mut Reader<'a>, flags: u16) -> Result<Option<&'a [u8]>, DecodeError> {
    optional(flags, EXTENDED_HEADER, || r.buf8(Place::ExtendedHeader))
}

fn put_extended_header(w: &mut Writer<'_>, header: Option<&[u8]>) {
    if let Some(header) = header {
        w.buf8(header, Place::ExtendedHeader);
    }
}

fn put_buf15(w: &mut Writer<'_>, bytes: Option<&[u8]>, place: Place) {
    if let Some(bytes) = bytes {
        w.buf15(bytes, place);
    }
}

fn put_u32(w: &mut Writer<'_>, number: Option<u32>) {
    if let Some(number) = number {
        w.u32(number);
    }
}

const EXTENDED_HEADER: u16 = 0x0001;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::encode_to_vec;

    #[test]
    fn a_class_that_does_not_exist_is_named() {
        let mut bytes = encode_to_vec(|w| CloseMsg::default().encode(w)).expect("small");
        bytes[2] = 9;
        assert_eq!(Msg::parse(&bytes), Err(DecodeError::UnknownMsgClass { class: 9 }));
        bytes[2] = 4;
        assert_eq!(CloseMsg::parse(&bytes), Err(DecodeError::OtherMsgClass { class: 4, wanted: 5 }));
    }

    #[test]
    fn header_bytes_behind_the_known_parts_are_skipped() {
        let message = StatusMsg { payload: b"payload", ..StatusMsg::new(Domain::LOGIN, 1, DataType::OPAQUE) };
        let mut bytes = encode_to_vec(|w| message.encode(w)).expect("small");
        bytes.splice(10..10, [1, 2, 3]);
        bytes[1] += 3;
        assert_eq!(StatusMsg::parse(&bytes), Ok(message));
    }

    #[test]
    fn a_header_that_says_it_is_longer_than_the_message_is_refused() {
        let mut bytes = encode_to_vec(|w| CloseMsg::default().encode(w)).expect("small");
        bytes[1] += 1;
        let cut = DecodeError::Truncated { place: Place::MsgHeader, need_bytes: 9, have_bytes: 8 };
        assert_eq!(Msg::parse(&bytes), Err(cut));
    }
}

use std::fmt;

use rwf::Domain;

use super::fault::{Fault, What};
use super::member::{Member, Members};
use super::{message, scalar};
use crate::json::Node;
use crate::write::text::{Text, member};

/// A message that cannot be used, and the answer to it.
#[derive(Clone, Copy, Debug)]
pub struct Refusal<'r> {
    what: What<'r>,
    /// How many messages of the frame came before it and took effect.
    pub messages_before: usize,
    /// The stream id of the message, 0 if it cannot be told.
    pub stream_id: i32,
    /// The domain of the message, market price if it cannot be told.
    pub domain: Domain,
    /// Where in the message reading stopped, in bytes.
    pub offset: u32,
    /// The text of the message, or of the whole frame if that is not JSON.
    pub text: &'r [u8],
}

/// What kind of fault a message has.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RefusalKind {
    /// The frame is not JSON.
    NotJson,
    /// A member is of another kind than it has to be.
    WrongType,
    /// A member has a value that it cannot have.
    UnexpectedValue,
    /// A member is missing.
    MissingKey,
    /// There is a member that cannot be there.
    UnexpectedKey,
    /// There is a field that the dictionary lacks.
    UnexpectedField,
    /// An array has items of different kinds.
    MixedTypes,
    /// A service is named that there is not.
    UnknownService,
    /// Containers stand too deep inside each other.
    TooDeep,
    /// Something has no room in RWF, such as a name of more than 255 bytes.
    NotEncodable,
}

impl<'r> Refusal<'r> {
    /// The refusal of a frame that cannot be read.
    pub(super) fn of_frame(what: What<'r>, offset: u32, text: &'r [u8]) -> Refusal<'r> {
        Refusal { what, messages_before: 0, stream_id: 0, domain: Domain::MARKET_PRICE, offset, text }
    }

    /// The refusal of one message.
    pub(super) fn of_message(fault: Fault<'r>, node: Node<'r>, messages_before: usize) -> Refusal<'r> {
        let members = Members::of(node, false).ok();
        let stream_id = members.and_then(|m| m.read(Member::Id, scalar::number).ok().flatten());
        let domain = members.and_then(|m| message::domain(&m).ok());
        Refusal {
            what: fault.what,
            messages_before,
            stream_id: stream_id.unwrap_or(0),
            domain: domain.unwrap_or(Domain::MARKET_PRICE),
            offset: fault.offset.saturating_sub(node.offset()),
            text: node.raw(),
        }
    }

    /// What kind of fault it is.
    #[must_use]
    pub fn kind(&self) -> RefusalKind {
        match self.what {
            What::NotJson(_) => RefusalKind::NotJson,
            What::WrongType { .. } => RefusalKind::WrongType,
            What::UnexpectedValue { .. } => RefusalKind::UnexpectedValue,
            What::MissingKey { .. } => RefusalKind::MissingKey,
            What::UnexpectedKey { .. } => RefusalKind::UnexpectedKey,
            What::UnexpectedField { .. } => RefusalKind::UnexpectedField,
            What::MixedTypes { .. } => RefusalKind::MixedTypes,
            What::UnknownService { .. } => RefusalKind::UnknownService,
            What::TooDeep => RefusalKind::TooDeep,
            What::NotEncodable(_) => RefusalKind::NotEncodable,
        }
    }

    /// Appends the object of the answer:
    /// `{"ID":0,"Type":"Error","Text":"...","Debug":{"Offset":11,"Message":"..."}}`.
    ///
    /// `Message` is the received text, from which some clients take the id of a post; of a longer one than
    /// 64 KiB the beginning.
    pub fn write(&self, out: &mut Vec<u8>) {
        let mut text = Text::new(out);
        text.open_object();
        text.raw(member!("ID"));
        text.int(self.stream_id.into());
        text.raw(b",\"Type\":\"Error\",");
        text.raw(member!("Text"));
        text.string(self.to_string().as_bytes());
        text.comma();
        text.raw(member!("Debug"));
        text.open_object();
        text.optional(member!("Offset"), Some(self.offset.into()));
        text.raw(member!("Message"));
        text.string(self.text.get(..ECHO_BYTES_MAX).unwrap_or(self.text));
        text.close_object();
        text.close_object();
    }
}

/// Bytes of a received message that its answer quotes.
const ECHO_BYTES_MAX: usize = 64 * 1024;

/// The text of the answer.
impl fmt::Display for Refusal<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.what.fmt(f)
    }
}

impl std::error::Error for Refusal<'_> {}

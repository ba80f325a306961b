use crate::{Outbox, Staged};

/// How a message stands in a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// What follows `{"ID":5,` in the object of a message.
    Body,
    /// The same; it shares its frame with no other message. Clients want that of the answer to a login.
    Alone,
    /// An object that has no stream id, or has it already.
    Whole,
}

/// Puts a message into an outbox: `write` appends its JSON. In the outbox a byte for its kind stands before
/// it.
#[inline]
pub fn stage(outbox: &mut Outbox, kind: Kind, write: impl FnOnce(&mut Vec<u8>)) -> Staged {
    outbox.stage_with(|log| {
        log.push(kind as u8);
        write(log);
    })
}

/// A message in the outbox.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Message<'a> {
    pub(crate) kind: Kind,
    pub(crate) json: &'a [u8],
}

impl<'a> Message<'a> {
    #[inline]
    pub(crate) fn read(staged: &'a [u8]) -> Message<'a> {
        let Some((&kind, json)) = staged.split_first() else {
            return Message { kind: Kind::Whole, json: b"" };
        };
        let kind = match kind {
            kind if kind == Kind::Body as u8 => Kind::Body,
            kind if kind == Kind::Alone as u8 => Kind::Alone,
            _ => Kind::Whole,
        };
        Message { kind, json }
    }

    /// Appends what stands before the JSON on a connection.
    #[inline]
    pub(crate) fn write_head(&self, stream_id: i32, into: &mut Vec<u8>) {
        if self.kind != Kind::Whole {
            rwf_json::write_head(stream_id, into);
        }
    }
}

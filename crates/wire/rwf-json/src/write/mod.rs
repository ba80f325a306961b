//! RWF to JSON.

mod clock;
mod container;
mod field;
mod header;
pub(crate) mod key;
mod real;
pub(crate) mod text;
mod value;

use std::fmt;

use rwf::{DecodeError, Key, Msg};

use crate::{Converter, Services};
use text::{Text, member};

/// Why a message did not become JSON.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ToJsonError {
    /// The message is not what the format allows.
    Decode(DecodeError),
    /// A field is not what the dictionary says it is.
    Field {
        /// The field's id.
        id: i16,
        /// What is wrong with it.
        error: DecodeError,
    },
    /// The text would be longer than [`Options::json_bytes_max`](crate::Options::json_bytes_max).
    TooLong {
        /// The limit.
        max_bytes: usize,
    },
}

/// Which key a message is written with.
#[derive(Clone, Copy, Debug)]
pub enum KeyPart<'k> {
    /// The message's own, if it has one.
    Own,
    /// None, whatever the message has.
    Without,
    /// This one: for messages that are kept without the key they all share.
    Given(&'k Key<'k>),
}

pub(crate) type Written = Result<(), ToJsonError>;

/// Appends the object of a ping, to be answered by a pong.
pub fn write_ping(out: &mut Vec<u8>) {
    out.extend_from_slice(br#"{"Type":"Ping"}"#);
}

/// Appends the object of a pong.
pub fn write_pong(out: &mut Vec<u8>) {
    out.extend_from_slice(br#"{"Type":"Pong"}"#);
}

/// Begins the object of a message: `{"ID":5,`. What [`Converter::write_body`] writes goes behind it.
pub fn write_head(stream_id: i32, out: &mut Vec<u8>) {
    let mut text = Text::new(out);
    text.raw(b"{\"ID\":");
    text.int(stream_id.into());
    text.comma();
}

impl<S: Services> Converter<'_, S> {
    /// Appends a message as JSON object.
    ///
    /// # Errors
    /// A [`ToJsonError`]; `out` is then as it was.
    pub fn write(&self, msg: &Msg<'_>, out: &mut Vec<u8>) -> Result<(), ToJsonError> {
        self.undone_on_error(out, |writer| writer.message(msg, 0))
    }

    /// Appends the part of a message's object that is the same for all who get it: everything behind the
    /// stream id, closing brace included. With [`write_head`] before it, it is the object.
    ///
    /// A close of several streams, which has a list in place of the id, is written as that of its first.
    ///
    /// # Errors
    /// A [`ToJsonError`]; `out` is then as it was.
    pub fn write_body(&self, msg: &Msg<'_>, key: KeyPart<'_>, out: &mut Vec<u8>) -> Result<(), ToJsonError> {
        self.undone_on_error(out, |writer| writer.body(msg, key, 0))
    }

    #[inline]
    fn undone_on_error(
        &self,
        out: &mut Vec<u8>,
        write: impl FnOnce(&mut Writer<'_, '_, S>) -> Written,
    ) -> Written {
        let mut writer = Writer { converter: self, text: Text::new(out) };
        let written = write(&mut writer);
        if written.is_err() {
            writer.text.undo();
        }
        written
    }
}

/// One message on its way to JSON.
pub(crate) struct Writer<'w, 'o, S> {
    converter: &'w Converter<'w, S>,
    text: Text<'o>,
}

impl<S: Services> Writer<'_, '_, S> {
    /// A whole object, with the stream id.
    fn message(&mut self, msg: &Msg<'_>, depth: u32) -> Written {
        self.text.open_object();
        self.text.raw(member!("ID"));
        match key::StreamIds::of(msg) {
            Some(ids) => ids.write(&mut self.text)?,
            None => self.text.int(msg.stream_id().into()),
        }
        self.text.comma();
        self.body(msg, KeyPart::Own, depth)
    }

    /// Fails once the text is longer than it may be. Called for each entry of a container, so that a few
    /// bytes that stand for many entries do not become more text than asked for.
    fn check_length(&self) -> Written {
        let max_bytes = self.converter.options.json_bytes_max;
        if self.text.len() > max_bytes { Err(ToJsonError::TooLong { max_bytes }) } else { Ok(()) }
    }
}

impl From<DecodeError> for ToJsonError {
    fn from(error: DecodeError) -> Self {
        ToJsonError::Decode(error)
    }
}

impl fmt::Display for ToJsonError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ToJsonError::Decode(error) => error.fmt(f),
            ToJsonError::Field { id, error } => write!(f, "field {id}: {error}"),
            ToJsonError::TooLong { max_bytes } => write!(f, "JSON text of more than {max_bytes} bytes"),
        }
    }
}

impl std::error::Error for ToJsonError {}

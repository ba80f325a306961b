use std::fmt;

use rwf::EncodeError;

use crate::json::{Kind, Node, NotJson};
use crate::limits::DEPTH_MAX;

/// What is wrong with a received message, and where.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fault<'t> {
    pub(super) what: What<'t>,
    /// The byte of the frame.
    pub(super) offset: u32,
}

/// What can be wrong. The names are those of members and values as received.
#[derive(Clone, Copy, Debug)]
pub(super) enum What<'t> {
    /// It is not JSON.
    NotJson(NotJson),
    /// A value of another kind than its member has.
    WrongType { key: &'t [u8], expected: Kind, received: Kind },
    /// A value that its member does not have.
    UnexpectedValue { key: &'t [u8], received: &'t [u8] },
    /// A member that has to be there.
    MissingKey { key: &'t [u8] },
    /// A member that cannot be there.
    UnexpectedKey { received: &'t [u8] },
    /// A field that the dictionary lacks.
    UnexpectedField { received: &'t [u8] },
    /// Items of different kinds.
    MixedTypes { first: Kind, second: Kind },
    /// A service that nobody knows.
    UnknownService { received: &'t [u8] },
    /// Containers deeper than they may be.
    TooDeep,
    /// Something that RWF has no room for.
    NotEncodable(EncodeError),
}

impl<'t> Fault<'t> {
    pub(super) fn wrong_type(node: Node<'t>, key: &'t [u8], expected: Kind) -> Fault<'t> {
        // `true` in place of a number is of the same kind in the terms of the answer.
        if primitive(expected) && primitive(node.kind()) {
            return Fault::unexpected_value(node, key);
        }
        Fault { what: What::WrongType { key, expected, received: node.kind() }, offset: node.offset() }
    }

    pub(super) fn unexpected_value(node: Node<'t>, key: &'t [u8]) -> Fault<'t> {
        let received = node.string().unwrap_or_else(|| node.raw());
        Fault { what: What::UnexpectedValue { key, received }, offset: node.offset() }
    }

    /// `object` lacks the member `key`.
    pub(super) fn missing(object: Node<'t>, key: &'t [u8]) -> Fault<'t> {
        Fault { what: What::MissingKey { key }, offset: object.offset() }
    }

    /// `value` is that of a member that cannot be there.
    pub(super) fn unexpected_key(received: &'t [u8], value: Node<'t>) -> Fault<'t> {
        Fault { what: What::UnexpectedKey { received }, offset: value.offset() }
    }

    pub(super) fn at(what: What<'t>, node: Node<'t>) -> Fault<'t> {
        Fault { what, offset: node.offset() }
    }
}

fn primitive(kind: Kind) -> bool {
    matches!(kind, Kind::Number | Kind::True | Kind::False | Kind::Null)
}

/// Bytes of a received value that a text quotes.
const QUOTED_BYTES_MAX: usize = 128;

/// Received text, shortened.
struct Quoted<'t>(&'t [u8]);

impl fmt::Display for Quoted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (shown, more) = match self.0.get(..QUOTED_BYTES_MAX) {
            Some(shown) => (shown, "..."),
            None => (self.0, ""),
        };
        // A character that is cut through is left out.
        let shown = shown.utf8_chunks().next().map_or("", |chunk| chunk.valid());
        write!(f, "'{shown}{more}'")
    }
}

/// The word of the specification for a kind of value.
fn word(kind: Kind) -> &'static str {
    match kind {
        Kind::Object => "OBJECT",
        Kind::Array => "ARRAY",
        Kind::String => "STRING",
        Kind::Number | Kind::True | Kind::False | Kind::Null => "PRIMITIVE",
    }
}

/// The wording is that of the specification's server, which clients are known to look at.
impl fmt::Display for What<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            What::NotJson(error) => write!(f, "JSON Parser error: {error}"),
            What::WrongType { key, expected, received } => write!(
                f,
                "JSON Converter Token Type error: Expected '{}' for key {} Received '{}'",
                word(expected),
                Quoted(key),
                word(received),
            ),
            What::UnexpectedValue { key, received } => {
                write!(f, "JSON Unexpected Value. Received {} for key {}", Quoted(received), Quoted(key))
            }
            What::MissingKey { key } => write!(f, "JSON Missing required key {}", Quoted(key)),
            What::UnexpectedKey { received } => {
                write!(f, "JSON Unexpected Key. Received {}", Quoted(received))
            }
            What::UnexpectedField { received } => {
                write!(f, "JSON Unexpected FID. Received {} for key 'Fields'", Quoted(received))
            }
            What::MixedTypes { first, second } => write!(
                f,
                "JSON Mixed Types in OMM Array: Received '{}' and '{}' for key 'Data'",
                word(first),
                word(second),
            ),
            What::UnknownService { received } => {
                write!(f, "JSON Unexpected Value. Received {} for key 'Service'", Quoted(received))
            }
            What::TooDeep => write!(f, "JSON Converter error: containers nested deeper than {DEPTH_MAX}"),
            What::NotEncodable(error) => write!(f, "JSON Converter encode error: {error}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_wording_is_that_of_the_specification() {
        let key = &b"ID"[..];
        let text = |what: What<'_>| what.to_string();
        assert_eq!(
            text(What::WrongType { key, expected: Kind::Number, received: Kind::String }),
            "JSON Converter Token Type error: Expected 'PRIMITIVE' for key 'ID' Received 'STRING'"
        );
        assert_eq!(
            text(What::UnexpectedValue { key: b"Type", received: b"ExtraInfo" }),
            "JSON Unexpected Value. Received 'ExtraInfo' for key 'Type'"
        );
        assert_eq!(text(What::MissingKey { key }), "JSON Missing required key 'ID'");
        assert_eq!(
            text(What::UnexpectedKey { received: b"PlaceHolder" }),
            "JSON Unexpected Key. Received 'PlaceHolder'"
        );
        assert_eq!(
            text(What::UnexpectedField { received: b"BID_CUSTOM" }),
            "JSON Unexpected FID. Received 'BID_CUSTOM' for key 'Fields'"
        );
        assert_eq!(
            text(What::MixedTypes { first: Kind::Number, second: Kind::String }),
            "JSON Mixed Types in OMM Array: Received 'PRIMITIVE' and 'STRING' for key 'Data'"
        );
    }

    #[test]
    fn long_values_are_quoted_in_part_and_no_character_is_cut_through() {
        let long = "x".repeat(127) + "é and more";
        let text = What::UnexpectedKey { received: long.as_bytes() }.to_string();
        assert_eq!(text, format!("JSON Unexpected Key. Received '{}...'", "x".repeat(127)));
    }
}

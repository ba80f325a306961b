use std::fmt;

use crate::DataType;

/// Bytes from the wire that are not what the format allows.
///
/// Small and `Copy`: it costs nothing until it is printed. Each variant says where, what was found and what
/// the limit was. A peer that sends such bytes is at fault; its connection may be closed, nothing else is
/// touched.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DecodeError {
    /// A part is longer than what is left of its enclosing part.
    Truncated {
        /// The part that does not fit.
        place: Place,
        /// Bytes it needs.
        need_bytes: u32,
        /// Bytes that are there.
        have_bytes: u32,
    },
    /// A length that the part cannot have.
    BadLength {
        /// The part.
        place: Place,
        /// The length found.
        length: u32,
        /// The longest it may be.
        max: u32,
    },
    /// A value outside the range of its field.
    BadValue {
        /// The field.
        place: Place,
        /// The value found.
        value: u32,
        /// The largest value allowed.
        max: u32,
    },
    /// A message class that RWF 14 does not have.
    UnknownMsgClass {
        /// The class byte found.
        class: u8,
    },
    /// A message of another class than the caller decodes.
    OtherMsgClass {
        /// The class byte found.
        class: u8,
        /// The class byte wanted.
        wanted: u8,
    },
    /// A data type that cannot stand in this place.
    BadType {
        /// The place.
        place: Place,
        /// The type found.
        data_type: DataType,
    },
    /// Containers nested deeper than the caller's limit.
    TooDeep {
        /// The limit that was reached.
        max_depth: u32,
    },
}

/// A request to encode what the format, or the buffer, cannot hold. The caller is at fault, never a peer.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EncodeError {
    /// The buffer is too small. Nothing that was written is of use.
    BufferTooSmall {
        /// Bytes that are needed at least; exact when everything was written and nothing else went wrong.
        need_bytes: u32,
        /// Bytes the buffer has.
        have_bytes: u32,
    },
    /// A part is longer than its length field can say.
    TooLong {
        /// The part.
        place: Place,
        /// Its length (or number of entries).
        length: u32,
        /// The longest it may be.
        max: u32,
    },
    /// A value that the field, or the fixed width chosen for it, cannot hold.
    BadValue {
        /// The field.
        place: Place,
        /// The value, as far as it fits.
        value: u32,
        /// The largest value, or the width in bytes, allowed.
        max: u32,
    },
    /// A value of another type than the header or the set definition announced.
    OtherType {
        /// The place.
        place: Place,
        /// The type given.
        given: DataType,
        /// The type announced.
        wanted: DataType,
    },
    /// A type that cannot stand in this place, such as a primitive as the content of a map.
    BadType {
        /// The place.
        place: Place,
        /// The type given.
        data_type: DataType,
    },
    /// A blank where the format has none: a map key, a fixed-size integer.
    Blank {
        /// The place.
        place: Place,
    },
    /// Set data with fewer or more values than its definition.
    SetIncomplete {
        /// Values written.
        written: u32,
        /// Values in the definition.
        wanted: u32,
    },
    /// A part that needs another part that is missing or already past, such as a name type without a name.
    OutOfOrder {
        /// The part that cannot stand here.
        place: Place,
    },
    /// A value of another type than the dictionary gives the field.
    FieldType {
        /// The field.
        id: i16,
        /// The type given.
        given: DataType,
        /// The type of the dictionary.
        wanted: DataType,
    },
    /// A field by a name that the dictionary does not have, or without a dictionary.
    /// [`Writer::refused_field`](crate::Writer::refused_field) says which.
    UnknownField,
}

macro_rules! places {
    ($($(#[$doc:meta])* $name:ident $text:literal;)*) => {
        /// The part of a message that an error is about.
        #[non_exhaustive]
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Place {
            $(#[doc = concat!("The ", $text, ".")] $name,)*
        }

        impl fmt::Display for Place {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(match self { $(Place::$name => $text,)* })
            }
        }
    };
}

places! {
    MsgHeader "message header"; MsgFlags "message flags"; ContainerType "container type"; Key "key";
    KeyName "key name"; KeyNameType "key name type"; KeyAttributes "key attributes";
    RequestKey "request key"; ExtendedHeader "extended header"; PermissionData "permission data";
    GroupId "group id"; PartNum "part number"; SeqNum "sequence number"; Priority "priority";
    PostUserInfo "post user info"; PostUserRights "post user rights"; PostId "post id";
    Conflation "conflation information"; AckText "ack text"; AckId "ack id"; NakCode "nak code";
    UpdateType "update type"; ServiceId "service id"; FieldList "field list";
    FieldEntry "field list entry"; ElementList "element list"; ElementName "element name";
    ElementEntry "element list entry"; Info "list information"; FilterList "filter list";
    FilterEntry "filter list entry"; Map "map"; MapEntry "map entry"; MapKey "map key"; Series "series";
    SeriesEntry "series entry"; Vector "vector"; VectorEntry "vector entry"; VectorIndex "vector index";
    EntryCount "number of entries"; TotalCountHint "total count hint"; Summary "summary data";
    SetDefinitions "set definitions"; SetId "set id"; SetData "set data"; Int "integer";
    UInt "unsigned integer"; Float "float"; Double "double"; Real "real"; RealHint "real hint";
    Date "date"; Time "time"; DateTime "date time"; Qos "quality of service"; State "state";
    StreamState "stream state"; DataState "data state"; StateText "state text"; Enum "enumeration";
    Array "array"; ArrayItem "array item"; Buffer "buffer"; Text "string"; Rmtes "RMTES string";
    RmtesCommand "RMTES command"; Content "content";
}

/// A `usize` as an error holds it; no part of a message is that long, so saturating loses nothing.
#[inline]
pub(crate) fn clip(length: usize) -> u32 {
    u32::try_from(length).unwrap_or(u32::MAX)
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Truncated { place, need_bytes, have_bytes } => {
                write!(f, "{place}: {need_bytes} bytes needed, {have_bytes} left")
            }
            Self::BadLength { place, length, max } => write!(f, "{place}: length {length}, at most {max}"),
            Self::BadValue { place, value, max } => write!(f, "{place}: value {value}, at most {max}"),
            Self::UnknownMsgClass { class } => write!(f, "unknown message class {class}"),
            Self::OtherMsgClass { class, wanted } => write!(f, "message class {class}, wanted {wanted}"),
            Self::BadType { place, data_type } => write!(f, "{place}: {data_type} cannot stand here"),
            Self::TooDeep { max_depth } => write!(f, "containers nested deeper than {max_depth}"),
        }
    }
}

impl fmt::Display for EncodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::BufferTooSmall { need_bytes, have_bytes } => {
                write!(f, "buffer of {have_bytes} bytes too small, at least {need_bytes} needed")
            }
            Self::TooLong { place, length, max } => write!(f, "{place}: length {length}, at most {max}"),
            Self::BadValue { place, value, max } => write!(f, "{place}: value {value} does not fit {max}"),
            Self::OtherType { place, given, wanted } => {
                write!(f, "{place}: {given} given, {wanted} announced")
            }
            Self::BadType { place, data_type } => write!(f, "{place}: {data_type} cannot stand here"),
            Self::Blank { place } => write!(f, "{place}: cannot be blank"),
            Self::SetIncomplete { written, wanted } => write!(f, "set data: {written} values of {wanted}"),
            Self::OutOfOrder { place } => write!(f, "{place}: cannot stand here"),
            Self::FieldType { id, given, wanted } => {
                write!(f, "field {id}: {given} given, {wanted} wanted")
            }
            Self::UnknownField => f.write_str("a field by name that no dictionary at hand has"),
        }
    }
}

impl std::error::Error for DecodeError {}
impl std::error::Error for EncodeError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_small_enough_to_return_for_each_field() {
        assert!(size_of::<DecodeError>() <= 12 && size_of::<EncodeError>() <= 12);
    }

    #[test]
    fn an_error_says_where_what_and_the_limit() {
        let error = DecodeError::Truncated { place: Place::FieldEntry, need_bytes: 7, have_bytes: 3 };
        assert_eq!(error.to_string(), "field list entry: 7 bytes needed, 3 left");
        let error = EncodeError::TooLong { place: Place::KeyName, length: 256, max: 255 };
        assert_eq!(error.to_string(), "key name: length 256, at most 255");
        let given = DataType::INT;
        let error = EncodeError::OtherType { place: Place::MapKey, given, wanted: DataType::BUFFER };
        assert_eq!(error.to_string(), "map key: INT given, BUFFER announced");
    }
}

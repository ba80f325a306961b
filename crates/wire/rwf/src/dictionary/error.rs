use std::fmt;

use crate::{DataType, DecodeError};

/// Why a definition cannot be added to a dictionary.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DictionaryError {
    /// Field id 0 is reserved.
    ReservedFieldId,
    /// The id is defined already.
    DuplicateFieldId {
        /// The id.
        id: i16,
    },
    /// The name is that of another field.
    DuplicateFieldName {
        /// The new field.
        id: i16,
        /// The field that has the name.
        first: i16,
    },
    /// The type is not one that a field can have.
    BadFieldType {
        /// The field.
        id: i16,
        /// The type.
        data_type: DataType,
    },
    /// More fields than there can be.
    TooManyFields {
        /// The most there can be.
        max: u32,
    },
    /// A table that belongs to no field.
    EnumTableWithoutFields,
    /// The field has a table already.
    DuplicateEnumField {
        /// The field.
        id: i16,
    },
    /// The table has the value already.
    DuplicateEnumValue {
        /// The value.
        value: u16,
    },
    /// The field definition and the enumeration table know the field by different names.
    FieldNameMismatch {
        /// The field.
        id: i16,
    },
    /// Fields and enumerations name different dictionaries.
    DictionaryIdMismatch {
        /// The id found.
        id: u16,
        /// The id known before.
        known: u16,
    },
}

/// Why a dictionary payload cannot be taken over.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DictionaryDecodeError {
    /// It is not legal RWF.
    Decode(DecodeError),
    /// It contradicts itself, or what is known.
    Contradicts(DictionaryError),
    /// The series does not hold element lists.
    NotElementLists {
        /// What it holds.
        container_type: DataType,
    },
    /// It is the other dictionary, or none.
    OtherKind {
        /// The type number found in the summary.
        kind: u32,
    },
    /// An entry lacks a column.
    MissingColumn {
        /// The position of the entry in the series.
        entry: u32,
        /// The name of the column.
        column: &'static str,
    },
    /// A column is not of the type it must be, blank, or out of range.
    BadColumn {
        /// The position of the entry in the series.
        entry: u32,
        /// The name of the column.
        column: &'static str,
        /// The type found.
        data_type: DataType,
    },
    /// The arrays of an enumeration differ in length.
    UnequalColumns {
        /// The position of the entry in the series.
        entry: u32,
        /// The number of values.
        values: u32,
        /// The number of displays or meanings.
        texts: u32,
    },
}

impl fmt::Display for DictionaryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::ReservedFieldId => f.write_str("field id 0 is reserved"),
            Self::DuplicateFieldId { id } => write!(f, "field id {id} is defined twice"),
            Self::DuplicateFieldName { id, first } => write!(f, "field {id} has the name of field {first}"),
            Self::BadFieldType { id, data_type } => write!(f, "field {id} cannot be of type {data_type}"),
            Self::TooManyFields { max } => write!(f, "more than {max} definitions"),
            Self::EnumTableWithoutFields => f.write_str("an enumeration that belongs to no field"),
            Self::DuplicateEnumField { id } => write!(f, "field {id} has two enumerations"),
            Self::DuplicateEnumValue { value } => write!(f, "enumeration value {value} is defined twice"),
            Self::FieldNameMismatch { id } => {
                write!(f, "field {id} has different names in fields and enumerations")
            }
            Self::DictionaryIdMismatch { id, known } => {
                write!(f, "dictionary id {id} does not match {known}")
            }
        }
    }
}

impl fmt::Display for DictionaryDecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Decode(error) => error.fmt(f),
            Self::Contradicts(error) => error.fmt(f),
            Self::NotElementLists { container_type } => {
                write!(f, "dictionary: series of {container_type} instead of ELEMENT_LIST")
            }
            Self::OtherKind { kind } => write!(f, "dictionary: type {kind} in the summary"),
            Self::MissingColumn { entry, column } => write!(f, "dictionary entry {entry}: no {column}"),
            Self::BadColumn { entry, column, data_type } => {
                write!(f, "dictionary entry {entry}: {column} of type {data_type}, or out of range")
            }
            Self::UnequalColumns { entry, values, texts } => {
                write!(f, "dictionary entry {entry}: {values} values and {texts} texts")
            }
        }
    }
}

impl std::error::Error for DictionaryError {}
impl std::error::Error for DictionaryDecodeError {}

impl From<DecodeError> for DictionaryDecodeError {
    fn from(error: DecodeError) -> Self {
        DictionaryDecodeError::Decode(error)
    }
}

impl From<DictionaryError> for DictionaryDecodeError {
    fn from(error: DictionaryError) -> Self {
        DictionaryDecodeError::Contradicts(error)
    }
}

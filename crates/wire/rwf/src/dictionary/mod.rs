//! The data dictionary: which type a field has, and what an enumerated value reads as.
//!
//! It is filled from the two files of the vendor ([`Dictionary::load_fields`], [`Dictionary::load_enums`]),
//! or from the messages of the dictionary domain ([`Dictionary::decode_fields`],
//! [`Dictionary::decode_enums`]), and served by [`Dictionary::encode_fields`] and
//! [`Dictionary::encode_enums`].

mod column;
mod download;
mod error;
mod file;
mod model;
mod serve;
mod wire;

pub use download::dictionary_kind;
pub use error::{DictionaryDecodeError, DictionaryError};
pub use file::{FileError, FileErrorKind};
pub use model::{Dictionary, DictionaryInfo, EnumField, EnumTable, EnumValue, Field, FieldType};
pub use wire::{DictionaryKind, Verbosity};

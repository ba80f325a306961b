//! A JSON reader: one pass checks a whole text and writes an index of it, in which nothing is copied but
//! strings with escapes. Who reads the index can take members in any order without reading the text again.

mod scan;
mod tape;

pub(crate) use scan::{NotJson, is_value};
pub(crate) use tape::{Kind, Node, Tape};

/// How deep objects and arrays may stand inside each other. An RWF container takes up to four levels.
pub(crate) const JSON_DEPTH_MAX: u32 = 128;

/// The longest text, in bytes.
pub(crate) const TEXT_BYTES_MAX: usize = 1 << 30;

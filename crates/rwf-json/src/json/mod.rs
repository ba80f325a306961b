//! A JSON reader that checks a whole text in one pass, without recursion.

mod scan;

pub(crate) use scan::is_value;

/// How deep objects and arrays may stand inside each other. An RWF container takes up to four levels.
pub(crate) const JSON_DEPTH_MAX: u32 = 128;

/// The longest text, in bytes.
pub(crate) const TEXT_BYTES_MAX: usize = 1 << 30;

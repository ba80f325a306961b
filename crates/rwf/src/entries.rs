//! What map, vector, series and filter list have in common when read: definitions, summary, hint and count before
//! the entries, and the walk through these.

use crate::reader::Reader;
use crate::{DataType, DecodeError, Place};

/// Which flags of a head announce the parts before the entries.
pub(crate) struct HeadFlags {
    pub(crate) set_definitions: u8,
    pub(crate) summary: u8,
    pub(crate) total_count_hint: u8,
}

/// The parts of a head that stand before the entries.
pub(crate) struct Head<'a> {
    pub(crate) set_definitions: Option<&'a [u8]>,
    pub(crate) summary: Option<&'a [u8]>,
    pub(crate) total_count_hint: Option<u32>,
    pub(crate) count: u16,
    /// The bytes of the entries.
    pub(crate) entries: &'a [u8],
}

impl<'a> Head<'a> {
    /// Reads \[set definitions, summary, each behind a `u15rb` length\]; \[hint `u30rb`\]; count `u16`.
    #[inline]
    pub(crate) fn read(r: &mut Reader<'a>, flags: u8, at: &HeadFlags) -> Result<Head<'a>, DecodeError> {
        let has = |flag| flags & flag != 0;
        let set_definitions =
            if has(at.set_definitions) { Some(r.buf15(Place::SetDefinitions)?) } else { None };
        let summary = if has(at.summary) { Some(r.buf15(Place::Summary)?) } else { None };
        let total_count_hint =
            if has(at.total_count_hint) { Some(r.u30rb(Place::TotalCountHint)?) } else { None };
        let count = r.u16(Place::EntryCount)?;
        Ok(Head { set_definitions, summary, total_count_hint, count, entries: r.rest() })
    }
}

/// Entries that are still to be read.
#[derive(Clone, Debug)]
pub(crate) struct Entries<'a> {
    container_type: DataType,
    left: u16,
    reader: Reader<'a>,
}

impl<'a> Entries<'a> {
    /// `count` entries of a container whose head names `container_type`.
    #[inline]
    pub(crate) fn new(container_type: DataType, count: u16, bytes: &'a [u8]) -> Entries<'a> {
        Entries { container_type, left: count, reader: Reader::new(bytes) }
    }

    /// The next entry as `read` reads it, which is given the container type of the head; none after an error.
    #[inline]
    pub(crate) fn next<T>(
        &mut self,
        read: impl FnOnce(&mut Reader<'a>, DataType) -> Result<T, DecodeError>,
    ) -> Option<Result<T, DecodeError>> {
        self.left = self.left.checked_sub(1)?;
        let entry = read(&mut self.reader, self.container_type);
        if entry.is_err() {
            self.left = 0;
        }
        Some(entry)
    }
}

/// The permission data of an entry, if it has some.
#[inline]
pub(crate) fn permission_data<'a>(
    r: &mut Reader<'a>,
    is_there: bool,
) -> Result<Option<&'a [u8]>, DecodeError> {
    if is_there { Ok(Some(r.buf15(Place::PermissionData)?)) } else { Ok(None) }
}

/// The container of an entry, if it has one.
#[inline]
pub(crate) fn entry_data<'a>(
    r: &mut Reader<'a>,
    is_there: bool,
    place: Place,
) -> Result<Option<&'a [u8]>, DecodeError> {
    if is_there { Ok(Some(r.buf16(place)?)) } else { Ok(None) }
}

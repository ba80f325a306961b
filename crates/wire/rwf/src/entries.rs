//! What map, vector, series and filter list have in common when read: definitions, summary, hint and count before
//! the entries, and the walk through these.

use std::marker::PhantomData;

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

/// An entry of a map, vector, series or filter list.
pub trait Entry<'a>: Sized {
    /// Reads one; `container_type` is that of the head.
    fn read(r: &mut Reader<'a>, container_type: DataType) -> Result<Self, DecodeError>;
}

/// The entries of a [`Map`](crate::Map), [`Vector`](crate::Vector), [`Series`](crate::Series) or
/// [`FilterList`](crate::FilterList), in order. After an error it ends.
#[derive(Clone, Debug)]
pub struct Entries<'a, E> {
    container_type: DataType,
    left: u16,
    reader: Reader<'a>,
    entry: PhantomData<fn() -> E>,
}

impl<'a, E> Entries<'a, E> {
    /// `count` entries of a container whose head names `container_type`.
    #[inline]
    pub(crate) fn new(container_type: DataType, count: u16, bytes: &'a [u8]) -> Entries<'a, E> {
        Entries { container_type, left: count, reader: Reader::new(bytes), entry: PhantomData }
    }
}

impl<'a, E: Entry<'a>> Iterator for Entries<'a, E> {
    type Item = Result<E, DecodeError>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        self.left = self.left.checked_sub(1)?;
        let entry = E::read(&mut self.reader, self.container_type);
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

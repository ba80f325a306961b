use crate::counted::CountedWriter;
use crate::entries::{Entries, Entry, Head, HeadFlags, entry_data, permission_data};
use crate::reader::Reader;
use crate::set_def::{ElementSetDefs, FieldSetDefs, SetDefinitions};
use crate::{DataType, DecodeError, Place, Writer};

const SET_DEFINITIONS: u8 = 0x01;
const SUMMARY: u8 = 0x02;
const ENTRY_PERMISSION_DATA: u8 = 0x04;
const TOTAL_COUNT_HINT: u8 = 0x08;
const SUPPORTS_SORTING: u8 = 0x10;
const ENTRY_HAS_PERMISSION_DATA: u8 = 0x1;
const HEAD_FLAGS: HeadFlags =
    HeadFlags { set_definitions: SET_DEFINITIONS, summary: SUMMARY, total_count_hint: TOTAL_COUNT_HINT };

/// Containers by position. Only the head is checked when it is parsed.
///
/// Shape: flags `u8` (1 set definitions, 2 summary, 4 entries may have permission data, 8 total count hint,
/// 10 sortable); container type − 128 `u8`; \[set definitions, summary, each behind a `u15rb` length\];
/// \[hint `u30rb`\]; count `u16`; entries. Source: RWF 14.1, Vector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Vector<'a> {
    /// The type of what the entries hold.
    pub container_type: DataType,
    /// The set definitions as bytes; see [`Vector::field_set_defs`] and [`Vector::element_set_defs`].
    pub set_definitions: Option<&'a [u8]>,
    /// What holds for all entries, of the container type.
    pub summary: Option<&'a [u8]>,
    /// How many entries all parts together have, if known.
    pub total_count_hint: Option<u32>,
    /// Whether entries may be inserted and deleted, which moves those behind.
    pub supports_sorting: bool,
    /// Whether the head says that entries may have permission data.
    pub entry_permission_data: bool,
    count: u16,
    entries: &'a [u8],
}

/// What to do with an entry of a vector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VectorAction {
    /// Change the entry at the index.
    Update = 1,
    /// Replace the entry at the index.
    Set = 2,
    /// Empty the entry at the index. It has no data.
    Clear = 3,
    /// Insert before the index.
    Insert = 4,
    /// Remove the entry at the index. It has no data.
    Delete = 5,
}

/// One entry of a vector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VectorEntry<'a> {
    /// What to do.
    pub action: VectorAction,
    /// The position, below 2^30.
    pub index: u32,
    /// Permission data of this entry alone.
    pub permission_data: Option<&'a [u8]>,
    /// The container; `None` for clear and delete, and for containers of type `NO_DATA`.
    pub data: Option<&'a [u8]>,
}

impl VectorAction {
    fn has_data(self) -> bool {
        !matches!(self, VectorAction::Clear | VectorAction::Delete)
    }
}

impl<'a> Vector<'a> {
    /// Reads the head.
    ///
    /// # Errors
    /// [`DecodeError`] if it is cut off.
    pub fn parse(bytes: &'a [u8]) -> Result<Vector<'a>, DecodeError> {
        let mut r = Reader::new(bytes);
        let flags = r.u8(Place::Vector)?;
        let has = |flag| flags & flag != 0;
        let container_type = r.container_type(Place::Vector)?;
        let Head { set_definitions, summary, total_count_hint, count, entries } =
            Head::read(&mut r, flags, &HEAD_FLAGS)?;
        Ok(Vector {
            container_type,
            set_definitions,
            summary,
            total_count_hint,
            supports_sorting: has(SUPPORTS_SORTING),
            entry_permission_data: has(ENTRY_PERMISSION_DATA),
            count,
            entries,
        })
    }

    /// The number of entries that the head announces.
    #[must_use]
    pub fn count(&self) -> u16 {
        self.count
    }

    /// The entries.
    #[must_use]
    pub fn entries(&self) -> VectorEntries<'a> {
        Entries::new(self.container_type, self.count, self.entries)
    }

    /// The definitions for the field lists of this vector, if it has some.
    ///
    /// # Errors
    /// As [`FieldSetDefs::parse`](crate::SetDefs::parse).
    pub fn field_set_defs(&self) -> Result<Option<FieldSetDefs<'a>>, DecodeError> {
        self.set_definitions.map(FieldSetDefs::parse).transpose()
    }

    /// The definitions for the element lists of this vector, if it has some.
    ///
    /// # Errors
    /// As [`ElementSetDefs::parse`](crate::SetDefs::parse).
    pub fn element_set_defs(&self) -> Result<Option<ElementSetDefs<'a>>, DecodeError> {
        self.set_definitions.map(ElementSetDefs::parse).transpose()
    }
}

/// The entries of a [`Vector`], in order. After an error it ends.
pub type VectorEntries<'a> = Entries<'a, VectorEntry<'a>>;

impl<'a> Entry<'a> for VectorEntry<'a> {
    fn read(r: &mut Reader<'a>, container_type: DataType) -> Result<VectorEntry<'a>, DecodeError> {
        let head = r.u8(Place::VectorEntry)?;
        let action = match head & 0x0F {
            1 => VectorAction::Update,
            2 => VectorAction::Set,
            3 => VectorAction::Clear,
            4 => VectorAction::Insert,
            5 => VectorAction::Delete,
            value => {
                return Err(DecodeError::BadValue { place: Place::VectorEntry, value: value.into(), max: 5 });
            }
        };
        let index = r.u30rb(Place::VectorIndex)?;
        let permission_data = permission_data(r, (head >> 4) & ENTRY_HAS_PERMISSION_DATA != 0)?;
        let has_data = action.has_data() && container_type != DataType::NO_DATA;
        let data = entry_data(r, has_data, Place::VectorEntry)?;
        Ok(VectorEntry { action, index, permission_data, data })
    }
}

/// What a vector begins with.
#[derive(Clone, Copy, Debug)]
pub struct VectorHead<'a> {
    /// The type of what the entries hold.
    pub container_type: DataType,
    /// How many entries all parts together have; at most 2^30 − 1.
    pub total_count_hint: Option<u32>,
    /// Whether entries may be inserted and deleted.
    pub supports_sorting: bool,
    /// Definitions for the lists in summary and entries.
    pub set_definitions: Option<SetDefinitions<'a>>,
}

impl VectorHead<'_> {
    /// A head with nothing but the type.
    #[must_use]
    pub const fn new(container_type: DataType) -> Self {
        VectorHead { container_type, total_count_hint: None, supports_sorting: false, set_definitions: None }
    }
}

/// Writes summary and entries of a vector; made by [`Writer::vector`].
#[derive(Debug)]
pub struct VectorWriter<'w, 'b> {
    counted: CountedWriter<'w, 'b>,
}

impl Writer<'_> {
    /// Writes a vector. The flags follow from what is written.
    pub fn vector(&mut self, head: &VectorHead<'_>, write: impl FnOnce(&mut VectorWriter<'_, '_>)) {
        let mut counted = CountedWriter::begin(self, head.container_type, Place::Vector);
        if head.supports_sorting {
            counted.flag(SUPPORTS_SORTING);
        }
        counted.container_type();
        counted.set_definitions(SET_DEFINITIONS, head.set_definitions);
        counted.before_entries(SUMMARY, TOTAL_COUNT_HINT, head.total_count_hint);
        let mut vector = VectorWriter { counted };
        write(&mut vector);
        vector.counted.end();
    }
}

impl<'b> VectorWriter<'_, 'b> {
    /// Writes the summary data; before all entries.
    pub fn summary(&mut self, write: impl FnOnce(&mut Writer<'b>)) {
        self.counted.summary(write);
    }

    /// Writes an entry; `write` writes its container and is not called where there is none, that is for clear
    /// and delete, and in a vector of `NO_DATA`.
    pub fn entry(
        &mut self,
        action: VectorAction,
        index: u32,
        permission_data: Option<&[u8]>,
        write: impl FnOnce(&mut Writer<'b>),
    ) {
        self.counted.count_entry();
        let flags = if permission_data.is_some() { ENTRY_HAS_PERMISSION_DATA } else { 0 };
        self.counted.w.u8(flags << 4 | action as u8);
        self.counted.w.u30rb(index, Place::VectorIndex);
        self.counted.permission_data(ENTRY_PERMISSION_DATA, permission_data);
        if action.has_data() && self.counted.container_type != DataType::NO_DATA {
            self.counted.w.nested16(Place::VectorEntry, write);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{EncodeError, encode_to_vec};

    #[test]
    fn entries_come_back_with_action_and_index() {
        let head = VectorHead { supports_sorting: true, ..VectorHead::new(DataType::OPAQUE) };
        let bytes = encode_to_vec(|w| {
            w.vector(&head, |v| {
                v.entry(VectorAction::Insert, 64, None, |w| w.bytes(b"new"));
                v.entry(VectorAction::Delete, 0, Some(b"lock"), |w| w.bytes(b"never written"));
            });
        })
        .expect("legal");
        let vector = Vector::parse(&bytes).expect("legal");
        assert!(vector.supports_sorting && vector.entry_permission_data);
        let (action, data) = (VectorAction::Insert, Some(&b"new"[..]));
        let inserted = VectorEntry { action, index: 64, permission_data: None, data };
        let permission_data = Some(&b"lock"[..]);
        let deleted = VectorEntry { action: VectorAction::Delete, index: 0, permission_data, data: None };
        assert_eq!(vector.entries().collect::<Result<Vec<_>, _>>(), Ok(vec![inserted, deleted]));
    }

    #[test]
    fn an_index_above_thirty_bits_is_refused() {
        let head = VectorHead::new(DataType::NO_DATA);
        let refused =
            encode_to_vec(|w| w.vector(&head, |v| v.entry(VectorAction::Set, 1 << 30, None, |_| ())));
        let (value, max) = (1 << 30, (1 << 30) - 1);
        assert_eq!(refused, Err(EncodeError::BadValue { place: Place::VectorIndex, value, max }));
    }
}

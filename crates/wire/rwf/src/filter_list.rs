use crate::entries::{Entries, Entry, entry_data, permission_data};
use crate::reader::Reader;
use crate::{DataType, DecodeError, Place, Writer};

const ENTRY_PERMISSION_DATA: u8 = 0x01;
const TOTAL_COUNT_HINT: u8 = 0x02;
const ENTRY_HAS_PERMISSION_DATA: u8 = 0x1;
const ENTRY_HAS_CONTAINER_TYPE: u8 = 0x2;

/// Containers by a small number: the aspects of a service in the source directory. Only the head is checked
/// when it is parsed.
///
/// Shape: flags `u8` (1 entries may have permission data, 2 total count hint); container type − 128 `u8`;
/// \[hint `u8`\]; count `u8`; entries. Source: RWF 14.1, FilterList.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FilterList<'a> {
    /// The type of entries that do not name one.
    pub container_type: DataType,
    /// How many entries all parts together have, if known.
    pub total_count_hint: Option<u8>,
    /// Whether the head says that entries may have permission data.
    pub entry_permission_data: bool,
    count: u8,
    entries: &'a [u8],
}

/// What to do with an entry of a filter list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FilterAction {
    /// Change the entry of that id.
    Update = 1,
    /// Replace the entry of that id.
    Set = 2,
    /// Empty the entry of that id. It has no data.
    Clear = 3,
}

/// One entry of a filter list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FilterEntry<'a> {
    /// What to do.
    pub action: FilterAction,
    /// The number of the aspect.
    pub id: u8,
    /// The type if the entry names one; see [`FilterEntry::container_type`].
    pub explicit_type: Option<DataType>,
    /// The type that holds for this entry.
    pub container_type: DataType,
    /// Permission data of this entry alone.
    pub permission_data: Option<&'a [u8]>,
    /// The container; `None` for a clear and for containers of type `NO_DATA`.
    pub data: Option<&'a [u8]>,
}

impl<'a> FilterList<'a> {
    /// Reads the head.
    ///
    /// # Errors
    /// [`DecodeError`] if it is cut off.
    pub fn parse(bytes: &'a [u8]) -> Result<FilterList<'a>, DecodeError> {
        let mut r = Reader::new(bytes);
        let flags = r.u8(Place::FilterList)?;
        let container_type = r.container_type(Place::FilterList)?;
        let hinted = flags & TOTAL_COUNT_HINT != 0;
        let total_count_hint = if hinted { Some(r.u8(Place::TotalCountHint)?) } else { None };
        let count = r.u8(Place::EntryCount)?;
        let entry_permission_data = flags & ENTRY_PERMISSION_DATA != 0;
        Ok(FilterList { container_type, total_count_hint, entry_permission_data, count, entries: r.rest() })
    }

    /// The number of entries that the head announces.
    #[must_use]
    pub fn count(&self) -> u8 {
        self.count
    }

    /// The entries.
    #[must_use]
    pub fn entries(&self) -> FilterEntries<'a> {
        Entries::new(self.container_type, self.count.into(), self.entries)
    }
}

/// The entries of a [`FilterList`], in order. After an error it ends.
pub type FilterEntries<'a> = Entries<'a, FilterEntry<'a>>;

impl<'a> Entry<'a> for FilterEntry<'a> {
    /// `of_the_list`: the container type of an entry that names none.
    fn read(r: &mut Reader<'a>, of_the_list: DataType) -> Result<FilterEntry<'a>, DecodeError> {
        let [head, id] = *r.chunk(Place::FilterEntry)?;
        let action = match head & 0x0F {
            1 => FilterAction::Update,
            2 => FilterAction::Set,
            3 => FilterAction::Clear,
            value => {
                return Err(DecodeError::BadValue { place: Place::FilterEntry, value: value.into(), max: 3 });
            }
        };
        let has = |flag| (head >> 4) & flag != 0;
        let typed = has(ENTRY_HAS_CONTAINER_TYPE);
        let explicit_type = if typed { Some(r.container_type(Place::FilterEntry)?) } else { None };
        let container_type = explicit_type.unwrap_or(of_the_list);
        let permission_data = permission_data(r, has(ENTRY_HAS_PERMISSION_DATA))?;
        let has_data = action != FilterAction::Clear && container_type != DataType::NO_DATA;
        let data = entry_data(r, has_data, Place::FilterEntry)?;
        Ok(FilterEntry { action, id, explicit_type, container_type, permission_data, data })
    }
}

/// Writes the entries of a filter list; made by [`Writer::filter_list`].
#[derive(Debug)]
pub struct FilterListWriter<'w, 'b> {
    w: &'w mut Writer<'b>,
    container_type: DataType,
    flags: u8,
    count: usize,
}

impl Writer<'_> {
    /// Writes a filter list whose entries are of `container_type` unless they name another.
    pub fn filter_list(
        &mut self,
        container_type: DataType,
        total_count_hint: Option<u8>,
        write: impl FnOnce(&mut FilterListWriter<'_, '_>),
    ) {
        let flags_at = self.len();
        self.u8(0);
        self.container_type(container_type, Place::FilterList);
        if let Some(hint) = total_count_hint {
            self.u8(hint);
        }
        let count_at = self.len();
        self.u8(0);
        let flags = if total_count_hint.is_some() { TOTAL_COUNT_HINT } else { 0 };
        let mut filters = FilterListWriter { w: self, container_type, flags, count: 0 };
        write(&mut filters);
        let FilterListWriter { flags, count, .. } = filters;
        self.limit(count, u8::MAX.into(), Place::EntryCount);
        self.patch(count_at, [count as u8]);
        self.patch(flags_at, [flags]);
    }
}

impl<'b> FilterListWriter<'_, 'b> {
    /// Writes an entry of the list's type; `write` is not called for a clear, nor if the type is `NO_DATA`.
    pub fn entry(&mut self, action: FilterAction, id: u8, write: impl FnOnce(&mut Writer<'b>)) {
        self.entry_with(action, id, None, None, write);
    }

    /// Writes an entry that names its own type, or has permission data.
    pub fn entry_with(
        &mut self,
        action: FilterAction,
        id: u8,
        explicit_type: Option<DataType>,
        permission_data: Option<&[u8]>,
        write: impl FnOnce(&mut Writer<'b>),
    ) {
        self.count += 1;
        let permission = if permission_data.is_some() { ENTRY_HAS_PERMISSION_DATA } else { 0 };
        let typed = if explicit_type.is_some() { ENTRY_HAS_CONTAINER_TYPE } else { 0 };
        self.w.chunk([(permission | typed) << 4 | action as u8, id], 2);
        if let Some(explicit_type) = explicit_type {
            self.w.container_type(explicit_type, Place::FilterEntry);
        }
        if let Some(data) = permission_data {
            self.flags |= ENTRY_PERMISSION_DATA;
            self.w.buf15(data, Place::PermissionData);
        }
        let container_type = explicit_type.unwrap_or(self.container_type);
        if action != FilterAction::Clear && container_type != DataType::NO_DATA {
            self.w.nested16(Place::FilterEntry, write);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{EncodeError, encode_to_vec};

    #[test]
    fn an_entry_has_its_own_type_or_that_of_the_list() {
        let bytes = encode_to_vec(|w| {
            w.filter_list(DataType::ELEMENT_LIST, Some(7), |f| {
                f.entry(FilterAction::Set, 1, |w| w.element_list(|e| e.put("Name", 1u64)));
                f.entry_with(FilterAction::Update, 6, Some(DataType::MAP), Some(b"lock"), |_| ());
                f.entry(FilterAction::Clear, 4, |w| w.bytes(b"never written"));
            });
        })
        .expect("legal");
        let list = FilterList::parse(&bytes).expect("legal");
        assert_eq!((list.count(), list.total_count_hint, list.entry_permission_data), (3, Some(7), true));
        let entries: Vec<_> = list.entries().collect::<Result<_, _>>().expect("whole");
        assert_eq!(entries.iter().map(|e| e.container_type.0).collect::<Vec<_>>(), [133, 137, 133]);
        assert_eq!(
            entries.iter().map(|e| e.data.map(<[u8]>::len)).collect::<Vec<_>>(),
            [Some(11), Some(0), None]
        );
    }

    #[test]
    fn more_entries_than_a_byte_counts_are_refused() {
        let list = |n| {
            encode_to_vec(|w| {
                w.filter_list(DataType::NO_DATA, None, |f| {
                    (0..n).for_each(|_| f.entry(FilterAction::Set, 0, |_| ()));
                });
            })
        };
        assert!(list(255).is_ok());
        assert_eq!(list(256), Err(EncodeError::TooLong { place: Place::EntryCount, length: 256, max: 255 }));
    }
}

use crate::counted::CountedWriter;
use crate::entries::{Entries, Entry, Head, HeadFlags, entry_data, permission_data};
use crate::primitive::Primitive;
use crate::reader::Reader;
use crate::set_def::{ElementSetDefs, FieldSetDefs, SetDefinitions};
use crate::{DataType, DecodeError, EncodeError, Place, Writer};

const SET_DEFINITIONS: u8 = 0x01;
const SUMMARY: u8 = 0x02;
const ENTRY_PERMISSION_DATA: u8 = 0x04;
const TOTAL_COUNT_HINT: u8 = 0x08;
const KEY_FIELD_ID: u8 = 0x10;
const ENTRY_HAS_PERMISSION_DATA: u8 = 0x1;
const HEAD_FLAGS: HeadFlags =
    HeadFlags { set_definitions: SET_DEFINITIONS, summary: SUMMARY, total_count_hint: TOTAL_COUNT_HINT };

/// Containers by key: order books, symbol lists, the source directory. Only the head is checked when it is
/// parsed.
///
/// Shape: flags `u8` (1 set definitions, 2 summary, 4 entries may have permission data, 8 total count hint,
/// 10 key field id); key type `u8`; container type − 128 `u8`; \[key field id `i16`\]; \[set definitions,
/// summary, each behind a `u15rb` length\]; \[hint `u30rb`\]; count `u16`; entries. Source: RWF 14.1, Map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Map<'a> {
    /// The type of the keys, a primitive.
    pub key_type: DataType,
    /// The type of what the entries hold.
    pub container_type: DataType,
    /// The field that the key is, if it is one.
    pub key_field_id: Option<i16>,
    /// The set definitions as bytes; see [`Map::field_set_defs`] and [`Map::element_set_defs`].
    pub set_definitions: Option<&'a [u8]>,
    /// What holds for all entries, of the container type.
    pub summary: Option<&'a [u8]>,
    /// How many entries all parts together have, if known.
    pub total_count_hint: Option<u32>,
    /// Whether the head says that entries may have permission data.
    pub entry_permission_data: bool,
    count: u16,
    entries: &'a [u8],
}

/// What to do with an entry of a map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MapAction {
    /// Change the entry of that key.
    Update = 1,
    /// Add an entry, or replace the one of that key.
    Add = 2,
    /// Remove the entry of that key. It has no data.
    Delete = 3,
}

/// One entry of a map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MapEntry<'a> {
    /// What to do.
    pub action: MapAction,
    /// Permission data of this entry alone.
    pub permission_data: Option<&'a [u8]>,
    /// The content of the key.
    pub key: &'a [u8],
    /// The container; `None` for a delete and for containers of type `NO_DATA`.
    pub data: Option<&'a [u8]>,
}

impl<'a> Map<'a> {
    /// Reads the head.
    ///
    /// # Errors
    /// [`DecodeError`] if it is cut off, or the key type is no primitive.
    pub fn parse(bytes: &'a [u8]) -> Result<Map<'a>, DecodeError> {
        let mut r = Reader::new(bytes);
        let flags = r.u8(Place::Map)?;
        let has = |flag| flags & flag != 0;
        let key_type = DataType(r.u8(Place::MapKey)?);
        if !key_type.is_primitive() || key_type == DataType::ARRAY {
            return Err(DecodeError::BadType { place: Place::MapKey, data_type: key_type });
        }
        let container_type = r.container_type(Place::Map)?;
        let key_field_id = if has(KEY_FIELD_ID) { Some(r.i16(Place::MapKey)?) } else { None };
        let Head { set_definitions, summary, total_count_hint, count, entries } =
            Head::read(&mut r, flags, &HEAD_FLAGS)?;
        Ok(Map {
            key_type,
            container_type,
            key_field_id,
            set_definitions,
            summary,
            total_count_hint,
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
    pub fn entries(&self) -> MapEntries<'a> {
        Entries::new(self.container_type, self.count, self.entries)
    }

    /// The definitions for the field lists of this map, if it has some.
    ///
    /// # Errors
    /// As [`FieldSetDefs::parse`](crate::SetDefs::parse).
    pub fn field_set_defs(&self) -> Result<Option<FieldSetDefs<'a>>, DecodeError> {
        self.set_definitions.map(FieldSetDefs::parse).transpose()
    }

    /// The definitions for the element lists of this map, if it has some.
    ///
    /// # Errors
    /// As [`ElementSetDefs::parse`](crate::SetDefs::parse).
    pub fn element_set_defs(&self) -> Result<Option<ElementSetDefs<'a>>, DecodeError> {
        self.set_definitions.map(ElementSetDefs::parse).transpose()
    }
}

/// The entries of a [`Map`], in order. After an error it ends.
pub type MapEntries<'a> = Entries<'a, MapEntry<'a>>;

impl<'a> Entry<'a> for MapEntry<'a> {
    #[inline]
    fn read(r: &mut Reader<'a>, container_type: DataType) -> Result<MapEntry<'a>, DecodeError> {
        let head = r.u8(Place::MapEntry)?;
        let action = match head & 0x0F {
            1 => MapAction::Update,
            2 => MapAction::Add,
            3 => MapAction::Delete,
            value => {
                return Err(DecodeError::BadValue { place: Place::MapEntry, value: value.into(), max: 3 });
            }
        };
        let permission_data = permission_data(r, (head >> 4) & ENTRY_HAS_PERMISSION_DATA != 0)?;
        let key = r.buf15(Place::MapKey)?;
        let has_data = action != MapAction::Delete && container_type != DataType::NO_DATA;
        let data = entry_data(r, has_data, Place::MapEntry)?;
        Ok(MapEntry { action, permission_data, key, data })
    }
}

/// What a map begins with.
#[derive(Clone, Copy, Debug)]
pub struct MapHead<'a> {
    /// The type of the keys.
    pub key_type: DataType,
    /// The type of what the entries hold.
    pub container_type: DataType,
    /// The field that the key is.
    pub key_field_id: Option<i16>,
    /// How many entries all parts together have; at most 2^30 − 1.
    pub total_count_hint: Option<u32>,
    /// Definitions for the lists in summary and entries.
    pub set_definitions: Option<SetDefinitions<'a>>,
}

impl MapHead<'_> {
    /// A head with nothing but the types.
    #[must_use]
    pub const fn new(key_type: DataType, container_type: DataType) -> Self {
        MapHead {
            key_type,
            container_type,
            key_field_id: None,
            total_count_hint: None,
            set_definitions: None,
        }
    }
}

/// Writes summary and entries of a map; made by [`Writer::map`].
#[derive(Debug)]
pub struct MapWriter<'w, 'b> {
    counted: CountedWriter<'w, 'b>,
    key_type: DataType,
}

impl Writer<'_> {
    /// Writes a map. The flags follow from what is written.
    pub fn map(&mut self, head: &MapHead<'_>, write: impl FnOnce(&mut MapWriter<'_, '_>)) {
        if !head.key_type.is_primitive() || head.key_type == DataType::ARRAY {
            self.fail(EncodeError::BadType { place: Place::MapKey, data_type: head.key_type });
        }
        let mut counted = CountedWriter::begin(self, head.container_type, Place::Map);
        counted.w.u8(head.key_type.0);
        counted.container_type();
        if let Some(id) = head.key_field_id {
            counted.flag(KEY_FIELD_ID);
            counted.w.i16(id);
        }
        counted.set_definitions(SET_DEFINITIONS, head.set_definitions);
        counted.before_entries(SUMMARY, TOTAL_COUNT_HINT, head.total_count_hint);
        let mut map = MapWriter { counted, key_type: head.key_type };
        write(&mut map);
        map.counted.end();
    }
}

impl<'b> MapWriter<'_, 'b> {
    /// Writes the summary data; before all entries.
    pub fn summary(&mut self, write: impl FnOnce(&mut Writer<'b>)) {
        self.counted.summary(write);
    }

    /// Writes an entry; `write` writes its container and is not called where there is none, that is for a
    /// delete and in a map of `NO_DATA`.
    #[inline]
    pub fn entry(
        &mut self,
        action: MapAction,
        key: impl Primitive,
        permission_data: Option<&[u8]>,
        write: impl FnOnce(&mut Writer<'b>),
    ) {
        let (given, wanted) = (key.data_type(), self.key_type);
        if given != wanted {
            self.counted.w.fail(EncodeError::OtherType { place: Place::MapKey, given, wanted });
        }
        if key.content_len() == 0 {
            self.counted.w.fail(EncodeError::Blank { place: Place::MapKey });
        }
        self.counted.count_entry();
        let flags = if permission_data.is_some() { ENTRY_HAS_PERMISSION_DATA } else { 0 };
        self.counted.w.u8(flags << 4 | action as u8);
        self.counted.permission_data(ENTRY_PERMISSION_DATA, permission_data);
        self.counted.w.nested15(Place::MapKey, |w| key.put_content(w));
        if action != MapAction::Delete && self.counted.container_type != DataType::NO_DATA {
            self.counted.w.nested16(Place::MapEntry, write);
        }
    }

    /// Writes an entry that removes the one of this key.
    pub fn delete(&mut self, key: impl Primitive) {
        self.entry(MapAction::Delete, key, None, |_| ());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{AsciiString, Real, encode_to_vec};

    const HEAD: MapHead<'static> = MapHead::new(DataType::ASCII_STRING, DataType::FIELD_LIST);

    #[test]
    fn entries_come_back_with_action_key_and_data() {
        let bytes = encode_to_vec(|w| {
            w.map(&MapHead { total_count_hint: Some(3), key_field_id: Some(-1), ..HEAD }, |m| {
                m.summary(|w| w.field_list(|f| f.put(15, Real::decimal(1, 0))));
                m.entry(MapAction::Add, AsciiString(b"A"), Some(b"lock"), |w| w.field_list(|f| f.blank(22)));
                m.delete(AsciiString(b"B"));
            });
        })
        .expect("legal");
        let map = Map::parse(&bytes).expect("legal");
        assert_eq!((map.count(), map.total_count_hint, map.key_field_id), (2, Some(3), Some(-1)));
        assert!(map.summary.is_some() && map.entry_permission_data);
        let entries: Result<Vec<_>, _> = map.entries().collect();
        let (action, permission_data) = (MapAction::Add, Some(&b"lock"[..]));
        let added = MapEntry { action, permission_data, key: b"A", data: Some(&[8, 0, 1, 0, 22, 0]) };
        let deleted = MapEntry { action: MapAction::Delete, permission_data: None, key: b"B", data: None };
        assert_eq!(entries, Ok(vec![added, deleted]));
    }

    #[test]
    fn keys_that_are_blank_or_of_another_type_are_refused() {
        let key = |key: Option<AsciiString<'_>>| encode_to_vec(|w| w.map(&HEAD, |m| m.delete(key)));
        assert_eq!(key(None), Err(EncodeError::Blank { place: Place::MapKey }));
        let other = encode_to_vec(|w| w.map(&HEAD, |m| m.delete(1u64)));
        let (given, wanted) = (DataType::UINT, DataType::ASCII_STRING);
        assert_eq!(other, Err(EncodeError::OtherType { place: Place::MapKey, given, wanted }));
    }

    #[test]
    fn a_summary_behind_an_entry_is_refused() {
        let late = encode_to_vec(|w| {
            w.map(&HEAD, |m| {
                m.delete(AsciiString(b"A"));
                m.summary(|w| w.field_list(|_| ()));
            });
        });
        assert_eq!(late, Err(EncodeError::OutOfOrder { place: Place::Summary }));
    }

    #[test]
    fn an_action_that_does_not_exist_ends_the_entries_with_an_error() {
        let map = Map::parse(&[0, 17, 4, 0, 2, 4, 1, b'A', 0]).expect("legal head");
        let entries: Vec<_> = map.entries().collect();
        assert_eq!(entries, [Err(DecodeError::BadValue { place: Place::MapEntry, value: 4, max: 3 })]);
    }
}

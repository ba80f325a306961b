use std::collections::BTreeMap;
use std::ops::Bound;

use rwf::{DataType, DecodeError, Encoded, Map, MapAction, MapEntry, MapHead, Place, Writer};

use super::definitions::Definitions;
use super::entry::{CONTAINER_HEAD_BYTES_MAX, Change, Entry, PartRoom, Summary, hint};
use super::{Context, Image};

/// A map of containers (or of nothing) by key: order books, symbol lists.
///
/// Entries are kept in the order of their keys' bytes. Add replaces an entry, update merges into it, delete
/// removes it.
#[derive(Clone, Debug)]
pub struct MapImage {
    key_type: DataType,
    container_type: DataType,
    key_field_id: Option<i16>,
    summary: Summary,
    entries: BTreeMap<Box<[u8]>, Entry>,
    /// See [`Image::bound_bytes`].
    entries_bound_bytes: usize,
}

/// The longest key that a map message can hold.
const KEY_BYTES_MAX: u32 = 0x7FFF;

impl MapImage {
    pub(super) fn begin(map: &Map<'_>) -> MapImage {
        MapImage {
            key_type: map.key_type,
            container_type: map.container_type,
            key_field_id: map.key_field_id,
            summary: Summary::default(),
            entries: BTreeMap::new(),
            entries_bound_bytes: 0,
        }
    }

    /// Applies summary and entries of a part of a refresh, or of an update. Returns whether all of it could
    /// be merged.
    ///
    /// # Errors
    /// The map is malformed, of other keys or containers than this one, or makes an entry larger than one can
    /// be; what stood before the fault is applied.
    pub(super) fn apply(&mut self, map: &Map<'_>, context: &Context<'_>) -> Result<bool, DecodeError> {
        if map.key_type != self.key_type {
            return Err(DecodeError::BadType { place: Place::MapKey, data_type: map.key_type });
        }
        if self.container_type == DataType::NO_DATA {
            self.container_type = map.container_type;
        }
        if map.container_type != self.container_type && map.container_type != DataType::NO_DATA {
            return Err(DecodeError::BadType { place: Place::Map, data_type: map.container_type });
        }
        let definitions = Definitions::read(map.container_type, map.set_definitions)?;
        let inner = context.inside(&definitions);
        let mut is_merged = self.summary.apply(map.container_type, map.summary, &inner)?;
        for entry in map.entries() {
            is_merged &= self.apply_entry(&entry?, map.container_type, &inner)?;
        }
        Ok(is_merged)
    }

    fn apply_entry(
        &mut self,
        entry: &MapEntry<'_>,
        container_type: DataType,
        context: &Context<'_>,
    ) -> Result<bool, DecodeError> {
        if entry.key.is_empty() {
            // It can be read, but not be written for a client.
            return Err(DecodeError::BadLength { place: Place::MapKey, length: 0, max: KEY_BYTES_MAX });
        }
        if entry.action == MapAction::Delete {
            let gone = self.entries.remove(entry.key);
            self.entries_bound_bytes -= gone.map_or(0, |gone| entry.key.len() + gone.bound_bytes());
            return Ok(true);
        }
        if !self.entries.contains_key(entry.key) {
            let new = Entry::default();
            self.entries_bound_bytes += entry.key.len() + new.bound_bytes();
            self.entries.insert(entry.key.into(), new);
        }
        let kept = self.entries.get_mut(entry.key).expect("it was just put there");
        let change = Change {
            place: Place::MapEntry,
            is_whole: entry.action == MapAction::Add,
            container_type,
            data: entry.data,
            permission_data: entry.permission_data,
        };
        let before = kept.bound_bytes();
        let result = kept.apply(&change, context);
        self.entries_bound_bytes = self.entries_bound_bytes + kept.bound_bytes() - before;
        result
    }

    /// How many entries there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The type of the keys.
    #[must_use]
    pub fn key_type(&self) -> DataType {
        self.key_type
    }

    /// Content of the key and of each entry, in the order of the keys' bytes.
    pub fn entries(&self) -> impl Iterator<Item = (&[u8], &Image)> {
        self.entries.iter().map(|(key, entry)| (&**key, &entry.content))
    }

    /// What the entry of a key holds.
    #[must_use]
    pub fn entry(&self, key: &[u8]) -> Option<&Image> {
        self.entries.get(key).map(|entry| &entry.content)
    }

    /// Writes a map from the entry `from` on (`None`: the beginning, with the summary) until about
    /// `part_bytes` are written. Returns the key of the entry that did not fit, if there is one.
    pub(super) fn write(&self, from: Option<&[u8]>, part_bytes: usize, w: &mut Writer<'_>) -> Option<&[u8]> {
        let is_first = from.is_none();
        let head = MapHead {
            key_field_id: self.key_field_id,
            total_count_hint: is_first.then(|| hint(self.entries.len())),
            ..MapHead::new(self.key_type, self.container_type)
        };
        let start = from.map_or(Bound::Unbounded, Bound::Included);
        let rest = self.entries.range::<[u8], _>((start, Bound::Unbounded));
        let (mut room, mut next) = (PartRoom::new(part_bytes), None);
        w.map(&head, |m| {
            if let (true, Some(summary)) = (is_first, self.summary.get()) {
                m.summary(|w| summary.write_inside(self.container_type, w));
            }
            for (key, entry) in rest {
                if !room.takes(key.len() + entry.wire_bytes()) {
                    next = Some(&**key);
                    break;
                }
                let key = Encoded { data_type: self.key_type, content: key };
                let write = |w: &mut Writer<'_>| entry.content.write_inside(self.container_type, w);
                m.entry(MapAction::Add, key, entry.permission_data.as_deref(), write);
            }
        });
        next
    }

    /// What entries hold.
    pub(crate) fn container_type(&self) -> DataType {
        self.container_type
    }

    /// At most so many bytes take an entry and its key, or the key alone if there is none.
    pub(crate) fn bytes_of(&self, key: &[u8]) -> usize {
        key.len() + self.entries.get(key).map_or(0, Entry::wire_bytes)
    }

    /// Writes a map of some entries, each as it is now, or deleted if it is not there; with the summary if it is
    /// wanted.
    pub(crate) fn write_some<'k>(
        &self,
        w: &mut Writer<'_>,
        has_summary: bool,
        entries: impl Iterator<Item = (&'k [u8], MapAction)>,
    ) {
        let head =
            MapHead { key_field_id: self.key_field_id, ..MapHead::new(self.key_type, self.container_type) };
        w.map(&head, |m| {
            if let (true, Some(summary)) = (has_summary, self.summary.get()) {
                m.summary(|w| summary.write_inside(self.container_type, w));
            }
            for (key, action) in entries {
                let content = Encoded { data_type: self.key_type, content: key };
                let Some(entry) = self.entries.get(key) else {
                    m.delete(content);
                    continue;
                };
                let write = |w: &mut Writer<'_>| entry.content.write_inside(self.container_type, w);
                m.entry(action, content, entry.permission_data.as_deref(), write);
            }
        });
    }

    /// See [`Image::bound_bytes`].
    pub(super) fn bound_bytes(&self) -> usize {
        CONTAINER_HEAD_BYTES_MAX + self.summary.bound_bytes() + self.entries_bound_bytes
    }

    /// See [`Image::wire_bytes`].
    pub(super) fn wire_bytes(&self) -> usize {
        let entries: usize = self.entries.iter().map(|(key, entry)| key.len() + entry.wire_bytes()).sum();
        CONTAINER_HEAD_BYTES_MAX + self.summary.wire_bytes() + entries
    }

    /// Bytes held, about.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        let entries: usize = self.entries.iter().map(|(key, entry)| key.len() + entry.memory_bytes()).sum();
        size_of::<MapImage>() + self.summary.memory_bytes() + entries
    }
}

#[cfg(test)]
mod tests {
    use rwf::{
        AsciiString, Buffer, FieldListHead, FieldSetDef, FieldSetEntry, MapWriter, Real, SetDefinitions,
        SetHead, encode_to_vec,
    };

    use super::super::FieldRules;
    use super::*;

    const HEAD: MapHead<'static> = MapHead::new(DataType::BUFFER, DataType::FIELD_LIST);

    fn map(head: &MapHead<'_>, write: impl Fn(&mut MapWriter<'_, '_>)) -> Vec<u8> {
        encode_to_vec(|w| w.map(head, |m| write(m))).expect("legal")
    }

    fn put(m: &mut MapWriter<'_, '_>, action: MapAction, key: &[u8], fields: &[(i16, i64)]) {
        m.entry(action, Buffer(key), None, |w| {
            w.field_list(|f| fields.iter().for_each(|&(id, value)| f.put(id, Real::decimal(value, 0))));
        });
    }

    fn image_of(bytes: &[u8]) -> MapImage {
        let mut image = MapImage::begin(&Map::parse(bytes).expect("legal"));
        apply(&mut image, bytes);
        image
    }

    fn try_apply(image: &mut MapImage, bytes: &[u8]) -> Result<bool, DecodeError> {
        let rules = FieldRules::default();
        image.apply(&Map::parse(bytes).expect("legal head"), &Context::of_refresh(&rules))
    }

    fn apply(image: &mut MapImage, bytes: &[u8]) {
        assert_eq!(try_apply(image, bytes), Ok(true));
    }

    fn whole(image: &MapImage) -> Vec<u8> {
        encode_to_vec(|w| assert_eq!(image.write(None, usize::MAX, w), None)).expect("legal")
    }

    #[test]
    fn entries_are_added_merged_and_deleted_by_key() {
        let mut image = image_of(&map(&HEAD, |m| {
            m.summary(|w| w.field_list(|f| f.put(15, Real::decimal(1, 0))));
            put(m, MapAction::Add, b"b", &[(1, 10), (2, 20)]);
            put(m, MapAction::Add, b"a", &[(1, 11)]);
        }));
        apply(
            &mut image,
            &map(&HEAD, |m| {
                put(m, MapAction::Update, b"b", &[(2, 21)]);
                put(m, MapAction::Update, b"new", &[(1, 5)]);
                m.delete(Buffer(b"a"));
                m.delete(Buffer(b"never there"));
            }),
        );
        apply(&mut image, &map(&HEAD, |m| put(m, MapAction::Add, b"new", &[(2, 6)])));
        let expected = map(&MapHead { total_count_hint: Some(2), ..HEAD }, |m| {
            m.summary(|w| w.field_list(|f| f.put(15, Real::decimal(1, 0))));
            put(m, MapAction::Add, b"b", &[(1, 10), (2, 21)]);
            put(m, MapAction::Add, b"new", &[(2, 6)]);
        });
        assert_eq!(whole(&image), expected);
    }

    #[test]
    fn set_data_is_kept_as_ordinary_fields() {
        let entries = [
            FieldSetEntry { id: 22, data_type: DataType::REAL_4RB },
            FieldSetEntry { id: 25, data_type: DataType::INT_8 },
        ];
        let defs = [FieldSetDef { id: 0, entries: &entries }];
        let bytes = map(&MapHead { set_definitions: Some(SetDefinitions::Fields(&defs)), ..HEAD }, |m| {
            m.entry(MapAction::Add, Buffer(b"k"), None, |w| {
                let set = Some(SetHead { explicit_id: None, entries: &entries });
                w.field_list_with(&FieldListHead { info: None, set }, |f| {
                    f.put_set(Real::decimal(100, 2));
                    f.put_set(300i64);
                });
            });
        });
        let image = image_of(&bytes);
        let entry = image.entry(b"k").expect("it was added");
        let fields: Vec<_> =
            entry.fields().expect("a field list").entries().map(|(id, c)| (id, c.to_vec())).collect();
        assert_eq!(
            fields,
            [(22, vec![12, 100]), (25, vec![1, 44])],
            "shortest contents, without ids in front"
        );
    }

    #[test]
    fn a_large_map_is_cut_between_entries_and_comes_back_whole() {
        let image = image_of(&map(&HEAD, |m| {
            for i in 0..500u16 {
                put(m, MapAction::Add, &i.to_be_bytes(), &[(1, i.into())]);
            }
        }));
        let (mut from, mut parts, mut again) = (None::<Box<[u8]>>, 0, None::<MapImage>);
        loop {
            let mut next = None;
            let bytes = encode_to_vec(|w| {
                next = image.write(from.as_deref(), 1000, w).map(Into::into);
            })
            .expect("legal");
            parts += 1;
            assert!(bytes.len() < 1200, "{}", bytes.len());
            match &mut again {
                None => again = Some(image_of(&bytes)),
                Some(again) => apply(again, &bytes),
            }
            let Some(next) = next else { break };
            from = Some(next);
        }
        assert!(parts > 10, "{parts}");
        assert_eq!(whole(&again.expect("one part at least")), whole(&image));
    }

    #[test]
    fn a_symbol_list_has_keys_alone() {
        let head = MapHead::new(DataType::ASCII_STRING, DataType::NO_DATA);
        let mut image = image_of(&map(&head, |m| {
            for name in [&b"IBM"[..], b"MSFT"] {
                m.entry(MapAction::Add, AsciiString(name), None, |_| ());
            }
        }));
        apply(&mut image, &map(&head, |m| m.delete(AsciiString(b"IBM"))));
        assert_eq!((image.len(), image.entry(b"MSFT").is_some()), (1, true));
    }

    #[test]
    fn a_key_without_content_is_refused_since_no_client_could_be_told() {
        let mut image = image_of(&map(&HEAD, |m| put(m, MapAction::Add, b"A", &[(22, 1)])));
        let mut bytes = map(&HEAD, |m| put(m, MapAction::Add, b"B", &[(22, 2)]));
        let key_at = bytes.windows(2).position(|pair| pair == b"\x01B").expect("the key is there");
        bytes.splice(key_at..key_at + 2, [0]);
        let refused = try_apply(&mut image, &bytes);
        let blank = DecodeError::BadLength { place: Place::MapKey, length: 0, max: 0x7FFF };
        assert_eq!((refused, image.len()), (Err(blank), 1));
    }

    #[test]
    fn what_could_not_be_written_again_is_refused() {
        let mut image = image_of(&map(&HEAD, |m| put(m, MapAction::Add, b"k", &[(1, 1)])));
        let long = [b'x'; 20_000];
        let results: Vec<_> = (1..=4)
            .map(|id| {
                let bytes = map(&HEAD, |m| {
                    let entry = |w: &mut Writer<'_>| w.field_list(|f| f.put(id, AsciiString(&long)));
                    m.entry(MapAction::Update, Buffer(b"k"), None, entry);
                });
                try_apply(&mut image, &bytes).is_ok()
            })
            .collect();
        assert_eq!(results, [true, true, true, false]);
        let bytes = map(&HEAD, |m| {
            m.summary(|w| w.field_list(|f| f.put(1, AsciiString(&long))));
        });
        try_apply(&mut image, &bytes).expect("short enough");
        let bytes = map(&HEAD, |m| {
            m.summary(|w| w.field_list(|f| f.put(2, AsciiString(&long))));
        });
        let refused = try_apply(&mut image, &bytes);
        assert!(matches!(refused, Err(DecodeError::BadLength { place: Place::Summary, .. })), "{refused:?}");
    }

    #[test]
    fn other_keys_and_other_containers_are_refused_and_deletes_need_none() {
        let mut image = image_of(&map(&HEAD, |m| put(m, MapAction::Add, b"k", &[(1, 1)])));
        let by_name = MapHead::new(DataType::ASCII_STRING, DataType::FIELD_LIST);
        let of_elements = MapHead::new(DataType::BUFFER, DataType::ELEMENT_LIST);
        for (head, place) in [(by_name, Place::MapKey), (of_elements, Place::Map)] {
            let bytes = map(&head, |_| ());
            let refused = try_apply(&mut image, &bytes);
            assert!(
                matches!(refused, Err(DecodeError::BadType { place: p, .. }) if p == place),
                "{refused:?}"
            );
        }
        let without = MapHead::new(DataType::BUFFER, DataType::NO_DATA);
        apply(&mut image, &map(&without, |m| m.delete(Buffer(b"k"))));
        assert!(image.is_empty());
    }
}

use std::collections::BTreeMap;
use std::ops::Bound;

use rwf::{
    DataType, DecodeError, Encoded, FieldList, FieldSetDefs, Map, MapAction, MapEntry, MapHead, Place, Writer,
};

use super::{FieldImage, FieldRules};

/// A map of field lists (or of nothing) by key: order books, symbol lists.
///
/// Entries are kept in the order of their keys' bytes. Add replaces an entry, update merges into it, delete
/// removes it.
#[derive(Clone, Debug)]
pub struct MapImage {
    key_type: DataType,
    container_type: DataType,
    key_field_id: Option<i16>,
    summary: FieldImage,
    has_summary: bool,
    entries: BTreeMap<Box<[u8]>, Entry>,
}

#[derive(Clone, Debug, Default)]
struct Entry {
    fields: FieldImage,
    permission_data: Option<Box<[u8]>>,
}

/// The longest key that a map message can hold.
const KEY_BYTES_MAX: u32 = 0x7FFF;
/// The longest field list that an entry can hold, and the summary.
const ENTRY_BYTES_MAX: usize = 0xFFFF;
const SUMMARY_BYTES_MAX: usize = 0x7FFF;
/// A map message has a 16-bit count of entries.
const ENTRIES_MAX: usize = u16::MAX as usize;

impl MapImage {
    /// An empty image for maps of this kind; `None` if their entries cannot be merged.
    #[must_use]
    pub fn for_map(map: &Map<'_>) -> Option<MapImage> {
        let mergeable = [DataType::FIELD_LIST, DataType::NO_DATA].contains(&map.container_type);
        mergeable.then(|| MapImage {
            key_type: map.key_type,
            container_type: map.container_type,
            key_field_id: map.key_field_id,
            summary: FieldImage::default(),
            has_summary: false,
            entries: BTreeMap::new(),
        })
    }

    /// Applies summary and entries of a part of a refresh, or of an update.
    ///
    /// # Errors
    /// The map is malformed, of other keys or containers than this one, or makes an entry larger than one can
    /// be; what stood before the fault is applied.
    pub fn apply(&mut self, map: &Map<'_>, rules: &FieldRules) -> Result<(), DecodeError> {
        if map.key_type != self.key_type {
            return Err(DecodeError::BadType { place: Place::MapKey, data_type: map.key_type });
        }
        if map.container_type != self.container_type && map.container_type != DataType::NO_DATA {
            return Err(DecodeError::BadType { place: Place::Map, data_type: map.container_type });
        }
        let defs = if self.holds_fields() { map.field_set_defs()? } else { None };
        if let Some(summary) = map.summary
            && self.holds_fields()
        {
            self.has_summary = true;
            self.summary.merge_with(&FieldList::parse(summary)?, defs.as_ref(), false, rules)?;
            self.summary.fits(SUMMARY_BYTES_MAX, Place::Summary)?;
        }
        for entry in map.entries() {
            self.apply_entry(&entry?, defs.as_ref(), rules)?;
        }
        Ok(())
    }

    fn apply_entry(
        &mut self,
        entry: &MapEntry<'_>,
        defs: Option<&FieldSetDefs<'_>>,
        rules: &FieldRules,
    ) -> Result<(), DecodeError> {
        if entry.key.is_empty() {
            // It can be read, but not be written for a client.
            return Err(DecodeError::BadLength { place: Place::MapKey, length: 0, max: KEY_BYTES_MAX });
        }
        if entry.action == MapAction::Delete {
            self.entries.remove(entry.key);
            return Ok(());
        }
        let holds_fields = self.holds_fields();
        if !self.entries.contains_key(entry.key) {
            self.entries.insert(entry.key.into(), Entry::default());
        }
        let kept = self.entries.get_mut(entry.key).expect("it was just put there");
        if entry.action == MapAction::Add {
            *kept = Entry::default();
        }
        if let Some(permission_data) = entry.permission_data {
            kept.permission_data = Some(permission_data.into());
        }
        match entry.data {
            Some(data) if holds_fields => {
                kept.fields.merge_with(&FieldList::parse(data)?, defs, false, rules)?;
                kept.fields.fits(ENTRY_BYTES_MAX, Place::MapEntry)
            }
            _ => Ok(()),
        }
    }

    fn holds_fields(&self) -> bool {
        self.container_type == DataType::FIELD_LIST
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

    /// Content of the key and fields of each entry, in the order of the keys' bytes.
    pub fn entries(&self) -> impl Iterator<Item = (&[u8], &FieldImage)> {
        self.entries.iter().map(|(key, entry)| (&**key, &entry.fields))
    }

    /// The fields of the entry of a key.
    #[must_use]
    pub fn entry(&self, key: &[u8]) -> Option<&FieldImage> {
        self.entries.get(key).map(|e| &e.fields)
    }

    /// Writes a map from the entry `from` on (`None`: the beginning, with the summary) until about
    /// `part_bytes` are written. Returns the key of the entry that did not fit, if there is one.
    pub(super) fn write(&self, from: Option<&[u8]>, part_bytes: usize, w: &mut Writer<'_>) -> Option<&[u8]> {
        let is_first = from.is_none();
        let head = MapHead {
            key_field_id: self.key_field_id,
            total_count_hint: is_first.then_some(self.entries.len().min(HINT_MAX) as u32),
            ..MapHead::new(self.key_type, self.container_type)
        };
        let start = from.map_or(Bound::Unbounded, Bound::Included);
        let mut rest = self.entries.range::<[u8], _>((start, Bound::Unbounded));
        let mut next = None;
        w.map(&head, |m| {
            if is_first && self.has_summary {
                m.summary(|w| self.summary.write(w));
            }
            let mut bytes = 0;
            for (count, (key, entry)) in rest.by_ref().enumerate() {
                let entry_bytes = key.len() + entry.wire_bytes();
                if count > 0 && (bytes + entry_bytes > part_bytes || count == ENTRIES_MAX) {
                    next = Some(&**key);
                    break;
                }
                bytes += entry_bytes;
                let key = Encoded { data_type: self.key_type, content: key };
                m.entry(MapAction::Add, key, entry.permission_data.as_deref(), |w| entry.fields.write(w));
            }
        });
        next
    }

    /// Bytes held, about.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        let entries: usize = self.entries.iter().map(|(k, e)| k.len() + e.fields.memory_bytes() + 96).sum();
        entries + self.summary.memory_bytes()
    }
}

/// The most a total count hint can say.
const HINT_MAX: usize = (1 << 30) - 1;

impl Entry {
    /// At most so many bytes stand on the wire for it, besides its key.
    fn wire_bytes(&self) -> usize {
        let fields: usize = self.fields.entries().map(|(_, content)| content.len() + 5).sum();
        fields + self.permission_data.as_ref().map_or(0, |p| p.len() + 2) + 16
    }
}

#[cfg(test)]
mod tests {
    use rwf::{
        AsciiString, Buffer, FieldListHead, FieldSetDef, FieldSetEntry, MapWriter, Real, SetDefinitions,
        SetHead, encode_to_vec,
    };

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
        let map = Map::parse(bytes).expect("legal");
        let mut image = MapImage::for_map(&map).expect("field lists can be merged");
        image.apply(&map, &FieldRules::default()).expect("legal");
        image
    }

    fn apply(image: &mut MapImage, bytes: &[u8]) {
        image.apply(&Map::parse(bytes).expect("legal"), &FieldRules::default()).expect("legal");
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
        let fields: Vec<_> = entry.entries().map(|(id, c)| (id, c.to_vec())).collect();
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
        let refused = image.apply(&Map::parse(&bytes).expect("legal head"), &FieldRules::default());
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
                image.apply(&Map::parse(&bytes).expect("legal"), &FieldRules::default()).is_ok()
            })
            .collect();
        assert_eq!(results, [true, true, true, false]);
        let bytes = map(&HEAD, |m| {
            m.summary(|w| w.field_list(|f| f.put(1, AsciiString(&long))));
        });
        image.apply(&Map::parse(&bytes).expect("legal"), &FieldRules::default()).expect("short enough");
        let bytes = map(&HEAD, |m| {
            m.summary(|w| w.field_list(|f| f.put(2, AsciiString(&long))));
        });
        let refused = image.apply(&Map::parse(&bytes).expect("legal"), &FieldRules::default());
        assert!(matches!(refused, Err(DecodeError::BadLength { place: Place::Summary, .. })), "{refused:?}");
    }

    #[test]
    fn other_keys_and_other_containers_are_refused_and_deletes_need_none() {
        let mut image = image_of(&map(&HEAD, |m| put(m, MapAction::Add, b"k", &[(1, 1)])));
        let rules = FieldRules::default();
        let by_name = MapHead::new(DataType::ASCII_STRING, DataType::FIELD_LIST);
        let of_elements = MapHead::new(DataType::BUFFER, DataType::ELEMENT_LIST);
        for (head, place) in [(by_name, Place::MapKey), (of_elements, Place::Map)] {
            let bytes = map(&head, |_| ());
            let refused = image.apply(&Map::parse(&bytes).expect("legal"), &rules);
            assert!(
                matches!(refused, Err(DecodeError::BadType { place: p, .. }) if p == place),
                "{refused:?}"
            );
        }
        let without = MapHead::new(DataType::BUFFER, DataType::NO_DATA);
        apply(&mut image, &map(&without, |m| m.delete(Buffer(b"k"))));
        assert!(image.is_empty());
    }

    #[test]
    fn maps_of_other_containers_are_not_merged() {
        let head = MapHead::new(DataType::BUFFER, DataType::ELEMENT_LIST);
        assert!(MapImage::for_map(&Map::parse(&map(&head, |_| ())).expect("legal")).is_none());
    }
}

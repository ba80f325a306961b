//! Maps of field lists: order books by price and by order, symbol lists.

use std::iter::{Chain, Flatten};
use std::option;

use rwf::{
    DataType, DecodeError, Dictionary, FieldEntries, FieldSetDefs, FieldSetValues, Map, MapAction,
    MapEntries, Place, Value,
};

use super::fields::{FieldRef, FieldView, Fields, field_list};

/// A map: its summary and its entries. Set data is read like any other.
#[derive(Clone, Debug)]
pub struct MapView<'a> {
    map: Map<'a>,
    defs: Option<FieldSetDefs<'a>>,
    dictionary: Option<&'a Dictionary>,
}

impl<'a> MapView<'a> {
    pub(crate) fn parse(
        container_type: DataType,
        payload: &'a [u8],
        dictionary: Option<&'a Dictionary>,
    ) -> Result<MapView<'a>, DecodeError> {
        if container_type != DataType::MAP {
            return Err(DecodeError::BadType { place: Place::Map, data_type: container_type });
        }
        let map = Map::parse(payload)?;
        let defs = if map.container_type == DataType::FIELD_LIST { map.field_set_defs()? } else { None };
        Ok(MapView { map, defs, dictionary })
    }

    /// The map as the codec has it: types, hints, raw entries.
    #[must_use]
    pub fn raw(&self) -> &Map<'a> {
        &self.map
    }

    /// The fields that hold for all entries; none if there is no summary.
    ///
    /// # Errors
    /// [`DecodeError`] if the summary is no field list, or is malformed.
    pub fn summary(&self) -> Result<EntryFields<'_>, DecodeError> {
        self.fields_of(self.map.summary)
    }

    /// The entries, in order. After an error it ends. The iterator allocates nothing.
    #[must_use]
    pub fn entries(&self) -> MapEntryViews<'_> {
        MapEntryViews { map: self, entries: self.map.entries() }
    }

    fn fields_of<'m>(&'m self, data: Option<&'m [u8]>) -> Result<EntryFields<'m>, DecodeError> {
        let container_type = if data.is_some() { self.map.container_type } else { DataType::NO_DATA };
        let list = field_list(container_type, data.unwrap_or_default())?;
        let set_values = self.defs.as_ref().map(|defs| list.set_entries(defs));
        Ok(Fields::new(set_values.into_iter().flatten().chain(list.entries()), self.dictionary))
    }
}

/// The entries of a [`MapView`], in order.
#[derive(Clone, Debug)]
pub struct MapEntryViews<'m> {
    map: &'m MapView<'m>,
    entries: MapEntries<'m>,
}

impl<'m> Iterator for MapEntryViews<'m> {
    type Item = Result<MapEntryView<'m>, DecodeError>;

    fn next(&mut self) -> Option<Self::Item> {
        let entry = match self.entries.next()? {
            Ok(entry) => entry,
            Err(error) => return Some(Err(error)),
        };
        let (map, data) = (self.map, entry.data);
        let (action, permission_data) = (entry.action, entry.permission_data);
        let key = Value::decode(map.map.key_type, entry.key);
        Some(key.map(|key| MapEntryView { action, key, permission_data, data, map }))
    }
}

/// One entry of a map.
#[derive(Clone, Debug)]
pub struct MapEntryView<'m> {
    /// What to do with it: add, change, remove.
    pub action: MapAction,
    /// Its key.
    pub key: Value<'m>,
    /// Permission data of this entry alone.
    pub permission_data: Option<&'m [u8]>,
    /// The container; `None` for an entry that is removed and in maps of nothing.
    pub data: Option<&'m [u8]>,
    map: &'m MapView<'m>,
}

impl<'m> MapEntryView<'m> {
    /// Its fields; none for an entry that is removed.
    ///
    /// # Errors
    /// [`DecodeError`] if it is no field list, or is malformed.
    pub fn fields(&self) -> Result<EntryFields<'m>, DecodeError> {
        self.map.fields_of(self.data)
    }

    /// The value of a field, by id or by name; `None` if the entry does not have it, or no dictionary knows
    /// the name.
    ///
    /// # Errors
    /// [`DecodeError`] if the entry is no field list, or is malformed up to the field.
    pub fn field(&self, field: impl FieldRef) -> Result<Option<Value<'m>>, DecodeError> {
        let Some(id) = field.resolve(self.map.dictionary) else { return Ok(None) };
        let found =
            self.fields()?.find(|field| field.as_ref().map_or(true, |FieldView { id: at, .. }| at.0 == id));
        found.transpose().map(|field| field.map(|field| field.value))
    }
}

/// The fields of an entry: those of set data first.
pub type EntryFields<'m> = Fields<'m, Chain<Flatten<option::IntoIter<FieldSetValues<'m>>>, FieldEntries<'m>>>;

#[cfg(test)]
mod tests {
    use super::*;
    use rwf::{
        Buffer, FieldListHead, FieldSetDef, FieldSetEntry, MapHead, Real, SetDefinitions, SetHead,
        encode_to_vec,
    };

    const ENTRIES: [FieldSetEntry; 2] = [
        FieldSetEntry { id: 3427, data_type: DataType::REAL_4RB },
        FieldSetEntry { id: 4356, data_type: DataType::UINT_2 },
    ];

    #[test]
    fn summary_entries_and_set_data_are_read_alike() {
        let defs = [FieldSetDef { id: 0, entries: &ENTRIES }];
        let head = MapHead {
            set_definitions: Some(SetDefinitions::Fields(&defs)),
            ..MapHead::new(DataType::BUFFER, DataType::FIELD_LIST)
        };
        let bytes = encode_to_vec(|w| {
            w.map(&head, |m| {
                m.summary(|w| w.field_list(|f| f.put(15, 840u64)));
                m.entry(MapAction::Add, Buffer(b"3990B"), None, |w| {
                    let set = Some(SetHead { explicit_id: None, entries: &ENTRIES });
                    w.field_list_with(&FieldListHead { info: None, set }, |f| {
                        f.put_set(Real::decimal(3990, 2));
                        f.put_set(7u64);
                        f.put(22, Real::decimal(1, 0));
                    });
                });
                m.delete(Buffer(b"3991B"));
            });
        })
        .expect("legal");
        let map = MapView::parse(DataType::MAP, &bytes, None).expect("legal");
        let ids = |fields: EntryFields<'_>| fields.map(|f| f.expect("legal").id.0).collect::<Vec<_>>();
        assert_eq!(ids(map.summary().expect("legal")), [15]);
        let entries: Vec<_> = map.entries().collect::<Result<_, _>>().expect("legal");
        assert_eq!((entries[0].action, entries[1].action), (MapAction::Add, MapAction::Delete));
        assert_eq!(entries[0].key, Value::Buffer(Buffer(b"3990B")));
        assert_eq!(ids(entries[0].fields().expect("legal")), [3427, 4356, 22]);
        assert_eq!(entries[0].field(3427i16), Ok(Some(Value::Real(Real::decimal(3990, 2)))));
        assert_eq!((entries[0].field(25i16), entries[1].field(22i16)), (Ok(None), Ok(None)));
    }

    #[test]
    fn what_is_no_map_or_is_cut_off_is_an_error() {
        assert!(MapView::parse(DataType::FIELD_LIST, &[], None).is_err());
        assert!(MapView::parse(DataType::MAP, &[1], None).is_err());
        let one = |w: &mut rwf::Writer<'_>| {
            w.map(&MapHead::new(DataType::BUFFER, DataType::FIELD_LIST), |m| {
                m.entry(MapAction::Add, Buffer(b"k"), None, |w| w.field_list(|f| f.put(22, 1u64)));
            });
        };
        let bytes = encode_to_vec(one).expect("legal");
        for cut in 5..bytes.len() {
            let Ok(map) = MapView::parse(DataType::MAP, &bytes[..cut], None) else { continue };
            assert!(map.entries().any(|entry| entry.is_err()), "{cut}");
        }
    }
}

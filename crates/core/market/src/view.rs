//! Views: the part of an item that a consumer wants.

use rwf::{
    DataType, DecodeError, Dictionary, ElementEntry, ElementList, Encoded, FieldList, FieldSetDefs, Map,
    MapAction, MapEntry, MapHead, MapWriter, Writer,
};

use crate::image::{SetValueRoom, set_value};

/// The fields and elements that a consumer wants.
///
/// It restricts field lists, field lists in the summary and the entries of maps, and, where it was given by
/// name, element lists. Other containers have no parts that could be named and stay whole.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct View {
    /// Ascending.
    fields: Box<[i16]>,
    /// Ascending; none if the view was given by field ids.
    names: Box<[Box<[u8]>]>,
}

impl View {
    /// The view that a request asks for. A name stands for the field of that name, where the dictionary has
    /// one, and for the element of that name.
    pub(crate) fn of(wanted: &rdm::item::View<'_>, dictionary: &Dictionary) -> View {
        let (mut fields, mut names): (Vec<i16>, Vec<Box<[u8]>>) = match wanted {
            rdm::item::View::Fields(ids) => (ids.to_vec(), Vec::new()),
            rdm::item::View::Elements(names) => {
                let field = |name: &&[u8]| dictionary.field_by_name(std::str::from_utf8(name).ok()?);
                let ids = names.iter().filter_map(field).map(|field| field.id);
                (ids.collect(), names.iter().map(|name| Box::from(*name)).collect())
            }
        };
        fields.sort_unstable();
        fields.dedup();
        names.sort_unstable();
        names.dedup();
        View { fields: fields.into(), names: names.into() }
    }

    /// Writes what the view leaves of a payload, and returns whether that says anything.
    ///
    /// # Errors
    /// The payload is malformed; what was written is of no use.
    #[inline]
    pub(crate) fn write(
        &self,
        container_type: DataType,
        payload: &[u8],
        w: &mut Writer<'_>,
    ) -> Result<bool, DecodeError> {
        match container_type {
            DataType::FIELD_LIST => self.write_fields(&FieldList::parse(payload)?, None, w),
            DataType::ELEMENT_LIST if !self.names.is_empty() => {
                self.write_elements(&ElementList::parse(payload)?, w)
            }
            DataType::MAP => self.write_map(payload, w),
            _ => {
                w.bytes(payload);
                Ok(true)
            }
        }
    }

    fn write_fields(
        &self,
        list: &FieldList<'_>,
        defs: Option<&FieldSetDefs<'_>>,
        w: &mut Writer<'_>,
    ) -> Result<bool, DecodeError> {
        let (mut result, mut room) = (Ok(false), SetValueRoom::default());
        w.field_list(|f| {
            for entry in list.all_entries(defs) {
                let entry = match entry {
                    Ok(entry) if self.fields.binary_search(&entry.id).is_ok() => entry,
                    Ok(_) => continue,
                    Err(fault) => return result = Err(fault),
                };
                match set_value(&entry, &mut room) {
                    Ok(content) => f.encoded(entry.id, content),
                    Err(fault) => return result = Err(fault),
                }
                result = Ok(true);
            }
        });
        result
    }

    fn write_elements(&self, list: &ElementList<'_>, w: &mut Writer<'_>) -> Result<bool, DecodeError> {
        let mut result = Ok(false);
        w.element_list(|e| {
            for entry in list.entries() {
                match entry {
                    Ok(ElementEntry { name, data_type, content }) if self.has_name(name) => {
                        result = Ok(true);
                        match data_type {
                            DataType::NO_DATA => e.no_data(name),
                            _ => e.put(name, Encoded { data_type, content }),
                        }
                    }
                    Ok(_) => {}
                    Err(fault) => return result = Err(fault),
                }
            }
        });
        result
    }

    fn has_name(&self, name: &[u8]) -> bool {
        self.names.binary_search_by(|known| (**known).cmp(name)).is_ok()
    }

    fn write_map(&self, payload: &[u8], w: &mut Writer<'_>) -> Result<bool, DecodeError> {
        let map = Map::parse(payload)?;
        if map.container_type != DataType::FIELD_LIST {
            w.bytes(payload);
            return Ok(true);
        }
        let defs = map.field_set_defs()?;
        let head = MapHead {
            key_field_id: map.key_field_id,
            total_count_hint: map.total_count_hint,
            ..MapHead::new(map.key_type, map.container_type)
        };
        let (mut result, mut any) = (Ok(()), false);
        w.map(&head, |m| {
            if let Some(summary) = map.summary {
                m.summary(|w| {
                    let written = FieldList::parse(summary)
                        .and_then(|summary| self.write_fields(&summary, defs.as_ref(), w));
                    result = written.map(|left| any |= left);
                });
            }
            for entry in map.entries() {
                if result.is_err() {
                    break;
                }
                let written =
                    entry.and_then(|entry| self.write_entry(map.key_type, &entry, defs.as_ref(), m));
                result = written.map(|left| any |= left);
            }
        });
        result.map(|()| any)
    }

    /// An entry that is added is there for everybody, be it empty; one that changes only what the view does
    /// not show is left out.
    fn write_entry(
        &self,
        key_type: DataType,
        entry: &MapEntry<'_>,
        defs: Option<&FieldSetDefs<'_>>,
        m: &mut MapWriter<'_, '_>,
    ) -> Result<bool, DecodeError> {
        let list = FieldList::parse(entry.data.unwrap_or_default())?;
        if entry.action == MapAction::Update && entry.permission_data.is_none() && !self.shows(&list, defs)? {
            return Ok(false);
        }
        let mut result = Ok(true);
        let key = Encoded { data_type: key_type, content: entry.key };
        m.entry(entry.action, key, entry.permission_data, |w| result = self.write_fields(&list, defs, w));
        result.map(|_| true)
    }

    /// Whether it shows any field of a list.
    fn shows(&self, list: &FieldList<'_>, defs: Option<&FieldSetDefs<'_>>) -> Result<bool, DecodeError> {
        for entry in list.all_entries(defs) {
            if self.fields.binary_search(&entry?.id).is_ok() {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

#[cfg(test)]
mod tests {
    use rdm::item::View as Wanted;
    use rwf::{
        AsciiString, Buffer, FieldListHead, FieldSetDef, FieldSetEntry, Real, SetDefinitions, SetHead,
        dictionary::{Field, FieldType},
        encode_to_vec,
    };

    use super::*;

    fn view(ids: &[i16]) -> View {
        View::of(&Wanted::Fields(ids.into()), &Dictionary::new())
    }

    fn fields(all: &[(i16, i64)]) -> Vec<u8> {
        encode_to_vec(|w| w.field_list(|f| all.iter().for_each(|&(id, v)| f.put(id, Real::decimal(v, 0)))))
            .expect("legal")
    }

    fn seen(view: &View, container_type: DataType, payload: &[u8]) -> (bool, Vec<u8>) {
        let mut left = Ok(false);
        let bytes = encode_to_vec(|w| left = view.write(container_type, payload, w)).expect("legal");
        (left.expect("well formed"), bytes)
    }

    #[test]
    fn only_the_fields_of_the_view_are_left_in_their_order() {
        let payload = fields(&[(25, 1), (22, 2), (-7, 3), (30, 4)]);
        let (left, bytes) = seen(&view(&[22, -7, 25, 25]), DataType::FIELD_LIST, &payload);
        assert_eq!((left, bytes), (true, fields(&[(25, 1), (22, 2), (-7, 3)])));
        let (left, bytes) = seen(&view(&[1]), DataType::FIELD_LIST, &payload);
        assert_eq!((left, bytes), (false, fields(&[])));
    }

    #[test]
    fn names_stand_for_fields_of_the_dictionary_and_for_elements() {
        let mut dictionary = Dictionary::new();
        let bid = Field {
            id: 22,
            name: "BID".into(),
            dde_acronym: "BID".into(),
            ripples_to: None,
            field_type: FieldType::PRICE,
            length: 17,
            enum_length: 0,
            data_type: DataType::REAL,
            rwf_length: 7,
        };
        dictionary.add_field(bid).expect("new");
        let view = View::of(&Wanted::Elements([&b"BID"[..], b"NONE"].into()), &dictionary);
        assert_eq!(
            seen(&view, DataType::FIELD_LIST, &fields(&[(22, 1), (25, 2)])),
            (true, fields(&[(22, 1)]))
        );
        let elements = |names: &[&str]| {
            encode_to_vec(|w| w.element_list(|e| names.iter().for_each(|n| e.put(n, AsciiString(b"x")))))
                .expect("legal")
        };
        let (left, bytes) = seen(&view, DataType::ELEMENT_LIST, &elements(&["ASK", "BID"]));
        assert_eq!((left, bytes), (true, elements(&["BID"])));
        let (left, _) = seen(&view, DataType::ELEMENT_LIST, &elements(&["ASK"]));
        assert!(!left);
    }

    const HEAD: MapHead<'static> = MapHead::new(DataType::BUFFER, DataType::FIELD_LIST);

    #[test]
    fn entries_of_a_map_are_restricted_and_those_that_show_no_change_left_out() {
        let put = |m: &mut MapWriter<'_, '_>, action, key: &[u8], all: &[(i16, i64)]| {
            m.entry(action, Buffer(key), None, |w| w.bytes(&fields(all)));
        };
        let payload = encode_to_vec(|w| {
            w.map(&HEAD, |m| {
                m.summary(|w| w.bytes(&fields(&[(15, 1), (1, 2)])));
                put(m, MapAction::Add, b"a", &[(1, 1), (2, 2)]);
                put(m, MapAction::Add, b"b", &[(2, 2)]);
                put(m, MapAction::Update, b"c", &[(2, 2)]);
                put(m, MapAction::Update, b"d", &[(1, 2)]);
                m.delete(Buffer(b"e"));
            });
        })
        .expect("legal");
        let expected = encode_to_vec(|w| {
            w.map(&HEAD, |m| {
                m.summary(|w| w.bytes(&fields(&[(1, 2)])));
                put(m, MapAction::Add, b"a", &[(1, 1)]);
                put(m, MapAction::Add, b"b", &[]);
                put(m, MapAction::Update, b"d", &[(1, 2)]);
                m.delete(Buffer(b"e"));
            });
        })
        .expect("legal");
        assert_eq!(seen(&view(&[1]), DataType::MAP, &payload), (true, expected));
    }

    #[test]
    fn set_data_of_a_map_becomes_ordinary_fields() {
        let entries = [
            FieldSetEntry { id: 22, data_type: DataType::REAL_4RB },
            FieldSetEntry { id: 25, data_type: DataType::INT_8 },
        ];
        let defs = [FieldSetDef { id: 0, entries: &entries }];
        let head = MapHead { set_definitions: Some(SetDefinitions::Fields(&defs)), ..HEAD };
        let payload = encode_to_vec(|w| {
            w.map(&head, |m| {
                m.entry(MapAction::Update, Buffer(b"k"), None, |w| {
                    let set = Some(SetHead { explicit_id: None, entries: &entries });
                    w.field_list_with(&FieldListHead { info: None, set }, |f| {
                        f.put_set(Real::decimal(100, 2));
                        f.put_set(300i64);
                    });
                });
            });
        })
        .expect("legal");
        let expected = encode_to_vec(|w| {
            w.map(&HEAD, |m| {
                m.entry(MapAction::Update, Buffer(b"k"), None, |w| w.field_list(|f| f.put(25, 300i64)));
            });
        })
        .expect("legal");
        assert_eq!(seen(&view(&[25]), DataType::MAP, &payload), (true, expected));
    }

    #[test]
    fn what_has_no_named_parts_stays_whole_and_what_is_malformed_is_an_error() {
        assert_eq!(seen(&view(&[1]), DataType::XML, b"<a/>"), (true, b"<a/>".to_vec()));
        let symbols = encode_to_vec(|w| {
            w.map(&MapHead::new(DataType::ASCII_STRING, DataType::NO_DATA), |m| {
                m.entry(MapAction::Add, AsciiString(b"A"), None, |_| ());
            });
        })
        .expect("legal");
        assert_eq!(seen(&view(&[1]), DataType::MAP, &symbols), (true, symbols.clone()));
        let payload = fields(&[(1, 1), (2, 2)]);
        let mut left = Ok(true);
        let cut = &payload[..payload.len() - 1];
        encode_to_vec(|w| left = view(&[1]).write(DataType::FIELD_LIST, cut, w)).expect("room enough");
        assert!(left.is_err());
    }

    #[test]
    fn views_of_the_same_fields_are_equal() {
        assert_eq!(view(&[1, 2]), view(&[2, 1, 1]));
    }
}

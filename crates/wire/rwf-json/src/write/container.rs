//! Containers: payloads, summaries, entries.

use rwf::{DataType, DecodeError, ElementSetDefs, FieldSetDefs, FilterList, Map, Msg, Series, Value, Vector};

use super::text::member;
use super::{Writer, Written};
use crate::limits::DEPTH_MAX;
use crate::{Services, json, names};

/// The definitions for the lists in a container.
#[derive(Default)]
struct Sets<'a> {
    fields: Option<FieldSetDefs<'a>>,
    elements: Option<ElementSetDefs<'a>>,
}

impl<'a> Sets<'a> {
    fn parse(container_type: DataType, definitions: Option<&'a [u8]>) -> Result<Sets<'a>, DecodeError> {
        let Some(definitions) = definitions else { return Ok(Sets::default()) };
        Ok(match container_type {
            DataType::FIELD_LIST => Sets { fields: Some(FieldSetDefs::parse(definitions)?), elements: None },
            DataType::ELEMENT_LIST => {
                Sets { fields: None, elements: Some(ElementSetDefs::parse(definitions)?) }
            }
            _ => Sets::default(),
        })
    }
}

impl<S: Services> Writer<'_, '_, S> {
    /// The member that holds a payload, if there is one.
    #[inline]
    pub(super) fn payload(&mut self, container_type: DataType, bytes: &[u8], depth: u32) -> Written {
        self.named(container_type, bytes, &Sets::default(), depth)
    }

    #[inline]
    fn named(&mut self, container_type: DataType, bytes: &[u8], sets: &Sets<'_>, depth: u32) -> Written {
        if bytes.is_empty() || container_type == DataType::NO_DATA {
            return Ok(());
        }
        match container_type {
            DataType::FIELD_LIST => self.text.raw(member!("Fields")),
            _ => {
                let name = names::payload::name(container_type.0);
                self.text.word(name.unwrap_or("Opaque"));
                self.text.raw(b":");
            }
        }
        self.contents(container_type, bytes, sets, depth + 1)?;
        self.text.comma();
        Ok(())
    }

    /// A container that stands as a value.
    pub(super) fn container(&mut self, container_type: DataType, bytes: &[u8], depth: u32) -> Written {
        self.contents(container_type, bytes, &Sets::default(), depth)
    }

    fn contents(&mut self, container_type: DataType, bytes: &[u8], sets: &Sets<'_>, depth: u32) -> Written {
        if depth > DEPTH_MAX {
            return Err(DecodeError::TooDeep { max_depth: DEPTH_MAX }.into());
        }
        match container_type {
            DataType::FIELD_LIST => self.fields(bytes, sets.fields.as_ref(), depth),
            DataType::ELEMENT_LIST => self.elements(bytes, sets.elements.as_ref(), depth),
            DataType::MAP => self.map(&Map::parse(bytes)?, depth),
            DataType::VECTOR => self.vector(&Vector::parse(bytes)?, depth),
            DataType::SERIES => self.series(&Series::parse(bytes)?, depth),
            DataType::FILTER_LIST => self.filter_list(&FilterList::parse(bytes)?, depth),
            DataType::MSG => self.message(&Msg::parse(bytes)?, depth),
            DataType::XML => {
                self.text.string(bytes);
                Ok(())
            }
            DataType::JSON if json::is_value(bytes) => {
                self.text.raw(bytes);
                Ok(())
            }
            // What calls itself JSON and is not must not spoil the text around it.
            DataType::JSON => {
                self.text.string(bytes);
                Ok(())
            }
            _ => {
                self.text.base64(bytes);
                Ok(())
            }
        }
    }

    fn map(&mut self, map: &Map<'_>, depth: u32) -> Written {
        let sets = Sets::parse(map.container_type, map.set_definitions)?;
        self.text.open_object();
        self.text.raw(member!("KeyType"));
        self.text.name_or_number(names::data_type::name(map.key_type.0), map.key_type.0);
        self.text.comma();
        self.summary(map.container_type, map.summary, &sets, depth)?;
        self.text.optional(member!("CountHint"), map.total_count_hint.map(u64::from));
        if let Some(id) = map.key_field_id {
            self.text.raw(member!("KeyFieldID"));
            self.text.int(id.into());
            self.text.comma();
        }
        self.open_entries(map.count().into());
        for entry in map.entries() {
            let entry = entry?;
            self.open_entry(names::map_action::name(entry.action as u8))?;
            self.text.raw(member!("Key"));
            self.text.primitive(&Value::decode(map.key_type, entry.key)?)?;
            self.text.comma();
            self.close_entry(map.container_type, entry.permission_data, entry.data, &sets, depth)?;
        }
        self.close_entries(map.count().into());
        Ok(())
    }

    fn vector(&mut self, vector: &Vector<'_>, depth: u32) -> Written {
        let sets = Sets::parse(vector.container_type, vector.set_definitions)?;
        self.text.open_object();
        self.summary(vector.container_type, vector.summary, &sets, depth)?;
        self.text.optional(member!("CountHint"), vector.total_count_hint.map(u64::from));
        self.text.flag(member!("SupportSorting"), vector.supports_sorting);
        self.open_entries(vector.count().into());
        for entry in vector.entries() {
            let entry = entry?;
            self.open_entry(names::vector_action::name(entry.action as u8))?;
            self.text.optional(member!("Index"), Some(entry.index.into()));
            self.close_entry(vector.container_type, entry.permission_data, entry.data, &sets, depth)?;
        }
        self.close_entries(vector.count().into());
        Ok(())
    }

    fn series(&mut self, series: &Series<'_>, depth: u32) -> Written {
        let sets = Sets::parse(series.container_type, series.set_definitions)?;
        self.text.open_object();
        self.summary(series.container_type, series.summary, &sets, depth)?;
        self.text.optional(member!("CountHint"), series.total_count_hint.map(u64::from));
        self.open_entries(series.count().into());
        for entry in series.entries() {
            self.open_entry(None)?;
            self.close_entry(series.container_type, None, Some(entry?), &sets, depth)?;
        }
        self.close_entries(series.count().into());
        Ok(())
    }

    fn filter_list(&mut self, list: &FilterList<'_>, depth: u32) -> Written {
        self.text.open_object();
        self.text.optional(member!("CountHint"), list.total_count_hint.map(u64::from));
        self.open_entries(list.count().into());
        for entry in list.entries() {
            let entry = entry?;
            self.open_entry(names::filter_action::name(entry.action as u8))?;
            self.text.optional(member!("ID"), Some(entry.id.into()));
            let sets = Sets::default();
            self.close_entry(entry.container_type, entry.permission_data, entry.data, &sets, depth)?;
        }
        self.close_entries(list.count().into());
        Ok(())
    }

    fn summary(
        &mut self,
        container_type: DataType,
        summary: Option<&[u8]>,
        sets: &Sets<'_>,
        depth: u32,
    ) -> Written {
        let Some(summary) = summary else { return Ok(()) };
        self.text.raw(member!("Summary"));
        self.text.open_object();
        self.named(container_type, summary, sets, depth)?;
        self.text.close_object();
        self.text.comma();
        Ok(())
    }

    /// The member `Entries`, which is there only if there are some.
    fn open_entries(&mut self, count: usize) {
        if count > 0 {
            self.text.raw(member!("Entries"));
            self.text.open_array();
        }
    }

    fn close_entries(&mut self, count: usize) {
        if count > 0 {
            self.text.close_array();
        }
        self.text.close_object();
    }

    fn open_entry(&mut self, action: Option<&str>) -> Written {
        self.check_length()?;
        self.text.open_object();
        if let Some(action) = action {
            self.text.raw(member!("Action"));
            self.text.word(action);
            self.text.comma();
        }
        Ok(())
    }

    fn close_entry(
        &mut self,
        container_type: DataType,
        permission_data: Option<&[u8]>,
        data: Option<&[u8]>,
        sets: &Sets<'_>,
        depth: u32,
    ) -> Written {
        self.base64(member!("PermData"), permission_data);
        self.named(container_type, data.unwrap_or(&[]), sets, depth)?;
        self.text.close_object();
        self.text.comma();
        Ok(())
    }
}

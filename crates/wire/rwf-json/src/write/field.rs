//! Fields and elements.

use rwf::{DataType, ElementEntry, ElementList, ElementSetDefs, FieldEntry, FieldList, FieldSetDefs, Value};

use super::key::RequestLists;
use super::text::member;
use super::{ToJsonError, Writer, Written};
use crate::{Services, names};

impl<S: Services> Writer<'_, '_, S> {
    pub(super) fn fields(&mut self, bytes: &[u8], sets: Option<&FieldSetDefs<'_>>, depth: u32) -> Written {
        let list = FieldList::parse(bytes)?;
        self.text.open_object();
        if let Some(sets) = sets.filter(|_| list.set_data.is_some()) {
            for entry in list.set_entries(sets) {
                self.field(&entry?, depth)?;
            }
        }
        for entry in list.entries() {
            self.field(&entry?, depth)?;
        }
        self.text.close_object();
        Ok(())
    }

    /// One field; one that the dictionary lacks has no name and is left out.
    #[inline]
    fn field(&mut self, entry: &FieldEntry<'_>, depth: u32) -> Written {
        let dictionary = self.converter.dictionary;
        let Some(field) = dictionary.field(entry.id) else { return Ok(()) };
        self.text.string(field.name.as_bytes());
        self.text.raw(b":");
        let data_type = match entry.set_type {
            DataType::UNKNOWN => field.data_type,
            set_type => set_type,
        };
        let value = Value::decode(data_type, entry.content);
        match value.map_err(|error| ToJsonError::Field { id: entry.id, error })? {
            Value::Enum(value) if self.converter.options.expand_enum_fields => {
                match dictionary.enum_display(entry.id, value.0) {
                    Some(display) => self.text.rmtes(display),
                    None => self.text.uint(value.0.into()),
                }
            }
            Value::Container(container_type, bytes) => self.container(container_type, bytes, depth + 1)?,
            value => self.text.primitive(&value)?,
        }
        self.text.comma();
        Ok(())
    }

    pub(super) fn elements(
        &mut self,
        bytes: &[u8],
        sets: Option<&ElementSetDefs<'_>>,
        depth: u32,
    ) -> Written {
        let list = ElementList::parse(bytes)?;
        self.text.open_object();
        if let Some(sets) = sets.filter(|_| list.set_data.is_some()) {
            for entry in list.set_entries(sets) {
                self.element(&entry?, depth)?;
            }
        }
        for entry in list.entries() {
            self.element(&entry?, depth)?;
        }
        self.text.close_object();
        Ok(())
    }

    /// The elements of a request's payload that have no member of their own.
    pub(super) fn other_elements(&mut self, bytes: &[u8], taken: &RequestLists<'_>, depth: u32) -> Written {
        let start = self.text.len();
        self.text.raw(member!("Elements"));
        self.text.open_object();
        let empty = self.text.len();
        for entry in ElementList::parse(bytes)?.entries() {
            let entry = entry?;
            if !taken.takes(entry.name) {
                self.element(&entry, depth)?;
            }
        }
        if self.text.len() == empty {
            self.text.cut(start);
            return Ok(());
        }
        self.text.close_object();
        self.text.comma();
        Ok(())
    }

    /// Text and unsigned numbers stand for themselves; all else says its type.
    fn element(&mut self, entry: &ElementEntry<'_>, depth: u32) -> Written {
        self.check_length()?;
        self.text.string(entry.name);
        self.text.raw(b":");
        let data_type = entry.data_type.base();
        match if data_type == DataType::NO_DATA { Value::Blank(data_type) } else { entry.value()? } {
            Value::Ascii(text) => self.text.string(text.0),
            Value::UInt(uint) => self.text.uint(uint),
            value => {
                self.text.open_object();
                self.text.raw(member!("Type"));
                self.text.name_or_number(names::data_type::name(data_type.0), data_type.0);
                self.text.comma();
                self.text.raw(member!("Data"));
                match value {
                    Value::Container(container_type, bytes) => {
                        self.container(container_type, bytes, depth + 1)?;
                    }
                    value => self.text.primitive(&value)?,
                }
                self.text.close_object();
            }
        }
        self.text.comma();
        Ok(())
    }
}

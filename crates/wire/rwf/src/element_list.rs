use crate::list::{ListWriter, SetData, SetHead, StandardData, parse_list};
use crate::primitive::{ArrayWriter, Primitive, SelfSizedBlank, take_set_value};
use crate::reader::Reader;
use crate::set_def::{ElementSetDefs, ElementSetEntry, SetEntries};
use crate::{DataType, DecodeError, EncodeError, Place, Value, Writer};

/// Values by name that carry their type. Only the head is checked when it is parsed; entries are when they
/// are read.
///
/// Shape: as a field list, but the information is the list number `u16` alone and an entry is name behind a
/// `u15rb` length, type `u8`, content behind a `u16ob` length; an entry of type `NO_DATA` has no content
/// field. Source: RWF 14.1, ElementList.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ElementList<'a> {
    /// The template number, if said.
    pub list_number: Option<u16>,
    /// Values that a set definition names, if any.
    pub set_data: Option<SetData<'a>>,
    standard: Option<StandardData<'a>>,
}

/// One element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ElementEntry<'a> {
    /// The name, ASCII by contract, case sensitive.
    pub name: &'a [u8],
    /// The type; one of the fixed types if a set definition says so.
    pub data_type: DataType,
    /// The content; empty is the blank.
    pub content: &'a [u8],
}

impl<'a> ElementList<'a> {
    /// Takes the list apart. No bytes at all are an empty list.
    ///
    /// # Errors
    /// [`DecodeError::Truncated`] if a part of the head is longer than the list.
    pub fn parse(bytes: &'a [u8]) -> Result<ElementList<'a>, DecodeError> {
        let parts = parse_list(bytes, Place::ElementList)?;
        let list_number = match parts.info {
            Some(info) => Some(Reader::new(info).u16(Place::Info)?),
            None => None,
        };
        Ok(ElementList { list_number, set_data: parts.set_data, standard: parts.standard })
    }

    /// Whether there is a part for standard data, even an empty one.
    #[must_use]
    pub fn has_standard_data(&self) -> bool {
        self.standard.is_some()
    }

    /// The number of entries that name themselves.
    #[must_use]
    pub fn standard_count(&self) -> u16 {
        self.standard.map_or(0, |standard| standard.count)
    }

    /// The entries that name themselves: all there are, unless there is set data.
    #[must_use]
    pub fn entries(&self) -> ElementEntries<'a> {
        match self.standard {
            Some(StandardData { count, entries }) => {
                ElementEntries { left: count, reader: Reader::new(entries) }
            }
            None => ElementEntries { left: 0, reader: Reader::new(&[]) },
        }
    }

    /// The entries of the set data, by the definitions of the enclosing container; none if the set is not
    /// among them.
    #[must_use]
    pub fn set_entries(&self, defs: &ElementSetDefs<'a>) -> ElementSetValues<'a> {
        let found = self.set_data.and_then(|set| Some((set.bytes, defs.get(set.id())?)));
        let Some((bytes, entries)) = found else {
            return ElementSetValues {
                entries: None,
                blank: SelfSizedBlank::OneByte,
                reader: Reader::new(&[]),
            };
        };
        let blank = entries.self_sized_blank(bytes);
        ElementSetValues { entries: Some(entries), blank, reader: Reader::new(bytes) }
    }

    /// All entries: those of the set data first.
    pub fn all_entries(
        &self,
        defs: Option<&ElementSetDefs<'a>>,
    ) -> impl Iterator<Item = Result<ElementEntry<'a>, DecodeError>> + use<'a> {
        defs.map(|defs| self.set_entries(defs)).into_iter().flatten().chain(self.entries())
    }
}

impl<'a> ElementEntry<'a> {
    /// The value.
    ///
    /// # Errors
    /// As [`Value::decode`].
    pub fn value(&self) -> Result<Value<'a>, DecodeError> {
        Value::decode_any(self.data_type, self.content)
    }

    /// The name, with what is not UTF-8 replaced.
    #[must_use]
    pub fn name_lossy(&self) -> std::borrow::Cow<'a, str> {
        String::from_utf8_lossy(self.name)
    }
}

/// The entries of standard data, in order. After an error it ends.
#[derive(Clone, Debug)]
pub struct ElementEntries<'a> {
    left: u16,
    reader: Reader<'a>,
}

impl<'a> ElementEntries<'a> {
    fn read(&mut self) -> Result<ElementEntry<'a>, DecodeError> {
        let name = self.reader.buf15(Place::ElementName)?;
        let data_type = DataType(self.reader.u8(Place::ElementEntry)?);
        let content = match data_type {
            DataType::NO_DATA => &[],
            _ => self.reader.buf16(Place::ElementEntry)?,
        };
        Ok(ElementEntry { name, data_type, content })
    }
}

impl<'a> Iterator for ElementEntries<'a> {
    type Item = Result<ElementEntry<'a>, DecodeError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.left = self.left.checked_sub(1)?;
        let entry = self.read();
        if entry.is_err() {
            self.left = 0;
        }
        Some(entry)
    }
}

/// The entries of set data, in order. After an error it ends.
#[derive(Clone, Debug)]
pub struct ElementSetValues<'a> {
    entries: Option<SetEntries<'a, ElementSetEntry<'a>>>,
    blank: SelfSizedBlank,
    reader: Reader<'a>,
}

impl<'a> Iterator for ElementSetValues<'a> {
    type Item = Result<ElementEntry<'a>, DecodeError>;

    fn next(&mut self) -> Option<Self::Item> {
        let ElementSetEntry { name, data_type } = self.entries.as_mut()?.next()?;
        let content = take_set_value(&mut self.reader, data_type, self.blank);
        if content.is_err() {
            self.entries = None;
        }
        Some(content.map(|content| ElementEntry { name, data_type, content }))
    }
}

/// What an element list begins with.
#[derive(Clone, Copy, Debug, Default)]
pub struct ElementListHead<'a> {
    /// The template number.
    pub list_number: Option<u16>,
    /// The set data that comes first.
    pub set: Option<SetHead<'a, ElementSetEntry<'a>>>,
}

/// Writes the entries of an element list; made by [`Writer::element_list`].
#[derive(Debug)]
pub struct ElementListWriter<'w, 'b, 's> {
    list: ListWriter<'w, 'b, 's, ElementSetEntry<'s>>,
}

impl Writer<'_> {
    /// Writes an element list of standard data.
    pub fn element_list(&mut self, write: impl FnOnce(&mut ElementListWriter<'_, '_, '_>)) {
        self.element_list_with(&ElementListHead::default(), write);
    }

    /// Writes an element list with a template number, or with set data, in front.
    pub fn element_list_with(
        &mut self,
        head: &ElementListHead<'_>,
        write: impl FnOnce(&mut ElementListWriter<'_, '_, '_>),
    ) {
        let mut list = ListWriter::begin(self);
        list.head(head.list_number.map(|number| move |w: &mut Writer<'_>| w.u16(number)), head.set);
        let mut elements = ElementListWriter { list };
        write(&mut elements);
        elements.list.end();
    }
}

impl<'b> ElementListWriter<'_, 'b, '_> {
    /// Writes an element.
    pub fn put(&mut self, name: impl AsRef<[u8]>, value: impl Primitive) {
        self.begin_entry(name.as_ref(), value.data_type());
        self.list.w.prefixed(&value);
    }

    /// Writes an element of type `NO_DATA`: a name that stands for itself.
    pub fn no_data(&mut self, name: impl AsRef<[u8]>) {
        self.begin_entry(name.as_ref(), DataType::NO_DATA);
    }

    /// Writes an element that is a container, which `write` writes.
    pub fn container(
        &mut self,
        name: impl AsRef<[u8]>,
        container_type: DataType,
        write: impl FnOnce(&mut Writer<'b>),
    ) {
        if !container_type.is_container() || container_type == DataType::NO_DATA {
            self.list.w.fail(EncodeError::BadType { place: Place::ElementEntry, data_type: container_type });
        }
        self.begin_entry(name.as_ref(), container_type);
        self.list.w.nested16(Place::ElementEntry, write);
    }

    /// Writes an element that is an array; see [`Writer::array`].
    pub fn array(
        &mut self,
        name: impl AsRef<[u8]>,
        item_type: DataType,
        item_length: u16,
        write: impl FnOnce(&mut ArrayWriter<'_, '_>),
    ) {
        self.begin_entry(name.as_ref(), DataType::ARRAY);
        self.list.w.nested16(Place::ElementEntry, |w| w.array(item_type, item_length, write));
    }

    /// Writes the next value of the set data, in the form its definition prescribes.
    pub fn put_set(&mut self, value: impl Primitive) {
        self.list.put_set(&value);
    }

    /// Writes the next value of the set data where it is a container, or an array.
    pub fn put_set_nested(&mut self, write: impl FnOnce(&mut Writer<'b>)) {
        self.list.put_set_nested(write);
    }

    /// Writes all values of the set data at once, encoded already: to pass on a set whose definition is not
    /// at hand.
    pub fn put_set_encoded(&mut self, bytes: &[u8]) {
        self.list.put_set_encoded(bytes);
    }

    /// Begins the standard data even if no entry follows. [`ElementListWriter::put`] does so by itself.
    pub fn begin_standard(&mut self) {
        self.list.begin_standard();
    }

    fn begin_entry(&mut self, name: &[u8], data_type: DataType) {
        self.list.count_entry();
        self.list.w.buf15(name, Place::ElementName);
        self.list.w.u8(data_type.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{AsciiString, encode_to_vec};

    #[test]
    fn elements_come_back_with_name_and_type() {
        let bytes = encode_to_vec(|w| {
            w.element_list(|e| {
                e.put("Role", 1u64);
                e.put("Position", None::<AsciiString<'_>>);
                e.no_data("Mark");
                e.array("Dictionaries", DataType::ASCII_STRING, 0, |a| a.put(AsciiString(b"RWFFld")));
            });
        })
        .expect("legal");
        let list = ElementList::parse(&bytes).expect("legal");
        let entries: Result<Vec<_>, _> = list.entries().collect();
        let entries = entries.expect("whole");
        assert_eq!(
            entries.iter().map(|e| e.name_lossy()).collect::<Vec<_>>(),
            ["Role", "Position", "Mark", "Dictionaries"]
        );
        assert_eq!(entries[0].value(), Ok(Value::UInt(1)));
        assert_eq!(entries[1].value(), Ok(Value::Blank(DataType::ASCII_STRING)));
        assert_eq!(entries[2].value(), Ok(Value::Blank(DataType::NO_DATA)));
        assert_eq!(entries[3].data_type, DataType::ARRAY);
    }

    #[test]
    fn a_container_element_must_be_a_container() {
        let refused = encode_to_vec(|w| w.element_list(|e| e.container("X", DataType::INT, |_| ())));
        assert_eq!(
            refused,
            Err(EncodeError::BadType { place: Place::ElementEntry, data_type: DataType::INT })
        );
    }
}

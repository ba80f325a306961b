use crate::dictionary::{Dictionary, Field};
use crate::set_def::{ElementSetDefs, FieldSetDefs};
use crate::{
    DataType, DecodeError, ElementList, FieldList, FilterEntry, FilterList, Map, MapEntry, Msg, Series,
    Value, Vector, VectorEntry,
};

/// How deep [`walk`] follows containers and messages inside each other. Market data needs less than ten.
pub const WALK_DEPTH_MAX: u32 = 32;

/// What [`walk`] comes across, in the order of the bytes.
#[non_exhaustive]
#[derive(Clone, Copy, Debug)]
pub enum Event<'e, 'a> {
    /// A message begins.
    Message(&'e Msg<'a>),
    /// The attributes of the message's key begin.
    Attributes,
    /// A field list begins.
    FieldList(&'e FieldList<'a>),
    /// An element list begins.
    ElementList(&'e ElementList<'a>),
    /// A filter list begins.
    FilterList(&'e FilterList<'a>),
    /// A map begins.
    Map(&'e Map<'a>),
    /// A series begins.
    Series(&'e Series<'a>),
    /// A vector begins.
    Vector(&'e Vector<'a>),
    /// A container without structure: opaque, XML, JSON, ANSI page, or of an unknown type.
    Bytes(DataType, &'a [u8]),
    /// The summary data of the container begins.
    Summary,
    /// A field.
    Field {
        /// Its id.
        id: i16,
        /// Its definition, if there is a dictionary that has one.
        field: Option<&'e Field>,
        /// Its value.
        value: Value<'a>,
    },
    /// An element.
    Element {
        /// Its name.
        name: &'a [u8],
        /// Its value.
        value: Value<'a>,
    },
    /// An item of an array that came just before.
    Item(Value<'a>),
    /// An entry of a filter list begins.
    FilterEntry(&'e FilterEntry<'a>),
    /// An entry of a map begins.
    MapEntry {
        /// The entry.
        entry: &'e MapEntry<'a>,
        /// Its key as a value.
        key: Value<'a>,
    },
    /// An entry of a series begins.
    SeriesEntry,
    /// An entry of a vector begins.
    VectorEntry(&'e VectorEntry<'a>),
}

/// Decodes a whole message with everything in it, and shows it to `visit` with its depth.
///
/// It recurses at most [`WALK_DEPTH_MAX`] levels; the work is bounded by depth times length. It serves logs,
/// tools and fuzzing, not the path of an update.
///
/// # Errors
/// The first thing that cannot be decoded; [`DecodeError::TooDeep`] for deeper nesting. What came before has
/// been shown.
pub fn walk<'a>(
    message: &'a [u8],
    dictionary: Option<&Dictionary>,
    mut visit: impl FnMut(u32, Event<'_, 'a>),
) -> Result<(), DecodeError> {
    Walk { dictionary, visit: &mut visit }.container(0, DataType::MSG, message, Sets::default())
}

/// Decodes a container with everything in it, as [`walk`] does for a message.
///
/// # Errors
/// As [`walk`].
pub fn walk_container<'a>(
    data_type: DataType,
    bytes: &'a [u8],
    dictionary: Option<&Dictionary>,
    mut visit: impl FnMut(u32, Event<'_, 'a>),
) -> Result<(), DecodeError> {
    Walk { dictionary, visit: &mut visit }.container(0, data_type, bytes, Sets::default())
}

type Walked = Result<(), DecodeError>;

struct Walk<'w, 'a> {
    dictionary: Option<&'w Dictionary>,
    visit: &'w mut dyn FnMut(u32, Event<'_, 'a>),
}

/// The definitions for the lists in a container.
#[derive(Clone, Copy, Default)]
struct Sets<'s, 'a> {
    fields: Option<&'s FieldSetDefs<'a>>,
    elements: Option<&'s ElementSetDefs<'a>>,
}

impl<'a> Walk<'_, 'a> {
    fn show(&mut self, depth: u32, event: Event<'_, 'a>) {
        (self.visit)(depth, event);
    }

    fn container(&mut self, depth: u32, data_type: DataType, bytes: &'a [u8], sets: Sets<'_, 'a>) -> Walked {
        if depth >= WALK_DEPTH_MAX {
            return Err(DecodeError::TooDeep { max_depth: WALK_DEPTH_MAX });
        }
        match data_type {
            DataType::NO_DATA => Ok(()),
            _ if bytes.is_empty() && data_type != DataType::MSG => Ok(()),
            DataType::MSG => self.message(depth, bytes),
            DataType::FIELD_LIST => self.field_list(depth, bytes, sets),
            DataType::ELEMENT_LIST => self.element_list(depth, bytes, sets),
            DataType::FILTER_LIST => self.filter_list(depth, bytes),
            DataType::MAP => self.map(depth, bytes),
            DataType::SERIES => self.series(depth, bytes),
            DataType::VECTOR => self.vector(depth, bytes),
            _ => {
                self.show(depth, Event::Bytes(data_type, bytes));
                Ok(())
            }
        }
    }

    fn message(&mut self, depth: u32, bytes: &'a [u8]) -> Walked {
        let msg = Msg::parse(bytes)?;
        self.show(depth, Event::Message(&msg));
        if let Some(attributes) = msg.key().and_then(|key| key.attributes) {
            self.show(depth + 1, Event::Attributes);
            self.container(depth + 2, attributes.container_type, attributes.data, Sets::default())?;
        }
        // A message without payload is legal whatever type its header names.
        match msg.payload() {
            [] => Ok(()),
            payload => self.container(depth + 1, msg.container_type(), payload, Sets::default()),
        }
    }

    fn field_list(&mut self, depth: u32, bytes: &'a [u8], sets: Sets<'_, 'a>) -> Walked {
        let list = FieldList::parse(bytes)?;
        self.show(depth, Event::FieldList(&list));
        for entry in list.all_entries(sets.fields) {
            let entry = entry?;
            let value = match self.dictionary {
                Some(dictionary) => entry.value(dictionary)?,
                None => Value::decode(entry.set_type, entry.content)?,
            };
            let field = self.dictionary.and_then(|dictionary| dictionary.field(entry.id));
            self.show(depth + 1, Event::Field { id: entry.id, field, value });
            self.inside(depth + 2, value)?;
        }
        Ok(())
    }

    fn element_list(&mut self, depth: u32, bytes: &'a [u8], sets: Sets<'_, 'a>) -> Walked {
        let list = ElementList::parse(bytes)?;
        self.show(depth, Event::ElementList(&list));
        for entry in list.all_entries(sets.elements) {
            let entry = entry?;
            let value = entry.value()?;
            self.show(depth + 1, Event::Element { name: entry.name, value });
            self.inside(depth + 2, value)?;
        }
        Ok(())
    }

    /// What is in a value: the items of an array, or a container.
    fn inside(&mut self, depth: u32, value: Value<'a>) -> Walked {
        match value {
            Value::Array(array) => array.values().try_for_each(|item| {
                self.show(depth, Event::Item(item?));
                Ok(())
            }),
            Value::Container(data_type, bytes) => self.container(depth, data_type, bytes, Sets::default()),
            _ => Ok(()),
        }
    }

    fn filter_list(&mut self, depth: u32, bytes: &'a [u8]) -> Walked {
        let list = FilterList::parse(bytes)?;
        self.show(depth, Event::FilterList(&list));
        for entry in list.entries() {
            let entry = entry?;
            self.show(depth + 1, Event::FilterEntry(&entry));
            let data = entry.data.unwrap_or(&[]);
            self.container(depth + 2, entry.container_type, data, Sets::default())?;
        }
        Ok(())
    }

    fn map(&mut self, depth: u32, bytes: &'a [u8]) -> Walked {
        let map = Map::parse(bytes)?;
        self.show(depth, Event::Map(&map));
        let container_type = map.container_type;
        self.counted(depth, container_type, map.set_definitions, map.summary, |walk, sets| {
            for entry in map.entries() {
                let entry = entry?;
                let key = Value::decode(map.key_type, entry.key)?;
                walk.show(depth + 1, Event::MapEntry { entry: &entry, key });
                walk.container(depth + 2, container_type, entry.data.unwrap_or(&[]), sets)?;
            }
            Ok(())
        })
    }

    fn series(&mut self, depth: u32, bytes: &'a [u8]) -> Walked {
        let series = Series::parse(bytes)?;
        self.show(depth, Event::Series(&series));
        let container_type = series.container_type;
        self.counted(depth, container_type, series.set_definitions, series.summary, |walk, sets| {
            // Entries without data take no bytes: to count them would be work that nobody sent.
            if container_type == DataType::NO_DATA {
                return Ok(());
            }
            for entry in series.entries() {
                walk.show(depth + 1, Event::SeriesEntry);
                walk.container(depth + 2, container_type, entry?, sets)?;
            }
            Ok(())
        })
    }

    fn vector(&mut self, depth: u32, bytes: &'a [u8]) -> Walked {
        let vector = Vector::parse(bytes)?;
        self.show(depth, Event::Vector(&vector));
        let container_type = vector.container_type;
        self.counted(depth, container_type, vector.set_definitions, vector.summary, |walk, sets| {
            for entry in vector.entries() {
                let entry = entry?;
                walk.show(depth + 1, Event::VectorEntry(&entry));
                walk.container(depth + 2, container_type, entry.data.unwrap_or(&[]), sets)?;
            }
            Ok(())
        })
    }

    /// Set definitions and summary of a container, then its entries.
    fn counted(
        &mut self,
        depth: u32,
        container_type: DataType,
        definitions: Option<&'a [u8]>,
        summary: Option<&'a [u8]>,
        entries: impl FnOnce(&mut Self, Sets<'_, 'a>) -> Walked,
    ) -> Walked {
        let fields = definitions.filter(|_| container_type == DataType::FIELD_LIST);
        let fields = fields.map(FieldSetDefs::parse).transpose()?;
        let elements = definitions.filter(|_| container_type == DataType::ELEMENT_LIST);
        let elements = elements.map(ElementSetDefs::parse).transpose()?;
        let sets = Sets { fields: fields.as_ref(), elements: elements.as_ref() };
        if let Some(summary) = summary {
            self.show(depth + 1, Event::Summary);
            self.container(depth + 2, container_type, summary, sets)?;
        }
        entries(self, sets)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{CloseMsg, Domain, encode_to_vec};

    /// A close message in a close message, and so on.
    fn nested(levels: u32) -> Vec<u8> {
        let innermost = CloseMsg::new(Domain::LOGIN, 1, DataType::NO_DATA);
        let mut bytes = encode_to_vec(|w| innermost.encode(w)).expect("small");
        for _ in 1..levels {
            let payload = std::mem::take(&mut bytes);
            let outer = CloseMsg { payload: &payload, ..CloseMsg::new(Domain::LOGIN, 1, DataType::MSG) };
            bytes = encode_to_vec(|w| outer.encode(w)).expect("no length limits it");
        }
        bytes
    }

    #[test]
    fn nesting_is_followed_down_to_the_limit_and_refused_below() {
        let mut messages = 0;
        assert_eq!(walk(&nested(WALK_DEPTH_MAX), None, |_, _| messages += 1), Ok(()));
        assert_eq!(messages, WALK_DEPTH_MAX);
        for levels in [WALK_DEPTH_MAX + 1, 1000] {
            let mut messages = 0;
            let refused = DecodeError::TooDeep { max_depth: WALK_DEPTH_MAX };
            assert_eq!(walk(&nested(levels), None, |_, _| messages += 1), Err(refused));
            assert_eq!(messages, WALK_DEPTH_MAX);
        }
    }

    #[test]
    fn entries_that_take_no_bytes_cost_no_work() {
        let mut events = 0;
        walk_container(DataType::SERIES, &[0, 0, 0xFF, 0xFF], None, |_, _| events += 1).expect("legal");
        assert_eq!(events, 1);
    }
}

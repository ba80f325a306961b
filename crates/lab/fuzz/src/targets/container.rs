//! Containers: every entry is written again as it was read, and the copy is held against the original.

use rwf::{
    DataType, DecodeError, ElementList, ElementListHead, EncodeError, Encoded, Event, FieldList,
    FieldListHead, FilterList, Map, MapHead, Place, Series, SeriesHead, SetDefinitions, SetHead, Vector,
    VectorHead, Writer, walk_container,
};

use super::{DICTIONARY, value};
use crate::Outcome;

/// A copy may be longer by this: the length of set data is always written in two bytes.
const COPY_MORE_BYTES: usize = 8;

pub(super) fn execute(data_type: DataType, input: &[u8]) -> Outcome {
    if input.is_empty() {
        return Outcome::refused("nothing at all is an empty container of any type");
    }
    let walked = walked(data_type, input);
    let copied = copy(data_type, input);
    match &copied {
        Ok(copy) => {
            assert!(copy.len() <= input.len() + COPY_MORE_BYTES, "{} of {}", copy.len(), input.len());
            assert_same(data_type, input, copy);
            assert_eq!(self::walked(data_type, copy), walked, "the copy of a {data_type}");
        }
        Err(CopyError::BlankKey) => {}
        Err(CopyError::Decode(error)) => assert!(walked.is_err(), "a walk does not come across {error}"),
    }
    Outcome::of(&walked, |seen| (seen.events.ilog2(), seen.kinds))
}

/// What a walk comes across.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Seen {
    pub(super) events: u32,
    /// A bit for each kind of event.
    pub(super) kinds: u32,
}

fn walked(data_type: DataType, input: &[u8]) -> Result<Seen, DecodeError> {
    let mut seen = Seen { events: 1, kinds: 0 };
    let ended = walk_container(data_type, input, Some(&DICTIONARY), |_, event| seen.take(&event));
    seen.check(input);
    ended.map(|()| seen)
}

impl Seen {
    pub(super) fn take(&mut self, event: &Event<'_, '_>) {
        self.events += 1;
        self.kinds |= 1 << kind(event);
        if let Event::Field { value, .. } | Event::Element { value, .. } = event {
            value::assert_reads_again(*value);
        }
    }

    /// Each event has at least a byte of its own, so that work is in proportion to length.
    pub(super) fn check(&self, input: &[u8]) {
        assert!(self.events as usize <= 2 * input.len() + 2, "{} of {} bytes", self.events, input.len());
    }
}

fn kind(event: &Event<'_, '_>) -> u32 {
    match event {
        Event::Message(_) => 0,
        Event::Attributes => 1,
        Event::FieldList(_) => 2,
        Event::ElementList(_) => 3,
        Event::FilterList(_) => 4,
        Event::Map(_) => 5,
        Event::Series(_) => 6,
        Event::Vector(_) => 7,
        Event::Bytes(..) => 8,
        Event::Summary => 9,
        Event::Field { .. } => 10,
        Event::Element { .. } => 11,
        Event::Item(_) => 12,
        Event::FilterEntry(_) => 13,
        Event::MapEntry { .. } => 14,
        Event::SeriesEntry => 15,
        Event::VectorEntry(_) => 16,
        _ => 17,
    }
}

/// Why there is no copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CopyError {
    /// The original cannot be read.
    Decode(DecodeError),
    /// A map has a key without content, which is read and not written.
    BlankKey,
}

impl From<DecodeError> for CopyError {
    fn from(error: DecodeError) -> Self {
        CopyError::Decode(error)
    }
}

fn copy(data_type: DataType, input: &[u8]) -> Result<Vec<u8>, CopyError> {
    let mut buffer = vec![0; input.len() + COPY_MORE_BYTES];
    let mut w = Writer::new(&mut buffer);
    match data_type {
        DataType::FIELD_LIST => copy_field_list(&FieldList::parse(input)?, &mut w)?,
        DataType::ELEMENT_LIST => copy_element_list(&ElementList::parse(input)?, &mut w)?,
        DataType::FILTER_LIST => copy_filter_list(&FilterList::parse(input)?, &mut w)?,
        DataType::MAP => copy_map(&Map::parse(input)?, &mut w)?,
        DataType::SERIES => copy_series(&Series::parse(input)?, &mut w)?,
        DataType::VECTOR => copy_vector(&Vector::parse(input)?, &mut w)?,
        other => panic!("{other} is not copied"),
    }
    match w.status() {
        Ok(length) => {
            buffer.truncate(length);
            Ok(buffer)
        }
        Err(EncodeError::Blank { place: Place::MapKey }) => Err(CopyError::BlankKey),
        Err(error) => panic!("what was read cannot be written: {error}"),
    }
}

/// The first entry that cannot be read.
fn check<T>(mut entries: impl Iterator<Item = Result<T, DecodeError>>) -> Result<(), DecodeError> {
    entries.try_for_each(|entry| entry.map(|_| ()))
}

fn copy_field_list(list: &FieldList<'_>, w: &mut Writer<'_>) -> Result<(), DecodeError> {
    check(list.entries())?;
    let set = list.set_data.map(|set| SetHead { explicit_id: set.explicit_id, entries: &[][..] });
    w.field_list_with(&FieldListHead { info: list.info, set }, |f| {
        list.set_data.iter().for_each(|set| f.put_set_encoded(set.bytes));
        if list.has_standard_data() {
            f.begin_standard();
        }
        list.entries().flatten().for_each(|entry| f.encoded(entry.id, entry.content));
    });
    Ok(())
}

fn copy_element_list(list: &ElementList<'_>, w: &mut Writer<'_>) -> Result<(), DecodeError> {
    check(list.entries())?;
    let set = list.set_data.map(|set| SetHead { explicit_id: set.explicit_id, entries: &[][..] });
    w.element_list_with(&ElementListHead { list_number: list.list_number, set }, |e| {
        list.set_data.iter().for_each(|set| e.put_set_encoded(set.bytes));
        if list.has_standard_data() {
            e.begin_standard();
        }
        for entry in list.entries().flatten() {
            match entry.data_type {
                DataType::NO_DATA => e.no_data(entry.name),
                data_type => e.put(entry.name, Encoded { data_type, content: entry.content }),
            }
        }
    });
    Ok(())
}

fn copy_filter_list(list: &FilterList<'_>, w: &mut Writer<'_>) -> Result<(), DecodeError> {
    check(list.entries())?;
    w.filter_list(list.container_type, list.total_count_hint, |f| {
        for entry in list.entries().flatten() {
            let data = entry.data.unwrap_or_default();
            let (explicit_type, permission_data) = (entry.explicit_type, entry.permission_data);
            f.entry_with(entry.action, entry.id, explicit_type, permission_data, |w| w.bytes(data));
        }
    });
    Ok(())
}

fn copy_map(map: &Map<'_>, w: &mut Writer<'_>) -> Result<(), DecodeError> {
    check(map.entries())?;
    let head = MapHead {
        key_type: map.key_type,
        container_type: map.container_type,
        key_field_id: map.key_field_id,
        total_count_hint: map.total_count_hint,
        set_definitions: map.set_definitions.map(SetDefinitions::Encoded),
    };
    w.map(&head, |m| {
        map.summary.iter().for_each(|summary| m.summary(|w| w.bytes(summary)));
        for entry in map.entries().flatten() {
            let key = Encoded { data_type: map.key_type, content: entry.key };
            let data = entry.data.unwrap_or_default();
            m.entry(entry.action, key, entry.permission_data, |w| w.bytes(data));
        }
    });
    Ok(())
}

fn copy_series(series: &Series<'_>, w: &mut Writer<'_>) -> Result<(), DecodeError> {
    check(series.entries())?;
    let head = SeriesHead {
        container_type: series.container_type,
        total_count_hint: series.total_count_hint,
        set_definitions: series.set_definitions.map(SetDefinitions::Encoded),
    };
    w.series(&head, |s| {
        series.summary.iter().for_each(|summary| s.summary(|w| w.bytes(summary)));
        series.entries().flatten().for_each(|entry| s.entry(|w| w.bytes(entry)));
    });
    Ok(())
}

fn copy_vector(vector: &Vector<'_>, w: &mut Writer<'_>) -> Result<(), DecodeError> {
    check(vector.entries())?;
    let head = VectorHead {
        container_type: vector.container_type,
        total_count_hint: vector.total_count_hint,
        supports_sorting: vector.supports_sorting,
        set_definitions: vector.set_definitions.map(SetDefinitions::Encoded),
    };
    w.vector(&head, |v| {
        vector.summary.iter().for_each(|summary| v.summary(|w| w.bytes(summary)));
        for entry in vector.entries().flatten() {
            let data = entry.data.unwrap_or_default();
            v.entry(entry.action, entry.index, entry.permission_data, |w| w.bytes(data));
        }
    });
    Ok(())
}

/// Holds heads and entries of a copy against those of the original, but for what only says what may come.
fn assert_same(data_type: DataType, original: &[u8], copy: &[u8]) {
    macro_rules! same {
        ($container:ident, |$list:ident| $head:expr) => {{
            let [original, copy] =
                [original, copy].map(|bytes| $container::parse(bytes).expect("read before"));
            let head = |$list: &$container<'_>| format!("{:?}", $head);
            assert_eq!(head(&original), head(&copy));
            assert!(original.entries().eq(copy.entries()), "{original:?}, copied {copy:?}");
        }};
    }
    match data_type {
        DataType::FIELD_LIST => same!(FieldList, |l| (l.info, l.set_data, l.standard_count())),
        DataType::ELEMENT_LIST => same!(ElementList, |l| (l.list_number, l.set_data, l.standard_count())),
        DataType::FILTER_LIST => same!(FilterList, |l| (l.container_type, l.total_count_hint, l.count())),
        DataType::MAP => same!(Map, |m| {
            let types = (m.key_type, m.container_type, m.key_field_id);
            (types, m.set_definitions, m.summary, m.total_count_hint, m.count())
        }),
        DataType::SERIES => same!(Series, |s| {
            (s.container_type, s.set_definitions, s.summary, s.total_count_hint, s.count())
        }),
        _ => same!(Vector, |v| {
            let parts = (v.set_definitions, v.summary, v.total_count_hint);
            (v.container_type, parts, v.supports_sorting, v.count())
        }),
    }
}

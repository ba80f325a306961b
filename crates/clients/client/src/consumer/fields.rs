//! Fields of a payload by id and by name.

use std::borrow::Cow;
use std::cell::{Cell, OnceCell};
use std::fmt;

pub use rwf::FieldRef;
use rwf::dictionary::Field;
use rwf::{DataType, DecodeError, Dictionary, FieldEntries, FieldEntry, FieldList, Place, Value};

/// The id of a field, looked up once by [`ConsumerCore::field_id`](crate::ConsumerCore::field_id) or written
/// down: 22 is `BID`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FieldId(pub i16);

impl FieldRef for FieldId {
    #[inline]
    fn resolve(&self, _: Option<&Dictionary>) -> Option<i16> {
        Some(self.0)
    }
}

/// One field of a message: its definition and its value.
#[derive(Clone, Copy, Debug)]
pub struct FieldView<'a> {
    /// The id.
    pub id: FieldId,
    /// The value; [`Value::Unknown`] if no dictionary knows the field.
    pub value: Value<'a>,
    dictionary: Option<&'a Dictionary>,
}

impl<'a> FieldView<'a> {
    /// What the dictionary says about the field.
    #[must_use]
    pub fn definition(&self) -> Option<&'a Field> {
        self.dictionary?.field(self.id.0)
    }

    /// The name; empty if no dictionary knows the field.
    #[must_use]
    pub fn name(&self) -> &'a str {
        self.definition().map_or("", |field| &field.name)
    }

    /// What is shown for the value of an enumerated field.
    #[must_use]
    pub fn enum_display(&self) -> Option<&'a [u8]> {
        match self.value {
            Value::Enum(value) => self.dictionary?.enum_display(self.id.0, value.0),
            _ => None,
        }
    }

    /// The value as text: what is shown for an enumerated value, the text of texts, digits of numbers; empty
    /// for a blank.
    #[must_use]
    pub fn text(&self) -> Cow<'a, str> {
        text_of(self.value, self.id.0, self.dictionary)
    }
}

impl fmt::Display for FieldView<'_> {
    /// `BID=40.07`; `9999=0x0d05` where no dictionary knows the field.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_name(f, self.id, self.name())?;
        match self.enum_display() {
            Some(display) => write!(f, "={}", String::from_utf8_lossy(display).escape_debug()),
            None => write!(f, "={}", self.value),
        }
    }
}

fn write_name(f: &mut fmt::Formatter<'_>, id: FieldId, name: &str) -> fmt::Result {
    if name.is_empty() { write!(f, "{}", id.0) } else { f.write_str(name) }
}

/// A field whose content is not of its type: its provider has written something else.
#[derive(Clone, Copy, Debug)]
pub struct UnreadableField<'a> {
    /// The id; `None` if the message ends in the midst of its fields: nothing more comes.
    pub id: Option<FieldId>,
    /// The type that the dictionary, or a set definition, gives it.
    pub data_type: DataType,
    /// The content.
    pub content: &'a [u8],
    /// Why it cannot be read.
    pub error: DecodeError,
    dictionary: Option<&'a Dictionary>,
}

impl<'a> UnreadableField<'a> {
    /// The name; empty if no dictionary knows the field.
    #[must_use]
    pub fn name(&self) -> &'a str {
        let definition = self.id.and_then(|id| self.dictionary?.field(id.0));
        definition.map_or("", |field| &field.name)
    }
}

impl fmt::Display for UnreadableField<'_> {
    /// `BID cannot be read as REAL: real hint: value 31, at most 30; its bytes: 0x1f01`
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(id) = self.id else { return write!(f, "no more fields can be read: {}", self.error) };
        write_name(f, id, self.name())?;
        let content = Value::Unknown(self.content);
        write!(f, " cannot be read as {}: {}; its bytes: {content}", self.data_type, self.error)
    }
}

impl std::error::Error for UnreadableField<'_> {}

/// The fields of a list, in the order of the message. After an error of the list itself it ends; one that says
/// that a field cannot be read costs that field alone, which [`Fields::or_raw`] names.
#[derive(Clone, Debug)]
pub struct Fields<'a, I = FieldEntries<'a>> {
    entries: I,
    dictionary: Option<&'a Dictionary>,
}

impl<'a, I> Fields<'a, I> {
    pub(crate) fn new(entries: I, dictionary: Option<&'a Dictionary>) -> Self {
        Fields { entries, dictionary }
    }

    /// The same fields; one that cannot be read comes with its name and its bytes.
    #[must_use]
    pub fn or_raw(self) -> FieldsOrRaw<'a, I> {
        FieldsOrRaw(self)
    }
}

/// The fields of a list, and those that cannot be read with their names and bytes; made by [`Fields::or_raw`].
#[derive(Clone, Debug)]
pub struct FieldsOrRaw<'a, I = FieldEntries<'a>>(Fields<'a, I>);

impl<'a, I: Iterator<Item = Result<FieldEntry<'a>, DecodeError>>> Iterator for FieldsOrRaw<'a, I> {
    type Item = Result<FieldView<'a>, UnreadableField<'a>>;

    fn next(&mut self) -> Option<Self::Item> {
        let dictionary = self.0.dictionary;
        let unreadable = |id, data_type, content, error| {
            Some(Err(UnreadableField { id, data_type, content, error, dictionary }))
        };
        let entry = match self.0.entries.next()? {
            Ok(entry) => entry,
            Err(error) => return unreadable(None, DataType::UNKNOWN, &[], error),
        };
        let id = FieldId(entry.id);
        match value_of(&entry, dictionary) {
            Ok(value) => Some(Ok(FieldView { id, value, dictionary })),
            Err(error) => {
                let data_type = dictionary.map_or(entry.set_type, |known| entry.data_type(known));
                unreadable(Some(id), data_type, entry.content, error)
            }
        }
    }
}

impl<'a, I: Iterator<Item = Result<FieldEntry<'a>, DecodeError>>> Iterator for Fields<'a, I> {
    type Item = Result<FieldView<'a>, DecodeError>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let entry = match self.entries.next()? {
            Ok(entry) => entry,
            Err(error) => return Some(Err(error)),
        };
        let dictionary = self.dictionary;
        Some(value_of(&entry, dictionary).map(|value| FieldView { id: FieldId(entry.id), value, dictionary }))
    }
}

#[inline]
pub(crate) fn value_of<'a>(
    entry: &FieldEntry<'a>,
    dictionary: Option<&Dictionary>,
) -> Result<Value<'a>, DecodeError> {
    match dictionary {
        Some(dictionary) => entry.value(dictionary),
        None => Value::decode(entry.set_type, entry.content),
    }
}

/// The head of a field list; no payload at all is an empty one.
pub(crate) fn field_list(container_type: DataType, payload: &[u8]) -> Result<FieldList<'_>, DecodeError> {
    match container_type {
        DataType::FIELD_LIST => FieldList::parse(payload),
        DataType::NO_DATA => FieldList::parse(&[]),
        data_type => Err(DecodeError::BadType { place: Place::FieldList, data_type }),
    }
}

/// A value as text; empty for a blank.
pub(crate) fn text_of<'a>(value: Value<'a>, id: i16, dictionary: Option<&'a Dictionary>) -> Cow<'a, str> {
    match value {
        Value::Blank(_) => Cow::Borrowed(""),
        Value::Ascii(text) => String::from_utf8_lossy(text.0),
        Value::Utf8(text) => String::from_utf8_lossy(text.0),
        Value::Buffer(bytes) => String::from_utf8_lossy(bytes.0),
        Value::Rmtes(text) => text.text().unwrap_or_else(|_| String::from_utf8_lossy(text.0)),
        Value::Enum(number) => match dictionary.and_then(|known| known.enum_display(id, number.0)) {
            Some(display) => rwf::rmtes::text(display),
            None => Cow::Owned(number.to_string()),
        },
        other => Cow::Owned(other.to_string()),
    }
}

/// Where the fields of the message at hand stand, by id.
///
/// A message is passed over once, as far as it is needed; what was passed is found by its id with two array
/// accesses. One index serves all messages: the epoch tells whose entry a place is. Pages of 2 KiB are made
/// when an id of theirs comes for the first time.
pub(crate) struct FieldIndex {
    pages: Box<[OnceCell<Box<Page>>; PAGES]>,
    epoch: Cell<u16>,
}

/// By the low byte of the field id: position of the content (32 bits), its length (16), epoch (16).
type Page = [Cell<u64>; 256];
const PAGES: usize = 256;

impl Default for FieldIndex {
    fn default() -> Self {
        FieldIndex { pages: Box::new([const { OnceCell::new() }; PAGES]), epoch: Cell::new(0) }
    }
}

impl FieldIndex {
    /// Begins with another message.
    fn begin(&self) -> u16 {
        let epoch = self.epoch.get().wrapping_add(1);
        if epoch == 0 {
            self.pages
                .iter()
                .filter_map(OnceCell::get)
                .flat_map(|page| page.iter())
                .for_each(|place| place.set(0));
        }
        self.epoch.set(epoch.max(1));
        epoch.max(1)
    }

    #[inline]
    fn get<'a>(&self, epoch: u16, id: i16, payload: &'a [u8]) -> Option<&'a [u8]> {
        let [page, at] = id.to_be_bytes();
        let place = self.pages[usize::from(page)].get()?[usize::from(at)].get();
        if place as u16 != epoch {
            return None;
        }
        let (at, length) = ((place >> 32) as usize, (place >> 16) as u16);
        payload.get(at..at + usize::from(length))
    }

    /// Remembers a content; of a field that is there twice the first.
    #[inline]
    fn note(&self, epoch: u16, entry: &FieldEntry<'_>, payload: &[u8]) {
        let [page, at] = entry.id.to_be_bytes();
        let page = self.pages[usize::from(page)].get_or_init(|| Box::new([const { Cell::new(0) }; 256]));
        let place = &page[usize::from(at)];
        if place.get() as u16 == epoch {
            return;
        }
        // Both are addresses in the same payload, which is shorter than 4 GiB.
        let at = entry.content.as_ptr().addr() - payload.as_ptr().addr();
        place.set((at as u64) << 32 | (entry.content.len() as u64) << 16 | u64::from(epoch));
    }
}

/// How far one message was passed over.
#[derive(Default)]
pub(crate) struct FieldScan<'a> {
    progress: Cell<Option<(u16, FieldEntries<'a>)>>,
}

impl<'a> FieldScan<'a> {
    /// The content of a field, with the help of an index if there is one.
    pub(crate) fn find(
        &self,
        index: Option<&FieldIndex>,
        container_type: DataType,
        payload: &'a [u8],
        id: i16,
    ) -> Result<Option<&'a [u8]>, DecodeError> {
        let Some(index) = index else {
            return find_among(&mut field_list(container_type, payload)?.entries(), id, |_| ());
        };
        let (epoch, mut entries) = match self.progress.take() {
            Some((epoch, entries)) if epoch == index.epoch.get() => {
                if let Some(content) = index.get(epoch, id, payload) {
                    self.progress.set(Some((epoch, entries)));
                    return Ok(Some(content));
                }
                (epoch, entries)
            }
            _ => {
                let entries = field_list(container_type, payload)?.entries();
                (index.begin(), entries)
            }
        };
        let found = find_among(&mut entries, id, |entry| index.note(epoch, entry, payload))?;
        self.progress.set(Some((epoch, entries)));
        Ok(found)
    }
}

fn find_among<'a>(
    entries: &mut FieldEntries<'a>,
    id: i16,
    passed: impl Fn(&FieldEntry<'a>),
) -> Result<Option<&'a [u8]>, DecodeError> {
    for entry in entries {
        let entry = entry?;
        passed(&entry);
        if entry.id == id {
            return Ok(Some(entry.content));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rwf::{Real, encode_to_vec};

    fn list(ids: &[i16]) -> Vec<u8> {
        encode_to_vec(|w| {
            w.field_list(|f| ids.iter().for_each(|id| f.put(*id, Real::decimal((*id).into(), 0))))
        })
        .expect("legal")
    }

    fn content(id: i16) -> Vec<u8> {
        let bytes = list(&[id]);
        FieldList::parse(&bytes)
            .expect("legal")
            .entries()
            .next()
            .expect("one")
            .expect("whole")
            .content
            .to_vec()
    }

    /// Looks a field up in a message of its own, which is passed over before.
    fn found(index: &FieldIndex, payload: &[u8], id: i16) -> Option<Vec<u8>> {
        let scan = FieldScan::default();
        scan.find(Some(index), DataType::FIELD_LIST, payload, 1).expect("legal");
        scan.find(Some(index), DataType::FIELD_LIST, payload, id).expect("legal").map(<[u8]>::to_vec)
    }

    #[test]
    fn fields_are_found_in_any_order_and_absent_ones_are_not() {
        let index = FieldIndex::default();
        let payload = list(&[22, 25, -1, 6, i16::MIN, i16::MAX]);
        let scan = FieldScan::default();
        for _ in 0..2 {
            for id in [6, 22, i16::MAX, 25, -1, i16::MIN] {
                let found = scan.find(Some(&index), DataType::FIELD_LIST, &payload, id).expect("legal");
                assert_eq!(found, Some(&content(id)[..]), "{id}");
            }
            let absent = scan.find(Some(&index), DataType::FIELD_LIST, &payload, 7).expect("legal");
            assert_eq!(absent, None);
        }
    }

    #[test]
    fn a_field_of_an_earlier_message_is_not_found_in_a_later_one_however_many_come_between() {
        let index = FieldIndex::default();
        assert_eq!(found(&index, &list(&[22]), 22), Some(content(22)));
        let other = list(&[25]);
        for _ in 0..70_000 {
            assert_eq!(found(&index, &other, 22), None);
        }
        assert_eq!(found(&index, &other, 25), Some(content(25)));
    }

    #[test]
    fn two_messages_looked_at_in_turn_do_not_see_each_others_fields() {
        let index = FieldIndex::default();
        let (first, second) = (list(&[22, 25]), list(&[30, 25, 6]));
        let (a, b) = (FieldScan::default(), FieldScan::default());
        for _ in 0..3 {
            assert!(a.find(Some(&index), DataType::FIELD_LIST, &first, 25).expect("legal").is_some());
            assert!(b.find(Some(&index), DataType::FIELD_LIST, &second, 6).expect("legal").is_some());
            assert!(a.find(Some(&index), DataType::FIELD_LIST, &first, 25).expect("legal").is_some());
            assert!(b.find(Some(&index), DataType::FIELD_LIST, &second, 22).expect("legal").is_none());
            assert!(a.find(Some(&index), DataType::FIELD_LIST, &first, 30).expect("legal").is_none());
        }
    }

    #[test]
    fn a_field_that_cannot_be_read_is_named_with_its_bytes_and_costs_no_other() {
        let mut dictionary = Dictionary::new();
        let fields = b"BID \"BID\" 22 NULL PRICE 17 REAL64 7\nASK \"ASK\" 25 NULL PRICE 17 REAL64 7\n";
        dictionary.load_fields(fields).expect("well written");
        let bytes = encode_to_vec(|w| {
            w.field_list(|f| {
                f.put(22, 7937u64);
                f.put(25, Real::decimal(4007, 2));
                f.encoded(-1, &[13, 5]);
            });
        })
        .expect("small");
        let shown = |payload: &[u8]| {
            let list = field_list(DataType::FIELD_LIST, payload).expect("a head");
            let shown = |field: Result<FieldView<'_>, UnreadableField<'_>>| match field {
                Ok(field) => field.to_string(),
                Err(field) => field.to_string(),
            };
            Fields::new(list.entries(), Some(&dictionary)).or_raw().map(shown).collect::<Vec<_>>()
        };
        let unreadable = "BID cannot be read as REAL: real hint: value 31, at most 30; its bytes: 0x1f01";
        assert_eq!(shown(&bytes), [unreadable, "ASK=40.07", "-1=0x0d05"]);
        let cut = shown(&bytes[..bytes.len() - 1]);
        let end = "no more fields can be read: field list entry: 2 bytes needed, 1 left";
        assert_eq!(cut, [unreadable, "ASK=40.07", end]);
    }

    #[test]
    fn without_an_index_the_message_is_searched() {
        let payload = list(&[22, 25]);
        let scan = FieldScan::default();
        let find = |id| scan.find(None, DataType::FIELD_LIST, &payload, id).expect("legal");
        assert_eq!((find(25), find(6)), (Some(&content(25)[..]), None));
    }

    #[test]
    fn a_list_that_is_cut_off_is_an_error_each_time_and_another_container_too() {
        let index = FieldIndex::default();
        let whole = list(&[22, 25]);
        let cut = &whole[..whole.len() - 1];
        let scan = FieldScan::default();
        for _ in 0..2 {
            assert!(scan.find(Some(&index), DataType::FIELD_LIST, cut, 25).is_err());
        }
        assert!(scan.find(Some(&index), DataType::MAP, &whole, 22).is_err());
        let nothing = scan.find(Some(&index), DataType::NO_DATA, &[], 22);
        assert_eq!(nothing, Ok(None));
    }
}

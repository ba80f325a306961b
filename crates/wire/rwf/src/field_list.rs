use crate::dictionary::Dictionary;
use crate::list::{ListWriter, SetData, SetHead, StandardData, parse_list};
use crate::primitive::{ArrayWriter, Blank, Encoded, Packed, Primitive, SelfSizedBlank, take_set_value};
use crate::reader::Reader;
use crate::set_def::{FieldSetDefs, FieldSetEntry, SetEntries};
use crate::{DataType, DecodeError, FieldRef, Place, Value, Writer};

/// Fields by id: the payload of market data. Only the head is checked when it is parsed; entries are when
/// they are read.
///
/// Shape: flags `u8` (1 information, 2 set data, 4 set id, 8 standard data); \[information length `u8`,
/// dictionary id `u15rb`, list number `u16`\]; \[set id `u15rb`, set data, behind a `u15rb` length if
/// standard data follows\]; \[count `u16`, entries of field id `i16` and content behind a `u16ob` length\].
/// Source: RWF 14.1, FieldList.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FieldList<'a> {
    /// Dictionary and template, if said.
    pub info: Option<FieldListInfo>,
    /// Values that a set definition names, if any.
    pub set_data: Option<SetData<'a>>,
    standard: Option<StandardData<'a>>,
}

/// What a field list says about itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FieldListInfo {
    /// The dictionary, usually 1; 0 is the one in use. At most 32767.
    pub dictionary_id: u16,
    /// The record template, 0 when unknown.
    pub list_number: u16,
}

/// One field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FieldEntry<'a> {
    /// The field id; negative ones are user defined.
    pub id: i16,
    /// The type if a set definition says it, else [`DataType::UNKNOWN`]: the dictionary knows.
    pub set_type: DataType,
    /// The content; empty is the blank.
    pub content: &'a [u8],
}

impl<'a> FieldList<'a> {
    /// Takes the list apart. No bytes at all are an empty list.
    ///
    /// # Errors
    /// [`DecodeError::Truncated`] if a part of the head is longer than the list.
    #[inline]
    pub fn parse(bytes: &'a [u8]) -> Result<FieldList<'a>, DecodeError> {
        let parts = parse_list(bytes, Place::FieldList)?;
        let info = match parts.info {
            Some(info) => Some(FieldListInfo::read(info)?),
            None => None,
        };
        Ok(FieldList { info, set_data: parts.set_data, standard: parts.standard })
    }

    /// Whether there is a part for standard data, even an empty one.
    #[must_use]
    pub fn has_standard_data(&self) -> bool {
        self.standard.is_some()
    }

    /// The number of entries that name themselves.
    #[inline]
    #[must_use]
    pub fn standard_count(&self) -> u16 {
        self.standard.map_or(0, |standard| standard.count)
    }

    /// The entries that name themselves: all there are, unless there is set data.
    #[inline]
    #[must_use]
    pub fn entries(&self) -> FieldEntries<'a> {
        match self.standard {
            Some(StandardData { count, entries }) => {
                FieldEntries { left: count, reader: Reader::new(entries) }
            }
            None => FieldEntries { left: 0, reader: Reader::new(&[]) },
        }
    }

    /// The entries of the set data, by the definitions of the enclosing container; none if the set is not
    /// among them.
    #[must_use]
    pub fn set_entries(&self, defs: &FieldSetDefs<'a>) -> FieldSetValues<'a> {
        let found = self.set_data.and_then(|set| Some((set.bytes, defs.get(set.id())?)));
        let Some((bytes, entries)) = found else {
            return FieldSetValues {
                entries: None,
                blank: SelfSizedBlank::OneByte,
                reader: Reader::new(&[]),
            };
        };
        let blank = entries.self_sized_blank(bytes);
        FieldSetValues { entries: Some(entries), blank, reader: Reader::new(bytes) }
    }

    /// All entries: those of the set data first.
    pub fn all_entries(
        &self,
        defs: Option<&FieldSetDefs<'a>>,
    ) -> impl Iterator<Item = Result<FieldEntry<'a>, DecodeError>> + use<'a> {
        defs.map(|defs| self.set_entries(defs)).into_iter().flatten().chain(self.entries())
    }
}

impl FieldListInfo {
    fn read(bytes: &[u8]) -> Result<FieldListInfo, DecodeError> {
        let mut r = Reader::new(bytes);
        let dictionary_id = r.u15rb(Place::Info)?;
        Ok(FieldListInfo { dictionary_id, list_number: r.u16(Place::Info)? })
    }
}

impl<'a> FieldEntry<'a> {
    /// The type: what a set definition says, else the dictionary, else [`DataType::UNKNOWN`].
    #[inline]
    #[must_use]
    pub fn data_type(&self, dictionary: &Dictionary) -> DataType {
        match self.set_type {
            DataType::UNKNOWN => dictionary.data_type(self.id),
            set_type => set_type,
        }
    }

    /// The value; [`Value::Unknown`] if neither a set definition nor the dictionary knows the field.
    ///
    /// # Errors
    /// As [`Value::decode`].
    #[inline(always)]
    pub fn value(&self, dictionary: &Dictionary) -> Result<Value<'a>, DecodeError> {
        Value::decode(self.data_type(dictionary), self.content)
    }
}

/// The entries of standard data, in order. After an error it ends.
#[derive(Clone, Debug)]
pub struct FieldEntries<'a> {
    left: u16,
    reader: Reader<'a>,
}

impl<'a> FieldEntries<'a> {
    /// The next entry if its content has at most 15 bytes, behind a length of one byte: its id, then length and
    /// content as they stand there, with whatever is behind them. So many short values are copied without a call for
    /// each. Where it returns none, [`Iterator::next`] reads what follows.
    #[inline]
    pub fn next_short(&mut self) -> Option<(i16, [u8; 16])> {
        let (id, rest) = self.reader.rest().split_first_chunk()?;
        let encoded = rest.first_chunk().map_or_else(|| padded(rest), |encoded| *encoded);
        let length = usize::from(encoded[0]);
        if length >= encoded.len() || self.left == 0 {
            return None;
        }
        self.reader = Reader::new(rest.get(1 + length..)?);
        self.left -= 1;
        Some((i16::from_be_bytes(*id), encoded))
    }

    #[inline]
    fn read(&mut self) -> Result<FieldEntry<'a>, DecodeError> {
        let id = self.reader.i16(Place::FieldEntry)?;
        let content = self.reader.buf16(Place::FieldEntry)?;
        Ok(FieldEntry { id, set_type: DataType::UNKNOWN, content })
    }
}

/// The last bytes of a list, and nothing behind them.
#[inline(never)]
fn padded(rest: &[u8]) -> [u8; 16] {
    let mut encoded = [0; 16];
    encoded[..rest.len()].copy_from_slice(rest);
    encoded
}

impl<'a> Iterator for FieldEntries<'a> {
    type Item = Result<FieldEntry<'a>, DecodeError>;

    #[inline]
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
pub struct FieldSetValues<'a> {
    entries: Option<SetEntries<'a, FieldSetEntry>>,
    blank: SelfSizedBlank,
    reader: Reader<'a>,
}

impl<'a> Iterator for FieldSetValues<'a> {
    type Item = Result<FieldEntry<'a>, DecodeError>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let FieldSetEntry { id, data_type } = self.entries.as_mut()?.next()?;
        let content = take_set_value(&mut self.reader, data_type, self.blank);
        if content.is_err() {
            self.entries = None;
        }
        Some(content.map(|content| FieldEntry { id, set_type: data_type, content }))
    }
}

/// What a field list begins with.
#[derive(Clone, Copy, Debug, Default)]
pub struct FieldListHead<'a> {
    /// Dictionary and template.
    pub info: Option<FieldListInfo>,
    /// The set data that comes first.
    pub set: Option<SetHead<'a, FieldSetEntry>>,
}

/// Writes the entries of a field list; made by [`Writer::field_list`].
#[derive(Debug)]
pub struct FieldListWriter<'w, 'b, 's> {
    list: ListWriter<'w, 'b, 's, FieldSetEntry>,
    /// The writer's, at hand for each field.
    dictionary: Option<&'b Dictionary>,
}

impl Writer<'_> {
    /// Writes a field list of standard data.
    #[inline]
    pub fn field_list(&mut self, write: impl FnOnce(&mut FieldListWriter<'_, '_, '_>)) {
        let dictionary = self.dictionary;
        let mut fields = FieldListWriter { list: ListWriter::begin(self), dictionary };
        write(&mut fields);
        fields.list.end();
    }

    /// Writes a field list with information about itself, or with set data, in front.
    pub fn field_list_with(
        &mut self,
        head: &FieldListHead<'_>,
        write: impl FnOnce(&mut FieldListWriter<'_, '_, '_>),
    ) {
        let dictionary = self.dictionary;
        let mut list = ListWriter::begin(self);
        let info = head.info.map(|info| {
            move |w: &mut Writer<'_>| {
                w.u15rb(info.dictionary_id, Place::Info);
                w.u16(info.list_number);
            }
        });
        list.head(info, head.set);
        let mut fields = FieldListWriter { list, dictionary };
        write(&mut fields);
        fields.list.end();
    }
}

impl<'b> FieldListWriter<'_, 'b, '_> {
    /// Writes a field, by its id or, if the writer has a dictionary, by its name. The type of the value is not
    /// on the wire: it must be the dictionary's, and is held against it where the writer has one.
    #[inline]
    pub fn put(&mut self, field: impl FieldRef, value: impl Primitive) {
        match (self.dictionary, field.resolve(None)) {
            (None, Some(id)) => self.write(id, value),
            _ => self.put_admitted(field, value),
        }
    }

    /// Writes a field if the dictionary lets it. A function of its own, so that it costs nothing where there is
    /// no dictionary.
    #[inline(never)]
    fn put_admitted(&mut self, field: impl FieldRef, value: impl Primitive) {
        if let Some(id) = self.list.w.admit(&field, value.data_type()) {
            self.write(id, value);
        }
    }

    // Called for each field of an image, and left out of line where the program has many callers: a fifth of the time.
    #[inline(always)]
    fn write(&mut self, id: i16, value: impl Primitive) {
        self.list.count_entry();
        if let Some(Packed { content, length }) = value.packed() {
            let entry = u128::from(id as u16) << 112 | (length as u128) << 104 | content >> 24;
            self.list.w.chunk(entry.to_be_bytes(), 3 + length);
            return;
        }
        let length = value.content_len();
        let [high, low] = id.to_be_bytes();
        if length < 0xFE {
            self.list.w.chunk([high, low, length as u8, 0], 3);
            value.put_content(self.list.w);
        } else {
            self.list.w.chunk([high, low], 2);
            self.list.w.prefixed(&value);
        }
    }

    /// Writes a field without a value.
    #[inline]
    pub fn blank(&mut self, field: impl FieldRef) {
        self.put(field, Blank(DataType::UNKNOWN));
    }

    /// Writes a field whose content is encoded already.
    #[inline]
    pub fn encoded(&mut self, field: impl FieldRef, content: &[u8]) {
        self.put(field, Encoded { data_type: DataType::UNKNOWN, content });
    }

    /// Writes a field that is a container, which `write` writes.
    pub fn container(&mut self, field: impl FieldRef, write: impl FnOnce(&mut Writer<'b>)) {
        self.nested(&field, DataType::UNKNOWN, write);
    }

    fn nested(&mut self, field: &impl FieldRef, given: DataType, write: impl FnOnce(&mut Writer<'b>)) {
        let Some(id) = self.list.w.admit(field, given) else { return };
        self.list.count_entry();
        self.list.w.i16(id);
        self.list.w.nested16(Place::FieldEntry, write);
    }

    /// Writes a field that is an array; see [`Writer::array`].
    pub fn array(
        &mut self,
        field: impl FieldRef,
        item_type: DataType,
        item_length: u16,
        write: impl FnOnce(&mut ArrayWriter<'_, '_>),
    ) {
        self.nested(&field, DataType::ARRAY, |w| w.array(item_type, item_length, write));
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

    /// Begins the standard data even if no entry follows. [`FieldListWriter::put`] does so by itself.
    pub fn begin_standard(&mut self) {
        self.list.begin_standard();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{EncodeError, Enum, Real, encode_to_vec};

    #[test]
    fn an_empty_list_is_one_byte_or_none() {
        assert_eq!(encode_to_vec(|w| w.field_list(|_| ())), Ok(vec![0]));
        for empty in [&[][..], &[0]] {
            let list = FieldList::parse(empty).expect("empty");
            assert_eq!((list.entries().count(), list.has_standard_data()), (0, false));
        }
        let standard = encode_to_vec(|w| w.field_list(|f| f.begin_standard()));
        assert_eq!(standard, Ok(vec![8, 0, 0]));
    }

    #[test]
    fn bid_and_ask_take_the_bytes_of_the_reference() {
        let bytes = encode_to_vec(|w| {
            w.field_list(|f| {
                f.put(22, Real::decimal(3990, 2));
                f.put(25, Real::decimal(3994, 2));
            });
        });
        assert_eq!(bytes, Ok(vec![8, 0, 2, 0, 0x16, 3, 0x0C, 0x0F, 0x96, 0, 0x19, 3, 0x0C, 0x0F, 0x9A]));
    }

    #[test]
    fn short_entries_are_read_with_what_is_behind_them() {
        let bytes = encode_to_vec(|w| {
            w.field_list(|f| {
                f.encoded(1, b"first");
                f.encoded(-2, &[7; 15]);
                f.encoded(3, &[8; 16]);
                f.encoded(4, b"last");
                f.encoded(5, b"");
            });
        })
        .expect("legal");
        let mut entries = FieldList::parse(&bytes).expect("legal").entries();
        let first = *b"\x05first\xff\xfe\x0f\x07\x07\x07\x07\x07\x07\x07";
        assert_eq!(entries.next_short(), Some((1, first)));
        let (id, encoded) = entries.next_short().expect("short");
        assert_eq!((id, encoded[0], &encoded[1..]), (-2, 15, &[7; 15][..]));
        assert_eq!(entries.next_short(), None, "it is too long");
        assert_eq!(entries.next().map(|entry| entry.map(|e| e.content.len())), Some(Ok(16)));
        assert_eq!(entries.next_short(), Some((4, *b"\x04last\x00\x05\x00\x00\x00\x00\x00\x00\x00\x00\x00")));
        assert_eq!(entries.next_short(), Some((5, [0; 16])));
        assert_eq!((entries.next_short(), entries.next()), (None, None));
    }

    #[test]
    fn a_short_entry_that_is_cut_is_left_for_the_error() {
        let mut entries = FieldList::parse(&[8, 0, 1, 0, 22, 3, 1, 2]).expect("a head").entries();
        assert_eq!(entries.next_short(), None);
        let cut = DecodeError::Truncated { place: Place::FieldEntry, need_bytes: 3, have_bytes: 2 };
        assert_eq!(entries.next(), Some(Err(cut)));
    }

    const DEF: &[FieldSetEntry] = &[
        FieldSetEntry { id: 22, data_type: DataType::REAL },
        FieldSetEntry { id: 30, data_type: DataType::UINT_2 },
    ];
    const HEAD: FieldListHead<'static> =
        FieldListHead { info: None, set: Some(SetHead { explicit_id: Some(0), entries: DEF }) };

    #[test]
    fn set_data_gets_a_length_only_when_standard_data_follows() {
        let set = |f: &mut FieldListWriter<'_, '_, '_>| {
            f.put_set(Real::decimal(1, 2));
            f.put_set(500u64);
        };
        let alone = encode_to_vec(|w| w.field_list_with(&HEAD, set));
        assert_eq!(alone, Ok(vec![6, 0, 2, 12, 1, 1, 0xF4]));
        let followed = encode_to_vec(|w| {
            w.field_list_with(&HEAD, |f| {
                set(f);
                f.put(4, Enum(7));
            });
        });
        assert_eq!(followed, Ok(vec![14, 0, 0x80, 5, 2, 12, 1, 1, 0xF4, 0, 1, 0, 4, 1, 7]));
    }

    #[test]
    fn set_data_that_does_not_follow_its_definition_is_refused() {
        let written = |write: fn(&mut FieldListWriter<'_, '_, '_>)| {
            encode_to_vec(|w| w.field_list_with(&HEAD, write)).expect_err("incomplete")
        };
        assert_eq!(written(|_| ()), EncodeError::SetIncomplete { written: 0, wanted: 2 });
        assert_eq!(
            written(|f| (0..3).for_each(|n| if n == 0 {
                f.put_set(Real::decimal(1, 2))
            } else {
                f.put_set(1u64)
            })),
            EncodeError::SetIncomplete { written: 3, wanted: 2 }
        );
        assert_eq!(
            written(|f| f.put_set(1u64)),
            EncodeError::OtherType { place: Place::SetData, given: DataType::UINT, wanted: DataType::REAL }
        );
        let unannounced = encode_to_vec(|w| w.field_list(|f| f.put_set(1u64)));
        assert_eq!(unannounced, Err(EncodeError::OutOfOrder { place: Place::SetData }));
    }

    #[test]
    fn a_blank_real_that_says_its_own_size_is_one_byte_or_two_whichever_fits() {
        let entries = [FieldSetEntry { id: 1, data_type: DataType::REAL_4RB }, DEF[1]];
        let definitions = [0, 1, 0, 2, 0, 1, DataType::REAL_4RB.0, 0, 30, DataType::UINT_2.0];
        let definitions = FieldSetDefs::parse(&definitions).expect("legal");
        for set_data in [&[2, 0x20, 1, 0xF4][..], &[2, 0x20, 0, 1, 0xF4]] {
            let list = FieldList::parse(set_data).expect("whole head");
            let values: Vec<_> = list
                .set_entries(&definitions)
                .map(|entry| entry.and_then(|entry| Value::decode(entry.set_type, entry.content)))
                .collect();
            assert_eq!(values, [Ok(Value::Blank(DataType::REAL)), Ok(Value::UInt(500))]);
        }
        let set = Some(SetHead { explicit_id: None, entries: &entries });
        let written = encode_to_vec(|w| {
            w.field_list_with(&FieldListHead { info: None, set }, |f| {
                f.put_set(None::<Real>);
                f.put_set(500u64);
            });
        });
        assert_eq!(written, Ok(vec![2, 0x20, 1, 0xF4]));
    }

    #[test]
    fn a_list_that_ends_early_yields_what_is_whole_and_then_one_error() {
        let list = FieldList::parse(&[8, 0, 3, 0, 22, 1, 0x20, 0, 25, 5, 1]).expect("whole head");
        let entries: Vec<_> = list.entries().collect();
        assert_eq!(entries.len(), 2);
        assert!(entries[0].is_ok());
        let cut = DecodeError::Truncated { place: Place::FieldEntry, need_bytes: 5, have_bytes: 1 };
        assert_eq!(entries[1], Err(cut));
    }
}

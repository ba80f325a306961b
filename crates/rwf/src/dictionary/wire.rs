//! The dictionary domain's payload: a series of element lists, one a field or an enumeration table.

use std::fmt;

use super::model::{Dictionary, DictionaryError, EnumField, EnumTable, EnumValue, Field, FieldType};
use crate::error::clip;
use crate::{
    Array, AsciiString, DataType, DecodeError, ElementEntry, ElementList, ElementListHead, ElementListWriter,
    ElementSetDef, ElementSetEntry, EncodeError, Enum, RmtesString, Series, SeriesHead, SetDefinitions,
    SetHead, Value, Writer,
};

/// How much of a dictionary is wanted: the filter of a dictionary request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verbosity {
    /// The summary alone: which dictionary, which version.
    Info = 0,
    /// What is needed to decode.
    Minimal = 3,
    /// Also what is needed to display.
    Normal = 7,
    /// Also what enumerated values mean.
    Verbose = 15,
}

impl Verbosity {
    /// The verbosity of a filter; one between two levels is the lower.
    #[must_use]
    pub const fn from_filter(filter: u32) -> Verbosity {
        match filter {
            0..3 => Verbosity::Info,
            3..7 => Verbosity::Minimal,
            7..15 => Verbosity::Normal,
            _ => Verbosity::Verbose,
        }
    }
}

/// Which of the two dictionaries a payload is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DictionaryKind {
    /// Field definitions.
    Fields = 1,
    /// Enumeration tables.
    Enums = 2,
}

/// Why a dictionary payload cannot be taken over.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DictionaryDecodeError {
    /// It is not legal RWF.
    Decode(DecodeError),
    /// It contradicts itself, or what is known.
    Contradicts(DictionaryError),
    /// The series does not hold element lists.
    NotElementLists {
        /// What it holds.
        container_type: DataType,
    },
    /// It is the other dictionary, or none.
    OtherKind {
        /// The type number found in the summary.
        kind: u32,
    },
    /// An entry lacks a column.
    MissingColumn {
        /// The position of the entry in the series.
        entry: u32,
        /// The name of the column.
        column: &'static str,
    },
    /// A column is not of the type it must be, blank, or out of range.
    BadColumn {
        /// The position of the entry in the series.
        entry: u32,
        /// The name of the column.
        column: &'static str,
        /// The type found.
        data_type: DataType,
    },
    /// The arrays of an enumeration differ in length.
    UnequalColumns {
        /// The position of the entry in the series.
        entry: u32,
        /// The number of values.
        values: u32,
        /// The number of displays or meanings.
        texts: u32,
    },
}

type Result<T> = std::result::Result<T, DictionaryDecodeError>;

const NAME: &str = "NAME";
const FID: &str = "FID";
const RIPPLE_TO: &str = "RIPPLETO";
const TYPE: &str = "TYPE";
const LENGTH: &str = "LENGTH";
const RWF_TYPE: &str = "RWFTYPE";
const RWF_LENGTH: &str = "RWFLEN";
const ENUM_LENGTH: &str = "ENUMLENGTH";
const LONG_NAME: &str = "LONGNAME";
const FIDS: &str = "FIDS";
const VALUE: &str = "VALUE";
const DISPLAY: &str = "DISPLAY";
const MEANING: &str = "MEANING";

const SUMMARY_TYPE: &str = "Type";
const SUMMARY_ID: &str = "DictionaryId";
const SUMMARY_VERSION: &str = "Version";
const SUMMARY_RT_VERSION: &str = "RT_Version";
const SUMMARY_DT_VERSION: &str = "DT_Version";

const fn column(name: &'static str, data_type: DataType) -> ElementSetEntry<'static> {
    ElementSetEntry { name: name.as_bytes(), data_type }
}

const FIELD_COLUMNS: &[ElementSetEntry<'static>] = &[
    column(NAME, DataType::ASCII_STRING),
    column(FID, DataType::INT_2),
    column(RIPPLE_TO, DataType::INT_2),
    column(TYPE, DataType::INT_1),
    column(LENGTH, DataType::UINT_2),
    column(RWF_TYPE, DataType::UINT_1),
    column(RWF_LENGTH, DataType::UINT_2),
    column(ENUM_LENGTH, DataType::UINT_1),
    column(LONG_NAME, DataType::ASCII_STRING),
];
const MINIMAL_FIELD_COLUMNS: usize = 7;

const ENUM_COLUMNS: &[ElementSetEntry<'static>] = &[
    column(FIDS, DataType::ARRAY),
    column(VALUE, DataType::ARRAY),
    column(DISPLAY, DataType::ARRAY),
    column(MEANING, DataType::ARRAY),
];
const NORMAL_ENUM_COLUMNS: usize = 3;

/// Which dictionary a payload is, by its summary. Parts after the first may lack one.
///
/// # Errors
/// A [`DictionaryDecodeError`] if the payload is no dictionary.
pub fn dictionary_kind(payload: &[u8]) -> Result<Option<DictionaryKind>> {
    let Some(summary) = part(payload)?.summary else { return Ok(None) };
    for element in ElementList::parse(summary)?.entries() {
        let element = element?;
        if element.name == SUMMARY_TYPE.as_bytes() {
            return match Column::of(&element, 0, SUMMARY_TYPE).integer()? {
                1 => Ok(Some(DictionaryKind::Fields)),
                2 => Ok(Some(DictionaryKind::Enums)),
                kind => {
                    Err(DictionaryDecodeError::OtherKind { kind: u32::try_from(kind).unwrap_or(u32::MAX) })
                }
            };
        }
    }
    Ok(None)
}

fn part(payload: &[u8]) -> Result<Series<'_>> {
    let series = Series::parse(payload)?;
    match series.container_type {
        DataType::ELEMENT_LIST => Ok(series),
        container_type => Err(DictionaryDecodeError::NotElementLists { container_type }),
    }
}

/// Serving a dictionary.
impl Dictionary {
    /// Writes field definitions as the payload of a refresh: from the field `first` on, `None` for the first part, as
    /// many as the writer has room for. Returns the field that the next part has to begin with, `None` after the last.
    ///
    /// The room is what limits a part: give the writer a buffer of the length that a message may have.
    ///
    /// # Errors
    /// [`EncodeError::BufferTooSmall`] if there is no room for even one field.
    pub fn encode_fields(
        &self,
        w: &mut Writer<'_>,
        verbosity: Verbosity,
        first: Option<i16>,
    ) -> std::result::Result<Option<i16>, EncodeError> {
        let columns = match verbosity {
            Verbosity::Info | Verbosity::Minimal => &FIELD_COLUMNS[..MINIMAL_FIELD_COLUMNS],
            Verbosity::Normal | Verbosity::Verbose => FIELD_COLUMNS,
        };
        let fields = self.fields().filter(|field| first.is_none_or(|first| field.id >= first));
        let total = u32::try_from(self.field_count()).expect("field ids have 16 bits");
        let hint = (first.is_none() && total > 0).then_some(total);
        encode_part(w, columns, verbosity, hint, |series| {
            if first.is_none() {
                series.summary(|w| self.field_summary(w));
            }
            put_entries(series, verbosity, fields, |w, field| {
                let set = Some(SetHead { explicit_id: None, entries: columns });
                w.element_list_with(&ElementListHead { list_number: None, set }, |e| {
                    put_field(e, field, columns.len() > MINIMAL_FIELD_COLUMNS);
                });
            })
            .map(|field| field.id)
        })
    }

    fn field_summary(&self, w: &mut Writer<'_>) {
        w.element_list(|e| {
            e.put(SUMMARY_TYPE, DictionaryKind::Fields as i64);
            e.put(SUMMARY_ID, i64::from(self.info().dictionary_id));
            e.put(SUMMARY_VERSION, AsciiString::from(&*self.info().field_version));
        });
    }

    /// Writes enumeration tables as the payload of a refresh: from the table at position `first` on, as many as the
    /// writer has room for. Returns the position that the next part has to begin with, `None` after the last. Parts are
    /// cut between tables only, and each has a summary, as the vendor's libraries do.
    ///
    /// # Errors
    /// [`EncodeError::BufferTooSmall`] if there is no room for even one table, [`EncodeError::TooLong`] for a table
    /// whose texts together are longer than 65535 bytes.
    pub fn encode_enums(
        &self,
        w: &mut Writer<'_>,
        verbosity: Verbosity,
        first: usize,
    ) -> std::result::Result<Option<usize>, EncodeError> {
        let columns = match verbosity {
            Verbosity::Verbose => ENUM_COLUMNS,
            _ => &ENUM_COLUMNS[..NORMAL_ENUM_COLUMNS],
        };
        let tables = self.enum_tables().iter().enumerate().skip(first);
        encode_part(w, columns, verbosity, None, |series| {
            series.summary(|w| self.enum_summary(w));
            put_entries(series, verbosity, tables, |w, (_, table)| {
                let set = Some(SetHead { explicit_id: Some(0), entries: columns });
                w.element_list_with(&ElementListHead { list_number: None, set }, |e| {
                    put_table(e, table, columns.len() > NORMAL_ENUM_COLUMNS);
                });
            })
            .map(|(position, _)| position)
        })
    }

    fn enum_summary(&self, w: &mut Writer<'_>) {
        let info = self.info();
        w.element_list(|e| {
            e.put(SUMMARY_TYPE, DictionaryKind::Enums as i64);
            e.put(SUMMARY_ID, i64::from(info.dictionary_id));
            e.put(SUMMARY_RT_VERSION, AsciiString::from(&*info.enum_rt_version));
            e.put(SUMMARY_DT_VERSION, AsciiString::from(&*info.enum_dt_version));
            e.put(SUMMARY_VERSION, AsciiString::from(&*info.enum_dt_version));
        });
    }
}

type SeriesWriter<'w, 'b> = crate::SeriesWriter<'w, 'b>;

/// Writes a part; `write` returns what did not fit. Nothing fitted if the writer overflowed, or nothing was written.
fn encode_part<T>(
    w: &mut Writer<'_>,
    columns: &'static [ElementSetEntry<'static>],
    verbosity: Verbosity,
    total_count_hint: Option<u32>,
    write: impl FnOnce(&mut SeriesWriter<'_, '_>) -> Option<T>,
) -> std::result::Result<Option<T>, EncodeError> {
    let definitions = [ElementSetDef { id: 0, entries: columns }];
    let set_definitions = (verbosity > Verbosity::Info).then_some(SetDefinitions::Elements(&definitions));
    let head = SeriesHead { container_type: DataType::ELEMENT_LIST, total_count_hint, set_definitions };
    let mut next = None;
    w.series(&head, |series| next = write(series));
    w.status()?;
    Ok(next)
}

/// Writes entries until one does not fit; returns that one. The first one is written whether it fits or not, so that
/// the error says how much room it needs.
fn put_entries<T: Copy>(
    series: &mut SeriesWriter<'_, '_>,
    verbosity: Verbosity,
    entries: impl Iterator<Item = T>,
    mut put: impl FnMut(&mut Writer<'_>, T),
) -> Option<T> {
    if verbosity == Verbosity::Info {
        return None;
    }
    for (count, entry) in entries.enumerate() {
        match count {
            0 => series.entry(|w| put(w, entry)),
            ENTRIES_MAX => return Some(entry),
            _ if !series.entry_if_room(|w| put(w, entry)) => return Some(entry),
            _ => {}
        }
    }
    None
}

/// What the number of entries of a series can say.
const ENTRIES_MAX: usize = 0xFFFF;

fn put_field(e: &mut ElementListWriter<'_, '_, '_>, field: &Field, for_display: bool) {
    e.put_set(AsciiString::from(&*field.name));
    e.put_set(i64::from(field.id));
    e.put_set(i64::from(field.ripples_to.unwrap_or(0)));
    e.put_set(i64::from(field.field_type.0));
    e.put_set(u64::from(field.length));
    e.put_set(u64::from(field.data_type.0));
    e.put_set(u64::from(field.rwf_length));
    if for_display {
        e.put_set(u64::from(field.enum_length));
        e.put_set(AsciiString::from(&*field.dde_acronym));
    }
}

fn put_table(e: &mut ElementListWriter<'_, '_, '_>, table: &EnumTable, with_meaning: bool) {
    e.put_set_nested(|w| {
        w.array(DataType::INT, 2, |a| table.fields().iter().for_each(|field| a.put(i64::from(field.id))));
    });
    e.put_set_nested(|w| {
        w.array(DataType::ENUM, 0, |a| table.values().iter().for_each(|value| a.put(Enum(value.value))));
    });
    let ascii = table.values().iter().all(|value| value.display.is_ascii());
    e.put_set_nested(|w| match ascii {
        true => w.array(DataType::ASCII_STRING, 0, |a| {
            table.values().iter().for_each(|value| a.put(AsciiString(&value.display)));
        }),
        false => w.array(DataType::RMTES_STRING, 0, |a| {
            table.values().iter().for_each(|value| a.put(RmtesString(&value.display)));
        }),
    });
    if with_meaning {
        e.put_set_nested(|w| {
            w.array(DataType::ASCII_STRING, 0, |a| {
                table.values().iter().for_each(|value| a.put(AsciiString::from(&*value.meaning)));
            });
        });
    }
}

/// Downloading a dictionary.
impl Dictionary {
    /// Takes over one part of the field definitions; returns how many fields it had. Parts may come in any order;
    /// entries may be set data or standard data, and may lack the columns of the higher verbosities.
    ///
    /// # Errors
    /// A [`DictionaryDecodeError`]; the fields before the one that is wrong are then in the dictionary.
    pub fn decode_fields(&mut self, payload: &[u8]) -> Result<usize> {
        let series = part(payload)?;
        if let Some(summary) = series.summary {
            self.take_summary(summary, DictionaryKind::Fields)?;
        }
        let definitions = series.element_set_defs()?;
        for (at, entry) in series.entries().enumerate() {
            let mut field = PendingField::default();
            for element in ElementList::parse(entry?)?.all_entries(definitions.as_ref()) {
                field.take(&element?, clip(at))?;
            }
            self.add_field(field.whole(clip(at))?)?;
        }
        Ok(series.count().into())
    }

    /// Takes over one part of the enumerations; returns how many tables it had.
    ///
    /// # Errors
    /// A [`DictionaryDecodeError`]; the tables before the one that is wrong are then in the dictionary.
    pub fn decode_enums(&mut self, payload: &[u8]) -> Result<usize> {
        let series = part(payload)?;
        if let Some(summary) = series.summary {
            self.take_summary(summary, DictionaryKind::Enums)?;
        }
        let definitions = series.element_set_defs()?;
        for (at, entry) in series.entries().enumerate() {
            let mut table = PendingTable::default();
            for element in ElementList::parse(entry?)?.all_entries(definitions.as_ref()) {
                table.take(&element?, clip(at))?;
            }
            let (fields, values) = table.whole(clip(at))?;
            self.add_enum_table(fields, values)?;
        }
        Ok(series.count().into())
    }

    fn take_summary(&mut self, summary: &[u8], wanted: DictionaryKind) -> Result<()> {
        for element in ElementList::parse(summary)?.entries() {
            let element = element?;
            let text = || String::from_utf8_lossy(element.content).into_owned();
            match (element.name, wanted) {
                (b"Type", _) => {
                    let kind = Column::of(&element, 0, SUMMARY_TYPE).integer()?;
                    if kind != wanted as i64 {
                        let kind = u32::try_from(kind).unwrap_or(u32::MAX);
                        return Err(DictionaryDecodeError::OtherKind { kind });
                    }
                }
                (b"DictionaryId", _) => self.agree_on_id(Column::of(&element, 0, SUMMARY_ID).narrow()?)?,
                (b"Version", DictionaryKind::Fields) => self.info_mut().field_version = text(),
                (b"RT_Version", DictionaryKind::Enums) => self.info_mut().enum_rt_version = text(),
                (b"DT_Version", DictionaryKind::Enums) => self.info_mut().enum_dt_version = text(),
                _ => {}
            }
        }
        Ok(())
    }
}

/// One cell of a dictionary entry, with the place that an error names.
#[derive(Clone, Copy)]
struct Column<'e, 'a> {
    element: &'e ElementEntry<'a>,
    entry: u32,
    name: &'static str,
}

impl<'e, 'a> Column<'e, 'a> {
    fn of(element: &'e ElementEntry<'a>, entry: u32, name: &'static str) -> Self {
        Column { element, entry, name }
    }

    fn bad(&self) -> DictionaryDecodeError {
        DictionaryDecodeError::BadColumn {
            entry: self.entry,
            column: self.name,
            data_type: self.element.data_type,
        }
    }

    fn integer(&self) -> Result<i64> {
        match self.element.value()? {
            Value::Int(number) => Ok(number),
            Value::UInt(number) => i64::try_from(number).map_err(|_| self.bad()),
            _ => Err(self.bad()),
        }
    }

    /// The number in a type that may be too small for it.
    fn narrow<T: TryFrom<i64>>(&self) -> Result<T> {
        T::try_from(self.integer()?).map_err(|_| self.bad())
    }

    /// A number of the one kind that the column must have.
    fn number<T: TryFrom<i64>>(&self, data_type: DataType) -> Result<T> {
        if self.element.data_type.base() == data_type { self.narrow() } else { Err(self.bad()) }
    }

    fn text(&self) -> Result<Box<str>> {
        match self.element.value()? {
            Value::Ascii(text) => std::str::from_utf8(text.0).map(Box::from).map_err(|_| self.bad()),
            Value::Blank(DataType::ASCII_STRING) => Ok(Box::default()),
            _ => Err(self.bad()),
        }
    }

    fn array(&self) -> Result<Array<'a>> {
        match self.element.value()? {
            Value::Array(array) => Ok(array),
            _ => Err(self.bad()),
        }
    }

    fn missing(entry: u32, column: &'static str) -> impl FnOnce() -> DictionaryDecodeError {
        move || DictionaryDecodeError::MissingColumn { entry, column }
    }
}

/// A field definition whose columns are being read.
#[derive(Default)]
struct PendingField {
    id: Option<i16>,
    name: Option<Box<str>>,
    data_type: Option<DataType>,
    dde_acronym: Box<str>,
    ripples_to: i16,
    field_type: Option<i8>,
    length: u16,
    enum_length: u8,
    rwf_length: u16,
}

impl PendingField {
    fn take(&mut self, element: &ElementEntry<'_>, entry: u32) -> Result<()> {
        let column = |name| Column::of(element, entry, name);
        match element.name {
            b"NAME" => self.name = Some(column(NAME).text()?),
            b"FID" => self.id = Some(column(FID).number(DataType::INT)?),
            b"RIPPLETO" => self.ripples_to = column(RIPPLE_TO).number(DataType::INT)?,
            b"TYPE" => self.field_type = Some(column(TYPE).number(DataType::INT)?),
            b"LENGTH" => self.length = column(LENGTH).number(DataType::UINT)?,
            b"RWFTYPE" => self.data_type = Some(DataType(column(RWF_TYPE).number(DataType::UINT)?).base()),
            b"RWFLEN" => self.rwf_length = column(RWF_LENGTH).number(DataType::UINT)?,
            b"ENUMLENGTH" => self.enum_length = column(ENUM_LENGTH).number(DataType::UINT)?,
            b"LONGNAME" => self.dde_acronym = column(LONG_NAME).text()?,
            _ => {}
        }
        Ok(())
    }

    fn whole(self, entry: u32) -> Result<Field> {
        Ok(Field {
            id: self.id.ok_or_else(Column::missing(entry, FID))?,
            name: self.name.ok_or_else(Column::missing(entry, NAME))?,
            data_type: self.data_type.ok_or_else(Column::missing(entry, RWF_TYPE))?,
            dde_acronym: self.dde_acronym,
            ripples_to: Some(self.ripples_to).filter(|to| *to != 0),
            field_type: self.field_type.map_or(FieldType::NONE, FieldType),
            length: self.length,
            enum_length: self.enum_length,
            rwf_length: self.rwf_length,
        })
    }
}

/// An enumeration table whose columns are being read.
#[derive(Default)]
struct PendingTable<'a> {
    fields: Option<Vec<EnumField>>,
    values: Option<Vec<u16>>,
    displays: Option<Vec<&'a [u8]>>,
    meanings: Option<Vec<&'a [u8]>>,
}

impl<'a> PendingTable<'a> {
    fn take(&mut self, element: &ElementEntry<'a>, entry: u32) -> Result<()> {
        let column = |name| Column::of(element, entry, name);
        match element.name {
            b"FIDS" | b"FID" => self.fields = Some(enum_fields(column(FIDS))?),
            b"VALUE" | b"VALUES" => self.values = Some(enum_values(column(VALUE))?),
            b"DISPLAY" | b"DISPLAYS" => self.displays = Some(texts(column(DISPLAY))?),
            b"MEANING" | b"MEANINGS" => self.meanings = Some(texts(column(MEANING))?),
            _ => {}
        }
        Ok(())
    }

    fn whole(self, entry: u32) -> Result<(Vec<EnumField>, Vec<EnumValue>)> {
        let fields = self.fields.ok_or_else(Column::missing(entry, FIDS))?;
        let values = self.values.ok_or_else(Column::missing(entry, VALUE))?;
        let displays = self.displays.ok_or_else(Column::missing(entry, DISPLAY))?;
        let meanings = self.meanings.unwrap_or_else(|| vec![b""; values.len()]);
        for texts in [displays.len(), meanings.len()] {
            if texts != values.len() {
                let (values, texts) = (clip(values.len()), clip(texts));
                return Err(DictionaryDecodeError::UnequalColumns { entry, values, texts });
            }
        }
        let rows = values.into_iter().zip(displays).zip(meanings);
        let values = rows.map(|((value, display), meaning)| EnumValue {
            value,
            display: display.into(),
            meaning: String::from_utf8_lossy(meaning).into(),
        });
        Ok((fields, values.collect()))
    }
}

fn enum_fields(column: Column<'_, '_>) -> Result<Vec<EnumField>> {
    let ids = column.array()?.values().map(|id| match id? {
        Value::Int(id) => i16::try_from(id).map_err(|_| column.bad()),
        _ => Err(column.bad()),
    });
    ids.map(|id| Ok(EnumField { id: id?, name: Box::default() })).collect()
}

fn enum_values(column: Column<'_, '_>) -> Result<Vec<u16>> {
    let values = column.array()?.values().map(|value| match value? {
        Value::Enum(value) => Ok(value.0),
        _ => Err(column.bad()),
    });
    values.collect()
}

fn texts<'a>(column: Column<'_, 'a>) -> Result<Vec<&'a [u8]>> {
    let array = column.array()?;
    match array.item_type {
        DataType::ASCII_STRING | DataType::UTF8_STRING | DataType::RMTES_STRING => {
            array.items().map(|item| item.map_err(DictionaryDecodeError::Decode)).collect()
        }
        _ => Err(column.bad()),
    }
}

impl From<DecodeError> for DictionaryDecodeError {
    fn from(error: DecodeError) -> Self {
        DictionaryDecodeError::Decode(error)
    }
}

impl From<DictionaryError> for DictionaryDecodeError {
    fn from(error: DictionaryError) -> Self {
        DictionaryDecodeError::Contradicts(error)
    }
}

impl fmt::Display for DictionaryDecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Decode(error) => error.fmt(f),
            Self::Contradicts(error) => error.fmt(f),
            Self::NotElementLists { container_type } => {
                write!(f, "dictionary: series of {container_type} instead of ELEMENT_LIST")
            }
            Self::OtherKind { kind } => write!(f, "dictionary: type {kind} in the summary"),
            Self::MissingColumn { entry, column } => write!(f, "dictionary entry {entry}: no {column}"),
            Self::BadColumn { entry, column, data_type } => {
                write!(f, "dictionary entry {entry}: {column} of type {data_type}, or out of range")
            }
            Self::UnequalColumns { entry, values, texts } => {
                write!(f, "dictionary entry {entry}: {values} values and {texts} texts")
            }
        }
    }
}

impl std::error::Error for DictionaryDecodeError {}

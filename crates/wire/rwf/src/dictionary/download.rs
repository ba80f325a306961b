//! Downloads a dictionary: takes over the payloads of refreshes, part by part.

use super::error::DictionaryDecodeError;
use super::model::{Dictionary, DictionaryInfo, EnumField, EnumValue, Field, FieldType};
use super::wire::*;
use crate::error::clip;
use crate::{Array, DataType, ElementEntry, ElementList, Series, Value};

type Result<T> = std::result::Result<T, DictionaryDecodeError>;

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

impl Dictionary {
    /// Takes over one part of the field definitions; returns how many fields it had. Parts may come in any
    /// order; entries may be set data or standard data, and may lack the columns of the higher verbosities.
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

    /// What a part of a dictionary says about the whole, without its entries; `None` if it has no summary.
    ///
    /// # Errors
    /// A [`DictionaryDecodeError`].
    pub fn info_of_part(kind: DictionaryKind, payload: &[u8]) -> Result<Option<DictionaryInfo>> {
        let Some(summary) = part(payload)?.summary else { return Ok(None) };
        let mut blank = Dictionary::new();
        blank.take_summary(summary, kind)?;
        Ok(Some(blank.info().clone()))
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

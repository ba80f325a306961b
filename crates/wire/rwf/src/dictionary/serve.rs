//! Serves a dictionary: writes it as the payload of refreshes, in parts.

use super::model::{Dictionary, EnumTable, Field};
use super::wire::*;
use crate::{
    AsciiString, DataType, ElementListHead, ElementListWriter, ElementSetDef, ElementSetEntry, EncodeError,
    Enum, RmtesString, SeriesHead, SeriesWriter, SetDefinitions, SetHead, Writer,
};

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

impl Dictionary {
    /// Writes field definitions as the payload of a refresh: from the field `first` on, `None` for the first
    /// part, as many as the writer has room for. Returns the field that the next part has to begin with,
    /// `None` after the last.
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
    ) -> Result<Option<i16>, EncodeError> {
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

    /// Writes enumeration tables as the payload of a refresh: from the table at position `first` on, as many
    /// as the writer has room for. Returns the position that the next part has to begin with, `None` after
    /// the last. Parts are cut between tables only, and each has a summary, as the vendor's libraries do.
    ///
    /// # Errors
    /// [`EncodeError::BufferTooSmall`] if there is no room for even one table, [`EncodeError::TooLong`] for a
    /// table whose texts together are longer than 65535 bytes.
    pub fn encode_enums(
        &self,
        w: &mut Writer<'_>,
        verbosity: Verbosity,
        first: usize,
    ) -> Result<Option<usize>, EncodeError> {
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

/// Writes a part; `write` returns what did not fit. Nothing fitted if the writer overflowed, or nothing was
/// written.
fn encode_part<T>(
    w: &mut Writer<'_>,
    columns: &'static [ElementSetEntry<'static>],
    verbosity: Verbosity,
    total_count_hint: Option<u32>,
    write: impl FnOnce(&mut SeriesWriter<'_, '_>) -> Option<T>,
) -> Result<Option<T>, EncodeError> {
    let definitions = [ElementSetDef { id: 0, entries: columns }];
    let set_definitions = (verbosity > Verbosity::Info).then_some(SetDefinitions::Elements(&definitions));
    let head = SeriesHead { container_type: DataType::ELEMENT_LIST, total_count_hint, set_definitions };
    let mut next = None;
    w.series(&head, |series| next = write(series));
    w.status()?;
    Ok(next)
}

/// Writes entries until one does not fit; returns that one. The first one is written whether it fits or not,
/// so that the error says how much room it needs.
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

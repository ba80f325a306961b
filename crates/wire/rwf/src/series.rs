use crate::counted::CountedWriter;
use crate::entries::{Entries, Entry, Head, HeadFlags, entry_data};
use crate::reader::Reader;
use crate::set_def::{ElementSetDefs, FieldSetDefs, SetDefinitions};
use crate::{DataType, DecodeError, EncodeError, Place, Writer};

const SET_DEFINITIONS: u8 = 0x01;
const SUMMARY: u8 = 0x02;
const TOTAL_COUNT_HINT: u8 = 0x04;
const HEAD_FLAGS: HeadFlags =
    HeadFlags { set_definitions: SET_DEFINITIONS, summary: SUMMARY, total_count_hint: TOTAL_COUNT_HINT };

/// Containers one after the other: dictionaries, histories. Only the head is checked when it is parsed.
///
/// Shape: flags `u8` (1 set definitions, 2 summary, 4 total count hint); container type − 128 `u8`; \[set
/// definitions, summary, each behind a `u15rb` length\]; \[hint `u30rb`\]; count `u16`; entries, each behind
/// a `u16ob` length, or nothing at all for `NO_DATA`. Source: RWF 14.1, Series.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Series<'a> {
    /// The type of the entries.
    pub container_type: DataType,
    /// The set definitions as bytes; see [`Series::field_set_defs`] and [`Series::element_set_defs`].
    pub set_definitions: Option<&'a [u8]>,
    /// What holds for all entries, of the container type.
    pub summary: Option<&'a [u8]>,
    /// How many entries all parts together have, if known.
    pub total_count_hint: Option<u32>,
    count: u16,
    entries: &'a [u8],
}

impl<'a> Series<'a> {
    /// Reads the head.
    ///
    /// # Errors
    /// [`DecodeError`] if it is cut off.
    pub fn parse(bytes: &'a [u8]) -> Result<Series<'a>, DecodeError> {
        let mut r = Reader::new(bytes);
        let flags = r.u8(Place::Series)?;
        let container_type = r.container_type(Place::Series)?;
        let Head { set_definitions, summary, total_count_hint, count, entries } =
            Head::read(&mut r, flags, &HEAD_FLAGS)?;
        Ok(Series { container_type, set_definitions, summary, total_count_hint, count, entries })
    }

    /// The number of entries that the head announces.
    #[must_use]
    pub fn count(&self) -> u16 {
        self.count
    }

    /// The entries; empty ones if the container type is `NO_DATA`.
    #[must_use]
    pub fn entries(&self) -> SeriesEntries<'a> {
        Entries::new(self.container_type, self.count, self.entries)
    }

    /// The definitions for the field lists of this series, if it has some.
    ///
    /// # Errors
    /// As [`FieldSetDefs::parse`](crate::SetDefs::parse).
    pub fn field_set_defs(&self) -> Result<Option<FieldSetDefs<'a>>, DecodeError> {
        self.set_definitions.map(FieldSetDefs::parse).transpose()
    }

    /// The definitions for the element lists of this series, if it has some.
    ///
    /// # Errors
    /// As [`ElementSetDefs::parse`](crate::SetDefs::parse).
    pub fn element_set_defs(&self) -> Result<Option<ElementSetDefs<'a>>, DecodeError> {
        self.set_definitions.map(ElementSetDefs::parse).transpose()
    }
}

/// The entries of a [`Series`], in order. After an error it ends.
pub type SeriesEntries<'a> = Entries<'a, &'a [u8]>;

impl<'a> Entry<'a> for &'a [u8] {
    fn read(r: &mut Reader<'a>, container_type: DataType) -> Result<&'a [u8], DecodeError> {
        let data = entry_data(r, container_type != DataType::NO_DATA, Place::SeriesEntry)?;
        Ok(data.unwrap_or_default())
    }
}

/// What a series begins with.
#[derive(Clone, Copy, Debug)]
pub struct SeriesHead<'a> {
    /// The type of the entries.
    pub container_type: DataType,
    /// How many entries all parts together have; at most 2^30 − 1.
    pub total_count_hint: Option<u32>,
    /// Definitions for the lists in summary and entries.
    pub set_definitions: Option<SetDefinitions<'a>>,
}

impl SeriesHead<'_> {
    /// A head with nothing but the type.
    #[must_use]
    pub const fn new(container_type: DataType) -> Self {
        SeriesHead { container_type, total_count_hint: None, set_definitions: None }
    }
}

/// Writes summary and entries of a series; made by [`Writer::series`].
#[derive(Debug)]
pub struct SeriesWriter<'w, 'b> {
    counted: CountedWriter<'w, 'b>,
}

impl Writer<'_> {
    /// Writes a series. The flags follow from what is written.
    pub fn series(&mut self, head: &SeriesHead<'_>, write: impl FnOnce(&mut SeriesWriter<'_, '_>)) {
        let mut counted = CountedWriter::begin(self, head.container_type, Place::Series);
        counted.container_type();
        counted.set_definitions(SET_DEFINITIONS, head.set_definitions);
        counted.before_entries(SUMMARY, TOTAL_COUNT_HINT, head.total_count_hint);
        let mut series = SeriesWriter { counted };
        write(&mut series);
        series.counted.end();
    }
}

impl<'b> SeriesWriter<'_, 'b> {
    /// Writes the summary data; before all entries.
    pub fn summary(&mut self, write: impl FnOnce(&mut Writer<'b>)) {
        self.counted.summary(write);
    }

    /// Writes an entry; `write` is not called in a series of `NO_DATA`.
    pub fn entry(&mut self, write: impl FnOnce(&mut Writer<'b>)) {
        self.counted.count_entry();
        if self.counted.container_type != DataType::NO_DATA {
            self.counted.w.nested16(Place::SeriesEntry, write);
        }
    }

    /// Writes an entry if the buffer has room for it, else leaves everything as it was; returns which. This
    /// is how a long series is cut into parts.
    pub fn entry_if_room(&mut self, write: impl FnOnce(&mut Writer<'b>)) -> bool {
        self.counted.begin_entries();
        let mark = self.counted.w.mark();
        self.entry(write);
        let full = matches!(self.counted.w.status(), Err(EncodeError::BufferTooSmall { .. }));
        if full {
            self.counted.w.rollback(mark);
            self.counted.uncount_entry();
        }
        !full
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::encode_to_vec;

    #[test]
    fn entries_come_back_in_order() {
        let head = SeriesHead { total_count_hint: Some(9), ..SeriesHead::new(DataType::OPAQUE) };
        let bytes = encode_to_vec(|w| {
            w.series(&head, |s| {
                s.summary(|w| w.bytes(b"all"));
                s.entry(|w| w.bytes(b"one"));
                s.entry(|_| ());
            });
        })
        .expect("legal");
        let series = Series::parse(&bytes).expect("legal");
        assert_eq!(
            (series.total_count_hint, series.summary, series.count()),
            (Some(9), Some(&b"all"[..]), 2)
        );
        assert_eq!(series.entries().collect::<Result<Vec<_>, _>>(), Ok(vec![&b"one"[..], b""]));
    }

    #[test]
    fn a_series_without_data_has_as_many_empty_entries_as_it_counts() {
        let series = Series::parse(&[0, 0, 0xFF, 0xFF]).expect("legal");
        assert_eq!(series.entries().filter(|e| *e == Ok(&[][..])).count(), 65535);
    }

    #[test]
    fn an_entry_without_room_leaves_a_series_that_is_whole() {
        let mut buffer = [0; 12];
        let mut writer = Writer::new(&mut buffer);
        let mut fitted = Vec::new();
        writer.series(&SeriesHead::new(DataType::OPAQUE), |s| {
            fitted = [3, 5, 3].map(|length| s.entry_if_room(|w| w.bytes(&vec![7; length]))).to_vec();
        });
        assert_eq!(fitted, [true, false, true]);
        let bytes = writer.finish().expect("what did not fit was taken back");
        assert_eq!(*bytes, [0, 2, 0, 2, 3, 7, 7, 7, 3, 7, 7, 7]);
    }
}

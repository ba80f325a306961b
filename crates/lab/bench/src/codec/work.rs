//! Decoding to the last value, and encoding again value by value.

use std::fmt;

use rwf::{
    DataType, DecodeError, Dictionary, ElementList, EncodeError, Encoded, FieldList, FilterList, Map,
    MapHead, Msg, Real, Series, SeriesHead, UpdateMsg, Value, Vector, VectorHead, Writer,
};

/// Why a message could not be worked on.
#[derive(Clone, Copy, Debug)]
pub(super) enum WorkError {
    Decode(DecodeError),
    Encode(EncodeError),
    /// Nothing but updates is worked on.
    NotAnUpdate,
}

impl fmt::Display for WorkError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            WorkError::Decode(error) => error.fmt(f),
            WorkError::Encode(error) => error.fmt(f),
            WorkError::NotAnUpdate => f.write_str("no update"),
        }
    }
}

impl From<DecodeError> for WorkError {
    fn from(error: DecodeError) -> Self {
        WorkError::Decode(error)
    }
}

impl From<EncodeError> for WorkError {
    fn from(error: EncodeError) -> Self {
        WorkError::Encode(error)
    }
}

/// Decodes a message; the sum of its values.
pub(super) fn decode(message: &[u8], dictionary: &Dictionary) -> Result<u64, WorkError> {
    let Msg::Update(update) = Msg::parse(message)? else { return Err(WorkError::NotAnUpdate) };
    Ok(content(update.container_type, update.payload, dictionary)?)
}

fn content(data_type: DataType, bytes: &[u8], dictionary: &Dictionary) -> Result<u64, DecodeError> {
    let mut sum = 0u64;
    let mut add = |more: u64| sum = sum.wrapping_add(more);
    match data_type {
        DataType::FIELD_LIST => {
            for field in FieldList::parse(bytes)?.entries() {
                add(number(field?.value(dictionary)?));
            }
        }
        DataType::ELEMENT_LIST => {
            for element in ElementList::parse(bytes)?.entries() {
                let element = element?;
                add(element.name.len() as u64);
                add(number(element.value()?));
            }
        }
        DataType::FILTER_LIST => {
            for entry in FilterList::parse(bytes)?.entries() {
                let entry = entry?;
                add(entry.id.into());
                add(content(entry.container_type, entry.data.unwrap_or_default(), dictionary)?);
            }
        }
        DataType::MAP => {
            let map = Map::parse(bytes)?;
            for entry in map.entries() {
                let entry = entry?;
                add(number(Value::decode(map.key_type, entry.key)?));
                add(content(map.container_type, entry.data.unwrap_or_default(), dictionary)?);
            }
        }
        DataType::SERIES => {
            let series = Series::parse(bytes)?;
            for entry in series.entries() {
                add(content(series.container_type, entry?, dictionary)?);
            }
        }
        DataType::VECTOR => {
            let vector = Vector::parse(bytes)?;
            for entry in vector.entries() {
                let entry = entry?;
                add(entry.index.into());
                add(content(vector.container_type, entry.data.unwrap_or_default(), dictionary)?);
            }
        }
        data_type => return Err(DecodeError::BadType { place: rwf::Place::Content, data_type }),
    }
    Ok(sum)
}

/// What a value adds to the sum.
fn number(value: Value<'_>) -> u64 {
    match value {
        Value::UInt(number) => number,
        Value::Real(Real::Finite { mantissa, hint }) => {
            mantissa.cast_unsigned().wrapping_add(hint.number().into())
        }
        Value::Enum(number) => number.0.into(),
        Value::Ascii(text) => text.0.len() as u64,
        Value::Buffer(bytes) => bytes.0.len() as u64,
        _ => 0,
    }
}

/// Decodes a message and encodes it again into `room`, value by value; the sum of its values, and what was
/// written.
pub(super) fn copy<'b>(
    message: &[u8],
    dictionary: &Dictionary,
    room: &'b mut [u8],
) -> Result<(u64, &'b [u8]), WorkError> {
    let Msg::Update(update) = Msg::parse(message)? else { return Err(WorkError::NotAnUpdate) };
    let mut w = Writer::new(room);
    UpdateMsg { payload: &[], ..update }.encode_header(&mut w);
    let mut copy = Copy { dictionary, sum: 0, fault: None };
    copy.content(update.container_type, update.payload, &mut w);
    match copy.fault {
        Some(fault) => Err(fault.into()),
        None => Ok((copy.sum, w.finish()?)),
    }
}

struct Copy<'d> {
    dictionary: &'d Dictionary,
    sum: u64,
    fault: Option<DecodeError>,
}

impl Copy<'_> {
    fn add(&mut self, more: u64) {
        self.sum = self.sum.wrapping_add(more);
    }

    /// What was read, or `None` and the fault is kept.
    fn taken<T>(&mut self, result: Result<T, DecodeError>) -> Option<T> {
        result.map_err(|error| self.fault = Some(error)).ok()
    }

    fn content(&mut self, data_type: DataType, bytes: &[u8], w: &mut Writer<'_>) {
        let done = match data_type {
            DataType::FIELD_LIST => self.field_list(bytes, w),
            DataType::ELEMENT_LIST => self.element_list(bytes, w),
            DataType::FILTER_LIST => self.filter_list(bytes, w),
            DataType::MAP => self.map(bytes, w),
            DataType::SERIES => self.series(bytes, w),
            DataType::VECTOR => self.vector(bytes, w),
            data_type => Err(DecodeError::BadType { place: rwf::Place::Content, data_type }),
        };
        self.taken(done);
    }

    fn field_list(&mut self, bytes: &[u8], w: &mut Writer<'_>) -> Result<(), DecodeError> {
        let list = FieldList::parse(bytes)?;
        w.field_list(|f| {
            for field in list.entries() {
                let Some(field) = self.taken(field) else { return };
                let Some(value) = self.taken(field.value(self.dictionary)) else { return };
                self.add(number(value));
                f.put(field.id, value);
            }
        });
        Ok(())
    }

    fn element_list(&mut self, bytes: &[u8], w: &mut Writer<'_>) -> Result<(), DecodeError> {
        let list = ElementList::parse(bytes)?;
        w.element_list(|e| {
            for element in list.entries() {
                let Some(element) = self.taken(element) else { return };
                let Some(value) = self.taken(element.value()) else { return };
                self.add(element.name.len() as u64);
                self.add(number(value));
                e.put(element.name, value);
            }
        });
        Ok(())
    }

    fn filter_list(&mut self, bytes: &[u8], w: &mut Writer<'_>) -> Result<(), DecodeError> {
        let list = FilterList::parse(bytes)?;
        w.filter_list(list.container_type, list.total_count_hint, |f| {
            for entry in list.entries() {
                let Some(entry) = self.taken(entry) else { return };
                self.add(entry.id.into());
                f.entry(entry.action, entry.id, |w| {
                    self.content(entry.container_type, entry.data.unwrap_or_default(), w);
                });
            }
        });
        Ok(())
    }

    fn map(&mut self, bytes: &[u8], w: &mut Writer<'_>) -> Result<(), DecodeError> {
        let map = Map::parse(bytes)?;
        w.map(&MapHead::new(map.key_type, map.container_type), |m| {
            for entry in map.entries() {
                let Some(entry) = self.taken(entry) else { return };
                let Some(value) = self.taken(Value::decode(map.key_type, entry.key)) else { return };
                self.add(number(value));
                let key = Encoded { data_type: map.key_type, content: entry.key };
                m.entry(entry.action, key, None, |w| {
                    self.content(map.container_type, entry.data.unwrap_or_default(), w);
                });
            }
        });
        Ok(())
    }

    fn series(&mut self, bytes: &[u8], w: &mut Writer<'_>) -> Result<(), DecodeError> {
        let series = Series::parse(bytes)?;
        w.series(&SeriesHead::new(series.container_type), |s| {
            for entry in series.entries() {
                let Some(entry) = self.taken(entry) else { return };
                s.entry(|w| self.content(series.container_type, entry, w));
            }
        });
        Ok(())
    }

    fn vector(&mut self, bytes: &[u8], w: &mut Writer<'_>) -> Result<(), DecodeError> {
        let vector = Vector::parse(bytes)?;
        w.vector(&VectorHead::new(vector.container_type), |v| {
            for entry in vector.entries() {
                let Some(entry) = self.taken(entry) else { return };
                self.add(entry.index.into());
                v.entry(entry.action, entry.index, None, |w| {
                    self.content(vector.container_type, entry.data.unwrap_or_default(), w);
                });
            }
        });
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::{cases, dictionary};
    use super::*;

    #[test]
    fn every_case_is_copied_to_the_byte_and_its_values_differ() {
        let dictionary = dictionary().expect("part of the project");
        for case in cases::all().expect("legal") {
            let mut sums = std::collections::BTreeSet::new();
            for message in &case.messages {
                let sum = decode(message, &dictionary).expect("legal");
                let mut room = [0; 4096];
                let (copied_sum, copied) = copy(message, &dictionary, &mut room).expect("legal");
                assert_eq!((copied_sum, decode(copied, &dictionary).ok()), (sum, Some(sum)), "{}", case.name);
                // The time in the update is written in eight bytes, of which the first are 0.
                assert!(copied == &**message || case.name == "update-74-bytes", "{}", case.name);
                sums.insert(sum);
            }
            assert!(sums.len() > 10, "{}: {} sums", case.name, sums.len());
        }
    }
}

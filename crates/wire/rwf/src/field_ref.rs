//! What names a field, and fields that cannot be put.

use std::fmt;

use crate::{DataType, Dictionary, EncodeError, Writer};

/// What names a field: its id, or its name in the dictionary.
pub trait FieldRef {
    /// The id, if the field is known.
    fn resolve(&self, dictionary: Option<&Dictionary>) -> Option<i16>;

    /// The name, if the field is named by it.
    fn name(&self) -> Option<&str> {
        None
    }
}

impl FieldRef for i16 {
    #[inline]
    fn resolve(&self, _: Option<&Dictionary>) -> Option<i16> {
        Some(*self)
    }
}

impl FieldRef for &str {
    fn resolve(&self, dictionary: Option<&Dictionary>) -> Option<i16> {
        Some(dictionary?.field_by_name(self)?.id)
    }

    fn name(&self) -> Option<&str> {
        Some(self)
    }
}

/// The name of a field as an error holds it: without an allocation, of a very long one its beginning.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct FieldName {
    bytes: [u8; FieldName::BYTES_MAX],
    length: u8,
}

impl FieldName {
    /// Bytes of a name that are kept; those of published dictionaries are shorter.
    pub const BYTES_MAX: usize = 31;

    /// The name a field is called by: in the caller's words, else the dictionary's, else its id.
    pub fn of(field: &impl FieldRef, dictionary: Option<&Dictionary>) -> FieldName {
        match (field.name(), field.resolve(dictionary)) {
            (Some(name), _) => FieldName::from(name),
            (None, Some(id)) => FieldName::by_id(id, dictionary),
            (None, None) => FieldName::from(""),
        }
    }

    /// The name of a field in the dictionary, else its id.
    #[must_use]
    pub fn by_id(id: i16, dictionary: Option<&Dictionary>) -> FieldName {
        match dictionary.and_then(|dictionary| dictionary.field(id)) {
            Some(field) => FieldName::from(&*field.name),
            None => FieldName::from(&*id.to_string()),
        }
    }

    /// The name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.bytes[..usize::from(self.length)]).unwrap_or_default()
    }
}

impl From<&str> for FieldName {
    fn from(name: &str) -> FieldName {
        let length = name.floor_char_boundary(FieldName::BYTES_MAX);
        let mut bytes = [0; FieldName::BYTES_MAX];
        bytes[..length].copy_from_slice(&name.as_bytes()[..length]);
        FieldName { bytes, length: length as u8 }
    }
}

impl fmt::Display for FieldName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl fmt::Debug for FieldName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}

/// Fields against the dictionary.
impl<'b> Writer<'b> {
    /// The same with a dictionary: fields can be put by their names, and a value of another type than the
    /// dictionary's is refused.
    #[must_use]
    pub fn with_dictionary(mut self, dictionary: Option<&'b Dictionary>) -> Writer<'b> {
        self.dictionary = dictionary;
        self
    }

    /// The field that was refused first: one of another type, or one that no dictionary knows.
    #[must_use]
    pub fn refused_field(&self) -> Option<FieldName> {
        self.refused_field
    }

    /// The id of a field that can be put with a value of the type; `None` if it cannot, which is kept.
    pub(crate) fn admit(&mut self, field: &impl FieldRef, given: DataType) -> Option<i16> {
        let Some(id) = field.resolve(self.dictionary) else {
            self.refuse_field(field, EncodeError::UnknownField);
            return None;
        };
        let Some(dictionary) = self.dictionary else { return Some(id) };
        let wanted = dictionary.data_type(id);
        if given == wanted || can_stand_for(given, wanted) {
            return Some(id);
        }
        self.refuse_field(&id, EncodeError::FieldType { id, given, wanted });
        None
    }

    #[cold]
    fn refuse_field(&mut self, field: &impl FieldRef, fault: EncodeError) {
        if self.status().is_ok() || matches!(self.status(), Err(EncodeError::BufferTooSmall { .. })) {
            self.refused_field = Some(FieldName::of(field, self.dictionary));
        }
        self.fail(fault);
    }
}

/// Whether a value of another type may be written into a field: one whose type is not said, any into a field
/// that is not defined, and ASCII where a text may have more.
fn can_stand_for(given: DataType, wanted: DataType) -> bool {
    let is_open = given == DataType::UNKNOWN || wanted == DataType::UNKNOWN;
    let is_text = matches!(wanted, DataType::RMTES_STRING | DataType::UTF8_STRING);
    is_open || (given == DataType::ASCII_STRING && is_text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{AsciiString, Enum, FieldListWriter, Real};

    fn dictionary() -> Dictionary {
        let mut dictionary = Dictionary::new();
        let fields = b"DSPLY_NAME \"NAME\" 3 NULL ALPHANUMERIC 16 RMTES_STRING 16\n\
            EXCH \"EXCH\" 4 NULL ENUMERATED 3 ( 3 ) ENUM 1\nBID \"BID\" 22 NULL PRICE 17 REAL64 7\n";
        dictionary.load_fields(fields).expect("well written");
        dictionary
    }

    type Written = Result<Vec<u8>, (EncodeError, Option<FieldName>)>;

    fn written(
        dictionary: Option<&Dictionary>,
        write: impl FnOnce(&mut FieldListWriter<'_, '_, '_>),
    ) -> Written {
        let mut room = [0; 64];
        let mut w = Writer::new(&mut room).with_dictionary(dictionary);
        w.field_list(write);
        let refused = w.refused_field();
        w.finish().map(|bytes| bytes.to_vec()).map_err(|error| (error, refused))
    }

    #[test]
    fn a_field_by_name_is_the_field_by_id() {
        let dictionary = dictionary();
        let by_name = written(Some(&dictionary), |f| {
            f.put("BID", Real::decimal(4007, 2));
            f.put("DSPLY_NAME", AsciiString(b"IBM"));
            f.blank("EXCH");
        });
        let by_id = written(None, |f| {
            f.put(22, Real::decimal(4007, 2));
            f.put(3, AsciiString(b"IBM"));
            f.blank(4);
        });
        assert_eq!(by_name, by_id);
        assert!(by_id.is_ok());
    }

    #[test]
    fn a_value_of_another_type_is_refused_and_the_first_field_named() {
        let dictionary = dictionary();
        let refused = written(Some(&dictionary), |f| {
            f.put("EXCH", Enum(1));
            f.put(22, 40u64);
            f.put(3, 1u64);
        });
        let (given, wanted) = (DataType::UINT, DataType::REAL);
        let error = EncodeError::FieldType { id: 22, given, wanted };
        assert_eq!(refused, Err((error, Some(FieldName::from("BID")))));
        assert_eq!(error.to_string(), "field 22: UINT given, REAL wanted");
        let blank = written(Some(&dictionary), |f| f.put(22, None::<u64>));
        assert_eq!(blank.expect_err("another type").0, error);
        let array = written(Some(&dictionary), |f| f.array(22, DataType::UINT, 0, |_| ()));
        assert!(array.is_err());
    }

    #[test]
    fn what_no_dictionary_defines_and_what_has_no_type_is_written_as_it_is() {
        let dictionary = dictionary();
        let fields = |f: &mut FieldListWriter<'_, '_, '_>| {
            f.put(-7, 1u64);
            f.encoded(22, &[1]);
            f.put(3, AsciiString(b"A"));
        };
        assert_eq!(written(Some(&dictionary), fields), written(None, fields));
    }

    #[test]
    fn a_name_that_is_not_known_is_refused_with_the_name() {
        let dictionary = dictionary();
        for known in [None, Some(&dictionary)] {
            let refused = written(known, |f| f.put("BIDD", Real::decimal(1, 0)));
            assert_eq!(refused, Err((EncodeError::UnknownField, Some(FieldName::from("BIDD")))));
        }
        assert!(written(None, |f| f.put("BID", Real::decimal(1, 0))).is_err());
    }

    #[test]
    fn a_name_that_is_very_long_keeps_its_beginning() {
        let long = "Ä".repeat(20);
        assert_eq!(FieldName::from(&*long).as_str(), &long[..30]);
        assert_eq!(FieldName::of(&-7i16, Some(&dictionary())).to_string(), "-7");
    }
}

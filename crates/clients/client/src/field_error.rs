//! Fields that cannot be written, or read as what is wanted.

use std::fmt;

use market::EncodeFault;
use rwf::{DataType, DecodeError, EncodeError, FieldName};

/// A field that cannot be written, or read as what is wanted: which, and why.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct FieldError {
    /// The field: its name, or its id where no dictionary knows it.
    pub field: FieldName,
    /// What stands against it.
    pub problem: FieldProblem,
}

/// What stands against a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FieldProblem {
    /// It is named, or to be read by its type, and there is no dictionary.
    NoDictionary,
    /// The dictionary does not have it.
    NotDefined,
    /// A value of another type than the dictionary's was to be written.
    OtherType {
        /// The type given.
        given: DataType,
        /// The type of the dictionary.
        wanted: DataType,
    },
    /// Its value is no price: a text, say, or a floating point number, which is not exact.
    NotExact(DataType),
    /// Its value is no number.
    NotANumber(DataType),
    /// Its content is not of its type, or the message is malformed before it.
    Malformed(DecodeError),
}

impl FieldError {
    /// What an encoder says of a field.
    pub(crate) fn of(fault: &EncodeFault) -> Option<FieldError> {
        let problem = match fault.error {
            EncodeError::FieldType { given, wanted, .. } => FieldProblem::OtherType { given, wanted },
            EncodeError::UnknownField if fault.has_dictionary => FieldProblem::NotDefined,
            EncodeError::UnknownField => FieldProblem::NoDictionary,
            _ => return None,
        };
        Some(FieldError { field: fault.field?, problem })
    }
}

impl fmt::Display for FieldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "field {}: {}", self.field, self.problem)
    }
}

impl fmt::Debug for FieldError {
    /// As it is shown: `main` prints the error that it returns so.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for FieldError {}

impl fmt::Display for FieldProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoDictionary => f.write_str(
                "there is no dictionary to look it up in: name the field by its id, or give a dictionary \
                 (with_dictionary)",
            ),
            Self::NotDefined => f.write_str("the dictionary does not have it: is the name misspelt?"),
            Self::OtherType { given, wanted } => {
                write!(f, "{given} given, {wanted} wanted{}", written_as(*wanted))
            }
            Self::NotExact(found) => write!(f, "{found} is no price: read it with number() or field()"),
            Self::NotANumber(found) => write!(f, "{found} is no number: read it with text() or field()"),
            Self::Malformed(error) => error.fmt(f),
        }
    }
}

/// How a value of a type is written.
fn written_as(wanted: DataType) -> &'static str {
    match wanted {
        DataType::REAL => ", such as Real::decimal(4007, 2) for 40.07",
        DataType::INT => ", such as 7i64",
        DataType::UINT => ", such as 7u64",
        DataType::FLOAT => ", such as 0.5f32",
        DataType::DOUBLE => ", such as 0.5f64",
        DataType::ENUM => ", such as Enum(2)",
        DataType::RMTES_STRING => ", such as RmtesString::from(\"IBM\")",
        DataType::UTF8_STRING => ", such as Utf8String::from(\"IBM\")",
        DataType::ASCII_STRING => ", such as AsciiString::from(\"IBM\")",
        DataType::BUFFER => ", such as Buffer(b\"IBM\")",
        DataType::DATE => ", a Date",
        DataType::TIME => ", a Time",
        DataType::DATETIME => ", a DateTime",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_names_the_field_what_is_wrong_and_what_to_do() {
        let error = |problem| FieldError { field: FieldName::from("BID"), problem };
        let other = error(FieldProblem::OtherType { given: DataType::UINT, wanted: DataType::REAL });
        assert_eq!(
            other.to_string(),
            "field BID: UINT given, REAL wanted, such as Real::decimal(4007, 2) for 40.07"
        );
        assert_eq!(format!("{other:?}"), other.to_string());
        let unknown = error(FieldProblem::NotDefined).to_string();
        assert_eq!(unknown, "field BID: the dictionary does not have it: is the name misspelt?");
        assert!(error(FieldProblem::NoDictionary).to_string().contains("with_dictionary"));
        assert!(error(FieldProblem::NotANumber(DataType::ENUM)).to_string().contains("ENUM is no number"));
    }
}

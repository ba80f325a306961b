//! Values as people read them.

use std::fmt::{self, Write as _};

use super::{Array, AsciiString, Buffer, Enum, RmtesString, Utf8String, Value};

impl fmt::Display for Value<'_> {
    /// The value alone: `40.07`, `IBM`, `2026-11-25`; `blank` where there is none, `0x0d05` where no dictionary
    /// has told the type. Control characters of texts are escaped. Numbers heed width and precision.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Blank(_) => f.pad("blank"),
            Value::Unknown(bytes) => hex(f, bytes),
            Value::Int(number) => number.fmt(f),
            Value::UInt(number) => number.fmt(f),
            Value::Float(number) => number.fmt(f),
            Value::Double(number) => number.fmt(f),
            Value::Real(number) => number.fmt(f),
            Value::Date(date) => date.fmt(f),
            Value::Time(time) => time.fmt(f),
            Value::DateTime(time) => time.fmt(f),
            Value::Qos(qos) => qos.fmt(f),
            Value::State(state) => state.fmt(f),
            Value::Enum(number) => number.fmt(f),
            Value::Array(array) => array.fmt(f),
            Value::Buffer(buffer) => buffer.fmt(f),
            Value::Ascii(text) => text.fmt(f),
            Value::Utf8(text) => text.fmt(f),
            Value::Rmtes(text) => text.fmt(f),
            Value::Container(data_type, bytes) => write!(f, "{data_type} of {} bytes", bytes.len()),
        }
    }
}

impl fmt::Display for Enum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for Array<'_> {
    /// `[1, 2, 3]`; after an item that cannot be read nothing more.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_char('[')?;
        for (place, value) in self.values().enumerate() {
            if place > 0 {
                f.write_str(", ")?;
            }
            match value {
                Ok(value) => value.fmt(f)?,
                Err(error) => write!(f, "! {error}")?,
            }
        }
        f.write_char(']')
    }
}

impl fmt::Display for Buffer<'_> {
    /// The text if it is one, else the bytes as hexadecimal digits.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match std::str::from_utf8(self.0) {
            Ok(readable) if !readable.contains(char::is_control) => f.write_str(readable),
            _ => hex(f, self.0),
        }
    }
}

impl fmt::Display for AsciiString<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        text(f, &String::from_utf8_lossy(self.0))
    }
}

impl fmt::Display for Utf8String<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        text(f, &String::from_utf8_lossy(self.0))
    }
}

impl fmt::Display for RmtesString<'_> {
    /// What is shown when nothing is cached.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.text() {
            Ok(readable) => text(f, &readable),
            Err(_) => hex(f, self.0),
        }
    }
}

fn hex(f: &mut fmt::Formatter<'_>, bytes: &[u8]) -> fmt::Result {
    f.write_str("0x")?;
    bytes.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
}

fn text(f: &mut fmt::Formatter<'_>, text: &str) -> fmt::Result {
    text.chars()
        .try_for_each(|c| if c.is_control() { write!(f, "{}", c.escape_debug()) } else { f.write_char(c) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{DataType, Date, Decode as _, Real, encode_to_vec};

    #[test]
    fn a_value_is_shown_as_people_write_it() {
        let shown = |value: Value<'_>| value.to_string();
        assert_eq!(shown(Value::Real(Real::decimal(4007, 2))), "40.07");
        assert_eq!(shown(Value::Blank(DataType::REAL)), "blank");
        assert_eq!(shown(Value::Unknown(&[13, 5])), "0x0d05");
        assert_eq!((shown(Value::UInt(7)), shown(Value::Enum(Enum(2)))), ("7".to_owned(), "2".to_owned()));
        assert_eq!(shown(Value::Date(Date { year: 2026, month: 11, day: 5 })), "2026-11-05");
        assert_eq!(shown(Value::Ascii(AsciiString(b"IBM\x1b[2J"))), "IBM\\u{1b}[2J");
        assert_eq!(shown(Value::Utf8(Utf8String("Zürich".as_bytes()))), "Zürich");
        assert_eq!(shown(Value::Buffer(Buffer(b"abc"))), "abc");
        assert_eq!(shown(Value::Buffer(Buffer(&[0, 255]))), "0x00ff");
        assert_eq!(shown(Value::Container(DataType::FIELD_LIST, &[0; 12])), "FIELD_LIST of 12 bytes");
        assert_eq!(format!("{:.1}", Value::Double(1.25)), "1.2");
    }

    #[test]
    fn an_array_is_shown_with_its_items() {
        let bytes = encode_to_vec(|w| {
            w.array(DataType::UINT, 0, |items| {
                items.put(1u64);
                items.put(2u64);
            });
        })
        .expect("small");
        let array = Array::decode(&bytes).expect("legal").expect("not blank");
        assert_eq!(array.to_string(), "[1, 2]");
    }
}

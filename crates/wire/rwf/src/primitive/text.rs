//! Buffer and the three kinds of string.

use std::borrow::Cow;
use std::str::Utf8Error;

use super::{Decode, FixedForm, Primitive, Sealed, Typed, rmtes};
use crate::{DataType, DecodeError, Place, Writer};

macro_rules! bytes_like {
    ($(#[$doc:meta])* $name:ident, $data_type:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name<'a>(pub &'a [u8]);

        impl<'a> From<&'a str> for $name<'a> {
            #[inline]
            fn from(text: &'a str) -> Self {
                $name(text.as_bytes())
            }
        }

        impl<'a> From<&'a [u8]> for $name<'a> {
            #[inline]
            fn from(bytes: &'a [u8]) -> Self {
                $name(bytes)
            }
        }

        impl Sealed for $name<'_> {}
        impl Typed for $name<'_> {
            const TYPE: DataType = DataType::$data_type;
        }

        impl Primitive for $name<'_> {
            #[inline]
            fn data_type(&self) -> DataType {
                Self::TYPE
            }

            #[inline]
            fn content_len(&self) -> usize {
                self.0.len()
            }

            #[inline]
            fn put_content(&self, w: &mut Writer<'_>) {
                w.bytes(self.0);
            }

            fn put_fixed(&self, form: FixedForm, w: &mut Writer<'_>) {
                put_padded(self.0, form, w);
            }
        }

        impl<'a> Decode<'a> for $name<'a> {
            #[inline]
            fn decode(content: &'a [u8]) -> Result<Option<Self>, DecodeError> {
                Ok(if content.is_empty() { None } else { Some($name(content)) })
            }
        }
    };
}

bytes_like! {
    /// Bytes without a meaning to the format. No bytes are the blank.
    Buffer, BUFFER
}
bytes_like! {
    /// Text that is ASCII by contract; what arrives may be any bytes.
    AsciiString, ASCII_STRING
}
bytes_like! {
    /// Text in UTF-8 by contract; what arrives may be any bytes.
    Utf8String, UTF8_STRING
}
bytes_like! {
    /// Text with ISO 2022 escape sequences, UTF-8 behind `ESC % 0`, or an instruction to change a cached
    /// text.
    ///
    /// See [`rmtes`] for what a receiver does with it.
    RmtesString, RMTES_STRING
}

/// The bytes in a fixed width: cut off, or filled up with zeros.
fn put_padded(bytes: &[u8], form: FixedForm, w: &mut Writer<'_>) {
    match form {
        FixedForm::Width(width) => {
            let kept = &bytes[..bytes.len().min(width)];
            w.bytes(kept);
            for _ in kept.len()..width {
                w.u8(0);
            }
        }
        FixedForm::Real4Rb | FixedForm::Real8Rb => w.fail(form.misfit(Place::Text, 0)),
    }
}

impl<'a> Utf8String<'a> {
    /// The text.
    ///
    /// # Errors
    /// If the bytes are not UTF-8.
    pub fn as_str(&self) -> Result<&'a str, Utf8Error> {
        std::str::from_utf8(self.0)
    }
}

impl<'a> RmtesString<'a> {
    /// Whether the value changes a cached one instead of replacing it.
    #[must_use]
    pub fn is_partial_update(&self) -> bool {
        rmtes::is_partial_update(self.0)
    }

    /// The text that is shown when nothing is cached.
    ///
    /// # Errors
    /// As [`rmtes::apply`].
    pub fn text(&self) -> Result<Cow<'a, str>, DecodeError> {
        if rmtes::has_escape(self.0) {
            let mut applied = Vec::new();
            rmtes::apply(&mut applied, self.0, rmtes::VALUE_BYTES_MAX)?;
            return Ok(Cow::Owned(rmtes::text(&applied).into_owned()));
        }
        Ok(rmtes::text(self.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::encode_to_vec;

    #[test]
    fn a_string_of_fixed_width_is_cut_off_or_filled_up_with_zeros() {
        let fixed = |text| encode_to_vec(|w| AsciiString::from(text).put_fixed(FixedForm::Width(3), w));
        assert_eq!(fixed("ABCD"), Ok(b"ABC".to_vec()));
        assert_eq!(fixed("A"), Ok(b"A\0\0".to_vec()));
    }

    #[test]
    fn bytes_that_are_not_utf8_are_told_only_when_asked_for_text() {
        let text = Utf8String::decode(&[0xC3]).expect("any bytes").expect("not blank");
        assert!(text.as_str().is_err());
        assert_eq!(Utf8String::from("é").as_str(), Ok("é"));
    }
}

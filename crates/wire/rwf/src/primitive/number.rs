//! Int, UInt, Float, Double, Enum.
//!
//! ETA Java reads an Int or UInt of more than eight bytes, and an Enum of more than two, as 0. Here they are refused: the
//! number is not known, and 0 would be a value that nobody sent.

use super::{Decode, FixedForm, Packed, Primitive, Sealed, Typed};
use crate::error::clip;
use crate::{DataType, DecodeError, EncodeError, Place, Writer};

/// Bytes of the shortest two's complement form.
#[inline]
pub(super) fn int_len(value: i64) -> usize {
    let magnitude_bits = 64 - (value ^ (value >> 63)).leading_zeros() as usize;
    magnitude_bits / 8 + 1
}

/// Bytes of the shortest unsigned form.
#[inline]
fn uint_len(value: u64) -> usize {
    (64 - (value | 1).leading_zeros() as usize).div_ceil(8)
}

/// Writes the low `length` (1..=8) bytes.
#[inline]
pub(super) fn put_low_bytes(value: u64, length: usize, w: &mut Writer<'_>) {
    w.chunk((value << (64 - 8 * length)).to_be_bytes(), length);
}

/// The low `length` (1..=8) bytes.
#[inline]
pub(super) fn low_bytes(value: u64, length: usize) -> Packed {
    Packed { content: u128::from(value << (64 - 8 * length)) << 64, length }
}

/// Reads 1 to 8 bytes of two's complement without a loop: the first and the last bytes, which may overlap.
#[inline]
pub(super) fn read_int(content: &[u8], place: Place) -> Result<i64, DecodeError> {
    let length = content.len();
    match (content.first_chunk::<4>(), content.last_chunk::<4>()) {
        (Some(head), Some(tail)) if length <= 8 => {
            let head = i64::from(i32::from_be_bytes(*head)) << (8 * (length - 4));
            Ok(head | i64::from(u32::from_be_bytes(*tail)))
        }
        (Some(_), _) => Err(too_long(length, place)),
        _ => match *content {
            [a] => Ok(i64::from(a as i8)),
            [a, b] => Ok(i64::from(i16::from_be_bytes([a, b]))),
            [a, b, c] => Ok(i64::from(i32::from_be_bytes([a, b, c, 0]) >> 8)),
            _ => Err(too_long(length, place)),
        },
    }
}

#[inline]
fn read_uint(content: &[u8], place: Place) -> Result<u64, DecodeError> {
    let length = content.len();
    match (content.first_chunk::<4>(), content.last_chunk::<4>()) {
        (Some(head), Some(tail)) if length <= 8 => {
            let head = u64::from(u32::from_be_bytes(*head)) << (8 * (length - 4));
            Ok(head | u64::from(u32::from_be_bytes(*tail)))
        }
        (Some(_), _) => Err(too_long(length, place)),
        _ => match *content {
            [a] => Ok(u64::from(a)),
            [a, b] => Ok(u64::from(u16::from_be_bytes([a, b]))),
            [a, b, c] => Ok(u64::from(u32::from_be_bytes([0, a, b, c]))),
            _ => Err(too_long(length, place)),
        },
    }
}

/// The error for a number of no bytes or of more than eight.
#[cold]
fn too_long(length: usize, place: Place) -> DecodeError {
    DecodeError::BadLength { place, length: clip(length), max: 8 }
}

impl Sealed for i64 {}
impl Typed for i64 {
    const TYPE: DataType = DataType::INT;
}

impl Primitive for i64 {
    #[inline]
    fn data_type(&self) -> DataType {
        Self::TYPE
    }

    #[inline]
    fn content_len(&self) -> usize {
        int_len(*self)
    }

    #[inline]
    fn put_content(&self, w: &mut Writer<'_>) {
        put_low_bytes(*self as u64, int_len(*self), w);
    }

    #[inline]
    fn packed(&self) -> Option<Packed> {
        Some(low_bytes(*self as u64, int_len(*self)))
    }

    fn put_fixed(&self, form: FixedForm, w: &mut Writer<'_>) {
        match form {
            FixedForm::Width(width @ 1..=8) if int_len(*self) <= width => {
                put_low_bytes(*self as u64, width, w)
            }
            _ => w.fail(form.misfit(Place::Int, self.unsigned_abs().try_into().unwrap_or(u32::MAX))),
        }
    }
}

impl Decode<'_> for i64 {
    #[inline]
    fn decode(content: &[u8]) -> Result<Option<i64>, DecodeError> {
        if content.is_empty() { Ok(None) } else { read_int(content, Place::Int).map(Some) }
    }
}

impl Sealed for u64 {}
impl Typed for u64 {
    const TYPE: DataType = DataType::UINT;
}

impl Primitive for u64 {
    #[inline]
    fn data_type(&self) -> DataType {
        Self::TYPE
    }

    #[inline]
    fn content_len(&self) -> usize {
        uint_len(*self)
    }

    #[inline]
    fn put_content(&self, w: &mut Writer<'_>) {
        put_low_bytes(*self, uint_len(*self), w);
    }

    #[inline]
    fn packed(&self) -> Option<Packed> {
        Some(low_bytes(*self, uint_len(*self)))
    }

    fn put_fixed(&self, form: FixedForm, w: &mut Writer<'_>) {
        match form {
            FixedForm::Width(width @ 1..=8) if uint_len(*self) <= width => put_low_bytes(*self, width, w),
            _ => w.fail(form.misfit(Place::UInt, (*self).try_into().unwrap_or(u32::MAX))),
        }
    }
}

impl Decode<'_> for u64 {
    #[inline]
    fn decode(content: &[u8]) -> Result<Option<u64>, DecodeError> {
        if content.is_empty() { Ok(None) } else { read_uint(content, Place::UInt).map(Some) }
    }
}

/// A value of an enumerated field: a number that the dictionary's table turns into text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Enum(pub u16);

impl Sealed for Enum {}
impl Typed for Enum {
    const TYPE: DataType = DataType::ENUM;
}

impl Primitive for Enum {
    #[inline]
    fn data_type(&self) -> DataType {
        Self::TYPE
    }

    #[inline]
    fn content_len(&self) -> usize {
        if self.0 < 0x100 { 1 } else { 2 }
    }

    #[inline]
    fn put_content(&self, w: &mut Writer<'_>) {
        put_low_bytes(self.0.into(), self.content_len(), w);
    }

    #[inline]
    fn packed(&self) -> Option<Packed> {
        Some(low_bytes(self.0.into(), self.content_len()))
    }

    fn put_fixed(&self, form: FixedForm, w: &mut Writer<'_>) {
        match form {
            FixedForm::Width(width @ 1..=2) if self.content_len() <= width => {
                put_low_bytes(self.0.into(), width, w)
            }
            _ => w.fail(form.misfit(Place::Enum, self.0.into())),
        }
    }
}

impl Decode<'_> for Enum {
    #[inline]
    fn decode(content: &[u8]) -> Result<Option<Enum>, DecodeError> {
        match *content {
            [] => Ok(None),
            [value] => Ok(Some(Enum(value.into()))),
            [high, low] => Ok(Some(Enum(u16::from_be_bytes([high, low])))),
            _ => Err(DecodeError::BadLength { place: Place::Enum, length: clip(content.len()), max: 2 }),
        }
    }
}

macro_rules! float {
    ($float:ty, $data_type:ident, $place:ident, $width:literal) => {
        impl Sealed for $float {}
        impl Typed for $float {
            const TYPE: DataType = DataType::$data_type;
        }

        impl Primitive for $float {
            #[inline]
            fn data_type(&self) -> DataType {
                Self::TYPE
            }

            #[inline]
            fn content_len(&self) -> usize {
                $width
            }

            #[inline]
            fn put_content(&self, w: &mut Writer<'_>) {
                w.chunk(self.to_be_bytes(), $width);
            }

            fn put_fixed(&self, form: FixedForm, w: &mut Writer<'_>) {
                match form {
                    FixedForm::Width($width) => self.put_content(w),
                    _ => w.fail(EncodeError::BadType { place: Place::$place, data_type: Self::TYPE }),
                }
            }
        }

        impl Decode<'_> for $float {
            /// IEEE 754, big endian.
            #[inline]
            fn decode(content: &[u8]) -> Result<Option<$float>, DecodeError> {
                if content.is_empty() {
                    return Ok(None);
                }
                let bytes = content.try_into().map_err(|_| DecodeError::BadLength {
                    place: Place::$place,
                    length: clip(content.len()),
                    max: $width,
                })?;
                Ok(Some(<$float>::from_be_bytes(bytes)))
            }
        }
    };
}

float!(f32, FLOAT, Float, 4);
float!(f64, DOUBLE, Double, 8);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::encode_to_vec;

    #[test]
    fn numbers_at_every_boundary_take_their_shortest_form_and_come_back() {
        for bits in 0..64 {
            for value in [(1i64 << bits).wrapping_sub(1), 1i64 << bits, -(1i64 << bits).max(-i64::MAX)] {
                let content = encode_to_vec(|w| value.put_content(w)).expect("8 bytes");
                assert_eq!(i64::decode(&content), Ok(Some(value)));
                assert_eq!(content.len(), value.content_len());
                let shorter = content.len() > 1 && i64::decode(&content[1..]) == Ok(Some(value));
                assert!(!shorter, "{value} has a shorter form than {content:?}");
                let value = value as u64;
                let content = encode_to_vec(|w| value.put_content(w)).expect("8 bytes");
                assert_eq!(u64::decode(&content), Ok(Some(value)));
                assert!(content.len() == 1 || content[0] != 0);
            }
        }
    }

    #[test]
    fn longer_forms_of_a_number_are_accepted_up_to_eight_bytes() {
        for length in 1..=8 {
            let mut content = vec![0xFF; length];
            content[length - 1] = 0xFE;
            assert_eq!(i64::decode(&content), Ok(Some(-2)));
            let mut content = vec![0; length];
            content[length - 1] = 0xFE;
            assert_eq!(u64::decode(&content), Ok(Some(0xFE)));
        }
        let too_long = DecodeError::BadLength { place: Place::Int, length: 9, max: 8 };
        assert_eq!(i64::decode(&[0; 9]), Err(too_long));
        let too_long = DecodeError::BadLength { place: Place::Enum, length: 3, max: 2 };
        assert_eq!(Enum::decode(&[0; 3]), Err(too_long));
        assert!(f32::decode(&[0; 8]).is_err() && f64::decode(&[0; 4]).is_err());
    }

    #[test]
    fn a_number_too_large_for_its_fixed_width_is_refused() {
        let fixed = |value: i64, width| encode_to_vec(|w| value.put_fixed(FixedForm::Width(width), w));
        assert_eq!(fixed(-128, 1), Ok(vec![0x80]));
        assert_eq!(fixed(-1, 4), Ok(vec![0xFF; 4]));
        assert_eq!(fixed(128, 1), Err(EncodeError::BadValue { place: Place::Int, value: 128, max: 1 }));
        let refused = encode_to_vec(|w| 256u64.put_fixed(FixedForm::Width(1), w));
        assert_eq!(refused, Err(EncodeError::BadValue { place: Place::UInt, value: 256, max: 1 }));
    }
}

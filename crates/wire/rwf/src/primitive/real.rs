use std::fmt;

use super::number::{int_len, low_bytes, put_low_bytes, read_int};
use super::{Decode, FixedForm, Packed, Primitive, Sealed, Typed};
use crate::error::clip;
use crate::{DataType, DecodeError, EncodeError, Place, Writer};

/// A number as a price is quoted: a whole mantissa and how to scale it, or no number at all.
///
/// Equality is that of the wire: 1.0 and 1.00 differ. The blank is `None` of `Option<Real>`.
///
/// Shape: hint byte, then the mantissa as a shortest two's complement integer; infinities and "not a number"
/// are the hint byte alone. Source: RWF 14.1, Real.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Real {
    /// `mantissa` scaled by `hint`.
    Finite {
        /// The digits.
        mantissa: i64,
        /// What they are to be multiplied with.
        hint: Hint,
    },
    /// +infinity.
    Infinity,
    /// −infinity.
    NegativeInfinity,
    /// Not a number.
    NotANumber,
}

/// How a [`Real`]'s mantissa is scaled: 0..=21 by 10^(hint − 14), 22..=30 by 1 / 2^(hint − 22).
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Hint(u8);

/// Why a text is no [`Real`].
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DecimalTextError {
    /// Something else than sign, digits, one point and an exponent.
    NotDecimal {
        /// Byte offset of what cannot stand there; the length of the text if it ends too early.
        offset: u32,
    },
    /// The digits, or the exponent, are more than a mantissa of 64 bits holds.
    TooLarge,
    /// More than 14 decimals that are not zero.
    TooPrecise,
}

pub(super) const BLANK_BYTE: u8 = 0x20;
const INFINITY_BYTE: u8 = 0x21;
const NEGATIVE_INFINITY_BYTE: u8 = 0x22;
const NOT_A_NUMBER_BYTE: u8 = 0x23;

impl Hint {
    /// Whole numbers.
    pub const INTEGER: Hint = Hint(14);
    const MAX: u8 = 30;
    const FIRST_FRACTION: u8 = 22;
    const EXPONENT_MIN: i32 = -14;
    const EXPONENT_MAX: i32 = 7;

    /// The hint of a number 0..=30; `None` above.
    #[inline]
    #[must_use]
    pub const fn new(number: u8) -> Option<Hint> {
        if number <= Self::MAX { Some(Hint(number)) } else { None }
    }

    /// The hint that scales by 10^`exponent`; `None` outside −14..=7.
    #[must_use]
    pub const fn from_exponent(exponent: i32) -> Option<Hint> {
        match exponent {
            Self::EXPONENT_MIN..=Self::EXPONENT_MAX => Some(Hint((exponent - Self::EXPONENT_MIN) as u8)),
            _ => None,
        }
    }

    /// The number on the wire.
    #[inline]
    #[must_use]
    pub const fn number(self) -> u8 {
        self.0
    }

    /// The power of ten to scale by, `None` for a fraction.
    #[inline]
    #[must_use]
    pub const fn exponent(self) -> Option<i32> {
        if self.0 < Self::FIRST_FRACTION { Some(self.0 as i32 + Self::EXPONENT_MIN) } else { None }
    }

    /// The power of two to divide by, `None` for a decimal.
    #[inline]
    #[must_use]
    pub const fn denominator_bits(self) -> Option<u32> {
        if self.0 < Self::FIRST_FRACTION { None } else { Some((self.0 - Self::FIRST_FRACTION) as u32) }
    }
}

impl fmt::Debug for Hint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

impl Real {
    /// `mantissa` with the last `decimals` digits behind the point: `Real::decimal(3990, 2)` is 39.90.
    ///
    /// # Panics
    /// If there are more than 14 decimals; that is a mistake in the program, usually found at compile time.
    #[inline]
    #[must_use]
    pub const fn decimal(mantissa: i64, decimals: u8) -> Real {
        assert!(decimals <= 14, "a real has at most 14 decimals");
        Real::Finite { mantissa, hint: Hint(14 - decimals) }
    }

    /// `mantissa` scaled by `hint`.
    #[inline]
    #[must_use]
    pub const fn new(mantissa: i64, hint: Hint) -> Real {
        Real::Finite { mantissa, hint }
    }

    /// The number of a decimal text, with as many decimals as the text has; no floating point is involved.
    ///
    /// `[+-]digits[.digits][e[+-]digits]`, with a digit before or after the point. Decimals beyond 14 must be
    /// zeros.
    ///
    /// # Errors
    /// A [`DecimalTextError`] if the text is no such number or has no exact mantissa and hint.
    pub fn from_decimal_text(text: &str) -> Result<Real, DecimalTextError> {
        DecimalText::parse(text.as_bytes())?.real()
    }

    /// The nearest double, if the mantissa is below 2^53; above, the mantissa is rounded first.
    #[must_use]
    pub fn to_f64(self) -> f64 {
        match self {
            Real::Infinity => f64::INFINITY,
            Real::NegativeInfinity => f64::NEG_INFINITY,
            Real::NotANumber => f64::NAN,
            Real::Finite { mantissa, hint } => match (hint.exponent(), hint.denominator_bits()) {
                (Some(exponent @ 0..), _) => mantissa as f64 * power_of_ten(exponent),
                (Some(exponent), _) => mantissa as f64 / power_of_ten(-exponent),
                (None, bits) => mantissa as f64 / (1u64 << bits.unwrap_or(0)) as f64,
            },
        }
    }

    fn special_byte(self) -> Option<u8> {
        match self {
            Real::Finite { .. } => None,
            Real::Infinity => Some(INFINITY_BYTE),
            Real::NegativeInfinity => Some(NEGATIVE_INFINITY_BYTE),
            Real::NotANumber => Some(NOT_A_NUMBER_BYTE),
        }
    }

    /// Decodes the content of a set-defined `REAL_4RB` or `REAL_8RB` value; `None` is the blank.
    ///
    /// The blank of Java, a second byte behind the blank byte, is accepted.
    ///
    /// # Errors
    /// A [`DecodeError`] if the bytes are no such value.
    pub fn decode_rb(content: &[u8], form: FixedForm) -> Result<Option<Real>, DecodeError> {
        let Some((&first, mantissa)) = content.split_first() else { return Ok(None) };
        if first & BLANK_BYTE != 0 {
            return special(first & 0x3F);
        }
        let length = rb_len(content, form) - 1;
        if mantissa.len() != length {
            return Err(DecodeError::Truncated {
                place: Place::Real,
                need_bytes: clip(length),
                have_bytes: clip(mantissa.len()),
            });
        }
        finite(first & 0x1F, mantissa)
    }
}

/// 10^`exponent` for 0..=14, all of which a double holds exactly.
fn power_of_ten(exponent: i32) -> f64 {
    10u64.pow(exponent.unsigned_abs()) as f64
}

fn special(byte: u8) -> Result<Option<Real>, DecodeError> {
    match byte {
        BLANK_BYTE => Ok(None),
        INFINITY_BYTE => Ok(Some(Real::Infinity)),
        NEGATIVE_INFINITY_BYTE => Ok(Some(Real::NegativeInfinity)),
        NOT_A_NUMBER_BYTE => Ok(Some(Real::NotANumber)),
        _ => Err(bad_hint(byte)),
    }
}

/// What has the bit of the blank set, read as ETA does: the highest two bits say nothing; a hint without a mantissa is
/// the blank, one with a mantissa counts as if the bit were not set.
fn rare(first: u8, mantissa: &[u8]) -> Result<Option<Real>, DecodeError> {
    match first & 0x3F {
        byte @ (BLANK_BYTE | INFINITY_BYTE | NEGATIVE_INFINITY_BYTE | NOT_A_NUMBER_BYTE) => special(byte),
        _ if mantissa.is_empty() => Ok(None),
        byte => finite(byte & 0x1F, mantissa),
    }
}

#[inline]
fn finite(hint: u8, mantissa: &[u8]) -> Result<Option<Real>, DecodeError> {
    let hint = Hint::new(hint).ok_or_else(|| bad_hint(hint))?;
    Ok(Some(Real::Finite { mantissa: read_int(mantissa, Place::Real)?, hint }))
}

#[cold]
fn bad_hint(byte: u8) -> DecodeError {
    DecodeError::BadValue { place: Place::RealHint, value: byte.into(), max: Hint::MAX.into() }
}

/// Bytes of the `REAL_*RB` value at the start of `bytes`, by its first byte.
pub(super) fn rb_len(bytes: &[u8], form: FixedForm) -> usize {
    match bytes.first() {
        Some(first) if first & BLANK_BYTE == 0 => {
            let steps = usize::from(first >> 6) + 1;
            1 + if form == FixedForm::Real8Rb { 2 * steps } else { steps }
        }
        _ => 1,
    }
}

impl Sealed for Real {}
impl Typed for Real {
    const TYPE: DataType = DataType::REAL;
}

impl Decode<'_> for Real {
    #[inline]
    fn decode(content: &[u8]) -> Result<Option<Real>, DecodeError> {
        match content.split_first() {
            None => Ok(None),
            Some((&first, mantissa)) if first & BLANK_BYTE == 0 => match finite(first & 0x1F, mantissa) {
                Err(_) if mantissa.is_empty() => Ok(None),
                result => result,
            },
            Some((&first, mantissa)) => rare(first, mantissa),
        }
    }
}

impl Primitive for Real {
    #[inline]
    fn data_type(&self) -> DataType {
        Self::TYPE
    }

    #[inline]
    fn content_len(&self) -> usize {
        match self {
            Real::Finite { mantissa, .. } => 1 + int_len(*mantissa),
            _ => 1,
        }
    }

    #[inline]
    fn put_content(&self, w: &mut Writer<'_>) {
        match self {
            Real::Finite { mantissa, hint } => {
                w.u8(hint.0);
                put_low_bytes(*mantissa as u64, int_len(*mantissa), w);
            }
            special => w.u8(special.special_byte().unwrap_or(BLANK_BYTE)),
        }
    }

    #[inline]
    fn packed(&self) -> Option<Packed> {
        let Real::Finite { mantissa, hint } = *self else { return None };
        let digits = low_bytes(mantissa as u64, int_len(mantissa));
        Some(Packed { content: u128::from(hint.0) << 120 | digits.content >> 8, length: 1 + digits.length })
    }

    fn put_fixed(&self, form: FixedForm, w: &mut Writer<'_>) {
        let Real::Finite { mantissa, hint } = *self else {
            return match form {
                FixedForm::Width(_) => w.fail(bad_array()),
                _ => self.put_content(w),
            };
        };
        let shortest = int_len(mantissa);
        let (length, steps) = match form {
            FixedForm::Real4Rb if shortest <= 4 => (shortest, shortest - 1),
            FixedForm::Real8Rb => (shortest.next_multiple_of(2), shortest.div_ceil(2) - 1),
            FixedForm::Real4Rb => return w.fail(form.misfit(Place::Real, u32::MAX)),
            FixedForm::Width(_) => return w.fail(bad_array()),
        };
        w.u8((steps as u8) << 6 | hint.0);
        put_low_bytes(mantissa as u64, length, w);
    }
}

/// Reals have no form of fixed width.
fn bad_array() -> EncodeError {
    EncodeError::BadType { place: Place::ArrayItem, data_type: DataType::REAL }
}

impl fmt::Display for Real {
    /// All digits, never rounded, never an exponent: as many decimals as the hint says; for fractions as many
    /// as the value needs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Real::Finite { mantissa, hint } = *self else {
            return f.pad(match self {
                Real::Infinity => "inf",
                Real::NegativeInfinity => "-inf",
                _ => "nan",
            });
        };
        let mut digits = u128::from(mantissa.unsigned_abs());
        let mut decimals = match (hint.exponent(), hint.denominator_bits()) {
            (Some(exponent), _) => exponent.min(0).unsigned_abs(),
            (None, bits) => bits.unwrap_or(0),
        };
        if let Some(bits) = hint.denominator_bits() {
            digits *= 5u128.pow(bits);
            while decimals > 0 && digits.is_multiple_of(10) {
                digits /= 10;
                decimals -= 1;
            }
        }
        digits *= 10u128.pow(hint.exponent().unwrap_or(0).max(0).unsigned_abs());
        let unit = 10u128.pow(decimals);
        let sign = if mantissa < 0 { "-" } else { "" };
        let whole = digits / unit;
        if decimals == 0 {
            return write!(f, "{sign}{whole}");
        }
        write!(f, "{sign}{whole}.{:0width$}", digits % unit, width = decimals as usize)
    }
}

/// Digits and scale of a decimal text.
struct DecimalText {
    mantissa: i64,
    exponent: i32,
}

impl DecimalText {
    fn parse(text: &[u8]) -> Result<DecimalText, DecimalTextError> {
        let at = |rest: &[u8]| DecimalTextError::NotDecimal { offset: clip(text.len() - rest.len()) };
        let (negative, mut rest) = sign(text);
        let (mut mantissa, mut decimals, mut digits, mut point) = (0i64, 0i32, 0u32, false);
        // Zeros that another digit has not followed yet: those at the end may be more than a mantissa holds.
        let mut zeros = 0i32;
        while let Some((&byte, tail)) = rest.split_first() {
            match byte {
                b'0'..=b'9' => {
                    if byte == b'0' {
                        zeros += i32::from(mantissa != 0);
                    } else {
                        while zeros > 0 {
                            mantissa = push_digit(mantissa, 0, negative)?;
                            zeros -= 1;
                        }
                        mantissa = push_digit(mantissa, byte - b'0', negative)?;
                    }
                    digits += 1;
                    decimals += i32::from(point);
                }
                b'.' if !point => point = true,
                b'e' | b'E' if digits > 0 => break,
                _ => return Err(at(rest)),
            }
            rest = tail;
        }
        if digits == 0 {
            return Err(at(rest));
        }
        let exponent = match rest.split_first() {
            None => 0,
            Some((_, exponent)) => {
                parse_exponent(exponent).map_err(|rest| rest.map_or(DecimalTextError::TooLarge, at))?
            }
        };
        while let (1.., Ok(longer)) = (zeros, push_digit(mantissa, 0, negative)) {
            (mantissa, zeros) = (longer, zeros - 1);
        }
        Ok(DecimalText { mantissa, exponent: exponent - decimals + zeros })
    }

    /// Brings the scale into the range of the hints without changing the value.
    fn real(mut self) -> Result<Real, DecimalTextError> {
        if self.mantissa == 0 {
            self.exponent = self.exponent.clamp(Hint::EXPONENT_MIN, 0);
        }
        while self.exponent < Hint::EXPONENT_MIN {
            if self.mantissa % 10 != 0 {
                return Err(DecimalTextError::TooPrecise);
            }
            self.mantissa /= 10;
            self.exponent += 1;
        }
        while self.exponent > Hint::EXPONENT_MAX {
            self.mantissa = self.mantissa.checked_mul(10).ok_or(DecimalTextError::TooLarge)?;
            self.exponent -= 1;
        }
        let hint = Hint::from_exponent(self.exponent).expect("brought into the range of hints above");
        Ok(Real::Finite { mantissa: self.mantissa, hint })
    }
}

fn sign(text: &[u8]) -> (bool, &[u8]) {
    match text.split_first() {
        Some((b'-', rest)) => (true, rest),
        Some((b'+', rest)) => (false, rest),
        _ => (false, text),
    }
}

/// Negative mantissas grow downwards, so that the smallest one can be read.
fn push_digit(mantissa: i64, digit: u8, negative: bool) -> Result<i64, DecimalTextError> {
    let digit = if negative { -i64::from(digit) } else { i64::from(digit) };
    mantissa.checked_mul(10).and_then(|m| m.checked_add(digit)).ok_or(DecimalTextError::TooLarge)
}

/// The exponent; on failure where it fails, or `None` if it is too large.
fn parse_exponent(text: &[u8]) -> Result<i32, Option<&[u8]>> {
    let (negative, mut rest) = sign(text);
    if rest.is_empty() {
        return Err(Some(rest));
    }
    let mut value = 0i32;
    while let Some((&byte, tail)) = rest.split_first() {
        if !byte.is_ascii_digit() {
            return Err(Some(rest));
        }
        value = value * 10 + i32::from(byte - b'0');
        if value > 1000 {
            return Err(None);
        }
        rest = tail;
    }
    Ok(if negative { -value } else { value })
}

impl fmt::Display for DecimalTextError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotDecimal { offset } => write!(f, "not a decimal number at offset {offset}"),
            Self::TooLarge => f.write_str("more digits than a real holds"),
            Self::TooPrecise => f.write_str("more than 14 decimals"),
        }
    }
}

impl std::error::Error for DecimalTextError {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::encode_to_vec;

    fn text(text: &str) -> Result<(i64, u8), DecimalTextError> {
        match Real::from_decimal_text(text)? {
            Real::Finite { mantissa, hint } => Ok((mantissa, hint.number())),
            special => panic!("{special:?} from {text}"),
        }
    }

    #[test]
    fn a_decimal_text_keeps_its_digits_and_decimals() {
        assert_eq!(text("61837.63000000"), Ok((6_183_763_000_000, 6)));
        assert_eq!(text("-0.01"), Ok((-1, 12)));
        assert_eq!(text("39.90"), Ok((3990, 12)));
        assert_eq!(text("+5"), Ok((5, 14)));
        assert_eq!(text(".5"), Ok((5, 13)));
        assert_eq!(text("5."), Ok((5, 14)));
        assert_eq!(text("1e-8"), Ok((1, 6)));
        assert_eq!(text("1.5E+9"), Ok((150, 21)));
        assert_eq!(text("0.0000000000000000"), Ok((0, 0)));
        assert_eq!(text("1.1000000000000000"), Ok((110_000_000_000_000, 0)));
        assert_eq!(text("-9223372036854775808"), Ok((i64::MIN, 14)));
        assert_eq!(text("0e900"), Ok((0, 14)));
        assert_eq!(text("92233720368547758070"), Ok((i64::MAX, 15)));
        assert_eq!(text("-100000000000000000000.00"), Ok((-1_000_000_000_000_000_000, 16)));
    }

    #[test]
    fn a_text_that_has_no_exact_real_is_refused_and_the_place_named() {
        for (wrong, offset) in [
            ("", 0),
            ("-", 1),
            (".", 1),
            ("1.2.3", 3),
            ("12a", 2),
            ("e5", 0),
            ("1e", 2),
            ("1e+x", 3),
            (" 1", 0),
        ] {
            assert_eq!(text(wrong), Err(DecimalTextError::NotDecimal { offset }), "{wrong:?}");
        }
        assert_eq!(text("9223372036854775808"), Err(DecimalTextError::TooLarge));
        assert_eq!(text("1e30"), Err(DecimalTextError::TooLarge));
        assert_eq!(text("1e99999999999"), Err(DecimalTextError::TooLarge));
        assert_eq!(text("0.000000000000001"), Err(DecimalTextError::TooPrecise));
    }

    #[test]
    fn every_digit_is_printed_for_decimals_and_fractions() {
        let fraction = |mantissa, hint| Real::new(mantissa, Hint::new(hint).expect("legal")).to_string();
        assert_eq!(Real::decimal(3990, 2).to_string(), "39.90");
        assert_eq!(Real::decimal(-1, 2).to_string(), "-0.01");
        assert_eq!(Real::decimal(i64::MIN, 14).to_string(), "-92233.72036854775808");
        assert_eq!(fraction(3, 21), "30000000");
        assert_eq!(fraction(177, 27), "5.53125");
        assert_eq!(fraction(160, 27), "5");
        assert_eq!(fraction(-1, 30), "-0.00390625");
        assert_eq!(fraction(0, 30), "0");
        assert_eq!(Real::NegativeInfinity.to_string(), "-inf");
    }

    #[test]
    fn printing_and_reading_back_gives_the_same_decimal() {
        for hint in 0..=14 {
            for mantissa in [0, 1, -1, 10, 123_456_789, i64::MAX, i64::MIN] {
                let real = Real::new(mantissa, Hint::new(hint).expect("legal"));
                assert_eq!(Real::from_decimal_text(&real.to_string()), Ok(real));
            }
        }
    }

    #[test]
    fn to_f64_rounds_once() {
        assert_eq!(Real::decimal(3990, 2).to_f64(), 39.90);
        assert_eq!(Real::new(177, Hint::new(27).expect("legal")).to_f64(), 5.53125);
        assert_eq!(Real::new(3, Hint::new(21).expect("legal")).to_f64(), 3e7);
        assert_eq!(Real::Infinity.to_f64(), f64::INFINITY);
        assert!(Real::NotANumber.to_f64().is_nan());
    }

    #[test]
    fn a_real_is_taken_in_every_form_that_eta_takes() {
        // What ETA Java 3.9.1 makes of each first byte, alone and with a mantissa of 1.
        for first in 0..=u8::MAX {
            let (alone, with) = match first & 0x3F {
                0x20 => (Ok(None), Ok(None)),
                0x21 => (Ok(Some(Real::Infinity)), Ok(Some(Real::Infinity))),
                0x22 => (Ok(Some(Real::NegativeInfinity)), Ok(Some(Real::NegativeInfinity))),
                0x23 => (Ok(Some(Real::NotANumber)), Ok(Some(Real::NotANumber))),
                hint if hint & 0x1F == 31 => (Ok(None), Err(bad_hint(31))),
                hint => (Ok(None), Ok(Some(Real::new(1, Hint::new(hint & 0x1F).expect("legal"))))),
            };
            assert_eq!(Real::decode(&[first]), alone, "{first:02x}");
            assert_eq!(Real::decode(&[first, 1]), with, "{first:02x} 01");
        }
    }

    #[test]
    fn illegal_hints_and_mantissas_that_are_too_long_are_errors() {
        assert!(matches!(Real::decode(&[31, 1]), Err(DecodeError::BadValue { value: 31, .. })));
        assert!(matches!(Real::decode(&[12; 10]), Err(DecodeError::BadLength { length: 9, .. })));
        assert_eq!(Real::decode(&[0x20]), Ok(None));
        assert_eq!(Real::decode(&[]), Ok(None));
    }

    #[test]
    fn the_self_sized_forms_round_trip_for_every_length_and_sign() {
        for form in [FixedForm::Real4Rb, FixedForm::Real8Rb] {
            let bits = if form == FixedForm::Real4Rb { 31 } else { 63 };
            for value in (0..bits).flat_map(|b| [1i64 << b, -(1i64 << b)]) {
                let real = Real::decimal(value, 2);
                let content = encode_to_vec(|w| real.put_fixed(form, w)).expect("fits");
                assert_eq!(rb_len(&content, form), content.len());
                assert_eq!(Real::decode_rb(&content, form), Ok(Some(real)), "{content:?}");
            }
        }
        let too_large = encode_to_vec(|w| Real::decimal(1 << 31, 2).put_fixed(FixedForm::Real4Rb, w));
        assert!(matches!(too_large, Err(EncodeError::BadValue { place: Place::Real, max: 5, .. })));
        for blank in [&[0x20][..], &[0x20, 0]] {
            assert_eq!(Real::decode_rb(blank, FixedForm::Real4Rb), Ok(None));
        }
    }
}

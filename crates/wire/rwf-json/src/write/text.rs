use std::fmt;
use std::io::Write;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

/// JSON text that grows in the caller's vector.
///
/// Every member and item is written with a comma behind it; what closes an object or array takes the last one
/// away. So nothing has to know whether it is the first.
pub(crate) struct Text<'o> {
    out: &'o mut Vec<u8>,
    start: usize,
}

/// The name of a member with its quotes and colon.
macro_rules! member {
    ($name:literal) => {
        concat!("\"", $name, "\":").as_bytes()
    };
}
pub(crate) use member;

/// Two digits for each number below 100.
const PAIRS: [u8; 200] = {
    let mut pairs = [0; 200];
    let mut number = 0;
    while number < 100 {
        pairs[2 * number] = b'0' + (number / 10) as u8;
        pairs[2 * number + 1] = b'0' + (number % 10) as u8;
        number += 1;
    }
    pairs
};

/// Digits of the largest `u64`, and of the largest whole mantissa with all its zeros.
pub(crate) const DIGITS_MAX: usize = 40;

/// Writes the decimal digits of `value` so that they end at `end`; returns where they begin.
#[inline]
pub(crate) fn digits(buffer: &mut [u8; DIGITS_MAX], end: usize, mut value: u64) -> usize {
    let mut at = end;
    while value >= 100 {
        let pair = 2 * (value % 100) as usize;
        value /= 100;
        at -= 2;
        buffer[at..at + 2].copy_from_slice(&PAIRS[pair..pair + 2]);
    }
    if value >= 10 {
        let pair = 2 * value as usize;
        at -= 2;
        buffer[at..at + 2].copy_from_slice(&PAIRS[pair..pair + 2]);
    } else {
        at -= 1;
        buffer[at] = b'0' + value as u8;
    }
    at
}

impl<'o> Text<'o> {
    /// Goes on behind what is in `out`.
    pub(crate) fn new(out: &'o mut Vec<u8>) -> Text<'o> {
        let start = out.len();
        Text { out, start }
    }

    /// Bytes written.
    pub(crate) fn len(&self) -> usize {
        self.out.len() - self.start
    }

    /// Takes back everything that was written.
    pub(crate) fn undo(&mut self) {
        self.out.truncate(self.start);
    }

    /// Takes back what was written behind the first `length` bytes.
    pub(crate) fn cut(&mut self, length: usize) {
        self.out.truncate(self.start + length);
    }

    #[inline]
    pub(crate) fn raw(&mut self, bytes: &[u8]) {
        self.out.extend_from_slice(bytes);
    }

    #[inline]
    pub(crate) fn comma(&mut self) {
        self.out.push(b',');
    }

    #[inline]
    pub(crate) fn open_object(&mut self) {
        self.out.push(b'{');
    }

    #[inline]
    pub(crate) fn open_array(&mut self) {
        self.out.push(b'[');
    }

    #[inline]
    pub(crate) fn close_object(&mut self) {
        self.close(b'}');
    }

    #[inline]
    pub(crate) fn close_array(&mut self) {
        self.close(b']');
    }

    #[inline]
    fn close(&mut self, bracket: u8) {
        match self.out.last_mut() {
            Some(last) if *last == b',' => *last = bracket,
            _ => self.out.push(bracket),
        }
    }

    pub(crate) fn null(&mut self) {
        self.raw(b"null");
    }

    pub(crate) fn boolean(&mut self, value: bool) {
        self.raw(if value { b"true" } else { b"false" });
    }

    #[inline]
    pub(crate) fn uint(&mut self, value: u64) {
        let mut buffer = [0; DIGITS_MAX];
        let at = digits(&mut buffer, DIGITS_MAX, value);
        self.raw(&buffer[at..]);
    }

    #[inline]
    pub(crate) fn int(&mut self, value: i64) {
        if value < 0 {
            self.out.push(b'-');
        }
        self.uint(value.unsigned_abs());
    }

    /// At least `width` digits, with zeros in front.
    pub(crate) fn padded(&mut self, value: u16, width: usize) {
        let mut buffer = [b'0'; DIGITS_MAX];
        let at = digits(&mut buffer, DIGITS_MAX, value.into());
        self.raw(&buffer[at.min(DIGITS_MAX - width)..]);
    }

    /// A name if there is one, else the number.
    #[inline]
    pub(crate) fn name_or_number(&mut self, name: Option<&str>, number: u8) {
        match name {
            Some(name) => self.word(name),
            None => self.uint(number.into()),
        }
    }

    /// A string of ours, in which nothing is to be escaped.
    #[inline]
    pub(crate) fn word(&mut self, word: &str) {
        self.out.push(b'"');
        self.raw(word.as_bytes());
        self.out.push(b'"');
    }

    /// A string; bytes that are not UTF-8 become U+FFFD.
    #[inline]
    pub(crate) fn string(&mut self, bytes: &[u8]) {
        self.out.push(b'"');
        self.characters(bytes);
        self.out.push(b'"');
    }

    /// Part of a string: `bytes`, escaped.
    #[inline]
    pub(crate) fn characters(&mut self, bytes: &[u8]) {
        // Every byte is looked at: without a way out in between it costs a load each, and no branch.
        if bytes.iter().fold(true, |plain, byte| plain & PLAIN[usize::from(*byte)]) {
            self.raw(bytes);
        } else {
            self.escaped(bytes);
        }
    }

    fn escaped(&mut self, bytes: &[u8]) {
        for chunk in bytes.utf8_chunks() {
            let mut rest = chunk.valid().as_bytes();
            while let Some(at) = rest.iter().position(|byte| needs_escape(*byte)) {
                self.raw(&rest[..at]);
                self.escape(rest[at]);
                rest = &rest[at + 1..];
            }
            self.raw(rest);
            if !chunk.invalid().is_empty() {
                self.character(char::REPLACEMENT_CHARACTER);
            }
        }
    }

    /// Part of a string: one character.
    pub(crate) fn character(&mut self, character: char) {
        match u8::try_from(character) {
            Ok(byte) if needs_escape(byte) => self.escape(byte),
            _ => self.raw(character.encode_utf8(&mut [0; 4]).as_bytes()),
        }
    }

    fn escape(&mut self, byte: u8) {
        let short = match byte {
            b'"' | b'\\' => byte,
            b'\n' => b'n',
            b'\r' => b'r',
            b'\t' => b't',
            _ => {
                const HEX: &[u8; 16] = b"0123456789ABCDEF";
                let [high, low] = [byte >> 4, byte & 15].map(|digit| HEX[usize::from(digit)]);
                self.raw(&[b'\\', b'u', b'0', b'0', high, low]);
                return;
            }
        };
        self.raw(&[b'\\', short]);
    }

    #[inline]
    pub(crate) fn quote(&mut self) {
        self.out.push(b'"');
    }

    pub(crate) fn base64(&mut self, bytes: &[u8]) {
        self.out.push(b'"');
        let start = self.out.len();
        self.out.resize(start + bytes.len().div_ceil(3) * 4, 0);
        let written = STANDARD.encode_slice(bytes, &mut self.out[start..]);
        self.out.truncate(start + written.expect("there is room for four characters for each three bytes"));
        self.out.push(b'"');
    }

    /// The shortest number that reads as the same float, of two digits at least; infinities and NaN as words.
    pub(crate) fn float(&mut self, value: impl Into<f64> + fmt::Debug + fmt::LowerExp + Copy) {
        let wide: f64 = value.into();
        match wide {
            _ if wide.is_nan() => self.word(NAN),
            f64::INFINITY => self.word(INFINITY),
            f64::NEG_INFINITY => self.word(NEGATIVE_INFINITY),
            _ => self.finite(value),
        }
    }

    fn finite(&mut self, value: impl fmt::Debug + fmt::LowerExp) {
        let start = self.out.len();
        write!(self.out, "{value:?}").expect("a vector takes everything");
        // Among the smallest numbers a second digit says more, as in 4.9e-324.
        if let [_, b'e', ..] | [b'-', _, b'e', ..] = self.out[start..] {
            self.out.truncate(start);
            write!(self.out, "{value:.1e}").expect("a vector takes everything");
        }
    }
}

/// How specials of Real, Float and Double are written.
pub(crate) const INFINITY: &str = "Inf";
/// See [`INFINITY`].
pub(crate) const NEGATIVE_INFINITY: &str = "-Inf";
/// See [`INFINITY`].
pub(crate) const NAN: &str = "NaN";

/// Whether a byte is a character that stands for itself.
const PLAIN: [bool; 256] = {
    let mut plain = [false; 256];
    let mut byte = 0u8;
    while byte < 0x80 {
        plain[byte as usize] = !needs_escape(byte);
        byte += 1;
    }
    plain
};

#[inline]
const fn needs_escape(byte: u8) -> bool {
    matches!(byte, 0..=0x1F | b'"' | b'\\' | 0x7F)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(write: impl FnOnce(&mut Text<'_>)) -> String {
        let mut out = b"before ".to_vec();
        write(&mut Text::new(&mut out));
        String::from_utf8(out.split_off(7)).expect("JSON is UTF-8")
    }

    #[test]
    fn integers_of_every_length_are_written_in_decimal() {
        let mut value = 1u64;
        for _ in 0..20 {
            for value in [value - 1, value, value.saturating_add(1)] {
                assert_eq!(written(|t| t.uint(value)), value.to_string());
                let signed = value as i64;
                assert_eq!(written(|t| t.int(signed.wrapping_neg())), signed.wrapping_neg().to_string());
            }
            value = value.saturating_mul(10);
        }
        assert_eq!(written(|t| t.int(i64::MIN)), i64::MIN.to_string());
        assert_eq!(written(|t| t.uint(u64::MAX)), u64::MAX.to_string());
    }

    #[test]
    fn padding_has_the_width_at_least() {
        assert_eq!(written(|t| t.padded(7, 2)), "07");
        assert_eq!(written(|t| t.padded(0, 4)), "0000");
        assert_eq!(written(|t| t.padded(65535, 4)), "65535");
    }

    #[test]
    fn every_byte_in_a_string_reads_as_itself_or_as_the_replacement() {
        for byte in 0..=u8::MAX {
            let text = written(|t| t.string(&[b'a', byte, b'b']));
            let read: String = serde_json::from_str(&text).expect("a JSON string");
            let shown = if byte < 0x80 { char::from(byte) } else { char::REPLACEMENT_CHARACTER };
            assert_eq!(read, format!("a{shown}b"), "{text}");
        }
        assert_eq!(written(|t| t.string("€\\\\\"\u{1b}".as_bytes())), r#""€\\\\\"\u001B""#);
    }

    #[test]
    fn closing_takes_the_last_comma_away() {
        assert_eq!(written(|t| (t.open_object(), t.close_object()).0), "{}");
        assert_eq!(written(|t| (t.open_array(), t.uint(1), t.comma(), t.close_array()).0), "[1]");
    }

    #[test]
    fn floats_are_short_and_their_specials_are_words() {
        assert_eq!(written(|t| t.float(-123_456.79_f32)), "-123456.79");
        assert_eq!(written(|t| t.float(5e-324)), "4.9e-324");
        assert_eq!(written(|t| t.float(-1e-45_f32)), "-1.4e-45");
        assert_eq!(written(|t| t.float(1e21)), "1.0e21");
        assert_eq!(written(|t| t.float(-0.0)), "-0.0");
        assert_eq!(written(|t| t.float(f32::NEG_INFINITY)), "\"-Inf\"");
        assert_eq!(written(|t| t.float(f64::NAN)), "\"NaN\"");
    }

    #[test]
    fn base64_is_padded() {
        assert_eq!(written(|t| t.base64(b"")), "\"\"");
        assert_eq!(written(|t| t.base64(&[0, 1, 2, 255])), "\"AAEC/w==\"");
    }
}

//! What a receiver does with RMTES text: apply partial updates to the value it holds, and show the result.
//!
//! | bytes | meaning |
//! |---|---|
//! | `ESC [ n `` ` `` ` | go on at column n (from 0) of the cached value; what follows overwrites |
//! | `ESC [ n b` | repeat the character before it n times |
//! | `ESC % 0` | UTF-8 from here on |
//! | other escapes | character sets; kept as they are |
//!
//! A column is a byte of the cached value. Columns that were never written hold NUL, which shows as nothing;
//! that is what the vendor's libraries hold and show.
//!
//! Source: RWF 14.1, RmtesString.

use std::borrow::Cow;

use crate::error::clip;
use crate::{DecodeError, Place};

const ESC: u8 = 0x1B;
const UTF8: &[u8] = b"\x1b%0";
const COMMAND: &[u8] = b"\x1b[";

/// The longest value an entry can hold: what [`apply`] is given as limit where there is no better one.
pub const VALUE_BYTES_MAX: usize = 0xFFFF;

/// Whether there is any escape sequence; if not, the value is shown and cached as it is.
#[inline]
#[must_use]
pub fn has_escape(value: &[u8]) -> bool {
    value.contains(&ESC)
}

/// Whether a value is an instruction to change the cached value: it begins with a move or a repetition.
#[inline]
#[must_use]
pub fn is_partial_update(value: &[u8]) -> bool {
    value.starts_with(COMMAND)
}

/// Applies a received value to a cached one: replaces it, or changes it if the value is a partial update.
///
/// Without a cached value pass an empty vector. It allocates only when the cached value grows.
///
/// # Errors
/// [`DecodeError::BadValue`] for an incomplete or unknown command, [`DecodeError::BadLength`] if the result
/// would be longer than `bytes_max`. The cached value is then as it was.
pub fn apply(cached: &mut Vec<u8>, value: &[u8], bytes_max: usize) -> Result<(), DecodeError> {
    if !has_escape(value) {
        check_length(value.len(), bytes_max)?;
        cached.clear();
        cached.extend_from_slice(value);
        return Ok(());
    }
    let kept = if is_partial_update(value) { cached.len() } else { 0 };
    let length = check(value, bytes_max)?.max(kept);
    cached.truncate(kept);
    cached.resize(length, 0);
    let mut column = 0;
    for step in Steps::of(value) {
        match step? {
            Step::Text(text) => {
                cached[column..column + text.len()].copy_from_slice(text);
                column += text.len();
            }
            Step::Column(to) => column = to,
            Step::Repeat { byte, count } => {
                cached[column..column + count].fill(byte);
                column += count;
            }
        }
    }
    Ok(())
}

/// Walks through the commands and returns how long the cached value has to be for them.
fn check(value: &[u8], bytes_max: usize) -> Result<usize, DecodeError> {
    let (mut column, mut length) = (0usize, 0usize);
    for step in Steps::of(value) {
        column = match step? {
            Step::Text(text) => column + text.len(),
            Step::Column(to) => to,
            Step::Repeat { count, .. } => column + count,
        };
        check_length(column, bytes_max)?;
        length = length.max(column);
    }
    Ok(length)
}

fn check_length(length: usize, bytes_max: usize) -> Result<(), DecodeError> {
    if length > bytes_max {
        return Err(DecodeError::BadLength {
            place: Place::Rmtes,
            length: clip(length),
            max: clip(bytes_max),
        });
    }
    Ok(())
}

/// The text that a cached value (see [`apply`]) shows.
///
/// UTF-8 behind `ESC % 0`. Elsewhere each byte below 0x80 stands for itself and each from 0xA0 on for the
/// Latin-1 character of that number, but that 0xDE and 0xFE are the arrows up and down of price ticks; NUL
/// shows as nothing, and character set designations are left out without changing what follows them.
#[must_use]
pub fn text(cached: &[u8]) -> Cow<'_, str> {
    if cached.iter().all(|b| (0x20..0x7F).contains(b)) {
        return String::from_utf8_lossy(cached);
    }
    if let Some(utf8) = cached.strip_prefix(UTF8)
        && !utf8.contains(&0)
        && !has_escape(utf8)
    {
        return String::from_utf8_lossy(utf8);
    }
    Cow::Owned(decoded(cached))
}

fn decoded(cached: &[u8]) -> String {
    let mut shown = String::with_capacity(cached.len());
    each_character(cached, |character| shown.push(character));
    shown
}

/// Gives the characters of [`text`] one by one, without a string for them.
pub fn each_character(cached: &[u8], mut show: impl FnMut(char)) {
    let mut rest = cached;
    while let Some((&byte, tail)) = rest.split_first() {
        if let Some(utf8) = rest.strip_prefix(UTF8) {
            return utf8.split(|byte| *byte == 0).for_each(|part| each_utf8(part, &mut show));
        }
        rest = match byte {
            ESC => skip_designation(tail),
            0 => tail,
            _ => {
                show(glyph(byte));
                tail
            }
        };
    }
}

fn each_utf8(bytes: &[u8], show: &mut impl FnMut(char)) {
    for chunk in bytes.utf8_chunks() {
        chunk.valid().chars().for_each(&mut *show);
        if !chunk.invalid().is_empty() {
            show(char::REPLACEMENT_CHARACTER);
        }
    }
}

/// The character of a byte of the default sets: Latin-1, but for the vendor's arrows.
fn glyph(byte: u8) -> char {
    match byte {
        0xDE => '\u{21E7}',
        0xFE => '\u{21E9}',
        _ => char::from(byte),
    }
}

/// ISO 2022: intermediate bytes 0x20..=0x2F, then one final byte.
fn skip_designation(mut rest: &[u8]) -> &[u8] {
    while let Some((byte, tail)) = rest.split_first() {
        rest = tail;
        if !(0x20..=0x2F).contains(byte) {
            break;
        }
    }
    rest
}

enum Step<'a> {
    Text(&'a [u8]),
    Column(usize),
    Repeat { byte: u8, count: usize },
}

/// Cuts a value into text and commands. Escapes that are no commands are part of the text.
struct Steps<'a> {
    rest: &'a [u8],
    last: Option<u8>,
}

impl<'a> Steps<'a> {
    fn of(value: &'a [u8]) -> Steps<'a> {
        Steps { rest: value, last: None }
    }

    fn command(&mut self, parameters: &'a [u8]) -> Result<Step<'a>, DecodeError> {
        let digits = parameters.iter().take_while(|b| b.is_ascii_digit()).count();
        let number =
            parameters[..digits].iter().fold(0usize, |n, b| (n * 10 + usize::from(b - b'0')).min(NUMBER_MAX));
        let refused = |byte| DecodeError::BadValue { place: Place::RmtesCommand, value: byte, max: 0x7F };
        let Some((&command, rest)) = parameters[digits..].split_first() else { return Err(refused(0)) };
        self.rest = rest;
        match (command, self.last) {
            (b'`', _) => Ok(Step::Column(number)),
            (b'b', Some(byte)) => Ok(Step::Repeat { byte, count: number }),
            _ => Err(refused(u32::from(command))),
        }
    }
}

/// Above every legal column, so that a longer number is refused for its length.
const NUMBER_MAX: usize = 1 << 24;

impl<'a> Iterator for Steps<'a> {
    type Item = Result<Step<'a>, DecodeError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        if let Some(parameters) = self.rest.strip_prefix(COMMAND) {
            return Some(self.command(parameters));
        }
        let length = self.rest.windows(COMMAND.len()).position(|w| w == COMMAND).unwrap_or(self.rest.len());
        let (text, rest) = self.rest.split_at(length);
        self.rest = rest;
        self.last = text.last().copied();
        Some(Ok(Step::Text(text)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn applied(cached: &str, value: &str) -> Result<String, DecodeError> {
        let mut cached = cached.as_bytes().to_vec();
        apply(&mut cached, value.as_bytes(), 64)?;
        Ok(String::from_utf8(cached).expect("ASCII"))
    }

    #[test]
    fn a_partial_update_overwrites_from_its_column_and_keeps_the_rest() {
        assert_eq!(applied("abcdefghi", "\x1b[3`XY").as_deref(), Ok("abcXYfghi"));
        assert_eq!(applied("abcdefghi", "\x1b[0`X\x1b[8`YZ").as_deref(), Ok("XbcdefghYZ"));
        assert_eq!(applied("abc", "\x1b[1`-\x1b[4b").as_deref(), Ok("a-----"));
    }

    #[test]
    fn a_value_that_begins_with_text_replaces_the_cached_one() {
        assert_eq!(applied("0123456789abc", "xyz").as_deref(), Ok("xyz"));
        assert_eq!(applied("0123456789abc", "abcdefghi\x1b[3`jkl").as_deref(), Ok("abcjklghi"));
        assert_eq!(applied("0123456789abc", "\x1b%0xyz").as_deref(), Ok("\x1b%0xyz"));
        assert_eq!(applied("0123456789abc", "").as_deref(), Ok(""));
    }

    #[test]
    fn columns_never_written_show_as_nothing_and_can_be_filled_later() {
        let mut cached = Vec::new();
        apply(&mut cached, b"\x1b[2`xy", 64).expect("legal");
        assert_eq!((cached.as_slice(), &*text(&cached)), (&b"\0\0xy"[..], "xy"));
        apply(&mut cached, b"\x1b[0`ab", 64).expect("legal");
        assert_eq!(text(&cached), "abxy");
    }

    #[test]
    fn a_broken_command_leaves_the_cached_value_as_it_was() {
        for value in [
            "x\x1b[",
            "x\x1b[3",
            "x\x1b[3c",
            "\x1b[3b",
            "\x1b[99`x",
            "x\x1b[99b",
            "x\x1b[99999999999999999999b",
        ] {
            let mut cached = b"kept".to_vec();
            assert!(apply(&mut cached, value.as_bytes(), 64).is_err(), "{value:?}");
            assert_eq!(cached, b"kept");
        }
        let refused = DecodeError::BadLength { place: Place::Rmtes, length: 65, max: 64 };
        assert_eq!(applied("", &"x".repeat(65)), Err(refused));
    }

    #[test]
    fn text_is_utf8_behind_its_escape_and_latin_1_elsewhere() {
        assert_eq!(text("\x1b%0h\u{e9}".as_bytes()), "h\u{e9}");
        assert_eq!(text(b"h\xe9"), "h\u{e9}");
        assert_eq!(text(b"a\x1b$(Gb\x1b~c"), "abc");
        assert_eq!(text(b"a\x1b"), "a");
    }

    #[test]
    fn tick_arrows_and_holes_in_utf_8_show_as_what_they_are() {
        assert_eq!(text(b"\xde \xfe"), "\u{21e7} \u{21e9}");
        assert_eq!(text(b"\x1b%0a\0\xc3\xa9\xff"), "a\u{e9}\u{fffd}");
    }
}

use std::fmt;

use super::{JSON_DEPTH_MAX, TEXT_BYTES_MAX};

/// Why a text is not JSON, and where.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NotJson {
    /// The byte at which reading stopped.
    pub(crate) offset: u32,
    /// What is wrong there.
    pub(crate) fault: JsonFault,
}

/// What can be wrong with a JSON text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum JsonFault {
    /// A byte that cannot stand there.
    Unexpected(u8),
    /// The text is over.
    End,
    /// An escape that there is not.
    BadEscape,
    /// Bytes that are not UTF-8.
    NotUtf8,
    /// Deeper than [`JSON_DEPTH_MAX`].
    TooDeep,
    /// Longer than [`TEXT_BYTES_MAX`].
    TooLong,
}

/// Takes what the scanner finds, in the order of the text.
pub(super) trait Sink {
    /// An object or array begins.
    fn open(&mut self, object: bool, at: usize);
    /// The innermost one ends before `end`.
    fn close(&mut self, end: usize);
    /// A string with its quotes; `escaped` if there is a backslash in it.
    fn string(&mut self, start: usize, end: usize, escaped: bool);
    /// A number, `true`, `false` or `null`, told by its first byte.
    fn word(&mut self, start: usize, end: usize);
}

struct Nothing;

impl Sink for Nothing {
    fn open(&mut self, _: bool, _: usize) {}
    fn close(&mut self, _: usize) {}
    fn string(&mut self, _: usize, _: usize, _: bool) {}
    fn word(&mut self, _: usize, _: usize) {}
}

/// Whether the bytes are a JSON text.
pub(crate) fn is_value(text: &[u8]) -> bool {
    scan(text, &mut Nothing).is_ok()
}

/// Reads a text that is one value with nothing but white space around it. It does not recurse.
pub(super) fn scan(text: &[u8], sink: &mut impl Sink) -> Result<(), NotJson> {
    if text.len() > TEXT_BYTES_MAX {
        return Err(NotJson { offset: TEXT_BYTES_MAX as u32, fault: JsonFault::TooLong });
    }
    if let Err(error) = std::str::from_utf8(text) {
        return Err(NotJson { offset: error.valid_up_to() as u32, fault: JsonFault::NotUtf8 });
    }
    let mut scanner = Scanner { text, at: 0, depth: 0, objects: 0 };
    scanner.run(sink).map_err(|fault| NotJson { offset: scanner.at as u32, fault })
}

struct Scanner<'t> {
    text: &'t [u8],
    at: usize,
    depth: u32,
    /// A bit for each level, the innermost the lowest: set for an object.
    objects: u128,
}

const _: () = assert!(JSON_DEPTH_MAX <= u128::BITS);

type Scanned<T = ()> = Result<T, JsonFault>;

impl Scanner<'_> {
    fn run(&mut self, sink: &mut impl Sink) -> Scanned {
        loop {
            // A value stands here; an object or array may be opened and closed again at once.
            let opened = self.value(sink)?;
            if opened && !self.close_at_once(sink) {
                self.key(sink)?;
                continue;
            }
            if !self.behind_value(sink)? {
                return Ok(());
            }
        }
    }

    /// Reads a value, or opens one that has parts; returns whether it did the latter.
    fn value(&mut self, sink: &mut impl Sink) -> Scanned<bool> {
        let start = self.at_token()?;
        match self.text[start] {
            byte @ (b'{' | b'[') => {
                self.open(byte == b'{')?;
                sink.open(byte == b'{', start);
                return Ok(true);
            }
            b'"' => {
                let escaped = self.string()?;
                sink.string(start, self.at, escaped);
            }
            b't' => self.literal(b"true")?,
            b'f' => self.literal(b"false")?,
            b'n' => self.literal(b"null")?,
            _ => self.number()?,
        }
        if self.text[start] != b'"' {
            sink.word(start, self.at);
        }
        Ok(false)
    }

    fn open(&mut self, object: bool) -> Scanned {
        if self.depth == JSON_DEPTH_MAX {
            return Err(JsonFault::TooDeep);
        }
        self.depth += 1;
        self.objects = self.objects << 1 | u128::from(object);
        self.at += 1;
        Ok(())
    }

    fn in_object(&self) -> bool {
        self.objects & 1 == 1
    }

    fn close_at_once(&mut self, sink: &mut impl Sink) -> bool {
        self.skip_space();
        let bracket = if self.in_object() { b'}' } else { b']' };
        let closes = self.text.get(self.at) == Some(&bracket);
        if closes {
            self.close(sink);
        }
        closes
    }

    fn close(&mut self, sink: &mut impl Sink) {
        self.at += 1;
        self.depth -= 1;
        self.objects >>= 1;
        sink.close(self.at);
    }

    /// The name of a member and the colon behind it, if the innermost level is an object.
    fn key(&mut self, sink: &mut impl Sink) -> Scanned {
        if !self.in_object() {
            return Ok(());
        }
        let start = self.at_token()?;
        if self.text[start] != b'"' {
            return Err(JsonFault::Unexpected(self.text[start]));
        }
        let escaped = self.string()?;
        sink.string(start, self.at, escaped);
        self.expect(b':')
    }

    /// Commas and brackets behind a value. Returns whether another value follows.
    fn behind_value(&mut self, sink: &mut impl Sink) -> Scanned<bool> {
        loop {
            self.skip_space();
            let Some(&byte) = self.text.get(self.at) else {
                return if self.depth == 0 { Ok(false) } else { Err(JsonFault::End) };
            };
            match byte {
                b',' if self.depth > 0 => {
                    self.at += 1;
                    self.key(sink)?;
                    return Ok(true);
                }
                b'}' if self.depth > 0 && self.in_object() => self.close(sink),
                b']' if self.depth > 0 && !self.in_object() => self.close(sink),
                _ => return Err(JsonFault::Unexpected(byte)),
            }
        }
    }

    /// Skips white space; there must be something behind it.
    fn at_token(&mut self) -> Scanned<usize> {
        self.skip_space();
        if self.at < self.text.len() { Ok(self.at) } else { Err(JsonFault::End) }
    }

    fn skip_space(&mut self) {
        while let Some(b' ' | b'\t' | b'\n' | b'\r') = self.text.get(self.at) {
            self.at += 1;
        }
    }

    fn expect(&mut self, wanted: u8) -> Scanned {
        let at = self.at_token()?;
        if self.text[at] != wanted {
            return Err(JsonFault::Unexpected(self.text[at]));
        }
        self.at += 1;
        Ok(())
    }

    fn literal(&mut self, word: &[u8]) -> Scanned {
        for wanted in word {
            match self.text.get(self.at) {
                Some(byte) if byte == wanted => self.at += 1,
                Some(byte) => return Err(JsonFault::Unexpected(*byte)),
                None => return Err(JsonFault::End),
            }
        }
        Ok(())
    }

    /// A string from its opening quote on. Returns whether there is an escape in it.
    fn string(&mut self) -> Scanned<bool> {
        self.at += 1;
        let mut escaped = false;
        loop {
            match self.text.get(self.at) {
                None => return Err(JsonFault::End),
                Some(b'"') => {
                    self.at += 1;
                    return Ok(escaped);
                }
                Some(b'\\') => {
                    escaped = true;
                    self.escape()?;
                }
                Some(byte @ 0..=0x1F) => return Err(JsonFault::Unexpected(*byte)),
                Some(_) => self.at += 1,
            }
        }
    }

    fn escape(&mut self) -> Scanned {
        self.at += 1;
        let digits = match self.text.get(self.at) {
            None => return Err(JsonFault::End),
            Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => 0,
            Some(b'u') => 4,
            Some(_) => return Err(JsonFault::BadEscape),
        };
        self.at += 1;
        for _ in 0..digits {
            match self.text.get(self.at) {
                Some(byte) if byte.is_ascii_hexdigit() => self.at += 1,
                Some(_) => return Err(JsonFault::BadEscape),
                None => return Err(JsonFault::End),
            }
        }
        Ok(())
    }

    /// `-? (0 | [1-9] digits) (. digits)? ([eE] [+-]? digits)?`
    fn number(&mut self) -> Scanned {
        self.skip_if(|byte| byte == b'-');
        if !self.skip_if(|byte| byte == b'0') {
            self.digits()?;
        }
        if self.skip_if(|byte| byte == b'.') {
            self.digits()?;
        }
        if self.skip_if(|byte| matches!(byte, b'e' | b'E')) {
            self.skip_if(|byte| matches!(byte, b'+' | b'-'));
            self.digits()?;
        }
        Ok(())
    }

    fn skip_if(&mut self, wanted: impl Fn(u8) -> bool) -> bool {
        let found = self.text.get(self.at).is_some_and(|byte| wanted(*byte));
        self.at += usize::from(found);
        found
    }

    fn digits(&mut self) -> Scanned {
        let start = self.at;
        while self.skip_if(|byte| byte.is_ascii_digit()) {}
        match self.text.get(self.at) {
            _ if self.at > start => Ok(()),
            Some(byte) => Err(JsonFault::Unexpected(*byte)),
            None => Err(JsonFault::End),
        }
    }
}

impl fmt::Display for NotJson {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.fault {
            JsonFault::Unexpected(byte) => write!(f, "unexpected '{}'", byte.escape_ascii())?,
            JsonFault::End => f.write_str("unexpected end")?,
            JsonFault::BadEscape => f.write_str("unknown escape")?,
            JsonFault::NotUtf8 => f.write_str("not UTF-8")?,
            JsonFault::TooDeep => write!(f, "nested deeper than {JSON_DEPTH_MAX}")?,
            JsonFault::TooLong => write!(f, "longer than {TEXT_BYTES_MAX} bytes")?,
        }
        write!(f, " at offset {}", self.offset)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn fault(text: &str) -> (u32, JsonFault) {
        let error = scan(text.as_bytes(), &mut Nothing).expect_err("not JSON");
        (error.offset, error.fault)
    }

    #[test]
    fn what_is_wrong_is_told_with_its_place() {
        assert_eq!(fault(""), (0, JsonFault::End));
        assert_eq!(fault(" 01"), (2, JsonFault::Unexpected(b'1')));
        assert_eq!(fault("[1,]"), (3, JsonFault::Unexpected(b']')));
        assert_eq!(fault("{\"a\" 1}"), (5, JsonFault::Unexpected(b'1')));
        assert_eq!(fault("{\"a\":1}}"), (7, JsonFault::Unexpected(b'}')));
        assert_eq!(fault("\"\\x\""), (2, JsonFault::BadEscape));
        assert_eq!(fault("\"\n\""), (1, JsonFault::Unexpected(b'\n')));
        assert_eq!(fault("nul"), (3, JsonFault::End));
        assert_eq!(fault("1."), (2, JsonFault::End));
        assert_eq!(fault("[1}"), (2, JsonFault::Unexpected(b'}')));
        assert_eq!(fault(&"[".repeat(129)), (128, JsonFault::TooDeep));
        let nested = format!("{}{}", "[".repeat(128), "]".repeat(128));
        assert!(is_value(nested.as_bytes()));
        assert!(!is_value(b"\"\xff\""));
    }

    #[test]
    fn an_error_names_what_was_found() {
        let error = NotJson { offset: 7, fault: JsonFault::Unexpected(b'\n') };
        assert_eq!(error.to_string(), "unexpected '\\n' at offset 7");
    }

    testkit::properties! {
        /// The reference is serde_json; numbers that it has no room for are left out.
        #[test]
        fn the_same_texts_are_json_as_elsewhere(text in r#"[\[\]{}",:0-9eE.+\-a \\un"tr]{0,24}"#) {
            let elsewhere = serde_json::from_str::<serde_json::Value>(&text);
            let no_room = |error: &serde_json::Error| error.to_string().contains("out of range");
            prop_assume!(!elsewhere.as_ref().is_err_and(no_room));
            prop_assert_eq!(is_value(text.as_bytes()), elsewhere.is_ok(), "{}", text);
        }

        #[test]
        fn what_is_written_as_json_is_json(
            text in "\\PC{0,20}",
            number in any::<f64>(),
            depth in 0..100usize,
        ) {
            let value = serde_json::json!({"a": [text, number, null, true, {"b": {}}], "c": []}).to_string();
            let nested = format!("{}{value}{}", "[ ".repeat(depth), " ]".repeat(depth));
            prop_assert!(is_value(nested.as_bytes()), "{}", nested);
        }
    }
}

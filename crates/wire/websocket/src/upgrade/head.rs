use crate::UpgradeError;
use crate::upgrade::HEADERS_MAX;

/// The head of an HTTP message: its start line and its headers, in place.
#[derive(Clone, Copy, Debug)]
pub struct Head<'a> {
    /// The start line.
    pub start: &'a str,
    /// The rest.
    pub headers: Headers<'a>,
}

/// Header lines that were checked.
#[derive(Clone, Copy, Debug)]
pub struct Headers<'a>(&'a str);

impl<'a> Head<'a> {
    /// Reads everything before the empty line.
    ///
    /// # Errors
    /// Bytes that are not visible ASCII, spaces or tabs, a line that is no header, or too many of them.
    pub fn parse(bytes: &'a [u8]) -> Result<Head<'a>, UpgradeError> {
        let mut line = 0;
        for &byte in bytes {
            line += usize::from(byte == b'\n');
            // Values may hold what is not ASCII (RFC 9110, 5.5); nothing of interest here does.
            if byte < b' ' && !matches!(byte, b'\t' | b'\r' | b'\n') || byte == 0x7f {
                return Err(UpgradeError::HeaderLine { line });
            }
        }
        let text = std::str::from_utf8(bytes).map_err(|_| UpgradeError::HeaderLine { line: 0 })?;
        let (start, rest) = text.split_once("\r\n").unwrap_or((text, ""));
        if start.contains(['\r', '\n']) {
            return Err(UpgradeError::StartLine);
        }
        let headers = Headers(rest);
        for (index, line) in headers.lines().enumerate() {
            if index == HEADERS_MAX {
                return Err(UpgradeError::HeaderCount { limit: HEADERS_MAX });
            }
            check(line).ok_or(UpgradeError::HeaderLine { line: index + 1 })?;
        }
        Ok(Head { start, headers })
    }
}

/// A name of token characters, a colon, a value without line breaks. (A line that begins with a blank, the
/// folding of old, has no name.)
fn check(line: &str) -> Option<()> {
    let (name, value) = line.split_once(':')?;
    let is_token = |b: u8| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b);
    (!name.is_empty() && name.bytes().all(is_token) && !value.contains(['\r', '\n'])).then_some(())
}

impl<'a> Headers<'a> {
    fn lines(self) -> impl Iterator<Item = &'a str> {
        self.0.split("\r\n").filter(|line| !line.is_empty())
    }

    /// All values of a header, whatever case its name is written in.
    pub fn all(self, name: &str) -> impl Iterator<Item = &'a str> {
        self.lines().filter_map(move |line| {
            let (found, value) = line.split_once(':')?;
            found.eq_ignore_ascii_case(name).then(|| value.trim_matches([' ', '\t']))
        })
    }

    /// The value of a header that may be there once.
    ///
    /// # Errors
    /// It is missing or doubled.
    pub fn one(self, name: &'static str) -> Result<&'a str, UpgradeError> {
        let mut values = self.all(name);
        match (values.next(), values.next()) {
            (Some(value), None) => Ok(value),
            _ => Err(UpgradeError::Header(name)),
        }
    }

    /// The entries of a header that is a list: separated by commas, over any number of lines.
    pub fn list(self, name: &str) -> impl Iterator<Item = &'a str> {
        self.all(name)
            .flat_map(|value| value.split(','))
            .map(|entry| entry.trim_matches([' ', '\t']))
            .filter(|entry| !entry.is_empty())
    }

    /// Whether a list has an entry, in any case.
    #[must_use]
    pub fn has(self, name: &str, token: &str) -> bool {
        self.list(name).any(|entry| entry.eq_ignore_ascii_case(token))
    }

    /// The value of a cookie.
    #[must_use]
    pub fn cookie(self, name: &str) -> Option<&'a str> {
        self.all("Cookie").flat_map(|value| value.split(';')).find_map(|pair| {
            let (found, value) = pair.trim().split_once('=')?;
            (found == name).then(|| value.trim_matches('"'))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "GET / HTTP/1.1\r\nHost: h:1\r\nconnection: keep-alive, Upgrade\r\nConnection:\tx\r\n\
                        Cookie: AuthToken=abc; position=\"1/net\"\r\nX-Empty:";

    #[test]
    fn names_and_tokens_are_found_in_any_case_and_over_several_lines() {
        let head = Head::parse(GOOD.as_bytes()).expect("it is good");
        assert_eq!(head.start, "GET / HTTP/1.1");
        assert!(head.headers.has("Connection", "upgrade"));
        assert_eq!(head.headers.list("CONNECTION").collect::<Vec<_>>(), ["keep-alive", "Upgrade", "x"]);
        assert_eq!(head.headers.one("Host"), Ok("h:1"));
        assert_eq!(head.headers.one("Connection"), Err(UpgradeError::Header("Connection")));
        assert_eq!(head.headers.one("Origin"), Err(UpgradeError::Header("Origin")));
        assert_eq!(head.headers.one("X-Empty"), Ok(""));
    }

    #[test]
    fn cookies_are_found_by_name() {
        let headers = Head::parse(GOOD.as_bytes()).expect("it is good").headers;
        assert_eq!(headers.cookie("AuthToken"), Some("abc"));
        assert_eq!(headers.cookie("position"), Some("1/net"));
        assert_eq!(headers.cookie("authtoken"), None);
    }

    #[test]
    fn lines_that_are_no_headers_are_named() {
        for (bad, line) in [
            ("GET / HTTP/1.1\r\nno colon", 1),
            ("GET / HTTP/1.1\r\na: b\r\n folded: c", 2),
            ("GET / HTTP/1.1\r\n: nameless", 1),
            ("GET / HTTP/1.1\r\nsp ace: x", 1),
            ("GET / HTTP/1.1\r\na: b\0", 1),
            ("GET / HTTP/1.1\r\na: b\nc: d", 1),
        ] {
            assert_eq!(Head::parse(bad.as_bytes()).err(), Some(UpgradeError::HeaderLine { line }), "{bad:?}");
        }
        let many = format!("GET / HTTP/1.1\r\n{}", "a: b\r\n".repeat(HEADERS_MAX + 1));
        let error = UpgradeError::HeaderCount { limit: HEADERS_MAX };
        assert_eq!(Head::parse(many.as_bytes()).err(), Some(error));
    }
}

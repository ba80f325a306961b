use std::fmt;

/// Text that a peer sent: bytes of any content.
///
/// Printing escapes everything but printable ASCII, so that a peer cannot write control characters into a
/// log.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub struct Text<'a>(&'a [u8]);

impl<'a> Text<'a> {
    /// Wraps bytes as they came.
    #[must_use]
    pub fn new(bytes: &'a [u8]) -> Text<'a> {
        Text(bytes)
    }

    /// The bytes as they came.
    #[must_use]
    pub fn as_bytes(self) -> &'a [u8] {
        self.0
    }

    /// Whether the peer sent nothing.
    #[must_use]
    pub fn is_empty(self) -> bool {
        self.0.is_empty()
    }
}

impl fmt::Display for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0.escape_ascii())
    }
}

impl fmt::Debug for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\"", self.0.escape_ascii())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_cannot_reach_a_log() {
        assert_eq!(Text::new(b"host\n\x1b[2J\xff").to_string(), "host\\n\\x1b[2J\\xff");
        assert_eq!(format!("{:?}", Text::new(b"etaj3.9.1|x")), "\"etaj3.9.1|x\"");
    }
}

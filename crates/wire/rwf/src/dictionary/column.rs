//! Takes a line of a dictionary file apart into columns that know where they stand.

/// What is left of a line, and where in the file it is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Line<'a> {
    text: &'a [u8],
    rest: &'a [u8],
    pub(super) number: u32,
}

/// One column of a line.
#[derive(Clone, Copy, Debug)]
pub(super) struct Column<'a> {
    pub(super) text: &'a [u8],
    /// From 1, in bytes.
    pub(super) at: u32,
}

/// The lines of a file, counted from 1, without line ends and without white space around them.
pub(super) fn lines(file: &[u8]) -> impl Iterator<Item = Line<'_>> {
    (1..).zip(file.split(|byte| *byte == b'\n')).map(|(number, text)| Line {
        text,
        rest: text.trim_ascii(),
        number,
    })
}

impl<'a> Line<'a> {
    pub(super) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    pub(super) fn is_comment(&self) -> bool {
        self.rest.first() == Some(&b'!')
    }

    /// Name and value of a comment `!tag Name value`.
    pub(super) fn tag(mut self) -> Option<(&'a [u8], Column<'a>)> {
        self.rest = self.rest.strip_prefix(b"!tag")?;
        let name = self.word();
        Some((name.text, self.remainder()))
    }

    /// The next column, up to white space; empty at the end of the line.
    pub(super) fn word(&mut self) -> Column<'a> {
        let length = self.skip_blanks().iter().take_while(|byte| !byte.is_ascii_whitespace()).count();
        self.take(length)
    }

    /// The next column if it begins with one of `marks`, which also ends it: a text in quotes, or bytes in
    /// `#`.
    pub(super) fn enclosed(&mut self, marks: &[u8]) -> Option<(u8, Column<'a>)> {
        let (mark, inside) = self.skip_blanks().split_first()?;
        let length = inside.iter().position(|byte| byte == mark).filter(|_| marks.contains(mark))?;
        let whole = self.take(length + 2);
        Some((*mark, Column { text: &inside[..length], at: whole.at + 1 }))
    }

    /// A single character, which need not stand alone.
    pub(super) fn character(&mut self, wanted: u8) -> bool {
        let found = self.skip_blanks().first() == Some(&wanted);
        if found {
            self.take(1);
        }
        found
    }

    /// The next column of digits, which another character may end.
    pub(super) fn digits(&mut self) -> Column<'a> {
        let length = self.skip_blanks().iter().take_while(|byte| byte.is_ascii_digit()).count();
        self.take(length)
    }

    /// Everything up to the end of the line.
    pub(super) fn remainder(&mut self) -> Column<'a> {
        let length = self.skip_blanks().len();
        self.take(length)
    }

    fn skip_blanks(&mut self) -> &'a [u8] {
        self.rest = self.rest.trim_ascii_start();
        self.rest
    }

    fn take(&mut self, length: usize) -> Column<'a> {
        let (text, rest) = self.rest.split_at(length);
        let trailing = self.text.len() - self.text.trim_ascii_end().len();
        let at = self.text.len() - trailing - self.rest.len() + 1;
        self.rest = rest;
        Column { text, at: u32::try_from(at).unwrap_or(u32::MAX) }
    }
}

impl<'a> Column<'a> {
    /// The text, with what is not UTF-8 replaced.
    pub(super) fn lossy(&self) -> std::borrow::Cow<'a, str> {
        String::from_utf8_lossy(self.text)
    }

    /// The text as a number.
    pub(super) fn number<T: std::str::FromStr>(&self) -> Option<T> {
        std::str::from_utf8(self.text).ok()?.parse().ok()
    }
}

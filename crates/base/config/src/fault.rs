//! What can be wrong with a configuration, and how it is said.

use std::fmt;

use crate::source::{Layer, Location};

/// The sort of a [`Fault`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FaultKind {
    /// The text is not TOML.
    Syntax,
    /// The text is not UTF-8.
    NotUtf8,
    /// A text or a list is longer than its limit.
    TooLong,
    /// A key or table is given twice in one file.
    Duplicate,
    /// No section declares this key or table.
    UnknownKey,
    /// The key has another name now, which the message says.
    Renamed,
    /// No key has this environment variable.
    UnknownVariable,
    /// A flag that is not `key=value`, or names what cannot be set by a flag.
    BadFlag,
    /// A value of another type than the key's.
    WrongType,
    /// A number or length outside the range of its key.
    OutOfRange,
    /// A name that is not one of the key's choices.
    UnknownChoice,
    /// A string that is not what the key's type writes, such as an address.
    Malformed,
    /// A required key that nothing sets.
    Missing,
    /// Values that are legal each for itself and not together.
    Conflict,
}

/// One thing that is wrong, with its place and what to do about it.
///
/// `Display` gives the whole report: `file:line:column: message`, the line, a caret under the place, notes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    pub(crate) kind: FaultKind,
    pub(crate) key: String,
    pub(crate) message: String,
    pub(crate) location: Option<Location>,
    pub(crate) notes: Vec<String>,
}

impl Fault {
    /// The sort of the fault.
    #[must_use]
    pub fn kind(&self) -> FaultKind {
        self.kind
    }

    /// Full name of the key or section concerned, such as `p2ps.port`; empty if no key is concerned.
    #[must_use]
    pub fn key(&self) -> &str {
        &self.key
    }

    /// What is wrong and what was expected, in one line.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.message
    }

    /// Where it is; `None` for a required key that no file has.
    #[must_use]
    pub fn location(&self) -> Option<&Location> {
        self.location.as_ref()
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(at) = &self.location else {
            write!(f, "configuration: {}", self.message)?;
            return self.notes.iter().try_for_each(|note| write!(f, "\n    = {note}"));
        };
        match at.layer {
            Layer::File => write!(f, "{}:{}:{}: {}", Plain(&at.name), at.line, at.column, self.message)?,
            Layer::Preset => write!(f, "preset {}: {}", at.name, self.message)?,
            Layer::Default | Layer::Environment | Layer::Flag => write!(f, "{}: {}", at.name, self.message)?,
        }
        write_excerpt(f, at)?;
        self.notes.iter().try_for_each(|note| write!(f, "\n    = {note}"))
    }
}

impl std::error::Error for Fault {}

/// The quoted line and the carets below it.
fn write_excerpt(f: &mut fmt::Formatter<'_>, at: &Location) -> fmt::Result {
    let (gutter, prefix) = match at.layer {
        Layer::File => (format!("{:>3}", at.line), ""),
        Layer::Flag => ("   ".to_owned(), "--set "),
        Layer::Default | Layer::Preset | Layer::Environment => ("   ".to_owned(), ""),
    };
    write!(f, "\n{gutter} | {prefix}{}\n", at.excerpt)?;
    // A tab stays a tab, so that the carets stand below the place however wide a tab is.
    let blank = |c: char| if c == '\t' { '\t' } else { ' ' };
    let indent: String =
        prefix.chars().chain(at.excerpt.chars()).map(blank).take(prefix.len() + at.caret_offset).collect();
    let indent_missing = prefix.len() + at.caret_offset - indent.chars().count();
    let blanks = " ".repeat(indent_missing);
    write!(f, "{:width$} | {indent}{blanks}{}", "", "^".repeat(at.caret_width), width = gutter.len())
}

/// A name as it can be shown in one line.
pub(crate) struct Plain<'a>(pub(crate) &'a str);

impl fmt::Display for Plain<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.chars().try_for_each(|c| {
            if c.is_control() { write!(f, "{}", c.escape_default()) } else { write!(f, "{c}") }
        })
    }
}

/// Everything that is wrong with a configuration, in the order of the texts.
///
/// Holds at most [`FAULTS_MAX`] faults; [`Faults::omitted`] says how many more there were.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Faults {
    pub(crate) faults: Vec<Fault>,
    pub(crate) omitted: usize,
}

/// Most faults that one load keeps, so that a wrong file (a binary, say) does not fill the screen.
pub const FAULTS_MAX: usize = 100;

impl Faults {
    /// The faults, by source and place.
    #[must_use]
    pub fn as_slice(&self) -> &[Fault] {
        &self.faults
    }

    /// Faults that were found and not kept.
    #[must_use]
    pub fn omitted(&self) -> usize {
        self.omitted
    }
}

impl fmt::Display for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for fault in &self.faults {
            write!(f, "{fault}\n\n")?;
        }
        let count = self.faults.len() + self.omitted;
        write!(f, "{count} error{} in the configuration", if count == 1 { "" } else { "s" })?;
        if self.omitted > 0 {
            write!(f, " ({} not shown)", self.omitted)?;
        }
        Ok(())
    }
}

impl std::error::Error for Faults {}

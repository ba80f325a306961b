//! The texts that values come from, and where in them.

use std::sync::Arc;

/// One of the layers a value can come from, lowest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Layer {
    /// The default that the section declares.
    Default,
    /// A preset that a key of the section chooses.
    Preset,
    /// A configuration file.
    File,
    /// An environment variable.
    Environment,
    /// A `--set` flag.
    Flag,
}

/// Index of a text in [`Sources`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct SourceId(usize);

/// A stretch of bytes in one source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SourceSpan {
    pub(crate) source: SourceId,
    pub(crate) start: usize,
    pub(crate) end: usize,
}

/// One text: a file, `NAME=value` of a variable, or `key=value` of a flag.
#[derive(Debug)]
pub(crate) struct Source {
    pub(crate) layer: Layer,
    pub(crate) name: Arc<str>,
    pub(crate) text: Arc<str>,
    line_starts: Vec<usize>,
}

/// All texts of one load, in the order in which they were given.
#[derive(Debug, Default)]
pub(crate) struct Sources(Vec<Source>);

/// Where a fault is, for people and for editors.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Location {
    /// The kind of text.
    pub layer: Layer,
    /// File name, name of the variable, or `--set`.
    pub name: String,
    /// Line, from 1.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
    /// The line itself, or the part of a very long line that surrounds the place.
    pub excerpt: String,
    /// Characters of `excerpt` before the place.
    pub caret_offset: usize,
    /// Characters that the place covers in `excerpt`; at least 1.
    pub caret_width: usize,
}

/// Longest part of a line that is quoted, in characters.
const EXCERPT_CHARS_MAX: usize = 120;
/// How much of it may lie before the place.
const EXCERPT_CHARS_BEFORE: usize = 60;

impl Sources {
    /// Adds a text and returns its number.
    pub(crate) fn add(&mut self, layer: Layer, name: &str, text: &str) -> SourceId {
        let line_starts = std::iter::once(0)
            .chain(text.bytes().enumerate().filter(|&(_, b)| b == b'\n').map(|(i, _)| i + 1));
        self.0.push(Source {
            layer,
            name: name.into(),
            text: text.into(),
            line_starts: line_starts.collect(),
        });
        SourceId(self.0.len() - 1)
    }

    /// The text with number `id`.
    pub(crate) fn get(&self, id: SourceId) -> &Source {
        &self.0[id.0]
    }

    /// Line of `place`, from 1.
    pub(crate) fn line(&self, place: SourceSpan) -> usize {
        self.get(place.source).line_starts.partition_point(|&start| start <= place.start)
    }

    /// Line, column and excerpt of `place`.
    pub(crate) fn locate(&self, place: SourceSpan) -> Location {
        let source = self.get(place.source);
        let line = self.line(place);
        // A byte order mark at the start is no character of the first line.
        let mark = if line == 1 && source.text.starts_with('\u{feff}') { '\u{feff}'.len_utf8() } else { 0 };
        let line_start = source.line_starts[line - 1] + mark;
        let line_end = source.line_starts.get(line).map_or(source.text.len(), |&next| next - 1);
        let text = &source.text[line_start..line_end];
        let before = chars_until(text, place.start.saturating_sub(line_start));
        let width = chars_until(text, place.end.saturating_sub(line_start)).saturating_sub(before);
        let (excerpt, skipped) = excerpt(text, before);
        Location {
            layer: source.layer,
            name: source.name.to_string(),
            line,
            column: before + 1,
            caret_width: width.min(excerpt.chars().count().saturating_sub(before - skipped)).max(1),
            caret_offset: before - skipped,
            excerpt,
        }
    }
}

/// Characters of `text` that begin before byte `end`; a trailing carriage return is no part of a line.
fn chars_until(text: &str, end: usize) -> usize {
    text.trim_end_matches('\r').char_indices().take_while(|&(i, _)| i < end).count()
}

/// At most [`EXCERPT_CHARS_MAX`] characters of `line` around character `at`, and how many were left out
/// before them.
fn excerpt(line: &str, at: usize) -> (String, usize) {
    let line = line.trim_end_matches('\r');
    let skipped = if line.chars().nth(EXCERPT_CHARS_MAX).is_none() {
        0
    } else {
        at.saturating_sub(EXCERPT_CHARS_BEFORE)
    };
    let part = line.chars().skip(skipped).take(EXCERPT_CHARS_MAX);
    (part.map(|c| if c.is_control() && c != '\t' { '\u{fffd}' } else { c }).collect(), skipped)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn locate(text: &str, start: usize, end: usize) -> Location {
        let mut sources = Sources::default();
        let source = sources.add(Layer::File, "f.toml", text);
        sources.locate(SourceSpan { source, start, end })
    }

    #[test]
    fn lines_and_columns_count_from_one_and_in_characters() {
        let at = locate("a = 1\r\nü = \"é\"\r\n", 12, 16);
        assert_eq!((at.line, at.column, at.excerpt.as_str()), (2, 5, "ü = \"é\""));
        assert_eq!((at.caret_offset, at.caret_width), (4, 3));
    }

    #[test]
    fn a_byte_order_mark_is_no_column() {
        let at = locate("\u{feff}a = 1\n", 7, 8);
        assert_eq!((at.line, at.column, at.excerpt.as_str()), (1, 5, "a = 1"));
        assert_eq!(locate("\u{feff}a = 1\n", 0, 0).column, 1);
    }

    #[test]
    fn the_end_of_the_text_is_a_place() {
        let at = locate("a = ", 4, 4);
        assert_eq!((at.line, at.column, at.caret_width), (1, 5, 1));
        let at = locate("a = 1\n", 6, 6);
        assert_eq!((at.line, at.column, at.excerpt.as_str()), (2, 1, ""));
    }

    #[test]
    fn a_place_over_several_lines_is_marked_to_the_end_of_its_first() {
        let at = locate("a = [1,\n 2]\n", 4, 11);
        assert_eq!((at.line, at.column, at.caret_width), (1, 5, 3));
    }

    #[test]
    fn a_very_long_line_is_quoted_around_the_place() {
        let text = format!("k = \"{}\"", "x".repeat(10_000));
        let at = locate(&text, 5_000, 5_004);
        assert_eq!(at.column, 5_001);
        assert_eq!((at.excerpt.len(), at.caret_offset, at.caret_width), (120, 60, 4));
    }
}

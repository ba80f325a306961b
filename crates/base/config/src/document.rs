//! From TOML text to tables: the parser's events, put together.
//!
//! Works on to the end of the text whatever it meets, so that one load reports all that is wrong. What cannot
//! be read is [`Data::Broken`], after which nothing further is said about that value.

use std::borrow::Cow;
use std::num::IntErrorKind;

use toml_parser::decoder::ScalarKind;
use toml_parser::parser::{Event, EventKind, RecursionGuard, ValidateWhitespace};
use toml_parser::{Expected, ParseError};

use crate::fault::Plain;
use crate::source::{SourceId, SourceSpan};
use crate::tree::{Clash, Data, Name, Node, Table, TableOrigin};

/// Most lists and inline tables within one another, and most names in one dotted key.
pub(crate) const DEPTH_MAX: usize = 16;

/// What a text holds and what is wrong with it as TOML.
pub(crate) struct Parsed<T> {
    pub(crate) content: T,
    pub(crate) errors: Vec<SyntaxError>,
    pub(crate) clashes: Vec<Clash>,
}

/// A sentence on what is wrong, and where.
pub(crate) struct SyntaxError {
    pub(crate) message: String,
    pub(crate) place: SourceSpan,
}

/// Reads a whole document.
pub(crate) fn parse_document(source: SourceId, text: &str) -> Parsed<Table> {
    parse(source, text, 0, toml_parser::parser::parse_document, |a| a.document())
}

/// Reads one value, which stands at byte `base` of its source.
pub(crate) fn parse_value(source: SourceId, text: &str, base: usize) -> Parsed<Node> {
    parse(source, text, base, toml_parser::parser::parse_value, |a| a.value())
}

type Grammar = fn(
    &[toml_parser::lexer::Token],
    &mut dyn toml_parser::parser::EventReceiver,
    &mut dyn toml_parser::ErrorSink,
);

fn parse<T>(
    source: SourceId,
    text: &str,
    base: usize,
    grammar: Grammar,
    read: fn(&mut Assembler<'_>) -> T,
) -> Parsed<T> {
    let input = toml_parser::Source::new(text);
    let tokens = input.lex().into_vec();
    let mut errors: Vec<ParseError> = Vec::new();
    let mut events: Vec<Event> = Vec::with_capacity(tokens.len());
    let mut checked = ValidateWhitespace::new(&mut events, input);
    grammar(&tokens, &mut RecursionGuard::new(&mut checked, DEPTH_MAX as u32), &mut errors);
    events.retain(|event| !matches!(event.kind(), EventKind::Whitespace | EventKind::Comment));
    let is_cut = cut_at_the_deepest(&mut events, &mut errors);

    let mut assembler =
        Assembler { input, events: &events, is_cut, at: 0, source, base, errors, clashes: Vec::new() };
    let content = read(&mut assembler);
    let Assembler { errors, clashes, .. } = assembler;
    let end = text.len();
    let errors = errors.iter().map(|error| describe(error, source, base, end)).collect();
    Parsed { content, errors, clashes }
}

/// Ends a text where lists and tables are too deep within one another: the parser does not find its way behind that,
/// and complains of each bracket. Whether it is ended.
fn cut_at_the_deepest(events: &mut Vec<Event>, errors: &mut Vec<ParseError>) -> bool {
    let Some(first) = errors.iter().position(|error| error.description() == TOO_DEEP) else { return false };
    let open = errors[first].unexpected();
    errors.truncate(first);
    let error = ParseError::new(format!("lists and tables are nested more than {DEPTH_MAX} deep"));
    errors.push(match open {
        Some(open) => error.with_unexpected(open),
        None => error,
    });
    if let Some(at) = events.iter().position(|event| Some(event.span()) == open) {
        events.truncate(at + 1);
    }
    true
}

/// What the guard says.
const TOO_DEEP: &str = "cannot recurse further; max recursion depth met";

/// Walks over the events of one text.
struct Assembler<'t> {
    input: toml_parser::Source<'t>,
    events: &'t [Event],
    /// The text goes on behind the last event.
    is_cut: bool,
    at: usize,
    source: SourceId,
    base: usize,
    errors: Vec<ParseError>,
    clashes: Vec<Clash>,
}

impl Assembler<'_> {
    fn document(&mut self) -> Table {
        let mut root = Table::new(TableOrigin::Header);
        // `None` after a header that cannot be read: the keys below it belong nowhere.
        let mut header = Some(Vec::new());
        while let Some(event) = self.next() {
            match event.kind() {
                EventKind::StdTableOpen | EventKind::ArrayTableOpen => header = self.header(&mut root, event),
                EventKind::SimpleKey => {
                    let entry = self.key_value(event);
                    let table = header.as_deref().and_then(|path| root.parent_of_header(path).ok());
                    if let (Some(table), Some((path, node))) = (table, entry) {
                        self.record(table.set(&path, node));
                    }
                }
                _ => {}
            }
        }
        root
    }

    /// Reads a header and opens its table; returns the path to it.
    fn header(&mut self, root: &mut Table, open: Event) -> Option<Vec<Name>> {
        let mut path = None;
        let mut place = self.place(open);
        while let Some(event) = self.peek() {
            match event.kind() {
                EventKind::SimpleKey => {
                    self.at += 1;
                    path = self.key(event);
                }
                EventKind::StdTableClose | EventKind::ArrayTableClose => {
                    self.at += 1;
                    place.end = self.place(event).end;
                    break;
                }
                EventKind::Error => self.at += 1,
                _ => break,
            }
        }
        let path = path?;
        let is_array = open.kind() == EventKind::ArrayTableOpen;
        let opened = self.record(if is_array { root.push(&path, place) } else { root.open(&path, place) });
        // Below a header that is there twice the keys are read as if it were once, to find what else is
        // wrong.
        (opened || root.parent_of_header(&path).is_ok()).then_some(path)
    }

    /// Reads `key = value` from the first part of its key on.
    fn key_value(&mut self, first: Event) -> Option<(Vec<Name>, Node)> {
        let path = self.key(first);
        let node = if self.next_if(EventKind::KeyValSep) { self.value() } else { self.broken() };
        path.map(|path| (path, node))
    }

    /// Reads a key, dotted or not; `None` if a part of it is not there or there are too many.
    fn key(&mut self, first: Event) -> Option<Vec<Name>> {
        let mut path = vec![self.name(first)];
        while self.next_if(EventKind::KeySep) {
            if let Some(event) = self.peek().filter(|event| event.kind() == EventKind::SimpleKey) {
                self.at += 1;
                path.push(self.name(event));
            }
        }
        if path.len() > DEPTH_MAX {
            self.errors.push(ParseError::new("a key of too many parts").with_unexpected(first.span()));
            return None;
        }
        path.into_iter().collect()
    }

    /// `None` for the empty key that stands in for one that was not written.
    fn name(&mut self, event: Event) -> Option<Name> {
        let mut text = Cow::Borrowed("");
        let raw = self.input.get(event)?;
        raw.decode_key(&mut text, &mut self.errors);
        (!raw.is_empty()).then(|| Name { text: text.into_owned(), place: self.place(event) })
    }

    /// A value; [`Data::Broken`] if the text is cut in it.
    fn value(&mut self) -> Node {
        let mut node = self.value_of_any_end();
        if self.is_cut && self.at >= self.events.len() {
            node.data = Data::Broken;
        }
        node
    }

    fn value_of_any_end(&mut self) -> Node {
        let Some(event) = self.peek() else { return self.broken() };
        match event.kind() {
            EventKind::Scalar => {
                self.at += 1;
                Node { data: self.scalar(event), place: self.place(event) }
            }
            EventKind::ArrayOpen => {
                self.at += 1;
                self.list(event)
            }
            EventKind::InlineTableOpen => {
                self.at += 1;
                self.inline_table(event)
            }
            _ => self.broken(),
        }
    }

    fn scalar(&mut self, event: Event) -> Data {
        let Some(raw) = self.input.get(event) else { return Data::Broken };
        if raw.is_empty() {
            self.errors.push(ParseError::new("missing value").with_unexpected(event.span()));
            return Data::Broken;
        }
        let errors_before = self.errors.len();
        let mut text = Cow::Borrowed("");
        let kind = raw.decode_scalar(&mut text, &mut self.errors);
        if self.errors.len() > errors_before {
            return Data::Broken;
        }
        match kind {
            ScalarKind::String => Data::Text(text.into_owned()),
            ScalarKind::Boolean(value) => Data::Bool(value),
            ScalarKind::DateTime => Data::DateTime,
            ScalarKind::Float => text.parse().map_or_else(|_| self.not_a_number(event), Data::Float),
            ScalarKind::Integer(radix) => match i64::from_str_radix(&text, radix.value()) {
                Ok(value) => Data::Integer(Some(value)),
                Err(error) => match error.kind() {
                    IntErrorKind::PosOverflow | IntErrorKind::NegOverflow => Data::Integer(None),
                    _ => self.not_a_number(event),
                },
            },
        }
    }

    /// For what begins like a number and is none, such as `0x`.
    fn not_a_number(&mut self, event: Event) -> Data {
        self.errors.push(ParseError::new("invalid number").with_unexpected(event.span()));
        Data::Broken
    }

    fn list(&mut self, open: Event) -> Node {
        let mut items = Vec::new();
        let mut place = self.place(open);
        while let Some(event) = self.peek() {
            match event.kind() {
                EventKind::Scalar | EventKind::ArrayOpen | EventKind::InlineTableOpen => {
                    items.push(self.value())
                }
                EventKind::ValueSep | EventKind::Newline | EventKind::Error => self.at += 1,
                EventKind::ArrayClose => {
                    self.at += 1;
                    place.end = self.place(event).end;
                    break;
                }
                _ => break,
            }
        }
        Node { data: Data::List(items), place }
    }

    fn inline_table(&mut self, open: Event) -> Node {
        let mut table = Table::new(TableOrigin::Inline);
        let mut place = self.place(open);
        while let Some(event) = self.peek() {
            match event.kind() {
                EventKind::SimpleKey => {
                    self.at += 1;
                    if let Some((path, node)) = self.key_value(event) {
                        self.record(table.set(&path, node));
                    }
                }
                EventKind::ValueSep | EventKind::Newline | EventKind::Error => self.at += 1,
                EventKind::InlineTableClose => {
                    self.at += 1;
                    place.end = self.place(event).end;
                    break;
                }
                _ => break,
            }
        }
        Node { data: Data::Table(table), place }
    }

    /// Notes a clash; true if there was none.
    fn record(&mut self, outcome: Result<(), Clash>) -> bool {
        let done = outcome.is_ok();
        self.clashes.extend(outcome.err());
        done
    }

    /// Stands for a value that is not there; the parser has said so.
    fn broken(&self) -> Node {
        let place =
            self.events.get(self.at.saturating_sub(1)).map_or(self.span(0, 0), |&event| self.place(event));
        Node { data: Data::Broken, place }
    }

    fn peek(&self) -> Option<Event> {
        self.events.get(self.at).copied()
    }

    fn next(&mut self) -> Option<Event> {
        let event = self.peek()?;
        self.at += 1;
        Some(event)
    }

    fn next_if(&mut self, kind: EventKind) -> bool {
        let found = self.peek().is_some_and(|event| event.kind() == kind);
        self.at += usize::from(found);
        found
    }

    fn place(&self, event: Event) -> SourceSpan {
        self.span(event.span().start(), event.span().end())
    }

    fn span(&self, start: usize, end: usize) -> SourceSpan {
        SourceSpan { source: self.source, start: self.base + start, end: self.base + end }
    }
}

/// The parser's error in one line, with what it had hoped for.
fn describe(error: &ParseError, source: SourceId, base: usize, text_end: usize) -> SyntaxError {
    let mut message = error.description().to_owned();
    let names: Vec<String> = error.expected().unwrap_or_default().iter().map(expected_name).collect();
    if !names.is_empty() {
        message.push_str("; expected ");
        message.push_str(&names.join(", "));
    }
    let span = error
        .unexpected()
        .or(error.context())
        .map_or((text_end, text_end), |span| (span.start(), span.end()));
    SyntaxError { message, place: SourceSpan { source, start: base + span.0, end: base + span.1 } }
}

fn expected_name(expected: &Expected) -> String {
    match expected {
        Expected::Literal("\n") => "the end of the line".to_owned(),
        Expected::Literal("`") => "'`'".to_owned(),
        Expected::Literal(text) => format!("`{}`", Plain(text)),
        Expected::Description(text) => (*text).to_owned(),
        _ => "something else".to_owned(),
    }
}

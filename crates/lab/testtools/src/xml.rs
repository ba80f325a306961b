//! Files in the XML of the SDK's performance tools, read within bounds.
//!
//! A file is untrusted: its size, its nodes and its depth are limited, a document type (and with it every entity of
//! its own) is refused, and each error names the file, the line, what was found and what is allowed.

use std::fmt;
use std::io::Read;
use std::path::Path;

use roxmltree::{Document, Node, ParsingOptions};

/// Largest file that is read: an item list of a million items has less.
pub(crate) const FILE_BYTES_MAX: u64 = 128 << 20;
/// Most nodes of a file: elements, texts, comments.
const NODES_MAX: u32 = 4_000_000;
/// How deep elements may stand in each other; the formats have seven levels.
const DEPTH_MAX: usize = 16;

/// Attributes of an element: the formats have three. The parser compares each with all before it.
const ATTRIBUTES_MAX: usize = 64;

/// What is wrong with a file, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileFault {
    /// The file.
    pub file: String,
    /// The line, from 1; `None` if it is about the whole file.
    pub line: Option<u32>,
    /// What was found, and what is allowed.
    pub what: String,
}

impl fmt::Display for FileFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            Some(line) => write!(f, "{}:{line}: {}", self.file, self.what),
            None => write!(f, "{}: {}", self.file, self.what),
        }
    }
}

impl std::error::Error for FileFault {}

/// Reads a whole file of text.
pub(crate) fn read(path: &Path) -> Result<String, FileFault> {
    let file = path.display().to_string();
    let fault = |what: String| FileFault { file: file.clone(), line: None, what };
    let mut bytes = Vec::new();
    // The opening of a pipe would wait for its other end.
    if std::fs::metadata(path).is_ok_and(|there| !there.is_file()) {
        return Err(fault("is no regular file".to_owned()));
    }
    let opened = std::fs::File::open(path).map_err(|error| fault(format!("cannot be read: {error}")))?;
    opened
        .take(FILE_BYTES_MAX + 1)
        .read_to_end(&mut bytes)
        .map_err(|error| fault(format!("cannot be read: {error}")))?;
    if bytes.len() as u64 > FILE_BYTES_MAX {
        return Err(fault(format!("is longer than the {FILE_BYTES_MAX} bytes allowed")));
    }
    String::from_utf8(bytes).map_err(|error| {
        let good = error.utf8_error().valid_up_to();
        let line = 1 + error.as_bytes()[..good].iter().filter(|byte| **byte == b'\n').count();
        let what = format!("byte {good} is not UTF-8, in which the file has to be");
        FileFault { line: u32::try_from(line).ok(), ..fault(what) }
    })
}

/// A parsed file.
pub(crate) struct XmlFile<'t> {
    name: &'t str,
    document: Document<'t>,
}

impl<'t> XmlFile<'t> {
    /// Parses the text of the file `name`.
    pub(crate) fn parse(name: &'t str, text: &'t str) -> Result<XmlFile<'t>, FileFault> {
        if let Some(line) = too_deep(text) {
            let what = format!("elements stand more than {DEPTH_MAX} deep in each other");
            return Err(FileFault { file: name.to_owned(), line: Some(line), what });
        }
        if let Some(line) = too_many_attributes(text) {
            let what = format!("an element has more than {ATTRIBUTES_MAX} attributes");
            return Err(FileFault { file: name.to_owned(), line: Some(line), what });
        }
        let options = ParsingOptions { allow_dtd: false, nodes_limit: NODES_MAX, ..Default::default() };
        match Document::parse_with_options(text, options) {
            Ok(document) => Ok(XmlFile { name, document }),
            Err(error) => Err(FileFault {
                file: name.to_owned(),
                line: Some(error.pos().row),
                what: shortened(&format!("no XML that is accepted here: {error}")),
            }),
        }
    }

    /// The outermost element, which must have this name.
    pub(crate) fn root(&self, name: &str) -> Result<Node<'_, 't>, FileFault> {
        let root = self.document.root_element();
        if root.has_tag_name(name) { Ok(root) } else { Err(self.unexpected(root, &[name])) }
    }

    /// The elements in an element, which must be of these names.
    pub(crate) fn children<'d>(
        &'d self,
        parent: Node<'d, 't>,
        names: &'static [&'static str],
    ) -> impl Iterator<Item = Result<Node<'d, 't>, FileFault>> {
        parent.children().filter(Node::is_element).map(move |child| {
            if names.iter().any(|name| child.has_tag_name(*name)) {
                Ok(child)
            } else {
                Err(self.unexpected(child, names))
            }
        })
    }

    /// The only element of this name in an element.
    pub(crate) fn only<'d>(
        &'d self,
        parent: Node<'d, 't>,
        name: &'static str,
    ) -> Result<Node<'d, 't>, FileFault> {
        let mut found = parent.children().filter(|child| child.has_tag_name(name));
        match (found.next(), found.next()) {
            (Some(only), None) => Ok(only),
            (None, _) => Err(self.fault(parent, format!("<{}> has no <{name}>", tag(parent)))),
            (_, Some(second)) => {
                Err(self.fault(second, format!("a second <{name}> in <{}>, one is allowed", tag(parent))))
            }
        }
    }

    /// An attribute that must be there.
    pub(crate) fn attribute<'d>(&self, node: Node<'d, 't>, name: &str) -> Result<&'d str, FileFault> {
        node.attribute(name)
            .ok_or_else(|| self.fault(node, format!("<{}> has no attribute {name}", tag(node))))
    }

    /// An attribute that is a number within a range, if it is there.
    pub(crate) fn number(
        &self,
        node: Node<'_, 't>,
        name: &str,
        (least, most): (i64, i64),
    ) -> Result<Option<i64>, FileFault> {
        let Some(text) = node.attribute(name) else { return Ok(None) };
        match text.trim().parse::<i64>() {
            Ok(number) if (least..=most).contains(&number) => Ok(Some(number)),
            _ => {
                let what = format!("{name} {text:?} is no number from {least} to {most}");
                Err(self.fault(node, what))
            }
        }
    }

    /// An attribute that is true or false; false if it is not there.
    pub(crate) fn flag(&self, node: Node<'_, 't>, name: &str) -> Result<bool, FileFault> {
        match node.attribute(name).map(str::trim) {
            None | Some("false") => Ok(false),
            Some("true") => Ok(true),
            Some(other) => Err(self.fault(node, format!("{name} {other:?} is neither true nor false"))),
        }
    }

    /// Something is wrong with an element.
    pub(crate) fn fault(&self, node: Node<'_, 't>, what: impl Into<String>) -> FileFault {
        FileFault { file: self.name.to_owned(), line: Some(self.line(node)), what: shortened(&what.into()) }
    }

    /// The line of an element. It counts lines from the start of the file.
    pub(crate) fn line(&self, node: Node<'_, 't>) -> u32 {
        self.document.text_pos_at(node.range().start).row
    }

    fn unexpected(&self, node: Node<'_, 't>, names: &[&str]) -> FileFault {
        let allowed: Vec<String> = names.iter().map(|name| format!("<{name}>")).collect();
        self.fault(node, format!("<{}> is not allowed here; allowed: {}", tag(node), allowed.join(", ")))
    }
}

fn tag<'a>(node: Node<'a, '_>) -> &'a str {
    node.tag_name().name()
}

/// A message of bounded length, whatever stands in the file.
fn shortened(text: &str) -> String {
    const CHARS_MAX: usize = 400;
    match text.char_indices().nth(CHARS_MAX) {
        Some((at, _)) => format!("{} ...", &text[..at]),
        None => text.to_owned(),
    }
}

/// The line at which tags stand deeper than allowed, judged before anything is built of them: the parser recurses.
fn too_deep(text: &str) -> Option<u32> {
    let (mut depth, mut line, mut rest) = (0_usize, 1_u32, text);
    while let Some(at) = rest.find('<') {
        line += rest[..at].matches('\n').count() as u32;
        rest = &rest[at..];
        let (length, change) = markup(rest);
        depth = depth.saturating_add_signed(change);
        if depth > DEPTH_MAX {
            return Some(line);
        }
        line += rest[..length].matches('\n').count() as u32;
        rest = &rest[length..];
    }
    None
}

/// The line of an element with more attributes than are accepted, as far as that is to be seen without parsing it.
fn too_many_attributes(text: &str) -> Option<u32> {
    let (mut line, mut rest) = (1_u32, text);
    while let Some(at) = rest.find('<') {
        line += rest[..at].matches('\n').count() as u32;
        rest = &rest[at..];
        let (length, _) = markup(rest);
        let is_element = !rest.starts_with("<!") && !rest.starts_with("<?");
        if is_element && rest[..length].matches('=').take(ATTRIBUTES_MAX + 1).count() > ATTRIBUTES_MAX {
            return Some(line);
        }
        line += rest[..length].matches('\n').count() as u32;
        rest = &rest[length..];
    }
    None
}

/// How long the markup is that a text begins with, and by how much it changes the depth.
fn markup(text: &str) -> (usize, isize) {
    let until = |end: &str| text.find(end).map_or(text.len(), |at| at + end.len());
    if text.starts_with("<!--") {
        return (until("-->"), 0);
    }
    if text.starts_with("<![CDATA[") {
        return (until("]]>"), 0);
    }
    if text.starts_with("<?") || text.starts_with("<!") {
        return (until(">"), 0);
    }
    let mut quote = None;
    for (at, byte) in text.bytes().enumerate() {
        match (quote, byte) {
            (None, b'"' | b'\'') => quote = Some(byte),
            (Some(open), _) if open == byte => quote = None,
            (None, b'>') => {
                let change =
                    if text.starts_with("</") { -1 } else { isize::from(!text[..at].ends_with('/')) };
                return (at + 1, change);
            }
            _ => {}
        }
    }
    (text.len(), 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fault(text: &str) -> String {
        match XmlFile::parse("f.xml", text).and_then(|file| file.root("a").map(|_| ())) {
            Ok(()) => panic!("accepted: {text}"),
            Err(fault) => fault.to_string(),
        }
    }

    #[test]
    fn what_is_no_xml_is_refused_with_its_line() {
        assert!(fault("<a>\n<b>\n</a>").starts_with("f.xml:3: no XML"), "{}", fault("<a>\n<b>\n</a>"));
        assert!(fault("").starts_with("f.xml:1: "), "{}", fault(""));
        assert_eq!(fault("\n<b/>"), "f.xml:2: <b> is not allowed here; allowed: <a>");
    }

    #[test]
    fn a_document_type_is_refused_and_with_it_entities_that_grow() {
        let bomb = "<!DOCTYPE a [<!ENTITY x \"xxxxxxxx\"><!ENTITY y \"&x;&x;\">]><a>&y;</a>";
        assert!(fault(bomb).contains("no XML that is accepted here"), "{}", fault(bomb));
    }

    #[test]
    fn depth_is_bounded_before_the_parser_sees_it() {
        let deep = "<a>".repeat(100_000);
        assert_eq!(fault(&deep), "f.xml:1: elements stand more than 16 deep in each other");
        let flat = format!("<a>{}</a>", "<b x='/>'/><!-- <c> --><b><![CDATA[<d>]]></b>\n".repeat(50));
        assert!(XmlFile::parse("f.xml", &flat).is_ok());
        let open = format!("<a {}", "<b ".repeat(100));
        assert!(fault(&open).contains("no XML"));
    }

    #[test]
    fn a_message_about_a_file_is_short_whatever_stands_in_it() {
        let long = format!("<{}/>", "x".repeat(100_000));
        assert!(fault(&long).len() < 500);
    }

    #[test]
    fn a_file_that_is_not_there_or_no_text_is_named() {
        let fault = read(Path::new("/nonexistent.xml")).expect_err("not there").to_string();
        assert!(fault.starts_with("/nonexistent.xml: cannot be read"), "{fault}");
    }
}

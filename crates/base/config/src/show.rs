//! The effective configuration as a file that says where each value came from.

use std::fmt::Write as _;

use crate::kind::Kind;
use crate::loader::Loaded;
use crate::origin::Origins;
use crate::path;
use crate::schema::{Key, Schema};
use crate::section::Section;
use crate::value::Value;

/// Longest line of a comment, in characters.
const COMMENT_CHARS_MAX: usize = 100;
/// Widest value that the column of origins is moved for.
const ALIGNED_CHARS_MAX: usize = 40;

impl<T: Section> Loaded<T> {
    /// The effective configuration as TOML; loaded as a file it gives the same values.
    ///
    /// Above each key a comment says what it means and what it may be, behind each value one says where it
    /// came from. An optional key that is not set stands in a comment itself.
    #[must_use]
    pub fn show(&self) -> String {
        let value = self.value.to_value();
        let mut show = Show { origins: &self.origins, out: String::new() };
        show.section(&T::schema(), &value, "", true);
        let text = show.out.trim_start_matches('\n');
        text.to_owned()
    }
}

struct Show<'a> {
    origins: &'a Origins,
    out: String,
}

impl Show<'_> {
    /// Writes the keys of the section `path`, then the sections in it: TOML wants them in this order.
    fn section(&mut self, schema: &Schema, value: &Value, path: &str, with_docs: bool) {
        self.keys(schema, value, path, with_docs);
        for key in &schema.keys {
            let path = path::below(path, key.name);
            match &key.kind {
                Kind::Section { schema, .. } => self.table(key, schema, value.at(key.name), &path, with_docs),
                Kind::Tables(schema) => self.tables(key, schema, value.at(key.name), &path, with_docs),
                _ => {}
            }
        }
    }

    fn table(&mut self, key: &Key, schema: &Schema, value: Option<&Value>, path: &str, with_docs: bool) {
        let header = path::header(path).expect("a key has a name");
        self.out.push('\n');
        if with_docs {
            self.comment(&key.doc);
        }
        match value {
            Some(value @ Value::Section(_)) => {
                self.line(&header);
                self.section(schema, value, path, with_docs);
            }
            _ => self.line(&format!("# {header} is not set")),
        }
    }

    fn tables(&mut self, key: &Key, schema: &Schema, value: Option<&Value>, path: &str, with_docs: bool) {
        let items = value.map_or(&[][..], Value::items);
        if with_docs || !items.is_empty() {
            self.out.push('\n');
        }
        if with_docs {
            self.comment(&key.doc);
            if items.is_empty() {
                self.line(&format!("# [{}]: none", path::header(path).expect("a key has a name")));
            }
        }
        for (index, item) in items.iter().enumerate() {
            let path = path::below(path, &index.to_string());
            self.out.push_str(if index > 0 { "\n" } else { "" });
            self.line(&path::header(&path).expect("a key has a name"));
            // What the keys mean is said once, not for each table.
            self.section(schema, item, &path, with_docs && index == 0);
        }
    }

    /// The plain keys, with `=` and origins one below the other.
    fn keys(&mut self, schema: &Schema, value: &Value, path: &str, with_docs: bool) {
        let plain: Vec<(&Key, &Value)> = schema
            .keys
            .iter()
            .filter(|key| key.kind.schema().is_none())
            .map(|key| (key, value.at(key.name).unwrap_or(&Value::Unset)))
            .collect();
        let name_width = plain.iter().map(|(key, _)| key.name.len()).max().unwrap_or(0);
        let lines: Vec<String> =
            plain.iter().map(|(key, value)| assignment(key, value, name_width)).collect();
        let widths = lines.iter().map(|line| line.chars().count());
        let width = widths.filter(|&width| width <= name_width + ALIGNED_CHARS_MAX).max().unwrap_or(0);
        for ((key, _), line) in plain.iter().zip(lines) {
            if with_docs {
                self.comment(&format!("{} {}", key.summary(), describe(key)));
            }
            let origin = self.origins.of(&path::below(path, key.name));
            self.line(&format!("{line:width$}  # {origin}"));
        }
    }

    /// One paragraph or several as comment lines.
    fn comment(&mut self, text: &str) {
        for paragraph in text.split("\n\n").filter(|paragraph| !paragraph.is_empty()) {
            let mut line = String::from("#");
            for word in paragraph.split_whitespace() {
                if line.len() > 1 && line.chars().count() + 1 + word.chars().count() > COMMENT_CHARS_MAX {
                    self.line(&line);
                    line.truncate(1);
                }
                write!(line, " {word}").expect("a String takes all");
            }
            self.line(&line);
        }
    }

    fn line(&mut self, text: &str) {
        self.out.push_str(text);
        self.out.push('\n');
    }
}

/// `key = value`, as a comment if it is not set.
fn assignment(key: &Key, value: &Value, name_width: usize) -> String {
    match value {
        Value::Unset => format!("# {} is not set", key.name),
        value => format!("{:name_width$} = {value}", key.name),
    }
}

/// What a value may be, and the default, as a sentence.
fn describe(key: &Key) -> String {
    let default = match &key.default {
        _ if key.required => "required".to_owned(),
        Value::Unset => "not set by default".to_owned(),
        default => format!("default {default}"),
    };
    let mut sentence = format!("{}; {default}.", key.expectation());
    if let Some(first) = sentence.get_mut(..1) {
        first.make_ascii_uppercase();
    }
    sentence
}

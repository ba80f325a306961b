//! The effective configuration for programs.

use std::fmt::Write as _;

use crate::kind::Kind;
use crate::loader::Loaded;
use crate::origin::{Origin, Origins};
use crate::path;
use crate::schema::Schema;
use crate::section::Section;
use crate::value::Value;

impl<T: Section> Loaded<T> {
    /// The effective configuration and the origins of its values as JSON, in a form that stays.
    ///
    /// ```json
    /// {
    ///   "values": { "p2ps": { "port": 14002 } },
    ///   "origins": { "p2ps.port": { "layer": "file", "name": "tickcast.toml", "line": 3 } }
    /// }
    /// ```
    ///
    /// A value that is not set is `null`. `origins` has an entry for every key that is not a table; `layer`
    /// is `default`, `file` (with `name` and `line`), `environment` (with `name`) or `flag`.
    #[must_use]
    pub fn json(&self) -> String {
        let schema = T::schema();
        let value = shown(&schema, self.value.to_value());
        let mut out = String::from("{\n  \"values\": ");
        write_value(&mut out, &value, 1);
        out.push_str(",\n  \"origins\": {");
        let mut keys = Vec::new();
        plain_keys(&schema, &value, "", &mut keys);
        for (index, key) in keys.iter().enumerate() {
            out.push_str(if index == 0 { "\n    " } else { ",\n    " });
            write_text(&mut out, key);
            out.push_str(": ");
            write_origin(&mut out, key, &self.origins);
        }
        out.push_str(if keys.is_empty() { "}\n}\n" } else { "\n  }\n}\n" });
        out
    }
}

/// The keys of a section that its schema has; the others are withheld.
fn shown(schema: &Schema, value: Value) -> Value {
    match value {
        Value::Section(mut keys) => {
            let known = schema.keys.iter().filter_map(|key| {
                let value = keys.remove(key.name)?;
                let value = match &key.kind {
                    Kind::Section { schema, .. } => shown(schema, value),
                    Kind::Tables(schema) => {
                        Value::List(value.items().iter().map(|item| shown(schema, item.clone())).collect())
                    }
                    _ => value,
                };
                Some((key.name.to_owned(), value))
            });
            Value::Section(known.collect())
        }
        other => other,
    }
}

/// Full names of all keys that are not tables, in the order of the schema.
fn plain_keys(schema: &Schema, value: &Value, path: &str, keys: &mut Vec<String>) {
    for key in &schema.keys {
        let path = path::below(path, key.name);
        let value = value.at(key.name).unwrap_or(&Value::Unset);
        match &key.kind {
            Kind::Section { schema, .. } if *value != Value::Unset => plain_keys(schema, value, &path, keys),
            Kind::Section { .. } => {}
            Kind::Tables(schema) => {
                for (index, item) in value.items().iter().enumerate() {
                    plain_keys(schema, item, &path::below(&path, &index.to_string()), keys);
                }
            }
            _ => keys.push(path),
        }
    }
}

fn write_origin(out: &mut String, key: &str, origins: &Origins) {
    match origins.of(key) {
        Origin::Default => out.push_str("{ \"layer\": \"default\" }"),
        Origin::Preset(name) => {
            out.push_str("{ \"layer\": \"preset\", \"name\": ");
            write_text(out, name);
            out.push_str(" }");
        }
        Origin::File { name, line } => {
            out.push_str("{ \"layer\": \"file\", \"name\": ");
            write_text(out, name);
            write!(out, ", \"line\": {line} }}").expect("a String takes all");
        }
        Origin::Environment(name) => {
            out.push_str("{ \"layer\": \"environment\", \"name\": ");
            write_text(out, name);
            out.push_str(" }");
        }
        Origin::Flag => out.push_str("{ \"layer\": \"flag\" }"),
    }
}

/// Writes `value`, which begins on a line that is indented by `depth`.
fn write_value(out: &mut String, value: &Value, depth: usize) {
    match value {
        Value::Unset => out.push_str("null"),
        Value::Text(text) => write_text(out, text),
        Value::Bool(_) | Value::Integer(_) | Value::Float(_) => out.push_str(&value.to_string()),
        Value::List(items) if items.iter().all(|item| item.as_section().is_none()) => {
            out.push('[');
            for (index, item) in items.iter().enumerate() {
                out.push_str(if index == 0 { "" } else { ", " });
                write_value(out, item, depth);
            }
            out.push(']');
        }
        Value::List(items) => write_block(out, ('[', ']'), depth, items.iter(), write_value),
        Value::Section(keys) => {
            write_block(out, ('{', '}'), depth, keys.iter(), |out, (key, value), depth| {
                write_text(out, key);
                out.push_str(": ");
                write_value(out, value, depth);
            })
        }
    }
}

/// Writes items on lines of their own between `open` and `close`.
fn write_block<I>(
    out: &mut String,
    (open, close): (char, char),
    depth: usize,
    items: impl ExactSizeIterator<Item = I>,
    mut write_item: impl FnMut(&mut String, I, usize),
) {
    let last = items.len();
    out.push(open);
    for (index, item) in items.enumerate() {
        out.push_str(if index == 0 { "\n" } else { ",\n" });
        out.push_str(&"  ".repeat(depth + 1));
        write_item(out, item, depth + 1);
    }
    if last > 0 {
        out.push('\n');
        out.push_str(&"  ".repeat(depth));
    }
    out.push(close);
}

/// `text` as a JSON string.
fn write_text(out: &mut String, text: &str) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if c < ' ' => write!(out, "\\u{:04x}", u32::from(c)).expect("a String takes all"),
            c => out.push(c),
        }
    }
    out.push('"');
}

//! A value without its Rust type, and how it is written in TOML.

use std::collections::BTreeMap;
use std::fmt;

/// What a key holds, as the file, the display and the typed sections exchange it.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Value {
    /// An optional key that is not set.
    Unset,
    /// `true` or `false`.
    Bool(bool),
    /// TOML integers have 64 bits with a sign.
    Integer(i64),
    /// A finite number.
    Float(f64),
    /// A string, an address, the name of a choice.
    Text(String),
    /// Values of one type, or sections.
    List(Vec<Value>),
    /// A section: its keys by name.
    Section(BTreeMap<String, Value>),
}

impl Value {
    /// The keys of a section.
    #[must_use]
    pub fn as_section(&self) -> Option<&BTreeMap<String, Value>> {
        match self {
            Value::Section(keys) => Some(keys),
            _ => None,
        }
    }

    /// The values of a list; none for any other value.
    #[must_use]
    pub fn items(&self) -> &[Value] {
        match self {
            Value::List(items) => items,
            _ => &[],
        }
    }

    /// The value at `path` below this one, such as `messaging.window_bytes` or `services.0.name`.
    #[must_use]
    pub fn at(&self, path: &str) -> Option<&Value> {
        path.split('.').filter(|name| !name.is_empty()).try_fold(self, |value, name| match value {
            Value::Section(keys) => keys.get(name),
            Value::List(items) => items.get(name.parse::<usize>().ok()?),
            _ => None,
        })
    }
}

/// TOML, in one line; an unset value is `(not set)`, which is not TOML.
impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Unset => f.write_str("(not set)"),
            Value::Bool(value) => write!(f, "{value}"),
            Value::Integer(value) => write!(f, "{value}"),
            // `Debug` keeps the point or the exponent that makes it a float, and all digits.
            Value::Float(value) => write!(f, "{value:?}"),
            Value::Text(text) => f.write_str(&quoted(text)),
            Value::List(items) => write_joined(f, "[", "]", items.iter().map(|item| (None, item))),
            Value::Section(keys) => {
                let set = keys.iter().filter(|(_, value)| **value != Value::Unset);
                write_joined(f, "{ ", " }", set.map(|(key, value)| (Some(key), value)))
            }
        }
    }
}

fn write_joined<'v>(
    f: &mut fmt::Formatter<'_>,
    open: &str,
    close: &str,
    items: impl Iterator<Item = (Option<&'v String>, &'v Value)>,
) -> fmt::Result {
    f.write_str(open)?;
    for (index, (key, value)) in items.enumerate() {
        f.write_str(if index == 0 { "" } else { ", " })?;
        key.map_or(Ok(()), |key| write!(f, "{key} = "))?;
        write!(f, "{value}")?;
    }
    f.write_str(close)
}

/// `text` as a TOML basic string.
pub(crate) fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if c.is_control() => out.push_str(&format!("\\u{:04X}", u32::from(c))),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

/// Longest string that a message repeats, in characters.
const QUOTED_CHARS_MAX: usize = 60;

/// `text` as a TOML string, cut short if it is long.
pub(crate) fn quoted_briefly(text: &str) -> String {
    match text.char_indices().nth(QUOTED_CHARS_MAX) {
        Some((end, _)) => format!("{}...", quoted(&text[..end])),
        None => quoted(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_written_as_toml() {
        let text = |value: Value| value.to_string();
        assert_eq!(text(Value::Bool(true)), "true");
        assert_eq!(text(Value::Float(1.0)), "1.0");
        assert_eq!(text(Value::Float(1e300)), "1e300");
        assert_eq!(text(Value::Text("a \"b\" \\ \u{7f}\n".into())), r#""a \"b\" \\ \u007F\n""#);
        assert_eq!(text(Value::List(vec![Value::Integer(1), Value::Integer(-2)])), "[1, -2]");
        let section = [("a".to_owned(), Value::Integer(1)), ("b".to_owned(), Value::Unset)];
        assert_eq!(text(Value::Section(section.into())), "{ a = 1 }");
    }

    #[test]
    fn a_path_leads_through_sections_and_lists() {
        let inner = Value::Section([("name".to_owned(), Value::Text("x".into()))].into());
        let outer = Value::Section([("services".to_owned(), Value::List(vec![inner]))].into());
        assert_eq!(outer.at("services.0.name"), Some(&Value::Text("x".into())));
        assert_eq!(outer.at("services.1.name"), None);
        assert_eq!(outer.at("services.x"), None);
        assert_eq!(outer.at(""), Some(&outer));
    }
}

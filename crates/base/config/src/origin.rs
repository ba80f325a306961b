//! Where each effective value came from.

use std::collections::BTreeMap;
use std::fmt;

use crate::fault::Plain;
use crate::path;
use crate::source::{Layer, SourceSpan, Sources};
use crate::tree::{Data, Table};
use crate::value::Value;

/// Where a value came from.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Origin {
    /// Nothing set it.
    Default,
    /// The preset of this name, which a key of the section chooses.
    Preset(String),
    /// A line of a file.
    File {
        /// The file's name as it was given.
        name: String,
        /// Line of the key, from 1.
        line: usize,
    },
    /// The variable of this name.
    Environment(String),
    /// A `--set` flag.
    Flag,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Origin::Default => f.write_str("default"),
            Origin::Preset(name) => write!(f, "preset {name}"),
            Origin::File { name, line } => write!(f, "{}:{line}", Plain(name)),
            Origin::Environment(variable) => f.write_str(variable),
            Origin::Flag => f.write_str("--set"),
        }
    }
}

/// The origins of all values of a configuration, by full name of the key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Origins(BTreeMap<String, Origin>);

impl Origins {
    /// Where the value of `key` came from, such as `p2ps.port` or `services.0.name`.
    #[must_use]
    pub fn of(&self, key: &str) -> &Origin {
        self.0.get(key).unwrap_or(&Origin::Default)
    }

    /// All keys that something has set, by name. A table stands under its own name besides, `p2ps` or
    /// `service.0`.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Origin)> {
        self.0.iter().map(|(key, origin)| (key.as_str(), origin))
    }
}

/// The places of one key: of its name and of its value.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KeySpans {
    pub(crate) key: SourceSpan,
    pub(crate) value: SourceSpan,
}

/// Everything that the layers set: values without their places, and the places by full name.
pub(crate) fn split(tables: Table) -> (Value, BTreeMap<String, KeySpans>) {
    let mut places = BTreeMap::new();
    (section_value(tables, "", &mut places), places)
}

/// The origins that `places` stand for.
pub(crate) fn origins(places: &BTreeMap<String, KeySpans>, sources: &Sources) -> Origins {
    Origins(places.iter().map(|(key, places)| (key.clone(), origin(places.key, sources))).collect())
}

fn origin(place: SourceSpan, sources: &Sources) -> Origin {
    let source = sources.get(place.source);
    match source.layer {
        Layer::Default => Origin::Default,
        Layer::Preset => Origin::Preset(source.name.to_string()),
        Layer::File => Origin::File { name: source.name.to_string(), line: sources.line(place) },
        Layer::Environment => Origin::Environment(source.name.to_string()),
        Layer::Flag => Origin::Flag,
    }
}

fn section_value(table: Table, path: &str, places: &mut BTreeMap<String, KeySpans>) -> Value {
    let entries = table.entries.into_iter().map(|(name, entry)| {
        let path = path::below(path, &name);
        let at = KeySpans { key: entry.key, value: entry.node.place };
        (name, node_value(entry.node.data, &path, at, places))
    });
    Value::Section(entries.collect())
}

fn node_value(data: Data, path: &str, at: KeySpans, places: &mut BTreeMap<String, KeySpans>) -> Value {
    places.insert(path.to_owned(), at);
    match data {
        Data::Table(table) => section_value(table, path, places),
        Data::Tables(items) => {
            let numbered = items.into_iter().enumerate().map(|(index, item)| {
                let at = KeySpans { key: item.place, value: item.place };
                node_value(item.data, &path::below(path, &index.to_string()), at, places)
            });
            Value::List(numbered.collect())
        }
        data => plain_value(data),
    }
}

/// A value in which nothing has an origin of its own.
fn plain_value(data: Data) -> Value {
    match data {
        Data::Bool(value) => Value::Bool(value),
        Data::Integer(Some(value)) => Value::Integer(value),
        Data::Float(value) => Value::Float(value),
        Data::Text(text) => Value::Text(text),
        Data::List(items) => Value::List(items.into_iter().map(|item| plain_value(item.data)).collect()),
        Data::Unset => Value::Unset,
        Data::Integer(None) | Data::DateTime | Data::Tables(_) | Data::Table(_) | Data::Broken => {
            unreachable!("the schema admits no such value")
        }
    }
}

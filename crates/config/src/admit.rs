//! What a text says, held against the schema: names, types, ranges.
//!
//! Each layer is admitted into the same tables, the lowest first, so that a later value takes the place of an earlier
//! one key by key; a list is replaced whole. A wrong value is reported and not admitted, even where a higher layer
//! would hide it.

use crate::fault::FaultKind;
use crate::kind::{Kind, Length, TextFormat};
use crate::nearest::nearest;
use crate::path;
use crate::reading::{Reading, quoted_key};
use crate::schema::{Key, Schema};
use crate::source::Place;
use crate::tree::{Data, Entry, Node, Table, TableOrigin};
use crate::value::quoted;

/// Admits tables of one layer into those of the layers below it.
pub(crate) struct Admission<'a> {
    pub(crate) reading: &'a mut Reading,
    /// The whole schema, to say where a misplaced key belongs.
    pub(crate) root: &'a Schema,
}

impl Admission<'_> {
    /// Admits all keys of `table`, which is the section `path`.
    pub(crate) fn table(&mut self, schema: &Schema, path: &str, table: Table, into: &mut Table) {
        for (name, entry) in table.entries {
            match schema.key(&name) {
                Some(key) => self.entry(key, &path::below(path, &name), entry, into),
                None => self.unknown_key(schema, path, &name, &entry),
            }
        }
    }

    /// Admits one key; `path` is its full name.
    pub(crate) fn entry(&mut self, key: &Key, path: &str, entry: Entry, into: &mut Table) {
        let Entry { key: key_place, node } = entry;
        match &key.kind {
            Kind::Section { schema, .. } => match node.data {
                Data::Table(table) => {
                    let below = section_of(into, key.name, key_place, node.place);
                    self.table(schema, path, table, below);
                }
                other => self.wrong_type(key, path, Node { data: other, place: node.place }),
            },
            Kind::Tables(schema) => {
                if let Some(node) = self.tables(key, schema, path, node) {
                    into.entries.insert(key.name.to_owned(), Entry { key: key_place, node });
                }
            }
            kind => {
                if let Some(node) = self.value(key, kind, path, node) {
                    into.entries.insert(key.name.to_owned(), Entry { key: key_place, node });
                }
            }
        }
    }

    /// A list of sections, each checked for itself; what is wrong in one does not hide the others.
    fn tables(&mut self, key: &Key, schema: &Schema, path: &str, node: Node) -> Option<Node> {
        let place = node.place;
        let (Data::List(items) | Data::Tables(items)) = node.data else {
            self.wrong_type(key, path, node);
            return None;
        };
        let mut admitted = Vec::with_capacity(items.len());
        for (index, item) in items.into_iter().enumerate() {
            let path = path::below(path, &index.to_string());
            let mut into = Table::new(TableOrigin::Header);
            match item.data {
                Data::Table(table) => self.table(schema, &path, table, &mut into),
                data => self.not(&path, "a table", Node { data, place: item.place }),
            }
            admitted.push(Node { data: Data::Table(into), place: item.place });
        }
        Some(Node { data: Data::Tables(admitted), place })
    }

    /// A value of type `kind`, in the form in which typed keys take it.
    fn value(&mut self, key: &Key, kind: &Kind, path: &str, node: Node) -> Option<Node> {
        let place = node.place;
        let data = match (kind, node.data) {
            (_, Data::Broken) => return None,
            (Kind::Optional(_), Data::Unset) => Data::Unset,
            (Kind::Optional(kind), data) => return self.value(key, kind, path, Node { data, place }),
            (Kind::Bool, data @ Data::Bool(_)) => data,
            (Kind::Integer { min, max }, Data::Integer(Some(value))) if (*min..=*max).contains(&value) => {
                Data::Integer(Some(value))
            }
            (Kind::Integer { .. }, data @ Data::Integer(_)) => {
                let found = self.as_written(place, &data);
                return self.refuse(FaultKind::OutOfRange, key, kind, path, place, &found);
            }
            (Kind::Float { min, max }, data @ (Data::Float(_) | Data::Integer(_))) => {
                return self.number(key, kind, (*min, *max), path, Node { data, place });
            }
            (Kind::Text(format), Data::Text(text)) => return self.text(key, kind, format, path, text, place),
            (Kind::Choice(names), Data::Text(text)) => {
                if !names.iter().any(|choice| choice.name == text) {
                    let names = names.iter().map(|choice| choice.name);
                    let hint = nearest(&text, names).map(|name| format!("; did you mean {}?", quoted(name)));
                    let found = format!("is {}{}", Data::Text(text).describe(), hint.unwrap_or_default());
                    return self.refuse_as(FaultKind::UnknownChoice, key, kind, path, place, &found);
                }
                Data::Text(text)
            }
            (Kind::List { item, length }, Data::List(items)) => {
                return self.list(key, (kind, item, *length), path, items, place);
            }
            (_, data) => {
                return self.refuse(FaultKind::WrongType, key, kind, path, place, &data.describe());
            }
        };
        Some(Node { data, place })
    }

    fn number(
        &mut self,
        key: &Key,
        kind: &Kind,
        (min, max): (f64, f64),
        path: &str,
        node: Node,
    ) -> Option<Node> {
        // Integers up to 2^53 are exact as floats; greater ones are not taken for what they are not.
        const EXACT_MAX: i64 = 1 << 53;
        let value = match node.data {
            Data::Float(value) => Some(value),
            Data::Integer(value) => value.filter(|v| (-EXACT_MAX..=EXACT_MAX).contains(v)).map(|v| v as f64),
            _ => None,
        };
        match value.filter(|value| value.is_finite() && (min..=max).contains(value)) {
            Some(value) => Some(Node { data: Data::Float(value), place: node.place }),
            None => {
                let found = self.as_written(node.place, &node.data);
                self.refuse(FaultKind::OutOfRange, key, kind, path, node.place, &found)
            }
        }
    }

    fn text(
        &mut self,
        key: &Key,
        kind: &Kind,
        format: &TextFormat,
        path: &str,
        text: String,
        place: Place,
    ) -> Option<Node> {
        if let Err(reason) = (format.check)(&text) {
            let gap = if reason.is_empty() { "" } else { "; " };
            let found = format!("is {}{gap}{reason}", Data::Text(text).describe());
            return self.refuse_as(FaultKind::Malformed, key, kind, path, place, &found);
        }
        if !format.length.allows(text.len()) {
            let found = format!("has {} byte{}", text.len(), if text.len() == 1 { "" } else { "s" });
            return self.refuse_as(FaultKind::OutOfRange, key, kind, path, place, &found);
        }
        Some(Node { data: Data::Text(text), place })
    }

    fn list(
        &mut self,
        key: &Key,
        (kind, item_kind, length): (&Kind, &Kind, Length),
        path: &str,
        items: Vec<Node>,
        place: Place,
    ) -> Option<Node> {
        let count = items.len();
        if !length.allows(count) {
            let found = format!("has {count} item{}", if count == 1 { "" } else { "s" });
            return self.refuse_as(FaultKind::OutOfRange, key, kind, path, place, &found);
        }
        let numbered = items.into_iter().enumerate();
        let admitted: Vec<Node> = numbered
            .filter_map(|(index, item)| {
                self.value(key, item_kind, &path::below(path, &index.to_string()), item)
            })
            .collect();
        (admitted.len() == count).then_some(Node { data: Data::List(admitted), place })
    }

    /// Reports that the key `path` must be a `kind` and is `found`.
    fn refuse(
        &mut self,
        fault: FaultKind,
        key: &Key,
        kind: &Kind,
        path: &str,
        place: Place,
        found: &str,
    ) -> Option<Node> {
        self.refuse_as(fault, key, kind, path, place, &format!("is {found}"))
    }

    fn refuse_as(
        &mut self,
        fault: FaultKind,
        key: &Key,
        kind: &Kind,
        path: &str,
        place: Place,
        found: &str,
    ) -> Option<Node> {
        let message = format!("`{path}` must be {}, {found}", kind.expectation(key.unit()));
        self.reading.fault(fault, path, place, message);
        None
    }

    fn wrong_type(&mut self, key: &Key, path: &str, node: Node) {
        let header = match (&key.kind, path::header(path)) {
            (Kind::Tables(_), Some(header)) => format!("[{header}]"),
            (_, header) => header.unwrap_or_default(),
        };
        self.not(path, &format!("{} {header}", key.expectation()), node);
    }

    fn not(&mut self, path: &str, expected: &str, node: Node) {
        if !matches!(node.data, Data::Broken) {
            let message = format!("`{path}` must be {expected}, is {}", node.data.describe());
            self.reading.fault(FaultKind::WrongType, path, node.place, message);
        }
    }

    /// A number as the text has it, with its digits and its radix.
    fn as_written(&self, place: Place, data: &Data) -> String {
        let text =
            self.reading.sources.get(place.source).text.get(place.start..place.end).unwrap_or_default();
        if (1..=40).contains(&text.len()) { text.to_owned() } else { data.describe() }
    }

    fn unknown_key(&mut self, schema: &Schema, path: &str, name: &str, entry: &Entry) {
        let is_table = matches!(entry.node.data, Data::Table(_) | Data::Tables(_));
        let what = if is_table { "table" } else { "key" };
        let hint = name_hint(self.root, schema, path, name);
        let message = format!("unknown {what} {}{}; {hint}", quoted_key(name), path::place_text(path));
        self.reading.fault(FaultKind::UnknownKey, &path::below(path, name), entry.key, message);
    }
}

/// The table of section `name` in `into`, made if it is not there yet.
pub(crate) fn section_of<'t>(into: &'t mut Table, name: &str, key: Place, header: Place) -> &'t mut Table {
    let new =
        || Entry { key, node: Node { data: Data::Table(Table::new(TableOrigin::Header)), place: header } };
    match &mut into.entries.entry(name.to_owned()).or_insert_with(new).node.data {
        Data::Table(table) => table,
        _ => unreachable!("only tables are admitted for a section"),
    }
}

/// What may have been meant by `name` in the section `path`: a near name, another section, or what there is.
pub(crate) fn name_hint(root: &Schema, schema: &Schema, path: &str, name: &str) -> String {
    if let Some(near) = nearest(name, schema.names()) {
        return format!("did you mean `{near}`?");
    }
    let homes = homes(root, "", name);
    if !homes.is_empty() && homes.len() <= 3 {
        return format!("a key of this name belongs{}", homes.join(" or"));
    }
    let known: Vec<String> = schema.names().map(|name| format!("`{name}`")).collect();
    let here = if path.is_empty() { "known at the top level" } else { "known here" };
    format!("{here}: {}", known.join(", "))
}

/// The sections that have a key `name`, as places in a sentence.
fn homes(schema: &Schema, path: &str, name: &str) -> Vec<String> {
    let mut found = Vec::new();
    for key in &schema.keys {
        if key.name == name {
            found.push(path::place_text(path));
        }
        let index = if matches!(key.kind, Kind::Tables(_)) { ".0" } else { "" };
        if let Some(below) = key.kind.schema() {
            found.extend(homes(below, &format!("{}{index}", path::below(path, key.name)), name));
        }
    }
    found
}

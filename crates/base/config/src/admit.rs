//! What a text says, held against the schema: names, types, ranges.
//!
//! Each layer is admitted into the same tables, the lowest first, so that a later value takes the place of an
//! earlier one key by key; a list is replaced whole. A wrong value is reported and not admitted, even where a
//! higher layer would hide it.

use crate::fault::FaultKind;
use crate::kind::{ChoiceName, Kind, Length, TextFormat, counted};
use crate::nearest::nearest;
use crate::path;
use crate::reading::{Reading, quoted_key};
use crate::schema::{Key, Schema};
use crate::source::SourceSpan;
use crate::tree::{Data, Entry, Node, Table, TableOrigin};
use crate::value::quoted;

/// Admits tables of one layer into those of the layers below it.
pub(crate) struct Admission<'a> {
    pub(crate) reading: &'a mut Reading,
    /// The whole schema, to say where a misplaced key belongs.
    pub(crate) root: &'a Schema,
}

/// Where a plain value belongs: what it must be, and how it is called in messages.
#[derive(Clone, Copy)]
struct Slot<'k> {
    kind: &'k Kind,
    unit: &'static str,
    path: &'k str,
    place: SourceSpan,
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
                let slot = Slot { kind, unit: key.unit(), path, place: node.place };
                if let Some(data) = self.value(slot, node.data) {
                    let node = Node { data, place: slot.place };
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

    /// The data of a plain value in the form in which typed keys take it; `None` if it was refused.
    fn value(&mut self, slot: Slot<'_>, data: Data) -> Option<Data> {
        match (slot.kind, data) {
            (_, Data::Broken) => None,
            (Kind::Optional(_), Data::Unset) => Some(Data::Unset),
            (Kind::Optional(kind), data) => self.value(Slot { kind, ..slot }, data),
            (Kind::Bool, data @ Data::Bool(_)) => Some(data),
            (Kind::Integer { min, max }, data @ Data::Integer(value)) => {
                let in_range = value.is_some_and(|value| (*min..=*max).contains(&value));
                if in_range { Some(data) } else { self.out_of_range(slot, &data) }
            }
            (Kind::Float { min, max }, data @ (Data::Float(_) | Data::Integer(_))) => {
                let value = as_float(&data).filter(|value| (*min..=*max).contains(value));
                value.map(Data::Float).or_else(|| self.out_of_range(slot, &data))
            }
            (Kind::Text(format), Data::Text(text)) => self.text(slot, format, text),
            (Kind::Text(format), data @ (Data::Integer(Some(_)) | Data::Float(_)))
                if format.takes_numbers =>
            {
                let text = number_text(&data);
                let checked = (format.check)(&text);
                checked
                    .map_or_else(|reason| self.malformed(slot, &data, &reason), |()| Some(Data::Text(text)))
            }
            (Kind::Choice(names), Data::Text(text)) => self.choice(slot, names, text),
            (Kind::List { item, length }, Data::List(items)) => self.list(slot, item, *length, items),
            (_, data) => self.refuse(FaultKind::WrongType, slot, &format!("is {}", data.describe())),
        }
    }

    fn text(&mut self, slot: Slot<'_>, format: &TextFormat, text: String) -> Option<Data> {
        if let Err(reason) = (format.check)(&text) {
            return self.malformed(slot, &Data::Text(text), &reason);
        }
        if !format.length.allows(text.len()) {
            let found = format!("has {}", counted(text.len(), "bytes"));
            return self.refuse(FaultKind::OutOfRange, slot, &found);
        }
        Some(Data::Text(text))
    }

    fn malformed(&mut self, slot: Slot<'_>, data: &Data, reason: &str) -> Option<Data> {
        let gap = if reason.is_empty() { "" } else { "; " };
        self.refuse(FaultKind::Malformed, slot, &format!("is {}{gap}{reason}", data.describe()))
    }

    fn choice(&mut self, slot: Slot<'_>, choices: &[ChoiceName], text: String) -> Option<Data> {
        if choices.iter().any(|choice| choice.name == text) {
            return Some(Data::Text(text));
        }
        let hint = match nearest(&text, choices.iter().map(|choice| choice.name)) {
            Some(near) => format!("; did you mean {}?", quoted(near)),
            None => String::new(),
        };
        let found = format!("is {}{hint}", Data::Text(text).describe());
        self.refuse(FaultKind::UnknownChoice, slot, &found)
    }

    /// A list is admitted whole or not at all; what is wrong with one item does not hide the others.
    fn list(&mut self, slot: Slot<'_>, kind: &Kind, length: Length, items: Vec<Node>) -> Option<Data> {
        let count = items.len();
        if !length.allows(count) {
            let found = format!("has {}", counted(count, "items"));
            return self.refuse(FaultKind::OutOfRange, slot, &found);
        }
        let mut admitted = Vec::with_capacity(count);
        for (index, Node { data, place }) in items.into_iter().enumerate() {
            let path = path::below(slot.path, &index.to_string());
            let data = self.value(Slot { kind, path: &path, place, ..slot }, data);
            admitted.extend(data.map(|data| Node { data, place }));
        }
        (admitted.len() == count).then_some(Data::List(admitted))
    }

    fn out_of_range(&mut self, slot: Slot<'_>, data: &Data) -> Option<Data> {
        let found = format!("is {}", self.as_written(slot.place, data));
        self.refuse(FaultKind::OutOfRange, slot, &found)
    }

    /// Reports what the key must be and what was `found` about it.
    fn refuse(&mut self, fault: FaultKind, slot: Slot<'_>, found: &str) -> Option<Data> {
        let message = format!("`{}` must be {}, {found}", slot.path, slot.kind.expectation(slot.unit));
        self.reading.fault(fault, slot.path, slot.place, message);
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
    fn as_written(&self, place: SourceSpan, data: &Data) -> String {
        let text =
            self.reading.sources.get(place.source).text.get(place.start..place.end).unwrap_or_default();
        if (1..=40).contains(&text.len()) { text.to_owned() } else { data.describe() }
    }

    fn unknown_key(&mut self, schema: &Schema, path: &str, name: &str, entry: &Entry) {
        let is_table = matches!(entry.node.data, Data::Table(_) | Data::Tables(_));
        let what = if is_table { "table" } else { "key" };
        let (fault, message) = unknown(self.root, schema, path, what, name);
        self.reading.fault(fault, &path::below(path, name), entry.key, message);
    }
}

/// A number as a float; integers up to 2^53 are exact, greater ones are not taken for what they are not.
fn as_float(data: &Data) -> Option<f64> {
    const EXACT_MAX: i64 = 1 << 53;
    match *data {
        Data::Float(value) => Some(value),
        Data::Integer(value) => value.filter(|v| (-EXACT_MAX..=EXACT_MAX).contains(v)).map(|v| v as f64),
        _ => None,
    }
}

/// A number as the types that take it read it: without exponent, without a point if it is whole.
fn number_text(data: &Data) -> String {
    match data {
        Data::Integer(Some(value)) => value.to_string(),
        Data::Float(value) => value.to_string(),
        _ => unreachable!("only numbers are taken as text"),
    }
}

/// The table of section `name` in `into`, made if it is not there yet.
pub(crate) fn section_of<'t>(
    into: &'t mut Table,
    name: &str,
    key: SourceSpan,
    header: SourceSpan,
) -> &'t mut Table {
    let new =
        || Entry { key, node: Node { data: Data::Table(Table::new(TableOrigin::Header)), place: header } };
    match &mut into.entries.entry(name.to_owned()).or_insert_with(new).node.data {
        Data::Table(table) => table,
        _ => unreachable!("only tables are admitted for a section"),
    }
}

/// What is said of a name that the section `path` does not have: the present name of a key that was renamed, or what
/// may have been meant. `what` it is, a key or a table, is as the text has it.
pub(crate) fn unknown(
    root: &Schema,
    schema: &Schema,
    path: &str,
    what: &str,
    name: &str,
) -> (FaultKind, String) {
    let place = path::place_text(path);
    if let Some(present) = schema.present_name(name) {
        return (FaultKind::Renamed, format!("`{name}` is now `{present}`{place}"));
    }
    // A former name that stands in its new section, say.
    if let Some((home, present)) = present_above(root, "", path, name) {
        let home = path::place_text(&home);
        return (FaultKind::Renamed, format!("`{name}` is now `{present}`{home}"));
    }
    let hint = name_hint(root, schema, path, name);
    (FaultKind::UnknownKey, format!("unknown {what} {}{place}; {hint}", quoted_key(name)))
}

/// What may have been meant by `name` in the section `path`: a near name, another section, or what there is.
fn name_hint(root: &Schema, schema: &Schema, path: &str, name: &str) -> String {
    if let Some(near) = nearest(name, schema.names()) {
        return format!("did you mean `{near}`?");
    }
    let former = schema.renamed.iter().map(|(former, _)| *former);
    if let Some(near) = nearest(name, former)
        && let Some(present) = schema.present_name(near)
    {
        return format!("did you mean `{near}`, which is now `{present}`?");
    }
    let homes = homes(root, "", name);
    if !homes.is_empty() && homes.len() <= 3 {
        return format!("a key of this name belongs{}", homes.join(" or"));
    }
    let known: Vec<String> = schema.names().map(|name| format!("`{name}`")).collect();
    let here = if path.is_empty() { "known at the top level" } else { "known here" };
    format!("{here}: {}", known.join(", "))
}

/// The section around `below` that had a key of this name, and what the key is there now.
fn present_above(schema: &Schema, path: &str, below: &str, name: &str) -> Option<(String, &'static str)> {
    if let Some(present) = schema.present_name(name) {
        return Some((path.to_owned(), present));
    }
    schema.keys.iter().find_map(|key| match &key.kind {
        Kind::Section { schema, .. } => {
            let path = path::below(path, key.name);
            let is_around = below.strip_prefix(&path).is_some_and(|rest| rest.starts_with('.'));
            is_around.then(|| present_above(schema, &path, below, name)).flatten()
        }
        _ => None,
    })
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

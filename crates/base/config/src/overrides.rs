//! Single keys set from outside the file: environment variables and `--set` flags.
//!
//! How names and values are written is said at `Loader::environment`. The schema tells where a part of a
//! variable's name ends, so that `_` can be both in a name and between names.

use crate::admit::{Admission, section_of, unknown};
use crate::document::parse_value;
use crate::fault::FaultKind;
use crate::kind::{Kind, counted};
use crate::nearest::nearest;
use crate::path;
use crate::reading::quoted_key;
use crate::schema::{Key, Schema};
use crate::source::{SourceId, SourceSpan};
use crate::tree::{Data, Entry, Node, Table};

/// What every variable of the environment that is meant for the configuration begins with.
pub const ENVIRONMENT_PREFIX: &str = "TICKCAST_";

/// `names` leads to a key; its value is the text of the source from byte `value_start` on.
pub(crate) struct Override<'n> {
    pub(crate) names: &'n [&'n str],
    pub(crate) source: SourceId,
    pub(crate) value_start: usize,
    /// The kind of fault if `names` leads to nothing that can be set.
    pub(crate) fault: FaultKind,
}

impl Override<'_> {
    /// Admits the value into `tables`, which hold the layers below.
    pub(crate) fn admit(&self, admission: &mut Admission<'_>, tables: &mut Table) {
        let root = admission.root;
        self.descend(admission, root, "", self.names, tables);
    }

    fn descend(
        &self,
        admission: &mut Admission<'_>,
        schema: &Schema,
        section: &str,
        names: &[&str],
        into: &mut Table,
    ) {
        let Some((&name, rest)) = names.split_first() else { return };
        let place = self.key_place();
        let Some(key) = schema.key(name) else {
            let (fault, message) = unknown(admission.root, schema, section, "key", name);
            return admission.reading.fault(fault, &path::below(section, name), place, message);
        };
        let path = path::below(section, name);
        match (&key.kind, rest) {
            (Kind::Section { schema, .. }, []) => self.not_a_value(admission, schema, &path),
            (Kind::Section { schema, .. }, rest) => {
                let below = section_of(into, key.name, place, place);
                self.descend(admission, schema, &path, rest, below);
            }
            (Kind::Tables(schema), [index, rest @ ..]) => {
                let list = into.entries.get_mut(key.name);
                let Some((path, table)) = self.element(admission, &path, index, list) else { return };
                match rest {
                    [] => self.not_a_value(admission, schema, &path),
                    rest => self.descend(admission, schema, &path, rest, table),
                }
            }
            (_, []) => {
                let node = self.node(admission, &key.kind);
                admission.entry(key, &path, Entry { key: place, node }, into);
            }
            (_, [first, ..]) => {
                self.refuse(admission, &path, format!("`{path}` has no key {}", quoted_key(first)));
            }
        }
    }

    fn not_a_value(&self, admission: &mut Admission<'_>, schema: &Schema, path: &str) {
        let keys: Vec<String> = schema.names().map(|name| format!("`{path}.{name}`")).collect();
        self.refuse(admission, path, format!("`{path}` is a table; set a key in it: {}", keys.join(", ")));
    }

    /// The table with number `index` of a list of tables that a lower layer has set.
    fn element<'t>(
        &self,
        admission: &mut Admission<'_>,
        list: &str,
        index: &str,
        entry: Option<&'t mut Entry>,
    ) -> Option<(String, &'t mut Table)> {
        let items = match entry.map(|entry| &mut entry.node.data) {
            Some(Data::Tables(items)) => items.as_mut_slice(),
            _ => &mut [],
        };
        let count = items.len();
        let item = index.parse::<usize>().ok().and_then(|number| Some((number, items.get_mut(number)?)));
        if let Some((number, Node { data: Data::Table(table), .. })) = item {
            return Some((path::below(list, &number.to_string()), table));
        }
        let numbers = match count {
            0 => String::new(),
            1 => ", number 0".to_owned(),
            count => format!(", numbers 0 to {}", count - 1),
        };
        let message =
            format!("`{list}` has {}{numbers}; there is no {}", counted(count, "tables"), quoted_key(index));
        self.refuse(admission, list, message);
        None
    }

    /// The value as a file would have it.
    fn node(&self, admission: &mut Admission<'_>, kind: &Kind) -> Node {
        let text = admission.reading.sources.get(self.source).text.clone();
        let value = Text { source: self.source, text: &text[self.value_start..], start: self.value_start };
        value.node(admission, kind)
    }

    fn refuse(&self, admission: &mut Admission<'_>, path: &str, message: String) {
        admission.reading.fault(self.fault, path, self.key_place(), message);
    }

    /// The name in the text, without the `=`.
    fn key_place(&self) -> SourceSpan {
        SourceSpan { source: self.source, start: 0, end: self.value_start.saturating_sub(1) }
    }
}

/// A value in a variable or flag.
#[derive(Clone, Copy)]
struct Text<'t> {
    source: SourceId,
    text: &'t str,
    /// Byte of the source at which it begins.
    start: usize,
}

impl Text<'_> {
    fn node(self, admission: &mut Admission<'_>, kind: &Kind) -> Node {
        let trimmed = self.trimmed();
        match kind {
            Kind::Optional(_) if trimmed.text.is_empty() => self.with(Data::Unset),
            Kind::Optional(kind) => self.node(admission, kind),
            Kind::Text(_) | Kind::Choice(_) if trimmed.is_quoted() => trimmed.toml(admission),
            Kind::Text(_) => self.with(Data::Text(self.text.to_owned())),
            Kind::Choice(_) => trimmed.with(Data::Text(trimmed.text.to_owned())),
            Kind::List { .. } if trimmed.text.starts_with('[') => trimmed.toml(admission),
            Kind::List { item, .. } => trimmed.items(admission, item),
            Kind::Tables(_) if trimmed.text.is_empty() => self.with(Data::Tables(Vec::new())),
            // What is no TOML at all is still a text, of which the key's type can be said.
            _ if trimmed.text.is_empty() || !trimmed.looks_like_toml() => {
                self.with(Data::Text(self.text.to_owned()))
            }
            _ => trimmed.toml(admission),
        }
    }

    /// Items between commas; none in an empty text.
    fn items(self, admission: &mut Admission<'_>, item: &Kind) -> Node {
        let mut items = Vec::new();
        let mut start = self.start;
        for part in self.text.split(',').filter(|_| !self.text.is_empty()) {
            items.push(Text { text: part, start, ..self }.trimmed().node(admission, item));
            start += part.len() + 1;
        }
        self.with(Data::List(items))
    }

    fn toml(self, admission: &mut Admission<'_>) -> Node {
        let parsed = parse_value(self.source, self.text, self.start);
        admission.reading.content(parsed)
    }

    fn trimmed(self) -> Self {
        let text = self.text.trim_start();
        Text { text: text.trim_end(), start: self.start + self.text.len() - text.len(), ..self }
    }

    /// Whether it begins and ends with the same quotation mark.
    fn is_quoted(self) -> bool {
        ['"', '\'']
            .iter()
            .any(|&mark| self.text.len() >= 2 && self.text.starts_with(mark) && self.text.ends_with(mark))
    }

    fn looks_like_toml(self) -> bool {
        matches!(self.text, "true" | "false" | "inf" | "nan")
            || self.text.starts_with(|c: char| c.is_ascii_digit() || "+-.[{\"'".contains(c))
    }

    fn with(self, data: Data) -> Node {
        Node {
            data,
            place: SourceSpan { source: self.source, start: self.start, end: self.start + self.text.len() },
        }
    }
}

/// The parts of the key that the variable `name` sets, and the name itself without the prefix; `None` if
/// there is none.
pub(crate) fn key_of_variable(root: &Schema, name: &str) -> Option<Vec<String>> {
    let mut names = Vec::new();
    find(root, name.strip_prefix(ENVIRONMENT_PREFIX)?, &mut names).then_some(names)
}

/// Whether `rest` names a key in `schema`; `names` then leads there.
fn find(schema: &Schema, rest: &str, names: &mut Vec<String>) -> bool {
    for key in &schema.keys {
        let Some(after) = rest.strip_prefix(&key.name.to_ascii_uppercase()) else { continue };
        names.push(key.name.to_owned());
        if find_in(key, after, names) {
            return true;
        }
        names.pop();
    }
    false
}

fn find_in(key: &Key, after: &str, names: &mut Vec<String>) -> bool {
    let below = after.strip_prefix('_');
    match &key.kind {
        Kind::Section { schema, .. } => below.is_some_and(|rest| find(schema, rest, names)),
        Kind::Tables(schema) => {
            let Some((index, rest)) = below.and_then(|rest| rest.split_once('_')) else {
                return after.is_empty();
            };
            let is_index = !index.is_empty() && index.bytes().all(|b| b.is_ascii_digit());
            names.push(index.to_owned());
            let found = is_index && find(schema, rest, names);
            if !found {
                names.pop();
            }
            found
        }
        _ => after.is_empty(),
    }
}

/// The variables of all keys, with `0` for the number of a table.
pub(crate) fn variables(schema: &Schema) -> Vec<(String, String)> {
    let mut all = Vec::new();
    collect(schema, "", &mut all);
    all
}

fn collect(schema: &Schema, path: &str, all: &mut Vec<(String, String)>) {
    for key in &schema.keys {
        let path = path::below(path, key.name);
        let tables = matches!(key.kind, Kind::Tables(_));
        if tables || key.kind.schema().is_none() {
            all.push((variable_of(&path), path.clone()));
        }
        if let Some(below) = key.kind.schema() {
            collect(below, &if tables { path::below(&path, "0") } else { path }, all);
        }
    }
}

/// The variable that sets the key `path`.
pub(crate) fn variable_of(path: &str) -> String {
    format!("{ENVIRONMENT_PREFIX}{}", path.replace('.', "_").to_ascii_uppercase())
}

/// The key that the variable `name` set under a former name: its full former name and the full present one.
fn renamed_variable(schema: &Schema, path: &str, name: &str) -> Option<(String, String)> {
    for (former, present) in &schema.renamed {
        let former = path::below(path, former);
        if variable_of(&former) == name {
            return Some((former, path::below(path, present)));
        }
    }
    // What tables had is not looked for: no key of one was renamed, and they have numbers.
    schema.keys.iter().find_map(|key| match &key.kind {
        Kind::Section { schema, .. } => renamed_variable(schema, &path::below(path, key.name), name),
        _ => None,
    })
}

/// What is said of a variable that no key has: the variable of the renamed key, or what may have been meant.
pub(crate) fn unknown_variable(root: &Schema, name: &str) -> (FaultKind, String) {
    if let Some((former, present)) = renamed_variable(root, "", name) {
        let variable = variable_of(&present);
        return (FaultKind::Renamed, format!("`{former}` is now `{present}`; its variable is {variable}"));
    }
    let known = variables(root);
    let hint = match nearest(name, known.iter().map(|(variable, _)| variable.as_str())) {
        Some(near) => format!("did you mean {near}?"),
        None => {
            format!("no key has it, and every variable that begins with {ENVIRONMENT_PREFIX} must set one")
        }
    };
    (FaultKind::UnknownVariable, format!("unknown variable; {hint}"))
}

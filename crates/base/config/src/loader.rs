//! The layers of a configuration, put together and judged.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::marker::PhantomData;

use crate::admit::Admission;
use crate::complaint::{Complaint, Complaints};
use crate::document::parse_document;
use crate::fault::{FaultKind, Faults};
use crate::kind::Kind;
use crate::origin::{self, KeySpans, Origins};
use crate::overrides::{ENVIRONMENT_PREFIX, Override, key_of_variable, unknown_variable};
use crate::path;
use crate::presets;
use crate::reading::{Reading, quoted_key};
use crate::schema::Schema;
use crate::section::Section;
use crate::source::{Layer, SourceSpan};
use crate::tree::{Data, Table, TableOrigin};
use crate::value::Value;

/// Longest text of one file, variable or flag. Far above any real configuration; bounds the time of a load.
pub const TEXT_BYTES_MAX: usize = 1 << 20;

/// Collects the layers of a configuration and loads it.
///
/// Default, then the preset that a section has chosen, then files in the order in which they are given, then the environment, then flags: of two values
/// for one key the later layer's counts. Sections are merged key by key; lists, also lists of tables, are
/// replaced whole. Nothing is judged before [`Loader::load`], so that one run reports all that is wrong.
#[derive(Debug)]
#[must_use = "nothing is read before `load`"]
pub struct Loader<T> {
    files: Vec<(String, Vec<u8>)>,
    variables: BTreeMap<OsString, OsString>,
    reserved: Vec<String>,
    flags: Vec<String>,
    root: PhantomData<fn() -> T>,
}

/// A configuration and where each of its values came from.
#[derive(Clone, Debug, PartialEq)]
pub struct Loaded<T> {
    /// The typed values.
    pub value: T,
    /// Where they came from.
    pub origins: Origins,
}

impl Loader<()> {
    /// A loader for the configuration `T`, without any layer above the defaults.
    pub fn new<T: Section>() -> Loader<T> {
        Loader {
            files: Vec::new(),
            variables: BTreeMap::new(),
            reserved: Vec::new(),
            flags: Vec::new(),
            root: PhantomData,
        }
    }
}

impl<T: Section> Loader<T> {
    /// Adds a file: `contents` are its bytes, `name` is what messages call it.
    pub fn file(mut self, name: impl Into<String>, contents: impl Into<Vec<u8>>) -> Self {
        self.files.push((name.into(), contents.into()));
        self
    }

    /// Adds the environment, for instance `std::env::vars_os()`. Only variables that begin with
    /// [`ENVIRONMENT_PREFIX`] are looked at; each of them must set a key, or be
    /// [reserved](Loader::reserve_variables).
    ///
    /// The name is the prefix, then the full name of the key in capitals with `_` between its parts:
    /// `p2ps.item_linger_ms` is `TICKCAST_P2PS_ITEM_LINGER_MS`, `service.0.name` (the first `[[service]]`) is
    /// `TICKCAST_SERVICE_0_NAME`. [`audit`](crate::audit()) finds keys that would share a variable.
    ///
    /// The value is plain text for a string, an address or a choice (in quotes it is a TOML string), `a,b,c`
    /// or a TOML list for a list, TOML for the rest; a list of tables is given whole as a TOML list. The
    /// empty text takes an optional key back to "not set" and makes a list empty.
    ///
    /// Kubernetes gives every pod such variables for a service that is called `tickcast`
    /// (`TICKCAST_SERVICE_HOST` and others): call it otherwise, or set `enableServiceLinks: false`.
    pub fn environment<K, V>(mut self, variables: impl IntoIterator<Item = (K, V)>) -> Self
    where
        K: Into<OsString>,
        V: Into<OsString>,
    {
        let ours = variables.into_iter().map(|(name, value)| (name.into(), value.into()));
        self.variables.extend(ours.filter(|(name, _): &(OsString, OsString)| {
            name.as_encoded_bytes().starts_with(ENVIRONMENT_PREFIX.as_bytes())
        }));
        self
    }

    /// Names variables that begin like ours and mean something else, such as `TICKCAST_CONFIG` for the file's
    /// name.
    pub fn reserve_variables<N: Into<String>>(mut self, names: impl IntoIterator<Item = N>) -> Self {
        self.reserved.extend(names.into_iter().map(Into::into));
        self
    }

    /// Adds a flag, `p2ps.port=14002` or `service.0.name=A`. Of two for one key the later counts. Values are
    /// written as in [variables](Loader::environment).
    pub fn set(mut self, assignment: impl Into<String>) -> Self {
        self.flags.push(assignment.into());
        self
    }

    /// Reads all layers and runs the checks of all sections.
    ///
    /// # Errors
    /// All faults that were found, in the order of the layers and of the places in them.
    pub fn load(self) -> Result<Loaded<T>, Faults> {
        let schema = T::schema();
        let mut reading = Reading::default();
        let mut tables = Table::new(TableOrigin::Header);
        let mut layers =
            Layers { admission: Admission { reading: &mut reading, root: &schema }, tables: &mut tables };
        for (name, contents) in self.files {
            layers.file(&name, &contents);
        }
        for (name, value) in self.variables {
            layers.variable(&name, &value, &self.reserved);
        }
        for assignment in self.flags {
            layers.flag(&assignment);
        }
        presets::apply(&mut layers.admission, layers.tables);
        if reading.is_complete() {
            missing(&schema, "", &tables, None, &mut reading);
        }
        finish(tables, reading)
    }
}

/// The tables that the layers so far have made, and what the next are judged by.
struct Layers<'a> {
    admission: Admission<'a>,
    tables: &'a mut Table,
}

impl Layers<'_> {
    fn file(&mut self, name: &str, contents: &[u8]) {
        let text = String::from_utf8_lossy(&contents[..contents.len().min(TEXT_BYTES_MAX)]);
        let source = self.admission.reading.sources.add(Layer::File, name, &text);
        if contents.len() > TEXT_BYTES_MAX {
            let place = SourceSpan { source, start: 0, end: 0 };
            let message = format!("the file has {} bytes; the limit is {TEXT_BYTES_MAX}", contents.len());
            return self.admission.reading.unreadable(FaultKind::TooLong, place, message);
        }
        if let Err(error) = std::str::from_utf8(contents) {
            let start = error.valid_up_to();
            let message = format!("the byte 0x{:02x} is not UTF-8", contents[start]);
            let place = SourceSpan { source, start, end: start + 1 };
            return self.admission.reading.unreadable(FaultKind::NotUtf8, place, message);
        }
        let table = self.admission.reading.content(parse_document(source, &text));
        let root = self.admission.root;
        self.admission.table(root, "", table, self.tables);
    }

    fn variable(&mut self, name: &OsString, value: &OsString, reserved: &[String]) {
        let name_text = name.to_string_lossy();
        if reserved.iter().any(|reserved| *reserved == name_text) {
            return;
        }
        let text = format!("{name_text}={}", value.to_string_lossy());
        let source = self.add(Layer::Environment, &name_text, &text);
        let place = SourceSpan { source, start: 0, end: name_text.len() };
        let reading = &mut *self.admission.reading;
        let names = name.to_str().and_then(|name| key_of_variable(self.admission.root, name));
        let Some(names) = names else {
            let (fault, message) = unknown_variable(self.admission.root, &name_text);
            return reading.fault(fault, "", place, message);
        };
        if value.to_str().is_none() {
            return reading.unreadable(FaultKind::NotUtf8, place, "the value is not UTF-8".to_owned());
        }
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        self.set(&Override {
            names: &names,
            source,
            value_start: name_text.len() + 1,
            fault: FaultKind::UnknownVariable,
        });
    }

    fn flag(&mut self, assignment: &str) {
        let source = self.add(Layer::Flag, "--set", assignment);
        let Some((key, _)) = assignment.split_once('=') else {
            let message = format!("expected key=value, is {}", quoted_key(assignment));
            let place = SourceSpan { source, start: 0, end: assignment.len() };
            return self.admission.reading.fault(FaultKind::BadFlag, "", place, message);
        };
        let names: Vec<&str> = key.split('.').map(str::trim).collect();
        let value_start = key.len() + 1;
        self.set(&Override { names: &names, source, value_start, fault: FaultKind::BadFlag });
    }

    fn add(&mut self, layer: Layer, name: &str, text: &str) -> crate::source::SourceId {
        self.admission.reading.sources.add(layer, name, text)
    }

    fn set(&mut self, value: &Override<'_>) {
        let bytes = self.admission.reading.sources.get(value.source).text.len();
        if bytes > TEXT_BYTES_MAX {
            let place = SourceSpan { source: value.source, start: 0, end: value.value_start - 1 };
            let message = format!("the text has {bytes} bytes; the limit is {TEXT_BYTES_MAX}");
            return self.admission.reading.unreadable(FaultKind::TooLong, place, message);
        }
        value.admit(&mut self.admission, self.tables);
    }
}

/// Reports the required keys that no layer has set; `header` is the place of the section's table.
fn missing(schema: &Schema, section: &str, table: &Table, header: Option<SourceSpan>, reading: &mut Reading) {
    // Of what could not be read there is no telling what it lacks.
    if reading.faulty().iter().any(|key| key == section && !section.is_empty()) {
        return;
    }
    for key in &schema.keys {
        let path = path::below(section, key.name);
        let entry = table.entries.get(key.name);
        match (&key.kind, entry.map(|entry| &entry.node)) {
            (Kind::Section { schema, optional }, node) => match node.map(|node| (&node.data, node.place)) {
                Some((Data::Table(below), place)) => missing(schema, &path, below, Some(place), reading),
                _ if *optional => {}
                _ => missing(schema, &path, &Table::new(TableOrigin::Header), header, reading),
            },
            (Kind::Tables(schema), Some(node)) => {
                let Data::Tables(items) = &node.data else { continue };
                for (index, item) in items.iter().enumerate() {
                    let Data::Table(below) = &item.data else { continue };
                    missing(
                        schema,
                        &path::below(&path, &index.to_string()),
                        below,
                        Some(item.place),
                        reading,
                    );
                }
            }
            (_, None) if key.required && !reading.faulty().contains(&path) => {
                let place = path::place_text(section);
                let message = format!("missing key `{}`{place}; it must be {}", key.name, key.expectation());
                reading.fault(FaultKind::Missing, &path, header, message);
            }
            _ => {}
        }
    }
}

/// Builds the typed configuration, runs the checks, and gives it out if nothing is wrong.
fn finish<T: Section>(tables: Table, mut reading: Reading) -> Result<Loaded<T>, Faults> {
    let (set, places) = origin::split(tables);
    let value = T::from_value(&set).expect("what was admitted has the types of the schema");
    let origins = origin::origins(&places, &reading.sources);
    if reading.is_complete() {
        let faulty = reading.faulty().to_vec();
        let mut complaints = Complaints { faulty: &faulty, found: Vec::new() };
        value.collect_complaints("", &mut complaints);
        let all = value.to_value();
        for (section, complaint) in complaints.found {
            let report = Report { section: &section, places: &places, origins: &origins, all: &all };
            report.complaint(&complaint, &mut reading);
        }
    }
    reading.finish().map(|()| Loaded { value, origins })
}

/// What a complaint is told with.
struct Report<'a> {
    section: &'a str,
    places: &'a BTreeMap<String, KeySpans>,
    origins: &'a Origins,
    all: &'a Value,
}

impl Report<'_> {
    fn complaint(&self, complaint: &Complaint, reading: &mut Reading) {
        let keys: Vec<String> = complaint.keys.iter().map(|key| path::below(self.section, key)).collect();
        let marked = keys.iter().find_map(|key| self.places.get(key).map(|places| (key, places.value)));
        let others = keys.iter().filter(|&key| marked.is_none_or(|(marked, _)| marked != key));
        let notes = others.map(|key| match self.all.at(key) {
            Some(value) => format!("{key} = {value} ({})", self.origins.of(key)),
            None => format!("{key}: no such key"),
        });
        let key = keys.first().map_or(self.section, String::as_str);
        let message = match path::header(self.section) {
            Some(header) => format!("{header} {}", complaint.message),
            None => complaint.message.clone(),
        };
        let place = marked.map(|(_, place)| place);
        reading.fault_with_notes(FaultKind::Conflict, key, place, message, notes.collect());
    }
}

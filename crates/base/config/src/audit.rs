//! What could be wrong with the schema itself.

use std::collections::BTreeMap;

use crate::complaint::Complaints;
use crate::fault::FaultKind;
use crate::kind::Kind;
use crate::loader::Loader;
use crate::overrides::variables;
use crate::path;
use crate::schema::{Key, Schema};
use crate::section::Section;
use crate::value::Value;

/// Mistakes in the declaration of `T`, one line each; none if it is sound.
///
/// For a test of whoever puts a configuration together: keys without documentation or with names that are no
/// bare lower-case TOML keys, keys with the same name or the same environment variable, empty ranges,
/// defaults that their own range or check refuses or that a file cannot state, presets of optional keys,
/// former names that are still declared or lead to no key.
#[must_use]
pub fn audit<T: Section>() -> Vec<String> {
    let schema = T::schema();
    let mut mistakes = Vec::new();
    audit_section(&schema, "", &mut mistakes);
    audit_variables(&schema, &mut mistakes);
    if mistakes.is_empty() {
        audit_defaults::<T>(&mut mistakes);
    }
    mistakes
}

fn audit_section(schema: &Schema, section: &str, mistakes: &mut Vec<String>) {
    for preset in schema.presets {
        for (key, _) in preset.values {
            if schema.at(key).is_some_and(|key| matches!(key.kind, Kind::Optional(_))) {
                let path = path::below(section, key);
                let name = preset.name;
                mistakes.push(format!("{path}: optional, so that no file could take preset {name} back"));
            }
        }
    }
    for (former, present) in &schema.renamed {
        let path = path::below(section, former);
        if schema.key(former).is_some() {
            mistakes.push(format!("{path}: a former name, and declared"));
        }
        if schema.at(present).is_none_or(|key| key.kind.schema().is_some()) {
            mistakes.push(format!("{path}: renamed to {present}, which is no key"));
        }
        if schema.renamed.iter().filter(|(other, _)| other == former).count() > 1 {
            mistakes.push(format!("{path}: renamed twice"));
        }
    }
    for (index, key) in schema.keys.iter().enumerate() {
        let path = path::below(section, key.name);
        if schema.keys[..index].iter().any(|other| other.name == key.name) {
            mistakes.push(format!("{path}: declared twice"));
        }
        let is_plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_';
        if !key.name.bytes().all(is_plain) || !key.name.starts_with(|c: char| c.is_ascii_lowercase()) {
            mistakes.push(format!(
                "{path}: a name has lower-case letters, digits and `_`, and begins with a letter"
            ));
        }
        if key.doc.is_empty() {
            mistakes.push(format!("{path}: no documentation"));
        }
        audit_kind(&key.kind, &path, mistakes);
        if let Some(below) = key.kind.schema() {
            audit_section(below, &path, mistakes);
        }
    }
}

fn audit_kind(kind: &Kind, path: &str, mistakes: &mut Vec<String>) {
    let empty = match kind {
        Kind::Integer { min, max } => min > max,
        Kind::Float { min, max } => !(min.is_finite() && max.is_finite() && min <= max),
        Kind::Text(format) => format.length.min > format.length.max,
        Kind::Choice(names) => {
            let twice = |index: usize| names[..index].iter().any(|other| other.name == names[index].name);
            (0..names.len()).any(twice)
        }
        Kind::List { item, length } => {
            audit_kind(item, path, mistakes);
            if matches!(**item, Kind::Optional(_) | Kind::Tables(_)) {
                mistakes.push(format!("{path}: a list of what a list cannot hold"));
            }
            length.min > length.max
        }
        Kind::Optional(kind) => return audit_kind(kind, path, mistakes),
        Kind::Bool | Kind::Section { .. } | Kind::Tables(_) => false,
    };
    if empty {
        mistakes.push(format!("{path}: the range is empty, or a choice has one name twice"));
    }
}

fn audit_variables(schema: &Schema, mistakes: &mut Vec<String>) {
    let mut seen: BTreeMap<String, String> = BTreeMap::new();
    for (variable, path) in variables(schema) {
        if let Some(other) = seen.insert(variable.clone(), path.clone()) {
            mistakes.push(format!("{path}: has the variable {variable}, as {other} has"));
        }
    }
}

/// The defaults must load like any file. Required keys have none, so nothing is said of their sections.
fn audit_defaults<T: Section>(mistakes: &mut Vec<String>) {
    let default = T::default();
    let value = default.to_value();
    if T::from_value(&value).as_ref() != Some(&default) {
        mistakes.push("a default cannot be stated in a file".to_owned());
    }
    let schema = T::schema();
    let mut lines = Vec::new();
    let mut required = Vec::new();
    defaults(&schema, "", &mut lines, &mut required);
    let loader = lines.iter().fold(Loader::new::<T>(), |loader, line| loader.set(line.as_str()));
    if let Err(faults) = loader.load() {
        let of_value = |kind| !matches!(kind, FaultKind::Missing | FaultKind::Conflict);
        let wrong = faults.as_slice().iter().filter(|fault| of_value(fault.kind()));
        mistakes.extend(wrong.map(|fault| format!("{}: the default: {}", fault.key(), fault.message())));
    }
    let mut complaints = Complaints { faulty: &required, found: Vec::new() };
    default.collect_complaints("", &mut complaints);
    for (section, complaint) in complaints.found {
        let header = path::header(&section).unwrap_or_else(|| "top level".to_owned());
        mistakes.push(format!("{header}: the defaults: {}", complaint.message));
    }
}

/// `key=value` of every default in a section that is always there, and the names of the required keys.
fn defaults(schema: &Schema, section: &str, lines: &mut Vec<String>, required: &mut Vec<String>) {
    for Key { name, kind, default, required: is_required, .. } in &schema.keys {
        let path = path::below(section, name);
        match kind {
            Kind::Section { schema, optional: false } => defaults(schema, &path, lines, required),
            Kind::Section { .. } | Kind::Tables(_) => {}
            _ if *is_required => required.push(path),
            _ if *default == Value::Unset => {}
            _ => lines.push(format!("{path}={default}")),
        }
    }
}

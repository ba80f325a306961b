//! The layer between defaults and files: values that a section's key chooses by one name.
//!
//! Which preset is chosen is known only when all layers were read. It then sets what none of them has.

use crate::admit::Admission;
use crate::fault::FaultKind;
use crate::kind::Kind;
use crate::overrides::Override;
use crate::schema::{PRESET_KEY, PresetValues, Schema};
use crate::source::Layer;
use crate::tree::{Data, Table};

/// Adds the values of chosen presets to `tables`, which hold all other layers.
pub(crate) fn apply(admission: &mut Admission<'_>, tables: &mut Table) {
    let mut chosen = Vec::new();
    find(admission.root, tables, &mut Vec::new(), &mut chosen);
    for (names, preset, value) in chosen {
        let key = names.join(".");
        let source = admission.reading.sources.add(Layer::Preset, preset.name, &format!("{key}={value}"));
        let value_start = key.len() + 1;
        let value = Override { names: &names, source, value_start, fault: FaultKind::BadFlag };
        value.admit(admission, tables);
    }
}

type Value = (Vec<&'static str>, &'static PresetValues, &'static str);

fn find(schema: &Schema, table: &Table, path: &mut Vec<&'static str>, chosen: &mut Vec<Value>) {
    let name = match table.entries.get(PRESET_KEY).map(|entry| &entry.node.data) {
        Some(Data::Text(name)) => Some(name),
        _ => None,
    };
    if let Some(preset) = schema.presets.iter().find(|preset| Some(preset.name) == name.map(String::as_str)) {
        // A key that the owner of the section withholds is none that a preset could set.
        let is_open = |key: &&str| schema.at(key).is_some() && !is_set(table, key);
        for (key, value) in preset.values.iter().filter(|(key, _)| is_open(key)) {
            chosen.push((path.iter().copied().chain(key.split('.')).collect(), preset, value));
        }
    }
    for key in &schema.keys {
        let below = table.entries.get(key.name).map(|entry| &entry.node.data);
        if let (Kind::Section { schema, .. }, Some(Data::Table(below))) = (&key.kind, below) {
            path.push(key.name);
            find(schema, below, path, chosen);
            path.pop();
        }
    }
}

/// Whether a layer has set the key that `names` leads to from `table` on.
fn is_set(table: &Table, names: &str) -> bool {
    let (name, rest) = names.split_once('.').map_or((names, None), |(name, rest)| (name, Some(rest)));
    match (table.entries.get(name).map(|entry| &entry.node.data), rest) {
        (Some(Data::Table(below)), Some(rest)) => is_set(below, rest),
        (entry, rest) => entry.is_some() && rest.is_none(),
    }
}

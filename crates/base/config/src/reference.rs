//! The reference page, from the same table that reads the file.

use std::fmt::Write as _;

use crate::kind::{ChoiceName, Kind};
use crate::overrides::{ENVIRONMENT_PREFIX, variable_of};
use crate::path;
use crate::schema::{Key, Schema, paragraphs};
use crate::section::Section;
use crate::value::Value;

/// The reference page of the configuration `T` in Markdown: a heading and a table for each section, in the
/// order of the declaration.
#[must_use]
pub fn reference<T: Section>() -> String {
    let schema = T::schema();
    let mut out = String::from("# Configuration reference\n\n");
    out.push_str(&preface(&schema));
    section(&mut out, &schema, None, "");
    out
}

/// How a key is set; the example is the first key of the first section.
fn preface(schema: &Schema) -> String {
    let example = first_key(schema, "").unwrap_or_default();
    format!(
        "Each key can be set in the file, by an environment variable or by a flag; of these, the later counts. The \
         variable of a key is `{ENVIRONMENT_PREFIX}` and its full name in capitals with `_` between the parts: \
         `{example}` is `{variable}`, and `--set {example}=...` as a flag. In tables that can stand several times \
         (`[[...]]`) the number of the table, from 0, is a part of the name.\n",
        variable = variable_of(&example),
    )
}

/// The first plain key in a section, or else at the top level.
fn first_key(schema: &Schema, path: &str) -> Option<String> {
    let in_section = |key: &Key| match &key.kind {
        Kind::Section { schema, .. } => first_key(schema, &path::below(path, key.name)),
        _ => None,
    };
    let plain =
        || schema.keys.iter().find(|key| key.kind.schema().is_none()).map(|key| path::below(path, key.name));
    if path.is_empty() { schema.keys.iter().find_map(in_section).or_else(plain) } else { plain() }
}

fn section(out: &mut String, schema: &Schema, key: Option<&Key>, path: &str) {
    let plain: Vec<&Key> = schema.keys.iter().filter(|key| key.kind.schema().is_none()).collect();
    if let Some(key) = key {
        let header = path::header(path).unwrap_or_default();
        let presence = match key.kind {
            Kind::Section { optional: true, .. } => "\n\nOptional: absent by default.",
            Kind::Tables(_) => "\n\nCan stand any number of times.",
            _ => "",
        };
        // The section's own documentation as well, unless one of the two says what the other begins with.
        let (of_key, of_section) = (key.doc.as_str(), schema.doc.as_str());
        let doc = if of_section.starts_with(of_key.trim_end_matches('.')) {
            of_section.to_owned()
        } else if of_section.is_empty() || of_key.starts_with(of_section.trim_end_matches('.')) {
            of_key.to_owned()
        } else {
            format!("{of_key}\n\n{of_section}")
        };
        write!(out, "\n## `{header}`\n\n{doc}{presence}\n").expect("a String takes all");
    } else if !plain.is_empty() {
        out.push_str("\n## Top level\n");
    }
    if !plain.is_empty() {
        out.push_str("\n| key | type | default | range | unit | meaning |\n|---|---|---|---|---|---|\n");
        plain.iter().for_each(|key| row(out, key));
    }
    for key in &schema.keys {
        let path = path::below(path, key.name);
        match &key.kind {
            Kind::Section { schema, .. } => section(out, schema, Some(key), &path),
            Kind::Tables(schema) => section(out, schema, Some(key), &path::below(&path, "0")),
            _ => {}
        }
    }
}

fn row(out: &mut String, key: &Key) {
    let default = match &key.default {
        _ if key.required => "required".to_owned(),
        Value::Unset => "not set".to_owned(),
        default => format!("`{default}`"),
    };
    let mut meaning = key.doc.replace("\n\n", "<br>");
    for choice in choices(&key.kind).iter().filter(|choice| !choice.doc.is_empty()) {
        let doc = paragraphs(choice.doc).replace("\n\n", " ");
        write!(meaning, "<br>`{}`: {doc}", choice.name).expect("a String takes all");
    }
    let cells = [&format!("`{}`", key.name), &key.kind.type_name(), &default, &key.kind.range_text()];
    let cells = cells.into_iter().map(String::as_str).chain([key.unit(), &meaning]);
    let row: Vec<String> = cells.map(|cell| cell.replace('|', "\\|")).collect();
    writeln!(out, "| {} |", row.join(" | ")).expect("a String takes all");
}

/// The choices in this kind; none if it is another.
fn choices(kind: &Kind) -> &'static [ChoiceName] {
    match kind {
        Kind::Choice(names) => names,
        Kind::Optional(kind) | Kind::List { item: kind, .. } => choices(kind),
        _ => &[],
    }
}

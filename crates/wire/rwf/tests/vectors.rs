//! Every golden vector, both ways: the bytes decode to what the files say, member by member, and what the
//! files say encodes to the bytes.
//!
//! `TICKCAST_VECTORS` may name further directories of files of the same form, separated by colons.

#[path = "golden/build.rs"]
mod build;
mod golden;

use std::collections::BTreeSet;
use std::path::PathBuf;

use golden::{Case, File, Kind};
use serde_json::Value as Json;
use tickcast_rwf::DataType;

/// Cases whose bytes a shortest-form encoder does not write, and why. They are compared after decoding, and a
/// case that does not differ must not be here.
const EXCEPTIONS: &[(&str, &str)] = &[
    ("containers: map/reserved-lengths", LONG_LENGTHS),
    ("primitives: rmtes/partial", RMTES_COMMAND),
    ("primitives: rmtes/repeat", RMTES_COMMAND),
    ("sdk_messages: big_lz4/04/directory/refresh", LONG_LENGTHS),
    ("sdk_messages: big_lz4/07/dictionary/refresh", LONG_LENGTHS),
    ("sdk_messages: big_lz4/08/dictionary/refresh", LONG_LENGTHS),
    ("sdk_messages: ni/01/login/request", LONG_LENGTHS),
    ("sdk_messages: ni/02/login/refresh", LONG_LENGTHS),
    ("sdk_messages: ni/03/directory/refresh", LONG_LENGTHS),
    ("sdk_messages: ni_lz4/01/directory/refresh", LONG_LENGTHS),
    ("sdk_messages: reissue_pause/01/market_price/request", LONG_LENGTHS),
    ("sdk_messages: view_batch/01/market_price/request", LONG_LENGTHS),
    ("sdk_messages: view_batch/03/market_price/request", LONG_LENGTHS),
];

const LONG_LENGTHS: &str = "lengths in a longer form than they need";
const LONG_BLANK: &str = "a blank that Java writes in two bytes and C in one";
const RMTES_COMMAND: &str = "the file has the text that the command results in, not the command";

/// Why a case of a further directory may differ, by the rules that the files' description gives.
fn exception_by_rule(case: &Case) -> Option<&'static str> {
    let reserved = |text: &str| text.contains("reserved lengths") || text.contains("reserved-lengths");
    if case.id.starts_with("sdk_messages: ") || reserved(&case.name) || reserved(&case.description) {
        return Some(LONG_LENGTHS);
    }
    let self_sized = [DataType::REAL_4RB, DataType::REAL_8RB].map(Kind::SetValue).contains(&case.kind);
    if self_sized && case.decoded["blank"] == true {
        return Some(LONG_BLANK);
    }
    has_rmtes_command(&case.decoded).then_some(RMTES_COMMAND)
}

/// Whether there is an RMTES string with an escape other than that for UTF-8 at its beginning.
fn has_rmtes_command(json: &Json) -> bool {
    match json {
        Json::Array(items) => items.iter().any(has_rmtes_command),
        Json::Object(members) => {
            let bytes = members.get("hex").and_then(Json::as_str).map(golden::hex).unwrap_or_default();
            let rmtes = members.get("type").is_some_and(|data_type| data_type == "RMTES_STRING");
            let text = bytes.strip_prefix(b"\x1b%0").unwrap_or(&bytes);
            (rmtes && text.contains(&0x1B)) || members.values().any(has_rmtes_command)
        }
        _ => false,
    }
}

/// Makes the two ways alike in which the files write the same: a float's value beside its bits, and how they
/// say that a container is empty.
fn alike(json: &Json) -> Json {
    match json {
        Json::Array(items) => items.iter().map(alike).collect(),
        Json::Object(members) => {
            let float = members.contains_key("bits");
            let no_bytes = members.get("hex").is_some_and(|hex| hex == "") && members.contains_key("type");
            let entry = members.contains_key("action");
            let same = |name: &str, value: &Json| match name {
                "value" => float || (value.is_null() && (no_bytes || entry)),
                "blank" => no_bytes,
                _ => false,
            };
            let kept = members.iter().filter(|(name, value)| !same(name, value));
            Json::Object(kept.map(|(name, value)| (name.clone(), alike(value))).collect())
        }
        other => other.clone(),
    }
}

/// What is left when everything is gone that depends on the form of lengths, or of RMTES commands.
fn without_forms(json: &Json) -> Json {
    match json {
        Json::Array(items) => items.iter().map(without_forms).collect(),
        Json::Object(members) => {
            let nested = members
                .get("value")
                .is_some_and(|v| v.get("container").is_some() || v.get("msg_class").is_some());
            let rmtes = members.get("type").is_some_and(|data_type| data_type == "RMTES_STRING");
            let depends = |name: &str| match name {
                "hex" => nested || rmtes || members.get("blank") == Some(&Json::Bool(true)),
                "set_data_hex" | "set_defs_hex" | "header_size" => true,
                _ => false,
            };
            let kept = members.iter().filter(|(name, _)| !depends(name));
            Json::Object(kept.map(|(name, value)| (name.clone(), without_forms(value))).collect())
        }
        other => other.clone(),
    }
}

fn decodes_to_what_the_file_says(file: &File, case: &Case) {
    let decoded = golden::describe::case(case.kind, &case.bytes, &file.dictionary);
    let decoded = decoded.unwrap_or_else(|why| panic!("{}: {why}", case.id));
    assert_eq!(alike(&decoded), alike(&case.decoded), "{}", case.id);
}

/// Returns whether the bytes are the same; if not, they must be fewer and mean the same.
fn encodes_to_its_bytes(file: &File, case: &Case, exception: Option<&str>) -> bool {
    let bytes = build::case(case.kind, &case.decoded).unwrap_or_else(|why| panic!("{}: {why}", case.id));
    if bytes == case.bytes {
        return true;
    }
    let (ours, theirs) = (golden::to_hex(&bytes), golden::to_hex(&case.bytes));
    assert!(exception.is_some(), "{}:\n encoded {ours}\nrecorded {theirs}", case.id);
    let decoded = golden::describe::case(case.kind, &bytes, &file.dictionary);
    let decoded = decoded.unwrap_or_else(|why| panic!("{}: encoded {ours}: {why}", case.id));
    assert_eq!(without_forms(&alike(&decoded)), without_forms(&alike(&case.decoded)), "{}", case.id);
    if exception == Some(LONG_LENGTHS) {
        assert!(bytes.len() < case.bytes.len(), "{}: encoded {ours}\nrecorded {theirs}", case.id);
    }
    false
}

#[test]
fn every_committed_vector_decodes_and_encodes() {
    let mut differing = BTreeSet::new();
    let mut cases = 0;
    for file in golden::committed() {
        for case in &file.cases {
            decodes_to_what_the_file_says(&file, case);
            let listed = EXCEPTIONS.iter().find(|(id, _)| *id == case.id).map(|(_, reason)| *reason);
            if !encodes_to_its_bytes(&file, case, listed) {
                differing.insert(case.id.clone());
            }
            cases += 1;
        }
    }
    assert_eq!(cases, 921);
    let listed: BTreeSet<_> = EXCEPTIONS.iter().map(|(id, _)| (*id).to_owned()).collect();
    assert_eq!(differing, listed, "the list of exceptions is not true any more");
}

#[test]
fn every_vector_of_further_directories_decodes_and_encodes() {
    let Some(directories) = std::env::var_os("TICKCAST_VECTORS") else { return };
    let directories: Vec<PathBuf> =
        std::env::split_paths(&directories).filter(|d| !d.as_os_str().is_empty()).collect();
    assert!(!directories.is_empty(), "TICKCAST_VECTORS names no directory");
    for file in directories.iter().flat_map(|directory| golden::directory(directory)) {
        for case in &file.cases {
            decodes_to_what_the_file_says(&file, case);
            encodes_to_its_bytes(&file, case, exception_by_rule(case));
        }
    }
}

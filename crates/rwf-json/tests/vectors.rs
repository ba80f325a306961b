//! Every golden vector, both ways.
//!
//! `TICKCAST_VECTORS` may name further directories of vectors of the same form, separated by colons; they are
//! looked for in all their subdirectories. A `dictionary` in the directory itself is used for all of them, else
//! the one that is committed.

mod golden;

use golden::value::Value;
use golden::{Case, VectorServices, Vectors};
use rwf::Msg;
use tickcast_rwf_json::Converter;

/// What the reference does that is not to be done, and the JSON that is right in its place.
const RIGHT_JSON: &[(&str, &str, &str)] = &[
    ("real_inf", "a word that is not JSON", r#"{"X_REAL":"Inf"}"#),
    ("real_neg_inf", "a word that is not JSON", r#"{"X_REAL":"-Inf"}"#),
    ("real_nan", "a word that is not JSON", r#"{"X_REAL":"NaN"}"#),
    (
        "string_backslash_pairs",
        "loses a backslash, or a quote's",
        r#"{"X_ASCII":"a\\\\b","X_UTF8":"c\\\"d"}"#,
    ),
    ("mp_refresh_unknown_fid", "refuses the message for a field without a name", r#"{"BID":1,"ASK":2}"#),
    (
        "status_code_unnamed",
        "a code without a name gets lost",
        r#"{"Stream":"Closed","Data":"Suspect","Code":100,"Text":"text"}"#,
    ),
    ("payload_elements_nodata", "a hole, which is not JSON", r#"{"nothing":{"Type":"NoData","Data":null}}"#),
];

fn to_json(vectors: &Vectors, case: &Case) -> Value {
    let (id, rwf) = (&case.id, case.rwf());
    let msg = Msg::parse(&rwf).unwrap_or_else(|why| panic!("{id}: {why}"));
    let converter = Converter::new(&vectors.dictionary, &VectorServices, case.options());
    let mut out = b"before".to_vec();
    converter.write(&msg, &mut out).unwrap_or_else(|why| panic!("{id}: {why}"));
    let text = std::str::from_utf8(&out).unwrap_or_else(|why| panic!("{id}: {why}"));
    let text = text.strip_prefix("before").expect("it is appended");
    Value::read(text).unwrap_or_else(|why| panic!("{id}: {why}: {text}"))
}

/// Returns what is wrong.
fn becomes_its_json(vectors: &Vectors, case: &Case) -> Option<String> {
    let ours = to_json(vectors, case);
    if !case.is_quirk() {
        let theirs = Value::read(case.text()).unwrap_or_else(|why| panic!("{}: {why}", case.id));
        return (ours != theirs).then(|| format!("{}\n  ours {ours:?}\ntheirs {theirs:?}", case.id));
    }
    let name = case.id.rsplit(' ').next().unwrap_or_default();
    if let Some((_, _, right)) = RIGHT_JSON.iter().find(|(known, ..)| *known == name) {
        let right = Value::read(right).expect("JSON");
        let Value::Object(members) = &ours else { panic!("{}: no object", case.id) };
        return (!members.iter().any(|(_, value)| *value == right)).then(|| format!("{}: {ours:?}", case.id));
    }
    None
}

/// Checks every vector, then names all that are wrong.
fn all(vectors: &Vectors, check: fn(&Vectors, &Case) -> Option<String>) {
    let wrong: Vec<String> = vectors.cases.iter().filter_map(|case| check(vectors, case)).collect();
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), vectors.cases.len(), wrong.join("\n"));
}

#[test]
fn every_committed_message_becomes_its_json() {
    let vectors = golden::committed("rwf_to_json");
    all(&vectors, becomes_its_json);
    assert_eq!(vectors.cases.len(), 308);
    let quirks = vectors.cases.iter().filter(|case| case.is_quirk()).count();
    assert_eq!(quirks, RIGHT_JSON.len(), "each exception is listed");
}

#[test]
fn every_message_of_further_directories_becomes_its_json() {
    for vectors in golden::further("rwf_to_json") {
        all(&vectors, becomes_its_json);
    }
}

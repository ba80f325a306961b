//! Every golden vector, both ways.
//!
//! `TICKCAST_VECTORS` may name further directories of vectors of the same form, separated by colons; they are
//! looked for in all their subdirectories. A `dictionary` in the directory itself is used for all of them,
//! else the one that is committed.

#[allow(dead_code, reason = "not every test needs all of it")]
mod golden;

use std::collections::BTreeSet;

use golden::value::Value;
use golden::{Case, VectorServices, Vectors, content};
use rwf::{Msg, peek};
use serde_json::Value as Json;
use tickcast_rwf_json::{Converter, Incoming, Reader};

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

/// What the reference makes of JSON that is to be refused, and the text of the refusal.
const TO_BE_REFUSED: &[(&str, &str, &str)] = &[
    (
        "odd_key_string",
        "takes a string for an empty key",
        "JSON Converter Token Type error: Expected 'OBJECT' for key 'Key' Received 'STRING'",
    ),
    (
        "odd_streaming_string",
        "takes a string for false",
        "JSON Converter Token Type error: Expected 'PRIMITIVE' for key 'Streaming' Received 'STRING'",
    ),
    ("odd_two_payloads", "drops the first of two payloads", "JSON Unexpected Key. Received 'Elements'"),
];

/// What the reference makes of JSON that means something else: a line of the content that is right.
const RIGHT_CONTENT: &[(&str, &str, &str)] = &[
    ("fields_double_integer", "reads a whole number as 0.0", "field -104 Double(2.0)"),
    ("update_discardable", "loses the flag", "discardable: true"),
];

/// The reference leaves the element `:ViewType` out, without which a view has no meaning, and repeats a field
/// in place of one that the dictionary lacks. Views are compared as sets of field ids. Some of these vectors
/// are marked as quirks, some are not.
const VIEW: &str = "element :ViewData";

/// What the text of a fault in the member `Type` says. The reference answers it with id 0, the specification
/// with the id of the message.
const TYPE_FAULT: &str = "for key 'Type'";

/// Checks every vector, then names all that are wrong.
fn all(vectors: &Vectors, check: fn(&Vectors, &Case) -> Result<(), String>) {
    let checked =
        vectors.cases.iter().map(|case| check(vectors, case).map_err(|why| format!("{}: {why}", case.id)));
    let wrong: Vec<String> = checked.filter_map(Result::err).collect();
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), vectors.cases.len(), wrong.join("\n"));
}

fn equal<T: PartialEq + std::fmt::Debug>(ours: &T, theirs: &T) -> Result<(), String> {
    if ours == theirs { Ok(()) } else { Err(format!("\n  ours {ours:#?}\ntheirs {theirs:#?}")) }
}

fn listed<'l>(list: &'l [(&str, &str, &str)], case: &Case) -> Option<&'l str> {
    let name = case.json["name"].as_str();
    list.iter().find(|(known, ..)| Some(*known) == name).map(|(.., right)| *right)
}

fn to_json(vectors: &Vectors, case: &Case) -> Result<Value, String> {
    let rwf = case.rwf();
    let msg = Msg::parse(&rwf).map_err(|why| why.to_string())?;
    let converter = Converter::new(&vectors.dictionary, &VectorServices, case.options());
    let mut out = b"before".to_vec();
    converter.write(&msg, &mut out).map_err(|why| why.to_string())?;
    let text = String::from_utf8(out).map_err(|why| why.to_string())?;
    let text = text.strip_prefix("before").expect("it is appended");
    Value::read(text).map_err(|why| format!("{why}: {text}"))
}

fn becomes_its_json(vectors: &Vectors, case: &Case) -> Result<(), String> {
    let ours = to_json(vectors, case)?;
    if !case.is_quirk() {
        return equal(&ours, &Value::read(case.text()).map_err(|why| why.to_string())?);
    }
    // A quirk of a further directory need only become JSON.
    let Some(right) = listed(RIGHT_JSON, case) else { return Ok(()) };
    let right = Value::read(right).expect("JSON");
    let Value::Object(members) = &ours else { return Err("no object".to_owned()) };
    let found = members.iter().any(|(_, value)| *value == right);
    if found { Ok(()) } else { Err(format!("{ours:?}")) }
}

/// A message that was read, as the vectors have it: its class, and its content if it is RWF.
#[derive(Debug, PartialEq)]
struct Read {
    class: String,
    content: Vec<String>,
}

/// The messages that a text becomes, and the answer if one of them is refused.
fn read(vectors: &Vectors, case: &Case) -> (Vec<Read>, Option<(usize, Json)>) {
    let converter = Converter::new(&vectors.dictionary, &VectorServices, case.options());
    let mut messages = Vec::new();
    let mut reader = Reader::new();
    let result = reader.read_frame(&converter, case.text().as_bytes(), |incoming| {
        messages.push(match incoming {
            Incoming::Ping => Read { class: "Ping".to_owned(), content: Vec::new() },
            Incoming::Pong => Read { class: "Pong".to_owned(), content: Vec::new() },
            Incoming::Error(_) => Read { class: "Error".to_owned(), content: Vec::new() },
            Incoming::Message { rwf, .. } => described(rwf, vectors),
        });
    });
    let refused = result.err().map(|refusal| {
        let mut answer = Vec::new();
        refusal.write(&mut answer);
        (refusal.messages_before, serde_json::from_slice(&answer).expect("an answer is JSON"))
    });
    (messages, refused)
}

fn described(rwf: &[u8], vectors: &Vectors) -> Read {
    let class = peek(rwf).expect("a message").class;
    let content = content::of(rwf, &vectors.dictionary).expect("legal RWF");
    Read { class: format!("{class:?}").to_uppercase(), content: view_as_set(content) }
}

/// Makes the forms of a view alike, as [`VIEW`] says.
fn view_as_set(content: Vec<String>) -> Vec<String> {
    let Some(at) = content.iter().position(|line| line.trim_start().starts_with(VIEW)) else {
        return content;
    };
    let item = |line: &&String| line.trim_start().starts_with("item ");
    let ids: BTreeSet<String> = content[at + 1..].iter().take_while(item).cloned().collect();
    let (before, behind) = content.split_at(at + 1);
    let before = before.iter().filter(|line| !line.contains("element :ViewType UInt(1)")).cloned();
    before.chain(ids).chain(behind.iter().skip_while(item).cloned()).collect()
}

fn becomes_its_rwf(vectors: &Vectors, case: &Case) -> Result<(), String> {
    let (ours, refused) = read(vectors, case);
    if let Some(right) = listed(TO_BE_REFUSED, case) {
        let text = refused.map(|(_, answer)| answer["Text"].clone());
        return equal(&text, &Some(Json::from(right)));
    }
    if let Some((_, answer)) = refused {
        // A quirk of a further directory may be one that is refused.
        return if case.is_quirk() { Ok(()) } else { Err(answer.to_string()) };
    }
    if let Some(right) = listed(RIGHT_CONTENT, case) {
        let found = ours.iter().flat_map(|read| &read.content).any(|line| line.contains(right));
        return if found { Ok(()) } else { Err(format!("{ours:#?}")) };
    }
    let messages = case.json["messages"].as_array().ok_or("no messages")?;
    let theirs = messages.iter().map(|message| match message["rwf_hex"].as_str() {
        Some(hex) => described(&golden::hex(hex), vectors),
        None => Read { class: message["class"].as_str().unwrap_or_default().to_owned(), content: Vec::new() },
    });
    let theirs: Vec<Read> = theirs.collect();
    let views = theirs.iter().flat_map(|read| &read.content).any(|line| line.contains(VIEW));
    if case.is_quirk() && !views && ours != theirs { Ok(()) } else { equal(&ours, &theirs) }
}

fn is_refused_as_said(vectors: &Vectors, case: &Case) -> Result<(), String> {
    let (before, refused) = read(vectors, case);
    let (count, answer) = refused.ok_or_else(|| format!("not refused: {before:?}"))?;
    equal(&count, &before.len())?;
    equal(&Json::from(count), &case.json["messages_before_error"])?;
    let theirs = &case.json["error_answer"];
    equal(&answer["Type"], &Json::from("Error"))?;
    let text = answer["Text"].as_str().filter(|text| text.starts_with("JSON "));
    let text = text.ok_or_else(|| format!("no text: {answer}"))?;
    if !answer["Debug"]["Message"].is_string() {
        return Err(format!("no message: {answer}"));
    }
    match text.contains(TYPE_FAULT) {
        true => equal(&answer["ID"], &serde_json::from_str::<Json>(case.text()).expect("JSON")["ID"]),
        // Where the id is no number, the reference says -1 and the specification 0.
        false if case.is_quirk() => equal(&answer["ID"], &Json::from(0)),
        false => equal(&answer["ID"], &theirs["ID"]),
    }
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
fn every_committed_text_becomes_its_messages() {
    let vectors = golden::committed("json_to_rwf");
    all(&vectors, becomes_its_rwf);
    assert_eq!(vectors.cases.len(), 71);
    let views = vectors.cases.iter().filter(|case| case.is_quirk() && case.text().contains("View")).count();
    let quirks = vectors.cases.iter().filter(|case| case.is_quirk()).count();
    assert_eq!(quirks, TO_BE_REFUSED.len() + RIGHT_CONTENT.len() + views, "each exception is listed");
}

#[test]
fn every_committed_error_is_refused_as_said() {
    let vectors = golden::committed("json_error");
    all(&vectors, is_refused_as_said);
    assert_eq!(vectors.cases.len(), 26);
}

#[test]
fn every_vector_of_further_directories_holds() {
    for (direction, check) in [
        ("rwf_to_json", becomes_its_json as fn(&Vectors, &Case) -> Result<(), String>),
        ("json_to_rwf", becomes_its_rwf),
        ("json_error", is_refused_as_said),
    ] {
        golden::further(direction).iter().for_each(|vectors| all(vectors, check));
    }
}

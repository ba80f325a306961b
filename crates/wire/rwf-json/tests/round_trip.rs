//! There and back: what goes through both directions is what it was.

#[allow(dead_code, reason = "not every test needs all of it")]
mod golden;

use golden::value::Value;
use golden::{Case, VectorServices, any, content};
use proptest::prelude::*;
use rwf::{Dictionary, Msg};
use tickcast_rwf_json::{Converter, Incoming, Options, Reader};

/// Enumerations as numbers, since two of them may be shown alike; no service is meant that is not named.
fn exact() -> Options {
    Options { expand_enum_fields: false, ..Options::default() }
}

fn to_json(rwf: &[u8], dictionary: &Dictionary, options: Options) -> Vec<u8> {
    let mut text = Vec::new();
    let msg = Msg::parse(rwf).expect("legal RWF");
    Converter::new(dictionary, &VectorServices, options).write(&msg, &mut text).expect("legal RWF");
    text
}

/// The messages that a text becomes.
fn to_rwf(text: &[u8], dictionary: &Dictionary, options: Options) -> Vec<Vec<u8>> {
    let converter = Converter::new(dictionary, &VectorServices, options);
    let mut messages = Vec::new();
    let mut reader = Reader::new();
    let result = reader.read_frame(&converter, text, |incoming| {
        if let Incoming::Message { rwf, .. } = incoming {
            messages.push(rwf.to_vec());
        }
    });
    result.unwrap_or_else(|refusal| panic!("{refusal}: {}", String::from_utf8_lossy(text)));
    messages
}

fn there_and_back_is_the_same_text(case: &Case, dictionary: &Dictionary) {
    let options = Options { default_service_id: None, ..case.options() };
    let text = to_json(&case.rwf(), dictionary, options);
    let [back] = &to_rwf(&text, dictionary, options)[..] else { panic!("{}: one message", case.id) };
    let again = to_json(back, dictionary, options);
    let shown = |text: &[u8]| String::from_utf8_lossy(text).into_owned();
    assert_eq!(shown(&again), with_seconds(&shown(&text)), "{}", case.id);
}

/// A time without seconds is written short; what is read has none of them, which is written out.
fn with_seconds(text: &str) -> String {
    let is_short = |part: &str| {
        let bytes = part.as_bytes();
        bytes.len() == 5 && bytes[2] == b':' && part.replace(':', "").bytes().all(|b| b.is_ascii_digit())
    };
    let parts: Vec<String> = text
        .split('"')
        .map(|part| if is_short(part) { format!("{part}:00") } else { part.to_owned() })
        .collect();
    parts.join("\"")
}

#[test]
fn every_golden_message_becomes_the_same_text_again() {
    let vectors = golden::committed("rwf_to_json");
    vectors.cases.iter().for_each(|case| there_and_back_is_the_same_text(case, &vectors.dictionary));
}

/// Messages of every class with random combinations of all their parts, made by the vendor's libraries.
#[test]
fn messages_with_all_parts_become_the_same_text_again() {
    let file = include_str!("../../../wire/rwf/tests/vectors/messages.json");
    let file: serde_json::Value = serde_json::from_str(file).expect("committed");
    let dictionary = golden::shared_dictionary();
    let cases = file["cases"].as_array().expect("committed");
    for case in cases {
        let name = case["name"].as_str().expect("committed");
        let rwf = golden::hex(case["hex"].as_str().expect("committed"));
        let text = to_json(&rwf, &dictionary, exact());
        let [back] = &to_rwf(&text, &dictionary, exact())[..] else { panic!("{name}: one message") };
        let again = to_json(back, &dictionary, exact());
        assert_eq!(without_worst_dynamic(&again), without_worst_dynamic(&text), "{name}");
    }
    assert!(cases.len() > 200);
}

/// Whether the worst quality of a range may change is not read: the best says it.
fn without_worst_dynamic(text: &[u8]) -> String {
    let text = String::from_utf8_lossy(text).into_owned();
    let Some((before, worst)) = text.split_once("\"WorstQos\":{") else { return text };
    let (worst, behind) = worst.split_once('}').expect("it ends");
    format!("{before}\"WorstQos\":{{{}}}{behind}", worst.replace(",\"Dynamic\":true", ""))
}

/// Makes alike what servers may write in two ways: an empty text of a state or none, a service by name or
/// by number.
fn alike(value: Value) -> Value {
    match value {
        Value::Array(items) => Value::Array(items.into_iter().map(alike).collect()),
        Value::Object(members) => {
            let empty = Value::Text(String::new());
            let service = Value::Number { negative: false, digits: "257".to_owned(), exponent: 0 };
            let named = |name: &str, value| match name == "Service" && value == service {
                true => Value::Text("ELEKTRON_DD".to_owned()),
                false => alike(value),
            };
            let kept = members.into_iter().filter(|(name, value)| name != "Text" || *value != empty);
            Value::Object(kept.map(|(name, value)| (name.clone(), named(&name, value))).collect())
        }
        other => other,
    }
}

/// A frame's messages in RWF and back in JSON.
fn through_rwf(text: &str, dictionary: &Dictionary, options: Options) -> Vec<Value> {
    let messages = to_rwf(text.as_bytes(), dictionary, options);
    let texts = messages.iter().map(|rwf| to_json(rwf, dictionary, options));
    texts.map(|text| Value::read(std::str::from_utf8(&text).expect("UTF-8")).expect("JSON")).collect()
}

/// What servers sent goes through RWF unchanged; pings, pongs and errors do not go through it.
#[test]
fn what_recorded_servers_sent_is_the_same_behind_rwf() {
    let dictionary = golden::shared_dictionary();
    let mut messages = 0;
    for frame in golden::sessions().iter().filter(|frame| !frame.from_client) {
        let Value::Array(sent) = Value::read(&frame.text).expect("JSON") else { panic!("{}", frame.text) };
        let kind = |value: &Value| match value {
            Value::Object(members) => {
                members.iter().find(|(name, _)| name == "Type").map(|(_, kind)| kind.clone())
            }
            _ => None,
        };
        let no_rwf = ["Ping", "Pong", "Error"].map(|kind| Some(Value::Text(kind.to_owned())));
        let sent: Vec<Value> = sent.into_iter().filter(|value| !no_rwf.contains(&kind(value))).collect();
        messages += sent.len();
        // The reference server does not write what enumerations show.
        let options = if frame.session.starts_with("reference") { exact() } else { Options::default() };
        let behind = Value::Array(through_rwf(&frame.text, &dictionary, options));
        assert_eq!(alike(behind), alike(Value::Array(sent)), "{}: {}", frame.session, frame.text);
    }
    assert!(messages > 150, "{messages}");
}

/// What clients sent means the same behind JSON, where what they need not say is said differently.
#[test]
fn what_recorded_clients_sent_means_the_same_behind_json() {
    let dictionary = golden::shared_dictionary();
    let meaning = |rwf: &[u8]| content::of(rwf, &dictionary).expect("legal RWF");
    let mut messages = 0;
    for frame in golden::sessions().iter().filter(|frame| frame.from_client) {
        for rwf in to_rwf(frame.text.as_bytes(), &dictionary, Options::default()) {
            let text = to_json(&rwf, &dictionary, Options::default());
            let [back] = &to_rwf(&text, &dictionary, Options::default())[..] else { panic!("one message") };
            assert_eq!(meaning(back), meaning(&rwf), "{}: {}", frame.session, frame.text);
            messages += 1;
        }
    }
    assert!(messages > 60, "{messages}");
}

testkit::properties! {
    #[test]
    fn any_message_keeps_its_content(message in any::message()) {
        let dictionary = any::dictionary();
        let rwf = rwf::encode_to_vec(|w| message.encode(w)).expect("legal");
        let text = to_json(&rwf, &dictionary, exact());
        let back = to_rwf(&text, &dictionary, exact());
        prop_assert_eq!(back.len(), 1);
        let meaning = |rwf: &[u8]| content::of(rwf, &dictionary).expect("legal RWF");
        prop_assert_eq!(meaning(&back[0]), meaning(&rwf), "{}", String::from_utf8_lossy(&text));
    }
}

#[test]
fn an_empty_date_or_time_is_blank() {
    let dictionary = golden::shared_dictionary();
    let fields = |value: &str| {
        let text = format!(
            r#"{{"ID":1,"Type":"Update","Fields":{{"X_DATE":{value},"X_TIME":{value},"X_DATETIME":{value}}}}}"#
        );
        to_rwf(text.as_bytes(), &dictionary, exact())
    };
    assert_eq!(fields(r#""""#), fields("null"));
}

//! Recorded messages, and how messages are compared.

use std::path::Path;

use rwf::{Attributes, Msg, print::Pretty};
use serde_json::Value as Json;

/// A recorded message with what it means.
pub(crate) struct Case {
    pub(crate) name: String,
    pub(crate) bytes: Vec<u8>,
    pub(crate) decoded: Json,
}

/// What stock consumers and providers sent.
pub(crate) fn sdk_messages() -> Vec<Case> {
    cases("sdk_messages.json")
}

/// Messages made with the codec of the public libraries.
pub(crate) fn made_messages() -> Vec<Case> {
    cases("messages.json")
}

fn cases(file: &str) -> Vec<Case> {
    let json = json(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../wire/rwf/tests/vectors").join(file));
    let cases = json["cases"].as_array().expect("a list of cases");
    assert!(!cases.is_empty(), "{file} has no cases");
    let case = |case: &Json| Case {
        name: text(&case["name"]).to_owned(),
        bytes: hex(text(&case["hex"])),
        decoded: case["decoded"].clone(),
    };
    cases.iter().map(case).collect()
}

pub(crate) fn json(path: &Path) -> Json {
    let file = std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    serde_json::from_str(&file).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

pub(crate) fn text(json: &Json) -> &str {
    json.as_str().unwrap_or_else(|| panic!("not a text: {json}"))
}

pub(crate) fn number(json: &Json) -> i64 {
    json.as_i64().unwrap_or_else(|| panic!("not a number: {json}"))
}

pub(crate) fn list(json: &Json) -> &[Json] {
    json.as_array().map_or(&[], Vec::as_slice)
}

pub(crate) fn has_flag(json: &Json, flag: &str) -> bool {
    list(&json["flags"]).iter().any(|known| known == flag)
}

pub(crate) fn hex(text: &str) -> Vec<u8> {
    let digits = text.as_bytes();
    assert_eq!(digits.len() % 2, 0, "odd number of digits");
    let byte = |pair: &[u8]| {
        let pair = std::str::from_utf8(pair).expect("digits");
        u8::from_str_radix(pair, 16).unwrap_or_else(|_| panic!("not hexadecimal: {pair}"))
    };
    digits.chunks(2).map(byte).collect()
}

pub(crate) fn parse(bytes: &[u8]) -> Msg<'_> {
    Msg::parse(bytes).expect("a legal message")
}

/// Two messages say the same: every part of the header, and every value in attributes and payload. They may
/// differ in the forms of lengths.
pub(crate) fn assert_same_content(name: &str, original: &[u8], again: &[u8]) {
    assert_eq!(header(original), header(again), "{name}");
    assert_eq!(Pretty(original, None).to_string(), Pretty(again, None).to_string(), "{name}");
}

/// The message without the bytes of its containers.
fn header(bytes: &[u8]) -> String {
    let mut msg = parse(bytes);
    let bare = |attributes: Attributes<'_>| Attributes { data: &[], ..attributes };
    match &mut msg {
        Msg::Request(m) => {
            m.payload = &[];
            m.key.attributes = m.key.attributes.map(bare);
        }
        Msg::Refresh(m) => {
            m.payload = &[];
            if let Some(key) = &mut m.key {
                key.attributes = key.attributes.map(bare);
            }
        }
        Msg::Status(m) => {
            if let Some(key) = &mut m.key {
                key.attributes = key.attributes.map(bare);
            }
        }
        Msg::Update(m) => m.payload = &[],
        Msg::Close(m) => m.payload = &[],
        Msg::Generic(m) => m.payload = &[],
        Msg::Post(m) => m.payload = &[],
        Msg::Ack(_) => {}
    }
    format!("{msg:?}")
}

/// Numbers that look drawn but are the same in every run.
pub(crate) struct Xorshift(pub(crate) u64);

impl Xorshift {
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % bound as u64) as usize
    }
}

use std::cell::RefCell;

use rwf::{Msg, WALK_DEPTH_MAX, walk};
use rwf_json::{Converter, Incoming, NoServices, Options, Reader};
use serde_json::Value as Json;

use super::DICTIONARY;
use crate::Outcome;

const JSON_BYTES_MAX: usize = 1 << 18;

fn converter() -> Converter<'static, NoServices> {
    let options = Options { json_bytes_max: JSON_BYTES_MAX, ..Options::default() };
    Converter::new(&DICTIONARY, &NoServices, options)
}

/// Input: a message.
pub(super) fn write(input: &[u8]) -> Outcome {
    let msg = match Msg::parse(input) {
        Ok(msg) => msg,
        Err(error) => return Outcome::refused(error),
    };
    let mut out = b"before".to_vec();
    let written = converter().write(&msg, &mut out);
    let (before, text) = out.split_at(6);
    assert_eq!(before, b"before");
    let object = match written {
        Ok(()) => object(text),
        Err(error) => {
            assert!(text.is_empty(), "{error}, and {} bytes are left", text.len());
            return Outcome::refused(error);
        }
    };
    assert!(text.len() <= 2 * JSON_BYTES_MAX, "{} bytes of text", text.len());
    assert!(depth(&object) <= 6 * WALK_DEPTH_MAX as usize, "an object of depth {}", depth(&object));
    Outcome::accepted((object["Type"].as_str().map(str::to_owned), text.len().ilog2(), depth(&object)))
}

thread_local! {
    /// A reader is made for many frames.
    static READER: RefCell<Reader> = RefCell::new(Reader::new());
}

/// Input: the text of a frame.
pub(super) fn read(input: &[u8]) -> Outcome {
    let options =
        Options { default_service_id: Some(257), json_bytes_max: JSON_BYTES_MAX, ..Options::default() };
    let converter = Converter::new(&DICTIONARY, &NoServices, options);
    READER.with_borrow_mut(|reader| {
        let (mut messages, mut classes) = (0, 0u16);
        let refused = reader.read_frame(&converter, input, |incoming| {
            messages += 1;
            if let Incoming::Message { rwf, .. } = incoming {
                classes |= assert_converts_again(&converter, rwf);
            }
        });
        match refused {
            Ok(count) => {
                assert_eq!(count, messages);
                Outcome::accepted((classes, messages.min(3)))
            }
            Err(refusal) => {
                let mut answer = Vec::new();
                refusal.write(&mut answer);
                let answer: Json = serde_json::from_slice(&answer).expect("the answer is JSON");
                assert_eq!(answer["Type"], "Error");
                assert_eq!(refusal.messages_before, messages, "what came before has taken effect");
                Outcome::refused((refusal.kind(), classes))
            }
        }
    })
}

/// What JSON became is legal RWF to its end, and can be told in JSON again. Returns a bit for its class.
fn assert_converts_again(converter: &Converter<'_, NoServices>, rwf: &[u8]) -> u16 {
    let msg = Msg::parse(rwf).expect("what is made is legal");
    walk(rwf, Some(&DICTIONARY), |_, _| ()).expect("to its end");
    let mut text = Vec::new();
    if converter.write(&msg, &mut text).is_ok() {
        object(&text);
    }
    1 << msg.class() as u16
}

/// The text as an object: a message never becomes anything else.
fn object(text: &[u8]) -> Json {
    let shown = || String::from_utf8_lossy(text);
    let json: Json = serde_json::from_slice(text).unwrap_or_else(|error| panic!("{error}: {}", shown()));
    assert!(json.is_object() && json["ID"].is_number() || json["ID"].is_array(), "{}", shown());
    json
}

fn depth(json: &Json) -> usize {
    match json {
        Json::Object(members) => 1 + members.values().map(depth).max().unwrap_or(0),
        Json::Array(items) => 1 + items.iter().map(depth).max().unwrap_or(0),
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use rwf_json::ToJsonError;

    use super::*;

    #[test]
    fn a_message_of_few_bytes_that_stand_for_much_text_is_refused() {
        // An update with a series of 65,535 entries of no data, many times in a filter list.
        let series = [0u8, 0, 0xFF, 0xFF];
        let mut payload = vec![0, 10, 200];
        (0..200).for_each(|id| payload.extend([[2, id, 4].as_slice(), &series].concat()));
        let mut message = vec![0, 9, 4, 6, 0, 0, 0, 5, 0, 7, 0];
        message.extend(payload);
        let msg = Msg::parse(&message).expect("legal");
        let written = converter().write(&msg, &mut Vec::new());
        assert_eq!(written, Err(ToJsonError::TooLong { max_bytes: JSON_BYTES_MAX }));
    }
}

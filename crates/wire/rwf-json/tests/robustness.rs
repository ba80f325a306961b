//! Hostile input: nothing panics, and what is converted is legal on the other side.

#[allow(dead_code, reason = "not every test needs all of it")]
mod golden;

use golden::VectorServices;
use proptest::prelude::*;
use rwf::{DataType, Dictionary, Domain, Msg, SeriesHead, UpdateMsg, walk};
use tickcast_rwf_json::{Converter, Incoming, Options, Reader, RefusalKind, ToJsonError};

/// Both settings of each option, in turn.
fn options(turn: usize) -> Options {
    let strict = Options { catch_unknown_keys: true, expand_enum_fields: false, ..Options::default() };
    let default_service_id = Some(257);
    let lenient = Options { catch_unknown_fields: false, default_service_id, ..Options::default() };
    [strict, Options { allow_enum_display_strings: false, ..lenient }][turn % 2]
}

/// Bytes that are a message become JSON, or leave nothing behind.
fn check_rwf(rwf: &[u8], dictionary: &Dictionary, turn: usize) {
    let Ok(msg) = Msg::parse(rwf) else { return };
    let mut out = b"before".to_vec();
    match Converter::new(dictionary, &VectorServices, options(turn)).write(&msg, &mut out) {
        Ok(()) => {
            let text = serde_json::from_slice::<serde_json::Value>(&out[6..]);
            let text = text.map_err(|why| format!("{why}: {}", String::from_utf8_lossy(&out)));
            assert!(text.is_ok_and(|json| json.is_object()));
        }
        Err(_) => assert_eq!(out, b"before"),
    }
}

/// A text becomes messages that can be read to their end, or is refused. Returns the answer, if it is.
fn check_text(reader: &mut Reader, text: &[u8], dictionary: &Dictionary, turn: usize) -> Option<Vec<u8>> {
    let mut count = 0;
    let converter = Converter::new(dictionary, &VectorServices, options(turn));
    let result = reader.read_frame(&converter, text, |incoming| {
        if let Incoming::Message { rwf, .. } = incoming {
            walk(rwf, Some(dictionary), |_, _| ()).expect("legal RWF");
        }
        count += 1;
    });
    match result {
        Ok(messages) => {
            assert_eq!(messages, count);
            None
        }
        Err(refusal) => {
            assert_eq!(refusal.messages_before, count);
            let mut answer = Vec::new();
            refusal.write(&mut answer);
            Some(answer)
        }
    }
}

fn check_answer(answer: Option<Vec<u8>>) {
    if let Some(answer) = answer {
        let answer: serde_json::Value = serde_json::from_slice(&answer).expect("JSON");
        assert_eq!(answer["Type"], "Error");
        assert!(
            answer["ID"].is_i64() && answer["Text"].is_string() && answer["Debug"]["Message"].is_string()
        );
    }
}

/// Every prefix, and every input with one bit flipped. Of long inputs each byte has one bit flipped, so that
/// each length, type and count is changed while the run stays short.
fn spoilt(input: &[u8], mut check: impl FnMut(&[u8], usize)) {
    const LONG_BYTES: usize = 600;
    let step = input.len().div_ceil(4 * LONG_BYTES).max(1);
    (0..input.len()).step_by(step).for_each(|length| check(&input[..length], length));
    let mut changed = input.to_vec();
    for at in 0..input.len() {
        let bits = if input.len() > LONG_BYTES { at % 8..at % 8 + 1 } else { 0..8 };
        for bit in bits {
            changed[at] ^= 1 << bit;
            check(&changed, at + bit);
            changed[at] = input[at];
        }
    }
}

#[test]
fn every_golden_message_may_be_cut_or_changed_anywhere() {
    let vectors = golden::committed("rwf_to_json");
    for case in &vectors.cases {
        spoilt(&case.rwf(), |rwf, turn| check_rwf(rwf, &vectors.dictionary, turn));
    }
}

#[test]
fn every_golden_text_may_be_cut_or_changed_anywhere() {
    let mut reader = Reader::new();
    for direction in ["json_to_rwf", "json_error"] {
        let vectors = golden::committed(direction);
        for case in &vectors.cases {
            spoilt(case.text().as_bytes(), |text, turn| {
                check_text(&mut reader, text, &vectors.dictionary, turn);
            });
        }
    }
}

#[test]
fn every_golden_message_as_text_may_be_cut_or_changed_anywhere() {
    let vectors = golden::committed("rwf_to_json");
    let mut reader = Reader::new();
    for case in vectors.cases.iter().filter(|case| !case.text().is_empty()) {
        spoilt(case.text().as_bytes(), |text, turn| {
            check_text(&mut reader, text, &vectors.dictionary, turn);
        });
    }
}

/// Each text with one part of another put in its place: members where they do not belong.
#[test]
fn parts_of_texts_may_stand_anywhere() {
    let vectors = golden::committed("json_to_rwf");
    let mut reader = Reader::new();
    let parts = [
        "null",
        "true",
        "-1",
        "1e400",
        "18446744073709551616",
        "\"\"",
        "\"x\"",
        "[]",
        "{}",
        "[[1]]",
        "{\"a\":{}}",
    ];
    for case in &vectors.cases {
        let text = case.text();
        for (at, _) in text.match_indices(':') {
            let end = text[at..].find([',', '}']).map_or(text.len(), |length| at + length);
            for part in parts {
                let changed = format!("{}:{part}{}", &text[..at], &text[end..]);
                check_answer(check_text(&mut reader, changed.as_bytes(), &vectors.dictionary, at));
            }
        }
    }
}

#[test]
fn nesting_is_refused_below_the_limit_on_both_sides() {
    let vectors = golden::committed("json_to_rwf");
    let converter = Converter::new(&vectors.dictionary, &VectorServices, Options::default());
    let open = r#"{"ID":1,"Type":"Update","Message":"#;
    let nested = |depth: usize| format!("{}{{\"Type\":\"Close\"}}{}", open.repeat(depth), "}".repeat(depth));
    let mut reader = Reader::new();
    let mut kept = Vec::new();
    let mut read = |text: &str| {
        let result = reader.read_frame(&converter, text.as_bytes(), |incoming| {
            if let Incoming::Message { rwf, .. } = incoming {
                kept = rwf.to_vec();
            }
        });
        result.map_err(|refusal| refusal.kind())
    };
    assert_eq!(read(&nested(33)), Err(RefusalKind::TooDeep));
    assert_eq!(read(&nested(200)), Err(RefusalKind::NotJson));
    assert_eq!(read(&nested(32)), Ok(1));
    assert!(converter.write(&Msg::parse(&kept).expect("legal"), &mut Vec::new()).is_ok());
    let outer = UpdateMsg { payload: &kept, ..UpdateMsg::new(Domain::MARKET_PRICE, 1, DataType::MSG) };
    assert!(matches!(converter.write(&Msg::Update(outer), &mut Vec::new()), Err(ToJsonError::Decode(_))));
}

/// Entries without data take no bytes in RWF, but do in JSON.
#[test]
fn a_few_bytes_do_not_become_endless_text() {
    let mut series =
        rwf::encode_to_vec(|w| w.series(&SeriesHead::new(DataType::NO_DATA), |_| ())).expect("small");
    let count_at = series.len() - 2;
    series[count_at..].copy_from_slice(&u16::MAX.to_be_bytes());
    let update = UpdateMsg { payload: &series, ..UpdateMsg::new(Domain::MARKET_PRICE, 1, DataType::SERIES) };
    let options = Options { json_bytes_max: 10_000, ..Options::default() };
    let dictionary = Dictionary::new();
    let mut out = Vec::new();
    let result = Converter::new(&dictionary, &VectorServices, options).write(&Msg::Update(update), &mut out);
    assert_eq!(result, Err(ToJsonError::TooLong { max_bytes: 10_000 }));
    assert!(out.is_empty() && out.capacity() < 40_000);
}

/// A text that calls itself JSON is not let through unless it is.
#[test]
fn a_json_payload_cannot_break_out_of_its_message() {
    let dictionary = Dictionary::new();
    let converter = Converter::new(&dictionary, &VectorServices, Options::default());
    for payload in ["1}]", "{\"a\":1},{\"ID\":1}", "\"", "", "[1,2"] {
        let update = UpdateMsg::new(Domain::MARKET_PRICE, 1, DataType::JSON);
        let update = UpdateMsg { payload: payload.as_bytes(), ..update };
        let mut out = Vec::new();
        converter.write(&Msg::Update(update), &mut out).expect("legal");
        let json: serde_json::Value = serde_json::from_slice(&out).expect("JSON");
        let kept = json.get("Json").map_or("", |json| json.as_str().expect("a string in place of JSON"));
        assert_eq!(kept, payload);
    }
}

#[test]
fn a_reader_keeps_its_memory_and_forgets_what_it_read() {
    let vectors = golden::committed("json_to_rwf");
    let converter = Converter::new(&vectors.dictionary, &VectorServices, Options::default());
    let mut reader = Reader::new();
    let post = br#"{"ID":2,"Type":"Update","Fields":{"BID":1.5,"X_BUFFER":"AAEC","DSPLY_NAME":"\u00e9"}}"#;
    let mut first = Vec::new();
    for _ in 0..3 {
        let mut again = Vec::new();
        let read = reader.read_frame(&converter, post, |incoming| {
            if let Incoming::Message { rwf, text } = incoming {
                assert_eq!(text, post);
                again = rwf.to_vec();
            }
        });
        assert_eq!(read.ok(), Some(1));
        assert!(first.is_empty() || first == again);
        first = again;
        assert!(reader.read_frame(&converter, b"[{]", |_| ()).is_err());
    }
}

testkit::properties! {
    #[test]
    fn any_text_is_read_or_refused(text in "\\PC{0,40}", bytes in prop::collection::vec(any::<u8>(), 0..40)) {
        let dictionary = golden::shared_dictionary();
        let mut reader = Reader::new();
        check_answer(check_text(&mut reader, text.as_bytes(), &dictionary, 0));
        check_answer(check_text(&mut reader, &bytes, &dictionary, 1));
    }
}

//! What conversion between RWF and JSON costs.

use std::hint::black_box;

use measure::Runs;
use rwf::{Dictionary, Key, Msg};
use rwf_json::{Converter, Incoming, KeyPart, NoServices, Options, Reader, write_head};
use serde_json::json;

use super::cases::Case;
use super::each_message;
use crate::report::{self, Report};
use crate::{BenchError, RunOptions};

/// Cases that are converted: the update, and the container of books.
const CASES: [&str; 2] = ["update-74-bytes", "map"];
/// Times that the messages of a case are worked on in one round: a book takes microseconds.
const ROUNDS: u32 = 200;

pub(super) fn run(options: &RunOptions, cases: &[Case], dictionary: &Dictionary) -> Result<(), BenchError> {
    let heads = ["JSON", "bytes of RWF", "bytes of JSON", "ns (lowest to highest)"];
    let mut report = Report::new("json", options.json, &heads);
    let converter = Converter::new(dictionary, &NoServices, Options::default());
    for case in cases.iter().filter(|case| CASES.contains(&case.name)) {
        let texts = Case { name: case.name, messages: written(&converter, case)? };
        let sizes = [case, &texts].map(|case| case.messages.first().map_or(0, Vec::len));
        let mut measure = |name: &str, cost: &mut dyn FnMut() -> f64| {
            let runs: Runs = (0..options.runs).map(|_| cost()).collect();
            let object =
                json!({ "name": name, "case": case.name, "bytes": sizes, "ns": report::spread_json(&runs) });
            let [rwf, json] = sizes.map(|size| size.to_string());
            let spread = report::spread(&runs, report::one_decimal);
            report.row([format!("{}: {name}", case.name), rwf, json, spread], object);
        };
        let mut out = Vec::new();
        let key = Key::item(257, b"TRI.N");
        for (name, key) in
            [("parse and write", KeyPart::Without), ("the same, with service and name", KeyPart::Given(&key))]
        {
            measure(name, &mut || {
                each_message(case, ROUNDS, |message| write(&converter, message, key, &mut out))
            });
        }
        measure("the part of each receiver: stream id, and a copy", &mut || {
            each_message(&texts, ROUNDS, |text| {
                out.clear();
                write_head(black_box(12_345), &mut out);
                out.extend_from_slice(text);
                black_box(&out);
            })
        });
        let mut reader = Reader::new();
        measure("read: check, index, encode as RWF", &mut || {
            each_message(&texts, ROUNDS, |text| read(&mut reader, &converter, text))
        });
    }
    report.print()
}

/// All messages of a case, with their stream ids.
fn written(converter: &Converter<'_, NoServices>, case: &Case) -> Result<Vec<Vec<u8>>, BenchError> {
    let text = |message: &Vec<u8>| {
        let mut text = Vec::new();
        converter.write(&Msg::parse(message)?, &mut text).map_err(|e| BenchError::new(e.to_string()))?;
        Ok(text)
    };
    case.messages.iter().map(text).collect()
}

fn write(converter: &Converter<'_, NoServices>, message: &[u8], key: KeyPart<'_>, out: &mut Vec<u8>) {
    out.clear();
    let written = Msg::parse(message).is_ok_and(|message| converter.write_body(&message, key, out).is_ok());
    black_box(written);
}

fn read(reader: &mut Reader, converter: &Converter<'_, NoServices>, text: &[u8]) {
    let mut bytes = 0;
    let read = reader.read_frame(converter, text, |incoming| {
        if let Incoming::Message { rwf, .. } = incoming {
            bytes = rwf.len();
        }
    });
    black_box((read.is_ok(), bytes));
}

#[cfg(test)]
mod tests {
    use super::super::{cases, dictionary};
    use super::*;

    #[test]
    fn what_is_measured_is_json_of_every_message_and_reads_back() {
        let dictionary = dictionary().expect("part of the project");
        let converter = Converter::new(&dictionary, &NoServices, Options::default());
        let cases = cases::all().expect("legal");
        for case in cases.iter().filter(|case| CASES.contains(&case.name)) {
            for text in written(&converter, case).expect("legal") {
                let mut messages = 0;
                let mut reader = Reader::new();
                let read = reader.read_frame(&converter, &text, |incoming| {
                    messages += u32::from(matches!(incoming, Incoming::Message { .. }));
                });
                assert!(read.is_ok() && messages == 1, "{}", String::from_utf8_lossy(&text));
            }
        }
        assert_eq!(cases.iter().filter(|case| CASES.contains(&case.name)).count(), CASES.len());
    }
}

//! What decoding and encoding costs, without anything around it: of an update, of every container beside
//! ETA's codec, and of JSON.

mod cases;
mod eta;
mod json;
mod work;

use std::hint::black_box;
use std::path::PathBuf;
use std::time::Instant;

use cases::Case;
use clap::Args;
use market::image::{FieldImage, FieldRules};
use measure::Runs;
use rwf::{DataType, Dictionary, FieldList, Msg, UpdateMsg, Value, Writer, set_stream_id};
use serde_json::json;
use units::Nanos;

use crate::dictionary::dictionary;
use crate::report::{self, Report};
use crate::template::Template;
use crate::{BenchError, RunOptions, update};

#[derive(Debug, Args)]
pub struct RwfArgs {
    #[command(flatten)]
    options: RunOptions,
    /// The jar of `interop/java`: ETA's codec for Java takes turns with ours on the same messages.
    #[arg(long, value_name = "JAR")]
    eta: Option<PathBuf>,
}

/// Updates that are looked at in turn, so that no branch is learnt by heart: 75 KB.
const UPDATES: usize = 1024;
const ROUNDS: usize = 500;

pub(crate) fn run(args: &RwfArgs) -> Result<(), BenchError> {
    let updates: Vec<Vec<u8>> = (0..UPDATES as u64).map(|n| update::message(5, n * 7919)).collect();
    let dictionary = dictionary()?;
    let mut report =
        Report::new("rwf", args.options.json, &["update of 74 bytes, 10 fields", "ns (lowest to highest)"]);
    let mut measure = |name: &str, work: &mut dyn FnMut(usize)| {
        let runs: Runs = (0..args.options.runs).map(|_| cost(work)).collect();
        let object = json!({ "name": name, "ns": report::spread_json(&runs) });
        report.row([name.to_owned(), report::spread(&runs, report::one_decimal)], object);
    };

    let mut buffer = [0; 128];
    measure("encode: header and all fields", &mut |i| {
        let mut writer = Writer::new(&mut buffer);
        let header = UpdateMsg::new(rwf::Domain::MARKET_PRICE, 5, DataType::FIELD_LIST);
        header.encode_header(&mut writer);
        update::write(&mut writer, i as u64 * 7919, Nanos(1 << 50), 0);
        black_box(writer.finish().is_ok());
    });
    measure("decode: header and all values, by dictionary", &mut |i| {
        black_box(decode(&updates[i], &dictionary));
    });
    measure("decode: class, stream and domain (what routing needs)", &mut |i| {
        black_box(rwf::peek(black_box(&updates[i])).is_ok());
    });
    measure("decode: header alone", &mut |i| {
        black_box(Msg::parse(black_box(&updates[i])).is_ok());
    });
    let (mut image, rules) = (FieldImage::default(), FieldRules::of(&dictionary));
    measure("merge into an image (what each cache does)", &mut |i| {
        let payload = update::payload(&updates[i]).unwrap_or_default();
        black_box(FieldList::parse(payload).and_then(|list| image.merge(&list, false, &rules)).is_ok());
    });
    for (image_fields, update_fields, ripples) in [(86, 23, false), (86, 23, true), (300, 23, true)] {
        let merges = Merges::new(Template { image_fields, update_fields }, ripples)?;
        let (mut image, more) = (merges.image(), if ripples { ", with ripples" } else { "" });
        let name = format!("merge {update_fields} fields into an image of {image_fields}{more}");
        measure(&name, &mut |i| merges.merge(&mut image, i));
    }
    measure("copy and set the stream id (what a server does for each client)", &mut |i| {
        let copy = &mut buffer[..updates[i].len()];
        copy.copy_from_slice(&updates[i]);
        black_box(set_stream_id(copy, i as i32).is_ok());
    });
    report.print()?;
    let cases = cases::all()?;
    containers(args, &cases, &dictionary)?;
    json::run(&args.options, &cases, &dictionary)
}

/// Updates of a template, and the image that they belong to.
struct Merges {
    rules: FieldRules,
    image: Vec<u8>,
    updates: Vec<Vec<u8>>,
}

impl Merges {
    fn new(template: Template, ripples: bool) -> Result<Merges, BenchError> {
        let message = |write: &dyn Fn(&mut Writer<'_>)| rwf::encode_to_vec(write);
        let update = |n| message(&|w| template.write_update(w, n));
        let all = (0..UPDATES as u64).map(update).collect::<Result<_, _>>();
        let image = message(&|w| template.write_image(w));
        let both = image.and_then(|image| Ok((image, all?)));
        let (image, updates) = both.map_err(|e| BenchError::new(format!("of the program itself: {e}")))?;
        Ok(Merges { rules: template.rules(ripples), image, updates })
    }

    fn image(&self) -> FieldImage {
        let mut image = FieldImage::default();
        black_box(FieldList::parse(&self.image).and_then(|list| image.replace(&list, &self.rules)).is_ok());
        image
    }

    fn merge(&self, image: &mut FieldImage, i: usize) {
        let list = FieldList::parse(black_box(&self.updates[i]));
        black_box(list.and_then(|list| image.merge(&list, true, &self.rules)).is_ok());
    }
}

/// Times that the messages of a case are worked on in one round.
const CASE_ROUNDS: u32 = 2000;

/// Decoding to the last value, and decoding and encoding again, of every container; in turns with ETA.
fn containers(args: &RwfArgs, cases: &[Case], dictionary: &Dictionary) -> Result<(), BenchError> {
    let heads = ["update with", "bytes", "decode, ns", "decode and encode, ns"];
    let eta_heads = ["ETA Java: decode, ns", "decode and encode, ns"];
    let all: Vec<_> = heads.into_iter().chain(eta_heads.into_iter().filter(|_| args.eta.is_some())).collect();
    let mut report = Report::new("codec", args.options.json, &all);
    let start = |jar: &PathBuf| eta::Eta::start(jar, cases, dictionary, CASE_ROUNDS);
    let mut eta = args.eta.as_ref().map(start).transpose()?;
    for case in cases {
        let (mut ours, mut theirs) = ([Runs::default(), Runs::default()], [Runs::default(), Runs::default()]);
        for _ in 0..args.options.runs {
            let [decode, copy] = case_cost(case, dictionary);
            ours[0].add(decode);
            ours[1].add(copy);
            if let Some(eta) = &mut eta {
                let cost = eta.round(case, dictionary, CASE_ROUNDS)?;
                theirs[0].add(cost.decode_ns);
                theirs[1].add(cost.copy_ns);
            }
        }
        let bytes = case.messages.first().map_or(0, Vec::len);
        let figures = ours.iter().chain(theirs.iter().filter(|_| eta.is_some()));
        let spreads = figures.map(|runs| report::spread(runs, report::one_decimal));
        let cells = [case.name.to_owned(), bytes.to_string()].into_iter().chain(spreads);
        let [decode, copy] = [&ours[0], &ours[1]].map(report::spread_json);
        let mut object = json!({ "name": case.name, "bytes": bytes, "decode_ns": decode, "copy_ns": copy });
        if eta.is_some() {
            let [decode, copy] = [&theirs[0], &theirs[1]].map(report::spread_json);
            object["eta"] = json!({ "decode_ns": decode, "copy_ns": copy });
        }
        report.row(cells, object);
    }
    report.print()
}

/// Nanoseconds that our codec takes for a message: decoding it, and decoding and encoding it again.
fn case_cost(case: &Case, dictionary: &Dictionary) -> [f64; 2] {
    let mut room = [0; 4096];
    let decode = each_message(case, CASE_ROUNDS, |message| {
        black_box(work::decode(message, dictionary).is_ok());
    });
    let copy = each_message(case, CASE_ROUNDS, |message| {
        black_box(work::copy(message, dictionary, &mut room).is_ok());
    });
    [decode, copy]
}

/// Nanoseconds that work on one message of a case takes.
fn each_message(case: &Case, rounds: u32, mut work: impl FnMut(&[u8])) -> f64 {
    let start = Instant::now();
    for _ in 0..rounds {
        case.messages.iter().for_each(|message| work(black_box(message)));
    }
    start.elapsed().as_nanos() as f64 / (f64::from(rounds) * case.messages.len() as f64)
}

/// Nanoseconds that one call takes.
fn cost(work: &mut dyn FnMut(usize)) -> f64 {
    let start = Instant::now();
    for _ in 0..ROUNDS {
        for i in 0..UPDATES {
            work(black_box(i));
        }
    }
    start.elapsed().as_nanos() as f64 / (ROUNDS * UPDATES) as f64
}

/// Reads every value; what comes back depends on all of them.
fn decode(bytes: &[u8], dictionary: &Dictionary) -> u64 {
    let Ok(Msg::Update(msg)) = Msg::parse(black_box(bytes)) else { return 0 };
    let Ok(list) = FieldList::parse(msg.payload) else { return 0 };
    let mut sum = 0u64;
    for entry in list.entries() {
        let Ok(value) = entry.and_then(|entry| entry.value(dictionary)) else { return 0 };
        sum = sum.wrapping_add(match value {
            Value::UInt(number) => number,
            Value::Real(rwf::Real::Finite { mantissa, hint }) => {
                mantissa.cast_unsigned() ^ u64::from(hint.number())
            }
            Value::Enum(number) => number.0.into(),
            _ => 1,
        });
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_of_the_update_is_read() {
        let dictionary = dictionary().expect("part of the project");
        let sums: Vec<u64> = (0..3).map(|n| decode(&update::message(5, n), &dictionary)).collect();
        assert!(sums[0] != 0 && sums[0] != sums[1] && sums[1] != sums[2], "{sums:?}");
    }
}

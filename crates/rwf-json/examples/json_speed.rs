//! Prints what conversion costs: nanoseconds per message, the median, the least and the most of several runs.
//!
//! `cargo run --release -p tickcast-rwf-json --example json_speed`

use std::hint::black_box;
use std::time::Instant;

use rwf::{
    Buffer, DataType, Dictionary, Domain, Enum, Key, MapAction, MapHead, Msg, Real, Time, UpdateMsg,
    UpdateType, Writer,
};
use tickcast_rwf_json::{Converter, Incoming, KeyPart, NoServices, Options, Reader, write_head};

const RUNS: usize = 25;
const RUN_OPERATIONS: u32 = 100_000;
const MAP_ENTRIES: u32 = 100;

fn main() {
    let dictionary = dictionary();
    let converter = Converter::new(&dictionary, &NoServices, Options::default());
    let numbers =
        Converter::new(&dictionary, &NoServices, Options { expand_enum_fields: false, ..Options::default() });
    let quote = rwf::encode_to_vec(quote_74).expect("legal");
    let book = rwf::encode_to_vec(book).expect("legal");
    assert_eq!(quote.len(), 74);
    let key = Key::item(257, b"TRI.N");
    let mut out = Vec::new();
    converter.write_body(&parsed(&quote), KeyPart::Given(&key), &mut out).expect("legal");
    println!("74 bytes of RWF are {} bytes of JSON: {}", out.len(), String::from_utf8_lossy(&out));
    println!("{:<58} {:>9} {:>9} {:>9}", "ns per message", "median", "least", "most");

    let mut write = |name: &str, converter: &Converter<'_, NoServices>, rwf: &[u8], key: KeyPart<'_>| {
        measure(name, || {
            out.clear();
            converter.write_body(&parsed(black_box(rwf)), key, &mut out).map(|()| out.len())
        });
    };
    write("update of 11 fields, parse and write, without key", &converter, &quote, KeyPart::Without);
    write("the same with service and name", &converter, &quote, KeyPart::Given(&key));
    write("the same, enumerations as numbers", &numbers, &quote, KeyPart::Given(&key));
    write("map of 100 entries with 3 fields", &converter, &book, KeyPart::Without);
    let mut head = Vec::new();
    measure("the part of each receiver: {\"ID\":n, and a copy", || {
        head.clear();
        write_head(black_box(12_345), &mut head);
        head.extend_from_slice(black_box(&quote));
        head.len()
    });
    read_back(&converter, &[&quote, &book]);
}

/// Times the way back.
fn read_back(converter: &Converter<'_, NoServices>, messages: &[&[u8]]) {
    let mut reader = Reader::new();
    for (name, rwf) in
        ["read an update of 11 fields", "read a map of 100 entries with 3 fields"].iter().zip(messages)
    {
        let mut text = Vec::new();
        converter.write(&parsed(rwf), &mut text).expect("legal");
        measure(name, || {
            let mut bytes = 0;
            let read = reader.read_frame(converter, black_box(&text), |incoming| {
                if let Incoming::Message { rwf, .. } = incoming {
                    bytes = rwf.len();
                }
            });
            (read.is_ok(), bytes)
        });
    }
}

fn parsed(rwf: &[u8]) -> Msg<'_> {
    Msg::parse(rwf).expect("encoded above")
}

/// Times an operation whose result the optimiser must believe is used.
fn measure<T>(name: &str, mut operation: impl FnMut() -> T) {
    let operations = RUN_OPERATIONS / if name.contains("map") { MAP_ENTRIES } else { 1 };
    let mut nanos: Vec<f64> = (0..RUNS)
        .map(|_| {
            let start = Instant::now();
            for _ in 0..operations {
                black_box(operation());
            }
            start.elapsed().as_nanos() as f64 / f64::from(operations)
        })
        .collect();
    nanos.sort_by(f64::total_cmp);
    println!("{name:<58} {:>9.1} {:>9.1} {:>9.1}", nanos[RUNS / 2], nanos[0], nanos[RUNS - 1]);
}

fn update(w: &mut Writer<'_>, container_type: DataType) {
    let update = UpdateMsg::new(Domain::MARKET_PRICE, 5, container_type);
    UpdateMsg { update_type: UpdateType::QUOTE, ..update }.encode_header(w);
}

/// The 11 fields in 74 bytes of `crates/rwf/examples/codec_speed.rs`.
fn quote_74(w: &mut Writer<'_>) {
    let (price, size) = (|price| Real::decimal(price, 2), |size| Real::decimal(size, 0));
    update(w, DataType::FIELD_LIST);
    w.field_list(|f| {
        for (id, value) in
            [(22, price(3990)), (25, price(3994)), (30, size(9)), (31, size(36)), (6, price(3992))]
        {
            f.put(id, value);
        }
        f.put(178, size(1000));
        f.put(32, size(1_234_567));
        f.put(4, Enum(43));
        f.put(14, Enum(1));
        f.put(379, Time::new(15, 52, 12));
        f.put(77, size(101));
    });
}

/// A book of 100 orders: price, side and size of each.
fn book(w: &mut Writer<'_>) {
    update(w, DataType::MAP);
    w.map(&MapHead::new(DataType::BUFFER, DataType::FIELD_LIST), |m| {
        for order in 0..MAP_ENTRIES {
            let id = u64::from(order).to_be_bytes();
            m.entry(MapAction::Add, Buffer(&id), None, |w| {
                w.field_list(|f| {
                    f.put(3427, Real::decimal(3990 + i64::from(order), 2));
                    f.put(3428, Enum(1 + (order % 2) as u16));
                    f.put(3429, Real::decimal(100 * i64::from(order), 0));
                });
            });
        }
    });
}

/// The fields of these messages, in the form of the vendor's dictionary files.
const FIELDS: &str = "\
TRDPRC_1   \"LAST\"        6 NULL PRICE      17   REAL64 7
BID        \"BID\"        22 NULL PRICE      17   REAL64 7
ASK        \"ASK\"        25 NULL PRICE      17   REAL64 7
BIDSIZE    \"BIDSIZE\"    30 NULL INTEGER    15   REAL64 7
ASKSIZE    \"ASKSIZE\"    31 NULL INTEGER    15   REAL64 7
ACVOL_1    \"VOL ACCUM\"  32 NULL INTEGER    15   REAL64 7
NUM_MOVES  \"NUM MOVES\"  77 NULL INTEGER    15   REAL64 7
TRDVOL_1   \"TRD VOL\"   178 NULL INTEGER    15   REAL64 7
RDN_EXCHID \"EXCHANGE\"    4 NULL ENUMERATED 3 ( 3 ) ENUM 1
PRCTCK_1   \"TICK\"       14 NULL ENUMERATED 1 ( 1 ) ENUM 1
SALTIM     \"TIME\"      379 NULL TIME       5    TIME 5
ORDER_PRC  \"PRICE\"    3427 NULL PRICE      17   REAL64 7
ORDER_SIDE \"SIDE\"     3428 NULL ENUMERATED 3 ( 3 ) ENUM 1
ORDER_SIZE \"SIZE\"     3429 NULL INTEGER    15   REAL64 7
";

const ENUMS: &str = "\
RDN_EXCHID 4
2 \"NYS\" x
43 \"NAS\" x
PRCTCK_1 14
1 #DE# x
2 #FE# x
ORDER_SIDE 3428
1 \"BID\" x
2 \"ASK\" x
";

fn dictionary() -> Dictionary {
    let mut dictionary = Dictionary::new();
    dictionary.load_fields(FIELDS.as_bytes()).expect("as above");
    dictionary.load_enums(ENUMS.as_bytes()).expect("as above");
    dictionary
}

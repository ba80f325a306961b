//! Prints what the codec costs: nanoseconds per operation, the median, the least and the most of several
//! runs.
//!
//! `cargo run --release -p tickcast-rwf --example codec_speed`

use std::hint::black_box;
use std::time::Instant;

use tickcast_rwf::dictionary::{Dictionary, Field, FieldType};
use tickcast_rwf::{
    Buffer, DataType, DecodeError, Domain, Enum, FieldList, FieldListWriter, Map, MapAction, MapHead, Msg,
    Real, RmtesString, Time, UpdateMsg, UpdateType, Value, Writer, peek, set_stream_id, walk,
};

const RUNS: usize = 25;
const RUN_OPERATIONS: u32 = 200_000;
const MAP_ENTRIES: u32 = 100;

fn main() {
    let dictionary = dictionary();
    let quote = encoded(quote_74);
    let full = encoded(quote_146);
    let book = encoded(book);
    assert_eq!((quote.len(), fields(&quote)), (74, 11));
    assert_eq!((full.len(), fields(&full)), (146, 23));
    assert!(decode_book(&book, &dictionary).is_ok_and(|fields| fields == 3 * MAP_ENTRIES));
    println!("{:<58} {:>9} {:>9} {:>9}", "ns per operation", "median", "least", "most");

    measure("peek, 74 bytes", || peek(black_box(&quote)).is_ok());
    let mut patched = quote.clone();
    measure("set stream id", || set_stream_id(black_box(&mut patched), 77).is_ok());
    measure("parse as update, 74 bytes", || UpdateMsg::parse(black_box(&quote)).is_ok());
    measure("parse as any message, 74 bytes", || Msg::parse(black_box(&quote)).is_ok());
    measure("iterate 11 fields", || iterate(black_box(&quote)));
    measure("iterate 11 fields, look up, decode", || decode(black_box(&quote), &dictionary));
    measure("parse, iterate 23 fields, look up, decode, 146 bytes", || decode(black_box(&full), &dictionary));
    measure("walk 23 fields, 146 bytes", || {
        let mut events = 0;
        walk(black_box(&full), Some(&dictionary), |_, _| events += 1).map(|()| events)
    });
    measure("iterate map of 100 entries with 3 fields, decode", || {
        decode_book(black_box(&book), &dictionary)
    });

    let mut buffer = vec![0; 16 * 1024];
    measure("encode 11 fields, 74 bytes", || encode(&mut buffer, quote_74));
    measure("encode 23 fields, 146 bytes", || encode(&mut buffer, quote_146));
    measure(&format!("encode map of 100 entries with 3 fields, {} bytes", book.len()), || {
        encode(&mut buffer, self::book)
    });
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

fn encode(buffer: &mut [u8], write: impl Fn(&mut Writer<'_>)) -> usize {
    let mut writer = Writer::new(black_box(buffer));
    write(&mut writer);
    writer.finish().expect("room for everything").len()
}

fn encoded(write: impl FnMut(&mut Writer<'_>)) -> Vec<u8> {
    tickcast_rwf::encode_to_vec(write).expect("legal")
}

fn fields(message: &[u8]) -> usize {
    let update = UpdateMsg::parse(message).expect("encoded above");
    FieldList::parse(update.payload).expect("encoded above").entries().filter(Result::is_ok).count()
}

fn iterate(message: &[u8]) -> Result<u32, DecodeError> {
    let update = UpdateMsg::parse(message)?;
    let mut sum = 0;
    for field in FieldList::parse(update.payload)?.entries() {
        let field = field?;
        sum += u32::from(field.id as u16) + field.content.len() as u32;
    }
    Ok(sum)
}

fn decode(message: &[u8], dictionary: &Dictionary) -> Result<u32, DecodeError> {
    let update = UpdateMsg::parse(message)?;
    decode_fields(update.payload, dictionary)
}

/// Decodes each field to its type and uses all of it; returns how many there are.
fn decode_fields(list: &[u8], dictionary: &Dictionary) -> Result<u32, DecodeError> {
    let (mut count, mut sum) = (0, 0);
    for field in FieldList::parse(list)?.entries() {
        let used = match field?.value(dictionary)? {
            Value::Real(Real::Finite { mantissa, hint }) => mantissa as u64 ^ u64::from(hint.number()),
            Value::UInt(number) => number,
            Value::Enum(value) => u64::from(value.0),
            Value::Time(time) => u64::from(time.hour) + u64::from(time.second) + u64::from(time.nanosecond),
            Value::Rmtes(text) => text.0.len() as u64,
            Value::Buffer(bytes) => bytes.0.len() as u64,
            _ => 0,
        };
        sum ^= used;
        count += 1;
    }
    black_box(sum);
    Ok(count)
}

fn decode_book(message: &[u8], dictionary: &Dictionary) -> Result<u32, DecodeError> {
    let update = UpdateMsg::parse(message)?;
    let map = Map::parse(update.payload)?;
    let mut fields = 0;
    for entry in map.entries() {
        let entry = entry?;
        black_box(Value::decode(map.key_type, entry.key)?);
        fields += decode_fields(entry.data.unwrap_or(&[]), dictionary)?;
    }
    Ok(fields)
}

fn update(w: &mut Writer<'_>, container_type: DataType) {
    let update = UpdateMsg::new(Domain::MARKET_PRICE, 5, container_type);
    UpdateMsg { update_type: UpdateType::QUOTE, ..update }.encode_header(w);
}

/// 11 fields in 74 bytes: the size of update that published end-to-end measurements use.
fn quote_74(w: &mut Writer<'_>) {
    // Unknown to the optimiser, so that no value is; taken once, so that this costs next to nothing.
    let tick = black_box(0u8);
    let (price, flag) = (|price: i64| Real::decimal(price + i64::from(tick), 2), u16::from(tick));
    let size = |size: i64| Real::decimal(size + i64::from(tick), 0);
    update(w, DataType::FIELD_LIST);
    w.field_list(|f| {
        f.put(22, price(3990));
        f.put(25, price(3994));
        f.put(30, size(9));
        f.put(31, size(36));
        f.put(6, price(3992));
        f.put(178, size(1000));
        f.put(32, size(1_234_567));
        f.put(4, Enum(43 + flag));
        f.put(14, Enum(1 + flag));
        f.put(379, Time::new(15 + tick, 52, 12));
        f.put(77, size(101));
    });
}

/// The 23 fields that the vendor's performance tools update, in 146 bytes, the mean of their two kinds of
/// update.
fn quote_146(w: &mut Writer<'_>) {
    let tick = black_box(0u8);
    let (price, flag) = (|price: i64| Real::decimal(price + i64::from(tick), 6), u16::from(tick));
    let size = |size: i64| Real::decimal(size + i64::from(tick), 0);
    let blank = RmtesString(b" ");
    update(w, DataType::FIELD_LIST);
    w.field_list(|f: &mut FieldListWriter<'_, '_, '_>| {
        f.put(22, price(2_848_560_000));
        f.put(25, price(2_849_610_000));
        f.put(30, size(1));
        f.put(31, size(1));
        f.put(6579, RmtesString(b"R"));
        f.put(6580, RmtesString(b"R"));
        f.put(114, price(13_340_000));
        f.put(1000, blank);
        f.put(8937, Enum(flag));
        f.put(211, size(31_701));
        f.put(118, Enum(flag));
        f.put(3264, Enum(flag));
        f.put(3887, size(39_100_330));
        f.put(8935, Enum(1 + flag));
        f.put(1501, blank);
        f.put(12783, Enum(4 + flag));
        f.put(3855, 57_132_000 + u64::from(tick));
        f.put(1025, Time::new(15 + tick, 52, 12));
        f.put(5, Time::new(15 + tick, 52, 0));
        f.put(8406, blank);
        f.put(1041, blank);
        f.put(203, price(2_848_560_000));
        f.put(14238, Time { nanosecond: 1 + flag, ..Time::new(15, 52, 12) });
    });
}

/// A book of 100 orders: price, side and size of each.
fn book(w: &mut Writer<'_>) {
    update(w, DataType::MAP);
    w.map(&MapHead::new(DataType::BUFFER, DataType::FIELD_LIST), |m| {
        for order in 0..MAP_ENTRIES {
            let id = u64::from(black_box(order)).to_be_bytes();
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

fn dictionary() -> Dictionary {
    let mut dictionary = Dictionary::new();
    let types = [
        (DataType::REAL, &[6, 22, 25, 30, 31, 32, 77, 114, 178, 203, 211, 3427, 3429, 3887][..]),
        (DataType::ENUM, &[4, 14, 118, 3264, 3428, 8935, 8937, 12783]),
        (DataType::RMTES_STRING, &[1000, 1041, 1501, 6579, 6580, 8406]),
        (DataType::TIME, &[5, 379, 1025, 14238]),
        (DataType::UINT, &[3855]),
    ];
    for (data_type, ids) in types {
        for id in ids {
            let field = Field {
                id: *id,
                name: format!("FIELD_{id}").into(),
                dde_acronym: Box::default(),
                ripples_to: None,
                field_type: FieldType::NONE,
                length: 0,
                enum_length: 0,
                data_type,
                rwf_length: 0,
            };
            dictionary.add_field(field).expect("each id once");
        }
    }
    dictionary
}

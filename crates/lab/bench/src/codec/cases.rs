//! Messages of every container, each in variations so that no branch is learnt by heart.

use rwf::{
    AsciiString, Buffer, DataType, Domain, ElementListWriter, EncodeError, Enum, FieldListWriter,
    FilterAction, MapAction, MapHead, Real, SeriesHead, UpdateMsg, VectorAction, VectorHead, Writer,
    encode_to_vec,
};

use crate::update;

/// A kind of message.
pub(super) struct Case {
    pub(super) name: &'static str,
    pub(super) messages: Vec<Vec<u8>>,
}

/// Messages of a kind.
const VARIATIONS: u64 = 64;
/// Entries of a map, a series, a vector.
const ENTRIES: u64 = 10;

/// The update of 74 bytes, then each container.
pub(super) fn all() -> Result<Vec<Case>, EncodeError> {
    let updates = (0..VARIATIONS).map(|n| update::message(5, n * 7919)).collect();
    let update = Case { name: "update-74-bytes", messages: updates };
    let containers = [
        ("element-list", DataType::ELEMENT_LIST, element_list as fn(&mut Writer<'_>, u64)),
        ("filter-list", DataType::FILTER_LIST, filter_list),
        ("map", DataType::MAP, map),
        ("series", DataType::SERIES, series),
        ("vector", DataType::VECTOR, vector),
    ];
    let containers = containers.into_iter().map(|(name, container_type, write)| {
        let message = |n| {
            encode_to_vec(|w| {
                UpdateMsg::new(Domain::MARKET_PRICE, 5, container_type).encode_header(w);
                write(w, n * 7919);
            })
        };
        Ok(Case { name, messages: (0..VARIATIONS).map(message).collect::<Result<_, _>>()? })
    });
    [Ok(update)].into_iter().chain(containers).collect()
}

fn element_list(w: &mut Writer<'_>, n: u64) {
    w.element_list(|e| elements(e, n));
}

/// Six elements, as in a login.
fn elements(e: &mut ElementListWriter<'_, '_, '_>, n: u64) {
    e.put("ApplicationId", AsciiString(b"256"));
    e.put("ApplicationName", AsciiString(b"application"));
    e.put("Position", AsciiString(&b"127.0.0.1/net"[..9 + n as usize % 5]));
    e.put("SingleOpen", n % 2);
    e.put("AllowSuspectData", 1u64);
    e.put("ProvidePermissionProfile", n % 1000);
}

/// Three entries, as of a service.
fn filter_list(w: &mut Writer<'_>, n: u64) {
    w.filter_list(DataType::ELEMENT_LIST, None, |f| {
        for id in 1..=3 {
            f.entry(FilterAction::Set, id, |w| element_list(w, n + u64::from(id)));
        }
    });
}

/// Orders or price levels by key.
fn map(w: &mut Writer<'_>, n: u64) {
    w.map(&MapHead::new(DataType::BUFFER, DataType::FIELD_LIST), |m| {
        for entry in 0..ENTRIES {
            let key = (n + entry).to_be_bytes();
            m.entry(MapAction::Add, Buffer(&key), None, |w| w.field_list(|f| order(f, n + entry)));
        }
    });
}

/// Rows of elements.
fn series(w: &mut Writer<'_>, n: u64) {
    w.series(&SeriesHead::new(DataType::ELEMENT_LIST), |s| {
        (0..ENTRIES).for_each(|entry| {
            s.entry(|w| {
                w.element_list(|e| {
                    e.put("NAME", AsciiString(b"TRDPRC_1"));
                    e.put("FID", n + entry);
                    e.put("TYPE", 4u64);
                });
            });
        });
    });
}

/// Rows of fields.
fn vector(w: &mut Writer<'_>, n: u64) {
    w.vector(&VectorHead::new(DataType::FIELD_LIST), |v| {
        for index in 0..ENTRIES as u32 {
            v.entry(VectorAction::Set, index, None, |w| {
                w.field_list(|f| order(f, n + u64::from(index)));
            });
        }
    });
}

/// Four fields of an order.
fn order(f: &mut FieldListWriter<'_, '_, '_>, n: u64) {
    f.put(3427, Real::decimal(20_000 + (n % 10_000) as i64, 2));
    f.put(3429, Real::decimal(100 * (1 + n % 50) as i64, 0));
    f.put(3428, Enum(1 + (n % 2) as u16));
    f.put(3430, n % 20);
}

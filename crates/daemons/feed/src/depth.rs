//! The book of an instrument as a MarketByPrice item: a map from price and side to the level.

use std::fmt::Write as _;

use rwf::{Buffer, DataType, Enum, MapAction, MapHead, MapWriter, Writer};

use crate::binance::{DepthChange, Level, Side};
use crate::fid;
use crate::price::real;
use crate::{Decimal, when};

/// Writes a whole book.
pub(crate) fn write_image(w: &mut Writer<'_>, levels: impl Iterator<Item = Level>) {
    w.map(&HEAD, |m| {
        let mut key = String::new();
        for level in levels {
            put(m, MapAction::Add, level, &mut key);
        }
    });
}

/// Writes what has become of some levels.
pub(crate) fn write_changes(w: &mut Writer<'_>, changes: &[DepthChange]) {
    w.map(&HEAD, |m| {
        let mut key = String::new();
        for change in changes {
            match *change {
                DepthChange::Add(level) => put(m, MapAction::Add, level, &mut key),
                DepthChange::Update(level) => put(m, MapAction::Update, level, &mut key),
                DepthChange::Delete(side, price) => m.delete(key_of(side, price, &mut key)),
            }
        }
    });
}

const HEAD: MapHead<'static> = MapHead::new(DataType::BUFFER, DataType::FIELD_LIST);

/// Enumeration of ORDER_SIDE, and the letter behind the price in a key.
fn side_codes(side: Side) -> (u16, char) {
    match side {
        Side::Bid => (1, 'B'),
        Side::Ask => (2, 'A'),
    }
}

fn key_of(side: Side, price: Decimal, text: &mut String) -> Buffer<'_> {
    text.clear();
    write!(text, "{price}{}", side_codes(side).1).expect("a string takes all text");
    Buffer(text.as_bytes())
}

fn put(m: &mut MapWriter<'_, '_>, action: MapAction, level: Level, key: &mut String) {
    m.entry(action, key_of(level.side, level.price, key), None, |w| {
        w.field_list(|f| {
            f.put(fid::ORDER_PRC, real(level.price));
            f.put(fid::ORDER_SIDE, Enum(side_codes(level.side).0));
            f.put(fid::ORDER_SIZE, real(level.size));
            f.put(fid::LV_TIM_MS, when::millisecond_of_day(level.time_ms.saturating_mul(1_000_000)));
        });
    });
}

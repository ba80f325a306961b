//! Best quote and last trade of an instrument as a MarketPrice item.

use rwf::{Blank, DataType, Date, Enum, FieldListWriter, Primitive, Real, RmtesString, Writer};

use crate::binance::{Quote, Trade};
use crate::fid;
use crate::{Decimal, when};

/// What the fields of one MarketPrice item are made from beside the event at hand.
#[derive(Debug)]
pub(crate) struct Price {
    item_name: String,
    symbol: String,
    /// The sum of all trades' sizes; `None` once 63 bits do not hold it any more.
    volume: Option<Decimal>,
    trade_count: u64,
    last_price: Option<Decimal>,
    tick: Tick,
    /// The dates last sent; they are sent again when they change.
    quote_day: Option<u64>,
    trade_day: Option<u64>,
}

/// Whether the last trade with another price than the one before was above or below it: enumeration of
/// PRCTCK_1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tick {
    None = 0,
    Up = 1,
    Down = 2,
}

impl Price {
    pub(crate) fn new(item_name: String, symbol: String) -> Price {
        let volume = Some(Decimal::default());
        let (last_price, tick) = (None, Tick::None);
        Price {
            item_name,
            symbol,
            volume,
            trade_count: 0,
            last_price,
            tick,
            quote_day: None,
            trade_day: None,
        }
    }

    /// The image before anything has happened.
    pub(crate) fn write_blank(&self, w: &mut Writer<'_>) {
        w.field_list(|f| {
            f.put(fid::DSPLY_NAME, RmtesString(self.item_name.as_bytes()));
            f.put(fid::PROV_SYMB, RmtesString(self.symbol.as_bytes()));
            for (id, data_type) in BLANK {
                f.put(id, Blank(data_type));
            }
            f.put(fid::ACVOL_1, Real::decimal(0, 0));
            f.put(fid::NUM_MOVES, Real::decimal(0, 0));
            f.put(fid::PRCTCK_1, Enum(Tick::None as u16));
        });
    }

    /// Takes a quote; the function returned writes what it changes.
    pub(crate) fn on_quote(&mut self, quote: Quote) -> impl Fn(&mut Writer<'_>) + use<> {
        let day = changed(&mut self.quote_day, when::day(quote.time_ns));
        move |w| {
            w.field_list(|f| {
                put(f, fid::BID, quote.bid);
                put(f, fid::BIDSIZE, quote.bid_size);
                put(f, fid::ASK, quote.ask);
                put(f, fid::ASKSIZE, quote.ask_size);
                if let Some(date) = day {
                    f.put(fid::QUOTE_DATE, date);
                }
                f.put(fid::QUOTIM, when::second(quote.time_ns));
                f.put(fid::QUOTIM_MS, when::millisecond_of_day(quote.time_ns));
                f.put(fid::QUOTIM_NS, when::time(quote.time_ns));
            });
        }
    }

    /// Takes a trade; the function returned writes what it changes.
    pub(crate) fn on_trade(&mut self, trade: Trade) -> impl Fn(&mut Writer<'_>) + use<> {
        let time_ns = trade.time_ms.saturating_mul(1_000_000);
        let day = changed(&mut self.trade_day, when::day(time_ns));
        self.volume = self.volume.and_then(|volume| volume.checked_add(trade.size));
        self.trade_count += 1;
        if let Some(before) = self.last_price.replace(trade.price) {
            self.tick = match trade.price.cmp(&before) {
                std::cmp::Ordering::Greater => Tick::Up,
                std::cmp::Ordering::Less => Tick::Down,
                std::cmp::Ordering::Equal => self.tick,
            };
        }
        let (volume, count, tick) = (self.volume, self.trade_count, self.tick);
        move |w| {
            w.field_list(|f| {
                put(f, fid::TRDPRC_1, trade.price);
                put(f, fid::TRDVOL_1, trade.size);
                match volume {
                    Some(volume) => f.put(fid::ACVOL_1, Real::decimal(volume.mantissa, volume.decimals)),
                    None => f.put(fid::ACVOL_1, Blank(DataType::REAL)),
                }
                f.put(fid::NUM_MOVES, Real::decimal(count.cast_signed(), 0));
                f.put(fid::PRCTCK_1, Enum(tick as u16));
                f.put(fid::TRADE_ID, RmtesString(trade.id.to_string().as_bytes()));
                if let Some(date) = day {
                    f.put(fid::TRADE_DATE, date);
                }
                f.put(fid::SALTIM, when::second(time_ns));
                f.put(fid::SALTIM_MS, when::millisecond_of_day(time_ns));
                f.put(fid::SALTIM_NS, when::time(time_ns));
            });
        }
    }
}

/// Fields that have no value before the first quote or trade.
const BLANK: [(i16, DataType); 15] = [
    (fid::BID, DataType::REAL),
    (fid::BIDSIZE, DataType::REAL),
    (fid::ASK, DataType::REAL),
    (fid::ASKSIZE, DataType::REAL),
    (fid::QUOTE_DATE, DataType::DATE),
    (fid::QUOTIM, DataType::TIME),
    (fid::QUOTIM_MS, DataType::UINT),
    (fid::QUOTIM_NS, DataType::TIME),
    (fid::TRDPRC_1, DataType::REAL),
    (fid::TRDVOL_1, DataType::REAL),
    (fid::TRADE_ID, DataType::RMTES_STRING),
    (fid::TRADE_DATE, DataType::DATE),
    (fid::SALTIM, DataType::TIME),
    (fid::SALTIM_MS, DataType::UINT),
    (fid::SALTIM_NS, DataType::TIME),
];

/// A price or size with the venue's decimals; zero is how the venue says that there is none.
fn put(f: &mut FieldListWriter<'_, '_, '_>, id: i16, value: Decimal) {
    if value.is_zero() {
        f.put(id, Blank(DataType::REAL));
    } else {
        f.put(id, real(value));
    }
}

/// The number with its decimals.
pub(crate) fn real(value: Decimal) -> impl Primitive {
    Real::decimal(value.mantissa, value.decimals)
}

/// The date of a day, if it is another than before.
fn changed(last: &mut Option<u64>, day: u64) -> Option<Date> {
    (last.replace(day) != Some(day)).then(|| when::date(day)).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;
    use rwf::{Dictionary, FieldList, Value};

    fn dictionary() -> Dictionary {
        let data = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../data/dictionary/tickcast-fields.dic");
        let mut dictionary = Dictionary::new();
        dictionary.load_fields(&std::fs::read(data).expect("part of the project")).expect("a dictionary");
        dictionary
    }

    fn fields(write: impl Fn(&mut Writer<'_>)) -> Vec<(i16, String)> {
        let (dictionary, bytes) = (dictionary(), rwf::encode_to_vec(|w| write(w)).expect("legal"));
        let list = FieldList::parse(&bytes).expect("a field list");
        let show = |value: Value<'_>| match value {
            _ if value.is_blank() => String::new(),
            Value::Real(real) => real.to_string(),
            Value::Rmtes(text) => text.text().expect("legal").into_owned(),
            Value::UInt(number) => number.to_string(),
            Value::Enum(number) => number.0.to_string(),
            other => format!("{other:?}"),
        };
        list.entries()
            .map(|e| e.expect("legal"))
            .map(|e| (e.id, show(e.value(&dictionary).expect("of the dictionary's type"))))
            .collect()
    }

    fn of(text: &str) -> Decimal {
        text.parse().expect(text)
    }

    fn trade(price: &str, size: &str) -> Trade {
        Trade { id: 7, price: of(price), size: of(size), time_ms: 1_723_161_255_001 }
    }

    fn value(fields: &[(i16, String)], id: i16) -> &str {
        &fields.iter().find(|(i, _)| *i == id).expect("the field is there").1
    }

    #[test]
    fn every_field_of_quotes_and_trades_is_in_the_first_image_and_the_dictionary() {
        let mut price = Price::new("BTCUSD.PERP".to_owned(), "BTCUSD_PERP".to_owned());
        let image = fields(|w| price.write_blank(w));
        assert_eq!(value(&image, fid::PROV_SYMB), "BTCUSD_PERP");
        assert_eq!((value(&image, fid::BID), value(&image, fid::NUM_MOVES)), ("", "0"));
        let (bid, ask) = (of("1.50"), of("0.00"));
        let quote =
            Quote { bid, bid_size: of("2"), ask, ask_size: of("0"), time_ns: 1_723_161_255_001_000_007 };
        let quoted = fields(price.on_quote(quote));
        assert_eq!((value(&quoted, fid::BID), value(&quoted, fid::ASK)), ("1.50", ""), "zero is blank");
        assert_eq!(value(&quoted, fid::QUOTIM_MS), "86055001");
        let traded = fields(price.on_trade(trade("1.5", "2.5")));
        for (id, _) in quoted.iter().chain(&traded) {
            value(&image, *id);
        }
    }

    #[test]
    fn volume_is_exact_and_the_tick_follows_the_last_other_price() {
        let mut price = Price::new("X".to_owned(), "X".to_owned());
        let mut seen = Vec::new();
        for (at, size) in [("10", "0.1"), ("10.0", "0.2"), ("11", "1"), ("11", "1"), ("9", "0.00000001")] {
            let f = fields(price.on_trade(trade(at, size)));
            let [tick, volume, moves] =
                [fid::PRCTCK_1, fid::ACVOL_1, fid::NUM_MOVES].map(|id| value(&f, id).to_owned());
            seen.push([tick, volume, moves].join(" "));
        }
        assert_eq!(seen, ["0 0.1 1", "0 0.3 2", "1 1.3 3", "1 2.3 4", "2 2.30000001 5"]);
        let f = fields(price.on_trade(trade("9", "92233720368.00000000")));
        assert_eq!(value(&f, fid::ACVOL_1), "", "not a wrong number");
    }

    #[test]
    fn dates_are_sent_when_they_change() {
        let mut price = Price::new("X".to_owned(), "X".to_owned());
        let has_date = |f: &[(i16, String)]| f.iter().any(|(id, _)| *id == fid::TRADE_DATE);
        assert!(has_date(&fields(price.on_trade(trade("1", "1")))));
        assert!(!has_date(&fields(price.on_trade(trade("1", "1")))));
        let tomorrow = Trade { time_ms: 1_723_161_255_001 + 86_400_000, ..trade("1", "1") };
        assert!(has_date(&fields(price.on_trade(tomorrow))));
    }
}

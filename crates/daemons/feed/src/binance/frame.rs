use std::fmt;

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::{Decimal, DecimalError};

/// One line of a recording: `<receive time, ns since 1970> <JSON>`.
#[derive(Clone, Debug, PartialEq)]
pub struct Frame {
    /// When the recorder received it, nanoseconds since 1970-01-01 UTC by the recorder's clock.
    pub received_ns: u64,
    /// The instrument; most depth snapshots do not say.
    pub symbol: Option<Symbol>,
    /// What happened.
    pub event: Event,
}

/// An instrument of the venue.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Symbol {
    /// As the venue writes it; the spot pair and a perpetual may share it.
    pub text: String,
    /// Whether it is one of the futures markets.
    pub is_future: bool,
}

impl Symbol {
    fn new(text: &str, is_future: bool) -> Option<Symbol> {
        Some(Symbol { text: text.to_owned(), is_future })
    }

    /// The name it is published under: spot as the venue has it, futures with the contract behind a point
    /// (`BTCUSDT.PERP`, `BTCUSD.PERP` from `BTCUSD_PERP`).
    #[must_use]
    pub fn item_name(&self) -> String {
        match (self.is_future, self.text.split_once('_')) {
            (false, _) => self.text.clone(),
            (true, Some((pair, contract))) => format!("{pair}.{contract}"),
            (true, None) => format!("{}.PERP", self.text),
        }
    }
}

/// What a frame says.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs)]
pub enum Event {
    Quote(Quote),
    Trade(Trade),
    Depth(Depth),
    Snapshot(Snapshot),
}

/// Best bid and ask (`bookTicker`).
#[derive(Clone, Copy, Debug, PartialEq)]
#[allow(missing_docs)]
pub struct Quote {
    pub bid: Decimal,
    pub bid_size: Decimal,
    pub ask: Decimal,
    pub ask_size: Decimal,
    /// When, nanoseconds since 1970: the venue's event time, or for spot, which has none, the recorder's.
    pub time_ns: u64,
}

/// One trade.
#[derive(Clone, Copy, Debug, PartialEq)]
#[allow(missing_docs)]
pub struct Trade {
    pub id: u64,
    pub price: Decimal,
    pub size: Decimal,
    /// The venue's trade time, milliseconds since 1970.
    pub time_ms: u64,
}

/// Which side of a book.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[allow(missing_docs)]
pub enum Side {
    Bid,
    Ask,
}

/// Absolute sizes of some price levels; size 0 removes a level.
#[derive(Clone, Debug, PartialEq)]
pub struct Depth {
    /// First and last update number in it (`U`, `u`).
    pub first: u64,
    /// See `first`.
    pub last: u64,
    /// Futures: the last number of the diff before (`pu`).
    pub previous: Option<u64>,
    /// The venue's event time, milliseconds since 1970.
    pub time_ms: u64,
    /// Side, price and new size.
    pub levels: Vec<(Side, Decimal, Decimal)>,
}

/// A whole book as the venue's REST interface gave it.
#[derive(Clone, Debug, PartialEq)]
pub struct Snapshot {
    /// The last update number in it.
    pub last: u64,
    /// When, milliseconds since 1970: the venue's event time, or for spot, which has none, the recorder's.
    pub time_ms: u64,
    /// Side, price and size.
    pub levels: Vec<(Side, Decimal, Decimal)>,
}

/// Why a line is not a frame.
#[derive(Debug)]
pub enum FrameError {
    /// No receive time in front.
    NoTime,
    /// Not the JSON of a known frame.
    Json(serde_json::Error),
    /// A stream of a kind that is not known here.
    Stream(String),
    /// A number that is not one.
    Number {
        /// The text.
        text: String,
        /// What is wrong with it.
        error: DecimalError,
    },
}

impl fmt::Display for FrameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FrameError::NoTime => {
                f.write_str("the line does not begin with a receive time in nanoseconds and a space")
            }
            FrameError::Json(e) => write!(f, "not a frame of this venue: {e}"),
            FrameError::Stream(name) => {
                write!(f, "stream {name:?} is neither bookTicker, trade nor depth")
            }
            FrameError::Number { text, error } => write!(f, "{text:?}: {error}"),
        }
    }
}

impl std::error::Error for FrameError {}

impl From<serde_json::Error> for FrameError {
    fn from(e: serde_json::Error) -> Self {
        FrameError::Json(e)
    }
}

impl Frame {
    /// Reads one line.
    ///
    /// # Errors
    /// [`FrameError`]: the line is something else.
    pub fn parse(line: &str) -> Result<Frame, FrameError> {
        let (time, json) = line.split_once(' ').ok_or(FrameError::NoTime)?;
        let received_ns = time.parse().map_err(|_| FrameError::NoTime)?;
        let (symbol, event) = match serde_json::from_str(json)? {
            Outer { stream: Some(stream), data: Some(data) } => streamed(received_ns, stream, data.get())?,
            Outer { .. } => serde_json::from_str::<RestSnapshot<'_>>(json)?.event(received_ns)?,
        };
        Ok(Frame { received_ns, symbol, event })
    }
}

fn streamed(received_ns: u64, stream: &str, data: &str) -> Result<(Option<Symbol>, Event), FrameError> {
    let kind = stream.split('@').nth(1).unwrap_or_default();
    match kind {
        "bookTicker" => serde_json::from_str::<BookTicker<'_>>(data)?.event(received_ns),
        "trade" => serde_json::from_str::<TradeFrame<'_>>(data)?.event(),
        "depth" => serde_json::from_str::<DepthUpdate<'_>>(data)?.event(),
        _ => Err(FrameError::Stream(stream.to_owned())),
    }
}

fn number(text: &str) -> Result<Decimal, FrameError> {
    text.parse().map_err(|error| FrameError::Number { text: text.to_owned(), error })
}

type Levels<'a> = Vec<(&'a str, &'a str)>;

fn levels(bids: &Levels<'_>, asks: &Levels<'_>) -> Result<Vec<(Side, Decimal, Decimal)>, FrameError> {
    let side = |side, all: &Levels<'_>| -> Result<Vec<_>, FrameError> {
        all.iter().map(|(price, size)| Ok((side, number(price)?, number(size)?))).collect()
    };
    let mut both = side(Side::Bid, bids)?;
    both.extend(side(Side::Ask, asks)?);
    Ok(both)
}

/// A frame of a stream; an answer of the REST interface has neither member.
#[derive(Deserialize)]
struct Outer<'a> {
    stream: Option<&'a str>,
    #[serde(borrow)]
    data: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct RestSnapshot<'a> {
    #[serde(rename = "lastUpdateId")]
    last: u64,
    #[serde(rename = "E")]
    event_ms: Option<u64>,
    symbol: Option<&'a str>,
    #[serde(borrow)]
    bids: Levels<'a>,
    asks: Levels<'a>,
}

impl RestSnapshot<'_> {
    fn event(self, received_ns: u64) -> Result<(Option<Symbol>, Event), FrameError> {
        let symbol = self.symbol.and_then(|s| Symbol::new(s, true));
        let levels = levels(&self.bids, &self.asks)?;
        let time_ms = self.event_ms.unwrap_or(received_ns / 1_000_000);
        Ok((symbol, Event::Snapshot(Snapshot { last: self.last, time_ms, levels })))
    }
}

#[derive(Deserialize)]
struct BookTicker<'a> {
    s: &'a str,
    b: &'a str,
    #[serde(rename = "B")]
    bid_size: &'a str,
    a: &'a str,
    #[serde(rename = "A")]
    ask_size: &'a str,
    /// Futures say the event's kind and time, spot does not.
    #[serde(rename = "E")]
    event_ms: Option<u64>,
}

impl BookTicker<'_> {
    fn event(self, received_ns: u64) -> Result<(Option<Symbol>, Event), FrameError> {
        let quote = Quote {
            bid: number(self.b)?,
            bid_size: number(self.bid_size)?,
            ask: number(self.a)?,
            ask_size: number(self.ask_size)?,
            time_ns: self.event_ms.map_or(received_ns, |ms| ms.saturating_mul(1_000_000)),
        };
        Ok((Symbol::new(self.s, self.event_ms.is_some()), Event::Quote(quote)))
    }
}

#[derive(Deserialize)]
struct TradeFrame<'a> {
    s: &'a str,
    t: u64,
    p: &'a str,
    q: &'a str,
    #[serde(rename = "T")]
    trade_ms: u64,
    /// How the trade came about; only futures say.
    #[serde(rename = "X")]
    origin: Option<&'a str>,
}

impl TradeFrame<'_> {
    fn event(self) -> Result<(Option<Symbol>, Event), FrameError> {
        let trade =
            Trade { id: self.t, price: number(self.p)?, size: number(self.q)?, time_ms: self.trade_ms };
        Ok((Symbol::new(self.s, self.origin.is_some()), Event::Trade(trade)))
    }
}

#[derive(Deserialize)]
struct DepthUpdate<'a> {
    s: &'a str,
    #[serde(rename = "U")]
    first: u64,
    u: u64,
    pu: Option<u64>,
    #[serde(rename = "E")]
    event_ms: u64,
    #[serde(borrow)]
    b: Levels<'a>,
    a: Levels<'a>,
}

impl DepthUpdate<'_> {
    fn event(self) -> Result<(Option<Symbol>, Event), FrameError> {
        let levels = levels(&self.b, &self.a)?;
        let symbol = Symbol::new(self.s, self.pu.is_some());
        let depth =
            Depth { first: self.first, last: self.u, previous: self.pu, time_ms: self.event_ms, levels };
        Ok((symbol, Event::Depth(depth)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Decimal {
        text.parse().expect(text)
    }

    #[test]
    fn a_spot_quote_has_no_time_of_its_own() {
        let line = r#"1723161254087891268 {"stream":"btcusdt@bookTicker","data":{"u":1,"s":"BTCUSDT","b":"61837.63000000","B":"3.78826000","a":"61837.64000000","A":"1.54698000"}}"#;
        let frame = Frame::parse(line).expect("a recorded line");
        assert_eq!(frame.symbol, Symbol::new("BTCUSDT", false));
        let Event::Quote(quote) = frame.event else { panic!("{:?}", frame.event) };
        assert_eq!((quote.bid, quote.ask_size), (of("61837.63"), of("1.54698")));
        assert_eq!(quote.time_ns, 1_723_161_254_087_891_268, "the recorder's");
        assert_eq!(quote.bid.decimals, 8, "as many decimals as the text has");
    }

    #[test]
    fn futures_are_told_from_spot_by_what_only_they_say() {
        let usdm = r#"1 {"stream":"btcusdt@bookTicker","data":{"e":"bookTicker","u":2,"s":"BTCUSDT","b":"1","B":"2","a":"3","A":"4","T":5,"E":6}}"#;
        let coinm = r#"1 {"stream":"btcusd_perp@trade","data":{"e":"trade","E":1,"T":2,"s":"BTCUSD_PERP","t":9,"p":"61804.7","q":"35","X":"MARKET","m":true}}"#;
        let spot = r#"1 {"stream":"btcusdt@trade","data":{"e":"trade","E":1,"s":"BTCUSDT","t":9,"p":"1","q":"2","T":3,"m":true,"M":true}}"#;
        let name = |line| Frame::parse(line).expect("a recorded line").symbol.expect("it says").item_name();
        assert_eq!([name(usdm), name(coinm), name(spot)], ["BTCUSDT.PERP", "BTCUSD.PERP", "BTCUSDT"]);
    }

    #[test]
    fn depth_and_snapshot_carry_their_numbers_and_levels() {
        let depth = r#"1 {"stream":"btcusdt@depth@0ms","data":{"e":"depthUpdate","E":7,"T":6,"s":"BTCUSDT","U":10,"u":12,"pu":9,"b":[["1.5","0.0"]],"a":[["2.5","3"]]}}"#;
        let Event::Depth(depth) = Frame::parse(depth).expect("a recorded line").event else {
            panic!("depth")
        };
        assert_eq!((depth.first, depth.last, depth.previous, depth.time_ms), (10, 12, Some(9), 7));
        assert_eq!(depth.levels, [(Side::Bid, of("1.5"), of("0")), (Side::Ask, of("2.5"), of("3"))]);
        let rest = r#"2000000 {"lastUpdateId":11,"bids":[["1.5","2"]],"asks":[]}"#;
        let frame = Frame::parse(rest).expect("a recorded line");
        let Event::Snapshot(snapshot) = frame.event else { panic!("snapshot") };
        assert_eq!((frame.symbol, snapshot.last, snapshot.levels.len()), (None, 11, 1));
        assert_eq!(snapshot.time_ms, 2, "the recorder's");
    }

    #[test]
    fn other_lines_are_refused_with_what_is_wrong() {
        for (line, expected) in [
            ("", "receive time"),
            ("x {}", "receive time"),
            ("1 {}", "not a frame"),
            (r#"1 {"stream":"x@kline_1m","data":{}}"#, "kline_1m"),
            (
                r#"1 {"stream":"x@trade","data":{"s":"X","t":1,"p":"abc","q":"1","T":2}}"#,
                "\"abc\": not a decimal",
            ),
        ] {
            let error = Frame::parse(line).expect_err(line).to_string();
            assert!(error.contains(expected), "{line}: {error}");
        }
    }
}

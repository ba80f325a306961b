//! From the venue's frames to items.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use client::{ItemError, PublishError, PublishedItem, RefreshSpec, UpdateSpec};
use counters::table::Feed;
use rwf::{DataState, Domain, State, StateCode, StreamState};

use crate::binance::{Book, BookError, Depth, Event, Frame, Quote, Snapshot, Symbol, Trade};
use crate::depth;
use crate::price::Price;
use crate::publisher::Publisher;

/// What kept a frame from being published as it should.
#[derive(Debug)]
pub enum HandlerError {
    /// A depth snapshot that names no instrument, in a stream that has had none, or several.
    NoInstrument,
    /// An item cannot be made.
    Item(String, ItemError),
    /// A message was not published.
    Publish(String, PublishError),
    /// The book of an item has a gap: the item is suspect until the next snapshot.
    Gap(String, BookError),
}

impl fmt::Display for HandlerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoInstrument => f.write_str("a depth snapshot, and it is not clear of which instrument"),
            Self::Item(name, error) => write!(f, "item {name}: {error}"),
            Self::Publish(name, error) => write!(f, "item {name}: {error}"),
            Self::Gap(name, error) => {
                write!(f, "item {name}: {error}; it is suspect until the next snapshot")
            }
        }
    }
}

impl std::error::Error for HandlerError {}

/// Publishes a MarketPrice and a MarketByPrice item for each instrument of the venue's streams.
///
/// `docs/feeds.md` says which field is made from what.
#[derive(Debug)]
pub struct Handler {
    instruments: Vec<Instrument>,
    by_symbol: HashMap<Symbol, usize>,
    streams: Vec<Stream>,
    counters: Arc<Feed>,
}

/// One of the streams that are handled together: a file of a recording.
#[derive(Clone, Debug, Default)]
struct Stream {
    instruments: Vec<usize>,
    /// A snapshot that came before any frame said of which instrument.
    early: Option<Snapshot>,
}

#[derive(Debug)]
struct Instrument {
    symbol: Symbol,
    name: String,
    price_item: PublishedItem,
    price: Price,
    depth_item: PublishedItem,
    book: Book,
}

impl Handler {
    /// A handler of `stream_count` streams.
    #[must_use]
    pub fn new(stream_count: usize, counters: Arc<Feed>) -> Handler {
        let streams = vec![Stream::default(); stream_count];
        Handler { instruments: Vec::new(), by_symbol: HashMap::new(), streams, counters }
    }

    /// Names of the instruments so far.
    pub fn item_names(&self) -> impl Iterator<Item = &str> {
        self.instruments.iter().map(|i| i.name.as_str())
    }

    /// Publishes first images of an instrument, if it is new: a blank price, and a book that waits for its
    /// snapshot.
    ///
    /// # Errors
    /// [`HandlerError::Item`], [`HandlerError::Publish`].
    pub fn announce(
        &mut self,
        stream: usize,
        symbol: &Symbol,
        out: &mut dyn Publisher,
    ) -> Result<(), HandlerError> {
        self.instrument(stream, symbol, out).map(drop)
    }

    /// Takes a frame of a stream and publishes what it means.
    ///
    /// # Errors
    /// [`HandlerError`]; the handler goes on with the next frame.
    pub fn on_frame(
        &mut self,
        stream: usize,
        frame: Frame,
        out: &mut dyn Publisher,
    ) -> Result<(), HandlerError> {
        let at = match (&frame.symbol, self.streams[stream].instruments.as_slice()) {
            (Some(symbol), _) => self.instrument(stream, symbol, out)?,
            (None, [only]) => *only,
            (None, []) => match frame.event {
                Event::Snapshot(snapshot) => {
                    self.streams[stream].early = Some(snapshot);
                    return Ok(());
                }
                _ => return Err(HandlerError::NoInstrument),
            },
            (None, _) => return Err(HandlerError::NoInstrument),
        };
        let early = self.streams[stream].early.take();
        let (instrument, counters) = (&mut self.instruments[at], &self.counters);
        let first = early.map_or(Ok(()), |snapshot| instrument.on_snapshot(&snapshot, counters, out));
        let second = match frame.event {
            Event::Quote(quote) => instrument.on_quote(quote, counters, out),
            Event::Trade(trade) => instrument.on_trade(trade, counters, out),
            Event::Depth(diff) => instrument.on_depth(diff, counters, out),
            Event::Snapshot(snapshot) => instrument.on_snapshot(&snapshot, counters, out),
        };
        first.and(second)
    }

    /// The streams begin anew: all items get first images again.
    ///
    /// # Errors
    /// The first of [`HandlerError::Publish`]; all items have begun anew even so.
    pub fn restart(&mut self, out: &mut dyn Publisher) -> Result<(), HandlerError> {
        let mut result = Ok(());
        self.streams.iter_mut().for_each(|stream| stream.early = None);
        for instrument in &mut self.instruments {
            instrument.price = Price::new(instrument.name.clone(), instrument.symbol.text.clone());
            instrument.book = Book::default();
            result = result.and(instrument.publish_first(out));
        }
        result
    }

    fn instrument(
        &mut self,
        stream: usize,
        symbol: &Symbol,
        out: &mut dyn Publisher,
    ) -> Result<usize, HandlerError> {
        let at = match self.by_symbol.get(symbol) {
            Some(at) => *at,
            None => {
                let at = self.instruments.len();
                self.instruments.push(Instrument::publish(symbol, out)?);
                self.by_symbol.insert(symbol.clone(), at);
                at
            }
        };
        let known = &mut self.streams[stream].instruments;
        if !known.contains(&at) {
            known.push(at);
        }
        Ok(at)
    }
}

impl Instrument {
    fn publish(symbol: &Symbol, out: &mut dyn Publisher) -> Result<Instrument, HandlerError> {
        let name = symbol.item_name();
        let mut item = |domain| out.item(domain, &name).map_err(|e| HandlerError::Item(name.clone(), e));
        let (price_item, depth_item) = (item(Domain::MARKET_PRICE)?, item(Domain::MARKET_BY_PRICE)?);
        let price = Price::new(name.clone(), symbol.text.clone());
        let book = Book::default();
        let new = Instrument { symbol: symbol.clone(), name, price_item, price, depth_item, book };
        new.publish_first(out).map(|()| new)
    }

    fn publish_first(&self, out: &mut dyn Publisher) -> Result<(), HandlerError> {
        let spec = RefreshSpec { state: NO_SNAPSHOT, ..RefreshSpec::map() };
        out.refresh(self.price_item, &RefreshSpec::default(), &|w| self.price.write_blank(w))
            .and_then(|()| {
                out.refresh(self.depth_item, &spec, &|w| depth::write_image(w, std::iter::empty()))
            })
            .map_err(|e| self.failed(e))
    }

    fn on_quote(
        &mut self,
        quote: Quote,
        counters: &Feed,
        out: &mut dyn Publisher,
    ) -> Result<(), HandlerError> {
        counters.quotes.inc();
        let payload = self.price.on_quote(quote);
        out.update(self.price_item, &UpdateSpec::quote(), &payload).map_err(|e| self.failed(e))
    }

    fn on_trade(
        &mut self,
        trade: Trade,
        counters: &Feed,
        out: &mut dyn Publisher,
    ) -> Result<(), HandlerError> {
        counters.trades.inc();
        let payload = self.price.on_trade(trade);
        out.update(self.price_item, &UpdateSpec::trade(), &payload).map_err(|e| self.failed(e))
    }

    fn on_depth(
        &mut self,
        diff: Depth,
        counters: &Feed,
        out: &mut dyn Publisher,
    ) -> Result<(), HandlerError> {
        counters.depth_diffs.inc();
        match self.book.on_depth(diff) {
            Ok(changes) if changes.is_empty() => Ok(()),
            Ok(changes) => out
                .update(self.depth_item, &UpdateSpec::map(), &|w| depth::write_changes(w, &changes))
                .map_err(|e| self.failed(e)),
            Err(error) => Err(self.on_gap(error, counters, out)),
        }
    }

    fn on_snapshot(
        &mut self,
        snapshot: &Snapshot,
        counters: &Feed,
        out: &mut dyn Publisher,
    ) -> Result<(), HandlerError> {
        counters.depth_snapshots.inc();
        match self.book.on_snapshot(snapshot) {
            Ok(()) => out
                .refresh(self.depth_item, &RefreshSpec::map(), &|w| depth::write_image(w, self.book.levels()))
                .map_err(|e| self.failed(e)),
            Err(error) => Err(self.on_gap(error, counters, out)),
        }
    }

    fn on_gap(&self, error: BookError, counters: &Feed, out: &mut dyn Publisher) -> HandlerError {
        counters.depth_gaps.inc();
        let state = State::new(StreamState::Open, DataState::Suspect)
            .because(StateCode::GAP_DETECTED, "depth updates of the venue are missing");
        match out.status(self.depth_item, state) {
            Ok(()) => HandlerError::Gap(self.name.clone(), error),
            Err(error) => self.failed(error),
        }
    }

    fn failed(&self, error: PublishError) -> HandlerError {
        HandlerError::Publish(self.name.clone(), error)
    }
}

/// The state of a book whose levels are not known yet.
const NO_SNAPSHOT: State<'static> = State {
    stream: StreamState::Open,
    data: DataState::Suspect,
    code: StateCode::NONE,
    text: b"waiting for the venue's depth snapshot",
};

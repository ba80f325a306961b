//! The handler against a publisher that writes down what it is told.

use std::sync::Arc;

use client::{ItemError, PublishError, PublishedItem, RefreshSpec, UpdateSpec};
use counters::table::Feed;
use rwf::{Buffer, DataType, Decode, Domain, FieldList, Map, State, Writer, encode_to_vec};
use tickcast_feed::binance::Frame;
use tickcast_feed::{Handler, Publisher};

/// What was published, a line each.
#[derive(Default)]
struct Script {
    items: Vec<String>,
    lines: Vec<String>,
    is_full: bool,
}

type Payload<'p> = (DataType, &'p dyn Fn(&mut Writer<'_>));

impl Script {
    fn note(&mut self, what: &str, item: PublishedItem, payload: Option<Payload<'_>>) {
        let name = &self.items[item.to_u64() as usize];
        let content = match payload {
            None => String::new(),
            Some((DataType::MAP, write)) => map(&encode_to_vec(|w| write(w)).expect("legal")),
            Some((_, write)) => fields(&encode_to_vec(|w| write(w)).expect("legal")),
        };
        self.lines.push(format!("{name} {what} {content}").trim_end().to_owned());
    }

    fn take(&mut self) -> Vec<String> {
        std::mem::take(&mut self.lines)
    }
}

fn fields(bytes: &[u8]) -> String {
    let list = FieldList::parse(bytes).expect("a field list");
    format!("{} fields", list.entries().count())
}

fn map(bytes: &[u8]) -> String {
    let map = Map::parse(bytes).expect("a map");
    let mut entries: Vec<_> = map
        .entries()
        .map(|entry| {
            let entry = entry.expect("legal");
            let key = Buffer::decode(entry.key).expect("a buffer").expect("not blank");
            format!("{:?} {}", entry.action, String::from_utf8_lossy(key.0))
        })
        .collect();
    entries.sort();
    entries.join(", ")
}

impl Publisher for Script {
    fn item(&mut self, domain: Domain, name: &str) -> Result<PublishedItem, ItemError> {
        if self.is_full {
            return Err(ItemError::TooManyItems { max: 0 });
        }
        self.items.push(format!("{}:{name}", domain.0));
        Ok(PublishedItem::from_u64(self.items.len() as u64 - 1))
    }

    fn refresh(
        &mut self,
        item: PublishedItem,
        spec: &RefreshSpec<'_>,
        payload: &dyn Fn(&mut Writer<'_>),
    ) -> Result<(), PublishError> {
        self.note(&format!("refresh {:?}", spec.state.data), item, Some((spec.container_type, payload)));
        Ok(())
    }

    fn update(
        &mut self,
        item: PublishedItem,
        spec: &UpdateSpec<'_>,
        payload: &dyn Fn(&mut Writer<'_>),
    ) -> Result<(), PublishError> {
        self.note("update", item, Some((spec.container_type, payload)));
        Ok(())
    }

    fn status(&mut self, item: PublishedItem, state: State<'_>) -> Result<(), PublishError> {
        self.note(&format!("status {:?} {:?}", state.data, state.code), item, None);
        Ok(())
    }
}

const QUOTE: &str =
    r#"1 {"stream":"x@bookTicker","data":{"u":1,"s":"X","b":"1.0","B":"1","a":"1.1","A":"1"}}"#;
const SNAPSHOT: &str = r#"1 {"lastUpdateId":7,"bids":[["1.0","5"]],"asks":[["1.1","6"]]}"#;

fn frame(line: &str) -> Frame {
    Frame::parse(line).expect("a frame")
}

fn diff(first: u64, last: u64, bids: &str) -> Frame {
    frame(&format!(
        r#"1 {{"stream":"x@depth","data":{{"e":"depthUpdate","E":3,"s":"X","U":{first},"u":{last},"b":[{bids}],"a":[]}}}}"#
    ))
}

#[test]
fn an_instrument_begins_blank_and_its_book_waits_for_the_snapshot() {
    let (mut handler, mut out) = (Handler::new(1, Arc::default()), Script::default());
    let first = frame(QUOTE);
    handler.announce(0, first.symbol.as_ref().expect("it says"), &mut out).expect("published");
    assert_eq!(out.take(), ["6:X refresh Ok 20 fields", "8:X refresh Suspect"]);
    handler.on_frame(0, first, &mut out).expect("published");
    handler.on_frame(0, diff(5, 6, r#"["1.0","4"]"#), &mut out).expect("kept");
    handler.on_frame(0, diff(7, 8, r#"["0.9","4"]"#), &mut out).expect("kept");
    assert_eq!(out.take(), ["6:X update 8 fields"], "the diffs are kept");
    handler.on_frame(0, frame(SNAPSHOT), &mut out).expect("published");
    assert_eq!(out.take(), ["8:X refresh Ok Add 0.9B, Add 1.0B, Add 1.1A"]);
    handler
        .on_frame(0, diff(9, 9, r#"["1.0","0"],["0.9","1"],["3","0"],["2","2"]"#), &mut out)
        .expect("published");
    assert_eq!(out.take(), ["8:X update Add 2B, Delete 1.0B, Update 0.9B"]);
    handler.on_frame(0, diff(10, 10, r#"["3","0"]"#), &mut out).expect("nothing to publish");
    assert_eq!(out.take(), [""; 0]);
}

#[test]
fn a_gap_makes_the_book_suspect_until_the_next_snapshot() {
    let counters = Arc::new(Feed::default());
    let (mut handler, mut out) = (Handler::new(1, Arc::clone(&counters)), Script::default());
    handler.on_frame(0, frame(SNAPSHOT), &mut out).expect("kept until a frame says of which instrument");
    handler.on_frame(0, diff(8, 8, r#"["1.0","4"]"#), &mut out).expect("published");
    assert_eq!(out.take().last().expect("the diff"), "8:X update Update 1.0B");
    let error = handler.on_frame(0, diff(11, 12, r#"["1.0","3"]"#), &mut out).expect_err("a gap");
    assert!(error.to_string().contains("starts at 11 and does not follow 8"), "{error}");
    assert_eq!(out.take(), ["8:X status Suspect gap detected"]);
    assert_eq!(counters.depth_gaps.get(), 1);
    let line = r#"1 {"lastUpdateId":11,"bids":[["1.0","5"]],"asks":[]}"#;
    handler.on_frame(0, frame(line), &mut out).expect("published");
    assert_eq!(out.take(), ["8:X refresh Ok Add 1.0B"]);
}

#[test]
fn a_restart_publishes_first_images_again() {
    let (mut handler, mut out) = (Handler::new(1, Arc::default()), Script::default());
    handler.on_frame(0, frame(QUOTE), &mut out).expect("published");
    handler.on_frame(0, frame(SNAPSHOT), &mut out).expect("published");
    out.take();
    handler.restart(&mut out).expect("published");
    assert_eq!(out.take(), ["6:X refresh Ok 20 fields", "8:X refresh Suspect"]);
    handler.on_frame(0, diff(8, 8, r#"["1.0","4"]"#), &mut out).expect("kept");
    assert_eq!(out.take(), [""; 0]);
    assert_eq!(handler.item_names().collect::<Vec<_>>(), ["X"]);
}

#[test]
fn a_snapshot_of_nobody_is_refused_and_so_is_an_item_too_many() {
    let (mut handler, mut out) = (Handler::new(1, Arc::default()), Script::default());
    handler.on_frame(0, frame(QUOTE), &mut out).expect("published");
    handler.on_frame(0, frame(&QUOTE.replace(r#""X""#, r#""Y""#)), &mut out).expect("published");
    let error = handler.on_frame(0, frame(SNAPSHOT), &mut out).expect_err("X or Y");
    assert!(error.to_string().contains("not clear of which instrument"), "{error}");
    out.is_full = true;
    let error =
        handler.on_frame(0, frame(&QUOTE.replace(r#""X""#, r#""Z""#)), &mut out).expect_err("no room");
    assert!(error.to_string().contains("item Z: 0 items are published already"), "{error}");
}

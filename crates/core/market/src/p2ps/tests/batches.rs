//! Several items in one message.

use rdm::item::{CloseTarget, ItemClose, Target};

use super::*;

fn batch(stream_id: i32, names: &[&'static [u8]]) -> ItemRequest<'static> {
    let common = Key::new(1, b"");
    ItemRequest {
        target: Target::Items { common, names: names.to_vec() },
        ..ItemRequest::streaming(Domain::MARKET_PRICE, stream_id, common)
    }
}

#[test]
fn the_items_of_a_batch_live_on_the_streams_that_follow_its_own() {
    let mut bench = Bench::watching();
    bench.ask(B, &batch(10, &[b"IBM", b"", b"MSFT"]));
    let log = bench.took();
    assert_eq!(
        log,
        [
            "2/10: status closed ok: Processed 3 total items from Batch Request.  2 Ok.",
            "2/11: refresh ok solicited 22=1",
            "2/12: status closed suspect: an item needs a name",
            "77: interest MSFT",
        ]
    );
    assert!(bench.core.has_stream(B, 13) && !bench.core.has_stream(B, 10));
    assert_eq!((bench.counters.batches_in.get(), bench.counters.requests_refused.get()), (1, 1));
}

#[test]
fn an_item_of_a_batch_whose_stream_is_taken_by_another_is_refused_and_that_stream_ended() {
    let mut bench = Bench::watching();
    bench.ask(A, &batch(4, &[b"MSFT"]));
    let log = bench.took();
    assert_eq!(log[1], "1/5: status closed suspect: the stream is open for another item");
    bench.stream(Kind::Update, 2, 1, &update(&[(22, 2)]));
    assert_eq!(bench.took(), [""; 0], "what the client takes for closed is closed");
    assert_eq!(bench.counters.watchers.get(), 0);
}

#[test]
fn a_batch_beyond_the_limit_of_streams_opens_what_fits() {
    let mut bench = Bench::running();
    bench.core.reconfigure(|config| config.client_streams_max = 2);
    bench.ask(A, &batch(4, &[b"A", b"B", b"C"]));
    let log = bench.took();
    assert_eq!(log[0], "1/4: status closed ok: Processed 3 total items from Batch Request.  2 Ok.");
    assert_eq!(log[1..3], ["77: interest A", "77: interest B"]);
    assert_eq!(log[3], "1/7: status closed suspect: too many open streams on this connection");
}

#[test]
fn a_batch_of_open_streams_changes_each() {
    let mut bench = Bench::watching();
    bench.request(A, 6, "IBM");
    bench.took();
    let target = Target::Streams(vec![5, 6, 99]);
    let pause = ItemRequest {
        target,
        pause: true,
        no_refresh: true,
        ..ItemRequest::streaming(Domain::MARKET_PRICE, 20, Key::new(1, b"IBM"))
    };
    bench.ask(A, &pause);
    let text = "Processed 3 total stream ids from Batch Reissue Request.  2 Ok.";
    assert_eq!(bench.took(), [format!("1/20: status closed ok: {text}")]);
    bench.stream(Kind::Update, 2, 1, &update(&[(22, 2)]));
    assert_eq!(bench.took(), [""; 0]);
    bench.ask(A, &ItemRequest { pause: false, no_refresh: false, ..pause });
    let log = bench.took();
    assert_eq!(log[..2], ["1/5: refresh ok solicited 22=2", "1/6: refresh ok solicited 22=2"]);
}

#[test]
fn a_batch_close_ends_its_streams_and_is_acknowledged_if_wanted() {
    let mut bench = Bench::watching();
    bench.request(A, 6, "IBM");
    bench.took();
    let target = CloseTarget::Streams(vec![5, 6, 7]);
    let close = ItemClose { ack: true, target, ..ItemClose::stream(Domain::MARKET_PRICE, 5) };
    bench.client(A, &close.to_vec().expect("legal"));
    assert_eq!(bench.took(), ["1/5: ack 5"]);
    assert_eq!(bench.counters.watchers.get(), 0);
}

//! Images that end their stream.

use super::streams::ibm;
use super::*;

fn last_image(all: &[(i16, i64)]) -> Vec<u8> {
    let payload = fields(all);
    let msg = RefreshMsg {
        complete: true,
        state: State::new(StreamState::NonStreaming, rwf::DataState::Ok),
        payload: &payload,
        ..RefreshMsg::new(Domain::MARKET_PRICE, 0, DataType::FIELD_LIST)
    };
    msg.to_vec().expect("legal")
}

#[test]
fn an_image_that_ends_its_stream_reaches_streams_and_snapshots_and_is_not_kept() {
    let mut bench = Bench::running();
    bench.request(A, 5, "IBM");
    bench.ask(B, &ItemRequest { streaming: false, ..ibm(9) });
    bench.ask(B, &ItemRequest { pause: true, ..ibm(10) });
    bench.took();
    let refresh = last_image(&[(22, 1), (25, 2)]);
    bench.link(INSTANCE, &LinkDown::Image { item: 0, after: 0, key: named("IBM"), refresh: &refresh });
    let image = "refresh ok solicited non-streaming 22=1 25=2";
    assert_eq!(bench.took(), [format!("1/5,2/10: {image}"), format!("2/9: {image}")]);
    assert_eq!((bench.core.item_count(), bench.counters.watchers.get()), (0, 0));
    bench.request(A, 5, "IBM");
    assert_eq!(bench.took(), ["77: interest IBM"], "asked for anew");
}

#[test]
fn one_on_the_stream_ends_the_item_for_everybody() {
    let mut bench = Bench::watching();
    bench.request(B, 9, "IBM");
    bench.ask(B, &ItemRequest { pause: true, ..ibm(10) });
    bench.took();
    bench.stream(Kind::Refresh, 2, 1, &last_image(&[(22, 2)]));
    bench.stream(Kind::Close, 3, 1, &status(StreamState::NonStreaming, ""));
    let image = "refresh ok non-streaming 22=2";
    assert_eq!(bench.took(), [format!("1/5,2/9: {image}"), format!("2/10: {image}")]);
    assert_eq!((bench.core.item_count(), bench.counters.watchers.get()), (0, 0));
}

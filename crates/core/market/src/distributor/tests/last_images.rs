//! Images that end their stream: they go to those who want the item, as they are, and are not kept.

use rwf::StreamState;

use super::dialled::{A, OTHER_PEER, config};
use super::*;

/// An image of a stream that ends with it, or a part of one.
fn last_image(stream_id: i32, part: Option<(u16, bool)>, all: &[(i16, i64)]) -> Vec<u8> {
    ending(StreamState::NonStreaming, stream_id, part, all)
}

fn ending(stream: StreamState, stream_id: i32, part: Option<(u16, bool)>, all: &[(i16, i64)]) -> Vec<u8> {
    let payload = fields(all);
    let msg = RefreshMsg {
        complete: part.is_none_or(|(_, is_last)| is_last),
        part_num: part.map(|(number, _)| number),
        state: State::new(stream, DataState::Ok),
        key: Some(Key::item(3, b"X")),
        payload: &payload,
        ..RefreshMsg::new(Domain::MARKET_PRICE, stream_id, DataType::FIELD_LIST)
    };
    msg.to_vec().expect("legal")
}

#[test]
fn the_image_of_a_stream_that_ends_with_it_goes_to_all_who_wait_and_is_not_kept() {
    let mut bench = Bench::dialled(config(), &[A]);
    bench.interest(T0, "X");
    bench.peer_says(T0, OTHER_PEER, &LinkUp::Interest { key: item("X") });
    bench.log.take();
    bench.provider(T0, A, &last_image(5, None, &[(22, 1), (25, 2)]));
    let image = "image of X as item 0 after #0: ok 22=1 25=2";
    assert_eq!(bench.said(), [format!("peer 7: {image}"), format!("peer 8: {image}")]);
    assert_eq!((bench.core.item_count(), bench.outstanding()), (0, (0, 0)));
    bench.interest(T0, "X");
    assert_eq!(bench.said()[0], "provider 100: request X on 6 in 3", "asked for anew");
}

#[test]
fn its_parts_make_one_image() {
    let mut bench = Bench::dialled(config(), &[A]);
    bench.interest(T0, "X");
    bench.log.take();
    bench.provider(T0, A, &last_image(5, Some((0, false)), &[(22, 1)]));
    assert_eq!(bench.said(), [""; 0]);
    bench.provider(T0, A, &last_image(5, Some((1, true)), &[(25, 2)]));
    assert_eq!(bench.said(), ["peer 7: image of X as item 0 after #0: ok 22=1 25=2"]);
}

#[test]
fn those_who_have_had_an_image_get_the_last_one_on_the_stream() {
    let mut bench = Bench::dialled(config(), &[A]);
    bench.interest(T0, "X");
    bench.image(A, 5, &[(22, 1)]);
    bench.log.take();
    bench.provider(T0, A, &last_image(5, None, &[(22, 2)]));
    assert_eq!(bench.said(), ["1 Refresh #2 item 1: ok 22=2", "1 Close #3 item 1: non-streaming ok "]);
    assert_eq!(bench.core.item_count(), 0);
}

#[test]
fn published_ones_are_passed_on_and_not_kept_either() {
    for stream in [StreamState::NonStreaming, StreamState::Closed] {
        let mut bench = Bench::running();
        bench.interest(T0, "X");
        bench.log.take();
        bench.provider(T0, PROVIDER, &ending(stream, -5, None, &[(22, 1)]));
        assert_eq!(bench.log.take(), ["peer 7: image of X as item 0 after #0: ok 22=1"]);
        bench.provider(T0, PROVIDER, &ending(stream, -5, None, &[(22, 1)]));
        assert_eq!((bench.log.take(), bench.core.item_count()), (vec![], 0), "nobody wants it");
    }
}

#[test]
fn an_answer_that_ends_a_stream_lets_the_next_request_go() {
    let mut bench = Bench::dialled(config(), &[A]);
    for name in ["W", "X", "Y", "Z"] {
        bench.interest(T0, name);
    }
    bench.log.take();
    bench.provider(T0, A, &last_image(5, None, &[(22, 1)]));
    assert_eq!(bench.said()[1..], ["provider 100: request Y on 7 in 3"]);
    let closed = State::new(StreamState::Closed, DataState::Suspect);
    bench.provider(T0, A, &super::dialled::Script::status(6, closed));
    assert_eq!(bench.said()[1..], ["provider 100: request Z on 8 in 3"]);
}

#[test]
fn a_gap_names_an_item_whose_end_was_in_it() {
    let mut bench = Bench::running();
    bench.provider(T0, PROVIDER, &refresh(-5, "A", &[(22, 1)]));
    bench.interest(T0, "A");
    let closed = State::new(StreamState::Closed, DataState::Suspect);
    bench.provider(T0, PROVIDER, &super::dialled::Script::status(-5, closed));
    bench.log.take();
    bench.peer(T0, &LinkUp::GapQuery { service: 1, first: 2, last: 2 });
    assert_eq!(bench.log.take(), ["peer 7: gap 2-2 [1]"]);
}

//! Items of one name that other parts of their keys tell apart.

use rwf::Attributes;

use super::streams::Raw;
use super::*;

fn keyed(name: &str, name_type: u8) -> Key<'_> {
    Key { name_type: Some(name_type), ..Key::new(1, name.as_bytes()) }
}

fn of(key: Key<'_>) -> ItemKey<'_> {
    ItemKey::of(1, Domain::MARKET_PRICE, &rwf::Key::from(key)).expect("short attributes")
}

fn request(stream_id: i32, key: Key<'_>) -> ItemRequest<'_> {
    ItemRequest::streaming(Domain::MARKET_PRICE, stream_id, key)
}

#[test]
fn each_key_is_an_item_of_its_own_with_its_own_data() {
    let mut bench = Bench::running();
    bench.request(A, 5, "IBM");
    bench.ask(A, &request(6, keyed("IBM", 2)));
    bench.ask(B, &request(5, keyed("IBM", 1)));
    assert_eq!(bench.took(), ["77: interest IBM", "77: interest IBM name type 2"]);
    assert_eq!(bench.counters.items.get(), 2, "a name type of 1 is that of an absent one");
    let (plain, other) = (refresh(&[(22, 1)]), refresh(&[(22, 2)]));
    bench.link(INSTANCE, &LinkDown::Image { item: 1, after: 0, key: named("IBM"), refresh: &plain });
    bench.link(INSTANCE, &LinkDown::Image { item: 2, after: 0, key: of(keyed("IBM", 2)), refresh: &other });
    assert_eq!(bench.took(), ["1/5,2/5: refresh ok solicited 22=1", "1/6: refresh ok solicited 22=2"]);
    bench.stream(Kind::Update, 1, 2, &update(&[(22, 3)]));
    assert_eq!(bench.took(), ["1/6: update 22=3"]);
}

#[test]
fn an_open_with_the_key_in_full_binds_that_item_alone() {
    let mut bench = Bench::running();
    bench.ask(A, &request(5, keyed("IBM", 2)));
    bench.request(A, 6, "IBM");
    bench.took();
    let (kind, body) = StreamMsg::open(&of(keyed("IBM", 2)));
    assert_eq!(kind, Kind::OpenInFull);
    bench.stream(kind, 1, 9, &body);
    bench.stream(Kind::Update, 2, 9, &update(&[(22, 5)]));
    assert_eq!(bench.counters.updates_held.get(), 1, "it waits for the image of its item");
    let image = refresh(&[(22, 4)]);
    bench.link(INSTANCE, &LinkDown::Image { item: 9, after: 1, key: of(keyed("IBM", 2)), refresh: &image });
    assert_eq!(bench.took(), ["1/5: refresh ok solicited 22=4", "1/5: update 22=5"]);
}

#[test]
fn a_client_gets_its_key_back_in_full() {
    let mut bench = Bench::running();
    let attributes = Some(Attributes { container_type: DataType::OPAQUE, data: b"x" });
    let key = Key { filter: Some(3), identifier: Some(-4), attributes, ..keyed("IBM", 2) };
    bench.ask(A, &request(5, key));
    let image = refresh(&[(22, 1)]);
    let mut bytes = Vec::new();
    LinkDown::Image { item: 1, after: 0, key: of(key), refresh: &image }.encode(&mut bytes);
    let mut raw = Raw::default();
    bench.core.on_link_message(bench.now, INSTANCE, &bytes, &mut raw).expect("accepted");
    assert_eq!(RefreshMsg::parse(&raw.0[0]).expect("whole").key, Some(rwf::Key::from(key)));
}

#[test]
fn a_stream_stays_with_its_item() {
    let mut bench = Bench::running();
    bench.ask(A, &request(5, keyed("IBM", 2)));
    let image = refresh(&[(22, 1)]);
    bench.link(INSTANCE, &LinkDown::Image { item: 1, after: 0, key: of(keyed("IBM", 2)), refresh: &image });
    bench.took();
    bench.ask(A, &request(5, Key::new(1, b"IBM")));
    assert_eq!(bench.took(), ["1/5: refresh ok solicited 22=1"], "what a reissue leaves out is as it was");
    bench.ask(A, &request(5, keyed("IBM", 3)));
    let refused = bench.took();
    assert!(refused[0].contains("closed") && refused[0].contains("another item"), "{refused:?}");
    assert_eq!(bench.counters.requests_refused.get(), 1);
}

#[test]
fn a_key_with_too_long_attributes_is_refused() {
    let mut bench = Bench::running();
    let data = [0; crate::KEY_ATTRIBUTES_BYTES_MAX + 1];
    let attributes = Some(Attributes { container_type: DataType::OPAQUE, data: &data });
    bench.ask(A, &request(5, Key { attributes, ..Key::new(1, b"IBM") }));
    let said = bench.took();
    assert!(said.len() == 1 && said[0].contains("longer than 4096 bytes"), "{said:?}");
    assert_eq!((bench.counters.requests_refused.get(), bench.counters.items.get()), (1, 0));
}

#[test]
fn an_instance_of_the_first_version_is_not_asked_for_what_it_would_take_for_another_item() {
    let mut bench = Bench::running();
    bench.link(INSTANCE, &LinkDown::HelloAck { instance: INSTANCE, features: Features::default() });
    bench.took();
    bench.ask(A, &request(5, keyed("IBM", 2)));
    let said = bench.took();
    assert!(said.len() == 1 && said[0].contains("by name alone"), "{said:?}");
    bench.ask(A, &request(5, keyed("IBM", 1)));
    assert_eq!(bench.took(), ["77: interest IBM"], "what it knows it is asked for");
}

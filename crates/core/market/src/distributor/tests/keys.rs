//! Items of one name that other parts of their keys tell apart.

use rwf::Attributes;

use super::dialled::{A, config};
use super::*;

/// The item of that name with another name type.
fn with_type(name: &str, name_type: u8) -> ItemKey<'_> {
    let key = Key { name_type: Some(name_type), ..Key::item(1, name.as_bytes()) };
    ItemKey::of(1, Domain::MARKET_PRICE, &key).expect("no attributes")
}

fn keyed(key: Key<'_>, stream_id: i32, all: &[(i16, i64)]) -> Vec<u8> {
    let payload = fields(all);
    let msg = RefreshMsg {
        complete: true,
        key: Some(key),
        payload: &payload,
        ..RefreshMsg::new(Domain::MARKET_PRICE, stream_id, DataType::FIELD_LIST)
    };
    msg.to_vec().expect("legal")
}

#[test]
fn what_a_provider_publishes_under_other_keys_are_other_items() {
    let mut bench = Bench::running();
    let key = Key::item(3, b"A");
    bench.provider(T0, PROVIDER, &keyed(key, -5, &[(22, 1)]));
    bench.provider(T0, PROVIDER, &keyed(Key { name_type: Some(2), ..key }, -6, &[(22, 2)]));
    bench.provider(T0, PROVIDER, &keyed(Key { filter: Some(1), ..key }, -7, &[(22, 3)]));
    assert_eq!(bench.counters.items.get(), 3);
    bench.peer(T0, &LinkUp::Interest { key: with_type("A", 2) });
    bench.interest(T0, "A");
    let images = [
        "1 OpenInFull #1 item 1: ",
        "peer 7: image of A name type 2 as item 1 after #1: ok 22=2",
        "1 Open #2 item 2: ",
        "peer 7: image of A as item 2 after #2: ok 22=1",
    ];
    for (said, expected) in bench.log.take().iter().zip(images) {
        assert!(said.starts_with(expected), "{said}");
    }
    bench.provider(T0, PROVIDER, &keyed(Key { name_type: Some(1), ..key }, -8, &[(22, 9)]));
    assert_eq!(bench.counters.items.get(), 3, "a name type of 1 is none");
    bench.peer(T0, &LinkUp::NoInterest { key: with_type("A", 2) });
    bench.log.take();
    bench.provider(T0, PROVIDER, &update(-6, None, &[(22, 5)]));
    assert_eq!(bench.log.take(), [""; 0], "nobody wants this one any more");
    assert_eq!(bench.counters.updates_unwanted.get(), 1);
}

#[test]
fn a_dialled_provider_is_asked_with_the_whole_key_for_each_item_once() {
    let mut bench = Bench::dialled(config(), &[A]);
    let attributes = Some(Attributes { container_type: DataType::OPAQUE, data: b"x" });
    let whole =
        Key { name_type: Some(2), filter: Some(3), identifier: Some(-4), attributes, ..Key::item(1, b"X") };
    let key = ItemKey::of(1, Domain::MARKET_PRICE, &whole).expect("short");
    bench.interest(T0, "X");
    bench.peer(T0, &LinkUp::Interest { key });
    bench.peer(T0, &LinkUp::Interest { key });
    assert_eq!(bench.counters.requests_out.get(), 2);
    let requests: Vec<_> = bench.log.take().into_iter().filter(|said| said.contains("request")).collect();
    let parts = "X name type 2 filter 0x3 identifier -4 attributes of 1 bytes";
    let expected =
        ["provider 100: request X on 5 in 3".to_owned(), format!("provider 100: request {parts} on 6 in 3")];
    assert_eq!(requests, expected);
    bench.image(A, 6, &[(22, 1)]);
    let images: Vec<_> = bench.log.take().into_iter().filter(|said| said.contains("image of")).collect();
    assert_eq!(images, [format!("peer 7: image of {parts} as item 1 after #1: ok 22=1")]);
}

#[test]
fn an_image_has_the_whole_key_with_our_service() {
    let key = Key { name_type: Some(2), ..Key::item(1, b"A") };
    let mut item = CachedItem::default();
    item.on_refresh(&RefreshMsg::parse(&refresh(5, "A", &[(22, 1)])).expect("legal"), &FieldRules::default())
        .expect("legal");
    let form = crate::RefreshForm { solicited: true, part_bytes: 1000 };
    let mut sent = Vec::new();
    item.encode_refresh(with_type("A", 2), form, &mut Scratch::default(), |bytes| sent.push(bytes.to_vec()));
    assert_eq!(RefreshMsg::parse(&sent[0]).expect("legal").key, Some(key));
    let status = status_bytes(with_type("A", 2), SUSPECT);
    assert_eq!(StatusMsg::parse(&status).expect("legal").key, Some(key));
}

#[test]
fn a_post_off_stream_changes_the_item_that_its_key_names() {
    let posts = BTreeMap::from([("BINANCE".to_owned(), PostRoute::Cache)]);
    let service_ids = BTreeMap::from([("BINANCE".to_owned(), 1)]);
    let mut bench = Bench::new(DistributorConfig { posts, service_ids, ..DistributorConfig::default() });
    bench.provider_logs_in(PROVIDER);
    bench.announce(PROVIDER, &[service(3, true)]);
    bench.core.on_peer_connected(PEER);
    bench.peer(T0, &LinkUp::Hello { peer: 1, name: b"test" });
    let theirs = Key::item(3, b"A");
    bench.provider(T0, PROVIDER, &keyed(theirs, -5, &[(22, 1)]));
    bench.provider(T0, PROVIDER, &keyed(Key { name_type: Some(2), ..theirs }, -6, &[(22, 2)]));
    let payload = fields(&[(22, 7)]);
    let post = |key: Key<'static>| {
        let msg = rwf::PostMsg {
            ack: true,
            post_id: Some(9),
            complete: true,
            key: Some(key),
            payload: &payload,
            ..rwf::PostMsg::new(Domain::MARKET_PRICE, 1, DataType::FIELD_LIST)
        };
        msg.to_vec().expect("legal")
    };
    let ours = Key::item(1, b"A");
    let message = post(Key { name_type: Some(2), ..ours });
    bench.peer(T0, &LinkUp::ClientMessage { conversation: 70, key: item(""), message: &message });
    bench.interest(T0, "A");
    bench.peer(T0, &LinkUp::Interest { key: with_type("A", 2) });
    let images: Vec<_> = bench.log.take().into_iter().filter(|said| said.contains("image of")).collect();
    assert!(images[0].ends_with("22=1") && images[1].ends_with("22=7"), "{images:?}");
    let data = vec![0; crate::KEY_ATTRIBUTES_BYTES_MAX + 1].leak();
    let long = Key { attributes: Some(Attributes { container_type: DataType::OPAQUE, data }), ..ours };
    let message = post(long);
    bench.peer(T0, &LinkUp::ClientMessage { conversation: 70, key: item(""), message: &message });
    assert_eq!(bench.log.take(), ["peer 7: answer for 70: nak 9 invalid content"]);
    assert_eq!((bench.counters.posts_cached.get(), bench.counters.posts_refused.get()), (1, 1));
    bench.provider(T0, PROVIDER, &keyed(Key { service_id: Some(3), ..long }, -9, &[(22, 1)]));
    assert_eq!((bench.counters.items.get(), bench.counters.messages_refused.get()), (2, 1));
}

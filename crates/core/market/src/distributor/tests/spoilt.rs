//! Messages of providers that cannot be read.

use super::dialled::{A, Script, config};
use super::*;

/// A field list that says it has a field more than it has.
const CUT: &[u8] = &[8, 0, 2, 0, 22, 2, 14, 7];
const SUSPECTED: &str = "open suspect a message of the provider could not be read";

fn update_of(stream_id: i32, container_type: DataType, payload: &[u8]) -> Vec<u8> {
    let msg = UpdateMsg { payload, ..UpdateMsg::new(Domain::MARKET_PRICE, stream_id, container_type) };
    msg.to_vec().expect("legal")
}

fn notice(name: &str) -> String {
    format!("notice on 1: item \"{name}\" (market price) is suspect until its next image: ")
}

impl Bench {
    /// A published on stream -5, B on -6, both wanted.
    fn with_two_items() -> Bench {
        let mut bench = Bench::running();
        for (stream, name) in [(-5, "A"), (-6, "B")] {
            bench.provider(T0, PROVIDER, &refresh(stream, name, &[(22, 1)]));
            bench.interest(T0, name);
        }
        bench.log.take();
        bench
    }
}

#[test]
fn an_update_that_cannot_be_read_makes_its_item_suspect_until_the_next_image_and_no_other() {
    let mut bench = Bench::with_two_items();
    bench.provider(T0, PROVIDER, &update_of(-5, DataType::FIELD_LIST, CUT));
    let log = bench.log.take();
    assert!(log[0].starts_with(&notice("A")), "{log:?}");
    assert_eq!(log[1..], [format!("1 Status #3 item 1: {SUSPECTED}")]);
    let listed: Vec<_> = bench.core.spoilt_items().map(|s| (s.key.name.to_vec(), s.is_suspect)).collect();
    assert_eq!(listed, [(b"A".to_vec(), true)]);
    bench.provider(T0, PROVIDER, &update(-5, None, &[(25, 2)]));
    bench.provider(T0, PROVIDER, &update(-6, None, &[(25, 3)]));
    assert_eq!(bench.log.take(), ["1 Update #4 item 1: 25=2", "1 Update #5 item 2: 25=3"]);
    bench.provider(T0, PROVIDER, &Script::status(-5, State::OPEN_OK));
    assert_eq!(bench.log.take(), [format!("1 Status #6 item 1: {SUSPECTED}")], "words do not mend it");
    bench.peer(T0, &LinkUp::ImageRequest { key: item("A") });
    assert!(bench.log.take()[0].contains(": suspect 22="));
    bench.provider(T0, PROVIDER, &refresh(-5, "A", &[(22, 9)]));
    assert_eq!(bench.log.take(), ["1 Refresh #7 item 1: ok 22=9"]);
    assert!(bench.core.spoilt_items().all(|s| !s.is_suspect));
    assert_eq!((bench.counters.items_spoilt.get(), bench.counters.messages_refused.get()), (1, 1));
}

#[test]
fn a_map_with_keys_of_another_type_does_so_too() {
    let mut bench = Bench::running();
    let map = |key_type, key: &[u8]| {
        let head = rwf::MapHead::new(key_type, DataType::NO_DATA);
        rwf::encode_to_vec(|w| {
            w.map(&head, |m| match key_type {
                DataType::UINT => m.entry(rwf::MapAction::Add, 7_u64, None, |_| ()),
                _ => m.entry(rwf::MapAction::Add, rwf::AsciiString(key), None, |_| ()),
            });
        })
        .expect("legal")
    };
    let payload = map(DataType::ASCII_STRING, b"order");
    let image = RefreshMsg {
        complete: true,
        key: Some(Key::item(3, b"A")),
        payload: &payload,
        ..RefreshMsg::new(Domain::MARKET_PRICE, -5, DataType::MAP)
    };
    bench.provider(T0, PROVIDER, &image.to_vec().expect("legal"));
    bench.interest(T0, "A");
    bench.log.take();
    bench.provider(T0, PROVIDER, &update_of(-5, DataType::MAP, &map(DataType::UINT, b"")));
    let log = bench.log.take();
    assert!(log[0].starts_with(&notice("A")), "{log:?}");
    assert_eq!(log[1..], [format!("1 Status #2 item 1: {SUSPECTED}")]);
}

#[test]
fn an_image_that_cannot_be_read_leaves_none_and_updates_wait_for_the_next() {
    let mut bench = Bench::with_two_items();
    let mut bad = refresh(-5, "A", &[(22, 1)]);
    bad.truncate(bad.len() - 1);
    bench.provider(T0, PROVIDER, &bad);
    let log = bench.log.take();
    assert_eq!(log[1..], [format!("1 Status #3 item 1: {SUSPECTED}")], "{log:?}");
    bench.provider(T0, PROVIDER, &update(-5, None, &[(25, 2)]));
    bench.peer(T0, &LinkUp::ImageRequest { key: item("A") });
    assert_eq!(bench.log.take(), [format!("peer 7: A {SUSPECTED}")]);
    bench.provider(T0, PROVIDER, &refresh(-5, "A", &[(22, 9)]));
    let log = bench.log.take();
    assert_eq!(log[0], "1 Refresh #4 item 1: ok 22=9");
    assert!(
        log.last().is_some_and(|l| l.contains("image of A as item 1") && l.ends_with("ok 22=9")),
        "{log:?}"
    );
}

#[test]
fn a_message_cut_behind_its_head_costs_its_item_and_one_about_nothing_nothing() {
    let mut bench = Bench::with_two_items();
    // The flags say that there is a sequence number, and the head ends.
    let mut cut = update(-5, None, &[(22, 2)]);
    let flags = 8;
    cut[flags] |= 0x10;
    cut[0..2].copy_from_slice(&9_u16.to_be_bytes());
    bench.provider(T0, PROVIDER, &cut[..11]);
    assert_eq!(bench.log.take()[1..], [format!("1 Status #3 item 1: {SUSPECTED}")]);
    rwf::set_stream_id(&mut cut, -99).expect("it has one");
    bench.provider(T0, PROVIDER, &cut[..11]);
    let log = bench.log.take();
    assert!(log.len() == 1 && log[0].contains("about no known item"), "{log:?}");
    assert_eq!((bench.counters.items_spoilt.get(), bench.counters.messages_refused.get()), (1, 2));
    assert_eq!(bench.counters.providers.get(), 1);
}

#[test]
fn of_a_flood_of_bad_messages_a_few_are_told_and_all_are_counted() {
    let mut bench = Bench::with_two_items();
    for _ in 0..1000 {
        bench.provider(T0, PROVIDER, &update_of(-5, DataType::FIELD_LIST, CUT));
    }
    let log = bench.log.take();
    assert_eq!(log.iter().filter(|l| l.starts_with("notice")).count(), 10);
    assert_eq!(log.iter().filter(|l| l.contains("Status")).count(), 1, "peers are told once");
    bench.provider(LATER, PROVIDER, &update_of(-5, DataType::FIELD_LIST, CUT));
    assert!(bench.log.take()[0].ends_with("; 990 more such messages since the last line"));
    assert_eq!(bench.counters.items_spoilt.get(), 1001);
}

#[test]
fn an_item_that_is_asked_for_is_asked_for_again_and_the_connection_stays() {
    let mut bench = Bench::dialled(config(), &[A]);
    for (name, stream) in [("X", 5), ("Y", 6)] {
        bench.interest(T0, name);
        bench.image(A, stream, &[(22, 1)]);
    }
    bench.log.take();
    let mut bad = update(5, None, &[(22, 2)]);
    bad.truncate(bad.len() - 1);
    bench.provider(T0, A, &bad);
    let log = bench.said();
    assert_eq!(log[1..], ["provider 100: close 5".to_owned(), format!("1 Status #3 item 1: {SUSPECTED}")]);
    bench.provider(T0, A, &update(6, None, &[(22, 2)]));
    bench.wake(T0 + Duration::from_secs(6));
    assert_eq!(bench.said(), ["1 Update #4 item 2: 22=2", "provider 100: request X on 7 in 3"]);
}

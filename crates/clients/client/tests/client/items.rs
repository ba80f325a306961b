//! The life of items: answers, ends, recoveries, images.

use std::sync::Arc;
use std::time::Duration;

use rdm::ToVec;
use rdm::item::{ItemRequest, View};
use rdm::login::Features;
use rwf::{
    AckMsg, Buffer, DataState, DataType, Domain, GenericMsg, Key, MapAction, MapHead, Priority, Qos, Real,
    RefreshMsg, RequestMsg, State, StateCode, StatusMsg, StreamState, UpdateMsg, UpdateType, Value,
    encode_to_vec,
};
use tickcast_client::{ConsumerConfig, ConsumerEvent, Endpoint, ItemHandle, ItemRequestSpec, SubscribeError};

use crate::consumers::{Consumers, plain};
use crate::world::{fields, image, status, update};

const SECOND: Duration = Duration::from_secs(1);

fn state(stream: StreamState, text: &str) -> State<'_> {
    State::new(stream, DataState::Suspect).because(StateCode::NONE, text)
}

/// A world with the item I on stream 3, not answered yet.
fn asked(change: impl FnOnce(&mut ConsumerConfig)) -> (Consumers, ItemHandle) {
    let mut world = plain(change);
    world.manners.sends_images = false;
    let handle = world.item("I");
    world.begin();
    assert_eq!(world.server().requests(), [(3, "I".into())]);
    (world, handle)
}

/// The same, answered.
fn open(change: impl FnOnce(&mut ConsumerConfig)) -> (Consumers, ItemHandle) {
    let (mut world, handle) = asked(change);
    world.say(&RefreshMsg { solicited: true, payload: &fields(1), ..image(3, 1) });
    assert_eq!(world.words(), ["I refresh open/ok"]);
    (world, handle)
}

#[test]
fn events_say_which_item_what_kind_which_number_and_what_is_in_it() {
    let mut world = plain(|_| ());
    world.manners.sends_images = false;
    let spec = ItemRequestSpec { tag: 77, ..ItemRequestSpec::new("S", "I") };
    let handle = world.core.subscribe(&spec).expect("new");
    world.begin();
    let payload = fields(5);
    let msg = UpdateMsg { update_type: UpdateType::QUOTE, seq_num: Some(9), ..update(3, &payload) };
    let bytes = msg.to_vec().expect("legal");
    world.server().connection.outbound().push(&bytes).expect("room");
    let out = world.server().connection.outbound().flush().to_vec();
    let (now, mut count) = (world.now, 0);
    world.core.on_bytes(now, &out, &mut |event: ConsumerEvent<'_>| {
        let ConsumerEvent::Item(event) = event else { panic!("an item event") };
        assert_eq!((event.handle(), event.tag(), event.name(), event.service()), (handle, 77, "I", "S"));
        assert_eq!((event.domain(), event.update_type()), (Domain::MARKET_PRICE, Some(UpdateType::QUOTE)));
        assert_eq!((event.seq_num(), event.bytes()), (Some(9), Some(&bytes[..])));
        assert_eq!(event.payload(), (DataType::FIELD_LIST, &payload[..]));
        assert!(event.is_update() && !event.is_refresh() && !event.is_final() && event.image().is_none());
        assert_eq!(event.field(25i16), Ok(Some(Value::Unknown(&[12, 6]))));
        count += 1;
    });
    assert_eq!(count, 1);
}

#[test]
fn an_item_that_the_server_closes_has_ended() {
    for stream in [StreamState::Closed, StreamState::Redirected] {
        let (mut world, handle) = asked(|_| ());
        world.say(&status(3, state(stream, "gone")));
        assert_eq!(world.words(), [format!("I status {stream}/suspect, \"gone\", final")]);
        assert!(world.core.item_name(handle).is_none() && !world.core.unsubscribe(handle));
        world.say(&update(3, &fields(2)));
        world.advance(Duration::from_secs(100));
        let counts = world.counts();
        assert_eq!((counts.items.get(), counts.items_ended.get(), counts.messages_unwanted.get()), (0, 1, 1));
        assert_eq!((world.words(), counts.requests_sent.get()), (vec![], 1));
        let again = world.item("I");
        assert_ne!(again, handle, "the handle is not given again");
        world.settle();
        assert_eq!(world.server().requests(), [(4, "I".into())], "nor the stream");
    }
}

#[test]
fn a_refresh_can_end_an_item_too() {
    let (mut world, _) = asked(|_| ());
    let closed = state(StreamState::Closed, "last image");
    world.say(&RefreshMsg { state: closed, payload: &fields(1), ..image(3, 1) });
    assert_eq!(world.words(), ["I refresh closed/suspect, \"last image\", final"]);
}

#[test]
fn an_item_that_is_closed_for_now_is_shown_suspect_and_asked_for_again_after_a_while() {
    let (mut world, handle) = open(|config| config.item_retry_delay_ms = 2_000);
    world.say(&status(
        3,
        state(StreamState::ClosedRecover, "try later").because(StateCode::TIMEOUT, "try later"),
    ));
    assert_eq!(world.words(), ["I status open/suspect, timeout, \"try later\""]);
    world.advance(Duration::from_millis(1_999));
    assert_eq!(world.server().requests(), []);
    world.advance(Duration::from_millis(1));
    assert_eq!(world.server().requests(), [(4, "I".into())]);
    world.say(&update(3, &fields(3)));
    world.say(&RefreshMsg { payload: &fields(4), ..image(4, 2) });
    assert_eq!(world.words(), ["I refresh open/ok"], "what comes on the old stream is nobody's");
    assert_eq!(world.core.item_state(handle).map(|state| state.data), Some(DataState::Ok));
    let counts = world.counts();
    assert_eq!((counts.items_rested.get(), counts.items_open.get()), (1, 1));
}

#[test]
fn an_item_that_rests_when_the_connection_is_lost_is_asked_for_on_the_next() {
    let (mut world, _) = open(|config| config.item_retry_delay_ms = 3_600_000);
    world.say(&status(3, state(StreamState::ClosedRecover, "")));
    world.cut();
    world.words();
    world.manners.sends_images = true;
    world.advance(SECOND);
    assert_eq!(world.item_words(), ["I refresh open/ok"]);
}

#[test]
fn without_single_open_each_loss_ends_the_item() {
    type End = fn(&mut Consumers);
    let ends: [(End, &str); 3] = [
        (
            |w| w.say(&status(3, state(StreamState::ClosedRecover, "x"))),
            "closed-recover/suspect, \"x\", final",
        ),
        (Consumers::cut, "closed-recover/suspect, \"connection to the server lost\", final"),
        (
            |w| w.change_service(1, |service| service.state.up = false),
            "closed-recover/suspect, \"service is down\", final",
        ),
    ];
    for (end, words) in ends {
        let (mut world, handle) = open(|config| config.single_open = false);
        end(&mut world);
        assert_eq!(world.item_words(), [format!("I status {words}")]);
        assert!(world.core.item_name(handle).is_none() && world.core.item_count() == 0);
    }
}

#[test]
fn a_request_without_an_answer_is_closed_and_sent_again() {
    let (mut world, _) = asked(|config| config.item_timeout_ms = 5_000);
    world.advance(Duration::from_millis(4_999));
    assert_eq!(world.words(), [""; 0]);
    world.advance(Duration::from_millis(1));
    assert_eq!(world.words(), ["I status open/suspect, timeout, \"request not answered\""]);
    assert_eq!((world.server().closes(), world.server().requests()), (vec![3], vec![(4, "I".into())]));
    assert_eq!(world.counts().requests_timed_out.get(), 1);
    world.say(&RefreshMsg { payload: &fields(1), ..image(4, 1) });
    world.advance(Duration::from_secs(100));
    assert_eq!(
        (world.words(), world.counts().requests_timed_out.get()),
        (vec!["I refresh open/ok".into()], 1)
    );
}

#[test]
fn an_open_status_is_an_answer_though_no_image() {
    let (mut world, handle) = asked(|config| config.item_timeout_ms = 5_000);
    world.say(&status(
        3,
        State::new(StreamState::Open, DataState::Suspect).because(StateCode::NONE, "coming"),
    ));
    world.advance(Duration::from_secs(100));
    assert_eq!(world.words(), ["I status open/suspect, \"coming\""]);
    assert_eq!((world.counts().requests_timed_out.get(), world.server().closes()), (0, vec![]));
    assert_eq!(world.core.item_state(handle).map(|state| state.data), Some(DataState::Suspect));
}

#[test]
fn a_status_without_state_and_one_without_change_leave_the_state() {
    let (mut world, _) = open(|_| ());
    world.say(&StatusMsg {
        permission_data: Some(b"lock"),
        ..StatusMsg::new(Domain::MARKET_PRICE, 3, DataType::NO_DATA)
    });
    world.say(&status(
        3,
        State::new(StreamState::Open, DataState::NoChange).because(StateCode::NONE, "by the way"),
    ));
    assert_eq!(world.words(), ["I status open/ok", "I status open/ok, \"by the way\""]);
    assert_eq!(world.counts().statuses_in.get(), 2);
}

#[test]
fn a_snapshot_ends_with_its_last_part_and_nothing_is_closed() {
    let mut world = plain(|config| config.keep_images = true);
    world.manners.sends_images = false;
    let spec = ItemRequestSpec { streaming: false, ..ItemRequestSpec::new("S", "I") };
    let handle = world.core.subscribe(&spec).expect("new");
    world.begin();
    let part = |part_num, complete| RefreshMsg { part_num: Some(part_num), complete, ..image(3, 1) };
    world.say(&RefreshMsg { payload: &fields(1), ..part(0, false) });
    world.say(&status(3, State::OPEN_OK));
    world.say(&RefreshMsg { payload: &fields(2), ..part(1, true) });
    assert_eq!(
        world.words(),
        ["I refresh non-streaming/ok", "I status non-streaming/ok", "I refresh non-streaming/ok, final"]
    );
    assert!(world.core.item_name(handle).is_none());
    world.advance(SECOND);
    assert_eq!(world.server().closes(), [0; 0]);
}

#[test]
fn an_item_that_is_unsubscribed_is_closed_on_the_server_and_silent() {
    let (mut world, handle) = open(|_| ());
    assert!(world.core.unsubscribe(handle));
    world.settle();
    assert_eq!(world.server().closes(), [3]);
    world.say(&update(3, &fields(2)));
    assert_eq!(
        (world.words(), world.counts().messages_unwanted.get(), world.core.item_count()),
        (vec![], 1, 0)
    );
    assert!(!world.core.unsubscribe(handle));
    let waiting = world.core.subscribe(&ItemRequestSpec::new("UNKNOWN", "I")).expect("new");
    assert!(world.core.unsubscribe(waiting));
    world.settle();
    assert_eq!((world.server().closes(), world.words()), (vec![], vec![]));
}

#[test]
fn what_cannot_be_subscribed_is_refused_with_the_reason() {
    let mut world = plain(|config| config.items_max = 2);
    let handle = world.item("I");
    let mut subscribe = |spec: &ItemRequestSpec<'_>| world.core.subscribe(spec);
    let again = subscribe(&ItemRequestSpec::new("S", "I"));
    assert_eq!(again, Err(SubscribeError::AlreadyOpen(handle)));
    let long = "x".repeat(256);
    for (service, name, bytes) in [("S", "", 0), ("", "I", 0), ("S", &long, 256), (&long, "I", 256)] {
        let error = SubscribeError::NameLength { bytes, max: 255 };
        assert_eq!(subscribe(&ItemRequestSpec::new(service, name)), Err(error));
    }
    let login = ItemRequestSpec { domain: Domain::LOGIN, ..ItemRequestSpec::new("S", "J") };
    assert_eq!(subscribe(&login), Err(SubscribeError::NotAnItemDomain(Domain::LOGIN)));
    let book = ItemRequestSpec { domain: Domain::MARKET_BY_PRICE, ..ItemRequestSpec::new("S", "I") };
    assert!(subscribe(&book).is_ok(), "another domain is another item");
    assert_eq!(subscribe(&ItemRequestSpec::new("S", "J")), Err(SubscribeError::TooManyItems { max: 2 }));
    assert_eq!(world.core.find("S", Domain::MARKET_PRICE, "I"), Some(handle));
    assert_eq!(world.core.find("S", Domain::MARKET_PRICE, "J"), None);
    assert_eq!(world.core.item_name(handle), Some(("S", "I")));
}

#[test]
fn private_streams_of_one_item_are_as_many_as_one_likes() {
    let mut world = plain(|_| ());
    world.manners.sends_images = false;
    let spec = ItemRequestSpec { private_stream: true, ..ItemRequestSpec::new("S", "I") };
    let handles = [0; 2].map(|_| world.core.subscribe(&spec).expect("new"));
    world.item("I");
    world.begin();
    let private = |bytes: &Vec<u8>| RequestMsg::parse(bytes).is_ok_and(|request| request.private_stream);
    assert_eq!(world.server().inbox.iter().map(private).collect::<Vec<_>>(), [true, true, false]);
    assert!(world.core.unsubscribe(handles[0]));
    assert!(
        world.core.find("S", Domain::MARKET_PRICE, "I").is_some(),
        "the shared one is still known by its name"
    );
    assert!(world.core.subscribe(&spec).is_ok(), "and stands in nobody's way");
}

#[test]
fn a_request_says_what_the_application_wants() {
    let delayed = Qos { timeliness: rwf::Timeliness::Delayed(15), ..Qos::REAL_TIME };
    let ask = |features: Features| {
        let mut world = plain(|_| ());
        world.manners.sends_images = false;
        world.manners.features = features;
        world.manners.services[0].info.qos = vec![delayed];
        let spec = ItemRequestSpec {
            domain: Domain::MARKET_BY_PRICE,
            priority: Priority { class: 3, count: 4 },
            view: Some([22, 25].into()),
            key_in_updates: true,
            ..ItemRequestSpec::new("S", "I")
        };
        world.core.subscribe(&spec).expect("new");
        world.begin();
        world.server().inbox.remove(0)
    };
    let bytes = ask(Features { view_requests: Some(true), ..Features::default() });
    let msg = RequestMsg::parse(&bytes).expect("a request");
    let request = ItemRequest::parse(&msg).expect("legal");
    assert_eq!(
        (request.domain, request.streaming, request.key_in_updates),
        (Domain::MARKET_BY_PRICE, true, true)
    );
    assert_eq!(request.priority, Some(Priority { class: 3, count: 4 }));
    assert_eq!((request.qos, request.worst_qos), (Some(delayed), None), "the best that the service has");
    assert_eq!(request.view, Some(View::Fields([22, 25].into())));
    assert_eq!(msg.key, Key::item(1, b"I"));
    let bytes = ask(Features::default());
    let request = ItemRequest::parse(&RequestMsg::parse(&bytes).expect("a request")).expect("legal");
    assert_eq!(request.view, None, "a server that does not know views gets none");
}

#[test]
fn images_have_everything_that_came_and_are_suspect_when_the_item_is() {
    let (mut world, handle) = open(|config| config.keep_images = true);
    let bid = |world: &Consumers| {
        let bid = world.core.image_field(handle, 22i16).expect("legal");
        bid.map(|value| format!("{value:?}"))
    };
    world.say(&update(3, &fields(7)));
    let seven = Some(format!("{:?}", Value::Unknown(&[12, 7])));
    assert_eq!(bid(&world), seven);
    world.cut();
    assert_eq!(bid(&world), seven, "the last known values stay");
    let suspect =
        |world: &Consumers| world.core.image(handle).expect("kept").state().data == DataState::Suspect;
    assert!(suspect(&world));
    world.manners.sends_images = true;
    world.advance(SECOND);
    assert!(!suspect(&world) && bid(&world) != seven);
    assert!(world.core.unsubscribe(handle));
    assert!(world.core.image(handle).is_none());
}

#[test]
fn an_image_in_parts_that_is_cut_off_begins_anew() {
    let (mut world, handle) = asked(|config| config.keep_images = true);
    let part = |stream_id, complete| RefreshMsg { complete, ..image(stream_id, 1) };
    let first = encode_to_vec(|w| book(w, &[b"a", b"b"])).expect("legal");
    let map = |msg: RefreshMsg<'static>| RefreshMsg { container_type: DataType::MAP, ..msg };
    world.say(&RefreshMsg { payload: &first, ..map(part(3, false)) });
    assert!(world.core.image(handle).is_none(), "it is not whole");
    world.cut();
    world.words();
    world.advance(SECOND);
    // EMA providers number no parts and clear no caches.
    let second = encode_to_vec(|w| book(w, &[b"c"])).expect("legal");
    world.say(&RefreshMsg { payload: &second, ..map(part(3, true)) });
    let market::image::Image::Map(map) = world.core.image(handle).expect("whole").image() else {
        panic!("a map")
    };
    assert_eq!((map.len(), map.entry(b"c").is_some()), (1, true));
}

fn book(w: &mut rwf::Writer<'_>, keys: &[&[u8]]) {
    w.map(&MapHead::new(DataType::BUFFER, DataType::FIELD_LIST), |m| {
        for key in keys {
            m.entry(MapAction::Add, Buffer(key), None, |w| {
                w.field_list(|f| f.put(3427, Real::decimal(1, 0)))
            });
        }
    });
}

#[test]
fn a_payload_that_cannot_be_merged_costs_the_image_alone() {
    let (mut world, handle) = open(|config| config.keep_images = true);
    let cut = &fields(9)[..4];
    world.say(&update(3, cut));
    assert_eq!((world.words(), world.counts().images_spoilt.get()), (vec!["I update open/ok".into()], 1));
    assert!(world.core.image(handle).is_none() && world.core.is_logged_in());
    world.say(&RefreshMsg { payload: cut, ..image(3, 2) });
    assert_eq!(world.counts().images_spoilt.get(), 2);
    world.say(&RefreshMsg { payload: &fields(2), ..image(3, 3) });
    assert!(world.core.image(handle).is_some(), "the next refresh makes it anew");
}

#[test]
fn generic_messages_and_acks_are_handed_on() {
    let (mut world, _) = open(|_| ());
    world
        .say(&GenericMsg { seq_num: Some(4), ..GenericMsg::new(Domain::MARKET_PRICE, 3, DataType::NO_DATA) });
    world.say(&AckMsg::new(Domain::MARKET_PRICE, 3, DataType::NO_DATA));
    assert_eq!(world.words(), ["I generic open/ok", "I ack open/ok"]);
    world.say(&AckMsg::new(Domain::MARKET_PRICE, 1, DataType::NO_DATA));
    let counts = world.counts();
    assert_eq!((counts.generics_in.get(), counts.acks_in.get()), (1, 2));
}

#[test]
fn a_hundred_thousand_items_wait_for_room_in_the_backlog_and_all_are_asked_for() {
    let mut world = plain(|config| config.backlog_max_bytes = 65_536);
    let names: Vec<String> = (0..100_000).map(|n| format!("ITEM.{n}")).collect();
    for name in &names {
        world.item(name);
    }
    world.settle();
    let counts = world.counts();
    assert!(counts.requests_held.get() > 10, "{}", counts.requests_held.get());
    assert_eq!((counts.requests_sent.get(), counts.items_open.get()), (100_000, 100_000));
    let shown: std::collections::BTreeSet<Arc<str>> =
        world.item_events().into_iter().map(|event| event.name).collect();
    assert_eq!(shown.len(), names.len());
}

#[test]
fn closes_that_find_the_backlog_full_go_later() {
    let mut world = plain(|config| config.backlog_max_bytes = 65_536);
    let handles: Vec<ItemHandle> = (0..20_000).map(|n| world.item(&format!("ITEM.{n}"))).collect();
    world.begin();
    for handle in handles {
        assert!(world.core.unsubscribe(handle));
    }
    world.settle();
    assert_eq!(world.server().closes().len(), 20_000);
}

#[test]
fn waits_of_a_lost_connection_mean_nothing_on_the_next() {
    let (mut world, _) = asked(|config| config.item_timeout_ms = 15_000);
    world.advance(10 * SECOND);
    world.cut();
    world.advance(SECOND);
    assert_eq!(world.server().requests(), [(3, "I".into())], "on the same stream id as before");
    world.words();
    world.advance(10 * SECOND);
    assert_eq!(world.words(), [""; 0], "the request is 10 seconds old, not 21");
    let (mut world, _) = open(|config| config.item_retry_delay_ms = 10_000);
    world.say(&status(3, state(StreamState::ClosedRecover, "")));
    world.advance(SECOND);
    world.cut();
    world.advance(4 * SECOND);
    assert_eq!(world.server().requests(), [(3, "I".into())]);
    world.say(&status(3, state(StreamState::ClosedRecover, "")));
    world.advance(9 * SECOND);
    assert_eq!(world.server().requests(), [], "it has rested for 9 seconds, not 14");
    world.advance(SECOND);
    assert_eq!(world.server().requests(), [(4, "I".into())]);
}

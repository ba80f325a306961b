//! What an application tells the server: other wishes, posts, generic messages, another login.

use std::time::Duration;

use rdm::ToVec;
use rdm::item::{ItemClose, ItemRequest, Target, View};
use rdm::login::{BatchSupport, Features, LoginRequest, NameType};
use rdm::post::{ack, nak};
use rwf::{
    DataState, DataType, Domain, GenericMsg, Msg, NakCode, PostMsg, Priority, RefreshMsg, RequestMsg, State,
    StateCode, StatusMsg, StreamState,
};
use tickcast_client::{
    Capability, ConsumerConfig, ConsumerSendError, GenericSpec, ItemHandle, ItemRequestSpec, ItemView,
    PostId, PostSpec,
};

use crate::consumers::{Consumers, plain};
use crate::world::{fields, image, status};

const SECOND: Duration = Duration::from_secs(1);

/// What EMA's interactive provider announces.
const ALL: Features = Features {
    omm_post: Some(true),
    batch_requests: Some(BatchSupport::ALL),
    view_requests: Some(true),
    optimized_pause_resume: Some(true),
    standby: None,
    standby_mode: None,
    provider_dictionary_download: None,
    enhanced_symbol_list: None,
};

/// A world with the item I open on stream 3, at a server that can do `features`.
fn open(features: Features, change: impl FnOnce(&mut ConsumerConfig)) -> (Consumers, ItemHandle) {
    let mut world = plain(change);
    world.manners.sends_images = false;
    world.manners.features = features;
    let handle = world.item("I");
    world.begin();
    assert_eq!(world.server().requests(), [(3, "I".into())]);
    world.say(&RefreshMsg { solicited: true, payload: &fields(1), ..image(3, 1) });
    world.words();
    (world, handle)
}

/// The one message that the server has got, as `parse` reads it.
fn only<R>(world: &mut Consumers, parse: impl Fn(Msg<'_>) -> R) -> R {
    world.settle();
    let inbox = std::mem::take(&mut world.server().inbox);
    assert_eq!(inbox.len(), 1, "{inbox:x?}");
    parse(Msg::parse(&inbox[0]).expect("legal"))
}

/// Flags of the one item request that the server has got: pause, no refresh.
fn flags(world: &mut Consumers) -> (i32, bool, bool) {
    only(world, |msg| {
        let Msg::Request(request) = msg else { panic!("{msg:?}") };
        (request.stream_id, request.pause, request.no_refresh)
    })
}

#[test]
fn another_view_is_asked_for_on_the_open_stream_and_lasts_over_connections() {
    let (mut world, handle) = open(ALL, |_| ());
    let view = |msg: Msg<'_>| {
        let Msg::Request(request) = msg else { panic!("{msg:?}") };
        let request = ItemRequest::parse(&request).expect("legal");
        let Some(View::Fields(ids)) = request.view else { return (request.stream_id, vec![]) };
        assert!(!request.no_refresh && request.streaming);
        (request.stream_id, ids.to_vec())
    };
    world.core.set_view(handle, Some([22, 25].into())).expect("views are known");
    assert_eq!(only(&mut world, view), (3, vec![22, 25]));
    world.core.set_view(handle, Some([22, 25].into())).expect("legal");
    world.settle();
    assert!(world.server().inbox.is_empty(), "it has that view");
    world.cut();
    world.advance(SECOND);
    assert_eq!(only(&mut world, view), (3, vec![22, 25]));
    world.core.set_view(handle, None).expect("legal");
    world.settle();
    assert!(world.server().inbox.is_empty(), "the request is not answered yet");
    world.say(&RefreshMsg { solicited: true, payload: &fields(1), ..image(3, 1) });
    assert_eq!(only(&mut world, view), (3, vec![]));
    assert_eq!(world.counts().reissues_out.get(), 2);
}

#[test]
fn what_changes_before_the_request_goes_with_it() {
    let mut world = plain(|_| ());
    world.manners.sends_images = false;
    world.manners.features = ALL;
    let handle = world.item("I");
    world.core.pause(handle).expect("nobody knows better yet");
    world.core.set_view(handle, Some(ItemView::from(["BID"]))).expect("the same");
    world.core.set_priority(handle, Priority { class: 2, count: 9 }).expect("known");
    world.begin();
    only(&mut world, |msg| {
        let Msg::Request(request) = msg else { panic!("{msg:?}") };
        let request = ItemRequest::parse(&request).expect("legal");
        assert_eq!((request.pause, request.no_refresh), (true, false));
        assert_eq!(request.view, Some(View::Elements([&b"BID"[..]].into())));
        assert_eq!(request.priority, Some(Priority { class: 2, count: 9 }));
    });
    assert_eq!(world.counts().reissues_out.get(), 0);
}

#[test]
fn an_item_is_paused_without_an_image_and_resumed_with_one() {
    let (mut world, handle) = open(ALL, |_| ());
    world.core.pause(handle).expect("known");
    assert_eq!(flags(&mut world), (3, true, true));
    world.core.set_priority(handle, Priority { class: 2, count: 2 }).expect("known");
    assert_eq!(flags(&mut world), (3, true, true), "it stays paused");
    world.core.resume(handle).expect("known");
    assert_eq!(flags(&mut world), (3, false, false));
    world.core.request_image(handle).expect("known");
    assert_eq!(flags(&mut world), (3, false, false));
    world.core.pause(handle).expect("known");
    world.core.resume(handle).expect("known");
    assert_eq!(flags(&mut world), (3, false, false), "two changes in one turn are one message");
    assert!(world.core.unsubscribe(handle));
    assert_eq!(world.core.resume(handle), Err(ConsumerSendError::UnknownItem));
}

#[test]
fn all_items_are_paused_by_the_login_on_each_connection_anew() {
    let (mut world, _) = open(ALL, |_| ());
    world.manners.logs_in = false;
    let login = |msg: Msg<'_>| {
        let Msg::Request(request) = msg else { panic!("{msg:?}") };
        let request = LoginRequest::parse(&request).expect("legal");
        (request.stream_id, request.pause, request.no_refresh)
    };
    world.core.pause_all().expect("known");
    world.core.pause_all().expect("known");
    assert_eq!(only(&mut world, login), (1, true, true));
    world.manners.logs_in = true;
    world.cut();
    world.advance(SECOND);
    world.server().requests();
    assert!(world.core.is_logged_in() && world.server().inbox.is_empty());
    assert_eq!(world.counts().logins_reissued.get(), 2, "the pause was repeated and answered");
    world.manners.logs_in = false;
    world.core.resume_all().expect("known");
    assert_eq!(only(&mut world, login), (1, false, false));
}

#[test]
fn a_token_takes_the_place_of_the_user_at_once() {
    let (mut world, _) = open(ALL, |_| ());
    world.manners.logs_in = false;
    assert!(world.core.set_login_token(&"x".repeat(70_000)).is_err());
    world.core.set_login_token("secret").expect("short enough");
    only(&mut world, |msg| {
        let Msg::Request(request) = msg else { panic!("{msg:?}") };
        let request = LoginRequest::parse(&request).expect("legal");
        assert_eq!(request.name_type, NameType::AUTHENTICATION_TOKEN);
        assert_eq!((request.name, request.authentication_token), (&[0][..], Some(&b"secret"[..])));
        assert_eq!(request.position, Some(&b"10.1.2.3/apphost"[..]));
    });
    assert_eq!(world.counts().logins_reissued.get(), 1);
}

#[test]
fn what_the_server_does_not_announce_is_refused_to_the_application() {
    let (mut world, handle) = open(Features::default(), |_| ());
    let refused = |capability| Err(ConsumerSendError::NotSupported(capability));
    assert_eq!(world.core.pause(handle), refused(Capability::PauseResume));
    assert_eq!(world.core.pause_all(), refused(Capability::PauseResume));
    assert_eq!(world.core.set_view(handle, None), refused(Capability::Views));
    let now = world.now;
    let posted = world.core.post(now, handle, &PostSpec::default(), |w| w.bytes(&fields(1)));
    assert_eq!(posted, Err(ConsumerSendError::NotSupported(Capability::Posts)));
    assert_eq!(
        ConsumerSendError::NotSupported(Capability::Posts).to_string(),
        "the server does not announce posting"
    );
    world.settle();
    assert!(world.server().inbox.is_empty());
}

fn post(world: &mut Consumers, handle: ItemHandle, spec: &PostSpec<'_>) -> Result<PostId, ConsumerSendError> {
    let now = world.now;
    world.core.post(now, handle, spec, |w| w.bytes(&fields(7)))
}

#[test]
fn posts_name_their_item_and_are_told_as_taken_or_refused() {
    let (mut world, handle) = open(ALL, |_| ());
    let spec = PostSpec { tag: 5, seq_num: Some(3), ..PostSpec::default() };
    let id = post(&mut world, handle, &spec).expect("open");
    let on_stream = only(&mut world, |msg| {
        let Msg::Post(post) = msg else { panic!("{msg:?}") };
        assert_eq!((post.stream_id, post.domain, post.payload), (3, Domain::MARKET_PRICE, &fields(7)[..]));
        assert_eq!((post.post_id, post.seq_num, post.ack, post.complete), (Some(id.0), Some(3), true, true));
        assert_eq!(post.key.and_then(|key| key.name), Some(&b"I"[..]));
        ack(&post).expect("wanted").to_vec().expect("legal")
    });
    let (now, item) = (world.now, ("S", Domain::MARKET_BY_PRICE, "X"));
    let off = world.core.post_off_stream(now, item, &PostSpec::default(), |w| w.bytes(&fields(8)));
    let id = off.expect("logged in");
    let off_stream = only(&mut world, |msg| {
        let Msg::Post(post) = msg else { panic!("{msg:?}") };
        assert_eq!((post.stream_id, post.domain), (1, Domain::MARKET_BY_PRICE));
        assert_eq!(post.key.and_then(|key| key.service_id), Some(1));
        nak(&post, NakCode::DENIED_BY_SOURCE, "no").expect("wanted").to_vec().expect("legal")
    });
    world.say_bytes(&off_stream);
    world.say_bytes(&on_stream);
    let refused = format!("post {} of 0: Refused {{ code: denied by source, text: \"no\" }}", id.0);
    assert_eq!(world.words(), [refused, "post 1 of 5 on stream: Taken".into()]);
    world.say_bytes(&on_stream);
    world.say_bytes(&off_stream);
    assert_eq!(world.words(), ["I ack open/ok"], "nobody waits for them any more");
    let counts = world.counts();
    assert_eq!((counts.posts_out.get(), counts.posts_taken.get(), counts.posts_refused.get()), (2, 1, 1));
    assert_eq!((counts.acks_in.get(), counts.posts_unanswered.get()), (4, 0));
}

#[test]
fn each_post_is_answered_once_by_time_or_by_the_end_of_the_connection_if_not_by_an_ack() {
    let (mut world, handle) = open(ALL, |config| {
        config.post_timeout_ms = 15_000;
        config.posts_max = 2;
    });
    post(&mut world, handle, &PostSpec { tag: 1, ..PostSpec::default() }).expect("open");
    world.advance(10 * SECOND);
    post(&mut world, handle, &PostSpec { tag: 2, ..PostSpec::default() }).expect("open");
    let full = Err(ConsumerSendError::TooManyPosts { max: 2 });
    assert_eq!(post(&mut world, handle, &PostSpec::default()), full);
    let unacked = PostSpec { ack: false, ..PostSpec::default() };
    assert_eq!(post(&mut world, handle, &unacked), Ok(PostId(3)), "it waits for nothing");
    world.advance(5 * SECOND);
    assert_eq!(world.words(), ["post 1 of 1 on stream: TimedOut"]);
    world.cut();
    assert!(world.words().contains(&"post 2 of 2 on stream: Lost".to_owned()));
    assert_eq!(post(&mut world, handle, &PostSpec::default()), Err(ConsumerSendError::NotOpen));
    assert_eq!((world.counts().posts_out.get(), world.counts().posts_unanswered.get()), (3, 2));
    world.advance(30 * SECOND);
    assert!(!world.words().iter().any(|word| word.starts_with("post")));
}

#[test]
fn posts_that_cannot_go_say_why() {
    let (mut world, handle) = open(ALL, |config| config.backlog_max_bytes = 65_536);
    let now = world.now;
    let mut off = |item, len: usize| {
        let spec = PostSpec { container_type: DataType::OPAQUE, ..PostSpec::default() };
        world.core.post_off_stream(now, item, &spec, |w| w.bytes(&vec![0; len]))
    };
    let price = Domain::MARKET_PRICE;
    assert_eq!(off(("T", price, "X"), 1), Err(ConsumerSendError::UnknownService));
    assert_eq!(off(("S", price, ""), 1), Err(ConsumerSendError::NameLength { bytes: 0, max: 255 }));
    assert!(matches!(
        off(("S", price, "X"), 70_000),
        Err(ConsumerSendError::TooLong { limit_bytes: 65_536, .. })
    ));
    off(("S", price, "X"), 40_000).expect("room");
    assert!(matches!(off(("S", price, "X"), 40_000), Err(ConsumerSendError::WouldBlock { .. })));
    assert_eq!(world.counts().posts_out.get(), 1);
    assert!(world.core.unsubscribe(handle));
    assert_eq!(post(&mut world, handle, &PostSpec::default()), Err(ConsumerSendError::UnknownItem));
}

#[test]
fn generic_messages_go_both_ways() {
    let (mut world, handle) = open(Features::default(), |_| ());
    let spec = GenericSpec { seq_num: Some(4), name: Some(b"N"), ..GenericSpec::default() };
    world.core.send_generic(handle, &spec, |w| w.element_list(|e| e.put("A", 1u64))).expect("open");
    only(&mut world, |msg| {
        let Msg::Generic(generic) = msg else { panic!("{msg:?}") };
        assert_eq!((generic.stream_id, generic.domain), (3, Domain::MARKET_PRICE));
        assert_eq!((generic.seq_num, generic.complete), (Some(4), true));
        assert_eq!(generic.key.and_then(|key| key.name), Some(&b"N"[..]));
        assert_eq!(generic.container_type, DataType::ELEMENT_LIST);
    });
    world.say(&GenericMsg::new(Domain::MARKET_PRICE, 3, DataType::NO_DATA));
    assert_eq!(world.words(), ["I generic open/ok"]);
    assert_eq!((world.counts().generics_out.get(), world.counts().generics_in.get()), (1, 1));
    world.cut();
    assert_eq!(world.core.send_generic(handle, &spec, |_| ()), Err(ConsumerSendError::NotOpen));
}

const NAMES: [&str; 3] = ["A", "B", "C"];

fn batch(features: Features) -> (Consumers, Vec<ItemHandle>) {
    let mut world = plain(|_| ());
    world.manners.sends_images = false;
    world.manners.features = features;
    let spec = ItemRequestSpec { view: Some([22].into()), ..ItemRequestSpec::new("S", "") };
    let handles = world.core.subscribe_all(&spec, &NAMES);
    world.begin();
    (world, handles.into_iter().map(|handle| handle.expect("new")).collect())
}

#[test]
fn items_of_a_batch_go_in_one_message_and_are_closed_in_one() {
    let (mut world, handles) = batch(ALL);
    only(&mut world, |msg| {
        let Msg::Request(request) = msg else { panic!("{msg:?}") };
        let request = ItemRequest::parse(&request).expect("legal");
        assert!(matches!(&request.target, Target::Items { names, .. } if names[..] == [b"A", b"B", b"C"]));
        assert_eq!((request.stream_id, request.view.clone()), (3, Some(View::Fields([22].into()))));
    });
    let batch = State::new(StreamState::Closed, DataState::Ok).because(StateCode::NONE, "");
    world.say(&StatusMsg { state: Some(batch), ..status(3, batch) });
    for id in 4..=6 {
        world.say(&RefreshMsg { solicited: true, payload: &fields(1), ..image(id, 1) });
    }
    assert_eq!(world.words(), NAMES.map(|name| format!("{name} refresh open/ok")));
    assert_eq!(world.core.unsubscribe_all(&handles), 3);
    only(&mut world, |msg| {
        let Msg::Close(close) = msg else { panic!("{msg:?}") };
        let close = ItemClose::parse(&close).expect("legal");
        assert_eq!(close.streams().collect::<Vec<_>>(), [4, 5, 6]);
    });
    let counts = world.counts();
    assert_eq!(
        (counts.batches_out.get(), counts.requests_sent.get(), counts.messages_unwanted.get()),
        (2, 3, 0)
    );
}

#[test]
fn a_server_that_knows_no_batches_gets_single_messages() {
    let (mut world, handles) = batch(Features::default());
    assert_eq!(world.server().requests(), [(3, "A".into()), (4, "B".into()), (5, "C".into())]);
    assert_eq!(world.core.unsubscribe_all(&handles), 3);
    assert_eq!(world.core.unsubscribe_all(&handles), 0);
    world.settle();
    assert_eq!(world.server().closes(), [3, 4, 5]);
    assert_eq!(world.counts().batches_out.get(), 0);
}

#[test]
fn a_batch_that_is_refused_is_asked_for_item_by_item() {
    let (mut world, _) = batch(ALL);
    world.server().inbox.clear();
    world.say(&RefreshMsg { solicited: true, payload: &fields(1), ..image(4, 1) });
    let refused = State::new(StreamState::Closed, DataState::Suspect);
    let refused = refused.because(StateCode::UNABLE_TO_REQUEST_AS_BATCH, "");
    world.say(&status(3, refused));
    let singles: Vec<String> = world.server().requests().into_iter().map(|(_, name)| name).collect();
    assert_eq!(singles, ["B", "C"], "A was answered before");
    assert_eq!(world.words(), ["A refresh open/ok"]);
}

#[test]
fn a_batch_does_not_go_beyond_the_window_of_its_service() {
    let mut world = plain(|_| ());
    world.manners.sends_images = false;
    world.manners.features = ALL;
    world.manners.services[0].load.open_window = Some(2);
    world.core.subscribe_all(&ItemRequestSpec::new("S", ""), &NAMES);
    world.begin();
    let count = only(&mut world, |msg| {
        let Msg::Request(request) = msg else { panic!("{msg:?}") };
        ItemRequest::parse(&request).expect("legal").singles().count()
    });
    assert_eq!(count, 2);
    world.say(&RefreshMsg { solicited: true, payload: &fields(1), ..image(4, 1) });
    let rest = only(&mut world, |msg| matches!(msg, Msg::Request(RequestMsg { batch: false, .. })));
    assert!(rest, "the last one goes alone");
}

#[test]
fn a_post_may_carry_a_whole_message() {
    let (mut world, handle) = open(ALL, |_| ());
    let inner = rwf::UpdateMsg::new(Domain::MARKET_PRICE, 0, DataType::NO_DATA);
    let spec = PostSpec { container_type: DataType::MSG, ..PostSpec::default() };
    let now = world.now;
    world.core.post(now, handle, &spec, |w| inner.encode(w)).expect("open");
    only(&mut world, |msg| {
        let Msg::Post(PostMsg { payload, container_type, .. }) = msg else { panic!("{msg:?}") };
        assert_eq!((container_type, Msg::parse(payload).is_ok()), (DataType::MSG, true));
    });
}

//! The interactive provider's core against scripted clients.

use rdm::ToVec;
use rdm::dictionary::{DictionaryKind, DictionaryRequest};
use rdm::directory::{DirectoryMsg, DirectoryRequest};
use rdm::item::{CloseTarget, ItemClose, ItemKey, ItemRequest, Target};
use rdm::login::{LoginMsg, LoginRequest};
use rwf::{
    Buffer, DataType, Domain, MapAction, MapHead, Msg, NakCode, PostMsg, Real, State, StateCode, StreamState,
};
use server::ConnectionId;

use super::client::{Outlet, Watcher};
use super::core::{Core, Fault};
use super::port_connection::{Port, PortConnection};
use super::{ClientId, InteractiveEvent};
use crate::{
    GenericSpec, InteractiveConfig, ProviderServiceConfig, PublishError, PublishSpec, PublishedItem,
    RefreshSpec, UpdateSpec,
};

/// Messages with this in their payload cannot be JSON here.
const UNWRITABLE: &[u8] = b"not for JSON";

/// What was sent: to which connection, with which stream id.
#[derive(Default)]
struct Sent(Vec<(u32, i32, Vec<u8>)>);

impl Outlet for Sent {
    fn send(&mut self, connection: PortConnection, message: &[u8]) {
        let stream_id = Msg::parse(message).expect("legal").stream_id();
        self.0.push((number(connection), stream_id, message.to_vec()));
    }

    fn fan_out(&mut self, to: &[Watcher], message: &[u8]) -> bool {
        let is_writable = !message.windows(UNWRITABLE.len()).any(|part| part == UNWRITABLE);
        let served = to.iter().filter(|watcher| is_writable || !watcher.connection.is_websocket());
        self.0
            .extend(served.map(|watcher| (number(watcher.connection), watcher.stream_id, message.to_vec())));
        let is_image = matches!(Msg::parse(message), Ok(Msg::Refresh(_)));
        is_writable || !is_image || !to.iter().any(|watcher| watcher.connection.is_websocket())
    }
}

/// Numbers of connections at the WebSocket port; those of the RSSL port are below.
const WEB: u32 = 100;

fn at(number: u32) -> PortConnection {
    match number.checked_sub(WEB) {
        None => PortConnection::rssl(ConnectionId(number)),
        Some(number) => PortConnection::websocket(ConnectionId(number)),
    }
}

fn number(connection: PortConnection) -> u32 {
    match connection.port() {
        Port::Rssl(connection) => connection.0,
        Port::WebSocket(connection) => connection.0 + WEB,
    }
}

struct World {
    core: Core,
    sent: Sent,
}

fn world(change: impl FnOnce(&mut InteractiveConfig)) -> World {
    let service = ProviderServiceConfig { name: "S".into(), id: 1, ..ProviderServiceConfig::default() };
    let mut config = InteractiveConfig { services: vec![service], ..InteractiveConfig::default() };
    change(&mut config);
    World { core: Core::new(&config).expect("good services"), sent: Sent::default() }
}

/// A world with clients at connections 0 and 1 that are logged in.
fn two(change: impl FnOnce(&mut InteractiveConfig)) -> World {
    let mut world = world(change);
    for connection in 0..2 {
        world.connect(connection);
        world.say(connection, &LoginRequest::consumer(b"ada"));
    }
    world.core.events.clear();
    world.sent.0.clear();
    world
}

impl World {
    fn connect(&mut self, connection: u32) {
        self.core.on_connected(at(connection), "10.0.0.1:5".parse().expect("an address"), "test".into());
    }

    fn say(&mut self, connection: u32, message: &impl ToVec) {
        let bytes = message.to_vec().expect("legal");
        self.core.on_message(at(connection), &bytes, &mut self.sent).expect("the connection goes on");
    }

    fn ask(&mut self, connection: u32, stream_id: i32, name: &str) {
        self.say(connection, &request(stream_id, name));
    }

    /// The item that the application is asked for.
    fn requested(&mut self) -> PublishedItem {
        let Some(InteractiveEvent::Requested { item, .. }) = self.core.take_event() else {
            panic!("an item is asked for")
        };
        assert!(self.core.take_event().is_none(), "once");
        item
    }

    fn refresh(&mut self, item: PublishedItem, bid: i64) -> usize {
        let sent = self.core.refresh(item, &RefreshSpec::default(), fields(bid), &mut self.sent);
        sent.expect("known")
    }

    fn update(&mut self, item: PublishedItem, bid: i64) -> usize {
        self.core.update(item, &UpdateSpec::default(), fields(bid), &mut self.sent).expect("known")
    }

    /// What was sent since this was last asked, in words: to whom, on which stream, what.
    fn words(&mut self) -> Vec<String> {
        std::mem::take(&mut self.sent.0)
            .iter()
            .map(|(connection, id, bytes)| word(*connection, *id, bytes))
            .collect()
    }

    fn events(&mut self) -> Vec<InteractiveEvent> {
        std::iter::from_fn(|| self.core.take_event()).collect()
    }

    fn client(&self, connection: u32) -> ClientId {
        self.core.clients[&at(connection)].id
    }
}

fn request(stream_id: i32, name: &str) -> ItemRequest<'_> {
    ItemRequest::streaming(Domain::MARKET_PRICE, stream_id, ItemKey::new(1, name.as_bytes()))
}

fn fields(bid: i64) -> impl FnMut(&mut rwf::Writer<'_>) {
    move |w| w.field_list(|f| f.put(22, Real::decimal(bid, 0)))
}

/// A map that is too long for a message of 512 bytes.
fn book(w: &mut rwf::Writer<'_>) {
    w.map(&MapHead::new(DataType::BUFFER, DataType::FIELD_LIST), |m| {
        for key in 0..100u8 {
            m.entry(MapAction::Add, Buffer(&[key]), None, fields(1));
        }
    });
}

fn word(connection: u32, stream_id: i32, bytes: &[u8]) -> String {
    let msg = Msg::parse(bytes).expect("legal");
    let what = match msg {
        Msg::Refresh(msg) => format!(
            "{}{}image {:?}",
            if msg.private_stream { "private " } else { "" },
            if msg.solicited { "solicited " } else { "" },
            msg.payload.last(),
        ),
        Msg::Update(msg) => format!("update {:?}", msg.payload.last()),
        Msg::Status(msg) => format!("status {}", msg.state.expect("said")),
        Msg::Ack(msg) => format!("ack {} {:?}", msg.ack_id, msg.nak_code),
        Msg::Generic(msg) => format!("generic {:?}", msg.seq_num),
        other => format!("{other:?}"),
    };
    format!("{connection}/{stream_id} {what}")
}

#[test]
fn nobody_gets_anything_before_the_login() {
    let mut world = world(|_| ());
    world.connect(0);
    world.ask(0, 5, "A");
    assert_eq!(world.words(), ["0/5 status closed-recover/suspect, usage error, \"log in first\""]);
    assert!(!world.core.is_logged_in(at(0)));
    world.say(0, &LoginRequest { position: Some(b"here"), ..LoginRequest::consumer(b"ada") });
    let bytes = &world.sent.0[0].2;
    let Ok(LoginMsg::Refresh(refresh)) = LoginMsg::parse(&Msg::parse(bytes).expect("legal")) else {
        panic!()
    };
    assert_eq!((refresh.features.omm_post, refresh.features.view_requests), (Some(true), None));
    assert!(world.core.is_logged_in(at(0)));
    let login = world.events().into_iter().find_map(|event| match event {
        InteractiveEvent::Login { login, .. } => Some(login),
        _ => None,
    });
    assert_eq!(login.map(|login| (login.user, login.position)), Some(("ada".into(), "here".into())));
    let counts = &world.core.counters;
    assert_eq!((counts.clients.get(), counts.logins.get(), counts.requests_refused.get()), (1, 1, 1));
}

#[test]
fn a_login_waits_for_the_application_if_it_wants_to_be_asked() {
    let mut world = world(|config| config.asks_for_logins = true);
    for connection in 0..2 {
        world.connect(connection);
        world.say(connection, &LoginRequest::consumer(b"ada"));
    }
    assert_eq!(world.words(), [""; 0]);
    let (ada, bob) = (world.client(0), world.client(1));
    assert!(world.core.accept_login(ada, &mut world.sent));
    assert!(!world.core.accept_login(ada, &mut world.sent), "once");
    assert!(world.core.reject_login(bob, StateCode::NOT_ENTITLED, "no", &mut world.sent));
    let words = world.words();
    assert!(words[0].starts_with("0/1 solicited image"), "{words:?}");
    assert_eq!(words[1], "1/1 status closed/suspect, not entitled, \"no\"");
    assert!(world.core.is_logged_in(at(0)) && !world.core.is_logged_in(at(1)));
    assert_eq!(world.core.counters.logins_refused.get(), 1);
}

#[test]
fn a_provider_that_logs_in_is_refused_and_a_logout_ends_the_connection() {
    let mut world = world(|_| ());
    world.connect(0);
    let provider = LoginRequest::provider(b"p").to_vec().expect("legal");
    assert_eq!(world.core.on_message(at(0), &provider, &mut world.sent), Err(Fault::LoggedOut));
    assert_eq!(world.words(), ["0/1 status closed/suspect, usage error, \"this port is for consumers\""]);
    let logout = rdm::login::logout(1).to_vec().expect("legal");
    assert_eq!(world.core.on_message(at(0), &logout, &mut world.sent), Err(Fault::LoggedOut));
    let malformed = world.core.on_message(at(0), &[0, 9, 1, 1], &mut world.sent);
    assert!(matches!(malformed, Err(Fault::Malformed(_))));
    assert_eq!(world.core.counters.messages_refused.get(), 1);
}

#[test]
fn the_first_who_asks_leads_to_an_event_and_the_others_are_served_from_the_image() {
    let mut world = two(|_| ());
    world.ask(0, 5, "A");
    world.ask(1, 9, "A");
    let item = world.requested();
    assert_eq!(world.words(), [""; 0]);
    assert_eq!(
        world.core.update(item, &UpdateSpec::default(), fields(1), &mut world.sent),
        Err(PublishError::NoImage)
    );
    assert_eq!(world.refresh(item, 7), 2);
    assert_eq!(world.words(), ["0/5 solicited image Some(7)", "1/9 solicited image Some(7)"]);
    assert_eq!(world.update(item, 8), 2);
    world.ask(1, 10, "A");
    assert_eq!(world.words(), ["0/5 update Some(8)", "1/9 update Some(8)", "1/10 solicited image Some(8)"]);
    assert!(world.events().is_empty());
    assert_eq!(world.refresh(item, 9), 3);
    assert_eq!(world.words(), ["0/5 image Some(9)", "1/9 image Some(9)", "1/10 image Some(9)"]);
    let counts = &world.core.counters;
    assert_eq!((counts.requests_in.get(), counts.streams.get(), counts.items.get()), (3, 3, 1));
    assert_eq!((counts.refreshes_out.get(), counts.updates_out.get()), (3, 1));
}

#[test]
fn an_item_that_nobody_wants_is_told_once_and_may_be_forgotten() {
    let mut world = two(|_| ());
    world.ask(0, 5, "A");
    let item = world.requested();
    world.refresh(item, 7);
    world.ask(1, 6, "A");
    assert!(!world.core.forget(item), "it is wanted");
    world.say(0, &ItemClose::stream(Domain::MARKET_PRICE, 5));
    assert!(world.events().is_empty());
    world.core.on_closed(at(1), "gone".into());
    let events = world.events();
    assert!(
        matches!(events[0], InteractiveEvent::Unwanted { item: unwanted } if unwanted == item),
        "{events:?}"
    );
    assert!(matches!(&events[1], InteractiveEvent::Disconnected { reason, .. } if reason == "gone"));
    assert_eq!(world.update(item, 8), 0, "it goes on without an audience");
    world.words();
    world.ask(0, 6, "A");
    assert_eq!(world.words(), ["0/6 solicited image Some(8)"]);
    world.say(0, &ItemClose::stream(Domain::MARKET_PRICE, 6));
    assert!(world.core.forget(item) && !world.core.forget(item));
    world.core.events.clear();
    world.ask(0, 7, "A");
    assert_ne!(world.requested(), item, "it is asked for anew");
    assert_eq!((world.core.counters.closes_in.get(), world.core.counters.clients.get()), (2, 1));
}

#[test]
fn an_item_that_never_came_is_forgotten_with_who_asked_for_it() {
    let mut world = two(|_| ());
    world.ask(0, 5, "A");
    let item = world.requested();
    world.say(0, &ItemClose::stream(Domain::MARKET_PRICE, 5));
    assert!(matches!(world.core.take_event(), Some(InteractiveEvent::Unwanted { .. })));
    let late = world.core.refresh(item, &RefreshSpec::default(), fields(1), &mut world.sent);
    assert_eq!(late, Err(PublishError::UnknownItem));
    assert_eq!((world.core.counters.items.get(), world.core.counters.streams.get()), (0, 0));
}

#[test]
fn an_item_that_the_application_closes_is_over_for_all() {
    let mut world = two(|_| ());
    world.ask(0, 5, "A");
    world.ask(1, 6, "A");
    let item = world.requested();
    let told = world.core.close(item, StateCode::NOT_FOUND, "item not found", &mut world.sent);
    assert_eq!(told, Ok(2));
    let closed = "status closed/suspect, not found, \"item not found\"";
    assert_eq!(world.words(), [format!("0/5 {closed}"), format!("1/6 {closed}")]);
    assert_eq!((world.core.counters.items.get(), world.core.counters.streams.get()), (0, 0));
    world.ask(0, 5, "A");
    let item = world.requested();
    world.refresh(item, 1);
    let suspect = State::new(StreamState::Open, rwf::DataState::Suspect);
    assert_eq!(world.core.status(item, suspect, &mut world.sent), Ok(1));
    assert_eq!(world.words()[1..], ["0/5 status open/suspect"]);
    world.ask(1, 6, "A");
    let Ok(Msg::Refresh(image)) = Msg::parse(&world.sent.0[0].2) else { panic!() };
    assert_eq!(image.state.data, rwf::DataState::Suspect, "late consumers are told too");
    assert_eq!(world.core.counters.statuses_out.get(), 2);
}

#[test]
fn what_a_service_does_not_offer_is_refused() {
    let mut world = two(|config| config.client_streams_max = 1);
    let other = ItemRequest { target: Target::Item(ItemKey::new(9, b"A")), ..request(5, "A") };
    world.say(0, &other);
    world.say(0, &ItemRequest { domain: Domain::HISTORY, ..request(6, "A") });
    let unnamed = rwf::RequestMsg::new(Domain::MARKET_PRICE, 7, DataType::NO_DATA);
    world.say(0, &unnamed);
    world.ask(0, 8, "A");
    world.ask(0, 9, "B");
    let words = world.words();
    assert_eq!(words[0], "0/5 status closed-recover/suspect, source unknown, \"service unknown\"");
    assert!(words[1].starts_with("0/6 status closed/suspect, invalid argument"), "{words:?}");
    assert!(words[2].starts_with("0/7 status closed"), "{words:?}");
    assert!(words[3].starts_with("0/9 status closed/suspect, too many items"), "{words:?}");
    assert_eq!((words.len(), world.core.counters.requests_refused.get()), (4, 4));
}

#[test]
fn more_items_than_allowed_are_refused_for_now() {
    let mut world = two(|config| config.items_max = 1);
    world.ask(0, 5, "A");
    world.ask(1, 5, "A");
    world.ask(1, 6, "B");
    let words = world.words();
    assert!(words[0].starts_with("1/6 status closed-recover/suspect, no resources"), "{words:?}");
    assert_eq!(words.len(), 1);
}

#[test]
fn a_paused_stream_gets_no_updates_and_an_image_when_it_is_resumed() {
    let mut world = two(|_| ());
    world.ask(0, 5, "A");
    let item = world.requested();
    world.refresh(item, 1);
    world.words();
    world.say(0, &ItemRequest { pause: true, no_refresh: true, ..request(5, "A") });
    assert_eq!((world.update(item, 2), world.words()), (0, vec![]));
    world.say(0, &request(5, "A"));
    assert_eq!(world.words(), ["0/5 solicited image Some(2)"]);
    assert_eq!(world.update(item, 3), 1);
    world.say(0, &LoginRequest { pause: true, no_refresh: true, ..LoginRequest::consumer(b"ada") });
    assert_eq!(world.update(item, 4), 0);
    world.ask(0, 6, "A");
    assert_eq!(world.words(), ["0/5 update Some(3)", "0/6 solicited image Some(4)"]);
    assert_eq!(world.update(item, 5), 0, "what is opened during a pause is paused too");
    world.say(0, &ItemRequest { pause: true, no_refresh: true, ..request(6, "A") });
    world.say(0, &LoginRequest { no_refresh: true, ..LoginRequest::consumer(b"ada") });
    assert_eq!(world.words(), ["0/5 solicited image Some(5)"], "6 is paused by itself");
    assert_eq!(world.update(item, 6), 1);
}

#[test]
fn a_snapshot_ends_with_its_image_and_a_private_stream_has_an_item_of_its_own() {
    let mut world = two(|_| ());
    world.say(0, &ItemRequest { streaming: false, ..request(5, "A") });
    world.ask(1, 5, "A");
    let item = world.requested();
    assert_eq!(world.refresh(item, 1), 2);
    assert_eq!(world.core.counters.streams.get(), 1);
    assert!(world.events().is_empty(), "somebody still wants it");
    world.words();
    world.say(0, &ItemRequest { private_stream: true, ..request(6, "A") });
    let Some(InteractiveEvent::Requested { item: own, private, .. }) = world.core.take_event() else {
        panic!()
    };
    assert_eq!((private, own != item), (Some(world.client(0)), true));
    world.refresh(own, 9);
    world.update(item, 2);
    world.update(own, 3);
    assert_eq!(
        world.words(),
        ["0/6 private solicited image Some(9)", "1/5 update Some(2)", "0/6 update Some(3)"]
    );
    world.say(0, &ItemClose::stream(Domain::MARKET_PRICE, 6));
    assert!(matches!(world.core.take_event(), Some(InteractiveEvent::Unwanted { item }) if item == own));
    assert!(world.core.items.table.get(own.0).is_none());
}

#[test]
fn batches_are_taken_apart_and_closed_at_once() {
    let mut world = two(|_| ());
    let names = vec![&b"A"[..], b"", b"B"];
    let target = Target::Items { common: ItemKey::new(1, b""), names };
    world.say(0, &ItemRequest { target, ..request(10, "") });
    let words = world.words();
    assert!(words[0].starts_with("0/10 status closed/ok"), "{words:?}");
    assert!(words[1].starts_with("0/12 status closed/suspect, not found"), "{words:?}");
    assert_eq!((world.events().len(), world.core.counters.streams.get()), (2, 2));
    let target = CloseTarget::Streams(vec![11, 13]);
    world.say(0, &ItemClose { target, ..ItemClose::stream(Domain::MARKET_PRICE, 14) });
    assert_eq!((world.core.counters.streams.get(), world.core.counters.closes_in.get()), (0, 2));
}

#[test]
fn posts_come_with_a_ticket_for_their_answer() {
    let mut world = two(|_| ());
    world.ask(0, 5, "A");
    let item = world.requested();
    let on = rdm::post::post(Domain::MARKET_PRICE, 5, ItemKey::new(1, b"A"), DataType::FIELD_LIST, &[0]);
    world.say(0, &PostMsg { ack: true, post_id: Some(7), ..on });
    world.say(1, &PostMsg { stream_id: 1, ..on });
    let events = world.events();
    let InteractiveEvent::Post { item: of, message, ticket: Some(ticket), .. } = &events[0] else { panic!() };
    assert_eq!((*of, message.post().and_then(|post| post.post_id)), (Some(item), Some(7)));
    let InteractiveEvent::Post { item: None, ticket: None, .. } = &events[1] else { panic!("{events:?}") };
    assert!(world.core.answer_post(*ticket, None, &mut world.sent));
    assert!(world.core.answer_post(*ticket, Some((NakCode::ACCESS_DENIED, "no")), &mut world.sent));
    world.say(0, &PostMsg { stream_id: 99, ack: true, post_id: Some(8), ..on });
    assert_eq!(
        world.words(),
        ["0/5 ack 7 None", "0/5 ack 7 Some(access denied)", "0/99 ack 8 Some(not open)"]
    );
    world.core.on_closed(at(0), "gone".into());
    world.connect(0);
    assert!(!world.core.answer_post(*ticket, None, &mut world.sent), "another client is at the connection");
    let counts = &world.core.counters;
    assert_eq!((counts.posts_in.get(), counts.posts_refused.get(), counts.acks_out.get()), (3, 2, 3));
}

#[test]
fn posts_are_refused_where_none_are_taken() {
    let mut world = two(|config| config.takes_posts = false);
    let off = rdm::post::post(Domain::MARKET_PRICE, 1, ItemKey::new(1, b"A"), DataType::FIELD_LIST, &[0]);
    world.say(0, &PostMsg { ack: true, post_id: Some(7), ..off });
    assert_eq!(world.words(), ["0/1 ack 7 Some(denied by source)"]);
    assert!(world.events().is_empty());
}

#[test]
fn generic_messages_go_both_ways() {
    let mut world = two(|_| ());
    world.ask(0, 5, "A");
    let item = world.requested();
    world.say(
        0,
        &rwf::GenericMsg {
            seq_num: Some(3),
            ..rwf::GenericMsg::new(Domain::MARKET_PRICE, 5, DataType::NO_DATA)
        },
    );
    let Some(InteractiveEvent::Generic { item: of, message, .. }) = world.core.take_event() else { panic!() };
    assert_eq!((of, message.generic().and_then(|msg| msg.seq_num)), (item, Some(3)));
    let spec = GenericSpec { seq_num: Some(4), ..GenericSpec::default() };
    assert_eq!(world.core.generic(item, &spec, |w| w.element_list(|_| ()), &mut world.sent), Ok(1));
    assert_eq!(world.words(), ["0/5 generic Some(4)"]);
    assert_eq!((world.core.counters.generics_in.get(), world.core.counters.generics_out.get()), (1, 1));
}

#[test]
fn a_payload_that_cannot_be_merged_costs_the_image_and_the_next_who_asks_leads_to_another() {
    let mut world = two(|_| ());
    world.ask(0, 5, "A");
    let item = world.requested();
    world.refresh(item, 1);
    let raw =
        world.core.update(item, &UpdateSpec::default(), |w| w.bytes(&[8, 0, 2, 0, 22]), &mut world.sent);
    assert!(matches!(raw, Err(PublishError::Payload(_))), "{raw:?}");
    assert_eq!(world.core.counters.images_spoilt.get(), 1);
    world.ask(1, 5, "A");
    assert_eq!(world.requested(), item);
}

#[test]
fn a_large_map_goes_out_in_parts() {
    let mut world = two(|config| config.part_bytes = 512);
    let spec = PublishSpec { seq_nums: true, ..PublishSpec::new(Domain::MARKET_BY_PRICE, "S", "BOOK") };
    let item = world.core.item(&spec).expect("new");
    assert_eq!(world.core.refresh(item, &RefreshSpec::map(), book, &mut world.sent), Ok(0));
    world.say(0, &ItemRequest { domain: Domain::MARKET_BY_PRICE, ..request(5, "BOOK") });
    let parts: Vec<(bool, Option<u32>)> = world
        .sent
        .0
        .iter()
        .map(|(_, _, bytes)| match Msg::parse(bytes) {
            Ok(Msg::Refresh(msg)) => (msg.complete, msg.seq_num),
            other => panic!("{other:?}"),
        })
        .collect();
    assert!(parts.len() > 2 && parts[0] == (false, Some(1)) && parts[parts.len() - 1].0, "{parts:?}");
    assert!(world.events().is_empty(), "the application had published it");
}

#[test]
fn a_change_of_a_service_is_told_to_who_listens() {
    let mut world = two(|_| ());
    world.say(0, &DirectoryRequest::all(2));
    world.say(1, &DirectoryRequest { streaming: false, ..DirectoryRequest::all(2) });
    assert_eq!(world.sent.0.len(), 2);
    world.sent.0.clear();
    world.core.change_service("S", |service| service.state.up = false, &mut world.sent).expect("known");
    let [(0, 2, bytes)] = &world.sent.0[..] else { panic!("to one alone") };
    let msg = Msg::parse(bytes).expect("legal");
    assert!(matches!(DirectoryMsg::parse(&msg), Ok(DirectoryMsg::Update(_))));
    world.sent.0.clear();
    world.ask(0, 5, "A");
    assert_eq!(world.words(), ["0/5 status closed-recover/suspect, \"service is down\""]);
    assert!(world.core.change_service("T", |_| (), &mut world.sent).is_err());
}

/// A world with a client at each port, both with a stream of one item, which has an image.
fn mixed() -> (World, PublishedItem) {
    let mut world = world(|_| ());
    for connection in [0, WEB] {
        world.connect(connection);
        world.say(connection, &LoginRequest::consumer(b"ada"));
    }
    world.core.events.clear();
    world.ask(0, 5, "A");
    world.ask(WEB, 6, "A");
    let item = world.requested();
    world.refresh(item, 7);
    world.words();
    (world, item)
}

fn unwritable(w: &mut rwf::Writer<'_>) {
    w.field_list(|f| f.put(3, rwf::RmtesString(UNWRITABLE)));
}

#[test]
fn clients_at_both_ports_share_an_item() {
    let (mut world, item) = mixed();
    assert_eq!(world.update(item, 8), 2);
    assert_eq!(world.words(), ["0/5 update Some(8)", "100/6 update Some(8)"]);
    world.core.on_closed(at(WEB), "gone".into());
    assert_eq!(world.update(item, 9), 1);
    assert_eq!((world.words(), world.core.clients.len()), (vec!["0/5 update Some(9)".to_owned()], 1));
}

#[test]
fn an_image_that_cannot_be_json_ends_the_streams_of_these_clients_alone() {
    let (mut world, item) = mixed();
    let sent = world.core.refresh(item, &RefreshSpec::default(), unwritable, &mut world.sent);
    assert_eq!(sent, Ok(2));
    assert_eq!(world.words().len(), 1, "the other is told in JSON");
    assert_eq!(world.core.counters.streams.get(), 1);
    world.ask(WEB, 8, "A");
    assert!(world.words().is_empty());
    assert_eq!((world.core.counters.streams.get(), world.update(item, 1)), (1, 1));
    assert!(world.events().is_empty(), "it is still wanted");
}

#[test]
fn a_status_does_not_overtake_the_image_over_websocket() {
    let (mut world, item) = mixed();
    world.say(WEB, &ItemRequest { pause: true, no_refresh: true, ..request(6, "A") });
    let other = world.core.item(&PublishSpec::new(Domain::MARKET_PRICE, "S", "B")).expect("a service");
    world.ask(0, 9, "B");
    world.ask(WEB, 9, "B");
    world.words();
    let suspect = State::new(StreamState::Open, rwf::DataState::Suspect);
    assert_eq!(world.core.status(other, suspect, &mut world.sent), Ok(1));
    assert_eq!(world.words(), ["0/9 status open/suspect"]);
    assert_eq!(world.core.status(item, suspect, &mut world.sent), Ok(2));
    assert_eq!(world.words(), ["0/5 status open/suspect", "100/6 status open/suspect"]);
    let closed = State::new(StreamState::Closed, rwf::DataState::Suspect);
    assert_eq!(world.core.status(other, closed, &mut world.sent), Ok(2));
    assert_eq!(world.words(), ["0/9 status closed/suspect", "100/9 status closed/suspect"]);
}

#[test]
fn closes_over_websocket_name_no_domain_and_those_of_several_streams_are_answered() {
    let (mut world, _) = mixed();
    world.say(WEB, &DirectoryRequest::all(2));
    world.words();
    let target = CloseTarget::Streams(vec![6, 2, 77]);
    world.say(WEB, &ItemClose { target, ..ItemClose::stream(Domain::MARKET_PRICE, 6) });
    let text = "Processed 3 total stream ids from Batch Close Request. 2 Ok.";
    assert_eq!(world.words(), [format!("100/6 status closed/ok, {text:?}")]);
    world.core.change_service("S", |s| s.state.accepting_requests = Some(false), &mut world.sent).expect("S");
    assert!(world.words().is_empty(), "the directory stream is closed too");
    let target = CloseTarget::Streams(vec![5]);
    world.say(0, &ItemClose { target, ..ItemClose::stream(Domain::MARKET_PRICE, 5) });
    assert_eq!((world.words(), world.core.counters.streams.get()), (vec![], 0));
}

#[test]
fn dictionaries_and_images_are_one_message_over_websocket() {
    let (mut world, _) = mixed();
    let text: String =
        (1..900).map(|id| format!("FIELD_{id} \"F{id}\" {id} NULL PRICE 9 REAL64 8\n")).collect();
    let mut dictionary = rwf::Dictionary::new();
    dictionary.load_fields(text.as_bytes()).expect("a dictionary");
    world.core.set_dictionary(std::sync::Arc::new(dictionary));
    let request = DictionaryRequest::new(3, 1, DictionaryKind::Fields);
    let counts = [0, WEB].map(|connection| {
        world.say(connection, &request);
        world.words().len()
    });
    assert!(counts[0] > 1 && counts[1] == 1, "{counts:?}");
    world.core.config.part_bytes = 512;
    let spec = PublishSpec::new(Domain::MARKET_BY_PRICE, "S", "BOOK");
    let item = world.core.item(&spec).expect("a service");
    world.core.refresh(item, &RefreshSpec::map(), book, &mut world.sent).expect("a map");
    let counts = [0, WEB].map(|connection| {
        world.say(connection, &ItemRequest { domain: Domain::MARKET_BY_PRICE, ..self::request(9, "BOOK") });
        world.words().len()
    });
    assert!(counts[0] > 2 && counts[1] == 1, "{counts:?}");
}

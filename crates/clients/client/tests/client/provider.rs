//! The provider's core against a scripted server.

use std::sync::Arc;
use std::time::Duration;

use counters::table::ProviderSession;
use rdm::ToVec;
use rdm::directory::DirectoryMsg;
use rdm::login::{LoginRequest, LoginStatus, Role};
use rdm::publish::{Publication, Published as PublishedMsg};
use rwf::{
    AsciiString, Buffer, DataState, DataType, Domain, EncodeError, FieldList, GenericMsg, MapAction, MapHead,
    Msg, NakCode, Place, PostMsg, Real, RefreshMsg, RequestMsg, State, StateCode, StatusMsg, StreamState,
    UpdateType, Value, Writer,
};
use tickcast_client::{
    ItemError, ProviderConfig, ProviderCore, ProviderEvent, ProviderServiceConfig, PublishError, PublishSpec,
    Published, PublishedItem, PublishedTicket, RefreshSpec, UpdateSpec,
};

use crate::world::{FromEvent, World, identity};

const SECOND: Duration = Duration::from_secs(1);

type Providers = World<ProviderCore, String>;

impl FromEvent<ProviderEvent<'_>> for String {
    fn from_event(event: ProviderEvent<'_>) -> Self {
        match event {
            ProviderEvent::Connected { host, .. } => format!("connected {host}"),
            ProviderEvent::Disconnected { reason, retry_in: Some(_), .. } => {
                format!("disconnected: {reason}; again")
            }
            ProviderEvent::Disconnected { reason, .. } => format!("disconnected: {reason}; for good"),
            ProviderEvent::LoggedIn(_) => "logged in".into(),
            ProviderEvent::LoginStatus(state) => format!("login {state}"),
            ProviderEvent::LoginRefused { state, retry } => format!("login refused {state}, retry {retry}"),
            ProviderEvent::Ready { images_count, wants_images } => {
                format!("ready, {images_count} images{}", if wants_images { ", wants images" } else { "" })
            }
            ProviderEvent::ImageTooLong { .. } => "image too long".into(),
            _ => "an event that the tests do not know".into(),
        }
    }
}

/// A provider of the service S with id 7, which has not connected yet.
fn provider(change: impl FnOnce(&mut ProviderConfig)) -> Providers {
    let services =
        vec![ProviderServiceConfig { name: "S".into(), id: 7, ..ProviderServiceConfig::default() }];
    let mut config = ProviderConfig { services, ..ProviderConfig::default() };
    change(&mut config);
    World::new(ProviderCore::new(&config, &identity(), 1).expect("a good configuration"))
}

fn bid(n: i64) -> impl FnMut(&mut Writer<'_>) {
    move |w| w.field_list(|f| f.put(22, Real::decimal(n, 0)))
}

fn ask(n: i64) -> impl FnMut(&mut Writer<'_>) {
    move |w| w.field_list(|f| f.put(25, Real::decimal(n, 0)))
}

/// A map of so many entries with a field of 40 bytes each.
fn book(count: u32, mark: i64) -> impl FnMut(&mut Writer<'_>) {
    move |w| {
        w.map(&MapHead::new(DataType::BUFFER, DataType::FIELD_LIST), |m| {
            for key in 0..count {
                m.entry(MapAction::Add, Buffer(&key.to_be_bytes()), None, |w| {
                    w.field_list(|f| {
                        f.put(3427, Real::decimal(mark, 0));
                        f.put(3, AsciiString(&[b'x'; 40]));
                    });
                });
            }
        });
    }
}

impl Providers {
    fn item(&mut self, name: &str) -> PublishedItem {
        self.core.item(&PublishSpec::new(Domain::MARKET_PRICE, "S", name)).expect("it can be published")
    }

    fn refresh(&mut self, item: PublishedItem, n: i64) -> Result<Published, PublishError> {
        self.core.refresh(item, &RefreshSpec::default(), bid(n))
    }

    fn update(&mut self, item: PublishedItem, n: i64) -> Result<Published, PublishError> {
        self.core.update(item, &UpdateSpec::quote(), ask(n))
    }

    fn words(&mut self) -> Vec<String> {
        self.take_told()
    }

    /// What the server has received about items, in words.
    fn heard(&mut self) -> Vec<String> {
        self.settle();
        std::mem::take(&mut self.server().inbox).iter().map(|bytes| heard(bytes)).collect()
    }

    fn counts(&self) -> Arc<ProviderSession> {
        Arc::clone(self.core.counters())
    }
}

fn heard(bytes: &[u8]) -> String {
    let msg = Msg::parse(bytes).expect("legal");
    if msg.domain() == Domain::SOURCE {
        return match DirectoryMsg::parse(&msg).expect("legal") {
            DirectoryMsg::Refresh(refresh) => {
                let ids: Vec<u16> = refresh.services.iter().map(|service| service.service_id).collect();
                let whole = refresh.complete && refresh.clear_cache && !refresh.solicited;
                format!("directory {} {ids:?} whole {whole}", refresh.stream_id)
            }
            DirectoryMsg::Update(update) => {
                format!("directory {} update {:?}", update.stream_id, update.services[0].action)
            }
            other => format!("{other:?}"),
        };
    }
    let Ok(publication) = Publication::parse(&msg) else { return format!("{:?}", msg.class()) };
    let name = publication.item.map_or("?".into(), |key| String::from_utf8_lossy(key.name).into_owned());
    let seq = |seq_num: Option<u32>| seq_num.map_or(String::new(), |n| format!(" #{n}"));
    match publication.msg {
        PublishedMsg::Image(msg) => {
            let part = msg
                .part_num
                .map_or(String::new(), |n| format!(" part {n}{}", if msg.complete { " last" } else { "" }));
            format!(
                "{} {name} image{}{part} {}",
                msg.stream_id,
                seq(msg.seq_num),
                content(msg.container_type, msg.payload)
            )
        }
        PublishedMsg::Update(msg) => {
            format!(
                "{} {name} update{} {}",
                msg.stream_id,
                seq(msg.seq_num),
                content(msg.container_type, msg.payload)
            )
        }
        PublishedMsg::Status(msg) => {
            format!("{} {name} status {}", msg.stream_id, msg.state.expect("a state"))
        }
    }
}

/// The fields as numbers, or the number of entries of a map.
fn content(container_type: DataType, payload: &[u8]) -> String {
    if container_type == DataType::MAP {
        return format!("{} entries", rwf::Map::parse(payload).expect("legal").count());
    }
    let field =
        |entry: rwf::FieldEntry<'_>| match Value::decode(DataType::REAL, entry.content).expect("a real") {
            Value::Real(real) => format!("{}={}", entry.id, real.to_f64()),
            other => format!("{other:?}"),
        };
    let fields: Vec<String> = FieldList::parse(payload)
        .expect("legal")
        .entries()
        .map(|entry| field(entry.expect("legal")))
        .collect();
    fields.join(" ")
}

#[test]
fn a_provider_logs_in_publishes_its_directory_and_its_items() {
    let mut world = provider(|_| ());
    world.manners.logs_in = false;
    world.settle();
    let bytes = world.server().inbox.remove(0);
    let login = LoginRequest::parse(&RequestMsg::parse(&bytes).expect("a request")).expect("legal");
    assert_eq!((login.role, login.name), (Role::Provider, &b"ada"[..]));
    world.say(&rdm::login::LoginRefresh::accept(&login));
    assert_eq!(world.words(), ["connected localhost:14003", "logged in", "ready, 0 images"]);
    let item = world.item("I");
    assert_eq!(world.refresh(item, 1), Ok(Published::Sent));
    assert_eq!(world.update(item, 2), Ok(Published::Sent));
    let suspect = State::new(StreamState::Open, DataState::Suspect).because(StateCode::NONE, "late");
    assert_eq!(world.core.status(item, suspect), Ok(Published::Sent));
    assert_eq!(world.core.close(item, "done"), Ok(Published::Sent));
    assert_eq!(
        world.heard(),
        [
            "directory 0 [7] whole true",
            "-1 I image 22=1",
            "-1 ? update 25=2",
            "-1 I status open/suspect, \"late\"",
            "-1 I status closed/suspect, \"done\"",
        ]
    );
    let counts = world.counts();
    assert_eq!((counts.refreshes_out.get(), counts.updates_out.get(), counts.statuses_out.get()), (1, 1, 2));
    assert_eq!((counts.connect_attempts.get(), counts.logins.get(), counts.messages_in.get()), (1, 1, 1));
    assert_eq!((counts.items.get(), world.update(item, 3)), (0, Err(PublishError::UnknownItem)));
}

#[test]
fn messages_say_what_the_application_wants() {
    let mut world = provider(|_| ());
    world.settle();
    let spec = PublishSpec { key_in_updates: true, ..PublishSpec::new(Domain::MARKET_PRICE, "S", "I") };
    let item = world.core.item(&spec).expect("new");
    let refresh = RefreshSpec {
        state: State::new(StreamState::Open, DataState::Suspect),
        group_id: Some(&[0, 5]),
        permission_data: Some(b"lock"),
        ..RefreshSpec::default()
    };
    let _ = world.core.refresh(item, &refresh, bid(1)).expect("room");
    let update = UpdateSpec {
        permission_data: Some(b"other"),
        conflation: Some(rwf::Conflation { count: 3, time: 4 }),
        do_not_cache: true,
        do_not_conflate: true,
        do_not_ripple: true,
        ..UpdateSpec::trade()
    };
    let _ = world.core.update(item, &update, ask(2)).expect("room");
    world.settle();
    let inbox = std::mem::take(&mut world.server().inbox);
    let image = RefreshMsg::parse(&inbox[1]).expect("a refresh");
    assert_eq!((image.group_id, image.permission_data), (&[0, 5][..], Some(&b"lock"[..])));
    assert_eq!((image.state.data, image.complete, image.solicited), (DataState::Suspect, true, false));
    let msg = rwf::UpdateMsg::parse(&inbox[2]).expect("an update");
    assert_eq!((msg.update_type, msg.permission_data), (UpdateType::TRADE, Some(&b"other"[..])));
    assert!(msg.do_not_cache && msg.do_not_conflate && msg.do_not_ripple);
    assert_eq!(
        (msg.key, msg.conflation),
        (Some(rwf::Key::item(7, b"I")), Some(rwf::Conflation { count: 3, time: 4 }))
    );
    let kept = world.core.image(item).expect("kept").image();
    let market::image::Image::Fields(fields) = kept else { panic!("fields") };
    assert_eq!(fields.entries().count(), 1, "an update that is not to be cached is not in the image");
}

#[test]
fn what_is_published_without_a_connection_goes_out_with_the_image() {
    let mut world = provider(|_| ());
    let (a, b, c) = (world.item("A"), world.item("B"), world.item("C"));
    assert_eq!(world.update(a, 1), Err(PublishError::NoImage));
    assert_eq!(world.core.status(a, State::OPEN_OK), Err(PublishError::NoImage));
    for (item, n) in [(a, 1), (b, 2), (a, 3)] {
        assert_eq!(world.refresh(item, n), Ok(Published::Kept));
    }
    assert_eq!(world.update(a, 4), Ok(Published::Kept));
    let suspect = State::new(StreamState::Open, DataState::Suspect);
    assert_eq!(world.core.status(b, suspect), Ok(Published::Kept));
    assert_eq!((world.counts().updates_kept.get(), world.counts().items_waiting.get()), (5, 2));
    world.settle();
    assert_eq!(world.words()[2], "ready, 2 images");
    assert_eq!(world.heard(), ["directory 0 [7] whole true", "-1 A image 22=3 25=4", "-2 B image 22=2"]);
    assert_eq!((world.counts().images_republished.get(), world.counts().items_waiting.get()), (2, 0));
    assert_eq!(world.refresh(c, 5), Ok(Published::Sent));
}

#[test]
fn after_a_reconnect_login_directory_and_images_go_out_before_anything_later() {
    let mut world = provider(|_| ());
    let spec = PublishSpec { seq_nums: true, ..PublishSpec::new(Domain::MARKET_PRICE, "S", "N") };
    let numbered = world.core.item(&spec).expect("new");
    let (a, b) = (world.item("A"), world.item("B"));
    world.settle();
    for item in [numbered, a, b] {
        assert_eq!(world.refresh(item, 1), Ok(Published::Sent));
    }
    assert_eq!(world.update(numbered, 2), Ok(Published::Sent));
    assert_eq!(
        world.heard()[1..],
        ["-1 N image #1 22=1", "-2 A image 22=1", "-3 B image 22=1", "-1 ? update #2 25=2"]
    );
    world.cut();
    assert_eq!(
        world.words().last().map(String::as_str),
        Some("disconnected: peer closed the connection; again")
    );
    assert_eq!((world.update(numbered, 3), world.update(a, 4)), (Ok(Published::Kept), Ok(Published::Kept)));
    assert_eq!(world.core.close(b, "over"), Ok(Published::Dropped), "the server has forgotten it already");
    world.advance(SECOND);
    assert_eq!(world.update(a, 5), Ok(Published::Sent));
    assert_eq!(
        world.heard(),
        ["directory 0 [7] whole true", "-1 N image #3 22=1 25=3", "-2 A image 22=1 25=4", "-2 ? update 25=5"]
    );
    assert_eq!(world.words(), ["connected localhost:14003", "logged in", "ready, 2 images"]);
    assert_eq!((world.counts().disconnects.get(), world.counts().logins.get()), (1, 2));
}

#[test]
fn without_images_the_application_publishes_them_again() {
    let mut world = provider(|config| config.keep_images = false);
    let item = world.item("I");
    assert_eq!(world.refresh(item, 1), Ok(Published::Dropped));
    assert_eq!(world.update(item, 1), Ok(Published::Dropped));
    world.settle();
    assert_eq!(world.words()[2], "ready, 0 images, wants images");
    assert_eq!(world.update(item, 2), Ok(Published::Dropped), "the server does not know the item");
    assert_eq!(world.refresh(item, 3), Ok(Published::Sent));
    assert_eq!(world.update(item, 4), Ok(Published::Sent));
    world.cut();
    assert_eq!(world.update(item, 5), Ok(Published::Dropped));
    world.advance(SECOND);
    assert_eq!(world.update(item, 6), Ok(Published::Dropped));
    assert_eq!(world.heard(), ["directory 0 [7] whole true"]);
    assert_eq!((world.counts().updates_dropped.get(), world.core.image(item).is_none()), (5, true));
}

#[test]
fn a_full_backlog_refuses_what_is_published_and_takes_it_when_there_is_room() {
    let mut world = provider(|config| (config.backlog_max_bytes, config.part_bytes) = (65_536, 512));
    let item = world.item("I");
    world.settle();
    assert_eq!(world.refresh(item, 0), Ok(Published::Sent));
    let refused =
        (1..).map(|n| (n, world.update(item, n))).find(|(_, result)| result.is_err()).expect("full at last");
    let (n, Err(PublishError::WouldBlock { pending_bytes, limit_bytes })) = refused else {
        panic!("{refused:?}")
    };
    assert!(pending_bytes > 60_000 && limit_bytes == 65_536 && !world.core.has_room(), "{pending_bytes}");
    let closed = world.core.close(item, "over");
    assert!(matches!(closed, Err(PublishError::WouldBlock { .. })), "{closed:?}");
    assert!(matches!(world.refresh(item, 9), Err(PublishError::WouldBlock { .. })));
    assert_eq!(world.counts().would_block.get(), 3);
    let market::image::Image::Fields(image) = world.core.image(item).expect("kept").image() else {
        panic!("fields")
    };
    let last = Value::decode(DataType::REAL, image.field(25).expect("it was updated"));
    assert_eq!(last, Ok(Value::Real(Real::decimal(n - 1, 0))), "what was refused is not in the image");
    let heard = world.heard();
    assert_eq!(heard.len() as i64, 1 + n, "directory, image, and each update that was taken");
    assert!(world.core.has_room() && world.core.backlog_bytes() == 0);
    assert_eq!(world.update(item, n), Ok(Published::Sent));
    assert_eq!(world.heard(), [format!("-1 ? update 25={n}")]);
}

#[test]
fn a_large_map_goes_out_in_parts_and_what_changes_meanwhile_is_in_a_later_image() {
    let mut world = provider(|config| (config.part_bytes, config.backlog_max_bytes) = (2_000, 65_536));
    let item = world.core.item(&PublishSpec::new(Domain::MARKET_BY_PRICE, "S", "B")).expect("new");
    world.settle();
    world.heard();
    assert_eq!(
        world.core.refresh(item, &RefreshSpec::map(), book(20, 1)),
        Ok(Published::Sent),
        "short enough"
    );
    assert_eq!(world.heard(), ["-1 B image 20 entries"]);
    assert_eq!(world.core.refresh(item, &RefreshSpec::map(), book(1_500, 1)), Ok(Published::Kept));
    // As much as half the backlog takes; then a change.
    let told = &mut world.told;
    tickcast_client::Endpoint::on_wakeup(&mut world.core, world.now, &mut |e| {
        told.push(String::from_event(e))
    });
    assert!(world.core.backlog_bytes() <= 32_768);
    assert_eq!(world.core.update(item, &UpdateSpec::map(), book(1, 2)), Ok(Published::Kept));
    let heard = world.heard();
    let images: Vec<&String> = heard.iter().filter(|words| words.contains("part 0")).collect();
    assert_eq!(images.len(), 2, "{heard:?}");
    assert!(heard.last().is_some_and(|words| words.contains("last")));
    let entries: usize = heard
        .iter()
        .map(|words| words.split(' ').rev().nth(1).expect("a count").parse::<usize>().expect("a number"))
        .sum();
    assert_eq!(entries, 3_000);
    assert_eq!(world.core.update(item, &UpdateSpec::map(), book(1, 3)), Ok(Published::Sent));
    assert_eq!(world.heard(), ["-1 ? update 1 entries"]);
}

#[test]
fn an_image_that_is_replaced_or_ended_while_its_parts_go_out_is_not_continued() {
    for ends in [false, true] {
        let mut world = provider(|config| (config.part_bytes, config.backlog_max_bytes) = (2_000, 65_536));
        let item = world.core.item(&PublishSpec::new(Domain::MARKET_BY_PRICE, "S", "B")).expect("new");
        world.settle();
        world.heard();
        let _ = world.core.refresh(item, &RefreshSpec::map(), book(1_500, 1)).expect("kept");
        tickcast_client::Endpoint::on_wakeup(&mut world.core, world.now, &mut |_| ());
        let result = if ends {
            world.core.close(item, "over")
        } else {
            world.core.refresh(item, &RefreshSpec::map(), book(2, 9))
        };
        assert_eq!(result, Ok(Published::Sent));
        let heard = world.heard();
        let last = heard.last().expect("something was sent");
        assert_eq!(last, if ends { "-1 B status closed/suspect, \"over\"" } else { "-1 B image 2 entries" });
        assert!(heard.len() > 2 && heard[0].contains("part 0"), "{heard:?}");
    }
}

#[test]
fn images_after_a_reconnect_leave_room_for_what_is_published_meanwhile() {
    let mut world = provider(|config| config.backlog_max_bytes = 65_536);
    let items: Vec<PublishedItem> = (0..3_000).map(|n| world.item(&format!("ITEM.{n}"))).collect();
    for item in &items {
        assert_eq!(world.refresh(*item, 1), Ok(Published::Kept));
    }
    world.manners.logs_in = false;
    world.settle();
    let bytes = world.server().inbox.remove(0);
    let login = LoginRequest::parse(&RequestMsg::parse(&bytes).expect("a request")).expect("legal");
    let accept = rdm::login::LoginRefresh::accept(&login).to_vec().expect("legal");
    world.server().connection.outbound().push(&accept).expect("room");
    let out = world.server().connection.outbound().flush().to_vec();
    let now = world.now;
    tickcast_client::Endpoint::on_bytes(&mut world.core, now, &out, &mut |_: ProviderEvent<'_>| ());
    let depth = world.core.backlog_bytes();
    assert!((20_000..=32_768).contains(&depth), "{depth}");
    assert_eq!(world.update(items[0], 5), Ok(Published::Sent));
    assert_eq!(world.update(items[2_999], 6), Ok(Published::Kept));
    let heard = world.heard();
    assert_eq!(heard.len(), 1 + 3_000 + 1);
    assert_eq!(heard.last().map(String::as_str), Some("-3000 ITEM.2999 image 22=1 25=6"));
    assert_eq!(world.words().last().map(String::as_str), Some("ready, 3000 images"));
}

#[test]
fn an_image_that_outgrows_the_backlog_is_given_up_and_the_others_go_on() {
    let mut world = provider(|config| config.backlog_max_bytes = 65_536);
    let (large, small) = (world.item("L"), world.item("S"));
    let wide = |n: i16| {
        move |w: &mut Writer<'_>| {
            w.field_list(|f| (1..=n).for_each(|id| f.put(id, AsciiString(&[b'x'; 200]))))
        }
    };
    assert_eq!(world.core.refresh(large, &RefreshSpec::default(), wide(400)), Ok(Published::Kept));
    assert_eq!(world.refresh(small, 1), Ok(Published::Kept));
    world.settle();
    assert_eq!(world.words()[2..], ["image too long", "ready, 1 images"]);
    assert_eq!(world.heard(), ["directory 0 [7] whole true", "-2 S image 22=1"]);
    assert_eq!(world.update(large, 1), Ok(Published::Dropped));
    let refused = world.core.refresh(large, &RefreshSpec::default(), wide(400));
    assert!(matches!(refused, Err(PublishError::TooLong { limit_bytes: 65_536, .. })), "{refused:?}");
    assert_eq!(world.refresh(large, 1), Ok(Published::Sent), "a shorter image makes it good");
}

#[test]
fn items_are_known_by_their_key_and_those_that_cannot_be_are_refused() {
    let mut world = provider(|config| config.items_max = 2);
    let item = world.item("I");
    assert_eq!(world.item("I"), item);
    let mut open = |spec: PublishSpec<'_>| world.core.item(&spec);
    assert_eq!(open(PublishSpec::new(Domain::MARKET_PRICE, "T", "I")), Err(ItemError::UnknownService));
    let login = Domain::LOGIN;
    assert_eq!(open(PublishSpec::new(login, "S", "I")), Err(ItemError::NotAnItemDomain(login)));
    for name in ["", &"x".repeat(256)] {
        let error = ItemError::NameLength { bytes: name.len(), max: 255 };
        assert_eq!(open(PublishSpec::new(Domain::MARKET_PRICE, "S", name)), Err(error));
    }
    assert_ne!(open(PublishSpec::new(Domain::MARKET_BY_PRICE, "S", "I")), Ok(item));
    assert_eq!(
        open(PublishSpec::new(Domain::MARKET_PRICE, "S", "J")),
        Err(ItemError::TooManyItems { max: 2 })
    );
}

#[test]
fn a_closed_item_frees_its_place_and_a_new_one_begins_with_an_image() {
    let mut world = provider(|_| ());
    world.settle();
    let first = world.item("A");
    let _ = world.refresh(first, 1).expect("room");
    let _ = world.core.close(first, "over").expect("room");
    let second = world.item("B");
    assert_ne!(first, second);
    assert_eq!(world.update(second, 1), Err(PublishError::NoImage));
    let _ = world.refresh(second, 2).expect("room");
    let heard = world.heard();
    assert_eq!(heard[1..], ["-1 A image 22=1", "-1 A status closed/suspect, \"over\"", "-1 B image 22=2"]);
    let new = world.item("C");
    assert_eq!(world.core.close(new, "never begun"), Ok(Published::Dropped));
    assert_eq!(world.heard(), [""; 0]);
}

#[test]
fn what_cannot_be_encoded_changes_nothing() {
    let mut world = provider(|_| ());
    let spec = PublishSpec { seq_nums: true, ..PublishSpec::new(Domain::MARKET_PRICE, "S", "I") };
    let item = world.core.item(&spec).expect("new");
    world.settle();
    let _ = world.refresh(item, 1).expect("room");
    let long = vec![b'x'; 70_000];
    let result =
        world.core.update(item, &UpdateSpec::default(), |w| w.field_list(|f| f.put(3, AsciiString(&long))));
    assert!(
        matches!(result, Err(PublishError::Encode(EncodeError::TooLong { place: Place::Content, .. }))),
        "{result:?}"
    );
    let raw = world.core.update(item, &UpdateSpec::default(), |w| w.bytes(&[8, 0, 2, 0, 22]));
    assert!(matches!(raw, Err(PublishError::Payload(_))), "{raw:?}");
    world.settle();
    world.server().inbox.clear();
    let _ = world.update(item, 2).expect("room");
    assert_eq!(
        world.heard().last().map(String::as_str),
        Some("-1 ? update #3 25=2"),
        "1 image, 2 the raw one, 3 this"
    );
}

#[test]
fn changes_of_a_service_are_told_at_once_or_with_the_next_directory() {
    let mut world = provider(|_| ());
    world.core.change_service("S", |service| service.state.up = false).expect("known");
    world.settle();
    assert_eq!(world.heard(), ["directory 0 [7] whole true"]);
    world.core.change_service("S", |service| service.state.up = true).expect("known");
    world.core.change_service("S", |_| ()).expect("known");
    assert_eq!(world.heard(), ["directory 0 update Update"]);
    assert!(world.core.change_service("T", |_| ()).is_err());
    assert!(world.core.directory().service_by_name("S").is_some_and(|service| service.state.up));
}

#[test]
fn changes_of_a_service_wait_for_room_and_are_not_lost() {
    let mut world = provider(|config| config.backlog_max_bytes = 65_536);
    let item = world.item("I");
    world.settle();
    let _ = world.refresh(item, 0).expect("room");
    while world.update(item, 1).is_ok() {}
    world.core.change_service("S", |service| service.state.up = false).expect("known");
    tickcast_client::Endpoint::on_wakeup(&mut world.core, world.now, &mut |_| ());
    assert_eq!(world.heard().last().map(String::as_str), Some("directory 0 update Update"));
    while world.update(item, 1).is_ok() {}
    world.core.change_service("S", |service| service.state.up = true).expect("known");
    tickcast_client::Endpoint::on_wakeup(&mut world.core, world.now, &mut |_| ());
    world.cut();
    world.advance(SECOND);
    let directories = world.heard().into_iter().filter(|words| words.starts_with("directory"));
    assert_eq!(
        directories.collect::<Vec<_>>(),
        ["directory 0 [7] whole true"],
        "the new directory has it already"
    );
}

#[test]
fn a_login_that_is_refused_stops_the_provider_or_is_tried_again() {
    let request = LoginRequest::provider(b"ada");
    for (status, words) in [
        (
            LoginStatus::reject(&request, StateCode::NOT_ENTITLED, "no"),
            "disconnected: login refused by the server (not entitled); for good",
        ),
        (
            LoginStatus::retry_later(&request, StateCode::NONE, "busy"),
            "disconnected: login ended by the server (none); again",
        ),
    ] {
        let mut world = provider(|_| ());
        world.manners.logs_in = false;
        world.settle();
        world.say(&status);
        let told = world.words();
        assert_eq!(told.last().map(String::as_str), Some(words), "{told:?}");
        assert_eq!((world.counts().logins_refused.get(), world.counts().connect_failures.get()), (1, 1));
        let stopped = world.core.is_stopped();
        assert_eq!(stopped, words.ends_with("for good"));
        world.manners.logs_in = true;
        if stopped {
            world.core.restart(world.now);
        }
        world.advance(SECOND);
        assert!(world.core.is_logged_in());
        let trouble = State::new(StreamState::Open, DataState::Suspect);
        world.say(&LoginStatus { stream_id: 1, state: Some(trouble), ..LoginStatus::default() });
        assert_eq!(world.words().last().map(String::as_str), Some("login open/suspect"));
    }
}

#[test]
fn a_login_without_an_answer_and_malformed_messages_cost_the_connection() {
    let mut world = provider(|config| config.login_timeout_ms = 3_000);
    world.manners.logs_in = false;
    world.advance(Duration::from_secs(3));
    assert_eq!(world.words()[1], "disconnected: login not answered within 3000 ms; again");
    world.manners.logs_in = true;
    world.advance(SECOND);
    world.words();
    world.say_bytes(&[1, 2, 3]);
    assert!(world.words()[0].starts_with("disconnected: message refused: "));
    assert_eq!(world.counts().messages_refused.get(), 1);
    world.advance(SECOND);
    let other = StatusMsg::new(Domain::MARKET_PRICE, 5, DataType::NO_DATA);
    world.say(&other);
    assert!(world.core.is_logged_in(), "what a server says beside the login is passed over");
}

#[test]
fn versions_fall_back_for_a_provider_too() {
    let mut world = provider(|_| ());
    world.door = crate::world::Door::Slammed;
    world.settle();
    assert_eq!((world.connects.len(), world.counts().version_fallbacks.get()), (4, 3));
}

#[test]
fn a_provider_that_is_stopped_logs_out_behind_what_it_has_published() {
    let mut world = provider(|_| ());
    let item = world.item("I");
    world.settle();
    world.heard();
    let _ = world.refresh(item, 1).expect("room");
    let mut told = Vec::new();
    world.core.stop(&mut |event| told.push(String::from_event(event)));
    assert_eq!(told, ["disconnected: stopped by the application; for good"]);
    world.settle();
    assert!(world.server.is_none());
    assert_eq!(world.lost, 2, "the image and the logout have arrived");
    assert_eq!(world.update(item, 2), Ok(Published::Kept));
}

#[test]
fn messages_are_numbered_from_one() {
    let mut world = provider(|_| ());
    let spec = PublishSpec { seq_nums: true, ..PublishSpec::new(Domain::MARKET_PRICE, "S", "I") };
    let item = world.core.item(&spec).expect("new");
    world.settle();
    for n in 1..=3 {
        let _ = world.refresh(item, n).expect("room");
    }
    assert_eq!(world.heard()[1..], ["-1 I image #1 22=1", "-1 I image #2 22=2", "-1 I image #3 22=3"]);
}

/// What came of posts and generic messages: the item they are for, and what answers them.
struct Contributed(Option<(Option<PublishedItem>, Option<PublishedTicket>)>);

impl FromEvent<ProviderEvent<'_>> for Contributed {
    fn from_event(event: ProviderEvent<'_>) -> Self {
        Contributed(match event {
            ProviderEvent::Post { item, ticket, .. } => Some((item, ticket)),
            ProviderEvent::Generic { item, .. } => Some((Some(item), None)),
            _ => None,
        })
    }
}

#[test]
fn posts_of_consumers_come_with_a_ticket_for_their_answer() {
    let services =
        vec![ProviderServiceConfig { name: "S".into(), id: 7, ..ProviderServiceConfig::default() }];
    let config = ProviderConfig { services, ..ProviderConfig::default() };
    let core = ProviderCore::new(&config, &identity(), 1).expect("a good configuration");
    let mut world: World<ProviderCore, Contributed> = World::new(core);
    let item = world.core.item(&PublishSpec::new(Domain::MARKET_PRICE, "S", "I")).expect("new");
    world.settle();
    let _ = world.core.refresh(item, &RefreshSpec::default(), bid(1)).expect("room");
    world.settle();
    world.server().inbox.clear();
    let key = rdm::item::ItemKey::new(7, b"I");
    let post = rdm::post::post(Domain::MARKET_PRICE, -1, key, DataType::FIELD_LIST, &[0]);
    let wants = |post_id, stream_id| PostMsg { ack: true, post_id: Some(post_id), stream_id, ..post };
    world.say(&wants(1, -1));
    world.say(&wants(2, 1));
    world.say(&wants(3, -9));
    world.say(&GenericMsg::new(Domain::MARKET_PRICE, -1, DataType::NO_DATA));
    world.say(&GenericMsg::new(Domain::MARKET_PRICE, -9, DataType::NO_DATA));
    let told: Vec<_> = world.take_told().into_iter().filter_map(|told| told.0).collect();
    let [(on, Some(first)), (None, Some(second)), (Some(generic), None)] = told[..] else {
        panic!("{told:?}")
    };
    assert_eq!((on, generic), (Some(item), item));
    assert!(world.core.ack(first) && world.core.nak(second, NakCode::ACCESS_DENIED, "no"));
    world.settle();
    let acks: Vec<_> = std::mem::take(&mut world.server().inbox)
        .iter()
        .map(|bytes| match Msg::parse(bytes) {
            Ok(Msg::Ack(ack)) => (ack.stream_id, ack.ack_id, ack.nak_code),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(acks, [(-9, 3, Some(NakCode::NOT_OPEN)), (-1, 1, None), (1, 2, Some(NakCode::ACCESS_DENIED))]);
    let counts = Arc::clone(world.core.counters());
    assert_eq!((counts.posts_in.get(), counts.posts_refused.get(), counts.generics_in.get()), (3, 2, 1));
    world.cut();
    world.advance(SECOND);
    assert!(world.core.is_logged_in() && !world.core.ack(first), "it came on another connection");
}

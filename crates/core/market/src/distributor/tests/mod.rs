mod circles;
mod cleanups;
mod dialled;
mod dictionaries;
mod flow;
mod keys;
mod last_images;
mod ledger;
mod many;
mod messages;
mod private;
mod recall;
mod restarts;
mod ripples;
mod saved;
mod spoilt;
mod standby;
mod streams;
mod turns;
mod twins;
mod users;
mod withdrawal;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use rdm::ToVec;
use rdm::directory::{DirectoryRefresh, Filter, Info, Service, ServiceState};
use rdm::login::LoginRequest;
use rwf::{DataState, DataType, Domain, Key, Real, RefreshMsg, State, StatusMsg, StreamState, UpdateMsg};

use super::item::Item;
use super::status::{SUSPECT, status_bytes};
use super::*;
use crate::backbone::{Kind, LinkDown, LinkUp, StreamMsg};
use crate::cached::Scratch;
use crate::key::ItemKey;

const PROVIDER: ProviderId = ProviderId(1);
const PEER: PeerId = PeerId(7);
const T0: Nanos = Nanos(1_000_000_000);
/// Long after the service has settled.
const LATER: Nanos = Nanos(100_000_000_000);

impl Distributor {
    /// Changes the configuration of all parts.
    fn reconfigure(&mut self, change: impl FnOnce(&mut DistributorConfig)) {
        let mut config = DistributorConfig::clone(&self.config);
        change(&mut config);
        let config = Arc::new(config);
        self.items.cleanups.set_per_turn(config.cleanups_per_turn);
        self.items.suppliers.config = Arc::clone(&config);
        self.items.links.config = Arc::clone(&config);
        self.items.config = Arc::clone(&config);
        self.posts.config = Arc::clone(&config);
        self.privates.config = Arc::clone(&config);
        self.config = config;
    }
}

/// What a distributor has decided, in words; and for how many images there is room, if that is limited.
#[derive(Default)]
struct Log(Vec<String>, Option<usize>, Vec<String>);

impl Log {
    fn take(&mut self) -> Vec<String> {
        std::mem::take(&mut self.0)
    }
}

/// The key of an item of the service of these tests.
fn item(name: &str) -> ItemKey<'_> {
    ItemKey::named(1, Domain::MARKET_PRICE, name.as_bytes())
}

/// A key without service and domain.
fn of(key: &ItemKey<'_>) -> String {
    let whole = format!("{key:?}");
    whole.rsplit('/').next().unwrap_or_default().to_owned()
}

/// Another item that a provider may name in the state of one.
const ELSEWHERE: &[u8] = b"ELSEWHERE";

/// The fields of a message as `id=number`, and the data state of those that have one.
fn content(bytes: &[u8]) -> String {
    let msg = rwf::Msg::parse(bytes).expect("an RWF message");
    let state = match msg {
        rwf::Msg::Refresh(m) => format!("{} ", m.state.data),
        rwf::Msg::Status(m) => {
            let is_elsewhere = m.key.is_some_and(|key| key.name == Some(ELSEWHERE));
            let at = if is_elsewhere { " elsewhere" } else { "" };
            let text = |s: State<'_>| format!("{} {} {}{at}", s.stream, s.data, s.text_lossy());
            m.state.map_or("asked for".to_owned(), text)
        }
        rwf::Msg::Ack(m) => match m.nak_code {
            None => format!("ack {}", m.ack_id),
            Some(code) => format!("nak {} {code}", m.ack_id),
        },
        rwf::Msg::Generic(_) => "generic ".to_owned(),
        rwf::Msg::Update(m) if m.post_user_info.is_some() => "posted ".to_owned(),
        _ => String::new(),
    };
    let fields = match msg.container_type() {
        DataType::FIELD_LIST => rwf::FieldList::parse(msg.payload()).expect("a field list").entries(),
        _ => return state,
    };
    let fields: Vec<_> = fields
        .map(|f| {
            f.map(|f| {
                format!(
                    "{}={}",
                    f.id,
                    rwf::Decode::decode(f.content).map(|r: Option<Real>| r.unwrap()).unwrap()
                )
            })
        })
        .collect::<Result<_, _>>()
        .expect("whole fields");
    format!("{state}{}", fields.join(" "))
}

const DOWN: &str = "open suspect the service is down: its provider has gone";

impl DistributorSink for Log {
    fn open_stream(&mut self, service: u16, name: &str) {
        self.0.push(format!("open stream {service} {name}"));
    }
    fn close_stream(&mut self, service: u16) {
        self.0.push(format!("close stream {service}"));
    }
    fn publish(&mut self, service: u16, msg: &StreamMsg<'_>) {
        if msg.kind == Kind::ServiceStatus {
            assert_eq!((msg.item, content(msg.body)), (0, DOWN.to_owned()));
            return self.0.push(format!("all of {service} suspect #{}", msg.sequence));
        }
        let body = match msg.kind {
            Kind::Open | Kind::OpenInFull => of(&msg.opened(1).expect("a key")),
            Kind::Heartbeat => String::new(),
            _ => content(msg.body),
        };
        self.0.push(format!("{service} {:?} #{} item {}: {body}", msg.kind, msg.sequence, msg.item));
    }
    fn publish_directory(&mut self, msg: &StreamMsg<'_>) {
        let refresh = RefreshMsg::parse(msg.body).expect("a refresh");
        let mut directory = rdm::directory::Directory::default();
        directory.apply_refresh(&DirectoryRefresh::parse(&refresh).expect("a directory")).expect("legal");
        let services: Vec<_> = directory
            .services()
            .map(|s| format!("{} {} {}", s.id, s.info.name, if s.state.up { "up" } else { "down" }))
            .collect();
        self.0.push(format!("directory: {}", services.join(", ")));
    }
    fn to_peer(&mut self, peer: PeerId, msg: &LinkDown<'_>) {
        self.0.push(match *msg {
            LinkDown::HelloAck { .. } => format!("peer {}: hello", peer.0),
            LinkDown::Image { item, after, key, refresh } => {
                format!(
                    "peer {}: image of {} as item {item} after #{after}: {}",
                    peer.0,
                    of(&key),
                    content(refresh)
                )
            }
            LinkDown::ItemStatus { key, status } => {
                format!("peer {}: {} {}", peer.0, of(&key), content(status))
            }
            LinkDown::GapAnswer { first, last, known, ids, .. } => {
                let ids: Vec<_> = LinkDown::gap_items(ids).collect();
                format!("peer {}: gap {first}-{last} {}{ids:?}", peer.0, if known { "" } else { "too old " })
            }
            LinkDown::ClientAnswer { conversation, message } => {
                format!("peer {}: answer for {conversation}: {}", peer.0, content(message))
            }
            LinkDown::PrivateMessage { conversation, message } => {
                format!("peer {}: private {conversation}: {}", peer.0, content(message))
            }
        });
    }
    fn has_room(&mut self, _: PeerId) -> bool {
        match &mut self.1 {
            None => true,
            Some(0) => false,
            Some(room) => {
                *room -= 1;
                true
            }
        }
    }
    fn to_provider(&mut self, provider: ProviderId, msg: &[u8]) {
        let msg = rwf::Msg::parse(msg).expect("an RWF message");
        let what = match (&msg, msg.domain()) {
            (rwf::Msg::Request(m), Domain::MARKET_PRICE) => {
                let service = m.key.service_id.expect("items have a service");
                let key = ItemKey::of(service, m.domain, &m.key).expect("one that was short enough before");
                format!("request {} on {} in {service}", of(&key), m.stream_id)
            }
            (rwf::Msg::Close(m), Domain::MARKET_PRICE) => format!("close {}", m.stream_id),
            (rwf::Msg::Post(m), _) => {
                let service = m.key.and_then(|key| key.service_id);
                format!("post {:?} on {} in {service:?}", m.post_id, m.stream_id)
            }
            (rwf::Msg::Generic(m), Domain::MARKET_PRICE) => format!("generic on {}", m.stream_id),
            _ => format!("{:?} {}", msg.class(), msg.domain()),
        };
        self.0.push(format!("provider {}: {what}", provider.0));
    }
    fn notice(&mut self, provider: ProviderId, notice: &ProviderNotice<'_>) {
        self.0.push(format!("notice on {}: {notice}", provider.0));
    }
    fn peer_notice(&mut self, peer: PeerId, name: &str, notice: &PeerNotice) {
        // A test of their own looks at these.
        if matches!(notice, PeerNotice::HoldsBack { .. } | PeerNotice::LetsGo { .. }) {
            return self.2.push(format!("{name}: {notice}"));
        }
        self.0.push(format!("notice on peer {} {name}: {notice}", peer.0));
    }
    fn close_provider(&mut self, provider: ProviderId, why: &ProviderError) {
        self.0.push(format!("close provider {}: {why}", provider.0));
    }
}

struct Bench {
    core: Distributor,
    log: Log,
    counters: Arc<Counters>,
}

/// In each test the ledger adds up at the end.
impl Drop for Bench {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            assert_eq!(self.core.audit(), [""; 0]);
        }
    }
}

fn service(id: u16, up: bool) -> Service {
    Service {
        id,
        info: Info {
            name: "BINANCE".to_owned(),
            capabilities: vec![Domain::MARKET_PRICE],
            ..Info::default()
        },
        state: ServiceState { up, ..ServiceState::default() },
        ..Service::default()
    }
}

fn fields(all: &[(i16, i64)]) -> Vec<u8> {
    rwf::encode_to_vec(|w| w.field_list(|f| all.iter().for_each(|&(id, v)| f.put(id, Real::decimal(v, 0)))))
        .expect("legal")
}

fn refresh(stream_id: i32, name: &str, all: &[(i16, i64)]) -> Vec<u8> {
    refresh_for(3, stream_id, name, all)
}

/// `service` is the provider's number of it.
fn refresh_for(service: u16, stream_id: i32, name: &str, all: &[(i16, i64)]) -> Vec<u8> {
    let payload = fields(all);
    let key = Some(Key::item(service, name.as_bytes()));
    let msg = RefreshMsg {
        complete: true,
        key,
        payload: &payload,
        ..RefreshMsg::new(Domain::MARKET_PRICE, stream_id, DataType::FIELD_LIST)
    };
    msg.to_vec().expect("legal")
}

fn update(stream_id: i32, key: Option<Key<'_>>, all: &[(i16, i64)]) -> Vec<u8> {
    let payload = fields(all);
    let msg = UpdateMsg {
        key,
        payload: &payload,
        ..UpdateMsg::new(Domain::MARKET_PRICE, stream_id, DataType::FIELD_LIST)
    };
    msg.to_vec().expect("legal")
}

impl Bench {
    fn new(config: DistributorConfig) -> Bench {
        let counters = Arc::new(Counters::default());
        let core = Distributor::new(9, config, Arc::new(Dictionary::new()), counters.clone());
        Bench { core, log: Log::default(), counters }
    }

    /// With a provider that has announced the service under its own id 3, ours being 1, and a greeted peer.
    fn running() -> Bench {
        let service_ids = BTreeMap::from([("BINANCE".to_owned(), 1)]);
        let mut bench =
            Bench::new(DistributorConfig { service_ids, gap_memory: 8, ..DistributorConfig::default() });
        bench.provider_logs_in(PROVIDER);
        bench.announce(PROVIDER, &[service(3, true)]);
        bench.core.on_peer_connected(PEER);
        bench.peer(T0, &LinkUp::Hello { peer: 1, name: b"test" });
        bench.log.take();
        bench
    }

    fn provider_logs_in(&mut self, provider: ProviderId) {
        self.core.on_provider_connected(provider, None);
        self.provider(T0, provider, &LoginRequest::provider(b"feed").to_vec().expect("legal"));
    }

    fn announce(&mut self, provider: ProviderId, services: &[Service]) {
        let refresh = DirectoryRefresh::publish(-1, Filter::INFO_AND_STATE, services).expect("unique");
        self.provider(T0, provider, &refresh.to_vec().expect("legal"));
    }

    fn provider(&mut self, now: Nanos, provider: ProviderId, bytes: &[u8]) {
        self.core.on_provider_message(now, provider, bytes, &mut self.log).expect("accepted");
    }

    fn peer(&mut self, now: Nanos, msg: &LinkUp<'_>) {
        let mut bytes = Vec::new();
        msg.encode(&mut bytes);
        self.core.on_peer_message(now, PEER, &bytes, &mut self.log).expect("accepted");
    }

    fn interest(&mut self, now: Nanos, name: &str) {
        self.peer(now, &LinkUp::Interest { key: item(name) });
    }
}

#[test]
fn an_update_goes_out_once_somebody_wants_the_item() {
    let mut bench = Bench::running();
    bench.provider(T0, PROVIDER, &refresh(-5, "A", &[(22, 1), (25, 2)]));
    bench.provider(T0, PROVIDER, &update(-5, None, &[(22, 3)]));
    assert_eq!(bench.log.take(), [""; 0]);
    bench.interest(T0, "A");
    assert_eq!(
        bench.log.take(),
        ["1 Open #1 item 1: A", "peer 7: image of A as item 1 after #1: ok 22=3 25=2"],
        "the id is known to everybody before the image says after which number it was taken"
    );
    bench.provider(T0, PROVIDER, &update(-5, None, &[(25, 4)]));
    assert_eq!(bench.log.take(), ["1 Update #2 item 1: 25=4"]);
    bench.peer(T0, &LinkUp::NoInterest { key: item("A") });
    bench.provider(T0, PROVIDER, &update(-5, None, &[(25, 5)]));
    assert_eq!(bench.log.take(), [""; 0]);
    assert_eq!((bench.counters.updates_in.get(), bench.counters.updates_unwanted.get()), (3, 2));
}

#[test]
fn an_update_keeps_the_provider_s_bytes_but_for_the_key() {
    let mut bench = Bench::running();
    bench.provider(T0, PROVIDER, &refresh(-5, "A", &[(22, 1)]));
    bench.interest(T0, "A");
    bench.log.take();
    let plain = update(-5, None, &[(22, 2)]);
    let keyed = update(-5, Some(Key::item(3, b"A")), &[(22, 2)]);
    struct Bodies(Vec<Vec<u8>>);
    impl DistributorSink for Bodies {
        fn open_stream(&mut self, _: u16, _: &str) {}
        fn close_stream(&mut self, _: u16) {}
        fn publish(&mut self, _: u16, msg: &StreamMsg<'_>) {
            self.0.push(msg.body.to_vec());
        }
        fn publish_directory(&mut self, _: &StreamMsg<'_>) {}
        fn to_peer(&mut self, _: PeerId, _: &LinkDown<'_>) {}
        fn to_provider(&mut self, _: ProviderId, _: &[u8]) {}
        fn notice(&mut self, _: ProviderId, _: &ProviderNotice<'_>) {}
        fn peer_notice(&mut self, _: PeerId, _: &str, _: &PeerNotice) {}
        fn close_provider(&mut self, _: ProviderId, _: &ProviderError) {}
    }
    let mut bodies = Bodies(Vec::new());
    for bytes in [&plain, &keyed] {
        bench.core.on_provider_message(T0, PROVIDER, bytes, &mut bodies).expect("accepted");
    }
    assert_eq!(bodies.0, [plain.clone(), plain]);
}

#[test]
fn an_item_that_is_not_published_yet_is_waited_for_and_then_not_found() {
    let mut bench = Bench::running();
    bench.interest(T0, "A");
    bench.interest(T0, "B");
    let waiting = "open suspect waiting for the provider to publish the item";
    assert_eq!(bench.log.take(), [format!("peer 7: A {waiting}"), format!("peer 7: B {waiting}")]);
    bench.provider(T0, PROVIDER, &refresh(-5, "A", &[(22, 1)]));
    assert_eq!(bench.log.take(), ["1 Open #1 item 1: A", "peer 7: image of A as item 1 after #1: ok 22=1"]);
    let due = bench.core.next_wakeup();
    assert!(due <= T0 + DistributorConfig::default().settle_time);
    bench.core.on_wakeup(LATER, &mut bench.log);
    let not_found = "closed suspect the provider does not publish this item";
    assert!(bench.log.take().contains(&format!("peer 7: B {not_found}")));
    bench.interest(LATER, "C");
    assert_eq!(bench.log.take(), [format!("peer 7: C {not_found}")]);
    assert_eq!(bench.counters.items_not_found.get(), 2);
}

#[test]
fn a_provider_that_goes_leaves_its_items_suspect_until_it_is_back() {
    let mut bench = Bench::running();
    bench.provider(T0, PROVIDER, &refresh(-5, "A", &[(22, 1)]));
    bench.interest(T0, "A");
    bench.log.take();
    bench.core.on_provider_closed(T0, PROVIDER, &mut bench.log);
    assert_eq!(bench.log.take(), ["all of 1 suspect #2", "directory: 1 BINANCE down"]);
    bench.peer(T0, &LinkUp::ImageRequest { key: item("A") });
    assert_eq!(bench.log.take(), ["peer 7: image of A as item 1 after #2: suspect 22=1"]);
    let again = ProviderId(2);
    bench.provider_logs_in(again);
    bench.announce(again, &[service(3, true)]);
    bench.provider(T0, again, &refresh(-9, "A", &[(22, 2)]));
    let log = bench.log.take();
    assert_eq!(log[1..], ["directory: 1 BINANCE up", "1 Refresh #3 item 1: ok 22=2"]);
}

#[test]
fn a_gap_is_answered_with_its_items_as_far_back_as_is_remembered() {
    let mut bench = Bench::running();
    for (stream, name) in [(-5, "A"), (-6, "B")] {
        bench.provider(T0, PROVIDER, &refresh(stream, name, &[(22, 1)]));
        bench.interest(T0, name);
    }
    for stream in [-5, -6, -5] {
        bench.provider(T0, PROVIDER, &update(stream, None, &[(22, 2)]));
    }
    bench.log.take();
    bench.peer(T0, &LinkUp::GapQuery { service: 1, first: 3, last: 3 });
    bench.peer(T0, &LinkUp::GapQuery { service: 1, first: 3, last: 5 });
    for _ in 0..8 {
        bench.provider(T0, PROVIDER, &update(-5, None, &[(22, 2)]));
    }
    bench.peer(T0, &LinkUp::GapQuery { service: 1, first: 3, last: 5 });
    let log: Vec<_> = bench.log.take().into_iter().filter(|l| l.starts_with("peer")).collect();
    assert_eq!(log, ["peer 7: gap 3-3 [1]", "peer 7: gap 3-5 [1, 2]", "peer 7: gap 3-5 too old []"]);
}

#[test]
fn a_closed_item_is_gone_for_everybody_and_its_id_rests() {
    let mut bench = Bench::running();
    bench.provider(T0, PROVIDER, &refresh(-5, "A", &[(22, 1)]));
    bench.interest(T0, "A");
    bench.log.take();
    let state =
        State::new(rwf::StreamState::Closed, rwf::DataState::Suspect).because(rwf::StateCode::NONE, "bye");
    let status =
        StatusMsg { state: Some(state), ..StatusMsg::new(Domain::MARKET_PRICE, -5, DataType::NO_DATA) };
    bench.provider(T0, PROVIDER, &status.to_vec().expect("legal"));
    assert_eq!(bench.log.take(), ["1 Close #2 item 1: closed suspect bye"]);
    bench.provider(T0, PROVIDER, &refresh(-5, "A", &[(22, 9)]));
    bench.interest(T0, "A");
    assert_eq!(
        bench.log.take(),
        ["1 Open #3 item 2: A", "peer 7: image of A as item 2 after #3: ok 22=9"],
        "a gap may still hide the end of item 1"
    );
}

#[test]
fn peers_that_leave_are_forgotten() {
    let mut bench = Bench::running();
    bench.provider(T0, PROVIDER, &refresh(-5, "A", &[(22, 1)]));
    bench.interest(T0, "A");
    bench.interest(T0, "unknown");
    bench.core.on_peer_closed(T0, PEER, &mut bench.log);
    bench.log.take();
    bench.provider(T0, PROVIDER, &update(-5, None, &[(22, 2)]));
    bench.core.on_wakeup(LATER, &mut bench.log);
    assert!(bench.log.take().iter().all(|l| !l.contains("Update") && !l.starts_with("peer")));
    assert_eq!(bench.counters.peers.get(), 0);
}

#[test]
fn a_silent_stream_says_its_end_again() {
    let mut bench = Bench::running();
    bench.provider(T0, PROVIDER, &refresh(-5, "A", &[(22, 1)]));
    bench.interest(T0, "A");
    bench.log.take();
    bench.core.on_wakeup(LATER, &mut bench.log);
    assert_eq!(bench.log.take(), ["1 Heartbeat #1 item 0: ", "directory: 1 BINANCE up"]);
}

#[test]
fn a_link_message_that_cannot_be_read_costs_that_request_alone() {
    let mut bench = Bench::running();
    bench.provider(T0, PROVIDER, &refresh(-5, "A", &[(22, 1)]));
    let refused: Vec<LinkError> = [&[1, 250, 0, 1][..], &[1, 66, 0, 1, 9], &[1, 5, 0, 1, 0]]
        .into_iter()
        .map(|bytes| bench.core.on_peer_message(T0, PEER, bytes, &mut bench.log).expect_err("no message"))
        .collect();
    assert!(refused.iter().all(|error| !error.cuts_link()), "{refused:?}");
    assert_eq!(bench.counters.link_messages_refused.get(), 3);
    bench.log.take();
    bench.interest(T0, "A");
    assert!(bench.log.take().iter().any(|line| line.contains("image of A")), "the link goes on");
    let mut said = |peer, bytes: &[u8]| {
        bench.core.on_peer_message(T0, peer, bytes, &mut bench.log).expect_err("no message").cuts_link()
    };
    assert!(said(PEER, &[9, 1, 0, 1]), "another version of the protocol");
    bench.core.on_peer_connected(PeerId(8));
    let garbage = bench.core.on_peer_message(T0, PeerId(8), &[1, 250], &mut bench.log);
    assert_eq!(garbage, Err(LinkError::NotGreeted), "a stranger gets no second try");
}

#[test]
fn what_is_out_of_place_is_refused_and_counted() {
    let mut bench = Bench::running();
    let stranger = ProviderId(5);
    bench.core.on_provider_connected(stranger, None);
    bench.provider(T0, stranger, &refresh(-5, "A", &[(22, 1)]));
    let consumer = LoginRequest::consumer(b"me").to_vec().expect("legal");
    let refused = bench.core.on_provider_message(T0, stranger, &consumer, &mut bench.log);
    assert_eq!(refused, Err(ProviderError::LoginRefused));
    assert_eq!(bench.log.take(), ["provider 5: Status market price", "provider 5: Status login"]);
    let garbage = bench.core.on_provider_message(T0, PROVIDER, &[0, 1, 2], &mut bench.log);
    assert!(matches!(garbage, Err(ProviderError::Malformed(_))));
    bench.core.on_peer_connected(PeerId(8));
    let mut bytes = Vec::new();
    LinkUp::GapQuery { service: 1, first: 1, last: 2 }.encode(&mut bytes);
    assert_eq!(bench.core.on_peer_message(T0, PeerId(8), &bytes, &mut bench.log), Err(LinkError::NotGreeted));
    assert_eq!((bench.counters.messages_refused.get(), bench.counters.link_messages_refused.get()), (2, 1));
}

#[test]
fn a_service_whose_id_is_taken_is_refused() {
    let mut bench = Bench::running();
    let other = ProviderId(2);
    bench.provider_logs_in(other);
    let mut clash = service(1, true);
    clash.info.name = "OTHER".to_owned();
    bench.log.take();
    let unfit = "its id is another service's, there are too many, or its description is too long";
    for told in [vec![format!("notice on 2: service \"OTHER\" is not taken: {unfit}")], vec![]] {
        bench.announce(other, &[clash.clone()]);
        assert_eq!(bench.log.take(), told, "once");
    }
    assert_eq!(bench.counters.services_refused.get(), 2);
    clash.id = 2;
    bench.announce(other, &[clash]);
    assert_eq!(bench.log.take(), ["open stream 2 OTHER", "directory: 1 BINANCE up, 2 OTHER up"]);
}

#[test]
fn a_service_keeps_its_id_when_its_provider_comes_back_with_another_one() {
    let mut bench = Bench::new(DistributorConfig::default());
    bench.provider_logs_in(PROVIDER);
    bench.announce(PROVIDER, &[service(210, true)]);
    bench.core.on_provider_closed(T0, PROVIDER, &mut bench.log);
    bench.provider_logs_in(PROVIDER);
    bench.announce(PROVIDER, &[service(7, true)]);
    bench.provider(T0, PROVIDER, &refresh_for(7, -5, "BTCUSDT", &[(22, 1)]));
    let services: Vec<_> = bench.core.services().map(|(id, name, up, _)| (id, name, up)).collect();
    assert_eq!(services, [(210, "BINANCE", true)]);
    assert_eq!(bench.core.items().map(|(key, _)| key.service).collect::<Vec<_>>(), [210]);
    assert_eq!(bench.counters.messages_refused.get(), 0);
}

#[test]
fn a_withdrawn_service_closes_its_items() {
    let mut bench = Bench::running();
    bench.provider(T0, PROVIDER, &refresh(-5, "A", &[(22, 1)]));
    bench.interest(T0, "A");
    bench.log.take();
    bench.announce(PROVIDER, &[]);
    let log = bench.log.take();
    assert!(log[0].starts_with("1 Close #2 item 1: closed-recover suspect"), "{log:?}");
    assert_eq!(log[1..], ["close stream 1", "directory: "]);
}

#[test]
fn a_service_too_large_for_a_directory_is_refused_and_the_one_before_stays() {
    let mut bench = Bench::running();
    let mut grown = service(1, true);
    grown.info.dictionaries_used = vec!["D".repeat(250); 200];
    bench.log.take();
    bench.announce(PROVIDER, &[grown]);
    assert_eq!((bench.log.take().len(), bench.counters.services_refused.get()), (1, 1));
    assert_eq!(bench.core.services().count(), 1);
}

#[test]
fn there_are_no_more_services_than_configured() {
    let mut bench = Bench::new(DistributorConfig { services_max: 2, ..DistributorConfig::default() });
    bench.provider_logs_in(PROVIDER);
    let named = |id: u16| {
        let mut one = service(id, true);
        one.info.name = format!("S{id}");
        one
    };
    bench.announce(PROVIDER, &[named(1), named(2), named(3)]);
    assert_eq!(bench.core.services().map(|(id, ..)| id).collect::<Vec<_>>(), [1, 2]);
    assert_eq!(bench.counters.services_refused.get(), 1);
}

#[test]
fn a_service_whose_name_cannot_be_that_of_a_topic_is_refused_and_its_neighbours_are_not() {
    let mut bench = Bench::new(DistributorConfig::default());
    bench.provider_logs_in(PROVIDER);
    bench.log.take();
    let named = |(id, name): (u16, &str)| {
        let mut one = service(id, true);
        one.info.name = name.to_owned();
        one
    };
    let (longest, too_long) = ("L".repeat(238), "L".repeat(239));
    let names = [(1, &*too_long), (2, "zero\0byte"), (3, &*longest), (4, "A"), (5, "")];
    bench.announce(PROVIDER, &names.map(named));
    assert_eq!(bench.core.services().map(|(id, ..)| id).collect::<Vec<_>>(), [3, 4]);
    let told: Vec<String> = bench.log.take().into_iter().filter(|line| line.contains("notice")).collect();
    assert_eq!((told.len(), bench.counters.services_refused.get()), (3, 3), "{told:?}");
    assert!(told[2].contains("service \"\" is not taken: its name of 0 bytes, 1 to 238"), "{told:?}");
    assert!(told[0].contains("its name of 239 bytes, 1 to 238 without a zero are allowed"), "{told:?}");
    bench.announce(PROVIDER, &names.map(named));
    assert!(!bench.log.take().iter().any(|line| line.contains("notice")), "it is told once");
}

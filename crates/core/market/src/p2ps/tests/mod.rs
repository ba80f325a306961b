mod batches;
mod cleanups;
mod clients;
mod composed;
mod conflated;
mod continuations;
mod conversations;
mod directories;
mod due;
mod front;
mod gaps;
mod hops;
mod hot;
mod ids;
mod inspection;
mod kept;
mod keys;
mod last_images;
mod ledger;
mod logins;
mod memory;
mod older;
mod paced;
mod progress;
mod relay;
mod restarts;
mod ripples;
mod rounds;
mod scale;
mod service_status;
mod silent;
mod spoilt;
mod streams;
mod users;

use std::collections::BTreeSet;
use std::time::Duration;

use rdm::ToVec;
use rdm::directory::{DirectoryRefresh, DirectoryRequest, Filter, Info, Service as Definition, ServiceState};
use rdm::item::{ItemKey as Key, ItemRequest};
use rdm::login::LoginRequest;
use rwf::{
    CloseMsg, DataType, Domain, FieldList, Msg, Real, RefreshMsg, State, StateCode, StatusMsg, StreamState,
    UpdateMsg,
};

use super::*;
use crate::backbone::{Features, Kind, LinkDown, LinkUp, StreamMsg};
use crate::key::ItemKey;

const DIRECTORY: SourceId = SourceId(0);
const STREAM: SourceId = SourceId(1);
const INSTANCE: u64 = 77;
const A: ClientId = ClientId(1);
const B: ClientId = ClientId(2);
const T0: Nanos = Nanos(1_000_000_000);
/// Longer than what else these tests wait for.
const SILENCE: Duration = Duration::from_secs(2);

/// The key of an item of the service of these tests.
fn named(name: &str) -> ItemKey<'_> {
    ItemKey::named(1, Domain::MARKET_PRICE, name.as_bytes())
}

/// A key without service and domain.
fn item(key: &ItemKey<'_>) -> String {
    let whole = format!("{key:?}");
    whole.rsplit('/').next().unwrap_or_default().to_owned()
}

impl PointToPoint {
    /// Changes the configuration of all parts.
    fn reconfigure(&mut self, change: impl FnOnce(&mut ServerConfig)) {
        let mut config = ServerConfig::clone(&self.config);
        change(&mut config);
        let config = Arc::new(config);
        self.items.cleanups.set_per_turn(config.cleanups_per_turn);
        self.items.kept.set_max(config.kept_images_max);
        let (interval_of, sources) = (|name: &str| config.service_interval(name), &mut self.items.sources);
        let id_of = |name: &str| sources.reserve(name);
        self.items.composed = super::composed::Composed::new(&config.composed, interval_of, id_of);
        self.items.clients.config = Arc::clone(&config);
        self.items.config = Arc::clone(&config);
        self.instances.config = Arc::clone(&config);
        self.config = config;
    }
}

/// What a server has decided, in words.
#[derive(Default)]
struct Log(Vec<String>, Option<usize>, BTreeSet<ClientId>, BTreeSet<ClientId>, Option<Vec<String>>);

impl Log {
    /// Notes the key of a message to clients, if it has one and the fifth field is there.
    fn note_key(&mut self, msg: &[u8]) {
        let Some(keys) = &mut self.4 else { return };
        let msg = Msg::parse(msg).expect("an RWF message");
        if let Some(key) = msg.key() {
            let name = key.name.map(|name| String::from_utf8_lossy(name).into_owned());
            keys.push(format!("{}/{}", key.service_id.unwrap_or_default(), name.unwrap_or_default()));
        }
    }
}

fn class(message: &[u8]) -> String {
    format!("{:?}", rwf::peek(message).expect("an RWF message").class).to_lowercase()
}

fn describe(bytes: &[u8]) -> String {
    let msg = Msg::parse(bytes).expect("an RWF message");
    let mut words = vec![format!("{:?}", msg.class()).to_lowercase()];
    match msg {
        Msg::Refresh(m) => {
            words.push(format!("{}{}", m.state.data, if m.solicited { " solicited" } else { "" }));
            words.extend((m.state.stream != StreamState::Open).then(|| m.state.stream.to_string()));
            let service = m.key.and_then(|key| key.service_id).filter(|_| m.private_stream);
            words.extend(service.map(|id| format!("private of {id}")));
        }
        Msg::Status(m) => {
            words.extend(m.state.map(|s| format!("{} {}: {}", s.stream, s.data, s.text_lossy())));
            words.extend(m.private_stream.then(|| "private".to_owned()));
        }
        Msg::Ack(m) => {
            words.push(m.ack_id.to_string());
            words.extend(m.nak_code.map(|code| format!("refused: {code}")));
        }
        _ => {}
    }
    if msg.domain() != Domain::MARKET_PRICE {
        words.push(msg.domain().to_string());
    }
    if msg.container_type() == DataType::FIELD_LIST {
        for field in FieldList::parse(msg.payload()).expect("a field list").entries() {
            let field = field.expect("whole fields");
            let value: Option<Real> = rwf::Decode::decode(field.content).expect("a real");
            words.push(format!("{}={}", field.id, value.expect("not blank")));
        }
    }
    words.join(" ")
}

impl ServerSink for Log {
    fn begin_stamped(&mut self, update: &StampedUpdate<'_>) {
        let (name, hops) = (String::from_utf8_lossy(update.key.name), update.hops.distributor);
        self.0.push(format!("stamped {name} {}: {} to {}", update.sequence, hops.came, hops.left));
    }
    fn end_stamped(&mut self) {
        self.0.push("end of stamped".to_owned());
    }
    fn send(&mut self, client: ClientId, msg: &[u8]) {
        self.note_key(msg);
        let stream = Msg::parse(msg).expect("an RWF message").stream_id();
        self.0.push(format!("{}/{stream}: {}", client.0, describe(msg)));
    }
    fn fan_out(&mut self, watchers: &[Watcher], msg: &[u8]) {
        if watchers.is_empty() {
            return;
        }
        self.note_key(msg);
        let to: Vec<_> = watchers.iter().map(|w| format!("{}/{}", w.client.0, w.stream_id)).collect();
        self.0.push(format!("{}: {}", to.join(","), describe(msg)));
    }
    /// Those in the fourth field are refused.
    fn fan_out_update(&mut self, watchers: &[Watcher], msg: &[u8], refused: &mut Vec<Watcher>) {
        let (slow, fast): (Vec<Watcher>, Vec<Watcher>) =
            watchers.iter().partition(|watcher| self.3.contains(&watcher.client));
        refused.extend(slow);
        self.fan_out(&fast, msg);
    }
    fn set_rate(&mut self, client: ClientId, bytes_per_second: u64) {
        self.0.push(format!("{}: {bytes_per_second} bytes a second", client.0));
    }
    fn set_priority(&mut self, client: ClientId, priority: u8) {
        self.0.push(format!("{}: priority {priority}", client.0));
    }
    fn end_round(&mut self, client: ClientId) {
        self.0.push(format!("{}: end of round", client.0));
    }
    /// Those in the third field.
    fn lags(&mut self, client: ClientId) -> bool {
        self.2.contains(&client)
    }
    /// As often as the second field says, if it says so.
    fn admits_more(&mut self, _: ClientId) -> bool {
        self.1.as_mut().is_none_or(|left| {
            let admits = *left > 0;
            *left = left.saturating_sub(1);
            admits
        })
    }
}

impl UpstreamSink for Log {
    fn subscribe(&mut self, service: &str) {
        self.0.push(format!("subscribe {service}"));
    }
    fn unsubscribe(&mut self, service: &str) {
        self.0.push(format!("unsubscribe {service}"));
    }
    fn connect(&mut self, instance: u64, _: SourceId) {
        self.0.push(format!("connect {instance}"));
    }
    fn disconnect_link(&mut self, instance: u64) {
        self.0.push(format!("disconnect {instance}"));
    }
    fn notice(&mut self, notice: &ServerNotice<'_>) {
        // Each gap is; a test of its own looks at that.
        if !matches!(notice, ServerNotice::Lost { .. }) {
            self.0.push(format!("notice: {notice}"));
        }
    }
    fn to_instance(&mut self, instance: u64, msg: &LinkUp<'_>) {
        self.0.push(match *msg {
            LinkUp::Hello { .. } => format!("{instance}: hello"),
            LinkUp::Interest { key } => format!("{instance}: interest {}", item(&key)),
            LinkUp::Resume { key } => format!("{instance}: resume {}", item(&key)),
            LinkUp::NoInterest { key } => format!("{instance}: no interest {}", item(&key)),
            LinkUp::ImageRequest { key } => format!("{instance}: image {}", item(&key)),
            LinkUp::GapQuery { first, last, .. } => format!("{instance}: gap {first}-{last}"),
            LinkUp::ClientMessage { conversation, key, message } => {
                format!("{instance}: client message {conversation} {} {}", item(&key), class(message))
            }
            LinkUp::PrivateRequest { conversation, .. } => {
                format!("{instance}: private request {conversation}")
            }
            LinkUp::PrivateMessage { conversation, message } => {
                format!("{instance}: private message {conversation} {}", class(message))
            }
            LinkUp::Progress { positions } => {
                let positions: Vec<_> = LinkUp::positions(positions).collect();
                format!("{instance}: progress {positions:?}")
            }
        });
    }
}

struct Bench {
    core: PointToPoint,
    log: Log,
    counters: Arc<Counters>,
    now: Nanos,
}

/// In each test the ledger adds up, at its end and whenever it looks what was sent.
impl Drop for Bench {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            assert_eq!(self.core.audit(), [""; 0]);
        }
    }
}

fn definition(up: bool) -> Definition {
    Definition {
        id: 1,
        info: Info {
            name: "BINANCE".to_owned(),
            capabilities: vec![Domain::MARKET_PRICE],
            ..Info::default()
        },
        state: ServiceState { up, ..ServiceState::default() },
        ..Definition::default()
    }
}

fn fields(all: &[(i16, i64)]) -> Vec<u8> {
    rwf::encode_to_vec(|w| w.field_list(|f| all.iter().for_each(|&(id, v)| f.put(id, Real::decimal(v, 0)))))
        .expect("legal")
}

/// A provider's messages with numbers.
fn image_of(number: u32, value: i64, state: State<'_>) -> Vec<u8> {
    let payload = fields(&[(22, value)]);
    let msg = RefreshMsg {
        complete: true,
        state,
        seq_num: Some(number),
        payload: &payload,
        ..RefreshMsg::new(Domain::MARKET_PRICE, 0, DataType::FIELD_LIST)
    };
    msg.to_vec().expect("legal")
}

fn numbered(number: Option<u32>, value: i64) -> Vec<u8> {
    let payload = fields(&[(22, value)]);
    let msg = UpdateMsg {
        seq_num: number,
        payload: &payload,
        ..UpdateMsg::new(Domain::MARKET_PRICE, -5, DataType::FIELD_LIST)
    };
    msg.to_vec().expect("legal")
}

fn refresh(all: &[(i16, i64)]) -> Vec<u8> {
    let payload = fields(all);
    let msg = RefreshMsg {
        complete: true,
        payload: &payload,
        ..RefreshMsg::new(Domain::MARKET_PRICE, 0, DataType::FIELD_LIST)
    };
    msg.to_vec().expect("legal")
}

fn update(all: &[(i16, i64)]) -> Vec<u8> {
    let payload = fields(all);
    UpdateMsg { payload: &payload, ..UpdateMsg::new(Domain::MARKET_PRICE, -5, DataType::FIELD_LIST) }
        .to_vec()
        .expect("legal")
}

fn status(stream: StreamState, words: &str) -> Vec<u8> {
    let state = State::new(stream, rwf::DataState::Suspect).because(StateCode::NOT_FOUND, words);
    StatusMsg { state: Some(state), ..StatusMsg::new(Domain::MARKET_PRICE, 0, DataType::NO_DATA) }
        .to_vec()
        .expect("legal")
}

/// A request for a stream of an item of service 1.
fn streaming(stream_id: i32, name: &str) -> ItemRequest<'_> {
    let key = Key {
        service_id: 1,
        name: name.as_bytes(),
        name_type: None,
        filter: None,
        identifier: None,
        attributes: None,
    };
    ItemRequest::streaming(Domain::MARKET_PRICE, stream_id, key)
}

impl Bench {
    /// With two clients logged in and nothing upstream.
    fn alone() -> Bench {
        let counters = Arc::new(Counters::default());
        let config = ServerConfig { silence_timeout: SILENCE, ..ServerConfig::default() };
        let core = PointToPoint::new(1, config, Arc::new(Dictionary::new()), counters.clone());
        let mut bench = Bench { core, log: Log::default(), counters, now: T0 };
        for client in [A, B] {
            bench.core.on_client_connected(client, ClientProfile::default());
            bench.client(client, &LoginRequest::consumer(b"me").to_vec().expect("legal"));
        }
        bench.log.0.clear();
        bench
    }

    /// The same with an instance that publishes the service.
    fn running() -> Bench {
        let mut bench = Bench::alone();
        bench.find_instance(DIRECTORY, STREAM, INSTANCE, true);
        bench.log.0.clear();
        bench
    }

    fn find_instance(&mut self, directory: SourceId, stream: SourceId, instance: u64, up: bool) {
        self.core.on_source(self.now, directory, Topic::Directory, instance, &mut self.log);
        self.directory(directory, instance, &[definition(up)]);
        self.core.on_link_up(instance, &mut self.log);
        self.link(instance, &LinkDown::HelloAck { instance, features: Features::OURS });
        self.core.on_source(self.now, stream, Topic::Service("BINANCE"), instance, &mut self.log);
    }

    /// A directory, from an instance whose streams beat with it.
    fn directory(&mut self, source: SourceId, instance: u64, services: &[Definition]) {
        self.directory_alone(source, instance, services);
        let session = self.core.items.sources.instances[&instance].session;
        self.core.items.sources.note_heard(self.now, Some(session));
    }

    fn directory_alone(&mut self, source: SourceId, instance: u64, services: &[Definition]) {
        let body =
            DirectoryRefresh::publish(0, Filter::ALL, services).expect("unique").to_vec().expect("legal");
        let msg =
            StreamMsg { kind: Kind::Directory, instance, sequence: 1, item: 0, parts: &[], body: &body };
        let bytes = [&msg.header()[..], &body].concat();
        self.core.on_stream_message(self.now, source, &bytes, &mut self.log).expect("accepted");
    }

    fn client(&mut self, client: ClientId, bytes: &[u8]) {
        self.core.on_client_message(self.now, client, bytes, &mut self.log).expect("accepted");
    }

    fn request(&mut self, client: ClientId, stream_id: i32, name: &str) {
        self.ask(client, &streaming(stream_id, name));
    }

    fn ask(&mut self, client: ClientId, request: &ItemRequest<'_>) {
        self.client(client, &request.to_vec().expect("legal"));
    }

    fn log_in(&mut self, client: ClientId, request: &LoginRequest<'_>) {
        self.client(client, &request.to_vec().expect("legal"));
    }

    fn close(&mut self, client: ClientId, stream_id: i32) {
        let msg = CloseMsg::new(Domain::MARKET_PRICE, stream_id, DataType::NO_DATA);
        self.client(client, &msg.to_vec().expect("legal"));
    }

    fn gap_answer(&mut self, first: u64, last: u64, ids: Option<&[u32]>) {
        let bytes: Vec<u8> = ids.unwrap_or_default().iter().flat_map(|id| id.to_be_bytes()).collect();
        self.link(
            INSTANCE,
            &LinkDown::GapAnswer { service: 1, first, last, known: ids.is_some(), ids: &bytes },
        );
    }

    fn link(&mut self, instance: u64, msg: &LinkDown<'_>) {
        let mut bytes = Vec::new();
        msg.encode(&mut bytes);
        self.core.on_link_message(self.now, instance, &bytes, &mut self.log).expect("accepted");
    }

    fn image(&mut self, item: u32, after: u64, name: &str, all: &[(i16, i64)]) {
        let refresh = refresh(all);
        self.link(INSTANCE, &LinkDown::Image { item, after, key: named(name), refresh: &refresh });
    }

    fn stream(&mut self, kind: Kind, sequence: u64, item: u32, body: &[u8]) {
        let msg = StreamMsg { kind, instance: INSTANCE, sequence, item, parts: &[], body };
        let bytes = [&msg.header()[..], body].concat();
        self.core.on_stream_message(self.now, STREAM, &bytes, &mut self.log).expect("accepted");
    }

    fn open(&mut self, sequence: u64, item: u32, name: &str) {
        let body = [&[6, name.len() as u8], name.as_bytes()].concat();
        self.stream(Kind::Open, sequence, item, &body);
    }

    fn after(&mut self, span: Duration) {
        self.now += span;
        self.core.on_wakeup(self.now, &mut self.log);
    }

    fn took(&mut self) -> Vec<String> {
        assert_eq!(self.core.audit(), [""; 0]);
        std::mem::take(&mut self.log.0)
    }

    /// Item IBM as number 1 of the stream, watched by A on stream 5, with 22=1.
    fn watching() -> Bench {
        let mut bench = Bench::running();
        bench.request(A, 5, "IBM");
        bench.open(1, 1, "IBM");
        bench.image(1, 1, "IBM", &[(22, 1)]);
        bench.log.0.clear();
        bench
    }
}

#[test]
fn an_item_is_asked_for_once_however_many_watch_it() {
    let mut bench = Bench::running();
    bench.request(A, 5, "IBM");
    bench.request(B, 9, "IBM");
    assert_eq!(bench.took(), ["77: interest IBM"]);
    bench.open(1, 1, "IBM");
    bench.image(1, 1, "IBM", &[(22, 1)]);
    assert_eq!(bench.took(), ["1/5,2/9: refresh ok solicited 22=1"]);
    bench.stream(Kind::Update, 2, 1, &update(&[(22, 2)]));
    bench.request(B, 10, "IBM");
    assert_eq!(bench.took(), ["1/5,2/9: update 22=2", "2/10: refresh ok solicited 22=2"]);
    assert_eq!((bench.counters.watchers.get(), bench.counters.items.get()), (3, 1));
}

#[test]
fn each_connection_gets_an_image_in_parts_that_it_takes() {
    let mut bench = Bench::running();
    let whole = ClientProfile { refresh_part_bytes: usize::MAX, ..ClientProfile::default() };
    let parts = ClientProfile { refresh_part_bytes: 4, ..ClientProfile::default() };
    for (client, profile) in [(ClientId(3), whole), (ClientId(4), parts)] {
        bench.core.on_client_connected(client, profile);
        bench.client(client, &LoginRequest::consumer(b"me").to_vec().expect("legal"));
        bench.request(client, 5, "IBM");
    }
    let head = rwf::MapHead::new(DataType::ASCII_STRING, DataType::NO_DATA);
    let payload = rwf::encode_to_vec(|w| {
        w.map(&head, |m| {
            for name in [&b"A"[..], b"B"] {
                m.entry(rwf::MapAction::Add, rwf::AsciiString(name), None, |_| ());
            }
        });
    })
    .expect("legal");
    let msg = RefreshMsg {
        complete: true,
        payload: &payload,
        ..RefreshMsg::new(Domain::MARKET_PRICE, 0, DataType::MAP)
    };
    bench.took();
    let refresh = msg.to_vec().expect("legal");
    bench.link(INSTANCE, &LinkDown::Image { item: 1, after: 1, key: named("IBM"), refresh: &refresh });
    let mut log = bench.took();
    log.sort_unstable();
    let image = ": refresh ok solicited";
    assert_eq!(log, [format!("3/5{image}"), format!("4/5{image}"), format!("4/5{image}")]);
    assert_eq!(bench.counters.refreshes_out.get(), 3);
}

#[test]
fn updates_wait_for_the_image_they_belong_to() {
    let mut bench = Bench::running();
    bench.request(A, 5, "IBM");
    bench.open(10, 1, "IBM");
    for (sequence, value) in [(11, 11), (12, 12), (13, 13)] {
        bench.stream(Kind::Update, sequence, 1, &update(&[(22, value)]));
    }
    bench.took();
    bench.image(1, 12, "IBM", &[(22, 12)]);
    assert_eq!(bench.took(), ["1/5: refresh ok solicited 22=12", "1/5: update 22=13"]);
    assert_eq!(bench.counters.updates_held.get(), 3);
}

#[test]
fn an_image_that_is_ahead_of_the_stream_swallows_what_it_holds() {
    let mut bench = Bench::watching();
    bench.request(A, 6, "MSFT");
    bench.image(2, 4, "MSFT", &[(22, 40)]);
    bench.took();
    bench.open(2, 2, "MSFT");
    bench.stream(Kind::Update, 3, 1, &update(&[(22, 3)]));
    bench.stream(Kind::Update, 4, 2, &update(&[(22, 40)]));
    bench.stream(Kind::Update, 5, 2, &update(&[(22, 50)]));
    assert_eq!(bench.took(), ["1/5: update 22=3", "1/6: update 22=50"]);
    assert_eq!(bench.counters.updates_stale.get(), 1);
}

#[test]
fn an_image_older_than_updates_that_were_dropped_is_asked_for_again() {
    let mut bench = Bench::running();
    bench.stream(Kind::Heartbeat, 8, 0, &[]);
    bench.request(A, 5, "IBM");
    bench.took();
    // The Open was in 9 and is missing here, so that 10 cannot be told to be about IBM.
    bench.stream(Kind::Unknown(99), 9, 1, &[]);
    bench.stream(Kind::Update, 10, 1, &update(&[(22, 10)]));
    bench.image(1, 9, "IBM", &[(22, 9)]);
    assert_eq!(bench.took(), ["77: image IBM"]);
    bench.stream(Kind::Update, 11, 1, &update(&[(22, 11)]));
    bench.image(1, 10, "IBM", &[(22, 10)]);
    assert_eq!(bench.took(), ["1/5: refresh ok solicited 22=10", "1/5: update 22=11"]);
}

#[test]
fn a_lost_link_makes_items_suspect_and_the_next_instance_makes_them_good() {
    let mut bench = Bench::watching();
    assert!(bench.core.on_link_down(bench.now, INSTANCE, &mut bench.log), "it stood");
    let log = bench.took();
    assert!(!bench.core.on_link_down(bench.now, INSTANCE, &mut bench.log), "an attempt that failed");
    assert_eq!(bench.took(), [""; 0]);
    assert_eq!(log, ["1/5: status open suspect: the source distributor is lost, looking for another"]);
    bench.stream(Kind::Update, 2, 1, &update(&[(22, 2)]));
    assert_eq!(bench.took(), [""; 0], "what comes now may have a hole before it");
    bench.now += Duration::from_secs(1);
    bench.find_instance(SourceId(2), SourceId(3), 78, true);
    let log = bench.took();
    assert!(log.contains(&"connect 78".to_owned()) && log.contains(&"78: resume IBM".to_owned()), "{log:?}");
    let refresh = refresh(&[(22, 7)]);
    bench.link(78, &LinkDown::Image { item: 4, after: 3, key: named("IBM"), refresh: &refresh });
    assert_eq!(bench.took(), ["1/5: refresh ok 22=7"]);
}

#[test]
fn a_broken_link_is_opened_again() {
    let mut bench = Bench::watching();
    bench.core.on_link_down(bench.now, INSTANCE, &mut bench.log);
    bench.took();
    bench.after(ServerConfig::default().link_retry);
    assert_eq!(bench.took(), ["connect 77"]);
    bench.core.on_link_up(INSTANCE, &mut bench.log);
    bench.link(INSTANCE, &LinkDown::HelloAck { instance: INSTANCE, features: Features::OURS });
    assert_eq!(bench.took(), ["77: hello", "77: resume IBM"]);
}

#[test]
fn a_link_that_is_never_established_is_opened_anew() {
    let mut bench = Bench::alone();
    bench.core.on_source(bench.now, DIRECTORY, Topic::Directory, INSTANCE, &mut bench.log);
    bench.directory(DIRECTORY, INSTANCE, &[definition(true)]);
    assert_eq!(bench.took(), ["subscribe BINANCE", "connect 77"]);
    for _ in 0..6 {
        bench.now += Duration::from_secs(1);
        bench.directory(DIRECTORY, INSTANCE, &[definition(true)]);
    }
    assert_eq!(bench.took(), ["disconnect 77", "connect 77"]);
}

#[test]
fn the_directory_says_that_the_dictionary_is_here() {
    let mut bench = Bench::watching();
    bench.client(B, &DirectoryRequest::all(2).to_vec().expect("legal"));
    let service = &bench.core.items.sources.services[&1].definition;
    assert!(service.serves_dictionary("RWFFld") && service.serves_dictionary("RWFEnum"));
    assert_eq!(service.info.capabilities, [Domain::DICTIONARY, Domain::MARKET_PRICE]);
}

#[test]
fn suspect_items_are_counted_while_they_are() {
    let mut bench = Bench::watching();
    assert_eq!(bench.counters.items_suspect.get(), 0);
    bench.directory(DIRECTORY, INSTANCE, &[definition(false)]);
    assert_eq!(bench.counters.items_suspect.get(), 1);
    bench.directory(DIRECTORY, INSTANCE, &[definition(true)]);
    bench.stream(Kind::Refresh, 2, 1, &refresh(&[(22, 2)]));
    assert_eq!(bench.counters.items_suspect.get(), 0);
    bench.request(B, 9, "NOVELTY");
    assert_eq!(bench.counters.items_suspect.get(), 1, "it has no image yet");
}

#[test]
fn an_instance_that_falls_silent_is_not_trusted_even_with_its_link_up() {
    let mut bench = Bench::watching();
    bench.after(SILENCE);
    let log = bench.took();
    assert!(log[0].starts_with("notice: ") && log[0].contains("has not been heard for 2000 ms"), "{log:?}");
    assert!(log[1].contains("suspect"), "multicast may be cut while TCP is not: {log:?}");
    assert_eq!(bench.counters.instances.get(), 0);
    bench.directory(DIRECTORY, INSTANCE, &[definition(true)]);
    let log = bench.took();
    assert!(
        log[0].contains("is heard again after 2000 ms") && log[0].contains("silence_timeout_ms"),
        "{log:?}"
    );
    assert_eq!((&log[1..], bench.counters.instances.get()), (&["77: resume IBM".to_owned()][..], 1));
}

#[test]
fn an_instance_that_repeats_its_directory_is_not_silent() {
    let mut bench = Bench::watching();
    for _ in 0..3 {
        bench.after(SILENCE - Duration::from_millis(1));
        bench.directory(DIRECTORY, INSTANCE, &[definition(true)]);
    }
    assert_eq!(bench.took(), [""; 0]);
}

#[test]
fn a_service_whose_provider_has_gone_shows_in_directory_and_items() {
    let mut bench = Bench::watching();
    bench.client(B, &DirectoryRequest::all(2).to_vec().expect("legal"));
    assert_eq!(bench.took(), ["2/2: refresh ok solicited source directory"]);
    bench.directory(DIRECTORY, INSTANCE, &[definition(false)]);
    let log = bench.took();
    assert_eq!(log[0], "1/5: status open suspect: the service is down: its provider has gone");
    assert_eq!(log[1], "2/2: update source directory");
    bench.directory(DIRECTORY, INSTANCE, &[definition(true)]);
    bench.stream(Kind::Refresh, 2, 1, &refresh(&[(22, 2)]));
    assert_eq!(bench.took(), ["2/2: update source directory", "1/5: refresh ok 22=2"]);
}

#[test]
fn an_item_still_suspect_when_its_service_has_been_up_for_a_while_is_asked_for() {
    let mut bench = Bench::watching();
    // The provider's refresh overtakes the directory that says it was gone.
    bench.stream(Kind::Refresh, 2, 1, &refresh(&[(22, 2)]));
    bench.directory(DIRECTORY, INSTANCE, &[definition(false)]);
    bench.directory(DIRECTORY, INSTANCE, &[definition(true)]);
    bench.took();
    bench.after(Duration::from_secs(1));
    assert_eq!(bench.took(), ["77: image IBM"]);
    bench.image(1, 2, "IBM", &[(22, 2)]);
    assert_eq!(bench.took(), ["1/5: refresh ok 22=2"]);
}

#[test]
fn an_image_taken_before_what_was_lost_is_not_taken_for_the_answer() {
    let mut bench = Bench::running();
    bench.request(A, 5, "IBM");
    bench.open(1, 1, "IBM");
    bench.stream(Kind::Update, 4, 1, &update(&[(22, 4)]));
    bench.link(
        INSTANCE,
        &LinkDown::GapAnswer { service: 1, first: 2, last: 3, known: true, ids: &[0, 0, 0, 1] },
    );
    bench.took();
    bench.image(1, 1, "IBM", &[(22, 1)]);
    assert_eq!(bench.took(), ["77: image IBM"]);
    bench.image(1, 3, "IBM", &[(22, 3)]);
    assert_eq!(bench.took(), ["1/5: refresh ok solicited 22=3", "1/5: update 22=4"]);
}

#[test]
fn a_request_for_a_service_that_is_down_waits_with_a_clear_status() {
    let mut bench = Bench::running();
    bench.core.on_link_down(bench.now, INSTANCE, &mut bench.log);
    bench.took();
    bench.request(A, 5, "IBM");
    assert_eq!(bench.took(), ["1/5: status open suspect: the service is down, waiting for it"]);
}

#[test]
fn an_item_that_does_not_exist_is_closed() {
    let mut bench = Bench::running();
    bench.request(A, 5, "NOPE");
    bench.took();
    let status = status(StreamState::Closed, "not found");
    bench.link(INSTANCE, &LinkDown::ItemStatus { key: named("NOPE"), status: &status });
    assert_eq!(bench.took(), ["1/5: status closed suspect: not found"]);
    assert_eq!((bench.counters.items.get(), bench.counters.watchers.get()), (0, 0));
    bench.request(A, 5, "NOPE");
    assert_eq!(bench.took(), ["77: interest NOPE"], "the stream id is free again");
}

#[test]
fn an_item_closed_by_its_provider_ends_its_streams() {
    let mut bench = Bench::watching();
    bench.stream(Kind::Close, 2, 1, &status(StreamState::Closed, "gone"));
    bench.stream(Kind::Update, 3, 1, &update(&[(22, 3)]));
    assert_eq!(bench.took(), ["1/5: status closed suspect: gone"]);
}

#[test]
fn the_last_watcher_s_item_lingers_and_is_then_given_up() {
    let mut bench = Bench::watching();
    bench.close(A, 5);
    bench.stream(Kind::Update, 2, 1, &update(&[(22, 2)]));
    bench.request(B, 7, "IBM");
    assert_eq!(bench.took(), ["2/7: refresh ok solicited 22=2"], "still subscribed upstream");
    bench.core.on_client_closed(bench.now, B, &mut bench.log);
    bench.now += ServerConfig::default().item_linger;
    bench.directory(DIRECTORY, INSTANCE, &[definition(true)]);
    bench.after(Duration::ZERO);
    assert!(bench.took().contains(&"77: no interest IBM".to_owned()));
    assert_eq!(bench.counters.items.get(), 0);
}

#[test]
fn an_item_is_not_given_up_while_its_image_is_on_its_way() {
    let mut bench = Bench::running();
    bench.core.reconfigure(|config| config.item_linger = Duration::from_millis(300));
    bench.request(A, 5, "IBM");
    bench.close(A, 5);
    bench.after(Duration::from_millis(300));
    bench.after(Duration::from_millis(300));
    let took = bench.took();
    assert!(
        !took.contains(&"77: no interest IBM".to_owned()),
        "the image would answer a later request: {took:?}"
    );
    bench.open(1, 1, "IBM");
    bench.image(1, 1, "IBM", &[(22, 1)]);
    bench.after(Duration::from_millis(300));
    assert!(bench.took().contains(&"77: no interest IBM".to_owned()));
}

#[test]
fn a_snapshot_gets_one_image_and_leaves_no_stream() {
    let mut bench = Bench::running();
    let request = ItemRequest { streaming: false, ..streaming(5, "IBM") };
    bench.client(A, &request.to_vec().expect("legal"));
    bench.open(1, 1, "IBM");
    bench.took();
    bench.image(1, 1, "IBM", &[(22, 1)]);
    bench.client(A, &request.to_vec().expect("legal"));
    let answer = "1/5: refresh ok solicited non-streaming 22=1";
    assert_eq!(bench.took(), [answer, answer]);
    assert_eq!(bench.counters.watchers.get(), 0);
}

#[test]
fn a_reissue_gets_the_image_again_and_another_item_on_the_stream_is_refused() {
    let mut bench = Bench::watching();
    bench.request(A, 5, "IBM");
    bench.request(A, 5, "MSFT");
    let log = bench.took();
    assert_eq!(log[0], "1/5: refresh ok solicited 22=1");
    assert!(log[1].contains("closed suspect: the stream is open for another item"), "{log:?}");
}

#[test]
fn images_are_asked_for_a_bounded_number_at_a_time_and_again_when_they_do_not_come() {
    let mut bench = Bench::alone();
    bench.core.reconfigure(|config| config.images_outstanding_max = 2);
    bench.find_instance(DIRECTORY, STREAM, INSTANCE, true);
    bench.took();
    for (i, name) in ["A", "B", "C"].iter().enumerate() {
        bench.request(A, 5 + i as i32, name);
    }
    assert_eq!(bench.took(), ["77: interest A", "77: interest B"]);
    bench.image(1, 1, "A", &[(22, 1)]);
    assert_eq!(bench.took(), ["1/5: refresh ok solicited 22=1", "77: interest C"]);
    bench.directory(DIRECTORY, INSTANCE, &[definition(true)]);
    bench.now += ServerConfig::default().image_timeout;
    bench.directory(DIRECTORY, INSTANCE, &[definition(true)]);
    bench.after(Duration::ZERO);
    assert_eq!(bench.took(), ["77: image B", "77: image C"]);
}

#[test]
fn what_waits_for_its_provider_does_not_hold_up_others() {
    let mut bench = Bench::alone();
    bench.core.reconfigure(|config| config.images_outstanding_max = 1);
    bench.find_instance(DIRECTORY, STREAM, INSTANCE, true);
    bench.took();
    bench.request(A, 5, "A");
    bench.request(A, 6, "B");
    assert_eq!(bench.took(), ["77: interest A"]);
    let waits = status(StreamState::Open, "wait");
    bench.link(INSTANCE, &LinkDown::ItemStatus { key: named("A"), status: &waits });
    assert_eq!(bench.took(), ["1/5: status open suspect: wait", "77: interest B"]);
    bench.open(1, 1, "A");
    bench.stream(Kind::Update, 2, 1, &update(&[(22, 2)]));
    bench.image(1, 1, "A", &[(22, 1)]);
    assert_eq!(bench.took(), ["1/5: refresh ok solicited 22=1", "1/5: update 22=2"]);
}

#[test]
fn too_many_held_updates_ask_for_a_later_image() {
    let mut bench = Bench::running();
    bench.core.reconfigure(|config| config.held_bytes_max = 40);
    bench.request(A, 5, "IBM");
    bench.open(1, 1, "IBM");
    for sequence in 2..6 {
        bench.stream(Kind::Update, sequence, 1, &update(&[(22, sequence as i64)]));
    }
    bench.took();
    bench.image(1, 1, "IBM", &[(22, 1)]);
    assert_eq!(bench.took(), ["77: image IBM"]);
    bench.image(1, 5, "IBM", &[(22, 5)]);
    assert_eq!(bench.took(), ["1/5: refresh ok solicited 22=5"]);
    assert!(bench.counters.held_overflows.get() > 0);
}

#[test]
fn messages_that_are_not_of_the_protocol_are_counted_and_skipped() {
    let mut bench = Bench::watching();
    assert!(bench.core.on_stream_message(T0, STREAM, &[9; 30], &mut bench.log).is_err());
    let other = StreamMsg { kind: Kind::Update, instance: 5, sequence: 2, item: 1, parts: &[], body: &[] };
    assert!(bench.core.on_stream_message(T0, STREAM, &other.header(), &mut bench.log).is_err());
    assert!(bench.core.on_link_message(T0, INSTANCE, &[1], &mut bench.log).is_err());
    assert_eq!(bench.counters.messages_refused.get(), 3);
    bench.stream(Kind::Update, 2, 1, &update(&[(22, 2)]));
    assert_eq!(bench.took(), ["1/5: update 22=2"]);
}

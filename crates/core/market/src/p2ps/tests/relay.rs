//! A relay and two shards with memory between them that is emptied at once.

use std::collections::VecDeque;

use rdm::post::post;
use rwf::{AckMsg, GenericMsg, PostMsg};

use super::hops::{HOPS, stamped};
use super::*;
use crate::backbone::HopTimes;
use crate::distributor::PeerId;
use crate::p2ps::relay::{Relay, RelaySink};

/// What the relay wants of the backbone, in words, and what is on its way to shards.
#[derive(Default)]
struct Out {
    log: Log,
    down: VecDeque<(Option<PeerId>, Down)>,
}

#[derive(Clone)]
enum Down {
    Directory(Vec<u8>),
    Opened,
    Closed,
    Stream(Vec<u8>),
    Link(Vec<u8>),
}

impl RelaySink for Out {
    fn open_stream(&mut self, _: u16, name: &str) {
        assert_eq!(name, "BINANCE");
        self.down.push_back((None, Down::Opened));
    }
    fn close_stream(&mut self, _: u16) {
        self.down.push_back((None, Down::Closed));
    }
    fn publish(&mut self, _: u16, msg: &StreamMsg<'_>) {
        self.down.push_back((None, Down::Stream([&msg.header()[..], msg.parts, msg.body].concat())));
    }
    fn publish_directory(&mut self, msg: &StreamMsg<'_>) {
        self.down.push_back((None, Down::Directory([&msg.header()[..], msg.body].concat())));
    }
    fn to_shard(&mut self, shard: PeerId, msg: &LinkDown<'_>) {
        let mut bytes = Vec::new();
        msg.encode(&mut bytes);
        self.down.push_back((Some(shard), Down::Link(bytes)));
    }
}

impl UpstreamSink for Out {
    fn subscribe(&mut self, service: &str) {
        self.log.subscribe(service);
    }
    fn unsubscribe(&mut self, service: &str) {
        self.log.unsubscribe(service);
    }
    fn connect(&mut self, instance: u64, directory: SourceId) {
        self.log.connect(instance, directory);
    }
    fn disconnect_link(&mut self, instance: u64) {
        self.log.disconnect_link(instance);
    }
    fn notice(&mut self, notice: &ServerNotice<'_>) {
        self.log.notice(notice);
    }
    fn to_instance(&mut self, instance: u64, msg: &LinkUp<'_>) {
        self.log.to_instance(instance, msg);
    }
}

/// A shard, what its clients are sent, and what it wants of the relay.
struct Shard {
    core: PointToPoint,
    out: ShardOut,
}

#[derive(Default)]
struct ShardOut {
    log: Log,
    up: Vec<Vec<u8>>,
    asks_for_link: bool,
}

impl ServerSink for ShardOut {
    fn send(&mut self, client: ClientId, msg: &[u8]) {
        self.log.send(client, msg);
    }
    fn fan_out(&mut self, watchers: &[Watcher], msg: &[u8]) {
        self.log.fan_out(watchers, msg);
    }
    fn begin_stamped(&mut self, update: &StampedUpdate<'_>) {
        self.log.begin_stamped(update);
    }
    fn end_stamped(&mut self) {
        self.log.end_stamped();
    }
}

impl UpstreamSink for ShardOut {
    fn subscribe(&mut self, _: &str) {}
    fn unsubscribe(&mut self, _: &str) {}
    fn connect(&mut self, _: u64, _: SourceId) {
        self.asks_for_link = true;
    }
    fn disconnect_link(&mut self, instance: u64) {
        panic!("there is no reason to leave {instance:x}");
    }
    fn notice(&mut self, notice: &ServerNotice<'_>) {
        panic!("nothing is lost in memory: {notice}");
    }
    fn to_instance(&mut self, _: u64, msg: &LinkUp<'_>) {
        let mut bytes = Vec::new();
        msg.encode(&mut bytes);
        self.up.push(bytes);
    }
}

struct Relayed {
    relay: Relay,
    out: Out,
    shards: Vec<Shard>,
    now: Nanos,
}

const RELAY: u64 = 99;

impl Relayed {
    /// Two shards with a client each that has logged in: A at the first, B at the second. An instance serves.
    fn running() -> Relayed {
        Relayed::configured(&ServerConfig { silence_timeout: SILENCE, ..ServerConfig::default() })
    }

    /// The same with this configuration for all.
    fn configured(config: &ServerConfig) -> Relayed {
        let dictionary = Arc::new(Dictionary::new());
        let shard = |client: ClientId| {
            let mut core =
                PointToPoint::new(client.0.into(), config.clone(), dictionary.clone(), Arc::default());
            let mut out = ShardOut::default();
            core.on_client_connected(client, ClientProfile::default());
            let login = LoginRequest::consumer(b"me").to_vec().expect("legal");
            core.on_client_message(T0, client, &login, &mut out).expect("accepted");
            Shard { core, out }
        };
        let relay = Relay::new(RELAY, config.clone(), dictionary.clone(), Arc::default());
        let shards = vec![shard(A), shard(B)];
        let mut all = Relayed { relay, out: Out::default(), shards, now: T0 };
        all.find_instance(DIRECTORY, STREAM, INSTANCE);
        all.took();
        all.out.log.0.clear();
        all
    }

    /// IBM is item 1 of the instance, with 22=1; A and B watch it.
    fn watching() -> Relayed {
        let mut all = Relayed::running();
        all.request(A, 5, "IBM");
        all.request(B, 9, "IBM");
        assert_eq!(all.upstream(), ["77: interest IBM"], "once for both");
        all.image(1, 1, "IBM", &[(22, 1)]);
        assert_eq!(all.took(), ["1/5: refresh ok solicited 22=1", "2/9: refresh ok solicited 22=1"]);
        all
    }

    fn find_instance(&mut self, directory: SourceId, stream: SourceId, instance: u64) {
        self.relay.on_source(self.now, directory, Topic::Directory, instance, &mut self.out);
        let body = DirectoryRefresh::publish(0, Filter::ALL, &[definition(true)]);
        let body = body.expect("unique").to_vec().expect("legal");
        let msg =
            StreamMsg { kind: Kind::Directory, instance, sequence: 1, item: 0, parts: &[], body: &body };
        let bytes = [&msg.header()[..], &body].concat();
        self.relay.on_stream_message(self.now, directory, &bytes, &mut self.out).expect("accepted");
        self.relay.on_link_up(instance, &mut self.out);
        self.link(instance, &LinkDown::HelloAck { instance, features: Features::OURS });
        self.relay.on_source(self.now, stream, Topic::Service("BINANCE"), instance, &mut self.out);
        self.carry();
    }

    fn link(&mut self, instance: u64, msg: &LinkDown<'_>) {
        let mut bytes = Vec::new();
        msg.encode(&mut bytes);
        self.relay.on_link_message(self.now, instance, &bytes, &mut self.out).expect("accepted");
        self.carry();
    }

    fn image(&mut self, item: u32, after: u64, name: &str, all: &[(i16, i64)]) {
        let refresh = refresh(all);
        self.link(INSTANCE, &LinkDown::Image { item, after, key: named(name), refresh: &refresh });
    }

    fn stream(&mut self, kind: Kind, sequence: u64, item: u32, body: &[u8]) {
        let msg = StreamMsg { kind, instance: INSTANCE, sequence, item, parts: &[], body };
        let bytes = [&msg.header()[..], body].concat();
        self.relay.on_stream_message(self.now, STREAM, &bytes, &mut self.out).expect("accepted");
        self.carry();
    }

    fn stamped(&mut self, sequence: u64, item: u32, hops: HopTimes, body: &[u8]) {
        self.relay
            .on_stream_message(
                self.now,
                STREAM,
                &stamped(sequence, item, hops.part().bytes(), body),
                &mut self.out,
            )
            .expect("accepted");
        self.carry();
    }

    fn client(&mut self, client: ClientId, bytes: &[u8]) {
        let Shard { core, out } = &mut self.shards[client.0 as usize - 1];
        core.on_client_message(self.now, client, bytes, out).expect("accepted");
        self.carry();
    }

    fn request(&mut self, client: ClientId, stream_id: i32, name: &str) {
        self.client(client, &streaming(stream_id, name).to_vec().expect("legal"));
    }

    /// Everything reaches who it is for.
    fn carry(&mut self) {
        loop {
            while let Some((to, down)) = self.out.down.pop_front() {
                for (at, shard) in self.shards.iter_mut().enumerate() {
                    if to.is_none_or(|to| to == PeerId(at as u32)) {
                        shard.take(self.now, &down);
                    }
                }
            }
            let mut is_quiet = true;
            for (at, shard) in self.shards.iter_mut().enumerate() {
                let peer = PeerId(at as u32);
                if std::mem::take(&mut shard.out.asks_for_link) {
                    self.relay.on_shard_connected(peer);
                    shard.core.on_link_up(RELAY, &mut shard.out);
                }
                for bytes in std::mem::take(&mut shard.out.up) {
                    is_quiet = false;
                    self.relay.on_shard_message(self.now, peer, &bytes, &mut self.out).expect("accepted");
                }
            }
            if is_quiet {
                return;
            }
        }
    }

    /// What clients were sent.
    fn took(&mut self) -> Vec<String> {
        self.shards.iter_mut().flat_map(|shard| std::mem::take(&mut shard.out.log.0)).collect()
    }

    /// What the relay has asked for.
    fn upstream(&mut self) -> Vec<String> {
        std::mem::take(&mut self.out.log.0)
    }
}

impl Shard {
    fn take(&mut self, now: Nanos, down: &Down) {
        let Shard { core, out } = self;
        match down {
            Down::Directory(bytes) => {
                core.on_source(now, DIRECTORY, Topic::Directory, 1, out);
                core.on_stream_message(now, DIRECTORY, bytes, out).expect("accepted");
                core.on_source(now, STREAM, Topic::Service("BINANCE"), 1, out);
            }
            Down::Opened => {}
            Down::Closed => core.on_source_ended(now, STREAM, out),
            Down::Stream(bytes) => core.on_stream_message(now, STREAM, bytes, out).expect("accepted"),
            Down::Link(bytes) => core.on_link_message(now, RELAY, bytes, out).expect("accepted"),
        }
    }
}

#[test]
fn an_update_reaches_the_clients_of_every_shard_and_a_late_one_gets_the_image_without_a_question_upstream() {
    let mut all = Relayed::watching();
    all.stream(Kind::Update, 2, 1, &update(&[(22, 2)]));
    assert_eq!(all.took(), ["1/5: update 22=2", "2/9: update 22=2"]);
    let mut late = Relayed::running();
    late.request(A, 5, "IBM");
    late.image(1, 1, "IBM", &[(22, 1)]);
    late.stream(Kind::Update, 2, 1, &update(&[(22, 2)]));
    late.took();
    late.upstream();
    late.request(B, 9, "IBM");
    assert_eq!((late.took(), late.upstream()), (vec!["2/9: refresh ok solicited 22=2".to_owned()], vec![]));
    late.stream(Kind::Update, 3, 1, &update(&[(22, 3)]));
    assert_eq!(late.took(), ["1/5: update 22=3", "2/9: update 22=3"]);
}

#[test]
fn what_the_provider_says_of_an_item_reaches_its_watchers_and_ends_their_streams() {
    let mut all = Relayed::watching();
    all.stream(Kind::Status, 2, 1, &status(StreamState::Open, "halted"));
    assert_eq!(all.took(), ["1/5: status open suspect: halted", "2/9: status open suspect: halted"]);
    all.stream(Kind::Refresh, 3, 1, &refresh(&[(22, 5)]));
    assert_eq!(all.took(), ["1/5: refresh ok 22=5", "2/9: refresh ok 22=5"]);
    all.stream(Kind::Close, 4, 1, &status(StreamState::Closed, "gone"));
    assert_eq!(all.took(), ["1/5: status closed suspect: gone", "2/9: status closed suspect: gone"]);
    assert_eq!(all.relay.core().item_count(), 0);
    all.request(A, 6, "IBM");
    assert_eq!(all.upstream(), ["77: interest IBM"], "it may come again");
}

#[test]
fn an_item_that_has_to_wait_for_its_provider_keeps_no_other_one_waiting() {
    let mut all = Relayed::running();
    let phase = |all: &Relayed, shard: usize| {
        let items = &all.shards[shard].core.items;
        items.table[items.find(named("IBM")).expect("it is watched")].life.phase()
    };
    all.request(A, 5, "IBM");
    assert_eq!(phase(&all, 0), life::Phase::Requested, "it is on its way");
    let msg = StatusMsg::new(Domain::MARKET_PRICE, 0, DataType::NO_DATA).to_vec().expect("legal");
    all.link(INSTANCE, &LinkDown::ItemStatus { key: named("IBM"), status: &msg });
    assert_eq!((all.took(), phase(&all, 0)), (vec![], life::Phase::Awaited));
    all.request(B, 9, "IBM");
    assert_eq!((all.took(), phase(&all, 1)), (vec![], life::Phase::Awaited), "it is so already");
    all.image(1, 1, "IBM", &[(22, 1)]);
    assert_eq!(all.took(), ["1/5: refresh ok solicited 22=1", "2/9: refresh ok solicited 22=1"]);
}

#[test]
fn an_item_is_given_up_when_no_shard_wants_it_any_more() {
    let mut all = Relayed::watching();
    let linger = Duration::from_millis(1);
    all.shards.iter_mut().for_each(|shard| shard.core.reconfigure(|config| config.item_linger = linger));
    for (client, stream_id) in [(A, 5), (B, 9)] {
        let close = CloseMsg::new(Domain::MARKET_PRICE, stream_id, DataType::NO_DATA);
        all.client(client, &close.to_vec().expect("legal"));
        all.now += linger;
        for shard in &mut all.shards {
            shard.core.on_wakeup(all.now, &mut shard.out);
        }
        all.carry();
        all.relay.on_wakeup(all.now, &mut all.out);
        let given_up = all.upstream().contains(&"77: no interest IBM".to_owned());
        assert_eq!(given_up, client == B);
    }
}

#[test]
fn a_lost_instance_makes_items_of_all_shards_suspect_and_the_next_one_makes_them_good() {
    let mut all = Relayed::watching();
    all.relay.on_link_down(all.now, INSTANCE, &mut all.out);
    all.carry();
    let text = "status open suspect: the source distributor is lost, looking for another";
    assert_eq!(all.took()[0], format!("1/5: {text}"));
    all.find_instance(SourceId(2), SourceId(3), 78);
    assert!(all.upstream().contains(&"78: resume IBM".to_owned()));
    let refresh = refresh(&[(22, 7)]);
    all.link(78, &LinkDown::Image { item: 4, after: 3, key: named("IBM"), refresh: &refresh });
    let log = all.took();
    assert!(log.contains(&"1/5: refresh ok 22=7".to_owned()), "{log:?}");
    assert!(log.contains(&"2/9: refresh ok 22=7".to_owned()), "{log:?}");
}

fn to_ibm(stream_id: i32, post_id: u32) -> Vec<u8> {
    let msg = post(Domain::MARKET_PRICE, stream_id, Key::new(1, b"IBM"), DataType::FIELD_LIST, &[0]);
    PostMsg { ack: true, post_id: Some(post_id), ..msg }.to_vec().expect("legal")
}

#[test]
fn posts_are_answered_at_the_shard_they_came_from_and_refused_when_their_instance_is_lost() {
    let mut all = Relayed::watching();
    all.client(A, &to_ibm(5, 7));
    all.client(B, &to_ibm(9, 7));
    let said = all.upstream();
    let number = |line: &String| line.split(' ').nth(3).and_then(|word| word.parse().ok()).expect("a number");
    let numbers: Vec<u64> = said.iter().map(number).collect();
    assert_eq!(said[0], format!("77: client message {} IBM post", numbers[0]));
    let ack = AckMsg { ack_id: 7, ..AckMsg::new(Domain::MARKET_PRICE, 0, DataType::NO_DATA) };
    let message = ack.to_vec().expect("legal");
    all.link(INSTANCE, &LinkDown::ClientAnswer { conversation: numbers[1], message: &message });
    assert_eq!(all.took(), ["2/9: ack 7"]);
    all.relay.on_link_down(all.now, INSTANCE, &mut all.out);
    all.carry();
    let log = all.took();
    assert!(log.contains(&"1/5: ack 7 refused: source down".to_owned()), "{log:?}");
    all.client(A, &to_ibm(5, 8));
    assert_eq!(all.took(), ["1/5: ack 8 refused: source down"]);
}

#[test]
fn a_generic_message_for_one_stream_goes_to_its_client_alone() {
    let mut all = Relayed::watching();
    let generic = GenericMsg::new(Domain::MARKET_PRICE, 5, DataType::NO_DATA).to_vec().expect("legal");
    all.client(A, &generic);
    let said = all.upstream();
    let conversation = said[0].split(' ').nth(3).and_then(|word| word.parse().ok()).expect("a number");
    all.link(INSTANCE, &LinkDown::ClientAnswer { conversation, message: &generic });
    assert_eq!(all.took(), ["1/5: generic"]);
    all.stream(Kind::Generic, 2, 1, &generic);
    assert_eq!(all.took(), ["1/5: generic", "2/9: generic"]);
}

#[test]
fn private_streams_go_through_and_end_with_their_instance_or_their_client() {
    let mut all = Relayed::running();
    for (client, stream_id) in [(A, 5), (B, 6)] {
        let request = ItemRequest { private_stream: true, ..streaming(stream_id, "IBM") };
        all.client(client, &request.to_vec().expect("legal"));
    }
    let said = all.upstream();
    let number =
        |line: &String| line.rsplit(' ').next().and_then(|word| word.parse().ok()).expect("a number");
    let numbers: Vec<u64> = said.iter().map(number).collect();
    assert_eq!(said[0], format!("77: private request {}", numbers[0]));
    let image = refresh(&[(22, 1)]);
    all.link(INSTANCE, &LinkDown::PrivateMessage { conversation: numbers[0], message: &image });
    assert_eq!(all.took(), ["1/5: refresh ok 22=1"]);
    let close = CloseMsg::new(Domain::MARKET_PRICE, 6, DataType::NO_DATA).to_vec().expect("legal");
    all.client(B, &close);
    assert_eq!(all.upstream(), [format!("77: private message {} close", numbers[1])]);
    all.relay.on_link_down(all.now, INSTANCE, &mut all.out);
    all.carry();
    let log = all.took();
    assert_eq!(log, ["1/5: status closed-recover suspect: the source distributor is lost private"]);
    all.link(INSTANCE, &LinkDown::PrivateMessage { conversation: numbers[0], message: &image });
    assert_eq!(all.took(), [""; 0], "nobody waits for it");
}

#[test]
fn a_shard_that_is_gone_watches_nothing_any_more() {
    let mut all = Relayed::watching();
    let peer = PeerId(0);
    all.relay.on_shard_closed(all.now, peer, &mut all.out);
    all.shards.remove(0);
    all.relay.on_wakeup(all.now, &mut all.out);
    assert_eq!(all.relay.core().item_count(), 1, "the other one's");
    assert!(all.relay.on_shard_message(all.now, peer, &[], &mut all.out).is_ok(), "it is nobody's");
}

#[test]
fn the_other_shards_watch_on_when_one_is_gone() {
    let mut all = Relayed::watching();
    all.relay.on_shard_closed(all.now, PeerId(1), &mut all.out);
    all.shards.truncate(1);
    all.stream(Kind::Update, 2, 1, &update(&[(22, 2)]));
    assert_eq!(all.took(), ["1/5: update 22=2"]);
}

#[test]
fn what_is_no_message_of_a_shard_is_refused() {
    let mut all = Relayed::watching();
    assert!(all.relay.on_shard_message(all.now, PeerId(0), &[1, 200], &mut all.out).is_err());
    all.stream(Kind::Update, 2, 1, &update(&[(22, 2)]));
    assert_eq!(all.took().len(), 2);
}

#[test]
fn shards_get_the_stamps_of_an_update_and_of_no_other_message() {
    let mut all = Relayed::watching();
    all.stamped(2, 1, HOPS, &update(&[(22, 2)]));
    let took: Vec<String> = all.took();
    assert_eq!(
        took,
        [
            "stamped IBM 1: 10 to 15",
            "1/5: update 22=2",
            "end of stamped",
            "stamped IBM 1: 10 to 15",
            "2/9: update 22=2",
            "end of stamped"
        ]
    );
    all.stream(Kind::Update, 3, 1, &update(&[(22, 3)]));
    assert_eq!(all.took(), ["1/5: update 22=3", "2/9: update 22=3"]);
}

#[test]
fn the_rate_of_a_service_is_kept_by_the_shards_and_the_relay_passes_on_everything() {
    let mut config = ServerConfig { silence_timeout: Duration::from_secs(3_600), ..ServerConfig::default() };
    config.service_intervals_ms.insert("BINANCE".to_owned(), 700);
    let mut all = Relayed::configured(&config);
    let rates = |core: &PointToPoint| {
        core.items.sources.services[&1].definition.info.qos.iter().map(|qos| qos.rate).collect::<Vec<_>>()
    };
    assert_eq!(rates(all.relay.core()), [rwf::Rate::TickByTick]);
    assert!(all.shards.iter().all(|shard| rates(&shard.core) == [rwf::Rate::TimeConflated(700)]));
    for (client, stream_id) in [(A, 5), (B, 9)] {
        let any = ItemRequest { qos: None, ..streaming(stream_id, "IBM") };
        all.client(client, &any.to_vec().expect("legal"));
    }
    all.image(1, 1, "IBM", &[(22, 1)]);
    all.took();
    for sequence in 2..6 {
        all.stream(Kind::Update, sequence, 1, &update(&[(22, sequence as i64)]));
    }
    assert_eq!(all.took(), ["1/5: update 22=2", "2/9: update 22=2"]);
    for (ms, expected) in [(699, vec![]), (1, vec!["1/5: update 22=5", "2/9: update 22=5"])] {
        all.now += Duration::from_millis(ms);
        for (client, Shard { core, out }) in [A, B].into_iter().zip(&mut all.shards) {
            core.on_wakeup(all.now, out);
            core.take_due_clients();
            core.send_due_images(all.now, client, out);
        }
        assert_eq!(all.took(), expected);
    }
}

//! Services whose ids are not the same at all instances.

use super::*;

const NEXT: u64 = 78;
const NEXT_DIRECTORY: SourceId = SourceId(2);
const NEXT_STREAM: SourceId = SourceId(3);

fn named_service(id: u16, name: &str) -> Definition {
    let mut service = definition(true);
    service.id = id;
    service.info.name = name.to_owned();
    service
}

/// Keeps what goes to instances and to clients as it is.
#[derive(Default)]
struct Both(Vec<u16>, Vec<Vec<u8>>);

impl ServerSink for Both {
    fn send(&mut self, _: ClientId, msg: &[u8]) {
        self.1.push(msg.to_vec());
    }
    fn fan_out(&mut self, watchers: &[Watcher], msg: &[u8]) {
        self.1.extend((!watchers.is_empty()).then(|| msg.to_vec()));
    }
}

impl UpstreamSink for Both {
    fn subscribe(&mut self, _: &str) {}
    fn unsubscribe(&mut self, _: &str) {}
    fn connect(&mut self, _: u64, _: SourceId) {}
    fn disconnect_link(&mut self, _: u64) {}
    fn notice(&mut self, _: &ServerNotice<'_>) {}
    fn to_instance(&mut self, _: u64, msg: &LinkUp<'_>) {
        match msg {
            LinkUp::Interest { key } | LinkUp::Resume { key } | LinkUp::NoInterest { key } => {
                self.0.push(key.service)
            }
            LinkUp::ImageRequest { key } | LinkUp::ClientMessage { key, .. } => self.0.push(key.service),
            LinkUp::GapQuery { service, .. } | LinkUp::PrivateRequest { service, .. } => {
                self.0.push(*service)
            }
            LinkUp::Progress { positions } => {
                self.0.extend(LinkUp::positions(positions).map(|(service, _)| service))
            }
            LinkUp::Hello { .. } | LinkUp::PrivateMessage { .. } => {}
        }
    }
}

fn status_of(service: u16, stream: StreamState) -> Vec<u8> {
    let state = State::new(stream, rwf::DataState::Suspect);
    let key = Some(rwf::Key::item(service, b"IBM"));
    let msg =
        StatusMsg { state: Some(state), key, ..StatusMsg::new(Domain::MARKET_PRICE, 0, DataType::NO_DATA) };
    msg.to_vec().expect("legal")
}

fn service_in(msg: &[u8]) -> Option<u16> {
    Msg::parse(msg).expect("whole").key().and_then(|key| key.service_id)
}

impl Bench {
    /// The next instance has the service under id 7, and another one under id 1.
    fn next_instance(&mut self) {
        self.core.on_source(self.now, NEXT_DIRECTORY, Topic::Directory, NEXT, &mut self.log);
        self.directory(NEXT_DIRECTORY, NEXT, &[named_service(1, "OTHER"), named_service(7, "BINANCE")]);
        self.core.on_link_up(NEXT, &mut self.log);
        self.link(NEXT, &LinkDown::HelloAck { instance: NEXT, features: Features::OURS });
        self.core.on_source(self.now, NEXT_STREAM, Topic::Service("BINANCE"), NEXT, &mut self.log);
    }

    fn theirs(name: &str) -> ItemKey<'_> {
        ItemKey::named(7, Domain::MARKET_PRICE, name.as_bytes())
    }
}

#[test]
fn a_service_whose_id_has_changed_is_the_same_to_clients() {
    let mut bench = Bench::watching();
    bench.core.on_link_down(bench.now, INSTANCE, &mut bench.log);
    bench.took();
    bench.next_instance();
    let log = bench.took();
    let told = "notice: service \"BINANCE\" has id 7 at instance 000000000000004e, clients see it as 1";
    assert!(log.contains(&told.to_owned()) && log.contains(&"78: resume IBM".to_owned()), "{log:?}");
    let mut ids: Vec<_> = bench.core.services().map(|(id, name, ..)| (id, name.to_owned())).collect();
    ids.sort_unstable();
    assert_eq!(ids, [(1, "BINANCE".to_owned()), (u16::MAX, "OTHER".to_owned())]);
    let refresh = refresh(&[(22, 7)]);
    bench.link(NEXT, &LinkDown::Image { item: 4, after: 3, key: Bench::theirs("IBM"), refresh: &refresh });
    assert_eq!(bench.took(), ["1/5: refresh ok 22=7"]);
    let msg = StreamMsg {
        kind: Kind::Update,
        instance: NEXT,
        sequence: 4,
        item: 4,
        parts: &[],
        body: &update(&[(22, 8)]),
    };
    let bytes = [&msg.header()[..], msg.body].concat();
    bench.core.on_stream_message(bench.now, NEXT_STREAM, &bytes, &mut bench.log).expect("accepted");
    assert_eq!(bench.took(), ["1/5: update 22=8"]);
    assert_eq!(bench.counters.services_renumbered.get(), 2);
}

#[test]
fn instances_that_number_a_service_differently_stand_in_for_each_other() {
    let mut bench = Bench::watching();
    bench.next_instance();
    bench.took();
    bench.core.on_link_down(bench.now, INSTANCE, &mut bench.log);
    let log = bench.took();
    assert_eq!(log.last().map(String::as_str), Some("78: resume IBM"), "{log:?}");
}

#[test]
fn each_side_sees_its_own_id_in_all_that_names_the_service() {
    let mut bench = Bench::watching();
    bench.core.on_link_down(bench.now, INSTANCE, &mut bench.log);
    bench.next_instance();
    let mut both = Both::default();
    let down = |core: &mut PointToPoint, msg: &LinkDown<'_>, both: &mut Both| {
        let mut bytes = Vec::new();
        msg.encode(&mut bytes);
        core.on_link_message(T0, NEXT, &bytes, both).expect("accepted");
    };
    let image = refresh(&[(22, 7)]);
    down(
        &mut bench.core,
        &LinkDown::Image { item: 4, after: 3, key: Bench::theirs("IBM"), refresh: &image },
        &mut both,
    );
    let suspect = status_of(7, StreamState::Open);
    down(&mut bench.core, &LinkDown::ItemStatus { key: Bench::theirs("IBM"), status: &suspect }, &mut both);
    let gap =
        StreamMsg { kind: Kind::Heartbeat, instance: NEXT, sequence: 9, item: 0, parts: &[], body: &[] };
    bench.core.on_stream_message(T0, NEXT_STREAM, &gap.header(), &mut both).expect("accepted");
    assert_eq!(both.0, [7], "the question about the gap");
    let ids = 4_u32.to_be_bytes();
    down(
        &mut bench.core,
        &LinkDown::GapAnswer { service: 7, first: 4, last: 9, known: true, ids: &ids },
        &mut both,
    );
    assert_eq!(both.0, [7, 7], "the image is asked for again");
    let closed = status_of(7, StreamState::Closed);
    down(&mut bench.core, &LinkDown::ItemStatus { key: Bench::theirs("IBM"), status: &closed }, &mut both);
    let seen: Vec<u16> = both.1.iter().filter_map(|msg| service_in(msg)).collect();
    assert_eq!((seen.len() >= 3, seen.iter().all(|id| *id == 1)), (true, true), "{seen:?}");
    let mut late = Both::default();
    down(
        &mut bench.core,
        &LinkDown::ItemStatus { key: ItemKey::named(99, Domain::MARKET_PRICE, b"IBM"), status: &closed },
        &mut late,
    );
    assert!(late.1.is_empty(), "a service that it does not have");
}

#[test]
fn a_service_that_comes_back_has_the_id_that_it_had() {
    let mut bench = Bench::running();
    bench.directory(DIRECTORY, INSTANCE, &[]);
    assert_eq!(bench.core.services().count(), 0);
    bench.directory(DIRECTORY, INSTANCE, &[named_service(1, "OTHER"), named_service(2, "BINANCE")]);
    let ids: Vec<_> = bench.core.services().map(|(id, name, ..)| (id, name.to_owned())).collect();
    assert_eq!(ids, [(1, "BINANCE".to_owned()), (u16::MAX, "OTHER".to_owned())]);
}

#[test]
fn a_service_whose_name_cannot_be_that_of_a_topic_is_passed_over_and_its_neighbours_are_not() {
    let mut bench = Bench::watching();
    let (longest, too_long) = ("L".repeat(238), "L".repeat(239));
    let services = [named_service(1, "BINANCE"), named_service(2, &too_long), named_service(3, &longest)];
    for _ in 0..20 {
        bench.directory(DIRECTORY, INSTANCE, &services);
        bench.directory(DIRECTORY, INSTANCE, &services[..2]);
    }
    let told: Vec<String> = bench.took().into_iter().filter(|line| line.starts_with("notice")).collect();
    assert_eq!((told.len(), bench.counters.services_unnamable.get()), (10, 40), "it is rationed: {told:?}");
    assert!(told[0].contains("its name of 239 bytes, 1 to 238"), "{told:?}");
    assert_eq!(bench.core.services().map(|(id, ..)| id).collect::<Vec<_>>(), [1]);
}

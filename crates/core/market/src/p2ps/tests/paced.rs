//! Streams that are sent one update in an interval, and classes of users.

use rwf::{Qos, Rate};

use super::streams::Raw;
use super::*;

const HALF_A_SECOND: Qos = Qos { rate: Rate::TimeConflated(500), ..Qos::REAL_TIME };
const SECOND: Qos = Qos { rate: Rate::TimeConflated(1_000), ..Qos::REAL_TIME };

/// A request for half a second between updates.
fn paced(stream_id: i32, name: &str) -> ItemRequest<'_> {
    ItemRequest { qos: Some(HALF_A_SECOND), ..streaming(stream_id, name) }
}

/// With an instance, and a server that makes data of half a second and of one.
fn offering() -> Bench {
    let mut bench = Bench::alone();
    bench.core.reconfigure(|config| {
        config.conflated_intervals_ms = vec![500, 1_000];
        config.silence_timeout = Duration::from_secs(3_600);
    });
    bench.find_instance(DIRECTORY, STREAM, INSTANCE, true);
    bench.log.0.clear();
    bench
}

/// A has IBM on stream 5 twice a second, B has every update on stream 9.
fn watching() -> Bench {
    let mut bench = offering();
    bench.ask(A, &paced(5, "IBM"));
    bench.request(B, 9, "IBM");
    bench.open(1, 1, "IBM");
    bench.image(1, 1, "IBM", &[(22, 1), (25, 1)]);
    bench.took();
    bench
}

impl Bench {
    /// So many milliseconds pass, and what is due then is sent.
    fn passes(&mut self, ms: u64) -> Vec<String> {
        self.now = Nanos(self.now.0 + ms * 1_000_000);
        self.core.on_wakeup(self.now, &mut self.log);
        for client in self.core.take_due_clients() {
            while self.core.send_due_images(self.now, client, &mut self.log) {}
        }
        self.took()
    }

    fn classes(&mut self, classes: Vec<ClientClass>) {
        self.core.reconfigure(|config| config.classes = ClientClasses::new(classes));
    }
}

fn class(users: &str) -> ClientClass {
    ClientClass {
        name: "few".to_owned(),
        users: vec![users.to_owned()],
        interval_ms: 0,
        bytes_per_second: 0,
        priority: PRIORITY_DEFAULT,
        streams_max: 1_000,
        connections_max: 1_000,
    }
}

#[test]
fn the_directory_says_which_rates_there_are_and_others_are_refused() {
    let mut bench = offering();
    let service = &bench.core.items.sources.services[&1].definition;
    assert_eq!(service.info.qos, [Qos::REAL_TIME, HALF_A_SECOND, SECOND]);
    let other = Qos { rate: Rate::TimeConflated(200), ..Qos::REAL_TIME };
    bench.ask(A, &ItemRequest { qos: Some(other), ..streaming(5, "IBM") });
    assert!(bench.took()[0].contains("closed"), "200 ms are not offered");
    // The best of a range, which is every update where that will do.
    let ranges = [(other, SECOND, 500), (SECOND, SECOND, 1_000), (Qos::REAL_TIME, SECOND, 0)];
    for ((best, worst, interval_ms), stream_id) in ranges.into_iter().zip(5..) {
        bench.ask(A, &ItemRequest { qos: Some(best), worst_qos: Some(worst), ..streaming(stream_id, "IBM") });
        let client = bench.core.items.clients.get(A).expect("it is connected");
        assert_eq!(client.streams[&stream_id].form.interval_ms, interval_ms);
    }
    bench.request(A, 8, "IBM");
    assert_eq!(bench.core.items.clients.get(A).expect("it is connected").streams[&8].form.interval_ms, 0);
}

#[test]
fn a_stream_gets_an_update_at_once_and_the_newest_values_when_its_interval_is_over() {
    let mut bench = watching();
    bench.stream(Kind::Update, 2, 1, &update(&[(22, 2)]));
    assert_eq!(bench.took(), ["1/5: update 22=2", "2/9: update 22=2"], "it has had none before");
    for (sequence, field) in [(3, 25), (4, 22), (5, 22)] {
        bench.stream(Kind::Update, sequence, 1, &update(&[(field, sequence as i64)]));
    }
    assert_eq!(bench.took(), ["2/9: update 25=3", "2/9: update 22=4", "2/9: update 22=5"]);
    assert_eq!(bench.passes(499), [""; 0]);
    assert_eq!(bench.core.next_wakeup(), Nanos(T0.0 + 500_000_000));
    assert_eq!(bench.passes(1), ["1/5: update 22=5 25=3"]);
    assert_eq!(bench.counters.updates_conflated.get(), 3);
    // That was an update too; after a quiet interval the next is sent as it comes.
    bench.stream(Kind::Update, 6, 1, &update(&[(22, 6)]));
    assert_eq!((bench.took(), bench.passes(499).len()), (vec!["2/9: update 22=6".to_owned()], 0));
    assert_eq!(bench.passes(1), ["1/5: update 22=6"]);
    assert_eq!(bench.passes(500), [""; 0]);
    bench.stream(Kind::Update, 7, 1, &update(&[(22, 7)]));
    assert_eq!(bench.took().len(), 2);
}

#[test]
fn its_images_say_the_rate_and_its_updates_for_how_many_they_stand_and_since_when() {
    let mut bench = offering();
    bench.ask(A, &ItemRequest { conflation_info_in_updates: true, ..paced(5, "IBM") });
    bench.open(1, 1, "IBM");
    let mut log = Raw::default();
    let refresh = refresh(&[(22, 1)]);
    let mut image = Vec::new();
    LinkDown::Image { item: 1, after: 1, key: named("IBM"), refresh: &refresh }.encode(&mut image);
    bench.core.on_link_message(bench.now, INSTANCE, &image, &mut log).expect("accepted");
    let Ok(Msg::Refresh(first)) = Msg::parse(&log.0[0]) else { panic!("it is a refresh") };
    assert_eq!(first.qos, Some(HALF_A_SECOND));
    for (sequence, ms) in [(2, 0), (3, 100), (4, 150)] {
        bench.now = Nanos(T0.0 + ms * 1_000_000);
        bench.stream(Kind::Update, sequence, 1, &update(&[(22, sequence as i64)]));
    }
    bench.now = Nanos(T0.0 + 500_000_000);
    bench.core.on_wakeup(bench.now, &mut log);
    assert_eq!(bench.core.take_due_clients(), [A]);
    bench.core.send_due_images(bench.now, A, &mut log);
    let Ok(Msg::Update(last)) = Msg::parse(&log.0[1]) else { panic!("it is an update") };
    assert_eq!(last.conflation, Some(rwf::Conflation { count: 2, time: 400 }));
}

#[test]
fn what_keeps_its_order_does_not_wait_and_nothing_comes_after_the_end() {
    let mut bench = watching();
    bench.stream(Kind::Update, 2, 1, &update(&[(22, 2)]));
    bench.stream(Kind::Update, 3, 1, &update(&[(22, 3)]));
    bench.took();
    bench.stream(Kind::Status, 4, 1, &status(StreamState::Open, "halted"));
    let log = bench.took();
    assert!(log[0] == "1/5: update 22=3" && log[1].ends_with("halted"), "{log:?}");
    bench.stream(Kind::Update, 5, 1, &update(&[(22, 5)]));
    assert_eq!(bench.took(), ["2/9: update 22=5"], "the newest values began an interval");
    bench.stream(Kind::Close, 6, 1, &status(StreamState::Closed, "delisted"));
    assert!(bench.took()[0].starts_with("1/5: refresh suspect 22=5"));
    assert_eq!(bench.passes(600), [""; 0]);
    assert_eq!(bench.core.items.clients.turns_queued(), 0);
}

#[test]
fn an_image_for_all_does_not_wait_for_the_interval() {
    let mut bench = watching();
    bench.stream(Kind::Update, 2, 1, &update(&[(22, 2)]));
    bench.stream(Kind::Update, 3, 1, &update(&[(22, 3)]));
    bench.took();
    bench.stream(Kind::Refresh, 4, 1, &refresh(&[(22, 4)]));
    assert_eq!(bench.took(), ["2/9: refresh ok 22=4"]);
    assert_eq!(bench.passes(1), ["1/5: refresh ok 22=4"]);
    // And nothing is left of the change before it.
    assert_eq!((bench.passes(600).len(), bench.core.items.clients.turns_queued()), (0, 0));
    bench.stream(Kind::Update, 5, 1, &update(&[(22, 5)]));
    assert_eq!(bench.took().len(), 2);
}

#[test]
fn a_change_of_a_stream_keeps_its_rate_unless_it_names_another() {
    let mut bench = watching();
    bench.ask(A, &ItemRequest { no_refresh: true, qos: None, ..streaming(5, "IBM") });
    for (sequence, sent) in [(2, 2), (3, 1)] {
        bench.stream(Kind::Update, sequence, 1, &update(&[(22, sequence as i64)]));
        assert_eq!(bench.took().len(), sent);
    }
    bench.ask(A, &ItemRequest { qos: Some(Qos::REAL_TIME), ..streaming(5, "IBM") });
    assert_eq!(bench.took(), ["1/5: refresh ok solicited 22=3 25=1"]);
    for sequence in 4..7 {
        bench.stream(Kind::Update, sequence, 1, &update(&[(22, sequence as i64)]));
        let log = bench.took().join(" ");
        assert!(log.contains("1/5") && log.contains("2/9"), "{log}");
    }
    assert_eq!(bench.passes(1_000), [""; 0]);
}

#[test]
fn a_class_has_a_rate_a_number_of_streams_and_a_number_of_connections() {
    let mut bench = offering();
    let few = ClientClass { interval_ms: 700, streams_max: 2, connections_max: 1, ..class("desk-*") };
    bench.classes(vec![few, class("*")]);
    let [first, second] = [3, 4].map(ClientId);
    for client in [first, second] {
        bench.core.on_client_connected(client, ClientProfile::default());
    }
    let login = LoginRequest::consumer(b"desk-7").to_vec().expect("legal");
    bench.client(first, &login);
    assert_eq!(bench.core.client_info_of(first).map(|info| info.class), Some("few"));
    let denied = bench.core.on_client_message(bench.now, second, &login, &mut bench.log);
    assert_eq!(denied, Err(ClientError::LoginDenied(crate::users::Denial::Connections)));
    assert_eq!(bench.core.gate().last_denied(), "desk-7");
    bench.client(first, &login);
    bench.took();
    for (stream_id, name) in [(1, "IBM"), (2, "MSFT"), (3, "T")] {
        bench.request(first, stream_id, name);
    }
    assert!(bench.took().iter().any(|line| line.starts_with("3/3: status closed")), "two are enough");
    bench.open(1, 1, "IBM");
    bench.image(1, 1, "IBM", &[(22, 1)]);
    bench.took();
    for sequence in 2..5 {
        bench.stream(Kind::Update, sequence, 1, &update(&[(22, sequence as i64)]));
    }
    assert_eq!(bench.took(), ["3/1: update 22=2"]);
    assert_eq!((bench.passes(699).len(), bench.passes(1)), (0, vec!["3/1: update 22=4".to_owned()]));
    bench.core.on_client_closed(bench.now, first, &mut bench.log);
    bench.client(second, &login);
    assert!(bench.core.is_logged_in(second), "there is room again");
}

/// A request for IBM in whatever quality there is.
fn any(stream_id: i32) -> ItemRequest<'static> {
    ItemRequest { qos: None, ..streaming(stream_id, "IBM") }
}

/// As [`offering`], with 700 ms as the least interval of the service.
fn bounded() -> Bench {
    let mut bench = Bench::alone();
    bench.core.reconfigure(|config| {
        config.conflated_intervals_ms = vec![500, 1_000];
        config.service_intervals_ms.insert("BINANCE".to_owned(), 700);
        config.service_intervals_ms.insert("OTHER".to_owned(), 9_000);
        config.silence_timeout = Duration::from_secs(3_600);
    });
    bench.find_instance(DIRECTORY, STREAM, INSTANCE, true);
    bench.log.0.clear();
    bench
}

#[test]
fn a_service_with_a_least_interval_offers_that_and_longer_ones_and_nothing_faster() {
    const LEAST: Qos = Qos { rate: Rate::TimeConflated(700), ..Qos::REAL_TIME };
    let mut bench = bounded();
    assert_eq!(bench.core.items.sources.services[&1].definition.info.qos, [LEAST, SECOND]);
    for (quality, stream_id) in [Qos::REAL_TIME, HALF_A_SECOND].into_iter().zip(5..) {
        bench.ask(A, &ItemRequest { qos: Some(quality), ..streaming(stream_id, "IBM") });
        assert!(bench.took()[0].contains("closed"), "{quality} is not offered");
    }
    let interval = |bench: &Bench, stream_id| {
        bench.core.items.clients.get(A).expect("it is connected").streams[&stream_id].form.interval_ms
    };
    // The best of a range, or whatever there is.
    bench.ask(A, &ItemRequest { qos: Some(Qos::REAL_TIME), worst_qos: Some(SECOND), ..streaming(7, "IBM") });
    bench.ask(A, &any(8));
    bench.ask(A, &ItemRequest { qos: Some(SECOND), ..streaming(9, "IBM") });
    assert_eq!([7, 8, 9].map(|stream_id| interval(&bench, stream_id)), [700, 700, 1_000]);
    // Of the intervals of service, class and quality the longest counts.
    for (of_class, expected) in [(0, [700, 1_000]), (800, [800, 1_000]), (2_000, [2_000, 2_000])] {
        bench.classes(vec![ClientClass { interval_ms: of_class, ..class("desk") }]);
        bench.log_in(A, &LoginRequest::consumer(b"desk"));
        for stream_id in [8, 9] {
            bench.ask(A, &any(stream_id));
        }
        assert_eq!([8, 9].map(|stream_id| interval(&bench, stream_id)), expected);
        bench.log_in(A, &LoginRequest::consumer(b"me"));
    }
}

#[test]
fn what_a_service_offers_itself_is_not_made_faster_and_stays_if_it_is_slow_enough() {
    let mut config = ServerConfig { conflated_intervals_ms: vec![100, 900], ..ServerConfig::default() };
    config.service_intervals_ms.insert("BINANCE".to_owned(), 300);
    let rates = [
        Rate::TimeConflated(200),
        Rate::TickByTick,
        Rate::TimeConflated(300),
        Rate::JustInTimeConflated,
        Rate::TimeConflated(5_000),
    ];
    let mut offered = definition(true);
    offered.info.qos = rates.map(|rate| Qos { rate, ..Qos::REAL_TIME }).to_vec();
    let before = offered.info.qos.clone();
    config.add_conflated(&mut offered);
    let rates: Vec<Rate> = offered.info.qos.iter().map(|qos| qos.rate).collect();
    assert_eq!(
        rates,
        [300, 0, 5_000, 900].map(|ms| if ms == 0 {
            Rate::JustInTimeConflated
        } else {
            Rate::TimeConflated(ms)
        })
    );
    let mut other = definition(true);
    other.info.name = "UNBOUNDED".to_owned();
    other.info.qos = before.clone();
    config.add_conflated(&mut other);
    assert_eq!(other.info.qos[..before.len()], before);
    assert_eq!(other.info.qos.len(), before.len() + 2);
}

#[test]
fn streams_of_a_service_with_a_least_interval_are_paced_and_their_images_say_so() {
    let mut bench = bounded();
    bench.ask(A, &any(5));
    bench.open(1, 1, "IBM");
    bench.took();
    let mut log = Raw::default();
    let refresh = refresh(&[(22, 1)]);
    let mut image = Vec::new();
    LinkDown::Image { item: 1, after: 1, key: named("IBM"), refresh: &refresh }.encode(&mut image);
    bench.core.on_link_message(bench.now, INSTANCE, &image, &mut log).expect("accepted");
    let Ok(Msg::Refresh(first)) = Msg::parse(&log.0[0]) else { panic!("it is a refresh") };
    assert_eq!(first.qos.map(|qos| qos.rate), Some(Rate::TimeConflated(700)));
    for sequence in 2..6 {
        bench.stream(Kind::Update, sequence, 1, &update(&[(22, sequence as i64)]));
    }
    assert_eq!(bench.took(), ["1/5: update 22=2"]);
    assert_eq!((bench.passes(699).len(), bench.passes(1)), (0, vec!["1/5: update 22=5".to_owned()]));
    // A snapshot has no updates.
    bench.ask(A, &ItemRequest { streaming: false, ..any(6) });
    assert_eq!(bench.took(), ["1/6: refresh ok solicited non-streaming 22=5"]);
}

#[test]
fn a_shorter_interval_counts_from_the_last_update_on_and_so_does_a_longer_one() {
    let mut bench = watching();
    bench.ask(A, &ItemRequest { qos: Some(SECOND), ..streaming(5, "IBM") });
    bench.stream(Kind::Update, 2, 1, &update(&[(22, 2)]));
    bench.ask(A, &paced(5, "IBM"));
    bench.took();
    bench.stream(Kind::Update, 3, 1, &update(&[(22, 3)]));
    assert_eq!(bench.took(), ["2/9: update 22=3"]);
    assert_eq!((bench.passes(499).len(), bench.passes(1)), (0, vec!["1/5: update 22=3".to_owned()]));
    bench.ask(A, &ItemRequest { qos: Some(SECOND), ..streaming(5, "IBM") });
    bench.took();
    bench.stream(Kind::Update, 4, 1, &update(&[(22, 4)]));
    bench.took();
    assert_eq!((bench.passes(999).len(), bench.passes(1)), (0, vec!["1/5: update 22=4".to_owned()]));
}

#[test]
fn a_class_counts_for_what_is_opened_or_changed_after_the_login() {
    let mut bench = offering();
    bench.classes(vec![ClientClass { interval_ms: 700, ..class("desk") }]);
    let interval = |bench: &Bench, stream_id| {
        bench.core.items.clients.get(A).expect("it is connected").streams[&stream_id].form.interval_ms
    };
    bench.request(A, 5, "IBM");
    bench.log_in(A, &LoginRequest::consumer(b"desk"));
    bench.ask(A, &paced(6, "IBM"));
    assert_eq!((interval(&bench, 5), interval(&bench, 6)), (0, 700));
    bench.log_in(A, &LoginRequest::consumer(b"me"));
    for stream_id in [5, 6] {
        bench.ask(A, &ItemRequest { qos: None, ..streaming(stream_id, "IBM") });
    }
    assert_eq!((interval(&bench, 5), interval(&bench, 6)), (0, 500), "the quality stays, the class does not");
}

/// Any updates, pauses and closed streams: updates of a stream are an interval apart, and the last values arrive.
#[test]
fn updates_are_an_interval_apart_and_the_last_values_arrive_whatever_happens() {
    let _repeat = testkit::repeat!();
    let mut rng = units::Rng::new(14);
    let mut bench = offering();
    for item in 1..=4_u32 {
        bench.request(B, item as i32, &format!("I{item}"));
        bench.open(item.into(), item, &format!("I{item}"));
        bench.image(item, item.into(), &format!("I{item}"), &[(22, 0)]);
    }
    let (mut sequence, mut newest) = (4, [0_i64; 5]);
    let mut sent = std::collections::BTreeMap::<i32, (Option<Nanos>, i64)>::new();
    let (mut shortest, mut updates) = (Duration::MAX, 0);
    bench.took();
    for _ in 0..20_000 {
        match rng.below(12) {
            0 => {
                let (stream_id, item) = (rng.below(8) as i32 + 1, rng.below(4) + 1);
                if !bench.core.has_stream(A, stream_id) {
                    bench.ask(A, &paced(stream_id, &format!("I{item}")));
                }
            }
            1 => {
                let stream_id = rng.below(8) as i32 + 1;
                bench.close(A, stream_id);
                sent.remove(&stream_id);
            }
            _ => {
                sequence += 1;
                let item = rng.below(4) as usize + 1;
                newest[item] = sequence as i64;
                bench.stream(Kind::Update, sequence, item as u32, &update(&[(22, sequence as i64)]));
            }
        }
        let mut log = bench.took();
        log.extend(bench.passes(rng.below(60)));
        for line in &log {
            let Some((head, value)) = line.split_once(" 22=") else { continue };
            let (to, kind) = head.split_once(": ").expect("to whom, and what");
            for stream in to.split(',').filter_map(|to| to.strip_prefix("1/")) {
                let (stream, value) = (stream.parse().expect("an id"), value.parse().expect("a value"));
                let updated = (kind == "update").then_some(bench.now);
                let Some((before, older)) = sent.insert(stream, (updated, value)) else { continue };
                assert!(older < value || updated.is_none(), "no value goes back");
                if let (Some(before), Some(now)) = (before, updated) {
                    (shortest, updates) = (shortest.min(now.since(before)), updates + 1);
                }
            }
        }
        assert!(bench.core.items.clients.turns_queued() < 1_100);
    }
    // An update is seen here at the end of up to 60 ms in which its moment was.
    assert!(shortest >= Duration::from_millis(440) && updates > 1_000, "{updates} updates, {shortest:?}");
    for line in bench.passes(600) {
        if let Some((to, value)) = line.split_once(": update 22=") {
            let streams = to.split(',').filter_map(|to| to.strip_prefix("1/"));
            sent.extend(
                streams.map(|id| (id.parse().expect("an id"), (None, value.parse().expect("a value")))),
            );
        }
    }
    for (stream_id, (_, value)) in sent {
        let stream = &bench.core.items.clients.get(A).expect("it is connected").streams[&stream_id];
        let item = bench.core.items.table[stream.index()].id.expect("it is known") as usize;
        assert_eq!(value, newest[item], "the last value arrives");
    }
    assert_eq!(bench.core.client_info_of(A).expect("it is connected").changed_streams, 0);
}

#[test]
fn a_client_has_the_rate_and_the_priority_of_its_class_while_it_is_of_it() {
    let mut bench = offering();
    bench.classes(vec![ClientClass { bytes_per_second: 20_000, priority: 7, ..class("desk-*") }]);
    let mut log_in = |user: &[u8]| {
        bench.client(A, &LoginRequest::consumer(user).to_vec().expect("legal"));
        let is_told = |line: &String| line.contains("a second") || line.contains("priority");
        bench.took().into_iter().filter(is_told).collect::<Vec<_>>()
    };
    assert_eq!(log_in(b"desk-1"), ["1: 20000 bytes a second", "1: priority 7"]);
    assert_eq!(log_in(b"desk-2"), [""; 0], "as before");
    assert_eq!(log_in(b"ann"), ["1: 0 bytes a second", "1: priority 5"]);
}

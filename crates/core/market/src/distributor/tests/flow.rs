//! Providers are held back for servers that lack much, and not for those that take less than the floor.

use super::*;

const WINDOW: u64 = 64_000;
const FLOOR: u64 = 10_000;
const PATIENCE: Duration = Duration::from_secs(1);
const OTHER: PeerId = PeerId(8);
/// About what an update has.
const UPDATE: u64 = 1_024;

impl Bench {
    /// Item A goes to two servers, of which both have taken all so far.
    fn flowing() -> Bench {
        let mut bench =
            Bench::with_flow(FlowConfig { window_bytes: WINDOW, floor: FLOOR, patience: PATIENCE });
        bench.provider(T0, PROVIDER, &refresh(-5, "A", &[(22, 1)]));
        bench.interest(T0, "A");
        bench.core.on_peer_connected(OTHER);
        bench.say(OTHER, T0, &LinkUp::Hello { peer: 2, name: b"slow" });
        bench.say(OTHER, T0, &LinkUp::Interest { key: item("A") });
        for peer in [PEER, OTHER] {
            bench.takes(peer, T0, bench.sent());
        }
        assert!(!bench.is_held(T0));
        bench.log.take();
        bench
    }

    fn with_flow(flow: FlowConfig) -> Bench {
        let service_ids = BTreeMap::from([("BINANCE".to_owned(), 1)]);
        let mut bench = Bench::new(DistributorConfig { service_ids, flow, ..DistributorConfig::default() });
        bench.provider_logs_in(PROVIDER);
        bench.announce(PROVIDER, &[service(3, true)]);
        bench.core.on_peer_connected(PEER);
        bench.peer(T0, &LinkUp::Hello { peer: 1, name: b"test" });
        bench
    }

    fn say(&mut self, peer: PeerId, now: Nanos, msg: &LinkUp<'_>) {
        let mut bytes = Vec::new();
        msg.encode(&mut bytes);
        self.core.on_peer_message(now, peer, &bytes, &mut self.log).expect("accepted");
    }

    fn takes(&mut self, peer: PeerId, now: Nanos, sequence: u64) {
        let mut positions = Vec::new();
        LinkUp::put_position(&mut positions, 1, sequence);
        self.say(peer, now, &LinkUp::Progress { positions: &positions });
    }

    fn sent(&self) -> u64 {
        self.core.services().next().expect("a service").3
    }

    /// About so many bytes are published.
    fn publishes(&mut self, now: Nanos, bytes: u64) {
        let fields: Vec<_> = (0..110).map(|id| (id, 1)).collect();
        let update = update(-5, None, &fields);
        let until = self.counters.stream_bytes_out.get() + bytes;
        while self.counters.stream_bytes_out.get() < until {
            self.provider(now, PROVIDER, &update);
        }
        self.log.take();
    }

    fn is_held(&mut self, now: Nanos) -> bool {
        self.core.holds_providers(now, &mut self.log)
    }

    fn lacks(&self) -> Vec<(u64, bool)> {
        self.core.peer_flows().map(|(_, lacks, left)| (lacks, left)).collect()
    }
}

fn after_ms(ms: u64) -> Nanos {
    T0 + Duration::from_millis(ms)
}

#[test]
fn providers_are_held_back_while_a_server_lacks_more_than_the_window() {
    let mut bench = Bench::flowing();
    bench.publishes(T0, WINDOW / 2);
    assert!(!bench.is_held(T0));
    let half = bench.sent();
    bench.publishes(T0, WINDOW);
    bench.takes(PEER, T0, bench.sent());
    assert!(bench.is_held(T0), "{:?}", bench.lacks());
    assert!(bench.core.next_wakeup() <= T0 + PATIENCE);
    bench.takes(OTHER, after_ms(100), half);
    assert!(
        bench.is_held(after_ms(100)),
        "a quarter of the window has to be free again: {:?}",
        bench.lacks()
    );
    bench.takes(OTHER, after_ms(200), bench.sent());
    assert!(!bench.is_held(after_ms(200)));
    assert_eq!(bench.lacks(), [(0, false); 2]);
    let counters = &bench.counters;
    assert_eq!((counters.provider_holds.get(), counters.providers_held_ns.get()), (1, 200_000_000));
    assert_eq!((counters.progress_in.get(), counters.peers_left_behind.get()), (5, 0));
    assert_eq!(bench.log.take(), [""; 0]);
}

#[test]
fn a_server_that_takes_less_than_the_floor_is_left_behind_and_named() {
    let mut bench = Bench::flowing();
    bench.publishes(T0, 2 * WINDOW);
    bench.takes(PEER, T0, bench.sent());
    assert!(bench.is_held(T0));
    assert!(bench.is_held(after_ms(999)), "that is its patience");
    assert!(!bench.is_held(after_ms(1_000)));
    let log = bench.log.take();
    assert!(log[0].starts_with("notice on peer 8 slow: it takes 0 bytes/s, less than the floor"), "{log:?}");
    assert_eq!((bench.counters.peers_behind.get(), bench.counters.peers_left_behind.get()), (1, 1));
    bench.publishes(after_ms(1_100), 20 * WINDOW);
    bench.takes(PEER, after_ms(1_100), bench.sent());
    assert!(!bench.is_held(after_ms(1_100)), "nobody waits for it");
    bench.takes(OTHER, after_ms(1_200), bench.sent());
    bench.publishes(after_ms(1_200), 2 * WINDOW);
    bench.takes(PEER, after_ms(1_200), bench.sent());
    assert!(!bench.is_held(after_ms(1_200)), "and not again at once");
    bench.takes(OTHER, after_ms(31_200), bench.sent());
    assert_eq!(
        bench.log.take(),
        ["notice on peer 8 slow: it has caught up after 30200 ms: providers are held back for it again"]
    );
    bench.publishes(after_ms(31_300), 2 * WINDOW);
    bench.takes(PEER, after_ms(31_300), bench.sent());
    assert!(bench.is_held(after_ms(31_300)));
    bench.core.on_peer_closed(after_ms(31_400), OTHER, &mut bench.log);
    assert!(!bench.is_held(after_ms(31_400)), "one that is gone holds nobody back");
    assert_eq!(bench.counters.peers_behind.get(), 0);
}

#[test]
fn a_server_that_takes_more_than_the_floor_is_waited_for_as_long_as_it_takes() {
    let mut bench = Bench::flowing();
    let mut taken = bench.sent();
    let mut held = 0;
    for tenth in 0..600 {
        let now = after_ms(100 * tenth);
        if !bench.is_held(now) {
            bench.publishes(now, 3 * UPDATE);
        } else {
            held += 1;
        }
        bench.takes(PEER, now, bench.sent());
        taken = (taken + 4).min(bench.sent());
        bench.takes(OTHER, now, taken);
    }
    assert!(held > 100, "{held}");
    assert!(bench.lacks()[1].0 <= WINDOW + 4 * UPDATE, "{:?}", bench.lacks());
    assert_eq!((bench.counters.peers_left_behind.get(), bench.log.take()), (0, vec![]));
}

#[test]
fn a_server_that_goes_and_comes_holds_providers_back_as_seldom_as_one_that_stays() {
    let mut bench = Bench::flowing();
    let (mut held_ms, mut told) = (0, 0);
    for turn in 0..300 {
        let now = after_ms(100 * turn);
        if turn % 9 == 8 {
            bench.core.on_peer_closed(now, OTHER, &mut bench.log);
            bench.core.on_peer_connected(OTHER);
            bench.log.take();
            bench.say(OTHER, now, &LinkUp::Hello { peer: turn, name: b"slow" });
            told +=
                usize::from(bench.log.take().iter().any(|line| line.contains("when its last link ended")));
            bench.takes(OTHER, now, 0);
        }
        match bench.is_held(now) {
            true => held_ms += 100,
            false => bench.publishes(now, 2 * WINDOW),
        }
        bench.takes(PEER, now, bench.sent());
    }
    assert!((100..=1_000).contains(&held_ms), "{held_ms} ms of 30 s: its patience once");
    assert_eq!((bench.counters.peers_behind.get(), bench.counters.peers_left_behind.get()), (1, 1));
    assert!(told > 20, "each new link is told what it means: {told}");
    // It is waited for again when its time is over, whatever its link.
    let now = after_ms(60_000);
    bench.core.on_peer_closed(now, OTHER, &mut bench.log);
    bench.core.on_peer_connected(OTHER);
    bench.say(OTHER, now, &LinkUp::Hello { peer: 1, name: b"slow" });
    bench.takes(OTHER, now, bench.sent());
    bench.publishes(now, 2 * WINDOW);
    bench.takes(PEER, now, bench.sent());
    assert!(bench.is_held(now), "{:?}", bench.lacks());
}

#[test]
fn to_stop_following_a_stream_is_not_to_take_it() {
    let mut bench = Bench::flowing();
    let mut held_ms = 0;
    for turn in 0..300 {
        let now = after_ms(100 * turn);
        if turn % 5 == 4 {
            bench.takes(OTHER, now, LinkUp::NOT_FOLLOWED);
            bench.takes(OTHER, now, 0);
        }
        match bench.is_held(now) {
            true => held_ms += 100,
            false => bench.publishes(now, 2 * WINDOW),
        }
        bench.takes(PEER, now, bench.sent());
    }
    assert!((100..=1_000).contains(&held_ms), "{held_ms} ms of 30 s");
    let log = bench.log.take();
    assert_eq!(
        (bench.counters.peers_left_behind.get(), bench.counters.peers_behind.get()),
        (1, 1),
        "{log:?}"
    );
}

#[test]
fn without_a_floor_a_server_is_waited_for_that_takes_anything_and_no_other() {
    let flow = FlowConfig { window_bytes: WINDOW, floor: 0, patience: PATIENCE };
    let mut bench = Bench::with_flow(flow);
    bench.provider(T0, PROVIDER, &refresh(-5, "A", &[(22, 1)]));
    bench.interest(T0, "A");
    let began = bench.sent();
    bench.takes(PEER, T0, began);
    bench.publishes(T0, 2 * WINDOW);
    assert!(bench.is_held(T0));
    bench.takes(PEER, after_ms(900), began + 2);
    assert!(bench.is_held(after_ms(1_100)), "little is enough");
    assert!(bench.is_held(after_ms(2_000)));
    assert!(!bench.is_held(after_ms(2_200)), "nothing is not");
    assert!(bench.log.take()[0].contains("it takes 0 bytes/s"));
}

#[test]
fn who_does_not_report_or_not_follow_or_wants_no_window_is_not_waited_for() {
    let mut bench = Bench::flowing();
    bench.publishes(T0, 2 * WINDOW);
    bench.takes(PEER, T0, bench.sent());
    assert!(bench.is_held(T0));
    bench.takes(OTHER, T0, LinkUp::NOT_FOLLOWED);
    assert!(!bench.is_held(T0), "it takes no part in the stream any more");
    bench.say(OTHER, T0, &LinkUp::Progress { positions: b"\xFF\xFE\0\0\0\0\0\0\0\x01\0\x01" });
    bench.publishes(T0, 2 * WINDOW);
    bench.takes(PEER, T0, u64::MAX - 1);
    assert!(!bench.is_held(T0), "neither a service that there is not, nor a number of the future");
    let mut bench = Bench::with_flow(FlowConfig { window_bytes: 0, ..FlowConfig::default() });
    bench.provider(T0, PROVIDER, &refresh(-5, "A", &[(22, 1)]));
    bench.interest(T0, "A");
    bench.takes(PEER, T0, bench.sent());
    bench.publishes(T0, 100 * WINDOW);
    assert!(!bench.is_held(T0));
}

#[test]
fn who_begins_to_follow_lacks_nothing_of_what_was_sent_before_whatever_it_says() {
    let mut bench = Bench::flowing();
    bench.takes(OTHER, T0, LinkUp::NOT_FOLLOWED);
    for _ in 0..10 {
        bench.publishes(T0, 2 * WINDOW);
        bench.takes(PEER, T0, bench.sent());
    }
    for turn in 0..300 {
        let now = after_ms(100 * turn);
        if turn % 9 == 8 {
            bench.takes(OTHER, now, 1 << 63);
            bench.takes(OTHER, now, LinkUp::NOT_FOLLOWED);
        }
        bench.takes(OTHER, now, 0);
        bench.publishes(now, WINDOW / 100);
        bench.takes(PEER, now, bench.sent());
        assert!(!bench.is_held(now), "it holds the others back {turn}");
    }
    assert_eq!(bench.counters.peers_left_behind.get(), 0);
}

#[test]
fn for_whom_providers_are_held_back_and_for_how_long_is_told_a_few_times_in_a_while() {
    let mut bench = Bench::flowing();
    let hold = |bench: &mut Bench, at: Nanos| {
        bench.publishes(at, 2 * WINDOW);
        bench.takes(PEER, at, bench.sent());
        assert!(bench.is_held(at) && bench.is_held(at));
    };
    hold(&mut bench, T0);
    bench.takes(OTHER, after_ms(200), bench.sent());
    assert!(!bench.is_held(after_ms(200)));
    let told = std::mem::take(&mut bench.log.2);
    assert!(told[0].starts_with("slow: providers are held back for it: it lacks 12"), "{told:?}");
    assert_eq!(told[1..], ["slow: providers were held back for it for 200 ms"]);
    // It follows the stream no more, or its link ends.
    hold(&mut bench, after_ms(300));
    bench.takes(OTHER, after_ms(310), bench.sent());
    assert!(!bench.is_held(after_ms(310)));
    hold(&mut bench, after_ms(400));
    bench.takes(OTHER, after_ms(450), LinkUp::NOT_FOLLOWED);
    assert!(!bench.is_held(after_ms(450)));
    let ends = bench.log.2.iter().filter(|line| line.contains("were held back")).count();
    assert_eq!((bench.log.2.len(), ends), (4, 2));
}

#[test]
fn of_many_holds_a_few_are_told_and_the_others_numbered() {
    let mut bench = Bench::flowing();
    for round in 0..25 {
        let at = after_ms(round * 10);
        bench.publishes(at, 2 * WINDOW);
        bench.takes(PEER, at, bench.sent());
        assert!(bench.is_held(at));
        bench.takes(OTHER, at, bench.sent());
        assert!(!bench.is_held(at));
    }
    assert_eq!(bench.log.2.len(), 2 * 10);
    bench.log.2.clear();
    bench.publishes(after_ms(20_000), 2 * WINDOW);
    bench.takes(PEER, after_ms(20_000), bench.sent());
    assert!(bench.is_held(after_ms(20_000)));
    assert!(bench.log.2[0].ends_with("; 15 more such holds since the last line"), "{:?}", bench.log.2);
    bench.core.on_peer_closed(after_ms(20_500), OTHER, &mut bench.log);
    assert_eq!(bench.log.2[1..], ["slow: providers were held back for it for 500 ms"]);
}

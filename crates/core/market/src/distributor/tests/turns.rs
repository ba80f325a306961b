//! Links get their images in turn, as there is room.

use super::*;

const OTHER: PeerId = PeerId(8);

/// Items A to E, with room for nothing.
fn full() -> Bench {
    let mut bench = Bench::running();
    for (number, name) in (1..).zip(["A", "B", "C", "D", "E"]) {
        bench.provider(T0, PROVIDER, &refresh(-number, name, &[(22, 1)]));
    }
    bench.core.on_peer_connected(OTHER);
    bench.from(OTHER, &LinkUp::Hello { peer: 2, name: b"other" });
    bench.log = Log(Vec::new(), Some(0), Vec::new());
    bench
}

impl Bench {
    fn from(&mut self, peer: PeerId, msg: &LinkUp<'_>) {
        let mut bytes = Vec::new();
        msg.encode(&mut bytes);
        self.core.on_peer_message(T0, peer, &bytes, &mut self.log).expect("accepted");
    }

    /// Serves links while there is room for so many images; which were sent, to whom.
    fn serve(&mut self, room: usize) -> Vec<String> {
        self.log.1 = Some(room);
        self.core.serve_peers(T0, &mut self.log);
        self.log.1 = Some(0);
        let images = self.log.take().into_iter().filter(|line| line.contains("image of"));
        images.map(|line| line.split(" as item").next().unwrap_or_default().to_owned()).collect()
    }

    fn waiting(&self) -> (Vec<PeerId>, u64) {
        (self.core.waiting_peers().collect(), self.counters.peers_waiting.get())
    }
}

#[test]
fn what_finds_no_room_is_served_in_order_and_links_take_turns() {
    let mut bench = full();
    for name in ["A", "B", "C"] {
        bench.from(PEER, &LinkUp::Interest { key: item(name) });
    }
    bench.from(OTHER, &LinkUp::Interest { key: item("D") });
    bench.from(OTHER, &LinkUp::Resume { key: item("E") });
    assert_eq!(bench.log.take(), [""; 0], "nothing is sent");
    assert_eq!(bench.waiting(), (vec![PEER, OTHER], 2));
    assert_eq!(bench.serve(1), ["peer 7: image of A"]);
    assert_eq!(bench.serve(1), ["peer 8: image of D"], "the other one is next");
    assert_eq!(bench.serve(2), ["peer 7: image of B", "peer 7: image of C"]);
    assert_eq!(bench.waiting(), (vec![OTHER], 1));
    assert_eq!(bench.serve(9), ["peer 8: image of E"]);
    assert_eq!(bench.waiting(), (vec![], 0));
    bench.provider(T0, PROVIDER, &update(-2, None, &[(22, 2)]));
    assert!(bench.log.take()[0].ends_with("22=2"), "who has the image gets updates");
    assert_eq!(bench.counters.image_requests_deferred.get(), 5);
}

#[test]
fn an_item_is_asked_for_once_and_not_sent_to_who_does_not_want_it_any_more() {
    let mut bench = full();
    for _ in 0..3 {
        bench.from(PEER, &LinkUp::Interest { key: item("A") });
        bench.from(PEER, &LinkUp::ImageRequest { key: item("A") });
        bench.from(PEER, &LinkUp::Interest { key: item("B") });
    }
    bench.from(PEER, &LinkUp::NoInterest { key: item("B") });
    assert_eq!(bench.serve(9), ["peer 7: image of A"]);
    bench.from(PEER, &LinkUp::Interest { key: item("C") });
    bench.from(PEER, &LinkUp::NoInterest { key: item("C") });
    bench.from(PEER, &LinkUp::Interest { key: item("C") });
    assert_eq!(bench.serve(9), ["peer 7: image of C"]);
    // Questions about lost ranges go before images.
    bench.from(PEER, &LinkUp::Interest { key: item("D") });
    for last in [1, 2] {
        bench.from(PEER, &LinkUp::GapQuery { service: 1, first: 1, last });
    }
    bench.log.1 = Some(2);
    bench.core.serve_peers(T0, &mut bench.log);
    let log = bench.log.take();
    assert!(
        log.len() == 2 && log[0].starts_with("peer 7: gap 1-1") && log[1].starts_with("peer 7: gap 1-2"),
        "{log:?}"
    );
    assert_eq!(bench.serve(9), ["peer 7: image of D"]);
}

#[test]
fn the_image_of_an_item_that_is_waited_for_comes_in_turn_too() {
    let mut bench = full();
    bench.log.1 = None;
    for name in ["X", "Y", "Z"] {
        bench.from(PEER, &LinkUp::Interest { key: item(name) });
    }
    bench.log.1 = Some(0);
    bench.log.take();
    for _ in 0..3 {
        for (stream_id, name) in [(-11, "X"), (-12, "Y"), (-13, "Z")] {
            bench.provider(T0, PROVIDER, &refresh(stream_id, name, &[(22, 5)]));
        }
    }
    assert!(bench.log.take().iter().all(|line| !line.contains("image of")), "none has room");
    bench.from(PEER, &LinkUp::Interest { key: item("A") });
    bench.from(PEER, &LinkUp::NoInterest { key: item("Y") });
    let close = rwf::StatusMsg {
        state: Some(State::new(StreamState::Closed, DataState::Suspect)),
        ..rwf::StatusMsg::new(Domain::MARKET_PRICE, -13, DataType::NO_DATA)
    };
    bench.provider(T0, PROVIDER, &rwf::encode_to_vec(|w| close.encode(w)).expect("legal"));
    assert!(bench.log.take().iter().any(|line| line.starts_with("peer 7: Z closed")), "who waits is told");
    let mut served = bench.serve(9);
    served.sort_unstable();
    assert_eq!(served, ["peer 7: image of A", "peer 7: image of X"]);
    assert_eq!(bench.waiting(), (vec![], 0));
}

#[test]
fn a_link_that_asks_for_more_than_is_remembered_is_cut_and_one_that_is_gone_waits_no_more() {
    let mut bench = full();
    bench.core.reconfigure(|config| config.link_requests_bytes_max = 10_000);
    bench.from(OTHER, &LinkUp::Interest { key: item("A") });
    let ask = |bench: &mut Bench, number: u32| {
        let name = format!("{number:0200}");
        let mut bytes = Vec::new();
        LinkUp::Interest { key: item(&name) }.encode(&mut bytes);
        bench.core.on_peer_message(T0, PEER, &bytes, &mut bench.log)
    };
    let refused = (0..100).find_map(|number| ask(&mut bench, number).err()).expect("there is a bound");
    assert_eq!((refused, refused.cuts_link()), (LinkError::TooMuch, true));
    bench.core.on_peer_closed(T0, PEER, &mut bench.log);
    assert_eq!(bench.serve(9), ["peer 8: image of A"]);
    assert_eq!(bench.waiting(), (vec![], 0));
}

#[test]
fn questions_about_long_ranges_are_answered_in_portions() {
    let service_ids = BTreeMap::from([("BINANCE".to_owned(), 1)]);
    let config =
        DistributorConfig { service_ids, gap_numbers_per_turn: 10_000, ..DistributorConfig::default() };
    let mut bench = Bench::new(config);
    bench.provider_logs_in(PROVIDER);
    bench.announce(PROVIDER, &[service(3, true)]);
    for peer in [PEER, OTHER] {
        bench.core.on_peer_connected(peer);
        bench.from(peer, &LinkUp::Hello { peer: 1, name: b"test" });
    }
    bench.provider(T0, PROVIDER, &refresh(-1, "A", &[(22, 1)]));
    bench.from(PEER, &LinkUp::Interest { key: item("A") });
    let update = update(-1, None, &[(22, 2)]);
    for _ in 0..6_000 {
        bench.provider(T0, PROVIDER, &update);
        bench.log.0.clear();
    }
    for peer in [PEER, OTHER, PEER, PEER] {
        bench.from(peer, &LinkUp::GapQuery { service: 1, first: 1, last: u64::MAX });
    }
    assert_eq!(bench.log.take(), [""; 0], "none at once");
    let asked = |bench: &mut Bench| {
        bench.core.serve_peers(T0, &mut bench.log);
        bench.log.take()
    };
    let range = format!("gap 1-{} [1]", u64::MAX);
    assert_eq!(asked(&mut bench), [format!("peer 7: {range}"), format!("peer 7: {range}")]);
    assert_eq!(asked(&mut bench), [format!("peer 8: {range}"), format!("peer 7: {range}")]);
    assert_eq!((bench.waiting(), bench.counters.gap_queries_deferred.get()), ((vec![], 0), 4));
    bench.from(PEER, &LinkUp::GapQuery { service: 1, first: 1, last: 4_096 });
    assert_eq!(bench.log.take(), ["peer 7: gap 1-4096 [1]"], "a short one at once");
}

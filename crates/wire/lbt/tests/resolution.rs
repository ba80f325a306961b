//! Topic resolution: who finds whom, when, at what cost.

#[path = "support/pcap.rs"]
mod pcap;

use counters::table::LbmrResolver;
use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::sync::Arc;
use tickcast_lbt::config::ResolverConfig;
use tickcast_lbt::resolution::{
    Origin, QueryId, ResolveError, Resolver, ResolverSink, SourceRecord, TransportSession,
};
use tickcast_lbt::rm::SessionKey;
use tickcast_lbt::wire::lbmr::{Kind, Packet, Queries, Query, ResolutionRequest, Transport};
use tickcast_lbt::wire::lbtrm::SessionHeader;
use units::Nanos;

const SOURCE: Ipv4Addr = Ipv4Addr::new(10, 29, 3, 1);

fn record(topic_index: u32) -> SourceRecord {
    let session = SessionHeader { ucast_port: 14391, session_id: 0x5eed_1234 };
    SourceRecord {
        topic_index,
        session: TransportSession::LbtRm {
            key: SessionKey { source: SOURCE, session },
            group: SocketAddrV4::new(Ipv4Addr::new(224, 10, 10, 10), 14400),
        },
        request: Some(SocketAddrV4::new(SOURCE, 14391)),
        late_join: None,
        origin: None,
    }
}

#[derive(Default)]
struct Found(Vec<(QueryId, String, SourceRecord)>);

impl ResolverSink for Found {
    fn source_found(&mut self, query: QueryId, topic: &str, source: &SourceRecord) {
        self.0.push((query, topic.to_owned(), *source));
    }
}

impl Found {
    fn topics(&mut self) -> Vec<String> {
        std::mem::take(&mut self.0).into_iter().map(|f| f.1).collect()
    }
}

struct Context {
    resolver: Resolver,
    counters: Arc<LbmrResolver>,
    found: Found,
    now: Nanos,
}

impl Context {
    fn new(change: impl FnOnce(&mut ResolverConfig)) -> Context {
        let mut config = ResolverConfig::default();
        change(&mut config);
        let counters = Arc::new(LbmrResolver::default());
        let resolver = Resolver::new(&config, Nanos::ZERO, counters.clone()).expect("allowed");
        Context { resolver, counters, found: Found::default(), now: Nanos::ZERO }
    }

    fn advertise(&mut self, topic: &str, index: u32) -> tickcast_lbt::resolution::AdvertisementId {
        self.resolver.advertise(self.now, topic, record(index)).expect("a good name")
    }

    fn query(&mut self, topic: &str) -> QueryId {
        self.resolver.query(self.now, topic, &mut self.found).expect("a good name")
    }

    fn query_prefix(&mut self, prefix: &str) -> QueryId {
        self.resolver.query_prefix(self.now, prefix, &mut self.found).expect("a good name")
    }

    fn query_pattern(&mut self, pattern: &str) -> Result<QueryId, ResolveError> {
        self.resolver.query_pattern(self.now, pattern, &mut self.found)
    }

    /// Somebody asks this context to repeat.
    fn repeat(&mut self, mask: u16) {
        let mut out = Vec::new();
        Packet::of(Kind::ResolutionRequest(mask)).emit(&mut out);
        self.hear(&out);
    }

    fn hear(&mut self, datagram: &[u8]) {
        self.resolver.on_datagram(self.now, datagram, &mut self.found).expect("well-formed");
    }

    fn drain(&mut self) -> Vec<Vec<u8>> {
        let mut out = Vec::new();
        while let Some(datagram) = self.resolver.poll_transmit(self.now) {
            out.push(datagram.to_vec());
        }
        assert!(self.resolver.next_wakeup() > self.now, "whoever was served has time");
        out
    }

    /// What is sent until then, with the moment in milliseconds.
    fn run(&mut self, until: Nanos) -> Vec<(u64, Vec<u8>)> {
        let mut out = Vec::new();
        loop {
            out.extend(self.drain().into_iter().map(|d| (self.now.0 / 1_000_000, d)));
            if self.resolver.next_wakeup() > until {
                self.now = until;
                return out;
            }
            self.now = self.resolver.next_wakeup();
        }
    }
}

fn at(ms: u64) -> Nanos {
    Nanos(ms * 1_000_000)
}

/// The names in a datagram: queries with a question mark, records as they are.
fn names(datagram: &[u8]) -> Vec<String> {
    let packet = Packet::parse(datagram).expect("well-formed");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let queries = packet.queries.iter().map(|q| match q {
        Query::Topic(name) => text(name) + "?",
        Query::Pattern { pattern, .. } => text(pattern) + "?",
    });
    queries.chain(packet.records.iter().map(|r| text(r.name))).collect()
}

#[test]
fn a_source_is_advertised_often_then_now_and_then_then_not_at_all() {
    let mut c = Context::new(|_| {});
    c.advertise("px.eq.ACME", 7);
    let sent = c.run(at(200_000));
    let times: Vec<_> = sent.iter().map(|s| s.0).collect();
    assert_eq!(times[..8], [0, 10, 30, 70, 150, 310, 630, 1_130]);
    assert_eq!(times.iter().filter(|&&ms| ms > 5_000).count(), 60);
    assert!(*times.last().expect("some") < 66_000);
    let ttl = |d: &[u8]| Packet::parse(d).expect("well-formed").records.iter().next().map(|r| r.ttl);
    assert_eq!((ttl(&sent[0].1), ttl(&sent[1].1)), (Some(16), Some(60)));
    assert_eq!(c.counters.advertisements_sent.get(), times.len() as u64);
    let bytes: usize = sent.iter().map(|s| s.1.len()).sum();
    assert_eq!(
        (c.counters.tr_dgrams_sent.get(), c.counters.tr_bytes_sent.get()),
        (times.len() as u64, bytes as u64)
    );
    assert_eq!(c.resolver.next_wakeup(), Nanos::NEVER);
}

#[test]
fn a_query_is_asked_in_its_phases_and_ends_when_enough_sources_are_known() {
    let mut c = Context::new(|c| c.resolution_number_of_sources_query_threshold = 1);
    c.query("px.eq.ACME");
    let times: Vec<_> = c.run(at(1_000)).iter().map(|s| s.0).collect();
    assert_eq!(times, [0, 20, 60, 140, 300, 500, 700, 900]);
    assert_eq!(c.counters.tr_rcv_unresolved_topics.get(), 1);
    let mut source = Context::new(|_| {});
    source.advertise("px.eq.ACME", 7);
    c.hear(&source.drain()[0]);
    assert!(c.run(at(100_000)).is_empty());
    assert_eq!((c.counters.tr_rcv_unresolved_topics.get(), c.counters.tr_rcv_topics.get()), (0, 1));
}

#[test]
fn a_receiver_finds_a_source_with_its_session_and_its_request_address() {
    let (mut source, mut receiver) = (Context::new(|_| {}), Context::new(|_| {}));
    source.advertise("px.eq.ACME", 7);
    source.advertise("px.eq.ZETA", 8);
    let query = receiver.query("px.eq.ACME");
    source.drain().iter().for_each(|d| receiver.hear(d));
    assert_eq!(receiver.found.0, [(query, "px.eq.ACME".to_owned(), record(7))]);
    assert_eq!(receiver.counters.sources_known.get(), 2, "what nobody asks for yet is remembered");
    receiver.found.0.clear();
    let query = receiver.query("px.eq.ZETA");
    assert_eq!(receiver.found.0, [(query, "px.eq.ZETA".to_owned(), record(8))], "at once, from the cache");
    assert_eq!(receiver.resolver.known("px.eq.ZETA"), [record(8)]);
}

#[test]
fn a_quiescent_source_answers_a_query_at_once_and_sustains_again() {
    let (mut source, mut receiver) = (Context::new(|_| {}), Context::new(|_| {}));
    source.advertise("px.eq.ACME", 7);
    source.advertise("px.eq.ZETA", 8);
    source.run(at(100_000));
    assert_eq!(source.resolver.next_wakeup(), Nanos::NEVER);
    receiver.query("px.eq.ACME");
    let query = receiver.drain();
    source.hear(&query[0]);
    source.hear(&query[0]);
    let answers = source.drain();
    assert_eq!(answers.iter().map(|d| names(d)).collect::<Vec<_>>(), [["px.eq.ACME"]], "one answer to both");
    let later = source.run(at(300_000));
    assert_eq!(later.len(), 60);
    assert!(later.iter().all(|s| names(&s.1) == ["px.eq.ACME"]));
    assert_eq!((source.counters.queries_rcved.get(), source.counters.queries_answered.get()), (2, 2));
}

#[test]
fn without_immediate_response_a_query_only_begins_the_sustaining_phase() {
    let mut source = Context::new(|c| c.resolver_advertisement_send_immediate_response = false);
    source.advertise("px.eq.ACME", 7);
    source.run(at(100_000));
    let mut receiver = Context::new(|_| {});
    receiver.query("px.eq.ACME");
    source.hear(&receiver.drain()[0]);
    assert!(source.drain().is_empty());
    assert_eq!(source.resolver.next_wakeup(), at(101_000));
}

#[test]
fn a_prefix_finds_what_begins_so_and_nothing_else() {
    let (mut source, mut receiver) = (Context::new(|_| {}), Context::new(|_| {}));
    for (i, topic) in ["px.eq.ACME", "px.eq.ZETA", "px.fx", "pxXeqX", "a"].into_iter().enumerate() {
        source.advertise(topic, i as u32);
    }
    source.run(at(100_000));
    receiver.query_prefix("px.eq.");
    let asked = receiver.drain();
    assert_eq!(names(&asked[0]), [r"^px\.eq\..*?"]);
    assert_eq!(Packet::parse(&asked[0]).map(|p| p.kind), Ok(Kind::Wildcard));
    source.hear(&asked[0]);
    let answers = source.drain();
    assert_eq!(names(&answers[0]), ["px.eq.ACME", "px.eq.ZETA"]);
    receiver.hear(&answers[0]);
    assert_eq!(receiver.found.topics(), ["px.eq.ACME", "px.eq.ZETA"]);
    receiver.query_prefix("px.eq.A");
    assert_eq!(receiver.found.topics(), ["px.eq.ACME"], "from the cache");
    let times: Vec<_> = receiver.run(at(3_000)).iter().map(|s| s.0).collect();
    assert_eq!(times[..5], [0, 50, 150, 350, 750], "the first is the second prefix's, then both");
}

fn wildcard_packet(patterns: &[(u8, &[u8])]) -> Vec<u8> {
    let (mut bytes, mut out) = (Vec::new(), Vec::new());
    patterns.iter().for_each(|&(syntax, pattern)| Query::Pattern { syntax, pattern }.emit(&mut bytes));
    let queries = Queries::written(patterns.len() as u8, true, &bytes);
    Packet { queries, ..Packet::of(Kind::Wildcard) }.emit(&mut out);
    out
}

#[test]
fn a_pattern_is_answered_by_the_topics_it_is_found_in_and_heard_by_who_asked() {
    let (mut source, mut receiver) = (Context::new(|_| {}), Context::new(|_| {}));
    for (index, topic) in ["px.eq.ACME", "px.eq.ZETA", "px.fx.EUR"].into_iter().enumerate() {
        source.advertise(topic, index as u32);
    }
    source.run(at(100_000));
    receiver.query_pattern(r"^px\.(eq\.[A-M]|fx)").expect("understood");
    let asked = receiver.drain();
    assert_eq!(names(&asked[0]), [r"^px\.(eq\.[A-M]|fx)?"]);
    source.hear(&asked[0]);
    let answers = source.drain();
    assert_eq!(names(&answers[0]), ["px.eq.ACME", "px.fx.EUR"]);
    // what others answer to others is not what was asked for
    source.repeat(ResolutionRequest::ADVERTISEMENTS);
    source.drain().iter().for_each(|answer| receiver.hear(answer));
    assert_eq!(receiver.found.topics(), ["px.eq.ACME", "px.fx.EUR"]);
    receiver.query_pattern("ZETA$").expect("understood");
    assert_eq!(receiver.found.topics(), ["px.eq.ZETA"], "from the cache");
    let refused = receiver.query_pattern(r"(px)\1").expect_err("a reference back").to_string();
    assert!(refused.contains(r"(px)\\1") && refused.contains("backreferences"), "{refused}");
}

#[test]
fn patterns_that_are_not_understood_are_counted_and_left_alone() {
    let mut source = Context::new(|_| {});
    source.advertise("px.eq.ACME", 7);
    source.run(at(100_000));
    source.hear(&wildcard_packet(&[(1, br"^px(?=\.eq)"), (2, b"^px"), (1, b"\xff")]));
    assert!(source.drain().is_empty());
    assert_eq!((source.counters.patterns_ignored.get(), source.counters.queries_answered.get()), (3, 0));
}

#[test]
fn a_flood_of_patterns_is_shed_and_honest_ones_are_answered_again_after_it() {
    let mut source = Context::new(|_| {});
    source.advertise("px.eq.ACME", 7);
    source.run(at(100_000));
    for i in 0..1_000 {
        source.hear(&wildcard_packet(&[(1, format!(r"\w{{9}}{i}").as_bytes())]));
    }
    assert_eq!(source.counters.patterns_shed.get(), 1_000 - 64, "{:?}", source.counters);
    source.run(at(101_000));
    source.hear(&wildcard_packet(&[(1, br"ACME")]));
    assert_eq!(names(&source.drain()[0]), ["px.eq.ACME"]);
}

#[test]
fn a_receiver_whose_query_was_lost_at_a_quiescent_source_hears_it_by_a_later_one() {
    let (mut source, mut receiver) = (Context::new(|_| {}), Context::new(|_| {}));
    source.advertise("px.eq.ACME", 7);
    source.run(at(100_000));
    assert_eq!(source.resolver.next_wakeup(), Nanos::NEVER, "it is quiescent");
    receiver.now = at(100_000);
    receiver.query("px.eq.ACME");
    // all queries of the initial phase are lost, and most of the others
    let asked = receiver.run(at(160_000));
    let last = &asked.last().expect("queries go on for a minute").1;
    source.now = at(160_000);
    source.hear(last);
    source.drain().iter().for_each(|answer| receiver.hear(answer));
    assert_eq!(receiver.found.topics(), ["px.eq.ACME"]);
}

#[test]
fn two_that_fell_silent_deaf_to_each_other_are_woken_by_a_resolution_request() {
    let (mut source, mut receiver) = (Context::new(|_| {}), Context::new(|_| {}));
    source.advertise("px.eq.ACME", 7);
    receiver.query("px.eq.ACME");
    // the network is cut as long as both speak
    source.run(at(200_000));
    receiver.run(at(200_000));
    assert_eq!(
        (source.resolver.next_wakeup(), receiver.resolver.next_wakeup()),
        (Nanos::NEVER, Nanos::NEVER)
    );
    let mut operator = Context::new(|_| {});
    operator.resolver.request_resolution(ResolutionRequest::ADVERTISEMENTS);
    let request = operator.drain();
    source.hear(&request[0]);
    source.drain().iter().for_each(|answer| receiver.hear(answer));
    assert_eq!(receiver.found.topics(), ["px.eq.ACME"]);
    assert_eq!(source.run(at(261_000)).len(), 60, "and it is said for a minute again");
}

#[test]
fn records_are_packed_and_the_initial_rate_is_kept() {
    let mut c = Context::new(|_| {});
    for i in 0..5_000 {
        c.advertise(&format!("px.eq.instrument.{i:04}"), i);
    }
    let (mut first_seen, mut bytes) = (BTreeMap::new(), 0u64);
    for (ms, datagram) in c.run(at(4_000)) {
        assert!(datagram.len() <= 1_472);
        bytes += datagram.len() as u64;
        assert!(
            bytes * 8 <= 100_000 + 100_000 + (ms + 1) * 1_000 * 11 / 10,
            "a megabit a second: {bytes} at {ms}"
        );
        for name in names(&datagram) {
            first_seen.entry(name).or_insert(ms);
        }
    }
    assert!(c.counters.advertisements_sent.get() <= 100 + 4_000);
    assert!(first_seen.len() > 1_000, "{}", first_seen.len());
    assert!(c.counters.tr_dgrams_sent.get() < c.counters.advertisements_sent.get());
}

#[test]
fn many_queries_share_datagrams_and_all_are_asked() {
    let mut c = Context::new(|c| {
        c.resolver_initial_queries_per_second = 0;
        c.resolver_initial_query_bps = 0;
    });
    (0..500).for_each(|i| {
        c.query(&format!("t{i}"));
    });
    let sent = c.drain();
    let all: Vec<_> = sent.iter().flat_map(|d| names(d)).collect();
    assert_eq!(all.len(), 500);
    assert!(sent.len() <= 4, "255 at most in one: {}", sent.len());
    assert_eq!(c.counters.queries_sent.get(), 500);
}

#[test]
fn what_is_withdrawn_or_stopped_is_sent_no_more() {
    let mut c = Context::new(|_| {});
    let ad = c.advertise("px.eq.ACME", 7);
    let query = c.query("px.eq.ZETA");
    let prefix = c.query_prefix("px.");
    assert_eq!(c.drain().len(), 2);
    c.resolver.withdraw(ad);
    c.resolver.stop_query(query);
    c.resolver.stop_query(prefix);
    assert!(c.run(at(100_000)).is_empty());
    let mut source = Context::new(|_| {});
    source.advertise("px.eq.ZETA", 8);
    c.hear(&source.drain()[0]);
    assert!(c.found.0.is_empty());
    assert_eq!((c.counters.tr_src_topics.get(), c.counters.tr_rcv_topics.get()), (0, 0));
    c.resolver.withdraw(ad);
    c.resolver.stop_query(query);
}

#[test]
fn a_source_is_reported_once_and_again_when_it_changes_or_was_forgotten() {
    let mut c = Context::new(|_| {});
    c.query("t");
    let mut source = Context::new(|_| {});
    source.advertise("t", 7);
    let first = source.drain();
    c.hear(&first[0]);
    c.hear(&first[0]);
    assert_eq!(c.found.topics().len(), 1);
    let mut moved = Context::new(|_| {});
    let request = Some(SocketAddrV4::new(SOURCE, 14_395));
    moved.resolver.advertise(at(0), "t", SourceRecord { request, ..record(7) }).expect("a good name");
    c.hear(&moved.drain()[0]);
    assert_eq!(c.found.0[0].2.request, request);
    assert_eq!(c.counters.sources_known.get(), 1, "the same source");
    c.found.0.clear();
    c.resolver.forget_session(c.now, &record(7).session);
    assert_eq!((c.counters.sources_known.get(), c.counters.tr_rcv_unresolved_topics.get()), (0, 1));
    c.hear(&first[0]);
    assert_eq!(c.found.topics().len(), 1);
}

#[test]
fn what_was_under_way_when_a_session_ended_does_not_have_it_found_again() {
    let second = Ipv4Addr::new(10, 30, 3, 1);
    let advertised = |source: SourceRecord, network: Option<Ipv4Addr>| {
        let mut other = Context::new(|_| {});
        network.into_iter().for_each(|address| other.resolver.add_network(address));
        other.resolver.advertise(at(0), "t", source).expect("a good name");
        let on_first = other.resolver.poll_transmit(at(0)).expect("it is due").to_vec();
        network.map_or(on_first, |_| other.resolver.second().to_vec())
    };
    let origin = Some(Origin { source: SOURCE, context: [5; 8] });
    let of = SourceRecord { origin, ..record(7) };
    let mut c = Context::new(|_| {});
    c.query("t");
    c.hear(&advertised(of, None));
    c.resolver.end_session(c.now, &of.session);
    c.found.0.clear();
    c.now = at(9_999);
    c.hear(&advertised(of, None));
    c.hear(&advertised(of, Some(second)));
    assert_eq!((c.found.topics().len(), c.counters.records_of_ended.get()), (0, 2));
    assert_eq!((c.counters.sources_known.get(), c.counters.tr_rcv_unresolved_topics.get()), (0, 1));
    // One that was started again in its place is another one.
    let TransportSession::LbtRm { mut key, group } = of.session else { panic!("it is LBT-RM") };
    key.session.session_id += 1;
    c.hear(&advertised(SourceRecord { session: TransportSession::LbtRm { key, group }, ..of }, None));
    assert_eq!(c.found.topics().len(), 1);
    c.now = at(10_000);
    c.hear(&advertised(of, None));
    assert_eq!(c.found.topics().len(), 1, "somebody means it");
}

#[test]
fn ended_sessions_are_remembered_within_a_bound_and_not_without_an_id() {
    let session = |n: u16| TransportSession::Tcp {
        address: SocketAddrV4::new(SOURCE, 14_371),
        session_id: Some(n.into()),
    };
    let mut c = Context::new(|_| {});
    c.query("t");
    (0..1_025).for_each(|n| c.resolver.end_session(c.now, &session(n)));
    let nameless = TransportSession::Tcp { address: SocketAddrV4::new(SOURCE, 14_371), session_id: None };
    c.resolver.end_session(c.now, &nameless);
    for session in [session(0), session(1), session(1_024), nameless] {
        let mut other = Context::new(|_| {});
        let source = SourceRecord { session, ..record(7) };
        other.resolver.advertise(at(0), "t", source).expect("a good name");
        c.hear(&other.drain()[0]);
    }
    let found: Vec<TransportSession> = c.found.0.iter().map(|found| found.2.session).collect();
    assert_eq!((found, c.counters.records_of_ended.get()), (vec![session(0), nameless], 2));
}

#[test]
fn what_goes_out_on_a_second_network_names_the_source_there_and_both_are_forgotten_together() {
    let second = Ipv4Addr::new(10, 30, 3, 1);
    let mut source = Context::new(|_| {});
    source.resolver.add_network(second);
    let origin = Some(Origin { source: SOURCE, context: [5; 8] });
    let first = SourceRecord { origin, ..record(7) };
    source.resolver.advertise(at(0), "t", first).expect("a good name");
    source.query("wanted");
    let on_first = source.resolver.poll_transmit(at(0)).expect("it is due").to_vec();
    let on_second = source.resolver.second().to_vec();
    let mut c = Context::new(|_| {});
    c.query("t");
    c.hear(&on_first);
    c.hear(&on_second);
    let found: Vec<SourceRecord> = c.found.0.iter().map(|found| found.2).collect();
    assert_eq!(found, [first, first.on_network(second)]);
    c.found.0.clear();
    c.resolver.forget_session(c.now, &first.session);
    assert_eq!(c.counters.sources_known.get(), 0);
    // What names no source is the same on both, and so is the query that went with the advertisement.
    let asked = |datagram: &[u8]| Packet::parse(datagram).expect("well-formed").queries.iter().count();
    assert_eq!((asked(&on_first), asked(&on_second)), (1, 1));
    source.resolver.request_resolution(ResolutionRequest::QUERIES);
    let request = source.resolver.poll_transmit(at(0)).expect("it is due").to_vec();
    assert_eq!(source.resolver.second(), request);
}

#[test]
fn a_resolution_request_makes_everybody_repeat() {
    let (mut source, mut receiver) = (Context::new(|_| {}), Context::new(|_| {}));
    source.advertise("t", 7);
    receiver.query("u");
    receiver.query_prefix("p");
    source.run(at(100_000));
    receiver.run(at(100_000));
    let mut operator = Context::new(|_| {});
    operator.resolver.request_resolution(ResolutionRequest::ADVERTISEMENTS | ResolutionRequest::QUERIES);
    let request = operator.drain();
    assert_eq!(request, [[7, 4, 0, 6]]);
    source.hear(&request[0]);
    receiver.hear(&request[0]);
    assert_eq!(names(&source.drain()[0]), ["t"]);
    assert_eq!(receiver.drain().iter().map(|d| names(d)).collect::<Vec<_>>(), [["u?"]]);
    operator.resolver.request_resolution(ResolutionRequest::WILDCARD_QUERIES);
    receiver.hear(&operator.drain()[0]);
    assert_eq!(receiver.drain().iter().map(|d| names(d)).collect::<Vec<_>>(), [["^p.*?"]]);
}

#[test]
fn a_flood_of_queries_costs_bounded_memory_and_bounded_answers() {
    let mut c = Context::new(|_| {});
    c.advertise("t", 7);
    c.run(at(100_000));
    let mut asker = Context::new(|_| {});
    asker.query("t");
    let query = asker.drain();
    c.hear(&query[0]);
    let memory = c.resolver.memory_bytes();
    (0..100_000).for_each(|_| c.hear(&query[0]));
    assert!(c.resolver.memory_bytes() <= memory + 1_000);
    assert_eq!(c.drain().len(), 1);
}

#[test]
fn what_is_malformed_or_of_another_transport_is_counted() {
    let mut c = Context::new(|_| {});
    assert!(c.resolver.on_datagram(c.now, b"\0\x01\0\0unterminated", &mut c.found).is_err());
    c.hear(&[4, 0, 0, 0, 1, 2, 3]);
    let ip = SOURCE;
    let transport = Transport::Shared { smx: true, host_id: 1, session_id: 2, transport_id: 3 };
    let mut bytes = Vec::new();
    let tir = |name, transport| tickcast_lbt::wire::lbmr::TopicInformation {
        name,
        ttl: 60,
        index: 1,
        options: None,
        transport,
    };
    tir(b"t", transport).emit(&mut bytes);
    let rm = Transport::LbtRm { source: ip, group: ip, session_id: 1, dest_port: 1, ucast_port: 1 };
    tir(&[0xff, 0xfe], rm).emit(&mut bytes);
    let records = tickcast_lbt::wire::lbmr::TopicRecords::written(2, &bytes);
    let mut out = Vec::new();
    Packet { records, ..Packet::of(Kind::Normal) }.emit(&mut out);
    c.hear(&out);
    let n = &c.counters;
    assert_eq!((n.tr_dgrams_dropped_malformed.get(), n.tr_dgrams_dropped_type.get()), (1, 1));
    assert_eq!((n.tr_dgrams_rcved.get(), n.tr_bytes_rcved.get()), (3, 16 + 7 + out.len() as u64));
    assert_eq!((n.records_rcved.get(), n.records_ignored.get(), n.sources_known.get()), (2, 2, 0));
}

#[test]
fn names_that_cannot_be_sent_are_refused() {
    let mut c = Context::new(|_| {});
    let long = "x".repeat(256);
    for name in ["", "a\0b", &long] {
        let bad = ResolveError::BadName { bytes: name.len(), max: 255 };
        assert_eq!(c.resolver.advertise(c.now, name, record(1)), Err(bad.clone()));
        assert_eq!(c.resolver.query(c.now, name, &mut c.found), Err(bad.clone()));
    }
    // as a pattern each point takes two bytes
    let points = ".".repeat(130);
    let bad = ResolveError::BadPrefix { bytes: 260, max: 252 };
    assert_eq!(c.resolver.query_prefix(c.now, &points, &mut c.found), Err(bad));
    for longest in [".".repeat(126), "x".repeat(252)] {
        assert!(c.resolver.query_prefix(c.now, &longest, &mut c.found).is_ok());
        let longer = c.resolver.query_prefix(c.now, &(longest + "x"), &mut c.found);
        assert_eq!(longer, Err(ResolveError::BadPrefix { bytes: 253, max: 252 }));
    }
    c.query("t");
    assert_eq!(c.resolver.query(c.now, "t", &mut c.found), Err(ResolveError::AlreadyQueried));
}

/// The payloads of a golden file.
fn golden(name: &str) -> Vec<Vec<u8>> {
    let path = format!("{}/tests/vectors/{name}.json", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(path).expect("part of the repository");
    let rows: Vec<serde_json::Value> = serde_json::from_str(&text).expect("JSON");
    let digit = |c: char| c.to_digit(16).expect("hexadecimal") as u8;
    rows.iter()
        .map(|row| {
            let hex: Vec<u8> = row["payload_hex"].as_str().expect("text").chars().map(digit).collect();
            hex.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect()
        })
        .collect()
}

#[test]
fn with_packet_options_the_datagrams_are_those_of_um_6_byte_for_byte() {
    let golden = golden("15-lbmr-as-um6");
    let context = |bytes: [u8; 8]| Context::new(move |c| c.packet_options = Some(bytes));
    let mut receiver = context([0xd1, 0xd2, 0xd3, 0xd4, 0xd5, 0xd6, 0xd7, 0xd8]);
    receiver.query("px.eq.ACME");
    assert_eq!(receiver.drain(), [golden[0].clone()]);
    let mut source = context([0xc1, 0xc2, 0xc3, 0xc4, 0xc5, 0xc6, 0xc7, 0xc8]);
    source.advertise("px.eq.ACME", 0x0a11_ce01);
    assert_eq!(source.drain(), [golden[2].clone()], "the first advertisement");
    source.advertise("px.eq.ZETA", 0x0a11_ce02);
    source.run(at(9));
    source.now = at(10);
    let both: Vec<_> = source.drain().iter().flat_map(|d| names(d)).collect();
    assert_eq!(both, ["px.eq.ACME", "px.eq.ZETA"]);
    source.now = at(30);
    assert_eq!(source.drain(), [golden[3].clone()], "both, later");
    receiver.hear(&golden[3]);
    let origin = Some(Origin { source: SOURCE, context: [0xc1, 0xc2, 0xc3, 0xc4, 0xc5, 0xc6, 0xc7, 0xc8] });
    assert_eq!(receiver.found.0[0].2, SourceRecord { origin, ..record(0x0a11_ce01) });
}

#[test]
fn what_two_contexts_say_to_each_other_is_what_the_dissectors_expect() {
    let group = SocketAddrV4::new(Ipv4Addr::new(224, 9, 10, 11), 12_965);
    let mut capture = pcap::Capture::new();
    for options in [None, Some(*b"context!")] {
        let mut contexts = [0, 1].map(|_| Context::new(|c| c.packet_options = options));
        (0..40).for_each(|i| {
            contexts[0].advertise(&format!("px.eq.instrument.{i}"), i);
        });
        contexts[1].query("px.eq.instrument.7");
        contexts[1].query_prefix("px.eq.");
        contexts[1].resolver.request_resolution(ResolutionRequest::ADVERTISEMENTS);
        for ms in 0..1_000 {
            for speaker in 0..2 {
                let from = SocketAddrV4::new(Ipv4Addr::new(10, 29, 3, 1 + speaker as u8), 35_101);
                contexts[speaker].now = at(ms);
                for datagram in contexts[speaker].drain() {
                    capture.udp(at(ms), from, group, &datagram);
                    contexts.iter_mut().for_each(|c| c.hear(&datagram));
                }
            }
        }
        assert_eq!(contexts[1].found.0.len(), 41, "40 by prefix, one by name");
    }
    let path = capture.write("resolution.pcap");
    let require =
        ["--require", "lbmr.TIR=80", "--require", "lbmr.TQR=10", "--require", "lbmr.wildcard-query=4"];
    pcap::judge(&path, &[&require[..], &["--require", "lbmr.extended=2"]].concat());
}

#[test]
fn a_configured_source_is_reported_without_any_traffic_and_never_forgotten() {
    let mut c = Context::new(|_| {});
    let fixed: SourceRecord = "TCP:10.29.3.1:14371[7]".parse().expect("a source string");
    c.resolver.add_static(c.now, "px.eq.ACME", fixed, &mut c.found).expect("a good name");
    assert!(c.found.topics().is_empty(), "nobody has asked");
    let exact = c.query("px.eq.ACME");
    let pattern = c.query_prefix("px.");
    let found: Vec<_> = std::mem::take(&mut c.found.0).into_iter().map(|f| (f.0, f.2)).collect();
    assert_eq!(found, [(exact, fixed), (pattern, fixed)]);
    c.resolver.forget_session(c.now, &fixed.session);
    assert_eq!(c.resolver.known("px.eq.ACME"), [fixed]);
    c.resolver.report_static(&mut c.found);
    assert_eq!(c.found.topics(), ["px.eq.ACME", "px.eq.ACME"], "to both, for the next attempt");
    let late: SourceRecord = "TCP:10.29.3.2:14371[9]".parse().expect("a source string");
    c.resolver.add_static(c.now, "px.eq.ZETA", late, &mut c.found).expect("a good name");
    assert_eq!(c.found.topics(), ["px.eq.ZETA"], "those who ask already hear of it");
}

#[test]
fn a_configured_topic_is_not_asked_for_and_others_are() {
    let mut c = Context::new(|_| {});
    let fixed: SourceRecord = "TCP:10.29.3.1:14371[7]".parse().expect("a source string");
    c.resolver.add_static(c.now, "px.eq.ACME", fixed, &mut c.found).expect("a good name");
    c.query("px.eq.ACME");
    assert_eq!(c.run(Nanos(2_000_000_000)).len(), 0);
    c.query("px.eq.ZETA");
    assert!(!c.run(Nanos(4_000_000_000)).is_empty());
}

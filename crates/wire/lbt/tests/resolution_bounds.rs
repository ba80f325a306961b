//! Topic resolution within bounds: what is remembered of others, and what others can have a context do.

use std::net::{Ipv4Addr, SocketAddrV4};
use std::sync::Arc;
use std::time::Duration;

use counters::table::LbmrResolver;
use tickcast_lbt::config::ResolverConfig;
use tickcast_lbt::resolution::{QueryId, Resolver, ResolverSink, SourceRecord, TransportSession};
use tickcast_lbt::wire::lbmr::{Kind, Packet, Queries, Query, ResolutionRequest};
use units::Nanos;

#[derive(Default)]
struct Found(Vec<(String, SourceRecord)>);

impl ResolverSink for Found {
    fn source_found(&mut self, _: QueryId, topic: &str, source: &SourceRecord) {
        self.0.push((topic.to_owned(), *source));
    }
}

struct Context {
    resolver: Resolver,
    counters: Arc<LbmrResolver>,
    found: Found,
    now: Nanos,
}

/// Limits out of the way.
fn unlimited() -> ResolverConfig {
    ResolverConfig {
        resolver_initial_advertisements_per_second: 0,
        resolver_initial_advertisement_bps: 0,
        resolver_sustain_advertisement_bps: 0,
        resolver_initial_queries_per_second: 0,
        resolver_initial_query_bps: 0,
        ..ResolverConfig::default()
    }
}

impl Context {
    fn new(change: impl FnOnce(&mut ResolverConfig)) -> Context {
        let mut config = unlimited();
        change(&mut config);
        let counters = Arc::new(LbmrResolver::default());
        let resolver = Resolver::new(&config, Nanos::ZERO, counters.clone()).expect("allowed");
        Context { resolver, counters, found: Found::default(), now: Nanos::ZERO }
    }

    fn query(&mut self, topic: &str) -> QueryId {
        self.resolver.query(self.now, topic, &mut self.found).expect("a good name")
    }

    fn hear(&mut self, datagram: &[u8]) {
        self.resolver.on_datagram(self.now, datagram, &mut self.found).expect("well-formed");
    }

    fn hear_of(&mut self, topics: impl IntoIterator<Item = (String, SourceRecord)>) {
        advertised(topics).iter().for_each(|datagram| self.hear(datagram));
    }

    fn drain(&mut self) -> Vec<Vec<u8>> {
        std::iter::from_fn(|| self.resolver.poll_transmit(self.now).map(<[u8]>::to_vec)).collect()
    }

    /// What is sent until then.
    fn run(&mut self, until: Nanos) -> Vec<Vec<u8>> {
        let mut out = Vec::new();
        loop {
            out.extend(self.drain());
            if self.resolver.next_wakeup() > until {
                self.now = until;
                return out;
            }
            self.now = self.resolver.next_wakeup();
        }
    }

    fn knows(&self, topic: &str) -> usize {
        self.resolver.known(topic).len()
    }
}

fn at(ms: u64) -> Nanos {
    Nanos(ms * 1_000_000)
}

/// A source by TCP, of the `run`-th start of a publisher on a host.
fn record(host: u8, run: u32, topic_index: u32) -> SourceRecord {
    let address = SocketAddrV4::new(Ipv4Addr::new(10, 29, 3, host), 14_371);
    let session = TransportSession::Tcp { address, session_id: Some(run) };
    SourceRecord { topic_index, session, request: None, late_join: None, origin: None }
}

/// Datagrams that advertise sources.
fn advertised(topics: impl IntoIterator<Item = (String, SourceRecord)>) -> Vec<Vec<u8>> {
    let mut other = Context::new(|_| {});
    for (topic, record) in topics {
        other.resolver.advertise(at(0), &topic, record).expect("a good name");
    }
    // A turn sends a part of them. Before this all are sent once, and none again.
    other.run(at(9))
}

fn foreign(run: u32, count: u32) -> impl Iterator<Item = (String, SourceRecord)> {
    (0..count).map(move |i| (format!("foreign.{i}"), record(9, run, i)))
}

#[test]
fn however_often_others_restart_a_wanted_source_that_is_new_is_found() {
    let mut c = Context::new(|c| c.resolver_cache_maximum = 10_000);
    c.query("wanted");
    for day in 0..10u32 {
        c.now = at(u64::from(day) * 86_400_000);
        c.hear_of(foreign(day, 1_100));
    }
    c.hear_of([("wanted".to_owned(), record(1, 1, 0))]);
    assert_eq!((c.found.0.len(), c.knows("wanted")), (1, 1));
    assert!(c.counters.sources_known.get() <= 10_000);
}

#[test]
fn where_there_is_no_room_what_nobody_wants_and_was_heard_longest_ago_leaves() {
    let mut c = Context::new(|c| c.resolver_cache_maximum = 100);
    c.query("wanted");
    let prefix = c.resolver.query_prefix(at(0), "px.", &mut c.found).expect("a good prefix");
    c.hear_of([("wanted".to_owned(), record(1, 1, 0)), ("px.1".to_owned(), record(1, 1, 1))]);
    c.hear_of(foreign(1, 98));
    assert_eq!((c.counters.sources_known.get(), c.counters.sources_evicted.get()), (100, 0));
    c.now = at(1_000);
    // One of them goes on.
    c.hear_of(foreign(1, 1));
    c.hear_of((0..97).map(|i| (format!("other.{i}"), record(8, 1, i))));
    assert_eq!(c.counters.sources_evicted.get(), 97);
    assert_eq!((c.knows("foreign.0"), c.knows("foreign.1"), c.knows("foreign.97")), (1, 0, 0));
    assert_eq!((c.knows("wanted"), c.knows("px.1")), (1, 1));
    // What is asked for now is kept from now on.
    c.query("other.96");
    c.hear_of(foreign(2, 200));
    assert_eq!((c.knows("wanted"), c.knows("px.1"), c.knows("other.96"), c.knows("other.95")), (1, 1, 1, 0));
    // What is asked for no more is not.
    c.resolver.stop_query(prefix);
    c.hear_of([("px.1".to_owned(), record(1, 1, 1))]);
    c.hear_of(foreign(3, 200));
    assert_eq!((c.knows("wanted"), c.knows("px.1")), (1, 0));
    assert_eq!(c.counters.sources_known.get(), 100);
}

#[test]
fn a_prefix_that_is_flooded_does_not_crowd_out_a_topic_by_name_nor_its_own_for_long() {
    let mut c = Context::new(|c| c.resolver_cache_maximum = 50);
    c.query("wanted");
    c.resolver.query_prefix(at(0), "px.", &mut c.found).expect("a good prefix");
    let genuine = || [("wanted".to_owned(), record(1, 1, 0)), ("px.genuine".to_owned(), record(1, 1, 1))];
    c.hear_of(genuine());
    c.hear_of((0..500).map(|i| (format!("px.{i}"), record(9, 1, i))));
    assert_eq!((c.counters.sources_known.get(), c.knows("wanted"), c.knows("px.genuine")), (50, 1, 0));
    assert_eq!(c.counters.tr_rcv_unresolved_topics.get(), 0);
    c.found.0.clear();
    c.hear_of(genuine());
    assert_eq!(c.found.0, [("px.genuine".to_owned(), record(1, 1, 1))], "by its next advertisement");
    c.hear_of(foreign(1, 1));
    assert_eq!((c.counters.sources_refused.get(), c.knows("foreign.0")), (1, 0), "the others are wanted");
}

#[test]
fn sources_of_one_topic_are_bounded_and_those_that_go_on_stay() {
    let mut c = Context::new(|c| c.resolver_cache_topic_maximum = 20);
    c.query("wanted");
    let genuine = || [("wanted".to_owned(), record(1, 1, 0))];
    for run in 0..1_000 {
        c.now = at(u64::from(run) * 10);
        c.hear_of(genuine());
        c.hear_of([("wanted".to_owned(), record(9, run, 0))]);
    }
    assert_eq!((c.knows("wanted"), c.counters.sources_known.get()), (20, 20));
    assert_eq!(c.counters.topic_sources_evicted.get(), 981);
    assert!(c.resolver.known("wanted").contains(&record(1, 1, 0)));
    assert_eq!(c.found.0.iter().filter(|found| found.1 == record(1, 1, 0)).count(), 1);
    assert_eq!(c.counters.tr_rcv_unresolved_topics.get(), 0);
}

#[test]
fn what_is_not_heard_for_long_is_forgotten_and_asked_for_again() {
    let mut c = Context::new(|c| {
        c.resolution_number_of_sources_query_threshold = 1;
        c.resolver_cache_timeout = Duration::from_secs(600);
    });
    c.query("wanted");
    for day in 0..10 {
        c.hear_of([("wanted".to_owned(), record(1, day, 0))]);
        c.hear_of(foreign(day, 1_000));
        let asked = c.counters.queries_sent.get();
        c.run(c.now + Duration::from_secs(599));
        assert_eq!((c.knows("wanted"), c.counters.queries_sent.get()), (1, asked), "enough is known");
        c.run(c.now + Duration::from_secs(3));
        assert_eq!(c.knows("wanted"), 0, "it restarted, and only its successor is known");
        assert!(c.counters.queries_sent.get() > asked);
        assert_eq!((c.counters.sources_known.get(), c.counters.tr_rcv_unresolved_topics.get()), (0, 1));
    }
    assert_eq!((c.counters.sources_expired.get(), c.counters.queries_resumed.get()), (10_010, 10));
}

#[test]
fn a_query_that_was_answered_often_enough_goes_on_when_that_source_ends() {
    let mut c = Context::new(|c| c.resolution_number_of_sources_query_threshold = 1);
    c.query("wanted");
    c.hear_of([("wanted".to_owned(), record(1, 1, 0))]);
    assert!(c.run(at(1_000)).is_empty());
    c.resolver.end_session(c.now, &record(1, 1, 0).session);
    assert!(!c.run(at(3_000)).is_empty());
}

fn request(mask: u16) -> Vec<u8> {
    let mut out = Vec::new();
    Packet::of(Kind::ResolutionRequest(mask)).emit(&mut out);
    out
}

#[test]
fn resolution_requests_cost_a_bounded_step_each_and_repeat_everything_once() {
    let mut c = Context::new(|c| c.resolver_datagram_max_size = 8_192);
    for (topic, record) in foreign(1, 5_000) {
        c.resolver.advertise(at(0), &topic, record).expect("a good name");
    }
    c.run(at(100_000));
    let before = c.counters.advertisements_sent.get();
    let all = request(ResolutionRequest::ADVERTISEMENTS | ResolutionRequest::QUERIES);
    for _ in 0..1_000 {
        c.hear(&all);
    }
    assert_eq!(c.counters.advertisements_sent.get(), before, "a datagram alone does nothing");
    let first: usize = c.drain().iter().map(|d| Packet::parse(d).expect("well-formed").records.len()).sum();
    assert!((1..=512).contains(&first), "{first}");
    // It is all said once, in some steps, and not again though it was asked for meanwhile.
    let sustained = Duration::from_millis(900);
    c.run(c.now + sustained);
    assert_eq!(c.counters.advertisements_sent.get() - before, 5_000);
    assert_eq!((c.counters.requests_rcved.get(), c.counters.requests_deferred.get()), (1_000, 999));
    c.hear(&request(ResolutionRequest::WILDCARD_QUERIES));
    assert_eq!(c.counters.requests_deferred.get(), 999, "of something else");
}

#[test]
fn what_requests_have_repeated_goes_out_at_the_sustaining_rate() {
    let mut c = Context::new(|c| c.resolver_sustain_advertisement_bps = 800_000);
    for (topic, record) in foreign(1, 10_000) {
        c.resolver.advertise(at(0), &topic, record).expect("a good name");
    }
    c.run(at(300_000));
    let before = c.counters.tr_bytes_sent.get();
    for _ in 0..60 {
        c.hear(&request(ResolutionRequest::ADVERTISEMENTS));
        c.run(c.now + Duration::from_secs(1));
    }
    let sent = c.counters.tr_bytes_sent.get() - before;
    assert!((5_000_000..=6_400_000).contains(&sent), "100,000 bytes of records a second: {sent}");
}

fn patterns(texts: &[String]) -> Vec<u8> {
    let (mut bytes, mut out) = (Vec::new(), Vec::new());
    texts.iter().for_each(|text| Query::Pattern { syntax: 1, pattern: text.as_bytes() }.emit(&mut bytes));
    let queries = Queries::written(texts.len() as u8, true, &bytes);
    Packet { queries, ..Packet::of(Kind::Wildcard) }.emit(&mut out);
    out
}

#[test]
fn a_pattern_is_held_against_some_topics_at_a_time_and_finds_all() {
    let mut c = Context::new(|_| {});
    for (topic, record) in foreign(1, 5_000) {
        c.resolver.advertise(at(0), &topic, record).expect("a good name");
    }
    c.run(at(100_000));
    let before = c.counters.advertisements_sent.get();
    c.hear(&patterns(&["7$".to_owned(), "^foreign\\.1".to_owned()]));
    let first: usize = c.drain().iter().map(|d| Packet::parse(d).expect("well-formed").records.len()).sum();
    assert!((1..=60).contains(&first), "{first}: every tenth of 512 topics at most");
    c.run(c.now + Duration::from_millis(100));
    let ends = (0..5_000).filter(|i| format!("{i}").ends_with('7')).count();
    let begins = (0..5_000).filter(|i| format!("{i}").starts_with('1')).count();
    // Those that fit both may be said twice.
    let sent = (c.counters.advertisements_sent.get() - before) as usize;
    assert!((ends + begins - 120..=ends + begins).contains(&sent), "{sent} of {ends} and {begins}");
    assert_eq!(c.counters.queries_answered.get(), 2);
}

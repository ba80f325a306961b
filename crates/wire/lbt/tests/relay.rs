//! Topic resolution through unicast resolvers.

use counters::table::{LbmrRelay, LbmrResolver};
use std::net::{Ipv4Addr, SocketAddrV4};
use std::sync::Arc;
use std::time::Duration;
use tickcast_lbt::config::{RelayConfig, ResolverConfig};
use tickcast_lbt::resolution::{QueryId, Relay, Resolver, ResolverSink, SourceRecord, TransportSession};
use tickcast_lbt::wire::lbmr::{Kind, Packet, Queries, Query, ResolutionRequest};
use units::Nanos;

const MS: Duration = Duration::from_millis(1);
const ALIVE: &[u8] = &[2, 0, 0, 0];

fn at(ms: u32) -> Nanos {
    Nanos::ZERO + MS * ms
}

fn client(host: u8) -> SocketAddrV4 {
    SocketAddrV4::new(Ipv4Addr::new(10, 29, 3, host), 14_402)
}

fn query(topic: &str) -> Vec<u8> {
    let (mut bytes, mut out) = (Vec::new(), Vec::new());
    Query::Topic(topic.as_bytes()).emit(&mut bytes);
    Packet { queries: Queries::written(1, false, &bytes), ..Packet::of(Kind::Normal) }.emit(&mut out);
    out
}

struct Bench {
    relay: Relay,
    counters: Arc<LbmrRelay>,
}

impl Bench {
    fn new(change: impl FnOnce(&mut RelayConfig)) -> Bench {
        let mut config = RelayConfig::default();
        change(&mut config);
        let counters = Arc::new(LbmrRelay::default());
        Bench { relay: Relay::new(&config, Nanos::ZERO, counters.clone()).expect("allowed"), counters }
    }

    /// Where a datagram goes.
    fn take(&mut self, now: Nanos, from: SocketAddrV4, datagram: &[u8]) -> Vec<SocketAddrV4> {
        let mut to = Vec::new();
        self.relay.on_datagram(now, from, datagram, |address| to.push(address)).expect("well-formed");
        to
    }

    fn join(&mut self, now: Nanos, hosts: std::ops::RangeInclusive<u8>) {
        hosts.for_each(|host| assert!(self.take(now, client(host), ALIVE).is_empty()));
    }

    fn keepalives(&mut self, now: Nanos) -> Vec<SocketAddrV4> {
        std::iter::from_fn(|| self.relay.poll_keepalive(now).inspect(|k| assert_eq!(k.1, [0; 4])))
            .map(|k| k.0)
            .collect()
    }
}

#[test]
fn what_a_client_says_all_others_hear() {
    let mut b = Bench::new(|_| {});
    b.join(at(0), 1..=3);
    assert_eq!(b.take(at(1), client(2), &query("px.eq.ACME")), [client(1), client(3)]);
    let mut request = Vec::new();
    Packet::of(Kind::ResolutionRequest(ResolutionRequest::ADVERTISEMENTS)).emit(&mut request);
    assert_eq!(b.take(at(1), client(1), &request), [client(2), client(3)]);
    let c = &b.counters;
    assert_eq!((c.clients.get(), c.clients_registered.get(), c.keepalives_rcved.get()), (3, 3, 3));
    assert_eq!((c.tr_dgrams_relayed.get(), c.tr_dgrams_sent.get()), (2, 4));
    assert_eq!(c.tr_bytes_sent.get(), 2 * (4 + 11) + 2 * 4);
    assert_eq!((c.tr_dgrams_rcved.get(), c.tr_bytes_rcved.get()), (5, 3 * 4 + 15 + 4));
}

#[test]
fn who_is_no_client_is_not_relayed_and_not_answered() {
    let mut b = Bench::new(|_| {});
    b.join(at(0), 1..=2);
    assert!(b.take(at(1), client(9), &query("a")).is_empty());
    let elsewhere = SocketAddrV4::new(*client(1).ip(), 53);
    assert!(b.take(at(1), elsewhere, ALIVE).is_empty(), "no port of a client: it might be a name server");
    assert_eq!(b.keepalives(at(500)), [client(1), client(2)]);
    let c = &b.counters;
    assert_eq!((c.tr_dgrams_dropped_unknown.get(), c.clients_not_admitted.get()), (1, 1));
}

#[test]
fn a_silent_client_is_forgotten_and_one_that_speaks_is_not() {
    let mut b = Bench::new(|_| {});
    b.join(at(0), 1..=2);
    for ms in (500..=5_000).step_by(500) {
        b.join(at(ms), 2..=2);
        let expected = if ms < 5_000 { vec![client(1), client(2)] } else { vec![client(2)] };
        assert_eq!((b.relay.next_wakeup(), b.keepalives(at(ms))), (at(ms), expected));
    }
    assert_eq!((b.counters.clients_expired.get(), b.counters.clients.get()), (1, 1));
    assert_eq!(b.counters.keepalives_sent.get(), 19);
    let left: Vec<_> = b.relay.clients().map(|c| (c.address, c.heard)).collect();
    assert_eq!(left, [(client(2), at(5_000))]);
}

#[test]
fn what_is_malformed_or_of_another_type_goes_nowhere() {
    let mut b = Bench::new(|_| {});
    b.join(at(0), 1..=2);
    let refused = b.relay.on_datagram(at(1), client(1), &[0, 1, 0, 0, b'x'], |_| panic!("relayed"));
    assert!(refused.is_err());
    for other in [&[4, 0, 0, 0][..], &[7, 3, 0, 0], &[0; 4]] {
        assert!(b.take(at(1), client(1), other).is_empty(), "{other:?}");
    }
    let c = &b.counters;
    assert_eq!((c.tr_dgrams_dropped_malformed.get(), c.tr_dgrams_dropped_type.get()), (1, 3));
}

#[test]
fn clients_beyond_the_bound_are_refused() {
    let mut b = Bench::new(|c| c.resolver_unicast_maximum_clients = 2);
    b.join(at(0), 1..=200);
    assert_eq!((b.counters.clients.get(), b.counters.clients_refused.get()), (2, 198));
    assert!(b.relay.memory_bytes() < 2_000);
}

#[test]
fn neither_a_wild_client_nor_many_make_the_relay_flood() {
    let mut b = Bench::new(|c| {
        c.resolver_unicast_receive_rate_limit = 8_000_000;
        c.resolver_unicast_send_rate_limit = 4_000_000;
        c.resolver_unicast_total_rate_limit = 40_000_000;
    });
    b.join(at(0), 1..=100);
    let mut bytes = Vec::new();
    (0..4).for_each(|_| Query::Topic(&[b'x'; 240]).emit(&mut bytes));
    let mut big = Vec::new();
    Packet { queries: Queries::written(4, false, &bytes), ..Packet::of(Kind::Normal) }.emit(&mut big);
    let mut heard = [0; 101];
    for ms in 0..1_000 {
        for _ in 0..10 {
            for to in b.take(at(ms), client(100), &big) {
                heard[usize::from(to.ip().octets()[3])] += big.len();
            }
        }
    }
    // a second's worth, and what was saved up before
    assert!(heard.iter().all(|&bytes| bytes <= 500_000 + 65_507), "{heard:?}");
    assert!(heard.iter().sum::<usize>() <= 5_000_000 + 500_000, "{}", heard.iter().sum::<usize>());
    let c = &b.counters;
    assert!(c.tr_dgrams_dropped_rate.get() > 8_000 && c.tr_dgrams_held_back.get() > 10_000, "{c:?}");
}

// ---- contexts at both ends

struct Found(usize);

impl ResolverSink for Found {
    fn source_found(&mut self, _: QueryId, topic: &str, _: &SourceRecord) {
        assert_eq!(topic, "px.eq.ACME");
        self.0 += 1;
    }
}

struct Context {
    resolver: Resolver,
    counters: Arc<LbmrResolver>,
    address: SocketAddrV4,
    found: Found,
}

impl Context {
    fn new(host: u8, daemons: Vec<SocketAddrV4>) -> Context {
        let config = ResolverConfig { resolver_unicast_daemons: daemons, ..ResolverConfig::default() };
        let counters = Arc::new(LbmrResolver::default());
        let resolver = Resolver::new(&config, Nanos::ZERO, counters.clone()).expect("allowed");
        Context { resolver, counters, address: client(host), found: Found(0) }
    }
}

#[test]
fn two_contexts_find_each_other_through_either_of_two_resolvers() {
    let daemons = [SocketAddrV4::new(Ipv4Addr::new(10, 29, 3, 251), 15_380), client(252)];
    for dead in [None, Some(0), Some(1)] {
        let mut relays = [Bench::new(|_| {}), Bench::new(|_| {})];
        let mut contexts = [Context::new(1, daemons.to_vec()), Context::new(2, daemons.to_vec())];
        assert_eq!(contexts[0].resolver.unicast_daemons(), daemons);
        let address = SocketAddrV4::new(Ipv4Addr::new(10, 29, 3, 1), 14_371);
        let session = TransportSession::Tcp { address, session_id: None };
        let record = SourceRecord { topic_index: 7, session, request: None, late_join: None, origin: None };
        contexts[0].resolver.advertise(at(0), "px.eq.ACME", record).expect("a good name");
        let Context { resolver, found, .. } = &mut contexts[1];
        resolver.query(at(0), "px.eq.ACME", found).expect("a good name");
        for ms in 0..2_000 {
            for context in 0..2 {
                while let Some(datagram) =
                    contexts[context].resolver.poll_transmit(at(ms)).map(<[u8]>::to_vec)
                {
                    for relay in (0..2).filter(|&r| Some(r) != dead) {
                        for to in relays[relay].take(at(ms), contexts[context].address, &datagram) {
                            let other = contexts.iter_mut().find(|c| c.address == to).expect("a client");
                            let heard = other.resolver.on_datagram(at(ms), &datagram, &mut other.found);
                            heard.expect("well-formed");
                        }
                    }
                }
            }
            for relay in (0..2).filter(|&r| Some(r) != dead) {
                while let Some((to, bytes)) = relays[relay].relay.poll_keepalive(at(ms)) {
                    let other = contexts.iter_mut().find(|c| c.address == to).expect("a client");
                    other.resolver.on_datagram(at(ms), bytes, &mut other.found).expect("well-formed");
                }
            }
        }
        assert_eq!(contexts[1].found.0, 1, "{dead:?}");
        let living = 2 - u64::from(dead.is_some());
        for context in &contexts {
            assert_eq!(context.counters.keepalives_sent.get(), 4, "every 500 ms");
            assert_eq!(context.counters.keepalives_rcved.get(), 3 * living);
        }
        let [one, other] = relays.map(|r| (r.counters.clients.get(), r.counters.tr_dgrams_relayed.get() > 0));
        let expected = |r| if Some(r) == dead { (0, false) } else { (2, true) };
        assert_eq!((one, other), (expected(0), expected(1)));
    }
}

#[test]
fn keepalives_say_whether_the_context_has_sources() {
    let mut context = Context::new(1, vec![client(252)]);
    assert_eq!(context.resolver.next_wakeup(), Nanos::ZERO);
    assert_eq!(context.resolver.poll_transmit(at(0)), Some(&[2, 0, 0, 0][..]));
    assert_eq!(context.resolver.poll_transmit(at(0)), None);
    assert_eq!(context.resolver.next_wakeup(), at(500));
    let session = TransportSession::Ipc { host_id: 1, session_id: 2, transport_id: 3 };
    let record = SourceRecord { topic_index: 7, session, request: None, late_join: None, origin: None };
    context.resolver.advertise(at(500), "a", record).expect("a good name");
    assert_eq!(context.resolver.poll_transmit(at(500)), Some(&[3, 0, 0, 0][..]));
}

//! Topic resolution with keys: what is signed works as ever, what is not is not believed.

#[path = "support/keys.rs"]
mod keys;

use counters::table::{LbmrRelay, LbmrResolver};
use keys::keys;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::sync::Arc;
use std::time::Duration;
use tickcast_lbt::authentication::Keys;
use tickcast_lbt::config::{RelayConfig, ResolverConfig};
use tickcast_lbt::error::WireError;
use tickcast_lbt::resolution::{QueryId, Relay, Resolver, ResolverSink, SourceRecord, TransportSession};
use tickcast_lbt::rm::SessionKey;
use tickcast_lbt::wire::lbmr::{Kind, Packet, ResolutionRequest};
use tickcast_lbt::wire::lbtrm::SessionHeader;
use units::Nanos;

const WINDOW: Duration = Duration::from_secs(60);
/// Some time of day.
const NOON: u64 = 1_700_000_000_000_000_000;
const SOURCE: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::new(10, 29, 3, 1), 14_371);

#[derive(Default)]
struct Found(Vec<(String, TransportSession)>);

impl ResolverSink for Found {
    fn source_found(&mut self, _: QueryId, topic: &str, source: &SourceRecord) {
        self.0.push((topic.to_owned(), source.session));
    }
}

struct Party {
    resolver: Resolver,
    counters: Arc<LbmrResolver>,
    found: Found,
}

impl Party {
    fn with(config: &ResolverConfig, keys: Option<Keys>) -> Party {
        let counters = Arc::new(LbmrResolver::default());
        let mut resolver = Resolver::new(config, Nanos::ZERO, counters.clone()).expect("allowed");
        if let Some(keys) = keys {
            resolver.authenticate(keys, WINDOW);
        }
        resolver.set_wall_clock(NOON);
        Party { resolver, counters, found: Found::default() }
    }

    fn new(keys: Option<Keys>) -> Party {
        Party::with(&ResolverConfig::default(), keys)
    }

    fn advertise(&mut self, topic: &str) {
        let session = SessionHeader { ucast_port: 14391, session_id: 7 };
        let key = SessionKey { source: *SOURCE.ip(), session };
        let group = SocketAddrV4::new(Ipv4Addr::new(224, 10, 10, 10), 14400);
        let session = TransportSession::LbtRm { key, group };
        let record = SourceRecord { topic_index: 1, session, request: None, late_join: None, origin: None };
        self.resolver.advertise(Nanos::ZERO, topic, record).expect("a name");
    }

    fn query(&mut self, topic: &str) {
        self.resolver.query(Nanos::ZERO, topic, &mut self.found).expect("a name");
    }

    /// What it sends within a second.
    fn say(&mut self) -> Vec<Vec<u8>> {
        let times = (0..100).map(|i| Nanos::ZERO + Duration::from_millis(10 * i));
        let mut said = Vec::new();
        times.for_each(|now| {
            while let Some(datagram) = self.resolver.poll_transmit(now) {
                said.push(datagram.to_vec());
            }
        });
        said
    }

    fn hear(&mut self, datagram: &[u8]) -> Result<(), WireError> {
        self.resolver.on_datagram(Nanos::ZERO + Duration::from_secs(1), datagram, &mut self.found)
    }

    /// Datagrams that it did not believe: not authentic, and stale.
    fn dropped(&self) -> (u64, u64) {
        (self.counters.tr_dgrams_unauthentic.get(), self.counters.tr_dgrams_stale.get())
    }
}

/// An advertisement, signed at noon with key 1.
fn advertisement() -> Vec<u8> {
    let mut source = Party::new(Some(keys(1, None)));
    source.advertise("px");
    source.say().swap_remove(0)
}

#[test]
fn contexts_with_a_key_find_each_other() {
    for packet_options in [None, Some([7; 8])] {
        let config = ResolverConfig { packet_options, ..ResolverConfig::default() };
        let (mut a, mut b) =
            (Party::with(&config, Some(keys(1, None))), Party::with(&config, Some(keys(1, None))));
        // So many that datagrams are full.
        let topics: Vec<String> = (0..300).map(|i| format!("px.{i:0>60}")).collect();
        topics.iter().for_each(|topic| a.advertise(topic));
        topics.iter().for_each(|topic| b.query(topic));
        let (said, asked) = (a.say(), b.say());
        assert!(said.iter().chain(&asked).all(|datagram| datagram.len() <= 1_472));
        assert!(said.iter().any(|datagram| datagram.len() > 1_300), "they are filled");
        asked.iter().for_each(|datagram| assert_eq!(a.hear(datagram), Ok(())));
        said.iter().for_each(|datagram| assert_eq!(b.hear(datagram), Ok(())));
        assert_eq!(b.found.0.len(), 300);
        assert!(a.counters.queries_answered.get() >= 300);
        assert_eq!((a.dropped(), b.dropped()), ((0, 0), (0, 0)));
    }
}

#[test]
fn on_two_networks_both_datagrams_are_signed() {
    let mut a = Party::new(Some(keys(1, None)));
    a.resolver.add_network(Ipv4Addr::new(10, 30, 3, 1));
    a.advertise("px");
    let first = a.resolver.poll_transmit(Nanos::ZERO).expect("it is due").to_vec();
    let second = a.resolver.second().to_vec();
    assert_ne!(first, second);
    for datagram in [first, second] {
        let mut b = Party::new(Some(keys(1, None)));
        b.query("px");
        assert_eq!(b.hear(&datagram), Ok(()));
        assert_eq!(b.found.0.len(), 1);
    }
}

#[test]
fn a_datagram_with_any_byte_changed_or_no_code_is_counted_and_dropped() {
    let good = advertisement();
    let mut b = Party::new(Some(keys(1, None)));
    b.query("px");
    for at in 0..good.len() {
        let mut bad = good.clone();
        bad[at] ^= 1;
        assert!(matches!(b.hear(&bad), Err(WireError::Unauthentic { .. })), "byte {at}");
        assert!(b.hear(&good[..at]).is_err(), "cut to {at}");
    }
    let mut unsigned = Party::new(None);
    unsigned.advertise("px");
    let said = unsigned.say();
    assert!(said.iter().all(|datagram| b.hear(datagram) == Err(WireError::Unauthentic { key: None })));
    let mut stranger = Party::new(Some(keys(9, None)));
    stranger.advertise("px");
    assert_eq!(b.hear(&stranger.say()[0]), Err(WireError::Unauthentic { key: Some(9) }));
    let mut request = Vec::new();
    Packet::of(Kind::ResolutionRequest(ResolutionRequest::ADVERTISEMENTS)).emit(&mut request);
    assert!(b.hear(&request).is_err());
    assert_eq!(b.dropped(), ((2 * good.len() + said.len() + 2) as u64, 0));
    assert!(b.found.0.is_empty() && b.counters.records_rcved.get() == 0);
    assert_eq!(b.hear(&[0; 4]), Ok(()), "a relay's sign of life says nothing");
    assert_eq!(b.hear(&good), Ok(()));
    assert_eq!(b.found.0.len(), 1);
}

#[test]
fn a_replay_is_believed_within_the_window_alone() {
    let good = advertisement();
    let window = WINDOW.as_nanos() as u64;
    let table = [(NOON + window, true), (NOON - window, true), (NOON + window + 1, false), (0, false)];
    for (wall, is_believed) in table {
        let mut b = Party::new(Some(keys(1, None)));
        b.query("px");
        b.resolver.set_wall_clock(wall);
        assert_eq!(b.hear(&good).is_ok(), is_believed, "{wall}");
        assert_eq!(b.dropped(), (0, u64::from(!is_believed)));
        assert_eq!(b.found.0.len(), usize::from(is_believed));
    }
}

#[test]
fn keys_are_changed_without_a_gap() {
    // all have key 1; all accept 2; all sign with 2; 1 is gone: neighbours in this list work together
    let steps = [keys(1, None), keys(1, Some(2)), keys(2, Some(1)), keys(2, None)];
    let (mut a, mut b) = (Party::new(Some(steps[0].clone())), Party::new(Some(steps[0].clone())));
    a.advertise("px");
    b.query("px");
    for step in &steps[1..] {
        a.resolver.authenticate(step.clone(), WINDOW);
        assert!(a.say().iter().all(|datagram| b.hear(datagram).is_ok()));
        b.resolver.authenticate(step.clone(), WINDOW);
        assert!(b.say().iter().all(|datagram| a.hear(datagram).is_ok()));
    }
    assert_eq!((a.dropped(), b.dropped()), ((0, 0), (0, 0)));
    assert!(matches!(b.hear(&advertisement()), Err(WireError::Unauthentic { key: Some(1) })));
}

#[test]
fn who_has_no_key_understands_what_is_signed() {
    let mut b = Party::new(None);
    b.query("px");
    assert_eq!(b.hear(&advertisement()), Ok(()));
    assert_eq!(b.found.0.len(), 1);
}

#[test]
fn a_relay_with_keys_takes_and_sends_on_what_is_signed() {
    let counters = Arc::new(LbmrRelay::default());
    let mut relay = Relay::new(&RelayConfig::default(), Nanos::ZERO, counters.clone()).expect("allowed");
    relay.authenticate(keys(2, Some(1)), WINDOW);
    relay.set_wall_clock(NOON);
    let client = |host| SocketAddrV4::new(Ipv4Addr::new(10, 29, 3, host), 14_402);
    let daemons = vec![SocketAddrV4::new(Ipv4Addr::new(10, 29, 3, 9), 15_380)];
    let config = ResolverConfig { resolver_unicast_daemons: daemons, ..ResolverConfig::default() };
    let (mut a, mut b) =
        (Party::with(&config, Some(keys(1, None))), Party::with(&config, Some(keys(1, None))));
    let mut stranger = Party::with(&config, None);
    a.advertise("px");
    stranger.advertise("px");
    b.query("px");
    let mut relayed = Vec::new();
    for (host, said) in [(2, b.say()), (1, a.say()), (3, stranger.say())] {
        for datagram in said {
            let mut to = Vec::new();
            let taken = relay.on_datagram(Nanos::ZERO, client(host), &datagram, |client| to.push(client));
            assert_eq!(taken.is_ok(), host != 3);
            relayed.extend(to.into_iter().map(|to| (to, datagram.clone())));
        }
    }
    assert_eq!(counters.clients.get(), 2, "a stranger's sign of life makes it no client");
    assert!(counters.tr_dgrams_unauthentic.get() > 0);
    relayed.iter().filter(|(to, _)| *to == client(2)).for_each(|(_, d)| assert_eq!(b.hear(d), Ok(())));
    assert_eq!(b.found.0.len(), 1);
    relay.set_wall_clock(NOON + 2 * WINDOW.as_nanos() as u64);
    let late = relay.on_datagram(Nanos::ZERO, client(1), &advertisement(), |_| unreachable!("it is stale"));
    assert_eq!(late, Err(WireError::Stale { key: 1 }));
    assert_eq!(counters.tr_dgrams_stale.get(), 1);
}

#[test]
fn a_signed_advertisement_is_a_packet_with_options() {
    let datagram = advertisement();
    let packet = Packet::parse(&datagram).expect("well-formed");
    assert_eq!((packet.records.len(), packet.version), (1, 1));
    assert_eq!(packet.options.map(|options| options.iter().count()), Some(1));
}

//! Nobody is deaf for ever: a month of virtual time with outages at awkward moments, after each of which
//! receivers hear their sources again.

use std::net::{Ipv4Addr, SocketAddrV4};
use std::sync::Arc;
use std::time::Duration;

use counters::table::{LbmrRelay, LbmrResolver};
use tickcast_lbt::config::{RelayConfig, ResolverConfig};
use tickcast_lbt::resolution::{
    AdvertisementId, QueryId, Relay, Resolver, ResolverSink, SourceRecord, TransportSession,
};
use units::Nanos;

const SECOND: u64 = 1_000_000_000;
const DAY: u64 = 86_400 * SECOND;
const TOPIC: &str = "px.eq.ACME";
/// Silence after which a session is over for a receiver.
const TIMEOUT: u64 = 10 * SECOND;
/// After an outage everybody hears everybody again within this time.
const SOON: u64 = 40 * SECOND;

/// From when to when nothing passes: around the ends of phases, the time-out of sessions, whole days.
fn outages() -> Vec<(u64, u64)> {
    let s = SECOND;
    let mut all = vec![
        (0, 4 * s),
        (100 * s, 100 * s + TIMEOUT - 1),
        (200 * s, 200 * s + TIMEOUT + 1),
        (400 * s, 464 * s),
        (600 * s, 666 * s),
        (900 * s, 2_700 * s),
        (DAY - 5 * s, DAY + 6 * s),
        (DAY + 100 * s, DAY + 125 * s),
        (2 * DAY, 3 * DAY + s),
        (4 * DAY, 11 * DAY),
        (20 * DAY, 20 * DAY + 11 * s),
        (29 * DAY, 29 * DAY + 70 * s),
    ];
    // Too short for a session to time out, long enough for what is said once.
    all.extend((12..19).map(|day| (day * DAY, day * DAY + 9 * s)));
    all.sort_unstable();
    all
}

fn record(run: u32) -> SourceRecord {
    let address = SocketAddrV4::new(Ipv4Addr::new(10, 29, 3, 1), 14_371);
    let session = TransportSession::Tcp { address, session_id: Some(run) };
    SourceRecord { topic_index: 7, session, request: None, late_join: None, origin: None }
}

/// As contexts of the messaging library are.
fn own() -> ResolverConfig {
    ResolverConfig {
        resolver_advertisement_quiescent_interval: Duration::from_secs(10),
        resolver_query_quiescent_interval: Duration::from_secs(10),
        ..ResolverConfig::default()
    }
}

/// With the phases of the field: then nothing at all. They are shorter, to have them more often.
fn of_the_field() -> ResolverConfig {
    ResolverConfig {
        resolver_advertisement_minimum_sustain_duration: Duration::from_secs(5),
        resolver_query_minimum_sustain_duration: Duration::from_secs(5),
        ..ResolverConfig::default()
    }
}

struct End {
    resolver: Resolver,
    address: SocketAddrV4,
    /// The session that is heard, of those found since it was lost.
    hears: Option<SourceRecord>,
    is_receiver: bool,
}

struct Hearing<'a>(&'a mut Option<SourceRecord>);

impl ResolverSink for Hearing<'_> {
    fn source_found(&mut self, _: QueryId, topic: &str, source: &SourceRecord) {
        assert_eq!(topic, TOPIC);
        *self.0 = Some(*source);
    }
}

impl End {
    fn new(host: u8, config: &ResolverConfig, now: Nanos) -> End {
        let counters = Arc::new(LbmrResolver::default());
        let resolver = Resolver::new(config, now, counters).expect("allowed");
        let address = SocketAddrV4::new(Ipv4Addr::new(10, 29, 3, host), 14_402);
        End { resolver, address, hears: None, is_receiver: host > 1 }
    }
}

struct World {
    now: Nanos,
    ends: Vec<End>,
    advertisement: AdvertisementId,
    run: u32,
    relay: Option<Relay>,
    sent: u64,
}

impl World {
    /// A source, and a receiver each by name, by prefix and by pattern.
    fn new(source: &ResolverConfig, receiver: &ResolverConfig, relay: Option<Relay>) -> World {
        let now = Nanos::ZERO;
        let mut ends = vec![End::new(1, source, now)];
        ends.extend((2..=4).map(|host| End::new(host, receiver, now)));
        let advertisement = ends[0].resolver.advertise(now, TOPIC, record(0)).expect("a good name");
        let [_, exact, prefix, pattern] = &mut ends[..] else { panic!("there are four") };
        exact.resolver.query(now, TOPIC, &mut Hearing(&mut exact.hears)).expect("a good name");
        prefix.resolver.query_prefix(now, "px.", &mut Hearing(&mut prefix.hears)).expect("a good name");
        pattern.resolver.query_pattern(now, "A.*E$", &mut Hearing(&mut pattern.hears)).expect("understood");
        World { now, ends, advertisement, run: 0, relay, sent: 0 }
    }

    fn restart_source(&mut self) {
        self.run += 1;
        self.ends[0].resolver.withdraw(self.advertisement);
        let advertised = self.ends[0].resolver.advertise(self.now, TOPIC, record(self.run));
        self.advertisement = advertised.expect("a good name");
    }

    /// What everybody sends now, with whom it reaches.
    fn turn(&mut self, passes: bool) {
        for from in 0..self.ends.len() {
            if self.ends[from].resolver.next_wakeup() > self.now {
                continue;
            }
            while let Some(datagram) = self.ends[from].resolver.poll_transmit(self.now).map(<[u8]>::to_vec) {
                self.sent += 1;
                let mut to = Vec::new();
                match &mut self.relay {
                    None => to.extend((0..self.ends.len()).filter(|end| *end != from && passes)),
                    Some(relay) if passes => {
                        let (address, ends) = (self.ends[from].address, &self.ends);
                        let taken = relay.on_datagram(self.now, address, &datagram, |address| {
                            to.extend(ends.iter().position(|end| end.address == address));
                        });
                        taken.expect("well-formed");
                    }
                    Some(_) => {}
                }
                to.into_iter().for_each(|end| self.hear(end, &datagram));
            }
        }
        while let Some((address, datagram)) = self.relay.as_mut().and_then(|r| r.poll_keepalive(self.now)) {
            let end = self.ends.iter().position(|end| end.address == address).filter(|_| passes);
            end.into_iter().for_each(|end| self.hear(end, datagram));
        }
    }

    fn hear(&mut self, end: usize, datagram: &[u8]) {
        let End { resolver, hears, .. } = &mut self.ends[end];
        resolver.on_datagram(self.now, datagram, &mut Hearing(hears)).expect("well-formed");
    }

    fn run(&mut self, until: u64, passes: bool) {
        loop {
            // What one says has others answer.
            let mut sent = None;
            while sent.replace(self.sent) != Some(self.sent) {
                self.turn(passes);
            }
            let own = self.ends.iter().map(|end| end.resolver.next_wakeup());
            let relay = self.relay.as_ref().map_or(Nanos::NEVER, Relay::next_wakeup);
            let next = own.fold(relay, Nanos::min);
            assert!(next > self.now, "whoever was served has time");
            if next.0 > until {
                self.now = Nanos(until);
                return;
            }
            self.now = next;
        }
    }

    /// Sessions of which nothing came for long are over.
    fn time_out(&mut self) {
        for end in &mut self.ends {
            if let Some(lost) = end.hears.take() {
                end.resolver.lose_session(self.now, &lost.session);
            }
        }
    }

    fn assert_all_hear(&self, what: &str) {
        let expected = Some(record(self.run));
        for (host, end) in self.ends.iter().enumerate().filter(|(_, end)| end.is_receiver) {
            assert_eq!(end.hears, expected, "{what}: end {host} at {:?}", self.now);
        }
    }
}

/// A month with all outages; the source restarts in every second, a relay at the end of each.
fn month(mut world: World) -> World {
    for ((begin, end), restarts) in outages().into_iter().zip([false, true].into_iter().cycle()) {
        world.run(begin, true);
        if begin > 0 {
            world.assert_all_hear("before an outage");
        }
        if restarts {
            world.run((begin + end) / 2, false);
            world.restart_source();
        }
        // What was lost by then is not heard at the end either, unless it goes on in time.
        if end - begin > TIMEOUT || restarts {
            world.run((begin + TIMEOUT).min(end).max(world.now.0), false);
            world.time_out();
        }
        world.run(end, false);
        if let Some(relay) = world.relay.as_mut() {
            *relay = new_relay(world.now);
        }
        world.run(end + SOON, true);
        world.assert_all_hear("after an outage");
    }
    world.run(30 * DAY, true);
    world
}

fn new_relay(now: Nanos) -> Relay {
    let config = RelayConfig {
        resolver_unicast_activity_timeout: Duration::from_secs(90),
        resolver_unicast_keepalive_interval: Duration::from_secs(30),
        ..RelayConfig::default()
    };
    Relay::new(&config, now, Arc::new(LbmrRelay::default())).expect("allowed")
}

#[test]
fn after_any_outage_of_a_month_everybody_hears_everybody_again() {
    let _repeat = testkit::repeat!();
    let world = month(World::new(&own(), &own(), None));
    // For ever is seldom: a source and three receivers.
    assert!(world.sent < 30 * 8_640 * 3, "{}", world.sent);
}

#[test]
fn after_any_outage_a_source_of_the_field_is_heard_again_which_says_nothing_unless_asked() {
    let _repeat = testkit::repeat!();
    month(World::new(&of_the_field(), &own(), None));
}

#[test]
fn after_any_outage_a_receiver_of_the_field_hears_again_which_asks_no_more() {
    let _repeat = testkit::repeat!();
    month(World::new(&own(), &of_the_field(), None));
}

#[test]
fn after_any_restart_of_a_unicast_resolver_everybody_hears_everybody_again() {
    let _repeat = testkit::repeat!();
    let config = ResolverConfig {
        resolver_unicast_daemons: vec![SocketAddrV4::new(Ipv4Addr::new(10, 29, 3, 251), 15_380)],
        resolver_unicast_keepalive_interval: Duration::from_secs(20),
        ..own()
    };
    month(World::new(&config, &config, Some(new_relay(Nanos::ZERO))));
}

#[test]
fn who_asks_after_a_month_of_silence_is_answered_at_once() {
    let _repeat = testkit::repeat!();
    let mut world = World::new(&of_the_field(), &of_the_field(), None);
    world.run(30 * DAY, true);
    assert_eq!(world.ends[0].resolver.next_wakeup(), Nanos::NEVER, "the field's source is quiescent");
    let mut late = End::new(5, &own(), world.now);
    late.resolver.query(world.now, TOPIC, &mut Hearing(&mut late.hears)).expect("a good name");
    world.ends.push(late);
    world.run(30 * DAY + SECOND / 100, true);
    world.assert_all_hear("late");
}

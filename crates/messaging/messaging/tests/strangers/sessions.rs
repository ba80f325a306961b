//! Who advertises sessions that are not there.

use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, TcpStream};
use std::time::Duration;

use lbt::resolution::{Resolver, SourceRecord};
use lbt::rm::SessionKey;
use lbt::wire::lbtrm::SessionHeader;
use net::clock::ManualClock;
use net::udp::{MulticastOptions, UdpSocket};
use tickcast_messaging::{EndReason, LbtrmConfig, MessagingConfig, Transport, TransportSession};

use crate::common::{Party, Patience, config};
use crate::{SHORT, clock, idle, on_clock, until_by};

/// Advertises sources of topic `px`, as real ones are, which are not there.
pub(crate) struct Forger {
    resolver: Resolver,
    socket: UdpSocket,
    group: SocketAddrV4,
    clock: ManualClock,
}

impl Forger {
    pub(crate) fn new(
        config: &MessagingConfig,
        clock: &ManualClock,
        sessions: impl IntoIterator<Item = TransportSession>,
    ) -> Forger {
        let now = clock.now();
        let mut resolver =
            Resolver::new(&config.resolver(), now, std::sync::Arc::default()).expect("allowed");
        for (topic_index, session) in (1..).zip(sessions) {
            let (request, late_join, origin) = (None, None, None);
            let record = SourceRecord { topic_index, session, request, late_join, origin };
            resolver.advertise(now, "px", record).expect("a legal name");
        }
        let options = MulticastOptions { interface: Ipv4Addr::LOCALHOST, ttl: 0, buffer_bytes: 1 << 20 };
        let any = SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0);
        let socket = UdpSocket::multicast_sender(any, options).expect("a port is free");
        let group = SocketAddrV4::new(config.resolver.multicast_address, config.resolver.multicast_port);
        Forger { resolver, socket, group, clock: clock.clone() }
    }

    pub(crate) fn turn(&mut self) {
        while let Some(datagram) = self.resolver.poll_transmit(self.clock.now()) {
            self.socket.send_run(self.group, datagram, datagram.len()).expect("loopback");
        }
    }
}

/// An address of this host at which nobody is.
fn nobody(number: u32) -> Ipv4Addr {
    Ipv4Addr::from_bits(Ipv4Addr::new(127, 0, 1, 0).to_bits() + number)
}

/// Multicast sessions of as many sources, each on a group of its own.
pub(crate) fn multicast(count: u32) -> impl Iterator<Item = TransportSession> {
    (0..count).map(|number| {
        let session = SessionHeader { ucast_port: 9, session_id: number };
        let group = Ipv4Addr::from_bits(Ipv4Addr::new(239, 201, 0, 1).to_bits() + number);
        TransportSession::LbtRm {
            key: SessionKey { source: nobody(number), session },
            group: SocketAddrV4::new(group, 9_999),
        }
    })
}

fn tcp(address: SocketAddrV4) -> TransportSession {
    TransportSession::Tcp { address, session_id: Some(7) }
}

/// Has a genuine source of topic `px` heard among those that are made up.
pub(crate) fn find(config: &MessagingConfig, clock: &ManualClock, mut forger: Forger) -> Party {
    let mut b = on_clock(config, clock, 2);
    b.receiver("px");
    // What is made up is there first.
    let counters = b.counters.context.clone();
    until_by(clock, SHORT, &mut [&mut b], |_| {
        forger.turn();
        counters.sessions_waiting.get() > 0
    });
    let mut a = on_clock(config, clock, 1);
    let source = a.source("px");
    until_by(clock, SHORT, &mut [&mut a, &mut b], |p| {
        forger.turn();
        // Without room there is nobody yet.
        let _ = p[0].context.send(source, &[b"genuine"]);
        p[1].heard.payloads.iter().any(|payload| payload == b"genuine")
    });
    b
}

#[test]
fn a_genuine_source_is_found_among_groups_that_nobody_sends_to() {
    let config =
        MessagingConfig { session_maximum_descriptors: Some(8), transport: Transport::LbtRm, ..config(41) };
    let clock = clock();
    let b = find(&config, &clock, Forger::new(&config, &clock, multicast(60)));
    let counters = &b.counters.context;
    assert!(counters.sessions_displaced.get() > 0 && counters.sessions_waiting.get() > 0);
    assert_eq!(counters.joins_failed.get(), 0);
    assert!(b.heard.ends.iter().all(|end| end.reason == EndReason::TimedOut));
}

#[test]
fn one_address_that_advertises_many_sessions_makes_room_at_once() {
    let config = MessagingConfig { session_maximum_count: 8, transport: Transport::LbtRm, ..config(42) };
    let clock = clock();
    let greedy = multicast(1_000).map(|session| match session {
        TransportSession::LbtRm { mut key, mut group } => {
            key.source = nobody(1);
            group.set_ip(Ipv4Addr::new(239, 201, 200, 1));
            TransportSession::LbtRm { key, group }
        }
        other => other,
    });
    let b = find(&config, &clock, Forger::new(&config, &clock, greedy));
    assert!(b.counters.context.sessions_displaced.get() > 0);
    assert!(b.heard.sources.iter().filter(|source| source.contains("239.201.200.1")).count() < 100);
}

#[test]
fn a_genuine_tcp_source_is_found_among_connections_that_say_nothing() {
    let config =
        MessagingConfig { session_maximum_descriptors: Some(8), transport: Transport::Tcp, ..config(43) };
    let clock = clock();
    // It takes connections, and says nothing, at every address of this host.
    let silent = std::net::TcpListener::bind("0.0.0.0:0").expect("a port is free");
    let port = silent.local_addr().expect("bound").port();
    let sessions = (0..60).map(|number| tcp(SocketAddrV4::new(nobody(number), port)));
    let b = find(&config, &clock, Forger::new(&config, &clock, sessions));
    assert!(b.counters.context.sessions_displaced.get() > 0);
}

#[test]
fn an_address_that_refuses_is_tried_less_and_less_often() {
    let (config, clock) = (config(44), clock());
    let mut b = on_clock(&config, &clock, 1);
    b.receiver("px");
    // A port that was just free, and that nobody listens on.
    let listener = std::net::TcpListener::bind((nobody(0), 0)).expect("a port is free");
    let SocketAddr::V4(address) = listener.local_addr().expect("bound") else { unreachable!("IPv4") };
    drop(listener);
    let mut forger = Forger::new(&config, &clock, [tcp(address)]);
    let (tries, begin) = (b.counters.tcp_receiver.clone(), clock.now());
    until_by(&clock, SHORT, &mut [&mut b], |_| {
        forger.turn();
        clock.now() >= begin + Duration::from_secs(60)
    });
    let tries = tries.sessions_broken.get();
    assert!((3..20).contains(&tries), "{tries} in a minute, advertised each second");
}

#[test]
fn a_connection_that_is_never_made_is_given_up_in_time() {
    let (config, clock) = (config(45), clock());
    let mut b = on_clock(&config, &clock, 1);
    b.receiver("px");
    // A queue that is full answers nothing more.
    let listener =
        net::tcp::listen_with(SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0), 0).expect("a port is free");
    let SocketAddr::V4(address) = listener.local_addr().expect("bound") else { unreachable!("IPv4") };
    let _waiting = TcpStream::connect(address).expect("there is room for one");
    let mut forger = Forger::new(&config, &clock, [tcp(address)]);
    until_by(&clock, SHORT, &mut [&mut b], |p| {
        forger.turn();
        !p[0].heard.sources.is_empty()
    });
    idle(&mut [&mut b]);
    assert!(b.heard.ends.is_empty());
    clock.set(clock.now() + Duration::from_micros(config.tcp.connect_timeout_us));
    let counters = b.counters.context.clone();
    until_by(&clock, SHORT, &mut [&mut b], |p| !p[0].heard.ends.is_empty());
    assert_eq!((b.heard.ends[0].reason, counters.connects_timed_out.get()), (EndReason::Broken, 1));
}

#[test]
fn nobody_is_sent_more_connect_requests_than_those_of_some_sessions() {
    let config = MessagingConfig { session_maximum_unproven_per_address: 5, ..config(46) };
    let clock = clock();
    let mut b = on_clock(&config, &clock, 1);
    b.receiver("px");
    let sessions = (1..=100).map(|port| TransportSession::LbtRu {
        address: SocketAddrV4::new(nobody(0), port),
        session_id: Some(7),
    });
    let mut forger = Forger::new(&config, &clock, sessions);
    until_by(&clock, Duration::from_millis(1), &mut [&mut b], |p| {
        forger.turn();
        p[0].counters.context.sessions_waiting.get() == 95
    });
    assert_eq!(b.heard.sources.len(), 5);
}

#[test]
fn sources_are_heard_only_where_they_can_be_and_are_allowed() {
    let narrow = |text: &str| text.parse().expect("a network");
    let base = config(47);
    let config = MessagingConfig {
        session_allowed_networks: vec![narrow("127.0.0.0/30")],
        lbtrm: LbtrmConfig {
            allowed_groups: vec!["239.201.0.0/16:9999".parse().expect("groups")],
            ..base.lbtrm
        },
        ..base
    };
    let clock = clock();
    let mut b = on_clock(&config, &clock, 1);
    b.receiver("px");
    let at = |ip: [u8; 4], port| SocketAddrV4::new(ip.into(), port);
    let lbtrm = |source: [u8; 4], group| {
        let session = SessionHeader { ucast_port: 9, session_id: 9 };
        TransportSession::LbtRm { key: SessionKey { source: source.into(), session }, group }
    };
    let bad = [
        tcp(at([127, 0, 0, 1], 0)),
        tcp(at([0, 0, 0, 0], 9)),
        tcp(at([255, 255, 255, 255], 9)),
        tcp(at([127, 0, 0, 4], 9)),
        TransportSession::LbtRu { address: at([239, 201, 1, 1], 9), session_id: None },
        lbtrm([127, 0, 0, 4], at([239, 201, 1, 1], 9_999)),
        lbtrm([127, 0, 0, 1], at([239, 201, 1, 1], 9_998)),
        lbtrm([127, 0, 0, 1], at([239, 202, 1, 1], 9_999)),
        lbtrm([127, 0, 0, 1], at([224, 0, 0, 1], 9_999)),
        lbtrm([127, 0, 0, 1], at([127, 0, 0, 2], 9_999)),
    ];
    let good = lbtrm([127, 0, 0, 2], at([239, 201, 1, 1], 9_999));
    let mut forger = Forger::new(&config, &clock, bad.into_iter().chain([good]));
    let patience = Patience::new();
    while b.counters.context.sessions_not_allowed.get() < bad.len() as u64 || b.heard.sources.is_empty() {
        assert!(patience.lasts(), "{:?}", b.heard.sources);
        clock.set(clock.now() + SHORT);
        forger.turn();
        b.turn();
    }
    assert_eq!(b.heard.sources, [format!("px {good}")]);
}

//! Who connects to a source's TCP session.

use std::io::Read;
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use net::clock::ManualClock;
use testkit::watchdog::WATCHDOG;
use tickcast_messaging::{
    LbtruConfig, MessagingConfig, Source, SourceEvent, TcpConfig, Transport, TransportSession,
};

use crate::common::{Party, config};
use crate::{SHORT, clock, idle, on_clock, until_at_once, until_by};

pub(crate) fn address_of(party: &Party, source: Source) -> SocketAddr {
    match party.context.source_transport(source) {
        Some(TransportSession::Tcp { address, .. }) => address.into(),
        other => panic!("{other:?}"),
    }
}

fn plain(test: u8) -> MessagingConfig {
    MessagingConfig { transport: Transport::Tcp, ..config(test) }
}

fn encrypted(test: u8) -> MessagingConfig {
    let file = |name: &str| Some(format!("{}/../../io/net/testdata/tls/{name}", env!("CARGO_MANIFEST_DIR")));
    let base = plain(test);
    MessagingConfig {
        tcp: TcpConfig {
            tls_certificate_file: file("server.pem"),
            tls_key_file: file("server.key"),
            tls_ca_file: file("ca.pem"),
            ..base.tcp
        },
        ..base
    }
}

/// A source and a receiver that hears it.
fn pair(config: &MessagingConfig, clock: &ManualClock) -> (Party, Source, Party) {
    let (mut a, mut b) = (on_clock(config, clock, 1), on_clock(config, clock, 2));
    let source = a.source("px");
    b.receiver("px");
    until_by(clock, SHORT, &mut [&mut a, &mut b], |p| {
        p[0].context.send(source, &[b"hello"]).expect("there is room");
        !p[1].heard.payloads.is_empty()
    });
    (a, source, b)
}

/// What comes has an end. TLS may say goodbye first.
pub(crate) fn assert_closed(stranger: &mut TcpStream) {
    stranger.set_read_timeout(Some(WATCHDOG)).expect("not zero");
    stranger.read_to_end(&mut Vec::new()).expect("the connection is closed, and not by a reset");
}

/// How many long messages were heard.
fn long(party: &Party) -> usize {
    party.heard.payloads.iter().filter(|payload| payload.len() == LONG.len()).count()
}

const LONG: &[u8] = &[7; 10_000];

/// Sends many messages, and has them heard, while no time passes.
fn send_all(a: &mut Party, source: Source, b: &mut Party) {
    let (mut sent, before) = (0, long(b));
    until_at_once(&mut [a, b], |p| {
        while sent < MESSAGES && p[0].context.send(source, &[LONG]).is_ok() {
            sent += 1;
        }
        long(p[1]) == before + MESSAGES
    });
    assert_eq!(b.heard.lost, 0);
}

/// More than all buffers of a connection hold.
const MESSAGES: usize = 3_000;

#[test]
fn who_does_not_complete_the_handshake_holds_nothing_up_and_is_closed_in_time() {
    let (config, clock) = (encrypted(1), clock());
    let (mut a, source, mut b) = pair(&config, &clock);
    let counters = a.counters.tcp_source.clone();
    let mut silent = [(); 3].map(|()| TcpStream::connect(address_of(&a, source)).expect("it listens"));
    until_at_once(&mut [&mut a], |_| counters.handshakes_open.get() == 3);
    send_all(&mut a, source, &mut b);
    assert_eq!((counters.num_clients.get(), counters.handshakes_open.get()), (1, 3));
    let come =
        |p: &Party| p.heard.events.iter().any(|(_, e)| matches!(e, SourceEvent::ReceiverDisconnected(_)));
    clock.set(clock.now() + Duration::from_micros(config.tcp.handshake_timeout_us));
    until_at_once(&mut [&mut a], |_| counters.handshakes_timed_out.get() == 3);
    assert_eq!((counters.handshakes_open.get(), counters.num_clients.get()), (0, 1));
    assert!(!come(&a) && counters.clients_lost.get() == 0, "no receiver was lost");
    silent.iter_mut().for_each(assert_closed);
    send_all(&mut a, source, &mut b);
}

#[test]
fn too_many_handshakes_displace_the_oldest_and_a_receiver_still_gets_in() {
    let base = encrypted(2);
    let config = MessagingConfig { tcp: TcpConfig { maximum_handshakes: 2, ..base.tcp }, ..base };
    let clock = clock();
    let (mut a, source, mut b) = pair(&config, &clock);
    let counters = a.counters.tcp_source.clone();
    let mut connect = || {
        let stranger = TcpStream::connect(address_of(&a, source)).expect("it listens");
        let before = counters.handshakes_open.get() + counters.handshakes_displaced.get();
        until_at_once(&mut [&mut a], |_| {
            counters.handshakes_open.get() + counters.handshakes_displaced.get() > before
        });
        stranger
    };
    let (mut first, _second) = (connect(), connect());
    assert_eq!(counters.handshakes_displaced.get(), 0);
    let _third = connect();
    assert_eq!((counters.handshakes_open.get(), counters.handshakes_displaced.get()), (2, 1));
    assert_closed(&mut first);
    let mut c = on_clock(&config, &clock, 3);
    c.receiver("px");
    until_by(&clock, SHORT, &mut [&mut a, &mut b, &mut c], |p| {
        p[0].context.send(source, &[b"to both"]).expect("there is room");
        !p[2].heard.payloads.is_empty()
    });
    assert_eq!(counters.num_clients.get(), 2);
}

#[test]
fn who_takes_nothing_holds_a_plain_session_up_once_for_the_time_configured() {
    let (config, clock) = (plain(3), clock());
    let (mut a, source, mut b) = pair(&config, &clock);
    let counters = a.counters.tcp_source.clone();
    let silent = TcpStream::connect(address_of(&a, source)).expect("it listens");
    until_at_once(&mut [&mut a], |_| counters.num_clients.get() == 2);
    let mut sent = 0;
    // Until all that is sent was heard by the one, and still there is no room: it is the other's fault.
    until_at_once(&mut [&mut a, &mut b], |p| {
        let is_full = p[0].context.send(source, &[LONG]).is_err();
        sent += usize::from(!is_full);
        is_full && long(p[1]) == sent
    });
    let timeout = Duration::from_micros(config.tcp.receiver_stopped_timeout_us);
    idle(&mut [&mut a, &mut b]);
    clock.set(clock.now() + (timeout - Duration::from_nanos(1)));
    idle(&mut [&mut a, &mut b]);
    assert_eq!(counters.receivers_stopped.get(), 0);
    clock.set(clock.now() + Duration::from_nanos(1));
    until_at_once(&mut [&mut a], |_| counters.receivers_stopped.get() == 1);
    let peer = silent.local_addr().expect("connected");
    until_at_once(&mut [&mut a], |p| {
        p[0].heard.events.contains(&(source, SourceEvent::ReceiverTooSlow(peer)))
    });
    assert!(a.heard.events.contains(&(source, SourceEvent::WakeUp)), "there is room again");
    send_all(&mut a, source, &mut b);
    assert_eq!((counters.receivers_stopped.get(), counters.num_clients.get()), (1, 2));
    assert!(counters.lbm_msgs_passed_over.get() > 0);
}

#[test]
fn a_receiver_that_was_passed_over_is_told_what_it_lost_and_sets_the_pace_again() {
    let (config, clock) = (plain(4), clock());
    let (mut a, source, mut b) = pair(&config, &clock);
    let mut slow = on_clock(&config, &clock, 3);
    slow.receiver("px");
    until_by(&clock, SHORT, &mut [&mut a, &mut b, &mut slow], |p| {
        p[0].context.send(source, &[b"to both"]).expect("there is room");
        !p[2].heard.payloads.is_empty()
    });
    let counters = a.counters.tcp_source.clone();
    let step = Duration::from_micros(config.tcp.receiver_stopped_timeout_us / 4);
    until_by(&clock, step, &mut [&mut a, &mut b], |p| {
        while p[0].context.send(source, &[LONG]).is_ok() && counters.receivers_stopped.get() == 0 {}
        counters.receivers_stopped.get() == 1
    });
    a.context.send(source, &[b"last"]).expect("there is room");
    let has_all = |p: &Party| p.heard.payloads.last().is_some_and(|last| last == b"last");
    until_at_once(&mut [&mut a, &mut b, &mut slow], |p| has_all(p[1]) && has_all(p[2]));
    assert!(slow.heard.lost > 0 && u64::from(slow.heard.lost) <= counters.lbm_msgs_passed_over.get());
    assert_eq!((slow.heard.next(), b.heard.lost), (b.heard.next(), 0), "every message is heard or told");
    let lost = slow.heard.lost;
    // It takes what it is given: it is waited for as before.
    let mut sent = 0;
    until_at_once(&mut [&mut a, &mut b, &mut slow], |p| {
        sent += usize::from(sent < MESSAGES && p[0].context.send(source, &[LONG]).is_ok());
        sent == MESSAGES
    });
    assert_eq!((slow.heard.lost, counters.receivers_stopped.get()), (lost, 1));
}

#[test]
fn connections_are_limited_for_each_address_and_to_the_networks_that_are_allowed() {
    let base = plain(5);
    let config = MessagingConfig { tcp: TcpConfig { maximum_clients_per_address: 2, ..base.tcp }, ..base };
    let clock = clock();
    let (mut a, source, mut b) = pair(&config, &clock);
    let counters = a.counters.tcp_source.clone();
    let connect = |a: &Party| TcpStream::connect(address_of(a, source)).expect("it listens");
    let mut strangers = [connect(&a), connect(&a)];
    until_at_once(&mut [&mut a], |_| counters.clients_refused.get() == 1);
    assert_eq!(counters.num_clients.get(), 2);
    assert_closed(&mut strangers[1]);
    drop(strangers);
    until_at_once(&mut [&mut a], |_| counters.num_clients.get() == 1);
    let another = connect(&a);
    until_at_once(&mut [&mut a], |_| counters.num_clients.get() == 2);
    drop(another);
    send_all(&mut a, source, &mut b);

    let narrow = "10.29.0.0/16".parse().expect("a network");
    let base = plain(6);
    let config = MessagingConfig { tcp: TcpConfig { allowed_networks: vec![narrow], ..base.tcp }, ..base };
    let mut a = on_clock(&config, &clock, 1);
    let source = a.source("px");
    let mut stranger = TcpStream::connect(address_of(&a, source)).expect("it listens");
    let counters = a.counters.tcp_source.clone();
    until_at_once(&mut [&mut a], |_| counters.clients_not_allowed.get() == 1);
    assert_closed(&mut stranger);
    assert_eq!(counters.num_clients.get(), 0);
}

#[test]
fn a_session_of_reliable_unicast_answers_the_networks_that_are_allowed() {
    let clock = clock();
    for (test, network, is_heard) in [(8, "127.0.0.0/8", true), (9, "10.29.0.0/16", false)] {
        let allowed_networks = vec![network.parse().expect("a network")];
        let base = config(test);
        let config = MessagingConfig {
            transport: Transport::LbtRu,
            lbtru: LbtruConfig { allowed_networks, ..base.lbtru },
            ..base
        };
        let (mut a, mut b) = (on_clock(&config, &clock, 1), on_clock(&config, &clock, 2));
        let source = a.source("px");
        b.receiver("px");
        until_by(&clock, SHORT, &mut [&mut a, &mut b], |p| {
            // Without receivers nothing is kept: this may be refused for a while.
            let _ = p[0].context.send(source, &[b"hello"]);
            !p[1].heard.payloads.is_empty() || p[0].counters.context.clients_not_allowed.get() > 10
        });
        assert_eq!(!b.heard.payloads.is_empty(), is_heard, "{network}");
        let is_connected =
            |event: &(Source, SourceEvent)| matches!(event.1, SourceEvent::ReceiverConnected(_));
        assert_eq!(a.heard.events.iter().any(is_connected), is_heard, "{network}");
    }
}

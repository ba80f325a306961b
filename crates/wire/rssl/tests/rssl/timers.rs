//! Pings, silence, slow handshakes: all under a clock that the test moves.

use std::time::Duration;

use tickcast_rssl::{ClientConfig, CloseReason, ConnectionVersion, Disconnect, PeerError, ServerConfig};
use units::Nanos;

use crate::support::*;

const SECOND: u64 = 1_000_000_000;

fn at(seconds: u64) -> Nanos {
    Nanos(seconds * SECOND)
}

#[test]
fn idle_ends_ping_each_other_for_hours_and_stay() {
    let mut ends = Ends::connected(ConnectionVersion::V14);
    let mut wakeups = 0;
    while ends.now < at(4 * 3600) {
        ends.now = ends.server.next_wakeup().min(ends.client.next_wakeup());
        ends.server.on_wakeup(ends.now).expect("the client pings");
        ends.client.on_wakeup(ends.now).expect("the server pings");
        ends.exchange().expect("pings are frames");
        wakeups += 1;
    }
    assert_eq!(wakeups, 4 * 360, "one wake-up each third of 30 s");
    for counters in [&ends.server_counters, &ends.client_counters] {
        assert_eq!((counters.pings_out.get(), counters.pings_in.get()), (1440, 1440));
        assert_eq!(counters.frames_out.get(), 1440);
    }
    assert!(ends.at_server.messages.is_empty() && ends.at_client.messages.is_empty());
}

#[test]
fn who_writes_does_not_ping() {
    let mut ends = Ends::connected(ConnectionVersion::V14);
    for tick in 1..=6 {
        ends.now = at(10 * tick);
        ends.server.outbound().push(b"update").expect("within the backlog");
        ends.exchange().expect("our own frames");
        ends.server.on_wakeup(ends.now).expect("the client pings");
        ends.client.on_wakeup(ends.now).expect("the server writes");
        ends.exchange().expect("our own frames");
    }
    assert_eq!(ends.server_counters.pings_out.get(), 0);
    assert_eq!(ends.client_counters.pings_out.get(), 6);
}

#[test]
fn a_ping_waits_behind_nothing() {
    // The socket takes nothing: data already waits, a ping would be of no use.
    let mut ends = Ends::connected(ConnectionVersion::V14);
    ends.server.outbound().push(b"update").expect("within the backlog");
    for tick in [10, 20] {
        ends.server.on_wakeup(at(tick)).expect("the client was heard at 0");
        assert_eq!(ends.server.outbound().pending(), b"\0\x09\x02update");
    }
    assert_eq!(ends.server_counters.pings_out.get(), 0);
}

#[test]
fn a_silent_peer_is_dropped_after_its_timeout() {
    let (mut server, _) = active_server(ServerConfig::default(), &counters());
    server.on_bytes(at(7), b"\0\x03\x02", &mut Recorder::default()).expect("a ping");
    let end = loop {
        let now = server.next_wakeup();
        if let Err(reason) = server.on_wakeup(now) {
            break (now, reason);
        }
    };
    assert_eq!(end, (at(37), CloseReason::Peer(PeerError::Silent { limit_ms: 30_000 })));
    assert_eq!(server.next_wakeup(), Nanos::NEVER);
    assert_eq!(server.on_wakeup(at(100)), Err(end.1));
}

#[test]
fn a_single_byte_is_a_sign_of_life() {
    let (mut server, _) = active_server(ServerConfig::default(), &counters());
    for second in 1..100 {
        if second % 25 == 0 {
            server.on_bytes(at(second), &[0], &mut Recorder::default()).expect("part of a frame");
            break;
        }
    }
    for tick in [10, 20, 30, 40, 50] {
        server.on_wakeup(at(tick)).expect("heard at 25");
    }
    assert!(server.on_wakeup(at(55)).is_err());
}

#[test]
fn a_server_that_slept_does_not_blame_its_clients() {
    let counters = counters();
    let (mut server, _) = active_server(ServerConfig::default(), &counters);
    server.on_wakeup(at(300)).expect("290 s are the server's own fault");
    assert_eq!(counters.stalls.get(), 1);
    server.on_wakeup(at(310)).expect("20 s of silence");
    assert_eq!(server.on_wakeup(at(320)), Err(CloseReason::Peer(PeerError::Silent { limit_ms: 30_000 })));
}

#[test]
fn a_client_follows_the_session_flags_of_the_ack() {
    // A server of old that sends no pings and wants none.
    let (_, mut ack) = active_server(ServerConfig::default(), &counters());
    ack[12] = 0;
    let counters = counters();
    let mut client = client(ConnectionVersion::V13, &counters);
    client.on_bytes(Nanos::ZERO, &ack, &mut Recorder::default()).expect("a good ack");
    take(client.outbound());
    for tick in 1..100 {
        client.on_wakeup(at(10 * tick)).expect("the server may be silent");
    }
    assert_eq!(counters.pings_out.get(), 0);
}

#[test]
fn a_handshake_has_a_deadline_that_single_bytes_do_not_move() {
    let counters = counters();
    let config = ServerConfig { handshake_timeout: Duration::from_secs(15), ..ServerConfig::default() };
    let mut server = server_with(config, &counters);
    assert_eq!(server.next_wakeup(), at(15));
    for (second, byte) in request(ConnectionVersion::V14).into_iter().take(14).enumerate() {
        server.on_bytes(at(second as u64), &[byte], &mut Recorder::default()).expect("part of a request");
        server.on_wakeup(at(second as u64)).expect("there is time");
        assert_eq!(server.next_wakeup(), at(15));
    }
    let end = server.on_wakeup(at(15));
    assert_eq!(end, Err(CloseReason::Peer(PeerError::HandshakeTimeout { limit_ms: 15_000 })));
    assert_eq!(counters.closed_handshake_timeout.get(), 1);
}

#[test]
fn waiting_for_the_key_has_the_same_deadline() {
    let mut server = server(&counters());
    server
        .on_bytes(at(14), &request(ConnectionVersion::V14), &mut Recorder::default())
        .expect("a good request");
    assert_eq!(server.next_wakeup(), at(15));
    assert!(server.on_wakeup(at(15)).is_err());
}

#[test]
fn a_client_waits_five_seconds_for_the_ack() {
    let mut client = client_with(ClientConfig::default(), ConnectionVersion::V14, &counters());
    assert_eq!(client.next_wakeup(), at(5));
    client.on_wakeup(Nanos(5 * SECOND - 1)).expect("there is time");
    let end = CloseReason::Peer(PeerError::HandshakeTimeout { limit_ms: 5000 });
    assert_eq!(client.on_wakeup(at(5)), Err(end));
    assert_eq!(client.on_disconnected(Disconnect::EndOfStream), end, "no fall-back after a time-out");
}

#[test]
fn the_wake_up_does_not_move_with_each_message() {
    let (mut server, _) = active_server(ServerConfig::default(), &counters());
    for second in 0..10 {
        server.on_bytes(at(second), b"\0\x04\x02x", &mut Recorder::default()).expect("a good frame");
        assert_eq!(server.next_wakeup(), at(10));
    }
}

#[test]
fn a_sign_of_life_from_elsewhere_counts_as_heard() {
    let (mut server, _) = active_server(ServerConfig::default(), &counters());
    for tick in [10, 20, 30, 40, 50] {
        server.on_sign_of_life(at(tick));
        server.on_wakeup(at(tick)).expect("it lives");
    }
    for tick in [60, 70] {
        server.on_wakeup(at(tick)).expect("it lived at 50");
    }
    assert!(server.on_wakeup(at(80)).is_err());
}

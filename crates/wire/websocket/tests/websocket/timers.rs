//! Pings and time-outs.

use std::sync::Arc;
use std::time::Duration;

use tickcast_websocket::frame::{Head, Opcode};
use tickcast_websocket::{
    CloseReason, Disconnect, JSON_PING, Message, PeerError, ServerConfig, ServerConnection,
};
use units::Nanos;

use crate::support::*;

fn at(seconds: u64) -> Nanos {
    Nanos(seconds * 1_000_000_000)
}

/// The text of the one frame pending.
fn pending_text(server: &mut ServerConnection) -> String {
    let bytes = take(server.outbound());
    let Some(start) = bytes.first_chunk() else { return String::new() };
    let size = Head::length_of(*start);
    assert_eq!(Head::parse(&bytes[..size]).expect("our own frame").opcode, Opcode::Text);
    String::from_utf8(bytes[size..].to_vec()).expect("our own text")
}

fn spoken() -> ServerConnection {
    let mut server = open_server(ServerConfig::default(), "", &Arc::default());
    server.outbound().push(Message::Text("[]")).expect("there is room");
    take(server.outbound());
    server
}

#[test]
fn a_client_is_pinged_when_it_says_nothing_though_it_gets_updates() {
    let mut server = spoken();
    server.on_wakeup(at(10)).expect("in time");
    assert_eq!(pending_text(&mut server), "", "the upgrade was within the last ten seconds");
    server.outbound().push(Message::Text("[1]")).expect("there is room");
    take(server.outbound());
    server.on_wakeup(at(20)).expect("in time");
    assert_eq!(pending_text(&mut server), JSON_PING);
}

#[test]
fn a_client_that_gets_nothing_is_pinged_though_it_speaks() {
    let mut server = spoken();
    server.on_wakeup(at(10)).expect("in time");
    for second in [20, 30, 40, 50] {
        server.on_bytes(at(second), &masked(0x81, b"{}"), &mut Recorder::default()).expect("it is good");
        server.on_wakeup(at(second)).expect("in time");
        assert_eq!(
            pending_text(&mut server) == JSON_PING,
            second % 20 == 0,
            "{second}: a ping is output, too"
        );
    }
}

#[test]
fn nobody_is_pinged_before_the_first_message_to_it() {
    let mut server = open_server(ServerConfig::default(), "", &Arc::default());
    for second in [10, 20] {
        server.on_wakeup(at(second)).expect("in time");
        assert_eq!(pending_text(&mut server), "");
    }
    assert_eq!(server.on_wakeup(at(30)), Err(PeerError::Silent { limit_ms: 30_000 }.into()));
    assert_eq!(take(server.outbound()), [0x88, 2, 0x03, 0xe9], "going away");
}

#[test]
fn any_frame_is_a_sign_of_life() {
    let mut server = spoken();
    for second in (10..300).step_by(10) {
        server.on_bytes(at(second), &masked(0x8a, b""), &mut Recorder::default()).expect("it is good");
        server.on_wakeup(at(second)).expect("in time");
    }
    assert_eq!(server.on_wakeup(at(310)).and(server.on_wakeup(at(319))), Ok(()));
    let reason = (320..340).find_map(|second| server.on_wakeup(at(second)).err());
    assert_eq!(reason, Some(PeerError::Silent { limit_ms: 30_000 }.into()));
}

#[test]
fn an_upgrade_that_does_not_come_is_not_waited_for() {
    let config = ServerConfig { handshake_timeout: Duration::from_secs(5), ..ServerConfig::default() };
    let mut server = server_with(config, &Arc::default());
    assert_eq!(server.next_wakeup(), at(5));
    server.on_bytes(at(4), b"GET / HTT", &mut Recorder::default()).expect("it may go on");
    assert_eq!(server.on_wakeup(at(4)), Ok(()));
    let reason = CloseReason::Peer(PeerError::HandshakeTimeout { limit_ms: 5_000 });
    assert_eq!(server.on_wakeup(at(5)), Err(reason));
    assert_eq!(server.on_disconnected(Disconnect::EndOfStream), reason, "the first reason stays");
}

#[test]
fn a_client_takes_over_the_timeout_of_its_server() {
    let mut ends = Ends::new(false);
    ends.exchange(at(0), 1000).expect("our own ends");
    ends.client.set_ping_timeout(at(0), Duration::from_secs(6));
    ends.client.outbound().push(Message::Text("{}")).expect("there is room");
    ends.exchange(at(0), 1000).expect("our own ends");
    for second in [2, 4] {
        ends.client.on_wakeup(at(second)).expect("in time");
    }
    ends.exchange(at(4), 1000).expect("our own ends");
    assert_eq!(ends.at_server.texts().last(), Some(&JSON_PING));
    assert_eq!(ends.client.on_wakeup(at(6)), Err(PeerError::Silent { limit_ms: 6_000 }.into()));
}

#[test]
fn an_idle_connection_gives_its_memory_back() {
    let mut server = spoken();
    let mut seen = Recorder::default();
    server.on_bytes(at(1), &masked(0x81, &[b'x'; 100_000]), &mut seen).expect("it is good");
    server.outbound().push(Message::Text(&"y".repeat(100_000))).expect("there is room");
    take(server.outbound());
    for second in [10, 20] {
        server.on_wakeup(at(second)).expect("in time");
        take(server.outbound());
    }
    assert!(server.memory_bytes() < 1024, "{}", server.memory_bytes());
}

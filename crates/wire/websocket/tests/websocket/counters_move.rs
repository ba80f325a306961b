//! Every counter of the table has a scenario that moves it, and every way to end a connection its own
//! counter.

use std::sync::Arc;

use counters::CounterSet;
use counters::table::WebSocketConnections;
use tickcast_websocket::{Disconnect, Limits, Message, ServerConfig, ServerConnection, Stop};
use units::Nanos;

use crate::support::*;

type Counters = Arc<WebSocketConnections>;
type Scenario = fn(&Counters);

fn values(counters: &WebSocketConnections) -> Vec<(&'static str, u64)> {
    let mut values = Vec::new();
    counters.values(&mut values);
    let name = |full: &'static str| {
        let name = full.strip_prefix("websocket_").unwrap_or(full);
        name.strip_suffix("_total").unwrap_or(name)
    };
    counters.descriptors().iter().map(|d| name(d.name)).zip(values).collect()
}

fn open(counters: &Counters) -> ServerConnection {
    let limits = Limits { message_bytes_max: 4096, backlog_bytes_max: 64 << 10, ..Limits::default() };
    open_server(ServerConfig { limits, ..ServerConfig::default() }, DEFLATE, counters)
}

fn reads(counters: &Counters, bytes: &[u8]) {
    let _ = open(counters).on_bytes(Nanos::ZERO, bytes, &mut Recorder::default());
}

fn asked(counters: &Counters, bytes: &[u8]) {
    let mut server = server_with(ServerConfig::default(), counters);
    let _ = server.on_bytes(Nanos::ZERO, bytes, &mut Recorder::default());
}

fn from_elsewhere(counters: &Counters) {
    let mut recorder = Recorder { is_foreign: true, ..Recorder::default() };
    let _ = server_with(ServerConfig::default(), counters).on_bytes(Nanos::ZERO, &request(""), &mut recorder);
}

fn sends(counters: &Counters, length: usize) -> ServerConnection {
    let mut server = open(counters);
    server.outbound().push(Message::Text(&"x".repeat(length))).expect("there is room");
    server
}

fn pinged(counters: &Counters) {
    let mut server = sends(counters, 1);
    take(server.outbound());
    for second in [10, 20] {
        server.on_wakeup(Nanos(second * 1_000_000_000)).expect("in time");
    }
}

fn refused_for_want_of_room(counters: &Counters) {
    let mut server = sends(counters, 60 << 10);
    let stop = server.outbound().push(Message::Text(&"x".repeat(8 << 10))).expect_err("no room");
    server.stop(stop);
}

fn silent(counters: &Counters) {
    let mut server = open(counters);
    for second in [10, 20, 30] {
        let _ = server.on_wakeup(Nanos(second * 1_000_000_000));
    }
}

fn too_late(counters: &Counters) {
    let _ = server_with(ServerConfig::default(), counters).on_wakeup(Nanos(15_000_000_000));
}

fn sent_too_early(counters: &Counters) {
    let mut server = server_with(ServerConfig::default(), counters);
    let stop = server.outbound().push(Message::Text("x")).expect_err("not yet open");
    server.stop(stop);
}

fn ends(counters: &Counters, stop: Stop) {
    open(counters).stop(stop);
}

fn ended(counters: &Counters, cause: Disconnect) {
    open(counters).on_disconnected(cause);
}

const SCENARIOS: [(&str, Scenario); 38] = [
    ("accepted", |c| drop(open(c))),
    ("active", |c| std::mem::forget(open(c))),
    ("compressed_connections", |c| drop(open(c))),
    ("upgrades_refused", |c| asked(c, b"GET / HTTP/1.1\r\n\r\n")),
    ("origins_refused", from_elsewhere),
    ("bytes_in", |c| reads(c, &[])),
    ("frames_in", |c| reads(c, &masked(0x81, b"x"))),
    ("messages_in", |c| reads(c, &masked(0x81, b"x"))),
    ("fragments_in", |c| reads(c, &masked(0x01, b"x"))),
    ("compressed_messages_in", |c| reads(c, &masked(0xc1, &[0xf2, 0x48, 0xcd, 0xc9, 0xc9, 0x07, 0x00]))),
    ("pings_in", |c| reads(c, &masked(0x89, b""))),
    ("pongs_in", |c| reads(c, &masked(0x8a, b""))),
    ("bytes_out", |c| drop(open(c))),
    ("frames_out", |c| drop(sends(c, 1))),
    ("messages_out", |c| drop(sends(c, 1))),
    ("pings_out", pinged),
    ("pongs_out", |c| reads(c, &masked(0x89, b""))),
    ("backlog_bytes", |c| std::mem::forget(sends(c, 100))),
    ("backlog_high_water_bytes", |c| drop(sends(c, 100))),
    ("backlog_refusals", refused_for_want_of_room),
    ("stalls", |c| assert_eq!(open(c).on_wakeup(Nanos(25_000_000_000)), Ok(()))),
    ("closed_by_peer", |c| reads(c, &masked(0x88, b""))),
    ("closed_disconnected", |c| ended(c, Disconnect::EndOfStream)),
    ("closed_socket_error", |c| ended(c, Disconnect::SocketError)),
    ("closed_application", |c| ends(c, Stop::Application)),
    ("closed_slow_consumer", refused_for_want_of_room),
    ("closed_stalled", |c| ends(c, Stop::Stalled { waited_ms: 1 })),
    ("closed_misuse", sent_too_early),
    ("closed_dropped", |c| drop(open(c))),
    ("closed_refused", |c| asked(c, b"GET / HTTP/1.1\r\n\r\n")),
    ("closed_handshake_timeout", too_late),
    ("closed_silent", silent),
    ("closed_not_http", |c| asked(c, b"\0")),
    ("closed_upgrade", |c| asked(c, &[b'A'; 20_000])),
    ("closed_frame", |c| reads(c, &masked(0x83, b""))),
    ("closed_utf8", |c| reads(c, &masked(0x81, &[0xff]))),
    ("closed_deflate", |c| reads(c, &masked(0xc1, &[0xff; 9]))),
    ("closed_message_length", |c| reads(c, &masked(0x81, &[b'x'; 5000]))),
];

#[test]
fn every_counter_has_a_scenario_that_moves_it() {
    let names: Vec<&str> = values(&WebSocketConnections::default()).iter().map(|(name, _)| *name).collect();
    let covered: Vec<&str> = SCENARIOS.iter().map(|(name, _)| *name).collect();
    assert_eq!(names, covered);
    for (name, scenario) in SCENARIOS {
        let counters = Counters::default();
        scenario(&counters);
        let value = values(&counters).into_iter().find(|(n, _)| *n == name).expect("it is in the table").1;
        assert!(value > 0, "{name}");
    }
}

#[test]
fn every_connection_ends_with_exactly_one_count_and_leaves_the_gauges() {
    for (name, scenario) in SCENARIOS.iter().filter(|(name, _)| !matches!(*name, "active" | "backlog_bytes"))
    {
        let counters = Counters::default();
        scenario(&counters);
        let values = values(&counters);
        let ends: u64 = values.iter().filter(|(n, _)| n.starts_with("closed_")).map(|(_, value)| value).sum();
        assert_eq!(ends, 1, "{name}");
        assert_eq!((counters.active.get(), counters.backlog_bytes.get()), (0, 0), "{name}");
    }
}

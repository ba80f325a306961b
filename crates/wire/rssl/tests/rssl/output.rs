//! The way out: backlog, limits, batches of a fan-out worker, memory.

use std::sync::Arc;

use counters::table::RsslConnections;
use tickcast_rssl::{
    ApiMisuse, ConnectionVersion, Limits, Outbound, SendError, ServerConfig, ServerConnection,
};
use units::{Nanos, Rng};

use crate::support::*;

const LIMIT: usize = 64 << 10;

fn small_backlog() -> (ServerConnection, Arc<RsslConnections>) {
    let counters = counters();
    let limits = Limits { backlog_bytes_max: LIMIT, ..Limits::default() };
    let (server, _) = active_server(ServerConfig { limits, ..ServerConfig::default() }, &counters);
    (server, counters)
}

fn push(outbound: &mut Outbound, message: &[u8]) {
    outbound.push(message).expect("within the limit");
}

#[test]
fn nothing_can_be_pushed_before_the_handshake() {
    let mut server = server(&counters());
    for bytes in [0, 10, 1 << 20, 1 << 24] {
        let refused = server.outbound().push(&vec![0; bytes]).map(|_| ());
        assert_eq!(refused, Err(SendError::Misuse(ApiMisuse::NotConnected)));
    }
    assert!(server.outbound().flush().is_empty());
}

#[test]
fn pending_holds_whole_frames_only() {
    let (mut server, _) = small_backlog();
    let outbound = server.outbound();
    push(outbound, b"a");
    push(outbound, b"b");
    assert_eq!(outbound.pending(), b"");
    assert_eq!(outbound.depth_bytes(), 9);
    assert_eq!(outbound.flush(), b"\0\x09\x12\0\x01a\0\x01b");
    push(outbound, b"c");
    outbound.consume(4);
    assert_eq!(outbound.pending(), b"\x01a\0\x01b");
    assert_eq!(outbound.flush(), b"\x01a\0\x01b\0\x04\x02c");
}

#[test]
fn at_the_limit_a_push_fails_whole_and_succeeds_when_there_is_room() {
    let (mut server, counters) = small_backlog();
    let outbound = server.outbound();
    let mut pushed = 0u64;
    let error = loop {
        match outbound.push(&message(76, 0)) {
            Ok(_) => pushed += 1,
            Err(error) => break error,
        }
    };
    let SendError::SlowConsumer { pending_bytes, limit_bytes } = error else { panic!("{error}") };
    assert_eq!(limit_bytes, LIMIT);
    assert!(pending_bytes <= LIMIT && pending_bytes > LIMIT - 100, "{pending_bytes}");
    assert_eq!(counters.backlog_refusals.get(), 1);
    let waiting = outbound.flush().len();
    assert_eq!((outbound.depth_bytes(), outbound.high_water_bytes()), (waiting, waiting));
    assert_eq!(counters.backlog_bytes.get(), waiting as u64);
    assert_eq!(counters.messages_out.get(), pushed);
    outbound.consume(1000);
    push(outbound, &message(76, 0));
    assert_eq!(counters.backlog_bytes.get(), waiting as u64 - 1000);
    assert_eq!(counters.backlog_high_water_bytes.get(), waiting as u64);
    assert_eq!(counters.bytes_out.get(), 1000 + ack_bytes());
}

/// Length of the ack that every connection of these tests has sent.
fn ack_bytes() -> u64 {
    active_server(ServerConfig::default(), &counters()).1.len() as u64
}

#[test]
fn a_message_longer_than_the_backlog_is_a_misuse() {
    let (mut server, counters) = small_backlog();
    let error = server.outbound().push(&vec![0; LIMIT]).map(|_| ());
    assert_eq!(error, Err(SendError::Misuse(ApiMisuse::MessageTooLong { bytes: LIMIT, limit_bytes: LIMIT })));
    assert_eq!(counters.backlog_refusals.get(), 0);
    push(server.outbound(), &vec![0; LIMIT - 200]);
}

#[test]
fn a_slow_socket_loses_and_reorders_nothing() {
    let _repeat = testkit::repeat!();
    let (mut server, _) = small_backlog();
    let mut rng = Rng::new(3);
    let mut at_client = Recorder::default();
    let mut client = client(ConnectionVersion::V13, &counters());
    let (_, ack) = active_server(ServerConfig::default(), &counters());
    client.on_bytes(Nanos::ZERO, &ack, &mut at_client).expect("a good ack");
    let (mut sent, mut refused) = (0u64, 0u64);
    for _ in 0..20_000 {
        let outbound = server.outbound();
        match outbound.push(&message(1 + rng.below(500) as usize, sent)) {
            Ok(_) => sent += 1,
            Err(_) => refused += 1,
        }
        if rng.chance(0.3) {
            outbound.flush();
        }
        if rng.chance(0.06) {
            let taken = rng.below(outbound.pending().len() as u64 + 1).min(3000) as usize;
            client.on_bytes(Nanos::ZERO, &outbound.pending()[..taken], &mut at_client).expect("good frames");
            outbound.consume(taken);
        }
    }
    client.on_bytes(Nanos::ZERO, &take(server.outbound()), &mut at_client).expect("good frames");
    assert!(refused > 100, "the socket was too slow at times: {refused}");
    assert_eq!(at_client.messages.len() as u64, sent);
    for (number, received) in at_client.messages.iter().enumerate() {
        assert_eq!(*received, message(received.len(), number as u64));
    }
}

#[test]
fn a_fan_out_worker_keeps_only_what_the_socket_did_not_take() {
    let _repeat = testkit::repeat!();
    let mut ends = Ends::connected(ConnectionVersion::V14);
    let mut rng = Rng::new(4);
    let mut scratch = Vec::new();
    let mut sent = 0u64;
    for round in 0..2000 {
        scratch.clear();
        let outbound = ends.server.outbound();
        if rng.chance(0.2) {
            push(outbound, &message(30, sent));
            sent += 1;
        }
        let mut batch = outbound.batch(&mut scratch);
        for _ in 0..rng.below(100) {
            let length = if rng.chance(0.01) { 10_000 } else { 76 };
            batch.push(&message(length, sent)).expect("not empty");
            sent += 1;
        }
        drop(batch);
        let room = if rng.chance(0.5) { usize::MAX } else { rng.below(9000) as usize };
        let written = if outbound.pending().is_empty() { room.min(scratch.len()) } else { 0 };
        ends.client.on_bytes(Nanos::ZERO, &scratch[..written], &mut ends.at_client).expect("good frames");
        outbound.keep(&scratch, written).expect("within the limit");
        if round % 3 == 0 {
            let bytes = take(outbound);
            ends.client.on_bytes(Nanos::ZERO, &bytes, &mut ends.at_client).expect("good frames");
        }
    }
    ends.exchange().expect("good frames");
    assert_eq!(ends.at_client.messages.len() as u64, sent);
    for (number, received) in ends.at_client.messages.iter().enumerate() {
        assert_eq!(*received, message(received.len(), number as u64), "{number}");
    }
    assert_eq!(ends.server_counters.messages_out.get(), sent);
    assert_eq!(ends.server_counters.bytes_out.get(), ends.client_counters.bytes_in.get());
    assert_eq!(ends.server_counters.frames_out.get(), ends.client_counters.frames_in.get());
    assert_eq!(ends.server_counters.backlog_bytes.get(), 0);
}

#[test]
fn a_batch_comes_after_what_was_pushed_before_it() {
    let (mut server, _) = small_backlog();
    let outbound = server.outbound();
    push(outbound, b"first");
    let mut scratch = Vec::new();
    outbound.batch(&mut scratch).push(b"second").expect("not empty");
    assert_eq!(outbound.pending(), b"\0\x08\x02first");
    assert_eq!(scratch, b"\0\x09\x02second");
    let overtaking = SendError::Misuse(ApiMisuse::Overtaking { pending_bytes: 8 });
    assert_eq!(outbound.keep(&scratch, 1), Err(overtaking));
    outbound.keep(&scratch, 0).expect("within the limit");
    assert_eq!(outbound.flush(), b"\0\x08\x02first\0\x09\x02second");
}

#[test]
fn a_rest_beyond_the_limit_is_a_slow_consumer() {
    let (mut server, counters) = small_backlog();
    let mut scratch = Vec::new();
    let outbound = server.outbound();
    let mut batch = outbound.batch(&mut scratch);
    while batch.len() <= LIMIT + 5000 {
        batch.push(&message(1000, 0)).expect("not empty");
    }
    drop(batch);
    let error = outbound.keep(&scratch, 100).expect_err("more than the limit is left");
    assert_eq!(error, SendError::SlowConsumer { pending_bytes: 0, limit_bytes: LIMIT });
    assert_eq!(counters.backlog_refusals.get(), 1);
}

#[test]
fn a_steady_stream_needs_no_memory_of_its_own() {
    // Same buffers all the time: the sizes do not move after the first rounds, on either side.
    let mut ends = Ends::connected(ConnectionVersion::V14);
    let mut scratch = Vec::with_capacity(32 << 10);
    let mut sizes = Vec::new();
    for round in 0..300 {
        for bytes in [76, 76, 80, 7000, 20_000] {
            push(ends.server.outbound(), &message(bytes, round));
        }
        let outbound = ends.server.outbound();
        scratch.clear();
        scratch.extend_from_slice(outbound.flush());
        outbound.consume(scratch.len());
        for piece in scratch.chunks(1460) {
            ends.client.on_bytes(Nanos::ZERO, piece, &mut ends.at_client).expect("good frames");
        }
        sizes.push((ends.server.memory_bytes(), ends.client.memory_bytes(), scratch.capacity()));
    }
    assert!(sizes[10..].iter().all(|s| *s == sizes[10]), "{:?}", &sizes[..20]);
    assert_eq!(ends.at_client.messages.len(), 1500);
}

#[test]
fn an_overgrown_backlog_shrinks_while_the_connection_stays_busy() {
    let (mut server, _) = active_server(ServerConfig::default(), &counters());
    for _ in 0..100 {
        push(server.outbound(), &message(50_000, 0));
    }
    take(server.outbound());
    assert!(server.memory_bytes() > 4 << 20);
    let mut recorder = Recorder::default();
    for tick in 1..=2 {
        let now = Nanos(tick * 10_000_000_000);
        push(server.outbound(), &message(500, 0));
        take(server.outbound());
        server.on_bytes(now, b"\0\x03\x02", &mut recorder).expect("a ping");
        server.on_wakeup(now).expect("the peer pings");
    }
    assert!(server.memory_bytes() < 70 << 10, "{}", server.memory_bytes());
}

#[test]
fn a_connection_that_only_pings_keeps_no_backlog_buffer() {
    let (mut server, _) = active_server(ServerConfig::default(), &counters());
    push(server.outbound(), &message(50_000, 0));
    server.outbound().flush();
    let mut recorder = Recorder::default();
    for tick in 1..=5 {
        let now = Nanos(tick * 10_000_000_000);
        server.on_bytes(now, b"\0\x03\x02", &mut recorder).expect("a ping");
        server.on_wakeup(now).expect("the peer pings");
        // The socket is stuck at first: the data goes out an interval after it was written, then there are
        // pings only.
        if tick > 1 {
            take(server.outbound());
        }
    }
    assert!(server.memory_bytes() < 1024, "{}", server.memory_bytes());
}

#[test]
#[should_panic(expected = "more than was pending")]
fn consuming_more_than_is_pending_is_a_bug() {
    let (mut server, _) = small_backlog();
    push(server.outbound(), b"abc");
    server.outbound().flush();
    server.outbound().consume(7);
}

#[test]
fn the_gauge_follows_connections_that_go_away() {
    let (mut server, counters) = small_backlog();
    push(server.outbound(), b"abc");
    server.outbound().flush();
    assert_eq!(counters.backlog_bytes.get(), 6);
    drop(server);
    assert_eq!(counters.backlog_bytes.get(), 0);
    assert_eq!((counters.closed_dropped.get(), counters.active.get()), (1, 0));
}

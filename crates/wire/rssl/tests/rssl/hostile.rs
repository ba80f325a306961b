//! Peers that send garbage, nothing, or too much: the right error, the right counter, bounded memory.

use tickcast_rssl::{
    CloseReason, ConnectionVersion, Disconnect, FrameError, HandshakeError, Limits, PeerError, ServerConfig,
    Stop,
};
use units::{Nanos, Rng};

use crate::support::*;

/// Feeds bytes to an active server and tells how it ended.
fn frames_end(bytes: &[u8]) -> FrameError {
    let counters = counters();
    let (mut server, _) = active_server(ServerConfig::default(), &counters);
    let end = server.on_bytes(Nanos::ZERO, bytes, &mut Recorder::default());
    let Err(CloseReason::Peer(PeerError::Frame(error))) = end else { panic!("{bytes:?}: {end:?}") };
    assert_eq!((counters.accepted.get(), counters.active.get()), (1, 0));
    error
}

/// Feeds bytes to a fresh server and tells how it ended.
fn handshake_end(bytes: &[u8]) -> HandshakeError {
    let mut server = server(&counters());
    let end = server.on_bytes(Nanos::ZERO, bytes, &mut Recorder::default());
    let Err(CloseReason::Peer(PeerError::Handshake(error))) = end else { panic!("{bytes:?}: {end:?}") };
    assert!(take(server.outbound()).is_empty(), "no answer to garbage");
    error
}

fn first(id: u16, total_bytes: u32, data: &[u8]) -> Vec<u8> {
    let mut frame = (10 + data.len() as u16).to_be_bytes().to_vec();
    frame.extend_from_slice(&[3, 8]);
    frame.extend_from_slice(&total_bytes.to_be_bytes());
    frame.extend_from_slice(&id.to_be_bytes());
    frame.extend_from_slice(data);
    frame
}

fn next(id: u16, data: &[u8]) -> Vec<u8> {
    let mut frame = (6 + data.len() as u16).to_be_bytes().to_vec();
    frame.extend_from_slice(&[3, 4]);
    frame.extend_from_slice(&id.to_be_bytes());
    frame.extend_from_slice(data);
    frame
}

#[test]
fn frame_lengths_of_zero_two_and_65535_are_refused() {
    for (start, bytes) in [([0, 0, 2], 0), ([0, 2, 2], 2), ([0xff, 0xff, 2], 65_535), ([0x18, 0x04, 2], 6148)]
    {
        assert_eq!(frames_end(&start), FrameError::Length { bytes, limit_bytes: 6147 });
    }
}

#[test]
fn every_illegal_frame_has_its_error() {
    let cases: [(&[u8], FrameError); 12] = [
        (&[0, 4, 0x00, 1], FrameError::Flags { flags: 0x00, extended: 0 }),
        (&[0, 4, 0x10, 1], FrameError::Flags { flags: 0x10, extended: 0 }),
        (&[0, 4, 0x06, 1], FrameError::Flags { flags: 0x06, extended: 0 }),
        (&[0, 5, 0x13, 8, 1], FrameError::Flags { flags: 0x13, extended: 8 }),
        (&[0, 5, 0x03, 12, 1], FrameError::Flags { flags: 0x03, extended: 12 }),
        (&[0, 5, 0x03, 0, 1], FrameError::Flags { flags: 0x03, extended: 0 }),
        (&[0, 3, 0x12], FrameError::Empty { flags: 0x12 }),
        (&[0, 7, 0x12, 0, 9, 1, 2], FrameError::PackedLength { bytes: 9, left_bytes: 2 }),
        (&[0, 9, 3, 8, 0, 0, 0, 1, 1], FrameError::FragmentHeader { bytes: 9, least_bytes: 10 }),
        (&[0, 5, 3, 4, 1], FrameError::FragmentHeader { bytes: 5, least_bytes: 6 }),
        (
            &[0, 10, 3, 8, 0, 0, 0, 0, 0, 1],
            FrameError::FragmentTotal { total_bytes: 0, limit_bytes: 16 << 20 },
        ),
        (
            &[0, 12, 3, 8, 0, 0, 0, 1, 0, 5, 1, 2],
            FrameError::FragmentOverrun { id: 5, bytes: 2, total_bytes: 1 },
        ),
    ];
    for (bytes, error) in cases {
        assert_eq!(frames_end(bytes), error);
    }
}

#[test]
fn a_compressed_frame_without_negotiation_is_a_protocol_error() {
    for flags in [0x04, 0x14, 0x05, 0x0c, 0x1c, 0x0d] {
        let error = frames_end(&[0, 13, flags, 8, 0, 0, 0, 9, 0, 1, 0, 0, 0]);
        let agreed = tickcast_rssl::CompressionType::None;
        assert_eq!(error, FrameError::Compressed { flags, agreed });
    }
}

#[test]
fn messages_before_the_fault_are_delivered_and_none_after_it() {
    let (mut server, _) = active_server(ServerConfig::default(), &counters());
    let mut recorder = Recorder::default();
    let bytes = [0, 4, 2, 1, 0, 10, 0x12, 0, 1, 2, 0, 9, 3, 3, 0, 4, 2, 4];
    assert!(server.on_bytes(Nanos::ZERO, &bytes, &mut recorder).is_err());
    assert_eq!(recorder.messages, [[1], [2]]);
    assert!(server.on_bytes(Nanos::ZERO, &[0, 4, 2, 5], &mut recorder).is_err(), "over is over");
    assert_eq!(recorder.messages.len(), 2);
}

#[test]
fn illegal_connect_requests_have_their_errors() {
    let length = |bytes| HandshakeError::Length {
        message: "connect request",
        bytes,
        least_bytes: 14,
        most_bytes: 513,
    };
    assert_eq!(handshake_end(&[0, 0, 0]), length(0));
    assert_eq!(handshake_end(&[0, 13, 0]), length(13));
    assert_eq!(handshake_end(&[2, 2, 0]), length(514));
    assert_eq!(handshake_end(&[0xff, 0xff, 0xff]), length(65_535));
    assert_eq!(handshake_end(b"GET /WebSocket HTTP/1.1\r\n"), HandshakeError::Http);
    assert_eq!(handshake_end(b"POST / HTTP/1.1\r\n"), HandshakeError::Http);
    assert_eq!(handshake_end(&[0x16, 3, 1, 2, 0]), length(0x1603), "TLS on a plain port");
    let mut bytes = request(ConnectionVersion::V12);
    bytes[8] -= 1;
    assert_eq!(handshake_end(&bytes), HandshakeError::Parts { bytes: 17, parts_bytes: 16 });
}

#[test]
fn an_illegal_client_key_ends_the_handshake() {
    let cases: [(&[u8], HandshakeError); 3] = [
        (
            &[0, 3, 8],
            HandshakeError::Length { message: "client key", bytes: 3, least_bytes: 4, most_bytes: 12 },
        ),
        (&[0, 4, 2, 0], HandshakeError::Flags { message: "client key", flags: 2, extended: 0 }),
        (&[0, 4, 8, 8], HandshakeError::Field { field: "key", end: 12, limit: 4 }),
    ];
    for (key, error) in cases {
        let mut server = server(&counters());
        let mut recorder = Recorder::default();
        server
            .on_bytes(Nanos::ZERO, &request(ConnectionVersion::V14), &mut recorder)
            .expect("a good request");
        let end = server.on_bytes(Nanos::ZERO, key, &mut recorder);
        assert_eq!(end, Err(CloseReason::Peer(error.into())));
        assert!(recorder.sessions.is_empty());
    }
}

#[test]
fn half_a_handshake_ends_with_the_tcp_connection() {
    for version in ConnectionVersion::ALL {
        let whole = request(version);
        for length in 0..whole.len() {
            let counters = counters();
            let mut server = server(&counters);
            server.on_bytes(Nanos::ZERO, &whole[..length], &mut Recorder::default()).expect("not whole yet");
            let end = server.on_disconnected(Disconnect::EndOfStream);
            assert_eq!(end, CloseReason::Disconnected(Disconnect::EndOfStream));
            assert_eq!((counters.closed_disconnected.get(), counters.accepted.get()), (1, 0));
        }
    }
}

#[test]
fn fragment_totals_above_the_ceiling_are_refused_before_memory_is_taken() {
    let (mut server, _) = active_server(ServerConfig::default(), &counters());
    let before = server.memory_bytes();
    let bytes = first(1, (16 << 20) + 1, &[0; 100]);
    let end = server.on_bytes(Nanos::ZERO, &bytes, &mut Recorder::default());
    let error = FrameError::FragmentTotal { total_bytes: (16 << 20) + 1, limit_bytes: 16 << 20 };
    assert_eq!(end, Err(CloseReason::Peer(error.into())));
    assert!(server.memory_bytes() <= before);
}

#[test]
fn announcements_beyond_the_bytes_allowed_are_refused() {
    let (mut server, _) = active_server(ServerConfig::default(), &counters());
    let mut recorder = Recorder::default();
    for id in 1..=2 {
        server.on_bytes(Nanos::ZERO, &first(id, 16 << 20, &[1]), &mut recorder).expect("32 MiB are allowed");
    }
    assert!(server.memory_bytes() < 64 << 10, "announced bytes take no memory");
    let end = server.on_bytes(Nanos::ZERO, &first(3, 2, &[1]), &mut recorder);
    let error = FrameError::FragmentBytes { bytes: (32 << 20) + 2, limit_bytes: 32 << 20 };
    assert_eq!(end, Err(CloseReason::Peer(error.into())));
}

#[test]
fn too_many_open_fragmented_messages_are_refused() {
    let (mut server, _) = active_server(ServerConfig::default(), &counters());
    let mut recorder = Recorder::default();
    for id in 1..=16 {
        server.on_bytes(Nanos::ZERO, &first(id, 100, &[1]), &mut recorder).expect("16 may be open");
    }
    server.on_bytes(Nanos::ZERO, &first(16, 100, &[1]), &mut recorder).expect("the same id replaces");
    let end = server.on_bytes(Nanos::ZERO, &first(17, 100, &[1]), &mut recorder);
    assert_eq!(end, Err(CloseReason::Peer(FrameError::FragmentCount { limit_count: 16 }.into())));
}

#[test]
fn more_fragments_than_announced_are_refused() {
    let (mut server, _) = active_server(ServerConfig::default(), &counters());
    let mut recorder = Recorder::default();
    server.on_bytes(Nanos::ZERO, &first(9, 10, &[1; 6]), &mut recorder).expect("six of ten");
    let end = server.on_bytes(Nanos::ZERO, &next(9, &[1; 5]), &mut recorder);
    let error = FrameError::FragmentOverrun { id: 9, bytes: 11, total_bytes: 10 };
    assert_eq!(end, Err(CloseReason::Peer(error.into())));
}

#[test]
fn unknown_and_replaced_fragments_are_dropped_and_counted() {
    let counters = counters();
    let (mut server, _) = active_server(ServerConfig::default(), &counters);
    let mut recorder = Recorder::default();
    let mut bytes = next(7, b"nobody");
    bytes.extend(first(1, 4, b"ol"));
    bytes.extend(first(1, 4, b"ne"));
    bytes.extend(next(1, b"w!"));
    bytes.extend(first(1, 4, b"ol"));
    bytes.extend(first(1, 3, b"all"));
    bytes.extend(next(1, b"d!"));
    server.on_bytes(Nanos::ZERO, &bytes, &mut recorder).expect("nothing of this is fatal");
    assert_eq!(recorder.messages, [&b"new!"[..], b"all"]);
    assert_eq!(counters.fragments_unknown_in.get(), 2);
    assert_eq!(counters.fragmented_replaced_in.get(), 2);
    assert_eq!(counters.fragments_in.get(), 7);
    assert_eq!(counters.fragmented_messages_in.get(), 2);
}

#[test]
fn the_memory_of_a_hostile_connection_stays_within_the_stated_bound() {
    let _repeat = testkit::repeat!();
    let limits = Limits {
        message_bytes_max: 200_000,
        fragmented_open_max: 16,
        fragmented_bytes_max: 2_000_000,
        backlog_bytes_max: 64 << 10,
    };
    let config = ServerConfig { limits, ..ServerConfig::default() };
    let bound = limits.memory_bytes_max(6144);
    assert_eq!(bound, 2_000_000 + 6147 + 16 * ((128 << 10) + 64) + (128 << 10) + 2048);
    let (mut server, _) = active_server(config, &counters());
    let mut recorder = Recorder::default();
    let mut rng = Rng::new(5);
    let mut most = 0;
    for round in 0..400u32 {
        for id in 1..=10u16 {
            // Nearly whole messages of any size, given up for others before they are complete.
            let total = 7000 + rng.below(193_000) as u32;
            let mut bytes = first(id, total, &[7; 6000]);
            for _ in 0..(total - 6001) / 6000 {
                bytes.extend(next(id, &[7; 6000]));
            }
            bytes.extend_from_slice(&[0x18, 0x03, 2]);
            bytes.resize(bytes.len() + 6143, 7);
            server.on_bytes(Nanos::ZERO, &bytes, &mut recorder).expect("within every limit");
            server.on_bytes(Nanos::ZERO, &[7], &mut recorder).expect("the rest of a frame");
            recorder.messages.clear();
            while server.outbound().push(&message(1 + rng.below(9000) as usize, 0)).is_ok() {}
            let taken = rng.below(server.outbound().flush().len() as u64 + 1) as usize;
            server.outbound().consume(taken);
            most = most.max(server.memory_bytes() as u64);
        }
        assert!(most <= bound, "round {round}: {most} of {bound}");
    }
    assert!(most > bound / 3, "the test comes near the bound: {most} of {bound}");
    server.stop(Stop::Application);
    take(server.outbound());
    let rest = server.memory_bytes() as u64;
    assert!(rest <= 2048 + (128 << 10), "a closed connection holds its unsent bytes only: {rest}");
}

#[test]
fn ten_thousand_idle_connections_use_less_than_a_kibibyte_each() {
    let counters = counters();
    let params = std::sync::Arc::new(ServerConfig::default().check().expect("defaults hold"));
    let mut recorder = Recorder::default();
    let mut servers: Vec<_> = (0..10_000)
        .map(|seed| tickcast_rssl::ServerConnection::new(Nanos::ZERO, &params, &counters, seed))
        .collect();
    for server in &mut servers {
        server
            .on_bytes(Nanos::ZERO, &request(ConnectionVersion::V13), &mut recorder)
            .expect("a good request");
        let large = first(1, 20_000, &[1; 6000]);
        server.on_bytes(Nanos::ZERO, &large[..5000], &mut recorder).expect("part of a frame");
        server.on_bytes(Nanos::ZERO, &large[5000..], &mut recorder).expect("the rest");
        server.on_bytes(Nanos::ZERO, &first(1, 3, b"all"), &mut recorder).expect("a whole message");
        server.outbound().push(&message(10_000, 0)).expect("within the backlog");
        take(server.outbound());
    }
    let busy: usize = servers.iter().map(|s| s.memory_bytes()).sum();
    assert!(busy > 10_000 * 20_000, "buffers are in use: {busy}");
    for second in [10, 20, 30] {
        for server in &mut servers {
            let now = Nanos(second * 1_000_000_000);
            server.on_bytes(now, b"\0\x03\x02", &mut recorder).expect("a ping");
            server.on_wakeup(now).expect("the peer pings");
            take(server.outbound());
        }
    }
    let idle = servers.iter().map(|s| s.memory_bytes()).max().expect("ten thousand");
    assert!(idle < 1024, "{idle} bytes");
    assert_eq!(counters.active.get(), 10_000);
}

#[test]
fn a_handler_can_end_the_connection_and_have_the_last_word() {
    let counters = counters();
    let (mut server, _) = active_server(ServerConfig::default(), &counters);
    let mut recorder = Recorder { stop_at: Some((1, Stop::Application)), ..Recorder::default() };
    server.outbound().push(b"last word").expect("within the backlog");
    let end = server.on_bytes(Nanos::ZERO, &[0, 4, 2, 1, 0, 4, 2, 2, 0, 4, 2, 3], &mut recorder);
    assert_eq!(end, Err(CloseReason::Stopped(Stop::Application)));
    assert_eq!(recorder.messages, [[1]]);
    assert_eq!(take(server.outbound()), b"\0\x0c\x02last word");
    assert_eq!((counters.closed_application.get(), counters.active.get()), (1, 0));
    assert!(server.outbound().push(b"too late").is_err());
}

#[test]
fn an_old_versions_fragment_ids_have_one_byte() {
    let mut server = server(&counters());
    let mut recorder = Recorder::default();
    server.on_bytes(Nanos::ZERO, &request(ConnectionVersion::V12), &mut recorder).expect("a good request");
    let bytes = [0, 10, 3, 8, 0, 0, 0, 3, 5, 1, 0, 7, 3, 4, 5, 2, 3];
    server.on_bytes(Nanos::ZERO, &bytes, &mut recorder).expect("two good fragments");
    assert_eq!(recorder.messages, [[1, 2, 3]]);
}

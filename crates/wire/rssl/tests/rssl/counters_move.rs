//! Every counter of the table has a scenario that moves it, and every way to end a connection its own
//! counter.

use std::sync::Arc;

use counters::CounterSet;
use counters::table::RsslConnections;
use tickcast_rssl::handshake::ConnectRequest;
use tickcast_rssl::{
    Admission, ApiMisuse, ClientConnection, CloseReason, CompressionType, ConnectionVersion, Disconnect,
    Limits, ServerConfig, ServerConnection, Stop,
};
use units::Nanos;

use crate::support::*;

type Scenario = fn(&Arc<RsslConnections>);

fn value(counters: &RsslConnections, name: &str) -> u64 {
    let place =
        counters.descriptors().iter().position(|d| d.name == name).expect("the table has the counter");
    let mut values = Vec::new();
    counters.values(&mut values);
    values[place]
}

fn active(counters: &Arc<RsslConnections>) -> ServerConnection {
    let limits = Limits { backlog_bytes_max: 64 << 10, ..Limits::default() };
    active_server(ServerConfig { limits, ..ServerConfig::default() }, counters).0
}

/// An active server that reads `bytes`.
fn frames(counters: &Arc<RsslConnections>, bytes: &[u8]) {
    let _ = active(counters).on_bytes(Nanos::ZERO, bytes, &mut Recorder::default());
}

/// A fresh server that reads `bytes`.
fn request_bytes(counters: &Arc<RsslConnections>, bytes: &[u8]) {
    let _ = server(counters).on_bytes(Nanos::ZERO, bytes, &mut Recorder::default());
}

/// A fresh server that reads a request.
fn request_of(counters: &Arc<RsslConnections>, request: &ConnectRequest<'_>) {
    let mut bytes = Vec::new();
    request.emit(&mut bytes);
    request_bytes(counters, &bytes);
}

/// A client that reads the ack of a good server with one byte changed.
fn spoilt_ack(counters: &Arc<RsslConnections>, at: usize, byte: u8) {
    let mut server = server(&self::counters());
    server
        .on_bytes(Nanos::ZERO, &request(ConnectionVersion::V14), &mut Recorder::default())
        .expect("a good request");
    let mut ack = take(server.outbound());
    ack[at] = byte;
    let _ = waiting_client(counters).on_bytes(Nanos::ZERO, &ack, &mut Recorder::default());
}

fn waiting_client(counters: &Arc<RsslConnections>) -> ClientConnection {
    client(ConnectionVersion::V14, counters)
}

/// An active server that pushes messages of these lengths, flushed together and taken by the socket.
fn sent(counters: &Arc<RsslConnections>, lengths: &[usize]) {
    let mut server = active(counters);
    for &length in lengths {
        server.outbound().push(&message(length, 0)).expect("within the backlog");
    }
    take(server.outbound());
}

fn shaken(counters: &Arc<RsslConnections>, version: ConnectionVersion) {
    let mut ends = Ends::new(version);
    ends.server = server(counters);
    ends.exchange().expect("our own ends");
}

fn disconnected(counters: &Arc<RsslConnections>, cause: Disconnect) {
    assert_eq!(server(counters).on_disconnected(cause), CloseReason::Disconnected(cause));
}

fn unanswered(counters: &Arc<RsslConnections>) {
    let reason = waiting_client(counters).on_disconnected(Disconnect::SocketError);
    assert!(matches!(reason, CloseReason::Unanswered { .. }));
}

fn stopped(counters: &Arc<RsslConnections>, stop: Stop) {
    assert_eq!(server(counters).stop(stop), CloseReason::Stopped(stop));
}

fn timed_out(counters: &Arc<RsslConnections>) {
    server(counters).on_wakeup(Nanos(15_000_000_000)).expect_err("15 s are over");
}

fn refused(counters: &Arc<RsslConnections>) {
    let mut recorder = Recorder { admission: Admission::Refuse, ..Recorder::default() };
    let _ = server(counters).on_bytes(Nanos::ZERO, &request(ConnectionVersion::V14), &mut recorder);
}

fn naked(counters: &Arc<RsslConnections>) {
    let nak = b"\0\x1c\x01\x02\x08\0\0\x14Connection refused.\0";
    let _ = waiting_client(counters).on_bytes(Nanos::ZERO, nak, &mut Recorder::default());
}

fn woken(counters: &Arc<RsslConnections>, seconds: &[u64]) {
    let mut server = active(counters);
    for second in seconds {
        let _ = server.on_wakeup(Nanos(second * 1_000_000_000));
    }
}

fn overfull(counters: &Arc<RsslConnections>) {
    let mut server = active(counters);
    while server.outbound().push(&[0; 1000]).is_ok() {}
}

/// The gauge is back at zero when a connection goes, so this one stays.
fn kept(counters: &Arc<RsslConnections>) {
    let mut server = active(counters);
    server.outbound().push(b"update").expect("within the backlog");
    server.outbound().flush();
    std::mem::forget(server);
}

/// An active server that compresses.
fn compressing(counters: &Arc<RsslConnections>, kind: CompressionType) -> ServerConnection {
    let config = ServerConfig { compression_forced: Some(kind), ..ServerConfig::default() };
    active_server(config, counters).0
}

/// A server that has agreed on zlib and reads `bytes`.
fn compressed_frames(counters: &Arc<RsslConnections>, bytes: &[u8]) {
    let mut server = compressing(counters, CompressionType::Zlib);
    let _ = server.on_bytes(Nanos::ZERO, bytes, &mut Recorder::default());
}

fn compressed_sent(counters: &Arc<RsslConnections>, message: &[u8]) {
    let mut server = compressing(counters, CompressionType::Zlib);
    server.outbound().push(message).expect("within the backlog");
    take(server.outbound());
}

/// A frame whose zlib stream begins with a stored block of one byte.
const STORED: [u8; 11] = [0, 11, 4, 0x78, 1, 0, 1, 0, 0xfe, 0xff, 7];
const FIRST_1_OF_2: [u8; 11] = [0, 11, 3, 8, 0, 0, 0, 2, 0, 1, 7];
const NEXT: [u8; 7] = [0, 7, 3, 4, 0, 1, 8];
const PACKED: [u8; 9] = [0, 9, 0x12, 0, 1, 1, 0, 1, 2];

const SCENARIOS: &[(&str, Scenario)] = &[
    ("rssl_accepted_total", |c| frames(c, &[])),
    ("rssl_active", |c| std::mem::forget(active(c))),
    ("rssl_handshakes_v10_total", |c| shaken(c, ConnectionVersion::V10)),
    ("rssl_handshakes_v11_total", |c| shaken(c, ConnectionVersion::V11)),
    ("rssl_handshakes_v12_total", |c| shaken(c, ConnectionVersion::V12)),
    ("rssl_handshakes_v13_total", |c| shaken(c, ConnectionVersion::V13)),
    ("rssl_handshakes_v14_total", |c| shaken(c, ConnectionVersion::V14)),
    ("rssl_key_exchanges_total", |c| shaken(c, ConnectionVersion::V14)),
    ("rssl_compression_zlib_total", |c| drop(compressing(c, CompressionType::Zlib))),
    ("rssl_compression_lz4_total", |c| drop(compressing(c, CompressionType::Lz4))),
    ("rssl_compression_forced_total", |c| drop(compressing(c, CompressionType::Zlib))),
    ("rssl_compression_declined_total", |c| {
        request_of(c, &ConnectRequest { compression: 4, ..ConnectRequest::new(ConnectionVersion::V14, 30) });
    }),
    ("rssl_naks_sent_total", refused),
    ("rssl_naks_rcved_total", naked),
    ("rssl_bytes_in_total", |c| frames(c, &[0])),
    ("rssl_bytes_carried_in_total", |c| frames(c, &[0])),
    ("rssl_frames_in_total", |c| frames(c, &[0, 4, 2, 1])),
    ("rssl_messages_in_total", |c| frames(c, &[0, 4, 2, 1])),
    ("rssl_pings_in_total", |c| frames(c, &[0, 3, 2])),
    ("rssl_packed_frames_in_total", |c| frames(c, &PACKED)),
    ("rssl_packed_messages_in_total", |c| frames(c, &PACKED)),
    ("rssl_fragments_in_total", |c| frames(c, &FIRST_1_OF_2)),
    ("rssl_fragmented_messages_in_total", |c| frames(c, &[&FIRST_1_OF_2[..], &NEXT].concat())),
    ("rssl_fragments_unknown_in_total", |c| frames(c, &NEXT)),
    ("rssl_fragmented_replaced_in_total", |c| frames(c, &[FIRST_1_OF_2; 2].concat())),
    ("rssl_compressed_frames_in_total", |c| compressed_frames(c, &STORED)),
    ("rssl_compressed_bytes_in_total", |c| compressed_frames(c, &STORED)),
    ("rssl_expanded_bytes_in_total", |c| compressed_frames(c, &STORED)),
    ("rssl_bytes_out_total", |c| sent(c, &[10])),
    ("rssl_frames_out_total", |c| sent(c, &[10])),
    ("rssl_messages_out_total", |c| sent(c, &[10])),
    ("rssl_pings_out_total", |c| woken(c, &[10])),
    ("rssl_packed_frames_out_total", |c| sent(c, &[10, 20])),
    ("rssl_packed_messages_out_total", |c| sent(c, &[10, 20])),
    ("rssl_fragments_out_total", |c| sent(c, &[7000])),
    ("rssl_fragmented_messages_out_total", |c| sent(c, &[7000])),
    ("rssl_compressed_frames_out_total", |c| compressed_sent(c, &[7; 100])),
    ("rssl_compressed_bytes_out_total", |c| compressed_sent(c, &[7; 100])),
    ("rssl_expanded_bytes_out_total", |c| compressed_sent(c, &[7; 100])),
    ("rssl_split_payloads_out_total", |c| compressed_sent(c, &message(6144, 0))),
    ("rssl_backlog_bytes", kept),
    ("rssl_backlog_high_water_bytes", |c| sent(c, &[10])),
    ("rssl_backlog_refusals_total", overfull),
    ("rssl_stalls_total", |c| woken(c, &[21])),
    ("rssl_closed_disconnected_total", |c| disconnected(c, Disconnect::EndOfStream)),
    ("rssl_closed_socket_error_total", |c| disconnected(c, Disconnect::SocketError)),
    ("rssl_closed_unanswered_total", unanswered),
    ("rssl_closed_application_total", |c| stopped(c, Stop::Application)),
    ("rssl_closed_slow_consumer_total", |c| {
        stopped(c, Stop::SlowConsumer { pending_bytes: 1, limit_bytes: 1 });
    }),
    ("rssl_closed_stalled_total", |c| stopped(c, Stop::Stalled { waited_ms: 1 })),
    ("rssl_closed_misuse_total", |c| stopped(c, Stop::Misuse(ApiMisuse::EmptyMessage))),
    ("rssl_closed_dropped_total", |c| drop(server(c))),
    ("rssl_closed_refused_protocol_total", |c| {
        request_of(
            c,
            &ConnectRequest { protocol_type: 9, ..ConnectRequest::new(ConnectionVersion::V14, 30) },
        );
    }),
    ("rssl_closed_refused_application_total", refused),
    ("rssl_closed_nak_total", naked),
    ("rssl_closed_handshake_timeout_total", timed_out),
    ("rssl_closed_silent_total", |c| woken(c, &[10, 20, 30])),
    ("rssl_closed_http_total", |c| request_bytes(c, b"GET / HTTP/1.1\r\n")),
    ("rssl_closed_handshake_length_total", |c| request_bytes(c, &[0, 13, 0])),
    ("rssl_closed_handshake_flags_total", |c| {
        request_bytes(c, &[[0, 14, 1, 0].as_slice(), &[0; 10]].concat())
    }),
    ("rssl_closed_handshake_field_total", |c| {
        let mut bytes = request(ConnectionVersion::V12);
        bytes[9] = 200;
        request_bytes(c, &bytes);
    }),
    ("rssl_closed_unknown_version_total", |c| request_bytes(c, &[[0, 14].as_slice(), &[0; 12]].concat())),
    ("rssl_closed_ack_version_total", |c| spoilt_ack(c, 9, 8)),
    ("rssl_closed_ack_message_size_total", |c| spoilt_ack(c, 10, 0)),
    ("rssl_closed_ack_ping_timeout_total", |c| spoilt_ack(c, 13, 0)),
    ("rssl_closed_ack_compression_total", |c| spoilt_ack(c, 17, 3)),
    ("rssl_closed_key_exchange_total", |c| spoilt_ack(c, 21, 23)),
    ("rssl_closed_frame_length_total", |c| frames(c, &[0, 2, 2])),
    ("rssl_closed_frame_flags_total", |c| frames(c, &[0, 4, 0, 1])),
    ("rssl_closed_compressed_frame_total", |c| frames(c, &[0, 4, 4, 1])),
    ("rssl_closed_corrupt_payload_total", |c| compressed_frames(c, &[0, 5, 4, 0xff, 0xff])),
    ("rssl_closed_oversized_payload_total", |c| {
        // LZ4 with a match of 6 KiB.
        let mut frame = vec![0, 36, 4, 0x1f, 0, 1, 0];
        frame.resize(35, 255);
        frame.push(0);
        let _ = compressing(c, CompressionType::Lz4).on_bytes(Nanos::ZERO, &frame, &mut Recorder::default());
    }),
    ("rssl_closed_continuation_total", |c| compressed_frames(c, &[0, 4, 12, 0x78, 0, 4, 12, 0x78])),
    ("rssl_closed_empty_frame_total", |c| frames(c, &[0, 3, 0x12])),
    ("rssl_closed_packed_length_total", |c| frames(c, &[0, 6, 0x12, 0, 9, 1])),
    ("rssl_closed_fragment_header_total", |c| frames(c, &[0, 5, 3, 8, 0])),
    ("rssl_closed_fragment_total_total", |c| frames(c, &[0, 11, 3, 8, 0, 0, 0, 0, 0, 1, 7])),
    ("rssl_closed_fragment_overrun_total", |c| {
        frames(c, &[&FIRST_1_OF_2[..], &[0, 8, 3, 4, 0, 1, 8, 8]].concat())
    }),
    ("rssl_closed_fragment_count_total", |c| {
        let ids = (1..=17u8).flat_map(|id| [0, 11, 3, 8, 0, 0, 0, 2, 0, id, 7]);
        frames(c, &ids.collect::<Vec<_>>());
    }),
    ("rssl_closed_fragment_bytes_total", |c| {
        let ids = (1..=3u8).flat_map(|id| [0, 11, 3, 8, 1, 0, 0, 0, 0, id, 7]);
        frames(c, &ids.collect::<Vec<_>>());
    }),
];

#[test]
fn every_counter_is_moved_by_its_scenario() {
    let table: Vec<&str> = RsslConnections::TABLE.iter().map(|d| d.name).collect();
    let listed: Vec<&str> = SCENARIOS.iter().map(|(name, _)| *name).collect();
    assert_eq!(listed, table, "each counter has one scenario, in the order of the table");
    for (name, scenario) in SCENARIOS {
        let counters = counters();
        scenario(&counters);
        assert!(value(&counters, name) > 0, "{name}");
    }
}

#[test]
fn every_connection_ends_with_exactly_one_count() {
    for (name, scenario) in SCENARIOS.iter().filter(|(name, _)| name.starts_with("rssl_closed_")) {
        let counters = counters();
        scenario(&counters);
        let ends = SCENARIOS.iter().filter(|(other, _)| other.starts_with("rssl_closed_"));
        let counted: Vec<_> =
            ends.filter(|(end, _)| value(&counters, end) > 0).map(|(end, _)| *end).collect();
        assert_eq!(counted, [*name]);
        assert_eq!((value(&counters, name), counters.active.get()), (1, 0), "{name}");
    }
}

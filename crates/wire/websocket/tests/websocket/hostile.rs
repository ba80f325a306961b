//! What malformed or greedy peers get, and what they cost.

use std::sync::Arc;

use proptest::prelude::*;
use tickcast_websocket::deflate::{SharedDeflater, append_own, begin_message, end_message};
use tickcast_websocket::{
    CloseReason, FrameError, Limits, Message, ServerConfig, Stop, UpgradeError, close_code,
};
use units::Nanos;

use crate::support::*;

const LIMITS: Limits = Limits { head_bytes_max: 1024, message_bytes_max: 4096, backlog_bytes_max: 64 << 10 };

fn config() -> ServerConfig {
    ServerConfig { limits: LIMITS, ..ServerConfig::default() }
}

/// Why a server ends that reads these bytes after an upgrade with these header lines, and the code it closes
/// with.
fn end(more: &str, bytes: &[u8]) -> (Option<CloseReason>, Option<u16>) {
    let mut server = open_server(config(), more, &Arc::default());
    let reason = server.on_bytes(Nanos::ZERO, bytes, &mut Recorder::default()).err();
    let close = take(server.outbound());
    let code = (close.first() == Some(&0x88)).then(|| u16::from_be_bytes([close[2], close[3]]));
    (reason, code)
}

/// A frame of a client with any head.
fn raw(head: &[u8]) -> Vec<u8> {
    [head, &[1, 2, 3, 4]].concat()
}

#[test]
fn every_illegal_frame_has_its_error_and_its_close_code() {
    let twice = |first: u8, second: u8| [masked(first, b"a"), masked(second, b"b")].concat();
    let limit_bytes = LIMITS.message_bytes_max;
    let cases: Vec<(&str, Vec<u8>, FrameError)> = vec![
        ("", raw(&[0xc1, 0x80]), FrameError::ReservedBits { first_byte: 0xc1 }),
        ("", raw(&[0x91, 0x80]), FrameError::ReservedBits { first_byte: 0x91 }),
        (DEFLATE, raw(&[0xa1, 0x80]), FrameError::ReservedBits { first_byte: 0xa1 }),
        (DEFLATE, raw(&[0xc9, 0x80]), FrameError::ReservedBits { first_byte: 0xc9 }),
        (DEFLATE, twice(0x01, 0xc0), FrameError::ReservedBits { first_byte: 0xc0 }),
        ("", raw(&[0x83, 0x80]), FrameError::Opcode { opcode: 3 }),
        ("", raw(&[0x8f, 0x80]), FrameError::Opcode { opcode: 15 }),
        ("", vec![0x81, 0x00], FrameError::Masking { is_masked: false }),
        ("", raw(&[0x81, 0xfe, 0, 1]), FrameError::LengthForm),
        ("", raw(&[0x81, 0xff, 0x80, 0, 0, 0, 0, 0, 0, 0]), FrameError::LengthForm),
        ("", raw(&[0x89, 0xfe, 0, 126]), FrameError::ControlLength { bytes: 126 }),
        ("", masked(0x09, b"x"), FrameError::ControlFragmented),
        ("", masked(0x80, b"x"), FrameError::NothingToContinue),
        ("", twice(0x01, 0x81), FrameError::Interleaved),
        ("", masked(0x88, b"x"), FrameError::CloseCode { code: None }),
        ("", masked(0x88, &1005u16.to_be_bytes()), FrameError::CloseCode { code: Some(1005) }),
        ("", masked(0x88, &999u16.to_be_bytes()), FrameError::CloseCode { code: Some(999) }),
        ("", masked(0x88, &[0x03, 0xe8, 0xff]), FrameError::Utf8),
        ("", masked(0x81, &[0xc3]), FrameError::Utf8),
        ("", masked(0x81, &[0xed, 0xa0, 0x80]), FrameError::Utf8),
        (DEFLATE, masked(0xc1, &[0xff; 9]), FrameError::Deflate),
        ("", raw(&[0x81, 0xfe, 0x10, 0x01]), FrameError::MessageLength { limit_bytes }),
        (
            "",
            raw(&[0x81, 0xff, 0x7f, 255, 255, 255, 255, 255, 255, 255]),
            FrameError::MessageLength { limit_bytes },
        ),
        (
            "",
            [masked(0x01, &[b'a'; 4000]), masked(0x80, &[b'a'; 97])].concat(),
            FrameError::MessageLength { limit_bytes },
        ),
        (DEFLATE, masked(0xc1, &bomb()), FrameError::MessageLength { limit_bytes }),
    ];
    for (more, bytes, error) in cases {
        assert_eq!(end(more, &bytes), (Some(error.into()), Some(error.close_code())), "{error}");
    }
}

/// Small, and large when decompressed.
fn bomb() -> Vec<u8> {
    let mut bomb = Vec::new();
    begin_message(&mut bomb);
    append_own(b"[", &mut bomb);
    SharedDeflater::new(9).compress(&[b'a'; 1 << 20], &mut bomb);
    append_own(b"]", &mut bomb);
    end_message(&mut bomb);
    bomb
}

#[test]
fn close_codes_tell_whose_fault_it_was() {
    assert_eq!(FrameError::Utf8.close_code(), close_code::INVALID_DATA);
    assert_eq!(FrameError::MessageLength { limit_bytes: 1 }.close_code(), close_code::MESSAGE_TOO_BIG);
    assert_eq!(FrameError::Interleaved.close_code(), close_code::PROTOCOL_ERROR);
}

#[test]
fn every_bad_head_is_refused_or_closed_unanswered() {
    let long = [b"GET /WebSocket HTTP/1.1\r\nX: ".as_slice(), &[b'x'; 2000]].concat();
    let many = format!("GET /WebSocket HTTP/1.1\r\n{}\r\n", "a:b\r\n".repeat(101));
    let limit_bytes = LIMITS.head_bytes_max;
    let upgrade = |error: UpgradeError| CloseReason::from(error);
    let refused = |status| CloseReason::Refused { status };
    let cases: [(&[u8], CloseReason, &str); 6] = [
        (b"\x00\x1f\x00\x00", upgrade(UpgradeError::NotHttp), ""),
        (b"\x16\x03\x01\x02\x00", upgrade(UpgradeError::NotHttp), ""),
        (&long, upgrade(UpgradeError::HeadLength { limit_bytes }), "HTTP/1.1 400 "),
        (many.as_bytes(), refused(400), "HTTP/1.1 400 "),
        (b"GET /other HTTP/1.1\r\n\r\n", refused(404), "HTTP/1.1 404 "),
        (b"POST /WebSocket HTTP/1.1\r\n\r\n", refused(405), "HTTP/1.1 405 "),
    ];
    for (bytes, reason, answer) in cases {
        let mut server = server_with(config(), &Arc::default());
        let result = server.on_bytes(Nanos::ZERO, bytes, &mut Recorder::default());
        assert_eq!(result, Err(reason));
        let text = String::from_utf8(take(server.outbound())).expect("HTTP");
        assert!(text.starts_with(answer) && text.is_empty() == answer.is_empty(), "{text}");
    }
}

#[test]
fn a_request_that_drips_is_kept_within_its_limit() {
    let mut server = server_with(config(), &Arc::default());
    let mut seen = Recorder::default();
    let mut bytes = b"GET /WebSocket HTTP/1.1\r\nX: ".iter().copied().chain(std::iter::repeat(b'x'));
    let reason = loop {
        let byte = bytes.next().expect("endless");
        assert!(server.memory_bytes() < 4096, "{}", server.memory_bytes());
        if let Err(reason) = server.on_bytes(Nanos::ZERO, &[byte], &mut seen) {
            break reason;
        }
    };
    assert_eq!(reason, UpgradeError::HeadLength { limit_bytes: LIMITS.head_bytes_max }.into());
}

#[test]
fn a_peer_that_pings_and_does_not_read_is_slow() {
    let mut server = open_server(config(), "", &Arc::default());
    let ping = masked(0x89, &[7; 125]);
    let mut seen = Recorder::default();
    let reason = (0..1000).find_map(|_| server.on_bytes(Nanos::ZERO, &ping, &mut seen).err());
    assert!(matches!(reason, Some(CloseReason::Stopped(Stop::SlowConsumer { .. }))), "{reason:?}");
    assert!(server.memory_bytes() < 3 * LIMITS.backlog_bytes_max);
}

#[test]
fn a_message_that_does_not_fit_the_backlog_is_refused_whole() {
    let mut server = open_server(config(), "", &Arc::default());
    let text = "x".repeat(LIMITS.backlog_bytes_max / 2);
    server.outbound().push(Message::Text(&text)).expect("there is room");
    let before = server.outbound().pending().len();
    let error = server.outbound().push(Message::Text(&text)).expect_err("no room for two");
    assert_eq!(error, Stop::SlowConsumer { pending_bytes: before, limit_bytes: LIMITS.backlog_bytes_max });
    assert_eq!(server.outbound().pending().len(), before);
    assert_eq!(server.outbound().high_water_bytes(), before);
}

#[test]
fn nothing_is_read_behind_the_end() {
    let mut server = open_server(config(), "", &Arc::default());
    let mut seen = Recorder { stops: true, ..Recorder::default() };
    let two = [masked(0x81, b"a"), masked(0x81, b"b")].concat();
    assert_eq!(server.on_bytes(Nanos::ZERO, &two, &mut seen), Err(Stop::Application.into()));
    assert_eq!(seen.texts(), ["a"]);
    assert_eq!(server.on_bytes(Nanos::ZERO, &two, &mut seen), Err(Stop::Application.into()));
}

testkit::properties! {
    /// Whatever comes, the memory stays within its limits and the end is told once.
    #[test]
    fn any_bytes_cost_at_most_the_connection(
        is_open: bool,
        pieces in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..300), 0..20),
    ) {
        let mut server = server_with(config(), &Arc::default());
        let mut seen = Recorder::default();
        if is_open {
            server.on_bytes(Nanos::ZERO, &request(DEFLATE), &mut seen).expect("a good request");
        }
        let mut end = None;
        for piece in &pieces {
            let result = server.on_bytes(Nanos::ZERO, piece, &mut seen);
            prop_assert!(end.is_none() || result.err() == end);
            end = end.or(result.err());
            prop_assert!(server.memory_bytes() < 300 << 10, "{}", server.memory_bytes());
        }
    }

    /// A good stream with some bytes changed.
    #[test]
    fn spoilt_streams_cost_at_most_the_connection(at in 0usize..400, byte: u8) {
        let frames = [masked(0x81, b"{}"), masked(0x01, b"{"), masked(0x80, b"}")].concat();
        let mut stream = [request(DEFLATE), frames].concat();
        let at = at % stream.len();
        stream[at] = byte;
        let mut server = server_with(config(), &Arc::default());
        let mut seen = Recorder::default();
        let whole = server.on_bytes(Nanos::ZERO, &stream, &mut seen);
        let mut again = server_with(config(), &Arc::default());
        let mut seen_again = Recorder::default();
        let cut = stream.iter().try_for_each(|b| again.on_bytes(Nanos::ZERO, &[*b], &mut seen_again));
        prop_assert_eq!(whole, cut);
        prop_assert_eq!(seen.received, seen_again.received);
    }
}

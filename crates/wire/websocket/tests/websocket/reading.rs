//! What clients in the field may send, in every cut.

use std::sync::Arc;

use tickcast_websocket::ServerConfig;
use units::Nanos;

use crate::support::*;

/// "Hello" compressed as the RFC has it, and again leaning on the first.
const HELLO: [u8; 7] = [0xf2, 0x48, 0xcd, 0xc9, 0xc9, 0x07, 0x00];
const HELLO_AGAIN: [u8; 5] = [0xf2, 0x00, 0x11, 0x00, 0x00];

fn stream() -> Vec<u8> {
    [
        masked(0x81, b"one"),
        masked(0x01, "tw\u{fc}".as_bytes()),
        masked(0x89, b"between"),
        masked(0x00, b""),
        masked(0x80, b"o"),
        masked(0x8a, b""),
        masked(0xc1, &HELLO),
        masked(0x41, &HELLO_AGAIN[..2]),
        masked(0x80, &HELLO_AGAIN[2..]),
        masked(0x82, &[0, 0xff]),
    ]
    .concat()
}

fn expected() -> Vec<Received> {
    let text = |text: &str| Received::Text(text.to_owned());
    vec![text("one"), text("tw\u{fc}o"), text("Hello"), text("Hello"), Received::Binary(vec![0, 0xff])]
}

#[test]
fn fragments_control_frames_and_compression_are_read_in_every_cut_into_three() {
    let stream = stream();
    for first in 0..=stream.len() {
        for second in (first..=stream.len()).step_by(7) {
            let mut server = open_server(ServerConfig::default(), DEFLATE, &Arc::default());
            let mut seen = Recorder::default();
            for piece in [&stream[..first], &stream[first..second], &stream[second..]] {
                server.on_bytes(Nanos::ZERO, piece, &mut seen).expect("a good stream");
            }
            assert_eq!(seen.received, expected(), "cut at {first}, {second}");
            assert_eq!(take(server.outbound()), [&[0x8a, 7][..], b"between"].concat());
        }
    }
}

#[test]
fn frames_behind_the_request_in_the_same_bytes_are_read() {
    let all = [request(DEFLATE), stream()].concat();
    for cut in 0..all.len() {
        let mut server = server_with(ServerConfig::default(), &Arc::default());
        let mut seen = Recorder::default();
        server.on_bytes(Nanos::ZERO, &all[..cut], &mut seen).expect("a good stream");
        server.on_bytes(Nanos::ZERO, &all[cut..], &mut seen).expect("a good stream");
        assert_eq!(seen.received[1..], expected(), "cut at {cut}");
    }
}

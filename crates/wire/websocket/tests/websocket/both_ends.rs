//! Our client and our server.

use counters::Flow;
use proptest::prelude::*;
use tickcast_websocket::deflate::{SharedDeflater, append_own, begin_message, end_message};
use tickcast_websocket::frame::{Opcode, OpenFrame};
use tickcast_websocket::{CloseReason, Message, Stop, close_code};
use units::Nanos;

use crate::support::*;

fn connected(is_compressing: bool) -> Received {
    Received::Connected { protocol: "tr_json2".to_owned(), is_compressing }
}

#[test]
fn both_ends_agree_with_and_without_compression_in_any_cut() {
    for is_compressing in [false, true] {
        for piece in 1..400 {
            let mut ends = Ends::new(is_compressing);
            ends.exchange(Nanos::ZERO, piece).expect("our own ends");
            assert_eq!(ends.at_client.received, [connected(is_compressing)]);
            assert_eq!(ends.at_server.received, [connected(is_compressing)]);
            assert_eq!(ends.server.outbound().is_compressing(), is_compressing);
        }
    }
}

#[test]
fn messages_of_every_awkward_length_arrive() {
    let mut ends = Ends::new(false);
    ends.exchange(Nanos::ZERO, 1000).expect("our own ends");
    let texts: Vec<String> =
        [0, 1, 7, 8, 9, 125, 126, 127, 65_535, 65_536, 1 << 20].map(|n| "ü".repeat(n / 2 + n % 2)).to_vec();
    for text in &texts {
        ends.client.outbound().push(Message::Text(text)).expect("there is room");
        ends.server.outbound().push(Message::Text(text)).expect("there is room");
    }
    ends.client.outbound().push(Message::Binary(&[0xff; 300])).expect("there is room");
    ends.exchange(Nanos::ZERO, 10_007).expect("our own ends");
    assert_eq!(ends.at_client.texts(), texts);
    assert_eq!(ends.at_server.texts(), texts);
    assert_eq!(ends.at_server.received.last(), Some(&Received::Binary(vec![0xff; 300])));
}

#[test]
fn what_was_compressed_once_is_read_by_a_client_among_its_own_bytes() {
    let mut ends = Ends::new(true);
    ends.exchange(Nanos::ZERO, 1000).expect("our own ends");
    let body = r#""Type":"Update","Fields":{"BID":1.25,"ASK":1.26}}"#;
    let mut shared = Vec::new();
    SharedDeflater::new(6).compress(body.as_bytes(), &mut shared);
    for round in 0..3 {
        let mut frames = Vec::new();
        let frame = OpenFrame::begin(&mut frames);
        begin_message(&mut frames);
        for id in 0..4 {
            let own = format!("{}{{\"ID\":{id},", if id == 0 { "[" } else { "," });
            append_own(own.as_bytes(), &mut frames);
            frames.extend_from_slice(&shared);
        }
        append_own(b"]", &mut frames);
        end_message(&mut frames);
        frame.end(&mut frames, Opcode::Text, true);
        ends.server.outbound().keep(&frames, 0).expect("there is room");
        ends.exchange(Nanos::ZERO, 13).expect("our own ends");
        let object = |id| format!("{{\"ID\":{id},{body}");
        let expected = format!("[{},{},{},{}]", object(0), object(1), object(2), object(3));
        assert_eq!(ends.at_client.texts()[round], expected);
    }
}

#[test]
fn a_close_is_answered_with_its_code_and_ends_both() {
    let mut ends = Ends::new(false);
    ends.exchange(Nanos::ZERO, 1000).expect("our own ends");
    ends.client.outbound().push(Message::Text("last")).expect("there is room");
    assert_eq!(ends.client.stop(Stop::Application), CloseReason::Stopped(Stop::Application));
    let reason = CloseReason::Closed { code: Some(close_code::GOING_AWAY) };
    assert_eq!(ends.exchange(Nanos::ZERO, 3), Err(reason));
    assert_eq!(ends.at_server.texts(), ["last"], "what was pushed before is not lost");
    assert_eq!(ends.server.close_reason(), Some(reason));
    assert_eq!(take(ends.server.outbound()), [0x88, 2, 0x03, 0xe9]);
    assert_eq!(ends.server.outbound().push(Message::Text("late")), Err(Stop::NotConnected));
    assert_eq!(ends.server.next_wakeup(), Nanos::NEVER);
}

#[test]
fn a_client_is_told_why_it_was_refused() {
    let mut ends = Ends::new(false);
    ends.at_server.is_full = true;
    assert_eq!(ends.exchange(Nanos::ZERO, 50), Err(CloseReason::Refused { status: 503 }));
    let answer = take(ends.server.outbound());
    let reason = ends.client.on_bytes(Nanos::ZERO, &answer, &mut ends.at_client);
    assert_eq!(reason, Err(CloseReason::Refused { status: 503 }));
    let refused = Received::Refused(503, "Service Unavailable".to_owned());
    assert_eq!(ends.at_client.received, [refused]);
}

testkit::properties! {
    #[test]
    fn what_is_pushed_arrives(
        texts in prop::collection::vec("\\PC{0,300}", 0..20),
        piece in 1usize..200,
        is_compressing: bool,
    ) {
        let mut ends = Ends::new(is_compressing);
        ends.exchange(Nanos::ZERO, piece).expect("our own ends");
        for text in &texts {
            ends.client.outbound().push(Message::Text(text)).expect("there is room");
            ends.server.outbound().push(Message::Text(text)).expect("there is room");
        }
        ends.exchange(Nanos::ZERO, piece).expect("our own ends");
        prop_assert_eq!(ends.at_client.texts(), texts.clone());
        prop_assert_eq!(ends.at_server.texts(), texts);
    }
}

#[test]
fn each_end_counts_what_has_gone_through_it() {
    let mut ends = Ends::new(true);
    ends.exchange(Nanos::ZERO, 1000).expect("our own ends");
    let before = (ends.server.flow_in(), ends.server.outbound().flow());
    assert!(before.0.bytes > 0 && before.1.bytes > 0, "the upgrade");
    assert_eq!((before.0.frames, before.1.frames), (0, 0));
    ends.client.outbound().push(Message::Text("[{},{}]")).expect("there is room");
    let text = format!("[{}]", "x".repeat(1000));
    let mut shared = Vec::new();
    SharedDeflater::new(6).compress(text.as_bytes(), &mut shared);
    let mut frames = Vec::new();
    let frame = OpenFrame::begin(&mut frames);
    begin_message(&mut frames);
    append_own(b"", &mut frames);
    frames.extend_from_slice(&shared);
    append_own(b"", &mut frames);
    end_message(&mut frames);
    let compressed_bytes = frame.payload_bytes(&frames) as u64;
    frame.end(&mut frames, Opcode::Text, true);
    let packed = Flow {
        frames: 1,
        messages: 2,
        packed_frames: 1,
        packed_messages: 2,
        compressed_bytes,
        expanded_bytes: 1002,
        ..Flow::default()
    };
    ends.server.outbound().keep(&frames, 0).expect("there is room");
    ends.server.outbound().count_framed(packed);
    ends.exchange(Nanos::ZERO, 1000).expect("our own ends");
    assert_eq!(ends.at_client.texts(), [text]);
    let bytes = before.1.bytes + frames.len() as u64;
    assert_eq!(ends.server.outbound().flow(), Flow { bytes, ..packed });
    // What a frame holds for the protocol above is not looked into.
    let arrived = Flow { messages: 1, packed_frames: 0, packed_messages: 0, bytes, ..packed };
    assert_eq!(ends.client.flow_in(), arrived);
    let (sent, arrived) = (ends.client.outbound().flow(), ends.server.flow_in());
    assert_eq!(sent, arrived);
    assert_eq!((sent.frames, sent.messages, sent.compressed_bytes), (1, 1, 0));
}

//! LBMC over TCP: any cut of the stream gives the same messages, and a broken stream is refused in bounded
//! memory.

use std::net::Ipv4Addr;
use tickcast_lbt::error::WireError;
use tickcast_lbt::stream::{StreamDecoder, StreamEncoder, StreamError};
use tickcast_lbt::wire::lbmc::{self, Chain, Header, Kind};
use units::{Rng, Sqn};

const CONTEXT: [u8; 8] = *b"context1";

fn stream_header(sqn: u32) -> Header<'static> {
    Header::Stream { flags: 0, stream: 3, sqn: Sqn(sqn), context: CONTEXT }
}

fn request(index: u32) -> Header<'static> {
    Header::Request { flags: 0, transport: 0, index, port: 14391, ip: Ipv4Addr::new(10, 29, 3, 1) }
}

/// Kind, number, length and first bytes of what comes out.
type Seen = (u8, u32, usize, Vec<u8>);

fn decode(decoder: &mut StreamDecoder, bytes: &[u8], seen: &mut Vec<Seen>) -> Result<(), StreamError> {
    decoder.push(bytes, |m| {
        seen.push((m.kind.code(), m.sqn.0, m.payload.len(), m.payload[..m.payload.len().min(20)].to_vec()));
    })
}

/// A session announcement, a request, an empty message and one in fragments.
fn sample(long: usize) -> Vec<u8> {
    let (mut out, mut encoder) = (Vec::new(), StreamEncoder::default());
    encoder.session(&mut out, 0x1001);
    assert_eq!(encoder.message(&mut out, 0, &[request(7)], b"ask"), Ok(Sqn(0)));
    assert_eq!(encoder.message(&mut out, 0, &[], b""), Ok(Sqn(1)));
    let body: Vec<u8> = (0..long).map(|i| (i / 251) as u8).collect();
    encoder.message(&mut out, 0, &[stream_header(9)], &body).expect("fits");
    encoder.message(&mut out, 5, &[], b"after").expect("fits");
    out
}

#[test]
fn every_cut_of_the_stream_gives_the_same_messages() {
    let _repeat = testkit::repeat!();
    let bytes = sample(70_000);
    let mut whole = Vec::new();
    decode(&mut StreamDecoder::default(), &bytes, &mut whole).expect("well-formed");
    let lengths: Vec<_> = whole.iter().map(|s| (s.0, s.1, s.2)).collect();
    assert_eq!(lengths, [(8, 0, 0), (0, 0, 3), (0, 1, 0), (0, 3, 70_000), (0, 4, 5)]);
    let mut rng = Rng::new(1);
    for round in 0..200 {
        let (mut decoder, mut seen, mut at) = (StreamDecoder::default(), Vec::new(), 0);
        while at < bytes.len() {
            let largest = if round % 2 == 0 { 20 } else { 90_000 };
            let len = (1 + rng.below(largest) as usize).min(bytes.len() - at);
            decode(&mut decoder, &bytes[at..at + len], &mut seen).expect("well-formed");
            at += len;
        }
        assert_eq!(seen, whole);
        assert!(decoder.is_at_boundary());
    }
}

#[test]
fn headers_come_with_whole_and_with_fragmented_messages() {
    let mut found = Vec::new();
    let bytes = sample(200_000);
    let mut decoder = StreamDecoder::default();
    let result = decoder.push(&bytes, |m| {
        for header in m.headers {
            match header {
                Header::TcpSessionId { session_id, .. } => found.push(("session", session_id)),
                Header::Request { index, .. } => found.push(("request", index)),
                Header::Stream { sqn, context: CONTEXT, .. } => found.push(("stream", sqn.0)),
                _ => {}
            }
        }
    });
    result.expect("well-formed");
    assert_eq!(found, [("session", 0x1001), ("request", 7), ("stream", 9)]);
}

#[test]
fn a_message_at_the_limit_passes_and_one_above_is_refused_before_it_is_collected() {
    let (mut out, mut encoder) = (Vec::new(), StreamEncoder::default());
    encoder.message(&mut out, 0, &[], &vec![1; 100_000]).expect("fits");
    let mut seen = Vec::new();
    decode(&mut StreamDecoder::new(100_000), &out, &mut seen).expect("at the limit");
    assert_eq!(seen[0].2, 100_000);
    let mut strict = StreamDecoder::new(99_999);
    let refused = Err(StreamError::TooLong { bytes: 100_000, max: 99_999 });
    assert_eq!(decode(&mut strict, &out, &mut seen), refused);
    assert!(strict.memory_bytes() < 1_000);
}

#[test]
fn memory_follows_what_arrived_and_not_what_was_announced() {
    let mut chain = Chain::default();
    chain.push(&Header::Frag { flags: 0, first_sqn: Sqn(0), offset: 0, length: 60 << 20 });
    let mut out = Vec::new();
    lbmc::emit_message(&mut out, Kind::Message, Some((0, Sqn(0))), &chain, Some(&[1; 1_000]));
    let mut decoder = StreamDecoder::default();
    decode(&mut decoder, &out, &mut Vec::new()).expect("well-formed so far");
    assert!(decoder.memory_bytes() < 10_000, "{}", decoder.memory_bytes());
    assert!(!decoder.is_at_boundary());
}

#[test]
fn a_fragment_out_of_place_breaks_the_stream_for_good() {
    let fragment = |first, offset, length| {
        let mut chain = Chain::default();
        chain.push(&Header::Frag { flags: 0, first_sqn: Sqn(first), offset, length });
        let mut out = Vec::new();
        lbmc::emit_message(&mut out, Kind::Message, Some((0, Sqn(first))), &chain, Some(b"0123456789"));
        out
    };
    let begin = fragment(0, 0, 30);
    let table = [
        (fragment(0, 20, 30), 10, "a hole"),
        (fragment(0, 0, 30), 10, "again"),
        (fragment(5, 0, 30), 10, "another message"),
        (fragment(0, 10, 31), 10, "another length"),
        (fragment(0, 10, 15), 10, "past the end"),
    ];
    for (second, expected, what) in table {
        let mut decoder = StreamDecoder::default();
        let mut seen = Vec::new();
        decode(&mut decoder, &begin, &mut seen).expect("the first");
        let error = decode(&mut decoder, &second, &mut seen).expect_err(what);
        assert!(
            matches!(error, StreamError::OutOfPlace { expected: e, .. } if e == expected),
            "{what}: {error}"
        );
        assert_eq!(decode(&mut decoder, b"more", &mut seen), Err(error), "{what}");
        assert!(seen.is_empty());
    }
}

#[test]
fn bytes_that_are_no_message_are_refused_as_soon_as_that_is_seen() {
    let table: [(&[u8], &str); 5] = [
        (b"GET / HTTP/1.1", "another protocol"),
        (&[0x10, 0, 0, 12], "another version"),
        (&[0x05, 0, 0, 12], "an unknown type"),
        (&[0x00, 0, 0, 11], "shorter than its header"),
        (&[0x08, 0xFF, 0, 3], "shorter than any"),
    ];
    for (bytes, what) in table {
        for cut in 1..4 {
            let mut decoder = StreamDecoder::default();
            let mut seen = Vec::new();
            let early = decode(&mut decoder, &bytes[..cut], &mut seen);
            let result = early.and_then(|()| decode(&mut decoder, &bytes[cut..], &mut seen));
            assert!(matches!(result, Err(StreamError::Wire(_))), "{what}");
        }
    }
    let malformed = [0, 0x01, 0, 16, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0];
    let result = decode(&mut StreamDecoder::default(), &malformed, &mut Vec::new());
    assert!(matches!(result, Err(StreamError::Wire(WireError::BadLength { found: 0, .. }))), "{result:?}");
}

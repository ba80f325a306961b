//! Our two ends against each other: packing, fragments, cuts, ids.

use proptest::prelude::*;
use tickcast_rssl::{ApiMisuse, ConnectionVersion, Packer, SendError, ServerConfig};
use units::{Nanos, Rng};

use crate::support::*;

/// Lengths around every boundary of packing and fragmentation with the usual size.
const AWKWARD: [usize; 26] = [
    1,
    2,
    3,
    76,
    3070,
    3071,
    6139,
    6140,
    6141,
    6142,
    6143,
    6144,
    6145,
    6146,
    6147,
    12_277,
    12_278,
    12_279,
    12_280,
    18_419,
    18_420,
    65_535,
    65_536,
    100_000,
    1_000_000,
    1 << 20,
];

#[test]
fn messages_of_every_awkward_length_arrive_in_every_version() {
    for version in ConnectionVersion::ALL {
        let mut ends = Ends::connected(version);
        for length in AWKWARD {
            ends.client.outbound().push(&message(length, 1)).expect("within the backlog");
            ends.server.outbound().push(&message(length, 2)).expect("within the backlog");
        }
        ends.exchange().expect("our own frames");
        assert_eq!(ends.at_server.messages, AWKWARD.map(|l| message(l, 1)), "{version}");
        assert_eq!(ends.at_client.messages, AWKWARD.map(|l| message(l, 2)), "{version}");
        let fragmented = AWKWARD.iter().filter(|&&l| l > 6144).count() as u64;
        for (sent, received) in
            [(&ends.client_counters, &ends.server_counters), (&ends.server_counters, &ends.client_counters)]
        {
            assert_eq!(sent.messages_out.get(), AWKWARD.len() as u64);
            assert_eq!(received.messages_in.get(), AWKWARD.len() as u64);
            assert_eq!(received.fragmented_messages_in.get(), fragmented);
            assert_eq!(sent.fragmented_messages_out.get(), fragmented);
            assert_eq!(sent.fragments_out.get(), received.fragments_in.get());
            assert_eq!(sent.frames_out.get(), received.frames_in.get());
            assert_eq!(sent.packed_frames_out.get(), received.packed_frames_in.get());
            assert_eq!(sent.packed_messages_out.get(), received.packed_messages_in.get());
            assert_eq!(sent.bytes_out.get(), received.bytes_in.get());
        }
    }
}

#[test]
fn each_awkward_length_arrives_alone_and_in_any_cut() {
    let _repeat = testkit::repeat!();
    let mut rng = Rng::new(1);
    for length in AWKWARD {
        let mut ends = Ends::connected(ConnectionVersion::V14);
        ends.cuts = Some(Rng::new(rng.next_u64()));
        for _ in 0..3 {
            ends.server.outbound().push(&message(length, 7)).expect("within the backlog");
            ends.exchange().expect("our own frames");
        }
        assert_eq!(ends.at_client.messages, vec![message(length, 7); 3]);
        assert_eq!(ends.server_counters.packed_frames_out.get(), 0, "alone is never packed");
    }
}

#[test]
fn an_empty_message_is_refused_and_the_stream_goes_on() {
    let mut ends = Ends::connected(ConnectionVersion::V14);
    let empty = Err(SendError::Misuse(ApiMisuse::EmptyMessage));
    let outbound = ends.server.outbound();
    outbound.push(b"before").expect("within the backlog");
    assert_eq!(outbound.push(b"").map(|_| ()), empty);
    outbound.push(b"after").expect("within the backlog");
    ends.exchange().expect("our own frames");
    assert_eq!(ends.at_client.messages, [&b"before"[..], b"after"]);
}

#[test]
fn interleaved_fragments_from_several_writers_are_told_apart() {
    // Three packers started at different ids stand for the three priorities of a writer.
    let size = 1000u16;
    for version in [ConnectionVersion::V12, ConnectionVersion::V13] {
        let config = ServerConfig { message_size_bytes: size, ..ServerConfig::default() };
        let mut ends = Ends::with(config, client_config(), version);
        ends.exchange().expect("both ends can use the size");
        let mut streams = Vec::new();
        for writer in 0..3u64 {
            let mut packer = Packer::new(version, size).expect("the size is within its bounds");
            let mut skipped = Vec::new();
            for _ in 0..writer * 10 {
                packer.push(&mut skipped, &message(2000, 0)).expect("not empty");
            }
            let mut out = Vec::new();
            packer.push(&mut out, &message(5000 + writer as usize, writer)).expect("not empty");
            streams.push(frames(&out));
        }
        let longest = streams.iter().map(Vec::len).max().expect("three streams");
        for turn in 0..longest {
            for frame in streams.iter().filter_map(|s| s.get(turn)) {
                ends.client.on_bytes(Nanos::ZERO, frame, &mut ends.at_client).expect("a good fragment");
            }
        }
        let expected: Vec<_> = (0..3u64).map(|w| message(5000 + w as usize, w)).collect();
        assert_eq!(ends.at_client.messages, expected);
        assert_eq!(ends.client_counters.fragmented_messages_in.get(), 3);
    }
}

fn frames(mut stream: &[u8]) -> Vec<Vec<u8>> {
    let mut frames = Vec::new();
    while let Some((&[a, b], _)) = stream.split_first_chunk() {
        let (frame, rest) = stream.split_at(usize::from(u16::from_be_bytes([a, b])));
        frames.push(frame.to_vec());
        stream = rest;
    }
    frames
}

#[test]
fn fragment_ids_wrap_without_losing_a_message() {
    for (version, count) in [(ConnectionVersion::V12, 600), (ConnectionVersion::V14, 66_000)] {
        let config = ServerConfig { message_size_bytes: 64, ..ServerConfig::default() };
        let mut ends = Ends::with(config, client_config(), version);
        ends.exchange().expect("both ends can use the size");
        let mut ids = Vec::new();
        for number in 0..count {
            ends.server.outbound().push(&message(65, number)).expect("within the backlog");
            let bytes = take(ends.server.outbound());
            ids.push(if version == ConnectionVersion::V12 {
                u16::from(bytes[8])
            } else {
                u16::from_be_bytes([bytes[8], bytes[9]])
            });
            ends.client.on_bytes(Nanos::ZERO, &bytes, &mut ends.at_client).expect("our own fragments");
            assert_eq!(ends.at_client.messages.pop(), Some(message(65, number)));
        }
        let last = version.fragment_ids().last();
        let expected = (1..=last).cycle().take(count as usize);
        assert!(ids.iter().copied().eq(expected), "{version}: ids count up and skip 0");
    }
}

#[test]
fn a_stream_id_written_into_the_copy_arrives_in_every_kind_of_frame() {
    let mut ends = Ends::connected(ConnectionVersion::V14);
    let lengths = [20, 20, 6143, 6144, 6145, 20_000, 8];
    for (number, length) in lengths.into_iter().enumerate() {
        let copy = ends.server.outbound().push(&message(length, 0)).expect("within the backlog");
        copy[4..8].copy_from_slice(&(number as u32).to_be_bytes());
    }
    ends.exchange().expect("our own frames");
    for (number, length) in lengths.into_iter().enumerate() {
        let mut expected = message(length, 0);
        expected[4..8].copy_from_slice(&(number as u32).to_be_bytes());
        assert_eq!(ends.at_client.messages[number], expected, "{length}");
    }
}

testkit::properties! {
    /// Any messages, any maximum size, any version, flushed anywhere, cut anywhere: what is pushed arrives.
    #[test]
    fn what_is_pushed_arrives(
        lengths in prop::collection::vec((1usize..3000, any::<bool>()), 1..60),
        size in 64u16..2000,
        version in 0usize..5,
        seed: u64,
    ) {
        let config = ServerConfig { message_size_bytes: size, ..ServerConfig::default() };
        let mut ends = Ends::with(config, client_config(), ConnectionVersion::ALL[version]);
        ends.cuts = Some(Rng::new(seed));
        ends.exchange().expect("both ends can use the size");
        for (number, &(length, flush)) in lengths.iter().enumerate() {
            ends.client.outbound().push(&message(length, number as u64)).expect("within the backlog");
            if flush {
                ends.client.outbound().flush();
            }
        }
        ends.exchange().expect("our own frames");
        prop_assert_eq!(ends.at_server.messages.len(), lengths.len());
        for (number, &(length, _)) in lengths.iter().enumerate() {
            prop_assert_eq!(&ends.at_server.messages[number], &message(length, number as u64));
        }
        prop_assert_eq!(ends.server_counters.messages_in.get(), ends.client_counters.messages_out.get());
    }
}

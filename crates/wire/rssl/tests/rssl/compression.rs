//! Compression between our own ends, and peers that abuse it.

use std::io::Write as _;

use flate2::write::ZlibEncoder;
use proptest::prelude::*;
use tickcast_rssl::handshake::Reply;
use tickcast_rssl::{
    ClientConfig, CloseReason, CompressionType, ConnectionVersion, FrameError, Limits, PeerError,
    ServerConfig, ServerConnection, Thresholds,
};
use units::{Nanos, Rng};

use crate::support::*;

const KINDS: [CompressionType; 2] = [CompressionType::Zlib, CompressionType::Lz4];

fn asking(kind: CompressionType) -> ClientConfig {
    ClientConfig { compression: kind, ..client_config() }
}

fn ends(kind: CompressionType, level: u8, version: ConnectionVersion) -> Ends {
    let server = ServerConfig { zlib_level: level, ..ServerConfig::default() };
    let mut ends = Ends::with(server, asking(kind), version);
    ends.exchange().expect("our own ends understand each other");
    ends
}

/// A message of words: it compresses well.
fn text(bytes: usize, mark: u64) -> Vec<u8> {
    let mut rng = Rng::new(mark ^ bytes as u64);
    let words = [&b"BID "[..], b"ASK ", b"TRDPRC_1 ", b"0.00012", b"67123.45 ", b"BTCUSDT "];
    let mut message = Vec::new();
    while message.len() < bytes {
        message.extend_from_slice(words[rng.below(6) as usize]);
    }
    message.truncate(bytes);
    message
}

#[test]
fn both_ends_agree_on_what_is_asked_for_where_the_version_has_it() {
    for version in ConnectionVersion::ALL {
        for kind in KINDS {
            let ends = ends(kind, 6, version);
            let agreed = if kind.is_known_to(version) { kind } else { CompressionType::None };
            assert_eq!(ends.server.negotiated().map(|n| n.compression), Some(agreed), "{version} {kind}");
            assert_eq!(ends.client.negotiated().map(|n| n.compression), Some(agreed), "{version} {kind}");
        }
    }
}

#[test]
fn what_is_not_allowed_is_declined_and_what_is_imposed_is_obeyed() {
    let only_lz4 = || ServerConfig { compression: vec![CompressionType::Lz4], ..ServerConfig::default() };
    let mut declined = Ends::with(only_lz4(), asking(CompressionType::Zlib), ConnectionVersion::V14);
    declined.exchange().expect("it goes on without");
    assert_eq!(declined.client.negotiated().map(|n| n.compression), Some(CompressionType::None));
    assert_eq!(declined.server_counters.compression_declined.get(), 1);
    for asked in [CompressionType::None, CompressionType::Zlib] {
        let config = ServerConfig { compression_forced: Some(CompressionType::Lz4), ..only_lz4() };
        let mut forced = Ends::with(config, asking(asked), ConnectionVersion::V14);
        forced.exchange().expect("it obeys");
        assert_eq!(forced.client.negotiated().map(|n| n.compression), Some(CompressionType::Lz4));
        assert_eq!(forced.server_counters.compression_forced.get(), 1);
        assert_eq!(forced.server_counters.compression_declined.get(), 0);
    }
}

#[test]
fn an_ack_that_imposes_a_compression_says_so() {
    let config = ServerConfig {
        compression_forced: Some(CompressionType::Zlib),
        zlib_level: 3,
        ..ServerConfig::default()
    };
    let (_, ack) = active_server(config, &counters());
    let Ok(Reply::Ack(ack)) = Reply::parse(&ack, ConnectionVersion::V13) else { panic!("no ack") };
    assert_eq!((ack.compression, ack.forced, ack.compression_level), (CompressionType::Zlib, true, 3));
}

const LENGTHS: [usize; 16] =
    [1, 29, 30, 31, 299, 300, 301, 3000, 6139, 6140, 6142, 6144, 6145, 12_278, 65_536, 300_000];

#[test]
fn messages_of_every_length_arrive_in_every_version_and_level() {
    let _repeat = testkit::repeat!();
    for (kind, level) in [(KINDS[0], 0), (KINDS[0], 1), (KINDS[0], 6), (KINDS[0], 9), (KINDS[1], 0)] {
        for version in ConnectionVersion::ALL {
            let mut ends = ends(kind, level, version);
            ends.cuts = Some(Rng::new(u64::from(level)));
            let (noise, words) = (LENGTHS.map(|l| message(l, 1)), LENGTHS.map(|l| text(l, 2)));
            for at in 0..LENGTHS.len() {
                ends.client.outbound().push(&noise[at]).expect("within the backlog");
                ends.server.outbound().push(&words[at]).expect("within the backlog");
                if at % 3 == 0 {
                    ends.exchange().expect("our own frames");
                }
            }
            ends.exchange().expect("our own frames");
            assert!(ends.at_server.messages == noise, "{kind} {level} {version}");
            assert!(ends.at_client.messages == words, "{kind} {level} {version}");
            check_both_counted_the_same(&ends);
        }
    }
}

fn check_both_counted_the_same(ends: &Ends) {
    for (sent, received) in
        [(&ends.client_counters, &ends.server_counters), (&ends.server_counters, &ends.client_counters)]
    {
        assert_eq!(sent.bytes_out.get(), received.bytes_in.get());
        assert_eq!(sent.frames_out.get(), received.frames_in.get());
        assert_eq!(sent.compressed_frames_out.get(), received.compressed_frames_in.get());
        assert_eq!(sent.compressed_bytes_out.get(), received.compressed_bytes_in.get());
        assert_eq!(sent.expanded_bytes_out.get(), received.expanded_bytes_in.get());
    }
}

#[test]
fn words_become_shorter_and_each_connection_knows_its_ratio() {
    for kind in KINDS {
        let mut ends = ends(kind, 6, ConnectionVersion::V14);
        for mark in 0..50 {
            ends.server.outbound().push(&text(400, mark)).expect("within the backlog");
        }
        ends.exchange().expect("our own frames");
        let (out, received) = (ends.server.outbound().flow(), ends.client.flow_in());
        assert_eq!(out, received, "{kind}");
        assert_eq!((out.messages, out.packed_messages), (50, 50));
        assert!(out.compressed_bytes * 2 < out.expanded_bytes, "{kind}: {out:?}");
        assert!(out.clear_bytes() > 50 * 400 && out.bytes * 2 < out.clear_bytes(), "{kind}: {out:?}");
        assert_eq!(out.bytes, ends.server_counters.bytes_out.get());
    }
}

#[test]
fn noise_outgrows_zlib_frames_in_two_parts_and_goes_through_lz4_in_clear() {
    let mut zlib = ends(CompressionType::Zlib, 6, ConnectionVersion::V14);
    let mut lz4 = ends(CompressionType::Lz4, 0, ConnectionVersion::V14);
    for ends in [&mut zlib, &mut lz4] {
        ends.server.outbound().push(&message(20_000, 3)).expect("within the backlog");
        ends.exchange().expect("our own frames");
        assert!(ends.at_client.messages == [message(20_000, 3)]);
    }
    assert_eq!(zlib.server_counters.split_payloads_out.get(), 3, "three full fragments");
    assert_eq!(zlib.server_counters.frames_out.get(), 3 * 2 + 1);
    assert_eq!(lz4.server_counters.compressed_frames_out.get(), 0);
}

#[test]
fn payloads_below_the_threshold_go_in_clear() {
    for (kind, threshold) in [(CompressionType::Zlib, 30), (CompressionType::Lz4, 300)] {
        for (threshold, thresholds) in
            [(threshold, Thresholds::default()), (100, Thresholds { zlib_bytes: 100, lz4_bytes: 100 })]
        {
            for (bytes, compressed) in [(threshold - 1, 0), (threshold, 1)] {
                let server = ServerConfig { thresholds, ..ServerConfig::default() };
                let mut ends = Ends::with(server, asking(kind), ConnectionVersion::V14);
                ends.exchange().expect("our own ends");
                ends.server.outbound().push(&vec![b'x'; bytes]).expect("within the backlog");
                ends.exchange().expect("our own frames");
                assert_eq!(ends.server_counters.compressed_frames_out.get(), compressed, "{kind} {bytes}");
            }
        }
    }
}

#[test]
fn a_stream_id_can_be_written_into_a_message_before_it_is_compressed() {
    for kind in KINDS {
        let mut ends = ends(kind, 6, ConnectionVersion::V14);
        let lengths = [50, 400, 6143, 6144, 6145, 50_000];
        let mut scratch = Vec::new();
        let mut batch = ends.server.outbound().batch(&mut scratch);
        for (at, length) in lengths.into_iter().enumerate() {
            let copy = batch.push(&text(length, 0)).expect("not empty");
            copy[4..8].copy_from_slice(&(at as u32).to_be_bytes());
        }
        drop(batch);
        for (at, length) in lengths.into_iter().enumerate() {
            let copy = ends.server.outbound().push(&text(length, 0)).expect("not empty");
            copy[4..8].copy_from_slice(&(at as u32).to_be_bytes());
        }
        // What was pushed to the backlog comes after the batch.
        ends.client.on_bytes(Nanos::ZERO, &scratch, &mut ends.at_client).expect("our own frames");
        ends.exchange().expect("our own frames");
        assert_eq!(ends.at_client.messages.len(), 12);
        for (at, message) in ends.at_client.messages.iter().enumerate() {
            assert_eq!(message[4..8], (at as u32 % 6).to_be_bytes(), "{kind} {at}");
            assert_eq!(message[8..], text(lengths[at % 6], 0)[8..]);
        }
    }
}

testkit::properties! {
    #[test]
    fn what_is_pushed_arrives_compressed(
        kind in prop::sample::select(&KINDS[..]),
        level in 0u8..=9,
        size in prop::sample::select(&[64u16, 100, 1000, 6144, 65_532][..]),
        lengths in prop::collection::vec((1usize..9000, any::<bool>(), any::<bool>()), 1..60),
        seed: u64,
    ) {
        let server = ServerConfig { message_size_bytes: size, zlib_level: level, ..ServerConfig::default() };
        let mut ends = Ends::with(server, asking(kind), ConnectionVersion::V14);
        ends.cuts = Some(Rng::new(seed));
        ends.exchange().expect("our own ends");
        let mut sent = Vec::new();
        for (length, is_noise, is_flushed) in lengths {
            let message = if is_noise { message(length, seed) } else { text(length, seed) };
            ends.server.outbound().push(&message).expect("within the backlog");
            sent.push(message);
            if is_flushed {
                ends.exchange().expect("our own frames");
            }
        }
        ends.exchange().expect("our own frames");
        prop_assert!(ends.at_client.messages == sent);
    }
}

#[test]
fn a_steady_compressed_stream_needs_no_more_memory() {
    for kind in KINDS {
        let mut ends = ends(kind, 6, ConnectionVersion::V14);
        let turn = |ends: &mut Ends| {
            for mark in 0..20 {
                ends.server.outbound().push(&text(700, mark)).expect("within the backlog");
            }
            ends.exchange().expect("our own frames");
            ends.at_client.messages.clear();
            (ends.server.memory_bytes(), ends.client.memory_bytes())
        };
        for _ in 0..3 {
            turn(&mut ends);
        }
        let warm = turn(&mut ends);
        for _ in 0..200 {
            assert_eq!(turn(&mut ends), warm, "{kind}");
        }
    }
}

#[test]
fn an_idle_connection_gives_back_all_but_the_history_of_zlib() {
    for (kind, most) in [(CompressionType::Zlib, 400 << 10), (CompressionType::Lz4, 20 << 10)] {
        let mut ends = ends(kind, 6, ConnectionVersion::V14);
        ends.server.outbound().push(&text(100_000, 0)).expect("within the backlog");
        ends.client.outbound().push(&text(100_000, 0)).expect("within the backlog");
        ends.exchange().expect("our own frames");
        for second in [10, 20, 30] {
            let now = Nanos(second * 1_000_000_000);
            ends.server.on_bytes(now, b"\0\x03\x02", &mut ends.at_server).expect("a ping");
            ends.server.on_wakeup(now).expect("the peer pings");
            take(ends.server.outbound());
        }
        let idle = ends.server.memory_bytes();
        assert!(idle < most, "{kind}: {idle}");
    }
}

/// A server that has agreed on a compression.
fn compressing_server(kind: CompressionType) -> ServerConnection {
    let config = ServerConfig { compression_forced: Some(kind), ..ServerConfig::default() };
    active_server(config, &counters()).0
}

fn frame(flags: u8, data: &[u8]) -> Vec<u8> {
    let mut frame = (3 + data.len() as u16).to_be_bytes().to_vec();
    frame.push(flags);
    frame.extend_from_slice(data);
    frame
}

fn deflated(plain: &[u8]) -> Vec<u8> {
    let mut encoder = ZlibEncoder::new(Vec::new(), flate2::Compression::best());
    encoder.write_all(plain).expect("a vector takes everything");
    encoder.flush().expect("a vector takes everything");
    encoder.get_ref().clone()
}

/// Feeds bytes to a server that has agreed on a compression and tells how it ended.
fn end_of(kind: CompressionType, bytes: &[u8]) -> FrameError {
    let mut server = compressing_server(kind);
    let mut recorder = Recorder::default();
    let end = server.on_bytes(Nanos::ZERO, bytes, &mut recorder);
    let Err(CloseReason::Peer(PeerError::Frame(error))) = end else { panic!("{kind}: {end:?}") };
    error
}

#[test]
fn a_payload_that_holds_more_than_agreed_is_refused() {
    let zeros = deflated(&[0; 4 << 20]);
    assert!(zeros.len() < 6000, "a thousandth of what it holds");
    let bytes = zeros.len() as u32;
    let error = end_of(CompressionType::Zlib, &frame(0x04, &zeros));
    assert_eq!(error, FrameError::Oversized { bytes, limit_bytes: 6147 });
    // A block of LZ4: one literal, then a match of 255 bytes for each further byte.
    let mut block = vec![0x1f, 0, 1, 0];
    block.extend_from_slice(&[255; 5000]);
    block.extend_from_slice(&[0, 0x10, 0]);
    let error = end_of(CompressionType::Lz4, &frame(0x04, &block));
    assert_eq!(error, FrameError::Oversized { bytes: block.len() as u32, limit_bytes: 6147 });
}

#[test]
fn a_payload_of_just_the_length_allowed_is_taken_and_one_byte_more_is_not() {
    for (length, is_taken) in [(6147, true), (6148, false)] {
        let mut server = compressing_server(CompressionType::Zlib);
        let mut recorder = Recorder::default();
        let end = server.on_bytes(Nanos::ZERO, &frame(0x04, &deflated(&vec![7; length])), &mut recorder);
        assert_eq!(end.is_ok(), is_taken, "{length}");
        assert_eq!(recorder.messages.len(), usize::from(is_taken));
    }
}

#[test]
fn a_payload_that_is_no_compression_is_refused() {
    let corrupt = |bytes, agreed| FrameError::Corrupt { bytes, agreed };
    let agreed = CompressionType::Zlib;
    assert_eq!(end_of(agreed, &frame(0x04, b"no zlib")), corrupt(7, agreed));
    let mut spoilt = deflated(&text(3000, 1));
    spoilt[40] ^= 0xff;
    spoilt[41] ^= 0xff;
    assert!(matches!(end_of(agreed, &frame(0x04, &spoilt)), FrameError::Corrupt { .. }));
    let agreed = CompressionType::Lz4;
    assert_eq!(end_of(agreed, &frame(0x04, &[0x40, 1, 2])), corrupt(3, agreed), "four literals, two there");
    assert_eq!(
        end_of(agreed, &frame(0x04, &[0x10, 1, 9, 0, 0])),
        corrupt(5, agreed),
        "a match before the start"
    );
}

#[test]
fn a_stream_that_was_finished_ends_with_the_next_payload() {
    let mut encoder = ZlibEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(&text(500, 0)).expect("a vector takes everything");
    let finished = encoder.finish().expect("a vector takes everything");
    let mut server = compressing_server(CompressionType::Zlib);
    let mut recorder = Recorder::default();
    server.on_bytes(Nanos::ZERO, &frame(0x04, &finished), &mut recorder).expect("it holds a message");
    assert_eq!(recorder.messages, [text(500, 0)]);
    let end = server.on_bytes(Nanos::ZERO, &frame(0x04, &finished), &mut recorder);
    assert!(matches!(end, Err(CloseReason::Peer(PeerError::Frame(FrameError::Corrupt { .. })))), "{end:?}");
}

#[test]
fn a_payload_in_two_parts_is_taken_and_any_other_second_part_is_refused() {
    let whole = deflated(&text(5000, 4));
    let (first, second) = whole.split_at(100);
    let stream = [frame(0x0c, first), vec![0, 3, 2], frame(0x04, second)].concat();
    for cut in 0..stream.len() {
        let mut server = compressing_server(CompressionType::Zlib);
        let mut recorder = Recorder::default();
        for piece in [&stream[..cut], &stream[cut..]] {
            server.on_bytes(Nanos::ZERO, piece, &mut recorder).expect("two parts and a ping between");
        }
        assert!(recorder.messages == [text(5000, 4)], "cut at {cut}");
    }
    for flags in [0x0c, 0x14, 0x1c] {
        let stream = [frame(0x0c, first), frame(flags, second)].concat();
        assert_eq!(end_of(CompressionType::Zlib, &stream), FrameError::Continuation { flags });
    }
}

#[test]
fn a_payload_that_holds_nothing_is_refused() {
    let nothing = deflated(b"");
    assert_eq!(end_of(CompressionType::Zlib, &frame(0x04, &nothing)), FrameError::Empty { flags: 4 });
    assert_eq!(end_of(CompressionType::Lz4, &frame(0x14, &[0])), FrameError::Empty { flags: 0x14 });
}

#[test]
fn a_packed_payload_and_a_fragment_are_checked_after_they_are_decompressed() {
    let packed = deflated(&[0, 9, 1, 2]);
    let error = end_of(CompressionType::Zlib, &frame(0x14, &packed));
    assert_eq!(error, FrameError::PackedLength { bytes: 9, left_bytes: 2 });
    let mut fragment = vec![8, 0, 0, 0, 5, 0, 1];
    fragment.extend(deflated(&[7; 6]));
    let error = end_of(CompressionType::Zlib, &frame(0x05, &fragment));
    assert_eq!(error, FrameError::FragmentOverrun { id: 1, bytes: 6, total_bytes: 5 });
}

#[test]
fn a_server_that_allows_no_compression_refuses_compressed_frames() {
    let config = ServerConfig { compression: Vec::new(), ..ServerConfig::default() };
    let (mut server, _) = active_server(config, &counters());
    let end = server.on_bytes(Nanos::ZERO, &frame(0x04, &deflated(b"x")), &mut Recorder::default());
    let error = FrameError::Compressed { flags: 4, agreed: CompressionType::None };
    assert_eq!(end, Err(CloseReason::Peer(error.into())));
}

#[test]
fn spoilt_compressed_streams_cost_at_most_the_connection_and_bounded_memory() {
    let _repeat = testkit::repeat!();
    let bound = Limits::default().memory_bytes_max(6144) + Limits::compression_bytes_max(6144);
    let mut rng = Rng::new(0xc0de);
    let (mut survived, mut ended) = (0, 0);
    for round in 0..3000u64 {
        let kind = KINDS[(round % 2) as usize];
        let mut ends = ends(kind, 1, ConnectionVersion::V14);
        let mut bytes = Vec::new();
        for _ in 0..5 {
            let length = 1 + rng.below(9000) as usize;
            ends.client.outbound().push(&text(length, round)).expect("within the backlog");
            bytes.extend(take(ends.client.outbound()));
        }
        for _ in 0..1 + rng.below(3) {
            let at = rng.below(bytes.len() as u64) as usize;
            bytes[at] = rng.next_u64() as u8;
        }
        for piece in pieces(&bytes, Some(&mut rng)) {
            if ends.server.on_bytes(Nanos::ZERO, piece, &mut ends.at_server).is_err() {
                break;
            }
        }
        assert!(ends.at_server.messages.iter().all(|m| !m.is_empty() && m.len() <= 16 << 20));
        assert!(ends.server.memory_bytes() as u64 <= bound);
        *if ends.server.close_reason().is_some() { &mut ended } else { &mut survived } += 1;
    }
    assert!(survived > 100 && ended > 100, "both happen: {survived} {ended}");
}

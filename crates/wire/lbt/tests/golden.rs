//! Golden packets: every packet of the vectors is parsed, compared with what tshark prints, and built again.

mod golden_fields;
mod support;

use counters::table::LbtrmSource;
use golden_fields::{Fields, lbmc_fields, lbmr_fields, lbtrm_fields, lbtru_fields};
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use support::{Event, ReceiverBench, SESSION};
use tickcast_lbt::config::{ReceiverConfig, SourceConfig};
use tickcast_lbt::error::{Part, WireError};
use tickcast_lbt::rm::Source;
use tickcast_lbt::stream::StreamDecoder;
use tickcast_lbt::wire::lbmc::{self, Chain, Header, Message, Messages};
use tickcast_lbt::wire::{lbmr, lbtrm, lbtru};
use units::{Nanos, Sqn};

struct Frame {
    name: String,
    protocols: String,
    payload: Vec<u8>,
    tshark: Value,
}

fn vectors(sub: &str) -> Vec<PathBuf> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/vectors").join(sub);
    let entries = std::fs::read_dir(&dir).expect("the vectors are part of the repository");
    let mut files: Vec<_> = entries.map(|e| e.expect("readable").path()).collect();
    files.retain(|p| p.extension().is_some_and(|x| x == "json"));
    files.sort();
    files
}

fn frames(file: &Path) -> Vec<Frame> {
    let text = std::fs::read_to_string(file).expect("readable");
    let rows: Vec<Value> = serde_json::from_str(&text).expect("JSON");
    let stem = file.file_stem().expect("named").to_string_lossy().into_owned();
    rows.into_iter()
        .filter(|row| row["payload_hex"].as_str().is_some_and(|h| !h.is_empty()))
        .map(|row| Frame {
            name: format!("{stem} frame {}", row["frame"]),
            protocols: row["protocols"].as_str().expect("string").to_owned(),
            payload: unhex(row["payload_hex"].as_str().expect("string")),
            tshark: row["tshark"].clone(),
        })
        .collect()
}

fn unhex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.chars().map(|c| c.to_digit(16).expect("hexadecimal") as u8).collect();
    digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect()
}

/// Builds the messages again from their parsed parts.
fn rebuilt(messages: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    for message in Messages::new(messages) {
        let message = message.expect("checked before");
        let mut chain = Chain::default();
        message.headers.iter().for_each(|h| chain.push(&h));
        let topic = message.kind.has_topic().then_some((message.topic_index, message.sqn));
        lbmc::emit_message(&mut out, message.kind, topic, &chain, message.payload);
    }
    out
}

fn check_lbtrm(frame: &Frame) -> Fields {
    let packet = lbtrm::Packet::parse(&frame.payload).unwrap_or_else(|e| panic!("{}: {e}", frame.name));
    let mut again = Vec::new();
    match packet {
        lbtrm::Packet::Data(data) => {
            lbmc::check(data.messages).unwrap_or_else(|e| panic!("{}: {e}", frame.name));
            let mut header = [0; lbtrm::DATA_HEADER_LEN];
            data.emit_header(&mut header);
            again.extend_from_slice(&header);
            again.extend(rebuilt(data.messages));
        }
        lbtrm::Packet::SessionMessage(sm) => sm.emit(&mut again),
        lbtrm::Packet::Nak(nak) => rebuild_nak(&nak, &mut again),
        lbtrm::Packet::Ncf(ncf) => rebuild_ncf(&ncf, &mut again),
    }
    assert_eq!(again, frame.payload, "{}: built again", frame.name);
    lbtrm_fields(&packet)
}

fn rebuild_nak(nak: &lbtrm::Nak<'_>, out: &mut Vec<u8>) {
    let numbers: Vec<_> = nak.numbers.iter().collect();
    if nak.format == 0 {
        lbtrm::Nak::emit(nak.session, &numbers, out);
    } else {
        lbtrm::Nak::emit_header(nak.session, numbers.len() as u16, nak.format, out);
        numbers.iter().for_each(|n| out.extend_from_slice(&n.0.to_be_bytes()));
    }
    out.extend_from_slice(nak.trailer);
}

fn rebuild_ncf(ncf: &lbtrm::Ncf<'_>, out: &mut Vec<u8>) {
    let numbers: Vec<_> = ncf.numbers.iter().collect();
    if ncf.format == 0 && ncf.reserved == 0 {
        lbtrm::Ncf::emit(ncf.session, ncf.trail_sqn, ncf.reason, &numbers, out);
    } else {
        let byte = ncf.reason.code() << 4 | ncf.format;
        let count = numbers.len() as u16;
        lbtrm::Ncf::emit_header(ncf.session, ncf.trail_sqn, count, ncf.reserved, byte, out);
        numbers.iter().for_each(|n| out.extend_from_slice(&n.0.to_be_bytes()));
    }
    out.extend_from_slice(ncf.trailer);
}

fn check_lbmr(frame: &Frame) -> Fields {
    let packet = lbmr::Packet::parse(&frame.payload).unwrap_or_else(|e| panic!("{}: {e}", frame.name));
    let (mut queries, mut records, mut options) = (Vec::new(), Vec::new(), Vec::new());
    packet.queries.iter().for_each(|q| q.emit(&mut queries));
    for record in packet.records.iter() {
        let mut topic_options = Vec::new();
        if let Some(o) = record.options {
            o.iter().for_each(|o| o.emit(&mut topic_options));
        }
        let options = record.options.map(|_| lbmr::TopicOptions::written(&topic_options));
        lbmr::TopicInformation { options, ..record }.emit(&mut records);
    }
    if let Some(o) = packet.options {
        o.iter().for_each(|o| o.emit(&mut options));
    }
    let wildcard = packet.kind == lbmr::Kind::Wildcard;
    let mut again = Vec::new();
    lbmr::Packet {
        queries: lbmr::Queries::written(packet.queries.len() as u8, wildcard, &queries),
        records: lbmr::TopicRecords::written(packet.records.len() as u16, &records),
        options: packet.options.map(|_| lbmr::PacketOptions::written(&options)),
        ..packet
    }
    .emit(&mut again);
    assert_eq!(again, frame.payload, "{}: built again", frame.name);
    lbmr_fields(&packet)
}

fn check_lbtru(frame: &Frame) -> Fields {
    let packet = lbtru::Packet::parse(&frame.payload).unwrap_or_else(|e| panic!("{}: {e}", frame.name));
    let is_data = matches!(packet.body, lbtru::Body::Data { .. });
    let mut again = Vec::new();
    lbtru::Packet { rest: &[], ..packet }.emit(&mut again);
    if is_data {
        lbmc::check(packet.rest).unwrap_or_else(|e| panic!("{}: {e}", frame.name));
        again.extend(rebuilt(packet.rest));
    }
    assert_eq!(again, frame.payload, "{}: built again", frame.name);
    lbtru_fields(&packet)
}

fn check_messages(frame: &Frame, messages: &[u8]) -> Fields {
    lbmc::check(messages).unwrap_or_else(|e| panic!("{}: {e}", frame.name));
    assert_eq!(rebuilt(messages), messages, "{}: built again", frame.name);
    lbmc_fields(messages)
}

#[test]
fn every_packet_reads_as_tshark_reads_it_and_is_built_again_byte_for_byte() {
    let mut compared = BTreeSet::new();
    let mut stream = Vec::new();
    for frame in vectors("").iter().flat_map(|f| frames(f)) {
        let fields = if frame.protocols.contains(":lbtrm") {
            check_lbtrm(&frame)
        } else if frame.protocols.contains(":lbmr") {
            check_lbmr(&frame)
        } else if frame.protocols.contains(":lbtru") {
            check_lbtru(&frame)
        } else {
            // TCP segments are cut across messages: tshark shows a message where it ends
            stream.extend_from_slice(&frame.payload);
            let Ok(_) = lbmc::check(&stream) else { continue };
            let messages = std::mem::take(&mut stream);
            if messages.len() != frame.payload.len() {
                assert_eq!(rebuilt(&messages), messages, "{}", frame.name);
                continue;
            }
            check_messages(&frame, &messages)
        };
        fields.compare(&frame.name, &frame.tshark, &mut compared);
    }
    assert!(stream.is_empty(), "{} bytes of a TCP stream were not understood", stream.len());
    assert!(compared.len() >= 90, "only {} kinds of field were compared: {compared:?}", compared.len());
}

/// What each broken capture is to this layer. `None`: nothing is wrong with its packets taken one by one.
fn verdict(stem: &str) -> Option<fn(&WireError) -> bool> {
    use WireError::{BadLength, Trailing, Truncated, Unsupported, Unterminated};
    Some(match stem {
        "lbmc-zero-lengths" => |e| matches!(e, BadLength { .. }),
        "lbmr-trailing-bytes" => |e| matches!(e, Trailing { part: Part::LbmrHeader, extra: 3, .. }),
        "lbtrm-option-header" => |e| matches!(e, Unsupported { part: Part::LbtrmOptions, found: 1, .. }),
        "nak-count" => |e| matches!(e, Truncated { part: Part::Nak, .. }),
        "not-recognised" => |e| matches!(e, Unsupported { part: Part::LbtrmVersion, found: 1, .. }),
        "tir-wrong-transport-length" => |e| matches!(e, BadLength { part: Part::TransportRecord, .. }),
        "tqr-unterminated" => |e| matches!(e, Unterminated { part: Part::TopicQuery, .. }),
        "trailing-bytes" => |e| matches!(e, Truncated { part: Part::LbmcMessage, have: 3, .. }),
        "truncated-lbmc" => |e| matches!(e, Truncated { part: Part::LbmcMessage, .. }),
        // the header is skipped by its length, as a receiver must that meets a newer sender
        "unknown-lbmc-header" => return None,
        // defects of the session, which the receiver's loss map sees
        "tail-loss" | "unrecovered-loss" => return None,
        other => panic!("no verdict on {other}"),
    })
}

#[test]
fn every_broken_packet_is_refused_where_the_defect_is_visible_in_the_packet() {
    let mut seen = 0;
    for file in vectors("bad") {
        let stem = file.file_stem().expect("named").to_string_lossy().into_owned();
        let errors: Vec<_> =
            frames(&file).iter().filter_map(|f| parse_any(&f.payload, &f.tshark).err()).collect();
        match verdict(&stem) {
            None => assert_eq!(errors, [], "{stem}"),
            Some(expected) => {
                assert!(!errors.is_empty(), "{stem} was accepted");
                assert!(errors.iter().all(expected), "{stem}: {errors:?}");
            }
        }
        seen += 1;
    }
    assert_eq!(seen, 12);
}

fn parse_any(payload: &[u8], tshark: &Value) -> Result<(), WireError> {
    if tshark.get("lbmr").is_some() {
        return lbmr::Packet::parse(payload).map(drop);
    }
    match lbtrm::Packet::parse(payload)? {
        lbtrm::Packet::Data(data) => lbmc::check(data.messages).map(drop),
        _ => Ok(()),
    }
}

#[test]
fn the_private_extension_is_read_and_the_batch_flags_are_kept() {
    let frames = named("22-lbmc-private-extensions");
    let lbtrm::Packet::Data(data) = lbtrm::Packet::parse(&frames[1].payload).expect("well-formed") else {
        panic!("not DATA");
    };
    let message = Message::parse(data.messages, 0).expect("well-formed");
    let option = Header::ExtOpt { flags: 0xC0, id: 0, subtype: 0x4C10, offset: 0, data: &[0, 0, 0, 1] };
    assert_eq!(message.headers.iter().collect::<Vec<_>>(), [option]);
    assert_eq!(message.data(), b"sqn high half");
}

/// The frames of one file.
fn named(stem: &str) -> Vec<Frame> {
    frames(&Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/vectors/{stem}.json")))
}

/// Sends through a source that begins at number 0, one datagram a call, and compares with the frames.
struct Sender {
    source: Source,
    expected: std::vec::IntoIter<Frame>,
}

impl Sender {
    fn new(stem: &str, datagram_max: u32) -> Sender {
        let config = SourceConfig { datagram_max_size: datagram_max, ..SourceConfig::default() };
        let counters = Arc::new(LbtrmSource::default());
        let source = Source::new(&config, SESSION, Nanos::ZERO, counters).expect("allowed");
        let frames = named(stem).into_iter().filter(|f| f.protocols.contains("lbtrm"));
        Sender { source, expected: frames.collect::<Vec<_>>().into_iter() }
    }

    /// Flushes and compares every datagram that comes out.
    fn compare(&mut self) {
        self.source.flush();
        while let Some(run) = self.source.poll_transmit(Nanos::ZERO) {
            let count = run.count;
            for datagram in run.datagrams() {
                let frame = self.expected.next().expect("no more datagrams than frames");
                assert_eq!(datagram, frame.payload, "{}", frame.name);
            }
            self.source.sent(Nanos::ZERO, count);
        }
    }
}

#[test]
fn a_source_sends_the_golden_datagrams_byte_for_byte() {
    let now = Nanos::ZERO;
    let mut s = Sender::new("01-lbtrm-data", 1_472);
    let topic = s.source.add_topic(now, 0x0a11_ce01);
    let kilobyte: Vec<u8> = (0..1024).map(|i| i as u8).collect();
    for payload in [&b"hello, group"[..], b"", &kilobyte] {
        s.source.send(now, topic, &[payload]).expect("room");
        s.compare();
    }
    assert!(s.expected.next().is_none());

    let mut s = Sender::new("02-lbtrm-batching", 1_472);
    let one = s.source.add_topic(now, 0x0a11_ce01);
    let two = s.source.add_topic(now, 0x0b0b_0002);
    for (topic, payload) in [(one, vec![b'A'; 30]), (two, vec![b'B'; 31]), (one, vec![b'C'])] {
        s.source.send(now, topic, &[&payload]).expect("room");
    }
    s.compare();
    for (flags, payload) in [(2, "one"), (0, "two"), (1, "three")] {
        let mut batch = Chain::default();
        batch.push(&Header::Batch { flags });
        s.source.send_with(now, one, &batch, &[payload.as_bytes()]).expect("room");
    }
    s.compare();
    assert!(s.expected.next().is_none());

    // 1,300 bytes of data and 48 of headers
    let mut s = Sender::new("03-lbtrm-fragments", 1_348);
    let topic = s.source.add_topic_at(now, 0x0a11_ce01, Sqn(10));
    let whole: Vec<u8> = (0..3000u32).map(|i| (i * 7) as u8).collect();
    s.source.send(now, topic, &[&whole]).expect("room");
    s.compare();
    s.source.send(now, topic, &[b"next whole message"]).expect("room");
    s.compare();
    assert!(s.expected.next().is_none());
}

#[test]
fn a_receiver_makes_of_the_golden_session_with_loss_what_was_sent() {
    let mut b = ReceiverBench::new(&ReceiverConfig::default());
    b.receiver.subscribe(0x0a11_ce01, 1).expect("free");
    for frame in named("06-lbtrm-session-with-loss").iter().filter(|f| f.protocols.contains("lbtrm")) {
        // the capture holds the NAKs too, which do not go to the group
        let nak = matches!(lbtrm::Packet::parse(&frame.payload), Ok(lbtrm::Packet::Nak(_)));
        if !nak {
            b.take(&frame.payload);
        }
    }
    let mut sqns = Vec::new();
    for event in b.log.take() {
        match event {
            Event::Message { sqn, payload, .. } => {
                assert!(payload.starts_with(format!("tick {sqn:06} ").as_bytes()));
                sqns.push(sqn);
            }
            Event::Begin { first, .. } => assert_eq!(first, 0),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(sqns, (0..=26).collect::<Vec<_>>());
    assert_eq!((b.counters.lost.get(), b.counters.recovered.get(), b.receiver.missing()), (4, 4, 0));
    assert_eq!((b.counters.ncfs_rx_delay.get(), b.counters.sms_rcved.get()), (2, 5));
}

#[test]
fn the_loss_in_the_broken_sessions_is_seen_by_the_receiver() {
    for (stem, lost) in [("bad/tail-loss", 1), ("bad/unrecovered-loss", 1)] {
        let mut b = ReceiverBench::new(&ReceiverConfig::default());
        b.receiver.subscribe(0x0a11_ce01, 1).expect("free");
        named(stem).iter().for_each(|f| {
            // of the NAK among them the receiver only says that it is none of its business
            let _ = b.try_take(&f.payload);
        });
        assert_eq!(b.receiver.missing(), lost, "{stem}");
        b.advance_heard(Duration::from_secs(1));
        assert_eq!(b.counters.unrecovered_tmo.get(), lost, "{stem}");
        let told = b.log.take().iter().any(|e| matches!(e, Event::Lost { first: 3, count: 1, .. }));
        assert_eq!(told, stem.contains("unrecovered"), "{stem}: the tail's topic is not known");
    }
}

#[test]
fn the_stream_decoder_reads_the_golden_tcp_connections() {
    let from_source = |stem: &str, port: &str| {
        let text =
            std::fs::read_to_string(format!("{}/tests/vectors/{stem}.json", env!("CARGO_MANIFEST_DIR")));
        let rows: Vec<Value> = serde_json::from_str(&text.expect("readable")).expect("JSON");
        let own = rows.into_iter().filter(|r| r["src"].as_str().is_some_and(|s| s.ends_with(port)));
        own.map(|r| unhex(r["payload_hex"].as_str().unwrap_or_default())).collect::<Vec<_>>()
    };
    let mut seen = Vec::new();
    let mut decoder = StreamDecoder::default();
    for segment in from_source("40-lbttcp-session", ":14371") {
        let result = decoder.push(&segment, |m| {
            seen.push((m.kind.code(), m.sqn.0, String::from_utf8_lossy(m.payload).into_owned()));
        });
        result.expect("well-formed");
    }
    assert_eq!(seen.len(), 6);
    assert_eq!(seen[0], (8, 0, String::new()));
    assert_eq!(seen[5], (0, 4, "split across segments ".repeat(4)));
    let mut old = Vec::new();
    let mut decoder = StreamDecoder::default();
    for segment in from_source("41-lbmc-late-join-over-tcp", ":14392") {
        decoder.push(&segment, |m| old.push((m.kind.code(), m.sqn.0))).expect("well-formed");
    }
    assert_eq!(old, [(8, 0), (0xA, 899), (0xA, 900)]);
    assert!(decoder.is_at_boundary());
}

//! Golden packets: every packet of the vectors is parsed, compared with what tshark prints, and built again.

mod golden_fields;

use golden_fields::{Fields, lbmc_fields, lbmr_fields, lbtrm_fields};
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use tickcast_lbt::error::{Part, WireError};
use tickcast_lbt::wire::lbmc::{self, Chain, Header, Message, Messages};
use tickcast_lbt::wire::{lbmr, lbtrm};

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

/// LBT-RU is not spoken here; its DATA carries LBMC after the fixed part and the options.
fn lbtru_messages(payload: &[u8]) -> Option<&[u8]> {
    let (&kind, &next) = (payload.first()?, payload.get(1)?);
    let (mut at, mut next) = (if kind == 0 { 12 } else { return None }, next);
    while next != 0 {
        next = payload[at];
        at += 8;
    }
    Some(&payload[at..])
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
            match lbtru_messages(&frame.payload) {
                Some(messages) => check_messages(&frame, messages),
                None => continue,
            }
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
    assert!(compared.len() >= 70, "only {} kinds of field were compared: {compared:?}", compared.len());
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
    let file = vectors("").into_iter().find(|f| f.ends_with("22-lbmc-private-extensions.json"));
    let frames = frames(&file.expect("present"));
    let lbtrm::Packet::Data(data) = lbtrm::Packet::parse(&frames[1].payload).expect("well-formed") else {
        panic!("not DATA");
    };
    let message = Message::parse(data.messages, 0).expect("well-formed");
    let option = Header::ExtOpt { flags: 0xC0, id: 0, subtype: 0x4C10, offset: 0, data: &[0, 0, 0, 1] };
    assert_eq!(message.headers.iter().collect::<Vec<_>>(), [option]);
    assert_eq!(message.data(), b"sqn high half");
}

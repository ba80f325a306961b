//! Changed pulses, reports and keyed codes: nothing panics, the rate stays within its bounds, and what is not
//! authentic has no effect.

use crate::group::{Group, SOURCE, address};
use crate::keys::keys;
use crate::link::adaptive;
use std::net::SocketAddrV4;
use std::time::Duration;
use tickcast_lbt::config::{ReceiverConfig, SourceConfig};
use tickcast_lbt::congestion::{Pulse, Report};
use tickcast_lbt::wire::extension::{SUBTYPE_PULSE, SUBTYPE_REPORT, emit_extension, find_extension};
use tickcast_lbt::wire::lbtrm::{Nak, SessionMessage};
use units::{Nanos, Rng, Sqn};

const FROM: SocketAddrV4 = SocketAddrV4::new(SOURCE, 40_001);
const LIMIT: u64 = 50_000_000;
const FLOOR: u64 = 500_000;

/// Session messages with pulses, and reports, of random contents that are mostly likely ones.
fn packet(rng: &mut Rng, group: &Group) -> (bool, Vec<u8>) {
    let mut out = Vec::new();
    let word = |rng: &mut Rng| if rng.chance(0.5) { rng.below(200) as u32 } else { rng.next_u32() };
    if rng.chance(0.5) {
        SessionMessage::new(group.source.session(), word(rng), Sqn(word(rng)), Sqn(0)).emit(&mut out);
        let governor = rng.chance(0.5).then(|| (word(rng), word(rng) as u16));
        let sent_at = if rng.chance(0.7) { group.now } else { Nanos(rng.next_u64()) };
        emit_extension(&mut out, SUBTYPE_PULSE, &Pulse { governor, sent_at }.emit());
        return (true, mutated(rng, out));
    }
    Nak::emit_header(group.source.session(), 0, 0, &mut out);
    let report = Report {
        loss: word(rng) as u16,
        receiver: word(rng) % 4,
        pulse: word(rng),
        held_us: word(rng),
        first: Sqn(word(rng)),
        end: Sqn(word(rng)),
        lost: word(rng),
        span_us: word(rng),
        delay_us: word(rng),
    };
    emit_extension(&mut out, SUBTYPE_REPORT, &report.emit());
    (false, mutated(rng, out))
}

fn mutated(rng: &mut Rng, mut packet: Vec<u8>) -> Vec<u8> {
    if rng.chance(0.5) {
        return packet;
    }
    let at = 8 + rng.below(packet.len() as u64 - 8) as usize;
    match rng.below(4) {
        0 => packet[at] ^= 1 << rng.below(8),
        1 => packet[at] = [0, 1, 0x7f, 0x80, 0xfe, 0xff][rng.below(6) as usize],
        2 => packet.truncate(at),
        _ => packet.extend((0..rng.below(60)).map(|_| rng.next_u32() as u8).collect::<Vec<_>>()),
    }
    packet
}

#[test]
fn whatever_is_reported_the_rate_stays_within_its_bounds() {
    testkit::for_each_seed!(0..4, |seed| {
        let mut rng = Rng::new(seed);
        let mut group = Group::new(&adaptive(LIMIT), &ReceiverConfig::default(), 1);
        for step in 0..5_000u64 {
            if step % 10 == 0 {
                group.send(&[7; 1_000]);
            }
            group.run_for(Duration::from_micros(rng.below(2_000)));
            let (to_node, bytes) = packet(&mut rng, &group);
            let node = &mut group.nodes[0];
            if to_node {
                // refused or not, it must do no harm
                let _ = node.receiver.on_datagram(group.now, FROM, &bytes, &mut node.tally);
            } else {
                let _ = group.source.on_datagram(group.now, address(3), &bytes);
            }
            let rate = group.counters.rate_bits_per_second.get();
            assert!((FLOOR..=LIMIT).contains(&rate), "seed {seed}: {rate}");
            assert!(
                group.source.memory_bytes() < 100 << 20 && group.nodes[0].receiver.memory_bytes() < 1 << 20
            );
        }
        let c = &group.counters;
        assert!(c.reports_rcved.get() > 100 && c.nak_pckts_dropped.get() > 10, "seed {seed}: {c:?}");
        while group.source.poll_event().is_some() {}
    });
}

#[test]
fn without_the_key_no_pulse_report_or_nak_has_an_effect() {
    let _repeat = testkit::repeat!();
    let mut rng = Rng::new(9);
    let mut group = Group::new(&SourceConfig::default(), &ReceiverConfig::default(), 1);
    group.source.authenticate(keys(1, None), SOURCE);
    group.nodes[0].receiver.authenticate(keys(1, None));
    assert!(group.source.send(group.now, group.topic, &[b"message"]).is_ok());
    group.source.flush();
    group.run_for(Duration::from_millis(1));
    for _ in 0..5_000 {
        let (to_node, bytes) = packet(&mut rng, &group);
        let node = &mut group.nodes[0];
        let refused = if to_node {
            node.receiver.on_datagram(group.now, FROM, &bytes, &mut node.tally)
        } else {
            group.source.on_datagram(group.now, address(3), &bytes)
        };
        assert!(refused.is_err());
    }
    let (node, c) = (&group.nodes[0], &group.counters);
    assert_eq!((node.tally.messages, node.counters.lost.get(), node.counters.sms_rcved.get()), (1, 0, 0));
    assert_eq!((c.naks_rcved.get(), c.reports_rcved.get()), (0, 0));
    assert!(node.counters.dgrams_unauthentic.get() > 1_000 && c.nak_pckts_unauthentic.get() > 1_000);
}

#[test]
fn any_bytes_are_searched_for_extensions_without_harm() {
    let _repeat = testkit::repeat!();
    let mut rng = Rng::new(4);
    for _ in 0..100_000 {
        let mut bytes = Vec::new();
        emit_extension(&mut bytes, SUBTYPE_REPORT, &[1; 36]);
        emit_extension(&mut bytes, SUBTYPE_PULSE, &[1; 16]);
        for _ in 0..rng.below(6) {
            let at = rng.below(bytes.len() as u64) as usize;
            bytes[at] = rng.next_u32() as u8;
        }
        bytes.truncate(rng.below(bytes.len() as u64 + 1) as usize);
        if let Some(report) = find_extension(&bytes, SUBTYPE_REPORT).and_then(Report::parse) {
            assert_eq!(Report::parse(&report.emit()), Some(report));
        }
        if let Some(pulse) = find_extension(&bytes, SUBTYPE_PULSE).and_then(Pulse::parse) {
            assert_eq!(Pulse::parse(&pulse.emit()).map(|p| p.sent_at), Some(pulse.sent_at));
        }
    }
}

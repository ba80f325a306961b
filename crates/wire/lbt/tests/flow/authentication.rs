//! Sessions with keyed codes: what is signed works as ever, what is not has no effect.

use crate::group::{Group, SESSION, SOURCE, address};
use crate::keys::keys;
use crate::link::{Link, LinkPlan, adaptive};
use crate::pcap::{self, Capture};
use std::net::{Ipv4Addr, SocketAddrV4};
use std::time::Duration;
use tickcast_lbt::authentication::{Keys, SEAL_LEN};
use tickcast_lbt::config::{ReceiverConfig, SourceConfig};
use tickcast_lbt::error::WireError;
use tickcast_lbt::rm::Source;
use tickcast_lbt::wire::lbtrm::Nak;
use units::Sqn;

const MS: Duration = Duration::from_millis(1);
const FROM: SocketAddrV4 = SocketAddrV4::new(SOURCE, 40_001);

/// A group whose source signs with the first key and accepts the others, and whose receivers do likewise.
fn signed(source: &SourceConfig, source_keys: Keys, receiver_keys: &Keys, nodes: usize) -> Group {
    let mut group = Group::new(source, &ReceiverConfig::default(), nodes);
    group.source.authenticate(source_keys, SOURCE);
    for node in &mut group.nodes {
        node.receiver.authenticate(receiver_keys.clone());
    }
    group
}

#[test]
fn a_lossy_session_is_the_same_with_codes() {
    let config = SourceConfig {
        transmission_window_size: 64 << 10,
        maximum_message_size: 32 << 10,
        transport_session_maximum_buffer: 32 << 10,
        ..SourceConfig::default()
    };
    let mut group = signed(&config, keys(1, None), &keys(1, None), 3);
    group.drops =
        Box::new(|node, sqn, again| !again && sqn.0 > 0 && (sqn.0 as usize + node).is_multiple_of(7));
    for i in 0..1_000 {
        // fragments too, and a window that moves on, so that trailing edges differ when it is repeated
        let bytes = if i % 50 == 0 { 9_000 } else { 300 };
        assert!(group.send(&vec![i as u8; bytes]));
        group.run_for(MS * 2);
    }
    group.run_for(MS * 1_000);
    for node in &group.nodes {
        assert_eq!((node.tally.messages, node.tally.lost), (1_000, 0));
        assert!(node.counters.recovered.get() > 100);
        assert_eq!(node.counters.dgrams_unauthentic.get(), 0);
    }
    assert!(group.counters.naks_rcved.get() > 100);
    assert_eq!(group.counters.nak_pckts_unauthentic.get(), 0);
}

#[test]
fn a_datagram_with_any_byte_changed_is_counted_and_ignored() {
    let mut group = signed(&SourceConfig::default(), keys(1, None), &keys(1, None), 1);
    assert!(group.source.send(group.now, group.topic, &[b"message"]).is_ok());
    group.source.flush();
    let good = group.source.poll_transmit(group.now).expect("flushed").bytes.to_vec();
    assert_eq!(good.len(), 20 + 12 + 7 + SEAL_LEN);
    let node = &mut group.nodes[0];
    for at in 8..good.len() {
        let mut bad = good.clone();
        bad[at] ^= 1;
        assert!(node.receiver.on_datagram(group.now, FROM, &bad, &mut node.tally).is_err(), "byte {at}");
    }
    let unsigned = &good[..good.len() - SEAL_LEN];
    let refused = node.receiver.on_datagram(group.now, FROM, unsigned, &mut node.tally);
    assert!(matches!(refused, Err(WireError::Unauthentic { key: None } | WireError::Truncated { .. })));
    assert_eq!(node.tally.messages, 0);
    assert!(node.counters.dgrams_unauthentic.get() >= good.len() as u64 - 20, "{:?}", node.counters);
    assert_eq!(node.receiver.on_datagram(group.now, FROM, &good, &mut node.tally), Ok(()));
    assert_eq!(node.tally.messages, 1);
    assert_eq!(node.receiver.on_datagram(group.now, FROM, &good, &mut node.tally), Ok(()), "a replay");
    assert_eq!((node.tally.messages, node.counters.duplicate_data.get()), (1, 1));
}

#[test]
fn forged_and_unsigned_naks_are_counted_and_ignored() {
    let mut group = signed(&SourceConfig::default(), keys(1, None), &keys(1, None), 1);
    assert!(group.send(b"message"));
    group.run_for(MS);
    let mut nak = Vec::new();
    Nak::emit(SESSION, &[Sqn(0)], &mut nak);
    let unsigned = group.source.on_datagram(group.now, address(9), &nak);
    assert!(unsigned.is_err());
    nak.extend_from_slice(&[7; SEAL_LEN]);
    assert_eq!(
        group.source.on_datagram(group.now, address(9), &nak),
        Err(WireError::Unauthentic { key: None })
    );
    let c = &group.counters;
    assert_eq!((c.nak_pckts_unauthentic.get(), c.naks_rcved.get(), c.rxs_sent.get()), (2, 0, 0));
    assert!(group.source.poll_transmit(group.now).is_none());
}

#[test]
fn keys_are_changed_without_losing_a_message() {
    // all have key 1; all accept 2; all sign with 2; 1 is gone: neighbours in this list work together
    let steps = [keys(1, None), keys(1, Some(2)), keys(2, Some(1)), keys(2, None)];
    for pair in steps.windows(2) {
        for (source, receiver) in [(&pair[0], &pair[1]), (&pair[1], &pair[0])] {
            let mut group = signed(&SourceConfig::default(), source.clone(), receiver, 1);
            group.drops = Box::new(|_, sqn, again| !again && sqn.0 % 3 == 1);
            for _ in 0..30 {
                assert!(group.send(b"message"));
                group.run_for(MS * 5);
            }
            group.run_for(MS * 500);
            assert_eq!((group.nodes[0].tally.messages, group.nodes[0].tally.lost), (30, 0));
        }
    }
    let mut strangers = signed(&SourceConfig::default(), keys(1, None), &keys(2, None), 1);
    let datagram = {
        strangers.source.send(strangers.now, strangers.topic, &[b"message"]).expect("room");
        strangers.source.flush();
        strangers.source.poll_transmit(strangers.now).expect("flushed").bytes.to_vec()
    };
    let node = &mut strangers.nodes[0];
    let refused = node.receiver.on_datagram(strangers.now, FROM, &datagram, &mut node.tally);
    assert_eq!(refused, Err(WireError::Unauthentic { key: Some(1) }));
}

#[test]
fn what_is_not_signed_is_for_everybody() {
    // a receiver without keys skips the codes: a mixed group during the change to signing
    let mut group = Group::new(&SourceConfig::default(), &ReceiverConfig::default(), 1);
    group.source.authenticate(keys(1, None), SOURCE);
    for _ in 0..10 {
        assert!(group.source.send(group.now, group.topic, &[b"message"]).is_ok());
        group.source.flush();
        group.run_for(MS);
    }
    assert_eq!(group.nodes[0].tally.messages, 10);
}

/// Two sources behind a narrow link with congestion control, retransmissions and keyed codes.
#[test]
fn signed_packets_are_what_the_dissectors_expect() {
    let _repeat = testkit::repeat!();
    let plan = LinkPlan {
        bits_per_second: 5_000_000,
        queue_bytes: 20_000,
        delay: Duration::from_micros(100),
        random_loss: 0.01,
        reports: true,
    };
    let mut link = Link::new(plan);
    let config = SourceConfig { datagram_max_size: 1_472 + SEAL_LEN as u32, ..adaptive(20_000_000) };
    for _ in 0..2 {
        link.add(&config, Duration::ZERO, &[None]);
    }
    for at in 0..2 {
        link.authenticate(at, &keys(1, None));
    }
    link.tap = Some(Vec::new());
    link.run_for(Duration::from_secs(1));
    link.drain();
    assert_eq!(link.lost(), 0);
    let group = SocketAddrV4::new(Ipv4Addr::new(224, 10, 10, 10), 14_400);
    let mut capture = Capture::new();
    for (at, from, to, datagram) in link.tap.take().expect("set before") {
        capture.udp(at, from, to.unwrap_or(group), &datagram);
    }
    let path = capture.write("signed-session.pcap");
    let types = ["DATA=100", "DATA-RX=5", "NAK=20", "SM=20"].map(|t| format!("lbtrm.{t}"));
    let mut arguments: Vec<&str> = types.iter().flat_map(|t| ["--require", t.as_str()]).collect();
    arguments.extend(["--require", "lbmc.control=100", "--allow-trailers"]);
    pcap::judge(&path, &arguments);
}

/// The type is `Send`, so that a source with keys may live on any thread.
#[test]
fn a_source_with_keys_may_move_to_another_thread() {
    fn is_send<T: Send>(_: &T) {}
    let group = signed(&SourceConfig::default(), keys(1, None), &keys(1, None), 1);
    is_send::<Source>(&group.source);
}

//! Sessions with encrypted payloads.

use crate::ciphers::{SALT, payload_keys};
use crate::group::{Group, SESSION, SOURCE, address};
use crate::keys::keys;
use crate::pcap::{self, Capture};
use std::collections::HashSet;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::sync::Arc;
use std::time::Duration;
use tickcast_lbt::authentication::SEAL_LEN;
use tickcast_lbt::config::{ReceiverConfig, SourceConfig};
use tickcast_lbt::encryption::{COVER_LEN, PayloadKeys, Salt};
use tickcast_lbt::error::WireError;
use tickcast_lbt::rm::{Source, TopicId};
use tickcast_lbt::wire::lbtrm::Nak;
use units::{Nanos, Sqn};

const MS: Duration = Duration::from_millis(1);
const FROM: SocketAddrV4 = SocketAddrV4::new(SOURCE, 40_001);
const HEADER_LEN: usize = 20;

/// A group whose source encrypts with the keys, and whose receivers have others.
fn encrypted(config: &SourceConfig, source: &PayloadKeys, receiver: &PayloadKeys, nodes: usize) -> Group {
    let mut group = Group::new(config, &ReceiverConfig::default(), nodes);
    group.source.encrypt(source, SOURCE, SALT);
    for node in &mut group.nodes {
        node.receiver.decrypt(receiver.clone());
    }
    group
}

/// One pair of ends with one key.
fn pair() -> Group {
    encrypted(&SourceConfig::default(), &payload_keys(1, None), &payload_keys(1, None), 1)
}

/// A source of the same session that begins elsewhere, or at another time.
fn source(salt: Salt, first: Sqn) -> Source {
    let source = Source::starting_at(&SourceConfig::default(), SESSION, first, Nanos::ZERO, Arc::default());
    let mut source = source.expect("allowed");
    source.encrypt(&payload_keys(1, None), SOURCE, salt);
    source
}

/// The next datagrams of a source, a message each.
fn datagrams(source: &mut Source, count: usize) -> Vec<Vec<u8>> {
    let topic = source.add_topic(Nanos::ZERO, 7);
    datagrams_of(source, topic, count)
}

fn datagrams_of(source: &mut Source, topic: TopicId, count: usize) -> Vec<Vec<u8>> {
    let mut next = || {
        source.send(Nanos::ZERO, topic, &[b"message"]).expect("room");
        source.flush();
        let datagram = source.poll_transmit(Nanos::ZERO).expect("flushed").bytes.to_vec();
        source.sent(Nanos::ZERO, 1);
        datagram
    };
    (0..count).map(|_| next()).collect()
}

fn hear(group: &mut Group, datagram: &[u8]) -> Result<(), WireError> {
    let node = &mut group.nodes[0];
    node.receiver.on_datagram(group.now, FROM, datagram, &mut node.tally)
}

fn lossy(group: &mut Group) {
    group.drops =
        Box::new(|node, sqn, again| !again && sqn.0 > 0 && (sqn.0 as usize + node).is_multiple_of(7));
    for i in 0..1_000 {
        // fragments too, and a window that moves on
        let bytes = if i % 50 == 0 { 9_000 } else { 300 };
        assert!(group.send(&vec![i as u8; bytes]));
        group.run_for(MS * 2);
    }
    group.run_for(MS * 1_000);
}

#[test]
fn a_lossy_session_delivers_the_same_encrypted() {
    let config = SourceConfig {
        transmission_window_size: 64 << 10,
        maximum_message_size: 32 << 10,
        transport_session_maximum_buffer: 32 << 10,
        ..SourceConfig::default()
    };
    for is_signed in [false, true] {
        let mut group = encrypted(&config, &payload_keys(1, None), &payload_keys(1, None), 3);
        if is_signed {
            group.source.authenticate(keys(1, None), SOURCE);
            group.nodes.iter_mut().for_each(|node| node.receiver.authenticate(keys(1, None)));
        }
        lossy(&mut group);
        for node in &group.nodes {
            assert_eq!((node.tally.messages, node.tally.lost), (1_000, 0));
            assert!(node.counters.recovered.get() > 100);
            assert_eq!(node.counters.dgrams_undeciphered.get(), 0);
        }
        assert!(group.counters.naks_rcved.get() > 100);
    }
}

#[test]
fn nothing_of_a_message_is_to_be_read_and_it_takes_what_is_said() {
    let mut group = pair();
    let secret = b"BUY 500 XYZ AND NOBODY READS IT";
    group.source.send(group.now, group.topic, &[secret]).expect("room");
    group.source.flush();
    let datagram = group.source.poll_transmit(group.now).expect("flushed").bytes.to_vec();
    assert_eq!(datagram.len(), HEADER_LEN + 12 + secret.len() + COVER_LEN);
    assert!(!datagram.windows(4).any(|part| secret.windows(4).any(|clear| clear == part)));
    assert_eq!(hear(&mut group, &datagram), Ok(()));
    assert_eq!(group.nodes[0].tally.messages, 1);
}

#[test]
fn an_encrypted_datagram_with_any_byte_changed_is_dropped_and_asked_for_again() {
    let mut group = pair();
    let sent = datagrams(&mut source(SALT, Sqn(0)), 3);
    assert_eq!(hear(&mut group, &sent[0]), Ok(()));
    let good = &sent[1];
    for at in HEADER_LEN..good.len() {
        for bit in 0..8 {
            let mut bad = good.clone();
            bad[at] ^= 1 << bit;
            assert!(hear(&mut group, &bad).is_err(), "byte {at} bit {bit}");
        }
    }
    for len in HEADER_LEN..good.len() {
        assert!(hear(&mut group, &good[..len]).is_err(), "cut to {len}");
    }
    let mut other = good.clone();
    other[11] ^= 1;
    assert!(hear(&mut group, &other).is_err(), "another number");
    let node = &group.nodes[0];
    let dropped = node.counters.dgrams_undeciphered.get() + node.counters.dgrams_not_encrypted.get();
    assert!(dropped >= 8 * (good.len() - HEADER_LEN) as u64, "{:?}", node.counters);
    assert_eq!((node.tally.messages, node.counters.msgs_rcved.get()), (1, 1), "no number was taken");
    // What follows shows that it is missing.
    assert_eq!(hear(&mut group, &sent[2]), Ok(()));
    let node = &mut group.nodes[0];
    let due = node.receiver.next_wakeup();
    let nak = node.receiver.poll_transmit(due).expect("a NAK").datagram.to_vec();
    assert_eq!(nak[nak.len() - 4..], 1u32.to_be_bytes());
    assert_eq!(hear(&mut group, good), Ok(()));
    assert_eq!(hear(&mut group, good), Ok(()), "a replay");
    let node = &group.nodes[0];
    assert_eq!((node.tally.messages, node.counters.duplicate_data.get()), (3, 1));
}

#[test]
fn what_is_not_encrypted_is_dropped_where_there_are_keys_and_so_is_another_key() {
    let mut group = pair();
    let mut plain = Group::new(&SourceConfig::default(), &ReceiverConfig::default(), 0);
    let clear = datagrams_of(&mut plain.source, plain.topic, 1);
    assert_eq!(hear(&mut group, &clear[0]), Err(WireError::NotEncrypted));
    let mut strangers =
        encrypted(&SourceConfig::default(), &payload_keys(2, None), &payload_keys(1, None), 1);
    let strange = datagrams_of(&mut strangers.source, strangers.topic, 1);
    assert_eq!(hear(&mut group, &strange[0]), Err(WireError::Undeciphered { key: Some(2) }));
    // The same number, another secret: the numbers of two processes that did not agree.
    let mut misnamed = strange[0].clone();
    misnamed[HEADER_LEN + 15] = 1;
    assert_eq!(hear(&mut group, &misnamed), Err(WireError::Undeciphered { key: Some(1) }));
    let c = &group.nodes[0].counters;
    assert_eq!((c.dgrams_not_encrypted.get(), c.dgrams_undeciphered.get(), c.msgs_rcved.get()), (1, 2, 0));
    assert_eq!(group.nodes[0].tally.messages, 0);
}

#[test]
fn a_datagram_of_another_session_or_source_does_not_open() {
    let sent = datagrams(&mut source(SALT, Sqn(0)), 1);
    let mut elsewhere = Source::new(&SourceConfig::default(), SESSION, Nanos::ZERO, Arc::default());
    let elsewhere = elsewhere.as_mut().expect("allowed");
    elsewhere.encrypt(&payload_keys(1, None), Ipv4Addr::new(10, 0, 0, 1), SALT);
    let copied = datagrams(elsewhere, 1);
    let mut group = pair();
    assert_eq!(hear(&mut group, &copied[0]), Err(WireError::Undeciphered { key: Some(1) }));
    assert_eq!(hear(&mut group, &sent[0]), Ok(()));
}

#[test]
fn numbers_that_wrap_are_another_epoch_and_an_earlier_one_is_refused() {
    let mut group = pair();
    let late = datagrams(&mut source(SALT, Sqn(u32::MAX - 1)), 6);
    let early = datagrams(&mut source(SALT, Sqn(0)), 4);
    let texts: HashSet<&[u8]> = late.iter().chain(&early).map(|d| &d[HEADER_LEN + 48..]).collect();
    assert_eq!(texts.len(), 10, "numbers 0 to 3 of two epochs, under one key, in ten ways");
    for datagram in &late[..4] {
        assert_eq!(hear(&mut group, datagram), Ok(()));
    }
    assert_eq!(hear(&mut group, &early[2]), Err(WireError::Undeciphered { key: Some(1) }), "of long ago");
    assert_eq!(hear(&mut group, &late[4]), Ok(()), "the same number, now");
    assert_eq!(hear(&mut group, &late[5]), Ok(()));
    assert_eq!(group.nodes[0].tally.messages, 6);
}

#[test]
fn datagrams_of_an_earlier_run_are_refused_and_a_new_run_is_heard() {
    let (before, after): (Salt, Salt) = (*b"before----------", *b"cafter----------");
    let old = datagrams(&mut source(before, Sqn(0)), 4);
    let new = datagrams(&mut source(after, Sqn(0)), 4);
    let mut group = pair();
    assert_eq!(hear(&mut group, &new[0]), Ok(()));
    assert_eq!(hear(&mut group, &old[1]), Err(WireError::Undeciphered { key: Some(1) }));
    assert_eq!(hear(&mut group, &new[1]), Ok(()));
    // A source whose clock was set back is heard once the run of before is silent.
    group.now += ReceiverConfig::default().activity_timeout;
    assert_eq!(hear(&mut group, &old[2]), Ok(()));
    assert_eq!(hear(&mut group, &new[3]), Ok(()), "a newer one at once");
}

#[test]
fn a_retransmission_is_the_same_bytes_behind_the_header() {
    let mut group = pair();
    let originals = datagrams_of(&mut group.source, group.topic, 3);
    let mut nak = Vec::new();
    Nak::emit(SESSION, &[Sqn(1)], &mut nak);
    group.source.on_datagram(Nanos::ZERO, address(0), &nak).expect("a NAK");
    let again = group.source.poll_transmit(Nanos::ZERO).expect("asked for").bytes.to_vec();
    assert_ne!(again[..HEADER_LEN], originals[1][..HEADER_LEN], "its flag");
    assert_eq!(again[HEADER_LEN..], originals[1][HEADER_LEN..]);
}

#[test]
fn payload_keys_are_changed_without_losing_a_message() {
    // all have key 1; all accept 2; all encrypt with 2; 1 is gone
    let steps =
        [payload_keys(1, None), payload_keys(1, Some(2)), payload_keys(2, Some(1)), payload_keys(2, None)];
    for source_first in [false, true] {
        let mut group = encrypted(&SourceConfig::default(), &steps[0], &steps[0], 1);
        group.drops = Box::new(|_, sqn, again| !again && sqn.0 % 3 == 1);
        let talk = |group: &mut Group| {
            for _ in 0..10 {
                assert!(group.send(b"message"));
                group.run_for(MS * 5);
            }
            group.run_for(MS * 500);
        };
        for step in &steps[1..] {
            for at_source in [source_first, !source_first] {
                match at_source {
                    true => group.source.rekey_payloads(step),
                    false => group.nodes[0].receiver.rekey_payloads(step.clone()),
                }
                talk(&mut group);
            }
        }
        let node = &group.nodes[0];
        assert_eq!((node.tally.messages, node.tally.lost), (60, 0));
        assert_eq!(node.counters.dgrams_undeciphered.get(), 0);
    }
}

#[test]
fn what_was_sent_while_the_key_was_not_known_comes_when_it_is() {
    let mut group = pair();
    let mut sent = datagrams_of(&mut group.source, group.topic, 1);
    assert_eq!(hear(&mut group, &sent[0]), Ok(()));
    group.source.rekey_payloads(&payload_keys(2, Some(1)));
    group.now += MS;
    for _ in 0..2 {
        assert!(group.source.send(group.now, group.topic, &[b"message"]).is_ok());
        group.source.flush();
        sent.push(group.source.poll_transmit(group.now).expect("flushed").bytes.to_vec());
        group.source.sent(group.now, 1);
    }
    assert_eq!(hear(&mut group, &sent[1]), Err(WireError::Undeciphered { key: Some(2) }));
    group.nodes[0].receiver.rekey_payloads(payload_keys(1, Some(2)));
    assert_eq!(hear(&mut group, &sent[2]), Ok(()));
    group.run_for(MS * 500);
    assert_eq!((group.nodes[0].tally.messages, group.nodes[0].tally.lost), (3, 0));
    assert_eq!(group.counters.rxs_sent.get(), 1);
}

#[test]
fn a_receiver_without_payload_keys_delivers_nothing_and_asks_for_nothing() {
    let mut group = Group::new(&SourceConfig::default(), &ReceiverConfig::default(), 1);
    let sent = datagrams(&mut source(SALT, Sqn(0)), 50);
    for datagram in sent.iter().filter(|datagram| datagram[11] % 7 != 3) {
        assert_eq!(hear(&mut group, datagram), Err(WireError::NoPayloadKeys));
        group.now += MS;
    }
    let node = &mut group.nodes[0];
    assert_eq!(node.tally.messages, 0);
    assert_eq!(node.counters.dgrams_no_payload_key.get(), 43);
    let heard = ReceiverConfig::default().activity_timeout;
    assert!(node.receiver.repair().heard + heard > group.now, "the session is alive");
    // It asks for what is missing, once it is known to be, and no more for what it has.
    let due = node.receiver.next_wakeup().max(group.now);
    let nak = node.receiver.poll_transmit(due).map(|feedback| feedback.datagram.to_vec());
    let numbers = nak.map_or(0, |nak| (nak.len() - 12) / 4);
    assert_eq!(numbers as u64, node.receiver.missing());
}

#[test]
fn what_was_not_sent_is_counted_message_by_message_though_it_is_encrypted() {
    let mut group = pair();
    for _ in 0..40 {
        group.source.send(group.now, group.topic, &[&[1; 300]]).expect("room");
    }
    assert_eq!(group.source.unsent().messages, 40);
    group.source.rekey_payloads(&payload_keys(2, None));
    assert_eq!(group.source.unsent().messages, 40, "what the key before has encrypted too");
}

#[test]
fn the_end_of_an_encrypted_session_is_heard() {
    let mut group = pair();
    assert!(group.send(b"message"));
    group.run_for(MS * 10);
    group.source.end(group.now);
    group.run_for(MS);
    assert!(group.nodes[0].receiver.has_ended());
    assert_eq!((group.nodes[0].tally.messages, group.nodes[0].tally.lost), (1, 0));
}

#[test]
fn encrypted_packets_are_what_the_dissectors_expect() {
    for is_signed in [false, true] {
        let mut source = source(SALT, Sqn(0));
        if is_signed {
            source.authenticate(keys(1, None), SOURCE);
        }
        let mut sent = datagrams(&mut source, 40);
        let mut nak = Vec::new();
        Nak::emit(SESSION, &(0..8).map(Sqn).collect::<Vec<_>>(), &mut nak);
        if is_signed {
            nak.clear();
        } else {
            source.on_datagram(Nanos::ZERO, address(0), &nak).expect("a NAK");
            let again = source.poll_transmit(Nanos::ZERO).expect("asked for");
            sent.extend(again.datagrams().map(<[u8]>::to_vec));
        }
        assert_eq!(sent[0].len(), HEADER_LEN + 12 + 7 + COVER_LEN + if is_signed { SEAL_LEN } else { 0 });
        let group = SocketAddrV4::new(Ipv4Addr::new(224, 10, 10, 10), 14_400);
        let mut capture = Capture::new();
        sent.iter().for_each(|datagram| capture.udp(Nanos::ZERO, FROM, group, datagram));
        let path = capture.write(&format!("encrypted-session-{is_signed}.pcap"));
        let again = if is_signed { "lbtrm.DATA=40" } else { "lbtrm.DATA-RX=8" };
        pcap::judge(
            &path,
            &["--require", "lbtrm.DATA=40", "--require", again, "--require", "lbmc.control=40"],
        );
    }
}

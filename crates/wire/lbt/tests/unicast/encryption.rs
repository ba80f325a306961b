//! LBT-RU with encrypted payloads.

use crate::bench::{Bench, MS, SOURCE};
use crate::ciphers::{SALT, payload_keys};
use crate::keys::keys;
use crate::payloads;
use crate::pcap::{self, Capture};
use tickcast_lbt::config::LbtruSourceConfig;
use tickcast_lbt::wire::lbtru::{Body, Packet};

/// A bench whose source encrypts, and whose receivers have the same keys.
fn encrypted(receivers: usize, change: impl FnOnce(&mut LbtruSourceConfig)) -> Bench {
    let mut b = Bench::new(change);
    b.source.encrypt(&payload_keys(1, None), SOURCE, SALT);
    b.add_receivers(receivers);
    for end in &mut b.ends {
        end.receiver.decrypt(payload_keys(2, Some(1)));
    }
    b
}

#[test]
fn an_encrypted_session_connects_recovers_ends_and_is_what_the_dissectors_expect() {
    for is_signed in [false, true] {
        let mut b = encrypted(2, |_| {});
        if is_signed {
            b.source.authenticate(keys(1, None), *SOURCE.ip());
            b.ends.iter_mut().for_each(|end| end.receiver.authenticate(keys(1, None)));
        }
        b.pass(|_, _| true);
        b.publish_many(50);
        let lost = |p: &Packet<'_>| match p.body {
            Body::Data { sqn, .. } => sqn.0.is_multiple_of(7) && !p.is_retransmission(),
            _ => false,
        };
        b.run(MS * 300, |_, datagram| !lost(&Packet::parse(datagram).expect("well-formed")));
        b.source.end(b.now);
        b.run(MS * 100, |_, _| true);
        for end in &b.ends {
            assert!(end.receiver.has_ended());
            assert_eq!(payloads(&end.log.events), (0..50).collect::<Vec<_>>());
            assert_eq!(end.counters.session.recovered.get(), 8);
            assert_eq!(end.counters.session.dgrams_undeciphered.get(), 0);
        }
        let mut capture = Capture::new();
        b.sent.iter().for_each(|(to, datagram)| capture.udp(b.now, SOURCE, *to, datagram));
        let path = capture.write(&format!("encrypted-unicast-{is_signed}.pcap"));
        pcap::judge(&path, &["--require", "lbtru.DATA-RX=8", "--require", "lbtru.DATA=100"]);
    }
}

#[test]
fn the_shortest_datagrams_have_room_for_messages_announcements_and_fragments() {
    let mut b = encrypted(1, |c| c.session.datagram_max_size = 500);
    b.source.authenticate(keys(1, None), *SOURCE.ip());
    b.ends[0].receiver.authenticate(keys(1, None));
    b.pass(|_, _| true);
    b.publish(&[0; 50_000]);
    b.publish_many(3);
    b.run(MS * 10_000, |_, _| true);
    assert!(b.sent.iter().all(|(_, datagram)| datagram.len() <= 500));
    assert_eq!(payloads(&b.ends[0].log.events).len(), 4);
    assert!(b.counters.session.tsni_sent.get() > 0);
}

#[test]
fn clients_without_the_key_or_without_any_deliver_nothing_and_stay_clients() {
    let mut b = encrypted(3, |_| {});
    b.ends[1].receiver.rekey_payloads(payload_keys(3, None));
    b.add_receiver(|_| {});
    b.pass(|_, _| true);
    b.publish_many(10);
    b.run(MS * 100, |_, _| true);
    let heard: Vec<usize> = b.ends.iter().map(|end| payloads(&end.log.events).len()).collect();
    assert_eq!(heard, [10, 0, 10, 0]);
    let [_, strange, _, bare] = &b.ends[..] else { panic!("four ends") };
    assert!(strange.counters.session.dgrams_undeciphered.get() >= 10);
    assert_eq!(bare.counters.session.dgrams_no_payload_key.get(), 10);
    assert_eq!(bare.counters.session.naks_sent.get(), 0, "it would be of no use");
    assert_eq!(b.source.clients().count(), 4);
    assert!(!bare.receiver.has_ended());
}

#[test]
fn what_is_not_encrypted_is_dropped_where_there_are_keys() {
    let mut b = Bench::new(|_| {});
    b.add_receivers(1);
    b.ends[0].receiver.decrypt(payload_keys(1, None));
    b.pass(|_, _| true);
    b.publish_many(3);
    b.run(MS, |_, _| true);
    assert!(b.ends[0].log.events.is_empty());
    assert_eq!(b.ends[0].counters.session.dgrams_not_encrypted.get(), 3);
}

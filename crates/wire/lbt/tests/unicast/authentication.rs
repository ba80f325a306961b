//! LBT-RU with keyed codes.

use crate::bench::{Bench, ID, MS, SOURCE, address, request};
use crate::keys::keys;
use crate::pcap::{self, Capture};
use std::time::Duration;
use tickcast_lbt::wire::lbtru::{Body, Packet};
use units::Sqn;

/// A bench whose source and receivers have the same keys.
fn signed(receivers: usize) -> Bench {
    let mut b = Bench::new(|_| {});
    b.source.authenticate(keys(1, Some(2)), *SOURCE.ip());
    b.add_receivers(receivers);
    for end in &mut b.ends {
        end.receiver.authenticate(keys(2, Some(1)));
    }
    b
}

#[test]
fn a_signed_session_connects_recovers_ends_and_is_what_the_dissectors_expect() {
    let mut b = signed(2);
    b.pass(|_, _| true);
    b.publish_many(50);
    let lost = |p: &Packet<'_>| match p.body {
        Body::Data { sqn, .. } => sqn.0.is_multiple_of(7) && !p.is_retransmission(),
        _ => false,
    };
    b.run(MS * 300, |_, datagram| !lost(&Packet::parse(datagram).expect("well-formed")));
    // a confirmation, and a reset for one that gives no more signs of life
    let gone = b.ends.remove(1);
    b.run(Duration::from_secs(11), |_, _| true);
    b.source.end(b.now);
    b.run(MS * 100, |_, _| true);
    let end = &b.ends[0];
    assert!(end.receiver.has_ended());
    assert_eq!(end.counters.session.recovered.get(), 8);
    assert_eq!(end.counters.session.dgrams_unauthentic.get(), 0);
    assert_eq!(b.counters.session.nak_pckts_unauthentic.get(), 0);
    assert!(b.sent.iter().any(|(to, d)| *to == gone.address && d[0] == 7), "a reset");
    let mut capture = Capture::new();
    b.sent.iter().for_each(|(to, datagram)| capture.udp(b.now, SOURCE, *to, datagram));
    let path = capture.write("signed-unicast.pcap");
    pcap::judge(
        &path,
        &["--require", "lbtru.DATA-RX=8", "--require", "lbtru.RST=1", "--require", "lbtru.SM=2"],
    );
}

#[test]
fn what_is_not_signed_has_no_effect_at_either_end() {
    let mut b = signed(1);
    b.pass(|_, _| true);
    b.publish_many(10);
    b.pass(|_, _| true);
    b.arrive(address(7), &request(1));
    b.ack(address(7), ID, 9);
    b.arrive(address(0), &Packet::new(Body::Ack { sqn: Sqn(1) }, Default::default()));
    assert!(b.drained().is_empty(), "nobody is answered");
    assert_eq!((b.source.clients().count(), b.counters.session.nak_pckts_unauthentic.get()), (1, 3));
    let end = &mut b.ends[0];
    for datagram in [&[7, 0, 0, 0][..], &[0; 60]] {
        assert!(end.receiver.on_datagram(b.now, SOURCE, datagram, &mut end.log).is_err());
    }
    assert_eq!(end.counters.session.dgrams_unauthentic.get(), 2);
    assert_eq!(end.counters.connection.rsts_rcved.get(), 0, "a reset can be anybody's only without keys");
}

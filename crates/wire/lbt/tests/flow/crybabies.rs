//! Many receivers that lose the same, and one that loses everything.

use crate::group::{Group, address};
use crate::link::{Link, LinkPlan, Tail, adaptive};
use std::time::Duration;
use tickcast_lbt::config::{CongestionControl, NakLaw, ReceiverConfig, SourceConfig};
use tickcast_lbt::rm::SourceEvent;
use units::Nanos;

const MS: Duration = Duration::from_millis(1);

/// NAKs that reach the source for each of `losses` datagrams that every one of 100 receivers lost, 100 us
/// round trip, back-off of 1 ms by `law`.
fn naks_per_loss(law: NakLaw, losses: u64) -> f64 {
    let receiver = ReceiverConfig { nak_law: law, ..ReceiverConfig::default() };
    let mut group = Group::new(&SourceConfig::default(), &receiver, 100);
    group.drops = Box::new(|_, sqn, again| !again && sqn.0 % 2 == 1);
    for _ in 0..=2 * losses {
        assert!(group.send(b"message"));
        group.run_for(MS * 5);
    }
    group.run_for(MS * 100);
    for node in &group.nodes {
        assert_eq!((node.tally.messages, node.tally.lost), (2 * losses + 1, 0));
        assert_eq!(node.counters.recovered.get(), losses);
    }
    assert_eq!(group.counters.rxs_sent.get(), losses, "one retransmission serves all");
    group.counters.naks_rcved.get() as f64 / losses as f64
}

#[test]
fn of_a_hundred_receivers_that_lose_the_same_datagram_few_ask_for_it() {
    let weighted = naks_per_loss(NakLaw::Weighted { group_size: 100 }, 200);
    let even = naks_per_loss(NakLaw::Uniform, 50);
    println!("{weighted} NAKs a loss with weighted back-off, {even} with an even one");
    assert!(weighted < 4.0, "{weighted}");
    assert!(even > 8.0, "{even}: the test tells the laws apart");
}

/// A rate of retransmission that is a tenth of what the crybaby asks for.
fn narrow() -> SourceConfig {
    SourceConfig {
        data_rate_limit: 100_000_000,
        retransmit_rate_limit: 2_000_000,
        retransmit_queue_maximum: 64,
        ..SourceConfig::default()
    }
}

/// Twenty megabits a second for a second; node 0 loses two in three originals, node 1 one in 100.
fn with_crybaby(config: &SourceConfig) -> Group {
    let mut group = Group::new(config, &ReceiverConfig::default(), 3);
    group.drops = Box::new(|node, sqn, again| match node {
        0 => !again && sqn.0 % 3 != 0,
        1 => !again && sqn.0 % 100 == 33,
        _ => false,
    });
    for _ in 0..2_000 {
        assert!(group.send(&[7; 1_200]));
        group.run_for(MS / 2);
    }
    group.run_for(MS * 2_000);
    group
}

#[test]
fn a_crybaby_is_limited_and_named_and_the_others_are_repaired() {
    let mut group = with_crybaby(&narrow());
    assert!(group.counters.naks_crybaby.get() > 1_000, "{:?}", group.counters);
    let Some(SourceEvent::Crybaby { address: named, naks, shed }) = group.source.poll_event() else {
        panic!("nobody is named")
    };
    assert_eq!(named, address(0));
    assert!(naks > 0 && shed > 0);
    assert_eq!(group.source.poll_event(), None, "named once in ten seconds, and nobody else is");
    assert_eq!((group.nodes[1].tally.lost, group.nodes[1].tally.messages), (0, 2_000));
    assert_eq!((group.nodes[2].tally.lost, group.nodes[2].tally.messages), (0, 2_000));
    assert!(group.nodes[0].tally.lost > 0, "it is left to its losses");
}

#[test]
fn a_receiver_that_asks_alone_has_the_whole_rate() {
    let mut group = Group::new(&narrow(), &ReceiverConfig::default(), 2);
    group.drops = Box::new(|node, sqn, again| node == 0 && !again && sqn.0 % 3 != 0);
    for _ in 0..500 {
        assert!(group.send(&[7; 1_200]));
        group.run_for(MS / 2);
    }
    group.run_for(MS * 2_000);
    assert_eq!(group.counters.naks_crybaby.get(), 0);
    assert_eq!(group.source.poll_event(), None);
}

#[test]
fn addresses_beyond_the_table_push_out_the_one_that_was_silent_longest() {
    let mut group = Group::new(&SourceConfig::default(), &ReceiverConfig::default(), 1);
    assert!(group.send(b"message"));
    group.run_for(MS);
    let mut nak = Vec::new();
    tickcast_lbt::wire::lbtrm::Nak::emit(crate::group::SESSION, &[units::Sqn(0)], &mut nak);
    for sender in 0..300u16 {
        let mut from = address(1);
        from.set_port(10_000 + sender);
        group.source.on_datagram(group.now, from, &nak).expect("a NAK");
    }
    assert_eq!(group.counters.nak_senders_evicted.get(), 300 - 256);
}

/// A receiver takes four fifths of what a source sends at a fixed rate, behind a buffer of some length; repairs
/// wait in the same buffer.
#[test]
fn a_receiver_that_is_behind_does_not_ask_for_what_waits_in_its_own_buffer() {
    let _repeat = testkit::repeat!();
    const MBIT: u64 = 1_000_000;
    for buffer_ms in [20, 200, 500] {
        let plan = LinkPlan {
            bits_per_second: 1_000 * MBIT,
            queue_bytes: 1 << 20,
            delay: Duration::from_micros(100),
            random_loss: 0.0,
            reports: true,
        };
        let fixed = SourceConfig { congestion_control: CongestionControl::None, ..adaptive(20 * MBIT) };
        let bits_per_second = 16 * MBIT;
        let queue_bytes = bits_per_second / 8 * buffer_ms / 1_000;
        let mut link = Link::new(plan);
        link.add(
            &fixed,
            Duration::ZERO,
            &[Some(Tail { bits_per_second, queue_bytes, free_at: Nanos::ZERO })],
        );
        link.run_for(Duration::from_secs(10));
        link.drain();
        let c = &link.flows[0].nodes[0].0.counters;
        let naks_per_loss = c.naks_sent.get() as f64 / c.lost.get() as f64;
        println!(
            "a buffer of {buffer_ms} ms: {} lost, {} recovered, {naks_per_loss:.2} NAKs for each",
            c.lost.get(),
            c.recovered.get()
        );
        assert!(c.lost.get() > 2_000 && c.recovered.get() > 200, "{c:?}");
        assert!(naks_per_loss < 6.0, "{naks_per_loss}");
    }
}

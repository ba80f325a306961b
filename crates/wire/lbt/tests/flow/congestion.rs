//! Congestion control on a link that is too narrow.

use crate::link::{Link, LinkPlan, Tail, adaptive};
use std::time::Duration;
use tickcast_lbt::config::{CongestionControl, SourceConfig};
use tickcast_lbt::rm::SourceEvent;
use units::Nanos;

const SECOND: Duration = Duration::from_secs(1);
const MBIT: u64 = 1_000_000;

fn link(mbit: u64, queue_ms: u64, delay_us: u64) -> LinkPlan {
    let bits_per_second = mbit * MBIT;
    LinkPlan {
        bits_per_second,
        queue_bytes: bits_per_second / 8 * queue_ms / 1_000,
        delay: Duration::from_micros(delay_us),
        random_loss: 0.0,
        reports: true,
    }
}

/// Sources that begin one second apart, and what they get over the five seconds from the 6th after the last.
fn shared(plan: LinkPlan, flows: u32, config: &SourceConfig) -> (Link, Vec<u64>) {
    let mut link = Link::new(plan);
    (0..flows).for_each(|i| link.add(config, SECOND * i, &[None]));
    link.run_for(SECOND * (flows + 5));
    let got = link.received_in(SECOND * 5);
    (link, got)
}

/// Messages of all flows in five seconds, as a share of what a raw sender alone gets through.
fn goodput(plan: &LinkPlan, got: &[u64]) -> f64 {
    got.iter().sum::<u64>() as f64 / (plan.raw_per_second() * 5.0)
}

/// Jain's index: 1 for equal shares.
fn jain(got: &[u64]) -> f64 {
    let sum: f64 = got.iter().map(|&n| n as f64).sum();
    let squares: f64 = got.iter().map(|&n| (n as f64).powi(2)).sum();
    sum * sum / (got.len() as f64 * squares)
}

#[test]
fn sources_that_share_a_link_fill_it() {
    for (mbit, queue_ms, delay_us, limit_mbit, flows) in
        [(50, 50, 100, 1_000, 1), (50, 5, 100, 1_000, 2), (30, 200, 100, 200, 4), (40, 20, 5_000, 100, 4)]
    {
        let plan = link(mbit, queue_ms, delay_us);
        let (mut link, got) = shared(plan, flows, &adaptive(limit_mbit * MBIT));
        let share = goodput(&plan, &got);
        println!("{mbit} Mbit/s, queue of {queue_ms} ms, {flows} sources: {share:.3} of a raw sender");
        assert!(share >= 0.96, "{share}, {got:?}");
        link.drain();
        assert_eq!(link.lost(), 0);
        for flow in &link.flows {
            let (node, counters) = (&flow.nodes[0].0.counters, &flow.counters);
            assert!(node.duplicate_data.get() * 100 < node.msgs_rcved.get(), "{node:?}");
            assert!(counters.rate_lowered.get() > 0 && counters.reports_rcved.get() > 50, "{counters:?}");
            assert!(node.reports_sent.get() >= counters.reports_rcved.get());
            assert!(counters.rate_bits_per_second.get() > 0 && counters.round_trip.get() > 0);
        }
    }
}

#[test]
fn equal_sources_come_to_equal_shares() {
    for (mbit, queue_ms, limit_mbit, flows) in [(50, 50, 1_000, 2), (30, 50, 1_000, 4), (20, 20, 100, 4)] {
        let (_, got) = shared(link(mbit, queue_ms, 100), flows, &adaptive(limit_mbit * MBIT));
        println!("{mbit} Mbit/s, queue of {queue_ms} ms: {got:?}, Jain's index {:.4}", jain(&got));
        assert!(jain(&got) > 0.95, "{got:?}");
    }
}

/// What the one with the least got beside the one with the most.
fn least_to_most(got: &[u64]) -> f64 {
    let (least, most) = (got.iter().min(), got.iter().max());
    least.zip(most).map_or(0.0, |(&least, &most)| least as f64 / most as f64)
}

#[test]
fn over_ten_seconds_equal_sources_differ_by_less_than_a_tenth() {
    let _repeat = testkit::repeat!();
    for (mbit, queue_ms, flows, stagger_ms) in [
        (40, 50, 4, 0),
        (40, 50, 4, 100),
        (40, 50, 2, 0),
        (100, 20, 4, 50),
        (40, 50, 8, 0),
        (40, 50, 8, 100),
        (100, 20, 8, 50),
        (100, 50, 8, 50),
        (100, 50, 16, 50),
        (200, 50, 16, 50),
    ] {
        let plan = link(mbit, queue_ms, 100);
        let mut link = Link::new(plan);
        let begin = |i: u32| Duration::from_millis(stagger_ms) * i;
        (0..flows).for_each(|i| link.add(&adaptive(1_000 * MBIT), begin(i), &[None]));
        link.run_for(SECOND * 16);
        let got = link.received_in(SECOND * 10);
        let (least, share) = (least_to_most(&got), goodput(&plan, &got) / 2.0);
        println!(
            "{flows} at {mbit} Mbit/s, queue of {queue_ms} ms, {stagger_ms} ms apart: {got:?}, least/most {least:.3}, \
             {share:.3} of a raw sender"
        );
        assert!(least > 0.9, "{got:?}");
        assert!(share >= 0.97, "{share}");
    }
}

#[test]
fn a_queue_that_is_short_and_full_does_not_pass_for_none() {
    let _repeat = testkit::repeat!();
    for (mbit, queue_ms, flows) in [(20, 20, 4), (40, 20, 8), (40, 5, 8)] {
        let plan = link(mbit, queue_ms, 100);
        let mut link = Link::new(plan);
        (0..flows).for_each(|i| link.add(&adaptive(1_000 * MBIT), SECOND / 20 * i, &[None]));
        link.run_for(SECOND * 80);
        let (dropped, carried, lost) = (link.dropped, link.carried, link.lost());
        let share = goodput(&plan, &link.received_in(SECOND * 10)) / 2.0;
        let dropped = (link.dropped - dropped) as f64 / (link.carried - carried) as f64;
        println!(
            "{flows} at {mbit} Mbit/s, queue of {queue_ms} ms: {share:.3} of a raw sender, {dropped:.3} dropped, {lost} lost at first"
        );
        assert!(share >= 0.97 && dropped < 0.15, "{share} {dropped}");
        link.drain();
        // Two datagrams of room for each source: some are dropped as often as they are sent again.
        let bearable = if queue_ms == 5 { 200 } else { 0 };
        assert!(link.lost() - lost <= bearable, "{} lost", link.lost() - lost);
    }
}

#[test]
fn without_congestion_control_a_link_wastes() {
    let plan = link(10, 50, 100);
    let fixed = SourceConfig { congestion_control: CongestionControl::None, ..adaptive(10 * MBIT / 3) };
    let (mut link, got) = shared(plan, 4, &fixed);
    let share = goodput(&plan, &got);
    let all = link.dropped + link.carried;
    let dropped = link.dropped as f64 / all as f64;
    link.drain();
    println!(
        "a third of the link each: {share:.3} of a raw sender, {dropped:.3} dropped, {} lost",
        link.lost()
    );
    assert!(share < 0.9 || link.lost() > 500);
}

#[test]
fn loss_without_a_queue_does_not_lower_the_rate() {
    let plan = LinkPlan { random_loss: 0.03, ..link(1_000, 10, 100) };
    let (mut link, got) = shared(plan, 1, &adaptive(20 * MBIT));
    let share = got[0] as f64 / (20e6 / 8.0 / 1_472.0 * 5.0);
    assert!(share > 0.95, "{share}: the rate is the limit, less retransmissions");
    link.drain();
    assert_eq!(link.lost(), 0);
}

#[test]
fn below_the_floor_a_receiver_is_named() {
    let _repeat = testkit::repeat!();
    let mut link = Link::new(link(50, 20, 100));
    let slow = Tail { bits_per_second: 200_000, queue_bytes: 20_000, free_at: Nanos::ZERO };
    link.add(&adaptive(20 * MBIT), Duration::ZERO, &[None, Some(slow)]);
    link.run_for(SECOND * 15);
    let flow = &mut link.flows[0];
    assert_eq!(flow.counters.receivers_too_slow.get(), 1, "{:?}", flow.counters);
    let named: Vec<SourceEvent> = std::iter::from_fn(|| flow.source.poll_event()).collect();
    let too_slow =
        |e: &SourceEvent| matches!(e, SourceEvent::TooSlow { address } if address.ip().octets()[3] == 1);
    assert!(named.iter().any(too_slow), "{named:?}");
    assert!(flow.counters.reports_passed_over.get() > 0, "it goes on, and has no say");
    assert!(flow.counters.rate_bits_per_second.get() > 15 * MBIT, "the others are not held up");
    assert_eq!(flow.nodes[0].0.tally.lost, 0);
}

#[test]
fn a_hundred_receivers_report_hardly_more_than_one() {
    let _repeat = testkit::repeat!();
    let reports = |nodes: usize| {
        let mut link = Link::new(link(8, 20, 100));
        link.add(&adaptive(10 * MBIT), Duration::ZERO, &vec![None; nodes]);
        link.run_for(SECOND * 2);
        let counters = &link.flows[0].counters;
        assert!(counters.rate_lowered.get() > 0);
        counters.reports_rcved.get()
    };
    let (one, many) = (reports(1), reports(100));
    println!("{one} reports of one receiver, {many} of a hundred");
    assert!(many < one * 2 + 20, "{one} {many}");
}

#[test]
fn without_reports_the_rate_goes_by_naks() {
    let plan = LinkPlan { reports: false, ..link(20, 20, 100) };
    let (link, got) = shared(plan, 1, &adaptive(100 * MBIT));
    let share = goodput(&plan, &got);
    println!("by NAKs: {share:.3} of a raw sender");
    let counters = &link.flows[0].counters;
    assert_eq!(counters.reports_rcved.get(), 0);
    assert!(share > 0.8, "{share}");
    assert!(counters.rate_bits_per_second.get() < 40 * MBIT, "{counters:?}");
}

#[test]
fn both_rate_limits_hold_while_the_rate_moves() {
    let _repeat = testkit::repeat!();
    let mut link = Link::new(link(20, 20, 100));
    link.add(&adaptive(100 * MBIT), Duration::ZERO, &[None]);
    let counters = link.flows[0].counters.clone();
    // bits times milliseconds in a second
    let (mut allowed, mut highest) = (0, 0);
    for _ in 0..5_000 {
        let before = counters.rate_bits_per_second.get();
        link.run_for(SECOND / 1_000);
        allowed += before.max(counters.rate_bits_per_second.get());
        highest = highest.max(before);
    }
    let sent = (counters.bytes_sent.get() + counters.rx_bytes_sent.get()) * 8;
    let depth = 4 * 1_472 * 8 + highest / 1_000;
    assert!(sent <= allowed / 1_000 + depth, "{sent} bits of {} and {depth}", allowed / 1_000);
    assert!(counters.rx_bytes_sent.get() * 8 <= allowed / 5_000 + depth, "{counters:?}");
    assert!(counters.rate_lowered.get() > 5 && counters.rxs_sent.get() > 0, "{counters:?}");
}

//! Sessions that are lost for a while and heard again, in virtual time.

mod common;

use std::time::Duration;

use common::handmade::Handmade;
use common::{Heard, Party, Patience, config};
use net::clock::ManualClock;
use tickcast_messaging::{
    Context, ContextCounters, End, EndReason, MessagingConfig, SourceOptions, Sqn, Transport,
};
use units::Nanos;

const STEP: Duration = Duration::from_millis(10);

fn manual(config: &MessagingConfig, clock: &ManualClock, seed: u64) -> Party {
    let counters = ContextCounters::default();
    let context = Context::manual(config, clock, seed, counters.clone()).expect("loopback is there");
    Party { context, heard: Heard::default(), counters }
}

/// Time passes at a receiver until something holds of what it was told.
fn until(clock: &ManualClock, b: &mut Party, mut done: impl FnMut(&Heard) -> bool) {
    let patience = Patience::new();
    while !done(&b.heard) {
        assert!(patience.lasts() && b.heard.ends.len() < 10, "hangs: {:?}", b.heard.ends);
        clock.set(clock.now() + STEP);
        (0..3).for_each(|_| b.turn());
    }
}

#[test]
fn what_was_sent_while_a_session_was_lost_is_told_before_the_next_message() {
    let source = Handmade::new(100);
    let clock = ManualClock::new(Nanos(1_000_000_000));
    let mut b = manual(&source.config(100, ""), &clock, 1);
    b.receiver("px");
    b.turn();
    (0..3).for_each(|number| source.data(number, number));
    until(&clock, &mut b, |heard| heard.payloads.len() == 3);
    until(&clock, &mut b, |heard| heard.ends.len() == 1);
    let end = b.heard.ends[0];
    assert_eq!((end.reason, end.next), (EndReason::TimedOut, Some(Sqn(3))));
    // It is found again, and lost again before a message was heard: what is owed stays.
    until(&clock, &mut b, |heard| heard.ends.len() == 2);
    until(&clock, &mut b, |heard| heard.sources.len() == 3);
    source.data(10, 20);
    until(&clock, &mut b, |heard| heard.payloads.len() == 4);
    assert_eq!((b.heard.begun, b.heard.lost), (Some(Sqn(3)), 17));
    source.data(11, 21);
    until(&clock, &mut b, |heard| heard.payloads.len() == 5);
    assert_eq!(b.heard.lost, 17, "once");
}

#[test]
fn what_a_session_that_was_known_and_idle_sent_while_it_was_lost_is_told() {
    let source = Handmade::new(101);
    let clock = ManualClock::new(Nanos(1_000_000_000));
    let mut b = manual(&source.config(101, ""), &clock, 1);
    b.receiver("px");
    b.turn();
    source.session_message(0, u32::MAX, 0);
    until(&clock, &mut b, |heard| heard.ends.len() == 1);
    until(&clock, &mut b, |heard| heard.sources.len() == 2);
    source.data(5, 5);
    until(&clock, &mut b, |heard| heard.payloads.len() == 1);
    assert_eq!((b.heard.begun, b.heard.lost), (Some(Sqn(0)), 5));
}

/// A source that was stopped for longer than its receivers wait goes on, and sends at once.
#[test]
fn what_a_source_sends_before_it_is_found_again_is_recovered_from_its_window() {
    for (transport, late_join, test) in [
        (Transport::LbtRm, false, 102),
        (Transport::LbtRm, true, 103),
        (Transport::LbtRu, false, 104),
        (Transport::LbtRu, true, 105),
    ] {
        let config = MessagingConfig { transport, ..config(test) };
        let clock = ManualClock::new(Nanos(1_000_000_000));
        let (mut a, mut b) = (manual(&config, &clock, 1), manual(&config, &clock, 2));
        let options = SourceOptions { late_join: Some(late_join), ..SourceOptions::default() };
        let px = a.context.create_source("px", &options).expect("a port is free");
        b.receiver("px");
        let (mut sent, patience) = (0_u32, Patience::new());
        let mut send = |a: &mut Party, count: u32| {
            for _ in 0..count {
                a.context.send(px, &[&sent.to_be_bytes()]).expect("there is room");
                sent += 1;
                a.turn();
            }
            sent
        };
        let step = |a: &mut Party, b: &mut Party| {
            assert!(patience.lasts(), "{transport:?} hangs");
            clock.set(clock.now() + STEP);
            for _ in 0..3 {
                a.turn();
                b.turn();
            }
        };
        while b.heard.payloads.is_empty() {
            send(&mut a, 1);
            step(&mut a, &mut b);
        }
        until(&clock, &mut b, |heard| heard.ends.len() == 1);
        let expected = b.heard.ends[0].next.expect("it had begun");
        let total = send(&mut a, 100);
        while b.heard.payloads.last().is_none_or(|last| *last != (total - 1).to_be_bytes()) {
            step(&mut a, &mut b);
        }
        let numbers: Vec<u32> = b.heard.numbers().collect();
        assert!(numbers.windows(2).all(|pair| pair[1] == pair[0] + 1), "{transport:?}: {numbers:?}");
        assert_eq!((b.heard.begun, b.heard.lost), (Some(expected), 0), "{transport:?} {late_join}");
    }
}

/// A session whose id the configuration fixes is the same when its source is started again.
#[test]
fn the_next_run_of_a_fixed_session_is_heard_from_its_first_message_on() {
    let source = Handmade::new(106);
    let clock = ManualClock::new(Nanos(1_000_000_000));
    let mut b = manual(&source.config(106, ""), &clock, 1);
    b.receiver("px");
    b.turn();
    (0..500).for_each(|number| source.data(number, number));
    until(&clock, &mut b, |heard| heard.payloads.len() == 500);
    // The second run begins at once.
    let mut next = 0;
    until(&clock, &mut b, |heard| {
        source.data(next, next);
        next += 1;
        source.answer_naks();
        heard.payloads.len() > 700
    });
    assert_eq!((b.heard.ends.len(), b.heard.sources.len(), b.heard.lost), (1, 2, 0));
    assert_eq!((b.heard.ends[0].reason, b.heard.ends[0].next), (EndReason::Restarted, Some(Sqn(500))));
    let numbers: Vec<u32> = b.heard.numbers().skip(500).collect();
    let all: Vec<u32> = (0..numbers.len() as u32).collect();
    assert_eq!(numbers, all, "from the first on, each once");
}

#[test]
fn forged_datagrams_far_ahead_lose_nothing_of_the_session() {
    let source = Handmade::new(107);
    let clock = ManualClock::new(Nanos(1_000_000_000));
    let mut b = manual(&source.config(107, ""), &clock, 1);
    b.receiver("px");
    b.turn();
    source.data(0, 0);
    let mut next = 1;
    until(&clock, &mut b, |heard| {
        for ahead in [0x4000_0000, 50_000] {
            source.data(ahead, ahead);
            source.data(ahead + 1, ahead + 1);
            source.session_message(next, ahead + 2, ahead);
        }
        source.data(next, next);
        next += 1;
        heard.payloads.len() == 100
    });
    assert_eq!((b.heard.lost, b.heard.ends.len()), (0, 0));
    assert!(b.heard.numbers().eq(0..100));
}

/// A stranger says that a session is over which goes on.
#[test]
fn after_a_forged_end_what_was_sent_meanwhile_comes_or_is_told_lost() {
    for (late_join, test) in [(false, 108), (true, 109)] {
        let config = config(test);
        let clock = ManualClock::new(Nanos(1_000_000_000));
        let (mut a, mut b) = (manual(&config, &clock, 1), manual(&config, &clock, 2));
        let options = SourceOptions { late_join: Some(late_join), ..SourceOptions::default() };
        let px = a.context.create_source("px", &options).expect("a port is free");
        b.receiver("px");
        let (mut sent, patience) = (0_u32, Patience::new());
        let mut step = |a: &mut Party, b: &mut Party| {
            assert!(patience.lasts(), "hangs: {:?}", b.heard.ends);
            a.context.send(px, &[&sent.to_be_bytes()]).expect("there is room");
            sent += 1;
            clock.set(clock.now() + STEP);
            for _ in 0..3 {
                a.turn();
                b.turn();
            }
            sent
        };
        while b.heard.payloads.is_empty() {
            step(&mut a, &mut b);
        }
        let stranger = Handmade::in_the_name_of(&b.heard.sources[0]);
        // One of them has the number that is due.
        (0..100).for_each(|number| stranger.end_of_transport(number));
        while b.heard.ends.is_empty() {
            step(&mut a, &mut b);
        }
        let End { reason, next, .. } = b.heard.ends[0];
        assert_eq!(reason, EndReason::Ended);
        while b.heard.sources.len() < 2 {
            step(&mut a, &mut b);
        }
        let last = step(&mut a, &mut b) + 100;
        while step(&mut a, &mut b) < last || b.heard.numbers().next_back() < Some(last) {}
        assert_eq!(b.heard.begun, next, "it goes on where it ended");
        let numbers: Vec<u32> = b.heard.numbers().collect();
        let missing: u32 = numbers.windows(2).map(|pair| pair[1] - pair[0] - 1).sum();
        assert_eq!((missing, b.heard.ends.len()), (b.heard.lost, 1));
    }
}

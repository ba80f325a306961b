//! Whole contexts in one virtual time, over real sockets of the loopback interface.

#[path = "../common/mod.rs"]
mod common;

use std::time::Duration;

use common::{Heard, Party, Patience, config};
use net::clock::ManualClock;
use tickcast_messaging::{Context, ContextCounters, EndReason, MessagingConfig, Transport};
use units::Nanos;

fn simulated(config: &MessagingConfig, clock: &ManualClock, seed: u64) -> Party {
    let counters = ContextCounters::default();
    let context = Context::manual(config, clock, seed, counters.clone()).expect("loopback is there");
    Party { context, heard: Heard::default(), counters }
}

#[test]
fn a_context_on_a_manual_clock_times_out_by_that_and_not_by_the_machines() {
    let config = MessagingConfig { transport: Transport::LbtRm, ..config(60) };
    let clock = ManualClock::new(Nanos(1));
    let (mut a, mut b) = (simulated(&config, &clock, 1), simulated(&config, &clock, 2));
    let source = a.source("px");
    b.receiver("px");
    let patience = Patience::new();
    while b.heard.payloads.is_empty() {
        assert!(patience.lasts(), "they do not meet");
        clock.set(clock.now() + Duration::from_millis(10));
        a.context.send(source, &[b"hello"]).expect("there is room");
        a.turn();
        b.turn();
    }
    assert!(b.heard.ends.is_empty());
    let week = Duration::from_secs(7 * 24 * 3600);
    a.context.abandon();
    clock.set(clock.now() + week);
    while b.heard.ends.is_empty() {
        assert!(patience.lasts(), "a week of silence is not noticed");
        // After a pause of its own it waits a moment for who was stopped as well.
        clock.set(clock.now() + Duration::from_millis(100));
        b.turn();
    }
    assert_eq!(b.heard.ends[0].reason, EndReason::TimedOut);
}

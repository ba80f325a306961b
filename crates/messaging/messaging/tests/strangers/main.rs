//! Strangers on the network: who connects and says nothing, who advertises what is not there, and a process
//! that is out of descriptors. Contexts go by a clock that the tests move: what passes without it being moved
//! costs no time-out.

#[path = "../common/mod.rs"]
mod common;

mod descriptors;
mod request_port;
mod sessions;
mod tcp_sources;

use std::time::Duration;

use common::{Heard, Party, Patience};
use net::clock::ManualClock;
use tickcast_messaging::{Context, ContextCounters, MessagingConfig};
use units::Nanos;

fn clock() -> ManualClock {
    ManualClock::new(Nanos(1))
}

fn on_clock(config: &MessagingConfig, clock: &ManualClock, seed: u64) -> Party {
    let counters = ContextCounters::default();
    let context = Context::manual(config, clock, seed, counters.clone()).expect("loopback is there");
    Party { context, heard: Heard::default(), counters }
}

/// Drives the parties until `done`, each turn `step` after the one before.
fn until_by(
    clock: &ManualClock,
    step: Duration,
    parties: &mut [&mut Party],
    mut done: impl FnMut(&mut [&mut Party]) -> bool,
) {
    let patience = Patience::new();
    while !done(parties) {
        assert!(patience.lasts(), "hangs");
        clock.set(clock.now() + step);
        parties.iter_mut().for_each(|party| party.turn());
    }
}

/// Drives the parties at one time until `done`.
fn until_at_once(parties: &mut [&mut Party], done: impl FnMut(&mut [&mut Party]) -> bool) {
    until_by(&clock(), Duration::ZERO, parties, done);
}

/// Drives the parties for some turns, in which nothing is to happen.
fn idle(parties: &mut [&mut Party]) {
    for _ in 0..200 {
        parties.iter_mut().for_each(|party| party.turn());
    }
}

const SHORT: Duration = Duration::from_millis(10);

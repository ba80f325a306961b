//! Whole contexts in one virtual time, over real sockets of the loopback interface: they start, stop, are
//! killed, paused, cut off and left alone for days, go on as children of a fork whose parent is killed, and datagrams are
//! lost, late and doubled. Hot failover has a life of its own (`failover.rs`).
//!
//! Contexts with a thread of the library are not here: their thread sleeps in the kernel by the machine's time, and
//! callers and handlers wait for each other's locks and rings, in an order that is the scheduler's and no seed's. Processes
//! with such threads are in `interop/processes`, the rings alone under every order of threads in `net` (loom).
//!
//! Each run follows from its seed: a failing one prints the command that repeats it. `RUNS=n` makes so many,
//! `FROM=n` begins so many seeds later, `TRACE=1` tells all of what happened; `TOPICS=n` is how many come and go in one case.

mod cases;
#[path = "../common/mod.rs"]
mod common;
mod failover;
mod oracle;
mod plan;
mod world;

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use common::{Heard, Party, Patience, config};
use net::clock::ManualClock;
use oracle::Counts;
use plan::Plan;
use testkit::repeat::{self, Repeat};
use tickcast_messaging::{
    Context, ContextCounters, EndReason, IpcConfig, LbtrmConfig, LbtruConfig, MessagingConfig, Transport,
};
use units::Nanos;

/// Only one test at a time: descriptors of the process are known to be a node's by the time at which they
/// are opened.
fn alone() -> MutexGuard<'static, ()> {
    static ONE: Mutex<()> = Mutex::new(());
    ONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Small windows and rings, so that many contexts have room.
fn small(test: u8) -> MessagingConfig {
    let base = config(test);
    MessagingConfig {
        counters_directory: String::new(),
        lbtrm: LbtrmConfig {
            transmission_window_size_bytes: 4 << 20,
            receiver_socket_buffer_bytes: 4 << 20,
            ..base.lbtrm
        },
        lbtru: LbtruConfig { transmission_window_size_bytes: 4 << 20, ..base.lbtru },
        ipc: IpcConfig { transmission_window_size_bytes: 2 << 20, ..base.ipc },
        ..base
    }
}

#[test]
fn what_was_sent_is_delivered_or_reported_lost_in_order_whatever_happens_to_contexts() {
    let _alone = alone();
    let seeds = repeat::chosen(1..26);
    let runs = seeds.end - seeds.start;
    let (mut all, mut failed) = (Counts::default(), Vec::new());
    for seed in seeds {
        let repeat = Repeat::new(testkit::here!(), seed);
        let begun = Instant::now();
        let world = Plan::random(seed).run(seed, &small((seed % 200) as u8));
        println!("seed {seed}: {:.1?}, {} turns", begun.elapsed(), world.turns);
        let counts = world.ledger.borrow().counts;
        all.delivered += counts.delivered;
        all.lost += counts.lost;
        all.streams += counts.streams;
        all.ended += counts.ended;
        all.timed_out += counts.timed_out;
        all.between += counts.between;
        all.again += counts.again;
        if let Some(wrong) = world.verdict() {
            eprintln!("{wrong}");
            repeat.print();
            failed.push(seed);
        }
    }
    println!("{all:?}");
    assert!(failed.is_empty(), "seeds {failed:?}");
    assert!(runs < 20 || all.lost > 0 && all.ended > 0 && all.timed_out > 0, "too little happens: {all:?}");
}
fn simulated(config: &MessagingConfig, clock: &ManualClock, seed: u64) -> Party {
    let counters = ContextCounters::default();
    let context = Context::manual(config, clock, seed, counters.clone()).expect("loopback is there");
    Party { context, heard: Heard::default(), counters }
}

#[test]
fn a_context_on_a_manual_clock_times_out_by_that_and_not_by_the_machines() {
    let _repeat = testkit::repeat!();
    let _alone = alone();
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

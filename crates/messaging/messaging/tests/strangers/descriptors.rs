//! A process that is out of descriptors.

use std::fs::File;
use std::io::Write;
use std::net::TcpStream;
use std::process::Command;
use std::time::Duration;

use tickcast_messaging::{MessagingConfig, Transport};

use crate::common::{Party, config};
use crate::sessions::{self, Forger};
use crate::tcp_sources::address_of;
use crate::{SHORT, clock, idle, on_clock, until_at_once, until_by};

/// Runs a test of this program, `descriptors::NAME`, in a process that may have few descriptors.
fn with_few_descriptors(name: &str) {
    let program = std::env::current_exe().expect("it runs");
    let status = Command::new("sh")
        .args(["-c", "ulimit -n 100 && exec \"$0\" \"$@\""])
        .arg(program)
        .args(["--exact", &format!("descriptors::{name}"), "--ignored", "--nocapture"])
        .env(ALONE, "1")
        .status()
        .expect("a shell");
    assert!(status.success(), "{name}");
}

/// Tells a process that it is such a one.
const ALONE: &str = "TICKCAST_TEST_FEW_DESCRIPTORS";

/// Takes all descriptors that are left.
fn exhaust() -> Vec<File> {
    assert!(std::env::var(ALONE).is_ok(), "it is to be a process of its own");
    std::iter::from_fn(|| File::open("/dev/null").ok()).collect()
}

#[test]
fn a_source_that_cannot_accept_rests_and_takes_who_waits_later() {
    with_few_descriptors("the_source_that_cannot_accept");
}

#[test]
#[ignore = "a part of a_source_that_cannot_accept_rests_and_takes_who_waits_later, in a process of its own"]
fn the_source_that_cannot_accept() {
    let clock = clock();
    let mut a = on_clock(&MessagingConfig { transport: Transport::Tcp, ..config(20) }, &clock, 1);
    let source = a.source("px");
    let counters = a.counters.tcp_source.clone();
    let _waiting = TcpStream::connect(address_of(&a, source)).expect("the queue has room");
    let taken = exhaust();
    rests(&mut a, || counters.accepts_failed.get(), &clock);
    drop(taken);
    clock.set(clock.now() + net::Door::REST);
    until_at_once(&mut [&mut a], |_| counters.num_clients.get() == 1);
}

#[test]
fn a_request_port_that_cannot_accept_rests_and_takes_who_waits_later() {
    with_few_descriptors("the_request_port_that_cannot_accept");
}

#[test]
#[ignore = "a part of a_request_port_that_cannot_accept_rests_and_takes_who_waits_later, in a process of its own"]
fn the_request_port_that_cannot_accept() {
    let clock = clock();
    let mut a = on_clock(&config(21), &clock, 1);
    let address = a.context.listen().expect("a port is free");
    let counters = a.counters.context.clone();
    let mut waiting = TcpStream::connect(address).expect("the queue has room");
    let taken = exhaust();
    rests(&mut a, || counters.request_accepts_failed.get(), &clock);
    drop(taken);
    clock.set(clock.now() + net::Door::REST);
    // What is no message shows that it was taken.
    waiting.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").expect("it is open");
    until_at_once(&mut [&mut a], |p| !p[0].heard.closed.is_empty());
}

#[test]
fn groups_that_nobody_sends_to_take_no_descriptors_from_the_rest_of_the_process() {
    with_few_descriptors("the_receiver_of_many_groups");
}

#[test]
#[ignore = "a part of groups_that_nobody_sends_to_take_no_descriptors_from_the_rest_of_the_process, in a process of its own"]
fn the_receiver_of_many_groups() {
    let (config, clock) = (config(22), clock());
    let b = sessions::find(&config, &clock, Forger::new(&config, &clock, sessions::multicast(500)));
    assert_eq!(
        (b.counters.context.joins_failed.get(), b.counters.context.descriptors_exhausted.get()),
        (0, 0)
    );
    assert!(exhaust().len() > 10, "some are left");
}

#[test]
fn a_session_that_cannot_be_opened_for_want_of_descriptors_is_opened_when_there_are_some() {
    with_few_descriptors("the_receiver_that_cannot_open");
}

#[test]
#[ignore = "a part of a_session_that_cannot_be_opened_for_want_of_descriptors_is_opened_when_there_are_some, in a process of its own"]
fn the_receiver_that_cannot_open() {
    for (test, transport) in [(23, Transport::LbtRm), (24, Transport::Tcp)] {
        let (config, clock) = (MessagingConfig { transport, ..config(test) }, clock());
        let (mut a, mut b) = (on_clock(&config, &clock, 1), on_clock(&config, &clock, 2));
        let source = a.source("px");
        b.receiver("px");
        let (taken, counters) = (exhaust(), b.counters.context.clone());
        until_by(&clock, SHORT, &mut [&mut a, &mut b], |_| counters.descriptors_exhausted.get() == 1);
        idle(&mut [&mut b]);
        assert_eq!(counters.descriptors_exhausted.get(), 1, "the thread does nothing but fail");
        drop(taken);
        // Nobody advertises it again.
        until_by(&clock, SHORT, &mut [&mut b], |p| !p[0].heard.sources.is_empty());
        until_by(&clock, SHORT, &mut [&mut a, &mut b], |p| {
            p[0].context.send(source, &[b"hello"]).expect("there is room");
            !p[1].heard.payloads.is_empty()
        });
    }
}

/// What fails is tried once, and once more after a rest.
fn rests(party: &mut Party, failed: impl Fn() -> u64, clock: &net::clock::ManualClock) {
    until_at_once(&mut [party], |_| failed() == 1);
    idle(&mut [party]);
    assert_eq!(failed(), 1, "the thread does nothing but fail");
    assert_ne!(party.context.until_wakeup(), Some(Duration::ZERO));
    clock.set(clock.now() + net::Door::REST);
    until_at_once(&mut [party], |_| failed() == 2);
}

//! A context that spins looks at its data sockets and rings by itself; the poller learns of them when it is to be waited for, or
//! when they are too many to look at.

mod common;

use std::net::SocketAddrV4;
use std::os::fd::AsRawFd;
use std::time::Duration;

use common::{Heard, Patience, group, group_port};
use net::{Interest, Poller, Token};
use testkit::watchdog::WATCHDOG;
use tickcast_messaging::{Context, MessagingConfig, ReceiverOptions, Source, SourceOptions, Transport, Wait};

fn config(test: u8) -> MessagingConfig {
    MessagingConfig { wait: Wait::Spin, ..common::config(test) }
}

struct Pair {
    sender: Context,
    receiver: Context,
    sources: Vec<Source>,
    heard: Heard,
}

impl Pair {
    /// A source for each topic, all heard.
    fn new(test: u8, transport: Transport, topics: usize) -> Pair {
        let config = config(test);
        let mut sender = Context::standalone(&config).expect("the loopback interface has multicast");
        let mut receiver = Context::standalone(&config).expect("the same");
        let mut sources = Vec::new();
        for at in 0..topics {
            let topic = format!("spinning.{at}");
            receiver.create_receiver(&topic, &ReceiverOptions::default()).expect("there is room");
            let group = (transport == Transport::LbtRm)
                .then(|| SocketAddrV4::new(group(247, test * 16 + at as u8), group_port()));
            let options = SourceOptions { transport: Some(transport), group, ..SourceOptions::default() };
            sources.push(sender.create_source(&topic, &options).expect("a port is free"));
        }
        let mut pair = Pair { sender, receiver, sources, heard: Heard::default() };
        pair.turn_until("sources are found", |pair| pair.heard.sources.len() == topics);
        for at in 0..topics {
            pair.turn_until("a message comes", |pair| {
                pair.send(at, b"first");
                pair.heard.payloads.iter().any(|payload| payload == b"first")
            });
            pair.heard.payloads.clear();
        }
        pair
    }

    fn send(&mut self, at: usize, payload: &[u8]) {
        self.sender.send(self.sources[at], &[payload]).expect("there is room");
        self.sender.flush();
    }

    fn turn_until(&mut self, what: &str, mut done: impl FnMut(&mut Pair) -> bool) {
        let patience = Patience::new();
        while !done(self) {
            assert!(patience.lasts(), "{what}");
            for _ in 0..100 {
                self.sender.poll(&mut ()).expect("the poller works");
                self.receiver.poll(&mut self.heard).expect("the poller works");
            }
        }
    }
}

/// How many descriptors a context's poller watches.
fn watched(context: &Context) -> usize {
    let file = format!("/proc/self/fdinfo/{}", context.descriptor().as_raw_fd());
    let text = std::fs::read_to_string(file).expect("the kernel tells of its pollers");
    text.lines().filter(|line| line.starts_with("tfd:")).count()
}

#[test]
fn who_asks_how_long_to_wait_is_woken_by_what_comes() {
    for (test, transport) in Transport::ALL.iter().copied().enumerate() {
        let mut pair = Pair::new(test as u8, transport, 1);
        // What else was sent and the idle receive mode of the sockets.
        for _ in 0..100_000 {
            pair.sender.poll(&mut ()).expect("the poller works");
            pair.receiver.poll(&mut pair.heard).expect("the poller works");
        }
        pair.heard.payloads.clear();
        let mut poller = Poller::new().expect("there are descriptors");
        poller.registrar().add(pair.receiver.descriptor(), Token(1), Interest::Read).expect("it is pollable");
        let before = watched(&pair.receiver);
        while pair.receiver.until_wakeup() == Some(Duration::ZERO) {
            pair.receiver.poll(&mut pair.heard).expect("the poller works");
        }
        assert_eq!(watched(&pair.receiver) - before, 1, "{transport:?}: the poller learns of it now");
        pair.send(0, b"second");
        let ready = poller.wait(Some(WATCHDOG)).expect("the poller works").count();
        assert_eq!(ready, 1, "{transport:?}: the descriptor is readable");
        pair.turn_until("the message comes", |pair| pair.heard.payloads.iter().any(|p| p == b"second"));
    }
}

#[test]
fn a_source_that_is_to_sleep_is_woken_by_what_a_receiver_says_to_it() {
    let mut pair = Pair::new(9, Transport::LbtRu, 1);
    let before = watched(&pair.sender);
    while pair.sender.until_wakeup() == Some(Duration::ZERO) {
        pair.sender.poll(&mut ()).expect("the poller works");
    }
    assert_eq!(watched(&pair.sender) - before, 1, "the socket for its one client");
    let again = pair.sender.until_wakeup();
    assert_eq!((watched(&pair.sender) - before, again.is_some()), (1, true));
}

#[test]
fn more_sockets_than_are_looked_at_one_by_one_are_heard() {
    let mut pair = Pair::new(8, Transport::LbtRm, 7);
    for at in 0..7 {
        pair.send(at, &[at as u8]);
    }
    pair.turn_until("all come", |pair| (0..7).all(|at| pair.heard.payloads.contains(&vec![at])));
}

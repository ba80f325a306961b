//! A context that spins looks at its data sockets and rings by itself; the poller learns of them when it is to be waited for, or
//! when they are too many to look at.

use std::net::Ipv4Addr;
use std::os::fd::AsRawFd;
use std::time::Duration;

use net::{Interest, Poller, Token, clock};
use tickcast_messaging::{
    Context, Handler, Message, MessagingConfig, ReceiverOptions, Source, SourceInfo, SourceOptions, StreamId,
    Transport, Wait,
};

#[derive(Default)]
struct Heard {
    found: usize,
    payloads: Vec<Vec<u8>>,
}

impl Handler for Heard {
    fn on_source(&mut self, _: tickcast_messaging::Receiver, _: StreamId, _: &SourceInfo<'_>) {
        self.found += 1;
    }
    fn on_message(&mut self, message: &Message<'_>) {
        self.payloads.push(message.payload.to_vec());
    }
}

/// `test` keeps the traffic of tests that run at the same time apart.
fn config(test: u8) -> MessagingConfig {
    let port = 20_000 + (std::process::id() % 10_000) as u16;
    MessagingConfig {
        interface: Ipv4Addr::LOCALHOST.into(),
        ttl: 0,
        wait: Wait::Spin,
        resolver_multicast_address: Ipv4Addr::new(239, 255, 93, test),
        resolver_multicast_port: port,
        transport_lbtrm_destination_port: port,
        transport_lbtrm_source_port_low: 30_000,
        transport_lbtrm_source_port_high: 40_000,
        request_tcp_port_low: 30_000,
        request_tcp_port_high: 40_000,
        ..MessagingConfig::default()
    }
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
            let (topic, group) =
                (format!("spinning.{at}"), Ipv4Addr::new(239, 255, 94, test * 16 + at as u8));
            receiver.create_receiver(&topic, &ReceiverOptions::default()).expect("there is room");
            let group = (transport == Transport::LbtRm)
                .then(|| std::net::SocketAddrV4::new(group, config.transport_lbtrm_destination_port));
            let options = SourceOptions { transport: Some(transport), group, ..SourceOptions::default() };
            sources.push(sender.create_source(&topic, &options).expect("a port is free"));
        }
        let mut pair = Pair { sender, receiver, sources, heard: Heard::default() };
        pair.turn_until("sources are found", |pair| pair.heard.found == topics);
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
        let deadline = clock::monotonic() + Duration::from_secs(20);
        while !done(self) {
            assert!(clock::monotonic() < deadline, "{what}");
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
        // What else was sent and the idle gait of the sockets.
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
        let ready = poller.wait(Some(Duration::from_secs(20))).expect("the poller works").count();
        assert_eq!(ready, 1, "{transport:?}: the descriptor is readable");
        pair.turn_until("the message comes", |pair| pair.heard.payloads.iter().any(|p| p == b"second"));
    }
}

#[test]
fn more_sockets_than_are_looked_at_one_by_one_are_heard() {
    let mut pair = Pair::new(8, Transport::LbtRm, 7);
    for at in 0..7 {
        pair.send(at, &[at as u8]);
    }
    pair.turn_until("all come", |pair| (0..7).all(|at| pair.heard.payloads.contains(&vec![at])));
}

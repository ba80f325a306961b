//! Contexts of one process against each other, over the real sockets of the loopback interface.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use net::{Poller, WaitStrategy, Waiter, clock};
use tickcast_messaging::{
    ConnectionId, Context, ContextCounters, Handler, MessagingConfig, ReceiverId, SendError, SourceId,
    SourceInfo,
};

/// Everything that a context has said.
#[derive(Default)]
struct Heard {
    sources: Vec<(ReceiverId, SourceId, SourceInfo)>,
    messages: Vec<(SourceId, Vec<u8>)>,
    lost: u32,
    ended: Vec<SourceId>,
    accepted: Vec<ConnectionId>,
    connected: Vec<ConnectionId>,
    direct: Vec<(ConnectionId, Vec<u8>)>,
    closed: Vec<(ConnectionId, String)>,
}

impl Handler for Heard {
    fn on_source(&mut self, receiver: ReceiverId, source: SourceId, info: &SourceInfo) {
        self.sources.push((receiver, source, *info));
    }
    fn on_message(&mut self, source: SourceId, payload: &[u8]) {
        self.messages.push((source, payload.to_vec()));
    }
    fn on_loss(&mut self, _: SourceId, count: u32) {
        self.lost += count;
    }
    fn on_source_ended(&mut self, source: SourceId) {
        self.ended.push(source);
    }
    fn on_accepted(&mut self, connection: ConnectionId, _: SocketAddr) {
        self.accepted.push(connection);
    }
    fn on_connected(&mut self, connection: ConnectionId) {
        self.connected.push(connection);
    }
    fn on_direct(&mut self, connection: ConnectionId, payload: &[u8]) {
        self.direct.push((connection, payload.to_vec()));
    }
    fn on_closed(&mut self, connection: ConnectionId, reason: &str) {
        self.closed.push((connection, reason.to_owned()));
    }
}

/// A context with its poller and what it has heard.
struct Party {
    context: Context,
    poller: Poller,
    heard: Heard,
}

impl Party {
    /// `test` keeps the traffic of tests that run at the same time apart.
    fn new(test: u8) -> Party {
        let poller = Poller::new().expect("a descriptor is free");
        let port = 20_000 + (std::process::id() % 10_000) as u16;
        let config = MessagingConfig {
            interface: Ipv4Addr::LOCALHOST,
            resolver_multicast_address: Ipv4Addr::new(239, 255, 91, test),
            resolver_multicast_port: port,
            transport_lbtrm_multicast_address: Ipv4Addr::new(239, 255, 92, test),
            transport_lbtrm_destination_port: port,
            transport_lbtrm_source_port_low: 30_000,
            transport_lbtrm_source_port_high: 40_000,
            request_tcp_port_low: 30_000,
            request_tcp_port_high: 40_000,
            ..MessagingConfig::default()
        };
        let counters = ContextCounters::default();
        let context =
            Context::new(&config, poller.registrar(), 7, clock::seed(), clock::monotonic(), counters)
                .expect("the loopback interface has multicast");
        Party { context, poller, heard: Heard::default() }
    }

    fn turn(&mut self) {
        let now = clock::monotonic();
        if now >= self.context.next_wakeup() {
            self.context.on_wakeup(now, &mut self.heard);
        }
        let timer = self.context.next_wakeup().since(clock::monotonic()).min(Duration::from_millis(1));
        let timeout = Waiter::new(WaitStrategy::Block).timeout(false, Some(timer));
        let ready: Vec<_> = self.poller.wait(timeout).expect("the poller works").collect();
        for one in ready {
            self.context.on_ready(clock::monotonic(), one, &mut self.heard);
        }
        self.context.flush(clock::monotonic());
    }
}

/// Drives the parties until `done`; a hang shows as the test's own timeout.
fn until(parties: &mut [&mut Party], mut done: impl FnMut(&mut [&mut Party]) -> bool) {
    while !done(parties) {
        for party in parties.iter_mut() {
            party.turn();
        }
    }
}

#[test]
fn messages_of_any_size_arrive_in_order() {
    let (mut a, mut b) = (Party::new(1), Party::new(1));
    let topic = a.context.publish(clock::monotonic(), "px").expect("a port is free");
    b.context.subscribe(clock::monotonic(), "px", &mut b.heard).expect("a legal name");
    until(&mut [&mut a, &mut b], |p| !p[1].heard.sources.is_empty());
    let message = |i: u32| {
        let len = [0, 1, 64, 1_400, 1_441, 5_000, 100_000][i as usize % 7];
        [&i.to_be_bytes()[..], &vec![i as u8; len]].concat()
    };
    let mut sent = 0;
    until(&mut [&mut a, &mut b], |p| {
        while sent < 700 {
            let bytes = message(sent);
            match p[0].context.send(clock::monotonic(), topic, &[&bytes[..2], &bytes[2..]]) {
                Ok(()) => sent += 1,
                Err(SendError::WouldBlock) => break,
                Err(other) => panic!("{other}"),
            }
        }
        p[1].heard.messages.len() >= 700
    });
    let source = b.heard.sources[0].1;
    for (i, got) in b.heard.messages.iter().enumerate() {
        assert_eq!(*got, (source, message(i as u32)));
    }
    assert_eq!((b.heard.messages.len(), b.heard.lost), (700, 0));
}

#[test]
fn receivers_and_sources_find_each_other_in_any_order() {
    let (mut a, mut b, mut late) = (Party::new(2), Party::new(2), Party::new(2));
    b.context.subscribe(clock::monotonic(), "early", &mut b.heard).expect("a legal name");
    b.context.subscribe(clock::monotonic(), "other", &mut b.heard).expect("a legal name");
    for _ in 0..20 {
        b.turn();
    }
    let topic = a.context.publish(clock::monotonic(), "early").expect("a port is free");
    until(&mut [&mut a, &mut b], |p| !p[1].heard.sources.is_empty());
    late.context.subscribe(clock::monotonic(), "early", &mut late.heard).expect("a legal name");
    until(&mut [&mut a, &mut b, &mut late], |p| !p[2].heard.sources.is_empty());
    a.context.send(clock::monotonic(), topic, &[b"to all"]).expect("there is room");
    until(&mut [&mut a, &mut b, &mut late], |p| p[1..].iter().all(|q| q.heard.messages.len() == 1));
    assert_eq!((b.heard.sources.len(), late.heard.sources.len()), (1, 1));
}

#[test]
fn the_end_of_a_source_is_told() {
    let (mut a, mut b) = (Party::new(3), Party::new(3));
    let topic = a.context.publish(clock::monotonic(), "px").expect("a port is free");
    b.context.subscribe(clock::monotonic(), "px", &mut b.heard).expect("a legal name");
    until(&mut [&mut a, &mut b], |p| !p[1].heard.sources.is_empty());
    a.context.send(clock::monotonic(), topic, &[b"last"]).expect("there is room");
    until(&mut [&mut a, &mut b], |p| p[1].heard.messages.len() == 1);
    a.context.end(clock::monotonic());
    drop(a);
    until(&mut [&mut b], |p| p[0].heard.ended == [p[0].heard.sources[0].1]);
    let mut again = Party::new(3);
    again.context.publish(clock::monotonic(), "px").expect("a port is free");
    until(&mut [&mut again, &mut b], |p| p[1].heard.sources.len() == 2);
    assert_ne!(b.heard.sources[0].2.session, b.heard.sources[1].2.session);
}

#[test]
fn direct_messages_go_both_ways() {
    let (mut a, mut b) = (Party::new(4), Party::new(4));
    let address = a.context.listen().expect("a port is free");
    a.context.publish(clock::monotonic(), "px").expect("a port is free");
    b.context.subscribe(clock::monotonic(), "px", &mut b.heard).expect("a legal name");
    until(&mut [&mut a, &mut b], |p| !p[1].heard.sources.is_empty());
    assert_eq!(b.heard.sources[0].2.request, Some(address), "the advertisement says where");
    let up = b.context.connect(address).expect("somebody listens");
    b.context.send_direct(up, b"hello");
    let large = vec![7; 3 << 20];
    b.context.send_direct(up, &large);
    until(&mut [&mut a, &mut b], |p| p[0].heard.direct.len() == 2);
    let down = a.heard.accepted[0];
    assert_eq!(a.heard.direct, [(down, b"hello".to_vec()), (down, large)]);
    a.context.send_direct(down, b"welcome");
    until(&mut [&mut a, &mut b], |p| p[1].heard.direct == [(up, b"welcome".to_vec())]);
    assert_eq!(b.heard.connected, [up]);
    a.context.disconnect(down);
    until(&mut [&mut a, &mut b], |p| p[1].heard.closed.len() == 1);
    assert_eq!(b.heard.closed[0], (up, "the peer has closed the connection".to_owned()));
}

#[test]
fn a_connection_that_nobody_takes_is_told_as_closed() {
    let mut a = Party::new(5);
    let nobody = net::tcp::listen("127.0.0.1:0".parse().expect("an address")).expect("a port is free");
    let SocketAddr::V4(address) = nobody.local_addr().expect("bound") else { unreachable!("bound to IPv4") };
    drop(nobody);
    let connection = a.context.connect(address).expect("non-blocking");
    until(&mut [&mut a], |p| !p[0].heard.closed.is_empty());
    assert_eq!(a.heard.closed[0].0, connection);
    assert!(a.heard.connected.is_empty());
}

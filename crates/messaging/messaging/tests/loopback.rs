//! Contexts of one process against each other, over the real sockets of the loopback interface.

mod common;

use std::net::{SocketAddr, SocketAddrV4};

use common::{config, until};
use tickcast_messaging::{
    ConnectionId, End, Handler, Loss, Message, Receiver, SendError, SourceInfo, StreamId,
};

/// Everything that a context has said.
#[derive(Default)]
struct Heard {
    /// Stream, session, request port.
    sources: Vec<(StreamId, u64, Option<SocketAddrV4>)>,
    messages: Vec<(StreamId, Vec<u8>)>,
    lost: u32,
    ended: Vec<StreamId>,
    accepted: Vec<ConnectionId>,
    connected: Vec<ConnectionId>,
    direct: Vec<(ConnectionId, Vec<u8>)>,
    closed: Vec<(ConnectionId, String)>,
}

impl Handler for Heard {
    fn on_source(&mut self, _: Receiver, stream: StreamId, info: &SourceInfo<'_>) {
        self.sources.push((stream, info.session, info.request));
    }
    fn on_message(&mut self, message: &Message<'_>) {
        self.messages.push((message.stream, message.payload.to_vec()));
    }
    fn on_loss(&mut self, _: Receiver, _: StreamId, loss: Loss) {
        self.lost += loss.count;
    }
    fn on_end(&mut self, _: Receiver, stream: StreamId, _: &End) {
        self.ended.push(stream);
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

type Party = common::Party<Heard>;

fn party(test: u8) -> Party {
    Party::new(&config(test))
}

#[test]
fn messages_of_any_size_arrive_in_order() {
    let (mut a, mut b) = (party(1), party(1));
    let topic = a.source("px");
    b.receiver("px");
    until(&mut [&mut a, &mut b], |p| !p[1].heard.sources.is_empty());
    let message = |i: u32| {
        let len = [0, 1, 64, 1_400, 1_441, 5_000, 100_000][i as usize % 7];
        [&i.to_be_bytes()[..], &vec![i as u8; len]].concat()
    };
    let mut sent = 0;
    until(&mut [&mut a, &mut b], |p| {
        while sent < 700 {
            let bytes = message(sent);
            match p[0].context.send(topic, &[&bytes[..2], &bytes[2..]]) {
                Ok(_) => sent += 1,
                Err(SendError::WouldBlock) => break,
                Err(other) => panic!("{other}"),
            }
        }
        p[1].heard.messages.len() >= 700
    });
    let source = b.heard.sources[0].0;
    for (i, got) in b.heard.messages.iter().enumerate() {
        assert_eq!(*got, (source, message(i as u32)));
    }
    assert_eq!((b.heard.messages.len(), b.heard.lost), (700, 0));
}

#[test]
fn receivers_and_sources_find_each_other_in_any_order() {
    let (mut a, mut b, mut late) = (party(2), party(2), party(2));
    b.receiver("early");
    b.receiver("other");
    for _ in 0..20 {
        b.turn();
    }
    let topic = a.source("early");
    until(&mut [&mut a, &mut b], |p| !p[1].heard.sources.is_empty());
    late.receiver("early");
    until(&mut [&mut a, &mut b, &mut late], |p| !p[2].heard.sources.is_empty());
    a.context.send(topic, &[b"to all"]).expect("there is room");
    until(&mut [&mut a, &mut b, &mut late], |p| p[1..].iter().all(|q| q.heard.messages.len() == 1));
    assert_eq!((b.heard.sources.len(), late.heard.sources.len()), (1, 1));
}

#[test]
fn the_end_of_a_source_is_told() {
    let (mut a, mut b) = (party(3), party(3));
    let topic = a.source("px");
    b.receiver("px");
    until(&mut [&mut a, &mut b], |p| !p[1].heard.sources.is_empty());
    a.context.send(topic, &[b"last"]).expect("there is room");
    until(&mut [&mut a, &mut b], |p| p[1].heard.messages.len() == 1);
    a.context.end();
    drop(a);
    until(&mut [&mut b], |p| p[0].heard.ended == [p[0].heard.sources[0].0]);
    let mut again = party(3);
    again.source("px");
    until(&mut [&mut again, &mut b], |p| p[1].heard.sources.len() == 2);
    assert_ne!(b.heard.sources[0].1, b.heard.sources[1].1);
}

#[test]
fn direct_messages_go_both_ways() {
    let (mut a, mut b) = (party(4), party(4));
    let address = a.context.listen().expect("a port is free");
    a.source("px");
    b.receiver("px");
    until(&mut [&mut a, &mut b], |p| !p[1].heard.sources.is_empty());
    assert_eq!(b.heard.sources[0].2, Some(address), "the advertisement says where");
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
    let mut a = party(5);
    let nobody = net::tcp::listen("127.0.0.1:0".parse().expect("an address")).expect("a port is free");
    let SocketAddr::V4(address) = nobody.local_addr().expect("bound") else { unreachable!("bound to IPv4") };
    drop(nobody);
    let connection = a.context.connect(address).expect("non-blocking");
    until(&mut [&mut a], |p| !p[0].heard.closed.is_empty());
    assert_eq!(a.heard.closed[0].0, connection);
    assert!(a.heard.connected.is_empty());
}

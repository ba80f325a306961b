//! LBT-RM on two networks, which here are two addresses of the loopback interface: what goes out on one
//! comes in on both. `interop/netns/test_networks.py` has networks that know nothing of each other.

use std::net::{Ipv4Addr, SocketAddrV4};
use std::time::{Duration, Instant};

use lbt::config::ResolverConfig;
use lbt::resolution::{Origin, Resolver, SourceRecord, TransportSession};
use net::udp::{MulticastOptions, UdpSocket};
use tickcast_messaging::{
    Context, ContextCounters, End, Handler, Interface, Loss, Message, MessagingConfig, Receiver,
    ReceiverOptions, Source, SourceInfo, SourceOptions, StreamId,
};
use units::Nanos;

#[derive(Default)]
struct Heard {
    sources: Vec<(StreamId, TransportSession)>,
    numbers: Vec<u32>,
    lost: u32,
    ends: usize,
}

impl Handler for Heard {
    fn on_source(&mut self, _: Receiver, stream: StreamId, info: &SourceInfo<'_>) {
        self.sources.push((stream, info.transport));
    }
    fn on_message(&mut self, message: &Message<'_>) {
        let number = message.payload.first_chunk().expect("a number");
        self.numbers.push(u32::from_be_bytes(*number));
    }
    fn on_loss(&mut self, _: Receiver, _: StreamId, loss: Loss) {
        self.lost += loss.count;
    }
    fn on_end(&mut self, _: Receiver, _: StreamId, _: &End) {
        self.ends += 1;
    }
}

struct Party {
    context: Context,
    heard: Heard,
    counters: ContextCounters,
}

const WATCHDOG: Duration = Duration::from_secs(60);
const A: Ipv4Addr = Ipv4Addr::LOCALHOST;
const B: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);

fn config(test: u8, interface: Ipv4Addr, second: Option<Ipv4Addr>) -> MessagingConfig {
    let process = std::process::id();
    let port = 28_000 + (process % 1_900) as u16;
    MessagingConfig {
        interface: Interface::Address(interface),
        interface_b: second.map(Interface::Address),
        resolver_multicast_address: Ipv4Addr::new(239, 248, (process / 1_900) as u8, test),
        resolver_multicast_port: port,
        transport_lbtrm_multicast_address: Ipv4Addr::new(239, 247, (process / 1_900) as u8, test),
        transport_lbtrm_destination_port: port,
        transport_lbtrm_source_port_low: 30_000,
        transport_lbtrm_source_port_high: 45_000,
        request_tcp_port_low: 30_000,
        request_tcp_port_high: 45_000,
        ..MessagingConfig::default()
    }
}

fn party(config: &MessagingConfig) -> Party {
    let counters = ContextCounters::default();
    let context =
        Context::standalone_with(config, counters.clone()).expect("the loopback interface is there");
    Party { context, heard: Heard::default(), counters }
}

impl Party {
    fn source(&mut self) -> Source {
        self.context.create_source("px", &SourceOptions::default()).expect("a port is free")
    }

    fn receiver(&mut self) {
        self.context.create_receiver("px", &ReceiverOptions::default()).expect("a legal name");
    }

    fn turn(&mut self) {
        self.context.wait(Some(Duration::from_millis(1)), &mut self.heard).expect("the poller works");
    }
}

/// Sends numbers from 0 on until one was heard and then `count` more, all of which must be heard once.
fn talk(a: &mut Party, source: Source, b: &mut Party, count: u32) {
    let (begun, mut next, mut end) = (Instant::now(), 0_u32, u32::MAX);
    while b.heard.numbers.last() != Some(&(end - 1)) {
        assert!(begun.elapsed() < WATCHDOG, "hangs at {:?}", b.heard.numbers.last());
        if next < end {
            a.context.send(source, &[&next.to_be_bytes(), &[7; 200]]).expect("there is room");
            next += 1;
        }
        if end == u32::MAX && !b.heard.numbers.is_empty() {
            end = next + count;
        }
        a.turn();
        b.turn();
    }
    let first = b.heard.numbers[0];
    assert!(b.heard.numbers.iter().copied().eq(first..end), "each once and in order");
    assert_eq!(b.heard.lost, 0);
}

#[test]
fn what_is_sent_on_two_networks_is_one_stream_and_each_message_is_heard_once() {
    let config = config(1, A, Some(B));
    let (mut a, mut b) = (party(&config), party(&config));
    let source = a.source();
    b.receiver();
    talk(&mut a, source, &mut b, 300);
    let transport = a.context.source_transport(source).expect("it exists");
    let n = b.counters.networks.clone();
    // The second network is known with its first advertisement, which may come after the first messages.
    talk_more(&mut a, source, &mut b, |_| n.b_dgrams_rcved.get() > 200);
    assert_eq!(b.heard.sources.len(), 1, "one source");
    assert_eq!(b.heard.sources[0].1, transport);
    assert!(transport.to_string().starts_with("LBTRM:127.0.0.1:"), "{transport}");
    assert!(n.a_dgrams_rcved.get() > 200 && n.second_copies.get() > 200);
    assert_eq!((n.a_silent.get(), n.b_silent.get(), b.counters.receiver.lost.get()), (0, 0, 0));
    a.context.end();
    let begun = Instant::now();
    while b.heard.ends == 0 {
        assert!(begun.elapsed() < WATCHDOG, "the end is not heard");
        a.turn();
        b.turn();
    }
    assert_eq!(b.heard.ends, 1);
}

/// Goes on until `done`.
fn talk_more(a: &mut Party, source: Source, b: &mut Party, done: impl Fn(&Party) -> bool) {
    let begun = Instant::now();
    while !done(b) {
        assert!(begun.elapsed() < WATCHDOG, "hangs");
        let next = b.heard.numbers.last().expect("they have met") + 1;
        a.context.send(source, &[&next.to_be_bytes()]).expect("there is room");
        while b.heard.numbers.last() != Some(&next) {
            assert!(begun.elapsed() < WATCHDOG, "hangs at {next}");
            a.turn();
            b.turn();
        }
    }
}

#[test]
fn who_is_on_one_network_hears_a_session_of_two_once() {
    for (test, interface) in [(2, A), (3, B)] {
        let (mut a, mut b) = (party(&config(test, A, Some(B))), party(&config(test, interface, None)));
        let source = a.source();
        b.receiver();
        talk(&mut a, source, &mut b, 300);
        assert_eq!(b.heard.sources.len(), 1);
    }
}

#[test]
fn who_is_on_two_networks_hears_a_session_of_one() {
    for (test, interface) in [(4, A), (5, B)] {
        let (mut a, mut b) = (party(&config(test, interface, None)), party(&config(test, A, Some(B))));
        let source = a.source();
        b.receiver();
        talk(&mut a, source, &mut b, 300);
        assert_eq!(b.counters.networks.a_dgrams_rcved.get(), 0, "it is not on two");
    }
}

#[test]
fn a_session_that_only_calls_itself_the_same_is_another_one() {
    let config = config(6, A, Some(B));
    let (mut a, mut b) = (party(&config), party(&config));
    let source = a.source();
    b.receiver();
    talk(&mut a, source, &mut b, 10);
    let Some(TransportSession::LbtRm { key, group }) = a.context.source_transport(source) else {
        unreachable!("multicast is the default")
    };
    // Everything is that of the session but the instance of the context.
    let stranger = Ipv4Addr::new(127, 0, 0, 3);
    let origin = Some(Origin { source: A, context: *b"stranger" });
    let session = TransportSession::LbtRm { key, group };
    let record = SourceRecord { topic_index: 1, session, request: None, late_join: None, origin };
    let resolver = Resolver::new(&ResolverConfig::default(), Nanos::ZERO, Default::default());
    let mut resolver = resolver.expect("allowed");
    resolver.advertise(Nanos::ZERO, "px", record.on_network(stranger)).expect("a legal name");
    let datagram = resolver.poll_transmit(Nanos::ZERO).expect("it is due").to_vec();
    let options = MulticastOptions { interface: A, ttl: 1, buffer_bytes: 65_536 };
    let socket = UdpSocket::multicast_sender(SocketAddrV4::new(A, 0), options).expect("a port is free");
    let to = SocketAddrV4::new(config.resolver_multicast_address, config.resolver_multicast_port);
    let begun = Instant::now();
    while b.heard.sources.len() < 2 {
        assert!(begun.elapsed() < WATCHDOG, "the other source is not told");
        socket.send_run(to, &datagram, datagram.len()).expect("it is near");
        b.turn();
    }
    let strange = |(_, transport): &(StreamId, TransportSession)| transport.to_string().contains("127.0.0.3");
    assert_eq!(b.heard.sources.iter().filter(|s| strange(s)).count(), 1);
    // The session itself goes on.
    talk_more(&mut a, source, &mut b, |b| b.heard.numbers.len() > 40);
    assert_eq!(b.heard.lost, 0);
}

#[test]
fn kernel_bypass_has_one_network() {
    let both = MessagingConfig::load(None, ["interface_b=127.0.0.2", "transport_lbtrm_carrier=af_xdp"]);
    let text = both.expect_err("they do not go together").to_string();
    assert!(text.contains("interface_b") && text.contains("transport_lbtrm_carrier"), "{text}");
}

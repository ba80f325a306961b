//! LBT-RM on two networks, which here are two addresses of the loopback interface: what goes out on one
//! comes in on both. `interop/netns/test_networks.py` has networks that know nothing of each other.

mod common;

use std::io::Read;
use std::net::{Ipv4Addr, SocketAddrV4, TcpListener, TcpStream};
use std::time::Duration;

use common::{Party, Patience, group, group_port, meet, party, until};
use lbt::config::ResolverConfig;
use lbt::resolution::{Origin, Resolver, SourceRecord, TransportSession};
use lbt::rm::SessionKey;
use lbt::stream::StreamDecoder;
use lbt::wire::lbtrm::SessionHeader;
use net::tcp;
use net::udp::{MulticastOptions, UdpSocket};
use tickcast_messaging::{
    Asked, Interface, MessageRecoveryConfig, MessagingConfig, Source, SourceOptions, TopicResolutionConfig,
};
use units::Nanos;

const A: Ipv4Addr = Ipv4Addr::LOCALHOST;
const B: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);

fn config(test: u8, interface: Ipv4Addr, second: Option<Ipv4Addr>) -> MessagingConfig {
    MessagingConfig {
        interface: Interface::Address(interface),
        interface_b: second.map(Interface::Address),
        ..common::config(test)
    }
}

/// Sends numbers from 0 on until one was heard and then `count` more, all of which must be heard once.
fn talk(a: &mut Party, source: Source, b: &mut Party, count: u32) {
    let (patience, mut next, mut end) = (Patience::new(), 0_u32, u32::MAX);
    while b.heard.numbers().next_back() != Some(end - 1) {
        assert!(patience.lasts(), "hangs at {:?}", b.heard.numbers().next_back());
        if next < end {
            a.context.send(source, &[&next.to_be_bytes(), &[7; 200]]).expect("there is room");
            next += 1;
        }
        if end == u32::MAX && !b.heard.payloads.is_empty() {
            end = next + count;
        }
        a.turn();
        b.turn();
    }
    let first = b.heard.numbers().next().expect("one was heard");
    assert!(b.heard.numbers().eq(first..end), "each once and in order");
    assert_eq!(b.heard.lost, 0);
}

#[test]
fn what_is_sent_on_two_networks_is_one_stream_and_each_message_is_heard_once() {
    let config = config(1, A, Some(B));
    let (mut a, mut b) = (party(&config), party(&config));
    let source = a.source("px");
    b.receiver("px");
    talk(&mut a, source, &mut b, 300);
    let transport = a.context.source_transport(source).expect("it exists");
    let n = b.counters.networks.clone();
    // The second network is known with its first advertisement, which may come after the first messages.
    talk_more(&mut a, source, &mut b, |_| n.b_dgrams_rcved.get() > 200);
    assert_eq!(b.heard.sources.len(), 1, "one source");
    assert_eq!(b.heard.sources[0], format!("px {transport}"));
    assert!(transport.to_string().starts_with("LBTRM:127.0.0.1:"), "{transport}");
    assert!(n.a_dgrams_rcved.get() > 200 && n.second_copies.get() > 200);
    assert_eq!((n.a_silent.get(), n.b_silent.get(), b.counters.receiver.lost.get()), (0, 0, 0));
    a.context.end();
    let patience = Patience::new();
    while b.heard.ends.is_empty() {
        assert!(patience.lasts(), "the end is not heard");
        a.turn();
        b.turn();
    }
    assert_eq!(b.heard.ends.len(), 1);
}

/// Goes on until `done`.
fn talk_more(a: &mut Party, source: Source, b: &mut Party, done: impl Fn(&Party) -> bool) {
    let patience = Patience::new();
    while !done(b) {
        assert!(patience.lasts(), "hangs");
        let next = b.heard.numbers().next_back().expect("they have met") + 1;
        a.context.send(source, &[&next.to_be_bytes()]).expect("there is room");
        while b.heard.numbers().next_back() != Some(next) {
            assert!(patience.lasts(), "hangs at {next}");
            a.turn();
            b.turn();
        }
    }
}

#[test]
fn who_is_on_one_network_hears_a_session_of_two_once() {
    for (test, interface) in [(2, A), (3, B)] {
        let (mut a, mut b) = (party(&config(test, A, Some(B))), party(&config(test, interface, None)));
        let source = a.source("px");
        b.receiver("px");
        talk(&mut a, source, &mut b, 300);
        assert_eq!(b.heard.sources.len(), 1);
    }
}

#[test]
fn who_is_on_two_networks_hears_a_session_of_one() {
    for (test, interface) in [(4, A), (5, B)] {
        let (mut a, mut b) = (party(&config(test, interface, None)), party(&config(test, A, Some(B))));
        let source = a.source("px");
        b.receiver("px");
        talk(&mut a, source, &mut b, 300);
        assert_eq!(b.counters.networks.a_dgrams_rcved.get(), 0, "it is not on two");
    }
}

#[test]
fn a_session_that_only_calls_itself_the_same_is_another_one() {
    let config = config(6, A, Some(B));
    let (mut a, mut b) = (party(&config), party(&config));
    let source = a.source("px");
    b.receiver("px");
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
    let to = SocketAddrV4::new(config.resolver.multicast_address, config.resolver.multicast_port);
    let patience = Patience::new();
    while b.heard.sources.len() < 2 {
        assert!(patience.lasts(), "the other source is not told");
        socket.send_run(to, &datagram, datagram.len()).expect("it is near");
        b.turn();
    }
    let strange = |source: &String| source.contains("127.0.0.3");
    assert_eq!(b.heard.sources.iter().filter(|s| strange(s)).count(), 1);
    // The session itself goes on.
    talk_more(&mut a, source, &mut b, |b| b.heard.payloads.len() > 40);
    assert_eq!(b.heard.lost, 0);
}

/// Two parties on both networks, the second of which knows that, and a source of the first.
fn acquainted(test: u8) -> (Party, Source, Party) {
    let config = config(test, A, Some(B));
    let (mut a, mut b) = (party(&config), party(&config));
    let source = a.source("px");
    b.receiver("px");
    talk(&mut a, source, &mut b, 10);
    let n = b.counters.networks.clone();
    talk_more(&mut a, source, &mut b, |_| n.b_dgrams_rcved.get() > 0);
    (a, source, b)
}

#[test]
fn an_answer_that_network_a_does_not_bring_goes_by_network_b() {
    let (mut a, source, mut b) = acquainted(7);
    // Over network A, as long as that works.
    let request = a.context.request(source, &[b"0000"]).expect("there is room");
    until(&mut [&mut a, &mut b], |p| !p[1].heard.asked.is_empty());
    b.context.respond(b.heard.asked[0], b"this").expect("it is near");
    until(&mut [&mut a, &mut b], |p| p[0].heard.responses == [b"this".to_vec()]);
    assert_eq!(b.counters.networks.answers_moved.get(), 0);
    a.context.cancel_request(request);
    // One who asks listens at one port of both; here nobody does on network A.
    let listener = TcpListener::bind((B, 0)).expect("a port is free");
    let port = listener.local_addr().expect("bound").port();
    let address = SocketAddrV4::new(A, port);
    b.context.respond(Asked { index: 1, address }, b"by the other way").expect("it is near");
    let mut stream = accepted(&listener, &mut b);
    assert_eq!(b.counters.networks.answers_moved.get(), 1);
    let mut got = read_until(&mut stream, b"by the other way", || b.turn());
    // What is answered next takes the way that works, and nothing comes twice.
    b.context.respond(Asked { index: 2, address }, b"and once more").expect("it is near");
    got.extend(read_until(&mut stream, b"and once more", || b.turn()));
    assert_eq!(got.windows(16).filter(|part| part == b"by the other way").count(), 1);
    assert_eq!(b.counters.networks.answers_moved.get(), 1);
}

/// What a connection brings until it has ended in `last`, or ended.
fn read_until(stream: &mut TcpStream, last: &[u8], mut meanwhile: impl FnMut()) -> Vec<u8> {
    stream.set_read_timeout(Some(Duration::from_millis(1))).expect("it is open");
    let (patience, mut got, mut room) = (Patience::new(), Vec::new(), vec![0; 1 << 16]);
    while !got.ends_with(last) {
        assert!(patience.lasts(), "{} bytes came", got.len());
        meanwhile();
        match stream.read(&mut room) {
            Ok(0) => break,
            Ok(count) => got.extend_from_slice(&room[..count]),
            Err(_) => {}
        }
    }
    got
}

/// Accepts the connection that a party opens.
fn accepted(listener: &TcpListener, by: &mut Party) -> TcpStream {
    listener.set_nonblocking(true).expect("it is open");
    let patience = Patience::new();
    loop {
        assert!(patience.lasts(), "nobody connects");
        by.turn();
        if let Ok((stream, _)) = listener.accept() {
            stream.set_nonblocking(false).expect("it is open");
            return stream;
        }
    }
}

#[test]
fn answers_that_have_not_arrived_when_a_connection_breaks_are_sent_again_by_the_other_network() {
    let (_a, _, mut b) = acquainted(12);
    let on_a = TcpListener::bind((A, 0)).expect("a port is free");
    let port = on_a.local_addr().expect("bound").port();
    let on_b = TcpListener::bind((B, port)).expect("the port is free there");
    // Far more than both kernels hold for one who reads nothing.
    let answer = |index: u32| [&index.to_be_bytes()[..], &[0xa5; 65_532]].concat();
    const ANSWERS: u32 = 512;
    let asked = Asked { index: 1, address: SocketAddrV4::new(A, port) };
    for index in 0..ANSWERS {
        b.context.respond(asked, &answer(index)).expect("it is near");
        b.turn();
    }
    // What has arrived by then is not read, so that closing breaks the connection.
    drop(accepted(&on_a, &mut b));
    drop(on_a);
    let mut stream = accepted(&on_b, &mut b);
    b.context.respond(asked, b"the last").expect("it is near");
    let got = read_until(&mut stream, b"the last", || b.turn());
    let mut decoder = StreamDecoder::new(1 << 20);
    let mut numbers = Vec::new();
    let pushed = decoder.push(&got, |message| {
        if message.payload != b"the last" {
            let index = u32::from_be_bytes(*message.payload.first_chunk().expect("a number"));
            assert!(message.payload == answer(index), "it is whole");
            numbers.push(index);
        }
    });
    pushed.expect("messages from the first byte on");
    let first = numbers[0];
    assert!(first > 0 && first < ANSWERS, "some had arrived: {first}");
    assert!(numbers.iter().copied().eq(first..ANSWERS), "{numbers:?}");
    assert_eq!(b.counters.networks.answers_moved.get(), 1);
}

#[test]
fn a_connection_that_network_a_refuses_or_leaves_unanswered_is_made_over_network_b() {
    let (_a, _, mut b) = acquainted(14);
    for answers in [true, false] {
        let listener = TcpListener::bind((B, 0)).expect("a port is free");
        let port = listener.local_addr().expect("bound").port();
        let to = SocketAddrV4::new(A, port);
        // Of a listener whose queue is full the kernel drops what asks for a connection.
        let silent = (!answers).then(|| tcp::listen_with(to, 0).expect("the port is free there"));
        let mut queue = Vec::new();
        while silent.is_some()
            && let Ok(stream) = TcpStream::connect_timeout(&to.into(), Duration::from_millis(200))
        {
            queue.push(stream);
        }
        let moved = b.counters.networks.connections_moved.get();
        let connection = b.context.connect(to).expect("non-blocking");
        b.context.send_direct(connection, b"by the other way");
        let mut stream = accepted(&listener, &mut b);
        let got = read_until(&mut stream, b"by the other way", || b.turn());
        assert_eq!(got.windows(16).filter(|part| part == b"by the other way").count(), 1);
        assert_eq!(b.counters.networks.connections_moved.get(), moved + 1);
        assert_eq!(b.heard.connected.pop(), Some(connection));
        // What has stood is not made anew: the application hears that it is over.
        assert!(b.heard.closed.is_empty());
        drop(stream);
        until(&mut [&mut b], |p| p[0].heard.closed.pop().is_some_and(|(closed, _)| closed == connection));
        assert_eq!(b.counters.networks.connections_moved.get(), moved + 1);
    }
}

#[test]
fn a_connection_that_neither_network_makes_is_told_as_closed() {
    let (_a, _, mut b) = acquainted(15);
    let nobody = TcpListener::bind((A, 0)).expect("a port is free");
    let port = nobody.local_addr().expect("bound").port();
    drop(nobody);
    let connection = b.context.connect(SocketAddrV4::new(A, port)).expect("non-blocking");
    until(&mut [&mut b], |p| p[0].heard.closed.iter().map(|(closed, _)| *closed).eq([connection]));
    assert!(b.heard.connected.is_empty());
}

#[test]
fn a_late_joiner_whom_network_a_refuses_asks_on_network_b() {
    let config = config(13, A, Some(B));
    let mut b = party(&config);
    b.receiver("px");
    // A source whose request port is open on network B alone.
    let listener = TcpListener::bind((B, 0)).expect("a port is free");
    let port = listener.local_addr().expect("bound").port();
    let header = SessionHeader { ucast_port: port, session_id: 7 };
    let group = SocketAddrV4::new(config.lbtrm.multicast_address, group_port());
    let session = TransportSession::LbtRm { key: SessionKey { source: A, session: header }, group };
    let origin = Some(Origin { source: A, context: *b"retained" });
    let (request, late_join) = (Some(SocketAddrV4::new(A, port)), Some(1));
    let record = SourceRecord { topic_index: 1, session, request, late_join, origin };
    let options = MulticastOptions { interface: A, ttl: 1, buffer_bytes: 65_536 };
    let socket = UdpSocket::multicast_sender(SocketAddrV4::new(A, 0), options).expect("a port is free");
    let to = SocketAddrV4::new(config.resolver.multicast_address, config.resolver.multicast_port);
    for record in [record.on_network(B), record] {
        let resolver = Resolver::new(&ResolverConfig::default(), Nanos::ZERO, Default::default());
        let mut resolver = resolver.expect("allowed");
        resolver.advertise(Nanos::ZERO, "px", record).expect("a legal name");
        let datagram = resolver.poll_transmit(Nanos::ZERO).expect("it is due");
        socket.send_run(to, datagram, datagram.len()).expect("it is near");
    }
    let mut stream = accepted(&listener, &mut b);
    assert_eq!(b.counters.networks.recoveries_moved.get(), 1);
    assert_eq!(b.counters.recovery.connections_failed.get(), 1);
    let patience = Patience::new();
    stream.set_read_timeout(Some(Duration::from_millis(1))).expect("it is open");
    while stream.read(&mut [0; 64]).unwrap_or(0) == 0 {
        assert!(patience.lasts(), "nothing is asked for");
        b.turn();
    }
}

#[test]
fn who_is_on_one_network_joins_late_and_answers_by_that() {
    for (test, interface) in [(8, A), (9, B)] {
        let base = config(test, A, Some(B));
        let config_a =
            MessagingConfig { recovery: MessageRecoveryConfig { late_join: true, ..base.recovery }, ..base };
        let mut a = party(&config_a);
        let source = a.source("px");
        for number in 0..50_u32 {
            a.context.send(source, &[&number.to_be_bytes()]).expect("there is room");
            a.turn();
        }
        let mut b = party(&config(test, interface, None));
        b.receiver("px");
        until(&mut [&mut a, &mut b], |p| p[1].heard.payloads.len() == 50);
        assert!(b.heard.numbers().eq(0..50), "from the first message that is retained on");
        a.context.request(source, &[&50_u32.to_be_bytes()]).expect("there is room");
        until(&mut [&mut a, &mut b], |p| !p[1].heard.asked.is_empty());
        b.context.respond(b.heard.asked[0], b"this").expect("it is near");
        until(&mut [&mut a, &mut b], |p| p[0].heard.responses == [b"this".to_vec()]);
        let n = &b.counters.networks;
        assert_eq!((n.answers_moved.get(), n.recoveries_moved.get()), (0, 0), "the way was known");
    }
}

/// A line of `px` for a source at `A` on network A and at `second` on network B.
fn line(test: u8, second: Option<Ipv4Addr>) -> String {
    let socket = std::net::UdpSocket::bind((A, 0)).expect("a port is free");
    let port = socket.local_addr().expect("bound").port();
    let line = format!("px = LBTRM:{A}:{port}:5eed1234:{}:{}[7]", group(248, test), group_port());
    line + &second.map_or_else(String::new, |second| format!("+{second}"))
}

#[test]
fn a_source_known_by_configuration_alone_is_heard_on_both_networks() {
    let line = line(10, Some(B)).parse().expect("a source string");
    let at_source = MessagingConfig { source_static_session: vec![line], ..config(10, A, Some(B)) };
    let line = at_source.source_static_session[0].clone();
    let base = config(10, A, Some(B));
    let at_receiver = MessagingConfig {
        resolver: TopicResolutionConfig { static_source: vec![line.clone()], ..base.resolver },
        ..base
    };
    let base = config(10, B, None);
    let on_b_alone = MessagingConfig {
        resolver: TopicResolutionConfig { static_source: vec![line], ..base.resolver },
        ..base
    };
    let (mut a, mut b, mut c) = (party(&at_source), party(&at_receiver), party(&on_b_alone));
    let source = a.source("px");
    b.receiver("px");
    c.receiver("px");
    talk(&mut a, source, &mut b, 100);
    assert_eq!(b.heard.sources.len(), 1);
    let n = &b.counters.networks;
    assert!(n.a_dgrams_rcved.get() > 0 && n.b_dgrams_rcved.get() > 0 && n.second_copies.get() > 0);
    meet(&mut a, source, &mut c);
    for party in [&a, &b, &c] {
        let resolver = &party.counters.resolver;
        assert_eq!(resolver.tr_dgrams_sent.get() + resolver.tr_dgrams_rcved.get(), 0, "nobody asks");
    }
}

#[test]
fn a_line_with_another_address_on_network_b_is_refused_with_both() {
    for (second, own) in [(Some(B), "127.0.0.2"), (None, "not set")] {
        let line = line(11, Some(Ipv4Addr::new(127, 0, 0, 9))).parse().expect("a source string");
        let config = MessagingConfig { source_static_session: vec![line], ..config(11, A, second) };
        let refused = party(&config).context.create_source("px", &SourceOptions::default());
        let text = refused.expect_err("it is not its address").to_string();
        for part in ["source_static_session", "127.0.0.9", "interface_b", own] {
            assert!(text.contains(part), "{text}");
        }
    }
}

#[test]
fn kernel_bypass_has_one_network() {
    let both = MessagingConfig::load(None, ["interface_b=127.0.0.2", "lbtrm.carrier=af_xdp"]);
    let text = both.expect_err("they do not go together").to_string();
    assert!(text.contains("interface_b") && text.contains("lbtrm.carrier"), "{text}");
}

//! What is peculiar to one transport, or to how it is configured.

mod common;

use std::io::{BufRead, BufReader, ErrorKind};
use std::net::Ipv4Addr;
use std::process::{Command, Stdio};

use lbt::config::RelayConfig;
use lbt::resolution::Relay;
use net::clock;
use net::udp::{MulticastOptions, ReceiveBatch, UdpSocket};
use testkit::watchdog::WATCHDOG;
use tickcast_messaging::{
    Asked, EndReason, IpcConfig, LbtrmConfig, MessagingConfig, ReceiverBehavior, RequestId, SendError,
    Source, SourceEvent, TcpConfig, TopicResolutionConfig, Transport,
};

use common::{Party, Patience, certificate, config, meet, party, until};

/// Sends far more than all buffers hold while the receiver does nothing, then lets it catch up.
fn pass_over(transport: Transport, test: u8, messages: u32) -> (Party, Party) {
    let base = config(test);
    let config = MessagingConfig {
        transport,
        tcp: TcpConfig { multiple_receiver_behavior: ReceiverBehavior::SourcePaced, ..base.tcp },
        ipc: IpcConfig { transmission_window_size_bytes: 2 << 20, ..base.ipc },
        ..base
    };
    let (mut a, mut b) = (party(&config), party(&config));
    let source = a.source("px");
    b.receiver("px");
    meet(&mut a, source, &mut b);
    for i in 0..messages {
        a.context
            .send(source, &[&i.to_be_bytes(), &[7; 2_000]])
            .expect("a source that sets the pace never waits");
    }
    a.context.send(source, &[b"last"]).expect("there is room");
    until(&mut [&mut a, &mut b], |p| p[1].heard.payloads.last().is_some_and(|bytes| bytes == b"last"));
    let (heard, next) = (&b.heard, b.heard.next());
    let first = heard.begun.expect("it has begun");
    assert!(heard.lost > 0 && heard.bursts > 0, "{} lost, {} bursts", heard.lost, heard.bursts);
    assert_eq!(
        heard.payloads.len() as u32 + heard.lost,
        next.0 - first.0,
        "delivered and lost are what was sent"
    );
    (a, b)
}

#[test]
fn a_tcp_receiver_that_is_passed_over_is_told_what_it_lost() {
    let (a, b) = pass_over(Transport::Tcp, 1, 50_000);
    assert_eq!(a.counters.tcp_source.lbm_msgs_passed_over.get(), u64::from(b.heard.lost));
    assert!(b.counters.tcp_receiver.bytes_rcved.get() > 1_000_000);
}

#[test]
fn a_receiver_of_shared_memory_that_is_lapped_is_told_what_it_lost() {
    pass_over(Transport::LbtIpc, 2, 5_000);
}

#[test]
fn a_source_is_told_who_comes_and_goes_and_refuses_more_than_it_may_have() {
    let base = config(3);
    let config = MessagingConfig {
        transport: Transport::Tcp,
        tcp: TcpConfig { maximum_clients: 1, ..base.tcp },
        ..base
    };
    let (mut a, mut b) = (party(&config), party(&config));
    let source = a.source("px");
    let other = a.source("py");
    b.receiver("px");
    meet(&mut a, source, &mut b);
    let come = |p: &Party| {
        p.heard.events.iter().filter(|(_, e)| matches!(e, SourceEvent::ReceiverConnected(_))).count()
    };
    assert_eq!(come(&a), 2, "each source of the session is told");
    assert!(a.heard.events.iter().any(|(of, _)| *of == other));
    assert_eq!(a.counters.tcp_source.num_clients.get(), 1);
    let mut c = party(&config);
    c.receiver("px");
    until(&mut [&mut a, &mut b, &mut c], |p| {
        p[0].counters.tcp_source.clients_refused.get() > 0
            && p[2].counters.tcp_receiver.sessions_broken.get() > 0
    });
    assert_eq!(c.heard.ends[0].reason, EndReason::Broken);
    drop(c);
    drop(b);
    let gone =
        |p: &Party| p.heard.events.iter().any(|(_, e)| matches!(e, SourceEvent::ReceiverDisconnected(_)));
    until(&mut [&mut a], |p| gone(p[0]));
    assert_eq!((a.counters.tcp_source.num_clients.get(), a.counters.tcp_source.clients_lost.get()), (0, 1));
}

#[test]
fn the_slowest_receiver_of_a_tcp_session_sets_the_pace_unless_the_source_does() {
    let config = MessagingConfig { transport: Transport::Tcp, ..config(4) };
    let (mut a, mut fast, mut slow) = (party(&config), party(&config), party(&config));
    let source = a.source("px");
    fast.receiver("px");
    slow.receiver("px");
    meet(&mut a, source, &mut fast);
    meet(&mut a, source, &mut slow);
    let mut sent = 0;
    while let Ok(_) | Err(SendError::TooLong { .. }) = a.context.send(source, &[&[7; 2_000]]) {
        sent += 1;
        fast.turn();
        assert!(sent < 1_000_000, "it never blocks");
    }
    assert!(a.counters.tcp_source.bytes_buffered.get() > 100_000);
    until(&mut [&mut a, &mut fast, &mut slow], |p| p[2].heard.payloads.len() > sent);
    assert_eq!((fast.heard.lost, slow.heard.lost), (0, 0));
}

#[test]
fn bytes_that_are_no_messages_end_a_tcp_session() {
    let config = MessagingConfig { transport: Transport::Tcp, ..config(5) };
    let mut b = party(&config);
    b.receiver("px");
    // A source whose port is somebody else's: what comes from there is no LBMC.
    let listener = net::tcp::listen("127.0.0.1:0".parse().expect("an address")).expect("a port is free");
    let std::net::SocketAddr::V4(address) = listener.local_addr().expect("bound") else { unreachable!() };
    advertise(
        &config,
        lbt::resolution::TransportSession::Tcp { address, session_id: Some(7) },
        &mut b,
        |b| {
            while let Ok(Some((stream, _))) = net::tcp::accept(&listener) {
                net::tcp::write(&stream, b"HTTP/1.1 400 Bad Request\r\n\r\n").expect("connected");
                // Kept open: it is the bytes that end the session.
                std::mem::forget(stream);
            }
            b.counters.tcp_receiver.sessions_malformed.get() > 0 && !b.heard.ends.is_empty()
        },
    );
}

/// Tells a process of this program that it is to be the source that dies, and by which number.
const DOOMED: &str = "TICKCAST_TEST_DOOMED_SESSION";

#[test]
fn a_session_of_shared_memory_whose_source_dies_is_over() {
    let config = config(6);
    let mut b = party(&config);
    b.receiver("px");
    let session_id = 0x5eed_0000 | std::process::id();
    let mut doomed = Command::new(std::env::current_exe().expect("it runs"))
        .args(["--exact", "the_source_that_is_killed", "--ignored", "--nocapture"])
        .env(DOOMED, session_id.to_string())
        .stdout(Stdio::piped())
        .spawn()
        .expect("this program");
    let lines = BufReader::new(doomed.stdout.take().expect("piped")).lines();
    assert!(lines.map_while(Result::ok).any(|line| line.contains("it is there")), "it has failed");
    let session =
        lbt::resolution::TransportSession::Ipc { host_id: host_id_of(&config), session_id, transport_id: 9 };
    advertise(&config, session, &mut b, |b| {
        if !b.heard.sources.is_empty() {
            // Once it is dead that is refused.
            let _ = doomed.kill();
        }
        b.counters.context.ipc_sessions_broken.get() > 0 && !b.heard.ends.is_empty()
    });
    doomed.wait().expect("it was started");
    assert_eq!(b.heard.ends[0].reason, EndReason::Broken);
}

#[test]
#[ignore = "a part of a_session_of_shared_memory_whose_source_dies_is_over, in a process of its own"]
fn the_source_that_is_killed() {
    let Ok(number) = std::env::var(DOOMED) else { return };
    let name = net::shm::SessionName { session_id: number.parse().expect("a number"), transport_id: 9 };
    let _ring = net::shm::Source::create(name, &net::shm::SourceOptions::default()).expect("there is room");
    println!("it is there");
    std::thread::sleep(WATCHDOG);
}

#[test]
fn a_session_of_shared_memory_that_ends_in_order_is_heard_to_its_end_and_is_not_broken() {
    let config = MessagingConfig { transport: Transport::LbtIpc, ..config(30) };
    // A context that is dropped without being ended tells no topic's end; its ring is closed all the same.
    for is_ended in [true, false] {
        let (mut a, mut b) = (party(&config), party(&config));
        let source = a.source("px");
        b.receiver("px");
        meet(&mut a, source, &mut b);
        for i in 0..50_000_u32 {
            a.context.send(source, &[&i.to_be_bytes()]).expect("there is room");
        }
        a.context.flush();
        if is_ended {
            a.context.end();
        }
        drop(a);
        until(&mut [&mut b], |p| !p[0].heard.ends.is_empty());
        assert_eq!(b.heard.payloads.last().map(Vec::as_slice), Some(&49_999_u32.to_be_bytes()[..]));
        assert_eq!((b.heard.lost, b.heard.ends[0].reason), (0, EndReason::Ended));
        assert_eq!(b.counters.context.ipc_sessions_broken.get(), 0);
    }
}

#[test]
fn a_session_of_shared_memory_that_cannot_wake_its_receiver_is_counted_and_heard() {
    // The ring's name has room in a path, that of a socket beside it has none.
    let name = format!("tickcast-{}-{}", std::process::id(), "deep".repeat(20));
    let directory = std::path::Path::new("/dev/shm").join(name);
    std::fs::create_dir(&directory).expect("/dev/shm is there");
    let ipc_directory = directory.to_str().expect("text").to_owned();
    let base = config(31);
    let config = MessagingConfig {
        transport: Transport::LbtIpc,
        ipc: IpcConfig { directory: ipc_directory, ..base.ipc },
        ..base
    };
    let (mut a, mut b) = (party(&config), party(&config));
    let source = a.source("px");
    b.receiver("px");
    meet(&mut a, source, &mut b);
    assert_eq!(b.counters.context.ipc_bells_failed.get(), 1);
    drop((a, b));
    std::fs::remove_dir_all(&directory).expect("it is ours");
}

#[test]
fn answers_to_a_process_that_is_gone_are_counted() {
    let config = config(32);
    let (mut a, mut b) = (party(&config), party(&config));
    let source = a.source("px");
    b.receiver("px");
    meet(&mut a, source, &mut b);
    a.context.request(source, &[b"who?"]).expect("there is room");
    until(&mut [&mut a, &mut b], |p| !p[1].heard.asked.is_empty());
    drop(a);
    b.context.respond(b.heard.asked[0], b"I").expect("it is not known yet");
    until(&mut [&mut b], |p| p[0].counters.context.answer_connections_failed.get() == 1);
}

#[test]
fn answers_to_a_requester_that_is_gone_are_not_taken_for_those_to_the_next_one() {
    let config = config(36);
    let (mut a, mut b) = (party(&config), party(&config));
    let source = a.source("px");
    b.receiver("px");
    meet(&mut a, source, &mut b);
    a.context.request(source, &[b"who?"]).expect("there is room");
    until(&mut [&mut a, &mut b], |p| !p[1].heard.asked.is_empty());
    let Asked { index, address } = b.heard.asked[0];
    drop(a);
    let same_port = MessagingConfig {
        request_tcp_port_low: address.port(),
        request_tcp_port_high: address.port(),
        ..config
    };
    let mut a = party(&same_port);
    let source = a.source("px");
    let own = a.context.request(source, &[b"who else?"]).expect("the port is free again");
    assert_ne!(own, RequestId(index), "the first number is drawn");
    b.context.respond(b.heard.asked[0], b"late").expect("somebody is there");
    until(&mut [&mut a, &mut b], |p| p[0].counters.context.responses_unknown.get() == 1);
    assert_eq!(a.heard.responses, [[0; 0]; 0]);
}

#[test]
fn answers_to_a_requester_that_stands_still_are_whole_up_to_some_and_then_refused_until_it_has_read_them() {
    let config = MessagingConfig { request_tcp_send_buffer_maximum_bytes: 1 << 20, ..config(37) };
    let (mut a, mut b) = (party(&config), party(&config));
    let source = a.source("px");
    b.receiver("px");
    meet(&mut a, source, &mut b);
    a.context.request(source, &[b"who?"]).expect("there is room");
    until(&mut [&mut a, &mut b], |p| !p[1].heard.asked.is_empty());
    let asked = b.heard.asked[0];
    // It connects and answers while the other one does nothing but to take the connection.
    b.context.respond(asked, b"first").expect("somebody is there");
    until(&mut [&mut a, &mut b], |p| !p[0].heard.responses.is_empty());
    let (patience, mut sent) = (Patience::new(), 0_u32);
    let refused = loop {
        assert!(patience.lasts(), "answers are taken for ever");
        match b.context.respond(asked, &[&sent.to_be_bytes()[..], &[7; 50_000]].concat()) {
            Ok(()) => sent += 1,
            Err(error) => break error,
        }
        b.turn();
    };
    assert_eq!(refused.kind(), ErrorKind::ConnectionAborted);
    assert!(refused.to_string().contains(&asked.address.to_string()), "{refused}");
    assert_eq!(b.counters.context.request_connections_unread.get(), 1);
    for _ in 0..100 {
        b.turn();
        b.context.respond(asked, b"more").expect_err("it has still not read");
    }
    until(&mut [&mut a, &mut b], |p| p[0].counters.context.requests_open.get() == 0);
    let numbers = a.heard.responses[1..].iter().map(|r| u32::from_be_bytes(*r.first_chunk().expect("4")));
    assert!(numbers.eq(0..a.heard.responses.len() as u32 - 1), "in order, without holes");
    // It reads again, and is answered again.
    until(&mut [&mut a, &mut b], |p| p[1].context.respond(asked, b"more").is_ok());
    a.context.request(source, &[b"who?"]).expect("there is room");
    until(&mut [&mut a, &mut b], |p| p[1].heard.asked.len() == 2);
    b.context.respond(b.heard.asked[1], b"again").expect("somebody is there");
    until(&mut [&mut a, &mut b], |p| p[0].heard.responses.last().is_some_and(|last| last == b"again"));
}

#[test]
fn what_was_advertised_before_a_session_ended_does_not_have_it_found_again() {
    let all = [Transport::LbtRm, Transport::LbtRu, Transport::Tcp, Transport::LbtIpc];
    for (test, transport) in (32..).zip(all) {
        let config = MessagingConfig { transport, ..config(test) };
        let group =
            std::net::SocketAddrV4::new(config.resolver.multicast_address, config.resolver.multicast_port);
        let tap = UdpSocket::multicast_receiver(group, LOOPBACK).expect("free");
        let sender =
            UdpSocket::multicast_sender("127.0.0.1:0".parse().expect("an address"), LOOPBACK).expect("free");
        let mut b = party(&config);
        b.receiver("px");
        let mut a = party(&config);
        let source = a.source("px");
        meet(&mut a, source, &mut b);
        a.context.end();
        drop(a);
        until(&mut [&mut b], |p| !p[0].heard.ends.is_empty());
        assert_eq!(b.heard.ends[0].reason, EndReason::Ended, "{transport:?}");
        let (mut batch, mut under_way) = (ReceiveBatch::new(16), Vec::<Vec<u8>>::new());
        loop {
            let received = tap.receive(&mut batch).expect("loopback");
            if received.is_empty() {
                break;
            }
            under_way.extend(received.datagrams().map(|(_, datagram)| datagram.to_vec()));
        }
        let before = b.counters.resolver.records_of_ended.get();
        for datagram in &under_way {
            sender.send_run(group, datagram, datagram.len()).expect("loopback");
        }
        until(&mut [&mut b], |p| p[0].counters.resolver.records_of_ended.get() > before);
        assert_eq!(b.heard.sources.len(), 1, "{transport:?}: it is found once");
        let mut again = party(&config);
        let source = again.source("px");
        b.heard.forget();
        meet(&mut again, source, &mut b);
        assert_eq!(b.heard.sources.len(), 2, "{transport:?}: one that is started again is another one");
    }
}

/// The number by which this host is known, as a source of shared memory advertises it.
fn host_id_of(config: &MessagingConfig) -> u32 {
    let mut a = party(&MessagingConfig { transport: Transport::LbtIpc, ..config.clone() });
    let source = a.source("other");
    match a.context.source_transport(source) {
        Some(lbt::resolution::TransportSession::Ipc { host_id, .. }) => host_id,
        other => panic!("{other:?}"),
    }
}

/// Advertises a source of topic `px` that is not one of a context, until `done`.
fn advertise(
    config: &MessagingConfig,
    session: lbt::resolution::TransportSession,
    to: &mut Party,
    mut done: impl FnMut(&Party) -> bool,
) {
    let counters = std::sync::Arc::default();
    let mut resolver =
        lbt::resolution::Resolver::new(&config.resolver(), clock::monotonic(), counters).expect("allowed");
    let record = lbt::resolution::SourceRecord {
        topic_index: 1,
        session,
        request: None,
        late_join: None,
        origin: None,
    };
    resolver.advertise(clock::monotonic(), "px", record).expect("a legal name");
    let socket =
        UdpSocket::multicast_sender("127.0.0.1:0".parse().expect("an address"), LOOPBACK).expect("free");
    let group =
        std::net::SocketAddrV4::new(config.resolver.multicast_address, config.resolver.multicast_port);
    let patience = Patience::new();
    while !done(to) {
        assert!(patience.lasts(), "hangs");
        while let Some(datagram) = resolver.poll_transmit(clock::monotonic()) {
            socket.send_run(group, datagram, datagram.len()).expect("loopback");
        }
        to.turn();
    }
}

const LOOPBACK: MulticastOptions =
    MulticastOptions { interface: Ipv4Addr::LOCALHOST, ttl: 0, buffer_bytes: 1 << 20 };

#[test]
fn topics_of_a_range_of_groups_have_sessions_of_their_own() {
    let mut config = config(7);
    let base = config.lbtrm.multicast_address.to_bits();
    config.lbtrm.multicast_address_low = Some(Ipv4Addr::from_bits(base));
    config.lbtrm.multicast_address_high = Some(Ipv4Addr::from_bits(base + 3));
    config.lbtrm.transmission_window_size_bytes = 1 << 20;
    let (mut a, mut b) = (party(&config), party(&config));
    let topics: Vec<String> = (0..12).map(|i| format!("px.{i}")).collect();
    let sources: Vec<Source> = topics.iter().map(|topic| a.source(topic)).collect();
    let mut sessions: Vec<String> =
        sources.iter().map(|s| a.context.source_transport(*s).expect("it exists").to_string()).collect();
    sessions.sort_unstable();
    sessions.dedup();
    assert_eq!(sessions.len(), 4, "{sessions:?}");
    b.receiver(&topics[5]);
    meet(&mut a, sources[5], &mut b);
    let before = b.counters.context.unknown_datagrams.get();
    for source in &sources {
        a.context.send(*source, &[b"to its own"]).expect("there is room");
    }
    until(&mut [&mut a, &mut b], |p| p[1].heard.payloads.last().is_some_and(|bytes| bytes == b"to its own"));
    assert_eq!(b.counters.context.unknown_datagrams.get(), before, "groups of other topics are not joined");
}

#[test]
fn rules_say_which_transport_a_topic_has() {
    let rule = |text: &str| text.parse().expect("a rule");
    let config = MessagingConfig {
        source_transport: vec![rule("px.fast = lbtipc"), rule("px.* = tcp")],
        transport: Transport::LbtRu,
        ..config(8)
    };
    let mut a = party(&config);
    let mut transport = |topic: &str| {
        let source = a.source(topic);
        a.context.source_transport(source).expect("it exists").to_string()
    };
    assert!(transport("px.fast").starts_with("LBT-IPC:"));
    assert!(transport("px.eq").starts_with("TCP:"));
    assert!(transport("orders").starts_with("LBT-RU:"));
}

#[test]
fn contexts_find_each_other_through_a_unicast_resolver() {
    let address = "127.0.0.1:0".parse().expect("an address");
    let socket = UdpSocket::multicast_sender(address, LOOPBACK).expect("a port is free");
    let daemon = socket.local_address().expect("bound");
    let base = config(9);
    let config = MessagingConfig {
        resolver: TopicResolutionConfig { unicast_daemon: vec![daemon], ..base.resolver },
        ..base
    };
    let (mut a, mut b) = (party(&config), party(&config));
    let source = a.source("px");
    b.receiver("px");
    let relay_config = RelayConfig {
        resolver_unicast_client_port_low: 30_000,
        resolver_unicast_client_port_high: 45_000,
        ..RelayConfig::default()
    };
    let counters = std::sync::Arc::default();
    let mut relay = Relay::new(&relay_config, clock::monotonic(), counters).expect("allowed");
    let mut batch = ReceiveBatch::new(4);
    let patience = Patience::new();
    while b.heard.payloads.is_empty() {
        assert!(patience.lasts(), "they do not find each other");
        let now = clock::monotonic();
        for (from, datagram) in socket.receive(&mut batch).expect("bound").datagrams() {
            let relayed = relay.on_datagram(now, from, datagram, |client| {
                socket.send_run(client, datagram, datagram.len()).expect("loopback");
            });
            relayed.expect("contexts send what is legal");
        }
        a.context.send(source, &[b"hello"]).expect("there is room");
        a.turn();
        b.turn();
    }
    assert_eq!(b.heard.sources.len(), 1);
}

#[test]
fn a_tcp_session_is_encrypted_by_configuration_and_certificates_are_checked() {
    let file = certificate;
    let base = config(10);
    let source_side = MessagingConfig {
        transport: Transport::Tcp,
        tcp: TcpConfig {
            tls_certificate_file: file("server.pem"),
            tls_key_file: file("server.key"),
            ..base.tcp
        },
        ..base
    };
    let base = config(10);
    let trusting = MessagingConfig { tcp: TcpConfig { tls_ca_file: file("ca.pem"), ..base.tcp }, ..base };
    let base = config(10);
    let wary = MessagingConfig { tcp: TcpConfig { tls_ca_file: file("other-ca.pem"), ..base.tcp }, ..base };
    let (mut a, mut b, mut c) = (party(&source_side), party(&trusting), party(&wary));
    let source = a.source("px");
    b.receiver("px");
    c.receiver("px");
    meet(&mut a, source, &mut b);
    let message = |i: u32| [&i.to_be_bytes()[..], &vec![i as u8; (i * 997 % 100_000) as usize]].concat();
    b.heard.payloads.clear();
    let mut sent = 0;
    let patience = Patience::new();
    let (source_counters, refused) = (a.counters.tcp_source.clone(), c.counters.tcp_receiver.clone());
    let is_told =
        || [&source_counters.certificate_failures, &refused.certificate_failures].iter().all(|c| c.get() > 0);
    while b.heard.payloads.len() < 300 || !is_told() {
        assert!(patience.lasts(), "{} messages", b.heard.payloads.len());
        while sent < 300 && a.context.send(source, &[&message(sent)]).is_ok() {
            sent += 1;
        }
        [&mut a, &mut b, &mut c].into_iter().for_each(Party::turn);
    }
    let got: Vec<_> = b.heard.payloads.iter().filter(|bytes| *bytes != b"hello").collect();
    assert!(got.iter().zip(0..).all(|(bytes, i)| **bytes == message(i)));
    assert!(c.heard.payloads.is_empty(), "who does not trust the certificate hears nothing");
    assert_eq!(refused.sessions_broken.get(), refused.certificate_failures.get());
    assert_eq!(b.counters.tcp_receiver.certificate_failures.get(), 0);
}

#[test]
fn what_the_kernel_drops_for_want_of_room_is_counted_and_repaired() {
    for (test, transport) in [(40, Transport::LbtRm), (41, Transport::LbtRu)] {
        let base = config(test);
        let config = MessagingConfig {
            transport,
            lbtrm: LbtrmConfig { receiver_socket_buffer_bytes: 65_536, ..base.lbtrm },
            ..base
        };
        let (mut a, mut b) = (party(&config), party(&config));
        b.receiver("px");
        let source = a.source("px");
        meet(&mut a, source, &mut b);
        assert_eq!(b.counters.context.datagrams_dropped_by_kernel.get(), 0, "{transport:?}");
        // Four times as much as there is room for, while the receiver looks elsewhere.
        let told = b.heard.payloads.len();
        for number in 0..500_u32 {
            while a.context.send(source, &[&number.to_be_bytes(), &[0; 1_000]]).is_err() {
                a.turn();
            }
            a.context.flush();
        }
        until(&mut [&mut a, &mut b], |p| p[1].heard.payloads.len() >= told + 500);
        assert_eq!(b.heard.lost, 0, "{transport:?}");
        until(&mut [&mut a, &mut b], |p| p[1].counters.context.datagrams_dropped_by_kernel.get() > 0);
    }
}

//! Who gets in where TLS and certificates of both ends are asked for: TCP sessions, and direct connections. That
//! everything else works the same there is in `tests/conformance` (`tcp_with_certificates` and its like).

mod common;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use net::{Poller, clock};
use testkit::watchdog::WATCHDOG;
use tickcast_messaging::{Context, ContextCounters, MessagingConfig, SecurityEvent, TcpConfig, Transport};
use units::Nanos;

use common::{Party, Patience, certificate, certified, config, meet, party, until};

/// A process that shows another certificate, or none.
fn showing(test: u8, name: Option<&str>) -> MessagingConfig {
    let file = |end: &str| name.and_then(|name| certificate(&format!("{name}.{end}")));
    let base = certified(config(test));
    MessagingConfig {
        transport: Transport::Tcp,
        tcp: TcpConfig {
            tls_client_certificate_file: file("pem"),
            tls_client_key_file: file("key"),
            ..base.tcp
        },
        ..base
    }
}

#[test]
fn a_source_that_asks_for_certificates_is_heard_by_who_shows_a_good_one() {
    let mut source_side = party(&showing(1, Some("client")));
    let mut good = party(&showing(1, Some("client")));
    let mut strangers = [party(&showing(1, Some("stranger"))), party(&showing(1, None))];
    let source = source_side.source("px");
    for receiving in [&mut good].into_iter().chain(&mut strangers) {
        receiving.receiver("px");
    }
    meet(&mut source_side, source, &mut good);
    let patience = Patience::new();
    let refused = |p: &Party| p.counters.tcp_receiver.certificate_failures.get() > 0;
    let told = source_side.counters.tcp_source.clone();
    while !strangers.iter().all(refused) || told.certificate_failures.get() < 2 {
        assert!(patience.lasts(), "both ends of a refused session count it");
        source_side.context.send(source, &[b"secret"]).expect("there is room");
        [&mut source_side, &mut good].into_iter().chain(&mut strangers).for_each(Party::turn);
    }
    assert!(strangers.iter().all(|p| p.heard.payloads.is_empty()), "nothing is sent before the certificate");
    assert_eq!(good.counters.tcp_receiver.certificate_failures.get(), 0);
    let texts = |p: &Party| p.heard.security.iter().map(|(_, text)| text.clone()).collect::<Vec<_>>();
    let all = [&source_side].into_iter().chain(&strangers).map(texts);
    for texts in all {
        assert!(texts.iter().any(|text| text.contains("127.0.0.1")), "who and why is told: {texts:?}");
    }
}

#[test]
fn a_request_port_that_asks_for_certificates_takes_who_shows_a_good_one() {
    let mut server = party(&showing(2, Some("client")));
    let port = server.context.listen().expect("a port is free");
    let table = [(Some("client"), true), (Some("stranger"), false), (None, false)];
    for (name, is_good) in table {
        let mut client = party(&showing(2, name));
        let failed = server.counters.context.handshakes_failed.get();
        let id = client.context.connect(port).expect("it is near");
        until(&mut [&mut server, &mut client], |p| match is_good {
            true => !p[0].heard.accepted.is_empty() && !p[1].heard.connected.is_empty(),
            false => p[0].counters.context.handshakes_failed.get() > failed && !p[1].heard.closed.is_empty(),
        });
        if is_good {
            assert_eq!(client.heard.connected, [id]);
            continue;
        }
        let (closed, reason) = &client.heard.closed[0];
        assert_eq!(*closed, id);
        assert!(reason.contains("certificate"), "{name:?}: {reason}");
        assert_eq!(client.counters.context.certificate_failures.get(), 1, "{name:?}");
    }
    until(&mut [&mut server], |p| p[0].heard.security.len() == 2);
    assert!(server.heard.security.iter().all(|(what, _)| *what == SecurityEvent::CertificateRefused));
    assert_eq!(server.heard.accepted.len(), 1, "the application hears of who got in alone");
    assert_eq!(server.counters.context.certificate_failures.get(), 2);
    assert!(server.heard.closed.iter().all(|(id, _)| server.heard.accepted.contains(id)));
}

#[test]
fn a_request_port_of_an_unknown_authority_is_not_talked_to() {
    let mut server = party(&showing(3, Some("client")));
    let port = server.context.listen().expect("a port is free");
    let base = config(3);
    let wary =
        MessagingConfig { tcp: TcpConfig { tls_ca_file: certificate("other-ca.pem"), ..base.tcp }, ..base };
    let mut client = party(&MessagingConfig { request_tcp_tls: true, ..wary });
    let id = client.context.connect(port).expect("it is near");
    client.context.send_direct(id, b"secret");
    until(&mut [&mut server, &mut client], |p| {
        !p[1].heard.closed.is_empty() && p[0].counters.context.handshakes_failed.get() == 1
    });
    assert!(client.heard.connected.is_empty());
    assert!(client.heard.closed[0].1.contains("certificate"), "{:?}", client.heard.closed);
    assert_eq!(client.counters.context.certificate_failures.get(), 1);
}

#[test]
fn who_does_not_speak_tls_or_nothing_at_all_is_let_go() {
    let mut server = party(&showing(4, Some("client")));
    let port = server.context.listen().expect("a port is free");
    let mut plain = party(&config(4));
    let id = plain.context.connect(port).expect("it is near");
    plain.context.send_direct(id, b"in clear");
    until(&mut [&mut server, &mut plain], |p| !p[1].heard.closed.is_empty());
    until(&mut [&mut server], |p| p[0].counters.context.handshakes_failed.get() == 1);

    let mut silent = TcpStream::connect(SocketAddr::V4(port)).expect("it listens");
    silent.set_read_timeout(Some(WATCHDOG)).expect("a legal time");
    // The time that a handshake may take is over, from when it was accepted on.
    let mut rounds = 0;
    until(&mut [&mut server], |p| {
        rounds += 11;
        p[0].context.on_wakeup(clock::monotonic() + Duration::from_secs(rounds), &mut ());
        p[0].counters.context.handshakes_failed.get() == 2
    });
    let told = silent.read_to_end(&mut Vec::new());
    assert!(told.is_ok_and(|count| count < 100), "the end follows an alert of TLS");
    assert!(server.heard.accepted.is_empty() && server.heard.closed.is_empty());
}

/// A thread with a poller of its own, whose turns have one time each.
#[test]
fn many_who_have_proved_nothing_take_a_bounded_part_of_a_turn() {
    const MANY: u64 = 100;
    const IN_A_TURN: u64 = 16;
    let mut poller = Poller::new().expect("there are descriptors");
    let counters = ContextCounters::default();
    let failed = counters.context.clone();
    let mut server =
        Context::new(&showing(6, Some("client")), poller.registrar(), 0, 2, clock::monotonic(), counters)
            .expect("loopback is there");
    let port = server.listen().expect("a port is free");
    let connect = |_| {
        let mut stranger = TcpStream::connect(SocketAddr::V4(port)).expect("it listens");
        stranger.write_all(b"GET / HTTP/1.1\r\n\r\n").expect("the socket has room");
        stranger
    };
    let strangers: Vec<TcpStream> = (0..MANY).map(connect).collect();
    let (patience, mut turns, mut last) = (Patience::new(), 0, Nanos::ZERO);
    while failed.handshakes_failed.get() < MANY {
        assert!(patience.lasts(), "nobody is left waiting");
        let before = failed.handshakes_failed.get();
        let now = clock::monotonic().max(last + Duration::from_nanos(1));
        for ready in
            poller.wait(Some(Duration::from_millis(1))).expect("the poller works").collect::<Vec<_>>()
        {
            server.on_ready(now, ready, &mut ());
        }
        let of_turn = failed.handshakes_failed.get() - before;
        assert!(of_turn <= IN_A_TURN, "{of_turn} handshakes in a turn");
        turns += u64::from(of_turn > 0);
        last = now;
    }
    assert!(turns >= MANY / IN_A_TURN);
    drop(strangers);
}

#[test]
fn what_is_missing_is_named_when_it_is_needed() {
    let base = config(5);
    let authority_only = MessagingConfig {
        request_tcp_tls: true,
        tcp: TcpConfig { tls_ca_file: certificate("ca.pem"), ..base.tcp },
        ..base
    };
    let mut client = party(&authority_only);
    let error = client.context.listen().expect_err("there is no certificate to show").to_string();
    assert!(error.contains("tcp.tls_certificate_file"), "{error}");
    let base = showing(5, None);
    let certificate_only = MessagingConfig { tcp: TcpConfig { tls_ca_file: None, ..base.tcp }, ..base };
    let mut server = party(&certificate_only);
    let port = server.context.listen().expect("a port is free");
    let error = server.context.connect(port).expect_err("nobody is trusted").to_string();
    assert!(error.contains("tcp.tls_ca_file"), "{error}");

    let load = |text: &str| {
        let text = format!("[messaging]\n{text}");
        MessagingConfig::load(Some(("test.toml", text.as_bytes())), [""; 0])
    };
    let ca = "tcp.tls_ca_file = \"a\"\n";
    let table = [
        ("tcp.tls_client_ca_file = \"a\"", "only who shows a certificate can ask for one"),
        ("tcp.tls_client_key_file = \"a\"", "go together"),
        ("request_tcp_tls = true", "need a certificate, authorities, or both"),
        (
            "tcp.tls_client_certificate_file = \"a\"\ntcp.tls_client_key_file = \"a\"",
            "only to sources of known authorities",
        ),
    ];
    for (text, expected) in table {
        let error = load(text).expect_err(text).to_string();
        assert!(error.contains(expected), "{text}: {error}");
    }
    assert!(load(&format!("{ca}request_tcp_tls = true")).is_ok());
}

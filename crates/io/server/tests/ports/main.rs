//! Ports as clients meet them: plain, encrypted, limited by address.

mod rig;

use std::net::TcpStream;
use std::path::PathBuf;
use std::time::Duration;

use net::Transport;
use net::tls::{ClientFiles, ClientTls};
use rig::{Peer, Rig};
use tickcast_server::TlsConfig;
use tickcast_server::rssl::{Compression, RsslConfig};

fn certificate(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../io/net/testdata/tls").join(name)
}

fn tls_of(certificate_file: PathBuf, key_file: PathBuf) -> TlsConfig {
    TlsConfig {
        port: 0,
        certificate_file: certificate_file.display().to_string(),
        key_file: key_file.display().to_string(),
        ..TlsConfig::default()
    }
}

fn encrypted() -> RsslConfig {
    let tls = tls_of(certificate("server.pem"), certificate("server.key"));
    RsslConfig { tls: Some(tls), ..RsslConfig::default() }
}

fn secured(rig: &Rig) -> Transport {
    let tls = ClientTls::load(&ClientFiles { ca: certificate("ca.pem"), identity: None });
    let socket = rig.connect(rig.listener.tls_address().expect("it is bound").expect("it has one"));
    tls.expect("the file is good").connect(socket, "localhost").expect("a name")
}

#[test]
fn plain_and_encrypted_clients_share_a_service() {
    let mut rig = Rig::new(&encrypted());
    let mut plain =
        Peer::new(Transport::Plain(rig.connect(rig.listener.local_address().expect("it is bound"))));
    let mut private = Peer::new(secured(&rig));
    rig.run(&mut plain, |peer| peer.is_connected);
    rig.run(&mut private, |peer| peer.is_connected);
    for peer in [&mut plain, &mut private] {
        peer.send(b"\0\x08\x05\x06\0\0\0\x07 some message");
        rig.run(peer, |peer| peer.received == [b"\0\x08\x05\x06\0\0\0\x07 some message"]);
    }
    assert_eq!(rig.counters.connections.accepted.get(), 2);
    assert_eq!(rig.counters.listener.tls_handshakes.get(), 1);
    let versions: Vec<_> = rig.listener.connections().map(|c| c.tls_version).collect();
    assert_eq!(versions, [None, Some("TLS 1.3")]);
}

#[test]
fn a_megabyte_each_way_goes_through_an_encrypted_connection() {
    let mut rig = Rig::new(&encrypted());
    let mut peer = Peer::new(secured(&rig));
    rig.run(&mut peer, |peer| peer.is_connected);
    let message: Vec<u8> = (0..1 << 20).map(|at| (at % 253) as u8).collect();
    peer.send(&message);
    rig.run(&mut peer, |peer| !peer.received.is_empty());
    assert!(peer.received == [message], "what came back is not what was sent");
}

#[test]
fn who_speaks_no_tls_on_an_encrypted_port_is_closed_counted_and_told_of() {
    let mut rig = Rig::new(&encrypted());
    let socket = rig.connect(rig.listener.tls_address().expect("it is bound").expect("it has one"));
    let mut peer = Peer::new(Transport::Plain(socket));
    rig.run(&mut peer, |peer| peer.is_closed);
    assert_eq!(rig.counters.listener.tls_unfinished.get(), 1);
    assert_eq!(rig.listener.connection_count(), 0);
    assert!(rig.service.events[0].starts_with("TLS handshake with 127.0.0.1:"), "{:?}", rig.service.events);
}

#[test]
fn a_client_that_stops_in_the_middle_of_its_tls_handshake_is_closed_in_time() {
    let mut rig = Rig::new(&encrypted());
    let _silent = rig.connect(rig.listener.tls_address().expect("it is bound").expect("it has one"));
    while rig.listener.connection_count() == 0 {
        rig.serve();
    }
    rig.now += Duration::from_millis(RsslConfig::default().handshake_timeout_ms.into());
    rig.serve();
    assert_eq!(rig.listener.connection_count(), 0);
    assert_eq!(rig.counters.connections.closed_handshake_timeout.get(), 1);
    assert_eq!(rig.counters.listener.tls_unfinished.get(), 1);
}

#[test]
fn the_same_number_for_both_ports_leaves_only_the_encrypted_one() {
    let port = Rig::new(&RsslConfig::default()).listener.local_address().expect("it is bound").port();
    let mut config = encrypted();
    config.tls.as_mut().expect("it is set").port = port;
    let mut rig = Rig::on(port, &config);
    assert_eq!(rig.listener.tls_address().expect("it is bound").map(|address| address.port()), Some(port));
    let mut peer =
        Peer::new(Transport::Plain(rig.connect(rig.listener.local_address().expect("it is bound"))));
    rig.run(&mut peer, |peer| peer.is_closed);
    let mut peer = Peer::new(secured(&rig));
    rig.run(&mut peer, |peer| peer.is_connected);
}

#[test]
fn a_changed_certificate_is_told_of_and_counted_and_a_bad_one_too() {
    let at = testkit::Folder::new();
    let put = |name: &str, from: &str| {
        std::fs::copy(certificate(from), at.join(name)).expect("a writable place");
        at.join(name)
    };
    let tls = tls_of(put("cert.pem", "server.pem"), put("key.pem", "server.key"));
    let mut rig = Rig::new(&RsslConfig { tls: Some(tls), ..RsslConfig::default() });
    let mut peer = Peer::new(secured(&rig));
    rig.run(&mut peer, |peer| peer.is_connected);
    assert_eq!(rig.counters.listener.certificate_expires.get(), 4_733_510_400, "the beginning of 2120");
    put("key.pem", "renewed.key");
    rig.now = rig.listener.next_wakeup() + Duration::from_secs(2);
    rig.serve();
    assert_eq!(rig.counters.listener.tls_reload_failures.get(), 1);
    assert!(rig.service.events[0].contains("key.pem"), "{:?}", rig.service.events);
    put("cert.pem", "renewed.pem");
    rig.now += Duration::from_secs(2);
    rig.serve();
    assert_eq!(rig.counters.listener.tls_reloads.get(), 1);
    peer.send(b"\0\x08\x05\x06\0\0\0\x07 still here");
    rig.run(&mut peer, |peer| !peer.received.is_empty());
}

#[test]
fn one_address_has_no_more_connections_than_it_may_until_one_is_gone() {
    let config = RsslConfig { connections_per_address_max: 2, ..RsslConfig::default() };
    let mut rig = Rig::new(&config);
    let address = rig.listener.local_address().expect("it is bound");
    let mut open: Vec<TcpStream> = (0..3).map(|_| rig.connect(address)).collect();
    while rig.counters.listener.address_full.get() == 0 {
        rig.serve();
    }
    assert_eq!(rig.listener.connection_count(), 2);
    open.remove(0);
    while rig.listener.connection_count() == 2 {
        rig.serve();
    }
    let mut peer = Peer::new(Transport::Plain(rig.connect(address)));
    rig.run(&mut peer, |peer| peer.is_connected);
    assert_eq!(rig.counters.listener.address_full.get(), 1);
}

fn asking(rig: &Rig, compression: rssl::CompressionType) -> Peer {
    let socket = rig.connect(rig.listener.local_address().expect("it is bound"));
    Peer::of(Transport::Plain(socket), rssl::ClientConfig { compression, ..rssl::ClientConfig::default() })
}

#[test]
fn a_connection_with_compression_says_what_it_saves() {
    for (kind, name) in [(rssl::CompressionType::Zlib, "zlib"), (rssl::CompressionType::Lz4, "lz4")] {
        let mut rig = Rig::new(&RsslConfig::default());
        let mut peer = asking(&rig, kind);
        rig.run(&mut peer, |peer| peer.is_connected);
        let message = [&b"\0\x08\x05\x06\0\0\0\x07"[..], &b"BID 1.25 ASK 1.26 ".repeat(20)].concat();
        for _ in 0..20 {
            peer.send(&message);
        }
        rig.run(&mut peer, |peer| peer.received.len() == 20);
        assert!(peer.received.iter().all(|received| *received == message));
        let info = rig.listener.connections().next().expect("it is open").to_json();
        assert_eq!(info["compression"], name);
        for way in ["received", "sent"] {
            let flow = &info[way];
            assert_eq!(flow["messages"], 20, "{flow}");
            assert_eq!(flow["packed_ratio"], 1.0, "{flow}");
            assert!(flow["compression_ratio"].as_f64() > Some(5.0), "{flow}");
            assert!(flow["clear_bytes"].as_u64() > Some(20 * message.len() as u64), "{flow}");
            assert!(flow["bytes"].as_u64() < Some(2000), "{flow}");
        }
        let sent = info["sent"]["bytes"].as_u64();
        assert_eq!(sent, Some(rig.counters.connections.bytes_out.get()));
        assert!(info["backlog_high_water_bytes"].as_u64() <= info["backlog_limit_bytes"].as_u64());
    }
}

#[test]
fn compression_is_what_the_port_is_configured_for() {
    let none = RsslConfig { compression: Vec::new(), ..RsslConfig::default() };
    let forced = RsslConfig { compression_forced: Some(Compression::Zlib), ..RsslConfig::default() };
    let cases =
        [(none, rssl::CompressionType::Lz4, None), (forced, rssl::CompressionType::None, Some("zlib"))];
    for (config, asked, agreed) in cases {
        let mut rig = Rig::new(&config);
        let mut peer = asking(&rig, asked);
        rig.run(&mut peer, |peer| peer.is_connected);
        let traffic = rig.listener.connections().next().expect("it is open").traffic;
        assert_eq!(traffic.compression, agreed);
    }
}

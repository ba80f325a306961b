//! The handshake: to the byte, in every version, refused, fallen back, bounded.

use std::time::Duration;

use tickcast_rssl::handshake::{ConnectAck, ConnectRequest, KeyExchange, Reply};
use tickcast_rssl::{
    Admission, ClientConfig, CloseReason, CompressionType, ConnectionVersion, Disconnect, HandshakeError,
    PeerError, Refusal, ServerConfig, Text,
};
use units::Nanos;

use crate::support::*;

const GOLDEN_NAK: &[u8] = b"\0\x1c\x01\x02\x08\0\0\x14Connection refused.\0";

fn ack_to(config: ServerConfig, request: &ConnectRequest<'_>) -> Vec<u8> {
    let mut server = server_with(config, &counters());
    let mut bytes = Vec::new();
    request.emit(&mut bytes);
    server.on_bytes(Nanos::ZERO, &bytes, &mut Recorder::default()).expect("a good request");
    take(server.outbound())
}

fn parse_ack(bytes: &[u8], version: ConnectionVersion) -> ConnectAck<'_> {
    match Reply::parse(bytes, version) {
        Ok(Reply::Ack(ack)) => ack,
        other => panic!("no ack: {other:?}"),
    }
}

#[test]
fn the_ack_has_its_fields_at_the_documented_offsets() {
    let ack = ack_to(ServerConfig::default(), &ConnectRequest::new(ConnectionVersion::V14, 30));
    let component = concat!("tickcast ", env!("CARGO_PKG_VERSION")).as_bytes();
    assert_eq!(ack.len(), 48 + component.len());
    assert!(ack.len() < 256);
    assert_eq!(ack[..2], (ack.len() as u16).to_be_bytes());
    assert_eq!(ack[2..22], [1, 1, 10, 0, 0, 0, 0, 9, 0x18, 0, 3, 30, 14, 1, 0, 0, 0, 8, 1, 24]);
    let number = |at: usize| u64::from_be_bytes(*ack[at..].first_chunk().expect("the ack is long enough"));
    assert!((1..1 << 63).contains(&number(22)), "P");
    assert_eq!(number(30), 5, "G");
    assert!(number(38) < number(22), "the server key is a remainder of P");
    assert_eq!(ack[46..48], [component.len() as u8 + 1, component.len() as u8]);
    assert_eq!(&ack[48..], component);
}

#[test]
fn the_longest_ack_is_below_256_bytes() {
    let config = ServerConfig { component_version: "v".repeat(200), ..ServerConfig::default() };
    assert_eq!(ack_to(config, &ConnectRequest::new(ConnectionVersion::V14, 30)).len(), 248);
}

#[test]
fn the_ping_timeout_is_the_proposal_within_the_servers_bounds() {
    for (proposal, granted) in [(0, 20), (1, 20), (20, 20), (33, 33), (60, 60), (61, 60), (255, 60)] {
        let ack = ack_to(ServerConfig::default(), &ConnectRequest::new(ConnectionVersion::V13, proposal));
        assert_eq!(parse_ack(&ack, ConnectionVersion::V13).ping_timeout_s, granted, "{proposal}");
    }
}

#[test]
fn compression_that_is_not_allowed_or_not_known_is_declined() {
    let none = || ServerConfig { compression: Vec::new(), ..ServerConfig::default() };
    let any = ServerConfig::default;
    for (config, compression) in [(none(), 1), (none(), 2), (none(), 0xff), (any(), 4), (any(), 0xfc)] {
        let counters = counters();
        let mut server = server_with(config, &counters);
        let mut bytes = Vec::new();
        ConnectRequest { compression, ..ConnectRequest::new(ConnectionVersion::V12, 30) }.emit(&mut bytes);
        server.on_bytes(Nanos::ZERO, &bytes, &mut Recorder::default()).expect("a good request");
        let ack = take(server.outbound());
        assert_eq!(parse_ack(&ack, ConnectionVersion::V12).compression, CompressionType::None);
        assert_eq!(counters.compression_declined.get(), 1);
    }
}

#[test]
fn the_request_decodes_to_the_configuration() {
    for version in ConnectionVersion::ALL {
        let mut client = client(version, &counters());
        let bytes = take(client.outbound());
        let request = ConnectRequest::parse(&bytes).expect("our own request");
        let component = if version >= ConnectionVersion::V13 {
            concat!("tickcast ", env!("CARGO_PKG_VERSION")).as_bytes()
        } else {
            b""
        };
        let expected = ConnectRequest {
            host: Text::new(b"apphost"),
            ip: Text::new(b"10.1.2.3"),
            component_version: Text::new(component),
            ..ConnectRequest::new(version, 30)
        };
        assert_eq!(request, expected);
        assert_eq!(request.compression, 0);
        assert_eq!(request.key_exchange, version == ConnectionVersion::V14);
    }
}

#[test]
fn both_ends_agree_in_every_version() {
    for (version, name) in ConnectionVersion::ALL.into_iter().zip(["v10", "v11", "v12", "v13", "v14"]) {
        let ends = Ends::connected(version);
        let at_server = &ends.at_server.sessions[0];
        let at_client = &ends.at_client.sessions[0];
        assert_eq!(at_server.negotiated, at_client.negotiated);
        assert_eq!(at_server.negotiated.version, version);
        assert_eq!(at_server.negotiated.ping_timeout, Duration::from_secs(30));
        assert_eq!(at_server.negotiated.shared_key.is_some(), version == ConnectionVersion::V14);
        assert_eq!((at_server.host.as_str(), at_server.ip.as_str()), ("apphost", "10.1.2.3"));
        let named = version >= ConnectionVersion::V13;
        assert_eq!(at_server.component_version.starts_with("tickcast "), named);
        assert_eq!(at_client.component_version.starts_with("tickcast "), named);
        for counters in [&ends.server_counters, &ends.client_counters] {
            let by_version = [
                &counters.handshakes_v10,
                &counters.handshakes_v11,
                &counters.handshakes_v12,
                &counters.handshakes_v13,
                &counters.handshakes_v14,
            ];
            let sum: u64 = by_version.iter().map(|c| c.get()).sum();
            assert_eq!((sum, by_version[usize::from(version.number() - 10)].get()), (1, 1), "{name}");
            assert_eq!((counters.accepted.get(), counters.active.get()), (1, 1));
        }
    }
}

#[test]
fn a_server_sends_nothing_and_tells_nothing_before_the_clients_key() {
    let counters = counters();
    let mut server = server(&counters);
    let mut recorder = Recorder::default();
    server.on_bytes(Nanos::ZERO, &request(ConnectionVersion::V14), &mut recorder).expect("a good request");
    take(server.outbound());
    assert!(server.outbound().push(b"early").is_err());
    assert!(recorder.sessions.is_empty() && server.negotiated().is_none());
    let key_and_message = b"\0\x0c\x08\x08\0\0\0\0\0\0\0\x07\0\x06\x02abc";
    server.on_bytes(Nanos::ZERO, key_and_message, &mut recorder).expect("a good key and a frame behind it");
    assert_eq!(recorder.sessions.len(), 1);
    assert_eq!(recorder.messages, [b"abc"]);
    assert_eq!(counters.key_exchanges.get(), 1);
}

#[test]
fn a_client_without_a_key_is_accepted() {
    let counters = counters();
    let mut server = server(&counters);
    let mut recorder = Recorder::default();
    server.on_bytes(Nanos::ZERO, &request(ConnectionVersion::V14), &mut recorder).expect("a good request");
    server.on_bytes(Nanos::ZERO, b"\0\x04\x08\0", &mut recorder).expect("a key message without a key");
    assert_eq!(recorder.sessions[0].negotiated.shared_key, None);
    assert_eq!((counters.accepted.get(), counters.key_exchanges.get()), (1, 0));
}

#[test]
fn a_client_answers_an_unknown_key_exchange_without_a_key() {
    let mut ack = ack_to(ServerConfig::default(), &ConnectRequest::new(ConnectionVersion::V14, 30));
    ack[20] = 9;
    let mut client = client(ConnectionVersion::V14, &counters());
    take(client.outbound());
    client.on_bytes(Nanos::ZERO, &ack, &mut Recorder::default()).expect("an ack with another key exchange");
    assert_eq!(take(client.outbound()), b"\0\x04\x08\0");
}

#[test]
fn version_14_without_key_exchange_is_active_with_the_ack() {
    let request = ConnectRequest { key_exchange: false, ..ConnectRequest::new(ConnectionVersion::V14, 30) };
    let ack = ack_to(ServerConfig::default(), &request);
    assert_eq!(parse_ack(&ack, ConnectionVersion::V14).key_exchange, KeyExchange::Absent);
    let mut server = server(&counters());
    let mut bytes = Vec::new();
    request.emit(&mut bytes);
    server.on_bytes(Nanos::ZERO, &bytes, &mut Recorder::default()).expect("a good request");
    assert!(server.negotiated().is_some());
}

#[test]
fn a_refusal_by_the_application_is_the_golden_nak() {
    let counters = counters();
    let mut server = server(&counters);
    let mut recorder = Recorder { admission: Admission::Refuse, ..Recorder::default() };
    let end = server.on_bytes(Nanos::ZERO, &request(ConnectionVersion::V14), &mut recorder);
    assert_eq!(end, Err(CloseReason::Refused(Refusal::Application)));
    assert_eq!(take(server.outbound()), GOLDEN_NAK);
    assert_eq!((counters.naks_sent.get(), counters.closed_refused_application.get()), (1, 1));
    assert_eq!((recorder.requests, counters.accepted.get()), (1, 0));
}

#[test]
fn another_protocol_type_is_refused_without_asking_the_application() {
    let counters = counters();
    let mut server = server(&counters);
    let mut bytes = Vec::new();
    ConnectRequest { protocol_type: 2, ..ConnectRequest::new(ConnectionVersion::V14, 30) }.emit(&mut bytes);
    let mut recorder = Recorder::default();
    let end = server.on_bytes(Nanos::ZERO, &bytes, &mut recorder);
    assert_eq!(end, Err(CloseReason::Refused(Refusal::ProtocolType(2))));
    assert_eq!(take(server.outbound()), GOLDEN_NAK);
    assert_eq!((recorder.requests, counters.closed_refused_protocol.get()), (0, 1));
}

#[test]
fn a_nak_ends_the_client_without_an_older_version() {
    let counters = counters();
    let mut client = client(ConnectionVersion::V14, &counters);
    let mut recorder = Recorder::default();
    assert_eq!(client.on_bytes(Nanos::ZERO, GOLDEN_NAK, &mut recorder), Err(CloseReason::Nak));
    assert_eq!(recorder.refused, ["Connection refused."]);
    assert_eq!(client.on_disconnected(Disconnect::EndOfStream), CloseReason::Nak, "the first reason stays");
    assert_eq!(
        (counters.naks_rcved.get(), counters.closed_nak.get(), counters.closed_unanswered.get()),
        (1, 1, 0)
    );
}

#[test]
fn an_unknown_version_is_closed_without_an_answer() {
    for number in [0u32, 0x12, 0x18, u32::MAX] {
        let counters = counters();
        let mut server = server(&counters);
        let mut bytes = request(ConnectionVersion::V14);
        bytes[3..7].copy_from_slice(&number.to_be_bytes());
        let end = server.on_bytes(Nanos::ZERO, &bytes, &mut Recorder::default());
        assert_eq!(end, Err(CloseReason::Peer(HandshakeError::UnknownVersion { number }.into())));
        assert!(take(server.outbound()).is_empty());
        assert_eq!(counters.closed_unknown_version.get(), 1);
    }
}

#[test]
fn a_client_falls_back_through_the_versions_on_new_connections() {
    let counters = counters();
    let mut offered = Vec::new();
    let mut next = Some(ConnectionVersion::V14);
    while let Some(version) = next {
        let mut client = client_with(ClientConfig::default(), version, &counters);
        offered.push(ConnectRequest::parse(&take(client.outbound())).expect("our own request").version);
        let CloseReason::Unanswered { offered, next: lower } =
            client.on_disconnected(Disconnect::EndOfStream)
        else {
            panic!("the server has not answered")
        };
        assert_eq!(offered, version);
        next = lower;
    }
    use ConnectionVersion::{V11, V12, V13, V14};
    assert_eq!(offered, [V14, V13, V12, V11]);
    assert_eq!(counters.closed_unanswered.get(), 4);
}

#[test]
fn half_an_answer_is_no_reason_to_fall_back() {
    let mut client = client(ConnectionVersion::V14, &counters());
    client.on_bytes(Nanos::ZERO, &[0, 89], &mut Recorder::default()).expect("the start of an ack");
    let end = client.on_disconnected(Disconnect::EndOfStream);
    assert_eq!(end, CloseReason::Disconnected(Disconnect::EndOfStream));
}

#[test]
fn other_maximum_message_sizes_are_announced_and_used() {
    for size in [64u16, 100, 1000, 65_532] {
        let config = ServerConfig { message_size_bytes: size, ..ServerConfig::default() };
        let mut ends = Ends::with(config, client_config(), ConnectionVersion::V14);
        ends.exchange().expect("both ends can use the size");
        assert_eq!(ends.at_client.sessions[0].negotiated.message_size_bytes, size);
        let lengths = [1, size as usize - 2, size as usize, size as usize + 1, 70_000];
        for length in lengths {
            ends.client.outbound().push(&message(length, 1)).expect("within the backlog");
            ends.server.outbound().push(&message(length, 2)).expect("within the backlog");
        }
        ends.exchange().expect("no frame is above the limit");
        assert_eq!(ends.at_server.messages, lengths.map(|l| message(l, 1)));
        assert_eq!(ends.at_client.messages, lengths.map(|l| message(l, 2)));
    }
}

#[test]
fn an_ack_that_cannot_be_used_ends_the_client() {
    let good = ack_to(ServerConfig::default(), &ConnectRequest::new(ConnectionVersion::V14, 30));
    let cases: [(usize, u8, HandshakeError); 5] = [
        (9, 8, HandshakeError::AckVersion { number: 8, offered: ConnectionVersion::V14 }),
        (10, 0, HandshakeError::AckMessageSize { bytes: 0, least_bytes: 64, most_bytes: 65_532 }),
        (13, 0, HandshakeError::AckPingTimeout),
        (17, 3, HandshakeError::AckCompression { number: 3 }),
        (16, 1, HandshakeError::AckCompression { number: 256 }),
    ];
    for (at, value, error) in cases {
        let mut ack = good.clone();
        ack[at] = value;
        let mut client = client(ConnectionVersion::V14, &counters());
        let end = client.on_bytes(Nanos::ZERO, &ack, &mut Recorder::default());
        assert_eq!(end, Err(CloseReason::Peer(PeerError::Handshake(error))));
    }
}

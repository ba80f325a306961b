//! Recorded sessions with compression, read by both ends and written anew.

use tickcast_rssl::handshake::{ConnectRequest, Reply};
use tickcast_rssl::{ClientConfig, CompressionType, ServerConfig};
use units::Nanos;

use crate::recorded::{CUTS, Cut, permissive_server, replay, version};
use crate::session_file::{Connection, Content, Direction, load};
use crate::support::*;

/// One of the sessions whose payloads are compressed.
pub(crate) struct Session {
    pub(crate) name: &'static str,
    kind: CompressionType,
    /// Of zlib, as the server announced it.
    level: u8,
    /// A session in clear that has the messages which the list leaves out.
    clear: Option<&'static str>,
}

pub(crate) const COMPRESSED: [Session; 10] = [
    session("zlib", CompressionType::Zlib, 0, Some("plain")),
    session("lz4", CompressionType::Lz4, 0, Some("plain")),
    session("big_zlib", CompressionType::Zlib, 0, Some("big_plain")),
    session("big_lz4", CompressionType::Lz4, 0, Some("big_plain")),
    session("pack1", CompressionType::Zlib, 6, None),
    session("pack2", CompressionType::Lz4, 0, None),
    session("frag1", CompressionType::Zlib, 6, Some("frag0")),
    session("frag2", CompressionType::Lz4, 0, Some("frag0")),
    session("forced1", CompressionType::Zlib, 6, None),
    session("ni_lz4", CompressionType::Lz4, 6, None),
];

const fn session(
    name: &'static str,
    kind: CompressionType,
    level: u8,
    clear: Option<&'static str>,
) -> Session {
    Session { name, kind, level, clear }
}

impl Session {
    fn is_forced(&self) -> bool {
        self.name == "forced1"
    }

    fn server_config(&self) -> ServerConfig {
        let forced = self.is_forced().then_some(self.kind);
        ServerConfig { compression_forced: forced, zlib_level: self.level, ..permissive_server() }
    }

    fn client_config(&self) -> ClientConfig {
        let asked = if self.is_forced() { CompressionType::None } else { self.kind };
        ClientConfig { compression: asked, ..client_config() }
    }

    /// Long messages that the list of this session leaves out, from the session in clear.
    fn long_messages(&self) -> Vec<Vec<u8>> {
        let clear = self.clear.map(load).unwrap_or_default();
        let contents =
            clear.iter().flat_map(|c| [Direction::ToServer, Direction::ToClient].map(|d| c.content(d)));
        contents.flat_map(|content| content.messages()).filter(|message| message.len() > 1000).collect()
    }

    /// Holds what was delivered against the list: every length, every message that is in it, and the long
    /// ones against those of the session in clear.
    fn check(&self, delivered: &[Vec<u8>], content: &Content, what: &str) {
        let lengths: Vec<usize> = content.frames.iter().flat_map(|f| f.lengths.clone()).collect();
        assert_eq!(delivered.iter().map(Vec::len).collect::<Vec<_>>(), lengths, "{what}");
        let mut rest = delivered.iter();
        for listed in content.messages() {
            assert!(rest.any(|message| *message == listed), "{what}: a listed message is missing");
        }
        let known = self.long_messages();
        for message in delivered.iter().filter(|message| message.len() > 1000) {
            assert!(known.contains(message), "{what}: {} bytes differ from {:?}", message.len(), self.clear);
        }
    }
}

fn check_counts(counters: &counters::table::RsslConnections, content: &Content, what: &str) {
    let expanded: Vec<u64> = content.frames.iter().filter_map(|f| f.expanded_bytes).collect();
    assert_eq!(counters.frames_in.get(), content.frames.len() as u64, "{what}");
    assert_eq!(counters.compressed_frames_in.get(), expanded.len() as u64, "{what}");
    assert_eq!(counters.expanded_bytes_in.get(), expanded.iter().sum::<u64>(), "{what}");
    assert_eq!(counters.packed_frames_in.get(), content.count("packed"), "{what}");
    assert_eq!(counters.fragments_in.get(), content.count("fragment_"), "{what}");
}

/// Connections of all sessions with compression, in every cut.
fn each(mut test: impl FnMut(&Session, &Connection, Cut, &str)) {
    for session in &COMPRESSED {
        for connection in load(session.name) {
            for cut in CUTS {
                test(session, &connection, cut, &format!("{} {cut:?}", session.name));
            }
        }
    }
}

#[test]
fn a_server_reads_what_recorded_clients_sent() {
    let mut compressed = 0;
    each(|session, connection, cut, what| {
        let counters = counters();
        let mut server = server_with(session.server_config(), &counters);
        let mut recorder = Recorder::default();
        replay(&mut server, connection, Direction::ToServer, cut, &mut recorder).expect("a recorded session");
        let content = connection.content(Direction::ToServer);
        assert_eq!(recorder.sessions[0].negotiated.compression, session.kind, "{what}");
        session.check(&recorder.messages, &content, what);
        check_counts(&counters, &content, what);
        compressed += counters.compressed_frames_in.get();
        let agreed = if session.kind == CompressionType::Zlib {
            &counters.compression_zlib
        } else {
            &counters.compression_lz4
        };
        assert_eq!((agreed.get(), counters.compression_forced.get()), (1, session.is_forced().into()));
    });
    assert_eq!(compressed, 7 * CUTS.len() as u64, "one each of zlib, big_zlib and ni_lz4, two of each frag");
}

#[test]
fn a_client_reads_what_recorded_servers_sent() {
    let mut split = 0;
    each(|session, connection, cut, what| {
        let counters = counters();
        let mut client = client_with(session.client_config(), version(connection), &counters);
        let mut recorder = Recorder::default();
        replay(&mut client, connection, Direction::ToClient, cut, &mut recorder).expect("a recorded session");
        let content = connection.content(Direction::ToClient);
        assert_eq!(recorder.sessions[0].negotiated.compression, session.kind, "{what}");
        session.check(&recorder.messages, &content, what);
        check_counts(&counters, &content, what);
        split += content.count("compressed_part1");
    });
    assert_eq!(split, 8 * CUTS.len() as u64, "two of big_zlib, three of each frag");
}

#[test]
fn our_server_writes_the_recorded_acks_but_for_the_numbers_it_draws() {
    for session in &COMPRESSED {
        let connection = &load(session.name)[0];
        let recorded = connection.handshake_message("connect_ack").expect("it was accepted");
        let Ok(Reply::Ack(ack)) = Reply::parse(&recorded, version(connection)) else { panic!("no ack") };
        let name = ack.component_version.to_string();
        let config = ServerConfig { component_version: name, ..session.server_config() };
        let mut server = server_with(config, &counters());
        let request = connection.handshake_message("connect_request").expect("it was accepted");
        server.on_bytes(Nanos::ZERO, &request, &mut Recorder::default()).expect("a recorded request");
        let mut written = take(server.outbound());
        // The level is of no meaning for LZ4: the libraries announce what is configured for zlib.
        if session.kind == CompressionType::Lz4 {
            written[18] = recorded[18];
        }
        written[22..30].copy_from_slice(&recorded[22..30]);
        written[38..46].copy_from_slice(&recorded[38..46]);
        assert_eq!(written, recorded, "{}", session.name);
    }
}

#[test]
fn our_client_writes_the_recorded_requests_to_the_byte() {
    for session in &COMPRESSED {
        let connection = &load(session.name)[0];
        let recorded = connection.handshake_message("connect_request").expect("a session starts with it");
        let request = ConnectRequest::parse(&recorded).expect("a recorded request");
        let config = ClientConfig {
            ping_timeout_s: request.ping_timeout_s,
            component_version: request.component_version.to_string(),
            ..session.client_config()
        };
        let mut client = client_with(config, request.version, &counters());
        assert_eq!(take(client.outbound()), recorded, "{}", session.name);
    }
}

/// What our server writes for the messages of a recorded one, flushed as those were.
fn written_anew(session: &Session, connection: &Connection) -> (Vec<u8>, Vec<Vec<u8>>) {
    let mut reader = client_with(session.client_config(), version(connection), &counters());
    let mut recorder = Recorder::default();
    replay(&mut reader, connection, Direction::ToClient, Cut::AsRecorded, &mut recorder).expect("recorded");
    let mut server = server_with(session.server_config(), &counters());
    for kind in ["connect_request", "client_key"] {
        let message = connection.handshake_message(kind).expect("version 14 has both");
        server.on_bytes(Nanos::ZERO, &message, &mut Recorder::default()).expect("a recorded handshake");
    }
    take(server.outbound());
    let mut written = Vec::new();
    let mut messages = recorder.messages.iter();
    for frame in &connection.content(Direction::ToClient).frames {
        if frame.kind == "ping" {
            written.extend_from_slice(b"\0\x03\x02");
        }
        for message in messages.by_ref().take(frame.lengths.len()) {
            server.outbound().push(message).expect("within the backlog");
        }
        written.extend(take(server.outbound()));
    }
    (written, recorder.messages.clone())
}

/// Ids of fragments depend on what came before: they are taken out.
fn without_ids(stream: &[u8]) -> Vec<u8> {
    let mut all = stream.to_vec();
    let mut at = 0;
    while at < all.len() {
        let length = usize::from(u16::from_be_bytes([all[at], all[at + 1]]));
        if all[at + 2] & 1 != 0 {
            let id = at + if all[at + 3] == 8 { 8 } else { 4 };
            all[id..id + 2].fill(0);
        }
        at += length;
    }
    all
}

/// A level of zero leaves zlib no choice.
#[test]
fn our_server_writes_recorded_payloads_of_level_zero_to_the_byte() {
    let is_determined = |s: &&Session| s.kind == CompressionType::Zlib && s.level == 0;
    for session in COMPRESSED.iter().filter(is_determined) {
        let connection = &load(session.name)[0];
        let content = connection.content(Direction::ToClient);
        let recorded = &connection.stream(Direction::ToClient)[content.handshake_bytes..];
        let (written, _) = written_anew(session, connection);
        assert!(without_ids(&written) == without_ids(recorded), "{}", session.name);
    }
}

/// Compressors are free in what they find; what they write must mean the same and be about as long.
#[test]
fn our_server_writes_payloads_that_hold_the_recorded_messages() {
    for session in &COMPRESSED {
        let connection = &load(session.name)[0];
        let content = connection.content(Direction::ToClient);
        let recorded_bytes = connection.stream(Direction::ToClient).len() - content.handshake_bytes;
        let (written, messages) = written_anew(session, connection);
        assert!(written.len() <= recorded_bytes + recorded_bytes / 20, "{}: {}", session.name, written.len());
        let counters = counters();
        let mut client = client_with(session.client_config(), version(connection), &counters);
        let mut recorder = Recorder::default();
        let ack = connection.handshake_message("connect_ack").expect("it was accepted");
        client.on_bytes(Nanos::ZERO, &ack, &mut recorder).expect("a recorded ack");
        client.on_bytes(Nanos::ZERO, &written, &mut recorder).expect("our own payloads");
        assert!(recorder.messages == messages, "{}", session.name);
        let has_long = content.frames.iter().any(|f| f.expanded_bytes.is_some());
        assert_eq!(counters.compressed_frames_in.get() > 0, has_long, "{}", session.name);
    }
}

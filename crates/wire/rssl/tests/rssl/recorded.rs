//! Sessions recorded between the public Java libraries, replayed into both ends.

use std::collections::BTreeSet;
use std::time::Duration;

use tickcast_rssl::handshake::{ConnectRequest, Reply};
use tickcast_rssl::{
    Admission, ClientConfig, CloseReason, ConnectionVersion, Disconnect, Packer, Refusal, ServerConfig,
};
use units::{Nanos, Rng};

use crate::recorded_compressed::COMPRESSED;
use crate::session_file::{Connection, Content, Direction, directory, load};
use crate::support::*;

/// Sessions without compression: replayed to their end.
const CLEAR: [&str; 24] = [
    "big_plain",
    "dict_fragmented",
    "exact0",
    "frag0",
    "login_reject",
    "mbo",
    "nack",
    "ni",
    "notfound",
    "pack0",
    "password_user",
    "ping",
    "plain",
    "post_generic",
    "private",
    "provider_close",
    "reissue_pause",
    "rtt",
    "seqnum_alltypes",
    "snapshot_private",
    "symbollist",
    "view_batch",
    "nak",
    "wrongproto",
];

/// How the bytes are cut for a replay.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Cut {
    AsRecorded,
    ByteByByte,
    Random(u64),
}

pub(crate) const CUTS: [Cut; 5] =
    [Cut::AsRecorded, Cut::ByteByByte, Cut::Random(1), Cut::Random(2), Cut::Random(3)];

impl Cut {
    fn of(self, bytes: &[u8]) -> Vec<Vec<u8>> {
        match self {
            Cut::AsRecorded => vec![bytes.to_vec()],
            Cut::ByteByByte => bytes.iter().map(|&b| vec![b]).collect(),
            Cut::Random(seed) => {
                let mut rng = Rng::new(seed ^ bytes.len() as u64);
                pieces(bytes, Some(&mut rng)).into_iter().map(<[u8]>::to_vec).collect()
            }
        }
    }
}

/// One end, so that both are replayed by the same code.
pub(crate) trait End {
    fn read(&mut self, now: Nanos, bytes: &[u8], recorder: &mut Recorder) -> Result<(), CloseReason>;
    fn wake(&mut self, now: Nanos) -> Result<(), CloseReason>;
    fn wake_at(&self) -> Nanos;
    fn end(&mut self) -> CloseReason;
}

macro_rules! end {
    ($connection:ty) => {
        impl End for $connection {
            fn read(&mut self, now: Nanos, bytes: &[u8], recorder: &mut Recorder) -> Result<(), CloseReason> {
                self.on_bytes(now, bytes, recorder)
            }
            fn wake(&mut self, now: Nanos) -> Result<(), CloseReason> {
                self.on_wakeup(now)
            }
            fn wake_at(&self) -> Nanos {
                self.next_wakeup()
            }
            fn end(&mut self) -> CloseReason {
                self.on_disconnected(Disconnect::EndOfStream)
            }
        }
    };
}

end!(tickcast_rssl::ServerConnection);
end!(tickcast_rssl::ClientConnection);

/// Replays one direction at the recorded times, with the timers running.
pub(crate) fn replay(
    end: &mut impl End,
    connection: &Connection,
    direction: Direction,
    cut: Cut,
    recorder: &mut Recorder,
) -> Result<(), CloseReason> {
    for segment in connection.segments.iter().filter(|s| s.direction == direction) {
        let now = Nanos(segment.at_ms * 1_000_000);
        while end.wake_at() <= now {
            let due = end.wake_at();
            end.wake(due)?;
        }
        for piece in segment.bytes.iter().flat_map(|bytes| cut.of(bytes)) {
            end.read(now, &piece, recorder)?;
        }
        if segment.bytes.is_none() {
            assert_eq!(end.end(), CloseReason::Disconnected(Disconnect::EndOfStream));
            return Ok(());
        }
    }
    Ok(())
}

pub(crate) fn permissive_server() -> ServerConfig {
    // The session "ping" has a timeout of 3 s.
    ServerConfig { ping_timeout_min_s: 1, ..ServerConfig::default() }
}

pub(crate) fn version(connection: &Connection) -> ConnectionVersion {
    ConnectionVersion::from_request(connection.version_number()).expect("a recorded version")
}

fn check_counts(counters: &counters::table::RsslConnections, content: &Content, what: &str) {
    assert_eq!(counters.frames_in.get(), content.frames.len() as u64, "{what}");
    assert_eq!(counters.messages_in.get(), content.messages().len() as u64, "{what}");
    assert_eq!(counters.pings_in.get(), content.count("ping"), "{what}");
    assert_eq!(counters.packed_frames_in.get(), content.count("packed"), "{what}");
    assert_eq!(counters.fragments_in.get(), content.count("fragment_"), "{what}");
    let of_fragments =
        content.frames.iter().filter(|f| f.kind.starts_with("fragment_")).map(|f| f.messages.len());
    assert_eq!(counters.fragmented_messages_in.get(), of_fragments.sum::<usize>() as u64, "{what}");
}

#[test]
fn every_recorded_session_is_replayed() {
    let files: BTreeSet<String> = std::fs::read_dir(directory())
        .expect("the vectors are part of the repository")
        .filter_map(|entry| {
            entry.expect("readable").file_name().to_str()?.strip_suffix(".json").map(str::to_owned)
        })
        .collect();
    let compressed = COMPRESSED.iter().map(|session| session.name);
    let listed: BTreeSet<String> =
        CLEAR.into_iter().chain(compressed).chain(["version_fallback"]).map(str::to_owned).collect();
    assert_eq!(files, listed);
}

#[test]
fn a_server_reads_what_recorded_clients_sent() {
    for name in CLEAR {
        for (connection, cut) in load(name).iter().flat_map(|c| CUTS.map(|cut| (c, cut))) {
            let what = format!("{name} {cut:?}");
            let counters = counters();
            let mut server = server_with(permissive_server(), &counters);
            let refuse = name == "nak";
            let admission = if refuse { Admission::Refuse } else { Admission::Accept };
            let mut recorder = Recorder { admission, ..Recorder::default() };
            let result = replay(&mut server, connection, Direction::ToServer, cut, &mut recorder);
            let content = connection.content(Direction::ToServer);
            match name {
                "nak" => assert_eq!(result, Err(CloseReason::Refused(Refusal::Application))),
                "wrongproto" => assert_eq!(result, Err(CloseReason::Refused(Refusal::ProtocolType(9)))),
                _ => {
                    assert_eq!(result, Ok(()), "{what}");
                    let heard = &recorder.sessions[0];
                    assert_eq!((heard.host.as_str(), heard.ip.as_str()), ("apphost", "10.1.2.3"), "{what}");
                    assert!(heard.component_version.starts_with("etaj3.9.1"), "{what}");
                    assert!(heard.negotiated.shared_key.is_some(), "{what}");
                }
            }
            assert_eq!(recorder.messages, content.messages(), "{what}");
            check_counts(&counters, &content, &what);
        }
    }
}

#[test]
fn a_client_reads_what_recorded_servers_sent() {
    for name in CLEAR {
        for (connection, cut) in load(name).iter().flat_map(|c| CUTS.map(|cut| (c, cut))) {
            let what = format!("{name} {cut:?}");
            let counters = counters();
            let mut client = client(version(connection), &counters);
            let mut recorder = Recorder::default();
            let result = replay(&mut client, connection, Direction::ToClient, cut, &mut recorder);
            let content = connection.content(Direction::ToClient);
            if ["nak", "wrongproto"].contains(&name) {
                assert_eq!(result, Err(CloseReason::Nak), "{what}");
                assert_eq!(recorder.refused, ["Connection refused."]);
                continue;
            }
            assert_eq!(result, Ok(()), "{what}");
            let heard = &recorder.sessions[0];
            assert!(heard.component_version.starts_with("etaj3.9.1"), "{what}");
            assert_eq!(heard.negotiated.message_size_bytes, 6144, "{what}");
            assert_eq!(heard.negotiated.rwf_version, (14, 1), "{what}");
            if name == "ping" {
                assert_eq!(heard.negotiated.ping_timeout, Duration::from_secs(3));
            }
            assert_eq!(recorder.messages, content.messages(), "{what}");
            check_counts(&counters, &content, &what);
        }
    }
}

#[test]
fn our_client_writes_the_recorded_requests_to_the_byte() {
    let mut compared = BTreeSet::new();
    for name in CLEAR.into_iter().chain(["version_fallback"]) {
        for connection in load(name) {
            let recorded =
                connection.handshake_message("connect_request").expect("every session starts with one");
            let request = ConnectRequest::parse(&recorded).expect("a recorded request");
            if request.protocol_type != 0 {
                continue;
            }
            let config = ClientConfig {
                ping_timeout_s: request.ping_timeout_s,
                component_version: request.component_version.to_string(),
                ..client_config()
            };
            let mut client = client_with(config, request.version, &counters());
            assert_eq!(take(client.outbound()), recorded, "{name}");
            compared.insert(request.version);
        }
    }
    use ConnectionVersion::{V11, V12, V13, V14};
    assert_eq!(compared, BTreeSet::from([V11, V12, V13, V14]));
}

#[test]
fn our_server_writes_the_recorded_acks_but_for_the_numbers_it_draws() {
    for name in CLEAR {
        for connection in load(name) {
            let Some(recorded) = connection.handshake_message("connect_ack") else { continue };
            let Ok(Reply::Ack(ack)) = Reply::parse(&recorded, version(&connection)) else { panic!("{name}") };
            let config =
                ServerConfig { component_version: ack.component_version.to_string(), ..permissive_server() };
            let mut server = server_with(config, &counters());
            let request = connection.handshake_message("connect_request").expect("it was acknowledged");
            server.on_bytes(Nanos::ZERO, &request, &mut Recorder::default()).expect("a recorded request");
            let mut written = take(server.outbound());
            // The zlib level of a server that has one configured, though nothing is compressed.
            written[18] = recorded[18];
            written[22..30].copy_from_slice(&recorded[22..30]);
            written[38..46].copy_from_slice(&recorded[38..46]);
            assert_eq!(written, recorded, "{name}");
        }
    }
}

#[test]
fn our_server_writes_the_recorded_naks_to_the_byte() {
    for name in ["nak", "wrongproto"] {
        let connection = &load(name)[0];
        let mut server = server(&counters());
        let mut recorder = Recorder { admission: Admission::Refuse, ..Recorder::default() };
        server
            .on_bytes(Nanos::ZERO, &connection.stream(Direction::ToServer), &mut recorder)
            .expect_err("refused");
        assert_eq!(take(server.outbound()), connection.stream(Direction::ToClient), "{name}");
    }
}

#[test]
fn the_packer_writes_the_recorded_frames_to_the_byte() {
    let mut fragmented = 0;
    for name in CLEAR {
        for connection in load(name) {
            for direction in [Direction::ToServer, Direction::ToClient] {
                let content = connection.content(direction);
                let mut packer = Packer::new(version(&connection), 6144).expect("the usual size");
                let mut written = Vec::new();
                let mut recorded = Vec::new();
                let mut next_id = 1;
                for frame in content.frames.iter().filter(|f| f.kind != "ping") {
                    if frame.kind == "fragment_first" {
                        // The Java library counts ids over all connections of a process.
                        use_ids_before(
                            u16::from_be_bytes([frame.bytes[8], frame.bytes[9]]),
                            &mut next_id,
                            &mut packer,
                        );
                    }
                    recorded.extend_from_slice(&frame.bytes);
                    for message in &frame.messages {
                        packer.push(&mut written, message).expect("not empty");
                    }
                    packer.close(&mut written);
                }
                assert!(written == recorded, "{name} {direction:?}");
                fragmented += content.count("fragment_first");
            }
        }
    }
    assert_eq!(fragmented, 9, "big_plain 1, dict_fragmented 3, exact0 2, frag0 3");
}

/// Makes the packer's next fragmented message the one with `id`.
fn use_ids_before(id: u16, next_id: &mut u16, packer: &mut Packer) {
    for _ in *next_id..id {
        packer.push(&mut Vec::new(), &[0; 6145]).expect("not empty");
    }
    *next_id = id + 1;
}

use std::ops::ControlFlow;
use std::sync::{Arc, LazyLock};

use counters::table::RsslConnections;
use rssl::handshake::{ClientKey, ConnectRequest, KeyExchange, Reply};
use rssl::{
    ClientConfig, ClientConnection, ClientParams, CloseReason, CompressionType, ConnectionVersion, Handler,
    Negotiated, Outbound, ServerConfig, ServerConnection, ServerParams, Session, Stop,
};
use units::Nanos;

use crate::Outcome;

/// A component version longer than this is read and, as it does not fit, not written.
const COMPONENT_BYTES_MAX: usize = 253;

static SERVER: LazyLock<Arc<ServerParams>> =
    LazyLock::new(|| Arc::new(ServerConfig::default().check().expect("defaults hold")));
static CLIENT: LazyLock<Arc<ClientParams>> = LazyLock::new(|| {
    let config = ClientConfig { version_min: ConnectionVersion::V10, ..ClientConfig::default() };
    Arc::new(config.check().expect("within its bounds"))
});
static COUNTERS: LazyLock<Arc<RsslConnections>> = LazyLock::new(Arc::default);

/// Input: version and end (below 0x80 the server), bytes a piece less one, what comes from the peer.
pub(super) fn execute(input: &[u8]) -> Outcome {
    let &[head, piece, ref bytes @ ..] = input else { return Outcome::refused("short") };
    let version = version(head);
    assert_messages_read_again(bytes, version);
    let (whole, cut) = (usize::MAX, usize::from(piece) + 1);
    let (ends, pieces) = match head < 0x80 {
        true => (server(bytes, whole), server(bytes, cut)),
        false => (client(version, bytes, whole), client(version, bytes, cut)),
    };
    assert_eq!(ends, pieces, "whole, and in pieces of {cut}");
    match ends.reason {
        Some(reason) => Outcome::refused((reason, ends.negotiated)),
        None => Outcome::accepted((ends.negotiated, ends.sent.len())),
    }
}

pub(super) fn version(byte: u8) -> ConnectionVersion {
    ConnectionVersion::ALL[usize::from(byte) % ConnectionVersion::ALL.len()]
}

/// The compression that a client asks for, told by the part of a byte that [`version`] leaves.
pub(super) fn compression(byte: u8) -> CompressionType {
    let all = [CompressionType::None, CompressionType::Zlib, CompressionType::Lz4];
    all[usize::from(byte) / ConnectionVersion::ALL.len() % all.len()]
}

/// Where a connection stands after its input.
#[derive(Debug, PartialEq)]
struct End {
    negotiated: Option<Negotiated>,
    reason: Option<CloseReason>,
    sent: Vec<u8>,
    messages: usize,
}

fn server(bytes: &[u8], piece_bytes: usize) -> End {
    let mut server = ServerConnection::new(Nanos::ZERO, &SERVER, &COUNTERS, 7);
    let mut counter = Counter(0);
    let fed =
        bytes.chunks(piece_bytes).try_for_each(|piece| server.on_bytes(Nanos::ZERO, piece, &mut counter));
    let sent = server.outbound().flush().to_vec();
    End { negotiated: server.negotiated().copied(), reason: fed.err(), sent, messages: counter.0 }
}

fn client(version: ConnectionVersion, bytes: &[u8], piece_bytes: usize) -> End {
    let mut client = ClientConnection::new(Nanos::ZERO, &CLIENT, &COUNTERS, version, 7);
    let mut counter = Counter(0);
    let fed =
        bytes.chunks(piece_bytes).try_for_each(|piece| client.on_bytes(Nanos::ZERO, piece, &mut counter));
    let sent = client.outbound().flush().to_vec();
    End { negotiated: client.negotiated().copied(), reason: fed.err(), sent, messages: counter.0 }
}

/// Counts messages.
struct Counter(usize);

impl Handler for Counter {
    fn on_connected(&mut self, _: &Session<'_>, _: &mut Outbound) -> ControlFlow<Stop> {
        ControlFlow::Continue(())
    }

    fn on_message(&mut self, message: &[u8], _: &mut Outbound) -> ControlFlow<Stop> {
        assert!(!message.is_empty());
        self.0 += 1;
        ControlFlow::Continue(())
    }
}

/// A message of the handshake that is read and written again reads the same.
fn assert_messages_read_again(bytes: &[u8], version: ConnectionVersion) {
    let mut again = Vec::new();
    if let Ok(request) = ConnectRequest::parse(bytes)
        && request.component_version.as_bytes().len() <= COMPONENT_BYTES_MAX
    {
        request.emit(&mut again);
        assert_eq!(ConnectRequest::parse(&again), Ok(request));
    }
    again.clear();
    if let Ok(Reply::Ack(ack)) = Reply::parse(bytes, version)
        && matches!(ack.key_exchange, KeyExchange::Offered(_))
        && ack.component_version.as_bytes().len() <= COMPONENT_BYTES_MAX
    {
        ack.emit(&mut again);
        assert_eq!(Reply::parse(&again, version), Ok(Reply::Ack(ack)));
    }
    again.clear();
    if let Ok(key) = ClientKey::parse(bytes) {
        key.emit(&mut again);
        assert_eq!(ClientKey::parse(&again), Ok(key));
    }
}

use std::ops::ControlFlow;
use std::sync::{Arc, LazyLock};

use counters::table::WebSocketConnections;
use units::Nanos;
use websocket::upgrade::Request;
use websocket::{
    ClientConfig, ClientConnection, CloseReason, Handler, Limits, Message, Outbound, ServerConfig,
    ServerConnection, Session, Stop,
};

use crate::Outcome;

const LIMITS: Limits = Limits { head_bytes_max: 1024, message_bytes_max: 8192, backlog_bytes_max: 64 << 10 };
/// One head or one message as it comes, once more decompressed, each in a buffer that grows by doubling; the
/// backlog, likewise; the windows of a decompressor.
const MEMORY_BYTES_MAX: usize = 4 * LIMITS.message_bytes_max + 2 * LIMITS.backlog_bytes_max + (96 << 10);
/// The key of the request in RFC 6455, 1.3.
const REQUEST: &str = "GET /WebSocket HTTP/1.1\r\nHost: h\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
                       Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\
                       Sec-WebSocket-Protocol: tr_json2\r\n";
const DEFLATE: &str = "Sec-WebSocket-Extensions: permessage-deflate\r\n";
const DEFLATE_ANEW: &str = "Sec-WebSocket-Extensions: permessage-deflate; \
                            client_no_context_takeover; server_no_context_takeover\r\n";

static SERVER: LazyLock<Arc<ServerConfig>> =
    LazyLock::new(|| Arc::new(ServerConfig { limits: LIMITS, ..ServerConfig::default() }));
static CLIENT: LazyLock<Arc<ClientConfig>> = LazyLock::new(|| {
    Arc::new(ClientConfig { limits: LIMITS, compression: true, ..ClientConfig::new("h:15000") })
});
static COUNTERS: LazyLock<Arc<WebSocketConnections>> = LazyLock::new(Arc::default);

/// Input: bytes a piece less one, what a client sends first.
pub(super) fn upgrade(input: &[u8]) -> Outcome {
    let Some((piece, bytes)) = input.split_first() else { return Outcome::refused("empty") };
    let fed = |piece_bytes| {
        let mut server = ServerConnection::new(Nanos::ZERO, &SERVER, &COUNTERS);
        let mut seen = Seen::default();
        let end = bytes.chunks(piece_bytes).find_map(|piece| {
            let end = server.on_bytes(Nanos::ZERO, piece, &mut seen).err();
            assert!(server.memory_bytes() <= MEMORY_BYTES_MAX, "{} bytes", server.memory_bytes());
            end
        });
        (seen, end, server.outbound().pending().to_vec())
    };
    let whole = fed(usize::MAX);
    assert_eq!(whole, fed(usize::from(*piece) + 1), "whole, and in pieces");
    let parsed = Request::parse(bytes, SERVER.path_word, &SERVER.protocols);
    assert!(whole.0.connected.is_none() || whole.2.starts_with(b"HTTP/1.1 101 "));
    outcome(&whole.0, whole.1, parsed.map(|request| request.deflate).ok())
}

/// Input: bytes a piece less one, what a server answers to our request.
pub(super) fn answer(input: &[u8]) -> Outcome {
    let Some((piece, bytes)) = input.split_first() else { return Outcome::refused("empty") };
    let fed = |piece_bytes| {
        let mut client = ClientConnection::new(Nanos::ZERO, &CLIENT, &COUNTERS, 11);
        let mut seen = Seen::default();
        let sent = client.outbound().pending().len();
        client.outbound().consume(sent);
        let end = bytes.chunks(piece_bytes).find_map(|piece| {
            let end = client.on_bytes(Nanos::ZERO, piece, &mut seen).err();
            assert!(client.memory_bytes() <= MEMORY_BYTES_MAX, "{} bytes", client.memory_bytes());
            end
        });
        (seen, end)
    };
    let whole = fed(usize::MAX);
    assert_eq!(whole, fed(usize::from(*piece) + 1), "whole, and in pieces");
    outcome(&whole.0, whole.1, whole.0.refused)
}

/// Input: compression (0 none, 1 with a window that is kept, 2 with one that is not), bytes a piece less one,
/// frames of a client.
pub(super) fn frames(input: &[u8]) -> Outcome {
    let &[compression, piece, ref frames @ ..] = input else { return Outcome::refused("short") };
    let fed = |piece_bytes| {
        let mut server = ServerConnection::new(Nanos::ZERO, &SERVER, &COUNTERS);
        let mut seen = Seen::default();
        let more = ["", DEFLATE, DEFLATE_ANEW][usize::from(compression) % 3];
        let request = format!("{REQUEST}{more}\r\n");
        server.on_bytes(Nanos::ZERO, request.as_bytes(), &mut seen).expect("a good request");
        let end = frames.chunks(piece_bytes).find_map(|piece| {
            let end = server.on_bytes(Nanos::ZERO, piece, &mut seen).err();
            assert!(server.memory_bytes() <= MEMORY_BYTES_MAX, "{} bytes", server.memory_bytes());
            end
        });
        (seen, end)
    };
    let whole = fed(usize::MAX);
    assert_eq!(whole, fed(usize::from(piece) + 1), "whole, and in pieces");
    outcome(&whole.0, whole.1, compression % 3)
}

fn outcome(seen: &Seen, end: Option<CloseReason>, what: impl std::fmt::Debug) -> Outcome {
    let shape = (&seen.connected, seen.messages.len().min(4), what);
    match end {
        Some(reason) => Outcome::refused((reason, shape)),
        None if seen.connected.is_none() => Outcome::refused(("unfinished", shape)),
        None => Outcome::accepted(shape),
    }
}

/// What a handler is told.
#[derive(Debug, Default, PartialEq)]
struct Seen {
    /// Sub-protocol and whether messages may be compressed.
    connected: Option<(String, bool)>,
    messages: Vec<Vec<u8>>,
    refused: Option<u16>,
}

impl Handler for Seen {
    fn on_connected(&mut self, session: &Session<'_>, _: &mut Outbound) -> ControlFlow<Stop> {
        assert!(self.connected.is_none(), "an upgrade is complete once");
        self.connected = Some((session.protocol.to_owned(), session.is_compressing));
        ControlFlow::Continue(())
    }

    fn on_message(&mut self, message: Message<'_>, _: &mut Outbound) -> ControlFlow<Stop> {
        let bytes = match message {
            Message::Text(text) => text.as_bytes(),
            Message::Binary(bytes) => bytes,
        };
        assert!(bytes.len() <= LIMITS.message_bytes_max, "a message of {} bytes", bytes.len());
        self.messages.push(bytes.to_vec());
        ControlFlow::Continue(())
    }

    fn on_refused(&mut self, status: u16, _: &str) {
        self.refused = Some(status);
    }
}

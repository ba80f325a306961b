//! Ends of connections, and what was seen of them.

use std::ops::ControlFlow;
use std::sync::Arc;

use counters::table::WebSocketConnections;
use tickcast_websocket::frame::{Head, Opcode, append_masked};
use tickcast_websocket::upgrade::Request;
use tickcast_websocket::{
    Admission, ClientConfig, ClientConnection, CloseReason, Handler, Message, Outbound, ServerConfig,
    ServerConnection, Session, Stop,
};
use units::Nanos;

pub(crate) const KEY: &str = "dGhlIHNhbXBsZSBub25jZQ==";

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Received {
    Connected { protocol: String, is_compressing: bool },
    Text(String),
    Binary(Vec<u8>),
    Refused(u16, String),
}

/// Writes down what it is told.
#[derive(Default)]
pub(crate) struct Recorder {
    pub(crate) received: Vec<Received>,
    pub(crate) is_full: bool,
    pub(crate) is_foreign: bool,
    /// Stops the connection at the first message.
    pub(crate) stops: bool,
}

impl Recorder {
    pub(crate) fn texts(&self) -> Vec<&str> {
        let texts = self.received.iter().filter_map(|received| match received {
            Received::Text(text) => Some(text.as_str()),
            _ => None,
        });
        texts.collect()
    }
}

impl Handler for Recorder {
    fn on_request(&mut self, _: &Request<'_>) -> Admission {
        match (self.is_full, self.is_foreign) {
            (true, _) => Admission::Full,
            (false, true) => Admission::Origin,
            (false, false) => Admission::Accept,
        }
    }

    fn on_connected(&mut self, session: &Session<'_>, _: &mut Outbound) -> ControlFlow<Stop> {
        let Session { protocol, is_compressing, .. } = *session;
        self.received.push(Received::Connected { protocol: protocol.to_owned(), is_compressing });
        ControlFlow::Continue(())
    }

    fn on_message(&mut self, message: Message<'_>, _: &mut Outbound) -> ControlFlow<Stop> {
        self.received.push(match message {
            Message::Text(text) => Received::Text(text.to_owned()),
            Message::Binary(bytes) => Received::Binary(bytes.to_vec()),
        });
        if self.stops { ControlFlow::Break(Stop::Application) } else { ControlFlow::Continue(()) }
    }

    fn on_refused(&mut self, status: u16, reason: &str) {
        self.received.push(Received::Refused(status, reason.to_owned()));
    }
}

/// A request, with further header lines.
pub(crate) fn request(more: &str) -> Vec<u8> {
    format!(
        "GET /WebSocket HTTP/1.1\r\nHost: h\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
         Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {KEY}\r\n\
         Sec-WebSocket-Protocol: tr_json2\r\n{more}\r\n"
    )
    .into_bytes()
}

pub(crate) const DEFLATE: &str = "Sec-WebSocket-Extensions: permessage-deflate\r\n";

/// A frame of a client.
pub(crate) fn masked(first: u8, payload: &[u8]) -> Vec<u8> {
    let key = [0x9a, 0x31, 0x07, 0xee];
    let head = Head {
        is_final: true,
        is_compressed: false,
        opcode: Opcode::Text,
        mask: Some(key),
        payload_bytes: payload.len() as u64,
    };
    let mut frame = Vec::new();
    head.emit(&mut frame);
    frame[0] = first;
    append_masked(&mut frame, payload, key, 0);
    frame
}

pub(crate) fn server_with(config: ServerConfig, counters: &Arc<WebSocketConnections>) -> ServerConnection {
    ServerConnection::new(Nanos::ZERO, &Arc::new(config), counters)
}

/// A server past the upgrade whose answer the socket has taken.
pub(crate) fn open_server(
    config: ServerConfig,
    more: &str,
    counters: &Arc<WebSocketConnections>,
) -> ServerConnection {
    let mut server = server_with(config, counters);
    server.on_bytes(Nanos::ZERO, &request(more), &mut Recorder::default()).expect("a good request");
    take(server.outbound());
    server
}

/// What is pending, as a socket takes it.
pub(crate) fn take(outbound: &mut Outbound) -> Vec<u8> {
    let bytes = outbound.pending().to_vec();
    outbound.consume(bytes.len());
    bytes
}

/// A client and a server, and the wire between them.
pub(crate) struct Ends {
    pub(crate) client: ClientConnection,
    pub(crate) server: ServerConnection,
    pub(crate) at_client: Recorder,
    pub(crate) at_server: Recorder,
}

impl Ends {
    pub(crate) fn new(is_compressing: bool) -> Ends {
        let config = ClientConfig { compression: is_compressing, ..ClientConfig::new("h:15000") };
        let client = ClientConnection::new(Nanos::ZERO, &Arc::new(config), &Arc::default(), 11);
        let server = server_with(ServerConfig::default(), &Arc::default());
        Ends { client, server, at_client: Recorder::default(), at_server: Recorder::default() }
    }

    /// Carries what is pending over, in pieces of this size, until nothing is.
    pub(crate) fn exchange(&mut self, now: Nanos, piece: usize) -> Result<(), CloseReason> {
        loop {
            let (up, down) = (take(self.client.outbound()), take(self.server.outbound()));
            if up.is_empty() && down.is_empty() {
                return Ok(());
            }
            for piece in up.chunks(piece) {
                self.server.on_bytes(now, piece, &mut self.at_server)?;
            }
            for piece in down.chunks(piece) {
                self.client.on_bytes(now, piece, &mut self.at_client)?;
            }
        }
    }
}

use std::ops::ControlFlow;
use std::time::Duration;

use crate::handshake::ConnectRequest;
use crate::{CompressionType, ConnectionVersion, Outbound, Stop, Text};

/// What both sides agreed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Negotiated {
    /// Version of handshake and frames.
    pub version: ConnectionVersion,
    /// After so much silence a side is given up; pings come each third of it.
    pub ping_timeout: Duration,
    /// Longest message that goes unfragmented, bytes.
    pub message_size_bytes: u16,
    /// How payloads are compressed.
    pub compression: CompressionType,
    /// RWF version the peer speaks: major, minor.
    pub rwf_version: (u8, u8),
    /// The number both sides computed from their keys; absent without key exchange. It is no secret worth the
    /// name and protects nothing by itself.
    pub shared_key: Option<u64>,
}

/// The end of the handshake: what was agreed and who the peer says it is.
#[derive(Clone, Copy, Debug)]
pub struct Session<'a> {
    /// What was agreed.
    pub negotiated: Negotiated,
    /// What the peer calls itself; empty below version 13.
    pub component_version: Text<'a>,
    /// Host name of a client; empty on the client's side.
    pub host: Text<'a>,
    /// IP address of a client as text, as the client sees it; empty on the client's side.
    pub ip: Text<'a>,
}

/// A server's answer to a connect request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// Connect ack.
    Accept,
    /// Connect nak, then close.
    Refuse,
}

/// What the driver gives to a connection's inputs to be told of what they brought.
///
/// Every call that can answer the peer gets the way out. [`ControlFlow::Break`] ends the connection: what was
/// pushed before is still pending and can be written, the rest of the input is dropped.
pub trait Handler {
    /// Server: a connect request that can be accepted has arrived.
    fn on_request(&mut self, request: &ConnectRequest<'_>) -> Admission {
        let _ = request;
        Admission::Accept
    }

    /// The handshake is complete; messages can be pushed from now on.
    fn on_connected(&mut self, session: &Session<'_>, out: &mut Outbound) -> ControlFlow<Stop>;

    /// A message has arrived, packed, fragmented or alone. It is never empty.
    fn on_message(&mut self, message: &[u8], out: &mut Outbound) -> ControlFlow<Stop>;

    /// So many messages before its turn a message is shown to [`Handler::on_coming`], if they come with the same input; 0
    /// for not at all.
    fn messages_ahead(&self) -> usize {
        0
    }

    /// A message comes soon, if the connection lives and the message is as it should be: a hint, so that what it needs can
    /// be brought into the processor's caches. Fragmented and compressed messages are not shown.
    fn on_coming(&mut self, message: &[u8]) {
        let _ = message;
    }

    /// Client: the server refused the connection and says why.
    fn on_refused(&mut self, text: Text<'_>) {
        let _ = text;
    }
}

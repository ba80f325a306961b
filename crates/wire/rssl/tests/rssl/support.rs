//! Two ends of a connection without a network, and a handler that remembers.

use std::ops::ControlFlow;
use std::sync::Arc;

use counters::table::RsslConnections;
use tickcast_rssl::handshake::ConnectRequest;
use tickcast_rssl::{
    Admission, ClientConfig, ClientConnection, CloseReason, ConnectionVersion, Handler, Negotiated, Outbound,
    ServerConfig, ServerConnection, Session, Stop, Text,
};
use units::{Nanos, Rng};

/// Remembers everything it is told.
pub(crate) struct Recorder {
    pub(crate) messages: Vec<Vec<u8>>,
    pub(crate) sessions: Vec<Heard>,
    pub(crate) refused: Vec<String>,
    pub(crate) requests: usize,
    pub(crate) admission: Admission,
    /// Ends the connection instead of taking the message with this number.
    pub(crate) stop_at: Option<(usize, Stop)>,
}

/// What a handler was told at the end of a handshake.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Heard {
    pub(crate) negotiated: Negotiated,
    pub(crate) component_version: String,
    pub(crate) host: String,
    pub(crate) ip: String,
}

impl Default for Recorder {
    fn default() -> Recorder {
        Recorder {
            messages: Vec::new(),
            sessions: Vec::new(),
            refused: Vec::new(),
            requests: 0,
            admission: Admission::Accept,
            stop_at: None,
        }
    }
}

impl Handler for Recorder {
    fn on_request(&mut self, _: &ConnectRequest<'_>) -> Admission {
        self.requests += 1;
        self.admission
    }

    fn on_connected(&mut self, session: &Session<'_>, _: &mut Outbound) -> ControlFlow<Stop> {
        self.sessions.push(Heard {
            negotiated: session.negotiated,
            component_version: session.component_version.to_string(),
            host: session.host.to_string(),
            ip: session.ip.to_string(),
        });
        ControlFlow::Continue(())
    }

    fn on_message(&mut self, message: &[u8], _: &mut Outbound) -> ControlFlow<Stop> {
        if let Some((number, stop)) = self.stop_at
            && number == self.messages.len()
        {
            return ControlFlow::Break(stop);
        }
        self.messages.push(message.to_vec());
        ControlFlow::Continue(())
    }

    fn on_refused(&mut self, text: Text<'_>) {
        self.refused.push(text.to_string());
    }
}

pub(crate) fn counters() -> Arc<RsslConnections> {
    Arc::new(RsslConnections::default())
}

pub(crate) fn server_with(config: ServerConfig, counters: &Arc<RsslConnections>) -> ServerConnection {
    ServerConnection::new(Nanos::ZERO, &Arc::new(config.check().expect("a good configuration")), counters, 11)
}

pub(crate) fn server(counters: &Arc<RsslConnections>) -> ServerConnection {
    server_with(ServerConfig::default(), counters)
}

pub(crate) fn client_with(
    config: ClientConfig,
    version: ConnectionVersion,
    counters: &Arc<RsslConnections>,
) -> ClientConnection {
    let params = Arc::new(config.check().expect("a good configuration"));
    ClientConnection::new(Nanos::ZERO, &params, counters, version, 22)
}

pub(crate) fn client(version: ConnectionVersion, counters: &Arc<RsslConnections>) -> ClientConnection {
    client_with(client_config(), version, counters)
}

pub(crate) fn client_config() -> ClientConfig {
    ClientConfig {
        version_min: ConnectionVersion::V10,
        host_name: "apphost".into(),
        ip_address: "10.1.2.3".into(),
        ..ClientConfig::default()
    }
}

/// Takes everything that is pending, as a socket with room would.
pub(crate) fn take(outbound: &mut Outbound) -> Vec<u8> {
    let bytes = outbound.flush().to_vec();
    outbound.consume(bytes.len());
    bytes
}

/// A server that is past a handshake without keys, and what it answered.
pub(crate) fn active_server(
    config: ServerConfig,
    counters: &Arc<RsslConnections>,
) -> (ServerConnection, Vec<u8>) {
    let mut server = server_with(config, counters);
    let bytes = request(ConnectionVersion::V13);
    server.on_bytes(Nanos::ZERO, &bytes, &mut Recorder::default()).expect("a good request");
    let ack = take(server.outbound());
    assert!(server.negotiated().is_some());
    (server, ack)
}

pub(crate) fn request(version: ConnectionVersion) -> Vec<u8> {
    let mut out = Vec::new();
    ConnectRequest::new(version, 30).emit(&mut out);
    out
}

/// A server and a client, each with counters of its own, and whatever they send each other.
pub(crate) struct Ends {
    pub(crate) now: Nanos,
    pub(crate) server: ServerConnection,
    pub(crate) client: ClientConnection,
    pub(crate) at_server: Recorder,
    pub(crate) at_client: Recorder,
    pub(crate) server_counters: Arc<RsslConnections>,
    pub(crate) client_counters: Arc<RsslConnections>,
    /// Draws the cuts of the byte streams; uncut without.
    pub(crate) cuts: Option<Rng>,
}

impl Ends {
    pub(crate) fn new(version: ConnectionVersion) -> Ends {
        Ends::with(ServerConfig::default(), client_config(), version)
    }

    pub(crate) fn with(server: ServerConfig, client: ClientConfig, version: ConnectionVersion) -> Ends {
        let (server_counters, client_counters) = (counters(), counters());
        Ends {
            now: Nanos::ZERO,
            server: server_with(server, &server_counters),
            client: client_with(client, version, &client_counters),
            at_server: Recorder::default(),
            at_client: Recorder::default(),
            server_counters,
            client_counters,
            cuts: None,
        }
    }

    /// Two ends past their handshake.
    pub(crate) fn connected(version: ConnectionVersion) -> Ends {
        let mut ends = Ends::new(version);
        ends.exchange().expect("our own ends understand each other");
        assert!(ends.server.negotiated().is_some() && ends.client.negotiated().is_some());
        ends
    }

    /// Carries bytes to and fro until neither side has any.
    pub(crate) fn exchange(&mut self) -> Result<(), CloseReason> {
        loop {
            let to_server = take(self.client.outbound());
            let to_client = take(self.server.outbound());
            if to_server.is_empty() && to_client.is_empty() {
                return Ok(());
            }
            for piece in pieces(&to_server, self.cuts.as_mut()) {
                self.server.on_bytes(self.now, piece, &mut self.at_server)?;
            }
            for piece in pieces(&to_client, self.cuts.as_mut()) {
                self.client.on_bytes(self.now, piece, &mut self.at_client)?;
            }
        }
    }
}

/// Cuts `bytes` at random places: mostly small pieces, some large, some empty.
pub(crate) fn pieces<'a>(bytes: &'a [u8], rng: Option<&mut Rng>) -> Vec<&'a [u8]> {
    let Some(rng) = rng else { return vec![bytes] };
    let mut pieces = Vec::new();
    let mut rest = bytes;
    while !rest.is_empty() {
        let most = if rng.chance(0.5) { 8 } else { 10_000 };
        let (piece, later) = rest.split_at((rng.below(most) as usize).min(rest.len()));
        pieces.push(piece);
        rest = later;
    }
    pieces
}

/// A message of `bytes` bytes whose content depends on its length and on `mark`.
pub(crate) fn message(bytes: usize, mark: u64) -> Vec<u8> {
    let mut rng = Rng::new(mark ^ (bytes as u64) << 20);
    (0..bytes).map(|_| rng.next_u64() as u8).collect()
}

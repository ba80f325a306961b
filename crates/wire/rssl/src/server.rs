use std::sync::Arc;
use std::time::Duration;

use connection::{Memory, Opened};
use counters::table::RsslConnections;
use units::Nanos;

use crate::active::{Active, Pings, Terms};
use crate::handshake::{
    ClientKey, ConnectAck, ConnectRequest, KeyExchange, KeySecret, PROTOCOL_RWF, RWF_VERSION, emit_nak,
    key_length, request_length, session_flag,
};
use crate::link::{Connection, Handshake};
use crate::session::{Admission, Handler, Negotiated, Session};
use crate::{CloseReason, CompressionType, Disconnect, Outbound, PeerError, Refusal, ServerParams, Text};

/// The server's end of a connection, from the moment the TCP connection (or TLS session) stands.
///
/// It answers with the version of the request, 14 to 10; unknown versions are closed without an answer, other
/// protocols than RWF and what the handler refuses get a connect nak.
pub type ServerConnection = Connection<Accepting>;

impl ServerConnection {
    /// A connection accepted at `now`. The numbers of the key exchange follow from `seed`.
    #[must_use]
    pub fn new(
        now: Nanos,
        params: &Arc<ServerParams>,
        counters: &Arc<RsslConnections>,
        seed: u64,
    ) -> ServerConnection {
        let config = params.config();
        let outbound = Outbound::new(config.limits.backlog_bytes_max, Arc::clone(counters));
        let step = Accepting { params: Arc::clone(params), seed, waiting: None };
        Connection::begin(now, step, config.handshake_timeout, outbound)
    }
}

/// The server's part in the handshake.
#[derive(Debug)]
pub struct Accepting {
    params: Arc<ServerParams>,
    seed: u64,
    waiting: Option<WaitingForKey>,
}

/// The ack is sent, the client's key is still to come. The request is kept for what the handler is told then.
#[derive(Debug)]
struct WaitingForKey {
    request: Box<[u8]>,
    secret: KeySecret,
}

/// How a connection is going to be compressed.
#[derive(Clone, Copy, Debug)]
struct Granted {
    kind: CompressionType,
    /// The client has not asked for it.
    is_forced: bool,
}

impl Handshake for Accepting {
    fn length_of(&self, start: [u8; 3]) -> Result<usize, PeerError> {
        Ok(match &self.waiting {
            None => request_length(start)?,
            Some(_) => key_length(start)?,
        })
    }

    fn on_message<H: Handler + ?Sized>(
        &mut self,
        message: &[u8],
        outbound: &mut Outbound,
        handler: &mut H,
    ) -> Result<Option<Opened<Active>>, CloseReason> {
        match self.waiting.take() {
            None => self.on_request(message, outbound, handler),
            Some(waiting) => {
                let shared_key = ClientKey::parse(message)?.key.map(|key| waiting.secret.shared_key(key));
                let request = ConnectRequest::parse(&waiting.request)?;
                self.establish(&request, shared_key, outbound, handler).map(Some)
            }
        }
    }

    fn on_disconnected(&self, cause: Disconnect, _silent: bool) -> CloseReason {
        CloseReason::Disconnected(cause)
    }
}

impl Memory for Accepting {
    fn memory_bytes(&self) -> usize {
        self.waiting.as_ref().map_or(0, |w| w.request.len())
    }
}

impl Accepting {
    fn on_request<H: Handler + ?Sized>(
        &mut self,
        message: &[u8],
        outbound: &mut Outbound,
        handler: &mut H,
    ) -> Result<Option<Opened<Active>>, CloseReason> {
        let request = ConnectRequest::parse(message)?;
        if request.protocol_type != PROTOCOL_RWF {
            return Err(refuse(Refusal::ProtocolType(request.protocol_type), outbound));
        }
        if handler.on_request(&request) == Admission::Refuse {
            return Err(refuse(Refusal::Application, outbound));
        }
        let secret = self.send_ack(&request, outbound);
        let Some(secret) = secret else {
            return self.establish(&request, None, outbound, handler).map(Some);
        };
        self.waiting = Some(WaitingForKey { request: message.into(), secret });
        Ok(None)
    }

    /// Accepts the request; tells the secret of the key exchange if there is one.
    fn send_ack(&self, request: &ConnectRequest<'_>, outbound: &mut Outbound) -> Option<KeySecret> {
        let config = self.params.config();
        let (secret, key_exchange) = if request.key_exchange {
            let (secret, offer) = KeySecret::draw(self.seed);
            (Some(secret), KeyExchange::Offered(offer))
        } else {
            (None, KeyExchange::Absent)
        };
        let compression = self.compression(request);
        count_compression(request, compression, outbound.counters());
        let ack = ConnectAck {
            version: request.version,
            message_size_bytes: config.message_size_bytes,
            session_flags: session_flag::CLIENT_PINGS | session_flag::SERVER_PINGS,
            ping_timeout_s: self.ping_timeout_s(request),
            rwf_version: RWF_VERSION,
            compression: compression.kind,
            forced: compression.is_forced,
            compression_level: if compression.kind == CompressionType::Zlib { config.zlib_level } else { 0 },
            key_exchange,
            component_version: Text::new(config.component_version.as_bytes()),
        };
        let mut message = Vec::with_capacity(256);
        ack.emit(&mut message);
        outbound.push_handshake(&message);
        secret
    }

    fn establish<H: Handler + ?Sized>(
        &self,
        request: &ConnectRequest<'_>,
        shared_key: Option<u64>,
        outbound: &mut Outbound,
        handler: &mut H,
    ) -> Result<Opened<Active>, CloseReason> {
        let config = self.params.config();
        let negotiated = Negotiated {
            version: request.version,
            ping_timeout: Duration::from_secs(u64::from(self.ping_timeout_s(request))),
            message_size_bytes: config.message_size_bytes,
            compression: self.compression(request).kind,
            rwf_version: request.rwf_version,
            shared_key,
        };
        let session = Session {
            negotiated,
            component_version: request.component_version,
            host: request.host,
            ip: request.ip,
        };
        let terms = Terms {
            pings: Pings { from_peer: true, from_us: true },
            limits: config.limits,
            level: config.zlib_level,
            thresholds: config.thresholds,
        };
        Active::establish(&session, terms, outbound, handler)
    }

    /// What the client asks for if that is allowed; else what is imposed on all.
    fn compression(&self, request: &ConnectRequest<'_>) -> Granted {
        let config = self.params.config();
        let known = |kind: &CompressionType| kind.is_known_to(request.version);
        let asked = |kind: &CompressionType| request.compression & kind.request_bit() != 0;
        if let Some(&kind) = config.compression.iter().find(|&kind| known(kind) && asked(kind)) {
            return Granted { kind, is_forced: false };
        }
        match config.compression_forced {
            Some(kind) if known(&kind) => Granted { kind, is_forced: true },
            _ => Granted { kind: CompressionType::None, is_forced: false },
        }
    }

    /// The client's proposal, within the bounds of the configuration.
    fn ping_timeout_s(&self, request: &ConnectRequest<'_>) -> u8 {
        let config = self.params.config();
        request.ping_timeout_s.clamp(config.ping_timeout_min_s, config.ping_timeout_max_s)
    }
}

fn count_compression(request: &ConnectRequest<'_>, granted: Granted, counters: &RsslConnections) {
    let is_declined = request.compression != 0 && granted.kind == CompressionType::None;
    counters.compression_declined.add(u64::from(is_declined));
    counters.compression_forced.add(u64::from(granted.is_forced));
}

fn refuse(refusal: Refusal, outbound: &mut Outbound) -> CloseReason {
    let mut message = Vec::with_capacity(32);
    emit_nak(&mut message);
    outbound.push_handshake(&message);
    outbound.counters().naks_sent.inc();
    CloseReason::Refused(refusal)
}

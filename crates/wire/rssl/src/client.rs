use std::sync::Arc;
use std::time::Duration;

use connection::{Memory, Opened};
use counters::table::RsslConnections;
use units::Nanos;

use crate::active::{Active, Pings, Terms};
use crate::compression::ZLIB_LEVEL_MAX;
use crate::handshake::{
    ClientKey, ConnectAck, ConnectRequest, KeyExchange, Reply, reply_length, session_flag,
};
use crate::link::{Connection, Handshake};
use crate::session::{Handler, Negotiated, Session};
use crate::{
    ClientParams, CloseReason, CompressionType, ConnectionVersion, Disconnect, Outbound, PeerError, Text,
};

/// The client's end of a connection, from the moment the TCP connection (or TLS session) stands.
///
/// The connect request is pending at once.
///
/// A server that does not know the version offered closes the TCP connection. Then the end is
/// [`CloseReason::Unanswered`], which names the version to offer on a new TCP connection, at once.
pub type ClientConnection = Connection<Offering>;

impl ClientConnection {
    /// A connection that stands since `now` and offers `version`: at first
    /// [`version_max`](crate::ClientConfig::version_max), then what [`CloseReason::Unanswered`] says. The key
    /// follows from `seed`.
    #[must_use]
    pub fn new(
        now: Nanos,
        params: &Arc<ClientParams>,
        counters: &Arc<RsslConnections>,
        version: ConnectionVersion,
        seed: u64,
    ) -> ClientConnection {
        let config = params.config();
        let mut outbound = Outbound::new(config.limits.backlog_bytes_max, Arc::clone(counters));
        outbound.push_handshake(&connect_request(params, version));
        let step = Offering { params: Arc::clone(params), version, seed };
        Connection::begin(now, step, config.handshake_timeout, outbound)
    }
}

fn connect_request(params: &ClientParams, version: ConnectionVersion) -> Vec<u8> {
    let config = params.config();
    let asked = Some(config.compression).filter(|kind| kind.is_known_to(version));
    let request = ConnectRequest {
        compression: asked.map_or(0, CompressionType::request_bit),
        host: Text::new(config.host_name.as_bytes()),
        ip: Text::new(config.ip_address.as_bytes()),
        component_version: Text::new(config.component_version.as_bytes()),
        ..ConnectRequest::new(version, config.ping_timeout_s)
    };
    let mut message = Vec::with_capacity(512);
    request.emit(&mut message);
    message
}

/// The client's part in the handshake: the request is sent, the reply is to come.
#[derive(Debug)]
pub struct Offering {
    params: Arc<ClientParams>,
    version: ConnectionVersion,
    seed: u64,
}

impl Handshake for Offering {
    fn length_of(&self, start: [u8; 3]) -> Result<usize, PeerError> {
        Ok(reply_length(start)?)
    }

    fn on_message<H: Handler + ?Sized>(
        &mut self,
        message: &[u8],
        outbound: &mut Outbound,
        handler: &mut H,
    ) -> Result<Option<Opened<Active>>, CloseReason> {
        match Reply::parse(message, self.version)? {
            Reply::Ack(ack) => self.on_ack(&ack, outbound, handler).map(Some),
            Reply::Nak(text) => {
                outbound.counters().naks_rcved.inc();
                handler.on_refused(text);
                Err(CloseReason::Nak)
            }
        }
    }

    fn on_disconnected(&self, cause: Disconnect, silent: bool) -> CloseReason {
        if silent {
            CloseReason::Unanswered { offered: self.version, next: self.params.version_after(self.version) }
        } else {
            CloseReason::Disconnected(cause)
        }
    }
}

impl Memory for Offering {
    fn memory_bytes(&self) -> usize {
        0
    }
}

impl Offering {
    fn on_ack<H: Handler + ?Sized>(
        &self,
        ack: &ConnectAck<'_>,
        outbound: &mut Outbound,
        handler: &mut H,
    ) -> Result<Opened<Active>, CloseReason> {
        let negotiated = Negotiated {
            version: ack.version,
            ping_timeout: Duration::from_secs(u64::from(ack.ping_timeout_s)),
            message_size_bytes: ack.message_size_bytes,
            compression: ack.compression,
            rwf_version: ack.rwf_version,
            shared_key: self.send_key(ack.key_exchange, outbound),
        };
        let session = Session {
            negotiated,
            component_version: ack.component_version,
            host: Text::default(),
            ip: Text::default(),
        };
        let pings = Pings {
            from_peer: ack.session_flags & session_flag::SERVER_PINGS != 0,
            from_us: ack.session_flags & session_flag::CLIENT_PINGS != 0,
        };
        let config = self.params.config();
        let level = ack.compression_level.min(ZLIB_LEVEL_MAX);
        let terms = Terms { pings, limits: config.limits, level, thresholds: config.thresholds };
        Active::establish(&session, terms, outbound, handler)
    }

    /// Answers the key exchange and tells the shared key.
    fn send_key(&self, exchange: KeyExchange, outbound: &mut Outbound) -> Option<u64> {
        let (client_key, shared_key) = match exchange {
            KeyExchange::Absent => return None,
            KeyExchange::UnknownType(_) => (None, None),
            KeyExchange::Offered(offer) => {
                let answer = offer.answer(self.seed);
                (Some(answer.client_key), Some(answer.shared_key))
            }
        };
        let mut message = Vec::with_capacity(12);
        ClientKey { key: client_key }.emit(&mut message);
        outbound.push_handshake(&message);
        shared_key
    }
}

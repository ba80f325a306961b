use std::ops::ControlFlow;
use std::sync::Arc;

use counters::table::WebSocketConnections;
use units::{Nanos, Rng};

use crate::deflate::Inflater;
use crate::link::{Connection, Pings, Upgrade};
use crate::reader::Reader;
use crate::upgrade::{Answer, client_key, emit_request};
use crate::{ClientConfig, CloseReason, Handler, Outbound, Session, UpgradeError};

/// The client's end of a connection, from the moment the TCP connection (or TLS session) stands.
///
/// The upgrade request is pending from the beginning.
pub type ClientConnection = Connection<Asking>;

impl ClientConnection {
    /// A connection established at `now`. Its key and the masks of its frames follow from `seed`, which
    /// nobody else should be able to guess.
    #[must_use]
    pub fn new(
        now: Nanos,
        config: &Arc<ClientConfig>,
        counters: &Arc<WebSocketConnections>,
        seed: u64,
    ) -> ClientConnection {
        let mut rng = Rng::new(seed);
        let random = [rng.next_u64(), rng.next_u64()].map(u64::to_be_bytes);
        let key = client_key(*random.as_flattened().first_chunk().expect("twice eight bytes"));
        let limit_bytes = config.limits.backlog_bytes_max;
        let mut outbound = Outbound::new(limit_bytes, Some(rng), Arc::clone(counters));
        outbound.push_head(|into| {
            emit_request(&config.host, &config.path, &key, &config.protocols, config.compression, into);
        });
        let step = Asking { config: Arc::clone(config), key };
        let pings = Pings { text: config.ping, timeout: config.ping_timeout };
        Connection::begin(now, step, config.handshake_timeout, config.limits, pings, outbound)
    }
}

/// The client's part in the upgrade.
#[derive(Debug)]
pub struct Asking {
    config: Arc<ClientConfig>,
    key: String,
}

impl Upgrade for Asking {
    fn on_head<H: Handler + ?Sized>(
        &mut self,
        head: &[u8],
        outbound: &mut Outbound,
        handler: &mut H,
    ) -> Result<Reader, CloseReason> {
        let config = &self.config;
        let (protocol, deflate, headers) =
            match Answer::parse(head, &self.key, &config.protocols, config.compression)? {
                Answer::Accepted { protocol, deflate, headers } => (protocol, deflate, headers),
                Answer::Refused { status, reason } => {
                    handler.on_refused(status, reason);
                    return Err(CloseReason::Refused { status });
                }
            };
        outbound.open(deflate.is_some());
        outbound.counters().compressed_connections.add(u64::from(deflate.is_some()));
        let session = Session { path: &config.path, protocol, is_compressing: deflate.is_some(), headers };
        if let ControlFlow::Break(stop) = handler.on_connected(&session, outbound) {
            return Err(stop.into());
        }
        let inflater = deflate.map(|deflate| Inflater::new(deflate.peer_starts_anew));
        Ok(Reader::new(false, config.limits.message_bytes_max, inflater))
    }

    fn refuse(&self, _: UpgradeError, _: &mut Outbound) {}
}

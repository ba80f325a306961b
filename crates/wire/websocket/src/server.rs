use std::ops::ControlFlow;
use std::sync::Arc;

use counters::table::WebSocketConnections;
use units::Nanos;

use crate::deflate::Inflater;
use crate::link::{Connection, Pings, Upgrade};
use crate::reader::Reader;
use crate::upgrade::{Refusal, Request};
use crate::{Admission, CloseReason, Handler, Outbound, ServerConfig, Session, UpgradeError};

/// The server's end of a connection, from the moment the TCP connection (or TLS session) stands.
pub type ServerConnection = Connection<Accepting>;

impl ServerConnection {
    /// A connection accepted at `now`.
    #[must_use]
    pub fn new(
        now: Nanos,
        config: &Arc<ServerConfig>,
        counters: &Arc<WebSocketConnections>,
    ) -> ServerConnection {
        let outbound = Outbound::new(config.limits.backlog_bytes_max, None, Arc::clone(counters));
        let step = Accepting(Arc::clone(config));
        let pings = Pings { text: config.ping, timeout: config.ping_timeout };
        Connection::begin(now, step, config.handshake_timeout, config.limits, pings, outbound)
    }
}

/// The server's part in the upgrade.
#[derive(Debug)]
pub struct Accepting(Arc<ServerConfig>);

impl Upgrade for Accepting {
    fn on_head<H: Handler + ?Sized>(
        &mut self,
        head: &[u8],
        outbound: &mut Outbound,
        handler: &mut H,
    ) -> Result<Reader, CloseReason> {
        let Accepting(config) = self;
        let request = Request::parse(head, config.path_word, &config.protocols)
            .and_then(|request| match handler.on_request(&request) {
                Admission::Accept => Ok(request),
                Admission::Full => Err(Refusal::Full),
                Admission::Origin => Err(Refusal::Origin),
            })
            .map_err(|refusal| {
                outbound.push_head(|into| refusal.emit(into));
                outbound.counters().upgrades_refused.inc();
                outbound.counters().origins_refused.add(u64::from(refusal == Refusal::Origin));
                CloseReason::Refused { status: refusal.status() }
            })?;
        let deflate = request.deflate.filter(|_| config.compression);
        outbound.push_head(|into| request.accept(deflate, into));
        outbound.open(deflate.is_some());
        outbound.counters().compressed_connections.add(u64::from(deflate.is_some()));
        let Request { path, protocol, headers, .. } = request;
        let session = Session { path, protocol, is_compressing: deflate.is_some(), headers };
        if let ControlFlow::Break(stop) = handler.on_connected(&session, outbound) {
            return Err(stop.into());
        }
        let inflater = deflate.map(|deflate| Inflater::new(deflate.peer_starts_anew));
        Ok(Reader::new(true, config.limits.message_bytes_max, inflater))
    }

    fn refuse(&self, error: UpgradeError, outbound: &mut Outbound) {
        outbound.counters().upgrades_refused.inc();
        outbound.push_head(|into| Refusal::Malformed(error).emit(into));
    }
}

use std::net::{IpAddr, SocketAddr};
use std::ops::ControlFlow;

use backbone::InletCommand;
use market::p2ps::{ClientError, ClientId, ClientProfile, PointToPoint};
use rssl::{CloseReason, Session};
use server::rssl::Rssl;
use server::{ConnectionId, Outbox, PortEvent, Service};
use tracing::{info, warn};
use units::Nanos;

use crate::market_to_clients::MarketToClients;
use crate::pace::Pace;
use crate::websocket::{Json, Streams};

/// What RSSL clients send, given to the core: the service behind the RSSL port.
pub(crate) struct RsslToMarket<'a> {
    pub(crate) core: &'a mut PointToPoint,
    pub(crate) websocket: Option<&'a mut Outbox>,
    pub(crate) json: &'a Json,
    pub(crate) streams: &'a mut Streams,
    pub(crate) commands: &'a mut Vec<InletCommand>,
    pub(crate) pace: &'a mut Pace,
}

impl RsslToMarket<'_> {
    fn with_core<T>(
        &mut self,
        outbox: &mut Outbox,
        act: impl FnOnce(&mut PointToPoint, &mut MarketToClients<'_>) -> T,
    ) -> T {
        let mut sink = MarketToClients {
            rssl: outbox,
            websocket: self.websocket.as_deref_mut(),
            json: self.json,
            streams: self.streams,
            commands: self.commands,
            pace: self.pace,
            hops: None,
        };
        act(self.core, &mut sink)
    }
}

impl RsslToMarket<'_> {
    /// Goes on with a client that waits; returns whether it waits no longer.
    ///
    /// # Errors
    /// Its connection is to be closed.
    pub(crate) fn go_on(
        &mut self,
        now: Nanos,
        client: ClientId,
        outbox: &mut Outbox,
    ) -> Result<bool, ClientError> {
        self.with_core(outbox, |core, sink| {
            sink.begin();
            core.go_on(now, client, sink);
            while sink.goes_on(core, client) {
                let Some(message) = sink.pace.next_message(client) else { return Ok(true) };
                core.on_client_message(now, client, &message, sink)?;
            }
            Ok(false)
        })
    }
}

/// What is taken from a connection before it is asked whether the client has to wait: some hundred requests, or one
/// compressed frame after the other.
const SLICE_BYTES: usize = 4 << 10;

/// Says in the log why a client's connection is closed.
pub(crate) fn log_end(core: &PointToPoint, connection: ConnectionId, reason: ClientError) {
    let connection = connection.0;
    if let ClientError::LoginDenied(why) = reason {
        let user = core.gate().last_denied();
        warn!(connection, user, %why, "client's login is denied, its connection is closed");
    } else {
        info!(connection, %reason, "client's connection is closed");
    }
}

/// The client's address as a number, 0 if it is none of IPv4.
pub(crate) fn address(peer: SocketAddr) -> u32 {
    if let IpAddr::V4(address) = peer.ip() { address.to_bits() } else { 0 }
}

impl Service<Rssl> for RsslToMarket<'_> {
    const SLICE_BYTES: usize = SLICE_BYTES;

    fn on_connected(
        &mut self,
        _: Nanos,
        connection: ConnectionId,
        session: &Session<'_>,
        peer: SocketAddr,
        _: &mut Outbox,
    ) {
        let (host, version) = (session.host, session.component_version);
        info!(connection = connection.0, %peer, %host, %version, "client connected");
        let profile = ClientProfile { address: address(peer), ..ClientProfile::default() };
        self.core.on_client_connected(ClientId(connection.0), profile);
    }

    fn on_message(
        &mut self,
        now: Nanos,
        connection: ConnectionId,
        message: &[u8],
        outbox: &mut Outbox,
    ) -> ControlFlow<()> {
        let client = ClientId(connection.0);
        let result = self.with_core(outbox, |core, sink| {
            if sink.defers(core, client, message) {
                return Ok(());
            }
            sink.begin();
            core.on_client_message(now, client, message, sink)?;
            sink.goes_on(core, client);
            Ok(())
        });
        match result {
            Ok(()) => ControlFlow::Continue(()),
            Err(reason) => {
                log_end(self.core, connection, reason);
                ControlFlow::Break(())
            }
        }
    }

    fn on_closed(&mut self, now: Nanos, connection: ConnectionId, reason: &CloseReason, outbox: &mut Outbox) {
        info!(connection = connection.0, %reason, "client gone");
        let client = ClientId(connection.0);
        self.pace.forget(client);
        self.with_core(outbox, |core, sink| core.on_client_closed(now, client, sink));
    }

    fn is_logged_in(&self, connection: ConnectionId) -> bool {
        self.core.is_logged_in(ClientId(connection.0))
    }

    fn is_busy(&self, connection: ConnectionId) -> bool {
        self.pace.is_waiting(ClientId(connection.0))
    }

    fn knows(&self, connection: ConnectionId) -> bool {
        self.core.is_leaving(ClientId(connection.0))
    }

    fn on_port_event(&mut self, event: PortEvent<'_>) {
        if event.is_fault() {
            warn!(port = "consumer", "{event}")
        } else {
            info!(port = "consumer", "{event}")
        }
    }
}

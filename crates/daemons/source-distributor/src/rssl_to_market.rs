use std::net::{IpAddr, SocketAddr};
use std::ops::ControlFlow;

use backbone::Outlet;
use market::distributor::{Distributor, ProviderError, ProviderId};
use rssl::{CloseReason, Session};
use server::rssl::Rssl;
use server::{ConnectionId, Outbox, PortEvent, Service};
use tracing::{info, warn};
use units::Nanos;

use crate::dials::DialOutbox;
use crate::market_to_backbone::{Links, MarketToBackbone};

/// What providers send, given to the core: the service behind the provider port.
pub(crate) struct RsslToMarket<'a, O> {
    pub(crate) core: &'a mut Distributor,
    pub(crate) outlet: &'a mut O,
    pub(crate) dial_outbox: &'a mut DialOutbox,
    pub(crate) links: &'a mut Links,
}

impl<O: Outlet> Service<Rssl> for RsslToMarket<'_, O> {
    fn on_connected(
        &mut self,
        _: Nanos,
        connection: ConnectionId,
        session: &Session<'_>,
        peer: SocketAddr,
        _: &mut Outbox,
    ) {
        info!(connection = connection.0, %peer, host = %session.host, "provider connected");
        let address = if let IpAddr::V4(address) = peer.ip() { Some(address) } else { None };
        self.core.on_provider_connected(ProviderId(connection.0), address);
    }

    #[inline]
    fn on_message(
        &mut self,
        now: Nanos,
        connection: ConnectionId,
        message: &[u8],
        outbox: &mut Outbox,
    ) -> ControlFlow<()> {
        let mut sink = MarketToBackbone {
            now,
            outlet: self.outlet,
            outbox,
            dial_outbox: self.dial_outbox,
            links: self.links,
        };
        match self.core.on_provider_message(now, ProviderId(connection.0), message, &mut sink) {
            Ok(()) => ControlFlow::Continue(()),
            Err(ProviderError::LoggedOut) => ControlFlow::Break(()),
            Err(ProviderError::LoginDenied(why)) => {
                let user = self.core.gate().last_denied();
                warn!(connection = connection.0, user, %why, "provider's login is denied, its connection is closed");
                ControlFlow::Break(())
            }
            Err(error) => {
                warn!(connection = connection.0, %error, "provider's connection is closed");
                ControlFlow::Break(())
            }
        }
    }

    #[inline]
    fn messages_ahead(&self) -> usize {
        self.core.messages_ahead()
    }

    #[inline]
    fn on_coming(&mut self, connection: ConnectionId, message: &[u8]) {
        self.core.announce(ProviderId(connection.0), message);
    }

    fn on_closed(&mut self, now: Nanos, connection: ConnectionId, reason: &CloseReason, outbox: &mut Outbox) {
        info!(connection = connection.0, %reason, "provider gone");
        let mut sink = MarketToBackbone {
            now,
            outlet: self.outlet,
            outbox,
            dial_outbox: self.dial_outbox,
            links: self.links,
        };
        self.core.on_provider_closed(now, ProviderId(connection.0), &mut sink);
    }

    fn is_logged_in(&self, connection: ConnectionId) -> bool {
        self.core.is_logged_in(ProviderId(connection.0))
    }

    fn is_busy(&self, connection: ConnectionId) -> bool {
        self.core.holds_provider(ProviderId(connection.0))
    }

    fn knows(&self, connection: ConnectionId) -> bool {
        self.core.is_leaving(ProviderId(connection.0))
    }

    fn on_port_event(&mut self, event: PortEvent<'_>) {
        if event.is_fault() {
            warn!(port = "provider", "{event}")
        } else {
            info!(port = "provider", "{event}")
        }
    }
}

//! The provider without its socket.

use std::sync::Arc;
use std::time::Duration;

use counters::table::{ProviderSession, RsslConnections};
use market::CachedItem;
use market::image::FieldRules;
use rdm::RdmError;
use rdm::directory::{Directory, Service};
use rssl::{CloseReason, Disconnect, Stop};
use rwf::Dictionary;
use units::Nanos;

use super::session::{Input, Session};
use super::{ItemError, ProviderEvent, PublishSpec, PublishedItem};
use crate::connector::{ConnectPlan, Connector, Offer};
use crate::{ConnectFailure, DisconnectReason, Endpoint, Identity, ProviderConfig, Socket, StartError};

/// Longest message that a server has for a provider: logins are short.
const MESSAGE_MAX_BYTES: u32 = 1 << 20;

/// A non-interactive provider as a state machine: bytes and the time in, bytes and events out.
///
/// [`Provider`](crate::Provider) drives it with a socket; the simulator drives it with anything else. See
/// [`Endpoint`] for the order of the calls.
pub struct ProviderCore {
    pub(super) connector: Connector,
    pub(super) session: Session,
    counters: Arc<ProviderSession>,
}

impl ProviderCore {
    /// A provider that connects when its driver asks for the first time what to do. Host name and address of
    /// `identity` go into the connection handshake. Delays and keys follow from `seed`.
    ///
    /// # Errors
    /// [`StartError::Config`] for what the connection handshake cannot hold, [`StartError::Service`] for
    /// services that share a name.
    pub fn new(config: &ProviderConfig, identity: &Identity, seed: u64) -> Result<ProviderCore, StartError> {
        let counters = Arc::new(ProviderSession::default());
        let offer = Offer {
            connect_timeout_ms: config.connect_timeout_ms,
            ping_timeout_s: config.ping_timeout_s,
            component: &config.component,
            identity,
            message_max_bytes: MESSAGE_MAX_BYTES,
            backlog_max_bytes: config.backlog_max_bytes,
        };
        let plan = ConnectPlan {
            hosts: config.hosts.clone(),
            connect_timeout_ms: config.connect_timeout_ms,
            delay_min: Duration::from_millis(config.reconnect_delay_min_ms.into()),
            delay_max: Duration::from_millis(config.reconnect_delay_max_ms.into()),
            params: offer.params()?,
            seed,
        };
        let session = Session::new(config, identity, Arc::clone(&counters))?;
        Ok(ProviderCore { connector: Connector::new(plan), session, counters })
    }

    /// Takes a dictionary: images then know which fields ripple, and which are texts that can be changed in
    /// part.
    pub fn set_dictionary(&mut self, dictionary: &Dictionary) {
        self.session.rules = FieldRules::of(dictionary);
    }

    /// The item of a key: a new one, or the one that was published before.
    ///
    /// # Errors
    /// [`ItemError`]; nothing was done then.
    pub fn item(&mut self, spec: &PublishSpec<'_>) -> Result<PublishedItem, ItemError> {
        let service =
            self.session.directory.service_by_name(spec.service).ok_or(ItemError::UnknownService)?;
        self.session.items.open(spec, service.id)
    }

    /// Changes what the directory says about a service: whether it is up, what it offers. The server is told
    /// as soon as it can be.
    ///
    /// # Errors
    /// [`RdmError::UnknownService`], or what makes the service impossible, such as another's name.
    pub fn change_service(&mut self, name: &str, change: impl FnOnce(&mut Service)) -> Result<(), RdmError> {
        let unknown = RdmError::UnknownService { service_id: 0 };
        let service_id = self.session.directory.service_by_name(name).ok_or(unknown)?.id;
        let delta = self.session.directory.change(service_id, change)?;
        self.session.tell_directory(delta);
        Ok(())
    }

    /// Logs out and ends the connection; nothing more is tried. Write what is pending, then close the socket.
    pub fn stop(&mut self, sink: &mut dyn FnMut(ProviderEvent<'_>)) {
        if self.connector.is_stopped() {
            return;
        }
        if let Some(connection) = self.connector.connection() {
            self.session.log_out(connection.outbound());
        }
        self.connector.stop();
        let (host, reason) = (self.connector.host(), DisconnectReason::Stopped);
        sink(ProviderEvent::Disconnected { host, reason, retry_in: None });
        self.session.on_disconnected();
    }

    /// Begins again after [`ProviderCore::stop`] or a login that was refused for good.
    pub fn restart(&mut self, now: Nanos) {
        self.connector.restart(now);
    }

    /// Whether nothing more is tried.
    #[must_use]
    pub fn is_stopped(&self) -> bool {
        self.connector.is_stopped()
    }

    /// Whether the directory is published, so that messages are sent at once (but for images that are still
    /// due).
    #[must_use]
    pub fn is_logged_in(&self) -> bool {
        self.session.is_open()
    }

    /// Bytes that wait for the server.
    #[must_use]
    pub fn backlog_bytes(&mut self) -> usize {
        self.connector.connection().map_or(0, |connection| connection.outbound().depth_bytes())
    }

    /// Whether at most half of the backlog is used, or there is no connection.
    #[must_use]
    pub fn has_room(&mut self) -> bool {
        self.connector.open_parts().is_none_or(|(_, connection)| {
            let out = connection.outbound();
            out.depth_bytes() <= out.limit_bytes() / 2
        })
    }

    /// The services as the directory has them.
    #[must_use]
    pub fn directory(&self) -> &Directory {
        &self.session.directory
    }

    /// The image of an item, if images are kept and one was published.
    #[must_use]
    pub fn image(&self, item: PublishedItem) -> Option<&CachedItem> {
        self.session.items.table.get(item.0)?.image.as_deref()
    }

    /// What is counted of the session and its items.
    #[must_use]
    pub fn counters(&self) -> &Arc<ProviderSession> {
        &self.counters
    }

    /// What is counted of the connections below.
    #[must_use]
    pub fn connection_counters(&self) -> &Arc<RsslConnections> {
        self.connector.counters()
    }

    /// The connection, or the attempt at one, is over.
    fn lose(&mut self, now: Nanos, reason: DisconnectReason, sink: &mut dyn FnMut(ProviderEvent<'_>)) {
        let reason = self.session.take_fault().unwrap_or(reason);
        if let DisconnectReason::Connection(CloseReason::Unanswered { next: Some(version), .. }) = reason {
            self.counters.version_fallbacks.inc();
            return self.connector.fall_back(now, version);
        }
        let lost =
            if self.is_logged_in() { &self.counters.disconnects } else { &self.counters.connect_failures };
        lost.inc();
        let host = self.connector.host().clone();
        let retry_in = if let DisconnectReason::LoginRefused { .. } = reason {
            self.connector.stop();
            self.connector.drop_last();
            None
        } else {
            Some(self.connector.failed(now))
        };
        sink(ProviderEvent::Disconnected { host: &host, reason, retry_in });
        self.session.on_disconnected();
    }

    fn pump(&mut self, sink: &mut dyn FnMut(ProviderEvent<'_>)) {
        if let Some((_, connection)) = self.connector.open_parts() {
            self.session.pump(connection.outbound(), sink);
        }
    }
}

impl Endpoint for ProviderCore {
    type Event<'a> = ProviderEvent<'a>;

    fn socket(&mut self, now: Nanos) -> Socket<'_> {
        let socket = self.connector.socket(now);
        if let Socket::Connect(_) = socket {
            self.counters.connect_attempts.inc();
        }
        socket
    }

    fn on_established(&mut self, now: Nanos) {
        self.connector.open(now);
    }

    fn on_connect_failed(
        &mut self,
        now: Nanos,
        failure: ConnectFailure,
        sink: &mut dyn FnMut(ProviderEvent<'_>),
    ) {
        if self.connector.is_opening() {
            self.lose(now, failure.into(), sink);
        }
    }

    fn on_bytes<F: FnMut(ProviderEvent<'_>)>(&mut self, now: Nanos, bytes: &[u8], sink: &mut F) {
        let was_logged_in = self.is_logged_in();
        let Some((host, connection)) = self.connector.open_parts() else { return };
        let mut input = Input { session: &mut self.session, now, host, sink };
        let result = connection.on_bytes(now, bytes, &mut input);
        if !was_logged_in && self.is_logged_in() {
            self.connector.succeeded();
        }
        match result {
            Ok(()) => self.pump(sink),
            Err(reason) => self.lose(now, reason.into(), sink),
        }
    }

    fn on_disconnected(&mut self, now: Nanos, cause: Disconnect, sink: &mut dyn FnMut(ProviderEvent<'_>)) {
        if let Some((_, connection)) = self.connector.open_parts() {
            let reason = connection.on_disconnected(cause);
            self.lose(now, reason.into(), sink);
        }
    }

    fn on_wakeup(&mut self, now: Nanos, sink: &mut dyn FnMut(ProviderEvent<'_>)) {
        if let Some(limit_ms) = self.connector.exceeded_ms(now) {
            return self.lose(now, ConnectFailure::Timeout { limit_ms }.into(), sink);
        }
        let Some((_, connection)) = self.connector.open_parts() else { return };
        let kept = connection.on_wakeup(now).map_err(DisconnectReason::from);
        match kept.and_then(|()| self.session.on_wakeup(now)) {
            Ok(()) => self.pump(sink),
            Err(reason) => {
                connection.stop(Stop::Application);
                self.lose(now, reason, sink);
            }
        }
    }

    fn next_wakeup(&self) -> Nanos {
        self.connector.next_wakeup().min(self.session.next_wakeup())
    }

    fn pending(&mut self) -> &[u8] {
        self.connector.connection().map_or(&[], |connection| connection.outbound().flush())
    }

    fn consume(&mut self, _: Nanos, count_bytes: usize) {
        if let Some(connection) = self.connector.connection() {
            connection.outbound().consume(count_bytes);
            self.session.on_drained();
            if connection.outbound().depth_bytes() == 0 {
                self.connector.drop_last();
            }
        }
    }
}

//! The provider without its socket.

use std::sync::Arc;

use counters::table::{ProviderSession, RsslConnections};
use market::CachedItem;
use market::image::FieldRules;
use rdm::RdmError;
use rdm::directory::{Directory, Service};
use rssl::Disconnect;
use rwf::{Dictionary, NakCode};
use units::Nanos;

use super::session::Session;
use super::{ItemError, ProviderEvent, PublishSpec, PublishedItem, PublishedTicket};
use crate::connector::{Connector, connect_options, seconds};
use crate::lifecycle::Lifecycle;
use crate::{Attempt, ConnectFailure, Endpoint, Identity, ProviderConfig, Socket, StartError};

/// Longest message that a server has for a provider: logins are short.
const MESSAGE_MAX_BYTES: u32 = 1 << 20;

/// A non-interactive provider as a state machine: bytes and the time in, bytes and events out.
///
/// [`Provider`](crate::Provider) drives it with a socket; the simulator drives it with anything else. See
/// [`Endpoint`](crate::Endpoint) for the order of the calls.
pub struct ProviderCore {
    pub(super) life: Lifecycle<Session>,
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
        let options = connect_options!(config, identity, MESSAGE_MAX_BYTES);
        let mut plan = options.plan(&config.hosts, seed)?;
        plan.prefer_interval = seconds(config.preferred_host_check_s);
        let session = Session::new(config, identity, Arc::clone(&counters))?;
        Ok(ProviderCore { life: Lifecycle { connector: Connector::new(plan), session }, counters })
    }

    /// Takes a dictionary (a copy): fields can be put by their names, a value of another type than the
    /// dictionary's is refused, and images know which fields ripple, and which are texts that can be changed
    /// in part.
    pub fn set_dictionary(&mut self, dictionary: &Dictionary) {
        self.life.session.rules = FieldRules::of(dictionary);
        self.life.session.dictionary = Some(Arc::new(dictionary.clone()));
    }

    /// The item of a key: a new one, or the one that was published before.
    ///
    /// # Errors
    /// [`ItemError`]; nothing was done then.
    pub fn item(&mut self, spec: &PublishSpec<'_>) -> Result<PublishedItem, ItemError> {
        let service =
            self.life.session.directory.service_by_name(spec.service).ok_or(ItemError::UnknownService)?;
        self.life.session.items.open(spec, service.id)
    }

    /// Answers that a post was taken; returns whether the answer goes out: not on another connection than the
    /// post came on, nor if the backlog is full.
    pub fn ack(&mut self, ticket: PublishedTicket) -> bool {
        let out = self.life.connector.open_parts().map(|(_, connection)| connection.outbound());
        self.life.session.answer_post(ticket, None, out)
    }

    /// Answers that a post was refused; returns as [`ProviderCore::ack`] does.
    pub fn nak(&mut self, ticket: PublishedTicket, code: NakCode, text: &str) -> bool {
        let out = self.life.connector.open_parts().map(|(_, connection)| connection.outbound());
        self.life.session.answer_post(ticket, Some((code, text)), out)
    }

    /// Changes what the directory says about a service: whether it is up, what it offers. The server is told
    /// as soon as it can be.
    ///
    /// # Errors
    /// [`RdmError::UnknownService`], or what makes the service impossible, such as another's name.
    pub fn change_service(&mut self, name: &str, change: impl FnOnce(&mut Service)) -> Result<(), RdmError> {
        let unknown = RdmError::UnknownService { service_id: 0 };
        let service_id = self.life.session.directory.service_by_name(name).ok_or(unknown)?.id;
        let delta = self.life.session.directory.change(service_id, change)?;
        self.life.session.announce_changes(delta);
        Ok(())
    }

    /// Logs out and ends the connection; nothing more is tried. Write what is pending, then close the socket.
    pub fn stop(&mut self, sink: &mut dyn FnMut(ProviderEvent<'_>)) {
        // A provider's items have nothing to tell of the time.
        self.life.stop(Nanos::ZERO, sink);
    }

    /// Begins again after [`ProviderCore::stop`] or a login that was refused for good.
    pub fn restart(&mut self, now: Nanos) {
        self.life.connector.restart(now);
    }

    /// Whether nothing more is tried.
    #[must_use]
    pub fn is_stopped(&self) -> bool {
        self.life.connector.is_stopped()
    }

    /// Whether the directory is published, so that messages are sent at once (but for images that are still
    /// due).
    #[must_use]
    pub fn is_logged_in(&self) -> bool {
        self.life.session.is_open()
    }

    /// Bytes that wait for the server.
    #[must_use]
    pub fn backlog_bytes(&mut self) -> usize {
        self.life.connector.connection().map_or(0, |connection| connection.outbound().depth_bytes())
    }

    /// Whether at most half of the backlog is used, or there is no connection.
    #[must_use]
    pub fn has_room(&mut self) -> bool {
        self.life.connector.open_parts().is_none_or(|(_, connection)| {
            let out = connection.outbound();
            out.depth_bytes() <= out.limit_bytes() / 2
        })
    }

    /// The services as the directory has them.
    #[must_use]
    pub fn directory(&self) -> &Directory {
        &self.life.session.directory
    }

    /// The image of an item, if images are kept and one was published.
    #[must_use]
    pub fn image(&self, item: PublishedItem) -> Option<&CachedItem> {
        self.life.session.items.table.get(item.0)?.image.as_deref()
    }

    /// What is counted of the session and its items.
    #[must_use]
    pub fn counters(&self) -> &Arc<ProviderSession> {
        &self.counters
    }

    /// What is counted of the connections below.
    #[must_use]
    pub fn connection_counters(&self) -> &Arc<RsslConnections> {
        self.life.connector.counters()
    }
}

impl Endpoint for ProviderCore {
    type Event<'a> = ProviderEvent<'a>;

    fn socket(&mut self, now: Nanos) -> Socket<'_> {
        self.life.socket(now)
    }

    fn on_established(&mut self, now: Nanos) {
        self.life.on_established(now);
    }

    fn on_connect_failed(
        &mut self,
        now: Nanos,
        failure: ConnectFailure,
        sink: &mut dyn FnMut(ProviderEvent<'_>),
    ) {
        self.life.on_connect_failed(now, failure, sink);
    }

    #[inline]
    fn on_bytes<F: FnMut(ProviderEvent<'_>)>(&mut self, now: Nanos, bytes: &[u8], sink: &mut F) {
        self.life.on_bytes(now, bytes, sink);
    }

    fn on_disconnected(&mut self, now: Nanos, cause: Disconnect, sink: &mut dyn FnMut(ProviderEvent<'_>)) {
        self.life.on_disconnected(now, cause, sink);
    }

    fn on_wakeup(&mut self, now: Nanos, sink: &mut dyn FnMut(ProviderEvent<'_>)) {
        self.life.on_wakeup(now, sink);
    }

    fn probe(&mut self, now: Nanos) -> Option<Attempt<'_>> {
        self.life.probe(now)
    }

    fn on_reachable(&mut self, now: Nanos, sink: &mut dyn FnMut(ProviderEvent<'_>)) {
        self.life.on_reachable(now, sink);
    }

    fn next_wakeup(&self) -> Nanos {
        self.life.next_wakeup()
    }

    fn pending(&mut self) -> &[u8] {
        self.life.pending()
    }

    fn consume(&mut self, now: Nanos, count_bytes: usize) {
        self.life.consume(now, count_bytes);
    }
}

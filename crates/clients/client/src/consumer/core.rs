//! The consumer without its socket.

use std::sync::Arc;

use counters::table::{ConsumerSession, RsslConnections, WebSocketConnections};
use market::CachedItem;
use rdm::directory::Directory;
use rdm::login::StandbyRole;
use rssl::{ConfigError, Disconnect};
use rwf::{DecodeError, Dictionary, Domain, State, Value};
use units::Nanos;

use super::event::{ConsumerEvent, ConsumerSink, image_field};
use super::item::Shown;
use super::session::Session;
use super::{FieldId, FieldRef, ItemHandle, ItemRequestSpec, SubscribeError};
use crate::connector::{Connector, connect_options, seconds};
use crate::lifecycle::{Lifecycle, SessionLayer as _};
use crate::web::WebBridge;
use crate::{Attempt, ConnectFailure, ConsumerConfig, Endpoint, Identity, Socket};

/// A consumer as a state machine: bytes and the time in, bytes and events out.
///
/// [`Consumer`](crate::Consumer) drives it with a socket; the simulator drives it with anything else. See
/// [`Endpoint`](crate::Endpoint) for the order of the calls.
pub struct ConsumerCore {
    pub(super) life: Lifecycle<Session>,
    counters: Arc<ConsumerSession>,
    /// What stands between the life and the socket, if that speaks WebSocket.
    web: Option<WebBridge>,
}

impl ConsumerCore {
    /// A consumer that connects when its driver asks for the first time what to do. Host name and address of
    /// `identity` go into the connection handshake. Delays and keys follow from `seed`.
    ///
    /// # Errors
    /// [`ConfigError`] for what the connection handshake cannot hold, such as a host name of 250 bytes.
    pub fn new(config: &ConsumerConfig, identity: &Identity, seed: u64) -> Result<ConsumerCore, ConfigError> {
        let counters = Arc::new(ConsumerSession::default());
        let options = connect_options!(config, identity, config.message_max_bytes);
        let mut plan = options.plan(&config.hosts, seed)?;
        plan.prefer_interval = seconds(config.preferred_host_check_s);
        let session = Session::new(config, identity, Arc::clone(&counters));
        let life = Lifecycle { connector: Connector::new(plan), session };
        let bridge = |web| WebBridge::new(config, web, Arc::clone(&counters), seed ^ WEB_SEED);
        let web = config.websocket.as_ref().map(bridge).transpose()?;
        Ok(ConsumerCore { life, counters, web })
    }

    /// Takes the application's own dictionary; none is downloaded then.
    pub fn set_dictionary(&mut self, dictionary: Arc<Dictionary>) {
        self.life.session.dictionary.give(dictionary);
        self.life.session.watchlist.is_pump_due = true;
    }

    /// Asks for an item. It is requested as soon as its service and the dictionary are there, on each
    /// connection anew.
    ///
    /// # Errors
    /// [`SubscribeError`]; nothing was done then.
    pub fn subscribe(&mut self, spec: &ItemRequestSpec<'_>) -> Result<ItemHandle, SubscribeError> {
        self.life.session.watchlist.subscribe(spec)
    }

    /// Ends an item. Returns whether there was one; no event follows.
    pub fn unsubscribe(&mut self, handle: ItemHandle) -> bool {
        self.life.session.watchlist.unsubscribe(handle)
    }

    /// Logs out and ends the connection; nothing more is tried. Write what is pending, then close the socket.
    pub fn stop(&mut self, now: Nanos, sink: &mut dyn FnMut(ConsumerEvent<'_>)) {
        self.life.stop(now, sink);
    }

    /// Begins again after [`ConsumerCore::stop`] or a login that was refused for good.
    pub fn restart(&mut self, now: Nanos) {
        self.life.connector.restart(now);
    }

    /// The driver leaves in the socket what comes, or does so no more; to be said before each turn. As long as it does, the
    /// server is not given up for silence, and no answer is late; afterwards answers have as much longer.
    pub(super) fn hold_input(&mut self, now: Nanos, holds_input: bool) {
        self.life.session.patience.hold(now, holds_input);
        if !holds_input {
            return;
        }
        if let Some((_, connection)) = self.life.connector.open_parts() {
            connection.on_sign_of_life(now);
        }
        if let Some(web) = &mut self.web {
            web.on_sign_of_life(now);
        }
    }

    /// From now on it notes which items have ended, for [`ConsumerCore::take_ended`].
    pub(super) fn note_ended(&mut self) {
        self.life.session.watchlist.ended.get_or_insert_default();
    }

    /// The items that have ended, however, since this was asked last.
    pub(super) fn take_ended(&mut self) -> impl Iterator<Item = ItemHandle> {
        let ended = self.life.session.watchlist.ended.as_mut();
        ended.into_iter().flat_map(|ended| ended.drain(..)).map(ItemHandle)
    }

    /// Whether nothing more is tried.
    #[must_use]
    pub fn is_stopped(&self) -> bool {
        self.life.connector.is_stopped()
    }

    /// Whether the login is accepted at present.
    #[must_use]
    pub fn is_logged_in(&self) -> bool {
        self.life.session.is_logged_in()
    }

    /// The services that are known; those of the last connection while there is none.
    #[must_use]
    pub fn directory(&self) -> &Directory {
        &self.life.session.directory
    }

    /// The dictionary in use.
    #[must_use]
    pub fn dictionary(&self) -> Option<&Arc<Dictionary>> {
        self.life.session.dictionary.current()
    }

    /// The id of a field, by its name in the dictionary.
    #[must_use]
    pub fn field_id(&self, name: &str) -> Option<FieldId> {
        name.resolve(self.dictionary().map(|dictionary| &**dictionary)).map(FieldId)
    }

    /// The number of items subscribed.
    #[must_use]
    pub fn item_count(&self) -> usize {
        self.life.session.watchlist.item_count()
    }

    /// The handle of an item that is subscribed and not private.
    #[must_use]
    pub fn find(&self, service: &str, domain: Domain, name: &str) -> Option<ItemHandle> {
        self.life.session.watchlist.find(service, domain, name)
    }

    /// Service and name of an item.
    #[must_use]
    pub fn item_name(&self, handle: ItemHandle) -> Option<(&str, &str)> {
        let item = self.life.session.watchlist.item(handle)?;
        Some((self.life.session.watchlist.service_name(item), &item.name))
    }

    /// The state of an item as last reported to the application, without words; `None` before the first.
    #[must_use]
    pub fn item_state(&self, handle: ItemHandle) -> Option<State<'static>> {
        self.life.session.watchlist.item(handle)?.shown.map(Shown::as_state)
    }

    /// The image of an item with all updates merged in, if images are kept and one has come.
    #[must_use]
    pub fn image(&self, handle: ItemHandle) -> Option<&CachedItem> {
        self.life.session.watchlist.item(handle)?.image.as_deref().filter(|image| image.is_known())
    }

    /// The value of a field in the image of an item.
    ///
    /// # Errors
    /// [`DecodeError`] if the field's content is not of its type.
    pub fn image_field(
        &self,
        handle: ItemHandle,
        field: impl FieldRef,
    ) -> Result<Option<Value<'_>>, DecodeError> {
        image_field(self.image(handle), self.dictionary().map(|dictionary| &**dictionary), field)
    }

    /// What is counted of the session and its items.
    #[must_use]
    pub fn counters(&self) -> &Arc<ConsumerSession> {
        &self.counters
    }

    /// What is counted of WebSocket connections, if these are spoken.
    #[must_use]
    pub fn websocket_counters(&self) -> Option<&Arc<WebSocketConnections>> {
        self.web.as_ref().map(WebBridge::counters)
    }

    /// What is counted of the connections below. With WebSocket these are the ones within this process.
    #[must_use]
    pub fn connection_counters(&self) -> &Arc<RsslConnections> {
        self.life.connector.counters()
    }
}

/// Its place among several servers.
impl ConsumerCore {
    /// Gives the server another role, of one service or of all that have none of their own.
    pub(super) fn set_role(&mut self, service: Option<&Arc<str>>, role: StandbyRole) {
        let session = &mut self.life.session;
        if let Some(roles) = &mut session.roles {
            roles.set(service, role);
            session.watchlist.is_pump_due = true;
        }
    }

    /// Whether the server was told that nobody needs its data for this service now.
    pub(super) fn is_silent(&self, service: &str) -> bool {
        let session = &self.life.session;
        let id = session.directory.service_by_name(service).map(|service| service.id);
        session.roles.as_ref().is_some_and(|roles| roles.is_silent(id))
    }
}

/// So that the bridge draws other numbers than the life above it.
const WEB_SEED: u64 = 0x5745_4253_4f43_4b45;

impl Endpoint for ConsumerCore {
    type Event<'a> = ConsumerEvent<'a>;

    fn socket(&mut self, now: Nanos) -> Socket<'_> {
        match &mut self.web {
            None => self.life.socket(now),
            Some(web) => web.socket(&mut self.life, now),
        }
    }

    fn on_established(&mut self, now: Nanos) {
        match &mut self.web {
            None => self.life.on_established(now),
            Some(web) => web.on_established(&self.life, now),
        }
    }

    fn on_connect_failed(&mut self, now: Nanos, failure: ConnectFailure, sink: &mut ConsumerSink<'_>) {
        self.life.on_connect_failed(now, failure, sink);
    }

    #[inline]
    fn on_bytes<F: FnMut(ConsumerEvent<'_>)>(&mut self, now: Nanos, bytes: &[u8], sink: &mut F) {
        match &mut self.web {
            None => self.life.on_bytes(now, bytes, sink),
            Some(web) => web.on_bytes(&mut self.life, now, bytes, sink),
        }
    }

    fn on_disconnected(&mut self, now: Nanos, cause: Disconnect, sink: &mut ConsumerSink<'_>) {
        match &mut self.web {
            None => self.life.on_disconnected(now, cause, sink),
            Some(web) => web.on_disconnected(&mut self.life, now, cause, sink),
        }
    }

    fn on_wakeup(&mut self, now: Nanos, sink: &mut ConsumerSink<'_>) {
        match &mut self.web {
            None => self.life.on_wakeup(now, sink),
            Some(web) => web.on_wakeup(&mut self.life, now, sink),
        }
    }

    fn probe(&mut self, now: Nanos) -> Option<Attempt<'_>> {
        self.life.probe(now)
    }

    fn on_reachable(&mut self, now: Nanos, sink: &mut ConsumerSink<'_>) {
        self.life.on_reachable(now, sink);
    }

    fn next_wakeup(&self) -> Nanos {
        self.web.as_ref().map_or_else(|| self.life.next_wakeup(), |web| web.next_wakeup(&self.life))
    }

    fn pending(&mut self) -> &[u8] {
        match &mut self.web {
            None => self.life.pending(),
            Some(web) => web.pending(&mut self.life),
        }
    }

    fn consume(&mut self, now: Nanos, count_bytes: usize) {
        match &mut self.web {
            None => self.life.consume(now, count_bytes),
            Some(web) => web.consume(&mut self.life, count_bytes),
        }
    }
}

//! The interactive provider with its sockets.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use counters::table::{InteractiveSession, JsonClients, RsslConnections, WebSocketConnections};
use market::CachedItem;
use net::{Poller, Ready, clock};
use rdm::RdmError;
use rdm::directory::{Directory, Service};
use rwf::{Dictionary, Domain, NakCode, State, StateCode, Writer};
use server::ConnectionInfo;

use super::core::Core;
use super::ports::Ports;
use super::{ClientId, InteractiveEvent, PostTicket};
use crate::{
    GenericSpec, InteractiveConfig, ItemError, PublishError, PublishSpec, PublishedItem, RefreshSpec,
    StartError, UpdateSpec,
};

/// An interactive provider: clients connect to it and ask for items; it publishes them to who wants them.
///
/// Logins, the directory, the dictionary, repeated requests, batches, pauses and closes are answered here;
/// each item has one image, from which everybody who asks is served. The application is told which items are
/// wanted, and publishes them. What it publishes goes to all who want the item, encoded once.
///
/// It does its work in the calls of the application's own thread. What is published waits until
/// [`InteractiveProvider::flush`] or the next [`InteractiveProvider::dispatch`], so that messages share
/// frames and system calls.
///
/// ```no_run
/// use std::time::Duration;
/// use tickcast_client::{
///     InteractiveConfig, InteractiveEvent, InteractiveProvider, ProviderServiceConfig, Real, RefreshSpec,
///     UpdateSpec, Writer,
/// };
///
/// let services = vec![ProviderServiceConfig { name: "DIRECT_FEED".into(), id: 1, ..Default::default() }];
/// let mut provider = InteractiveProvider::new(&InteractiveConfig { services, ..Default::default() })?;
/// let quote = |n| move |w: &mut Writer<'_>| w.field_list(|f| f.put(22, Real::decimal(n, 2)));
/// let mut wanted = Vec::new();
/// for price in 3990.. {
///     for item in &wanted {
///         provider.update(*item, &UpdateSpec::quote(), quote(price))?;
///     }
///     provider.dispatch(Duration::from_millis(100), &mut |provider, event| match event {
///         InteractiveEvent::Requested { item, .. } => {
///             if provider.refresh(item, &RefreshSpec::default(), quote(price)).is_ok() {
///                 wanted.push(item);
///             }
///         }
///         InteractiveEvent::Unwanted { item } => {
///             provider.forget(item);
///             wanted.retain(|other| *other != item);
///         }
///         _ => {}
///     })?;
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct InteractiveProvider {
    core: Core,
    ports: Ports,
    poller: Poller,
    ready: Vec<Ready>,
}

impl InteractiveProvider {
    /// A provider that listens from now on.
    ///
    /// # Errors
    /// [`StartError`] for a port that is taken, a configuration that cannot be used, or a system without
    /// resources.
    pub fn new(config: &InteractiveConfig) -> Result<InteractiveProvider, StartError> {
        let core = Core::new(config)?;
        let poller = Poller::new()?;
        let mut ports = Ports::open(config, poller.registrar())?;
        ports.update_services(&core);
        Ok(InteractiveProvider { core, ports, poller, ready: Vec::new() })
    }

    /// The same with a dictionary, which clients can download; its services announce it. Fields can then be
    /// put by their names, a value of another type than the dictionary's is refused, and images know which
    /// fields ripple, and which are texts that can be changed in part.
    #[must_use]
    pub fn with_dictionary(mut self, dictionary: Arc<Dictionary>) -> InteractiveProvider {
        self.ports.set_dictionary(&dictionary);
        self.core.set_dictionary(dictionary);
        self
    }

    /// The address that it takes encrypted RSSL connections on, if it does.
    ///
    /// # Errors
    /// None in practice.
    pub fn tls_address(&self) -> io::Result<Option<SocketAddr>> {
        self.ports.tls_address()
    }

    /// The address that it listens on for RSSL.
    ///
    /// # Errors
    /// None in practice.
    pub fn local_address(&self) -> io::Result<SocketAddr> {
        self.ports.local_address()
    }

    /// The address that it listens on for WebSocket, if it does.
    ///
    /// # Errors
    /// None in practice.
    pub fn websocket_address(&self) -> io::Result<Option<SocketAddr>> {
        self.ports.websocket_address()
    }

    /// The address that it takes encrypted WebSocket connections on, if it does.
    ///
    /// # Errors
    /// None in practice.
    pub fn websocket_tls_address(&self) -> io::Result<Option<SocketAddr>> {
        self.ports.websocket_tls_address()
    }

    /// Waits for events, for at most `timeout`, and gives all that there are to `on_event`, with the provider
    /// to answer them. Returns their number. What was published is written.
    ///
    /// # Errors
    /// The system refuses to wait for the sockets. What happens to connections comes as events.
    pub fn dispatch(
        &mut self,
        timeout: Duration,
        on_event: &mut impl FnMut(&mut InteractiveProvider, InteractiveEvent),
    ) -> io::Result<usize> {
        let deadline = clock::monotonic().after(timeout);
        self.look(Duration::ZERO)?;
        loop {
            let count = self.work(on_event);
            let now = clock::monotonic();
            if count > 0 || now >= deadline {
                return Ok(count);
            }
            self.look(self.ports.next_wakeup().min(deadline).since(now))?;
        }
    }

    /// Writes what was published, as far as sockets take it; the rest follows with
    /// [`InteractiveProvider::dispatch`].
    pub fn flush(&mut self) {
        self.ports.flush(clock::monotonic(), &mut self.core);
    }

    /// Waits for the sockets, for at most `timeout`.
    fn look(&mut self, timeout: Duration) -> io::Result<()> {
        self.ready.clear();
        self.ready.extend(self.poller.wait(Some(timeout))?);
        Ok(())
    }

    /// Does what there is to do; returns the number of events.
    fn work(&mut self, on_event: &mut impl FnMut(&mut InteractiveProvider, InteractiveEvent)) -> usize {
        let now = clock::monotonic();
        for ready in self.ready.drain(..) {
            self.ports.on_ready(now, ready, &mut self.core);
        }
        self.ports.on_wakeup(now, &mut self.core);
        let mut count = 0;
        loop {
            while let Some(event) = self.core.take_event() {
                count += 1;
                on_event(self, event);
            }
            self.ports.flush(now, &mut self.core);
            // A connection that did not keep up is gone.
            if self.core.events.is_empty() {
                return count;
            }
        }
    }
}

/// What is published.
impl InteractiveProvider {
    /// The item of a key, whether somebody wants it or not: one that has an image is served from it, and the
    /// application is not asked for it.
    ///
    /// # Errors
    /// [`ItemError`]; nothing was done then.
    pub fn item(&mut self, domain: Domain, service: &str, name: &str) -> Result<PublishedItem, ItemError> {
        self.core.item(&PublishSpec::new(domain, service, name))
    }

    /// The same with more to say about the item.
    ///
    /// # Errors
    /// As [`InteractiveProvider::item`].
    pub fn item_with(&mut self, spec: &PublishSpec<'_>) -> Result<PublishedItem, ItemError> {
        self.core.item(spec)
    }

    /// Publishes the whole image of an item, written by `payload`, which may be called twice and must then
    /// write the same. Returns how many streams get it.
    ///
    /// # Errors
    /// [`PublishError`]. After [`PublishError::Payload`] the item has no image.
    pub fn refresh(
        &mut self,
        item: PublishedItem,
        spec: &RefreshSpec<'_>,
        payload: impl FnMut(&mut Writer<'_>),
    ) -> Result<usize, PublishError> {
        self.core.refresh(item, spec, payload, &mut self.ports.wires())
    }

    /// Publishes a change, written by `payload` as in [`InteractiveProvider::refresh`]. Returns how many
    /// streams get it.
    ///
    /// # Errors
    /// [`PublishError`]. After [`PublishError::Payload`] the item has no image.
    #[inline]
    pub fn update(
        &mut self,
        item: PublishedItem,
        spec: &UpdateSpec<'_>,
        payload: impl FnMut(&mut Writer<'_>),
    ) -> Result<usize, PublishError> {
        self.core.update(item, spec, payload, &mut self.ports.wires())
    }

    /// Publishes a state. One that is not open ends the item: its handle is void from now on. Returns how
    /// many streams get it.
    ///
    /// # Errors
    /// [`PublishError`] says what stood against it.
    pub fn status(&mut self, item: PublishedItem, state: State<'_>) -> Result<usize, PublishError> {
        self.core.status(item, state, &mut self.ports.wires())
    }

    /// Ends an item for good: there is none of that name ([`StateCode::NOT_FOUND`]), say. Returns how many
    /// streams are told.
    ///
    /// # Errors
    /// [`PublishError`] says what stood against it.
    pub fn close_item(
        &mut self,
        item: PublishedItem,
        code: StateCode,
        text: &str,
    ) -> Result<usize, PublishError> {
        self.core.close(item, code, text, &mut self.ports.wires())
    }

    /// Forgets an item that nobody wants; returns whether it was so. The application is asked again when
    /// somebody wants it again.
    pub fn forget(&mut self, item: PublishedItem) -> bool {
        self.core.forget(item)
    }

    /// Sends a generic message to all who want an item; returns how many these are.
    ///
    /// # Errors
    /// [`PublishError`] says what stood against it.
    pub fn send_generic(
        &mut self,
        item: PublishedItem,
        spec: &GenericSpec<'_>,
        payload: impl FnMut(&mut Writer<'_>),
    ) -> Result<usize, PublishError> {
        self.core.generic(item, spec, payload, &mut self.ports.wires())
    }

    /// Changes what the directory says about a service: whether it is up, what it offers. Who listens is
    /// told.
    ///
    /// # Errors
    /// [`RdmError::UnknownService`], or what makes the service impossible, such as another's name.
    pub fn change_service(&mut self, name: &str, change: impl FnOnce(&mut Service)) -> Result<(), RdmError> {
        let result = self.core.change_service(name, change, &mut self.ports.wires());
        self.ports.update_services(&self.core);
        result
    }
}

/// What is answered.
impl InteractiveProvider {
    /// Lets a client in; returns whether there is one that has asked for it.
    pub fn accept_login(&mut self, client: ClientId) -> bool {
        self.core.accept_login(client, &mut self.ports.wires())
    }

    /// Refuses a login for good; returns whether there was one that waited.
    pub fn reject_login(&mut self, client: ClientId, code: StateCode, text: &str) -> bool {
        self.core.reject_login(client, code, text, &mut self.ports.wires())
    }

    /// Answers that a post was taken; returns whether its client is still there.
    pub fn ack(&mut self, ticket: PostTicket) -> bool {
        self.core.answer_post(ticket, None, &mut self.ports.wires())
    }

    /// Answers that a post was refused; returns whether its client is still there.
    pub fn nak(&mut self, ticket: PostTicket, code: NakCode, text: &str) -> bool {
        self.core.answer_post(ticket, Some((code, text)), &mut self.ports.wires())
    }
}

/// What there is.
impl InteractiveProvider {
    /// Domain and name of an item.
    #[must_use]
    pub fn item_name(&self, item: PublishedItem) -> Option<(Domain, &str)> {
        self.core.items.table.get(item.0).map(|item| (item.domain, &*item.name))
    }

    /// How many streams want an item.
    #[must_use]
    pub fn watcher_count(&self, item: PublishedItem) -> usize {
        self.core.items.table.get(item.0).map_or(0, |item| item.watchers().count())
    }

    /// The image of an item, if one was published.
    #[must_use]
    pub fn image(&self, item: PublishedItem) -> Option<&CachedItem> {
        self.core.items.table.get(item.0).map(|item| &item.image).filter(|image| image.is_known())
    }

    /// The services as the directory has them.
    #[must_use]
    pub fn directory(&self) -> &Directory {
        &self.core.directory
    }

    /// What is counted of clients and items.
    #[must_use]
    pub fn counters(&self) -> &Arc<InteractiveSession> {
        &self.core.counters
    }

    /// What is counted of the RSSL connections below.
    #[must_use]
    pub fn connection_counters(&self) -> &Arc<RsslConnections> {
        &self.ports.connections
    }

    /// What is counted of the WebSocket connections below, if there is such a port.
    #[must_use]
    pub fn websocket_counters(&self) -> Option<&Arc<WebSocketConnections>> {
        self.ports.web.as_ref().map(|web| &web.connections)
    }

    /// What is counted of the way to JSON and back, if there is a WebSocket port.
    #[must_use]
    pub fn json_counters(&self) -> Option<&Arc<JsonClients>> {
        self.ports.json_counters()
    }

    /// What has gone through the connection of a client, and what waits for it.
    #[must_use]
    pub fn connection(&mut self, client: ClientId) -> Option<ConnectionInfo> {
        self.core.is_present(client).then(|| self.ports.connection(client.connection)).flatten()
    }
}

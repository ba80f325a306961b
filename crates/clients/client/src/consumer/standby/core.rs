//! The consumer with warm standby without its sockets.

use std::sync::Arc;
use std::time::Duration;

use counters::table::{ConsumerSession, WarmStandby};
use market::{CachedItem, Scratch};
use rdm::directory::Directory;
use rdm::login::StandbyRole;
use rssl::{ConfigError, Disconnect};
use rwf::{DecodeError, Dictionary, Domain, State, Value};
use units::Nanos;

use super::roles::Roles;
use super::state::StandbyState;
use crate::consumer::event::{ConsumerEvent, ConsumerSink, image_field};
use crate::consumer::item::Shown;
use crate::consumer::{ConsumerCore, FieldId, FieldRef, ItemHandle};
use crate::{
    Attempt, ConnectFailure, ConsumerConfig, Endpoint, HostPort, Identity, Socket, StandbyMode,
    WarmStandbyConfig,
};

/// A consumer with warm standby as a state machine: bytes and the time in, bytes and events out.
///
/// Server 0 is that of the [`ConsumerConfig`], the others are those of the [`WarmStandbyConfig`] in their
/// order. Each is an [`Endpoint`] of its own: [`StandbyCore::at`] says which one the calls that follow are
/// for.
pub struct StandbyCore {
    pub(super) members: Vec<ConsumerCore>,
    pub(super) state: StandbyState,
    /// Which server is spoken of.
    at: usize,
    pub(super) scratch: Scratch,
    pub(super) catch_up: Duration,
    pub(super) returns: bool,
    /// When it is looked whether a preferred server has the items; never as long as none waits for that.
    pub(super) return_at: Nanos,
    pub(super) last_post_id: u32,
}

impl StandbyCore {
    /// A consumer that connects to all its servers when its driver asks for the first time what to do.
    ///
    /// Whatever `config` says, items are recovered here (single open) and images are kept: the switch is
    /// made of them.
    ///
    /// # Errors
    /// [`ConfigError`] for what the connection handshake cannot hold.
    pub fn new(
        config: &ConsumerConfig,
        standby: &WarmStandbyConfig,
        identity: &Identity,
        seed: u64,
    ) -> Result<StandbyCore, ConfigError> {
        let others = standby.servers.iter();
        let hosts = std::iter::once(&config.hosts).chain(others.clone().map(|server| &server.hosts));
        let services = others.map(|server| &server.services[..]);
        let preferred: Vec<&[String]> = std::iter::once(&standby.services[..]).chain(services).collect();
        let mut members = Vec::new();
        for (server, hosts) in hosts.enumerate() {
            let config = ConsumerConfig {
                hosts: hosts.clone(),
                single_open: true,
                keep_images: true,
                ..config.clone()
            };
            let seed = seed.wrapping_add((server as u64).wrapping_mul(SEED_STEP));
            let mut member = ConsumerCore::new(&config, identity, seed)?;
            let role = if server == 0 { StandbyRole::Active } else { StandbyRole::Standby };
            member.life.session.roles = standby.tells_roles.then(|| Roles::new(standby.mode, role));
            members.push(member);
        }
        let state = StandbyState::new(standby.mode, preferred, Arc::default());
        let mut core = StandbyCore {
            members,
            state,
            at: 0,
            scratch: Scratch::default(),
            catch_up: Duration::from_millis(standby.catch_up_ms.into()),
            returns: standby.returns,
            return_at: Nanos::NEVER,
            last_post_id: 0,
        };
        if standby.mode == StandbyMode::Service {
            for name in preferred_services(standby) {
                core.unit_of(name);
            }
        }
        Ok(core)
    }

    /// How many servers there are.
    #[must_use]
    pub fn server_count(&self) -> usize {
        self.members.len()
    }

    /// The core as the endpoint of one of its servers, below [`StandbyCore::server_count`].
    ///
    /// # Panics
    /// There is no such server.
    pub fn at(&mut self, server: usize) -> &mut StandbyCore {
        assert!(server < self.members.len(), "server {server} of {}", self.members.len());
        self.at = server;
        self
    }

    /// Takes the application's own dictionary; none is downloaded then.
    pub fn set_dictionary(&mut self, dictionary: &Arc<Dictionary>) {
        for member in &mut self.members {
            member.set_dictionary(Arc::clone(dictionary));
        }
    }

    /// Logs out everywhere and ends the connections; nothing more is tried. Write what is pending, then close
    /// the sockets.
    pub fn stop(&mut self, now: Nanos, mut sink: &mut dyn FnMut(ConsumerEvent<'_>)) {
        self.state.is_stopping = true;
        let StandbyCore { members, state, .. } = self;
        for (server, member) in members.iter_mut().enumerate() {
            member.stop(now, &mut |event| state.on_event(server, event, &mut sink));
        }
    }

    /// Begins again after [`StandbyCore::stop`], or at servers that have refused the login for good.
    pub fn restart(&mut self, now: Nanos) {
        self.state.is_stopping = false;
        self.members.iter_mut().for_each(|member| member.restart(now));
    }

    /// Whether nothing more is tried at any server.
    #[must_use]
    pub fn is_stopped(&self) -> bool {
        self.members.iter().all(ConsumerCore::is_stopped)
    }

    /// Whether the login is accepted at some server at present.
    #[must_use]
    pub fn is_logged_in(&self) -> bool {
        self.members.iter().any(ConsumerCore::is_logged_in)
    }

    /// The server that is the active one for a service, whether it is there or not.
    #[must_use]
    pub fn active_for(&self, service: &str) -> usize {
        self.state.active_for(service)
    }

    /// Where a server is, or was last tried.
    #[must_use]
    pub fn host(&self, server: usize) -> Option<&HostPort> {
        Some(self.members.get(server)?.life.connector.host())
    }

    /// The services that a server has; see [`ConsumerCore::directory`].
    #[must_use]
    pub fn directory(&self, server: usize) -> Option<&Directory> {
        self.members.get(server).map(ConsumerCore::directory)
    }

    /// The dictionary of the first server that has one.
    #[must_use]
    pub fn dictionary(&self) -> Option<&Arc<Dictionary>> {
        self.members.iter().find_map(ConsumerCore::dictionary)
    }

    /// The id of a field, by its name in the dictionary.
    #[must_use]
    pub fn field_id(&self, name: &str) -> Option<FieldId> {
        name.resolve(self.dictionary().map(|dictionary| &**dictionary)).map(FieldId)
    }

    /// The number of items subscribed.
    #[must_use]
    pub fn item_count(&self) -> usize {
        self.state.items.len()
    }

    /// The handle of an item that is subscribed and not private.
    #[must_use]
    pub fn find(&self, service: &str, domain: Domain, name: &str) -> Option<ItemHandle> {
        let active = self.state.active_for(service);
        let at_server = self.members[active].find(service, domain, name)?;
        self.state.servers[active].by_handle.get(&at_server).copied().map(ItemHandle)
    }

    /// Service and name of an item.
    #[must_use]
    pub fn item_name(&self, handle: ItemHandle) -> Option<(&str, &str)> {
        let wish = &self.state.items.get(handle.0)?.wish;
        Some((&wish.service, &wish.name))
    }

    /// The state of an item as last reported to the application, without words; `None` before the first.
    #[must_use]
    pub fn item_state(&self, handle: ItemHandle) -> Option<State<'static>> {
        self.state.items.get(handle.0)?.shown.map(Shown::as_state)
    }

    /// The image that the active server's messages have made of an item, if one has come.
    #[must_use]
    pub fn image(&self, handle: ItemHandle) -> Option<&CachedItem> {
        let (server, item) = self.state.at_active(handle)?;
        self.members[server].image(item)
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

    /// What is counted of the switches.
    #[must_use]
    pub fn counters(&self) -> &Arc<WarmStandby> {
        &self.state.counters
    }

    /// What is counted of the session with a server.
    #[must_use]
    pub fn session_counters(&self, server: usize) -> Option<&Arc<ConsumerSession>> {
        self.members.get(server).map(ConsumerCore::counters)
    }
}

/// So that the servers' sessions draw other numbers.
const SEED_STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// The services for which a server is the preferred one.
fn preferred_services(standby: &WarmStandbyConfig) -> impl Iterator<Item = &str> {
    let of_servers = standby.servers.iter().flat_map(|server| &server.services);
    standby.services.iter().chain(of_servers).map(String::as_str)
}

/// Gives a call to the server that is spoken of, and looks at what it means for the others.
macro_rules! of_member {
    ($core:ident, $now:ident, $sink:ident, $call:ident($($argument:expr),*)) => {{
        let StandbyCore { members, state, at, .. } = $core;
        let (server, member) = (*at, &mut members[*at]);
        let sink = &mut |event: ConsumerEvent<'_>| state.on_event(server, event, $sink);
        member.$call($now, $($argument,)* sink);
        $core.settle($now, server, $sink);
    }};
}

impl Endpoint for StandbyCore {
    type Event<'a> = ConsumerEvent<'a>;

    fn socket(&mut self, now: Nanos) -> Socket<'_> {
        self.members[self.at].socket(now)
    }

    fn on_established(&mut self, now: Nanos) {
        self.members[self.at].on_established(now);
    }

    fn on_connect_failed(&mut self, now: Nanos, failure: ConnectFailure, mut sink: &mut ConsumerSink<'_>) {
        let sink = &mut sink;
        of_member!(self, now, sink, on_connect_failed(failure));
    }

    #[inline]
    fn on_bytes<F: FnMut(ConsumerEvent<'_>)>(&mut self, now: Nanos, bytes: &[u8], sink: &mut F) {
        of_member!(self, now, sink, on_bytes(bytes));
    }

    fn on_disconnected(&mut self, now: Nanos, cause: Disconnect, mut sink: &mut ConsumerSink<'_>) {
        let sink = &mut sink;
        of_member!(self, now, sink, on_disconnected(cause));
    }

    fn on_wakeup(&mut self, now: Nanos, mut sink: &mut ConsumerSink<'_>) {
        let sink = &mut sink;
        of_member!(self, now, sink, on_wakeup());
    }

    fn probe(&mut self, now: Nanos) -> Option<Attempt<'_>> {
        self.members[self.at].probe(now)
    }

    fn on_reachable(&mut self, now: Nanos, mut sink: &mut ConsumerSink<'_>) {
        let sink = &mut sink;
        of_member!(self, now, sink, on_reachable());
    }

    fn next_wakeup(&self) -> Nanos {
        let waits_due = self.state.waits_due.front().map_or(Nanos::NEVER, |(due, _)| *due);
        self.members[self.at].next_wakeup().min(waits_due).min(self.return_at)
    }

    fn pending(&mut self) -> &[u8] {
        self.members[self.at].pending()
    }

    fn consume(&mut self, now: Nanos, count_bytes: usize) {
        self.members[self.at].consume(now, count_bytes);
    }
}

//! What providers publish.

use std::collections::HashMap;

use rdm::dictionary::{DictionaryMsg, DictionaryParts, PartSizes};
use rdm::directory::{Directory, DirectoryMsg, DirectoryRefresh, Filter, Service};
use rdm::item::has_items;
use rdm::login::{LoginMsg, LoginRefresh, LoginRequest, LoginStatus, Role};
use rdm::{RdmError, Reply, ToVec};
use rwf::{
    DataState, DecodeError, Domain, Key, Msg, MsgClass, RefreshMsg, State, StateCode, StatusMsg, StreamState,
    UpdateMsg, peek,
};
use units::Nanos;

use super::stream::Stream;
use super::{Distributor, DistributorSink, Item, ProviderId, PublishedService, status_bytes};
use crate::backbone::Kind;
use crate::cached::{CachedItem, RefreshForm};
use crate::key::{ItemKey, OwnedKey};

/// One provider connection.
#[derive(Debug, Default)]
pub(super) struct Provider {
    /// The user it has logged in as.
    user: Option<String>,
    /// What it says about its services, under its own ids.
    directory: Directory,
    /// Our ids of its services.
    service_ids: HashMap<u16, u16>,
    /// The items of its streams, by their places in the table.
    streams: HashMap<i32, usize>,
}

/// Why a provider's connection is to be closed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ProviderError {
    /// Bytes that are not an RWF message, or a payload that is not what its type says.
    Malformed(DecodeError),
    /// A directory that does not mean what it has to mean.
    Directory(RdmError),
    /// The login was refused; the answer says why.
    LoginRefused,
    /// It has logged out.
    LoggedOut,
}

impl std::fmt::Display for ProviderError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            ProviderError::Malformed(e) => write!(f, "malformed message: {e}"),
            ProviderError::Directory(e) => write!(f, "source directory: {e}"),
            ProviderError::LoginRefused => f.write_str("the login was refused"),
            ProviderError::LoggedOut => f.write_str("logged out"),
        }
    }
}

impl std::error::Error for ProviderError {}

impl From<DecodeError> for ProviderError {
    fn from(e: DecodeError) -> Self {
        ProviderError::Malformed(e)
    }
}

/// Connections.
impl Distributor {
    /// A provider has completed its handshake.
    pub fn on_provider_connected(&mut self, provider: ProviderId) {
        self.providers.insert(provider, Provider::default());
    }

    /// A connection is gone: the services it published are down and their items suspect, until somebody
    /// publishes them again.
    pub fn on_provider_closed(&mut self, now: Nanos, provider: ProviderId, sink: &mut impl DistributorSink) {
        if self.providers.remove(&provider).is_none() {
            return;
        }
        let published: Vec<u16> =
            self.services.iter().filter(|(_, s)| s.provider == Some(provider)).map(|(id, _)| *id).collect();
        for id in published {
            self.service_lost(id);
        }
        self.count_providers();
        self.publish_directory_if_due(now, sink);
    }

    fn service_lost(&mut self, id: u16) {
        let Some(service) = self.services.get_mut(&id) else { return };
        service.provider = None;
        service.definition.state.up = false;
        service.settled_at = Nanos::NEVER;
        for (_, item) in self.items.iter_mut().filter(|(_, i)| i.key.service == id) {
            item.cached.suspect(StateCode::NONE, "the provider has gone");
        }
        self.is_directory_due = true;
    }

    fn count_providers(&self) {
        let logged_in = self.providers.values().filter(|p| p.user.is_some()).count();
        self.counters.providers.set(logged_in as u64);
    }

    /// Whether a provider has logged in.
    #[must_use]
    pub fn is_logged_in(&self, provider: ProviderId) -> bool {
        self.providers.get(&provider).is_some_and(|p| p.user.is_some())
    }

    /// The users of the providers that are logged in, for status pages.
    pub fn provider_users(&self) -> impl Iterator<Item = &str> + '_ {
        self.providers.values().filter_map(|p| p.user.as_deref())
    }

    /// A message of a provider.
    ///
    /// # Errors
    /// The connection has to be closed, after what was sent to it is out.
    #[inline]
    pub fn on_provider_message(
        &mut self,
        now: Nanos,
        provider: ProviderId,
        bytes: &[u8],
        sink: &mut impl DistributorSink,
    ) -> Result<(), ProviderError> {
        let result = self.provider_message(now, provider, bytes, sink);
        if matches!(result, Err(ProviderError::Malformed(_) | ProviderError::Directory(_))) {
            self.counters.messages_refused.inc();
        }
        result
    }

    #[inline]
    fn provider_message(
        &mut self,
        now: Nanos,
        provider: ProviderId,
        bytes: &[u8],
        sink: &mut impl DistributorSink,
    ) -> Result<(), ProviderError> {
        let head = peek(bytes)?;
        if head.class == MsgClass::Update && has_items(head.domain) {
            return self.on_update(now, provider, bytes, sink);
        }
        let msg = Msg::parse(bytes)?;
        let Some(known) = self.providers.get(&provider) else { return Ok(()) };
        if head.domain != Domain::LOGIN && known.user.is_none() {
            self.counters.messages_refused.inc();
            let answer = Reply::to(&msg).closed(StateCode::USAGE_ERROR, "log in first");
            sink.to_provider(provider, self.encoding.encode(|w| answer.encode(w)));
            return Ok(());
        }
        match (&msg, head.domain) {
            (_, Domain::LOGIN) => return self.on_login(now, provider, &msg, sink),
            (_, Domain::SOURCE) => return self.on_directory(now, provider, &msg, sink),
            (_, Domain::DICTIONARY) => self.on_dictionary(provider, &msg, sink),
            (Msg::Refresh(refresh), _) => return self.on_refresh(now, provider, refresh, sink),
            (Msg::Status(status), _) => self.on_status(now, provider, status, sink),
            (Msg::Request(_), _) => {
                self.counters.messages_refused.inc();
                let text = "this port is for providers, consumers connect to a point-to-point server";
                let answer = Reply::to(&msg).closed(StateCode::USAGE_ERROR, text);
                sink.to_provider(provider, self.encoding.encode(|w| answer.encode(w)));
            }
            _ => self.counters.messages_refused.inc(),
        }
        Ok(())
    }

    fn on_login(
        &mut self,
        now: Nanos,
        provider: ProviderId,
        msg: &Msg<'_>,
        sink: &mut impl DistributorSink,
    ) -> Result<(), ProviderError> {
        match LoginMsg::parse(msg) {
            Ok(LoginMsg::Request(request)) => self.on_login_request(provider, &request, sink),
            Ok(LoginMsg::Close(_)) => {
                self.on_provider_closed(now, provider, sink);
                Err(ProviderError::LoggedOut)
            }
            Ok(_) => Ok(()),
            Err(error) => {
                self.counters.messages_refused.inc();
                if let Ok(answer) = Reply::to(msg).refuse(&error) {
                    sink.to_provider(provider, &answer);
                }
                Err(ProviderError::LoginRefused)
            }
        }
    }

    fn on_login_request(
        &mut self,
        provider: ProviderId,
        request: &LoginRequest<'_>,
        sink: &mut impl DistributorSink,
    ) -> Result<(), ProviderError> {
        if request.role == Role::Consumer {
            let text = "this port is for providers, consumers connect to a point-to-point server";
            if let Ok(answer) = LoginStatus::reject(request, StateCode::USAGE_ERROR, text).to_vec() {
                sink.to_provider(provider, &answer);
            }
            return Err(ProviderError::LoginRefused);
        }
        if let Some(known) = self.providers.get_mut(&provider) {
            known.user = Some(String::from_utf8_lossy(request.name).into_owned());
        }
        self.count_providers();
        let mut answer =
            LoginRefresh { application_name: Some(b"tickcast"), ..LoginRefresh::accept(request) };
        answer.features.provider_dictionary_download = Some(true);
        match answer.to_vec() {
            Ok(_) if request.no_refresh => Ok(()),
            Ok(answer) => {
                sink.to_provider(provider, &answer);
                Ok(())
            }
            Err(_) => Err(ProviderError::LoginRefused),
        }
    }

    fn on_dictionary(&mut self, provider: ProviderId, msg: &Msg<'_>, sink: &mut impl DistributorSink) {
        let parts = match DictionaryMsg::parse(msg) {
            Ok(DictionaryMsg::Request(request)) => {
                DictionaryParts::new(&request, &self.dictionary, PartSizes::default())
            }
            Ok(_) => return,
            Err(error) => Err(error),
        };
        match parts {
            Ok(parts) => parts.flatten().for_each(|part| sink.to_provider(provider, &part)),
            Err(error) => {
                self.counters.messages_refused.inc();
                if let Ok(answer) = Reply::to(msg).refuse(&error) {
                    sink.to_provider(provider, &answer);
                }
            }
        }
    }
}

/// Services.
impl Distributor {
    fn on_directory(
        &mut self,
        now: Nanos,
        provider: ProviderId,
        msg: &Msg<'_>,
        sink: &mut impl DistributorSink,
    ) -> Result<(), ProviderError> {
        let Some(known) = self.providers.get_mut(&provider) else { return Ok(()) };
        match DirectoryMsg::parse(msg).map_err(ProviderError::Directory)? {
            DirectoryMsg::Refresh(refresh) => {
                known.directory.apply_refresh(&refresh).map_err(ProviderError::Directory)?;
            }
            DirectoryMsg::Update(update) => {
                known.directory.apply_update(&update).map_err(ProviderError::Directory)?;
            }
            DirectoryMsg::Request(_)
            | DirectoryMsg::Status(_)
            | DirectoryMsg::Close(_)
            | DirectoryMsg::Generic(_) => {
                self.counters.messages_refused.inc();
                return Ok(());
            }
        }
        let services: Vec<Service> = known.directory.services().cloned().collect();
        self.withdraw_missing(provider, &services, now, sink);
        for service in services {
            self.take_service(now, provider, service, sink);
        }
        self.publish_directory_if_due(now, sink);
        Ok(())
    }

    /// A service as its provider describes it; whoever described it last publishes it.
    fn take_service(
        &mut self,
        now: Nanos,
        provider: ProviderId,
        mut definition: Service,
        sink: &mut impl DistributorSink,
    ) {
        let theirs = definition.id;
        let Some(ours) = self.service_id(&definition).filter(|_| can_be_told(&definition)) else {
            self.counters.messages_refused.inc();
            return;
        };
        definition.id = ours;
        if let Some(known) = self.providers.get_mut(&provider) {
            known.service_ids.insert(theirs, ours);
        }
        let settled_at = if definition.state.up { now + self.config.settle_time } else { Nanos::NEVER };
        match self.services.get_mut(&ours) {
            Some(service) => {
                let came_up = definition.state.up && !service.definition.state.up;
                if came_up || service.provider != Some(provider) || !definition.state.up {
                    service.settled_at = settled_at;
                }
                self.is_directory_due |= service.definition != definition;
                service.provider = Some(provider);
                service.definition = definition;
            }
            None => {
                sink.open_stream(ours, &definition.info.name);
                let stream = Stream::new(ours, self.instance, self.config.gap_memory);
                let service = PublishedService { definition, provider: Some(provider), stream, settled_at };
                self.services.insert(ours, service);
                self.is_directory_due = true;
            }
        }
    }

    /// The id that a service has in the whole system: as configured, else the one it has, whoever published
    /// it before, else the provider's own; `None` if another service has it, or there are too many.
    fn service_id(&self, definition: &Service) -> Option<u16> {
        let name = &definition.info.name;
        let is_of_name = |s: &&PublishedService| s.definition.info.name == *name;
        let known = self.services.values().find(is_of_name).map(|s| s.definition.id);
        let id = match self.config.service_ids.get(name).copied().or(known) {
            Some(id) => id,
            None if self.config.service_ids.values().any(|&id| id == definition.id) => return None,
            None => definition.id,
        };
        let is_free = match self.services.get(&id) {
            Some(taken) => taken.definition.info.name == *name,
            None => self.services.len() < self.config.services_max,
        };
        is_free.then_some(id)
    }

    /// A service that its provider no longer lists is closed with all its items.
    fn withdraw_missing(
        &mut self,
        provider: ProviderId,
        listed: &[Service],
        now: Nanos,
        sink: &mut impl DistributorSink,
    ) {
        let is_listed = |s: &PublishedService| listed.iter().any(|l| l.info.name == s.definition.info.name);
        let gone: Vec<u16> = self
            .services
            .iter()
            .filter(|(_, s)| s.provider == Some(provider) && !is_listed(s))
            .map(|(id, _)| *id)
            .collect();
        for id in gone {
            let items: Vec<usize> =
                self.items.iter().filter(|(_, i)| i.key.service == id).map(|(index, _)| index).collect();
            let state = State::new(StreamState::ClosedRecover, DataState::Suspect)
                .because(StateCode::SOURCE_UNKNOWN, "the provider has withdrawn the service");
            for index in items {
                let status = status_bytes(self.items[index].key.as_key(), state);
                self.close_item(now, index, &status, sink);
            }
            self.services.remove(&id);
            sink.close_stream(id);
            self.is_directory_due = true;
        }
    }
}

/// Whether directories can hold a service: its parts came in several messages, and servers add to them.
fn can_be_told(definition: &Service) -> bool {
    let refresh = DirectoryRefresh::publish(0, Filter::ALL, [definition]);
    let bytes = refresh.ok().and_then(|refresh| refresh.to_vec().ok());
    bytes.is_some_and(|bytes| bytes.len() <= DEFINITION_MAX_BYTES)
}

/// Half of what one entry of a filter list can hold.
const DEFINITION_MAX_BYTES: usize = 32 << 10;

/// Items.
impl Distributor {
    #[inline]
    fn on_update(
        &mut self,
        now: Nanos,
        provider: ProviderId,
        bytes: &[u8],
        sink: &mut impl DistributorSink,
    ) -> Result<(), ProviderError> {
        self.counters.updates_in.inc();
        let msg = UpdateMsg::parse(bytes)?;
        let Some(index) = self.item_of(provider, msg.stream_id, msg.domain, msg.key) else {
            self.counters.updates_without_image.inc();
            return Ok(());
        };
        let item = &mut self.items[index];
        item.cached.on_update(&msg, &self.rules)?;
        if item.peers.is_empty() {
            self.counters.updates_unwanted.inc();
            return Ok(());
        }
        let (Some(service), Some(id)) = (self.services.get_mut(&item.key.service), item.id) else {
            return Ok(());
        };
        // Consumers find the item by their stream; a key would hold the provider's service id.
        let body = match msg.key {
            None => bytes,
            Some(_) => self.encoding.encode(|w| UpdateMsg { key: None, ..msg }.encode(w)),
        };
        service.stream.send(now, Kind::Update, id, body, sink);
        self.counters.stream_messages_out.inc();
        Ok(())
    }

    /// The item of a provider's stream, or of the key in the message.
    #[inline]
    fn item_of(
        &self,
        provider: ProviderId,
        stream_id: i32,
        domain: Domain,
        key: Option<Key<'_>>,
    ) -> Option<usize> {
        let known = self.providers.get(&provider)?;
        if let Some(&index) = known.streams.get(&stream_id) {
            return Some(index);
        }
        self.find(self.key_of(provider, domain, key?)?)
    }

    /// A provider's key with our service id; `None` if it is incomplete or the service is not its to publish.
    fn key_of<'k>(&self, provider: ProviderId, domain: Domain, key: Key<'k>) -> Option<ItemKey<'k>> {
        let service = *self.providers.get(&provider)?.service_ids.get(&key.service_id?)?;
        let is_publisher = self.services.get(&service)?.provider == Some(provider);
        is_publisher.then_some(ItemKey { service, domain, name: key.name? })
    }

    fn on_refresh(
        &mut self,
        now: Nanos,
        provider: ProviderId,
        msg: &RefreshMsg<'_>,
        sink: &mut impl DistributorSink,
    ) -> Result<(), ProviderError> {
        self.counters.refreshes_in.inc();
        let index = match self.item_of(provider, msg.stream_id, msg.domain, msg.key) {
            Some(index) => index,
            None => {
                let key = msg.key.and_then(|key| self.key_of(provider, msg.domain, key));
                let Some(key) = key.filter(|_| self.items.len() < self.config.items_max) else {
                    self.counters.messages_refused.inc();
                    return Ok(());
                };
                self.make_item(key)
            }
        };
        if let Some(known) = self.providers.get_mut(&provider) {
            known.streams.insert(msg.stream_id, index);
        }
        if msg.state.stream != StreamState::Open {
            let status = status_bytes(self.items[index].key.as_key(), msg.state);
            self.close_item(now, index, &status, sink);
            return Ok(());
        }
        if self.items[index].cached.on_refresh(msg, &self.rules)? {
            self.publish_image(now, index, sink);
        }
        Ok(())
    }

    fn make_item(&mut self, key: ItemKey<'_>) -> usize {
        let cached = CachedItem::default();
        let item = Item { key: key.to_owned(), cached, id: None, peers: Vec::new(), waiting: Vec::new() };
        let index = self.items.insert(item);
        let unknown = key.with_bytes(|bytes| {
            self.by_key.insert(bytes.into(), index);
            self.unknown.remove(bytes)
        });
        self.items[index].waiting = unknown.map(|u| u.peers).unwrap_or_default();
        self.counters.items.set(self.items.len() as u64);
        index
    }

    /// A new whole image: for everybody who has interest, and the first one for those who wait for it.
    fn publish_image(&mut self, now: Nanos, index: usize, sink: &mut impl DistributorSink) {
        let item = &mut self.items[index];
        let waiting = std::mem::take(&mut item.waiting);
        if let (false, Some(service), Some(id)) =
            (item.peers.is_empty(), self.services.get_mut(&item.key.service), item.id)
        {
            let form = RefreshForm { solicited: false, part_bytes: self.part_bytes };
            item.cached.encode_refresh(item.key.as_key(), form, &mut self.scratch, |bytes| {
                service.stream.send(now, Kind::Refresh, id, bytes, sink);
                self.counters.stream_messages_out.inc();
            });
        }
        for peer in waiting {
            self.grant(now, index, peer, sink);
        }
    }

    fn on_status(
        &mut self,
        now: Nanos,
        provider: ProviderId,
        msg: &StatusMsg<'_>,
        sink: &mut impl DistributorSink,
    ) {
        self.counters.statuses_in.inc();
        let Some(index) = self.item_of(provider, msg.stream_id, msg.domain, msg.key) else { return };
        let key = self.items[index].key.clone();
        let with_our_key = StatusMsg { key: Some(Key::item(key.service, &key.name)), ..*msg };
        let bytes = self.encoding.encode(|w| with_our_key.encode(w)).to_vec();
        if msg.state.is_some_and(|s| s.stream != StreamState::Open) {
            self.close_item(now, index, &bytes, sink);
            return;
        }
        let item = &mut self.items[index];
        item.cached.on_status(msg);
        if let (false, Some(service), Some(id)) =
            (item.peers.is_empty(), self.services.get_mut(&item.key.service), item.id)
        {
            service.stream.send(now, Kind::Status, id, &bytes, sink);
            self.counters.stream_messages_out.inc();
        }
    }

    /// The item is gone: everybody is told, and its id rests.
    fn close_item(&mut self, now: Nanos, index: usize, status: &[u8], sink: &mut impl DistributorSink) {
        let item = self.items.remove(index);
        item.key.as_key().with_bytes(|bytes| self.by_key.remove(bytes));
        for provider in self.providers.values_mut() {
            provider.streams.retain(|_, i| *i != index);
        }
        for peer in item.peers.iter().chain(&item.waiting) {
            if let Some(peer) = self.peers.get_mut(peer) {
                peer.items.remove(&index);
            }
        }
        let OwnedKey { service, domain, name } = item.key;
        for &peer in &item.waiting {
            let (domain, name) = (domain.0, &*name);
            sink.to_peer(peer, &crate::backbone::LinkDown::ItemStatus { service, domain, name, status });
        }
        if let (Some(service), Some(id)) = (self.services.get_mut(&service), item.id) {
            if !item.peers.is_empty() {
                service.stream.send(now, Kind::Close, id, status, sink);
                self.counters.stream_messages_out.inc();
            }
            service.stream.release(id);
        }
        self.counters.items.set(self.items.len() as u64);
    }
}

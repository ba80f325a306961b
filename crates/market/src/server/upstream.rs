//! Source distributors: their directories, the links to them, and what comes over both.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use rdm::dictionary::{ENUMS_NAME, FIELDS_NAME};
use rdm::directory::{Directory, DirectoryRefresh, Service as Definition};
use rwf::{DecodeError, Domain, RefreshMsg};
use units::Nanos;

use super::ids::Renumbering;
use super::life::Phase;
use super::services::Service;
use super::stream::{Incoming, Order};
use super::{PointToPoint, ServerConfig, ServerNotice, ServerSink, Source, SourceId};
use crate::backbone::{BackboneError, Features, Kind, LinkDown, LinkUp, StreamMsg};

/// What a source is a source of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Topic<'a> {
    /// `tickcast.directory`.
    Directory,
    /// `tickcast.service.NAME`.
    Service(&'a str),
}

/// One run of a source distributor.
pub(super) struct Instance {
    directory: SourceId,
    pub(super) session: u64,
    link: Link,
    /// What it has said over the present link that it knows to do.
    features: Features,
    /// When its directory was heard last.
    heard_at: Nanos,
    /// It said nothing for too long, until it is heard again.
    is_silent: bool,
    /// Its services, as its directory says, under our ids.
    pub(super) offers: BTreeMap<u16, Definition>,
    /// Its own ids of them.
    pub(super) ids: Renumbering,
    /// The directory itself, which is repeated many times before it changes.
    directory_body: Vec<u8>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Link {
    Down {
        retry_at: Nanos,
    },
    /// It is being opened, or Hello is sent and not yet answered.
    Opening {
        give_up_at: Nanos,
    },
    Up,
}

/// A link that is not established and greeted by then is given up and opened anew.
const LINK_TIMEOUT: std::time::Duration = std::time::Duration::from_secs(5);

impl Instance {
    /// Whether it tells items apart by more than their names.
    pub(super) fn has_keys_in_full(&self) -> bool {
        self.features.has_keys_in_full()
    }

    /// Whether it knows what to do with an item that was had before.
    pub(super) fn has_resume(&self) -> bool {
        self.features.has_resume()
    }

    /// Whether it wants to know how far its streams are taken.
    pub(super) fn has_progress(&self) -> bool {
        self.features.has_progress()
    }

    pub(super) fn is_linked(&self) -> bool {
        self.link == Link::Up
    }

    pub(super) fn is_alive(&self) -> bool {
        self.link == Link::Up && !self.is_silent
    }

    pub(super) fn next_check(&self, config: &ServerConfig) -> Nanos {
        let silence = if self.is_silent { Nanos::NEVER } else { self.heard_at + config.silence_timeout };
        match self.link {
            Link::Down { retry_at } if !self.is_silent => retry_at.min(silence),
            Link::Down { .. } => self.heard_at + config.silence_timeout * FORGET_AFTER,
            Link::Opening { give_up_at } => silence.min(give_up_at),
            Link::Up => silence,
        }
    }
}

/// An instance whose link is down is forgotten after so many silence timeouts.
const FORGET_AFTER: u32 = 10;

/// A service as clients get it: the dictionary comes from this server, whatever the provider says.
fn as_served(offer: &Definition) -> Definition {
    let names = || [FIELDS_NAME, ENUMS_NAME].map(str::to_owned).to_vec();
    let mut definition = offer.clone();
    definition.info.dictionaries_provided = names();
    if definition.info.dictionaries_used.is_empty() {
        definition.info.dictionaries_used = names();
    }
    // The vendor's libraries do not ask for a dictionary where the capabilities are without its domain.
    if !definition.info.capabilities.contains(&Domain::DICTIONARY) {
        definition.info.capabilities.insert(0, Domain::DICTIONARY);
    }
    definition
}

/// What the front end is told when an instance's bytes are not what they should be: it is counted, logged,
/// and skipped.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum UpstreamError {
    /// Not a message of the backbone protocol.
    Malformed(BackboneError),
    /// A payload that is not RWF, or not what it has to be.
    Payload(DecodeError),
    /// A directory that does not mean what it has to mean.
    Directory(rdm::RdmError),
    /// A message of another instance on this source.
    OtherInstance(u64),
}

impl std::fmt::Display for UpstreamError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            UpstreamError::Malformed(e) => e.fmt(f),
            UpstreamError::Payload(e) => write!(f, "payload: {e}"),
            UpstreamError::Directory(e) => write!(f, "directory: {e}"),
            UpstreamError::OtherInstance(id) => {
                write!(f, "a message of instance {id:016x} on another's source")
            }
        }
    }
}

impl std::error::Error for UpstreamError {}

/// Sources: topics as instances publish them.
impl PointToPoint {
    /// The carrier has found a source of a topic. `session` tells which sources come from the same instance.
    pub fn on_source(
        &mut self,
        now: Nanos,
        source: SourceId,
        topic: Topic<'_>,
        session: u64,
        sink: &mut impl ServerSink,
    ) {
        let entry = match topic {
            Topic::Directory => Source::Directory { session },
            Topic::Service(name) => {
                let Some(service) = self.service_by_name(name) else { return };
                Source::Service { session, stream: Incoming::new(service) }
            }
        };
        let at = source.0 as usize;
        if self.sources.len() <= at {
            self.sources.resize_with(at + 1, || None);
        }
        self.sources[at] = Some(entry);
        if let Topic::Service(name) = topic
            && let Some(service) = self.service_by_name(name)
        {
            self.choose_active(now, service, sink);
        }
    }

    /// A source is gone: the instance ended, or nothing was heard of its transport for too long.
    pub fn on_source_ended(&mut self, now: Nanos, source: SourceId, sink: &mut impl ServerSink) {
        match self.sources.get_mut(source.0 as usize).and_then(Option::take) {
            None => {}
            Some(Source::Directory { session }) => {
                if let Some(id) = self.sessions.remove(&session) {
                    self.forget_instance(now, id, sink);
                }
            }
            Some(Source::Service { stream, .. }) => self.choose_active(now, stream.service, sink),
        }
    }

    /// Whether a source is an instance's directory.
    #[must_use]
    pub fn is_directory(&self, source: SourceId) -> bool {
        matches!(self.sources.get(source.0 as usize), Some(Some(Source::Directory { .. })))
    }

    /// A message from a source.
    ///
    /// # Errors
    /// The message is not what it should be; it is counted and nothing else happens.
    #[inline]
    pub fn on_stream_message(
        &mut self,
        now: Nanos,
        source: SourceId,
        bytes: &[u8],
        sink: &mut impl ServerSink,
    ) -> Result<(), UpstreamError> {
        let result = self.stream_message(now, source, bytes, sink);
        if result.is_err() {
            self.counters.messages_refused.inc();
        }
        result
    }

    #[inline]
    fn stream_message(
        &mut self,
        now: Nanos,
        source: SourceId,
        bytes: &[u8],
        sink: &mut impl ServerSink,
    ) -> Result<(), UpstreamError> {
        let msg = StreamMsg::parse(bytes).map_err(UpstreamError::Malformed)?;
        let stream = match self.sources.get_mut(source.0 as usize) {
            Some(Some(Source::Service { stream, .. })) => stream,
            Some(Some(Source::Directory { session })) => {
                let session = *session;
                return self.on_directory(now, source, session, &msg, sink);
            }
            _ => return Ok(()),
        };
        self.counters.stream_messages_in.inc();
        if *stream.instance.get_or_insert(msg.instance) != msg.instance {
            return Err(UpstreamError::OtherInstance(msg.instance));
        }
        let order = match msg.kind {
            Kind::Heartbeat => stream.on_heartbeat(msg.sequence),
            _ => stream.on_sequence(msg.sequence),
        };
        if !stream.is_active {
            return Ok(());
        }
        stream.has_moved = true;
        self.progress.has_moved = true;
        let mut waits = stream.behind.waits();
        match order {
            Order::Next => {}
            Order::Old => return Ok(()),
            Order::Gap { first, last } => {
                self.on_gap(now, source, (first, last), sink);
                waits = true;
            }
        }
        if waits {
            if msg.kind != Kind::Heartbeat {
                self.hold_behind_gap(now, source, (msg.sequence, bytes), sink);
            }
            return Ok(());
        }
        self.on_ordered(now, source, &msg, sink)
    }

    /// A message of the active stream whose turn has come.
    #[inline]
    pub(super) fn on_ordered(
        &mut self,
        now: Nanos,
        source: SourceId,
        msg: &StreamMsg<'_>,
        sink: &mut impl ServerSink,
    ) -> Result<(), UpstreamError> {
        let Some(stream) = self.stream_mut(source) else { return Ok(()) };
        let (service, item) = (stream.service, stream.item(msg.item));
        match (msg.kind, item) {
            (Kind::Update | Kind::Refresh | Kind::Status | Kind::Close | Kind::Generic, Some(index)) => {
                self.on_item_message(now, index, msg.sequence, msg.kind, msg.body, sink);
            }
            (Kind::Update, None) => self.counters.updates_unwatched.inc(),
            (Kind::Open | Kind::OpenInFull, _) => {
                let key = msg.opened(service).map_err(UpstreamError::Malformed)?;
                if let Some(index) = self.find_settled(key, sink)
                    && self.items[index].life.phase() != Phase::Idle
                {
                    self.bind(index, msg.item);
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Lets an id of the active stream stand for an item. False if the id cannot be one.
    pub(super) fn bind(&mut self, index: usize, id: u32) -> bool {
        let item = &mut self.items[index];
        let source = self.services.get(&item.key.service).and_then(Service::active_source);
        let Some(Some(Source::Service { stream, .. })) =
            source.and_then(|s| self.sources.get_mut(s.0 as usize))
        else {
            return false;
        };
        if item.id == Some(id) {
            return true;
        }
        if let Some(before) = item.id {
            stream.unbind(before);
        }
        let bound = stream.bind(id, index);
        item.id = bound.then_some(id);
        bound
    }

    /// Whether an image taken after `sequence` and the stream of its item leave no hole between them.
    pub(super) fn joins_stream(&mut self, index: usize, sequence: u64, was_bound: bool) -> bool {
        let service = self.services.get(&self.items[index].key.service);
        match service.and_then(Service::active_source).and_then(|s| self.sources.get_mut(s.0 as usize)) {
            Some(Some(Source::Service { stream, .. })) => stream.joins_image(sequence, was_bound),
            _ => false,
        }
    }

    #[inline]
    pub(super) fn stream_mut(&mut self, source: SourceId) -> Option<&mut Incoming> {
        match self.sources.get_mut(source.0 as usize) {
            Some(Some(Source::Service { stream, .. })) => Some(stream),
            _ => None,
        }
    }

    fn service_by_name(&self, name: &str) -> Option<u16> {
        self.services.iter().find(|(_, s)| s.definition.info.name == name).map(|(id, _)| *id)
    }
}

/// Instances: directories and links.
impl PointToPoint {
    fn on_directory(
        &mut self,
        now: Nanos,
        source: SourceId,
        session: u64,
        msg: &StreamMsg<'_>,
        sink: &mut impl ServerSink,
    ) -> Result<(), UpstreamError> {
        if msg.kind != Kind::Directory {
            return Ok(());
        }
        if let Some(instance) = self.instances.get_mut(&msg.instance)
            && !instance.is_silent
            && (instance.directory, instance.session) == (source, session)
            && instance.directory_body == msg.body
        {
            instance.heard_at = now;
            self.check_instances(now, sink);
            return Ok(());
        }
        let refresh = RefreshMsg::parse(msg.body).map_err(UpstreamError::Payload)?;
        let mut directory = Directory::default();
        let refresh = DirectoryRefresh::parse(&refresh).map_err(UpstreamError::Directory)?;
        directory.apply_refresh(&refresh).map_err(UpstreamError::Directory)?;
        self.sessions.insert(session, msg.instance);
        let services = directory.services().map(as_served).collect();
        let (offers, ids) = self.renumber(now, msg.instance, services, sink);
        let instance = self.instances.entry(msg.instance).or_insert_with(|| Instance {
            directory: source,
            session,
            link: Link::Down { retry_at: now },
            features: Features::default(),
            heard_at: now,
            is_silent: false,
            offers: BTreeMap::new(),
            ids: Renumbering::default(),
            directory_body: Vec::new(),
        });
        msg.body.clone_into(&mut instance.directory_body);
        instance.directory = source;
        instance.session = session;
        let quiet = now.since(std::mem::replace(&mut instance.heard_at, now));
        let was_silent = std::mem::take(&mut instance.is_silent);
        if was_silent && instance.link == Link::Up && self.ration.take(now).is_some() {
            sink.notice(&ServerNotice::HeardAgain { instance: msg.instance, quiet });
        }
        let changed: BTreeSet<u16> = instance
            .offers
            .iter()
            .filter(|(id, offer)| offers.get(id) != Some(offer))
            .chain(offers.iter().filter(|(id, _)| !instance.offers.contains_key(id)))
            .map(|(id, _)| *id)
            .chain(if was_silent { offers.keys().copied().collect() } else { Vec::new() })
            .collect();
        instance.offers = offers;
        instance.ids = ids;
        for id in changed {
            self.on_offer_changed(now, msg.instance, id, sink);
        }
        self.check_instances(now, sink);
        Ok(())
    }

    /// An instance began, changed, or ceased to offer a service.
    fn on_offer_changed(&mut self, now: Nanos, instance: u64, id: u16, sink: &mut impl ServerSink) {
        let offer = self.instances.get(&instance).and_then(|i| i.offers.get(&id));
        match (offer, self.services.contains_key(&id)) {
            (Some(offer), false) => {
                let mut definition = offer.clone();
                definition.state.up = false;
                sink.subscribe(&definition.info.name);
                let service = Service {
                    definition,
                    active: None,
                    items: BTreeSet::new(),
                    recheck_at: Nanos::NEVER,
                    is_withdrawn: false,
                    sweeps: VecDeque::new(),
                };
                self.services.insert(id, service);
                self.counters.services.set(self.services.len() as u64);
                self.publish_service_added(id, sink);
            }
            (None, true) if !self.is_offered(id) => {
                self.remove_service(now, id, sink);
                return;
            }
            (Some(_), true) => {
                self.services.entry(id).and_modify(|service| service.is_withdrawn = false);
            }
            (None, _) => {}
        }
        self.choose_active(now, id, sink);
    }

    /// A link is established: the instance is greeted.
    pub fn on_link_up(&mut self, instance: u64, sink: &mut impl ServerSink) {
        if !self.instances.contains_key(&instance) {
            sink.disconnect_link(instance);
            return;
        }
        sink.to_instance(instance, &LinkUp::Hello { peer: self.peer, name: self.config.name.as_bytes() });
    }

    /// A link broke, or could not be opened. Returns whether it had stood.
    pub fn on_link_down(&mut self, now: Nanos, instance: u64, sink: &mut impl ServerSink) -> bool {
        let Some(known) = self.instances.get_mut(&instance) else { return false };
        let down = Link::Down { retry_at: now + self.config.link_retry };
        let had_stood = matches!(std::mem::replace(&mut known.link, down), Link::Up);
        self.lose_conversations(instance, sink);
        self.on_instance_changed(now, instance, sink);
        had_stood
    }

    /// A message over a link.
    ///
    /// # Errors
    /// The message is not what it should be; it is counted and nothing else happens.
    pub fn on_link_message(
        &mut self,
        now: Nanos,
        instance: u64,
        bytes: &[u8],
        sink: &mut impl ServerSink,
    ) -> Result<(), UpstreamError> {
        let result = self.link_message(now, instance, bytes, sink);
        if result.is_err() {
            self.counters.messages_refused.inc();
        }
        result
    }

    fn link_message(
        &mut self,
        now: Nanos,
        instance: u64,
        bytes: &[u8],
        sink: &mut impl ServerSink,
    ) -> Result<(), UpstreamError> {
        let msg = LinkDown::parse(bytes).map_err(UpstreamError::Malformed)?;
        if let LinkDown::HelloAck { instance: answered, features } = msg {
            self.on_hello_ack(now, instance, (answered, features), sink);
            return Ok(());
        }
        let known = self.instances.get(&instance);
        let Some(msg) = msg.renumbered(|theirs| known?.ids.ours(theirs)) else {
            // An answer about a service that the instance had.
            return Ok(());
        };
        let is_active = |service| {
            self.services.get(&service).and_then(|s| s.active).is_some_and(|a| a.instance == instance)
        };
        match msg {
            LinkDown::HelloAck { .. } => Ok(()),
            LinkDown::Image { item, after, key, refresh } if is_active(key.service) => {
                match self.find_settled(key, sink) {
                    Some(index) => {
                        if self.on_image(now, index, item, after, refresh, sink).is_err() {
                            self.spoil(now, index, sink);
                        }
                        Ok(())
                    }
                    None => Ok(()),
                }
            }
            LinkDown::ItemStatus { key, status } if is_active(key.service) => {
                match self.find_settled(key, sink) {
                    Some(index) => {
                        if self.on_item_status(now, index, status, sink).is_err() {
                            self.spoil(now, index, sink);
                        }
                        Ok(())
                    }
                    None => Ok(()),
                }
            }
            LinkDown::GapAnswer { service, last, known, ids, .. } if is_active(service) => {
                return self.on_gap_answer(now, service, last, known.then(|| LinkDown::gap_items(ids)), sink);
            }
            // Answers to questions that were asked before the service came from somewhere else.
            LinkDown::Image { .. } | LinkDown::ItemStatus { .. } | LinkDown::GapAnswer { .. } => Ok(()),
            // Nothing is asked that these would answer.
            LinkDown::ClientAnswer { conversation, message } => {
                self.on_client_answer(conversation, message, sink)
            }
            LinkDown::PrivateMessage { conversation, message } => {
                self.on_private_message(conversation, message, sink)
            }
        }
        .map_err(UpstreamError::Payload)
    }

    fn on_hello_ack(
        &mut self,
        now: Nanos,
        instance: u64,
        (answered, features): (u64, Features),
        sink: &mut impl ServerSink,
    ) {
        if answered != instance {
            // The address belongs to a later run by now; its own directory leads there.
            sink.disconnect_link(instance);
            self.on_link_down(now, instance, sink);
            return;
        }
        if let Some(known) = self.instances.get_mut(&instance) {
            known.link = Link::Up;
            known.features = features;
        }
        self.on_instance_changed(now, instance, sink);
    }

    /// Opens links that are due, and notices instances that have gone silent.
    pub(super) fn check_instances(&mut self, now: Nanos, sink: &mut impl ServerSink) {
        let (mut silent, mut gone) = (Vec::new(), Vec::new());
        for (&id, instance) in &mut self.instances {
            let quiet = now.since(instance.heard_at);
            if quiet >= self.config.silence_timeout && !instance.is_silent {
                instance.is_silent = true;
                silent.push((id, quiet, instance.link == Link::Up));
            }
            match instance.link {
                Link::Down { retry_at } if !instance.is_silent && now >= retry_at => {
                    instance.link = Link::Opening { give_up_at: now + LINK_TIMEOUT };
                    sink.connect(id, instance.directory);
                }
                Link::Opening { give_up_at } if now >= give_up_at => {
                    instance.link = Link::Down { retry_at: now + self.config.link_retry };
                    sink.disconnect_link(id);
                }
                Link::Down { .. } if quiet >= self.config.silence_timeout * FORGET_AFTER => gone.push(id),
                _ => {}
            }
        }
        for (id, quiet, is_news) in silent {
            if is_news && self.ration.take(now).is_some() {
                sink.notice(&ServerNotice::Silent { instance: id, quiet });
            }
            self.on_instance_changed(now, id, sink);
        }
        for id in gone {
            self.forget_instance(now, id, sink);
        }
    }

    fn forget_instance(&mut self, now: Nanos, id: u64, sink: &mut impl ServerSink) {
        let Some(gone) = self.instances.remove(&id) else { return };
        self.sessions.retain(|_, instance| *instance != id);
        if !matches!(gone.link, Link::Down { .. }) {
            sink.disconnect_link(id);
            self.lose_conversations(id, sink);
        }
        self.choose_active_of_all(now, gone.offers.keys().copied().collect(), sink);
    }

    fn on_instance_changed(&mut self, now: Nanos, id: u64, sink: &mut impl ServerSink) {
        let offers = self.instances.get(&id).map(|i| i.offers.keys().copied().collect()).unwrap_or_default();
        self.choose_active_of_all(now, offers, sink);
    }

    fn choose_active_of_all(&mut self, now: Nanos, services: Vec<u16>, sink: &mut impl ServerSink) {
        self.counters.instances.set(self.instances.values().filter(|i| i.is_alive()).count() as u64);
        for id in services {
            self.choose_active(now, id, sink);
        }
    }
}

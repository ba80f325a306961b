//! Source distributors: their directories, the links to them, and what comes over both.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use counters::table::PointToPoint as Counters;
use rdm::dictionary::{ENUMS_NAME, FIELDS_NAME};
use rdm::directory::{Directory, DirectoryRefresh, Service as Definition};
use rwf::{
    DataState, DataType, DecodeError, Domain, Msg, MsgClass, NakCode, RefreshMsg, State, StateCode,
    StreamState,
};
use units::Nanos;

use super::base::{ServerConfig, SourceId, Topic};
use super::conversations::{as_private, unwanted};
use super::instance::{FORGET_AFTER, Instance, LINK_TIMEOUT, Link, Renumbering};
use super::items::WatchedItems;
use super::lapses;
use super::life::Phase;
use super::notices::{ServerNotice, UpstreamError};
use super::service::Service;
use super::side;
use super::side_images;
use super::sink::ServerSink;
use super::sources::Source;
use super::stamps;
use super::stream::{Incoming, Order};
use crate::backbone::{Features, Kind, LinkDown, LinkUp, StreamMsg};
use crate::encoding::Encoding;
use crate::ration::Ration;

/// What comes from source distributors: their directories, the links to them, and their streams.
pub(super) struct Instances {
    /// A random number, new at each start.
    peer: u64,
    pub(super) config: Arc<ServerConfig>,
    pub(super) progress: Progress,
    pub(super) release: Release,
    /// What may be reported of losses, and when what was not reported of them is.
    pub(super) losses_ration: Ration,
    pub(super) report_losses_at: Nanos,
    encoding: Encoding,
    pub(super) counters: Arc<Counters>,
}

impl Instances {
    /// The number of this server, which is told to instances alone.
    pub(super) fn peer(&self) -> u64 {
        self.peer
    }

    pub(super) fn new(peer: u64, config: Arc<ServerConfig>, counters: Arc<Counters>) -> Instances {
        let (progress, release) = (Progress::default(), Release::default());
        Instances {
            peer,
            config,
            progress,
            release,
            losses_ration: Ration::default(),
            report_losses_at: Nanos::NEVER,
            encoding: Encoding::default(),
            counters,
        }
    }
}

/// What is released in this turn, and of which sources more is to be.
#[derive(Debug, Default)]
pub(super) struct Release {
    /// In the order of their turns.
    pub(super) sources: VecDeque<SourceId>,
    pub(super) left: usize,
    pub(super) granted_at: Nanos,
}

/// When the next report is due.
#[derive(Debug, Default)]
pub(super) struct Progress {
    /// The active sources of which something was taken since the last report.
    pub(super) moved: Vec<SourceId>,
    /// No report before.
    pub(super) next_at: Nanos,
}

impl Progress {
    /// Something of an active source was taken.
    #[inline]
    pub(super) fn note_moved(&mut self, source: SourceId, stream: &mut Incoming) {
        if !std::mem::replace(&mut stream.has_moved, true) {
            self.moved.push(source);
        }
    }
}

/// A service as clients get it: the dictionary comes from this server, whatever the provider says.
fn as_served(config: &ServerConfig, offer: &Definition) -> Definition {
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
    config.add_conflated(&mut definition);
    definition
}

impl Instances {
    /// A message of a private stream. Its key, where it has one, gets the service's id here, and it says that
    /// it is private, whatever the provider has made of it.
    fn on_private_message(
        &mut self,
        items: &mut WatchedItems,
        number: u64,
        message: &[u8],
        sink: &mut impl ServerSink,
    ) -> Result<(), DecodeError> {
        let msg = Msg::parse(message)?;
        let known = items.conversations.known.get(&number);
        let Some((watcher, private)) = known.and_then(|c| Some((c.watcher, c.private?))) else {
            self.counters.answers_late.inc();
            return Ok(());
        };
        match &msg {
            Msg::Refresh(_) => self.counters.refreshes_out.inc(),
            Msg::Status(_) => self.counters.statuses_out.inc(),
            Msg::Update(_) => self.counters.updates_out.inc(),
            Msg::Generic(_) => self.counters.generics_out.inc(),
            Msg::Ack(ack) => {
                items.conversations.on_ack((number, watcher), ack, message, sink);
                return Ok(());
            }
            other => return Err(unwanted(other, MsgClass::Refresh)),
        }
        let ends = private.ends_with(&msg);
        let mut msg = as_private(msg, private.service);
        if let Msg::Refresh(refresh) = &mut msg
            && ends
            && refresh.state.stream == StreamState::Open
        {
            refresh.state.stream = StreamState::NonStreaming;
        }
        sink.fan_out(&[watcher], self.encoding.encode(|w| msg.encode(w)));
        if ends {
            items.end_private(number, watcher);
        }
        Ok(())
    }

    /// The link to an instance is gone: its private streams are over, and nothing that was posted to it will
    /// be answered.
    fn lose_conversations(&mut self, items: &mut WatchedItems, instance: u64, sink: &mut impl ServerSink) {
        for (number, watcher, domain) in items.conversations.private_at(instance) {
            let text = "the source distributor is lost";
            let state =
                State::new(StreamState::ClosedRecover, DataState::Suspect).because(StateCode::NONE, text);
            let status = rwf::StatusMsg {
                state: Some(state),
                private_stream: true,
                ..rwf::StatusMsg::new(domain, watcher.stream_id, DataType::NO_DATA)
            };
            self.counters.statuses_out.inc();
            sink.send(watcher.client, self.encoding.encode(|w| status.encode(w)));
            items.end_private(number, watcher);
        }
        let lost = items.conversations.posts.take_those_at(instance);
        items.conversations.refuse_posts(lost, NakCode::SOURCE_DOWN, "the source distributor is lost", sink);
    }
}

impl Instances {
    /// The carrier has found a source of a topic. `session` tells which sources come from the same instance.
    pub(super) fn on_source(
        &mut self,
        items: &mut WatchedItems,
        now: Nanos,
        source: SourceId,
        topic: Topic<'_>,
        session: u64,
        sink: &mut impl ServerSink,
    ) {
        let service = match topic {
            Topic::Directory => None,
            Topic::Service(name) => {
                let Some(service) = items.sources.service_by_name(name) else { return };
                Some(service)
            }
        };
        let entry = match service {
            None => Source::Directory { session },
            Some(id) => {
                let account = items.sources.services.get(&id).map_or(0, |service| service.account);
                Source::Service { session, stream: Incoming::new(now, id, account) }
            }
        };
        let at = source.0 as usize;
        if items.sources.all.len() <= at {
            items.sources.all.resize_with(at + 1, || None);
        }
        if let Some(Source::Service { stream, .. }) = items.sources.all[at].replace(entry) {
            let service = stream.service;
            items.close_account(stream);
            items.sources.forget_source(service, source);
            items.choose_active(now, service, sink);
        }
        if let Some(id) = service {
            if let Some(service) = items.sources.services.get_mut(&id) {
                service.sources.insert(source);
            }
            let due_at = now + self.config.silence_timeout;
            items.sources.streams_due_at = items.sources.streams_due_at.min(due_at);
            items.choose_active(now, id, sink);
        }
    }

    /// A source is gone: the instance ended, or nothing was heard of its transport for too long.
    pub(super) fn on_source_ended(
        &mut self,
        items: &mut WatchedItems,
        now: Nanos,
        source: SourceId,
        sink: &mut impl ServerSink,
    ) {
        match items.sources.all.get_mut(source.0 as usize).and_then(Option::take) {
            None => {}
            Some(Source::Directory { session }) => {
                if let Some(id) = items.sources.sessions.remove(&session)
                    && items.sources.instances.get(&id).is_some_and(|instance| instance.session == session)
                {
                    self.forget_instance(items, now, id, sink);
                }
            }
            Some(Source::Service { stream, .. }) => {
                let service = stream.service;
                items.close_account(stream);
                items.sources.forget_source(service, source);
                items.choose_active(now, service, sink);
            }
        }
    }

    /// Whether a source is an instance's directory.
    pub(super) fn is_directory(&self, items: &WatchedItems, source: SourceId) -> bool {
        matches!(items.sources.all.get(source.0 as usize), Some(Some(Source::Directory { .. })))
    }

    /// A message from a source.
    ///
    /// # Errors
    /// The message is not what it should be; it is counted and nothing else happens.
    #[inline]
    pub(super) fn on_stream_message(
        &mut self,
        items: &mut WatchedItems,
        now: Nanos,
        source: SourceId,
        bytes: &[u8],
        sink: &mut impl ServerSink,
    ) -> Result<(), UpstreamError> {
        let result = self.stream_message(items, now, source, bytes, sink);
        if result.is_err() {
            self.counters.messages_refused.inc();
        }
        result
    }

    #[inline]
    fn stream_message(
        &mut self,
        items: &mut WatchedItems,
        now: Nanos,
        source: SourceId,
        bytes: &[u8],
        sink: &mut impl ServerSink,
    ) -> Result<(), UpstreamError> {
        let msg = StreamMsg::parse(bytes).map_err(UpstreamError::Malformed)?;
        let stream = match items.sources.all.get_mut(source.0 as usize) {
            Some(Some(Source::Service { stream, .. })) => stream,
            Some(Some(Source::Directory { session })) => {
                let session = *session;
                return self.on_directory(items, now, source, session, &msg, sink);
            }
            _ => return Ok(()),
        };
        self.counters.stream_messages_in.inc();
        if *stream.instance.get_or_insert(msg.instance) != msg.instance {
            return Err(UpstreamError::OtherInstance(msg.instance));
        }
        let order = match msg.kind {
            Kind::Heartbeat => stream.on_heartbeat(msg.sequence),
            _ => stream.on_message(msg.sequence),
        };
        stream.heard_at = now;
        let is_active = stream.is_active;
        if !is_active && stream.side().is_none() {
            stream.count_standby(order, msg.kind);
            if std::mem::take(&mut stream.is_silent) {
                let service = stream.service;
                items.choose_active(now, service, sink);
            }
            return Ok(());
        }
        self.progress.note_moved(source, stream);
        let mut waits = stream.behind.waits();
        match order {
            Order::Next => {}
            Order::Old => return Ok(()),
            Order::Gap { first, last } => {
                self.on_gap(items, now, source, (first, last), sink);
                waits = true;
            }
        }
        if waits {
            if msg.kind != Kind::Heartbeat {
                self.hold_behind_gap(items, now, source, (msg.sequence, bytes), sink);
            }
            return Ok(());
        }
        if is_active {
            self.on_ordered(items, now, source, &msg, sink)
        } else {
            self.on_followed(items, now, source, &msg, sink)
        }
    }

    /// A message of a stream that is followed, whose turn has come.
    pub(super) fn on_followed(
        &mut self,
        items: &mut WatchedItems,
        now: Nanos,
        source: SourceId,
        msg: &StreamMsg<'_>,
        sink: &mut impl ServerSink,
    ) -> Result<(), UpstreamError> {
        match items.sources.stream(source).and_then(|stream| stream.side()) {
            None => self.on_ordered(items, now, source, msg, sink),
            Some(side) => {
                side::on_side_message(items, now, (source, side), msg, sink);
                Ok(())
            }
        }
    }

    /// A message of the active stream whose turn has come.
    #[inline]
    pub(super) fn on_ordered(
        &mut self,
        items: &mut WatchedItems,
        now: Nanos,
        source: SourceId,
        msg: &StreamMsg<'_>,
        sink: &mut impl ServerSink,
    ) -> Result<(), UpstreamError> {
        let Some(stream) = items.sources.stream_mut(source) else { return Ok(()) };
        let (service, item, account) = (stream.service, stream.item(msg.item), stream.account);
        match (msg.kind, item) {
            (Kind::Update, Some(index)) => {
                let is_stamped = !msg.parts.is_empty() && stamps::begin(items, index, msg, sink);
                items.on_item_message(now, index, msg.sequence, msg.kind, msg.body, sink);
                if is_stamped {
                    sink.end_stamped();
                }
                Ok(())
            }
            (Kind::Update, None) => {
                self.counters.updates_unwatched.inc();
                items.ledger.account(account).taken.unwatched += 1;
                Ok(())
            }
            (Kind::Heartbeat, _) => Ok(()),
            _ => {
                items.ledger.account(account).taken.others += 1;
                self.on_other(items, now, (service, item), msg, sink)
            }
        }
    }

    /// The same for one that is no update.
    fn on_other(
        &mut self,
        items: &mut WatchedItems,
        now: Nanos,
        (service, item): (u16, Option<usize>),
        msg: &StreamMsg<'_>,
        sink: &mut impl ServerSink,
    ) -> Result<(), UpstreamError> {
        match (msg.kind, item) {
            (Kind::Refresh | Kind::Status | Kind::Close | Kind::Generic, Some(index)) => {
                items.on_item_message(now, index, msg.sequence, msg.kind, msg.body, sink);
            }
            (Kind::ServiceStatus, _) => {
                lapses::on_service_status(items, now, service, (None, msg), sink)
                    .map_err(UpstreamError::Payload)?;
            }
            (Kind::Open | Kind::OpenInFull, _) => {
                let key = msg.opened(service).map_err(UpstreamError::Malformed)?;
                if let Some(index) = items.find_settled(key, sink)
                    && items.table[index].life.phase() != Phase::Idle
                {
                    items.bind(index, msg.item);
                    if msg.is_anew().map_err(UpstreamError::Malformed)? {
                        lapses::on_opened_anew(items, now, index, msg.sequence, sink);
                    }
                }
            }
            _ => {}
        }
        Ok(())
    }
}

impl Instances {
    fn on_directory(
        &mut self,
        items: &mut WatchedItems,
        now: Nanos,
        source: SourceId,
        session: u64,
        msg: &StreamMsg<'_>,
        sink: &mut impl ServerSink,
    ) -> Result<(), UpstreamError> {
        if msg.kind != Kind::Directory {
            return Ok(());
        }
        if let Some(instance) = items.sources.instances.get_mut(&msg.instance)
            && !instance.is_silent
            && (instance.directory, instance.session) == (source, session)
            && instance.directory_body == msg.body
        {
            instance.heard_at = now;
            instance.rival = None;
            self.check_instances(items, now, sink);
            return Ok(());
        }
        if items.sources.is_by_a_rival(msg.instance, source) {
            return Ok(());
        }
        let refresh = RefreshMsg::parse(msg.body).map_err(UpstreamError::Payload)?;
        let mut directory = Directory::default();
        let refresh = DirectoryRefresh::parse(&refresh).map_err(UpstreamError::Directory)?;
        directory.apply_refresh(&refresh).map_err(UpstreamError::Directory)?;
        items.sources.sessions.insert(session, msg.instance);
        let services = directory.services().map(|offer| as_served(&self.config, offer)).collect();
        let (offers, ids) = items.sources.renumber(now, msg.instance, services, sink);
        let instance = items.sources.instances.entry(msg.instance).or_insert_with(|| Instance {
            directory: source,
            session,
            rival: None,
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
        instance.rival = None;
        let quiet = now.since(std::mem::replace(&mut instance.heard_at, now));
        let was_silent = std::mem::take(&mut instance.is_silent);
        if was_silent && instance.link == Link::Up && items.sources.ration.take(now).is_some() {
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
        if was_silent {
            self.count_instances(items);
            // What its streams say is still to come.
            items.sources.note_heard(now, Some(session));
        }
        for id in changed {
            self.on_offer_changed(items, now, msg.instance, id, sink);
        }
        self.check_instances(items, now, sink);
        Ok(())
    }

    /// An instance began, changed, or ceased to offer a service.
    fn on_offer_changed(
        &mut self,
        items: &mut WatchedItems,
        now: Nanos,
        instance: u64,
        id: u16,
        sink: &mut impl ServerSink,
    ) {
        let offer = items.sources.instances.get(&instance).and_then(|i| i.offers.get(&id));
        match (offer, items.sources.services.contains_key(&id)) {
            (Some(offer), false) => {
                let mut definition = offer.clone();
                definition.state.up = false;
                sink.subscribe(&definition.info.name);
                let is_hot = self.config.hot.contains(&definition.info.name);
                let account = items.ledger.open(&definition.info.name);
                let hot = is_hot.then(Box::default);
                items.add_service(id, Service { hot, ..Service::new(definition, account) }, sink);
            }
            (None, true) if !items.sources.is_offered(id) => {
                items.remove_service(now, id, sink);
                return;
            }
            (Some(_), true) => {
                items.sources.services.entry(id).and_modify(|service| service.is_withdrawn = false);
            }
            (None, _) => {}
        }
        items.choose_active(now, id, sink);
    }

    /// A link is established: the instance is greeted.
    pub(super) fn on_link_up(&mut self, items: &mut WatchedItems, instance: u64, sink: &mut impl ServerSink) {
        if !items.sources.instances.contains_key(&instance) {
            sink.disconnect_link(instance);
            return;
        }
        sink.to_instance(instance, &LinkUp::Hello { peer: self.peer, name: self.config.name.as_bytes() });
    }

    /// A link broke, or could not be opened. Returns whether it had stood.
    pub(super) fn on_link_down(
        &mut self,
        items: &mut WatchedItems,
        now: Nanos,
        instance: u64,
        sink: &mut impl ServerSink,
    ) -> bool {
        let Some(known) = items.sources.instances.get_mut(&instance) else { return false };
        let down = Link::Down { retry_at: now + self.config.link_retry };
        let had_stood = matches!(std::mem::replace(&mut known.link, down), Link::Up);
        self.lose_conversations(items, instance, sink);
        self.on_instance_changed(items, now, instance, sink);
        had_stood
    }

    /// A message over a link.
    ///
    /// # Errors
    /// The message is not what it should be; it is counted and nothing else happens.
    pub(super) fn on_link_message(
        &mut self,
        items: &mut WatchedItems,
        now: Nanos,
        instance: u64,
        bytes: &[u8],
        sink: &mut impl ServerSink,
    ) -> Result<(), UpstreamError> {
        let result = self.link_message(items, now, instance, bytes, sink);
        if result.is_err() {
            self.counters.messages_refused.inc();
        }
        result
    }

    fn link_message(
        &mut self,
        items: &mut WatchedItems,
        now: Nanos,
        instance: u64,
        bytes: &[u8],
        sink: &mut impl ServerSink,
    ) -> Result<(), UpstreamError> {
        let msg = LinkDown::parse(bytes).map_err(UpstreamError::Malformed)?;
        if let LinkDown::HelloAck { instance: answered, features } = msg {
            self.on_hello_ack(items, now, instance, (answered, features), sink);
            return Ok(());
        }
        let known = items.sources.instances.get(&instance);
        let Some(msg) = msg.renumbered(|theirs| known?.ids.ours(theirs)) else {
            // An answer about a service that the instance had.
            return Ok(());
        };
        let is_active = |service| {
            items
                .sources
                .services
                .get(&service)
                .and_then(|s| s.active)
                .is_some_and(|a| a.instance == instance)
        };
        let side = |service| items.sources.side_of(service, instance);
        match msg {
            LinkDown::HelloAck { .. } => Ok(()),
            LinkDown::Image { item, after, key, refresh } if let Some(side) = side(key.service) => {
                if let Some(index) = items.find_settled(key, sink)
                    && side_images::on_side_image(items, now, (index, side), (item, after), refresh, sink)
                        .is_err()
                {
                    side_images::spoil_side(items, now, (index, side), sink);
                }
                Ok(())
            }
            LinkDown::ItemStatus { key, status } if let Some(side) = side(key.service) => {
                if let Some(index) = items.find_settled(key, sink)
                    && side_images::on_side_status(items, now, (index, side), status, sink).is_err()
                {
                    side_images::spoil_side(items, now, (index, side), sink);
                }
                Ok(())
            }
            LinkDown::GapAnswer { service, last, known, ids, .. } if let Some(side) = side(service) => {
                let Some(source) = items.sources.source_of_side(service, side) else { return Ok(()) };
                let ids = known.then(|| LinkDown::gap_items(ids));
                return self.on_gap_answer(items, now, source, last, ids, sink);
            }
            LinkDown::Image { item, after, key, refresh } if is_active(key.service) => {
                match items.find_settled(key, sink) {
                    Some(index) => {
                        if items.on_image(now, index, item, after, refresh, sink).is_err() {
                            items.spoil(now, index, sink);
                        }
                        Ok(())
                    }
                    None => Ok(()),
                }
            }
            LinkDown::ItemStatus { key, status } if is_active(key.service) => {
                match items.find_settled(key, sink) {
                    Some(index) => {
                        if items.on_item_status(now, index, status, sink).is_err() {
                            items.spoil(now, index, sink);
                        }
                        Ok(())
                    }
                    None => Ok(()),
                }
            }
            LinkDown::GapAnswer { service, last, known, ids, .. } if is_active(service) => {
                let source = items.sources.services.get(&service).and_then(Service::active_source);
                let Some(source) = source else { return Ok(()) };
                let ids = known.then(|| LinkDown::gap_items(ids));
                return self.on_gap_answer(items, now, source, last, ids, sink);
            }
            // Answers to questions that were asked before the service came from somewhere else.
            LinkDown::Image { .. } | LinkDown::ItemStatus { .. } | LinkDown::GapAnswer { .. } => Ok(()),
            // Nothing is asked that these would answer.
            LinkDown::ClientAnswer { conversation, message } => {
                items.conversations.on_client_answer(conversation, message, sink)
            }
            LinkDown::PrivateMessage { conversation, message } => {
                self.on_private_message(items, conversation, message, sink)
            }
        }
        .map_err(UpstreamError::Payload)
    }

    fn on_hello_ack(
        &mut self,
        items: &mut WatchedItems,
        now: Nanos,
        instance: u64,
        (answered, features): (u64, Features),
        sink: &mut impl ServerSink,
    ) {
        if answered != instance {
            // The address belongs to a later run by now; its own directory leads there.
            sink.disconnect_link(instance);
            self.on_link_down(items, now, instance, sink);
            return;
        }
        if let Some(known) = items.sources.instances.get_mut(&instance) {
            known.link = Link::Up;
            known.features = features;
        }
        self.on_instance_changed(items, now, instance, sink);
    }

    /// Opens links that are due, and notices instances that have gone silent.
    pub(super) fn check_instances(
        &mut self,
        items: &mut WatchedItems,
        now: Nanos,
        sink: &mut impl ServerSink,
    ) {
        let (mut silent, mut gone) = (Vec::new(), Vec::new());
        for (&id, instance) in &mut items.sources.instances {
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
            if is_news && items.sources.ration.take(now).is_some() {
                sink.notice(&ServerNotice::Silent { instance: id, quiet });
            }
            self.on_instance_changed(items, now, id, sink);
        }
        for id in gone {
            self.forget_instance(items, now, id, sink);
        }
    }

    /// Notices streams that have gone silent while their instance is heard: they may come by another group of multicast,
    /// another subject or another connection than its directory. To be called when what has come was read.
    pub(super) fn check_streams(&self, items: &mut WatchedItems, now: Nanos, sink: &mut impl ServerSink) {
        if now < items.sources.streams_due_at {
            return;
        }
        let timeout = self.config.silence_timeout;
        let silent = items.sources.take_silent(now, timeout);
        for (service, instance, quiet) in silent {
            self.counters.streams_silent.inc();
            if let Some(known) = items.sources.services.get(&service)
                && items.sources.ration.take(now).is_some()
            {
                let service = &known.definition.info.name;
                sink.notice(&ServerNotice::StreamSilent { service, instance, quiet });
            }
            items.choose_active(now, service, sink);
        }
    }

    fn forget_instance(&mut self, items: &mut WatchedItems, now: Nanos, id: u64, sink: &mut impl ServerSink) {
        let Some(gone) = items.sources.instances.remove(&id) else { return };
        items.sources.sessions.retain(|_, instance| *instance != id);
        if !matches!(gone.link, Link::Down { .. }) {
            sink.disconnect_link(id);
            self.lose_conversations(items, id, sink);
        }
        self.choose_active_of_all(items, now, gone.offers.keys().copied().collect(), sink);
    }

    fn on_instance_changed(
        &mut self,
        items: &mut WatchedItems,
        now: Nanos,
        id: u64,
        sink: &mut impl ServerSink,
    ) {
        let offers =
            items.sources.instances.get(&id).map(|i| i.offers.keys().copied().collect()).unwrap_or_default();
        self.choose_active_of_all(items, now, offers, sink);
    }

    fn count_instances(&self, items: &WatchedItems) {
        self.counters.instances.set(items.sources.instances.values().filter(|i| i.is_alive()).count() as u64);
    }

    fn choose_active_of_all(
        &mut self,
        items: &mut WatchedItems,
        now: Nanos,
        services: Vec<u16>,
        sink: &mut impl ServerSink,
    ) {
        self.count_instances(items);
        for id in services {
            items.choose_active(now, id, sink);
        }
    }
}

//! One core that takes the backbone for several point-to-point servers of one process, the *shards*.
//!
//! ```text
//! source distributors --- backbone ---> relay ---+--- memory ---> shard ---> clients
//!                                                +--- memory ---> shard ---> clients
//! ```
//!
//! Towards source distributors it is a point-to-point server: it asks for each item once, keeps the image, finds gaps
//! and has them repaired, decides which instance a service comes from. Towards shards it is a source distributor that
//! loses nothing: it speaks the same protocol, under an instance id of its own. So a shard is an ordinary
//! [`PointToPoint`], and what it promises its clients holds.
//!
//! A shard watches an item with one stream of the relay's core. The stream's id is the item's place in the table, and
//! so is the item's id in the streams to shards: an update for all of them is written once.
//!
//! | of the core, for shards | becomes |
//! |---|---|
//! | an update, a generic message, an image for all | a message of the service's stream |
//! | an image that a shard has asked for | `Image`, after the last number of the stream |
//! | a state | `ItemStatus` to each shard that watches, in its order among the other messages |
//!
//! What clients post, say and keep private goes through under other numbers (`conversations`); answers go back to the
//! shard that asked.
//!
//! The carrier to shards must deliver links and streams in one order, and lose nothing. Proven by `p2ps/tests/relay.rs`
//! and by the simulator's worlds with shards.

mod conversations;
mod published;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use counters::table::PointToPoint as Counters;
use rdm::Reply;
use rwf::{AckMsg, DataState, DataType, Dictionary, Domain, Msg, NakCode, State, StateCode, StreamState};
use units::Nanos;

use self::conversations::Conversations;
pub use self::published::RelaySink;
use self::published::{Published, ToShards};
use super::PointToPoint;
use super::audience::{Form, Newcomer, OnSuspect};
use super::base::{ClientId, ServerConfig, SourceId, Topic, Watcher};
use super::client::ClientProfile;
use super::conversations::Private;
use super::instance::{Instance, send_to_instance};
use super::life::Phase;
use super::notices::UpstreamError;
use super::posts::Posts;
use super::sink::ServerSink;
use crate::backbone::{BackboneError, Features, LinkDown, LinkUp};
use crate::distributor::PeerId;
use crate::key::ItemKey;
use crate::service_names::ServiceNames;

/// Items as shards get them: everything, as it is.
const WHOLE: Form = Form {
    quality_ms: 0,
    view: None,
    key_in_updates: false,
    conflation_info: true,
    part_bytes: 60_000,
    is_snapshot: false,
    on_suspect: OnSuspect::Report,
    interval_ms: 0,
    alias: None,
};

/// The state of a relay.
pub struct Relay {
    core: PointToPoint,
    published: Published,
    /// [`WHOLE`].
    whole: Arc<Form>,
    conversations: Conversations,
    /// Posts of shards' clients whose acknowledgement is still to come, so that who waits hears of a lost instance.
    posts: Posts,
    post_timeout: Duration,
    /// Instances whose link stands.
    linked: BTreeSet<u64>,
    /// The directory is repeated at this interval.
    heartbeat: Duration,
}

impl Relay {
    /// A relay without shards that knows no source distributor yet. `instance` must differ at each start. Of `config`,
    /// what is about clients does not matter here.
    #[must_use]
    pub fn new(
        instance: u64,
        config: ServerConfig,
        dictionary: Arc<Dictionary>,
        counters: Arc<Counters>,
    ) -> Relay {
        let (heartbeat, post_timeout) = (config.silence_timeout / 4, config.post_timeout);
        // Items linger at the shards. Qualities, classes and composed services are the shards' to offer.
        let config = ServerConfig {
            item_linger: Duration::ZERO,
            conflated_intervals_ms: Vec::new(),
            service_intervals_ms: BTreeMap::new(),
            classes: super::ClientClasses::default(),
            client_streams_max: usize::MAX,
            // Shards have nobody else to ask.
            kept_images_max: None,
            uncached: ServiceNames::default(),
            composed: Vec::new(),
            ..config
        };
        Relay {
            core: PointToPoint::new(instance, config, dictionary, counters),
            published: Published::new(instance),
            whole: Arc::new(WHOLE),
            conversations: Conversations::default(),
            posts: Posts::default(),
            post_timeout,
            linked: BTreeSet::new(),
            heartbeat,
        }
    }

    /// What is taken from source distributors.
    #[must_use]
    pub fn core(&self) -> &PointToPoint {
        &self.core
    }

    /// What shards know it by, and the number of the last message to them of each service, by name.
    pub fn published(&self) -> (u64, impl Iterator<Item = (&str, u64)> + '_) {
        (self.published.instance(), self.published.positions())
    }

    /// Lets the core have an input; what it led to is made known to shards.
    #[inline]
    fn take<S: RelaySink, R>(
        &mut self,
        sink: &mut S,
        input: impl FnOnce(&mut PointToPoint, &mut ToShards<'_, S>) -> R,
    ) -> R {
        let result = input(&mut self.core, &mut ToShards::new(&mut self.published, sink));
        if self.core.services_version() != self.published.services_version() {
            self.published.publish_services(&self.core, sink);
        }
        result
    }
}

/// Time.
impl Relay {
    /// See [`PointToPoint::after_pause`].
    pub fn after_pause(&mut self, now: Nanos) {
        self.core.after_pause(now);
    }

    /// What is due by now.
    pub fn on_wakeup(&mut self, now: Nanos, sink: &mut impl RelaySink) {
        self.take(sink, |core, sink| core.on_wakeup(now, sink));
        self.lose_conversations(sink);
        // The shards have refused these by themselves.
        drop(self.posts.take_overdue(now));
        if now >= self.published.next_beat(self.heartbeat) {
            self.published.beat(now, sink);
        }
    }

    /// When [`Relay::on_wakeup`] is due next.
    #[must_use]
    pub fn next_wakeup(&self) -> Nanos {
        let own = self.published.next_beat(self.heartbeat).min(self.posts.next_deadline());
        self.core.next_wakeup().min(own)
    }
}

/// What comes from source distributors: see the functions of the same names of [`PointToPoint`].
impl Relay {
    /// The carrier has found a source of a topic.
    pub fn on_source(
        &mut self,
        now: Nanos,
        source: SourceId,
        topic: Topic<'_>,
        session: u64,
        sink: &mut impl RelaySink,
    ) {
        self.take(sink, |core, sink| core.on_source(now, source, topic, session, sink));
    }

    /// A source is gone.
    pub fn on_source_ended(&mut self, now: Nanos, source: SourceId, sink: &mut impl RelaySink) {
        self.take(sink, |core, sink| core.on_source_ended(now, source, sink));
        self.lose_conversations(sink);
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
        sink: &mut impl RelaySink,
    ) -> Result<(), UpstreamError> {
        self.take(sink, |core, sink| core.on_stream_message(now, source, bytes, sink))
    }

    /// A link is established.
    pub fn on_link_up(&mut self, instance: u64, sink: &mut impl RelaySink) {
        self.take(sink, |core, sink| core.on_link_up(instance, sink));
    }

    /// A link broke, or could not be opened. Returns whether it had stood.
    pub fn on_link_down(&mut self, now: Nanos, instance: u64, sink: &mut impl RelaySink) -> bool {
        let had_stood = self.take(sink, |core, sink| core.on_link_down(now, instance, sink));
        self.lose_conversations(sink);
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
        sink: &mut impl RelaySink,
    ) -> Result<(), UpstreamError> {
        let parsed = LinkDown::parse(bytes);
        match parsed {
            Ok(LinkDown::ClientAnswer { conversation, message }) => {
                if let Ok(Msg::Ack(ack)) = Msg::parse(message) {
                    self.posts.answer((conversation, ack.ack_id), ack.seq_num);
                }
                let (shard, conversation) = conversations::parts_of(conversation);
                if self.published.is_shard(shard) {
                    sink.to_shard(shard, &LinkDown::ClientAnswer { conversation, message });
                }
                Ok(())
            }
            Ok(LinkDown::PrivateMessage { conversation, message }) => {
                let said = self.conversations.on_private_message(instance, conversation, message);
                if let Some((shard, conversation)) = said.map_err(UpstreamError::Payload)? {
                    sink.to_shard(shard, &LinkDown::PrivateMessage { conversation, message });
                }
                Ok(())
            }
            _ => {
                let result = self.take(sink, |core, sink| core.on_link_message(now, instance, bytes, sink));
                // With this a link stands, or has led to another instance.
                if matches!(parsed, Ok(LinkDown::HelloAck { .. })) {
                    self.lose_conversations(sink);
                }
                result
            }
        }
    }

    /// Reports to the instances what was taken, if it is time.
    #[inline]
    pub fn report_progress(&mut self, now: Nanos, sink: &mut impl RelaySink) {
        self.core.report_progress(now, &mut ToShards::new(&mut self.published, sink));
    }

    /// What goes on with instances that are lost has ended: their private streams, and posts that nobody will answer.
    fn lose_conversations(&mut self, sink: &mut impl RelaySink) {
        let instances = &self.core.items.sources.instances;
        let is_linked = |instance: &u64| instances.get(instance).is_some_and(Instance::is_linked);
        let lost: Vec<u64> = self.linked.extract_if(.., |instance| !is_linked(instance)).collect();
        self.linked.extend(instances.keys().copied().filter(is_linked));
        let text = "the source distributor is lost";
        for instance in lost {
            for (shard, conversation, domain) in self.conversations.take_lost(instance) {
                self.end_private((shard, conversation, domain), text, sink);
            }
            for post in self.posts.take_those_at(instance) {
                let (shard, conversation) = conversations::parts_of(post.conversation);
                let nak = AckMsg {
                    ack_id: post.post_id,
                    nak_code: Some(NakCode::SOURCE_DOWN),
                    text: Some(text.as_bytes()),
                    seq_num: post.seq_num,
                    ..AckMsg::new(post.domain, 0, DataType::NO_DATA)
                };
                let message = self.core.encoding.encode(|w| nak.encode(w));
                sink.to_shard(shard, &LinkDown::ClientAnswer { conversation, message });
            }
        }
    }
}

/// Shards.
impl Relay {
    /// A shard has opened its link.
    pub fn on_shard_connected(&mut self, shard: PeerId) {
        self.published.add(shard);
        self.core.on_client_connected(ClientId(shard.0), ClientProfile::default());
    }

    /// A shard's link is gone: it watches nothing any more.
    pub fn on_shard_closed(&mut self, now: Nanos, shard: PeerId, sink: &mut impl RelaySink) {
        self.published.remove(shard);
        for (instance, number, domain) in self.conversations.take_those_of(shard) {
            conversations::close(instance, number, domain, &mut ToShards::new(&mut self.published, sink));
        }
        self.take(sink, |core, sink| core.on_client_closed(now, ClientId(shard.0), sink));
    }

    /// A message of a shard.
    ///
    /// # Errors
    /// The message is not what it should be; nothing happens.
    pub fn on_shard_message(
        &mut self,
        now: Nanos,
        shard: PeerId,
        bytes: &[u8],
        sink: &mut impl RelaySink,
    ) -> Result<(), BackboneError> {
        if !self.published.is_shard(shard) {
            return Ok(());
        }
        match LinkUp::parse(bytes)? {
            LinkUp::Hello { .. } => {
                let (instance, features) = (self.published.instance(), Features::OURS);
                sink.to_shard(shard, &LinkDown::HelloAck { instance, features });
            }
            LinkUp::Interest { key } | LinkUp::Resume { key } => self.watch(now, shard, key, sink),
            // One that it watches no more has ended, and the shard is about to hear it.
            LinkUp::ImageRequest { key } if !self.watches(shard, key) => {}
            LinkUp::ImageRequest { key } => self.watch(now, shard, key, sink),
            LinkUp::NoInterest { key } => self.leave(now, shard, key, sink),
            // Nothing is lost on the way to a shard; should one believe so, it is to get everything anew.
            LinkUp::GapQuery { service, first, last } => {
                sink.to_shard(shard, &LinkDown::GapAnswer { service, first, last, known: false, ids: &[] });
            }
            LinkUp::ClientMessage { conversation, key, message } => {
                self.pass_client_message(now, (shard, conversation), key, message, sink);
            }
            LinkUp::PrivateRequest { service, conversation, request } => {
                self.open_private((shard, conversation), service, request, sink);
            }
            LinkUp::PrivateMessage { conversation, message } => {
                let said = self.conversations.on_private_said((shard, conversation), message);
                if let Some((instance, conversation)) = said {
                    sink.to_instance(instance, &LinkUp::PrivateMessage { conversation, message });
                }
            }
            // Shards hold nobody back: what the carrier has no room for is seen by who drives this.
            LinkUp::Progress { .. } => {}
        }
        Ok(())
    }

    /// Whether a shard watches an item.
    fn watches(&self, shard: PeerId, key: ItemKey<'_>) -> bool {
        let client = self.core.items.clients.get(ClientId(shard.0));
        let index = self.core.items.find(key);
        index.zip(client).is_some_and(|(at, client)| client.streams.contains_key(&published::stream_of(at)))
    }

    /// A shard wants an item, or its image again.
    fn watch(&mut self, now: Nanos, shard: PeerId, key: ItemKey<'_>, sink: &mut impl RelaySink) {
        let items = &mut self.core.items;
        if items.sources.services.get(&key.service).is_none_or(|service| service.is_withdrawn) {
            let state = State::new(StreamState::Closed, DataState::Suspect)
                .because(StateCode::SOURCE_UNKNOWN, "there is no service of this id");
            let status = items.closing_status(key, state);
            sink.to_shard(shard, &LinkDown::ItemStatus { key, status: &status });
            return;
        }
        let mut to = ToShards::new(&mut self.published, sink);
        if items.cleanups.is_busy() {
            items.find_settled(key, &mut to);
        }
        let index = items.find_or_make(key);
        to.published.watch(index, key, shard);
        let watcher = Watcher { client: ClientId(shard.0), stream_id: published::stream_of(index) };
        let client = items.clients.get(watcher.client);
        if client.is_some_and(|client| client.streams.contains_key(&watcher.stream_id)) {
            items.reissue(now, watcher, &self.whole, (false, false), &mut to);
        } else {
            let form = Arc::clone(&self.whole);
            let newcomer = Newcomer { watcher, form, is_paused: false, is_due: false };
            items.watch(now, key, newcomer, &mut to);
        }
        // One that is being asked for comes soon, unless the instance says otherwise. So a shard asks for as many at a
        // time as may be on their way, and does not fill the relay's memory with those that wait for their turn.
        let waits = items.find(key).is_some_and(|at| {
            let item = &mut items.table[at];
            matches!(item.life.phase(), Phase::Idle | Phase::Awaited)
                && item.audience.newcomer(watcher).is_some()
        });
        if waits {
            to.image_waits(&[watcher], key);
        }
    }

    /// A shard does not want an item any more.
    fn leave(&mut self, now: Nanos, shard: PeerId, key: ItemKey<'_>, sink: &mut impl RelaySink) {
        let Some(index) = self.core.items.find(key) else { return };
        self.published.leave(index, shard);
        let watcher = Watcher { client: ClientId(shard.0), stream_id: published::stream_of(index) };
        self.take(sink, |core, sink| core.items.leave(now, watcher, sink));
    }

    /// A post or generic message of a shard's client goes to the instance that the service comes from.
    fn pass_client_message(
        &mut self,
        now: Nanos,
        (shard, conversation): (PeerId, u64),
        key: ItemKey<'_>,
        message: &[u8],
        sink: &mut impl RelaySink,
    ) {
        let post = match Msg::parse(message) {
            Ok(Msg::Post(post)) => Some(post),
            _ => None,
        };
        let sources = &self.core.items.sources;
        match sources.active_instance(key.service) {
            Ok(instance) => {
                let conversation = conversations::number_of(shard, conversation);
                if let Some((post, post_id)) =
                    post.and_then(|post| Some((post, post.post_id.filter(|_| post.ack)?)))
                {
                    self.posts.add(
                        (conversation, post_id),
                        (instance, false),
                        &post,
                        now + self.post_timeout,
                    );
                }
                let msg = LinkUp::ClientMessage { conversation, key, message };
                let mut to = ToShards::new(&mut self.published, sink);
                send_to_instance(&sources.instances, instance, msg, &mut to);
            }
            Err((code, text)) => {
                if let Some(nak) = post.and_then(|post| rdm::post::nak(&post, code, &text)) {
                    let message = self.core.encoding.encode(|w| nak.encode(w));
                    sink.to_shard(shard, &LinkDown::ClientAnswer { conversation, message });
                }
            }
        }
    }

    /// A client of a shard wants a private stream.
    fn open_private(
        &mut self,
        (shard, conversation): (PeerId, u64),
        service: u16,
        request: &[u8],
        sink: &mut impl RelaySink,
    ) {
        let sources = &self.core.items.sources;
        let Ok(Msg::Request(asked)) = Msg::parse(request) else { return };
        let Ok(instance) = sources.active_instance(service) else {
            self.end_private((shard, conversation, asked.domain), "the service is down", sink);
            return;
        };
        let private = Private { instance, service, domain: asked.domain, streaming: asked.streaming };
        let conversation = self.conversations.open((shard, conversation), private);
        let msg = LinkUp::PrivateRequest { service, conversation, request };
        let mut to = ToShards::new(&mut self.published, sink);
        send_to_instance(&sources.instances, instance, msg, &mut to);
    }

    /// Reports that a private stream has ended on the way.
    fn end_private(
        &mut self,
        (shard, conversation, domain): (PeerId, u64, Domain),
        text: &str,
        sink: &mut impl RelaySink,
    ) {
        let reply = Reply { domain, stream_id: 0, key: None, private_stream: true };
        let state = State::new(StreamState::ClosedRecover, DataState::Suspect).because(StateCode::NONE, text);
        let status = reply.status(state);
        let message = self.core.encoding.encode(|w| status.encode(w));
        sink.to_shard(shard, &LinkDown::PrivateMessage { conversation, message });
    }
}

//! What shards are sent: streams, directory, and who watches which item.

use rdm::ToVec;
use rdm::directory::{DirectoryRefresh, Filter};
use rwf::{DataType, MsgClass, RefreshMsg, StatusMsg, StreamState, peek};
use units::Nanos;

use crate::backbone::{HopTimes, Kind, LinkDown, LinkUp, StreamMsg};
use crate::distributor::PeerId;
use crate::key::{ItemKey, OwnedKey};
use crate::p2ps::base::{ClientId, SourceId, Watcher};
use crate::p2ps::sink::{ServerSink, StampedUpdate, UpstreamSink};
use crate::p2ps::{PointToPoint, ServerNotice};

use std::collections::BTreeMap;
use std::time::Duration;

/// Where a relay's decisions go, those for shards besides.
pub trait RelaySink: UpstreamSink {
    /// A service is published from now on.
    fn open_stream(&mut self, service: u16, name: &str);
    /// A service is no longer published.
    fn close_stream(&mut self, service: u16);
    /// Sends a message of a service's stream to all shards. The hop stamps of an update are among its optional parts, to
    /// be sent on.
    fn publish(&mut self, service: u16, msg: &StreamMsg<'_>);
    /// Sends a directory to all shards.
    fn publish_directory(&mut self, msg: &StreamMsg<'_>);
    /// Sends a message to one shard.
    fn to_shard(&mut self, shard: PeerId, msg: &LinkDown<'_>);
}

/// The id of the stream with which a shard watches the item at a place of the core's table.
pub(super) fn stream_of(index: usize) -> i32 {
    // Places are dense, and a watched item costs some hundred bytes.
    i32::try_from(index).expect("fewer than 2^31 items are watched")
}

/// Streams and directory as shards get them.
pub(super) struct Published {
    instance: u64,
    /// The number of the last message of each service, by its id.
    sequences: Vec<u64>,
    /// Names of the services that are published.
    services: BTreeMap<u16, String>,
    services_version: u64,
    directory: Vec<u8>,
    directory_sequence: u64,
    beat_at: Nanos,
    /// Those with a link, each at the place that is its bit in [`Watched::by`].
    shards: Vec<Option<PeerId>>,
    /// By the item's place in the core's table.
    watched: Vec<Option<Watched>>,
}

/// An item that shards watch.
struct Watched {
    key: OwnedKey,
    /// A bit for each shard.
    by: u64,
}

/// The most shards: one has a bit of a word.
const SHARDS_MAX: usize = 64;

impl Published {
    pub(super) fn new(instance: u64) -> Published {
        Published {
            instance,
            sequences: Vec::new(),
            services: BTreeMap::new(),
            services_version: 0,
            directory: Vec::new(),
            directory_sequence: 0,
            beat_at: Nanos::ZERO,
            shards: Vec::new(),
            watched: Vec::new(),
        }
    }

    pub(super) fn instance(&self) -> u64 {
        self.instance
    }

    /// The number of the last message of each service that is published, by name.
    pub(super) fn positions(&self) -> impl Iterator<Item = (&str, u64)> + '_ {
        let last = |id: &u16| self.sequences.get(usize::from(*id)).copied().unwrap_or(0);
        self.services.iter().map(move |(id, name)| (name.as_str(), last(id)))
    }

    #[inline]
    pub(super) fn services_version(&self) -> u64 {
        self.services_version
    }

    /// Opens and closes streams as the core's services have come and gone, and publishes the directory.
    #[cold]
    pub(super) fn publish_services(&mut self, core: &PointToPoint, sink: &mut impl RelaySink) {
        self.services_version = core.services_version();
        let services = &core.items.sources.services;
        self.services.retain(|id, name| {
            let is_there = services.get(id).is_some_and(|service| service.definition.info.name == *name);
            if !is_there {
                sink.close_stream(*id);
            }
            is_there
        });
        for (&id, service) in services {
            self.services.entry(id).or_insert_with(|| {
                sink.open_stream(id, &service.definition.info.name);
                service.definition.info.name.clone()
            });
        }
        let definitions = services.values().map(|service| &service.definition);
        let refresh = DirectoryRefresh::publish(0, Filter::ALL, definitions).expect("ids are keys");
        self.directory = refresh.to_vec().expect("each service came in a directory");
        self.publish_directory(sink);
    }

    /// When the directory is to be repeated with a word on each stream, however often it was published since.
    pub(super) fn next_beat(&self, heartbeat: Duration) -> Nanos {
        if self.directory.is_empty() { Nanos::NEVER } else { self.beat_at + heartbeat }
    }

    /// Repeats the directory, and says of each stream how far it is: none may be silent.
    pub(super) fn beat(&mut self, now: Nanos, sink: &mut impl RelaySink) {
        self.beat_at = now;
        self.publish_directory(sink);
        for &id in self.services.keys() {
            let sequence = self.sequences.get(usize::from(id)).copied().unwrap_or(0);
            let instance = self.instance;
            let msg = StreamMsg { kind: Kind::Heartbeat, instance, sequence, item: 0, parts: &[], body: &[] };
            sink.publish(id, &msg);
        }
    }

    fn publish_directory(&mut self, sink: &mut impl RelaySink) {
        self.directory_sequence += 1;
        sink.publish_directory(&StreamMsg {
            kind: Kind::Directory,
            instance: self.instance,
            sequence: self.directory_sequence,
            item: 0,
            parts: &[],
            body: &self.directory,
        });
    }

    #[inline]
    fn sequence_mut(&mut self, service: u16) -> &mut u64 {
        let at = usize::from(service);
        if at >= self.sequences.len() {
            self.sequences.resize(at + 1, 0);
        }
        &mut self.sequences[at]
    }

    #[inline]
    fn publish(
        &mut self,
        kind: Kind,
        item: i32,
        (hops, body): (Option<HopTimes>, &[u8]),
        sink: &mut impl RelaySink,
    ) {
        let Some(Some(watched)) = self.watched.get(item as usize) else { return };
        let (service, instance) = (watched.key.service, self.instance);
        let sequence = self.sequence_mut(service);
        *sequence += 1;
        let msg = StreamMsg { kind, instance, sequence: *sequence, item: item as u32, parts: &[], body };
        match hops {
            None => sink.publish(service, &msg),
            Some(hops) => sink.publish(service, &StreamMsg { parts: hops.part().bytes(), ..msg }),
        }
    }
}

/// Shards, and what they watch.
impl Published {
    pub(super) fn add(&mut self, shard: PeerId) {
        match self.shards.iter_mut().find(|place| place.is_none()) {
            Some(place) => *place = Some(shard),
            None => self.shards.push(Some(shard)),
        }
        assert!(self.shards.len() <= SHARDS_MAX, "at most {SHARDS_MAX} shards");
    }

    pub(super) fn remove(&mut self, shard: PeerId) {
        let Some(bit) = self.bit(shard) else { return };
        self.watched.iter_mut().for_each(|watched| take_shard(watched, bit));
        self.shards.iter_mut().filter(|place| **place == Some(shard)).for_each(|place| *place = None);
    }

    pub(super) fn is_shard(&self, shard: PeerId) -> bool {
        self.shards.contains(&Some(shard))
    }

    fn bit(&self, shard: PeerId) -> Option<u64> {
        self.shards.iter().position(|known| *known == Some(shard)).map(|at| 1 << at)
    }

    pub(super) fn watch(&mut self, index: usize, key: ItemKey<'_>, shard: PeerId) {
        let Some(bit) = self.bit(shard) else { return };
        if index >= self.watched.len() {
            self.watched.resize_with(index + 1, || None);
        }
        self.watched[index].get_or_insert_with(|| Watched { key: key.to_owned(), by: 0 }).by |= bit;
    }

    pub(super) fn leave(&mut self, index: usize, shard: PeerId) {
        let Some(bit) = self.bit(shard) else { return };
        self.watched.get_mut(index).into_iter().for_each(|watched| take_shard(watched, bit));
    }

    fn leave_all(&mut self, watchers: &[Watcher]) {
        for watcher in watchers {
            self.leave(watcher.stream_id as usize, PeerId(watcher.client.0));
        }
    }
}

/// A shard does not watch an item any more; after the last one nobody does.
fn take_shard(watched: &mut Option<Watched>, bit: u64) {
    let Some(item) = watched else { return };
    item.by &= if units::planted(units::Bug::ForgetsShards) { 0 } else { !bit };
    if item.by == 0 {
        *watched = None;
    }
}

/// What the core decides, made into messages for shards.
pub(super) struct ToShards<'a, S> {
    pub(super) published: &'a mut Published,
    pub(super) sink: &'a mut S,
    /// Those of the update that is handled.
    hops: Option<HopTimes>,
}

impl<'a, S> ToShards<'a, S> {
    pub(super) fn new(published: &'a mut Published, sink: &'a mut S) -> ToShards<'a, S> {
        ToShards { published, sink, hops: None }
    }
}

impl<S: RelaySink> ToShards<'_, S> {
    /// An image: for all, or as an answer to those who have asked.
    fn refresh(&mut self, watchers: &[Watcher], item: i32, bytes: &[u8]) {
        let Ok(msg) = RefreshMsg::parse(bytes) else { return };
        if msg.solicited {
            let Published { watched, sequences, .. } = &*self.published;
            let Some(Some(Watched { key, .. })) = watched.get(item as usize) else { return };
            let after = sequences.get(usize::from(key.service)).copied().unwrap_or(0);
            let (item, key, refresh) = (item as u32, key.as_key(), bytes);
            for watcher in watchers {
                let image = LinkDown::Image { item, after, key, refresh };
                self.sink.to_shard(PeerId(watcher.client.0), &image);
            }
        } else {
            self.published.publish(Kind::Refresh, item, (None, bytes), self.sink);
        }
        if msg.complete && msg.state.stream != StreamState::Open {
            self.published.leave_all(watchers);
        }
    }

    /// A state, which may end the item.
    fn status(&mut self, watchers: &[Watcher], item: i32, status: &[u8]) {
        let Ok(msg) = StatusMsg::parse(status) else { return };
        let Some(Some(Watched { key, .. })) = self.published.watched.get(item as usize) else { return };
        let key = key.as_key();
        for watcher in watchers {
            self.sink.to_shard(PeerId(watcher.client.0), &LinkDown::ItemStatus { key, status });
        }
        if msg.state.is_some_and(|state| state.stream != StreamState::Open) {
            self.published.leave_all(watchers);
        }
    }
}

impl<S: RelaySink> ServerSink for ToShards<'_, S> {
    fn send(&mut self, client: ClientId, msg: &[u8]) {
        if let Ok(head) = peek(msg) {
            self.fan_out(&[Watcher { client, stream_id: head.stream_id }], msg);
        }
    }

    fn begin_stamped(&mut self, update: &StampedUpdate<'_>) {
        self.hops = Some(update.hops);
    }

    fn end_stamped(&mut self) {
        self.hops = None;
    }

    /// Among the images that a shard waits for the item does not count then.
    fn image_waits(&mut self, watchers: &[Watcher], key: ItemKey<'_>) {
        let status =
            StatusMsg { key: Some(key.to_key()), ..StatusMsg::new(key.domain, 0, DataType::NO_DATA) };
        let Ok(status) = status.to_vec() else { return };
        for watcher in watchers {
            self.sink.to_shard(PeerId(watcher.client.0), &LinkDown::ItemStatus { key, status: &status });
        }
    }

    /// The watchers are streams of one item.
    #[inline]
    fn fan_out(&mut self, watchers: &[Watcher], msg: &[u8]) {
        let (Some(first), Ok(head)) = (watchers.first(), peek(msg)) else { return };
        let item = first.stream_id;
        match head.class {
            MsgClass::Update => self.published.publish(Kind::Update, item, (self.hops, msg), self.sink),
            MsgClass::Generic => self.published.publish(Kind::Generic, item, (None, msg), self.sink),
            MsgClass::Refresh => self.refresh(watchers, item, msg),
            MsgClass::Status => self.status(watchers, item, msg),
            // Shards get what else there is from the relay itself.
            _ => {}
        }
    }
}

impl<S: RelaySink> UpstreamSink for ToShards<'_, S> {
    fn subscribe(&mut self, service: &str) {
        self.sink.subscribe(service);
    }

    fn unsubscribe(&mut self, service: &str) {
        self.sink.unsubscribe(service);
    }

    fn connect(&mut self, instance: u64, directory: SourceId) {
        self.sink.connect(instance, directory);
    }

    fn disconnect_link(&mut self, instance: u64) {
        self.sink.disconnect_link(instance);
    }

    fn to_instance(&mut self, instance: u64, msg: &LinkUp<'_>) {
        self.sink.to_instance(instance, msg);
    }

    fn notice(&mut self, notice: &ServerNotice<'_>) {
        self.sink.notice(notice);
    }
}

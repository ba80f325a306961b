//! Items: images, updates and states of providers of either kind, on their way to peers.

use rwf::{
    DataState, DataType, Domain, Key, Msg, RefreshMsg, State, StateCode, StatusMsg, StreamState, UpdateMsg,
};
use units::Nanos;

use super::providers::Target;
use super::requests::Upstream;
use super::standby::Standby;
use super::{Distributor, DistributorSink, PeerId, ProviderError, ProviderId, SUSPECT, peers, status_bytes};
use crate::backbone::{Kind, LinkDown};
use crate::cached::{CachedItem, RefreshForm};
use crate::key::{ItemKey, OwnedKey};

/// An item that a provider publishes, or that is asked for because a peer wants it.
pub(super) struct Item {
    pub(super) key: OwnedKey,
    /// Sweeps up to this number are done with it.
    pub(super) swept: u64,
    pub(super) cached: CachedItem,
    /// Its id in the service's stream, once a peer has wanted it.
    pub(super) id: Option<u32>,
    /// Peers that get its updates.
    pub(super) peers: Vec<PeerId>,
    /// Peers that wait for its first whole image, or for their turn to get it.
    pub(super) waiting: Vec<PeerId>,
    /// Where it comes from.
    pub(super) upstream: Upstream,
    /// What others publish of it, in the order in which they came.
    pub(super) standbys: Vec<Standby>,
}

impl Item {
    pub(super) fn forget(&mut self, peer: PeerId) {
        self.peers.retain(|p| *p != peer);
        self.waiting.retain(|p| *p != peer);
    }

    /// Whether nobody wants it.
    pub(super) fn is_unwanted(&self) -> bool {
        self.peers.is_empty() && self.waiting.is_empty()
    }
}

/// What providers say of items.
impl Distributor {
    #[inline]
    pub(super) fn on_update(
        &mut self,
        now: Nanos,
        provider: ProviderId,
        bytes: &[u8],
        sink: &mut impl DistributorSink,
    ) -> Result<(), ProviderError> {
        self.counters.updates_in.inc();
        let msg = UpdateMsg::parse(bytes)?;
        let index = match self.target_of(provider, msg.stream_id, msg.domain, msg.key) {
            Some(Target::Item(index)) => index,
            Some(Target::Private(place)) => {
                self.on_private_answer(now, place, &Msg::Update(msg), bytes, sink);
                return Ok(());
            }
            None => {
                self.counters.updates_without_image.inc();
                return Ok(());
            }
        };
        let item = &mut self.items[index];
        if item.stands_by(provider) {
            self.on_standby_update(now, (provider, index), &msg, sink);
            return Ok(());
        }
        if item.upstream.is_pending() {
            self.on_early_update(now, (provider, index), &msg, sink);
            return Ok(());
        }
        if item.cached.is_spoilt() && !item.cached.is_known() {
            // What could not be read was its image.
            self.counters.updates_without_image.inc();
            return Ok(());
        }
        if let Err(error) = item.cached.on_update(&msg, &self.rules) {
            self.spoil(now, (provider, index), error, sink);
            return Ok(());
        }
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

    /// An update before the whole image: it belongs to the parts that are there, and nobody else sees it.
    fn on_early_update(
        &mut self,
        now: Nanos,
        (provider, index): (ProviderId, usize),
        msg: &UpdateMsg<'_>,
        sink: &mut impl DistributorSink,
    ) {
        let item = &mut self.items[index];
        if !item.cached.is_between_parts() {
            self.counters.updates_without_image.inc();
        } else if let Err(error) = item.cached.on_update(msg, &self.rules) {
            self.spoil(now, (provider, index), error, sink);
        }
    }

    /// What a provider's stream is for, or the key in the message.
    #[inline]
    pub(super) fn target_of(
        &self,
        provider: ProviderId,
        stream_id: i32,
        domain: Domain,
        key: Option<Key<'_>>,
    ) -> Option<Target> {
        let known = self.providers.get(&provider)?;
        match known.streams.get(&stream_id) {
            Some(target) => Some(*target),
            None => self.find(self.key_of(provider, domain, key?)?).map(Target::Item),
        }
    }

    /// The item that a provider publishes on a stream, or under the key in the message.
    fn item_of(
        &self,
        provider: ProviderId,
        stream_id: i32,
        domain: Domain,
        key: Option<Key<'_>>,
    ) -> Option<usize> {
        match self.target_of(provider, stream_id, domain, key)? {
            Target::Item(index) => Some(index),
            Target::Private(_) => None,
        }
    }

    /// A provider's key with our service id; `None` if it is incomplete or too long to be kept, or the
    /// service is not its to publish.
    fn key_of<'k>(&self, provider: ProviderId, domain: Domain, key: Key<'k>) -> Option<ItemKey<'k>> {
        let service = *self.providers.get(&provider)?.service_ids.get(&key.service_id?)?;
        let is_publisher = self.services.get(&service)?.is_published_by(provider);
        key.name.filter(|_| is_publisher)?;
        ItemKey::of(service, domain, &key).ok()
    }

    /// An image, or a part of one, of a provider that publishes.
    pub(super) fn on_refresh(
        &mut self,
        now: Nanos,
        provider: ProviderId,
        msg: &RefreshMsg<'_>,
        sink: &mut impl DistributorSink,
    ) {
        self.counters.refreshes_in.inc();
        let key = msg.key.and_then(|key| self.key_of(provider, msg.domain, key));
        let mut known = self.item_of(provider, msg.stream_id, msg.domain, msg.key);
        if let (Some(index), Some(key)) = (known, key)
            && self.items[index].key.as_key() != key
        {
            self.leave_stream(now, (provider, index), sink);
            known = self.find(key);
            if let Some(index) = known.filter(|_| self.cleanups.has_sweeps()) {
                self.settle(now, index, sink);
            }
        }
        let index = match known {
            Some(index) => index,
            None => {
                let Some(key) = key.filter(|_| self.items.len() < self.config.items_max) else {
                    self.counters.messages_refused.inc();
                    return;
                };
                self.make_item(key)
            }
        };
        if self.items[index].is_of_other(provider) {
            return self.on_standby_refresh(now, (provider, index), msg, sink);
        }
        self.publish_on(provider, msg.stream_id, index);
        let is_last = is_last_image(msg);
        if msg.state.stream != StreamState::Open && !is_last {
            if self.hand_over(now, index, sink) {
                return;
            }
            let status = status_bytes(self.items[index].key.as_key(), msg.state);
            self.close_item(now, index, &status, sink);
            return;
        }
        match self.items[index].cached.on_refresh(msg, &self.rules) {
            Ok(true) if is_last => self.end_with_image(now, index, sink),
            Ok(true) => {
                self.publish_image(now, index, sink);
                self.prefer_good(now, index, sink);
            }
            Ok(false) => {}
            Err(error) => self.spoil(now, (provider, index), error, sink),
        }
    }

    /// A provider uses the stream of an item for another one: it publishes this one no longer.
    #[cold]
    fn leave_stream(
        &mut self,
        now: Nanos,
        (provider, index): (ProviderId, usize),
        sink: &mut impl DistributorSink,
    ) {
        if self.items[index].is_of_other(provider) {
            self.end_standby(provider, index);
        } else if !self.hand_over(now, index, sink) {
            self.forget_stream(index);
            let text = "the provider uses its stream for another item";
            self.suspect(now, index, SUSPECT.because(StateCode::NONE, text), sink);
        }
    }

    /// A provider publishes an item on this stream from now on.
    fn publish_on(&mut self, provider: ProviderId, stream_id: i32, index: usize) {
        let published = Upstream::Published { provider, stream_id };
        if !self.items[index].standbys.is_empty() {
            self.end_standby(provider, index);
        }
        let before = std::mem::replace(&mut self.items[index].upstream, published);
        if let Upstream::Published { provider, stream_id } = before
            && before != published
            && let Some(known) = self.providers.get_mut(&provider)
            && known.streams.get(&stream_id) == Some(&Target::Item(index))
        {
            known.streams.remove(&stream_id);
        }
        if let Some(known) = self.providers.get_mut(&provider) {
            known.streams.insert(stream_id, Target::Item(index));
            if before != published {
                known.places.entry(self.items[index].key.service).or_default().add(index);
            }
        }
    }

    /// A state of an item of a provider that publishes.
    pub(super) fn on_published_status(
        &mut self,
        now: Nanos,
        provider: ProviderId,
        msg: &StatusMsg<'_>,
        sink: &mut impl DistributorSink,
    ) {
        self.counters.statuses_in.inc();
        if let Some(index) = self.item_of(provider, msg.stream_id, msg.domain, msg.key) {
            self.on_state_of(now, (provider, index), msg, sink);
        }
    }

    /// An image, or a part of one, of a dialled provider.
    pub(super) fn on_answer(
        &mut self,
        now: Nanos,
        (provider, index): (ProviderId, usize),
        msg: &RefreshMsg<'_>,
        sink: &mut impl DistributorSink,
    ) {
        self.counters.refreshes_in.inc();
        let is_last = is_last_image(msg);
        if msg.state.stream != StreamState::Open && !is_last {
            let end = StatusMsg {
                private_stream: msg.private_stream,
                state: Some(msg.state),
                key: msg.key,
                ..StatusMsg::new(msg.domain, 0, DataType::NO_DATA)
            };
            self.ended(now, index, msg.state, &end, sink);
            return;
        }
        match self.items[index].cached.on_refresh(msg, &self.rules) {
            Ok(true) if is_last => {
                let service = self.items[index].key.service;
                self.forget_stream(index);
                self.end_with_image(now, index, sink);
                self.pump(now, service, sink);
            }
            Ok(is_whole) => {
                self.answered(now, index, is_whole, sink);
                if is_whole {
                    self.publish_image(now, index, sink);
                }
            }
            Err(error) => self.spoil(now, (provider, index), error, sink),
        }
    }

    /// A new state of an item, said of it alone or of many.
    pub(super) fn on_item_status(
        &mut self,
        now: Nanos,
        index: usize,
        msg: &StatusMsg<'_>,
        sink: &mut impl DistributorSink,
    ) {
        if let Some(state) = msg.state.filter(|s| s.stream != StreamState::Open) {
            self.ended(now, index, state, msg, sink);
            return;
        }
        let item = &mut self.items[index];
        item.cached.on_status(msg);
        let state = match msg.state {
            Some(_) if item.cached.is_spoilt() => Some(item.cached.state().borrow()),
            said => said,
        };
        let status = StatusMsg { state, key: Some(item.key.as_key().to_key()), ..*msg };
        let bytes = self.encoding.encode(|w| status.encode(w)).to_vec();
        if self.items[index].upstream.is_pending() {
            self.tell_waiting(index, &bytes, sink);
        } else {
            self.publish(now, index, Kind::Status, &bytes, sink);
        }
    }

    /// A provider says that a stream is over.
    fn ended(
        &mut self,
        now: Nanos,
        index: usize,
        state: State<'_>,
        msg: &StatusMsg<'_>,
        sink: &mut impl DistributorSink,
    ) {
        let item = &self.items[index];
        if state.stream == StreamState::ClosedRecover && item.upstream.is_asked_for() {
            let again = State { stream: StreamState::Open, data: DataState::Suspect, ..state };
            let avoid = item.upstream.provider();
            self.forget_stream(index);
            self.ask_later(now, index, avoid, again, sink);
            return;
        }
        let key = match msg.key.filter(|key| key.name.is_some()) {
            Some(elsewhere) if state.stream == StreamState::Redirected => {
                Key { service_id: Some(item.key.service), ..elsewhere }
            }
            _ => item.key.as_key().to_key(),
        };
        let service = item.key.service;
        let end = StatusMsg { key: Some(key), ..*msg };
        let bytes = self.encoding.encode(|w| end.encode(w)).to_vec();
        self.forget_stream(index);
        self.close_item(now, index, &bytes, sink);
        self.pump(now, service, sink);
    }
}

/// Whether a refresh ends its stream with an image: what it holds goes to those who want it, and is not kept.
fn is_last_image(msg: &RefreshMsg<'_>) -> bool {
    match msg.state.stream {
        StreamState::NonStreaming => true,
        StreamState::Closed => msg.container_type != DataType::NO_DATA,
        _ => false,
    }
}

/// What peers are told of items.
impl Distributor {
    pub(super) fn make_item(&mut self, key: ItemKey<'_>) -> usize {
        let ripples = self.services.get(&key.service).is_none_or(|service| service.ripples);
        let item = Item {
            key: key.to_owned(),
            swept: self.cleanups.last_sweep(),
            cached: CachedItem::new(ripples),
            id: None,
            peers: Vec::new(),
            waiting: Vec::new(),
            upstream: Upstream::None,
            standbys: Vec::new(),
        };
        let index = self.items.insert(item);
        key.with_bytes(|bytes| self.by_key.insert(bytes.into(), index));
        self.items[index].waiting = self.take_unknown(key);
        self.counters.items.set(self.items.len() as u64);
        index
    }

    /// A new whole image: for everybody who has interest, and the first one for those who wait for it.
    pub(super) fn publish_image(&mut self, now: Nanos, index: usize, sink: &mut impl DistributorSink) {
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
            self.grant_in_turn(now, index, peer, sink);
        }
    }

    /// The whole image that ends an item is there: everybody gets it, and the item is gone.
    fn end_with_image(&mut self, now: Nanos, index: usize, sink: &mut impl DistributorSink) {
        let item = &mut self.items[index];
        let (key, waiting) = (item.key.clone(), std::mem::take(&mut item.waiting));
        if let Some(service) = self.services.get_mut(&key.service) {
            if let (false, Some(id)) = (item.peers.is_empty(), item.id) {
                let form = RefreshForm { solicited: false, part_bytes: self.part_bytes };
                item.cached.encode_refresh(key.as_key(), form, &mut self.scratch, |bytes| {
                    service.stream.send(now, Kind::Refresh, id, bytes, sink);
                    self.counters.stream_messages_out.inc();
                });
            }
            let after = service.stream.sequence();
            let form = RefreshForm { solicited: true, part_bytes: self.part_bytes };
            for peer in waiting {
                item.cached.encode_refresh(key.as_key(), form, &mut self.scratch, |refresh| {
                    self.counters.images_out.inc();
                    sink.to_peer(peer, &LinkDown::Image { item: 0, after, key: key.as_key(), refresh });
                });
            }
        }
        let status = status_bytes(key.as_key(), item.cached.state().borrow());
        self.close_item(now, index, &status, sink);
    }

    /// Sends a message about an item to everybody who has interest.
    pub(super) fn publish(
        &mut self,
        now: Nanos,
        index: usize,
        kind: Kind,
        body: &[u8],
        sink: &mut impl DistributorSink,
    ) {
        let item = &self.items[index];
        if let (false, Some(service), Some(id)) =
            (item.peers.is_empty(), self.services.get_mut(&item.key.service), item.id)
        {
            service.stream.send(now, kind, id, body, sink);
            self.counters.stream_messages_out.inc();
        }
    }

    /// Sends the state of an item to those who wait for its first image.
    pub(super) fn tell_waiting(&mut self, index: usize, status: &[u8], sink: &mut impl DistributorSink) {
        let item = &self.items[index];
        for &peer in &item.waiting {
            peers::tell_bytes(peer, item.key.as_key(), status, sink);
        }
    }

    /// The item is gone: everybody is told, and its id rests.
    pub(super) fn close_item(
        &mut self,
        now: Nanos,
        index: usize,
        status: &[u8],
        sink: &mut impl DistributorSink,
    ) {
        self.detach(index, sink);
        let item = self.items.remove(index);
        for standby in &item.standbys {
            self.forget_standby_stream(index, standby);
        }
        item.key.as_key().with_bytes(|bytes| self.by_key.remove(bytes));
        for peer in item.peers.iter().chain(&item.waiting) {
            if let Some(peer) = self.peers.get_mut(peer) {
                peer.items.remove(&index);
            }
        }
        for &peer in &item.waiting {
            peers::tell_bytes(peer, item.key.as_key(), status, sink);
        }
        if let (Some(service), Some(id)) = (self.services.get_mut(&item.key.service), item.id) {
            if !item.peers.is_empty() {
                service.stream.send(now, Kind::Close, id, status, sink);
                self.counters.stream_messages_out.inc();
            }
            service.stream.release(id);
        }
        self.counters.items.set(self.items.len() as u64);
    }
}

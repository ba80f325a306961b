//! What providers say of items.

use rwf::{DataType, RefreshMsg, StateCode, StatusMsg, StreamState, UpdateMsg};
use units::Nanos;

use super::base::ProviderId;
use super::item::ItemSupply;
use super::items::Items;
use super::provider::Target;
use super::recall;
use super::sink::DistributorSink;
use super::status::{SUSPECT, status_bytes};

/// Whether a refresh ends its stream with an image: what it holds goes to those who want it, and is not kept.
fn is_last_image(msg: &RefreshMsg<'_>) -> bool {
    match msg.state.stream {
        StreamState::NonStreaming => true,
        StreamState::Closed => msg.container_type != DataType::NO_DATA,
        _ => false,
    }
}

/// What providers say of items.
impl Items {
    /// An update before the whole image: it belongs to the parts that are there, and nobody else sees it.
    pub(super) fn on_early_update(
        &mut self,
        now: Nanos,
        (provider, index): (ProviderId, usize),
        msg: &UpdateMsg<'_>,
        sink: &mut impl DistributorSink,
    ) {
        let item = &mut self.table[index];
        let service = item.key.service;
        if !item.cached.is_between_parts() {
            self.counters.updates_without_image.inc();
            self.count(service, |ledger| ledger.without_image += 1);
        } else if let Err(error) = item.cached.on_update(msg, &self.rules) {
            self.count(service, |ledger| ledger.unusable += 1);
            self.spoil(now, (provider, index), error, sink);
        } else {
            self.count(service, |ledger| ledger.in_images += 1);
        }
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
        let key = msg.key.and_then(|key| self.suppliers.key_of(provider, msg.domain, key));
        let mut known = self.item_of(provider, msg.stream_id, msg.domain, msg.key);
        if let (Some(index), Some(key)) = (known, key)
            && self.table[index].key.as_key() != key
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
                let Some(key) = key.filter(|_| self.table.len() < self.config.items_max) else {
                    self.counters.messages_refused.inc();
                    return;
                };
                self.make_item(key)
            }
        };
        if self.table[index].is_of_other(provider) {
            return self.on_standby_refresh(now, (provider, index), msg, sink);
        }
        self.publish_on(provider, msg.stream_id, index);
        let is_last = is_last_image(msg);
        if msg.state.stream != StreamState::Open && !is_last {
            if self.hand_over(now, index, sink) {
                return;
            }
            let status = status_bytes(self.table[index].key.as_key(), msg.state);
            self.close_item(now, index, &status, sink);
            return;
        }
        match self.table[index].cached.on_refresh(msg, &self.rules) {
            Ok(true) if is_last => self.end_with_image(now, index, sink),
            Ok(true) => {
                let known = self.suppliers.providers.get(&provider);
                self.table[index].is_saved = known.is_some_and(|known| known.is_saved);
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
        if self.table[index].is_of_other(provider) {
            self.end_standby(provider, index);
        } else if !self.hand_over(now, index, sink) {
            self.forget_stream(index);
            let text = "the provider uses its stream for another item";
            self.suspect(now, index, SUSPECT.because(StateCode::NONE, text), sink);
        }
    }

    /// A provider publishes an item on this stream from now on.
    fn publish_on(&mut self, provider: ProviderId, stream_id: i32, index: usize) {
        let published = ItemSupply::Published { provider, stream_id };
        if !self.table[index].standbys.is_empty() {
            self.end_standby(provider, index);
        }
        let before = std::mem::replace(&mut self.table[index].supply, published);
        if let ItemSupply::Published { provider, stream_id } = before
            && before != published
            && let Some(known) = self.suppliers.providers.get_mut(&provider)
            && known.streams.get(stream_id) == Some(Target::Item(index))
        {
            known.streams.remove(stream_id);
        }
        if let Some(known) = self.suppliers.providers.get_mut(&provider) {
            known.streams.insert(stream_id, Target::Item(index));
            if before != published {
                known.places.entry(self.table[index].key.service).or_default().add(index);
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
        recall::begin_part(self, now, index, msg);
        match self.table[index].cached.on_refresh(msg, &self.rules) {
            Ok(true) if is_last => {
                let service = self.table[index].key.service;
                self.forget_stream(index);
                self.end_with_image(now, index, sink);
                self.pump(now, service, sink);
            }
            Ok(is_whole) => {
                self.answered(now, index, is_whole, sink);
                match is_whole {
                    true if recall::is_for_some(self, index) => self.serve_waiting(now, index, sink),
                    true => self.publish_image(now, index, sink),
                    false => {}
                }
            }
            Err(error) => self.spoil(now, (provider, index), error, sink),
        }
    }
}

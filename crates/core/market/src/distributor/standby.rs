//! Several non-interactive providers of a service: each item has one that it comes from, and the others stand
//! by.
//!
//! The first one to publish an item has it, until it is gone, closes the item, says that it is suspect, or
//! nothing was heard of it for a while. What the others publish is kept beside it, merged and not passed on, so
//! that one of them can take over at once, with an image.

use rwf::{DataState, RefreshMsg, StatusMsg, StreamState, UpdateMsg};
use units::Nanos;

use super::base::ProviderId;
use super::item::{ItemSupply, Standby};
use super::items::Items;
use super::provider::Target;
use super::sink::DistributorSink;

/// The most providers that stand by for one item.
const STANDBYS_MAX: usize = 8;

/// Another provider than the one that an item comes from says something of it.
fn note_rival(items: &mut Items, now: Nanos, index: usize) {
    let owner = items.table[index].supply.provider();
    if let Some(owner) = owner.and_then(|owner| items.suppliers.providers.get_mut(&owner)) {
        owner.note_rival(now);
    }
}

/// What those say that stand by.
impl Items {
    #[cold]
    pub(super) fn on_standby_refresh(
        &mut self,
        now: Nanos,
        (provider, index): (ProviderId, usize),
        msg: &RefreshMsg<'_>,
        sink: &mut impl DistributorSink,
    ) {
        self.counters.messages_standby.inc();
        let item = &mut self.table[index];
        let is_new = item.standby_of(provider).is_none();
        if is_new {
            if item.standbys.len() >= STANDBYS_MAX {
                self.counters.messages_refused.inc();
                return;
            }
            let (stream_id, cached) = (msg.stream_id, item.cached.anew());
            item.standbys.push(Standby { provider, stream_id, cached });
        }
        note_rival(self, now, index);
        let item = &mut self.table[index];
        let Some(standby) = item.standby_of(provider) else { return };
        let before = std::mem::replace(&mut standby.stream_id, msg.stream_id);
        let result = standby.cached.on_refresh(msg, &self.rules);
        if let Some(known) = self.suppliers.providers.get_mut(&provider) {
            if before != msg.stream_id && known.streams.get(before) == Some(Target::Item(index)) {
                known.streams.remove(before);
            }
            known.streams.insert(msg.stream_id, Target::Item(index));
            if is_new || before != msg.stream_id {
                known.places.entry(self.table[index].key.service).or_default().add(index);
            }
        }
        match result {
            _ if msg.state.stream != StreamState::Open => self.end_standby(provider, index),
            Ok(_) => self.prefer_good(now, index, sink),
            Err(error) => self.spoil(now, (provider, index), error, sink),
        }
    }

    #[cold]
    pub(super) fn on_standby_update(
        &mut self,
        now: Nanos,
        (provider, index): (ProviderId, usize),
        msg: &UpdateMsg<'_>,
        sink: &mut impl DistributorSink,
    ) {
        self.counters.messages_standby.inc();
        self.count(self.table[index].key.service, |ledger| ledger.standby += 1);
        note_rival(self, now, index);
        let Some(standby) = self.table[index].standby_of(provider) else { return };
        if standby.cached.is_spoilt() && !standby.cached.is_known() {
            return;
        }
        match standby.cached.on_update(msg, &self.rules) {
            Ok(()) => self.prefer_good(now, index, sink),
            Err(error) => self.spoil(now, (provider, index), error, sink),
        }
    }

    /// A state that a provider says of an item, which may come from another one.
    pub(super) fn on_state_of(
        &mut self,
        now: Nanos,
        (provider, index): (ProviderId, usize),
        msg: &StatusMsg<'_>,
        sink: &mut impl DistributorSink,
    ) {
        let ends = msg.state.is_some_and(|state| state.stream != StreamState::Open);
        if self.table[index].stands_by(provider) {
            self.counters.messages_standby.inc();
            if ends {
                self.end_standby(provider, index);
            } else if let Some(standby) = self.table[index].standby_of(provider) {
                standby.cached.on_status(msg);
            }
        } else if !ends || !self.hand_over(now, index, sink) {
            self.on_item_status(now, index, msg, sink);
            if !ends {
                self.prefer_good(now, index, sink);
            }
        }
    }

    pub(super) fn end_standby(&mut self, provider: ProviderId, index: usize) {
        let standbys = &mut self.table[index].standbys;
        let Some(at) = standbys.iter().position(|standby| standby.provider == provider) else { return };
        let gone = standbys.remove(at);
        self.suppliers.forget_standby_stream(index, &gone);
    }
}

/// Who takes over.
impl Items {
    /// The place of one that can take an item over: with a whole image, of a service that is up; rather one
    /// whose data is good.
    fn successor(&self, index: usize) -> Option<(usize, bool)> {
        let item = &self.table[index];
        let service = self.suppliers.services.get(&item.key.service)?;
        let able = item
            .standbys
            .iter()
            .enumerate()
            .filter(|(_, standby)| standby.cached.is_known() && service.is_up_at(standby.provider));
        let rated = able.map(|(at, standby)| (at, standby.cached.state_to_send().data != DataState::Suspect));
        rated.min_by_key(|(_, is_good)| !is_good)
    }

    /// If an item is suspect, or nothing is heard of its provider, and another one has it good: from now on it
    /// comes from there.
    pub(super) fn prefer_good(&mut self, now: Nanos, index: usize, sink: &mut impl DistributorSink) {
        let item = &self.table[index];
        if item.standbys.is_empty() {
            return;
        }
        let silence = self.config.provider_silence;
        let is_heard = item.supply.provider().is_some_and(|provider| {
            // What one that is gone has said comes before its loss.
            let owner = self.suppliers.providers.get(&provider);
            owner.is_none_or(|owner| !owner.is_silent(now, silence))
        });
        let is_good = item.cached.is_known() && item.cached.state_to_send().data != DataState::Suspect;
        if !(is_heard && is_good)
            && let Some((at, true)) = self.successor(index)
        {
            self.take_over(now, (index, at), sink);
        }
    }

    /// The provider of an item has ended it: another one takes it over, if there is one.
    pub(super) fn hand_over(&mut self, now: Nanos, index: usize, sink: &mut impl DistributorSink) -> bool {
        let Some((at, _)) = self.successor(index) else { return false };
        self.forget_stream(index);
        self.take_over(now, (index, at), sink);
        true
    }

    fn take_over(&mut self, now: Nanos, (index, at): (usize, usize), sink: &mut impl DistributorSink) {
        self.counters.items_taken_over.inc();
        let item = &mut self.table[index];
        let Standby { provider, stream_id, cached } = item.standbys.remove(at);
        let before = std::mem::replace(&mut item.supply, ItemSupply::Published { provider, stream_id });
        let cached = std::mem::replace(&mut item.cached, cached);
        if let ItemSupply::Published { provider, stream_id } = before {
            item.standbys.push(Standby { provider, stream_id, cached });
        }
        self.publish_image(now, index, sink);
    }
}

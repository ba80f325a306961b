//! Several non-interactive providers of a service: each item has one that it comes from, and the others stand
//! by.
//!
//! The first one to publish an item has it, until it is gone, closes the item, says that it is suspect, or
//! nothing was heard of it for a while. What the others publish is kept beside it, merged and not passed on, so
//! that one of them can take over at once, with an image.

use rwf::{DataState, RefreshMsg, StatusMsg, StreamState, UpdateMsg};
use units::Nanos;

use super::items::Item;
use super::providers::Target;
use super::requests::Upstream;
use super::{Distributor, DistributorSink, ProviderId};
use crate::cached::CachedItem;

/// What a provider publishes of an item that comes from another one.
pub(super) struct Standby {
    pub(super) provider: ProviderId,
    stream_id: i32,
    pub(super) cached: CachedItem,
}

/// A provider that has said nothing at all for so long loses items to those who publish them. A connection that
/// is dead without its end having come is noticed only later.
const SILENCE: std::time::Duration = std::time::Duration::from_secs(5);

/// The most providers that stand by for one item.
const STANDBYS_MAX: usize = 8;

impl Item {
    /// What a provider has of the item, if it stands by.
    pub(super) fn standby_of(&mut self, provider: ProviderId) -> Option<&mut Standby> {
        self.standbys.iter_mut().find(|standby| standby.provider == provider)
    }

    /// What a provider says about the item.
    pub(super) fn as_of(&self, provider: ProviderId) -> &CachedItem {
        let standby = self.standbys.iter().find(|standby| standby.provider == provider);
        standby.map_or(&self.cached, |standby| &standby.cached)
    }

    /// Whether what a provider says of the item, but for an image, is about what it has standing by: the item comes
    /// from another one, or from none since that was lost.
    #[inline]
    pub(super) fn stands_by(&self, provider: ProviderId) -> bool {
        match self.upstream {
            Upstream::Published { provider: owner, .. } => owner != provider,
            Upstream::None => self.standbys.iter().any(|standby| standby.provider == provider),
            _ => false,
        }
    }

    /// Whether the item comes from another provider than this one.
    #[inline]
    pub(super) fn is_of_other(&self, provider: ProviderId) -> bool {
        matches!(self.upstream, Upstream::Published { provider: owner, .. } if owner != provider)
    }
}

/// What those say that stand by.
impl Distributor {
    #[cold]
    pub(super) fn on_standby_refresh(
        &mut self,
        now: Nanos,
        (provider, index): (ProviderId, usize),
        msg: &RefreshMsg<'_>,
        sink: &mut impl DistributorSink,
    ) {
        self.counters.messages_standby.inc();
        let item = &mut self.items[index];
        let is_new = item.standby_of(provider).is_none();
        if is_new {
            if item.standbys.len() >= STANDBYS_MAX {
                self.counters.messages_refused.inc();
                return;
            }
            let (stream_id, cached) = (msg.stream_id, item.cached.anew());
            item.standbys.push(Standby { provider, stream_id, cached });
        }
        let Some(standby) = item.standby_of(provider) else { return };
        let before = std::mem::replace(&mut standby.stream_id, msg.stream_id);
        let result = standby.cached.on_refresh(msg, &self.rules);
        if let Some(known) = self.providers.get_mut(&provider) {
            if before != msg.stream_id && known.streams.get(&before) == Some(&Target::Item(index)) {
                known.streams.remove(&before);
            }
            known.streams.insert(msg.stream_id, Target::Item(index));
            if is_new || before != msg.stream_id {
                known.places.entry(self.items[index].key.service).or_default().add(index);
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
        let Some(standby) = self.items[index].standby_of(provider) else { return };
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
        if self.items[index].stands_by(provider) {
            self.counters.messages_standby.inc();
            if ends {
                self.end_standby(provider, index);
            } else if let Some(standby) = self.items[index].standby_of(provider) {
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
        let standbys = &mut self.items[index].standbys;
        let Some(at) = standbys.iter().position(|standby| standby.provider == provider) else { return };
        let gone = standbys.remove(at);
        self.forget_standby_stream(index, &gone);
    }

    /// A provider's stream is no longer that of an item.
    pub(super) fn forget_standby_stream(&mut self, index: usize, standby: &Standby) {
        if let Some(known) = self.providers.get_mut(&standby.provider)
            && known.streams.get(&standby.stream_id) == Some(&Target::Item(index))
        {
            known.streams.remove(&standby.stream_id);
        }
    }
}

/// Who takes over.
impl Distributor {
    /// The place of one that can take an item over: with a whole image, of a service that is up; rather one
    /// whose data is good.
    fn successor(&self, index: usize) -> Option<(usize, bool)> {
        let item = &self.items[index];
        let service = self.services.get(&item.key.service)?;
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
        let item = &self.items[index];
        if item.standbys.is_empty() {
            return;
        }
        let is_heard = item.upstream.provider().is_some_and(|provider| {
            // What one that is gone has said comes before its loss.
            let owner = self.providers.get(&provider);
            owner.is_none_or(|owner| owner.waiting.is_some() || now < owner.heard_at + SILENCE)
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
        let item = &mut self.items[index];
        let Standby { provider, stream_id, cached } = item.standbys.remove(at);
        let before = std::mem::replace(&mut item.upstream, Upstream::Published { provider, stream_id });
        let cached = std::mem::replace(&mut item.cached, cached);
        if let Upstream::Published { provider, stream_id } = before {
            item.standbys.push(Standby { provider, stream_id, cached });
        }
        self.publish_image(now, index, sink);
    }
}

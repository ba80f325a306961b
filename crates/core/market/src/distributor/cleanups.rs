//! Clean-ups too large for one turn: a provider that leaves a million items, a point-to-point server that wanted as many.
//!
//! They are done one after the other, so much work in a turn ([`DistributorConfig::cleanups_per_turn`]). One that fits
//! what is left of the present turn is done at once. What the loss of a provider or of a service means for items, and
//! what a provider says of many at once, is a *sweep* over the table. Whatever else comes about an item waits for its
//! share of the sweeps ([`Items::settle`] does it out of turn), so that peers see the same as if the sweep were
//! done at once.
//!
//! Few sweeps wait, whatever providers do. Of those that have not begun a later one of the same provider about the same
//! services takes the place; of states of many [`BULK_CHANGES_MAX`](super::bulk_changes::BULK_CHANGES_MAX) wait, and then
//! the provider does ([`super::waiting`]).
//!
//! [`DistributorConfig::cleanups_per_turn`]: super::DistributorConfig::cleanups_per_turn

use std::collections::BTreeMap;

use rwf::{Msg, StateCode};
use units::Nanos;

use super::Distributor;
use super::base::{PeerId, ProviderId};
use super::item::ItemSupply;
use super::items::Items;
use super::notices::ProviderNotice;
use super::provider::Target;
use super::sink::DistributorSink;
use super::status::{NOT_FOUND, SUSPECT, report};
use super::sweep::{Cleanups, Departed, Fate, ItemIndices, Range, Sweep, What};
use super::unknown::Step;
use crate::key::ItemKey;

/// Work of one kind before it is another one's turn, so that none waits for all of another.
const SLICE_WORK: usize = 256;

/// Sweeps, links, unknown items, items over the limit.
const KINDS: usize = 4;

/// Turns.
impl Items {
    /// Goes on with what is not done, as far as the turn's work goes.
    pub(super) fn clean_up(&mut self, now: Nanos, sink: &mut impl DistributorSink) {
        if !self.cleanups.has_work_above(now, 0) || std::mem::replace(&mut self.cleanups.is_running, true) {
            return self.count_cleanups();
        }
        while self.cleanups.has_work_above(now, 0) && self.cleanups_waiting() > 0 {
            let until = self.cleanups.left.saturating_sub(SLICE_WORK);
            self.cleanups.kind = (self.cleanups.kind + 1) % KINDS;
            match self.cleanups.kind {
                0 => self.sweep_some(now, until, sink),
                1 => self.forget_some(now, until, sink),
                2 => self.walk_unknown(now, until, sink),
                _ => self.report_over_limits(now, until, sink),
            }
        }
        self.cleanups.is_running = false;
        self.count_cleanups();
    }

    fn count_cleanups(&self) {
        self.counters.cleanups_waiting.set(self.cleanups_waiting() as u64);
    }

    /// How many things are not done.
    fn cleanups_waiting(&self) -> usize {
        let Cleanups { sweeps, peers, over_limit, .. } = &self.cleanups;
        sweeps.len() + peers.len() + over_limit.len() + usize::from(self.unknown.is_walked())
    }

    /// Tells items in queues that they wait for a limit, a service after the other.
    fn report_over_limits(&mut self, now: Nanos, until: usize, sink: &mut impl DistributorSink) {
        while self.cleanups.has_work_above(now, until)
            && let Some(id) = self.cleanups.over_limit.pop_first()
        {
            self.cleanups.spend(1);
            self.report_rest_over_limit(now, id, until, sink);
        }
    }

    /// The same in the turns that follow.
    pub(super) fn report_over_limit_later(&mut self, id: u16) {
        self.cleanups.over_limit.insert(id);
        self.count_cleanups();
    }
}

/// Turns.
impl Distributor {
    /// When clean-ups go on: with the next turn, if anything is not done.
    pub(super) fn next_cleanup(&self) -> Nanos {
        let is_due = self.items.cleanups_waiting() > 0 || self.waits.has_waiting_providers();
        if is_due { self.items.cleanups.granted_at } else { Nanos::NEVER }
    }

    /// Whether items still come from a provider that is gone: its number must not be another one's yet.
    #[must_use]
    pub fn is_leaving(&self, provider: ProviderId) -> bool {
        self.items.cleanups.sweeps.iter().any(|sweep| sweep.provider == provider)
    }
}

/// Providers.
impl Items {
    /// Something has become of many items: what that means for each is done in time.
    pub(super) fn sweep(
        &mut self,
        now: Nanos,
        provider: ProviderId,
        what: What,
        sink: &mut impl DistributorSink,
    ) {
        while let Some(at) = self.sweep_done_by(provider, &what) {
            self.cleanups.sweeps.remove(at);
        }
        let all = Range::All(0..self.table.end());
        self.begin_sweep(now, provider, (what, all), sink);
    }

    /// The sweep that has not begun and is done with another one. What the provider has said of many since then is
    /// about what was left by it: then it has to be done before.
    fn sweep_done_by(&self, provider: ProviderId, what: &What) -> Option<usize> {
        // Streams of an offer that is no more are counted apart from those of the present one.
        let since = match what {
            What::Unasked(Some(id), _) => self.suppliers.offer(provider, *id).map_or(0, |offer| offer.since),
            _ => 0,
        };
        let theirs = self.cleanups.sweeps.iter().enumerate().rev().filter(|(_, s)| s.provider == provider);
        let mut since = theirs
            .take_while(|(_, s)| !s.is_begun && s.number > since && !matches!(s.what, What::BulkChanges(_)));
        since.find(|(_, s)| s.what.is_done_by(what)).map(|(at, _)| at)
    }

    /// The same for services that a provider publishes no longer: it is done with the items that it has published. As
    /// long as that has not begun, what is lost next is done with it, so that a service that goes up and down has no
    /// more than two of them.
    pub(super) fn sweep_published(
        &mut self,
        now: Nanos,
        provider: ProviderId,
        (services, places): (BTreeMap<u16, Fate>, BTreeMap<u16, ItemIndices>),
        text: &'static str,
        sink: &mut impl DistributorSink,
    ) {
        let mut these: Vec<usize> = places.into_values().flat_map(|places| places.all).collect();
        let mut is_all =
            services.iter().any(|(id, fate)| fate.providers == 0 && self.suppliers.takes_posts(*id));
        let what = What::Unpublished(services, text);
        let waiting = self.sweep_done_by(provider, &what).and_then(|at| self.cleanups.sweeps.remove(at));
        match waiting.map(|sweep| sweep.places) {
            Some(Range::All(_)) => is_all = true,
            Some(Range::These(before)) => these.extend(before),
            None => {}
        }
        these.sort_unstable();
        these.dedup();
        let places = if is_all { Range::All(0..self.table.end()) } else { Range::These(these.into_iter()) };
        self.begin_sweep(now, provider, (what, places), sink);
    }

    fn begin_sweep(
        &mut self,
        now: Nanos,
        provider: ProviderId,
        (what, places): (What, Range),
        sink: &mut impl DistributorSink,
    ) {
        let number = self.cleanups.next_number();
        self.push_sweep(now, Sweep { number, provider, places, is_begun: false, what }, sink);
    }

    /// The number of a sweep is above those of all before it.
    pub(super) fn push_sweep(&mut self, now: Nanos, sweep: Sweep, sink: &mut impl DistributorSink) {
        self.cleanups.sweeps.push_back(sweep);
        self.clean_up(now, sink);
    }

    /// Does at once what is left of sweeps up to a number.
    pub(super) fn finish_sweeps_to(&mut self, now: Nanos, number: u64, sink: &mut impl DistributorSink) {
        let left = self.cleanups.left;
        while !self.cleanups.are_done_to(number) && !self.cleanups.is_running {
            self.cleanups.left = usize::MAX;
            self.sweep_some(now, 0, sink);
        }
        self.cleanups.left = left;
    }

    fn sweep_some(&mut self, now: Nanos, until: usize, sink: &mut impl DistributorSink) {
        while self.cleanups.has_work_above(now, until) {
            let Some(sweep) = self.cleanups.sweeps.front_mut() else { return };
            sweep.is_begun = true;
            self.cleanups.left -= 1;
            if let Some(index) = sweep.places.next() {
                if let Some(item) = self.table.get(index) {
                    let reported = item.waiting.len();
                    self.cleanups.spend(reported);
                    self.sweep_item(now, index, 0, sink);
                }
                continue;
            }
            let number = sweep.number;
            if let What::Withdrawn(id) = sweep.what
                && self.end_unknown(id, number, sink)
            {
                continue;
            }
            if let Some(done) = self.cleanups.sweeps.pop_front() {
                self.swept(now, done, sink);
            }
        }
    }

    /// Does one item's share of a sweep.
    fn sweep_item(&mut self, now: Nanos, index: usize, at: usize, sink: &mut impl DistributorSink) {
        let Some(sweep) = self.cleanups.sweeps.get_mut(at) else { return };
        let item = &mut self.table[index];
        if item.swept >= sweep.number {
            return;
        }
        let before = std::mem::replace(&mut item.swept, sweep.number);
        let (provider, service) = (sweep.provider, item.key.service);
        match &mut sweep.what {
            &mut What::Unasked(of, state) => {
                let supply = item.supply;
                let is_asked = supply.is_asked_for() && supply.provider() == Some(provider);
                if is_asked && of.is_none_or(|of| of == service) {
                    self.item_lost(now, index, state, sink);
                }
            }
            What::Unpublished(services, text) => {
                let Some(mut fate) = services.remove(&service) else { return };
                let text = *text;
                self.lose_published(now, (provider, index), text, &mut fate, sink);
                if let Some(What::Unpublished(services, _)) =
                    self.cleanups.sweeps.get_mut(at).map(|sweep| &mut sweep.what)
                {
                    services.insert(service, fate);
                }
            }
            What::BulkChanges(said) => {
                if let Some(said) = said.about(service) {
                    self.take_bulk_change(now, (provider, index), (&said, before), sink);
                }
            }
            What::Withdrawn(id) => {
                if *id == service {
                    self.close_withdrawn(now, (provider, index), sink);
                }
            }
        }
    }

    /// A provider publishes an item no longer: it comes from another one that has it, and is suspect otherwise.
    fn lose_published(
        &mut self,
        now: Nanos,
        (provider, index): (ProviderId, usize),
        text: &str,
        fate: &mut Fate,
        sink: &mut impl DistributorSink,
    ) {
        self.end_standby(provider, index);
        let supply = self.table[index].supply;
        let was_its = supply.provider() == Some(provider);
        if was_its && self.hand_over(now, index, sink) {
            fate.moved += 1;
        } else if was_its || supply == ItemSupply::None && fate.providers == 0 {
            self.forget_stream(index);
            self.suspect(now, index, SUSPECT.because(StateCode::NONE, text), sink);
            fate.suspect += 1;
        }
    }

    /// A sweep is done.
    fn swept(&mut self, now: Nanos, sweep: Sweep, sink: &mut impl DistributorSink) {
        let services = match sweep.what {
            What::Unpublished(services, _) => services,
            What::Withdrawn(id) => return self.end_service(id, sweep.number, sink),
            What::Unasked(..) | What::BulkChanges(_) => return,
        };
        for (id, Fate { providers, moved, suspect }) in services {
            let Some(service) = self.suppliers.services.get(&id) else { continue };
            if providers > 0 && self.suppliers.sharing_ration.take(now).is_some() {
                let service = &*service.definition.info.name;
                let notice = ProviderNotice::LeavesService { service, providers, moved, suspect };
                sink.notice(sweep.provider, &notice);
            }
        }
    }

    /// Something comes about an item: what sweeps have for it is done first. The item may be gone then.
    #[cold]
    #[inline(never)]
    pub(super) fn settle(&mut self, now: Nanos, index: usize, sink: &mut impl DistributorSink) {
        let Some(swept) = self.table.get(index).map(|item| item.swept) else { return };
        // They are in the order of their numbers, and most have been done with an item that is busy.
        let from = self.cleanups.sweeps.partition_point(|sweep| sweep.number <= swept);
        for at in from..self.cleanups.sweeps.len() {
            if self.table.contains(index) {
                self.sweep_item(now, index, at, sink);
            }
        }
    }

    /// The same for the item of a provider's message.
    #[cold]
    #[inline(never)]
    pub(super) fn settle_target(
        &mut self,
        now: Nanos,
        provider: ProviderId,
        bytes: &[u8],
        sink: &mut impl DistributorSink,
    ) {
        let Ok(msg) = Msg::parse(bytes) else {
            // It will cost the item of its stream.
            let target = rwf::peek(bytes).ok().and_then(|head| {
                self.suppliers.providers.get(&provider).and_then(|known| known.streams.get(head.stream_id))
            });
            if let Some(Target::Item(index)) = target {
                self.settle(now, index, sink);
            }
            return;
        };
        let key = match &msg {
            Msg::Update(update) => update.key,
            Msg::Refresh(refresh) => refresh.key,
            Msg::Status(status) => status.key,
            _ => None,
        };
        if let Some(Target::Item(index)) = self.target_of(provider, msg.stream_id(), msg.domain(), key) {
            self.settle(now, index, sink);
        }
    }

    /// The same for the item that a peer means.
    #[cold]
    #[inline(never)]
    pub(super) fn settle_key(&mut self, now: Nanos, key: ItemKey<'_>, sink: &mut impl DistributorSink) {
        if let Some(index) = self.find(key) {
            self.settle(now, index, sink);
        }
    }
}

/// Point-to-point servers.
impl Items {
    /// Takes a peer that is gone off the items that it wanted, in time.
    pub(super) fn forget_peer(&mut self, now: Nanos, gone: Departed, sink: &mut impl DistributorSink) {
        self.cleanups.peers.push_back(gone);
        self.clean_up(now, sink);
    }

    /// The number of a peer that is gone is used again: it is taken off all items at once. Whether anybody else wants
    /// these is looked at in time.
    pub(super) fn forget_rest(&mut self, peer: PeerId) {
        for gone in self.cleanups.peers.iter().filter(|gone| gone.peer == peer) {
            for index in gone.items.iter() {
                if let Some(item) = self.table.get_mut(index) {
                    item.forget(peer);
                }
            }
        }
    }

    fn forget_some(&mut self, now: Nanos, until: usize, sink: &mut impl DistributorSink) {
        while self.cleanups.has_work_above(now, until)
            && let Some(Departed { peer, items, kept }) = self.cleanups.peers.front_mut()
        {
            let (peer, index) = (*peer, items.pop_first());
            let is_over = index.is_none() && !kept.shed();
            self.cleanups.spend(1);
            if is_over {
                self.cleanups.peers.pop_front();
            }
            let Some(index) = index else { continue };
            let wants_again = self.links.peers.get(&peer).is_some_and(|known| known.items.contains(index));
            // The item may be another one by now, of which the peer has never heard.
            if let Some(item) = self.table.get_mut(index).filter(|_| !wants_again) {
                item.forget(peer);
                self.check_wanted(now, index, sink);
            }
        }
    }
}

/// Items that nobody has published.
impl Items {
    /// Goes on with the walk until so much of the turn's work is left.
    fn walk_unknown(&mut self, now: Nanos, until: usize, sink: &mut impl DistributorSink) {
        while self.unknown.is_walked() && self.cleanups.has_work_above(now, until) {
            self.cleanups.spend(1);
            let Items { unknown, links, suppliers, .. } = self;
            let is_linked = |peer: &PeerId| links.peers.contains_key(peer);
            let settled_at = |id| suppliers.services.get(&id).map(|service| service.settled_at);
            if let Step::NotFound(key, peers) = unknown.step(now, is_linked, settled_at) {
                self.counters.items_not_found.add(peers.len() as u64);
                for peer in &peers {
                    report(*peer, key.as_key(), NOT_FOUND, sink);
                }
                self.cleanups.spend(peers.len());
            }
        }
    }
}

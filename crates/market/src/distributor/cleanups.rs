//! Clean-ups too large for one turn: a provider that leaves a million items, a point-to-point server that wanted as many.
//!
//! They are done one after the other, so much work in a turn ([`DistributorConfig::cleanups_per_turn`]). One that fits
//! what is left of the present turn is done at once. What the loss of a provider or of a service means for items, and
//! what a provider says of many at once, is a *sweep* over the table. Whatever else comes about an item waits for its
//! share of the sweeps ([`Distributor::settle`] does it out of turn), so that peers see the same as if the sweep were
//! done at once.
//!
//! Few sweeps wait, whatever providers do. Of those that have not begun a later one of the same provider about the same
//! services takes the place; of states of many [`super::many::SAID_MAX`] wait, and then the provider does ([`super::waiting`]).
//!
//! [`DistributorConfig::cleanups_per_turn`]: super::DistributorConfig::cleanups_per_turn

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use rwf::{Msg, State, StateCode};
use units::Nanos;

use super::many::Said;
use super::providers::Target;
use super::requests::Upstream;
use super::turns::Kept;
use super::{Distributor, DistributorSink, PeerId, PostRoute, ProviderId, ProviderNotice, SUSPECT};
use crate::key::ItemKey;

/// What is not done, and what may be done of it in this turn.
#[derive(Debug, Default)]
pub(super) struct Cleanups {
    /// In the order in which they began.
    pub(super) sweeps: VecDeque<Sweep>,
    /// Links that are gone.
    peers: VecDeque<Departed>,
    /// Services of which items in the queue are to be told that they wait for a limit.
    over_limit: BTreeSet<u16>,
    /// The kind of work whose turn it is.
    kind: usize,
    /// Work left in this turn.
    left: usize,
    /// When the work of a turn was granted last.
    granted_at: Nanos,
    /// Sweeps so far.
    count: u64,
    is_running: bool,
}

/// What is left of a link that is gone.
#[derive(Debug)]
pub(super) struct Departed {
    pub(super) peer: PeerId,
    /// The items that were wanted over it.
    pub(super) items: BTreeSet<usize>,
    /// What it had asked for and not got.
    pub(super) kept: Kept,
}

/// Work of one kind before it is another one's turn, so that none waits for all of another.
const SLICE_WORK: usize = 256;
/// Sweeps, links, unknown items, items over the limit.
const KINDS: usize = 4;

/// One thing to be done with each item that there is now.
#[derive(Debug)]
pub(super) struct Sweep {
    pub(super) number: u64,
    pub(super) provider: ProviderId,
    /// The places of items that are left.
    pub(super) places: Range,
    /// It has been worked at.
    pub(super) is_begun: bool,
    pub(super) what: What,
}

/// Places of the table of items.
#[derive(Debug)]
pub(super) enum Range {
    /// All that there were.
    All(std::ops::Range<usize>),
    These(std::vec::IntoIter<usize>),
}

impl Iterator for Range {
    type Item = usize;

    fn next(&mut self) -> Option<usize> {
        match self {
            Range::All(places) => places.next(),
            Range::These(places) => places.next(),
        }
    }
}

/// Places of items that a provider has published. Some are named several times, and some are of others by now.
#[derive(Debug, Default)]
pub(super) struct Places {
    all: Vec<usize>,
    /// So many are looked through for those that are named several times.
    tidy_at: usize,
}

impl Places {
    pub(super) fn add(&mut self, index: usize) {
        self.all.push(index);
        if self.all.len() > self.tidy_at.max(PLACES_UNTIDY) {
            self.tidy();
        }
    }

    #[cold]
    fn tidy(&mut self) {
        self.all.sort_unstable();
        self.all.dedup();
        self.tidy_at = 2 * self.all.len();
    }
}

const PLACES_UNTIDY: usize = 1_000;

/// What is done with an item.
#[derive(Debug)]
pub(super) enum What {
    /// The provider publishes these services no longer, or not now. What became of their items, and why.
    Unpublished(BTreeMap<u16, Fate>, &'static str),
    /// The provider is asked no longer for items of a service, or of any. What is said of them.
    Unasked(Option<u16>, State<'static>),
    /// The provider has said something of many items.
    Said(Said),
    /// The service is withdrawn: its items are closed.
    Withdrawn(u16),
}

impl What {
    /// Whether a sweep that has not begun is done with another one that the same provider brings.
    fn is_done_by(&self, next: &What) -> bool {
        match (self, next) {
            (What::Unpublished(before, _), What::Unpublished(services, _)) => {
                before.keys().all(|id| services.contains_key(id))
            }
            (What::Unasked(before, _), What::Unasked(service, _)) => before == service,
            (What::Withdrawn(before), What::Withdrawn(service)) => before == service,
            _ => false,
        }
    }
}

/// What becomes of the items of a service that one of its providers publishes no longer.
#[derive(Debug)]
pub(super) struct Fate {
    /// The providers that published it then.
    providers: usize,
    /// How many items come from another provider now, and how many from none.
    moved: usize,
    suspect: usize,
}

impl Fate {
    pub(super) fn new(providers: usize) -> Fate {
        Fate { providers, moved: 0, suspect: 0 }
    }
}

impl Cleanups {
    /// Whether items wait for their share of something.
    #[inline]
    pub(super) fn has_sweeps(&self) -> bool {
        !self.sweeps.is_empty()
    }

    /// The number of the last sweep: those up to it do not concern an item that is new.
    pub(super) fn last_sweep(&self) -> u64 {
        self.count
    }

    /// The number of the last sweep of a provider that is not done, or zero.
    pub(super) fn last_sweep_of(&self, provider: ProviderId) -> u64 {
        self.sweeps.iter().rfind(|sweep| sweep.provider == provider).map_or(0, |sweep| sweep.number)
    }

    /// A number that no sweep has: those before it are apart from those after it.
    pub(super) fn next_number(&mut self) -> u64 {
        self.count += 1;
        self.count
    }

    /// Whether all sweeps up to a number are done.
    pub(super) fn are_done_to(&self, number: u64) -> bool {
        self.sweeps.front().is_none_or(|sweep| sweep.number > number)
    }
}

/// Turns.
impl Distributor {
    /// The work of a turn may be done from now on.
    pub(super) fn grant_cleanups(&mut self, now: Nanos) {
        self.cleanups.left = self.config.cleanups_per_turn;
        self.cleanups.granted_at = now;
    }

    /// Goes on with what is not done, as far as the turn's work goes.
    pub(super) fn clean_up(&mut self, now: Nanos, sink: &mut impl DistributorSink) {
        if !self.has_work_above(now, 0) || std::mem::replace(&mut self.cleanups.is_running, true) {
            return self.count_cleanups();
        }
        while self.has_work_above(now, 0) && self.cleanups_waiting() > 0 {
            let until = self.cleanups.left.saturating_sub(SLICE_WORK);
            self.cleanups.kind = (self.cleanups.kind + 1) % KINDS;
            match self.cleanups.kind {
                0 => self.sweep_some(now, until, sink),
                1 => self.forget_some(now, until, sink),
                2 => self.walk_unknown(now, until, sink),
                _ => self.tell_over_limits(now, until, sink),
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

    /// Whether more of the turn's work is left.
    pub(super) fn has_work_above(&mut self, now: Nanos, until: usize) -> bool {
        if now > self.cleanups.granted_at {
            self.grant_cleanups(now);
        }
        self.cleanups.left > until
    }

    /// Tells items in queues that they wait for a limit, a service after the other.
    fn tell_over_limits(&mut self, now: Nanos, until: usize, sink: &mut impl DistributorSink) {
        while self.has_work_above(now, until)
            && let Some(id) = self.cleanups.over_limit.pop_first()
        {
            self.spend(1);
            self.tell_rest_over_limit(now, id, until, sink);
        }
    }

    /// The same in the turns that follow.
    pub(super) fn tell_over_limit_later(&mut self, id: u16) {
        self.cleanups.over_limit.insert(id);
        self.count_cleanups();
    }

    /// When clean-ups go on: with the next turn, if anything is not done.
    pub(super) fn next_cleanup(&self) -> Nanos {
        let is_due = self.cleanups_waiting() > 0 || self.has_waiting_providers();
        if is_due { self.cleanups.granted_at } else { Nanos::NEVER }
    }

    /// Whether items still come from a provider that is gone: its number must not be another one's yet.
    #[must_use]
    pub fn is_leaving(&self, provider: ProviderId) -> bool {
        self.cleanups.sweeps.iter().any(|sweep| sweep.provider == provider)
    }
}

/// Providers.
impl Distributor {
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
        let all = Range::All(0..self.items.capacity());
        self.begin_sweep(now, provider, (what, all), sink);
    }

    /// The sweep that has not begun and is done with another one. What the provider has said of many since then is
    /// about what was left by it: then it has to be done before.
    fn sweep_done_by(&self, provider: ProviderId, what: &What) -> Option<usize> {
        // Streams of an offer that is no more are counted apart from those of the present one.
        let since = match what {
            What::Unasked(Some(id), _) => self.offer(provider, *id).map_or(0, |offer| offer.since),
            _ => 0,
        };
        let theirs = self.cleanups.sweeps.iter().enumerate().rev().filter(|(_, s)| s.provider == provider);
        let mut since =
            theirs.take_while(|(_, s)| !s.is_begun && s.number > since && !matches!(s.what, What::Said(_)));
        since.find(|(_, s)| s.what.is_done_by(what)).map(|(at, _)| at)
    }

    /// The same for services that a provider publishes no longer: it is done with the items that it has published. As
    /// long as that has not begun, what is lost next is done with it, so that a service that goes up and down has no
    /// more than two of them.
    pub(super) fn sweep_published(
        &mut self,
        now: Nanos,
        provider: ProviderId,
        (services, places): (BTreeMap<u16, Fate>, BTreeMap<u16, Places>),
        text: &'static str,
        sink: &mut impl DistributorSink,
    ) {
        let mut these: Vec<usize> = places.into_values().flat_map(|places| places.all).collect();
        let mut is_all = services.iter().any(|(id, fate)| fate.providers == 0 && self.takes_posts(*id));
        let what = What::Unpublished(services, text);
        let waiting = self.sweep_done_by(provider, &what).and_then(|at| self.cleanups.sweeps.remove(at));
        match waiting.map(|sweep| sweep.places) {
            Some(Range::All(_)) => is_all = true,
            Some(Range::These(before)) => these.extend(before),
            None => {}
        }
        these.sort_unstable();
        these.dedup();
        let places =
            if is_all { Range::All(0..self.items.capacity()) } else { Range::These(these.into_iter()) };
        self.begin_sweep(now, provider, (what, places), sink);
    }

    /// Whether posts change items of a service, so that items of no provider may be good.
    fn takes_posts(&self, id: u16) -> bool {
        self.services.get(&id).is_some_and(|service| service.posts == PostRoute::Cache)
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
        while self.has_work_above(now, until) {
            let Some(sweep) = self.cleanups.sweeps.front_mut() else { return };
            sweep.is_begun = true;
            self.cleanups.left -= 1;
            if let Some(index) = sweep.places.next() {
                if let Some(item) = self.items.get(index) {
                    let told = item.waiting.len();
                    self.spend(told);
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

    /// Takes more of the turn's work.
    pub(super) fn spend(&mut self, work: usize) {
        self.cleanups.left = self.cleanups.left.saturating_sub(work);
    }

    /// Does one item's share of a sweep.
    fn sweep_item(&mut self, now: Nanos, index: usize, at: usize, sink: &mut impl DistributorSink) {
        let Some(sweep) = self.cleanups.sweeps.get_mut(at) else { return };
        let item = &mut self.items[index];
        if item.swept >= sweep.number {
            return;
        }
        let before = std::mem::replace(&mut item.swept, sweep.number);
        let (provider, service) = (sweep.provider, item.key.service);
        match &mut sweep.what {
            &mut What::Unasked(of, state) => {
                let upstream = item.upstream;
                let is_asked = upstream.is_asked_for() && upstream.provider() == Some(provider);
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
            What::Said(said) => {
                if let Some(said) = said.about(service) {
                    self.take_said(now, (provider, index), (&said, before), sink);
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
        let upstream = self.items[index].upstream;
        let was_its = upstream.provider() == Some(provider);
        if was_its && self.hand_over(now, index, sink) {
            fate.moved += 1;
        } else if was_its || upstream == Upstream::None && fate.providers == 0 {
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
            What::Unasked(..) | What::Said(_) => return,
        };
        for (id, Fate { providers, moved, suspect }) in services {
            let Some(service) = self.services.get(&id) else { continue };
            if providers > 0 && self.sharing_ration.take(now).is_some() {
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
        let Some(swept) = self.items.get(index).map(|item| item.swept) else { return };
        // They are in the order of their numbers, and most have been done with an item that is busy.
        let from = self.cleanups.sweeps.partition_point(|sweep| sweep.number <= swept);
        for at in from..self.cleanups.sweeps.len() {
            if self.items.contains(index) {
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
                self.providers.get(&provider).and_then(|known| known.streams.get(&head.stream_id)).copied()
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
impl Distributor {
    /// Takes a peer that is gone off the items that it wanted, in time.
    pub(super) fn forget_peer(&mut self, now: Nanos, gone: Departed, sink: &mut impl DistributorSink) {
        self.cleanups.peers.push_back(gone);
        self.clean_up(now, sink);
    }

    /// The number of a peer that is gone is used again: it is taken off all items at once. Whether anybody else wants
    /// these is looked at in time.
    pub(super) fn forget_rest(&mut self, peer: PeerId) {
        for gone in self.cleanups.peers.iter().filter(|gone| gone.peer == peer) {
            for index in &gone.items {
                if let Some(item) = self.items.get_mut(*index) {
                    item.forget(peer);
                }
            }
        }
    }

    fn forget_some(&mut self, now: Nanos, until: usize, sink: &mut impl DistributorSink) {
        while self.has_work_above(now, until)
            && let Some(Departed { peer, items, kept }) = self.cleanups.peers.front_mut()
        {
            let (peer, index) = (*peer, items.pop_first());
            let is_over = index.is_none() && !kept.shed();
            self.spend(1);
            if is_over {
                self.cleanups.peers.pop_front();
            }
            let Some(index) = index else { continue };
            let wants_again = self.peers.get(&peer).is_some_and(|known| known.items.contains(&index));
            // The item may be another one by now, of which the peer has never heard.
            if let Some(item) = self.items.get_mut(index).filter(|_| !wants_again) {
                item.forget(peer);
                self.check_wanted(now, index, sink);
            }
        }
    }
}

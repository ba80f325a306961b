//! What a provider says of many items in one message: a state of a group or of all items of a service, and that a
//! group is merged with another one.
//!
//! It is done to each item in a sweep, in the order in which it was said. What is said while the last sweep waits to
//! begin goes with that one, so that a provider that tells of a hundred groups has its items walked through twice. A
//! sweep more for each message would make each item's next message look at them all, so no more than [`SAID_MAX`]
//! wait: a provider that has as many and says more waits itself, and nobody else ([`super::waiting`]).

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use rdm::OwnedState;
use rdm::directory::DirectoryChange;
use rwf::{DataType, StatusMsg};
use units::Nanos;

use super::cleanups::{Range, Sweep, What};
use super::items::Item;
use super::{Distributor, DistributorSink, ProviderId};

/// Of one provider so many sweeps wait, the one under way included.
pub(super) const SAID_MAX: usize = 4;
/// A sweep that has so much to tell takes no more.
const CHANGES_MAX: usize = 256;

/// One thing that was said: of which service of ours, of which group if not of all, and what.
#[derive(Debug)]
pub(super) struct Saying {
    service: u16,
    group: Option<Box<[u8]>>,
    change: Change,
}

#[derive(Clone, Debug)]
enum Change {
    State(OwnedState),
    Merged(Box<[u8]>),
}

/// What one sweep does.
#[derive(Debug, Default)]
pub(super) struct Said {
    services: BTreeMap<u16, Arc<SaidOfService>>,
    count: usize,
}

/// What was said of one service, in order, each with its number: items are done with those up to some number.
#[derive(Clone, Debug, Default)]
pub(super) struct SaidOfService {
    changes: Vec<(u64, Change)>,
    /// The places in `changes` of what was said of all items, and of each group.
    of_all: Vec<usize>,
    of_groups: HashMap<Box<[u8]>, Vec<usize>>,
}

impl Said {
    fn add(&mut self, number: u64, said: Vec<Saying>) {
        self.count += said.len();
        for Saying { service, group, change } in said {
            let of_service = Arc::make_mut(self.services.entry(service).or_default());
            let at = of_service.changes.len();
            of_service.changes.push((number, change));
            match group {
                None => of_service.of_all.push(at),
                Some(group) => of_service.of_groups.entry(group).or_default().push(at),
            }
        }
    }

    /// What was said of a service.
    pub(super) fn about(&self, service: u16) -> Option<Arc<SaidOfService>> {
        self.services.get(&service).cloned()
    }
}

impl SaidOfService {
    /// The place of the next thing from a place on that concerns an item of a group.
    fn next(&self, group: &[u8], from: usize) -> Option<usize> {
        let next = |places: &Vec<usize>| places.get(places.partition_point(|at| *at < from)).copied();
        let of_group = self.of_groups.get(group).and_then(next);
        next(&self.of_all).into_iter().chain(of_group).min()
    }
}

impl Item {
    /// Whether a provider supplies it, or stands by.
    fn is_supplied_by(&self, provider: ProviderId) -> bool {
        self.upstream.provider() == Some(provider) || self.standbys.iter().any(|s| s.provider == provider)
    }
}

impl Distributor {
    /// What a provider's directory has said of many items.
    pub(super) fn say_of_many(
        &mut self,
        now: Nanos,
        provider: ProviderId,
        changes: Vec<DirectoryChange>,
        sink: &mut impl DistributorSink,
    ) {
        let Some(known) = self.providers.get(&provider) else { return };
        let mut said = Vec::new();
        for change in changes {
            match change {
                DirectoryChange::State { service_id, status: Some(status) } => {
                    let Some(&service) = known.service_ids.get(&service_id) else { continue };
                    said.push(Saying { service, group: None, change: Change::State(status) });
                }
                DirectoryChange::Group { service_id, group } => {
                    let Some(&service) = known.service_ids.get(&service_id) else { continue };
                    let status = group.status.map(Change::State);
                    let merged = group.merged_to.map(|to| Change::Merged(to.into()));
                    let id: Box<[u8]> = group.group_id.into();
                    said.extend(status.into_iter().chain(merged).map(|change| Saying {
                        service,
                        group: Some(id.clone()),
                        change,
                    }));
                }
                _ => {}
            }
        }
        self.take_sayings(now, provider, said, sink);
    }

    /// Begins to do what was said, or goes on with it when less of the provider waits.
    pub(super) fn take_sayings(
        &mut self,
        now: Nanos,
        provider: ProviderId,
        said: Vec<Saying>,
        sink: &mut impl DistributorSink,
    ) {
        let Some(known) = self.providers.get(&provider).filter(|_| !said.is_empty()) else { return };
        let places = if known.streams.len() <= self.config.cleanups_per_turn {
            let mut items: Vec<usize> = known.item_places().collect();
            items.sort_unstable();
            Range::These(items.into_iter())
        } else {
            Range::All(0..self.items.capacity())
        };
        let goes_with_last = self.cleanups.sweeps.back().is_some_and(|last| {
            last.provider == provider
                && !last.is_begun
                && matches!(&last.what, What::Said(before) if before.count < CHANGES_MAX)
        });
        if !goes_with_last && self.must_wait_to_say(now, provider) {
            self.keep_sayings(provider, said);
            return;
        }
        let number = self.cleanups.next_number();
        if goes_with_last
            && let Some(last) = self.cleanups.sweeps.back_mut()
            && let What::Said(before) = &mut last.what
        {
            before.add(number, said);
            (last.number, last.places) = (number, places);
            return;
        }
        let mut what = Said::default();
        what.add(number, said);
        let what = What::Said(what);
        self.push_sweep(now, Sweep { number, provider, places, is_begun: false, what }, sink);
    }

    /// Whether a provider has said so much of many items that it has to wait, which it does from then on.
    fn must_wait_to_say(&mut self, now: Nanos, provider: ProviderId) -> bool {
        let sweeps = self.cleanups.sweeps.iter();
        let mut theirs = sweeps.filter(|s| s.provider == provider && matches!(s.what, What::Said(_)));
        let Some(first) = theirs.next().map(|sweep| sweep.number) else { return false };
        1 + theirs.count() >= SAID_MAX && self.wait_for(now, provider, first)
    }

    /// Does to one item what a provider has said of many; what has a number up to `done` is done.
    pub(super) fn take_said(
        &mut self,
        now: Nanos,
        (provider, index): (ProviderId, usize),
        (said, done): (&SaidOfService, u64),
        sink: &mut impl DistributorSink,
    ) {
        let mut from = said.changes.partition_point(|(number, _)| *number <= done);
        let mut is_told = false;
        while let Some(item) = self.items.get_mut(index).filter(|item| item.is_supplied_by(provider))
            && let Some(at) = said.next(item.as_of(provider).group_id(), from)
        {
            from = at + 1;
            match &said.changes[at].1 {
                Change::Merged(to) => match item.standby_of(provider) {
                    Some(standby) => standby.cached.join_group(to),
                    None => item.cached.join_group(to),
                },
                Change::State(state) => {
                    // The first one is what the place has cost.
                    self.spend(usize::from(is_told));
                    is_told = true;
                    self.take_state(now, (provider, index), state, sink);
                }
            }
        }
    }

    /// A state that was said of many, as if it were said of this item.
    fn take_state(
        &mut self,
        now: Nanos,
        (provider, index): (ProviderId, usize),
        state: &OwnedState,
        sink: &mut impl DistributorSink,
    ) {
        let item = &self.items[index];
        let state = Some(state.borrow());
        let msg = StatusMsg { state, ..StatusMsg::new(item.key.domain, 0, DataType::NO_DATA) };
        if item.upstream.is_asked_for() {
            self.on_item_status(now, index, &msg, sink);
        } else {
            self.on_state_of(now, (provider, index), &msg, sink);
        }
    }
}

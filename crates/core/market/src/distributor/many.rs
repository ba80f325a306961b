//! What a provider says of many items in one message: a state of a group or of all items of a service, and that a
//! group is merged with another one.
//!
//! It is done to each item in a sweep, in the order in which it was said. What is said while the last sweep waits to
//! begin goes with that one, so that a provider that tells of a hundred groups has its items walked through twice. A
//! sweep more for each message would make each item's next message look at them all, so no more than
//! [`BULK_CHANGES_MAX`] wait: a provider that has as many and says more waits itself, and nobody else
//! ([`super::waiting`]).

use rdm::OwnedState;
use rdm::directory::DirectoryChange;
use rwf::{DataType, StatusMsg};
use units::Nanos;

use super::Distributor;
use super::base::ProviderId;
use super::bulk_changes::{
    BULK_CHANGES_MAX, BulkChange, BulkChanges, BulkChangesOfService, CHANGES_MAX, Change,
};
use super::items::Items;
use super::sink::DistributorSink;
use super::sweep::{Range, Sweep, What};

impl Distributor {
    /// What a provider's directory has said of many items.
    pub(super) fn on_bulk_changes(
        &mut self,
        now: Nanos,
        provider: ProviderId,
        changes: Vec<DirectoryChange>,
        sink: &mut impl DistributorSink,
    ) {
        let Some(known) = self.items.suppliers.providers.get(&provider) else { return };
        let mut bulk = Vec::new();
        for change in changes {
            match change {
                DirectoryChange::State { service_id, status: Some(status) } => {
                    let Some(&service) = known.service_ids.get(&service_id) else { continue };
                    bulk.push(BulkChange { service, group: None, change: Change::State(status) });
                }
                DirectoryChange::Group { service_id, group } => {
                    let Some(&service) = known.service_ids.get(&service_id) else { continue };
                    let status = group.status.map(Change::State);
                    let merged = group.merged_to.map(|to| Change::Merged(to.into()));
                    let id: Box<[u8]> = group.group_id.into();
                    bulk.extend(status.into_iter().chain(merged).map(|change| BulkChange {
                        service,
                        group: Some(id.clone()),
                        change,
                    }));
                }
                _ => {}
            }
        }
        self.take_bulk_changes(now, provider, bulk, sink);
    }

    /// Begins to do what was said, or goes on with it when less of the provider waits.
    pub(super) fn take_bulk_changes(
        &mut self,
        now: Nanos,
        provider: ProviderId,
        changes: Vec<BulkChange>,
        sink: &mut impl DistributorSink,
    ) {
        let Some(known) = self.items.suppliers.providers.get(&provider).filter(|_| !changes.is_empty())
        else {
            return;
        };
        let places = if known.streams.len() <= self.config.cleanups_per_turn {
            let mut items: Vec<usize> = known.item_places().collect();
            items.sort_unstable();
            Range::These(items.into_iter())
        } else {
            Range::All(0..self.items.table.end())
        };
        let goes_with_last = self.items.cleanups.sweeps.back().is_some_and(|last| {
            last.provider == provider
                && !last.is_begun
                && matches!(&last.what, What::BulkChanges(before) if before.count < CHANGES_MAX)
        });
        if !goes_with_last && self.must_wait_with_bulk_changes(now, provider) {
            self.keep_bulk_changes(provider, changes);
            return;
        }
        let number = self.items.cleanups.next_number();
        if goes_with_last
            && let Some(last) = self.items.cleanups.sweeps.back_mut()
            && let What::BulkChanges(before) = &mut last.what
        {
            before.add(number, changes);
            (last.number, last.places) = (number, places);
            return;
        }
        let mut what = BulkChanges::default();
        what.add(number, changes);
        let what = What::BulkChanges(what);
        self.items.push_sweep(now, Sweep { number, provider, places, is_begun: false, what }, sink);
    }

    /// Whether a provider has said so much of many items that it has to wait, which it does from then on.
    fn must_wait_with_bulk_changes(&mut self, now: Nanos, provider: ProviderId) -> bool {
        let sweeps = self.items.cleanups.sweeps.iter();
        let mut theirs = sweeps.filter(|s| s.provider == provider && matches!(s.what, What::BulkChanges(_)));
        let Some(first) = theirs.next().map(|sweep| sweep.number) else { return false };
        1 + theirs.count() >= BULK_CHANGES_MAX && self.wait_for(now, provider, first)
    }
}

impl Items {
    /// Does to one item what a provider has said of many; what has a number up to `done` is done.
    pub(super) fn take_bulk_change(
        &mut self,
        now: Nanos,
        (provider, index): (ProviderId, usize),
        (changes, done): (&BulkChangesOfService, u64),
        sink: &mut impl DistributorSink,
    ) {
        let mut from = changes.changes.partition_point(|(number, _)| *number <= done);
        let mut is_reported = false;
        while let Some(item) = self.table.get_mut(index).filter(|item| item.is_supplied_by(provider))
            && let Some(at) = changes.next(item.as_of(provider).group_id(), from)
        {
            from = at + 1;
            match &changes.changes[at].1 {
                Change::Merged(to) => match item.standby_of(provider) {
                    Some(standby) => standby.cached.join_group(to),
                    None => item.cached.join_group(to),
                },
                Change::State(state) => {
                    // The first one is what the place has cost.
                    self.cleanups.spend(usize::from(is_reported));
                    is_reported = true;
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
        let item = &self.table[index];
        let state = Some(state.borrow());
        let msg = StatusMsg { state, ..StatusMsg::new(item.key.domain, 0, DataType::NO_DATA) };
        if item.supply.is_asked_for() {
            self.on_item_status(now, index, &msg, sink);
        } else {
            self.on_state_of(now, (provider, index), &msg, sink);
        }
    }
}

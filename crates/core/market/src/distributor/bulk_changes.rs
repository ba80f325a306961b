//! What a provider has said of many items in one message.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use rdm::OwnedState;

/// Of one provider so many sweeps wait, the one under way included.
pub(super) const BULK_CHANGES_MAX: usize = 4;

/// A sweep that has so much to tell takes no more.
pub(super) const CHANGES_MAX: usize = 256;

/// One thing that was said: of which service of ours, of which group if not of all, and what.
#[derive(Debug)]
pub(super) struct BulkChange {
    pub(super) service: u16,
    pub(super) group: Option<Box<[u8]>>,
    pub(super) change: Change,
}

#[derive(Clone, Debug)]
pub(super) enum Change {
    State(OwnedState),
    Merged(Box<[u8]>),
}

/// What one sweep does.
#[derive(Debug, Default)]
pub(super) struct BulkChanges {
    services: BTreeMap<u16, Arc<BulkChangesOfService>>,
    pub(super) count: usize,
}

/// What was said of one service, in order, each with its number: items are done with those up to some number.
#[derive(Clone, Debug, Default)]
pub(super) struct BulkChangesOfService {
    pub(super) changes: Vec<(u64, Change)>,
    /// The places in `changes` of what was said of all items, and of each group.
    of_all: Vec<usize>,
    of_groups: HashMap<Box<[u8]>, Vec<usize>>,
}

impl BulkChanges {
    pub(super) fn add(&mut self, number: u64, said: Vec<BulkChange>) {
        self.count += said.len();
        for BulkChange { service, group, change } in said {
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
    pub(super) fn about(&self, service: u16) -> Option<Arc<BulkChangesOfService>> {
        self.services.get(&service).cloned()
    }
}

impl BulkChangesOfService {
    /// The place of the next thing from a place on that concerns an item of a group.
    pub(super) fn next(&self, group: &[u8], from: usize) -> Option<usize> {
        let next = |places: &Vec<usize>| places.get(places.partition_point(|at| *at < from)).copied();
        let of_group = self.of_groups.get(group).and_then(next);
        next(&self.of_all).into_iter().chain(of_group).min()
    }
}

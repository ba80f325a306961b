//! The ids that clients see of services.

use std::collections::{BTreeMap, BTreeSet};

/// The ids that clients see, by name. Those of services that are gone are remembered, so that they come back
/// under the same id.
#[derive(Debug, Default)]
pub(super) struct ServiceIds {
    by_name: BTreeMap<String, u16>,
    taken: BTreeSet<u16>,
}

/// Names that are remembered; beyond that those without a service are forgotten.
const NAMES_MAX: usize = 10_000;

impl ServiceIds {
    /// The id of a name: that which it has had, else `proposed` if no other name has it, else the highest one
    /// that is free; `None` if there is none.
    pub(super) fn of(&mut self, name: &str, proposed: u16) -> Option<u16> {
        if let Some(&id) = self.by_name.get(name) {
            return Some(id);
        }
        let is_free = |id: &u16| !self.taken.contains(id);
        let id = Some(proposed).filter(is_free).or_else(|| (0..=u16::MAX).rev().find(is_free))?;
        self.taken.insert(id);
        self.by_name.insert(name.to_owned(), id);
        Some(id)
    }

    /// The id of a name that has had one and is remembered.
    pub(super) fn known(&self, name: &str) -> Option<u16> {
        self.by_name.get(name).copied()
    }

    pub(super) fn forget_unused(&mut self, is_used: impl Fn(u16) -> bool) {
        if self.by_name.len() > NAMES_MAX {
            self.by_name.retain(|_, id| is_used(*id));
            self.taken = self.by_name.values().copied().collect();
        }
    }
}

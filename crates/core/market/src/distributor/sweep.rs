//! What is not done yet, and what may be done of it in a turn.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use rwf::State;
use units::Nanos;

use super::base::{PeerId, ProviderId};
use super::bulk_changes::BulkChanges;
use super::kept::Kept;
use crate::places::Places;

/// What is not done, and what may be done of it in this turn.
#[derive(Debug, Default)]
pub(super) struct Cleanups {
    /// In the order in which they began.
    pub(super) sweeps: VecDeque<Sweep>,
    /// Links that are gone.
    pub(super) peers: VecDeque<Departed>,
    /// Services of which items in the queue are to be told that they wait for a limit.
    pub(super) over_limit: BTreeSet<u16>,
    /// The kind of work whose turn it is.
    pub(super) kind: usize,
    /// Work left in this turn.
    pub(super) left: usize,
    /// When the work of a turn was granted last.
    pub(super) granted_at: Nanos,
    /// Sweeps so far.
    count: u64,
    /// The work of a turn.
    per_turn: usize,
    pub(super) is_running: bool,
}

/// What is left of a link that is gone.
#[derive(Debug)]
pub(super) struct Departed {
    pub(super) peer: PeerId,
    /// The items that were wanted over it.
    pub(super) items: Places,
    /// What it had asked for and not got.
    pub(super) kept: Kept,
}

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

/// Indices of the table of items.
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

/// Indices of items that a provider has published. Some are named several times, and some are of others by now.
#[derive(Debug, Default)]
pub(super) struct ItemIndices {
    pub(super) all: Vec<usize>,
    /// So many are looked through for those that are named several times.
    tidy_at: usize,
}

impl ItemIndices {
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
    BulkChanges(BulkChanges),
    /// The service is withdrawn: its items are closed.
    Withdrawn(u16),
}

impl What {
    /// Whether a sweep that has not begun is done with another one that the same provider brings.
    pub(super) fn is_done_by(&self, next: &What) -> bool {
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
    pub(super) providers: usize,
    /// How many items come from another provider now, and how many from none.
    pub(super) moved: usize,
    pub(super) suspect: usize,
}

impl Fate {
    pub(super) fn new(providers: usize) -> Fate {
        Fate { providers, moved: 0, suspect: 0 }
    }
}

impl Cleanups {
    #[cfg(test)]
    pub(super) fn set_per_turn(&mut self, per_turn: usize) {
        self.per_turn = per_turn;
    }

    /// Nothing is left undone; so much may be done in a turn.
    pub(super) fn new(per_turn: usize) -> Cleanups {
        Cleanups { per_turn, ..Cleanups::default() }
    }

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

impl Cleanups {
    /// The work of a turn may be done from now on.
    pub(super) fn grant_cleanups(&mut self, now: Nanos) {
        self.left = self.per_turn;
        self.granted_at = now;
    }

    /// Whether more of the turn's work is left.
    pub(super) fn has_work_above(&mut self, now: Nanos, until: usize) -> bool {
        if now > self.granted_at {
            self.grant_cleanups(now);
        }
        self.left > until
    }
}

impl Cleanups {
    /// Takes more of the turn's work.
    pub(super) fn spend(&mut self, work: usize) {
        self.left = self.left.saturating_sub(work);
    }
}

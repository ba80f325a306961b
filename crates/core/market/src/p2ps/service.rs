//! A service, and what is to be done with its items.

use std::collections::{BTreeSet, VecDeque};

use rdm::directory::Service as Definition;
use units::Nanos;

use super::base::SourceId;
use super::ledger::AccountId;
use super::merge::SideNo;
use super::pair::{Active, Pair};
use crate::places::Places;

/// One thing to be done with each item that a service has now.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sweep {
    pub(super) number: u64,
    /// The place from which on items are left.
    pub(super) next: usize,
    pub(super) what: What,
}

/// What is done with an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum What {
    /// It comes from nowhere any more.
    Lost,
    /// Its provider is gone.
    Down,
    /// Its provider is gone, as the stream says with a message of this number.
    DownSince(u64),
    /// It is asked for.
    Ask,
    /// It is asked for if it is still suspect.
    Recheck,
    /// Messages up to a number were lost, nobody knows of which items.
    Resync(u64),
    /// It is closed.
    Close,
    /// A side of a hot service is lost.
    SideLost(SideNo),
    /// The provider is lost at a side.
    SideDown(SideNo),
    /// The same, as the stream of the side says with a message of this number.
    SideDownSince(SideNo, u64),
    /// A side is there (again).
    Join(SideNo),
    /// Messages of a side up to a number were lost, nobody knows of which items.
    SideLacks(SideNo, u64),
}

impl What {
    /// Whether this makes another sweep that is not done pointless.
    pub(super) fn replaces(self, other: What) -> bool {
        match self {
            What::Lost | What::Close => other != What::Close || self == What::Close,
            What::SideLost(_) | What::SideDown(_) | What::Join(_) | What::SideLacks(..) => self == other,
            What::SideDownSince(side, _) => matches!(other, What::SideDownSince(of, _) if of == side),
            _ => std::mem::discriminant(&self) == std::mem::discriminant(&other),
        }
    }
}

/// A service, whichever instance it comes from.
pub(super) struct Service {
    /// As clients see it.
    pub(super) definition: Definition,
    /// What is counted of it.
    pub(super) account: AccountId,
    /// Where it comes from now.
    pub(super) active: Option<Active>,
    /// Where it could come from: the sources of its topic.
    pub(super) sources: BTreeSet<SourceId>,
    /// The places of its items that clients watch.
    pub(super) items: Places,
    /// It came up again: items that are still suspect then are asked for.
    pub(super) recheck_at: Nanos,
    /// No instance offers it any more; its items are being closed.
    pub(super) is_withdrawn: bool,
    /// What is to be done with its items, in order.
    pub(super) sweeps: VecDeque<Sweep>,
    /// It comes from two instances at a time.
    pub(super) hot: Option<Box<Pair>>,
}

impl Service {
    /// One that comes from nowhere yet, and of which nobody watches an item.
    pub(super) fn new(definition: Definition, account: AccountId) -> Service {
        Service {
            definition,
            account,
            active: None,
            sources: BTreeSet::new(),
            items: Places::default(),
            recheck_at: Nanos::NEVER,
            is_withdrawn: false,
            sweeps: VecDeque::new(),
            hot: None,
        }
    }

    /// The streams that its items follow: one, or those of a pair.
    pub(super) fn followed(&self) -> Vec<SourceId> {
        match &self.hot {
            None => self.active_source().into_iter().collect(),
            Some(pair) => pair.sides.iter().flatten().map(|side| side.active.source).collect(),
        }
    }

    pub(super) fn active_source(&self) -> Option<SourceId> {
        self.active.map(|a| a.source)
    }
}

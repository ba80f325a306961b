//! The instances that a hot service comes from, and what is due of its items (`hot`).

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};
use std::time::Duration;

use units::Nanos;

use super::base::SourceId;
use super::merge::SideNo;
use crate::cached::CachedItem;

/// So many of the images that are on their way are looked at for the one that has come; the others leave by their time.
const ASKED_LOOKED_AT: usize = 64;

/// Where a service comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Active {
    pub(super) instance: u64,
    pub(super) source: SourceId,
}

/// The instances that a hot service comes from.
#[derive(Debug, Default)]
pub(super) struct Pair {
    pub(super) sides: [Option<PairSide>; 2],
    /// The number of the last message that was taken.
    pub(super) sequence: u64,
    /// Items that are to be joined at a side.
    pub(super) joins: VecDeque<(usize, u64, SideNo)>,
    /// Images that are on their way for that: when they were asked for.
    pub(super) asked: VecDeque<(Nanos, usize, u64, SideNo)>,
    /// Items of which a side waits for the other one, and until when.
    pub(super) holds: BinaryHeap<Reverse<(Nanos, usize, u64)>>,
    /// When an image is to be asked for again, if the side is not joined by then.
    pub(super) later: BinaryHeap<Reverse<(Nanos, usize, u64, SideNo)>>,
    /// Images that are being received, from their first part to their last.
    pub(super) images: BTreeMap<(usize, SideNo), Arriving>,
}

/// One of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PairSide {
    pub(super) active: Active,
    /// Its provider is there.
    pub(super) is_up: bool,
}

/// An image that is being received.
#[derive(Debug)]
pub(super) struct Arriving {
    pub(super) after: u64,
    pub(super) image: CachedItem,
    pub(super) parts: Vec<Box<[u8]>>,
    /// Of the parts.
    pub(super) bytes: usize,
}

impl Pair {
    /// The side of an instance.
    pub(super) fn side_of(&self, instance: u64) -> Option<SideNo> {
        self.sides.iter().position(|side| side.is_some_and(|side| side.active.instance == instance))
    }

    /// The number of the message that is taken next.
    pub(super) fn next_sequence(&mut self) -> u64 {
        self.sequence += 1;
        self.sequence
    }

    /// Images of an item that are being received are of no use.
    pub(super) fn forget_arriving(&mut self, index: usize) {
        self.images.remove(&(index, 0));
        self.images.remove(&(index, 1));
    }

    /// An image that was asked for is not on its way any more.
    pub(super) fn forget_asked(&mut self, index: usize, side: SideNo) {
        let mut asked = self.asked.iter().take(ASKED_LOOKED_AT);
        if let Some(at) = asked.position(|asked| (asked.1, asked.3) == (index, side)) {
            self.asked.remove(at);
        }
    }

    pub(super) fn is_at(&self, active: Active) -> bool {
        self.sides.iter().flatten().any(|side| side.active == active)
    }

    /// Whether nothing is due, now or later.
    pub(super) fn is_idle(&self) -> bool {
        self.joins.is_empty() && self.asked.is_empty() && self.holds.is_empty() && self.later.is_empty()
    }

    pub(super) fn next_due(&self, timeout: Duration, asks_max: usize) -> Nanos {
        if !self.joins.is_empty() && self.asked.len() < asks_max {
            return Nanos::ZERO;
        }
        let asked = self.asked.front().map_or(Nanos::NEVER, |(at, ..)| *at + timeout);
        let holds = self.holds.peek().map_or(Nanos::NEVER, |Reverse((until, ..))| *until);
        let later = self.later.peek().map_or(Nanos::NEVER, |Reverse((at, ..))| *at);
        asked.min(holds).min(later)
    }
}

//! What a source does about its receivers now and then: who came and went, who died, who has stopped.

use std::time::Duration;

use units::Nanos;

use super::layout::{SLOT_COUNT, Slot};
use super::producer::Producer;
use super::slots::{self, SlotState};
use super::source::Pacing;

/// How the receivers have changed since the last look.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReaderChanges {
    /// Now there that were not.
    pub joined: u32,
    /// No longer there: left in order, or found dead.
    pub left: u32,
    /// Of those that left, found dead.
    pub died: u32,
    /// Dropped because they had stopped.
    pub dropped: u32,
}

/// What the source remembers of a slot.
#[derive(Clone, Copy, Default)]
struct Seen {
    generation: u64,
    is_there: bool,
    position: u64,
    moved_at: Nanos,
}

/// What the source remembers of all of them.
pub(super) struct Watch {
    seen: Box<[Seen; SLOT_COUNT]>,
    /// Who stops for so long, while the source waits for it, is dropped.
    drop_after: Option<Duration>,
}

impl Watch {
    pub(super) fn new(pacing: Pacing) -> Watch {
        let drop_after = match pacing {
            Pacing::Receiver { drop_stopped_after } => drop_stopped_after,
            Pacing::Source => None,
        };
        Watch { seen: Box::new([Seen::default(); SLOT_COUNT]), drop_after }
    }

    /// How many are there.
    pub(super) fn count(&self) -> u64 {
        self.seen.iter().filter(|seen| seen.is_there).count() as u64
    }

    /// Looks at every slot. `bury` is given a slot and its generation; it frees it when the owner is dead,
    /// and says whether it has.
    pub(super) fn look_after(
        &mut self,
        producer: &Producer,
        now: Nanos,
        mut bury: impl FnMut(usize, &Slot, u64) -> bool,
    ) -> ReaderChanges {
        let mut changes = ReaderChanges::default();
        let region = producer.region();
        for (index, slot) in slots::all(region.control()) {
            self.look_at(producer, index, slot, now, &mut bury, &mut changes);
        }
        changes
    }

    fn look_at(
        &mut self,
        producer: &Producer,
        index: usize,
        slot: &Slot,
        now: Nanos,
        bury: &mut impl FnMut(usize, &Slot, u64) -> bool,
        changes: &mut ReaderChanges,
    ) {
        let was = self.seen[index];
        let (generation, position, is_dropped) = match slots::look(slot) {
            SlotState::Free => {
                changes.left += u32::from(was.is_there);
                self.seen[index].is_there = false;
                return;
            }
            SlotState::Active { generation, position } => (generation, position, false),
            SlotState::Dropped { generation, position } => (generation, position, true),
        };
        if was.generation != generation || !was.is_there {
            changes.left += u32::from(was.is_there);
            changes.joined += 1;
        }
        if bury(index, slot, generation) {
            self.seen[index] = Seen { generation, ..Seen::default() };
            changes.left += 1;
            changes.died += 1;
            return;
        }
        let is_same = was.is_there && was.generation == generation && was.position == position;
        let moved_at = if is_same && producer.is_held_up_by(position) { was.moved_at } else { now };
        self.seen[index] = Seen { generation, is_there: true, position, moved_at };
        if let Some(limit) = self.drop_after
            && !is_dropped
            && now.since(moved_at) >= limit
            && slots::drop_reader(slot, generation)
        {
            changes.dropped += 1;
        }
    }
}

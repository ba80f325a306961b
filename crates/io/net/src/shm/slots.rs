//! The receivers' places in a ring.
//!
//! A slot belongs to whoever holds the lock on its byte of the file, which the kernel takes away when the
//! process dies; that is the caller's to see to. Its state is a word: the generation, which grows with each
//! new owner, and whether the slot is free, active, or dropped. Only the owner makes it active; the source
//! may change active to dropped, and anything to free when the owner is dead, always by an exchange that
//! fails if the owner or the generation has changed.
//!
//! Where a receiver is matters in two races, and in both a sequentially consistent fence on either side
//! decides. *Joining*: the receiver makes its slot active, fences, then reads what was published and begins
//! there; the source publishes, fences, then looks at the slots. Either the source sees the slot, or the
//! receiver begins at or behind what the source had published when it looked, which is as far as the source
//! lets the ring be overwritten. *Dropping*: on entering a segment the receiver stores its position, fences,
//! then looks at its state; the source drops it, fences, then reads the position. Either the receiver sees
//! that it was dropped and touches nothing there, or the source sees the segment it is in.

use super::layout::{Control, SLOT_COUNT, Slot};
use super::sync::{Acquire, Relaxed, Release, SeqCst, fence};

const FREE: u64 = 0;
const ACTIVE: u64 = 1;
const DROPPED: u64 = 2;
const STATE_BITS: u32 = 2;

/// What the source knows of one receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SlotState {
    Free,
    /// Reads, and has read everything before `position`.
    Active {
        generation: u64,
        position: u64,
    },
    /// Was dropped, and may still look at the segment of `position`.
    Dropped {
        generation: u64,
        position: u64,
    },
}

/// The state of a slot now.
pub(super) fn look(slot: &Slot) -> SlotState {
    let word = slot.state.load(Acquire);
    let (generation, position) = (word >> STATE_BITS, slot.position.load(Acquire));
    match word & ((1 << STATE_BITS) - 1) {
        ACTIVE => SlotState::Active { generation, position },
        DROPPED => SlotState::Dropped { generation, position },
        _ => SlotState::Free,
    }
}

/// Takes the slot whose lock the caller holds. Returns the owner's word and where it begins.
pub(super) fn join(control: &Control, index: usize, pid: u32) -> (u64, u64) {
    let slot = &control.slots[index];
    let generation = (slot.state.load(Relaxed) >> STATE_BITS) + 1;
    let word = generation << STATE_BITS | ACTIVE;
    slot.pid.store(u64::from(pid), Relaxed);
    // Released, as is what comes behind the fence: the source may take this position for the last owner's,
    // whose lock has come to this one, and that one has ceased to read. It spares the source from waiting for
    // this one.
    slot.position.store(control.published.0.load(Relaxed), Release);
    // A store would do; loom, though, knows no order between a store and the exchange it races with.
    slot.state.swap(word, Release);
    fence(SeqCst);
    // Relaxed, as the one before: who enters a segment looks again.
    let start = control.published.0.load(Relaxed);
    slot.position.store(start, Relaxed);
    (word, start)
}

/// Gives the slot back.
pub(super) fn leave(control: &Control, index: usize, word: u64) {
    let slot = &control.slots[index];
    let generation = word >> STATE_BITS;
    slot.state.store(generation << STATE_BITS | FREE, Release);
    control.sleepers.0.fetch_and(!(1 << index), Relaxed);
}

/// Whether the owner of `word` still has its slot. Needs no order of its own: see the head of the module.
#[inline]
pub(super) fn is_mine(slot: &Slot, word: u64) -> bool {
    slot.state.load(Relaxed) == word
}

/// Drops an active receiver. Returns whether it was active until now. What is ordered here is ordered by the
/// fence behind which the source then looks for room.
pub(super) fn drop_reader(slot: &Slot, generation: u64) -> bool {
    let (from, to) = (generation << STATE_BITS | ACTIVE, generation << STATE_BITS | DROPPED);
    slot.state.compare_exchange(from, to, Relaxed, Relaxed).is_ok()
}

/// Frees the slot of a dead receiver, unless somebody else has taken it meanwhile. Relaxed: the dead read
/// nothing, and who joins and the source are ordered by their fences.
pub(super) fn reclaim(slot: &Slot, generation: u64) -> bool {
    let free = generation << STATE_BITS | FREE;
    [ACTIVE, DROPPED].iter().any(|state| {
        slot.state.compare_exchange(generation << STATE_BITS | state, free, Relaxed, Relaxed).is_ok()
    })
}

/// Every slot with its number.
pub(super) fn all(control: &Control) -> impl Iterator<Item = (usize, &Slot)> {
    control.slots.iter().enumerate().take(SLOT_COUNT)
}

/// The process that owns a slot, as it says.
pub(super) fn pid(slot: &Slot) -> u32 {
    slot.pid.load(Relaxed) as u32
}

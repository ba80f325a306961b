//! The memory of a ring: its control part and its bytes, in a file or on the heap.
//!
//! Three kinds of access to the bytes, and who may when:
//! - headers: always atomic, by anybody;
//! - in place: the claimed room by the source before it is published, published messages by receivers that
//!   the source waits for. Plain memory, handed over by the release store and acquire load of `published`,
//!   and back by those of the slot's position;
//! - word by word: where the source does not wait, both sides copy with atomic words, so that a receiver that
//!   is overtaken reads a mixture, which it finds out and drops, and not undefined behaviour.
//!
//! Offsets are the caller's to keep in bounds: each function says which hold.

#[cfg(not(loom))]
mod memory;
#[cfg(loom)]
mod modelled;

#[cfg(not(loom))]
pub(super) use memory::{Mapping, Region};
#[cfg(loom)]
pub(super) use modelled::Region;

const WORD: usize = 8;

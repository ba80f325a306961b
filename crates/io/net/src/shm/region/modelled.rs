//! The same under loom, which watches each access: plain words in its cells, headers and words that are
//! copied atomically in its atomics.

use loom::cell::UnsafeCell;

use super::WORD;
use crate::shm::layout::{Control, Geometry};
use crate::shm::sync::{Acquire, AtomicU64, Relaxed, Release};

pub(in crate::shm) struct Region {
    control: Control,
    atoms: Box<[AtomicU64]>,
    plain: Box<[UnsafeCell<u64>]>,
    geometry: Geometry,
}

// SAFETY: loom reports any access to a cell that is not ordered against the others.
unsafe impl Sync for Region {}

impl Region {
    pub(in crate::shm) fn on_heap(geometry: Geometry) -> Region {
        let words = geometry.ring_bytes() as usize / WORD;
        Region {
            control: Control::new(),
            atoms: (0..words).map(|_| AtomicU64::new(0)).collect(),
            plain: (0..words).map(|_| UnsafeCell::new(0)).collect(),
            geometry,
        }
    }

    pub(in crate::shm) fn geometry(&self) -> Geometry {
        self.geometry
    }

    pub(in crate::shm) fn control(&self) -> &Control {
        &self.control
    }

    fn index(&self, position: u64) -> usize {
        self.geometry.offset(position) / WORD
    }

    pub(in crate::shm) fn header(&self, position: u64) -> u64 {
        self.atoms[self.index(position)].load(Acquire)
    }

    pub(in crate::shm) fn header_relaxed(&self, position: u64) -> u64 {
        self.atoms[self.index(position)].load(Relaxed)
    }

    pub(in crate::shm) fn set_header(&self, position: u64, word: u64) {
        self.atoms[self.index(position)].store(word, Relaxed);
    }

    pub(in crate::shm) fn prefetch_behind(&self, _position: u64) {}

    pub(in crate::shm) fn prefetch_room_behind(&self, _position: u64) {}

    pub(in crate::shm) fn publish_header(&self, position: u64, word: u64) {
        self.atoms[self.index(position)].store(word, Release);
    }

    /// Fills claimed room; outside the model that is done in place.
    pub(in crate::shm) fn fill(&self, position: u64, words: &[u64]) {
        let at = self.index(position);
        for (cell, word) in self.plain[at..].iter().zip(words) {
            // SAFETY: loom reports any access that is not ordered before this one.
            cell.with_mut(|w| unsafe { *w = *word });
        }
    }

    /// As outside the model.
    ///
    /// # Safety
    /// As outside the model; loom checks it.
    pub(in crate::shm) unsafe fn with_message<R>(
        &self,
        position: u64,
        bytes: usize,
        handle: impl FnOnce(&[u8]) -> R,
    ) -> R {
        let at = self.index(position);
        let cells = &self.plain[at..at + bytes.div_ceil(WORD)];
        // SAFETY: loom reports any access that is not ordered before this one.
        let words: Vec<u8> =
            cells.iter().flat_map(|cell| cell.with(|w| unsafe { *w }).to_le_bytes()).collect();
        handle(&words[..bytes])
    }

    pub(in crate::shm) fn copy_in(&self, position: u64, words: &[u64]) {
        let at = self.index(position);
        for (atom, word) in self.atoms[at..].iter().zip(words) {
            atom.store(*word, Relaxed);
        }
    }

    pub(in crate::shm) fn copy_out(&self, position: u64, words: &mut [u64]) {
        let at = self.index(position);
        for (atom, word) in self.atoms[at..].iter().zip(words) {
            *word = atom.load(Relaxed);
        }
    }
}

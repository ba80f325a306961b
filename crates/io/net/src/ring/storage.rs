//! The words of a ring: plain memory, or loom's watched cells when the ring is being model-checked.

#[cfg(not(loom))]
use std::cell::UnsafeCell;

use super::WORD;

#[cfg(not(loom))]
pub(super) struct Storage(Box<[UnsafeCell<u64>]>);

// SAFETY: a ring lets its producer touch only words that no consumer may read any more, or not yet, and consumers
// only words between their position and the producer's; positions are written by release stores and read by acquire
// loads. Several consumers read the same words and write none.
#[cfg(not(loom))]
unsafe impl Sync for Storage {}

#[cfg(not(loom))]
impl Storage {
    pub(super) fn new(word_count: usize) -> Storage {
        let words = Box::<[UnsafeCell<u64>]>::new_zeroed_slice(word_count);
        // SAFETY: zeros are a `u64`, and so a cell of one. Memory that nobody has written costs nothing.
        Storage(unsafe { words.assume_init() })
    }

    pub(super) fn word(&self, at: usize) -> u64 {
        // SAFETY: the caller owns this word for now (see `Sync` above); the index is checked.
        unsafe { *self.0[at].get() }
    }

    pub(super) fn set_word(&self, at: usize, value: u64) {
        // SAFETY: as for `word`.
        unsafe { *self.0[at].get() = value }
    }

    pub(super) fn set_bytes(&self, at: usize, parts: &[&[u8]]) {
        let bytes: usize = parts.iter().map(|p| p.len()).sum();
        let words = &self.0[at..at + bytes.div_ceil(WORD)];
        let mut to = UnsafeCell::raw_get(words.as_ptr()).cast::<u8>();
        for part in parts {
            // SAFETY: the caller owns these words; together the parts have at most the bytes of `words`,
            // whose bounds were checked.
            unsafe {
                std::ptr::copy_nonoverlapping(part.as_ptr(), to, part.len());
                to = to.add(part.len());
            }
        }
    }

    pub(super) fn with_bytes(&self, at: usize, bytes: usize, handle: &mut impl FnMut(&[u8])) {
        let words = &self.0[at..at + bytes.div_ceil(WORD)];
        // SAFETY: the caller owns these words until it gives their room back after the call; `words` is at
        // least `bytes` long.
        handle(unsafe {
            std::slice::from_raw_parts(UnsafeCell::raw_get(words.as_ptr()).cast::<u8>(), bytes)
        });
    }
}

#[cfg(loom)]
pub(super) struct Storage(Box<[loom::cell::UnsafeCell<u64>]>);

// SAFETY: as above; loom checks it.
#[cfg(loom)]
unsafe impl Sync for Storage {}

#[cfg(loom)]
impl Storage {
    pub(super) fn new(word_count: usize) -> Storage {
        Storage((0..word_count).map(|_| loom::cell::UnsafeCell::new(0)).collect())
    }

    pub(super) fn word(&self, at: usize) -> u64 {
        // SAFETY: loom reports any access that is not ordered before this one.
        self.0[at].with(|w| unsafe { *w })
    }

    pub(super) fn set_word(&self, at: usize, value: u64) {
        // SAFETY: loom reports any access that is not ordered before this one.
        self.0[at].with_mut(|w| unsafe { *w = value })
    }

    pub(super) fn set_bytes(&self, at: usize, parts: &[&[u8]]) {
        let all = parts.concat();
        for (i, chunk) in all.chunks(WORD).enumerate() {
            let mut word = [0; WORD];
            word[..chunk.len()].copy_from_slice(chunk);
            self.set_word(at + i, u64::from_ne_bytes(word));
        }
    }

    pub(super) fn with_bytes(&self, at: usize, bytes: usize, handle: &mut impl FnMut(&[u8])) {
        let words: Vec<u8> =
            (0..bytes.div_ceil(WORD)).flat_map(|i| self.word(at + i).to_ne_bytes()).collect();
        handle(&words[..bytes]);
    }
}

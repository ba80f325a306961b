//! Positions on a ring that is shared with the kernel.
//!
//! Either side counts entries since the start, modulo 2^32; an entry lies at its number modulo the size, a
//! power of two. The side that writes entries publishes its count with release when they are written, the
//! side that reads them publishes its own when it is done with them; each loads the other's with acquire,
//! and only when what it saw last is used up.

use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::{Acquire, Release};

/// A count that both sides see.
pub(super) trait Count {
    fn load_acquire(&self) -> u32;
    fn store_release(&self, count: u32);
}

impl Count for AtomicU32 {
    #[inline]
    fn load_acquire(&self) -> u32 {
        self.load(Acquire)
    }

    #[inline]
    fn store_release(&self, count: u32) {
        self.store(count, Release);
    }
}

/// Where the side that writes entries stands.
#[derive(Debug)]
pub(super) struct Producer {
    size: u32,
    written: u32,
    /// What the other side had read when it was last looked at.
    read: u32,
}

impl Producer {
    /// At the start of a ring of `size` entries, a power of two.
    pub(super) fn new(size: u32) -> Producer {
        debug_assert!(size.is_power_of_two());
        Producer { size, written: 0, read: 0 }
    }

    /// The slot of the next entry, or nothing when the ring is full.
    #[inline]
    pub(super) fn next(&mut self, read: &impl Count) -> Option<u32> {
        if self.written.wrapping_sub(self.read) >= self.size {
            self.read = read.load_acquire();
            if self.written.wrapping_sub(self.read) >= self.size {
                return None;
            }
        }
        let slot = self.written & (self.size - 1);
        self.written = self.written.wrapping_add(1);
        Some(slot)
    }

    /// Shows the other side what was written.
    #[inline]
    pub(super) fn publish(&self, written: &impl Count) {
        written.store_release(self.written);
    }

    /// Whether the other side has read all that was written.
    #[inline]
    pub(super) fn is_drained(&self, read: &impl Count) -> bool {
        read.load_acquire() == self.written
    }
}

/// Where the side that reads entries stands.
#[derive(Debug)]
pub(super) struct Consumer {
    size: u32,
    read: u32,
    /// What the other side had written when it was last looked at.
    written: u32,
}

impl Consumer {
    /// At the start of a ring of `size` entries, a power of two.
    pub(super) fn new(size: u32) -> Consumer {
        debug_assert!(size.is_power_of_two());
        Consumer { size, read: 0, written: 0 }
    }

    /// The slot of the next entry, or nothing when all were read.
    #[inline]
    pub(super) fn next(&mut self, written: &impl Count) -> Option<u32> {
        if self.read == self.written {
            self.written = written.load_acquire();
            if self.read == self.written {
                return None;
            }
        }
        let slot = self.read & (self.size - 1);
        self.read = self.read.wrapping_add(1);
        Some(slot)
    }

    /// Gives the room of what was read back to the other side.
    #[inline]
    pub(super) fn release(&self, read: &impl Count) {
        read.store_release(self.read);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn entries_go_round_in_order_past_the_wrap_of_the_counts() {
        let start = u32::MAX - 5;
        let (written, read) = (AtomicU32::new(start), AtomicU32::new(start));
        let mut producer = Producer { size: 4, written: start, read: start };
        let mut consumer = Consumer { size: 4, read: start, written: start };
        for turn in 0..20u32 {
            let slot = producer.next(&read).unwrap();
            assert_eq!(slot, start.wrapping_add(turn) % 4);
            assert_eq!(consumer.next(&written), None, "not published");
            producer.publish(&written);
            assert_eq!(consumer.next(&written), Some(slot));
            assert!(!producer.is_drained(&read));
            consumer.release(&read);
            assert!(producer.is_drained(&read));
        }
    }

    #[test]
    fn a_full_ring_takes_no_entry_until_one_is_released() {
        let (written, read) = (AtomicU32::new(0), AtomicU32::new(0));
        let (mut producer, mut consumer) = (Producer::new(4), Consumer::new(4));
        let slots: Vec<u32> = std::iter::from_fn(|| producer.next(&read)).collect();
        assert_eq!(slots, [0, 1, 2, 3]);
        producer.publish(&written);
        assert_eq!(consumer.next(&written), Some(0));
        assert_eq!(producer.next(&read), None, "read, but not released");
        consumer.release(&read);
        assert_eq!(producer.next(&read), Some(0));
        assert_eq!(producer.next(&read), None);
    }
}

/// The kernel is the other side in earnest; here it is the opposite position of ours.
#[cfg(all(test, loom))]
mod loom_tests {
    use super::*;
    use loom::cell::UnsafeCell;
    use loom::sync::Arc;

    impl Count for loom::sync::atomic::AtomicU32 {
        fn load_acquire(&self) -> u32 {
            self.load(Acquire)
        }

        fn store_release(&self, count: u32) {
            self.store(count, Release);
        }
    }

    struct Shared {
        slots: [UnsafeCell<u32>; 2],
        written: loom::sync::atomic::AtomicU32,
        read: loom::sync::atomic::AtomicU32,
    }

    // SAFETY: loom reports any access to a slot that is not ordered before the next.
    unsafe impl Sync for Shared {}

    #[test]
    fn every_interleaving_hands_over_whole_entries_in_order() {
        loom::model(|| {
            let shared = Arc::new(Shared {
                slots: [UnsafeCell::new(0), UnsafeCell::new(0)],
                written: loom::sync::atomic::AtomicU32::new(0),
                read: loom::sync::atomic::AtomicU32::new(0),
            });
            let theirs = shared.clone();
            // Neither side waits: the writer gives up at a full ring, the reader looks so many times.
            let thread = loom::thread::spawn(move || {
                let mut producer = Producer::new(2);
                let mut count = 0;
                while count < 3 {
                    let Some(slot) = producer.next(&theirs.read) else { break };
                    count += 1;
                    // SAFETY: see `Sync` above.
                    theirs.slots[slot as usize].with_mut(|entry| unsafe { *entry = count });
                    producer.publish(&theirs.written);
                }
                count
            });
            let mut consumer = Consumer::new(2);
            let mut seen = Vec::new();
            let mut look = |seen: &mut Vec<u32>| {
                if let Some(slot) = consumer.next(&shared.written) {
                    // SAFETY: see `Sync` above.
                    shared.slots[slot as usize].with(|entry| seen.push(unsafe { *entry }));
                    consumer.release(&shared.read);
                }
            };
            (0..2).for_each(|_| look(&mut seen));
            let count = thread.join().unwrap();
            (0..3).for_each(|_| look(&mut seen));
            assert_eq!(seen, (1..=count).collect::<Vec<_>>());
        });
    }
}

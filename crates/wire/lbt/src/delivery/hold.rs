use std::collections::VecDeque;

/// Bytes of datagrams whose messages wait for a gap to close: a ring of segments, one a datagram.
///
/// A segment is given back when the last of its messages has left; space is reused in the order in which
/// segments came, which is about the order in which they leave. The memory is taken at the first segment,
/// so that a session without loss costs none.
pub(super) struct HoldRing {
    bytes: Box<[u8]>,
    capacity: usize,
    tail: usize,
    segments: VecDeque<Segment>,
    /// Id of the first segment; ids are never used again.
    first_id: u64,
    used: usize,
}

#[derive(Clone, Copy)]
struct Segment {
    start: usize,
    len: usize,
    /// Messages in it that still wait, and one while its datagram is being taken.
    waiting: u32,
}

/// Bytes of one datagram in the ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stored {
    pub(super) id: u64,
    pub(super) start: usize,
}

impl HoldRing {
    pub(super) fn new(capacity: usize) -> HoldRing {
        HoldRing { bytes: Box::default(), capacity, tail: 0, segments: VecDeque::new(), first_id: 0, used: 0 }
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.bytes.len() + self.segments.capacity() * size_of::<Segment>()
    }

    /// Bytes of the segments in the ring.
    pub(super) fn used_bytes(&self) -> usize {
        self.used
    }

    pub(super) fn has_room(&self, len: usize) -> bool {
        self.place(len).is_some()
    }

    /// Copies `bytes` in; there is room. The segment stays until [`HoldRing::release`] is called once for
    /// whoever stored it, and once for each message that was retained.
    pub(super) fn store(&mut self, bytes: &[u8]) -> Stored {
        if self.bytes.is_empty() {
            self.bytes = vec![0; self.capacity].into_boxed_slice();
        }
        let start = self.place(bytes.len()).expect("the caller made sure of the room");
        self.bytes[start..start + bytes.len()].copy_from_slice(bytes);
        self.tail = start + bytes.len();
        self.used += bytes.len();
        self.segments.push_back(Segment { start, len: bytes.len(), waiting: 1 });
        Stored { id: self.first_id + (self.segments.len() - 1) as u64, start }
    }

    /// A further message of the segment waits.
    pub(super) fn retain(&mut self, id: u64) {
        self.segments[(id - self.first_id) as usize].waiting += 1;
    }

    /// A message of the segment waits no more, or no more of its messages are added.
    pub(super) fn release(&mut self, id: u64) {
        self.segments[(id - self.first_id) as usize].waiting -= 1;
        while let Some(&Segment { len, waiting: 0, .. }) = self.segments.front() {
            self.used -= len;
            self.segments.pop_front();
            self.first_id += 1;
        }
    }

    pub(super) fn slice(&self, start: usize, len: usize) -> &[u8] {
        &self.bytes[start..start + len]
    }

    fn place(&self, len: usize) -> Option<usize> {
        let fits_at_tail = self.tail + len <= self.capacity;
        let Some(oldest) = self.segments.front().map(|s| s.start) else {
            let at = if fits_at_tail { self.tail } else { 0 };
            return (len <= self.capacity).then_some(at);
        };
        if oldest >= self.tail {
            return (self.tail + len <= oldest).then_some(self.tail);
        }
        if fits_at_tail { Some(self.tail) } else { (len <= oldest).then_some(0) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use units::Rng;

    #[test]
    fn what_waits_is_kept_and_what_left_is_reused() {
        let _repeat = testkit::repeat!();
        let mut rng = Rng::new(5);
        let mut ring = HoldRing::new(10_000);
        assert_eq!(ring.memory_bytes(), 0, "nothing is taken before it is needed");
        let mut waiting: Vec<(Stored, usize, u8)> = Vec::new();
        for step in 0..5_000u32 {
            let len = 1 + rng.below(1_400) as usize;
            if rng.chance(0.55) && ring.has_room(len) {
                let stored = ring.store(&vec![step as u8; len]);
                ring.retain(stored.id);
                ring.release(stored.id);
                waiting.push((stored, len, step as u8));
            } else if !waiting.is_empty() {
                let (stored, len, value) = waiting.swap_remove(rng.below(waiting.len() as u64) as usize);
                assert!(ring.slice(stored.start, len).iter().all(|&b| b == value));
                ring.release(stored.id);
            }
            assert!(ring.used_bytes() >= waiting.iter().map(|w| w.1).sum());
            assert!(ring.used_bytes() <= 10_000);
        }
        waiting.drain(..).for_each(|(stored, ..)| ring.release(stored.id));
        assert_eq!(ring.used_bytes(), 0);
        assert!(ring.has_room(10_000) || ring.tail != 0);
    }
}

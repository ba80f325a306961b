//! Item ids of one stream, and the memory of which item was in which sequence.

use std::collections::VecDeque;

/// The item ids of the last sequence numbers of a stream: what a gap query is answered from.
#[derive(Debug)]
pub(super) struct IdRing {
    ids: Box<[u32]>,
    /// The sequence put last, 0 before the first.
    last: u64,
}

impl IdRing {
    /// Remembers `len` sequence numbers (rounded up to a power of two). Memory: 4 bytes each.
    pub(super) fn new(len: usize) -> IdRing {
        IdRing { ids: vec![0; len.next_power_of_two()].into(), last: 0 }
    }

    /// Takes the id of the next sequence number, 0 for a message about no item.
    pub(super) fn push(&mut self, id: u32) -> u64 {
        self.last += 1;
        let at = self.index(self.last);
        self.ids[at] = id;
        self.last
    }

    pub(super) fn last(&self) -> u64 {
        self.last
    }

    /// How far back a sequence number is remembered.
    pub(super) fn len(&self) -> u64 {
        self.ids.len() as u64
    }

    /// The items in `first..=last`, each once, ascending; `None` if the range begins before what is
    /// remembered, or ends before it begins. Numbers not sent yet are left out.
    pub(super) fn items(&self, first: u64, last: u64) -> Option<Vec<u32>> {
        let last = last.min(self.last);
        if first == 0 || first > last || self.last - first >= self.len() {
            return None;
        }
        let ids = || (first..=last).map(|s| self.ids[self.index(s)]);
        let top = ids().max().unwrap_or(0) as usize;
        if last - first < top as u64 / 64 {
            let mut items: Vec<u32> = ids().filter(|&id| id != 0).collect();
            items.sort_unstable();
            items.dedup();
            return Some(items);
        }
        // Ids are dense, so that a bit for each takes less time than to sort a million numbers.
        let mut bits = vec![0_u64; top / 64 + 1];
        ids().for_each(|id| bits[id as usize / 64] |= 1 << (id % 64));
        bits[0] &= !1;
        let words = (0..).step_by(64).zip(bits);
        let of_word = |(base, word): (u32, u64)| {
            let rest = std::iter::successors(Some(word), |word| Some(word & word.wrapping_sub(1)));
            rest.take_while(|word| *word != 0).map(move |word| base + word.trailing_zeros())
        };
        Some(words.flat_map(of_word).collect())
    }

    fn index(&self, sequence: u64) -> usize {
        (sequence % self.len()) as usize
    }
}

/// Gives out item ids, from 1. A released id is given out again only when its release is further back in the
/// stream than a gap query can reach.
#[derive(Debug, Default)]
pub(super) struct IdPool {
    used: u32,
    released: VecDeque<(u32, u64)>,
}

impl IdPool {
    /// An id that no message remembered by `ring` was about; `None` when all 2^32 − 1 are taken.
    pub(super) fn take(&mut self, ring: &IdRing) -> Option<u32> {
        if let Some(&(id, at)) = self.released.front()
            && ring.last().saturating_sub(at) >= ring.len()
        {
            self.released.pop_front();
            return Some(id);
        }
        self.used = self.used.checked_add(1)?;
        Some(self.used)
    }

    /// Gives an id back; `at` is the sequence of the last message about it.
    pub(super) fn release(&mut self, id: u32, at: u64) {
        self.released.push_back((id, at));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_gives_its_items_once_until_it_is_forgotten() {
        let mut ring = IdRing::new(8);
        for id in [5, 3, 5, 0, 9] {
            ring.push(id);
        }
        assert_eq!(ring.items(1, 5), Some(vec![3, 5, 9]));
        assert_eq!(ring.items(4, 4), Some(vec![]), "a message about no item");
        assert_eq!(ring.items(5, 99), Some(vec![9]), "what was not sent yet is left out");
        assert_eq!(ring.items(6, 5), None);
        assert_eq!(ring.items(0, 5), None);
        for id in 10..14 {
            ring.push(id);
        }
        assert_eq!(ring.items(1, 2), None, "eight of nine are remembered");
        assert_eq!(ring.items(2, 2), Some(vec![3]));
    }

    #[test]
    fn long_and_short_ranges_give_the_same_items() {
        let _repeat = testkit::repeat!();
        let mut ring = IdRing::new(10_000);
        let mut rng = units::Rng::new(1);
        let ids: Vec<u32> = (0..10_000).map(|_| (rng.next_u64() % 700) as u32).collect();
        ids.iter().for_each(|id| {
            ring.push(*id);
        });
        for (first, last) in [(1, 10_000), (3, 3), (5, 8), (100, 111), (100, 112), (9_000, 9_999)] {
            let mut expected: Vec<u32> = ids[first - 1..last].to_vec();
            expected.sort_unstable();
            expected.dedup();
            expected.retain(|id| *id != 0);
            assert_eq!(ring.items(first as u64, last as u64), Some(expected), "{first}-{last}");
        }
    }

    #[test]
    fn a_released_id_rests_until_no_query_can_name_it() {
        let mut ring = IdRing::new(4);
        let mut pool = IdPool::default();
        assert_eq!((pool.take(&ring), pool.take(&ring)), (Some(1), Some(2)));
        let closed_at = ring.push(1);
        pool.release(1, closed_at);
        for _ in 0..3 {
            ring.push(2);
            assert!(ring.items(closed_at, closed_at).is_some());
        }
        assert_eq!(pool.take(&ring), Some(3), "sequence 1 is still remembered");
        ring.push(2);
        assert_eq!(ring.items(closed_at, closed_at), None);
        assert_eq!(pool.take(&ring), Some(1));
    }
}

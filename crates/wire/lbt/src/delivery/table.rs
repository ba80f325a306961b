/// From topic index to slot: small open-addressed arrays, one for each run of consecutive indexes.
///
/// Sources number their topics consecutively, so an index taken by its low bits is its own place in its page and a
/// look-up is one access; others are found by stepping on. A page is at most half full. Entries that step on stand
/// in the order of their own places (Robin Hood hashing), so that a removal ends at the first entry in its own place:
/// a million consecutive ones are removed without looking at each other.
///
/// The table grows by a page at a time, which takes over what belongs to it of one other (linear hashing): no insertion
/// moves more than two pages hold, unless a source numbers its topics so that they share a page.
pub(super) struct TopicTable {
    pages: Vec<Page>,
    len: usize,
}

/// Indexes in a row that share a page.
const RUN_BITS: u32 = 9;
/// Entries a page, on the average.
const PER_PAGE: usize = 1 << RUN_BITS;

impl TopicTable {
    pub(super) fn new() -> TopicTable {
        TopicTable { pages: vec![Page::new()], len: 0 }
    }

    pub(super) fn memory_bytes(&self) -> usize {
        let entries: usize = self.pages.iter().map(|page| page.entries.capacity()).sum();
        entries * size_of::<Entry>() + self.pages.capacity() * size_of::<Page>()
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// The page of an index.
    #[inline]
    fn page_of(&self, index: u32) -> usize {
        let (run, count) = ((index >> RUN_BITS) as usize, self.pages.len());
        let all = count.next_power_of_two() - 1;
        let at = run & all;
        // A page that is not there yet is still part of that with one bit less.
        if at < count { at } else { at & (all >> 1) }
    }

    #[inline]
    pub(super) fn find(&self, index: u32) -> Option<u32> {
        self.pages[self.page_of(index)].probe(index).map(|(_, slot)| slot)
    }

    /// Adds an index that is not there.
    pub(super) fn insert(&mut self, index: u32, slot: u32) {
        debug_assert!(self.find(index).is_none() && slot != FREE);
        if self.len == self.pages.len() * PER_PAGE {
            self.add_page();
        }
        let at = self.page_of(index);
        self.pages[at].insert(Entry { index, slot });
        self.len += 1;
    }

    /// Removes an index and returns its slot.
    pub(super) fn remove(&mut self, index: u32) -> Option<u32> {
        let at = self.page_of(index);
        let slot = self.pages[at].remove(index)?;
        self.len -= 1;
        Some(slot)
    }

    /// Adds the next page, with what is its own of the page that stood for it.
    fn add_page(&mut self) {
        let new = self.pages.len();
        // Without its highest bit.
        let before = new ^ (1 << new.ilog2());
        self.pages.push(Page::new());
        let split = std::mem::replace(&mut self.pages[before], Page::new());
        for entry in split.entries.into_iter().filter(|entry| entry.slot != FREE) {
            let at = self.page_of(entry.index);
            self.pages[at].insert(entry);
        }
    }
}

struct Page {
    entries: Vec<Entry>,
    len: usize,
}

#[derive(Clone, Copy)]
struct Entry {
    index: u32,
    slot: u32,
}

const FREE: u32 = u32::MAX;
const EMPTY: Entry = Entry { index: 0, slot: FREE };
const CAPACITY_MIN: usize = 16;

impl Page {
    fn new() -> Page {
        Page { entries: vec![EMPTY; CAPACITY_MIN], len: 0 }
    }

    /// Where an index is, and its slot.
    #[inline]
    fn probe(&self, index: u32) -> Option<(usize, u32)> {
        let mask = self.entries.len() - 1;
        let mut at = index as usize & mask;
        loop {
            let entry = self.entries[at];
            if entry.slot == FREE {
                return None;
            }
            if entry.index == index {
                return Some((at, entry.slot));
            }
            at = (at + 1) & mask;
        }
    }

    fn insert(&mut self, entry: Entry) {
        if 2 * (self.len + 1) > self.entries.len() {
            self.grow();
        }
        self.place(entry);
        self.len += 1;
    }

    fn grow(&mut self) {
        let doubled = vec![EMPTY; 2 * self.entries.len()];
        for entry in std::mem::replace(&mut self.entries, doubled) {
            if entry.slot != FREE {
                self.place(entry);
            }
        }
    }

    fn place(&mut self, mut entry: Entry) {
        let mask = self.entries.len() - 1;
        let (mut at, mut steps) = (entry.index as usize & mask, 0);
        while self.entries[at].slot != FREE {
            let others = self.steps(at);
            if others < steps {
                std::mem::swap(&mut entry, &mut self.entries[at]);
                steps = others;
            }
            at = (at + 1) & mask;
            steps += 1;
        }
        self.entries[at] = entry;
    }

    /// How far the entry there is from its own place.
    fn steps(&self, at: usize) -> usize {
        at.wrapping_sub(self.entries[at].index as usize) & (self.entries.len() - 1)
    }

    /// Removes an index and returns its slot; entries that had stepped over it come one place back.
    fn remove(&mut self, index: u32) -> Option<u32> {
        let mask = self.entries.len() - 1;
        let (mut at, slot) = self.probe(index)?;
        self.len -= 1;
        loop {
            let next = (at + 1) & mask;
            if self.entries[next].slot == FREE || self.steps(next) == 0 {
                self.entries[at] = EMPTY;
                return Some(slot);
            }
            self.entries[at] = self.entries[next];
            at = next;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;
    use units::Rng;

    #[test]
    fn consecutive_ones_are_removed_without_a_look_at_each_other() {
        let mut table = TopicTable::new();
        (0..1_000_000).for_each(|index| table.insert(index, index));
        // Looks at all that follow would be half a million million.
        assert!((0..1_000_000).all(|index| table.remove(index) == Some(index)));
        assert_eq!(table.len(), 0);
    }

    #[test]
    fn an_insertion_moves_no_more_than_a_page_or_two_however_many_there_are() {
        let _repeat = testkit::repeat!();
        let (mut consecutive, mut spread) = (TopicTable::new(), TopicTable::new());
        let mut rng = Rng::new(2);
        for index in 0..300_000 {
            consecutive.insert(index, index);
            // Whatever numbers a source gives.
            let other = rng.below(u64::from(u32::MAX)) as u32;
            if spread.find(other).is_none() {
                spread.insert(other, index);
            }
        }
        let longest = |table: &TopicTable| table.pages.iter().map(|page| page.entries.len()).max();
        assert_eq!(longest(&consecutive), Some(2 * PER_PAGE));
        assert!(longest(&spread) <= Some(4 * PER_PAGE));
    }

    #[test]
    fn it_agrees_with_a_map_under_random_use() {
        let _repeat = testkit::repeat!();
        let mut rng = Rng::new(1);
        let (mut table, mut map) = (TopicTable::new(), BTreeMap::new());
        for step in 0..20_000 {
            // indexes that collide in their low bits as well as consecutive ones
            let index = (rng.below(200) << if rng.chance(0.5) { 12 } else { 0 }) as u32;
            assert_eq!(table.find(index), map.get(&index).copied());
            match map.remove(&index) {
                Some(slot) => assert_eq!(table.remove(index), Some(slot)),
                None => {
                    table.insert(index, step);
                    map.insert(index, step);
                }
            }
            assert_eq!(table.len(), map.len());
        }
        assert!(map.iter().all(|(&index, &slot)| table.find(index) == Some(slot)));
        assert_eq!(table.remove(0xdead_beef), None);
    }
}

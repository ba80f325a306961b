//! Values under handles.

/// A handle: names one value for ever, and nothing once that is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Slot {
    pub(crate) index: u32,
    generation: u32,
}

impl Slot {
    /// As one number, for callers in other languages.
    pub(crate) fn to_u64(self) -> u64 {
        u64::from(self.generation) << 32 | u64::from(self.index)
    }

    pub(crate) fn from_u64(number: u64) -> Slot {
        Slot { index: number as u32, generation: (number >> 32) as u32 }
    }
}

/// Values at places that are used again, under handles that are not (before 2^32 values at one place).
#[derive(Debug)]
pub(crate) struct Table<T> {
    entries: Vec<Entry<T>>,
    free: Vec<u32>,
}

#[derive(Debug)]
struct Entry<T> {
    generation: u32,
    value: Option<T>,
}

impl<T> Default for Table<T> {
    fn default() -> Self {
        Table { entries: Vec::new(), free: Vec::new() }
    }
}

impl<T> Table<T> {
    pub(crate) fn len(&self) -> usize {
        self.entries.len() - self.free.len()
    }

    pub(crate) fn insert(&mut self, value: T) -> Slot {
        let index = self.free.pop().unwrap_or_else(|| {
            self.entries.push(Entry { generation: 0, value: None });
            u32::try_from(self.entries.len() - 1).expect("the owner's limit is far below 2^32 values")
        });
        let entry = &mut self.entries[index as usize];
        entry.value = Some(value);
        Slot { index, generation: entry.generation }
    }

    pub(crate) fn remove(&mut self, slot: Slot) -> Option<T> {
        let entry = self.entries.get_mut(slot.index as usize).filter(|e| e.generation == slot.generation)?;
        let value = entry.value.take()?;
        entry.generation = entry.generation.wrapping_add(1);
        self.free.push(slot.index);
        Some(value)
    }

    #[inline]
    pub(crate) fn get(&self, slot: Slot) -> Option<&T> {
        self.entries.get(slot.index as usize).filter(|e| e.generation == slot.generation)?.value.as_ref()
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, slot: Slot) -> Option<&mut T> {
        self.entries.get_mut(slot.index as usize).filter(|e| e.generation == slot.generation)?.value.as_mut()
    }

    /// The value at a place and its handle.
    #[inline]
    pub(crate) fn at_mut(&mut self, index: u32) -> Option<(Slot, &mut T)> {
        let entry = self.entries.get_mut(index as usize)?;
        Some((Slot { index, generation: entry.generation }, entry.value.as_mut()?))
    }

    /// The handles of all values, by place.
    pub(crate) fn slots(&self) -> impl Iterator<Item = Slot> + '_ {
        self.iter().map(|(slot, _)| slot)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (Slot, &T)> + '_ {
        self.entries.iter().zip(0..).filter_map(|(entry, index)| {
            Some((Slot { index, generation: entry.generation }, entry.value.as_ref()?))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_used_again_and_its_old_handle_is_not() {
        let mut table = Table::default();
        let (a, b) = (table.insert("a"), table.insert("b"));
        assert_eq!(table.remove(a), Some("a"));
        assert_eq!((table.remove(a), table.get(a), table.len()), (None, None, 1));
        let c = table.insert("c");
        assert_eq!((c.index, table.get(a)), (a.index, None));
        assert_eq!(table.get_mut(a), None);
        assert_eq!(table.at_mut(c.index), Some((c, &mut "c")));
        assert_eq!(table.iter().collect::<Vec<_>>(), [(c, &"c"), (b, &"b")]);
        assert_eq!(table.slots().collect::<Vec<_>>(), [c, b]);
        assert_eq!(Slot::from_u64(c.to_u64()), c);
        assert_eq!(table.get(Slot { index: 7, generation: 0 }), None);
    }
}

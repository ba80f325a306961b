/// Values in numbered slots that are used again, under another generation.
pub(super) struct Slots<T> {
    entries: Vec<(u32, Option<T>)>,
    free: Vec<u32>,
}

impl<T> Default for Slots<T> {
    fn default() -> Slots<T> {
        Slots { entries: Vec::new(), free: Vec::new() }
    }
}

impl<T> Slots<T> {
    /// Puts a value into a free slot; returns slot and generation.
    pub(super) fn insert(&mut self, value: T) -> (u32, u32) {
        if let Some(slot) = self.free.pop() {
            let entry = &mut self.entries[slot as usize];
            entry.1 = Some(value);
            return (slot, entry.0);
        }
        units::reserve_for_push(&mut self.entries);
        self.entries.push((0, Some(value)));
        ((self.entries.len() - 1) as u32, 0)
    }

    pub(super) fn remove(&mut self, slot: u32, generation: u32) -> Option<T> {
        let entry = self.entries.get_mut(slot as usize).filter(|e| e.0 == generation)?;
        let value = entry.1.take()?;
        entry.0 = entry.0.wrapping_add(1);
        self.free.push(slot);
        Some(value)
    }

    /// Takes out the value in a slot, whatever its generation.
    pub(super) fn take(&mut self, slot: u32) -> Option<T> {
        let generation = self.entries.get(slot as usize)?.0;
        self.remove(slot, generation)
    }

    /// The value in a slot, if there is one now.
    pub(super) fn get(&self, slot: u32) -> Option<&T> {
        self.entries.get(slot as usize)?.1.as_ref()
    }

    /// The value in a slot, if there is one now.
    pub(super) fn get_mut(&mut self, slot: u32) -> Option<&mut T> {
        self.entries.get_mut(slot as usize)?.1.as_mut()
    }

    pub(super) fn generation(&self, slot: u32) -> u32 {
        self.entries[slot as usize].0
    }

    /// Slots that there are, used or not.
    pub(super) fn capacity(&self) -> u32 {
        self.entries.len() as u32
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len() - self.free.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_that_is_used_again_is_not_reached_by_its_old_generation() {
        let mut slots = Slots::default();
        let old = slots.insert('a');
        assert_eq!(slots.remove(old.0, old.1), Some('a'));
        assert_eq!(slots.remove(old.0, old.1), None);
        let new = slots.insert('b');
        assert_eq!((new.0, slots.remove(old.0, old.1)), (old.0, None));
        assert_eq!((slots.get(new.0), slots.len(), slots.capacity()), (Some(&'b'), 1, 1));
    }
}

//! The table of items.

use std::ops::{Index, IndexMut};

use crate::ahead::Prefetch;

/// Values at places that they keep until they are removed; a place is then used again.
///
/// `slab` gives the same, but for [`Table::prefetch`]: it reads a place to say whether something is there, and that is what
/// an update would wait for.
#[derive(Debug)]
pub(crate) struct Table<T> {
    places: Vec<Place<T>>,
    len: usize,
    /// The place that was left last, if one is free: each free one names another.
    free: Option<usize>,
}

#[derive(Debug)]
enum Place<T> {
    Taken(T),
    Free(Option<usize>),
}

impl<T> Default for Table<T> {
    fn default() -> Self {
        Table { places: Vec::new(), len: 0, free: None }
    }
}

impl<T> Table<T> {
    /// How many values there are.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Every place is below this one. It never falls.
    #[inline]
    pub(crate) fn end(&self) -> usize {
        self.places.len()
    }

    #[inline]
    pub(crate) fn get(&self, place: usize) -> Option<&T> {
        match self.places.get(place) {
            Some(Place::Taken(value)) => Some(value),
            _ => None,
        }
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, place: usize) -> Option<&mut T> {
        match self.places.get_mut(place) {
            Some(Place::Taken(value)) => Some(value),
            _ => None,
        }
    }

    pub(crate) fn contains(&self, place: usize) -> bool {
        self.get(place).is_some()
    }

    /// Adds a value, and returns its place.
    pub(crate) fn insert(&mut self, value: T) -> usize {
        self.insert_at(|_| value)
    }

    /// The same for a value that knows its place.
    pub(crate) fn insert_at(&mut self, value: impl FnOnce(usize) -> T) -> usize {
        self.len += 1;
        let Some(place) = self.free else {
            let place = self.places.len();
            self.places.push(Place::Taken(value(place)));
            return place;
        };
        let Place::Free(next) = std::mem::replace(&mut self.places[place], Place::Taken(value(place))) else {
            unreachable!("place {place} is on the list of free ones")
        };
        self.free = next;
        place
    }

    /// Takes a value out.
    ///
    /// # Panics
    /// Nothing is there.
    pub(crate) fn remove(&mut self, place: usize) -> T {
        assert!(self.contains(place), "nothing is at {place}");
        let Place::Taken(value) = std::mem::replace(&mut self.places[place], Place::Free(self.free)) else {
            unreachable!("something is at {place}")
        };
        self.free = Some(place);
        self.len -= 1;
        value
    }

    /// All values with their places.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (usize, &T)> {
        self.places.iter().enumerate().filter_map(|(place, value)| match value {
            Place::Taken(value) => Some((place, value)),
            Place::Free(_) => None,
        })
    }

    /// Asks for the value at a place without reading whether there is one.
    #[inline]
    pub(crate) fn prefetch(&self, place: usize)
    where
        T: Prefetch,
    {
        if let Some(value) = self.places.get(place) {
            prefetch::value(value);
        }
    }
}

impl<T> Index<usize> for Table<T> {
    type Output = T;

    #[inline]
    fn index(&self, place: usize) -> &T {
        self.get(place).unwrap_or_else(|| panic!("nothing is at {place}"))
    }
}

impl<T> IndexMut<usize> for Table<T> {
    #[inline]
    fn index_mut(&mut self, place: usize) -> &mut T {
        self.get_mut(place).unwrap_or_else(|| panic!("nothing is at {place}"))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn it_keeps_what_a_sorted_map_keeps_and_uses_places_again() {
        let _repeat = testkit::repeat!();
        let mut rng = units::Rng::new(11);
        let (mut table, mut model, mut most) = (Table::default(), BTreeMap::new(), 0);
        for step in 0..20_000_u64 {
            let grows = step / 5_000 % 2 == 0;
            if rng.next_u64() % 4 < if grows { 3 } else { 1 } {
                let place = table.insert(step);
                assert_eq!(model.insert(place, step), None, "place {place} was taken");
            } else if let Some(place) =
                model.keys().nth(rng.next_u64() as usize % model.len().max(1)).copied()
            {
                assert_eq!(Some(table.remove(place)), model.remove(&place));
                assert_eq!((table.get(place), table.contains(place)), (None, false));
            }
            most = most.max(model.len());
            assert_eq!((table.len(), table.end()), (model.len(), most));
        }
        assert!(table.iter().eq(model.iter().map(|(place, value)| (*place, value))));
        for place in 0..most + 2 {
            assert_eq!(table.get_mut(place).copied(), model.get(&place).copied());
        }
        let place = *model.keys().next().expect("some are left");
        table[place] += 1;
        assert_eq!(table[place], model[&place] + 1);
    }

    #[test]
    #[should_panic(expected = "nothing is at 1")]
    fn what_is_not_there_cannot_be_removed() {
        let mut table = Table::default();
        table.insert(7);
        table.remove(1);
    }
}

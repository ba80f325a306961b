//! The connections of a port by their numbers. A number is used again when its connection is gone, and not while
//! the service still knows it.

use std::ops::{Index, IndexMut};

use slab::Slab;

/// Connections by number, some of which are of none any more.
#[derive(Debug)]
pub(crate) struct Places<C> {
    places: Slab<Option<C>>,
    /// Numbers of connections that are gone and that the service still knows.
    kept: Vec<usize>,
}

impl<C> Places<C> {
    pub(crate) fn new() -> Places<C> {
        Places { places: Slab::new(), kept: Vec::new() }
    }

    /// How many connections there are.
    pub(crate) fn len(&self) -> usize {
        self.places.len() - self.kept.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// All numbers are below.
    pub(crate) fn end(&self) -> usize {
        self.places.capacity()
    }

    /// The number of the next connection.
    pub(crate) fn next(&self) -> usize {
        self.places.vacant_key()
    }

    pub(crate) fn insert(&mut self, connection: C) {
        self.places.insert(Some(connection));
    }

    #[inline]
    pub(crate) fn get(&self, number: usize) -> Option<&C> {
        self.places.get(number)?.as_ref()
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, number: usize) -> Option<&mut C> {
        self.places.get_mut(number)?.as_mut()
    }

    /// Takes a connection out; its number is kept until it is released.
    pub(crate) fn take(&mut self, number: usize) -> Option<C> {
        let gone = self.places.get_mut(number)?.take()?;
        self.kept.push(number);
        Some(gone)
    }

    /// Lets the numbers of connections that are gone be used again, but for those that the service still knows.
    pub(crate) fn release(&mut self, is_known: impl Fn(usize) -> bool) {
        let Places { places, kept } = self;
        kept.retain(|number| {
            let stays = is_known(*number);
            if !stays {
                places.try_remove(*number);
            }
            stays
        });
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (usize, &C)> {
        self.places.iter().filter_map(|(number, connection)| Some((number, connection.as_ref()?)))
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = (usize, &mut C)> {
        self.places.iter_mut().filter_map(|(number, connection)| Some((number, connection.as_mut()?)))
    }
}

impl<C> Index<usize> for Places<C> {
    type Output = C;

    fn index(&self, number: usize) -> &C {
        self.get(number).expect("a connection of this number")
    }
}

impl<C> IndexMut<usize> for Places<C> {
    fn index_mut(&mut self, number: usize) -> &mut C {
        self.get_mut(number).expect("a connection of this number")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_used_again_when_it_is_released_and_not_before() {
        let mut places = Places::new();
        for name in ["a", "b", "c"] {
            places.insert(name);
        }
        assert_eq!((places.take(1), places.take(1), places.take(0)), (Some("b"), None, Some("a")));
        assert_eq!((places.len(), places.get(1), places.next()), (1, None, 3));
        places.release(|number| number == 1);
        assert_eq!((places.len(), places.next()), (1, 0));
        places.insert("d");
        assert_eq!(places.iter().collect::<Vec<_>>(), [(0, &"d"), (2, &"c")]);
        places.release(|_| false);
        assert_eq!((places.len(), places.next()), (2, 1));
    }
}

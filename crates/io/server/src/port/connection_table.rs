//! The connections of a port by their numbers. A number is used again when its connection is gone, and not while
//! the service still knows it.

use std::ops::{Index, IndexMut};

use slab::Slab;

/// Connections by number, some of which are of none any more.
#[derive(Debug)]
pub(crate) struct ConnectionTable<C> {
    table: Slab<Option<C>>,
    /// Numbers of connections that are gone and that the service still knows.
    kept: Vec<usize>,
}

impl<C> ConnectionTable<C> {
    pub(crate) fn new() -> ConnectionTable<C> {
        ConnectionTable { table: Slab::new(), kept: Vec::new() }
    }

    /// How many connections there are.
    pub(crate) fn len(&self) -> usize {
        self.table.len() - self.kept.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// All numbers are below.
    pub(crate) fn end(&self) -> usize {
        self.table.capacity()
    }

    /// The number of the next connection.
    pub(crate) fn next(&self) -> usize {
        self.table.vacant_key()
    }

    pub(crate) fn insert(&mut self, connection: C) {
        self.table.insert(Some(connection));
    }

    #[inline]
    pub(crate) fn get(&self, number: usize) -> Option<&C> {
        self.table.get(number)?.as_ref()
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, number: usize) -> Option<&mut C> {
        self.table.get_mut(number)?.as_mut()
    }

    /// Takes a connection out; its number is kept until it is released.
    pub(crate) fn take(&mut self, number: usize) -> Option<C> {
        let gone = self.table.get_mut(number)?.take()?;
        self.kept.push(number);
        Some(gone)
    }

    /// Lets the numbers of connections that are gone be used again, but for those that the service still knows.
    pub(crate) fn release(&mut self, is_known: impl Fn(usize) -> bool) {
        let ConnectionTable { table, kept } = self;
        kept.retain(|number| {
            let stays = is_known(*number);
            if !stays {
                table.try_remove(*number);
            }
            stays
        });
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (usize, &C)> {
        self.table.iter().filter_map(|(number, connection)| Some((number, connection.as_ref()?)))
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = (usize, &mut C)> {
        self.table.iter_mut().filter_map(|(number, connection)| Some((number, connection.as_mut()?)))
    }
}

impl<C> Index<usize> for ConnectionTable<C> {
    type Output = C;

    fn index(&self, number: usize) -> &C {
        self.get(number).expect("a connection of this number")
    }
}

impl<C> IndexMut<usize> for ConnectionTable<C> {
    fn index_mut(&mut self, number: usize) -> &mut C {
        self.get_mut(number).expect("a connection of this number")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_used_again_when_it_is_released_and_not_before() {
        let mut table = ConnectionTable::new();
        for name in ["a", "b", "c"] {
            table.insert(name);
        }
        assert_eq!((table.take(1), table.take(1), table.take(0)), (Some("b"), None, Some("a")));
        assert_eq!((table.len(), table.get(1), table.next()), (1, None, 3));
        table.release(|number| number == 1);
        assert_eq!((table.len(), table.next()), (1, 0));
        table.insert("d");
        assert_eq!(table.iter().collect::<Vec<_>>(), [(0, &"d"), (2, &"c")]);
        table.release(|_| false);
        assert_eq!((table.len(), table.next()), (2, 1));
    }
}

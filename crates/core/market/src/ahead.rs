//! A look ahead at the items of the messages that come next, so that what their updates need is in the processor's
//! caches when their turn comes.
//!
//! Of many items the caches hold few, and an update waits for memory several times, each time for an address that it has
//! only just read: the item's place, the item, its values. Looked at some messages before, they come while other updates
//! are worked on. It is a hint and no more: nothing depends on whether it was right.

use slab::Slab;

/// The items of the last messages that were announced.
#[derive(Debug, Default)]
pub(crate) struct Ahead([usize; Ahead::STEPS]);

/// An item that can be asked for before it is needed.
pub(crate) trait Prefetch: Sized {
    /// Asks for the item itself.
    #[inline]
    fn prefetch(&self) {
        prefetch::value(self);
    }

    /// Asks for what it points to: its values, and who gets its updates.
    fn prefetch_behind(&self);
}

impl Ahead {
    /// An item's place is read first, then the item is asked for, then what it points to: each with another announcement.
    const STEPS: usize = 2;
    /// A message is best announced so many messages before its turn: all is there then, and not yet displaced.
    pub(crate) const DISTANCE: usize = Ahead::STEPS + 1;
    /// Fewer items are in the caches anyway.
    const ITEMS_MIN: usize = 1_000;

    /// Whether a look ahead at a table of so many items is worth what it costs.
    #[inline]
    pub(crate) fn helps(items: usize) -> bool {
        items >= Ahead::ITEMS_MIN
    }

    /// A message about the item at a place is announced.
    #[inline]
    pub(crate) fn announce<I: Prefetch>(&mut self, place: usize, table: &Slab<I>) {
        let Ahead([itself, behind]) = *self;
        self.0 = [place, itself];
        if let Some(item) = table.get(itself) {
            item.prefetch();
        }
        if let Some(item) = table.get(behind) {
            item.prefetch_behind();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    struct Noted<'a>(usize, &'a RefCell<Vec<(usize, &'static str)>>);

    impl Prefetch for Noted<'_> {
        fn prefetch(&self) {
            self.1.borrow_mut().push((self.0, "itself"));
        }

        fn prefetch_behind(&self) {
            self.1.borrow_mut().push((self.0, "behind"));
        }
    }

    #[test]
    fn an_item_is_asked_for_with_the_next_announcement_and_what_it_points_to_with_the_one_after() {
        let (noted, mut table, mut ahead) = (RefCell::default(), Slab::new(), Ahead::default());
        for place in 0..10 {
            table.insert(Noted(place, &noted));
        }
        // The last two are gone when their turn comes.
        for place in [3, 7, 5, 100, usize::MAX] {
            ahead.announce(place, &table);
        }
        let expected =
            [(0, "itself"), (0, "behind"), (3, "itself"), (0, "behind"), (7, "itself"), (3, "behind")];
        assert_eq!(noted.borrow()[..6], expected);
        assert_eq!(noted.borrow()[6..], [(5, "itself"), (7, "behind"), (5, "behind")]);
    }
}

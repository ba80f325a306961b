//! A look ahead at the items of the messages that come next, so that what their updates need is in the processor's
//! caches when their turn comes.
//!
//! Of many items the caches hold few, and an update waits for memory several times, each time for an address that it has
//! only just read: the item's place, the item, its values and who gets them. Looked at some messages before, they come
//! while other updates are worked on. It is a hint and no more: nothing depends on whether it was right.

use crate::table::Table;

/// The items of the last messages that were announced.
#[derive(Debug, Default)]
pub(crate) struct Ahead([usize; Ahead::STEPS]);

/// An item that can be asked for before it is needed.
pub(crate) trait Prefetch {
    /// Asks for what it points to, without reading that.
    fn prefetch_behind(&self);

    /// Asks for what that points to.
    fn prefetch_far_behind(&self) {}
}

impl Ahead {
    /// The item at a place is asked for, then what it points to, then what that points to: each with another announcement,
    /// so that nothing is read before it has come.
    const STEPS: usize = 3;
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
    pub(crate) fn announce<I: Prefetch>(&mut self, place: usize, table: &Table<I>) {
        let Ahead([itself, behind, far_behind]) = *self;
        self.0 = [place, itself, behind];
        table.prefetch(itself);
        if let Some(item) = table.get(behind) {
            item.prefetch_behind();
        }
        if let Some(item) = table.get(far_behind) {
            item.prefetch_far_behind();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    struct Noted<'a>(usize, &'a RefCell<Vec<(usize, &'static str)>>);

    impl Prefetch for Noted<'_> {
        fn prefetch_behind(&self) {
            self.1.borrow_mut().push((self.0, "behind"));
        }

        fn prefetch_far_behind(&self) {
            self.1.borrow_mut().push((self.0, "far behind"));
        }
    }

    #[test]
    fn what_an_item_points_to_is_asked_for_two_announcements_later_and_what_that_points_to_after_three() {
        let (noted, mut table, mut ahead) = (RefCell::default(), Table::default(), Ahead::default());
        for place in 0..10 {
            table.insert(Noted(place, &noted));
        }
        // The last two are gone when their turn comes.
        for place in [3, 7, 5, 100, usize::MAX] {
            noted.borrow_mut().push((place, "announced"));
            ahead.announce(place, &table);
        }
        let after = |announced: usize| {
            let noted = noted.borrow();
            let mut rest = noted.iter().skip_while(|n| **n != (announced, "announced")).skip(1);
            rest.by_ref().take_while(|(_, what)| *what != "announced").copied().collect::<Vec<_>>()
        };
        assert_eq!(after(5), [(3, "behind"), (0, "far behind")]);
        assert_eq!(after(100), [(7, "behind"), (3, "far behind")]);
        assert_eq!(after(usize::MAX), [(5, "behind"), (7, "far behind")]);
    }
}

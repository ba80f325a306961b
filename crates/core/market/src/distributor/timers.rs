//! What is due when.

use std::collections::BTreeMap;

use units::Nanos;

/// Things that are due at times, each to be taken back exactly: the table holds no more than what is set.
#[derive(Debug)]
pub(super) struct Timers<T> {
    due: BTreeMap<Due, T>,
    set_count: u64,
}

/// A place in [`Timers`]. Two things due at one time are apart, in the order in which they were set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Due(Nanos, u64);

impl<T> Default for Timers<T> {
    fn default() -> Self {
        Timers { due: BTreeMap::new(), set_count: 0 }
    }
}

impl<T> Timers<T> {
    /// Sets something for a time.
    pub(super) fn set(&mut self, at: Nanos, what: T) -> Due {
        self.set_count += 1;
        let due = Due(at, self.set_count);
        self.due.insert(due, what);
        due
    }

    /// Takes something back.
    pub(super) fn cancel(&mut self, due: Due) {
        self.due.remove(&due);
    }

    /// The next thing that is due by now.
    pub(super) fn pop(&mut self, now: Nanos) -> Option<T> {
        let first = self.due.first_entry()?;
        (first.key().0 <= now).then(|| first.remove())
    }

    /// When the next thing is due; [`Nanos::NEVER`] if nothing is set.
    pub(super) fn next(&self) -> Nanos {
        self.due.first_key_value().map_or(Nanos::NEVER, |(due, _)| due.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_due_comes_in_order_and_what_was_taken_back_does_not() {
        let mut timers = Timers::default();
        let late = timers.set(Nanos(20), "late");
        let first = timers.set(Nanos(10), "first");
        timers.set(Nanos(10), "second");
        assert_eq!((timers.next(), timers.pop(Nanos(9))), (Nanos(10), None));
        assert_eq!(timers.pop(Nanos(10)), Some("first"));
        timers.cancel(first);
        timers.cancel(late);
        assert_eq!((timers.pop(Nanos(99)), timers.pop(Nanos(99))), (Some("second"), None));
        assert_eq!(timers.next(), Nanos::NEVER);
    }
}

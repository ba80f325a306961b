use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fmt;

use super::{Depth, Side, Snapshot};
use crate::Decimal;

/// One price level of one side, which is what a change of a book is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Level {
    pub side: Side,
    pub price: Decimal,
    pub size: Decimal,
    /// When it was last set, milliseconds since 1970.
    pub time_ms: u64,
}

/// What becomes of one level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DepthChange {
    /// A price that was not in the book.
    Add(Level),
    /// Another size at a price that was.
    Update(Level),
    /// The price is gone.
    Delete(Side, Decimal),
}

/// The sequence of diffs is broken; a new snapshot is needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BookError {
    /// The number the next diff had to follow.
    pub last: u64,
    /// The first number of the diff that came.
    pub first: u64,
}

impl fmt::Display for BookError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "depth diff starts at {} and does not follow {}", self.first, self.last)
    }
}

impl std::error::Error for BookError {}

/// Most diffs kept while a snapshot is awaited; older ones are dropped, as the snapshot covers them or comes
/// too late.
const BUFFERED_MAX: usize = 10_000;

/// The book of one instrument, built from a snapshot and the diffs around it.
///
/// Diffs that came before the snapshot are kept and applied to it by the venue's rule: those that end before
/// it are dropped, the first one applied must reach over it, and each further one must follow the one before.
#[derive(Debug, Default)]
pub struct Book {
    levels: HashMap<(Side, Decimal), Level>,
    /// The last update number applied; `None` while a snapshot is awaited.
    last: Option<u64>,
    /// No diff has been applied to the snapshot yet.
    is_fresh: bool,
    buffered: Vec<Depth>,
}

impl Book {
    /// Whether the book is whole (a snapshot came, and every diff since).
    #[must_use]
    pub fn is_live(&self) -> bool {
        self.last.is_some()
    }

    /// All levels, in no order.
    pub fn levels(&self) -> impl Iterator<Item = Level> + '_ {
        self.levels.values().copied()
    }

    /// Starts again from a snapshot and the diffs kept for it.
    ///
    /// # Errors
    /// [`BookError`] if those do not fit it; the book then waits for another snapshot.
    pub fn on_snapshot(&mut self, snapshot: &Snapshot) -> Result<(), BookError> {
        self.levels.clear();
        for &(side, price, size) in &snapshot.levels {
            self.set(side, price, size, snapshot.time_ms);
        }
        self.last = Some(snapshot.last);
        self.is_fresh = true;
        for depth in std::mem::take(&mut self.buffered) {
            self.on_depth(depth)?;
        }
        Ok(())
    }

    /// Applies a diff, or keeps it until the snapshot comes. Returns what it changed, nothing when it was
    /// kept or is old.
    ///
    /// # Errors
    /// [`BookError`] if it does not follow the one before; the book then waits for a snapshot.
    pub fn on_depth(&mut self, depth: Depth) -> Result<Vec<DepthChange>, BookError> {
        let Some(last) = self.last else {
            if self.buffered.len() == BUFFERED_MAX {
                self.buffered.remove(0);
            }
            self.buffered.push(depth);
            return Ok(Vec::new());
        };
        if self.is_fresh && depth.ends_before(last) {
            return Ok(Vec::new());
        }
        if !depth.follows(last, self.is_fresh) {
            self.last = None;
            let first = depth.first;
            self.buffered = vec![depth];
            return Err(BookError { last, first });
        }
        self.is_fresh = false;
        self.last = Some(depth.last);
        let set = |&(side, price, size): &_| self.set(side, price, size, depth.time_ms);
        Ok(depth.levels.iter().filter_map(set).collect())
    }

    /// A level keeps the price as it was written when it came: it is what the level is known by.
    fn set(&mut self, side: Side, price: Decimal, size: Decimal, time_ms: u64) -> Option<DepthChange> {
        if size.is_zero() {
            return self.levels.remove(&(side, price)).map(|level| DepthChange::Delete(side, level.price));
        }
        Some(match self.levels.entry((side, price)) {
            Entry::Vacant(vacant) => DepthChange::Add(*vacant.insert(Level { side, price, size, time_ms })),
            Entry::Occupied(mut occupied) => {
                let level = occupied.get_mut();
                (level.size, level.time_ms) = (size, time_ms);
                DepthChange::Update(*level)
            }
        })
    }
}

impl Depth {
    fn ends_before(&self, snapshot: u64) -> bool {
        if self.previous.is_some() { self.last < snapshot } else { self.last <= snapshot }
    }

    /// Whether this diff continues a book whose last number is `last`; the first one after a snapshot has to
    /// reach over it.
    fn follows(&self, last: u64, is_first: bool) -> bool {
        match (self.previous, is_first) {
            (None, true) => self.first <= last + 1 && last < self.last,
            (None, false) => self.first == last + 1,
            (Some(_), true) => self.first <= last && last <= self.last,
            (Some(previous), false) => previous == last,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Decimal {
        text.parse().expect(text)
    }

    fn bid(price: &str, size: &str) -> (Side, Decimal, Decimal) {
        (Side::Bid, of(price), of(size))
    }

    fn spot(first: u64, last: u64, levels: &[(Side, Decimal, Decimal)]) -> Depth {
        Depth { first, last, previous: None, time_ms: 6, levels: levels.to_vec() }
    }

    fn future(first: u64, last: u64, previous: u64) -> Depth {
        Depth { first, last, previous: Some(previous), time_ms: 0, levels: Vec::new() }
    }

    fn snapshot(last: u64) -> Snapshot {
        Snapshot { last, time_ms: 5, levels: vec![bid("10", "1"), bid("9", "2")] }
    }

    #[test]
    fn diffs_before_the_snapshot_are_kept_and_applied_by_the_rule() {
        let mut book = Book::default();
        assert_eq!(book.on_depth(spot(1, 5, &[bid("10", "7")])), Ok(vec![]));
        assert_eq!(book.on_depth(spot(6, 9, &[bid("9", "0")])), Ok(vec![]));
        assert!(!book.is_live());
        book.on_snapshot(&snapshot(7)).expect("6..9 reaches over 7");
        assert!(book.is_live());
        let levels: Vec<_> = book.levels().collect();
        assert_eq!(levels, [Level { side: Side::Bid, price: of("10"), size: of("1"), time_ms: 5 }]);
        assert_eq!(
            book.on_depth(spot(10, 10, &[bid("8", "1"), bid("10", "3"), bid("10.0", "0"), bid("3", "0")])),
            Ok(vec![
                DepthChange::Add(Level { side: Side::Bid, price: of("8"), size: of("1"), time_ms: 6 }),
                DepthChange::Update(Level { side: Side::Bid, price: of("10"), size: of("3"), time_ms: 6 }),
                DepthChange::Delete(Side::Bid, of("10")),
            ]),
            "a level that is not there is not deleted"
        );
    }

    #[test]
    fn a_missing_diff_is_an_error_and_the_next_snapshot_mends_it() {
        let mut book = Book::default();
        book.on_snapshot(&snapshot(7)).expect("nothing kept");
        book.on_depth(spot(8, 9, &[])).expect("follows");
        assert_eq!(book.on_depth(spot(11, 12, &[])), Err(BookError { last: 9, first: 11 }));
        assert!(!book.is_live());
        book.on_depth(spot(13, 14, &[])).expect("kept");
        book.on_snapshot(&snapshot(11)).expect("11..12 reaches over 11, 13 follows");
        assert!(book.is_live());
    }

    #[test]
    fn futures_follow_by_the_previous_number() {
        let mut book = Book::default();
        for depth in [future(1, 4, 0), future(9, 12, 4), future(20, 22, 12)] {
            book.on_depth(depth).expect("kept");
        }
        book.on_snapshot(&snapshot(10)).expect("9..12 reaches over 10");
        book.on_depth(future(30, 31, 22)).expect("follows");
        assert_eq!(book.on_depth(future(40, 41, 32)), Err(BookError { last: 31, first: 40 }));
    }
}

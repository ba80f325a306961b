use std::collections::HashMap;
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

/// Most diffs kept while a snapshot is awaited; older ones are dropped, as the snapshot covers them or comes too late.
const BUFFERED_MAX: usize = 10_000;

/// The book of one instrument, built from a snapshot and the diffs around it.
///
/// Diffs that came before the snapshot are kept and applied to it by the venue's rule: those that end before it are dropped, the
/// first one applied must reach over it, and each further one must follow the one before.
#[derive(Debug, Default)]
pub struct Book {
    levels: HashMap<(Side, Decimal), Decimal>,
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
        self.levels.iter().map(|(&(side, price), &size)| Level { side, price, size })
    }

    /// Starts again from a snapshot and the diffs kept for it.
    ///
    /// # Errors
    /// [`BookError`] if those do not fit it; the book then waits for another snapshot.
    pub fn on_snapshot(&mut self, snapshot: &Snapshot) -> Result<(), BookError> {
        self.levels = snapshot.levels.iter().map(|&(side, price, size)| ((side, price), size)).collect();
        self.last = Some(snapshot.last);
        self.is_fresh = true;
        for depth in std::mem::take(&mut self.buffered) {
            self.on_depth(depth)?;
        }
        Ok(())
    }

    /// Applies a diff, or keeps it until the snapshot comes. Returns what it changed, nothing when it was kept or is old.
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
        Ok(depth.levels.iter().filter_map(|&(side, price, size)| self.set(side, price, size)).collect())
    }

    fn set(&mut self, side: Side, price: Decimal, size: Decimal) -> Option<DepthChange> {
        if size.is_zero() {
            return self.levels.remove(&(side, price)).map(|_| DepthChange::Delete(side, price));
        }
        let level = Level { side, price, size };
        Some(match self.levels.insert((side, price), size) {
            None => DepthChange::Add(level),
            Some(_) => DepthChange::Update(level),
        })
    }
}

impl Depth {
    fn ends_before(&self, snapshot: u64) -> bool {
        if self.previous.is_some() { self.last < snapshot } else { self.last <= snapshot }
    }

    /// Whether this diff continues a book whose last number is `last`; the first one after a snapshot has to reach over it.
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
        Depth { first, last, previous: None, time_ms: 0, levels: levels.to_vec() }
    }

    fn future(first: u64, last: u64, previous: u64) -> Depth {
        Depth { first, last, previous: Some(previous), time_ms: 0, levels: Vec::new() }
    }

    fn snapshot(last: u64) -> Snapshot {
        Snapshot { last, time_ms: None, levels: vec![bid("10", "1"), bid("9", "2")] }
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
        assert_eq!(levels, [Level { side: Side::Bid, price: of("10"), size: of("1") }]);
        assert_eq!(
            book.on_depth(spot(10, 10, &[bid("8", "1"), bid("10", "3"), bid("10.0", "0"), bid("3", "0")])),
            Ok(vec![
                DepthChange::Add(Level { side: Side::Bid, price: of("8"), size: of("1") }),
                DepthChange::Update(Level { side: Side::Bid, price: of("10"), size: of("3") }),
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

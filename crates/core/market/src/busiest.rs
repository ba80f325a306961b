//! Which items have most updates, for status pages.
//!
//! Items count their updates anyway. While somebody looks, a sweep takes from time to time how many have come since the
//! last sweep, [`PORTION`] items at a time and one portion a [`STEP`], and keeps the [`BUSIEST_MAX`] with the highest
//! rates. Nothing is done while nobody looks, and nothing at all on the path of an update. By these numbers a table of a
//! million items takes 4 s to sweep, or more.

use std::time::Duration;

use units::Nanos;

use crate::key::{ItemKey, OwnedKey};
use crate::key_index::Keyed;
use crate::table::Table;

/// Most items that are named as the busiest.
pub const BUSIEST_MAX: usize = 32;
/// Items that are looked at in one go.
const PORTION: usize = 256;
/// The least time between two portions.
const STEP: Duration = Duration::from_millis(1);
/// The least time between the beginnings of two sweeps.
const SWEEP: Duration = Duration::from_millis(500);
/// Sweeps go on for so long after somebody has looked.
const WANTED: Duration = Duration::from_secs(10);

/// An item that counts.
pub(crate) trait Counted: Keyed {
    /// Updates since the last call.
    fn take_moved(&mut self) -> u32;
}

/// An item and how often it is updated.
#[derive(Clone)]
pub struct BusyItem {
    /// The item.
    pub key: OwnedKey,
    /// Updates in 1,000 seconds.
    pub updates_per_1000_s: u64,
}

/// The sweeps over a table of items.
#[derive(Default)]
pub(crate) struct Busiest {
    /// Nobody looks any more from then on.
    wanted_until: Nanos,
    /// When each portion was looked at last; none if sweeps rest.
    looked_at: Vec<Nanos>,
    /// The portion that is next.
    next: usize,
    /// When it is.
    due: Option<Nanos>,
    begun_at: Nanos,
    /// The busiest ones of the present sweep, busiest first.
    found: Vec<BusyItem>,
    /// Those of the last whole one that could compare.
    shown: Option<Vec<BusyItem>>,
}

impl Busiest {
    /// Somebody looks: sweeps begin, or go on.
    pub(crate) fn want(&mut self, now: Nanos) {
        self.wanted_until = now + WANTED;
        self.due.get_or_insert(now);
    }

    /// The busiest items, the busiest one first, at most [`BUSIEST_MAX`]; `None` until two sweeps can be compared.
    pub(crate) fn shown(&self) -> Option<&[BusyItem]> {
        self.shown.as_deref()
    }

    /// When [`Busiest::sweep`] is due.
    #[inline]
    pub(crate) fn next_wakeup(&self) -> Nanos {
        self.due.unwrap_or(Nanos::NEVER)
    }

    /// Looks at a portion of the items, if it is time. Returns how many.
    #[inline]
    pub(crate) fn sweep<T: Counted>(&mut self, now: Nanos, table: &mut Table<T>) -> usize {
        if now < self.next_wakeup() { 0 } else { self.sweep_portion(now, table) }
    }

    #[cold]
    #[inline(never)]
    fn sweep_portion<T: Counted>(&mut self, now: Nanos, table: &mut Table<T>) -> usize {
        if now >= self.wanted_until {
            *self = Busiest::default();
            return 0;
        }
        if self.next == 0 {
            self.begun_at = now;
        }
        let before = self.looked_at.get(self.next).copied();
        let first = self.next * PORTION;
        let mut looked_at = 0;
        for index in first..(first + PORTION).min(table.end()) {
            let Some(item) = table.get_mut(index) else { continue };
            looked_at += 1;
            let moved = item.take_moved();
            if let Some(span) = before.map(|before| now.since(before).as_nanos()).filter(|span| *span > 0)
                && moved > 0
            {
                let updates_per_1000_s = (u128::from(moved) * 1_000_000_000_000 / span) as u64;
                self.note(updates_per_1000_s, item.key());
            }
        }
        match self.looked_at.get_mut(self.next) {
            Some(at) => *at = now,
            None => self.looked_at.push(now),
        }
        self.next += 1;
        self.due = Some(now + STEP);
        if self.next * PORTION >= table.end() {
            self.end_sweep(now, before.is_some());
        }
        looked_at
    }

    /// The last portion is one of those before if the table has grown meanwhile: what is behind it compares next time.
    fn end_sweep(&mut self, now: Nanos, compares: bool) {
        let found = std::mem::take(&mut self.found);
        if compares || self.shown.is_some() {
            self.shown = Some(found);
        }
        self.looked_at.truncate(self.next);
        self.next = 0;
        self.due = Some((self.begun_at + SWEEP).max(now + STEP));
    }

    fn note(&mut self, updates_per_1000_s: u64, key: ItemKey<'_>) {
        let place = self.found.partition_point(|other| other.updates_per_1000_s >= updates_per_1000_s);
        if place < BUSIEST_MAX {
            self.found.truncate(BUSIEST_MAX - 1);
            self.found.insert(place, BusyItem { key: key.to_owned(), updates_per_1000_s });
        }
    }
}

#[cfg(test)]
mod tests {
    use rwf::Domain;

    use super::*;

    struct Ticker(OwnedKey, u32);

    impl Counted for Ticker {
        fn take_moved(&mut self) -> u32 {
            std::mem::take(&mut self.1)
        }
    }

    impl Keyed for Ticker {
        fn key(&self) -> ItemKey<'_> {
            self.0.as_key()
        }
    }

    fn table(count: usize) -> Table<Ticker> {
        let named = |at: usize| ItemKey::named(1, Domain::MARKET_PRICE, at.to_string().as_bytes()).to_owned();
        let mut table = Table::default();
        (0..count).for_each(|at| assert_eq!(table.insert(Ticker(named(at), 7)), at));
        table
    }

    /// Sweeps until no more is due before `until`.
    fn go_on(busiest: &mut Busiest, table: &mut Table<Ticker>, until: Nanos) -> Vec<usize> {
        let mut looked_at = Vec::new();
        while busiest.next_wakeup() < until {
            looked_at.push(busiest.sweep(busiest.next_wakeup(), table));
        }
        looked_at
    }

    fn names(busiest: &Busiest) -> Vec<(String, u64)> {
        let name = |item: &BusyItem| String::from_utf8_lossy(&item.key.name).into_owned();
        busiest.shown().unwrap_or_default().iter().map(|item| (name(item), item.updates_per_1000_s)).collect()
    }

    const T0: Nanos = Nanos(5_000_000_000);

    #[test]
    fn nothing_is_looked_at_while_nobody_looks() {
        let (mut busiest, mut table) = (Busiest::default(), table(3));
        assert_eq!((busiest.next_wakeup(), busiest.sweep(T0, &mut table)), (Nanos::NEVER, 0));
        busiest.want(T0);
        assert_eq!(go_on(&mut busiest, &mut table, T0 + Duration::from_secs(60)).iter().sum::<usize>(), 60);
        assert_eq!(busiest.next_wakeup(), Nanos::NEVER, "20 sweeps in 10 s, then it rests");
        assert!(busiest.shown().is_none());
    }

    #[test]
    fn rates_are_of_the_time_between_two_looks_and_the_busiest_come_first() {
        let (mut busiest, mut table) = (Busiest::default(), table(100));
        busiest.want(T0);
        go_on(&mut busiest, &mut table, T0 + Duration::from_millis(1));
        assert!(busiest.shown().is_none(), "what came before somebody looked says nothing");
        for at in 0..table.end() {
            table[at].1 = if at % 2 == 0 { at as u32 } else { 0 };
        }
        go_on(&mut busiest, &mut table, T0 + SWEEP + STEP);
        let found = names(&busiest);
        assert_eq!(found.len(), BUSIEST_MAX);
        assert_eq!(found[0], ("98".to_owned(), 196_000), "98 in half a second");
        assert_eq!(found[31], ("36".to_owned(), 72_000));
        go_on(&mut busiest, &mut table, T0 + 2 * SWEEP + STEP);
        assert_eq!(names(&busiest), [], "nothing has come since");
    }

    #[test]
    fn a_large_table_is_swept_in_portions_and_each_item_compared_with_its_own_last_look() {
        let (mut busiest, mut table) = (Busiest::default(), table(10 * PORTION));
        busiest.want(T0);
        let looked_at = go_on(&mut busiest, &mut table, T0 + Duration::from_millis(100));
        assert!(looked_at.iter().all(|count| *count <= PORTION), "{looked_at:?}");
        assert_eq!(looked_at.iter().sum::<usize>(), 10 * PORTION);
        table[10 * PORTION - 1].1 = 50;
        go_on(&mut busiest, &mut table, T0 + SWEEP + Duration::from_millis(100));
        assert_eq!(names(&busiest), [("2559".to_owned(), 100_000)]);
    }

    #[test]
    fn a_table_that_has_grown_is_compared_when_its_new_items_have_been_seen_twice() {
        let (mut busiest, mut small) = (Busiest::default(), table(PORTION));
        busiest.want(T0);
        go_on(&mut busiest, &mut small, T0 + Duration::from_millis(1));
        let mut large = table(3 * PORTION);
        go_on(&mut busiest, &mut large, T0 + SWEEP + Duration::from_millis(50));
        large[2 * PORTION].1 = 3;
        busiest.want(T0 + SWEEP);
        go_on(&mut busiest, &mut large, T0 + 2 * SWEEP + Duration::from_millis(50));
        assert_eq!(names(&busiest), [("512".to_owned(), 6_000)]);
    }

    #[test]
    fn an_empty_table_has_no_busy_items() {
        let (mut busiest, mut table) = (Busiest::default(), Table::default());
        busiest.want(T0);
        go_on(&mut busiest, &mut table, T0 + 2 * SWEEP);
        assert_eq!(names(&busiest), []);
        assert!(busiest.shown().is_some(), "that is known, too");
    }
}

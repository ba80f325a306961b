//! Rows by name: what one part of a process tells of each of its own, such as each session of a messaging context.
//!
//! Their number may be large and they come and go, so they are no sets of a [`Registry`](crate::Registry). One thread
//! writes [`Rows`] afresh now and then, in as many steps as it likes, and shows all at once by a [`Roll`]. Whoever
//! reads sees whole rows of one round: names and values never belong to different ones.

use std::fmt::{Display, Write};
use std::sync::{Arc, Mutex, PoisonError, TryLockError};

use crate::Descriptor;
use crate::snapshot::{emit_labels, emit_table, put_text};

/// One number of a row, and what it is called.
#[derive(Clone, Copy, Debug)]
pub struct NamedColumn {
    /// Its short name, within rows of its kind.
    pub name: &'static str,
    /// Its full name and meaning.
    pub descriptor: Descriptor,
}

/// All numbers that rows of one kind may have.
#[derive(Clone, Copy, Debug)]
pub struct NamedTable {
    /// The kind.
    pub kind: &'static str,
    /// Its numbers.
    pub columns: &'static [NamedColumn],
}

/// Rows, as far as they are written, in the form of a [snapshot](crate::snapshot).
#[derive(Debug, Default)]
pub struct Rows {
    /// Kind and numbers of the rows that there are.
    tables: Vec<(&'static str, Vec<&'static NamedColumn>)>,
    bytes: Vec<u8>,
    /// Where each row ends.
    ends: Vec<usize>,
    /// When they were written, on the monotonic clock of the host.
    pub monotonic_ns: u64,
    /// How many there were no room for.
    pub left_out: u64,
}

impl Rows {
    /// Forgets the rows; memory is kept.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
        self.left_out = 0;
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Adds a row of the kind of `table`, with the numbers that are known of it, by their short names. A row with a
    /// number that the table does not have is left out.
    pub fn push(
        &mut self,
        table: &'static NamedTable,
        labels: &[(&str, &dyn Display)],
        numbers: &[(&'static str, u64)],
    ) {
        let Some(at) = self.table(table, numbers) else {
            self.left_out += 1;
            return;
        };
        self.bytes.extend((at as u16).to_le_bytes());
        self.bytes.push(labels.len() as u8 + 1);
        put_text("kind", &mut self.bytes);
        put_text(table.kind, &mut self.bytes);
        for (name, value) in labels {
            put_text(name, &mut self.bytes);
            put_display(value, &mut self.bytes);
        }
        numbers.iter().for_each(|(_, value)| self.bytes.extend(value.to_le_bytes()));
        self.ends.push(self.bytes.len());
    }

    fn table(&mut self, table: &'static NamedTable, numbers: &[(&'static str, u64)]) -> Option<usize> {
        let fits = |known: &(&'static str, Vec<&'static NamedColumn>)| {
            known.0 == table.kind
                && known.1.len() == numbers.len()
                && known.1.iter().zip(numbers).all(|(column, (name, _))| column.name == *name)
        };
        if let Some(at) = self.tables.iter().position(fits) {
            return Some(at);
        }
        let column = |name: &str| table.columns.iter().find(|column| column.name == name);
        let columns = numbers.iter().map(|(name, _)| column(name)).collect::<Option<Vec<_>>>()?;
        self.tables.push((table.kind, columns));
        Some(self.tables.len() - 1)
    }

    /// Appends them as a snapshot has them, at most up to `max_bytes` in all; those without room are counted. False,
    /// and nothing is appended, if there is not even room for what describes them.
    fn emit(&self, labels: &[(String, String)], max_bytes: usize, into: &mut Vec<u8>) -> bool {
        let start = into.len();
        emit_labels(labels, into);
        into.extend(self.monotonic_ns.to_le_bytes());
        let counts_at = into.len();
        into.extend([0; 8]);
        into.extend((self.tables.len() as u16).to_le_bytes());
        for (_, columns) in &self.tables {
            emit_table(columns.iter().map(|column| &column.descriptor), into);
        }
        if into.len() + 4 > max_bytes {
            into.truncate(start);
            return false;
        }
        let room = max_bytes - into.len() - 4;
        let count = self.ends.partition_point(|end| *end <= room);
        let left_out = self.left_out + (self.ends.len() - count) as u64;
        into[counts_at..counts_at + 8].copy_from_slice(&left_out.to_le_bytes());
        into.extend((count as u32).to_le_bytes());
        into.extend(&self.bytes[..self.ends[..count].last().copied().unwrap_or(0)]);
        true
    }
}

/// A text of which the length is known when it was written. Long ones are cut.
fn put_display(value: &dyn Display, into: &mut Vec<u8>) {
    struct Cut<'a>(&'a mut Vec<u8>, usize);
    impl Write for Cut<'_> {
        fn write_str(&mut self, text: &str) -> std::fmt::Result {
            let mut end = text.len().min(self.1);
            while !text.is_char_boundary(end) {
                end -= 1;
            }
            self.1 = if end < text.len() { 0 } else { self.1 - end };
            self.0.extend(&text.as_bytes()[..end]);
            Ok(())
        }
    }
    let at = into.len();
    into.extend([0; 2]);
    // What cannot be formatted stands there as far as it went.
    let _ = write!(Cut(into, u16::MAX.into()), "{value}");
    let len = (into.len() - at - 2) as u16;
    into[at..at + 2].copy_from_slice(&len.to_le_bytes());
}

/// The rows of one part of a process that are shown at present.
#[derive(Clone, Debug, Default)]
pub struct Roll(Arc<Mutex<Rows>>);

impl Roll {
    /// Shows `rows` in place of those before, which the caller gets to write into. Never waits: false, and nothing has
    /// happened, if somebody reads at this moment.
    pub fn show(&self, rows: &mut Rows) -> bool {
        let mut shown = match self.0.try_lock() {
            Ok(shown) => shown,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return false,
        };
        std::mem::swap(&mut *shown, rows);
        true
    }

    pub(crate) fn is(&self, other: &Roll) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    pub(crate) fn emit(&self, labels: &[(String, String)], max_bytes: usize, into: &mut Vec<u8>) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).emit(labels, max_bytes, into)
    }
}

/// Declares what rows of one kind tell: `named!("prefix", "kind" { name: Kind, "unit", "meaning"; ... })`. Full names
/// are made as by [`counters!`](crate::counters).
macro_rules! named {
    ($prefix:literal, $kind:literal { $($name:ident: $what:ident, $unit:literal, $meaning:literal;)+ }) => {
        $crate::NamedTable {
            kind: $kind,
            columns: &[$($crate::NamedColumn {
                name: stringify!($name),
                descriptor: $crate::Descriptor {
                    name: $crate::counters!(@name $what $prefix $name),
                    kind: $crate::Kind::$what,
                    unit: $unit,
                    meaning: $meaning,
                },
            },)+],
        }
    };
}
pub(crate) use named;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Registry;
    use crate::snapshot::{Head, Snapshot, emit};

    static PEER: NamedTable = named!("messaging_peer", "peer" {
        naks: Total, "numbers", "Numbers it has asked for.";
        waiting_bytes: Gauge, "bytes", "Bytes that wait for it.";
    });

    fn written(registry: &Registry, max_bytes: usize) -> Snapshot {
        let mut bytes = Vec::new();
        emit(&Head::default(), registry, max_bytes, &mut bytes);
        assert!(bytes.len() <= max_bytes);
        Snapshot::parse(&bytes).unwrap()
    }

    fn rows(count: u64) -> Rows {
        let mut rows = Rows { monotonic_ns: 77, ..Rows::default() };
        for n in 0..count {
            let numbers = [("naks", n), ("waiting_bytes", 2 * n)];
            rows.push(&PEER, &[("peer", &format_args!("10.0.0.{n}:5"))], &numbers[..1 + n as usize % 2]);
        }
        rows
    }

    #[test]
    fn rows_are_read_back_by_name_with_the_numbers_that_are_known() {
        let (registry, roll) = (Registry::default(), Roll::default());
        let lent = registry.lend_roll(&[("context", "1")], roll.clone());
        let mut written_rows = rows(3);
        written_rows.push(&PEER, &[], &[("nobody knows it", 1)]);
        assert!(roll.show(&mut written_rows));
        let read = written(&registry, 1 << 20);
        let [read] = &read.rolls[..] else { panic!("{read:?}") };
        let labels = [("context".to_owned(), "1".to_owned())];
        assert_eq!((&read.labels[..], read.monotonic_ns, read.left_out), (&labels[..], 77, 1));
        let names = |table: usize| read.tables[table].iter().map(|c| &*c.name).collect::<Vec<_>>();
        assert_eq!(names(0), ["messaging_peer_naks_total"]);
        assert_eq!(names(1), ["messaging_peer_naks_total", "messaging_peer_waiting_bytes"]);
        let values: Vec<_> = read.sets.iter().map(|set| (set.table, &set.values[..])).collect();
        assert_eq!(values, [(0, &[0][..]), (1, &[1, 2]), (0, &[2])]);
        let label = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        assert_eq!(read.sets[2].labels, [label("kind", "peer"), label("peer", "10.0.0.2:5")]);
        drop(lent);
        assert!(written(&registry, 1 << 20).rolls.is_empty());
    }

    #[test]
    fn rows_without_room_are_counted_and_the_sets_of_the_process_go_first() {
        let (registry, roll) = (Registry::default(), Roll::default());
        let _lent = registry.lend_roll(&[], roll.clone());
        assert!(roll.show(&mut rows(100)));
        let whole = {
            let mut bytes = Vec::new();
            emit(&Head::default(), &registry, 1 << 20, &mut bytes);
            bytes.len()
        };
        let mut seen = std::collections::BTreeSet::new();
        for max in (0..=whole).rev() {
            let mut bytes = Vec::new();
            emit(&Head::default(), &registry, max, &mut bytes);
            let read = Snapshot::parse(&bytes).unwrap();
            let snapshot_left_out = read.head.left_out;
            match &read.rolls[..] {
                [] => assert!(max < 300 && read.head.left_out == 1, "{max}"),
                [read] => {
                    assert!(bytes.len() <= max);
                    assert_eq!(read.sets.len() as u64 + read.left_out, 100);
                    assert_eq!(snapshot_left_out, 0);
                    seen.insert(read.sets.len());
                }
                _ => panic!("one was shown"),
            }
        }
        assert!(seen.iter().copied().eq(0..=100));
    }

    #[test]
    fn what_is_written_next_takes_the_memory_of_what_was_shown() {
        let roll = Roll::default();
        let mut writing = rows(50);
        assert!(roll.show(&mut writing));
        assert!(writing.is_empty());
        assert!(roll.show(&mut writing));
        assert_eq!(writing.len(), 50, "those that were shown come back");
        writing.clear();
        assert!(writing.is_empty() && writing.bytes.capacity() > 0);
        let reading = roll.0.lock().unwrap();
        assert!(!roll.show(&mut writing), "nobody waits for a reader");
        drop(reading);
    }

    #[test]
    fn a_text_beyond_the_limit_is_cut_between_characters() {
        let mut into = Vec::new();
        put_display(&"ä".repeat(40_000), &mut into);
        assert_eq!(into.len(), 2 + 65_534);
        assert_eq!(into[..2], 65_534u16.to_le_bytes());
        assert!(std::str::from_utf8(&into[2..]).is_ok());
    }
}

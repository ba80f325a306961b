//! All counters of a process at one time, as bytes that another process can read without knowing the sets.
//!
//! Layout, version 1, all integers little endian, a text being its length (u16) and that many bytes of UTF-8:
//!
//! - Head: version u32, process id u32, wall time u64 and monotonic time u64 of the snapshot (ns), start of
//!   the process u64 (wall, ns), interval u32 (ms), sets left out u32, program text.
//! - Tables: count u16; each: count u16 of counters, each: name text, kind u8 (0 total, 1 gauge), unit text,
//!   meaning text.
//! - Sets: count u32; each: table u16, label count u8, each: name text and value text; then one value u64 for
//!   each counter of the table.
//! - Rolls (absent in files of older writers): count u16; each: label count u8 and labels as of a set, monotonic time
//!   u64 of its rows (ns), rows left out u64, tables as above, sets as above, whose tables are those of the roll.
//!
//! A table stands for all sets of one kind, so that texts are there once.

use std::fmt;

use crate::{Descriptor, Kind, Registered, Registry};

const VERSION: u32 = 1;

/// Where a snapshot comes from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Head {
    /// Process.
    pub pid: u32,
    /// When it was taken, nanoseconds since 1970.
    pub wall_ns: u64,
    /// When it was taken on the monotonic clock of the host, for rates.
    pub monotonic_ns: u64,
    /// When the process began to publish, nanoseconds since 1970.
    pub started_ns: u64,
    /// How often it is taken, milliseconds.
    pub interval_ms: u32,
    /// Sets and rolls that had no room, or were refused by the registry.
    pub left_out: u32,
    /// What the process calls itself.
    pub program: String,
}

/// One counter's description, read back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    /// Full name.
    pub name: String,
    /// Grows only, or present value.
    pub kind: Kind,
    /// What is counted.
    pub unit: String,
    /// What makes it move.
    pub meaning: String,
}

/// One set, read back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// Which of [`Snapshot::tables`] describes it.
    pub table: usize,
    /// Label names and values.
    pub labels: Vec<(String, String)>,
    /// In the order of the table.
    pub values: Vec<u64>,
}

/// All of it, read back.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Snapshot {
    /// Where it comes from.
    pub head: Head,
    /// The kinds of sets.
    pub tables: Vec<Vec<Column>>,
    /// The sets.
    pub sets: Vec<Row>,
    /// What is told by name of sessions and the like.
    pub rolls: Vec<RollRead>,
}

/// A [`Roll`](crate::Roll), read back.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RollRead {
    /// What tells it from its like: label names and values.
    pub labels: Vec<(String, String)>,
    /// When its rows were written on the monotonic clock of the host, 0 if they never were.
    pub monotonic_ns: u64,
    /// Rows that had no room.
    pub left_out: u64,
    /// The kinds of rows.
    pub tables: Vec<Vec<Column>>,
    /// The rows; label `kind` says what each is.
    pub sets: Vec<Row>,
}

/// Writes the present values of all that is in `registry` into `into`, which is emptied first and grows to `max_bytes`
/// at most; sets and rolls that find no room are counted in the head, rows in their roll. Sets go before rows. The head is
/// written, and each kind of sets described, in any case.
pub fn emit(head: &Head, registry: &Registry, max_bytes: usize, into: &mut Vec<u8>) {
    // What says how many rolls there are.
    emit_sets(head, &registry.snapshot(), max_bytes.saturating_sub(2), into);
    let count_at = into.len();
    into.extend(0u16.to_le_bytes());
    let (rolls, mut count) = (registry.rolls(), 0u16);
    for (labels, roll) in rolls.iter().take(u16::MAX.into()) {
        if !roll.emit(labels, max_bytes, into) {
            break;
        }
        count += 1;
    }
    into[count_at..count_at + 2].copy_from_slice(&count.to_le_bytes());
    let unseen = (rolls.len() - usize::from(count)) as u32;
    let [a, b, c, d] = [0, 1, 2, 3].map(|i| into[LEFT_OUT_AT + i]);
    let left_out = u32::from_le_bytes([a, b, c, d]).saturating_add(unseen);
    into[LEFT_OUT_AT..LEFT_OUT_AT + 4].copy_from_slice(&left_out.to_le_bytes());
}

fn emit_sets(head: &Head, sets: &[Registered], max_bytes: usize, into: &mut Vec<u8>) {
    into.clear();
    let mut tables: Vec<&'static [Descriptor]> = Vec::new();
    let table_of: Vec<usize> = sets
        .iter()
        .map(|registered| {
            let table = registered.set.descriptors();
            tables.iter().position(|known| std::ptr::eq(*known, table)).unwrap_or_else(|| {
                tables.push(table);
                tables.len() - 1
            })
        })
        .collect();
    emit_head(head, into);
    into.extend((tables.len() as u16).to_le_bytes());
    for table in &tables {
        emit_table(table.iter(), into);
    }
    let count_at = into.len();
    into.extend(0u32.to_le_bytes());
    let (mut count, mut values) = (0u32, Vec::new());
    for (registered, &table) in sets.iter().zip(&table_of) {
        let start = into.len();
        emit_set(registered, table, &mut values, into);
        if into.len() > max_bytes {
            into.truncate(start);
            break;
        }
        count += 1;
    }
    into[count_at..count_at + 4].copy_from_slice(&count.to_le_bytes());
    let left_out = head.left_out.saturating_add(sets.len() as u32 - count);
    into[LEFT_OUT_AT..LEFT_OUT_AT + 4].copy_from_slice(&left_out.to_le_bytes());
}

const LEFT_OUT_AT: usize = 36;

fn emit_head(head: &Head, into: &mut Vec<u8>) {
    into.extend(VERSION.to_le_bytes());
    into.extend(head.pid.to_le_bytes());
    into.extend(head.wall_ns.to_le_bytes());
    into.extend(head.monotonic_ns.to_le_bytes());
    into.extend(head.started_ns.to_le_bytes());
    into.extend(head.interval_ms.to_le_bytes());
    debug_assert_eq!(into.len(), LEFT_OUT_AT);
    into.extend(head.left_out.to_le_bytes());
    put_text(&head.program, into);
}

pub(crate) fn emit_table<'a>(table: impl ExactSizeIterator<Item = &'a Descriptor>, into: &mut Vec<u8>) {
    into.extend((table.len() as u16).to_le_bytes());
    for descriptor in table {
        put_text(descriptor.name, into);
        into.push(u8::from(descriptor.kind == Kind::Gauge));
        put_text(descriptor.unit, into);
        put_text(descriptor.meaning, into);
    }
}

fn emit_set(registered: &Registered, table: usize, values: &mut Vec<u64>, into: &mut Vec<u8>) {
    into.extend((table as u16).to_le_bytes());
    emit_labels(&registered.labels, into);
    values.clear();
    registered.set.values(values);
    values.iter().for_each(|value| into.extend(value.to_le_bytes()));
}

/// As many as can be counted.
pub(crate) fn emit_labels(labels: &[(String, String)], into: &mut Vec<u8>) {
    let labels = &labels[..labels.len().min(u8::MAX.into())];
    into.push(labels.len() as u8);
    for (name, value) in labels {
        put_text(name, into);
        put_text(value, into);
    }
}

/// Long texts are cut.
pub(crate) fn put_text(text: &str, into: &mut Vec<u8>) {
    let mut end = text.len().min(u16::MAX.into());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    into.extend((end as u16).to_le_bytes());
    into.extend(&text.as_bytes()[..end]);
}

/// Why bytes are no snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SnapshotError {
    /// They end before what they announce.
    Truncated,
    /// A version that is not known here.
    Version(u32),
    /// A text is not UTF-8.
    Text,
    /// A set names a table that is not there.
    Table(usize),
}

impl fmt::Display for SnapshotError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SnapshotError::Truncated => f.write_str("the counters end before what they announce"),
            SnapshotError::Version(found) => {
                write!(f, "the counters are of version {found}, version {VERSION} is known here")
            }
            SnapshotError::Text => f.write_str("a text in the counters is not UTF-8"),
            SnapshotError::Table(index) => {
                write!(f, "a set of counters names table {index}, which is not there")
            }
        }
    }
}

impl std::error::Error for SnapshotError {}

impl Snapshot {
    /// Reads what [`emit`] has written.
    ///
    /// # Errors
    /// [`SnapshotError`] names the first fault.
    pub fn parse(bytes: &[u8]) -> Result<Snapshot, SnapshotError> {
        let mut from = Bytes(bytes);
        let version = from.u32()?;
        if version != VERSION {
            return Err(SnapshotError::Version(version));
        }
        let head = Head {
            pid: from.u32()?,
            wall_ns: from.u64()?,
            monotonic_ns: from.u64()?,
            started_ns: from.u64()?,
            interval_ms: from.u32()?,
            left_out: from.u32()?,
            program: from.text()?,
        };
        let tables = from.tables()?;
        let sets = from.sets(&tables)?;
        // Older writers know of no rolls.
        let rolls = if from.0.is_empty() { 0 } else { from.u16()? };
        let rolls = (0..rolls).map(|_| from.roll()).collect::<Result<_, _>>()?;
        Ok(Snapshot { head, tables, sets, rolls })
    }
}

/// What is left to read; control characters in texts are replaced. Nothing is allocated for more than the bytes that are there.
struct Bytes<'a>(&'a [u8]);

impl Bytes<'_> {
    fn take<const N: usize>(&mut self) -> Result<[u8; N], SnapshotError> {
        let (taken, rest) = self.0.split_first_chunk().ok_or(SnapshotError::Truncated)?;
        self.0 = rest;
        Ok(*taken)
    }

    fn u16(&mut self) -> Result<u16, SnapshotError> {
        self.take().map(u16::from_le_bytes)
    }

    fn u32(&mut self) -> Result<u32, SnapshotError> {
        self.take().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Result<u64, SnapshotError> {
        self.take().map(u64::from_le_bytes)
    }

    fn text(&mut self) -> Result<String, SnapshotError> {
        let length = self.u16()?.into();
        let (text, rest) = self.0.split_at_checked(length).ok_or(SnapshotError::Truncated)?;
        self.0 = rest;
        let text = std::str::from_utf8(text).map_err(|_| SnapshotError::Text)?;
        // Whoever shows it on a terminal gives that no commands which others have written.
        Ok(text.replace(char::is_control, "\u{FFFD}"))
    }

    fn tables(&mut self) -> Result<Vec<Vec<Column>>, SnapshotError> {
        (0..self.u16()?).map(|_| self.table()).collect()
    }

    fn sets(&mut self, tables: &[Vec<Column>]) -> Result<Vec<Row>, SnapshotError> {
        (0..self.u32()?).map(|_| self.set(tables)).collect()
    }

    fn labels(&mut self) -> Result<Vec<(String, String)>, SnapshotError> {
        let [count] = self.take()?;
        (0..count).map(|_| Ok((self.text()?, self.text()?))).collect()
    }

    fn roll(&mut self) -> Result<RollRead, SnapshotError> {
        let (labels, monotonic_ns, left_out) = (self.labels()?, self.u64()?, self.u64()?);
        let tables = self.tables()?;
        let sets = self.sets(&tables)?;
        Ok(RollRead { labels, monotonic_ns, left_out, tables, sets })
    }

    fn table(&mut self) -> Result<Vec<Column>, SnapshotError> {
        (0..self.u16()?)
            .map(|_| {
                let name = self.text()?;
                let [kind] = self.take()?;
                let kind = if kind == 0 { Kind::Total } else { Kind::Gauge };
                Ok(Column { name, kind, unit: self.text()?, meaning: self.text()? })
            })
            .collect()
    }

    fn set(&mut self, tables: &[Vec<Column>]) -> Result<Row, SnapshotError> {
        let table = self.u16()?.into();
        let columns = tables.get(table).ok_or(SnapshotError::Table(table))?;
        let labels = self.labels()?;
        let values = columns.iter().map(|_| self.u64()).collect::<Result<_, _>>()?;
        Ok(Row { table, labels, values })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::table::{LbtrmReceiver, LbtrmSource};
    use crate::{CounterSet, Registry};

    fn head() -> Head {
        Head {
            pid: 12,
            wall_ns: 1,
            monotonic_ns: 2,
            started_ns: 3,
            interval_ms: 4,
            left_out: 0,
            program: "tickcast p2ps".to_owned(),
        }
    }

    fn registry() -> Registry {
        let registry = Registry::default();
        for session in ["1", "2"] {
            let source = LbtrmSource::default();
            source.msgs_sent.add(41);
            source.txw_bytes.set(u64::MAX);
            registry.register(&[("session", session), ("role", "p2ps")], Arc::new(source));
        }
        registry.register(&[], Arc::new(LbtrmReceiver::default()));
        registry
    }

    #[test]
    fn counters_survive_their_bytes() {
        let mut bytes = Vec::new();
        emit(&head(), &registry(), 1 << 20, &mut bytes);
        let read = Snapshot::parse(&bytes).unwrap();
        assert_eq!(read.head, head());
        assert_eq!((read.tables.len(), read.sets.len()), (2, 3), "one table for both sources");
        let first = &read.tables[0][0];
        let described = &LbtrmSource::TABLE[0];
        assert_eq!((&*first.name, first.kind), (described.name, described.kind));
        assert_eq!((&*first.unit, &*first.meaning), (described.unit, described.meaning));
        let labels = [("session", "2"), ("role", "p2ps")].map(|(k, v)| (k.to_owned(), v.to_owned()));
        assert_eq!((read.sets[1].table, &read.sets[1].labels[..]), (0, &labels[..]));
        let of = |name: &str| {
            let column = read.tables[0].iter().position(|column| column.name == name).unwrap();
            read.sets[1].values[column]
        };
        assert_eq!(of("lbtrm_source_msgs_sent_total"), 41);
        assert_eq!(of("lbtrm_source_txw_bytes"), u64::MAX);
        let mut values = Vec::new();
        LbtrmReceiver::default().values(&mut values);
        assert_eq!(read.sets[2].values, values);
    }

    #[test]
    fn texts_have_no_control_characters_when_they_are_read() {
        let (registry, mut bytes) = (Registry::default(), Vec::new());
        let hostile = "a\u{1b}[2J\r\n\u{9b}31m\0\u{7f}ä";
        registry.register(&[(hostile, hostile)], Arc::new(LbtrmSource::default()));
        let head = Head { program: hostile.to_owned(), ..head() };
        emit(&head, &registry, 1 << 20, &mut bytes);
        let read = Snapshot::parse(&bytes).unwrap();
        let shown = "a\u{fffd}[2J\u{fffd}\u{fffd}\u{fffd}31m\u{fffd}\u{fffd}ä".to_owned();
        assert_eq!((&read.head.program, &read.sets[0].labels[0]), (&shown, &(shown.clone(), shown.clone())));
    }

    #[test]
    fn sets_without_room_are_left_out_and_counted() {
        let (mut all, mut some) = (Vec::new(), Vec::new());
        emit(&head(), &registry(), 1 << 20, &mut all);
        emit(&Head { left_out: 5, ..head() }, &registry(), all.len() - 1, &mut some);
        let read = Snapshot::parse(&some).unwrap();
        assert_eq!((read.sets.len(), read.head.left_out), (2, 6));
    }

    #[test]
    fn bytes_that_are_no_snapshot_are_an_error() {
        let mut bytes = Vec::new();
        emit(&head(), &registry(), 1 << 20, &mut bytes);
        let before_rolls = bytes.len() - 2;
        assert_eq!(Snapshot::parse(&bytes[..before_rolls]), Snapshot::parse(&bytes), "as older writers end");
        for length in (0..bytes.len()).filter(|length| *length != before_rolls) {
            assert_eq!(Snapshot::parse(&bytes[..length]), Err(SnapshotError::Truncated), "{length}");
        }
        assert_eq!(Snapshot::parse(&[9; 40]), Err(SnapshotError::Version(0x0909_0909)));
        for at in 4..bytes.len() {
            let mut changed = bytes.clone();
            changed[at] ^= 0xff;
            let _ = Snapshot::parse(&changed);
        }
    }
}

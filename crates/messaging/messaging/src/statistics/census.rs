//! What a context tells by name, for `tickcast counters --sessions`: a few rows in each turn while a round lasts, and a
//! round at each interval of the file.
//!
//! The path of a message knows nothing of it. A round shows all of its rows at once, so that whoever reads never sees
//! names and values of different ones; those of sessions that are over are gone with the next round, and leave their
//! place to others (`tests/statistics.rs`).

use std::fmt::Display;
use std::time::Duration;

use counters::table::sessions;
use counters::{NamedTable, Roll, Rows};
use units::Nanos;

use super::{Statistic, StatisticsPosition};
use crate::MessagingConfig;
use crate::context_counters::ContextCounters;
use crate::published::Lent;

/// The rows of a context in the file of its process.
pub(crate) struct Census {
    /// When to go on; never if nobody shows them.
    due: Nanos,
    interval: Duration,
    rows_max: usize,
    /// Where the round is, while one lasts.
    at: Option<StatisticsPosition>,
    rows: Rows,
    /// All of this round are written, but nobody could be shown them yet.
    is_written: bool,
    numbers: Vec<(&'static str, u64)>,
    roll: Roll,
    _shown: Option<Lent>,
}

/// Rows written in one turn.
const ROWS_PER_TURN: usize = 32;
/// When to show the rows that a reader of those before was in the way of.
const READ_WAIT: Duration = Duration::from_millis(1);

impl Default for Census {
    /// One that nobody is shown.
    fn default() -> Census {
        Census {
            due: Nanos::NEVER,
            interval: Duration::ZERO,
            rows_max: 0,
            at: None,
            rows: Rows::default(),
            is_written: false,
            numbers: Vec::new(),
            roll: Roll::default(),
            _shown: None,
        }
    }
}

impl Census {
    pub(crate) fn new(config: &MessagingConfig, counters: &ContextCounters, now: Nanos) -> Census {
        let (roll, rows_max) = (Roll::default(), config.counters_sessions_maximum as usize);
        let interval = Duration::from_millis(config.counters_interval_ms.into());
        let shown = if rows_max > 0 { counters.lend_roll(roll.clone()) } else { None };
        let due = if shown.is_some() { now + interval } else { Nanos::NEVER };
        Census { due, interval, rows_max, roll, _shown: shown, ..Census::default() }
    }

    pub(crate) fn next_wakeup(&self) -> Nanos {
        self.due
    }

    /// Shows the round, if all of it is written.
    fn show(&mut self, now: Nanos) {
        self.is_written = !self.roll.show(&mut self.rows);
        self.due = now + if self.is_written { READ_WAIT } else { self.interval };
    }
}

/// One row: names and handles as labels, the other numbers as counters.
impl Census {
    /// Goes on with the rows of a round, as far as one turn goes. `page` tells of so many from a position on and
    /// returns where to go on, `count` how many there are.
    pub(crate) fn take(
        &mut self,
        now: Nanos,
        page: impl FnOnce(StatisticsPosition, usize, &mut dyn FnMut(Statistic<'_>)) -> Option<StatisticsPosition>,
        count: impl FnOnce() -> usize,
    ) {
        if self.is_written {
            return self.show(now);
        }
        let from = self.at.unwrap_or_else(|| {
            self.rows.clear();
            StatisticsPosition::default()
        });
        let (rows, numbers) = (&mut self.rows, &mut self.numbers);
        let most = ROWS_PER_TURN.min(self.rows_max - rows.len());
        let rest = page(from, most, &mut |one| write(rows, numbers, &one));
        self.at = rest.filter(|_| self.rows.len() < self.rows_max);
        if self.at.is_none() {
            if rest.is_some() {
                self.rows.left_out = count().saturating_sub(self.rows.len()) as u64;
            }
            self.rows.monotonic_ns = now.0;
        }
        match self.at {
            Some(_) => self.due = now,
            None => self.show(now),
        }
    }
}

fn write(rows: &mut Rows, numbers: &mut Vec<(&'static str, u64)>, one: &Statistic<'_>) {
    let (transport, peer) = (one.transport(), one.peer());
    let mut handles = Handles::default();
    numbers.clear();
    one.numbers(|name, value| match name {
        "id" => handles.add("source", value),
        "session" | "stream" => handles.add(name, value),
        _ => numbers.push((name, value)),
    });
    let mut labels: [(&str, &dyn Display); 5] = [("", &""); 5];
    let mut count = 0;
    let mut add = |name, value| {
        labels[count] = (name, value);
        count += 1;
    };
    let topic = one.topic();
    if let Some(topic) = &topic {
        add("topic", topic as &dyn Display);
    }
    add("transport", &transport);
    if let Some(peer) = &peer {
        add("peer", peer);
    }
    handles.0.iter().flatten().for_each(|(name, value)| add(name, value));
    rows.push(table(one), &labels[..count], numbers);
}

/// What tells things apart that have one name.
#[derive(Default)]
struct Handles([Option<(&'static str, u64)>; 2]);

impl Handles {
    fn add(&mut self, name: &'static str, value: u64) {
        if let Some(free) = self.0.iter_mut().find(|one| one.is_none()) {
            *free = Some((name, value));
        }
    }
}

fn table(one: &Statistic<'_>) -> &'static NamedTable {
    match one {
        Statistic::Session { .. } => &sessions::SESSION,
        Statistic::Peer { .. } => &sessions::PEER,
        Statistic::Incoming { .. } => &sessions::INCOMING,
        Statistic::Stream { .. } => &sessions::STREAM,
        Statistic::Source { .. } => &sessions::SOURCE,
    }
}

use super::hold::Hold;
use crate::config::{ConfigError, FailoverConfig};
use crate::delivery::Delivered;
use counters::Counter;
use counters::table::HotFailover as Counters;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use units::Nanos;

/// Where the merged stream goes: called while a message is being processed.
pub trait FailoverSink {
    /// The first copy of a number, as it came; numbers ascend.
    fn deliver(&mut self, number: u64, message: Delivered<'_>);
    /// Numbers that will not come, in the place where they are missing: no source has passed over them whose
    /// stream lacks nothing there. Some of them may never have been sent.
    fn lost(&mut self, first: u64, count: u64);
}

/// One topic's stream made of the streams of several sources.
///
/// The driver calls: [`HotFailover::add_source`] when a source's stream begins and
/// [`HotFailover::remove_source`] when it ends, [`HotFailover::on_message`] and [`HotFailover::on_lost`] for
/// what its transport delivers in topic order, [`HotFailover::on_wakeup`] at [`HotFailover::next_wakeup`].
pub struct HotFailover {
    sources: Vec<Option<Source>>,
    /// The number that comes next; none before the first message.
    next: Option<u64>,
    hold: Hold,
    /// When the first gap is waited for no longer.
    gap_until: Nanos,
    gap_interval: Duration,
    count_max: usize,
    bytes_max: usize,
    counters: Arc<Counters>,
    /// What the gauges have of this stream.
    shown: Shown,
}

/// One stream's part of the gauges, which it shares with the other streams of a context.
#[derive(Clone, Copy, Default)]
struct Shown {
    sources: u64,
    held: u64,
    bytes: u64,
}

#[derive(Clone, Copy)]
struct Source {
    /// The highest number heard of it.
    last: Option<u64>,
    /// Its stream lost something since.
    is_torn: bool,
    /// It was waited for in vain since.
    is_late: bool,
}

/// A source of the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SourceId(u8);

/// Why a source was not taken.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailoverError {
    /// The bound on sources is reached.
    TooMany {
        /// The bound.
        max: usize,
    },
}

impl fmt::Display for FailoverError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            FailoverError::TooMany { max } => write!(f, "{max} sources are heard, which is the limit"),
        }
    }
}

impl std::error::Error for FailoverError {}

/// The widest gap in the numbering; a number farther from the next is not believed.
const GAP_MAX: u64 = 1 << 30;

impl HotFailover {
    /// A stream without sources.
    ///
    /// # Errors
    /// The first option out of range.
    pub fn new(config: &FailoverConfig, counters: Arc<Counters>) -> Result<HotFailover, ConfigError> {
        config.check()?;
        Ok(HotFailover {
            sources: vec![None; config.hot_failover_maximum_sources as usize],
            next: None,
            hold: Hold::default(),
            gap_until: Nanos::NEVER,
            gap_interval: config.hot_failover_gap_interval,
            count_max: config.hot_failover_hold_maximum_count as usize,
            bytes_max: config.hot_failover_hold_maximum_bytes as usize,
            counters,
            shown: Shown::default(),
        })
    }

    /// A further source is heard from now on.
    ///
    /// # Errors
    /// There are as many as are allowed.
    pub fn add_source(&mut self) -> Result<SourceId, FailoverError> {
        let Some(free) = self.sources.iter().position(Option::is_none) else {
            self.counters.sources_refused.inc();
            return Err(FailoverError::TooMany { max: self.sources.len() });
        };
        self.sources[free] = Some(Source { last: None, is_torn: false, is_late: false });
        self.count();
        Ok(SourceId(free as u8))
    }

    /// A source is no longer heard: nothing is waited for on its account.
    pub fn remove_source<S: FailoverSink>(&mut self, now: Nanos, source: SourceId, sink: &mut S) {
        self.sources[usize::from(source.0)] = None;
        self.drain(now, sink);
        self.count();
    }

    /// Takes a message of a source. One without a number is left out, and counted.
    pub fn on_message<S: FailoverSink>(
        &mut self,
        now: Nanos,
        source: SourceId,
        message: &Delivered<'_>,
        sink: &mut S,
    ) {
        self.counters.msgs_rcved.inc();
        let Some(number) = message.headers.failover_number() else {
            return self.counters.msgs_without_number.inc();
        };
        let next = self.next.unwrap_or(number);
        if number >= u64::MAX - GAP_MAX || number.abs_diff(next) > GAP_MAX {
            return self.counters.msgs_refused.inc();
        }
        if number == next && self.hold.len() == 0 {
            self.pass(source, number);
            self.counters.msgs_delivered.inc();
            self.next = Some(number + 1);
            return sink.deliver(number, *message);
        }
        self.next = Some(next);
        if number < next || self.hold.contains(number) {
            self.counters.duplicates.inc();
        } else {
            if self.hold.len() == 0 {
                self.gap_until = now + self.gap_interval;
            }
            self.hold.insert(number, message);
            self.counters.msgs_held.inc();
        }
        self.pass(source, number);
        self.drain(now, sink);
        while self.hold.len() > self.count_max || self.hold.bytes() > self.bytes_max {
            self.counters.gaps_bound.inc();
            self.settle(sink);
            self.drain(now, sink);
        }
        self.count();
    }

    /// The stream of a source lost something after its last message.
    pub fn on_lost(&mut self, source: SourceId) {
        if let Some(source) = &mut self.sources[usize::from(source.0)] {
            source.is_torn = true;
        }
    }

    /// Forgets where the numbering is: the next message begins it anew. For applications whose sources begin
    /// again at lower numbers, once all of them are gone.
    pub fn restart<S: FailoverSink>(&mut self, sink: &mut S) {
        while self.hold.len() > 0 {
            self.settle(sink);
            self.drain(Nanos::ZERO, sink);
        }
        self.next = None;
        self.sources.iter_mut().flatten().for_each(|s| s.last = None);
        self.count();
    }

    /// Does what is due: gives up a gap that was waited for long enough.
    pub fn on_wakeup<S: FailoverSink>(&mut self, now: Nanos, sink: &mut S) {
        while now >= self.next_wakeup() {
            self.counters.gaps_timed_out.inc();
            let first = self.hold.first().map_or(0, |(number, _)| number);
            let late = |s: &&mut Source| s.last.is_some_and(|last| last < first);
            self.sources.iter_mut().flatten().filter(late).for_each(|s| s.is_late = true);
            self.settle(sink);
            self.drain(now, sink);
        }
        self.count();
    }

    /// Whether a source is heard now.
    #[must_use]
    pub fn has_sources(&self) -> bool {
        self.sources.iter().any(Option::is_some)
    }

    /// When [`HotFailover::on_wakeup`] is to be called at the latest.
    #[must_use]
    pub fn next_wakeup(&self) -> Nanos {
        if self.hold.len() == 0 { Nanos::NEVER } else { self.gap_until }
    }

    // ---- private steps

    /// A source has come to `number`: all before it, from its last one on, it has passed over.
    fn pass(&mut self, id: SourceId, number: u64) {
        let Some(source) = &mut self.sources[usize::from(id.0)] else { return };
        let before = *source;
        if before.last.is_some_and(|last| number <= last) {
            return;
        }
        *source = Source { last: Some(number), is_torn: false, is_late: false };
        // of a source that has just begun nobody knows what it had before
        if let Some(last) = before.last.filter(|_| !before.is_torn) {
            self.hold.range_mut(last + 1, number).for_each(|held| held.is_clean = true);
        }
    }

    /// Delivers what has its turn, and settles gaps that every source has passed over.
    fn drain<S: FailoverSink>(&mut self, now: Nanos, sink: &mut S) {
        while let (Some(next), Some((first, _))) = (self.next, self.hold.first()) {
            if first > next {
                let may_come = |s: &Source| !s.is_late && s.last.is_some_and(|last| last < first);
                if self.sources.iter().flatten().any(may_come) {
                    return;
                }
                self.settle(sink);
            }
            let Some((number, held)) = self.hold.pop() else { return };
            self.counters.msgs_delivered.inc();
            self.next = Some(number + 1);
            sink.deliver(number, held.message());
            self.hold.recycle(held);
            // what is behind the next gap is waited for from now on
            self.gap_until = now + self.gap_interval;
        }
    }

    /// Decides on the gap before the first message held: the numbers in it were not sent, or are lost.
    fn settle<S: FailoverSink>(&mut self, sink: &mut S) {
        let (Some(next), Some((first, held))) = (self.next, self.hold.first()) else { return };
        let count = first - next;
        if held.is_clean {
            self.counters.numbers_not_sent.add(count);
        } else {
            self.counters.lost_events.inc();
            self.counters.numbers_lost.add(count);
            sink.lost(next, count);
        }
        self.next = Some(first);
    }

    /// Shows what there is now.
    fn count(&mut self) {
        let sources = self.sources.iter().flatten().count() as u64;
        self.show(Shown { sources, held: self.hold.len() as u64, bytes: self.hold.bytes() as u64 });
    }

    fn show(&mut self, now: Shown) {
        let before = std::mem::replace(&mut self.shown, now);
        let counters = &self.counters;
        let moved = |gauge: &Counter, from: u64, to: u64| gauge.set((gauge.get() + to).saturating_sub(from));
        moved(&counters.sources, before.sources, now.sources);
        moved(&counters.held_now, before.held, now.held);
        moved(&counters.hold_bytes, before.bytes, now.bytes);
        counters.hold_bytes_max.raise(counters.hold_bytes.get());
    }
}

/// What a stream showed is there no more.
impl Drop for HotFailover {
    fn drop(&mut self) {
        self.show(Shown::default());
    }
}

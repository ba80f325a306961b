//! The consumer of test data: connections with a thread each, one report.

mod args;
mod connection;
mod counts;
mod report;
mod session;

pub use args::{Decode, TestClientArgs};
pub use counts::{ClientCounts, IntervalCounts, Phase};

use std::collections::BTreeMap;
use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use net::clock;
use units::Nanos;

use self::connection::{Connection, Ended, Shared, Told};
use self::report::ClientReport;
use crate::TestToolError;
use crate::command::duration;
use crate::dictionary;
use crate::item_list::{ListedItem, read_items};
use crate::messages::MessageSet;
use crate::ticks::StampRate;

impl TestClientArgs {
    /// Holds values against each other.
    ///
    /// # Errors
    /// [`TestToolError::Usage`] names the options.
    pub fn check(&self) -> Result<(), TestToolError> {
        let usage = |text: String| Err(TestToolError::Usage(text));
        for (option, stamps, rate_option, rate) in [
            ("--post-latency-rate", self.post_latency_rate, "--tick-rate", self.tick_rate),
            ("--generic-latency-rate", self.generic_latency_rate, "--tick-rate", self.tick_rate),
        ] {
            if let StampRate::PerSecond(stamps) = stamps
                && stamps > rate
                && stamps > 10
            {
                return usage(format!("{option} {stamps} is above {rate_option} {rate}"));
            }
        }
        if self.snapshots == 100 && (self.updates.is_some() || self.post_rate > 0 || self.generic_rate > 0) {
            return usage(
                "--snapshots 100 leaves no stream for updates, posts and generic messages".to_owned(),
            );
        }
        Ok(())
    }

    /// The items of each connection: the common ones, and a part of the rest.
    fn shares(&self, items: Vec<ListedItem>) -> Result<Vec<Vec<ListedItem>>, TestToolError> {
        let connections = self.connections as usize;
        if self.common_items > items.len() {
            let text = format!("--common-items {}: there are {} items", self.common_items, items.len());
            return Err(TestToolError::Usage(text));
        }
        let (common, rest) = items.split_at(self.common_items);
        let shares = (0..connections).map(|index| {
            let bounds = |index: usize| rest.len() * index / connections;
            let own = &rest[bounds(index)..bounds(index + 1)];
            common.iter().chain(own).cloned().collect::<Vec<_>>()
        });
        let shares: Vec<_> = shares.collect();
        match shares.iter().position(Vec::is_empty) {
            Some(_) => Err(TestToolError::Usage(format!(
                "{} items are fewer than --connections {connections}",
                items.len()
            ))),
            None => Ok(shares),
        }
    }
}

/// What a run came to.
#[derive(Clone, Debug)]
pub struct ClientOutcome {
    /// Of all connections together.
    pub counts: ClientCounts,
    /// Of each.
    pub connections: Vec<ClientCounts>,
    /// Why it has failed; empty: it has not.
    pub failures: Vec<String>,
}

/// Runs a consumer until its end, or `stop`. Reports go to `out`.
///
/// # Errors
/// [`TestToolError`]; a run that has failed is [`TestToolError::Failed`], behind its summary.
pub fn run(
    args: &TestClientArgs,
    stop: &AtomicBool,
    out: &mut dyn Write,
) -> Result<ClientOutcome, TestToolError> {
    args.check()?;
    net::descriptors::raise_limit()?;
    let items = match (&args.item_file, args.items) {
        (Some(file), count) => read_items(file, count)?,
        (None, Some(count)) => args.names.items(0, count),
        (None, None) => return Err(TestToolError::Usage("--items or --item-file must be given".to_owned())),
    };
    let set = Arc::new(MessageSet::read(args.msg_file.as_deref())?);
    for (option, rate, messages) in
        [("--post-rate", args.post_rate, &set.posts), ("--generic-rate", args.generic_rate, &set.generics)]
    {
        if rate > 0 && messages.is_empty() {
            return Err(TestToolError::Usage(format!("{option}: the message file has no such message")));
        }
    }
    let directory = args.dictionary_dir.as_deref();
    let dictionary = directory.map(|directory| dictionary::load(Some(directory))).transpose()?;
    let (shared, args) = (Arc::new(Shared::default()), Arc::new(args.clone()));
    let (told, heard) = channel();
    let mut connections = Vec::new();
    for (index, share) in args.shares(items)?.into_iter().enumerate() {
        let ends = (&shared, told.clone());
        connections.push(Connection::new(index, &args, share, &set, dictionary.as_ref(), ends)?);
    }
    drop(told);
    let start = clock::monotonic();
    let mut report = ClientReport::new(&args, start);
    report.begin(out)?;
    let threads = connections.into_iter().enumerate().map(|(index, connection)| {
        let name = format!("connection-{}", index + 1);
        std::thread::Builder::new().name(name).spawn(move || connection.run(start))
    });
    let threads = threads.collect::<Result<Vec<_>, _>>();
    let watched = match &threads {
        Ok(threads) => Run::new(&args, &shared, threads.len()).watch(stop, &heard, &mut report, out),
        Err(_) => Ok(None),
    };
    shared.stop.store(true, Ordering::Release);
    let ended = threads?.into_iter().map(|thread| {
        let lost =
            |_| Ended { counts: ClientCounts::default(), failure: Some("the thread panicked".to_owned()) };
        thread.join().unwrap_or_else(lost)
    });
    let ended: Vec<Ended> = ended.collect();
    let missed = watched?;
    let outcome = outcome(ended, missed);
    report.end(clock::monotonic(), &outcome, out)?;
    if outcome.failures.is_empty() {
        Ok(outcome)
    } else {
        Err(TestToolError::Failed(format!("the run has failed: {}", outcome.failures.join("; "))))
    }
}

fn outcome(ended: Vec<Ended>, missed: Option<String>) -> ClientOutcome {
    let mut counts = ClientCounts::default();
    ended.iter().for_each(|ended| counts.merge(&ended.counts));
    if ended.iter().any(|ended| ended.counts.complete_at.is_none()) {
        counts.complete_at = None;
    }
    let mut failures: Vec<String> = Vec::new();
    for (index, ended) in ended.iter().enumerate() {
        failures.extend(ended.failure.as_ref().map(|why| format!("connection {}: {why}", index + 1)));
    }
    if counts.unreadable > 0 {
        failures.push(format!("{} fields could not be decoded", counts.unreadable));
    }
    if counts.unknown > 0 {
        failures.push(format!("{} fields are not in the dictionary", counts.unknown));
    }
    failures.extend(missed);
    ClientOutcome { counts, connections: ended.into_iter().map(|ended| ended.counts).collect(), failures }
}

/// Watches over the connections, and decides when the run is over.
struct Run<'a> {
    args: &'a TestClientArgs,
    shared: &'a Shared,
    connections: usize,
    steady: usize,
    ended: usize,
    /// The end of steady state.
    end: Nanos,
    /// Counts of intervals of which not all connections have told.
    intervals: BTreeMap<u64, (usize, IntervalCounts)>,
}

impl<'a> Run<'a> {
    fn new(args: &'a TestClientArgs, shared: &'a Shared, connections: usize) -> Run<'a> {
        let (end, intervals) = (Nanos::NEVER, BTreeMap::new());
        Run { args, shared, connections, steady: 0, ended: 0, end, intervals }
    }

    /// Until the end; returns what did not come in time.
    fn watch(
        &mut self,
        stop: &AtomicBool,
        heard: &Receiver<Told>,
        report: &mut ClientReport,
        out: &mut dyn Write,
    ) -> Result<Option<String>, TestToolError> {
        loop {
            // A connection that has ended before all have has failed.
            if stop.load(Ordering::Acquire) || self.ended > 0 {
                return Ok(None);
            }
            if self.steady == self.connections {
                if self.args.snapshots == 100 || self.has_goals() && self.goals_reached() {
                    return Ok(None);
                }
                if clock::monotonic() >= self.end {
                    return Ok(self.has_goals().then(|| self.missed()));
                }
            }
            // Who told last is gone when nobody is left.
            if let Ok(told) = heard.recv_timeout(Duration::from_millis(5)) {
                self.on_told(told, report, out)?;
            }
        }
    }

    fn on_told(
        &mut self,
        told: Told,
        report: &mut ClientReport,
        out: &mut dyn Write,
    ) -> Result<(), TestToolError> {
        match told {
            Told::Ended => self.ended += 1,
            Told::Steady => {
                self.steady += 1;
                if self.steady == self.connections {
                    self.end = clock::monotonic().after(duration(self.args.steady_state_time));
                    report.images(out)?;
                }
            }
            Told::Interval(number, counts) => {
                let (told, sum) = self.intervals.entry(number).or_default();
                *told += 1;
                sum.merge(&counts);
                if *told == self.connections {
                    report.interval(number, sum, out)?;
                    // Those before it will not be whole any more.
                    self.intervals = self.intervals.split_off(&(number + 1));
                }
            }
        }
        Ok(())
    }

    fn has_goals(&self) -> bool {
        let TestClientArgs { updates, posts, generics, .. } = self.args;
        updates.is_some() || posts.is_some() || generics.is_some()
    }

    fn goals_reached(&self) -> bool {
        let all = |count: u64| count >= self.connections as u64;
        self.args.updates.is_none_or(|wanted| self.shared.updates.load(Ordering::Acquire) >= wanted)
            && (self.args.posts.is_none() || all(self.shared.posts_done.load(Ordering::Acquire)))
            && (self.args.generics.is_none() || all(self.shared.generics_done.load(Ordering::Acquire)))
    }

    fn missed(&self) -> String {
        let updates = self.shared.updates.load(Ordering::Acquire);
        let mut wanted = Vec::new();
        if let Some(count) = self.args.updates {
            wanted.push(format!("{updates} of {count} updates (--updates)"));
        }
        for (count, done, what) in [
            (self.args.posts, &self.shared.posts_done, "--posts"),
            (self.args.generics, &self.shared.generics_done, "--generics"),
        ] {
            if count.is_some() {
                let done = done.load(Ordering::Acquire);
                wanted.push(format!("{what} on {done} of {} connections", self.connections));
            }
        }
        let seconds = self.args.steady_state_time;
        format!(
            "what was wanted did not come within {seconds} s (--steady-state-time): {}",
            wanted.join(", ")
        )
    }
}

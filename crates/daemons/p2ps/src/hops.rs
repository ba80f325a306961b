//! What hop stamps of updates tell: how long each hop took, as histograms, and the way of single items.
//!
//! An update has come when the turn began that took it from its socket. It is written when the turn has written what was
//! staged for clients to their sockets: what a socket does not take is that client's backlog, and is not in these times.

use std::sync::Arc;

use counters::table::PointToPoint as Counters;
use daemon::{Hop, HopLatencies};
use market::backbone::HopTimes;
use market::p2ps::StampedUpdate;
use net::clock::{self, WallClock};
use serde_json::Value;
use units::Nanos;

use crate::trace::{Record, Traces};

/// Follows updates with hop stamps through a server.
pub(crate) struct Hops {
    clock: WallClock,
    /// When what is handled now has come, by the wall clock.
    came: u64,
    /// It has waited in this server, and has come at that time or somewhat later.
    has_waited: bool,
    latencies: HopLatencies,
    counters: Arc<Counters>,
    /// The update that is handled now, and how much was staged for clients before it.
    current: Option<(HopTimes, usize)>,
    /// What is staged, and not written to sockets yet.
    unwritten: Vec<Unwritten>,
    traces: Traces,
}

/// Updates that came to the source distributor together, and to this server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Unwritten {
    first: u64,
    came: u64,
    count: u64,
}

/// More of them count as written at once: so many turns of a source distributor are seldom taken in one.
const UNWRITTEN_MAX: usize = 4_096;
/// Stamps that are further away from this host's clock are no measurement.
const ABSURD_NS: u64 = 3_600_000_000_000;

impl Hops {
    pub(crate) fn new(latencies: HopLatencies, counters: Arc<Counters>) -> Hops {
        Hops {
            clock: WallClock::new(),
            came: 0,
            has_waited: false,
            latencies,
            counters,
            current: None,
            unwritten: Vec::new(),
            traces: Traces::default(),
        }
    }

    /// A turn has begun, or a part of it.
    #[inline]
    pub(crate) fn begin_turn(&mut self, now: Nanos) {
        self.clock.renew(now);
        (self.came, self.has_waited) = (self.clock.at(now), false);
    }

    /// What is handled from now on has waited since that time, or a little less.
    #[inline]
    pub(crate) fn has_waited_since(&mut self, moment: Nanos) {
        (self.came, self.has_waited) = (self.clock.at(moment), true);
    }

    /// An update with stamps is handled from here to [`Hops::end`].
    #[inline(never)]
    pub(crate) fn begin(&mut self, update: &StampedUpdate<'_>, staged_bytes: usize) {
        let HopTimes { distributor, relay } = update.hops;
        let sent = relay.map_or(distributor.left, |relay| relay.left);
        if sent > self.came {
            // It was sent when this turn had begun, or what it has waited behind.
            let now = self.clock.at(clock::monotonic());
            self.came = if self.has_waited { sent.min(now) } else { now };
        }
        let times = [Some(distributor), relay].into_iter().flatten();
        if times.flat_map(|hop| [hop.came, hop.left]).any(|time| time.abs_diff(self.came) > ABSURD_NS) {
            self.counters.hop_stamps_refused.inc();
            return;
        }
        self.observe(Hop::SourceDistributor, distributor.came, distributor.left);
        if let Some(relay) = relay {
            self.observe(Hop::Backbone, distributor.left, relay.came);
            self.observe(Hop::Relay, relay.came, relay.left);
            self.observe(Hop::ToShard, relay.left, self.came);
        } else {
            self.observe(Hop::Backbone, distributor.left, self.came);
        }
        self.current = Some((update.hops, staged_bytes));
        if !self.traces.is_empty() {
            self.traces.begin(update, self.came);
        }
    }

    fn observe(&self, hop: Hop, from: u64, to: u64) {
        self.latencies.observe(hop, self.since(from, to), 1);
    }

    /// Clocks of several hosts may differ by more than a hop takes.
    fn since(&self, from: u64, to: u64) -> u64 {
        if to < from {
            self.counters.hop_clocks_behind.inc();
        }
        to.saturating_sub(from)
    }

    /// The update is handled.
    pub(crate) fn end(&mut self, staged_bytes: usize) {
        let Some((hops, before)) = self.current.take() else { return };
        let is_sent = staged_bytes != before;
        self.traces.end(is_sent);
        if !is_sent {
            return;
        }
        let (first, came) = (hops.distributor.came, self.came);
        match self.unwritten.last_mut() {
            Some(last) if (last.first, last.came) == (first, came) => last.count += 1,
            _ => {
                if self.unwritten.len() >= UNWRITTEN_MAX {
                    self.written();
                }
                self.unwritten.push(Unwritten { first, came, count: 1 });
            }
        }
    }

    /// What was staged has been written to sockets.
    #[inline]
    pub(crate) fn flushed(&mut self) {
        if !self.unwritten.is_empty() {
            self.written();
        }
    }

    fn written(&mut self) {
        let written = self.clock.at(clock::monotonic());
        for Unwritten { first, came, count } in &self.unwritten {
            self.latencies.observe(Hop::P2ps, self.since(*came, written), *count);
            self.latencies.observe(Hop::Total, written.saturating_sub(*first), *count);
        }
        self.unwritten.clear();
        self.traces.written(written);
    }

    /// For a status page.
    pub(crate) fn to_json(&self) -> Value {
        self.latencies.to_json()
    }

    pub(crate) fn traces(&mut self) -> &mut Traces {
        &mut self.traces
    }
}

/// A record of the way of an update so far.
pub(crate) fn record(update: &StampedUpdate<'_>, came: u64) -> Record {
    let StampedUpdate { sequence, hops, key } = *update;
    Record { number: 0, service: key.service, sequence, hops, came, is_sent: false, written: None }
}

#[cfg(test)]
mod tests {
    use counters::Registry;
    use market::ItemKey;
    use market::backbone::Passage;
    use rwf::Domain;

    use super::*;

    fn hops() -> (Hops, Arc<Counters>) {
        let counters = Arc::<Counters>::default();
        let latencies = HopLatencies::registered(&Registry::default(), "p2ps", &[]);
        (Hops::new(latencies, Arc::clone(&counters)), counters)
    }

    fn update(hops: HopTimes) -> StampedUpdate<'static> {
        StampedUpdate { key: ItemKey::named(1, Domain::MARKET_PRICE, b"IBM"), sequence: 9, hops }
    }

    /// Counts by hop.
    fn counted(hops: &Hops) -> Vec<(String, u64)> {
        let of = |hop: &Value| {
            let buckets = hop["buckets"].as_array().into_iter().flatten();
            (hop["hop"].as_str().unwrap_or_default().to_owned(), buckets.filter_map(Value::as_u64).sum())
        };
        hops.to_json().as_array().into_iter().flatten().map(of).collect()
    }

    fn passage(came: u64, left: u64) -> Passage {
        Passage { came, left }
    }

    #[test]
    fn each_hop_is_counted_and_what_was_sent_when_it_is_written() {
        let (mut hops, counters) = hops();
        hops.begin_turn(clock::monotonic());
        let now = hops.came;
        let times = HopTimes { distributor: passage(now - 9_000, now - 5_000), relay: None };
        for staged in [7, 7, 0] {
            hops.begin(&update(times), 0);
            hops.end(staged);
        }
        let of = |name: &str, count: u64| (name.to_owned(), count);
        assert_eq!(counted(&hops), [of("source_distributor", 3), of("backbone", 3)]);
        assert_eq!(
            hops.unwritten,
            [Unwritten { first: now - 9_000, came: now, count: 2 }],
            "one is not sent"
        );
        hops.flushed();
        hops.flushed();
        let expected = [of("source_distributor", 3), of("backbone", 3), of("p2ps", 2), of("total", 2)];
        assert_eq!(counted(&hops), expected);
        let relay = Some(passage(now - 4_000, now - 2_000));
        hops.begin(&update(HopTimes { relay, ..times }), 0);
        hops.end(0);
        assert_eq!(counted(&hops)[2..4], [of("relay", 1), of("to_shard", 1)]);
        assert_eq!((counters.hop_clocks_behind.get(), counters.hop_stamps_refused.get()), (0, 0));
    }

    #[test]
    fn clocks_that_differ_are_counted_and_absurd_times_are_no_measurement() {
        let (mut hops, counters) = hops();
        hops.begin_turn(clock::monotonic());
        let ahead = hops.came + ABSURD_NS / 2;
        hops.begin(&update(HopTimes { distributor: passage(ahead + 1, ahead), relay: None }), 0);
        hops.end(1);
        assert_eq!(counters.hop_clocks_behind.get(), 2, "the source distributor's own, and the backbone's");
        hops.flushed();
        let before = counted(&hops);
        for (came, left) in [(0, 0), (u64::MAX, u64::MAX), (hops.came, 0), (0, hops.came)] {
            hops.begin(&update(HopTimes { distributor: passage(came, left), relay: None }), 0);
            hops.end(1);
        }
        let relay = Some(passage(0, hops.came));
        hops.begin(&update(HopTimes { distributor: passage(hops.came, hops.came), relay }), 0);
        hops.end(1);
        hops.flushed();
        assert_eq!((counters.hop_stamps_refused.get(), counted(&hops)), (5, before));
    }

    #[test]
    fn what_has_waited_here_or_was_sent_in_this_turn_has_not_come_before_it_was_sent() {
        let (mut hops, counters) = hops();
        let turn = clock::monotonic();
        hops.begin_turn(turn);
        hops.has_waited_since(Nanos(turn.0 - 10_000_000));
        let sent = hops.came + 4_000_000;
        hops.begin(&update(HopTimes { distributor: passage(sent, sent), relay: None }), 0);
        assert_eq!(hops.came, sent);
        hops.begin_turn(turn);
        let sent = hops.came + 1;
        while hops.clock.at(clock::monotonic()) < sent {}
        hops.begin(&update(HopTimes { distributor: passage(sent, sent), relay: None }), 0);
        assert!(hops.came >= sent);
        assert_eq!(counters.hop_clocks_behind.get(), 0);
    }

    #[test]
    fn what_waits_to_be_written_is_bounded() {
        let (mut hops, _) = hops();
        hops.begin_turn(clock::monotonic());
        for at in 0..2 * UNWRITTEN_MAX as u64 + 1 {
            let distributor = passage(hops.came - 1_000_000 + at, hops.came);
            hops.begin(&update(HopTimes { distributor, relay: None }), 0);
            hops.end(1);
            assert!(hops.unwritten.len() <= UNWRITTEN_MAX);
        }
        hops.flushed();
        assert_eq!(counted(&hops).last(), Some(&("total".to_owned(), 2 * UNWRITTEN_MAX as u64 + 1)));
    }
}

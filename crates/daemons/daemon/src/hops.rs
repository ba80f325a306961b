use std::sync::Arc;

use counters::Registry;
use counters::table::HopLatency;
use market::backbone::Passage;
use net::clock::{self, WallClock};
use serde_json::{Value, json};
use units::Nanos;

/// A part of an update's way, from one stamp to the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hop {
    /// From a source distributor's socket to the backbone.
    SourceDistributor,
    /// From there to the P2PS, or to the relay before its shards.
    Backbone,
    /// Through the relay.
    Relay,
    /// From the relay to a shard.
    ToShard,
    /// From there to the sockets of clients.
    P2ps,
    /// All of them.
    Total,
}

impl Hop {
    /// All, in the order of the way.
    pub const ALL: [Hop; 6] =
        [Hop::SourceDistributor, Hop::Backbone, Hop::Relay, Hop::ToShard, Hop::P2ps, Hop::Total];

    /// What metrics and status pages call it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Hop::SourceDistributor => "source_distributor",
            Hop::Backbone => "backbone",
            Hop::Relay => "relay",
            Hop::ToShard => "to_shard",
            Hop::P2ps => "p2ps",
            Hop::Total => "total",
        }
    }
}

/// How long updates took, hop by hop. One thread counts.
pub struct HopLatencies([Arc<HopLatency>; Hop::ALL.len()]);

impl HopLatencies {
    /// Of a role, which shows those that are used. `labels` tell it from others of that role.
    #[must_use]
    pub fn registered(registry: &Registry, role: &str, labels: &[(&str, &str)]) -> HopLatencies {
        HopLatencies(Hop::ALL.map(|hop| {
            let set = Arc::<HopLatency>::default();
            let labels = [&[("role", role), ("hop", hop.name())], labels].concat();
            registry.register_optional(&labels, set.clone());
            set
        }))
    }

    /// Counts that each of `count` updates took so many nanoseconds.
    #[inline]
    pub fn observe(&self, hop: Hop, ns: u64, count: u64) {
        self.0[hop as usize].observe(ns, count);
    }

    /// Those that have counted something, for a status page.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let shown = Hop::ALL.iter().zip(&self.0).filter_map(|(hop, latency)| {
            let counts = latency.counts();
            let is_used = counts.iter().any(|count| *count > 0);
            is_used.then(|| json!({"hop": hop.name(), "buckets": counts, "sum_ns": latency.sum_ns.get()}))
        });
        shown.collect()
    }
}

/// The clock that hop stamps are made of.
#[derive(Debug, Default)]
pub struct Stamps {
    clock: WallClock,
    /// The turn in which `left` was read.
    turn: Nanos,
    left: u64,
    /// So many more updates of that turn get it too.
    more: u32,
}

/// In a turn the clock is read for the first update, and then for one in so many: a stamp costs less than a reading.
const READ_EVERY: u32 = 16;

impl Stamps {
    /// Of an update that leaves now, in the turn that began at `turn`. It has come at `came`: with that turn, or, if it has
    /// waited, then or a little later. `sent` is when the hop before has sent it, 0 if that is not known: it cannot have
    /// come before.
    #[inline]
    pub fn passage(&mut self, came: Nanos, turn: Nanos, sent: u64) -> Passage {
        if turn != self.turn || self.more == 0 || sent > self.left {
            self.clock.renew(turn);
            (self.turn, self.left, self.more) = (turn, self.clock.at(clock::monotonic()), READ_EVERY);
        }
        self.more -= 1;
        let at = self.clock.at(came);
        let came = match sent > at {
            false => at,
            true if came < turn => sent.min(self.left),
            true => self.left,
        };
        Passage { came, left: self.left }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_passage_begins_with_its_turn_and_its_end_is_read_for_the_first_of_a_turn() {
        let mut stamps = Stamps::default();
        let turn = clock::monotonic();
        let all: Vec<Passage> = (0..3 * READ_EVERY).map(|_| stamps.passage(turn, turn, 0)).collect();
        assert!(all.iter().all(|passage| passage.came == all[0].came && passage.left >= passage.came));
        assert!(all.is_sorted_by_key(|passage| passage.left));
        let parts: Vec<&[Passage]> = all.chunks(READ_EVERY as usize).collect();
        assert!(parts.iter().all(|part| part.iter().all(|passage| passage.left == part[0].left)));
        while clock::monotonic().0 <= turn.0 {}
        let next = clock::monotonic();
        assert!(stamps.passage(next, next, 0).left >= stamps.clock.at(next), "read again");
        let sent = stamps.clock.at(next) + 1;
        while stamps.clock.at(clock::monotonic()) < sent {}
        let passage = stamps.passage(next, next, sent);
        assert!(passage.came >= sent && passage.left >= sent, "it was sent in this turn");
        let waited = stamps.passage(Nanos(next.0 - 1_000_000), next, sent);
        assert_eq!(waited.came, sent, "what it waited behind had come before it was sent");
    }

    #[test]
    fn latencies_are_shown_of_the_hops_that_have_some() {
        let registry = Registry::default();
        let latencies = HopLatencies::registered(&registry, "p2ps", &[("shard", "1")]);
        assert_eq!((latencies.to_json(), registry.in_use().len()), (json!([]), 0));
        latencies.observe(Hop::Backbone, 3_000, 2);
        let mut buckets = [0; HopLatency::BUCKETS];
        buckets[2] = 2;
        assert_eq!(latencies.to_json(), json!([{"hop": "backbone", "buckets": buckets, "sum_ns": 6_000}]));
        let labels: Vec<String> =
            registry.in_use()[0].labels.iter().map(|(name, value)| format!("{name}={value}")).collect();
        assert_eq!(labels, ["role=p2ps", "hop=backbone", "shard=1"]);
    }
}

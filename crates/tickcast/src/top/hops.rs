//! How long updates took from hop to hop, by the buckets that a daemon counts them in.

use counters::table::HopLatency;
use serde_json::{Value, json};

use super::look::{HopCounts, Role};

/// How long updates took over a hop between the last two answers.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct HopRow {
    pub(super) address: String,
    pub(super) role: String,
    pub(super) hop: String,
    pub(super) updates: u64,
    pub(super) p50: AtMost,
    pub(super) p99: AtMost,
    pub(super) max: AtMost,
}

/// The upper bound of the bucket that a latency is in, in microseconds. Powers of two are told apart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum AtMost {
    /// There was no update.
    #[default]
    None,
    Us(u64),
    /// Above all bounds.
    More,
}

impl AtMost {
    fn to_json(self) -> Value {
        match self {
            AtMost::None => Value::Null,
            AtMost::Us(us) => json!(us),
            AtMost::More => json!("more"),
        }
    }
}

impl HopRow {
    pub(super) fn of(address: &str, role: &Role, now: &HopCounts, before: Option<&HopCounts>) -> HopRow {
        let before = |at: usize| before.and_then(|before| before.buckets.get(at)).copied().unwrap_or(0);
        let counts: Vec<u64> =
            now.buckets.iter().enumerate().map(|(at, count)| count.saturating_sub(before(at))).collect();
        let updates = counts.iter().fold(0_u64, |sum, count| sum.saturating_add(*count));
        // The bucket of the update behind so many of a hundred.
        let quantile = |percent: u64| {
            let rank = (u128::from(updates) * u128::from(percent)).div_ceil(100).max(1);
            let mut passed = 0;
            let bucket = counts.iter().position(|count| {
                passed += u128::from(*count);
                passed >= rank
            });
            match bucket {
                Some(bucket) if updates > 0 => HopLatency::bound_us(bucket).map_or(AtMost::More, AtMost::Us),
                _ => AtMost::None,
            }
        };
        HopRow {
            address: address.to_owned(),
            role: role.role.clone(),
            hop: now.hop.clone(),
            updates,
            p50: quantile(50),
            p99: quantile(99),
            max: quantile(100),
        }
    }

    /// The same for programs.
    pub(super) fn to_json(&self) -> Value {
        json!({
            "address": self.address, "role": self.role, "hop": self.hop, "updates": self.updates,
            "p50_at_most_us": self.p50.to_json(), "p99_at_most_us": self.p99.to_json(),
            "max_at_most_us": self.max.to_json(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::look::Look;
    use super::super::rows::tests::p2ps_at;
    use super::super::rows::{Daemon, Rows, Sort};
    use super::*;

    #[test]
    fn latencies_of_hops_are_those_of_the_interval_and_end_with_their_bucket() {
        let hop = |buckets: [u64; HopLatency::BUCKETS]| json!([{"hop": "backbone", "buckets": buckets, "sum_ns": 1}]);
        let (mut before, mut now) = ([7; HopLatency::BUCKETS], [7; HopLatency::BUCKETS]);
        let of = |before, now| {
            let mut daemon = Daemon { address: "a:1".to_owned(), ..Daemon::default() };
            for (second, buckets) in [(0, before), (1, now)] {
                let mut document = p2ps_at(second);
                document["hops"] = hop(buckets);
                daemon.take(Look::parse(document.to_string().as_bytes()).expect("it is one"));
            }
            let rows = Rows::of(&[daemon], Sort::Backlog);
            (
                rows.hops[0].updates,
                rows.hops[0].p50,
                rows.hops[0].p99,
                rows.hops[0].max,
                rows.to_json()["hops"][0].clone(),
            )
        };
        let (updates, p50, p99, max, _) = of(before, now);
        assert_eq!((updates, p50, p99, max), (0, AtMost::None, AtMost::None, AtMost::None));
        (now[3], now[5], now[21]) = (7 + 60, 7 + 39, 7 + 1);
        let (updates, p50, p99, max, json) = of(before, now);
        assert_eq!((updates, p50, p99, max), (100, AtMost::Us(8), AtMost::Us(32), AtMost::More));
        let expected = json!({
            "address": "a:1", "role": "p2ps", "hop": "backbone", "updates": 100,
            "p50_at_most_us": 8, "p99_at_most_us": 32, "max_at_most_us": "more",
        });
        assert_eq!(json, expected);
        (before[0], now[0]) = (u64::MAX, 3);
        assert_eq!(of(before, now).0, 100, "numbers that make no sense are no overflow");
    }
}

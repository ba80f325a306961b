//! When each client of a server that is drained is moved on: spread over the time that the drain may take.
//!
//! Clients that all leave at once come to the other servers at once, and each asks for all its items there. So they leave
//! one by one, at even distances, in slices of [`SLICE`]. Each shard spreads its own over the whole time; shards take
//! turns, so that those with few clients do not let them go at the same moment.

use std::collections::VecDeque;
use std::time::Duration;

use serde_json::{Value, json};
use units::Nanos;

/// How long it is from one slice to the next.
pub(crate) const SLICE: Duration = Duration::from_millis(50);
/// Most clients that are moved on in one turn: the others are served in between.
pub(crate) const TURN_CLIENTS_MAX: usize = 64;
/// How often it is said how far a drain is.
const REPORT_EVERY: Duration = Duration::from_secs(10);

/// The drain of a server, or of one of its shards.
#[derive(Debug)]
pub(crate) struct Drain<C> {
    /// Clients in the order in which they go.
    waiting: VecDeque<C>,
    /// So many of them go before the others, at once.
    at_once: usize,
    begun: Nanos,
    over: Duration,
    /// How many are spread over the time.
    spread: usize,
    /// This is one of so many shards.
    place: (u32, u32),
    moved: usize,
    report_at: Nanos,
    /// It was reported that nobody is left.
    is_reported: bool,
}

impl<C> Drain<C> {
    /// Begins at `now`. Clients of `at_once` go before the others, who are spread over `over`. `place` is the number of
    /// the shard, and how many there are.
    pub(crate) fn begin(
        now: Nanos,
        over: Duration,
        place: (u32, u32),
        at_once: Vec<C>,
        others: Vec<C>,
    ) -> Drain<C> {
        let (count, spread) = (at_once.len(), others.len());
        Drain {
            waiting: at_once.into_iter().chain(others).collect(),
            at_once: count,
            begun: now,
            over,
            spread,
            place,
            moved: 0,
            report_at: now + REPORT_EVERY,
            is_reported: false,
        }
    }

    /// Those that are left have another time, from `now` on.
    pub(crate) fn respread(&mut self, now: Nanos, over: Duration) {
        self.spread = self.waiting.len() - self.at_once;
        (self.begun, self.over) = (now, over);
    }

    /// Nobody is moved on any more: all that are left end together.
    pub(crate) fn give_up(&mut self) {
        self.waiting.clear();
        self.at_once = 0;
    }

    /// The next clients that are due, at most [`TURN_CLIENTS_MAX`].
    pub(crate) fn take_due(&mut self, now: Nanos) -> Vec<C> {
        let mut due = Vec::new();
        while due.len() < TURN_CLIENTS_MAX && now >= self.next_due() {
            let Some(client) = self.waiting.pop_front() else { break };
            due.push(client);
            self.at_once = self.at_once.saturating_sub(1);
        }
        self.moved += due.len();
        due
    }

    /// When the next clients are due.
    pub(crate) fn next_due(&self) -> Nanos {
        let left = self.waiting.len() - self.at_once;
        match (self.waiting.len(), self.at_once) {
            (0, _) => Nanos::NEVER,
            (_, 1..) => self.begun,
            _ => self.begun + self.leaves_after(self.spread - left),
        }
    }

    /// When the client of this number is due, from 0 on: in the middle of its part of the time, which all shards share.
    fn leaves_after(&self, number: usize) -> Duration {
        let (shard, shards) = (u128::from(self.place.0), u128::from(self.place.1.max(1)));
        let halves = 2 * (number as u128 * shards + shard) + 1;
        let exactly = self.over.as_nanos() * halves / (2 * shards * self.spread.max(1) as u128);
        let slice = SLICE.as_nanos();
        let rounded = exactly.div_ceil(slice) * slice;
        // It is rounded up, but never beyond the end.
        Duration::from_nanos(u64::try_from(rounded.min(self.over.as_nanos())).unwrap_or(u64::MAX))
    }

    /// When the last client is to have left.
    pub(crate) fn ends_at(&self) -> Nanos {
        self.begun + self.over
    }

    /// How many are still to be moved on.
    pub(crate) fn left(&self) -> usize {
        self.waiting.len()
    }

    /// Whether it is time to say how far it is.
    pub(crate) fn reports(&mut self, now: Nanos) -> bool {
        let is_due = now >= self.report_at && !self.waiting.is_empty();
        if is_due {
            self.report_at = now + REPORT_EVERY;
        }
        is_due
    }

    /// Whether it is to be said, once, that nobody is left. `is_empty`: no connection is there any more.
    pub(crate) fn finishes(&mut self, is_empty: bool) -> bool {
        is_empty && self.waiting.is_empty() && !std::mem::replace(&mut self.is_reported, true)
    }

    /// Clients that were moved on.
    pub(crate) fn moved(&self) -> usize {
        self.moved
    }

    /// What status pages show of it; `connections` are there still, unless it `is_empty` and none is being closed either.
    pub(crate) fn to_json(&self, now: Nanos, connections: usize, is_empty: bool) -> Value {
        let state = if self.waiting.is_empty() && is_empty { DRAINED } else { DRAINING };
        json!({
            "state": state, "connections_left": connections, "moved": self.moved,
            "over_ms": self.over.as_millis() as u64, "ends_in_ms": self.ends_at().since(now).as_millis() as u64,
        })
    }
}

/// The states that a status page shows of a drain.
pub(crate) const SERVING: &str = "serving";
const DRAINING: &str = "draining";
const DRAINED: &str = "drained";

/// The state of a server that is not drained.
pub(crate) fn serving() -> Value {
    json!({"state": SERVING, "connections_left": 0, "moved": 0, "over_ms": 0, "ends_in_ms": 0})
}

/// The drains of all shards as one.
pub(crate) fn merged(shards: &[Value]) -> Value {
    let of = |key: &'static str| shards.iter().map(move |shard| shard[key].as_u64().unwrap_or(0));
    let is_all = |state: &str| shards.iter().all(|shard| shard["state"] == state);
    let state = if is_all(SERVING) {
        SERVING
    } else if is_all(DRAINED) {
        DRAINED
    } else {
        DRAINING
    };
    json!({
        "state": state, "connections_left": of("connections_left").sum::<u64>(), "moved": of("moved").sum::<u64>(),
        "over_ms": of("over_ms").max(), "ends_in_ms": of("ends_in_ms").max(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: Nanos = Nanos(1_000_000_000_000);

    fn ms(count: u64) -> Duration {
        Duration::from_millis(count)
    }

    /// When each client leaves, in milliseconds from the start, if the thread turns whenever it is due.
    fn departures(drain: &mut Drain<u32>) -> Vec<(u64, u32)> {
        let mut left = Vec::new();
        while drain.left() > 0 {
            let now = drain.next_due();
            let due = drain.take_due(now);
            assert!((1..=TURN_CLIENTS_MAX).contains(&due.len()));
            left.extend(due.into_iter().map(|client| (now.since(START).as_millis() as u64, client)));
        }
        assert_eq!((drain.next_due(), drain.take_due(Nanos::NEVER)), (Nanos::NEVER, vec![]));
        left
    }

    #[test]
    fn clients_leave_one_by_one_at_even_distances() {
        let mut drain = Drain::begin(START, ms(4_000), (0, 1), vec![], vec![7, 8, 9, 10]);
        assert!(drain.take_due(START).is_empty(), "nobody at once");
        assert_eq!(departures(&mut drain), [(500, 7), (1_500, 8), (2_500, 9), (3_500, 10)]);
        assert_eq!(drain.moved(), 4);
    }

    #[test]
    fn who_has_not_logged_in_goes_first_and_at_once() {
        let mut drain = Drain::begin(START, ms(1_000), (0, 1), vec![1, 2], vec![7]);
        assert_eq!(departures(&mut drain), [(0, 1), (0, 2), (500, 7)]);
        let mut many = Drain::begin(START, ms(1_000), (0, 1), (0..200).collect(), vec![]);
        let turns: Vec<usize> = (0..5).map(|_| many.take_due(START).len()).collect();
        assert_eq!(turns, [64, 64, 64, 8, 0], "a turn's work is bounded");
    }

    #[test]
    fn of_many_no_slice_has_more_than_its_part_and_all_are_gone_at_the_end() {
        let count = 10_000;
        let mut drain = Drain::begin(START, ms(10_000), (0, 1), vec![], (0..count).collect());
        let left = departures(&mut drain);
        assert!(left.iter().map(|(_, client)| *client).eq(0..count), "each once, in order");
        let mut slices = std::collections::BTreeMap::new();
        left.iter().for_each(|(at, _)| *slices.entry(*at).or_insert(0) += 1);
        assert!(slices.len() == 200 && slices.values().all(|size| *size == 50), "{slices:?}");
        assert_eq!(slices.last_key_value(), Some((&10_000, &50)));
    }

    #[test]
    fn shards_take_turns() {
        let of_shard =
            |shard| departures(&mut Drain::begin(START, ms(8_000), (shard, 4), vec![], vec![shard]));
        let all: Vec<_> = (0..4).flat_map(of_shard).collect();
        assert_eq!(all, [(1_000, 0), (3_000, 1), (5_000, 2), (7_000, 3)]);
    }

    #[test]
    fn whoever_is_left_may_get_another_time() {
        let mut drain = Drain::begin(START, ms(100_000), (0, 1), vec![], vec![1, 2, 3, 4]);
        assert_eq!(drain.take_due(START + ms(12_500)), [1]);
        drain.respread(START + ms(20_000), ms(300));
        assert_eq!(departures(&mut drain), [(20_050, 2), (20_150, 3), (20_250, 4)]);
        let mut at_once = Drain::begin(START, Duration::ZERO, (2, 3), vec![], vec![1, 2]);
        assert_eq!(at_once.take_due(START), [1, 2], "no time at all");
        let mut pending = Drain::begin(START, ms(500), (0, 1), vec![1], vec![2]);
        pending.respread(START, Duration::ZERO);
        assert_eq!(pending.take_due(START), [1, 2]);
    }

    #[test]
    fn a_server_that_ends_before_moves_nobody_on_any_more() {
        let mut drain = Drain::begin(START, ms(1_000), (0, 1), vec![1], vec![2]);
        drain.give_up();
        assert_eq!((drain.next_due(), drain.take_due(START + ms(2_000))), (Nanos::NEVER, vec![]));
        assert_eq!(drain.to_json(START, 2, false)["state"], "draining", "they are there still");
    }

    #[test]
    fn a_thread_that_was_away_goes_on_where_it_should_be() {
        let mut drain = Drain::begin(START, ms(1_000), (0, 1), vec![], (0..10).collect());
        assert_eq!(drain.take_due(START + ms(600)).len(), 6);
        assert_eq!(drain.next_due(), START + ms(650));
    }

    #[test]
    fn its_end_is_reported_once_and_its_progress_now_and_then() {
        let mut drain = Drain::begin(START, ms(60_000), (0, 1), vec![], vec![1, 2]);
        assert!(!drain.reports(START + ms(9_999)) && !drain.finishes(true), "two are to go");
        assert!(drain.reports(START + ms(10_000)) && !drain.reports(START + ms(10_001)));
        drain.take_due(START + ms(60_000));
        assert!(!drain.finishes(false), "connections are being closed");
        assert!(drain.finishes(true) && !drain.finishes(true));
        assert!(!drain.reports(START + ms(90_000)));
    }

    #[test]
    fn shards_are_shown_as_one() {
        let begin = || Drain::begin(START, ms(60_000), (0, 2), vec![], vec![1, 2]);
        let (draining, mut done) = (begin(), begin());
        done.take_due(START + ms(60_000));
        let [draining, done] =
            [draining.to_json(START + ms(20_000), 2, false), done.to_json(START + ms(20_000), 0, true)];
        let state = |shards: &[Value]| merged(shards)["state"].clone();
        assert_eq!(state(&[serving(), serving()]), "serving");
        assert_eq!(state(&[done.clone(), done.clone()]), "drained");
        assert_eq!(state(&[done.clone(), serving()]), "draining", "one has not heard of it");
        let all = merged(&[done, draining]);
        let expected = json!({
            "state": "draining", "connections_left": 2, "moved": 2, "over_ms": 60_000, "ends_in_ms": 40_000,
        });
        assert_eq!(all, expected);
    }
}

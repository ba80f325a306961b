//! How far a topic can have come, and what to do with a datagram that says it has come farther.
//!
//! Messages that nobody has seen were in datagrams that nobody has seen: where no datagram since the topic's last one
//! was given up, none of its messages is missing. Who says otherwise is not believed on its word. Its number becomes
//! missing again, and the source is asked what it sent under it: its answer takes the place of what was forged, or
//! bears out what was not.

use std::collections::VecDeque;

use super::topic::{Cold, Hot};
use crate::wire::lbmc::MESSAGE_HEADER_LEN;

/// Messages that the longest datagram has room for.
const MESSAGES_PER_DATAGRAM_MAX: u64 = 65_536 / MESSAGE_HEADER_LEN as u64;
/// Messages that are missing on the word of one datagram, which says that datagrams were sent that held them.
const ON_ONE_WORD: u64 = 64;
/// Ranges of given up datagrams that are known each; of what lies before them any may have been.
const RANGES_MAX: usize = 64;
/// A jump of transport numbers up to this is believed at once: it costs no more than its NAKs if it is not true.
pub(crate) const NEAR: u64 = 1_024;
/// Datagrams that are asked for once more after one packet.
const DOUBTED_MAX: usize = 256;

/// What is known of datagrams that nobody has seen.
pub(super) struct Reach {
    /// Transport numbers count datagrams, which hold so many messages at most.
    pub(super) counts_datagrams: bool,
    /// Transport number of the session's first datagram of all, if the session is heard from there on.
    pub(super) zero_base: Option<u64>,
    /// The datagram being taken is the source's answer to who asked for it once more.
    pub(super) is_answer: bool,
    /// Datagrams that were given up: ranges in ascending order that do not touch.
    given_up: VecDeque<(u64, u64)>,
    /// Of what lies below, any may have been given up.
    forgotten: u64,
    /// That datagrams from the first number on were sent only the datagram of the second number says: so they do not
    /// account for more than a few messages before its own.
    pub(super) word: (u64, u64),
    /// Datagrams to be asked for once more.
    doubted: Vec<u64>,
    /// Nothing can be asked for any more.
    is_over: bool,
    /// The number after the highest that was doubted when nothing could be asked for any more.
    doubted_end: u64,
}

impl Reach {
    pub(super) fn new() -> Reach {
        Reach {
            counts_datagrams: true,
            zero_base: None,
            is_answer: false,
            given_up: VecDeque::new(),
            forgotten: 0,
            word: (0, u64::MAX),
            doubted: Vec::new(),
            is_over: false,
            doubted_end: 0,
        }
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.given_up.capacity() * size_of::<(u64, u64)>() + self.doubted.capacity() * size_of::<u64>()
    }

    /// The datagrams from `first` to before `end` will not come.
    pub(super) fn give_up(&mut self, first: u64, end: u64) {
        let at = self.given_up.partition_point(|range| range.1 < first);
        let mut all = (first, end);
        while let Some(&(from, to)) = self.given_up.get(at).filter(|range| range.0 <= all.1) {
            all = (all.0.min(from), all.1.max(to));
            self.given_up.remove(at);
        }
        self.given_up.insert(at, all);
        if self.given_up.len() > RANGES_MAX {
            // Others farther on may have been forgotten before.
            let end = self.given_up.pop_front().map_or(0, |range| range.1);
            self.forgotten = self.forgotten.max(end);
        }
    }

    /// How many datagrams from `first` to before `end` were given up, at most.
    fn given_up_between(&self, first: u64, end: u64) -> u64 {
        let forgotten = self.forgotten.min(end).saturating_sub(first);
        let first = first.max(self.forgotten);
        let known = self.given_up.iter().map(|&(from, to)| to.min(end).saturating_sub(from.max(first)));
        forgotten + known.sum::<u64>()
    }

    /// The first of the given up datagrams around `t` that no datagram between was taken of; none if `t` is not one.
    pub(super) fn given_up_around(&self, t: u64) -> Option<u64> {
        let at = self.given_up.partition_point(|range| range.1 < t);
        self.given_up.get(at).filter(|range| range.0 <= t).map(|range| range.0)
    }

    /// From which datagram on messages of the topic can be missing; none if nothing is known of what came before.
    fn since(&self, hot: &Hot, cold: &Cold) -> Option<u64> {
        match (hot.last_t, self.zero_base) {
            (0, Some(base)) if cold.from_zero => Some(base),
            (0, _) => None,
            (last_t, _) => Some(last_t + 1),
        }
    }

    /// Whether `missing` messages of the topic can have been in the datagrams before `t`, whatever became of them.
    pub(super) fn can_hold(&self, hot: &Hot, cold: &Cold, missing: u64, t: u64) -> bool {
        let Some(since) = self.since(hot, cold).filter(|_| self.counts_datagrams) else { return true };
        // One more: the number of a datagram may be damaged.
        let datagrams = (t + 2).saturating_sub(since).max(1);
        missing <= datagrams.saturating_mul(MESSAGES_PER_DATAGRAM_MAX)
    }

    /// Whether `missing` messages of the topic can have been in datagrams before `t` that were given up, or the
    /// source has borne it out.
    pub(super) fn can_lack(&self, hot: &Hot, cold: &Cold, missing: u64, t: u64, is_answer: bool) -> bool {
        let Some(since) = self.since(hot, cold).filter(|_| self.counts_datagrams) else { return true };
        if is_answer {
            return self.can_hold(hot, cold, missing, t);
        }
        // The datagram that told of the topic last may have come under a number farther on than its own.
        let since = if t < hot.last_t { t.saturating_sub(NEAR) } else { since };
        // `t` itself, if it was to be sent again and was not.
        let end = if self.word.1 == t && missing > ON_ONE_WORD { self.word.0.min(t + 1) } else { t + 1 };
        missing <= self.given_up_between(since, end).saturating_mul(MESSAGES_PER_DATAGRAM_MAX)
    }

    /// What datagram `t` says is not believed.
    pub(super) fn doubt(&mut self, t: u64) {
        if self.is_over {
            self.doubted_end = self.doubted_end.max(t + 1);
        } else if self.doubted.len() < DOUBTED_MAX && !self.doubted.contains(&t) {
            self.doubted.push(t);
        }
    }

    /// Datagram `t` need not be asked for.
    pub(super) fn trust(&mut self, t: u64) {
        self.doubted.retain(|doubted| *doubted != t);
    }

    /// Nothing will be asked for any more.
    pub(super) fn finish(&mut self) {
        self.is_over = true;
        let last = self.doubted.drain(..).max();
        self.doubted_end = last.map_or(0, |t| t + 1);
    }

    /// Whether nothing will be asked for any more.
    pub(super) fn is_over(&self) -> bool {
        self.is_over
    }

    /// The number after the highest that was doubted at the end.
    pub(super) fn doubted_end(&self) -> u64 {
        self.doubted_end
    }

    pub(super) fn has_doubts(&self) -> bool {
        !self.doubted.is_empty()
    }

    /// The lowest datagram that is to be asked for once more, or more than any.
    pub(super) fn first_doubted(&self) -> u64 {
        self.doubted.iter().copied().min().unwrap_or(u64::MAX)
    }

    pub(super) fn next_doubted(&mut self) -> Option<u64> {
        self.doubted.pop()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use units::Rng;

    #[test]
    fn what_was_given_up_is_counted_and_of_what_is_forgotten_everything_counts() {
        testkit::for_each_seed!(0..50, |seed| {
            let (mut rng, mut reach) = (Rng::new(seed), Reach::new());
            let mut set = std::collections::BTreeSet::new();
            let ranges = 1 + rng.below(300);
            for _ in 0..ranges {
                let first = rng.below(9_000);
                let end = first + 1 + rng.below(20);
                reach.give_up(first, end);
                set.extend(first..end);
                let from = rng.below(9_000);
                let to = from + rng.below(500);
                let (counted, exact) = (reach.given_up_between(from, to), set.range(from..to).count() as u64);
                assert!(counted >= exact && counted <= to - from, "seed {seed}: {counted}, {exact}");
                assert!(reach.forgotten > from || counted == exact, "seed {seed}: {counted}, {exact}");
            }
            assert!(reach.given_up.len() <= RANGES_MAX && reach.forgotten < 9_100);
        });
    }

    #[test]
    fn the_begin_of_what_was_given_up_is_found_from_within() {
        let mut reach = Reach::new();
        reach.give_up(10, 20);
        reach.give_up(20, 30);
        for (t, first) in [(9, None), (10, Some(10)), (29, Some(10)), (30, Some(10)), (31, None)] {
            assert_eq!(reach.given_up_around(t), first, "{t}");
        }
    }
}

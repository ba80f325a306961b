//! Who is served next when not everybody can be served in a turn: clients of a higher priority get more of the work, and
//! nobody gets none.
//!
//! Priorities that somebody waits of share the work in the ratio of their numbers, whatever has to be done for each: one of
//! 9 beside one of 1 gets nine tenths of it. Clients of one priority are served in order. A priority that nobody has waited
//! of saves nothing up.

use std::collections::VecDeque;

use market::p2ps::PRIORITY_MAX;

/// Clients that wait, by their priorities.
#[derive(Debug)]
pub(crate) struct Shares<T> {
    /// The first is of priority 1.
    levels: [Level<T>; PRIORITY_MAX as usize],
    /// What the priority that was served last had used before.
    now: u64,
}

#[derive(Debug)]
struct Level<T> {
    waiting: VecDeque<T>,
    /// The work that was done for it, divided by its priority.
    used: u64,
}

/// Divisible by every priority.
const SCALE: u64 = 2_520;
/// Work is counted in units of so many bytes.
const UNIT_BYTES: u64 = 512;

impl<T> Default for Shares<T> {
    fn default() -> Self {
        Shares { levels: std::array::from_fn(|_| Level { waiting: VecDeque::new(), used: 0 }), now: 0 }
    }
}

impl<T> Shares<T> {
    fn level(&mut self, priority: u8) -> &mut Level<T> {
        &mut self.levels[usize::from(priority.clamp(1, PRIORITY_MAX)) - 1]
    }

    /// One more waits.
    pub(crate) fn push(&mut self, priority: u8, one: T) {
        let now = self.now;
        let level = self.level(priority);
        if level.waiting.is_empty() {
            level.used = level.used.max(now);
        }
        level.waiting.push_back(one);
    }

    /// The one to be served now, with its priority; [`Shares::charge`] is to be told of the work.
    pub(crate) fn pop(&mut self) -> Option<(u8, T)> {
        let waiting = self.levels.iter().enumerate().rev().filter(|(_, level)| !level.waiting.is_empty());
        let (at, _) = waiting.min_by_key(|(_, level)| level.used)?;
        let level = &mut self.levels[at];
        self.now = self.now.max(level.used);
        Some((at as u8 + 1, level.waiting.pop_front()?))
    }

    /// So much work was done for one of this priority.
    pub(crate) fn charge(&mut self, priority: u8, bytes: usize) {
        let units = (bytes as u64).div_ceil(UNIT_BYTES).max(1);
        self.level(priority).used += units * (SCALE / u64::from(priority.clamp(1, PRIORITY_MAX)));
    }

    /// How many wait.
    pub(crate) fn len(&self) -> usize {
        self.levels.iter().map(|level| level.waiting.len()).sum()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.levels.iter().all(|level| level.waiting.is_empty())
    }

    /// Nobody waits any more.
    pub(crate) fn clear(&mut self) {
        self.levels.iter_mut().for_each(|level| level.waiting.clear());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// So many are served; each waits again at once. What each priority got.
    fn served(shares: &mut Shares<u32>, count: usize, bytes: impl Fn(u32) -> usize) -> [usize; 9] {
        let mut got = [0; 9];
        for _ in 0..count {
            let (priority, one) = shares.pop().expect("all wait");
            shares.charge(priority, bytes(one));
            got[usize::from(priority) - 1] += bytes(one);
            shares.push(priority, one);
        }
        got
    }

    #[test]
    fn priorities_share_the_work_in_the_ratio_of_their_numbers_however_many_wait_of_each() {
        let mut shares = Shares::default();
        shares.push(9, 0);
        (0..100).for_each(|one| shares.push(1, one));
        (0..10).for_each(|one| shares.push(5, one));
        assert_eq!(shares.len(), 111);
        let got = served(&mut shares, 1_500, |_| 10_240);
        assert_eq!([got[0], got[4], got[8]], [100, 500, 900].map(|count| count * 10_240));
        // By what is done, not by how often.
        let got = served(&mut shares, 15_000, |one| if one == 0 { 102_400 } else { 10_240 });
        let whole: usize = got.iter().sum();
        for (priority, got) in [(1, got[0]), (5, got[4]), (9, got[8])] {
            assert!((got * 15).abs_diff(whole * priority) < whole / 20, "{priority}: {got} of {whole}");
        }
    }

    #[test]
    fn who_is_alone_gets_everything_and_saves_nothing_up() {
        let mut shares = Shares::default();
        shares.push(2, 7);
        served(&mut shares, 1_000, |_| 100_000);
        shares.push(1, 8);
        let got = served(&mut shares, 300, |_| 10_240);
        // One piece of work for the other was under way.
        assert!((100..=110).contains(&(got[0] / 10_240)), "one to two from then on: {got:?}");
        while shares.pop().is_some() {}
        assert!(shares.is_empty() && shares.pop().is_none());
    }

    #[test]
    fn the_higher_priority_comes_first_and_one_priority_is_served_in_order() {
        let mut shares = Shares::default();
        for (priority, one) in [(5, 1), (9, 2), (5, 3), (1, 4), (9, 5)] {
            shares.push(priority, one);
        }
        let mut order = Vec::new();
        while let Some((priority, one)) = shares.pop() {
            shares.charge(priority, 1);
            order.push(one);
        }
        assert_eq!(order, [2, 1, 4, 5, 3]);
        shares.push(3, 1);
        shares.clear();
        assert_eq!(shares.len(), 0);
    }
}

use std::collections::VecDeque;
use std::time::Duration;
use units::{Nanos, Sqn};

/// The numbers that are missing: disjoint ranges in ascending order.
///
/// What is neither missing nor beyond the highest number seen has arrived or been given up, so nothing is
/// kept for it. A range shares one detection time and one NAK time; it splits where these begin to differ.
pub(super) struct LossMap {
    gaps: VecDeque<Gap>,
    missing: u64,
    gaps_max: usize,
    missing_max: u64,
    /// No NAK is due before.
    due: Nanos,
    /// The number after the highest that was given up.
    given_up_end: u64,
    /// Ranges that were given up since that was asked last.
    given_up: Vec<(u64, u64)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Gap {
    pub(super) first: u64,
    pub(super) end: u64,
    /// When it was found.
    pub(super) detected: Nanos,
    /// From when on its time counts.
    since: Nanos,
    /// It got time anew because the source had been silent.
    is_prolonged: bool,
    /// When it is to be NAKed.
    pub(super) due: Nanos,
    /// How often it was.
    pub(super) naks: u16,
    /// When it was first.
    pub(super) asked: Nanos,
    /// It was here, and what it said was not believed.
    pub(super) is_doubted: bool,
}

impl Gap {
    fn new(first: u64, end: u64, detected: Nanos, due: Nanos) -> Gap {
        Gap {
            first,
            end,
            detected,
            since: detected,
            is_prolonged: false,
            due,
            naks: 0,
            asked: Nanos::ZERO,
            is_doubted: false,
        }
    }

    fn len(&self) -> u64 {
        self.end - self.first
    }

    /// When it is given up, if the source was last heard at `heard`. A source that says nothing repairs nothing: the gap
    /// has time until it is heard, but not for ever.
    fn expiry(&self, generation: Duration, heard: Heard) -> Nanos {
        if self.is_doubted {
            return self.since + generation;
        }
        let (expiry, longest) = (self.since + generation, self.detected + generation * SILENT_INTERVALS);
        let is_heard = heard.at + silence(generation) >= expiry;
        if is_heard { expiry } else { longest.min(heard.half_time).max(expiry) }
    }
}

/// When a source was heard last.
#[derive(Clone, Copy)]
pub(super) struct Heard {
    pub(super) at: Nanos,
    /// The middle of the time after which its session is over. What is given up by then is settled, and what that makes
    /// doubtful asked for, before the end.
    pub(super) half_time: Nanos,
}

/// A source that says nothing for so long may be stopped.
pub(super) fn silence(generation: Duration) -> Duration {
    generation / 4
}

/// Generation intervals after which a gap is given up though the source is silent.
const SILENT_INTERVALS: u32 = 4;

impl LossMap {
    pub(super) fn new(gaps_max: usize, missing_max: u64) -> LossMap {
        let (due, given_up_end) = (Nanos::NEVER, 0);
        let (gaps, given_up) = (VecDeque::new(), Vec::new());
        LossMap { gaps, missing: 0, gaps_max, missing_max, due, given_up_end, given_up }
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.gaps.capacity() * size_of::<Gap>() + self.given_up.capacity() * size_of::<(u64, u64)>()
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.gaps.is_empty()
    }

    /// How many numbers are missing.
    pub(super) fn missing(&self) -> u64 {
        self.missing
    }

    /// The lowest missing number.
    pub(super) fn first(&self) -> Option<u64> {
        self.gaps.front().map(|g| g.first)
    }

    /// The number after the highest missing one below `t`; 0 if none is missing below it.
    pub(super) fn end_below(&self, t: u64) -> u64 {
        let after = self.gaps.partition_point(|g| g.first < t);
        after.checked_sub(1).map_or(0, |i| self.gaps[i].end.min(t))
    }

    /// Adds the numbers from `first` to before `end`, all above what was added before.
    ///
    /// Returns how many of the oldest were given up to keep within the bounds.
    pub(super) fn add(&mut self, first: u64, end: u64, detected: Nanos, due: Nanos) -> u64 {
        self.gaps.push_back(Gap::new(first, end, detected, due));
        self.missing += end - first;
        self.due = self.due.min(due);
        let mut given_up = 0;
        while self.gaps.len() > self.gaps_max {
            given_up += self.give_up_first();
        }
        let excess = self.missing.saturating_sub(self.missing_max);
        given_up + self.give_up_oldest(excess)
    }

    /// A number that was here is missing again, since what it said is not believed; `before` is how it was missing, if it
    /// was just then. False if it is missing.
    pub(super) fn add_again(&mut self, t: u64, before: Option<Gap>, detected: Nanos, due: Nanos) -> bool {
        let at = self.gaps.partition_point(|gap| gap.end <= t);
        let after = self.gaps.get(at);
        if after.is_some_and(|gap| gap.first <= t) {
            return false;
        }
        // What was found before and lies behind it is given up with it at the latest.
        let new = Gap::new(t, t + 1, detected, due);
        let gap = before.map_or(new, |gap| Gap { first: t, end: t + 1, ..gap });
        self.gaps.insert(at, Gap { is_doubted: true, ..gap });
        self.missing += 1;
        self.due = self.due.min(gap.due);
        true
    }

    /// Takes a number out; returns the range it was part of, or `None` if it is not missing.
    pub(super) fn remove(&mut self, t: u64) -> Option<Gap> {
        let at = self.find(t)?;
        let gap = self.gaps[at];
        self.missing -= 1;
        if gap.len() == 1 {
            self.gaps.remove(at);
        } else if t == gap.first {
            self.gaps[at].first += 1;
        } else if t == gap.end - 1 {
            self.gaps[at].end -= 1;
        } else {
            self.gaps[at].end = t;
            self.gaps.insert(at + 1, Gap { first: t + 1, ..gap });
        }
        Some(gap)
    }

    /// Whether a number is missing.
    pub(super) fn contains(&self, t: u64) -> bool {
        self.find(t).is_some()
    }

    fn find(&self, t: u64) -> Option<usize> {
        let after = self.gaps.partition_point(|g| g.first <= t);
        let at = after.checked_sub(1)?;
        (t < self.gaps[at].end).then_some(at)
    }

    /// Gives up everything below `trail`; returns how many.
    pub(super) fn give_up_below(&mut self, trail: u64) -> u64 {
        let mut count = 0;
        while let Some(gap) = self.gaps.front_mut().filter(|g| g.first < trail) {
            let upto = gap.end.min(trail);
            count += upto - gap.first;
            let first = std::mem::replace(&mut gap.first, upto);
            if gap.len() == 0 {
                self.gaps.pop_front();
            }
            self.note_given_up(first, upto);
        }
        self.missing -= count;
        count
    }

    /// Gives up what has had its time of `generation` and lies below `proven`; returns how many. What lies beyond may
    /// not have been sent yet, and is not asked for any more. The source was last heard at `heard`.
    pub(super) fn give_up_older(
        &mut self,
        now: Nanos,
        generation: Duration,
        heard: Heard,
        proven: u64,
    ) -> u64 {
        let mut count = 0;
        let is_over = |gap: &Gap| gap.expiry(generation, heard) <= now;
        // ranges are found in ascending order, so the oldest are in front
        while let Some(gap) = self.gaps.front().filter(|g| g.first < proven && is_over(g)) {
            count += self.give_up_below(gap.end.min(proven));
        }
        self.gaps.iter_mut().take_while(|gap| is_over(gap)).for_each(|gap| gap.due = Nanos::NEVER);
        count
    }

    /// The time of no gap counts from before `earliest`.
    pub(super) fn count_from(&mut self, earliest: Nanos) {
        self.gaps.iter_mut().for_each(|gap| gap.since = gap.since.max(earliest));
    }

    /// The source was silent: the time of no gap counts from before `earliest`, but for those to which that was given
    /// before.
    pub(super) fn prolong(&mut self, earliest: Nanos) {
        for gap in self.gaps.iter_mut().filter(|gap| !gap.is_prolonged && !gap.is_doubted) {
            gap.since = gap.since.max(earliest);
            gap.is_prolonged = true;
        }
    }

    /// Gives up the lowest range; returns how many numbers it had.
    pub(super) fn give_up_first(&mut self) -> u64 {
        let Some(gap) = self.gaps.pop_front() else { return 0 };
        self.note_given_up(gap.first, gap.end);
        self.missing -= gap.len();
        gap.len()
    }

    /// The source refuses to send a number again: it is given up if it was asked for. Whether it was.
    pub(super) fn refuse(&mut self, t: u64) -> bool {
        let is_asked = self.find(t).is_some_and(|at| self.gaps[at].naks > 0);
        if is_asked && self.remove(t).is_some() {
            self.note_given_up(t, t + 1);
        }
        is_asked
    }

    fn note_given_up(&mut self, first: u64, end: u64) {
        self.given_up_end = self.given_up_end.max(end);
        self.given_up.push((first, end));
    }

    /// A range that was given up, each once.
    pub(super) fn next_given_up(&mut self) -> Option<(u64, u64)> {
        self.given_up.pop()
    }

    /// The number after the highest that was given up.
    pub(super) fn given_up_end(&self) -> u64 {
        self.given_up_end
    }

    fn give_up_oldest(&mut self, mut excess: u64) -> u64 {
        let count = excess;
        while excess > 0 {
            let gap = self.gaps.front_mut().expect("no more is in excess than is missing");
            let n = gap.len().min(excess);
            let first = gap.first;
            gap.first += n;
            excess -= n;
            if gap.len() == 0 {
                self.gaps.pop_front();
            }
            self.note_given_up(first, first + n);
        }
        self.missing -= count;
        count
    }

    /// Puts off the next NAK for a number; false if it is not missing.
    pub(super) fn put_off(&mut self, t: u64, by: Duration) -> bool {
        let Some(at) = self.find(t) else { return false };
        let gap = self.gaps[at];
        let delayed = Gap { first: t, end: t + 1, due: gap.due + by, ..gap };
        let (before, after) = (Gap { end: t, ..gap }, Gap { first: t + 1, ..gap });
        self.gaps[at] = delayed;
        if after.len() > 0 {
            self.gaps.insert(at + 1, after);
        }
        if before.len() > 0 {
            self.gaps.insert(at, before);
        }
        self.join(at + usize::from(before.len() > 0));
        true
    }

    /// Joins the range with the one before it if they no longer differ, so that a NAK confirmation for a
    /// whole range leaves one range.
    fn join(&mut self, at: usize) {
        let Some(before) = at.checked_sub(1) else { return };
        let (left, right) = (self.gaps[before], self.gaps[at]);
        if left.end == right.first && (Gap { end: right.end, ..left }) == (Gap { first: left.first, ..right })
        {
            self.gaps[before].end = right.end;
            self.gaps.remove(at);
        }
    }

    /// Collects numbers that are due, at most `count_max`, and sets when they are next: `wait` says in which
    /// time, by how often they have been NAKed with this time.
    pub(super) fn collect_due(
        &mut self,
        now: Nanos,
        wait: impl Fn(u16) -> Duration,
        count_max: usize,
        into: &mut Vec<Sqn>,
    ) {
        let mut at = 0;
        while at < self.gaps.len() && into.len() < count_max {
            let gap = self.gaps[at];
            if gap.due <= now {
                let taken = gap.len().min((count_max - into.len()) as u64);
                into.extend((gap.first..gap.first + taken).map(|t| Sqn(t as u32)));
                let naks = gap.naks.saturating_add(1);
                let first_asked = if gap.naks == 0 { now } else { gap.asked };
                let due = now + wait(naks);
                let asked = Gap { end: gap.first + taken, due, naks, asked: first_asked, ..gap };
                self.gaps[at] = asked;
                if taken < gap.len() {
                    self.gaps.insert(at + 1, Gap { first: asked.end, ..gap });
                }
            }
            at += 1;
        }
        self.due = self.gaps.iter().map(|g| g.due).min().unwrap_or(Nanos::NEVER);
    }

    /// A moment before which no NAK is due; it may be early, when what was due has arrived meanwhile.
    #[inline]
    pub(super) fn next_due(&self) -> Nanos {
        if self.gaps.is_empty() { Nanos::NEVER } else { self.due }
    }

    /// When the oldest range is to be given up, if it lies below `proven` and the source was last heard at `heard`.
    pub(super) fn next_give_up(&self, generation: Duration, heard: Heard, proven: u64) -> Nanos {
        let oldest = self.gaps.front().filter(|gap| gap.first < proven);
        oldest.map_or(Nanos::NEVER, |gap| gap.expiry(generation, heard))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use units::Rng;

    const MS: Duration = Duration::from_millis(1);

    fn heard(at: Nanos) -> Heard {
        Heard { at, half_time: at + Duration::from_secs(5) }
    }

    fn map() -> LossMap {
        LossMap::new(100, 10_000)
    }

    fn ranges(map: &LossMap) -> Vec<(u64, u64)> {
        map.gaps.iter().map(|g| (g.first, g.end)).collect()
    }

    fn due(map: &mut LossMap, now: Nanos) -> Vec<u32> {
        let mut numbers = Vec::new();
        map.collect_due(now, |_| MS * 10, 1_000, &mut numbers);
        numbers.iter().map(|n| n.0).collect()
    }

    #[test]
    fn a_number_that_arrives_splits_or_trims_its_range() {
        let mut m = map();
        m.add(10, 20, Nanos(0), Nanos(5));
        assert!(m.remove(15).is_some_and(|g| (g.first, g.end) == (10, 20)));
        assert_eq!(m.remove(15), None, "it is missing no more");
        assert!(m.remove(10).is_some() && m.remove(19).is_some());
        assert_eq!(ranges(&m), [(11, 15), (16, 19)]);
        assert_eq!((m.missing(), m.first()), (7, Some(11)));
        assert_eq!(m.remove(9), None);
        assert_eq!(m.remove(20), None);
    }

    #[test]
    fn the_last_missing_number_below_another_is_found() {
        let mut m = map();
        m.add(10, 12, Nanos(0), Nanos(0));
        m.add(20, 22, Nanos(0), Nanos(0));
        let table = [(5, 0), (10, 0), (11, 11), (12, 12), (15, 12), (20, 12), (21, 21), (30, 22)];
        for (t, end) in table {
            assert_eq!(m.end_below(t), end, "{t}");
        }
    }

    #[test]
    fn numbers_below_the_trailing_edge_are_given_up_in_part_of_a_range_too() {
        let mut m = map();
        m.add(10, 12, Nanos(0), Nanos(0));
        m.add(20, 30, Nanos(0), Nanos(0));
        assert_eq!(m.give_up_below(25), 7);
        assert_eq!((ranges(&m), m.missing()), (vec![(25, 30)], 5));
    }

    #[test]
    fn age_gives_up_the_oldest_ranges_only() {
        let mut m = map();
        m.add(10, 12, Nanos(0), Nanos(0));
        m.add(20, 30, Nanos(0) + MS, Nanos(0));
        let now = Nanos(0) + MS * 5;
        assert_eq!(m.next_give_up(MS * 5, heard(now), 30), now);
        assert_eq!(m.give_up_older(now, MS * 5, heard(now), 30), 2);
        assert_eq!(ranges(&m), [(20, 30)]);
    }

    #[test]
    fn what_a_silent_source_cannot_repair_has_time_until_it_is_heard_and_not_for_ever() {
        let at = |t: u32| Nanos(0) + MS * t;
        let (generation, early) = (MS * 100, at(60));
        let mut m = map();
        m.add(10, 12, at(0), at(0));
        assert_eq!(m.next_give_up(generation, heard(at(75)), 30), at(100), "heard in the last quarter");
        assert_eq!(
            (
                m.next_give_up(generation, heard(early), 30),
                m.give_up_older(at(399), generation, heard(early), 30)
            ),
            (at(400), 0)
        );
        let mut forgotten = map();
        forgotten.add(10, 12, at(0), at(0));
        assert_eq!(forgotten.give_up_older(at(400), generation, heard(early), 30), 2);
        // It is heard: what was missing meanwhile gets time, once.
        m.prolong(at(150));
        m.add(20, 21, at(210), at(210));
        assert_eq!(m.next_give_up(generation, heard(at(230)), 30), at(250));
        m.prolong(at(260));
        assert_eq!(m.give_up_older(at(300), generation, heard(at(300)), 30), 2);
        assert_eq!((ranges(&m), m.next_give_up(generation, heard(at(350)), 30)), (vec![(20, 21)], at(360)));
    }

    #[test]
    fn age_gives_up_nothing_that_may_not_have_been_sent_and_it_is_asked_for_no_more() {
        let mut m = map();
        m.add(10, 30, Nanos(0), Nanos(5));
        let now = Nanos(0) + MS;
        assert_eq!(
            (m.next_give_up(MS, heard(now), 20), m.next_give_up(MS, heard(now), 10)),
            (now, Nanos::NEVER)
        );
        assert_eq!(m.give_up_older(now, MS, heard(now), 20), 10);
        assert_eq!((ranges(&m), m.next_give_up(MS, heard(now), 20)), (vec![(20, 30)], Nanos::NEVER));
        assert_eq!(due(&mut m, now), []);
        assert_eq!(m.next_due(), Nanos::NEVER);
        assert_eq!(m.give_up_older(now, MS, heard(now), 40), 10);
    }

    #[test]
    fn a_number_that_was_here_is_missing_again_in_its_place() {
        let mut m = map();
        m.add(20, 22, Nanos(3), Nanos(9));
        assert!(m.add_again(10, None, Nanos(7), Nanos(8)) && m.add_again(25, None, Nanos(7), Nanos(8)));
        assert!(!m.add_again(10, None, Nanos(7), Nanos(8)) && !m.add_again(21, None, Nanos(7), Nanos(8)));
        assert_eq!((ranges(&m), m.missing()), (vec![(10, 11), (20, 22), (25, 26)], 4));
        let gap = m.remove(10).expect("missing");
        assert!(gap.is_doubted && m.add_again(10, Some(Gap { naks: 5, ..gap }), Nanos(7), Nanos(8)));
        assert_eq!(m.remove(10).map(|gap| gap.naks), Some(5));
    }

    #[test]
    fn the_bounds_give_up_the_oldest() {
        let mut m = LossMap::new(2, 100);
        assert_eq!(m.add(10, 12, Nanos(0), Nanos(0)), 0);
        assert_eq!(m.add(20, 22, Nanos(0), Nanos(0)), 0);
        assert_eq!(m.add(30, 32, Nanos(0), Nanos(0)), 2, "a third range");
        assert_eq!(m.add(40, 1_040, Nanos(0), Nanos(0)), 2 + 2 + 900);
        assert_eq!((ranges(&m), m.missing()), (vec![(940, 1_040)], 100));
        assert_eq!(m.given_up_end(), 940);
        assert!(!m.refuse(1_000), "it was not asked for");
        due(&mut m, Nanos(0));
        assert!(m.refuse(1_000) && !m.refuse(1_000));
        assert_eq!(m.given_up_end(), 1_001);
    }

    #[test]
    fn only_what_is_due_is_asked_for_and_again_after_its_wait() {
        let mut m = map();
        m.add(10, 12, Nanos(0), Nanos(5));
        m.add(20, 21, Nanos(0), Nanos(9));
        assert_eq!(m.next_due(), Nanos(5));
        assert_eq!(due(&mut m, Nanos(4)), []);
        assert_eq!(due(&mut m, Nanos(5)), [10, 11]);
        assert_eq!(due(&mut m, Nanos(9)), [20]);
        assert_eq!(due(&mut m, Nanos(5) + MS * 10), [10, 11]);
        assert_eq!(m.remove(10).map(|g| g.naks), Some(2));
    }

    #[test]
    fn a_full_nak_leaves_the_rest_due() {
        let mut m = map();
        m.add(10, 20, Nanos(0), Nanos(5));
        let mut numbers = Vec::new();
        m.collect_due(Nanos(5), |_| MS, 4, &mut numbers);
        assert_eq!(numbers, [Sqn(10), Sqn(11), Sqn(12), Sqn(13)]);
        assert_eq!(due(&mut m, Nanos(5)), [14, 15, 16, 17, 18, 19]);
    }

    #[test]
    fn a_confirmed_number_waits_longer_and_a_confirmed_range_stays_one_range() {
        let mut m = map();
        m.add(10, 20, Nanos(0), Nanos(5));
        assert!(m.put_off(12, MS));
        assert_eq!(ranges(&m), [(10, 12), (12, 13), (13, 20)]);
        assert_eq!(due(&mut m, Nanos(5)), [10, 11, 13, 14, 15, 16, 17, 18, 19]);
        let mut m = map();
        m.add(10, 20, Nanos(0), Nanos(5));
        assert!((10..20).all(|t| m.put_off(t, MS)));
        assert_eq!(ranges(&m), [(10, 20)]);
        assert_eq!(due(&mut m, Nanos(5)), []);
        assert_eq!(m.next_due(), Nanos(5) + MS);
        assert!(!m.put_off(20, MS));
    }

    #[test]
    fn it_agrees_with_a_set_of_numbers_under_random_use() {
        testkit::for_each_seed!(0..50, |seed| {
            let mut rng = Rng::new(seed);
            let (mut m, mut set) = (LossMap::new(1_000, 1_000_000), BTreeSet::new());
            let mut high = 0;
            for _ in 0..500 {
                match rng.below(5) {
                    0 | 1 => {
                        let first = high + rng.below(4);
                        let end = first + 1 + rng.below(20);
                        high = end + 1;
                        m.add(first, end, Nanos(0), Nanos(rng.below(100)));
                        set.extend(first..end);
                    }
                    2 | 3 => {
                        let t = high.saturating_sub(rng.below(200));
                        assert_eq!(m.remove(t).is_some(), set.remove(&t));
                        assert_eq!(m.put_off(t + 1, MS), set.contains(&(t + 1)));
                    }
                    _ => {
                        let trail = high.saturating_sub(150);
                        let before = set.len();
                        set = set.split_off(&trail);
                        assert_eq!(m.give_up_below(trail), (before - set.len()) as u64);
                    }
                }
                assert_eq!(m.missing(), set.len() as u64);
                assert_eq!(m.first(), set.first().copied());
                let in_ranges: Vec<u64> = m.gaps.iter().flat_map(|g| g.first..g.end).collect();
                assert!(in_ranges.iter().eq(set.iter()), "seed {seed}");
            }
        });
    }
}

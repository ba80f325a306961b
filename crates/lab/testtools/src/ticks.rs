//! When updates leave, and which of them are timed: pure, under any clock.
//!
//! A second is divided into ticks. A tick that comes late is made up for at once, so that the rate over time is exact
//! whatever the machine does in between.

use units::{Nanos, Rng};

/// Most ticks a second.
pub const TICKS_MAX: u32 = 100_000;

/// When ticks are due.
#[derive(Clone, Debug)]
pub struct Ticks {
    start: Nanos,
    per_second: u32,
    taken: u64,
    late: u64,
}

impl Ticks {
    /// So many ticks a second, at least one, the first at `start`.
    #[must_use]
    pub fn new(start: Nanos, per_second: u32) -> Ticks {
        Ticks { start, per_second: per_second.max(1), taken: 0, late: 0 }
    }

    /// When the next tick is due.
    #[must_use]
    pub fn next(&self) -> Nanos {
        let since = u128::from(self.taken) * 1_000_000_000 / u128::from(self.per_second);
        Nanos(self.start.0.saturating_add(u64::try_from(since).unwrap_or(u64::MAX)))
    }

    /// The number of the next tick, from 0, if it is due; it is thereby taken.
    pub fn take_due(&mut self, now: Nanos) -> Option<u64> {
        let due = self.next();
        if due > now {
            return None;
        }
        let interval = 1_000_000_000 / u64::from(self.per_second);
        self.late += u64::from(now.0 - due.0 >= interval);
        self.taken += 1;
        Some(self.taken - 1)
    }

    /// Nothing was to be done so far: ticks go on from now, and those that were due are not made up for.
    pub fn skip_to(&mut self, now: Nanos) {
        let missed =
            u128::from(now.0.saturating_sub(self.start.0)) * u128::from(self.per_second) / 1_000_000_000;
        self.taken = self.taken.max(u64::try_from(missed).unwrap_or(u64::MAX));
    }

    /// How many ticks were taken after the next one was due.
    #[must_use]
    pub fn late(&self) -> u64 {
        self.late
    }
}

/// So many things a second, spread over ticks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    /// Things a second.
    pub per_second: u32,
    /// Ticks a second, at least one.
    pub ticks_per_second: u32,
}

impl Rate {
    /// How many fall on a tick. Any second of ticks has exactly as many as the rate says.
    #[must_use]
    pub fn on(&self, tick: u64) -> u32 {
        let ticks = u64::from(self.ticks_per_second.max(1));
        let (rate, place) = (u64::from(self.per_second), tick % ticks);
        ((place + 1) * rate / ticks - place * rate / ticks) as u32
    }

    /// How many ticks of a second have at least one.
    #[must_use]
    pub fn busy_ticks(&self) -> u32 {
        self.per_second.min(self.ticks_per_second)
    }
}

/// How many updates a second carry a time stamp.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StampRate {
    /// So many, at most one a tick.
    PerSecond(u32),
    /// Each one.
    All,
}

impl std::str::FromStr for StampRate {
    type Err = String;

    fn from_str(text: &str) -> Result<StampRate, String> {
        match text {
            "all" => Ok(StampRate::All),
            number => match number.parse() {
                Ok(rate) if rate <= TICKS_MAX => Ok(StampRate::PerSecond(rate)),
                _ => Err(format!("neither `all` nor a number from 0 to {TICKS_MAX}")),
            },
        }
    }
}

impl std::fmt::Display for StampRate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            StampRate::All => f.write_str("all"),
            StampRate::PerSecond(rate) => rate.fmt(f),
        }
    }
}

/// Which messages of a burst are timed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Timed {
    /// None.
    Nothing,
    /// That of this place.
    One(u32),
    /// Each one.
    All,
}

impl Timed {
    /// Whether the message of this place is.
    #[must_use]
    pub fn includes(self, place: u32) -> bool {
        match self {
            Timed::Nothing => false,
            Timed::One(one) => one == place,
            Timed::All => true,
        }
    }
}

/// Chooses the messages that are timed: at random, each tick of a second at most once, so many a second.
#[derive(Clone, Debug)]
pub struct StampPlan {
    rate: StampRate,
    busy_ticks: u32,
    /// Of the present second: ticks with messages that are left, and stamps that they are to carry.
    left: u32,
    wanted: u32,
    rng: Rng,
}

impl StampPlan {
    /// A plan for messages at `messages`, of which `rate` are timed.
    #[must_use]
    pub fn new(rate: StampRate, messages: Rate, seed: u64) -> StampPlan {
        let busy_ticks = messages.busy_ticks();
        StampPlan { rate, busy_ticks, left: 0, wanted: 0, rng: Rng::new(seed) }
    }

    /// What is timed of a burst of `count` messages.
    pub fn next(&mut self, count: u32) -> Timed {
        let StampRate::PerSecond(rate) = self.rate else { return Timed::All };
        if count == 0 || rate == 0 {
            return Timed::Nothing;
        }
        if self.left == 0 {
            self.left = self.busy_ticks.max(1);
            self.wanted = rate.min(self.left);
        }
        // Of the ticks left each is as likely as any other, and the last ones are certain.
        let is_chosen = self.rng.below(self.left.into()) < u64::from(self.wanted);
        self.left -= 1;
        if !is_chosen {
            return Timed::Nothing;
        }
        self.wanted -= 1;
        Timed::One(self.rng.below(count.into()) as u32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn every_second_has_as_many_as_the_rate_says() {
        for (per_second, ticks_per_second) in
            [(0, 1000), (1, 1000), (7, 1000), (999, 1000), (1000, 1000), (1001, 1000), (123_457, 997), (5, 1)]
        {
            let rate = Rate { per_second, ticks_per_second };
            for second in [0_u64, 1, 1_000_000] {
                let first = second * u64::from(ticks_per_second);
                let counts: Vec<u32> =
                    (first..first + u64::from(ticks_per_second)).map(|tick| rate.on(tick)).collect();
                assert_eq!(counts.iter().sum::<u32>(), per_second, "{rate:?}");
                let least = per_second / ticks_per_second;
                assert!(counts.iter().all(|count| (least..=least + 1).contains(count)), "{rate:?}");
                let busy = counts.iter().filter(|count| **count > 0).count();
                assert_eq!(busy as u32, rate.busy_ticks());
            }
        }
    }

    #[test]
    fn ticks_that_come_late_are_made_up_for_at_once() {
        let mut ticks = Ticks::new(Nanos(100), 1000);
        assert_eq!((ticks.take_due(Nanos(99)), ticks.take_due(Nanos(100))), (None, Some(0)));
        assert_eq!((ticks.take_due(Nanos(100)), ticks.next()), (None, Nanos(1_000_100)));
        let after_a_stall = Nanos(100 + SECOND);
        let made_up = std::iter::from_fn(|| ticks.take_due(after_a_stall)).count();
        assert_eq!((made_up, ticks.late()), (1000, 999), "all but the last are late");
        assert!(ticks.next() > after_a_stall);
    }

    #[test]
    fn over_a_long_time_there_are_neither_more_nor_fewer_ticks() {
        for per_second in [1, 3, 7, 1000, 99_991] {
            let mut ticks = Ticks::new(Nanos(5), per_second);
            ticks.skip_to(Nanos(5 + 1_000_000 * SECOND));
            let in_a_second = std::iter::from_fn(|| ticks.take_due(Nanos(4 + 1_000_001 * SECOND))).count();
            assert_eq!(in_a_second as u32, per_second);
        }
    }

    #[test]
    fn ticks_without_anything_to_do_are_not_made_up_for() {
        let mut ticks = Ticks::new(Nanos(0), 1000);
        ticks.skip_to(Nanos(10 * SECOND));
        assert_eq!(ticks.take_due(Nanos(10 * SECOND)), Some(10_000));
        assert_eq!((ticks.take_due(Nanos(10 * SECOND)), ticks.late()), (None, 0));
    }

    #[test]
    fn so_many_stamps_a_second_at_most_one_a_tick_and_each_place_has_its_turn() {
        testkit::for_each_seed!(0..20, |seed| {
            let rate = Rate { per_second: 20_000, ticks_per_second: 1000 };
            let mut plan = StampPlan::new(StampRate::PerSecond(10), rate, seed);
            let mut places = [0; 20];
            for _second in 0..100 {
                let mut stamps = 0;
                for tick in 0..1000 {
                    if let Timed::One(place) = plan.next(rate.on(tick)) {
                        places[place as usize] += 1;
                        stamps += 1;
                    }
                }
                assert_eq!(stamps, 10);
            }
            assert!(places.iter().all(|count| *count > 0), "{places:?}");
        });
    }

    #[test]
    fn slow_messages_have_as_many_stamps_as_there_are_messages_and_none_on_empty_ticks() {
        let rate = Rate { per_second: 3, ticks_per_second: 1000 };
        let mut plan = StampPlan::new(StampRate::PerSecond(10), rate, 1);
        let stamps = (0..1000).filter(|tick| plan.next(rate.on(*tick)) == Timed::One(0)).count();
        assert_eq!(stamps, 3);
        let mut none = StampPlan::new(StampRate::PerSecond(0), rate, 1);
        assert!((0..1000).all(|tick| none.next(rate.on(tick)) == Timed::Nothing));
        assert_eq!(StampPlan::new(StampRate::All, rate, 1).next(5), Timed::All);
    }

    #[test]
    fn a_stamp_rate_is_a_number_or_all() {
        assert_eq!("all".parse(), Ok(StampRate::All));
        assert_eq!("10".parse(), Ok(StampRate::PerSecond(10)));
        assert!("-1".parse::<StampRate>().is_err_and(|e| e.contains("from 0 to")));
    }
}

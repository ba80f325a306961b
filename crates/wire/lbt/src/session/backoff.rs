use crate::config::NakLaw;
use std::time::Duration;
use units::{Nanos, Rng};

/// Draws the wait before the first NAK.
///
/// The weighted law divides the interval into slots, each twice as likely as the one before it; within a
/// slot the moment is evenly drawn. With slots for the logarithm of the group size, about one receiver of
/// the group falls into the early half of them. It is drawn in integers, so that a run repeats on every
/// machine.
pub(crate) fn first_wait(law: NakLaw, interval: Duration, rng: &mut Rng) -> Duration {
    let ns = crate::config::ns(interval);
    Duration::from_nanos(match law {
        NakLaw::Fixed => ns,
        NakLaw::Uniform => ns / 2 + rng.below(ns.saturating_add(1)),
        NakLaw::Weighted { group_size } => {
            let floor = ns / 8;
            floor + weighted(group_size, ns - floor, rng)
        }
    })
}

/// The waits before further NAKs for what was not repaired.
///
/// They are the configured ones, but no less than twice what the quickest repair of late has taken: one that
/// waits in the buffer of a receiver that is behind, or in the queue of a source whose rate limit is reached,
/// is not asked for again and again. Lost repairs do not count in the quickest one, so loss does not make
/// the waits longer. Where five NAKs have brought nothing, the waits double: at 5 % of loss in both ways three in vain come
/// often enough to be seen in the latencies of all that waits behind them (p99 of 28 to 30 ms became 33 to 79).
pub(crate) struct Retries {
    backoff: Duration,
    /// No wait is meant to be longer.
    longest: Duration,
    /// Quickest repairs of this window and the one before.
    quickest: [Duration; 2],
    since: Nanos,
}

const QUICKEST_WINDOW: Duration = Duration::from_secs(1);
/// NAKs for a number before the waits double.
const NAKS_BEFORE_DOUBLING: u16 = 5;

impl Retries {
    pub(crate) fn new(backoff: Duration, generation: Duration) -> Retries {
        let longest = (generation / 4).max(backoff);
        Retries { backoff, longest, quickest: [Duration::MAX; 2], since: Nanos::ZERO }
    }

    /// A datagram that was first asked for at `asked` was sent again and came.
    pub(crate) fn on_repaired(&mut self, now: Nanos, asked: Nanos) {
        if now.since(self.since) >= QUICKEST_WINDOW {
            (self.quickest, self.since) = ([Duration::MAX, self.quickest[0]], now);
        }
        self.quickest[0] = self.quickest[0].min(now.since(asked));
    }

    /// Draws the wait after a NAK for numbers that have been NAKed so often with it.
    pub(crate) fn draw(&self, law: NakLaw, rng: &mut Rng) -> impl Fn(u16) -> Duration + use<> {
        let quickest = self.quickest[0].min(self.quickest[1]);
        let repair = if quickest == Duration::MAX { Duration::ZERO } else { quickest * 2 };
        let (interval, longest) = (repair.clamp(self.backoff, self.longest), self.longest);
        let law = if law == NakLaw::Fixed { NakLaw::Fixed } else { NakLaw::Uniform };
        let wait = first_wait(law, interval, rng);
        move |naks| {
            if units::planted(units::Bug::NaksOnce) {
                return Duration::from_secs(3_600);
            }
            let doublings = naks.saturating_sub(NAKS_BEFORE_DOUBLING).min(16);
            wait.saturating_mul(1 << doublings).min(longest.max(wait))
        }
    }
}

fn weighted(group_size: u16, span_ns: u64, rng: &mut Rng) -> u64 {
    let slots = u64::from(group_size.max(1).ilog2()) + 2;
    // 1 ..= 2^slots - 1 has 2^i numbers whose highest bit is i
    let slot = u64::from((rng.below((1 << slots) - 1) + 1).ilog2());
    let width = span_ns / slots;
    slot * width + rng.below(width + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    const GROUP: usize = 50;
    const ROUND_TRIP_NS: u64 = 100_000;

    /// Mean number of NAKs for one datagram that a whole group lost: a receiver asks unless the first NAK's
    /// retransmission reaches it before.
    fn naks_per_loss(mut draw: impl FnMut(&mut Rng) -> u64) -> f64 {
        let mut rng = Rng::new(1);
        let mut naks = 0;
        for _ in 0..2_000 {
            let waits: Vec<_> = (0..GROUP).map(|_| draw(&mut rng)).collect();
            let first = *waits.iter().min().expect("not empty");
            naks += waits.iter().filter(|&&w| w <= first + ROUND_TRIP_NS).count();
        }
        naks as f64 / 2_000.0
    }

    #[test]
    fn the_weighted_law_costs_a_group_a_third_of_the_naks_of_an_even_draw() {
        let longest = 10 * ROUND_TRIP_NS;
        let law = NakLaw::Weighted { group_size: GROUP as u16 };
        let interval = Duration::from_nanos(longest);
        let weighted = naks_per_loss(|rng| first_wait(law, interval, rng).as_nanos() as u64);
        let even = naks_per_loss(|rng| rng.below(longest + 1));
        assert!((1.5..2.6).contains(&weighted), "{weighted}");
        assert!((5.0..7.0).contains(&even), "{even}");
    }

    #[test]
    fn waits_stay_within_what_the_law_says() {
        let _repeat = testkit::repeat!();
        let interval = Duration::from_micros(1_000);
        let mut rng = Rng::new(2);
        for _ in 0..10_000 {
            let uniform = first_wait(NakLaw::Uniform, interval, &mut rng);
            assert!((interval / 2..=interval * 3 / 2).contains(&uniform), "{uniform:?}");
            let weighted = first_wait(NakLaw::Weighted { group_size: 7 }, interval, &mut rng);
            assert!((interval / 8..=interval).contains(&weighted), "{weighted:?}");
        }
        assert_eq!(first_wait(NakLaw::Fixed, interval, &mut rng), interval);
    }

    #[test]
    fn further_waits_double_after_five_naks_and_are_no_shorter_than_twice_the_quickest_repair() {
        let _repeat = testkit::repeat!();
        let ms = Duration::from_millis;
        let at = |t: u64| Nanos::ZERO + ms(t);
        let mut retries = Retries::new(ms(10), ms(1_000));
        let mut rng = Rng::new(4);
        let mut waits = |r: &Retries| {
            let wait = r.draw(NakLaw::Fixed, &mut rng);
            [1, 2, 3, 4, 5, 8, 9, 1_000].map(|naks| wait(naks).as_millis())
        };
        assert_eq!(waits(&retries), [10, 10, 10, 10, 10, 80, 160, 250]);
        // Most repairs are lost, or take long; one has not.
        for (now, asked) in [(1_100, 1_000), (1_101, 1_098), (1_900, 1_000)] {
            retries.on_repaired(at(now), at(asked));
        }
        assert_eq!(waits(&retries)[..3], [10, 10, 10]);
        // The receiver falls behind: the quick one is forgotten after a while.
        retries.on_repaired(at(2_200), at(2_140));
        assert_eq!(waits(&retries)[..3], [10, 10, 10]);
        retries.on_repaired(at(3_300), at(3_240));
        assert_eq!(waits(&retries)[..5], [120; 5]);
        retries.on_repaired(at(4_400), at(2_400));
        retries.on_repaired(at(5_500), at(3_500));
        assert_eq!(waits(&retries)[..4], [250; 4], "a fourth of the time in which it is given up");
        retries.on_repaired(at(5_600), at(5_599));
        assert_eq!(waits(&retries)[0], 10, "it has caught up");
        let few = Retries::new(ms(10), ms(20));
        assert_eq!(waits(&few), [10; 8]);
    }

    #[test]
    fn no_interval_is_no_wait() {
        let _repeat = testkit::repeat!();
        let mut rng = Rng::new(3);
        for law in [NakLaw::Fixed, NakLaw::Uniform, NakLaw::Weighted { group_size: 1 }] {
            assert!(first_wait(law, Duration::ZERO, &mut rng) <= Duration::from_nanos(1), "{law:?}");
        }
    }
}

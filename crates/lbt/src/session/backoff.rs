use crate::config::NakLaw;
use std::time::Duration;
use units::Rng;

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

/// Draws the wait before a further NAK.
pub(crate) fn next_wait(law: NakLaw, interval: Duration, rng: &mut Rng) -> Duration {
    let law = if law == NakLaw::Fixed { NakLaw::Fixed } else { NakLaw::Uniform };
    first_wait(law, interval, rng)
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
        let interval = Duration::from_micros(1_000);
        let mut rng = Rng::new(2);
        for _ in 0..10_000 {
            let uniform = first_wait(NakLaw::Uniform, interval, &mut rng);
            assert!((interval / 2..=interval * 3 / 2).contains(&uniform), "{uniform:?}");
            let weighted = first_wait(NakLaw::Weighted { group_size: 7 }, interval, &mut rng);
            assert!((interval / 8..=interval).contains(&weighted), "{weighted:?}");
        }
        assert_eq!(first_wait(NakLaw::Fixed, interval, &mut rng), interval);
        assert_eq!(next_wait(NakLaw::Fixed, interval, &mut rng), interval);
    }

    #[test]
    fn no_interval_is_no_wait() {
        let mut rng = Rng::new(3);
        for law in [NakLaw::Fixed, NakLaw::Uniform, NakLaw::Weighted { group_size: 1 }] {
            assert!(first_wait(law, Duration::ZERO, &mut rng) <= Duration::from_nanos(1), "{law:?}");
        }
    }
}

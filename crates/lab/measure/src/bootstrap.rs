use crate::Runs;

/// Runs of each side that a comparison needs: the medians of fewer are the same few again and again.
pub const COMPARED_MIN: usize = 5;

const RESAMPLES: usize = 4_000;

/// How one series of runs compares with another.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Comparison {
    /// Median to median.
    pub ratio: f64,
    /// 95 % confidence interval of that ratio.
    pub interval: (f64, f64),
}

impl Comparison {
    /// The ratio of the medians, with the percentile interval of the bootstrap over runs (Efron and Tibshirani, An
    /// Introduction to the Bootstrap, chapter 13): both series are drawn anew from their own runs, many times. The same runs
    /// always give the same interval. None with fewer than [`COMPARED_MIN`] runs on a side, or with figures that are not
    /// above 0.
    #[must_use]
    pub fn of(new: &Runs, old: &Runs) -> Option<Comparison> {
        let usable = |runs: &Runs| {
            let is_positive = |figure: &f64| figure.is_finite() && *figure > 0.0;
            runs.figures().len() >= COMPARED_MIN && runs.figures().iter().all(is_positive)
        };
        if !usable(new) || !usable(old) {
            return None;
        }
        let mut draws = Draws(0x9e37_79b9_7f4a_7c15);
        let mut ratios: Vec<f64> =
            (0..RESAMPLES).map(|_| draws.median(new.figures()) / draws.median(old.figures())).collect();
        ratios.sort_by(f64::total_cmp);
        let interval = (ratios[RESAMPLES / 40], ratios[RESAMPLES - 1 - RESAMPLES / 40]);
        Some(Comparison { ratio: new.median() / old.median(), interval })
    }

    /// Whether noise alone is no explanation: the interval has 1 outside.
    #[must_use]
    pub fn is_change(&self) -> bool {
        self.interval.1 < 1.0 || self.interval.0 > 1.0
    }
}

/// Numbers of splitmix64 (Steele, Lea and Flood, Fast Splittable Pseudorandom Number Generators): the choice of runs has to
/// be even, not secret.
struct Draws(u64);

impl Draws {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// The median of as many figures as there are, each drawn from all of them.
    fn median(&mut self, figures: &[f64]) -> f64 {
        let draw = |_| figures[(self.next() % figures.len() as u64) as usize];
        (0..figures.len()).map(draw).collect::<Runs>().median()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Figures around 100 with a long tail, as latencies have.
    fn noisy(draws: &mut Draws, scale: f64) -> Runs {
        let mut uniform = || (draws.next() >> 11) as f64 / (1_u64 << 53) as f64;
        (0..7).map(|_| scale * 100.0 * (1.0 + 0.2 * (1.0 - uniform()).ln().abs())).collect()
    }

    #[test]
    fn noise_is_seldom_called_a_change_and_a_change_seldom_noise() {
        let mut draws = Draws(7);
        let mut found = |scale: f64| {
            let one = |_: &u32| {
                let (new, old) = (noisy(&mut draws, scale), noisy(&mut draws, 1.0));
                Comparison::of(&new, &old).expect("seven runs each").is_change()
            };
            (0..300).filter(one).count()
        };
        let (noise, change) = (found(1.0), found(2.0));
        assert!(noise < 30, "{noise} of 300 times noise was a change");
        assert!(change > 290, "only {change} of 300 times twice as much was a change");
    }

    #[test]
    fn an_interval_lies_around_its_ratio() {
        let runs = |figures: [f64; 5]| figures.into_iter().collect::<Runs>();
        let (new, old) = (runs([11.0, 12.0, 10.0, 13.0, 11.5]), runs([5.0, 5.5, 6.0, 5.2, 5.1]));
        let compared = Comparison::of(&new, &old).expect("five runs each");
        assert_eq!(compared, Comparison::of(&new, &old).expect("the same"));
        assert!((compared.ratio - 11.5 / 5.2).abs() < 1e-12);
        assert!(compared.interval.0 <= compared.ratio && compared.ratio <= compared.interval.1);
        assert!(compared.is_change());
        let few: Runs = [1.0, 2.0].into_iter().collect();
        assert_eq!(Comparison::of(&few, &old), None);
        assert_eq!(Comparison::of(&runs([0.0, 1.0, 1.0, 1.0, 1.0]), &old), None);
    }
}

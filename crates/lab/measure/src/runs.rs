/// The same figure from several runs.
#[derive(Clone, Debug, Default)]
pub struct Runs(Vec<f64>);

impl Runs {
    /// Adds one run's figure.
    pub fn add(&mut self, value: f64) {
        self.0.push(value);
    }

    /// The middle figure (the mean of the two middle ones when there is an even number); not a number without
    /// runs.
    #[must_use]
    pub fn median(&self) -> f64 {
        let mut sorted = self.0.clone();
        sorted.sort_by(f64::total_cmp);
        match sorted.len() {
            0 => f64::NAN,
            n if n % 2 == 1 => sorted[n / 2],
            n => f64::midpoint(sorted[n / 2 - 1], sorted[n / 2]),
        }
    }

    /// Each figure in ratio to the one of another series that was made in the same round.
    #[must_use]
    pub fn ratios_to(&self, others: &Runs) -> Runs {
        self.0.iter().zip(&others.0).map(|(one, other)| one / other).collect()
    }

    /// An interval that holds the median of all runs that there might be with a confidence of at least 95 %; none of
    /// fewer than six runs.
    ///
    /// It is the one between two of the figures in order, whatever their distribution is: the median is below the
    /// k-th lowest only if fewer than k of n figures are below it, which has a binomial probability (Conover,
    /// Practical Nonparametric Statistics, section 3.2).
    #[must_use]
    pub fn interval95(&self) -> Option<(f64, f64)> {
        let n = self.0.len();
        let mut sorted = self.0.clone();
        sorted.sort_by(f64::total_cmp);
        // Probability that exactly so many figures are below the median, and that so many or fewer are.
        let (mut exactly, mut at_most, mut rank) = (0.5_f64.powi(i32::try_from(n).ok()?), 0.0, 0);
        while at_most + exactly <= 0.025 {
            at_most += exactly;
            exactly *= (n - rank) as f64 / (rank + 1) as f64;
            rank += 1;
        }
        Some((*sorted.get(rank.checked_sub(1)?)?, *sorted.get(n - rank)?))
    }

    /// Each run's figure, in the order in which they were added.
    #[must_use]
    pub fn figures(&self) -> &[f64] {
        &self.0
    }

    /// The lowest and the highest figure.
    #[must_use]
    pub fn range(&self) -> (f64, f64) {
        self.0.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), v| (low.min(*v), high.max(*v)))
    }
}

impl FromIterator<f64> for Runs {
    fn from_iter<T: IntoIterator<Item = f64>>(values: T) -> Self {
        Runs(values.into_iter().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interval_of_a_median_is_between_the_ranks_of_the_tables() {
        // Ranks for 95 % from tables of the sign test.
        for (n, rank) in [(6, 1), (8, 1), (9, 2), (10, 2), (12, 3), (15, 4), (20, 6), (25, 8), (30, 10)] {
            let runs: Runs = (1..=n).rev().map(f64::from).collect();
            assert_eq!(runs.interval95(), Some((f64::from(rank), f64::from(n + 1 - rank))), "{n} runs");
        }
        assert_eq!((1..=5).map(f64::from).collect::<Runs>().interval95(), None);
        assert_eq!(Runs::default().interval95(), None);
    }

    #[test]
    fn ratios_are_those_of_figures_of_one_round() {
        let of = |figures: [f64; 3]| figures.into_iter().collect::<Runs>();
        let ratios = of([2.0, 9.0, 4.0]).ratios_to(&of([1.0, 3.0, 4.0]));
        assert_eq!((ratios.median(), ratios.range()), (2.0, (1.0, 3.0)));
    }

    #[test]
    fn the_median_ignores_one_bad_run() {
        let runs: Runs = [3.0, 900.0, 1.0].into_iter().collect();
        assert_eq!(runs.median(), 3.0);
        assert_eq!(runs.range(), (1.0, 900.0));
        assert_eq!([1.0, 2.0].into_iter().collect::<Runs>().median(), 1.5);
        assert!(Runs::default().median().is_nan());
    }
}

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
    fn the_median_ignores_one_bad_run() {
        let runs: Runs = [3.0, 900.0, 1.0].into_iter().collect();
        assert_eq!(runs.median(), 3.0);
        assert_eq!(runs.range(), (1.0, 900.0));
        assert_eq!([1.0, 2.0].into_iter().collect::<Runs>().median(), 1.5);
        assert!(Runs::default().median().is_nan());
    }
}

//! The highest rate that something sustains: doubling finds a bracket, its geometric middle narrows it, and runs at the
//! lower end confirm what was found.

/// What came of a run at some rate.
pub(crate) trait Trial {
    /// Nothing was lost, and nothing fell behind.
    fn is_sustained(&self) -> bool;
}

/// How to search.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Search {
    /// The first rate that is tried, in messages a second.
    pub(crate) from: f64,
    /// Rates below the first and above the second are not tried, unless the first rate is outside.
    pub(crate) bounds: (f64, f64),
    /// The bracket is narrow enough when its upper end is at most this part above the lower one.
    pub(crate) precision: f64,
    /// Runs at the rate that was found, all of which have to be sustained.
    pub(crate) confirmations: u32,
}

/// What was found.
#[derive(Debug)]
pub(crate) struct Found<T> {
    /// The highest rate that was sustained and confirmed; none if that is true of no rate that was tried.
    pub(crate) rate: Option<f64>,
    /// The runs that have confirmed it.
    pub(crate) runs: Vec<T>,
    /// The lowest rate that was not sustained, and the run that says so; none if there was none.
    pub(crate) above: Option<(f64, T)>,
    /// Runs in all.
    pub(crate) trials: u32,
}

/// How often a rate that is not confirmed is lowered, by the precision.
const STEPS_DOWN: u32 = 8;

impl Search {
    /// Searches with `run`, which makes a run at a rate. A run that is not sustained is repeated once: a machine that stood
    /// still for a moment says nothing about the rate.
    ///
    /// # Errors
    /// The first one of `run`.
    pub(crate) fn highest<T: Trial, E>(&self, run: impl FnMut(f64) -> Result<T, E>) -> Result<Found<T>, E> {
        let mut bracket = Bracket { run, low: None, high: None, trials: 0 };
        let (lowest, highest) = self.bounds;
        let mut rate = self.from;
        loop {
            match bracket.narrow(rate)? {
                true if bracket.high.is_some() || rate * 2.0 > highest => break,
                true => rate *= 2.0,
                false if bracket.low.is_some() || rate / 2.0 < lowest => break,
                false => rate /= 2.0,
            }
        }
        while let Some(middle) = bracket.middle(self.precision) {
            bracket.narrow(middle)?;
        }
        let mut steps = 0;
        let mut runs = Vec::new();
        while let Some(rate) = bracket.low.filter(|_| (runs.len() as u32) < self.confirmations) {
            let (trial, is_sustained) = bracket.attempt(rate)?;
            if is_sustained {
                runs.push(trial);
                continue;
            }
            runs.clear();
            steps += 1;
            let lower = rate / (1.0 + self.precision);
            bracket.low = (steps <= STEPS_DOWN && lower >= lowest).then_some(lower);
            bracket.high = Some((rate, trial));
        }
        Ok(Found { rate: bracket.low, runs, above: bracket.high, trials: bracket.trials })
    }
}

/// Between a rate that was sustained and one that was not.
struct Bracket<T, R> {
    run: R,
    low: Option<f64>,
    high: Option<(f64, T)>,
    trials: u32,
}

impl<T: Trial, E, R: FnMut(f64) -> Result<T, E>> Bracket<T, R> {
    /// A run, or two of them; whether the last one was sustained.
    fn attempt(&mut self, rate: f64) -> Result<(T, bool), E> {
        let mut attempt = || {
            self.trials += 1;
            let trial = (self.run)(rate)?;
            let is_sustained = trial.is_sustained();
            Ok((trial, is_sustained))
        };
        let first = attempt()?;
        if first.1 { Ok(first) } else { attempt() }
    }

    /// Makes a rate one of the ends; whether it is sustained.
    fn narrow(&mut self, rate: f64) -> Result<bool, E> {
        let (trial, is_sustained) = self.attempt(rate)?;
        if is_sustained {
            self.low = Some(rate);
        } else {
            self.high = Some((rate, trial));
        }
        Ok(is_sustained)
    }

    /// Where to look next, if the ends are too far apart.
    fn middle(&self, precision: f64) -> Option<f64> {
        let (low, high) = (self.low?, self.high.as_ref()?.0);
        (high > low * (1.0 + precision)).then(|| (low * high).sqrt())
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use units::Rng;

    use super::*;

    #[derive(Debug)]
    struct Run {
        rate: f64,
        is_sustained: bool,
    }

    impl Trial for Run {
        fn is_sustained(&self) -> bool {
            self.is_sustained
        }
    }

    const SEARCH: Search = Search { from: 100e3, bounds: (1e3, 100e6), precision: 0.05, confirmations: 5 };

    /// A system that takes so much; `stalls` says whether the machine stands still in this run.
    fn search(search: Search, capacity: f64, mut stalls: impl FnMut() -> bool) -> Found<Run> {
        let run = |rate| Ok::<_, Infallible>(Run { rate, is_sustained: rate <= capacity && !stalls() });
        let found = search.highest(run).unwrap_or_else(|never| match never {});
        if let Some(rate) = found.rate {
            assert!(rate <= capacity, "{found:?}");
            assert_eq!(found.runs.len(), search.confirmations as usize);
            assert!(found.runs.iter().all(|run| run.is_sustained && run.rate == rate), "{found:?}");
        }
        if let Some((high, run)) = &found.above {
            assert!(found.rate.is_none_or(|rate| rate < *high));
            assert!(!run.is_sustained && run.rate == *high);
        }
        found
    }

    fn capacity(rng: &mut Rng) -> f64 {
        1e3 * 100e3f64.powf(rng.below(1_000) as f64 / 1_000.0)
    }

    #[test]
    fn the_capacity_lies_in_the_bracket_wherever_the_search_begins() {
        testkit::for_each_seed!(0..200, |seed| {
            let mut rng = Rng::new(seed);
            let (capacity, from) = (capacity(&mut rng), 1e3 + rng.below(100_000_000) as f64);
            let found = search(Search { from, ..SEARCH }, capacity, || false);
            let (Some(rate), Some((high, _))) = (found.rate, &found.above) else {
                // The bounds end the search before the capacity does.
                assert!(!(2e3..=50e6).contains(&capacity), "{capacity}: {found:?}");
                return;
            };
            assert!(*high > capacity && *high <= rate * 1.05, "{capacity}: {found:?}");
            assert!(found.trials < 60, "{found:?}");
        });
    }

    #[test]
    fn a_machine_that_stands_still_for_a_moment_changes_nothing() {
        testkit::for_each_seed!(0..200, |seed| {
            let mut rng = Rng::new(seed);
            let capacity = capacity(&mut rng);
            let quiet = search(SEARCH, capacity, || false);
            // Never in two runs, one after the other.
            let mut stood = false;
            let noisy = search(SEARCH, capacity, || {
                stood = !stood && rng.below(3) == 0;
                stood
            });
            assert_eq!(noisy.rate, quiet.rate);
            assert!(noisy.trials >= quiet.trials);
        });
    }

    #[test]
    fn a_machine_that_never_rests_ends_the_search_all_the_same() {
        testkit::for_each_seed!(0..500, |seed| {
            let mut rng = Rng::new(seed);
            let (capacity, odds) = (capacity(&mut rng), 1 + rng.below(4));
            let found = search(SEARCH, capacity, || rng.below(odds) == 0);
            assert!(found.trials < 200, "{found:?}");
            assert!(found.rate.is_some() || found.above.is_some());
        });
    }

    #[test]
    fn what_is_not_confirmed_is_lowered_step_by_step() {
        // Sustained as long as it is searched, then less and less.
        let mut trials = 0;
        let run = |rate: f64| {
            trials += 1;
            let capacity = if trials <= 9 { 1e6 } else { 0.8e6 };
            Ok::<_, Infallible>(Run { rate, is_sustained: rate <= capacity })
        };
        let found = Search { confirmations: 2, ..SEARCH }.highest(run).unwrap_or_else(|never| match never {});
        let (rate, high) = (found.rate.expect("0.8 M is sustained"), found.above.expect("1 M is not").0);
        assert!(rate <= 0.8e6 && rate * 1.05 > 0.8e6 && high > 0.8e6, "{rate} {high}");
        assert_eq!(found.runs.len(), 2);
    }

    #[test]
    fn nothing_is_found_where_nothing_is_sustained_and_no_end_where_everything_is() {
        let nothing = search(SEARCH, 0.0, || false);
        assert!(nothing.rate.is_none() && nothing.runs.is_empty());
        assert!(nothing.above.is_some_and(|(rate, _)| (1e3..2e3).contains(&rate)));
        let everything = search(SEARCH, f64::INFINITY, || false);
        assert!(everything.above.is_none() && everything.rate.is_some_and(|rate| rate > 50e6));
        let error = SEARCH.highest(|_| Err::<Run, _>("broken"));
        assert_eq!(error.expect_err("the first run ends it"), "broken");
    }
}

//! The highest rate that something sustains: doubling finds a bracket, its geometric middle narrows it, and runs at the
//! lower end confirm what was found. With a [`Bound`], a rate is sustained only if a percentile of its latencies is under
//! it.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use clap::Args;
use measure::{PERCENTILES, Summary};
use serde_json::{Value, json};

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
        let mut bracket = Ends { run, low: None, high: None, trials: 0 };
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
struct Ends<T, R> {
    run: R,
    low: Option<f64>,
    high: Option<(f64, T)>,
    trials: u32,
}

impl<T: Trial, E, R: FnMut(f64) -> Result<T, E>> Ends<T, R> {
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

/// What latencies a run came to.
pub(crate) trait Timed {
    /// None if nothing was timed, which keeps no bound.
    fn latencies(&self) -> Option<Summary>;
}

/// A percentile, by its place in [`PERCENTILES`]; none for the longest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Percentile(Option<usize>);

impl Percentile {
    /// Of the latencies of a run, nanoseconds.
    pub(crate) fn of(self, summary: &Summary) -> u64 {
        self.0.map_or(summary.max_ns, |at| PERCENTILES[at].2(summary))
    }

    /// As a table calls it.
    pub(crate) fn name(self) -> &'static str {
        self.0.map_or("maximum", |at| PERCENTILES[at].0)
    }
}

impl fmt::Display for Percentile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.map_or("max", |at| PERCENTILES[at].0.trim_start_matches('p')))
    }
}

impl FromStr for Percentile {
    type Err = String;

    fn from_str(word: &str) -> Result<Percentile, String> {
        let known = |at: &usize| PERCENTILES[*at].0.trim_start_matches('p') == word;
        match (0..PERCENTILES.len()).find(known) {
            Some(at) => Ok(Percentile(Some(at))),
            None if word == "max" => Ok(Percentile(None)),
            None => Err("50, 90, 99, 99.9, 99.99, 99.999, 99.9999 or max".to_owned()),
        }
    }
}

/// What a percentile of the latencies of each run has to stay under.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bound {
    pub(crate) percentile: Percentile,
    pub(crate) under: Duration,
}

impl Bound {
    /// Whether a run is under it. One with too few points for the percentile is judged by its longest.
    pub(crate) fn holds(self, summary: &Summary) -> bool {
        summary.count > 0 && u128::from(self.percentile.of(summary)) < self.under.as_nanos()
    }
}

/// A run that is judged by a bound as well, if there is one.
#[derive(Debug)]
pub(crate) struct Bounded<T> {
    pub(crate) trial: T,
    pub(crate) bound: Option<Bound>,
}

impl<T: Timed> Bounded<T> {
    /// Whether its latencies are under the bound.
    pub(crate) fn is_under(&self) -> bool {
        self.bound.is_none_or(|bound| self.trial.latencies().is_some_and(|seen| bound.holds(&seen)))
    }
}

impl<T: Trial + Timed> Trial for Bounded<T> {
    fn is_sustained(&self) -> bool {
        self.trial.is_sustained() && self.is_under()
    }
}

/// Where a search ended.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bracket {
    /// The highest rate that is sustained, and the lowest that is not.
    pub(crate) low: Option<f64>,
    pub(crate) high: Option<f64>,
    /// Runs in all.
    pub(crate) trials: u32,
}

/// Searches with processes that stay from one run to the next. `run` gives none back where they have broken; then `start`
/// makes new ones for the next run.
///
/// # Errors
/// The first one of `start`.
pub(crate) fn highest_of_processes<C, T: Trial, E>(
    search: Search,
    first: C,
    mut start: impl FnMut() -> Result<C, E>,
    mut run: impl FnMut(C, f64) -> (T, Option<C>),
) -> Result<Found<T>, E> {
    let mut waiting = Some(first);
    search.highest(|rate| {
        let present = waiting.take().map_or_else(&mut start, Ok)?;
        let (trial, still_good) = run(present, rate);
        waiting = still_good;
        Ok(trial)
    })
}

impl<T> Found<T> {
    /// The rate that is sustained with the runs that confirm it, and the lowest that is not, with its run.
    pub(crate) fn rates(&self) -> impl Iterator<Item = (f64, &[T])> {
        let sustained = self.rate.map(|rate| (rate, &self.runs[..]));
        let above = self.above.as_ref().map(|(rate, run)| (*rate, std::slice::from_ref(run)));
        sustained.into_iter().chain(above)
    }

    pub(crate) fn bracket(&self) -> Bracket {
        Bracket { low: self.rate, high: self.above.as_ref().map(|(rate, _)| *rate), trials: self.trials }
    }
}

impl Bracket {
    /// Cells for the two columns of [`SEARCH_HEADS`].
    pub(crate) fn cells(self) -> [String; 2] {
        let shown = |rate: Option<f64>| rate.map_or_else(|| "-".to_owned(), |rate| format!("{rate:.0}"));
        [format!("{} to {}", shown(self.low), shown(self.high)), self.trials.to_string()]
    }

    /// The same for programs, into a row.
    pub(crate) fn put(self, row: &mut Value, bound: Option<Bound>) {
        row["bracket"] = json!({ "low": self.low, "high": self.high });
        row["trials"] = json!(self.trials);
        row["bound"] = bound.map_or(Value::Null, |bound| {
            let percentile = bound.percentile.to_string();
            json!({ "percentile": percentile, "under_ns": bound.under.as_nanos() as u64 })
        });
    }
}

/// Heads of the columns that a search has beside those of a table.
pub(crate) const SEARCH_HEADS: [&str; 2] = ["bracket, a second", "tries"];

/// Whether and how a workload searches the highest rate.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct SearchArgs {
    /// Searches the highest rate that is sustained, in place of measuring at given rates.
    #[arg(long, conflicts_with = "rates")]
    search: bool,
    /// Searches the highest rate at which a percentile of the latencies also stays under this time: 500us, 1ms.
    #[arg(long, value_name = "TIME", conflicts_with = "rates", value_parser = time)]
    under: Option<Duration>,
    /// The percentile that --under is about: 50, 90, 99 to 99.9999, or max. Where other programs share the machine, or it is
    /// a virtual one, the longest latency is the machine's.
    #[arg(long, value_name = "PERCENT", requires = "under", default_value_t = Percentile(Some(2)))]
    percentile: Percentile,
    /// The first rate that a search tries, a second. It doubles it, or halves it, until it has one that is sustained and one
    /// that is not.
    #[arg(long, value_name = "RATE", default_value_t = 10_000, value_parser = clap::value_parser!(u64).range(100..=100_000_000))]
    from: u64,
    /// A search ends when the lowest rate that is not sustained is at most so many percent above the highest that is.
    #[arg(long, value_name = "PERCENT", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=100))]
    precision: u32,
}

/// Rates that a search does not leave, a second.
const BOUNDS: (f64, f64) = (100.0, 100e6);

impl SearchArgs {
    /// Whether there is one.
    pub(crate) fn is_on(self) -> bool {
        self.search || self.under.is_some()
    }

    pub(crate) fn bound(self) -> Option<Bound> {
        self.under.map(|under| Bound { percentile: self.percentile, under })
    }

    /// The first rate.
    pub(crate) fn from(self) -> f64 {
        self.from as f64
    }

    /// The search, the result of which is confirmed by so many runs.
    pub(crate) fn search(self, confirmations: u32) -> Search {
        let precision = f64::from(self.precision) / 100.0;
        Search { from: self.from(), bounds: BOUNDS, precision, confirmations }
    }

    /// For the notes below a table.
    pub(crate) fn describe(self, runs: u32) -> String {
        let bound = self.bound().map_or(String::new(), |bound| {
            format!(" with a {} under {:?} in each run", bound.percentile.name(), bound.under)
        });
        format!(
            "The highest rate that is sustained{bound}, found within {} % and confirmed by {runs} runs, and the lowest that is \
             not.",
            self.precision
        )
    }
}

/// A time with its unit.
fn time(word: &str) -> Result<Duration, String> {
    let at = word.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(word.len());
    let (number, unit) = word.split_at(at);
    let scale = [("ns", 1.0), ("us", 1e3), ("ms", 1e6), ("s", 1e9)];
    let scale = scale.iter().find(|(name, _)| *name == unit).map(|(_, scale)| scale);
    let ns = scale.zip(number.parse::<f64>().ok()).map(|(scale, number)| (scale * number).round());
    let legal = ns.filter(|ns| (1e3..=60e9).contains(ns));
    legal.map(|ns| Duration::from_nanos(ns as u64)).ok_or_else(|| "1us to 60s, in ns, us, ms or s".to_owned())
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

    /// A run whose latencies grow with the rate.
    #[derive(Debug)]
    struct Loaded {
        is_sustained: bool,
        summary: Summary,
    }

    impl Trial for Loaded {
        fn is_sustained(&self) -> bool {
            self.is_sustained
        }
    }

    impl Timed for Loaded {
        fn latencies(&self) -> Option<Summary> {
            Some(self.summary.clone())
        }
    }

    /// A queue: the latency is 50 us without load, and grows without bound towards the capacity.
    fn loaded(rate: f64, capacity: f64) -> Loaded {
        let p99_ns = 50e3 / (1.0 - (rate / capacity).min(0.999_999));
        let summary = Summary {
            count: 1_000,
            p50_ns: (p99_ns / 4.0) as u64,
            p99_ns: p99_ns as u64,
            max_ns: (p99_ns * 10.0) as u64,
            ..Summary::default()
        };
        Loaded { is_sustained: rate <= capacity, summary }
    }

    fn under(bound: Option<Bound>, capacity: f64) -> Found<Bounded<Loaded>> {
        let run = |rate| Ok::<_, Infallible>(Bounded { trial: loaded(rate, capacity), bound });
        SEARCH.highest(run).unwrap_or_else(|never| match never {})
    }

    #[test]
    fn the_highest_rate_under_a_bound_is_the_one_where_the_percentile_reaches_it() {
        testkit::for_each_seed!(0..200, |seed| {
            let mut rng = Rng::new(seed);
            let capacity = 10e3 * 1e3f64.powf(rng.below(1_000) as f64 / 1_000.0);
            let under_ns = 100_000 + rng.below(10_000_000);
            let bound = |percentile: &str| Bound {
                percentile: percentile.parse().expect("known"),
                under: Duration::from_nanos(under_ns),
            };
            // p99 is 50 us / (1 - load), the longest ten times that, the median a quarter of it.
            for (percentile, times) in [("99", 1.0), ("max", 10.0), ("50", 0.25)] {
                let exact = capacity * (1.0 - times * 50e3 / under_ns as f64);
                let found = under(Some(bound(percentile)), capacity);
                let bracket = found.bracket();
                if exact < 2.0 * SEARCH.bounds.0 {
                    continue;
                }
                let (low, high) = bracket.low.zip(bracket.high).expect("a bracket");
                assert!(low <= exact * 1.001 && high * 1.001 >= exact, "{exact}: {bracket:?}");
                assert!(high <= low * 1.05, "{bracket:?}");
                assert!(found.runs.iter().all(|run| run.is_under() && run.is_sustained()));
                assert!(found.above.is_some_and(|(_, run)| !run.is_sustained()));
            }
            let without = under(None, capacity).bracket();
            assert!(without.low.is_some_and(|low| low <= capacity && low * 1.05 >= capacity));
        });
    }

    #[test]
    fn what_was_not_timed_keeps_no_bound() {
        let bound = Bound { percentile: Percentile(None), under: Duration::from_secs(1) };
        let none = Loaded { is_sustained: true, summary: Summary::default() };
        assert!(!Bounded { trial: none, bound: Some(bound) }.is_sustained());
        let none = Loaded { is_sustained: true, summary: Summary::default() };
        assert!(Bounded { trial: none, bound: None }.is_sustained());
        let at = |max_ns| Summary { count: 1, max_ns, ..Summary::default() };
        assert!(bound.holds(&at(999_999_999)) && !bound.holds(&at(1_000_000_000)));
    }

    #[test]
    fn bounds_are_read_with_their_units_and_percentiles_by_their_names() {
        for (word, ns) in [("1us", 1_000), ("1500ns", 1_500), ("0.5ms", 500_000), ("60s", 60_000_000_000)] {
            assert_eq!(time(word), Ok(Duration::from_nanos(ns)));
        }
        for word in ["", "1", "1h", "ms", "0us", "999ns", "61s", "-1ms", "nans", "infs", "1e400s"] {
            assert_eq!(time(word), Err("1us to 60s, in ns, us, ms or s".to_owned()), "{word}");
        }
        for word in ["50", "90", "99", "99.9", "99.99", "99.999", "99.9999", "max"] {
            assert_eq!(word.parse::<Percentile>().expect(word).to_string(), word);
        }
        assert!("98".parse::<Percentile>().is_err() && "p99".parse::<Percentile>().is_err());
        let (cells, mut row) = (Bracket { low: Some(5.4), high: None, trials: 7 }, json!({}));
        assert_eq!(cells.cells(), ["5 to -", "7"]);
        let bound = Bound { percentile: Percentile(Some(2)), under: Duration::from_millis(1) };
        cells.put(&mut row, Some(bound));
        let said = json!({ "percentile": "99", "under_ns": 1_000_000 });
        assert_eq!((&row["bound"], &row["bracket"]["low"], &row["trials"]), (&said, &json!(5.4), &json!(7)));
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

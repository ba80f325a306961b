//! The highest rate that a contender sustains which nothing but its sender's rate holds back.

use std::time::Duration;

use crate::BenchError;
use crate::pair::{Contender, EndArgs, Pace, Streamed};
use crate::search::{Search, Trial};

/// By doubling from a million messages a second, and until 3 % are left open. The runs that count are made later.
const SEARCH: Search = Search { from: 1e6, bounds: (100e3, 100e6), precision: 0.03, confirmations: 0 };
/// Longest trial.
const TRIAL: Duration = Duration::from_millis(300);
/// What a rate is lowered to when it was not sustained after all.
const STEP_DOWN: f64 = 0.93;
/// How often that is done in one run.
const STEPS: u32 = 8;

/// A rate in messages a second, known better with each run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sustained(f64);

impl Sustained {
    /// Searches for it with short runs.
    pub(crate) fn search(
        contender: &Contender,
        ends: &[EndArgs],
        span: Duration,
    ) -> Result<Sustained, BenchError> {
        let found = SEARCH.highest(|rate| run(contender, ends, span.min(TRIAL), rate))?;
        Ok(Sustained(found.rate.unwrap_or(SEARCH.bounds.0)))
    }

    /// A run at the rate, which is lowered until one is sustained. One that never is counts as it is.
    pub(crate) fn run(
        &mut self,
        contender: &Contender,
        ends: &[EndArgs],
        span: Duration,
    ) -> Result<Vec<Streamed>, BenchError> {
        let mut streams = run(contender, ends, span, self.0)?;
        for _ in 0..STEPS {
            if streams.is_sustained() {
                break;
            }
            self.0 *= STEP_DOWN;
            streams = run(contender, ends, span, self.0)?;
        }
        Ok(streams)
    }
}

/// Of all pairs of a run.
impl Trial for Vec<Streamed> {
    fn is_sustained(&self) -> bool {
        self.iter().all(Streamed::is_sustained)
    }
}

/// The rate is that of all pairs together.
fn run(
    contender: &Contender,
    ends: &[EndArgs],
    span: Duration,
    rate: f64,
) -> Result<Vec<Streamed>, BenchError> {
    contender.streams(ends, span, Pace::Untimed(rate).shared_by(ends.len()))
}

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
        end: &EndArgs,
        span: Duration,
    ) -> Result<Sustained, BenchError> {
        let found = SEARCH.highest(|rate| run(contender, end, span.min(TRIAL), rate))?;
        Ok(Sustained(found.rate.unwrap_or(SEARCH.bounds.0)))
    }

    /// A run at the rate, which is lowered until one is sustained. One that never is counts as it is.
    pub(crate) fn run(
        &mut self,
        contender: &Contender,
        end: &EndArgs,
        span: Duration,
    ) -> Result<Streamed, BenchError> {
        let mut streamed = run(contender, end, span, self.0)?;
        for _ in 0..STEPS {
            if streamed.is_sustained() {
                break;
            }
            self.0 *= STEP_DOWN;
            streamed = run(contender, end, span, self.0)?;
        }
        Ok(streamed)
    }
}

impl Trial for Streamed {
    fn is_sustained(&self) -> bool {
        Streamed::is_sustained(self)
    }
}

fn run(contender: &Contender, end: &EndArgs, span: Duration, rate: f64) -> Result<Streamed, BenchError> {
    contender.stream(end, span, Pace::Untimed(rate as u64))
}

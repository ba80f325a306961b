//! The highest rate that a contender sustains which nothing but its sender's rate holds back.

use std::time::Duration;

use crate::BenchError;
use crate::pair::{Contender, EndArgs, Pace, Streamed};

/// The search begins between these, messages a second.
const LOWEST: f64 = 100e3;
const HIGHEST: f64 = 100e6;
/// Trials of the search: each halves the ratio between the bounds, so that 3 % of it remain.
const TRIALS: u32 = 8;
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
        let (mut low, mut high) = (LOWEST, HIGHEST);
        for _ in 0..TRIALS {
            let middle = (low * high).sqrt();
            // A machine that stood still for a moment says nothing about the rate.
            let is_sustained =
                || Ok::<_, BenchError>(run(contender, end, span.min(TRIAL), middle)?.is_sustained());
            if is_sustained()? || is_sustained()? {
                low = middle;
            } else {
                high = middle;
            }
        }
        Ok(Sustained(low))
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

fn run(contender: &Contender, end: &EndArgs, span: Duration, rate: f64) -> Result<Streamed, BenchError> {
    contender.stream(end, span, Pace::Untimed(rate as u64))
}

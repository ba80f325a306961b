//! Which updates are timed, where reading the clock for each would weigh.

use clap::Args;

/// How many of them.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct TimeEvery {
    /// Takes the time of one update in so many, counted by each consumer; all of them with 1. The others are counted.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    time_every: Option<u32>,
}

impl TimeEvery {
    /// The number, where the workload has this one by itself.
    pub(crate) fn or(self, default: u32) -> u32 {
        self.time_every.unwrap_or(default)
    }

    /// The same as the arguments of a role.
    pub(crate) fn args(self, default: u32) -> Vec<String> {
        vec!["--time-every".to_owned(), self.or(default).to_string()]
    }

    /// For the note below a table.
    pub(crate) fn describe(self, default: u32) -> String {
        match self.or(default) {
            1 => "Every update is timed.".to_owned(),
            every => format!(
                "Every update is counted; latencies are those of one in {every} (--time-every 1 takes all): mean, deviation \
                 and percentiles are good, and the longest may be missed."
            ),
        }
    }
}

/// Counts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Every {
    every: u32,
    left: u32,
}

impl Every {
    /// One in so many, the last of them.
    pub(crate) fn new(every: u32) -> Every {
        Every { every: every.max(1), left: every.max(1) }
    }

    /// Whether this is one of them.
    #[inline]
    pub(crate) fn is_due(&mut self) -> bool {
        self.left -= 1;
        if self.left > 0 {
            return false;
        }
        self.left = self.every;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_in_so_many_is_due() {
        for (every, due) in [(0, 100), (1, 100), (2, 50), (64, 1), (100, 1), (101, 0)] {
            let mut counter = Every::new(every);
            assert_eq!((0..100).filter(|_| counter.is_due()).count(), due, "{every}");
        }
    }
}

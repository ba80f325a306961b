//! Runs over many seeds; a failing one is named, and can be repeated alone: `SEED=n`. `RUNS=n` makes so many
//! runs in place of the usual number, `FROM=n` begins so many seeds later.

use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

#[allow(dead_code, reason = "each test file uses its part of it")]
/// The seed that `SEED` names, if it is set.
pub(crate) fn only_seed() -> Option<u64> {
    variable("SEED")
}

/// Whether no variable names other seeds than the usual ones.
#[allow(dead_code, reason = "each test file uses its part of it")]
pub(crate) fn usual_seeds() -> bool {
    ["SEED", "RUNS", "FROM"].iter().all(|name| variable(name).is_none())
}

fn variable(name: &str) -> Option<u64> {
    std::env::var(name)
        .ok()
        .map(|text| text.parse().unwrap_or_else(|_| panic!("{name}={text} is not a number")))
}

/// Calls `run` with each seed, or with those that the variables name.
pub(crate) fn for_each_seed(seeds: Range<u64>, mut run: impl FnMut(u64)) {
    let first = seeds.start + variable("FROM").unwrap_or(0);
    let count = variable("RUNS").unwrap_or(seeds.end - seeds.start);
    for seed in only_seed().map_or(first..first + count, |s| s..s + 1) {
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| run(seed))) {
            let test = std::thread::current().name().unwrap_or_default().to_owned();
            eprintln!("failed with SEED={seed}; to repeat it: SEED={seed} cargo test -p tickcast-lbt {test}");
            resume_unwind(panic);
        }
    }
}

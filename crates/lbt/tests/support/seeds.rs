//! Runs over many seeds; a failing one is named, and can be repeated alone.

use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

/// The seed that `SEED` names, if it is set.
pub(crate) fn only_seed() -> Option<u64> {
    std::env::var("SEED").ok().and_then(|s| s.parse().ok())
}

/// Calls `run` with each seed, or with the one named by `SEED`.
pub(crate) fn for_each_seed(seeds: Range<u64>, mut run: impl FnMut(u64)) {
    for seed in only_seed().map_or(seeds, |s| s..s + 1) {
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| run(seed))) {
            eprintln!("failed with SEED={seed}");
            resume_unwind(panic);
        }
    }
}

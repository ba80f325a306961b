//! Rules of the system that are left out, one at a time: which of them the simulator notices, and how soon.

use std::sync::Mutex;

use tickcast_topology::{Plan, attempt, shrink};
use units::{Bug, plant};

/// A bug that is not noticed by then is not found.
const SEEDS: u64 = 4_000;
/// So many are to be found.
const FOUND_LEAST: usize = 20;
/// Bugs are looked for by so many at a time: the rule that is left out is left out on one thread.
const THREADS: usize = 2;

/// The first seed whose run fails with a bug, and not without it; with how it fails.
fn notices(bug: Bug) -> Option<(u64, String)> {
    let found = tickcast_topology::ONCE_FAILED.into_iter().chain(0..SEEDS).find_map(|seed| {
        let plan = Plan::draw(seed);
        plant(Some(bug));
        let failure = attempt(&plan).err()?;
        plant(None);
        attempt(&plan).is_ok().then_some((seed, failure))
    });
    plant(None);
    found
}

#[test]
fn a_rule_that_is_left_out_is_noticed() {
    let _repeat = testkit::repeat!();
    let left = Mutex::new(Bug::ALL.to_vec());
    let results = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                while let Some(bug) = { left.lock().expect("whole").pop() } {
                    let found = notices(bug);
                    results.lock().expect("whole").push((bug, found));
                }
            });
        }
    });
    let (mut found, mut missed) = (Vec::new(), Vec::new());
    for (bug, notice) in results.into_inner().expect("whole") {
        match notice {
            Some((seed, failure)) => {
                println!("{bug:?}: seed {seed}: {}", failure.lines().next().unwrap_or_default());
                found.push(bug);
            }
            None => missed.push(bug),
        }
    }
    println!("found {} of {}; not found: {missed:?}", found.len(), Bug::ALL.len());
    assert!(found.len() >= FOUND_LEAST, "found {found:?}, not {missed:?}");
}

#[test]
fn a_run_that_fails_is_made_smaller_and_still_fails() {
    let _repeat = testkit::repeat!();
    plant(Some(Bug::DropsHeld));
    let failing = (0..SEEDS).find_map(|seed| {
        let plan = Plan::draw(seed);
        attempt(&plan).err().map(|failure| (plan, failure))
    });
    let (plan, failure) = failing.expect("it is noticed");
    let (smaller, of_smaller) = shrink(&plan, &failure, 300);
    assert_eq!(attempt(&smaller).err().as_deref(), Some(of_smaller.as_str()));
    assert!(smaller.steps.len() < plan.steps.len() / 2, "{} of {}", smaller.steps.len(), plan.steps.len());
    plant(None);
    assert!(attempt(&smaller).is_ok(), "without the bug it is good");
}

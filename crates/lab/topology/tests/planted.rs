//! Rules of the system that are left out, one at a time: which of them the simulator notices, and how soon.

use tickcast_topology::{Plan, attempt, shrink};
use units::{Bug, plant};

/// A bug that is not noticed by then is not found.
const SEEDS: u64 = 1_000;
/// So many are to be found.
const FOUND_LEAST: usize = 18;

#[test]
fn a_rule_that_is_left_out_is_noticed() {
    let _repeat = testkit::repeat!();
    let (mut found, mut missed) = (Vec::new(), Vec::new());
    for bug in Bug::ALL {
        plant(Some(bug));
        let failing = (0..SEEDS).find_map(|seed| {
            let plan = Plan::draw(seed);
            let failure = attempt(&plan).err()?;
            plant(None);
            let is_bug = attempt(&plan).is_ok();
            plant(Some(bug));
            is_bug.then_some((seed, failure))
        });
        plant(None);
        match failing {
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

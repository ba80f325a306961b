//! Every target on its seeds, and on a short random run; longer ones by `make fuzz`.

use testkit::repeat::{self, Repeat};
use tickcast_fuzz::{Run, TARGETS};

/// Random executions of each target: `RUNS` in the environment says otherwise.
fn runs() -> u64 {
    repeat::given("RUNS").unwrap_or(10_000)
}

#[test]
fn every_seed_is_taken_or_refused_as_its_line_says() {
    for target in TARGETS {
        let seeds = target.seeds();
        for seed in &seeds {
            let outcome = target.execute(&seed.bytes);
            assert_eq!(outcome.accepted, seed.accepted, "{}: {}", target.name, seed.name);
            assert!(seed.bytes.len() <= target.longest_bytes, "{}: {} is too long", target.name, seed.name);
        }
        let accepted = seeds.iter().filter(|seed| seed.accepted).count();
        assert!(accepted >= 5, "{}: {accepted} good seeds", target.name);
        assert!(accepted < seeds.len(), "{}: no bad seed", target.name);
    }
}

#[test]
fn a_random_run_breaks_no_promise_and_takes_both_ways() {
    let repeat = Repeat::of_seed(testkit::here!(), 20).depending_on("RUNS");
    for target in TARGETS {
        let mut run = Run::new(target, repeat.seed()).unwrap_or_else(|found| panic!("{found:?}"));
        for _ in 0..runs() {
            run.step().unwrap_or_else(|found| panic!("{found:?}"));
        }
        let (accepted, refused) = run.counts();
        let least = runs() / 100;
        assert!(accepted > least && refused > least, "{}: {accepted} of {refused}", target.name);
        assert!(run.feature_count() > 5, "{}: {} kinds of outcome", target.name, run.feature_count());
    }
}

#[test]
fn targets_have_names_of_their_own() {
    let mut names: Vec<_> = TARGETS.iter().map(|target| target.name).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), TARGETS.len());
    assert!(names.iter().all(|name| tickcast_fuzz::find(name).is_some()));
}

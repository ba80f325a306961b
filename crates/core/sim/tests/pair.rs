//! Two source distributors with the same input, and a server that follows both, or one while the other stands by. A failing run prints the command that
//! repeats it; `RUNS` and `FROM` make more runs from other seeds.

use std::collections::BTreeMap;
use std::time::Duration;

use testkit::repeat::seeds_are_usual;
use tickcast_sim::{Pair, PairFaults};

const ITEMS: usize = 20;
const CONSUMERS: usize = 4;

/// Seeds of a test.
const SEEDS: u64 = 40;
const USUAL: Duration = Duration::from_millis(5);

fn add(sum: &mut BTreeMap<&'static str, u32>, world: &Pair) {
    world.happened.iter().for_each(|(what, count)| *sum.entry(*what).or_default() += count);
}

/// While one side is whole, consumers notice nothing of whatever happens to the other one.
fn one_side_may_suffer(first: u64, shards: usize, faults: PairFaults, delay: Duration) {
    let mut happened = BTreeMap::new();
    let mut switches = 0;
    testkit::for_each_seed!(first..first + SEEDS, |seed| {
        let mut world = Pair::hot(seed, ITEMS, CONSUMERS, shards);
        world.run(Duration::from_secs(15));
        world.forget();
        world.set((seed % 2) as usize, faults, delay);
        world.run(Duration::from_secs(60));
        assert_eq!(world.disturbances, 0, "seed {seed}: after {:?}", world.happened);
        assert!(world.updates > 1_000, "seed {seed}");
        world.converges();
        assert_eq!(world.disturbances, 0, "seed {seed}: after {:?}", world.happened);
        let counters = world.counters();
        let bad =
            (counters.hot_differing.get(), counters.hot_images_differing.get(), counters.hot_late.get());
        assert_eq!(bad, (0, 0, 0), "seed {seed}: after {:?}", world.happened);
        switches += counters.hot_switches.get();
        add(&mut happened, &world);
    });
    assert!(!seeds_are_usual() || switches > 0, "{happened:?}");
}

#[test]
fn the_deaths_of_one_side_are_not_noticed() {
    one_side_may_suffer(0, 0, PairFaults { dies: 0.2, ..PairFaults::NONE }, USUAL);
}

#[test]
fn whatever_happens_to_one_side_is_not_noticed() {
    one_side_may_suffer(1_000, 0, PairFaults::ALL, USUAL);
}

#[test]
fn a_side_that_is_late_and_loses_much_is_not_noticed() {
    let faults = PairFaults { loss: 0.1, ..PairFaults::ALL };
    one_side_may_suffer(2_000, 0, faults, Duration::from_millis(300));
}

#[test]
fn nor_by_clients_of_shards() {
    one_side_may_suffer(3_000, 3, PairFaults::ALL, USUAL);
}

fn hot(shards: usize) -> impl Fn(u64) -> Pair {
    move |seed| Pair::hot(seed, ITEMS, CONSUMERS, shards)
}

fn warm(shards: usize) -> impl Fn(u64) -> Pair {
    move |seed| Pair::warm(seed, ITEMS, CONSUMERS, shards)
}

/// Both sides suffer: the promise of every service holds.
fn both_sides_may_suffer(first: u64, make: impl Fn(u64) -> Pair, faults: PairFaults, delay: Duration) {
    let mut happened = BTreeMap::new();
    testkit::for_each_seed!(first..first + SEEDS, |seed| {
        let mut world = make(seed);
        for side in 0..2 {
            world.set(side, faults, delay);
        }
        world.run(Duration::from_secs(60));
        world.converges();
        add(&mut happened, &world);
    });
    for what in ["distributor dies", "distributor stops", "provider breaks", "link breaks", "partition"] {
        assert!(!seeds_are_usual() || happened[what] > 20, "{what}: {happened:?}");
    }
}

#[test]
fn whatever_happens_to_both_nothing_is_lost_in_silence() {
    both_sides_may_suffer(4_000, hot(0), PairFaults::ALL, USUAL);
}

#[test]
fn nor_when_they_are_late() {
    let faults = PairFaults { loss: 0.05, ..PairFaults::ALL };
    both_sides_may_suffer(5_000, hot(0), faults, Duration::from_millis(200));
}

#[test]
fn nor_behind_shards() {
    both_sides_may_suffer(6_000, hot(3), PairFaults::ALL, USUAL);
}

#[test]
fn nor_of_a_service_for_which_one_stands_by() {
    both_sides_may_suffer(7_000, warm(0), PairFaults::ALL, USUAL);
}

#[test]
fn nor_of_such_a_one_behind_shards() {
    both_sides_may_suffer(8_000, warm(3), PairFaults::ALL, USUAL);
}

//! Providers that are dialled, under faults. A failing run prints the command that repeats it.

use std::collections::BTreeMap;
use std::time::Duration;

use testkit::repeat::seeds_are_usual;
use tickcast_sim::{Faults, World};

/// Seeds of a test.
const SEEDS: u64 = 20;
const ITEMS: usize = 30;
const CONSUMERS: usize = 3;
const PROVIDERS: usize = 2;

/// Runs a world for each seed; returns how often each fault happened, and how many items were lost. Half of the source
/// distributors have no cache, and ask for images again.
fn survive(first: u64, faults: Faults) -> (BTreeMap<&'static str, u32>, u64) {
    let (mut happened, mut items_lost, mut recalled) = (BTreeMap::new(), 0, 0);
    testkit::for_each_seed!(first..first + SEEDS, |seed| {
        let mut world = World::dialling(seed, ITEMS, CONSUMERS, PROVIDERS, faults);
        world.run(Duration::from_secs(60));
        world.converges();
        let mut open = world.open_upstream();
        open.dedup();
        assert_eq!((open.len(), world.open_upstream().len()), (ITEMS, ITEMS), "seed {seed}: each once");
        items_lost += world.distributor_counters().items_lost.get();
        recalled += world.distributor_counters().images_recalled.get();
        for (what, count) in &world.happened {
            *happened.entry(*what).or_default() += count;
        }
        world.everybody_leaves();
    });
    assert!(!seeds_are_usual() || recalled > 100, "{recalled}");
    (happened, items_lost)
}

#[test]
fn without_faults_each_item_is_asked_for_once_and_nothing_stays_when_everybody_leaves() {
    let _repeat = testkit::repeat!();
    let mut world = World::dialling(1, ITEMS, CONSUMERS, PROVIDERS, Faults::NONE);
    world.run(Duration::from_secs(60));
    world.converges();
    let counters = world.distributor_counters();
    assert_eq!((counters.requests_out.get(), counters.items_lost.get()), (ITEMS as u64, 0));
    assert!(world.server_counters().updates_out.get() > 1000);
    world.everybody_leaves();
    assert_eq!(world.distributor_counters().requests_out.get(), ITEMS as u64);
}

#[test]
fn items_of_a_lost_provider_are_asked_for_at_another_one_and_no_update_is_missed_unsaid() {
    let (happened, items_lost) = survive(6000, Faults { provider_breaks: 0.2, ..Faults::NONE });
    assert!(
        !seeds_are_usual() || happened["provider breaks"] > 100 && items_lost > 1000,
        "{happened:?} {items_lost}"
    );
}

#[test]
fn every_process_may_die_at_any_time_with_dialled_providers_too() {
    let faults = Faults {
        loss: 0.005,
        provider_breaks: 0.2,
        distributor_dies: 0.05,
        server_dies: 0.05,
        link_breaks: 0.07,
        consumer_breaks: 0.2,
        partition: 0.03,
        ..Faults::NONE
    };
    let (happened, items_lost) = survive(7000, faults);
    assert!(
        !seeds_are_usual() || happened["provider breaks"] > 100 && items_lost > 500,
        "{happened:?} {items_lost}"
    );
}

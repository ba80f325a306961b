//! Source distributor and point-to-point server under faults. A failing run prints the command that
//! repeats it; `RUNS` and `FROM` make more runs from other seeds.

use std::time::Duration;

use testkit::repeat::seeds_are_usual;
use tickcast_sim::{Faults, World};

const ITEMS: usize = 40;
const CONSUMERS: usize = 5;

/// Seeds of a test.
const SEEDS: u64 = 40;

/// Runs a world for each seed and returns how often each fault happened in all.
fn survive(
    first: u64,
    faults: Faults,
    mut check: impl FnMut(&World),
) -> std::collections::BTreeMap<&'static str, u32> {
    let mut happened = std::collections::BTreeMap::new();
    testkit::for_each_seed!(first..first + SEEDS, |seed| {
        let mut world = World::new(seed, ITEMS, CONSUMERS, faults);
        world.run(Duration::from_secs(60));
        world.converges();
        for (what, count) in &world.happened {
            *happened.entry(*what).or_default() += count;
        }
        check(&world);
    });
    happened
}

#[test]
fn without_faults_every_item_is_asked_for_once_and_nothing_is_lost() {
    survive(0, Faults::NONE, |world| {
        let server = world.server_counters();
        assert_eq!((server.gaps.get(), server.items.get()), (0, ITEMS as u64));
        assert_eq!(world.distributor_counters().interests.get(), ITEMS as u64);
        assert!(server.updates_out.get() > 1000);
    });
}

#[test]
fn loss_on_the_backbone_makes_items_suspect_and_then_right() {
    let (mut gaps, mut resyncs) = (0, 0);
    survive(1000, Faults { loss: 0.01, ..Faults::NONE }, |world| {
        gaps += world.server_counters().gaps.get();
        resyncs += world.server_counters().gap_resyncs.get();
    });
    assert!(gaps > 100, "{gaps}");
    assert_eq!(resyncs, 0, "no gap is older than what the distributor remembers");
}

#[test]
fn heavy_loss_long_cuts_and_slow_streams_end_well() {
    let mut resyncs = 0;
    let faults =
        Faults { loss: 0.2, partition: 0.1, stream_delay: Duration::from_millis(200), ..Faults::NONE };
    let happened = survive(2000, faults, |world| resyncs += world.server_counters().gap_resyncs.get());
    assert!(!seeds_are_usual() || happened["partition"] > 10 && resyncs > 0, "{happened:?} {resyncs}");
}

#[test]
fn images_and_updates_fit_together_whichever_way_is_slower() {
    for (stream_ms, connection_ms) in [(1, 500), (500, 1)] {
        let faults = Faults {
            stream_delay: Duration::from_millis(stream_ms),
            connection_delay: Duration::from_millis(connection_ms),
            consumer_breaks: 0.5,
            link_breaks: 0.2,
            loss: 0.005,
            ..Faults::NONE
        };
        survive(3000 + stream_ms, faults, |_| ());
    }
}

#[test]
fn every_process_may_die_at_any_time() {
    let faults = Faults {
        loss: 0.005,
        provider_breaks: 0.1,
        distributor_dies: 0.07,
        server_dies: 0.07,
        link_breaks: 0.07,
        consumer_breaks: 0.2,
        partition: 0.05,
        ..Faults::NONE
    };
    let happened = survive(4000, faults, |_| ());
    for what in
        ["provider breaks", "distributor dies", "server dies", "link breaks", "consumer breaks", "partition"]
    {
        assert!(!seeds_are_usual() || happened[what] > 20, "{what}: {happened:?}");
    }
}

#[test]
fn items_that_are_published_long_after_a_restart_come_back_by_themselves() {
    let faults = Faults {
        republished_after: Duration::from_secs(8),
        distributor_dies: 0.02,
        link_breaks: 0.02,
        ..Faults::NONE
    };
    let mut deaths = 0;
    testkit::for_each_seed!(5000..5000 + SEEDS, |seed| {
        // Everybody has had an image: one that nobody ever had is not found.
        let mut world = World::new(seed, ITEMS, CONSUMERS, Faults::NONE);
        world.run(Duration::from_secs(10));
        world.set_faults(faults);
        world.run(Duration::from_secs(60));
        world.converges();
        deaths += world.happened.get("distributor dies").copied().unwrap_or(0);
    });
    assert!(!seeds_are_usual() || deaths > 10, "{deaths}");
}

#[test]
fn consumers_that_read_too_slowly_skip_updates_and_end_right() {
    let mut conflated = 0;
    let calm = Faults { consumer_stalls: 0.3, ..Faults::NONE };
    let rough = Faults {
        loss: 0.02,
        provider_breaks: 0.05,
        distributor_dies: 0.03,
        server_dies: 0.03,
        link_breaks: 0.05,
        consumer_breaks: 0.1,
        partition: 0.05,
        ..calm
    };
    for (first, faults) in [(6000, calm), (7000, rough)] {
        let happened = survive(first, faults, |world| {
            let server = world.server_counters();
            conflated += server.updates_conflated.get();
            // With the server's death its gauge is one of nobody.
            assert!(faults.server_dies > 0.0 || server.clients_conflated.get() <= CONSUMERS as u64);
        });
        assert!(!seeds_are_usual() || happened["consumer stalls"] > 100, "{happened:?}");
        assert!(!seeds_are_usual() || happened["round"] > 100, "{happened:?}");
    }
    assert!(!seeds_are_usual() || conflated > 10_000, "{conflated}");
}

#[test]
fn behind_a_relay_every_item_is_asked_for_once_and_nothing_is_lost() {
    testkit::for_each_seed!(8000..8000 + SEEDS, |seed| {
        let mut world = World::sharded(seed, ITEMS, CONSUMERS, 1 + seed as usize % 4, Faults::NONE);
        world.run(Duration::from_secs(60));
        world.converges();
        let (relay, shards) = (world.relay_counters(), world.server_counters());
        assert_eq!((relay.gaps.get(), relay.items.get(), shards.gaps.get()), (0, ITEMS as u64, 0));
        assert_eq!(world.distributor_counters().interests.get(), ITEMS as u64);
        assert!(shards.updates_out.get() > 1000);
    });
}

#[test]
fn behind_a_relay_every_process_may_die_and_consumers_may_read_too_slowly() {
    let (mut gaps, mut conflated) = (0, 0);
    let faults = Faults {
        loss: 0.01,
        provider_breaks: 0.07,
        distributor_dies: 0.05,
        server_dies: 0.05,
        link_breaks: 0.07,
        consumer_breaks: 0.2,
        partition: 0.05,
        consumer_stalls: 0.2,
        ..Faults::NONE
    };
    testkit::for_each_seed!(9000..9000 + 2 * SEEDS, |seed| {
        let mut world = World::sharded(seed, ITEMS, CONSUMERS, 1 + seed as usize % 4, faults);
        world.run(Duration::from_secs(60));
        world.converges();
        gaps += world.relay_counters().gaps.get();
        conflated += world.server_counters().updates_conflated.get();
        assert_eq!(world.server_counters().gaps.get(), 0, "between relay and shards nothing is lost");
    });
    assert!(!seeds_are_usual() || gaps > 100 && conflated > 1_000, "{gaps} {conflated}");
}

#[test]
fn a_run_is_its_seed() {
    let _repeat = testkit::repeat!();
    let faults = Faults { loss: 0.05, server_dies: 0.1, ..Faults::NONE };
    let run = || {
        let mut world = World::new(77, ITEMS, CONSUMERS, faults);
        world.run(Duration::from_secs(30));
        let server = world.server_counters();
        (server.updates_out.get(), server.gaps.get(), server.images_in.get(), world.happened())
    };
    assert_eq!(run(), run());
}

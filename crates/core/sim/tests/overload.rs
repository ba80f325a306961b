//! Servers that are slower than what is published: providers slow down before anything is lost, and one that is
//! too slow holds nobody up.

use std::time::Duration;

use tickcast_sim::{Overload, SlowServer};

const MINUTE: Duration = Duration::from_secs(60);
/// Changes in a millisecond.
const CHANGES: u32 = 2;

/// A world with its demand, in bytes a second; half of that is the floor.
fn world(seed: u64) -> (Overload, u64) {
    let mut measured = Overload::new(seed, 1, CHANGES, 1);
    let before = measured.distributor_counters().stream_bytes_out.get();
    measured.run(Duration::from_secs(1));
    let demand = measured.distributor_counters().stream_bytes_out.get() - before;
    (Overload::new(seed, 3, CHANGES, demand / 2), demand)
}

fn assert_undisturbed(world: &Overload, servers: &[usize]) {
    for &server in servers {
        let counters = world.server_counters(server);
        assert_eq!((counters.gaps.get(), world.dropped(server)), (0, 0), "server {server}");
        assert!(counters.updates_out.get() > 60_000, "{}", counters.updates_out.get());
    }
}

#[test]
fn at_one_and_a_half_times_capacity_providers_slow_down_and_nothing_is_lost() {
    let _repeat = testkit::repeat!();
    for lost_reports in [0.0, 0.1] {
        let (mut world, demand) = world(1);
        world.lose_reports(lost_reports);
        world.set_speed(0, SlowServer::Takes(demand * 2 / 3));
        world.run(MINUTE);
        let counters = world.distributor_counters();
        assert!(counters.provider_holds.get() > 10, "{counters:?}");
        // After t at 3/2 of capacity the provider is t/3 behind.
        let delay = world.worst_delay;
        assert!((Duration::from_secs(17)..Duration::from_secs(23)).contains(&delay), "{delay:?}");
        assert_eq!(world.notices, []);
        world.converges();
        assert_undisturbed(&world, &[0, 1, 2]);
        assert_eq!(world.distributor_counters().gap_queries.get(), 0);
    }
}

#[test]
fn one_at_a_tenth_loses_and_is_named_and_the_others_are_undisturbed() {
    let _repeat = testkit::repeat!();
    let (mut world, demand) = world(2);
    world.set_speed(1, SlowServer::Takes(demand / 10));
    world.run(MINUTE);
    assert_eq!(world.notices.iter().map(|(server, _)| *server).collect::<Vec<_>>(), [1]);
    let held = Duration::from_nanos(world.distributor_counters().providers_held_ns.get());
    assert!(held < Overload::PATIENCE + Duration::from_millis(100), "{held:?}");
    assert!(world.worst_delay < Overload::PATIENCE + Duration::from_millis(100), "{:?}", world.worst_delay);
    assert_eq!(world.distributor_counters().peers_behind.get(), 1);
    let slow = world.server_counters(1);
    assert!(world.dropped(1) > 50_000, "most of it: {}", world.dropped(1));
    assert!(slow.gaps.get() > 0 && slow.gaps.get() < 100, "few long gaps: {}", slow.gaps.get());
    world.converges();
    assert_eq!(world.server_counters(1).messages_lost.get(), world.dropped(1), "all of it is reported");
    assert_undisturbed(&world, &[0, 2]);
}

#[test]
fn one_that_stops_reading_altogether_holds_up_the_others_no_longer_than_its_patience() {
    let _repeat = testkit::repeat!();
    let (mut world, _) = world(3);
    world.set_speed(2, SlowServer::Stopped);
    world.run(MINUTE);
    let held = Duration::from_nanos(world.distributor_counters().providers_held_ns.get());
    assert!(held > Duration::ZERO && held <= Overload::PATIENCE, "{held:?}");
    assert_eq!(world.distributor_counters().peers_left_behind.get(), 1);
    world.set_speed(2, SlowServer::No);
    world.run(MINUTE);
    assert_eq!(world.notices.len(), 2, "it has caught up: {:?}", world.notices);
    assert_eq!(world.distributor_counters().peers_behind.get(), 0);
    assert!(world.server_counters(2).messages_lost.get() > 0);
    world.converges();
    assert_undisturbed(&world, &[0, 1]);
}

#[test]
fn all_reports_lost_is_as_if_it_had_stopped() {
    let _repeat = testkit::repeat!();
    let (mut world, _) = world(4);
    world.lose_reports(1.0);
    world.run(MINUTE);
    let held = Duration::from_nanos(world.distributor_counters().providers_held_ns.get());
    assert!(held <= Overload::PATIENCE, "all at once, and then nobody is waited for: {held:?}");
    assert_eq!(world.distributor_counters().peers_behind.get(), 3);
    world.lose_reports(0.0);
    world.run(MINUTE);
    assert_eq!(world.distributor_counters().peers_behind.get(), 0);
    world.converges();
    assert_undisturbed(&world, &[0, 1, 2]);
}

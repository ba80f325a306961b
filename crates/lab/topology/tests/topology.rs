//! Topologies, networks and faults of many seeds. A failing run prints the command that repeats it, and a smaller run.

use testkit::repeat::seeds_are_usual;
use tickcast_topology::{Carrier, ONCE_FAILED, Outcome, Plan, check};

/// Seeds of a test; `tools/test.sh` runs more.
const SEEDS: u64 = 400;

#[test]
fn any_topology_under_any_faults() {
    let mut sum = Outcome::default();
    testkit::for_each_seed!(0..SEEDS, |seed| {
        sum += check(seed);
    });
    if seeds_are_usual() {
        assert!(sum.updates > 50_000 && sum.refreshes > 10_000, "{sum:?}");
        assert!(sum.suspects > 2_000, "{sum:?}");
        assert!(sum.datagrams_lost > 10_000 && sum.messages_lost > 100, "{sum:?}");
    }
}

#[test]
fn what_failed_once_holds() {
    let _repeat = testkit::repeat!();
    ONCE_FAILED.into_iter().for_each(|seed| _ = check(seed));
}

#[test]
fn a_run_is_its_seed_to_the_byte() {
    testkit::for_each_seed!(0..40, |seed| assert_eq!(check(seed), check(seed)));
}

#[test]
fn seeds_draw_every_kind_of_topology() {
    let plans: Vec<Plan> = (0..200).map(Plan::draw).collect();
    let any = |is: &dyn Fn(&Plan) -> bool| plans.iter().filter(|plan| is(plan)).count() >= 10;
    for carrier in [Carrier::Multicast, Carrier::Unicast, Carrier::Ordered, Carrier::Bare] {
        assert!(any(&|plan| plan.carrier == carrier), "{carrier:?}");
    }
    assert!(any(&|plan| plan.distributors.len() > 1));
    assert!(any(&|plan| plan.servers.iter().any(|server| server.shards > 1)));
    assert!(any(&|plan| plan.servers.iter().any(|server| !server.has_cache)));
    let is_chained = |plan: &Plan, at: usize| {
        let upstream = plan.servers[at].upstream;
        upstream.is_some_and(|at| plan.servers[at].upstream.is_some())
    };
    assert!(any(&|plan| (0..plan.servers.len()).any(|at| is_chained(plan, at))));
    assert!(any(&|plan| plan.clients.iter().any(|client| client.websocket)));
    assert!(any(&|plan| plan.weather.loss > 0.2));
}

//! Every run of the recovery protocol within bounds, and each mistake found.

use stateright::{Checker, HasDiscoveries, Model};
use tickcast_model::{Budget, Mistake, Protocol, WELL};

const BUDGET: Budget = Budget { changes: 2, others: 1, losses: 1, kills: 1, breaks: 0 };

fn holds(protocol: Protocol) {
    let checker = protocol.checker().spawn_bfs().join();
    println!("{protocol:?}: {} states", checker.unique_state_count());
    checker.assert_properties();
}

#[test]
fn a_server_with_a_cache_keeps_its_promises() {
    holds(Protocol { budget: BUDGET, is_uncached: false, mistake: None });
    let breaks = Budget { kills: 0, breaks: 1, ..BUDGET };
    holds(Protocol { budget: breaks, is_uncached: false, mistake: None });
}

#[test]
fn a_server_without_a_cache_keeps_its_promises() {
    holds(Protocol { budget: BUDGET, is_uncached: true, mistake: None });
    let losses = Budget { changes: 3, others: 1, losses: 2, kills: 0, breaks: 0 };
    holds(Protocol { budget: losses, is_uncached: true, mistake: None });
}

#[test]
fn no_rule_is_there_for_nothing() {
    use Mistake::*;
    let all = [
        GapsAreIgnored,
        NobodyWaitsForAnswers,
        NoHeartbeats,
        AnyImageJoins,
        NothingIsHeld,
        RunsAreOne,
        LossIsNotTold,
        EarlyImagesAreShown,
        LateImagesAreShown,
    ];
    for mistake in all {
        let protocol = Protocol { budget: BUDGET, is_uncached: true, mistake: Some(mistake) };
        let checker = protocol.checker().finish_when(HasDiscoveries::AnyFailures).spawn_bfs().join();
        let broken: Vec<_> = checker.discoveries().into_keys().filter(|name| *name != WELL).collect();
        println!("{mistake:?}: {} states, {broken:?}", checker.unique_state_count());
        assert!(!broken.is_empty(), "{mistake:?} breaks nothing");
    }
}

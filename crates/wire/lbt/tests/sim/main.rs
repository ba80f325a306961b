//! The protocol under a seeded network and a virtual clock: hundreds of runs in seconds.
//!
//! Safety is checked at every event: order, content, no duplicates, every missing range reported once and
//! in its place. Liveness is checked at the end: after the faults stop, everything is delivered or
//! reported, every session ends, and nobody is left waiting. Even seeds are LBT-RM, odd ones LBT-RU. A
//! failing run prints its plan and the command that repeats it alone; `RUNS` and `FROM` make more runs from
//! other seeds.

mod ends;
mod network;
mod oracle;
mod outcome;
#[path = "../support/pcap.rs"]
mod pcap;
mod plan;
mod world;

use ends::{DATA_FROM, SOURCE, Transport, UCAST_PORT, UNICAST_SOURCE, node_address};
use outcome::Outcome;
use pcap::Capture;
use plan::{MS, Plan, Weather};
use std::net::{Ipv4Addr, SocketAddrV4};
use std::path::PathBuf;
use testkit::repeat::seeds_are_usual;
use units::Nanos;
use world::World;

/// Runs of each kind of weather, half of them of each transport; `make test` and `make soak` make more by
/// `RUNS`.
const FOUL_RUNS: u64 = 300;
const RAINY_RUNS: u64 = 150;
const FAIR_RUNS: u64 = 50;

/// Runs each seed, or the one named by `SEED`; the plan of a failing one is printed.
fn run_seeds(weather: Weather, count: u64, mut check: impl FnMut(&Plan, &Outcome)) {
    testkit::for_each_seed!(0..count, |seed| {
        let plan = Plan::draw(seed, weather);
        let mut on_panic = PrintOnDrop(Some(&plan));
        let outcome = World::new(plan.clone()).run();
        check(&plan, &outcome);
        on_panic.0 = None;
    });
}

struct PrintOnDrop<'a>(Option<&'a Plan>);

impl Drop for PrintOnDrop<'_> {
    fn drop(&mut self) {
        if let Some(plan) = self.0 {
            eprintln!("the plan was {plan:#?}");
        }
    }
}

#[test]
fn under_any_weather_order_and_content_hold_and_every_hole_is_reported_once_in_its_place() {
    let mut total = Outcome::default();
    run_seeds(Weather::Foul, FOUL_RUNS, |_, outcome| total.add(outcome));
    if seeds_are_usual() {
        // the runs must have seen what they are meant to test
        assert!(total.dropped > 50_000 && total.damaged > 1_000 && total.delivered > 500_000, "{total:?}");
        assert!(total.lost > 1_000 && total.recovered > 20_000 && total.confirmed > 1_000, "{total:?}");
    }
}

#[test]
fn at_five_per_cent_loss_everything_is_recovered_with_few_naks_and_retransmissions() {
    let mut total = [Outcome::default(), Outcome::default()];
    run_seeds(Weather::Rainy, RAINY_RUNS, |plan, outcome| {
        assert_eq!(outcome.lost, 0, "{outcome:?}");
        total[usize::from(plan.transport == Transport::Lbtru)].add(outcome);
    });
    for total in total.iter().filter(|_| seeds_are_usual()) {
        assert!(total.recovered > 1_000, "{total:?}");
        // 5 % of NAKs and of retransmissions are lost too; reordering beyond the first wait costs some
        assert!(total.naks * 10 <= total.missed * 15, "{total:?}");
        assert!(total.retransmitted <= total.naks, "{total:?}");
    }
}

#[test]
fn without_faults_nobody_asks_for_anything() {
    run_seeds(Weather::Fair, FAIR_RUNS, |plan, outcome| {
        // a unicast receiver asks for what was sent while it connected: three trips of at most 320 us
        let connecting = plan.bursts.iter().any(|(at, _)| *at < Nanos::ZERO + MS);
        let late = plan.nodes.iter().any(|n| n.config.late_start) || connecting;
        let asks = plan.transport == Transport::Lbtru && late;
        assert_eq!(outcome.lost, 0, "{outcome:?}");
        assert!(asks || (outcome.recovered, outcome.naks) == (0, 0), "{outcome:?}");
    });
}

#[test]
fn a_run_repeats_exactly_from_its_seed() {
    let _repeat = testkit::repeat!();
    let run = |seed| {
        let mut world = World::new(Plan::draw(seed, Weather::Foul));
        let outcome = world.run();
        let counters: Vec<_> = world
            .nodes()
            .iter()
            .flat_map(|n| n.heard.values())
            .map(|h| format!("{:?} {:?}", h.counters, h.delivery))
            .collect();
        (format!("{outcome:?}"), counters)
    };
    for seed in [6, 7] {
        assert_eq!(run(seed), run(seed));
        assert_ne!(run(seed), run(seed + 2));
    }
}

/// A session under 5 % loss as it passes the source's network card.
fn capture_of_lossy_session(seed: u64, name: &str) -> PathBuf {
    let group = SocketAddrV4::new(Ipv4Addr::new(224, 10, 10, 10), 14400);
    let mut plan = Plan::draw(seed, Weather::Rainy);
    plan.longest = 9_000;
    // the dissectors tell fragments apart by their first number alone, not by topic
    plan.topics = 1;
    plan.first_sqn = units::Sqn(0);
    let (inbound, outbound) = match plan.transport {
        Transport::Lbtrm => (SocketAddrV4::new(SOURCE, UCAST_PORT), DATA_FROM),
        Transport::Lbtru => (UNICAST_SOURCE, UNICAST_SOURCE),
    };
    let mut world = World::new(plan);
    world.tap = Some(Vec::new());
    let outcome = world.run();
    assert!(outcome.confirmed > 0 && outcome.retransmitted > 0, "{outcome:?}");
    let mut capture = Capture::new();
    for packet in world.tap.take().expect("set before") {
        let other = packet.node.map_or(group, node_address);
        let (from, to) = if packet.inbound { (other, inbound) } else { (outbound, other) };
        capture.udp(packet.at, from, to, &packet.datagram);
    }
    capture.write(name)
}

/// Lets the wire checker look for a complaint; `kinds` must have been seen.
fn judge(capture: &std::path::Path, kinds: &[&str]) {
    let mut arguments: Vec<&str> = kinds.iter().flat_map(|kind| ["--require", kind]).collect();
    arguments
        .extend(["lbmc.EOT=1", "lbmc.control=1", "lbmc.fragments=10"].iter().flat_map(|k| ["--require", k]));
    pcap::judge(capture, &arguments);
}

/// Retransmissions, NAKs, confirmations and session messages must dissect without a complaint, every NAK
/// must be answered and nothing stay unrecovered.
#[test]
fn a_lossy_session_is_what_the_dissectors_expect() {
    let path = capture_of_lossy_session(22, "lossy-session.pcap");
    judge(&path, &["lbtrm.DATA=1", "lbtrm.DATA-RX=1", "lbtrm.NAK=1", "lbtrm.SM=1", "lbtrm.NCF=1"]);
}

#[test]
fn a_lossy_unicast_session_is_what_the_dissectors_expect() {
    let path = capture_of_lossy_session(23, "lossy-unicast-session.pcap");
    let kinds = ["CREQ", "SM", "ACK", "DATA", "DATA-RX", "NAK", "NCF"].map(|t| format!("lbtru.{t}=1"));
    judge(&path, &kinds.each_ref().map(String::as_str));
}

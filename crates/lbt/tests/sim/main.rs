//! The protocol under a seeded network and a virtual clock: hundreds of runs in seconds.
//!
//! Safety is checked at every event: order, content, no duplicates, every missing range reported once and
//! in its place. Liveness is checked at the end: after the faults stop, everything is delivered or
//! reported, every session ends, and nobody is left waiting. A failing run prints its plan; `SEED=… cargo
//! test --test sim` repeats it alone.

mod network;
mod oracle;
#[path = "../support/pcap.rs"]
mod pcap;
mod plan;
#[path = "../support/seeds.rs"]
mod seeds;
mod world;

use pcap::Capture;
use plan::{Plan, Weather};
use seeds::{for_each_seed, only_seed};
use std::net::{Ipv4Addr, SocketAddrV4};
use world::{FROM, Outcome, SOURCE, UCAST_PORT, World};

/// Runs each seed, or the one named by `SEED`; the plan of a failing one is printed.
fn run_seeds(weather: Weather, count: u64, mut check: impl FnMut(&Plan, &Outcome)) {
    for_each_seed(0..count, |seed| {
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
    run_seeds(Weather::Foul, 300, |_, outcome| {
        total.dropped += outcome.dropped;
        total.delivered += outcome.delivered;
        total.lost += outcome.lost;
        total.recovered += outcome.recovered;
        total.confirmed += outcome.confirmed;
    });
    if only_seed().is_none() {
        // the runs must have seen what they are meant to test
        assert!(total.dropped > 50_000 && total.delivered > 500_000, "{total:?}");
        assert!(total.lost > 1_000 && total.recovered > 20_000 && total.confirmed > 1_000, "{total:?}");
    }
}

#[test]
fn at_five_per_cent_loss_everything_is_recovered() {
    let mut recovered = 0;
    run_seeds(Weather::Rainy, 150, |_, outcome| {
        assert_eq!(outcome.lost, 0, "{outcome:?}");
        recovered += outcome.recovered;
    });
    assert!(recovered > 1_000 || only_seed().is_some(), "{recovered}");
}

#[test]
fn without_faults_nobody_asks_for_anything() {
    run_seeds(Weather::Fair, 50, |plan, outcome| {
        let late = plan.nodes.iter().any(|n| n.config.late_start);
        assert_eq!((outcome.lost, outcome.recovered), (0, 0), "{outcome:?}");
        assert!(late || outcome.naks == 0, "{outcome:?}");
    });
}

#[test]
fn a_run_repeats_exactly_from_its_seed() {
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
    assert_eq!(run(7), run(7));
    assert_ne!(run(7), run(8));
}

/// A session under 5 % loss as it passes the source's network card: retransmissions, NAKs, confirmations
/// and session messages must dissect without a complaint, every NAK must be answered and nothing stay
/// unrecovered.
#[test]
fn a_lossy_session_is_what_the_dissectors_expect() {
    let group = SocketAddrV4::new(Ipv4Addr::new(224, 10, 10, 10), 14400);
    let mut plan = Plan::draw(11, Weather::Rainy);
    plan.longest = 9_000;
    plan.first_sqn = units::Sqn(0);
    let mut world = World::new(plan);
    world.tap = Some(Vec::new());
    let outcome = world.run();
    assert!(outcome.confirmed > 0 && outcome.retransmitted > 0, "{outcome:?}");
    let mut capture = Capture::new();
    for packet in world.tap.take().expect("set before") {
        let (from, to) = match packet.from_node {
            None => (FROM, group),
            Some(node) => {
                let address = Ipv4Addr::new(10, 29, 3, 21 + node as u8);
                (SocketAddrV4::new(address, 45_241), SocketAddrV4::new(SOURCE, UCAST_PORT))
            }
        };
        capture.udp(packet.at, from, to, &packet.datagram);
    }
    let path = capture.write("lossy-session.pcap");
    let types = ["DATA", "DATA-RX", "NAK", "SM", "NCF"].map(|t| format!("lbtrm.{t}=1"));
    let mut arguments: Vec<&str> = types.iter().flat_map(|t| ["--require", t.as_str()]).collect();
    arguments.extend([
        "--require",
        "lbmc.EOT=1",
        "--require",
        "lbmc.control=1",
        "--require",
        "lbmc.fragments=10",
    ]);
    pcap::judge(&path, &arguments);
}

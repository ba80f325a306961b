//! What peers have had of an earlier run, or over an earlier link.

use super::*;

const WAITING: &str = "peer 7: A open suspect waiting for the provider to publish the item";

impl Bench {
    pub(super) fn resume(&mut self, now: Nanos, name: &str) {
        self.peer(now, &LinkUp::Resume { key: item(name) });
    }
}

#[test]
fn an_item_that_a_peer_has_had_before_is_waited_for_however_late_it_is_published() {
    let mut bench = Bench::running();
    bench.resume(T0, "A");
    bench.interest(T0, "B");
    bench.log.take();
    bench.core.on_wakeup(LATER, &mut bench.log);
    let told: Vec<String> = bench.log.take().into_iter().filter(|l| l.starts_with("peer")).collect();
    assert_eq!(told, ["peer 7: B closed suspect the provider does not publish this item"]);
    let an_hour = LATER + Duration::from_secs(3600);
    bench.peer(an_hour, &LinkUp::ImageRequest { key: item("A") });
    bench.resume(an_hour, "A");
    assert_eq!(bench.log.take(), [WAITING, WAITING], "asked again, it is the same");
    bench.provider(an_hour, PROVIDER, &refresh(-5, "A", &[(22, 1)]));
    assert_eq!(bench.log.take(), ["1 Open #1 item 1: A", "peer 7: image of A as item 1 after #1: ok 22=1"]);
    assert_eq!(bench.counters.items_not_found.get(), 1);
}

#[test]
fn one_that_is_no_longer_wanted_is_no_longer_waited_for() {
    let mut bench = Bench::running();
    bench.resume(LATER, "A");
    bench.peer(LATER, &LinkUp::NoInterest { key: item("A") });
    bench.log.take();
    bench.provider(LATER, PROVIDER, &refresh(-5, "A", &[(22, 1)]));
    assert_eq!(bench.log.take(), [""; 0]);
}

#[test]
fn items_that_are_waited_for_are_bounded() {
    let service_ids = BTreeMap::from([("BINANCE".to_owned(), 1)]);
    let mut bench =
        Bench::new(DistributorConfig { service_ids, items_max: 1, ..DistributorConfig::default() });
    bench.provider_logs_in(PROVIDER);
    bench.announce(PROVIDER, &[service(3, true)]);
    bench.core.on_peer_connected(PEER);
    bench.peer(T0, &LinkUp::Hello { peer: 1, name: b"test" });
    bench.log.take();
    bench.resume(T0, "A");
    bench.resume(T0, "B");
    let full = "peer 7: B closed-recover suspect the source distributor keeps no more items";
    assert_eq!(bench.log.take(), [WAITING, full]);
}

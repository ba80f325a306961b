//! Old values that move to the fields that theirs ripple to.

use std::collections::BTreeSet;

use super::*;

/// The image of an item after one update, with 22 rippling to 25 and that to 26, which the item has not.
fn image(unrippled: &[&str]) -> String {
    let service_ids = BTreeMap::from([("BINANCE".to_owned(), 1)]);
    let unrippled: BTreeSet<String> = unrippled.iter().map(|&name| name.to_owned()).collect();
    let mut bench = Bench::new(DistributorConfig { service_ids, unrippled, ..DistributorConfig::default() });
    bench.core.items.rules.set_ripple(22, 25);
    bench.core.items.rules.set_ripple(25, 26);
    bench.provider_logs_in(PROVIDER);
    bench.announce(PROVIDER, &[service(3, true)]);
    bench.core.on_peer_connected(PEER);
    bench.peer(T0, &LinkUp::Hello { peer: 1, name: b"test" });
    bench.provider(T0, PROVIDER, &refresh(-5, "A", &[(22, 1), (25, 7)]));
    bench.provider(T0, PROVIDER, &update(-5, None, &[(22, 2)]));
    bench.log.take();
    bench.interest(T0, "A");
    let log = bench.log.take();
    let image = log.iter().find_map(|line| line.split_once(": ok ").filter(|_| line.contains("image of A")));
    image.map(|(_, fields)| fields.to_owned()).unwrap_or_else(|| panic!("{log:?}"))
}

#[test]
fn a_ripple_reaches_only_fields_that_the_image_has() {
    assert_eq!(image(&[]), "22=2 25=1");
}

#[test]
fn nothing_ripples_in_a_service_that_is_to_have_none() {
    assert_eq!(image(&["BINANCE"]), "22=2 25=7");
    assert_eq!(image(&["OTHER"]), "22=2 25=1");
}

//! What status pages show of items and services.

use super::*;

#[test]
fn the_busiest_items_are_found_while_somebody_looks() {
    let mut bench = Bench::watching();
    assert!(bench.core.busiest_items(T0).is_none(), "two sweeps are to be compared");
    assert!(bench.core.next_wakeup() <= T0);
    bench.core.on_wakeup(T0, &mut bench.log);
    for sequence in 0..6 {
        bench.stream(Kind::Update, 2 + sequence, 1, &update(&[(22, 1)]));
    }
    bench.core.on_wakeup(T0 + Duration::from_secs(2), &mut bench.log);
    let found = bench.core.busiest_items(T0 + Duration::from_secs(2)).expect("two sweeps are done");
    let found: Vec<(&[u8], u64)> =
        found.iter().map(|item| (&*item.key.name, item.updates_per_1000_s)).collect();
    assert_eq!(found, [(&b"IBM"[..], 3_000)], "six in two seconds");
}

#[test]
fn an_item_is_found_by_service_domain_and_name_with_its_watchers() {
    let mut bench = Bench::watching();
    let known = |core: &PointToPoint, service: Option<&str>, domain: Domain, name: &str| {
        core.inspect()
            .item(service, domain, name.as_bytes())
            .map(|item| (item.watchers, item.is_suspect, item.updates))
    };
    let price = Domain::MARKET_PRICE;
    let service = bench.core.inspect().services().next().expect("there is one").name.to_owned();
    let one = known(&bench.core, None, price, "IBM").expect("it is watched");
    assert_eq!(known(&bench.core, Some(&service), price, "IBM"), Some(one));
    bench.request(B, 7, "IBM");
    let two = known(&bench.core, None, price, "IBM").expect("it is watched");
    assert_eq!((two.0, two.1), (one.0 + 1, false));
    assert_eq!(known(&bench.core, Some("OTHER"), price, "IBM"), None);
    assert_eq!(known(&bench.core, None, Domain::MARKET_BY_PRICE, "IBM"), None);
    assert_eq!(known(&bench.core, None, price, "NONE"), None);
}

#[test]
fn a_service_is_shown_with_its_items_and_how_far_its_stream_is_taken() {
    let mut bench = Bench::watching();
    let before =
        bench.core.inspect().services().next().expect("there is one").sequence.expect("it has a stream");
    bench.stream(Kind::Update, before + 1, 1, &update(&[(22, 1)]));
    let service = bench.core.inspect().services().next().expect("there is one");
    let shown = (service.up, service.instance, service.items, service.sequence);
    assert_eq!(shown, (true, Some(INSTANCE), 1, Some(before + 1)));
}

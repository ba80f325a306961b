//! The ledger: each update of a provider where it belongs. That it adds up is looked at in every test ([`Bench`]).

use super::*;

#[test]
fn each_update_of_a_provider_is_counted_once() {
    let mut bench = Bench::running();
    // Of an item without an image.
    bench.provider(T0, PROVIDER, &update(-9, None, &[(22, 1)]));
    bench.provider(T0, PROVIDER, &refresh(-5, "A", &[(22, 1)]));
    bench.provider(T0, PROVIDER, &update(-5, None, &[(22, 2)]));
    bench.interest(T0, "A");
    for value in 3..=5 {
        bench.provider(T0, PROVIDER, &update(-5, None, &[(22, value)]));
    }
    let service = bench.core.ledger().next().expect("it is published");
    let wanted = ProviderLedger { published: 3, unwanted: 1, ..ProviderLedger::default() };
    assert_eq!((service.providers, service.updates, service.posted), (wanted, 3, 0));
    let others = *bench.core.ledger_of_others();
    assert_eq!((others.received, others.of_no_item), (5, 1));
    // The service goes, and what was counted of it does not.
    bench.announce(PROVIDER, &[]);
    bench.core.on_wakeup(T0, &mut bench.log);
    assert_eq!(bench.core.ledger().count(), 0);
    assert_eq!(bench.core.ledger_of_others().withdrawn, wanted);
}

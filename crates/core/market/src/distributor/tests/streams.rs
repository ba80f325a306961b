//! Streams that providers use again for other items.

use super::*;

#[test]
fn an_image_is_of_the_item_that_it_names_and_the_one_whose_stream_it_takes_is_suspect() {
    let mut bench = Bench::running();
    bench.provider(T0, PROVIDER, &refresh(-1, "X", &[(22, 1)]));
    bench.interest(T0, "X");
    bench.interest(T0, "Y");
    bench.log.take();
    bench.provider(T0, PROVIDER, &refresh(-1, "Y", &[(22, 2)]));
    let log = bench.log.take();
    assert!(log[0].contains("Status") && log[0].contains("uses its stream for another item"), "{log:?}");
    assert!(
        log.iter().any(|line| line.starts_with("peer 7: image of Y") && line.ends_with("ok 22=2")),
        "{log:?}"
    );
    assert_eq!(log.iter().filter(|line| line.contains("image of X") || line.contains("Refresh")).count(), 0);
    // X comes back on another stream, and leaves Y's alone.
    bench.provider(T0, PROVIDER, &refresh(-2, "X", &[(22, 3)]));
    assert!(bench.log.take()[0].ends_with("ok 22=3"));
    bench.provider(T0, PROVIDER, &update(-1, None, &[(22, 7)]));
    bench.provider(T0, PROVIDER, &update(-2, None, &[(22, 8)]));
    let log = bench.log.take();
    assert!(
        log.len() == 2 && log[0].ends_with("item 2: 22=7") && log[1].ends_with("item 1: 22=8"),
        "{log:?}"
    );
    bench.core.on_provider_closed(T0, PROVIDER, &mut bench.log);
    let suspect = bench.core.items().filter(|(_, cached)| cached.state().data == DataState::Suspect).count();
    assert_eq!(suspect, 2, "what the provider has published, whatever stream it was on");
}

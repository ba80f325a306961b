//! Messages from source distributors that cannot be used: each costs its item, and no other.

use super::*;

const UNUSABLE: &str = "a message from the source distributor could not be used";
const NOTICE: &str =
    "notice: item \"IBM\" of service 1 (market price) is suspect: a message about it cannot be used";

#[test]
fn an_update_that_cannot_be_used_is_named_and_its_item_alone_is_suspect() {
    let mut bench = Bench::watching();
    bench.request(A, 6, "MSFT");
    bench.open(2, 2, "MSFT");
    bench.image(2, 2, "MSFT", &[(22, 1)]);
    bench.took();
    bench.stream(Kind::Update, 3, 1, &update(&[(22, 2)])[..12]);
    assert_eq!(
        bench.took(),
        [NOTICE.to_owned(), format!("1/5: status open suspect: {UNUSABLE}"), "77: image IBM".to_owned(),]
    );
    bench.stream(Kind::Update, 4, 2, &update(&[(22, 2)]));
    assert_eq!(bench.took(), ["1/6: update 22=2"]);
    bench.image(1, 4, "IBM", &[(22, 3)]);
    assert_eq!(bench.took(), ["1/5: refresh ok 22=3"]);
}

#[test]
fn an_image_that_cannot_be_used_is_told_and_asked_for_again() {
    let mut bench = Bench::running();
    bench.request(A, 5, "IBM");
    bench.took();
    let mut refresh = refresh(&[(22, 1)]);
    refresh.truncate(refresh.len() - 1);
    bench.link(INSTANCE, &LinkDown::Image { item: 1, after: 0, key: named("IBM"), refresh: &refresh });
    assert_eq!(bench.took(), [NOTICE.to_owned(), format!("1/5: status open suspect: {UNUSABLE}")]);
    bench.now += Duration::from_secs(4);
    bench.directory(DIRECTORY, INSTANCE, &[definition(true)]);
    bench.after(Duration::from_secs(1));
    assert!(bench.took().contains(&"77: image IBM".to_owned()));
    assert_eq!(bench.counters.messages_refused.get(), 1);
}

#[test]
fn of_many_a_few_are_told() {
    let mut bench = Bench::watching();
    for sequence in 2..102 {
        bench.stream(Kind::Update, sequence, 1, &[]);
        bench.image(1, sequence, "IBM", &[(22, 3)]);
    }
    assert_eq!(bench.took().iter().filter(|l| l.starts_with("notice")).count(), 10);
    assert_eq!(bench.counters.messages_refused.get(), 100);
}

//! Services that are withdrawn with more items than a turn closes.

use rdm::post::PostUserRights;

use super::cleanups::{MANY, OTHER, PER_TURN, asked_for_many, name, publishing_many, told};
use super::dialled::{A, B, Script};
use super::messages::with_message;
use super::*;

const CLOSED: &str = "closed-recover suspect the provider has withdrawn the service";
const GONE: &str = "closed-recover suspect the service is not published here";

impl Bench {
    fn finish(&mut self) -> Vec<String> {
        let mut log = Vec::new();
        while self.is_cleaning() {
            log.extend(self.turn());
        }
        log
    }

    fn names(&self) -> Vec<String> {
        let names = self.core.items().map(|(key, _)| String::from_utf8_lossy(&key.name).into_owned());
        names.collect()
    }

    fn is_listed(&self) -> bool {
        self.core.items.suppliers.listed(1).is_some()
    }
}

#[test]
fn its_items_are_closed_in_portions_and_then_stream_and_entry_of_the_directory_go() {
    let mut bench = publishing_many();
    bench.announce(PROVIDER, &[]);
    let mut log = bench.log.take();
    assert_eq!(told(&log, "Close"), PER_TURN, "{log:?}");
    while bench.is_cleaning() {
        assert_eq!(told(&log, "close stream") + told(&log, "directory"), 0, "{log:?}");
        let more = bench.turn();
        assert!(told(&more, "Close") <= PER_TURN, "{more:?}");
        log.extend(more);
    }
    assert_eq!((told(&log, CLOSED), bench.core.item_count()), (MANY as usize, 0));
    assert_eq!(log[log.len() - 2..], ["close stream 1", "directory: "], "{log:?}");
    bench.announce(PROVIDER, &[service(3, true)]);
    bench.provider(T0, PROVIDER, &refresh(-1, &name(1), &[(22, 2)]));
    bench.interest(T0, &name(1));
    let log = bench.log.take();
    assert_eq!(log[..2], ["open stream 1 BINANCE", "directory: 1 BINANCE up"]);
    assert!(log.last().is_some_and(|line| line.ends_with("ok 22=2")), "{log:?}");
}

#[test]
fn whatever_is_asked_about_it_meanwhile_is_answered_as_if_it_were_gone() {
    let mut bench = publishing_many();
    bench.interest(T0, "UNKNOWN");
    bench.announce(PROVIDER, &[]);
    assert!(bench.core.is_leaving(PROVIDER), "its number still means its items");
    bench.log.take();
    bench.peer(T0, &LinkUp::ImageRequest { key: item(&name(MANY)) });
    let log = bench.log.take();
    assert!(log[0].starts_with("1 Close") && log[0].ends_with(CLOSED), "{log:?}");
    assert_eq!(log[1..], [format!("peer 7: {} {GONE}", name(MANY))]);
    bench.interest(T0, "NEW");
    bench.interest(T0, "UNKNOWN");
    assert_eq!(bench.log.take(), [format!("peer 7: NEW {GONE}"), format!("peer 7: UNKNOWN {GONE}")]);
    // What its provider goes on to say is about nothing.
    bench.provider(T0, PROVIDER, &refresh(-99, "NEW", &[(22, 2)]));
    bench.provider(T0, PROVIDER, &update(-(MANY - 1), None, &[(22, 2)]));
    let log = bench.log.take();
    assert!(log.len() == 1 && log[0].ends_with(CLOSED), "{log:?}");
    assert_eq!(bench.core.services().map(|(.., up, _)| up).collect::<Vec<_>>(), [false]);
    let log = bench.finish();
    assert_eq!((told(&log, "UNKNOWN"), bench.core.item_count()), (0, 0), "it was told: {log:?}");
}

#[test]
fn posts_make_no_items_in_it() {
    let mut bench = publishing_many();
    bench.core.items.suppliers.services.values_mut().for_each(|service| service.posts = PostRoute::Cache);
    bench.announce(PROVIDER, &[]);
    bench.log.take();
    let payload = fields(&[(22, 1)]);
    let image = rwf::Msg::Refresh(RefreshMsg {
        complete: true,
        payload: &payload,
        ..RefreshMsg::new(Domain::MARKET_PRICE, 0, DataType::FIELD_LIST)
    });
    let count = bench.core.item_count();
    bench.client_says(PEER, 70, "", &with_message(&image, PostUserRights::CREATE));
    bench.client_says(PEER, 70, &name(MANY), &with_message(&image, PostUserRights::CREATE));
    let log = bench.log.take();
    assert_eq!(told(&log, "answer for 70: nak 9 source unknown"), 2, "{log:?}");
    assert_eq!((log.len(), bench.core.item_count()), (3, count - 1), "one was closed: {log:?}");
}

#[test]
fn those_who_wait_for_what_was_never_published_are_told_in_portions_too() {
    let mut bench = publishing_many();
    bench.budget(10_000);
    for number in 0..MANY {
        bench.interest(T0, &format!("U{number:02}"));
    }
    bench.budget(PER_TURN);
    bench.announce(PROVIDER, &[]);
    let mut log = bench.log.take();
    while bench.is_cleaning() {
        let more = bench.turn();
        assert!(told(&more, CLOSED) <= PER_TURN, "{more:?}");
        log.extend(more);
    }
    assert_eq!((told(&log, "peer 7: U"), told(&log, CLOSED)), (MANY as usize, 2 * MANY as usize));
    assert!(bench.core.items.unknown.len() == 0);
}

#[test]
fn a_provider_that_lists_it_again_goes_on_with_items_of_its_own() {
    for again in [PROVIDER, OTHER] {
        let mut bench = publishing_many();
        if again == OTHER {
            bench.provider_logs_in(OTHER);
        }
        bench.interest(T0, "UNKNOWN");
        bench.announce(PROVIDER, &[]);
        bench.log.take();
        bench.announce(again, &[service(3, true)]);
        assert!(bench.is_listed() && bench.is_cleaning());
        assert_eq!(bench.log.take(), [""; 0], "stream and entry of the directory are there");
        bench.provider(T0, again, &refresh(-200, &name(MANY), &[(22, 2)]));
        bench.provider(T0, again, &refresh(-201, "UNKNOWN", &[(22, 3)]));
        bench.interest(T0, &name(MANY));
        let log = bench.log.take();
        assert_eq!(told(&log, CLOSED), 1, "the one before is closed first: {log:?}");
        assert!(log[0].ends_with(CLOSED), "{log:?}");
        assert_eq!((told(&log, "ok 22=2"), told(&log, "ok 22=3")), (1, 1), "{log:?}");
        let log = bench.finish();
        assert_eq!((told(&log, "close stream"), told(&log, "directory")), (0, 0), "{log:?}");
        let mut left = bench.names();
        left.sort();
        assert_eq!(left, [name(MANY), "UNKNOWN".to_owned()]);
        bench.provider(T0, again, &update(-200, None, &[(22, 4)]));
        assert!(bench.log.take()[0].ends_with("22=4"));
    }
}

#[test]
fn one_that_is_listed_and_withdrawn_again_and_again_has_two_clean_ups_at_most_and_is_gone_in_the_end() {
    let mut bench = publishing_many();
    for round in 0..50 {
        bench.announce(PROVIDER, &[]);
        bench.announce(PROVIDER, &[service(3, true)]);
        bench.provider(T0, PROVIDER, &refresh(-300, "LAST", &[(22, round)]));
        bench.interest(T0, "LAST");
        assert!(bench.counters.cleanups_waiting.get() <= 2, "{}", bench.counters.cleanups_waiting.get());
    }
    bench.log.take();
    bench.announce(PROVIDER, &[]);
    let mut log = bench.log.take();
    log.extend(bench.finish());
    assert_eq!(told(&log, "close stream"), 1, "{log:?}");
    assert_eq!(log.last().map(String::as_str), Some("directory: "));
    assert_eq!((bench.core.item_count(), bench.core.items.suppliers.services.len()), (0, 0));
}

#[test]
fn a_dialled_provider_may_take_it_over_and_back() {
    let mut bench = publishing_many();
    bench.dial(A);
    bench.announce(PROVIDER, &[]);
    bench.provider(T0, A, &Script::directory(&[service(4, true)]));
    assert!(bench.is_listed() && bench.is_cleaning());
    bench.log.take();
    bench.interest(T0, &name(MANY));
    let log = bench.log.take();
    assert!(log[0].ends_with(CLOSED) && told(&log, "provider 100: request I35") == 1, "{log:?}");
    bench.image(A, 5, &[(22, 7)]);
    // It withdraws it in turn, and the first one publishes it again.
    bench.provider(T0, A, &Script::directory(&[]));
    bench.announce(PROVIDER, &[service(3, true)]);
    bench.provider(T0, PROVIDER, &refresh(-1, &name(MANY), &[(22, 8)]));
    let log = bench.log.take();
    assert_eq!((told(&log, "ok 22=7"), told(&log, "provider 100: close 5")), (1, 1), "{log:?}");
    bench.finish();
    assert_eq!((bench.names(), bench.outstanding()), (vec![name(MANY)], (0, 0)));
}

#[test]
fn the_items_of_a_dialled_provider_are_closed_in_portions_and_asked_for_anew_when_it_offers_again() {
    let mut bench = asked_for_many();
    bench.provider(T0, A, &Script::directory(&[]));
    let mut log = bench.log.take();
    assert_eq!((told(&log, "provider 100: close"), told(&log, CLOSED)), (PER_TURN, PER_TURN), "{log:?}");
    assert_eq!(told(&log, "directory"), 0);
    bench.provider(T0, A, &Script::directory(&[service(3, true)]));
    for number in [1, MANY] {
        bench.interest(T0, &name(number));
    }
    log.extend(bench.log.take());
    assert_eq!((told(&log, "request I01"), told(&log, "request I35")), (1, 1), "{log:?}");
    for (_, status) in bench.core.dialled_providers() {
        assert_eq!((status.items_open, status.items_pending), (0, 2), "those before are not counted");
    }
    log.extend(bench.finish());
    assert_eq!(told(&log, CLOSED), MANY as usize, "{log:?}");
    assert_eq!((bench.outstanding(), bench.names().len()), ((2, 0), 2));
    for (_, status) in bench.core.dialled_providers() {
        assert_eq!((status.items_open, status.items_pending), (0, 2));
    }
}

#[test]
fn items_that_wait_for_another_provider_are_told_why_when_the_last_one_withdraws_it() {
    let mut bench = asked_for_many();
    bench.dial(B);
    bench.provider(T0, B, &Script::directory(&[service(3, true)]));
    bench.provider(T0, A, &Script::directory(&[]));
    bench.provider(T0, B, &Script::directory(&[]));
    let mut log = bench.log.take();
    log.extend(bench.finish());
    assert_eq!((told(&log, CLOSED), told(&log, "close stream 1")), (MANY as usize, 1), "{log:?}");
    assert_eq!((bench.core.item_count(), bench.outstanding()), (0, (0, 0)));
}

#[test]
fn a_provider_whose_service_takes_the_place_of_a_withdrawn_one_waits_for_that() {
    let mut bench = publishing_many();
    bench.core.reconfigure(|config| config.service_ids.clear());
    let mut renamed = service(1, true);
    renamed.info.name = "RENAMED".to_owned();
    bench.announce(PROVIDER, &[renamed]);
    assert!(bench.core.holds_provider(PROVIDER));
    bench.provider(T0, PROVIDER, &refresh_for(1, -1, "NEW", &[(22, 9)]));
    let mut log = bench.log.take();
    assert_eq!(told(&log, "notice"), 0, "it is not refused: {log:?}");
    log.extend(bench.finish());
    assert_eq!(told(&log, CLOSED), MANY as usize);
    if bench.core.holds_provider(PROVIDER) {
        bench.turn();
    }
    assert_eq!(bench.core.take_released(), [PROVIDER]);
    let services: Vec<_> = bench.core.services().map(|(id, name, up, _)| (id, name, up)).collect();
    assert_eq!((services, bench.names()), (vec![(1, "RENAMED", true)], vec!["NEW".to_owned()]));
    assert_eq!((bench.counters.provider_waits.get(), bench.counters.providers_waiting.get()), (1, 0));
    assert_eq!(bench.counters.messages_refused.get(), 0);
}

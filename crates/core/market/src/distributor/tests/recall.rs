//! Services without a cache: their images are at the providers.

use super::dialled::{A, B, OTHER_PEER, Script, config};
use super::status::CLOSED;
use super::*;
use crate::ServiceNames;

fn uncached() -> DistributorConfig {
    DistributorConfig { uncached: [ServiceNames::ALL.to_owned()].into_iter().collect(), ..config() }
}

fn answer(stream_id: i32, all: &[(i16, i64)]) -> Vec<u8> {
    numbered_answer(stream_id, None, all)
}

fn numbered_answer(stream_id: i32, seq_num: Option<u32>, all: &[(i16, i64)]) -> Vec<u8> {
    let payload = fields(all);
    let head = RefreshMsg::new(Domain::MARKET_PRICE, stream_id, DataType::FIELD_LIST);
    RefreshMsg { solicited: true, complete: true, seq_num, payload: &payload, ..head }
        .to_vec()
        .expect("legal")
}

fn numbered_update(stream_id: i32, seq_num: u32, all: &[(i16, i64)]) -> Vec<u8> {
    let payload = fields(all);
    let head = UpdateMsg::new(Domain::MARKET_PRICE, stream_id, DataType::FIELD_LIST);
    UpdateMsg { seq_num: Some(seq_num), payload: &payload, ..head }.to_vec().expect("legal")
}

/// IBM is open on stream 5 of A, wanted by PEER, and its image away.
fn away() -> Bench {
    let mut bench = Bench::dialled(uncached(), &[A]);
    bench.interest(T0, "IBM");
    bench.provider(T0, A, &answer(5, &[(22, 1)]));
    assert!(!bench.has_image());
    bench.said();
    bench
}

impl Bench {
    fn recalls_are_over(&self) -> bool {
        !crate::distributor::recall::may_ask(&self.core.items) && self.core.items.recalls.is_idle()
    }

    fn has_image(&self) -> bool {
        let index = self.core.items.find(item("IBM")).expect("it is there");
        self.core.items.table[index].cached.has_image()
    }
}

#[test]
fn an_image_that_is_wanted_again_is_asked_for_at_the_provider_and_goes_to_who_waits() {
    let mut bench = away();
    bench.provider(T0, A, &update(5, None, &[(22, 2)]));
    assert_eq!(bench.said(), ["1 Update #2 item 1: 22=2"]);
    bench.peer_says(T0, OTHER_PEER, &LinkUp::Interest { key: item("IBM") });
    bench.peer_says(T0, OTHER_PEER, &LinkUp::ImageRequest { key: item("IBM") });
    let said = bench.said();
    let asked = said.iter().filter(|line| line.contains("provider 100")).count();
    assert!(asked == 1 && !said.iter().any(|line| line.contains("Image")), "{said:?}");
    bench.provider(T0, A, &numbered_update(5, 3, &[(22, 3)]));
    bench.said();
    bench.provider(T0, A, &numbered_answer(5, Some(3), &[(22, 3)]));
    let said = bench.said();
    assert!(said.len() == 1 && said[0].contains("peer 8") && said[0].contains("22=3"), "{said:?}");
    assert!(!bench.has_image() && bench.counters.images_recalled.get() == 1);
    // The answer of one who sends it twice goes to everybody.
    bench.provider(T0, A, &answer(5, &[(22, 4)]));
    let said = bench.said();
    assert!(said.len() == 1 && said[0].contains("Refresh"), "{said:?}");
}

#[test]
fn an_image_that_others_may_have_missed_something_before_is_for_all() {
    for (before, of_image) in [(None, None), (None, Some(4)), (Some(3), Some(4)), (Some(3), None)] {
        let mut bench = away();
        if let Some(seq_num) = before {
            bench.provider(T0, A, &numbered_update(5, seq_num, &[(22, 3)]));
        }
        bench.peer_says(T0, OTHER_PEER, &LinkUp::Interest { key: item("IBM") });
        bench.said();
        bench.provider(T0, A, &numbered_answer(5, of_image, &[(22, 4)]));
        let said = bench.said();
        assert!(said.iter().any(|line| line.contains("Refresh") && line.contains("22=4")), "{said:?}");
        assert!(said.iter().any(|line| line.contains("peer 8") && line.contains("22=4")), "{said:?}");
    }
    // One that says something new beside is for all too.
    let head = RefreshMsg::new(Domain::MARKET_PRICE, 5, DataType::FIELD_LIST);
    let payload = fields(&[(22, 3)]);
    let same = RefreshMsg { solicited: true, complete: true, seq_num: Some(3), payload: &payload, ..head };
    let suspect = State::new(StreamState::Open, DataState::Suspect);
    let news = [
        (same, false),
        (RefreshMsg { state: suspect, ..same }, true),
        (RefreshMsg { group_id: &[0, 1], ..same }, true),
        (RefreshMsg { permission_data: Some(b"p"), ..same }, true),
        (RefreshMsg { container_type: DataType::NO_DATA, payload: &[], ..same }, true),
    ];
    for (msg, is_for_all) in news {
        let mut bench = away();
        bench.provider(T0, A, &numbered_update(5, 3, &[(22, 3)]));
        bench.peer_says(T0, OTHER_PEER, &LinkUp::Interest { key: item("IBM") });
        bench.said();
        bench.provider(T0, A, &msg.to_vec().expect("legal"));
        let said = bench.said();
        assert_eq!(said.iter().any(|line| line.contains("Refresh")), is_for_all, "{said:?}");
    }
    // One that was cleared meanwhile nobody has.
    let mut bench = away();
    bench.provider(T0, A, &numbered_update(5, 3, &[(22, 3)]));
    bench.peer_says(T0, OTHER_PEER, &LinkUp::Interest { key: item("IBM") });
    let head = StatusMsg::new(Domain::MARKET_PRICE, 5, DataType::NO_DATA);
    bench.provider(T0, A, &StatusMsg { clear_cache: true, ..head }.to_vec().expect("legal"));
    bench.said();
    bench.provider(T0, A, &numbered_answer(5, Some(3), &[(22, 3)]));
    assert!(bench.said().iter().any(|line| line.contains("Refresh")));
}

#[test]
fn an_image_in_parts_that_is_asked_for_again_is_whole_before_anybody_gets_it() {
    let mut bench = away();
    bench.provider(T0, A, &numbered_update(5, 7, &[(22, 1)]));
    bench.peer_says(T0, PEER, &LinkUp::ImageRequest { key: item("IBM") });
    bench.said();
    let part = |part_num, complete, all: &[(i16, i64)]| {
        let payload = fields(all);
        let head = RefreshMsg::new(Domain::MARKET_PRICE, 5, DataType::FIELD_LIST);
        let part_num = Some(part_num);
        let seq_num = Some(7);
        let msg = RefreshMsg { solicited: true, complete, part_num, seq_num, payload: &payload, ..head };
        msg.to_vec().expect("legal")
    };
    bench.provider(T0, A, &part(0, false, &[(22, 1)]));
    bench.provider(T0, A, &update(5, None, &[(22, 2)]));
    // Another wants it meanwhile.
    bench.peer_says(T0, OTHER_PEER, &LinkUp::Interest { key: item("IBM") });
    assert!(!bench.said().iter().any(|line| line.contains("Image")));
    bench.provider(T0, A, &part(1, true, &[(25, 5)]));
    let said = bench.said();
    let images: Vec<_> = said.iter().filter(|line| line.contains("22=2 25=5")).collect();
    assert!(images.len() == 2 && !said.iter().any(|line| line.contains("Refresh")), "{said:?}");
    assert!(!bench.has_image());
}

#[test]
fn an_image_that_does_not_come_is_asked_for_on_another_stream() {
    let mut bench = away();
    bench.peer_says(T0, PEER, &LinkUp::ImageRequest { key: item("IBM") });
    bench.said();
    let later = T0 + config().request_timeout;
    bench.wake(later);
    let said = bench.said();
    assert!(said.iter().any(|line| line.contains("provider 100: close 5")), "{said:?}");
    assert!(said.iter().any(|line| line.contains("provider 100: request IBM on 6")), "{said:?}");
    bench.provider(later, A, &answer(6, &[(22, 9)]));
    let said = bench.said();
    assert!(said.iter().any(|line| line.contains("Refresh")), "all were told that it is suspect: {said:?}");
    assert!(said.iter().any(|line| line.contains("peer 7") && line.contains("22=9")), "{said:?}");
    assert!(!bench.has_image());
}

#[test]
fn who_waits_for_the_image_of_a_provider_that_goes_gets_that_of_the_next() {
    let mut bench = Bench::dialled(uncached(), &[A, B]);
    bench.interest(T0, "IBM");
    bench.provider(T0, A, &answer(5, &[(22, 1)]));
    bench.peer_says(T0, PEER, &LinkUp::ImageRequest { key: item("IBM") });
    bench.said();
    bench.core.on_provider_closed(T0, A, &mut bench.log);
    bench.wake(T0);
    bench.said();
    bench.provider(T0, B, &answer(5, &[(22, 7)]));
    let said = bench.said();
    assert!(said.iter().any(|line| line.contains("Refresh") && line.contains("22=7")), "{said:?}");
    assert!(said.iter().any(|line| line.contains("peer 7") && line.contains("22=7")), "{said:?}");
    // Nothing of the first request is left.
    bench.wake(T0 + config().request_timeout);
    assert_eq!(bench.counters.requests_unanswered.get(), 0);
}

#[test]
fn an_item_that_ends_while_its_image_is_asked_for_is_gone() {
    let mut bench = away();
    bench.peer_says(T0, PEER, &LinkUp::ImageRequest { key: item("IBM") });
    bench.provider(T0, A, &Script::status(5, CLOSED));
    bench.interest(T0, "MSFT");
    bench.wake(T0 + config().request_timeout / 2);
    assert!(bench.core.items.find(item("IBM")).is_none());
    assert_eq!(bench.counters.requests_unanswered.get(), 0);
}

#[test]
fn who_has_no_room_gets_the_image_in_its_turn_and_it_stays_until_then() {
    let mut bench = away();
    bench.peer_says(T0, PEER, &LinkUp::ImageRequest { key: item("IBM") });
    bench.said();
    bench.log.1 = Some(0);
    bench.provider(T0, A, &answer(5, &[(22, 3)]));
    assert_eq!((bench.said().len(), bench.has_image()), (1, true), "all but the one that has no room");
    bench.log.1 = None;
    bench.core.serve_peers(T0, &mut bench.log);
    let said = bench.said();
    assert!(said.iter().any(|line| line.contains("peer 7") && line.contains("22=3")), "{said:?}");
    assert!(!bench.has_image());
}

#[test]
fn services_that_cannot_be_asked_and_those_that_posts_change_keep_their_images() {
    let mut bench = Bench::new(uncached());
    bench.provider_logs_in(PROVIDER);
    bench.announce(PROVIDER, &[service(3, true)]);
    bench.provider(T0, PROVIDER, &refresh(4, "IBM", &[(22, 1)]));
    assert!(bench.has_image());
    let posts = BTreeMap::from([("BINANCE".to_owned(), PostRoute::Cache)]);
    let mut bench = Bench::dialled(DistributorConfig { posts, ..uncached() }, &[A]);
    bench.interest(T0, "IBM");
    bench.provider(T0, A, &answer(5, &[(22, 1)]));
    assert!(bench.has_image());
}

#[test]
fn images_are_asked_for_as_many_at_a_time_as_items_are() {
    let mut bench = Bench::dialled(uncached(), &[A]);
    for (stream_id, name) in [(5, "A"), (6, "B"), (7, "C"), (8, "D")] {
        bench.interest(T0, name);
        bench.provider(T0, A, &answer(stream_id, &[(22, 1)]));
    }
    bench.said();
    let asked = |bench: &mut Bench| {
        let mut said = bench.said();
        said.retain(|line| line.contains("request"));
        said
    };
    for name in ["A", "B", "C", "D"] {
        bench.peer_says(T0, PEER, &LinkUp::ImageRequest { key: item(name) });
    }
    assert_eq!(asked(&mut bench).len(), 2, "requests_outstanding_max");
    bench.provider(T0, A, &answer(5, &[(22, 1)]));
    assert_eq!(asked(&mut bench), ["provider 100: request C on 7 in 3"]);
    // An item that ends makes room too, and a place in the queue may be of one that wants nothing any more.
    bench.no_interest(T0, "D");
    bench.provider(T0, A, &Script::status(6, CLOSED));
    bench.wake(T0);
    bench.provider(T0, A, &answer(7, &[(22, 1)]));
    bench.wake(T0);
    bench.core.on_provider_closed(T0, A, &mut bench.log);
    bench.wake(T0);
    assert!(bench.recalls_are_over(), "nothing counts as on its way");
}

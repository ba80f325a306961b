//! Images for clients that have not taken what they were sent before.

use rwf::DataState;

use super::*;

/// As [`Bench::watching`], with B on stream 9, and A not taking what it is sent.
fn lagging() -> Bench {
    let mut bench = Bench::watching();
    bench.request(B, 9, "IBM");
    bench.log.2.insert(A);
    bench.took();
    bench
}

impl Bench {
    fn has_room(&mut self) -> Vec<String> {
        self.log.2.clear();
        for client in self.core.take_due_clients() {
            while self.core.send_due_images(self.now, client, &mut self.log) {}
        }
        self.took()
    }
}

fn ok_status() -> Vec<u8> {
    let state = State::new(StreamState::Open, DataState::Ok).because(StateCode::NONE, "fine");
    StatusMsg { state: Some(state), ..StatusMsg::new(Domain::MARKET_PRICE, 0, DataType::NO_DATA) }
        .to_vec()
        .expect("legal")
}

#[test]
fn an_image_for_a_client_that_lags_comes_when_it_has_room_with_all_updates_until_then() {
    let mut bench = lagging();
    bench.stream(Kind::Refresh, 2, 1, &refresh(&[(22, 2), (25, 2)]));
    bench.stream(Kind::Update, 3, 1, &update(&[(22, 3)]));
    assert_eq!(bench.took(), ["2/9: refresh ok 22=2 25=2", "2/9: update 22=3"]);
    bench.stream(Kind::Refresh, 4, 1, &refresh(&[(22, 4), (25, 4)]));
    bench.stream(Kind::Update, 5, 1, &update(&[(25, 5)]));
    bench.took();
    assert_eq!(bench.has_room(), ["1/5: refresh ok 22=4 25=5"], "once");
    bench.stream(Kind::Update, 6, 1, &update(&[(22, 6)]));
    let log = bench.took();
    assert!(log.len() == 1 && log[0].contains("1/5") && log[0].contains("2/9"), "{log:?}");
    assert_eq!((bench.counters.images_deferred.get(), bench.counters.watchers.get()), (1, 2));
}

#[test]
fn who_waits_for_an_image_is_told_what_is_bad_and_not_that_all_is_well() {
    let mut bench = lagging();
    bench.stream(Kind::Refresh, 2, 1, &refresh(&[(22, 2)]));
    bench.took();
    bench.stream(Kind::Status, 3, 1, &status(StreamState::Open, "bad"));
    bench.stream(Kind::Status, 4, 1, &ok_status());
    let log = bench.took();
    assert!(log[0].contains("1/5") && log[0].contains("2/9"), "{log:?}");
    assert_eq!(log[1], "2/9: status open ok: fine");
    assert_eq!(bench.has_room(), ["1/5: refresh ok 22=2"]);
}

#[test]
fn a_first_image_that_had_to_be_fetched_waits_too() {
    let mut bench = Bench::running();
    bench.request(A, 5, "IBM");
    bench.log.2.insert(A);
    bench.open(1, 1, "IBM");
    bench.took();
    bench.image(1, 1, "IBM", &[(22, 1)]);
    bench.stream(Kind::Update, 2, 1, &update(&[(22, 2)]));
    assert_eq!(bench.took(), [""; 0]);
    assert_eq!(bench.has_room(), ["1/5: refresh ok solicited 22=2"]);
}

#[test]
fn a_stream_that_waits_for_an_image_may_pause_change_and_end() {
    let mut bench = lagging();
    for stream_id in [6, 7, 8] {
        bench.request(A, stream_id, "IBM");
    }
    bench.took();
    bench.stream(Kind::Refresh, 2, 1, &refresh(&[(22, 2)]));
    bench.took();
    bench.ask(A, &ItemRequest { pause: true, no_refresh: true, ..streaming(5, "IBM") });
    bench.close(A, 6);
    bench.ask(A, &ItemRequest { no_refresh: true, ..streaming(7, "IBM") });
    assert_eq!(bench.took(), ["1/7: refresh ok 22=2"], "an answer is sent at once");
    assert_eq!(bench.has_room(), ["1/8: refresh ok 22=2"]);
    bench.ask(A, &ItemRequest { no_refresh: true, ..streaming(5, "IBM") });
    assert_eq!(bench.took(), ["1/5: refresh ok 22=2"]);
    assert_eq!(bench.counters.watchers.get(), 4);
}

#[test]
fn an_item_that_ends_while_its_image_is_due_ends_at_once() {
    let mut bench = lagging();
    bench.stream(Kind::Refresh, 2, 1, &refresh(&[(22, 2)]));
    bench.took();
    bench.stream(Kind::Close, 3, 1, &status(StreamState::Closed, "delisted"));
    let log = bench.took();
    assert!(log.len() == 1 && log[0].contains("1/5") && log[0].contains("2/9"), "{log:?}");
    assert_eq!(bench.has_room(), [""; 0]);
    assert_eq!(bench.counters.watchers.get(), 0);
}

#[test]
fn images_that_are_due_come_step_by_step() {
    let mut bench = Bench::running();
    for id in 1..=9_u32 {
        let name = format!("I{id}");
        bench.request(A, id as i32, &name);
        bench.open(u64::from(id), id, &name);
        bench.image(id, u64::from(id), &name, &[(22, 1)]);
    }
    bench.log.2.insert(A);
    for id in 1..=9_u32 {
        bench.stream(Kind::Refresh, u64::from(9 + id), id, &refresh(&[(22, 2)]));
    }
    bench.took();
    assert_eq!(bench.core.take_due_clients(), [A]);
    let mut steps = Vec::new();
    for has_more in [true, true, false] {
        bench.log.1 = Some(3);
        assert_eq!(bench.core.send_due_images(bench.now, A, &mut bench.log), has_more);
        steps.extend(bench.took());
    }
    let expected: Vec<String> = (1..=9).map(|id| format!("1/{id}: refresh ok 22=2")).collect();
    assert_eq!(steps, expected);
    assert_eq!(bench.core.take_due_clients(), [], "it is told once");
}

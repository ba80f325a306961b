//! Clients whose updates are conflated.

use super::*;

/// As [`Bench::watching`], with B on stream 9, and A's updates conflated.
fn slow() -> Bench {
    let mut bench = Bench::watching();
    bench.request(B, 9, "IBM");
    bench.log.3.insert(A);
    bench.log.2.insert(A);
    bench.took();
    bench
}

impl Bench {
    fn is_served(&mut self) -> Vec<String> {
        for client in self.core.take_due_clients() {
            while self.core.send_due_images(self.now, client, &mut self.log) {}
        }
        self.took()
    }

    fn info(&self) -> (usize, u64) {
        let info = self.core.client_info_of(A).expect("it is connected");
        (info.changed_streams, info.updates_conflated)
    }
}

#[test]
fn a_slow_client_is_sent_the_newest_values_once_when_it_has_room() {
    let mut bench = slow();
    bench.stream(Kind::Update, 2, 1, &update(&[(22, 2)]));
    bench.stream(Kind::Update, 3, 1, &update(&[(25, 3)]));
    bench.stream(Kind::Update, 4, 1, &update(&[(22, 4)]));
    assert_eq!(bench.took(), ["2/9: update 22=2", "2/9: update 25=3", "2/9: update 22=4"]);
    assert_eq!((bench.info(), bench.counters.updates_conflated.get()), ((1, 0), 3));
    assert_eq!(bench.is_served(), ["1/5: update 22=4 25=3"]);
    assert_eq!((bench.info(), bench.counters.updates_out.get()), ((0, 3), 4));
    assert_eq!(bench.is_served(), [""; 0]);
    // The next update is noted again.
    bench.stream(Kind::Update, 5, 1, &update(&[(22, 5)]));
    assert_eq!((bench.took(), bench.info()), (vec!["2/9: update 22=5".to_owned()], (1, 3)));
    assert_eq!(bench.is_served(), ["1/5: update 22=5"]);
    // At the upper step it gets every update, a stream that had changed after its newest values.
    bench.stream(Kind::Update, 6, 1, &update(&[(22, 6)]));
    bench.log.3.clear();
    bench.stream(Kind::Update, 7, 1, &update(&[(22, 7)]));
    assert_eq!(bench.took(), ["2/9: update 22=6", "2/9: update 22=7"]);
    assert_eq!(bench.is_served(), ["1/5: update 22=7"]);
    bench.stream(Kind::Update, 8, 1, &update(&[(22, 8)]));
    let log = bench.took();
    assert!(log.len() == 1 && log[0].contains("1/5") && log[0].contains("2/9"), "{log:?}");
    assert_eq!((bench.info(), bench.counters.updates_conflated.get()), ((0, 6), 6));
}

#[test]
fn streams_are_served_in_the_order_of_their_first_change_a_portion_at_a_time() {
    let mut bench = Bench::running();
    for id in 1..=6_u32 {
        let name = format!("I{id}");
        bench.request(A, id as i32, &name);
        bench.open(u64::from(id), id, &name);
        bench.image(id, u64::from(id), &name, &[(22, 1)]);
    }
    bench.log.3.insert(A);
    for (sequence, id) in (7..).zip([4, 2, 4, 6, 1, 2, 6]) {
        bench.stream(Kind::Update, sequence, id, &update(&[(22, sequence as i64)]));
    }
    bench.took();
    assert_eq!((bench.core.take_due_clients(), bench.info()), (vec![A], (4, 0)));
    let mut sent = Vec::new();
    for has_more in [true, false] {
        bench.log.1 = Some(1);
        assert_eq!(bench.core.send_due_images(bench.now, A, &mut bench.log), has_more);
        sent.push(bench.took());
    }
    let expected = [["1/4: update 22=9", "1/2: update 22=12"], ["1/6: update 22=13", "1/1: update 22=11"]];
    assert_eq!(sent, expected);
}

#[test]
fn a_status_and_the_end_come_behind_the_newest_values() {
    let mut bench = slow();
    bench.stream(Kind::Update, 2, 1, &update(&[(22, 2)]));
    bench.took();
    bench.stream(Kind::Status, 3, 1, &status(StreamState::Open, "halted"));
    let log = bench.took();
    assert_eq!(log[0], "1/5: update 22=2");
    assert!(log.len() == 2 && log[1].contains("1/5") && log[1].ends_with("halted"), "{log:?}");
    bench.stream(Kind::Update, 4, 1, &update(&[(22, 4)]));
    bench.stream(Kind::Close, 5, 1, &status(StreamState::Closed, "delisted"));
    let log = bench.took();
    assert_eq!(log[..2], ["2/9: update 22=4", "1/5: refresh suspect 22=4"]);
    assert!(log.len() == 3 && log[2].contains("1/5") && log[2].contains("2/9"), "{log:?}");
    assert_eq!(bench.is_served(), [""; 0], "nothing comes after the end");
    assert_eq!((bench.info().0, bench.counters.watchers.get()), (0, 0));
}

#[test]
fn a_status_of_good_data_is_not_left_out() {
    let mut bench = slow();
    bench.stream(Kind::Update, 2, 1, &update(&[(22, 2)]));
    bench.took();
    let state = State::new(StreamState::Open, rwf::DataState::Ok).because(StateCode::NONE, "fine");
    let fine = StatusMsg { state: Some(state), ..StatusMsg::new(Domain::MARKET_PRICE, 0, DataType::NO_DATA) };
    bench.stream(Kind::Status, 3, 1, &fine.to_vec().expect("legal"));
    let log = bench.took();
    assert!(log.len() == 2 && log[1].contains("1/5") && log[1].ends_with("fine"), "{log:?}");
}

#[test]
fn what_must_not_be_conflated_or_is_in_no_image_is_sent_behind_the_newest_values() {
    type Change = fn(&mut UpdateMsg<'_>);
    let kinds: [(Change, i64); 2] =
        [(|msg| msg.do_not_conflate = true, 3), (|msg| msg.do_not_cache = true, 2)];
    for (change, last) in kinds {
        let mut bench = slow();
        bench.stream(Kind::Update, 2, 1, &update(&[(22, 2)]));
        bench.took();
        let payload = fields(&[(22, 3)]);
        let mut msg =
            UpdateMsg { payload: &payload, ..UpdateMsg::new(Domain::MARKET_PRICE, 0, DataType::FIELD_LIST) };
        change(&mut msg);
        bench.stream(Kind::Update, 3, 1, &msg.to_vec().expect("legal"));
        let log = bench.took();
        assert_eq!(log[0], "1/5: update 22=2");
        assert!(log.len() == 2 && log[1].contains("1/5") && log[1].contains("2/9"), "{log:?}");
        bench.stream(Kind::Update, 4, 1, &update(&[(25, 4)]));
        bench.took();
        assert_eq!(bench.is_served(), ["1/5: update 25=4"]);
        bench.request(A, 50, "IBM");
        assert_eq!(bench.took(), [format!("1/50: refresh ok solicited 22={last} 25=4")]);
    }
}

#[test]
fn updates_that_cannot_be_merged_are_never_conflated() {
    let mut bench = slow();
    let opaque = |payload| UpdateMsg { payload, ..UpdateMsg::new(Domain::MARKET_PRICE, 0, DataType::OPAQUE) };
    for sequence in 2..5 {
        bench.stream(Kind::Update, sequence, 1, &opaque(b"text").to_vec().expect("legal"));
        let log = bench.took();
        assert!(log.len() == 1 && log[0].contains("1/5") && log[0].contains("2/9"), "{log:?}");
    }
    assert_eq!(bench.counters.updates_conflated.get(), 0);
}

#[test]
fn a_new_image_for_all_is_what_a_changed_stream_is_sent() {
    let mut bench = slow();
    bench.stream(Kind::Update, 2, 1, &update(&[(22, 2)]));
    bench.stream(Kind::Refresh, 3, 1, &refresh(&[(22, 3)]));
    bench.stream(Kind::Update, 4, 1, &update(&[(22, 4)]));
    assert_eq!(bench.took(), ["2/9: update 22=2", "2/9: refresh ok 22=3", "2/9: update 22=4"]);
    assert_eq!((bench.is_served(), bench.info()), (vec!["1/5: refresh ok 22=4".to_owned()], (0, 1)));
}

#[test]
fn a_changed_stream_may_pause_change_its_view_be_asked_for_again_and_end() {
    let mut bench = slow();
    for stream_id in [6, 7, 8] {
        bench.request(A, stream_id, "IBM");
    }
    bench.stream(Kind::Update, 2, 1, &update(&[(22, 2), (25, 2)]));
    bench.took();
    assert_eq!(bench.info(), (4, 0));
    bench.ask(A, &ItemRequest { pause: true, no_refresh: true, ..streaming(5, "IBM") });
    bench.close(A, 6);
    assert_eq!(bench.took(), [""; 0]);
    bench.ask(A, &streaming(7, "IBM"));
    assert_eq!(bench.took(), ["1/7: refresh ok solicited 22=2 25=2"], "an answer is sent at once");
    let view = Some(rdm::item::View::Fields([25].into()));
    bench.ask(A, &ItemRequest { view, no_refresh: true, ..streaming(8, "IBM") });
    assert_eq!(bench.took(), ["1/8: refresh ok 25=2"]);
    assert_eq!((bench.is_served(), bench.info()), (vec![], (0, 3)));
    // Outside its view nothing changes.
    bench.stream(Kind::Update, 3, 1, &update(&[(22, 3)]));
    bench.took();
    assert_eq!((bench.info().0, bench.is_served()), (1, vec!["1/7: update 22=3".to_owned()]));
    bench.stream(Kind::Update, 4, 1, &update(&[(25, 4)]));
    bench.took();
    assert_eq!(bench.is_served(), ["1/7: update 25=4", "1/8: update 25=4"]);
    bench.ask(A, &ItemRequest { no_refresh: true, ..streaming(5, "IBM") });
    assert_eq!(bench.took(), ["1/5: refresh ok 22=3 25=4"]);
}

#[test]
fn a_snapshot_and_a_first_image_are_answers_as_ever() {
    let mut bench = slow();
    bench.log.2.clear();
    bench.stream(Kind::Update, 2, 1, &update(&[(22, 2)]));
    bench.took();
    bench.ask(A, &ItemRequest { streaming: false, ..streaming(6, "IBM") });
    assert_eq!(bench.took(), ["1/6: refresh ok solicited non-streaming 22=2"]);
    bench.request(A, 7, "IBM");
    assert_eq!(bench.took(), ["1/7: refresh ok solicited 22=2"]);
    assert_eq!(bench.is_served(), ["1/5: update 22=2"]);
}

#[test]
fn each_step_is_reported_on_the_login_stream_and_counted() {
    let mut bench = slow();
    for (is_conflated, why) in [(true, "slow"), (true, "slow"), (false, "fast"), (false, "fast")] {
        bench.core.set_conflated(bench.now, A, is_conflated, why, &mut bench.log);
        assert_eq!(bench.counters.clients_conflated.get(), u64::from(is_conflated));
    }
    assert_eq!(bench.took(), ["1/1: status open ok: slow login", "1/1: status open ok: fast login"]);
    let counters = &bench.counters;
    assert_eq!((counters.conflations_begun.get(), counters.conflations_ended.get()), (1, 1));
    bench.core.set_conflated(bench.now, A, true, "slow", &mut bench.log);
    let info = bench.core.client_info_of(A).expect("it is connected");
    assert_eq!(info.conflated_since, Some(bench.now));
    bench.core.on_client_closed(bench.now, A, &mut bench.log);
    assert_eq!(bench.counters.clients_conflated.get(), 0);
    bench.core.set_conflated(bench.now, A, true, "slow", &mut bench.log);
    assert_eq!(bench.counters.clients_conflated.get(), 0, "it is gone");
}

/// What is kept of a reader that takes nothing does not depend on how many updates come.
#[test]
fn ten_thousand_streams_of_a_frozen_reader_are_noted_once_each() {
    const STREAMS: u32 = 10_000;
    let mut bench = Bench::running();
    for id in 1..=STREAMS {
        let name = format!("I{id}");
        bench.request(A, id as i32, &name);
        bench.open(u64::from(id), id, &name);
        bench.image(id, u64::from(id), &name, &[(22, 1)]);
        bench.log.0.clear();
    }
    bench.log.3.insert(A);
    let mut sequence = u64::from(STREAMS);
    for round in 0..5 {
        for id in 1..=STREAMS {
            sequence += 1;
            bench.stream(Kind::Update, sequence, id, &update(&[(22, i64::from(id) + round)]));
        }
        let client = bench.core.items.clients.get(A).expect("it is connected");
        assert_eq!((client.due.len(), client.conflation.changed.len()), (STREAMS as usize, STREAMS as usize));
    }
    assert_eq!(bench.took(), [""; 0], "nothing is sent to it");
    assert_eq!(std::mem::size_of::<i32>() + std::mem::size_of::<Watcher>(), 12, "bytes of a changed stream");
    let sent = bench.is_served();
    assert_eq!(sent.len(), STREAMS as usize);
    assert!((1..).zip(&sent).all(|(id, line)| *line == format!("1/{id}: update 22={}", id + 4)));
    assert_eq!(bench.counters.updates_conflated.get(), 5 * u64::from(STREAMS));
    assert_eq!(bench.info(), (0, 5 * u64::from(STREAMS)));
}

#[test]
fn a_client_that_is_gone_leaves_nothing_behind() {
    let mut bench = slow();
    bench.stream(Kind::Update, 2, 1, &update(&[(22, 2)]));
    bench.core.on_client_closed(bench.now, A, &mut bench.log);
    bench.took();
    assert_eq!(bench.is_served(), [""; 0]);
    bench.stream(Kind::Update, 3, 1, &update(&[(22, 3)]));
    assert_eq!((bench.took(), bench.counters.watchers.get()), (vec!["2/9: update 22=3".to_owned()], 1));
    assert_eq!(bench.counters.updates_conflated.get(), 1);
}

//! Images that the instance keeps anyway: given up here, and recalled.

use rwf::{Qos, Rate};

use super::streams::ibm;
use super::*;
use crate::ServiceNames;

const HALF_A_SECOND: Qos = Qos { rate: Rate::TimeConflated(500), ..Qos::REAL_TIME };

/// As [`Bench::running`], with so many images that are kept while nobody needs them.
fn keeping(max: usize) -> Bench {
    let mut bench = Bench::alone();
    bench.core.reconfigure(|config| {
        config.kept_images_max = Some(max);
        config.conflated_intervals_ms = vec![500];
        config.silence_timeout = Duration::from_secs(3_600);
    });
    bench.find_instance(DIRECTORY, STREAM, INSTANCE, true);
    bench.log.0.clear();
    bench
}

/// With IBM as number 1, watched by A on stream 5, and its image away after its update 2.
fn away() -> Bench {
    let mut bench = keeping(0);
    bench.request(A, 5, "IBM");
    bench.open(1, 1, "IBM");
    bench.image(1, 1, "IBM", &[(22, 1), (25, 1)]);
    bench.stream(Kind::Update, 2, 1, &update(&[(22, 2)]));
    assert_eq!(bench.took(), ["77: interest IBM", "1/5: refresh ok solicited 22=1 25=1", "1/5: update 22=2"]);
    bench
}

impl Bench {
    /// What is due for clients that have room.
    fn due(&mut self) -> Vec<String> {
        for client in self.core.take_due_clients() {
            while self.core.send_due_images(self.now, client, &mut self.log) {}
        }
        self.took()
    }

    fn has_image(&self) -> bool {
        let key = self.core.items.find(named("IBM")).expect("it is watched");
        self.core.items.table[key].cached.has_image()
    }
}

#[test]
fn an_image_is_given_up_when_nobody_has_needed_it_for_a_while() {
    let mut bench = keeping(10);
    bench.request(A, 5, "IBM");
    bench.open(1, 1, "IBM");
    bench.image(1, 1, "IBM", &[(22, 1)]);
    bench.after(Duration::from_secs(4));
    bench.request(B, 9, "IBM");
    bench.after(Duration::from_secs(2));
    assert!(bench.has_image(), "B has had it since it was looked at");
    bench.after(Duration::from_secs(5));
    assert!(!bench.has_image());
    bench.took();
    bench.stream(Kind::Update, 2, 1, &update(&[(22, 2)]));
    let log = bench.took();
    assert!(log.len() == 1 && log[0].contains("1/5") && log[0].contains("2/9"), "{log:?}");
    assert_eq!(bench.counters.items_suspect.get(), 0);
}

#[test]
fn of_more_images_than_are_kept_the_oldest_goes() {
    let mut bench = keeping(2);
    for id in 1..=3_u32 {
        let name = format!("I{id}");
        bench.request(A, id as i32 + 4, &name);
        bench.open(u64::from(id), id, &name);
        bench.image(id, u64::from(id), &name, &[(22, 1)]);
    }
    let has_image = |name: &str| {
        let index = bench.core.items.find(named(name)).expect("it is watched");
        bench.core.items.table[index].cached.has_image()
    };
    assert_eq!(["I1", "I2", "I3"].map(has_image), [false, true, true]);
}

#[test]
fn who_comes_later_gets_the_image_in_its_place_among_the_updates() {
    let mut bench = away();
    bench.request(B, 9, "IBM");
    bench.request(B, 10, "IBM");
    bench.stream(Kind::Update, 3, 1, &update(&[(22, 3)]));
    assert_eq!(bench.took(), ["77: image IBM", "1/5: update 22=3"], "asked for once");
    bench.image(1, 3, "IBM", &[(22, 3), (25, 1)]);
    assert_eq!(bench.took(), ["2/9,2/10: refresh ok solicited 22=3 25=1"]);
    bench.stream(Kind::Update, 4, 1, &update(&[(22, 4)]));
    assert_eq!(bench.took(), ["1/5,2/9,2/10: update 22=4"]);
    // Another of the same number is of no use.
    bench.image(1, 4, "IBM", &[(22, 4), (25, 1)]);
    assert_eq!((bench.took(), bench.counters.images_requested.get()), (vec![], 2));
}

#[test]
fn a_stream_that_becomes_a_snapshot_ends_with_the_image_that_is_recalled() {
    let mut bench = away();
    bench.ask(A, &ItemRequest { streaming: false, ..ibm(5) });
    bench.stream(Kind::Update, 3, 1, &update(&[(22, 3)]));
    assert_eq!(bench.took(), ["77: image IBM"]);
    bench.image(1, 3, "IBM", &[(22, 3), (25, 1)]);
    bench.stream(Kind::Update, 4, 1, &update(&[(22, 4)]));
    assert_eq!(bench.took(), ["1/5: refresh ok solicited non-streaming 22=3 25=1"]);
    assert_eq!(bench.counters.watchers.get(), 0);
}

#[test]
fn an_image_in_parts_shows_nothing_before_its_last() {
    let mut bench = away();
    bench.request(B, 9, "IBM");
    bench.took();
    let part = |part_num, complete, all: &[(i16, i64)]| {
        let payload = fields(all);
        let head = RefreshMsg::new(Domain::MARKET_PRICE, 0, DataType::FIELD_LIST);
        let msg = RefreshMsg { part_num: Some(part_num), complete, payload: &payload, ..head };
        msg.to_vec().expect("legal")
    };
    let (first, last) = (part(0, false, &[(22, 2)]), part(1, true, &[(25, 1)]));
    let image = |refresh| LinkDown::Image { item: 1, after: 2, key: named("IBM"), refresh };
    bench.link(INSTANCE, &image(&first));
    assert_eq!((bench.took().len(), bench.has_image()), (0, false));
    // A first part again: it begins anew.
    bench.link(INSTANCE, &image(&first));
    bench.link(INSTANCE, &image(&last));
    assert_eq!(bench.took(), ["2/9: refresh ok solicited 22=2 25=1"]);
}

#[test]
fn what_an_image_lacks_that_has_come_since_it_was_asked_for_is_merged_into_it() {
    let mut bench = away();
    bench.request(B, 9, "IBM");
    bench.stream(Kind::Update, 3, 1, &update(&[(22, 3)]));
    bench.stream(Kind::Status, 4, 1, &status(StreamState::Open, "halted"));
    bench.stream(Kind::Update, 5, 1, &update(&[(23, 5)]));
    bench.took();
    bench.image(1, 3, "IBM", &[(22, 3), (23, 1), (25, 1)]);
    assert_eq!(bench.took(), ["2/9: refresh suspect solicited 22=3 23=5 25=1"]);
    bench.stream(Kind::Update, 6, 1, &update(&[(22, 6)]));
    assert_eq!(bench.took(), ["1/5,2/9: update 22=6"]);
}

#[test]
fn an_image_that_lacks_what_nobody_has_kept_is_asked_for_again() {
    let mut bench = away();
    bench.core.reconfigure(|config| config.held_bytes_max = update(&[(22, 3)]).len());
    bench.request(B, 9, "IBM");
    bench.took();
    bench.image(1, 1, "IBM", &[(22, 1)]);
    assert_eq!(bench.took(), ["77: image IBM"], "2 had come before it was asked for");
    bench.stream(Kind::Update, 3, 1, &update(&[(22, 3)]));
    bench.stream(Kind::Update, 4, 1, &update(&[(22, 4)]));
    bench.took();
    bench.image(1, 2, "IBM", &[(22, 2)]);
    assert_eq!(bench.took(), ["77: image IBM"], "there was no room for both");
    bench.image(1, 3, "IBM", &[(22, 3), (25, 3)]);
    assert_eq!(bench.took(), ["2/9: refresh ok solicited 22=4 25=3"]);
}

#[test]
fn an_image_ahead_of_the_stream_waits_for_what_it_has() {
    let mut bench = away();
    bench.request(B, 9, "IBM");
    bench.took();
    bench.image(1, 4, "IBM", &[(22, 4), (25, 1)]);
    bench.after(Duration::from_millis(1));
    assert_eq!(bench.took(), [""; 0]);
    bench.stream(Kind::Update, 3, 1, &update(&[(22, 3)]));
    bench.after(Duration::from_millis(1));
    assert_eq!(bench.took(), ["1/5: update 22=3"], "4 has not come");
    bench.stream(Kind::Update, 4, 1, &update(&[(22, 4)]));
    bench.stream(Kind::Update, 5, 1, &update(&[(25, 5)]));
    assert_eq!(bench.took(), ["1/5: update 22=4", "1/5: update 25=5"]);
    bench.after(Duration::from_millis(1));
    assert_eq!(bench.took(), ["2/9: refresh ok solicited 22=4 25=5"]);
    bench.stream(Kind::Update, 6, 1, &update(&[(22, 6)]));
    assert_eq!(bench.took(), ["1/5,2/9: update 22=6"]);
}

#[test]
fn an_early_image_of_an_instance_that_is_lost_is_of_no_use() {
    let mut bench = away();
    bench.request(B, 9, "IBM");
    bench.took();
    bench.image(1, 3, "IBM", &[(22, 3)]);
    bench.core.on_link_down(bench.now, INSTANCE, &mut bench.log);
    assert!(bench.took().iter().any(|line| line.contains("suspect")));
    assert!(bench.core.items.kept.early.is_empty() && bench.core.items.kept.outstanding == 0);
}

#[test]
fn an_image_that_takes_its_time_lets_others_be_asked_for() {
    let mut bench = keeping(0);
    bench.core.reconfigure(|config| config.images_outstanding_max = 1);
    for id in 1..=2_u32 {
        let name = format!("I{id}");
        bench.request(A, id as i32 + 4, &name);
        bench.open(u64::from(id), id, &name);
        bench.image(id, 2, &name, &[(22, 1)]);
    }
    bench.took();
    bench.request(B, 1, "I1");
    bench.request(B, 2, "I2");
    assert_eq!(bench.took(), ["77: image I1"]);
    let waits = rwf::StatusMsg::new(Domain::MARKET_PRICE, 0, DataType::NO_DATA).to_vec().expect("legal");
    bench.link(INSTANCE, &LinkDown::ItemStatus { key: named("I1"), status: &waits });
    bench.after(Duration::from_millis(1));
    assert_eq!(bench.took().last().map(String::as_str), Some("77: image I2"));
    bench.stream(Kind::Update, 3, 1, &update(&[(22, 3)]));
    bench.image(2, 3, "I2", &[(22, 2)]);
    assert_eq!(bench.took(), ["1/5: update 22=3", "2/2: refresh ok solicited 22=2"]);
    bench.image(1, 2, "I1", &[(22, 1), (25, 1)]);
    assert_eq!(bench.took(), ["2/1: refresh ok solicited 22=3 25=1"]);
}

#[test]
fn of_an_image_that_takes_its_time_more_is_kept_each_time_that_it_was_too_little() {
    let mut bench = away();
    let length = update(&[(22, 3)]).len();
    bench.core.reconfigure(|config| config.held_bytes_max = 16 * length);
    bench.request(B, 9, "IBM");
    let waits = rwf::StatusMsg::new(Domain::MARKET_PRICE, 0, DataType::NO_DATA).to_vec().expect("legal");
    let mut sequence = 2;
    let mut asked = 0;
    // An item that is updated all the time: its image is always some updates old when it comes.
    loop {
        bench.link(INSTANCE, &LinkDown::ItemStatus { key: named("IBM"), status: &waits });
        for _ in 0..10 {
            sequence += 1;
            bench.stream(Kind::Update, sequence, 1, &update(&[(22, sequence as i64)]));
        }
        bench.took();
        bench.image(1, sequence - 3, "IBM", &[(22, 1)]);
        asked += 1;
        match &bench.took()[..] {
            [asked] if asked == "77: image IBM" => {}
            [shown] => break assert_eq!(*shown, format!("2/9: refresh ok solicited 22={sequence}")),
            other => panic!("{other:?}"),
        }
    }
    assert!((2..5).contains(&asked), "{asked}");
}

#[test]
fn a_service_without_a_cache_has_its_images_from_the_instance_each_time() {
    let mut bench = Bench::alone();
    bench.core.reconfigure(|config| config.uncached = [ServiceNames::ALL.to_owned()].into_iter().collect());
    bench.find_instance(DIRECTORY, STREAM, INSTANCE, true);
    bench.log.0.clear();
    bench.request(A, 5, "IBM");
    bench.open(1, 1, "IBM");
    bench.image(1, 1, "IBM", &[(22, 1)]);
    assert!(!bench.has_image() && bench.counters.items_suspect.get() == 0);
    assert_eq!(bench.took(), ["77: interest IBM", "1/5: refresh ok solicited 22=1"]);
    bench.request(B, 9, "IBM");
    bench.image(1, 1, "IBM", &[(22, 1)]);
    assert_eq!(bench.took(), ["77: image IBM", "2/9: refresh ok solicited 22=1"]);
    bench.stream(Kind::Refresh, 2, 1, &refresh(&[(22, 4)]));
    assert!(!bench.has_image(), "nor is an image for all kept");
}

#[test]
fn a_stream_that_was_not_sent_an_update_gets_the_image_and_the_newest_values_afterwards() {
    let mut bench = away();
    bench.log.3.insert(A);
    bench.stream(Kind::Update, 3, 1, &update(&[(22, 3)]));
    assert_eq!((bench.took(), bench.due()), (vec!["77: image IBM".to_owned()], vec![]));
    bench.stream(Kind::Update, 4, 1, &update(&[(22, 4)]));
    bench.image(1, 4, "IBM", &[(22, 4), (25, 1)]);
    bench.stream(Kind::Update, 5, 1, &update(&[(25, 5)]));
    assert_eq!(bench.took(), [""; 0], "it has no room yet");
    assert_eq!(bench.due(), ["1/5: refresh ok 22=4 25=5"]);
    // The image has gone with its need, and comes again with the next one.
    assert!(bench.has_image(), "until it is looked at");
    bench.stream(Kind::Update, 6, 1, &update(&[(22, 6)]));
    bench.stream(Kind::Update, 7, 1, &update(&[(25, 7)]));
    assert_eq!(bench.due(), ["1/5: update 22=6 25=7"], "while it is here, only what has changed");
    assert_eq!(bench.counters.updates_conflated.get(), 3);
}

#[test]
fn at_a_rate_the_image_comes_when_the_interval_is_over() {
    let mut bench = away();
    bench.ask(B, &ItemRequest { qos: Some(HALF_A_SECOND), ..streaming(9, "IBM") });
    bench.image(1, 2, "IBM", &[(22, 2), (25, 1)]);
    bench.after(Duration::from_secs(6));
    assert!(!bench.has_image());
    bench.took();
    bench.stream(Kind::Update, 3, 1, &update(&[(22, 3)]));
    bench.stream(Kind::Update, 4, 1, &update(&[(22, 4)]));
    assert_eq!(
        bench.took(),
        ["1/5: update 22=3", "2/9: update 22=3", "1/5: update 22=4"],
        "the image is asked for when it is needed"
    );
    bench.after(Duration::from_millis(500));
    assert_eq!(bench.due(), ["77: image IBM"]);
    bench.image(1, 4, "IBM", &[(22, 4), (25, 1)]);
    assert_eq!(bench.due(), ["2/9: refresh ok 22=4 25=1"]);
}

#[test]
fn streams_that_are_changed_or_go_on_wait_for_the_image() {
    let mut bench = away();
    bench.ask(A, &ItemRequest { pause: true, no_refresh: true, ..streaming(5, "IBM") });
    bench.stream(Kind::Update, 3, 1, &update(&[(22, 3)]));
    assert_eq!(bench.took(), [""; 0]);
    bench.ask(A, &ItemRequest { no_refresh: true, ..streaming(5, "IBM") });
    assert_eq!(bench.took(), ["77: image IBM"]);
    bench.stream(Kind::Update, 4, 1, &update(&[(22, 4)]));
    bench.image(1, 4, "IBM", &[(22, 4)]);
    assert_eq!(bench.due(), ["1/5: refresh ok 22=4"]);
    bench.after(Duration::from_secs(6));
    assert!(!bench.has_image());
    bench.request(A, 5, "IBM");
    assert_eq!(bench.took(), ["77: image IBM"], "a refresh was asked for");
    bench.stream(Kind::Update, 5, 1, &update(&[(22, 5)]));
    bench.image(1, 5, "IBM", &[(22, 5)]);
    bench.stream(Kind::Update, 6, 1, &update(&[(22, 6)]));
    assert_eq!(bench.took(), ["1/5: refresh ok solicited 22=5", "1/5: update 22=6"]);
}

#[test]
fn an_image_for_all_is_what_who_waits_gets_too() {
    let mut bench = away();
    bench.request(B, 9, "IBM");
    bench.log.3.insert(A);
    bench.stream(Kind::Update, 3, 1, &update(&[(22, 3)]));
    bench.took();
    bench.stream(Kind::Refresh, 4, 1, &refresh(&[(22, 4)]));
    assert_eq!((bench.took(), bench.due().len()), (vec!["2/9: refresh ok solicited 22=4".to_owned()], 1));
    // The answer comes all the same.
    bench.image(1, 4, "IBM", &[(22, 4)]);
    assert_eq!((bench.took(), bench.due()), (vec![], vec![]));
}

#[test]
fn an_item_that_is_lost_while_its_image_is_wanted_comes_back_for_all() {
    let mut bench = away();
    bench.request(B, 9, "IBM");
    bench.log.3.insert(A);
    bench.stream(Kind::Update, 3, 1, &update(&[(22, 3)]));
    bench.took();
    // 4 is missing, and nobody knows what it was about.
    bench.stream(Kind::Update, 5, 1, &update(&[(22, 5)]));
    bench.gap_answer(4, 4, None);
    let log = bench.took();
    assert!(log.iter().any(|line| line.contains("suspect")), "{log:?}");
    bench.image(1, 5, "IBM", &[(22, 5)]);
    assert_eq!(bench.took(), ["2/9: refresh ok solicited 22=5"]);
    assert_eq!(bench.due(), ["1/5: refresh ok 22=5"]);
    bench.log.3.clear();
    bench.stream(Kind::Update, 6, 1, &update(&[(22, 6)]));
    let log = bench.took();
    assert!(log.len() == 1 && log[0].contains("1/5") && log[0].contains("2/9"), "{log:?}");
}

#[test]
fn a_recalled_image_that_cannot_be_read_makes_the_item_suspect_and_is_asked_for_again() {
    let mut bench = away();
    bench.request(B, 9, "IBM");
    bench.took();
    let payload = [8, 0, 1, 0, 22, 9];
    let head = RefreshMsg::new(Domain::MARKET_PRICE, 0, DataType::FIELD_LIST);
    let refresh = RefreshMsg { complete: true, payload: &payload, ..head }.to_vec().expect("legal");
    bench.link(INSTANCE, &LinkDown::Image { item: 1, after: 2, key: named("IBM"), refresh: &refresh });
    let log = bench.took();
    assert!(log.iter().any(|line| line.contains("suspect")), "{log:?}");
    bench.after(Duration::from_millis(1));
    assert_eq!(bench.took(), ["77: image IBM"]);
    bench.image(1, 2, "IBM", &[(22, 2)]);
    assert_eq!(bench.took(), ["1/5: refresh ok 22=2", "2/9: refresh ok solicited 22=2"]);
}

#[test]
fn images_are_asked_for_as_many_at_a_time_as_may_be_on_their_way() {
    let mut bench = keeping(0);
    bench.core.reconfigure(|config| config.images_outstanding_max = 2);
    for id in 1..=5_u32 {
        let name = format!("I{id}");
        bench.request(A, id as i32 + 4, &name);
        bench.open(u64::from(id), id, &name);
        bench.image(id, 5, &name, &[(22, 1)]);
    }
    bench.took();
    for id in 1..=5 {
        bench.request(B, id, &format!("I{id}"));
    }
    assert_eq!(bench.took(), ["77: image I1", "77: image I2"]);
    bench.close(B, 1);
    bench.image(1, 5, "I1", &[(22, 1)]);
    assert_eq!(bench.took(), ["77: image I3"]);
    bench.stream(Kind::Close, 6, 2, &status(StreamState::Closed, "delisted"));
    assert_eq!(bench.took().last().map(String::as_str), Some("1/6,2/2: status closed suspect: delisted"));
    bench.after(Duration::from_millis(1));
    assert_eq!(bench.took(), ["77: image I4"]);
}

#[test]
fn an_image_that_comes_after_the_item_was_cleared_is_taken() {
    let mut bench = away();
    bench.request(B, 9, "IBM");
    let head = rwf::StatusMsg::new(Domain::MARKET_PRICE, 0, DataType::NO_DATA);
    let clear = rwf::StatusMsg { clear_cache: true, ..head }.to_vec().expect("legal");
    bench.stream(Kind::Status, 3, 1, &clear);
    bench.stream(Kind::Update, 4, 1, &update(&[(22, 4)]));
    bench.took();
    bench.image(1, 4, "IBM", &[(22, 4), (25, 1)]);
    assert_eq!(bench.took(), ["2/9: refresh ok solicited 22=4 25=1"]);
}

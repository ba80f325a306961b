//! Clients that are sent the newest values in rounds.

use super::*;

/// A has six items on streams 1 to 6 and is sent rounds.
fn at_interval() -> Bench {
    let mut bench = Bench::running();
    for id in 1..=6_u32 {
        let name = format!("I{id}");
        bench.request(A, id as i32, &name);
        bench.open(u64::from(id), id, &name);
        bench.image(id, u64::from(id), &name, &[(22, 1)]);
    }
    bench.log.3.insert(A);
    bench.core.set_conflated(bench.now, A, true, "slow", &mut bench.log);
    bench.core.set_at_interval(bench.now, A, true, "slower", &mut bench.log);
    bench.took();
    bench
}

impl Bench {
    /// A change of the item with this id.
    fn changes(&mut self, sequence: u64, id: u32) {
        self.stream(Kind::Update, sequence, id, &update(&[(22, sequence as i64)]));
    }

    /// The front end lets a round begin, or go on.
    fn round(&mut self) -> (bool, Vec<String>) {
        self.core.take_due_clients();
        let has_more = self.core.send_due_images(self.now, A, &mut self.log);
        (has_more, self.took())
    }
}

#[test]
fn a_round_is_what_has_changed_when_it_begins_in_the_order_of_the_first_changes() {
    let mut bench = at_interval();
    for (sequence, id) in (7..).zip([4, 2, 4, 6]) {
        bench.changes(sequence, id);
    }
    assert_eq!(bench.took(), [""; 0]);
    // It takes several turns, and what changes meanwhile waits for the next one.
    bench.log.1 = Some(0);
    assert_eq!(bench.round(), (true, vec!["1/4: update 22=9".to_owned()]));
    bench.changes(11, 4);
    bench.changes(12, 1);
    bench.changes(13, 6);
    bench.log.1 = None;
    let (has_more, log) = bench.round();
    assert_eq!(log, ["1/2: update 22=8", "1/6: update 22=13", "1: end of round"]);
    assert!(has_more, "two have changed since it began");
    bench.changes(14, 2);
    let (has_more, log) = bench.round();
    assert_eq!(log, ["1/4: update 22=11", "1/1: update 22=12", "1/2: update 22=14", "1: end of round"]);
    assert!(!has_more);
    assert_eq!(bench.round(), (false, vec![]), "none begins with nothing");
    let info = bench.core.client_info_of(A).expect("it is connected");
    assert_eq!((info.changed_streams, info.updates_conflated), (0, 8));
}

#[test]
fn what_keeps_its_order_does_not_wait_for_a_round_and_nothing_comes_after_the_end() {
    let mut bench = at_interval();
    for id in 1..=3 {
        bench.changes(6 + u64::from(id), id);
    }
    bench.stream(Kind::Status, 10, 2, &status(StreamState::Open, "halted"));
    let log = bench.took();
    assert!(log.len() == 2 && log[0] == "1/2: update 22=8" && log[1].ends_with("halted"), "{log:?}");
    bench.stream(Kind::Close, 11, 3, &status(StreamState::Closed, "delisted"));
    let log = bench.took();
    assert!(log.len() == 2 && log[0] == "1/3: update 22=9" && log[1].contains("delisted"), "{log:?}");
    bench.close(A, 1);
    bench.took();
    // Places of streams that are served or closed are passed over, and count for the round that they stand in.
    bench.changes(12, 5);
    let (has_more, log) = bench.round();
    assert_eq!((has_more, log), (false, vec!["1/5: update 22=12".to_owned(), "1: end of round".to_owned()]));
    // What it asks for is answered.
    bench.request(A, 9, "I4");
    assert_eq!(bench.took(), ["1/9: refresh ok solicited 22=1"]);
}

#[test]
fn a_first_image_that_could_not_be_sent_is_part_of_a_round() {
    let mut bench = at_interval();
    bench.log.2.insert(A);
    bench.request(A, 9, "I9");
    bench.open(7, 9, "I9");
    bench.image(9, 7, "I9", &[(22, 5)]);
    bench.changes(8, 1);
    bench.took();
    bench.log.2.clear();
    let (_, log) = bench.round();
    assert_eq!(log, ["1/9: refresh ok solicited 22=5", "1/1: update 22=8", "1: end of round"]);
}

#[test]
fn who_is_sent_rounds_is_told_and_counted_and_a_round_ends_with_the_step() {
    let mut bench = at_interval();
    let counts = |bench: &Bench| {
        let counters = &bench.counters;
        (counters.clients_at_interval.get(), counters.intervals_begun.get(), counters.intervals_ended.get())
    };
    assert_eq!(counts(&bench), (1, 1, 0));
    let info = bench.core.client_info_of(A).expect("it is connected");
    assert_eq!((info.at_interval_since, info.conflated_since), (Some(bench.now), Some(bench.now)));
    for (sequence, id) in (7..).zip([1, 2, 3]) {
        bench.changes(sequence, id);
    }
    bench.log.1 = Some(0);
    assert!(bench.round().0);
    for _ in 0..2 {
        bench.core.set_at_interval(bench.now, A, false, "faster", &mut bench.log);
    }
    assert_eq!(bench.took(), ["1/1: status open ok: faster login"]);
    assert_eq!(counts(&bench), (0, 1, 1));
    bench.log.1 = None;
    assert_eq!(bench.round(), (false, vec!["1/2: update 22=8".to_owned(), "1/3: update 22=9".to_owned()]));
    bench.core.set_at_interval(bench.now, A, true, "slower", &mut bench.log);
    bench.core.on_client_closed(bench.now, A, &mut bench.log);
    assert_eq!(counts(&bench), (0, 2, 1));
    bench.core.set_at_interval(bench.now, A, true, "slower", &mut bench.log);
    assert_eq!(counts(&bench), (0, 2, 1), "it is gone");
}

/// What is kept of a client that gets a round seldom does not depend on how many updates come.
#[test]
fn streams_are_noted_once_each_however_many_rounds_pass() {
    let mut bench = at_interval();
    let mut sequence = 7;
    for _ in 0..100 {
        for id in (1..=6).cycle().take(600) {
            bench.changes(sequence, id);
            sequence += 1;
        }
        let client = bench.core.items.clients.get(A).expect("it is connected");
        assert_eq!((client.due.len(), client.conflation.changed.len()), (6, 6));
        let (has_more, log) = bench.round();
        assert_eq!((has_more, log.len()), (false, 7), "{log:?}");
    }
}

//! Clean-ups that take several turns.

use super::*;

const PER_TURN: usize = 10;
const MANY: u32 = 35;

fn name(id: u32) -> String {
    format!("I{id:02}")
}

/// `MANY` items with images, each watched by A on the stream of its number.
fn watching_many() -> Bench {
    let mut bench = Bench::running();
    bench.budget(PER_TURN);
    for id in 1..=MANY {
        bench.request(A, id as i32, &name(id));
        bench.open(u64::from(id), id, &name(id));
        bench.image(id, u64::from(id), &name(id), &[(22, 1)]);
    }
    bench.log.0.clear();
    bench
}

impl Bench {
    fn budget(&mut self, per_turn: usize) {
        self.core.reconfigure(|config| config.cleanups_per_turn = per_turn);
        self.core.items.cleanups.grant_cleanups(self.now);
    }

    fn turn(&mut self) -> Vec<String> {
        assert!(self.core.next_wakeup() <= self.now, "the next turn is due at once");
        self.after(Duration::from_micros(1));
        self.took()
    }

    fn watched(&self) -> usize {
        self.core.items.table.iter().map(|(_, item)| item.audience.count()).sum()
    }
}

fn told(log: &[String], what: &str) -> usize {
    log.iter().filter(|line| line.contains(what)).count()
}

#[test]
fn the_streams_of_a_client_that_is_gone_leave_their_items_in_portions() {
    let mut bench = watching_many();
    bench.request(B, 9, &name(MANY));
    bench.took();
    let mut watched = MANY as usize + 1;
    bench.core.on_client_closed(bench.now, A, &mut bench.log);
    assert_eq!((bench.counters.watchers.get(), bench.counters.cleanups_waiting.get()), (1, 1));
    while bench.core.is_leaving(A) {
        let left = bench.watched();
        assert!(left < watched && watched - left <= PER_TURN, "{watched} to {left}");
        watched = left;
        bench.turn();
    }
    assert_eq!((bench.watched(), bench.counters.cleanups_waiting.get()), (1, 0));
    bench.stream(Kind::Update, u64::from(MANY) + 1, MANY, &update(&[(22, 2)]));
    assert_eq!(bench.took(), ["2/9: update 22=2"]);
}

#[test]
fn who_gets_the_number_of_a_client_that_is_still_leaving_hears_nothing_of_its_streams() {
    let mut bench = watching_many();
    bench.core.on_client_closed(bench.now, A, &mut bench.log);
    assert!(bench.core.is_leaving(A));
    bench.core.on_client_connected(A, ClientProfile::default());
    assert_eq!((bench.core.is_leaving(A), bench.watched()), (false, 0));
    bench.stream(Kind::Update, u64::from(MANY) + 1, MANY, &update(&[(22, 2)]));
    assert_eq!(bench.took(), [""; 0]);
}

#[test]
fn items_that_nobody_comes_back_to_are_given_up_in_portions() {
    let mut bench = watching_many();
    bench.budget(1_000);
    bench.core.on_client_closed(bench.now, A, &mut bench.log);
    bench.after(Duration::from_millis(1_500));
    bench.budget(PER_TURN);
    bench.now += bench.core.config.item_linger;
    bench.directory(DIRECTORY, INSTANCE, &[definition(true)]);
    let mut count = bench.core.item_count();
    assert_eq!(count, MANY as usize);
    while count > 0 {
        bench.turn();
        let left = bench.core.item_count();
        assert!(left < count && count - left <= PER_TURN, "{count} to {left}");
        count = left;
    }
}

#[test]
fn a_lost_service_is_told_in_portions_and_asked_for_elsewhere_when_all_are_told() {
    let mut bench = watching_many();
    bench.core.on_link_down(bench.now, INSTANCE, &mut bench.log);
    bench.find_instance(SourceId(2), SourceId(3), 78, true);
    let mut log = bench.took();
    assert!(told(&log, "suspect: the source distributor is lost") <= PER_TURN, "{log:?}");
    while told(&log, "78: resume") == 0 {
        let more = bench.turn();
        assert!(told(&more, "open suspect") + told(&more, "78: resume") <= PER_TURN, "{more:?}");
        log.extend(more);
    }
    assert_eq!(
        told(&log, "suspect: the source distributor is lost"),
        MANY as usize,
        "before any is asked for"
    );
    while bench.counters.cleanups_waiting.get() > 0 {
        log.extend(bench.turn());
    }
    assert_eq!((told(&log, "78: resume"), told(&log, "suspect")), (MANY as usize, MANY as usize));
}

#[test]
fn an_item_that_is_asked_for_before_its_share_of_a_clean_up_is_suspect_at_once() {
    let mut bench = watching_many();
    bench.core.on_link_down(bench.now, INSTANCE, &mut bench.log);
    bench.took();
    bench.request(B, 9, &name(MANY));
    let lost = format!("1/{MANY}: status open suspect: the source distributor is lost, looking for another");
    assert_eq!(bench.took(), [lost, "2/9: refresh suspect solicited 22=1".to_owned()]);
    let mut log = Vec::new();
    while bench.counters.cleanups_waiting.get() > 0 {
        log.extend(bench.turn());
    }
    assert_eq!(told(&log, &format!("1/{MANY}")), 0, "it is told once: {log:?}");
}

#[test]
fn what_comes_of_an_item_comes_behind_its_share_of_a_clean_up() {
    let mut bench = watching_many();
    bench.directory(DIRECTORY, INSTANCE, &[definition(false)]);
    bench.took();
    bench.stream(Kind::Refresh, u64::from(MANY) + 1, MANY, &refresh(&[(22, 2)]));
    let down = format!("1/{MANY}: status open suspect: the service is down: its provider has gone");
    assert_eq!(bench.took(), [down, format!("1/{MANY}: refresh ok 22=2")]);
    let mut log = Vec::new();
    while bench.counters.cleanups_waiting.get() > 0 {
        let more = bench.turn();
        assert!(told(&more, "suspect") <= PER_TURN, "{more:?}");
        log.extend(more);
    }
    assert_eq!(told(&log, &format!("1/{MANY}:")), 0, "it is good: {log:?}");
}

#[test]
fn an_item_with_more_watchers_than_a_turn_allows_is_told_at_once_and_alone() {
    let mut bench = watching_many();
    for stream_id in 1..=PER_TURN as i32 * 3 {
        bench.request(B, stream_id, &name(1));
    }
    bench.took();
    bench.directory(DIRECTORY, INSTANCE, &[definition(false)]);
    let log = bench.took();
    assert_eq!(told(&log, "suspect"), 1, "{log:?}");
    assert!(bench.turn().len() > 1);
}

#[test]
fn after_a_gap_that_nobody_can_describe_each_item_is_suspect_before_its_next_message() {
    let mut bench = watching_many();
    let next = u64::from(MANY) + 1;
    bench.stream(Kind::Update, next + 1, MANY, &update(&[(22, 3)]));
    bench.took();
    bench.gap_answer(next, next, None);
    let log = bench.took();
    assert!(
        log.contains(&format!("1/{MANY}: status open suspect: messages were lost on the backbone")),
        "{log:?}"
    );
    assert_eq!(told(&log, "update"), 0);
    assert!(told(&log, "suspect") <= PER_TURN + 1, "{log:?}");
    let mut rest = 0;
    while bench.counters.cleanups_waiting.get() > 0 {
        rest += told(&bench.turn(), "suspect");
    }
    assert_eq!(rest + told(&log, "suspect"), MANY as usize);
}

#[test]
fn the_items_of_a_service_that_is_no_longer_offered_are_closed_in_portions_and_then_it_is_gone() {
    let mut bench = watching_many();
    bench.directory(DIRECTORY, INSTANCE, &[]);
    bench.request(B, 9, &name(1));
    bench.request(B, 10, "NEW");
    let mut log = bench.took();
    let refused = "closed suspect: there is no service of this id";
    assert_eq!(told(&log, refused), 2, "{log:?}");
    while bench.counters.cleanups_waiting.get() > 0 {
        assert_eq!(told(&log, "unsubscribe"), 0);
        let more = bench.turn();
        assert!(told(&more, "the service is no longer offered") <= PER_TURN);
        log.extend(more);
    }
    assert_eq!(
        told(&log, "closed, recoverable") + told(&log, "the service is no longer offered"),
        MANY as usize
    );
    assert_eq!(log.last().map(String::as_str), Some("unsubscribe BINANCE"));
    assert_eq!((bench.core.item_count(), bench.counters.services.get()), (0, 0));
}

#[test]
fn a_service_that_is_offered_again_while_its_items_are_closed_stays() {
    let mut bench = watching_many();
    bench.directory(DIRECTORY, INSTANCE, &[]);
    bench.directory(DIRECTORY, INSTANCE, &[definition(true)]);
    bench.request(B, 9, &name(MANY));
    let log = bench.took();
    assert!(
        log.contains(&"2/9: status open suspect: the service is down, waiting for it".to_owned()),
        "{log:?}"
    );
    let mut log = Vec::new();
    while bench.counters.cleanups_waiting.get() > 0 {
        log.extend(bench.turn());
    }
    assert_eq!(told(&log, "unsubscribe"), 0);
    assert_eq!(log.last(), Some(&format!("77: interest {}", name(MANY))));
    assert_eq!(bench.core.item_count(), 1);
}

#[test]
fn a_small_clean_up_does_not_wait_for_a_large_one() {
    let mut bench = watching_many();
    bench.request(B, 9, &name(1));
    bench.budget(1_000);
    for stream_id in 100..5_000 {
        bench.request(A, stream_id, &name(2));
    }
    bench.took();
    bench.core.on_client_closed(bench.now, A, &mut bench.log);
    assert!(bench.core.is_leaving(A));
    bench.now += Duration::from_micros(1);
    bench.core.on_client_closed(bench.now, B, &mut bench.log);
    assert_eq!((bench.core.is_leaving(A), bench.core.is_leaving(B)), (true, false));
}

#[test]
fn requests_that_nobody_waits_for_any_more_are_passed_over_in_portions() {
    let mut bench = Bench::running();
    bench.core.reconfigure(|config| config.images_outstanding_max = 1);
    bench.core.reconfigure(|config| config.image_timeout = Duration::from_secs(60));
    for id in 1..=MANY {
        bench.request(A, id as i32, &name(id));
    }
    for id in 2..=MANY {
        bench.close(A, id as i32);
    }
    bench.request(B, 9, "LAST");
    for _ in 0..6 {
        bench.now += Duration::from_secs(1);
        bench.directory(DIRECTORY, INSTANCE, &[definition(true)]);
        bench.core.on_wakeup(bench.now, &mut bench.log);
    }
    assert_eq!((bench.core.item_count(), told(&bench.took(), "interest")), (2, 1), "the others are given up");
    bench.budget(PER_TURN);
    bench.image(1, 0, &name(1), &[(22, 1)]);
    let mut log = bench.took();
    let mut turns = 0;
    while told(&log, "77: interest LAST") == 0 {
        assert_eq!(told(&log, "interest"), 0, "{log:?}");
        log = bench.turn();
        turns += 1;
    }
    // The image lets the queue go on twice.
    assert_eq!(turns, MANY as usize / PER_TURN - 1);
}

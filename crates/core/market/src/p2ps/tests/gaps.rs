//! Gaps: who is told, what waits, and what becomes of it.

use rwf::DataState;

use super::*;
use crate::p2ps::behind::Behind;

#[test]
fn a_gap_makes_exactly_its_items_suspect_and_fetches_them_again() {
    let mut bench = Bench::watching();
    bench.request(A, 6, "MSFT");
    bench.open(2, 2, "MSFT");
    bench.image(2, 2, "MSFT", &[(22, 20)]);
    bench.took();
    bench.stream(Kind::Update, 5, 2, &update(&[(22, 50)]));
    assert_eq!(bench.took(), ["77: gap 3-4"], "it is not known yet whether 3 and 4 were about MSFT");
    bench.gap_answer(3, 4, Some(&[1, 9]));
    let lost = "1/5: status open suspect: messages were lost on the backbone";
    assert_eq!(bench.took(), [lost, "77: image IBM", "1/6: update 22=50"]);
    bench.stream(Kind::Update, 6, 1, &update(&[(22, 6)]));
    bench.request(B, 7, "IBM");
    assert_eq!(bench.took(), ["2/7: refresh suspect solicited 22=1"], "what is known, marked as what it is");
    bench.image(1, 5, "IBM", &[(22, 5)]);
    assert_eq!(bench.took(), ["1/5,2/7: refresh ok 22=5", "1/5,2/7: update 22=6"]);
    assert_eq!((bench.counters.gaps.get(), bench.counters.messages_lost.get()), (1, 2));
}

#[test]
fn a_gap_too_old_to_name_its_items_concerns_all_of_the_service() {
    let mut bench = Bench::watching();
    bench.stream(Kind::Heartbeat, 5, 0, &[]);
    assert_eq!(bench.took(), ["77: gap 2-5"]);
    bench.gap_answer(2, 5, None);
    assert_eq!(bench.took()[1], "77: image IBM");
    assert_eq!(bench.counters.gap_resyncs.get(), 1);
}

#[test]
fn what_comes_behind_a_gap_waits_for_the_answer_to_this_gap_and_no_other() {
    let mut bench = Bench::watching();
    bench.stream(Kind::Update, 3, 1, &update(&[(22, 3)]));
    bench.stream(Kind::Heartbeat, 3, 0, &[]);
    bench.stream(Kind::Update, 5, 1, &update(&[(22, 5)]));
    assert_eq!(bench.took(), ["77: gap 2-2", "77: gap 4-4"]);
    bench.gap_answer(4, 4, Some(&[]));
    assert_eq!(bench.took(), [""; 0], "not the answer that is waited for");
    bench.gap_answer(2, 2, Some(&[]));
    assert_eq!(bench.took(), ["1/5: update 22=3"], "5 waits for the second gap");
    bench.gap_answer(4, 4, Some(&[]));
    assert_eq!(bench.took(), ["1/5: update 22=5"]);
    bench.stream(Kind::Update, 6, 1, &update(&[(22, 6)]));
    assert_eq!(bench.took(), ["1/5: update 22=6"]);
    assert_eq!((bench.counters.gaps.get(), bench.counters.messages_behind_gaps.get()), (2, 2));
}

#[test]
fn what_waits_behind_a_gap_is_kept_in_order_in_pieces_of_bounded_size() {
    let mut behind = Behind::default();
    for length in [1, 100, 200_000, 100_000, 300_000, 5] {
        assert!(behind.keep(&vec![7; length], 1 << 20));
    }
    let mut pieces = Vec::new();
    while let Some(mut segment) = behind.take_segment() {
        let mut lengths = Vec::new();
        while let Some(length) = segment.first().map(<[u8]>::len) {
            lengths.push(length);
            segment.skip(length);
        }
        pieces.push(lengths);
    }
    assert_eq!(pieces, [vec![1, 100, 200_000], vec![100_000], vec![300_000], vec![5]]);
}

#[test]
fn a_gap_that_is_never_answered_concerns_all_items_after_a_while() {
    let mut bench = Bench::watching();
    bench.stream(Kind::Update, 3, 1, &update(&[(22, 3)]));
    bench.took();
    let due = bench.core.items.sources.next_gap_check();
    assert_eq!(due, bench.now + ServerConfig::default().image_timeout);
    bench.now += Duration::from_secs(1);
    bench.core.on_wakeup(bench.now, &mut bench.log);
    assert_eq!(bench.core.items.sources.services_due_at, due, "nothing else is due for a service before");
    bench.took();
    bench.core.instances.check_gaps(&mut bench.core.items, due, &mut bench.log);
    let lost = "1/5: status open suspect: messages were lost on the backbone";
    assert_eq!(bench.took(), [lost, "77: image IBM"]);
    assert_eq!(
        (bench.core.items.sources.next_gap_check(), bench.counters.gap_resyncs.get()),
        (Nanos::NEVER, 1)
    );
    bench.gap_answer(2, 2, Some(&[1]));
    bench.image(1, 3, "IBM", &[(22, 33)]);
    bench.stream(Kind::Update, 4, 1, &update(&[(22, 4)]));
    assert_eq!(bench.took(), ["1/5: refresh ok 22=33", "1/5: update 22=4"]);
}

#[test]
fn more_than_can_be_kept_behind_a_gap_asks_for_all_items() {
    let mut bench = Bench::watching();
    bench.core.reconfigure(|config| config.gap_held_bytes_max = 100);
    bench.stream(Kind::Update, 3, 1, &update(&[(22, 3)]));
    bench.took();
    for sequence in 4..7 {
        bench.stream(Kind::Update, sequence, 1, &update(&[(22, 4)]));
    }
    assert_eq!(bench.counters.gap_resyncs.get(), 1);
    let lost = "1/5: status open suspect: messages were lost on the backbone";
    assert_eq!(bench.took(), [lost, "77: image IBM"]);
    bench.gap_answer(2, 2, Some(&[]));
    assert_eq!(bench.took(), [""; 0], "it has been overtaken");
    bench.image(1, 2, "IBM", &[(22, 2)]);
    assert_eq!(bench.took(), ["77: image IBM"], "it lacks what was dropped");
}

#[test]
fn what_waits_behind_a_gap_is_forgotten_with_the_instance() {
    let mut bench = Bench::watching();
    bench.stream(Kind::Update, 3, 1, &update(&[(22, 3)]));
    bench.core.on_link_down(bench.now, INSTANCE, &mut bench.log);
    bench.took();
    assert_eq!(bench.core.items.sources.next_gap_check(), Nanos::NEVER);
}

/// More than is released in one turn: updates with growing values from number 3 on, behind a gap of number 2.
const MANY: u64 = 20_000;

fn held_many() -> Bench {
    let mut bench = Bench::watching();
    for sequence in 3..3 + MANY {
        bench.stream(Kind::Update, sequence, 1, &update(&[(22, sequence as i64)]));
    }
    assert_eq!(bench.took(), ["77: gap 2-2"]);
    bench
}

impl Bench {
    /// The values of the updates that the client has got since, which come in order from one on. Nothing else comes.
    fn updates_from(&mut self, next: &mut u64) -> usize {
        let log = self.took();
        for line in &log {
            assert_eq!(*line, format!("1/5: update 22={next}"));
            *next += 1;
        }
        log.len()
    }

    /// What one turn more brings.
    fn release_turn(&mut self, next: &mut u64) -> usize {
        assert!(self.core.next_wakeup() <= self.now, "the next turn is due at once");
        self.now += Duration::from_micros(1);
        self.core.on_wakeup(self.now, &mut self.log);
        self.updates_from(next)
    }
}

#[test]
fn what_has_waited_behind_a_gap_is_handed_on_in_portions_and_what_comes_meanwhile_behind_it() {
    let mut bench = held_many();
    let (mut next, mut sequence) = (3, 3 + MANY);
    bench.gap_answer(2, 2, Some(&[]));
    let portion = bench.updates_from(&mut next);
    assert!((1_000..MANY as usize / 2).contains(&portion), "{portion}");
    let mut turns = 0;
    while bench.core.is_releasing() {
        bench.stream(Kind::Update, sequence, 1, &update(&[(22, sequence as i64)]));
        assert_eq!(bench.updates_from(&mut next), 0, "it waits behind what is released");
        sequence += 1;
        let more = bench.release_turn(&mut next);
        assert!(more <= portion, "{more}");
        turns += 1;
    }
    assert_eq!((next, turns), (sequence, MANY as usize / portion));
    bench.stream(Kind::Update, sequence, 1, &update(&[(22, sequence as i64)]));
    assert_eq!(bench.updates_from(&mut next), 1, "and then it passes again");
    assert!(bench.core.next_wakeup() > bench.now);
}

#[test]
fn the_next_gap_ends_the_release_until_its_answer_has_come_or_is_overdue() {
    for is_answered in [true, false] {
        let mut bench = held_many();
        let mut next = 3;
        let after_gap = 3 + MANY + 2;
        let image_timeout = ServerConfig::default().image_timeout;
        bench.now += Duration::from_millis(1_500);
        bench.core.on_wakeup(bench.now, &mut bench.log);
        bench.stream(Kind::Update, after_gap, 1, &update(&[(22, after_gap as i64)]));
        assert_eq!(bench.took(), [format!("77: gap {}-{}", after_gap - 2, after_gap - 1)]);
        let overdue = bench.now + image_timeout;
        bench.gap_answer(2, 2, Some(&[]));
        bench.updates_from(&mut next);
        // An answer that comes too early to be used is none.
        bench.gap_answer(4, 4, Some(&[1]));
        // What is due next is found anew while nothing waits for an answer.
        bench.core.items.sources.services_due_at = bench.now;
        while bench.core.is_releasing() {
            bench.release_turn(&mut next);
        }
        assert_eq!((next, bench.core.items.sources.next_gap_check()), (3 + MANY, overdue));
        if is_answered {
            bench.gap_answer(after_gap - 2, after_gap - 1, Some(&[]));
            assert_eq!(bench.took(), [format!("1/5: update 22={after_gap}")]);
            continue;
        }
        assert!(bench.core.items.sources.services_due_at <= overdue, "it is looked at in time");
        bench.core.instances.check_gaps(&mut bench.core.items, overdue, &mut bench.log);
        assert!(bench.took()[0].ends_with("messages were lost on the backbone"));
    }
}

#[test]
fn how_far_the_release_is_is_what_the_instance_hears() {
    let mut bench = held_many();
    bench.core.report_progress(bench.now, &mut bench.log);
    assert_eq!(bench.took(), [format!("77: progress [(1, {})]", MANY + 2)], "while the answer is waited for");
    let mut next = 3;
    bench.gap_answer(2, 2, Some(&[]));
    bench.updates_from(&mut next);
    while bench.core.is_releasing() {
        bench.now = bench.core.next_report();
        bench.core.report_progress(bench.now, &mut bench.log);
        assert_eq!(bench.took(), [format!("77: progress [(1, {})]", next - 1)]);
        bench.release_turn(&mut next);
    }
    bench.now = bench.core.next_report();
    bench.core.report_progress(bench.now, &mut bench.log);
    assert_eq!(bench.took(), [format!("77: progress [(1, {})]", MANY + 2)]);
}

#[test]
fn more_than_can_be_kept_while_some_is_released_asks_for_all_items() {
    let mut bench = held_many();
    let mut next = 3;
    bench.gap_answer(2, 2, Some(&[]));
    bench.updates_from(&mut next);
    bench.core.reconfigure(|config| config.gap_held_bytes_max = 1_000);
    bench.stream(Kind::Update, 3 + MANY, 1, &update(&[(22, 1)]));
    let lost = "1/5: status open suspect: messages were lost on the backbone";
    assert_eq!(bench.took(), [lost, "77: image IBM"]);
    bench.now += Duration::from_micros(1);
    bench.core.on_wakeup(bench.now, &mut bench.log);
    assert_eq!((bench.took(), bench.core.is_releasing()), (vec![], false));
    bench.image(1, 3 + MANY, "IBM", &[(22, 5)]);
    bench.stream(Kind::Update, 4 + MANY, 1, &update(&[(22, 6)]));
    assert_eq!(bench.took(), ["1/5: refresh ok 22=5", "1/5: update 22=6"]);
}

#[test]
fn what_is_being_released_is_forgotten_with_the_instance_or_its_source() {
    for ends in [false, true] {
        let mut bench = held_many();
        let mut next = 3;
        bench.gap_answer(2, 2, Some(&[]));
        bench.updates_from(&mut next);
        match ends {
            true => bench.core.on_source_ended(bench.now, STREAM, &mut bench.log),
            false => {
                bench.core.on_link_down(bench.now, INSTANCE, &mut bench.log);
            }
        }
        let log = bench.took();
        assert!(log[0].contains("suspect") && !log.iter().any(|line| line.contains("update")), "{log:?}");
        bench.now += Duration::from_micros(1);
        bench.core.on_wakeup(bench.now, &mut bench.log);
        let log = bench.took();
        assert!(!log.iter().any(|line| line.contains("update")), "{log:?}");
        assert_eq!(
            (bench.core.is_releasing(), bench.core.items.sources.next_gap_check()),
            (false, Nanos::NEVER)
        );
    }
}

#[test]
fn an_item_that_ends_and_begins_while_it_is_released_is_what_it_would_be_at_once() {
    let mut bench = held_many();
    let closed = State::new(StreamState::Closed, DataState::Suspect).because(StateCode::NONE, "over");
    let status =
        StatusMsg { state: Some(closed), ..StatusMsg::new(Domain::MARKET_PRICE, 0, DataType::NO_DATA) };
    bench.stream(Kind::Close, 3 + MANY, 1, &rwf::encode_to_vec(|w| status.encode(w)).expect("legal"));
    let mut next = 3;
    bench.gap_answer(2, 2, Some(&[]));
    bench.updates_from(&mut next);
    bench.request(B, 9, "IBM");
    assert_eq!(bench.took(), [format!("2/9: refresh ok solicited 22={}", next - 1)], "as far as it is");
    let mut log = Vec::new();
    while bench.core.is_releasing() {
        bench.now += Duration::from_micros(1);
        bench.core.on_wakeup(bench.now, &mut bench.log);
        log.extend(bench.took());
    }
    assert_eq!(log.len() as u64, 3 + MANY - next + 1, "both get the rest");
    assert_eq!(log[0], format!("1/5,2/9: update 22={next}"));
    assert!(log.last().is_some_and(|line| line.starts_with("1/5,2/9: status closed")), "{:?}", log.last());
}

/// What is told of losses, and what goes to the instance.
#[derive(Default)]
struct Losses(Vec<String>);

impl ServerSink for Losses {
    fn send(&mut self, _: ClientId, _: &[u8]) {}
    fn fan_out(&mut self, _: &[Watcher], _: &[u8]) {}
}

impl UpstreamSink for Losses {
    fn subscribe(&mut self, _: &str) {}
    fn unsubscribe(&mut self, _: &str) {}
    fn connect(&mut self, _: u64, _: SourceId) {}
    fn disconnect_link(&mut self, _: u64) {}
    fn to_instance(&mut self, _: u64, _: &LinkUp<'_>) {}
    fn notice(&mut self, notice: &ServerNotice<'_>) {
        self.0.push(notice.to_string());
    }
}

#[test]
fn losses_are_told_with_service_instance_and_number_a_few_at_once_and_the_rest_together_later() {
    let mut bench = Bench::watching();
    let mut told = Losses::default();
    // Each message behind three that are lost.
    for sequence in (5..=85).step_by(4) {
        let msg =
            StreamMsg { kind: Kind::Heartbeat, instance: INSTANCE, sequence, item: 0, parts: &[], body: &[] };
        bench.core.on_stream_message(bench.now, STREAM, &msg.header(), &mut told).expect("accepted");
    }
    let line = |messages, gaps| {
        format!(
            "{messages} messages of service \"BINANCE\" from source distributor 000000000000004d are lost, \
             in {gaps} gaps: the items that they were about get new images"
        )
    };
    assert_eq!((told.0.len(), bench.counters.gaps.get()), (10, 21));
    assert_eq!(told.0[1], line(4, 1));
    told.0.clear();
    bench.core.on_wakeup(bench.now + Duration::from_secs(9), &mut told);
    assert!(
        !told.0.iter().any(|told| told.contains("messages of service")),
        "it is not time yet: {:?}",
        told.0
    );
    assert!(bench.core.next_wakeup() <= bench.now + Duration::from_secs(10));
    bench.core.on_wakeup(bench.now + Duration::from_secs(10), &mut told);
    let last: Vec<&String> = told.0.iter().filter(|told| told.contains("messages of service")).collect();
    assert_eq!(last, [&line(44, 11)]);
    assert_eq!(bench.counters.messages_lost.get(), 84);
    told.0.clear();
    bench.core.on_wakeup(bench.now + Duration::from_secs(60), &mut told);
    assert!(!told.0.iter().any(|told| told.contains("messages of service")), "once: {:?}", told.0);
}

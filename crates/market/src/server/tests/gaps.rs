//! Gaps: who is told, what waits, and what becomes of it.

use super::*;

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
fn a_gap_that_is_never_answered_concerns_all_items_after_a_while() {
    let mut bench = Bench::watching();
    bench.stream(Kind::Update, 3, 1, &update(&[(22, 3)]));
    bench.took();
    let due = bench.core.next_gap_check();
    assert_eq!(due, bench.now + ServerConfig::default().image_timeout);
    bench.now += Duration::from_secs(1);
    bench.core.on_wakeup(bench.now, &mut bench.log);
    assert_eq!(bench.core.services_due_at, due, "nothing else is due for a service before");
    bench.took();
    bench.core.check_gaps(due, &mut bench.log);
    let lost = "1/5: status open suspect: messages were lost on the backbone";
    assert_eq!(bench.took(), [lost, "77: image IBM"]);
    assert_eq!((bench.core.next_gap_check(), bench.counters.gap_resyncs.get()), (Nanos::NEVER, 1));
    bench.gap_answer(2, 2, Some(&[1]));
    bench.image(1, 3, "IBM", &[(22, 33)]);
    bench.stream(Kind::Update, 4, 1, &update(&[(22, 4)]));
    assert_eq!(bench.took(), ["1/5: refresh ok 22=33", "1/5: update 22=4"]);
}

#[test]
fn more_than_can_be_kept_behind_a_gap_asks_for_all_items() {
    let mut bench = Bench::watching();
    bench.core.config.gap_held_bytes_max = 100;
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
    assert_eq!(bench.core.next_gap_check(), Nanos::NEVER);
}

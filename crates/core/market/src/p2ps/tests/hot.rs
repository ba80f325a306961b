//! Services that are taken from two source distributors at a time.

use super::*;
use crate::service_names::ServiceNames;

/// Two instances, A's sources being 0 and 1, B's 2 and 3.
const ONE: u64 = 77;
const TWO: u64 = 78;

fn suspect() -> Vec<u8> {
    let state = State::new(StreamState::Open, rwf::DataState::Suspect).because(StateCode::NONE, "away");
    StatusMsg { state: Some(state), ..StatusMsg::new(Domain::MARKET_PRICE, 0, DataType::NO_DATA) }
        .to_vec()
        .expect("legal")
}

/// A bench with a hot service and what its two instances have sent.
struct Hot {
    bench: Bench,
    /// The last number of each stream.
    sequences: [u64; 2],
}

impl Hot {
    /// Nothing is there yet.
    fn alone() -> Hot {
        let mut bench = Bench::alone();
        bench.core.reconfigure(|config| {
            config.hot = ServiceNames::from_iter(["BINANCE".to_owned()]);
            config.image_timeout = Duration::from_secs(3_600);
            config.silence_timeout = Duration::from_secs(36_000);
        });
        Hot { bench, sequences: [0, 0] }
    }

    fn find(&mut self, side: usize) {
        let (instance, at) = ([ONE, TWO][side], 2 * side as u32);
        self.bench.find_instance(SourceId(at), SourceId(at + 1), instance, true);
    }

    /// Both instances are there, and nobody watches anything.
    fn running() -> Hot {
        let mut hot = Hot::alone();
        hot.find(0);
        hot.find(1);
        hot.took();
        hot
    }

    /// A watches IBM, whose two images have number 10.
    fn watching() -> Hot {
        let mut hot = Hot::running();
        hot.bench.request(A, 5, "IBM");
        assert_eq!(hot.took(), ["77: interest IBM", "78: interest IBM"]);
        hot.open(0);
        hot.open(1);
        hot.image(0, 10, 1);
        assert_eq!(hot.took(), ["1/5: refresh ok solicited 22=1"]);
        hot.image(1, 10, 1);
        assert_eq!(hot.took(), [""; 0], "an equal image is shown to nobody");
        assert_eq!(hot.followed(), (1, 0, 0));
        hot
    }

    fn stream(&mut self, side: usize, kind: Kind, body: &[u8]) {
        self.sequences[side] += 1;
        self.numbered_stream(side, self.sequences[side], kind, body);
    }

    fn numbered_stream(&mut self, side: usize, sequence: u64, kind: Kind, body: &[u8]) {
        let item = 1 + side as u32;
        let msg = StreamMsg { kind, instance: [ONE, TWO][side], sequence, item, parts: &[], body };
        let bytes = [&msg.header()[..], body].concat();
        let source = SourceId(2 * side as u32 + 1);
        let Bench { core, now, log, .. } = &mut self.bench;
        core.on_stream_message(*now, source, &bytes, log).expect("accepted");
    }

    fn open(&mut self, side: usize) {
        self.stream(side, Kind::Open, b"\x06\x03IBM");
    }

    fn update(&mut self, side: usize, number: u32, value: i64) {
        self.stream(side, Kind::Update, &numbered(Some(number), value));
    }

    fn image(&mut self, side: usize, number: u32, value: i64) {
        let refresh = image_of(number, value, State::OPEN_OK);
        self.whole_image(side, &refresh);
    }

    fn whole_image(&mut self, side: usize, refresh: &[u8]) {
        let (item, after) = (1 + side as u32, self.sequences[side]);
        self.bench.link([ONE, TWO][side], &LinkDown::Image { item, after, key: named("IBM"), refresh });
    }

    fn lose(&mut self, side: usize) {
        let Bench { core, now, log, .. } = &mut self.bench;
        core.on_link_down(*now, [ONE, TWO][side], log);
    }

    /// What clients got, and instances but for attempts to connect.
    fn took(&mut self) -> Vec<String> {
        let mut log = self.bench.took();
        let is_aside = |line: &String| {
            ["connect", "subscribe", "hello", "progress", ": refresh  SOURCE"]
                .iter()
                .any(|w| line.contains(w))
                || line.contains("Source")
        };
        log.retain(|line| !is_aside(line));
        log
    }

    fn after_ms(&mut self, ms: u64) {
        self.bench.after(Duration::from_millis(ms));
    }

    fn followed(&self) -> (u64, u64, u64) {
        let counters = &self.bench.counters;
        let count = |gauge: &counters::Counter| gauge.get();
        (count(&counters.hot_items), count(&counters.hot_items_single), count(&counters.hot_items_unnumbered))
    }
}

#[test]
fn the_first_copy_of_each_number_is_passed_on() {
    let mut hot = Hot::watching();
    hot.update(0, 11, 2);
    hot.update(1, 11, 2);
    hot.update(1, 12, 3);
    hot.update(1, 13, 4);
    hot.update(0, 12, 3);
    hot.update(0, 13, 4);
    hot.update(0, 14, 5);
    assert_eq!(hot.took(), [2, 3, 4, 5].map(|v| format!("1/5: update 22={v}")));
    assert_eq!(hot.bench.counters.hot_duplicates.get(), 3);
    assert_eq!((hot.bench.counters.hot_lacking.get(), hot.bench.counters.hot_differing.get()), (0, 0));
}

#[test]
fn numbers_wrap() {
    let mut hot = Hot::running();
    hot.bench.request(A, 5, "IBM");
    hot.open(0);
    hot.open(1);
    hot.image(0, u32::MAX, 1);
    hot.image(1, u32::MAX, 1);
    hot.took();
    for (number, value) in [(0, 2), (1, 3)] {
        hot.update(1, number, value);
        hot.update(0, number, value);
    }
    assert_eq!(hot.took(), [2, 3].map(|v| format!("1/5: update 22={v}")));
}

#[test]
fn the_loss_of_either_side_is_not_noticed() {
    for lost in 0..2 {
        let left = 1 - lost;
        let mut hot = Hot::watching();
        // The side that stays is behind.
        hot.update(lost, 11, 2);
        hot.update(lost, 12, 3);
        hot.lose(lost);
        hot.update(left, 11, 2);
        hot.update(left, 12, 3);
        hot.update(left, 13, 4);
        assert_eq!(hot.took(), [2, 3, 4].map(|v| format!("1/5: update 22={v}")), "{lost}");
        assert_eq!(hot.followed(), (0, 1, 0));
        assert_eq!(hot.bench.counters.hot_switches.get(), u64::from(lost == 0));
        assert_eq!(hot.bench.counters.items_suspect.get(), 0);
    }
}

#[test]
fn a_side_that_comes_back_is_compared_and_shown_to_nobody() {
    let mut hot = Hot::watching();
    hot.lose(0);
    hot.update(1, 11, 2);
    assert_eq!(hot.took(), ["1/5: update 22=2"]);
    hot.find(0);
    hot.after_ms(1);
    assert_eq!(hot.took(), ["77: resume IBM"]);
    hot.open(0);
    hot.image(0, 11, 2);
    assert_eq!((hot.took(), hot.followed()), (vec![], (1, 0, 0)));
    hot.lose(1);
    hot.update(0, 12, 3);
    assert_eq!(hot.took(), ["1/5: update 22=3"]);
}

#[test]
fn an_image_of_another_number_is_proven_by_a_copy() {
    for (number, first) in [(9, 10), (12, 13)] {
        let mut hot = Hot::running();
        hot.bench.request(A, 5, "IBM");
        hot.open(0);
        hot.open(1);
        hot.image(0, 10, 1);
        hot.image(1, number, 1);
        assert_eq!(hot.followed(), (0, 1, 0), "{number}");
        hot.took();
        for number in 11..=13 {
            hot.update(0, number, number.into());
        }
        for number in first..=13 {
            hot.update(1, number, number.into());
        }
        assert_eq!(hot.took(), [11, 12, 13].map(|v| format!("1/5: update 22={v}")));
        assert_eq!(hot.followed(), (1, 0, 0), "{number}");
    }
}

#[test]
fn an_image_that_stays_unproven_is_asked_for_again() {
    let mut hot = Hot::running();
    hot.bench.request(A, 5, "IBM");
    hot.open(0);
    hot.open(1);
    hot.image(0, 10, 1);
    hot.image(1, 9, 0);
    hot.took();
    hot.after_ms(999);
    assert_eq!(hot.took(), [""; 0]);
    hot.after_ms(1);
    hot.after_ms(1);
    assert_eq!(hot.took(), ["78: image IBM"]);
    hot.image(1, 10, 1);
    assert_eq!((hot.took(), hot.followed()), (vec![], (1, 0, 0)));
}

#[test]
fn numbers_that_one_side_leaves_out_come_from_the_other() {
    let mut hot = Hot::watching();
    hot.update(0, 13, 4);
    assert_eq!(hot.took(), [""; 0], "11 and 12 may come from the other one");
    hot.update(1, 11, 2);
    hot.update(1, 12, 3);
    assert_eq!(hot.took(), [2, 3, 4].map(|v| format!("1/5: update 22={v}")));
    hot.update(1, 13, 4);
    assert_eq!(hot.took(), [""; 0]);
    // The other way round: what was missing has been passed on before.
    hot.update(0, 14, 5);
    hot.update(0, 15, 6);
    hot.update(1, 15, 6);
    assert_eq!(hot.took(), [5, 6].map(|v| format!("1/5: update 22={v}")));
    assert_eq!(hot.bench.counters.hot_lacking.get(), 2 + 1);
}

#[test]
fn numbers_that_both_leave_out_are_none() {
    let mut hot = Hot::watching();
    hot.update(0, 20, 2);
    hot.update(1, 20, 2);
    assert_eq!(hot.took(), ["1/5: update 22=2"]);
    hot.update(1, 30, 3);
    hot.update(1, 31, 4);
    hot.update(0, 30, 3);
    hot.update(0, 31, 4);
    assert_eq!(hot.took(), [3, 4].map(|v| format!("1/5: update 22={v}")));
    assert_eq!(hot.bench.counters.hot_lacking.get(), 0);
}

#[test]
fn the_other_side_is_not_waited_for_longer_than_it_may() {
    let mut hot = Hot::watching();
    hot.update(0, 13, 4);
    hot.after_ms(99);
    assert_eq!(hot.took(), [""; 0]);
    hot.after_ms(1);
    assert_eq!(hot.took(), ["1/5: update 22=4"]);
    assert_eq!(hot.bench.counters.hot_waits_ended.get(), 1);
    // It is slow: what is left out later is not waited for again.
    hot.update(0, 15, 5);
    assert_eq!(hot.took(), ["1/5: update 22=5"]);
    // Should it have had them, clients have missed something.
    hot.update(1, 11, 2);
    assert_eq!(
        hot.took(),
        ["1/5: status open suspect: an update has come too late to be put in order", "78: image IBM",]
    );
    assert_eq!(hot.bench.counters.hot_late.get(), 1);
    hot.sequences[1] += 2;
    hot.image(1, 15, 5);
    assert_eq!(hot.took()[0], "1/5: refresh ok 22=5");
}

#[test]
fn a_side_that_leaves_the_same_out_after_the_wait_is_no_loss() {
    let mut hot = Hot::watching();
    hot.update(0, 13, 4);
    hot.after_ms(100);
    hot.update(1, 13, 4);
    hot.update(1, 14, 5);
    assert_eq!(hot.took(), [4, 5].map(|v| format!("1/5: update 22={v}")));
    hot.update(0, 14, 5);
    // It has caught up, and is waited for again.
    hot.update(0, 17, 6);
    assert_eq!(hot.took(), [""; 0]);
}

#[test]
fn what_waits_for_a_side_goes_on_when_that_is_lost() {
    let mut hot = Hot::watching();
    hot.update(0, 13, 4);
    hot.lose(1);
    assert_eq!(hot.took(), ["1/5: update 22=4"]);
    let mut hot = Hot::watching();
    hot.update(1, 13, 4);
    hot.lose(0);
    assert_eq!(hot.took(), ["1/5: update 22=4"]);
}

#[test]
fn a_difference_leaves_one_side_alone() {
    let mut hot = Hot::watching();
    hot.update(0, 11, 2);
    hot.update(1, 11, 3);
    let log = hot.took();
    assert_eq!(log[0], "1/5: update 22=2");
    assert!(log[1].contains("different data under one number") && log.len() == 2, "{log:?}");
    assert_eq!((hot.bench.counters.hot_differing.get(), hot.followed()), (1, (0, 0, 1)));
    hot.update(1, 12, 9);
    hot.update(0, 12, 4);
    assert_eq!(hot.took(), ["1/5: update 22=4"]);
    // Warm from here on.
    hot.lose(0);
    assert_eq!(
        hot.took(),
        [
            "1/5: status open suspect: the source distributor is lost, and the other one of the pair is not ready",
            "78: image IBM"
        ]
    );
    hot.image(1, 12, 9);
    assert_eq!(hot.took(), ["1/5: refresh ok 22=9"]);
}

#[test]
fn a_difference_under_a_side_that_is_behind_is_suspect() {
    let mut hot = Hot::watching();
    hot.update(1, 11, 3);
    hot.update(1, 12, 4);
    hot.update(0, 11, 2);
    let log = hot.took();
    assert_eq!(log[..2], ["1/5: update 22=3", "1/5: update 22=4"]);
    assert_eq!(
        log[3], "1/5: status open suspect: the two source distributors of the pair say different things",
        "{log:?}"
    );
}

#[test]
fn an_image_that_differs_is_not_joined() {
    let mut hot = Hot::running();
    hot.bench.request(A, 5, "IBM");
    hot.open(0);
    hot.open(1);
    hot.image(0, 10, 1);
    hot.image(1, 10, 2);
    assert_eq!((hot.bench.counters.hot_images_differing.get(), hot.followed()), (1, (0, 1, 0)));
    hot.took();
    hot.update(1, 11, 9);
    hot.update(0, 11, 3);
    assert_eq!(hot.took(), ["1/5: update 22=3"]);
}

#[test]
fn an_item_without_numbers_is_taken_from_one_side_and_fails_over_warm() {
    let mut hot = Hot::running();
    hot.bench.request(A, 5, "IBM");
    hot.open(0);
    hot.open(1);
    hot.whole_image(1, &refresh(&[(22, 1)]));
    hot.whole_image(0, &refresh(&[(22, 1)]));
    assert_eq!(hot.followed(), (0, 0, 1));
    hot.took();
    hot.stream(0, Kind::Update, &numbered(None, 2));
    hot.stream(1, Kind::Update, &numbered(None, 2));
    hot.stream(1, Kind::Update, &numbered(None, 3));
    hot.stream(0, Kind::Update, &numbered(None, 3));
    assert_eq!(hot.took(), [2, 3].map(|v| format!("1/5: update 22={v}")), "those of the first image");
    hot.lose(1);
    let log = hot.took();
    assert!(log[0].contains("suspect") && log[1] == "77: image IBM", "{log:?}");
    hot.whole_image(0, &refresh(&[(22, 3)]));
    assert_eq!(hot.took(), ["1/5: refresh ok 22=3"]);
}

#[test]
fn a_message_without_a_number_ends_the_comparison_and_is_passed_on_once() {
    for first in 0..2 {
        let mut hot = Hot::watching();
        hot.stream(first, Kind::Update, &numbered(None, 2));
        hot.stream(1 - first, Kind::Update, &numbered(None, 2));
        hot.update(0, 11, 3);
        hot.update(1, 11, 3);
        assert_eq!(hot.took(), [2, 3].map(|v| format!("1/5: update 22={v}")), "{first}");
    }
}

#[test]
fn the_good_copy_wins_over_a_suspect_one() {
    for bad in 0..2 {
        let mut hot = Hot::watching();
        hot.stream(bad, Kind::Status, &suspect());
        hot.update(1 - bad, 11, 2);
        assert_eq!(hot.took(), ["1/5: update 22=2"], "{bad}");
        // The provider is back there: its image is compared.
        hot.stream(bad, Kind::Refresh, &image_of(11, 2, State::OPEN_OK));
        assert_eq!((hot.took(), hot.followed()), (vec![], (1, 0, 0)));
        hot.stream(bad, Kind::Status, &suspect());
        hot.stream(1 - bad, Kind::Status, &suspect());
        assert_eq!(hot.took(), ["1/5: status open suspect: away"], "nobody has it now");
        hot.stream(1 - bad, Kind::Refresh, &image_of(12, 3, State::OPEN_OK));
        hot.stream(bad, Kind::Refresh, &image_of(12, 3, State::OPEN_OK));
        hot.update(bad, 13, 4);
        hot.update(1 - bad, 13, 4);
        assert_eq!(hot.took(), ["1/5: refresh ok 22=3", "1/5: update 22=4"]);
    }
}

#[test]
fn a_provider_that_counts_anew_is_followed_with_its_image() {
    let mut hot = Hot::watching();
    for side in 0..2 {
        hot.stream(side, Kind::Status, &suspect());
    }
    for side in 0..2 {
        hot.stream(side, Kind::Refresh, &image_of(1, 7, State::OPEN_OK));
    }
    for side in 0..2 {
        hot.update(side, 2, 8);
    }
    hot.took().iter().zip(["suspect", "refresh ok 22=7", "update 22=8"]).for_each(|(line, what)| {
        assert!(line.contains(what), "{line}: {what}");
    });
    // At one side alone, while the other one has not noticed: nothing of it may be taken for a copy.
    hot.stream(0, Kind::Status, &suspect());
    hot.stream(0, Kind::Refresh, &image_of(1, 7, State::OPEN_OK));
    hot.update(0, 2, 9);
    assert_eq!(hot.took(), [""; 0]);
    hot.stream(1, Kind::Status, &suspect());
    assert!(hot.took()[0].contains("suspect"), "no side can go on without an image");
}

#[test]
fn an_item_that_is_closed_at_one_side_goes_on_from_the_other() {
    for closed in 0..2 {
        let mut hot = Hot::watching();
        hot.stream(closed, Kind::Close, &status(StreamState::Closed, "gone"));
        hot.update(1 - closed, 11, 2);
        assert_eq!(hot.took(), ["1/5: update 22=2"], "{closed}");
        hot.stream(1 - closed, Kind::Close, &status(StreamState::Closed, "gone"));
        assert_eq!(hot.took(), ["1/5: status closed suspect: gone"]);
        assert_eq!((hot.bench.core.item_count(), hot.followed()), (0, (0, 0, 0)));
    }
}

#[test]
fn an_item_that_only_one_instance_has_is_there() {
    let mut hot = Hot::running();
    hot.bench.request(A, 5, "IBM");
    hot.took();
    let none = status(StreamState::Closed, "not found");
    hot.bench.link(ONE, &LinkDown::ItemStatus { key: named("IBM"), status: &none });
    assert_eq!(hot.took(), [""; 0], "the other one has not answered");
    hot.open(1);
    hot.image(1, 10, 1);
    assert_eq!(hot.took(), ["1/5: refresh ok solicited 22=1"]);
    hot.bench.request(A, 6, "MSFT");
    for instance in [ONE, TWO] {
        hot.bench.link(instance, &LinkDown::ItemStatus { key: named("MSFT"), status: &none });
    }
    assert_eq!(hot.took().last().map(String::as_str), Some("1/6: status closed suspect: not found"));
}

#[test]
fn a_gap_of_one_stream_is_filled_by_the_other() {
    for gap in 0..2 {
        let mut hot = Hot::watching();
        let instance = [ONE, TWO][gap];
        hot.sequences[gap] += 1;
        hot.update(gap, 12, 3);
        let lost = hot.sequences[gap] - 1;
        assert_eq!(hot.took(), [format!("{instance}: gap {lost}-{lost}")]);
        hot.update(1 - gap, 11, 2);
        hot.update(1 - gap, 12, 3);
        let ids = (1 + gap as u32).to_be_bytes();
        let answer = LinkDown::GapAnswer { service: 1, first: lost, last: lost, known: true, ids: &ids };
        hot.bench.link(instance, &answer);
        hot.after_ms(1);
        assert_eq!(
            hot.took(),
            ["1/5: update 22=2".to_owned(), "1/5: update 22=3".to_owned(), format!("{instance}: image IBM")]
        );
        assert_eq!(hot.followed(), (0, 1, 0));
        hot.image(gap, 12, 3);
        assert_eq!((hot.took(), hot.followed()), (vec![], (1, 0, 0)));
    }
}

#[test]
fn a_gap_under_the_only_side_makes_the_item_suspect() {
    let mut hot = Hot::watching();
    hot.lose(1);
    hot.sequences[0] += 1;
    hot.update(0, 12, 3);
    let lost = hot.sequences[0] - 1;
    hot.took();
    let answer =
        LinkDown::GapAnswer { service: 1, first: lost, last: lost, known: true, ids: &1u32.to_be_bytes() };
    hot.bench.link(ONE, &answer);
    assert_eq!(hot.took(), ["1/5: status open suspect: messages were lost on the backbone", "77: image IBM"]);
    hot.image(0, 12, 3);
    assert_eq!(hot.took(), ["1/5: refresh ok 22=3"]);
}

#[test]
fn the_loss_of_both_is_that_of_a_service() {
    let mut hot = Hot::watching();
    hot.lose(0);
    hot.lose(1);
    assert!(hot.took()[0].contains("suspect: the source distributor is lost"));
    assert_eq!(hot.followed(), (0, 0, 0));
    hot.find(1);
    assert_eq!(hot.took().last().map(String::as_str), Some("78: resume IBM"));
    hot.open(1);
    hot.image(1, 20, 9);
    assert_eq!(hot.took(), ["1/5: refresh ok 22=9"]);
}

#[test]
fn an_image_older_than_what_clients_have_had_is_asked_for_again_a_few_times() {
    let mut hot = Hot::watching();
    hot.lose(1);
    hot.update(0, 11, 2);
    hot.update(0, 12, 3);
    hot.find(1);
    hot.after_ms(1);
    // Before the new side is joined the other one goes.
    hot.lose(0);
    hot.took();
    hot.open(1);
    hot.image(1, 11, 2);
    assert_eq!(hot.took(), [""; 0]);
    hot.after_ms(100);
    assert_eq!(hot.took(), ["78: image IBM"]);
    hot.image(1, 12, 3);
    assert_eq!(hot.took(), ["1/5: refresh ok 22=3"]);
}

#[test]
fn a_service_that_is_down_at_one_side_goes_on_from_the_other() {
    let mut hot = Hot::watching();
    hot.bench.directory(SourceId(0), ONE, &[definition(false)]);
    hot.update(1, 11, 2);
    assert_eq!(hot.took(), ["1/5: update 22=2"]);
    assert_eq!(hot.followed(), (0, 1, 0));
    hot.bench.directory(SourceId(0), ONE, &[definition(true)]);
    hot.after_ms(1);
    assert_eq!(hot.took(), ["77: image IBM"]);
    hot.image(0, 11, 2);
    assert_eq!((hot.took(), hot.followed()), (vec![], (1, 0, 0)));
}

#[test]
fn nobody_watches_any_more_and_both_are_told() {
    let mut hot = Hot::watching();
    hot.bench.close(A, 5);
    hot.after_ms(10_000);
    assert_eq!(hot.took(), ["77: no interest IBM", "78: no interest IBM"]);
    assert_eq!(hot.followed(), (0, 0, 0));
}

#[test]
fn generic_messages_come_from_the_side_that_leads() {
    let mut hot = Hot::watching();
    let msg = rwf::GenericMsg::new(Domain::MARKET_PRICE, -5, DataType::NO_DATA).to_vec().expect("legal");
    for side in 0..2 {
        hot.stream(side, Kind::Generic, &msg);
    }
    assert_eq!(hot.took(), ["1/5: generic"]);
    hot.lose(0);
    hot.stream(1, Kind::Generic, &msg);
    assert_eq!(hot.took(), ["1/5: generic"]);
}

#[test]
fn what_waits_is_bounded() {
    let mut hot = Hot::watching();
    hot.bench.core.reconfigure(|config| config.held_bytes_max = 200);
    for number in 20..60 {
        hot.update(0, number, number.into());
    }
    let log = hot.took();
    assert_eq!(
        log[0], "1/5: status open suspect: messages were lost on the backbone",
        "nothing is dropped in silence: {log:?}"
    );
    assert!(hot.bench.counters.held_overflows.get() > 0);
}

#[test]
fn progress_is_reported_to_both() {
    let mut hot = Hot::watching();
    hot.update(0, 11, 2);
    let Bench { core, now, log, .. } = &mut hot.bench;
    core.report_progress(*now + Duration::from_secs(1), log);
    let log = hot.bench.took();
    for line in ["77: progress [(1, 2)]", "78: progress [(1, 1)]"] {
        assert!(log.contains(&line.to_owned()), "{log:?}");
    }
}

#[test]
fn status_pages_show_both() {
    let hot = Hot::watching();
    let services: Vec<_> = hot.bench.core.inspect().services().map(|s| (s.instance, s.sides)).collect();
    assert_eq!(services, [(Some(ONE), Some([Some((ONE, true)), Some((TWO, true))]))]);
}

/// One of the two parts of an image.
fn part(number: u32, part_num: u16, value: i64) -> Vec<u8> {
    let payload = fields(&[(22 + 3 * part_num as i16, value)]);
    let msg = RefreshMsg {
        complete: part_num == 1,
        clear_cache: part_num == 0,
        seq_num: Some(number),
        part_num: Some(part_num),
        payload: &payload,
        ..RefreshMsg::new(Domain::MARKET_PRICE, 0, DataType::FIELD_LIST)
    };
    msg.to_vec().expect("legal")
}

#[test]
fn images_in_parts_come_from_one_side_and_join_the_other() {
    for first in 0..2 {
        let mut hot = Hot::watching();
        for side in [first, 1 - first] {
            for part_num in 0..2 {
                hot.stream(side, Kind::Refresh, &part(11, part_num, 7));
            }
        }
        assert_eq!(hot.took(), ["1/5: refresh ok 22=7 25=7"], "{first}");
        hot.update(1, 12, 8);
        hot.update(0, 12, 8);
        hot.update(1, 13, 9);
        assert_eq!(hot.took(), [8, 9].map(|v| format!("1/5: update 22={v}")));
        assert_eq!(hot.followed(), (1, 0, 0), "{first}");
    }
}

fn good() -> Vec<u8> {
    let state = State::new(StreamState::Open, rwf::DataState::Ok);
    StatusMsg { state: Some(state), ..StatusMsg::new(Domain::MARKET_PRICE, 0, DataType::NO_DATA) }
        .to_vec()
        .expect("legal")
}

#[test]
fn a_side_that_says_that_an_item_is_good_again_is_joined_again() {
    for bad in 0..2 {
        let instance = [ONE, TWO][bad];
        let mut hot = Hot::watching();
        hot.stream(bad, Kind::Status, &suspect());
        hot.stream(bad, Kind::Status, &good());
        hot.after_ms(1);
        assert_eq!(hot.took(), [format!("{instance}: image IBM")]);
        hot.image(bad, 10, 1);
        assert_eq!((hot.took(), hot.followed()), (vec![], (1, 0, 0)));
    }
}

#[test]
fn the_first_side_that_is_good_again_makes_an_item_good_that_was_suspect_at_both() {
    for first in 0..2 {
        let instance = [ONE, TWO][first];
        let mut hot = Hot::watching();
        for bad in [first, 1 - first] {
            hot.stream(bad, Kind::Status, &suspect());
        }
        assert_eq!(hot.took(), ["1/5: status open suspect: away"]);
        hot.stream(first, Kind::Status, &good());
        hot.after_ms(1);
        assert_eq!(hot.took(), [format!("{instance}: image IBM")]);
        hot.image(first, 12, 3);
        assert_eq!(hot.took(), ["1/5: refresh ok 22=3"]);
    }
}

#[test]
fn a_third_instance_takes_the_place_of_one_whose_provider_has_gone() {
    let mut hot = Hot::watching();
    hot.bench.find_instance(SourceId(4), SourceId(5), 79, true);
    hot.after_ms(1);
    assert_eq!((hot.took(), hot.followed()), (vec![], (1, 0, 0)), "there is no place for it");
    hot.bench.directory(SourceId(0), ONE, &[definition(false)]);
    hot.after_ms(1);
    assert_eq!(hot.took(), ["79: resume IBM"]);
    let sides = |hot: &Hot| hot.bench.core.inspect().services().next().and_then(|service| service.sides);
    assert_eq!(sides(&hot), Some([Some((79, true)), Some((TWO, true))]));
    let refresh = image_of(10, 1, State::OPEN_OK);
    hot.bench.link(79, &LinkDown::Image { item: 9, after: 0, key: named("IBM"), refresh: &refresh });
    assert_eq!((hot.took(), hot.followed()), (vec![], (1, 0, 0)));
    // Nor is it the worse for the others when all but one have gone.
    hot.bench.directory(SourceId(4), 79, &[definition(false)]);
    hot.after_ms(1);
    hot.update(1, 11, 2);
    assert_eq!(hot.took(), ["1/5: update 22=2"]);
}

#[test]
fn an_instance_without_a_place_is_found_when_the_providers_of_both_have_gone() {
    let mut hot = Hot::watching();
    for (side, instance) in [ONE, TWO].into_iter().enumerate() {
        hot.bench.directory(SourceId(2 * side as u32), instance, &[definition(false)]);
    }
    hot.after_ms(1);
    hot.took();
    hot.bench.find_instance(SourceId(4), SourceId(5), 79, true);
    hot.after_ms(1);
    let asked = hot.took();
    assert!(asked.contains(&"79: resume IBM".to_owned()), "{asked:?}");
    let refresh = image_of(12, 3, State::OPEN_OK);
    hot.bench.link(79, &LinkDown::Image { item: 9, after: 0, key: named("IBM"), refresh: &refresh });
    assert_eq!(hot.took(), ["1/5: refresh ok 22=3"]);
}

#[test]
fn a_number_that_comes_behind_many_jumps_is_noticed() {
    for jumps in [5, 1_000] {
        let mut hot = Hot::watching();
        // One stands still; the other one lacks 11, and its provider leaves out numbers.
        hot.update(0, 12, 12);
        hot.after_ms(100);
        for jump in 2..jumps {
            hot.update(0, 10 * jump, i64::from(jump));
        }
        hot.took();
        hot.update(1, 11, 2);
        assert_eq!(
            hot.took()[0],
            "1/5: status open suspect: an update has come too late to be put in order",
            "{jumps}"
        );
    }
}

#[test]
fn a_side_that_repeats_itself_says_nothing_of_what_the_other_one_has() {
    let mut hot = Hot::watching();
    hot.update(1, 13, 4);
    hot.after_ms(100);
    hot.stream(1, Kind::Refresh, &image_of(13, 4, State::OPEN_OK));
    assert_eq!(hot.took(), ["1/5: update 22=4"]);
    hot.update(0, 11, 2);
    assert_eq!(hot.took()[0], "1/5: status open suspect: an update has come too late to be put in order");
}

#[test]
fn a_side_that_stood_still_while_the_other_one_jumped_catches_up() {
    let mut hot = Hot::watching();
    let numbers = || (2..100).map(|jump| 10 * jump);
    for number in numbers() {
        hot.update(0, number, 1);
        hot.after_ms(100);
    }
    hot.took();
    for number in numbers() {
        hot.update(1, number, 1);
    }
    hot.update(1, 1_000, 2);
    hot.update(0, 1_000, 2);
    assert_eq!((hot.took(), hot.followed()), (vec!["1/5: update 22=2".to_owned()], (1, 0, 0)));
    assert_eq!(hot.bench.counters.hot_late.get(), 0);
}

#[test]
fn each_message_has_its_own_time_to_wait() {
    let mut hot = Hot::watching();
    hot.update(0, 13, 4);
    hot.after_ms(50);
    hot.update(1, 13, 4);
    assert_eq!(hot.took(), ["1/5: update 22=4"]);
    hot.after_ms(49);
    hot.update(0, 20, 5);
    hot.after_ms(1);
    assert_eq!(hot.took(), [""; 0], "it has waited for 1 ms");
    hot.after_ms(98);
    assert_eq!(hot.took(), [""; 0]);
    hot.after_ms(1);
    assert_eq!(hot.took(), ["1/5: update 22=5"]);
    assert_eq!(hot.bench.counters.hot_waits_ended.get(), 1);
}

#[test]
fn what_waited_for_an_image_does_not_wait_for_ever_for_the_other_side() {
    let mut hot = Hot::running();
    hot.bench.request(A, 5, "IBM");
    hot.open(0);
    hot.open(1);
    hot.image(0, 10, 1);
    hot.took();
    // Behind its image, and ahead of the other one.
    let after = hot.sequences[1];
    hot.update(1, 15, 5);
    let refresh = image_of(10, 1, State::OPEN_OK);
    hot.bench.link(TWO, &LinkDown::Image { item: 2, after, key: named("IBM"), refresh: &refresh });
    assert_eq!((hot.took(), hot.followed()), (vec![], (1, 0, 0)));
    hot.after_ms(100);
    assert_eq!(hot.took(), ["1/5: update 22=5"]);
}

#[test]
fn an_answer_without_an_image_makes_room_for_the_next_question() {
    let mut hot = Hot::running();
    let names: Vec<String> = (0..20).map(|number| format!("I{number}")).collect();
    for (stream_id, name) in (5..).zip(&names) {
        hot.bench.request(A, stream_id, name);
    }
    let image = image_of(10, 1, State::OPEN_OK);
    for (item, name) in (2..).zip(&names) {
        hot.bench.link(TWO, &LinkDown::Image { item, after: 0, key: named(name), refresh: &image });
    }
    hot.lose(0);
    hot.took();
    hot.bench.core.reconfigure(|config| config.images_outstanding_max = 3);
    hot.find(0);
    // It was started again: its provider has not published them yet.
    let waits = status(StreamState::Open, "waiting for the provider");
    let mut asked = Vec::new();
    for _ in 0..20 {
        hot.after_ms(1);
        for line in hot.took() {
            let name = line.strip_prefix("77: resume ").expect("no other message").to_owned();
            hot.bench.link(ONE, &LinkDown::ItemStatus { key: named(&name), status: &waits });
            asked.push(name);
        }
    }
    assert_eq!(asked, names);
}

#[test]
fn an_image_that_is_older_and_not_to_be_trusted_is_not_shown() {
    for again in [Kind::Status, Kind::Refresh] {
        let mut hot = Hot::watching();
        let away = State::new(StreamState::Open, rwf::DataState::Suspect);
        hot.stream(0, Kind::Status, &suspect());
        hot.update(1, 11, 2);
        hot.lose(1);
        let log = hot.took();
        assert!(log[1].contains("suspect") && log[2] == "77: image IBM", "{log:?}");
        // The provider of the one that is left went before the last update.
        for seconds in [1, 2, 4] {
            hot.whole_image(0, &image_of(10, 1, away));
            assert_eq!(hot.took(), [""; 0]);
            hot.after_ms(1_000 * seconds);
            assert_eq!(hot.took(), ["77: image IBM"]);
        }
        hot.whole_image(0, &image_of(10, 1, away));
        let said = if again == Kind::Status { good() } else { image_of(12, 3, State::OPEN_OK) };
        hot.stream(0, again, &said);
        assert_eq!(hot.took(), ["77: image IBM"], "{again:?}");
        hot.image(0, 12, 3);
        assert_eq!(hot.took(), ["1/5: refresh ok 22=3"]);
    }
}

#[test]
fn a_turn_looks_at_the_pairs_alone_of_which_something_is_due() {
    let mut hot = Hot::watching();
    let due = |hot: &Hot| hot.bench.core.items.sources.pairs_due.len();
    hot.after_ms(1);
    assert_eq!(due(&hot), 0);
    hot.update(0, 13, 4);
    assert_eq!(due(&hot), 1);
    hot.after_ms(100);
    assert_eq!((hot.took(), due(&hot)), (vec!["1/5: update 22=4".to_owned()], 0));
    hot.lose(1);
    hot.find(1);
    hot.after_ms(1);
    assert_eq!(due(&hot), 1, "its image is on its way");
    hot.open(1);
    hot.image(1, 13, 4);
    hot.after_ms(1);
    assert_eq!((hot.followed(), due(&hot)), ((1, 0, 0), 0));
}

#[test]
fn what_a_stream_says_of_all_items_is_said_of_its_side() {
    let mut hot = Hot::watching();
    let down = crate::backbone::service_status();
    hot.stream(0, Kind::ServiceStatus, &down);
    assert_eq!(hot.took(), [""; 0], "the other one goes on");
    hot.update(1, 11, 2);
    assert_eq!(hot.took(), ["1/5: update 22=2"]);
    hot.stream(1, Kind::ServiceStatus, &down);
    let took = hot.took();
    assert!(took[0].starts_with("1/5: status open suspect"), "{took:?}");
    hot.image(1, 12, 3);
    assert_eq!(hot.took()[0], "1/5: refresh ok 22=3");
}

#[test]
fn a_jump_over_a_number_that_the_other_image_has_is_no_jump_of_the_provider() {
    let mut hot = Hot::running();
    hot.bench.request(A, 5, "IBM");
    hot.open(0);
    hot.open(1);
    hot.image(0, 10, 1);
    hot.image(1, 11, 2);
    hot.took();
    hot.update(0, 12, 3);
    let took = hot.took();
    assert!(took[0].starts_with("1/5: status open suspect"), "{took:?}");
    hot.image(0, 12, 3);
    assert_eq!(hot.took()[0], "1/5: refresh ok 22=3");
}

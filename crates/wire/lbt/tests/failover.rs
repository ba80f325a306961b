//! Hot failover: several sources, one stream.

use counters::table::HotFailover as Counters;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;
use testkit::repeat::is_one_seed;
use tickcast_lbt::config::FailoverConfig;
use tickcast_lbt::delivery::{Delivered, Via};
use tickcast_lbt::failover::{FailoverError, FailoverSink, HotFailover, SourceId};
use tickcast_lbt::wire::lbmc::{
    Chain, FAILOVER_NUMBER_LEN, Header, Headers, Kind, Message, emit_message, failover_element,
};
use units::{Nanos, Rng, Sqn};

const MS: Duration = Duration::from_millis(1);

fn at(ms: u64) -> Nanos {
    Nanos(ms * 1_000_000)
}

/// Calls `take` with a message of this number, whose payload says it again.
fn with_message(number: u64, take: impl FnOnce(&Delivered<'_>)) {
    let (mut room, mut chain, mut bytes) = ([0; FAILOVER_NUMBER_LEN], Chain::default(), Vec::new());
    chain.push(&Header::Chain { elements: failover_element(number, &mut room) });
    let payload = number.to_be_bytes();
    emit_message(&mut bytes, Kind::Message, Some((1, Sqn(2))), &chain, Some(&payload));
    let message = Message::parse(&bytes, 0).expect("well-formed");
    take(&delivered(message.data(), message.headers));
}

fn delivered<'a>(payload: &'a [u8], headers: Headers<'a>) -> Delivered<'a> {
    let (first_sqn, sqn) = (Sqn(2), Sqn(2));
    let via = Via::Transport;
    Delivered { token: 1, topic_index: 1, first_sqn, sqn, payload, headers, recovered: false, via }
}

/// What comes out, as text.
#[derive(Default)]
struct Heard(Vec<String>);

impl FailoverSink for Heard {
    fn deliver(&mut self, number: u64, message: Delivered<'_>) {
        assert_eq!(message.payload, number.to_be_bytes(), "the content is that of the number");
        assert_eq!(message.headers.failover_number(), Some(number));
        self.0.push(number.to_string());
    }
    fn lost(&mut self, first: u64, count: u64) {
        self.0.push(format!("lost {first}+{count}"));
    }
}

struct Bench {
    merger: HotFailover,
    counters: Arc<Counters>,
    heard: Heard,
    now: Nanos,
}

impl Bench {
    fn new(change: impl FnOnce(&mut FailoverConfig)) -> Bench {
        let mut config = FailoverConfig::default();
        change(&mut config);
        let counters = Arc::new(Counters::default());
        let merger = HotFailover::new(&config, counters.clone()).expect("allowed");
        Bench { merger, counters, heard: Heard::default(), now: Nanos::ZERO }
    }

    fn two(change: impl FnOnce(&mut FailoverConfig)) -> (Bench, SourceId, SourceId) {
        let mut b = Bench::new(change);
        let (one, other) = (b.merger.add_source(), b.merger.add_source());
        (b, one.expect("room"), other.expect("room"))
    }

    fn send(&mut self, source: SourceId, numbers: impl IntoIterator<Item = u64>) {
        for number in numbers {
            with_message(number, |m| self.merger.on_message(self.now, source, m, &mut self.heard));
        }
    }

    fn heard(&mut self) -> String {
        std::mem::take(&mut self.heard.0).join(" ")
    }
}

#[test]
fn the_first_copy_of_each_number_is_delivered() {
    let (mut b, one, other) = Bench::two(|_| {});
    b.send(one, [10, 11]);
    b.send(other, [10, 11, 12]);
    b.send(one, [12, 13]);
    assert_eq!(b.heard(), "10 11 12 13");
    let c = &b.counters;
    assert_eq!((c.msgs_rcved.get(), c.msgs_delivered.get(), c.duplicates.get()), (7, 4, 3));
    assert_eq!((c.sources.get(), c.msgs_held.get()), (2, 0));
}

#[test]
fn a_number_that_one_source_lacks_is_waited_for_and_taken_from_the_other() {
    let (mut b, one, other) = Bench::two(|_| {});
    b.send(one, [0, 1]);
    b.send(other, [0]);
    b.merger.on_lost(one);
    b.send(one, [4, 5]);
    assert_eq!(b.heard(), "0 1");
    assert_eq!((b.counters.held_now.get(), b.counters.hold_bytes.get()), (2, 2 * (8 + 16)));
    b.send(other, 1..5);
    assert_eq!(b.heard(), "2 3 4 5");
    assert_eq!((b.counters.held_now.get(), b.counters.hold_bytes_max.get() > 0), (0, true));
}

#[test]
fn a_number_that_both_sources_skip_was_not_sent_and_one_that_both_lost_is_lost() {
    let (mut b, one, other) = Bench::two(|_| {});
    b.send(one, [0, 3]);
    b.send(other, [0, 3]);
    assert_eq!((b.heard().as_str(), b.counters.numbers_not_sent.get()), ("0 3", 2));
    b.merger.on_lost(one);
    b.merger.on_lost(other);
    b.send(one, [7]);
    b.send(other, [6, 7]);
    assert_eq!(b.heard(), "lost 4+2 6 7");
    assert_eq!((b.counters.lost_events.get(), b.counters.numbers_lost.get()), (1, 2));
}

#[test]
fn when_a_source_dies_the_other_carries_on_without_a_gap() {
    let (mut b, one, other) = Bench::two(|_| {});
    b.send(one, 0..5);
    b.send(other, 0..3);
    b.merger.remove_source(b.now, one, &mut b.heard);
    b.send(other, 3..8);
    assert_eq!(b.heard(), "0 1 2 3 4 5 6 7");
    b.merger.on_lost(other);
    b.send(other, [9]);
    assert_eq!(b.heard(), "lost 8+1 9", "nobody else is left to wait for");
}

#[test]
fn a_gap_that_the_dead_source_had_left_open_closes_when_it_is_gone() {
    let (mut b, one, other) = Bench::two(|_| {});
    b.send(one, [0]);
    b.send(other, [0, 2]);
    assert_eq!(b.heard(), "0");
    b.merger.remove_source(b.now, one, &mut b.heard);
    assert_eq!((b.heard().as_str(), b.counters.numbers_not_sent.get()), ("2", 1));
}

#[test]
fn a_number_is_waited_for_no_longer_than_the_interval() {
    let (mut b, one, other) = Bench::two(|c| c.hot_failover_gap_interval = MS * 50);
    b.send(one, [0]);
    b.send(other, [0]);
    b.now = at(10);
    b.send(one, [2]);
    assert_eq!(b.merger.next_wakeup(), at(60));
    b.merger.on_wakeup(at(59), &mut b.heard);
    assert_eq!(b.heard(), "0");
    b.merger.on_wakeup(at(60), &mut b.heard);
    assert_eq!((b.heard().as_str(), b.counters.gaps_timed_out.get()), ("2", 1));
    b.now = at(70);
    b.send(one, [4]);
    assert_eq!(b.heard(), "4", "who was waited for in vain is waited for again when it is heard");
    b.send(other, [1, 5]);
    b.send(one, [7]);
    assert_eq!((b.heard().as_str(), b.counters.duplicates.get()), ("5", 2));
    assert_eq!(b.merger.next_wakeup(), at(120));
}

#[test]
fn when_too_much_is_held_the_oldest_gap_is_given_up() {
    let (mut b, one, other) = Bench::two(|c| c.hot_failover_hold_maximum_count = 2);
    b.send(other, [0]);
    b.send(one, [0, 2, 3, 4]);
    assert_eq!((b.heard().as_str(), b.counters.gaps_bound.get()), ("0 2 3 4", 1));
    let (mut b, one, other) = Bench::two(|c| c.hot_failover_hold_maximum_bytes = 50);
    b.send(other, [0]);
    b.send(one, [0, 2, 4, 6]);
    assert_eq!((b.heard().as_str(), b.counters.gaps_bound.get()), ("0 2", 1));
    assert!(b.counters.hold_bytes.get() <= 50);
}

#[test]
fn what_has_no_number_or_one_that_cannot_be_is_left_out_and_counted() {
    let (mut b, one, _) = Bench::two(|c| c.hot_failover_maximum_sources = 2);
    assert_eq!(b.merger.add_source(), Err(FailoverError::TooMany { max: 2 }));
    b.merger.on_message(b.now, one, &delivered(b"plain", Headers::NONE), &mut b.heard);
    b.send(one, [u64::MAX, 5, 5 + (1 << 30) + 2]);
    assert_eq!(b.heard(), "5");
    let c = &b.counters;
    let counts = (c.msgs_without_number.get(), c.msgs_refused.get(), c.sources_refused.get());
    assert_eq!(counts, (1, 2, 1));
}

#[test]
fn after_a_restart_the_numbering_begins_anew() {
    let (mut b, one, other) = Bench::two(|_| {});
    b.send(other, [9]);
    b.send(one, [9, 11]);
    b.merger.restart(&mut b.heard);
    b.send(one, [0, 1]);
    assert_eq!(b.heard(), "9 11 0 1");
}

#[test]
fn streams_that_count_into_the_same_gauges_add_up_and_take_their_part_away_when_they_are_gone() {
    let counters = Arc::new(Counters::default());
    let new = || HotFailover::new(&FailoverConfig::default(), counters.clone()).expect("allowed");
    let (mut first, mut other, mut heard) = (new(), new(), Heard::default());
    assert!(!first.has_sources());
    for merger in [&mut first, &mut other] {
        let [early, late] = [merger.add_source(), merger.add_source()].map(|source| source.expect("room"));
        with_message(0, |m| merger.on_message(at(0), late, m, &mut heard));
        with_message(2, |m| merger.on_message(at(0), early, m, &mut heard));
    }
    let gauges = || (counters.sources.get(), counters.held_now.get(), counters.hold_bytes.get());
    assert_eq!((gauges(), counters.hold_bytes_max.get()), ((4, 2, 2 * (8 + 16)), 2 * (8 + 16)));
    drop(other);
    assert_eq!((gauges(), first.has_sources()), ((2, 1, 8 + 16), true));
}

// ---- random conduct

/// A source of the simulation: where it is, and what became of the numbers on the way to the receiver.
struct Sender {
    id: Option<SourceId>,
    position: u64,
    loss: f64,
    skip: f64,
    stalled_until: u64,
    /// Skipped since its last message, and nothing lost meanwhile.
    skipped: Vec<u64>,
    is_torn: bool,
    heard_once: bool,
}

/// What came out, checked as it comes.
#[derive(Default)]
struct Oracle {
    next: u64,
    delivered: BTreeSet<u64>,
    lost: BTreeSet<u64>,
}

impl FailoverSink for Oracle {
    fn deliver(&mut self, number: u64, message: Delivered<'_>) {
        assert!(number >= self.next, "{number} comes after {}", self.next);
        assert_eq!(message.payload, number.to_be_bytes());
        self.delivered.insert(number);
        self.next = number + 1;
    }
    fn lost(&mut self, first: u64, count: u64) {
        assert!(first >= self.next && count > 0, "loss in its place");
        self.lost.extend(first..first + count);
        self.next = first + count;
    }
}

fn run(seed: u64) -> Arc<Counters> {
    let mut rng = Rng::new(seed);
    let config = FailoverConfig {
        hot_failover_gap_interval: MS * (5 + rng.below(50) as u32),
        hot_failover_hold_maximum_count: 4 + rng.below(200) as u32,
        ..FailoverConfig::default()
    };
    let counters = Arc::new(Counters::default());
    let mut merger = HotFailover::new(&config, counters.clone()).expect("allowed");
    let (mut oracle, mut sent, mut passed) = (Oracle::default(), BTreeSet::new(), BTreeSet::new());
    let not_sent: BTreeSet<u64> = (0..1_000).filter(|_| rng.chance(0.05)).collect();
    let mut senders: Vec<Sender> = (0..1 + rng.below(3)).map(|_| Sender::draw(&mut rng)).collect();
    for ms in 0..1_500 {
        for sender in &mut senders {
            if sender.stalled_until > ms {
                continue;
            }
            if sender.id.is_none() {
                sender.id = merger.add_source().ok();
                (sender.heard_once, sender.is_torn) = (false, false);
                sender.skipped.clear();
            }
            let Some(id) = sender.id else { continue };
            for _ in 0..rng.below(5) {
                let number = sender.position;
                sender.position += 1;
                if number >= 1_000 || not_sent.contains(&number) {
                    continue;
                }
                if rng.chance(sender.skip) {
                    sender.skipped.push(number);
                } else if rng.chance(sender.loss) {
                    sender.is_torn = true;
                    merger.on_lost(id);
                    sent.insert(number);
                } else {
                    if sender.heard_once && !sender.is_torn {
                        passed.extend(sender.skipped.iter().copied());
                    }
                    sender.skipped.clear();
                    (sender.heard_once, sender.is_torn) = (true, false);
                    sent.insert(number);
                    with_message(number, |m| merger.on_message(at(ms), id, m, &mut oracle));
                }
            }
            if rng.chance(0.004) {
                // it dies, and another takes its place some time later, perhaps further on
                merger.remove_source(at(ms), id, &mut oracle);
                sender.id = None;
                sender.stalled_until = ms + rng.below(100);
                sender.position += rng.below(30);
            } else if rng.chance(0.004) {
                sender.stalled_until = ms + rng.below(150);
            }
        }
        if merger.next_wakeup() <= at(ms) {
            merger.on_wakeup(at(ms), &mut oracle);
        }
        assert!(counters.held_now.get() <= u64::from(config.hot_failover_hold_maximum_count));
    }
    merger.on_wakeup(at(10_000), &mut oracle);
    let first = oracle.delivered.first().copied().unwrap_or(0);
    for number in (first..oracle.next).filter(|n| sent.contains(n)) {
        let is_told = oracle.delivered.contains(&number) || oracle.lost.contains(&number);
        assert!(is_told || passed.contains(&number), "number {number} is missing in silence");
    }
    assert!(oracle.lost.is_disjoint(&oracle.delivered));
    counters
}

impl Sender {
    fn draw(rng: &mut Rng) -> Sender {
        Sender {
            id: None,
            position: rng.below(10),
            loss: if rng.chance(0.3) { 0.0 } else { rng.unit() * 0.3 },
            skip: if rng.chance(0.6) { 0.0 } else { rng.unit() * 0.1 },
            stalled_until: 0,
            skipped: Vec::new(),
            is_torn: false,
            heard_once: false,
        }
    }
}

#[test]
fn whatever_sources_lose_skip_or_die_the_first_copies_come_in_order_and_loss_is_reported() {
    let (mut delivered, mut lost, mut timed_out, mut bound) = (0, 0, 0, 0);
    testkit::for_each_seed!(0..300, |seed| {
        let counters = run(seed);
        delivered += counters.msgs_delivered.get();
        lost += counters.numbers_lost.get();
        timed_out += counters.gaps_timed_out.get();
        bound += counters.gaps_bound.get();
    });
    if !is_one_seed() {
        assert!(delivered > 100_000 && lost > 1_000, "{delivered} {lost}");
        assert!(timed_out > 50 && bound > 50, "{timed_out} {bound}");
    }
}

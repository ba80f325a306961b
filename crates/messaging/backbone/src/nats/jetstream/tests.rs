//! Streams of packets with holes, beside a model of a stream of JetStream.

use std::time::Duration;

use units::{Nanos, Rng};

use super::super::packet::{self, Head, Kind, append_record, piece_head};
use super::super::sources::{Found, Sources};
use super::answer::{self, PENDING, SEQUENCE, SUBJECT};
use super::{Bounds, Recovery, Request, Tally};

const WAIT: Duration = Duration::from_millis(300);
const BOUNDS: Bounds = Bounds { wait: WAIT, requests: 8, held_bytes: 1 << 20 };
const SUBJECT_OF_5: &str = "t.service.A";
const ORIGIN: u64 = 1;

fn bytes_of(kind: Kind, (origin, run, number): (u64, u64, u64), body: &[u8]) -> Vec<u8> {
    [&Head { kind, origin, run, number, taken: 0 }.bytes()[..], body].concat()
}

fn message((origin, run, number): (u64, u64, u64)) -> Vec<u8> {
    let mut body = Vec::new();
    append_record(&mut body, [number.to_string().as_bytes(), b""]);
    bytes_of(Kind::Messages, (origin, run, number), &body)
}

/// A packet of the sender that most tests are about.
fn own(number: u64) -> Vec<u8> {
    message((ORIGIN, 0, number))
}

/// What JetStream has stored.
#[derive(Default)]
struct Store {
    /// Subject and payload, the first one at place 1.
    messages: Vec<(&'static str, Vec<u8>)>,
    /// How many of them are there no more.
    expired: usize,
    is_batched: bool,
}

impl Store {
    fn store(&mut self, payload: Vec<u8>) {
        self.messages.push((SUBJECT_OF_5, payload));
    }

    /// The places and payloads that a request finds.
    fn find(&self, body: &str) -> Vec<(usize, &[u8])> {
        let number = |name: &str| {
            let (_, rest) = body.split_once(&format!("\"{name}\":"))?;
            rest.split([',', '}']).next()?.parse::<usize>().ok()
        };
        let subject = [SUBJECT_OF_5, "t.service.B"].into_iter().find(|subject| body.contains(subject));
        let from = number("seq").unwrap_or(0);
        let all = self.messages.iter().enumerate().skip(self.expired.max(from.saturating_sub(1)));
        let all = all.map(|(index, message)| (index + 1, message));
        let mut all = all.filter(|(_, (of, _))| Some(*of) == subject);
        if body.contains("last_by_subj") {
            return all.next_back().map(|(place, (_, payload))| (place, &payload[..])).into_iter().collect();
        }
        let most = if self.is_batched { number("batch").unwrap_or(1) } else { 1 };
        all.take(most).map(|(place, (_, payload))| (place, &payload[..])).collect()
    }

    /// The answers to a request.
    fn answer(&self, request: &Request) -> Vec<Vec<u8>> {
        let (token, found) = (request.token, self.find(&request.body));
        if found.is_empty() {
            return vec![answer_to(token, Some(404), &[], b"")];
        }
        let is_batch = self.is_batched && request.body.contains("batch");
        let mut answers: Vec<_> = found
            .iter()
            .map(|(place, payload)| {
                let place = place.to_string();
                let all = [(SEQUENCE, &place[..]), (SUBJECT, SUBJECT_OF_5), (PENDING, "1")];
                answer_to(token, None, &all[..if is_batch { 3 } else { 2 }], payload)
            })
            .collect();
        if is_batch {
            answers.push(answer_to(token, Some(204), &[(PENDING, "1")], b""));
        }
        answers
    }
}

type Headers<'h> = &'h [(&'h str, &'h str)];

fn answer_to(token: u64, status: Option<u16>, headers: Headers<'_>, payload: &[u8]) -> Vec<u8> {
    let header = |name: &str| headers.iter().find(|(own, _)| *own == name).map(|(_, value)| *value);
    answer::write(&format!("t.stored.1.{token:016x}"), status, header, payload)
}

struct World {
    sources: Sources,
    store: Store,
    now: Nanos,
    heard: Vec<String>,
    lost: u64,
    tally: Tally,
    notices: Vec<String>,
    most_under_way: usize,
}

impl World {
    fn new() -> World {
        World::with(BOUNDS)
    }

    fn with(bounds: Bounds) -> World {
        let mut recovery = Recovery::new("S".to_owned(), bounds);
        recovery.name(5, SUBJECT_OF_5.to_owned());
        World {
            sources: Sources::recovering(Some(recovery)),
            store: Store::default(),
            now: Nanos(1),
            heard: Vec::new(),
            lost: 0,
            tally: Tally::default(),
            notices: Vec::new(),
            most_under_way: 0,
        }
    }

    /// A packet is published, and stored.
    fn publish(&mut self, bytes: Vec<u8>, comes: bool) {
        self.store.store(bytes.clone());
        if comes {
            self.get(&bytes);
        }
    }

    fn publish_all(&mut self, numbers: std::ops::RangeInclusive<u64>, comes: impl Fn(u64) -> bool) {
        numbers.for_each(|number| self.publish(own(number), comes(number)));
    }

    fn get(&mut self, bytes: &[u8]) {
        let packet = packet::read(bytes).expect("sound");
        let World { sources, now, heard, .. } = self;
        let outcome = sources.receive(*now, 5, (&packet, bytes), |found| note(heard, found));
        self.lost = self.lost.saturating_add(outcome.lost);
    }

    fn get_answer(&mut self, bytes: &[u8]) {
        let World { sources, now, heard, .. } = self;
        self.lost += sources.on_answer(*now, bytes, |found| note(heard, found));
    }

    fn recovery(&mut self) -> &mut Recovery {
        self.sources.recovery().expect("it is on")
    }

    fn requests(&mut self) -> Vec<Request> {
        let World { sources, now, heard, .. } = self;
        self.lost += sources.poll(*now, |found| note(heard, found));
        let now = self.now;
        let requests = self.recovery().take_requests(now);
        let tally = self.recovery().take_tally();
        self.tally.holes += tally.holes;
        self.tally.recovered += tally.recovered;
        self.tally.requests += tally.requests;
        self.tally.unanswered += tally.unanswered;
        self.tally.refused += tally.refused;
        self.tally.given_up += tally.given_up;
        self.tally.too_large += tally.too_large;
        let notices = self.recovery().take_notices();
        self.notices.extend(notices);
        requests
    }

    /// Answers all requests until there is nothing to do at this time. Returns how many rounds that took.
    fn settle(&mut self) -> usize {
        for round in 0..10_000 {
            let requests = self.requests();
            self.most_under_way = self.most_under_way.max(requests.len());
            if requests.is_empty() {
                return round;
            }
            for request in requests {
                self.store.answer(&request).iter().for_each(|bytes| self.get_answer(bytes));
            }
        }
        panic!("the search has an end");
    }

    /// Time passes until nothing waits.
    fn settle_all(&mut self) {
        for _ in 0..10_000 {
            self.settle();
            match self.sources.due() {
                Nanos::NEVER => return,
                due => self.now = self.now.max(due) + Duration::from_nanos(1),
            }
        }
        panic!("the wait has an end");
    }

    fn heard(&mut self) -> String {
        std::mem::take(&mut self.heard).join(" ")
    }

    /// What was heard, as spans of numbers.
    fn spans(&mut self) -> String {
        let mut spans: Vec<(u64, u64)> = Vec::new();
        for word in self.heard().split(' ') {
            let Ok(number) = word.parse() else { continue };
            match spans.last_mut() {
                Some((_, last)) if *last + 1 == number => *last = number,
                _ => spans.push((number, number)),
            }
        }
        spans.iter().map(|(first, last)| format!("{first}-{last}")).collect::<Vec<_>>().join(" ")
    }

    fn assert_at_rest(&mut self) {
        assert_eq!((self.sources.due(), self.recovery().held_bytes()), (Nanos::NEVER, 0));
    }
}

fn note(heard: &mut Vec<String>, found: Found<'_>) {
    heard.push(match found {
        Found::New(id) => format!("new{}", id.0),
        Found::Ended(id) => format!("ended{}", id.0),
        Found::Message(_, bytes) => String::from_utf8_lossy(bytes).into_owned(),
    });
}

#[test]
fn a_hole_is_filled_and_nothing_is_told() {
    let mut world = World::new();
    world.publish_all(1..=20, |number| !(5..=9).contains(&number));
    assert_eq!(world.spans(), "1-4", "what is behind it waits");
    world.settle();
    assert_eq!((world.spans().as_str(), world.lost), ("5-20", 0));
    let Tally { holes, recovered, given_up, refused, unanswered, .. } = world.tally;
    assert_eq!((holes, recovered, given_up, refused, unanswered), (1, 5, 0, 0, 0));
    world.assert_at_rest();
    world.publish(own(21), true);
    assert_eq!(world.heard(), "21");
    assert_eq!(world.notices, [""; 0]);
}

#[test]
fn the_tail_that_a_keep_alive_reveals_is_fetched_too() {
    let mut world = World::new();
    world.publish_all(1..=7, |number| number <= 4);
    world.publish(bytes_of(Kind::KeepAlive, (ORIGIN, 0, 7), b""), true);
    world.settle();
    assert_eq!((world.spans().as_str(), world.lost), ("1-7", 0));
    world.assert_at_rest();
}

#[test]
fn what_is_not_stored_is_told_at_once_and_the_rest_is_there() {
    let mut world = World::new();
    for number in 1..=20 {
        if ![6, 7, 12].contains(&number) {
            world.store.store(own(number));
        }
        if !(5..=13).contains(&number) {
            world.get(&own(number));
        }
    }
    world.settle();
    assert_eq!((world.spans().as_str(), world.lost), ("1-5 8-11 13-20", 3));
    assert_eq!((world.tally.given_up, world.notices.len()), (1, 0), "the server has done what it can");
    world.assert_at_rest();
}

#[test]
fn what_was_stored_and_is_gone_is_told() {
    let mut world = World::new();
    world.publish_all(1..=40, |number| !(5..=30).contains(&number));
    world.store.expired = 25;
    world.settle();
    assert_eq!((world.spans().as_str(), world.lost), ("1-4 26-40", 21));
    world.assert_at_rest();
}

#[test]
fn a_stream_that_stores_later_is_asked_again() {
    let mut world = World::new();
    world.publish_all(1..=4, |_| true);
    world.get(&own(8));
    world.settle();
    assert_eq!(world.spans(), "1-4");
    world.publish_all(5..=8, |_| false);
    world.now += Duration::from_millis(10);
    world.settle();
    assert_eq!((world.spans().as_str(), world.lost), ("5-8", 0));
}

#[test]
fn packets_that_come_late_by_themselves_fill_the_hole_too() {
    let mut world = World::new();
    world.publish_all(1..=8, |number| ![5, 6].contains(&number));
    world.get(&own(6));
    world.get(&own(6));
    world.get(&own(5));
    assert_eq!((world.spans().as_str(), world.lost), ("1-8", 0));
    world.settle();
    assert_eq!((world.tally.recovered, world.tally.requests), (0, 0));
    world.assert_at_rest();
}

#[test]
fn late_and_double_answers_and_those_to_nothing_change_nothing() {
    let mut world = World::new();
    world.publish_all(1..=8, |number| ![5, 6].contains(&number));
    let mut all = Vec::new();
    loop {
        let requests = world.requests();
        if requests.is_empty() {
            break;
        }
        for bytes in requests.iter().flat_map(|request| world.store.answer(request)).collect::<Vec<_>>() {
            world.get_answer(&bytes);
            world.get_answer(&bytes);
            all.push(bytes);
        }
    }
    assert_eq!((world.spans().as_str(), world.lost), ("1-8", 0));
    all.iter().for_each(|bytes| world.get_answer(bytes));
    world.get_answer(&answer_to(77, None, &[(SEQUENCE, "1"), (SUBJECT, SUBJECT_OF_5)], &own(9)));
    world.get_answer(b"");
    world.get_answer(&answer_to(78, Some(503), &[], b""));
    world.requests();
    assert_eq!((world.heard().as_str(), world.tally.recovered, world.tally.refused), ("", 2, 0));
    world.assert_at_rest();
}

/// Whatever a server says, the hole is told, and the server rests.
#[test]
fn a_server_that_refuses_or_talks_nonsense_is_left_at_once() {
    let right: &[(&str, &str)] = &[(SEQUENCE, "3"), (SUBJECT, SUBJECT_OF_5)];
    let table: [(Option<u16>, Headers<'_>, &str); 7] = [
        (Some(503), &[], "refuses requests with status 503"),
        (Some(408), &[], "status 408"),
        (Some(500), right, "status 500"),
        (None, &[], "not asked"),
        (None, &[(SEQUENCE, "3"), (SUBJECT, "t.service.B")], "not asked"),
        (None, &[(SEQUENCE, "0"), (SUBJECT, SUBJECT_OF_5)], "not asked"),
        (None, &[(SEQUENCE, "18446744073709551615"), (SUBJECT, SUBJECT_OF_5)], "not asked"),
    ];
    for (status, headers, expected) in table {
        let mut world = World::new();
        world.publish_all(1..=8, |number| ![5, 6].contains(&number));
        let [Request { token, .. }] = world.requests()[..] else { panic!("one request") };
        world.get_answer(&answer_to(token, status, headers, &own(5)));
        assert_eq!((world.spans().as_str(), world.lost), ("1-4 7-8", 2), "{expected}");
        assert_eq!(world.requests(), []);
        assert_eq!((world.tally.refused, world.tally.given_up), (1, 1));
        assert!(world.notices.len() == 1 && world.notices[0].contains(expected), "{:?}", world.notices);
        world.assert_at_rest();
        // It rests: the next hole is told at once, and not said again.
        world.get(&own(11));
        assert_eq!((world.spans().as_str(), world.lost, world.requests().len()), ("11-11", 4, 0));
        world.now += super::REST;
        world.get(&own(13));
        assert_eq!((world.requests().len(), world.notices.len()), (1, 1));
    }
}

#[test]
fn a_place_before_the_one_asked_for_is_nonsense() {
    let mut world = World::new();
    world.publish_all(1..=90, |number| !(50..=60).contains(&number));
    for _ in 0..100 {
        for request in world.requests() {
            let is_first = request.body.contains("last_by_subj");
            let answers = if is_first {
                world.store.answer(&request)
            } else {
                vec![answer_to(request.token, None, &[(SEQUENCE, "1"), (SUBJECT, SUBJECT_OF_5)], &own(1))]
            };
            answers.iter().for_each(|bytes| world.get_answer(bytes));
        }
    }
    assert_eq!((world.spans().as_str(), world.lost, world.tally.refused), ("1-49 61-90", 11, 1));
}

#[test]
fn silence_costs_the_wait_once() {
    let mut world = World::new();
    world.publish_all(1..=8, |number| ![5, 6].contains(&number));
    let start = world.now;
    for _ in 0..1_000 {
        world.requests();
        if world.sources.due() == Nanos::NEVER {
            break;
        }
        world.now = world.now.max(world.sources.due());
    }
    assert_eq!((world.spans().as_str(), world.lost), ("1-4 7-8", 2));
    assert_eq!(world.now, start + WAIT);
    assert_eq!((world.tally.requests, world.tally.unanswered), (4, 4), "{:?}", world.tally);
    assert!(
        world.notices[0].contains("has answered nothing about stream S within 300 ms"),
        "{:?}",
        world.notices
    );
    world.get(&own(11));
    assert_eq!((world.spans().as_str(), world.lost), ("11-11", 4), "without a wait");
    world.assert_at_rest();
}

#[test]
fn a_stream_without_the_subject_is_told_of() {
    let mut world = World::new();
    world.publish_all(1..=8, |number| ![5, 6].contains(&number));
    world.store.messages.clear();
    world.settle_all();
    assert_eq!((world.spans().as_str(), world.lost), ("1-4 7-8", 2));
    assert!(world.notices[0].contains("has nothing of t.service.A"), "{:?}", world.notices);
}

#[test]
fn answers_that_get_lost_are_asked_for_again() {
    let mut world = World::new();
    world.publish_all(1..=30, |number| !(5..=25).contains(&number));
    for turn in 0..100 {
        for request in world.requests() {
            if turn % 3 == 1 {
                world.store.answer(&request).iter().for_each(|bytes| world.get_answer(bytes));
            }
        }
        // Of a connection that breaks nothing comes, and that is known at once.
        world.recovery().on_broken();
    }
    assert_eq!((world.spans().as_str(), world.lost), ("1-30", 0));
    world.assert_at_rest();
}

#[test]
fn another_hole_while_one_is_fetched_is_filled_too() {
    let mut world = World::new();
    world.publish_all(1..=8, |number| ![5, 6].contains(&number));
    for request in world.requests() {
        world.store.answer(&request).iter().for_each(|bytes| world.get_answer(bytes));
    }
    world.publish_all(9..=20, |number| ![10, 11, 15].contains(&number));
    world.settle();
    assert_eq!((world.spans().as_str(), world.lost), ("1-20", 0));
    assert_eq!((world.tally.holes, world.tally.recovered), (1, 5));
}

#[test]
fn holes_beyond_the_bounds_are_told_at_once() {
    let mut world = World::new();
    world.get(&own(1));
    world.get(&own(1 + super::MISSING_MAX + 2));
    assert_eq!((world.lost, world.requests().len(), world.tally.too_large), (super::MISSING_MAX + 1, 0, 1));
    world.heard();
    // The same behind a hole that is fetched for.
    let base = 1 + super::MISSING_MAX + 2;
    world.get(&own(base + 2));
    world.get(&own(base + 2 + super::MISSING_MAX));
    world.requests();
    assert_eq!((world.tally.too_large, world.tally.given_up), (2, 2));
    assert_eq!(world.heard(), format!("{} {}", base + 2, base + 2 + super::MISSING_MAX));
    assert_eq!(world.notices, [""; 0], "the server has nothing to do with it");
    world.assert_at_rest();
    // A number that no sender has.
    world.get(&message((9, 0, 1)));
    world.get(&message((9, 0, u64::MAX)));
    world.get(&bytes_of(Kind::KeepAlive, (9, 0, u64::MAX), b""));
    world.assert_at_rest();
}

#[test]
fn what_waits_is_bounded() {
    let mut world = World::with(Bounds { held_bytes: 10_000, ..BOUNDS });
    world.get(&own(1));
    for number in 3..1_000 {
        world.get(&own(number));
        assert!(world.recovery().held_bytes() <= 10_200);
    }
    assert_eq!(world.spans(), "1-1 3-999");
    assert_eq!(world.lost, 1);
    world.requests();
    assert_eq!(world.tally.too_large, 1);
    world.assert_at_rest();
}

#[test]
fn only_the_stream_with_the_hole_waits() {
    let mut world = World::new();
    world.get(&own(1));
    world.get(&message((2, 0, 101)));
    world.get(&own(3));
    world.get(&message((2, 0, 102)));
    assert_eq!(world.heard(), "new0 1 new1 101 102");
    world.store.store(own(2));
    world.settle();
    assert_eq!(world.heard(), "2 3");
}

#[test]
fn a_new_instance_and_the_end_and_silence_of_the_one_before_end_the_wait() {
    let mut world = World::new();
    let hole = |world: &mut World| {
        world.get(&own(1));
        world.get(&own(3));
        assert_eq!(world.requests().len(), 1);
    };
    hole(&mut world);
    world.get(&message((ORIGIN, 1, 1)));
    assert_eq!((world.heard().as_str(), world.lost), ("new0 1 3 ended0 new1 1", 1));
    let mut world = World::new();
    hole(&mut world);
    world.get(&bytes_of(Kind::End, (ORIGIN, 0, 3), b""));
    assert_eq!((world.heard().as_str(), world.lost), ("new0 1 3 ended0", 1));
    let mut world = World::new();
    hole(&mut world);
    world.now += Duration::from_millis(50);
    let World { sources, now, heard, .. } = &mut world;
    assert_eq!(sources.expire(*now, Duration::from_millis(50), |found| note(heard, found)), 1);
    assert_eq!(world.heard(), "new0 1 3 ended0");
    assert_eq!(world.notices, [""; 0]);
    world.assert_at_rest();
    let mut world = World::new();
    hole(&mut world);
    world.sources.forget(5);
    assert_eq!(world.heard(), "new0 1");
    world.assert_at_rest();
}

/// The stream was made anew, so its places begin at 1 again.
#[test]
fn a_stream_that_is_made_anew_is_searched_anew() {
    let mut world = World::new();
    world.publish_all(1..=900, |number| !(200..=250).contains(&number));
    for request in world.requests() {
        world.store.answer(&request).iter().for_each(|bytes| world.get_answer(bytes));
    }
    world.store.messages.clear();
    world.publish_all(240..=260, |_| false);
    world.settle_all();
    assert_eq!((world.spans().as_str(), world.lost), ("1-199 240-900", 40));
    world.assert_at_rest();
}

#[test]
fn a_number_that_is_not_the_sender_s_does_not_silence_it() {
    let mut world = World::new();
    world.publish_all(1..=5, |_| true);
    world.get(&own(1_000));
    // The sender goes on, and is heard.
    world.publish_all(6..=20, |_| true);
    assert_eq!(world.spans(), "1-20");
    world.settle_all();
    world.publish_all(21..=60, |_| true);
    assert_eq!(world.spans(), "1000-1000 36-60");
    world.assert_at_rest();
}

#[test]
fn long_messages_with_a_hole_in_them_are_whole() {
    let mut world = World::new();
    let piece = |number, offset: usize, bytes: &[u8]| {
        bytes_of(Kind::Piece, (ORIGIN, 0, number), &[&piece_head(6, offset)[..], bytes].concat())
    };
    world.publish(piece(1, 0, b"ab"), true);
    world.publish(piece(2, 2, b"cd"), false);
    world.publish(piece(3, 4, b"ef"), true);
    world.settle();
    assert_eq!(world.heard(), "new0 abcdef");
}

/// A hole far back in a stream that others use too is found with few requests, and read with several at a time.
#[test]
fn the_search_is_short() {
    for (others, is_batched) in [(0, false), (0, true), (30, false), (30, true)] {
        let mut world = World::new();
        world.store.is_batched = is_batched;
        for number in 1..=4_000 {
            world.store.store(own(number));
            (0..others).for_each(|_| world.store.messages.push(("t.service.B", own(number))));
        }
        world.get(&own(1_999));
        for number in 3_000..=4_000 {
            world.get(&own(number));
        }
        let rounds = world.settle();
        assert_eq!((world.spans().as_str(), world.lost, world.tally.recovered), ("1999-4000", 0, 1_000));
        // One at a time it would be more than 1,000.
        assert!(rounds < if is_batched { 40 } else { 250 }, "{rounds} with {others} others");
        assert!(world.tally.requests < 1_200, "{:?}", world.tally);
        assert!(world.most_under_way <= BOUNDS.requests);
    }
}

/// Whatever is lost, expires or is published by others: numbers ascend, each comes once, what JetStream has comes, and the
/// rest is counted.
#[test]
fn what_comes_is_in_order_and_nothing_is_missing_that_was_stored() {
    testkit::for_each_seed!(0..1_500, |seed| {
        let mut rng = Rng::new(seed);
        let mut world = World::with(Bounds { requests: 1 + rng.below(16) as usize, ..BOUNDS });
        world.store.is_batched = rng.chance(0.3);
        let (losing, others, storing) = (rng.below(60), rng.below(4), rng.chance(0.7));
        let (mut number, mut lost_in_store, mut in_hole) = (0, 0, 0);
        while number < 400 {
            match rng.below(6) {
                0 if others > 0 => world.publish(message((2, 0, number + 7)), false),
                1 if others > 1 => world.store.messages.push(("t.service.B", own(number))),
                2 => world.publish(bytes_of(Kind::KeepAlive, (ORIGIN, 0, number), b""), rng.chance(0.5)),
                _ => {
                    number += 1;
                    in_hole = if in_hole > 0 {
                        in_hole - 1
                    } else if rng.below(100) < losing / 6 {
                        rng.below(40)
                    } else {
                        0
                    };
                    let comes = in_hole == 0 || number == 1 || number == 400;
                    if comes || storing || rng.chance(0.8) {
                        world.publish(own(number), comes);
                    } else {
                        lost_in_store += 1;
                    }
                }
            }
            if rng.chance(0.2) {
                world.now += Duration::from_millis(rng.below(2));
                for request in world.requests() {
                    world.store.answer(&request).iter().for_each(|bytes| world.get_answer(bytes));
                }
            }
        }
        world.settle_all();
        let heard: Vec<u64> = world.heard().split(' ').filter_map(|word| word.parse().ok()).collect();
        assert!(heard.is_sorted_by(|a, b| a < b), "{heard:?}");
        assert_eq!((heard[0], heard[heard.len() - 1]), (1, 400));
        assert_eq!((heard.len() as u64 + world.lost, world.lost), (400, lost_in_store), "{:?}", world.tally);
        assert!(world.most_under_way <= 16);
        world.assert_at_rest();
    });
}

/// Answers of a server gone mad: nothing panics, the bounds hold, the wait ends.
#[test]
fn any_answers_are_borne() {
    testkit::for_each_seed!(0..1_500, |seed| {
        let mut rng = Rng::new(seed);
        let mut world = World::new();
        world.publish_all(1..=60, |number| number == 1 || number > 40);
        let any = |rng: &mut Rng| match rng.below(4) {
            0 => rng.next_u64() >> rng.below(64),
            1 => u64::MAX - rng.below(3),
            _ => rng.below(80),
        };
        for _ in 0..200 {
            world.now += Duration::from_millis(rng.below(4));
            for Request { token, body } in world.requests() {
                if rng.chance(0.5) {
                    world
                        .store
                        .answer(&Request { token, body })
                        .iter()
                        .for_each(|bytes| world.get_answer(bytes));
                    continue;
                }
                let status = rng.chance(0.1).then(|| [404, 204, 503][rng.below(3) as usize]);
                let place = any(&mut rng).to_string();
                let payload = match rng.below(4) {
                    0 => Vec::new(),
                    1 => bytes_of(Kind::KeepAlive, (ORIGIN, 0, any(&mut rng)), b""),
                    _ => own(any(&mut rng).max(1)),
                };
                let all = [(SEQUENCE, &place[..]), (SUBJECT, SUBJECT_OF_5), (PENDING, "1")];
                let mut bytes = answer_to(token, status, &all[..2 + rng.below(2) as usize], &payload);
                if rng.chance(0.1) {
                    let at = rng.below(bytes.len() as u64) as usize;
                    bytes[at] = rng.next_u64() as u8;
                }
                world.get_answer(&bytes);
            }
            assert!(world.recovery().held_bytes() <= BOUNDS.held_bytes + 4_096);
        }
        world.settle_all();
        world.assert_at_rest();
    });
}

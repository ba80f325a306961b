use super::*;
use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;
use units::{Nanos, Rng};

const MS: u64 = 1_000_000;

/// A session between one source and receivers, over a network that loses, doubles and delays.
struct World {
    now: Nanos,
    rng: Rng,
    loss: f64,
    delay_max: u64,
    watch: Watch<u32>,
    receivers: Vec<Party>,
    /// Queries on their way, by when they arrive, and answers.
    queries: BTreeMap<(u64, u64), (usize, Query)>,
    answers: BTreeMap<(u64, u64), (SocketAddr, Answer)>,
    order: u64,
    asked: Vec<(Nanos, Query)>,
    answered: Vec<Nanos>,
    changes: Vec<(u32, usize)>,
}

struct Party {
    answers: Answers,
    topics: Vec<u32>,
    is_there: bool,
}

fn address(at: usize) -> SocketAddr {
    SocketAddr::new(Ipv4Addr::LOCALHOST.into(), at as u16 + 1)
}

impl World {
    fn new(seed: u64, loss: f64, delay_max: u64) -> World {
        let mut rng = Rng::new(seed);
        World {
            now: Nanos(1_000 * MS),
            watch: Watch::new(rng.next_u32()),
            rng,
            loss,
            delay_max,
            receivers: Vec::new(),
            queries: BTreeMap::new(),
            answers: BTreeMap::new(),
            order: 0,
            asked: Vec::new(),
            answered: Vec::new(),
            changes: Vec::new(),
        }
    }

    fn join(&mut self, topics: &[u32]) -> usize {
        let answers = Answers::new(self.rng.next_u64());
        self.receivers.push(Party { answers, topics: topics.to_vec(), is_there: true });
        self.receivers.len() - 1
    }

    /// When the copies of a packet arrive.
    fn arrivals(&mut self) -> Vec<(u64, u64)> {
        let mut all = Vec::new();
        for chance in [1.0, self.loss / 2.0] {
            if self.rng.chance(chance) && !self.rng.chance(self.loss) {
                self.order += 1;
                all.push((self.now.0 + self.rng.below(self.delay_max.max(1)), self.order));
            }
        }
        all
    }

    fn send_query(&mut self, query: &Query) {
        let mut bytes = Vec::new();
        query.emit(&mut bytes);
        assert_eq!(Query::find(&bytes).as_ref(), Some(query));
        self.asked.push((self.now, query.clone()));
        for to in 0..self.receivers.len() {
            for at in self.arrivals() {
                self.queries.insert(at, (to, query.clone()));
            }
        }
    }

    fn run(&mut self, span: Duration) {
        let end = self.now + span;
        while self.now < end {
            self.step();
            self.now = Nanos(self.now.0 + MS);
        }
    }

    fn step(&mut self) {
        let now = self.now;
        if let Some(query) = self.watch.poll_query(now) {
            self.send_query(&query);
        }
        while let Some(first) = self.queries.first_entry().filter(|e| e.key().0 <= now.0) {
            let (to, query) = first.remove();
            let Party { answers, topics, is_there } = &mut self.receivers[to];
            if *is_there {
                answers.on_query(now, &query, |topic| topics.contains(&topic));
            }
        }
        for at in 0..self.receivers.len() {
            if self.receivers[at].is_there
                && let Some(answer) = self.receivers[at].answers.poll(now)
            {
                let mut bytes = Vec::new();
                answer.emit(&mut bytes);
                assert_eq!(Answer::find(&bytes), Some(answer));
                self.answered.push(now);
                for arrival in self.arrivals() {
                    self.answers.insert(arrival, (address(at), answer));
                }
            }
        }
        while let Some(first) = self.answers.first_entry().filter(|e| e.key().0 <= now.0) {
            let (from, answer) = first.remove();
            self.watch.on_answer(&answer, Some(from));
        }
        while let Some(change) = self.watch.poll_change() {
            self.changes.push(change);
        }
    }
}

#[test]
fn every_receiver_is_counted_once_whatever_the_network_does() {
    testkit::for_each_seed!(0..200, |seed| {
        let mut world = World::new(seed, [0.0, 0.05, 0.1, 0.5][seed as usize % 4], (seed % 5) * 30 * MS);
        let count = 1 + seed as usize % 20;
        for at in 0..count {
            world.join(if at % 4 == 3 { &[8] } else { &[7, 8] });
        }
        let both = (0..count).filter(|at| at % 4 != 3).count();
        for (topic, token) in [(7, 70), (8, 80), (9, 90)] {
            world.watch.watch(world.now, topic, token);
        }
        world.run(Duration::from_secs(20));
        let counts = [7, 8, 9].map(|topic| world.watch.count(topic));
        assert!(counts[0] <= Some(both) && counts[1] <= Some(count), "seed {seed}: {counts:?}");
        let most = |token| world.changes.iter().filter(|c| c.0 == token).map(|c| c.1).max();
        assert!(most(70) <= Some(both) && most(80) <= Some(count) && most(90).is_none(), "seed {seed}");
        if world.loss <= 0.1 {
            assert_eq!((most(70), most(80)), (Some(both), Some(count)), "seed {seed}");
        }
        if world.loss == 0.0 {
            assert_eq!(counts, [Some(both), Some(count), Some(0)], "seed {seed}");
        }
    });
}

#[test]
fn nothing_is_asked_unless_somebody_waits() {
    let mut world = World::new(1, 0.0, 0);
    world.join(&[7]);
    assert_eq!((world.watch.due(), world.watch.count(7)), (Nanos::NEVER, None));
    world.run(Duration::from_secs(2));
    assert_eq!(world.asked.len(), 0);
    world.watch.watch(world.now, 7, 0);
    world.run(Duration::from_secs(10));
    let asked = world.asked.len();
    assert!((20..32).contains(&asked), "{asked} in ten seconds");
    assert_eq!(world.watch.unwatch(world.now, 7), None, "so few need not be told");
    assert_eq!((world.watch.due(), world.watch.count(7)), (Nanos::NEVER, None));
    world.run(Duration::from_secs(2));
    assert_eq!(world.asked.len(), asked);
    assert_eq!(world.watch.on_answer(&Answer { number: 0, receiver: 1, topics: 1 }, None), Taken::Unasked);
}

#[test]
fn a_receiver_is_counted_within_a_tenth_of_a_second_and_one_that_comes_later_within_a_second() {
    testkit::for_each_seed!(0..100, |seed| {
        let mut world = World::new(seed, 0.0, MS);
        world.join(&[7]);
        world.watch.watch(world.now, 7, 0);
        world.run(Duration::from_millis(100));
        assert_eq!(world.watch.count(7), Some(1), "seed {seed}");
        world.run(Duration::from_secs(20));
        world.join(&[7]);
        world.run(Duration::from_millis(520));
        assert_eq!(world.watch.count(7), Some(2), "seed {seed}");
        world.join(&[7]);
        world.watch.hurry(world.now);
        world.run(Duration::from_millis(50));
        assert_eq!(world.watch.count(7), Some(3), "seed {seed}");
    });
}

#[test]
fn a_receiver_that_falls_silent_is_not_counted_any_more() {
    let mut world = World::new(3, 0.0, MS);
    let all = [world.join(&[7]), world.join(&[7]), world.join(&[7])];
    world.watch.watch(world.now, 7, 0);
    world.run(Duration::from_secs(5));
    assert_eq!(world.watch.count(7), Some(3));
    world.watch.on_gone(address(all[0]));
    world.receivers[all[0]].is_there = false;
    assert_eq!(world.watch.count(7), Some(2), "its connection has ended");
    world.receivers[all[1]].is_there = false;
    world.receivers[all[2]].topics.clear();
    world.run(Duration::from_secs(1));
    assert_eq!(world.watch.count(7), Some(2), "so much may be lost");
    world.run(Duration::from_secs(3));
    assert_eq!((world.watch.count(7), world.changes.last()), (Some(0), Some(&(0, 0))));
}

#[test]
fn ten_thousand_receivers_answer_at_a_bounded_rate() {
    let mut world = World::new(4, 0.0, MS);
    for _ in 0..10_000 {
        world.join(&[7]);
    }
    world.watch.watch(world.now, 7, 0);
    let begun = world.now;
    world.run(Duration::from_secs(25));
    assert_eq!(world.watch.count(7), Some(10_000));
    let in_tenth = |tenth: u64| {
        let of = |at: &&Nanos| (at.0 - begun.0) / (100 * MS) == tenth;
        world.answered.iter().filter(of).count()
    };
    let most = (0..250).map(in_tenth).max();
    assert!(most <= Some(900), "{most:?} answers in a tenth of a second");
    assert!(world.asked.len() < 6, "{}", world.asked.len());
    // Whoever has enough takes the rest back.
    let stop = world.watch.unwatch(world.now, 7).expect("many have not answered");
    assert_eq!(stop.topics(), &[] as &[u32]);
    let before = world.answered.len();
    world.send_query(&stop);
    world.run(Duration::from_millis(3));
    let after = world.answered.len() - before;
    world.run(Duration::from_secs(15));
    assert_eq!(world.answered.len(), before + after, "nobody answers any more");
}

#[test]
fn many_topics_take_turns_and_each_is_asked_for() {
    let mut world = World::new(5, 0.0, MS);
    let all: Vec<u32> = (0..1_000).collect();
    world.join(&all);
    for &topic in &all {
        world.watch.watch(world.now, topic, topic);
    }
    world.run(Duration::from_secs(3));
    assert!(all.iter().all(|&topic| world.watch.count(topic) == Some(1)));
    let packets = world.asked.windows(2).map(|two| two[1].0.since(two[0].0)).min();
    assert!(packets >= Some(Duration::from_millis(10)), "{packets:?}");
    // Topics that go leave the others where they are.
    for &topic in all.iter().filter(|topic| **topic % 3 != 0) {
        assert_eq!(world.watch.unwatch(world.now, topic), None);
    }
    world.run(Duration::from_secs(8));
    assert!(all.iter().all(|&topic| world.watch.count(topic) == (topic % 3 == 0).then_some(1)));
}

#[test]
fn forged_answers_are_refused_and_memory_is_bounded() {
    let mut watch = Watch::bounded(40, 10);
    watch.watch(Nanos(0), 7, ());
    let query = watch.poll_query(Nanos(0)).expect("somebody waits");
    assert_eq!((query.number, query.topics()), (41, &[7][..]));
    let answer = |number, receiver, topics| Answer { number, receiver, topics };
    assert_eq!(watch.on_answer(&answer(40, 1, 1), None), Taken::Unasked, "of a query before");
    assert_eq!(watch.on_answer(&answer(42, 1, 1), None), Taken::Unasked, "of a query to come");
    assert_eq!(watch.on_answer(&answer(41, 1, 2), None), Taken::Unasked, "of a topic that was not named");
    for receiver in 1..=10 {
        assert_eq!(watch.on_answer(&answer(41, receiver, 1), None), Taken::Counted);
    }
    assert_eq!(watch.on_answer(&answer(41, 11, u32::MAX), None), Taken::Refused);
    assert_eq!(watch.on_answer(&answer(41, 10, u32::MAX), None), Taken::Counted, "it is known");
    assert_eq!(watch.count(7), Some(10));
}

#[test]
fn a_receiver_answers_a_query_once_and_not_too_often() {
    let mut answers = Answers::new(6);
    let query = |number| Query::new(number, 0, 0, &[7, 8, 9]);
    answers.on_query(Nanos(0), &query(1), |topic| topic != 8);
    let answer = answers.poll(Nanos(0)).expect("it is due");
    assert_eq!((answer.number, answer.topics), (1, 0b101));
    answers.on_query(Nanos(0), &query(1), |_| true);
    assert_eq!(answers.poll(Nanos(u64::MAX / 2)), None, "it came twice");
    for number in 2..1_000 {
        answers.on_query(Nanos(0), &query(number), |_| true);
    }
    assert_eq!(answers.due(), Nanos(5 * MS), "however often it is asked");
    answers.on_query(Nanos(0), &query(1_000), |_| false);
    assert_eq!(answers.due(), Nanos::NEVER);
    assert_eq!(answers.answer_now(Nanos(0), &query(1_001), |_| true), None, "too early");
    assert!(answers.answer_now(Nanos(5 * MS), &query(1_002), |_| true).is_some());
}

#[test]
fn other_versions_lengths_and_empty_answers_are_not_read() {
    let mut bytes = Vec::new();
    Query::new(1, 2, 3, &[4, 5]).emit(&mut bytes);
    let data = &bytes[12..];
    assert_eq!(Query::parse(data), Some(Query::new(1, 2, 3, &[4, 5])));
    assert_eq!(Query::parse(&data[..15]), None);
    assert_eq!(Query::parse(&[&[2], &data[1..]].concat()), None);
    assert_eq!(Query::parse(&[&[1, 32], &data[2..]].concat()), None);
    assert_eq!(Query::parse(&[&data[..8], &[0; 4 * 33]].concat()), None);
    bytes.clear();
    Answer { number: 1, receiver: 2, topics: 3 }.emit(&mut bytes);
    let data = &bytes[12..];
    assert_eq!(Answer::parse(data), Some(Answer { number: 1, receiver: 2, topics: 3 }));
    assert_eq!(Answer::parse(&data[..19]), None);
    assert_eq!(Answer::parse(&[&[2], &data[1..]].concat()), None);
    assert_eq!(Answer::parse(&[&data[..8], &[0; 8], &data[16..]].concat()), None, "no receiver");
    assert_eq!(Answer::parse(&[&data[..16], &[0; 4]].concat()), None, "no topic");
}

//! Hot failover: several processes publish the same numbered messages, and receivers hear the first copy of each.
//!
//! Each number is delivered once, in order, or reported lost. A number is not lost that a source has sent which the
//! receiver heard, if nothing was done to either.

use std::collections::HashMap;
use std::time::Duration;

use testkit::repeat::{self, Repeat};
use tickcast_messaging::{
    FailoverLoss, Message, Receiver, ReceiverOptions, SendFlags, Source, SourceOptions, StreamId, Transport,
    TransportSession,
};
use units::{Nanos, Rng};

use crate::oracle::{Ears, Ledger, Life, Run, payload};
use crate::world::World;
use crate::{alone, small};

/// What several sources publish: the length of each message, by its number.
#[derive(Default)]
pub(crate) struct Feed {
    name: String,
    lengths: Vec<usize>,
    /// Who has sent a number, and when.
    copies: Vec<Vec<(usize, Nanos)>>,
}

/// One of the sources of a feed.
pub(crate) struct Copy {
    source: Source,
    run: usize,
    feed: usize,
    /// The number that it sends next.
    next: usize,
}

impl Copy {
    pub(crate) fn run(&self) -> usize {
        self.run
    }
}

/// What a receiver has heard of a feed.
pub(crate) struct Merged {
    pub(crate) feed: usize,
    pub(crate) next: Option<u64>,
    /// Its sources as it hears them, each since when.
    sources: HashMap<StreamId, (TransportSession, Option<Nanos>)>,
}

/// What has happened.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct HotCounts {
    pub(crate) delivered: u64,
    pub(crate) lost: u64,
    pub(crate) sources_lost: u64,
}

impl World {
    pub(crate) fn create_feed(&mut self, name: &str) -> usize {
        let mut ledger = self.ledger.borrow_mut();
        ledger.feeds.push(Feed { name: name.to_owned(), ..Feed::default() });
        ledger.feeds.len() - 1
    }

    fn publish_feed(&mut self, at: usize, feed: usize, transport: Transport, late_join: bool) {
        let (name, next) = {
            let ledger = self.ledger.borrow();
            (ledger.feeds[feed].name.clone(), ledger.feeds[feed].lengths.len())
        };
        let options = SourceOptions {
            transport: Some(transport),
            late_join: Some(late_join),
            ..SourceOptions::default()
        };
        let run = self.ledger.borrow().runs.len();
        let node = self.node(at);
        let source =
            node.within(|context, _| context.create_source(&name, &options)).expect("a port is free");
        let session = node.context.source_transport(source);
        node.copies.push(Copy { source, run, feed, next });
        self.say(format!("node {at} publishes {name} from {next} on as run {run} at {session:?}"));
        self.ledger.borrow_mut().runs.push(Run {
            topic: name,
            node: at,
            session,
            sent: Vec::new(),
            life: Life::Sends,
        });
    }

    fn receive_feed(&mut self, at: usize, feed: usize) -> Receiver {
        let name = self.ledger.borrow().feeds[feed].name.clone();
        let options = ReceiverOptions { hot_failover: true, ..ReceiverOptions::default() };
        let node = self.node(at);
        let receiver =
            node.within(|context, _| context.create_receiver(&name, &options)).expect("a legal name");
        node.ears.merged.insert(receiver, Merged { feed, next: None, sources: HashMap::new() });
        self.say(format!("node {at} receives {name} as {receiver:?} with hot failover"));
        receiver
    }

    /// So many messages more, which every source sends that can.
    fn emit(&mut self, feed: usize, count: usize) {
        for _ in 0..count {
            let len = if self.rng.chance(0.05) { 3_000 } else { 8 + self.rng.below(200) as usize };
            let mut ledger = self.ledger.borrow_mut();
            ledger.feeds[feed].lengths.push(len);
            ledger.feeds[feed].copies.push(Vec::new());
        }
        self.catch_up();
    }

    /// Sources send what they have not sent yet; one that was stopped does so late.
    fn catch_up(&mut self) {
        let now = self.clock.now();
        for node in self.nodes.iter_mut().flatten().filter(|node| node.paused_until <= now) {
            for i in 0..node.copies.len() {
                let Copy { source, run, feed, next } = node.copies[i];
                let lengths =
                    node.ears.ledger.borrow().feeds[feed].lengths.get(next..).unwrap_or(&[]).to_vec();
                for (number, len) in (next..).zip(lengths) {
                    let bytes = payload(feed, number, len);
                    let flags = SendFlags::default();
                    let sent = node.within(|context, _| {
                        context.send_hot_failover(source, number as u64, flags, &[&bytes])
                    });
                    if sent.is_err() {
                        break;
                    }
                    node.copies[i].next = number + 1;
                    node.ears.ledger.borrow_mut().feeds[feed].copies[number].push((run, now));
                }
            }
        }
    }

    /// Receivers that do not know all of what they are to hear.
    fn behind_feeds(&self) -> Vec<String> {
        let ledger = self.ledger.borrow();
        let merged = self.nodes.iter().flatten().flat_map(|node| {
            node.ears.merged.iter().map(|(receiver, merged)| (node.ears.node, *receiver, merged))
        });
        let lacks = merged.filter(|(_, _, m)| m.next != Some(ledger.feeds[m.feed].lengths.len() as u64));
        lacks.map(|(node, receiver, m)| format!("node {node} {receiver:?} is at {:?}", m.next)).collect()
    }
}

impl Ears {
    /// A hot failover receiver's source was found.
    pub(crate) fn found_copy(&mut self, receiver: Receiver, stream: StreamId, session: TransportSession) {
        if let Some(merged) = self.merged.get_mut(&receiver) {
            merged.sources.insert(stream, (session, None));
        }
    }

    pub(crate) fn copy_begins(&mut self, receiver: Receiver, stream: StreamId) {
        let now = self.ledger.borrow().now;
        if let Some((_, since)) = self.merged.get_mut(&receiver).and_then(|m| m.sources.get_mut(&stream)) {
            *since = Some(now);
        }
    }

    pub(crate) fn copy_ends(&mut self, receiver: Receiver, stream: StreamId) {
        self.ledger.borrow_mut().hot.sources_lost += 1;
        if let Some(merged) = self.merged.get_mut(&receiver) {
            merged.sources.remove(&stream);
        }
    }

    pub(crate) fn hear_copy(&mut self, message: &Message<'_>) {
        let Some(merged) = self.merged.get_mut(&message.receiver) else { return };
        let mut ledger = self.ledger.borrow_mut();
        ledger.hot.delivered += 1;
        let (feed, number) = (merged.feed, message.failover_number());
        let next = merged.next;
        let expected = |number: u64| {
            let len = ledger.feeds[feed].lengths.get(number as usize)?;
            Some(payload(feed, number as usize, *len))
        };
        let wrong = match number {
            None => Some("a message without a number".to_owned()),
            Some(number) if next.is_some_and(|next| next != number) => {
                Some(format!("number {number} where {next:?} comes next"))
            }
            Some(number) if expected(number).as_deref() != Some(message.payload) => {
                Some(format!("number {number} is not what was sent"))
            }
            Some(_) => None,
        };
        merged.next = number.map(|number| number + 1);
        if let Some(wrong) = wrong {
            ledger.accuse(format!("node {} {:?}: {wrong}", self.node, message.receiver));
        }
    }

    pub(crate) fn lose_copies(&mut self, receiver: Receiver, loss: FailoverLoss) {
        let Some(merged) = self.merged.get_mut(&receiver) else { return };
        let mut ledger = self.ledger.borrow_mut();
        ledger.hot.lost += loss.count;
        ledger.say(format!("node {} {receiver:?} has lost {} from {}", self.node, loss.count, loss.first));
        let next = merged.next.replace(loss.first + loss.count);
        if next != Some(loss.first) {
            let what = format!("a loss from {} where {next:?} comes next", loss.first);
            ledger.accuse(format!("node {} {receiver:?}: {what}", self.node));
        }
        for number in loss.first..loss.first + loss.count {
            let Some(run) = merged.witness(self.node, &ledger, number) else { continue };
            let what = format!("number {number} is lost, which run {run} has sent that was heard");
            ledger.accuse(format!("node {} {receiver:?}: {what}", self.node));
        }
    }
}

impl Merged {
    /// A source that has sent a number, was heard before and still is, and to which nothing was done, as to the receiver
    /// at `node`.
    fn witness(&self, node: usize, ledger: &Ledger, number: u64) -> Option<usize> {
        let hears = |run: &Run, sent: Nanos| {
            self.sources.values().any(|(session, since)| {
                run.session == Some(*session)
                    && since.is_some_and(|since| since < sent)
                    && ledger.is_calm(run.node, node, *session)
            })
        };
        let copies = ledger.feeds[self.feed].copies.get(number as usize).filter(|_| ledger.is_lossless)?;
        copies.iter().find(|(run, sent)| hears(&ledger.runs[*run], *sent)).map(|(run, _)| *run)
    }
}

const TRANSPORTS: [Transport; 4] = [Transport::LbtRm, Transport::LbtRu, Transport::Tcp, Transport::LbtIpc];
const STEP: Duration = Duration::from_millis(5);

/// Two or three processes that publish, and one or two that receive.
struct Group {
    sources: usize,
    nodes: usize,
    feeds: usize,
    transport: Option<Transport>,
    late_join: bool,
}

impl Group {
    fn random(rng: &mut Rng) -> Group {
        let sources = 2 + rng.below(2) as usize;
        let transport = rng.chance(0.7).then(|| TRANSPORTS[rng.below(4) as usize]);
        let nodes = sources + 1 + rng.below(2) as usize;
        Group { sources, nodes, feeds: 1 + rng.below(2) as usize, transport, late_join: rng.chance(0.3) }
    }

    fn furnish(&self, world: &mut World, at: usize) {
        for feed in 0..self.feeds {
            if at < self.sources {
                let transport = self.transport.unwrap_or_else(|| TRANSPORTS[world.rng.below(4) as usize]);
                world.publish_feed(at, feed, transport, self.late_join);
            } else {
                world.receive_feed(at, feed);
            }
        }
    }

    fn step(&self, world: &mut World) {
        let at = world.rng.below(self.nodes as u64) as usize;
        let span = Duration::from_millis(100 + world.rng.below(20_000));
        match world.rng.below(100) {
            _ if world.nodes[at].is_none() => {
                if world.rng.chance(0.5) {
                    world.start(at);
                    self.furnish(world, at);
                }
            }
            0..2 => world.stop(at),
            2..4 => world.kill(at),
            4..6 => {
                world.fork(at);
                self.furnish(world, at);
            }
            6..9 => world.pause(at, span),
            9..12 => world.cut(at, span),
            12..20 => {
                for _ in 0..20 {
                    world.pass(span / 20, STEP);
                    world.catch_up();
                }
            }
            _ => {
                let (feed, count) =
                    (world.rng.below(self.feeds as u64) as usize, world.rng.below(30) as usize);
                world.emit(feed, count);
            }
        }
        let span = Duration::from_micros(world.rng.below(60_000));
        world.pass(span, Duration::from_millis(1));
        world.catch_up();
    }

    /// Until every receiver has all of what is published then.
    fn converge(&self, world: &mut World) {
        world.say("fair weather".to_owned());
        world.fair(true);
        for at in 0..self.nodes {
            if world.nodes[at].is_none() {
                world.start(at);
                self.furnish(world, at);
            }
        }
        let begun = world.clock.now();
        loop {
            (0..self.feeds).for_each(|feed| world.emit(feed, 1));
            world.pass(Duration::from_secs(1), STEP);
            world.catch_up();
            world.pass(Duration::from_secs(1), STEP);
            let behind = world.behind_feeds();
            let is_awake = |until: Nanos| until <= world.clock.now();
            let are_awake = world.nodes.iter().flatten().all(|n| is_awake(n.paused_until.max(n.cut_until)));
            if behind.is_empty() && are_awake {
                break;
            }
            if world.clock.now().since(begun) > Duration::from_secs(180) {
                let mut ledger = world.ledger.borrow_mut();
                behind.into_iter().for_each(|what| ledger.accuse(format!("deaf: {what}")));
                break;
            }
        }
    }

    fn run(&self, seed: u64, weather: (u32, u32, u32)) -> World {
        let mut world = World::new(seed, small((seed % 200) as u8), self.nodes);
        world.weather = weather;
        world.ledger.borrow_mut().is_lossless = weather == (0, 0, 0);
        world.fair(false);
        for feed in 0..self.feeds {
            world.create_feed(&format!("hot.{feed}"));
        }
        (0..self.nodes).for_each(|at| self.furnish(&mut world, at));
        let steps = 100 + world.rng.below(100);
        for _ in 0..steps {
            self.step(&mut world);
            if !world.ledger.borrow().wrong.is_empty() {
                return world;
            }
        }
        self.converge(&mut world);
        world
    }
}

#[test]
fn each_number_of_a_feed_is_delivered_once_in_order_or_lost_whatever_happens_to_its_sources() {
    let _alone = alone();
    let seeds = repeat::chosen(1..21);
    let runs = seeds.end - seeds.start;
    let (mut all, mut failed) = (HotCounts::default(), Vec::new());
    for seed in seeds {
        let repeat = Repeat::new(testkit::here!(), seed);
        let mut rng = Rng::new(seed ^ 0x0707);
        let weather =
            if rng.chance(0.5) { (0, 0, 0) } else { (rng.below(200) as u32, rng.below(50) as u32, 5) };
        let world = Group::random(&mut rng).run(seed, weather);
        let hot = world.ledger.borrow().hot;
        println!("seed {seed}: {hot:?}, {} turns", world.turns);
        all.delivered += hot.delivered;
        all.lost += hot.lost;
        all.sources_lost += hot.sources_lost;
        if let Some(wrong) = world.verdict() {
            eprintln!("{wrong}");
            repeat.print();
            failed.push(seed);
        }
    }
    println!("{all:?}");
    assert!(failed.is_empty(), "seeds {failed:?}");
    assert!(runs < 20 || all.delivered > 1_000 && all.sources_lost > 20, "too little happens: {all:?}");
}

#[test]
fn nothing_is_lost_while_one_of_two_sources_lives() {
    let _repeat = testkit::repeat!();
    let _alone = alone();
    for (test, transport) in (236..).zip(TRANSPORTS) {
        let (transport, late_join) = (Some(transport), false);
        let life = Group { sources: 2, nodes: 3, feeds: 1, transport, late_join };
        let mut world = World::new(8, small(test), 3);
        world.ledger.borrow_mut().is_lossless = true;
        world.create_feed("hot.0");
        (0..3).for_each(|at| life.furnish(&mut world, at));
        world.pass(Duration::from_secs(5), STEP);
        // Each in its turn is killed, paused, forked, stopped, and is back before the other goes.
        for round in 0..8 {
            let at = round % 2;
            match round / 2 {
                0 => world.kill(at),
                1 => world.pause(at, Duration::from_secs(20)),
                2 => {
                    world.fork(at);
                    life.furnish(&mut world, at);
                }
                _ => world.stop(at),
            }
            for _ in 0..300 {
                world.emit(0, 3);
                world.pass(Duration::from_millis(100), STEP);
            }
            if world.nodes[at].is_none() {
                world.start(at);
                life.furnish(&mut world, at);
            }
            for _ in 0..200 {
                world.emit(0, 3);
                world.pass(Duration::from_millis(100), STEP);
            }
        }
        life.converge(&mut world);
        if let Some(wrong) = world.verdict() {
            panic!("{transport:?}:\n{wrong}");
        }
        let hot = world.ledger.borrow().hot;
        assert_eq!(hot.lost, 0, "{transport:?}");
        assert!(hot.delivered >= 12_000 && hot.sources_lost >= 6, "{transport:?}: {hot:?}");
    }
}

#[test]
fn what_a_source_that_is_a_moment_behind_has_yet_to_send_is_waited_for() {
    let _repeat = testkit::repeat!();
    let _alone = alone();
    for (test, transport) in (240..).zip(TRANSPORTS) {
        let (transport, late_join) = (Some(transport), false);
        let group = Group { sources: 2, nodes: 3, feeds: 1, transport, late_join };
        let mut world = World::new(9, small(test), 3);
        world.create_feed("hot.0");
        (0..3).for_each(|at| group.furnish(&mut world, at));
        let speak = |world: &mut World, rounds: usize| {
            for _ in 0..rounds {
                world.emit(0, 1);
                world.pass(Duration::from_millis(10), STEP);
            }
        };
        speak(&mut world, 300);
        // One is started again where the feed is by then, and the other has what was published meanwhile.
        world.pause(1, Duration::from_secs(8));
        world.kill(0);
        speak(&mut world, 10);
        world.start(0);
        group.furnish(&mut world, 0);
        let held = |world: &mut World| world.node(2).context.counters().failover.msgs_held.get();
        let mut rounds = 0;
        while held(&mut world) == 0 {
            assert!(rounds < 700, "{transport:?}: the new source is not heard");
            speak(&mut world, 1);
            rounds += 1;
        }
        // Less than the interval.
        world.node(1).paused_until = world.clock.now() + Duration::from_millis(500);
        speak(&mut world, 300);
        group.converge(&mut world);
        if let Some(wrong) = world.verdict() {
            panic!("{transport:?}:\n{wrong}");
        }
        let hot = world.ledger.borrow().hot;
        assert_eq!(hot.lost, 0, "{transport:?}");
    }
}

//! A random life of a world, all of it from its seed.

use std::time::Duration;

use tickcast_messaging::{MessagingConfig, Order, Transport};
use units::Rng;

use crate::world::World;

/// What may happen.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    pub(crate) nodes: usize,
    pub(crate) topics: usize,
    pub(crate) steps: usize,
    /// All sources use this one, or each any.
    pub(crate) transport: Option<Transport>,
    pub(crate) late_join: bool,
    /// Of 1,000 datagrams: lost, late, twice.
    pub(crate) weather: (u32, u32, u32),
    /// Processes start, stop, fork and are killed.
    pub(crate) processes: bool,
    /// Processes are stopped for a while or cut off.
    pub(crate) pauses: bool,
    /// Stretches of hours.
    pub(crate) idles: bool,
    /// Sources and receivers come and go.
    pub(crate) changes: bool,
    /// Receivers of both orders.
    pub(crate) orders: bool,
    /// Somebody else sends what he likes.
    pub(crate) strangers: bool,
}

const ALL: [Transport; 4] = [Transport::LbtRm, Transport::LbtRu, Transport::Tcp, Transport::LbtIpc];

impl Plan {
    /// A plan of its own for each seed.
    pub(crate) fn random(seed: u64) -> Plan {
        let mut rng = Rng::new(seed ^ 0x5eed);
        let mut flip = |chance| rng.chance(chance);
        let (processes, pauses, idles, changes) = (flip(0.5), flip(0.5), flip(0.1), flip(0.5));
        let (late_join, orders, is_mixed) = (flip(0.3), flip(0.3), flip(0.2));
        let loss = [0, 0, 10, 50, 200][rng.below(5) as usize];
        let weather = if rng.chance(0.5) { (loss, loss / 2, 5) } else { (loss, 0, 0) };
        let transport = (!is_mixed).then(|| ALL[rng.below(4) as usize]);
        let (nodes, topics) = (2 + rng.below(3) as usize, 1 + rng.below(4) as usize);
        let nodes = if idles { 2 } else { nodes };
        let steps = 100 + rng.below(150) as usize;
        let strangers = rng.chance(0.3);
        Plan {
            nodes,
            topics,
            steps,
            transport,
            late_join,
            weather,
            processes,
            pauses,
            idles,
            changes,
            orders,
            strangers,
        }
    }

    fn topic(&self, rng: &mut Rng) -> String {
        format!("px.{}", rng.below(self.topics as u64))
    }

    /// Runs it from its begin until every receiver hears every source; what is wrong, if anything is.
    pub(crate) fn run(&self, seed: u64, config: &MessagingConfig) -> World {
        let mut world = World::new(seed, config.clone(), self.nodes);
        world.say(format!("{self:?}"));
        world.weather = self.weather;
        world.fair(false);
        for number in 0..self.topics {
            let topic = format!("px.{number}");
            let at = world.rng.below(self.nodes as u64) as usize;
            self.publish(&mut world, at, &topic);
            for at in 0..self.nodes {
                if world.rng.chance(0.6) {
                    self.receive(&mut world, at, &topic);
                }
            }
        }
        for _ in 0..self.steps {
            self.step(&mut world);
            if !world.ledger.borrow().wrong.is_empty() {
                return world;
            }
        }
        world.converge(Duration::from_secs(180));
        world
    }

    fn publish(&self, world: &mut World, at: usize, topic: &str) {
        let transport = self.transport.unwrap_or_else(|| ALL[world.rng.below(4) as usize]);
        world.create_source(at, topic, transport, self.late_join);
    }

    fn receive(&self, world: &mut World, at: usize, topic: &str) {
        let order = self.orders.then(|| if world.rng.chance(0.5) { Order::Arrival } else { Order::Topic });
        world.create_receiver(at, topic, order);
    }

    fn step(&self, world: &mut World) {
        let at = world.rng.below(self.nodes as u64) as usize;
        if world.nodes[at].is_none() {
            if world.rng.chance(0.2) {
                self.restart(world, at);
            }
            return world.pass(Duration::from_millis(200), Duration::from_millis(2));
        }
        let seconds =
            |world: &mut World, most: u64| Duration::from_millis(100 + world.rng.below(most * 1_000));
        match world.rng.below(100) {
            0..3 if self.processes => {
                if world.rng.chance(0.3) && !world.node(at).sources.is_empty() {
                    let bytes = world.rng.below(3_000_000) as usize;
                    world.fill(at, 0, bytes);
                }
                world.stop(at);
            }
            3..6 if self.processes => world.kill(at),
            6..8 if self.processes => {
                world.stop(at);
                self.restart(world, at);
            }
            40..42 if self.processes => {
                world.fork(at);
                self.furnish(world, at);
            }
            8..11 if self.pauses => {
                let span = seconds(world, 40);
                world.pause(at, span);
            }
            11..14 if self.pauses => {
                let span = seconds(world, 40);
                world.cut(at, span);
            }
            14..17 if self.changes => {
                let topic = self.topic(&mut world.rng);
                self.publish(world, at, &topic);
            }
            17..21 if self.changes => {
                let topic = self.topic(&mut world.rng);
                self.receive(world, at, &topic);
            }
            21..23 if self.changes => {
                let count = world.node(at).sources.len();
                if count > 0 {
                    let index = world.rng.below(count as u64) as usize;
                    world.delete_source(at, index);
                }
            }
            23..25 if self.changes => {
                let count = world.node(at).receivers.len();
                if count > 0 {
                    let index = world.rng.below(count as u64) as usize;
                    world.delete_receiver(at, index);
                }
            }
            25..27 if self.idles => {
                // Once in a life: it takes its time here too.
                if world.clock.now().0 < 3_600_000_000_000 {
                    let hours = Duration::from_secs(3_600 * 24 + world.rng.below(3_600));
                    world.say(format!("{hours:?} pass"));
                    world.fair(true);
                    world.pass(hours, Duration::from_secs(6));
                    world.fair(false);
                    world.cut(at, Duration::from_secs(25));
                }
            }
            27..32 if self.strangers => world.interfere(),
            27..40 => {
                let span = seconds(world, 12);
                world.pass(span, Duration::from_millis(5));
            }
            _ => self.burst(world, at),
        }
        let span = Duration::from_micros(world.rng.below(30_000));
        world.pass(span, Duration::from_millis(1));
    }

    fn restart(&self, world: &mut World, at: usize) {
        world.start(at);
        self.furnish(world, at);
    }

    fn furnish(&self, world: &mut World, at: usize) {
        for _ in 0..1 + world.rng.below(2) {
            let topic = self.topic(&mut world.rng);
            if world.rng.chance(0.5) {
                self.publish(world, at, &topic);
            } else {
                self.receive(world, at, &topic);
            }
        }
    }

    fn burst(&self, world: &mut World, at: usize) {
        let now = world.clock.now();
        let count = world.node(at).sources.len();
        if count == 0 || world.node(at).paused_until > now {
            return;
        }
        let index = world.rng.below(count as u64) as usize;
        for _ in 0..1 + world.rng.below(30) {
            let len = match world.rng.below(20) {
                0 => 60_000,
                1..4 => 3_000,
                _ => 8 + world.rng.below(200),
            };
            world.send(at, index, len as usize);
        }
    }
}

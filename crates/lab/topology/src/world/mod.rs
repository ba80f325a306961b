//! Everything of a run, and the time that passes in it.

mod backbone;
mod clients;
mod connections;
mod distributors;
mod providers;
mod servers;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use rwf::Dictionary;
use sim::parts::Queue;
use units::{Nanos, Rng};

use self::backbone::Line;
use self::clients::ClientNode;
use self::connections::{Connection, Side};
use self::distributors::DistributorNode;
use self::providers::ProviderNode;
use self::servers::ServerNode;
use crate::carrier::TopicKey;
use crate::oracle::{Oracle, Values, mix};
use crate::plan::{BEGIN, Host, LATE, Plan, Step, TROUBLE};

/// What a run came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Of all that was sent and shown: two runs of a seed have the same.
    pub digest: u64,
    /// Events of the run.
    pub events: u64,
    /// Updates that applications were shown.
    pub updates: u64,
    /// Images that they were shown.
    pub refreshes: u64,
    /// Items that became suspect before their eyes.
    pub suspects: u64,
    /// Datagrams that the networks lost.
    pub datagrams_lost: u64,
    /// Messages that carriers gave up.
    pub messages_lost: u64,
}

impl std::ops::AddAssign for Outcome {
    fn add_assign(&mut self, other: Outcome) {
        self.digest = self.digest.wrapping_add(other.digest);
        self.events += other.events;
        self.updates += other.updates;
        self.refreshes += other.refreshes;
        self.suspects += other.suspects;
        self.datagrams_lost += other.datagrams_lost;
        self.messages_lost += other.messages_lost;
    }
}

enum Event {
    Step(usize),
    /// Bytes or a message reach the end of a connection.
    Chunk(usize, Side, Vec<u8>),
    /// The end of a connection learns that it is over.
    Closed(usize, Side),
    /// A dial of a host is answered, for this attempt.
    Dial(Host, u32),
    /// A datagram of a distributor's run reaches a server, or one of a server a distributor.
    Data {
        distributor: usize,
        server: usize,
        bytes: Vec<u8>,
    },
    Feedback {
        distributor: usize,
        server: usize,
        bytes: Vec<u8>,
    },
    /// A message of a carrier without machine.
    Message {
        distributor: usize,
        instance: u64,
        server: usize,
        topic: TopicKey,
        bytes: Vec<u8>,
    },
    /// A server may find a topic.
    Found {
        distributor: usize,
        instance: u64,
        server: usize,
        topic: TopicKey,
    },
    /// A server learns that an instance is gone, or one of its topics.
    Ended {
        server: usize,
        instance: u64,
        topic: Option<TopicKey>,
    },
    /// A link of a server to an instance is made, or cannot be.
    Link {
        server: usize,
        life: u32,
        instance: u64,
    },
    /// A process that was killed starts.
    Restart(Host),
    /// A client reads as it should again.
    Quick(usize),
    /// An application asks again for an item that was closed.
    Resubscribe(usize, usize),
}

/// A run.
pub struct World {
    plan: Plan,
    now: Nanos,
    rng: Rng,
    queue: Queue<Event>,
    dictionary: Arc<Dictionary>,
    /// Which way nothing passes, until when.
    cuts: BTreeMap<(Host, Host), Nanos>,
    is_healed: bool,
    /// The values that were published, by item.
    truth: Vec<Values>,
    /// The service of each item, and its place there.
    items: Vec<(usize, usize)>,
    providers: Vec<ProviderNode>,
    /// Those of the backbone, then those of points of presence.
    distributors: Vec<DistributorNode>,
    servers: Vec<ServerNode>,
    clients: Vec<ClientNode>,
    oracles: Vec<Oracle>,
    connections: Vec<Connection>,
    lines: BTreeMap<(usize, usize), Line>,
    /// Nodes that something has happened to since their wake-up was asked last.
    touched: BTreeSet<Node>,
    wakes: BTreeMap<Node, Nanos>,
    outcome: Outcome,
}

/// What has a wake-up of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Node {
    Provider(usize),
    Distributor(usize),
    Server(usize),
    Client(usize),
}

/// A thread that has something to do at once does it so much later, so that time passes.
const TURN: Duration = Duration::from_micros(200);
/// After the last change everything has so long to come to rest.
const SETTLE: Duration = Duration::from_secs(16);
/// A run has fewer events than this.
const EVENTS_MAX: u64 = 400_000;

impl World {
    /// A run in which everything is about to start.
    #[must_use]
    pub fn new(plan: Plan) -> World {
        let mut rng = Rng::new(plan.seed);
        let items = plan.services.iter().enumerate();
        let items: Vec<_> =
            items.flat_map(|(at, service)| (0..service.items).map(move |i| (at, i))).collect();
        let dictionary = dictionary();
        let pops = plan.servers.iter().filter(|server| server.upstream.is_some()).count();
        let mut world = World {
            now: BEGIN,
            queue: Queue::new(),
            cuts: BTreeMap::new(),
            is_healed: false,
            truth: vec![Values::default(); items.len()],
            providers: Vec::new(),
            distributors: Vec::with_capacity(plan.distributors.len() + pops),
            servers: Vec::new(),
            clients: Vec::new(),
            oracles: (0..plan.clients.len()).map(|at| Oracle::new(at, items.len())).collect(),
            connections: Vec::new(),
            lines: BTreeMap::new(),
            touched: BTreeSet::new(),
            wakes: BTreeMap::new(),
            outcome: Outcome::default(),
            rng: Rng::new(rng.next_u64()),
            items,
            dictionary,
            plan,
        };
        for at in 0..world.plan.distributors.len() {
            let node = world.new_distributor(at, Host::Distributor(at));
            world.distributors.push(node);
        }
        for at in 0..world.plan.servers.len() {
            let node = world.new_server(at);
            world.servers.push(node);
            world.found_everything(at);
        }
        for at in 0..world.plan.services.len() {
            let node = world.new_provider(at);
            world.providers.push(node);
            world.provider_turn(at);
        }
        for at in 0..world.plan.clients.len() {
            let node = world.new_client(at);
            world.clients.push(node);
            world.oracles[at].is_lenient = world.plan.images_stand_for_updates(at);
            world.queue.put(world.plan.clients[at].joins, Event::Restart(Host::Client(at)));
        }
        for (at, (when, _)) in world.plan.steps.iter().enumerate() {
            world.queue.put(*when, Event::Step(at));
        }
        world
    }

    /// Runs it to its end.
    ///
    /// # Panics
    /// If a promise is broken; the message says which.
    pub fn run(mut self) -> Outcome {
        self.run_until(BEGIN + TROUBLE);
        self.heal();
        self.run_until(BEGIN + TROUBLE + LATE);
        self.run_until(BEGIN + TROUBLE + LATE + SETTLE);
        self.check();
        for oracle in &self.oracles {
            self.outcome.digest = mix(self.outcome.digest, oracle.digest);
            self.outcome.updates += oracle.updates;
            self.outcome.refreshes += oracle.refreshes;
            self.outcome.suspects += oracle.suspects;
        }
        self.outcome
    }

    fn run_until(&mut self, until: Nanos) {
        loop {
            self.ask_wakes();
            let wake = self.wakes.iter().map(|(node, at)| (*at, *node)).min();
            let event = self.queue.next_at();
            let at = wake.map_or(Nanos::NEVER, |(at, _)| at).min(event.unwrap_or(Nanos::NEVER));
            if at > until {
                self.now = until;
                return;
            }
            self.outcome.events += 1;
            assert!(self.outcome.events < EVENTS_MAX, "it does not come to rest: {:?}", self.wakes);
            self.now = self.now.max(at);
            if event == Some(at) {
                let (_, event) = self.queue.take().expect("there is a next one");
                self.happen(event);
            } else if let Some((_, node)) = wake {
                self.wake(node);
            }
        }
    }

    fn ask_wakes(&mut self) {
        while let Some(node) = self.touched.pop_first() {
            let at = match node {
                Node::Provider(at) => self.providers[at].next_wakeup(),
                Node::Distributor(at) => self.distributors[at].next_wakeup(),
                Node::Server(at) => self.servers[at].next_wakeup(),
                Node::Client(at) => self.clients[at].next_wakeup(),
            };
            // Somebody who has something to do at once does it with his next turn.
            let at = if at <= self.now { self.now + TURN } else { at };
            self.wakes.insert(node, at);
        }
    }

    fn wake(&mut self, node: Node) {
        self.touched.insert(node);
        match node {
            Node::Provider(at) => self.provider_turn(at),
            Node::Distributor(at) => self.distributor_turn(at),
            Node::Server(at) => self.server_turn(at),
            Node::Client(at) => self.client_turn(at),
        }
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Step(at) => self.step(at),
            Event::Chunk(connection, side, bytes) => self.arrived(connection, side, bytes),
            Event::Closed(connection, side) => self.closed(connection, side),
            Event::Dial(host, attempt) => self.dialled(host, attempt),
            Event::Data { distributor, server, bytes } => self.data_arrived(distributor, server, &bytes),
            Event::Feedback { distributor, server, bytes } => {
                self.distributors[distributor].sender.on_datagram(self.now, server, &bytes);
                self.send_streams(distributor);
            }
            Event::Message { distributor, instance, server, topic, bytes } => {
                self.message_arrived(distributor, instance, server, topic, &bytes);
            }
            Event::Found { distributor, instance, server, topic } => {
                self.found(distributor, instance, server, topic);
            }
            Event::Ended { server, instance, topic } => self.source_ended(server, instance, topic),
            Event::Link { server, life, instance } => self.link_made(server, life, instance),
            Event::Restart(host) => self.restart(host),
            Event::Quick(client) => self.set_slow(client, false),
            Event::Resubscribe(client, item) => self.resubscribe(client, item),
        }
    }

    fn later(&mut self, within: Duration, event: Event) {
        let at = self.now + self.span(within);
        self.queue.put(at, event);
    }

    fn span(&mut self, within: Duration) -> Duration {
        Duration::from_nanos(1 + self.rng.below(within.as_nanos() as u64))
    }

    fn step(&mut self, at: usize) {
        match self.plan.steps[at].1.clone() {
            Step::Update(item, touches_other) => self.publish(item, touches_other),
            Step::Refresh(item) => self.republish(item),
            Step::Crash(host, down) => self.crash(host, down),
            Step::Break(a, b) => self.break_between(a, b),
            Step::Cut(from, to, span) => {
                self.cuts.insert((from, to), self.now + span);
            }
            Step::Slow(client, span) => {
                self.set_slow(client, true);
                self.queue.put(self.now + span, Event::Quick(client));
            }
            Step::Reopen(client, item) => self.reopen(client, item),
        }
    }

    /// Networks only delay from now on.
    fn heal(&mut self) {
        self.is_healed = true;
        self.cuts.clear();
    }

    /// When something can pass from a host to another.
    fn passes_at(&self, from: Host, to: Host) -> Nanos {
        self.cuts.get(&(from, to)).copied().unwrap_or(Nanos::ZERO).max(self.now)
    }

    fn crash(&mut self, host: Host, down: Duration) {
        self.end_connections_of(host);
        match host {
            Host::Provider(at) => self.providers[at].is_up = false,
            Host::Distributor(at) => self.distributor_dies(at),
            Host::Server(at) => self.server_dies(at),
            Host::Client(at) => self.clients[at].is_up = false,
        }
        self.queue.put(self.now + down, Event::Restart(host));
    }

    fn restart(&mut self, host: Host) {
        match host {
            Host::Provider(at) if !self.providers[at].is_up => {
                let attempt = self.providers[at].dialler.attempt;
                self.providers[at] = self.new_provider(at);
                self.providers[at].dialler.attempt = attempt;
                self.provider_turn(at);
            }
            Host::Distributor(at) if !self.distributors[at].is_up => self.distributor_starts(at, host),
            Host::Server(at) if !self.servers[at].is_up => self.server_starts(at),
            Host::Client(at) if !self.clients[at].is_up => {
                self.oracles[at].forget();
                let attempt = self.clients[at].dialler.attempt;
                self.clients[at] = self.new_client(at);
                self.clients[at].dialler.attempt = attempt;
                self.clients[at].is_up = true;
                self.client_turn(at);
            }
            _ => {}
        }
    }

    /// All that must hold when everything has come to rest.
    fn check(&self) {
        let lost = self.outcome.messages_lost;
        assert!(lost == 0 || !self.plan.is_repairable(), "unrepaired: {lost} messages, though NAKs had time");
        for (at, node) in self.distributors.iter().enumerate() {
            let faults = node.core.audit();
            assert!(faults.is_empty(), "ledger: distributor {at}: {faults:?}");
            assert!(node.core.item_count() <= self.items.len(), "memory: distributor {at} has more items");
        }
        for (at, node) in self.servers.iter().enumerate() {
            let faults = node.core.audit();
            assert!(faults.is_empty(), "ledger: server {at}: {faults:?}");
            let (_, _, waiting) = node.core.clients_ledger();
            assert_eq!(waiting, 0, "ledger: updates wait for clients of server {at}");
            for instance in node.sources.keys() {
                let is_run = |node: &DistributorNode| node.is_up && node.core.instance() == *instance;
                let is_there = self.distributors.iter().any(is_run);
                assert!(is_there, "memory: server {at} hears the run {instance:x}, which is over");
            }
            self.check_positions(at);
        }
        for (client, oracle) in self.oracles.iter().enumerate() {
            for (item, seen) in oracle.items.iter().enumerate() {
                if self.clients[client].wants(item) {
                    let truth = self.truth[item];
                    assert!(
                        seen.values == Some(truth) && seen.is_ok,
                        "stale: client {client}, item {item}: {seen:?} instead of {truth:?}\n{}",
                        self.situation(client)
                    );
                }
            }
        }
    }

    /// How things stand around a client, for who has to find out why a run has failed.
    fn situation(&self, client: usize) -> String {
        let mut text = format!("client {client}: {}\n", self.clients[client].describe());
        for (at, node) in self.servers.iter().enumerate() {
            text += &format!("server {at}: {}\n", node.describe());
        }
        for (at, node) in self.distributors.iter().enumerate() {
            text += &format!("distributor {at}: {}\n", node.describe());
        }
        text
    }
}

/// The two fields, made once for all runs.
fn dictionary() -> Arc<Dictionary> {
    static DICTIONARY: std::sync::LazyLock<Arc<Dictionary>> = std::sync::LazyLock::new(|| {
        let mut dictionary = Dictionary::new();
        let fields = b"BID \"BID\" 22 NULL PRICE 17 REAL64 9\nASK \"ASK\" 25 NULL PRICE 17 REAL64 9\n";
        dictionary.load_fields(fields).expect("two fields");
        Arc::new(dictionary)
    });
    Arc::clone(&DICTIONARY)
}

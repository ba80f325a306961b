//! One provider that is connected to two source distributors, and a server that takes its service from both.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use counters::table::{Distributor as DistributorCounters, PointToPoint as ServerCounters};
use market::distributor::{Distributor, PeerId, ProviderId};
use market::p2ps::{ClientId, SourceId, Topic};
use rwf::{Domain, Msg};
use units::{Nanos, Rng};

use crate::channel::Pipe;
use crate::consumer::{Consumer, Habit};
use crate::out::{DistributorOut, FromDistributor, FromServer, ServerOut};
use crate::provider::{COUNT, Provider, SERVICE};
use crate::queue::Queue;
use crate::server::Server;
use crate::world::new_distributor;

/// What goes wrong at a source distributor while a world runs: for each message, or for each second.
#[derive(Clone, Copy, Debug)]
pub struct PairFaults {
    /// A stream message is lost, though the carrier has tried to repair it.
    pub loss: f64,
    /// It is killed and started again.
    pub dies: f64,
    /// It does nothing for up to three seconds.
    pub stops: f64,
    /// The provider's connection breaks.
    pub provider_breaks: f64,
    /// The link between server and distributor breaks.
    pub link_breaks: f64,
    /// What it publishes is cut for up to five seconds.
    pub partition: f64,
}

impl PairFaults {
    /// Nothing goes wrong.
    pub const NONE: PairFaults = PairFaults {
        loss: 0.0,
        dies: 0.0,
        stops: 0.0,
        provider_breaks: 0.0,
        link_breaks: 0.0,
        partition: 0.0,
    };

    /// Everything does.
    pub const ALL: PairFaults = PairFaults {
        loss: 0.01,
        dies: 0.1,
        stops: 0.1,
        provider_breaks: 0.1,
        link_breaks: 0.1,
        partition: 0.1,
    };
}

enum Event {
    Change,
    Misfortune,
    Timer,
    ProviderConnects { side: usize, epoch: u32 },
    ToDistributor { side: usize, epoch: u32, bytes: Vec<u8> },
    Stream { side: usize, instance: u64, topic: Option<u16>, bytes: Vec<u8> },
    Found { side: usize, instance: u64, topic: Option<u16> },
    Ended { instance: u64 },
    LinkUp { side: usize, epoch: u32, instance: u64 },
    LinkToDistributor { side: usize, epoch: u32, bytes: Vec<u8> },
    LinkToServer { side: usize, epoch: u32, instance: u64, bytes: Vec<u8> },
    LinkBroken { instance: u64 },
    ConsumerConnects { consumer: usize },
    ToServer { consumer: usize, bytes: Vec<u8> },
    ToConsumer { consumer: usize, bytes: Vec<u8> },
}

/// A source distributor, with what leads to it and from it.
pub struct Side {
    core: Distributor,
    topics: BTreeSet<Option<u16>>,
    provider_epoch: u32,
    provider_is_up: bool,
    provider_pipe: Pipe,
    link_epoch: u32,
    linked: bool,
    up_pipe: Pipe,
    down_pipe: Pipe,
    stream_pipes: BTreeMap<Option<u16>, Pipe>,
    cut_until: Nanos,
    stopped_until: Nanos,
    faults: PairFaults,
    /// The longest delay of what it publishes.
    delay: Duration,
}

/// The world.
pub struct Pair {
    now: Nanos,
    rng: Rng,
    queue: Queue<Event>,
    seed: u64,
    provider: Provider,
    changes: bool,
    sides: [Side; 2],
    counters: Arc<DistributorCounters>,
    server: Server,
    /// It follows both at a time.
    is_hot: bool,
    server_counters: Arc<ServerCounters>,
    relay_counters: Arc<ServerCounters>,
    sources: BTreeMap<(u64, Option<u16>), SourceId>,
    next_source: u32,
    subscribed: bool,
    consumers: Vec<(Consumer, Pipe, Pipe)>,
    due: BTreeSet<ClientId>,
    /// Statuses and images that consumers had since [`Pair::forget`].
    pub disturbances: u32,
    /// Updates that they had since.
    pub updates: u32,
    /// How many of each fault have happened.
    pub happened: BTreeMap<&'static str, u32>,
}

const PROVIDER: ProviderId = ProviderId(1);
const PEER: PeerId = PeerId(1);
const CONNECTION_DELAY: Duration = Duration::from_millis(5);

impl Pair {
    /// Everything is about to start. With shards, a relay compares the two.
    #[must_use]
    pub fn hot(seed: u64, item_count: usize, consumer_count: usize, shards: usize) -> Pair {
        Pair::build(seed, (item_count, consumer_count), (true, shards))
    }

    /// The same with a service that is taken from one at a time: the other one stands by.
    #[must_use]
    pub fn warm(seed: u64, item_count: usize, consumer_count: usize, shards: usize) -> Pair {
        Pair::build(seed, (item_count, consumer_count), (false, shards))
    }

    fn build(
        seed: u64,
        (item_count, consumer_count): (usize, usize),
        (is_hot, shards): (bool, usize),
    ) -> Pair {
        let mut rng = Rng::new(seed);
        let counters = Arc::new(DistributorCounters::default());
        let (server_counters, relay_counters) = (Arc::default(), Arc::default());
        let provider = Provider::new(item_count);
        let names: Vec<String> = provider.items().keys().cloned().collect();
        let habits = [Habit::Watches, Habit::Views(COUNT)];
        let mut side = || Side {
            core: new_distributor(rng.next_u64(), &counters),
            topics: BTreeSet::from([None]),
            provider_epoch: 0,
            provider_is_up: false,
            provider_pipe: Pipe::default(),
            link_epoch: 0,
            linked: false,
            up_pipe: Pipe::default(),
            down_pipe: Pipe::default(),
            stream_pipes: BTreeMap::new(),
            cut_until: Nanos::ZERO,
            stopped_until: Nanos::ZERO,
            faults: PairFaults::NONE,
            delay: Duration::from_millis(5),
        };
        let sides = [side(), side()];
        let mut world = Pair {
            now: Nanos(1_000_000_000),
            queue: Queue::new(),
            seed,
            changes: true,
            sides,
            server: Server::of_pair((rng.next_u64(), shards), is_hot, &server_counters, &relay_counters),
            is_hot,
            counters,
            server_counters,
            relay_counters,
            sources: BTreeMap::new(),
            next_source: 0,
            subscribed: false,
            consumers: (0..consumer_count)
                .map(|i| {
                    let mut consumer = Consumer::new(names.clone(), habits[i % 2]);
                    consumer.may_go_back = true;
                    (consumer, Pipe::default(), Pipe::default())
                })
                .collect(),
            due: BTreeSet::new(),
            disturbances: 0,
            updates: 0,
            happened: BTreeMap::new(),
            provider,
            rng,
        };
        for (event, ms) in [(Event::Change, 50), (Event::Misfortune, 1_000), (Event::Timer, 1)] {
            world.later(Duration::from_millis(ms), event);
        }
        for side in 0..2 {
            world.later(Duration::from_millis(500), Event::ProviderConnects { side, epoch: 0 });
            let instance = world.sides[side].core.instance();
            world.later(Duration::from_millis(200), Event::Found { side, instance, topic: None });
        }
        for consumer in 0..consumer_count {
            world.later(Duration::from_secs(3), Event::ConsumerConnects { consumer });
        }
        world
    }

    /// From now on this goes wrong at a side, and so long its stream takes at most.
    pub fn set(&mut self, side: usize, faults: PairFaults, delay: Duration) {
        self.sides[side].faults = faults;
        self.sides[side].delay = delay;
    }

    /// What consumers had so far does not count.
    pub fn forget(&mut self) {
        (self.disturbances, self.updates) = (0, 0);
    }

    /// What is counted where the backbone is taken.
    #[must_use]
    pub fn counters(&self) -> &ServerCounters {
        if self.relay_counters.stream_messages_in.get() > 0 {
            &self.relay_counters
        } else {
            &self.server_counters
        }
    }

    /// Runs for a span of virtual time.
    pub fn run(&mut self, span: Duration) {
        let until = self.now + span;
        while let Some((at, event)) = self.queue.take_until(until) {
            self.now = at;
            self.happen(event);
        }
        self.now = until;
    }

    /// Stops all faults, and the changes a while later; then every consumer must come to have the truth.
    ///
    /// # Panics
    /// If one does not: the message has the seed and what is wrong.
    pub fn converges(&mut self) {
        for side in &mut self.sides {
            side.faults = PairFaults::NONE;
            side.cut_until = Nanos::ZERO;
            side.delay = CONNECTION_DELAY;
        }
        self.run(Duration::from_secs(30));
        self.changes = false;
        self.run(Duration::from_secs(10));
        self.audit();
        for (i, (consumer, ..)) in self.consumers.iter().enumerate() {
            let faults = consumer.faults(self.provider.items());
            assert!(
                faults.is_empty(),
                "seed {}: consumer {i} after {:?}: {} faults, first: {}; {:?}",
                self.seed,
                self.happened,
                faults.len(),
                faults[0],
                self.counters()
            );
        }
        let counters = self.counters();
        if !self.is_hot {
            return;
        }
        let followed =
            (counters.hot_items.get(), counters.hot_items_single.get(), counters.hot_items_unnumbered.get());
        let items = self.provider.items().len() as u64;
        assert_eq!(followed, (items, 0, 0), "seed {}: after {:?}", self.seed, self.happened);
    }

    fn audit(&self) {
        let faults = [self.sides[0].core.audit(), self.sides[1].core.audit(), self.server.audit()].concat();
        assert!(faults.is_empty(), "seed {}: after {:?}: {faults:?}", self.seed, self.happened);
    }

    fn later(&mut self, within: Duration, event: Event) {
        let wait = Duration::from_nanos(1 + self.rng.below(within.as_nanos() as u64));
        self.queue.put(self.now + wait, event);
    }

    /// Whether a message to a side has to wait, because that is stopped.
    fn stopped(&self, event: &Event) -> Option<Nanos> {
        let side = match event {
            Event::ToDistributor { side, .. } | Event::LinkToDistributor { side, .. } => *side,
            _ => return None,
        };
        Some(self.sides[side].stopped_until).filter(|until| *until > self.now)
    }

    fn happen(&mut self, event: Event) {
        if let Some(until) = self.stopped(&event) {
            self.queue.put(until, event);
            return;
        }
        match event {
            Event::Change => self.change(),
            Event::Misfortune => self.misfortune(),
            Event::Timer => self.timer(),
            Event::ProviderConnects { side, epoch } if epoch == self.sides[side].provider_epoch => {
                self.sides[side].provider_is_up = true;
                self.with_distributor(side, |core, _, _| core.on_provider_connected(PROVIDER, None));
                self.provider_sends(side, self.provider.greeting_again());
            }
            Event::ToDistributor { side, epoch, bytes } if epoch == self.sides[side].provider_epoch => {
                self.with_distributor(side, |core, now, sink| {
                    core.on_provider_message(now, PROVIDER, &bytes, sink).expect("a legal provider");
                });
            }
            Event::Stream { side, instance, topic, bytes } => {
                let Some(&source) = self.sources.get(&(instance, topic)) else { return };
                let _ = side;
                self.with_server(|core, now, sink| {
                    core.on_stream_message(now, source, &bytes, sink).expect("a legal instance");
                });
            }
            Event::Found { side, instance, topic } => self.found(side, instance, topic),
            Event::Ended { instance } => {
                let gone: Vec<_> = self.sources.keys().filter(|(i, _)| *i == instance).copied().collect();
                for key in gone {
                    let source = self.sources.remove(&key).expect("it was just there");
                    self.with_server(|core, now, sink| core.on_source_ended(now, source, sink));
                }
            }
            Event::LinkUp { side, epoch, instance } if epoch == self.sides[side].link_epoch => {
                self.sides[side].linked = true;
                self.with_distributor(side, |core, _, _| core.on_peer_connected(PEER));
                self.with_server(|core, now, sink| core.on_link_up(now, instance, sink));
            }
            Event::LinkToDistributor { side, epoch, bytes } if epoch == self.sides[side].link_epoch => {
                self.with_distributor(side, |core, now, sink| {
                    core.on_peer_message(now, PEER, &bytes, sink).expect("a legal peer");
                    core.serve_peers(now, sink);
                });
            }
            Event::LinkToServer { side, epoch, instance, bytes } if epoch == self.sides[side].link_epoch => {
                self.with_server(|core, now, sink| {
                    core.on_link_message(now, instance, &bytes, sink).expect("a legal instance");
                });
            }
            Event::LinkBroken { instance } => {
                self.with_server(|core, now, sink| core.on_link_down(now, instance, sink));
            }
            Event::ConsumerConnects { consumer } => {
                let greeting = self.consumers[consumer].0.greeting();
                self.with_server(|core, _, _| core.on_client_connected(ClientId(consumer as u32)));
                self.consumer_sends(consumer, greeting);
            }
            Event::ToServer { consumer, bytes } => {
                let client = ClientId(consumer as u32);
                self.with_server(|core, now, sink| {
                    core.on_client_message(now, client, &bytes, sink).expect("a legal client");
                });
            }
            Event::ToConsumer { consumer, bytes } => {
                let msg = Msg::parse(&bytes).expect("a server sends whole messages");
                match &msg {
                    Msg::Update(_) if msg.domain() == Domain::MARKET_PRICE => self.updates += 1,
                    _ => self.disturbances += 1,
                }
                let answers = self.consumers[consumer].0.on_message(&bytes);
                self.consumer_sends(consumer, answers);
            }
            // Something on its way over a connection that is no more.
            _ => {}
        }
    }

    fn change(&mut self) {
        if !self.changes {
            return;
        }
        let place = self.rng.below(self.provider.items().len() as u64) as usize;
        let touches_other = self.rng.chance(0.3);
        let bytes = self.provider.change(place, touches_other);
        for side in 0..2 {
            if self.sides[side].provider_is_up {
                self.provider_sends(side, vec![bytes.clone()]);
            }
        }
        self.later(Duration::from_millis(4), Event::Change);
    }

    fn provider_sends(&mut self, side: usize, messages: Vec<Vec<u8>>) {
        for bytes in messages {
            let known = &mut self.sides[side];
            let at = known.provider_pipe.arrival(self.now, CONNECTION_DELAY, &mut self.rng);
            self.queue.put(at, Event::ToDistributor { side, epoch: known.provider_epoch, bytes });
        }
    }

    fn timer(&mut self) {
        for side in 0..2 {
            let known = &self.sides[side];
            if self.now >= known.core.next_wakeup() && self.now >= known.stopped_until {
                self.with_distributor(side, |core, now, sink| core.on_wakeup(now, sink));
            }
        }
        if self.now >= self.server.next_wakeup() {
            self.with_server(|server, now, out| server.on_wakeup(now, out));
        }
        let due = self.server.take_due_clients();
        self.due.extend(due);
        for client in std::mem::take(&mut self.due) {
            let mut has_more = false;
            self.with_server(|core, now, sink| has_more = core.send_due_images(now, client, sink));
            if has_more {
                self.due.insert(client);
            }
        }
        self.later(Duration::from_millis(2), Event::Timer);
    }

    fn note(&mut self, what: &'static str) {
        *self.happened.entry(what).or_default() += 1;
    }

    fn misfortune(&mut self) {
        self.audit();
        for side in 0..2 {
            let PairFaults { dies, stops, provider_breaks, link_breaks, partition, .. } =
                self.sides[side].faults;
            if self.rng.chance(provider_breaks) {
                self.note("provider breaks");
                self.provider_breaks(side);
            }
            if self.rng.chance(dies) {
                self.note("distributor dies");
                self.distributor_dies(side);
            }
            // One that is stopped is not stopped once more: what waits for it keeps its order.
            if self.rng.chance(stops) && self.now > self.sides[side].stopped_until {
                self.note("distributor stops");
                self.sides[side].stopped_until = self.now + Duration::from_millis(self.rng.below(3_000));
            }
            if self.rng.chance(link_breaks) && self.sides[side].linked {
                self.note("link breaks");
                self.break_link(side);
            }
            if self.rng.chance(partition) {
                self.note("partition");
                self.sides[side].cut_until = self.now + Duration::from_millis(self.rng.below(5_000));
            }
        }
        self.queue.put(self.now + Duration::from_secs(1), Event::Misfortune);
    }

    fn provider_breaks(&mut self, side: usize) {
        let known = &mut self.sides[side];
        known.provider_epoch += 1;
        let epoch = known.provider_epoch;
        if std::mem::take(&mut known.provider_is_up) {
            self.with_distributor(side, |core, now, sink| core.on_provider_closed(now, PROVIDER, sink));
        }
        self.later(Duration::from_secs(2), Event::ProviderConnects { side, epoch });
    }

    fn distributor_dies(&mut self, side: usize) {
        let instance = self.sides[side].core.instance();
        self.later(Duration::from_millis(300), Event::Ended { instance });
        self.break_link(side);
        let core = new_distributor(self.rng.next_u64(), &self.counters);
        let known = &mut self.sides[side];
        known.core = core;
        known.topics = BTreeSet::from([None]);
        known.stopped_until = Nanos::ZERO;
        known.provider_is_up = false;
        known.provider_epoch += 1;
        let (epoch, instance) = (known.provider_epoch, known.core.instance());
        self.later(Duration::from_secs(2), Event::ProviderConnects { side, epoch });
        self.later(Duration::from_secs(1), Event::Found { side, instance, topic: None });
    }

    fn break_link(&mut self, side: usize) {
        let known = &mut self.sides[side];
        known.link_epoch += 1;
        if std::mem::take(&mut known.linked) {
            let instance = known.core.instance();
            self.with_distributor(side, |core, now, sink| core.on_peer_closed(now, PEER, sink));
            self.later(Duration::from_millis(100), Event::LinkBroken { instance });
        }
    }

    fn found(&mut self, side: usize, instance: u64, topic: Option<u16>) {
        let wanted = topic.is_none() || self.subscribed;
        let known = &self.sides[side];
        let exists = instance == known.core.instance() && known.topics.contains(&topic);
        if !wanted || !exists || self.sources.contains_key(&(instance, topic)) {
            return;
        }
        let source = SourceId(self.next_source);
        self.next_source += 1;
        self.sources.insert((instance, topic), source);
        let name = if topic.is_some() { Topic::Service(SERVICE) } else { Topic::Directory };
        self.with_server(|core, now, sink| core.on_source(now, source, name, instance, sink));
    }

    fn consumer_sends(&mut self, consumer: usize, messages: Vec<Vec<u8>>) {
        for bytes in messages {
            let at = self.consumers[consumer].1.arrival(self.now, CONNECTION_DELAY, &mut self.rng);
            self.queue.put(at, Event::ToServer { consumer, bytes });
        }
    }

    fn with_distributor(
        &mut self,
        side: usize,
        act: impl FnOnce(&mut Distributor, Nanos, &mut DistributorOut),
    ) {
        let mut out = DistributorOut::default();
        act(&mut self.sides[side].core, self.now, &mut out);
        let instance = self.sides[side].core.instance();
        for decision in out.0 {
            match decision {
                FromDistributor::Open(service, _) => {
                    self.sides[side].topics.insert(Some(service));
                    let topic = Some(service);
                    self.later(Duration::from_millis(50), Event::Found { side, instance, topic });
                }
                FromDistributor::Close(service) => {
                    self.sides[side].topics.remove(&Some(service));
                }
                FromDistributor::Stream(topic, bytes) => {
                    let known = &mut self.sides[side];
                    if self.now < known.cut_until || self.rng.chance(known.faults.loss) {
                        continue;
                    }
                    let pipe = known.stream_pipes.entry(topic).or_default();
                    let at = pipe.arrival(self.now, known.delay, &mut self.rng);
                    self.queue.put(at, Event::Stream { side, instance, topic, bytes });
                }
                FromDistributor::Peer(_, bytes) => {
                    let known = &mut self.sides[side];
                    let at = known.down_pipe.arrival(self.now, CONNECTION_DELAY, &mut self.rng);
                    let epoch = known.link_epoch;
                    self.queue.put(at, Event::LinkToServer { side, epoch, instance, bytes });
                }
                FromDistributor::Provider(..) => {}
                FromDistributor::Notice(_, notice) => panic!("nobody is slow, but {notice}"),
            }
        }
    }

    fn with_server(&mut self, act: impl FnOnce(&mut Server, Nanos, &mut ServerOut)) {
        let mut out = ServerOut::default();
        act(&mut self.server, self.now, &mut out);
        for decision in out.decisions {
            match decision {
                FromServer::Client(client, bytes) => {
                    let consumer = client.0 as usize;
                    let at = self.consumers[consumer].2.arrival(self.now, CONNECTION_DELAY, &mut self.rng);
                    self.queue.put(at, Event::ToConsumer { consumer, bytes });
                }
                FromServer::Unsubscribe(_) => self.subscribed = false,
                FromServer::Subscribe(_) => {
                    self.subscribed = true;
                    for side in 0..2 {
                        let instance = self.sides[side].core.instance();
                        for topic in self.sides[side].topics.clone().into_iter().filter(Option::is_some) {
                            self.later(Duration::from_millis(50), Event::Found { side, instance, topic });
                        }
                    }
                }
                FromServer::Connect(instance) => {
                    let side = self.sides.iter().position(|side| side.core.instance() == instance);
                    let Some(side) = side else {
                        // Nobody listens there any more.
                        self.later(Duration::from_millis(100), Event::LinkBroken { instance });
                        continue;
                    };
                    self.sides[side].link_epoch += 1;
                    let epoch = self.sides[side].link_epoch;
                    self.later(Duration::from_millis(20), Event::LinkUp { side, epoch, instance });
                }
                FromServer::Disconnect(instance) => {
                    let side = self.sides.iter().position(|side| side.core.instance() == instance);
                    let Some(side) = side else { continue };
                    self.sides[side].link_epoch += 1;
                    if std::mem::take(&mut self.sides[side].linked) {
                        self.with_distributor(side, |core, now, sink| core.on_peer_closed(now, PEER, sink));
                    }
                }
                FromServer::RoundEnds(_) => {}
                FromServer::Link(instance, bytes) => {
                    let side = self.sides.iter().position(|side| side.core.instance() == instance);
                    let Some(side) = side.filter(|side| self.sides[*side].linked) else { continue };
                    let known = &mut self.sides[side];
                    let at = known.up_pipe.arrival(self.now, CONNECTION_DELAY, &mut self.rng);
                    let epoch = known.link_epoch;
                    self.queue.put(at, Event::LinkToDistributor { side, epoch, bytes });
                }
            }
        }
    }
}

mod supply;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use counters::table::{Distributor as DistributorCounters, PointToPoint as ServerCounters};
use market::ServiceNames;
use market::distributor::{Distributor, DistributorConfig, PeerId, ProviderId};
use market::p2ps::{ClientId, ClientInfo, SourceId, Topic};
use rwf::Dictionary;
use units::{Nanos, Rng};

use self::supply::Dialled;
use crate::channel::Pipe;
use crate::consumer::{Consumer, Habit};
use crate::out::{DistributorOut, FromDistributor, FromServer, STAMP_BYTES, ServerOut};
use crate::provider::{COUNT, OTHER, Provider, SERVICE};
use crate::queue::Queue;
use crate::server::Server;

/// What goes wrong while a world runs. Probabilities are for each message, or for each second.
#[derive(Clone, Copy, Debug)]
pub struct Faults {
    /// A stream message is lost for one server, though the carrier has tried to repair it.
    pub loss: f64,
    /// The longest delay of a message on a stream.
    pub stream_delay: Duration,
    /// The longest delay of a message on a connection.
    pub connection_delay: Duration,
    /// The provider's connection breaks, in a second.
    pub provider_breaks: f64,
    /// A provider that comes back publishes its items so long after its directory.
    pub republished_after: Duration,
    /// The distributor is killed and started again.
    pub distributor_dies: f64,
    /// The server is killed and started again.
    pub server_dies: f64,
    /// The link between server and distributor breaks.
    pub link_breaks: f64,
    /// A consumer's connection breaks.
    pub consumer_breaks: f64,
    /// All multicast is cut for up to five seconds.
    pub partition: f64,
    /// A consumer reads too slowly for up to five seconds, in a second.
    pub consumer_stalls: f64,
}

impl Faults {
    /// Nothing goes wrong; messages take up to 5 ms.
    pub const NONE: Faults = Faults {
        loss: 0.0,
        stream_delay: Duration::from_millis(5),
        connection_delay: Duration::from_millis(5),
        provider_breaks: 0.0,
        republished_after: Duration::ZERO,
        distributor_dies: 0.0,
        server_dies: 0.0,
        link_breaks: 0.0,
        consumer_breaks: 0.0,
        partition: 0.0,
        consumer_stalls: 0.0,
    };
}

/// Something that happens at a time. Connections and processes have an epoch: what was on its way in an
/// earlier one is gone.
enum Event {
    /// The provider changes an item.
    Change,
    /// Chance decides about faults, once a second.
    Misfortune,
    ProviderConnects {
        epoch: u32,
    },
    /// The provider publishes an item.
    Publishes {
        epoch: u32,
        place: usize,
    },
    ToDistributor {
        epoch: u32,
        bytes: Vec<u8>,
    },
    /// A provider is dialled with success.
    Dial {
        provider: usize,
        epoch: u32,
    },
    ToDialled {
        provider: usize,
        epoch: u32,
        bytes: Vec<u8>,
    },
    FromDialled {
        provider: usize,
        epoch: u32,
        bytes: Vec<u8>,
    },
    /// A stream message reaches the server from a run of the distributor.
    Stream {
        instance: u64,
        topic: Option<u16>,
        bytes: Vec<u8>,
    },
    /// The server's carrier finds a topic of a run of the distributor.
    Found {
        server: u32,
        instance: u64,
        topic: Option<u16>,
    },
    /// The server's carrier notices that a run of the distributor is over.
    Ended {
        server: u32,
        instance: u64,
    },
    LinkUp {
        epoch: u32,
        instance: u64,
    },
    LinkToDistributor {
        epoch: u32,
        bytes: Vec<u8>,
    },
    LinkToServer {
        epoch: u32,
        instance: u64,
        bytes: Vec<u8>,
    },
    LinkBroken {
        server: u32,
        instance: u64,
    },
    ConsumerConnects {
        consumer: usize,
        epoch: u32,
    },
    ToServer {
        consumer: usize,
        epoch: u32,
        bytes: Vec<u8>,
    },
    ToConsumer {
        consumer: usize,
        epoch: u32,
        bytes: Vec<u8>,
    },
    Timer,
}

/// A provider, a source distributor, a point-to-point server and consumers in virtual time.
pub struct World {
    now: Nanos,
    rng: Rng,
    queue: Queue<Event>,
    faults: Faults,
    seed: u64,
    provider: Provider,
    provider_epoch: u32,
    provider_is_up: bool,
    provider_pipe: Pipe,
    /// Providers that the distributor dials; if there are some, the other one stays away.
    dialled: Vec<Dialled>,
    distributor: Distributor,
    /// Topics of the present run of the distributor: the directory, and services.
    topics: BTreeSet<Option<u16>>,
    distributor_counters: Arc<DistributorCounters>,
    server: Server,
    /// Threads that serve clients behind a relay; 0 for one that does all.
    shards: usize,
    server_epoch: u32,
    server_counters: Arc<ServerCounters>,
    relay_counters: Arc<ServerCounters>,
    /// Sources as the server's carrier numbers them.
    sources: BTreeMap<(u64, Option<u16>), SourceId>,
    next_source: u32,
    subscribed: bool,
    /// Topics are not ordered against each other.
    stream_pipes: BTreeMap<Option<u16>, Pipe>,
    cut_until: Nanos,
    link_epoch: u32,
    linked: Option<u64>,
    up_pipe: Pipe,
    down_pipe: Pipe,
    consumers: Vec<Connected>,
    /// Clients that are to be sent something when they have room.
    due: BTreeSet<ClientId>,
    /// How many of each fault have happened.
    pub happened: BTreeMap<&'static str, u32>,
}

struct Connected {
    consumer: Consumer,
    epoch: u32,
    is_up: bool,
    /// Its updates are conflated until then.
    slow_until: Nanos,
    /// If it is sent rounds meanwhile, the next one does not begin before that.
    round_at: Nanos,
    to_server: Pipe,
    to_consumer: Pipe,
}

/// The provider's connection at the distributor, and the link's.
const PROVIDER: ProviderId = ProviderId(1);
const PEER: PeerId = PeerId(1);
/// A run of the distributor is noticed to be over after at most this time.
const END_NOTICED: Duration = Duration::from_millis(300);

impl World {
    /// A world in which everything is about to start; a provider publishes the items.
    #[must_use]
    pub fn new(seed: u64, item_count: usize, consumer_count: usize, faults: Faults) -> World {
        World::build(seed, item_count, consumer_count, (0, 0), faults)
    }

    /// The same with a server of so many shards.
    #[must_use]
    pub fn sharded(
        seed: u64,
        item_count: usize,
        consumer_count: usize,
        shards: usize,
        faults: Faults,
    ) -> World {
        World::build(seed, item_count, consumer_count, (0, shards), faults)
    }

    /// A world in which the distributor dials so many providers of one service, and asks them for items.
    #[must_use]
    pub fn dialling(
        seed: u64,
        item_count: usize,
        consumer_count: usize,
        provider_count: usize,
        faults: Faults,
    ) -> World {
        World::build(seed, item_count, consumer_count, (provider_count, 0), faults)
    }

    fn build(
        seed: u64,
        item_count: usize,
        consumer_count: usize,
        (provider_count, shards): (usize, usize),
        faults: Faults,
    ) -> World {
        let mut rng = Rng::new(seed);
        let provider = Provider::new(item_count);
        let names: Vec<String> = provider.items().keys().cloned().collect();
        let habits = [Habit::Watches, Habit::Views(COUNT), Habit::Views(OTHER), Habit::Pauses, Habit::Paces];
        let consumer = |i: usize| Connected {
            consumer: Consumer::new(names.clone(), habits[i % habits.len()]),
            epoch: 0,
            is_up: false,
            slow_until: Nanos::ZERO,
            round_at: Nanos::ZERO,
            to_server: Pipe::default(),
            to_consumer: Pipe::default(),
        };
        let distributor_counters = Arc::new(DistributorCounters::default());
        let server_counters = Arc::new(ServerCounters::default());
        let relay_counters = Arc::new(ServerCounters::default());
        let mut world = World {
            now: Nanos(1_000_000_000),
            queue: Queue::new(),
            faults,
            seed,
            provider,
            provider_epoch: 0,
            provider_is_up: false,
            provider_pipe: Pipe::default(),
            dialled: (0..provider_count).map(|_| Dialled::default()).collect(),
            distributor: new_distributor(rng.next_u64(), &distributor_counters),
            topics: BTreeSet::from([None]),
            distributor_counters,
            server: Server::new(rng.next_u64(), shards, &server_counters, &relay_counters),
            shards,
            server_epoch: 0,
            server_counters,
            relay_counters,
            sources: BTreeMap::new(),
            next_source: 0,
            subscribed: false,
            stream_pipes: BTreeMap::new(),
            cut_until: Nanos::ZERO,
            link_epoch: 0,
            linked: None,
            up_pipe: Pipe::default(),
            down_pipe: Pipe::default(),
            consumers: (0..consumer_count).map(consumer).collect(),
            due: BTreeSet::new(),
            happened: BTreeMap::new(),
            rng,
        };
        for (event, within_ms) in [(Event::Change, 50), (Event::Misfortune, 1000), (Event::Timer, 1)] {
            world.later(Duration::from_millis(within_ms), event);
        }
        let (provider_epoch, instance, server) =
            (world.provider_epoch, world.distributor.instance(), world.server_epoch);
        if provider_count == 0 {
            world.later(Duration::from_millis(500), Event::ProviderConnects { epoch: provider_epoch });
        }
        for provider in 0..provider_count {
            world.later(Duration::from_millis(500), Event::Dial { provider, epoch: 0 });
        }
        world.later(Duration::from_millis(200), Event::Found { server, instance, topic: None });
        for consumer in 0..consumer_count {
            world.later(Duration::from_secs(3), Event::ConsumerConnects { consumer, epoch: 0 });
        }
        world
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

    /// Stops all faults, and the provider's changes a while later; then every consumer must come to have the
    /// truth.
    ///
    /// # Panics
    /// If one does not: the message has the seed and what is wrong.
    pub fn converges(&mut self) {
        self.faults = Faults::NONE;
        self.cut_until = Nanos::ZERO;
        self.run(Duration::from_secs(30));
        self.stop_changes();
        self.run(Duration::from_secs(10));
        self.audit();
        self.check_hops();
        let truth = self.provider.items();
        for (i, connected) in self.consumers.iter().enumerate() {
            let faults = connected.consumer.faults(truth);
            let what = self.happened();
            assert!(
                faults.is_empty(),
                "seed {}: consumer {i} after {what}: {} faults, first: {}\n{}",
                self.seed,
                faults.len(),
                faults[0],
                self.situation()
            );
        }
    }

    /// The ledger adds up at each hop, whatever is on its way.
    fn audit(&self) {
        let faults = [self.distributor.audit(), self.server.audit()].concat();
        assert!(faults.is_empty(), "seed {}: after {}: {faults:?}", self.seed, self.happened());
    }

    /// When nothing is on its way any more the hops agree with each other: what was published was received or is known to
    /// be lost, and clients have had what they were sent.
    fn check_hops(&self) {
        let (seed, what) = (self.seed, self.happened());
        let published: Vec<u64> = self.distributor.ledger().map(|service| service.sequence).collect();
        let position = self.server.position(self.distributor.instance());
        assert_eq!(published, position.into_iter().collect::<Vec<u64>>(), "seed {seed}: after {what}");
        let (delivered, conflated, waiting) = self.server.clients_ledger();
        assert_eq!(waiting, 0, "seed {seed}: after {what}");
        // With a connection what was on its way over it is lost, and with the server what it has counted.
        if ["consumer breaks", "server dies"].iter().all(|what| !self.happened.contains_key(what)) {
            let tallies = self.consumers.iter().map(|connected| connected.consumer.tally());
            let had = tallies.fold((0, 0), |(delivered, conflated), tally| {
                (delivered + tally.delivered, conflated + tally.conflated)
            });
            assert_eq!(had, (delivered, conflated), "seed {seed}: after {what}");
        }
    }

    fn stop_changes(&mut self) {
        self.faults.connection_delay = Duration::from_millis(1);
        for consumer in 0..self.consumers.len() {
            let messages = self.consumers[consumer].consumer.settle();
            self.consumer_sends(consumer, messages);
        }
        self.provider_is_done();
    }

    fn provider_is_done(&mut self) {
        self.happened.insert("changes stopped", 1);
    }

    /// What has gone wrong, in words.
    #[must_use]
    pub fn happened(&self) -> String {
        self.happened.iter().map(|(what, count)| format!("{what} {count}, ")).collect()
    }

    /// How things stand, for who has to find out why a run has failed.
    fn situation(&self) -> String {
        format!(
            "provider up {}, distributor {:x} with {:?}, link to {:x?}, sources {:x?}, server sees {:?}, {:?}",
            self.provider_is_up,
            self.distributor.instance(),
            self.distributor.services().collect::<Vec<_>>(),
            self.linked,
            self.sources,
            self.server.services().collect::<Vec<_>>(),
            self.server_counters,
        )
    }

    /// Counters of the server.
    #[must_use]
    pub fn server_counters(&self) -> &ServerCounters {
        &self.server_counters
    }

    /// Counters of what the relay takes; of nothing without shards.
    #[must_use]
    pub fn relay_counters(&self) -> &ServerCounters {
        &self.relay_counters
    }

    /// Counters of the distributor.
    #[must_use]
    pub fn distributor_counters(&self) -> &DistributorCounters {
        &self.distributor_counters
    }

    fn later(&mut self, within: Duration, event: Event) {
        let wait = Duration::from_nanos(1 + self.rng.below(within.as_nanos() as u64));
        self.queue.put(self.now + wait, event);
    }

    fn note(&mut self, what: &'static str) {
        *self.happened.entry(what).or_default() += 1;
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Change => self.change(),
            Event::Misfortune => self.misfortune(),
            Event::Timer => self.timer(),
            Event::ProviderConnects { epoch } if epoch == self.provider_epoch => self.provider_connects(),
            Event::Publishes { epoch, place } if epoch == self.provider_epoch => {
                self.provider_publishes(place);
            }
            Event::ToDistributor { epoch, bytes } if epoch == self.provider_epoch => {
                self.with_distributor(|core, now, sink| {
                    core.on_provider_message(now, PROVIDER, &bytes, sink).expect("a legal provider");
                });
            }
            Event::Dial { provider, epoch } if epoch == self.dialled[provider].epoch => self.dial(provider),
            Event::ToDialled { provider, epoch, bytes } if epoch == self.dialled[provider].epoch => {
                self.dialled_hears(provider, &bytes);
            }
            Event::FromDialled { provider, epoch, bytes } if epoch == self.dialled[provider].epoch => {
                self.distributor_hears(provider, &bytes);
            }
            Event::Stream { instance, topic, bytes } => self.stream_arrives(instance, topic, &bytes),
            Event::Found { server, instance, topic } if server == self.server_epoch => {
                self.found(instance, topic);
            }
            Event::Ended { server, instance } if server == self.server_epoch => self.ended(instance),
            Event::LinkUp { epoch, instance } if epoch == self.link_epoch => self.link_up(instance),
            Event::LinkToDistributor { epoch, bytes } if epoch == self.link_epoch => {
                self.with_distributor(|core, now, sink| {
                    core.on_peer_message(now, PEER, &bytes, sink).expect("a legal peer");
                    core.serve_peers(now, sink);
                });
            }
            Event::LinkToServer { epoch, instance, bytes } if epoch == self.link_epoch => {
                self.with_server(|core, now, sink| {
                    core.on_link_message(now, instance, &bytes, sink).expect("a legal instance");
                });
            }
            Event::LinkBroken { server, instance } if server == self.server_epoch => {
                self.with_server(|core, now, sink| core.on_link_down(now, instance, sink));
            }
            Event::ConsumerConnects { consumer, epoch } if epoch == self.consumers[consumer].epoch => {
                self.consumer_connects(consumer);
            }
            Event::ToServer { consumer, epoch, bytes } if epoch == self.consumers[consumer].epoch => {
                let client = ClientId(consumer as u32);
                self.with_server(|core, now, sink| {
                    core.on_client_message(now, client, &bytes, sink).expect("a legal client");
                });
            }
            Event::ToConsumer { consumer, epoch, bytes } if epoch == self.consumers[consumer].epoch => {
                let answers = self.consumers[consumer].consumer.on_message(&bytes);
                self.consumer_sends(consumer, answers);
            }
            // Something on its way over a connection, or to a process, that is no more.
            _ => {}
        }
    }

    fn timer(&mut self) {
        if self.now >= self.distributor.next_wakeup() {
            self.with_distributor(|core, now, sink| core.on_wakeup(now, sink));
        }
        if self.now >= self.server.next_wakeup() {
            self.with_server(|server, now, out| server.on_wakeup(now, out));
        }
        let due = self.server.take_due_clients();
        self.due.extend(due);
        let slow = self.slow();
        let at_interval: BTreeSet<ClientId> = self
            .server
            .clients()
            .filter(|info| info.at_interval_since.is_some())
            .map(|info| info.client)
            .collect();
        for client in std::mem::take(&mut self.due) {
            let can_begin = self.now >= self.consumers[client.0 as usize].round_at;
            let is_served = !slow.contains(&client) || at_interval.contains(&client) && can_begin;
            let mut has_more = !is_served;
            if is_served {
                // A round is put in at once or over several turns.
                let is_busy = at_interval.contains(&client) && self.rng.chance(0.5);
                self.with_server(|core, now, sink| {
                    sink.is_busy = is_busy;
                    has_more = core.send_due_images(now, client, sink);
                });
            }
            if has_more {
                self.due.insert(client);
            }
        }
        for info in self.server.clients() {
            assert!(info.changed_streams <= info.streams, "each is noted once: {info:?}");
        }
        self.later(Duration::from_millis(2), Event::Timer);
    }
}

/// Faults.
impl World {
    /// From now on this goes wrong.
    pub fn set_faults(&mut self, faults: Faults) {
        self.faults = faults;
    }

    /// Consumers that read too slowly.
    fn slow(&self) -> BTreeSet<ClientId> {
        let is_slow = |(_, connected): &(usize, &Connected)| self.now < connected.slow_until;
        self.consumers.iter().enumerate().filter(is_slow).map(|(at, _)| ClientId(at as u32)).collect()
    }

    /// A consumer reads too slowly for a while; whoever has caught up is told so.
    fn stall(&mut self, consumer_stalls: f64) {
        let slow = self.slow();
        let steps = |info: ClientInfo<'_>| {
            (info.client, info.conflated_since.is_some(), info.at_interval_since.is_some())
        };
        let all: Vec<(ClientId, bool, bool)> = self.server.clients().map(steps).collect();
        for (client, was_slow, was_at_interval) in all {
            let mut is_slow = slow.contains(&client);
            if !is_slow && self.rng.chance(consumer_stalls) {
                self.note("consumer stalls");
                let span = Duration::from_millis(self.rng.below(5_000));
                self.consumers[client.0 as usize].slow_until = self.now + span;
                is_slow = true;
            }
            // In a third of the worlds the step below is on.
            let is_at_interval =
                is_slow && (was_at_interval || self.seed.is_multiple_of(3) && self.rng.chance(0.5));
            if was_slow != is_slow {
                self.with_server(|core, now, sink| core.set_conflated(now, client, is_slow, sink));
            }
            if was_at_interval != is_at_interval {
                self.with_server(|core, now, sink| core.set_at_interval(now, client, is_at_interval, sink));
            }
        }
    }

    fn misfortune(&mut self) {
        self.audit();
        let Faults {
            provider_breaks,
            distributor_dies,
            server_dies,
            link_breaks,
            consumer_breaks,
            partition,
            consumer_stalls,
            ..
        } = self.faults;
        if consumer_stalls > 0.0 {
            self.stall(consumer_stalls);
        }
        if self.rng.chance(provider_breaks) {
            self.note("provider breaks");
            self.provider_breaks();
        }
        if self.rng.chance(distributor_dies) {
            self.note("distributor dies");
            self.distributor_dies();
        }
        if self.rng.chance(server_dies) {
            self.note("server dies");
            self.server_dies();
        }
        if self.rng.chance(link_breaks) && self.linked.is_some() {
            self.note("link breaks");
            self.break_link();
        }
        if self.rng.chance(consumer_breaks) {
            self.note("consumer breaks");
            let consumer = self.rng.below(self.consumers.len() as u64) as usize;
            self.consumer_breaks(consumer);
        }
        if self.rng.chance(partition) {
            self.note("partition");
            self.cut_until = self.now + Duration::from_millis(self.rng.below(5000));
        }
        self.queue.put(self.now + Duration::from_secs(1), Event::Misfortune);
    }

    fn distributor_dies(&mut self) {
        let (instance, server) = (self.distributor.instance(), self.server_epoch);
        self.later(END_NOTICED, Event::Ended { server, instance });
        self.break_link();
        self.distributor = new_distributor(self.rng.next_u64(), &self.distributor_counters);
        self.topics = BTreeSet::from([None]);
        self.providers_lose_the_distributor();
        let instance = self.distributor.instance();
        self.later(Duration::from_secs(1), Event::Found { server, instance, topic: None });
    }

    fn server_dies(&mut self) {
        self.break_link();
        self.server_epoch += 1;
        let peer = self.rng.next_u64();
        self.server = Server::new(peer, self.shards, &self.server_counters, &self.relay_counters);
        self.due.clear();
        self.sources.clear();
        self.subscribed = false;
        for consumer in 0..self.consumers.len() {
            self.consumers[consumer].is_up = false;
            self.consumer_breaks(consumer);
        }
        let (instance, server) = (self.distributor.instance(), self.server_epoch);
        self.later(Duration::from_secs(1), Event::Found { server, instance, topic: None });
    }

    fn break_link(&mut self) {
        self.link_epoch += 1;
        if let Some(instance) = self.linked.take() {
            self.with_distributor(|core, now, sink| core.on_peer_closed(now, PEER, sink));
            let server = self.server_epoch;
            self.later(Duration::from_millis(100), Event::LinkBroken { server, instance });
        }
    }

    fn consumer_breaks(&mut self, consumer: usize) {
        let connected = &mut self.consumers[consumer];
        connected.epoch += 1;
        connected.slow_until = Nanos::ZERO;
        let epoch = connected.epoch;
        if std::mem::take(&mut connected.is_up) {
            self.with_server(|core, now, sink| core.on_client_closed(now, ClientId(consumer as u32), sink));
        }
        self.later(Duration::from_secs(2), Event::ConsumerConnects { consumer, epoch });
    }
}

/// The backbone.
impl World {
    fn found(&mut self, instance: u64, topic: Option<u16>) {
        let wanted = topic.is_none() || self.subscribed;
        let exists = instance == self.distributor.instance() && self.topics.contains(&topic);
        if !wanted || !exists || self.sources.contains_key(&(instance, topic)) {
            return;
        }
        let source = SourceId(self.next_source);
        self.next_source += 1;
        self.sources.insert((instance, topic), source);
        let name = if topic.is_some() { Topic::Service(SERVICE) } else { Topic::Directory };
        self.with_server(|core, now, sink| core.on_source(now, source, name, instance, sink));
    }

    fn ended(&mut self, instance: u64) {
        let gone: Vec<_> = self.sources.keys().filter(|(i, _)| *i == instance).copied().collect();
        for key in gone {
            let source = self.sources.remove(&key).expect("it was just there");
            self.with_server(|core, now, sink| core.on_source_ended(now, source, sink));
        }
    }

    fn stream_arrives(&mut self, instance: u64, topic: Option<u16>, bytes: &[u8]) {
        let Some(&source) = self.sources.get(&(instance, topic)) else { return };
        self.with_server(|core, now, sink| {
            core.on_stream_message(now, source, bytes, sink).expect("a legal instance");
        });
    }

    fn stream_sent(&mut self, topic: Option<u16>, bytes: Vec<u8>) {
        let instance = self.distributor.instance();
        if self.now < self.cut_until || self.rng.chance(self.faults.loss) {
            return;
        }
        let pipe = self.stream_pipes.entry(topic).or_default();
        let at = pipe.arrival(self.now, self.faults.stream_delay, &mut self.rng);
        self.queue.put(at, Event::Stream { instance, topic, bytes });
    }

    fn link_up(&mut self, instance: u64) {
        self.linked = Some(instance);
        self.with_distributor(|core, _, _| core.on_peer_connected(PEER));
        self.with_server(|core, now, sink| core.on_link_up(now, instance, sink));
    }
}

/// Consumers.
impl World {
    fn consumer_connects(&mut self, consumer: usize) {
        let connected = &mut self.consumers[consumer];
        connected.is_up = true;
        let greeting = connected.consumer.greeting();
        self.with_server(|core, _, _| core.on_client_connected(ClientId(consumer as u32)));
        self.consumer_sends(consumer, greeting);
    }

    fn consumer_sends(&mut self, consumer: usize, messages: Vec<Vec<u8>>) {
        for bytes in messages {
            let connected = &mut self.consumers[consumer];
            let at = connected.to_server.arrival(self.now, self.faults.connection_delay, &mut self.rng);
            self.queue.put(at, Event::ToServer { consumer, epoch: connected.epoch, bytes });
        }
    }
}

/// Running a core, and carrying out what it decides.
impl World {
    fn with_distributor(&mut self, act: impl FnOnce(&mut Distributor, Nanos, &mut DistributorOut)) {
        let mut out = DistributorOut::default();
        act(&mut self.distributor, self.now, &mut out);
        let instance = self.distributor.instance();
        for decision in out.0 {
            match decision {
                FromDistributor::Open(service, _) => {
                    self.topics.insert(Some(service));
                    let server = self.server_epoch;
                    self.later(
                        Duration::from_millis(50),
                        Event::Found { server, instance, topic: Some(service) },
                    );
                }
                FromDistributor::Close(service) => drop(self.topics.remove(&Some(service))),
                FromDistributor::Stream(topic, bytes) => self.stream_sent(topic, bytes),
                FromDistributor::Notice(_, notice) => panic!("nobody is slow, but {notice}"),
                FromDistributor::Provider(provider, bytes) => self.provider_is_told(provider, bytes),
                FromDistributor::Peer(_, bytes) => {
                    let at = self.down_pipe.arrival(self.now, self.faults.connection_delay, &mut self.rng);
                    self.queue.put(at, Event::LinkToServer { epoch: self.link_epoch, instance, bytes });
                }
            }
        }
    }

    fn with_server(&mut self, act: impl FnOnce(&mut Server, Nanos, &mut ServerOut)) {
        let mut out = ServerOut { lags: self.rng.chance(0.2), slow: self.slow(), ..ServerOut::default() };
        act(&mut self.server, self.now, &mut out);
        for decision in out.decisions {
            match decision {
                FromServer::Client(client, bytes) => {
                    let consumer = client.0 as usize;
                    let connected = &mut self.consumers[consumer];
                    if !connected.is_up {
                        // It is gone, and its streams are not off all items yet.
                        continue;
                    }
                    let at =
                        connected.to_consumer.arrival(self.now, self.faults.connection_delay, &mut self.rng);
                    self.queue.put(at, Event::ToConsumer { consumer, epoch: connected.epoch, bytes });
                }
                FromServer::Unsubscribe(_) => self.subscribed = false,
                FromServer::Subscribe(_) => {
                    self.subscribed = true;
                    let (instance, server) = (self.distributor.instance(), self.server_epoch);
                    for topic in self.topics.clone().into_iter().filter(Option::is_some) {
                        self.later(Duration::from_millis(50), Event::Found { server, instance, topic });
                    }
                }
                FromServer::Connect(instance) if instance == self.distributor.instance() => {
                    self.link_epoch += 1;
                    let epoch = self.link_epoch;
                    self.later(Duration::from_millis(20), Event::LinkUp { epoch, instance });
                }
                // Nobody listens there any more.
                FromServer::Connect(instance) => {
                    let server = self.server_epoch;
                    self.later(Duration::from_millis(100), Event::LinkBroken { server, instance });
                }
                FromServer::Disconnect(instance) if instance == self.distributor.instance() => {
                    self.link_epoch += 1;
                    if self.linked.take().is_some() {
                        self.with_distributor(|core, now, sink| core.on_peer_closed(now, PEER, sink));
                    }
                }
                FromServer::Disconnect(_) => {}
                FromServer::RoundEnds(client) => {
                    self.note("round");
                    let span = Duration::from_millis(self.rng.below(1_000));
                    self.consumers[client.0 as usize].round_at = self.now + span;
                }
                FromServer::Link(instance, bytes) => {
                    if self.linked == Some(instance) {
                        let at = self.up_pipe.arrival(self.now, self.faults.connection_delay, &mut self.rng);
                        self.queue.put(at, Event::LinkToDistributor { epoch: self.link_epoch, bytes });
                    }
                }
            }
        }
    }
}

pub(crate) fn new_distributor(instance: u64, counters: &Arc<DistributorCounters>) -> Distributor {
    // Half of them have no cache. A short memory, so that gaps reach beyond it in some runs, and ids are used again.
    let without_cache = (instance >> 8).is_multiple_of(2).then(|| ServiceNames::ALL.to_owned());
    let config = DistributorConfig {
        uncached: without_cache.into_iter().collect(),
        gap_memory: 256,
        requests_outstanding_max: 7,
        cleanups_per_turn: 5,
        stamp_bytes: STAMP_BYTES,
        ..DistributorConfig::default()
    };
    Distributor::new(instance, config, Arc::new(Dictionary::new()), counters.clone())
}

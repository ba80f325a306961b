//! The point-to-point server of a world: one core, or a relay and shards with memory between them.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use counters::table::PointToPoint as ServerCounters;
use market::ServiceNames;
use market::backbone::{LinkDown, LinkUp, StreamMsg};
use market::distributor::PeerId;
use market::p2ps::relay::{Relay, RelaySink};
use market::p2ps::{
    ClientError, ClientId, ClientInfo, ClientProfile, PointToPoint, ServerConfig, ServerNotice, ServerSink,
    SourceId, Topic, UpstreamError, UpstreamSink, Watcher,
};
use rwf::Dictionary;
use units::{Nanos, Rng};

use crate::consumer::INTERVAL_MS;
use crate::out::ServerOut;

/// The cores of a point-to-point server: one, or a relay and shards with memory between them. Each client is one
/// shard's. Which thread runs when is chance.
pub struct Server {
    relay: Option<Box<Relay>>,
    shards: Vec<Shard>,
    /// Decides which thread runs when.
    rng: Rng,
}

struct Shard {
    core: PointToPoint,
    memory: Memory,
}

/// What is on its way between the relay and a shard, each way in order, and what the shard's carrier knows.
#[derive(Default)]
struct Memory {
    down: VecDeque<Down>,
    up: VecDeque<Up>,
    topics: BTreeMap<u16, String>,
    wanted: BTreeSet<String>,
    sources: BTreeMap<u16, SourceId>,
    sources_seen: u32,
    /// The relay, once the shard has asked for a link.
    instance: u64,
}

#[derive(Clone)]
enum Down {
    Opened(u16, String),
    Closed(u16),
    Directory(Vec<u8>),
    Stream(u16, Vec<u8>),
    Linked,
    Link(Vec<u8>),
}

enum Up {
    Connect,
    Link(Vec<u8>),
}

impl Memory {
    fn is_busy(&self) -> bool {
        !self.down.is_empty() || !self.up.is_empty()
    }
}

const DIRECTORY: SourceId = SourceId(0);
const SESSION: u64 = 1;

fn config() -> ServerConfig {
    // Clean-ups take several turns.
    ServerConfig {
        images_outstanding_max: 10,
        cleanups_per_turn: 3,
        conflated_intervals_ms: vec![INTERVAL_MS],
        ..ServerConfig::default()
    }
}

impl Server {
    /// So many shards, 0 for one core without a relay; what it keeps is chance.
    #[must_use]
    pub fn new(
        peer: u64,
        shards: usize,
        counters: &Arc<ServerCounters>,
        relay_counters: &Arc<ServerCounters>,
    ) -> Server {
        // Half of the servers have no cache, with or without shards.
        let is_uncached = (peer >> 8).is_multiple_of(2);
        Server::build((peer, shards), (false, is_uncached), counters, relay_counters)
    }

    /// The same with a cache, for services that two source distributors have: taken from both at a time if hot.
    pub(crate) fn of_pair(
        (peer, shards): (u64, usize),
        is_hot: bool,
        counters: &Arc<ServerCounters>,
        relay_counters: &Arc<ServerCounters>,
    ) -> Server {
        let is_uncached = shards > 0 && (peer >> 8).is_multiple_of(2);
        Server::build((peer, shards), (is_hot, is_uncached), counters, relay_counters)
    }

    fn build(
        (peer, shards): (u64, usize),
        (is_hot, is_uncached): (bool, bool),
        counters: &Arc<ServerCounters>,
        relay_counters: &Arc<ServerCounters>,
    ) -> Server {
        // The relay has all images; of the world's few items a shard keeps none, some or all.
        let kept_images_max = (shards > 0).then_some([0, 1, 3, 100][peer as usize % 4]);
        let all_if = |is: bool| is.then(|| ServiceNames::ALL.to_owned()).into_iter().collect();
        let config =
            ServerConfig { kept_images_max, uncached: all_if(is_uncached), hot: all_if(is_hot), ..config() };
        Server::configured(peer, shards, &config, &Arc::new(Dictionary::new()), counters, relay_counters)
    }

    /// The same with a configuration; what a shard need not keep, the relay keeps. What takes the backbone compares the two
    /// instances of a hot service.
    #[must_use]
    pub fn configured(
        peer: u64,
        shards: usize,
        config: &ServerConfig,
        dictionary: &Arc<Dictionary>,
        counters: &Arc<ServerCounters>,
        relay_counters: &Arc<ServerCounters>,
    ) -> Server {
        let core = |at: usize| {
            let hot = if shards == 0 { config.hot.clone() } else { ServiceNames::default() };
            let config = ServerConfig { hot, ..config.clone() };
            PointToPoint::new(peer + at as u64, config, Arc::clone(dictionary), counters.clone())
        };
        let relay = || {
            let config =
                ServerConfig { kept_images_max: None, uncached: ServiceNames::default(), ..config.clone() };
            Relay::new(peer, config, Arc::clone(dictionary), relay_counters.clone())
        };
        Server {
            relay: (shards > 0).then(|| Box::new(relay())),
            shards: (0..shards.max(1))
                .map(|at| Shard { core: core(at), memory: Memory::default() })
                .collect(),
            rng: Rng::new(peer),
        }
    }

    fn shard_of(&self, client: ClientId) -> usize {
        client.0 as usize % self.shards.len()
    }

    /// Runs some of the threads, each as far as there is something for it.
    fn carry(&mut self, now: Nanos, out: &mut ServerOut) {
        for at in 0..self.shards.len() {
            if self.relay.is_none() || self.rng.chance(0.5) {
                continue;
            }
            while let Some(down) = self.shards[at].memory.down.pop_front() {
                self.shards[at].take(now, down, out);
            }
            self.hear(now, at, out);
        }
    }

    /// The relay hears what a shard has said.
    fn hear(&mut self, now: Nanos, at: usize, out: &mut ServerOut) {
        let Some(mut relay) = self.relay.take() else { return };
        let peer = PeerId(at as u32);
        while let Some(up) = self.shards[at].memory.up.pop_front() {
            let mut sink = RelayOut { out, shards: &mut self.shards };
            match up {
                Up::Connect => {
                    relay.on_shard_connected(peer);
                    sink.shards[at].memory.down.push_back(Down::Linked);
                }
                Up::Link(bytes) => {
                    relay.on_shard_message(now, peer, &bytes, &mut sink).expect("a legal shard");
                }
            }
        }
        self.relay = Some(relay);
    }

    fn upstream<R>(
        &mut self,
        now: Nanos,
        out: &mut ServerOut,
        to_relay: impl FnOnce(&mut Relay, &mut RelayOut<'_>) -> R,
        to_core: impl FnOnce(&mut PointToPoint, &mut ServerOut) -> R,
    ) -> R {
        let Some(mut relay) = self.relay.take() else { return to_core(&mut self.shards[0].core, out) };
        let result = to_relay(&mut relay, &mut RelayOut { out, shards: &mut self.shards });
        self.relay = Some(relay);
        self.carry(now, out);
        result
    }

    fn client<R>(
        &mut self,
        now: Nanos,
        client: ClientId,
        out: &mut ServerOut,
        act: impl FnOnce(&mut PointToPoint, &mut ShardOut<'_>) -> R,
    ) -> R {
        let at = self.shard_of(client);
        let Shard { core, memory } = &mut self.shards[at];
        let memory = self.relay.is_some().then_some(memory);
        let result = act(core, &mut ShardOut { out, memory });
        self.carry(now, out);
        result
    }
}

/// What comes from source distributors.
impl Server {
    /// The carrier has found a source of a topic.
    pub fn on_source(
        &mut self,
        now: Nanos,
        source: SourceId,
        topic: Topic<'_>,
        session: u64,
        out: &mut ServerOut,
    ) {
        self.upstream(
            now,
            out,
            |relay, sink| relay.on_source(now, source, topic, session, sink),
            |core, sink| core.on_source(now, source, topic, session, sink),
        );
    }

    /// A source is gone.
    pub fn on_source_ended(&mut self, now: Nanos, source: SourceId, out: &mut ServerOut) {
        self.upstream(
            now,
            out,
            |relay, sink| relay.on_source_ended(now, source, sink),
            |core, sink| core.on_source_ended(now, source, sink),
        );
    }

    /// A message from a source.
    ///
    /// # Errors
    /// The message is not what it should be.
    pub fn on_stream_message(
        &mut self,
        now: Nanos,
        source: SourceId,
        bytes: &[u8],
        out: &mut ServerOut,
    ) -> Result<(), UpstreamError> {
        self.upstream(
            now,
            out,
            |relay, sink| relay.on_stream_message(now, source, bytes, sink),
            |core, sink| core.on_stream_message(now, source, bytes, sink),
        )
    }

    /// A link is established.
    pub fn on_link_up(&mut self, now: Nanos, instance: u64, out: &mut ServerOut) {
        self.upstream(
            now,
            out,
            |relay, sink| relay.on_link_up(instance, sink),
            |core, sink| core.on_link_up(instance, sink),
        );
    }

    /// A link broke, or could not be opened.
    pub fn on_link_down(&mut self, now: Nanos, instance: u64, out: &mut ServerOut) {
        self.upstream(
            now,
            out,
            |relay, sink| relay.on_link_down(now, instance, sink),
            |core, sink| core.on_link_down(now, instance, sink),
        );
    }

    /// A message over a link.
    ///
    /// # Errors
    /// The message is not what it should be.
    pub fn on_link_message(
        &mut self,
        now: Nanos,
        instance: u64,
        bytes: &[u8],
        out: &mut ServerOut,
    ) -> Result<(), UpstreamError> {
        self.upstream(
            now,
            out,
            |relay, sink| relay.on_link_message(now, instance, bytes, sink),
            |core, sink| core.on_link_message(now, instance, bytes, sink),
        )
    }
}

/// Clients, and time.
impl Server {
    /// A client has connected.
    pub fn on_client_connected(&mut self, client: ClientId) {
        let at = self.shard_of(client);
        self.shards[at].core.on_client_connected(client, ClientProfile::default());
    }

    /// A client is gone.
    pub fn on_client_closed(&mut self, now: Nanos, client: ClientId, out: &mut ServerOut) {
        self.client(now, client, out, |core, sink| core.on_client_closed(now, client, sink));
    }

    /// A message of a client.
    ///
    /// # Errors
    /// Its connection is to be closed.
    pub fn on_client_message(
        &mut self,
        now: Nanos,
        client: ClientId,
        bytes: &[u8],
        out: &mut ServerOut,
    ) -> Result<(), ClientError> {
        self.client(now, client, out, |core, sink| core.on_client_message(now, client, bytes, sink))
    }

    /// A client has room for what is due; returns whether there is more.
    pub fn send_due_images(&mut self, now: Nanos, client: ClientId, out: &mut ServerOut) -> bool {
        self.client(now, client, out, |core, sink| core.send_due_images(now, client, sink))
    }

    /// The updates of a client that reads too slowly are conflated, or so no more.
    pub fn set_conflated(&mut self, now: Nanos, client: ClientId, is_slow: bool, out: &mut ServerOut) {
        self.client(now, client, out, |core, sink| {
            core.set_conflated(now, client, is_slow, "step", sink);
        });
    }

    /// The same in rounds.
    pub fn set_at_interval(
        &mut self,
        now: Nanos,
        client: ClientId,
        is_at_interval: bool,
        out: &mut ServerOut,
    ) {
        self.client(now, client, out, |core, sink| {
            core.set_at_interval(now, client, is_at_interval, "step", sink);
        });
    }

    /// Clients for which something has begun to be due since the last call.
    pub fn take_due_clients(&mut self) -> Vec<ClientId> {
        self.shards.iter_mut().flat_map(|shard| shard.core.take_due_clients()).collect()
    }

    /// The clients.
    pub fn clients(&self) -> impl Iterator<Item = ClientInfo<'_>> {
        self.shards.iter().flat_map(|shard| shard.core.clients_after(None))
    }

    /// The cores that serve clients, and what takes the backbone if that is another one.
    fn cores(&self) -> impl Iterator<Item = &PointToPoint> {
        self.shards.iter().map(|shard| &shard.core).chain(self.relay.as_deref().map(Relay::core))
    }

    /// What of the ledgers does not add up; nothing if all does.
    #[must_use]
    pub fn audit(&self) -> Vec<String> {
        self.cores().flat_map(PointToPoint::audit).collect()
    }

    /// The highest number that was taken, or is known to be lost, of the stream of a run of a distributor, if there is one
    /// that is followed.
    #[must_use]
    pub fn position(&self, instance: u64) -> Option<u64> {
        let core = self.relay.as_deref().map_or(&self.shards[0].core, Relay::core);
        let mut streams = core.ledger().flat_map(|service| service.streams);
        let stream = streams.find(|stream| stream.instance == Some(instance) && stream.is_followed)?;
        Some(stream.first + stream.counts.numbers - 1)
    }

    /// The same of the stream of one service.
    #[must_use]
    pub fn position_of(&self, instance: u64, service: &str) -> Option<u64> {
        let core = self.relay.as_deref().map_or(&self.shards[0].core, Relay::core);
        let streams = core.ledger().filter(|known| known.service == service).flat_map(|known| known.streams);
        let stream = { streams }.find(|stream| stream.instance == Some(instance) && stream.is_followed)?;
        Some(stream.first + stream.counts.numbers - 1)
    }

    /// What became of updates for clients: delivered, conflated, waiting.
    #[must_use]
    pub fn clients_ledger(&self) -> (u64, u64, u64) {
        let all = self.shards.iter().flat_map(|shard| shard.core.ledger().map(|service| service.clients));
        all.fold((0, 0, 0), |(delivered, conflated, waiting), clients| {
            (delivered + clients.delivered, conflated + clients.conflated, waiting + clients.waiting)
        })
    }

    /// The services that the clients of the first shard see.
    pub fn services(&self) -> impl Iterator<Item = (u16, &str, bool, Option<u64>)> {
        self.shards[0].core.services()
    }

    /// When something is to be done; at once as long as something is on its way between relay and shards.
    #[must_use]
    pub fn next_wakeup(&self) -> Nanos {
        if self.shards.iter().any(|shard| shard.memory.is_busy()) {
            return Nanos::ZERO;
        }
        let shards = self.shards.iter().map(|shard| shard.core.next_wakeup());
        let relay = self.relay.iter().map(|relay| relay.next_wakeup());
        shards.chain(relay).min().unwrap_or(Nanos::NEVER)
    }

    /// What is due; threads of which some run.
    pub fn on_wakeup(&mut self, now: Nanos, out: &mut ServerOut) {
        if let Some(mut relay) = self.relay.take() {
            if now >= relay.next_wakeup() {
                relay.on_wakeup(now, &mut RelayOut { out, shards: &mut self.shards });
            }
            self.relay = Some(relay);
        }
        for Shard { core, memory } in &mut self.shards {
            if now < core.next_wakeup() {
                continue;
            }
            let memory = self.relay.is_some().then_some(memory);
            core.on_wakeup(now, &mut ShardOut { out, memory });
        }
        self.carry(now, out);
    }
}

impl Shard {
    /// Takes what the relay has sent.
    fn take(&mut self, now: Nanos, down: Down, out: &mut ServerOut) {
        let Shard { core, memory } = self;
        match down {
            Down::Opened(service, name) => {
                memory.topics.insert(service, name);
                self.find(now, out);
            }
            Down::Closed(service) => {
                memory.topics.remove(&service);
                if let Some(source) = memory.sources.remove(&service) {
                    core.on_source_ended(now, source, &mut ShardOut { out, memory: Some(memory) });
                }
            }
            Down::Directory(bytes) => {
                if memory.sources_seen == 0 {
                    memory.sources_seen = 1;
                    core.on_source(
                        now,
                        DIRECTORY,
                        Topic::Directory,
                        SESSION,
                        &mut ShardOut { out, memory: Some(memory) },
                    );
                }
                let result = core.on_stream_message(
                    now,
                    DIRECTORY,
                    &bytes,
                    &mut ShardOut { out, memory: Some(memory) },
                );
                result.expect("a legal relay");
                self.find(now, out);
            }
            Down::Stream(service, bytes) => {
                let Some(&source) = memory.sources.get(&service) else { return };
                let result =
                    core.on_stream_message(now, source, &bytes, &mut ShardOut { out, memory: Some(memory) });
                result.expect("a legal relay");
            }
            Down::Linked => core.on_link_up(memory.instance, &mut ShardOut { out, memory: Some(memory) }),
            Down::Link(bytes) => {
                let instance = memory.instance;
                let result =
                    core.on_link_message(now, instance, &bytes, &mut ShardOut { out, memory: Some(memory) });
                result.expect("a legal relay");
            }
        }
    }

    /// Topics that are wanted and there become sources.
    fn find(&mut self, now: Nanos, out: &mut ServerOut) {
        let Shard { core, memory } = self;
        for (service, name) in memory.topics.clone() {
            if memory.wanted.contains(&name) && !memory.sources.contains_key(&service) {
                let source = SourceId(memory.sources_seen);
                memory.sources_seen += 1;
                memory.sources.insert(service, source);
                core.on_source(
                    now,
                    source,
                    Topic::Service(&name),
                    SESSION,
                    &mut ShardOut { out, memory: Some(memory) },
                );
            }
        }
    }
}

/// What a relay decides.
struct RelayOut<'a> {
    out: &'a mut ServerOut,
    shards: &'a mut Vec<Shard>,
}

impl RelayOut<'_> {
    fn push_to_all(&mut self, down: &Down) {
        self.shards.iter_mut().for_each(|shard| shard.memory.down.push_back(down.clone()));
    }
}

impl RelaySink for RelayOut<'_> {
    fn open_stream(&mut self, service: u16, name: &str) {
        self.push_to_all(&Down::Opened(service, name.to_owned()));
    }
    fn close_stream(&mut self, service: u16) {
        self.push_to_all(&Down::Closed(service));
    }
    fn publish(&mut self, service: u16, msg: &StreamMsg<'_>) {
        self.push_to_all(&Down::Stream(service, [&msg.header()[..], msg.parts, msg.body].concat()));
    }
    fn publish_directory(&mut self, msg: &StreamMsg<'_>) {
        self.push_to_all(&Down::Directory([&msg.header()[..], msg.parts, msg.body].concat()));
    }
    fn to_shard(&mut self, shard: PeerId, msg: &LinkDown<'_>) {
        let mut bytes = Vec::new();
        msg.encode(&mut bytes);
        self.shards[shard.0 as usize].memory.down.push_back(Down::Link(bytes));
    }
}

impl UpstreamSink for RelayOut<'_> {
    fn subscribe(&mut self, service: &str) {
        self.out.subscribe(service);
    }
    fn unsubscribe(&mut self, service: &str) {
        self.out.unsubscribe(service);
    }
    fn connect(&mut self, instance: u64, directory: SourceId) {
        self.out.connect(instance, directory);
    }
    fn disconnect_link(&mut self, instance: u64) {
        self.out.disconnect_link(instance);
    }
    fn to_instance(&mut self, instance: u64, msg: &LinkUp<'_>) {
        self.out.to_instance(instance, msg);
    }
    fn notice(&mut self, notice: &ServerNotice<'_>) {
        self.out.notice(notice);
    }
}

/// What a shard decides; without memory it is the server itself.
struct ShardOut<'a> {
    out: &'a mut ServerOut,
    memory: Option<&'a mut Memory>,
}

impl ServerSink for ShardOut<'_> {
    fn send(&mut self, client: ClientId, msg: &[u8]) {
        self.out.send(client, msg);
    }
    fn fan_out(&mut self, watchers: &[Watcher], msg: &[u8]) {
        self.out.fan_out(watchers, msg);
    }
    fn fan_out_update(&mut self, watchers: &[Watcher], msg: &[u8], refused: &mut Vec<Watcher>) {
        self.out.fan_out_update(watchers, msg, refused);
    }
    fn lags(&mut self, client: ClientId) -> bool {
        self.out.lags(client)
    }
    fn admits_more(&mut self, client: ClientId) -> bool {
        self.out.admits_more(client)
    }
    fn end_round(&mut self, client: ClientId) {
        self.out.end_round(client);
    }
}

impl UpstreamSink for ShardOut<'_> {
    fn subscribe(&mut self, service: &str) {
        let Some(memory) = &mut self.memory else { return self.out.subscribe(service) };
        memory.wanted.insert(service.to_owned());
    }
    fn unsubscribe(&mut self, service: &str) {
        let Some(memory) = &mut self.memory else { return self.out.unsubscribe(service) };
        memory.wanted.remove(service);
    }
    fn connect(&mut self, instance: u64, directory: SourceId) {
        let Some(memory) = &mut self.memory else { return self.out.connect(instance, directory) };
        memory.instance = instance;
        memory.up.push_back(Up::Connect);
    }
    fn disconnect_link(&mut self, instance: u64) {
        assert!(self.memory.is_none(), "a shard has no reason to leave its relay {instance:x}");
        self.out.disconnect_link(instance);
    }
    fn to_instance(&mut self, instance: u64, msg: &LinkUp<'_>) {
        let Some(memory) = &mut self.memory else { return self.out.to_instance(instance, msg) };
        let mut bytes = Vec::new();
        msg.encode(&mut bytes);
        memory.up.push_back(Up::Link(bytes));
    }
    fn notice(&mut self, notice: &ServerNotice<'_>) {
        assert!(self.memory.is_none(), "between relay and shard nothing is lost, but: {notice}");
        self.out.notice(notice);
    }
}

//! Several servers behind one distributor, some of which are slower than what is published.
//!
//! The provider's connection keeps what the distributor does not read, as TCP does. The multicast loses nothing of
//! itself: a server takes what comes into its intake, and one that stands still has a socket of some size, beyond
//! which what comes is gone. Consumers check what they see, as in the other world.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use counters::table::{Distributor as DistributorCounters, PointToPoint as ServerCounters};
use market::backbone::LinkUp;
use market::distributor::{Distributor, DistributorConfig, FlowConfig, PeerId, PeerNotice, ProviderId};
use market::p2ps::{ClientId, ClientProfile, PointToPoint, ServerConfig, SourceId, Topic};
use market::{Intake, IntakeConfig, Waited};
use rwf::Dictionary;
use units::{Nanos, Rng};

use crate::consumer::{Consumer, Habit};
use crate::out::{DistributorOut, FromDistributor, FromServer, STAMP_BYTES, ServerOut};
use crate::provider::{Provider, SERVICE};

/// How a server is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SlowServer {
    /// It handles all that comes.
    No,
    /// It handles so many bytes a second.
    Takes(u64),
    /// It stands still, and takes nothing from its socket.
    Stopped,
}

/// A provider, a distributor and servers with a consumer each, in virtual time, a millisecond at a time.
pub struct Overload {
    now: Nanos,
    rng: Rng,
    provider: Provider,
    /// Changes in a millisecond.
    changes: u32,
    /// What the distributor has not read, and since when.
    unread: VecDeque<(Nanos, Vec<u8>)>,
    distributor: Distributor,
    counters: Arc<DistributorCounters>,
    instance: u64,
    servers: Vec<Server>,
    /// A report of a server is lost.
    reports_lost: f64,
    /// For how long something has waited at the provider at most.
    pub worst_delay: Duration,
    /// What operators were told, with the number of the server.
    pub notices: Vec<(usize, PeerNotice)>,
}

struct Server {
    core: PointToPoint,
    intake: Intake,
    counters: Arc<ServerCounters>,
    speed: SlowServer,
    consumer: Consumer,
    /// What has arrived since its last turn.
    socket: VecDeque<(Option<u16>, Vec<u8>)>,
    socket_bytes: usize,
    link: VecDeque<Vec<u8>>,
    is_linked: bool,
    subscribed: bool,
    /// What it may handle now, in bytes; below zero if a message was longer.
    credit: i64,
}

const PROVIDER: ProviderId = ProviderId(1);
const CLIENT: ClientId = ClientId(1);
const DIRECTORY: SourceId = SourceId(0);
const STREAM: SourceId = SourceId(1);
const TURN: Duration = Duration::from_millis(1);
/// What a socket holds.
const SOCKET_BYTES: usize = 40_000;
/// What an intake holds; some windows.
const INTAKE_BYTES: usize = 400_000;

impl Overload {
    /// How long a server can hold up the others.
    pub const PATIENCE: Duration = Duration::from_secs(1);

    /// Everything is connected, and so many changes come in a millisecond.
    #[must_use]
    pub fn new(seed: u64, server_count: usize, changes: u32, floor: u64) -> Overload {
        let mut rng = Rng::new(seed);
        let provider = Provider::new(40);
        let counters = Arc::new(DistributorCounters::default());
        let flow = FlowConfig { window_bytes: 60_000, floor, patience: Overload::PATIENCE };
        let config = DistributorConfig { flow, stamp_bytes: STAMP_BYTES, ..DistributorConfig::default() };
        let instance = rng.next_u64();
        let distributor = Distributor::new(instance, config, Arc::new(Dictionary::new()), counters.clone());
        let names: Vec<String> = provider.items().keys().cloned().collect();
        let servers = (0..server_count).map(|_| Server::new(rng.next_u64(), names.clone())).collect();
        let mut world = Overload {
            now: Nanos(1_000_000_000),
            provider,
            changes: 0,
            unread: VecDeque::new(),
            distributor,
            counters,
            instance,
            servers,
            reports_lost: 0.0,
            worst_delay: Duration::ZERO,
            notices: Vec::new(),
            rng,
        };
        world.with_distributor(|core, _, _| core.on_provider_connected(PROVIDER, None));
        for bytes in world.provider.greeting() {
            world.unread.push_back((world.now, bytes));
        }
        for at in 0..server_count {
            world.with_server(at, |core, now, out| {
                core.on_client_connected(CLIENT, ClientProfile::default());
                core.on_source(now, DIRECTORY, Topic::Directory, instance, out);
            });
        }
        world.run(Duration::from_secs(2));
        for at in 0..server_count {
            let greeting = world.servers[at].consumer.greeting();
            world.client_says(at, greeting);
        }
        world.run(Duration::from_secs(2));
        world.changes = changes;
        world.run(Duration::from_secs(1));
        world
    }

    /// From now on a server is like that.
    pub fn set_speed(&mut self, server: usize, speed: SlowServer) {
        self.servers[server].speed = speed;
    }

    /// From now on so many of the reports are lost.
    pub fn lose_reports(&mut self, share: f64) {
        self.reports_lost = share;
    }

    /// Runs for a span of virtual time.
    pub fn run(&mut self, span: Duration) {
        let until = self.now + span;
        while self.now < until {
            self.now += TURN;
            self.provider_turn();
            self.distributor_turn();
            for at in 0..self.servers.len() {
                self.server_turn(at);
            }
        }
    }

    /// No more changes; after a while every consumer has the truth.
    ///
    /// # Panics
    /// If one does not.
    pub fn converges(&mut self) {
        self.changes = 0;
        self.servers.iter_mut().for_each(|server| server.speed = SlowServer::No);
        self.run(Duration::from_secs(30));
        assert!(self.unread.is_empty(), "the provider is rid of everything");
        for (at, server) in self.servers.iter().enumerate() {
            let faults = server.consumer.faults(self.provider.items());
            assert!(faults.is_empty(), "server {at}: {} faults, first: {}", faults.len(), faults[0]);
        }
    }

    /// Counters of a server.
    #[must_use]
    pub fn server_counters(&self, server: usize) -> &ServerCounters {
        &self.servers[server].counters
    }

    /// How many messages a server's intake has dropped.
    #[must_use]
    pub fn dropped(&self, server: usize) -> u64 {
        self.servers[server].intake.dropped()
    }

    /// Counters of the distributor.
    #[must_use]
    pub fn distributor_counters(&self) -> &DistributorCounters {
        &self.counters
    }

    fn provider_turn(&mut self) {
        for _ in 0..self.changes {
            let place = self.rng.below(self.provider.items().len() as u64) as usize;
            let bytes = self.provider.change(place, self.rng.chance(0.3));
            self.unread.push_back((self.now, bytes));
        }
    }

    fn distributor_turn(&mut self) {
        if self.now >= self.distributor.next_wakeup() {
            self.with_distributor(|core, now, out| core.on_wakeup(now, out));
        }
        // As much as is read at a time, some times what comes in a turn.
        for _ in 0..4 * self.changes.max(10) {
            let mut is_held = false;
            self.with_distributor(|core, now, out| is_held = core.holds_providers(now, out));
            if is_held {
                return;
            }
            let Some((since, bytes)) = self.unread.pop_front() else { return };
            self.worst_delay = self.worst_delay.max(self.now.since(since));
            self.with_distributor(|core, now, out| {
                core.on_provider_message(now, PROVIDER, &bytes, out).expect("a legal provider");
            });
        }
    }

    fn server_turn(&mut self, at: usize) {
        let server = &mut self.servers[at];
        if server.speed == SlowServer::Stopped {
            return;
        }
        server.intake.renew(self.now);
        server.socket_bytes = 0;
        for (topic, bytes) in std::mem::take(&mut server.socket) {
            self.arrives(at, topic, &bytes);
        }
        for bytes in std::mem::take(&mut self.servers[at].link) {
            let instance = self.instance;
            self.with_server(at, |core, now, out| {
                core.on_link_message(now, instance, &bytes, out).expect("a legal instance");
            });
        }
        self.handle_waiting(at);
        if self.now >= self.servers[at].core.next_wakeup() {
            self.with_server(at, |core, now, out| core.on_wakeup(now, out));
        }
        self.with_server(at, |core, now, out| core.report_progress(now, out));
    }

    /// A stream message is taken from the socket, as the daemon does it.
    fn arrives(&mut self, at: usize, topic: Option<u16>, bytes: &[u8]) {
        let now = self.now;
        let server = &mut self.servers[at];
        let source = if topic.is_some() { STREAM } else { DIRECTORY };
        let is_fast = server.speed == SlowServer::No && server.intake.passes(bytes.len());
        if !is_fast && !server.core.is_directory(source) {
            return server.intake.keep(now, source, bytes);
        }
        self.with_server(at, |core, now, out| {
            core.on_stream_message(now, source, bytes, out).expect("a legal instance");
        });
    }

    fn handle_waiting(&mut self, at: usize) {
        let server = &mut self.servers[at];
        server.credit = match server.speed {
            SlowServer::Takes(rate) => (server.credit + (rate / 1_000) as i64).min(rate as i64 / 10),
            _ => i64::MAX / 2,
        };
        loop {
            let mut message = None;
            let server = &mut self.servers[at];
            if server.credit <= 0
                || !server.intake.hand_on(|waited| {
                    message = Some(match waited {
                        Waited::Message(source, bytes) => (source, Some(bytes.to_vec())),
                        Waited::Ended(source) => (source, None),
                    });
                })
            {
                return;
            }
            let Some((source, Some(bytes))) = message else { continue };
            server.credit -= bytes.len() as i64;
            self.with_server(at, |core, now, out| {
                core.on_stream_message(now, source, &bytes, out).expect("a legal instance");
            });
        }
    }

    fn client_says(&mut self, at: usize, messages: Vec<Vec<u8>>) {
        for bytes in messages {
            self.with_server(at, |core, now, out| {
                core.on_client_message(now, CLIENT, &bytes, out).expect("a legal client");
            });
        }
    }

    fn with_distributor(&mut self, act: impl FnOnce(&mut Distributor, Nanos, &mut DistributorOut)) {
        let mut out = DistributorOut::default();
        act(&mut self.distributor, self.now, &mut out);
        for decision in out.0 {
            match decision {
                FromDistributor::Stream(topic, bytes) => {
                    self.servers.iter_mut().for_each(|server| server.datagram(topic, &bytes));
                }
                FromDistributor::Peer(PeerId(peer), bytes) => {
                    self.servers[peer as usize].link.push_back(bytes);
                }
                FromDistributor::Notice(PeerId(peer), notice) => self.notices.push((peer as usize, notice)),
                FromDistributor::Open(..) | FromDistributor::Close(_) | FromDistributor::Provider(..) => {}
            }
        }
    }

    fn with_server(&mut self, at: usize, act: impl FnOnce(&mut PointToPoint, Nanos, &mut ServerOut)) {
        let mut out = ServerOut::default();
        act(&mut self.servers[at].core, self.now, &mut out);
        self.carry_out(at, out);
    }

    fn carry_out(&mut self, at: usize, out: ServerOut) {
        let (peer, instance) = (PeerId(at as u32), self.instance);
        for decision in out.decisions {
            match decision {
                FromServer::Client(_, bytes) => {
                    let answers = self.servers[at].consumer.on_message(&bytes);
                    self.client_says(at, answers);
                }
                FromServer::Subscribe(_) if !self.servers[at].subscribed => {
                    self.servers[at].subscribed = true;
                    self.with_server(at, |core, now, out| {
                        core.on_source(now, STREAM, Topic::Service(SERVICE), instance, out);
                    });
                }
                FromServer::Connect(_) => {
                    self.servers[at].is_linked = true;
                    self.with_distributor(|core, _, _| core.on_peer_connected(peer));
                    self.with_server(at, |core, _, out| core.on_link_up(instance, out));
                }
                FromServer::Link(_, bytes) if self.servers[at].is_linked => self.link_says(peer, &bytes),
                FromServer::Subscribe(_)
                | FromServer::Unsubscribe(_)
                | FromServer::Disconnect(_)
                | FromServer::Link(..)
                | FromServer::RoundEnds(_) => {}
            }
        }
    }

    fn link_says(&mut self, peer: PeerId, bytes: &[u8]) {
        let is_report = matches!(LinkUp::parse(bytes), Ok(LinkUp::Progress { .. }));
        if is_report && self.rng.chance(self.reports_lost) {
            return;
        }
        self.with_distributor(|core, now, out| {
            core.on_peer_message(now, peer, bytes, out).expect("a legal peer");
            core.serve_peers(now, out);
        });
    }
}

impl Server {
    fn new(peer: u64, names: Vec<String>) -> Server {
        let counters = Arc::new(ServerCounters::default());
        let core =
            PointToPoint::new(peer, ServerConfig::default(), Arc::new(Dictionary::new()), counters.clone());
        Server {
            core,
            intake: Intake::new(IntakeConfig { bytes_max: INTAKE_BYTES, rate_limit: 0 }),
            counters,
            speed: SlowServer::No,
            consumer: Consumer::new(names, Habit::Watches),
            socket: VecDeque::new(),
            socket_bytes: 0,
            link: VecDeque::new(),
            is_linked: false,
            subscribed: false,
            credit: 0,
        }
    }

    /// Something comes by multicast.
    fn datagram(&mut self, topic: Option<u16>, bytes: &[u8]) {
        if self.speed == SlowServer::Stopped && self.socket_bytes + bytes.len() > SOCKET_BYTES {
            return;
        }
        self.socket_bytes += bytes.len();
        self.socket.push_back((topic, bytes.to_vec()));
    }
}

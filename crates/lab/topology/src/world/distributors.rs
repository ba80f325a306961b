//! Source distributors: the core of `market`, RSSL to providers and to upstream servers, a carrier and links.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use counters::table::RsslConnections;
use market::ServiceNames;
use market::distributor::{DialSpec, Distributor, DistributorConfig, PeerId, ProviderId};
use rssl::{ClientConfig, ClientConnection, ServerConfig, ServerConnection, Stop};
use sim::parts::{DistributorOut, FromDistributor, STAMP_BYTES};
use units::Nanos;

use super::connections::{End, Side};
use super::{Event, Node, World};
use crate::carrier::{Sender, TopicKey};
use crate::plan::Host;

pub(super) struct DistributorNode {
    pub(super) core: Distributor,
    pub(super) is_up: bool,
    pub(super) sender: Sender,
    pub(super) session: u32,
    /// What it publishes, by name; none for the directory.
    pub(super) topics: BTreeMap<TopicKey, String>,
    /// Connections that take its stream, if that is bytes.
    pub(super) listeners: Vec<usize>,
    pub(super) links: BTreeMap<PeerId, usize>,
    providers: BTreeMap<ProviderId, Accepted>,
    upstream: Option<Upstream>,
    /// The next number of a connection or link.
    next: u32,
    /// The point of presence that it is in.
    pub(super) inside: Option<usize>,
    /// Attempts to dial, if it is in a point of presence.
    attempt: u32,
}

struct Accepted {
    connection: usize,
    endpoint: ServerConnection,
}

struct Upstream {
    provider: ProviderId,
    connection: usize,
    endpoint: ClientConnection,
}

/// What a connection brings.
#[derive(Default)]
pub(super) struct Inbox {
    pub(super) is_connected: bool,
    pub(super) messages: Vec<Vec<u8>>,
}

impl rssl::Handler for Inbox {
    fn on_connected(&mut self, _: &rssl::Session<'_>, _: &mut rssl::Outbound) -> ControlFlow<Stop> {
        self.is_connected = true;
        ControlFlow::Continue(())
    }
    fn on_message(&mut self, message: &[u8], _: &mut rssl::Outbound) -> ControlFlow<Stop> {
        self.messages.push(message.to_vec());
        ControlFlow::Continue(())
    }
}

impl DistributorNode {
    pub(super) fn next_wakeup(&self) -> Nanos {
        if !self.is_up {
            return Nanos::NEVER;
        }
        let accepted = self.providers.values().map(|known| known.endpoint.next_wakeup());
        let upstream = self.upstream.iter().map(|known| known.endpoint.next_wakeup());
        let own = self.core.next_wakeup().min(self.sender.next_wakeup());
        accepted.chain(upstream).min().unwrap_or(Nanos::NEVER).min(own)
    }

    pub(super) fn next_provider(&mut self) -> u32 {
        self.next += 1;
        self.next
    }

    pub(super) fn describe(&self) -> String {
        format!(
            "up {}, instance {:x}, services {:?}, links {}, upstream {}",
            self.is_up,
            self.core.instance(),
            self.core.services().collect::<Vec<_>>(),
            self.links.len(),
            self.upstream.is_some()
        )
    }
}

/// A connection that broke is made anew after at most this time.
const REDIAL: Duration = Duration::from_millis(200);

impl World {
    /// A run of a distributor; its number is that of its place, and `host` where it runs.
    pub(super) fn new_distributor(&mut self, at: usize, host: Host) -> DistributorNode {
        let inside = if let Host::Server(server) = host { Some(server) } else { None };
        let (has_cache, gap_memory) = match inside {
            Some(server) => (self.plan.servers[server].has_upstream_cache, 4_096),
            None => (self.plan.distributors[at].has_cache, self.plan.distributors[at].gap_memory),
        };
        let uncached: ServiceNames = (!has_cache).then(|| ServiceNames::ALL.to_owned()).into_iter().collect();
        let config = DistributorConfig {
            gap_memory,
            uncached,
            requests_outstanding_max: 4,
            request_timeout: Duration::from_secs(3),
            item_retry: Duration::from_millis(500),
            item_linger: Duration::from_millis(400),
            cleanups_per_turn: 3,
            stamp_bytes: STAMP_BYTES,
            ..DistributorConfig::default()
        };
        let instance = self.rng.next_u64();
        let session = self.rng.next_u32();
        let core = Distributor::new(instance, config, self.dictionary.clone(), Arc::default());
        let carrier = inside.is_none().then_some(self.plan.carrier);
        let mut sender = Sender::new(carrier, self.plan.small_window, session, self.now);
        sender.open(self.now, None);
        self.touched.insert(Node::Distributor(at));
        DistributorNode {
            core,
            is_up: true,
            sender,
            session,
            topics: BTreeMap::from([(None, String::new())]),
            listeners: Vec::new(),
            links: BTreeMap::new(),
            providers: BTreeMap::new(),
            upstream: None,
            next: 0,
            inside,
            attempt: 0,
        }
    }

    pub(super) fn distributor_turn(&mut self, at: usize) {
        self.touched.insert(Node::Distributor(at));
        let now = self.now;
        let node = &mut self.distributors[at];
        if !node.is_up {
            return;
        }
        let mut over = Vec::new();
        for (provider, known) in &mut node.providers {
            if known.endpoint.next_wakeup() <= now && known.endpoint.on_wakeup(now).is_err() {
                over.push(*provider);
            }
        }
        let upstream = node.upstream.as_mut().filter(|known| known.endpoint.next_wakeup() <= now);
        if upstream.is_some_and(|known| known.endpoint.on_wakeup(now).is_err()) {
            self.upstream_gone(at);
        }
        over.into_iter().for_each(|provider| self.provider_gone(at, provider));
        if self.distributors[at].core.next_wakeup() <= now {
            self.with_distributor(at, |core, now, out| core.on_wakeup(now, out));
        }
        self.send_streams(at);
        self.send_to_providers(at);
    }

    /// Lets the core do something, and carries out what it decides.
    pub(super) fn with_distributor(
        &mut self,
        at: usize,
        act: impl FnOnce(&mut Distributor, Nanos, &mut DistributorOut),
    ) {
        self.touched.insert(Node::Distributor(at));
        let now = self.now;
        let mut out = DistributorOut::default();
        act(&mut self.distributors[at].core, now, &mut out);
        for decision in out.0 {
            let node = &mut self.distributors[at];
            match decision {
                FromDistributor::Open(service, name) => {
                    node.topics.insert(Some(service), name);
                    node.sender.open(now, Some(service));
                    self.announce(at, Some(service));
                }
                FromDistributor::Close(service) => {
                    node.topics.remove(&Some(service));
                    self.send_streams(at);
                    self.distributors[at].sender.close(Some(service));
                    self.announce_end(at, Some(Some(service)));
                }
                FromDistributor::Stream(topic, bytes) => self.send_message(at, topic, bytes),
                FromDistributor::Peer(peer, bytes) => {
                    if let Some(&connection) = node.links.get(&peer) {
                        self.send(connection, Side::Called, &bytes);
                    }
                }
                FromDistributor::Provider(provider, bytes) => {
                    let accepted = node.providers.get_mut(&provider);
                    let pushed = accepted.map(|known| known.endpoint.outbound().push(&bytes).map(|_| ()));
                    let upstream = node.upstream.as_mut().filter(|known| known.provider == provider);
                    let pushed =
                        pushed.or(upstream.map(|known| known.endpoint.outbound().push(&bytes).map(|_| ())));
                    pushed.unwrap_or(Ok(())).expect("there is room");
                }
                FromDistributor::Notice(_, notice) => panic!("nobody is slow, but {notice}"),
            }
        }
        self.send_streams(at);
        self.send_to_providers(at);
    }

    fn send_to_providers(&mut self, at: usize) {
        let node = &mut self.distributors[at];
        let mut sent = Vec::new();
        for known in node.providers.values_mut() {
            let bytes = known.endpoint.outbound().flush().to_vec();
            known.endpoint.outbound().consume(bytes.len());
            sent.push((known.connection, Side::Called, bytes));
        }
        if let Some(known) = &mut node.upstream {
            let bytes = known.endpoint.outbound().flush().to_vec();
            known.endpoint.outbound().consume(bytes.len());
            sent.push((known.connection, Side::Caller, bytes));
        }
        for (connection, side, bytes) in sent {
            self.send(connection, side, &bytes);
        }
    }

    pub(super) fn distributor_dies(&mut self, at: usize) {
        let node = &mut self.distributors[at];
        if std::mem::replace(&mut node.is_up, false) {
            node.links.clear();
            node.listeners.clear();
            node.providers.clear();
            node.upstream = None;
            self.announce_end(at, None);
        }
    }

    pub(super) fn distributor_starts(&mut self, at: usize, host: Host) {
        let attempt = self.distributors[at].attempt;
        self.distributors[at] = self.new_distributor(at, host);
        self.distributors[at].attempt = attempt;
        self.announce(at, None);
        if let Host::Server(server) = host {
            self.redial(server, at);
        }
    }
}

/// Providers that connect.
impl World {
    pub(super) fn accept_provider(&mut self, at: usize, provider: ProviderId, connection: usize) {
        let params = ServerConfig { message_size_bytes: self.plan.message_size, ..ServerConfig::default() };
        let params = Arc::new(params.check().expect("a legal configuration"));
        let counters = Arc::new(RsslConnections::default());
        let endpoint = ServerConnection::new(self.now, &params, &counters, self.rng.next_u64());
        self.distributors[at].providers.insert(provider, Accepted { connection, endpoint });
        self.touched.insert(Node::Distributor(at));
    }

    pub(super) fn provider_bytes(&mut self, at: usize, provider: ProviderId, bytes: &[u8]) {
        let mut inbox = Inbox::default();
        let Some(known) = self.distributors[at].providers.get_mut(&provider) else { return };
        let result = known.endpoint.on_bytes(self.now, bytes, &mut inbox);
        if inbox.is_connected {
            self.with_distributor(at, |core, _, _| core.on_provider_connected(provider, None));
        }
        for message in inbox.messages {
            self.with_distributor(at, |core, now, out| {
                core.on_provider_message(now, provider, &message, out).expect("a legal provider");
            });
        }
        self.send_to_providers(at);
        result.unwrap_or_else(|reason| panic!("a provider's connection ends: {reason}"));
    }

    pub(super) fn provider_gone(&mut self, at: usize, provider: ProviderId) {
        if let Some(known) = self.distributors[at].providers.remove(&provider) {
            self.close(known.connection, Side::Called);
            self.with_distributor(at, |core, now, out| core.on_provider_closed(now, provider, out));
        }
    }
}

/// Upstream servers that the distributor in a point of presence is a client of.
impl World {
    pub(super) fn redial(&mut self, server: usize, at: usize) {
        self.distributors[at].attempt += 1;
        let attempt = self.distributors[at].attempt;
        let after = self.now + self.span(REDIAL);
        self.queue.put(after, Event::Dial(Host::Server(server), attempt));
    }

    pub(super) fn upstream_dialled(&mut self, server: usize, attempt: u32) {
        let Some(at) = self.servers[server].own else { return };
        let to = self.plan.servers[server].upstream.expect("a point of presence");
        if self.distributors[at].attempt != attempt || self.distributors[at].upstream.is_some() {
            return;
        }
        let hosts = (Host::Server(server), Host::Server(to));
        let passes = self.passes_at(hosts.0, hosts.1).max(self.passes_at(hosts.1, hosts.0));
        if passes > self.now || !self.servers[to].is_up {
            return self.redial(server, at);
        }
        let client = self.servers[to].next_client();
        let connection = self.connect((hosts.0, End::Upstream(at)), (hosts.1, End::Served(to, client)));
        self.serve_client(to, client, connection, false);
        let params = Arc::new(ClientConfig::default().check().expect("a legal configuration"));
        let (version, counters) = (params.config().version_max, Arc::default());
        let endpoint = ClientConnection::new(self.now, &params, &counters, version, self.rng.next_u64());
        let provider = ProviderId(self.distributors[at].next_provider());
        self.distributors[at].upstream = Some(Upstream { provider, connection, endpoint });
        self.send_to_providers(at);
        self.touched.insert(Node::Distributor(at));
    }

    pub(super) fn upstream_bytes(&mut self, at: usize, bytes: &[u8]) {
        let mut inbox = Inbox::default();
        let Some(known) = &mut self.distributors[at].upstream else { return };
        let provider = known.provider;
        let result = known.endpoint.on_bytes(self.now, bytes, &mut inbox);
        if inbox.is_connected {
            let spec =
                DialSpec { name: "upstream".to_owned(), user: "pop".to_owned(), ..DialSpec::default() };
            self.with_distributor(at, |core, now, out| core.on_dialled(now, provider, Arc::new(spec), out));
        }
        for message in inbox.messages {
            self.with_distributor(at, |core, now, out| {
                core.on_provider_message(now, provider, &message, out).expect("a legal server");
            });
        }
        self.send_to_providers(at);
        if result.is_err() {
            self.upstream_gone(at);
        }
    }

    pub(super) fn upstream_gone(&mut self, at: usize) {
        if let Some(known) = self.distributors[at].upstream.take() {
            self.close(known.connection, Side::Caller);
            let provider = known.provider;
            self.with_distributor(at, |core, now, out| core.on_provider_closed(now, provider, out));
            if let Some(server) = self.distributors[at].inside {
                self.redial(server, at);
            }
        }
    }
}

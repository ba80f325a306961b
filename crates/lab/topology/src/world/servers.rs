//! Point-to-point servers: the cores of `market`, and RSSL or JSON over WebSocket to each client.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use counters::table::{RsslConnections, WebSocketConnections};
use market::ServiceNames;
use market::p2ps::{ClientId, ServerConfig};
use rwf::Msg;
use rwf_json::{Converter, Incoming, Options, Reader, Services, write_pong};
use sim::parts::{FromServer, Server, ServerOut};
use units::Nanos;

use super::backbone::Source;
use super::connections::Side;
use super::distributors::Inbox;
use super::{Event, Node, World};
use crate::plan::Host;

pub(super) struct ServerNode {
    pub(super) core: Server,
    pub(super) is_up: bool,
    /// Starts so far.
    pub(super) life: u32,
    /// The source distributor of a point of presence, in the same process.
    pub(super) own: Option<usize>,
    pub(super) links: BTreeMap<u64, usize>,
    /// Names of services whose topics are joined.
    pub(super) wanted: BTreeSet<String>,
    /// Runs of distributors that are heard.
    pub(super) sources: BTreeMap<u64, Source>,
    pub(super) next_source: u32,
    clients: BTreeMap<ClientId, Served>,
    next_client: u32,
    /// Clients whose updates are conflated.
    slow: BTreeSet<ClientId>,
    /// Clients that are to be sent something when they have room.
    due: BTreeSet<ClientId>,
}

struct Served {
    connection: usize,
    endpoint: Endpoint,
    is_dirty: bool,
}

enum Endpoint {
    Rssl(Box<rssl::ServerConnection>),
    Web(Box<websocket::ServerConnection>, Reader),
}

/// What a connection over WebSocket brings.
#[derive(Default)]
struct Texts {
    is_connected: bool,
    texts: Vec<String>,
}

impl websocket::Handler for Texts {
    fn on_connected(
        &mut self,
        _: &websocket::Session<'_>,
        _: &mut websocket::Outbound,
    ) -> ControlFlow<websocket::Stop> {
        self.is_connected = true;
        ControlFlow::Continue(())
    }
    fn on_message(
        &mut self,
        message: websocket::Message<'_>,
        _: &mut websocket::Outbound,
    ) -> ControlFlow<websocket::Stop> {
        match message {
            websocket::Message::Text(text) => self.texts.push(text.to_owned()),
            websocket::Message::Binary(_) => panic!("a client speaks JSON"),
        }
        ControlFlow::Continue(())
    }
}

/// The services that clients see.
struct Names(Vec<(u16, String)>);

impl Names {
    fn of(core: &Server) -> Names {
        Names(core.services().map(|(id, name, ..)| (id, name.to_owned())).collect())
    }
}

impl Services for Names {
    fn name(&self, service_id: u16) -> Option<&str> {
        self.0.iter().find(|(id, _)| *id == service_id).map(|(_, name)| name.as_str())
    }
    fn id(&self, name: &str) -> Option<u16> {
        self.0.iter().find(|(_, known)| known == name).map(|(id, _)| *id)
    }
}

impl ServerNode {
    pub(super) fn next_wakeup(&self) -> Nanos {
        if !self.is_up {
            return Nanos::NEVER;
        }
        let clients = self.clients.values().map(|served| match &served.endpoint {
            Endpoint::Rssl(endpoint) => endpoint.next_wakeup(),
            Endpoint::Web(endpoint, _) => endpoint.next_wakeup(),
        });
        let sources = self.sources.values().map(|source| source.receiver.next_wakeup());
        let due = if self.due.is_empty() { Nanos::NEVER } else { Nanos::ZERO };
        clients.chain(sources).min().unwrap_or(Nanos::NEVER).min(self.core.next_wakeup()).min(due)
    }

    pub(super) fn next_client(&mut self) -> ClientId {
        self.next_client += 1;
        ClientId(self.next_client)
    }

    pub(super) fn describe(&self) -> String {
        format!(
            "up {}, life {}, wants {:?}, links {:x?}, heard {:x?}, services {:x?}, clients {}",
            self.is_up,
            self.life,
            self.wanted,
            self.links.keys().collect::<Vec<_>>(),
            self.sources.iter().map(|(instance, source)| (instance, &source.topics)).collect::<Vec<_>>(),
            self.core.services().collect::<Vec<_>>(),
            self.clients.len()
        )
    }
}

impl World {
    /// The process of a server, with the source distributor of a point of presence in it.
    pub(super) fn new_server(&mut self, at: usize) -> ServerNode {
        let own = self.plan.servers[at].upstream.map(|_| {
            let place = self.distributors.len();
            let node = self.new_distributor(place, Host::Server(at));
            self.distributors.push(node);
            place
        });
        let node = self.new_server_node(at, own, 0);
        if let Some(own) = own {
            self.redial(at, own);
        }
        node
    }

    fn new_server_node(&mut self, at: usize, own: Option<usize>, life: u32) -> ServerNode {
        let plan = &self.plan.servers[at];
        let uncached: ServiceNames =
            (!plan.has_cache).then(|| ServiceNames::ALL.to_owned()).into_iter().collect();
        let config = ServerConfig {
            images_outstanding_max: 5,
            image_timeout: Duration::from_secs(1),
            item_linger: Duration::from_millis(500),
            cleanups_per_turn: 3,
            kept_images_max: (plan.shards > 0).then_some(plan.kept_images),
            uncached,
            ..ServerConfig::default()
        };
        let (peer, shards) = (self.rng.next_u64() >> 1, plan.shards);
        let counters = (Arc::default(), Arc::default());
        let core = Server::configured(peer, shards, &config, &self.dictionary, &counters.0, &counters.1);
        self.touched.insert(Node::Server(at));
        ServerNode {
            core,
            is_up: true,
            life,
            own,
            links: BTreeMap::new(),
            wanted: BTreeSet::new(),
            sources: BTreeMap::new(),
            next_source: 0,
            clients: BTreeMap::new(),
            next_client: 0,
            slow: BTreeSet::new(),
            due: BTreeSet::new(),
        }
    }

    pub(super) fn server_dies(&mut self, at: usize) {
        let node = &mut self.servers[at];
        node.is_up = false;
        node.clients.clear();
        node.sources.clear();
        node.links.clear();
        if let Some(own) = node.own {
            self.distributor_dies(own);
        }
    }

    pub(super) fn server_starts(&mut self, at: usize) {
        let (own, life) = (self.servers[at].own, self.servers[at].life + 1);
        self.servers[at] = self.new_server_node(at, own, life);
        if let Some(own) = own {
            self.distributor_starts(own, Host::Server(at));
        }
        self.found_everything(at);
    }

    pub(super) fn server_turn(&mut self, at: usize) {
        self.touched.insert(Node::Server(at));
        let now = self.now;
        if !self.servers[at].is_up {
            return;
        }
        self.hear_sources(at);
        let mut over = Vec::new();
        for (client, served) in &mut self.servers[at].clients {
            let is_over = match &mut served.endpoint {
                Endpoint::Rssl(endpoint) => endpoint.next_wakeup() <= now && endpoint.on_wakeup(now).is_err(),
                Endpoint::Web(endpoint, _) => {
                    endpoint.next_wakeup() <= now && endpoint.on_wakeup(now).is_err()
                }
            };
            served.is_dirty = true;
            if is_over {
                over.push(*client);
            }
        }
        over.into_iter().for_each(|client| self.served_gone(at, client));
        if self.servers[at].core.next_wakeup() <= now {
            self.with_server(at, |core, now, out| core.on_wakeup(now, out));
        }
        for client in std::mem::take(&mut self.servers[at].due) {
            let mut has_more = self.servers[at].slow.contains(&client);
            if !has_more {
                self.with_server(at, |core, now, out| has_more = core.send_due_images(now, client, out));
            }
            if has_more && self.servers[at].clients.contains_key(&client) {
                self.servers[at].due.insert(client);
            }
        }
        self.send_to_clients(at);
    }

    /// Lets the core do something, and carries out what it decides.
    pub(super) fn with_server(&mut self, at: usize, act: impl FnOnce(&mut Server, Nanos, &mut ServerOut)) {
        self.touched.insert(Node::Server(at));
        let (now, lags) = (self.now, self.plan.lags && self.rng.chance(0.2));
        let node = &mut self.servers[at];
        if !node.is_up {
            return;
        }
        let mut out = ServerOut { lags, slow: node.slow.clone(), ..ServerOut::default() };
        act(&mut node.core, now, &mut out);
        let due = node.core.take_due_clients();
        node.due.extend(due);
        for decision in out.decisions {
            match decision {
                FromServer::Client(client, bytes) => self.put_to_client(at, client, &bytes),
                FromServer::Subscribe(name) => {
                    self.servers[at].wanted.insert(name);
                    self.found_everything(at);
                }
                FromServer::Unsubscribe(name) => self.leave_topics(at, &name),
                FromServer::Connect(instance) => {
                    let life = self.servers[at].life;
                    self.later(Duration::from_millis(10), Event::Link { server: at, life, instance });
                }
                FromServer::Disconnect(instance) => {
                    if let Some(connection) = self.servers[at].links.remove(&instance) {
                        self.close(connection, Side::Caller);
                    }
                }
                FromServer::Link(instance, bytes) => {
                    if let Some(&connection) = self.servers[at].links.get(&instance) {
                        self.send(connection, Side::Caller, &bytes);
                    }
                }
                FromServer::RoundEnds(_) => {}
            }
        }
        self.send_to_clients(at);
    }
}

/// Connections of clients.
impl World {
    pub(super) fn serve_client(&mut self, at: usize, client: ClientId, connection: usize, is_web: bool) {
        let (now, seed) = (self.now, self.rng.next_u64());
        let endpoint = if is_web {
            let config = Arc::new(websocket::ServerConfig::default());
            let counters = Arc::new(WebSocketConnections::default());
            let endpoint = websocket::ServerConnection::new(now, &config, &counters);
            Endpoint::Web(Box::new(endpoint), Reader::new())
        } else {
            let message_size_bytes = self.plan.message_size;
            let params = rssl::ServerConfig { message_size_bytes, ..rssl::ServerConfig::default() };
            let params = Arc::new(params.check().expect("a legal configuration"));
            let counters = Arc::new(RsslConnections::default());
            Endpoint::Rssl(Box::new(rssl::ServerConnection::new(now, &params, &counters, seed)))
        };
        self.servers[at].clients.insert(client, Served { connection, endpoint, is_dirty: false });
        self.touched.insert(Node::Server(at));
    }

    /// Puts a message of the core into a client's connection.
    fn put_to_client(&mut self, at: usize, client: ClientId, msg: &[u8]) {
        let node = &mut self.servers[at];
        // It is gone, and its streams are not off all items yet.
        let Some(served) = node.clients.get_mut(&client) else { return };
        served.is_dirty = true;
        match &mut served.endpoint {
            Endpoint::Rssl(endpoint) => {
                endpoint.outbound().push(msg).expect("there is room");
            }
            Endpoint::Web(endpoint, _) => {
                let names = Names::of(&node.core);
                let converter = Converter::new(&self.dictionary, &names, Options::default());
                let mut text = b"[".to_vec();
                let msg = Msg::parse(msg).expect("a core sends whole messages");
                converter.write(&msg, &mut text).expect("the message is of known fields");
                text.push(b']');
                let text = str::from_utf8(&text).expect("JSON is text");
                endpoint.outbound().push(websocket::Message::Text(text)).expect("there is room");
            }
        }
    }

    fn send_to_clients(&mut self, at: usize) {
        let mut sent = Vec::new();
        for served in self.servers[at].clients.values_mut() {
            if !std::mem::take(&mut served.is_dirty) {
                continue;
            }
            let bytes = match &mut served.endpoint {
                Endpoint::Rssl(endpoint) => {
                    let bytes = endpoint.outbound().flush().to_vec();
                    endpoint.outbound().consume(bytes.len());
                    bytes
                }
                Endpoint::Web(endpoint, _) => {
                    let bytes = endpoint.outbound().pending().to_vec();
                    endpoint.outbound().consume(bytes.len());
                    bytes
                }
            };
            sent.push((served.connection, bytes));
        }
        for (connection, bytes) in sent {
            self.send(connection, Side::Called, &bytes);
        }
    }

    pub(super) fn served_bytes(&mut self, at: usize, client: ClientId, bytes: &[u8]) {
        let now = self.now;
        let node = &mut self.servers[at];
        let Some(served) = node.clients.get_mut(&client) else { return };
        served.is_dirty = true;
        let (mut inbox, mut is_pinged, mut is_over) = (Inbox::default(), false, false);
        match &mut served.endpoint {
            Endpoint::Rssl(endpoint) => is_over = endpoint.on_bytes(now, bytes, &mut inbox).is_err(),
            Endpoint::Web(endpoint, reader) => {
                let mut texts = Texts::default();
                is_over |= endpoint.on_bytes(now, bytes, &mut texts).is_err();
                inbox.is_connected = texts.is_connected;
                let names = Names::of(&node.core);
                let converter = Converter::new(&self.dictionary, &names, Options::default());
                for text in texts.texts {
                    // A request for a service that has gone meanwhile is refused, which a client takes for a closed item.
                    let read = reader.read_frame(&converter, text.as_bytes(), |incoming| match incoming {
                        Incoming::Message { rwf, .. } => inbox.messages.push(rwf.to_vec()),
                        Incoming::Ping => is_pinged = true,
                        Incoming::Pong => {}
                        Incoming::Error(error) => {
                            panic!("a client says {:?}", String::from_utf8_lossy(error.text))
                        }
                    });
                    read.unwrap_or_else(|refusal| panic!("a client's message is refused: {refusal}: {text}"));
                }
                if is_pinged {
                    let mut pong = b"[".to_vec();
                    write_pong(&mut pong);
                    pong.push(b']');
                    let pong = str::from_utf8(&pong).expect("JSON is text");
                    endpoint.outbound().push(websocket::Message::Text(pong)).expect("there is room");
                }
            }
        }
        if inbox.is_connected {
            self.with_server(at, |core, _, _| core.on_client_connected(client));
        }
        for message in inbox.messages {
            self.with_server(at, |core, now, out| {
                is_over |= core.on_client_message(now, client, &message, out).is_err();
            });
        }
        self.send_to_clients(at);
        if is_over {
            self.served_gone(at, client);
        }
    }

    pub(super) fn served_gone(&mut self, at: usize, client: ClientId) {
        let node = &mut self.servers[at];
        if let Some(served) = node.clients.remove(&client) {
            node.slow.remove(&client);
            node.due.remove(&client);
            self.close(served.connection, Side::Called);
            self.with_server(at, |core, now, out| core.on_client_closed(now, client, out));
        }
    }

    /// A client reads too slowly, or does so no more.
    pub(super) fn set_slow(&mut self, client: usize, is_slow: bool) {
        let at = self.plan.clients[client].server;
        let Some(served) = self.served_client(client) else { return };
        let node = &mut self.servers[at];
        if is_slow != node.slow.contains(&served) {
            if is_slow {
                self.oracles[client].is_lenient = true;
                node.slow.insert(served);
            } else {
                node.slow.remove(&served);
            }
            self.with_server(at, |core, now, out| core.set_conflated(now, served, is_slow, out));
        }
    }

    fn served_client(&self, client: usize) -> Option<ClientId> {
        let connection = self.clients[client].connection()?;
        let served = self.servers[self.plan.clients[client].server].clients.iter();
        let mut found = served.filter(|(_, served)| served.connection == connection);
        found.next().map(|(id, _)| *id)
    }
}

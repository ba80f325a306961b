//! Clients: `client::ConsumerCore`, over RSSL or JSON over WebSocket, with an application that checks what it sees.

use client::{
    Compression, ConnectFailure, ConsumerConfig, ConsumerCore, DictionaryMode, Endpoint as _, HostPort,
    ItemHandle, ItemRequestSpec, WebSocketConfig,
};
use units::{Nanos, Rng};

use super::connections::{Dialler, End};
use super::providers::{identity, item_name, service_name};
use super::{Event, Node, World};
use crate::plan::Host;

pub(super) struct ClientNode {
    core: ConsumerCore,
    pub(super) is_up: bool,
    pub(super) dialler: Dialler,
    /// Its items; none that it does not want.
    items: Vec<Option<ItemHandle>>,
}

impl ClientNode {
    pub(super) fn next_wakeup(&self) -> Nanos {
        if self.is_up { self.core.next_wakeup() } else { Nanos::NEVER }
    }

    pub(super) fn wants(&self, item: usize) -> bool {
        self.is_up && self.items[item].is_some()
    }

    pub(super) fn describe(&self) -> String {
        let states = self.items.iter().flatten().map(|item| self.core.item_state(*item));
        format!(
            "up {}, logged in {}, connection {:?}, states {:?}",
            self.is_up,
            self.core.is_logged_in(),
            self.dialler.connection,
            states.collect::<Vec<_>>()
        )
    }
}

/// After this an application asks again for an item that was closed.
const ASKS_AGAIN: std::time::Duration = std::time::Duration::from_millis(300);

impl World {
    /// A process that wants its items and has not started.
    pub(super) fn new_client(&mut self, at: usize) -> ClientNode {
        let plan = &self.plan.clients[at];
        let config = ConsumerConfig {
            hosts: vec![HostPort::new("server", 14_002)],
            websocket: plan
                .websocket
                .then(|| WebSocketConfig { compression: plan.compression, ..WebSocketConfig::default() }),
            compression: plan.compression.then_some(Compression::Lz4),
            connect_timeout_ms: 1_000,
            reconnect_delay_min_ms: 50,
            reconnect_delay_max_ms: 300,
            item_retry_delay_ms: 200,
            dictionary: DictionaryMode::None,
            keep_images: true,
            ..ConsumerConfig::default()
        };
        // It wants the same items after each start.
        let mut appetite = Rng::new(self.plan.seed ^ (at as u64 + 1) << 40);
        let core = ConsumerCore::new(&config, &identity(), self.rng.next_u64());
        let mut core = core.expect("a legal configuration");
        core.set_dictionary(self.dictionary.clone());
        let count = self.items.len();
        let wanted = (0..count).map(|item| item == at % count || appetite.chance(plan.appetite));
        let wanted: Vec<bool> = wanted.collect();
        let items = (0..count).map(|item| wanted[item].then(|| subscribe(&mut core, item, self.items[item])));
        let items = items.collect();
        ClientNode { core, is_up: false, dialler: Dialler::default(), items }
    }

    /// Does what a client has to do now.
    pub(super) fn client_turn(&mut self, at: usize) {
        self.touched.insert(Node::Client(at));
        let now = self.now;
        let (node, oracle) = (&mut self.clients[at], &mut self.oracles[at]);
        if !node.is_up {
            return;
        }
        let wanted = node.dialler.turn(now, &mut node.core, &mut |event| oracle.on_event(&event));
        wanted.carry_out(self, Host::Client(at));
        for item in 0..self.items.len() {
            if std::mem::take(&mut self.oracles[at].items[item].is_closed) {
                self.queue.put(now + ASKS_AGAIN, Event::Resubscribe(at, item));
            }
        }
    }

    pub(super) fn client_dialled(&mut self, at: usize) {
        let (now, to) = (self.now, self.plan.clients[at].server);
        let (node, oracle) = (&mut self.clients[at], &mut self.oracles[at]);
        if !self.servers[to].is_up {
            let failure = ConnectFailure::Io(std::io::ErrorKind::ConnectionRefused);
            node.core.on_connect_failed(now, failure, &mut |event| oracle.on_event(&event));
            return self.client_turn(at);
        }
        let client = self.servers[to].next_client();
        let hosts = (Host::Client(at), Host::Server(to));
        let connection = self.connect((hosts.0, End::Client(at)), (hosts.1, End::Served(to, client)));
        self.serve_client(to, client, connection, self.plan.clients[at].websocket);
        self.clients[at].dialler.connection = Some(connection);
        self.clients[at].core.on_established(now);
        self.client_turn(at);
    }

    pub(super) fn client_bytes(&mut self, at: usize, bytes: &[u8]) {
        let (now, node, oracle) = (self.now, &mut self.clients[at], &mut self.oracles[at]);
        node.core.on_bytes(now, bytes, &mut |event: client::ConsumerEvent<'_>| oracle.on_event(&event));
        self.client_turn(at);
    }

    pub(super) fn client_disconnected(&mut self, at: usize) {
        let (now, node, oracle) = (self.now, &mut self.clients[at], &mut self.oracles[at]);
        node.dialler.connection = None;
        node.core.on_disconnected(now, rssl::Disconnect::EndOfStream, &mut |event| oracle.on_event(&event));
        self.client_turn(at);
    }

    /// The application asks again for an item that was closed.
    pub(super) fn resubscribe(&mut self, at: usize, item: usize) {
        let node = &mut self.clients[at];
        if let Some(handle) = node.items[item].filter(|_| node.is_up) {
            node.core.unsubscribe(handle);
            self.oracles[at].items[item].is_ok = false;
            node.items[item] = Some(subscribe(&mut node.core, item, self.items[item]));
            self.client_turn(at);
        }
    }

    /// The application ends a stream and asks for the item again.
    pub(super) fn reopen(&mut self, at: usize, item: usize) {
        self.resubscribe(at, item);
    }
}

fn subscribe(core: &mut ConsumerCore, item: usize, (service, place): (usize, usize)) -> ItemHandle {
    let (service, name) = (service_name(service), item_name(place));
    let spec =
        ItemRequestSpec { conflation_info: true, tag: item as u64, ..ItemRequestSpec::new(&service, &name) };
    core.subscribe(&spec).expect("a legal item")
}

impl ClientNode {
    /// Its connection, if it has one.
    pub(super) fn connection(&self) -> Option<usize> {
        self.dialler.connection
    }
}

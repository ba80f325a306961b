//! What stands between distributors and servers: datagrams, streams of bytes, messages, and links.

use std::collections::BTreeMap;
use std::time::Duration;

use market::distributor::PeerId;
use market::p2ps::{SourceId, Topic};
use units::Nanos;

use super::connections::{End, Side};
use super::{Event, Node, World};
use crate::carrier::{Heard, Receiver, Sent, TopicKey};
use crate::oracle::mix;
use crate::plan::{Carrier, Host};

/// A run of a distributor as a server hears it.
pub(super) struct Source {
    pub(super) distributor: usize,
    pub(super) receiver: Receiver,
    pub(super) topics: BTreeMap<TopicKey, SourceId>,
    /// The connection of a stream of bytes.
    connection: Option<usize>,
}

/// The way of datagrams from a distributor to a server, or back.
#[derive(Default)]
pub(super) struct Line {
    is_bad: bool,
    /// Nothing arrives before what was sent before it, but for what is held back.
    last: [Nanos; 2],
}

/// A topic is found, or seen to be gone, within this time.
const FOUND: Duration = Duration::from_millis(50);
const END_NOTICED: Duration = Duration::from_millis(200);
/// A server looks again for what it does not hear.
const LOOK_AGAIN: Duration = Duration::from_millis(300);

/// Sending.
impl World {
    fn host_of(&self, distributor: usize) -> Host {
        self.distributors[distributor].inside.map_or(Host::Distributor(distributor), Host::Server)
    }

    /// The servers that a distributor is heard by.
    fn servers_of(&self, distributor: usize) -> Vec<usize> {
        match self.distributors[distributor].inside {
            Some(server) => vec![server],
            None => {
                (0..self.plan.servers.len()).filter(|at| self.plan.servers[*at].upstream.is_none()).collect()
            }
        }
    }

    pub(super) fn send_message(&mut self, at: usize, topic: TopicKey, bytes: Vec<u8>) {
        if !self.distributors[at].sender.is_plain() {
            return self.distributors[at].sender.send(self.now, topic, bytes);
        }
        let instance = self.distributors[at].core.instance();
        let is_memory = self.distributors[at].inside.is_some();
        for server in self.servers_of(at) {
            let arrives = if is_memory { self.now } else { self.passes(at, server, false) };
            if arrives == Nanos::NEVER {
                continue;
            }
            // What arrives keeps its order.
            let line = self.lines.entry((at, server)).or_default();
            line.last[0] = line.last[0].max(arrives);
            let (arrives, bytes) = (line.last[0], bytes.clone());
            self.queue.put(arrives, Event::Message { distributor: at, instance, server, topic, bytes });
        }
    }

    /// Sends what carriers have to send.
    pub(super) fn send_streams(&mut self, at: usize) {
        self.touched.insert(Node::Distributor(at));
        let mut sent = Vec::new();
        self.distributors[at].sender.turn(self.now, &mut self.rng, &mut sent);
        for one in sent {
            match one {
                Sent::Datagram(to, bytes) => {
                    let servers = to.map_or_else(|| self.servers_of(at), |server| vec![server]);
                    for server in servers {
                        self.send_datagram(at, server, false, &bytes);
                    }
                }
                Sent::Bytes(bytes) => {
                    for connection in self.distributors[at].listeners.clone() {
                        self.send(connection, Side::Called, &bytes);
                    }
                }
            }
        }
    }

    /// When a datagram arrives; never if it is lost.
    fn passes(&mut self, distributor: usize, server: usize, is_back: bool) -> Nanos {
        let (a, b) = (self.host_of(distributor), Host::Server(server));
        let is_cut = if is_back { self.passes_at(b, a) } else { self.passes_at(a, b) } > self.now;
        let delay = self.span(self.plan.weather.delay);
        if self.is_healed {
            return self.now + delay;
        }
        let weather = &self.plan.weather;
        let line = self.lines.entry((distributor, server)).or_default();
        let change = if line.is_bad { weather.to_good } else { weather.to_bad };
        line.is_bad ^= self.rng.chance(change);
        let loss = if line.is_bad { weather.loss_bad } else { weather.loss };
        if self.rng.chance(loss) || is_cut {
            self.outcome.datagrams_lost += 1;
            return Nanos::NEVER;
        }
        let line = self.lines.entry((distributor, server)).or_default();
        if self.rng.chance(weather.reorder) {
            return self.now
                + delay
                + Duration::from_nanos(self.rng.below(weather.reorder_by.as_nanos() as u64));
        }
        let last = &mut line.last[usize::from(is_back)];
        *last = (self.now + delay).max(*last);
        *last
    }

    fn send_datagram(&mut self, distributor: usize, server: usize, is_back: bool, bytes: &[u8]) {
        self.outcome.digest =
            mix(self.outcome.digest, bytes.len() as u64 ^ u64::from(bytes[bytes.len() / 2]) << 32);
        let is_double = !self.is_healed && self.rng.chance(self.plan.weather.duplicate);
        for _ in 0..1 + usize::from(is_double) {
            let at = self.passes(distributor, server, is_back);
            if at != Nanos::NEVER {
                let bytes = bytes.to_vec();
                self.queue.put(
                    at,
                    if is_back {
                        Event::Feedback { distributor, server, bytes }
                    } else {
                        Event::Data { distributor, server, bytes }
                    },
                );
            }
        }
    }
}

/// Finding and losing.
impl World {
    /// Servers may find a topic of a distributor.
    pub(super) fn announce(&mut self, at: usize, topic: TopicKey) {
        let instance = self.distributors[at].core.instance();
        for server in self.servers_of(at) {
            self.later(FOUND, Event::Found { distributor: at, instance, server, topic });
        }
    }

    /// Servers of carriers that have no session of their own notice that a run is over, or one of its topics.
    pub(super) fn announce_end(&mut self, at: usize, topic: Option<TopicKey>) {
        let instance = self.distributors[at].core.instance();
        for server in self.servers_of(at) {
            if self.distributors[at].sender.is_plain() || topic.is_some() {
                self.later(END_NOTICED, Event::Ended { server, instance, topic });
            }
        }
    }

    /// A server may find what there is.
    pub(super) fn found_everything(&mut self, server: usize) {
        for distributor in 0..self.distributors.len() {
            if self.servers_of(distributor).contains(&server) && self.distributors[distributor].is_up {
                let instance = self.distributors[distributor].core.instance();
                let topics: Vec<TopicKey> = self.distributors[distributor].topics.keys().copied().collect();
                for topic in topics {
                    self.later(FOUND, Event::Found { distributor, instance, server, topic });
                }
            }
        }
    }

    pub(super) fn found(&mut self, distributor: usize, instance: u64, server: usize, topic: TopicKey) {
        let now = self.now;
        let node = &self.distributors[distributor];
        let Some(name) = node.topics.get(&topic).cloned() else { return };
        let exists = node.is_up && node.core.instance() == instance && self.servers[server].is_up;
        let is_wanted = topic.is_none() || self.servers[server].wanted.contains(&name);
        let known = self.servers[server].sources.get(&instance);
        if !exists || !is_wanted || known.is_some_and(|source| source.topics.contains_key(&topic)) {
            return;
        }
        let (a, b) = (self.host_of(distributor), Host::Server(server));
        if self.passes_at(a, b) > now {
            return self.later(LOOK_AGAIN, Event::Found { distributor, instance, server, topic });
        }
        if known.is_none() {
            let carrier = node.inside.is_none().then_some(self.plan.carrier);
            let (session, client) = (node.session, self.rng.next_u32());
            let numbers = (session, client, self.rng.next_u64());
            let receiver = Receiver::new(carrier, self.plan.small_window, distributor, numbers, now);
            let connection = (carrier == Some(Carrier::Ordered)).then(|| {
                let ends = (End::StreamIn(server, instance), End::StreamOut(distributor));
                let connection = self.connect((b, ends.0), (a, ends.1));
                self.distributors[distributor].listeners.push(connection);
                connection
            });
            let source = Source { distributor, receiver, topics: BTreeMap::new(), connection };
            self.servers[server].sources.insert(instance, source);
        }
        let node = &mut self.servers[server];
        let id = SourceId(node.next_source);
        node.next_source += 1;
        let source = node.sources.get_mut(&instance).expect("it was just there");
        source.topics.insert(topic, id);
        source.receiver.subscribe(topic, u64::from(id.0));
        let topic = if topic.is_some() { Topic::Service(&name) } else { Topic::Directory };
        self.with_server(server, |core, now, out| core.on_source(now, id, topic, instance, out));
    }

    /// A server joins the topic of a service no more.
    pub(super) fn leave_topics(&mut self, server: usize, name: &str) {
        self.servers[server].wanted.remove(name);
        let distributors = &self.distributors;
        for source in self.servers[server].sources.values_mut() {
            let named = distributors[source.distributor].topics.iter().filter(|(_, known)| *known == name);
            for (topic, _) in named {
                if topic.is_some() && source.topics.remove(topic).is_some() {
                    source.receiver.unsubscribe(*topic);
                }
            }
        }
    }

    pub(super) fn source_ended(&mut self, server: usize, instance: u64, topic: Option<TopicKey>) {
        let Some(source) = self.servers[server].sources.get_mut(&instance) else { return };
        let gone: Vec<SourceId> = match topic {
            Some(topic) => {
                source.receiver.unsubscribe(topic);
                source.topics.remove(&topic).into_iter().collect()
            }
            None => std::mem::take(&mut source.topics).into_values().collect(),
        };
        if topic.is_none()
            && let Some(source) = self.servers[server].sources.remove(&instance)
            && let Some(connection) = source.connection
        {
            self.close(connection, Side::Caller);
        }
        for id in gone {
            self.with_server(server, |core, now, out| core.on_source_ended(now, id, out));
        }
    }
}

/// Receiving.
impl World {
    pub(super) fn data_arrived(&mut self, distributor: usize, server: usize, bytes: &[u8]) {
        let now = self.now;
        let instances: Vec<u64> = self.servers[server].sources.keys().copied().collect();
        for instance in instances {
            let source = self.servers[server].sources.get_mut(&instance).expect("it was just there");
            if source.distributor == distributor {
                let mut heard = Heard::default();
                source.receiver.on_datagram(now, distributor, bytes, &mut heard);
                self.hand_on(server, instance, heard);
            }
        }
        self.hear_sources(server);
    }

    pub(super) fn message_arrived(
        &mut self,
        distributor: usize,
        instance: u64,
        server: usize,
        topic: TopicKey,
        bytes: &[u8],
    ) {
        let source =
            self.servers[server].sources.get(&instance).filter(|known| known.distributor == distributor);
        if let Some(id) = source.and_then(|source| source.topics.get(&topic)).copied() {
            self.with_server(server, |core, now, out| {
                core.on_stream_message(now, id, bytes, out).expect("a legal instance");
            });
        }
    }

    pub(super) fn stream_bytes(&mut self, server: usize, instance: u64, bytes: &[u8]) {
        let Some(source) = self.servers[server].sources.get_mut(&instance) else { return };
        let mut heard = Heard::default();
        source.receiver.on_bytes(bytes, &mut heard);
        self.hand_on(server, instance, heard);
        self.hear_sources(server);
    }

    pub(super) fn stream_closed(&mut self, server: usize, instance: u64) {
        let Some(source) = self.servers[server].sources.get_mut(&instance) else { return };
        let mut heard = Heard::default();
        source.receiver.on_closed(&mut heard);
        self.hand_on(server, instance, heard);
        self.hear_sources(server);
    }

    /// Gives the core what a receiver has brought.
    fn hand_on(&mut self, server: usize, instance: u64, heard: Heard) {
        self.outcome.messages_lost += heard.lost;
        for (token, bytes) in heard.messages {
            let known = self.servers[server].sources.get(&instance);
            let id = SourceId(token as u32);
            if known.is_some_and(|source| source.topics.values().any(|known| *known == id)) {
                self.with_server(server, |core, now, out| {
                    core.on_stream_message(now, id, &bytes, out).expect("a legal instance");
                });
            }
        }
    }

    /// Receivers do what is due; those that have ended are forgotten.
    pub(super) fn hear_sources(&mut self, server: usize) {
        self.touched.insert(Node::Server(server));
        let now = self.now;
        let instances: Vec<u64> = self.servers[server].sources.keys().copied().collect();
        for instance in instances {
            let Some(source) = self.servers[server].sources.get_mut(&instance) else { continue };
            let (mut heard, distributor) = (Heard::default(), source.distributor);
            let feedback = source.receiver.turn(now, &mut heard);
            let has_ended = source.receiver.has_ended();
            for bytes in feedback {
                self.send_datagram(distributor, server, true, &bytes);
            }
            self.hand_on(server, instance, heard);
            if has_ended {
                self.source_ended(server, instance, None);
                // If it is there all the same it is found again.
                let topics: Vec<TopicKey> = self.distributors[distributor].topics.keys().copied().collect();
                for topic in topics {
                    self.later(LOOK_AGAIN, Event::Found { distributor, instance, server, topic });
                }
            }
        }
    }
}

/// Links.
impl World {
    pub(super) fn link_made(&mut self, server: usize, life: u32, instance: u64) {
        if !self.servers[server].is_up || self.servers[server].life != life {
            return;
        }
        let runs = self.distributors.iter();
        let found = runs.clone().position(|node| node.is_up && node.core.instance() == instance);
        let found = found.filter(|at| {
            let (a, b) = (self.host_of(*at), Host::Server(server));
            self.passes_at(a, b) == self.now && self.passes_at(b, a) == self.now
        });
        let Some(at) = found else {
            return self.with_server(server, |core, now, out| core.on_link_down(now, instance, out));
        };
        let peer = PeerId(self.distributors[at].next_provider());
        let hosts = (Host::Server(server), self.host_of(at));
        let connection =
            self.connect((hosts.0, End::LinkUp(server, instance)), (hosts.1, End::LinkDown(at, peer)));
        self.servers[server].links.insert(instance, connection);
        self.distributors[at].links.insert(peer, connection);
        self.with_distributor(at, |core, _, _| core.on_peer_connected(peer));
        self.with_server(server, |core, now, out| core.on_link_up(now, instance, out));
    }

    /// What a server has taken of each stream is what was published.
    pub(super) fn check_positions(&self, server: usize) {
        for (instance, source) in &self.servers[server].sources {
            let node = &self.distributors[source.distributor];
            if node.core.instance() != *instance {
                continue;
            }
            for published in node.core.ledger() {
                if let Some(position) = self.servers[server].core.position_of(*instance, published.service) {
                    assert_eq!(
                        position, published.sequence,
                        "ledger: server {server} has another position in {}",
                        published.service
                    );
                }
            }
        }
    }
}

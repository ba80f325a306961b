//! One source, several receivers, a network between them, and a clock that jumps to whatever is next.

use crate::ends::{Hearer, Sender, Transport, receiver_bytes_max, session_of};
use crate::network::Network;
use crate::oracle::{Oracle, Sent, Stream, content};
use crate::outcome::Outcome;
use crate::plan::{MS, NodePlan, Plan};
use counters::table::{LbmDelivery, ReliableReceiver, ReliableSource};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use tickcast_lbt::config::Order;
use tickcast_lbt::session::TopicId;
use units::{Nanos, Rng, Sqn};

const FIRST_TOPIC: u32 = 1_000;
/// Packets that wait in the socket of somebody who stands still; further ones are lost.
const SOCKET_PACKETS: usize = 200;

pub(crate) struct World {
    pub(crate) plan: Plan,
    now: Nanos,
    rng: Rng,
    network: Network,
    sessions: Vec<Session>,
    nodes: Vec<Node>,
    bursts_done: usize,
    /// Messages of a burst that the source would not take yet.
    waiting: u32,
    /// What arrived while the source stood still, and from which node.
    inbox: VecDeque<(usize, Vec<u8>)>,
    /// The source was stopped.
    gone: bool,
    /// What passes the source's network card.
    pub(crate) tap: Option<Vec<Tapped>>,
}

/// A packet seen at the source.
pub(crate) struct Tapped {
    pub(crate) at: Nanos,
    /// Whether it goes to the source.
    pub(crate) inbound: bool,
    /// The node at the other end; none for what goes to a group.
    pub(crate) node: Option<usize>,
    pub(crate) datagram: Vec<u8>,
}

pub(crate) struct Session {
    source: Sender,
    pub(crate) id: u32,
    topics: Vec<TopicId>,
    pub(crate) sent: Sent,
    pub(crate) counters: Arc<ReliableSource>,
    memory_max: usize,
}

pub(crate) struct Node {
    pub(crate) plan: NodePlan,
    inbox: VecDeque<Vec<u8>>,
    pub(crate) heard: BTreeMap<u32, Heard>,
}

/// One session at one node.
pub(crate) struct Heard {
    pub(crate) receiver: Hearer,
    pub(crate) streams: BTreeMap<u32, Stream>,
    pub(crate) counters: Arc<ReliableReceiver>,
    pub(crate) delivery: Arc<LbmDelivery>,
    rest_subscribed: bool,
}

/// When somebody who would act at `at` does, if there is a stretch in which he stands still.
fn awake(stall: Option<(Nanos, Nanos)>, at: Nanos) -> Nanos {
    match stall {
        Some((from, to)) if (from..to).contains(&at) => to,
        _ => at,
    }
}

impl World {
    pub(crate) fn new(plan: Plan) -> World {
        let node = |p: &NodePlan| Node { plan: p.clone(), inbox: VecDeque::new(), heard: BTreeMap::new() };
        let mut world = World {
            now: Nanos::ZERO,
            rng: Rng::new(plan.seed ^ 0x5eed),
            network: Network::new(plan.links.clone(), plan.seed ^ 0x11),
            sessions: Vec::new(),
            nodes: plan.nodes.iter().map(node).collect(),
            bursts_done: 0,
            waiting: 0,
            inbox: VecDeque::new(),
            gone: false,
            tap: None,
            plan,
        };
        world.start_session();
        world
    }

    /// Runs through the faults, heals, ends the session, stops the source and lets everything come to rest;
    /// then checks it all.
    pub(crate) fn run(&mut self) -> Outcome {
        self.run_until(self.plan.heal);
        self.network.heal();
        // all that was to be sent is sent, and the longest generation interval has passed
        self.run_until(self.plan.heal + MS * 1_500);
        assert_eq!(
            (self.bursts_done, self.waiting),
            (self.plan.bursts.len(), 0),
            "the source took all messages"
        );
        let session = self.sessions.last_mut().expect("one at least");
        session.source.end(self.now);
        self.run_until(self.now + MS * 1_500);
        self.gone = true;
        self.run_until(self.now + MS * 11_500);
        self.check()
    }

    fn start_session(&mut self) {
        // many bits apart, as drawn ones are: one that turns must not make a session of another
        let id = 0x5eed_0000 ^ (self.sessions.len() as u32).wrapping_mul(0x9e37_79b9);
        let first = if self.sessions.is_empty() { self.plan.first_sqn } else { Sqn(0) };
        let (mut source, counters) = Sender::new(self.plan.transport, &self.plan.source, id, first, self.now);
        let topics =
            (0..self.plan.topics).map(|i| source.add_topic_at(self.now, FIRST_TOPIC + i, first)).collect();
        let queue = 64 * self.plan.source.retransmit_queue_maximum as usize;
        let memory_max = source.memory_bytes() + (self.nodes.len() + 1) * (queue + (128 << 10));
        let sent = Sent::default();
        self.sessions.push(Session { source, id, topics, sent, counters, memory_max });
    }

    fn run_until(&mut self, end: Nanos) {
        loop {
            let next = self.next_event();
            if next > end {
                self.now = end;
                return;
            }
            self.now = self.now.max(next);
            self.step();
        }
    }

    fn next_event(&self) -> Nanos {
        let burst = self.plan.bursts.get(self.bursts_done).map_or(Nanos::NEVER, |b| b.0);
        let crash = self.plan.crash.unwrap_or(Nanos::NEVER);
        let nodes = self.nodes.iter().map(|n| self.node_event(n)).min().unwrap_or(Nanos::NEVER);
        burst.min(crash).min(nodes).min(self.source_event()).min(self.network.next_arrival())
    }

    fn source_event(&self) -> Nanos {
        if self.gone {
            return Nanos::NEVER;
        }
        let session = self.sessions.last().expect("one at least");
        let inbox = if self.inbox.is_empty() { Nanos::NEVER } else { self.now };
        awake(self.plan.stall, session.source.next_wakeup().max(self.now).min(inbox))
    }

    fn node_event(&self, node: &Node) -> Nanos {
        let plan = &node.plan;
        let inbox = if node.inbox.is_empty() { Nanos::NEVER } else { self.now };
        let receivers = node.heard.values().map(|h| h.receiver.next_wakeup()).min().unwrap_or(Nanos::NEVER);
        let subscribes = node.heard.values().any(|h| !h.rest_subscribed);
        let subscribes = if subscribes { plan.subscribes_rest } else { Nanos::NEVER };
        let connects = if self.is_to_connect(node) { plan.joins } else { Nanos::NEVER };
        let at = awake(plan.stall, inbox.min(receivers).min(subscribes).min(connects).max(self.now));
        if at >= plan.dies { Nanos::NEVER } else { at }
    }

    /// Whether a node knows of a session that it is not connected to: a resolver would have told it.
    fn is_to_connect(&self, node: &Node) -> bool {
        let id = self.sessions.last().expect("one at least").id;
        self.plan.transport == Transport::Lbtru && !self.gone && !node.heard.contains_key(&id)
    }

    fn step(&mut self) {
        if self.plan.crash.is_some_and(|at| at <= self.now) {
            self.plan.crash = None;
            self.start_session();
        }
        while let Some((link, datagram)) = self.network.arrived(self.now) {
            self.arrive(link, datagram);
        }
        while self.plan.bursts.get(self.bursts_done).is_some_and(|b| b.0 <= self.now) {
            self.waiting += self.plan.bursts[self.bursts_done].1;
            self.bursts_done += 1;
        }
        if !self.gone && awake(self.plan.stall, self.now) == self.now {
            self.drive_source();
        }
        for node in 0..self.nodes.len() {
            let plan = &self.nodes[node].plan;
            if self.now < plan.dies && self.now >= plan.joins && awake(plan.stall, self.now) == self.now {
                self.drive_node(node);
            }
        }
    }

    /// A packet reaches a socket.
    fn arrive(&mut self, link: usize, datagram: Vec<u8>) {
        let Some(node) = link.checked_sub(self.nodes.len()) else {
            let node = &mut self.nodes[link];
            if self.now >= node.plan.joins && node.inbox.len() < SOCKET_PACKETS {
                node.inbox.push_back(datagram);
            }
            return;
        };
        if let Some(tap) = &mut self.tap {
            let datagram = datagram.clone();
            tap.push(Tapped { at: self.now, inbound: true, node: Some(node), datagram });
        }
        if self.inbox.len() < SOCKET_PACKETS {
            self.inbox.push_back((node, datagram));
        }
    }

    fn drive_source(&mut self) {
        self.feed();
        let session = self.sessions.last_mut().expect("one at least");
        for (node, datagram) in self.inbox.drain(..) {
            session.source.on_datagram(self.now, node, &datagram);
        }
        session.source.on_wakeup(self.now);
        loop {
            self.transmit();
            let session = self.sessions.last_mut().expect("one at least");
            session.source.on_wakeup(self.now);
            if session.source.next_wakeup() > self.now {
                break;
            }
        }
        let session = self.sessions.last().expect("one at least");
        let held = session.source.memory_bytes();
        assert!(held <= session.memory_max, "the source holds {held} of {} bytes", session.memory_max);
        if self.waiting > 0 {
            self.feed();
        }
    }

    /// Sends what the source has closed.
    fn transmit(&mut self) {
        let session = self.sessions.last_mut().expect("one at least");
        let (now, network, tap) = (self.now, &mut self.network, &mut self.tap);
        // what is not for one node goes to all
        let all = self.nodes.len();
        let mut send = |node: Option<usize>, datagram: &[u8]| {
            for link in node.map_or(0..all, |n| n..n + 1) {
                network.send(now, link, datagram);
            }
            if let Some(tap) = tap {
                tap.push(Tapped { at: now, inbound: false, node, datagram: datagram.to_vec() });
            }
        };
        while session.source.transmit(now, &mut self.rng, &mut send) {}
    }

    /// Hands the source as much of the waiting messages as it takes, then flushes. Some fill a datagram to the last
    /// byte, and some of what is closed is sent before the rest is.
    fn feed(&mut self) {
        while self.waiting > 0 {
            if self.rng.chance(0.2) {
                self.transmit();
            }
            let session = self.sessions.last_mut().expect("one at least");
            let at = self.rng.below(session.topics.len() as u64) as usize;
            let (topic, index) = (session.topics[at], session.topics[at].index());
            let len = if self.rng.chance(0.1) { self.plan.longest } else { 120 };
            let fills = self.rng.chance(0.02);
            let len =
                if fills { session.source.claim_max() } else { self.rng.below(len as u64 + 1) as usize };
            let first = session.source.next_sqn(topic);
            let payload = content(session.id, index, first, len);
            let (head, tail) = payload.split_at(len / 3);
            let Ok(last) = session.source.send(self.now, topic, &[head, tail]) else { break };
            session.sent.note(index, first, last.0, len);
            self.waiting -= 1;
        }
        self.sessions.last_mut().expect("one at least").source.flush();
    }

    fn drive_node(&mut self, at: usize) {
        let to_connect = self.is_to_connect(&self.nodes[at]);
        let (transport, now, sessions) = (self.plan.transport, self.now, &self.sessions);
        let node = &mut self.nodes[at];
        let session = |id: u32| sessions.iter().find(|s| s.id == id);
        if to_connect {
            let session = sessions.last().expect("one at least");
            node.heard.insert(session.id, Heard::new(transport, &node.plan, session, now));
        }
        while let Some(datagram) = node.inbox.pop_front() {
            let id = session_of(transport, &datagram);
            if let (Transport::Lbtrm, Some(session)) = (transport, id.and_then(session)) {
                let new = || Heard::new(transport, &node.plan, session, now);
                node.heard.entry(session.id).or_insert_with(new);
            }
            let heard = node.heard.iter_mut().filter(|(own, _)| match transport {
                Transport::Lbtrm => id == Some(**own),
                Transport::Lbtru => id.is_none_or(|id| id == **own),
            });
            for (id, heard) in heard.filter(|(_, h)| !h.receiver.has_ended()) {
                let sent = &session(*id).expect("a session that was").sent;
                let mut oracle = Oracle { session: *id, sent, streams: &mut heard.streams };
                heard.receiver.on_datagram(now, &datagram, &mut oracle);
            }
        }
        for (id, heard) in &mut node.heard {
            let session = session(*id).expect("a session that was");
            if !heard.rest_subscribed && node.plan.subscribes_rest <= now {
                heard.subscribe(&session.topics, 1, node.plan.order);
                heard.rest_subscribed = true;
            }
            let Heard { receiver, streams, .. } = heard;
            let mut oracle = Oracle { session: *id, sent: &session.sent, streams };
            receiver.on_wakeup(now, &mut oracle);
            let link = self.plan.nodes.len() + at;
            receiver.transmit(now, |datagram| self.network.send(now, link, datagram));
            assert!(receiver.next_wakeup() > now, "a receiver that was served has time");
            let (held, max) = (receiver.memory_bytes(), receiver_bytes_max(&node.plan));
            assert!(held <= max, "node {at} holds {held} of {max} bytes");
        }
    }

    fn check(&self) -> Outcome {
        let mut outcome =
            Outcome { dropped: self.network.dropped, damaged: self.network.damaged, ..Outcome::default() };
        for session in &self.sessions {
            outcome.retransmitted += session.counters.rxs_sent.get();
            outcome.confirmed += session.counters.ncfs_sent.get();
        }
        let last = self.sessions.last().expect("one at least");
        for node in self.nodes.iter().filter(|n| n.plan.dies == Nanos::NEVER) {
            for (id, heard) in &node.heard {
                let session = self.sessions.iter().find(|s| s.id == *id).expect("a session that was");
                outcome.take(node, heard, session, *id == last.id);
            }
        }
        outcome
    }

    pub(crate) fn nodes(&self) -> &[Node] {
        &self.nodes
    }
}

impl Heard {
    fn new(transport: Transport, plan: &NodePlan, session: &Session, now: Nanos) -> Heard {
        let delivery = Arc::new(LbmDelivery::default());
        let (receiver, counters) = Hearer::new(transport, &plan.config, session.id, now, delivery.clone());
        let streams = BTreeMap::new();
        let mut heard = Heard { receiver, streams, counters, delivery, rest_subscribed: false };
        heard.subscribe(&session.topics, 0, plan.order);
        heard
    }

    /// Subscribes to every other topic.
    fn subscribe(&mut self, topics: &[TopicId], from: usize, order: Order) {
        for topic in topics.iter().skip(from).step_by(2) {
            let index = topic.index();
            // the session may be over
            if self.receiver.subscribe_ordered(index, u64::from(index) * 10, order).is_ok() {
                self.streams.insert(index, Stream::new(order));
            }
        }
    }
}

//! One source, several receivers, a network between them, and a clock that jumps to whatever is next.

use crate::network::Network;
use crate::oracle::{Oracle, Sent, Stream, content};
use crate::plan::{MS, NodePlan, Plan};
use counters::table::{LbmDelivery, LbtrmReceiver, LbtrmSource};
use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::sync::Arc;
use tickcast_lbt::config::Order;
use tickcast_lbt::delivery::EndReason;
use tickcast_lbt::rm::{Receiver, SessionKey, Source, TopicId};
use tickcast_lbt::wire::lbtrm::SessionHeader;
use units::{Nanos, Rng, Sqn};

pub(crate) const SOURCE: Ipv4Addr = Ipv4Addr::new(10, 29, 3, 1);
pub(crate) const UCAST_PORT: u16 = 14391;
pub(crate) const FROM: SocketAddrV4 = SocketAddrV4::new(SOURCE, 40_001);
const FIRST_TOPIC: u32 = 1_000;

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
    /// What passes the source's network card.
    pub(crate) tap: Option<Vec<Tapped>>,
}

/// A packet seen at the source.
pub(crate) struct Tapped {
    pub(crate) at: Nanos,
    /// The node it came from; `None` for what the source sends to the group.
    pub(crate) from_node: Option<usize>,
    pub(crate) datagram: Vec<u8>,
}

struct Session {
    source: Source,
    id: u32,
    topics: Vec<TopicId>,
    sent: Sent,
    counters: Arc<LbtrmSource>,
}

pub(crate) struct Node {
    plan: NodePlan,
    pub(crate) heard: BTreeMap<u32, Heard>,
}

/// One session at one node.
pub(crate) struct Heard {
    receiver: Receiver,
    pub(crate) streams: BTreeMap<u32, Stream>,
    pub(crate) counters: Arc<LbtrmReceiver>,
    pub(crate) delivery: Arc<LbmDelivery>,
    rest_subscribed: bool,
}

impl World {
    pub(crate) fn new(plan: Plan) -> World {
        let nodes = plan.nodes.iter().map(|p| Node { plan: p.clone(), heard: BTreeMap::new() }).collect();
        let mut world = World {
            now: Nanos::ZERO,
            rng: Rng::new(plan.seed ^ 0x5eed),
            network: Network::new(plan.links.clone(), plan.seed ^ 0x11),
            sessions: Vec::new(),
            nodes,
            bursts_done: 0,
            waiting: 0,
            tap: None,
            plan,
        };
        world.start_session();
        world
    }

    /// Runs through the faults, heals, ends the session and lets everything come to rest; then checks it all.
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
        self.run_until(self.now + MS * 13_000);
        self.check()
    }

    fn start_session(&mut self) {
        let id = 0x5eed_0000 + self.sessions.len() as u32;
        let header = SessionHeader { ucast_port: UCAST_PORT, session_id: id };
        let counters = Arc::new(LbtrmSource::default());
        let first = if self.sessions.is_empty() { self.plan.first_sqn } else { Sqn(0) };
        let source = Source::starting_at(&self.plan.source, header, first, self.now, counters.clone());
        let mut source = source.expect("plans are allowed");
        let topics =
            (0..self.plan.topics).map(|i| source.add_topic_at(self.now, FIRST_TOPIC + i, first)).collect();
        self.sessions.push(Session { source, id, topics, sent: Sent::default(), counters });
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
        let source = self.sessions.last().expect("one at least").source.next_wakeup();
        let receivers = self.nodes.iter().flat_map(|n| n.heard.values()).map(|h| h.receiver.next_wakeup());
        let crash = self.plan.crash.unwrap_or(Nanos::NEVER);
        let rest = self.nodes.iter().filter(|n| n.heard.values().any(|h| !h.rest_subscribed));
        let subscribes = rest.map(|n| n.plan.subscribes_rest);
        let endpoints = receivers.chain(subscribes).min().unwrap_or(Nanos::NEVER);
        burst.min(source).min(endpoints).min(crash).min(self.network.next_arrival())
    }

    fn step(&mut self) {
        if self.plan.crash.is_some_and(|at| at <= self.now) {
            self.plan.crash = None;
            self.start_session();
        }
        while let Some((link, datagram)) = self.network.arrived(self.now) {
            self.arrive(link, &datagram);
        }
        while self.plan.bursts.get(self.bursts_done).is_some_and(|b| b.0 <= self.now) {
            self.waiting += self.plan.bursts[self.bursts_done].1;
            self.bursts_done += 1;
        }
        self.drive_source();
        for node in 0..self.nodes.len() {
            self.drive_node(node);
        }
    }

    fn arrive(&mut self, link: usize, datagram: &[u8]) {
        let nodes = self.nodes.len();
        if link >= nodes {
            let session = self.sessions.last_mut().expect("one at least");
            if let Some(tap) = &mut self.tap {
                let from_node = Some(link - nodes);
                tap.push(Tapped { at: self.now, from_node, datagram: datagram.to_vec() });
            }
            // after a crash NAKs for the old session still arrive, and are refused
            let _ = session.source.on_datagram(self.now, datagram);
            return;
        }
        let node = &mut self.nodes[link];
        if self.now < node.plan.joins {
            return;
        }
        let key = SessionKey::of(SOURCE, datagram).expect("a whole header");
        let id = key.session.session_id;
        let session = self.sessions.iter().find(|s| s.id == id).expect("a session that was");
        let (plan, now) = (&node.plan, self.now);
        let heard = node.heard.entry(id).or_insert_with(|| Heard::new(plan, key, now, &session.topics));
        if heard.receiver.has_ended() {
            return;
        }
        let Heard { receiver, streams, .. } = heard;
        let mut oracle = Oracle { session: id, sent: &session.sent, streams };
        // a jump by more than may be missing is refused once, and taken when it is confirmed
        let _ = receiver.on_datagram(now, FROM, datagram, &mut oracle);
    }

    fn drive_source(&mut self) {
        self.feed();
        let session = self.sessions.last_mut().expect("one at least");
        session.source.on_wakeup(self.now);
        loop {
            while let Some(run) = session.source.poll_transmit(self.now) {
                // a driver may get rid of only a part of a run
                let count = 1 + self.rng.below(u64::from(run.count)) as u32;
                for datagram in run.datagrams().take(count as usize) {
                    for link in 0..self.nodes.len() {
                        self.network.send(self.now, link, datagram);
                    }
                    if let Some(tap) = &mut self.tap {
                        tap.push(Tapped { at: self.now, from_node: None, datagram: datagram.to_vec() });
                    }
                }
                session.source.sent(self.now, count);
            }
            session.source.on_wakeup(self.now);
            let next = session.source.next_wakeup();
            if next > self.now {
                break;
            }
        }
        if self.waiting > 0 {
            self.feed();
        }
    }

    /// Hands the source as much of the waiting messages as it takes, then flushes.
    fn feed(&mut self) {
        let session = self.sessions.last_mut().expect("one at least");
        while self.waiting > 0 {
            let at = self.rng.below(session.topics.len() as u64) as usize;
            let (topic, index) = (session.topics[at], session.topics[at].index());
            let len = if self.rng.chance(0.1) { self.plan.longest } else { 120 };
            let len = self.rng.below(len as u64 + 1) as usize;
            let first = session.source.next_sqn(topic).expect("open").0;
            let payload = content(session.id, index, first, len);
            let (head, tail) = payload.split_at(len / 3);
            let Ok(last) = session.source.send(self.now, topic, &[head, tail]) else { break };
            session.sent.note(index, first, last.0, len);
            self.waiting -= 1;
        }
        session.source.flush();
    }

    fn drive_node(&mut self, at: usize) {
        let node = &mut self.nodes[at];
        for (id, heard) in &mut node.heard {
            let session = self.sessions.iter().find(|s| s.id == *id).expect("a session that was");
            if !heard.rest_subscribed && node.plan.subscribes_rest <= self.now {
                heard.subscribe(&session.topics, 1, node.plan.order);
                heard.rest_subscribed = true;
            }
            let Heard { receiver, streams, .. } = heard;
            let mut oracle = Oracle { session: *id, sent: &session.sent, streams };
            receiver.on_wakeup(self.now, &mut oracle);
            while let Some(feedback) = receiver.poll_transmit(self.now) {
                assert_eq!(feedback.to, SocketAddrV4::new(SOURCE, UCAST_PORT));
                self.network.send(self.now, self.plan.nodes.len() + at, feedback.datagram);
            }
            assert!(receiver.next_wakeup() > self.now, "a receiver that was served has time");
        }
    }

    fn check(&self) -> Outcome {
        let mut outcome = Outcome { dropped: self.network.dropped, ..Outcome::default() };
        for session in &self.sessions {
            outcome.retransmitted += session.counters.rxs_sent.get();
            outcome.confirmed += session.counters.ncfs_sent.get();
        }
        let last = self.sessions.last().expect("one at least");
        for node in &self.nodes {
            for (id, heard) in &node.heard {
                let session = self.sessions.iter().find(|s| s.id == *id).expect("a session that was");
                heard.check(session, *id == last.id, &mut outcome);
            }
        }
        outcome
    }

    pub(crate) fn nodes(&self) -> &[Node] {
        &self.nodes
    }
}

/// What a run came to, all receivers together.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    pub(crate) dropped: u64,
    pub(crate) delivered: u64,
    pub(crate) lost: u64,
    pub(crate) recovered: u64,
    pub(crate) retransmitted: u64,
    pub(crate) confirmed: u64,
    pub(crate) naks: u64,
}

impl Heard {
    fn new(plan: &NodePlan, key: SessionKey, now: Nanos, topics: &[TopicId]) -> Heard {
        let counters = Arc::new(LbtrmReceiver::default());
        let delivery = Arc::new(LbmDelivery::default());
        let seed = now.0 ^ u64::from(key.session.session_id);
        let receiver = Receiver::new(&plan.config, key, seed, now, counters.clone(), delivery.clone());
        let receiver = receiver.expect("plans are allowed");
        let streams = BTreeMap::new();
        let mut heard = Heard { receiver, streams, counters, delivery, rest_subscribed: false };
        heard.subscribe(topics, 0, plan.order);
        heard
    }

    /// Subscribes to every other topic.
    fn subscribe(&mut self, topics: &[TopicId], from: usize, order: Order) {
        for topic in topics.iter().skip(from).step_by(2) {
            let index = topic.index();
            // the session may be over
            if self.receiver.subscribe_ordered(index, u64::from(index) * 10, Some(order)).is_ok() {
                self.streams.insert(index, Stream::new(order));
            }
        }
    }

    fn check(&self, session: &Session, is_last: bool, outcome: &mut Outcome) {
        assert!(self.receiver.has_ended(), "every session comes to its end");
        assert_eq!(self.receiver.missing(), 0);
        let c = &self.counters;
        let given_up = c.unrecovered_txw.get()
            + c.unrecovered_tmo.get()
            + c.unrecovered_ncf.get()
            + c.unrecovered_bound.get()
            + c.unrecovered_end.get();
        let repaired = c.recovered.get() + c.out_of_order.get();
        assert_eq!(c.lost.get(), repaired + given_up, "what was missing was repaired or given up");
        assert_eq!(self.delivery.order_map_entries.get(), 0);
        for (&topic, stream) in &self.streams {
            assert_eq!(stream.begun.is_some(), stream.end.is_some(), "topic {topic}: what begins ends");
            let reason = stream.end.map(|e| e.reason);
            if is_last && reason == Some(EndReason::Ended) {
                stream.check_complete(&session.sent, topic);
            }
            // a crash in the middle of a message loses that message without the loss of a datagram, and so
            // does the bound on messages being put together
            let unfinished = self.delivery.fragments_unrecoverably_lost.get() > 0;
            let seen = given_up > 0 || stream.lost_count == 0 || unfinished;
            assert!(seen, "topic {topic} of {:#x}: loss the transport did not see", session.id);
            outcome.delivered += stream.messages;
            outcome.lost += stream.lost_count;
        }
        outcome.recovered += c.recovered.get();
        outcome.naks += c.naks_sent.get();
    }
}

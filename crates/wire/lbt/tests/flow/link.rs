//! Sources that share one link: a rate, a queue that drops at its end, a delay.

use crate::group::{Node, SOURCE};
use counters::table::LbtrmSource;
use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::sync::Arc;
use std::time::Duration;
use tickcast_lbt::authentication::Keys;
use tickcast_lbt::config::{CongestionControl, ReceiverConfig, SourceConfig};
use tickcast_lbt::rm::{SessionKey, Source, TopicId};
use tickcast_lbt::wire::lbtrm::SessionHeader;
use units::{Nanos, Rng};

const UCAST_PORT: u16 = 14_391;
/// Bytes of the headers below UDP's payload, as a traffic shaper counts them.
const WIRE_OVERHEAD: u64 = 42;
/// One message fills a datagram.
pub(crate) const PAYLOAD: usize = 1_440;
const DATAGRAM_WIRE_BYTES: u64 = 1_472 + WIRE_OVERHEAD;

#[derive(Clone, Copy)]
pub(crate) struct LinkPlan {
    pub(crate) bits_per_second: u64,
    pub(crate) queue_bytes: u64,
    pub(crate) delay: Duration,
    /// Loss that has nothing to do with the queue.
    pub(crate) random_loss: f64,
    /// Whether reports reach the sources; NAKs do.
    pub(crate) reports: bool,
}

impl LinkPlan {
    /// Messages of [`PAYLOAD`] bytes that a sender of nothing else gets through in a second.
    pub(crate) fn raw_per_second(&self) -> f64 {
        self.bits_per_second as f64 / (DATAGRAM_WIRE_BYTES * 8) as f64
    }
}

pub(crate) struct Flow {
    pub(crate) source: Source,
    pub(crate) counters: Arc<LbtrmSource>,
    pub(crate) topic: TopicId,
    pub(crate) begins: Nanos,
    pub(crate) ends: Nanos,
    /// Each behind the link; a node may have a rate of its own behind that.
    pub(crate) nodes: Vec<(Node, Option<Tail>)>,
}

/// A slower way from the link to one node.
#[derive(Clone, Copy)]
pub(crate) struct Tail {
    pub(crate) bits_per_second: u64,
    pub(crate) queue_bytes: u64,
    pub(crate) free_at: Nanos,
}

type Tapped = (Nanos, SocketAddrV4, Option<SocketAddrV4>, Vec<u8>);

enum Way {
    ToNode(usize, usize),
    ToSource(usize, usize),
}

pub(crate) struct Link {
    pub(crate) now: Nanos,
    pub(crate) flows: Vec<Flow>,
    plan: LinkPlan,
    /// When the last byte in the queue has gone out.
    free_at: Nanos,
    pub(crate) dropped: u64,
    pub(crate) carried: u64,
    /// What passes the sources' network cards: when, from, to (a node's NAKs and reports, else the group).
    pub(crate) tap: Option<Vec<Tapped>>,
    flights: BTreeMap<(Nanos, u64), (Way, Vec<u8>)>,
    order: u64,
    rng: Rng,
}

/// Sources as they are by default, with a limit and a floor.
pub(crate) fn adaptive(limit: u64) -> SourceConfig {
    SourceConfig {
        data_rate_limit: limit,
        retransmit_rate_limit: limit / 5,
        congestion_control: CongestionControl::Adaptive {
            minimum_rate: 500_000,
            maximum_round_trip: Duration::from_millis(30),
        },
        ..SourceConfig::default()
    }
}

fn address(flow: usize, node: usize) -> SocketAddrV4 {
    SocketAddrV4::new(Ipv4Addr::new(10, 29, 100 + flow as u8, node as u8), 45_241)
}

fn source_of(flow: usize) -> Ipv4Addr {
    Ipv4Addr::from(u32::from(SOURCE) + flow as u32)
}

/// Where `bytes` that come now are through a queue of a rate; `None` if it is full.
fn through(
    free_at: &mut Nanos,
    now: Nanos,
    bits_per_second: u64,
    queue_bytes: u64,
    bytes: u64,
) -> Option<Nanos> {
    let ns_of = |bytes: u64| bytes * 8 * 1_000_000_000 / bits_per_second;
    let waiting = now.max(*free_at);
    if waiting.0 - now.0 > ns_of(queue_bytes) {
        return None;
    }
    *free_at = Nanos(waiting.0 + ns_of(bytes));
    Some(*free_at)
}

impl Link {
    pub(crate) fn new(plan: LinkPlan) -> Link {
        Link {
            now: Nanos::ZERO,
            flows: Vec::new(),
            plan,
            free_at: Nanos::ZERO,
            dropped: 0,
            carried: 0,
            tap: None,
            flights: BTreeMap::new(),
            order: 0,
            rng: Rng::new(1),
        }
    }

    pub(crate) fn add(&mut self, config: &SourceConfig, begins: Duration, tails: &[Option<Tail>]) {
        let flow = self.flows.len();
        let session = SessionHeader { ucast_port: UCAST_PORT, session_id: 1_000 + flow as u32 };
        let counters = Arc::new(LbtrmSource::default());
        let begins = Nanos::ZERO + begins;
        let mut source = Source::new(config, session, begins, counters.clone()).expect("allowed");
        let topic = source.add_topic(begins, 7);
        let key = SessionKey { source: source_of(flow), session };
        let receiver =
            ReceiverConfig { activity_timeout: Duration::from_secs(1_000), ..ReceiverConfig::default() };
        let node = |n: usize| Node::new(&receiver, key, 7, (flow * 1_000 + n + 1) as u64);
        let nodes = tails.iter().enumerate().map(|(n, tail)| (node(n), *tail)).collect();
        self.flows.push(Flow { source, counters, topic, begins, ends: Nanos::NEVER, nodes });
    }

    /// Gives both ends of a flow keys.
    pub(crate) fn authenticate(&mut self, flow: usize, keys: &Keys) {
        self.flows[flow].source.authenticate(keys.clone(), source_of(flow));
        for (node, _) in &mut self.flows[flow].nodes {
            node.receiver.authenticate(keys.clone());
        }
    }

    /// Messages that the first node of each flow has.
    pub(crate) fn received(&self) -> Vec<u64> {
        self.flows.iter().map(|f| f.nodes[0].0.tally.messages).collect()
    }

    /// The same over the next `span`.
    pub(crate) fn received_in(&mut self, span: Duration) -> Vec<u64> {
        let before = self.received();
        self.run_for(span);
        self.received().iter().zip(before).map(|(after, before)| after - before).collect()
    }

    /// Ends all flows and lets everything be repaired.
    pub(crate) fn drain(&mut self) {
        for flow in &mut self.flows {
            flow.ends = self.now;
        }
        self.run_for(Duration::from_secs(2));
    }

    pub(crate) fn lost(&self) -> u64 {
        self.flows.iter().flat_map(|f| &f.nodes).map(|(n, _)| n.tally.lost).sum()
    }

    pub(crate) fn run_for(&mut self, span: Duration) {
        let until = self.now + span;
        loop {
            let next = self.step();
            if next > until {
                break;
            }
            self.now = self.now.max(next);
        }
        self.now = until;
    }

    fn step(&mut self) -> Nanos {
        while let Some(entry) = self.flights.first_entry().filter(|e| e.key().0 <= self.now) {
            let (way, datagram) = entry.remove();
            self.arrive(&way, &datagram);
        }
        let mut next = Nanos::NEVER;
        for flow in 0..self.flows.len() {
            self.drive_source(flow);
            self.drive_nodes(flow);
            let f = &self.flows[flow];
            let wakeups = f.nodes.iter().map(|(n, _)| n.receiver.next_wakeup());
            let source = f.source.next_wakeup();
            let begins = if self.now < f.begins { f.begins } else { Nanos::NEVER };
            next = wakeups.fold(next.min(source).min(begins), Nanos::min);
        }
        next.min(self.flights.keys().next().map_or(Nanos::NEVER, |(at, _)| *at))
    }

    fn drive_source(&mut self, at: usize) {
        let payload = [7; PAYLOAD];
        let now = self.now;
        loop {
            let flow = &mut self.flows[at];
            if (flow.begins..flow.ends).contains(&now) {
                while flow.source.send(now, flow.topic, &[&payload]).is_ok() {}
            }
            flow.source.flush();
            flow.source.on_wakeup(now);
            let Some(run) = flow.source.poll_transmit(now) else { break };
            let count = run.count;
            let datagrams: Vec<Vec<u8>> = run.datagrams().map(<[u8]>::to_vec).collect();
            flow.source.sent(now, count);
            datagrams.into_iter().for_each(|d| self.carry(at, &d));
        }
    }

    fn carry(&mut self, flow: usize, datagram: &[u8]) {
        let LinkPlan { bits_per_second, queue_bytes, delay, random_loss, .. } = self.plan;
        let bytes = datagram.len() as u64 + WIRE_OVERHEAD;
        if let Some(tap) = &mut self.tap {
            let from = SocketAddrV4::new(source_of(flow), 40_000);
            tap.push((self.now, from, None, datagram.to_vec()));
        }
        if self.rng.chance(random_loss) {
            self.dropped += 1;
            return;
        }
        let Some(out) = through(&mut self.free_at, self.now, bits_per_second, queue_bytes, bytes) else {
            self.dropped += 1;
            return;
        };
        self.carried += 1;
        for node in 0..self.flows[flow].nodes.len() {
            let mut arrives = out + delay;
            if let Some(tail) = &mut self.flows[flow].nodes[node].1 {
                let (bps, queue) = (tail.bits_per_second, tail.queue_bytes);
                match through(&mut tail.free_at, arrives, bps, queue, bytes) {
                    Some(later) => arrives = later,
                    None => continue,
                }
            }
            self.fly(arrives, Way::ToNode(flow, node), datagram.to_vec());
        }
    }

    fn drive_nodes(&mut self, flow: usize) {
        for at in 0..self.flows[flow].nodes.len() {
            let (Node { receiver, tally, .. }, _) = &mut self.flows[flow].nodes[at];
            if receiver.next_wakeup() > self.now {
                continue;
            }
            receiver.on_wakeup(self.now, tally);
            let mut sent = Vec::new();
            while let Some(feedback) = receiver.poll_transmit(self.now) {
                let is_report = feedback.datagram[8..10] == [0, 0];
                if is_report && !self.plan.reports {
                    continue;
                }
                sent.push(feedback.datagram.to_vec());
            }
            let arrives = self.now + self.plan.delay;
            sent.into_iter().for_each(|d| self.fly(arrives, Way::ToSource(flow, at), d));
        }
    }

    fn arrive(&mut self, way: &Way, datagram: &[u8]) {
        match *way {
            Way::ToNode(flow, at) => {
                let (Node { receiver, tally, .. }, _) = &mut self.flows[flow].nodes[at];
                let from = SocketAddrV4::new(source_of(flow), 40_000);
                // a jump by more than may be missing is refused once, and taken when it is confirmed
                let _ = receiver.on_datagram(self.now, from, datagram, tally);
            }
            Way::ToSource(flow, at) => {
                if let Some(tap) = &mut self.tap {
                    let to = SocketAddrV4::new(source_of(flow), UCAST_PORT);
                    tap.push((self.now, address(flow, at), Some(to), datagram.to_vec()));
                }
                let source = &mut self.flows[flow].source;
                source.on_datagram(self.now, address(flow, at), datagram).expect("a NAK or report");
            }
        }
    }

    fn fly(&mut self, arrives: Nanos, way: Way, datagram: Vec<u8>) {
        self.order += 1;
        self.flights.insert((arrives, self.order), (way, datagram));
    }
}

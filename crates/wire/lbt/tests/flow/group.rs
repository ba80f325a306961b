//! One source and its receivers on a network that only delays, with a say in what each receiver loses.

use counters::table::{LbmDelivery, LbtrmReceiver, LbtrmSource};
use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::sync::Arc;
use std::time::Duration;
use tickcast_lbt::config::{ReceiverConfig, SourceConfig};
use tickcast_lbt::delivery::{BeginOfStream, Delivered, DeliverySink, EndOfStream, Lost};
use tickcast_lbt::rm::{Receiver, SessionKey, Source, TopicId};
use tickcast_lbt::wire::lbtrm::{Packet, SessionHeader};
use units::{Nanos, Sqn};

pub(crate) const SESSION: SessionHeader = SessionHeader { ucast_port: 14391, session_id: 0x5eed_1234 };
pub(crate) const SOURCE: Ipv4Addr = Ipv4Addr::new(10, 29, 3, 1);
const FROM: SocketAddrV4 = SocketAddrV4::new(SOURCE, 40_001);

pub(crate) fn address(node: usize) -> SocketAddrV4 {
    SocketAddrV4::new(Ipv4Addr::new(10, 29, 4, node as u8), 45_241)
}

/// Counts what comes.
#[derive(Default)]
pub(crate) struct Tally {
    pub(crate) messages: u64,
    pub(crate) lost: u64,
}

impl DeliverySink for Tally {
    fn deliver(&mut self, _: Delivered<'_>) {
        self.messages += 1;
    }
    fn lost(&mut self, lost: Lost) {
        self.lost += u64::from(lost.count);
    }
    fn begin_of_stream(&mut self, _: BeginOfStream) {}
    fn end_of_stream(&mut self, _: EndOfStream) {}
}

pub(crate) struct Node {
    pub(crate) receiver: Receiver,
    pub(crate) counters: Arc<LbtrmReceiver>,
    pub(crate) tally: Tally,
}

impl Node {
    pub(crate) fn new(config: &ReceiverConfig, key: SessionKey, topic: u32, seed: u64) -> Node {
        let counters = Arc::new(LbtrmReceiver::default());
        let delivery = Arc::new(LbmDelivery::default());
        let mut receiver =
            Receiver::new(config, key, seed, Nanos::ZERO, counters.clone(), delivery).expect("allowed");
        receiver.subscribe(topic, 0).expect("free");
        Node { receiver, counters, tally: Tally::default() }
    }
}

type Drops = Box<dyn FnMut(usize, Sqn, bool) -> bool>;

/// A datagram on its way, to a node or to the source.
enum Way {
    ToNode(usize),
    ToSource(usize),
}

pub(crate) struct Group {
    pub(crate) now: Nanos,
    pub(crate) source: Source,
    pub(crate) counters: Arc<LbtrmSource>,
    pub(crate) topic: TopicId,
    pub(crate) nodes: Vec<Node>,
    pub(crate) delay: Duration,
    /// Whether a node loses a DATA datagram, by number and whether it is a retransmission.
    pub(crate) drops: Drops,
    flights: BTreeMap<(Nanos, u64), (Way, Vec<u8>)>,
    order: u64,
}

impl Group {
    pub(crate) fn new(source: &SourceConfig, receiver: &ReceiverConfig, nodes: usize) -> Group {
        let counters = Arc::new(LbtrmSource::default());
        let mut source = Source::new(source, SESSION, Nanos::ZERO, counters.clone()).expect("allowed");
        let topic = source.add_topic(Nanos::ZERO, 7);
        let key = SessionKey { source: SOURCE, session: SESSION };
        Group {
            now: Nanos::ZERO,
            source,
            counters,
            topic,
            nodes: (0..nodes).map(|n| Node::new(receiver, key, 7, n as u64 + 1)).collect(),
            delay: Duration::from_micros(50),
            drops: Box::new(|_, _, _| false),
            flights: BTreeMap::new(),
            order: 0,
        }
    }

    pub(crate) fn send(&mut self, payload: &[u8]) -> bool {
        let taken = self.source.send(self.now, self.topic, &[payload]).is_ok();
        self.source.flush();
        taken
    }

    /// Runs until nothing is left to do before `until`.
    pub(crate) fn run_until(&mut self, until: Nanos) {
        loop {
            self.step();
            let wakeups = self.nodes.iter().map(|n| n.receiver.next_wakeup());
            let arrival = self.flights.keys().next().map_or(Nanos::NEVER, |(at, _)| *at);
            let next = wakeups.fold(arrival.min(self.source.next_wakeup()), Nanos::min);
            if next > until {
                break;
            }
            self.now = self.now.max(next);
        }
        self.now = until;
    }

    pub(crate) fn run_for(&mut self, span: Duration) {
        self.run_until(self.now + span);
    }

    fn step(&mut self) {
        while let Some(entry) = self.flights.first_entry().filter(|e| e.key().0 <= self.now) {
            let (way, datagram) = entry.remove();
            self.arrive(&way, &datagram);
        }
        self.source.on_wakeup(self.now);
        while let Some(run) = self.source.poll_transmit(self.now) {
            let count = run.count;
            let datagrams: Vec<Vec<u8>> = run.datagrams().map(<[u8]>::to_vec).collect();
            self.source.sent(self.now, count);
            for datagram in datagrams {
                for node in 0..self.nodes.len() {
                    let lost = match Packet::parse(&datagram) {
                        Ok(Packet::Data(d)) => (self.drops)(node, d.sqn, d.is_retransmission()),
                        _ => false,
                    };
                    if !lost {
                        self.fly(Way::ToNode(node), datagram.clone());
                    }
                }
            }
        }
        for at in 0..self.nodes.len() {
            let Node { receiver, tally, .. } = &mut self.nodes[at];
            receiver.on_wakeup(self.now, tally);
            let mut naks = Vec::new();
            while let Some(feedback) = receiver.poll_transmit(self.now) {
                naks.push(feedback.datagram.to_vec());
            }
            naks.into_iter().for_each(|nak| self.fly(Way::ToSource(at), nak));
        }
    }

    fn arrive(&mut self, way: &Way, datagram: &[u8]) {
        match *way {
            Way::ToNode(at) => {
                let Node { receiver, tally, .. } = &mut self.nodes[at];
                receiver.on_datagram(self.now, FROM, datagram, tally).expect("well-formed");
            }
            Way::ToSource(at) => {
                self.source.on_datagram(self.now, address(at), datagram).expect("a NAK");
            }
        }
    }

    fn fly(&mut self, way: Way, datagram: Vec<u8>) {
        self.order += 1;
        self.flights.insert((self.now + self.delay, self.order), (way, datagram));
    }
}

//! A source with what it retains, several receivers, lossy live datagrams, and connections that are cut.

use crate::oracle::{Oracle, Sent, Stream, content};
use counters::table::{LbmDelivery, LbmRecovery, LbmRetention, LbtrmReceiver, LbtrmSource};
use std::collections::{BTreeMap, VecDeque};
use std::net::{Ipv4Addr, SocketAddrV4};
use std::sync::Arc;
use std::time::Duration;
use tickcast_lbt::config::{ReceiverConfig, RecoveryConfig, RetentionConfig, SourceConfig};
use tickcast_lbt::recovery::{ClientId, Requester, Responder};
use tickcast_lbt::rm::{Receiver, SessionKey, Source, TopicId};
use tickcast_lbt::stream::StreamDecoder;
use tickcast_lbt::wire::lbtrm::{Data, FLAG_RETRANSMISSION, Packet, SessionHeader};
use units::{Nanos, Rng};

const SESSION: SessionHeader = SessionHeader { ucast_port: 14391, session_id: 0x5eed_1234 };
const SOURCE: Ipv4Addr = Ipv4Addr::new(10, 29, 3, 1);
const FROM: SocketAddrV4 = SocketAddrV4::new(SOURCE, 40_001);
const TRANSPORT: u32 = 0x77;
const MS: Duration = Duration::from_millis(1);
/// Until then messages are sent.
const SENDING_MS: u64 = 400;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Weather {
    /// Loss to 30 %, cut connections, dying sources, little retention, little room.
    Foul,
    /// Loss to 30 %, cut connections; everything is retained and the source lives.
    Rainy,
}

/// What a run came to.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    pub(crate) late_join: u64,
    pub(crate) otr: u64,
    pub(crate) lost: u64,
    /// Lost in streams whose end is known.
    pub(crate) lost_within: u64,
    pub(crate) unavailable: u64,
    pub(crate) given_up: u64,
    pub(crate) not_held: u64,
    pub(crate) repeated: u64,
    pub(crate) duplicates: u64,
    pub(crate) before_start: u64,
    pub(crate) fragments_lost: u64,
    pub(crate) cuts: u64,
    pub(crate) deaths: u64,
    /// Streams that do not begin with number 0.
    pub(crate) late_begins: u64,
}

impl Outcome {
    pub(crate) fn add(&mut self, other: &Outcome) {
        self.late_join += other.late_join;
        self.otr += other.otr;
        self.lost += other.lost;
        self.lost_within += other.lost_within;
        self.unavailable += other.unavailable;
        self.given_up += other.given_up;
        self.not_held += other.not_held;
        self.repeated += other.repeated;
        self.duplicates += other.duplicates;
        self.before_start += other.before_start;
        self.fragments_lost += other.fragments_lost;
        self.cuts += other.cuts;
        self.deaths += other.deaths;
        self.late_begins += other.late_begins;
    }
}

/// Bytes on their way in one direction of a connection: when they arrive, in which pieces.
type Pipe = VecDeque<(u64, Vec<u8>)>;

struct Connection {
    client: ClientId,
    up: Pipe,
    down: Pipe,
    at_source: StreamDecoder,
    at_node: StreamDecoder,
}

struct Node {
    joins_ms: u64,
    loss: f64,
    receiver: Receiver,
    requester: Requester,
    config: RecoveryConfig,
    counters: Arc<LbmRecovery>,
    live: VecDeque<(u64, Vec<u8>)>,
    connection: Option<Connection>,
    connects_ms: u64,
    streams: BTreeMap<u32, Stream>,
    joined: bool,
}

pub(crate) struct World {
    now_ms: u64,
    rng: Rng,
    source: Source,
    responder: Responder,
    topics: Vec<(u32, TopicId)>,
    sent: Sent,
    nodes: Vec<Node>,
    dies_ms: u64,
    cut: f64,
    outcome: Outcome,
}

impl World {
    pub(crate) fn new(seed: u64, weather: Weather) -> World {
        let mut rng = Rng::new(seed);
        let foul = weather == Weather::Foul;
        let config =
            SourceConfig { datagram_max_size: 500, maximum_message_size: 8_000, ..SourceConfig::default() };
        let counters = Arc::new(LbtrmSource::default());
        let mut source = Source::new(&config, SESSION, Nanos::ZERO, counters).expect("allowed");
        let retention = RetentionConfig {
            retransmit_retention_size_limit: if foul && rng.chance(0.5) { 1 << 16 } else { 4 << 20 },
            retransmit_retention_rate_limit: if foul { 20_000_000 } else { 0 },
            retransmit_retention_requests_maximum: 300,
            ..RetentionConfig::default()
        };
        let counters = Arc::new(LbmRetention::default());
        let mut responder = Responder::new(&retention, Nanos::ZERO, counters).expect("allowed");
        let topics: Vec<_> =
            (1..=1 + rng.below(3) as u32).map(|i| (i, source.add_topic(Nanos::ZERO, i))).collect();
        for &(index, _) in &topics {
            responder.add_topic(TRANSPORT, index, &retention).expect("allowed");
        }
        let nodes = (0..1 + rng.below(3)).map(|_| Node::draw(&mut rng, foul)).collect();
        let dies = foul && rng.chance(0.3);
        World {
            now_ms: 0,
            source,
            responder,
            topics,
            sent: Sent::default(),
            nodes,
            dies_ms: if dies { rng.below(SENDING_MS) } else { u64::MAX },
            cut: if rng.chance(0.5) { 0.01 } else { 0.0 },
            rng,
            outcome: Outcome::default(),
        }
    }

    pub(crate) fn run(mut self) -> Outcome {
        while self.now_ms < SENDING_MS + 30_000 && !self.is_over() {
            self.step();
            self.now_ms += 1;
        }
        assert!(self.is_over(), "everybody comes to rest");
        for node in &self.nodes {
            let c = &node.counters;
            self.outcome.late_join += c.late_join_msgs.get();
            self.outcome.otr += c.otr_msgs.get();
            self.outcome.unavailable += c.unavailable.get();
            self.outcome.given_up += c.given_up.get();
            self.outcome.not_held += c.msgs_not_held.get();
            self.outcome.repeated += c.requests_repeated.get();
            self.outcome.duplicates += c.duplicates.get();
            self.outcome.before_start += c.before_start.get();
            self.outcome.fragments_lost += c.fragments_unrecoverably_lost.get();
            self.outcome.lost += node.streams.values().map(|s| s.lost).sum::<u64>();
            // of a tail that nobody told of, the begin may be heard
            let whole = node.streams.values().filter(|s| s.end.is_none_or(|end| !end.tail_unknown));
            self.outcome.lost_within += whole.map(|s| s.lost).sum::<u64>();
            let late = node.streams.values().filter(|s| s.first.is_some_and(|first| first > 0));
            self.outcome.late_begins += late.count() as u64;
        }
        self.outcome.deaths += u64::from(self.dies_ms != u64::MAX);
        self.outcome
    }

    fn now(&self) -> Nanos {
        Nanos::ZERO + MS * (self.now_ms as u32 + 1)
    }

    fn is_over(&self) -> bool {
        self.now_ms > SENDING_MS + 50
            && self.nodes.iter().all(|n| n.receiver.next_wakeup() == Nanos::NEVER && n.requester.is_idle())
    }

    fn lives(&self) -> bool {
        self.now_ms < self.dies_ms
    }

    fn step(&mut self) {
        if self.lives() && self.now_ms < SENDING_MS + 300 {
            self.publish();
            self.transmit();
        }
        for at in 0..self.nodes.len() {
            self.join(at);
            self.hear(at);
            self.connect(at);
            self.talk(at);
            let (node, now) = (&mut self.nodes[at], Nanos::ZERO + MS * (self.now_ms as u32 + 1));
            let mut oracle = Oracle { sent: &self.sent, streams: &mut node.streams };
            if node.requester.next_wakeup() <= now {
                node.requester.on_wakeup(now, &mut oracle);
            }
            node.ask(now, self.now_ms, &mut self.rng);
            assert!(node.requester.next_wakeup() > now, "a requester that was served has time");
            let outstanding_max = node.config.retransmit_request_outstanding_maximum as usize;
            assert!(node.requester.outstanding() <= outstanding_max);
            assert!(node.counters.hold_bytes_max.get() <= node.config.hold_maximum_bytes);
            assert!(node.requester.memory_bytes() < 4 << 20, "{}", node.requester.memory_bytes());
        }
    }

    fn publish(&mut self) {
        let now = self.now();
        if self.now_ms >= SENDING_MS {
            self.source.end(now);
            return;
        }
        for _ in 0..self.rng.below(6) {
            let (index, topic) = self.topics[self.rng.below(self.topics.len() as u64) as usize];
            let first = self.source.next_sqn(topic).expect("known");
            let longest = if self.rng.chance(0.2) { 3_000 } else { 100 };
            let len = self.rng.below(longest) as usize;
            let payload = content(index, first.0, len);
            if let Ok(last) = self.source.send(now, topic, &[&payload]) {
                self.sent.note(index, first.0, last.0, len);
            }
        }
        self.source.flush();
    }

    fn transmit(&mut self) {
        let now = self.now();
        self.source.on_wakeup(now);
        while let Some(run) = self.source.poll_transmit(now) {
            let (count, datagrams) = (run.count, run.datagrams().map(<[u8]>::to_vec).collect::<Vec<_>>());
            self.source.sent(now, count);
            for datagram in datagrams {
                if let Ok(Packet::Data(Data { flags, messages, .. })) = Packet::parse(&datagram)
                    && flags & FLAG_RETRANSMISSION == 0
                {
                    self.responder.retain(now, TRANSPORT, messages);
                }
                for node in &mut self.nodes {
                    if !self.rng.chance(node.loss) {
                        node.live.push_back((self.now_ms + self.rng.below(2), datagram.clone()));
                    }
                }
            }
        }
    }

    fn join(&mut self, at: usize) {
        let (node, now) = (&mut self.nodes[at], Nanos::ZERO + MS * (self.now_ms as u32 + 1));
        if node.joined || self.now_ms < node.joins_ms {
            return;
        }
        node.joined = true;
        node.live.clear();
        for &(index, _) in &self.topics {
            let token = u64::from(index) * 10;
            node.requester.add_topic(now, index, token, true).expect("free");
            node.receiver.subscribe(index, token).expect("free");
            node.streams.insert(index, Stream::default());
        }
    }

    fn hear(&mut self, at: usize) {
        let (node, now) = (&mut self.nodes[at], Nanos::ZERO + MS * (self.now_ms as u32 + 1));
        if !node.joined {
            return;
        }
        let mut oracle = Oracle { sent: &self.sent, streams: &mut node.streams };
        let mut tap = node.requester.tap(now, &mut oracle);
        while node.live.front().is_some_and(|d| d.0 <= self.now_ms) {
            let (_, datagram) = node.live.pop_front().expect("just seen");
            // repetitions of the end come after the end
            let is_over = node.receiver.next_wakeup() == Nanos::NEVER;
            let taken = node.receiver.on_datagram(now, FROM, &datagram, &mut tap);
            assert!(taken.is_ok() || is_over, "{taken:?}");
        }
        node.receiver.on_wakeup(now, &mut tap);
    }

    fn connect(&mut self, at: usize) {
        let (lives, now_ms) = (self.lives(), self.now_ms);
        let node = &mut self.nodes[at];
        let mut oracle = Oracle { sent: &self.sent, streams: &mut node.streams };
        let wanted = node.joined && node.requester.wants_connection();
        if let Some(connection) = &node.connection {
            let cut = !lives || !wanted || self.rng.chance(self.cut);
            if cut {
                self.outcome.cuts += 1;
                self.responder.close(connection.client);
                node.connection = None;
                node.connects_ms = now_ms + self.rng.below(20);
                node.requester.on_disconnected();
            }
        } else if wanted && now_ms >= node.connects_ms {
            if !lives {
                node.connects_ms = now_ms + 20;
                return node.requester.on_refused(&mut oracle);
            }
            let client = self.responder.open().expect("room");
            node.requester.on_connected();
            node.connection = Some(Connection {
                client,
                up: Pipe::new(),
                down: Pipe::new(),
                at_source: StreamDecoder::default(),
                at_node: StreamDecoder::default(),
            });
        }
    }

    fn talk(&mut self, at: usize) {
        let (now, now_ms) = (self.now(), self.now_ms);
        let node = &mut self.nodes[at];
        node.ask(now, now_ms, &mut self.rng);
        let Some(c) = &mut node.connection else { return };
        for piece in arrived(&mut c.up, now_ms) {
            let take = |m: tickcast_lbt::stream::StreamMessage<'_>| {
                self.responder.on_message(c.client, &m);
            };
            c.at_source.push(&piece, take).expect("well-formed");
        }
        let mut answers = Vec::new();
        self.responder.poll_transmit(now, c.client, 4_000, &mut answers);
        push(&mut c.down, now_ms, &answers, &mut self.rng);
        for piece in arrived(&mut c.down, now_ms) {
            let mut oracle = Oracle { sent: &self.sent, streams: &mut node.streams };
            let take = |m: tickcast_lbt::stream::StreamMessage<'_>| {
                node.requester.on_message(now, &m, &mut oracle);
            };
            c.at_node.push(&piece, take).expect("well-formed");
        }
    }
}

impl Node {
    fn draw(rng: &mut Rng, foul: bool) -> Node {
        let receiver = ReceiverConfig {
            send_naks: false,
            nak_generation_interval: MS * (20 + rng.below(20) as u32),
            activity_timeout: MS * 1_500,
            ..ReceiverConfig::default()
        };
        let config = RecoveryConfig {
            retransmit_request_outstanding_maximum: 1 + rng.below(40) as u32,
            retransmit_request_interval: MS * 20,
            retransmit_request_generation_interval: if foul { MS * 60 } else { MS * 2_000 },
            retransmit_message_caching_proximity: if foul { 1 + rng.below(200) as u32 } else { 5_000 },
            hold_maximum_bytes: if foul { rng.below(20_000) } else { 1 << 20 },
            use_otr: !foul || rng.chance(0.9),
            ..RecoveryConfig::default()
        };
        let counters = Arc::new(LbmRecovery::default());
        let own = SocketAddrV4::new(Ipv4Addr::new(10, 29, 3, 21), 14393);
        let key = SessionKey { source: SOURCE, session: SESSION };
        let (r, d) = (Arc::new(LbtrmReceiver::default()), Arc::new(LbmDelivery::default()));
        Node {
            joins_ms: if rng.chance(0.6) { rng.below(SENDING_MS) } else { 0 },
            loss: rng.unit() * 0.3,
            receiver: Receiver::new(&receiver, key, rng.next_u64(), Nanos::ZERO, r, d).expect("allowed"),
            requester: Requester::new(&config, TRANSPORT, own, counters.clone()).expect("allowed"),
            config,
            counters,
            live: VecDeque::new(),
            connection: None,
            connects_ms: 0,
            streams: BTreeMap::new(),
            joined: false,
        }
    }

    fn ask(&mut self, now: Nanos, now_ms: u64, rng: &mut Rng) {
        let Some(connection) = &mut self.connection else { return };
        while let Some(asked) = self.requester.poll_transmit(now) {
            push(&mut connection.up, now_ms, asked, rng);
        }
    }
}

/// Sends bytes in pieces that arrive in order, within some milliseconds.
fn push(pipe: &mut Pipe, now_ms: u64, bytes: &[u8], rng: &mut Rng) {
    let mut rest = bytes;
    while !rest.is_empty() {
        let (piece, after) = rest.split_at(1 + rng.below(rest.len() as u64) as usize);
        let arrives = pipe.back().map_or(0, |last| last.0).max(now_ms + rng.below(3));
        pipe.push_back((arrives, piece.to_vec()));
        rest = after;
    }
}

fn arrived(pipe: &mut Pipe, now_ms: u64) -> Vec<Vec<u8>> {
    let count = pipe.iter().take_while(|piece| piece.0 <= now_ms).count();
    pipe.drain(..count).map(|piece| piece.1).collect()
}

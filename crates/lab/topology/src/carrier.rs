//! The transports of the backbone under one face: the machines of `lbt`, or messages as they are.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::sync::Arc;
use std::time::Duration;

use counters::table::{LbmDelivery, LbmSource, LbtrmReceiver, LbtrmSource, LbtruReceiver, LbtruSource};
use lbt::config::{
    DeliveryConfig, LbtruReceiverConfig, LbtruSourceConfig, Order, ReceiverConfig, SourceConfig,
};
use lbt::delivery::{BeginOfStream, Delivered, DeliverySink, EndOfStream, EndReason, Lost};
use lbt::ordered::{self, OrderedConfig, Room, Slot};
use lbt::session::TopicId;
use lbt::wire::lbtrm::SessionHeader;
use lbt::{rm, ru};
use units::{Nanos, Rng};

use crate::plan::Carrier;

/// A stream: of the directory, or of a service by its id.
pub(crate) type TopicKey = Option<u16>;

const UCAST_PORT: u16 = 14_391;

fn source_ip(distributor: usize) -> Ipv4Addr {
    Ipv4Addr::new(10, 29, 1, 1 + distributor as u8)
}

fn unicast_source(distributor: usize) -> SocketAddrV4 {
    SocketAddrV4::new(source_ip(distributor), 14_380)
}

fn server_address(server: usize) -> SocketAddrV4 {
    SocketAddrV4::new(Ipv4Addr::new(10, 29, 2, 1 + server as u8), 14_360)
}

fn server_at(address: SocketAddrV4) -> usize {
    usize::from(address.ip().octets()[3]) - 1
}

fn index_of(topic: TopicKey) -> u32 {
    topic.map_or(0, |service| 1 + u32::from(service))
}

const ACTIVITY: Duration = Duration::from_millis(1_500);
/// What a receiver may hold: datagrams behind gaps, and tables.
const RECEIVER_BYTES_MAX: usize = 1 << 20;
/// What a source may hold beside its window.
const SOURCE_BYTES_MAX: usize = 3 << 20;

fn source_config(small_window: bool) -> SourceConfig {
    SourceConfig {
        datagram_max_size: if small_window { 500 } else { 1_472 },
        transmission_window_size: if small_window { 64 << 10 } else { 1 << 20 },
        transport_session_maximum_buffer: 32 << 10,
        retransmit_queue_maximum: if small_window { 16 } else { 4_096 },
        sm_maximum_interval: Duration::from_millis(300),
        maximum_message_size: 16 << 10,
        ..SourceConfig::default()
    }
}

fn receiver_config(small_window: bool) -> ReceiverConfig {
    ReceiverConfig {
        nak_generation_interval: Duration::from_millis(if small_window { 40 } else { 400 }),
        activity_timeout: ACTIVITY,
        maximum_missing: if small_window { 30 } else { 4_096 },
        delivery: DeliveryConfig {
            maximum_message_size: 16 << 10,
            hold_maximum_bytes: 256 << 10,
            reassembly_maximum_bytes: 64 << 10,
            delivery_control_maximum_total_map_entries: 8_192,
            ..DeliveryConfig::default()
        },
        ..ReceiverConfig::default()
    }
}

/// The sending side: of one run of a source distributor.
pub(crate) struct Sender {
    machine: Machine,
    topics: BTreeMap<TopicKey, TopicId>,
    /// Messages that the machine would not take yet.
    waiting: Vec<(TopicKey, Vec<u8>)>,
}

enum Machine {
    Multicast(Box<rm::Source>),
    Unicast(Box<ru::Source>),
    Ordered(Box<ordered::Source>, Bytes),
    Plain,
}

/// What is sent, and to which server; to all if none is named.
pub(crate) enum Sent {
    Datagram(Option<usize>, Vec<u8>),
    /// Bytes of the stream that all who are connected get.
    Bytes(Vec<u8>),
}

impl Sender {
    /// `carrier` is none for memory between the two halves of a point of presence.
    pub(crate) fn new(carrier: Option<Carrier>, small_window: bool, session: u32, now: Nanos) -> Sender {
        let config = source_config(small_window);
        let machine = match carrier {
            Some(Carrier::Multicast) => {
                let header = SessionHeader { ucast_port: UCAST_PORT, session_id: session };
                let source = rm::Source::new(&config, header, now, Arc::new(LbtrmSource::default()));
                Machine::Multicast(Box::new(source.expect("a legal configuration")))
            }
            Some(Carrier::Unicast) => {
                let config = LbtruSourceConfig {
                    session: config,
                    client_activity_timeout: ACTIVITY,
                    ..LbtruSourceConfig::default()
                };
                let counters = Arc::new(LbtruSource::default());
                let source = ru::Source::new(&config, session, u64::from(session), now, counters);
                Machine::Unicast(Box::new(source.expect("a legal configuration")))
            }
            Some(Carrier::Ordered) => {
                let config = OrderedConfig { datagram_max_size: 500, ..OrderedConfig::default() };
                let source = ordered::Source::new(&config, Arc::new(LbmSource::default()));
                Machine::Ordered(Box::new(source.expect("a legal configuration")), Bytes::default())
            }
            Some(Carrier::Bare) | None => Machine::Plain,
        };
        Sender { machine, topics: BTreeMap::new(), waiting: Vec::new() }
    }

    pub(crate) fn open(&mut self, now: Nanos, topic: TopicKey) {
        let index = index_of(topic);
        let id = match &mut self.machine {
            Machine::Multicast(source) => source.add_topic(now, index),
            Machine::Unicast(source) => source.add_topic(now, index),
            Machine::Ordered(source, _) => source.add_topic(now, index),
            Machine::Plain => return,
        };
        self.topics.insert(topic, id);
    }

    pub(crate) fn close(&mut self, topic: TopicKey) {
        let Some(id) = self.topics.remove(&topic) else { return };
        self.waiting.retain(|(waiting, _)| *waiting != topic);
        match &mut self.machine {
            Machine::Multicast(source) => source.remove_topic(id),
            Machine::Unicast(source) => source.remove_topic(id),
            Machine::Ordered(source, _) => source.remove_topic(id),
            Machine::Plain => {}
        }
    }

    /// Takes a message of a stream.
    pub(crate) fn send(&mut self, now: Nanos, topic: TopicKey, bytes: Vec<u8>) {
        self.waiting.push((topic, bytes));
        self.push(now);
    }

    pub(crate) fn is_plain(&self) -> bool {
        matches!(self.machine, Machine::Plain)
    }

    fn push(&mut self, now: Nanos) {
        let mut count = 0;
        for (topic, bytes) in &self.waiting {
            let Some(&id) = self.topics.get(topic) else {
                count += 1;
                continue;
            };
            let sent = match &mut self.machine {
                Machine::Multicast(source) => source.send(now, id, &[bytes]),
                Machine::Unicast(source) => source.send(now, id, &[bytes]),
                Machine::Ordered(source, room) => source.send(now, id, &[bytes], room),
                Machine::Plain => return,
            };
            if sent.is_err() {
                break;
            }
            count += 1;
        }
        self.waiting.drain(..count);
    }

    /// A NAK, or what receivers say otherwise.
    pub(crate) fn on_datagram(&mut self, now: Nanos, server: usize, datagram: &[u8]) {
        // One for the session of an earlier run is refused.
        let _ = match &mut self.machine {
            Machine::Multicast(source) => source.on_datagram(now, server_address(server), datagram),
            Machine::Unicast(source) => source.on_datagram(now, server_address(server), datagram),
            Machine::Ordered(..) | Machine::Plain => Ok(()),
        };
    }

    pub(crate) fn next_wakeup(&self) -> Nanos {
        match &self.machine {
            Machine::Multicast(source) => source.next_wakeup(),
            Machine::Unicast(source) => source.next_wakeup(),
            Machine::Ordered(source, _) => source.next_wakeup(),
            Machine::Plain => Nanos::NEVER,
        }
    }

    /// Does what is due and sends what there is.
    pub(crate) fn turn(&mut self, now: Nanos, rng: &mut Rng, out: &mut Vec<Sent>) {
        match &mut self.machine {
            Machine::Multicast(source) => {
                source.on_wakeup(now);
                source.flush();
                while let Some(run) = source.poll_transmit(now) {
                    let count = 1 + rng.below(u64::from(run.count)) as u32;
                    out.extend(
                        run.datagrams().take(count as usize).map(|d| Sent::Datagram(None, d.to_vec())),
                    );
                    source.sent(now, count);
                }
                let held = source.memory_bytes();
                assert!(held <= SOURCE_BYTES_MAX, "memory: a source of LBT-RM holds {held} bytes");
            }
            Machine::Unicast(source) => {
                source.on_wakeup(now);
                source.flush();
                while let Some(transmit) = source.poll_transmit(now) {
                    let count = 1 + rng.below(u64::from(transmit.count())) as u32;
                    let each =
                        transmit.to.iter().flat_map(|to| transmit.run.datagrams().map(move |d| (*to, d)));
                    let datagrams = each.take(count as usize);
                    out.extend(datagrams.map(|(to, d)| Sent::Datagram(Some(server_at(to)), d.to_vec())));
                    source.sent(now, count);
                }
                let held = source.memory_bytes();
                assert!(held <= SOURCE_BYTES_MAX, "memory: a source of LBT-RU holds {held} bytes");
            }
            Machine::Ordered(source, room) => {
                source.on_wakeup(now, room);
                if !room.0.is_empty() {
                    out.push(Sent::Bytes(std::mem::take(&mut room.0)));
                }
            }
            Machine::Plain => {}
        }
        if !self.waiting.is_empty() {
            self.push(now);
        }
    }
}

/// A stream without end.
#[derive(Default)]
struct Bytes(Vec<u8>);

struct Appended<'a> {
    bytes: &'a mut Vec<u8>,
    from: usize,
    is_committed: bool,
}

impl Room for Bytes {
    type Slot<'a> = Appended<'a>;
    fn is_blocked(&self) -> bool {
        false
    }
    fn slot(&mut self, len: usize) -> Option<Appended<'_>> {
        let from = self.0.len();
        self.0.resize(from + len, 0);
        Some(Appended { bytes: &mut self.0, from, is_committed: false })
    }
    fn can_hold(&self, _: usize, _: usize) -> bool {
        true
    }
}

impl Slot for Appended<'_> {
    fn bytes(&mut self) -> &mut [u8] {
        &mut self.bytes[self.from..]
    }
    fn commit(mut self) {
        self.is_committed = true;
    }
}

impl Drop for Appended<'_> {
    fn drop(&mut self) {
        if !self.is_committed {
            self.bytes.truncate(self.from);
        }
    }
}

/// The receiving side: of one run of a source distributor at one server.
pub(crate) enum Receiver {
    Multicast(Box<rm::Receiver>),
    Unicast(Box<ru::Receiver>),
    /// With the begin of a message that is not whole.
    Ordered(Box<ordered::Receiver>, Vec<u8>),
    Plain,
}

/// What a receiver hands on.
#[derive(Default)]
pub(crate) struct Heard {
    /// With the token of the subscription.
    pub(crate) messages: Vec<(u64, Vec<u8>)>,
    pub(crate) lost: u64,
}

impl DeliverySink for Heard {
    fn deliver(&mut self, message: Delivered<'_>) {
        self.messages.push((message.token, message.payload.to_vec()));
    }
    fn lost(&mut self, lost: Lost) {
        self.lost += u64::from(lost.count);
    }
    fn begin_of_stream(&mut self, _: BeginOfStream) {}
    fn end_of_stream(&mut self, _: EndOfStream) {}
}

impl Receiver {
    pub(crate) fn new(
        carrier: Option<Carrier>,
        small_window: bool,
        distributor: usize,
        (session, client, seed): (u32, u32, u64),
        now: Nanos,
    ) -> Receiver {
        let delivery = Arc::new(LbmDelivery::default());
        match carrier {
            Some(Carrier::Multicast) => {
                let header = SessionHeader { ucast_port: UCAST_PORT, session_id: session };
                let key = rm::SessionKey { source: source_ip(distributor), session: header };
                let (config, counters) = (receiver_config(small_window), Arc::new(LbtrmReceiver::default()));
                let receiver = rm::Receiver::new(&config, key, seed, now, counters, delivery);
                Receiver::Multicast(Box::new(receiver.expect("a legal configuration")))
            }
            Some(Carrier::Unicast) => {
                let key = ru::SessionKey { source: unicast_source(distributor), session_id: Some(session) };
                let standard = LbtruReceiverConfig::default();
                let config = LbtruReceiverConfig {
                    session: ReceiverConfig {
                        nak_initial_backoff_interval: standard.session.nak_initial_backoff_interval,
                        nak_law: standard.session.nak_law,
                        ..receiver_config(small_window)
                    },
                    connect_maximum: 10,
                    acknowledgement_interval: Duration::from_millis(300),
                    ..standard
                };
                let counters = Arc::new(LbtruReceiver::default());
                let receiver = ru::Receiver::new(&config, key, client, seed, now, counters, delivery);
                Receiver::Unicast(Box::new(receiver.expect("a legal configuration")))
            }
            Some(Carrier::Ordered) => {
                let receiver = ordered::Receiver::new(&DeliveryConfig::default(), seed, delivery);
                Receiver::Ordered(Box::new(receiver.expect("a legal configuration")), Vec::new())
            }
            Some(Carrier::Bare) | None => Receiver::Plain,
        }
    }

    pub(crate) fn subscribe(&mut self, topic: TopicKey, token: u64) {
        let (index, order) = (index_of(topic), Some(Order::Topic));
        let _ = match self {
            Receiver::Multicast(receiver) => receiver.subscribe_ordered(index, token, order),
            Receiver::Unicast(receiver) => receiver.subscribe_ordered(index, token, order),
            Receiver::Ordered(receiver, _) => receiver.subscribe(index, token, order),
            Receiver::Plain => Ok(()),
        };
    }

    pub(crate) fn unsubscribe(&mut self, topic: TopicKey) {
        let index = index_of(topic);
        match self {
            Receiver::Multicast(receiver) => receiver.unsubscribe(index),
            Receiver::Unicast(receiver) => receiver.unsubscribe(index),
            Receiver::Ordered(receiver, _) => receiver.unsubscribe(index),
            Receiver::Plain => {}
        }
    }

    pub(crate) fn on_datagram(&mut self, now: Nanos, distributor: usize, datagram: &[u8], heard: &mut Heard) {
        // One of an earlier run's session is refused.
        let _ = match self {
            Receiver::Multicast(receiver) => {
                let from = SocketAddrV4::new(source_ip(distributor), 40_001);
                receiver.on_datagram(now, from, datagram, heard)
            }
            Receiver::Unicast(receiver) => {
                receiver.on_datagram(now, unicast_source(distributor), datagram, heard)
            }
            Receiver::Ordered(..) | Receiver::Plain => Ok(()),
        };
    }

    /// Bytes of a stream.
    pub(crate) fn on_bytes(&mut self, bytes: &[u8], heard: &mut Heard) {
        let Receiver::Ordered(receiver, begun) = self else { return };
        begun.extend_from_slice(bytes);
        let whole = receiver.on_bytes(begun, heard).expect("a stream of messages");
        begun.drain(..whole);
    }

    /// The connection of the stream is gone.
    pub(crate) fn on_closed(&mut self, heard: &mut Heard) {
        if let Receiver::Ordered(receiver, _) = self {
            receiver.end(EndReason::Broken, heard);
        }
    }

    pub(crate) fn has_ended(&self) -> bool {
        match self {
            Receiver::Multicast(receiver) => receiver.has_ended(),
            Receiver::Unicast(receiver) => receiver.has_ended(),
            Receiver::Ordered(receiver, _) => receiver.has_ended(),
            Receiver::Plain => false,
        }
    }

    pub(crate) fn next_wakeup(&self) -> Nanos {
        match self {
            Receiver::Multicast(receiver) => receiver.next_wakeup(),
            Receiver::Unicast(receiver) => receiver.next_wakeup(),
            Receiver::Ordered(..) | Receiver::Plain => Nanos::NEVER,
        }
    }

    /// Does what is due; what is to be sent to the source.
    pub(crate) fn turn(&mut self, now: Nanos, heard: &mut Heard) -> Vec<Vec<u8>> {
        let mut feedback = Vec::new();
        let held = match self {
            Receiver::Multicast(receiver) => {
                receiver.on_wakeup(now, heard);
                while let Some(said) = receiver.poll_transmit(now) {
                    feedback.push(said.datagram.to_vec());
                }
                receiver.memory_bytes()
            }
            Receiver::Unicast(receiver) => {
                receiver.on_wakeup(now, heard);
                while let Some(said) = receiver.poll_transmit(now) {
                    feedback.push(said.datagram.to_vec());
                }
                receiver.memory_bytes()
            }
            Receiver::Ordered(receiver, begun) => receiver.memory_bytes() + begun.len(),
            Receiver::Plain => 0,
        };
        assert!(held <= RECEIVER_BYTES_MAX, "memory: a receiver holds {held} bytes");
        feedback
    }
}

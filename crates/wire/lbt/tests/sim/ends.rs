//! The two sides of either transport under one face, so that one world serves both.

use crate::oracle::Oracle;
use crate::plan::NodePlan;
use counters::table::{
    LbmDelivery, LbtrmReceiver, LbtrmSource, LbtruReceiver, LbtruSource, ReliableReceiver, ReliableSource,
};
use std::net::{Ipv4Addr, SocketAddrV4};
use std::sync::Arc;
use tickcast_lbt::config::{LbtruReceiverConfig, LbtruSourceConfig, Order, ReceiverConfig, SourceConfig};
use tickcast_lbt::delivery::SubscribeError;
use tickcast_lbt::rm;
use tickcast_lbt::ru;
use tickcast_lbt::session::{SendError, TopicId};
use tickcast_lbt::wire::lbtrm::SessionHeader;
use tickcast_lbt::wire::lbtru;
use units::{Nanos, Rng, Sqn};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Transport {
    Lbtrm,
    Lbtru,
}

pub(crate) const SOURCE: Ipv4Addr = Ipv4Addr::new(10, 29, 3, 1);
pub(crate) const UCAST_PORT: u16 = 14391;
/// LBT-RM data comes from another port than the one NAKs go to.
pub(crate) const DATA_FROM: SocketAddrV4 = SocketAddrV4::new(SOURCE, 40_001);
pub(crate) const UNICAST_SOURCE: SocketAddrV4 = SocketAddrV4::new(SOURCE, 14_380);

/// Where a node receives, or sends NAKs from.
pub(crate) fn node_address(node: usize) -> SocketAddrV4 {
    SocketAddrV4::new(Ipv4Addr::new(10, 29, 3, 21 + node as u8), 14_360)
}

fn node_at(address: SocketAddrV4) -> usize {
    usize::from(address.ip().octets()[3]) - 21
}

pub(crate) enum Sender {
    Lbtrm(rm::Source),
    Lbtru(ru::Source),
}

/// Calls the same method of either side.
macro_rules! either {
    ($side:expr, $end:ident => $call:expr) => {
        match $side {
            Self::Lbtrm($end) => $call,
            Self::Lbtru($end) => $call,
        }
    };
}

impl Sender {
    pub(crate) fn new(
        transport: Transport,
        config: &SourceConfig,
        id: u32,
        first: Sqn,
        now: Nanos,
    ) -> (Sender, Arc<ReliableSource>) {
        match transport {
            Transport::Lbtrm => {
                let header = SessionHeader { ucast_port: UCAST_PORT, session_id: id };
                let counters = Arc::new(LbtrmSource::default());
                let source = rm::Source::starting_at(config, header, first, now, counters.clone());
                (Sender::Lbtrm(source.expect("plans are allowed")), counters.session.clone())
            }
            Transport::Lbtru => {
                let counters = Arc::new(LbtruSource::default());
                let config = unicast_source(config);
                let source = ru::Source::starting_at(&config, id, 7, first, now, counters.clone());
                (Sender::Lbtru(source.expect("plans are allowed")), counters.session.clone())
            }
        }
    }

    pub(crate) fn add_topic_at(&mut self, now: Nanos, index: u32, first: Sqn) -> TopicId {
        either!(self, s => s.add_topic_at(now, index, first))
    }

    pub(crate) fn next_sqn(&self, topic: TopicId) -> u32 {
        either!(self, s => s.next_sqn(topic)).expect("the topic is open").0
    }

    pub(crate) fn send(&mut self, now: Nanos, topic: TopicId, parts: &[&[u8]]) -> Result<Sqn, SendError> {
        either!(self, s => s.send(now, topic, parts))
    }

    /// The length of a message that fills a datagram.
    pub(crate) fn claim_max(&self) -> usize {
        either!(self, s => s.claim_max())
    }

    pub(crate) fn flush(&mut self) {
        either!(self, s => s.flush());
    }

    pub(crate) fn end(&mut self, now: Nanos) {
        either!(self, s => s.end(now));
    }

    pub(crate) fn on_wakeup(&mut self, now: Nanos) {
        either!(self, s => s.on_wakeup(now));
    }

    pub(crate) fn next_wakeup(&self) -> Nanos {
        either!(self, s => s.next_wakeup())
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        either!(self, s => s.memory_bytes())
    }

    /// After a crash, packets for the old session still arrive, and are refused; garbage is too.
    pub(crate) fn on_datagram(&mut self, now: Nanos, node: usize, datagram: &[u8]) {
        let _ = match self {
            Sender::Lbtrm(s) => s.on_datagram(now, node_address(node), datagram),
            Sender::Lbtru(s) => s.on_datagram(now, node_address(node), datagram),
        };
    }

    /// Sends a part of what there is to send: `send` gets each datagram and the node it is for, none for all.
    /// False if there is nothing.
    pub(crate) fn transmit(
        &mut self,
        now: Nanos,
        rng: &mut Rng,
        mut send: impl FnMut(Option<usize>, &[u8]),
    ) -> bool {
        let mut part = |count: u32| 1 + rng.below(u64::from(count)) as u32;
        match self {
            Sender::Lbtrm(s) => {
                let Some(run) = s.poll_transmit(now) else { return false };
                let count = part(run.count);
                run.datagrams().take(count as usize).for_each(|d| send(None, d));
                s.sent(now, count);
            }
            Sender::Lbtru(s) => {
                let Some(transmit) = s.poll_transmit(now) else { return false };
                let count = part(transmit.count());
                let each = transmit.to.iter().flat_map(|to| transmit.run.datagrams().map(move |d| (*to, d)));
                each.take(count as usize).for_each(|(to, d)| send(Some(node_at(to)), d));
                s.sent(now, count);
            }
        }
        true
    }
}

pub(crate) enum Hearer {
    Lbtrm(rm::Receiver),
    Lbtru(ru::Receiver),
}

impl Hearer {
    pub(crate) fn new(
        transport: Transport,
        config: &ReceiverConfig,
        id: u32,
        now: Nanos,
        delivery: Arc<LbmDelivery>,
    ) -> (Hearer, Arc<ReliableReceiver>) {
        let seed = now.0 ^ u64::from(id);
        match transport {
            Transport::Lbtrm => {
                let session = SessionHeader { ucast_port: UCAST_PORT, session_id: id };
                let key = rm::SessionKey { source: SOURCE, session };
                let counters = Arc::new(LbtrmReceiver::default());
                let receiver = rm::Receiver::new(config, key, seed, now, counters.clone(), delivery);
                (Hearer::Lbtrm(receiver.expect("plans are allowed")), counters.session.clone())
            }
            Transport::Lbtru => {
                let key = ru::SessionKey { source: UNICAST_SOURCE, session_id: Some(id) };
                let counters = Arc::new(LbtruReceiver::default());
                let config = unicast_receiver(config);
                let receiver = ru::Receiver::new(&config, key, id, seed, now, counters.clone(), delivery);
                (Hearer::Lbtru(receiver.expect("plans are allowed")), counters.session.clone())
            }
        }
    }

    pub(crate) fn subscribe_ordered(
        &mut self,
        index: u32,
        token: u64,
        order: Order,
    ) -> Result<(), SubscribeError> {
        either!(self, r => r.subscribe_ordered(index, token, Some(order)))
    }

    /// Refused datagrams are counted; a jump beyond what may be missing is taken when it is confirmed.
    pub(crate) fn on_datagram(&mut self, now: Nanos, datagram: &[u8], oracle: &mut Oracle<'_>) {
        let _ = match self {
            Hearer::Lbtrm(r) => r.on_datagram(now, DATA_FROM, datagram, oracle),
            Hearer::Lbtru(r) => r.on_datagram(now, UNICAST_SOURCE, datagram, oracle),
        };
    }

    pub(crate) fn on_wakeup(&mut self, now: Nanos, oracle: &mut Oracle<'_>) {
        either!(self, r => r.on_wakeup(now, oracle));
    }

    /// Hands what is to be sent to `send`.
    pub(crate) fn transmit(&mut self, now: Nanos, mut send: impl FnMut(&[u8])) {
        either!(self, r => while let Some(feedback) = r.poll_transmit(now) {
            let right = [SocketAddrV4::new(SOURCE, UCAST_PORT), UNICAST_SOURCE];
            assert!(right.contains(&feedback.to), "{}", feedback.to);
            send(feedback.datagram);
        });
    }

    pub(crate) fn next_wakeup(&self) -> Nanos {
        either!(self, r => r.next_wakeup())
    }

    pub(crate) fn has_ended(&self) -> bool {
        either!(self, r => r.has_ended())
    }

    pub(crate) fn missing(&self) -> u64 {
        either!(self, r => r.missing())
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        either!(self, r => r.memory_bytes())
    }
}

/// The session whose receiver a datagram is for; none if it does not say, as a reset or one that is damaged. The answer
/// to a request is for who asked, though it may speak of another session: receivers have their session's id as client id.
pub(crate) fn session_of(transport: Transport, datagram: &[u8]) -> Option<u32> {
    match transport {
        Transport::Lbtrm => rm::SessionKey::of(SOURCE, datagram).map(|k| k.session.session_id),
        Transport::Lbtru => {
            let packet = lbtru::Packet::parse(datagram).ok()?;
            let is_answer = packet.flags & lbtru::FLAG_SYN != 0;
            packet.options.client_id.filter(|_| is_answer).or(packet.options.session_id)
        }
    }
}

fn unicast_source(c: &SourceConfig) -> LbtruSourceConfig {
    let session = SourceConfig {
        datagram_max_size: c.datagram_max_size,
        implicit_batching_minimum_length: c.implicit_batching_minimum_length,
        implicit_batching_interval: c.implicit_batching_interval,
        retransmit_rate_limit: c.retransmit_rate_limit,
        transmission_window_size: c.transmission_window_size,
        transport_session_maximum_buffer: c.transport_session_maximum_buffer,
        retransmit_queue_maximum: c.retransmit_queue_maximum,
        maximum_message_size: c.maximum_message_size,
        ..SourceConfig::default()
    };
    LbtruSourceConfig { session, ..LbtruSourceConfig::default() }
}

fn unicast_receiver(c: &ReceiverConfig) -> LbtruReceiverConfig {
    let standard = LbtruReceiverConfig::default();
    let session = ReceiverConfig {
        nak_generation_interval: c.nak_generation_interval,
        send_naks: c.send_naks,
        late_start: c.late_start,
        maximum_missing: c.maximum_missing,
        maximum_gaps: c.maximum_gaps,
        delivery: c.delivery.clone(),
        ..standard.session
    };
    LbtruReceiverConfig { session, ..standard }
}

/// Bytes that a receiver of the plan may hold at most: what is held after gaps with its index, messages
/// being put together, gaps, scratch.
pub(crate) fn receiver_bytes_max(plan: &NodePlan) -> usize {
    let (c, d) = (&plan.config, &plan.config.delivery);
    let entries = d.delivery_control_maximum_total_map_entries as usize;
    let held = d.hold_maximum_bytes as usize + 2 * 64 * entries;
    held + 3 * d.reassembly_maximum_bytes as usize + 2 * 64 * c.maximum_gaps as usize + (256 << 10)
}

mod packets;

use super::backoff::next_wait;
use super::loss::LossMap;
use super::tally;
use crate::config::{ConfigError, NakLaw, Order, ReceiverConfig};
use crate::delivery::{Delivery, EndReason, Sink, SubscribeError};
use crate::error::WireError;
use crate::wire::lbtrm::{HEADER_LEN, Nak, SessionHeader};
use counters::table::{LbmDelivery, LbtrmReceiver};
use std::net::{Ipv4Addr, SocketAddrV4};
use std::sync::Arc;
use std::time::Duration;
use units::{Nanos, Rng, Sqn};

/// What tells transport sessions apart: the UDP source port of data is not part of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SessionKey {
    /// Address of the source.
    pub source: Ipv4Addr,
    /// Its unicast port and session id.
    pub session: SessionHeader,
}

impl SessionKey {
    /// The session a datagram from `source` belongs to, without looking further; `None` if it is too short.
    #[must_use]
    pub fn of(source: Ipv4Addr, datagram: &[u8]) -> Option<SessionKey> {
        let &[_, _, p0, p1, s0, s1, s2, s3] = datagram.first_chunk::<HEADER_LEN>()?;
        let ucast_port = u16::from_be_bytes([p0, p1]);
        let session = SessionHeader { ucast_port, session_id: u32::from_be_bytes([s0, s1, s2, s3]) };
        Some(SessionKey { source, session })
    }
}

/// The receiving side of one LBT-RM transport session, with the topics of it that somebody subscribed to.
///
/// The driver calls: `on_datagram` for what arrives, `on_wakeup` at [`Receiver::next_wakeup`], and after
/// either `poll_transmit` until there is nothing to send. When [`Receiver::has_ended`], it is dropped; a
/// source that starts again has another session id.
pub struct Receiver {
    key: SessionKey,
    phase: Phase,
    /// The first number of this receiver.
    base: u64,
    /// The number after the highest one heard of.
    next: u64,
    loss: LossMap,
    /// When what is found missing now is first NAKed: numbers found within one wait share it.
    nak_timer: Nanos,
    /// NAKs that may still be sent, and until when.
    nak_credit: usize,
    nak_credit_until: Nanos,
    /// A number far ahead that a second packet has to confirm.
    suspect: Option<u64>,
    heard: Nanos,
    delivery: Delivery,
    rng: Rng,
    naks: Vec<Sqn>,
    out: Vec<u8>,
    law: NakLaw,
    initial: Duration,
    backoff: Duration,
    suppress: Duration,
    generation: Duration,
    activity: Duration,
    preactivity: Duration,
    send_naks: bool,
    late_start: bool,
    jump_max: u64,
    counters: Arc<LbtrmReceiver>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Nothing was heard that sets the first number.
    Waiting,
    Live,
    Ended,
}

/// A datagram to be sent to the source's unicast port.
#[derive(Clone, Copy, Debug)]
pub struct Feedback<'a> {
    /// Where to.
    pub to: SocketAddrV4,
    /// A NAK.
    pub datagram: &'a [u8],
}

/// Numbers in one NAK packet: what an Ethernet frame carries.
const NAK_NUMBERS_MAX: usize = 365;
/// Numbers NAKed within one initial back-off; more than any link carries in that time.
const NAK_BURST_MAX: usize = 2_048;
/// Least time over which the burst is counted.
const NAK_BURST_SPAN_MIN: Duration = Duration::from_micros(100);

impl Receiver {
    /// A receiver that has heard nothing yet. `seed` is where its random waits come from.
    ///
    /// # Errors
    /// The first option that is out of range or contradicts another.
    pub fn new(
        config: &ReceiverConfig,
        key: SessionKey,
        seed: u64,
        now: Nanos,
        counters: Arc<LbtrmReceiver>,
        delivery_counters: Arc<LbmDelivery>,
    ) -> Result<Receiver, ConfigError> {
        config.check()?;
        let preactivity = match config.transport_lbtrm_preactivity_timeout {
            Duration::ZERO => config.transport_lbtrm_activity_timeout,
            span => span,
        };
        Ok(Receiver {
            key,
            phase: Phase::Waiting,
            base: 0,
            next: 0,
            loss: LossMap::new(config.maximum_gaps as usize, u64::from(config.maximum_missing)),
            nak_timer: Nanos::ZERO,
            nak_credit: NAK_BURST_MAX,
            nak_credit_until: Nanos::ZERO,
            suspect: None,
            heard: now,
            delivery: Delivery::new(&config.delivery, delivery_counters),
            rng: Rng::new(seed),
            naks: Vec::with_capacity(NAK_NUMBERS_MAX),
            out: Vec::with_capacity(HEADER_LEN + 4 + 4 * NAK_NUMBERS_MAX),
            law: config.nak_law,
            initial: config.transport_lbtrm_nak_initial_backoff_interval,
            backoff: config.transport_lbtrm_nak_backoff_interval,
            suppress: config.transport_lbtrm_nak_suppress_interval,
            generation: config.transport_lbtrm_nak_generation_interval,
            activity: config.transport_lbtrm_activity_timeout,
            preactivity,
            send_naks: config.transport_lbtrm_send_naks,
            late_start: config.late_start,
            jump_max: u64::from(config.maximum_missing),
            counters,
        })
    }

    /// Delivers the messages of a topic from now on, in the configured order. `token` comes back in every
    /// event.
    ///
    /// A topic that was subscribed before the session's datagram number 0 was heard begins at its number 0,
    /// and loss at its head is reported. Otherwise it begins with the first message that arrives; what was
    /// missing before the subscription does not hold it up, what is missing since then does.
    ///
    /// # Errors
    /// The topic is subscribed, or there are too many.
    pub fn subscribe(&mut self, topic_index: u32, token: u64) -> Result<(), SubscribeError> {
        self.subscribe_ordered(topic_index, token, None)
    }

    /// The same with the order of this topic; `None` for the configured one.
    ///
    /// # Errors
    /// As [`Receiver::subscribe`].
    pub fn subscribe_ordered(
        &mut self,
        topic_index: u32,
        token: u64,
        order: Option<Order>,
    ) -> Result<(), SubscribeError> {
        let floor = if self.phase == Phase::Waiting { 0 } else { self.next };
        self.delivery.subscribe(topic_index, token, order, floor)
    }

    /// Drops a topic with all that waits for it; no event follows.
    pub fn unsubscribe(&mut self, topic_index: u32) {
        self.delivery.unsubscribe(topic_index);
    }

    /// Takes a datagram that arrived from the group.
    ///
    /// # Errors
    /// What is wrong with it; it was counted and dropped whole, and nothing of it was delivered.
    #[inline]
    pub fn on_datagram<S: Sink>(
        &mut self,
        now: Nanos,
        from: SocketAddrV4,
        datagram: &[u8],
        sink: &mut S,
    ) -> Result<(), WireError> {
        match self.take(now, from, datagram, sink) {
            Ok(()) => Ok(()),
            Err(error) => {
                tally::dropped(&self.counters, &error);
                Err(error)
            }
        }
    }

    /// Does what is due: gives up what is too old, ends a session that fell silent. NAKs come out of
    /// [`Receiver::poll_transmit`] afterwards.
    pub fn on_wakeup<S: Sink>(&mut self, now: Nanos, sink: &mut S) {
        match self.phase {
            Phase::Live => {
                let count = self.loss.give_up_older(now, self.generation);
                self.counters.unrecovered_tmo.add(count);
                self.advance(sink);
                if self.phase == Phase::Live && now >= self.heard + self.activity {
                    self.end(EndReason::TimedOut, sink);
                }
            }
            Phase::Waiting if now >= self.heard + self.preactivity => self.end(EndReason::TimedOut, sink),
            Phase::Waiting | Phase::Ended => {}
        }
    }

    /// The next NAK to send, if one is due; to be called until there is none.
    pub fn poll_transmit(&mut self, now: Nanos) -> Option<Feedback<'_>> {
        if now < self.loss.next_due() || self.phase != Phase::Live {
            return None;
        }
        if now >= self.nak_credit_until {
            self.nak_credit = NAK_BURST_MAX;
            self.nak_credit_until = now + self.initial.max(NAK_BURST_SPAN_MIN);
        }
        let count_max = self.nak_credit.min(NAK_NUMBERS_MAX);
        let again = now + next_wait(self.law, self.backoff, &mut self.rng);
        self.naks.clear();
        self.loss.collect_due(now, again, count_max, &mut self.naks);
        if self.naks.is_empty() {
            return None;
        }
        self.nak_credit -= self.naks.len();
        self.counters.nak_pckts_sent.inc();
        self.counters.naks_sent.add(self.naks.len() as u64);
        self.out.clear();
        Nak::emit(self.key.session, &self.naks, &mut self.out);
        let to = SocketAddrV4::new(self.key.source, self.key.session.ucast_port);
        Some(Feedback { to, datagram: &self.out })
    }

    /// When [`Receiver::on_wakeup`] and [`Receiver::poll_transmit`] are to be called at the latest.
    #[must_use]
    pub fn next_wakeup(&self) -> Nanos {
        match self.phase {
            Phase::Ended => Nanos::NEVER,
            Phase::Waiting => self.heard + self.preactivity,
            Phase::Live => {
                let mut nak = self.loss.next_due();
                if self.nak_credit == 0 {
                    nak = nak.max(self.nak_credit_until);
                }
                nak.min(self.loss.next_give_up(self.generation)).min(self.heard + self.activity)
            }
        }
    }

    /// Ends the session from this side: what waits is delivered, then every topic's stream ends.
    pub fn close<S: Sink>(&mut self, sink: &mut S) {
        if self.phase != Phase::Ended {
            self.end(EndReason::Closed, sink);
        }
    }

    /// Whether the session is over; nothing comes any more.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.phase == Phase::Ended
    }

    /// The session.
    #[must_use]
    pub fn key(&self) -> SessionKey {
        self.key
    }

    /// Datagrams missing now.
    #[must_use]
    pub fn missing(&self) -> u64 {
        self.loss.missing()
    }

    /// Memory held: loss map, held datagrams, messages being put together, topics.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        let scratch = self.out.capacity() + self.naks.capacity() * size_of::<Sqn>();
        self.loss.memory_bytes() + self.delivery.memory_bytes() + scratch
    }
}

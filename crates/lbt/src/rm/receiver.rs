use super::backoff::{first_wait, next_wait};
use super::loss::LossMap;
use super::tally;
use crate::config::{ConfigError, NakLaw, Order, ReceiverConfig};
use crate::delivery::{Delivery, EndReason, Place, Sink, SubscribeError, WIDE_ZERO, widen};
use crate::error::{Part, WireError};
use crate::wire::lbmc;
use crate::wire::lbtrm::{Data, HEADER_LEN, Nak, Ncf, NcfReason, Packet, SessionHeader, SessionMessage};
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
/// The driver calls: `on_datagram` for what arrives, `on_wakeup` at [`Receiver::next_wakeup`], and after either
/// `poll_transmit` until there is nothing to send. When [`Receiver::has_ended`], it is dropped; a source that starts
/// again has another session id.
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

    /// Delivers the messages of a topic from now on, in the configured order. `token` comes back in every event.
    ///
    /// A topic that was subscribed before the session's datagram number 0 was heard begins at its number 0, and
    /// loss at its head is reported. Otherwise it begins with the first message that arrives; what was missing
    /// before the subscription does not hold it up, what is missing since then does.
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

    // ---- private steps

    #[inline]
    fn take<S: Sink>(
        &mut self,
        now: Nanos,
        from: SocketAddrV4,
        datagram: &[u8],
        sink: &mut S,
    ) -> Result<(), WireError> {
        let packet = Packet::parse(datagram)?;
        let key = SessionKey { source: *from.ip(), session: packet.session() };
        if key != self.key || self.phase == Phase::Ended {
            let (found, limit) = (key.session.session_id, self.key.session.session_id);
            return Err(WireError::Inconsistent { part: Part::LbtrmHeader, found, limit });
        }
        match packet {
            Packet::Data(data) => self.on_data(now, &data, datagram.len(), sink)?,
            Packet::SessionMessage(sm) => self.on_session_message(now, &sm, sink)?,
            Packet::Ncf(ncf) => self.on_ncf(&ncf, sink),
            Packet::Nak(_) => {
                let (found, limit) = (u32::from(datagram[0]), 0);
                return Err(WireError::Unsupported { part: Part::LbtrmType, found, limit });
            }
        }
        self.heard = now;
        Ok(())
    }

    #[inline]
    fn on_data<S: Sink>(
        &mut self,
        now: Nanos,
        data: &Data<'_>,
        len: usize,
        sink: &mut S,
    ) -> Result<(), WireError> {
        let count = lbmc::check(data.messages)?;
        let in_order = data.sqn.0 == self.next as u32 && self.loss.is_empty();
        if !in_order || self.phase != Phase::Live {
            return self.on_data_out_of_order(now, data, len, count, sink);
        }
        let t = self.next;
        self.next = t + 1;
        self.count_accepted(len);
        let place = Place { t, front: t + 1, clear_from: 0, recovered: data.is_retransmission() };
        self.delivery.on_datagram(place, data.messages, sink);
        if self.delivery.ended_at().is_some() {
            self.advance(sink);
        }
        Ok(())
    }

    #[inline(never)]
    fn on_data_out_of_order<S: Sink>(
        &mut self,
        now: Nanos,
        data: &Data<'_>,
        len: usize,
        count: u32,
        sink: &mut S,
    ) -> Result<(), WireError> {
        let recovered = data.is_retransmission();
        if self.phase == Phase::Waiting && recovered && !self.late_start {
            // somebody else's past: the first original sets the start
            self.counters.before_start.inc();
            return Ok(());
        }
        self.begin(data.sqn, data.trail_sqn);
        let t = widen(self.next, data.sqn);
        if t >= self.next {
            self.raise_to(now, t, data.sqn)?;
            self.next = t + 1;
        } else {
            match self.loss.remove(t) {
                Some(gap) => tally::repaired(&self.counters, now.since(gap.detected), gap.naks, recovered),
                None => {
                    tally::unwanted(&self.counters, t < self.base);
                    self.give_up_below(widen(t, data.trail_sqn));
                    self.advance(sink);
                    return Ok(());
                }
            }
        }
        self.count_accepted(len);
        self.give_up_below(widen(t, data.trail_sqn));
        // what became final by giving up goes before this datagram, what this datagram completes goes after it
        self.delivery.on_front(self.front().min(t), sink);
        self.make_room(t, data.messages.len(), count, sink);
        let place = Place { t, front: self.front(), clear_from: self.loss.end_below(t), recovered };
        self.delivery.on_datagram(place, data.messages, sink);
        self.advance(sink);
        Ok(())
    }

    fn on_session_message<S: Sink>(
        &mut self,
        now: Nanos,
        sm: &SessionMessage<'_>,
        sink: &mut S,
    ) -> Result<(), WireError> {
        self.counters.sms_rcved.inc();
        self.begin(sm.lead_sqn.next(), sm.trail_sqn);
        let end = widen(self.next, sm.lead_sqn) + 1;
        if end > self.next {
            self.raise_to(now, end, sm.lead_sqn)?;
            self.next = end;
        }
        self.give_up_below(widen(self.next, sm.trail_sqn));
        self.advance(sink);
        Ok(())
    }

    fn on_ncf<S: Sink>(&mut self, ncf: &Ncf<'_>, sink: &mut S) {
        let counters = &self.counters;
        let counter = match ncf.reason {
            NcfReason::DoNotRetry => &counters.ncfs_do_not_retry,
            NcfReason::Ignored => &counters.ncfs_ignored,
            NcfReason::RetransmitDelay => &counters.ncfs_rx_delay,
            NcfReason::Shed => &counters.ncfs_shed,
            NcfReason::Unknown(_) => &counters.ncfs_unknown,
        };
        counter.add(ncf.numbers.len() as u64);
        for sqn in ncf.numbers.iter() {
            let t = widen(self.next, sqn);
            if ncf.reason != NcfReason::DoNotRetry {
                self.loss.put_off(t, self.suppress);
            } else if self.loss.give_up(t) {
                self.counters.unrecovered_ncf.inc();
            }
        }
        self.give_up_below(widen(self.next, ncf.trail_sqn));
        self.advance(sink);
    }

    /// Begins at `first`, or at the trailing edge for a late start, if the session has not begun.
    fn begin(&mut self, first: Sqn, trail: Sqn) {
        if self.phase != Phase::Waiting {
            return;
        }
        let first = WIDE_ZERO + u64::from(first.0);
        self.base = if self.late_start { widen(first, trail) } else { first };
        self.next = self.base;
        self.phase = Phase::Live;
        let from_zero = self.base as u32 == 0 && trail == Sqn(0);
        self.delivery.begin_session(self.base, from_zero);
    }

    /// Everything from the next number to before `end` was sent and has not arrived.
    ///
    /// A jump beyond the bound on missing numbers is believed when a second packet agrees with it, so that one
    /// stray packet does not make the receiver deaf to the session.
    fn raise_to(&mut self, now: Nanos, end: u64, stated: Sqn) -> Result<(), WireError> {
        let jump = end - self.next;
        if jump > self.jump_max {
            let agrees = |s: u64| (s..=s + self.jump_max).contains(&end);
            if !self.suspect.replace(end).is_some_and(agrees) {
                let (found, limit) = (stated.0, self.next as u32);
                return Err(WireError::Inconsistent { part: Part::LbtrmData, found, limit });
            }
        }
        self.suspect = None;
        if jump > 0 {
            let due = self.first_nak_due(now);
            let given_up = self.loss.add(self.next, end, now, due);
            self.counters.lost.add(jump);
            self.counters.unrecovered_bound.add(given_up);
        }
        Ok(())
    }

    fn first_nak_due(&mut self, now: Nanos) -> Nanos {
        if !self.send_naks {
            return Nanos::NEVER;
        }
        if self.nak_timer <= now {
            self.nak_timer = now + first_wait(self.law, self.initial, &mut self.rng);
        }
        self.nak_timer
    }

    fn give_up_below(&mut self, trail: u64) {
        let count = self.loss.give_up_below(trail.min(self.next));
        self.counters.unrecovered_txw.add(count);
    }

    /// Gives up the oldest gaps until datagram `t` can be held, or nothing before it is missing.
    fn make_room<S: Sink>(&mut self, t: u64, len: usize, count: u32, sink: &mut S) {
        while self.loss.first().is_some_and(|first| first < t) && !self.delivery.has_room(len, count) {
            let given_up = self.loss.give_up_first();
            self.counters.unrecovered_bound.add(given_up);
            self.delivery.on_front(self.front().min(t), sink);
        }
    }

    /// The lowest number that is neither here nor given up.
    fn front(&self) -> u64 {
        self.loss.first().unwrap_or(self.next)
    }

    /// Delivers what became final, and ends the session if the source said so and all before that is settled.
    fn advance<S: Sink>(&mut self, sink: &mut S) {
        let front = self.front();
        self.counters.missing.set(self.loss.missing());
        self.delivery.on_front(front, sink);
        if self.delivery.ended_at().is_some_and(|t| t < front) {
            self.end(EndReason::Ended, sink);
        }
    }

    fn end<S: Sink>(&mut self, reason: EndReason, sink: &mut S) {
        let count = self.loss.give_up_below(self.next);
        self.counters.unrecovered_end.add(count);
        self.counters.missing.set(0);
        self.phase = Phase::Ended;
        self.delivery.end_session(reason, self.loss.given_up_end(), sink);
    }

    fn count_accepted(&self, len: usize) {
        self.counters.msgs_rcved.inc();
        self.counters.bytes_rcved.add(len as u64);
    }
}

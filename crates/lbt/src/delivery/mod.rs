//! Delivery of a session's topics: order, reassembly, duplicates, loss.
//!
//! The transport below numbers datagrams and knows which numbers are settled, that is received or given up. From that
//! a topic's gap becomes final without a timer of its own: the message after the gap came in datagram *t*, and once
//! every number up to *t* is settled nothing can fill the gap any more.
//!
//! While nothing is missing a message is delivered from the datagram it came in, with no look at anything but its
//! topic's next number. What comes after a gap is copied once, per datagram, and waits.

mod event;
mod hold;
pub(crate) mod reassembly;
mod table;
mod topic;

pub use event::{BeginOfStream, Delivered, EndOfStream, EndReason, Lost, Sink};
pub(crate) use topic::{WIDE_ZERO, widen};

use crate::config::{DeliveryConfig, Order};
use crate::wire::lbmc::{self, Header, Headers, Kind, MESSAGE_HEADER_LEN, Message};
use counters::table::LbmDelivery;
use hold::{HoldRing, Stored};
use reassembly::AssemblyPool;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fmt;
use std::sync::Arc;
use table::TopicTable;
use topic::{Cold, Held, HeldKind, Hot, Shared, Topic};
use units::Sqn;

/// The topics of one transport session that somebody subscribed to.
pub(crate) struct Delivery {
    table: TopicTable,
    hot: Vec<Hot>,
    cold: Vec<Cold>,
    free: Vec<u32>,
    /// The topic looked up last: index and slot.
    recent: (u32, u32),
    ring: HoldRing,
    /// Gaps by the transport number that makes them final: number and slot.
    ready: BinaryHeap<Reverse<(u64, u32)>>,
    entries: usize,
    entries_max: usize,
    topics_max: usize,
    default_order: Order,
    /// Transport number of the datagram in which the source ended the session.
    ended_at: Option<u64>,
    shared: Shared,
}

/// The datagram being processed, to the layer that orders topics.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    /// Its transport number.
    pub(crate) t: u64,
    /// The lowest number that is not settled; above `t` if this datagram leaves nothing before it unsettled.
    pub(crate) front: u64,
    /// The number after the last unsettled one before `t`.
    pub(crate) clear_from: u64,
    /// Whether it is a retransmission.
    pub(crate) recovered: bool,
}

impl Place {
    /// Whether a gap before a message of this datagram is final.
    fn is_final(&self) -> bool {
        self.front > self.t
    }

    /// Below this all is settled as long as the rest of this datagram has not been looked at.
    fn settled_before(&self) -> u64 {
        self.front.min(self.t)
    }
}

/// Why a topic was not subscribed.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SubscribeError {
    /// The topic is subscribed already.
    AlreadySubscribed {
        /// Its index.
        topic_index: u32,
    },
    /// The bound on topics is reached.
    TooMany {
        /// The bound.
        max: usize,
    },
}

impl fmt::Display for SubscribeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            SubscribeError::AlreadySubscribed { topic_index } => {
                write!(f, "topic index {topic_index} is subscribed already")
            }
            SubscribeError::TooMany { max } => write!(f, "{max} topics are subscribed, which is the limit"),
        }
    }
}

impl std::error::Error for SubscribeError {}

const NO_TOPIC: u32 = u32::MAX;

impl Delivery {
    pub(crate) fn new(config: &DeliveryConfig, counters: Arc<LbmDelivery>) -> Delivery {
        let pool = AssemblyPool::new(config.maximum_message_size, config.reassembly_maximum_bytes);
        Delivery {
            table: TopicTable::new(),
            hot: Vec::new(),
            cold: Vec::new(),
            free: Vec::new(),
            recent: (0, NO_TOPIC),
            ring: HoldRing::new(config.hold_maximum_bytes as usize),
            ready: BinaryHeap::new(),
            entries: 0,
            entries_max: config.delivery_control_maximum_total_map_entries as usize,
            topics_max: config.maximum_topics as usize,
            default_order: config.ordered_delivery,
            ended_at: None,
            shared: Shared { pool, counters },
        }
    }

    /// Adds a topic that concerns transport numbers from `floor` on.
    pub(crate) fn subscribe(
        &mut self,
        topic_index: u32,
        token: u64,
        order: Option<Order>,
        floor: u64,
    ) -> Result<(), SubscribeError> {
        if self.table.find(topic_index).is_some() {
            return Err(SubscribeError::AlreadySubscribed { topic_index });
        }
        if self.table.len() >= self.topics_max {
            return Err(SubscribeError::TooMany { max: self.topics_max });
        }
        let hot = Hot { next: WIDE_ZERO, last_t: 0, token, index: topic_index, plain: false };
        let cold = Cold::new(order.unwrap_or(self.default_order), floor);
        let slot = match self.free.pop() {
            Some(slot) => {
                self.hot[slot as usize] = hot;
                self.cold[slot as usize] = cold;
                slot
            }
            None => {
                self.hot.push(hot);
                self.cold.push(cold);
                (self.hot.len() - 1) as u32
            }
        };
        self.table.insert(topic_index, slot);
        self.shared.counters.topics.set(self.table.len() as u64);
        Ok(())
    }

    /// Drops a topic with all that waits for it; no event follows.
    pub(crate) fn unsubscribe(&mut self, topic_index: u32) {
        let Some(slot) = self.table.remove(topic_index) else { return };
        self.recent = (0, NO_TOPIC);
        let cold = &mut self.cold[slot as usize];
        for entry in std::mem::take(&mut cold.held) {
            self.entries -= 1;
            release(&mut self.ring, &entry);
        }
        self.topic(slot, &mut Silent).forget();
        self.hot[slot as usize].plain = false;
        // an empty topic, of which the end of the session has nothing to say
        self.cold[slot as usize] = Cold::new(self.default_order, u64::MAX);
        self.free.push(slot);
        self.shared.counters.topics.set(self.table.len() as u64);
        self.count_held();
    }

    /// The session begins with transport number `base`; `from_zero` if that is the first one of all.
    pub(crate) fn begin_session(&mut self, base: u64, from_zero: bool) {
        for cold in &mut self.cold {
            cold.from_zero = from_zero && cold.floor <= base;
        }
    }

    /// Whether a datagram of `count` messages in `len` bytes can be held as a whole.
    pub(crate) fn has_room(&self, len: usize, count: u32) -> bool {
        self.entries + count as usize <= self.entries_max && self.ring.has_room(len)
    }

    /// Takes the messages of one datagram, which were checked and whose number is new.
    pub(crate) fn on_datagram<S: Sink>(&mut self, place: Place, messages: &[u8], sink: &mut S) {
        let (mut at, mut delivered, mut bytes, mut foreign) = (0, 0, 0, 0);
        let (mut stored, held_before): (Option<(usize, Stored)>, _) = (None, self.entries);
        while at < messages.len() {
            let rest = &messages[at..];
            let Some((index, sqn, len)) = lbmc::plain(rest) else {
                at += self.on_other(place, messages, at, &mut stored, sink);
                continue;
            };
            let slot = self.find(index);
            if slot == NO_TOPIC {
                foreign += 1;
                at += len;
                continue;
            }
            let hot = &mut self.hot[slot as usize];
            if !(hot.plain && hot.next as u32 == sqn.0) {
                at += self.on_other(place, messages, at, &mut stored, sink);
                continue;
            }
            hot.next += 1;
            hot.last_t = place.t;
            let payload = &rest[MESSAGE_HEADER_LEN..len];
            delivered += 1;
            bytes += payload.len() as u64;
            at += len;
            sink.deliver(Delivered {
                token: hot.token,
                topic_index: index,
                first_sqn: sqn,
                sqn,
                payload,
                headers: Headers::NONE,
                recovered: place.recovered,
            });
        }
        if let Some((_, segment)) = stored {
            self.ring.release(segment.id);
        }
        let counters = &self.shared.counters;
        counters.lbm_msgs_rcved.add(delivered);
        counters.msgs_delivered.add(delivered);
        counters.bytes_delivered.add(bytes);
        counters.lbm_msgs_no_topic_rcved.add(foreign);
        if self.entries != held_before {
            self.count_held();
        }
    }

    /// The lowest number that is not settled is now `front`: delivers what waited for that.
    pub(crate) fn on_front<S: Sink>(&mut self, front: u64, sink: &mut S) {
        let held_before = self.entries;
        while let Some(&Reverse((t, slot))) = self.ready.peek() {
            if t >= front {
                break;
            }
            self.ready.pop();
            let cold = &mut self.cold[slot as usize];
            if cold.queued_t == t {
                cold.queued_t = u64::MAX;
            }
            self.drain(slot, front, sink);
        }
        if self.entries != held_before {
            self.count_held();
        }
    }

    /// The number of the datagram in which the source ended the session.
    pub(crate) fn ended_at(&self) -> Option<u64> {
        self.ended_at
    }

    /// The session is over: delivers what waits, then tells every topic that had begun.
    ///
    /// `lost_end` is the transport number after the last one that was given up.
    pub(crate) fn end_session<S: Sink>(&mut self, reason: EndReason, lost_end: u64, sink: &mut S) {
        self.on_front(u64::MAX, sink);
        for slot in 0..self.hot.len() as u32 {
            let mut topic = self.topic(slot, sink);
            let next = topic.hot.next;
            topic.abandon(next);
            topic.forget();
            if topic.cold.has_begun() {
                let Hot { token, index: topic_index, next, last_t, .. } = *topic.hot;
                let (next, tail_unknown) = (Sqn(next as u32), lost_end > last_t);
                sink.end_of_stream(EndOfStream { token, topic_index, reason, next, tail_unknown });
            }
        }
        self.table = TopicTable::new();
        self.hot.clear();
        self.cold.clear();
        self.free.clear();
        self.recent = (0, NO_TOPIC);
        self.shared.counters.topics.set(0);
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        let held: usize = self.cold.iter().map(|c| c.held.capacity() * size_of::<Held>()).sum();
        let topics = self.hot.capacity() * size_of::<Hot>() + self.cold.capacity() * size_of::<Cold>();
        let queues =
            self.ready.capacity() * size_of::<(u64, u32)>() + self.free.capacity() * size_of::<u32>();
        let buffers = self.ring.memory_bytes() + self.shared.pool.memory_bytes();
        held + topics + queues + buffers + self.table.memory_bytes()
    }

    // ---- private steps

    #[inline]
    fn find(&mut self, index: u32) -> u32 {
        let (recent, slot) = self.recent;
        if recent == index && slot != NO_TOPIC {
            return slot;
        }
        let Some(slot) = self.table.find(index) else { return NO_TOPIC };
        self.recent = (index, slot);
        slot
    }

    fn topic<'a, S>(&'a mut self, slot: u32, sink: &'a mut S) -> Topic<'a, S> {
        let (hot, cold) = (&mut self.hot[slot as usize], &mut self.cold[slot as usize]);
        Topic { hot, cold, shared: &mut self.shared, sink }
    }

    /// The message at `messages[at]`, in every case but the common one; returns its length.
    #[inline(never)]
    fn on_other<S: Sink>(
        &mut self,
        place: Place,
        messages: &[u8],
        at: usize,
        stored: &mut Option<(usize, Stored)>,
        sink: &mut S,
    ) -> usize {
        let message = Message::parse(messages, at).expect("the datagram was checked as a whole");
        match message.kind {
            Kind::Message | Kind::ProactiveRetransmission | Kind::Retransmission => {
                self.on_message(place, &message, messages, at, stored, sink);
            }
            Kind::Control => self.on_control(place, &message, sink),
            Kind::EndOfTransport => self.ended_at = self.ended_at.or(Some(place.t)),
            Kind::Other(_) => {}
        }
        message.len
    }

    fn on_message<S: Sink>(
        &mut self,
        place: Place,
        message: &Message<'_>,
        messages: &[u8],
        at: usize,
        stored: &mut Option<(usize, Stored)>,
        sink: &mut S,
    ) {
        let slot = self.find(message.topic_index);
        if slot == NO_TOPIC {
            return self.shared.counters.lbm_msgs_no_topic_rcved.inc();
        }
        let number = widen(self.hot[slot as usize].next, message.sqn);
        if self.is_before_start(slot, place, message) {
            return self.shared.counters.before_start.inc();
        }
        if self.may_start(slot, place) {
            self.start(slot, number);
        }
        let next = self.hot[slot as usize].next;
        let started = self.cold[slot as usize].started;
        if started && number < next {
            return self.shared.counters.duplicates.inc();
        }
        if started && (number == next || place.is_final()) {
            self.shared.counters.lbm_msgs_rcved.inc();
            let mut topic = self.topic(slot, sink);
            if number > next {
                topic.lose_until(number, place.t);
            }
            topic.accept(message, place.t, place.recovered);
            return self.drain(slot, place.settled_before(), sink);
        }
        if !started && self.cold[slot as usize].held.is_empty() {
            // what comes next is not known yet; the first number serves as the reference for the others
            self.hot[slot as usize].next = number;
        }
        if self.cold[slot as usize].holds(number) {
            return self.shared.counters.duplicates.inc();
        }
        self.shared.counters.lbm_msgs_rcved.inc();
        if !started || self.cold[slot as usize].order == Order::Topic {
            let entry = self.stored(place, number, message.len, messages, at, stored);
            self.hold(slot, entry);
        } else if self.topic(slot, sink).accept_early(message, number, place.recovered) {
            self.hold(slot, Held::seen(number, place.t));
        }
    }

    /// Whether a topic that has not begun leaves the message out: it was sent before the topic was subscribed, in whole or
    /// in its first fragment. A stream that began with it would seem to have a hole.
    fn is_before_start(&self, slot: u32, place: Place, message: &Message<'_>) -> bool {
        let cold = &self.cold[slot as usize];
        if cold.started || cold.from_zero {
            return false;
        }
        place.t < cold.floor || self.may_start(slot, place) && continues(message)
    }

    /// Whether a topic whose next number is not known may begin with the datagram at `place`: nothing that concerns
    /// it is missing before, or ever will be again.
    fn may_start(&self, slot: u32, place: Place) -> bool {
        let cold = &self.cold[slot as usize];
        let clear = cold.held.is_empty() && cold.floor >= place.clear_from;
        !cold.started && (cold.from_zero || clear || place.is_final())
    }

    /// Begins a topic with `number`, or with 0 if it was heard from there on.
    fn start(&mut self, slot: u32, number: u64) {
        let cold = &mut self.cold[slot as usize];
        cold.started = true;
        self.hot[slot as usize].next = if cold.from_zero { WIDE_ZERO } else { number };
    }

    /// Copies a message that must wait, and what follows it in the datagram: that is likely to wait too.
    fn stored(
        &mut self,
        place: Place,
        number: u64,
        len: usize,
        messages: &[u8],
        at: usize,
        stored: &mut Option<(usize, Stored)>,
    ) -> Held {
        let (from, segment) = *stored.get_or_insert_with(|| (at, self.ring.store(&messages[at..])));
        Held {
            number,
            t: place.t,
            segment: segment.id,
            at: (segment.start + at - from) as u32,
            len: len as u16,
            kind: HeldKind::Waiting,
            recovered: place.recovered,
        }
    }

    fn hold(&mut self, slot: u32, entry: Held) {
        let cold = &mut self.cold[slot as usize];
        if !cold.insert(entry) {
            return;
        }
        self.hot[slot as usize].plain = false;
        self.entries += 1;
        if entry.kind == HeldKind::Waiting {
            self.ring.retain(entry.segment);
            self.shared.counters.msgs_held.inc();
        }
        self.enqueue(slot);
    }

    /// Sees to it that the topic's first gap is looked at when its transport number is settled.
    fn enqueue(&mut self, slot: u32) {
        let cold = &mut self.cold[slot as usize];
        if let Some(t) = cold.held.front().map(|h| h.t).filter(|&t| t < cold.queued_t) {
            cold.queued_t = t;
            self.ready.push(Reverse((t, slot)));
        }
    }

    /// Delivers what waits for a topic as far as its gaps are closed, or final because numbers below `front` are settled.
    fn drain<S: Sink>(&mut self, slot: u32, front: u64, sink: &mut S) {
        let (hot, cold) = (&mut self.hot[slot as usize], &mut self.cold[slot as usize]);
        let mut topic = Topic { hot, cold, shared: &mut self.shared, sink };
        while let Some(&entry) = topic.cold.held.front() {
            let settled = entry.t < front;
            if !topic.cold.started {
                if !settled {
                    break;
                }
                if continues(&held_message(&self.ring, &entry)) {
                    topic.cold.held.pop_front();
                    self.entries -= 1;
                    topic.shared.counters.before_start.inc();
                    release(&mut self.ring, &entry);
                    continue;
                }
                topic.start(entry.number);
            }
            if entry.number > topic.hot.next {
                if !settled {
                    break;
                }
                topic.lose_until(entry.number, entry.t);
            }
            topic.cold.held.pop_front();
            self.entries -= 1;
            if entry.number == topic.hot.next {
                take(&mut topic, &self.ring, &entry);
            } else if entry.kind != HeldKind::Announced {
                topic.shared.counters.duplicates.inc();
            }
            release(&mut self.ring, &entry);
        }
        topic.settle();
        self.enqueue(slot);
    }

    fn on_control<S: Sink>(&mut self, place: Place, message: &Message<'_>, sink: &mut S) {
        for header in message.headers {
            let Header::Tsni { records, .. } = header else { continue };
            for (index, last) in records.iter() {
                let slot = self.find(index);
                if slot != NO_TOPIC {
                    self.on_announcement(slot, place, last, sink);
                }
            }
        }
    }

    /// The source has sent everything up to `last` in this datagram or before it.
    fn on_announcement<S: Sink>(&mut self, slot: u32, place: Place, last: Sqn, sink: &mut S) {
        let end = widen(self.hot[slot as usize].next, last) + 1;
        let cold = &self.cold[slot as usize];
        if self.may_start(slot, place) && cold.held.is_empty() && place.t >= cold.floor {
            self.start(slot, end);
        }
        if !self.cold[slot as usize].started {
            return;
        }
        let mut topic = self.topic(slot, sink);
        topic.begin();
        let next = topic.hot.next;
        if end > next && place.is_final() {
            topic.lose_until(end, place.t);
        } else if end > next {
            self.hold(slot, Held::announced(end, place.t));
            return;
        } else if place.is_final() {
            topic.hot.last_t = place.t;
        }
        self.drain(slot, place.settled_before(), sink);
    }

    fn count_held(&self) {
        let counters = &self.shared.counters;
        counters.order_map_entries.set(self.entries as u64);
        counters.order_map_entries_max.raise(self.entries as u64);
        counters.hold_bytes.set(self.ring.used_bytes() as u64);
        counters.hold_bytes_max.raise(self.ring.used_bytes() as u64);
    }
}

/// Takes the entry that has a topic's next number out of what waits.
fn take<S: Sink>(topic: &mut Topic<'_, S>, ring: &HoldRing, entry: &Held) {
    match entry.kind {
        HeldKind::Announced => topic.hot.last_t = entry.t,
        HeldKind::Seen => {
            topic.hot.next += 1;
            topic.hot.last_t = entry.t;
        }
        HeldKind::Waiting => {
            topic.accept(&held_message(ring, entry), entry.t, entry.recovered);
        }
    }
}

/// The message of an entry that waits.
fn held_message<'a>(ring: &'a HoldRing, entry: &Held) -> Message<'a> {
    let bytes = ring.slice(entry.at as usize, usize::from(entry.len));
    Message::parse(bytes, 0).expect("it was checked before it was held")
}

/// Whether the message is a fragment that is not the first of its message.
fn continues(message: &Message<'_>) -> bool {
    !message.headers.is_empty() && message.headers.frag().is_some_and(|(first, ..)| first != message.sqn)
}

fn release(ring: &mut HoldRing, entry: &Held) {
    if entry.kind == HeldKind::Waiting {
        ring.release(entry.segment);
    }
}

/// Hears nothing.
struct Silent;

impl Sink for Silent {
    fn deliver(&mut self, _: Delivered<'_>) {}
    fn lost(&mut self, _: Lost) {}
    fn begin_of_stream(&mut self, _: BeginOfStream) {}
    fn end_of_stream(&mut self, _: EndOfStream) {}
}

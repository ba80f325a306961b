//! Delivery of a session's topics: order, reassembly, duplicates, loss.
//!
//! The transport below numbers datagrams and knows which numbers are settled, that is received or given up.
//! From that a topic's gap becomes final without a timer of its own: the message after the gap came in
//! datagram *t*, and once every number up to *t* is settled nothing can fill the gap any more.
//!
//! While nothing is missing a message is delivered from the datagram it came in, with no look at anything
//! but its topic's next number. What comes after a gap is copied once, per datagram, and waits.

mod event;
mod hold;
mod order;
mod reach;
pub(crate) mod reassembly;
mod subscription;
mod table;
mod topic;

pub use event::{BeginOfStream, Delivered, DeliverySink, EndOfStream, EndReason, Lost, Via};
pub(crate) use reach::NEAR;
pub use subscription::SubscribeError;
pub(crate) use topic::{WIDE_ZERO, widen};

use crate::config::{DeliveryConfig, Order};
use crate::presence::Query;
use crate::wire::lbmc::{self, Headers, MESSAGE_HEADER_LEN};
use counters::table::LbmDelivery;
use hold::{HoldRing, Stored};
use reach::Reach;
use reassembly::AssemblyPool;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;
use table::TopicTable;
use topic::{Cold, Held, Hot, Shared, Topic};
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
    /// All that comes is of one run of the source.
    is_one_run: bool,
    reach: Reach,
    /// Transport number of the datagram in which the source ended the session.
    ended_at: Option<u64>,
    /// The session ended, or something is to be asked for once more.
    needs_care: bool,
    /// What the source has asked in its stream.
    query: Option<Box<Query>>,
    shared: Shared,
}

/// The datagram being processed, to the layer that orders topics.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Position {
    /// Its transport number.
    pub(crate) t: u64,
    /// The lowest number that is not settled; above `t` if this datagram leaves nothing before it unsettled.
    pub(crate) front: u64,
    /// The number after the last unsettled one before `t`.
    pub(crate) clear_from: u64,
    /// Whether it is a retransmission.
    pub(crate) recovered: bool,
}

impl Position {
    /// Whether a gap before a message of this datagram is final.
    fn is_final(&self) -> bool {
        self.front > self.t
    }

    /// Below this all is settled as long as the rest of this datagram has not been looked at.
    fn settled_before(&self) -> u64 {
        self.front.min(self.t)
    }
}

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
            is_one_run: false,
            reach: Reach::new(),
            ended_at: None,
            needs_care: false,
            query: None,
            shared: Shared { pool, counters, jumped_from: u64::MAX, goes_on: false },
        }
    }

    /// What the session brings is of one run of its source, whatever its numbers.
    pub(crate) fn expect_one_run(&mut self) {
        self.is_one_run = true;
    }

    /// Whether it is.
    pub(crate) fn expects_one_run(&self) -> bool {
        self.is_one_run
    }

    /// The session begins with transport number `base`; `from_zero` if that is the first one of all.
    pub(crate) fn begin_session(&mut self, base: u64, from_zero: bool) {
        self.reach.zero_base = from_zero.then_some(base);
        for cold in &mut self.cold {
            cold.from_zero = from_zero && cold.floor <= base;
        }
    }

    /// Transport numbers say nothing of how much lies between two of them.
    pub(crate) fn count_inputs(&mut self) {
        self.reach.counts_datagrams = false;
    }

    /// Whether a datagram of `count` messages in `len` bytes can be held as a whole.
    pub(crate) fn has_room(&self, len: usize, count: u32) -> bool {
        self.entries + count as usize <= self.entries_max && self.ring.has_room(len)
    }

    /// Whether a topic is subscribed.
    pub(crate) fn is_subscribed(&self, topic_index: u32) -> bool {
        self.table.find(topic_index).is_some()
    }

    /// What the source has asked in the stream since the last time, if anything.
    #[inline]
    pub(crate) fn take_query(&mut self) -> Option<Box<Query>> {
        self.query.take()
    }

    /// Takes the messages of one datagram, which were checked and whose number is new.
    pub(crate) fn on_datagram<S: DeliverySink>(&mut self, position: Position, messages: &[u8], sink: &mut S) {
        let (mut at, mut delivered, mut bytes, mut foreign) = (0, 0, 0, 0);
        let (mut stored, held_before): (Option<(usize, Stored)>, _) = (None, self.entries);
        while at < messages.len() {
            let rest = &messages[at..];
            let Some((index, sqn, len)) = lbmc::plain(rest) else {
                at += self.on_other(position, messages, at, &mut stored, sink);
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
                at += self.on_other(position, messages, at, &mut stored, sink);
                continue;
            }
            hot.next += 1;
            hot.last_t = position.t;
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
                recovered: position.recovered,
                via: Via::Transport,
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
    pub(crate) fn on_front<S: DeliverySink>(&mut self, front: u64, sink: &mut S) {
        let held_before = self.entries;
        while let Some(&Reverse((t, slot))) = self.ready.peek() {
            // What was doubted meanwhile is not settled any more.
            let front = front.min(self.reach.first_doubted());
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

    /// Numbers of a topic from `first`, with which its stream began, up to the next one; none if it has not begun.
    pub(crate) fn span(&self, topic_index: u32, first: Sqn) -> Option<u64> {
        let slot = self.table.find(topic_index)? as usize;
        let (hot, begun_at) = (&self.hot[slot], self.cold[slot].begun_at()?);
        Some(hot.next.saturating_sub(widen(begun_at, first)))
    }

    /// The datagrams from `first` to before `end` will not come.
    pub(crate) fn give_up(&mut self, first: u64, end: u64) {
        self.reach.give_up(first, end);
    }

    /// That datagrams from `certain` on were sent is known by datagram `by` alone, if it is.
    pub(crate) fn note_word(&mut self, certain: u64, by: u64) {
        self.reach.word = (certain, by);
    }

    /// The source is found at a transport number beyond what it had sent before `from`, which may not be true.
    pub(crate) fn note_jump(&mut self, from: u64) {
        self.shared.jumped_from = from;
    }

    /// A source that was taken to be farther sends what comes before `end`, for the first time: where it goes on, which
    /// streams will end with, or none if that was received.
    pub(crate) fn goes_on_from(&mut self, end: u64) -> Option<u64> {
        let first = self.reach.given_up_around(end)?;
        self.shared.goes_on = true;
        Some(first)
    }

    /// Whether the datagram that is taken next is the source's answer to who asked for it once more.
    pub(crate) fn expect_answer(&mut self, is_answer: bool) {
        self.reach.is_answer = is_answer;
    }

    /// A datagram that is to be asked for once more, as what it says is not believed.
    pub(crate) fn next_doubted(&mut self) -> Option<u64> {
        self.reach.next_doubted()
    }

    /// Whether the session ended, or [`Delivery::next_doubted`] has something.
    #[inline]
    pub(crate) fn needs_care(&self) -> bool {
        self.needs_care
    }

    /// Everything of that was seen to.
    pub(crate) fn cared(&mut self) {
        self.needs_care = self.ended_at.is_some() || self.reach.has_doubts();
    }

    /// The number of the datagram in which the source ended the session.
    pub(crate) fn ended_at(&self) -> Option<u64> {
        self.ended_at
    }

    /// Datagram `t` said the end, which may not be true: it is asked for once more.
    #[cold]
    pub(crate) fn doubt_end(&mut self, t: u64) {
        self.ended_at = None;
        self.reach.doubt(t);
    }

    /// The session does not end, if it was to.
    pub(crate) fn go_on(&mut self) {
        self.ended_at = None;
    }

    /// The session ends with datagram `t`.
    pub(crate) fn end_at(&mut self, t: u64) {
        (self.ended_at, self.needs_care) = (Some(t), true);
    }

    /// The session is over: delivers what waits, then tells every topic that had begun.
    ///
    /// `lost_end` is the transport number after the last one that was given up.
    pub(crate) fn end_session<S: DeliverySink>(&mut self, reason: EndReason, lost_end: u64, sink: &mut S) {
        self.reach.finish();
        self.on_front(u64::MAX, sink);
        let lost_end = lost_end.max(self.reach.doubted_end());
        for slot in 0..self.hot.len() as u32 {
            if !self.cold[slot as usize].held.is_empty() {
                self.drop_held(slot, sink);
            }
            let mut topic = self.topic(slot, sink);
            let next = topic.hot.next;
            topic.abandon(next);
            topic.drop_partials_before(u64::MAX);
            topic.go_back();
            let Hot { token, index: topic_index, next, last_t, .. } = *topic.hot;
            let (next, tail_unknown) = (Sqn(next as u32), lost_end > last_t);
            let end = EndOfStream { token, topic_index, reason, next, tail_unknown };
            if topic.cold.has_begun() {
                sink.end_of_stream(end);
            } else {
                // What is owed to it may be known all the same.
                let is_known = topic.cold.started || topic.cold.from_zero;
                sink.unheard(end, is_known);
            }
        }
        self.table = TopicTable::new();
        self.hot.clear();
        self.cold.clear();
        self.free.clear();
        self.recent = (0, NO_TOPIC);
        self.shared.counters.topics.set(0);
        self.count_held();
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        let held: usize = self.cold.iter().map(|c| c.held.capacity() * size_of::<Held>()).sum();
        let topics = self.hot.len() * (size_of::<Hot>() + size_of::<Cold>());
        let queues =
            self.ready.capacity() * size_of::<(u64, u32)>() + self.free.capacity() * size_of::<u32>();
        let buffers = self.ring.memory_bytes() + self.shared.pool.memory_bytes();
        held + topics + queues + buffers + self.table.memory_bytes() + self.reach.memory_bytes()
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

    fn count_held(&self) {
        let counters = &self.shared.counters;
        counters.order_map_entries.set(self.entries as u64);
        counters.order_map_entries_max.raise(self.entries as u64);
        counters.hold_bytes.set(self.ring.used_bytes() as u64);
        counters.hold_bytes_max.raise(self.ring.used_bytes() as u64);
    }
}

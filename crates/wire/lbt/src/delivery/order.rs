//! The cases in which a message cannot just be delivered: a gap before it, a fragment, a topic that begins,
//! control.

use super::hold::{HoldRing, Stored};
use super::topic::{Held, HeldKind, Topic};
use super::{Delivery, DeliverySink, NO_TOPIC, Position, WIDE_ZERO, widen};
use crate::config::Order;
use crate::presence::Query;
use crate::wire::extension::SUBTYPE_QUERY;
use crate::wire::lbmc::{Header, Kind, Message};
use std::cmp::Reverse;
use units::Sqn;

/// Whether what waits is asked if its topic can have come so far.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Trust {
    /// It is.
    InReach,
    /// It is not: the topic is known to have come farther.
    Blind,
}

impl Delivery {
    /// The message at `messages[at]`, in every case but the common one; returns its length.
    #[inline(never)]
    pub(super) fn on_other<S: DeliverySink>(
        &mut self,
        position: Position,
        messages: &[u8],
        at: usize,
        stored: &mut Option<(usize, Stored)>,
        sink: &mut S,
    ) -> usize {
        let message = Message::parse(messages, at).expect("the datagram was checked as a whole");
        match message.kind {
            Kind::Message | Kind::ProactiveRetransmission | Kind::Retransmission => {
                self.on_message(position, &message, messages, at, stored, sink);
            }
            Kind::Control => self.on_control(position, &message, sink),
            Kind::EndOfTransport => {
                (self.ended_at, self.needs_care) = (self.ended_at.or(Some(position.t)), true)
            }
            Kind::Other(_) => {}
        }
        message.len
    }

    fn on_message<S: DeliverySink>(
        &mut self,
        position: Position,
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
        if self.is_before_start(slot, position, message) {
            return self.shared.counters.before_start.inc();
        }
        if self.may_start(slot, position) {
            self.start(slot, number);
        }
        self.refute_resumption(slot, number);
        let next = self.hot[slot as usize].next;
        let started = self.cold[slot as usize].started;
        if started && number < next {
            return self.shared.counters.duplicates.inc();
        }
        if started && number > next && !self.is_believed(slot, number, position) {
            return self.doubt(slot, number, position.t);
        }
        if self.cold[slot as usize].holds(number) && !self.is_first_copy(slot, number, position, sink) {
            self.shared.counters.duplicates.inc();
            if started && position.is_final() {
                // it came before under a damaged transport number
                self.drain_where(slot, |held| held.number <= number, Trust::Blind, sink);
                self.drain(slot, position.settled_before(), sink);
            }
            return;
        }
        if started && (number == next || position.is_final()) {
            self.shared.counters.lbm_msgs_rcved.inc();
            let mut topic =
                if number > next { self.reach(slot, number, position, sink) } else { self.topic(slot, sink) };
            topic.accept(message, position.t, position.recovered);
            return self.drain(slot, position.settled_before(), sink);
        }
        if !started && self.cold[slot as usize].held.is_empty() {
            // what comes next is not known yet; the first number serves as the reference for the others
            self.hot[slot as usize].next = number;
        }
        self.shared.counters.lbm_msgs_rcved.inc();
        if !started || self.cold[slot as usize].order == Order::Topic {
            let entry = self.stored(position, number, message.len, messages, at, stored);
            self.hold(slot, entry);
        } else if self.topic(slot, sink).accept_early(message, number, position.recovered) {
            self.hold(slot, Held { is_answer: self.reach.is_answer, ..Held::seen(number, position.t) });
        }
    }

    /// Whether a topic can have come to `number` by the datagram at `position`: while something is missing before it,
    /// anything may have been in that; afterwards, only what was given up.
    fn is_believed(&self, slot: u32, number: u64, position: Position) -> bool {
        let (hot, cold) = (&self.hot[slot as usize], &self.cold[slot as usize]);
        let missing = number - hot.next;
        if position.is_final() {
            return self.reach.can_lack(hot, cold, missing, position.t, self.reach.is_answer);
        }
        self.reach.can_hold(hot, cold, missing, position.t)
    }

    /// A datagram says that a topic has come to `number`, and it cannot: it is asked for once more, or those are that
    /// came before it and say that the topic was farther yet.
    #[cold]
    #[inline(never)]
    fn doubt(&mut self, slot: u32, number: u64, t: u64) {
        self.shared.counters.msgs_out_of_reach.inc();
        self.reach.doubt(t);
        self.needs_care = true;
        self.doubt_held(slot, |held| held.number > number && held.t < t);
    }

    /// Asks once more for the datagrams of those that wait, and are to be doubted, and drops them. What was delivered as
    /// it came stays, so that it is not delivered again.
    fn doubt_held(&mut self, slot: u32, is_doubted: impl Fn(&Held) -> bool) {
        let Delivery { cold, reach, ring, entries, shared, needs_care, .. } = self;
        cold[slot as usize].held.retain_mut(|held| {
            if !is_doubted(held) {
                return true;
            }
            shared.counters.msgs_out_of_reach.inc();
            reach.doubt(held.t);
            *needs_care = true;
            if held.kind == HeldKind::Seen {
                held.kind = HeldKind::Doubted;
                return true;
            }
            *entries -= 1;
            release(ring, held);
            false
        });
    }

    /// Another datagram comes in the place of `t`, which is not believed: drops what came in that.
    #[cold]
    #[inline(never)]
    pub(crate) fn set_aside(&mut self, t: u64) {
        let slots: Vec<u32> = self.ready.iter().map(|Reverse((_, slot))| *slot).collect();
        slots.into_iter().for_each(|slot| self.doubt_held(slot, |held| held.t == t));
        self.reach.trust(t);
    }

    /// What waits first of a topic has come in a datagram before which all is settled, and the topic cannot have come so
    /// far. Whether that was seen to for good, so that what waits behind it is next.
    #[cold]
    #[inline(never)]
    fn doubt_first<S: DeliverySink>(&mut self, slot: u32, first: &Held, sink: &mut S) -> bool {
        if first.kind == HeldKind::Doubted {
            // It was asked for once more, and the source did not send that.
            self.cold[slot as usize].held.pop_front();
            self.entries -= 1;
            self.topic(slot, sink).disown(first.number);
            return true;
        }
        let Held { number, t, .. } = *first;
        let is_culprit = move |held: &Held| held.number > number && held.t < t;
        if self.cold[slot as usize].held.iter().any(is_culprit) {
            self.doubt_held(slot, is_culprit);
        } else {
            self.doubt_held(slot, |held| held.t == t);
        }
        false
    }

    /// At the end of a session, drops what still waits of a topic: it was not believed, or stands behind such.
    #[cold]
    #[inline(never)]
    pub(super) fn drop_held<S: DeliverySink>(&mut self, slot: u32, sink: &mut S) {
        for held in std::mem::take(&mut self.cold[slot as usize].held) {
            self.entries -= 1;
            release(&mut self.ring, &held);
            if held.kind == HeldKind::Doubted {
                self.topic(slot, sink).disown(held.number);
            }
        }
    }

    /// Whether the message of a number that is held, or was seen, is to be taken nevertheless: the datagram that
    /// brought it before is not believed. If it is that datagram which comes again, it has borne it out.
    fn is_first_copy<S: DeliverySink>(
        &mut self,
        slot: u32,
        number: u64,
        position: Position,
        sink: &mut S,
    ) -> bool {
        let (cold, is_answer) = (&mut self.cold[slot as usize], self.reach.is_answer);
        let Some(at) = cold.place_of(number) else { return true };
        let held = &mut cold.held[at];
        if held.t == position.t {
            held.is_answer |= is_answer;
            if held.kind == HeldKind::Doubted {
                held.kind = HeldKind::Seen;
            }
            return false;
        }
        if held.kind != HeldKind::Doubted {
            return false;
        }
        cold.held.remove(at);
        self.entries -= 1;
        self.topic(slot, sink).disown(number);
        true
    }

    /// A topic that is to go on with a number that lies ahead of what is sent begins with what is sent.
    /// Not where it is the same run of the source for sure: what comes then was heard by another way.
    fn refute_resumption(&mut self, slot: u32, number: u64) {
        if self.is_one_run {
            return;
        }
        let (hot, cold) = (&mut self.hot[slot as usize], &mut self.cold[slot as usize]);
        if cold.resumes && !cold.has_begun() && number < hot.next && cold.held.is_empty() {
            (hot.next, cold.resumes) = (number, false);
        }
    }

    /// Whether a topic that has not begun leaves the message out: it was sent before the topic was
    /// subscribed, in whole or in its first fragment. A stream that began with it would seem to have a
    /// hole.
    fn is_before_start(&self, slot: u32, position: Position, message: &Message<'_>) -> bool {
        let cold = &self.cold[slot as usize];
        if cold.started || cold.from_zero {
            return false;
        }
        position.t < cold.floor || self.may_start(slot, position) && continues(message)
    }

    /// Whether a topic whose next number is not known may begin with the datagram at `position`: nothing that
    /// concerns it is missing before, or ever will be again.
    fn may_start(&self, slot: u32, position: Position) -> bool {
        let cold = &self.cold[slot as usize];
        let clear = cold.held.is_empty() && cold.floor >= position.clear_from;
        !cold.started && (cold.from_zero || clear || position.is_final())
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
        position: Position,
        number: u64,
        len: usize,
        messages: &[u8],
        at: usize,
        stored: &mut Option<(usize, Stored)>,
    ) -> Held {
        let (from, segment) = *stored.get_or_insert_with(|| (at, self.ring.store(&messages[at..])));
        Held {
            number,
            t: position.t,
            segment: segment.id,
            at: (segment.start + at - from) as u32,
            len: len as u16,
            kind: HeldKind::Waiting,
            recovered: position.recovered,
            is_answer: self.reach.is_answer,
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
    pub(super) fn enqueue(&mut self, slot: u32) {
        let cold = &mut self.cold[slot as usize];
        if let Some(t) = cold.held.front().map(|h| h.t).filter(|&t| t < cold.queued_t) {
            cold.queued_t = t;
            self.ready.push(Reverse((t, slot)));
        }
    }

    /// Delivers what waits for a topic as far as its gaps are closed, or final because numbers below
    /// `front` are settled.
    pub(super) fn drain<S: DeliverySink>(&mut self, slot: u32, front: u64, sink: &mut S) {
        self.drain_where(slot, |held| held.t < front, Trust::InReach, sink);
    }

    /// Delivers what waits for a topic as far as its gaps are closed, or final because what is held after
    /// them is `settled`.
    fn drain_where<S: DeliverySink>(
        &mut self,
        slot: u32,
        settled: impl Fn(&Held) -> bool,
        trust: Trust,
        sink: &mut S,
    ) {
        loop {
            let (hot, cold) = (&mut self.hot[slot as usize], &mut self.cold[slot as usize]);
            let mut topic = Topic { hot, cold, shared: &mut self.shared, sink };
            let Some(&entry) = topic.cold.held.front() else { break };
            let settled = settled(&entry);
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
                let (missing, is_answer) = (entry.number - topic.hot.next, entry.is_answer);
                let is_in_reach = trust == Trust::Blind
                    || self.reach.can_lack(topic.hot, topic.cold, missing, entry.t, is_answer);
                if !is_in_reach {
                    if self.reach.is_over() && entry.kind == HeldKind::Seen {
                        // Nobody can be asked any more. What was delivered as it came is not told lost with what is
                        // before it: the stream ends there, and its tail is unknown.
                        self.doubt_held(slot, |_| true);
                        self.drop_held(slot, sink);
                        break;
                    }
                    if self.doubt_first(slot, &entry, sink) {
                        continue;
                    }
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
        self.topic(slot, sink).settle();
        self.enqueue(slot);
    }

    fn on_control<S: DeliverySink>(&mut self, position: Position, message: &Message<'_>, sink: &mut S) {
        for header in message.headers {
            let records = match header {
                Header::Tsni { records, .. } => records,
                // In the stream of those transports alone that keep the order.
                Header::ExtOpt { subtype: SUBTYPE_QUERY, offset: 0, data, .. }
                    if !self.reach.counts_datagrams =>
                {
                    self.query = Query::parse(data).map(Box::new).or(self.query.take());
                    continue;
                }
                _ => continue,
            };
            for (index, last) in records.iter() {
                let slot = self.find(index);
                if slot != NO_TOPIC {
                    self.on_announcement(slot, position, last, sink);
                }
            }
        }
    }

    /// The source has sent everything up to `last` in this datagram or before it.
    fn on_announcement<S: DeliverySink>(&mut self, slot: u32, position: Position, last: Sqn, sink: &mut S) {
        let end = widen(self.hot[slot as usize].next, last) + 1;
        self.refute_resumption(slot, end);
        let cold = &self.cold[slot as usize];
        if self.may_start(slot, position) && cold.held.is_empty() && position.t >= cold.floor {
            self.start(slot, end);
        }
        if !self.cold[slot as usize].started {
            return;
        }
        if end > self.hot[slot as usize].next && !self.is_believed(slot, end, position) {
            return self.doubt(slot, end, position.t);
        }
        let mut topic = self.topic(slot, sink);
        topic.begin();
        let next = topic.hot.next;
        if end > next && position.is_final() {
            self.reach(slot, end, position, sink);
        } else if end > next {
            self.hold(slot, Held { is_answer: self.reach.is_answer, ..Held::announced(end, position.t) });
            return;
        } else if position.is_final() {
            topic.hot.last_t = position.t;
        }
        self.drain(slot, position.settled_before(), sink);
    }

    /// Settles all numbers of the topic below `number`, which a datagram tells for good: what waits is taken,
    /// the rest is lost.
    fn reach<'a, S: DeliverySink>(
        &'a mut self,
        slot: u32,
        number: u64,
        position: Position,
        sink: &'a mut S,
    ) -> Topic<'a, S> {
        // of an honest source nothing waits here, since what it sent before was drained before; a datagram
        // whose number was damaged can hold lower ones at a higher place
        self.drain_where(slot, |held| held.number < number, Trust::Blind, sink);
        let mut topic = self.topic(slot, sink);
        if number > topic.hot.next {
            topic.lose_until(number, position.t);
        }
        topic
    }
}

/// Takes the entry that has a topic's next number out of what waits.
fn take<S: DeliverySink>(topic: &mut Topic<'_, S>, ring: &HoldRing, entry: &Held) {
    match entry.kind {
        HeldKind::Announced => topic.hot.last_t = entry.t,
        HeldKind::Seen | HeldKind::Doubted => {
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

pub(super) fn release(ring: &mut HoldRing, entry: &Held) {
    if entry.kind == HeldKind::Waiting {
        ring.release(entry.segment);
    }
}

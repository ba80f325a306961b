use super::order::release;
use super::topic::{Cold, HeldKind, Hot};
use super::{BeginOfStream, Delivered, Delivery, DeliverySink, EndOfStream, Lost, NO_TOPIC, WIDE_ZERO};
use crate::config::Order;
use std::fmt;
use units::Sqn;

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

impl Delivery {
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
        let mut cold = Cold::new(order.unwrap_or(self.default_order), floor);
        // Nothing was sent before, though the session is known.
        cold.from_zero = self.reach.zero_base.is_some_and(|base| floor <= base);
        let slot = match self.free.pop() {
            Some(slot) => {
                self.hot[slot as usize] = hot;
                self.cold[slot as usize] = cold;
                slot
            }
            None => {
                units::reserve_for_push(&mut self.hot);
                self.hot.push(hot);
                units::reserve_for_push(&mut self.cold);
                self.cold.push(cold);
                (self.hot.len() - 1) as u32
            }
        };
        self.table.insert(topic_index, slot);
        self.shared.counters.topics.set(self.table.len() as u64);
        Ok(())
    }

    /// The topic goes on with `next`, as an earlier reception of it has ended there.
    pub(crate) fn resume(&mut self, topic_index: u32, next: Sqn) {
        let Some(slot) = self.table.find(topic_index) else { return };
        let cold = &mut self.cold[slot as usize];
        if !cold.started && cold.held.is_empty() {
            (cold.started, cold.resumes) = (true, true);
            self.hot[slot as usize].next = WIDE_ZERO + u64::from(next.0);
        }
    }

    /// The source has begun anew: what topics of which nothing was heard were to go on with means nothing.
    pub(crate) fn resume_none(&mut self) {
        for cold in self.cold.iter_mut().filter(|cold| cold.resumes && !cold.has_begun()) {
            (cold.started, cold.resumes) = (false, false);
        }
    }

    /// The source has begun anew, and was listened for since: topics of which nothing was heard begin at 0.
    pub(crate) fn resume_all(&mut self) {
        for (hot, cold) in self.hot.iter_mut().zip(&mut self.cold) {
            if !cold.has_begun() && cold.held.is_empty() {
                (cold.started, cold.resumes) = (true, true);
                hot.next = WIDE_ZERO;
            }
        }
    }

    /// From now on the topic is delivered in topic order, if it was not. Returns the number from which on nothing
    /// was delivered before its turn; none if the topic is not subscribed, or has not begun.
    pub(crate) fn put_in_order(&mut self, topic_index: u32) -> Option<Sqn> {
        let slot = self.table.find(topic_index)? as usize;
        let cold = &mut self.cold[slot];
        cold.order = Order::Topic;
        let seen = cold.held.iter().rev().find(|held| held.kind == HeldKind::Seen);
        let next = self.hot[slot].next;
        cold.started.then(|| Sqn(seen.map_or(next, |held| next.max(held.number + 1)) as u32))
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
}

/// Hears nothing.
struct Silent;

impl DeliverySink for Silent {
    fn deliver(&mut self, _: Delivered<'_>) {}
    fn lost(&mut self, _: Lost) {}
    fn begin_of_stream(&mut self, _: BeginOfStream) {}
    fn end_of_stream(&mut self, _: EndOfStream) {}
}

use crate::config::{ConfigError, DeliveryConfig, Order};
use crate::delivery::{Delivery, DeliverySink, EndReason, Position, SubscribeError, WIDE_ZERO};
use crate::error::WireError;
use crate::presence::{Answer, Answers};
use crate::wire::lbmc::{self, Message};
use counters::table::LbmDelivery;
use std::sync::Arc;
use units::{Nanos, Sqn};

/// The receiving side of one session, with the topics of it that somebody subscribed to.
///
/// The driver calls [`Receiver::on_bytes`] for what arrives, [`Receiver::on_passed_over`] where the transport
/// has left something out, and [`Receiver::end`] when the transport is gone.
pub struct Receiver {
    delivery: Delivery,
    /// Stands for a transport number: counts inputs.
    t: u64,
    /// What was left out last lies before this input; 0 if nothing ever was.
    passed_over_at: u64,
    has_ended: bool,
    /// What the source has asked.
    answers: Answers,
}

impl Receiver {
    /// A receiver that has heard nothing yet. `seed` is where the number comes from under which it answers its source.
    ///
    /// # Errors
    /// The first option out of range.
    pub fn new(
        config: &DeliveryConfig,
        seed: u64,
        counters: Arc<LbmDelivery>,
    ) -> Result<Receiver, ConfigError> {
        config.check()?;
        let mut delivery = Delivery::new(config, counters);
        delivery.begin_session(WIDE_ZERO, false);
        delivery.count_inputs();
        let answers = Answers::new(seed);
        Ok(Receiver { delivery, t: WIDE_ZERO, passed_over_at: 0, has_ended: false, answers })
    }

    /// Delivers the messages of a topic from now on; `token` comes back in every event. The stream begins
    /// with the first whole message that arrives.
    ///
    /// # Errors
    /// The topic is subscribed, or there are too many.
    pub fn subscribe(
        &mut self,
        topic_index: u32,
        token: u64,
        order: Option<Order>,
    ) -> Result<(), SubscribeError> {
        self.delivery.subscribe(topic_index, token, order, self.t)
    }

    /// A topic that was just subscribed was received before, up to `next`: it begins there, with a loss if that is not
    /// what comes. If what comes is below, it begins with that.
    pub fn resume_topic(&mut self, topic_index: u32, next: Sqn) {
        self.delivery.resume(topic_index, next);
    }

    /// From now on a topic that was subscribed in order of arrival is delivered in topic order: to what follows the
    /// number that is returned, of which nothing was delivered before its turn. None if the stream has not begun.
    pub fn put_in_order(&mut self, topic_index: u32) -> Option<Sqn> {
        self.delivery.put_in_order(topic_index)
    }

    /// Drops a topic with all that waits for it; no event follows.
    pub fn unsubscribe(&mut self, topic_index: u32) {
        self.delivery.unsubscribe(topic_index);
    }

    /// Numbers of a topic from `first`, with which its stream began, up to the next one; none if it has not begun.
    #[must_use]
    pub fn span(&self, topic_index: u32, first: Sqn) -> Option<u64> {
        self.delivery.span(topic_index, first)
    }

    /// Takes the whole messages at the begin of `bytes` and returns how many bytes they have; the rest is the
    /// begin of a message, to be given again with what follows it.
    ///
    /// # Errors
    /// Bytes that are no LBMC message: the place in the stream is lost. Nothing of `bytes` was delivered.
    #[inline]
    pub fn on_bytes<S: DeliverySink>(&mut self, bytes: &[u8], sink: &mut S) -> Result<usize, WireError> {
        let whole = whole_messages(bytes)?;
        if whole > 0 && !self.has_ended {
            self.take(&bytes[..whole], sink);
        }
        Ok(if units::planted(units::Bug::DropsBegunMessages) { bytes.len() } else { whole })
    }

    #[inline]
    fn take<S: DeliverySink>(&mut self, messages: &[u8], sink: &mut S) {
        let t = self.t;
        self.t = t + 1;
        // Nothing is ever missing below: a jump of a topic's number is final at once.
        let position = Position { t, front: t + 1, clear_from: 0, recovered: false };
        self.delivery.on_datagram(position, messages, sink);
        if self.delivery.ended_at().is_some() {
            self.end(EndReason::Ended, sink);
        }
    }

    /// What to answer the source at once, if it has asked in what was taken who receives a topic.
    #[inline]
    pub fn answer(&mut self, now: Nanos) -> Option<Answer> {
        let query = self.delivery.take_query()?;
        self.answers.answer_now(now, &query, |topic| self.delivery.is_subscribed(topic))
    }

    /// The transport has left out messages before the next ones that are given.
    pub fn on_passed_over(&mut self) {
        self.passed_over_at = self.t;
    }

    /// The session is over: every topic's stream that had begun ends.
    pub fn end<S: DeliverySink>(&mut self, reason: EndReason, sink: &mut S) {
        if !std::mem::replace(&mut self.has_ended, true) {
            self.delivery.end_session(reason, self.passed_over_at, sink);
        }
    }

    /// Whether anything was heard of the session.
    #[must_use]
    pub fn has_begun(&self) -> bool {
        self.t > WIDE_ZERO
    }

    /// Whether the session is over.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.has_ended
    }

    /// Memory held.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        self.delivery.memory_bytes()
    }
}

/// Bytes of the whole, well-formed messages at the begin of a stream.
#[inline]
fn whole_messages(bytes: &[u8]) -> Result<usize, WireError> {
    let mut at = 0;
    while at < bytes.len() {
        at += match lbmc::plain(&bytes[at..]) {
            Some((_, _, len)) => len,
            None => match other_message(bytes, at)? {
                Some(len) => len,
                None => break,
            },
        };
    }
    Ok(at)
}

/// A message with headers, or one that is cut.
#[inline(never)]
fn other_message(bytes: &[u8], at: usize) -> Result<Option<usize>, WireError> {
    match lbmc::stream_len(&bytes[at..])? {
        Some(len) if len <= bytes.len() - at => Message::parse(&bytes[..at + len], at).map(|m| Some(m.len)),
        _ => Ok(None),
    }
}

//! Receivers: topics, or sets of them, that a context hears.

use lbt::config::Order;
use lbt::resolution::{QueryId, ResolverSink, SourceRecord};

use crate::base::Base;
use crate::direct::Direct;
use crate::error::ContextError;
use crate::index::reserve_for_insert;
use crate::receiving::Receiving;
use crate::{Handler, Receiver, ReceiverOptions};

/// A topic, or a set of topics, that somebody wants.
pub(crate) struct ReceiverEntry {
    pub(crate) number: u32,
    subscription: usize,
    pub(crate) options: ReceiverOptions,
}

/// What the resolver is asked for, and by whom: receivers of one topic share a query.
pub(crate) struct Subscription {
    query: QueryId,
    receivers: Vec<Receiver>,
}

/// Something that is told before anything else that a context brings.
pub(crate) struct Found {
    slot: usize,
    stream: crate::StreamId,
    receiver: Receiver,
}

impl Receiving {
    /// See [`Context::create_receiver`](crate::Context::create_receiver).
    pub(crate) fn create_receiver(
        &mut self,
        base: &mut Base,
        direct: &mut Direct,
        topic: &str,
        options: &ReceiverOptions,
    ) -> Result<Receiver, ContextError> {
        base.check_home()?;
        check(options)?;
        base.refresh_clock();
        let known = base.resolver.query_of(topic).and_then(|query| self.by_query.get(&query));
        if let Some(&at) = known {
            let receiver = self.add_receiver(base, at, options);
            for record in base.resolver.known(topic) {
                self.join_counted(base, direct, receiver, topic, &record);
            }
            return Ok(receiver);
        }
        let mut heard = Heard::default();
        let query = base.resolver.query(base.now, topic, &mut heard)?;
        Ok(self.add_subscription(base, direct, query, options, heard))
    }

    /// See [`Context::create_prefix_receiver`](crate::Context::create_prefix_receiver).
    pub(crate) fn create_prefix_receiver(
        &mut self,
        base: &mut Base,
        direct: &mut Direct,
        prefix: &str,
        options: &ReceiverOptions,
    ) -> Result<Receiver, ContextError> {
        base.check_home()?;
        check(options)?;
        base.refresh_clock();
        let mut heard = Heard::default();
        let query = base.resolver.query_prefix(base.now, prefix, &mut heard)?;
        Ok(self.add_subscription(base, direct, query, options, heard))
    }

    /// See [`Context::create_pattern_receiver`](crate::Context::create_pattern_receiver).
    pub(crate) fn create_pattern_receiver(
        &mut self,
        base: &mut Base,
        direct: &mut Direct,
        pattern: &str,
        options: &ReceiverOptions,
    ) -> Result<Receiver, ContextError> {
        base.check_home()?;
        check(options)?;
        base.refresh_clock();
        let mut heard = Heard::default();
        let query = base.resolver.query_pattern(base.now, pattern, &mut heard)?;
        Ok(self.add_subscription(base, direct, query, options, heard))
    }

    fn add_subscription(
        &mut self,
        base: &mut Base,
        direct: &mut Direct,
        query: QueryId,
        options: &ReceiverOptions,
        heard: Heard,
    ) -> Receiver {
        let subscription = Subscription { query, receivers: Vec::new() };
        reserve_for_insert(&mut self.subscriptions);
        let at = self.subscriptions.insert(subscription);
        self.by_query.insert(query, at);
        let receiver = self.add_receiver(base, at, options);
        self.take_heard(base, direct, heard);
        base.send_resolution();
        receiver
    }

    fn add_receiver(&mut self, base: &mut Base, subscription: usize, options: &ReceiverOptions) -> Receiver {
        let number = base.next_number();
        let entry = ReceiverEntry { number, subscription, options: *options };
        reserve_for_insert(&mut self.receivers);
        let receiver = Receiver { slot: self.receivers.insert(entry) as u32, number };
        self.subscriptions[subscription].receivers.push(receiver);
        receiver
    }

    /// See [`Context::delete_receiver`](crate::Context::delete_receiver).
    pub(crate) fn delete_receiver(&mut self, base: &mut Base, direct: &mut Direct, receiver: Receiver) {
        if !base.home.is_here() {
            return;
        }
        let entry = self.receivers.get(receiver.slot as usize);
        if entry.is_none_or(|entry| entry.number != receiver.number) {
            return;
        }
        let gone = self.receivers.remove(receiver.slot as usize);
        let subscription = &mut self.subscriptions[gone.subscription];
        subscription.receivers.retain(|r| *r != receiver);
        if subscription.receivers.is_empty() {
            let gone = self.subscriptions.remove(gone.subscription);
            self.by_query.remove(&gone.query);
            base.resolver.stop_query(gone.query);
        }
        for stream in self.streams.detach(receiver) {
            self.leave(base, direct, stream.session, &stream.record);
        }
    }

    pub(crate) fn on_resolution_datagram(&mut self, base: &mut Base, direct: &mut Direct, datagram: &[u8]) {
        let now = base.now;
        let mut heard = Heard::default();
        // One that is malformed or not signed as it must be is counted by the resolver.
        let _ = base.resolver.on_datagram(now, datagram, &mut heard);
        self.take_heard(base, direct, heard);
    }

    pub(crate) fn take_heard(&mut self, base: &mut Base, direct: &mut Direct, heard: Heard) {
        for (query, topic, record) in heard.0 {
            let Some(&at) = self.by_query.get(&query) else { continue };
            for i in 0..self.subscriptions[at].receivers.len() {
                let receiver = self.subscriptions[at].receivers[i];
                self.join_counted(base, direct, receiver, &topic, &record);
            }
        }
    }

    pub(crate) fn join_counted(
        &mut self,
        base: &mut Base,
        direct: &mut Direct,
        receiver: Receiver,
        topic: &str,
        record: &SourceRecord,
    ) {
        if let Err(error) = self.join(base, direct, receiver, topic, record) {
            self.on_join_failed(base, receiver, topic, record, &error);
        }
    }

    pub(crate) fn has_receiver(&self, receiver: Receiver) -> bool {
        self.receivers.get(receiver.slot as usize).is_some_and(|entry| entry.number == receiver.number)
    }

    /// A receiver is to be told of a source before anything else.
    pub(crate) fn announce(&mut self, slot: usize, receiver: Receiver) {
        if let Some(stream) = self.streams.get(slot) {
            self.found.push_back(Found { slot, stream: stream.id, receiver });
        }
    }

    /// Tells of sources that were found since the last time.
    #[inline]
    pub(crate) fn tell_found(&mut self, handler: &mut impl Handler) {
        if !self.found.is_empty() {
            self.tell_all_found(handler);
        }
    }

    #[cold]
    fn tell_all_found(&mut self, handler: &mut impl Handler) {
        while let Some(found) = self.found.pop_front() {
            // Who was to be told may be gone, and the stream with it or not.
            let stream = self.streams.get(found.slot).filter(|s| s.id == found.stream);
            if let Some(stream) = stream.filter(|_| self.streams.hears(found.slot, found.receiver)) {
                handler.on_source(found.receiver, found.stream, &stream.info());
            }
        }
    }
}

/// What is in no order cannot be merged.
fn check(options: &ReceiverOptions) -> Result<(), ContextError> {
    if options.hot_failover && options.order == Some(Order::Arrival) {
        return Err(ContextError::FailoverOrder);
    }
    Ok(())
}

/// What the resolver has found, to be joined once it is not borrowed any more.
#[derive(Default)]
pub(crate) struct Heard(Vec<(QueryId, Box<str>, SourceRecord)>);

impl ResolverSink for Heard {
    fn source_found(&mut self, query: QueryId, topic: &str, source: &SourceRecord) {
        self.0.push((query, topic.into(), *source));
    }
}

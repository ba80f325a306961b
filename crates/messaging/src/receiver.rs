//! Receivers: topics, or sets of them, that a context hears.

use lbt::config::Order;
use lbt::resolution::{QueryId, ResolverSink, SourceRecord};

use crate::closing::Stage;
use crate::context::Context;
use crate::error::ContextError;
use crate::index::reserve_for_insert;
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

impl Context {
    /// Begins to receive a topic, from all sources there are and will be. Several receivers of one topic are
    /// each told everything.
    ///
    /// # Errors
    /// [`ContextError::Topic`]: the name cannot be sent. [`ContextError::FailoverOrder`]: options that do not
    /// go together. [`ContextError::Closed`] after [`Context::close`] or [`Context::settle`].
    /// [`ContextError::Forked`] in a child made by `fork`.
    pub fn create_receiver(
        &mut self,
        topic: &str,
        options: &ReceiverOptions,
    ) -> Result<Receiver, ContextError> {
        self.check_open(Stage::Settling)?;
        check(options)?;
        self.refresh_clock();
        let known = self.resolver.query_of(topic).and_then(|query| self.by_query.get(&query));
        if let Some(&at) = known {
            let receiver = self.add_receiver(at, options);
            for record in self.resolver.known(topic) {
                self.join_counted(receiver, topic, &record);
            }
            return Ok(receiver);
        }
        let mut heard = Heard::default();
        let query = self.resolver.query(self.now, topic, &mut heard)?;
        Ok(self.add_subscription(query, options, heard))
    }

    /// Begins to receive all topics whose names begin with `prefix`.
    ///
    /// # Errors
    /// [`ContextError::Topic`]: the prefix as a pattern cannot be sent. Else as [`Context::create_receiver`].
    pub fn create_prefix_receiver(
        &mut self,
        prefix: &str,
        options: &ReceiverOptions,
    ) -> Result<Receiver, ContextError> {
        self.check_open(Stage::Settling)?;
        check(options)?;
        self.refresh_clock();
        let mut heard = Heard::default();
        let query = self.resolver.query_prefix(self.now, prefix, &mut heard)?;
        Ok(self.add_subscription(query, options, heard))
    }

    /// Begins to receive all topics in whose names a pattern is found. It is in the syntax of Perl, as far
    /// as that can be matched in time linear in a name's length.
    ///
    /// # Errors
    /// [`ContextError::Topic`]: the pattern is not understood or too long; the error says which. Else as
    /// [`Context::create_receiver`].
    pub fn create_pattern_receiver(
        &mut self,
        pattern: &str,
        options: &ReceiverOptions,
    ) -> Result<Receiver, ContextError> {
        self.check_open(Stage::Settling)?;
        check(options)?;
        self.refresh_clock();
        let mut heard = Heard::default();
        let query = self.resolver.query_pattern(self.now, pattern, &mut heard)?;
        Ok(self.add_subscription(query, options, heard))
    }

    fn add_subscription(&mut self, query: QueryId, options: &ReceiverOptions, heard: Heard) -> Receiver {
        let subscription = Subscription { query, receivers: Vec::new() };
        reserve_for_insert(&mut self.subscriptions);
        let at = self.subscriptions.insert(subscription);
        self.by_query.insert(query, at);
        let receiver = self.add_receiver(at, options);
        self.take_heard(heard);
        self.send_resolution();
        receiver
    }

    fn add_receiver(&mut self, subscription: usize, options: &ReceiverOptions) -> Receiver {
        let number = self.next_number();
        let entry = ReceiverEntry { number, subscription, options: *options };
        reserve_for_insert(&mut self.receivers);
        let receiver = Receiver { slot: self.receivers.insert(entry) as u32, number };
        self.subscriptions[subscription].receivers.push(receiver);
        receiver
    }

    /// Stops receiving; no event for this receiver follows.
    pub fn delete_receiver(&mut self, receiver: Receiver) {
        if !self.home.is_here() {
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
            self.resolver.stop_query(gone.query);
        }
        for stream in self.streams.detach(receiver) {
            self.leave(stream.session, &stream.record);
        }
    }

    pub(crate) fn on_resolution_datagram(&mut self, datagram: &[u8]) {
        let mut heard = Heard::default();
        // One that is malformed or not signed as it must be is counted by the resolver.
        let _ = self.resolver.on_datagram(self.now, datagram, &mut heard);
        self.take_heard(heard);
    }

    pub(crate) fn take_heard(&mut self, heard: Heard) {
        for (query, topic, record) in heard.0 {
            let Some(&at) = self.by_query.get(&query) else { continue };
            for i in 0..self.subscriptions[at].receivers.len() {
                let receiver = self.subscriptions[at].receivers[i];
                self.join_counted(receiver, &topic, &record);
            }
        }
    }

    pub(crate) fn join_counted(&mut self, receiver: Receiver, topic: &str, record: &SourceRecord) {
        if let Err(error) = self.join(receiver, topic, record) {
            self.on_join_failed(receiver, topic, record, &error);
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

//! Receivers come and go, and sources are found for them: by topic resolution, or by configuration.

use std::time::Duration;

use lbt::resolution::{QueryId, SourceRecord};
use units::Nanos;

use super::Receiving;
use crate::base::Base;
use crate::closing::Stage;
use crate::direct::Direct;
use crate::error::ContextError;
use crate::index::reserve_for_insert;
use crate::receiver::{Found, Heard, ReceiverEntry, Subscription, check};
use crate::{Handler, Receiver, ReceiverOptions};

/// A source that is not there, or was there and ended, is tried again so often: nobody advertises its return.
const TRY_EVERY: Duration = Duration::from_secs(1);

/// What comes before any receiver is made.
fn begin(base: &mut Base, options: &ReceiverOptions) -> Result<(), ContextError> {
    base.check_open(Stage::Settling)?;
    check(options)?;
    base.refresh_clock();
    Ok(())
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
        begin(base, options)?;
        let known = base.resolution.resolver.query_of(topic).and_then(|query| self.by_query.get(&query));
        if let Some(&at) = known {
            let receiver = self.add_receiver(base, at, options);
            for record in base.resolution.resolver.known(topic) {
                self.join_counted(base, direct, receiver, topic, &record);
            }
            return Ok(receiver);
        }
        let mut heard = Heard::default();
        let query = base.resolution.resolver.query(base.now, topic, &mut heard)?;
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
        begin(base, options)?;
        let mut heard = Heard::default();
        let query = base.resolution.resolver.query_prefix(base.now, prefix, &mut heard)?;
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
        begin(base, options)?;
        let mut heard = Heard::default();
        let query = base.resolution.resolver.query_pattern(base.now, pattern, &mut heard)?;
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
            base.resolution.resolver.stop_query(gone.query);
        }
        for stream in self.streams.detach(receiver) {
            self.leave(base, direct, stream.session, &stream.record);
        }
    }

    pub(crate) fn on_resolution_datagram(&mut self, base: &mut Base, direct: &mut Direct, datagram: &[u8]) {
        let now = base.now;
        let mut heard = Heard::default();
        // One that is malformed or not signed as it must be is counted by the resolver.
        let _ = base.resolution.resolver.on_datagram(now, datagram, &mut heard);
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

    /// Makes the sources known that the configuration names.
    pub(crate) fn learn_static_sources(&mut self, base: &mut Base) -> Result<(), ContextError> {
        let now = base.now;
        for source in &base.config.resolver.static_source {
            for record in source.records() {
                // Nobody asks yet.
                base.resolution.resolver.add_static(now, &source.topic, record, &mut Heard::default())?;
            }
        }
        if !base.config.resolver.static_source.is_empty() {
            self.static_due = base.now + TRY_EVERY;
        }
        Ok(())
    }

    /// Tries the configured sources that receivers want and do not hear.
    pub(crate) fn wake_static(&mut self, base: &mut Base, direct: &mut Direct, now: Nanos) {
        if now < self.static_due {
            return;
        }
        self.static_due = now + TRY_EVERY;
        let mut heard = Heard::default();
        base.resolution.resolver.report_static(&mut heard);
        self.take_heard(base, direct, heard);
    }
}

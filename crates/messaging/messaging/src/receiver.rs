//! Receivers: topics, or sets of them, that a context hears.

use lbt::config::Order;
use lbt::resolution::{QueryId, ResolverSink, SourceRecord};

use crate::error::ContextError;
use crate::{Receiver, ReceiverOptions};

/// A topic, or a set of topics, that somebody wants.
pub(crate) struct ReceiverEntry {
    pub(crate) number: u32,
    pub(crate) subscription: usize,
    pub(crate) options: ReceiverOptions,
}

/// What the resolver is asked for, and by whom: receivers of one topic share a query.
pub(crate) struct Subscription {
    pub(crate) query: QueryId,
    pub(crate) receivers: Vec<Receiver>,
}

/// Something that is told before anything else that a context brings.
pub(crate) struct Found {
    pub(crate) slot: usize,
    pub(crate) stream: crate::StreamId,
    pub(crate) receiver: Receiver,
}

/// What is in no order cannot be merged.
pub(crate) fn check(options: &ReceiverOptions) -> Result<(), ContextError> {
    if options.hot_failover && options.order == Some(Order::Arrival) {
        return Err(ContextError::FailoverOrder);
    }
    Ok(())
}

/// What the resolver has found, to be joined once it is not borrowed any more.
#[derive(Default)]
pub(crate) struct Heard(pub(crate) Vec<(QueryId, Box<str>, SourceRecord)>);

impl ResolverSink for Heard {
    fn source_found(&mut self, query: QueryId, topic: &str, source: &SourceRecord) {
        self.0.push((query, topic.into(), *source));
    }
}

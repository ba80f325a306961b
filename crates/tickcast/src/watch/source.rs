//! The consumer behind the view: of one server, or of several of which the others stand by.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use client::{
    Consumer, ConsumerConfig, ConsumerEvent, ItemHandle, ItemRequestSpec, StandbyConsumer, StartError,
    SubscribeError, WarmStandbyConfig,
};
use market::CachedItem;
use rwf::{DecodeError, Dictionary, Value};

/// Where the events come from.
pub(super) enum Source {
    One(Box<Consumer>),
    Several(Box<StandbyConsumer>),
}

impl Source {
    pub(super) fn new(config: &ConsumerConfig, standby: &WarmStandbyConfig) -> Result<Source, StartError> {
        Ok(match standby.servers.is_empty() {
            true => Source::One(Box::new(Consumer::new(config)?)),
            false => Source::Several(Box::new(StandbyConsumer::new(config, standby)?)),
        })
    }

    pub(super) fn subscribe_with(
        &mut self,
        spec: &ItemRequestSpec<'_>,
    ) -> Result<ItemHandle, SubscribeError> {
        match self {
            Source::One(consumer) => consumer.subscribe_with(spec),
            Source::Several(consumer) => consumer.subscribe_with(spec),
        }
    }

    pub(super) fn dispatch<F: FnMut(ConsumerEvent<'_>)>(
        &mut self,
        timeout: Duration,
        on_event: &mut F,
    ) -> io::Result<usize> {
        match self {
            Source::One(consumer) => consumer.dispatch(timeout, on_event),
            Source::Several(consumer) => consumer.dispatch(timeout, on_event),
        }
    }

    pub(super) fn is_stopped(&self) -> bool {
        match self {
            Source::One(consumer) => consumer.is_stopped(),
            Source::Several(consumer) => consumer.is_stopped(),
        }
    }

    pub(super) fn dictionary(&self) -> Option<&Arc<Dictionary>> {
        match self {
            Source::One(consumer) => consumer.dictionary(),
            Source::Several(consumer) => consumer.dictionary(),
        }
    }

    pub(super) fn image(&self, handle: ItemHandle) -> Option<&CachedItem> {
        match self {
            Source::One(consumer) => consumer.image(handle),
            Source::Several(consumer) => consumer.image(handle),
        }
    }

    pub(super) fn image_field(
        &self,
        handle: ItemHandle,
        field: &str,
    ) -> Result<Option<Value<'_>>, DecodeError> {
        match self {
            Source::One(consumer) => consumer.image_field(handle, field),
            Source::Several(consumer) => consumer.image_field(handle, field),
        }
    }

    pub(super) fn close(self) {
        match self {
            Source::One(consumer) => consumer.close(),
            Source::Several(consumer) => consumer.close(),
        }
    }
}

//! Sources that are found by configuration, without topic resolution.

use std::io;
use std::time::Duration;

use lbt::resolution::SourceRecord;
use units::Nanos;

use crate::StaticSource;
use crate::context::Context;
use crate::error::ContextError;
use crate::receiver::Heard;

/// A source that is not there, or was there and ended, is tried again so often: nobody advertises its return.
const TRY_EVERY: Duration = Duration::from_secs(1);

impl Context {
    /// Makes the sources known that the configuration names.
    pub(crate) fn learn_static_sources(&mut self) -> Result<(), ContextError> {
        for source in &self.config.resolver_static_source {
            for record in source.records() {
                // Nobody asks yet.
                self.resolver.add_static(self.now, &source.topic, record, &mut Heard::default())?;
            }
        }
        if !self.config.resolver_static_source.is_empty() {
            self.static_due = self.now + TRY_EVERY;
        }
        Ok(())
    }

    /// Tries the configured sources that receivers want and do not hear.
    pub(crate) fn wake_static(&mut self, now: Nanos) {
        if now < self.static_due {
            return;
        }
        self.static_due = now + TRY_EVERY;
        let mut heard = Heard::default();
        self.resolver.report_static(&mut heard);
        self.take_heard(heard);
    }

    /// Where the configuration wants the next source of a topic: the first of its places that is free, with
    /// its number in `source_static_session`.
    pub(crate) fn static_place(&self, topic: &str) -> Result<Option<(usize, SourceRecord)>, ContextError> {
        let all = self.config.source_static_session.iter().enumerate();
        let mut places = all.filter(|(_, place)| place.topic == topic).peekable();
        if places.peek().is_none() {
            return Ok(None);
        }
        let is_free = |number: usize| self.sources.iter().all(|(_, s)| s.static_place != Some(number));
        match places.find(|(number, _)| is_free(*number)) {
            Some((number, place)) => {
                self.check_second_network(place)?;
                Ok(Some((number, place.record)))
            }
            None => {
                let what = format!("source_static_session has no further place for topic {topic:?}");
                Err(io::Error::new(io::ErrorKind::AddrInUse, what).into())
            }
        }
    }

    /// Receivers take a session's datagrams from the address on network B that their line names.
    fn check_second_network(&self, place: &StaticSource) -> Result<(), ContextError> {
        let own = self.second.as_ref().map(|second| second.interface);
        let Some(named) = place.second.filter(|named| own != Some(*named)) else { return Ok(()) };
        let own = own.map_or_else(|| "which is not set".to_owned(), |own| own.to_string());
        let what = format!("source_static_session {place}: {named} is not the address of interface_b, {own}");
        Err(io::Error::new(io::ErrorKind::AddrNotAvailable, what).into())
    }
}

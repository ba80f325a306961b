//! The shortest way to a consumer: one server, and events that come one by one.

use std::io;
use std::time::Duration;

use super::{Consumer, OwnedEvent};
use crate::{ConsumerConfig, HostPort, StartError};

impl Consumer {
    /// A consumer of one server (`localhost:14002`) with the configuration of the defaults. Like that of
    /// [`Consumer::new`] it connects when it is asked for events: that nothing listens there comes as
    /// [`OwnedEvent::Disconnected`], with the reason.
    ///
    /// # Errors
    /// [`StartError`] for a text that is no host and port, or a system without resources.
    pub fn connect(server: &str) -> Result<Consumer, StartError> {
        let host: HostPort =
            server.parse().map_err(|error| StartError::Host { text: server.to_owned(), error })?;
        Consumer::new(&ConsumerConfig { hosts: vec![host], ..ConsumerConfig::default() })
    }

    /// Waits for the next event, for at most `timeout`. `None`: none came, or nothing more comes
    /// ([`is_stopped`](crate::ConsumerCore::is_stopped)).
    ///
    /// Events that one read has brought wait here for the next call; [`Consumer::dispatch`] does not give them.
    ///
    /// # Errors
    /// As [`Consumer::dispatch`].
    pub fn next_event(&mut self, timeout: Duration) -> io::Result<Option<OwnedEvent>> {
        if self.waiting.is_empty() {
            let timeout = if self.is_stopped() { Duration::ZERO } else { timeout };
            let waiting = &mut self.waiting;
            self.driver.dispatch(timeout, &mut |event| waiting.push_back(OwnedEvent::from(event)))?;
        }
        Ok(self.waiting.pop_front())
    }

    /// Events one by one, each of which is waited for, for at most `timeout`; the iterator ends when none came
    /// in that time, or nothing more comes. See [`Consumer::next_event`].
    pub fn events(&mut self, timeout: Duration) -> Events<'_> {
        Events { consumer: self, timeout }
    }
}

/// Events one by one; made by [`Consumer::events`].
pub struct Events<'c> {
    consumer: &'c mut Consumer,
    timeout: Duration,
}

impl Iterator for Events<'_> {
    type Item = io::Result<OwnedEvent>;

    fn next(&mut self) -> Option<Self::Item> {
        self.consumer.next_event(self.timeout).transpose()
    }
}

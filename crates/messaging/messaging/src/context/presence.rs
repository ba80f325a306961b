//! Waiting for receivers.

use std::io;
use std::time::Duration;

use super::Context;
use crate::closing::Stage;
use crate::{Handler, Source};

/// The longest single wait, so that a change is noticed soon whatever wakes the context.
const TURN_MAX: Duration = Duration::from_millis(1);

impl Context {
    /// Drives the context until `count` receivers of a source's topic have found it and get its next message, for
    /// `timeout` at most; returns how many there are then. Events go to `handler` meanwhile. Fewer than `count` is no
    /// error: the time is over.
    ///
    /// A message that is sent before a receiver has found the source is not received by it, unless the source retains
    /// messages (`late_join`). Receivers are contexts: one counts once for a topic, however many of its receivers take
    /// it, by name or by pattern. The source asks, and receivers answer, only as long as somebody waits. Receivers of
    /// other software and of Tickcast before this call do not answer, so they are not counted.
    ///
    /// # Errors
    /// As [`Context::poll`]; [`io::ErrorKind::NotFound`] if the source was deleted.
    pub fn wait_for_receivers(
        &mut self,
        source: Source,
        count: usize,
        timeout: Duration,
        handler: &mut impl Handler,
    ) -> io::Result<usize> {
        self.base.home.check()?;
        self.base.check_before(Stage::Closed)?;
        self.base.refresh_clock();
        let until = if self.base.is_simulated() { self.base.now } else { self.base.now.after(timeout) };
        let is_watched = self.receivers(source).is_some();
        self.watch_receivers(source, true)?;
        let found = loop {
            let found = self.receivers(source).unwrap_or(0);
            if found >= count || self.base.now >= until {
                break Ok(found);
            }
            if let Err(error) = self.wait(Some(TURN_MAX.min(until.since(self.base.now))), handler) {
                break Err(error);
            }
            self.base.refresh_clock();
        };
        if !is_watched {
            self.watch_receivers(source, false)?;
        }
        found
    }

    /// Begins to ask who receives a source's topic, or ends it. Meanwhile [`Context::receivers`] has the number, and
    /// [`SourceEvent::ReceiversChanged`](crate::SourceEvent::ReceiversChanged) tells of each change. For who drives the
    /// context with other work; [`Context::wait_for_receivers`] does all of it.
    ///
    /// # Errors
    /// [`io::ErrorKind::NotFound`] if there is no such source.
    pub fn watch_receivers(&mut self, source: Source, watches: bool) -> io::Result<()> {
        self.base.home.check()?;
        self.base.refresh_clock();
        if self.publishing.watch_receivers(&mut self.base, source, watches) {
            return Ok(());
        }
        Err(io::Error::new(io::ErrorKind::NotFound, "the source was deleted, or is another context's"))
    }
}

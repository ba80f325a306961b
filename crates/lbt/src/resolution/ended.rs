use super::record::{SourceRecord, TransportSession};
use std::collections::VecDeque;
use std::time::Duration;
use units::Nanos;

/// Sessions whose sources have said that they are over.
///
/// Advertisements that were under way then would have receivers wait for a session of which nothing comes any
/// more. A source that is started again draws another session id, so it is not taken for the one that ended.
#[derive(Default)]
pub(super) struct Ended(VecDeque<(TransportSession, Nanos)>);

/// Sessions that are kept in mind; the oldest is forgotten for another.
const COUNT_MAX: usize = 1_024;
/// Longer than an advertisement is under way: in a socket's buffer, or in a relay that holds its rate.
const KEPT_FOR: Duration = Duration::from_secs(10);

impl Ended {
    /// A session without an id is not kept: another one may have its address.
    pub(super) fn note(&mut self, now: Nanos, session: TransportSession) {
        use TransportSession::{Ipc, LbtRm, LbtRu, Tcp};
        match session {
            LbtRu { session_id: None, .. } | Tcp { session_id: None, .. } => return,
            LbtRm { .. } | LbtRu { .. } | Tcp { .. } | Ipc { .. } => {}
        }
        self.forget_old(now);
        self.0.retain(|(known, _)| *known != session);
        if self.0.len() == COUNT_MAX {
            self.0.pop_front();
        }
        self.0.push_back((session, now));
    }

    /// Whether a source is of such a session, on whichever network.
    pub(super) fn has(&mut self, now: Nanos, source: &SourceRecord) -> bool {
        if self.0.is_empty() {
            return false;
        }
        self.forget_old(now);
        self.0.iter().any(|(session, _)| source.is_of(session))
    }

    fn forget_old(&mut self, now: Nanos) {
        while self.0.front().is_some_and(|(_, at)| now.since(*at) >= KEPT_FOR) {
            self.0.pop_front();
        }
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.0.capacity() * size_of::<(TransportSession, Nanos)>()
    }
}

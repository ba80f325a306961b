use super::record::{SourceRecord, TransportSession};
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;
use units::Nanos;

/// Sessions whose sources have said that they are over.
///
/// Advertisements that were under way then would have receivers wait for a session of which nothing comes any
/// more. A source that is started again draws another session id, so it is not taken for the one that ended.
#[derive(Default)]
pub(super) struct Ended {
    since: BTreeMap<TransportSession, Nanos>,
    /// In the order of their ends; one that ended twice stands there twice.
    order: VecDeque<(TransportSession, Nanos)>,
}

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
        if self.order.len() == COUNT_MAX {
            self.forget_first();
        }
        self.since.insert(session, now);
        self.order.push_back((session, now));
    }

    /// Whether a source is of such a session, on whichever network.
    pub(super) fn has(&mut self, now: Nanos, source: &SourceRecord) -> bool {
        if self.order.is_empty() {
            return false;
        }
        self.forget_old(now);
        self.since.contains_key(&source.session)
            || self.since.contains_key(&source.on_first_network().session)
    }

    fn forget_old(&mut self, now: Nanos) {
        while self.order.front().is_some_and(|(_, at)| now.since(*at) >= KEPT_FOR) {
            self.forget_first();
        }
    }

    fn forget_first(&mut self) {
        let Some((session, at)) = self.order.pop_front() else { return };
        if self.since.get(&session) == Some(&at) {
            self.since.remove(&session);
        }
    }

    pub(super) fn memory_bytes(&self) -> usize {
        (self.order.capacity() + self.since.len()) * size_of::<(TransportSession, Nanos)>()
    }
}

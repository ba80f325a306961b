//! Where the streams of sessions ended that were lost, not over; or that may not be over, as anybody can have said so.
//!
//! A session that is heard again goes on there: what was sent meanwhile is asked for, as far as its source still has
//! it, and the rest is told as lost, before the first message. Without this it would be missing in silence.
//!
//! `tests/outages.rs` shows it for every transport.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use lbt::resolution::TransportSession;
use lbt::session::RunId;
use units::{Nanos, Sqn};

use crate::Receiver;

/// Streams that are remembered; beyond it those of the sessions that were lost first are forgotten.
const STREAMS_MAX: usize = 1 << 20;
/// How long sessions are remembered whose source said that they are over. One that is not is advertised again within
/// seconds.
const ENDED_FOR: Duration = Duration::from_secs(600);

/// A session, and which run of its source, if that says so.
pub(crate) type SessionRun = (TransportSession, Option<RunId>);

/// The sessions that were lost, and not heard again.
#[derive(Default)]
pub(crate) struct Departed {
    sessions: HashMap<SessionRun, Lost>,
    /// In the order in which they were lost, each with its count; some have been heard again since.
    order: VecDeque<(SessionRun, u64)>,
    /// Those that are over, it is said, with the moment.
    ended: VecDeque<(SessionRun, u64, Nanos)>,
    streams: usize,
    count: u64,
}

struct Lost {
    /// Which loss it was.
    count: u64,
    /// The transport number that would have come next.
    next: Option<Sqn>,
    /// By topic index.
    streams: HashMap<u32, Owed>,
}

/// What would have come next in a stream.
pub(crate) struct Owed {
    pub(crate) next: Sqn,
    /// To these.
    pub(crate) receivers: Vec<Receiver>,
}

impl Departed {
    /// A session is lost, with these of its streams by topic index.
    pub(crate) fn remember(&mut self, session: SessionRun, streams: impl Iterator<Item = (u32, Owed)>) {
        let mut streams = streams.peekable();
        if streams.peek().is_none() {
            return;
        }
        self.count += 1;
        let count = self.count;
        let lost =
            self.sessions.entry(session).or_insert(Lost { count, next: None, streams: HashMap::new() });
        lost.count = count;
        for (index, owed) in streams {
            self.streams += usize::from(lost.streams.insert(index, owed).is_none());
        }
        self.order.push_back((session, count));
        while self.streams > STREAMS_MAX || self.order.len() > STREAMS_MAX {
            let Some((oldest, count)) = self.order.pop_front() else { return };
            self.forget_loss(&oldest, count);
        }
    }

    /// The same for a session of which a datagram said that it is over, which may be forged.
    pub(crate) fn remember_ended(
        &mut self,
        now: Nanos,
        session: SessionRun,
        streams: impl Iterator<Item = (u32, Owed)>,
    ) {
        let is_past = |at: Nanos| now.since(at) >= ENDED_FOR;
        while self.ended.front().is_some_and(|&(.., at)| is_past(at)) || self.ended.len() >= STREAMS_MAX {
            let Some((oldest, count, _)) = self.ended.pop_front() else { break };
            self.forget_loss(&oldest, count);
        }
        self.remember(session, streams);
        if let Some(lost) = self.sessions.get(&session) {
            self.ended.push_back((session, lost.count, now));
        }
    }

    fn forget_loss(&mut self, session: &SessionRun, count: u64) {
        if self.sessions.get(session).is_some_and(|lost| lost.count == count) {
            self.forget(session);
        }
    }

    /// Notes the transport number with which a session goes on that was just lost.
    pub(crate) fn set_next(&mut self, session: &SessionRun, next: Option<Sqn>) {
        if let Some(lost) = self.sessions.get_mut(session) {
            lost.next = next;
        }
    }

    /// The transport number with which a session goes on.
    pub(crate) fn next_of(&self, session: &SessionRun) -> Option<Sqn> {
        self.sessions.get(session)?.next
    }

    /// With what a stream goes on, if one of those that heard it still `exists`. It is owed no longer.
    pub(crate) fn take(
        &mut self,
        session: &SessionRun,
        index: u32,
        exists: impl Fn(Receiver) -> bool,
    ) -> Option<Sqn> {
        let lost = self.sessions.get_mut(session)?;
        let owed = lost.streams.remove(&index)?;
        self.streams -= 1;
        if lost.streams.is_empty() {
            self.sessions.remove(session);
        }
        owed.receivers.into_iter().any(exists).then_some(owed.next)
    }

    /// A session is over for good, or has begun anew.
    pub(crate) fn forget(&mut self, session: &SessionRun) {
        if let Some(lost) = self.sessions.remove(session) {
            self.streams -= lost.streams.len();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn session(number: u32) -> SessionRun {
        (TransportSession::Ipc { host_id: 1, session_id: number, transport_id: 1 }, None)
    }

    fn owed(next: u32) -> Owed {
        Owed { next: Sqn(next), receivers: vec![Receiver { slot: 0, number: 1 }] }
    }

    #[test]
    fn a_stream_is_owed_once_and_to_those_who_heard_it() {
        let mut departed = Departed::default();
        departed.remember(session(1), (0..3).map(|i| (i, owed(i * 10))));
        departed.set_next(&session(1), Some(Sqn(9)));
        assert_eq!(departed.next_of(&session(1)), Some(Sqn(9)));
        assert_eq!(departed.take(&session(1), 2, |r| r.number == 1), Some(Sqn(20)));
        assert_eq!(departed.take(&session(1), 2, |_| true), None);
        assert_eq!(departed.take(&session(1), 1, |_| false), None, "its receiver was deleted");
        assert_eq!(departed.take(&session(2), 0, |_| true), None);
        departed.remember(session(1), std::iter::once((0, owed(5))));
        assert_eq!(departed.take(&session(1), 0, |_| true), Some(Sqn(5)));
        assert_eq!((departed.streams, departed.sessions.len()), (0, 0));
    }

    #[test]
    fn what_was_lost_first_is_forgotten_first_beyond_the_bound() {
        let mut departed = Departed::default();
        let quarter = STREAMS_MAX as u32 / 4;
        for number in 0..5 {
            departed.remember(session(number), (0..quarter).map(|i| (i, owed(i))));
        }
        assert_eq!(departed.streams, STREAMS_MAX);
        assert!(departed.take(&session(0), 0, |_| true).is_none());
        assert!(departed.take(&session(1), 0, |_| true).is_some());
    }

    #[test]
    fn what_is_said_to_be_over_is_remembered_for_ten_minutes_and_what_is_lost_for_good() {
        let mut departed = Departed::default();
        let at = |seconds: u64| Nanos(seconds * 1_000_000_000);
        departed.remember(session(1), std::iter::once((0, owed(1))));
        departed.remember_ended(at(0), session(2), std::iter::once((0, owed(2))));
        departed.remember_ended(at(0), session(3), std::iter::once((0, owed(3))));
        // It went on, and was lost.
        assert_eq!(departed.take(&session(3), 0, |_| true), Some(Sqn(3)));
        departed.remember(session(3), std::iter::once((0, owed(4))));
        departed.remember_ended(at(599), session(4), std::iter::once((0, owed(5))));
        assert!(departed.sessions.contains_key(&session(2)));
        departed.remember_ended(at(600), session(5), std::iter::once((0, owed(6))));
        let known: Vec<u32> = (1..=5).filter(|s| departed.sessions.contains_key(&session(*s))).collect();
        assert_eq!((known, departed.ended.len()), (vec![1, 3, 4, 5], 2));
    }
}

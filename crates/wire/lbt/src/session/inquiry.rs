use super::source::Source;
use crate::presence::{Answer, Query};
use std::collections::VecDeque;
use std::net::SocketAddrV4;
use units::Nanos;

/// What a source asks its receivers with its next session message, and what they have answered.
///
/// Whose answers count is known above, by [`Watch`](crate::presence::Watch).
#[derive(Default)]
pub(super) struct Inquiry {
    /// To go with the next session message.
    query: Option<Box<Query>>,
    /// Anything was ever asked.
    has_asked: bool,
    answers: VecDeque<(SocketAddrV4, Answer)>,
}

/// Answers that wait to be fetched; more are dropped, and their receivers asked again.
const ANSWERS_MAX: usize = 4_096;

impl Inquiry {
    pub(super) fn memory_bytes(&self) -> usize {
        let query = self.query.as_ref().map_or(0, |_| size_of::<Query>());
        self.answers.capacity() * size_of::<(SocketAddrV4, Answer)>() + query
    }
}

impl<T> Source<T> {
    /// Asks the receivers of the session, with a session message that goes out at once.
    pub fn ask_receivers(&mut self, query: Query) {
        self.inquiry.query = Some(Box::new(query));
        self.inquiry.has_asked = true;
    }

    /// An answer to what was asked, and where it came from; to be called until there is none.
    pub fn poll_answer(&mut self) -> Option<(SocketAddrV4, Answer)> {
        self.inquiry.answers.pop_front()
    }

    /// When a session message is due for a query.
    pub(super) fn query_due(&self) -> Nanos {
        if self.inquiry.query.is_some() { Nanos::ZERO } else { Nanos::NEVER }
    }

    /// Appends what is asked to a session message.
    pub(super) fn emit_query(&self, out: &mut Vec<u8>) {
        if let Some(query) = &self.inquiry.query {
            query.emit(out);
        }
    }

    /// A session message went out.
    pub(super) fn query_sent(&mut self) {
        self.inquiry.query = None;
    }

    /// Takes what a NAK of no numbers says, if that is an answer.
    pub(crate) fn on_answer(&mut self, from: SocketAddrV4, trailer: &[u8]) -> bool {
        let Some(answer) = Answer::find(trailer) else { return false };
        let answers = &mut self.inquiry.answers;
        if self.inquiry.has_asked && answers.len() < ANSWERS_MAX {
            answers.push_back((from, answer));
        } else {
            self.counters.nak_pckts_dropped.inc();
        }
        true
    }
}

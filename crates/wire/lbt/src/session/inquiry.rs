use crate::presence::{Answer, Query};
use std::collections::VecDeque;
use std::net::SocketAddrV4;
use units::Nanos;

/// What a source asks its receivers with its next session message, and what they have answered.
///
/// Whose answers count is known above, by [`Watch`](crate::presence::Watch).
#[derive(Default)]
pub struct Inquiry {
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

    /// Asks the receivers of the session, with a session message that goes out at once.
    pub fn ask(&mut self, query: Query) {
        (self.query, self.has_asked) = (Some(Box::new(query)), true);
    }

    /// When a session message is due for a query.
    pub(super) fn due(&self) -> Nanos {
        if self.query.is_some() { Nanos::ZERO } else { Nanos::NEVER }
    }

    /// Appends what is asked to a session message.
    pub(super) fn emit(&self, out: &mut Vec<u8>) {
        if let Some(query) = &self.query {
            query.emit(out);
        }
    }

    /// A session message went out.
    pub(super) fn sent(&mut self) {
        self.query = None;
    }

    /// Takes an answer; false if nothing was asked, or too many wait.
    pub(super) fn take(&mut self, from: SocketAddrV4, answer: Answer) -> bool {
        let is_taken = self.has_asked && self.answers.len() < ANSWERS_MAX;
        if is_taken {
            self.answers.push_back((from, answer));
        }
        is_taken
    }

    /// An answer to what was asked, and where it came from; to be called until there is none.
    pub fn poll(&mut self) -> Option<(SocketAddrV4, Answer)> {
        self.answers.pop_front()
    }
}

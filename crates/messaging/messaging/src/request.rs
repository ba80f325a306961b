//! Requests and their answers: a request is an ordinary message that carries where to answer; any number of
//! answers come straight back over TCP.
//!
//! An answer names a request port and a number, nothing else. A process that takes the port of one that was killed
//! can thus hear answers to the dead one's requests. They do not count as its own as long as the numbers differ: the
//! first is drawn at random. With `a` requests of the dead one that are still answered and `b` open ones, the
//! chance that any is mistaken is less than (a + b) / 2^32: 3 in 100,000 with 65,536 each. Proved by
//! `answers_to_a_requester_that_is_gone_are_not_taken_for_those_to_the_next_one` (`tests/transports.rs`).

use std::collections::{BTreeSet, HashMap};
use std::fmt;

use counters::table::MessagingContext;
use units::Rng;

use crate::error::ContextError;
use crate::{ConnectionId, Handler, RequestEnd, RequestId, SendError};

/// Why a request was not sent.
#[derive(Debug)]
#[non_exhaustive]
pub enum RequestError {
    /// The message was not taken.
    Send(SendError),
    /// The request port, at which answers come in, could not be opened.
    Listen(ContextError),
    /// So many requests are open.
    TooMany {
        /// The bound.
        max: usize,
    },
}

impl fmt::Display for RequestError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RequestError::Send(e) => e.fmt(f),
            RequestError::Listen(e) => e.fmt(f),
            RequestError::TooMany { max } => write!(f, "{max} requests are open, which is the limit"),
        }
    }
}

impl std::error::Error for RequestError {}

/// Requests that may be answered.
#[derive(Default)]
pub(crate) struct Requests {
    /// None before the first request.
    next: Option<RequestId>,
    /// By number, with the connection over which the last answer came.
    open: HashMap<RequestId, Option<ConnectionId>>,
    /// By connection, those whose last answer came over it.
    answered: HashMap<ConnectionId, BTreeSet<RequestId>>,
}

/// Most requests that are open at once.
const REQUESTS_MAX: usize = 65_536;

impl Requests {
    /// Whether one more may be open.
    pub(crate) fn check_room(&self) -> Result<(), RequestError> {
        if self.open.len() >= REQUESTS_MAX {
            return Err(RequestError::TooMany { max: REQUESTS_MAX });
        }
        Ok(())
    }

    /// The number of the next request: that of no open one.
    pub(crate) fn next_id(&mut self, rng: &mut Rng) -> RequestId {
        let mut id = *self.next.get_or_insert_with(|| RequestId(rng.next_u32()));
        // At most as often as requests are open.
        while self.open.contains_key(&id) {
            id = id.next();
        }
        self.next = Some(id);
        id
    }

    /// That request was sent.
    pub(crate) fn on_sent(&mut self, id: RequestId, counters: &MessagingContext) {
        self.next = Some(id.next());
        self.open.insert(id, None);
        counters.requests_open.set(self.open.len() as u64);
    }

    /// Takes no more answers to a request.
    pub(crate) fn cancel(&mut self, request: RequestId, counters: &MessagingContext) {
        let answered_by = self.open.remove(&request).flatten();
        self.leave(request, answered_by);
        counters.requests_open.set(self.open.len() as u64);
    }

    pub(crate) fn on_response(
        &mut self,
        connection: ConnectionId,
        request: RequestId,
        payload: &[u8],
        counters: &MessagingContext,
        handler: &mut impl Handler,
    ) {
        match self.open.get_mut(&request) {
            Some(answered_by) => {
                let before = answered_by.replace(connection);
                if before != Some(connection) {
                    self.move_answered(request, before, connection);
                }
                handler.on_response(request, payload);
            }
            None => counters.responses_unknown.inc(),
        }
    }

    #[cold]
    fn move_answered(&mut self, request: RequestId, from: Option<ConnectionId>, to: ConnectionId) {
        self.leave(request, from);
        self.answered.entry(to).or_default().insert(request);
    }

    fn leave(&mut self, request: RequestId, connection: Option<ConnectionId>) {
        let Some(connection) = connection else { return };
        if let Some(answered) = self.answered.get_mut(&connection) {
            answered.remove(&request);
            if answered.is_empty() {
                self.answered.remove(&connection);
            }
        }
    }

    /// A connection is gone: what was answered over it is over.
    pub(crate) fn on_closed(
        &mut self,
        connection: ConnectionId,
        counters: &MessagingContext,
        handler: &mut impl Handler,
    ) {
        for request in self.answered.remove(&connection).unwrap_or_default() {
            self.open.remove(&request);
            handler.on_request_end(request, RequestEnd::PeerGone);
        }
        counters.requests_open.set(self.open.len() as u64);
    }
}

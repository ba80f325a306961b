//! Requests and their answers: a request is an ordinary message that carries where to answer; any number of
//! answers come straight back over TCP.

use std::collections::{BTreeSet, HashMap};
use std::fmt;

use counters::table::MessagingContext;

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
    next: u32,
    /// By number, with the connection over which the last answer came.
    open: HashMap<RequestId, Option<ConnectionId>>,
    /// By connection, those whose last answer came over it.
    answered: HashMap<ConnectionId, BTreeSet<RequestId>>,
}

/// Most requests that are open at once.
const REQUESTS_MAX: usize = 65_536;

impl Requests {
    /// What the next request is called; it is open once it was sent.
    pub(crate) fn next_id(&self) -> Result<RequestId, RequestError> {
        if self.open.len() >= REQUESTS_MAX {
            return Err(RequestError::TooMany { max: REQUESTS_MAX });
        }
        Ok(RequestId(self.next))
    }

    /// That request was sent.
    pub(crate) fn on_sent(&mut self, id: RequestId, counters: &MessagingContext) {
        self.next = self.next.wrapping_add(1);
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

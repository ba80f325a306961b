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
use std::io;

use counters::table::MessagingContext;
use lbt::wire::lbmc::Header;
use units::Rng;

use crate::closing::Stage;
use crate::context::Context;
use crate::error::ContextError;
use crate::{Asked, ConnectionId, Handler, RequestEnd, RequestId, SendError, Source};

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
    /// The number of the next request: that of no open one.
    fn next_id(&mut self, rng: &mut Rng) -> RequestId {
        let mut id = *self.next.get_or_insert_with(|| RequestId(rng.next_u32()));
        // At most as often as requests are open.
        while self.open.contains_key(&id) {
            id = id.next();
        }
        self.next = Some(id);
        id
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

impl Context {
    /// Sends a request on a source's topic. Every receiver of the topic may answer, more than once; the
    /// answers come by [`Handler::on_response`] until [`Context::cancel_request`], or until the connection
    /// is closed over which the last one came ([`Handler::on_request_end`]).
    ///
    /// The request port is opened with the first request, if [`Context::listen`] was not called.
    ///
    /// # Errors
    /// [`RequestError::Send`] as [`Context::send`]; [`RequestError::Listen`] if no port is free;
    /// [`RequestError::TooMany`] if 65,536 requests are open.
    pub fn request(&mut self, source: Source, parts: &[&[u8]]) -> Result<RequestId, RequestError> {
        if !self.home.is_here() {
            return Err(RequestError::Send(SendError::Forked));
        }
        self.check_before(Stage::Ended).map_err(|_| RequestError::Send(SendError::Ended))?;
        if self.direct.requests.open.len() >= REQUESTS_MAX {
            return Err(RequestError::TooMany { max: REQUESTS_MAX });
        }
        let address = match self.direct.address() {
            Some(address) => address,
            None => self.listen().map_err(RequestError::Listen)?,
        };
        let id = self.direct.requests.next_id(&mut self.rng);
        let (port, ip) = (address.port(), *address.ip());
        let header = Header::Request { flags: 0, transport: 0, index: id.0, port, ip };
        self.send_with_headers(source, &[header], parts).map_err(RequestError::Send)?;
        let requests = &mut self.direct.requests;
        requests.next = Some(id.next());
        requests.open.insert(id, None);
        self.counters.context.requests_open.set(requests.open.len() as u64);
        Ok(id)
    }

    /// Takes no more answers to a request; no event for it follows.
    pub fn cancel_request(&mut self, request: RequestId) {
        let requests = &mut self.direct.requests;
        let answered_by = requests.open.remove(&request).flatten();
        requests.leave(request, answered_by);
        self.counters.context.requests_open.set(requests.open.len() as u64);
    }

    /// Answers a request, see [`Message::request`](crate::Message::request); any number of times. The answer
    /// leaves with [`Context::flush`], over a connection that is opened for it and kept for
    /// `response_tcp_deletion_timeout_us` after the last answer to the same process. If that process is gone,
    /// nothing is told.
    ///
    /// A process that does not read its answers, until more than `request_tcp_send_buffer_maximum_bytes` wait for it,
    /// loses those that wait. What it reads is then whole up to some answer; it is told
    /// [`RequestEnd::PeerGone`] after that. Till it has read so far it is answered no more
    /// ([`io::ErrorKind::ConnectionAborted`]).
    ///
    /// # Errors
    /// No connection can be opened, the payload is longer than 4 GiB, or the one who asks does not read. After
    /// [`Context::close`] the error holds [`Closed`](crate::Closed).
    pub fn respond(&mut self, asked: Asked, payload: &[u8]) -> io::Result<()> {
        self.home.check()?;
        self.check_before(Stage::Closed)?;
        let Asked { index, address } = asked;
        let (port, ip) = (address.port(), *address.ip());
        self.send_answer(address, &Header::Request { flags: 0, transport: 0, index, port, ip }, payload)
    }
}

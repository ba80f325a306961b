//! Direct connections and requests, as applications call them.

use std::io;
use std::net::SocketAddrV4;

use lbt::rm::SendError;
use lbt::wire::lbmc::Header;

use super::Context;
use crate::closing::Stage;
use crate::error::ContextError;
use crate::event::Asked;
use crate::request::RequestError;
use crate::{ConnectionId, RequestId, Source};

impl Context {
    /// Takes direct connections from now on, at the first free port of the configured range, on both networks
    /// if there are two; topics published afterwards carry the address in their advertisements.
    ///
    /// # Errors
    /// No port of the range is free, or `request_tcp_tls` is set and there is no certificate.
    /// [`ContextError::Closed`] after [`Context::close`] or [`Context::settle`].
    pub fn listen(&mut self) -> Result<SocketAddrV4, ContextError> {
        self.direct.listen(&mut self.base)
    }

    /// Begins to connect to another process; [`Handler::on_connected`] or [`Handler::on_closed`] follows. Where the
    /// process is on two networks, as a session of its that is heard on both tells, and the one of `to` refuses or
    /// does not answer within a second, the other is tried, and so on in turn, eight times.
    ///
    /// # Errors
    /// The attempt failed at once; the error names the address. [`ContextError::Closed`] after [`Context::close`] or
    /// [`Context::settle`].
    ///
    /// [`Handler::on_connected`]: crate::Handler::on_connected
    /// [`Handler::on_closed`]: crate::Handler::on_closed
    pub fn connect(&mut self, to: SocketAddrV4) -> Result<ConnectionId, ContextError> {
        let other = self.receiving.incoming.rm.on_second_network(to);
        self.direct.connect_to(&mut self.base, to, other)
    }

    /// Appends a message to a connection; it leaves with [`Context::flush`]. False, and nothing happens, if the
    /// connection is gone or the context is closed.
    pub fn send_direct(&mut self, connection: ConnectionId, payload: &[u8]) -> bool {
        self.direct.send_direct(&self.base, connection, payload)
    }

    /// How many bytes wait for the connection's socket; 0 if the connection is gone. As long as there are more than
    /// `request_tcp_send_buffer_maximum_bytes` after a flush, the connection is closed.
    #[must_use]
    pub fn unsent(&self, connection: ConnectionId) -> usize {
        self.direct.unsent(connection)
    }

    /// Closes a connection after what was sent before; no event follows.
    pub fn disconnect(&mut self, connection: ConnectionId) {
        self.direct.disconnect(&mut self.base, connection)
    }

    /// Sends a request on a source's topic. Every receiver of the topic may answer, more than once; the
    /// answers come by [`Handler::on_response`] until [`Context::cancel_request`], or until the connection
    /// is closed over which the last one came ([`Handler::on_request_end`]).
    ///
    /// The request port is opened with the first request, if [`Context::listen`] was not called.
    ///
    /// # Errors
    /// [`RequestError::Send`] as [`Context::send`]; [`RequestError::Listen`] if no port is free;
    /// [`RequestError::TooMany`] if 65,536 requests are open.
    ///
    /// [`Handler::on_response`]: crate::Handler::on_response
    /// [`Handler::on_request_end`]: crate::Handler::on_request_end
    pub fn request(&mut self, source: Source, parts: &[&[u8]]) -> Result<RequestId, RequestError> {
        if !self.base.home.is_here() {
            return Err(RequestError::Send(SendError::Forked));
        }
        self.base.check_before(Stage::Ended).map_err(|_| RequestError::Send(SendError::Ended))?;
        self.direct.requests.check_room()?;
        let address = match self.direct.address() {
            Some(address) => address,
            None => self.direct.listen(&mut self.base).map_err(RequestError::Listen)?,
        };
        let id = self.direct.requests.next_id(&mut self.base.rng);
        let (port, ip) = (address.port(), *address.ip());
        let header = Header::Request { flags: 0, transport: 0, index: id.0, port, ip };
        self.publishing
            .send_with_headers(&mut self.base, source, &[header], parts)
            .map_err(RequestError::Send)?;
        self.direct.requests.on_sent(id, &self.base.counters.context);
        Ok(id)
    }

    /// Answers a request, see [`Message::request`]; any number of times. The answer
    /// leaves with [`Context::flush`], over a connection that is opened for it and kept for
    /// `response_tcp_deletion_timeout_us` after the last answer to the same process. If that process is gone,
    /// nothing is told.
    ///
    /// A process that does not read its answers, until more than `request_tcp_send_buffer_maximum_bytes` wait for it,
    /// loses those that wait. What it reads is then whole up to some answer; it is told
    /// [`RequestEnd::PeerGone`](crate::RequestEnd::PeerGone) after that. Till it has read so far it is answered no
    /// more ([`io::ErrorKind::ConnectionAborted`]).
    ///
    /// # Errors
    /// No connection can be opened, the payload is longer than 4 GiB, or the one who asks does not read. After
    /// [`Context::close`] the error holds [`Closed`](crate::Closed).
    ///
    /// [`Message::request`]: crate::Message::request
    pub fn respond(&mut self, asked: Asked, payload: &[u8]) -> io::Result<()> {
        self.base.home.check()?;
        self.base.check_before(Stage::Closed)?;
        let Asked { index, address } = asked;
        let (port, ip) = (address.port(), *address.ip());
        let other = || self.receiving.incoming.rm.on_second_network(address);
        self.direct.send_answer(
            &mut self.base,
            address,
            other,
            &Header::Request { flags: 0, transport: 0, index, port, ip },
            payload,
        )
    }

    /// Takes no more answers to a request; no event for it follows.
    pub fn cancel_request(&mut self, request: RequestId) {
        self.direct.requests.cancel(request, &self.base.counters.context);
    }
}

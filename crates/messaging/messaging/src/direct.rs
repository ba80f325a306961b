//! Direct connections: requests and their answers, messages between two processes, and what is asked for beyond the
//! transport. [`Connection`] has the state of one, `connections` finds it, `guests` limits who connects.

mod accepting;
mod connection;
mod connections;
mod ended;
mod guest;
mod guests;
mod handshakes;
mod input;
mod opening;
mod output;
mod path_failover;
mod switching;
#[cfg(test)]
mod tests;
mod unsent;

use std::collections::VecDeque;
use std::io;
use std::net::{SocketAddr, SocketAddrV4};

use lbt::stream::StreamMessage;
use net::{Door, Ready, Transport, tcp};
use units::Nanos;

use connection::{Connection, Purpose};
use connections::Connections;
use ended::EndedConnections;
use guests::Guests;
use handshakes::Handshakes;
use opening::lacks;

use crate::base::{Base, Port};
use crate::closing::{Patience, Stage};
use crate::error::ContextError;
use crate::ports::first_free;
use crate::request::Requests;
use crate::session::SessionRef;
use crate::{ConnectionId, Handler, MessagingConfig};

/// Direct connections and where they come in.
pub(crate) struct Direct {
    pub(crate) requests: Requests,
    /// One on each network, at one port.
    doors: Vec<Door>,
    /// Of the first.
    address: Option<SocketAddrV4>,
    connections: Connections,
    next: u64,
    buffer: Vec<u8>,
    guests: Guests,
    handshakes: Handshakes,
    ended: EndedConnections,
    /// What has happened to connections for recovery since it was last asked.
    recovery_events: VecDeque<RecoveryEvent>,
    /// When the context began to close, or connections were last busy since.
    pub(crate) settling_since: Nanos,
}

/// What has happened to a connection for recovery.
pub(crate) enum RecoveryEvent {
    /// It was read and written; something may be due for the session.
    Used(SessionRef),
    /// It is gone.
    Gone { session: SessionRef, connection: ConnectionId, was_established: bool },
}

/// What connections for recovery bring, for the session that each is for.
pub(crate) trait Recoveries {
    /// The connection stands.
    fn on_connected(&mut self, base: &Base, session: SessionRef);
    /// The source has sent something; false if nothing is asked for any more.
    fn on_heard(&mut self, base: &Base, session: SessionRef) -> bool;
    /// What the source has sent.
    fn on_answer(
        &mut self,
        base: &Base,
        session: SessionRef,
        message: &StreamMessage<'_>,
        handler: &mut impl Handler,
    );
}

impl Direct {
    pub(crate) fn new(config: &MessagingConfig) -> Direct {
        Direct {
            requests: Requests::default(),
            doors: Vec::new(),
            address: None,
            connections: Connections::default(),
            next: 0,
            buffer: Vec::new(),
            guests: Guests::new(config),
            handshakes: Handshakes::default(),
            ended: EndedConnections::default(),
            recovery_events: VecDeque::new(),
            settling_since: Nanos::ZERO,
        }
    }

    /// Whether nothing has happened to connections since they were flushed.
    #[inline]
    pub(crate) fn is_settled(&self) -> bool {
        self.connections.is_settled()
    }

    /// What has happened first to connections for recovery since it was asked.
    pub(crate) fn next_recovery_event(&mut self) -> Option<RecoveryEvent> {
        self.recovery_events.pop_front()
    }

    /// Above all indexes of connections.
    pub(crate) fn connection_places(&self) -> usize {
        self.connections.capacity()
    }

    pub(crate) fn address(&self) -> Option<SocketAddrV4> {
        self.address
    }

    /// See [`Context::listen`](crate::Context::listen).
    pub(crate) fn listen(&mut self, base: &mut Base) -> Result<SocketAddrV4, ContextError> {
        if base.config.request_tcp_tls && base.tls.server.is_none() {
            return Err(lacks("a request port", "tcp.tls_certificate_file").into());
        }
        base.check_open(Stage::Settling)?;
        let (low, high) = (base.config.request_tcp_port_low, base.config.request_tcp_port_high);
        let second = base.second.as_ref().map(|second| second.interface);
        let listeners = first_free(base.interface, low..=high, |address| {
            let on_second =
                second.map(|ip| tcp::listen(SocketAddrV4::new(ip, address.port()))).transpose()?;
            Ok([Some(tcp::listen(address)?), on_second])
        })?;
        let listeners: Vec<_> = listeners.into_iter().flatten().collect();
        let SocketAddr::V4(address) = listeners[0].local_addr()? else {
            return Err(io::Error::other("a listener bound to an IPv4 address has another").into());
        };
        let doors = listeners.into_iter().enumerate().map(|(index, listener)| {
            Door::open(listener, &base.registrar, base.token(Port::Listener, index))
        });
        (self.doors, self.address) = (doors.collect::<io::Result<_>>()?, Some(address));
        Ok(address)
    }

    /// See [`Context::disconnect`](crate::Context::disconnect).
    pub(crate) fn disconnect(&mut self, base: &mut Base, connection: ConnectionId) {
        if let Some(index) = self.connections.index_of(connection) {
            // The last messages are worth one attempt; the connection is given up either way.
            let _ = self.write_connection(base, index);
            let gone = self.remove_connection(base, index);
            self.end_in_order(base, gone.stream);
        }
    }

    /// Ends a connection whose peer may still send.
    fn end_in_order(&mut self, base: &Base, stream: Transport) {
        self.ended.take(base.now, stream, &base.registrar, &mut self.buffer);
    }

    fn remove_connection(&mut self, base: &mut Base, index: usize) -> Connection {
        let gone = self.connections.remove(index);
        self.guests.on_removed(&gone);
        if let (Some(asker), Some(retained)) = (gone.asker, &mut base.retained) {
            retained.responder.close(asker);
        }
        gone
    }

    /// Sends retained messages that waited for the rate limit; closes connections that are overdue, and those to
    /// who asked that have not been used for long.
    pub(crate) fn wake_direct(&mut self, base: &mut Base, now: Nanos, handler: &mut impl Handler) {
        self.flush_direct(base);
        self.ended.on_wakeup(now, &mut self.buffer);
        self.doors.iter_mut().for_each(|door| door.on_wakeup(now, &base.registrar));
        while let Some(index) = self.connections.pop_due(now) {
            self.answer(base, now, index);
            self.switch_due_path(base, now, index, handler);
            self.give_up_handshake(base, now, index, handler);
            self.look_after_guest(base, now, index, handler);
            if self.connections.get(index).is_some_and(|c| now >= c.unused_at(&base.config)) {
                self.remove_connection(base, index);
            }
        }
        self.flush_direct(base);
    }

    pub(crate) fn direct_wakeup(&self, base: &Base) -> Nanos {
        let doors = self.doors.iter().map(Door::next_wakeup).fold(Nanos::NEVER, Nanos::min);
        doors
            .min(self.ended.next_wakeup())
            .min(self.connections.next_wakeup(|connection| connection.due(base)))
    }

    /// Goes on with connections while the context is closed, for `patience` after the last answer to who asks for
    /// retained messages; whether nothing waits any more.
    pub(crate) fn settle_direct(
        &mut self,
        base: &mut Base,
        recoveries: &mut impl Recoveries,
        patience: &Patience,
    ) -> bool {
        let now = base.now;
        let retains = base.retained.is_some();
        if retains {
            (0..self.doors.len()).for_each(|index| self.on_listener_ready(base, index, &mut ()));
        }
        for index in 0..self.connections.capacity() {
            if self.connections.get(index).is_some() {
                let token = base.token(Port::Connection, index);
                self.on_connection_ready(
                    base,
                    recoveries,
                    index,
                    Ready { token, readable: true, writable: true },
                    &mut (),
                );
            }
        }
        self.wake_direct(base, now, &mut ());
        let mut connections = self.connections.iter();
        let is_asked = connections.any(|(_, connection)| connection.answers_at(base) != Nanos::NEVER);
        let is_busy = is_asked || self.direct_left() > 0;
        if is_busy {
            self.settling_since = base.now;
        }
        !is_busy && (!retains || base.now >= self.settling_since + patience.quiet)
    }

    /// Bytes that peers' kernels have not acknowledged; what we ask others for does not count.
    pub(crate) fn direct_left(&self) -> u64 {
        let ours = self.connections.iter().map(|(_, connection)| connection);
        let ours = ours.filter(|c| !matches!(c.purpose, Purpose::Recovery(_)) && !c.is_given_up);
        ours.map(Connection::unacknowledged).sum()
    }

    /// A connection is over, which is told.
    fn close_connection(&mut self, base: &mut Base, index: usize, reason: &str, handler: &mut impl Handler) {
        let Connection { id, purpose, is_established, out, accepted, decoder, stream, .. } =
            self.remove_connection(base, index);
        if decoder.has_failed() {
            self.end_in_order(base, stream);
        }
        match purpose {
            // The application knows nothing of it.
            Purpose::Application if accepted.is_some() => base.counters.context.handshakes_failed.inc(),
            Purpose::Application => handler.on_closed(id, reason),
            Purpose::Answers { .. } if out.is_empty() => {}
            Purpose::Answers { .. } => base.counters.context.answer_connections_failed.inc(),
            Purpose::Recovery(session) => {
                let was_established = is_established;
                self.recovery_events.push_back(RecoveryEvent::Gone {
                    session,
                    connection: id,
                    was_established,
                });
            }
        }
        self.requests.on_closed(id, &base.counters.context, handler);
    }
}

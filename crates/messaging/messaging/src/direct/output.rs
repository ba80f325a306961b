//! What is sent by connections, and what becomes of one whose peer takes nothing.

use std::io;
use std::net::SocketAddrV4;

use lbt::wire::lbmc::Header;
use net::{Interest, Transport};
use units::Nanos;

use super::Direct;
use super::connection::{Connection, Purpose};
use crate::ConnectionId;
use crate::base::{Base, Port};
use crate::closing::Stage;

impl Direct {
    /// Writes what waits for a connection.
    pub(super) fn write_connection(&mut self, base: &Base, index: usize) -> io::Result<()> {
        let token = base.token(Port::Connection, index);
        self.connections.get_mut(index).map_or(Ok(()), |connection| connection.write(base, token))
    }

    /// Puts what a peer has asked for of the retained messages into what waits to be written.
    pub(super) fn answer(&mut self, base: &mut Base, now: Nanos, index: usize) {
        if let Some(connection) = self.connections.get_mut(index) {
            connection.answer(base, now);
        }
    }

    /// See [`Context::send_direct`](crate::Context::send_direct).
    pub(crate) fn send_direct(&mut self, base: &Base, connection: ConnectionId, payload: &[u8]) -> bool {
        if base.stage == Stage::Closed {
            return false;
        }
        let index = self.connections.index_of(connection);
        let Some(known) = index.and_then(|index| self.connections.get_mut(index)) else { return false };
        // Messages longer than 4 GiB do not exist here.
        known.encoder.message(&mut known.out, 0, &[], payload).is_ok()
    }

    /// See [`Context::unsent`](crate::Context::unsent).
    #[must_use]
    pub(crate) fn unsent(&self, connection: ConnectionId) -> usize {
        let index = self.connections.index_of(connection);
        let known = index.and_then(|index| self.connections.get(index));
        known.map_or(0, |known| known.unsent())
    }

    /// What waits to be written to a connection.
    pub(crate) fn out_of(&mut self, connection: ConnectionId) -> Option<&mut Vec<u8>> {
        let index = self.connections.index_of(connection)?;
        self.connections.get_mut(index).map(|connection| &mut connection.out)
    }

    /// Appends an answer to a connection to the one who asked, opened if there is none; `other` says where it is on
    /// the second network.
    pub(crate) fn send_answer(
        &mut self,
        base: &mut Base,
        to: SocketAddrV4,
        other: impl FnOnce() -> Option<SocketAddrV4>,
        header: &Header<'_>,
        payload: &[u8],
    ) -> io::Result<()> {
        let index = match self.connections.index_of_answers(to) {
            Some(index) => index,
            None => {
                let (stream, paths) = self.connect_either(base, to, other())?;
                let index = self.connections.vacant_key();
                let purpose = Purpose::Answers { to, used: base.now };
                self.add_connection(base, Transport::Plain(stream), None, purpose, paths)?;
                index
            }
        };
        let now = base.now;
        let connection = &mut self.connections[index];
        if connection.is_given_up {
            let text = format!("{to} has not read its answers, and those that waited for it are lost");
            return Err(io::Error::new(io::ErrorKind::ConnectionAborted, text));
        }
        connection.settle(now);
        connection.purpose = Purpose::Answers { to, used: now };
        connection.encoder.message(&mut connection.out, 0, &[*header], payload).map_err(io::Error::other)?;
        if let Some(paths) = &mut connection.paths {
            paths.on_answer(connection.out.len());
        }
        Ok(())
    }

    /// Gives up a connection for whose peer too much waits.
    #[cold]
    pub(super) fn give_up_unread(&mut self, base: &Base, index: usize) {
        let token = base.token(Port::Connection, index);
        let Some(connection) = self.connections.get_mut(index) else { return };
        if !connection.give_up() {
            return;
        }
        base.counters.context.request_connections_unread.inc();
        if connection.is_for_answers() {
            connection.waits_for_room = false;
            // If the poller does not take it, the connection shows as one that can be written, and is read.
            let _ = base.registrar.change(&connection.stream, token, Interest::Read);
        }
    }

    /// Writes what waits for connections to which something has happened.
    #[inline]
    pub(crate) fn flush_direct(&mut self, base: &mut Base) {
        if !self.is_settled() {
            self.flush_touched(base);
        }
    }

    #[cold]
    #[inline(never)]
    fn flush_touched(&mut self, base: &mut Base) {
        let waiting_max = base.config.request_tcp_send_buffer_maximum_bytes;
        let touched = self.connections.take_touched();
        for &index in &touched {
            let waits = |c: &Connection| c.sent < c.out.len() && !c.waits_for_room;
            // An error shows again, with its reason, when the descriptor is next ready.
            if self.connections.get(index).is_some_and(waits) && self.write_connection(base, index).is_err() {
                base.counters.context.sends_failed.inc();
            }
            let Some(connection) = self.connections.get_mut(index) else { continue };
            let own = connection.unsent() as u64;
            if own > waiting_max {
                self.give_up_unread(base, index);
            }
            let due = self.connections[index].due(base);
            self.connections.settle(index, due);
        }
        self.connections.give_back(touched);
        self.limit_output(base, self.connections.waiting());
    }
}

//! Connections that go on by the other of two networks.

use std::net::SocketAddr;

use lbt::stream::StreamDecoder;
use net::{Interest, Transport, tcp};
use units::Nanos;

use super::{Connection, Direct};
use crate::Handler;
use crate::base::{Base, Port};
use crate::detour::{PATIENCE, TRIES_MAX};

impl Connection {
    /// Drops the answers that have arrived, if they were kept.
    pub(crate) fn settle(&mut self, now: Nanos) {
        let waits = self.waits_for_peer();
        let Some(detour) = &mut self.detour else { return };
        // What cannot be looked up counts as not acknowledged.
        // TLS makes more bytes of what it is given, never fewer; what it holds itself is not in the kernel.
        let is_known = self.is_established && !self.stream.holds_output();
        let queued = if is_known { tcp::unacknowledged(self.stream.socket()).ok() } else { None };
        let acknowledged = queued.map_or(0, |queued| self.sent.saturating_sub(queued.bytes));
        let is_idle = queued.is_some_and(|queued| queued.under_way == 0);
        if acknowledged > detour.acknowledged || is_idle || !waits {
            (detour.moved, detour.tries) = (now, 0);
        }
        let arrived = detour.ends.iter().take_while(|end| **end <= acknowledged).count();
        let bytes = detour.ends.drain(..arrived).next_back().unwrap_or(0);
        detour.ends.iter_mut().for_each(|end| *end -= bytes);
        detour.acknowledged = acknowledged - bytes;
        self.out.drain(..bytes);
        self.sent -= bytes;
    }

    /// When the other way is to be taken, if nothing is acknowledged till then.
    pub(crate) fn detour_at(&self) -> Nanos {
        let waiting = self.detour.as_ref().filter(|_| self.waits_for_peer());
        waiting.map_or(Nanos::NEVER, |detour| detour.moved + PATIENCE)
    }
}

impl Direct {
    /// Takes the other way to a peer that has acknowledged nothing for long.
    pub(crate) fn take_due_detour(
        &mut self,
        base: &mut Base,
        now: Nanos,
        index: usize,
        handler: &mut impl Handler,
    ) {
        let is_due = |c: &Connection| now >= c.detour_at();
        if !self.connections.get(index).is_some_and(is_due) {
            return;
        }
        let Some(connection) = self.connections.get_mut(index) else { return };
        connection.settle(now);
        if is_due(connection) && !self.take_detour(base, index) {
            self.close_connection(base, index, "neither network brings anything to the peer", handler);
        }
    }

    /// A connection brings nothing to its peer, or nothing any more: takes the other way, and sends all again that may
    /// not have arrived. False if there is none, or no need, or it was tried often enough.
    pub(crate) fn take_detour(&mut self, base: &mut Base, index: usize) -> bool {
        let now = base.now;
        let token = base.token(Port::Connection, index);
        let Some(connection) = self.connections.get_mut(index) else { return false };
        connection.settle(now);
        if !connection.waits_for_peer() {
            return false;
        }
        let Some(detour) = connection.detour.as_mut() else { return false };
        while detour.tries < TRIES_MAX {
            detour.tries += 1;
            // What fails here is tried by the other way; after the last try the connection counts as failed.
            let Ok(stream) = tcp::connect(SocketAddr::V4(detour.turn())) else { continue };
            let watched = base.config.watch_direct(&stream);
            if watched.and_then(|()| base.registrar.add(&stream, token, Interest::ReadWrite)).is_err() {
                continue;
            }
            // What is sent again is not to come by the first way as well, if that should be mended. Closing the
            // descriptor takes it out of the poller too.
            drop(tcp::reset_on_close(connection.stream.socket()));
            drop(base.registrar.remove(&connection.stream));
            connection.stream = Transport::Plain(stream);
            (connection.is_established, connection.waits_for_room) = (false, true);
            connection.handshake_due = Nanos::NEVER;
            connection.decoder = StreamDecoder::new(base.config.request_tcp_maximum_message_size_bytes);
            (connection.sent, detour.acknowledged, detour.moved) = (0, 0, now);
            if connection.is_for_answers() {
                base.counters.networks.answers_moved.inc();
            } else {
                base.counters.networks.connections_moved.inc();
            }
            return true;
        }
        false
    }
}

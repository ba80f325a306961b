//! Connections that go on by the other path to a peer on two networks.

use std::net::SocketAddr;

use lbt::stream::StreamDecoder;
use net::{Interest, Transport, tcp};
use units::Nanos;

use super::Direct;
use super::connection::Connection;
use crate::Handler;
use crate::base::{Base, Port};

impl Direct {
    /// Takes the other path to a peer that has acknowledged nothing for long.
    pub(super) fn switch_due_path(
        &mut self,
        base: &mut Base,
        now: Nanos,
        index: usize,
        handler: &mut impl Handler,
    ) {
        let is_due = |c: &Connection| now >= c.path_switch_at();
        if !self.connections.get(index).is_some_and(is_due) {
            return;
        }
        let Some(connection) = self.connections.get_mut(index) else { return };
        connection.settle(now);
        if is_due(connection) && !self.switch_path(base, index) {
            self.close_connection(base, index, "neither network brings anything to the peer", handler);
        }
    }

    /// A connection brings nothing to its peer, or nothing any more: takes the other path, and sends all again that may
    /// not have arrived. False if there is none, or no need, or it was tried often enough.
    pub(super) fn switch_path(&mut self, base: &mut Base, index: usize) -> bool {
        let now = base.now;
        let token = base.token(Port::Connection, index);
        let Some(connection) = self.connections.get_mut(index) else { return false };
        connection.settle(now);
        if !connection.waits_for_peer() {
            return false;
        }
        let Some(paths) = connection.paths.as_mut() else { return false };
        while let Some(address) = paths.next_attempt() {
            // What fails here is tried by the other path; after the last try the connection counts as failed.
            let Ok(stream) = tcp::connect(SocketAddr::V4(address)) else { continue };
            let watched = base.config.watch_direct(&stream);
            if watched.and_then(|()| base.registrar.add(&stream, token, Interest::ReadWrite)).is_err() {
                continue;
            }
            // What is sent again is not to come by the first path as well, if that should be mended. Closing the
            // descriptor takes it out of the poller too.
            drop(tcp::reset_on_close(connection.stream.socket()));
            drop(base.registrar.remove(&connection.stream));
            connection.stream = Transport::Plain(stream);
            (connection.is_established, connection.waits_for_room) = (false, true);
            connection.handshake_due = Nanos::NEVER;
            connection.decoder = StreamDecoder::new(base.config.request_tcp_maximum_message_size_bytes);
            connection.sent = 0;
            paths.begin_anew(now);
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

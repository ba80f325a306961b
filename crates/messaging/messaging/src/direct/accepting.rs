//! Connections that others open, and all until they stand.

use std::io;
use std::net::{SocketAddr, TcpStream};

use net::Transport;
use net::tls::is_about_certificates;
use units::Nanos;

use super::connection::Purpose;
use super::guest::Guest;
use super::{Direct, Recoveries};
use crate::Handler;
use crate::base::Base;

/// Connections taken in a turn.
const ACCEPTS_MAX: usize = 64;

impl Direct {
    pub(crate) fn on_listener_ready(&mut self, base: &mut Base, index: usize, handler: &mut impl Handler) {
        let now = base.now;
        for _ in 0..ACCEPTS_MAX {
            let Some(door) = self.doors.get_mut(index) else { return };
            let (stream, peer) = match door.accept(now, &base.registrar) {
                Ok(Some(accepted)) => accepted,
                Ok(None) => return,
                Err(_) => return base.counters.context.request_accepts_failed.inc(),
            };
            let Some(guest) = self.admit_guest(base, peer, handler) else { continue };
            if self.add_accepted(base, stream, peer, guest, handler).is_err() {
                self.dismiss_guest(peer);
                base.counters.context.request_connections_refused.inc();
            }
        }
    }

    fn add_accepted(
        &mut self,
        base: &mut Base,
        stream: TcpStream,
        peer: SocketAddr,
        guest: Box<Guest>,
        handler: &mut impl Handler,
    ) -> io::Result<()> {
        let stream = match &base.tls.server {
            Some(tls) if base.config.request_tcp_tls => tls.accept(stream)?,
            _ => Transport::Plain(stream),
        };
        let (index, is_plain) = (self.connections.vacant_key(), !stream.is_handshaking());
        let id = self.add_connection(base, stream, Some(peer), Purpose::Application, None)?;
        let connection = &mut self.connections[index];
        connection.guest = Some(guest);
        if is_plain {
            (connection.is_established, connection.accepted) = (true, None);
            handler.on_accepted(id, peer);
        }
        Ok(())
    }

    /// Closes a connection whose peer has not agreed on TLS in time.
    pub(super) fn give_up_handshake(
        &mut self,
        base: &mut Base,
        now: Nanos,
        index: usize,
        handler: &mut impl Handler,
    ) {
        if self.connections.get(index).is_some_and(|c| now >= c.handshake_due) {
            self.report_no_tls(base, index, "nothing came in time");
            self.close_connection(base, index, "TLS was not agreed on in time", handler);
        }
    }

    /// Whether somebody who has connected waits for another turn, so that many of them do not hold up the others. In
    /// simulated time all turns may be at one time.
    #[cold]
    pub(super) fn defers_handshake(&mut self, base: &mut Base, index: usize) -> bool {
        let now = base.now;
        let is_accepted = self.connections.get(index).is_some_and(|c| c.accepted.is_some());
        is_accepted && !base.is_simulated() && self.handshakes.are_many(now)
    }

    /// Tells of a connection that stands now.
    pub(super) fn tell_established(
        &mut self,
        base: &mut Base,
        recoveries: &mut impl Recoveries,
        index: usize,
        handler: &mut impl Handler,
    ) {
        let connection = &mut self.connections[index];
        match (connection.purpose, connection.accepted.take()) {
            (Purpose::Application, Some(peer)) => handler.on_accepted(connection.id, peer),
            (Purpose::Application, None) => {
                connection.paths = None;
                handler.on_connected(connection.id);
            }
            (Purpose::Answers { .. }, _) => {}
            (Purpose::Recovery(session), _) => recoveries.on_connected(base, session),
        }
    }

    /// Reports somebody who has connected and does not agree on TLS: he speaks none, or is silent.
    #[cold]
    fn report_no_tls(&mut self, base: &mut Base, index: usize, why: &str) {
        let connection = self.connections.get(index);
        if let Some(peer) = connection.and_then(|connection| connection.accepted) {
            base.security.refused(format!("direct connection with {peer}: it does not agree on TLS: {why}"));
        }
    }

    /// Why a connection is broken, for people.
    pub(super) fn reason_of(&mut self, base: &mut Base, index: usize, error: &io::Error) -> String {
        if !is_about_certificates(error) {
            self.report_no_tls(base, index, &error.to_string());
            return error.to_string();
        }
        base.counters.context.certificate_failures.inc();
        let reason = format!("a certificate is missing or not acceptable: {error}");
        let connection = self.connections.get(index);
        let peer = connection.and_then(|c| c.accepted.or_else(|| c.stream.socket().peer_addr().ok()));
        let peer = peer.map_or_else(String::new, |peer| format!(" with {peer}"));
        base.security.refused(format!("direct connection{peer}: {reason}"));
        reason
    }
}

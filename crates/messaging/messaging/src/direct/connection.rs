//! A direct connection: what it is for, and what waits for its peer.

use std::io;
use std::net::{Shutdown, SocketAddr, SocketAddrV4};

use lbt::recovery::ClientId;
use lbt::stream::{StreamDecoder, StreamEncoder};
use net::tcp::{self, Moved};
use net::{Interest, Token, Transport};
use units::Nanos;

use super::guest::{Guest, Overdue, Partial};
use super::path_failover::PathFailover;
use super::unsent::release_sent;
use crate::base::Base;
use crate::session::SessionRef;
use crate::{ConnectionId, MessagingConfig};

pub(super) struct Connection {
    pub(super) id: ConnectionId,
    pub(super) stream: Transport,
    /// It stands, and TLS is agreed on if that is wanted.
    pub(super) is_established: bool,
    /// When TLS must be agreed on, once it has begun.
    pub(super) handshake_due: Nanos,
    /// Who has connected, as long as nobody was told.
    pub(super) accepted: Option<SocketAddr>,
    pub(super) decoder: StreamDecoder,
    pub(super) encoder: StreamEncoder,
    /// Bytes that the socket has not taken yet, from `sent` on.
    pub(super) out: Vec<u8>,
    pub(super) sent: usize,
    pub(super) waits_for_room: bool,
    /// It is noted as one to which something has happened.
    pub(super) is_touched: bool,
    /// Bytes that waited for the socket when it was last looked at.
    pub(super) waiting: u64,
    /// Too much waits for the peer: the connection is shut down, and closed when the poller says so. See
    /// [`Connection::give_up`].
    pub(super) is_given_up: bool,
    /// Somebody has connected to the request port.
    pub(super) guest: Option<Box<Guest>>,
    pub(super) partial: Partial,
    /// When it last brought a whole message, or something was sent.
    pub(super) used: Nanos,
    pub(super) purpose: Purpose,
    /// What the retained messages' part calls the peer, once it has asked for one.
    pub(super) asker: Option<ClientId>,
    /// If the peer is on two networks: of a connection to answer, and of the application's until it stands.
    pub(super) paths: Option<Box<PathFailover>>,
}

/// Whom a connection is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    /// The application; it hears of no other.
    Application,
    /// Opened to answer requests of the peer at this address, used last at that time.
    Answers { to: SocketAddrV4, used: Nanos },
    /// Opened to ask the source of a session for messages.
    Recovery(SessionRef),
}

/// Retained messages that wait for the peer's socket, about.
const ANSWERS_MAX_BYTES: usize = 256 << 10;

impl Connection {
    pub(super) fn answers(&self) -> Option<(SocketAddrV4, Nanos)> {
        match self.purpose {
            Purpose::Answers { to, used } => Some((to, used)),
            Purpose::Application | Purpose::Recovery(_) => None,
        }
    }

    pub(super) fn is_for_answers(&self) -> bool {
        self.answers().is_some()
    }

    /// Whether something is to come of it: it is to stand, or to bring what was sent.
    pub(super) fn waits_for_peer(&self) -> bool {
        !self.out.is_empty() || self.purpose == Purpose::Application && !self.is_established
    }

    /// When one to answer is closed if no answer follows.
    pub(super) fn unused_at(&self, config: &MessagingConfig) -> Nanos {
        match self.answers() {
            Some((_, used)) if self.sent == self.out.len() && !self.is_given_up => {
                used + config.response_deletion_timeout()
            }
            _ => Nanos::NEVER,
        }
    }

    /// Gives the connection up, since too much waits for its peer; false if that cannot be or was done.
    ///
    /// One to answer stays until the peer closes it or the kernel breaks it: answers by another connection would
    /// overtake those that the peer's kernel holds.
    pub(super) fn give_up(&mut self) -> bool {
        if !self.is_established || self.is_given_up {
            return false;
        }
        self.is_given_up = true;
        let how = if self.is_for_answers() { Shutdown::Write } else { Shutdown::Both };
        // A connection that is broken already is told by the poller as well.
        let _ = self.stream.socket().shutdown(how);
        if self.is_for_answers() {
            (self.out, self.sent, self.paths) = (Vec::new(), 0, None);
        }
        true
    }

    /// Whether more answers may be put into what waits to be written.
    fn takes_answers(&self) -> bool {
        self.unsent() < ANSWERS_MAX_BYTES
    }

    /// When it is to be looked at, if nothing happens to it till then.
    pub(super) fn due(&self, base: &Base) -> Nanos {
        let own = self.path_switch_at().min(self.handshake_due).min(self.overdue(&base.config).0);
        own.min(self.answers_at(base)).min(self.unused_at(&base.config))
    }

    /// When retained messages that the peer has asked for can be sent to it.
    pub(super) fn answers_at(&self, base: &Base) -> Nanos {
        match (&base.retained, self.asker) {
            (Some(retained), Some(asker)) if self.takes_answers() => retained.responder.ready_at(asker),
            _ => Nanos::NEVER,
        }
    }

    /// Puts what the peer has asked for of the retained messages into what waits to be written.
    pub(super) fn answer(&mut self, base: &mut Base, now: Nanos) {
        if let Some(retained) = &mut base.retained
            && let Some(asker) = self.asker
            && self.takes_answers()
        {
            let len_max = self.sent + ANSWERS_MAX_BYTES;
            retained.responder.poll_transmit(now, asker, len_max, &mut self.out);
        }
    }

    /// Bytes that the peer's kernel has not acknowledged.
    pub(super) fn unacknowledged(&self) -> u64 {
        let in_kernel = match self.is_established {
            true => tcp::unacknowledged(self.stream.socket()).map_or(0, |waits| waits.bytes),
            false => 0,
        };
        (self.unsent() + in_kernel) as u64
    }

    /// Bytes that the socket has not taken.
    pub(super) fn unsent(&self) -> usize {
        self.out.len() - self.sent
    }

    /// Drops the answers that have arrived, if they were kept.
    pub(super) fn settle(&mut self, now: Nanos) {
        let waits = self.waits_for_peer();
        let Some(paths) = &mut self.paths else { return };
        // What cannot be looked up counts as not acknowledged.
        // TLS makes more bytes of what it is given, never fewer; what it holds itself is not in the kernel.
        let is_known = self.is_established && !self.stream.holds_output();
        let queued = if is_known { tcp::unacknowledged(self.stream.socket()).ok() } else { None };
        let acknowledged = queued.map_or(0, |queued| self.sent.saturating_sub(queued.bytes));
        let is_idle = queued.is_some_and(|queued| queued.under_way == 0);
        let bytes = paths.on_acknowledged(now, acknowledged, is_idle || !waits);
        self.out.drain(..bytes);
        self.sent -= bytes;
    }

    /// When the other path is to be taken, if nothing is acknowledged till then.
    pub(super) fn path_switch_at(&self) -> Nanos {
        let waiting = self.paths.as_ref().filter(|_| self.waits_for_peer());
        waiting.map_or(Nanos::NEVER, |paths| paths.due())
    }

    /// A whole message has come, or something was sent to it.
    pub(super) fn on_used(&mut self, now: Nanos) {
        self.used = now;
        if let Some(guest) = &mut self.guest {
            guest.is_proven = true;
        }
    }

    /// When it is to be closed if nothing happens until then, and why.
    pub(super) fn overdue(&self, config: &MessagingConfig) -> (Nanos, Overdue) {
        let after = |since: Nanos, limit| match limit {
            Some(limit) if since != Nanos::NEVER => since + limit,
            _ => Nanos::NEVER,
        };
        let message = (after(self.partial.since, config.request_message_timeout()), Overdue::Message);
        let own = match &self.guest {
            None => return message,
            Some(guest) if guest.is_proven => {
                (after(self.used, config.request_idle_timeout()), Overdue::Idle)
            }
            Some(guest) => (after(guest.since, config.request_first_message_timeout()), Overdue::Silent),
        };
        if own.0 < message.0 { own } else { message }
    }

    /// Writes what waits; asks to be told of room if the socket has none. `token` is what the poller knows it by.
    pub(super) fn write(&mut self, base: &Base, token: Token) -> io::Result<()> {
        if !self.is_established || self.is_given_up {
            return Ok(());
        }
        while self.sent < self.out.len() {
            match self.stream.write(&self.out[self.sent..])? {
                Moved::Bytes(count) => {
                    self.sent += count;
                    self.on_used(base.now);
                }
                Moved::WouldBlock => break,
                Moved::End => return Err(io::ErrorKind::WriteZero.into()),
            }
        }
        let is_all = self.sent == self.out.len();
        if is_all {
            self.stream.flush()?;
        }
        let waits = self.stream.waits_for_room(!is_all);
        if self.paths.is_none() {
            release_sent(&mut self.out, &mut self.sent);
        }
        self.watch_room(base, token, waits)
    }

    /// Asks the poller to tell of room, or not to.
    fn watch_room(&mut self, base: &Base, token: Token, waits: bool) -> io::Result<()> {
        if waits != self.waits_for_room {
            self.waits_for_room = waits;
            let interest = if waits { Interest::ReadWrite } else { Interest::Read };
            base.registrar.change(&self.stream, token, interest)?;
        }
        Ok(())
    }

    /// Brings a connection that does not stand yet on, first TCP and then TLS; tells whether it stands.
    #[cold]
    pub(super) fn establish(&mut self, base: &Base, token: Token) -> io::Result<bool> {
        if let Transport::Plain(stream) = &self.stream {
            if !tcp::connected(stream)? {
                return Ok(false);
            }
            if let Some(tls) = base.tls.client.as_ref().filter(|_| base.config.request_tcp_tls) {
                // The descriptor stays in the poller under its number: the copy is the same socket.
                let (copy, host) = (stream.try_clone()?, stream.peer_addr()?.ip().to_string());
                let encrypted = tls.connect(copy, &host).map_err(io::Error::other)?;
                base.registrar.remove(&self.stream)?;
                base.registrar.add(&encrypted, token, Interest::ReadWrite)?;
                self.stream = encrypted;
                self.handshake_due = base.now + base.config.tcp.handshake_timeout();
            }
        }
        let is_over = self.stream.shake_hands()?;
        let waits = self.stream.waits_for_room(false);
        self.watch_room(base, token, waits)?;
        self.is_established = is_over;
        if is_over {
            self.handshake_due = Nanos::NEVER;
        }
        Ok(is_over)
    }
}

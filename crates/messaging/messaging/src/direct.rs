mod connections;
mod detours;
mod ended;
mod guests;
mod unsent;

use std::collections::VecDeque;
use std::io;
use std::net::{Shutdown, SocketAddr, SocketAddrV4, TcpStream};

use lbt::recovery::ClientId;
use lbt::stream::{StreamDecoder, StreamEncoder, StreamMessage};
use lbt::wire::lbmc::Header;
use net::tcp::{self, Moved};
use net::tls::is_about_certificates;
use net::{Door, Interest, Ready, Transport};
use units::Nanos;

use connections::Connections;
use ended::EndedConnections;
use guests::{Guest, Guests, Partial};
use unsent::release_sent;

use crate::base::Base;
use crate::base::Port;
use crate::closing::{Patience, Stage};
use crate::detour::Detour;
use crate::error::ContextError;
use crate::ports::first_free;
use crate::request::Requests;
use crate::session::SessionRef;
use crate::{ConnectionId, Handler, MessagingConfig, RequestId};

/// Direct connections and where they come in.
pub(crate) struct Direct {
    pub(crate) requests: Requests,
    /// One on each network, at one port.
    doors: Vec<Door>,
    /// Of the first.
    address: Option<SocketAddrV4>,
    pub(crate) connections: Connections,
    next: u64,
    buffer: Vec<u8>,
    guests: Guests,
    handshakes: Handshakes,
    ended: EndedConnections,
    /// What has happened to connections for recovery, and was not told yet.
    told: VecDeque<Told>,
    /// When the context began to close, or connections were last busy since.
    pub(crate) settling_since: Nanos,
}

/// What has happened to a connection for recovery.
pub(crate) enum Told {
    /// It was read and written; something may be due for the session.
    Used(SessionRef),
    /// It is gone.
    Gone { session: SessionRef, connection: ConnectionId, was_established: bool },
}

/// How much of a turn goes to those who have not proved anything.
#[derive(Default)]
struct Handshakes {
    /// The turn, by its time.
    turn: Nanos,
    steps: u32,
}

/// Steps of handshakes in a turn, each some 0.1 ms; the poller tells of the others again.
const HANDSHAKE_STEPS_MAX: u32 = 16;

impl Handshakes {
    /// Whether there is no room for another step in the turn at `now`; if there is, it is taken.
    fn are_many(&mut self, now: Nanos) -> bool {
        if self.turn != now {
            *self = Handshakes { turn: now, steps: 0 };
        }
        self.steps += 1;
        self.steps > HANDSHAKE_STEPS_MAX
    }
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
            told: VecDeque::new(),
            settling_since: Nanos::ZERO,
        }
    }

    /// Whether nothing has happened to connections since they were flushed.
    #[inline]
    pub(crate) fn is_settled(&self) -> bool {
        self.connections.is_settled()
    }
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

pub(crate) struct Connection {
    id: ConnectionId,
    pub(crate) stream: Transport,
    /// It stands, and TLS is agreed on if that is wanted.
    pub(crate) is_established: bool,
    /// When TLS must be agreed on, once it has begun.
    pub(crate) handshake_due: Nanos,
    /// Who has connected, as long as nobody was told.
    accepted: Option<SocketAddr>,
    pub(crate) decoder: StreamDecoder,
    encoder: StreamEncoder,
    /// Bytes that the socket has not taken yet, from `sent` on.
    pub(crate) out: Vec<u8>,
    pub(crate) sent: usize,
    pub(crate) waits_for_room: bool,
    /// It is noted as one to which something has happened.
    is_touched: bool,
    /// Bytes that waited for the socket when it was last looked at.
    waiting: u64,
    /// Too much waits for the peer: the connection is shut down, and closed when the poller says so. See
    /// [`Connection::give_up`].
    is_given_up: bool,
    /// Somebody has connected to the request port.
    guest: Option<Box<Guest>>,
    partial: Partial,
    /// When it last brought a whole message, or something was sent.
    used: Nanos,
    purpose: Purpose,
    /// What the retained messages' part calls the peer, once it has asked for one.
    asker: Option<ClientId>,
    /// If the peer is on two networks: of a connection to answer, and of the application's until it stands.
    pub(crate) detour: Option<Box<Detour>>,
}

/// Whom a connection is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Purpose {
    /// The application; it hears of no other.
    Application,
    /// Opened to answer requests of the peer at this address, used last at that time.
    Answers { to: SocketAddrV4, used: Nanos },
    /// Opened to ask the source of a session for messages.
    Recovery(SessionRef),
}

impl Connection {
    fn answers(&self) -> Option<(SocketAddrV4, Nanos)> {
        match self.purpose {
            Purpose::Answers { to, used } => Some((to, used)),
            Purpose::Application | Purpose::Recovery(_) => None,
        }
    }

    pub(crate) fn is_for_answers(&self) -> bool {
        self.answers().is_some()
    }

    /// Whether something is to come of it: it is to stand, or to bring what was sent.
    pub(crate) fn waits_for_peer(&self) -> bool {
        !self.out.is_empty() || self.purpose == Purpose::Application && !self.is_established
    }

    /// When one to answer is closed if no answer follows.
    fn unused_at(&self, config: &MessagingConfig) -> Nanos {
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
    fn give_up(&mut self) -> bool {
        if !self.is_established || self.is_given_up {
            return false;
        }
        self.is_given_up = true;
        let how = if self.is_for_answers() { Shutdown::Write } else { Shutdown::Both };
        // A connection that is broken already is told by the poller as well.
        let _ = self.stream.socket().shutdown(how);
        if self.is_for_answers() {
            (self.out, self.sent, self.detour) = (Vec::new(), 0, None);
        }
        true
    }

    /// Whether more answers may be put into what waits to be written.
    fn takes_answers(&self) -> bool {
        self.out.len() - self.sent < ANSWERS_MAX_BYTES
    }
}

/// Retained messages that wait for the peer's socket, about.
const ANSWERS_MAX_BYTES: usize = 256 << 10;
const READ_BYTES: usize = 256 << 10;
/// Connections taken in a turn.
const ACCEPTS_MAX: usize = 64;

impl Direct {
    /// What has happened first to connections for recovery since it was asked.
    pub(crate) fn next_told(&mut self) -> Option<Told> {
        self.told.pop_front()
    }

    pub(crate) fn address(&self) -> Option<SocketAddrV4> {
        self.address
    }

    /// What waits to be written to a connection.
    pub(crate) fn out_of(&mut self, connection: ConnectionId) -> Option<&mut Vec<u8>> {
        let index = self.connections.index_of(connection)?;
        self.connections.get_mut(index).map(|connection| &mut connection.out)
    }
}

impl Direct {
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

    /// Begins to connect to another process, which is at `other` on the second network.
    pub(crate) fn connect_to(
        &mut self,
        base: &mut Base,
        to: SocketAddrV4,
        other: Option<SocketAddrV4>,
    ) -> Result<ConnectionId, ContextError> {
        base.check_open(Stage::Settling)?;
        let (stream, detour) = self.connect_either(base, to, other)?;
        Ok(self.add_connection(base, Transport::Plain(stream), None, Purpose::Application, detour)?)
    }

    /// Begins to connect to a peer, over the other network if the first one cannot be used.
    fn connect_either(
        &self,
        base: &Base,
        to: SocketAddrV4,
        other: Option<SocketAddrV4>,
    ) -> io::Result<(TcpStream, Option<Box<Detour>>)> {
        let now = base.now;
        self.check_trust(base)?;
        let mut detour = other.map(|other| Box::new(Detour::new([to, other], now)));
        let first = match &mut detour {
            // One network, and it is not the first: the peer is known here by the second.
            Some(detour) if base.second.is_none() => detour.turn(),
            _ => to,
        };
        let stream = match (tcp::connect(SocketAddr::V4(first)), &mut detour) {
            (Err(_), Some(detour)) => tcp::connect(SocketAddr::V4(detour.turn())),
            (stream, _) => stream,
        }?;
        Ok((stream, detour))
    }

    /// Begins to connect to the source of a session, to ask for messages.
    pub(crate) fn connect_for(
        &mut self,
        base: &mut Base,
        to: SocketAddrV4,
        session: SessionRef,
    ) -> io::Result<ConnectionId> {
        self.check_trust(base)?;
        let stream = tcp::connect(SocketAddr::V4(to))?;
        self.add_connection(base, Transport::Plain(stream), None, Purpose::Recovery(session), None)
    }

    /// Whether connections can be made as the configuration wants them.
    fn check_trust(&self, base: &Base) -> io::Result<()> {
        let is_missing = base.config.request_tcp_tls && base.tls.client.is_none();
        if is_missing { Err(lacks("a direct connection", "tcp.tls_ca_file")) } else { Ok(()) }
    }

    fn add_connection(
        &mut self,
        base: &mut Base,
        stream: Transport,
        accepted: Option<SocketAddr>,
        purpose: Purpose,
        detour: Option<Box<Detour>>,
    ) -> io::Result<ConnectionId> {
        base.config.watch_direct(stream.socket())?;
        let index = self.connections.vacant_key();
        let interest = if accepted.is_some() { Interest::Read } else { Interest::ReadWrite };
        let handshake_due = if stream.is_handshaking() {
            base.now + base.config.tcp.handshake_timeout()
        } else {
            Nanos::NEVER
        };
        base.registrar.add(&stream, base.token(Port::Connection, index), interest)?;
        self.next += 1;
        let id = ConnectionId(self.next);
        self.connections.insert(Connection {
            id,
            stream,
            is_established: false,
            handshake_due,
            accepted,
            decoder: StreamDecoder::new(base.config.request_tcp_maximum_message_size_bytes),
            encoder: StreamEncoder::default(),
            out: Vec::new(),
            sent: 0,
            waits_for_room: accepted.is_none(),
            is_touched: false,
            waiting: 0,
            is_given_up: false,
            guest: None,
            partial: Partial::default(),
            used: base.now,
            purpose,
            asker: None,
            detour,
        });
        Ok(id)
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
        known.map_or(0, |known| known.out.len() - known.sent)
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

    pub(crate) fn remove_connection(&mut self, base: &mut Base, index: usize) -> Connection {
        let gone = self.connections.remove(index);
        self.guests.on_removed(&gone);
        if let (Some(asker), Some(retained)) = (gone.asker, &mut base.retained) {
            retained.responder.close(asker);
        }
        gone
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
                let (stream, detour) = self.connect_either(base, to, other())?;
                let index = self.connections.vacant_key();
                let purpose = Purpose::Answers { to, used: base.now };
                self.add_connection(base, Transport::Plain(stream), None, purpose, detour)?;
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
        if let Some(detour) = &mut connection.detour {
            detour.on_answer(connection.out.len());
        }
        Ok(())
    }

    /// Puts what a peer has asked for of the retained messages into what waits to be written.
    fn answer(&mut self, base: &mut Base, now: Nanos, index: usize) {
        if let Some(retained) = &mut base.retained
            && let Some(connection) = self.connections.get_mut(index)
            && let Some(asker) = connection.asker
            && connection.takes_answers()
        {
            let len_max = connection.sent + ANSWERS_MAX_BYTES;
            retained.responder.poll_transmit(now, asker, len_max, &mut connection.out);
        }
    }

    /// When retained messages that a peer has asked for can be sent to it.
    fn answers_at(&self, base: &Base, connection: &Connection) -> Nanos {
        match (&base.retained, connection.asker) {
            (Some(retained), Some(asker)) if connection.takes_answers() => retained.responder.ready_at(asker),
            _ => Nanos::NEVER,
        }
    }

    /// When a connection is to be looked at, if nothing happens to it till then.
    fn direct_due(&self, base: &Base, connection: &Connection) -> Nanos {
        let own =
            connection.detour_at().min(connection.handshake_due).min(connection.overdue(&base.config).0);
        own.min(self.answers_at(base, connection)).min(connection.unused_at(&base.config))
    }

    /// Sends retained messages that waited for the rate limit; closes connections that are overdue, and those to
    /// who asked that have not been used for long.
    pub(crate) fn wake_direct(&mut self, base: &mut Base, now: Nanos, handler: &mut impl Handler) {
        self.flush_direct(base);
        self.ended.on_wakeup(now, &mut self.buffer);
        self.doors.iter_mut().for_each(|door| door.on_wakeup(now, &base.registrar));
        while let Some(index) = self.connections.pop_due(now) {
            self.answer(base, now, index);
            self.take_due_detour(base, now, index, handler);
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
            .min(self.connections.next_wakeup(|connection| self.direct_due(base, connection)))
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
        let is_asked = connections.any(|(_, connection)| self.answers_at(base, connection) != Nanos::NEVER);
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
        ours.map(|connection| {
            let in_kernel = match connection.is_established {
                true => tcp::unacknowledged(connection.stream.socket()).map_or(0, |waits| waits.bytes),
                false => 0,
            };
            (connection.out.len() - connection.sent + in_kernel) as u64
        })
        .sum()
    }

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
    fn give_up_handshake(&mut self, base: &mut Base, now: Nanos, index: usize, handler: &mut impl Handler) {
        if self.connections.get(index).is_some_and(|c| now >= c.handshake_due) {
            self.report_no_tls(base, index, "nothing came in time");
            self.close_connection(base, index, "TLS was not agreed on in time", handler);
        }
    }

    /// Whether somebody who has connected waits for another turn, so that many of them do not hold up the others. In
    /// simulated time all turns may be at one time.
    #[cold]
    fn defers_handshake(&mut self, base: &mut Base, index: usize) -> bool {
        let now = base.now;
        let is_accepted = self.connections.get(index).is_some_and(|c| c.accepted.is_some());
        is_accepted && !base.is_simulated() && self.handshakes.are_many(now)
    }

    /// Brings a connection that does not stand yet on, first TCP and then TLS; tells whether it stands.
    #[cold]
    fn establish_direct(&mut self, base: &mut Base, index: usize) -> io::Result<bool> {
        let (token, due) =
            (base.token(Port::Connection, index), base.now + base.config.tcp.handshake_timeout());
        let connection = &mut self.connections[index];
        if let Transport::Plain(stream) = &connection.stream {
            if !tcp::connected(stream)? {
                return Ok(false);
            }
            if let Some(tls) = base.tls.client.as_ref().filter(|_| base.config.request_tcp_tls) {
                // The descriptor stays in the poller under its number: the copy is the same socket.
                let (copy, host) = (stream.try_clone()?, stream.peer_addr()?.ip().to_string());
                let encrypted = tls.connect(copy, &host).map_err(io::Error::other)?;
                base.registrar.remove(&connection.stream)?;
                base.registrar.add(&encrypted, token, Interest::ReadWrite)?;
                (connection.stream, connection.handshake_due) = (encrypted, due);
            }
        }
        let is_over = connection.stream.shake_hands()?;
        let waits = connection.stream.waits_for_room(false);
        if waits != connection.waits_for_room {
            connection.waits_for_room = waits;
            let interest = if waits { Interest::ReadWrite } else { Interest::Read };
            base.registrar.change(&connection.stream, token, interest)?;
        }
        connection.is_established = is_over;
        if is_over {
            connection.handshake_due = Nanos::NEVER;
        }
        Ok(is_over)
    }

    /// Tells of a connection that stands now.
    fn tell_established(
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
                connection.detour = None;
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
    fn reason_of(&mut self, base: &mut Base, index: usize, error: &io::Error) -> String {
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

    pub(crate) fn on_connection_ready(
        &mut self,
        base: &mut Base,
        recoveries: &mut impl Recoveries,
        index: usize,
        ready: Ready,
        handler: &mut impl Handler,
    ) {
        let now = base.now;
        let Some(connection) = self.connections.get_mut(index) else { return };
        let (purpose, was_established) = (connection.purpose, connection.is_established);
        let is_given_up = connection.is_given_up;
        let result = if is_given_up && !connection.is_for_answers() {
            Err("the peer does not take what is sent to it".to_owned())
        } else if was_established {
            Ok(())
        } else if self.defers_handshake(base, index) {
            return;
        } else {
            match self.establish_direct(base, index) {
                Ok(true) => {
                    self.tell_established(base, recoveries, index, handler);
                    Ok(())
                }
                Ok(false) => return,
                Err(e) => Err(self.reason_of(base, index, &e)),
            }
        };
        let (mut result, mut has_input) = (result, ready.readable);
        // What TLS holds inside no poller tells of.
        while result.is_ok() && (has_input || self.holds_input(index)) {
            has_input = false;
            result = self.read_connection(base, recoveries, index, handler);
        }
        self.answer(base, now, index);
        let result = result
            .and_then(|()| self.write_connection(base, index).map_err(|e| self.reason_of(base, index, &e)));
        if result.is_err() && !is_given_up && self.take_detour(base, index) {
            return;
        }
        if let Err(reason) = result {
            self.close_connection(base, index, &reason, handler);
        } else if let Purpose::Recovery(session) = purpose {
            self.told.push_back(Told::Used(session));
        }
        self.limit_input(base, handler);
    }

    /// A connection is over, which is told.
    pub(crate) fn close_connection(
        &mut self,
        base: &mut Base,
        index: usize,
        reason: &str,
        handler: &mut impl Handler,
    ) {
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
                self.told.push_back(Told::Gone { session, connection: id, was_established });
            }
        }
        self.requests.on_closed(id, &base.counters.context, handler);
    }

    fn holds_input(&self, index: usize) -> bool {
        self.connections.get(index).is_some_and(|connection| connection.stream.may_hold_input())
    }

    fn read_connection(
        &mut self,
        base: &mut Base,
        recoveries: &mut impl Recoveries,
        index: usize,
        handler: &mut impl Handler,
    ) -> Result<(), String> {
        let now = base.now;
        let (mut is_whole, mut taken) = (false, 0);
        let result = self.take_input(base, recoveries, index, &mut is_whole, &mut taken, handler);
        if taken > 0 {
            self.on_input(now, index, taken, is_whole);
        }
        result
    }

    /// Reads once, and hands on what is whole.
    fn take_input(
        &mut self,
        base: &mut Base,
        recoveries: &mut impl Recoveries,
        index: usize,
        is_whole: &mut bool,
        taken: &mut usize,
        handler: &mut impl Handler,
    ) -> Result<(), String> {
        let Direct { connections, buffer, requests, .. } = self;
        buffer.resize(READ_BYTES, 0);
        let Some(connection) = connections.get_mut(index) else { return Ok(()) };
        let moved = match connection.stream.read(buffer) {
            Ok(moved) => moved,
            Err(error) => return Err(self.reason_of(base, index, &error)),
        };
        match moved {
            Moved::Bytes(count) => {
                *taken = count;
                let id = connection.id;
                if let Purpose::Recovery(session) = connection.purpose {
                    if !recoveries.on_heard(base, session) {
                        return Ok(());
                    }
                    let pushed = connection.decoder.push(&buffer[..count], |msg| {
                        *is_whole = true;
                        // What is no answer is nobody's business.
                        recoveries.on_answer(base, session, &msg, handler);
                    });
                    return pushed.map_err(|e| e.to_string());
                }
                let (asker, retained) = (&mut connection.asker, &mut base.retained);
                let pushed = connection.decoder.push(&buffer[..count], |msg| {
                    *is_whole = true;
                    if let Some(retained) = retained
                        && retained.take_request(asker, &msg)
                    {
                        return;
                    }
                    if let Some(request) = response_to(&msg) {
                        requests.on_response(id, request, msg.payload, &base.counters.context, handler);
                    } else if !msg.payload.is_empty() {
                        // Control messages, such as the announcement of a session, have nothing for the
                        // application.
                        handler.on_direct(id, msg.payload);
                    }
                });
                pushed.map_err(|e| e.to_string())
            }
            Moved::WouldBlock => Ok(()),
            Moved::End => Err("the peer has closed the connection".to_owned()),
        }
    }

    /// Writes what waits; asks to be told of room if the socket has none.
    fn write_connection(&mut self, base: &mut Base, index: usize) -> io::Result<()> {
        let now = base.now;
        let token = base.token(Port::Connection, index);
        let Some(connection) = self.connections.get_mut(index) else { return Ok(()) };
        if !connection.is_established || connection.is_given_up {
            return Ok(());
        }
        while connection.sent < connection.out.len() {
            match connection.stream.write(&connection.out[connection.sent..])? {
                Moved::Bytes(count) => {
                    connection.sent += count;
                    connection.on_used(now);
                }
                Moved::WouldBlock => break,
                Moved::End => return Err(io::ErrorKind::WriteZero.into()),
            }
        }
        let is_all = connection.sent == connection.out.len();
        if is_all {
            connection.stream.flush()?;
        }
        let waits = connection.stream.waits_for_room(!is_all);
        if connection.detour.is_none() {
            release_sent(&mut connection.out, &mut connection.sent);
        }
        if waits != connection.waits_for_room {
            connection.waits_for_room = waits;
            let interest = if waits { Interest::ReadWrite } else { Interest::Read };
            base.registrar.change(&connection.stream, token, interest)?;
        }
        Ok(())
    }

    /// Gives up a connection for whose peer too much waits.
    #[cold]
    fn give_up_unread(&mut self, base: &Base, index: usize) {
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
            let own = (connection.out.len() - connection.sent) as u64;
            if own > waiting_max {
                self.give_up_unread(base, index);
            }
            let due = self.direct_due(base, &self.connections[index]);
            self.connections.settle(index, due);
        }
        self.connections.give_back(touched);
        self.limit_output(base, self.connections.waiting());
    }
}

fn lacks(what: &str, key: &str) -> io::Error {
    let text = format!("{what} is to be encrypted (request_tcp_tls), which takes {key}");
    io::Error::new(io::ErrorKind::InvalidInput, text)
}

/// The request that a message answers.
fn response_to(message: &StreamMessage<'_>) -> Option<RequestId> {
    if message.headers.is_empty() {
        return None;
    }
    message.headers.iter().find_map(|header| match header {
        Header::Request { index, .. } => Some(RequestId(index)),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;
    use crate::Context;
    use crate::context::tests::lone;
    use crate::{Message, Wait};

    /// Why its connection was closed.
    #[derive(Default)]
    struct Closed(Option<String>);

    impl Handler for Closed {
        fn on_message(&mut self, _: &Message<'_>) {}
        fn on_closed(&mut self, _: ConnectionId, reason: &str) {
            self.0 = Some(reason.to_owned());
        }
    }

    #[test]
    fn a_peer_that_takes_nothing_is_given_up_when_too_much_waits_for_it() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port is free");
        let SocketAddr::V4(address) = listener.local_addr().expect("bound") else { unreachable!("IPv4") };
        let (mut context, mut closed) = (lone(6, Wait::Block), Closed::default());
        let connection = context.connect(address).expect("it is near");
        let begun = Instant::now();
        while closed.0.is_none() {
            assert!(begun.elapsed() < Duration::from_secs(60), "what waits grows for ever");
            context.send_direct(connection, &[7; 100_000]);
            context.wait(Some(Duration::from_millis(1)), &mut closed).expect("the poller works");
        }
        assert_eq!(closed.0.as_deref(), Some("the peer does not take what is sent to it"));
    }

    /// A reset could destroy what was sent to the peer last, and says nothing.
    #[test]
    fn a_peer_that_sends_much_that_is_no_message_gets_an_end_and_no_reset() {
        use std::io::{Read, Write};
        let (mut asked, mut closed) = (lone(25, Wait::Block), Closed::default());
        let address = asked.listen().expect("a port is free");
        let mut peer = TcpStream::connect(address).expect("it is near");
        let sends = std::thread::spawn(move || {
            peer.write_all(&[0xFF; 1_000_000])?;
            peer.read_to_end(&mut Vec::new())
        });
        let begun = Instant::now();
        while !sends.is_finished() {
            assert!(begun.elapsed() < Duration::from_secs(60), "it hangs");
            asked.wait(Some(Duration::from_millis(1)), &mut closed).expect("the poller works");
        }
        assert_eq!(sends.join().expect("it ran").expect("no reset"), 0);
        assert_eq!(closed.0.as_deref(), Some("LBMC message has value 255, understood up to 10"));
        assert_eq!(asked.direct.connections.iter().count(), 0);
    }

    #[test]
    fn idle_connections_are_not_looked_at_whatever_others_do() {
        const IDLE: usize = 60;
        let (mut asked, mut asking, mut closed) =
            (lone(22, Wait::Block), lone(23, Wait::Block), Closed::default());
        let address = asked.listen().expect("a port is free");
        let used = asking.connect(address).expect("it is near");
        for _ in 0..IDLE {
            asking.connect(address).expect("it is near");
        }
        let begun = Instant::now();
        let mut turn = |asked: &mut Context, asking: &mut Context| {
            assert!(begun.elapsed() < Duration::from_secs(60), "it hangs");
            asking.poll(&mut closed).expect("the poller works");
            asked.poll(&mut closed).expect("the poller works");
        };
        let stand = |of: &Context| of.direct.connections.iter().filter(|(_, c)| c.is_established).count();
        while stand(&asked).min(stand(&asking)) < IDLE + 1 {
            turn(&mut asked, &mut asking);
        }
        asking.flush();
        asked.flush();
        let before = (asked.direct.connections.looks, asking.direct.connections.looks);
        for _ in 0..100 {
            asking.send_direct(used, b"more");
            turn(&mut asked, &mut asking);
            asked.on_wakeup(asked.base.now, &mut ());
            assert!(asked.next_wakeup() > asked.base.now, "somebody is due later");
        }
        let looks = (asked.direct.connections.looks - before.0, asking.direct.connections.looks - before.1);
        assert!(looks.0 <= 200 && looks.1 <= 200, "{looks:?} in 100 turns with one busy connection");
        assert!(looks.1 >= 100, "{looks:?}");
    }

    #[test]
    fn a_connection_is_closed_in_its_time_whatever_happens_to_others() {
        let (mut asked, mut closed) = (lone(24, Wait::Block), Closed::default());
        let address = asked.listen().expect("a port is free");
        let silent: Vec<_> = (0..3).map(|_| TcpStream::connect(address).expect("it is near")).collect();
        let begun = Instant::now();
        while asked.direct.connections.iter().count() < silent.len() {
            assert!(begun.elapsed() < Duration::from_secs(60), "they are not taken");
            asked.poll(&mut closed).expect("the poller works");
        }
        asked.flush();
        let due = asked.direct.direct_wakeup(&asked.base);
        let limit = asked.base.config.request_first_message_timeout().expect("it is limited");
        assert!(due <= asked.base.now + limit && due != Nanos::NEVER);
        asked.on_wakeup(asked.base.now + limit, &mut closed);
        assert_eq!(closed.0.as_deref(), Some("it has said nothing in time"));
        assert_eq!(
            (asked.direct.connections.iter().count(), asked.direct.direct_wakeup(&asked.base)),
            (0, Nanos::NEVER)
        );
        assert_eq!(asked.base.counters.context.request_connections_silent.get(), 3);
    }
}

//! TCP: the source listens, receivers connect, the stream is the session.

mod closing;
mod guests;
mod said;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use counters::table::LbttcpSource;
use lbt::ordered::{Backlog, Cursor, Kept, Room, Source, ask_receivers};
use lbt::presence::{Answer, Query};
use lbt::resolution::TransportSession;
use lbt::rm::{SendError, TopicId};
use lbt::session::Unsent;
use lbt::wire::lbmc::Chain;
use net::tcp::{self, Moved};
use net::tls::is_about_certificates;
use net::{Door, Interest, Ready, Registrar, Token, Transport};
use slab::Slab;
use units::Nanos;
use units::Sqn;

use super::binding::Binding;
use super::claim::Claim;
use super::session::{KEPT_MAX_BYTES, Opened, Session};
use crate::base::{Base, Port};
use crate::closing::Patience;
use crate::config::ReceiverBehavior;
use crate::error::ContextError;
use crate::event::SourceEvent;
use crate::ports::first_free;
use crate::statistics::{Peer, SentStatistics};
use guests::{Guests, Stall};
use said::Said;

/// The sending side of a TCP session.
pub(crate) struct TcpOutgoing {
    door: Door,
    session_id: u32,
    pub(super) session: Source,
    pub(super) backlog: Kept<Backlog>,
    /// An explicit batch is open: only what makes it worth a system call is offered.
    pub(super) is_held: bool,
    clients: Slab<Client>,
    guests: Guests,
    is_source_paced: bool,
    /// Bytes that waited when everything was last offered to the sockets.
    offered: u64,
    /// What the sources are to be told.
    pub(super) events: Vec<SourceEvent>,
    /// What receivers have answered.
    answers: Vec<(SocketAddr, Answer)>,
    /// Receivers whose certificate was refused, or that have refused ours, and why.
    pub(super) refused: Vec<String>,
    registrar: Registrar,
    /// Of the first client.
    token: Token,
    counters: Arc<LbttcpSource>,
}

/// One receiver, or who may become one.
struct Client {
    transport: Transport,
    peer: SocketAddr,
    /// None before the handshake is complete.
    cursor: Option<Cursor>,
    /// Bytes that its socket has taken.
    taken: u64,
    /// The session is full because of it.
    stall: Option<Stall>,
    waits_for_room: bool,
    said: Said,
}

/// Bytes that make it worth a system call though nobody has flushed.
const WRITE_MIN: u64 = 64 << 10;
/// Connections taken, and buffers read from one, in a turn.
const ACCEPTS_MAX: usize = 64;
const READS_MAX: usize = 4;
/// Answers that wait to be looked at; others are dropped, and their receivers asked again.
const ANSWERS_MAX: usize = 4_096;
/// Clients of a session in the index of a token, above them the session.
pub(crate) const CLIENT_BITS: u32 = 16;

impl TcpOutgoing {
    pub(super) fn say_end(&mut self) {
        self.session.end(&mut self.backlog);
        self.offer_all();
    }
    /// Opens a session at a port of its own.
    pub(super) fn open(
        base: &mut Base,
        at: usize,
        Binding { low, high, session_id, .. }: Binding,
    ) -> Result<Opened<TcpOutgoing>, ContextError> {
        let config = &base.config;
        let listener = first_free(base.interface, low..=high, tcp::listen)?;
        let SocketAddr::V4(address) = listener.local_addr()? else {
            return Err(io::Error::other("a listener bound to an IPv4 address has another").into());
        };
        let options = config.tcp_source();
        let buffer = config.tcp.session_maximum_buffer_bytes as usize;
        let session_id = session_id.unwrap_or_else(|| base.rng.next_u32().max(1));
        let door = Door::open(listener, &base.registrar, base.token(Port::Outgoing, at))?;
        let session = TcpOutgoing {
            door,
            session_id,
            session: Source::new(&options, base.counters.lbm_source.clone())?,
            backlog: Kept::new(Backlog::new(buffer, options.maximum_message_size as usize)),
            is_held: false,
            clients: Slab::new(),
            guests: Guests::new(config),
            is_source_paced: config.tcp.multiple_receiver_behavior == ReceiverBehavior::SourcePaced,
            offered: 0,
            events: Vec::new(),
            answers: Vec::new(),
            refused: Vec::new(),
            registrar: base.registrar.clone(),
            token: base.token(Port::TcpClient, at << CLIENT_BITS),
            counters: base.counters.tcp_source.clone(),
        };
        let transport = TransportSession::Tcp { address, session_id: Some(session_id) };
        Ok(Opened { session, transport, origin: None })
    }

    /// Takes receivers that have connected.
    fn accept(&mut self, base: &Base) {
        let now = base.now;
        for _ in 0..ACCEPTS_MAX {
            let (stream, peer) = match self.door.accept(now, &base.registrar) {
                Ok(Some(accepted)) => accepted,
                Ok(None) => return,
                Err(_) => return self.counters.accepts_failed.inc(),
            };
            if !base.config.tcp.admits_client(peer) {
                self.counters.clients_not_allowed.inc();
                continue;
            }
            let watched = base.config.tcp.watch(&stream);
            let transport = watched.and_then(|()| match &base.tls.server {
                Some(tls) => tls.accept(stream),
                None => Ok(Transport::Plain(stream)),
            });
            let added = transport.and_then(|transport| self.admit(now, transport, peer));
            if added.is_err() {
                self.counters.clients_refused.inc();
            }
        }
    }
    /// Those that have come through their handshake.
    fn clients_from(&self, from: usize) -> impl Iterator<Item = (usize, Peer)> + '_ {
        (from..self.clients.capacity()).filter_map(|at| {
            let client = self.clients.get(at)?;
            let waiting_bytes = self.backlog.pending(client.cursor.as_ref()?);
            Some((at, Peer { bytes: Some(client.taken), waiting_bytes, ..Peer::at(client.peer) }))
        })
    }

    /// A receiver's socket has room, or something to read: the end of the connection, or of a handshake.
    pub(super) fn serve_client(&mut self, index: usize, ready: Ready) {
        let Some(client) = self.clients.get_mut(index) else { return };
        let mut input = [0; 4096];
        let mut reads = 0;
        while ready.readable && reads < READS_MAX || client.transport.may_hold_input() {
            reads += 1;
            match client.transport.read(&mut input) {
                Ok(Moved::Bytes(count)) => {
                    let (answers, peer) = (&mut self.answers, client.peer);
                    client.said.take(&input[..count], |answer| {
                        if answers.len() < ANSWERS_MAX {
                            answers.push((peer, answer));
                        }
                    });
                }
                Ok(Moved::WouldBlock) => break,
                Ok(Moved::End) => return self.drop_client(index),
                Err(error) => return self.lose_client(index, &error),
            }
        }
        client.waits_for_room = false;
        if client.cursor.is_none() && !client.transport.is_handshaking() {
            return self.welcome(index);
        }
        self.write_client(index);
        self.release();
    }

    /// Gives every receiver what it has not been given.
    fn offer_all(&mut self) {
        for index in 0..self.clients.capacity() {
            if self.clients.get(index).is_some_and(|c| !c.waits_for_room && c.cursor.is_some()) {
                self.write_client(index);
            }
        }
        self.release();
        if Backlog::is_blocked(&self.backlog) {
            self.on_full();
        }
        self.offered = self.backlog.waiting_bytes();
    }

    #[inline]
    fn offer_new(&mut self) {
        if self.backlog.waiting_bytes() != self.offered {
            self.offer_all();
        }
    }

    fn client_token(&self, index: usize) -> Token {
        Token(self.token.0 | index as u64)
    }

    fn drop_client(&mut self, index: usize) {
        if let Some(gone) = self.remove_client(index)
            && gone.cursor.is_some()
        {
            self.counters.clients_lost.inc();
            self.events.push(SourceEvent::ReceiverDisconnected(gone.peer));
            self.release();
        }
    }

    fn lose_client(&mut self, index: usize, error: &io::Error) {
        if is_about_certificates(error) {
            self.counters.certificate_failures.inc();
            let peer = self.clients.get(index).map(|client| client.peer);
            self.refused.extend(peer.map(|peer| format!("receiver {peer} of a TCP session: {error}")));
        }
        self.drop_client(index);
    }

    /// Writes what a client has not been given, as far as its socket takes it.
    fn write_client(&mut self, index: usize) {
        if let Err(error) = self.offer(index) {
            self.lose_client(index, &error);
        }
    }

    fn offer(&mut self, index: usize) -> io::Result<()> {
        let token = self.client_token(index);
        let Some(client) = self.clients.get_mut(index) else { return Ok(()) };
        // In its handshake there is nothing for it but what the transport holds.
        let Some(cursor) = &mut client.cursor else { return settle(client, &self.registrar, token, 0) };
        loop {
            let bytes = self.backlog.next_bytes(cursor);
            if bytes.is_empty() {
                break;
            }
            match client.transport.write(bytes)? {
                Moved::Bytes(count) => {
                    client.taken += count as u64;
                    self.backlog.taken(cursor, count);
                }
                Moved::WouldBlock => break,
                Moved::End => return Err(io::ErrorKind::WriteZero.into()),
            }
        }
        let pending = self.backlog.pending(cursor);
        settle(client, &self.registrar, token, pending)
    }

    /// After a message was written: whether so much waits that it should not wait for a flush.
    #[inline]
    pub(super) fn on_written(&mut self) {
        if self.backlog.waiting_bytes() >= self.offered + WRITE_MIN {
            self.offer_all();
        }
    }

    fn release(&mut self) {
        self.backlog.release(self.clients.iter().filter_map(|(_, c)| c.cursor.as_ref()));
        self.counters.bytes_buffered.set(self.backlog.waiting_bytes());
        self.offered = self.offered.min(self.backlog.waiting_bytes());
    }
}

/// Flushes what the transport of a client holds, and asks to be told of room if it waits for that.
#[inline]
fn settle(client: &mut Client, registrar: &Registrar, token: Token, pending: u64) -> io::Result<()> {
    if pending == 0 {
        client.transport.flush()?;
    }
    let waits = client.transport.waits_for_room(pending > 0);
    if waits != client.waits_for_room {
        client.waits_for_room = waits;
        let interest = if waits { Interest::ReadWrite } else { Interest::Read };
        registrar.change(&client.transport, token, interest)?;
    }
    Ok(())
}

impl Session for TcpOutgoing {
    fn add_topic(&mut self, now: Nanos, index: u32, first: Sqn) -> TopicId {
        self.session.add_topic_at(now, index, first)
    }

    fn remove_topic(&mut self, topic: TopicId) {
        self.session.remove_topic(topic);
    }

    fn next_sqn(&self, topic: TopicId) -> Option<Sqn> {
        self.session.next_sqn(topic)
    }

    #[inline]
    fn send(&mut self, now: Nanos, topic: TopicId, parts: &[&[u8]]) -> Result<Sqn, SendError> {
        let sqn = self.session.send(now, topic, parts, &mut self.backlog)?;
        self.on_written();
        Ok(sqn)
    }

    fn send_with(
        &mut self,
        now: Nanos,
        topic: TopicId,
        headers: &Chain,
        parts: &[&[u8]],
    ) -> Result<Sqn, SendError> {
        self.session.send_with(now, topic, headers, parts, &mut self.backlog)
    }

    #[inline]
    fn claim(&mut self, now: Nanos, topic: TopicId, len: usize) -> Result<Claim<'_>, SendError> {
        self.on_written();
        self.session.claim(now, topic, len, &mut self.backlog).map(Claim::tcp)
    }

    fn claim_max(&self) -> usize {
        self.session.claim_max()
    }

    fn hold(&mut self, is_held: bool) {
        self.is_held = is_held;
    }

    fn keep_written(&mut self) -> Sqn {
        self.backlog.keep(KEPT_MAX_BYTES);
        Sqn(0)
    }

    fn written(&mut self, _: &mut Sqn, each: impl FnMut(&[u8])) {
        self.backlog.take(each);
    }

    fn sent(&self) -> (u64, Option<SentStatistics>) {
        (self.backlog.written_bytes(), None)
    }

    fn peers(&self, from: usize) -> Box<dyn Iterator<Item = (usize, Peer)> + '_> {
        Box::new(self.clients_from(from))
    }

    fn peer_count(&self) -> usize {
        self.clients_from(0).count()
    }

    fn is_blocked(&self) -> bool {
        self.backlog.is_blocked()
    }

    /// Its sockets are looked at in each turn anyway.
    fn flush_due(&self) -> Nanos {
        Nanos::ZERO
    }

    fn next_wakeup(&self) -> Nanos {
        if !self.events.is_empty() {
            return Nanos::ZERO;
        }
        self.session.next_wakeup().min(self.guests.next_wakeup()).min(self.door.next_wakeup())
    }

    fn transmit(&mut self, _: &mut Base, _: Nanos) {
        self.offer_all();
    }

    #[inline]
    fn flush(&mut self, _: &mut Base, _: Nanos) {
        self.offer_new();
    }

    fn end(&mut self, _: &mut Base, _: Nanos) {
        self.say_end();
    }

    fn on_wakeup(&mut self, _: &mut Base, now: Nanos) {
        self.session.on_wakeup(now, &mut self.backlog);
        self.door.on_wakeup(now, &self.registrar);
        self.look_after_guests(now);
        if !self.is_held {
            self.offer_new();
        }
    }

    fn on_ready(&mut self, base: &mut Base, _: Nanos) -> bool {
        self.accept(base);
        false
    }

    fn on_client_ready(&mut self, client: usize, ready: Ready) {
        self.serve_client(client, ready);
    }

    fn look_at_clients(&mut self) {
        self.serve_clients();
    }

    fn ask_receivers(&mut self, query: &Query) -> bool {
        let is_heard = self.clients_from(0).next().is_some();
        let is_open = is_heard && !self.session.has_said_end();
        let is_asked = is_open && ask_receivers(query, &mut self.backlog);
        if is_asked && !self.is_held {
            self.offer_all();
        }
        is_asked
    }

    fn take_answers(&mut self, mut each: impl FnMut(Answer, Option<SocketAddr>)) {
        self.answers.drain(..).for_each(|(from, answer)| each(answer, Some(from)));
    }

    fn take_events(&mut self, base: &mut Base) -> Vec<SourceEvent> {
        self.refused.drain(..).for_each(|text| base.security.refused(text));
        std::mem::take(&mut self.events)
    }

    fn left(&self) -> (Unsent, u32, bool) {
        let (unsent, receivers) = self.unread();
        (unsent, receivers, false)
    }

    fn take_late_clients(&mut self, base: &mut Base) {
        self.accept(base);
    }

    fn settle(&mut self, _: &mut Base, _: Nanos, _: &Patience) -> bool {
        self.go_on_after_end()
    }
}

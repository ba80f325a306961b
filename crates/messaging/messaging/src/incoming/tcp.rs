//! TCP: a connection for each session.

use std::collections::HashMap;
use std::io;
use std::net::{SocketAddr, SocketAddrV4};

use counters::table::LbttcpReceiver;
use lbt::config::Order;
use lbt::delivery::{DeliverySink, EndReason};
use lbt::error::WireError;
use lbt::ordered::Receiver as OrderedReceiver;
use lbt::presence::Answer;
use lbt::resolution::TransportSession;
use net::tcp::{self, Moved};
use net::tls::is_about_certificates;
use net::{Interest, Transport};
use slab::Slab;
use units::{Nanos, Sqn};

use super::rest::Rest;
use crate::Handler;
use crate::base::Base;
use crate::base::Port;
use crate::error::ContextError;
use crate::recovery::{Recovery, Stirred};
use crate::session::SessionRef;
use crate::stream::{Bridge, Streams};

/// The TCP sessions of a context.
#[derive(Default)]
pub(crate) struct TcpIncoming {
    sessions: Slab<Session>,
    /// What all of them are read into; made with the first.
    buffer: Box<[u8]>,
    by_transport: HashMap<TransportSession, usize>,
    pub(crate) with_recovery: Stirred,
}

/// What a session was that is over.
pub(crate) struct EndedTcp {
    pub(crate) transport: TransportSession,
    pub(crate) was_established: bool,
    pub(crate) was_heard: bool,
}

struct Session {
    transport: TransportSession,
    address: SocketAddrV4,
    number: u64,
    /// Bytes read.
    bytes: u64,
    /// None for a moment, when TLS begins, and when the session is over.
    connection: Option<Transport>,
    is_established: bool,
    /// What TLS waits for beside input.
    waits_for_room: bool,
    /// The poller has let go of it, as the context looks at it in each turn.
    is_unwatched: bool,
    receiver: OrderedReceiver,
    rest: Rest,
    /// Of an answer.
    unsent: Unsent,
    /// Of what was sent before, or passed over, if a source of the session retains it.
    recovery: Option<Box<Recovery>>,
    /// Why it broke, if that was about certificates.
    refused: Option<String>,
    /// The session is over, but something is still asked for.
    ended: Option<EndReason>,
}

/// What the socket has not taken of an answer to the source. It comes before the next one.
#[derive(Default)]
struct Unsent(Vec<u8>);

impl Unsent {
    /// Sends an answer; false if there is no room. The source asks again.
    #[cold]
    fn send(&mut self, answer: Answer, connection: &mut Transport) -> bool {
        let is_new = self.0.is_empty();
        if is_new {
            answer.emit(&mut self.0);
        }
        // A connection that is broken is noticed by who reads it.
        if let Ok(Moved::Bytes(count)) = connection.write(&self.0) {
            self.0.drain(..count);
        } else if is_new {
            self.0.clear();
            return false;
        }
        is_new
    }
}

/// What reading a connection has come to.
enum Progress {
    Nothing,
    Something,
    Over,
}

/// Bytes read with one system call at most; a message that is cut needs less.
const BUFFER_BYTES: usize = 256 << 10;
/// Buffers read from one connection in a turn.
const READS_MAX: usize = 4;

impl TcpIncoming {
    pub(crate) fn subscribe(&mut self, at: usize, index: u32, token: u64, order: Option<Order>) -> bool {
        let session = self.sessions.get_mut(at);
        session.is_some_and(|s| s.receiver.subscribe(index, token, order).is_ok())
    }

    pub(crate) fn put_in_order(&mut self, at: usize, index: u32) -> Option<Sqn> {
        self.sessions.get_mut(at)?.receiver.put_in_order(index)
    }

    pub(crate) fn resume_topic(&mut self, at: usize, index: u32, next: Sqn) {
        if let Some(session) = self.sessions.get_mut(at) {
            session.receiver.resume_topic(index, next);
        }
    }

    pub(crate) fn unsubscribe(&mut self, at: usize, index: u32) {
        if let Some(session) = self.sessions.get_mut(at) {
            session.receiver.unsubscribe(index);
        }
    }

    /// Forgets a session; the connection is closed.
    pub(crate) fn close(&mut self, at: usize) -> Option<TransportSession> {
        let gone = self.sessions.try_remove(at)?;
        self.by_transport.remove(&gone.transport);
        Some(gone.transport)
    }

    pub(crate) fn is_established(&self, at: usize) -> bool {
        self.sessions.get(at).is_some_and(|session| session.is_established)
    }

    /// Bytes that were read of a session.
    pub(crate) fn bytes(&self, at: usize) -> u64 {
        self.sessions.get(at).map_or(0, |session| session.bytes)
    }

    /// See [`lbt::ordered::Receiver::span`].
    pub(crate) fn span(&self, at: usize, topic: u32, first: Sqn) -> Option<u64> {
        self.sessions.get(at)?.receiver.span(topic, first)
    }

    /// Where the recovery of a session is kept.
    pub(crate) fn recovery(&mut self, at: usize) -> Option<&mut Option<Box<Recovery>>> {
        self.sessions.get_mut(at).map(|session| &mut session.recovery)
    }

    /// The recovery of a session, if it has one, with whether the session is over.
    pub(crate) fn state_of_recovery(&self, at: usize) -> Option<(bool, &Recovery)> {
        let session = self.sessions.get(at)?;
        Some((session.ended.is_some(), session.recovery.as_deref()?))
    }

    /// The connections that the poller does not watch, each with its number.
    pub(crate) fn unwatched(&self) -> impl Iterator<Item = (usize, &Transport)> {
        let sessions = self.sessions.iter().filter(|(_, session)| session.is_unwatched);
        sessions.filter_map(|(at, session)| Some((at, session.connection.as_ref()?)))
    }

    pub(crate) fn receives(&self, transport: &TransportSession) -> bool {
        self.by_transport.contains_key(transport)
    }

    /// Whether anything was heard of a session that was opened under a number, and whether its connection is not
    /// made yet; none if it is gone.
    pub(crate) fn has_begun(&self, at: usize, number: u64) -> Option<(bool, bool)> {
        let session =
            self.sessions.get(at).filter(|session| session.number == number && session.ended.is_none())?;
        let is_made =
            session.connection.as_ref().is_some_and(|c| session.is_established && !c.is_handshaking());
        Some((session.receiver.has_begun(), !is_made))
    }

    /// How many sockets there are, at most.
    pub(crate) fn descriptors(&self) -> usize {
        self.sessions.len()
    }

    /// Begins to connect to a session, if it is not received already; its place and its number, which is the `next` one
    /// if it is new.
    pub(crate) fn open(
        &mut self,
        base: &mut Base,
        next: &mut u64,
        transport: TransportSession,
        address: SocketAddrV4,
    ) -> Result<(SessionRef, u64), ContextError> {
        if let Some(&at) = self.by_transport.get(&transport) {
            return Ok((SessionRef::Tcp(at), self.sessions[at].number));
        }
        let seed = base.rng.next_u64();
        let receiver = OrderedReceiver::new(&base.config.delivery(), seed, base.counters.delivery.clone())?;
        let stream = tcp::connect(SocketAddr::V4(address))?;
        base.config.tcp.watch(&stream)?;
        let at = self.sessions.vacant_key();
        base.registrar.add(&stream, base.token(Port::TcpSession, at), Interest::ReadWrite)?;
        if self.buffer.is_empty() {
            self.buffer = vec![0; BUFFER_BYTES].into_boxed_slice();
        }
        *next += 1;
        let number = *next;
        self.sessions.insert(Session {
            transport,
            address,
            number,
            bytes: 0,
            connection: Some(Transport::Plain(stream)),
            is_established: false,
            waits_for_room: true,
            is_unwatched: false,
            receiver,
            rest: Rest::default(),
            unsent: Unsent::default(),
            recovery: None,
            refused: None,
            ended: None,
        });
        self.by_transport.insert(transport, at);
        Ok((SessionRef::Tcp(at), number))
    }

    /// Places, of which some are free.
    pub(crate) fn capacity(&self) -> usize {
        self.sessions.capacity()
    }

    /// Reads what has arrived of a session, once it stands; whether that was anything, and whether it is over.
    pub(crate) fn read(
        &mut self,
        base: &mut Base,
        streams: &mut Streams,
        at: usize,
        handler: &mut impl Handler,
    ) -> (bool, bool) {
        match self.establish_tcp(base, at) {
            Ok(true) => {}
            Ok(false) => return (false, false),
            Err(error) => {
                let refused = count_broken(&base.counters.tcp_receiver, &error);
                if let Some(session) = self.sessions.get_mut(at) {
                    session.refused = refused;
                }
                return (true, true);
            }
        }
        let TcpIncoming { sessions, buffer, with_recovery, .. } = self;
        let Some(session) = sessions.get_mut(at) else { return (false, false) };
        if let Some(recovery) = &mut session.recovery {
            with_recovery.note(at, recovery);
        }
        match session.read(base.now, streams, handler, &base.counters.tcp_receiver, buffer) {
            Progress::Nothing => (false, false),
            Progress::Something => (true, false),
            Progress::Over => (true, true),
        }
    }

    /// A session is over: its streams end, but for what is still asked for of it.
    pub(crate) fn end(
        &mut self,
        base: &mut Base,
        streams: &mut Streams,
        at: usize,
        handler: &mut impl Handler,
    ) -> Option<EndedTcp> {
        let now = base.now;
        let session = self.sessions.get_mut(at)?;
        if let Some(reason) = session.refused.take() {
            base.security.refused(format!("TCP session {}: {reason}", session.transport));
        }
        let reason = if session.receiver.has_ended() { EndReason::Ended } else { EndReason::Broken };
        let mut bridge = Bridge { streams, handler, now };
        session.receiver.on_passed_over();
        match session.recovery.as_deref_mut() {
            None => session.receiver.end(EndReason::Broken, &mut bridge),
            Some(recovery) => {
                let mut tap = recovery.requester.tap(now, &mut bridge);
                session.receiver.end(EndReason::Broken, &mut tap);
            }
        }
        let was_established = session.is_established;
        let (transport, was_heard) = (session.transport, session.receiver.has_begun());
        (session.ended, session.connection, session.is_established) = (Some(reason), None, false);
        Some(EndedTcp { transport, was_established, was_heard })
    }

    /// Why a session is over of which something may still be asked for.
    pub(crate) fn ended(&self, at: usize) -> Option<EndReason> {
        self.sessions.get(at)?.ended
    }
}

impl Session {
    /// Reads until there is nothing more, or enough for a turn.
    #[inline]
    fn read(
        &mut self,
        now: Nanos,
        streams: &mut Streams,
        handler: &mut impl Handler,
        counters: &LbttcpReceiver,
        buffer: &mut [u8],
    ) -> Progress {
        let Some(connection) = &mut self.connection else { return Progress::Nothing };
        let mut progress = Progress::Nothing;
        let mut reads = 0;
        let mut filled = self.rest.len();
        // What TLS holds inside no poller tells of.
        while reads < READS_MAX || connection.may_hold_input() {
            reads += 1;
            let room = &mut buffer[filled..];
            let (count, is_full) = match connection.read(room) {
                Ok(Moved::Bytes(count)) => (count, count == room.len()),
                Ok(Moved::WouldBlock) => break,
                Ok(Moved::End) => {
                    counters.sessions_broken.add((!self.receiver.has_ended()).into());
                    return Progress::Over;
                }
                Err(error) => {
                    if !self.receiver.has_ended() {
                        self.refused = count_broken(counters, &error);
                    }
                    return Progress::Over;
                }
            };
            progress = Progress::Something;
            counters.bytes_rcved.add(count as u64);
            self.bytes += count as u64;
            if !self.rest.is_empty() {
                self.rest.put_before(buffer);
            }
            filled += count;
            let mut bridge = Bridge { streams, handler, now };
            let bytes = &buffer[..filled];
            match take(&mut self.receiver, self.recovery.as_deref_mut(), now, bytes, &mut bridge) {
                Ok(taken) => {
                    if taken < filled {
                        buffer.copy_within(taken..filled, 0);
                    }
                    filled -= taken;
                }
                Err(_) => {
                    counters.sessions_malformed.inc();
                    return Progress::Over;
                }
            }
            if self.receiver.has_ended() {
                return Progress::Over;
            }
            if let Some(answer) = self.receiver.answer(now) {
                let is_sent = self.unsent.send(answer, connection);
                counters.queries_answered.add(is_sent.into());
            }
            if !is_full && !connection.may_hold_input() {
                break;
            }
        }
        if self.rest.is_empty() {
            self.rest.keep(&buffer[..filled]);
        }
        progress
    }
}

/// Counts a session that broke; why, if that was about certificates.
#[cold]
fn count_broken(counters: &LbttcpReceiver, error: &io::Error) -> Option<String> {
    counters.sessions_broken.inc();
    is_about_certificates(error).then(|| {
        counters.certificate_failures.inc();
        error.to_string()
    })
}

/// Hands bytes of a session on, past what is recovered if anything is.
#[inline]
fn take<S: DeliverySink>(
    receiver: &mut OrderedReceiver,
    recovery: Option<&mut Recovery>,
    now: Nanos,
    bytes: &[u8],
    sink: &mut S,
) -> Result<usize, WireError> {
    match recovery {
        None => receiver.on_bytes(bytes, sink),
        Some(recovery) => receiver.on_bytes(bytes, &mut recovery.requester.tap(now, sink)),
    }
}

impl TcpIncoming {
    /// Whether the connection stands; begins TLS when it does, if it is wanted.
    #[inline]
    fn establish_tcp(&mut self, base: &mut Base, at: usize) -> io::Result<bool> {
        let Some(session) = self.sessions.get(at) else { return Ok(false) };
        if session.is_established && !session.waits_for_room {
            return Ok(true);
        }
        self.settle_tcp(base, at)
    }

    #[cold]
    fn settle_tcp(&mut self, base: &mut Base, at: usize) -> io::Result<bool> {
        let token = base.token(Port::TcpSession, at);
        let session = &mut self.sessions[at];
        if !session.is_established {
            let Some(Transport::Plain(stream)) = &session.connection else { return Ok(false) };
            if !tcp::connected(stream)? {
                return Ok(false);
            }
            // A port that nobody listens on, of this host, may connect to itself.
            if stream.local_addr()? == stream.peer_addr()? {
                return Err(io::ErrorKind::ConnectionRefused.into());
            }
            session.is_established = true;
            tcp::delay_acknowledgements(stream)?;
            if let Some(recovery) = &mut session.recovery {
                recovery.on_established();
                self.with_recovery.note(at, recovery);
            }
            if let Some(tls) = &base.tls.client
                && let Some(Transport::Plain(stream)) = session.connection.take()
            {
                let host = session.address.ip().to_string();
                session.connection = Some(tls.connect(stream, &host).map_err(io::Error::other)?);
            }
        }
        let Some(connection) = &mut session.connection else { return Ok(false) };
        connection.flush()?;
        session.waits_for_room = connection.waits_for_room(false);
        if !session.waits_for_room && !base.watches_data {
            session.is_unwatched = true;
            base.registrar.remove(&*connection)?;
            return Ok(true);
        }
        let interest = if session.waits_for_room { Interest::ReadWrite } else { Interest::Read };
        base.registrar.change(&*connection, token, interest)?;
        Ok(true)
    }
}

//! TCP: the source listens, receivers connect, the stream is the session.

mod closing;
mod guests;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use counters::table::LbttcpSource;
use lbt::ordered::{Backlog, Cursor, Kept, Room, Source};
use lbt::resolution::TransportSession;
use net::tcp::{self, Moved};
use net::tls::is_about_certificates;
use net::{Door, Interest, Ready, Registrar, Token, Transport};
use slab::Slab;
use units::Nanos;

use super::{Binding, Outgoing, OutgoingKind};
use crate::base::Base;
use crate::config::ReceiverBehavior;
use crate::publishing::Publishing;
use guests::{Guests, Stall};

use crate::base::{Port, first_free};
use crate::error::ContextError;
use crate::event::SourceEvent;
use crate::statistics::Peer;

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
}

/// Bytes that make it worth a system call though nobody has flushed.
const WRITE_MIN: u64 = 64 << 10;
/// Connections taken, and buffers read from one, in a turn.
const ACCEPTS_MAX: usize = 64;
const READS_MAX: usize = 4;
/// Clients of a session in the index of a token, above them the session.
pub(super) const CLIENT_BITS: u32 = 16;

impl Publishing {
    pub(super) fn open_tcp_outgoing(
        &mut self,
        base: &mut Base,
        at: usize,
        index: u32,
        Binding { low, high, session_id, .. }: Binding,
    ) -> Result<Outgoing, ContextError> {
        let config = &base.config;
        let listener = first_free(base.interface, low..=high, tcp::listen)?;
        let SocketAddr::V4(address) = listener.local_addr()? else {
            return Err(io::Error::other("a listener bound to an IPv4 address has another").into());
        };
        let options = config.tcp_source();
        let buffer = config.transport_tcp_session_maximum_buffer_bytes as usize;
        let session_id = session_id.unwrap_or_else(|| base.rng.next_u32().max(1));
        let door = Door::open(listener, &base.registrar, base.token(Port::Outgoing, at))?;
        let kind = TcpOutgoing {
            door,
            session_id,
            session: Source::new(&options, base.counters.lbm_source.clone())?,
            backlog: Kept::new(Backlog::new(buffer, options.maximum_message_size as usize)),
            is_held: false,
            clients: Slab::new(),
            guests: Guests::new(config),
            is_source_paced: config.transport_tcp_multiple_receiver_behavior == ReceiverBehavior::SourcePaced,
            offered: 0,
            events: Vec::new(),
            refused: Vec::new(),
            registrar: base.registrar.clone(),
            token: base.token(Port::TcpClient, at << CLIENT_BITS),
            counters: base.counters.tcp_source.clone(),
        };
        let transport = TransportSession::Tcp { address, session_id: Some(session_id) };
        Ok(Outgoing::new(transport, OutgoingKind::Tcp(Box::new(kind)), index))
    }

    /// Takes receivers that have connected.
    pub(super) fn accept_tcp(&mut self, base: &mut Base, at: usize) {
        let now = base.now;
        let Some(Outgoing { kind: OutgoingKind::Tcp(session), .. }) = self.outgoing.get_mut(at) else {
            return;
        };
        for _ in 0..ACCEPTS_MAX {
            let (stream, peer) = match session.door.accept(now, &base.registrar) {
                Ok(Some(accepted)) => accepted,
                Ok(None) => return,
                Err(_) => return session.counters.accepts_failed.inc(),
            };
            if !base.config.admits_client(peer) {
                session.counters.clients_not_allowed.inc();
                continue;
            }
            let watched = base.config.watch_tcp(&stream);
            let transport = watched.and_then(|()| match &base.tls.server {
                Some(tls) => tls.accept(stream),
                None => Ok(Transport::Plain(stream)),
            });
            let added = transport.and_then(|transport| session.admit(now, transport, peer));
            if added.is_err() {
                session.counters.clients_refused.inc();
            }
        }
    }
}

impl TcpOutgoing {
    /// Those that have come through their handshake.
    pub(super) fn peers(&self, from: usize) -> impl Iterator<Item = (usize, Peer)> + '_ {
        (from..self.clients.capacity()).filter_map(|at| {
            let client = self.clients.get(at)?;
            let waiting_bytes = self.backlog.pending(client.cursor.as_ref()?);
            Some((at, Peer { bytes: Some(client.taken), waiting_bytes, ..Peer::at(client.peer) }))
        })
    }

    fn client_token(&self, index: usize) -> Token {
        Token(self.token.0 | index as u64)
    }

    /// A receiver's socket has room, or something to read: the end of the connection, or of a handshake.
    pub(super) fn on_client_ready(&mut self, index: usize, ready: Ready) {
        let Some(client) = self.clients.get_mut(index) else { return };
        let mut ignored = [0; 4096];
        let mut reads = 0;
        while ready.readable && reads < READS_MAX || client.transport.may_hold_input() {
            reads += 1;
            match client.transport.read(&mut ignored) {
                // Receivers have nothing to say.
                Ok(Moved::Bytes(_)) => {}
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

    /// Gives every receiver what it has not been given.
    pub(super) fn transmit(&mut self) {
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
    pub(super) fn flush(&mut self) {
        if self.backlog.waiting_bytes() != self.offered {
            self.transmit();
        }
    }

    /// After a message was written: whether so much waits that it should not wait for a flush.
    #[inline]
    pub(super) fn on_written(&mut self) {
        if self.backlog.waiting_bytes() >= self.offered + WRITE_MIN {
            self.transmit();
        }
    }

    fn release(&mut self) {
        self.backlog.release(self.clients.iter().filter_map(|(_, c)| c.cursor.as_ref()));
        self.counters.bytes_buffered.set(self.backlog.waiting_bytes());
        self.offered = self.offered.min(self.backlog.waiting_bytes());
    }

    pub(super) fn on_wakeup(&mut self, now: Nanos) {
        self.session.on_wakeup(now, &mut self.backlog);
        self.door.on_wakeup(now, &self.registrar);
        self.look_after_guests(now);
        if !self.is_held {
            self.flush();
        }
    }

    pub(super) fn next_wakeup(&self) -> Nanos {
        if !self.events.is_empty() {
            return Nanos::ZERO;
        }
        self.session.next_wakeup().min(self.guests.next_wakeup()).min(self.door.next_wakeup())
    }

    pub(super) fn end(&mut self) {
        self.session.end(&mut self.backlog);
        self.transmit();
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

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use connection::{Disconnect, Ladder, LadderConfig, QueueAge, Step};
use net::tcp::Moved;
use net::{Interest, Registrar, Token, Transport};
use units::Nanos;

use super::protocol::{Endpoint, Protocol};
use crate::{ConnectionId, ConnectionInfo, Entry};

/// One connection: its socket, encrypted or not, and the protocol's end of it.
pub(crate) struct Connection<E> {
    pub(crate) transport: Transport,
    pub(crate) endpoint: E,
    pub(crate) peer: SocketAddr,
    /// When it has to have logged in.
    pub(crate) login_until: Nanos,
    /// What the poller was told: read, write.
    interest: (bool, bool),
    /// The socket has taken bytes that it had no room for before, since [`Connection::lives_unheard`] was asked last.
    has_taken: bool,
    /// The service has been told of the connection.
    pub(crate) is_announced: bool,
    /// The service wants it closed, after what it was sent before.
    pub(crate) is_unwanted: bool,
    /// The socket is broken, or the peer has ended the connection: there is nothing to be closed in order.
    pub(crate) is_over: bool,
    /// The service is busy with it: nothing is read from it.
    pub(crate) is_held: bool,
    /// What was read from it before that and is not handled yet.
    pub(crate) held_input: Vec<u8>,
    /// The bytes of its backlog that are in the sum of all backlogs.
    pub(crate) counted_backlog: usize,
    /// It did not keep up when its backlog was looked at last.
    pub(crate) lags: bool,
    /// How it is served.
    ladder: Ladder,
    /// How long its backlog has waited.
    age: QueueAge,
}

/// What is written with one system call at most: more gains nothing, and this much stays in a core's cache.
pub const WRITE_BYTES: usize = 64 << 10;

impl<E: Endpoint> Connection<E> {
    pub(crate) fn new(transport: Transport, endpoint: E, peer: SocketAddr) -> Connection<E> {
        Connection {
            transport,
            endpoint,
            peer,
            login_until: Nanos::NEVER,
            interest: (true, false),
            has_taken: false,
            is_announced: false,
            is_unwanted: false,
            is_over: false,
            is_held: false,
            held_input: Vec::new(),
            counted_backlog: 0,
            lags: false,
            ladder: Ladder::default(),
            age: QueueAge::default(),
        }
    }

    /// What a status page shows of it; `id` is its place in the listener's table.
    pub(crate) fn info(&mut self, id: ConnectionId) -> ConnectionInfo {
        ConnectionInfo {
            connection: id,
            peer: self.peer,
            backlog: self.endpoint.backlog(),
            memory_bytes: self.endpoint.memory_bytes() + self.held_input.capacity(),
            traffic: self.endpoint.traffic(),
            tls_version: self.transport.tls_version(),
            has_client_certificate: self.transport.has_peer_certificate(),
        }
    }

    /// Frames the messages noted for this connection and writes them. What the socket does not take stays in
    /// the backlog.
    pub(crate) fn write_entries<P: Protocol<Endpoint = E>>(
        &mut self,
        protocol: &mut P,
        log: &[u8],
        entries: &mut Vec<Entry>,
        scratch: &mut Vec<u8>,
    ) -> Result<(), E::Reason> {
        let mut rest = entries.as_slice();
        let mut result = Ok(());
        while !rest.is_empty() && result.is_ok() {
            scratch.clear();
            result = protocol
                .frame(&mut self.endpoint, log, &mut rest, scratch)
                .and_then(|()| self.write_frames(scratch));
        }
        entries.clear();
        result
    }

    /// Writes frames behind what waits already.
    fn write_frames(&mut self, frames: &[u8]) -> Result<(), E::Reason> {
        self.write_backlog()?;
        let mut written = 0;
        if self.endpoint.pending().is_empty() {
            written = match self.transport.write(frames) {
                Ok(Moved::Bytes(count)) => count,
                Ok(Moved::WouldBlock) => 0,
                Ok(Moved::End) => return Err(self.ended()),
                Err(_) => return Err(self.broken()),
            };
        }
        self.endpoint.keep(frames, written)
    }

    /// Writes what waits in the backlog as far as the socket takes it.
    pub(crate) fn write_backlog(&mut self) -> Result<(), E::Reason> {
        loop {
            let pending = self.endpoint.pending();
            if pending.is_empty() {
                return self.transport.flush().map(|_| ()).map_err(|_| self.broken());
            }
            match self.transport.write(pending) {
                Ok(Moved::Bytes(count)) => {
                    // What goes straight into the socket tells nothing: the system takes it for who is stopped, too.
                    let (_, waited_for_room) = self.interest;
                    self.has_taken |= waited_for_room;
                    self.endpoint.consume(count);
                    self.age.take(count);
                }
                Ok(Moved::WouldBlock) => return Ok(()),
                Ok(Moved::End) => return Err(self.ended()),
                Err(_) => return Err(self.broken()),
            }
        }
    }

    /// Whether the peer is known to live though nothing is heard of it: it takes what waits for it, and answers late
    /// what waits behind that; or nothing is read from it, which is not its fault.
    pub(crate) fn lives_unheard(&mut self, is_paused: bool) -> bool {
        let (is_read, _) = self.interest;
        std::mem::take(&mut self.has_taken) || !is_read && (is_paused || self.is_held)
    }

    pub(crate) fn ended(&mut self) -> E::Reason {
        self.is_over = true;
        self.endpoint.on_disconnected(Disconnect::EndOfStream)
    }

    pub(crate) fn broken(&mut self) -> E::Reason {
        self.is_over = true;
        self.endpoint.on_disconnected(Disconnect::SocketError)
    }

    /// Tells the poller what this connection waits for: input unless much waits for its socket, room if
    /// something does. Whether it keeps up again, which it did not when this was called last.
    pub(crate) fn update_interest(
        &mut self,
        registrar: &Registrar,
        token: Token,
        is_paused: bool,
        all_backlogs: &mut usize,
    ) -> io::Result<bool> {
        let backlog = self.endpoint.backlog();
        *all_backlogs = *all_backlogs - self.counted_backlog + backlog.depth_bytes;
        self.counted_backlog = backlog.depth_bytes;
        let keeps_up = backlog.keeps_up();
        let catches_up = keeps_up && self.lags;
        self.lags = !keeps_up;
        let wants =
            (keeps_up && !is_paused && !self.is_held, self.transport.waits_for_room(backlog.depth_bytes > 0));
        if wants != self.interest {
            self.interest = wants;
            let interest = match wants {
                (true, false) => Interest::Read,
                (true, true) => Interest::ReadWrite,
                (false, true) => Interest::Write,
                (false, false) => Interest::Nothing,
            };
            registrar.change(&self.transport, token, interest)?;
        }
        Ok(catches_up)
    }

    /// How it is served from now on, by the backlog as [`Connection::update_interest`] has found it, if that is a
    /// change; and how long the oldest byte has waited.
    #[inline]
    pub(crate) fn climb(&mut self, now: Nanos, config: &LadderConfig) -> Option<(Step, Duration)> {
        if self.counted_backlog == 0 && self.age.is_empty() && self.ladder.step() == Step::Tick {
            return None;
        }
        let oldest = self.age.observe(now, self.counted_backlog);
        let before = self.ladder.step();
        let step = self.ladder.observe(now, config, self.counted_backlog, oldest);
        (step != before).then_some((step, oldest))
    }

    /// Whether what can wait had better come later: more waits already than is good for a client in its step.
    #[inline]
    pub(crate) fn is_behind(&self, config: Option<&LadderConfig>) -> bool {
        let is_full = |config: &LadderConfig| self.counted_backlog > config.room_bytes;
        self.lags || (self.ladder.step() == Step::Conflated && config.is_some_and(is_full))
    }

    /// Ends the connection from this side, after one attempt to write what waits.
    pub(crate) fn stop(&mut self) -> E::Reason {
        let reason = self.endpoint.stop();
        // It is given up either way; the first reason stays.
        let _ = self.write_backlog();
        reason
    }
}

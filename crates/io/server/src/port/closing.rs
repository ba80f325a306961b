//! Connections that this side has ended, until the peer has ended them too.
//!
//! A socket that is closed while input is unread answers with a reset, which can destroy the last bytes on their way
//! and which the SDKs log as an error. So the last bytes are written, then the end of the stream, and what still comes
//! is read and dropped until the peer ends: for [`DRAIN_TIME`] and [`DRAIN_BYTES`] at most, of [`CLOSINGS_MAX`]
//! connections at a time. While a port is moved away from, all that waits for a connection is written, within a time
//! of its own, and no number bounds how many are ended (`interop/system/test_shutdown.py`: `test_a_logout_is_answered_with_the_end_of_the_stream`).

use std::time::Duration;

use net::tcp::Moved;
use net::{Interest, Ready, Registrar, Token, Transport};
use slab::Slab;
use units::Nanos;

use super::connection::Connection;
use super::limits::CHECK_INTERVAL;
use super::protocol::Endpoint;

/// How long a peer has to end its side.
const DRAIN_TIME: Duration = Duration::from_secs(2);
/// What is read and dropped of a peer meanwhile.
const DRAIN_BYTES: usize = 1 << 20;
/// What is still written of a connection's backlog; who has not taken more than that is closed without it.
const KEPT_BYTES: usize = 64 << 10;
/// Most connections that are ended in order at a time; further ones are closed at once.
const CLOSINGS_MAX: usize = 1024;
/// Reads of one connection in one turn.
const READS_MAX: usize = 8;

/// In tokens: the place is one of these, not of the table of connections.
pub(crate) const CLOSING_BIT: u64 = 1 << 31;

/// The connections that are being closed.
pub(crate) struct Closings {
    registrar: Registrar,
    token_base: u64,
    closings: Slab<Closing>,
    check_at: Nanos,
    /// The whole port ends: what waits for its connections is written until then.
    ends_at: Option<Nanos>,
    /// The port's connections are moved on: each has so long to take what waits for it.
    patience: Option<Duration>,
}

struct Closing {
    transport: Transport,
    /// What waited for its socket: kept by itself, for an endpoint with its histories of compression is larger.
    pending: Vec<u8>,
    written_bytes: usize,
    until: Nanos,
    dropped_bytes: usize,
    /// What the poller was told: read, write.
    interest: (bool, bool),
    /// The end of the stream is sent.
    output_ended: bool,
    peer_ended: bool,
}

impl Closings {
    /// None yet; their descriptors get tokens from `token_base` on, with [`CLOSING_BIT`].
    pub(crate) fn new(registrar: &Registrar, token_base: u64) -> Closings {
        let registrar = registrar.clone();
        let token_base = token_base + CLOSING_BIT;
        let (closings, check_at) = (Slab::new(), Nanos::NEVER);
        Closings { registrar, token_base, closings, check_at, ends_at: None, patience: None }
    }

    /// From now on all that waits for a connection is written, until `until`, and no number bounds how many.
    pub(crate) fn end_at(&mut self, until: Nanos) {
        self.ends_at = Some(until);
    }

    /// From now on, until it is called with `None`, all that waits for a connection is written, for so long but not less
    /// than a peer has to end its side.
    pub(crate) fn set_patience(&mut self, patience: Option<Duration>) {
        self.patience = patience.map(|patience| patience.max(DRAIN_TIME));
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.closings.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.closings.is_empty()
    }

    pub(crate) fn next_wakeup(&self) -> Nanos {
        if self.closings.is_empty() { Nanos::NEVER } else { self.check_at }
    }

    /// Takes over a connection that this side has ended; one that is broken, or that the peer has ended, is closed
    /// here and now.
    pub(crate) fn take<E: Endpoint>(&mut self, now: Nanos, mut ended: Connection<E>, buffer: &mut [u8]) {
        // Their number is that of the port's connections then.
        let is_bounded = self.ends_at.is_none() && self.patience.is_none();
        let is_full = is_bounded && self.closings.len() >= CLOSINGS_MAX;
        let is_cut = is_bounded && ended.endpoint.backlog().depth_bytes > KEPT_BYTES;
        if ended.is_over || is_full || is_cut {
            return;
        }
        let mut pending = Vec::new();
        loop {
            let next = ended.endpoint.pending();
            let count = next.len();
            if count == 0 {
                break;
            }
            pending.extend_from_slice(next);
            ended.endpoint.consume(count);
        }
        let entry = self.closings.vacant_entry();
        let place = entry.key();
        let until = self.ends_at.unwrap_or(now + self.patience.unwrap_or(DRAIN_TIME));
        entry.insert(Closing {
            transport: ended.transport,
            pending,
            written_bytes: 0,
            until,
            dropped_bytes: 0,
            interest: (false, false),
            output_ended: false,
            peer_ended: false,
        });
        self.check_at = self.check_at.min(now + CHECK_INTERVAL);
        self.advance(place, buffer);
    }

    /// One of them is ready.
    pub(crate) fn on_ready(&mut self, ready: Ready, buffer: &mut [u8]) {
        let place = (ready.token.0 - self.token_base) as usize;
        if self.closings.contains(place) {
            self.advance(place, buffer);
        }
    }

    /// Closes those whose time is over.
    pub(crate) fn on_wakeup(&mut self, now: Nanos) {
        if now < self.check_at {
            return;
        }
        self.closings.retain(|_, closing| now < closing.until);
        self.check_at = if self.closings.is_empty() { Nanos::NEVER } else { now + CHECK_INTERVAL };
    }

    fn advance(&mut self, place: usize, buffer: &mut [u8]) {
        let closing = &mut self.closings[place];
        let token = Token(self.token_base + place as u64);
        let goes_on = closing.advance(buffer) && closing.wait(&self.registrar, token);
        if !goes_on {
            self.closings.remove(place);
        }
    }
}

impl Closing {
    /// Writes, ends the output, reads; tells whether there is more to wait for.
    fn advance(&mut self, buffer: &mut [u8]) -> bool {
        if !self.output_ended && self.write().is_none() {
            return false;
        }
        for _ in 0..READS_MAX {
            if self.peer_ended {
                break;
            }
            match self.transport.read(buffer) {
                Ok(Moved::Bytes(count)) => self.dropped_bytes += count,
                Ok(Moved::WouldBlock) => break,
                Ok(Moved::End) => self.peer_ended = true,
                Err(_) => return false,
            }
        }
        self.dropped_bytes <= DRAIN_BYTES && !(self.peer_ended && self.output_ended)
    }

    /// `None`: the connection is broken.
    fn write(&mut self) -> Option<()> {
        while self.written_bytes < self.pending.len() {
            match self.transport.write(&self.pending[self.written_bytes..]) {
                Ok(Moved::Bytes(count)) => self.written_bytes += count,
                Ok(Moved::WouldBlock) => return Some(()),
                Ok(Moved::End) | Err(_) => return None,
            }
        }
        self.output_ended = self.transport.end_output().ok()?;
        Some(())
    }

    /// Tells the poller what is waited for.
    fn wait(&mut self, registrar: &Registrar, token: Token) -> bool {
        let wants = (!self.peer_ended, !self.output_ended);
        let interest = match wants {
            (true, false) => Interest::Read,
            (true, true) => Interest::ReadWrite,
            (false, true) => Interest::Write,
            (false, false) => Interest::Nothing,
        };
        let is_known = wants == self.interest;
        self.interest = wants;
        is_known || registrar.change(&self.transport, token, interest).is_ok()
    }
}

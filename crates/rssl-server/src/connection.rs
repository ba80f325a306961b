use std::io;
use std::net::{SocketAddr, TcpStream};

use net::tcp::{self, Moved};
use net::{Interest, Registrar, Token};
use rssl::{CloseReason, Disconnect, ServerConnection, Stop};
use units::Nanos;

use crate::outbox::{Entry, STREAM_ID_AT};

/// One connection and its socket.
pub(crate) struct Connection {
    pub(crate) stream: TcpStream,
    pub(crate) rssl: ServerConnection,
    pub(crate) peer: SocketAddr,
    /// When it has to have logged in.
    pub(crate) login_until: Nanos,
    /// What the poller was told: read, write.
    interest: (bool, bool),
    /// The socket has taken bytes since [`Connection::lives_unread`] was asked last.
    has_taken: bool,
    /// The service has been told of the connection.
    pub(crate) is_announced: bool,
    /// The service wants it closed, after what it was sent before.
    pub(crate) is_unwanted: bool,
}

/// What is written with one system call at most: more gains nothing, and this much stays in a core's cache.
const WRITE_BYTES: usize = 64 << 10;

impl Connection {
    pub(crate) fn new(stream: TcpStream, rssl: ServerConnection, peer: SocketAddr) -> Connection {
        Connection {
            stream,
            rssl,
            peer,
            login_until: Nanos::NEVER,
            interest: (true, false),
            has_taken: false,
            is_announced: false,
            is_unwanted: false,
        }
    }

    /// Frames the messages noted for this connection and writes them. What the socket does not take stays in
    /// the backlog.
    pub(crate) fn write_entries(
        &mut self,
        log: &[u8],
        entries: &mut Vec<Entry>,
        scratch: &mut Vec<u8>,
    ) -> Result<(), CloseReason> {
        let mut rest = entries.as_slice();
        let mut result = Ok(());
        while !rest.is_empty() && result.is_ok() {
            scratch.clear();
            result = self.frame_some(log, &mut rest, scratch).and_then(|()| self.write_frames(scratch));
        }
        entries.clear();
        result
    }

    /// Frames as many messages as one write takes.
    #[inline]
    fn frame_some(
        &mut self,
        log: &[u8],
        rest: &mut &[Entry],
        scratch: &mut Vec<u8>,
    ) -> Result<(), CloseReason> {
        let mut batch = self.rssl.outbound().batch(scratch);
        while let Some((entry, following)) = rest.split_first()
            && batch.len() < WRITE_BYTES
        {
            let message = &log[entry.at as usize..][..entry.len as usize];
            match batch.push(message) {
                Ok(copy) => {
                    if let Some(id) = copy.get_mut(STREAM_ID_AT..).and_then(<[u8]>::first_chunk_mut) {
                        *id = entry.stream_id.to_be_bytes();
                    }
                }
                Err(misuse) => {
                    drop(batch);
                    return Err(self.rssl.stop(Stop::Misuse(misuse)));
                }
            }
            *rest = following;
        }
        Ok(())
    }

    /// Writes frames behind what waits already.
    fn write_frames(&mut self, frames: &[u8]) -> Result<(), CloseReason> {
        self.write_backlog()?;
        let mut written = 0;
        if self.rssl.outbound().pending().is_empty() {
            written = match tcp::write(&self.stream, frames) {
                Ok(Moved::Bytes(count)) => count,
                Ok(Moved::WouldBlock) => 0,
                Ok(Moved::End) => return Err(self.rssl.on_disconnected(Disconnect::EndOfStream)),
                Err(_) => return Err(self.broken()),
            };
        }
        self.rssl.outbound().keep(frames, written).map_err(|e| self.rssl.stop(e.into()))
    }

    /// Writes what waits in the backlog as far as the socket takes it.
    pub(crate) fn write_backlog(&mut self) -> Result<(), CloseReason> {
        loop {
            let pending = self.rssl.outbound().flush();
            if pending.is_empty() {
                return Ok(());
            }
            match tcp::write(&self.stream, pending) {
                Ok(Moved::Bytes(count)) => {
                    self.has_taken = true;
                    self.rssl.outbound().consume(count);
                }
                Ok(Moved::WouldBlock) => return Ok(()),
                Ok(Moved::End) => return Err(self.rssl.on_disconnected(Disconnect::EndOfStream)),
                Err(_) => return Err(self.broken()),
            }
        }
    }

    #[cfg(test)]
    pub(crate) fn interest_is_read(&self) -> bool {
        self.interest.0
    }

    /// Whether nothing is read from the peer, so that its pings are not seen, and it is known to live all the same: because it
    /// is not its fault, or because it still takes what is sent.
    pub(crate) fn lives_unread(&mut self, is_paused: bool) -> bool {
        let (is_read, _) = self.interest;
        let has_taken = std::mem::take(&mut self.has_taken);
        !is_read && (is_paused || has_taken)
    }

    pub(crate) fn broken(&mut self) -> CloseReason {
        self.rssl.on_disconnected(Disconnect::SocketError)
    }

    /// Tells the poller what this connection waits for: input unless much waits for its socket, room if
    /// something does.
    pub(crate) fn update_interest(
        &mut self,
        registrar: &Registrar,
        token: Token,
        is_paused: bool,
    ) -> io::Result<()> {
        let depth = self.rssl.outbound().depth_bytes();
        let keeps_up = depth < self.rssl.outbound().limit_bytes() / READ_PAUSE_PART;
        let wants = (keeps_up && !is_paused, depth > 0);
        if wants != self.interest {
            self.interest = wants;
            let interest = match wants {
                (true, false) => Interest::Read,
                (true, true) => Interest::ReadWrite,
                (false, true) => Interest::Write,
                (false, false) => Interest::Nothing,
            };
            registrar.change(&self.stream, token, interest)?;
        }
        Ok(())
    }

    /// Ends the connection from this side, after one attempt to write what waits.
    pub(crate) fn stop(&mut self, stop: Stop) -> CloseReason {
        let reason = self.rssl.stop(stop);
        // It is given up either way; the first reason stays.
        let _ = self.write_backlog();
        reason
    }
}

/// Nothing is read from a connection whose backlog is above this part of its limit: its answers come first.
const READ_PAUSE_PART: usize = 8;

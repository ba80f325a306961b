use std::ops::Deref;
use std::sync::Arc;

use connection::{Memory, Output, SendBuffer};
use counters::Flow;
use counters::table::WebSocketConnections;
use units::Rng;

use crate::frame::{CONTROL_BYTES_MAX, HEAD_BYTES_MAX, Head, Opcode, append_masked};
use crate::{Message, Stop, close_code};

/// The way out of a connection: messages become frames, frames wait for the socket.
///
/// After each input to a connection the driver writes what [`Outbound::pending`] returns and tells with
/// [`Outbound::consume`] how much the socket took. What is left is the backlog; it is bounded, and at the
/// bound writes fail with [`Stop::SlowConsumer`].
///
/// A server's frames are not masked and the same for every peer, so that who serves many connections makes
/// them in a buffer of its own (see [`OpenFrame`](crate::frame::OpenFrame)), writes it, and gives what the
/// socket did not take to [`Outbound::keep`].
///
/// How much waits, and what has gone out, are told by the [`SendBuffer`] that it derefs to.
#[derive(Debug)]
pub struct Outbound {
    buffer: SendBuffer<WebSocketConnections>,
    /// Draws the masks of a client's frames; a server has none.
    masks: Option<Rng>,
    is_open: bool,
    is_compressing: bool,
    /// A message was sent since the beginning.
    has_spoken: bool,
}

impl Outbound {
    pub(crate) fn new(
        limit_bytes: usize,
        masks: Option<Rng>,
        counters: Arc<WebSocketConnections>,
    ) -> Outbound {
        Outbound {
            buffer: SendBuffer::new(limit_bytes, counters),
            masks,
            is_open: false,
            is_compressing: false,
            has_spoken: false,
        }
    }

    /// Appends a message to the backlog, uncompressed.
    ///
    /// # Errors
    /// [`Stop::SlowConsumer`] if the backlog has no room for it, [`Stop::NotConnected`] before the upgrade is
    /// complete or after the end. Nothing was appended.
    pub fn push(&mut self, message: Message<'_>) -> Result<(), Stop> {
        if !self.is_open {
            return Err(Stop::NotConnected);
        }
        let (opcode, payload) = match message {
            Message::Text(text) => (Opcode::Text, text.as_bytes()),
            Message::Binary(bytes) => (Opcode::Binary, bytes),
        };
        self.push_frame(opcode, payload)?;
        self.has_spoken = true;
        self.buffer.flow_mut().messages += 1;
        self.counters().messages_out.inc();
        Ok(())
    }

    /// Whether messages may be compressed for this peer.
    #[must_use]
    pub fn is_compressing(&self) -> bool {
        self.is_compressing
    }

    /// Takes over frames of messages of which the socket has already taken the first `written_bytes`; the
    /// rest goes to the end of the backlog. If anything was pending before, nothing of them may have been
    /// written.
    ///
    /// # Errors
    /// [`Stop::SlowConsumer`] if the rest does not fit: the stream then has a hole and the connection must be
    /// closed.
    ///
    /// # Panics
    /// If `written_bytes` is more than there are.
    pub fn keep(&mut self, frames: &[u8], written_bytes: usize) -> Result<(), Stop> {
        let rest = &frames[written_bytes..];
        self.buffer.count_taken(written_bytes);
        self.buffer.note_written();
        self.has_spoken = true;
        if rest.is_empty() {
            return Ok(());
        }
        Ok(self.buffer.append(rest)?)
    }

    /// Counts messages that were written to frames elsewhere, and given to [`Outbound::keep`]; the bytes of
    /// the connection are counted there.
    pub fn count_framed(&mut self, written: Flow) {
        *self.buffer.flow_mut() += written;
        self.counters().frames_out.add(written.frames);
        self.counters().messages_out.add(written.messages);
    }

    /// What waits for the socket.
    #[must_use]
    pub fn pending(&self) -> &[u8] {
        self.buffer.pending()
    }

    /// Takes the first `count_bytes` of [`Outbound::pending`] away: the socket has accepted them.
    ///
    /// # Panics
    /// If that is more than is pending.
    pub fn consume(&mut self, count_bytes: usize) {
        self.buffer.consume(count_bytes);
    }

    /// The upgrade is complete: messages may be pushed.
    pub(crate) fn open(&mut self, is_compressing: bool) {
        self.is_open = true;
        self.is_compressing = is_compressing;
    }

    /// Appends a head of the upgrade.
    pub(crate) fn push_head(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        write(self.buffer.bytes());
        self.buffer.publish();
    }

    /// Answers a ping. A peer that pings faster than it reads is slow.
    pub(crate) fn push_pong(&mut self, payload: &[u8]) -> Result<(), Stop> {
        self.counters().pongs_out.inc();
        self.push_frame(Opcode::Pong, payload)
    }

    /// Appends a ping of the application if a message was sent before: the first that a client gets must be
    /// the answer to its login.
    pub(crate) fn ping(&mut self, text: &str) -> Result<(), Stop> {
        if !self.has_spoken || !self.pending().is_empty() {
            return Ok(());
        }
        self.counters().pings_out.inc();
        self.push_frame(Opcode::Text, text.as_bytes())
    }

    /// Whether something was sent since this was last asked.
    pub(crate) fn take_wrote(&mut self) -> bool {
        self.buffer.take_written()
    }

    /// Says good-bye, if there is room; from now on nothing can be pushed.
    pub(crate) fn close(&mut self, code: Option<u16>) {
        if !std::mem::take(&mut self.is_open) {
            return;
        }
        let code = code.filter(|&code| code != close_code::NOT_SENT).map(u16::to_be_bytes);
        // Without room the peer is told by the end of the TCP connection.
        let _ = self.push_frame(Opcode::Close, code.as_ref().map_or(&[], |code| code.as_slice()));
    }

    /// Gives back what a burst took.
    pub(crate) fn trim(&mut self, ping: &str) {
        self.buffer.trim(ping.len() + HEAD_BYTES_MAX);
    }

    fn push_frame(&mut self, opcode: Opcode, payload: &[u8]) -> Result<(), Stop> {
        let mask = self.masks.as_mut().map(|rng| rng.next_u32().to_ne_bytes());
        let head =
            Head { is_final: true, is_compressed: false, opcode, mask, payload_bytes: payload.len() as u64 };
        let frame_bytes = payload.len() + HEAD_BYTES_MAX;
        self.buffer.check_room(frame_bytes)?;
        // A ping alone is not worth the least allocation of a backlog.
        if payload.len() > CONTROL_BYTES_MAX || self.buffer.depth_bytes() > 0 {
            self.buffer.reserve(frame_bytes, |_| ());
        }
        let bytes = self.buffer.bytes();
        head.emit(bytes);
        match mask {
            Some(key) => append_masked(bytes, payload, key, 0),
            None => bytes.extend_from_slice(payload),
        }
        self.buffer.flow_mut().frames += 1;
        self.counters().frames_out.inc();
        self.buffer.note_written();
        self.buffer.publish();
        Ok(())
    }
}

impl Deref for Outbound {
    type Target = SendBuffer<WebSocketConnections>;

    #[inline]
    fn deref(&self) -> &SendBuffer<WebSocketConnections> {
        &self.buffer
    }
}

impl Memory for Outbound {
    fn memory_bytes(&self) -> usize {
        self.buffer.memory_bytes()
    }
}

impl Output for Outbound {
    type Counters = WebSocketConnections;
    type Stop = Stop;
    const APPLICATION: Stop = Stop::Application;

    fn stalled(waited_ms: u32) -> Stop {
        Stop::Stalled { waited_ms }
    }

    fn buffer(&self) -> &SendBuffer<WebSocketConnections> {
        &self.buffer
    }

    fn flush(&mut self) -> &[u8] {
        self.buffer.pending()
    }

    fn consume(&mut self, count_bytes: usize) {
        Outbound::consume(self, count_bytes);
    }

    fn keep(&mut self, frames: &[u8], written_bytes: usize) -> Result<(), Stop> {
        Outbound::keep(self, frames, written_bytes)
    }
}

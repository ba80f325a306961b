use std::sync::Arc;

use counters::Flow;
use counters::table::WebSocketConnections;
use units::Rng;

use crate::frame::{Head, Opcode, append_masked};
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
#[derive(Debug)]
pub struct Outbound {
    buffer: Vec<u8>,
    /// Bytes at the front of `buffer` that the socket has taken.
    head: usize,
    limit_bytes: usize,
    high_water_bytes: usize,
    /// The part of the gauge of all backlogs that is this one's.
    gauged_bytes: usize,
    /// Draws the masks of a client's frames; a server has none.
    masks: Option<Rng>,
    is_open: bool,
    is_compressing: bool,
    /// A message was sent since the beginning.
    has_spoken: bool,
    /// Something was sent since [`Outbound::take_wrote`] was asked last.
    wrote: bool,
    flow: Flow,
    counters: Arc<WebSocketConnections>,
}

/// A backlog buffer up to this size is left alone while something comes and goes.
const KEEP_BYTES: usize = 64 << 10;

impl Outbound {
    pub(crate) fn new(
        limit_bytes: usize,
        masks: Option<Rng>,
        counters: Arc<WebSocketConnections>,
    ) -> Outbound {
        Outbound {
            buffer: Vec::new(),
            head: 0,
            limit_bytes,
            high_water_bytes: 0,
            gauged_bytes: 0,
            masks,
            is_open: false,
            is_compressing: false,
            has_spoken: false,
            wrote: false,
            flow: Flow::default(),
            counters,
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
        self.flow.messages += 1;
        self.counters.messages_out.inc();
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
        self.count_taken(written_bytes);
        self.wrote = true;
        self.has_spoken = true;
        self.append(rest)
    }

    /// Counts messages that were written to frames elsewhere, and given to [`Outbound::keep`]; the bytes of
    /// the connection are counted there.
    pub fn count_framed(&mut self, written: Flow) {
        self.flow += written;
        self.counters.frames_out.add(written.frames);
        self.counters.messages_out.add(written.messages);
    }

    /// What has gone out. Its bytes are those that the socket has taken.
    #[must_use]
    pub fn flow(&self) -> Flow {
        self.flow
    }

    /// What waits for the socket.
    #[must_use]
    pub fn pending(&self) -> &[u8] {
        &self.buffer[self.head..]
    }

    /// Takes the first `count_bytes` of [`Outbound::pending`] away: the socket has accepted them.
    ///
    /// # Panics
    /// If that is more than is pending.
    pub fn consume(&mut self, count_bytes: usize) {
        assert!(count_bytes <= self.pending().len(), "a socket cannot accept more than was pending");
        self.count_taken(count_bytes);
        self.head += count_bytes;
        if self.head == self.buffer.len() {
            self.buffer.clear();
            self.head = 0;
        }
        self.publish_depth();
    }

    /// Bytes that wait for the socket.
    #[must_use]
    pub fn depth_bytes(&self) -> usize {
        self.pending().len()
    }

    /// The most bytes that ever waited.
    #[must_use]
    pub fn high_water_bytes(&self) -> usize {
        self.high_water_bytes
    }

    /// The most bytes that may wait.
    #[must_use]
    pub fn limit_bytes(&self) -> usize {
        self.limit_bytes
    }

    pub(crate) fn counters(&self) -> &WebSocketConnections {
        &self.counters
    }

    /// The upgrade is complete: messages may be pushed.
    pub(crate) fn open(&mut self, is_compressing: bool) {
        self.is_open = true;
        self.is_compressing = is_compressing;
    }

    /// Appends a head of the upgrade.
    pub(crate) fn push_head(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        write(&mut self.buffer);
        self.publish_depth();
    }

    /// Answers a ping. A peer that pings faster than it reads is slow.
    pub(crate) fn push_pong(&mut self, payload: &[u8]) -> Result<(), Stop> {
        self.counters.pongs_out.inc();
        self.push_frame(Opcode::Pong, payload)
    }

    /// Appends a ping of the application if a message was sent before: the first that a client gets must be
    /// the answer to its login.
    pub(crate) fn ping(&mut self, text: &str) -> Result<(), Stop> {
        if !self.has_spoken || !self.pending().is_empty() {
            return Ok(());
        }
        self.counters.pings_out.inc();
        self.push_frame(Opcode::Text, text.as_bytes())
    }

    /// Whether something was sent since this was last asked.
    pub(crate) fn take_wrote(&mut self) -> bool {
        std::mem::take(&mut self.wrote)
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
    pub(crate) fn trim(&mut self) {
        let waiting = self.pending().len();
        if self.head > 0 {
            self.buffer.drain(..self.head);
            self.head = 0;
        }
        if waiting == 0 {
            self.buffer = Vec::new();
        } else if self.buffer.capacity() > KEEP_BYTES.max(4 * waiting) {
            self.buffer.shrink_to(KEEP_BYTES.max(waiting));
        }
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        self.buffer.capacity()
    }

    /// Takes this backlog out of the gauge of all.
    pub(crate) fn leave_gauge(&mut self) {
        self.gauge(0);
    }

    fn push_frame(&mut self, opcode: Opcode, payload: &[u8]) -> Result<(), Stop> {
        let mask = self.masks.as_mut().map(|rng| rng.next_u32().to_ne_bytes());
        let head =
            Head { is_final: true, is_compressed: false, opcode, mask, payload_bytes: payload.len() as u64 };
        self.make_room(payload.len() + crate::frame::HEAD_BYTES_MAX)?;
        head.emit(&mut self.buffer);
        match mask {
            Some(key) => append_masked(&mut self.buffer, payload, key, 0),
            None => self.buffer.extend_from_slice(payload),
        }
        self.flow.frames += 1;
        self.counters.frames_out.inc();
        self.wrote = true;
        self.publish_depth();
        Ok(())
    }

    fn append(&mut self, bytes: &[u8]) -> Result<(), Stop> {
        if bytes.is_empty() {
            return Ok(());
        }
        self.make_room(bytes.len())?;
        self.buffer.extend_from_slice(bytes);
        self.publish_depth();
        Ok(())
    }

    /// Room for so many bytes within the limit.
    fn make_room(&mut self, bytes: usize) -> Result<(), Stop> {
        let pending_bytes = self.pending().len();
        if bytes > self.limit_bytes.saturating_sub(pending_bytes) {
            self.counters.backlog_refusals.inc();
            return Err(Stop::SlowConsumer { pending_bytes, limit_bytes: self.limit_bytes });
        }
        // What the socket has taken goes before the buffer grows, when it is the greater part.
        if self.buffer.capacity() - self.buffer.len() < bytes && self.head > pending_bytes {
            self.buffer.drain(..self.head);
            self.head = 0;
        }
        Ok(())
    }

    fn count_taken(&mut self, bytes: usize) {
        self.flow.bytes += bytes as u64;
        self.counters.bytes_out.add(bytes as u64);
    }

    fn publish_depth(&mut self) {
        let depth = self.pending().len();
        if depth > self.high_water_bytes {
            self.high_water_bytes = depth;
            let all = &self.counters.backlog_high_water_bytes;
            all.set(all.get().max(depth as u64));
        }
        self.gauge(depth);
    }

    fn gauge(&mut self, depth: usize) {
        let all = &self.counters.backlog_bytes;
        all.set(all.get() + depth as u64 - self.gauged_bytes as u64);
        self.gauged_bytes = depth;
    }
}

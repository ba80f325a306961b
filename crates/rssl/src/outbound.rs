use std::sync::Arc;

use counters::table::RsslConnections;

use crate::packer::Packer;
use crate::{ApiMisuse, Flow, SendError, frame};

/// Least allocation of a backlog.
const START_BYTES: usize = 512;

/// A backlog buffer up to this size is left alone while its connection is active.
const KEEP_BYTES: usize = 64 << 10;

/// The way out of a connection: messages become frames, frames wait for the socket.
///
/// After each input to a connection the driver calls [`Outbound::flush`], writes what it returns, and tells
/// with [`Outbound::consume`] how much the socket took. What is left is the backlog; it is bounded, and at
/// the bound writes fail with [`SendError::SlowConsumer`].
///
/// A worker that serves many connections writes to a scratch vector instead: [`Outbound::batch`], then the
/// socket, then [`Outbound::keep`] for what the socket did not take. Then a connection that keeps up holds no
/// buffer at all.
#[derive(Debug)]
pub struct Outbound {
    packer: Packer,
    buffer: Vec<u8>,
    /// Bytes at the front of `buffer` that the socket has taken.
    head: usize,
    limit_bytes: usize,
    high_water_bytes: usize,
    /// The part of the gauge of all backlogs that is this one's.
    gauged_bytes: usize,
    /// Most bytes in `buffer` since the last trim.
    peak_bytes: usize,
    /// Something other than a ping was written since a ping was last due.
    wrote: bool,
    flow: Flow,
    counters: Arc<RsslConnections>,
}

impl Outbound {
    pub(crate) fn new(limit_bytes: usize, counters: Arc<RsslConnections>) -> Outbound {
        Outbound {
            packer: Packer::inactive(),
            buffer: Vec::new(),
            head: 0,
            limit_bytes,
            high_water_bytes: 0,
            gauged_bytes: 0,
            peak_bytes: 0,
            wrote: false,
            flow: Flow::default(),
            counters,
        }
    }

    /// Appends a message to the backlog and returns its copy there, so that the caller can write a stream id
    /// into it. Of a fragmented message it is the part in the first fragment, at least 57 bytes.
    ///
    /// # Errors
    /// [`SendError::SlowConsumer`] if the backlog has no room for it, [`SendError::Misuse`] for an empty
    /// message, one longer than the whole backlog, or outside of handshake and close. Nothing was appended.
    #[inline]
    pub fn push(&mut self, message: &[u8]) -> Result<&mut [u8], SendError> {
        let framed_bytes = self.packer.framed_bytes_max(message.len());
        if framed_bytes > self.limit_bytes.saturating_sub(self.waiting_bytes()) {
            return Err(self.refuse(message.len(), framed_bytes));
        }
        if framed_bytes > self.buffer.capacity() - self.buffer.len() {
            self.make_room(framed_bytes);
        }
        let copy = self.packer.push(&mut self.buffer, message)?;
        Ok(&mut self.buffer[copy])
    }

    /// Starts writing messages to `scratch` instead of the backlog. The frames are complete when the batch is
    /// dropped.
    ///
    /// `scratch` is appended to, not cleared. Then its frames belong to this connection, after everything
    /// that is pending: write them to the socket if nothing is pending, and give them to [`Outbound::keep`].
    #[must_use]
    pub fn batch<'a>(&'a mut self, scratch: &'a mut Vec<u8>) -> Batch<'a> {
        self.packer.close(&mut self.buffer);
        Batch { packer: &mut self.packer, scratch }
    }

    /// Takes over frames made by [`Outbound::batch`], of which the socket has already taken the first
    /// `written_bytes`; the rest goes to the end of the backlog.
    ///
    /// # Errors
    /// [`SendError::SlowConsumer`] if the rest does not fit: the stream then has a hole and the connection
    /// must be closed. [`ApiMisuse::Overtaking`] if some were written although other bytes were pending:
    /// likewise.
    ///
    /// # Panics
    /// If `written_bytes` is more than there are.
    pub fn keep(&mut self, frames: &[u8], written_bytes: usize) -> Result<(), SendError> {
        let rest = &frames[written_bytes..];
        self.packer.close(&mut self.buffer);
        let pending_bytes = self.waiting_bytes();
        if written_bytes > 0 && pending_bytes > 0 {
            return Err(ApiMisuse::Overtaking { pending_bytes }.into());
        }
        self.count_taken(written_bytes);
        self.publish_written();
        if rest.len() > self.limit_bytes.saturating_sub(pending_bytes) {
            return Err(self.slow_consumer());
        }
        if rest.len() > self.buffer.capacity() - self.buffer.len() {
            self.make_room(rest.len());
        }
        self.buffer.extend_from_slice(rest);
        self.publish_depth();
        Ok(())
    }

    /// Completes the open frame and returns everything that waits for the socket.
    pub fn flush(&mut self) -> &[u8] {
        self.packer.close(&mut self.buffer);
        self.publish_written();
        self.publish_depth();
        self.pending()
    }

    /// The whole frames that wait for the socket. Messages pushed since the last [`Outbound::flush`] may not
    /// be in it.
    #[must_use]
    pub fn pending(&self) -> &[u8] {
        let end = self.packer.open_frame().unwrap_or(self.buffer.len());
        &self.buffer[self.head..end]
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

    /// Bytes that wait for the socket, those of an open frame included.
    #[must_use]
    pub fn depth_bytes(&self) -> usize {
        self.waiting_bytes()
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

    /// What has gone out.
    #[must_use]
    pub fn flow(&self) -> Flow {
        self.flow
    }

    pub(crate) fn counters(&self) -> &RsslConnections {
        &self.counters
    }

    /// From now on messages can be pushed.
    pub(crate) fn activate(&mut self, packer: Packer) {
        self.packer = packer;
    }

    /// Completes what was pushed; from now on nothing can be pushed.
    pub(crate) fn deactivate(&mut self) {
        self.flush();
        self.packer = Packer::inactive();
    }

    /// Appends a message of the handshake.
    pub(crate) fn push_handshake(&mut self, message: &[u8]) {
        self.buffer.extend_from_slice(message);
        self.publish_depth();
    }

    /// Appends a ping if the peer would otherwise hear nothing from us: nothing but pings was written since
    /// the last call, and nothing waits.
    pub(crate) fn ping_if_quiet(&mut self) {
        let waiting = !self.flush().is_empty();
        if std::mem::take(&mut self.wrote) || waiting {
            return;
        }
        self.buffer.extend_from_slice(&frame::PING);
        self.flow.frames += 1;
        self.counters.frames_out.inc();
        self.counters.pings_out.inc();
        self.publish_depth();
    }

    /// Gives memory back: all but room for a ping if nothing waits and nothing else was in the buffer since
    /// the last call, the greater part if the buffer has become far larger than needed.
    pub(crate) fn trim(&mut self) {
        self.packer.trim();
        if self.buffer.is_empty() && self.peak_bytes <= frame::PING.len() {
            self.buffer.shrink_to(self.peak_bytes);
        } else if self.buffer.capacity() > KEEP_BYTES.max(4 * self.peak_bytes) {
            self.buffer.shrink_to(KEEP_BYTES.max(self.peak_bytes));
        }
        self.peak_bytes = self.buffer.len();
    }

    /// Heap memory in use.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.buffer.capacity() + self.packer.memory_bytes()
    }

    fn waiting_bytes(&self) -> usize {
        self.buffer.len() - self.head
    }

    #[cold]
    fn refuse(&self, bytes: usize, framed_bytes: usize) -> SendError {
        if !self.packer.is_active() {
            return ApiMisuse::NotConnected.into();
        }
        if framed_bytes > self.limit_bytes {
            return ApiMisuse::MessageTooLong { bytes, limit_bytes: self.limit_bytes }.into();
        }
        self.slow_consumer()
    }

    #[cold]
    fn slow_consumer(&self) -> SendError {
        self.counters.backlog_refusals.inc();
        SendError::SlowConsumer { pending_bytes: self.waiting_bytes(), limit_bytes: self.limit_bytes }
    }

    /// Makes room for `bytes` more, which the limit allows. Consumed bytes are moved out only when they are
    /// at least half of all, so that each byte is moved once at most; then twice the limit is always enough.
    #[cold]
    fn make_room(&mut self, bytes: usize) {
        if self.head > 0 && self.head >= self.buffer.len() / 2 {
            self.packer.close(&mut self.buffer);
            self.buffer.drain(..self.head);
            self.head = 0;
        }
        let needed = self.buffer.len() + bytes;
        let target =
            (2 * self.buffer.capacity()).clamp(START_BYTES, self.limit_bytes.saturating_mul(2)).max(needed);
        if needed > self.buffer.capacity() {
            self.buffer.reserve_exact(target - self.buffer.len());
        }
    }

    fn count_taken(&mut self, bytes: usize) {
        self.flow.bytes += bytes as u64;
        self.counters.bytes_out.add(bytes as u64);
    }

    fn publish_written(&mut self) {
        let written = self.packer.take_written();
        self.wrote |= written.frames > 0;
        self.counters.frames_out.add(written.frames);
        self.counters.messages_out.add(written.messages);
        self.counters.packed_frames_out.add(written.packed_frames);
        self.counters.packed_messages_out.add(written.packed_messages);
        self.counters.fragments_out.add(written.fragments);
        self.counters.fragmented_messages_out.add(written.fragmented_messages);
        if written.compressed_frames > 0 {
            self.counters.compressed_frames_out.add(written.compressed_frames);
            self.counters.compressed_bytes_out.add(written.compressed_bytes);
            self.counters.expanded_bytes_out.add(written.expanded_bytes);
            self.counters.split_payloads_out.add(written.split_payloads);
        }
        self.flow.frames += written.frames;
        self.flow.messages += written.messages;
        self.flow.packed_frames += written.packed_frames;
        self.flow.packed_messages += written.packed_messages;
        self.flow.compressed_bytes += written.compressed_bytes;
        self.flow.expanded_bytes += written.expanded_bytes;
    }

    fn publish_depth(&mut self) {
        let depth = self.waiting_bytes();
        let gauge = &self.counters.backlog_bytes;
        gauge.set(gauge.get().wrapping_sub(self.gauged_bytes as u64).wrapping_add(depth as u64));
        self.gauged_bytes = depth;
        self.peak_bytes = self.peak_bytes.max(self.buffer.len());
        if depth > self.high_water_bytes {
            self.high_water_bytes = depth;
            self.counters.backlog_high_water_bytes.raise(depth as u64);
        }
    }
}

impl Drop for Outbound {
    fn drop(&mut self) {
        let gauge = &self.counters.backlog_bytes;
        gauge.set(gauge.get().wrapping_sub(self.gauged_bytes as u64));
    }
}

/// Writes messages for one connection into a vector of the caller; see [`Outbound::batch`].
#[derive(Debug)]
pub struct Batch<'a> {
    packer: &'a mut Packer,
    scratch: &'a mut Vec<u8>,
}

impl Batch<'_> {
    /// Appends a message and returns its copy, as [`Outbound::push`] does.
    ///
    /// # Errors
    /// [`ApiMisuse`] for a message of zero bytes or one of 4 GiB or more, or outside of handshake and close.
    #[inline]
    pub fn push(&mut self, message: &[u8]) -> Result<&mut [u8], ApiMisuse> {
        let copy = self.packer.push(self.scratch, message)?;
        Ok(&mut self.scratch[copy])
    }

    /// Bytes written so far, the open frame included.
    #[must_use]
    pub fn len(&self) -> usize {
        self.scratch.len()
    }

    /// Whether nothing is in the vector.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.scratch.is_empty()
    }
}

impl Drop for Batch<'_> {
    fn drop(&mut self) {
        self.packer.close(self.scratch);
    }
}

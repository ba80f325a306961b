use std::ops::Deref;
use std::sync::Arc;

use connection::{Memory, Output, SendBuffer};
use counters::table::RsslConnections;

use crate::packer::Packer;
use crate::{ApiMisuse, SendError, Stop, frame};

/// The way out of a connection: messages become frames, frames wait for the socket.
///
/// After each input to a connection the driver calls [`Outbound::flush`], writes what it returns, and tells
/// with [`Outbound::consume`] how much the socket took. What is left is the backlog; it is bounded, and at
/// the bound writes fail with [`SendError::SlowConsumer`].
///
/// A worker that serves many connections writes to a scratch vector instead: [`Outbound::batch`], then the
/// socket, then [`Outbound::keep`] for what the socket did not take. Then a connection that keeps up holds no
/// buffer at all.
///
/// How much waits, and what has gone out, are told by the [`SendBuffer`] that it derefs to.
#[derive(Debug)]
pub struct Outbound {
    packer: Packer,
    buffer: SendBuffer<RsslConnections>,
}

impl Outbound {
    pub(crate) fn new(limit_bytes: usize, counters: Arc<RsslConnections>) -> Outbound {
        Outbound { packer: Packer::inactive(), buffer: SendBuffer::new(limit_bytes, counters) }
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
        if framed_bytes > self.buffer.room_bytes() {
            return Err(self.refuse(message.len(), framed_bytes));
        }
        self.buffer.reserve(framed_bytes, |bytes| self.packer.close(bytes));
        let bytes = self.buffer.bytes();
        let copy = self.packer.push(bytes, message)?;
        Ok(&mut bytes[copy])
    }

    /// Starts writing messages to `scratch` instead of the backlog. The frames are complete when the batch is
    /// dropped.
    ///
    /// `scratch` is appended to, not cleared. Then its frames belong to this connection, after everything
    /// that is pending: write them to the socket if nothing is pending, and give them to [`Outbound::keep`].
    #[must_use]
    pub fn batch<'a>(&'a mut self, scratch: &'a mut Vec<u8>) -> Batch<'a> {
        self.packer.close(self.buffer.bytes());
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
        self.packer.close(self.buffer.bytes());
        let pending_bytes = self.buffer.depth_bytes();
        if written_bytes > 0 && pending_bytes > 0 {
            return Err(ApiMisuse::Overtaking { pending_bytes }.into());
        }
        self.buffer.count_taken(written_bytes);
        self.publish_written();
        // As long as a connection keeps up, nothing waits before or after.
        if pending_bytes == 0 && rest.is_empty() { Ok(()) } else { Ok(self.buffer.append(rest)?) }
    }

    /// Completes the open frame and returns everything that waits for the socket.
    pub fn flush(&mut self) -> &[u8] {
        self.packer.close(self.buffer.bytes());
        self.publish_written();
        self.buffer.publish();
        self.pending()
    }

    /// The whole frames that wait for the socket. Messages pushed since the last [`Outbound::flush`] may not
    /// be in it.
    #[must_use]
    pub fn pending(&self) -> &[u8] {
        match self.packer.open_frame() {
            Some(end) => self.buffer.pending_before(end),
            None => self.buffer.pending(),
        }
    }

    /// Takes the first `count_bytes` of [`Outbound::pending`] away: the socket has accepted them.
    ///
    /// # Panics
    /// If that is more than is pending.
    pub fn consume(&mut self, count_bytes: usize) {
        assert!(count_bytes <= self.pending().len(), "a socket cannot accept more than was pending");
        self.buffer.consume(count_bytes);
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
        self.buffer.bytes().extend_from_slice(message);
        self.buffer.publish();
    }

    /// Appends a ping if the peer would otherwise hear nothing from us: nothing but pings was written since
    /// the last call, and nothing waits.
    pub(crate) fn ping_if_quiet(&mut self) {
        let waiting = !self.flush().is_empty();
        if self.buffer.take_written() || waiting {
            return;
        }
        self.buffer.bytes().extend_from_slice(&frame::PING);
        self.buffer.flow_mut().frames += 1;
        self.counters().frames_out.inc();
        self.counters().pings_out.inc();
        self.buffer.publish();
    }

    /// Gives memory back: all but room for a ping from what is idle.
    pub(crate) fn trim(&mut self) {
        self.packer.trim();
        self.buffer.trim(frame::PING.len());
    }

    #[cold]
    fn refuse(&self, bytes: usize, framed_bytes: usize) -> SendError {
        if !self.packer.is_active() {
            return ApiMisuse::NotConnected.into();
        }
        let limit_bytes = self.buffer.limit_bytes();
        if framed_bytes > limit_bytes {
            return ApiMisuse::MessageTooLong { bytes, limit_bytes }.into();
        }
        self.buffer.refuse().into()
    }

    fn publish_written(&mut self) {
        let written = self.packer.take_written();
        if written.frames > 0 {
            self.buffer.note_written();
        }
        let counters = self.counters();
        counters.frames_out.add(written.frames);
        counters.messages_out.add(written.messages);
        counters.packed_frames_out.add(written.packed_frames);
        counters.packed_messages_out.add(written.packed_messages);
        counters.fragments_out.add(written.fragments);
        counters.fragmented_messages_out.add(written.fragmented_messages);
        if written.compressed_frames > 0 {
            counters.compressed_frames_out.add(written.compressed_frames);
            counters.compressed_bytes_out.add(written.compressed_bytes);
            counters.expanded_bytes_out.add(written.expanded_bytes);
            counters.split_payloads_out.add(written.split_payloads);
        }
        let flow = self.buffer.flow_mut();
        flow.frames += written.frames;
        flow.messages += written.messages;
        flow.packed_frames += written.packed_frames;
        flow.packed_messages += written.packed_messages;
        flow.compressed_bytes += written.compressed_bytes;
        flow.expanded_bytes += written.expanded_bytes;
    }
}

impl Deref for Outbound {
    type Target = SendBuffer<RsslConnections>;

    #[inline]
    fn deref(&self) -> &SendBuffer<RsslConnections> {
        &self.buffer
    }
}

impl Memory for Outbound {
    fn memory_bytes(&self) -> usize {
        self.buffer.memory_bytes() + self.packer.memory_bytes()
    }
}

impl Output for Outbound {
    type Counters = RsslConnections;
    type Stop = Stop;
    const APPLICATION: Stop = Stop::Application;

    fn stalled(waited_ms: u32) -> Stop {
        Stop::Stalled { waited_ms }
    }

    fn buffer(&self) -> &SendBuffer<RsslConnections> {
        &self.buffer
    }

    fn flush(&mut self) -> &[u8] {
        Outbound::flush(self)
    }

    fn consume(&mut self, count_bytes: usize) {
        Outbound::consume(self, count_bytes);
    }

    fn keep(&mut self, frames: &[u8], written_bytes: usize) -> Result<(), Stop> {
        Ok(Outbound::keep(self, frames, written_bytes)?)
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

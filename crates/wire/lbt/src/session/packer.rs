//! Messages into datagrams: the window, and the datagram at its end that is being filled.

use super::closing::Unsent;
use super::ending::DatagramEnd;
use super::runs::RunId;
use super::send_error::SendError;
use super::transmit::Transmit;
use super::transport::SourceTransport;
use super::window::{Run, Window};
use crate::authentication::{Keys, Sealer};
use crate::config::SourceConfig;
use crate::encryption::{Encryptor, FRAME_LEN, PayloadKeys, Salt, SessionName, TAG_LEN};
use crate::error::WireError;
use crate::wire::lbmc::{Kind, Message, Messages};
use counters::table::ReliableSource;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;
use units::{Nanos, Sqn};

/// The datagrams of a source, closed ones and the one being filled, which lies at its final place in the window.
pub struct Packer {
    window: Window,
    open: Open,
    /// Encrypts the messages of datagrams, where that is wanted.
    encryptor: Option<Box<Encryptor>>,
    /// Bytes that encryption adds before and behind the messages; 0 without.
    cover: Cover,
    /// What stands behind the messages.
    end: DatagramEnd,
    header_len: usize,
    datagram_max: usize,
    /// Bytes of messages that fit one datagram.
    payload_max: usize,
    /// Bytes at which a datagram is closed; above all while an explicit batch is held.
    batch_len: usize,
    /// The same without an explicit batch.
    implicit_len: usize,
    batch_wait: Duration,
    /// An explicit batch is open.
    is_held: bool,
    /// No datagram is opened before a message needs it: the session ends.
    is_ending: bool,
    backlog_max: u64,
    counters: Arc<ReliableSource>,
}

/// The datagram being filled.
#[derive(Clone, Copy, Debug)]
struct Open {
    /// Where it begins in the window.
    start: usize,
    /// Where the next message goes.
    at: usize,
    /// Bytes left; 0 when no datagram is open.
    room: usize,
    messages: u32,
    /// When its first message was appended.
    since: Nanos,
}

impl Open {
    const NONE: Open = Open { start: 0, at: 0, room: 0, messages: 0, since: Nanos::NEVER };
}

/// Bytes around the messages of a datagram.
#[derive(Clone, Copy, Debug)]
struct Cover {
    before: usize,
    behind: usize,
}

impl Cover {
    const NONE: Cover = Cover { before: 0, behind: 0 };
    const ENCRYPTED: Cover = Cover { before: FRAME_LEN, behind: TAG_LEN };
}

impl Packer {
    /// An empty window whose first datagram gets number `first`, for datagrams with headers of `header_len` bytes.
    pub(super) fn new(
        config: &SourceConfig,
        header_len: usize,
        first: Sqn,
        counters: Arc<ReliableSource>,
    ) -> Packer {
        let datagram_max = config.datagram_max_size as usize;
        Packer {
            window: Window::new(config.transmission_window_size as usize, first),
            open: Open::NONE,
            encryptor: None,
            cover: Cover::NONE,
            end: DatagramEnd::default(),
            header_len,
            datagram_max,
            payload_max: datagram_max - header_len,
            batch_len: config.implicit_batching_minimum_length as usize,
            implicit_len: config.implicit_batching_minimum_length as usize,
            batch_wait: config.implicit_batching_interval,
            is_held: false,
            is_ending: false,
            backlog_max: config.transport_session_maximum_buffer,
            counters,
        }
    }

    /// Writes the whole window once, so that no page of it is first touched while sending.
    pub(super) fn prefault(&mut self) {
        self.window.prefault();
    }

    /// Whether no message was taken yet.
    pub(super) fn is_untouched(&self) -> bool {
        self.window.count() == 0 && self.open.room == 0
    }

    pub(super) fn encrypt_as(&mut self, name: SessionName, keys: &PayloadKeys, salt: Salt) {
        self.encryptor = Some(Box::new(Encryptor::new(keys, name, salt, self.window.next())));
        self.cover = Cover::ENCRYPTED;
        self.measure();
    }

    pub(super) fn rekey_payloads(&mut self, keys: &PayloadKeys) {
        if let Some(encryptor) = &mut self.encryptor {
            encryptor.rekey(keys, self.window.count());
        }
    }

    pub(super) fn authenticate(&mut self, keys: Keys, address: Ipv4Addr) {
        self.end.authenticate(Sealer::new(keys, address));
        self.measure();
    }

    pub(super) fn set_run(&mut self, run: RunId) {
        self.end.set_run(run);
        self.measure();
    }

    pub(super) fn rekey(&mut self, keys: Keys) {
        self.end.rekey(keys);
    }

    fn measure(&mut self) {
        let around = self.cover.before + self.cover.behind + self.end.len();
        self.payload_max = self.datagram_max - self.header_len - around;
    }

    /// What was closed: sent, or to be sent.
    #[inline]
    pub(crate) fn window(&self) -> &Window {
        &self.window
    }

    /// What stands at the end of each datagram.
    #[inline]
    pub(crate) fn end(&self) -> &DatagramEnd {
        &self.end
    }

    /// Bytes of control messages that fit one datagram behind a header of `header_len` bytes.
    pub(crate) fn control_max(&self, header_len: usize) -> usize {
        self.datagram_max - header_len - self.end.len()
    }

    /// Bytes of messages that fit one datagram.
    #[inline]
    pub(super) fn payload_max(&self) -> usize {
        self.payload_max
    }

    /// Whether what needs another datagram would be refused now.
    pub(super) fn is_blocked(&self) -> bool {
        self.window.unsent_bytes() >= self.backlog_max
    }

    /// Whether an explicit batch is open.
    pub(super) fn is_held(&self) -> bool {
        self.is_held
    }

    pub(super) fn hold(&mut self, is_held: bool) {
        self.is_held = is_held;
        self.batch_len = if is_held { usize::MAX } else { self.implicit_len };
    }

    /// Bytes that the open datagram has room for.
    #[inline]
    pub(super) fn room(&self) -> usize {
        self.open.room
    }

    /// The next `need` bytes of the open datagram, which has room for them; [`Packer::grown`] makes them part of it.
    #[inline]
    pub(super) fn next_bytes(&mut self, need: usize) -> &mut [u8] {
        self.window.bytes_mut(self.open.at, need)
    }

    /// A message of `need` bytes was written at the end of the open datagram.
    #[inline]
    pub(super) fn grown<T: SourceTransport>(&mut self, transport: &T, now: Nanos, need: usize) {
        if self.open.messages == 0 {
            self.open.since = now;
        }
        self.open.messages += 1;
        self.open.at += need;
        self.open.room -= need;
        if self.open.at - self.open.start >= self.batch_len {
            self.close(transport);
        }
    }

    /// Makes sure that the open datagram has `need` bytes of room, which fit a datagram.
    pub(super) fn reserve<T: SourceTransport>(
        &mut self,
        transport: &T,
        now: Nanos,
        need: usize,
    ) -> Result<(), SendError> {
        if need <= self.open.room {
            return Ok(());
        }
        self.flush(transport);
        if self.is_blocked() {
            return Err(self.refuse());
        }
        self.open_datagram(now)
    }

    /// Makes sure that `count` datagrams can be opened beside the open one.
    pub(super) fn reserve_datagrams(&self, count: u64) -> Result<(), SendError> {
        if self.window.can_hold(count + 1, self.datagram_max as u64) { Ok(()) } else { Err(self.refuse()) }
    }

    fn refuse(&self) -> SendError {
        self.counters.send_would_block.inc();
        SendError::WouldBlock
    }

    /// Opens the next datagram, and none if there is no room.
    pub(super) fn open_datagram(&mut self, now: Nanos) -> Result<(), SendError> {
        let Some(start) = self.window.open(self.datagram_max) else {
            self.open = Open::NONE;
            return Err(self.refuse());
        };
        self.opened(now, start);
        Ok(())
    }

    fn opened(&mut self, now: Nanos, start: usize) {
        let (at, room) = (start + self.header_len + self.cover.before, self.payload_max);
        self.open = Open { start, at, room, messages: 0, since: now };
    }

    /// Opens a datagram for what will be sent next, once all before it is sent: nobody waits for anything then, and
    /// the next message finds its place made.
    /// `len` bytes of it are made warm.
    fn open_ahead(&mut self, now: Nanos, len: u64) {
        // A datagram that is full to the last byte has no room either, and waits to be closed.
        if self.open.room == 0
            && self.open.messages == 0
            && !self.is_ending
            && self.window.unsent_count() == 0
            && let Some(start) = self.window.open(self.datagram_max)
        {
            self.opened(now, start);
            self.window.warm(len);
        }
    }

    /// Marks the oldest `count` unsent datagrams as sent and returns their length.
    pub(crate) fn mark_sent(&mut self, now: Nanos, count: u32) -> u64 {
        let bytes = self.window.mark_sent(count);
        // Who sends many at a time sends them at once: nobody waits for one.
        self.open_ahead(now, if count == 1 { bytes } else { 0 });
        bytes
    }

    /// Closes the open datagram, if there is anything in it.
    pub(super) fn flush<T: SourceTransport>(&mut self, transport: &T) {
        if self.open.messages > 0 {
            self.close(transport);
        }
    }

    fn close<T: SourceTransport>(&mut self, transport: &T) {
        let Open { start, at, messages, .. } = self.open;
        let (sqn, trail) = (self.window.next(), self.window.trail());
        transport.emit_data_header(sqn, trail, self.window.bytes_mut(start, T::DATA_HEADER_LEN));
        let (filled, end_len) = (at - start + self.cover.behind, self.end.len());
        if let Some(encryptor) = &mut self.encryptor {
            let messages = self.window.bytes_mut(start + T::DATA_HEADER_LEN, filled - T::DATA_HEADER_LEN);
            encryptor.cover(sqn, messages);
        }
        if end_len > 0 {
            self.end.write(self.window.bytes_mut(start, filled + end_len));
        }
        self.window.close(start, filled + end_len);
        self.open = Open::NONE;
        self.counters.lbm_msgs_sent.add(u64::from(messages));
        self.counters.rctlr_data_msgs.set(u64::from(self.window.unsent_count()));
    }

    /// When the open datagram is to be closed if it is not full by then.
    pub(super) fn batch_due(&self) -> Nanos {
        if self.batch_wait.is_zero() || self.open.messages == 0 || self.is_held {
            return Nanos::NEVER;
        }
        self.open.since + self.batch_wait
    }

    /// Whether anything was taken that a receiver can lack.
    pub(super) fn has_messages(&self) -> bool {
        self.window.count() > 0 || self.open.messages > 0
    }

    /// The session ends: what was written is closed.
    pub(super) fn end_messages<T: SourceTransport>(&mut self, transport: &T) {
        self.flush(transport);
        self.open = Open::NONE;
        self.is_ending = true;
    }

    /// Gives up everything, sent or not, and refuses nothing that is said from now on.
    pub(super) fn clear(&mut self) {
        self.window.clear();
        self.backlog_max = u64::MAX;
        self.open = Open::NONE;
    }

    /// Everything that is in the window is to be sent, though it was.
    pub(super) fn rewind(&mut self) {
        self.window.rewind();
    }

    /// Datagrams that lie behind one another, to be sent.
    #[inline]
    pub(crate) fn lend(&self, run: Run) -> Transmit<'_> {
        let bytes = self.window.slice(run.at, run.bytes);
        Transmit { bytes, segment_len: run.segment_len, count: run.count }
    }

    /// Marks datagrams that are to go out once more, and signs them anew where they are signed.
    pub(crate) fn mark_retransmissions<T: SourceTransport>(&mut self, first: Sqn, count: u32) {
        let trail = self.window.trail();
        for sqn in (0..count).map(|i| first.plus(i)) {
            let at = self.window.offset_of(sqn);
            T::mark_retransmission(trail, self.window.bytes_mut(at, T::DATA_HEADER_LEN));
            if self.end.len() > 0 {
                let len = self.window.len_of(sqn) as usize;
                self.end.write(self.window.bytes_mut(at, len));
            }
        }
    }

    /// The messages of a datagram of the window, as they go out.
    fn messages_of(&self, sqn: Sqn) -> &[u8] {
        let (at, len) = (self.window.offset_of(sqn), self.window.len_of(sqn) as usize);
        &self.window.slice(at, len)[self.header_len..len - self.end.len()]
    }

    /// Gives `each` the LBMC messages, in clear, of every datagram closed since number `from`, and moves `from` behind
    /// them.
    pub(super) fn written(&mut self, from: &mut Sqn, mut each: impl FnMut(&[u8])) {
        if from.precedes(self.window.trail()) {
            *from = self.window.trail();
        }
        let mut encryptor = self.encryptor.take();
        while from.precedes(self.window.next()) {
            let messages = self.messages_of(*from);
            match &mut encryptor {
                None => each(messages),
                Some(encryptor) => each(encryptor.reveal(*from, messages)),
            }
            *from = from.next();
        }
        self.encryptor = encryptor;
    }

    /// What was taken and has not been sent, the open datagram too. Looks at every message.
    pub(super) fn unsent(&self) -> Unsent {
        let numbers = (0..self.window.unsent_count()).map(|i| self.window.unsent().plus(i));
        let mut messages = u64::from(self.open.messages);
        let mut plain = Vec::new();
        for sqn in numbers {
            let mut written = self.messages_of(sqn);
            if let Some(encryptor) = &self.encryptor {
                encryptor.reveal_into(sqn, written, &mut plain);
                written = &plain;
            }
            let of_topics = |message: &Result<Message<'_>, WireError>| {
                message.as_ref().is_ok_and(|message| message.kind == Kind::Message)
            };
            messages += Messages::new(written).filter(of_topics).count() as u64;
        }
        let open = if self.open.messages > 0 { self.open.at - self.open.start } else { 0 };
        Unsent { messages, bytes: self.window.unsent_bytes() + open as u64 }
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.window.memory_bytes() + self.encryptor.as_ref().map_or(0, |e| e.memory_bytes())
    }
}

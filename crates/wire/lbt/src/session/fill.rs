use super::framing::Framing;
use super::source::{Ending, SendError, Source};
use super::topics::TopicId;
use crate::encryption::{FRAME_LEN, TAG_LEN};
use crate::wire::lbmc::{self, Chain, FRAG_LEN, MESSAGE_HEADER_LEN};
use units::{Nanos, Sqn};

/// The datagram being filled.
#[derive(Clone, Copy, Debug)]
pub(super) struct Open {
    /// Where it begins in the window.
    pub(super) start: usize,
    /// Where the next message goes.
    pub(super) at: usize,
    /// Bytes left; 0 when no datagram is open.
    pub(super) room: usize,
    pub(super) messages: u32,
    /// When its first message was appended.
    pub(super) since: Nanos,
}

impl Open {
    pub(super) const NONE: Open = Open { start: 0, at: 0, room: 0, messages: 0, since: Nanos::NEVER };
}

/// Bytes around the messages of a datagram.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cover {
    pub(super) before: usize,
    pub(super) behind: usize,
}

impl Cover {
    pub(super) const NONE: Cover = Cover { before: 0, behind: 0 };
    pub(super) const ENCRYPTED: Cover = Cover { before: FRAME_LEN, behind: TAG_LEN };
}

impl<T: Framing> Source<T> {
    pub(super) fn known(&self, topic: TopicId) -> Result<(), SendError> {
        if self.ending != Ending::No {
            return Err(SendError::Ended);
        }
        self.topics.get(topic).map(|_| ()).ok_or(SendError::UnknownTopic)
    }

    /// The message does not fit the open datagram.
    #[cold]
    #[inline(never)]
    pub(super) fn send_into_next(
        &mut self,
        now: Nanos,
        topic: TopicId,
        len: usize,
        parts: &[&[u8]],
    ) -> Result<Sqn, SendError> {
        let need = MESSAGE_HEADER_LEN + len;
        if need > self.payload_max() {
            return self.send_fragments(now, topic, &Chain::default(), len, parts);
        }
        self.known(topic)?;
        self.reserve(now, need)?;
        self.append(now, topic, need, parts)
    }

    /// Writes a message without extension headers into the open datagram, which has room for it.
    #[inline]
    pub(super) fn append(
        &mut self,
        now: Nanos,
        topic: TopicId,
        need: usize,
        parts: &[&[u8]],
    ) -> Result<Sqn, SendError> {
        let Some(state) = self.topics.get_mut(topic) else { return Err(SendError::UnknownTopic) };
        let sqn = state.next;
        state.next = sqn.next();
        state.last_message = now;
        let out = self.window.bytes_mut(self.open.at, need);
        let (header, mut body) = out.split_first_chunk_mut().expect("room for the header was counted in");
        *header = lbmc::plain_header(need, topic.index(), sqn);
        for part in parts {
            let (here, rest) = body.split_at_mut(part.len());
            here.copy_from_slice(part);
            body = rest;
        }
        self.grown(now, need);
        Ok(sqn)
    }

    /// Counts a message of `need` bytes that was written at the end of the open datagram.
    pub(super) fn appended(&mut self, now: Nanos, topic: TopicId, need: usize) -> Sqn {
        let state = self.topics.get_mut(topic).expect("the caller looked the topic up");
        let sqn = state.next;
        state.next = sqn.next();
        state.last_message = now;
        self.grown(now, need);
        sqn
    }

    #[inline]
    pub(super) fn grown(&mut self, now: Nanos, need: usize) {
        if self.open.messages == 0 {
            self.open.since = now;
        }
        self.open.messages += 1;
        self.open.at += need;
        self.open.room -= need;
        if self.open.at - self.open.start >= self.batch_len {
            self.close();
        }
    }

    /// Makes sure that the open datagram has `need` bytes of room, which fit a datagram.
    pub(super) fn reserve(&mut self, now: Nanos, need: usize) -> Result<(), SendError> {
        if need <= self.open.room {
            return Ok(());
        }
        self.flush();
        if self.is_blocked() {
            self.counters.send_would_block.inc();
            return Err(SendError::WouldBlock);
        }
        self.open_datagram(now)
    }

    fn open_datagram(&mut self, now: Nanos) -> Result<(), SendError> {
        let Some(start) = self.window.open(self.datagram_max) else {
            self.open = Open::NONE;
            self.counters.send_would_block.inc();
            return Err(SendError::WouldBlock);
        };
        self.opened(now, start);
        Ok(())
    }

    fn opened(&mut self, now: Nanos, start: usize) {
        let (at, room) = (start + T::DATA_HEADER_LEN + self.cover.before, self.payload_max());
        self.open = Open { start, at, room, messages: 0, since: now };
    }

    /// Opens a datagram for what will be sent next, once all before it is sent: nobody waits for anything then, and
    /// the next message finds its place made.
    /// `len` bytes of it are made warm.
    fn open_ahead(&mut self, now: Nanos, len: u64) {
        // A datagram that is full to the last byte has no room either, and waits to be closed.
        if self.open.room == 0
            && self.open.messages == 0
            && self.ending == Ending::No
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

    pub(super) fn close(&mut self) {
        let Open { start, at, messages, .. } = self.open;
        let (sqn, trail) = (self.window.next(), self.window.trail());
        let out = self.window.bytes_mut(start, T::DATA_HEADER_LEN);
        self.transport.emit_data_header(sqn, trail, out);
        let (filled, seal_len) = (at - start + self.cover.behind, self.transport.seal_len());
        if let Some(encryptor) = &mut self.encryptor {
            let messages = self.window.bytes_mut(start + T::DATA_HEADER_LEN, filled - T::DATA_HEADER_LEN);
            encryptor.cover(sqn, messages);
        }
        if seal_len > 0 {
            self.transport.seal(self.window.bytes_mut(start, filled + seal_len));
        }
        self.window.close(start, filled + seal_len);
        self.open = Open::NONE;
        self.counters.lbm_msgs_sent.add(u64::from(messages));
        self.counters.rctlr_data_msgs.set(u64::from(self.window.unsent_count()));
    }

    pub(super) fn batch_due(&self) -> Nanos {
        if self.batch_wait.is_zero() || self.open.messages == 0 || self.is_held {
            return Nanos::NEVER;
        }
        self.open.since + self.batch_wait
    }

    /// Sends a message that is longer than fits a datagram, each fragment in its own.
    #[cold]
    pub(super) fn send_fragments(
        &mut self,
        now: Nanos,
        topic: TopicId,
        headers: &Chain,
        len: usize,
        parts: &[&[u8]],
    ) -> Result<Sqn, SendError> {
        let (max, per_fragment) = (self.message_max as usize, self.fragment_payload());
        if len > max || headers.len() >= per_fragment {
            return Err(SendError::TooLong { bytes: len + headers.len(), max });
        }
        self.known(topic)?;
        self.reserve(now, self.payload_max())?;
        let count = (len + headers.len()).div_ceil(per_fragment) as u64;
        if !self.window.can_hold(count + 1, self.datagram_max as u64) {
            self.counters.send_would_block.inc();
            return Err(SendError::WouldBlock);
        }
        let first_sqn = self.topics.get(topic).ok_or(SendError::UnknownTopic)?.next;
        let mut gather = Gather::new(parts);
        let (mut done, mut last) = (0, first_sqn);
        while done < len {
            let own = if done == 0 { headers } else { &Chain::default() };
            let payload = (per_fragment - own.len()).min(len - done);
            let frag = Fragment { first_sqn, offset: done as u32, length: len as u32, payload };
            last = self.append_fragment(now, topic, own, frag, &mut gather);
            done += payload;
        }
        Ok(last)
    }

    /// Bytes of messages that fit one datagram.
    #[inline]
    pub(super) fn payload_max(&self) -> usize {
        let around = self.cover.before + self.cover.behind + self.transport.seal_len();
        self.datagram_max - T::DATA_HEADER_LEN - around
    }

    fn fragment_payload(&self) -> usize {
        self.payload_max() - MESSAGE_HEADER_LEN - FRAG_LEN
    }

    fn append_fragment(
        &mut self,
        now: Nanos,
        topic: TopicId,
        headers: &Chain,
        frag: Fragment,
        gather: &mut Gather<'_>,
    ) -> Sqn {
        let need = MESSAGE_HEADER_LEN + FRAG_LEN + headers.len() + frag.payload;
        if need > self.open.room {
            self.flush();
            self.open_datagram(now).expect("room for the whole message was made sure of");
        }
        let sqn = self.topics.get(topic).expect("the caller looked the topic up").next;
        let mut out = Writer::new(self.window.bytes_mut(self.open.at, need));
        out.put(&frag.message_header(need, topic.index(), sqn, headers.first(0)));
        out.put(headers.bytes());
        gather.copy(out.rest());
        self.counters.fragments_sent.inc();
        self.appended(now, topic, need)
    }
}

/// Room for one message in the open datagram. Dropped without [`Claim::commit`], it leaves nothing behind.
pub struct Claim<'a, T> {
    source: &'a mut Source<T>,
    now: Nanos,
    topic: TopicId,
    len: usize,
}

impl<'a, T: Framing> Claim<'a, T> {
    pub(super) fn new(source: &'a mut Source<T>, now: Nanos, topic: TopicId, len: usize) -> Claim<'a, T> {
        Claim { source, now, topic, len }
    }

    /// The payload, to be written; what it holds before is not defined.
    #[inline]
    pub fn payload(&mut self) -> &mut [u8] {
        self.source.window.bytes_mut(self.source.open.at + MESSAGE_HEADER_LEN, self.len)
    }

    /// Makes the message part of the datagram and returns its number.
    #[inline]
    pub fn commit(self) -> Sqn {
        let Claim { source, now, topic, len } = self;
        let need = MESSAGE_HEADER_LEN + len;
        let sqn = source.topics.get(topic).expect("looked up when it was claimed").next;
        let header = lbmc::plain_header(need, topic.index(), sqn);
        source.window.bytes_mut(source.open.at, MESSAGE_HEADER_LEN).copy_from_slice(&header);
        source.appended(now, topic, need)
    }
}

pub(crate) fn gathered_len(parts: &[&[u8]]) -> usize {
    parts.iter().map(|p| p.len()).sum()
}

/// One fragment of a message.
#[derive(Clone, Copy)]
pub(crate) struct Fragment {
    pub(crate) first_sqn: Sqn,
    pub(crate) offset: u32,
    pub(crate) length: u32,
    pub(crate) payload: usize,
}

impl Fragment {
    /// Message header and FRAG header, the latter followed by a header of number `next`.
    pub(crate) fn message_header(
        &self,
        need: usize,
        topic_index: u32,
        sqn: Sqn,
        next: u8,
    ) -> [u8; MESSAGE_HEADER_LEN + FRAG_LEN] {
        let mut out = [0; MESSAGE_HEADER_LEN + FRAG_LEN];
        out[..12].copy_from_slice(&lbmc::plain_header(need, topic_index, sqn));
        out[1] = lbmc::FRAG_KIND;
        out[12..14].copy_from_slice(&[next, FRAG_LEN as u8]);
        out[16..20].copy_from_slice(&self.first_sqn.0.to_be_bytes());
        out[20..24].copy_from_slice(&self.offset.to_be_bytes());
        out[24..28].copy_from_slice(&self.length.to_be_bytes());
        out
    }
}

/// Writes front to back into room that was measured before.
pub(crate) struct Writer<'a>(&'a mut [u8]);

impl<'a> Writer<'a> {
    pub(crate) fn new(out: &'a mut [u8]) -> Writer<'a> {
        Writer(out)
    }

    pub(crate) fn put(&mut self, bytes: &[u8]) {
        let (here, rest) = std::mem::take(&mut self.0).split_at_mut(bytes.len());
        here.copy_from_slice(bytes);
        self.0 = rest;
    }

    pub(crate) fn rest(self) -> &'a mut [u8] {
        self.0
    }
}

/// Reads several slices as if they were one.
pub(crate) struct Gather<'a> {
    parts: &'a [&'a [u8]],
    offset: usize,
}

impl<'a> Gather<'a> {
    pub(crate) fn new(parts: &'a [&'a [u8]]) -> Gather<'a> {
        Gather { parts, offset: 0 }
    }

    /// Fills `out` with the next bytes; the parts hold at least as many.
    pub(crate) fn copy(&mut self, mut out: &mut [u8]) {
        while !out.is_empty() {
            let here = &self.parts[0][self.offset..];
            let n = here.len().min(out.len());
            let (front, rest) = out.split_at_mut(n);
            front.copy_from_slice(&here[..n]);
            out = rest;
            self.offset += n;
            if self.offset == self.parts[0].len() {
                (self.parts, self.offset) = (&self.parts[1..], 0);
            }
        }
    }
}

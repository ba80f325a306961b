use super::packer::Packer;
use super::send_error::SendError;
use super::topics::{Topic, TopicId, Topics};
use super::transport::SourceTransport;
use crate::wire::lbmc::{self, Chain, FRAG_LEN, MESSAGE_HEADER_LEN};
use counters::table::ReliableSource;
use units::{Nanos, Sqn};

/// Numbers the messages of topics and writes them into the datagram being filled.
pub(super) struct MessageWriter<'a, T> {
    pub(super) transport: &'a T,
    pub(super) topics: &'a mut Topics,
    pub(super) packer: &'a mut Packer,
    /// The longest message that is taken.
    pub(super) message_max: u32,
    pub(super) is_ending: bool,
    pub(super) counters: &'a ReliableSource,
}

impl<'a, T: SourceTransport> MessageWriter<'a, T> {
    fn known(&self, topic: TopicId) -> Result<&Topic, SendError> {
        if self.is_ending {
            return Err(SendError::Ended);
        }
        self.topics.get(topic).ok_or(SendError::UnknownTopic)
    }

    /// Writes a message without extension headers into the open datagram, which has room for it.
    #[inline]
    pub(super) fn write(
        self,
        now: Nanos,
        topic: TopicId,
        need: usize,
        parts: &[&[u8]],
    ) -> Result<Sqn, SendError> {
        let Some(state) = self.topics.get_mut(topic) else { return Err(SendError::UnknownTopic) };
        let sqn = state.take_number(now);
        let out = self.packer.next_bytes(need);
        let (header, mut body) = out.split_first_chunk_mut().expect("room for the header was counted in");
        *header = lbmc::plain_header(need, topic.index(), sqn);
        for part in parts {
            let (here, rest) = body.split_at_mut(part.len());
            here.copy_from_slice(part);
            body = rest;
        }
        self.packer.grown(self.transport, now, need);
        Ok(sqn)
    }

    /// The same where the message does not fit the open datagram.
    #[cold]
    #[inline(never)]
    pub(super) fn write_into_next(
        self,
        now: Nanos,
        topic: TopicId,
        len: usize,
        parts: &[&[u8]],
    ) -> Result<Sqn, SendError> {
        let need = MESSAGE_HEADER_LEN + len;
        if need > self.packer.payload_max() {
            return self.write_fragments(now, topic, &Chain::default(), len, parts);
        }
        self.known(topic)?;
        self.packer.reserve(self.transport, now, need)?;
        self.write(now, topic, need, parts)
    }

    /// Writes a message with extension headers.
    pub(super) fn write_with(
        mut self,
        now: Nanos,
        topic: TopicId,
        headers: &Chain,
        parts: &[&[u8]],
    ) -> Result<Sqn, SendError> {
        let len = gathered_len(parts);
        let need = MESSAGE_HEADER_LEN + headers.len() + len;
        if need > self.packer.payload_max() {
            return self.write_fragments(now, topic, headers, len, parts);
        }
        let sqn = self.known(topic)?.next;
        self.packer.reserve(self.transport, now, need)?;
        let mut out = Writer::new(self.packer.next_bytes(need));
        let mut header = lbmc::plain_header(need, topic.index(), sqn);
        header[1] = headers.first(0);
        out.put(&header);
        out.put(headers.bytes());
        parts.iter().for_each(|p| out.put(p));
        Ok(self.written(now, topic, need))
    }

    /// Room for a message of `len` bytes, which fit a datagram.
    pub(super) fn claim(self, now: Nanos, topic: TopicId, len: usize) -> Result<Claim<'a, T>, SendError> {
        self.known(topic)?;
        self.packer.reserve(self.transport, now, MESSAGE_HEADER_LEN + len)?;
        Ok(Claim { writer: self, now, topic, len })
    }

    /// Counts a message of `need` bytes that was written at the end of the open datagram.
    fn written(&mut self, now: Nanos, topic: TopicId, need: usize) -> Sqn {
        let state = self.topics.get_mut(topic).expect("the caller looked the topic up");
        let sqn = state.take_number(now);
        self.packer.grown(self.transport, now, need);
        sqn
    }

    /// Writes a message that is longer than fits a datagram, each fragment into its own.
    #[cold]
    fn write_fragments(
        mut self,
        now: Nanos,
        topic: TopicId,
        headers: &Chain,
        len: usize,
        parts: &[&[u8]],
    ) -> Result<Sqn, SendError> {
        let max = self.message_max as usize;
        let per_fragment = self.packer.payload_max() - MESSAGE_HEADER_LEN - FRAG_LEN;
        if len > max || headers.len() >= per_fragment {
            return Err(SendError::TooLong { bytes: len + headers.len(), max });
        }
        let first_sqn = self.known(topic)?.next;
        self.packer.reserve(self.transport, now, self.packer.payload_max())?;
        self.packer.reserve_datagrams((len + headers.len()).div_ceil(per_fragment) as u64)?;
        let mut gather = Gather::new(parts);
        let (mut done, mut last) = (0, first_sqn);
        while done < len {
            let own = if done == 0 { headers } else { &Chain::default() };
            let payload = (per_fragment - own.len()).min(len - done);
            let frag = Fragment { first_sqn, offset: done as u32, length: len as u32, payload };
            last = self.write_fragment(now, topic, own, frag, &mut gather);
            done += payload;
        }
        Ok(last)
    }

    fn write_fragment(
        &mut self,
        now: Nanos,
        topic: TopicId,
        headers: &Chain,
        frag: Fragment,
        gather: &mut Gather<'_>,
    ) -> Sqn {
        let need = MESSAGE_HEADER_LEN + FRAG_LEN + headers.len() + frag.payload;
        if need > self.packer.room() {
            self.packer.flush(self.transport);
            self.packer.open_datagram(now).expect("room for the whole message was made sure of");
        }
        let sqn = self.topics.get(topic).expect("the caller looked the topic up").next;
        let mut out = Writer::new(self.packer.next_bytes(need));
        out.put(&frag.message_header(need, topic.index(), sqn, headers.first(0)));
        out.put(headers.bytes());
        gather.copy(out.rest());
        self.counters.fragments_sent.inc();
        self.written(now, topic, need)
    }
}

/// Room for one message in the open datagram. Dropped without [`Claim::commit`], it leaves nothing behind.
pub struct Claim<'a, T> {
    writer: MessageWriter<'a, T>,
    now: Nanos,
    topic: TopicId,
    len: usize,
}

impl<T: SourceTransport> Claim<'_, T> {
    /// The payload, to be written; what it holds before is not defined.
    #[inline]
    pub fn payload(&mut self) -> &mut [u8] {
        &mut self.writer.packer.next_bytes(MESSAGE_HEADER_LEN + self.len)[MESSAGE_HEADER_LEN..]
    }

    /// Makes the message part of the datagram and returns its number.
    #[inline]
    pub fn commit(self) -> Sqn {
        let Claim { mut writer, now, topic, len } = self;
        let need = MESSAGE_HEADER_LEN + len;
        let sqn = writer.topics.get(topic).expect("looked up when it was claimed").next;
        let header = lbmc::plain_header(need, topic.index(), sqn);
        writer.packer.next_bytes(MESSAGE_HEADER_LEN).copy_from_slice(&header);
        writer.written(now, topic, need)
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

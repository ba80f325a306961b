use crate::config::{ConfigError, in_range};
use crate::presence::Query;
use crate::session::{Fragment, Gather, SendError, TSNI_LEN_MAX, TopicId, Topics, Writer, gathered_len};
use crate::wire::lbmc::{
    self, Chain, FRAG_LEN, Header, Kind, MESSAGE_HEADER_LEN, MESSAGE_LEN_MAX, TSNI_RECORDS_MAX,
};
use counters::table::LbmSource;
use std::sync::Arc;
use std::time::Duration;
use units::{Nanos, Sqn};

/// Where a session's messages go: memory that receivers, or connections to them, take them from.
pub trait Room {
    /// Room for one message.
    type Slot<'a>: Slot
    where
        Self: 'a;
    /// Whether no more messages are to be taken for now, though there may be room.
    fn is_blocked(&self) -> bool;
    /// Room for one LBMC message of exactly `len` bytes; `None` if there is none now.
    fn slot(&mut self, len: usize) -> Option<Self::Slot<'_>>;
    /// Whether `count` messages of up to `len` bytes each find room one after another now.
    fn can_hold(&self, count: usize, len: usize) -> bool;
}

/// Room for one message in one piece. Dropped without [`Slot::commit`], it leaves nothing behind.
pub trait Slot {
    /// The room, as long as was asked for.
    fn bytes(&mut self) -> &mut [u8];
    /// What was written is part of the stream.
    fn commit(self);
}

/// One session of TCP or shared memory, sending side.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OrderedConfig {
    /// Longest LBMC message, 500..=65,535 bytes: longer ones travel in fragments.
    pub datagram_max_size: u32,
    /// Longest message of the application; longer ones are refused.
    pub maximum_message_size: u32,
    /// Silence of a topic before its last number is announced, and between announcements.
    pub transport_topic_sequence_number_info_interval: Duration,
    /// For how long a silent topic is announced; zero for ever.
    pub transport_topic_sequence_number_info_active_threshold: Duration,
}

impl Default for OrderedConfig {
    fn default() -> OrderedConfig {
        OrderedConfig {
            datagram_max_size: 65_535,
            maximum_message_size: 8 << 20,
            transport_topic_sequence_number_info_interval: Duration::from_secs(1),
            transport_topic_sequence_number_info_active_threshold: Duration::from_secs(60),
        }
    }
}

impl OrderedConfig {
    /// Checks ranges.
    ///
    /// # Errors
    /// The first value out of range.
    pub fn check(&self) -> Result<(), ConfigError> {
        let datagram = u64::from(self.datagram_max_size);
        in_range("datagram_max_size", datagram, 500, MESSAGE_LEN_MAX as u64)?;
        in_range("maximum_message_size", u64::from(self.maximum_message_size), datagram, 1 << 30)
    }
}

/// The sending side of one session: topics, their numbers, the form of their messages.
///
/// The driver calls: `send` or `claim` any number of times, and `on_wakeup` at [`Source::next_wakeup`]. What
/// was written leaves as the transport sees fit.
pub struct Source {
    topics: Topics,
    len_max: usize,
    message_max: u32,
    has_ended: bool,
    /// Topics before this one have been announced for the last time; `None` when the end was said, or is not to be.
    ending: Option<usize>,
    announcements: Vec<(u32, Sqn)>,
    /// A control message being built.
    scratch: Vec<u8>,
    counters: Arc<LbmSource>,
}

/// Headers of announcements in one wake-up.
const HEADERS_PER_WAKEUP: usize = 16;

impl Source {
    /// A session with no topics yet.
    ///
    /// # Errors
    /// The first option out of range.
    pub fn new(config: &OrderedConfig, counters: Arc<LbmSource>) -> Result<Source, ConfigError> {
        config.check()?;
        Ok(Source {
            topics: Topics::new(
                config.transport_topic_sequence_number_info_interval,
                config.transport_topic_sequence_number_info_active_threshold,
            ),
            len_max: config.datagram_max_size as usize,
            message_max: config.maximum_message_size,
            has_ended: false,
            ending: None,
            announcements: Vec::with_capacity(TSNI_RECORDS_MAX),
            scratch: Vec::with_capacity(TSNI_LEN_MAX),
            counters,
        })
    }

    /// Adds a topic. Its index is chosen by the caller, unique within the session; its numbers begin at 0.
    pub fn add_topic(&mut self, now: Nanos, topic_index: u32) -> TopicId {
        self.add_topic_at(now, topic_index, Sqn(0))
    }

    /// The same with another number for the first message: a topic that the session had before goes on.
    pub fn add_topic_at(&mut self, now: Nanos, topic_index: u32, first: Sqn) -> TopicId {
        self.topics.add(now, topic_index, first)
    }

    /// Forgets a topic.
    pub fn remove_topic(&mut self, topic: TopicId) {
        self.topics.remove(topic);
    }

    /// The number the topic's next message, or first fragment of it, will have.
    #[must_use]
    pub fn next_sqn(&self, topic: TopicId) -> Option<Sqn> {
        self.topics.get(topic).map(|t| t.next)
    }

    /// The longest message that can be claimed.
    #[must_use]
    pub fn claim_max(&self) -> usize {
        self.len_max - MESSAGE_HEADER_LEN
    }

    /// Writes one message, gathered from `parts`, and returns its number: that of the last fragment if it is
    /// longer than fits one LBMC message.
    ///
    /// # Errors
    /// See [`SendError`]; nothing was taken.
    #[inline]
    pub fn send<R: Room>(
        &mut self,
        now: Nanos,
        topic: TopicId,
        parts: &[&[u8]],
        room: &mut R,
    ) -> Result<Sqn, SendError> {
        let len = gathered_len(parts);
        let need = MESSAGE_HEADER_LEN + len;
        if need > self.len_max || self.has_ended {
            return self.send_fragments(now, topic, &Chain::default(), len, parts, room);
        }
        let Some(state) = self.topics.get_mut(topic) else { return Err(SendError::UnknownTopic) };
        let Some(mut slot) = unless_blocked(room, need) else {
            self.counters.send_would_block.inc();
            return Err(SendError::WouldBlock);
        };
        let sqn = state.next;
        state.next = sqn.next();
        state.last_message = now;
        let out = slot.bytes();
        let (header, mut body) = out.split_first_chunk_mut().expect("room for the header was counted in");
        *header = lbmc::plain_header(need, topic.index(), sqn);
        for part in parts {
            let (here, rest) = body.split_at_mut(part.len());
            here.copy_from_slice(part);
            body = rest;
        }
        slot.commit();
        self.counters.lbm_msgs_sent.inc();
        self.counters.bytes_sent.add(need as u64);
        Ok(sqn)
    }

    /// Writes one message with extension headers. If it is fragmented, the headers travel with the first
    /// fragment.
    ///
    /// # Errors
    /// See [`SendError`]; nothing was taken.
    pub fn send_with<R: Room>(
        &mut self,
        now: Nanos,
        topic: TopicId,
        headers: &Chain,
        parts: &[&[u8]],
        room: &mut R,
    ) -> Result<Sqn, SendError> {
        let len = gathered_len(parts);
        let need = MESSAGE_HEADER_LEN + headers.len() + len;
        if headers.is_empty() || need > self.len_max || self.has_ended {
            return self.send_fragments(now, topic, headers, len, parts, room);
        }
        let sqn = self.topics.get(topic).ok_or(SendError::UnknownTopic)?.next;
        let mut header = lbmc::plain_header(need, topic.index(), sqn);
        header[1] = headers.first(0);
        let Some(mut slot) = unless_blocked(room, need) else {
            self.counters.send_would_block.inc();
            return Err(SendError::WouldBlock);
        };
        let mut out = Writer::new(slot.bytes());
        out.put(&header);
        out.put(headers.bytes());
        parts.iter().for_each(|part| out.put(part));
        slot.commit();
        self.count(now, topic, need);
        Ok(sqn)
    }

    /// Everything but a whole message without headers: longer ones in fragments.
    #[cold]
    #[inline(never)]
    fn send_fragments<R: Room>(
        &mut self,
        now: Nanos,
        topic: TopicId,
        headers: &Chain,
        len: usize,
        parts: &[&[u8]],
        room: &mut R,
    ) -> Result<Sqn, SendError> {
        if self.has_ended {
            return Err(SendError::Ended);
        }
        let first_sqn = self.topics.get(topic).ok_or(SendError::UnknownTopic)?.next;
        if MESSAGE_HEADER_LEN + len <= self.len_max && headers.is_empty() {
            return self.send(now, topic, parts, room);
        }
        let per_fragment = self.len_max - MESSAGE_HEADER_LEN - FRAG_LEN;
        let max = self.message_max as usize;
        if len > max || headers.len() >= per_fragment {
            return Err(SendError::TooLong { bytes: len + headers.len(), max });
        }
        let count = (len + headers.len()).div_ceil(per_fragment);
        if room.is_blocked() || !room.can_hold(count, self.len_max) {
            self.counters.send_would_block.inc();
            return Err(SendError::WouldBlock);
        }
        let mut gather = Gather::new(parts);
        let (mut done, mut sqn) = (0, first_sqn);
        let none = Chain::default();
        while done < len {
            let own = if done == 0 { headers } else { &none };
            let payload = (per_fragment - own.len()).min(len - done);
            let frag = Fragment { first_sqn, offset: done as u32, length: len as u32, payload };
            let need = MESSAGE_HEADER_LEN + FRAG_LEN + own.len() + payload;
            // Room for all fragments was made sure of; where it has gone meanwhile the message stays
            // unfinished, which its receivers are told as loss.
            let Some(mut slot) = room.slot(need) else {
                self.counters.send_would_block.inc();
                return Err(SendError::WouldBlock);
            };
            let mut out = Writer::new(slot.bytes());
            out.put(&frag.message_header(need, topic.index(), sqn, own.first(0)));
            out.put(own.bytes());
            gather.copy(out.rest());
            slot.commit();
            self.counters.fragments_sent.inc();
            self.count(now, topic, need);
            sqn = sqn.next();
            done += payload;
        }
        Ok(sqn.prev())
    }

    /// Counts a message of `need` bytes that was written.
    fn count(&mut self, now: Nanos, topic: TopicId, need: usize) {
        if let Some(state) = self.topics.get_mut(topic) {
            state.next = state.next.next();
            state.last_message = now;
        }
        self.counters.lbm_msgs_sent.inc();
        self.counters.bytes_sent.add(need as u64);
    }

    /// Reserves room for a message of exactly `len` bytes, to be written in place.
    ///
    /// # Errors
    /// See [`SendError`]; a claim cannot be longer than [`Source::claim_max`].
    #[inline]
    pub fn claim<'a, R: Room>(
        &'a mut self,
        now: Nanos,
        topic: TopicId,
        len: usize,
        room: &'a mut R,
    ) -> Result<Claim<'a, R>, SendError> {
        if len > self.claim_max() {
            return Err(SendError::TooLong { bytes: len, max: self.claim_max() });
        }
        if self.has_ended {
            return Err(SendError::Ended);
        }
        if self.topics.get(topic).is_none() {
            return Err(SendError::UnknownTopic);
        }
        let Some(slot) = unless_blocked(room, MESSAGE_HEADER_LEN + len) else {
            self.counters.send_would_block.inc();
            return Err(SendError::WouldBlock);
        };
        Ok(Claim { source: self, slot, now, topic, len })
    }

    /// Announces topics that have been silent, so that a receiver that was passed over learns of the tail.
    pub fn on_wakeup<R: Room>(&mut self, now: Nanos, room: &mut R) {
        if self.has_ended {
            return self.end(room);
        }
        for _ in 0..HEADERS_PER_WAKEUP {
            if now < self.topics.scan_at() || room.slot(TSNI_LEN_MAX).is_none() {
                return;
            }
            self.announcements.clear();
            self.topics.silent(now, TSNI_RECORDS_MAX, &mut self.announcements);
            self.write_announcements(room);
        }
    }

    /// When [`Source::on_wakeup`] is to be called at the latest.
    #[must_use]
    pub fn next_wakeup(&self) -> Nanos {
        if self.has_ended { Nanos::NEVER } else { self.topics.scan_at() }
    }

    /// Ends the session: announces the last number of each topic and says that it is over. Later sends are
    /// refused. Where there is no room it goes on when it is called again, or [`Source::on_wakeup`] is;
    /// [`Source::has_said_end`] tells when all was said.
    pub fn end<R: Room>(&mut self, room: &mut R) {
        if !std::mem::replace(&mut self.has_ended, true) {
            self.ending = Some(0);
        }
        while let Some(from) = self.ending {
            if room.slot(TSNI_LEN_MAX).is_none() {
                return;
            }
            if from == self.topics.len() {
                self.scratch.clear();
                lbmc::emit_message(&mut self.scratch, Kind::EndOfTransport, None, &Chain::default(), None);
                self.write_scratch(room);
                self.ending = None;
                return;
            }
            self.announcements.clear();
            self.ending = Some(self.topics.all_spoken(from, TSNI_RECORDS_MAX, &mut self.announcements));
            self.write_announcements(room);
        }
    }

    /// Whether the session was ended and all of that was said.
    #[must_use]
    pub fn has_said_end(&self) -> bool {
        self.has_ended && self.ending.is_none()
    }

    /// Writes what names the session of a TCP connection; to be sent first.
    pub fn session_header(session_id: u32, out: &mut Vec<u8>) {
        let mut chain = Chain::default();
        chain.push(&Header::TcpSessionId { flags: 0, session_id });
        lbmc::emit_message(out, Kind::Control, None, &chain, None);
    }

    fn write_announcements<R: Room>(&mut self, room: &mut R) {
        if !self.announcements.is_empty() {
            self.scratch.clear();
            lbmc::emit_tsni(&mut self.scratch, &self.announcements);
            self.counters.tsni_sent.add(self.announcements.len() as u64);
            self.write_scratch(room);
        }
    }

    fn write_scratch<R: Room>(&mut self, room: &mut R) {
        write_control(&self.scratch, room);
    }
}

/// Asks the receivers of a session that has not ended, in the stream; false if there is no room now.
pub fn ask_receivers<R: Room>(query: &Query, room: &mut R) -> bool {
    let mut message = Vec::new();
    query.emit(&mut message);
    !room.is_blocked() && write_control(&message, room)
}

/// Writes a control message, if there is room.
fn write_control<R: Room>(message: &[u8], room: &mut R) -> bool {
    let Some(mut slot) = room.slot(message.len()) else { return false };
    slot.bytes().copy_from_slice(message);
    slot.commit();
    true
}

#[inline]
fn unless_blocked<R: Room>(room: &mut R, len: usize) -> Option<R::Slot<'_>> {
    if room.is_blocked() { None } else { room.slot(len) }
}

/// Room for one message. Dropped without [`Claim::commit`], it leaves nothing behind.
pub struct Claim<'a, R: Room + 'a> {
    source: &'a mut Source,
    slot: R::Slot<'a>,
    now: Nanos,
    topic: TopicId,
    len: usize,
}

impl<R: Room> Claim<'_, R> {
    /// The payload, to be written; what it holds before is not defined.
    #[inline]
    pub fn payload(&mut self) -> &mut [u8] {
        &mut self.slot.bytes()[MESSAGE_HEADER_LEN..]
    }

    /// Makes it a message and returns its number.
    #[inline]
    pub fn commit(self) -> Sqn {
        let Claim { source, mut slot, now, topic, len } = self;
        let need = MESSAGE_HEADER_LEN + len;
        let sqn = source.topics.get(topic).expect("looked up when it was claimed").next;
        let header = lbmc::plain_header(need, topic.index(), sqn);
        slot.bytes()[..MESSAGE_HEADER_LEN].copy_from_slice(&header);
        slot.commit();
        source.count(now, topic, need);
        sqn
    }
}

use super::fill::{Claim, Cover, Open, Writer, gathered_len};
use super::framing::Framing;
use super::inquiry::Inquiry;
use super::pace::Pace;
use super::silence::SessionMessageSchedule;
use super::topics::{TopicId, Topics};
use super::window::Window;
use crate::config::{ConfigError, SourceConfig};
use crate::encryption::{Encryptor, PayloadKeys, Salt, SessionName};
use crate::presence::Answer;
use crate::rate::TokenBucket;
use crate::wire::lbmc::{self, CONTROL_HEADER_LEN, Chain, MESSAGE_HEADER_LEN, TSNI_RECORDS_MAX};
use counters::table::LbtrmSource;
use std::fmt;
use std::net::SocketAddrV4;
use std::sync::Arc;
use std::time::Duration;
use units::{Nanos, Sqn};

/// The sending side of one transport session: [`rm::Source`](crate::rm::Source) or
/// [`ru::Source`](crate::ru::Source).
///
/// Messages of any topic of the session are appended to the open datagram, which lies at its final place in
/// the transmission window: nothing is copied again. A datagram is closed when the next message does not
/// fit, when it has the configured length, when its oldest message has waited long enough, or by
/// [`Source::flush`]. Closed datagrams, retransmissions, session messages and NAK confirmations come out of
/// the transport's `poll_transmit`.
///
/// The driver calls: `send` or `claim` any number of times, `flush` when there is nothing more to send,
/// `poll_transmit` and `sent` until there is nothing to transmit, `on_datagram` for what arrives at the
/// unicast port, `on_wakeup` at `next_wakeup`.
pub struct Source<T> {
    /// What the transport has of its own: how DATA begins, whom datagrams go to, what is said to them.
    pub(crate) transport: T,
    pub(crate) window: Window,
    pub(super) open: Open,
    /// Encrypts the messages of datagrams, where that is wanted.
    pub(super) encryptor: Option<Box<Encryptor>>,
    /// Bytes that encryption adds before and behind the messages; 0 without.
    pub(super) cover: Cover,
    pub(super) topics: Topics,
    pub(crate) data_limit: TokenBucket,
    pub(crate) repeat_limit: TokenBucket,
    /// The rate, if congestion control moves it.
    pub(super) pace: Option<Box<Pace>>,
    /// What it asks its receivers, and what they answer.
    pub(super) inquiry: Inquiry,
    /// How often each datagram goes out.
    pub(crate) copies: u64,
    pub(crate) schedule: SessionMessageSchedule,
    pub(crate) datagram_max: usize,
    pub(crate) run_count_max: u32,
    pub(crate) run_bytes_max: u64,
    /// Bytes at which a datagram is closed; above all while an explicit batch is held.
    pub(super) batch_len: usize,
    /// The same without an explicit batch.
    implicit_len: usize,
    pub(super) batch_wait: Duration,
    /// An explicit batch is open.
    pub(super) is_held: bool,
    pub(super) backlog_max: u64,
    pub(super) message_max: u32,
    pub(crate) ending: Ending,
    /// It was ended before it had sent anything.
    pub(super) ends_silent: bool,
    /// When a receiver last asked for something.
    pub(crate) asked: Nanos,
    pub(super) announcements: Vec<(u32, Sqn)>,
    /// A control message being built.
    pub(super) scratch: Vec<u8>,
    pub(crate) sent: SentTotals,
    pub(crate) counters: Arc<LbtrmSource>,
}

/// How far the end of the session has been said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    No,
    /// Topics before this one have been announced for the last time.
    Announcing(usize),
    Done,
}

/// Bytes of the longest control message that announces topics.
pub(crate) const TSNI_LEN_MAX: usize = CONTROL_HEADER_LEN + 4 + 8 * TSNI_RECORDS_MAX;

/// What one session has sent; the counters are those of all sessions together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SentTotals {
    /// Datagrams sent for the first time; of LBT-RU once for each client.
    pub datagrams: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Datagrams sent again.
    pub retransmissions: u64,
    /// Their bytes.
    pub retransmitted_bytes: u64,
}

/// Why a message was not taken.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendError {
    /// The backlog is full: call again after some of it was sent. Nothing of the message was taken.
    WouldBlock,
    /// The message is longer than may be sent, or claimed, at once.
    TooLong {
        /// Its length.
        bytes: usize,
        /// The limit.
        max: usize,
    },
    /// The topic was removed, or is another session's.
    UnknownTopic,
    /// [`Source::end`] was called.
    Ended,
    /// The session is one of the process that this one was forked from. Whoever owns sessions says so: here nothing
    /// is known of processes.
    Forked,
}

impl fmt::Display for SendError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            SendError::WouldBlock => f.write_str("the backlog is full"),
            SendError::TooLong { bytes, max } => {
                write!(f, "a message of {bytes} bytes is above the limit of {max}")
            }
            SendError::UnknownTopic => f.write_str("the topic is not one of this session"),
            SendError::Ended => f.write_str("the session has ended"),
            SendError::Forked => f.write_str(
                "the session is its parent's: a child made by fork cannot use it and makes its own",
            ),
        }
    }
}

impl std::error::Error for SendError {}

impl<T: Framing> Source<T> {
    /// A session with no topics yet, whose first datagram has the number `first`.
    ///
    /// # Errors
    /// The first option that is out of range or contradicts another.
    pub(crate) fn with_transport(
        config: &SourceConfig,
        transport: T,
        first: Sqn,
        now: Nanos,
        counters: Arc<LbtrmSource>,
    ) -> Result<Source<T>, ConfigError> {
        config.check()?;
        let depth_min = 2 * u64::from(config.datagram_max_size);
        let bucket = |bps| TokenBucket::new(bps, config.rate_interval, depth_min, now);
        let mut source = Source {
            transport,
            window: Window::new(config.transmission_window_size as usize, first),
            open: Open::NONE,
            encryptor: None,
            cover: Cover::NONE,
            topics: Topics::new(
                config.transport_topic_sequence_number_info_interval,
                config.transport_topic_sequence_number_info_active_threshold,
            ),
            data_limit: bucket(config.data_rate_limit),
            repeat_limit: bucket(config.retransmit_rate_limit),
            pace: Pace::new(config, now),
            inquiry: Inquiry::default(),
            copies: 1,
            schedule: SessionMessageSchedule::new(
                config.sm_minimum_interval,
                config.sm_maximum_interval,
                now,
            ),
            datagram_max: config.datagram_max_size as usize,
            run_count_max: config.transmit_run_maximum_count,
            run_bytes_max: u64::from(config.transmit_run_maximum_bytes),
            batch_len: config.implicit_batching_minimum_length as usize,
            implicit_len: config.implicit_batching_minimum_length as usize,
            is_held: false,
            batch_wait: config.implicit_batching_interval,
            backlog_max: config.transport_session_maximum_buffer,
            message_max: config.maximum_message_size,
            ending: Ending::No,
            ends_silent: false,
            asked: Nanos::ZERO,
            announcements: Vec::with_capacity(lbmc::TSNI_RECORDS_MAX),
            scratch: Vec::with_capacity(TSNI_LEN_MAX),
            sent: SentTotals::default(),
            counters,
        };
        source.apply_rate(now);
        Ok(source)
    }

    /// Whether no message was taken yet.
    pub(crate) fn is_untouched(&self) -> bool {
        self.window.count() == 0 && self.open.room == 0
    }

    /// Encrypts all messages, from the first one on.
    ///
    /// # Panics
    /// If a message was sent before.
    pub(crate) fn encrypt_as(&mut self, name: SessionName, keys: &PayloadKeys, salt: Salt) {
        assert!(self.is_untouched(), "a session is encrypted from its first datagram on");
        self.encryptor = Some(Box::new(Encryptor::new(keys, name, salt, self.window.next())));
        self.cover = Cover::ENCRYPTED;
    }

    /// Goes on with other keys, if messages are encrypted: what is closed from now on is encrypted with the new one.
    pub fn rekey_payloads(&mut self, keys: &PayloadKeys) {
        if let Some(encryptor) = &mut self.encryptor {
            encryptor.rekey(keys, self.window.count());
        }
    }

    /// Adds a topic. Its index is chosen by the caller, unique within the session; its numbers begin at 0.
    ///
    /// # Panics
    /// In debug builds, if the index is in use: two topics under one index cannot be told apart by receivers.
    pub fn add_topic(&mut self, now: Nanos, topic_index: u32) -> TopicId {
        self.add_topic_at(now, topic_index, Sqn(0))
    }

    /// The same with another number for the first message. Topics begin at 0; a test of the wrap does not.
    pub fn add_topic_at(&mut self, now: Nanos, topic_index: u32, first: Sqn) -> TopicId {
        debug_assert!(!self.topics.contains_index(topic_index), "topic index {topic_index} is in use");
        self.topics.add(now, topic_index, first)
    }

    /// Forgets a topic; its messages in the window are still retransmitted, and its last number is announced
    /// once more, so that receivers know what they lack.
    pub fn remove_topic(&mut self, topic: TopicId) {
        self.topics.remove(topic);
    }

    /// Whether messages that need another datagram would be refused now; over once `sent` took
    /// enough away.
    #[must_use]
    pub fn is_blocked(&self) -> bool {
        self.window.unsent_bytes() >= self.backlog_max
    }

    /// What this session has sent.
    #[must_use]
    pub fn sent_totals(&self) -> SentTotals {
        self.sent
    }

    /// The number the topic's next message, or first fragment of it, will have.
    #[must_use]
    pub fn next_sqn(&self, topic: TopicId) -> Option<Sqn> {
        self.topics.get(topic).map(|t| t.next)
    }

    /// Appends one message, gathered from `parts`, and returns its number: that of the last fragment if it is
    /// longer than fits a datagram.
    ///
    /// # Errors
    /// See [`SendError`]; nothing was taken.
    #[inline]
    pub fn send(&mut self, now: Nanos, topic: TopicId, parts: &[&[u8]]) -> Result<Sqn, SendError> {
        let len = gathered_len(parts);
        let need = MESSAGE_HEADER_LEN + len;
        if need > self.open.room {
            return self.send_into_next(now, topic, len, parts);
        }
        self.append(now, topic, need, parts)
    }

    /// Appends one message with extension headers. If it is fragmented, the headers travel with the first
    /// fragment.
    ///
    /// # Errors
    /// See [`SendError`]; nothing was taken.
    pub fn send_with(
        &mut self,
        now: Nanos,
        topic: TopicId,
        headers: &Chain,
        parts: &[&[u8]],
    ) -> Result<Sqn, SendError> {
        if headers.is_empty() {
            return self.send(now, topic, parts);
        }
        let len = gathered_len(parts);
        let need = MESSAGE_HEADER_LEN + headers.len() + len;
        if need > self.payload_max() {
            return self.send_fragments(now, topic, headers, len, parts);
        }
        self.known(topic)?;
        self.reserve(now, need)?;
        let sqn = self.topics.get_mut(topic).ok_or(SendError::UnknownTopic)?.next;
        let mut out = Writer::new(self.window.bytes_mut(self.open.at, need));
        let mut header = lbmc::plain_header(need, topic.index(), sqn);
        header[1] = headers.first(0);
        out.put(&header);
        out.put(headers.bytes());
        parts.iter().for_each(|p| out.put(p));
        Ok(self.appended(now, topic, need))
    }

    /// Reserves room for a message of exactly `len` bytes in the open datagram, to be written in place.
    ///
    /// # Errors
    /// See [`SendError`]; a claim cannot be longer than fits one datagram.
    pub fn claim(&mut self, now: Nanos, topic: TopicId, len: usize) -> Result<Claim<'_, T>, SendError> {
        let max = self.claim_max();
        if len > max {
            return Err(SendError::TooLong { bytes: len, max });
        }
        self.known(topic)?;
        self.reserve(now, MESSAGE_HEADER_LEN + len)?;
        Ok(Claim::new(self, now, topic, len))
    }

    /// The longest message that fits one datagram.
    #[must_use]
    pub fn claim_max(&self) -> usize {
        self.payload_max() - MESSAGE_HEADER_LEN
    }

    /// Closes the open datagram, so that [`Source::poll_transmit`] hands it out.
    pub fn flush(&mut self) {
        if self.open.messages > 0 {
            self.close();
        }
    }

    /// An explicit batch begins, or is over. As long as one is open, datagrams are closed only when they are
    /// full or by [`Source::flush`]: implicit batching and the announcements of silent topics wait.
    pub fn hold(&mut self, is_held: bool) {
        self.is_held = is_held;
        self.batch_len = if is_held { usize::MAX } else { self.implicit_len };
    }

    /// Does what is due: closes a datagram whose oldest message has waited long enough, announces silent
    /// topics, goes on with ending the session.
    pub(crate) fn wake(&mut self, now: Nanos) {
        if self.batch_due() <= now {
            self.flush();
        }
        if self.announcing_due() <= now {
            self.announce(now);
        }
    }

    /// When [`Source::wake`] has something to do.
    pub(crate) fn wakeup_due(&self) -> Nanos {
        self.batch_due().min(self.announcing_due())
    }

    /// Ends the session: announces the last number of each topic and sends an end-of-transport message, all
    /// of it recoverable like data. Later sends are refused; the driver goes on transmitting, answering
    /// NAKs and waking for as long as receivers may need to recover the tail (their NAK generation
    /// interval).
    ///
    /// If the backlog is full, `on_wakeup` goes on with it; [`Source::has_ended`] tells when all
    /// was said.
    pub fn end(&mut self, now: Nanos) {
        if self.ending == Ending::No {
            self.flush();
            self.open = Open::NONE;
            self.ends_silent = !self.has_spoken();
            self.ending = Ending::Announcing(0);
            self.announce(now);
        }
    }

    /// Whether everything was said and sent.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.ending == Ending::Done && self.window.unsent_count() == 0
    }

    /// What the receivers are asked, and what they answer.
    pub fn inquiry(&mut self) -> &mut Inquiry {
        &mut self.inquiry
    }

    /// Takes what a NAK of no numbers says, if that is an answer.
    pub(crate) fn on_answer(&mut self, from: SocketAddrV4, trailer: &[u8]) -> bool {
        let Some(answer) = Answer::find(trailer) else { return false };
        if !self.inquiry.take(from, answer) {
            self.counters.nak_pckts_dropped.inc();
        }
        true
    }

    /// Memory held by window and topics.
    pub(crate) fn parts_memory_bytes(&self) -> usize {
        let small = self.scratch.capacity() + self.announcements.capacity() * size_of::<(u32, Sqn)>();
        let pace = self.pace.as_ref().map_or(0, |p| p.memory_bytes());
        let encryption = self.encryptor.as_ref().map_or(0, |e| e.memory_bytes());
        let inquiry = self.inquiry.memory_bytes();
        self.window.memory_bytes() + self.topics.memory_bytes() + pace + encryption + inquiry + small
    }
}

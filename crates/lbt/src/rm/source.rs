use super::announce::{Ending, TSNI_LEN_MAX};
use super::fill::{Claim, Open, Writer, gathered_len};
use super::retransmit::Retransmitter;
use super::silence::SessionMessageSchedule;
use super::topics::{TopicId, Topics};
use super::transmit::Lent;
use super::window::Window;
use crate::config::{ConfigError, SourceConfig};
use crate::error::{Part, WireError};
use crate::rate::TokenBucket;
use crate::wire::lbmc::{self, Chain, MESSAGE_HEADER_LEN};
use crate::wire::lbtrm::{DATA_HEADER_LEN, Packet, SessionHeader};
use counters::table::LbtrmSource;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use units::{Nanos, Sqn};

/// The sending side of one LBT-RM transport session.
///
/// Messages of any topic of the session are appended to the open datagram, which lies at its final place in
/// the transmission window: nothing is copied again. A datagram is closed when the next message does not
/// fit, when it has the configured length, when its oldest message has waited long enough, or by
/// [`Source::flush`]. Closed datagrams, retransmissions, session messages and NAK confirmations come out of
/// [`Source::poll_transmit`].
///
/// The driver calls: `send` or `claim` any number of times, `flush` when there is nothing more to send,
/// `poll_transmit` and `sent` until there is nothing to transmit, `on_datagram` for what arrives at the
/// unicast port, `on_wakeup` at [`Source::next_wakeup`].
pub struct Source {
    pub(super) session: SessionHeader,
    pub(super) window: Window,
    pub(super) open: Open,
    pub(super) topics: Topics,
    pub(super) repeats: Retransmitter,
    pub(super) data_limit: TokenBucket,
    pub(super) repeat_limit: TokenBucket,
    pub(super) schedule: SessionMessageSchedule,
    pub(super) lent: Lent,
    /// A session message or NAK confirmation being handed out.
    pub(super) control: Vec<u8>,
    pub(super) datagram_max: usize,
    pub(super) run_count_max: u32,
    pub(super) run_bytes_max: u64,
    pub(super) batch_len: usize,
    pub(super) batch_wait: Duration,
    pub(super) backlog_max: u64,
    pub(super) message_max: u32,
    pub(super) ending: Ending,
    pub(super) announcements: Vec<(u32, Sqn)>,
    /// A control message being built.
    pub(super) scratch: Vec<u8>,
    pub(super) counters: Arc<LbtrmSource>,
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
        }
    }
}

impl std::error::Error for SendError {}

impl Source {
    /// A session with no topics yet. `session` holds the port at which NAKs are received and an id that is
    /// drawn anew for each session.
    ///
    /// # Errors
    /// The first option that is out of range or contradicts another.
    pub fn new(
        config: &SourceConfig,
        session: SessionHeader,
        now: Nanos,
        counters: Arc<LbtrmSource>,
    ) -> Result<Source, ConfigError> {
        Source::starting_at(config, session, Sqn(0), now, counters)
    }

    /// The same with another number for the first datagram. Sessions begin at 0; a test of the wrap does not.
    ///
    /// # Errors
    /// As [`Source::new`].
    pub fn starting_at(
        config: &SourceConfig,
        session: SessionHeader,
        first: Sqn,
        now: Nanos,
        counters: Arc<LbtrmSource>,
    ) -> Result<Source, ConfigError> {
        config.check()?;
        let repeat_bps = config.transport_lbtrm_retransmit_rate_limit;
        let depth_min = 2 * u64::from(config.transport_lbtrm_datagram_max_size);
        let bucket = |bps| TokenBucket::new(bps, config.transport_lbtrm_rate_interval, depth_min, now);
        Ok(Source {
            session,
            window: Window::new(config.transport_lbtrm_transmission_window_size as usize, first),
            open: Open::NONE,
            topics: Topics::new(
                config.transport_topic_sequence_number_info_interval,
                config.transport_topic_sequence_number_info_active_threshold,
            ),
            repeats: Retransmitter::new(
                repeat_bps != 0,
                config.transport_lbtrm_ignore_interval,
                config.transport_lbtrm_retransmit_queue_maximum as usize,
            ),
            data_limit: bucket(config.transport_lbtrm_data_rate_limit),
            repeat_limit: bucket(repeat_bps),
            schedule: SessionMessageSchedule::new(
                config.transport_lbtrm_sm_minimum_interval,
                config.transport_lbtrm_sm_maximum_interval,
            ),
            lent: Lent::Nothing,
            control: Vec::with_capacity(config.transport_lbtrm_datagram_max_size as usize),
            datagram_max: config.transport_lbtrm_datagram_max_size as usize,
            run_count_max: config.transmit_run_maximum_count,
            run_bytes_max: u64::from(config.transmit_run_maximum_bytes),
            batch_len: config.implicit_batching_minimum_length as usize,
            batch_wait: config.implicit_batching_interval,
            backlog_max: config.transport_session_maximum_buffer,
            message_max: config.maximum_message_size,
            ending: Ending::No,
            announcements: Vec::with_capacity(lbmc::TSNI_RECORDS_MAX),
            scratch: Vec::with_capacity(TSNI_LEN_MAX),
            counters,
        })
    }

    /// Writes the whole window once, so that no page of it is first touched while sending.
    pub fn prefault(&mut self) {
        if self.window.count() == 0 && self.open.room == 0 {
            self.window.prefault();
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

    /// Forgets a topic; its messages in the window are still retransmitted.
    pub fn remove_topic(&mut self, topic: TopicId) {
        self.topics.remove(topic);
    }

    /// Whether messages that need another datagram would be refused now; over once [`Source::sent`] took
    /// enough away.
    #[must_use]
    pub fn is_blocked(&self) -> bool {
        self.window.unsent_bytes() >= self.backlog_max
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
        if need > self.datagram_max - DATA_HEADER_LEN {
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
    pub fn claim(&mut self, now: Nanos, topic: TopicId, len: usize) -> Result<Claim<'_>, SendError> {
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
        self.datagram_max - DATA_HEADER_LEN - MESSAGE_HEADER_LEN
    }

    /// Closes the open datagram, so that [`Source::poll_transmit`] hands it out.
    pub fn flush(&mut self) {
        if self.open.messages > 0 {
            self.close();
        }
    }

    /// Takes a datagram that arrived at the unicast port.
    ///
    /// # Errors
    /// It is no LBT-RM datagram. NAKs of other sessions and other types are counted and dropped.
    pub fn on_datagram(&mut self, now: Nanos, datagram: &[u8]) -> Result<(), WireError> {
        let packet = Packet::parse(datagram).inspect_err(|_| self.counters.nak_pckts_dropped.inc())?;
        match packet {
            Packet::Nak(nak) if nak.session == self.session && nak.is_selective() => {
                self.counters.nak_pckts_rcved.inc();
                let (window, limit) = (&mut self.window, &mut self.repeat_limit);
                self.repeats.on_nak(now, &nak, window, limit, &self.counters);
                Ok(())
            }
            Packet::Nak(nak) if nak.session != self.session => {
                self.counters.nak_pckts_dropped.inc();
                let (found, limit) = (nak.session.session_id, self.session.session_id);
                Err(WireError::Inconsistent { part: Part::LbtrmHeader, found, limit })
            }
            _ => {
                self.counters.nak_pckts_dropped.inc();
                Ok(())
            }
        }
    }

    /// Does what is due: closes a datagram whose oldest message has waited long enough, announces silent
    /// topics, goes on with ending the session.
    pub fn on_wakeup(&mut self, now: Nanos) {
        if self.batch_due() <= now {
            self.flush();
        }
        if self.announcing_due() <= now {
            self.announce(now);
        }
    }

    /// When [`Source::on_wakeup`] and [`Source::poll_transmit`] are to be called at the latest; in the past
    /// if there is something to transmit now.
    #[must_use]
    pub fn next_wakeup(&self) -> Nanos {
        let silence = self.announcing_due().min(self.schedule.due());
        self.transmit_due().min(self.batch_due()).min(silence)
    }

    /// Ends the session: announces the last number of each topic and sends an end-of-transport message, all
    /// of it recoverable like data. Later sends are refused; the driver goes on transmitting, answering
    /// NAKs and waking for as long as receivers may need to recover the tail (their NAK generation
    /// interval).
    ///
    /// If the backlog is full, [`Source::on_wakeup`] goes on with it; [`Source::has_ended`] tells when all
    /// was said. A session that never sent anything says nothing at its end.
    pub fn end(&mut self, now: Nanos) {
        if self.ending == Ending::No {
            self.flush();
            self.ending = Ending::Announcing(0);
            self.announce(now);
        }
    }

    /// Whether everything was said and sent.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.ending == Ending::Done && self.window.unsent_count() == 0
    }

    /// The session, as it stands in every datagram and in advertisements.
    #[must_use]
    pub fn session(&self) -> SessionHeader {
        self.session
    }

    /// Memory held: window, queues, topics.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        let scratch = self.control.capacity() + self.scratch.capacity();
        let small = scratch + self.announcements.capacity() * size_of::<(u32, Sqn)>();
        self.window.memory_bytes() + self.topics.memory_bytes() + self.repeats.memory_bytes() + small
    }
}

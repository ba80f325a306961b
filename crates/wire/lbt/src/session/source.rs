use super::announce::Announcer;
use super::closing::Unsent;
use super::fill::{Claim, MessageWriter, gathered_len};
use super::inquiry::Inquiry;
use super::packer::Packer;
use super::runs::RunId;
use super::send_error::SendError;
use super::topics::{TopicId, Topics};
use super::transmitter::{SentTotals, Transmitter};
use super::transport::SourceTransport;
use crate::authentication::Keys;
use crate::config::{ConfigError, SourceConfig};
use crate::encryption::{PayloadKeys, Salt, SessionName};
use crate::error::WireError;
use crate::wire::lbmc::{Chain, MESSAGE_HEADER_LEN};
use counters::table::ReliableSource;
use std::net::{Ipv4Addr, SocketAddrV4};
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
    transport: T,
    topics: Topics,
    packer: Packer,
    transmitter: Transmitter,
    announcer: Announcer,
    message_max: u32,
    /// It was ended before it had sent anything.
    ends_silent: bool,
    counters: Arc<ReliableSource>,
}

impl<T: SourceTransport> Source<T> {
    /// A session with no topics yet, whose first datagram has the number `first`.
    ///
    /// # Errors
    /// The first option that is out of range or contradicts another.
    pub(crate) fn with_transport(
        config: &SourceConfig,
        transport: T,
        first: Sqn,
        now: Nanos,
        counters: Arc<ReliableSource>,
    ) -> Result<Source<T>, ConfigError> {
        config.check()?;
        Ok(Source {
            transport,
            topics: Topics::new(
                config.transport_topic_sequence_number_info_interval,
                config.transport_topic_sequence_number_info_active_threshold,
            ),
            packer: Packer::new(config, T::DATA_HEADER_LEN, first, counters.clone()),
            transmitter: Transmitter::new(config, now, counters.clone()),
            announcer: Announcer::new(counters.clone()),
            message_max: config.maximum_message_size,
            ends_silent: false,
            counters,
        })
    }

    /// What the transport has of its own.
    #[inline]
    pub(crate) fn transport(&self) -> &T {
        &self.transport
    }

    /// The same to be changed, with the datagrams and what says when they go out.
    #[inline]
    pub(crate) fn parts(&mut self) -> (&mut T, &mut Packer, &mut Transmitter) {
        (&mut self.transport, &mut self.packer, &mut self.transmitter)
    }

    /// The datagrams of the session.
    pub(crate) fn packer(&self) -> &Packer {
        &self.packer
    }

    /// Signs all datagrams from now on, and takes only those of receivers that are signed. `address` is the one
    /// that receivers see these datagrams come from.
    ///
    /// # Panics
    /// If a message was sent before.
    pub fn authenticate(&mut self, keys: Keys, address: Ipv4Addr) {
        assert!(self.packer.is_untouched(), "a session is signed from its first datagram on");
        self.packer.authenticate(keys, address);
    }

    /// Says in every datagram which run of the source it is, so that receivers of a session that keeps its id know
    /// when it was started again. `run` is drawn anew at each start.
    ///
    /// # Panics
    /// If a message was sent before.
    pub fn set_run(&mut self, run: RunId) {
        assert!(self.packer.is_untouched(), "a run is said from its first datagram on");
        self.packer.set_run(run);
    }

    /// Goes on with other keys, if it has some at all: what is signed from now on is signed with the new one, and
    /// only what is signed with one of `keys` is taken.
    pub fn rekey(&mut self, keys: Keys) {
        self.packer.rekey(keys);
    }

    /// Encrypts all messages, from the first one on.
    ///
    /// # Panics
    /// If a message was sent before.
    pub(crate) fn encrypt_as(&mut self, name: SessionName, keys: &PayloadKeys, salt: Salt) {
        assert!(self.packer.is_untouched(), "a session is encrypted from its first datagram on");
        self.packer.encrypt_as(name, keys, salt);
    }

    /// Goes on with other keys, if messages are encrypted: what is closed from now on is encrypted with the new one.
    pub fn rekey_payloads(&mut self, keys: &PayloadKeys) {
        self.packer.rekey_payloads(keys);
    }

    /// Writes the whole window once, so that no page of it is first touched while sending.
    pub fn prefault(&mut self) {
        if self.packer.is_untouched() {
            self.packer.prefault();
            self.transport.prefault();
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
        self.packer.is_blocked()
    }

    /// What this session has sent.
    #[must_use]
    pub fn sent_totals(&self) -> SentTotals {
        self.transmitter.totals()
    }

    /// The number that the next datagram to be closed gets.
    #[must_use]
    pub fn next_datagram(&self) -> Sqn {
        self.packer.window().next()
    }

    /// Gives `each` the LBMC messages, in clear, of every datagram closed since number `from`, sent or not, and moves
    /// `from` behind them: for who [retains](crate::recovery::Responder::retain) them. To be called before
    /// more is sent than the window holds; what has left the window is passed over.
    pub fn written(&mut self, from: &mut Sqn, each: impl FnMut(&[u8])) {
        self.packer.written(from, each);
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
        if need > self.packer.room() {
            return self.writer().write_into_next(now, topic, len, parts);
        }
        self.writer().write(now, topic, need, parts)
    }

    #[inline]
    fn writer(&mut self) -> MessageWriter<'_, T> {
        MessageWriter {
            transport: &self.transport,
            topics: &mut self.topics,
            packer: &mut self.packer,
            message_max: self.message_max,
            is_ending: self.announcer.is_ending(),
            counters: &self.counters,
        }
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
        self.writer().write_with(now, topic, headers, parts)
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
        self.writer().claim(now, topic, len)
    }

    /// The longest message that fits one datagram.
    #[must_use]
    pub fn claim_max(&self) -> usize {
        self.packer.payload_max() - MESSAGE_HEADER_LEN
    }

    /// Closes the open datagram, so that the transport's `poll_transmit` hands it out.
    pub fn flush(&mut self) {
        self.packer.flush(&self.transport);
    }

    /// An explicit batch begins, or is over. As long as one is open, datagrams are closed only when they are
    /// full or by [`Source::flush`]: implicit batching and the announcements of silent topics wait.
    pub fn hold(&mut self, is_held: bool) {
        self.packer.hold(is_held);
    }

    /// Takes a datagram that arrived at the session's port, `from` whom.
    ///
    /// # Errors
    /// It is no datagram of the transport, not signed where it must be, or for another session. What receivers do
    /// not send is counted and dropped.
    pub fn on_datagram(&mut self, now: Nanos, from: SocketAddrV4, datagram: &[u8]) -> Result<(), WireError> {
        let Source { transport, packer, transmitter, announcer, .. } = self;
        transport.on_datagram(packer, transmitter, now, from, datagram, announcer.is_ending())
    }

    /// Takes the first `count` datagrams of what was handed out last as sent; where they go to several addresses,
    /// address by address.
    ///
    /// # Panics
    /// If more are named than were handed out.
    pub fn sent(&mut self, now: Nanos, count: u32) {
        self.transport.sent(&mut self.packer, &mut self.transmitter, now, count);
    }

    /// Does what is due: closes a datagram whose oldest message has waited long enough, announces silent
    /// topics, goes on with ending the session; LBT-RU drops clients that gave no sign of life.
    pub fn on_wakeup(&mut self, now: Nanos) {
        if self.packer.batch_due() <= now {
            self.flush();
        }
        if self.announcer.due(&self.topics, &self.packer) <= now {
            self.announce(now);
        }
        self.transport.on_wakeup(&mut self.packer, &mut self.transmitter, now);
    }

    /// Whoever drives this was stopped, and has taken what arrived meanwhile: clients of LBT-RU that were stopped as
    /// well get a quarter of their time-out to give a sign of life.
    pub fn after_pause(&mut self, now: Nanos) {
        self.transport.after_pause(now);
    }

    /// When [`Source::on_wakeup`] and the transport's `poll_transmit` are to be called at the latest; in the past
    /// if there is something to transmit now.
    #[must_use]
    pub fn next_wakeup(&self) -> Nanos {
        let own = self.packer.batch_due().min(self.announcer.due(&self.topics, &self.packer));
        own.min(self.transport.next_due(&self.packer, &self.transmitter))
    }

    /// Whether the transport's `poll_transmit` has nothing, to be asked behind a datagram that went out: a cheap
    /// answer to the question that comes after each flush. It may say no where there is nothing.
    #[inline]
    #[must_use]
    pub fn is_idle(&self, now: Nanos) -> bool {
        self.packer.window().unsent_count() == 0
            && self.transport.is_idle()
            && self.transmitter.pulse_due() > now
            && self.transmitter.silence_due() > now
    }

    /// Whether a retransmission or a NAK confirmation waits to be sent.
    #[must_use]
    pub fn owes_answers(&self) -> bool {
        self.transport.owes_answers()
    }

    fn announce(&mut self, now: Nanos) {
        self.announcer.announce(&mut self.topics, &mut self.packer, &self.transport, now);
    }

    /// Ends the session: announces the last number of each topic and sends an end-of-transport message, all
    /// of it recoverable like data. Later sends are refused; the driver goes on transmitting, answering
    /// NAKs and waking for as long as receivers may need to recover the tail (their NAK generation
    /// interval).
    ///
    /// If the backlog is full, `on_wakeup` goes on with it; [`Source::has_ended`] tells when all
    /// was said.
    pub fn end(&mut self, now: Nanos) {
        if !self.announcer.is_ending() {
            self.packer.end_messages(&self.transport);
            self.ends_silent = !self.has_spoken();
            self.announcer.end();
            self.announce(now);
        }
    }

    /// Whether everything was said and sent.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.announcer.has_ended() && self.packer.window().unsent_count() == 0
    }

    /// What was taken and has not been sent, the open datagram too. Looks at every message.
    #[must_use]
    pub fn unsent(&self) -> Unsent {
        self.packer.unsent()
    }

    /// When a receiver last asked for a retransmission; zero if none ever did.
    #[must_use]
    pub fn last_asked(&self) -> Nanos {
        self.transmitter.last_asked()
    }

    /// Whether there is anything that a receiver can lack: the end of a session that has sent nothing is not.
    #[must_use]
    pub fn has_spoken(&self) -> bool {
        !self.ends_silent && self.packer.has_messages()
    }

    /// Says the last number every `wait` from now on, as a session that ends has to: receivers that lost its
    /// last datagrams learn of it by that.
    pub fn hurry(&mut self, now: Nanos, wait: Duration) {
        self.transmitter.hurry(now, wait);
    }

    /// Ends the session without what was not sent: that is dropped, with everything that could be sent again,
    /// and the last numbers and the end go out at once, past the rate limit. Receivers that hear one of these
    /// datagrams report what they lack as loss.
    pub fn abandon(&mut self, now: Nanos) {
        self.end(now);
        self.flush();
        self.transport.forget_lent();
        if !self.has_spoken() {
            return;
        }
        self.packer.clear();
        self.topics.unsay();
        self.transmitter.lift_data_limit(now);
        self.announcer.end();
        self.announce(now);
    }

    /// After [`Source::abandon`]: hands out what that has said once more, since datagrams may be lost.
    pub fn repeat_end(&mut self) {
        self.transport.forget_lent();
        self.packer.rewind();
    }

    /// What the receivers are asked, and what they answer.
    pub fn inquiry(&mut self) -> &mut Inquiry {
        self.transmitter.inquiry()
    }

    /// Memory held: window, queues, topics, and what the transport has besides.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        let own = self.packer.memory_bytes() + self.topics.memory_bytes() + self.announcer.memory_bytes();
        own + self.transmitter.memory_bytes() + self.transport.memory_bytes()
    }
}

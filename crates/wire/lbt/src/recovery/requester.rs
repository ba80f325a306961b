use super::requests::Request;
use super::tap::Tap;
use super::topic::{Join, Shared, Topic};
use crate::config::{ConfigError, RecoveryConfig};
use crate::delivery::DeliverySink;
use crate::delivery::reassembly::AssemblyPool;
use crate::stream::StreamMessage;
use crate::wire::lbmc::{self, Chain, Header, Kind, MESSAGE_LEN_MAX, Message};
use counters::table::LbmRecovery;
use std::fmt;
use std::net::SocketAddrV4;
use std::sync::Arc;
use std::time::Duration;
use units::{Nanos, RecentMap, Sqn};

/// Late join and off-transport recovery of the topics of one transport session.
///
/// The driver calls: [`Requester::add_topic`] before it subscribes a topic with the session's receiver, and
/// gives [`Requester::tap`] to that receiver as its sink. While [`Requester::wants_connection`], it keeps a
/// connection to the source's request port, says [`Requester::on_connected`] and then
/// [`Requester::on_disconnected`], or [`Requester::on_refused`] if there is none to be had, sends what
/// [`Requester::poll_transmit`] gives while the connection's outbox has room, and hands on what the
/// connection's decoder gives to [`Requester::on_message`]. It calls [`Requester::on_wakeup`] at
/// [`Requester::next_wakeup`].
///
/// A topic is subscribed in topic order; one in order of arrival is not added, its loss is passed on as the
/// transport tells it.
pub struct Requester {
    /// The number of the session within its context, by which the source knows it.
    transport: u32,
    /// Where this side would take requests, which the field's requests name.
    own: SocketAddrV4,
    topics: Vec<Option<Topic>>,
    by_index: RecentMap<u32, u16>,
    free: Vec<u16>,
    /// The topics that wait for something, first the one that asks next.
    active: Vec<u16>,
    shared: Shared,
    connected: bool,
    /// When anything was last answered.
    answered: Nanos,
    next_id: u16,
    outstanding_max: usize,
    use_late_join: bool,
    interval: Duration,
    generation: Duration,
    topics_max: usize,
    out: Vec<u8>,
    chain: Chain,
}

/// Why a topic was not added.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecoveryError {
    /// It is there.
    AlreadyAdded {
        /// Its index.
        topic_index: u32,
    },
    /// The bound on topics is reached.
    TooMany {
        /// The bound.
        max: usize,
    },
}

impl fmt::Display for RecoveryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            RecoveryError::AlreadyAdded { topic_index } => {
                write!(f, "topic index {topic_index} is watched over already")
            }
            RecoveryError::TooMany { max } => write!(f, "{max} topics are watched over, which is the limit"),
        }
    }
}

impl std::error::Error for RecoveryError {}

/// Bytes of requests handed out at once, about.
const TRANSMIT_LEN: usize = 1 << 14;

impl Requester {
    /// A requester for the session that its source calls `transport`, as advertised
    /// ([`SourceRecord::late_join`](crate::resolution::SourceRecord::late_join)). `own` is this context's
    /// request port.
    ///
    /// # Errors
    /// The first option that is out of range or contradicts another.
    pub fn new(
        config: &RecoveryConfig,
        transport: u32,
        own: SocketAddrV4,
        counters: Arc<LbmRecovery>,
    ) -> Result<Requester, ConfigError> {
        config.check()?;
        let message_max = config.maximum_message_size;
        Ok(Requester {
            transport,
            own,
            topics: Vec::new(),
            by_index: RecentMap::default(),
            free: Vec::new(),
            active: Vec::new(),
            shared: Shared {
                pool: AssemblyPool::new(message_max, u64::from(message_max)),
                held_bytes: 0,
                held_bytes_max: config.hold_maximum_bytes as usize,
                held_count_max: config.retransmit_message_caching_proximity as usize,
                asked_max: u64::from(config.retransmit_request_maximum),
                use_otr: config.use_otr,
                delay: config.otr_request_initial_delay,
                counters,
            },
            connected: false,
            answered: Nanos::ZERO,
            next_id: 0,
            outstanding_max: config.retransmit_request_outstanding_maximum as usize,
            use_late_join: config.use_late_join,
            interval: config.retransmit_request_interval,
            generation: config.retransmit_request_generation_interval,
            topics_max: config.maximum_topics as usize,
            out: Vec::new(),
            chain: Chain::default(),
        })
    }

    /// Watches over a topic from now on. `token` is that of its subscription; `retained` says whether its
    /// source offers late join. Without, everything is passed on as the transport tells it.
    ///
    /// # Errors
    /// The topic is there, or there are too many.
    pub fn add_topic(
        &mut self,
        now: Nanos,
        topic_index: u32,
        token: u64,
        retained: bool,
    ) -> Result<(), RecoveryError> {
        self.add(now, topic_index, token, retained, retained && self.use_late_join)
    }

    /// The same for a topic that goes on where an earlier reception of it has ended: what is retained of before was
    /// heard, and is not asked for. What was sent meanwhile is, as what the transport has given up.
    ///
    /// # Errors
    /// As [`Requester::add_topic`].
    pub fn resume_topic(&mut self, now: Nanos, topic_index: u32, token: u64) -> Result<(), RecoveryError> {
        self.add(now, topic_index, token, true, false)
    }

    fn add(
        &mut self,
        now: Nanos,
        topic_index: u32,
        token: u64,
        retained: bool,
        joins_late: bool,
    ) -> Result<(), RecoveryError> {
        if self.by_index.get(topic_index).is_some() {
            return Err(RecoveryError::AlreadyAdded { topic_index });
        }
        if self.by_index.len() >= self.topics_max {
            return Err(RecoveryError::TooMany { max: self.topics_max });
        }
        let slot = self.free.pop().unwrap_or(self.topics.len() as u16);
        if usize::from(slot) == self.topics.len() {
            self.topics.push(None);
        }
        let join = match joins_late {
            true => Join::Asking { id: self.id_for(slot), again: Nanos::ZERO },
            false => Join::Done,
        };
        self.topics[usize::from(slot)] = Some(Topic::new(token, topic_index, retained, join, now));
        self.by_index.insert(topic_index, slot);
        if join != Join::Done {
            self.active.push(slot);
        }
        self.count();
        Ok(())
    }

    /// Drops a topic with all that waits for it; no event follows.
    pub fn remove_topic(&mut self, topic_index: u32) {
        let Some(slot) = self.by_index.remove(topic_index) else { return };
        if let Some(mut topic) = self.topics[usize::from(slot)].take() {
            topic.clear(&mut self.shared);
        }
        self.active.retain(|&s| s != slot);
        self.free.push(slot);
        self.count();
    }

    /// The sink for the session's receiver, which passes on to the application's.
    pub fn tap<'a, S: DeliverySink>(&'a mut self, now: Nanos, sink: &'a mut S) -> Tap<'a, S> {
        Tap { requester: self, now, sink }
    }

    /// Whether a connection to the source's request port is of use.
    #[must_use]
    pub fn wants_connection(&self) -> bool {
        !self.active.is_empty()
    }

    /// Whether nothing waits: with the session over, the requester may be dropped.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.active.is_empty()
    }

    /// A connection to the source stands.
    pub fn on_connected(&mut self) {
        self.connected = true;
        self.ask_again();
    }

    /// The connection is gone: what was asked for is asked again over the next one.
    pub fn on_disconnected(&mut self) {
        self.connected = false;
    }

    /// No connection can be had now. Of a topic whose session is over as well nobody is left to ask, and what
    /// it lacks is lost; the others wait for the next attempt.
    pub fn on_refused<S: DeliverySink>(&mut self, sink: &mut S) {
        self.connected = false;
        for slot in self.active.clone() {
            self.with(slot, |topic, shared| {
                if topic.has_ended() {
                    topic.give_up(shared, sink);
                }
            });
        }
    }

    /// Takes a message of the connection; false if it is none of this part's business.
    pub fn on_message<S: DeliverySink>(
        &mut self,
        now: Nanos,
        message: &StreamMessage<'_>,
        sink: &mut S,
    ) -> bool {
        match message.kind {
            Kind::Retransmission => self.on_retransmission(now, message, sink),
            Kind::Control => {
                let info = message.headers.iter().find_map(|header| match header {
                    Header::LateJoinInfo { low, high, request, .. } => Some((low, high, request)),
                    _ => None,
                });
                let Some((low, high, request)) = info else { return false };
                self.on_info(now, low, high, request, sink);
            }
            _ => return false,
        }
        true
    }

    /// What to send over the connection now; to be called until there is nothing.
    pub fn poll_transmit(&mut self, now: Nanos) -> Option<&[u8]> {
        if !self.connected {
            return None;
        }
        self.out.clear();
        let mut room = self.outstanding_max.saturating_sub(self.outstanding());
        for at in 0..self.active.len() {
            if self.out.len() >= TRANSMIT_LEN {
                break;
            }
            self.ask(now, self.active[at], &mut room);
        }
        if self.active.len() > 1 {
            self.active.rotate_left(1);
        }
        if self.out.is_empty() { None } else { Some(&self.out) }
    }

    /// Does what is due: gives up what nobody answers.
    pub fn on_wakeup<S: DeliverySink>(&mut self, now: Nanos, sink: &mut S) {
        for slot in self.active.clone() {
            if self.deadline(slot) <= now {
                self.with(slot, |topic, shared| topic.give_up(shared, sink));
            }
        }
    }

    /// When [`Requester::on_wakeup`] and [`Requester::poll_transmit`] are to be called at the latest.
    #[must_use]
    pub fn next_wakeup(&self) -> Nanos {
        let has_room = self.outstanding() < self.outstanding_max;
        let wakeup = |&slot: &u16| {
            let topic = self.topic(slot);
            if !self.connected {
                return self.deadline(slot);
            }
            // What waits for room, or for the range that is retained, is asked for when an answer has come.
            let (info, next) = match topic.join {
                Join::Asking { again: Nanos::ZERO, .. } if !has_room => (Nanos::NEVER, Nanos::NEVER),
                Join::Asking { again, .. } => (again, Nanos::NEVER),
                Join::Done if has_room => (Nanos::NEVER, topic.asks_at()),
                Join::Done => (Nanos::NEVER, Nanos::NEVER),
            };
            let again = match topic.requests.again() {
                Nanos::ZERO => Nanos::ZERO,
                again => again.max(self.quiet_until()),
            };
            info.min(again).min(next).min(self.deadline(slot))
        };
        self.active.iter().map(wakeup).min().unwrap_or(Nanos::NEVER)
    }

    /// Requests without an answer, and answers that wait for others before them.
    #[must_use]
    pub fn outstanding(&self) -> usize {
        self.active.iter().map(|&slot| self.topic(slot).requests.len()).sum()
    }

    /// Memory held, to about a tenth.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        let topics = self.topics.iter().flatten().map(Topic::memory_bytes).sum::<usize>();
        let table = self.topics.capacity() * size_of::<Option<Topic>>();
        topics + table + self.shared.pool.memory_bytes() + self.out.capacity()
    }

    // ---- private steps

    #[inline]
    pub(super) fn find(&mut self, topic_index: u32) -> Option<u16> {
        self.by_index.find(topic_index)
    }

    #[inline]
    pub(super) fn topic_mut(&mut self, slot: u16) -> &mut Topic {
        self.topics[usize::from(slot)].as_mut().expect("slots in use have topics")
    }

    fn topic(&self, slot: u16) -> &Topic {
        self.topics[usize::from(slot)].as_ref().expect("slots in use have topics")
    }

    /// Lets something happen to a topic, and sees to what follows for the others.
    pub(super) fn with<R>(&mut self, slot: u16, change: impl FnOnce(&mut Topic, &mut Shared) -> R) -> R {
        let topic = self.topics[usize::from(slot)].as_mut().expect("slots in use have topics");
        let before = topic.is_recovering();
        let result = change(topic, &mut self.shared);
        let after = topic.is_recovering();
        if before != after {
            if after {
                self.active.push(slot);
            } else {
                self.active.retain(|&s| s != slot);
            }
        }
        self.count();
        result
    }

    fn on_retransmission<S: DeliverySink>(&mut self, now: Nanos, message: &StreamMessage<'_>, sink: &mut S) {
        let Some(slot) = self.find(message.topic_index) else {
            return self.shared.counters.rxs_unexpected.inc();
        };
        let headers = message.headers;
        let answer = Message {
            kind: message.kind,
            topic_index: message.topic_index,
            sqn: message.sqn,
            headers,
            payload: Some(message.payload),
            len: 0,
        };
        let expected =
            self.with(slot, |topic, shared| topic.take_answer(now, &answer, || whole(&answer), shared, sink));
        if expected {
            self.answered = now;
            self.shared.counters.rxs_rcved.inc();
        } else {
            self.shared.counters.rxs_unexpected.inc();
        }
    }

    fn on_info<S: DeliverySink>(&mut self, now: Nanos, low: Sqn, high: Sqn, request: u32, sink: &mut S) {
        let slot = (request >> 16) as u16;
        let Some(Some(topic)) = self.topics.get(usize::from(slot)) else {
            return self.shared.counters.rxs_unexpected.inc();
        };
        let is_join = matches!(topic.join, Join::Asking { id, .. } if id == request);
        if is_join {
            self.answered = now;
            return self.with(slot, |topic, shared| topic.join(now, low, high, shared, sink));
        }
        let Some(number) = topic.requests.number_of(request) else {
            return self.shared.counters.rxs_unexpected.inc();
        };
        self.answered = now;
        self.with(slot, |topic, shared| topic.answer_gone(now, number, low, shared, sink));
    }

    /// Writes what a topic has to ask for.
    fn ask(&mut self, now: Nanos, slot: u16, room: &mut usize) {
        let interval = self.interval;
        let Some(mut topic) = self.topics[usize::from(slot)].take() else { return };
        if let Join::Asking { id, again } = topic.join
            && again <= now
            && (*room > 0 || again > Nanos::ZERO)
        {
            *room = room.saturating_sub(1);
            if again == Nanos::ZERO {
                topic.waits_since = now;
            }
            topic.join = Join::Asking { id, again: now + interval };
            self.shared.counters.info_requests_sent.inc();
            self.emit_info_request(topic.index, id);
        }
        let until = self.quiet_until();
        for request in
            topic.requests.open_mut().filter(|r| r.again == Nanos::ZERO || r.again.max(until) <= now)
        {
            request.again = now + interval;
            self.shared.counters.requests_repeated.inc();
            self.emit_request(topic.index, *request);
        }
        while *room > 0 && self.out.len() < TRANSMIT_LEN && topic.join == Join::Done {
            let Some(number) = topic.next_to_ask(now) else { break };
            if !topic.requests.has_open() {
                topic.waits_since = now;
            }
            let request = Request { number, id: self.id_for(slot), again: now + interval };
            topic.requests.push(request);
            *room -= 1;
            self.shared.counters.requests_sent.inc();
            self.emit_request(topic.index, request);
        }
        self.topics[usize::from(slot)] = Some(topic);
    }

    fn emit_info_request(&mut self, topic: u32, request: u32) {
        self.chain.clear();
        self.chain.push(&Header::LateJoinInfoRequest {
            flags: INFO_FLAGS,
            request,
            transport: self.transport,
            topic,
            ip: *self.own.ip(),
            port: self.own.port(),
            low: Sqn(0),
            request_max: u32::try_from(self.shared.asked_max).unwrap_or(u32::MAX),
            outstanding_max: self.outstanding_max as u32,
        });
        lbmc::emit_message(&mut self.out, Kind::Control, None, &self.chain, None);
    }

    fn emit_request(&mut self, topic: u32, request: Request) {
        self.chain.clear();
        self.chain.push(&Header::RetransmissionRequest {
            flags: 0,
            request: request.id,
            transport: self.transport,
            topic,
            sqn: Sqn(request.number as u32),
            port: self.own.port(),
            ip: *self.own.ip(),
        });
        lbmc::emit_message(&mut self.out, Kind::Control, None, &self.chain, None);
    }

    /// A number for a request, which says whose it is.
    fn id_for(&mut self, slot: u16) -> u32 {
        self.next_id = self.next_id.wrapping_add(1);
        u32::from(slot) << 16 | u32::from(self.next_id)
    }

    /// As long as answers come, nothing is asked again: the connection loses nothing, its other end is slow.
    fn quiet_until(&self) -> Nanos {
        self.answered + self.interval
    }

    /// Until when a topic waits without an answer. As long as it has not asked, because others do or there is
    /// no connection, the answers that others get count for it.
    fn deadline(&self, slot: u16) -> Nanos {
        let topic = self.topic(slot);
        let has_asked = topic.requests.has_open()
            || matches!(topic.join, Join::Asking { again, .. } if again > Nanos::ZERO);
        let since = if has_asked { topic.waits_since } else { topic.waits_since.max(self.answered) };
        since + self.generation
    }

    /// Whatever was asked over another connection is asked again at once.
    fn ask_again(&mut self) {
        for &slot in &self.active {
            let Some(topic) = &mut self.topics[usize::from(slot)] else { continue };
            topic.requests.open_mut().for_each(|request| request.again = Nanos::ZERO);
            if let Join::Asking { again, .. } = &mut topic.join
                && *again > Nanos::ZERO
            {
                *again = Nanos(1);
            }
        }
    }

    fn count(&self) {
        let counters = &self.shared.counters;
        counters.topics.set(self.by_index.len() as u64);
        counters.topics_recovering.set(self.active.len() as u64);
        counters.hold_bytes.set(self.shared.held_bytes as u64);
        counters.hold_bytes_max.raise(self.shared.held_bytes as u64);
    }
}

/// Flags of a question which messages are retained: the lowest number and the two bounds are given.
const INFO_FLAGS: u16 = 1 | 2 | 4;

/// The message with its headers as bytes, to be parsed again when it has its turn.
fn whole(message: &Message<'_>) -> Box<[u8]> {
    let mut out = Vec::new();
    let mut chain = Chain::default();
    message.headers.iter().for_each(|header| chain.push(&header));
    let topic = Some((message.topic_index, message.sqn));
    debug_assert!(chain.len() + message.data().len() < MESSAGE_LEN_MAX, "as long as it came");
    lbmc::emit_message(&mut out, message.kind, topic, &chain, message.payload);
    out.into_boxed_slice()
}

use super::limit::Limit;
use super::phase::{Phase, Phases, Schedule};
use super::record::IGNORABLE;
use super::resolver::{Advertisement, Query, Resolver};
use super::signature::Signer;
use super::step::STEP;
use crate::config::ResolverConfig;
use crate::wire::lbmr::{
    HEADER_LEN, Kind, PATTERN_PCRE, Packet, PacketOption, PacketOptions, QUERIES_MAX, Queries,
    Query as WireQuery, TopicRecords,
};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::net::Ipv4Addr;
use units::Nanos;

/// What is sent by its schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Subject {
    Advertisement,
    Query,
    Wildcard,
}

/// Which limit a record that waits goes by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lane {
    /// Initial records, and answers.
    Fast,
    /// The others.
    Slow,
}

const LANES: [Lane; 2] = [Lane::Fast, Lane::Slow];

/// The schedule of one record, and whether it waits in the outbox.
pub(super) struct Timer {
    pub(super) schedule: Schedule,
    /// The moment for which it stands in the heap.
    armed: Nanos,
    queued: Option<Lane>,
    /// When it was sent last.
    sent: Nanos,
    /// The queues in which it stands, perhaps to be passed over.
    stands_in: [bool; 2],
}

impl Timer {
    pub(super) fn begin(phases: &Phases, now: Nanos) -> Timer {
        let schedule = Schedule::begin(phases, now);
        Timer { schedule, armed: Nanos::NEVER, queued: None, sent: Nanos::ZERO, stands_in: [false; 2] }
    }

    /// What the record asks for was there and is missed: it is sent at once and for the sustaining phase, but
    /// not more often than in that, since what is found again may be lost at once again.
    pub(super) fn begin_again(&mut self, phases: &Phases, now: Nanos) {
        let due = now.max(self.sent + phases.sustain_interval);
        self.schedule.begin_again(phases, now, due);
    }

    /// The record is handed out.
    fn on_sent(&mut self, phases: &Phases, now: Nanos) {
        (self.queued, self.sent) = (None, now);
        if self.schedule.due() <= now {
            self.schedule.on_sent(phases, now);
        } else {
            self.schedule.on_answered(phases, now);
        }
    }
}

/// Records by the moment they are due.
pub(super) type Timers = BinaryHeap<Reverse<(Nanos, Subject, u32)>>;

/// Sees to it that a record is looked at when it is due. Each stands in the heap once, for the earliest
/// moment.
pub(super) fn arm(timers: &mut Timers, timer: &mut Timer, subject: Subject, slot: u32) {
    if timer.schedule.due() < timer.armed {
        timer.armed = timer.schedule.due();
        if timers.len() == timers.capacity() {
            timers.reserve_exact(units::places_to_reserve(timers.len(), size_of::<(Nanos, Subject, u32)>()));
        }
        timers.push(Reverse((timer.armed, subject, slot)));
    }
}

/// Records that wait to be sent, and the datagram being built.
pub(super) struct Outbox {
    datagram_max: usize,
    queues: [[VecDeque<u32>; 2]; 3],
    datagram: Vec<u8>,
    queries: Vec<u8>,
    records: Vec<u8>,
    options: Vec<u8>,
    has_options: bool,
    /// Bytes that each datagram leaves free.
    reserved: usize,
    /// The same datagram for a second network.
    second: Option<Second>,
}

/// What is sent on a second network.
struct Second {
    /// The address of this context's sources there.
    address: Ipv4Addr,
    records: Vec<u8>,
    datagram: Vec<u8>,
}

/// Records that are due and looked at in one step. Among a million each costs the better part of a microsecond, since
/// none is near the one before.
const COLLECTED_MAX: usize = 512;
/// Places of a queue whose records are gone, or are sent from another, that are passed over for one datagram.
const PASSED_MAX: usize = 1_024;
/// A quiescent query for what is known, and one for patterns, waits so many times longer.
const RESOLVED_TIMES: u32 = 6;

/// The version field as UM 6 fills it.
const VERSION: u32 = 0x0306_0000;
/// Values of the ttl field of the first advertisement and of the later ones.
const TTL_FIRST: u16 = 16;
const TTL: u16 = 60;

impl Outbox {
    pub(super) fn new(config: &ResolverConfig) -> Outbox {
        let mut options = Vec::new();
        if let Some(context) = config.packet_options {
            PacketOption::SourceId { flags: IGNORABLE, context }.emit(&mut options);
            PacketOption::SourceType { flags: 0x80, kind: 0 }.emit(&mut options);
            PacketOption::Version { flags: IGNORABLE, version: VERSION }.emit(&mut options);
            PacketOption::LocalDomain { flags: IGNORABLE, domain: 0 }.emit(&mut options);
        }
        Outbox {
            datagram_max: config.resolver_datagram_max_size as usize,
            queues: Default::default(),
            datagram: Vec::new(),
            queries: Vec::new(),
            records: Vec::new(),
            options,
            has_options: config.packet_options.is_some(),
            reserved: 0,
            second: None,
        }
    }

    /// What is added behind what is built: a signature.
    pub(super) fn reserve_signature(&mut self) {
        self.reserved = Signer::added_len(self.has_options);
    }

    pub(super) fn add_network(&mut self, address: Ipv4Addr) {
        self.second = Some(Second { address, records: Vec::new(), datagram: Vec::new() });
    }

    /// Begins a datagram.
    fn clear(&mut self) {
        self.queries.clear();
        self.records.clear();
        self.datagram.clear();
        if let Some(second) = &mut self.second {
            second.records.clear();
            second.datagram.clear();
        }
    }

    fn push_record(&mut self, ad: &Advertisement, ttl: u16, context: Option<[u8; 8]>) {
        ad.record.emit(&ad.topic, ttl, context, &mut self.records);
        if let Some(second) = &mut self.second {
            let record = ad.record.on_network(second.address);
            record.emit(&ad.topic, ttl, context, &mut second.records);
        }
    }

    pub(super) fn memory_bytes(&self) -> usize {
        let queues: usize = self.queues.iter().flatten().map(|q| q.capacity() * size_of::<u32>()).sum();
        let second = self.second.as_ref().map_or(0, |s| s.records.capacity() + s.datagram.capacity());
        queues + self.datagram.capacity() + self.queries.capacity() + self.records.capacity() + second
    }

    /// Puts a record into a queue of its kind, unless it waits in that or in a faster one.
    pub(super) fn enqueue(&mut self, timer: &mut Timer, subject: Subject, slot: u32, lane: Lane) {
        if timer.queued == Some(Lane::Fast) || timer.queued == Some(lane) {
            return;
        }
        timer.queued = Some(lane);
        if !std::mem::replace(&mut timer.stands_in[lane as usize], true) {
            self.queues[subject as usize][lane as usize].push_back(slot);
        }
    }

    fn front(&self, subject: Subject, lane: Lane) -> Option<u32> {
        self.queues[subject as usize][lane as usize].front().copied()
    }

    fn pop(&mut self, subject: Subject, lane: Lane) {
        self.queues[subject as usize][lane as usize].pop_front();
    }

    /// Takes the first of a queue out; whether it is still to be sent from there.
    fn pass_over(&mut self, timer: Option<&mut Timer>, subject: Subject, lane: Lane) -> bool {
        match timer {
            Some(timer) if timer.queued == Some(lane) => return false,
            Some(timer) => timer.stands_in[lane as usize] = false,
            None => {}
        }
        self.pop(subject, lane);
        true
    }

    /// Bytes that records may still take.
    fn room(&self) -> usize {
        // the options end with a length option of four bytes
        let options = if self.has_options { self.options.len() + 4 } else { 0 };
        self.datagram_max - HEADER_LEN - options - self.reserved - self.queries.len() - self.records.len()
    }

    fn build(&mut self, kind: Kind, queries: usize, records: usize) {
        let options = self.has_options.then_some(PacketOptions::written(&self.options));
        let packet = |bytes| Packet {
            version: u8::from(self.has_options),
            queries: Queries::written(queries as u8, kind == Kind::Wildcard, &self.queries),
            records: TopicRecords::written(records as u16, bytes),
            options,
            ..Packet::of(kind)
        };
        packet(&self.records).emit(&mut self.datagram);
        if let Some(second) = self.second.as_mut().filter(|_| records > 0) {
            packet(&second.records).emit(&mut second.datagram);
        }
    }
}

impl Resolver {
    /// The next datagram to send, if one is due and the rate limits allow it; to be called until there is
    /// none.
    pub fn poll_transmit(&mut self, now: Nanos) -> Option<&[u8]> {
        self.step(now);
        self.collect_due(now);
        self.outbox.clear();
        if let Some(kind) = self.keepalives.poll(now, self.advertisements.len() > 0) {
            Packet::of(kind).emit(&mut self.outbox.datagram);
            self.counters.keepalives_sent.inc();
            return Some(self.signed());
        }
        if self.requested != 0 {
            let mask = std::mem::take(&mut self.requested);
            Packet::of(Kind::ResolutionRequest(mask)).emit(&mut self.outbox.datagram);
            return Some(self.count_sent());
        }
        let wildcards = self.pack_queries(now, Subject::Wildcard);
        if wildcards > 0 {
            self.outbox.build(Kind::Wildcard, wildcards, 0);
            return Some(self.signed());
        }
        let queries = self.pack_queries(now, Subject::Query);
        let records = self.pack_advertisements(now);
        if queries + records == 0 {
            return None;
        }
        self.outbox.build(Kind::Normal, queries, records);
        Some(self.signed())
    }

    /// What [`Resolver::poll_transmit`] handed out last, as it is to be sent on the second network: with the
    /// addresses that sources have there.
    #[must_use]
    pub fn second(&self) -> &[u8] {
        let second = self.outbox.second.as_ref().map(|second| &second.datagram);
        second.filter(|datagram| !datagram.is_empty()).unwrap_or(&self.outbox.datagram)
    }

    /// When [`Resolver::poll_transmit`] is to be called at the latest; in the past if there is something to
    /// send now.
    #[must_use]
    pub fn next_wakeup(&self) -> Nanos {
        if self.requested != 0 {
            return Nanos::ZERO;
        }
        let timer = self.timers.peek().map_or(Nanos::NEVER, |t| t.0.0.max(self.collect_from));
        let own = timer.min(self.keepalives.due()).min(self.step_due());
        let subjects = [Subject::Advertisement, Subject::Query, Subject::Wildcard];
        let queues = subjects.into_iter().flat_map(|subject| LANES.map(|lane| (subject, lane)));
        queues.map(|(subject, lane)| self.ready_at(subject, lane)).fold(own, Nanos::min)
    }

    /// Moves records that are due into the outbox, some at a time.
    fn collect_due(&mut self, now: Nanos) {
        if now < self.collect_from {
            return;
        }
        for _ in 0..COLLECTED_MAX {
            let Some(&Reverse((at, subject, slot))) = self.timers.peek().filter(|due| due.0.0 <= now) else {
                return;
            };
            self.timers.pop();
            let timer = match subject {
                Subject::Advertisement => self.advertisements.get_mut(slot).map(|a| &mut a.timer),
                Subject::Query | Subject::Wildcard => self.queries.get_mut(slot).map(|q| &mut q.timer),
            };
            let Some(timer) = timer.filter(|t| t.armed == at) else { continue };
            timer.armed = Nanos::NEVER;
            if timer.schedule.due() <= now {
                let is_initial = matches!(timer.schedule.phase(), Phase::Initial { .. });
                let lane = if is_initial { Lane::Fast } else { Lane::Slow };
                self.outbox.enqueue(timer, subject, slot, lane);
            } else {
                arm(&mut self.timers, timer, subject, slot);
            }
        }
        self.collect_from = now + STEP;
    }

    /// From when on the limits allow the first record of a queue.
    fn ready_at(&self, subject: Subject, lane: Lane) -> Nanos {
        let Some(slot) = self.outbox.front(subject, lane) else { return Nanos::NEVER };
        let len = match subject {
            Subject::Advertisement => self.advertisements.get(slot).map(|ad| ad.wire_len),
            Subject::Query | Subject::Wildcard => self.queries.get(slot).map(Query::wire_len),
        };
        // What is not there any more is passed over at once.
        len.map_or(Nanos::ZERO, |len| self.limits.of(subject, lane).ready_at(len))
    }

    /// Packs queries of one kind into the datagram; returns how many.
    fn pack_queries(&mut self, now: Nanos, subject: Subject) -> usize {
        let (mut count, mut passed) = (0, 0);
        for lane in LANES {
            while let Some(slot) = self.outbox.front(subject, lane).filter(|_| count < QUERIES_MAX) {
                if passed == PASSED_MAX {
                    break;
                }
                // the query may have been stopped, and its slot used again for one of the other kind
                let mut query = self.queries.get_mut(slot).filter(|q| q.subject() == subject);
                if self.outbox.pass_over(query.as_mut().map(|q| &mut q.timer), subject, lane) {
                    passed += 1;
                    continue;
                }
                let Some(query) = query else { continue };
                let len = query.wire_len();
                let limit = self.limits.of_mut(subject, lane);
                if len > self.outbox.room() || !limit.allows(now, len) {
                    break;
                }
                limit.take(len);
                let text = query.text.as_bytes();
                match subject {
                    Subject::Wildcard => WireQuery::Pattern { syntax: PATTERN_PCRE, pattern: text },
                    _ => WireQuery::Topic(text),
                }
                .emit(&mut self.outbox.queries);
                let phases =
                    if subject == Subject::Wildcard { &self.wildcard_querying } else { &self.querying };
                query.timer.on_sent(phases, now);
                if query.timer.schedule.phase() == Phase::Quiescent
                    && (subject == Subject::Wildcard || self.cache.count_of(&query.text) > 0)
                {
                    query.timer.schedule.rest(phases, now, RESOLVED_TIMES);
                }
                query.timer.stands_in[lane as usize] = false;
                arm(&mut self.timers, &mut query.timer, subject, slot);
                self.outbox.pop(subject, lane);
                count += 1;
            }
        }
        self.counters.queries_sent.add(count as u64);
        count
    }

    /// Packs advertisements behind the queries; returns how many.
    fn pack_advertisements(&mut self, now: Nanos) -> usize {
        let (mut count, mut passed, subject) = (0, 0, Subject::Advertisement);
        for lane in LANES {
            while let Some(slot) = self.outbox.front(subject, lane).filter(|_| count < usize::from(u16::MAX))
            {
                if passed == PASSED_MAX {
                    break;
                }
                let mut ad = self.advertisements.get_mut(slot);
                if self.outbox.pass_over(ad.as_mut().map(|ad| &mut ad.timer), subject, lane) {
                    passed += 1;
                    continue;
                }
                let Some(ad) = ad else { continue };
                let limit = self.limits.of_mut(subject, lane);
                if ad.wire_len > self.outbox.room() || !limit.allows(now, ad.wire_len) {
                    break;
                }
                limit.take(ad.wire_len);
                let ttl = if ad.sent_before { TTL } else { TTL_FIRST };
                self.outbox.push_record(ad, ttl, self.context);
                ad.sent_before = true;
                ad.timer.on_sent(&self.advertising, now);
                ad.timer.stands_in[lane as usize] = false;
                arm(&mut self.timers, &mut ad.timer, subject, slot);
                self.outbox.pop(subject, lane);
                count += 1;
            }
        }
        self.counters.advertisements_sent.add(count as u64);
        count
    }

    /// Signs what was built, if that is wanted.
    fn signed(&mut self) -> &[u8] {
        self.signer.sign(&mut self.outbox.datagram);
        if let Some(second) = &mut self.outbox.second {
            self.signer.sign(&mut second.datagram);
        }
        self.count_sent()
    }

    fn count_sent(&self) -> &[u8] {
        self.counters.tr_dgrams_sent.inc();
        self.counters.tr_bytes_sent.add(self.outbox.datagram.len() as u64);
        &self.outbox.datagram
    }
}

/// The rate limits: the first phase and answers have one, the sustaining phase another.
pub(super) struct Limits {
    initial_advertisements: Limit,
    sustain_advertisements: Limit,
    initial_queries: Limit,
    sustain_queries: Limit,
}

impl Limits {
    pub(super) fn new(config: &ResolverConfig, now: Nanos) -> Limits {
        let record_max = u64::from(config.resolver_datagram_max_size);
        let limit = |per_second, bps| Limit::new(per_second, bps, record_max, now);
        let advertisements = config.resolver_initial_advertisements_per_second;
        let queries = config.resolver_initial_queries_per_second;
        Limits {
            initial_advertisements: limit(advertisements, config.resolver_initial_advertisement_bps),
            sustain_advertisements: limit(0, config.resolver_sustain_advertisement_bps),
            initial_queries: limit(queries, config.resolver_initial_query_bps),
            sustain_queries: limit(0, config.resolver_sustain_query_bps),
        }
    }

    fn of(&self, subject: Subject, lane: Lane) -> &Limit {
        match (subject, lane) {
            (Subject::Advertisement, Lane::Fast) => &self.initial_advertisements,
            (Subject::Advertisement, Lane::Slow) => &self.sustain_advertisements,
            (Subject::Query | Subject::Wildcard, Lane::Fast) => &self.initial_queries,
            (Subject::Query | Subject::Wildcard, Lane::Slow) => &self.sustain_queries,
        }
    }

    fn of_mut(&mut self, subject: Subject, lane: Lane) -> &mut Limit {
        match (subject, lane) {
            (Subject::Advertisement, Lane::Fast) => &mut self.initial_advertisements,
            (Subject::Advertisement, Lane::Slow) => &mut self.sustain_advertisements,
            (Subject::Query | Subject::Wildcard, Lane::Fast) => &mut self.initial_queries,
            (Subject::Query | Subject::Wildcard, Lane::Slow) => &mut self.sustain_queries,
        }
    }
}

#[cfg(test)]
mod tests;

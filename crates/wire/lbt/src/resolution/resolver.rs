use super::asked::Asked;
use super::cache::{Cache, Gone, Keep};
use super::ended::Ended;
use super::keepalive::Keepalives;
use super::pattern::{Pattern, PatternError};
use super::phase::Phases;
use super::record::{SourceRecord, TransportSession};
use super::signature::Signer;
use super::slots::Slots;
use super::step::{Repeats, Step};
use super::transmit::{Limits, Outbox, Subject, Timer, Timers, arm};
use crate::authentication::Keys;
use crate::config::{ConfigError, ResolverConfig};
use crate::error::WireError;
use crate::wire::lbmr::{Kind, NAME_LEN_MAX, Packet};
use counters::table::LbmrResolver;
use std::collections::BTreeMap;
use std::fmt;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::sync::Arc;
use std::time::Duration;
use units::Nanos;

/// Topic resolution of one context.
///
/// The driver calls: `on_datagram` for what arrives at the resolver's group, `poll_transmit` until there is
/// nothing to send, again at [`Resolver::next_wakeup`]. What it sends goes to the same group, or to each of
/// the [`Resolver::unicast_daemons`] from the socket at which their datagrams arrive.
pub struct Resolver {
    pub(super) advertisements: Slots<Advertisement>,
    pub(super) queries: Slots<Query>,
    pub(super) ads_by_topic: BTreeMap<Box<str>, Vec<u32>>,
    pub(super) queries_by_topic: BTreeMap<Box<str>, u32>,
    pub(super) wildcards: Vec<u32>,
    /// Changes when a pattern of ours comes or goes.
    pub(super) wildcards_epoch: u32,
    pub(super) cache: Cache,
    pub(super) ended: Ended,
    /// Sources that were configured.
    fixed: BTreeMap<Box<str>, Vec<SourceRecord>>,
    /// Topics that are queried and have no known source.
    pub(super) unresolved: usize,
    pub(super) timers: Timers,
    pub(super) outbox: Outbox,
    pub(super) requested: u16,
    pub(super) keepalives: Keepalives,
    pub(super) advertising: Phases,
    pub(super) querying: Phases,
    pub(super) wildcard_querying: Phases,
    /// Of patterns that are asked again.
    wildcard_sustaining: Phases,
    pub(super) limits: Limits,
    pub(super) context: Option<[u8; 8]>,
    pub(super) immediate_response: bool,
    sources_enough: usize,
    /// The patterns of others.
    pub(super) asked: Asked,
    pub(super) repeats: Repeats,
    pub(super) step: Step,
    /// What is due is not looked at before.
    pub(super) collect_from: Nanos,
    /// Signs and checks, if that is wanted.
    pub(super) signer: Signer,
    pub(super) counters: Arc<LbmrResolver>,
}

/// A topic of ours.
pub(super) struct Advertisement {
    pub(super) topic: Box<str>,
    pub(super) record: SourceRecord,
    pub(super) timer: Timer,
    pub(super) sent_before: bool,
    /// Bytes of its record.
    pub(super) wire_len: usize,
}

/// A topic or pattern somebody wants.
pub(super) struct Query {
    /// What is sent: the topic, or the pattern.
    pub(super) text: Box<str>,
    /// The pattern.
    pub(super) pattern: Option<Pattern>,
    pub(super) timer: Timer,
}

impl Query {
    pub(super) fn subject(&self) -> Subject {
        if self.pattern.is_some() { Subject::Wildcard } else { Subject::Query }
    }

    /// Bytes of its record: the name and its zero, and a type if it is a pattern.
    pub(super) fn wire_len(&self) -> usize {
        self.text.len() + if self.pattern.is_some() { 2 } else { 1 }
    }
}

/// How much somebody here wants to hear of a topic.
pub(super) fn wanted(
    exact: &BTreeMap<Box<str>, u32>,
    queries: &Slots<Query>,
    wildcards: &[u32],
    topic: &str,
) -> Keep {
    let pattern = |slot: &u32| queries.get(*slot).and_then(|query| query.pattern.as_ref());
    if exact.contains_key(topic) {
        Keep::Wanted
    } else if wildcards.iter().filter_map(pattern).any(|pattern: &Pattern| pattern.matches(topic)) {
        Keep::Fitting
    } else {
        Keep::WhileThereIsRoom
    }
}

/// A source that is advertised.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct AdvertisementId(u32, u32);

/// A query that is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct QueryId(u32, u32);

impl QueryId {
    pub(super) fn new(slot: u32, generation: u32) -> QueryId {
        QueryId(slot, generation)
    }
}

/// Hears what is resolved.
pub trait ResolverSink {
    /// A source that `query` asked for is known: for the first time, or with another record than before.
    fn source_found(&mut self, query: QueryId, topic: &str, source: &SourceRecord);
}

/// Why a name was not taken.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ResolveError {
    /// Empty, with a zero byte, or too long.
    BadName {
        /// Its length.
        bytes: usize,
        /// The longest.
        max: usize,
    },
    /// A prefix with a zero byte, or too long: on the wire it is a pattern, in which characters such as dots take two
    /// bytes.
    BadPrefix {
        /// Its length as it counts.
        bytes: usize,
        /// The longest.
        max: usize,
    },
    /// The topic is queried already.
    AlreadyQueried,
    /// The pattern is not understood, or too large.
    BadPattern(PatternError),
}

impl fmt::Display for ResolveError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ResolveError::BadName { bytes, max } => {
                write!(f, "a name of {bytes} bytes: allowed are 1 to {max}, none of them zero")
            }
            ResolveError::BadPrefix { bytes, max } => write!(
                f,
                "a prefix that counts {bytes} bytes: allowed are {max}, where dots and other characters that are special \
                 in patterns count twice, and none is zero"
            ),
            ResolveError::AlreadyQueried => f.write_str("the topic is queried already"),
            ResolveError::BadPattern(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for ResolveError {}

impl Resolver {
    /// A context that knows nothing and is asked nothing.
    ///
    /// # Errors
    /// The first option out of range.
    pub fn new(
        config: &ResolverConfig,
        now: Nanos,
        counters: Arc<LbmrResolver>,
    ) -> Result<Resolver, ConfigError> {
        config.check()?;
        Ok(Resolver {
            advertisements: Slots::default(),
            queries: Slots::default(),
            ads_by_topic: BTreeMap::new(),
            queries_by_topic: BTreeMap::new(),
            wildcards: Vec::new(),
            wildcards_epoch: 0,
            cache: Cache::new(config),
            ended: Ended::default(),
            fixed: BTreeMap::new(),
            unresolved: 0,
            timers: Timers::new(),
            outbox: Outbox::new(config),
            requested: 0,
            keepalives: Keepalives::new(config),
            advertising: Phases {
                initial_min: config.resolver_advertisement_minimum_initial_interval,
                initial_max: config.resolver_advertisement_maximum_initial_interval,
                initial_duration: config.resolver_advertisement_minimum_initial_duration,
                sustain_interval: config.resolver_advertisement_sustain_interval,
                sustain_duration: config.resolver_advertisement_minimum_sustain_duration,
                quiescent_interval: config.resolver_advertisement_quiescent_interval,
            },
            querying: Phases {
                initial_min: config.resolver_query_minimum_initial_interval,
                initial_max: config.resolver_query_maximum_initial_interval,
                initial_duration: config.resolver_query_minimum_initial_duration,
                sustain_interval: config.resolver_query_sustain_interval,
                sustain_duration: config.resolver_query_minimum_sustain_duration,
                quiescent_interval: config.resolver_query_quiescent_interval,
            },
            wildcard_querying: Phases {
                initial_min: config.resolver_wildcard_query_minimum_interval,
                initial_max: config.resolver_wildcard_query_maximum_interval,
                initial_duration: config.resolver_wildcard_query_minimum_duration,
                sustain_interval: config.resolver_wildcard_query_maximum_interval,
                sustain_duration: Duration::ZERO,
                quiescent_interval: config.resolver_query_quiescent_interval,
            },
            wildcard_sustaining: Phases {
                initial_min: config.resolver_wildcard_query_minimum_interval,
                initial_max: config.resolver_wildcard_query_maximum_interval,
                initial_duration: Duration::ZERO,
                sustain_interval: config.resolver_wildcard_query_maximum_interval,
                sustain_duration: config.resolver_wildcard_query_minimum_duration,
                quiescent_interval: config.resolver_query_quiescent_interval,
            },
            limits: Limits::new(config, now),
            context: config.packet_options,
            immediate_response: config.resolver_advertisement_send_immediate_response,
            asked: Asked::new(now),
            repeats: Repeats::default(),
            step: Step::default(),
            collect_from: Nanos::ZERO,
            sources_enough: config.resolution_number_of_sources_query_threshold as usize,
            signer: Signer::default(),
            counters,
        })
    }

    /// Signs everything from now on, and believes only what is signed with one of `keys`, within `window` of now;
    /// [`Resolver::set_wall_clock`] says when that is. To be called again with other keys.
    pub fn authenticate(&mut self, keys: Keys, window: Duration) {
        self.signer.set_keys(keys, window);
        self.outbox.reserve_signature();
    }

    /// Tells the time of day, nanoseconds since 1970: before datagrams are taken or made, if they are signed.
    pub fn set_wall_clock(&mut self, wall_ns: u64) {
        self.signer.set_wall_clock(wall_ns);
    }

    /// Whether the time of day is of use.
    #[must_use]
    pub fn is_signed(&self) -> bool {
        self.signer.is_wanted()
    }

    /// From now on what is handed out is sent on a second network as well, where the sources of this context
    /// have this address: see [`Resolver::second`].
    pub fn add_network(&mut self, address: Ipv4Addr) {
        self.outbox.add_network(address);
    }

    /// Begins to advertise a source.
    ///
    /// # Errors
    /// The name cannot be sent.
    pub fn advertise(
        &mut self,
        now: Nanos,
        topic: &str,
        record: SourceRecord,
    ) -> Result<AdvertisementId, ResolveError> {
        check_name(topic)?;
        let mut measured = Vec::new();
        record.emit(topic, 0, self.context, &mut measured);
        let (timer, wire_len) = (Timer::begin(&self.advertising, now), measured.len());
        let topic: Box<str> = topic.into();
        let ad = Advertisement { topic: topic.clone(), record, timer, sent_before: false, wire_len };
        let (slot, generation) = self.advertisements.insert(ad);
        self.ads_by_topic.entry(topic).or_default().push(slot);
        self.arm_advertisement(slot);
        self.counters.tr_src_topics.set(self.advertisements.len() as u64);
        Ok(AdvertisementId(slot, generation))
    }

    /// Advertises a source no more.
    pub fn withdraw(&mut self, id: AdvertisementId) {
        let Some(ad) = self.advertisements.remove(id.0, id.1) else { return };
        if let Some(slots) = self.ads_by_topic.get_mut(&ad.topic) {
            slots.retain(|&slot| slot != id.0);
            if slots.is_empty() {
                self.ads_by_topic.remove(&ad.topic);
            }
        }
        self.counters.tr_src_topics.set(self.advertisements.len() as u64);
    }

    /// Begins to ask for the sources of a topic. Those that are known are reported at once.
    ///
    /// # Errors
    /// The name cannot be sent, or is asked for already.
    pub fn query<S: ResolverSink>(
        &mut self,
        now: Nanos,
        topic: &str,
        sink: &mut S,
    ) -> Result<QueryId, ResolveError> {
        check_name(topic)?;
        if self.queries_by_topic.contains_key(topic) {
            return Err(ResolveError::AlreadyQueried);
        }
        let id = self.begin_query(now, topic, None);
        self.queries_by_topic.insert(topic.into(), id.0);
        self.cache.want(topic, |_| Keep::Wanted);
        self.cache.known(topic).for_each(|source| sink.source_found(id, topic, source));
        self.unresolved += usize::from(self.cache.count_of(topic) == 0);
        self.stop_if_enough(topic);
        self.count_queries();
        Ok(id)
    }

    /// Begins to ask for the sources of all topics whose names begin with `prefix`. Those that are known
    /// are reported at once.
    ///
    /// # Errors
    /// The prefix as a pattern is too long, or has a zero byte.
    pub fn query_prefix<S: ResolverSink>(
        &mut self,
        now: Nanos,
        prefix: &str,
        sink: &mut S,
    ) -> Result<QueryId, ResolveError> {
        let text = Pattern::of_prefix(prefix);
        if text.len() > NAME_LEN_MAX || prefix.contains('\0') {
            let counts = text.len() - Pattern::of_prefix("").len();
            return Err(ResolveError::BadPrefix { bytes: counts, max: PREFIX_LEN_MAX });
        }
        Ok(self.begin_wildcard(now, &text, Pattern::Prefix(prefix.into()), sink))
    }

    /// Begins to ask for the sources of all topics in whose names a pattern is found. Those that are known
    /// are reported at once.
    ///
    /// The pattern is in the syntax of Perl, as far as it can be matched in time linear in a name's length:
    /// without look around, references back, recursion, atomic groups and possessive repetition. Of the
    /// classes of Unicode there are `\d`, `\s` and `\w`.
    ///
    /// # Errors
    /// The pattern is not understood, longer than 255 bytes, or takes too much memory when compiled; the
    /// error says which.
    pub fn query_pattern<S: ResolverSink>(
        &mut self,
        now: Nanos,
        pattern: &str,
        sink: &mut S,
    ) -> Result<QueryId, ResolveError> {
        let parsed = Pattern::parse(pattern).map_err(ResolveError::BadPattern)?;
        Ok(self.begin_wildcard(now, pattern, parsed, sink))
    }

    /// The query that asks for a topic by its name, if there is one.
    #[must_use]
    pub fn query_of(&self, topic: &str) -> Option<QueryId> {
        let slot = *self.queries_by_topic.get(topic)?;
        Some(QueryId(slot, self.queries.generation(slot)))
    }

    /// Asks no more, and reports no more sources to it.
    pub fn stop_query(&mut self, id: QueryId) {
        let Some(query) = self.queries.remove(id.0, id.1) else { return };
        if query.pattern.is_some() {
            self.wildcards.retain(|&slot| slot != id.0);
            self.wildcards_epoch = self.wildcards_epoch.wrapping_add(1);
        } else {
            self.queries_by_topic.remove(&query.text);
            self.unresolved -= usize::from(self.cache.count_of(&query.text) == 0);
            let keep = wanted(&self.queries_by_topic, &self.queries, &self.wildcards, &query.text);
            self.cache.want(&query.text, |_| keep);
        }
        self.count_queries();
    }

    /// Asks everybody to repeat what `mask` names, bits of
    /// [`lbmr::ResolutionRequest`](crate::wire::lbmr::ResolutionRequest).
    pub fn request_resolution(&mut self, mask: u16) {
        self.requested |= mask;
    }

    /// Makes a source known that is not advertised, by configuration. It is reported like one that is heard,
    /// and never forgotten. Its topic by name is asked for no more; other sources of it are found if they
    /// advertise.
    ///
    /// # Errors
    /// The name could not be sent either.
    pub fn add_static<S: ResolverSink>(
        &mut self,
        now: Nanos,
        topic: &str,
        record: SourceRecord,
        sink: &mut S,
    ) -> Result<(), ResolveError> {
        check_name(topic)?;
        self.fixed.entry(topic.into()).or_default().push(record);
        self.learn(now, topic, record, sink);
        self.cache.fix(topic, &record);
        Ok(())
    }

    /// Reports all sources that were configured once more to the queries that ask for them: some time after a
    /// session of one of them was over, since nobody will advertise its successor.
    pub fn report_static<S: ResolverSink>(&mut self, sink: &mut S) {
        for (topic, sources) in &self.fixed {
            sources.iter().for_each(|source| self.report(topic, source, sink));
        }
    }

    /// Forgets the sources of a session that cannot be heard, or that nobody wants to hear any more; if they
    /// are heard again, they are reported again. Those that were configured stay known
    /// ([`Resolver::report_static`]).
    pub fn forget_session(&mut self, now: Nanos, session: &TransportSession) {
        self.forget(now, session, false);
    }

    /// The same for one source, which cannot be heard now.
    pub fn forget_source(&mut self, now: Nanos, topic: &str, source: &SourceRecord) {
        let gone = self.cache.forget_one(topic, source);
        self.on_gone(now, gone.into_iter().collect());
    }

    /// The same for a session that was heard and is not any more, nobody knows why. Its topics, and patterns
    /// that they fit, are asked for again as at the begin of the sustaining phase: their sources may have
    /// spoken while nothing passed.
    pub fn lose_session(&mut self, now: Nanos, session: &TransportSession) {
        self.forget(now, session, true);
    }

    /// The same for a session of which the source has said that it is over: advertisements of it that were
    /// under way are passed over for ten seconds, unless it has no session id.
    pub fn end_session(&mut self, now: Nanos, session: &TransportSession) {
        self.forget_session(now, session);
        self.ended.note(now, *session);
    }

    fn forget(&mut self, now: Nanos, session: &TransportSession, is_missed: bool) {
        let mut gone = Vec::new();
        self.cache.forget(session, |source| gone.push(source));
        gone.iter().for_each(|source| self.on_one_gone(now, source, is_missed));
        if is_missed {
            self.ask_patterns_again(now, &gone);
        }
        self.counters.sources_known.set(self.cache.len() as u64);
        self.count_queries();
    }

    /// Begins the queries again whose patterns the topics of sources fit that are missed.
    fn ask_patterns_again(&mut self, now: Nanos, gone: &[Gone]) {
        for i in 0..self.wildcards.len() {
            let slot = self.wildcards[i];
            let Some(query) = self.queries.get_mut(slot) else { continue };
            let Some(pattern) = &query.pattern else { continue };
            if gone.iter().any(|source| pattern.matches(&source.topic)) {
                query.timer.begin_again(&self.wildcard_sustaining, now);
                arm(&mut self.timers, &mut query.timer, Subject::Wildcard, slot);
                self.counters.queries_resumed.inc();
            }
        }
    }

    /// Where everything is to be sent: the unicast resolvers, each of them; none if it goes to the group.
    #[must_use]
    pub fn unicast_daemons(&self) -> &[SocketAddrV4] {
        self.keepalives.daemons()
    }

    /// The sources of a topic that are known.
    #[must_use]
    pub fn known(&self, topic: &str) -> Vec<SourceRecord> {
        self.cache.known(topic).copied().collect()
    }

    /// Takes a datagram of topic resolution.
    ///
    /// # Errors
    /// It is malformed, or not signed as it must be; nothing of it was acted on.
    pub fn on_datagram<S: ResolverSink>(
        &mut self,
        now: Nanos,
        datagram: &[u8],
        sink: &mut S,
    ) -> Result<(), WireError> {
        self.counters.tr_dgrams_rcved.inc();
        self.counters.tr_bytes_rcved.add(datagram.len() as u64);
        self.signer.check(datagram, &self.counters.tr_dgrams_unauthentic, &self.counters.tr_dgrams_stale)?;
        let packet =
            Packet::parse(datagram).inspect_err(|_| self.counters.tr_dgrams_dropped_malformed.inc())?;
        match packet.kind {
            Kind::ResolutionRequest(mask) => {
                self.counters.requests_rcved.inc();
                self.counters.requests_deferred.add(u64::from(self.repeats.ask(now, mask)));
            }
            Kind::Other { .. } => self.counters.tr_dgrams_dropped_type.inc(),
            Kind::Normal if packet.queries.is_empty() && packet.records.is_empty() => {
                self.counters.keepalives_rcved.inc();
            }
            Kind::Normal | Kind::Wildcard | Kind::ReceiverAlive | Kind::SourceAlive => {}
        }
        packet.queries.iter().for_each(|query| self.on_query(now, query));
        packet.records.iter().for_each(|record| self.on_record(now, &record, sink));
        Ok(())
    }

    /// Memory held, to about a tenth: names, records, timers.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        let names = |n: usize| n * 48;
        let ads = self.advertisements.len() * size_of::<Advertisement>() + names(self.advertisements.len());
        let queries = self.queries.len() * size_of::<Query>() + names(2 * self.queries.len());
        ads + queries
            + self.cache.memory_bytes()
            + self.ended.memory_bytes()
            + self.timers.len() * size_of::<(Nanos, Subject, u32)>()
            + self.outbox.memory_bytes()
    }

    // ---- private steps

    fn begin_wildcard<S: ResolverSink>(
        &mut self,
        now: Nanos,
        text: &str,
        pattern: Pattern,
        sink: &mut S,
    ) -> QueryId {
        let id = self.begin_query(now, text, Some(pattern.clone()));
        self.wildcards.push(id.0);
        let begin = if let Pattern::Prefix(prefix) = &pattern { prefix } else { "" };
        let matching = self.cache.topics(begin).filter(|topic| pattern.matches(topic));
        let matching: Vec<Arc<str>> = matching.map(Arc::clone).collect();
        for topic in matching {
            self.cache.want(&topic, |before| before.max(Keep::Fitting));
            self.cache.known(&topic).for_each(|source| sink.source_found(id, &topic, source));
        }
        self.count_queries();
        id
    }

    fn begin_query(&mut self, now: Nanos, text: &str, pattern: Option<Pattern>) -> QueryId {
        let phases = if pattern.is_some() { &self.wildcard_querying } else { &self.querying };
        let query = Query { text: text.into(), pattern, timer: Timer::begin(phases, now) };
        let (slot, generation) = self.queries.insert(query);
        let query = self.queries.get_mut(slot).expect("just inserted");
        let subject = query.subject();
        arm(&mut self.timers, &mut query.timer, subject, slot);
        QueryId(slot, generation)
    }

    fn arm_advertisement(&mut self, slot: u32) {
        if let Some(ad) = self.advertisements.get_mut(slot) {
            arm(&mut self.timers, &mut ad.timer, Subject::Advertisement, slot);
        }
    }

    /// Queries for a topic end when enough sources of it are known, or those that were configured.
    pub(super) fn stop_if_enough(&mut self, topic: &str) {
        if !self.has_enough(topic) {
            return;
        }
        let slot = self.queries_by_topic.get(topic).copied();
        if let Some(query) = slot.and_then(|slot| self.queries.get_mut(slot)) {
            query.timer.schedule.stop();
        }
    }

    pub(super) fn has_enough(&self, topic: &str) -> bool {
        self.cache.count_of(topic) >= self.sources_enough || self.fixed.contains_key(topic)
    }

    pub(super) fn count_queries(&self) {
        self.counters.tr_rcv_topics.set(self.queries.len() as u64);
        self.counters.tr_rcv_unresolved_topics.set(self.unresolved as u64);
    }
}

/// The longest prefix: as a pattern it begins with `^` and ends with `.*`.
const PREFIX_LEN_MAX: usize = NAME_LEN_MAX - 3;

fn check_name(name: &str) -> Result<(), ResolveError> {
    if name.is_empty() || name.len() > NAME_LEN_MAX || name.contains('\0') {
        return Err(ResolveError::BadName { bytes: name.len(), max: NAME_LEN_MAX });
    }
    Ok(())
}

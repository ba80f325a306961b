//! What a context does about the queries and records it hears.

use super::compiled::Compiled;
use super::pattern::Pattern;
use super::record::SourceRecord;
use super::resolver::{QueryId, Resolver, ResolverSink, range_of};
use super::transmit::{Subject, arm};
use crate::wire::lbmr::{self, Query as WireQuery, ResolutionRequest};
use units::Nanos;

impl Resolver {
    pub(super) fn on_query(&mut self, now: Nanos, query: WireQuery<'_>) {
        self.counters.queries_rcved.inc();
        let slots: Vec<u32> = match query {
            // No topic of ours has a name that is no text.
            WireQuery::Topic(name) => self.slots_of(std::str::from_utf8(name).unwrap_or_default()),
            WireQuery::Pattern { syntax, pattern } => match self.slots_matching(now, syntax, pattern) {
                Some(slots) => slots,
                None => return,
            },
        };
        if !slots.is_empty() {
            self.counters.queries_answered.inc();
        }
        slots.into_iter().for_each(|slot| self.wake_advertisement(now, slot));
    }

    /// The advertisements that a pattern asks for; `None` if it is not looked at, which is counted.
    fn slots_matching(&mut self, now: Nanos, syntax: u8, pattern: &[u8]) -> Option<Vec<u32>> {
        let text = std::str::from_utf8(pattern).ok().filter(|_| syntax == lbmr::PATTERN_PCRE);
        let Some(text) = text else {
            self.counters.patterns_ignored.inc();
            return None;
        };
        let pattern = match self.compiled.find(now, text, self.ads_by_topic.len()) {
            Compiled::Pattern(pattern) => pattern,
            Compiled::Unknown => {
                self.counters.patterns_ignored.inc();
                return None;
            }
            Compiled::Shed => {
                self.counters.patterns_shed.inc();
                return None;
            }
        };
        let ads = &self.ads_by_topic;
        Some(match pattern {
            Pattern::Exact(name) => ads.get(name.as_str()).cloned().unwrap_or_default(),
            Pattern::Prefix(prefix) => range_of(ads, prefix).flat_map(|(_, slots)| slots).copied().collect(),
            Pattern::Expression(_) => {
                let matching = ads.iter().filter(|(topic, _)| pattern.matches(topic));
                matching.flat_map(|(_, slots)| slots).copied().collect()
            }
        })
    }

    fn slots_of(&self, topic: &str) -> Vec<u32> {
        self.ads_by_topic.get(topic).cloned().unwrap_or_default()
    }

    /// Somebody wants to hear of a source of ours.
    fn wake_advertisement(&mut self, now: Nanos, slot: u32) {
        let Some(ad) = self.advertisements.get_mut(slot) else { return };
        ad.timer.schedule.wake(&self.advertising, now);
        arm(&mut self.timers, &mut ad.timer, Subject::Advertisement, slot);
        if self.immediate_response {
            self.outbox.enqueue(&mut ad.timer, Subject::Advertisement, slot);
        }
    }

    /// Somebody asks everybody to repeat.
    pub(super) fn repeat(&mut self, now: Nanos, mask: u16) {
        if mask & ResolutionRequest::ADVERTISEMENTS != 0 {
            self.advertisements.slots().into_iter().for_each(|slot| self.wake_advertisement(now, slot));
        }
        for slot in self.queries.slots() {
            let Some(query) = self.queries.get_mut(slot) else { continue };
            let (subject, phases, bit) = match query.subject() {
                Subject::Wildcard => {
                    (Subject::Wildcard, &self.wildcard_querying, ResolutionRequest::WILDCARD_QUERIES)
                }
                other => (other, &self.querying, ResolutionRequest::QUERIES),
            };
            if mask & bit != 0 {
                query.timer.schedule.wake(phases, now);
                arm(&mut self.timers, &mut query.timer, subject, slot);
                self.outbox.enqueue(&mut query.timer, subject, slot);
            }
        }
    }

    pub(super) fn on_record<S: ResolverSink>(
        &mut self,
        now: Nanos,
        record: &lbmr::TopicInformation<'_>,
        sink: &mut S,
    ) {
        self.counters.records_rcved.inc();
        let (Some(source), Ok(topic)) = (SourceRecord::of(record), std::str::from_utf8(record.name)) else {
            return self.counters.records_ignored.inc();
        };
        if self.ended.has(now, &source) {
            return self.counters.records_of_ended.inc();
        }
        self.learn(topic, source, sink);
    }

    /// A source of a topic is known, perhaps not for the first time.
    pub(super) fn learn<S: ResolverSink>(&mut self, topic: &str, source: SourceRecord, sink: &mut S) {
        match self.remember(topic, source) {
            Memory::Known => {}
            Memory::Changed => self.report(topic, &source, sink),
            Memory::New => {
                self.report(topic, &source, sink);
                self.stop_if_enough(topic);
                self.count_queries();
            }
            Memory::Full => self.counters.sources_refused.inc(),
        }
    }

    fn remember(&mut self, topic: &str, source: SourceRecord) -> Memory {
        let same = |s: &SourceRecord| s.session == source.session && s.topic_index == source.topic_index;
        let known = self.cache.get_mut(topic).and_then(|sources| sources.iter_mut().find(|s| same(s)));
        match known {
            Some(known) if *known == source => return Memory::Known,
            Some(known) => {
                *known = source;
                return Memory::Changed;
            }
            None => {}
        }
        if self.cached >= self.cache_max {
            return Memory::Full;
        }
        self.cached += 1;
        self.counters.sources_known.set(self.cached as u64);
        match self.cache.get_mut(topic) {
            Some(sources) => sources.push(source),
            None => {
                self.cache.insert(topic.into(), vec![source]);
                self.unresolved -= usize::from(self.queries_by_topic.contains_key(topic));
            }
        }
        Memory::New
    }

    /// Reports a source to the queries that ask for it.
    pub(super) fn report<S: ResolverSink>(&self, topic: &str, source: &SourceRecord, sink: &mut S) {
        let exact = self.queries_by_topic.get(topic).copied();
        let pattern = |slot: u32| self.queries.get(slot).and_then(|q| q.pattern.as_ref());
        let matching = |slot: &u32| pattern(*slot).is_some_and(|p| p.matches(topic));
        for slot in exact.into_iter().chain(self.wildcards.iter().copied().filter(matching)) {
            sink.source_found(QueryId::new(slot, self.queries.generation(slot)), topic, source);
        }
    }
}

enum Memory {
    Known,
    Changed,
    New,
    Full,
}

//! What a context does about the queries and records it hears.

use super::cache::{Gone, Memory, Why};
use super::record::SourceRecord;
use super::resolver::{QueryId, Resolver, ResolverSink, wanted};
use super::transmit::{Lane, Subject, arm};
use crate::wire::lbmr::{self, Query as WireQuery};
use units::Nanos;

impl Resolver {
    pub(super) fn on_query(&mut self, now: Nanos, query: WireQuery<'_>) {
        self.counters.queries_rcved.inc();
        match query {
            // No topic of ours has a name that is no text.
            WireQuery::Topic(name) => self.answer(now, std::str::from_utf8(name).unwrap_or_default()),
            WireQuery::Pattern { syntax, pattern } => {
                let text = std::str::from_utf8(pattern).ok().filter(|_| syntax == lbmr::PATTERN_PCRE);
                match text {
                    None => self.counters.patterns_ignored.inc(),
                    Some(text) if !self.asked.ask(text) => self.counters.patterns_shed.inc(),
                    Some(_) => {}
                }
            }
        }
    }

    fn answer(&mut self, now: Nanos, topic: &str) {
        let Some(slots) = self.ads_by_topic.get_mut(topic) else { return };
        self.counters.queries_answered.inc();
        let slots = std::mem::take(slots);
        slots.iter().for_each(|&slot| self.wake_advertisement(now, slot, Lane::Fast));
        if let Some(own) = self.ads_by_topic.get_mut(topic) {
            *own = slots;
        }
    }

    /// Somebody wants to hear of a source of ours.
    pub(super) fn wake_advertisement(&mut self, now: Nanos, slot: u32, lane: Lane) {
        let Some(ad) = self.advertisements.get_mut(slot) else { return };
        ad.timer.schedule.wake(&self.advertising, now, self.immediate_response);
        arm(&mut self.timers, &mut ad.timer, Subject::Advertisement, slot);
        if self.immediate_response {
            self.outbox.enqueue(&mut ad.timer, Subject::Advertisement, slot, lane);
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
        self.learn(now, topic, source, sink);
    }

    /// A source of a topic is known, perhaps not for the first time.
    pub(super) fn learn<S: ResolverSink>(
        &mut self,
        now: Nanos,
        topic: &str,
        source: SourceRecord,
        sink: &mut S,
    ) {
        let mut gone = Vec::new();
        let (exact, queries, wildcards) = (&self.queries_by_topic, &self.queries, &self.wildcards);
        let wanted = |topic: &str| wanted(exact, queries, wildcards, topic);
        let memory =
            self.cache.hear(now, topic, source, self.wildcards_epoch, wanted, |source| gone.push(source));
        match memory {
            Memory::Known => return,
            Memory::Changed => return self.report(topic, &source, sink),
            Memory::Full => return self.counters.sources_refused.inc(),
            Memory::New { is_first } => {
                // Before what left for it is counted: that may have been of the same topic.
                self.unresolved -= usize::from(is_first && self.queries_by_topic.contains_key(topic));
            }
        }
        self.on_gone(now, gone);
        self.report(topic, &source, sink);
        self.stop_if_enough(topic);
    }

    /// Sources are not known any more.
    pub(super) fn on_gone(&mut self, now: Nanos, gone: Vec<Gone>) {
        for source in gone {
            match source.why {
                Why::Crowded => self.counters.sources_evicted.inc(),
                Why::TopicCrowded => self.counters.topic_sources_evicted.inc(),
                Why::Old => self.counters.sources_expired.inc(),
                Why::Forgotten => {}
            }
            self.on_one_gone(now, &source, source.why == Why::Old);
        }
        self.counters.sources_known.set(self.cache.len() as u64);
        self.count_queries();
    }

    /// The query of a topic begins again if it has ended because enough sources were known, or if the source
    /// that is gone `is_missed`.
    pub(super) fn on_one_gone(&mut self, now: Nanos, source: &Gone, is_missed: bool) {
        let Some(&slot) = self.queries_by_topic.get(&*source.topic) else { return };
        self.unresolved += usize::from(source.was_last);
        let is_enough = self.has_enough(&source.topic);
        let Some(query) = self.queries.get_mut(slot) else { return };
        if is_enough || !(is_missed || query.timer.schedule.is_stopped()) {
            return;
        }
        query.timer.begin_again(&self.querying, now);
        arm(&mut self.timers, &mut query.timer, Subject::Query, slot);
        self.counters.queries_resumed.inc();
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

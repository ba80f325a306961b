use super::ages::{Ages, Link, Linked};
use super::record::{SourceRecord, TransportSession};
use super::slots::Slots;
use crate::config::ResolverConfig;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;
use units::Nanos;

/// The sources that were heard of, by topic and by session, within bounds.
///
/// Sources of topics that somebody here asks for by name are kept before those that fit a pattern, and these
/// before all others: where there is no room, of the least wanted that which was heard longest ago leaves. One
/// topic has a bound of its own, so that what somebody makes up for a wanted topic crowds out nothing else.
/// What was not heard for long leaves as well. Whatever leaves by mistake is reported again when it is next
/// advertised. No operation takes longer with the number of sources than its logarithm.
pub(super) struct Cache {
    names: BTreeMap<Arc<str>, u32>,
    topics: Slots<Topic>,
    entries: Slots<Entry>,
    by_session: BTreeMap<SourceKey, u32>,
    /// Sources that were heard on a second network, by their session on the first.
    aliases: BTreeSet<(TransportSession, u32)>,
    /// By how much they are wanted.
    lists: [Ages; 3],
    maximum: usize,
    topic_maximum: usize,
    timeout: Duration,
}

/// What is one source: its session, the slot of its topic, its index.
type SourceKey = (TransportSession, u32, u32);

struct Topic {
    name: Arc<str>,
    entries: Vec<u32>,
    /// Where the search for one that may leave goes on.
    hand: usize,
    keep: Keep,
    /// Of the patterns for which that was found out.
    epoch: u32,
}

struct Entry {
    record: SourceRecord,
    topic: u32,
    heard: Nanos,
    keep: Keep,
    link: Link,
}

impl Linked for Entry {
    fn link(&mut self) -> &mut Link {
        &mut self.link
    }
}

/// How much the sources of a topic are wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Keep {
    WhileThereIsRoom,
    /// Their topic fits a pattern.
    Fitting,
    /// Somebody asks for their topic.
    Wanted,
    /// They were configured.
    Always,
}

/// What is known of a source that was heard.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Memory {
    Known,
    Changed,
    New {
        /// It is the only one of its topic.
        is_first: bool,
    },
    /// It is not remembered: all that is known is wanted more.
    Full,
}

/// A source that is not known any more.
pub(super) struct Gone {
    pub(super) topic: Arc<str>,
    /// It was the last of its topic.
    pub(super) was_last: bool,
    pub(super) why: Why,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Why {
    /// Others needed its room.
    Crowded,
    /// There are too many sources of its topic.
    TopicCrowded,
    /// It was not heard for long.
    Old,
    /// Its session is over, or cannot be heard.
    Forgotten,
}

/// Sources of a topic that are compared when one must leave: that which was heard longest ago does.
const COMPARED: usize = 8;

impl Cache {
    pub(super) fn new(config: &ResolverConfig) -> Cache {
        Cache {
            names: BTreeMap::new(),
            topics: Slots::default(),
            entries: Slots::default(),
            by_session: BTreeMap::new(),
            aliases: BTreeSet::new(),
            lists: Default::default(),
            maximum: config.resolver_cache_maximum as usize,
            topic_maximum: config.resolver_cache_topic_maximum as usize,
            timeout: config.resolver_cache_timeout,
        }
    }

    /// How many sources are known.
    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    fn topic(&self, topic: &str) -> Option<&Topic> {
        self.names.get(topic).and_then(|&slot| self.topics.get(slot))
    }

    /// The sources of a topic.
    pub(super) fn known(&self, topic: &str) -> impl Iterator<Item = &SourceRecord> + '_ {
        let slots = self.topic(topic).map_or(&[][..], |topic| &topic.entries);
        slots.iter().filter_map(|&slot| Some(&self.entries.get(slot)?.record))
    }

    pub(super) fn count_of(&self, topic: &str) -> usize {
        self.topic(topic).map_or(0, |topic| topic.entries.len())
    }

    /// The topics that begin with `prefix`.
    pub(super) fn topics<'a>(&'a self, prefix: &'a str) -> impl Iterator<Item = &'a Arc<str>> + 'a {
        use std::ops::Bound::{Included, Unbounded};
        let range = self.names.range::<str, _>((Included(prefix), Unbounded)).map(|(name, _)| name);
        range.take_while(move |name| name.starts_with(prefix))
    }

    /// A source was heard. `wanted` says how much its topic is, `epoch` for which patterns; `gone` is told what
    /// had to leave for it.
    pub(super) fn hear(
        &mut self,
        now: Nanos,
        topic: &str,
        record: SourceRecord,
        epoch: u32,
        wanted: impl FnOnce(&str) -> Keep,
        mut gone: impl FnMut(Gone),
    ) -> Memory {
        let (keep, crowded) = match self.names.get(topic).copied() {
            Some(slot) => {
                self.judge(slot, epoch, wanted);
                if let Some(&at) = self.by_session.get(&(record.session, slot, record.topic_index)) {
                    return self.hear_again(now, at, record);
                }
                let topic = self.topics.get(slot);
                let (keep, count) = topic.map_or((Keep::WhileThereIsRoom, 0), |t| (t.keep, t.entries.len()));
                (keep, (count >= self.topic_maximum).then_some(slot))
            }
            None => (wanted(topic), None),
        };
        let has_room = match crowded {
            Some(crowded) => self.oldest_of(crowded).map(|at| gone(self.remove(at, Why::TopicCrowded))),
            None => self.make_room(keep, &mut gone),
        };
        if has_room.is_none() {
            return Memory::Full;
        }
        // The topic may have left with the last of its sources.
        let known = self.names.get(topic).copied();
        let slot = known.unwrap_or_else(|| self.add_topic(topic, keep, epoch));
        Memory::New { is_first: self.add(now, slot, record) }
    }

    /// Keeps a source whatever happens.
    pub(super) fn fix(&mut self, topic: &str, record: &SourceRecord) {
        let Some(&slot) = self.names.get(topic) else { return };
        let Some(&at) = self.by_session.get(&(record.session, slot, record.topic_index)) else { return };
        self.keep(at, Keep::Always);
    }

    /// A topic is wanted more than before, or less.
    pub(super) fn want(&mut self, topic: &str, change: impl FnOnce(Keep) -> Keep) {
        let Some(&slot) = self.names.get(topic) else { return };
        let Some(before) = self.topics.get(slot).map(|topic| topic.keep) else { return };
        self.set_wanted(slot, change(before));
    }

    /// Forgets the sources of a session, on whichever network they were heard.
    pub(super) fn forget(&mut self, session: &TransportSession, mut gone: impl FnMut(Gone)) {
        let keys = self.by_session.range((*session, 0, 0)..=(*session, u32::MAX, u32::MAX));
        let mut slots: Vec<u32> = keys.map(|(_, &at)| at).collect();
        slots.extend(self.aliases.range((*session, 0)..=(*session, u32::MAX)).map(|&(_, at)| at));
        for at in slots {
            if self.entries.get(at).is_some_and(|entry| entry.keep != Keep::Always) {
                gone(self.remove(at, Why::Forgotten));
            }
        }
    }

    /// Forgets one source of a topic.
    pub(super) fn forget_one(&mut self, topic: &str, source: &SourceRecord) -> Option<Gone> {
        let slot = self.names.get(topic)?;
        let at = *self.by_session.get(&(source.session, *slot, source.topic_index))?;
        let is_fixed = self.entries.get(at).is_none_or(|entry| entry.keep == Keep::Always);
        (!is_fixed).then(|| self.remove(at, Why::Forgotten))
    }

    /// When a source that somebody wants will not have been heard for long. What nobody wants can wait for
    /// something else to happen.
    pub(super) fn expiry_due(&self) -> Nanos {
        if self.timeout.is_zero() {
            return Nanos::NEVER;
        }
        let fronts = self.lists[Keep::Fitting as usize..].iter().filter_map(Ages::front);
        let heard = fronts.filter_map(|at| Some(self.entries.get(at)?.heard));
        heard.min().map_or(Nanos::NEVER, |heard| heard + self.timeout)
    }

    /// Forgets some of what was not heard for long.
    pub(super) fn expire(&mut self, now: Nanos, at_most: usize, mut gone: impl FnMut(Gone)) {
        if self.timeout.is_zero() {
            return;
        }
        for _ in 0..at_most {
            let mut fronts = self.lists.iter().filter_map(Ages::front);
            let is_old = |at: &u32| self.entries.get(*at).is_some_and(|e| now.since(e.heard) >= self.timeout);
            let Some(at) = fronts.find(is_old) else { return };
            gone(self.remove(at, Why::Old));
        }
    }

    /// Memory held, to about a tenth.
    pub(super) fn memory_bytes(&self) -> usize {
        let (names, topics) = (size_of::<(Arc<str>, u32)>() + 40, size_of::<Topic>() + 16);
        let entry = size_of::<Entry>() + size_of::<(SourceKey, u32)>() * 3 / 2;
        self.names.len() * (names + topics)
            + self.entries.len() * entry
            + self.aliases.len() * size_of::<(TransportSession, u32)>() * 3 / 2
    }

    // ---- private steps

    fn add_topic(&mut self, topic: &str, keep: Keep, epoch: u32) -> u32 {
        let name: Arc<str> = topic.into();
        let made = Topic { name: Arc::clone(&name), entries: Vec::new(), hand: 0, keep, epoch };
        let slot = self.topics.insert(made).0;
        self.names.insert(name, slot);
        slot
    }

    /// Whether a topic is wanted is found out again after patterns have changed.
    fn judge(&mut self, slot: u32, epoch: u32, wanted: impl FnOnce(&str) -> Keep) {
        let Some(topic) = self.topics.get_mut(slot).filter(|topic| topic.epoch != epoch) else { return };
        topic.epoch = epoch;
        let keep = wanted(&topic.name);
        self.set_wanted(slot, keep);
    }

    fn set_wanted(&mut self, slot: u32, keep: Keep) {
        let Some(topic) = self.topics.get_mut(slot).filter(|topic| topic.keep != keep) else { return };
        topic.keep = keep;
        for at in topic.entries.clone() {
            if self.entries.get(at).is_some_and(|entry| entry.keep != Keep::Always) {
                self.keep(at, keep);
            }
        }
    }

    fn keep(&mut self, at: u32, keep: Keep) {
        let Some(entry) = self.entries.get_mut(at) else { return };
        let before = std::mem::replace(&mut entry.keep, keep);
        self.unlink(at, before);
        self.link(at, keep);
    }

    fn link(&mut self, at: u32, keep: Keep) {
        if let Some(list) = self.lists.get_mut(keep as usize) {
            list.push(at, &mut self.entries);
        }
    }

    fn unlink(&mut self, at: u32, keep: Keep) {
        if let Some(list) = self.lists.get_mut(keep as usize) {
            list.remove(at, &mut self.entries);
        }
    }

    fn hear_again(&mut self, now: Nanos, at: u32, record: SourceRecord) -> Memory {
        let Some(entry) = self.entries.get_mut(at) else { return Memory::Known };
        entry.heard = now;
        let (keep, before) = (entry.keep, entry.record);
        self.unlink(at, keep);
        self.link(at, keep);
        if before == record {
            return Memory::Known;
        }
        self.unalias(at, &before);
        self.alias(at, &record);
        self.entries.get_mut(at).into_iter().for_each(|entry| entry.record = record);
        Memory::Changed
    }

    /// Makes room for one more; none if there is none.
    fn make_room(&mut self, keep: Keep, gone: &mut impl FnMut(Gone)) -> Option<()> {
        if self.entries.len() < self.maximum {
            return Some(());
        }
        let leaves = self.lists.iter().take(keep as usize + 1).find_map(Ages::front)?;
        gone(self.remove(leaves, Why::Crowded));
        Some(())
    }

    /// The source of a topic that was heard longest ago, of some.
    fn oldest_of(&mut self, slot: u32) -> Option<u32> {
        let topic = self.topics.get_mut(slot)?;
        let count = topic.entries.len();
        let from = topic.hand % count.max(1);
        topic.hand = from + COMPARED;
        let some = (0..COMPARED.min(count)).map(|i| topic.entries[(from + i) % count]);
        let heard = |at: &u32| self.entries.get(*at).map(|entry| entry.heard);
        some.filter(|at| self.entries.get(*at).is_some_and(|e| e.keep != Keep::Always)).min_by_key(heard)
    }

    /// Adds a source; tells whether it is the first of its topic.
    fn add(&mut self, now: Nanos, slot: u32, record: SourceRecord) -> bool {
        let keep = self.topics.get(slot).map_or(Keep::WhileThereIsRoom, |topic| topic.keep);
        let entry = Entry { record, topic: slot, heard: now, keep, link: Link::default() };
        let at = self.entries.insert(entry).0;
        self.by_session.insert((record.session, slot, record.topic_index), at);
        self.alias(at, &record);
        self.link(at, keep);
        let Some(topic) = self.topics.get_mut(slot) else { return false };
        if topic.entries.is_empty() {
            // Most topics have one.
            topic.entries.reserve_exact(1);
        }
        topic.entries.push(at);
        topic.entries.len() == 1
    }

    fn remove(&mut self, at: u32, why: Why) -> Gone {
        let nobody = || Gone { topic: "".into(), was_last: false, why };
        let Some(entry) = self.entries.get(at) else { return nobody() };
        let (keep, record, slot) = (entry.keep, entry.record, entry.topic);
        self.unlink(at, keep);
        self.entries.take(at);
        self.by_session.remove(&(record.session, slot, record.topic_index));
        self.unalias(at, &record);
        let Some(topic) = self.topics.get_mut(slot) else { return nobody() };
        if let Some(i) = topic.entries.iter().position(|&other| other == at) {
            topic.entries.swap_remove(i);
        }
        let (topic, was_last) = (Arc::clone(&topic.name), topic.entries.is_empty());
        if was_last {
            self.topics.take(slot);
            self.names.remove(&topic);
        }
        Gone { topic, was_last, why }
    }

    fn alias(&mut self, at: u32, record: &SourceRecord) {
        let first = record.on_first_network().session;
        if first != record.session {
            self.aliases.insert((first, at));
        }
    }

    fn unalias(&mut self, at: u32, record: &SourceRecord) {
        let first = record.on_first_network().session;
        if first != record.session {
            self.aliases.remove(&(first, at));
        }
    }
}

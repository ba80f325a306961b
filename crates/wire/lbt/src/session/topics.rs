use std::collections::VecDeque;
use std::time::Duration;
use units::{Nanos, Sqn};

/// One topic of a source's session, as given by [`super::Source::add_topic`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TopicId {
    slot: u32,
    /// Tells the topic from a later one in the same slot.
    index: u32,
}

impl TopicId {
    /// The topic's index within the transport session, as it stands in messages and advertisements.
    #[must_use]
    pub fn index(self) -> u32 {
        self.index
    }
}

/// The topics of a session, their numbers, and when their last numbers are to be announced.
pub(crate) struct Topics {
    topics: Vec<Topic>,
    free: Vec<u32>,
    /// Topics that were removed and whose last number is to be announced once more, each with it.
    departed: VecDeque<(u32, Sqn)>,
    /// The latest of them that were announced: what says so is yet to be sent, and may be given up.
    said: VecDeque<(u32, Sqn)>,
    interval: Duration,
    threshold: Duration,
    /// Where the scan for silent topics goes on, when, and what it found so far.
    cursor: usize,
    scan_at: Nanos,
    earliest: Nanos,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Topic {
    pub(crate) index: u32,
    pub(crate) next: Sqn,
    pub(crate) first: Sqn,
    pub(crate) last_message: Nanos,
    announced: Nanos,
    pub(crate) open: bool,
}

/// Topics that were removed and announced, and are remembered.
const SAID_MAX: usize = 4_096;

/// Topics looked at in one wake-up.
const SCAN_STEP: usize = 4_096;

impl Topics {
    pub(crate) fn new(interval: Duration, threshold: Duration) -> Topics {
        let (scan_at, earliest) = (Nanos::NEVER, Nanos::NEVER);
        let (topics, free, departed, said) = (Vec::new(), Vec::new(), VecDeque::new(), VecDeque::new());
        Topics { topics, free, departed, said, interval, threshold, cursor: 0, scan_at, earliest }
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        let departed = (self.departed.capacity() + self.said.capacity()) * size_of::<(u32, Sqn)>();
        self.topics.len() * size_of::<Topic>() + self.free.capacity() * size_of::<u32>() + departed
    }

    pub(crate) fn add(&mut self, now: Nanos, index: u32, first: Sqn) -> TopicId {
        let topic = Topic { index, next: first, first, last_message: now, announced: now, open: true };
        self.scan_at = self.scan_at.min(now + self.interval);
        self.departed.retain(|&(departed, _)| departed != index);
        self.said.retain(|&(departed, _)| departed != index);
        let slot = match self.free.pop() {
            Some(slot) => {
                self.topics[slot as usize] = topic;
                slot
            }
            None => {
                units::reserve_for_push(&mut self.topics);
                self.topics.push(topic);
                (self.topics.len() - 1) as u32
            }
        };
        TopicId { slot, index }
    }

    /// Forgets a topic; nothing happens if it was removed before.
    pub(crate) fn remove(&mut self, id: TopicId) {
        if let Some(topic) = self.get_mut(id) {
            topic.open = false;
            let last = (topic.next != topic.first).then_some((topic.index, topic.next.prev()));
            self.free.push(id.slot);
            if last.is_some() {
                self.departed.extend(last);
                self.scan_at = Nanos::ZERO;
            }
        }
    }

    pub(crate) fn contains_index(&self, index: u32) -> bool {
        self.topics.iter().any(|t| t.open && t.index == index)
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, id: TopicId) -> Option<&mut Topic> {
        self.topics.get_mut(id.slot as usize).filter(|t| t.index == id.index && t.open)
    }

    pub(crate) fn get(&self, id: TopicId) -> Option<&Topic> {
        self.topics.get(id.slot as usize).filter(|t| t.index == id.index && t.open)
    }

    /// When silent topics are to be looked for.
    pub(crate) fn scan_at(&self) -> Nanos {
        self.scan_at
    }

    /// Collects topics whose last number is to be announced, as many as one header holds.
    ///
    /// Returns whether to ask again at once: there may be more. A topic is announced when it has been
    /// silent for the interval, again after each interval, and no more once it has been silent for the
    /// threshold.
    pub(crate) fn silent(&mut self, now: Nanos, count_max: usize, found: &mut Vec<(u32, Sqn)>) -> bool {
        if now < self.scan_at {
            return false;
        }
        self.take_departed(count_max, found);
        let end = self.topics.len().min(self.cursor + SCAN_STEP);
        while self.cursor < end && found.len() < count_max {
            let (interval, threshold) = (self.interval, self.threshold);
            let topic = &mut self.topics[self.cursor];
            let due = topic.announcement_due(interval, threshold);
            if due <= now {
                found.push((topic.index, topic.next.prev()));
                topic.announced = now;
            }
            self.earliest = self.earliest.min(self.topics[self.cursor].announcement_due(interval, threshold));
            self.cursor += 1;
        }
        if self.cursor == self.topics.len() {
            self.cursor = 0;
            self.scan_at = self.earliest;
            self.earliest = Nanos::NEVER;
            // a silent topic that speaks again must be found again
            if self.scan_at == Nanos::NEVER && !self.topics.is_empty() {
                self.scan_at = now + self.interval;
            }
        }
        self.scan_at <= now
    }

    /// Moves topics that were removed to what is found, as long as there is room.
    fn take_departed(&mut self, count_max: usize, found: &mut Vec<(u32, Sqn)>) {
        let count = self.departed.len().min(count_max.saturating_sub(found.len()));
        let over = (self.said.len() + count).saturating_sub(SAID_MAX).min(self.said.len());
        self.said.drain(..over);
        self.said.extend(self.departed.iter().take(count));
        found.extend(self.departed.drain(..count));
    }

    /// What was said of topics that were removed may not be sent: it is said once more.
    pub(crate) fn unsay(&mut self) {
        self.departed.extend(self.said.drain(..));
    }

    /// Whether topics that were removed have not been announced since.
    pub(crate) fn owes_departed(&self) -> bool {
        !self.departed.is_empty()
    }

    /// Every topic that has had a message, from the `from`th on; for the end of the session.
    pub(crate) fn all_spoken(&mut self, from: usize, count_max: usize, found: &mut Vec<(u32, Sqn)>) -> usize {
        self.take_departed(count_max, found);
        let mut at = from;
        while at < self.topics.len() && found.len() < count_max {
            let topic = &self.topics[at];
            if topic.open && topic.next != topic.first {
                found.push((topic.index, topic.next.prev()));
            }
            at += 1;
        }
        at
    }

    pub(crate) fn len(&self) -> usize {
        self.topics.len()
    }
}

impl Topic {
    /// The number of a message that is sent now.
    #[inline]
    pub(crate) fn take_number(&mut self, now: Nanos) -> Sqn {
        let number = self.next;
        self.next = number.next();
        self.last_message = now;
        number
    }

    fn announcement_due(&self, interval: Duration, threshold: Duration) -> Nanos {
        let due = self.last_message.max(self.announced) + interval;
        let over = !threshold.is_zero() && due.since(self.last_message) > threshold;
        if !self.open || self.next == self.first || over { Nanos::NEVER } else { due }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn at(seconds: u64) -> Nanos {
        Nanos(seconds * 1_000_000_000)
    }

    fn send(topics: &mut Topics, id: TopicId, now: Nanos) {
        let topic = topics.get_mut(id).expect("open");
        topic.next = topic.next.next();
        topic.last_message = now;
    }

    fn announcements(topics: &mut Topics, until: u64) -> Vec<(u64, u32)> {
        let mut seen = Vec::new();
        for second in 0..=until {
            let mut found = Vec::new();
            while topics.silent(at(second), 31, &mut found) {}
            seen.extend(found.iter().map(|&(index, _)| (second, index)));
        }
        seen
    }

    #[test]
    fn a_silent_topic_is_announced_every_interval_until_the_threshold() {
        let mut topics = Topics::new(SECOND, SECOND * 3);
        let spoke = topics.add(at(0), 7, Sqn(0));
        topics.add(at(0), 8, Sqn(0));
        send(&mut topics, spoke, at(0));
        assert_eq!(announcements(&mut topics, 10), [(1, 7), (2, 7), (3, 7)], "8 has no message to speak of");
        send(&mut topics, spoke, at(20));
        let mut found = Vec::new();
        while topics.silent(at(21), 31, &mut found) {}
        assert_eq!(found, [(7, Sqn(1))]);
    }

    #[test]
    fn many_topics_are_announced_in_headers_of_bounded_size() {
        let mut topics = Topics::new(SECOND, Duration::ZERO);
        for index in 0..100 {
            let id = topics.add(at(0), index, Sqn(0));
            send(&mut topics, id, at(0));
        }
        let (mut headers, mut found) = (0, Vec::new());
        while topics.silent(at(1), 31, &mut found) {
            headers += 1;
            assert!(found.len() <= 31);
            found.clear();
        }
        assert_eq!((headers, found.len()), (3, 100 - 3 * 31));
        assert_eq!(topics.scan_at(), at(2));
    }

    #[test]
    fn of_topics_that_were_removed_the_latest_are_said_once_more_if_that_was_not_sent() {
        let mut topics = Topics::new(SECOND, Duration::ZERO);
        let count = SAID_MAX as u32 + 100;
        let said = |topics: &mut Topics| {
            let (mut all, mut found) = (Vec::new(), Vec::new());
            while topics.owes_departed() {
                topics.take_departed(31, &mut found);
                assert!(found.len() <= 31);
                all.append(&mut found);
            }
            all.into_iter().map(|(index, _)| index).collect::<Vec<_>>()
        };
        for index in 0..count {
            let id = topics.add(at(0), index, Sqn(0));
            send(&mut topics, id, at(0));
            topics.remove(id);
        }
        assert_eq!(said(&mut topics), (0..count).collect::<Vec<_>>());
        // An index that is in use again is of another topic.
        topics.add(at(1), count - 1, Sqn(0));
        topics.unsay();
        assert_eq!(said(&mut topics), (100..count - 1).collect::<Vec<_>>());
    }

    #[test]
    fn the_last_number_of_a_topic_that_was_removed_is_announced_once() {
        let mut topics = Topics::new(SECOND, Duration::ZERO);
        let id = topics.add(at(0), 7, Sqn(0));
        send(&mut topics, id, at(0));
        topics.remove(id);
        assert_eq!(announcements(&mut topics, 3), [(0, 7)]);
        let after = topics.add(at(4), 8, Sqn(0));
        assert_eq!(after.slot, id.slot, "the slot is used again");
        assert!(topics.get_mut(id).is_none(), "and the old id does not reach the new topic");
    }
}

use super::packets::{Answer, Query, TOPICS_MAX};
use std::collections::{HashMap, VecDeque};
use std::net::SocketAddr;
use std::time::Duration;
use units::Nanos;

/// The source's side of one session: the topics whose receivers somebody waits for, and who has answered.
///
/// `T` is what the driver knows a topic by. The driver calls [`Watch::watch`] and [`Watch::unwatch`], sends what
/// [`Watch::poll_query`] gives at [`Watch::due`], hands over answers, and asks for
/// [`Watch::poll_change`] after either.
pub struct Watch<T> {
    topics: Vec<Topic<T>>,
    /// By index in the session.
    places: HashMap<u32, usize>,
    /// Where the round goes on that is under way: topics from here on are to be asked for.
    cursor: usize,
    due: Nanos,
    /// Wait from the end of a round to the next.
    wait: Duration,
    /// See [`Query::share`]; for the next one.
    share: u8,
    /// How many receivers there are, about.
    estimate: u32,
    number: u32,
    asked: VecDeque<Asked>,
    /// Receivers of all topics.
    receivers: usize,
    receivers_max: usize,
    /// Topics whose count has changed, each once.
    changed: Vec<u32>,
}

struct Topic<T> {
    index: u32,
    token: T,
    receivers: HashMap<u64, Receiver>,
    is_changed: bool,
}

struct Receiver {
    address: Option<SocketAddr>,
    /// Queries to all that it has not answered.
    missed: u8,
}

/// A query that may still be answered.
struct Asked {
    number: u32,
    share: u8,
    topics: Vec<u32>,
    answers: u32,
    /// When the last answer was to be sent.
    until: Nanos,
}

/// What became of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Taken {
    /// Its receiver is counted.
    Counted,
    /// It answers no query of late.
    Unasked,
    /// There are too many receivers.
    Refused,
}

/// Receivers that a session remembers, counted for each topic.
const RECEIVERS_MAX: usize = 262_144;
/// Time within which receivers answer at least, and between two queries.
const WINDOW_MIN: Duration = Duration::from_millis(10);
/// The longest such time, milliseconds.
const WINDOW_MAX_MS: u32 = 60_000;
/// Longest wait between two rounds.
const WAIT_MAX: Duration = Duration::from_millis(500);
/// The first query asks one receiver in 2 to the power of this.
const SHARE_FIRST: u8 = 4;
/// Receivers that may all answer at once.
const CROWD: u32 = 64;
/// Queries to all that a receiver may leave unanswered.
const MISSED_MAX: u8 = 4;
/// Queries of which answers are taken: as many as are sent in a second at most, and not longer than five.
const ASKED_MAX: usize = 128;
const ANSWERED_WITHIN: Duration = Duration::from_secs(5);

impl<T: Copy> Watch<T> {
    /// Nobody waits yet. `number` is drawn at random: strangers do not know it.
    #[must_use]
    pub fn new(number: u32) -> Watch<T> {
        Watch::bounded(number, RECEIVERS_MAX)
    }

    pub(super) fn bounded(number: u32, receivers_max: usize) -> Watch<T> {
        Watch {
            topics: Vec::new(),
            places: HashMap::new(),
            cursor: 0,
            due: Nanos::NEVER,
            wait: WINDOW_MIN,
            share: SHARE_FIRST,
            estimate: 0,
            number,
            asked: VecDeque::new(),
            receivers: 0,
            receivers_max,
            changed: Vec::new(),
        }
    }

    /// Somebody waits for the receivers of a topic from now on.
    pub fn watch(&mut self, now: Nanos, index: u32, token: T) {
        if self.places.contains_key(&index) {
            return;
        }
        let is_resting = self.cursor >= self.topics.len();
        self.places.insert(index, self.topics.len());
        self.topics.push(Topic { index, token, receivers: HashMap::new(), is_changed: false });
        self.wait = WINDOW_MIN;
        if is_resting {
            self.cursor = self.topics.len() - 1;
            self.due = self.earliest(now);
        }
    }

    /// Nobody waits for a topic any more; its receivers are forgotten. If that was the last topic and many receivers
    /// have not answered yet, the query that tells them not to.
    pub fn unwatch(&mut self, now: Nanos, index: u32) -> Option<Query> {
        let at = self.places.remove(&index)?;
        let gone = self.topics.swap_remove(at);
        self.receivers -= gone.receivers.len();
        if let Some(moved) = self.topics.get(at) {
            self.places.insert(moved.index, at);
        }
        // One that was not asked for in this round may have come before the cursor: the next round has it.
        self.cursor = self.cursor.min(self.topics.len());
        if !self.topics.is_empty() {
            return None;
        }
        self.due = Nanos::NEVER;
        // Fewer are not worth a packet.
        let is_open = self.estimate > CROWD && self.asked.iter().any(|asked| asked.until > now);
        self.asked.clear();
        self.share = SHARE_FIRST;
        is_open.then(|| Query::new(self.next_number(), 0, 0, &[]))
    }

    /// Whether nobody waits.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.topics.is_empty()
    }

    /// How many receivers a topic has, as far as they have answered; none if nobody waits for them.
    #[must_use]
    pub fn count(&self, index: u32) -> Option<usize> {
        self.places.get(&index).map(|&at| self.topics[at].receivers.len())
    }

    /// When the next query is due.
    #[must_use]
    pub fn due(&self) -> Nanos {
        self.due
    }

    /// Somebody has come who may receive a topic: a query is due soon.
    pub fn hurry(&mut self, now: Nanos) {
        if !self.is_idle() {
            self.wait = WINDOW_MIN;
            self.due = self.due.min(self.earliest(now));
        }
    }

    /// Not before who was asked last may have answered.
    fn earliest(&self, now: Nanos) -> Nanos {
        self.asked.back().map_or(now, |asked| asked.until.max(now))
    }

    fn next_number(&mut self) -> u32 {
        self.number = self.number.wrapping_add(1);
        self.number
    }

    /// The query to send, if one is due.
    pub fn poll_query(&mut self, now: Nanos) -> Option<Query> {
        if now < self.due || self.is_idle() {
            return None;
        }
        self.forget_asked(now);
        self.estimate = self.asked.iter().map(Asked::estimate).max().unwrap_or(0);
        if self.estimate > CROWD {
            // Who knows how many there are gives them time, instead of asking some of them.
            self.share = 0;
        }
        if self.cursor >= self.topics.len() {
            self.cursor = 0;
        }
        let end = self.topics.len().min(self.cursor + TOPICS_MAX);
        let topics: Vec<u32> = self.topics[self.cursor..end].iter().map(|topic| topic.index).collect();
        if self.share == 0 {
            self.forget_silent(end);
        }
        let window = self.window();
        let query = Query::new(self.next_number(), self.share, window.as_millis() as u16, &topics);
        let (share, until) = (self.share, now + window);
        self.asked.push_back(Asked { number: query.number, share, topics, answers: 0, until });
        self.cursor = end;
        self.due = until;
        if end == self.topics.len() {
            if self.share > 0 {
                self.share -= 1;
            } else {
                self.due = now + window.max(self.wait);
                self.wait = (self.wait * 2).min(WAIT_MAX);
            }
        }
        Some(query)
    }

    /// Makes room for another query.
    fn forget_asked(&mut self, now: Nanos) {
        while self.asked.front().is_some_and(|asked| now >= asked.until + ANSWERED_WITHIN)
            || self.asked.len() >= ASKED_MAX
        {
            self.asked.pop_front();
        }
    }

    /// A millisecond for each receiver that is asked.
    fn window(&self) -> Duration {
        let asked = (self.estimate >> self.share).min(WINDOW_MAX_MS);
        if asked <= CROWD { WINDOW_MIN } else { Duration::from_millis(asked.into()) }
    }

    /// Receivers of the topics that are asked for up to place `end` have one more query to answer; who has left too
    /// many unanswered is gone.
    fn forget_silent(&mut self, end: usize) {
        let Watch { topics, receivers, changed, .. } = self;
        for topic in &mut topics[self.cursor..end] {
            let before = topic.receivers.len();
            topic.receivers.retain(|_, receiver| {
                receiver.missed += 1;
                receiver.missed <= MISSED_MAX
            });
            if topic.receivers.len() != before {
                *receivers -= before - topic.receivers.len();
                topic.note_change(changed);
            }
        }
    }

    /// Takes an answer, from where if that is known.
    pub fn on_answer(&mut self, answer: &Answer, from: Option<SocketAddr>) -> Taken {
        let Watch { asked, topics, places, receivers, receivers_max, changed, .. } = self;
        // Queries are numbered one after the other.
        let first = asked.front().map_or(0, |asked| asked.number);
        let Some(asked) = asked.get_mut(answer.number.wrapping_sub(first) as usize) else {
            return Taken::Unasked;
        };
        asked.answers = asked.answers.saturating_add(1);
        let mut taken = Taken::Unasked;
        for (_, index) in asked.topics.iter().enumerate().filter(|(at, _)| answer.topics >> at & 1 != 0) {
            let Some(topic) = places.get(index).map(|&place| &mut topics[place]) else { continue };
            if let Some(known) = topic.receivers.get_mut(&answer.receiver) {
                known.missed = 0;
                taken = Taken::Counted;
            } else if *receivers < *receivers_max {
                topic.receivers.insert(answer.receiver, Receiver { address: from, missed: 0 });
                *receivers += 1;
                topic.note_change(changed);
                taken = Taken::Counted;
            } else {
                return Taken::Refused;
            }
        }
        taken
    }

    /// Whoever answered from an address is gone.
    pub fn on_gone(&mut self, address: SocketAddr) {
        let Watch { topics, receivers, changed, .. } = self;
        for topic in topics {
            let before = topic.receivers.len();
            topic.receivers.retain(|_, receiver| receiver.address != Some(address));
            if topic.receivers.len() != before {
                *receivers -= before - topic.receivers.len();
                topic.note_change(changed);
            }
        }
    }

    /// A topic whose count has changed since it was told last, and the count.
    pub fn poll_change(&mut self) -> Option<(T, usize)> {
        while let Some(index) = self.changed.pop() {
            if let Some(topic) = self.places.get(&index).map(|&at| &mut self.topics[at])
                && std::mem::take(&mut topic.is_changed)
            {
                return Some((topic.token, topic.receivers.len()));
            }
        }
        None
    }
}

impl Asked {
    /// How many receivers there are by the answers to it.
    fn estimate(&self) -> u32 {
        self.answers.saturating_mul(1 << self.share)
    }
}

impl<T> Topic<T> {
    fn note_change(&mut self, changed: &mut Vec<u32>) {
        if !std::mem::replace(&mut self.is_changed, true) {
            changed.push(self.index);
        }
    }
}

//! Fetches what a stream of packets misses from a stream of JetStream, before the hole is told. Pure: packets, answers and
//! the time in; packets in order and requests out.
//!
//! | part | what it does |
//! |---|---|
//! | `wanted` | what waits behind a hole, and what is missing |
//! | `search` | where in JetStream's stream that is, and what is asked next |
//! | `answer` | bytes of requests and answers |
//!
//! Only the stream of packets with the hole waits, and not longer than it is allowed to. What cannot be had by then is told
//! as it would be without JetStream. A server that gives nothing is left alone for a while, so it costs that time once.

pub(super) mod answer;
mod search;
#[cfg(test)]
mod tests;
mod wanted;

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use units::Nanos;

use self::answer::Answer;
use self::search::{Found, Search};
use self::wanted::{MISSING_MAX, NUMBER_MAX, Step, Wanted};
use super::packet::{self, Body, Packet};

/// The subscription and the sender of a stream of packets.
pub(super) type Key = (u32, u64);

/// Holes that are fetched at a time; what other streams of packets miss is told at once.
const HOLES_MAX: usize = 256;
/// How long nothing is asked after a server has given nothing.
const REST: Duration = Duration::from_secs(10);
/// A request that is not answered for this part of the wait is made again.
const ASKS_IN_WAIT: u32 = 4;

/// The bounds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    /// How long a hole is waited for.
    pub(super) wait: Duration,
    /// Requests under way.
    pub(super) requests: usize,
    /// Bytes of the packets that wait.
    pub(super) held_bytes: usize,
}

impl Bounds {
    /// How long a request is waited for.
    fn patience(&self) -> Duration {
        self.wait / ASKS_IN_WAIT
    }
}

/// A request to the API.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Request {
    /// Its number, which the answer has.
    pub(super) token: u64,
    pub(super) body: String,
}

/// What has happened since this was asked last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Tally {
    /// Holes that were fetched for, or would have been.
    pub(super) holes: u64,
    /// Packets that came out of JetStream's stream, and were missing.
    pub(super) recovered: u64,
    pub(super) requests: u64,
    /// Requests without an answer in time.
    pub(super) unanswered: u64,
    /// Answers that are errors or nonsense.
    pub(super) refused: u64,
    /// Holes of which something was told.
    pub(super) given_up: u64,
    /// Of those, the ones beyond a bound.
    pub(super) too_large: u64,
}

/// What a packet of a stream is to do.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Course {
    /// It is taken at once.
    Pass,
    /// It waits behind a hole.
    Held,
    /// It has come before.
    Late,
}

/// What is handed on behind a hole.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// A packet, whole.
    Packet(Vec<u8>),
    /// All packets with lower numbers that have not been handed on are lost.
    Lost {
        /// The number.
        before: u64,
    },
}

/// What a server has given for a hole.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Given {
    NoAnswer,
    Nothing,
    Something,
}

struct Hole {
    run: u64,
    wanted: Wanted,
    search: Search,
    given: Given,
    is_lost: bool,
}

impl Hole {
    /// Nothing is waited for any more, which says nothing of the server.
    fn give_up(&mut self) {
        self.wanted.give_up();
        self.given = Given::Something;
    }
}

/// All holes that are fetched for.
pub(super) struct Recovery {
    /// JetStream's name of the stream, for what operators are told.
    stream: String,
    bounds: Bounds,
    subjects: HashMap<u32, String>,
    holes: BTreeMap<Key, Hole>,
    held_bytes: usize,
    /// Requests under way: for which hole, and since when.
    asked: HashMap<u64, (Key, Nanos)>,
    last_token: u64,
    /// The server answers with more than one message.
    is_batched: bool,
    rest_until: Nanos,
    notices: Vec<String>,
    tally: Tally,
}

impl Recovery {
    pub(super) fn new(stream: String, bounds: Bounds) -> Recovery {
        Recovery {
            stream,
            bounds,
            subjects: HashMap::new(),
            holes: BTreeMap::new(),
            held_bytes: 0,
            asked: HashMap::new(),
            last_token: 0,
            is_batched: false,
            rest_until: Nanos::ZERO,
            notices: Vec::new(),
            tally: Tally::default(),
        }
    }

    /// What a subscription hears.
    pub(super) fn name(&mut self, subscription: u32, subject: String) {
        self.subjects.insert(subscription, subject);
    }

    /// A subscription is over, and what waits of it is nobody's.
    pub(super) fn forget(&mut self, subscription: u32) {
        self.subjects.remove(&subscription);
        let of_it = self.holes.keys().filter(|(of, _)| *of == subscription);
        of_it.copied().collect::<Vec<_>>().into_iter().for_each(|key| self.close(key));
    }

    /// Bytes of what waits.
    pub(super) fn held_bytes(&self) -> usize {
        self.held_bytes
    }

    /// Takes a look at a packet that a subscription has brought. `number` is the last one that was handed on.
    pub(super) fn on_packet(
        &mut self,
        now: Nanos,
        key: Key,
        number: u64,
        packet: &Packet<'_>,
        bytes: &[u8],
    ) -> Course {
        let (head, is_numbered) = (packet.head, packet.head.kind.is_numbered());
        let is_next = head.number <= number + u64::from(is_numbered);
        if self.holes.is_empty() && is_next {
            return Course::Pass;
        }
        let Some(hole) = self.holes.get_mut(&key) else {
            if is_next || !self.opens(now, key, number, head.number) {
                return Course::Pass;
            }
            let (run, wanted, search) = (head.run, Wanted::new(number + 1), Search::new());
            let hole = Hole { run, wanted, search, given: Given::NoAnswer, is_lost: false };
            self.holes.insert(key, hole);
            return self.on_packet(now, key, number, packet, bytes);
        };
        if head.number < hole.wanted.next() {
            return Course::Pass;
        }
        if !hole.wanted.may_reach(head.number) {
            self.tally.too_large += 1;
            hole.give_up();
            return Course::Pass;
        }
        let until = now + self.bounds.wait;
        if !is_numbered {
            hole.wanted.reach(head.number, until);
            return Course::Held;
        }
        let before = hole.wanted.bytes();
        let course = if hole.wanted.hold(head.number, bytes, until) { Course::Held } else { Course::Late };
        self.held_bytes += hole.wanted.bytes() - before;
        self.make_room();
        course
    }

    /// Whether a hole is fetched for; it is counted.
    fn opens(&mut self, now: Nanos, key: Key, last: u64, number: u64) -> bool {
        self.tally.holes += 1;
        let is_too_large =
            number > NUMBER_MAX || number - last > MISSING_MAX || self.holes.len() >= HOLES_MAX;
        let opens = !is_too_large && now >= self.rest_until && self.subjects.contains_key(&key.0);
        self.tally.too_large += u64::from(is_too_large);
        self.tally.given_up += u64::from(!opens);
        opens
    }

    /// When too much waits, what holds the most of it waits no longer.
    fn make_room(&mut self) {
        if self.held_bytes > self.bounds.held_bytes
            && let Some(fullest) = self.holes.values_mut().max_by_key(|hole| hole.wanted.bytes())
        {
            self.tally.too_large += 1;
            fullest.give_up();
        }
    }

    /// Takes what can be handed on next. A hole behind which nothing waits is over then.
    pub(super) fn take(&mut self, now: Nanos, key: Key) -> Option<Next> {
        let hole = self.holes.get_mut(&key)?;
        let before = hole.wanted.bytes();
        let step = hole.wanted.take(now);
        self.held_bytes -= before - hole.wanted.bytes();
        match step {
            Step::Packet(bytes) => Some(Next::Packet(bytes)),
            Step::Lost { before } => {
                hole.is_lost = true;
                Some(Next::Lost { before })
            }
            Step::Missing => None,
            Step::Whole => {
                self.conclude(now, key);
                None
            }
        }
    }

    /// A hole is over; what it says of the server.
    fn conclude(&mut self, now: Nanos, key: Key) {
        let Some(hole) = self.holes.get(&key) else { return };
        let (is_lost, given) = (hole.is_lost, hole.given);
        self.close(key);
        if !is_lost {
            return;
        }
        self.tally.given_up += 1;
        let (stream, wait) = (&self.stream, self.bounds.wait.as_millis());
        match given {
            Given::Something => {}
            Given::NoAnswer => self.rest(
                now,
                format!(
                    "JetStream has answered nothing about stream {stream} within {wait} ms: it needs to be there, with \
                     allow_direct, and the user to publish to $JS.API.DIRECT.GET.{stream}"
                ),
            ),
            Given::Nothing => {
                let subject = self.subjects.get(&key.0).map_or("", String::as_str);
                let text = format!("stream {stream} of JetStream has nothing of {subject}: its subjects need to have it");
                self.rest(now, text);
            }
        }
    }

    fn rest(&mut self, now: Nanos, text: String) {
        if now < self.rest_until {
            return;
        }
        self.rest_until = now + REST;
        self.notices.push(format!("{text} (docs/guides/nats.md)"));
    }

    /// A hole is not fetched for any more, and what waits there is dropped.
    pub(super) fn close(&mut self, key: Key) {
        if let Some(hole) = self.holes.remove(&key) {
            self.held_bytes -= hole.wanted.bytes();
            self.asked.retain(|_, (of, _)| *of != key);
        }
    }

    /// A stream of packets is over: what is there of it is to be handed on.
    pub(super) fn give_up(&mut self, key: Key) {
        if let Some(hole) = self.holes.get_mut(&key) {
            hole.give_up();
        }
    }

    /// The connection was another one: nothing comes any more to what was asked.
    pub(super) fn on_broken(&mut self) {
        for (token, (key, _)) in self.asked.drain() {
            if let Some(hole) = self.holes.get_mut(&key) {
                hole.search.forget(token);
            }
        }
    }

    /// Takes an answer. Returns the stream of packets that may go on.
    pub(super) fn on_answer(&mut self, now: Nanos, bytes: &[u8]) -> Option<Key> {
        let answer = answer::read(bytes)?;
        let (key, _) = *self.asked.get(&answer.token)?;
        let hole = self.holes.get_mut(&key)?;
        match answer.status {
            0 => {}
            204 => {
                hole.search.forget(answer.token);
                self.asked.remove(&answer.token);
                return None;
            }
            404 => {
                hole.given = if hole.given == Given::NoAnswer { Given::Nothing } else { hole.given };
                hole.search.on_nothing(now, answer.token);
                self.asked.remove(&answer.token);
                return None;
            }
            status => return Some(self.refuse(now, key, &format!("refuses requests with status {status}"))),
        }
        let is_about_it = self.subjects.get(&key.0).is_some_and(|subject| subject == answer.subject);
        if !is_about_it || answer.sequence == 0 || answer.sequence > NUMBER_MAX {
            return Some(self.refuse(now, key, "answers with what was not asked"));
        }
        let before = hole.wanted.bytes();
        let found = found(key.1, hole.run, &answer);
        let (asked, until) = ((answer.token, answer.is_of_batch), now + self.bounds.wait);
        let place = (answer.sequence, found);
        let result = hole.search.on_found((now, until), asked, place, &mut hole.wanted);
        let mut is_missing = false;
        if let Found::Packet(number) = found {
            is_missing = hole.wanted.is_missing(number) && hole.wanted.hold(number, answer.payload, until);
        }
        self.held_bytes += hole.wanted.bytes() - before;
        hole.given = Given::Something;
        self.tally.recovered += u64::from(is_missing);
        self.is_batched |= answer.is_of_batch;
        if answer.is_of_batch {
            self.asked.insert(answer.token, (key, now));
        } else {
            self.asked.remove(&answer.token);
        }
        if result.is_err() {
            return Some(self.refuse(now, key, "answers with what was not asked"));
        }
        self.make_room();
        Some(key)
    }

    /// A server that does what it should not is asked nothing more for this hole, and rests.
    fn refuse(&mut self, now: Nanos, key: Key, text: &str) -> Key {
        self.tally.refused += 1;
        self.give_up(key);
        self.asked.retain(|_, (of, _)| *of != key);
        self.rest(now, format!("JetStream {text} about stream {}", self.stream));
        key
    }

    /// Does what is due. Returns the streams of packets that may go on.
    pub(super) fn poll(&mut self, now: Nanos) -> Vec<Key> {
        let patience = self.bounds.patience();
        let late = self.asked.iter().filter(|(_, (_, at))| now >= *at + patience);
        for token in late.map(|(token, _)| *token).collect::<Vec<_>>() {
            self.tally.unanswered += 1;
            if let Some((key, _)) = self.asked.remove(&token)
                && let Some(hole) = self.holes.get_mut(&key)
            {
                hole.search.forget(token);
            }
        }
        self.holes.iter().filter(|(_, hole)| hole.wanted.ready_at() <= now).map(|(key, _)| *key).collect()
    }

    /// Takes the requests that can be made now.
    pub(super) fn take_requests(&mut self, now: Nanos) -> Vec<Request> {
        let mut requests = Vec::new();
        for (key, hole) in &mut self.holes {
            let Some(subject) = self.subjects.get(&key.0) else { continue };
            let before = hole.wanted.bytes();
            while self.asked.len() < self.bounds.requests && now < hole.wanted.until() {
                let token = self.last_token + 1;
                let ask =
                    hole.search.next(now, &mut hole.wanted, token, self.bounds.requests, self.is_batched);
                let Some(ask) = ask else { break };
                self.last_token = token;
                self.asked.insert(token, (*key, now));
                self.tally.requests += 1;
                requests.push(Request { token, body: answer::request(ask, subject) });
            }
            self.held_bytes += hole.wanted.bytes() - before;
        }
        self.make_room();
        requests
    }

    /// When [`Recovery::poll`] has something to do, if nothing comes before.
    pub(super) fn due(&self) -> Nanos {
        let patience = self.bounds.patience();
        let asked = self.asked.values().map(|(_, at)| *at + patience);
        // What cannot be asked because too much is under way waits for that.
        let has_room = self.asked.len() < self.bounds.requests;
        let search = |hole: &Hole| if has_room { hole.search.due(&hole.wanted) } else { Nanos::NEVER };
        let holes = self.holes.values().map(|hole| hole.wanted.ready_at().min(search(hole)));
        asked.chain(holes).min().unwrap_or(Nanos::NEVER)
    }

    pub(super) fn take_tally(&mut self) -> Tally {
        std::mem::take(&mut self.tally)
    }

    pub(super) fn take_notices(&mut self) -> Vec<String> {
        std::mem::take(&mut self.notices)
    }
}

/// What a message of JetStream's stream is for a sender's stream of packets.
fn found(origin: u64, run: u64, answer: &Answer<'_>) -> Found {
    match packet::read(answer.payload) {
        Some(Packet { head, body })
            if (head.origin, head.run) == (origin, run) && head.number <= NUMBER_MAX =>
        {
            match body {
                Body::Messages(_) | Body::Piece { .. } => Found::Packet(head.number),
                _ => Found::Word(head.number),
            }
        }
        _ => Found::Other,
    }
}

//! The streams that a point-to-point server hears: who sends them, and what of them is missing. Pure.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use market::p2ps::SourceId;
use units::Nanos;

use super::jetstream::{Course, Key, Next, Recovery};
use super::packet::{self, ASSEMBLED_BYTES_MAX, Assembly, Body, Packet};

/// Streams that are followed at a time; those beyond are not heard.
pub(super) const SOURCES_MAX: usize = 4_096;

/// What a packet of a stream brings.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Found<'a> {
    /// The stream is new.
    New(SourceId),
    /// It is over.
    Ended(SourceId),
    Message(SourceId, &'a [u8]),
}

/// What became of a packet, to be counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Outcome {
    /// Packets before it that have not come.
    pub(super) lost: u64,
    /// It has come before, or later ones have.
    pub(super) is_late: bool,
    /// There are too many sources to hear another one.
    pub(super) is_refused: bool,
}

/// After so many packets in a row whose numbers are behind, these are believed, and not the one before them.
const LATE_MAX: u32 = 16;

struct Source {
    id: SourceId,
    run: u64,
    /// Number of the last packet.
    number: u64,
    /// Packets in a row that were numbered below it.
    late: u32,
    assembly: Assembly,
    heard_at: Nanos,
}

/// All streams, by the subscription they come with and their sender.
#[derive(Default)]
pub(super) struct Sources {
    found: HashMap<Key, Source>,
    next: u32,
    /// Bytes of messages in pieces, or more: it is counted anew when it comes to matter.
    assembled: usize,
    /// Fetches what is missing, where JetStream has it.
    recovery: Option<Recovery>,
}

impl Sources {
    /// Sources whose holes are fetched for before they are told.
    pub(super) fn recovering(recovery: Option<Recovery>) -> Sources {
        Sources { recovery, ..Sources::default() }
    }

    pub(super) fn recovery(&mut self) -> Option<&mut Recovery> {
        self.recovery.as_mut()
    }

    /// When [`Sources::poll`] has something to do.
    pub(super) fn due(&self) -> Nanos {
        self.recovery.as_ref().map_or(Nanos::NEVER, Recovery::due)
    }

    /// Takes a packet that has come with a subscription. `bytes` are the same, as they came.
    pub(super) fn receive(
        &mut self,
        now: Nanos,
        subscription: u32,
        (packet, bytes): (&Packet<'_>, &[u8]),
        mut handle: impl FnMut(Found<'_>),
    ) -> Outcome {
        let head = packet.head;
        let key = (subscription, head.origin);
        let is_known = self.found.get(&key).map(|source| source.run);
        let mut lost = 0;
        match is_known {
            Some(run) if head.run < run => return Outcome { is_late: true, ..Outcome::default() },
            Some(run) if head.run > run => lost = self.end(now, key, &mut handle),
            _ => {}
        }
        if !self.found.contains_key(&key) {
            match packet.body {
                Body::End(_) => return Outcome { lost, ..Outcome::default() },
                _ if self.found.len() >= SOURCES_MAX => {
                    return Outcome { lost, is_refused: true, ..Outcome::default() };
                }
                _ => {}
            }
            let id = SourceId(self.next);
            self.next += 1;
            // What was sent before it is not missing: nobody has listened.
            let number = head.number - u64::from(head.kind.is_numbered());
            let source =
                Source { id, run: head.run, number, late: 0, assembly: Assembly::default(), heard_at: now };
            self.found.insert(key, source);
            handle(Found::New(id));
        }
        let Some(source) = self.found.get_mut(&key) else { return Outcome::default() };
        source.heard_at = now;
        if let Body::End(_) = packet.body {
            lost += self.end(now, key, &mut handle);
            return Outcome { lost, ..Outcome::default() };
        }
        let course = self.recovery.as_mut().map(|of| of.on_packet(now, key, source.number, packet, bytes));
        match course {
            None => {}
            Some(Course::Late) => return Outcome { lost, is_late: true, ..Outcome::default() },
            Some(Course::Held) => {
                lost += self.go_on(now, key, &mut handle);
                return Outcome { lost, ..Outcome::default() };
            }
            Some(Course::Pass) => lost += self.go_on(now, key, &mut handle),
        }
        let outcome = self.take(key, packet, &mut handle);
        Outcome { lost: lost.saturating_add(outcome.lost), ..outcome }
    }

    /// Takes a packet behind which nothing waits.
    #[inline]
    fn take(&mut self, key: Key, packet: &Packet<'_>, handle: &mut impl FnMut(Found<'_>)) -> Outcome {
        let Some(source) = self.found.get_mut(&key) else { return Outcome::default() };
        let before = source.number;
        let outcome = source.take(packet, handle);
        if source.number < before
            && let Some(recovery) = &mut self.recovery
        {
            // What waits has numbers that are not believed any more.
            recovery.close(key);
        }
        if let Body::Piece { bytes, .. } = packet.body {
            self.make_room(key, bytes.len());
        }
        outcome
    }

    /// Hands on what waits for nothing any more. Returns how many packets are lost.
    fn go_on(&mut self, now: Nanos, key: Key, handle: &mut impl FnMut(Found<'_>)) -> u64 {
        let mut lost = 0;
        while let Some(next) = self.recovery.as_mut().and_then(|recovery| recovery.take(now, key)) {
            match next {
                Next::Packet(bytes) => {
                    if let Some(packet) = packet::read(&bytes) {
                        lost += self.take(key, &packet, handle).lost;
                    }
                }
                Next::Lost { before } => {
                    lost += self.found.get_mut(&key).map_or(0, |source| source.skip(before - 1));
                }
            }
        }
        lost
    }

    /// Takes an answer of JetStream. Returns how many packets are lost.
    pub(super) fn on_answer(&mut self, now: Nanos, bytes: &[u8], mut handle: impl FnMut(Found<'_>)) -> u64 {
        let key = self.recovery.as_mut().and_then(|recovery| recovery.on_answer(now, bytes));
        key.map_or(0, |key| self.go_on(now, key, &mut handle))
    }

    /// Ends the wait for what has not come in time. Returns how many packets are lost.
    pub(super) fn poll(&mut self, now: Nanos, mut handle: impl FnMut(Found<'_>)) -> u64 {
        let due = self.recovery.as_mut().map(|recovery| recovery.poll(now)).unwrap_or_default();
        due.into_iter().map(|key| self.go_on(now, key, &mut handle)).sum()
    }

    /// Gives up the message of a source when all of them together take too much; the hole in its sequence tells.
    fn make_room(&mut self, key: Key, bytes: usize) {
        self.assembled += bytes;
        if self.assembled > ASSEMBLED_BYTES_MAX {
            self.assembled = self.found.values().map(|source| source.assembly.bytes()).sum();
            if self.assembled > ASSEMBLED_BYTES_MAX
                && let Some(source) = self.found.get_mut(&key)
            {
                self.assembled -= source.assembly.bytes();
                source.assembly.reset();
            }
        }
    }

    /// Ends a source. What waits of it is handed on before; returns how many packets of it are lost.
    fn end(&mut self, now: Nanos, key: Key, handle: &mut impl FnMut(Found<'_>)) -> u64 {
        if let Some(recovery) = &mut self.recovery {
            recovery.give_up(key);
        }
        let lost = self.go_on(now, key, handle);
        if let Some(source) = self.found.remove(&key) {
            handle(Found::Ended(source.id));
        }
        lost
    }

    /// Ends those of which nothing was heard for so long. Returns how many packets of them are lost.
    pub(super) fn expire(&mut self, now: Nanos, timeout: Duration, mut handle: impl FnMut(Found<'_>)) -> u64 {
        let silent = self.found.iter().filter(|(_, source)| now >= source.heard_at + timeout);
        let mut silent: Vec<(SourceId, Key)> = silent.map(|(key, source)| (source.id, *key)).collect();
        silent.sort_unstable_by_key(|(id, _)| id.0);
        silent.into_iter().map(|(_, key)| self.end(now, key, &mut handle)).sum()
    }

    /// Forgets what came with a subscription.
    pub(super) fn forget(&mut self, subscription: u32) {
        self.found.retain(|(of, _), _| *of != subscription);
        if let Some(recovery) = &mut self.recovery {
            recovery.forget(subscription);
        }
    }

    /// Who sends a stream.
    pub(super) fn origin_of(&self, id: SourceId) -> Option<u64> {
        self.found.iter().find(|(_, source)| source.id == id).map(|((_, origin), _)| *origin)
    }

    /// The subscriptions with which something is heard.
    pub(super) fn heard(&self) -> HashSet<u32> {
        self.found.keys().map(|(subscription, _)| *subscription).collect()
    }

    pub(super) fn len(&self) -> usize {
        self.found.len()
    }
}

impl Source {
    /// Packets up to this number are lost. Returns how many.
    fn skip(&mut self, number: u64) -> u64 {
        let lost = number.saturating_sub(self.number);
        self.number += lost;
        self.assembly.reset();
        lost
    }

    #[inline]
    fn take(&mut self, packet: &Packet<'_>, handle: &mut impl FnMut(Found<'_>)) -> Outcome {
        let (number, is_numbered) = (packet.head.number, packet.head.kind.is_numbered());
        if number < self.number || (is_numbered && number == self.number) {
            self.late += 1;
            if self.late < LATE_MAX {
                return Outcome { is_late: is_numbered, ..Outcome::default() };
            }
            // The packets of a sender come in its order, so the high number was another's.
            self.number = number - u64::from(is_numbered);
            self.assembly.reset();
        }
        self.late = 0;
        let lost = number - self.number - u64::from(is_numbered);
        self.number = number;
        if lost > 0 {
            self.assembly.reset();
        }
        match packet.body {
            Body::Messages(records) => {
                self.assembly.reset();
                records.for_each(|message| handle(Found::Message(self.id, message)));
            }
            Body::Piece { total, offset, bytes } => {
                // The rest of a message whose beginning was not heard is nothing: the hole in the sequence of the
                // messages tells.
                if let Ok(Some(message)) = self.assembly.add(total, offset, bytes) {
                    handle(Found::Message(self.id, &message));
                }
            }
            _ => {}
        }
        Outcome { lost, ..Outcome::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::super::packet::{self, Head, Kind, append_record, piece_head};
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    struct World {
        sources: Sources,
        now: Nanos,
        heard: Vec<String>,
    }

    impl World {
        fn new() -> World {
            World { sources: Sources::default(), now: Nanos(1), heard: Vec::new() }
        }

        fn get(&mut self, kind: Kind, (origin, run, number): (u64, u64, u64), body: &[u8]) -> Outcome {
            let bytes = [&Head { kind, origin, run, number, taken: 0 }.bytes()[..], body].concat();
            let packet = packet::read(&bytes).expect("sound");
            let World { sources, now, heard } = self;
            sources.receive(*now, 5, (&packet, &bytes), |found| note(heard, found))
        }

        fn message(&mut self, of: (u64, u64, u64), text: &str) -> Outcome {
            let mut body = Vec::new();
            append_record(&mut body, [text.as_bytes(), b""]);
            self.get(Kind::Messages, of, &body)
        }

        fn expire(&mut self) {
            let World { sources, now, heard } = self;
            sources.expire(*now, SECOND, |found| note(heard, found));
        }

        fn heard(&mut self) -> Vec<String> {
            std::mem::take(&mut self.heard)
        }
    }

    fn note(heard: &mut Vec<String>, found: Found<'_>) {
        heard.push(match found {
            Found::New(id) => format!("{} new", id.0),
            Found::Ended(id) => format!("{} ended", id.0),
            Found::Message(id, bytes) => format!("{} {}", id.0, String::from_utf8_lossy(bytes)),
        });
    }

    #[test]
    fn what_is_missing_is_counted_and_what_is_late_is_dropped() {
        let mut world = World::new();
        assert_eq!(world.message((1, 0, 40), "a").lost, 0, "nobody has listened before");
        assert_eq!(world.message((1, 0, 41), "b").lost, 0);
        assert_eq!(world.message((1, 0, 44), "c").lost, 2);
        assert!(world.message((1, 0, 43), "late").is_late);
        assert!(world.message((1, 0, 44), "twice").is_late);
        assert_eq!(world.get(Kind::KeepAlive, (1, 0, 44), b""), Outcome::default());
        assert_eq!(world.get(Kind::KeepAlive, (1, 0, 46), b"").lost, 2, "at the tail too");
        assert_eq!(world.message((1, 0, 47), "d").lost, 0);
        assert_eq!(world.heard(), ["0 new", "0 a", "0 b", "0 c", "0 d"]);
    }

    #[test]
    fn a_number_that_is_not_the_sender_s_does_not_silence_it() {
        let mut world = World::new();
        world.message((1, 0, 1), "a");
        world.get(Kind::KeepAlive, (1, 0, 1 << 63), b"");
        let late = (2..40).take_while(|number| world.message((1, 0, *number), "late").is_late).count();
        assert_eq!(late, LATE_MAX as usize - 1);
        assert_eq!(world.message((1, 0, 2 + LATE_MAX as u64), "b"), Outcome::default());
        assert_eq!(world.heard(), ["0 new", "0 a", "0 late", "0 b"]);
        // A stream on which nothing is published is heard again too.
        world.get(Kind::KeepAlive, (1, 0, 1 << 63), b"");
        for _ in 0..LATE_MAX {
            world.get(Kind::KeepAlive, (1, 0, 2 + LATE_MAX as u64), b"");
        }
        assert_eq!(world.message((1, 0, 3 + LATE_MAX as u64), "c"), Outcome::default());
    }

    #[test]
    fn a_long_message_is_whole_or_not_there() {
        let mut world = World::new();
        let piece = |offset: usize, bytes: &[u8]| [&piece_head(6, offset)[..], bytes].concat();
        world.get(Kind::Piece, (1, 0, 1), &piece(0, b"abc"));
        world.get(Kind::Piece, (1, 0, 2), &piece(3, b"def"));
        world.get(Kind::Piece, (1, 0, 3), &piece(0, b"ABC"));
        assert_eq!(world.get(Kind::Piece, (1, 0, 5), &piece(3, b"DEF")).lost, 1);
        world.get(Kind::Piece, (1, 0, 6), &piece(3, b"def"));
        assert_eq!(world.heard(), ["0 new", "0 abcdef"]);
    }

    #[test]
    fn streams_end_by_word_by_silence_and_by_another_run() {
        let mut world = World::new();
        world.message((1, 0, 1), "a");
        world.message((2, 0, 1), "b");
        world.get(Kind::End, (1, 0, 1), b"");
        assert_eq!(world.get(Kind::End, (1, 0, 1), b""), Outcome::default(), "it is known");
        assert_eq!(world.heard(), ["0 new", "0 a", "1 new", "1 b", "0 ended"]);
        world.now += SECOND / 2;
        world.get(Kind::KeepAlive, (2, 0, 1), b"");
        world.now += SECOND / 2;
        world.expire();
        assert_eq!(world.heard(), [""; 0]);
        // It was opened anew, and the end before was lost.
        world.message((2, 1, 1), "c");
        assert!(world.message((2, 0, 2), "of before").is_late);
        world.now += SECOND;
        world.expire();
        assert_eq!(world.heard(), ["1 ended", "2 new", "2 c", "2 ended"]);
        assert_eq!(world.sources.len(), 0);
    }

    #[test]
    fn messages_that_never_end_do_not_fill_the_memory() {
        let mut world = World::new();
        let (total, piece) = (64 << 20, vec![7; 1 << 20]);
        for number in 1..=60 {
            for origin in 0..10 {
                let body = [&piece_head(total, (number as usize - 1) << 20)[..], &piece].concat();
                world.get(Kind::Piece, (origin, 0, number), &body);
            }
        }
        let all: usize = world.sources.found.values().map(|source| source.assembly.bytes()).sum();
        assert!((ASSEMBLED_BYTES_MAX / 2..=ASSEMBLED_BYTES_MAX).contains(&all), "{all}");
        assert_eq!(world.message((3, 0, 61), "and it goes on").lost, 0);
    }

    #[test]
    fn strangers_do_not_fill_the_memory() {
        let mut world = World::new();
        let refused =
            (0..SOURCES_MAX as u64 + 10).filter(|origin| world.message((*origin, 0, 1), "x").is_refused);
        assert_eq!(refused.count(), 10);
        world.sources.forget(4);
        assert_eq!(world.sources.len(), SOURCES_MAX);
        assert_eq!(world.sources.origin_of(SourceId(7)), Some(7));
        world.sources.forget(5);
        assert_eq!(world.sources.len(), 0);
    }
}

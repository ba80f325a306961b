//! A bounded ring of byte messages from one thread to another.
//!
//! Layout: a power-of-two run of 8-byte words. A message takes one header word (its length in bytes, and in the
//! highest bit whether its writer's number stands in the next word) and its bytes rounded up to whole words, and
//! never wraps: where it would, a padding header (all ones) sends the reader to the start. Positions count words since the start and are published with release and read with
//! acquire, so the reader sees whole messages only. Either side keeps a copy of the other's position and
//! looks at the shared one only when that is used up.
//!
//! The reader may close the ring ([`close`]). A push then either was accepted, and is read, or says that the
//! ring is closed: no message is accepted and never read. The producer looks at one word of its own cache line
//! after each message; the reader pays for the order of the two (`barrier`).

#[cfg(loom)]
use loom::sync::{Arc, atomic::AtomicU64};
#[cfg(not(loom))]
use std::sync::{Arc, atomic::AtomicU64};

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

mod barrier;
pub mod broadcast;
mod storage;

use storage::Storage;

const PADDING: u64 = u64::MAX;
/// In the header of a message that has a number in front of it. No length comes near it.
const NUMBERED: u64 = 1 << 63;
const WORD: usize = 8;

/// A position on cache lines of its own, so that its writer does not disturb the other side.
#[repr(align(128))]
struct Position(AtomicU64);

/// What the producer touches with each message: its line stays where the producer is, since the consumer looks
/// here only to close the ring.
#[repr(align(128))]
struct Appended {
    /// Everything before it was appended, published or not. Written by the producer.
    position: AtomicU64,
    /// `OPEN`, `FENCED` or `CLOSED`. Written by the consumer.
    state: AtomicU64,
    /// Everything before it is read though the ring is closed; `UNSETTLED` until that is known. Written by the
    /// consumer.
    last: AtomicU64,
}

/// Messages are accepted.
const OPEN: u64 = 0;
/// The same, but the consumer has no barrier for both sides: the producer makes one with each message.
const FENCED: u64 = 1;
/// No more messages are accepted.
const CLOSED: u64 = 2;

const UNSETTLED: u64 = u64::MAX;

struct Shared {
    storage: Storage,
    word_count: u64,
    /// Everything before it may be read. Written by the producer.
    written: Position,
    appended: Appended,
    /// Everything before it may be overwritten. Written by the consumer.
    read: Position,
}

/// Why a message was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PushError {
    /// The reader has not made room yet; nothing was written.
    Full,
    /// Longer than the ring can ever take.
    TooLong {
        /// Bytes of the message.
        bytes: usize,
        /// The most a message of this ring may have.
        max: usize,
    },
    /// The reader has closed the ring and will not read the message.
    Closed,
}

/// A ring with room for about `bytes` (rounded up to a power of two, at least 64).
#[must_use]
pub fn ring(bytes: usize) -> (Producer, Consumer) {
    ring_in(bytes, if barrier::is_one_sided() { OPEN } else { FENCED })
}

fn ring_in(bytes: usize, state: u64) -> (Producer, Consumer) {
    let word_count = bytes.div_ceil(WORD).next_power_of_two().max(8);
    let shared = Arc::new(Shared {
        storage: Storage::new(word_count),
        word_count: word_count as u64,
        written: Position(AtomicU64::new(0)),
        appended: Appended {
            position: AtomicU64::new(0),
            state: AtomicU64::new(state),
            last: AtomicU64::new(UNSETTLED),
        },
        read: Position(AtomicU64::new(0)),
    });
    let producer = Producer {
        shared: shared.clone(),
        written: 0,
        published: 0,
        read_seen: 0,
        #[cfg(loom)]
        is_one_sided: state == OPEN,
    };
    (producer, Consumer { shared, read: 0, written_seen: 0, last: None })
}

/// Closes rings: what their producers have appended by now, published or not, can be read, and nothing that comes
/// later is accepted. Costs one system call for all of them.
pub fn close<'a>(consumers: impl IntoIterator<Item = &'a mut Consumer>) {
    let consumers: Vec<_> = consumers.into_iter().filter(|consumer| consumer.last.is_none()).collect();
    if consumers.is_empty() {
        return;
    }
    for consumer in &consumers {
        consumer.shared.appended.state.store(CLOSED, Relaxed);
    }
    // A producer appends, then looks at the state; here the state is written, then is looked what was appended. One of
    // the two sees the other.
    barrier::heavy();
    for consumer in consumers {
        let last = consumer.shared.appended.position.load(Acquire);
        consumer.settle(last);
    }
}

/// The writing side. Not `Clone`: one writer is the rule that makes the ring sound.
pub struct Producer {
    shared: Arc<Shared>,
    written: u64,
    published: u64,
    read_seen: u64,
    #[cfg(loom)]
    is_one_sided: bool,
}

impl Producer {
    /// The longest message this ring takes, bytes: a quarter of it, so that padding never starves it.
    #[must_use]
    pub fn message_max_bytes(&self) -> usize {
        (self.shared.word_count as usize / 4) * WORD - WORD
    }

    /// Appends one message, gathered from `parts`; [`Producer::publish`] shows it to the reader.
    ///
    /// # Errors
    /// [`PushError`]; what was appended before is untouched.
    #[inline]
    pub fn push(&mut self, parts: &[&[u8]]) -> Result<(), PushError> {
        self.push_with(None, parts)
    }

    /// The same, with a number that the reader is told as well ([`Consumer::drain_numbered`]).
    ///
    /// # Errors
    /// As [`Producer::push`]; the number takes 8 bytes of what a message may have.
    #[inline]
    pub fn push_numbered(&mut self, number: u64, parts: &[&[u8]]) -> Result<(), PushError> {
        self.push_with(Some(number), parts)
    }

    #[inline]
    fn push_with(&mut self, number: Option<u64>, parts: &[&[u8]]) -> Result<(), PushError> {
        let bytes = parts.iter().map(|p| p.len()).sum::<usize>();
        let head = if number.is_some() { 2 } else { 1 };
        let max = self.message_max_bytes() - (head - 1) * WORD;
        if bytes > max {
            return Err(PushError::TooLong { bytes, max });
        }
        let need = (head + bytes.div_ceil(WORD)) as u64;
        let before = self.written;
        let at = self.written % self.shared.word_count;
        let to_end = self.shared.word_count - at;
        let padding = if need > to_end { to_end } else { 0 };
        if !self.has_room(need + padding) {
            return Err(self.full());
        }
        if padding > 0 {
            self.shared.storage.set_word(at as usize, PADDING);
            self.written += padding;
        }
        let at = (self.written % self.shared.word_count) as usize;
        match number {
            None => self.shared.storage.set_word(at, bytes as u64),
            Some(number) => {
                self.shared.storage.set_word(at, bytes as u64 | NUMBERED);
                self.shared.storage.set_word(at + 1, number);
            }
        }
        self.shared.storage.set_bytes(at + head, parts);
        self.written += need;
        self.shared.appended.position.store(self.written, Release);
        self.order();
        if self.shared.appended.state.load(Relaxed) != OPEN {
            return self.look_whether_accepted(before);
        }
        Ok(())
    }

    #[cold]
    #[inline(never)]
    fn full(&self) -> PushError {
        if self.shared.appended.state.load(Relaxed) == CLOSED { PushError::Closed } else { PushError::Full }
    }

    /// What was appended comes before a look at the state.
    #[inline]
    fn order(&self) {
        #[cfg(loom)]
        if !self.is_one_sided {
            return;
        }
        barrier::light();
    }

    /// Whether the message that was just appended, from `before` on, is read.
    #[cold]
    #[inline(never)]
    fn look_whether_accepted(&mut self, before: u64) -> Result<(), PushError> {
        let Appended { state, last, .. } = &self.shared.appended;
        barrier::full();
        if state.load(Relaxed) != CLOSED {
            return Ok(());
        }
        loop {
            match last.load(Relaxed) {
                // The reader says it as soon as it has closed the ring.
                UNSETTLED => barrier::pause(),
                last if self.written <= last => return Ok(()),
                _ => {
                    self.written = before;
                    return Err(PushError::Closed);
                }
            }
        }
    }

    /// Shows everything appended so far to the reader. Returns whether there was anything.
    pub fn publish(&mut self) -> bool {
        let is_news = self.published != self.written;
        if is_news {
            self.shared.written.0.store(self.written, Release);
            self.published = self.written;
        }
        is_news
    }

    /// Bytes between what was read and what was written, headers and padding included.
    #[must_use]
    pub fn depth_bytes(&self) -> u64 {
        // Relaxed: a number alone, behind which nothing is written.
        (self.written - self.shared.read.0.load(Relaxed)) * WORD as u64
    }

    fn has_room(&mut self, words: u64) -> bool {
        if self.written + words - self.read_seen <= self.shared.word_count {
            return true;
        }
        self.read_seen = self.shared.read.0.load(Acquire);
        self.written + words - self.read_seen <= self.shared.word_count
    }
}

/// The reading side.
pub struct Consumer {
    shared: Arc<Shared>,
    read: u64,
    written_seen: u64,
    /// Where the ring was closed.
    last: Option<u64>,
}

impl Consumer {
    /// Nobody reads any more: later pushes say so, and what is in the ring now is not read.
    pub fn abandon(&mut self) {
        if self.last.is_none() {
            self.shared.appended.state.store(CLOSED, Relaxed);
            self.settle(self.read);
        }
    }

    fn settle(&mut self, last: u64) {
        self.last = Some(last);
        self.shared.appended.last.store(last, Relaxed);
    }

    /// Before which everything may be read.
    fn end(&self) -> u64 {
        self.last.unwrap_or_else(|| self.shared.written.0.load(Acquire))
    }

    /// How many messages there are to read. Looks at the head of each.
    #[must_use]
    pub fn count(&self) -> u64 {
        let (end, mut at, mut count) = (self.end(), self.read, 0);
        while at != end {
            let in_ring = at % self.shared.word_count;
            let header = self.shared.storage.word(in_ring as usize);
            at += match header {
                PADDING => self.shared.word_count - in_ring,
                _ => {
                    count += 1;
                    let head = if header & NUMBERED == 0 { 1 } else { 2 };
                    head + (header & !NUMBERED).div_ceil(WORD as u64)
                }
            };
        }
        count
    }

    /// Hands up to `max` messages to `handle`, oldest first, and gives their room back. Returns how many
    /// there were.
    #[inline]
    pub fn drain(&mut self, max: usize, mut handle: impl FnMut(&[u8])) -> usize {
        self.drain_numbered(max, |_, message| handle(message))
    }

    /// The same; tells the number of each message that has one.
    pub fn drain_numbered(&mut self, max: usize, mut handle: impl FnMut(Option<u64>, &[u8])) -> usize {
        let mut count = 0;
        while count < max {
            if self.read == self.written_seen {
                self.written_seen = self.end();
                if self.read == self.written_seen {
                    break;
                }
            }
            let at = self.read % self.shared.word_count;
            let header = self.shared.storage.word(at as usize);
            if header == PADDING {
                self.read += self.shared.word_count - at;
                continue;
            }
            let (number, head, bytes) = if header & NUMBERED == 0 {
                (None, 1, header)
            } else {
                (Some(self.shared.storage.word(at as usize + 1)), 2, header & !NUMBERED)
            };
            // Before it is handed on: one whose handling panics does not come again.
            self.read += head + bytes.div_ceil(WORD as u64);
            count += 1;
            let mut hand = |message: &[u8]| handle(number, message);
            self.shared.storage.with_bytes((at + head) as usize, bytes as usize, &mut hand);
        }
        self.shared.read.0.store(self.read, Release);
        count
    }

    /// Whether there is nothing to read at this moment.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        // Relaxed: who reads looks again.
        self.read == self.last.unwrap_or_else(|| self.shared.written.0.load(Relaxed))
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// Under Miri everything takes a thousand times as long.
    const SCALE: u64 = if cfg!(miri) { 200 } else { 1 };

    fn read_all(consumer: &mut Consumer) -> Vec<Vec<u8>> {
        let mut all = Vec::new();
        consumer.drain(usize::MAX, |m| all.push(m.to_vec()));
        all
    }

    #[test]
    fn a_message_whose_handling_panics_does_not_come_again() {
        let (mut producer, mut consumer) = ring(256);
        for message in [&b"one"[..], b"two", b"three"] {
            producer.push(&[message]).unwrap();
        }
        producer.publish();
        let handling = std::panic::AssertUnwindSafe(|| {
            consumer.drain(2, |message| assert!(message != b"two", "of the application"))
        });
        assert!(std::panic::catch_unwind(handling).is_err());
        assert_eq!(read_all(&mut consumer), [b"three".to_vec()]);
        // Its room is there again.
        for _ in 0..100 {
            producer.push(&[&[7; 50]]).unwrap();
            producer.publish();
            assert_eq!(read_all(&mut consumer), [vec![7; 50]]);
        }
    }

    #[test]
    fn messages_come_out_as_they_went_in() {
        let (mut producer, mut consumer) = ring(256);
        producer.push(&[b"one"]).unwrap();
        producer.push(&[b"", b"tw", b"o"]).unwrap();
        producer.push(&[]).unwrap();
        assert!(consumer.is_empty(), "nothing is seen before it is published");
        producer.publish();
        assert_eq!(read_all(&mut consumer), [b"one".to_vec(), b"two".to_vec(), vec![]]);
        assert!(consumer.is_empty());
    }

    #[test]
    fn a_closed_ring_gives_what_was_not_published_and_accepts_nothing_more() {
        for state in [OPEN, FENCED] {
            let (mut producer, mut consumer) = ring_in(256, state);
            producer.push(&[b"published"]).unwrap();
            producer.publish();
            producer.push(&[b"not"]).unwrap();
            assert_eq!(read_all(&mut consumer), [b"published".to_vec()]);
            close([&mut consumer]);
            assert!(!consumer.is_empty());
            assert_eq!(producer.push(&[b"later"]), Err(PushError::Closed));
            producer.publish();
            assert_eq!(read_all(&mut consumer), [b"not".to_vec()]);
            let depth_and_end = (producer.depth_bytes(), consumer.is_empty(), consumer.count());
            assert_eq!(depth_and_end, (0, true, 0));
            while producer.push_numbered(1, &[b"later"]) != Err(PushError::Closed) {}
            close([&mut consumer]);
            assert_eq!(read_all(&mut consumer), Vec::<Vec<u8>>::new());
        }
    }

    #[test]
    fn a_full_ring_says_that_it_is_closed() {
        let (mut producer, mut consumer) = ring(64);
        while producer.push(&[&[7; 8]]).is_ok() {}
        consumer.abandon();
        assert_eq!(producer.push(&[&[7; 8]]), Err(PushError::Closed));
        assert_eq!(read_all(&mut consumer), Vec::<Vec<u8>>::new());
    }

    #[test]
    fn messages_are_counted_as_they_lie() {
        let (mut producer, mut consumer) = ring(256);
        for len in [0, 1, 8, 9, 40] {
            for round in 0..20 {
                assert_eq!(consumer.count(), 0);
                producer.push(&[&[1; 40][..len]]).unwrap();
                producer.push_numbered(u64::MAX, &[&[2; 40][..len]]).unwrap();
                assert_eq!(consumer.count(), 0, "nothing is seen before it is published");
                producer.publish();
                assert_eq!(consumer.count(), 2, "{round}");
                assert_eq!(read_all(&mut consumer).len(), 2);
            }
        }
    }

    #[test]
    fn what_is_accepted_while_a_ring_is_closed_is_read() {
        for _ in 0..2_000 / SCALE {
            let (mut producer, mut consumer) = ring(4096);
            let writer = std::thread::spawn(move || {
                let mut accepted = 0u64;
                loop {
                    match producer.push(&[&accepted.to_be_bytes()]) {
                        Ok(()) => accepted += 1,
                        Err(PushError::Closed) => return accepted,
                        Err(_) => std::thread::yield_now(),
                    }
                    producer.publish();
                }
            });
            let mut read = consumer.drain(16, |_| {}) as u64;
            close([&mut consumer]);
            read += consumer.drain(usize::MAX, |_| {}) as u64;
            assert_eq!(writer.join().unwrap(), read);
        }
    }

    #[test]
    fn a_number_comes_out_with_its_message_and_no_other() {
        let (mut producer, mut consumer) = ring(256);
        let max = producer.message_max_bytes() - 8;
        let too_long = producer.push_numbered(1, &[&vec![0; max + 1]]);
        assert_eq!(too_long, Err(PushError::TooLong { bytes: max + 1, max }));
        for round in 0..20 {
            let long = vec![7; max];
            producer.push(&[b"plain"]).unwrap();
            producer.push_numbered(u64::MAX - round, &[b"number", b"ed"]).unwrap();
            producer.push_numbered(0, &[]).unwrap();
            producer.push_numbered(round, &[&long]).unwrap();
            producer.publish();
            let mut all = Vec::new();
            consumer.drain_numbered(usize::MAX, |number, m| all.push((number, m.to_vec())));
            let (plain, numbered) = (b"plain".to_vec(), b"numbered".to_vec());
            let of = [None, Some(u64::MAX - round), Some(0), Some(round)];
            assert_eq!(all, of.into_iter().zip([plain, numbered, vec![], long]).collect::<Vec<_>>());
        }
    }

    #[test]
    fn a_full_ring_refuses_and_goes_on_after_a_read() {
        let (mut producer, mut consumer) = ring(64);
        let mut taken = 0;
        while producer.push(&[&[taken; 8]]).is_ok() {
            taken += 1;
        }
        assert_eq!(taken, 4, "two words each in eight");
        producer.publish();
        assert_eq!(read_all(&mut consumer).len(), 4);
        assert_eq!(producer.push(&[&[9; 8]]), Ok(()));
    }

    #[test]
    fn a_message_that_can_never_fit_is_named() {
        let (mut producer, _consumer) = ring(1024);
        let max = producer.message_max_bytes();
        assert_eq!(producer.push(&[&vec![0; max + 1]]), Err(PushError::TooLong { bytes: max + 1, max }));
        assert_eq!(producer.push(&[&vec![0; max]]), Ok(()));
    }

    #[test]
    fn every_length_survives_every_wrap() {
        let _repeat = testkit::repeat!();
        let (mut producer, mut consumer) = ring(512);
        let mut rng = units::Rng::new(11);
        let mut expected = std::collections::VecDeque::new();
        for i in 0..(20_000 / SCALE) as u32 {
            let message = vec![i as u8; rng.below(producer.message_max_bytes() as u64 + 1) as usize];
            while producer.push(&[&message]) == Err(PushError::Full) {
                producer.publish();
                consumer.drain(1, |m| assert_eq!(m, expected.pop_front().expect("one was pushed")));
            }
            expected.push_back(message);
        }
        producer.publish();
        consumer.drain(usize::MAX, |m| assert_eq!(m, expected.pop_front().expect("one was pushed")));
        assert!(expected.is_empty());
    }

    #[test]
    fn two_threads_lose_and_mix_nothing() {
        let (mut producer, mut consumer) = ring(4096);
        let count = 200_000 / SCALE;
        let writer = std::thread::spawn(move || {
            for i in 0..count {
                let message = i.to_be_bytes();
                while producer.push(&[&message[..(i % 8) as usize], &message[(i % 8) as usize..]]).is_err() {
                    producer.publish();
                    std::thread::yield_now();
                }
                producer.publish();
            }
        });
        let mut next = 0u64;
        while next < count {
            consumer.drain(64, |m| {
                assert_eq!(m, next.to_be_bytes());
                next += 1;
            });
        }
        writer.join().unwrap();
    }
}

#[cfg(all(test, loom))]
mod model {
    use super::*;

    /// Both sides make a bounded number of attempts at the edge of a full ring that is about to wrap.
    #[test]
    fn no_interleaving_shows_a_torn_or_lost_message() {
        loom::model(|| {
            let (mut producer, mut consumer) = ring(128);
            // It is not closed here, and nothing else may lean on that barrier.
            producer.is_one_sided = false;
            for i in 0..4 {
                producer.push(&[&[i; 9]]).expect("three words each, of sixteen");
            }
            producer.publish();
            let writer = loom::thread::spawn(move || {
                let mut pushed = 4u8;
                for _ in 0..3 {
                    if producer.push(&[&[pushed; 9]]).is_ok() {
                        pushed += 1;
                        producer.publish();
                    }
                }
                pushed
            });
            let mut next = 0u8;
            let mut take = |max| {
                consumer.drain(max, |m| {
                    assert_eq!(m, [next; 9]);
                    next += 1;
                })
            };
            take(1);
            // What was there before, and what comes meanwhile.
            take(4);
            let pushed = writer.join().unwrap();
            take(usize::MAX);
            assert_eq!(next, pushed);
        });
    }
    /// Whatever is accepted beside the closing is read, and nothing else.
    #[test]
    fn no_interleaving_accepts_what_is_not_read_when_a_ring_is_closed() {
        for state in [OPEN, FENCED] {
            loom::model(move || {
                let (mut producer, mut consumer) = ring_in(128, state);
                let writer = loom::thread::spawn(move || {
                    let mut accepted = 0;
                    for number in 0..3u8 {
                        match producer.push(&[&[number; 9]]) {
                            Ok(()) => accepted += 1,
                            Err(refused) => assert_eq!(refused, PushError::Closed),
                        }
                        if number == 0 {
                            producer.publish();
                        }
                    }
                    accepted
                });
                let mut next = 0u8;
                let mut take = |consumer: &mut Consumer| {
                    consumer.drain(4, |m| {
                        assert_eq!(m, [next; 9]);
                        next += 1;
                    })
                };
                take(&mut consumer);
                close([&mut consumer]);
                take(&mut consumer);
                assert_eq!(take(&mut consumer), 0);
                assert_eq!(writer.join().unwrap(), next);
            });
        }
    }
}

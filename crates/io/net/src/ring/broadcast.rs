//! A bounded ring of byte messages from one thread to several others, which all read the same memory in the same order.
//!
//! Layout: as [`ring`](super), but a message's header has two words: its length in bytes, and a bit for each reader that
//! it is for. Each reader passes over what is for others, and keeps a position of its own; the writer overwrites what
//! all of them have passed. So a message is written once, however many read it, and a reader that stands still holds up
//! the writer.

#[cfg(loom)]
use loom::sync::{Arc, atomic::AtomicU64};
#[cfg(not(loom))]
use std::sync::{Arc, atomic::AtomicU64};

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use super::storage::Storage;
use super::{PADDING, Position, PushError, WORD};

/// The most readers: each has a bit of a word.
pub const READERS_MAX: usize = 64;

/// Every reader.
pub const ALL: u64 = u64::MAX;

/// Words of a header.
const HEAD: u64 = 2;
/// The position of a reader that is gone.
const GONE: u64 = u64::MAX;

struct Shared {
    storage: Storage,
    word_count: u64,
    /// Everything before it may be read. Written by the writer.
    written: Position,
}

/// The writing side. Not `Clone`: one writer is the rule that makes the ring sound.
pub struct Broadcaster {
    shared: Arc<Shared>,
    written: u64,
    published: u64,
    /// The last known position of the reader that is furthest behind.
    read_seen: u64,
    /// Of each reader, at the place of its bit.
    readers: [Option<Arc<Position>>; READERS_MAX],
}

/// One of the reading sides.
pub struct Reader {
    shared: Arc<Shared>,
    /// Everything before it is read. Written by the reader.
    position: Arc<Position>,
    read: u64,
    written_seen: u64,
    bit: u64,
}

impl Broadcaster {
    /// A ring with room for about `bytes` (rounded up to a power of two, at least 128), and without readers.
    #[must_use]
    pub fn new(bytes: usize) -> Broadcaster {
        let word_count = bytes.div_ceil(WORD).next_power_of_two().max(16);
        let shared = Arc::new(Shared {
            storage: Storage::new(word_count),
            word_count: word_count as u64,
            written: Position(AtomicU64::new(0)),
        });
        Broadcaster { shared, written: 0, published: 0, read_seen: 0, readers: [const { None }; READERS_MAX] }
    }

    /// One more reader: it gets what is pushed from now on. `None` if there are as many as there may be.
    pub fn add_reader(&mut self) -> Option<Reader> {
        self.publish();
        self.forget_gone();
        let place = self.readers.iter().position(Option::is_none)?;
        let position = Arc::new(Position(AtomicU64::new(self.written)));
        self.readers[place] = Some(position.clone());
        let (read, written_seen) = (self.written, self.written);
        Some(Reader { shared: self.shared.clone(), position, read, written_seen, bit: 1 << place })
    }

    /// The longest message this ring takes, bytes: a quarter of it, so that padding never starves it.
    #[must_use]
    pub fn message_max_bytes(&self) -> usize {
        ((self.shared.word_count / 4 - HEAD) as usize) * WORD
    }

    /// Appends one message, gathered from `parts`, for the readers whose bits are set in `to`; [`Broadcaster::publish`]
    /// shows it to them.
    ///
    /// # Errors
    /// [`PushError::Full`] until the slowest reader has made room, [`PushError::TooLong`]; what was appended before is
    /// untouched.
    #[inline]
    pub fn push(&mut self, to: u64, parts: &[&[u8]]) -> Result<(), PushError> {
        let bytes = parts.iter().map(|part| part.len()).sum::<usize>();
        let max = self.message_max_bytes();
        if bytes > max {
            return Err(PushError::TooLong { bytes, max });
        }
        let need = HEAD + bytes.div_ceil(WORD) as u64;
        let at = self.written % self.shared.word_count;
        let to_end = self.shared.word_count - at;
        let padding = if need > to_end { to_end } else { 0 };
        if !self.has_room(need + padding) {
            return Err(PushError::Full);
        }
        if padding > 0 {
            self.shared.storage.set_word(at as usize, PADDING);
            self.written += padding;
        }
        let at = (self.written % self.shared.word_count) as usize;
        self.shared.storage.set_word(at, bytes as u64);
        self.shared.storage.set_word(at + 1, to);
        self.shared.storage.set_bytes(at + HEAD as usize, parts);
        self.written += need;
        Ok(())
    }

    /// Shows everything appended so far to the readers. Returns whether there was anything.
    pub fn publish(&mut self) -> bool {
        let is_news = self.published != self.written;
        if is_news {
            self.shared.written.0.store(self.written, Release);
            self.published = self.written;
        }
        is_news
    }

    #[inline]
    fn has_room(&mut self, words: u64) -> bool {
        self.written + words - self.read_seen <= self.shared.word_count || self.has_room_by_now(words)
    }

    #[cold]
    fn has_room_by_now(&mut self, words: u64) -> bool {
        // Acquire: what a reader has read, it has read before its place is written again.
        let positions = self.readers.iter().flatten().map(|position| position.0.load(Acquire));
        self.read_seen = positions.filter(|at| *at != GONE).min().unwrap_or(self.written);
        self.written + words - self.read_seen <= self.shared.word_count
    }

    /// Places of readers that are gone are free. What is left in the ring with their bits is before whoever gets them.
    fn forget_gone(&mut self) {
        for place in &mut self.readers {
            // Relaxed: nothing of the ring is touched for it.
            place.take_if(|position| position.0.load(Relaxed) == GONE);
        }
    }
}

impl Reader {
    /// The bit that stands for this reader.
    #[must_use]
    pub fn bit(&self) -> u64 {
        self.bit
    }

    /// Looks at up to `max` messages, oldest first, hands those for this reader to `handle`, and gives their room back.
    /// Returns how many it has looked at.
    #[inline]
    pub fn drain(&mut self, max: usize, mut handle: impl FnMut(&[u8])) -> usize {
        let mut count = 0;
        while count < max {
            if self.read == self.written_seen {
                self.written_seen = self.shared.written.0.load(Acquire);
                if self.read == self.written_seen {
                    break;
                }
            }
            let at = self.read % self.shared.word_count;
            let bytes = self.shared.storage.word(at as usize);
            if bytes == PADDING {
                self.read += self.shared.word_count - at;
                continue;
            }
            let to = self.shared.storage.word(at as usize + 1);
            // Before it is handed on: one whose handling panics does not come again.
            self.read += HEAD + bytes.div_ceil(WORD as u64);
            count += 1;
            if to & self.bit != 0 {
                self.shared.storage.with_bytes((at + HEAD) as usize, bytes as usize, &mut handle);
            }
        }
        if count > 0 {
            self.position.0.store(self.read, Release);
        }
        count
    }

    /// Whether there is nothing to look at at this moment.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        // Relaxed: who reads looks again.
        self.read == self.shared.written.0.load(Relaxed)
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.position.0.store(GONE, Release);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::collections::VecDeque;

    use super::*;

    /// Under Miri everything takes a thousand times as long.
    const SCALE: u64 = if cfg!(miri) { 200 } else { 1 };

    fn read_all(reader: &mut Reader) -> Vec<Vec<u8>> {
        let mut all = Vec::new();
        reader.drain(usize::MAX, |message| all.push(message.to_vec()));
        all
    }

    #[test]
    fn each_reader_gets_what_is_for_it_in_order_from_when_it_came() {
        let mut ring = Broadcaster::new(256);
        ring.push(ALL, &[b"before"]).unwrap();
        let mut first = ring.add_reader().expect("there is a place");
        ring.push(ALL, &[b"o", b"", b"ne"]).unwrap();
        assert!(first.is_empty(), "nothing is seen before it is published");
        let mut second = ring.add_reader().expect("there is a place");
        ring.push(second.bit(), &[b"two"]).unwrap();
        ring.push(first.bit(), &[b"three"]).unwrap();
        ring.push(ALL, &[]).unwrap();
        assert!(ring.publish() && !ring.publish());
        assert_eq!(read_all(&mut first), [b"one".to_vec(), b"three".to_vec(), vec![]]);
        assert_eq!(read_all(&mut second), [b"two".to_vec(), vec![]]);
        assert!(first.is_empty() && second.is_empty());
    }

    #[test]
    fn the_slowest_reader_holds_the_writer_until_it_reads_or_goes() {
        let mut ring = Broadcaster::new(128);
        let (mut fast, slow) = (ring.add_reader().expect("a place"), ring.add_reader().expect("a place"));
        let mut taken = 0;
        while ring.push(fast.bit(), &[&[7; 8]]).is_ok() {
            taken += 1;
        }
        assert_eq!(taken, 5, "three words each in sixteen");
        ring.publish();
        assert_eq!(read_all(&mut fast).len(), 5);
        assert_eq!(ring.push(ALL, &[&[7; 8]]), Err(PushError::Full));
        drop(slow);
        assert_eq!(ring.push(ALL, &[&[8; 8]]), Ok(()));
        ring.publish();
        assert_eq!(read_all(&mut fast), [vec![8; 8]]);
        drop(fast);
        for _ in 0..100 {
            assert_eq!(ring.push(ALL, &[&[9; 8]]), Ok(()), "nobody reads");
        }
    }

    #[test]
    fn places_of_readers_that_are_gone_are_given_again() {
        let mut ring = Broadcaster::new(128);
        let mut all: Vec<Reader> = std::iter::from_fn(|| ring.add_reader()).collect();
        assert_eq!(all.len(), READERS_MAX);
        let gone = all.swap_remove(5).bit();
        ring.push(gone, &[b"late"]).unwrap();
        let mut again = ring.add_reader().expect("a place is free");
        assert_eq!(again.bit(), gone);
        assert!(ring.add_reader().is_none());
        ring.publish();
        assert_eq!(read_all(&mut again), Vec::<Vec<u8>>::new(), "that was for the reader before it");
    }

    #[test]
    fn a_message_that_can_never_fit_is_named() {
        let mut ring = Broadcaster::new(1024);
        let mut reader = ring.add_reader().expect("a place");
        let max = ring.message_max_bytes();
        let too_long = ring.push(ALL, &[&vec![0; max + 1]]);
        assert_eq!(too_long, Err(PushError::TooLong { bytes: max + 1, max }));
        for _ in 0..50 {
            assert_eq!(ring.push(ALL, &[&vec![0; max]]), Ok(()));
            ring.publish();
            assert_eq!(read_all(&mut reader).len(), 1);
        }
    }

    #[test]
    fn every_length_survives_every_wrap_whoever_reads_how_much() {
        let _repeat = testkit::repeat!();
        let mut ring = Broadcaster::new(512);
        let mut rng = units::Rng::new(11);
        let mut readers: Vec<(Reader, VecDeque<Vec<u8>>)> = Vec::new();
        for step in 0..(30_000 / SCALE) as u32 {
            if readers.len() < 5 && rng.chance(0.02) {
                readers.push((ring.add_reader().expect("a place"), VecDeque::new()));
            }
            if !readers.is_empty() && rng.chance(0.01) {
                readers.swap_remove(rng.below(readers.len() as u64) as usize);
            }
            let message = vec![step as u8; rng.below(ring.message_max_bytes() as u64 + 1) as usize];
            let to = if rng.chance(0.5) { ALL } else { rng.next_u64() };
            if ring.push(to, &[&message]).is_ok() {
                for (_, expected) in readers.iter_mut().filter(|(reader, _)| reader.bit() & to != 0) {
                    expected.push_back(message.clone());
                }
            }
            ring.publish();
            for (reader, expected) in &mut readers {
                let most = rng.below(3) as usize;
                reader.drain(most, |message| assert_eq!(Some(message.to_vec()), expected.pop_front()));
            }
        }
        for (mut reader, expected) in readers {
            assert_eq!(read_all(&mut reader), Vec::from(expected));
        }
    }

    #[test]
    fn threads_lose_and_mix_nothing() {
        let mut ring = Broadcaster::new(4096);
        let count = 100_000 / SCALE;
        let readers: Vec<Reader> = (0..3).map(|_| ring.add_reader().expect("a place")).collect();
        let threads: Vec<_> = readers
            .into_iter()
            .enumerate()
            .map(|(at, mut reader)| {
                std::thread::spawn(move || {
                    let mut next = at as u64;
                    while next < count {
                        reader.drain(64, |message| {
                            assert_eq!(message, next.to_be_bytes());
                            next += 3;
                        });
                        std::thread::yield_now();
                    }
                })
            })
            .collect();
        for number in 0..count {
            while ring.push(1 << (number % 3), &[&number.to_be_bytes()]).is_err() {
                ring.publish();
                std::thread::yield_now();
            }
            ring.publish();
        }
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    }
}

#[cfg(all(test, loom))]
mod model {
    use super::*;

    /// Two readers at the edge of a full ring that is about to wrap; one of them goes in the middle.
    #[test]
    fn no_interleaving_shows_a_torn_or_lost_message() {
        loom::model(|| {
            let mut ring = Broadcaster::new(128);
            let (mut first, mut second) = (ring.add_reader().expect("one"), ring.add_reader().expect("two"));
            for number in 0..4u8 {
                ring.push(ALL, &[&[number; 9]]).expect("four words each, of sixteen");
            }
            ring.publish();
            let going = loom::thread::spawn(move || {
                let mut next = 0u8;
                second.drain(1, |message| {
                    assert_eq!(message, [next; 9]);
                    next += 1;
                });
            });
            let writer = loom::thread::spawn(move || {
                let mut pushed = 4u8;
                for _ in 0..2 {
                    if ring.push(ALL, &[&[pushed; 9]]).is_ok() {
                        pushed += 1;
                        ring.publish();
                    }
                }
                (pushed, ring)
            });
            let mut next = 0u8;
            let mut take = |max| {
                first.drain(max, |message| {
                    assert_eq!(message, [next; 9]);
                    next += 1;
                })
            };
            take(1);
            take(4);
            going.join().unwrap();
            let (pushed, _ring) = writer.join().unwrap();
            take(usize::MAX);
            assert_eq!(next, pushed);
        });
    }
}

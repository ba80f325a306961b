use serde::{Deserialize, Serialize};
use units::Nanos;

use crate::{Latencies, Summary};

/// Bytes that [`stamp`] writes: the least that an observed message can have.
pub const STAMP_BYTES: usize = 16;

/// Writes into the beginning of a message when it was meant to be sent and its number in the run, from 0.
///
/// Layout: nanoseconds of the monotonic clock `u64`, number `u64`, both little-endian.
///
/// # Panics
/// The message is shorter than [`STAMP_BYTES`].
#[inline]
pub fn stamp(message: &mut [u8], intended: Nanos, number: u64) {
    message[..8].copy_from_slice(&intended.0.to_le_bytes());
    message[8..STAMP_BYTES].copy_from_slice(&number.to_le_bytes());
}

/// Bytes of a message from which [`stamp_sent`] has room.
pub const SENT_STAMP_BYTES: usize = STAMP_BYTES + 8;

/// Writes behind the stamp when the message is really sent, for the naive latency; nothing into one that is shorter than
/// [`SENT_STAMP_BYTES`].
///
/// Layout: nanoseconds of the monotonic clock `u64`, little-endian.
#[inline]
pub fn stamp_sent(message: &mut [u8], now: Nanos) {
    if let Some(room) = message.get_mut(STAMP_BYTES..SENT_STAMP_BYTES) {
        room.copy_from_slice(&now.0.to_le_bytes());
    }
}

/// Looks at every message of a run: none may be missing, come twice or out of its order.
#[derive(Clone, Debug, Default)]
pub struct Observer {
    next: u64,
    received: u64,
    missing: u64,
    disordered: u64,
    latencies: Latencies,
    naive: Latencies,
}

/// What an observer has seen.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Observed {
    /// Messages that came.
    pub received: u64,
    /// Numbers that were passed over.
    pub missing: u64,
    /// Messages that came after one with a higher number, twice, or without a stamp.
    pub disordered: u64,
    /// Of the messages that were timed, from when they were meant to be sent.
    pub latencies: Summary,
    /// The same from when they were really sent, which leaves out how late the sender was (coordinated omission). Of
    /// messages that have room for that time.
    #[serde(default)]
    pub naive: Summary,
}

impl Observer {
    /// Takes a message's number down.
    #[inline]
    pub fn count(&mut self, message: &[u8]) {
        self.received += 1;
        match number(message) {
            Some(number) if number == self.next => self.next += 1,
            other => self.on_unexpected(other),
        }
    }

    /// The same, and how long after its intended time it came, and after it was really sent if it says when.
    #[inline]
    pub fn time(&mut self, message: &[u8], now: Nanos) {
        self.count(message);
        let intended = message.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes));
        self.latencies.record(now.0.saturating_sub(intended));
        let sent = message.get(STAMP_BYTES..SENT_STAMP_BYTES).and_then(<[u8]>::first_chunk);
        if let Some(sent) = sent.map(|bytes| u64::from_le_bytes(*bytes)).filter(|sent| *sent != 0) {
            self.naive.record(now.0.saturating_sub(sent));
        }
    }

    #[cold]
    fn on_unexpected(&mut self, number: Option<u64>) {
        match number {
            Some(number) if number > self.next => {
                self.missing += number - self.next;
                self.next = number + 1;
            }
            _ => self.disordered += 1,
        }
    }

    /// Adds what another one has seen, of another stream.
    pub fn merge(&mut self, other: &Observer) {
        self.next += other.next;
        self.received += other.received;
        self.missing += other.missing;
        self.disordered += other.disordered;
        self.latencies.merge(&other.latencies);
        self.naive.merge(&other.naive);
    }

    /// Messages that came so far.
    #[must_use]
    pub fn received(&self) -> u64 {
        self.received
    }

    /// Messages that came or were passed over: no more of them are to be waited for.
    #[must_use]
    pub fn settled(&self) -> u64 {
        self.next
    }

    /// What was seen.
    #[must_use]
    pub fn observed(&self) -> Observed {
        Observed {
            received: self.received,
            missing: self.missing,
            disordered: self.disordered,
            latencies: self.latencies.spread(),
            naive: self.naive.summary(),
        }
    }
}

/// The number of a message in its run; none in one that is too short for a stamp.
#[inline]
pub(crate) fn number(message: &[u8]) -> Option<u64> {
    message.get(8..STAMP_BYTES)?.first_chunk().map(|bytes| u64::from_le_bytes(*bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(intended: u64, number: u64) -> [u8; 24] {
        let mut message = [0; 24];
        stamp(&mut message, Nanos(intended), number);
        message
    }

    #[test]
    fn every_message_in_its_order_is_timed() {
        let mut observer = Observer::default();
        for number in 0..100 {
            observer.time(&message(1_000, number), Nanos(3_000));
        }
        let seen = observer.observed();
        assert_eq!((seen.received, seen.missing, seen.disordered), (100, 0, 0));
        assert_eq!((seen.latencies.count, seen.latencies.min_ns), (100, 2_000));
    }

    #[test]
    fn a_sender_that_was_late_shows_in_the_latency_and_not_in_the_naive_one() {
        let mut observer = Observer::default();
        for number in 0..10 {
            let mut message = message(1_000, number);
            stamp_sent(&mut message, Nanos(5_000));
            observer.time(&message, Nanos(6_000));
        }
        let seen = observer.observed();
        assert_eq!((seen.latencies.count, seen.naive.count, seen.naive.max_ns), (10, 10, 1_000));
        let mut short = [0; 16];
        stamp_sent(&mut short, Nanos(5_000));
        assert_eq!(short, [0; 16], "there is no room");
        assert!(seen.latencies.min_ns.abs_diff(5_000) <= 5, "{}", seen.latencies.min_ns);
    }

    #[test]
    fn streams_are_looked_at_by_themselves_and_added_up() {
        let (mut one, mut other) = (Observer::default(), Observer::default());
        (0..5).for_each(|number| one.time(&message(100, number), Nanos(200)));
        [0, 2].into_iter().for_each(|number| other.time(&message(100, number), Nanos(300)));
        one.merge(&other);
        let seen = one.observed();
        assert_eq!((seen.received, seen.missing, seen.disordered), (7, 1, 0));
        assert_eq!((one.settled(), seen.latencies.count, seen.latencies.max_ns), (8, 7, 200));
    }

    #[test]
    fn what_is_passed_over_is_missing_and_what_comes_late_or_twice_is_disordered() {
        let mut observer = Observer::default();
        for number in [0, 1, 4, 3, 4, 5] {
            observer.count(&message(0, number));
        }
        observer.count(&[0; 15]);
        let seen = observer.observed();
        assert_eq!((seen.received, seen.missing, seen.disordered), (7, 2, 3));
        assert_eq!((observer.received(), observer.settled()), (7, 6));
        assert_eq!(seen.latencies, Summary::default());
    }
}

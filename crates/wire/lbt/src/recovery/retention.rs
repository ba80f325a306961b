use crate::config::RetentionConfig;
use crate::delivery::{WIDE_ZERO, widen};
use crate::wire::lbmc::{Kind, MESSAGE_HEADER_LEN, MESSAGE_LEN_MAX};
use counters::table::LbmRetention;
use std::collections::VecDeque;
use std::time::Duration;
use units::{Nanos, Sqn};

/// The messages of one topic that can be sent again: a ring of bytes and a ring of where each begins.
///
/// All memory is taken at the begin. Messages are kept as they were sent, fragments singly; their numbers
/// are consecutive.
pub(super) struct Retention {
    bytes: Box<[u8]>,
    tail: usize,
    entries: VecDeque<Entry>,
    entries_max: usize,
    /// Number of the first entry, or of the next if there is none.
    first: u64,
    age_max: Duration,
}

struct Entry {
    start: usize,
    len: u32,
    at: Nanos,
}

/// Bytes of the source index header that a retransmission begins with.
const SOURCE_INDEX_LEN: usize = 12;
const SOURCE_INDEX: u8 = 0x0E;

impl Retention {
    pub(super) fn new(config: &RetentionConfig) -> Retention {
        let entries_max = config.retransmit_retention_message_maximum as usize;
        Retention {
            bytes: vec![0; config.retransmit_retention_size_limit as usize].into_boxed_slice(),
            tail: 0,
            entries: VecDeque::with_capacity(entries_max),
            entries_max,
            first: WIDE_ZERO,
            age_max: config.retransmit_retention_age_threshold,
        }
    }

    /// Takes a message as it was sent.
    pub(super) fn push(&mut self, now: Nanos, sqn: Sqn, message: &[u8], counters: &LbmRetention) {
        self.expire(now, counters);
        let number = widen(self.end(), sqn);
        if number != self.end() || message.len() > self.bytes.len() {
            // what cannot be numbered through is begun anew
            let gone = self.entries.len() as u64;
            counters.dropped_size.add(gone);
            (0..gone).for_each(|_| self.drop_first(counters));
            self.first = number;
        }
        if message.len() > self.bytes.len() {
            self.first = number + 1;
            return counters.msgs_not_retained.inc();
        }
        if self.entries.len() == self.entries_max {
            counters.dropped_count.inc();
            self.drop_first(counters);
        }
        let start = loop {
            match self.place(message.len()) {
                Some(start) => break start,
                None => {
                    counters.dropped_size.inc();
                    self.drop_first(counters);
                }
            }
        };
        self.bytes[start..start + message.len()].copy_from_slice(message);
        self.tail = start + message.len();
        self.entries.push_back(Entry { start, len: message.len() as u32, at: now });
        counters.msgs_retained.inc();
        counters.retained_msgs.set(counters.retained_msgs.get() + 1);
        counters.retained_bytes.set(counters.retained_bytes.get() + message.len() as u64);
    }

    /// The lowest number that can be sent again and the last one sent; the lowest is after the last if there
    /// is none.
    pub(super) fn range(&mut self, now: Nanos, counters: &LbmRetention) -> (Sqn, Sqn) {
        self.expire(now, counters);
        (Sqn(self.first as u32), Sqn(self.end() as u32).prev())
    }

    /// Appends the message of a number as a retransmission; false if it is not retained.
    pub(super) fn emit(
        &mut self,
        now: Nanos,
        sqn: Sqn,
        transport: u32,
        out: &mut Vec<u8>,
        counters: &LbmRetention,
    ) -> bool {
        self.expire(now, counters);
        let at = widen(self.first, sqn).checked_sub(self.first);
        let Some(entry) = at.and_then(|at| self.entries.get(usize::try_from(at).ok()?)) else { return false };
        let message = &self.bytes[entry.start..entry.start + entry.len as usize];
        emit_again(message, transport, out);
        true
    }

    /// Forgets everything.
    pub(super) fn clear(&mut self, counters: &LbmRetention) {
        (0..self.entries.len()).for_each(|_| self.drop_first(counters));
    }

    fn end(&self) -> u64 {
        self.first + self.entries.len() as u64
    }

    fn expire(&mut self, now: Nanos, counters: &LbmRetention) {
        if self.age_max.is_zero() {
            return;
        }
        while self.entries.front().is_some_and(|e| e.at + self.age_max <= now) {
            counters.dropped_age.inc();
            self.drop_first(counters);
        }
    }

    fn drop_first(&mut self, counters: &LbmRetention) {
        let Some(entry) = self.entries.pop_front() else { return };
        self.first += 1;
        counters.retained_msgs.set(counters.retained_msgs.get() - 1);
        counters.retained_bytes.set(counters.retained_bytes.get() - u64::from(entry.len));
    }

    /// Where `len` bytes fit behind the newest message without touching the oldest.
    fn place(&self, len: usize) -> Option<usize> {
        let fits_at_tail = self.tail + len <= self.bytes.len();
        let Some(oldest) = self.entries.front().map(|e| e.start) else {
            return Some(if fits_at_tail { self.tail } else { 0 });
        };
        if oldest >= self.tail {
            return (self.tail + len <= oldest).then_some(self.tail);
        }
        if fits_at_tail { Some(self.tail) } else { (len <= oldest).then_some(0) }
    }
}

/// Appends a message that was sent before as a retransmission, with a source index header before the others.
/// That header is left out where the message would become longer than its length field can say.
fn emit_again(message: &[u8], transport: u32, out: &mut Vec<u8>) {
    let (head, rest) = message.split_first_chunk::<MESSAGE_HEADER_LEN>().expect("only messages are retained");
    let [_, next, _, _, topic @ ..] = *head;
    let kind = Kind::Retransmission.code();
    if message.len() + SOURCE_INDEX_LEN > MESSAGE_LEN_MAX {
        out.push(kind);
        return out.extend_from_slice(&message[1..]);
    }
    let [l0, l1] = ((message.len() + SOURCE_INDEX_LEN) as u16).to_be_bytes();
    out.extend_from_slice(&[kind, SOURCE_INDEX, l0, l1]);
    out.extend_from_slice(&topic);
    out.extend_from_slice(&[next, SOURCE_INDEX_LEN as u8, 0, 0]);
    out.extend_from_slice(&transport.to_be_bytes());
    out.extend_from_slice(&topic[..4]);
    out.extend_from_slice(rest);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::lbmc::{Chain, Message, emit_message};

    fn message(sqn: u32, len: usize) -> Vec<u8> {
        let mut out = Vec::new();
        let payload = vec![sqn as u8; len];
        emit_message(&mut out, Kind::Message, Some((7, Sqn(sqn))), &Chain::default(), Some(&payload));
        out
    }

    fn retention(change: impl FnOnce(&mut RetentionConfig)) -> (Retention, LbmRetention) {
        let mut config =
            RetentionConfig { retransmit_retention_size_limit: 1 << 16, ..RetentionConfig::default() };
        change(&mut config);
        (Retention::new(&config), LbmRetention::default())
    }

    #[test]
    fn what_is_retained_comes_back_as_it_was_sent_and_its_bytes_are_bounded() {
        let _repeat = testkit::repeat!();
        let (mut r, counters) = retention(|_| {});
        let mut rng = units::Rng::new(3);
        for sqn in 0..5_000u32 {
            let len = rng.below(3_000) as usize;
            r.push(Nanos(u64::from(sqn)), Sqn(sqn), &message(sqn, len), &counters);
            let (low, high) = r.range(Nanos(u64::from(sqn)), &counters);
            assert_eq!(high, Sqn(sqn));
            assert!(counters.retained_bytes.get() <= 1 << 16);
            assert_eq!(counters.retained_msgs.get(), u64::from(sqn - low.0 + 1));
            let asked = Sqn(low.0 + rng.below(u64::from(sqn - low.0) + 1) as u32);
            let mut out = Vec::new();
            assert!(r.emit(Nanos::ZERO, asked, 0x77, &mut out, &counters));
            let again = Message::parse(&out, 0).expect("well-formed");
            assert_eq!((again.kind, again.topic_index, again.sqn), (Kind::Retransmission, 7, asked));
            assert!(again.data().iter().all(|&b| b == asked.0 as u8));
            assert!(!r.emit(Nanos::ZERO, low.prev(), 0x77, &mut out, &counters));
            assert!(!r.emit(Nanos::ZERO, high.next(), 0x77, &mut out, &counters));
        }
        assert_eq!(counters.msgs_retained.get(), 5_000);
        assert_eq!(counters.dropped_size.get(), 5_000 - counters.retained_msgs.get());
    }

    #[test]
    fn messages_leave_by_number_and_by_age() {
        let (mut r, counters) = retention(|c| {
            c.retransmit_retention_message_maximum = 10;
            c.retransmit_retention_age_threshold = Duration::from_nanos(100);
        });
        // across the wrap
        for i in 0..20u32 {
            let sqn = Sqn(u32::MAX - 5).plus(i);
            r.push(Nanos(10), sqn, &message(sqn.0, 1), &counters);
        }
        assert_eq!((counters.dropped_count.get(), counters.retained_msgs.get()), (10, 10));
        assert_eq!(r.range(Nanos(10), &counters), (Sqn(4), Sqn(13)));
        r.push(Nanos(50), Sqn(14), &message(14, 1), &counters);
        assert_eq!(r.range(Nanos(110), &counters), (Sqn(14), Sqn(14)));
        assert_eq!(counters.dropped_age.get(), 9);
        assert_eq!(r.range(Nanos(150), &counters), (Sqn(15), Sqn(14)), "nothing, and what comes next");
    }

    #[test]
    fn a_message_longer_than_the_ring_is_not_retained_and_those_before_it_go() {
        let (mut r, counters) = retention(|_| {});
        r.push(Nanos(0), Sqn(0), &message(0, 10), &counters);
        r.push(Nanos(0), Sqn(1), &vec![0; (1 << 16) + 1], &counters);
        assert_eq!((counters.msgs_not_retained.get(), counters.dropped_size.get()), (1, 1));
        assert_eq!(r.range(Nanos(0), &counters), (Sqn(2), Sqn(1)));
        r.push(Nanos(0), Sqn(2), &message(2, 10), &counters);
        assert_eq!(r.range(Nanos(0), &counters), (Sqn(2), Sqn(2)));
    }

    #[test]
    fn the_longest_message_is_sent_again_without_a_source_index() {
        let longest = message(1, MESSAGE_LEN_MAX - MESSAGE_HEADER_LEN);
        let mut out = Vec::new();
        emit_again(&longest, 5, &mut out);
        let again = Message::parse(&out, 0).expect("well-formed");
        assert_eq!((again.kind, again.data().len()), (Kind::Retransmission, longest.len() - 12));
        assert!(again.headers.is_empty());
    }
}

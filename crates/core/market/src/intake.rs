//! What has come from the backbone and is not handled yet.
//!
//! A point-to-point server empties its sockets before it does anything else, so that the kernel drops nothing
//! while clients are served. What it cannot handle in the same turn waits here, in order, in memory that is bounded.
//! As long as the server keeps up nothing waits: [`Intake::passes`] lets messages through to the core at once.
//!
//! When the bound is reached, what comes is dropped until half of the memory is free again: one long gap in place of
//! many short ones. The numbers of the messages tell the core of it, as of any loss. Source distributors that take
//! reports (`distributor::flow`) hold their providers back long before.

use std::collections::VecDeque;
use std::time::Duration;

use units::Nanos;

use crate::p2ps::SourceId;

/// How an intake behaves.
#[derive(Clone, Copy, Debug)]
pub struct IntakeConfig {
    /// The most bytes that wait, some for each message included.
    pub bytes_max: usize,
    /// The most bytes of messages handled in a second; 0 for no limit.
    pub rate_limit: u64,
}

/// Something that has waited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waited<'a> {
    /// A message of a source.
    Message(SourceId, &'a [u8]),
    /// The source has ended, behind all its messages.
    Ended(SourceId),
}

/// Messages of the backbone that wait.
#[derive(Debug)]
pub struct Intake {
    config: IntakeConfig,
    segments: VecDeque<Segment>,
    /// An empty one, kept for the next time.
    spare: Option<Vec<u8>>,
    bytes: usize,
    /// What may still pass in this turn.
    direct_left: usize,
    is_dropping: bool,
    dropped: u64,
    /// What may be handled by the limit, in bytes and nanoseconds: bytes times 10^9; below zero if a long message took more.
    credit: i128,
    credited_at: Nanos,
}

#[derive(Debug)]
struct Segment {
    began_at: Nanos,
    /// Entries: length `u32`, source `u32`, bytes.
    bytes: Vec<u8>,
    read: usize,
}

/// In a turn so many bytes go to the core at once; what comes beyond waits, so that the sockets are emptied.
const DIRECT_BYTES: usize = 256 << 10;
const SEGMENT_BYTES: usize = 256 << 10;
const ENTRY_HEAD: usize = 8;
/// The length in an entry that says that the source has ended.
const ENDED: u32 = u32::MAX;
/// The limit lets so much pass at once after a pause.
const BURST: Duration = Duration::from_millis(20);

impl Intake {
    /// One that holds nothing.
    #[must_use]
    pub fn new(config: IntakeConfig) -> Intake {
        Intake {
            config,
            segments: VecDeque::new(),
            spare: None,
            bytes: 0,
            direct_left: DIRECT_BYTES,
            is_dropping: false,
            dropped: 0,
            credit: 0,
            credited_at: Nanos::ZERO,
        }
    }

    /// A turn begins: messages may pass again.
    #[inline]
    pub fn renew(&mut self, now: Nanos) {
        self.direct_left = if self.config.rate_limit == 0 { DIRECT_BYTES } else { 0 };
        if self.config.rate_limit != 0 {
            self.earn(now);
        }
    }

    /// Whether a message of this length, which has just come, may go to the core at once; if not it is to be kept.
    #[inline]
    pub fn passes(&mut self, len: usize) -> bool {
        let passes = self.segments.is_empty() && len <= self.direct_left;
        if passes {
            self.direct_left -= len;
        }
        passes
    }

    /// Keeps a message. If there is no room it is dropped and counted.
    #[cold]
    #[inline(never)]
    pub fn keep(&mut self, now: Nanos, source: SourceId, message: &[u8]) {
        // Nothing passes before what waits, and nothing in the rest of the turn.
        self.direct_left = 0;
        self.is_dropping &= self.bytes > self.config.bytes_max / 2;
        self.is_dropping |= self.bytes + message.len() + ENTRY_HEAD > self.config.bytes_max;
        if self.is_dropping || message.len() >= ENDED as usize {
            self.dropped += 1;
            return;
        }
        self.put(now, message.len() as u32, source, message);
    }

    /// A source has ended. Returns whether that is to be handled at once, as nothing waits; else it waits in its
    /// place.
    pub fn ends_now(&mut self, now: Nanos, source: SourceId) -> bool {
        if self.segments.is_empty() {
            return true;
        }
        self.put(now, ENDED, source, &[]);
        false
    }

    fn put(&mut self, now: Nanos, len: u32, source: SourceId, message: &[u8]) {
        let need = ENTRY_HEAD + message.len();
        if self.segments.back().is_none_or(|last| last.bytes.len() + need > last.bytes.capacity()) {
            let bytes = self.spare.take().filter(|spare| spare.capacity() >= need);
            let bytes = bytes.unwrap_or_else(|| Vec::with_capacity(need.max(SEGMENT_BYTES)));
            self.segments.push_back(Segment { began_at: now, bytes, read: 0 });
        }
        let Some(last) = self.segments.back_mut() else { return };
        last.bytes.extend_from_slice(&len.to_ne_bytes());
        last.bytes.extend_from_slice(&source.0.to_ne_bytes());
        last.bytes.extend_from_slice(message);
        self.bytes += need;
    }

    /// Hands on the next of what waits, if it may be handled by now; false if there is none.
    pub fn hand_on(&mut self, act: impl FnOnce(Waited<'_>)) -> bool {
        if self.config.rate_limit != 0 && self.credit <= 0 {
            return false;
        }
        let Some(segment) = self.segments.front_mut() else { return false };
        let rest = &segment.bytes[segment.read..];
        let Some((head, rest)) = rest.split_first_chunk::<ENTRY_HEAD>() else { return false };
        let [a, b, c, d, source @ ..] = *head;
        let (len, source) = (u32::from_ne_bytes([a, b, c, d]), SourceId(u32::from_ne_bytes(source)));
        let taken = if len == ENDED { 0 } else { len as usize };
        act(if len == ENDED { Waited::Ended(source) } else { Waited::Message(source, &rest[..taken]) });
        segment.read += ENTRY_HEAD + taken;
        self.bytes -= ENTRY_HEAD + taken;
        if segment.read == segment.bytes.len()
            && let Some(Segment { mut bytes, .. }) = self.segments.pop_front()
            && bytes.capacity() <= SEGMENT_BYTES
        {
            bytes.clear();
            self.spare = Some(bytes);
        }
        self.credit -= (taken as i128) * i128::from(self.config.rate_limit.min(1)) * 1_000_000_000;
        true
    }

    /// The limit's share of the time that has passed.
    fn earn(&mut self, now: Nanos) {
        let rate = i128::from(self.config.rate_limit);
        let earned = now.since(self.credited_at).as_nanos() as i128 * rate;
        // At least one byte, or nothing would ever pass at a limit that is very low.
        let most = (BURST.as_nanos() as i128 * rate).max(1_000_000_000);
        self.credit = (self.credit + earned).min(most);
        self.credited_at = now;
    }

    /// When something of what waits may be handled; [`Nanos::NEVER`] if nothing waits.
    #[must_use]
    pub fn next_wakeup(&self) -> Nanos {
        match (self.segments.is_empty(), self.config.rate_limit) {
            (true, _) => Nanos::NEVER,
            (false, 0) => Nanos::ZERO,
            // Not for each message a turn of its own.
            (false, _) => self.credited_at + BURST / 4,
        }
    }

    /// How many bytes wait.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// When the oldest message came, or up to the time that 256 KiB take to come before that; now, if none waits.
    #[must_use]
    pub fn came(&self, now: Nanos) -> Nanos {
        self.segments.front().map_or(now, |first| first.began_at)
    }

    /// For how long the oldest message has waited, to within the time that 256 KiB take to come.
    #[must_use]
    pub fn delay(&self, now: Nanos) -> Duration {
        now.since(self.came(now))
    }

    /// How many messages were dropped for want of room.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.dropped
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const T0: Nanos = Nanos(1_000_000_000);
    const A: SourceId = SourceId(1);
    const B: SourceId = SourceId(2);

    fn intake(bytes_max: usize, rate_limit: u64) -> Intake {
        let mut intake = Intake::new(IntakeConfig { bytes_max, rate_limit });
        intake.renew(T0);
        intake
    }

    fn drain(intake: &mut Intake) -> Vec<(u32, Option<Vec<u8>>)> {
        let mut all = Vec::new();
        while intake.hand_on(|waited| {
            all.push(match waited {
                Waited::Message(source, bytes) => (source.0, Some(bytes.to_vec())),
                Waited::Ended(source) => (source.0, None),
            });
        }) {}
        all
    }

    #[test]
    fn messages_pass_until_the_turn_has_had_its_share_and_then_wait_in_order() {
        let mut intake = intake(1 << 20, 0);
        assert!(intake.ends_now(T0, A) && intake.passes(DIRECT_BYTES - 10) && intake.passes(10));
        assert!(!intake.passes(1) && intake.next_wakeup() == Nanos::NEVER);
        intake.keep(T0, A, b"1");
        intake.renew(T0);
        assert!(!intake.passes(1), "something waits");
        intake.keep(T0, B, b"22");
        assert!(!intake.ends_now(T0, A));
        assert_eq!((intake.bytes(), intake.next_wakeup()), (3 * ENTRY_HEAD + 3, Nanos::ZERO));
        assert_eq!(intake.delay(T0 + Duration::from_millis(3)), Duration::from_millis(3));
        assert_eq!(drain(&mut intake), [(1, Some(b"1".to_vec())), (2, Some(b"22".to_vec())), (1, None)]);
        assert_eq!((intake.bytes(), intake.delay(T0)), (0, Duration::ZERO));
        assert!(!intake.passes(1), "what came first in this turn has waited");
        intake.renew(T0);
        assert!(intake.passes(1));
    }

    #[test]
    fn what_finds_no_room_is_dropped_until_half_is_free() {
        let mut intake = intake(100 * (ENTRY_HEAD + 2), 0);
        (0..150u8).for_each(|n| intake.keep(T0, A, &[n, 0]));
        assert_eq!((intake.bytes(), intake.dropped()), (1_000, 50));
        let taken = (0..49).filter(|_| intake.hand_on(|_| {})).count();
        intake.keep(T0, A, b"no");
        assert_eq!((taken, intake.dropped()), (49, 51), "one gap, not one for each message that is taken");
        assert!(intake.hand_on(|waited| assert_eq!(waited, Waited::Message(A, &[49, 0]))));
        intake.keep(T0, A, b"ok");
        assert_eq!((intake.dropped(), intake.bytes()), (51, 510));
        let last = drain(&mut intake).pop();
        assert_eq!(last, Some((1, Some(b"ok".to_vec()))));
    }

    #[test]
    fn long_messages_and_many_segments_come_out_as_they_went_in() {
        let mut intake = intake(64 << 20, 0);
        let messages: Vec<Vec<u8>> = (0..300usize).map(|n| vec![n as u8; n * n * 7]).collect();
        messages.iter().for_each(|message| intake.keep(T0, B, message));
        assert!(intake.segments.len() > 10 && intake.dropped() == 0);
        let back: Vec<Vec<u8>> = drain(&mut intake).into_iter().filter_map(|(_, bytes)| bytes).collect();
        assert!(back == messages);
        assert_eq!((intake.bytes(), intake.segments.len()), (0, 0));
    }

    #[test]
    fn a_limit_is_kept_over_time() {
        let mut intake = intake(1 << 20, 10_000);
        assert!(!intake.passes(1), "all is counted");
        (0..1_000).for_each(|_| intake.keep(T0, A, &[0; 100]));
        let (mut now, mut taken) = (T0, 0);
        while now < T0 + Duration::from_secs(5) {
            now = intake.next_wakeup().max(now + Duration::from_nanos(1));
            intake.renew(now);
            taken += drain(&mut intake).len();
        }
        assert!((490..=510).contains(&taken), "{taken} of 500");
        assert!(intake.next_wakeup() > now && intake.delay(now) > Duration::from_secs(4));
    }
}

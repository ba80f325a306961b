//! What a peer may be sent in a time.

use std::time::Duration;

use units::Nanos;

/// So much may be sent at once after a silence: what the rate allows in this time.
const BURST: Duration = Duration::from_millis(100);
/// A peer that may be sent nothing more may be sent something after so long at the latest.
pub const RATE_GRAIN: Duration = Duration::from_millis(25);

/// How many bytes may be sent to a peer now, at a rate: a bucket that fills evenly and holds a tenth of a second's bytes.
///
/// What was sent beyond, since it could not be cut, is a debt that is paid before anything else may be sent.
#[derive(Clone, Copy, Debug)]
pub struct ByteRate {
    bytes_per_second: u64,
    /// Bytes that may be sent; below zero a debt.
    room_bytes: i64,
    /// Up to when the bucket is filled.
    filled_at: Nanos,
}

impl ByteRate {
    /// A peer that may be sent so much from now on, with a full bucket. At most a gigabyte in a second: more is no
    /// limit.
    #[must_use]
    pub fn new(now: Nanos, bytes_per_second: u64) -> ByteRate {
        let bytes_per_second = bytes_per_second.clamp(1, 1_000_000_000);
        let mut rate = ByteRate { bytes_per_second, room_bytes: 0, filled_at: now };
        rate.room_bytes = rate.in_time(BURST);
        rate
    }

    fn in_time(&self, span: Duration) -> i64 {
        let nanos = span.as_nanos().min(u128::from(u64::MAX));
        (nanos * u128::from(self.bytes_per_second) / 1_000_000_000) as i64
    }

    /// The rate, in bytes a second.
    #[must_use]
    pub fn bytes_per_second(&self) -> u64 {
        self.bytes_per_second
    }

    /// How many bytes may be sent at this time.
    pub fn room(&mut self, now: Nanos) -> usize {
        let span = now.since(self.filled_at);
        let more = self.in_time(span);
        if more > 0 {
            // Only for whole bytes, so that no part of one is lost however often this is asked.
            let paid_for = more as u128 * 1_000_000_000 / u128::from(self.bytes_per_second);
            self.filled_at = if span > BURST * 2 { now } else { Nanos(self.filled_at.0 + paid_for as u64) };
            self.room_bytes = (self.room_bytes + more).min(self.in_time(BURST).max(1));
        }
        usize::try_from(self.room_bytes).unwrap_or(0)
    }

    /// So many bytes were sent.
    pub fn take(&mut self, count_bytes: usize) {
        self.room_bytes = self.room_bytes.saturating_sub(i64::try_from(count_bytes).unwrap_or(i64::MAX));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_sent_follows_the_rate_however_often_it_is_asked() {
        let _repeat = testkit::repeat!();
        let mut rng = units::Rng::new(11);
        for rate in [1, 7, 999, 10_000, 1_234_567, 1_000_000_000] {
            let mut bucket = ByteRate::new(Nanos(5), rate);
            let (mut now, mut sent) = (Nanos(5), 0_u64);
            for _ in 0..20_000 {
                now += Duration::from_nanos(rng.next_u64() % 2_000_000);
                let room = bucket.room(now);
                let part = if room == 0 { 0 } else { rng.next_u64() as usize % (room + 1) };
                // Who takes all there is never has to wait for what it left.
                let part = if rng.next_u64().is_multiple_of(2) { room } else { part };
                bucket.take(part);
                sent += part as u64;
                let most = bucket.in_time(now.since(Nanos(5))) + bucket.in_time(BURST).max(1) + 1;
                assert!(sent as i64 <= most, "{sent} of {most} at {rate}");
            }
            let due = bucket.in_time(now.since(Nanos(5)));
            assert!(sent as i64 >= due * 9 / 10 - 1, "{sent} of {due} at {rate}: nothing is lost on the way");
        }
    }

    #[test]
    fn a_debt_is_paid_before_more_is_sent() {
        let mut bucket = ByteRate::new(Nanos(0), 1_000);
        assert_eq!(bucket.room(Nanos(0)), 100);
        bucket.take(600);
        assert_eq!(bucket.room(Nanos(499_000_000)), 0);
        assert_eq!(bucket.room(Nanos(600_000_000)), 100);
    }

    #[test]
    fn a_long_silence_fills_it_once() {
        let mut bucket = ByteRate::new(Nanos(0), 1_000);
        bucket.take(100);
        assert_eq!(bucket.room(Nanos(1_000_000_000_000)), 100);
        bucket.take(100);
        assert_eq!(bucket.room(Nanos(1_000_000_000_000)), 0);
    }
}

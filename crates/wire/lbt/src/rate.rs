//! Rate limits as token buckets that refill with every nanosecond.

use std::time::Duration;
use units::Nanos;

/// Credit of one byte, in bits per second x nanoseconds.
const BYTE: u64 = 8_000_000_000;

/// Bytes that may go out now, at a rate in bits per second.
///
/// What is not used is kept up to the bucket's depth, so a source that was silent may send one interval's
/// worth at once and no more. A rate of 0 is no limit.
#[derive(Clone, Debug)]
pub struct TokenBucket {
    bits_per_second: u64,
    /// In units of which [`BYTE`] make a byte.
    credit: u64,
    depth: u64,
    refilled: Nanos,
}

impl TokenBucket {
    /// A full bucket, as deep as `interval` at the rate and at least `depth_min_bytes`.
    #[must_use]
    pub fn new(bits_per_second: u64, interval: Duration, depth_min_bytes: u64, now: Nanos) -> TokenBucket {
        let span = crate::config::ns(interval);
        let depth = bits_per_second.saturating_mul(span).max(depth_min_bytes.saturating_mul(BYTE));
        TokenBucket { bits_per_second, credit: depth, depth, refilled: now }
    }

    /// Goes on at another rate, with `interval` and `depth_min_bytes` as in [`TokenBucket::new`]; what was
    /// earned before stays, up to the new depth.
    pub fn set_rate(&mut self, bits_per_second: u64, interval: Duration, depth_min_bytes: u64, now: Nanos) {
        let _earned = self.available(now);
        let fresh = TokenBucket::new(bits_per_second, interval, depth_min_bytes, now);
        *self = TokenBucket { credit: self.credit.min(fresh.depth), ..fresh };
    }

    /// Bytes that may go out at `now`.
    pub fn available(&mut self, now: Nanos) -> u64 {
        if self.bits_per_second == 0 {
            return u64::MAX;
        }
        let elapsed = now.0.saturating_sub(self.refilled.0);
        if elapsed > 0 {
            let earned = self.bits_per_second.saturating_mul(elapsed);
            self.credit = self.credit.saturating_add(earned).min(self.depth);
            self.refilled = now;
        }
        self.credit / BYTE
    }

    /// Takes what went out.
    pub fn take(&mut self, bytes: u64) {
        self.credit = self.credit.saturating_sub(bytes.saturating_mul(BYTE));
    }

    /// From when on `bytes` may go out, perhaps long ago; never if they are more than the bucket holds.
    #[must_use]
    pub fn ready_at(&self, bytes: u64) -> Nanos {
        let need = bytes.saturating_mul(BYTE);
        if self.bits_per_second == 0 || need <= self.credit {
            return self.refilled;
        }
        if need > self.depth {
            return Nanos::NEVER;
        }
        let lacking = need - self.credit;
        self.refilled.after(Duration::from_nanos(lacking.div_ceil(self.bits_per_second)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn over_a_second_exactly_the_rate_goes_out_and_no_burst_exceeds_the_depth() {
        let mut bucket = TokenBucket::new(80_000_000, Duration::from_millis(1), 1_500, Nanos(0));
        let (mut total, mut largest) = (0, 0);
        for step in 0..=100_000u64 {
            let now = Nanos(step * MS / 100);
            let mut burst = 0;
            while bucket.available(now) >= 1_500 {
                bucket.take(1_500);
                burst += 1_500;
            }
            total += burst;
            largest = largest.max(burst);
        }
        assert!((10_000_000..=10_010_000).contains(&total), "{total}");
        assert_eq!(largest, 9_000, "six datagrams are what one millisecond at the rate holds");
    }

    #[test]
    fn ready_at_is_the_first_moment_at_which_the_bytes_may_go_out() {
        let mut bucket = TokenBucket::new(1_000_000, Duration::from_millis(1), 1_500, Nanos(0));
        bucket.take(1_500);
        let ready = bucket.ready_at(1_000);
        assert_eq!(ready, Nanos(8 * MS));
        assert!(bucket.available(Nanos(ready.0 - 1)) < 1_000);
        assert!(bucket.available(ready) >= 1_000);
        assert_eq!(bucket.ready_at(1_501), Nanos::NEVER, "deeper than the bucket");
    }

    #[test]
    fn a_rate_of_zero_is_no_limit() {
        let mut bucket = TokenBucket::new(0, Duration::from_millis(1), 1_500, Nanos(0));
        bucket.take(u64::MAX);
        assert_eq!(bucket.available(Nanos(1)), u64::MAX);
        assert_eq!(bucket.ready_at(u64::MAX), Nanos(0));
    }

    #[test]
    fn a_rate_that_changes_while_running_counts_from_the_change_on() {
        let ms = Duration::from_millis(1);
        let mut bucket = TokenBucket::new(8_000_000, ms, 1_500, Nanos(0));
        bucket.take(1_500);
        bucket.set_rate(80_000_000, ms, 1_500, Nanos(MS));
        assert_eq!(bucket.available(Nanos(MS)), 1_000, "earned at the old rate");
        assert_eq!(bucket.available(Nanos(MS + MS / 10)), 2_000, "and at the new one");
        assert_eq!(bucket.available(Nanos(9 * MS)), 10_000, "as deep as the new rate allows");
        bucket.set_rate(8_000_000, ms, 1_500, Nanos(9 * MS));
        assert_eq!(bucket.available(Nanos(9 * MS)), 1_500, "what is beyond the new depth is gone");
    }

    #[test]
    fn a_clock_that_steps_back_earns_nothing() {
        let mut bucket = TokenBucket::new(8_000_000_000, Duration::from_millis(1), 1, Nanos(100));
        bucket.take(u64::MAX);
        assert_eq!(bucket.available(Nanos(50)), 0);
        assert_eq!(bucket.available(Nanos(103)), 3);
    }
}

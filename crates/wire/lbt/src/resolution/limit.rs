use crate::rate::TokenBucket;
use std::time::Duration;
use units::Nanos;

/// A rate limit on records: so many a second, and so many bits a second.
pub(super) struct Limit {
    records: TokenBucket,
    bytes: TokenBucket,
    /// Nothing goes out before.
    pause_until: Nanos,
}

/// How much may go out at once, as a span.
const BURST: Duration = Duration::from_millis(100);
/// Once the limit is reached, records wait so long for others: they then share datagrams.
const PAUSE: Duration = Duration::from_millis(2);

impl Limit {
    /// 0 is no limit. At least one record of `record_max` bytes goes out however low the limits are.
    pub(super) fn new(per_second: u32, bits_per_second: u64, record_max: u64, now: Nanos) -> Limit {
        // the bucket counts bytes; here a record stands for one
        let records = TokenBucket::new(u64::from(per_second) * 8, BURST, 1, now);
        let bytes = TokenBucket::new(bits_per_second, BURST, record_max, now);
        Limit { records, bytes, pause_until: Nanos::ZERO }
    }

    pub(super) fn allows(&mut self, now: Nanos, bytes: usize) -> bool {
        if now < self.pause_until {
            return false;
        }
        let is_allowed = self.records.available(now) >= 1 && self.bytes.available(now) >= bytes as u64;
        if !is_allowed {
            self.pause_until = now + PAUSE;
        }
        is_allowed
    }

    pub(super) fn take(&mut self, bytes: usize) {
        self.records.take(1);
        self.bytes.take(bytes as u64);
    }

    /// From when on a record of `bytes` may go out.
    pub(super) fn ready_at(&self, bytes: usize) -> Nanos {
        self.records.ready_at(1).max(self.bytes.ready_at(bytes as u64)).max(self.pause_until)
    }
}

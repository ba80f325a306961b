use super::{ConfigError, in_range, span_in_range};
use std::time::Duration;

/// What a source retains of one topic, and how much of its context it gives to those who ask for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RetentionConfig {
    /// Memory for the messages of one topic with their headers, bytes; the oldest leave first.
    pub retransmit_retention_size_limit: u64,
    /// Most messages and fragments of one topic.
    pub retransmit_retention_message_maximum: u32,
    /// Messages older than this are not retained; zero for no limit.
    pub retransmit_retention_age_threshold: Duration,
    /// Answers, bits per second of one context; 0 for no limit.
    pub retransmit_retention_rate_limit: u64,
    /// Most connections that may ask at once.
    pub retransmit_retention_clients_maximum: u32,
    /// Most requests of one connection that wait for an answer; further ones are dropped, and repeated by
    /// who asked.
    pub retransmit_retention_requests_maximum: u32,
}

impl Default for RetentionConfig {
    fn default() -> RetentionConfig {
        RetentionConfig {
            retransmit_retention_size_limit: 24 << 20,
            retransmit_retention_message_maximum: 1 << 16,
            retransmit_retention_age_threshold: Duration::ZERO,
            retransmit_retention_rate_limit: 200_000_000,
            retransmit_retention_clients_maximum: 1_024,
            retransmit_retention_requests_maximum: 4_096,
        }
    }
}

impl RetentionConfig {
    /// Checks ranges.
    ///
    /// # Errors
    /// The first value out of range.
    pub fn check(&self) -> Result<(), ConfigError> {
        let size = self.retransmit_retention_size_limit;
        in_range("retransmit_retention_size_limit", size, 1 << 16, 1 << 36)?;
        let count = u64::from(self.retransmit_retention_message_maximum);
        in_range("retransmit_retention_message_maximum", count, 1, 1 << 28)?;
        let age = self.retransmit_retention_age_threshold;
        span_in_range("retransmit_retention_age_threshold", age, Duration::ZERO)?;
        let rate = self.retransmit_retention_rate_limit;
        in_range("retransmit_retention_rate_limit", rate, 0, 1_000_000_000_000)?;
        let clients = u64::from(self.retransmit_retention_clients_maximum);
        in_range("retransmit_retention_clients_maximum", clients, 1, 1 << 20)?;
        let requests = u64::from(self.retransmit_retention_requests_maximum);
        in_range("retransmit_retention_requests_maximum", requests, 1, 1 << 20)
    }
}

/// How the receivers of one transport session ask for what they have not heard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecoveryConfig {
    /// Whether what was sent before a topic was joined is asked for, if its source retains it.
    pub use_late_join: bool,
    /// Whether what the transport gave up is asked for, if its source retains it.
    pub use_otr: bool,
    /// Most messages and fragments of a topic asked for by a late joiner, the newest; 0 for all there are.
    pub retransmit_request_maximum: u32,
    /// Most requests of a session that wait for an answer at once.
    pub retransmit_request_outstanding_maximum: u32,
    /// An answer that has not come by then is asked for again.
    pub retransmit_request_interval: Duration,
    /// After this time without any answer a topic asks no more: what is missing is lost.
    pub retransmit_request_generation_interval: Duration,
    /// Live messages of one topic held while older ones are asked for; further ones are left out and asked
    /// for later.
    pub retransmit_message_caching_proximity: u32,
    /// Wait between a loss event of the transport and the first request.
    pub otr_request_initial_delay: Duration,
    /// Memory for the live messages held for all topics of the session, bytes.
    pub hold_maximum_bytes: u64,
    /// Longest message put together of fragments asked for, bytes.
    pub maximum_message_size: u32,
    /// Most topics of a session.
    pub maximum_topics: u32,
}

impl Default for RecoveryConfig {
    fn default() -> RecoveryConfig {
        RecoveryConfig {
            use_late_join: true,
            use_otr: true,
            retransmit_request_maximum: 0,
            retransmit_request_outstanding_maximum: 256,
            retransmit_request_interval: Duration::from_millis(500),
            retransmit_request_generation_interval: Duration::from_secs(10),
            retransmit_message_caching_proximity: 5_000,
            otr_request_initial_delay: Duration::ZERO,
            hold_maximum_bytes: 16 << 20,
            maximum_message_size: 64 << 20,
            maximum_topics: 1 << 16,
        }
    }
}

impl RecoveryConfig {
    /// Checks ranges and relations.
    ///
    /// # Errors
    /// The first value out of range, or a generation interval below two request intervals.
    pub fn check(&self) -> Result<(), ConfigError> {
        let outstanding = u64::from(self.retransmit_request_outstanding_maximum);
        in_range("retransmit_request_outstanding_maximum", outstanding, 1, 1 << 16)?;
        let (interval, tiny) = (self.retransmit_request_interval, Duration::from_micros(10));
        span_in_range("retransmit_request_interval", interval, tiny)?;
        let generation = self.retransmit_request_generation_interval;
        span_in_range("retransmit_request_generation_interval", generation, 2 * interval)?;
        let proximity = u64::from(self.retransmit_message_caching_proximity);
        in_range("retransmit_message_caching_proximity", proximity, 1, 1 << 28)?;
        span_in_range("otr_request_initial_delay", self.otr_request_initial_delay, Duration::ZERO)?;
        in_range("hold_maximum_bytes", self.hold_maximum_bytes, 0, 1 << 36)?;
        in_range("maximum_message_size", u64::from(self.maximum_message_size), 1, 1 << 31)?;
        in_range("maximum_topics", u64::from(self.maximum_topics), 1, 1 << 16)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_are_in_range_and_values_out_of_it_are_named() {
        assert_eq!((RetentionConfig::default().check(), RecoveryConfig::default().check()), (Ok(()), Ok(())));
        let small = RetentionConfig { retransmit_retention_size_limit: 1_000, ..Default::default() };
        let named = |error| match error {
            Err(ConfigError::OutOfRange { option, .. }) => option,
            other => panic!("{other:?}"),
        };
        assert_eq!(named(small.check()), "retransmit_retention_size_limit");
        let hasty = RecoveryConfig {
            retransmit_request_generation_interval: Duration::from_millis(999),
            ..Default::default()
        };
        assert_eq!(named(hasty.check()), "retransmit_request_generation_interval");
    }
}

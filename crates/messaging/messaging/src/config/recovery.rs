//! `[messaging.recovery]`: late join and off-transport recovery; and hot failover.

use std::time::Duration;

use lbt::config::{FailoverConfig, RecoveryConfig, RetentionConfig};

use crate::MessagingConfig;

config::section! {
    /// Messages beyond the transport: late join, and off-transport recovery (OTR) of what a transport gave up.
    pub struct MessageRecoveryConfig {
        /// Whether sources that do not say otherwise retain what they send, for receivers that join late or
        /// lost more than their transport could repair.
        late_join: bool = false;
        /// Memory of each such source for messages with their headers; the oldest leave first.
        retransmit_retention_size_limit_bytes: u64 = 25_165_824, range 65_536..=68_719_476_736;
        /// Most messages and fragments that each such source retains.
        retransmit_retention_message_maximum: u32 = 65_536, range 1..=268_435_456;
        /// Messages older than this are not retained; 0 for no limit.
        retransmit_retention_age_threshold_us: u64 = 0, range 0..=86_400_000_000;
        /// Retained messages that a context sends again, all receivers together; 0 for no limit.
        retransmit_retention_rate_limit_bits_per_second: u64 = 200_000_000, range 0..=1_000_000_000_000;
        /// Whether receivers ask for what was sent before they joined, where a source retains it.
        use_late_join: bool = true;
        /// Whether receivers ask for what the transport gave up, where a source retains it.
        use_otr: bool = true;
        /// Most messages and fragments of a topic that a late joiner asks for, the newest; 0 for all.
        retransmit_request_maximum: u32 = 0;
        /// Most requests for one session's messages that wait for an answer at once.
        retransmit_request_outstanding_maximum: u32 = 256, range 1..=65_536;
        /// A request that was not answered is sent again after this time, and so is an attempt to connect.
        retransmit_request_interval_us: u64 = 500_000, range 10..=3_600_000_000;
        /// After this time without any answer a topic asks no more, and what it lacks is lost; at least two
        /// request intervals.
        retransmit_request_generation_interval_us: u64 = 10_000_000, range 20..=86_400_000_000;
        /// Live messages of a topic that are held while older ones are asked for.
        retransmit_message_caching_proximity: u32 = 5_000, range 1..=268_435_456;
        /// Wait between a loss that the transport tells and the first request.
        otr_request_initial_delay_us: u64 = 0, range 0..=3_600_000_000;
    }
}

impl MessagingConfig {
    /// What a source retains, and how much of its context it gives to those who ask for it.
    #[must_use]
    pub fn retention(&self) -> RetentionConfig {
        RetentionConfig {
            retransmit_retention_size_limit: self.recovery.retransmit_retention_size_limit_bytes,
            retransmit_retention_message_maximum: self.recovery.retransmit_retention_message_maximum,
            retransmit_retention_age_threshold: Duration::from_micros(
                self.recovery.retransmit_retention_age_threshold_us,
            ),
            retransmit_retention_rate_limit: self.recovery.retransmit_retention_rate_limit_bits_per_second,
            ..RetentionConfig::default()
        }
    }

    /// How the receivers of a session ask for what they have not heard.
    #[must_use]
    pub fn recovery(&self) -> RecoveryConfig {
        let us = Duration::from_micros;
        let standard = RecoveryConfig::default();
        let maximum_message_size = self.message_max(standard.maximum_message_size);
        RecoveryConfig {
            use_late_join: self.recovery.use_late_join,
            use_otr: self.recovery.use_otr,
            retransmit_request_maximum: self.recovery.retransmit_request_maximum,
            retransmit_request_outstanding_maximum: self.recovery.retransmit_request_outstanding_maximum,
            retransmit_request_interval: us(self.recovery.retransmit_request_interval_us),
            retransmit_request_generation_interval: us(self
                .recovery
                .retransmit_request_generation_interval_us),
            retransmit_message_caching_proximity: self.recovery.retransmit_message_caching_proximity,
            otr_request_initial_delay: us(self.recovery.otr_request_initial_delay_us),
            maximum_message_size,
            ..standard
        }
    }

    /// How a receiver with hot failover merges its sources.
    #[must_use]
    pub fn failover(&self) -> FailoverConfig {
        FailoverConfig {
            hot_failover_gap_interval: Duration::from_micros(self.hot_failover_gap_interval_us),
            hot_failover_hold_maximum_count: self.hot_failover_hold_maximum_count,
            hot_failover_hold_maximum_bytes: self.hot_failover_hold_maximum_bytes,
            hot_failover_maximum_sources: self.hot_failover_maximum_sources,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_are_those_of_the_protocol_and_faults_are_named_by_their_keys() {
        let config = MessagingConfig::default();
        assert_eq!(config.retention(), RetentionConfig::default());
        assert_eq!(config.recovery(), RecoveryConfig::default());
        assert_eq!(config.failover(), FailoverConfig::default());
        let faults =
            MessagingConfig::load(None, ["recovery.retransmit_request_generation_interval_us=999999"]);
        let text = faults.expect_err("below two request intervals").to_string();
        assert!(text.contains("retransmit_request_generation_interval_us"), "{text}");
    }
}

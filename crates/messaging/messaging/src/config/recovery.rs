use std::time::Duration;

use lbt::config::{FailoverConfig, RecoveryConfig, RetentionConfig};

use crate::MessagingConfig;

impl MessagingConfig {
    /// What a source retains, and how much of its context it gives to those who ask for it.
    #[must_use]
    pub fn retention(&self) -> RetentionConfig {
        RetentionConfig {
            retransmit_retention_size_limit: self.retransmit_retention_size_limit_bytes,
            retransmit_retention_message_maximum: self.retransmit_retention_message_maximum,
            retransmit_retention_age_threshold: Duration::from_micros(
                self.retransmit_retention_age_threshold_us,
            ),
            retransmit_retention_rate_limit: self.retransmit_retention_rate_limit_bits_per_second,
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
            use_late_join: self.use_late_join,
            use_otr: self.use_otr,
            retransmit_request_maximum: self.retransmit_request_maximum,
            retransmit_request_outstanding_maximum: self.retransmit_request_outstanding_maximum,
            retransmit_request_interval: us(self.retransmit_request_interval_us),
            retransmit_request_generation_interval: us(self.retransmit_request_generation_interval_us),
            retransmit_message_caching_proximity: self.retransmit_message_caching_proximity,
            otr_request_initial_delay: us(self.otr_request_initial_delay_us),
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
        let faults = MessagingConfig::load(None, ["retransmit_request_generation_interval_us=999999"]);
        let text = faults.expect_err("below two request intervals").to_string();
        assert!(text.contains("retransmit_request_generation_interval_us"), "{text}");
    }
}

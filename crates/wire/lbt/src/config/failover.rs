use super::{ConfigError, in_range, span_in_range};
use std::time::Duration;

/// Hot failover of one topic at one receiver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FailoverConfig {
    /// How long a number is waited for that one source has passed over and another may still send.
    pub hot_failover_gap_interval: Duration,
    /// Most messages held behind such a number; beyond it the oldest gap is given up.
    pub hot_failover_hold_maximum_count: u32,
    /// Most bytes of them.
    pub hot_failover_hold_maximum_bytes: u64,
    /// Most sources at once.
    pub hot_failover_maximum_sources: u32,
}

impl Default for FailoverConfig {
    fn default() -> FailoverConfig {
        FailoverConfig {
            hot_failover_gap_interval: Duration::from_secs(1),
            hot_failover_hold_maximum_count: 16_384,
            hot_failover_hold_maximum_bytes: 16 << 20,
            hot_failover_maximum_sources: 8,
        }
    }
}

impl FailoverConfig {
    /// Checks ranges.
    ///
    /// # Errors
    /// The first value out of range.
    pub fn check(&self) -> Result<(), ConfigError> {
        span_in_range("hot_failover_gap_interval", self.hot_failover_gap_interval, Duration::ZERO)?;
        let count = u64::from(self.hot_failover_hold_maximum_count);
        in_range("hot_failover_hold_maximum_count", count, 1, 1 << 24)?;
        in_range("hot_failover_hold_maximum_bytes", self.hot_failover_hold_maximum_bytes, 0, 1 << 36)?;
        in_range("hot_failover_maximum_sources", u64::from(self.hot_failover_maximum_sources), 1, 64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_sources_than_can_be_told_apart_are_refused() {
        let config = FailoverConfig { hot_failover_maximum_sources: 65, ..Default::default() };
        let option = "hot_failover_maximum_sources";
        assert_eq!(config.check(), Err(ConfigError::OutOfRange { option, value: 65, min: 1, max: 64 }));
        assert_eq!(FailoverConfig::default().check(), Ok(()));
    }
}

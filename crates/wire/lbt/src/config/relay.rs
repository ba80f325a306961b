use super::{ConfigError, in_range, span_in_range};
use std::time::Duration;

/// A unicast resolver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RelayConfig {
    /// Silence after which a client is forgotten.
    pub resolver_unicast_activity_timeout: Duration,
    /// Time between keep-alives to each client.
    pub resolver_unicast_keepalive_interval: Duration,
    /// Most clients at once.
    pub resolver_unicast_maximum_clients: u32,
    /// Lowest UDP port of clients.
    pub resolver_unicast_client_port_low: u16,
    /// Highest UDP port of clients.
    pub resolver_unicast_client_port_high: u16,
    /// What is taken from one client, bits of UDP payload per second.
    pub resolver_unicast_receive_rate_limit: u64,
    /// What is sent to one client, bits of UDP payload per second.
    pub resolver_unicast_send_rate_limit: u64,
    /// What is sent to all clients together, bits of UDP payload per second.
    pub resolver_unicast_total_rate_limit: u64,
}

impl Default for RelayConfig {
    fn default() -> RelayConfig {
        RelayConfig {
            resolver_unicast_activity_timeout: Duration::from_secs(5),
            resolver_unicast_keepalive_interval: Duration::from_millis(500),
            resolver_unicast_maximum_clients: 1_000,
            resolver_unicast_client_port_low: 14_402,
            resolver_unicast_client_port_high: 14_406,
            resolver_unicast_receive_rate_limit: 40_000_000,
            resolver_unicast_send_rate_limit: 50_000_000,
            resolver_unicast_total_rate_limit: 1_000_000_000,
        }
    }
}

impl RelayConfig {
    /// Checks ranges and relations.
    ///
    /// # Errors
    /// The first value out of range, or two that do not go together.
    pub fn check(&self) -> Result<(), ConfigError> {
        let (interval, ms) = (self.resolver_unicast_keepalive_interval, Duration::from_millis(1));
        span_in_range("resolver_unicast_keepalive_interval", interval, ms)?;
        let timeout = self.resolver_unicast_activity_timeout;
        span_in_range("resolver_unicast_activity_timeout", timeout, 3 * interval)?;
        let clients = u64::from(self.resolver_unicast_maximum_clients);
        in_range("resolver_unicast_maximum_clients", clients, 1, 100_000)?;
        let (low, high) =
            (u64::from(self.resolver_unicast_client_port_low), self.resolver_unicast_client_port_high.into());
        in_range("resolver_unicast_client_port_low", low, 1, 65_535)?;
        in_range("resolver_unicast_client_port_high", high, low, 65_535)?;
        let max = 1_000_000_000_000;
        let receive = self.resolver_unicast_receive_rate_limit;
        in_range("resolver_unicast_receive_rate_limit", receive, 1, max)?;
        let send = self.resolver_unicast_send_rate_limit;
        in_range("resolver_unicast_send_rate_limit", send, 1, max)?;
        let total = self.resolver_unicast_total_rate_limit;
        in_range("resolver_unicast_total_rate_limit", total, 1, max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_is_not_forgotten_between_two_of_its_keepalives() {
        let hasty = RelayConfig {
            resolver_unicast_activity_timeout: Duration::from_millis(1_499),
            ..Default::default()
        };
        let refused = ConfigError::OutOfRange {
            option: "resolver_unicast_activity_timeout",
            value: 1_499_000_000,
            min: 1_500_000_000,
            max: 86_400_000_000_000,
        };
        assert_eq!((hasty.check(), RelayConfig::default().check()), (Err(refused), Ok(())));
    }
}

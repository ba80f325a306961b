use std::net::Ipv4Addr;
use std::time::Duration;

use ::daemon::ThreadConfig;
use config::{Complaint, Ipv4Cidr};
use lbt::config::{ConfigError, RelayConfig};

config::section! {
    /// The unicast resolver: relays topic resolution between contexts in networks without multicast.
    pub struct ResolverDaemonConfig {
        /// Address to listen on; 0.0.0.0 for all of this host.
        interface: Ipv4Addr = Ipv4Addr::LOCALHOST;
        /// UDP port to listen on.
        port: u16 = 15380;
        /// Networks that clients may be in; all networks if there are none. UDP senders can be forged: name
        /// the networks wherever forged packets may arrive.
        networks: Vec<Ipv4Cidr> = [], length 0..=1_000;
        /// Lowest UDP port that clients may have.
        client_port_low: u16 = 14402, range 1..=65535;
        /// Highest UDP port that clients may have.
        client_port_high: u16 = 14406, range 1..=65535;
        /// Most clients at once.
        clients_max: u32 = 1_000, range 1..=100_000;
        /// A client that is silent for so long is forgotten; at least three keep-alives.
        activity_timeout_ms: u64 = 5_000, range 10..=3_600_000;
        /// Time between keep-alives to each client.
        keepalive_interval_ms: u64 = 500, range 1..=600_000;
        /// What is taken from one client, UDP payload.
        receive_rate_limit_bits_per_second: u64 = 40_000_000, range 1..=1_000_000_000_000;
        /// What is sent to one client, UDP payload.
        send_rate_limit_bits_per_second: u64 = 50_000_000, range 1..=1_000_000_000_000;
        /// What is sent to all clients together, UDP payload.
        total_rate_limit_bits_per_second: u64 = 1_000_000_000, range 1..=1_000_000_000_000;
        /// File of the keys with which datagrams must be signed to be taken, as
        /// `messaging.resolver.authentication_key_file` of the clients. It is read again when it has changed.
        authentication_key_file: Option<String> = None, length 1..=4_096;
        /// How far the time at which a datagram was signed may be from now.
        authentication_window_ms: u64 = 60_000, range 1_000..=3_600_000;
        /// Socket buffers. As root the kernel's ceiling is passed over.
        socket_buffer_bytes: u64 = 4_194_304, range 65_536..=1_073_741_824;
        /// The thread.
        thread: ThreadConfig;
    }
    check = ResolverDaemonConfig::check;
}

impl ResolverDaemonConfig {
    /// What the relay goes by.
    #[must_use]
    pub fn relay(&self) -> RelayConfig {
        RelayConfig {
            resolver_unicast_activity_timeout: Duration::from_millis(self.activity_timeout_ms),
            resolver_unicast_keepalive_interval: Duration::from_millis(self.keepalive_interval_ms),
            resolver_unicast_maximum_clients: self.clients_max,
            resolver_unicast_client_port_low: self.client_port_low,
            resolver_unicast_client_port_high: self.client_port_high,
            resolver_unicast_receive_rate_limit: self.receive_rate_limit_bits_per_second,
            resolver_unicast_send_rate_limit: self.send_rate_limit_bits_per_second,
            resolver_unicast_total_rate_limit: self.total_rate_limit_bits_per_second,
        }
    }

    /// Whether a client may be at this address.
    #[must_use]
    pub fn admits(&self, address: Ipv4Addr) -> bool {
        self.networks.is_empty() || self.networks.iter().any(|network| network.contains(address))
    }

    /// How far the time of a signature may be from now.
    pub(crate) fn authentication_window(&self) -> Duration {
        Duration::from_millis(self.authentication_window_ms)
    }

    fn check(&self) -> Result<(), Vec<Complaint>> {
        let Err(error) = self.relay().check() else { return Ok(()) };
        let keys: &[&str] = match error {
            ConfigError::OutOfRange { option: "resolver_unicast_activity_timeout", .. } => {
                &["activity_timeout_ms", "keepalive_interval_ms"]
            }
            ConfigError::OutOfRange { option: "resolver_unicast_client_port_high", .. } => {
                &["client_port_low", "client_port_high"]
            }
            _ => &[],
        };
        let keys: Vec<_> = keys.iter().map(|&key| key.to_owned()).collect();
        Err(vec![Complaint::new(keys, format!("{error} (times in nanoseconds)"))])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(file: &str) -> Result<ResolverDaemonConfig, config::Faults> {
        config::Loader::new::<ResolverDaemonConfig>().file("r.toml", file).load().map(|l| l.value)
    }

    #[test]
    fn the_declaration_is_sound_and_its_defaults_are_the_relay_s() {
        assert_eq!(config::audit::<ResolverDaemonConfig>(), [""; 0]);
        assert_eq!(load("").expect("legal").relay(), RelayConfig::default());
    }

    #[test]
    fn values_that_do_not_go_together_are_refused_with_both() {
        let faults = load("activity_timeout_ms = 1000").expect_err("under three keep-alives").to_string();
        assert!(faults.contains("keepalive_interval_ms"), "{faults}");
        let faults = load("client_port_low = 20000").expect_err("above the highest").to_string();
        assert!(faults.contains("client_port_high"), "{faults}");
    }

    #[test]
    fn clients_are_admitted_by_network() {
        let all = load("").expect("legal");
        let some = load("networks = [\"10.29.0.0/16\"]").expect("legal");
        let (inside, outside) = (Ipv4Addr::new(10, 29, 3, 1), Ipv4Addr::new(10, 30, 3, 1));
        assert_eq!([all.admits(outside), some.admits(inside), some.admits(outside)], [true, true, false]);
    }
}

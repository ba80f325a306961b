//! What is allowed to those who connect, and to those who advertise.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use config::Ipv4Cidr;

use super::MessagingConfig;

impl MessagingConfig {
    /// Whether a receiver may connect to our TCP sessions from there.
    pub(crate) fn admits_client(&self, peer: SocketAddr) -> bool {
        admits(&self.transport_tcp_allowed_networks, peer)
    }

    pub(crate) fn handshake_timeout(&self) -> Duration {
        Duration::from_micros(self.transport_tcp_handshake_timeout_us)
    }

    /// How long a full TCP session waits for a receiver that has stopped; none for ever.
    pub(crate) fn stopped_timeout(&self) -> Option<Duration> {
        limit(self.transport_tcp_receiver_stopped_timeout_us)
    }
}

/// A time that 0 switches off.
fn limit(us: u64) -> Option<Duration> {
    (us > 0).then(|| Duration::from_micros(us))
}

fn admits(networks: &[Ipv4Cidr], peer: SocketAddr) -> bool {
    let is_in = |ip| networks.iter().any(|network| network.contains(ip));
    networks.is_empty() || matches!(peer.ip(), IpAddr::V4(ip) if is_in(ip))
}

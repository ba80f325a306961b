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

    /// Whether somebody may connect to our request port from there.
    pub(crate) fn admits_asker(&self, peer: SocketAddr) -> bool {
        admits(&self.request_tcp_allowed_networks, peer)
    }

    /// How long who has connected to the request port may say nothing.
    pub(crate) fn request_first_message_timeout(&self) -> Option<Duration> {
        limit(self.request_tcp_first_message_timeout_us)
    }

    /// How long a message that has begun may take to go on.
    pub(crate) fn request_message_timeout(&self) -> Option<Duration> {
        limit(self.request_tcp_message_timeout_us)
    }

    /// How long a connection to the request port may be idle.
    pub(crate) fn request_idle_timeout(&self) -> Option<Duration> {
        limit(self.request_tcp_idle_timeout_us)
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

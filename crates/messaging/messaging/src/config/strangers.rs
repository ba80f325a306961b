//! What is allowed to those who connect, and to those who advertise.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, SocketAddrV4};
use std::str::FromStr;
use std::time::Duration;

use config::Ipv4Cidr;
use lbt::resolution::{SourceRecord, TransportSession};

use super::MessagingConfig;

impl MessagingConfig {
    /// Whether somebody may connect to our request port from there.
    pub(crate) fn admits_asker(&self, peer: SocketAddr) -> bool {
        admits_peer(&self.request_tcp_allowed_networks, peer)
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

    /// Whether an advertised session may be received by a context on `interface`: where it is can be, and is
    /// allowed.
    pub(crate) fn admits_source(&self, record: &SourceRecord, interface: Ipv4Addr) -> bool {
        let is_host = |ip: Ipv4Addr| {
            let is_none = ip.is_unspecified() || ip.is_multicast() || ip.is_broadcast();
            // What is on this host alone is no business of who advertises from elsewhere.
            !is_none && (!ip.is_loopback() || interface.is_loopback())
        };
        let is_place = |at: SocketAddrV4| is_host(*at.ip()) && at.port() != 0;
        let (source, is_sound) = match record.session {
            TransportSession::Tcp { address, .. } | TransportSession::LbtRu { address, .. } => {
                (*address.ip(), is_place(address))
            }
            TransportSession::LbtRm { key, group } => {
                (key.source, is_host(key.source) && self.admits_group(group))
            }
            TransportSession::Ipc { .. } => return true,
        };
        let is_allowed = |ip: Ipv4Addr| admits(&self.session_allowed_networks, ip);
        is_sound && is_allowed(source) && record.request.is_none_or(|at| is_place(at) && is_allowed(*at.ip()))
    }

    fn admits_group(&self, group: SocketAddrV4) -> bool {
        // 224.0.0.0/24 is for protocols of one link.
        let is_link = group.ip().octets()[..3] == [224, 0, 0];
        let allowed = &self.lbtrm.allowed_groups;
        let is_allowed = allowed.is_empty() || allowed.iter().any(|groups| groups.contain(group));
        group.ip().is_multicast() && !is_link && group.port() != 0 && is_allowed
    }

    /// How many descriptors sessions may have.
    pub(crate) fn descriptors_max(&self) -> usize {
        let own = self.session_maximum_descriptors.map(|max| max as usize);
        own.unwrap_or_else(|| usize::try_from(net::descriptors::limit() / 4 * 3).unwrap_or(usize::MAX))
    }
}

/// Multicast groups with UDP ports: `239.10.0.0/16`, `239.10.0.0/16:14400` or `239.10.0.0/16:14400-14410`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AllowedGroups {
    /// The groups.
    pub network: Ipv4Cidr,
    /// Lowest and highest port.
    pub ports: (u16, u16),
}

/// All ports.
const ANY_PORT: (u16, u16) = (1, u16::MAX);

impl AllowedGroups {
    fn contain(&self, group: SocketAddrV4) -> bool {
        let (low, high) = self.ports;
        self.network.contains(*group.ip()) && (low..=high).contains(&group.port())
    }
}

impl FromStr for AllowedGroups {
    type Err = String;

    fn from_str(text: &str) -> Result<AllowedGroups, String> {
        let (network, ports) = match text.split_once(':') {
            Some((network, ports)) => (network, Some(ports)),
            None => (text, None),
        };
        let network: Ipv4Cidr = network.parse().map_err(|e: config::CidrError| e.to_string())?;
        let Some(ports) = ports else { return Ok(AllowedGroups { network, ports: ANY_PORT }) };
        let (low, high) = ports.split_once('-').unwrap_or((ports, ports));
        let port = |text: &str| text.parse().map_err(|_| format!("`{text}` is not a port"));
        let ports: (u16, u16) = (port(low)?, port(high)?);
        if ports.0 == 0 || ports.0 > ports.1 {
            return Err(format!("`{low}-{high}` are not ports, the lower one first"));
        }
        Ok(AllowedGroups { network, ports })
    }
}

impl fmt::Display for AllowedGroups {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.network.fmt(f)?;
        match self.ports {
            ANY_PORT => Ok(()),
            (low, high) if low == high => write!(f, ":{low}"),
            (low, high) => write!(f, ":{low}-{high}"),
        }
    }
}

config::text_type!(
    AllowedGroups,
    "groups and ports",
    "groups with ports",
    example "239.10.0.0/16:14400-14410"
);

/// A time that 0 switches off.
pub(super) fn limit(us: u64) -> Option<Duration> {
    (us > 0).then(|| Duration::from_micros(us))
}

/// Whether an address is in one of some networks, or there are none.
#[inline]
pub(crate) fn admits(networks: &[Ipv4Cidr], address: Ipv4Addr) -> bool {
    networks.is_empty() || networks.iter().any(|network| network.contains(address))
}

/// Whether a peer's is. This library listens on IPv4 alone.
pub(super) fn admits_peer(networks: &[Ipv4Cidr], peer: SocketAddr) -> bool {
    matches!(peer.ip(), IpAddr::V4(ip) if admits(networks, ip))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_and_ports_read_back_as_they_print_and_contain_what_they_say() {
        for text in ["239.10.0.0/16", "239.10.0.0/16:14400", "239.10.0.0/16:14400-14410"] {
            let groups: AllowedGroups = text.parse().expect(text);
            assert_eq!(groups.to_string(), text);
            assert!(groups.contain("239.10.9.9:14400".parse().expect("an address")));
            assert!(!groups.contain("239.11.9.9:14400".parse().expect("an address")));
            assert_eq!(groups.contain("239.10.9.9:14399".parse().expect("an address")), text.len() < 15);
        }
        for bad in ["", "239.10.0.0/16:", "239.10.0.0/16:0", "239.10.0.0/16:2-1", "239.10.0.0/16:x"] {
            assert!(bad.parse::<AllowedGroups>().is_err(), "{bad}");
        }
    }
}

//! Where sockets of a context are bound, and how.

use std::collections::HashMap;
use std::io;
use std::net::{Ipv4Addr, SocketAddrV4};

use net::udp::MulticastOptions;

use crate::MessagingConfig;

/// What multicast sockets on a network go by.
pub(crate) fn multicast_options(config: &MessagingConfig, interface: Ipv4Addr) -> MulticastOptions {
    MulticastOptions {
        interface,
        ttl: config.ttl,
        buffer_bytes: config.lbtrm.receiver_socket_buffer_bytes as usize,
    }
}

/// Where to look for a free port: sessions that are sent keep theirs, and the thousandth does not try those of all
/// others again.
#[derive(Default)]
pub(crate) struct Ports {
    /// By range, the port that was taken last.
    last: HashMap<(u16, u16), u16>,
}

impl Ports {
    /// The ports of a range, those first that were not tried yet.
    pub(crate) fn of(&self, low: u16, high: u16) -> impl Iterator<Item = u16> + use<> {
        let tried = self.last.get(&(low, high)).map_or(0, |last| usize::from(last - low) + 1);
        (low..=high).skip(tried).chain((low..=high).take(tried))
    }

    pub(crate) fn took(&mut self, low: u16, high: u16, port: u16) {
        self.last.insert((low, high), port.clamp(low, high));
    }
}

/// Binds the first free port of some, by `bind`.
pub(crate) fn first_free<T>(
    interface: Ipv4Addr,
    ports: impl Iterator<Item = u16>,
    bind: impl Fn(SocketAddrV4) -> io::Result<T>,
) -> io::Result<T> {
    let (mut refused, mut low, mut high) = (None, u16::MAX, 0);
    for port in ports {
        (low, high) = (low.min(port), high.max(port));
        match bind(SocketAddrV4::new(interface, port)) {
            Ok(bound) => return Ok(bound),
            Err(e) if e.kind() == io::ErrorKind::AddrInUse => refused = Some(e),
            Err(e) => return Err(e),
        }
    }
    let last = refused.map_or_else(String::new, |e| e.to_string());
    Err(io::Error::new(
        io::ErrorKind::AddrInUse,
        format!("no port from {low} to {high} is free on {interface}: {last}"),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_port_is_looked_for_behind_the_last_and_then_from_the_begin() {
        let mut ports = Ports::default();
        let of = |ports: &Ports| ports.of(10, 13).collect::<Vec<_>>();
        assert_eq!(of(&ports), [10, 11, 12, 13]);
        ports.took(10, 13, 11);
        ports.took(10, 14, 10);
        assert_eq!(of(&ports), [12, 13, 10, 11]);
        ports.took(10, 13, 13);
        assert_eq!(of(&ports), [10, 11, 12, 13]);
        ports.took(u16::MAX, u16::MAX, u16::MAX);
        assert_eq!(ports.of(u16::MAX, u16::MAX).collect::<Vec<_>>(), [u16::MAX]);
    }
}

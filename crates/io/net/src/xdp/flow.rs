//! Where datagrams go: a template of headers for each pair of our port and an address.

use std::collections::HashMap;
use std::io;
use std::net::SocketAddrV4;

use super::frame::{Ends, Headers, MacAddress};
use super::netlink::{Link, Netlink};

/// The most pairs that are remembered; when one more comes, all are forgotten and found anew.
pub(super) const FLOWS_MAX: usize = 1024;

/// Our port and the address it sends to.
type Key = (u16, SocketAddrV4);

/// How datagrams between two ends get there.
#[derive(Clone, Copy, Debug)]
pub(super) enum Way {
    /// As frames of ours.
    Frames(Headers),
    /// The same, but the kernel doubts the Ethernet address: it takes the next datagram, and so asks for
    /// the address anew.
    FramesInDoubt(Headers),
    /// By the kernel, as the Ethernet address is not known yet.
    Unresolved,
    /// By the kernel: a host that is not reached through this interface, or this host itself.
    Kernel,
}

/// The pairs in use.
#[derive(Debug)]
pub(super) struct Flows {
    link: Link,
    ttl: u8,
    udp_checksum: bool,
    netlink: Netlink,
    ports: Vec<u16>,
    places: HashMap<Key, usize>,
    ways: Vec<(Key, Way)>,
    last: usize,
    /// The one that is looked at next whether it has changed.
    next_refresh: usize,
    forgotten: u64,
}

impl Flows {
    pub(super) fn new(link: Link, ttl: u8, udp_checksum: bool, netlink: Netlink) -> Flows {
        Flows {
            link,
            ttl,
            udp_checksum,
            netlink,
            ports: Vec::new(),
            places: HashMap::with_capacity(FLOWS_MAX),
            ways: Vec::with_capacity(FLOWS_MAX),
            last: 0,
            next_refresh: 0,
            forgotten: 0,
        }
    }

    pub(super) fn count(&self) -> usize {
        self.ways.len()
    }

    /// How often the table was full.
    pub(super) fn forgotten(&self) -> u64 {
        self.forgotten
    }

    /// The way from an address of ours to another.
    #[inline]
    pub(super) fn way(&mut self, from: SocketAddrV4, to: SocketAddrV4) -> io::Result<&Way> {
        let key = (from.port(), to);
        if !matches!(self.ways.get(self.last), Some((last, Way::Frames(_))) if *last == key) {
            self.find(from, key)?;
        }
        Ok(&self.ways[self.last].1)
    }

    /// The kernel has taken a datagram of a way in doubt.
    pub(super) fn asked_anew(&mut self) {
        if let Some((_, way)) = self.ways.get_mut(self.last)
            && let Way::FramesInDoubt(headers) = *way
        {
            *way = Way::Frames(headers);
        }
    }

    /// Lets datagrams be sent from a port.
    pub(super) fn add_port(&mut self, port: u16) {
        self.ports.push(port);
    }

    /// Forgets the ways from a port that is given up.
    pub(super) fn forget_port(&mut self, port: u16) {
        self.ports.retain(|p| *p != port);
        self.ways.retain(|((from, _), _)| *from != port);
        self.places = self.ways.iter().enumerate().map(|(at, (key, _))| (*key, at)).collect();
        self.last = 0;
    }

    /// Looks whether the Ethernet address of one more way has changed.
    pub(super) fn refresh_one(&mut self, from: std::net::Ipv4Addr) -> io::Result<()> {
        if self.ways.is_empty() {
            return Ok(());
        }
        self.next_refresh = (self.next_refresh + 1) % self.ways.len();
        let (port, to) = self.ways[self.next_refresh].0;
        if !to.ip().is_multicast() {
            self.ways[self.next_refresh].1 = self.resolve(SocketAddrV4::new(from, port), to)?;
        }
        Ok(())
    }

    /// Makes the way of a key the last one.
    #[cold]
    fn find(&mut self, from: SocketAddrV4, key: Key) -> io::Result<()> {
        if let Some(at) = self.places.get(&key) {
            self.last = *at;
            if let Way::Unresolved = self.ways[self.last].1 {
                self.ways[self.last].1 = self.resolve(from, key.1)?;
            }
            return Ok(());
        }
        if !self.ports.contains(&from.port()) {
            return Err(unbound(from));
        }
        let way = self.resolve(from, key.1)?;
        if self.ways.len() == FLOWS_MAX {
            self.ways.clear();
            self.places.clear();
            self.forgotten += 1;
        }
        self.last = self.ways.len();
        self.places.insert(key, self.last);
        self.ways.push((key, way));
        Ok(())
    }

    fn resolve(&mut self, from: SocketAddrV4, to: SocketAddrV4) -> io::Result<Way> {
        if to.ip().is_multicast() {
            return Ok(Way::Frames(self.headers(from, to, MacAddress::of_group(*to.ip()))));
        }
        let route = match self.netlink.route_to(*to.ip())? {
            Some(route) if route.link == self.link.index && route.is_unicast => route,
            _ => return Ok(Way::Kernel),
        };
        Ok(match self.netlink.neighbour(self.link.index, route.next_hop)? {
            None => Way::Unresolved,
            Some(neighbour) if neighbour.is_fresh => Way::Frames(self.headers(from, to, neighbour.mac)),
            Some(neighbour) => Way::FramesInDoubt(self.headers(from, to, neighbour.mac)),
        })
    }

    fn headers(&self, from: SocketAddrV4, to: SocketAddrV4, destination: MacAddress) -> Headers {
        // Unicast goes as far as the kernel's would; a group as far as was asked for.
        const UNICAST_TTL: u8 = 64;
        let ttl = if to.ip().is_multicast() { self.ttl } else { UNICAST_TTL };
        Headers::new(&Ends { source: self.link.mac, destination, from, to, ttl }, self.udp_checksum)
    }
}

pub(super) fn unbound(from: SocketAddrV4) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, format!("{from} is not bound, so nothing is sent from it"))
}

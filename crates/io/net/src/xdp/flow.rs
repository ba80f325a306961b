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

/// By which route datagrams between two ends go.
#[derive(Clone, Copy, Debug)]
pub(super) enum Route {
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
    routes: Vec<(Key, Route)>,
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
            routes: Vec::with_capacity(FLOWS_MAX),
            last: 0,
            next_refresh: 0,
            forgotten: 0,
        }
    }

    pub(super) fn count(&self) -> usize {
        self.routes.len()
    }

    /// How often the table was full.
    pub(super) fn forgotten(&self) -> u64 {
        self.forgotten
    }

    /// The route from an address of ours to another.
    #[inline]
    pub(super) fn route(&mut self, from: SocketAddrV4, to: SocketAddrV4) -> io::Result<&Route> {
        let key = (from.port(), to);
        if !matches!(self.routes.get(self.last), Some((last, Route::Frames(_))) if *last == key) {
            self.find(from, key)?;
        }
        Ok(&self.routes[self.last].1)
    }

    /// The kernel has taken a datagram of a route in doubt.
    pub(super) fn asked_anew(&mut self) {
        if let Some((_, route)) = self.routes.get_mut(self.last)
            && let Route::FramesInDoubt(headers) = *route
        {
            *route = Route::Frames(headers);
        }
    }

    /// Lets datagrams be sent from a port.
    pub(super) fn add_port(&mut self, port: u16) {
        self.ports.push(port);
    }

    /// Forgets the routes from a port that is given up.
    pub(super) fn forget_port(&mut self, port: u16) {
        self.ports.retain(|p| *p != port);
        self.routes.retain(|((from, _), _)| *from != port);
        self.places = self.routes.iter().enumerate().map(|(at, (key, _))| (*key, at)).collect();
        self.last = 0;
    }

    /// Looks whether the Ethernet address of one more route has changed.
    pub(super) fn refresh_one(&mut self, from: std::net::Ipv4Addr) -> io::Result<()> {
        if self.routes.is_empty() {
            return Ok(());
        }
        self.next_refresh = (self.next_refresh + 1) % self.routes.len();
        let (port, to) = self.routes[self.next_refresh].0;
        if !to.ip().is_multicast() {
            self.routes[self.next_refresh].1 = self.resolve(SocketAddrV4::new(from, port), to)?;
        }
        Ok(())
    }

    /// Makes the route of a key the last one.
    #[cold]
    fn find(&mut self, from: SocketAddrV4, key: Key) -> io::Result<()> {
        if let Some(at) = self.places.get(&key) {
            self.last = *at;
            if let Route::Unresolved = self.routes[self.last].1 {
                self.routes[self.last].1 = self.resolve(from, key.1)?;
            }
            return Ok(());
        }
        if !self.ports.contains(&from.port()) {
            return Err(unbound(from));
        }
        let route = self.resolve(from, key.1)?;
        if self.routes.len() == FLOWS_MAX {
            self.routes.clear();
            self.places.clear();
            self.forgotten += 1;
        }
        self.last = self.routes.len();
        self.places.insert(key, self.last);
        self.routes.push((key, route));
        Ok(())
    }

    fn resolve(&mut self, from: SocketAddrV4, to: SocketAddrV4) -> io::Result<Route> {
        if to.ip().is_multicast() {
            return Ok(Route::Frames(self.headers(from, to, MacAddress::of_group(*to.ip()))));
        }
        let route = match self.netlink.route_to(*to.ip())? {
            Some(route) if route.link == self.link.index && route.is_unicast => route,
            _ => return Ok(Route::Kernel),
        };
        Ok(match self.netlink.neighbour(self.link.index, route.next_hop)? {
            None => Route::Unresolved,
            Some(neighbour) if neighbour.is_fresh => Route::Frames(self.headers(from, to, neighbour.mac)),
            Some(neighbour) => Route::FramesInDoubt(self.headers(from, to, neighbour.mac)),
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

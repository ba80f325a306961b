//! What the kernel knows of interfaces, routes and neighbours, asked for by rtnetlink.
//!
//! A message is a header (length u32, type u16, flags u16, sequence u32, port u32), a fixed part that
//! depends on the type, and attributes (length u16, type u16, value), each filled up to four bytes; numbers
//! in the order of the machine.

use std::io;
use std::net::Ipv4Addr;
use std::time::Duration;

use socket2::{Domain, Protocol, Socket, Type};

use super::frame::MacAddress;
use crate::fork;

const HEADER_LEN: usize = 16;
const ERROR: u16 = 2;
const DONE: u16 = 3;
const NEW_LINK: u16 = 16;
const GET_LINK: u16 = 18;
const NEW_ADDRESS: u16 = 20;
const GET_ADDRESS: u16 = 22;
const NEW_ROUTE: u16 = 24;
const GET_ROUTE: u16 = 26;
const NEW_NEIGHBOUR: u16 = 28;
const GET_NEIGHBOUR: u16 = 30;
const REQUEST: u16 = 1;
const DUMP: u16 = 0x300;
const INET: u8 = libc::AF_INET as u8;

/// An interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Link {
    pub(super) index: u32,
    pub(super) name: String,
    pub(super) mtu: usize,
    pub(super) mac: MacAddress,
}

/// How an address is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Route {
    /// Interface by which it leaves.
    pub(super) link: u32,
    /// Whose Ethernet address frames bear: the gateway, or the address itself.
    pub(super) next_hop: Ipv4Addr,
    /// Whether it is another host's, and one host's alone.
    pub(super) is_unicast: bool,
}

/// An entry of the table of neighbours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Neighbour {
    pub(super) mac: MacAddress,
    /// Not yet doubtful: frames need not go through the kernel for it to ask anew.
    pub(super) is_fresh: bool,
}

/// A socket to ask by.
#[derive(Debug)]
pub(super) struct Netlink {
    socket: Socket,
    sequence: u32,
    answer: Vec<u8>,
}

/// The kernel answers at once; this is a watchdog.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);
/// More than any message of those asked for; the kernel gives at most 32 KiB at a time.
const ANSWER_BYTES: usize = 64 << 10;

impl Netlink {
    pub(super) fn new() -> io::Result<Netlink> {
        let domain = Domain::from(libc::AF_NETLINK);
        let socket =
            fork::unshare(Socket::new(domain, Type::RAW, Some(Protocol::from(libc::NETLINK_ROUTE)))?);
        socket.set_read_timeout(Some(ANSWER_TIMEOUT))?;
        Ok(Netlink { socket, sequence: 0, answer: Vec::with_capacity(ANSWER_BYTES) })
    }

    /// The interface that has an address.
    pub(super) fn link_of(&mut self, address: Ipv4Addr) -> io::Result<Option<Link>> {
        let mut index = None;
        self.ask(GET_ADDRESS, DUMP, &[INET, 0, 0, 0, 0, 0, 0, 0], &[], |kind, body| {
            if kind == NEW_ADDRESS {
                index = index.or_else(|| parse_address(body).filter(|(_, a)| *a == address).map(|(i, _)| i));
            }
        })?;
        let Some(index) = index else { return Ok(None) };
        let mut fixed = [0; 16];
        fixed[4..8].copy_from_slice(&index.to_ne_bytes());
        let mut link = None;
        self.ask(GET_LINK, 0, &fixed, &[], |kind, body| {
            link = (kind == NEW_LINK).then(|| parse_link(body)).flatten();
        })?;
        Ok(link)
    }

    /// How an address is reached; nothing when it cannot be.
    pub(super) fn route_to(&mut self, address: Ipv4Addr) -> io::Result<Option<Route>> {
        let mut fixed = [0; 12];
        fixed[..2].copy_from_slice(&[INET, 32]);
        let mut route = None;
        let asked = self.ask(GET_ROUTE, 0, &fixed, &[(libc::RTA_DST, address)], |kind, body| {
            route = (kind == NEW_ROUTE).then(|| parse_route(address, body)).flatten();
        });
        absent(asked, &[libc::ENETUNREACH, libc::EHOSTUNREACH, libc::EINVAL, libc::EACCES]).map(|()| route)
    }

    /// The Ethernet address of a neighbour, where the kernel has one.
    pub(super) fn neighbour(&mut self, link: u32, address: Ipv4Addr) -> io::Result<Option<Neighbour>> {
        let mut fixed = [0; 12];
        fixed[0] = INET;
        fixed[4..8].copy_from_slice(&link.to_ne_bytes());
        let mut neighbour = None;
        let asked = self.ask(GET_NEIGHBOUR, 0, &fixed, &[(libc::NDA_DST, address)], |kind, body| {
            neighbour = (kind == NEW_NEIGHBOUR).then(|| parse_neighbour(body)).flatten();
        });
        absent(asked, &[libc::ENOENT]).map(|()| neighbour)
    }

    /// Sends a request and hands the answers' types and bodies over.
    fn ask(
        &mut self,
        kind: u16,
        flags: u16,
        fixed: &[u8],
        attributes: &[(u16, Ipv4Addr)],
        mut take: impl FnMut(u16, &[u8]),
    ) -> io::Result<()> {
        self.sequence = self.sequence.wrapping_add(1);
        self.socket.send(&request(kind, flags, self.sequence, fixed, attributes))?;
        loop {
            self.answer.clear();
            let filled = self.socket.recv(self.answer.spare_capacity_mut())?;
            // SAFETY: the kernel has written the first `filled` bytes of the spare capacity.
            unsafe { self.answer.set_len(filled) };
            for (message, kind, sequence) in Messages(&self.answer) {
                if sequence != self.sequence {
                    continue;
                }
                match kind {
                    DONE => return Ok(()),
                    ERROR => return error_of(message),
                    kind => take(kind, message),
                }
            }
            if flags & DUMP == 0 {
                return Ok(());
            }
        }
    }
}

/// Takes errors that say that there is none.
fn absent(asked: io::Result<()>, codes: &[i32]) -> io::Result<()> {
    match asked {
        Err(e) if e.raw_os_error().is_some_and(|code| codes.contains(&code)) => Ok(()),
        other => other,
    }
}

fn request(kind: u16, flags: u16, sequence: u32, fixed: &[u8], attributes: &[(u16, Ipv4Addr)]) -> Vec<u8> {
    let len = HEADER_LEN + fixed.len() + 8 * attributes.len();
    let mut out = Vec::with_capacity(len);
    out.extend_from_slice(&(len as u32).to_ne_bytes());
    out.extend_from_slice(&kind.to_ne_bytes());
    out.extend_from_slice(&(REQUEST | flags).to_ne_bytes());
    out.extend_from_slice(&sequence.to_ne_bytes());
    out.extend_from_slice(&[0; 4]);
    out.extend_from_slice(fixed);
    for (kind, address) in attributes {
        out.extend_from_slice(&8u16.to_ne_bytes());
        out.extend_from_slice(&kind.to_ne_bytes());
        out.extend_from_slice(&address.octets());
    }
    out
}

/// The messages of an answer: what follows the header, type, sequence number.
struct Messages<'a>(&'a [u8]);

impl<'a> Iterator for Messages<'a> {
    type Item = (&'a [u8], u16, u32);

    fn next(&mut self) -> Option<Self::Item> {
        let len = number(self.0, 0)? as usize;
        let kind = half(self.0, 4)?;
        let sequence = number(self.0, 8)?;
        let body = self.0.get(HEADER_LEN..len)?;
        self.0 = self.0.get(len.next_multiple_of(4)..).unwrap_or_default();
        Some((body, kind, sequence))
    }
}

/// The attributes behind a fixed part: type, value.
struct Attributes<'a>(&'a [u8]);

impl<'a> Iterator for Attributes<'a> {
    type Item = (u16, &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let len = usize::from(half(self.0, 0)?);
        let kind = half(self.0, 2)? & 0x3fff;
        let value = self.0.get(4..len)?;
        self.0 = self.0.get(len.next_multiple_of(4)..).unwrap_or_default();
        Some((kind, value))
    }
}

fn attribute(body: &[u8], fixed_len: usize, wanted: u16) -> Option<&[u8]> {
    let mut attributes = Attributes(body.get(fixed_len..)?);
    attributes.find(|(kind, _)| *kind == wanted).map(|(_, value)| value)
}

fn half(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn number(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn address(bytes: &[u8]) -> Option<Ipv4Addr> {
    Some(Ipv4Addr::from(*bytes.first_chunk::<4>()?))
}

fn mac(bytes: &[u8]) -> Option<MacAddress> {
    Some(MacAddress(bytes.try_into().ok()?))
}

/// An error number, 0 for an acknowledgement.
fn error_of(body: &[u8]) -> io::Result<()> {
    match number(body, 0) {
        Some(0) => Ok(()),
        Some(code) => Err(io::Error::from_raw_os_error((code as i32).wrapping_neg())),
        None => Err(io::Error::new(io::ErrorKind::InvalidData, "rtnetlink answers with a cut-off error")),
    }
}

fn parse_address(body: &[u8]) -> Option<(u32, Ipv4Addr)> {
    const FIXED_LEN: usize = 8;
    const LOCAL: u16 = 2;
    Some((number(body, 4)?, address(attribute(body, FIXED_LEN, LOCAL)?)?))
}

fn parse_link(body: &[u8]) -> Option<Link> {
    const FIXED_LEN: usize = 16;
    const ADDRESS: u16 = 1;
    const NAME: u16 = 3;
    const MTU: u16 = 4;
    let name = attribute(body, FIXED_LEN, NAME)?;
    Some(Link {
        index: number(body, 4)?,
        name: String::from_utf8_lossy(name.strip_suffix(b"\0").unwrap_or(name)).into_owned(),
        mtu: number(attribute(body, FIXED_LEN, MTU)?, 0)? as usize,
        mac: mac(attribute(body, FIXED_LEN, ADDRESS)?)?,
    })
}

fn parse_route(to: Ipv4Addr, body: &[u8]) -> Option<Route> {
    const FIXED_LEN: usize = 12;
    let gateway = attribute(body, FIXED_LEN, libc::RTA_GATEWAY).and_then(address);
    Some(Route {
        link: number(attribute(body, FIXED_LEN, libc::RTA_OIF)?, 0)?,
        next_hop: gateway.unwrap_or(to),
        is_unicast: *body.get(7)? == libc::RTN_UNICAST,
    })
}

fn parse_neighbour(body: &[u8]) -> Option<Neighbour> {
    const FIXED_LEN: usize = 12;
    let state = half(body, 8)?;
    let known = libc::NUD_REACHABLE
        | libc::NUD_STALE
        | libc::NUD_DELAY
        | libc::NUD_PROBE
        | libc::NUD_NOARP
        | libc::NUD_PERMANENT;
    if state & known == 0 {
        return None;
    }
    let mac = mac(attribute(body, FIXED_LEN, libc::NDA_LLADDR)?)?;
    Some(Neighbour { mac, is_fresh: state & libc::NUD_STALE == 0 })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with_attributes(mut fixed: Vec<u8>, attributes: &[(u16, &[u8])]) -> Vec<u8> {
        for (kind, value) in attributes {
            fixed.extend_from_slice(&(4 + value.len() as u16).to_ne_bytes());
            fixed.extend_from_slice(&kind.to_ne_bytes());
            fixed.extend_from_slice(value);
            fixed.resize(fixed.len().next_multiple_of(4), 0);
        }
        fixed
    }

    #[test]
    fn an_interface_is_read_from_its_attributes() {
        let mut fixed = vec![0; 16];
        fixed[4..8].copy_from_slice(&7u32.to_ne_bytes());
        let mtu = 1500u32.to_ne_bytes();
        let body = with_attributes(fixed, &[(3, b"eth0\0"), (4, &mtu), (1, &[2, 0, 0, 0, 0, 9])]);
        let link = Link { index: 7, name: "eth0".into(), mtu: 1500, mac: MacAddress([2, 0, 0, 0, 0, 9]) };
        assert_eq!(parse_link(&body), Some(link));
        for len in 0..body.len() - 2 {
            assert_eq!(parse_link(&body[..len]), None, "cut off at {len}");
        }
    }

    #[test]
    fn a_neighbour_counts_only_with_an_address_and_is_doubtful_when_stale() {
        let neighbour = |state: u16| {
            let mut fixed = vec![0; 12];
            fixed[8..10].copy_from_slice(&state.to_ne_bytes());
            parse_neighbour(&with_attributes(fixed, &[(2, &[2, 0, 0, 0, 0, 9])]))
        };
        let mac = MacAddress([2, 0, 0, 0, 0, 9]);
        assert_eq!(neighbour(libc::NUD_REACHABLE), Some(Neighbour { mac, is_fresh: true }));
        assert_eq!(neighbour(libc::NUD_STALE), Some(Neighbour { mac, is_fresh: false }));
        assert_eq!(neighbour(libc::NUD_INCOMPLETE), None);
        assert_eq!(neighbour(libc::NUD_FAILED), None);
    }

    #[test]
    fn the_next_hop_is_the_gateway_where_there_is_one() {
        let to = Ipv4Addr::new(192, 0, 2, 1);
        let gateway = Ipv4Addr::new(10, 0, 0, 1);
        let mut fixed = vec![0; 12];
        fixed[7] = libc::RTN_UNICAST;
        let link = 3u32.to_ne_bytes();
        let direct = parse_route(to, &with_attributes(fixed.clone(), &[(4, &link)])).unwrap();
        assert_eq!(direct, Route { link: 3, next_hop: to, is_unicast: true });
        let far = with_attributes(fixed, &[(4, &link), (5, &gateway.octets())]);
        assert_eq!(parse_route(to, &far).unwrap().next_hop, gateway);
    }

    #[test]
    fn the_kernel_tells_of_the_loopback_interface_and_of_no_other_with_its_address() {
        let mut netlink = Netlink::new().unwrap();
        let link = netlink.link_of(Ipv4Addr::LOCALHOST).unwrap().expect("every host has it");
        assert_eq!((link.name.as_str(), link.mac), ("lo", MacAddress([0; 6])));
        assert_eq!(netlink.link_of(Ipv4Addr::new(192, 0, 2, 77)).unwrap(), None);
        let route = netlink.route_to(Ipv4Addr::LOCALHOST).unwrap().expect("itself");
        assert_eq!((route.link, route.is_unicast), (link.index, false));
        assert_eq!(netlink.neighbour(link.index, Ipv4Addr::new(192, 0, 2, 77)).unwrap(), None);
    }
}

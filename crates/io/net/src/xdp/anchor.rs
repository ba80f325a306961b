//! Ordinary sockets that stand for ours in the kernel: they hold the port, keep the membership in the group
//! (the kernel sends the IGMP reports, the device lets the group's frames in), and carry what has no
//! Ethernet address yet. They receive nothing: a filter drops what the program passes on.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, UdpSocket};

use socket2::{Domain, Protocol, SockFilter, Socket, Type};

use crate::fork;

/// `ret #0`: drop the datagram.
const DROP_ALL: SockFilter = SockFilter::new(0x06, 0, 0, 0);

/// A socket for one address: of the interface, or a group on it.
#[derive(Debug)]
pub(super) struct Anchor {
    pub(super) address: SocketAddrV4,
    socket: UdpSocket,
}

impl Anchor {
    /// Holds a port of the interface's address; 0 takes any free one.
    pub(super) fn port(interface: Ipv4Addr, port: u16) -> io::Result<Anchor> {
        let socket = new()?;
        socket.bind(&SocketAddr::from((interface, port)).into())?;
        let socket = UdpSocket::from(socket);
        let port = socket.local_addr()?.port();
        Ok(Anchor { address: SocketAddrV4::new(interface, port), socket })
    }

    /// Joins a group on the interface.
    pub(super) fn group(interface: Ipv4Addr, group: SocketAddrV4) -> io::Result<Anchor> {
        let socket = new()?;
        socket.set_reuse_address(true)?;
        socket.bind(&SocketAddr::V4(group).into())?;
        socket.set_multicast_all_v4(false)?;
        socket.join_multicast_v4(group.ip(), &interface)?;
        Ok(Anchor { address: group, socket: socket.into() })
    }

    /// Sends by the kernel.
    pub(super) fn send(&self, to: SocketAddrV4, datagram: &[u8]) -> io::Result<()> {
        self.socket.send_to(datagram, to).map(drop)
    }
}

fn new() -> io::Result<Socket> {
    let socket = fork::unshare(Socket::new(Domain::IPV4, Type::DGRAM, Some(Protocol::UDP))?);
    socket.set_nonblocking(true)?;
    socket.attach_filter(&[DROP_ALL])?;
    Ok(socket)
}

use std::cell::Cell;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};

use super::receive::ReceiveMode;
use crate::{SocketFaults, fork};
use socket2::{Domain, Protocol, SockRef, Socket, Type};

/// Where multicast goes out and comes in.
#[derive(Clone, Copy, Debug)]
pub struct MulticastOptions {
    /// Address of the interface; 127.0.0.1 for one host.
    pub interface: Ipv4Addr,
    /// How many routers a packet may cross.
    pub ttl: u8,
    /// Socket buffer, bytes. As root the kernel's ceiling is passed over.
    pub buffer_bytes: usize,
}

/// A non-blocking IPv4 UDP socket.
#[derive(Debug)]
pub struct UdpSocket {
    socket: std::net::UdpSocket,
    /// Cleared when the path refuses segmentation offload; sends then go out one by one.
    pub(super) offload: Cell<bool>,
    /// The only address it sends to.
    pub(super) peer: Option<SocketAddrV4>,
    pub(super) mode: Cell<ReceiveMode>,
    /// What the kernel had dropped when it was asked last.
    pub(super) drops: Cell<u32>,
    /// Of a socket of a simulation.
    pub(super) faults: SocketFaults,
}

impl UdpSocket {
    /// Receives what is sent to `group`, on one interface. Several sockets of a host may do so; each gets a
    /// copy.
    ///
    /// # Errors
    /// The address is not a multicast group, or the interface does not exist; the error names both.
    pub fn multicast_receiver(group: SocketAddrV4, options: MulticastOptions) -> io::Result<UdpSocket> {
        let attempt = || {
            let socket = new_socket()?;
            socket.set_reuse_address(true)?;
            // Bound to the group itself, so that unicast to the port and other groups stay out.
            socket.bind(&SocketAddr::V4(group).into())?;
            socket.set_multicast_all_v4(false)?;
            socket.join_multicast_v4(group.ip(), &options.interface)?;
            Self::for_receiving(socket, options.buffer_bytes)
        };
        attempt().map_err(|e| named(e, &format!("join {group} on interface {}", options.interface)))
    }

    /// Sends multicast from `local`, and receives what is sent to that address by unicast (NAKs).
    ///
    /// Port 0 takes any free port.
    ///
    /// # Errors
    /// The port is taken or the interface does not exist; the error names both.
    pub fn multicast_sender(local: SocketAddrV4, options: MulticastOptions) -> io::Result<UdpSocket> {
        let attempt = || {
            let socket = new_socket()?;
            socket.bind(&SocketAddr::V4(local).into())?;
            Self::for_sending(socket, options)
        };
        attempt()
            .map_err(|e| named(e, &format!("send multicast from {local} on interface {}", options.interface)))
    }

    fn for_receiving(socket: Socket, buffer_bytes: usize) -> io::Result<UdpSocket> {
        grow(&socket, libc::SO_RCVBUFFORCE, buffer_bytes, Socket::set_recv_buffer_size)?;
        let faults = SocketFaults::of_new_socket();
        let has_faults = faults.are_possible();
        // Kernels before 5.0 lack it; datagrams then come one by one, which the reader takes as well.
        let _ = set_option(&socket, libc::SOL_UDP, libc::UDP_GRO, (!has_faults).into());
        let socket = socket.into();
        Ok(UdpSocket {
            socket,
            offload: Cell::new(!has_faults),
            peer: None,
            mode: Cell::new(if has_faults { ReceiveMode::Faulty } else { ReceiveMode::default() }),
            drops: Cell::new(0),
            faults,
        })
    }

    /// A second socket of the same address that sends to `peer` only: the kernel finds the way once, not for each
    /// datagram. What `peer` itself sends to this address comes to the new socket from now on, so of a multicast
    /// group nothing does.
    ///
    /// On loopback it saves 0.3 us of the 3.5 us that a datagram takes there and into its receiver.
    ///
    /// # Errors
    /// The process is out of descriptors, or there is no way to `peer`.
    pub fn lane(&self, peer: SocketAddrV4, options: MulticastOptions) -> io::Result<UdpSocket> {
        let own = SockRef::from(&self.socket);
        let local = SocketAddr::V4(self.local_address()?);
        let attempt = || {
            let socket = new_socket()?;
            socket.set_reuse_address(true)?;
            socket.bind(&local.into())?;
            socket.set_reuse_address(false)?;
            // To a group there is a way by the interface, whatever the routes of the host say.
            socket.set_multicast_if_v4(&options.interface)?;
            socket.connect(&SocketAddr::V4(peer).into())?;
            Self::for_sending(socket, options)
        };
        // Two sockets share an address if both say so when the second binds. Nobody else gets it after that.
        own.set_reuse_address(true)?;
        let lane = attempt();
        own.set_reuse_address(false)?;
        Ok(UdpSocket { peer: Some(peer), ..lane? })
    }

    fn for_sending(socket: Socket, options: MulticastOptions) -> io::Result<UdpSocket> {
        socket.set_multicast_if_v4(&options.interface)?;
        socket.set_multicast_ttl_v4(options.ttl.into())?;
        socket.set_multicast_loop_v4(true)?;
        grow(&socket, libc::SO_SNDBUFFORCE, options.buffer_bytes, Socket::set_send_buffer_size)?;
        Self::for_receiving(socket, options.buffer_bytes)
    }

    /// The address it is bound to.
    ///
    /// # Errors
    /// None in practice.
    pub fn local_address(&self) -> io::Result<SocketAddrV4> {
        match self.socket.local_addr()? {
            SocketAddr::V4(address) => Ok(address),
            SocketAddr::V6(address) => {
                Err(io::Error::other(format!("bound to {address}, which is not IPv4")))
            }
        }
    }

    /// The receive buffer that the kernel granted, bytes.
    ///
    /// # Errors
    /// None in practice.
    pub fn receive_buffer_bytes(&self) -> io::Result<usize> {
        SockRef::from(&self.socket).recv_buffer_size()
    }

    pub(super) fn fd(&self) -> RawFd {
        self.socket.as_raw_fd()
    }

    pub(super) fn plain(&self) -> &std::net::UdpSocket {
        &self.socket
    }
}

impl AsFd for UdpSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

fn new_socket() -> io::Result<Socket> {
    let socket = fork::unshare(Socket::new(Domain::IPV4, Type::DGRAM, Some(Protocol::UDP))?);
    socket.set_nonblocking(true)?;
    Ok(socket)
}

/// Sets a buffer size, past the administrator's ceiling where the process may.
fn grow(
    socket: &Socket,
    force: libc::c_int,
    bytes: usize,
    ordinary: fn(&Socket, usize) -> io::Result<()>,
) -> io::Result<()> {
    let wanted = libc::c_int::try_from(bytes).unwrap_or(libc::c_int::MAX);
    if set_option(socket, libc::SOL_SOCKET, force, wanted).is_ok() { Ok(()) } else { ordinary(socket, bytes) }
}

pub(super) fn set_option(
    socket: &impl AsRawFd,
    level: libc::c_int,
    option: libc::c_int,
    value: libc::c_int,
) -> io::Result<()> {
    // SAFETY: the pointer and the length describe `value`, which outlives the call; the descriptor is open,
    // as `socket` owns or borrows it.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            level,
            option,
            (&raw const value).cast(),
            size_of::<libc::c_int>() as libc::socklen_t,
        )
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

fn named(error: io::Error, what: &str) -> io::Error {
    crate::descriptors::explain(error, what.to_owned())
}

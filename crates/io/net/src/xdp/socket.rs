use std::io;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use counters::table::XdpSocket as Counters;
use units::Nanos;

use super::anchor::Anchor;
use super::flow::Flows;
use super::memory::{FromKernel, ToKernel, Umem};
use super::option::get_option;
use super::program::Program;

/// The most datagrams of one receive call.
pub const RECEIVE_MAX: usize = 64;

/// Datagrams to and from the wire of one interface: what several [`crate::udp::UdpSocket`]s are on the path
/// through the kernel. See the [module](super) for what it can and cannot.
///
/// The owner calls [`XdpSocket::send_run`] and [`XdpSocket::receive`], and [`XdpSocket::service`] at
/// [`XdpSocket::next_service`]. A thread that blocks waits for its descriptor to be readable, and for it to
/// be writable while a send would block.
#[derive(Debug)]
pub struct XdpSocket {
    // Dropped from here on: first what the kernel sees, then the memory it uses.
    pub(super) program: Program,
    pub(super) anchors: Vec<Anchor>,
    pub(super) fd: OwnedFd,
    pub(super) fill: ToKernel<u64>,
    pub(super) transmit: ToKernel<libc::xdp_desc>,
    pub(super) received: FromKernel<libc::xdp_desc>,
    pub(super) completed: FromKernel<u64>,
    pub(super) umem: Umem,
    /// Frames to send from that are ours; the one that was used last comes first.
    pub(super) free: Vec<u64>,
    /// The datagrams of the last receive call.
    pub(super) slots: Vec<Slot>,
    /// The frames of the last receive call, which go back with the next.
    pub(super) held: Vec<u64>,
    /// The kernel has not yet taken all that was given it to send.
    pub(super) unsent: bool,
    pub(super) flows: Flows,
    pub(super) watch: Watch,
    pub(super) name: String,
    pub(super) interface: Ipv4Addr,
    pub(super) datagram_max: usize,
    pub(super) verify: bool,
    pub(super) busy_poll: bool,
    pub(super) counters: Arc<Counters>,
}

/// Where a datagram lies.
#[derive(Clone, Copy, Debug)]
pub(super) struct Slot {
    pub(super) from: SocketAddrV4,
    pub(super) to: SocketAddrV4,
    pub(super) at: u64,
    pub(super) len: usize,
}

/// What a socket remembers of its upkeep.
#[derive(Debug)]
pub(super) struct Watch {
    pub(super) refresh_due: Nanos,
    pub(super) counts_due: Nanos,
    pub(super) empty_looks: u32,
    pub(super) is_gone: bool,
}

impl Watch {
    pub(super) fn new() -> Watch {
        Watch { refresh_due: Nanos::ZERO, counts_due: Nanos::ZERO, empty_looks: 0, is_gone: false }
    }
}

impl XdpSocket {
    /// Receives what is sent to a port of the interface's address, and lets datagrams be sent from it. Port 0
    /// takes any free one. Returns the address.
    ///
    /// # Errors
    /// The port is taken, or [`DESTINATIONS_MAX`](super::DESTINATIONS_MAX) addresses are received; the error
    /// names it.
    pub fn bind(&mut self, port: u16) -> io::Result<SocketAddrV4> {
        let wanted = SocketAddrV4::new(self.interface, port);
        let bound = self.add(wanted, Anchor::port(self.interface, port))?;
        self.flows.add_port(bound.port());
        Ok(bound)
    }

    /// Receives what is sent to a group, and keeps the membership.
    ///
    /// # Errors
    /// As [`XdpSocket::bind`], and: it is no group, or was joined.
    pub fn join(&mut self, group: SocketAddrV4) -> io::Result<()> {
        let known = self.anchors.iter().any(|anchor| anchor.address == group);
        let anchor = if known {
            Err(io::Error::new(io::ErrorKind::AddrInUse, "it is received already"))
        } else if group.ip().is_multicast() {
            Anchor::group(self.interface, group)
        } else {
            Err(io::Error::new(io::ErrorKind::InvalidInput, "it is no multicast group"))
        };
        self.add(group, anchor).map(drop)
    }

    /// Ends the reception of an address that was bound or joined. What has come already may still be
    /// received.
    ///
    /// # Errors
    /// It was not, or the kernel refuses; the error names it.
    pub fn leave(&mut self, address: SocketAddrV4) -> io::Result<()> {
        let Some(at) = self.anchors.iter().position(|anchor| anchor.address == address) else {
            return Err(self.named("receive", address, &io::Error::from(io::ErrorKind::NotFound)));
        };
        self.program.remove(address).map_err(|e| self.named("end receiving", address, &e))?;
        self.anchors.swap_remove(at);
        if !address.ip().is_multicast() {
            self.flows.forget_port(address.port());
        }
        Ok(())
    }

    /// The longest datagram it can send and receive, bytes of payload: what the MTU and the frames hold.
    #[must_use]
    pub fn datagram_max_bytes(&self) -> usize {
        self.datagram_max
    }

    /// The name of the interface.
    #[must_use]
    pub fn interface_name(&self) -> &str {
        &self.name
    }

    /// Whether frames get into memory without being copied by the kernel.
    ///
    /// # Errors
    /// The socket is broken.
    pub fn is_zero_copy(&self) -> io::Result<bool> {
        let mut options = libc::xdp_options { flags: 0 };
        get_option(self.fd.as_fd(), libc::XDP_OPTIONS, &mut options)?;
        Ok(options.flags & libc::XDP_OPTIONS_ZEROCOPY != 0)
    }

    fn add(&mut self, wanted: SocketAddrV4, anchor: io::Result<Anchor>) -> io::Result<SocketAddrV4> {
        let added = anchor.and_then(|anchor| self.program.add(anchor.address).map(|()| anchor));
        let anchor = added.map_err(|e| self.named("receive", wanted, &e))?;
        let address = anchor.address;
        self.anchors.push(anchor);
        Ok(address)
    }

    fn named(&self, what: &str, address: SocketAddrV4, error: &io::Error) -> io::Error {
        let full = error.raw_os_error() == Some(libc::E2BIG);
        let advice = if full { format!(" (at most {})", super::DESTINATIONS_MAX) } else { String::new() };
        let said = format!("AF_XDP on interface {}: cannot {what} {address}: {error}{advice}", self.name);
        io::Error::new(error.kind(), said)
    }
}

impl AsFd for XdpSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

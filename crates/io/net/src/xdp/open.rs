//! Opening a socket: frames, rings, program, queue.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use counters::table::XdpSocket as Counters;

use super::flow::Flows;
use super::frame::{HEADERS_LEN, IP_UDP_LEN};
use super::memory::{FromKernel, ToKernel, Umem};
use super::netlink::{Link, Netlink};
use super::option::{get_option, set_option};
use super::program::{Program, QUEUES_MAX, Takes};
use super::socket::{RECEIVE_MAX, Watch};
use super::{XdpCopy, XdpMode, XdpOptions, XdpSocket};
use crate::fork;

/// Bytes that the kernel keeps free before a frame that arrives (`XDP_PACKET_HEADROOM`).
const HEADROOM: usize = 256;
/// The kernel lets go of a queue some time after the socket on it was closed.
const BIND_ATTEMPTS: u32 = 100;
const BIND_INTERVAL: Duration = Duration::from_millis(20);
/// Frames that one busy look may take.
const BUSY_POLL_BUDGET: libc::c_int = 64;
const SEND_BUFFER_BYTES: libc::c_int = 16 << 20;

impl XdpSocket {
    /// Opens the queue of an interface. Nothing is received before [`XdpSocket::bind`] and
    /// [`XdpSocket::join`].
    ///
    /// If the interface was in use a moment ago this waits, for two seconds at most, until the kernel has let
    /// go of it.
    ///
    /// # Errors
    /// An option is out of its range; no interface has the address; the rights are missing (`CAP_NET_RAW`,
    /// `CAP_NET_ADMIN` and `CAP_BPF`, and `CAP_IPC_LOCK` or `ulimit -l` for the frames); the interface has a
    /// program or the queue a socket already; the driver cannot do what was asked for. Each is named.
    pub fn open(options: &XdpOptions, counters: Arc<Counters>) -> io::Result<XdpSocket> {
        let Parts { netlink, link, program, fd, umem, rings } = Parts::open(options, Takes::Destinations)?;
        let Rings { fill, transmit, received, completed } = rings;
        let frame_room = options.frame_bytes as usize - HEADROOM - HEADERS_LEN;
        Ok(XdpSocket {
            datagram_max: link.mtu.saturating_sub(IP_UDP_LEN).min(frame_room),
            name: link.name.clone(),
            interface: options.interface,
            verify: options.checksum,
            busy_poll: !options.busy_poll.is_zero(),
            anchors: Vec::new(),
            flows: Flows::new(link, options.ttl, options.checksum, netlink),
            program,
            fill,
            transmit,
            received,
            completed,
            umem,
            fd,
            free: options.frames_to_send().rev().collect(),
            slots: Vec::with_capacity(RECEIVE_MAX),
            held: Vec::with_capacity(RECEIVE_MAX),
            unsent: false,
            watch: Watch::new(),
            counters,
        })
    }
}

impl XdpOptions {
    /// Where the frames to send from lie, behind those to receive into.
    pub(super) fn frames_to_send(&self) -> impl DoubleEndedIterator<Item = u64> + use<> {
        let frame_bytes = u64::from(self.frame_bytes);
        (self.receive_frames..self.receive_frames + self.send_frames).map(move |n| u64::from(n) * frame_bytes)
    }
}

/// A queue that is served: what every socket consists of.
pub(super) struct Parts {
    pub(super) netlink: Netlink,
    pub(super) link: Link,
    pub(super) program: Program,
    pub(super) fd: OwnedFd,
    pub(super) umem: Umem,
    pub(super) rings: Rings,
}

impl Parts {
    /// Opens the queue of an interface; all frames to receive into are the kernel's then.
    ///
    /// # Errors
    /// As [`XdpSocket::open`].
    pub(super) fn open(options: &XdpOptions, takes: Takes) -> io::Result<Parts> {
        check(options)?;
        let mut netlink = Netlink::new()?;
        let link = netlink.link_of(options.interface)?.ok_or_else(|| {
            let said = format!("no Ethernet interface has the address {}", options.interface);
            io::Error::new(io::ErrorKind::AddrNotAvailable, said)
        })?;
        let doing = |what: &str, e: io::Error| named(what, &link, options, e);
        let fd = new_socket().map_err(|e| doing("open a socket", e))?;
        let umem_frames = options.receive_frames as usize + options.send_frames as usize;
        let umem = Umem::new(umem_frames, options.frame_bytes as usize)
            .map_err(|e| doing("get memory for the frames", e))?;
        let mut rings =
            Rings::new(fd.as_fd(), &umem, options).map_err(|e| doing("register the frames", e))?;
        if !options.busy_poll.is_zero() {
            busy_poll(fd.as_fd(), options.busy_poll).map_err(|e| doing("ask for busy polling", e))?;
        }
        // More than one batch of copies may wait in the kernel; as root its ceiling is passed over. Without,
        // sends are refused earlier, and counted as blocked.
        let _ = set_option(fd.as_fd(), libc::SOL_SOCKET, libc::SO_SNDBUFFORCE, &SEND_BUFFER_BYTES);
        (0..options.receive_frames).for_each(|n| {
            rings.fill.push(u64::from(n) * u64::from(options.frame_bytes));
        });
        rings.fill.publish();
        let program =
            Program::attach(link.index, options.mode, takes).map_err(|e| doing("attach a program", e))?;
        bind(fd.as_fd(), link.index, options).map_err(|e| doing("bind", e))?;
        program.serve(options.queue, fd.as_fd()).map_err(|e| doing("serve the queue", e))?;
        Ok(Parts { netlink, link, program, fd, umem, rings })
    }
}

/// The four rings of a socket.
pub(super) struct Rings {
    pub(super) fill: ToKernel<u64>,
    pub(super) transmit: ToKernel<libc::xdp_desc>,
    pub(super) received: FromKernel<libc::xdp_desc>,
    pub(super) completed: FromKernel<u64>,
}

impl Rings {
    fn new(fd: BorrowedFd<'_>, umem: &Umem, options: &XdpOptions) -> io::Result<Rings> {
        let (receive, send) = (options.receive_frames, options.send_frames);
        set_option(fd, libc::SOL_XDP, libc::XDP_UMEM_REG, &umem.registration())?;
        // Every frame has room in every ring that it may be in, so none of ours can overflow.
        set_option(fd, libc::SOL_XDP, libc::XDP_UMEM_FILL_RING, &receive)?;
        set_option(fd, libc::SOL_XDP, libc::XDP_UMEM_COMPLETION_RING, &send)?;
        set_option(fd, libc::SOL_XDP, libc::XDP_RX_RING, &receive)?;
        set_option(fd, libc::SOL_XDP, libc::XDP_TX_RING, &send)?;
        const NOWHERE: libc::xdp_ring_offset =
            libc::xdp_ring_offset { producer: 0, consumer: 0, desc: 0, flags: 0 };
        let mut at = libc::xdp_mmap_offsets { rx: NOWHERE, tx: NOWHERE, fr: NOWHERE, cr: NOWHERE };
        get_option(fd, libc::XDP_MMAP_OFFSETS, &mut at)?;
        Ok(Rings {
            fill: ToKernel::new(fd, receive, at.fr, libc::XDP_UMEM_PGOFF_FILL_RING)?,
            transmit: ToKernel::new(fd, send, at.tx, libc::XDP_PGOFF_TX_RING as u64)?,
            received: FromKernel::new(fd, receive, at.rx, libc::XDP_PGOFF_RX_RING as u64)?,
            completed: FromKernel::new(fd, send, at.cr, libc::XDP_UMEM_PGOFF_COMPLETION_RING)?,
        })
    }
}

fn check(options: &XdpOptions) -> io::Result<()> {
    let frames = |name: &str, value: u32, least: u32| {
        let good = value.is_power_of_two() && (least..=65_536).contains(&value);
        in_range(good, || format!("{name} is {value}, allowed are powers of two from {least} to 65536"))
    };
    frames("receive_frames", options.receive_frames, 2 * RECEIVE_MAX as u32)?;
    frames("send_frames", options.send_frames, 64)?;
    let bytes = options.frame_bytes;
    in_range([2048, 4096].contains(&bytes), || format!("frame_bytes is {bytes}, allowed are 2048 and 4096"))?;
    let queue = options.queue;
    in_range(queue < QUEUES_MAX, || format!("queue is {queue}, allowed are 0 to {}", QUEUES_MAX - 1))
}

fn in_range(good: bool, said: impl FnOnce() -> String) -> io::Result<()> {
    if good { Ok(()) } else { Err(io::Error::new(io::ErrorKind::InvalidInput, said())) }
}

fn new_socket() -> io::Result<OwnedFd> {
    let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    // SAFETY: no pointers are handed over.
    let fd = unsafe { libc::socket(libc::AF_XDP, kind, 0) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor is new and nobody else's.
    Ok(fork::unshare(unsafe { OwnedFd::from_raw_fd(fd) }))
}

fn bind(fd: BorrowedFd<'_>, interface: u32, options: &XdpOptions) -> io::Result<()> {
    let copy = match options.copy {
        XdpCopy::Auto => 0,
        XdpCopy::Copy => libc::XDP_COPY,
        XdpCopy::ZeroCopy => libc::XDP_ZEROCOPY,
    };
    let address = libc::sockaddr_xdp {
        sxdp_family: libc::AF_XDP as u16,
        sxdp_flags: copy | libc::XDP_USE_NEED_WAKEUP,
        sxdp_ifindex: interface,
        sxdp_queue_id: options.queue,
        sxdp_shared_umem_fd: 0,
    };
    let len = size_of::<libc::sockaddr_xdp>() as libc::socklen_t;
    for attempt in 1.. {
        // SAFETY: the address is a local of the length given.
        let result = unsafe { libc::bind(fd.as_raw_fd(), (&raw const address).cast(), len) };
        if result == 0 {
            break;
        }
        let error = io::Error::last_os_error();
        if error.raw_os_error() != Some(libc::EBUSY) || attempt == BIND_ATTEMPTS {
            return Err(error);
        }
        std::thread::sleep(BIND_INTERVAL);
    }
    Ok(())
}

fn busy_poll(fd: BorrowedFd<'_>, span: Duration) -> io::Result<()> {
    let us = libc::c_int::try_from(span.as_micros()).unwrap_or(libc::c_int::MAX).max(1);
    let options = [
        (libc::SO_PREFER_BUSY_POLL, 1),
        (libc::SO_BUSY_POLL, us),
        (libc::SO_BUSY_POLL_BUDGET, BUSY_POLL_BUDGET),
    ];
    options.iter().try_for_each(|(option, value)| set_option(fd, libc::SOL_SOCKET, *option, value))
}

/// The error with what was being done, where, and what helps.
fn named(what: &str, link: &Link, options: &XdpOptions, error: io::Error) -> io::Error {
    let advice = match error.raw_os_error() {
        Some(libc::EPERM | libc::EACCES) => "; it takes CAP_NET_RAW, CAP_NET_ADMIN and CAP_BPF",
        Some(libc::EAFNOSUPPORT) => "; the kernel is built without AF_XDP",
        Some(libc::ENOBUFS) => "; the frames exceed the memory that may be locked: raise `ulimit -l`",
        Some(libc::EBUSY | libc::EEXIST) => {
            "; another socket or program has it: one context uses an interface by AF_XDP"
        }
        Some(libc::EOPNOTSUPP) if options.mode == XdpMode::Native || options.copy == XdpCopy::ZeroCopy => {
            "; the driver cannot do it: choose another mode"
        }
        Some(libc::EINVAL | libc::ERANGE) => "; does the queue exist, and is the MTU at most a frame?",
        _ => "",
    };
    let place = format!("AF_XDP on interface {} ({}), queue {}", link.name, options.interface, options.queue);
    io::Error::new(error.kind(), format!("{place}: cannot {what}: {error}{advice}"))
}

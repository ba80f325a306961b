use std::io;
use std::net::SocketAddrV4;

use rustix::net::SendFlags;

use super::{PAYLOAD_MAX_BYTES, UdpSocket};

/// The kernel's limit on segments in one call (`UDP_MAX_SEGMENTS` is 64 up to Linux 6.10, 128 since).
const SEGMENTS_MAX: usize = 64;

/// What a send did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sent {
    /// This many datagrams of the run, at least one.
    Datagrams(usize),
    /// None: the socket's send buffer is full.
    WouldBlock,
}

impl UdpSocket {
    /// Sends the first datagrams of a run: `bytes` cut every `segment_bytes`, the last piece possibly
    /// shorter.
    ///
    /// One call takes at most 64 datagrams and 65,507 bytes; the caller goes on with the rest. Where the path
    /// refuses offload (fragmentation needed, old driver) the socket sends one datagram a call from then on.
    ///
    /// # Errors
    /// The kernel refused the datagram itself: no route, too long, or an ICMP error of an earlier one.
    pub fn send_run(&self, to: SocketAddrV4, bytes: &[u8], segment_bytes: usize) -> io::Result<Sent> {
        debug_assert!(segment_bytes > 0 && !bytes.is_empty());
        let one_call = SEGMENTS_MAX.min(PAYLOAD_MAX_BYTES / segment_bytes).max(1) * segment_bytes;
        let now = &bytes[..bytes.len().min(one_call)];
        debug_assert!(self.peer.is_none_or(|peer| peer == to), "a lane leads to one peer");
        if now.len() > segment_bytes && self.offload.get() {
            let unbound = self.peer.is_none().then_some(to);
            match segmented(self.fd(), unbound, now, segment_bytes as u16) {
                Err(e) if refuses_offload(&e) => self.offload.set(false),
                result => return outcome(result, now.len().div_ceil(segment_bytes)),
            }
        }
        if !self.offload.get() && self.is_cut() {
            return Ok(Sent::Datagrams(1));
        }
        let first = &now[..now.len().min(segment_bytes)];
        let result = match self.peer {
            // Without the C library, as in receiving.
            Some(_) => Ok(rustix::net::send(self, first, SendFlags::NOSIGNAL)?),
            None => self.plain().send_to(first, to),
        };
        outcome(result.map(drop), 1)
    }

    /// Nothing leaves, as a simulation wants it.
    #[cold]
    #[inline(never)]
    fn is_cut(&self) -> bool {
        self.faults.is_cut()
    }

    /// Whether runs go out with one call: until the kernel refuses that, which costs streams most of their
    /// speed.
    #[must_use]
    pub fn sends_runs(&self) -> bool {
        self.offload.get()
    }
}

fn refuses_offload(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EINVAL | libc::EIO | libc::EOPNOTSUPP | libc::EMSGSIZE))
}

fn outcome(result: io::Result<()>, datagram_count: usize) -> io::Result<Sent> {
    match result {
        Ok(()) => Ok(Sent::Datagrams(datagram_count)),
        Err(e) if e.kind() == io::ErrorKind::WouldBlock || e.raw_os_error() == Some(libc::ENOBUFS) => {
            Ok(Sent::WouldBlock)
        }
        Err(e) => Err(e),
    }
}

/// Room for one control message with a u16, aligned as `cmsghdr` wants it.
#[repr(C, align(8))]
struct SegmentControl([u8; 24]);

/// `to` is none for a socket that has a peer.
fn segmented(fd: libc::c_int, to: Option<SocketAddrV4>, bytes: &[u8], segment_bytes: u16) -> io::Result<()> {
    let mut address = to.map(super::receive::sockaddr);
    let mut vector = libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
    let mut control = SegmentControl([0; 24]);
    // SAFETY: an all-zero msghdr is a valid value of that plain C struct.
    let mut header: libc::msghdr = unsafe { std::mem::zeroed() };
    if let Some(address) = &mut address {
        header.msg_name = (&raw mut *address).cast();
        header.msg_namelen = size_of::<libc::sockaddr_in>() as libc::socklen_t;
    }
    header.msg_iov = &raw mut vector;
    header.msg_iovlen = 1;
    header.msg_control = control.0.as_mut_ptr().cast();
    // SAFETY: pure arithmetic on a length.
    header.msg_controllen = unsafe { libc::CMSG_SPACE(size_of::<u16>() as u32) } as _;
    debug_assert!(header.msg_controllen as usize <= size_of::<SegmentControl>());
    // SAFETY: `header` describes `control`, which is aligned and at least CMSG_SPACE(2) long (asserted
    // above), so the first control header and its two data bytes lie inside it.
    unsafe {
        let first = libc::CMSG_FIRSTHDR(&raw const header);
        (*first).cmsg_level = libc::SOL_UDP;
        (*first).cmsg_type = libc::UDP_SEGMENT;
        (*first).cmsg_len = libc::CMSG_LEN(size_of::<u16>() as u32) as _;
        libc::CMSG_DATA(first).cast::<u16>().write_unaligned(segment_bytes);
    }
    // SAFETY: every pointer in `header` points to a live local (or to `bytes`, which sendmsg only reads).
    let sent = unsafe { libc::sendmsg(fd, &raw const header, libc::MSG_NOSIGNAL) };
    if sent < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

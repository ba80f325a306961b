use std::io;
use std::net::{Ipv4Addr, SocketAddrV4};

use super::UdpSocket;

/// Bytes a coalesced run may have.
const SLOT_BYTES: usize = 65_536;
/// Room for the control messages `UDP_GRO` and `SO_RXQ_OVFL`.
const CONTROL_BYTES: usize = 64;

#[derive(Clone, Copy)]
#[repr(C, align(8))]
struct Control([u8; CONTROL_BYTES]);

#[derive(Clone, Copy)]
struct Slot {
    from: SocketAddrV4,
    len: usize,
    segment_bytes: usize,
}

/// Buffers for one receive call, reused from call to call: 64 KiB a slot, a slot a (coalesced) run of
/// datagrams.
pub struct ReceiveBatch {
    bytes: Box<[u8]>,
    control: Box<[Control]>,
    names: Box<[libc::sockaddr_in]>,
    vectors: Box<[libc::iovec]>,
    headers: Box<[libc::mmsghdr]>,
    slots: Vec<Slot>,
    kernel_drops: u32,
}

// SAFETY: the raw pointers inside `vectors` and `headers` are written anew from the owned boxes before each
// use.
unsafe impl Send for ReceiveBatch {}

impl ReceiveBatch {
    /// Buffers for `slot_count` runs a call (at least one). Memory: 64 KiB each.
    #[must_use]
    pub fn new(slot_count: usize) -> ReceiveBatch {
        let n = slot_count.max(1);
        let name = sockaddr(SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, 0));
        let vector = libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 };
        // SAFETY: an all-zero mmsghdr is a valid value of that plain C struct.
        let header: libc::mmsghdr = unsafe { std::mem::zeroed() };
        ReceiveBatch {
            bytes: vec![0; n * SLOT_BYTES].into(),
            control: vec![Control([0; CONTROL_BYTES]); n].into(),
            names: vec![name; n].into(),
            vectors: vec![vector; n].into(),
            headers: vec![header; n].into(),
            slots: Vec::with_capacity(n),
            kernel_drops: 0,
        }
    }

    /// Datagrams that the kernel has dropped for want of room in the socket's buffer, as far as it has told
    /// (a running 32-bit total of the socket; it comes with the next datagram after the drop).
    #[must_use]
    pub fn kernel_drops(&self) -> u32 {
        self.kernel_drops
    }

    fn prepare(&mut self) {
        for (i, header) in self.headers.iter_mut().enumerate() {
            self.vectors[i] = libc::iovec {
                iov_base: self.bytes[i * SLOT_BYTES..].as_mut_ptr().cast(),
                iov_len: SLOT_BYTES,
            };
            header.msg_hdr.msg_name = (&raw mut self.names[i]).cast();
            header.msg_hdr.msg_namelen = size_of::<libc::sockaddr_in>() as libc::socklen_t;
            header.msg_hdr.msg_iov = &raw mut self.vectors[i];
            header.msg_hdr.msg_iovlen = 1;
            header.msg_hdr.msg_control = self.control[i].0.as_mut_ptr().cast();
            header.msg_hdr.msg_controllen = CONTROL_BYTES as _;
            header.msg_hdr.msg_flags = 0;
            header.msg_len = 0;
        }
    }

    fn collect(&mut self, filled: usize) {
        for i in 0..filled {
            let len = (self.headers[i].msg_len as usize).min(SLOT_BYTES);
            let mut slot = Slot { from: address(&self.names[i]), len, segment_bytes: len };
            for (level, kind, value) in control_values(&self.headers[i].msg_hdr) {
                match (level, kind) {
                    (libc::SOL_UDP, libc::UDP_GRO) if value > 0 => slot.segment_bytes = value as usize,
                    (libc::SOL_SOCKET, libc::SO_RXQ_OVFL) => self.kernel_drops = value,
                    _ => {}
                }
            }
            self.slots.push(slot);
        }
    }
}

/// The datagrams of one receive call.
pub struct Received<'b> {
    bytes: &'b [u8],
    slots: &'b [Slot],
}

impl<'b> Received<'b> {
    /// Whether the call brought nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// Sender and payload of each datagram, in the order of arrival.
    pub fn datagrams(&self) -> impl Iterator<Item = (SocketAddrV4, &'b [u8])> + use<'b> {
        let bytes = self.bytes;
        self.slots.iter().enumerate().flat_map(move |(i, slot)| {
            let run = &bytes[i * SLOT_BYTES..][..slot.len];
            run.chunks(slot.segment_bytes.max(1)).map(move |datagram| (slot.from, datagram))
        })
    }
}

impl UdpSocket {
    /// Takes what has arrived, up to the batch's slots; nothing when there is nothing.
    ///
    /// # Errors
    /// The socket is broken. Errors that ICMP reports of earlier sends are passed over.
    pub fn receive<'b>(&self, batch: &'b mut ReceiveBatch) -> io::Result<Received<'b>> {
        batch.slots.clear();
        batch.prepare();
        // SAFETY: `prepare` has pointed every header at its own slot of the batch's buffers with their true
        // lengths, and the batch is borrowed mutably until the result is dropped.
        let filled = unsafe {
            libc::recvmmsg(
                self.fd(),
                batch.headers.as_mut_ptr(),
                batch.headers.len() as libc::c_uint,
                libc::MSG_DONTWAIT,
                std::ptr::null_mut(),
            )
        };
        if filled >= 0 {
            batch.collect(filled as usize);
        } else {
            let error = io::Error::last_os_error();
            let passing =
                [libc::EAGAIN, libc::EINTR, libc::ECONNREFUSED, libc::EHOSTUNREACH, libc::ENETUNREACH];
            if !error.raw_os_error().is_some_and(|code| passing.contains(&code)) {
                return Err(error);
            }
        }
        Ok(Received { bytes: &batch.bytes, slots: &batch.slots })
    }
}

/// Level, type and value of each 32-bit control message.
fn control_values(header: &libc::msghdr) -> impl Iterator<Item = (libc::c_int, libc::c_int, u32)> + use<'_> {
    // SAFETY: the kernel has filled `msg_control` up to `msg_controllen` with well-formed control messages,
    // in a buffer that the batch still owns.
    let mut next = unsafe { libc::CMSG_FIRSTHDR(header) };
    std::iter::from_fn(move || {
        if next.is_null() {
            return None;
        }
        // SAFETY: CMSG_FIRSTHDR and CMSG_NXTHDR return null or a control message that lies whole inside the
        // buffer; both kinds that this socket asked for carry 32 bits.
        unsafe {
            let this = &*next;
            let value = libc::CMSG_DATA(next).cast::<u32>().read_unaligned();
            next = libc::CMSG_NXTHDR(header, next);
            Some((this.cmsg_level, this.cmsg_type, value))
        }
    })
}

pub(super) fn sockaddr(address: SocketAddrV4) -> libc::sockaddr_in {
    libc::sockaddr_in {
        sin_family: libc::AF_INET as libc::sa_family_t,
        sin_port: address.port().to_be(),
        sin_addr: libc::in_addr { s_addr: u32::from_ne_bytes(address.ip().octets()) },
        sin_zero: [0; 8],
    }
}

fn address(name: &libc::sockaddr_in) -> SocketAddrV4 {
    SocketAddrV4::new(Ipv4Addr::from(name.sin_addr.s_addr.to_ne_bytes()), u16::from_be(name.sin_port))
}

use std::io;
use std::net::SocketAddrV4;

use super::receive::sockaddr;
use super::{Sent, UdpSocket};

/// What one call of `sendmmsg` points to, reused from call to call.
pub struct SendBatch {
    vectors: Box<[libc::iovec]>,
    headers: Box<[libc::mmsghdr]>,
}

// SAFETY: the raw pointers inside `vectors` and `headers` are written anew before each use.
unsafe impl Send for SendBatch {}

impl SendBatch {
    /// Room for this many datagrams a call (at least one).
    #[must_use]
    pub fn new(datagram_count: usize) -> SendBatch {
        let n = datagram_count.max(1);
        let vector = libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 };
        // SAFETY: an all-zero mmsghdr is a valid value of that plain C struct.
        let header: libc::mmsghdr = unsafe { std::mem::zeroed() };
        SendBatch { vectors: vec![vector; n].into(), headers: vec![header; n].into() }
    }
}

impl UdpSocket {
    /// Sends the first datagrams of a run, `bytes` cut every `segment_bytes`, each through the whole stack by
    /// itself: one `sendmmsg` of as many as the batch has room for. [`UdpSocket::send_run`] is the faster
    /// way; this one is what the kernel can do without segmentation offload.
    ///
    /// # Errors
    /// As [`UdpSocket::send_run`].
    pub fn send_each(
        &self,
        to: SocketAddrV4,
        bytes: &[u8],
        segment_bytes: usize,
        batch: &mut SendBatch,
    ) -> io::Result<Sent> {
        debug_assert!(segment_bytes > 0 && !bytes.is_empty());
        let mut name = sockaddr(to);
        let mut count = 0;
        let slots = batch.vectors.iter_mut().zip(batch.headers.iter_mut());
        for ((vector, header), datagram) in slots.zip(bytes.chunks(segment_bytes)) {
            *vector = libc::iovec { iov_base: datagram.as_ptr().cast_mut().cast(), iov_len: datagram.len() };
            header.msg_hdr.msg_name = (&raw mut name).cast();
            header.msg_hdr.msg_namelen = size_of::<libc::sockaddr_in>() as libc::socklen_t;
            header.msg_hdr.msg_iov = vector;
            header.msg_hdr.msg_iovlen = 1;
            count += 1;
        }
        // SAFETY: the first `count` headers were just pointed at vectors of this batch, at `name` and at
        // pieces of `bytes`, all of which outlive the call; the kernel only reads the datagrams.
        let sent =
            unsafe { libc::sendmmsg(self.fd(), batch.headers.as_mut_ptr(), count, libc::MSG_NOSIGNAL) };
        if sent > 0 {
            return Ok(Sent::Datagrams(sent as usize));
        }
        let error = io::Error::last_os_error();
        match error.raw_os_error() {
            Some(libc::EAGAIN | libc::ENOBUFS) => Ok(Sent::WouldBlock),
            _ => Err(error),
        }
    }
}

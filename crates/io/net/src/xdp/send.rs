use std::io;
use std::net::SocketAddrV4;
use std::os::fd::{AsRawFd, OwnedFd};

use super::XdpSocket;
use super::flow::{Route, unbound};
use super::frame::HEADERS_LEN;
use crate::udp::Sent;

/// Datagrams of a run that one call takes.
const RUN_MAX: usize = 64;
/// System calls for one run. The kernel takes 32 frames a call where it copies.
const KICKS_MAX: usize = 8;

impl XdpSocket {
    /// Sends the first datagrams of a run: `bytes` cut every `segment_bytes`, the last piece possibly
    /// shorter. `from` is a port that was bound.
    ///
    /// One call takes at most 64 datagrams; the caller goes on with the rest. It would block while no frame
    /// is free.
    ///
    /// # Errors
    /// The port is not bound, the datagrams are longer than [`XdpSocket::datagram_max_bytes`], the kernel
    /// finds no route to the host, the interface is down or gone. None of the run was sent then, or an
    /// interface that is down has it still.
    pub fn send_run(
        &mut self,
        from: u16,
        to: SocketAddrV4,
        bytes: &[u8],
        segment_bytes: usize,
    ) -> io::Result<Sent> {
        debug_assert!(segment_bytes > 0 && !bytes.is_empty());
        let longest = bytes.len().min(segment_bytes);
        if longest > self.datagram_max {
            return Err(self.too_long(longest));
        }
        let local = SocketAddrV4::new(self.interface, from);
        let headers = match self.flows.route(local, to) {
            Ok(Route::Frames(headers)) => headers,
            Ok(_) => return self.send_by_kernel(local, to, &bytes[..longest]),
            Err(e) => return Err(e),
        };
        let mut count = 0;
        for payload in bytes.chunks(segment_bytes).take(RUN_MAX) {
            let Some(at) = self.free.pop() else { break };
            let frame = self.umem.bytes_mut(at, HEADERS_LEN + payload.len());
            frame[HEADERS_LEN..].copy_from_slice(payload);
            headers.write(frame);
            // The ring has room for every frame.
            self.transmit.push(libc::xdp_desc { addr: at, len: frame.len() as u32, options: 0 });
            count += 1;
        }
        self.transmit.publish();
        self.kick()?;
        if count == 0 {
            self.counters.sends_blocked.inc();
            return Ok(Sent::WouldBlock);
        }
        self.counters.datagrams_sent.add(count as u64);
        Ok(Sent::Datagrams(count))
    }

    /// Lets the kernel send what is in the ring, and takes back the frames that were sent.
    #[inline]
    pub(super) fn kick(&mut self) -> io::Result<()> {
        if self.transmit.needs_wakeup() {
            self.wake_transmit()?;
        }
        while let Some(at) = self.completed.pop() {
            self.free.push(at);
        }
        self.completed.release();
        Ok(())
    }

    fn wake_transmit(&mut self) -> io::Result<()> {
        for _ in 0..KICKS_MAX {
            match wake(&self.fd) {
                Ok(Woken::TookItsShare) => {}
                Ok(_) => break,
                Err(e) => return Err(self.broken(&e)),
            }
        }
        self.unsent = !self.transmit.is_drained();
        Ok(())
    }

    #[cold]
    fn too_long(&self, bytes: usize) -> io::Error {
        let (name, max) = (&self.name, self.datagram_max);
        let said =
            format!("AF_XDP on interface {name}: a datagram of {bytes} bytes is above the limit of {max}");
        io::Error::new(io::ErrorKind::InvalidInput, said)
    }

    /// One datagram through the kernel, which knows or finds the route.
    #[cold]
    fn send_by_kernel(&mut self, from: SocketAddrV4, to: SocketAddrV4, datagram: &[u8]) -> io::Result<Sent> {
        let bound = self.anchors.iter().find(|anchor| anchor.address == from);
        let anchor = bound.ok_or_else(|| unbound(from))?;
        match anchor.send(to, datagram) {
            Ok(()) => {
                self.flows.asked_anew();
                self.counters.datagrams_sent_by_kernel.inc();
                Ok(Sent::Datagrams(1))
            }
            Err(e) if e.kind() == io::ErrorKind::WouldBlock || e.raw_os_error() == Some(libc::ENOBUFS) => {
                self.counters.sends_blocked.inc();
                Ok(Sent::WouldBlock)
            }
            Err(e) => Err(e),
        }
    }
}

/// What the kernel has done with the transmit ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Woken {
    /// It has taken all.
    TookAll,
    /// As many frames as it takes a call.
    TookItsShare,
    /// The device cannot take more for now.
    Busy,
}

/// Lets the kernel look at the transmit ring.
#[inline]
pub(super) fn wake(socket: &OwnedFd) -> io::Result<Woken> {
    // SAFETY: nothing is handed over: the call has neither bytes nor an address.
    let result = unsafe {
        libc::sendto(socket.as_raw_fd(), std::ptr::null(), 0, libc::MSG_DONTWAIT, std::ptr::null(), 0)
    };
    if result >= 0 {
        return Ok(Woken::TookAll);
    }
    let error = io::Error::last_os_error();
    match error.raw_os_error() {
        Some(libc::EAGAIN | libc::EINTR) => Ok(Woken::TookItsShare),
        Some(libc::EBUSY | libc::ENOBUFS) => Ok(Woken::Busy),
        _ => Err(error),
    }
}

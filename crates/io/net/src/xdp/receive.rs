use std::io;
use std::net::SocketAddrV4;
use std::os::fd::AsRawFd;

use super::frame::{self, Checksum, FrameError};
use super::memory::Umem;
use super::socket::{RECEIVE_MAX, Slot, XdpSocket};

/// Looks at an empty ring after which a spinning owner is told if the interface is gone.
const EMPTY_LOOKS_MAX: u32 = 1 << 20;

/// A datagram as it lies in the memory that the kernel wrote it to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct XdpDatagram<'r> {
    /// Who sent it.
    pub from: SocketAddrV4,
    /// The bound address or joined group it was sent to.
    pub to: SocketAddrV4,
    /// The bytes it carries.
    pub payload: &'r [u8],
}

/// The datagrams of one receive call.
#[derive(Debug)]
pub struct XdpReceived<'r> {
    umem: &'r Umem,
    slots: &'r [Slot],
    is_full: bool,
}

impl<'r> XdpReceived<'r> {
    /// Whether the call brought nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// Whether it brought as much as a call can, so that more may have arrived.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.is_full
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    /// The datagrams in the order of arrival.
    pub fn datagrams(&self) -> impl ExactSizeIterator<Item = XdpDatagram<'r>> + use<'r> {
        let umem = self.umem;
        self.slots.iter().map(move |slot| XdpDatagram {
            from: slot.from,
            to: slot.to,
            payload: umem.bytes(slot.at, slot.len),
        })
    }
}

impl XdpSocket {
    /// Takes what has arrived, [`RECEIVE_MAX`] datagrams at most, without copying; nothing when there is
    /// nothing. Their memory goes back to the kernel with the next call.
    ///
    /// # Errors
    /// The interface is gone: the socket will receive nothing more. A thread that spins is told within about
    /// a million looks, one that blocks by [`XdpSocket::service`].
    #[inline]
    pub fn receive(&mut self) -> io::Result<XdpReceived<'_>> {
        if !self.held.is_empty() {
            self.give_back();
        }
        let Some(first) = self.received.pop() else {
            self.look_again()?;
            return Ok(XdpReceived { umem: &self.umem, slots: &[], is_full: false });
        };
        self.take_from(first);
        let is_full = self.held.len() == RECEIVE_MAX;
        Ok(XdpReceived { umem: &self.umem, slots: &self.slots, is_full })
    }

    /// Takes a frame and those behind it.
    fn take_from(&mut self, first: libc::xdp_desc) {
        self.slots.clear();
        let mut next = Some(first);
        while let Some(descriptor) = next {
            self.held.push(self.umem.frame_of(descriptor.addr));
            self.take(descriptor);
            next = if self.held.len() < RECEIVE_MAX { self.received.pop() } else { None };
        }
        self.received.release();
        self.watch.empty_looks = 0;
    }

    /// Reads a frame; it is counted, whatever comes of it.
    #[inline]
    fn take(&mut self, descriptor: libc::xdp_desc) {
        let bytes = self.umem.bytes(descriptor.addr, descriptor.len as usize);
        let parsed = match frame::parse(bytes, self.verify) {
            Ok(parsed) => parsed,
            Err(FrameError::UdpChecksum | FrameError::IpChecksum) => {
                return self.counters.checksum_errors.inc();
            }
            Err(_) => return self.counters.frames_malformed.inc(),
        };
        if parsed.checksum == Checksum::Unfinished {
            self.counters.checksums_unfinished.inc();
        }
        self.counters.datagrams_received.inc();
        let at = descriptor.addr + (parsed.payload.as_ptr() as usize - bytes.as_ptr() as usize) as u64;
        self.slots.push(Slot { from: parsed.from, to: parsed.to, at, len: parsed.payload.len() });
    }

    fn give_back(&mut self) {
        for at in self.held.drain(..) {
            // The ring has room for every frame.
            self.fill.push(at);
        }
        self.fill.publish();
    }

    /// There was nothing: whatever has to be done for something to come, or to go.
    #[inline]
    fn look_again(&mut self) -> io::Result<()> {
        if self.unsent {
            self.kick()?;
        }
        if self.busy_poll || self.fill.needs_wakeup() {
            self.wake_receive();
        }
        self.watch.empty_looks += 1;
        if self.watch.empty_looks >= EMPTY_LOOKS_MAX {
            self.watch.empty_looks = 0;
            self.look_for_interface()?;
        }
        Ok(())
    }

    /// Lets the driver look at the ring, or at its device. What is wrong shows elsewhere.
    fn wake_receive(&self) {
        // SAFETY: nothing is handed over: the call has no room for bytes nor for an address.
        unsafe {
            libc::recvfrom(
                self.fd.as_raw_fd(),
                std::ptr::null_mut(),
                0,
                libc::MSG_DONTWAIT,
                std::ptr::null_mut(),
                std::ptr::null_mut(),
            )
        };
    }
}

//! Frames from one queue to another with nothing done to them: what a use of AF_XDP is measured against.

use std::io;
use std::net::SocketAddrV4;
use std::os::fd::OwnedFd;

use super::XdpOptions;
use super::frame::{Ends, HEADERS_LEN, Headers, MacAddress};
use super::memory::{FromKernel, ToKernel, Umem};
use super::open::{Parts, Rings};
use super::program::{Program, Takes};
use super::send::{Woken, wake};

/// Sends one frame, made beforehand, again and again, and takes every frame of the same length that comes to
/// its queue for the other end's, without looking at its headers. For measurements: nothing that the interface
/// receives reaches the kernel's network stack.
#[derive(Debug)]
pub struct BareSocket {
    // Dropped from here on: first what the kernel sees, then the memory it uses.
    _program: Program,
    fd: OwnedFd,
    fill: ToKernel<u64>,
    transmit: ToKernel<libc::xdp_desc>,
    received: FromKernel<libc::xdp_desc>,
    completed: FromKernel<u64>,
    umem: Umem,
    frame: libc::xdp_desc,
}

impl BareSocket {
    /// Opens the queue of an interface. The frame is a datagram to a group, without UDP checksum.
    ///
    /// # Errors
    /// As [`XdpSocket::open`](super::XdpSocket::open); `to` is no group, or the datagram fits no frame.
    pub fn open(options: &XdpOptions, to: SocketAddrV4, payload: &[u8]) -> io::Result<BareSocket> {
        let frame_len = HEADERS_LEN + payload.len();
        if !to.ip().is_multicast() || frame_len > options.frame_bytes as usize {
            let said = format!("{to} is no group, or {} bytes fit no frame", payload.len());
            return Err(io::Error::new(io::ErrorKind::InvalidInput, said));
        }
        let Parts { link, program, fd, mut umem, rings, .. } = Parts::open(options, Takes::Everything)?;
        let Rings { fill, transmit, received, completed } = rings;
        let at = options.frames_to_send().next().unwrap_or_default();
        let from = SocketAddrV4::new(options.interface, to.port());
        let destination = MacAddress::of_group(*to.ip());
        let ends = Ends { source: link.mac, destination, from, to, ttl: options.ttl };
        let frame = umem.bytes_mut(at, frame_len);
        frame[HEADERS_LEN..].copy_from_slice(payload);
        Headers::new(&ends, false).write(frame);
        let frame = libc::xdp_desc { addr: at, len: frame_len as u32, options: 0 };
        Ok(BareSocket { _program: program, fd, fill, transmit, received, completed, umem, frame })
    }

    /// Sends the frame once; `false` if there is no room at present.
    ///
    /// # Errors
    /// The interface is down or gone.
    #[inline]
    pub fn send(&mut self) -> io::Result<bool> {
        let has_room = self.transmit.push(self.frame);
        self.transmit.publish();
        while self.transmit.needs_wakeup() && wake(&self.fd)? == Woken::TookItsShare {}
        while self.completed.pop().is_some() {}
        self.completed.release();
        Ok(has_room)
    }

    /// Takes the frames that have come, and hands over the payloads of those that are as long as what is sent
    /// here; how many. Others are what kernels tell each other (IGMP, ARP).
    #[inline]
    pub fn receive(&mut self, mut take: impl FnMut(&[u8])) -> usize {
        let (mut count, mut has_frames) = (0, false);
        while let Some(descriptor) = self.received.pop() {
            has_frames = true;
            if descriptor.len == self.frame.len {
                take(&self.umem.bytes(descriptor.addr, descriptor.len as usize)[HEADERS_LEN..]);
                count += 1;
            }
            self.fill.push(self.umem.frame_of(descriptor.addr));
        }
        if has_frames {
            self.received.release();
            self.fill.publish();
        }
        count
    }
}

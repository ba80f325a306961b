//! Contenders for one message to and fro between two threads of one process, each as bare as it can be.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddrV4, TcpListener, TcpStream, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64};

use socket2::{Domain, Protocol, Socket, Type};

/// One end. Both spin.
pub(super) trait Channel: Send {
    fn send(&mut self, message: &[u8]) -> io::Result<()>;
    /// Waits for a message as long as the given one; `false` when it was told to stop.
    fn receive(&mut self, into: &mut [u8], stop: &AtomicBool) -> io::Result<bool>;
}

/// Repeats what the kernel has no room or nothing for.
fn spin(stop: &AtomicBool, mut attempt: impl FnMut() -> io::Result<usize>) -> io::Result<Option<usize>> {
    while !stop.load(Relaxed) {
        match attempt() {
            Ok(count) => return Ok(Some(count)),
            Err(e) if e.kind() == ErrorKind::WouldBlock => super::pause(),
            Err(e) => return Err(e),
        }
    }
    Ok(None)
}

/// A send is never stopped: the other end takes what comes.
static NEVER: AtomicBool = AtomicBool::new(false);

/// Connected to the other one.
pub(super) struct Udp {
    out: UdpSocket,
    into: UdpSocket,
}

impl Udp {
    pub(super) fn pair() -> io::Result<(Udp, Udp)> {
        let bound = || UdpSocket::bind((Ipv4Addr::LOCALHOST, 0));
        let (near, far) = (bound()?, bound()?);
        near.connect(far.local_addr()?)?;
        far.connect(near.local_addr()?)?;
        near.set_nonblocking(true)?;
        far.set_nonblocking(true)?;
        let end = |socket: UdpSocket| Ok::<_, io::Error>(Udp { out: socket.try_clone()?, into: socket });
        Ok((end(near)?, end(far)?))
    }

    /// Each sends to a group of the other.
    pub(super) fn multicast_pair(port: u16) -> io::Result<(Udp, Udp)> {
        let groups = [1, 2].map(|n| SocketAddrV4::new(Ipv4Addr::new(239, 77, 1, n), port));
        let end = |own: SocketAddrV4, other: SocketAddrV4| {
            let into = Socket::new(Domain::IPV4, Type::DGRAM, Some(Protocol::UDP))?;
            into.set_reuse_address(true)?;
            into.bind(&own.into())?;
            into.join_multicast_v4(own.ip(), &Ipv4Addr::LOCALHOST)?;
            into.set_nonblocking(true)?;
            let out = Socket::new(Domain::IPV4, Type::DGRAM, Some(Protocol::UDP))?;
            out.set_multicast_if_v4(&Ipv4Addr::LOCALHOST)?;
            out.set_multicast_ttl_v4(0)?;
            out.connect(&other.into())?;
            out.set_nonblocking(true)?;
            Ok::<_, io::Error>(Udp { out: out.into(), into: into.into() })
        };
        Ok((end(groups[0], groups[1])?, end(groups[1], groups[0])?))
    }
}

impl Channel for Udp {
    fn send(&mut self, message: &[u8]) -> io::Result<()> {
        spin(&NEVER, || self.out.send(message)).map(drop)
    }

    fn receive(&mut self, into: &mut [u8], stop: &AtomicBool) -> io::Result<bool> {
        Ok(spin(stop, || self.into.recv(into))?.is_some())
    }
}

pub(super) struct Tcp(TcpStream);

impl Tcp {
    pub(super) fn pair() -> io::Result<(Tcp, Tcp)> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let near = TcpStream::connect(listener.local_addr()?)?;
        let (far, _) = listener.accept()?;
        let end = |stream: TcpStream| {
            stream.set_nodelay(true)?;
            stream.set_nonblocking(true)?;
            Ok::<_, io::Error>(Tcp(stream))
        };
        Ok((end(near)?, end(far)?))
    }

    pub(super) fn write(&mut self, bytes: &[u8], stop: &AtomicBool) -> io::Result<Option<usize>> {
        spin(stop, || self.0.write(bytes))
    }

    pub(super) fn read(&mut self, into: &mut [u8], stop: &AtomicBool) -> io::Result<Option<usize>> {
        spin(stop, || self.0.read(into))
    }
}

impl Channel for Tcp {
    fn send(&mut self, mut message: &[u8]) -> io::Result<()> {
        while let Some(count @ 1..) = self.write(message, &NEVER)? {
            message = &message[count..];
        }
        Ok(())
    }

    fn receive(&mut self, into: &mut [u8], stop: &AtomicBool) -> io::Result<bool> {
        let mut have = 0;
        while have < into.len() {
            match self.read(&mut into[have..], stop)? {
                Some(count @ 1..) => have += count,
                _ => return Ok(false),
            }
        }
        Ok(true)
    }
}

/// A flag that only one side writes, on cache lines of its own as its neighbour may be fetched with it.
#[repr(align(128))]
struct Flag(AtomicU32);

/// A cache line of a message.
#[derive(Default)]
#[repr(align(64))]
struct CacheLine([AtomicU64; 8]);

/// A flag and the message that it announces.
struct Slot {
    flag: Flag,
    lines: Box<[CacheLine]>,
}

impl Slot {
    fn words(&self) -> impl Iterator<Item = &AtomicU64> {
        self.lines.iter().flat_map(|line| &line.0)
    }
}

/// Shared memory: a number in a flag says that there is a message.
pub(super) struct Flags {
    out: Arc<Slot>,
    into: Arc<Slot>,
    sent: u32,
    received: u32,
}

impl Flags {
    pub(super) fn pair(bytes: usize) -> (Flags, Flags) {
        let slot = || {
            let lines = (0..bytes.div_ceil(64)).map(|_| CacheLine::default()).collect();
            Arc::new(Slot { flag: Flag(AtomicU32::new(0)), lines })
        };
        let (there, back) = (slot(), slot());
        let end = |out: &Arc<Slot>, into: &Arc<Slot>| Flags {
            out: out.clone(),
            into: into.clone(),
            sent: 0,
            received: 0,
        };
        (end(&there, &back), end(&back, &there))
    }
}

impl Channel for Flags {
    fn send(&mut self, message: &[u8]) -> io::Result<()> {
        for (word, bytes) in self.out.words().zip(message.chunks(8)) {
            let value = bytes.first_chunk().map_or(0, |b| u64::from_ne_bytes(*b));
            word.store(value, Relaxed);
        }
        self.sent = self.sent.wrapping_add(1);
        self.out.flag.0.store(self.sent, Release);
        Ok(())
    }

    fn receive(&mut self, into: &mut [u8], stop: &AtomicBool) -> io::Result<bool> {
        self.received = self.received.wrapping_add(1);
        while self.into.flag.0.load(Acquire) != self.received {
            if stop.load(Relaxed) {
                return Ok(false);
            }
            super::pause();
        }
        for (word, bytes) in self.into.words().zip(into.chunks_mut(8)) {
            let value = word.load(Relaxed).to_ne_bytes();
            bytes.copy_from_slice(&value[..bytes.len()]);
        }
        Ok(true)
    }
}

/// Shared memory for long messages: a ring in each direction, where a message is copied as a whole.
pub(super) struct Rings {
    out: net::ring::Producer,
    into: net::ring::Consumer,
}

impl Rings {
    pub(super) fn pair(ring_bytes: usize) -> (Rings, Rings) {
        let ((out, far_into), (far_out, into)) = (net::ring::ring(ring_bytes), net::ring::ring(ring_bytes));
        (Rings { out, into }, Rings { out: far_out, into: far_into })
    }
}

impl Channel for Rings {
    fn send(&mut self, message: &[u8]) -> io::Result<()> {
        // Never more than one message is on its way.
        self.out.push(&[message]).map_err(|_| io::Error::other("the ring has no room for a message"))?;
        self.out.publish();
        Ok(())
    }

    fn receive(&mut self, into: &mut [u8], stop: &AtomicBool) -> io::Result<bool> {
        while !stop.load(Relaxed) {
            let count = self.into.drain(1, |message| into.copy_from_slice(message));
            if count > 0 {
                return Ok(true);
            }
            super::pause();
        }
        Ok(false)
    }
}

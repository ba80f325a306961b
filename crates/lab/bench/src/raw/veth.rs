//! An end of a bare path between two hosts: frames by AF_XDP, made beforehand and without a look at their
//! headers, or datagrams through the kernel. Each end is a process, driven by the loops that drive ours.

use std::io::{self, ErrorKind};
use std::net::{Ipv4Addr, SocketAddrV4, UdpSocket};

use measure::ends::{End, Failure, Link, answer, play};
use net::xdp::{BareSocket, XdpMode, XdpOptions};
use serde_json::json;
use socket2::{Domain, Protocol, Socket, Type};
use testkit::hosts::{FAR, NEAR};

use crate::BenchError;

/// Plays the end that the words describe.
pub(crate) fn run(words: &[String]) -> Result<(), BenchError> {
    let end = End::parse(words)?;
    net::affinity::pin_to_cpu(end.cpu)?;
    if end.mode == super::AF_XDP {
        let mut link = Frames::open(&end)?;
        answer(&json!({ "ready": true }));
        return Ok(play(&end, std::slice::from_mut(&mut link))?);
    }
    let mut link = Datagrams::open(&end)?;
    answer(&json!({ "ready": true }));
    Ok(play(&end, std::slice::from_mut(&mut link))?)
}

/// The address of an end, and of the other.
fn addresses(end: &End) -> [Ipv4Addr; 2] {
    if end.is_far() { [FAR, NEAR] } else { [NEAR, FAR] }
}

struct Frames(BareSocket);

impl Frames {
    fn open(end: &End) -> io::Result<Frames> {
        let [own, _] = addresses(end);
        let options = XdpOptions { mode: XdpMode::Generic, ttl: 1, ..XdpOptions::on(own) };
        let group = SocketAddrV4::new(Ipv4Addr::new(239, 77, 3, 1), end.port);
        Ok(Frames(BareSocket::open(&options, group, &vec![7; end.size])?))
    }
}

impl Link for Frames {
    #[inline]
    fn send(&mut self, _: &[u8]) -> Result<bool, Failure> {
        Ok(self.0.send()?)
    }

    #[inline]
    fn receive(&mut self, handle: impl FnMut(&[u8])) -> Result<usize, Failure> {
        Ok(self.0.receive(handle))
    }

    #[inline]
    fn turn(&mut self) -> Result<(), Failure> {
        Ok(())
    }
}

/// Of a socket.
const BUFFER_BYTES: usize = 8 << 20;

struct Datagrams {
    socket: UdpSocket,
    bytes: Vec<u8>,
}

impl Datagrams {
    fn open(end: &End) -> io::Result<Datagrams> {
        let [own, other] = if end.mode == super::ENDS {
            // The pair has both ports to itself.
            let ports = [end.port, end.port ^ 1].map(|port| SocketAddrV4::new(Ipv4Addr::LOCALHOST, port));
            if end.is_far() { ports } else { [ports[1], ports[0]] }
        } else {
            addresses(end).map(|address| SocketAddrV4::new(address, end.port))
        };
        let socket = Socket::new(Domain::IPV4, Type::DGRAM, Some(Protocol::UDP))?;
        // What the kernel grants of it holds what comes while the receiver sends something back.
        socket.set_recv_buffer_size(BUFFER_BYTES)?;
        socket.bind(&own.into())?;
        let socket: UdpSocket = socket.into();
        socket.connect(other)?;
        socket.set_nonblocking(true)?;
        Ok(Datagrams { socket, bytes: vec![0; end.datagram.max(end.size)] })
    }
}

/// Nothing if the kernel has no room, or nothing, at present.
fn done(result: io::Result<usize>) -> io::Result<Option<usize>> {
    match result {
        Ok(count) => Ok(Some(count)),
        Err(e) if e.kind() == ErrorKind::WouldBlock => Ok(None),
        Err(e) => Err(e),
    }
}

impl Link for Datagrams {
    #[inline]
    fn send(&mut self, message: &[u8]) -> Result<bool, Failure> {
        Ok(done(self.socket.send(message))?.is_some())
    }

    #[inline]
    fn receive(&mut self, mut handle: impl FnMut(&[u8])) -> Result<usize, Failure> {
        let Some(count) = done(self.socket.recv(&mut self.bytes))? else { return Ok(0) };
        handle(&self.bytes[..count]);
        Ok(1)
    }

    #[inline]
    fn turn(&mut self) -> Result<(), Failure> {
        Ok(())
    }
}

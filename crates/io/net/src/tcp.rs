//! Non-blocking TCP with the options that market data wants.

use std::io::{self, IoSlice, Read};
use std::net::{Shutdown, SocketAddr, SocketAddrV4, TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::time::Duration;

use crate::descriptors::explain;
use rustix::net::SendFlags;
use socket2::{Domain, Protocol, SockRef, Socket, TcpKeepalive, Type};

use crate::fork::unshare;

/// What one attempt to move bytes did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moved {
    /// This many bytes, at least one.
    Bytes(usize),
    /// None: the socket is empty (or full).
    WouldBlock,
    /// The peer has closed its side.
    End,
}

/// Most connections that wait to be accepted.
const QUEUE_MAX: i32 = 4096;

/// Whether only one can listen: the ports are the same, and the addresses too, or one of them stands for all interfaces.
/// Port 0 is chosen by the kernel, and never the same.
#[must_use]
pub fn collide(one: SocketAddrV4, other: SocketAddrV4) -> bool {
    let is_same = one.ip() == other.ip() || one.ip().is_unspecified() || other.ip().is_unspecified();
    one.port() != 0 && one.port() == other.port() && is_same
}

/// Listens on an address, with `SO_REUSEADDR`, non-blocking.
///
/// # Errors
/// The address is in use or not one of this host; the error names it.
pub fn listen(address: SocketAddrV4) -> io::Result<TcpListener> {
    listen_with(address, QUEUE_MAX)
}

/// The same with another length of the queue of connections that wait to be accepted.
///
/// # Errors
/// As [`listen`].
pub fn listen_with(address: SocketAddrV4, queue_max: i32) -> io::Result<TcpListener> {
    let attempt = || {
        let socket = unshare(Socket::new(Domain::IPV4, Type::STREAM, Some(Protocol::TCP))?);
        socket.set_reuse_address(true)?;
        socket.bind(&SocketAddr::V4(address).into())?;
        socket.listen(queue_max)?;
        socket.set_nonblocking(true)?;
        Ok(TcpListener::from(socket))
    };
    attempt().map_err(|e: io::Error| explain(e, format!("listen on {address}")))
}

/// Stops listening: who connects from now on is refused, who waits to be accepted gets a reset. A port that was asked for
/// stays this socket's until it is closed; the system takes back one that it has chosen itself. A poller would report the socket as broken without end, so it must have been taken out.
///
/// # Errors
/// None in practice.
pub fn stop_listening(listener: &TcpListener) -> io::Result<()> {
    SockRef::from(listener).shutdown(Shutdown::Read)
}

/// Listens again after [`stop_listening`], on the address that it had; with another socket if the system has taken its
/// port back.
///
/// # Errors
/// Another socket listens on the port by now; the error names it.
pub fn listen_again(listener: &mut TcpListener, address: SocketAddrV4) -> io::Result<()> {
    let again = SockRef::from(&*listener).listen(QUEUE_MAX);
    again.map_err(|e| explain(e, format!("listen on {address} again")))?;
    // Only now the socket says that it has lost its port: it has got another one.
    if listener.local_addr()?.port() != address.port() {
        *listener = listen(address)?;
    }
    Ok(())
}

/// Takes the next waiting connection, non-blocking and without Nagle; `None` when there is none.
///
/// # Errors
/// The process is out of descriptors or memory. Connections that died while they waited are skipped.
pub fn accept(listener: &TcpListener) -> io::Result<Option<(TcpStream, SocketAddr)>> {
    loop {
        match listener.accept() {
            Ok((stream, peer)) => {
                let stream = unshare(stream);
                stream.set_nonblocking(true)?;
                stream.set_nodelay(true)?;
                return Ok(Some((stream, peer)));
            }
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(None),
            Err(e) if matches!(e.kind(), io::ErrorKind::ConnectionAborted | io::ErrorKind::Interrupted) => {}
            Err(e) => return Err(e),
        }
    }
}

/// Lets the kernel break a connection whose peer has vanished without a word: one that answers nothing for
/// `timeout`, whether or not there is anything to say to it (`SO_KEEPALIVE`), and one that takes nothing of
/// what waits for it for as long (`TCP_USER_TIMEOUT`). The kernel counts in seconds, from
/// two to 32,000.
///
/// # Errors
/// The kernel refuses.
pub fn set_activity_timeout(stream: &TcpStream, timeout: Duration) -> io::Result<()> {
    let seconds = timeout.as_secs().clamp(2, ACTIVITY_SECONDS_MAX);
    let interval = (seconds / 8).max(1);
    let probes = seconds / 2 / interval;
    let keepalive = TcpKeepalive::new()
        .with_time(Duration::from_secs(seconds - probes * interval))
        .with_interval(Duration::from_secs(interval))
        .with_retries(probes as u32);
    let socket = SockRef::from(stream);
    socket.set_tcp_keepalive(&keepalive)?;
    socket.set_tcp_user_timeout(Some(Duration::from_secs(seconds)))
}

/// Lets the kernel break a connection whose peer acknowledges nothing of what was sent to it for so long, by the
/// millisecond (`TCP_USER_TIMEOUT`). To be called behind [`set_activity_timeout`], which sets it too.
///
/// # Errors
/// The kernel refuses.
pub fn set_unacknowledged_timeout(stream: &TcpStream, timeout: Duration) -> io::Result<()> {
    // Zero would be the kernel's own, of many minutes.
    SockRef::from(stream).set_tcp_user_timeout(Some(timeout.max(Duration::from_millis(1))))
}

/// Has the kernel acknowledge what comes with what is sent, every second full segment, or within 40 ms
/// (`TCP_QUICKACK` off), as it does by itself once both sides speak in turn. On a connection on which one side speaks
/// it acknowledges each segment by itself, and a message waits for the acknowledgement to be built.
///
/// # Errors
/// The kernel refuses.
pub fn delay_acknowledgements(stream: &TcpStream) -> io::Result<()> {
    SockRef::from(stream).set_tcp_quickack(false)
}

/// Bounds what the socket takes of bytes that cannot be sent yet, by about so many (`TCP_NOTSENT_LOWAT`). Without a
/// bound it takes what its buffer holds, which is some MiB by default.
///
/// # Errors
/// The kernel refuses.
pub fn set_unsent_limit(stream: &TcpStream, bytes: u32) -> io::Result<()> {
    SockRef::from(stream).set_tcp_notsent_lowat(bytes)
}

/// The kernel takes no longer times of keep-alive than 32,767 seconds.
const ACTIVITY_SECONDS_MAX: u64 = 32_000;

/// Begins to connect; the stream becomes writable when the attempt has ended, and [`connected`] says how.
///
/// # Errors
/// The attempt failed at once; the error names the address.
pub fn connect(address: SocketAddr) -> io::Result<TcpStream> {
    let attempt = || {
        let socket = unshare(Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?);
        socket.set_nonblocking(true)?;
        socket.set_tcp_nodelay(true)?;
        match socket.connect(&address.into()) {
            Ok(()) => {}
            Err(e) if e.raw_os_error() == Some(libc::EINPROGRESS) => {}
            Err(e) => return Err(e),
        }
        Ok(TcpStream::from(socket))
    };
    attempt().map_err(|e: io::Error| explain(e, format!("connect to {address}")))
}

/// Whether a stream of [`connect`] is established by now (`false`: still under way).
///
/// # Errors
/// The attempt has failed.
pub fn connected(stream: &TcpStream) -> io::Result<bool> {
    if let Some(e) = stream.take_error()? {
        return Err(e);
    }
    match stream.peer_addr() {
        Ok(_) => Ok(true),
        Err(e) if e.kind() == io::ErrorKind::NotConnected => Ok(false),
        Err(e) => Err(e),
    }
}

/// Reads once.
///
/// # Errors
/// The connection is broken.
pub fn read(mut stream: &TcpStream, into: &mut [u8]) -> io::Result<Moved> {
    outcome(stream.read(into))
}

/// Writes once. A peer that is gone is an error, never SIGPIPE.
///
/// # Errors
/// The connection is broken.
pub fn write(stream: &TcpStream, bytes: &[u8]) -> io::Result<Moved> {
    outcome(rustix::net::send(stream, bytes, SendFlags::NOSIGNAL).map_err(io::Error::from))
}

/// Writes `parts`, one behind the other, once; how many bytes the socket took.
pub(crate) fn write_gathered(stream: &TcpStream, parts: &[IoSlice<'_>]) -> io::Result<usize> {
    SockRef::from(stream).send_vectored_with_flags(parts, libc::MSG_NOSIGNAL)
}

/// What was written and the peer's kernel has not acknowledged yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unacknowledged {
    /// Bytes of it.
    pub bytes: usize,
    /// Those that are under way: the rest waits in this kernel, for what is under way or for a peer that has no
    /// room.
    pub under_way: usize,
}

/// Looks up what has not arrived at the peer's kernel, as far as this one knows.
///
/// # Errors
/// The kernel refuses.
pub fn unacknowledged(stream: &TcpStream) -> io::Result<Unacknowledged> {
    let ask = |request| {
        let mut bytes: libc::c_int = 0;
        // SAFETY: the descriptor is open as long as `stream` is borrowed, and both requests write one int, for
        // which `bytes` is the room.
        let result = unsafe { libc::ioctl(stream.as_raw_fd(), request, &raw mut bytes) };
        if result == 0 { Ok(usize::try_from(bytes).unwrap_or(0)) } else { Err(io::Error::last_os_error()) }
    };
    // In this order: what is sent in between counts as under way.
    let (bytes, waiting) = (ask(libc::TIOCOUTQ)?, ask(SIOCOUTQNSD)?);
    Ok(Unacknowledged { bytes, under_way: bytes.saturating_sub(waiting) })
}

/// Bytes of a TCP socket that were not sent yet: `linux/sockios.h`.
const SIOCOUTQNSD: libc::c_ulong = 0x894b;

/// Has what waits to be sent thrown away when the stream is closed, which resets the connection.
///
/// # Errors
/// The kernel refuses.
pub fn reset_on_close(stream: &TcpStream) -> io::Result<()> {
    SockRef::from(stream).set_linger(Some(Duration::ZERO))
}

fn outcome(result: io::Result<usize>) -> io::Result<Moved> {
    match result {
        Ok(0) => Ok(Moved::End),
        Ok(n) => Ok(Moved::Bytes(n)),
        Err(e) if matches!(e.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {
            Ok(Moved::WouldBlock)
        }
        Err(e) => Err(e),
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;
    use crate::{Interest, Poller, Token};

    #[test]
    fn bytes_cross_and_the_end_is_seen() {
        let listener = listen(SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0)).unwrap();
        assert!(accept(&listener).unwrap().is_none());
        let client = connect(listener.local_addr().unwrap()).unwrap();
        let mut poller = Poller::new().unwrap();
        poller.registrar().add(&listener, Token(1), Interest::Read).unwrap();
        poller.registrar().add(&client, Token(2), Interest::ReadWrite).unwrap();
        let mut server = None;
        while server.is_none() {
            poller.wait(None).unwrap().for_each(drop);
            server = accept(&listener).unwrap();
        }
        let (server, peer) = server.unwrap();
        assert!(connected(&client).unwrap());
        assert_eq!(peer, client.local_addr().unwrap());
        let mut buffer = [0; 16];
        assert_eq!(read(&server, &mut buffer).unwrap(), Moved::WouldBlock);
        assert_eq!(write(&client, b"abc").unwrap(), Moved::Bytes(3));
        poller.registrar().add(&server, Token(3), Interest::Read).unwrap();
        while !poller.wait(None).unwrap().any(|r| r.token == Token(3)) {}
        assert_eq!(read(&server, &mut buffer).unwrap(), Moved::Bytes(3));
        while unacknowledged(&client).unwrap().bytes > 0 {}
        drop(client);
        while !poller.wait(None).unwrap().any(|r| r.token == Token(3)) {}
        assert_eq!(read(&server, &mut buffer).unwrap(), Moved::End);
        drop(server);
        // Nobody takes what does not fit the peer's buffer.
        let client = connect(listener.local_addr().unwrap()).unwrap();
        while !connected(&client).unwrap() {}
        while write(&client, &[7; 65_536]).unwrap() != Moved::WouldBlock {}
        let waits = loop {
            let now = unacknowledged(&client).unwrap();
            if now.under_way == 0 {
                break now;
            }
        };
        assert!(waits.bytes > 0, "it waits for room");
        let (server, _) = accept(&listener).unwrap().unwrap();
        reset_on_close(&client).unwrap();
        drop(client);
        let end = loop {
            match read(&server, &mut [0; 65_536]) {
                Ok(Moved::Bytes(_) | Moved::WouldBlock) => {}
                other => break other,
            }
        };
        assert_eq!(end.unwrap_err().kind(), io::ErrorKind::ConnectionReset);
    }

    fn local_v4(listener: &TcpListener) -> SocketAddrV4 {
        let SocketAddr::V4(address) = listener.local_addr().unwrap() else { unreachable!("bound to IPv4") };
        address
    }

    #[test]
    fn a_listener_that_has_stopped_refuses_and_can_listen_again() {
        let chosen_by_system = listen(SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = local_v4(&chosen_by_system);
        let connects = || TcpStream::connect(address).map(drop).map_err(|e| e.kind());
        let stop_and_go = |mut listener: TcpListener| {
            assert_eq!(connects(), Ok(()));
            while accept(&listener).unwrap().is_some() {}
            stop_listening(&listener).unwrap();
            assert_eq!(connects(), Err(io::ErrorKind::ConnectionRefused));
            listen_again(&mut listener, address).unwrap();
            assert_eq!((connects(), local_v4(&listener)), (Ok(()), address));
            listener
        };
        drop(stop_and_go(chosen_by_system));
        let mut listener = stop_and_go(listen(address).unwrap());
        stop_listening(&listener).unwrap();
        assert_eq!(local_v4(&listener), address, "the port stays this socket's");
        // Its successor takes over; then it is refused, with the address.
        let successor = listen(address).unwrap();
        let error = listen_again(&mut listener, address).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::AddrInUse);
        assert!(error.to_string().contains(&address.to_string()), "{error}");
        drop(successor);
        stop_and_go({
            listen_again(&mut listener, address).unwrap();
            listener
        });
    }

    /// How much a socket takes for a peer that does not read.
    fn taken(unsent_limit: Option<u32>) -> usize {
        let listener = listen(SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0)).unwrap();
        let stream = connect(listener.local_addr().unwrap()).unwrap();
        while !connected(&stream).unwrap() {}
        unsent_limit.into_iter().for_each(|bytes| set_unsent_limit(&stream, bytes).unwrap());
        let mut taken = 0;
        loop {
            match write(&stream, &[7; 1_024]).unwrap() {
                Moved::Bytes(count) => taken += count,
                // What is under way gives room.
                _ if unacknowledged(&stream).unwrap().under_way > 0 => {}
                _ => return taken,
            }
        }
    }

    #[test]
    fn a_socket_with_a_limit_takes_little_that_cannot_be_sent() {
        let (all, limited) = (taken(None), taken(Some(16_384)));
        assert!(limited < all / 2, "{limited} of {all}");
    }

    #[test]
    fn the_times_of_keep_alive_add_up_to_the_timeout() {
        let listener = listen(SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0)).unwrap();
        let stream = connect(listener.local_addr().unwrap()).unwrap();
        let socket = SockRef::from(&stream);
        assert!(!socket.keepalive().unwrap());
        for (timeout_ms, idle, interval, probes) in [(1, 1, 1, 1), (3_000, 2, 1, 1), (60_000, 32, 7, 4)] {
            set_activity_timeout(&stream, Duration::from_millis(timeout_ms)).unwrap();
            let seconds = Duration::from_secs;
            assert!(socket.keepalive().unwrap());
            assert_eq!(socket.tcp_keepalive_time().unwrap(), seconds(idle), "{timeout_ms}");
            assert_eq!(socket.tcp_keepalive_interval().unwrap(), seconds(interval), "{timeout_ms}");
            assert_eq!(socket.tcp_keepalive_retries().unwrap(), probes, "{timeout_ms}");
            let whole = seconds(idle + interval * u64::from(probes));
            assert_eq!(socket.tcp_user_timeout().unwrap(), Some(whole));
        }
        set_activity_timeout(&stream, Duration::MAX).expect("as long as the kernel counts");
        assert_eq!(socket.tcp_user_timeout().unwrap(), Some(Duration::from_secs(32_000)));
        let times = socket.tcp_keepalive_time().unwrap();
        for (timeout, counts) in [(Duration::ZERO, 1), (Duration::from_micros(800_000), 800)] {
            set_unacknowledged_timeout(&stream, timeout).unwrap();
            assert_eq!(socket.tcp_user_timeout().unwrap(), Some(Duration::from_millis(counts)));
        }
        assert_eq!(socket.tcp_keepalive_time().unwrap(), times, "of a connection that is idle");
    }

    #[test]
    fn an_address_in_use_is_named() {
        let first = listen(SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0)).unwrap();
        let SocketAddr::V4(taken) = first.local_addr().unwrap() else { unreachable!("bound to IPv4") };
        let error = listen(taken).unwrap_err();
        assert!(error.to_string().contains(&taken.to_string()), "{error}");
    }
}

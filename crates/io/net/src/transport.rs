use std::io;
use std::net::{Shutdown, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};

use crate::tcp::{self, Moved};
use crate::tls::TlsStream;

/// A TCP connection, plain or encrypted: non-blocking, read and written with [`Moved`].
///
/// An encrypted one differs in what it waits for, which the methods hide: its input may be inside already
/// ([`may_hold_input`](Transport::may_hold_input)), its output may be inside still
/// ([`holds_output`](Transport::holds_output)). Whoever waits for a transport
///
/// - waits for input always, and for room if [`waits_for_room`](Transport::waits_for_room);
/// - when there is room, calls [`write`](Transport::write) with what is left to write, or
///   [`flush`](Transport::flush) if nothing is;
/// - when there is input, calls [`read`](Transport::read) once, and again as long as it may hold more.
#[derive(Debug)]
pub enum Transport {
    /// Plain TCP.
    Plain(TcpStream),
    /// TLS; made by [`ServerTls::accept`](crate::tls::ServerTls::accept) or
    /// [`ClientTls::connect`](crate::tls::ClientTls::connect).
    Tls(Box<TlsStream>),
}

impl Transport {
    /// Reads once. The handshake of an encrypted connection goes on in here.
    ///
    /// # Errors
    /// The connection is broken. [`io::ErrorKind::InvalidData`]: the peer's TLS is not acceptable, and the
    /// error says why.
    #[inline]
    pub fn read(&mut self, into: &mut [u8]) -> io::Result<Moved> {
        match self {
            Transport::Plain(socket) => tcp::read(socket, into),
            Transport::Tls(stream) => stream.read(into),
        }
    }

    /// Writes once. What an encrypted connection has taken is on its way, though its last bytes may wait
    /// inside for the socket.
    ///
    /// # Errors
    /// The connection is broken.
    #[inline]
    pub fn write(&mut self, bytes: &[u8]) -> io::Result<Moved> {
        match self {
            Transport::Plain(socket) => tcp::write(socket, bytes),
            Transport::Tls(stream) => stream.write(bytes),
        }
    }

    /// Writes what waits inside for the socket; tells whether that is all.
    ///
    /// # Errors
    /// The connection is broken.
    #[inline]
    pub fn flush(&mut self) -> io::Result<bool> {
        match self {
            Transport::Plain(_) => Ok(true),
            Transport::Tls(stream) => stream.flush(),
        }
    }

    /// Ends what this side sends, behind all that was written: the peer reads its end, and can go on to send. `false`:
    /// what waits inside for the socket comes first, to be tried again when there is room.
    ///
    /// # Errors
    /// The connection is broken.
    pub fn end_output(&mut self) -> io::Result<bool> {
        if let Transport::Tls(stream) = self
            && !stream.end_output()?
        {
            return Ok(false);
        }
        self.socket().shutdown(Shutdown::Write)?;
        Ok(true)
    }

    /// Whether the last read has left input inside that no poller will tell of.
    #[inline]
    #[must_use]
    pub fn may_hold_input(&self) -> bool {
        match self {
            Transport::Plain(_) => false,
            Transport::Tls(stream) => stream.may_hold_input(),
        }
    }

    /// Whether output waits inside for the socket.
    #[inline]
    #[must_use]
    pub fn holds_output(&self) -> bool {
        match self {
            Transport::Plain(_) => false,
            Transport::Tls(stream) => stream.holds_output(),
        }
    }

    /// Whether to wait for room in the socket, given that the caller has something left to write or not. In a
    /// TLS handshake the peer's answer comes before room.
    #[inline]
    #[must_use]
    pub fn waits_for_room(&self, has_pending: bool) -> bool {
        match self {
            Transport::Plain(_) => has_pending,
            Transport::Tls(stream) if stream.is_handshaking() => stream.holds_output(),
            Transport::Tls(stream) => has_pending || stream.holds_output(),
        }
    }

    /// Brings a TLS handshake on as far as the socket goes, for who wants to read nothing before it is over;
    /// tells whether it is. A plain connection has none. Afterwards the transport may hold input.
    ///
    /// # Errors
    /// The connection is broken, or the peer has ended it; as [`read`](Transport::read).
    pub fn shake_hands(&mut self) -> io::Result<bool> {
        match self {
            Transport::Plain(_) => Ok(true),
            Transport::Tls(stream) => stream.shake_hands(),
        }
    }

    /// Whether a TLS handshake is under way.
    #[must_use]
    pub fn is_handshaking(&self) -> bool {
        match self {
            Transport::Plain(_) => false,
            Transport::Tls(stream) => stream.is_handshaking(),
        }
    }

    /// `TLS 1.2` or `TLS 1.3` of an encrypted connection whose handshake has come so far.
    #[must_use]
    pub fn tls_version(&self) -> Option<&'static str> {
        match self {
            Transport::Plain(_) => None,
            Transport::Tls(stream) => stream.version(),
        }
    }

    /// Whether the peer of an encrypted connection has shown a certificate, which was good then.
    #[must_use]
    pub fn has_peer_certificate(&self) -> bool {
        match self {
            Transport::Plain(_) => false,
            Transport::Tls(stream) => stream.peer_certificate().is_some(),
        }
    }

    /// The socket, for its options and addresses.
    #[must_use]
    pub fn socket(&self) -> &TcpStream {
        match self {
            Transport::Plain(socket) => socket,
            Transport::Tls(stream) => stream.socket(),
        }
    }
}

impl AsFd for Transport {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket().as_fd()
    }
}

use std::fmt;
use std::io::{self, ErrorKind, IoSlice, Read, Write};
use std::net::TcpStream;

use rustls::{Connection, ProtocolVersion};

use crate::tcp::{self, Moved};

/// Most bytes that wait inside for the socket: of what was written in the handshake, and of records.
const BUFFER_BYTES: usize = 64 << 10;

/// A TLS session over a socket; see [`Transport`](crate::Transport).
///
/// What is written becomes records at once; as long as records wait for the socket nothing more is taken, so
/// that at most 64 KiB are on their way inside. Before the handshake is complete the same amount is taken and
/// kept. The records of each write are allocated: with encryption the cost does not show.
pub struct TlsStream {
    socket: TcpStream,
    tls: Connection,
    /// The last read has filled its buffer: there may be more that the socket knows nothing of.
    may_hold_input: bool,
    /// What ended the session, to be told after the input that came before it.
    failure: Option<io::Error>,
}

impl TlsStream {
    pub(super) fn new(socket: TcpStream, mut tls: Connection) -> TlsStream {
        tls.set_buffer_limit(Some(BUFFER_BYTES));
        TlsStream { socket, tls, may_hold_input: false, failure: None }
    }

    pub(crate) fn socket(&self) -> &TcpStream {
        &self.socket
    }

    /// Delivers what is inside, then what the socket has. After a read that has filled its buffer the next one
    /// delivers the rest alone, so that a peer that sends for ever does not keep the caller here.
    pub(crate) fn read(&mut self, into: &mut [u8]) -> io::Result<Moved> {
        if let Some(error) = self.failure.take() {
            return Err(error);
        }
        let takes_rest_alone = std::mem::take(&mut self.may_hold_input);
        let mut filled = 0;
        while filled < into.len() {
            match self.tls.reader().read(&mut into[filled..]) {
                Ok(0) => return Ok(moved(filled, Moved::End)),
                Ok(count) => filled += count,
                Err(e) if e.kind() == ErrorKind::UnexpectedEof => return Ok(moved(filled, Moved::End)),
                Err(e) if e.kind() != ErrorKind::WouldBlock => return Err(e),
                Err(_) if takes_rest_alone => return Ok(moved(filled, Moved::WouldBlock)),
                Err(_) => match self.receive() {
                    Ok(Moved::WouldBlock) => return Ok(moved(filled, Moved::WouldBlock)),
                    // The reader tells of the end of the stream.
                    Ok(_) => {}
                    Err(e) if filled == 0 => return Err(e),
                    Err(e) => {
                        self.failure = Some(e);
                        break;
                    }
                },
            }
        }
        self.may_hold_input = true;
        Ok(Moved::Bytes(filled))
    }

    pub(crate) fn write(&mut self, bytes: &[u8]) -> io::Result<Moved> {
        if !self.flush()? {
            return Ok(Moved::WouldBlock);
        }
        let taken = self.tls.writer().write(bytes)?;
        self.flush()?;
        Ok(if taken == 0 { Moved::WouldBlock } else { Moved::Bytes(taken) })
    }

    /// Writes the records that wait, as far as the socket takes them; tells whether that is all.
    pub(crate) fn flush(&mut self) -> io::Result<bool> {
        while self.tls.wants_write() {
            match self.tls.write_tls(&mut Quiet(&self.socket)) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(_) => {}
                Err(e) if is_temporary(&e) => return Ok(false),
                Err(e) => return Err(e),
            }
        }
        Ok(true)
    }

    /// Says that nothing more comes; tells whether that has left.
    pub(crate) fn end_output(&mut self) -> io::Result<bool> {
        self.tls.send_close_notify();
        self.flush()
    }

    pub(crate) fn may_hold_input(&self) -> bool {
        self.may_hold_input
    }

    pub(crate) fn holds_output(&self) -> bool {
        self.tls.wants_write()
    }

    pub(crate) fn peer_certificate(&self) -> Option<&[u8]> {
        self.tls.peer_certificates().and_then(|chain| chain.first()).map(|own| own.as_ref())
    }

    pub(crate) fn is_handshaking(&self) -> bool {
        self.tls.is_handshaking()
    }

    #[cfg(test)]
    pub(super) fn handshake_kind(&self) -> Option<rustls::HandshakeKind> {
        self.tls.handshake_kind()
    }

    pub(crate) fn version(&self) -> Option<&'static str> {
        match self.tls.protocol_version()? {
            ProtocolVersion::TLSv1_2 => Some("TLS 1.2"),
            ProtocolVersion::TLSv1_3 => Some("TLS 1.3"),
            _ => None,
        }
    }

    /// Brings the handshake on as far as the socket goes; tells whether it is over.
    pub(crate) fn shake_hands(&mut self) -> io::Result<bool> {
        self.flush()?;
        while self.tls.is_handshaking() {
            match self.receive()? {
                Moved::Bytes(_) => {}
                Moved::WouldBlock => return Ok(false),
                Moved::End => return Err(ErrorKind::UnexpectedEof.into()),
            }
        }
        // What came with the last flight is inside.
        self.may_hold_input = true;
        Ok(true)
    }

    /// Takes some bytes from the socket, if there are any, and answers what needs an answer.
    fn receive(&mut self) -> io::Result<Moved> {
        let received = match self.tls.read_tls(&mut &self.socket) {
            Ok(0) => Moved::End,
            Ok(count) => Moved::Bytes(count),
            Err(e) if is_temporary(&e) => return Ok(Moved::WouldBlock),
            Err(e) => return Err(e),
        };
        let processed = self.tls.process_new_packets();
        // The next flight of the handshake, or the alert that tells the peer what it did wrong.
        let flushed = self.flush();
        processed.map_err(|error| io::Error::new(ErrorKind::InvalidData, error))?;
        flushed.map(|_| received)
    }
}

/// The socket to write records to. That of the standard library gathers with `writev`, which ends the process by
/// SIGPIPE once the peer is gone, where the host does not ignore that: Rust's programs do, those in C do not.
struct Quiet<'a>(&'a TcpStream);

impl Write for Quiet<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.write_vectored(&[IoSlice::new(bytes)])
    }

    fn write_vectored(&mut self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        tcp::write_gathered(self.0, parts)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for TlsStream {
    /// Says goodbye if the socket has room for it, so that the peer can tell the end from a cut.
    fn drop(&mut self) {
        self.tls.send_close_notify();
        // The connection is gone whether it gets through or not.
        let _ = self.flush();
    }
}

impl fmt::Debug for TlsStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (socket, version) = (&self.socket, self.version());
        f.debug_struct("TlsStream").field("socket", socket).field("version", &version).finish_non_exhaustive()
    }
}

fn moved(filled: usize, otherwise: Moved) -> Moved {
    if filled > 0 { Moved::Bytes(filled) } else { otherwise }
}

fn is_temporary(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
}

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::ops::ControlFlow;
use std::path::Path;

use connection::{Backlog, Disconnect};
use net::tls::{TlsError, UnixSeconds};
use units::Nanos;

use crate::{ConnectionId, Entry, Outbox, Traffic};

/// What the connections of a port speak: it makes their ends and frames what they are sent.
pub trait Protocol: Sized {
    /// The server's end of one connection.
    type Endpoint: Endpoint;
    /// What a handshake has led to.
    type Session<'a>;
    /// What arrives.
    type Message<'a>;

    /// The end of a connection that was accepted at `now`.
    fn accept(&mut self, now: Nanos) -> Self::Endpoint;

    /// Takes what a socket had to read and tells the service, through `to_service`, what it brings.
    ///
    /// # Errors
    /// Why the connection is over.
    fn on_bytes<S: Service<Self>>(
        &mut self,
        now: Nanos,
        endpoint: &mut Self::Endpoint,
        bytes: &[u8],
        to_service: &mut ConnectionToService<'_, S>,
    ) -> Result<(), ReasonOf<Self>>;

    /// Appends frames of as many entries as one write takes to `frames`, about
    /// [`WRITE_BYTES`](crate::WRITE_BYTES) and at least one entry, and takes these entries off `rest`. `log`
    /// is where the entries point to.
    ///
    /// # Errors
    /// Why the connection is over.
    fn frame(
        &mut self,
        endpoint: &mut Self::Endpoint,
        log: &[u8],
        rest: &mut &[Entry],
        frames: &mut Vec<u8>,
    ) -> Result<(), ReasonOf<Self>>;

    /// The log is about to be cleared: what was remembered of it is of no use any more.
    fn on_log_cleared(&mut self) {}
}

/// Why a connection of a protocol is over.
pub type ReasonOf<P> = <<P as Protocol>::Endpoint as Endpoint>::Reason;

/// The server's end of one connection, as a state machine: what every [`Machine`](connection::Machine) is.
pub trait Endpoint {
    /// Why the connection is over.
    type Reason;

    /// The bytes that wait for the socket, in whole frames.
    fn pending(&mut self) -> &[u8];
    /// The socket has taken the first `count_bytes` of them.
    fn consume(&mut self, count_bytes: usize);
    /// Takes over frames of which the socket has taken the first `written_bytes`.
    ///
    /// # Errors
    /// The rest does not fit into the backlog.
    fn keep(&mut self, frames: &[u8], written_bytes: usize) -> Result<(), Self::Reason>;
    /// How much waits for the socket.
    fn backlog(&mut self) -> Backlog;
    /// What has gone through the connection.
    fn traffic(&mut self) -> Traffic;
    /// Memory the connection uses.
    fn memory_bytes(&self) -> usize;
    /// The peer lives, though nothing is read from it for now.
    fn on_sign_of_life(&mut self, now: Nanos);
    /// Looks after pings and time-outs.
    ///
    /// # Errors
    /// Why the connection is over.
    fn on_wakeup(&mut self, now: Nanos) -> Result<(), Self::Reason>;
    /// When [`Endpoint::on_wakeup`] is due.
    fn next_wakeup(&self) -> Nanos;
    /// The TCP connection has ended.
    fn on_disconnected(&mut self, cause: Disconnect) -> Self::Reason;
    /// Ends the connection because the oldest byte for the peer has waited so many milliseconds.
    fn give_up(&mut self, waited_ms: u32) -> Self::Reason;
    /// Ends the connection by this side's wish.
    fn stop(&mut self) -> Self::Reason;
}

/// What stands behind a port.
pub trait Service<P: Protocol> {
    /// Most bytes of a connection that are handled before [`Service::is_busy`] is asked again.
    const SLICE_BYTES: usize = usize::MAX;

    /// A connection has completed its handshake.
    fn on_connected(
        &mut self,
        now: Nanos,
        connection: ConnectionId,
        session: &P::Session<'_>,
        peer: SocketAddr,
        outbox: &mut Outbox,
    );
    /// A message has arrived. [`ControlFlow::Break`] closes the connection after what was sent to it before.
    fn on_message(
        &mut self,
        now: Nanos,
        connection: ConnectionId,
        message: P::Message<'_>,
        outbox: &mut Outbox,
    ) -> ControlFlow<()>;
    /// So many messages before its turn a message is shown to [`Service::on_coming`]; 0 for not at all.
    fn messages_ahead(&self) -> usize {
        0
    }
    /// A message of a connection comes soon: a hint, so that what it needs can be brought into the processor's caches. Not
    /// every message is shown before it comes, nor does every one come that is shown.
    fn on_coming(&mut self, connection: ConnectionId, message: P::Message<'_>) {
        let _ = (connection, message);
    }
    /// A connection that was announced is gone.
    fn on_closed(&mut self, now: Nanos, connection: ConnectionId, reason: &ReasonOf<P>, outbox: &mut Outbox);
    /// Whether the user of a connection has logged in; otherwise it is closed after a while.
    fn is_logged_in(&self, connection: ConnectionId) -> bool;
    /// Whether what a connection has asked for is not all done: nothing more is taken from it until the service
    /// calls [`Listener::resume`](crate::Listener::resume).
    fn is_busy(&self, connection: ConnectionId) -> bool {
        let _ = connection;
        false
    }
    /// Whether the number of a connection that is gone still means that one to the service: no other one gets it
    /// meanwhile.
    fn knows(&self, connection: ConnectionId) -> bool {
        let _ = connection;
        false
    }
    /// Something for the log of the daemon.
    fn on_port_event(&mut self, event: PortEvent<'_>) {
        let _ = event;
    }
}

/// What happens to a port itself.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum PortEvent<'a> {
    /// A certificate or key has changed; new connections get the new one.
    CertificateReloaded,
    /// A certificate or key has changed and cannot be used; the old one stays.
    CertificateUnusable {
        /// Which file, and why.
        error: &'a TlsError,
    },
    /// The certificate in use expires within 30 days, or has expired; told once a day.
    CertificateExpires {
        /// Its file.
        file: &'a Path,
        /// When.
        until: UnixSeconds,
        /// What the clock says.
        now: UnixSeconds,
    },
    /// A TLS handshake has failed.
    TlsRefused {
        /// Whose.
        peer: SocketAddr,
        /// Why.
        error: &'a io::Error,
    },
    /// Connections are not taken for want of descriptors; reported every few seconds at most.
    OutOfDescriptors {
        /// So many were closed unheard since it was reported last: the descriptors left are those that the rest of the
        /// process needs.
        closed: u64,
        /// What the system said, if it gave none; those who wait are taken when it does.
        error: Option<&'a io::Error>,
    },
}

impl PortEvent<'_> {
    /// Whether somebody should do something about it.
    #[must_use]
    pub fn is_fault(&self) -> bool {
        matches!(
            self,
            Self::CertificateUnusable { .. }
                | Self::CertificateExpires { .. }
                | Self::OutOfDescriptors { .. }
        )
    }
}

impl fmt::Display for PortEvent<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::CertificateReloaded => write!(f, "certificate and key were read again"),
            Self::CertificateUnusable { error } => {
                write!(f, "the certificate in use is kept, the new one is no good: {error}")
            }
            Self::CertificateExpires { file, until, now } => {
                let (file, verb) = (file.display(), if now < until { "expires" } else { "has expired" });
                write!(f, "the certificate in {file} {verb} at {until}, now it is {now}: replace it")
            }
            Self::TlsRefused { peer, error } => write!(f, "TLS handshake with {peer} failed: {error}"),
            Self::OutOfDescriptors { error: Some(error), .. } => {
                write!(f, "connections cannot be accepted, those that wait rest: {error}")
            }
            Self::OutOfDescriptors { closed, error: None } => write!(
                f,
                "{closed} connections were closed unheard: of the {} descriptors that this process may have \
                 (RLIMIT_NOFILE) only those that it needs itself are left",
                net::descriptors::limit()
            ),
        }
    }
}

/// Hands what one connection brings to the service.
pub struct ConnectionToService<'a, S> {
    pub(crate) id: ConnectionId,
    pub(crate) peer: SocketAddr,
    pub(crate) now: Nanos,
    pub(crate) is_full: bool,
    pub(crate) is_encrypted: bool,
    pub(crate) is_announced: &'a mut bool,
    pub(crate) is_unwanted: &'a mut bool,
    pub(crate) outbox: &'a mut Outbox,
    pub(crate) service: &'a mut S,
}

impl<S> ConnectionToService<'_, S> {
    /// Whether the port has as many connections as it may: this one is to be refused.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.is_full
    }

    /// Whether the connection is encrypted.
    #[must_use]
    pub fn is_encrypted(&self) -> bool {
        self.is_encrypted
    }

    /// The handshake is complete.
    pub fn on_connected<P: Protocol>(&mut self, session: &P::Session<'_>)
    where
        S: Service<P>,
    {
        *self.is_announced = true;
        self.service.on_connected(self.now, self.id, session, self.peer, self.outbox);
    }

    /// How far the service looks ahead, in messages.
    #[inline]
    pub fn messages_ahead<P: Protocol>(&self) -> usize
    where
        S: Service<P>,
    {
        self.service.messages_ahead()
    }

    /// A message comes soon.
    #[inline]
    pub fn on_coming<P: Protocol>(&mut self, message: P::Message<'_>)
    where
        S: Service<P>,
    {
        self.service.on_coming(self.id, message);
    }

    /// A message has arrived. What comes behind the message that made the service want the connection closed
    /// is dropped.
    #[inline]
    pub fn on_message<P: Protocol>(&mut self, message: P::Message<'_>)
    where
        S: Service<P>,
    {
        if !*self.is_unwanted && self.service.on_message(self.now, self.id, message, self.outbox).is_break() {
            *self.is_unwanted = true;
            self.outbox.note_unwanted(self.id);
        }
    }
}

use std::io;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, TcpListener};
use std::os::fd::AsRawFd;
use std::time::Duration;

use net::descriptors::share_of_strangers;
use net::tls::{ServerFiles, ServerTls, TlsError, UnixSeconds};
use net::{Interest, Registrar, Token, Transport, tcp};
use units::Nanos;

use super::limits::CHECK_INTERVAL;

/// Where connections are taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ports {
    /// Address to listen on.
    pub interface: Ipv4Addr,
    /// The port; 0 for any free one.
    pub port: u16,
    /// Encrypted connections, if they are taken.
    pub tls: Option<TlsPort>,
    /// About the most bytes that the socket of a connection takes before they can be sent; 0 for its buffer.
    pub unsent_bytes_max: u32,
}

/// A port for encrypted connections.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsPort {
    /// The port; 0 for any free one. The number of the plain port turns that into an encrypted one.
    pub port: u16,
    /// Certificate and key.
    pub files: ServerFiles,
}

/// The listening sockets of a port: plain, encrypted, or one of each.
pub(crate) struct Acceptors {
    acceptors: Vec<Acceptor>,
    tls: Option<ServerTls>,
    unsent_bytes_max: u32,
    registrar: Registrar,
    token_base: u64,
    /// When connections are accepted again, after the system had refused to.
    accept_at: Nanos,
    /// When the certificate's files are looked at.
    refresh_at: Nanos,
    /// Descriptors below this number may be those of connections.
    descriptors_max: u64,
    /// Who connects is refused.
    is_shut: bool,
}

/// What was waiting at an acceptor.
pub(crate) enum Accepted {
    Connection(Transport, SocketAddr),
    /// It was closed: its descriptor is one of those that the rest of the process needs.
    Unheard,
}

struct Acceptor {
    socket: TcpListener,
    address: SocketAddrV4,
    is_encrypted: bool,
}

/// Most acceptors there are; their tokens come first.
pub(crate) const ACCEPTORS_MAX: u64 = 2;
/// How often the files of a certificate are looked at.
const REFRESH_INTERVAL: Duration = Duration::from_secs(2);

impl Acceptors {
    /// Opens the ports, under tokens from `token_base` on.
    pub(crate) fn open(ports: Ports, registrar: &Registrar, token_base: u64) -> io::Result<Acceptors> {
        let listen =
            |port, is_encrypted| Acceptor::open(SocketAddrV4::new(ports.interface, port), is_encrypted);
        let mut acceptors = Vec::new();
        let is_plain_too = ports.tls.as_ref().is_none_or(|tls| tls.port != ports.port || tls.port == 0);
        if is_plain_too {
            acceptors.push(listen(ports.port, false)?);
        }
        if let Some(tls) = &ports.tls {
            acceptors.push(listen(tls.port, true)?);
        }
        for (place, acceptor) in acceptors.iter().enumerate() {
            registrar.add(&acceptor.socket, Token(token_base + place as u64), Interest::Read)?;
        }
        let unusable = |e: TlsError| io::Error::new(io::ErrorKind::InvalidInput, e.to_string());
        let tls = ports.tls.map(|tls| ServerTls::load(tls.files)).transpose().map_err(unusable)?;
        if let Some(tls) = &tls {
            tls.check_dates(UnixSeconds::now()).map_err(unusable)?;
        }
        let refresh_at = if tls.is_some() { Nanos::ZERO } else { Nanos::NEVER };
        Ok(Acceptors {
            acceptors,
            tls,
            unsent_bytes_max: ports.unsent_bytes_max,
            registrar: registrar.clone(),
            token_base,
            accept_at: Nanos::NEVER,
            refresh_at,
            descriptors_max: share_of_strangers(),
            is_shut: false,
        })
    }

    /// None: another thread has those of the port.
    pub(crate) fn none(registrar: &Registrar, token_base: u64) -> Acceptors {
        Acceptors {
            acceptors: Vec::new(),
            tls: None,
            unsent_bytes_max: 0,
            registrar: registrar.clone(),
            token_base,
            accept_at: Nanos::NEVER,
            refresh_at: Nanos::NEVER,
            descriptors_max: 0,
            is_shut: false,
        }
    }

    pub(crate) fn local_address(&self) -> io::Result<SocketAddr> {
        let closed = || io::Error::new(io::ErrorKind::NotConnected, "the port is closed");
        self.acceptors.first().map(|acceptor| acceptor.address.into()).ok_or_else(closed)
    }

    pub(crate) fn tls_address(&self) -> io::Result<Option<SocketAddr>> {
        let encrypted = self.acceptors.iter().find(|acceptor| acceptor.is_encrypted);
        Ok(encrypted.map(|acceptor| acceptor.address.into()))
    }

    /// Certificate and key of encrypted connections, if these are taken.
    pub(crate) fn tls(&self) -> Option<&ServerTls> {
        self.tls.as_ref()
    }

    /// Takes no more connections.
    pub(crate) fn close(&mut self) {
        self.acceptors.clear();
    }

    /// Refuses who connects, until [`Acceptors::reopen`]; the ports stay this process's. Who waits to be accepted would get
    /// a reset: they should have been accepted.
    pub(crate) fn shut(&mut self) -> io::Result<()> {
        self.is_shut = true;
        self.accept_at = Nanos::NEVER;
        for acceptor in &self.acceptors {
            self.registrar.remove(&acceptor.socket)?;
            tcp::stop_listening(&acceptor.socket)?;
        }
        Ok(())
    }

    /// Takes connections again. If one of the ports cannot be had, all stay shut.
    pub(crate) fn reopen(&mut self) -> io::Result<()> {
        for place in 0..self.acceptors.len() {
            if let Err(error) = self.acceptors[place].listen_again() {
                // What listens can be stopped.
                self.acceptors[..place].iter().for_each(|other| _ = tcp::stop_listening(&other.socket));
                return Err(error);
            }
        }
        for (acceptor, token) in self.acceptors.iter().zip(self.token_base..) {
            self.registrar.add(&acceptor.socket, Token(token), Interest::Read)?;
        }
        self.is_shut = false;
        Ok(())
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.acceptors.len()
    }

    pub(crate) fn is_shut(&self) -> bool {
        self.is_shut
    }

    /// The next connection that waits at an acceptor.
    pub(crate) fn accept(&self, place: usize) -> io::Result<Option<Accepted>> {
        if self.is_shut {
            return Ok(None);
        }
        let Some(acceptor) = self.acceptors.get(place) else { return Ok(None) };
        let Some((socket, peer)) = tcp::accept(&acceptor.socket)? else { return Ok(None) };
        // The kernel gives the lowest number that is free: all below are taken.
        if u64::try_from(socket.as_raw_fd()).is_ok_and(|number| number >= self.descriptors_max) {
            return Ok(Some(Accepted::Unheard));
        }
        if self.unsent_bytes_max > 0 {
            tcp::set_unsent_limit(&socket, self.unsent_bytes_max)?;
        }
        let transport = match &self.tls {
            Some(tls) if acceptor.is_encrypted => tls.accept(socket)?,
            _ => Transport::Plain(socket),
        };
        Ok(Some(Accepted::Connection(transport, peer)))
    }

    #[cfg(test)]
    pub(crate) fn allow_descriptors_below(&mut self, number: u64) {
        self.descriptors_max = number;
    }

    /// Out of descriptors, most likely: the connection stays in the queue and the listener ready, so that
    /// without a rest the thread would do nothing but fail to accept it.
    pub(crate) fn rest(&mut self, now: Nanos) {
        if self.change_interest(Interest::Nothing) {
            self.accept_at = now + CHECK_INTERVAL;
        }
    }

    /// Ends a rest that is over; tells whether changed certificates were read.
    pub(crate) fn on_wakeup(&mut self, now: Nanos) -> Result<bool, TlsError> {
        if now >= self.accept_at {
            let is_back = self.change_interest(Interest::Read);
            self.accept_at = if is_back { Nanos::NEVER } else { now + CHECK_INTERVAL };
        }
        let Some(tls) = self.tls.as_mut().filter(|_| now >= self.refresh_at) else { return Ok(false) };
        self.refresh_at = now + REFRESH_INTERVAL;
        tls.refresh(UnixSeconds::now())
    }

    /// Whether the next wake-up looks at the certificate's files.
    pub(crate) fn is_refresh_due(&self, now: Nanos) -> bool {
        now >= self.refresh_at
    }

    pub(crate) fn next_wakeup(&self) -> Nanos {
        self.accept_at.min(self.refresh_at)
    }

    fn change_interest(&self, interest: Interest) -> bool {
        let mut acceptors = self.acceptors.iter().zip(self.token_base..);
        acceptors
            .all(|(acceptor, token)| self.registrar.change(&acceptor.socket, Token(token), interest).is_ok())
    }
}

impl Acceptor {
    fn open(address: SocketAddrV4, is_encrypted: bool) -> io::Result<Acceptor> {
        let socket = tcp::listen(address)?;
        let port = socket.local_addr()?.port();
        Ok(Acceptor { socket, address: SocketAddrV4::new(*address.ip(), port), is_encrypted })
    }

    fn listen_again(&mut self) -> io::Result<()> {
        tcp::listen_again(&mut self.socket, self.address)
    }
}

//! The thin driver: one socket for one core.

use std::io;
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use net::tcp::{self, Moved};
use net::tls::{ClientTls, is_about_certificates};
use net::{Interest, Poller, Registrar, Token, Transport, clock};
use rssl::Disconnect;
use units::Nanos;

use crate::{ConnectFailure, Endpoint, HostPort, Socket};

/// Reads in one turn of an application, so that one busy server does not keep it from its other work.
pub(crate) const READS_MAX: usize = 16;

/// Moves bytes between a core and its TCP connection. Never blocks, but in [`Wire::drain`] and in the
/// resolution of host names.
#[derive(Debug)]
pub(crate) struct Wire {
    socket: Option<Connecting>,
    tls: Option<ClientTls>,
    /// The look at another server that is under way.
    probe: Option<Probe>,
    read_buffer: Vec<u8>,
    /// Differs from socket to socket.
    generation: u64,
    /// What [`Wire::arm`] has registered: of which socket, for what.
    armed: Option<(u64, Interest)>,
    has_pending: bool,
    /// A write has failed.
    is_broken: bool,
}

/// A socket, and the addresses that are left to try as long as it does not stand.
#[derive(Debug)]
struct Connecting {
    stream: Transport,
    stage: Stage,
    /// Whose certificate is wanted.
    host: String,
    addresses: std::vec::IntoIter<SocketAddr>,
}

/// A TCP connection that is made to see whether somebody is there.
#[derive(Debug)]
struct Probe {
    stream: TcpStream,
    look_at: Nanos,
    until: Nanos,
}

/// How far a connection has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// The TCP connection is being made.
    Tcp,
    /// The TCP connection stands, the TLS session is being made.
    Tls,
    /// The core knows of it.
    Stands,
}

impl Wire {
    pub(crate) fn new(read_buffer_bytes: usize, tls: Option<ClientTls>) -> Wire {
        Wire {
            socket: None,
            tls,
            probe: None,
            read_buffer: vec![0; read_buffer_bytes],
            generation: 0,
            armed: None,
            has_pending: false,
            is_broken: false,
        }
    }

    /// Does what there is to do now: connects, reads (at most `reads` times), looks at the time, writes.
    pub(crate) fn turn<E: Endpoint, F: FnMut(E::Event<'_>)>(
        &mut self,
        core: &mut E,
        reads: usize,
        sink: &mut F,
    ) {
        let now = clock::monotonic();
        self.follow(core, now, sink);
        self.establish(core, now, sink);
        self.read(core, now, reads, sink);
        if core.next_wakeup() <= now {
            core.on_wakeup(now, sink);
        }
        self.follow(core, now, sink);
        self.look(core, now, sink);
        self.write(core, now, sink);
    }

    /// Writes what is pending, as far as the socket takes it; returns whether that is all.
    pub(crate) fn flush<E: Endpoint>(&mut self, core: &mut E, now: Nanos) -> bool {
        let Some(Connecting { stream, stage: Stage::Stands, .. }) = &mut self.socket else {
            self.has_pending = false;
            return core.pending().is_empty();
        };
        loop {
            let pending = core.pending();
            self.has_pending = !pending.is_empty();
            if pending.is_empty() {
                let flushed = stream.flush();
                self.is_broken |= flushed.is_err();
                return flushed.unwrap_or(false);
            }
            match stream.write(pending) {
                Ok(Moved::Bytes(count)) => core.consume(now, count),
                Ok(Moved::WouldBlock) => return false,
                Ok(Moved::End) | Err(_) => {
                    self.is_broken = true;
                    return false;
                }
            }
        }
    }

    fn write<E: Endpoint>(&mut self, core: &mut E, now: Nanos, sink: &mut dyn FnMut(E::Event<'_>)) {
        self.flush(core, now);
        if self.is_broken {
            self.drop_socket();
            core.on_disconnected(now, Disconnect::SocketError, sink);
        }
    }

    /// Writes the last bytes of a core that was stopped, for at most `limit`, and closes the socket.
    pub(crate) fn drain<E: Endpoint>(&mut self, core: &mut E, limit: Duration) {
        let deadline = clock::monotonic().after(limit);
        self.armed = None;
        if let Ok(mut poller) = Poller::new() {
            loop {
                let now = clock::monotonic();
                self.flush(core, now);
                if !(self.has_pending || self.holds_output())
                    || self.is_broken
                    || now >= deadline
                    || self.arm(poller.registrar(), Token(0)).is_err()
                {
                    break;
                }
                if poller.wait(Some(deadline.since(now))).is_err() {
                    break;
                }
                if let Some(socket) = &mut self.socket {
                    // Nobody listens any more; but what the server sends must not keep the socket readable.
                    let _ = socket.stream.read(&mut self.read_buffer);
                }
            }
        }
        self.drop_socket();
    }

    /// Registers the socket with a poller for what is to be waited for now; to be called before each wait.
    pub(crate) fn arm(&mut self, registrar: &Registrar, token: Token) -> io::Result<()> {
        let Some((stream, interest)) = self.wanted() else {
            self.armed = None;
            return Ok(());
        };
        match self.armed {
            Some((generation, armed)) if generation == self.generation => {
                if armed != interest {
                    registrar.change(stream, token, interest)?;
                }
            }
            // A socket that was closed has left the poller by itself.
            _ => registrar.add(stream, token, interest)?,
        }
        self.armed = Some((self.generation, interest));
        Ok(())
    }

    /// Takes the socket out of a poller; the next [`Wire::arm`] may be with another one.
    pub(crate) fn disarm(&mut self, registrar: &Registrar) {
        if let (Some((generation, _)), Some(socket)) = (self.armed.take(), &self.socket)
            && generation == self.generation
        {
            // It is registered: that is what `armed` says.
            let _ = registrar.remove(&socket.stream);
        }
    }

    /// Forgets what was registered: the next [`Wire::arm`] is with a poller that does not know the socket.
    pub(crate) fn forget_arming(&mut self) {
        self.armed = None;
    }

    /// The descriptor to wait for and what for; `None` as long as there is no socket.
    pub(crate) fn descriptor(&self) -> Option<(BorrowedFd<'_>, Interest)> {
        self.wanted().map(|(stream, interest)| (stream.as_fd(), interest))
    }

    /// When [`Wire::turn`] is to be called whatever the socket does.
    pub(crate) fn next_wakeup<E: Endpoint>(&self, core: &E) -> Nanos {
        // Bytes that were read and are not delivered yet are nothing that a poller tells of.
        let holds_input = self.socket.as_ref().is_some_and(|socket| socket.stream.may_hold_input());
        let look_at = self.probe.as_ref().map_or(Nanos::NEVER, |probe| probe.look_at);
        if holds_input { Nanos::ZERO } else { core.next_wakeup().min(look_at) }
    }

    fn holds_output(&self) -> bool {
        self.socket.as_ref().is_some_and(|socket| socket.stream.holds_output())
    }

    fn wanted(&self) -> Option<(&Transport, Interest)> {
        let socket = self.socket.as_ref()?;
        let writes = socket.stage == Stage::Tcp || socket.stream.waits_for_room(self.has_pending);
        Some((&socket.stream, if writes { Interest::ReadWrite } else { Interest::Read }))
    }

    /// Looks whether the preferred server takes connections, if the core wants to know.
    fn look<E: Endpoint>(&mut self, core: &mut E, now: Nanos, sink: &mut dyn FnMut(E::Event<'_>)) {
        if let Some(host) = core.probe(now) {
            let address = addresses_of(host).ok().and_then(|mut addresses| addresses.next());
            let stream = address.and_then(|address| tcp::connect(address).ok());
            let (look_at, until) = (now.after(LOOK_INTERVAL), now.after(LOOK_LIMIT));
            self.probe = stream.map(|stream| Probe { stream, look_at, until });
        }
        let Some(probe) = self.probe.as_mut().filter(|probe| probe.look_at <= now) else { return };
        probe.look_at = now.after(LOOK_INTERVAL);
        match tcp::connected(&probe.stream) {
            Ok(true) => {
                self.probe = None;
                core.on_reachable(now, sink);
                self.follow(core, now, sink);
            }
            Ok(false) if now < probe.until => {}
            Ok(false) | Err(_) => self.probe = None,
        }
    }

    fn drop_socket(&mut self) {
        self.socket = None;
        self.is_broken = false;
    }

    fn follow<E: Endpoint>(&mut self, core: &mut E, now: Nanos, sink: &mut dyn FnMut(E::Event<'_>)) {
        match core.socket(now) {
            Socket::Present => {}
            Socket::Absent => self.drop_socket(),
            Socket::Connect(host) => {
                let (addresses, host) = (addresses_of(host), host.host().to_owned());
                self.drop_socket();
                match addresses.and_then(|addresses| self.connect(addresses, host)) {
                    Ok(()) => {}
                    Err(failure) => core.on_connect_failed(now, failure, sink),
                }
            }
        }
    }

    /// Begins a connection to the first address that allows it.
    fn connect(
        &mut self,
        mut addresses: std::vec::IntoIter<SocketAddr>,
        host: String,
    ) -> Result<(), ConnectFailure> {
        let mut failure = ConnectFailure::UnknownHost;
        while let Some(address) = addresses.next() {
            match tcp::connect(address) {
                Ok(stream) => {
                    self.generation += 1;
                    let (stream, stage) = (Transport::Plain(stream), Stage::Tcp);
                    self.socket = Some(Connecting { stream, stage, host, addresses });
                    return Ok(());
                }
                Err(error) => failure = ConnectFailure::Io(error.kind()),
            }
        }
        Err(failure)
    }

    fn establish<E: Endpoint>(&mut self, core: &mut E, now: Nanos, sink: &mut dyn FnMut(E::Event<'_>)) {
        let Some(socket) = self.socket.as_mut() else { return };
        if socket.stage == Stage::Tcp {
            match tcp::connected(socket.stream.socket()) {
                Ok(true) => socket.stage = Stage::Tls,
                Ok(false) => return,
                Err(error) => {
                    let others = std::mem::take(&mut socket.addresses);
                    let host = std::mem::take(&mut socket.host);
                    self.drop_socket();
                    if self.connect(others, host).is_err() {
                        core.on_connect_failed(now, ConnectFailure::Io(error.kind()), sink);
                    }
                    return;
                }
            }
            if self.tls.is_some()
                && let Err(failure) = self.encrypt()
            {
                self.drop_socket();
                return core.on_connect_failed(now, failure, sink);
            }
        }
        match self.shake_hands() {
            Ok(true) => core.on_established(now),
            Ok(false) => {}
            Err(failure) => {
                self.drop_socket();
                core.on_connect_failed(now, failure, sink);
            }
        }
    }

    /// Begins a TLS session on a TCP connection that stands, if connections are to be encrypted.
    fn encrypt(&mut self) -> Result<(), ConnectFailure> {
        let (Some(tls), Some(connecting)) = (&self.tls, self.socket.take()) else {
            return Ok(());
        };
        let Connecting { stream, stage, host, addresses } = connecting;
        let Transport::Plain(socket) = stream else { return Ok(()) };
        let stream = tls.connect(socket, &host).map_err(|_| ConnectFailure::Certificate)?;
        self.socket = Some(Connecting { stream, stage, host, addresses });
        Ok(())
    }

    /// Goes on with a TLS handshake; returns whether the connection has just come to stand.
    fn shake_hands(&mut self) -> Result<bool, ConnectFailure> {
        let Some(Connecting { stream, stage: stage @ Stage::Tls, .. }) = &mut self.socket else {
            return Ok(false);
        };
        if stream.is_handshaking() {
            // A server has nothing to say before it is asked: input is the handshake's.
            let ended = |error: io::Error| match error.kind() {
                _ if is_about_certificates(&error) => ConnectFailure::Certificate,
                _ => ConnectFailure::Tls,
            };
            stream.flush().map_err(ended)?;
            if stream.read(&mut self.read_buffer[..1]).map_err(ended)? != Moved::WouldBlock {
                return Err(ConnectFailure::Tls);
            }
        }
        if stream.is_handshaking() {
            return Ok(false);
        }
        *stage = Stage::Stands;
        Ok(true)
    }

    fn read<E: Endpoint, F: FnMut(E::Event<'_>)>(
        &mut self,
        core: &mut E,
        now: Nanos,
        reads: usize,
        sink: &mut F,
    ) {
        for _ in 0..reads {
            let Some(Connecting { stream, stage: Stage::Stands, .. }) = &mut self.socket else { return };
            let ended = match stream.read(&mut self.read_buffer) {
                Ok(Moved::Bytes(count)) => {
                    core.on_bytes(now, &self.read_buffer[..count], sink);
                    if count < self.read_buffer.len() {
                        return;
                    }
                    continue;
                }
                Ok(Moved::WouldBlock) => return,
                Ok(Moved::End) => Disconnect::EndOfStream,
                Err(_) => Disconnect::SocketError,
            };
            self.drop_socket();
            return core.on_disconnected(now, ended, sink);
        }
    }
}

/// How often a TCP connection that is made to see whether somebody is there is looked at, and for how long.
const LOOK_INTERVAL: Duration = Duration::from_millis(50);
const LOOK_LIMIT: Duration = Duration::from_secs(2);

fn addresses_of(host: &HostPort) -> Result<std::vec::IntoIter<SocketAddr>, ConnectFailure> {
    (host.host(), host.port()).to_socket_addrs().map_err(|_| ConnectFailure::UnknownHost)
}

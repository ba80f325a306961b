//! The thin driver: one socket for one core.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use net::tcp::Moved;
use net::tls::{ClientTls, is_about_certificates};
use net::{Interest, Poller, Registrar, Resolver, Token, Transport, clock};
use rssl::Disconnect;
use units::Nanos;

use crate::dial::{Dial, Progress};
use crate::{Attempt, ConnectFailure, Endpoint, Socket};

/// Reads in one turn of an application, so that one busy server does not keep it from its other work.
pub(crate) const READS_MAX: usize = 16;

/// Moves bytes between a core and its TCP connection. Never blocks, but in [`Wire::drain`].
#[derive(Debug)]
pub(crate) struct Wire {
    link: Option<Link>,
    resolver: Resolver,
    tls: Option<ClientTls>,
    /// The look at another server that is under way.
    probe: Option<Probe>,
    read_buffer: Vec<u8>,
    /// Differs from descriptor to descriptor.
    generation: u64,
    /// What [`Wire::arm`] has registered: of which descriptor, for what.
    armed: Option<(u64, Interest)>,
    has_pending: bool,
    /// A write has failed.
    is_broken: bool,
    /// The end of the stream follows what is pending.
    ends_output: bool,
}

/// How far a connection has come.
#[derive(Debug)]
enum Link {
    /// The TCP connection is being made.
    Dialling(Dial),
    /// The TCP connection stands, the TLS session is being made.
    ShakingHands(Transport),
    /// The core knows of it.
    Stands(Transport),
}

/// A TCP connection that is made to see whether somebody is there.
#[derive(Debug)]
struct Probe {
    dial: Dial,
    look_at: Nanos,
    until: Nanos,
}

impl Wire {
    pub(crate) fn new(read_buffer_bytes: usize, tls: Option<ClientTls>) -> Wire {
        Wire {
            link: None,
            resolver: Resolver::system(),
            tls,
            probe: None,
            read_buffer: vec![0; read_buffer_bytes],
            generation: 0,
            armed: None,
            has_pending: false,
            is_broken: false,
            ends_output: false,
        }
    }

    /// The end of the stream is sent behind what is pending.
    pub(crate) fn end_output(&mut self) {
        self.ends_output = true;
    }

    /// Host names are looked up by another resolver than the system's.
    pub(crate) fn set_resolver(&mut self, resolver: Resolver) {
        self.resolver = resolver;
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
        // The application may have taken its time with what was read.
        let now = clock::monotonic();
        if core.next_wakeup() <= now {
            core.on_wakeup(now, sink);
        }
        self.follow(core, now, sink);
        self.look(core, now, sink);
        self.write(core, now, sink);
    }

    /// Writes what is pending, as far as the socket takes it; returns whether that is all.
    pub(crate) fn flush<E: Endpoint>(&mut self, core: &mut E, now: Nanos) -> bool {
        let Some(Link::Stands(stream)) = &mut self.link else {
            self.has_pending = false;
            return core.pending().is_empty();
        };
        loop {
            let pending = core.pending();
            self.has_pending = !pending.is_empty();
            if pending.is_empty() {
                let flushed = if self.ends_output { stream.end_output() } else { stream.flush() };
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
                if let Some(Link::Stands(stream)) = &mut self.link {
                    // Nobody listens any more; but what the server sends must not keep the socket readable.
                    let _ = stream.read(&mut self.read_buffer);
                }
            }
        }
        self.drop_socket();
    }

    /// Registers the socket (or the look-up that comes before it) with a poller for what is to be waited for
    /// now; to be called before each wait.
    pub(crate) fn arm(&mut self, registrar: &Registrar, token: Token) -> io::Result<()> {
        let Some((descriptor, interest)) = self.wanted() else {
            self.armed = None;
            return Ok(());
        };
        match self.armed {
            Some((generation, armed)) if generation == self.generation => {
                if armed != interest {
                    registrar.change(descriptor, token, interest)?;
                }
            }
            // A descriptor that was closed has left the poller by itself.
            _ => registrar.add(descriptor, token, interest)?,
        }
        self.armed = Some((self.generation, interest));
        Ok(())
    }

    /// Takes the socket out of a poller; the next [`Wire::arm`] may be with another one.
    pub(crate) fn disarm(&mut self, registrar: &Registrar) {
        if let (Some((generation, _)), Some((descriptor, _))) = (self.armed.take(), self.wanted())
            && generation == self.generation
        {
            // It is registered: that is what `armed` says.
            let _ = registrar.remove(descriptor);
        }
    }

    /// Forgets what was registered: the next [`Wire::arm`] is with a poller that does not know the socket.
    pub(crate) fn forget_arming(&mut self) {
        self.armed = None;
    }

    /// The descriptor to wait for and what for; `None` as long as there is none.
    pub(crate) fn descriptor(&self) -> Option<(BorrowedFd<'_>, Interest)> {
        self.wanted()
    }

    /// When [`Wire::turn`] is to be called whatever the socket does.
    pub(crate) fn next_wakeup<E: Endpoint>(&self, core: &E) -> Nanos {
        let own = match &self.link {
            // Bytes that were read and are not delivered yet are nothing that a poller tells of.
            Some(Link::ShakingHands(stream) | Link::Stands(stream)) if stream.may_hold_input() => Nanos::ZERO,
            Some(Link::Dialling(dial)) => dial.next_wakeup(),
            _ => Nanos::NEVER,
        };
        let look_at = self.probe.as_ref().map_or(Nanos::NEVER, |probe| probe.look_at);
        own.min(look_at).min(core.next_wakeup())
    }

    fn holds_output(&self) -> bool {
        matches!(&self.link, Some(Link::Stands(stream)) if stream.holds_output())
    }

    fn wanted(&self) -> Option<(BorrowedFd<'_>, Interest)> {
        match self.link.as_ref()? {
            Link::Dialling(dial) => Some(dial.descriptor()),
            Link::ShakingHands(stream) | Link::Stands(stream) => {
                let writes = stream.waits_for_room(self.has_pending);
                Some((stream.as_fd(), if writes { Interest::ReadWrite } else { Interest::Read }))
            }
        }
    }

    /// Looks whether the preferred server takes connections, if the core wants to know.
    fn look<E: Endpoint>(&mut self, core: &mut E, now: Nanos, sink: &mut dyn FnMut(E::Event<'_>)) {
        if let Some(attempt) = core.probe(now) {
            let (look_at, until) = (now.after(LOOK_INTERVAL), attempt.deadline);
            self.probe =
                Dial::begin(&self.resolver, attempt, now).ok().map(|dial| Probe { dial, look_at, until });
        }
        let Some(Probe { dial, until, .. }) = self.probe.take_if(|probe| probe.look_at <= now) else {
            return;
        };
        match dial.advance(now) {
            Ok(Progress::Stands(..)) => {
                core.on_reachable(now, sink);
                self.follow(core, now, sink);
            }
            Ok(Progress::Waiting(dial, _)) if now < until => {
                self.probe = Some(Probe { dial, look_at: now.after(LOOK_INTERVAL), until });
            }
            Ok(Progress::Waiting(..)) | Err(_) => {}
        }
    }

    fn drop_socket(&mut self) {
        self.link = None;
        self.is_broken = false;
        self.ends_output = false;
    }

    fn follow<E: Endpoint>(&mut self, core: &mut E, now: Nanos, sink: &mut dyn FnMut(E::Event<'_>)) {
        match core.socket(now) {
            Socket::Present => {}
            Socket::Absent => self.drop_socket(),
            Socket::Connect(attempt) => {
                self.drop_socket();
                match self.dial(attempt, now) {
                    Ok(()) => {}
                    Err(failure) => core.on_connect_failed(now, failure, sink),
                }
            }
        }
    }

    fn dial(&mut self, attempt: Attempt<'_>, now: Nanos) -> Result<(), ConnectFailure> {
        self.link = Some(Link::Dialling(Dial::begin(&self.resolver, attempt, now)?));
        self.generation += 1;
        Ok(())
    }

    /// Goes on with a connection that does not stand yet.
    fn establish<E: Endpoint>(&mut self, core: &mut E, now: Nanos, sink: &mut dyn FnMut(E::Event<'_>)) {
        if let None | Some(Link::Stands(_)) = self.link {
            return;
        }
        match self.advance(now) {
            Ok(true) => core.on_established(now),
            Ok(false) => {}
            Err(failure) => {
                self.drop_socket();
                core.on_connect_failed(now, failure, sink);
            }
        }
    }

    /// Returns whether the connection has just come to stand.
    fn advance(&mut self, now: Nanos) -> Result<bool, ConnectFailure> {
        if let Some(Link::Dialling(dial)) = self.link.take_if(|link| matches!(link, Link::Dialling(_))) {
            match dial.advance(now)? {
                Progress::Waiting(dial, is_other) => {
                    self.link = Some(Link::Dialling(dial));
                    self.generation += u64::from(is_other);
                }
                Progress::Stands(socket, host) => {
                    let stream = match &self.tls {
                        Some(tls) => tls.connect(socket, &host).map_err(|_| ConnectFailure::Certificate)?,
                        None => Transport::Plain(socket),
                    };
                    self.link = Some(Link::ShakingHands(stream));
                }
            }
        }
        self.shake_hands()
    }

    /// Goes on with a TLS handshake, if there is one; returns whether the connection has just come to stand.
    fn shake_hands(&mut self) -> Result<bool, ConnectFailure> {
        let Some(Link::ShakingHands(stream)) = &mut self.link else { return Ok(false) };
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
        if let Some(Link::ShakingHands(stream)) = self.link.take() {
            self.link = Some(Link::Stands(stream));
        }
        Ok(true)
    }

    fn read<E: Endpoint, F: FnMut(E::Event<'_>)>(
        &mut self,
        core: &mut E,
        now: Nanos,
        reads: usize,
        sink: &mut F,
    ) {
        let mut now = now;
        for at in 0..reads {
            if at > 0 {
                now = clock::monotonic();
                // A ping must not wait until all is read that comes meanwhile.
                if core.next_wakeup() <= now {
                    return;
                }
            }
            let Some(Link::Stands(stream)) = &mut self.link else { return };
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

/// How often a TCP connection that is made to see whether somebody is there is looked at.
const LOOK_INTERVAL: Duration = Duration::from_millis(50);

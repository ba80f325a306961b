//! A connection to one of several servers without a session of its own: whole messages in and out.

mod config;
mod session;

pub use config::DialledConfig;
pub use session::DialledEvent;

use std::io;
use std::sync::Arc;

use counters::table::{DialledConnection as Counters, RsslConnections};
use net::{Registrar, Resolver, Token, clock};
use rssl::SendError;
use units::Nanos;

use self::session::RawSession;
use crate::connector::{Connector, connect_options};
use crate::lifecycle::Lifecycle;
use crate::wire::{READS_MAX, Wire};
use crate::{ClientTlsConfig, Endpoint, HostPort, Identity, StartError};

/// A connection that is kept up: to the first of its servers that takes it, with delays between rounds.
///
/// What goes over it is the business of the owner, logins included, who says when a server has let it in
/// ([`accept`](DialledConnection::accept)) and when it has had enough of one
/// ([`hang_up`](DialledConnection::hang_up)). The owner drives it: it registers it with a poller
/// ([`arm`](DialledConnection::arm)) and calls [`work`](DialledConnection::work) when the socket is ready or
/// [`next_wakeup`](DialledConnection::next_wakeup) is reached, then [`flush`](DialledConnection::flush).
pub struct DialledConnection {
    /// The connection without its socket.
    life: Lifecycle<RawSession>,
    wire: Wire,
    /// The owner can take input.
    is_read: bool,
}

impl DialledConnection {
    /// A connection to one of `hosts`, which are tried in turn. It connects when it is driven for the first time.
    /// Delays and keys follow from `seed`.
    ///
    /// # Errors
    /// [`StartError::Config`] for what the connection handshake cannot hold, [`StartError::Tls`] for files
    /// that cannot be used.
    ///
    /// # Panics
    /// Without a host.
    pub fn new(
        config: &DialledConfig,
        hosts: &[HostPort],
        identity: &Identity,
        seed: u64,
        counters: Arc<Counters>,
    ) -> Result<DialledConnection, StartError> {
        assert!(!hosts.is_empty(), "a connection needs a host");
        let options = connect_options!(config, identity, config.message_max_bytes);
        let plan = options.plan(hosts, seed)?;
        let life = Lifecycle { connector: Connector::new(plan), session: RawSession::new(counters) };
        let tls = config.tls.as_ref().map(ClientTlsConfig::load).transpose()?;
        Ok(DialledConnection { life, wire: Wire::new(config.read_buffer_bytes as usize, tls), is_read: true })
    }

    /// The same with another resolver of host names than the system's.
    #[must_use]
    pub fn with_resolver(mut self, resolver: Resolver) -> DialledConnection {
        self.wire.set_resolver(resolver);
        self
    }

    /// Connects, reads, looks at the time, writes: what there is to do now, without waiting.
    pub fn work(&mut self, on_event: &mut impl FnMut(DialledEvent<'_>)) {
        self.wire.turn(&mut self.life, READS_MAX, on_event);
    }

    /// The same but for reading: for an owner that can take nothing now.
    pub fn work_without_reading(&mut self, on_event: &mut impl FnMut(DialledEvent<'_>)) {
        self.wire.turn(&mut self.life, 0, on_event);
    }

    /// Puts a message into the backlog. Without a connection it is dropped: the owner has been told that
    /// there is none.
    ///
    /// # Errors
    /// The backlog is full: the server does not take what it is sent. Nothing of the message is sent.
    pub fn send(&mut self, message: &[u8]) -> Result<(), SendError> {
        match self.life.connector.open_parts() {
            Some((_, connection)) => connection.outbound().push(message).map(drop),
            None => Ok(()),
        }
    }

    /// Writes what is in the backlog, as far as the socket takes it.
    pub fn flush(&mut self, now: Nanos) {
        self.wire.flush(&mut self.life, now);
    }

    /// The server has let the owner in: what failed before is forgiven, and a loss begins with it again.
    pub fn accept(&mut self) {
        if self.life.session.accept() {
            self.life.connector.succeeded();
        }
    }

    /// From now on messages are shown ([`DialledEvent::Coming`]) so many messages before their turn, if they come with the
    /// same input; 0 for not at all.
    pub fn look_ahead(&mut self, messages: usize) {
        self.life.session.look_ahead(messages);
    }

    /// The owner wants another connection than this one: it ends with the next [`DialledConnection::work`], which tells
    /// so.
    pub fn hang_up(&mut self) {
        self.life.session.hang_up();
    }

    /// Registers the socket with a poller for what is to be waited for now; to be called before each wait.
    ///
    /// # Errors
    /// The poller does not take it.
    pub fn arm(&mut self, registrar: &Registrar, token: Token) -> io::Result<()> {
        self.is_read = true;
        self.wire.arm(registrar, token)
    }

    /// Takes the socket out of the poller: for an owner that can take nothing now.
    pub fn disarm(&mut self, registrar: &Registrar) {
        self.is_read = false;
        self.wire.disarm(registrar);
    }

    /// When [`DialledConnection::work`] is due, whatever the socket does.
    #[must_use]
    pub fn next_wakeup(&self) -> Nanos {
        if self.is_read { self.wire.next_wakeup(&self.life) } else { self.life.next_wakeup() }
    }

    /// The server that is connected, or tried next.
    #[must_use]
    pub fn host(&self) -> &HostPort {
        self.life.connector.host()
    }

    /// Whether the connection stands.
    #[must_use]
    pub fn is_connected(&self) -> bool {
        self.life.session.is_connected()
    }

    /// What is counted of its connections.
    #[must_use]
    pub fn connections(&self) -> &Arc<RsslConnections> {
        self.life.connector.counters()
    }

    /// Nothing more is sent: what is in the backlog is written, then the end of the stream. Input is read until the
    /// server ends its side too, so that nothing unread makes the end a reset; then the owner calls
    /// [`stop`](DialledConnection::stop).
    pub fn end_output(&mut self) {
        self.wire.end_output();
    }

    /// Ends the connection for good; what the socket takes at once is still written.
    pub fn stop(&mut self) {
        self.life.stop(clock::monotonic(), &mut |_| ());
        self.wire.flush(&mut self.life, clock::monotonic());
    }
}

use std::io;
use std::net::{SocketAddr, SocketAddrV4, TcpListener, TcpStream};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use counters::Registry;
use counters::table::{RsslConnections, RsslListener};
use net::tcp::{self, Moved};
use net::{Interest, Ready, Registrar, Token};
use rssl::handshake::ConnectRequest;
use rssl::{
    Admission, CloseReason, Disconnect, Handler, Outbound, ServerConnection, ServerParams, Session, Stop,
};
use slab::Slab;
use units::{Nanos, Rng};

use crate::connection::Connection;
use crate::{ConnectionId, Outbox, RsslConfig};

/// What stands behind a port.
pub trait Service {
    /// A connection has completed its handshake.
    fn on_connected(&mut self, now: Nanos, connection: ConnectionId, session: &Session<'_>, peer: SocketAddr);
    /// A message has arrived. [`ControlFlow::Break`] closes the connection after what was sent to it before.
    fn on_message(
        &mut self,
        now: Nanos,
        connection: ConnectionId,
        message: &[u8],
        outbox: &mut Outbox,
    ) -> ControlFlow<()>;
    /// A connection that was announced is gone.
    fn on_closed(&mut self, now: Nanos, connection: ConnectionId, reason: &CloseReason, outbox: &mut Outbox);
    /// Whether the user of a connection has logged in; otherwise it is closed after a while.
    fn is_logged_in(&self, connection: ConnectionId) -> bool;
}

/// A port and its connections.
pub struct Listener {
    listener: TcpListener,
    registrar: Registrar,
    token_base: u64,
    params: Arc<ServerParams>,
    counters: ListenerCounters,
    connections_max: usize,
    login_timeout: Duration,
    connections: Slab<Connection>,
    outbox: Outbox,
    rng: Rng,
    read_buffer: Vec<u8>,
    scratch: Vec<u8>,
    /// Nothing is read from any connection for now.
    is_paused: bool,
    check_at: Nanos,
    /// When connections are accepted again, after the system had refused to.
    accept_at: Nanos,
}

/// What is counted of a port.
#[derive(Clone, Debug, Default)]
pub struct ListenerCounters {
    /// Its connections.
    pub connections: Arc<RsslConnections>,
    /// What never became one, or never logged in.
    pub listener: Arc<RsslListener>,
}

impl ListenerCounters {
    /// Counters that are exported, with the port's name as a label.
    #[must_use]
    pub fn registered(registry: &Registry, port: &'static str) -> ListenerCounters {
        let counters = ListenerCounters::default();
        registry.register(&[("port", port)], counters.connections.clone());
        registry.register(&[("port", port)], counters.listener.clone());
        counters
    }
}

/// What a status page shows of a connection.
#[derive(Clone, Debug)]
#[allow(missing_docs)]
pub struct ConnectionInfo {
    pub connection: ConnectionId,
    pub peer: SocketAddr,
    pub backlog_bytes: usize,
    pub backlog_high_water_bytes: usize,
    pub memory_bytes: usize,
}

/// How often timers of connections are looked at: their shortest, a third of a ping timeout, is seconds.
const CHECK_INTERVAL: Duration = Duration::from_millis(500);
/// Connections beyond the limit that may be in the middle of being refused.
const REFUSALS_MAX: usize = 128;

impl Listener {
    /// Listens on a port (0: any free one). Descriptors are added to `registrar` under tokens whose upper 32
    /// bits are `token_space`. At most `read_bytes` are taken from a connection at a time, which bounds what
    /// one turn can lead to.
    ///
    /// # Errors
    /// The port is taken or a value is out of range; the error names it.
    pub fn new(
        config: &RsslConfig,
        port: u16,
        registrar: &Registrar,
        token_space: u32,
        seed: u64,
        read_bytes: usize,
        counters: ListenerCounters,
    ) -> io::Result<Listener> {
        let params = config
            .params()
            .check()
            .map_err(|e| io::Error::new(io::ErrorKind::InvalidInput, e.to_string()))?;
        let listener = tcp::listen(SocketAddrV4::new(config.interface, port))?;
        let token_base = u64::from(token_space) << 32;
        registrar.add(&listener, Token(token_base), Interest::Read)?;
        Ok(Listener {
            listener,
            registrar: registrar.clone(),
            token_base,
            params: Arc::new(params),
            counters,
            connections_max: config.connections_max as usize,
            login_timeout: Duration::from_millis(config.login_timeout_ms.into()),
            connections: Slab::new(),
            outbox: Outbox::default(),
            rng: Rng::new(seed),
            read_buffer: vec![0; read_bytes],
            scratch: Vec::new(),
            is_paused: false,
            check_at: Nanos::ZERO,
            accept_at: Nanos::NEVER,
        })
    }

    /// The address listened on.
    ///
    /// # Errors
    /// None in practice.
    pub fn local_address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Where messages for connections are put; they leave with [`Listener::flush`].
    pub fn outbox(&mut self) -> &mut Outbox {
        &mut self.outbox
    }

    /// Stops or resumes reading from all connections: back-pressure towards those who send.
    pub fn pause(&mut self, now: Nanos, is_paused: bool, service: &mut impl Service) {
        if self.is_paused == is_paused {
            return;
        }
        self.is_paused = is_paused;
        for index in 0..self.connections.capacity() {
            if self.connections.contains(index) {
                self.update_interest(now, index, service);
            }
        }
    }

    /// A descriptor of this listener is ready.
    pub fn on_ready(&mut self, now: Nanos, ready: Ready, service: &mut impl Service) {
        match (ready.token.0 & u64::from(u32::MAX)) as usize {
            0 => self.accept(now),
            place => self.on_connection_ready(now, place - 1, ready, service),
        }
    }

    fn accept(&mut self, now: Nanos) {
        loop {
            match tcp::accept(&self.listener) {
                Ok(Some((stream, peer))) => {
                    let has_room = self.connections.len() < self.connections_max + REFUSALS_MAX;
                    if !has_room || self.add(now, stream, peer).is_err() {
                        self.counters.listener.turned_away.inc();
                    }
                }
                Ok(None) => return,
                Err(_) => return self.rest(now),
            }
        }
    }

    /// Out of descriptors, most likely: the connection stays in the queue and the listener ready, so that
    /// without a rest the thread would do nothing but fail to accept it.
    fn rest(&mut self, now: Nanos) {
        self.counters.listener.accept_failures.inc();
        let token = Token(self.token_base);
        if self.registrar.change(&self.listener, token, Interest::Nothing).is_ok() {
            self.accept_at = now + CHECK_INTERVAL;
        }
    }

    fn end_rest(&mut self, now: Nanos) {
        let token = Token(self.token_base);
        let is_back = self.registrar.change(&self.listener, token, Interest::Read).is_ok();
        self.accept_at = if is_back { Nanos::NEVER } else { now + CHECK_INTERVAL };
    }

    fn add(&mut self, now: Nanos, stream: TcpStream, peer: SocketAddr) -> io::Result<()> {
        let entry = self.connections.vacant_entry();
        let index = entry.key();
        self.registrar.add(&stream, Token(self.token_base + index as u64 + 1), Interest::Read)?;
        let rssl = ServerConnection::new(now, &self.params, &self.counters.connections, self.rng.next_u64());
        entry.insert(Connection::new(stream, rssl, peer));
        self.outbox.add(ConnectionId(index as u32));
        Ok(())
    }

    fn on_connection_ready(&mut self, now: Nanos, index: usize, ready: Ready, service: &mut impl Service) {
        let Some(connection) = self.connections.get_mut(index) else { return };
        if ready.writable
            && let Err(reason) = connection.write_backlog()
        {
            self.close(now, index, &reason, service);
            return;
        }
        if ready.readable
            && let Err(reason) = self.read(now, index, service)
        {
            self.close(now, index, &reason, service);
            return;
        }
        self.update_interest(now, index, service);
    }

    fn read(&mut self, now: Nanos, index: usize, service: &mut impl Service) -> Result<(), CloseReason> {
        let is_full = self.connections.len() > self.connections_max;
        let connection = &mut self.connections[index];
        let bytes = match tcp::read(&connection.stream, &mut self.read_buffer) {
            Ok(Moved::Bytes(count)) => &self.read_buffer[..count],
            Ok(Moved::WouldBlock) => return Ok(()),
            Ok(Moved::End) => return Err(connection.rssl.on_disconnected(Disconnect::EndOfStream)),
            Err(_) => return Err(connection.broken()),
        };
        let mut bridge = Bridge {
            id: ConnectionId(index as u32),
            peer: connection.peer,
            now,
            is_full,
            is_announced: &mut connection.is_announced,
            is_unwanted: &mut connection.is_unwanted,
            outbox: &mut self.outbox,
            service,
        };
        let was_announced = *bridge.is_announced;
        let result = connection.rssl.on_bytes(now, bytes, &mut bridge);
        if connection.is_announced && !was_announced {
            connection.login_until = now + self.login_timeout;
        }
        // The answer to a handshake, and the nak to one that is refused.
        let written = connection.write_backlog();
        result.and(written)
    }

    fn update_interest(&mut self, now: Nanos, index: usize, service: &mut impl Service) {
        let token = Token(self.token_base + index as u64 + 1);
        let (paused, registrar) = (self.is_paused, &self.registrar);
        let Some(connection) = self.connections.get_mut(index) else { return };
        if connection.update_interest(registrar, token, paused).is_err() {
            let reason = connection.broken();
            self.close(now, index, &reason, service);
        }
    }

    fn close(&mut self, now: Nanos, index: usize, reason: &CloseReason, service: &mut impl Service) {
        let Some(mut gone) = self.connections.try_remove(index) else { return };
        // A nak or a last status; the connection is gone whether it gets through or not.
        let _ = gone.write_backlog();
        let id = ConnectionId(index as u32);
        self.outbox.remove(id);
        if gone.is_announced {
            service.on_closed(now, id, reason, &mut self.outbox);
        }
    }

    /// Frames and writes everything in the outbox.
    pub fn flush(&mut self, now: Nanos, service: &mut impl Service) {
        let dirty = self.outbox.take_dirty();
        for &id in &dirty {
            let index = id.0 as usize;
            let Some(connection) = self.connections.get_mut(index) else { continue };
            let (log, entries) = self.outbox.parts(id);
            let mut result = connection.write_entries(log, entries, &mut self.scratch);
            if result.is_ok() && connection.is_unwanted {
                result = Err(connection.stop(Stop::Application));
            }
            match result {
                Ok(()) => self.update_interest(now, index, service),
                Err(reason) => self.close(now, index, &reason, service),
            }
        }
        self.outbox.give_back_dirty(dirty);
        if self.outbox.is_idle() {
            self.outbox.clear();
        }
        self.close_unwanted(now, service);
    }

    /// Connections that the service wants closed and had nothing to tell.
    fn close_unwanted(&mut self, now: Nanos, service: &mut impl Service) {
        while let Some(id) = self.outbox.take_unwanted() {
            let Some(connection) = self.connections.get_mut(id.0 as usize) else { continue };
            if connection.is_unwanted {
                let reason = connection.stop(Stop::Application);
                self.close(now, id.0 as usize, &reason, service);
            }
        }
    }

    /// Pings, and time-outs of handshakes, logins and silent connections.
    pub fn on_wakeup(&mut self, now: Nanos, service: &mut impl Service) {
        if now >= self.accept_at {
            self.end_rest(now);
        }
        if now < self.check_at {
            return;
        }
        self.check_at = now + CHECK_INTERVAL;
        for index in 0..self.connections.capacity() {
            let Some(connection) = self.connections.get_mut(index) else { continue };
            let mut result = Ok(());
            if connection.lives_unread(self.is_paused) {
                connection.rssl.on_sign_of_life(now);
            }
            if now >= connection.rssl.next_wakeup() {
                result = connection.rssl.on_wakeup(now).and_then(|()| connection.write_backlog());
            }
            if now >= connection.login_until {
                connection.login_until = Nanos::NEVER;
                if !service.is_logged_in(ConnectionId(index as u32)) {
                    self.counters.listener.logins_overdue.inc();
                    result = Err(connection.stop(Stop::Application));
                }
            }
            match result {
                Ok(()) => self.update_interest(now, index, service),
                Err(reason) => self.close(now, index, &reason, service),
            }
        }
    }

    /// When [`Listener::on_wakeup`] is due next.
    #[must_use]
    pub fn next_wakeup(&self) -> Nanos {
        let check_at = if self.connections.is_empty() { Nanos::NEVER } else { self.check_at };
        check_at.min(self.accept_at)
    }

    /// How many connections there are.
    #[must_use]
    pub fn connection_count(&self) -> usize {
        self.connections.len()
    }

    /// All connections, for status pages.
    pub fn connections(&mut self) -> impl Iterator<Item = ConnectionInfo> + '_ {
        self.connections.iter_mut().map(|(index, c)| ConnectionInfo {
            connection: ConnectionId(index as u32),
            peer: c.peer,
            backlog_bytes: c.rssl.outbound().depth_bytes(),
            backlog_high_water_bytes: c.rssl.outbound().high_water_bytes(),
            memory_bytes: c.rssl.memory_bytes(),
        })
    }
}

/// Hands what a connection brings to the service.
struct Bridge<'a, S> {
    id: ConnectionId,
    peer: SocketAddr,
    now: Nanos,
    is_full: bool,
    is_announced: &'a mut bool,
    is_unwanted: &'a mut bool,
    outbox: &'a mut Outbox,
    service: &'a mut S,
}

impl<S: Service> Handler for Bridge<'_, S> {
    fn on_request(&mut self, _: &ConnectRequest<'_>) -> Admission {
        if self.is_full { Admission::Refuse } else { Admission::Accept }
    }

    fn on_connected(&mut self, session: &Session<'_>, _: &mut Outbound) -> ControlFlow<Stop> {
        *self.is_announced = true;
        self.service.on_connected(self.now, self.id, session, self.peer);
        ControlFlow::Continue(())
    }

    /// What comes behind the message that made the service want the connection closed is dropped.
    #[inline]
    fn on_message(&mut self, message: &[u8], _: &mut Outbound) -> ControlFlow<Stop> {
        if !*self.is_unwanted && self.service.on_message(self.now, self.id, message, self.outbox).is_break() {
            *self.is_unwanted = true;
            self.outbox.note_unwanted(self.id);
        }
        ControlFlow::Continue(())
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};

    use net::Poller;

    use super::*;

    struct Nobody;

    impl Service for Nobody {
        fn on_connected(&mut self, _: Nanos, _: ConnectionId, _: &Session<'_>, _: SocketAddr) {}
        fn on_message(&mut self, _: Nanos, _: ConnectionId, _: &[u8], _: &mut Outbox) -> ControlFlow<()> {
            ControlFlow::Continue(())
        }
        fn on_closed(&mut self, _: Nanos, _: ConnectionId, _: &CloseReason, _: &mut Outbox) {}
        fn is_logged_in(&self, _: ConnectionId) -> bool {
            false
        }
    }

    /// A client that connects and says nothing more.
    struct Mute;

    impl Handler for Mute {
        fn on_connected(&mut self, _: &Session<'_>, _: &mut Outbound) -> ControlFlow<Stop> {
            ControlFlow::Continue(())
        }
        fn on_message(&mut self, _: &[u8], _: &mut Outbound) -> ControlFlow<Stop> {
            ControlFlow::Continue(())
        }
    }

    /// Connects, and completes the handshake.
    fn connect(
        poller: &mut Poller,
        listener: &mut Listener,
        counters: &ListenerCounters,
        now: Nanos,
    ) -> TcpStream {
        let address = listener.local_address().expect("it is bound");
        let mut stream = TcpStream::connect(address).expect("it listens");
        stream.set_nonblocking(true).expect("a socket");
        let params = Arc::new(rssl::ClientConfig::default().check().expect("the defaults are good"));
        let version = params.config().version_max;
        let mut client = rssl::ClientConnection::new(now, &params, &Arc::default(), version, 3);
        while counters.connections.accepted.get() == 0 {
            let written = stream.write(client.outbound().flush()).expect("the socket has room");
            client.outbound().consume(written);
            serve(poller, listener, now);
            let mut answer = [0; 1024];
            if let Ok(count) = stream.read(&mut answer) {
                client.on_bytes(now, &answer[..count], &mut Mute).expect("the server lets it in");
            }
        }
        stream
    }

    /// Hands what is ready now to the listener; returns how much it was.
    fn serve(poller: &mut Poller, listener: &mut Listener, now: Nanos) -> usize {
        let ready: Vec<Ready> = poller.wait(Some(Duration::ZERO)).expect("sockets of this test").collect();
        ready.iter().for_each(|ready| listener.on_ready(now, *ready, &mut Nobody));
        ready.len()
    }

    #[test]
    fn after_a_refusal_of_the_system_waiting_connections_rest_and_are_taken_later() {
        let mut poller = Poller::new().expect("descriptors are left");
        let registrar = poller.registrar().clone();
        let counters = ListenerCounters::default();
        let mut listener = Listener::new(&RsslConfig::default(), 0, &registrar, 1, 7, 4096, counters.clone())
            .expect("some port is free");
        let start = Nanos(1_000);
        assert_eq!(listener.next_wakeup(), Nanos::NEVER, "nothing to do without connections");
        listener.rest(start);
        let port = listener.local_address().expect("it is bound").port();
        let _waiting = TcpStream::connect(("127.0.0.1", port)).expect("the queue has room");
        assert_eq!(serve(&mut poller, &mut listener, start), 0, "the thread may sleep");
        assert_eq!(listener.next_wakeup(), start + CHECK_INTERVAL);
        listener.on_wakeup(start + CHECK_INTERVAL / 2, &mut Nobody);
        assert_eq!(serve(&mut poller, &mut listener, start), 0, "not yet");
        listener.on_wakeup(start + CHECK_INTERVAL, &mut Nobody);
        assert_eq!(serve(&mut poller, &mut listener, start + CHECK_INTERVAL), 1);
        assert_eq!(listener.connection_count(), 1);
        assert!(listener.next_wakeup() > start + CHECK_INTERVAL, "the rest is over");
        assert_eq!(counters.listener.accept_failures.get(), 1);
    }

    #[test]
    fn connections_far_beyond_the_limit_are_closed_unheard() {
        let mut poller = Poller::new().expect("descriptors are left");
        let (registrar, counters) = (poller.registrar().clone(), ListenerCounters::default());
        let config = RsslConfig { connections_max: 1, ..RsslConfig::default() };
        let mut listener =
            Listener::new(&config, 0, &registrar, 1, 7, 4096, counters.clone()).expect("some port is free");
        let address = listener.local_address().expect("it is bound");
        let all: Vec<TcpStream> =
            (0..REFUSALS_MAX + 3).map(|_| TcpStream::connect(address).expect("there is room")).collect();
        serve(&mut poller, &mut listener, Nanos(1));
        assert_eq!(listener.connection_count(), 1 + REFUSALS_MAX);
        assert_eq!(counters.listener.turned_away.get(), (all.len() - 1 - REFUSALS_MAX) as u64);
    }

    #[test]
    fn who_does_not_log_in_in_time_is_closed_and_counted() {
        let mut poller = Poller::new().expect("descriptors are left");
        let (registrar, counters) = (poller.registrar().clone(), ListenerCounters::default());
        let config = RsslConfig::default();
        let mut listener =
            Listener::new(&config, 0, &registrar, 1, 7, 4096, counters.clone()).expect("some port is free");
        let start = Nanos(1_000);
        let _stream = connect(&mut poller, &mut listener, &counters, start);
        let limit = Duration::from_millis(config.login_timeout_ms.into());
        listener.on_wakeup(start + limit / 2, &mut Nobody);
        assert_eq!((listener.connection_count(), counters.listener.logins_overdue.get()), (1, 0));
        listener.on_wakeup(start + limit + CHECK_INTERVAL, &mut Nobody);
        assert_eq!((listener.connection_count(), counters.listener.logins_overdue.get()), (0, 1));
        assert_eq!(counters.connections.closed_application.get(), 1);
    }

    #[test]
    fn a_slow_peer_that_still_takes_what_is_sent_is_not_silent_though_its_pings_are_not_read() {
        let mut poller = Poller::new().expect("descriptors are left");
        let (registrar, counters) = (poller.registrar().clone(), ListenerCounters::default());
        let config = RsslConfig { login_timeout_ms: 600_000, ..RsslConfig::default() };
        let mut listener =
            Listener::new(&config, 0, &registrar, 1, 7, 4096, counters.clone()).expect("some port is free");
        let mut now = Nanos(1_000);
        let mut stream = connect(&mut poller, &mut listener, &counters, now);
        let id = ConnectionId(0);
        while listener.connections[0].interest_is_read() {
            listener.outbox().send(id, &[0; 60_000]);
            listener.flush(now, &mut Nobody);
        }
        let mut taken = vec![0; 4 << 20];
        for _ in 0..20 {
            now += Duration::from_secs(10);
            while stream.read(&mut taken).is_ok() {}
            serve(&mut poller, &mut listener, now);
            while listener.connections[0].interest_is_read() {
                listener.outbox().send(id, &[0; 60_000]);
                listener.flush(now, &mut Nobody);
            }
            listener.on_wakeup(now, &mut Nobody);
            assert_eq!(listener.connection_count(), 1);
        }
        for _ in 0..10 {
            now += Duration::from_secs(10);
            listener.on_wakeup(now, &mut Nobody);
        }
        assert_eq!(listener.connection_count(), 0, "it takes nothing any more");
        assert_eq!(counters.connections.closed_silent.get(), 1);
    }
}

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use counters::table::Listener as Counters;
use counters::{CounterSet, Registry};
use net::tcp::Moved;
use net::tls::{ServerTls, UnixSeconds};
use net::{Addresses, Interest, Ready, Registrar, Token, Transport};
use units::Nanos;

use super::closing::{CLOSING_BIT, Closings};
use super::connection::Connection;
use super::doors::{Accepted, DOORS_MAX, Doors, Ports};
use super::expiry::ExpiryWatch;
use super::places::Places;
use super::protocol::{Bridge, Endpoint, PortEvent, Protocol, ReasonOf, Service};
use crate::{ConnectionId, ConnectionInfo, Outbox};

/// What is counted of a port; `C` is what its protocol counts.
#[derive(Debug, Default)]
pub struct ListenerCounters<C> {
    /// Its connections.
    pub connections: Arc<C>,
    /// What never became one, or never logged in.
    pub listener: Arc<Counters>,
}

/// The same counters once more, whatever they are.
impl<C> Clone for ListenerCounters<C> {
    fn clone(&self) -> Self {
        ListenerCounters { connections: Arc::clone(&self.connections), listener: Arc::clone(&self.listener) }
    }
}

impl<C: CounterSet + Default + 'static> ListenerCounters<C> {
    /// Counters that are exported, with the port's name as a label.
    #[must_use]
    pub fn registered(registry: &Registry, port: &'static str) -> ListenerCounters<C> {
        let counters = ListenerCounters::<C>::default();
        registry.register(&[("port", port)], counters.connections.clone());
        registry.register(&[("port", port)], counters.listener.clone());
        counters
    }
}

/// What a port allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Most connections at a time; further ones are refused.
    pub connections_max: usize,
    /// Most connections of one address at a time; further ones are closed unheard.
    pub connections_per_address_max: usize,
    /// From the end of the handshake to the login.
    pub login_timeout: Duration,
    /// Most bytes that are taken from a connection at a time, which bounds what one turn can lead to.
    pub read_bytes: usize,
    /// Most bytes that wait for the sockets of all connections together; beyond, those with the most are closed.
    pub backlogs_bytes_max: u64,
}

/// A port and its connections.
pub struct Listener<P: Protocol> {
    doors: Doors,
    registrar: Registrar,
    /// Of the connection in the first place of the table.
    token_base: u64,
    protocol: P,
    counters: Arc<Counters>,
    limits: Limits,
    connections: Places<Connection<P::Endpoint>>,
    closings: Closings,
    addresses: Addresses,
    outbox: Outbox,
    read_buffer: Vec<u8>,
    scratch: Vec<u8>,
    /// Nothing is read from any connection for now.
    is_paused: bool,
    /// Connections from which nothing is read and that keep up again.
    roomy: Vec<ConnectionId>,
    /// Bytes that wait for the sockets of all connections.
    backlog_bytes: usize,
    check_at: Nanos,
    /// Connections closed for want of descriptors since that was told last, and when it may be told again.
    closed_unheard: u64,
    tell_shortage_at: Nanos,
    expiry: ExpiryWatch,
}

/// How often timers of connections are looked at: their shortest, a third of a ping timeout, is seconds.
pub(crate) const CHECK_INTERVAL: Duration = Duration::from_millis(500);
/// Want of descriptors is told as often as this.
const SHORTAGE_EVERY: Duration = Duration::from_secs(10);
/// When all backlogs together are above their limit, this part of it is made free.
const RELIEF_PART: u64 = 8;
/// Connections beyond the limit that may be in the middle of being refused.
const REFUSALS_MAX: usize = 128;

impl<P: Protocol> Listener<P> {
    /// Listens. Descriptors are added to `registrar` under tokens whose upper 32 bits are `token_space`.
    ///
    /// # Errors
    /// A port is taken, or a certificate cannot be used; the error names it.
    pub fn new(
        protocol: P,
        ports: Ports,
        limits: Limits,
        registrar: &Registrar,
        token_space: u32,
        counters: Arc<Counters>,
    ) -> io::Result<Listener<P>> {
        let token_base = u64::from(token_space) << 32;
        Ok(Listener {
            doors: Doors::open(ports, registrar, token_base)?,
            registrar: registrar.clone(),
            token_base: token_base + DOORS_MAX,
            protocol,
            counters,
            limits,
            connections: Places::new(),
            closings: Closings::new(registrar, token_base + DOORS_MAX),
            addresses: Addresses::new(limits.connections_per_address_max),
            outbox: Outbox::default(),
            read_buffer: vec![0; limits.read_bytes],
            scratch: Vec::new(),
            is_paused: false,
            roomy: Vec::new(),
            backlog_bytes: 0,
            check_at: Nanos::ZERO,
            closed_unheard: 0,
            tell_shortage_at: Nanos::ZERO,
            expiry: ExpiryWatch::default(),
        })
    }

    /// The address listened on; of an encrypted port beside a plain one see [`Listener::tls_address`].
    ///
    /// # Errors
    /// None in practice.
    pub fn local_address(&self) -> io::Result<SocketAddr> {
        self.doors.local_address()
    }

    /// The address on which encrypted connections are taken, if they are.
    ///
    /// # Errors
    /// None in practice.
    pub fn tls_address(&self) -> io::Result<Option<SocketAddr>> {
        self.doors.tls_address()
    }

    /// Where messages for connections are put; they leave with [`Listener::flush`].
    pub fn outbox(&mut self) -> &mut Outbox {
        &mut self.outbox
    }

    /// Stops or resumes reading from all connections: back-pressure towards those who send.
    pub fn pause(&mut self, now: Nanos, is_paused: bool, service: &mut impl Service<P>) {
        if self.is_paused == is_paused {
            return;
        }
        self.is_paused = is_paused;
        for index in 0..self.connections.end() {
            if self.connections.get(index).is_some() {
                self.update_interest(now, index, service);
            }
        }
    }

    /// A descriptor of this listener is ready.
    pub fn on_ready(&mut self, now: Nanos, ready: Ready, service: &mut impl Service<P>) {
        match ready.token.0 & u64::from(u32::MAX) {
            door @ 0..DOORS_MAX => self.accept(now, door as usize, service),
            place if (place - DOORS_MAX) & CLOSING_BIT != 0 => {
                self.closings.on_ready(ready, &mut self.read_buffer);
            }
            place => self.on_connection_ready(now, (place - DOORS_MAX) as usize, ready, service),
        }
    }

    fn accept(&mut self, now: Nanos, door: usize, service: &mut impl Service<P>) {
        loop {
            match self.doors.accept(door) {
                Ok(Some(Accepted::Connection(transport, peer))) => self.admit(now, transport, peer),
                Ok(Some(Accepted::Unheard)) => {
                    self.counters.descriptors_short.inc();
                    self.closed_unheard += 1;
                    self.tell_of_shortage(now, None, service);
                }
                Ok(None) => return,
                Err(ref error) => return self.rest(now, error, service),
            }
        }
    }

    #[cold]
    fn rest(&mut self, now: Nanos, error: &io::Error, service: &mut impl Service<P>) {
        self.counters.accept_failures.inc();
        self.doors.rest(now);
        self.tell_of_shortage(now, Some(error), service);
    }

    #[cold]
    fn tell_of_shortage(&mut self, now: Nanos, error: Option<&io::Error>, service: &mut impl Service<P>) {
        if now >= self.tell_shortage_at {
            self.tell_shortage_at = now + SHORTAGE_EVERY;
            let closed = std::mem::take(&mut self.closed_unheard);
            service.on_port_event(PortEvent::OutOfDescriptors { closed, error });
        }
    }

    fn admit(&mut self, now: Nanos, transport: Transport, peer: SocketAddr) {
        if self.connections.len() >= self.limits.connections_max + REFUSALS_MAX {
            return self.counters.turned_away.inc();
        }
        if !self.addresses.admit(peer.ip()) {
            return self.counters.address_full.inc();
        }
        if self.add(now, transport, peer).is_err() {
            self.addresses.release(peer.ip());
            self.counters.turned_away.inc();
        }
    }

    fn add(&mut self, now: Nanos, transport: Transport, peer: SocketAddr) -> io::Result<()> {
        let index = self.connections.next();
        self.registrar.add(&transport, Token(self.token_base + index as u64), Interest::Read)?;
        self.connections.insert(Connection::new(transport, self.protocol.accept(now), peer));
        self.outbox.add(ConnectionId(index as u32));
        Ok(())
    }

    fn on_connection_ready(&mut self, now: Nanos, index: usize, ready: Ready, service: &mut impl Service<P>) {
        let Some(connection) = self.connections.get_mut(index) else { return };
        if ready.writable
            && let Err(reason) = connection.write_backlog()
        {
            self.close(now, index, &reason, service);
            return;
        }
        if connection.is_held && ready.readable {
            // Nothing is waited for but room to write: the peer is gone.
            let reason = connection.broken();
            return self.close(now, index, &reason, service);
        }
        if ready.readable
            && let Err(reason) = self.read(now, index, service)
        {
            self.close(now, index, &reason, service);
            return;
        }
        self.update_interest(now, index, service);
    }

    /// Reads from the socket once, and what an encrypted connection holds beyond that.
    fn read(&mut self, now: Nanos, index: usize, service: &mut impl Service<P>) -> Result<(), ReasonOf<P>> {
        loop {
            self.read_once(now, index, service)?;
            let connection = &self.connections[index];
            if connection.is_held || !connection.transport.may_hold_input() {
                return Ok(());
            }
        }
    }

    fn read_once(
        &mut self,
        now: Nanos,
        index: usize,
        service: &mut impl Service<P>,
    ) -> Result<(), ReasonOf<P>> {
        let connection = &mut self.connections[index];
        let was_handshaking = connection.transport.is_handshaking();
        let moved = connection.transport.read(&mut self.read_buffer);
        if was_handshaking && !connection.transport.is_handshaking() {
            self.counters.tls_handshakes.inc();
        }
        let count = match moved {
            Ok(Moved::Bytes(count)) => count,
            Ok(Moved::WouldBlock) => return Ok(()),
            Ok(Moved::End) => return Err(connection.ended()),
            Err(error) => {
                if was_handshaking {
                    service.on_port_event(PortEvent::TlsRefused { peer: connection.peer, error: &error });
                }
                return Err(connection.broken());
            }
        };
        let input = std::mem::take(&mut self.read_buffer);
        let taken = self.hand_over(now, index, &input[..count], service);
        self.read_buffer = input;
        let connection = &mut self.connections[index];
        // The answer to a handshake, and the nak to one that is refused.
        let written = connection.write_backlog();
        let taken = taken?;
        written?;
        if taken < count {
            connection.is_held = true;
            connection.held_input.extend_from_slice(&self.read_buffer[taken..count]);
        }
        Ok(())
    }

    /// Hands what a connection brings to its end of the protocol, until the service is busy with it; returns how
    /// much that was.
    fn hand_over<S: Service<P>>(
        &mut self,
        now: Nanos,
        index: usize,
        input: &[u8],
        service: &mut S,
    ) -> Result<usize, ReasonOf<P>> {
        let is_full = self.connections.len() > self.limits.connections_max;
        let id = ConnectionId(index as u32);
        let connection = &mut self.connections[index];
        let mut taken = 0;
        while taken < input.len() && (connection.is_unwanted || !service.is_busy(id)) {
            let end = input.len().min(taken.saturating_add(S::SLICE_BYTES));
            let mut bridge = Bridge {
                id,
                peer: connection.peer,
                now,
                is_full,
                is_encrypted: matches!(connection.transport, Transport::Tls(_)),
                is_announced: &mut connection.is_announced,
                is_unwanted: &mut connection.is_unwanted,
                outbox: &mut self.outbox,
                service,
            };
            let was_announced = *bridge.is_announced;
            let result =
                self.protocol.on_bytes(now, &mut connection.endpoint, &input[taken..end], &mut bridge);
            if connection.is_announced && !was_announced {
                connection.login_until = now + self.limits.login_timeout;
            }
            result?;
            taken = end;
        }
        if service.is_busy(id) {
            connection.is_held = true;
        }
        Ok(taken)
    }

    /// The service is no longer busy with a connection: what was read from it meanwhile is handled, and more is
    /// read.
    pub fn resume(&mut self, now: Nanos, id: ConnectionId, service: &mut impl Service<P>) {
        let index = id.0 as usize;
        let Some(connection) = self.connections.get_mut(index) else { return };
        if !std::mem::take(&mut connection.is_held) {
            return;
        }
        let mut input = std::mem::take(&mut connection.held_input);
        let mut result = self.hand_over(now, index, &input, service);
        if let Ok(taken @ 1..) = result {
            input.drain(..taken);
        }
        let connection = &mut self.connections[index];
        connection.held_input = input;
        // An encrypted connection may hold input of which the poller knows nothing.
        if result.is_ok() && !connection.is_held && connection.transport.may_hold_input() {
            result = self.read(now, index, service).map(|()| 0);
        }
        match result {
            Ok(_) => self.update_interest(now, index, service),
            Err(reason) => self.close(now, index, &reason, service),
        }
    }

    /// Connections with which the service was busy and that keep up again, since the last call.
    pub fn take_roomy(&mut self) -> Vec<ConnectionId> {
        std::mem::take(&mut self.roomy)
    }

    /// Whether a connection takes what it is sent about as fast as it comes; also if there is none.
    pub fn keeps_up(&mut self, id: ConnectionId) -> bool {
        self.connections
            .get_mut(id.0 as usize)
            .is_none_or(|connection| connection.endpoint.backlog().keeps_up())
    }

    fn update_interest(&mut self, now: Nanos, index: usize, service: &mut impl Service<P>) {
        let token = Token(self.token_base + index as u64);
        let (paused, registrar) = (self.is_paused, &self.registrar);
        let Some(connection) = self.connections.get_mut(index) else { return };
        let result = connection.update_interest(registrar, token, paused, &mut self.backlog_bytes);
        self.outbox.note_behind(ConnectionId(index as u32), connection.lags);
        match result {
            Ok(true) if connection.is_held => self.roomy.push(ConnectionId(index as u32)),
            Ok(_) => {}
            Err(_) => {
                let reason = connection.broken();
                self.close(now, index, &reason, service);
            }
        }
    }

    fn close(&mut self, now: Nanos, index: usize, reason: &ReasonOf<P>, service: &mut impl Service<P>) {
        let Some(mut gone) = self.connections.take(index) else { return };
        // A nak or a last status; the connection is gone whether it gets through or not.
        let _ = gone.write_backlog();
        let id = ConnectionId(index as u32);
        self.backlog_bytes -= gone.counted_backlog;
        self.addresses.release(gone.peer.ip());
        self.counters.tls_unfinished.add(u64::from(gone.transport.is_handshaking()));
        self.outbox.remove(id);
        if gone.is_announced {
            service.on_closed(now, id, reason, &mut self.outbox);
        }
        self.closings.take(now, gone, &mut self.read_buffer);
    }

    /// Ends the port: no more connections are taken, and those there are end with the next [`Listener::flush`],
    /// behind all that waits for them, which is written until `until`. [`Listener::has_ended`] tells when.
    pub fn end(&mut self, until: Nanos) {
        self.doors.close();
        self.closings.end_at(until);
        for (index, connection) in self.connections.iter_mut() {
            connection.is_unwanted = true;
            self.outbox.note_unwanted(ConnectionId(index as u32));
        }
    }

    #[cfg(test)]
    fn closing_count(&self) -> usize {
        self.closings.len()
    }

    /// Whether no connection is left, not even one that is being closed.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.connections.is_empty() && self.closings.is_empty()
    }

    /// Frames and writes everything in the outbox.
    pub fn flush(&mut self, now: Nanos, service: &mut impl Service<P>) {
        let dirty = self.outbox.take_dirty();
        for &id in &dirty {
            let index = id.0 as usize;
            let Some(connection) = self.connections.get_mut(index) else {
                self.outbox.remove(id);
                continue;
            };
            let (log, entries) = self.outbox.parts(id);
            let mut result = connection.write_entries(&mut self.protocol, log, entries, &mut self.scratch);
            if result.is_ok() && connection.is_unwanted {
                result = Err(connection.stop());
            }
            match result {
                Ok(()) => self.update_interest(now, index, service),
                Err(reason) => self.close(now, index, &reason, service),
            }
        }
        self.outbox.give_back_dirty(dirty);
        if self.outbox.is_idle() {
            self.protocol.on_log_cleared();
            self.outbox.clear();
        }
        for id in self.outbox.take_short() {
            self.counters.output_overflows.inc();
            self.cut_off(now, id, service);
        }
        self.close_unwanted(now, service);
        if self.backlog_bytes as u64 > self.limits.backlogs_bytes_max {
            self.relieve(now, service);
        }
        self.connections.release(|index| service.knows(ConnectionId(index as u32)));
        self.counters.backlog_bytes.set(self.backlog_bytes as u64);
    }

    /// Closes those who have most waiting for them, until some room is left for the others.
    #[cold]
    fn relieve(&mut self, now: Nanos, service: &mut impl Service<P>) {
        let mut waiting: Vec<(usize, usize)> =
            self.connections.iter().map(|(index, connection)| (connection.counted_backlog, index)).collect();
        waiting.sort_unstable_by_key(|(bytes, _)| std::cmp::Reverse(*bytes));
        let wanted = self.limits.backlogs_bytes_max - self.limits.backlogs_bytes_max / RELIEF_PART;
        for (_, index) in waiting {
            if self.backlog_bytes as u64 <= wanted {
                break;
            }
            self.counters.backlogs_relieved.inc();
            self.cut_off(now, ConnectionId(index as u32), service);
        }
    }

    /// Ends a connection at once.
    fn cut_off(&mut self, now: Nanos, id: ConnectionId, service: &mut impl Service<P>) {
        if let Some(connection) = self.connections.get_mut(id.0 as usize) {
            let reason = connection.stop();
            self.close(now, id.0 as usize, &reason, service);
        }
    }

    /// Closes a connection with the next [`Listener::flush`], after what is in the outbox for it.
    pub fn dismiss(&mut self, id: ConnectionId) {
        if let Some(connection) = self.connections.get_mut(id.0 as usize) {
            connection.is_unwanted = true;
            self.outbox.note_unwanted(id);
        }
    }

    /// Connections that the service wants closed and had nothing to tell.
    fn close_unwanted(&mut self, now: Nanos, service: &mut impl Service<P>) {
        while let Some(id) = self.outbox.take_unwanted() {
            if self.connections.get(id.0 as usize).is_some_and(|connection| connection.is_unwanted) {
                self.cut_off(now, id, service);
            }
        }
    }

    /// Pings, and time-outs of handshakes, logins and silent connections.
    pub fn on_wakeup(&mut self, now: Nanos, service: &mut impl Service<P>) {
        self.look_after_doors(now, service);
        self.closings.on_wakeup(now);
        if now < self.check_at {
            return;
        }
        self.check_at = now + CHECK_INTERVAL;
        for index in 0..self.connections.end() {
            let Some(connection) = self.connections.get_mut(index) else { continue };
            let mut result = Ok(());
            if connection.lives_unread(self.is_paused) {
                connection.endpoint.on_sign_of_life(now);
            }
            if now >= connection.endpoint.next_wakeup() {
                result = connection.endpoint.on_wakeup(now).and_then(|()| connection.write_backlog());
            }
            if now >= connection.login_until {
                connection.login_until = Nanos::NEVER;
                if !service.is_logged_in(ConnectionId(index as u32)) {
                    self.counters.logins_overdue.inc();
                    result = Err(connection.stop());
                }
            }
            match result {
                Ok(()) => self.update_interest(now, index, service),
                Err(reason) => self.close(now, index, &reason, service),
            }
        }
    }

    /// Looks when the certificate in use expires.
    fn look_at_expiry(&mut self, service: &mut impl Service<P>) {
        let Listener { doors, expiry, counters, .. } = self;
        let Some((file, validity)) = doors.tls().and_then(ServerTls::validity) else { return };
        counters.certificate_expires.set(validity.until.0.max(0).cast_unsigned());
        let now = UnixSeconds::now();
        if expiry.is_due(validity, now) {
            service.on_port_event(PortEvent::CertificateExpires { file, until: validity.until, now });
        }
    }

    fn look_after_doors(&mut self, now: Nanos, service: &mut impl Service<P>) {
        let is_certificate_due = self.doors.is_refresh_due(now);
        match self.doors.on_wakeup(now) {
            Ok(false) => {}
            Ok(true) => {
                self.counters.tls_reloads.inc();
                service.on_port_event(PortEvent::CertificateReloaded);
            }
            Err(ref error) => {
                self.counters.tls_reload_failures.inc();
                service.on_port_event(PortEvent::CertificateUnusable { error });
            }
        }
        if is_certificate_due {
            self.look_at_expiry(service);
        }
    }

    /// When [`Listener::on_wakeup`] is due next.
    #[must_use]
    pub fn next_wakeup(&self) -> Nanos {
        let check_at = if self.connections.is_empty() { Nanos::NEVER } else { self.check_at };
        check_at.min(self.doors.next_wakeup()).min(self.closings.next_wakeup())
    }

    /// How many connections there are.
    #[must_use]
    pub fn connection_count(&self) -> usize {
        self.connections.len()
    }

    /// All connections, for status pages.
    pub fn connections(&mut self) -> impl Iterator<Item = ConnectionInfo> + '_ {
        self.connections_after(None)
    }

    /// The connections in the order of their numbers, from the one behind `after` on, for status pages.
    pub fn connections_after(
        &mut self,
        after: Option<ConnectionId>,
    ) -> impl Iterator<Item = ConnectionInfo> + '_ {
        let is_before = move |index: usize| after.is_some_and(|after| index <= after.0 as usize);
        let numbered = self.connections.iter_mut().skip_while(move |(index, _)| is_before(*index));
        numbered.map(|(index, c)| c.info(ConnectionId(index as u32)))
    }

    /// One connection, for status pages; `None` if there is none of this number.
    pub fn connection(&mut self, id: ConnectionId) -> Option<ConnectionInfo> {
        self.connections.get_mut(id.0 as usize).map(|c| c.info(id))
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{Ipv4Addr, TcpStream};
    use std::ops::ControlFlow;

    use connection::Disconnect;
    use net::Poller;

    use super::*;
    use crate::{Backlog, Entry, Traffic};

    /// A protocol whose connections do nothing.
    struct Mute;

    impl Protocol for Mute {
        type Endpoint = Idle;
        type Session<'a> = ();
        type Message<'a> = ();

        fn accept(&mut self, _: Nanos) -> Idle {
            Idle { depth_bytes: 0 }
        }

        fn on_bytes<S: Service<Mute>>(
            &mut self,
            _: Nanos,
            _: &mut Idle,
            _: &[u8],
            _: &mut Bridge<'_, S>,
        ) -> Result<(), ()> {
            Ok(())
        }

        fn frame(&mut self, _: &mut Idle, _: &[u8], _: &mut &[Entry], _: &mut Vec<u8>) -> Result<(), ()> {
            Ok(())
        }
    }

    struct Idle {
        depth_bytes: usize,
    }

    impl Endpoint for Idle {
        type Reason = ();

        fn pending(&mut self) -> &[u8] {
            &[]
        }
        fn consume(&mut self, _: usize) {}
        fn keep(&mut self, _: &[u8], _: usize) -> Result<(), ()> {
            Ok(())
        }
        fn backlog(&mut self) -> Backlog {
            Backlog { depth_bytes: self.depth_bytes, limit_bytes: 1 << 20, ..Backlog::default() }
        }
        fn traffic(&mut self) -> Traffic {
            Traffic::default()
        }
        fn memory_bytes(&self) -> usize {
            0
        }
        fn on_sign_of_life(&mut self, _: Nanos) {}
        fn on_wakeup(&mut self, _: Nanos) -> Result<(), ()> {
            Ok(())
        }
        fn next_wakeup(&self) -> Nanos {
            Nanos::NEVER
        }
        fn on_disconnected(&mut self, _: Disconnect) {}
        fn stop(&mut self) {}
    }

    struct Nobody;

    impl Service<Mute> for Nobody {
        fn on_connected(&mut self, _: Nanos, _: ConnectionId, _: &(), _: SocketAddr, _: &mut Outbox) {}
        fn on_message(&mut self, _: Nanos, _: ConnectionId, _: (), _: &mut Outbox) -> ControlFlow<()> {
            ControlFlow::Continue(())
        }
        fn on_closed(&mut self, _: Nanos, _: ConnectionId, _: &(), _: &mut Outbox) {}
        fn is_logged_in(&self, _: ConnectionId) -> bool {
            false
        }
    }

    /// What was told.
    #[derive(Default)]
    struct Told(Vec<String>);

    impl Service<Mute> for Told {
        fn on_connected(&mut self, _: Nanos, _: ConnectionId, _: &(), _: SocketAddr, _: &mut Outbox) {}
        fn on_message(&mut self, _: Nanos, _: ConnectionId, _: (), _: &mut Outbox) -> ControlFlow<()> {
            ControlFlow::Continue(())
        }
        fn on_closed(&mut self, _: Nanos, _: ConnectionId, _: &(), _: &mut Outbox) {}
        fn is_logged_in(&self, _: ConnectionId) -> bool {
            false
        }
        fn on_port_event(&mut self, event: PortEvent<'_>) {
            assert!(event.is_fault());
            self.0.push(event.to_string());
        }
    }

    fn listen(poller: &Poller, connections_max: usize) -> (Listener<Mute>, Arc<Counters>) {
        let counters = Arc::<Counters>::default();
        let ports = Ports { interface: Ipv4Addr::LOCALHOST, port: 0, tls: None };
        let limits = Limits {
            connections_max,
            connections_per_address_max: 1000,
            login_timeout: Duration::from_secs(15),
            read_bytes: 4096,
            backlogs_bytes_max: 1 << 30,
        };
        let listener = Listener::new(Mute, ports, limits, poller.registrar(), 1, Arc::clone(&counters));
        (listener.expect("some port is free"), counters)
    }

    /// Hands what is ready now to the listener; returns how much it was.
    fn serve(poller: &mut Poller, listener: &mut Listener<Mute>, now: Nanos) -> usize {
        let ready: Vec<Ready> = poller.wait(Some(Duration::ZERO)).expect("sockets of this test").collect();
        ready.iter().for_each(|ready| listener.on_ready(now, *ready, &mut Nobody));
        ready.len()
    }

    #[test]
    fn after_a_refusal_of_the_system_waiting_connections_rest_and_are_taken_later() {
        let mut poller = Poller::new().expect("descriptors are left");
        let (mut listener, counters) = listen(&poller, 100);
        let start = Nanos(1_000);
        assert_eq!(listener.next_wakeup(), Nanos::NEVER, "nothing to do without connections");
        let mut told = Told::default();
        listener.rest(start, &io::Error::other("none left"), &mut told);
        listener.rest(start, &io::Error::other("none left"), &mut told);
        assert_eq!(
            told.0,
            ["connections cannot be accepted, those that wait rest: none left"],
            "it is rationed"
        );
        let address = listener.local_address().expect("it is bound");
        let _waiting = TcpStream::connect(address).expect("the queue has room");
        assert_eq!(serve(&mut poller, &mut listener, start), 0, "the thread may sleep");
        assert_eq!(listener.next_wakeup(), start + CHECK_INTERVAL);
        listener.on_wakeup(start + CHECK_INTERVAL / 2, &mut Nobody);
        assert_eq!(serve(&mut poller, &mut listener, start), 0, "not yet");
        listener.on_wakeup(start + CHECK_INTERVAL, &mut Nobody);
        assert_eq!(serve(&mut poller, &mut listener, start + CHECK_INTERVAL), 1);
        assert_eq!(listener.connection_count(), 1);
        assert!(listener.next_wakeup() > start + CHECK_INTERVAL, "the rest is over");
        assert_eq!(counters.accept_failures.get(), 2);
    }

    #[test]
    fn connections_that_would_take_the_last_descriptors_are_closed_unheard_and_told_in_turn() {
        let mut poller = Poller::new().expect("descriptors are left");
        let (mut listener, counters) = listen(&poller, 100);
        listener.doors.allow_descriptors_below(0);
        let address = listener.local_address().expect("it is bound");
        let mut told = Told::default();
        for (now, connections) in [(Nanos(1), 3), (Nanos(1) + SHORTAGE_EVERY, 1)] {
            let mut peers: Vec<TcpStream> =
                (0..connections).map(|_| TcpStream::connect(address).expect("the queue has room")).collect();
            let ready: Vec<Ready> = poller.wait(None).expect("sockets of this test").collect();
            ready.iter().for_each(|ready| listener.on_ready(now, *ready, &mut told));
            peers.iter_mut().for_each(|peer| assert_eq!(peer.read(&mut [0]).expect("no reset"), 0));
        }
        assert_eq!((listener.connection_count(), counters.descriptors_short.get()), (0, 4));
        let said = told.0.iter().map(|line| line.split(" closed unheard").next());
        assert_eq!(said.collect::<Vec<_>>(), [Some("1 connections were"), Some("3 connections were")]);
    }

    #[test]
    fn a_connection_that_is_dismissed_is_closed_with_the_next_flush_and_no_other() {
        let mut poller = Poller::new().expect("descriptors are left");
        let (mut listener, _) = listen(&poller, 100);
        let address = listener.local_address().expect("it is bound");
        let _both = [(); 2].map(|()| TcpStream::connect(address).expect("there is room"));
        serve(&mut poller, &mut listener, Nanos(1));
        listener.dismiss(ConnectionId(1));
        listener.dismiss(ConnectionId(77));
        assert_eq!(listener.connection_count(), 2);
        listener.flush(Nanos(2), &mut Nobody);
        assert!(listener.connection_count() == 1 && listener.connection(ConnectionId(1)).is_none());
    }

    #[test]
    fn a_connection_that_is_ended_is_drained_and_closed_when_the_peer_ends_or_its_time_is_over() {
        let mut poller = Poller::new().expect("descriptors are left");
        let (mut listener, _) = listen(&poller, 100);
        let address = listener.local_address().expect("it is bound");
        let [mut leaves, mut stays] = [(); 2].map(|()| TcpStream::connect(address).expect("there is room"));
        serve(&mut poller, &mut listener, Nanos(1));
        for peer in [&mut leaves, &mut stays] {
            peer.write_all(&[0; 100_000]).expect("buffers take it");
        }
        listener.dismiss(ConnectionId(0));
        listener.dismiss(ConnectionId(1));
        listener.flush(Nanos(2), &mut Nobody);
        assert!(listener.connection_count() == 0 && !listener.has_ended(), "both are being closed");
        for peer in [&mut leaves, &mut stays] {
            assert_eq!(peer.read(&mut [0]).expect("no reset"), 0, "the end of the stream");
        }
        drop(leaves);
        while listener.closing_count() > 1 {
            let ready: Vec<Ready> = poller.wait(None).expect("sockets of this test").collect();
            ready.iter().for_each(|ready| listener.on_ready(Nanos(3), *ready, &mut Nobody));
        }
        let due = listener.next_wakeup();
        assert!(due < Nanos(2) + Duration::from_secs(1), "it is looked after");
        listener.on_wakeup(due, &mut Nobody);
        assert!(!listener.has_ended(), "it has time");
        listener.on_wakeup(Nanos(2) + Duration::from_secs(2), &mut Nobody);
        assert!(listener.has_ended());
    }

    #[test]
    fn a_peer_that_goes_on_to_send_is_not_heard_for_ever() {
        let mut poller = Poller::new().expect("descriptors are left");
        let (mut listener, _) = listen(&poller, 100);
        let mut peer =
            TcpStream::connect(listener.local_address().expect("it is bound")).expect("there is room");
        serve(&mut poller, &mut listener, Nanos(1));
        listener.end(Nanos::NEVER);
        listener.flush(Nanos(2), &mut Nobody);
        let sends = std::thread::spawn(move || while peer.write_all(&[0; 65_536]).is_ok() {});
        while !listener.has_ended() {
            let ready: Vec<Ready> = poller.wait(None).expect("sockets of this test").collect();
            ready.iter().for_each(|ready| listener.on_ready(Nanos(3), *ready, &mut Nobody));
        }
        sends.join().expect("it ends with the connection");
    }

    #[test]
    fn connections_far_beyond_the_limit_are_closed_unheard() {
        let mut poller = Poller::new().expect("descriptors are left");
        let (mut listener, counters) = listen(&poller, 1);
        let address = listener.local_address().expect("it is bound");
        let all: Vec<TcpStream> =
            (0..REFUSALS_MAX + 3).map(|_| TcpStream::connect(address).expect("there is room")).collect();
        serve(&mut poller, &mut listener, Nanos(1));
        assert_eq!(listener.connection_count(), 1 + REFUSALS_MAX);
        assert_eq!(counters.turned_away.get(), (all.len() - 1 - REFUSALS_MAX) as u64);
    }

    /// Whoever empties it: its socket that takes more, or a flush of what came for it meanwhile.
    #[test]
    fn a_connection_with_which_the_service_is_busy_is_named_once_when_its_backlog_is_small_again() {
        let mut poller = Poller::new().expect("descriptors are left");
        let (mut listener, _) = listen(&poller, 100);
        let _peer =
            TcpStream::connect(listener.local_address().expect("it is bound")).expect("there is room");
        serve(&mut poller, &mut listener, Nanos(1));
        listener.connections[0].is_held = true;
        for (depth_bytes, roomy) in [(0, vec![]), (1 << 20, vec![]), (0, vec![ConnectionId(0)]), (0, vec![])]
        {
            listener.connections[0].endpoint.depth_bytes = depth_bytes;
            listener.update_interest(Nanos(2), 0, &mut Nobody);
            assert_eq!((listener.take_roomy(), listener.backlog_bytes), (roomy, depth_bytes));
        }
    }
}

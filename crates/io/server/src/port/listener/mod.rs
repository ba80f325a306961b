//! A port and its connections: the table of them, their sockets and timers.

mod reading;
mod writing;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use connection::{LadderConfig, RATE_GRAIN, Step};
use counters::table::Listener as Counters;
use net::{Interest, Ready, Registrar, Token, Transport, Waker};
use units::Nanos;

use super::acceptors::{ACCEPTORS_MAX, Acceptors, Ports};
use super::admission::Admission;
use super::closing::{CLOSING_BIT, Closings};
use super::connection::Connection;
use super::connection_table::ConnectionTable;
use super::exchange::{Roll, Seat};
use super::limits::{CHECK_INTERVAL, Limits};
use super::protocol::{Endpoint, Protocol, ReasonOf, Service};
use crate::{ConnectionId, ConnectionInfo, Outbox};

/// A connection is served otherwise than before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StepChange {
    /// Which.
    pub connection: ConnectionId,
    /// How it is served now.
    pub step: Step,
    /// So many bytes waited for it.
    pub backlog_bytes: usize,
    /// The oldest of them so long.
    pub oldest: Duration,
    /// What it is sent at most, in bytes a second, if that is bounded.
    pub bytes_per_second: Option<u64>,
}

/// More connections than wait at an acceptor at a time.
const WAITING_MAX: usize = 8192;

/// A port and its connections.
pub struct Listener<P: Protocol> {
    admission: Admission,
    /// Its place among the threads that serve the port, if there are several.
    seat: Option<Seat>,
    /// Messages delivered since that was measured last, and when that was.
    delivered: (u64, Nanos),
    registrar: Registrar,
    /// Of the connection in the first place of the table.
    token_base: u64,
    protocol: P,
    counters: Arc<Counters>,
    limits: Limits,
    connections: ConnectionTable<Connection<P::Endpoint>>,
    closings: Closings,
    outbox: Outbox,
    read_buffer: Vec<u8>,
    scratch: Vec<u8>,
    /// Nothing is read from any connection for now.
    is_paused: bool,
    /// Connections from which nothing is read and that keep up again.
    roomy: Vec<ConnectionId>,
    /// When a connection that does not keep up is served less, or given up; without this it is served as all are.
    ladder: Option<LadderConfig>,
    /// The same, from which that of connections with a rate is made.
    ladder_base: LadderConfig,
    /// Connections that are served otherwise than before.
    steps: Vec<StepChange>,
    /// Connections for which something waits until their rate lets more through, and when that is.
    rated: Vec<ConnectionId>,
    rated_at: Nanos,
    /// Connections that are sent rounds, and when one of them is to be looked at.
    in_rounds: Vec<ConnectionId>,
    look_at: Nanos,
    /// Bytes that wait for the sockets of all connections.
    backlog_bytes: usize,
    check_at: Nanos,
}

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
        Listener::seated(protocol, ports, limits, registrar, token_space, counters, None)
    }

    /// The same for one of several threads that serve the port.
    ///
    /// # Errors
    /// As [`Listener::new`].
    pub fn seated(
        protocol: P,
        ports: Ports,
        limits: Limits,
        registrar: &Registrar,
        token_space: u32,
        counters: Arc<Counters>,
        seat: Option<Seat>,
    ) -> io::Result<Listener<P>> {
        let token_base = u64::from(token_space) << 32;
        let acceptors = match &seat {
            Some(seat) if !seat.accepts() => {
                seat.take(Waker::new(registrar, Token(token_base))?);
                Acceptors::none(registrar, token_base)
            }
            _ => Acceptors::open(ports, registrar, token_base)?,
        };
        Ok(Listener::with(protocol, acceptors, limits, registrar, token_base, counters, seat))
    }

    /// Has no port: nobody connects.
    #[must_use]
    pub fn without_port(
        protocol: P,
        limits: Limits,
        registrar: &Registrar,
        token_space: u32,
        counters: Arc<Counters>,
    ) -> Listener<P> {
        let token_base = u64::from(token_space) << 32;
        let acceptors = Acceptors::none(registrar, token_base);
        Listener::with(protocol, acceptors, limits, registrar, token_base, counters, None)
    }

    fn with(
        protocol: P,
        acceptors: Acceptors,
        limits: Limits,
        registrar: &Registrar,
        token_base: u64,
        counters: Arc<Counters>,
        seat: Option<Seat>,
    ) -> Listener<P> {
        let roll = seat.as_ref().map(Seat::roll);
        let roll = roll.unwrap_or_else(|| Arc::new(Roll::new(limits.connections_per_address_max)));
        Listener {
            admission: Admission::new(acceptors, roll, &limits, Arc::clone(&counters)),
            seat,
            delivered: (0, Nanos::ZERO),
            registrar: registrar.clone(),
            token_base: token_base + ACCEPTORS_MAX,
            protocol,
            counters,
            limits,
            connections: ConnectionTable::new(),
            closings: Closings::new(registrar, token_base + ACCEPTORS_MAX),
            outbox: Outbox::default(),
            read_buffer: vec![0; limits.read_bytes],
            scratch: Vec::new(),
            is_paused: false,
            roomy: Vec::new(),
            ladder: None,
            ladder_base: LadderConfig::default(),
            steps: Vec::new(),
            rated: Vec::new(),
            rated_at: Nanos::NEVER,
            in_rounds: Vec::new(),
            look_at: Nanos::NEVER,
            backlog_bytes: 0,
            check_at: Nanos::ZERO,
        }
    }

    /// The address listened on; of an encrypted port beside a plain one see [`Listener::tls_address`].
    ///
    /// # Errors
    /// None in practice.
    pub fn local_address(&self) -> io::Result<SocketAddr> {
        self.admission.acceptors.local_address()
    }

    /// The address on which encrypted connections are taken, if they are.
    ///
    /// # Errors
    /// None in practice.
    pub fn tls_address(&self) -> io::Result<Option<SocketAddr>> {
        self.admission.acceptors.tls_address()
    }

    /// From now on connections that do not keep up are served by that. Without limits their backlogs are not watched.
    pub fn set_ladder(&mut self, config: LadderConfig) {
        self.ladder = Some(config).filter(LadderConfig::has_limits);
        self.ladder_base = config;
    }

    /// Connections that are served otherwise than before, since the last call, in order.
    pub fn take_steps(&mut self) -> Vec<StepChange> {
        std::mem::take(&mut self.steps)
    }

    /// Whether a connection is served otherwise, or has room that was waited for, and nobody has asked.
    #[inline]
    #[must_use]
    pub fn has_news(&self) -> bool {
        !self.steps.is_empty() || self.outbox.has_roomy()
    }

    /// Where messages for connections are put; they leave with [`Listener::flush`].
    pub fn outbox(&mut self) -> &mut Outbox {
        &mut self.outbox
    }

    /// A descriptor of this listener is ready.
    pub fn on_ready(&mut self, now: Nanos, ready: Ready, service: &mut impl Service<P>) {
        match ready.token.0 & u64::from(u32::MAX) {
            0..ACCEPTORS_MAX if self.seat.as_ref().is_some_and(|seat| !seat.accepts()) => {
                self.take_handed(now)
            }
            acceptor @ 0..ACCEPTORS_MAX => self.accept(now, acceptor as usize, service),
            place if (place - ACCEPTORS_MAX) & CLOSING_BIT != 0 => {
                self.closings.on_ready(ready, &mut self.read_buffer);
            }
            place => self.on_connection_ready(now, (place - ACCEPTORS_MAX) as usize, ready, service),
        }
    }

    fn accept(&mut self, now: Nanos, acceptor: usize, service: &mut impl Service<P>) {
        while let Some(accepted) = self.admission.next(now, acceptor, service) {
            let own = match &self.seat {
                None => Some(accepted),
                Some(seat) => seat.pass_on(accepted).inspect(|_| seat.keep()),
            };
            if let Some((transport, peer)) = own {
                self.add(now, transport, peer);
            }
        }
    }

    /// Takes connections that another thread has accepted.
    fn take_handed(&mut self, now: Nanos) {
        let handed = self.seat.as_ref().map(Seat::handed).unwrap_or_default();
        for (transport, peer) in handed {
            let added = self.add(now, transport, peer);
            // It was accepted before the port was shut.
            if let Some(late) = added.filter(|_| self.admission.acceptors.is_shut()) {
                self.dismiss(late);
            }
        }
    }

    /// Refuses who connects from now on, until [`Listener::reopen`]. Those that wait to be accepted are ended with the next
    /// [`Listener::flush`], in order: a reset would be an error to them. What is ended meanwhile is written all that waits
    /// for it, for `patience` at most.
    ///
    /// # Errors
    /// None in practice.
    pub fn shut(&mut self, now: Nanos, patience: Duration, service: &mut impl Service<P>) -> io::Result<()> {
        self.closings.set_patience(Some(patience));
        for acceptor in 0..self.admission.acceptors.len() {
            // Those that come meanwhile would keep it from ending.
            for _ in 0..WAITING_MAX {
                let Some((transport, peer)) = self.admission.next(now, acceptor, service) else { break };
                self.seat.iter().for_each(Seat::keep);
                if let Some(late) = self.add(now, transport, peer) {
                    self.dismiss(late);
                }
            }
        }
        self.admission.acceptors.shut()
    }

    /// Takes connections again after [`Listener::shut`].
    ///
    /// # Errors
    /// Another socket listens on a port by now; the error names it. The port stays shut.
    pub fn reopen(&mut self) -> io::Result<()> {
        self.admission.acceptors.reopen()?;
        self.closings.set_patience(None);
        Ok(())
    }

    fn add(&mut self, now: Nanos, transport: Transport, peer: SocketAddr) -> Option<ConnectionId> {
        let index = self.connections.next();
        let token = Token(self.token_base + index as u64);
        if self.registrar.add(&transport, token, Interest::Read).is_err() {
            self.admission.turn_away(peer.ip());
            self.seat.iter().for_each(Seat::lose);
            return None;
        }
        self.connections.insert(Connection::new(transport, self.protocol.accept(now), peer));
        let id = ConnectionId(index as u32);
        self.outbox.add(id);
        Some(id)
    }

    fn update_interest(&mut self, now: Nanos, index: usize, service: &mut impl Service<P>) {
        let token = Token(self.token_base + index as u64);
        let (paused, registrar) = (self.is_paused, &self.registrar);
        let Some(connection) = self.connections.get_mut(index) else { return };
        let result = connection.update_interest(now, registrar, token, paused, &mut self.backlog_bytes);
        let id = ConnectionId(index as u32);
        if self.outbox.take_round(id) {
            connection.end_round(now);
        }
        let change = connection.climb(now, self.ladder.as_ref());
        if let Some((next, is_new)) = connection.next_look() {
            self.look_at = self.look_at.min(next);
            self.in_rounds.extend(is_new.then_some(id));
        }
        if connection.enlists(now) {
            self.rated.push(id);
            self.rated_at = self.rated_at.min(now + RATE_GRAIN);
        }
        let is_behind = connection.is_behind(self.ladder.as_ref());
        self.outbox.note_behind(id, is_behind, connection.awaits_round());
        if let Some((step, oldest)) = change {
            let backlog_bytes = connection.counted_backlog;
            let bytes_per_second = connection.bytes_per_second();
            let change = StepChange { connection: id, step, backlog_bytes, oldest, bytes_per_second };
            if step == Step::Disconnected {
                return self.give_up(now, change, service);
            }
            self.outbox.set_conflated(id, step != Step::Tick);
            self.steps.push(change);
        }
        let Some(connection) = self.connections.get_mut(index) else { return };
        match result {
            Ok(true) if connection.is_held => self.roomy.push(ConnectionId(index as u32)),
            Ok(_) => {}
            Err(_) => {
                let reason = connection.broken();
                self.close(now, index, &reason, service);
            }
        }
    }

    /// Ends a connection for which something has waited too long.
    #[cold]
    fn give_up(&mut self, now: Nanos, change: StepChange, service: &mut impl Service<P>) {
        let index = change.connection.0 as usize;
        let Some(connection) = self.connections.get_mut(index) else { return };
        let waited_ms = u32::try_from(change.oldest.as_millis()).unwrap_or(u32::MAX);
        let reason = connection.endpoint.give_up(waited_ms);
        self.close(now, index, &reason, service);
    }

    fn close(&mut self, now: Nanos, index: usize, reason: &ReasonOf<P>, service: &mut impl Service<P>) {
        let Some(mut gone) = self.connections.take(index) else { return };
        // A nak or a last status; the connection is gone whether it gets through or not.
        gone.write_last();
        let id = ConnectionId(index as u32);
        self.backlog_bytes -= gone.counted_backlog;
        self.admission.release(gone.peer.ip());
        self.seat.iter().for_each(Seat::lose);
        self.counters.tls_unfinished.add(u64::from(gone.transport.is_handshaking()));
        self.outbox.remove(id);
        self.steps.retain(|change| change.connection != id);
        if gone.is_announced {
            service.on_closed(now, id, reason, &mut self.outbox);
        }
        self.closings.take(now, gone, &mut self.read_buffer);
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

    /// Pings, and time-outs of handshakes, logins and silent connections.
    pub fn on_wakeup(&mut self, now: Nanos, service: &mut impl Service<P>) {
        self.admission.on_wakeup(now, service);
        self.closings.on_wakeup(now);
        if now >= self.rated_at {
            self.serve_rated(now, service);
        }
        if now >= self.look_at {
            self.look_at_rounds(now, service);
        }
        if now < self.check_at {
            return;
        }
        self.check_at = now + CHECK_INTERVAL;
        self.measure(now);
        for index in 0..self.connections.end() {
            let Some(connection) = self.connections.get_mut(index) else { continue };
            let mut result = Ok(());
            if connection.lives_unheard(self.is_paused) {
                connection.endpoint.on_sign_of_life(now);
            }
            if now >= connection.endpoint.next_wakeup() {
                result = connection.endpoint.on_wakeup(now).and_then(|()| connection.write_backlog(now));
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

    /// Connections whose rate lets more through get that.
    fn serve_rated(&mut self, now: Nanos, service: &mut impl Service<P>) {
        self.rated_at = Nanos::NEVER;
        for id in std::mem::take(&mut self.rated) {
            let index = id.0 as usize;
            let Some(connection) = self.connections.get_mut(index) else { continue };
            match connection.write_rated(now) {
                Ok(()) => self.update_interest(now, index, service),
                Err(reason) => self.close(now, index, &reason, service),
            }
        }
    }

    /// Connections that are sent rounds may begin the next one.
    fn look_at_rounds(&mut self, now: Nanos, service: &mut impl Service<P>) {
        self.look_at = Nanos::NEVER;
        let mut in_rounds = std::mem::take(&mut self.in_rounds);
        // One whose number was given to another is in it twice.
        in_rounds.sort_unstable();
        in_rounds.dedup();
        for id in in_rounds {
            if let Some(connection) = self.connections.get_mut(id.0 as usize) {
                connection.take_off_list();
                self.update_interest(now, id.0 as usize, service);
            }
        }
    }

    /// Says how much there was to do since this was said last.
    fn measure(&mut self, now: Nanos) {
        let Some(seat) = &self.seat else { return };
        let (delivered, since) = std::mem::replace(&mut self.delivered, (0, now));
        let span_ms = now.since(since).as_millis().max(1);
        seat.measured((u128::from(delivered) * 1_000 / span_ms) as u64);
    }

    /// When [`Listener::on_wakeup`] is due next.
    #[must_use]
    pub fn next_wakeup(&self) -> Nanos {
        let check_at = if self.connections.is_empty() { Nanos::NEVER } else { self.check_at };
        let own = check_at.min(self.rated_at).min(self.look_at);
        own.min(self.admission.acceptors.next_wakeup()).min(self.closings.next_wakeup())
    }

    /// How many connections there are.
    #[must_use]
    pub fn connection_count(&self) -> usize {
        self.connections.len()
    }

    /// The connections that are not about to be closed, in the order of their numbers.
    pub fn ids(&self) -> impl Iterator<Item = ConnectionId> + '_ {
        let stay = self.connections.iter().filter(|(_, connection)| !connection.is_unwanted);
        stay.map(|(index, _)| ConnectionId(index as u32))
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
mod tests;

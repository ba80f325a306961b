//! Who connects to a TCP session: limits, handshakes, and receivers that stop.
//!
//! A connection is a receiver once its handshake is complete; before, nothing waits for it. Plain TCP has no
//! handshake: there a stranger is told from a receiver only by taking nothing, and costs the session one wait
//! of `tcp.receiver_stopped_timeout_us` (`tests/strangers.rs`).

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use lbt::ordered::{Backlog, Room, Source};
use net::{Addresses, Interest, Transport};
use units::Nanos;

use super::said::Said;
use super::{Client, TcpOutgoing};
use crate::MessagingConfig;
use crate::event::SourceEvent;

/// What a session allows those who connect.
pub(super) struct Guests {
    clients_max: usize,
    handshakes_max: usize,
    handshake_timeout: Duration,
    stopped_timeout: Option<Duration>,
    addresses: Addresses,
    /// Connections in their handshake, oldest first, each with when it must be complete.
    handshakes: VecDeque<(usize, Nanos)>,
    /// When the receivers that hold a full session up are looked at.
    stalls_at: Nanos,
}

/// A receiver that holds a full session up.
#[derive(Clone, Copy)]
pub(super) struct Stall {
    since: Nanos,
    /// Bytes that it had taken then.
    taken: u64,
    /// It was passed over, and is again until it takes something.
    has_stopped: bool,
}

/// Who takes so much in the time allowed is slow, not stopped.
const STOPPED_BYTES: u64 = 32 << 10;

impl Guests {
    pub(super) fn new(config: &MessagingConfig) -> Guests {
        Guests {
            clients_max: config.tcp.maximum_clients as usize,
            handshakes_max: config.tcp.maximum_handshakes as usize,
            handshake_timeout: config.tcp.handshake_timeout(),
            stopped_timeout: config.tcp.stopped_timeout(),
            addresses: Addresses::new(config.tcp.maximum_clients_per_address as usize),
            handshakes: VecDeque::new(),
            stalls_at: Nanos::NEVER,
        }
    }

    pub(super) fn next_wakeup(&self) -> Nanos {
        self.handshakes.front().map_or(Nanos::NEVER, |(_, until)| *until).min(self.stalls_at)
    }
}

impl Client {
    /// It was passed over, and has hardly taken anything since.
    fn has_stopped(&self) -> bool {
        self.stall.is_some_and(|stall| stall.has_stopped && self.taken - stall.taken < STOPPED_BYTES)
    }
}

impl TcpOutgoing {
    /// Takes a connection. It is a receiver at once if it has no handshake.
    pub(super) fn admit(&mut self, now: Nanos, transport: Transport, peer: SocketAddr) -> io::Result<()> {
        if self.receivers() >= self.guests.clients_max {
            return Err(io::Error::other("too many receivers"));
        }
        if transport.is_handshaking() && self.guests.handshakes.len() >= self.guests.handshakes_max {
            self.displace_handshake();
        }
        if !self.guests.addresses.admit(peer.ip()) {
            return Err(io::Error::other("too many connections of one address"));
        }
        let index = self.clients.vacant_key();
        if let Err(error) = self.registrar.add(&transport, self.client_token(index), Interest::Read) {
            self.guests.addresses.release(peer.ip());
            return Err(error);
        }
        let is_handshaking = transport.is_handshaking();
        let said = Said::default();
        let client =
            Client { transport, peer, cursor: None, taken: 0, stall: None, waits_for_room: false, said };
        self.clients.insert(client);
        if is_handshaking {
            self.guests.handshakes.push_back((index, now + self.guests.handshake_timeout));
            self.count_clients();
            return Ok(());
        }
        self.welcome(index);
        Ok(())
    }

    /// A connection is a receiver from now on.
    pub(super) fn welcome(&mut self, index: usize) {
        self.end_handshake(index);
        if self.receivers() > self.guests.clients_max {
            self.counters.clients_refused.inc();
            self.remove_client(index);
            return;
        }
        let Some(client) = self.clients.get_mut(index) else { return };
        let mut greeting = Vec::new();
        Source::session_header(self.session_id, &mut greeting);
        client.cursor = Some(self.backlog.cursor_after(greeting));
        self.events.push(SourceEvent::ReceiverConnected(client.peer));
        self.count_clients();
        self.write_client(index);
    }

    /// Connections that are receivers.
    fn receivers(&self) -> usize {
        self.clients.len() - self.guests.handshakes.len()
    }

    pub(super) fn count_clients(&self) {
        self.counters.num_clients.set(self.receivers() as u64);
        self.counters.handshakes_open.set(self.guests.handshakes.len() as u64);
    }

    fn end_handshake(&mut self, index: usize) {
        self.guests.handshakes.retain(|(at, _)| *at != index);
    }

    /// Forgets a connection; nothing is told.
    pub(super) fn remove_client(&mut self, index: usize) -> Option<Client> {
        let gone = self.clients.try_remove(index)?;
        self.end_handshake(index);
        self.guests.addresses.release(gone.peer.ip());
        self.count_clients();
        Some(gone)
    }

    /// Makes room for another handshake: the oldest of the address that has most goes.
    #[cold]
    fn displace_handshake(&mut self) {
        let guests = &self.guests;
        let of = |index: usize| self.clients.get(index).map(|client| client.peer.ip());
        let same =
            |index: usize| guests.handshakes.iter().filter(|(other, _)| of(*other) == of(index)).count();
        // The first of several that are equal is the oldest.
        let most = guests.handshakes.iter().map(|(index, _)| same(*index)).max();
        let oldest =
            guests.handshakes.iter().map(|(index, _)| *index).find(|index| Some(same(*index)) == most);
        if let Some(index) = oldest {
            self.counters.handshakes_displaced.inc();
            self.remove_client(index);
        }
    }

    /// Ends handshakes that took too long, and waits for receivers that have stopped.
    pub(super) fn look_after_guests(&mut self, now: Nanos) {
        while let Some(&(index, until)) = self.guests.handshakes.front()
            && now >= until
        {
            self.counters.handshakes_timed_out.inc();
            self.remove_client(index);
        }
        if now >= self.guests.stalls_at {
            self.look_at_stalls(now);
        }
    }

    /// The session is full. Receivers that are known to have stopped are passed over at once; the others are
    /// looked at.
    #[cold]
    #[inline(never)]
    pub(super) fn on_full(&mut self) {
        if self.is_source_paced {
            self.pass_over_laggards(|_| true);
        } else if self.guests.stopped_timeout.is_some() {
            self.pass_over_laggards(|client| client.has_stopped());
            if self.backlog.is_blocked() && self.guests.stalls_at == Nanos::NEVER {
                self.guests.stalls_at = Nanos::ZERO;
            }
        }
    }

    fn look_at_stalls(&mut self, now: Nanos) {
        self.guests.stalls_at = Nanos::NEVER;
        let Some(timeout) = self.guests.stopped_timeout else { return };
        let (is_full, mut next, mut stopped) = (self.backlog.is_blocked(), Nanos::NEVER, false);
        for (_, client) in &mut self.clients {
            let Some(cursor) = &client.cursor else { continue };
            let begun = Stall { since: now, taken: client.taken, has_stopped: false };
            let stall = client.stall.filter(|stall| client.taken - stall.taken < STOPPED_BYTES);
            let stall = stall.unwrap_or(begun);
            if stall.has_stopped {
                continue;
            }
            if !is_full || !self.backlog.is_laggard(cursor) {
                client.stall = None;
            } else if now >= stall.since + timeout {
                client.stall = Some(Stall { has_stopped: true, ..begun });
                self.counters.receivers_stopped.inc();
                self.events.push(SourceEvent::ReceiverTooSlow(client.peer));
                stopped = true;
            } else {
                client.stall = Some(stall);
                next = next.min(stall.since + timeout);
            }
        }
        self.guests.stalls_at = next;
        if stopped {
            self.on_full();
        }
    }

    fn pass_over_laggards(&mut self, is_meant: impl Fn(&Client) -> bool) {
        for (_, client) in &mut self.clients {
            if !is_meant(client) {
                continue;
            }
            if let Some(cursor) = &mut client.cursor
                && self.backlog.is_laggard(cursor)
            {
                let count = Backlog::pass_over(&self.backlog, cursor);
                self.counters.lbm_msgs_passed_over.add(count);
            }
        }
        self.release();
    }
}

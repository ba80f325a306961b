//! Who connects to the request port, and what all direct connections may hold (`tests/strangers.rs`).

use std::cmp::Reverse;
use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};

use net::Addresses;
use units::Nanos;

use super::Direct;
use super::connection::Connection;
use super::guest::{Guest, Overdue};
use crate::base::Base;
use crate::{ConnectionId, Handler, MessagingConfig};

/// What is allowed, and how much of it is taken.
pub(super) struct Guests {
    addresses: Addresses,
    /// Connections that were accepted.
    count: usize,
    /// Bytes that all connections hold of messages that are not whole.
    held: u64,
    /// Those that make room next, the last one first, if they have proved nothing by then.
    leaving: Vec<ConnectionId>,
}

/// Who sends so much in the time allowed for a message is slow, not stopped.
const PROGRESS_BYTES: u64 = 32 << 10;

/// Connections that are chosen together to make room.
const LEAVING_MAX: usize = 16;

impl Guests {
    pub(super) fn new(config: &MessagingConfig) -> Guests {
        let per_address = config.request_tcp_maximum_connections_per_address as usize;
        Guests { addresses: Addresses::new(per_address), count: 0, held: 0, leaving: Vec::new() }
    }

    /// A connection is gone.
    pub(super) fn on_removed(&mut self, gone: &Connection) {
        self.held -= gone.partial.held;
        if let Some(guest) = &gone.guest {
            self.addresses.release(guest.address);
            self.count -= 1;
        }
    }
}

impl Direct {
    /// Bytes have come by a connection, and were taken up to a whole message or not.
    pub(super) fn on_input(&mut self, now: Nanos, index: usize, count: usize, is_whole: bool) {
        let Some(connection) = self.connections.get_mut(index) else { return };
        if is_whole {
            connection.on_used(now);
        }
        let (held, partial) = (connection.decoder.memory_bytes() as u64, &mut connection.partial);
        self.guests.held = self.guests.held + held - partial.held;
        partial.held = held;
        partial.bytes += count as u64;
        if connection.decoder.is_at_boundary() {
            partial.since = Nanos::NEVER;
        } else if is_whole || partial.since == Nanos::NEVER || partial.bytes >= PROGRESS_BYTES {
            (partial.since, partial.bytes) = (now, 0);
        }
    }

    /// The connection of those that have proved nothing that goes first: the oldest of the address that has most.
    fn take_unproven(&mut self) -> Option<usize> {
        if let Some(index) = self.take_leaving() {
            return Some(index);
        }
        self.choose_leaving();
        self.take_leaving()
    }

    fn take_leaving(&mut self) -> Option<usize> {
        while let Some(id) = self.guests.leaving.pop() {
            if let Some(index) = self.connections.index_of(id)
                && self.connections[index].guest.as_ref().is_some_and(|guest| !guest.is_proven)
            {
                return Some(index);
            }
        }
        None
    }

    /// Looks at all connections for those that are to make room: several of an address that has many, so that who
    /// connects again and again does not make this look as often.
    fn choose_leaving(&mut self) {
        let unproven = || {
            let guests = self.connections.iter().filter_map(|(_, c)| Some((c.id, c.guest.as_ref()?)));
            guests.filter(|(_, guest)| !guest.is_proven)
        };
        let mut counts = HashMap::<IpAddr, usize>::new();
        unproven().for_each(|(_, guest)| *counts.entry(guest.address).or_default() += 1);
        let rank = |guest: &Guest| (counts.get(&guest.address).copied(), Reverse(guest.since));
        let Some((_, first)) = unproven().max_by_key(|(_, guest)| rank(guest)) else { return };
        let mut own: Vec<_> = unproven().filter(|(_, guest)| guest.address == first.address).collect();
        let count = (own.len() / 4).clamp(1, LEAVING_MAX);
        own.sort_by_key(|(_, guest)| guest.since);
        self.guests.leaving = own[..count].iter().rev().map(|(id, _)| *id).collect();
    }
}

impl Direct {
    /// Whether somebody who has connected is taken. Who has said nothing yet makes room.
    pub(super) fn admit_guest(
        &mut self,
        base: &mut Base,
        peer: SocketAddr,
        handler: &mut impl Handler,
    ) -> Option<Box<Guest>> {
        let counters = base.counters.context.clone();
        if !base.config.admits_asker(peer) {
            counters.request_connections_not_allowed.inc();
            return None;
        }
        if !self.guests.addresses.admit(peer.ip()) {
            counters.request_connections_refused.inc();
            return None;
        }
        if self.guests.count >= base.config.request_tcp_maximum_connections as usize {
            let Some(index) = self.take_unproven() else {
                self.guests.addresses.release(peer.ip());
                counters.request_connections_refused.inc();
                return None;
            };
            counters.request_connections_displaced.inc();
            self.close_connection(base, index, "others have connected, and it has said nothing", handler);
        }
        self.guests.count += 1;
        Some(Box::new(Guest { address: peer.ip(), since: base.now, is_proven: false }))
    }

    /// Somebody who was admitted could not be taken.
    pub(super) fn dismiss_guest(&mut self, peer: SocketAddr) {
        self.guests.addresses.release(peer.ip());
        self.guests.count -= 1;
    }

    /// Closes a connection that is silent or idle, or whose message does not go on.
    pub(super) fn look_after_guest(
        &mut self,
        base: &mut Base,
        now: Nanos,
        index: usize,
        handler: &mut impl Handler,
    ) {
        let Some(connection) = self.connections.get(index) else { return };
        let (due, why) = connection.overdue(&base.config);
        if now < due {
            return;
        }
        let counters = &base.counters.context;
        let (counter, reason) = match why {
            Overdue::Silent => (&counters.request_connections_silent, "it has said nothing in time"),
            Overdue::Idle => (&counters.request_connections_idle, "it was not used for long"),
            Overdue::Message => (&counters.request_messages_overdue, "a message did not come whole in time"),
        };
        counter.inc();
        self.close_connection(base, index, reason, handler);
    }

    /// Closes the connections that hold most of messages that are not whole, as long as all hold too much.
    #[inline]
    pub(super) fn limit_input(&mut self, base: &mut Base, handler: &mut impl Handler) {
        while self.guests.held > base.config.request_tcp_receive_buffer_maximum_bytes {
            self.close_greediest(base, handler);
        }
    }

    #[cold]
    #[inline(never)]
    fn close_greediest(&mut self, base: &mut Base, handler: &mut impl Handler) {
        let greediest = self.connections.iter().max_by_key(|(_, c)| c.partial.held);
        let Some(index) = greediest.map(|(index, _)| index) else {
            // Nobody holds anything.
            self.guests.held = 0;
            return;
        };
        base.counters.context.request_buffers_exceeded.inc();
        self.close_connection(
            base,
            index,
            "all connections hold too much of messages that are not whole",
            handler,
        );
    }

    /// Gives up the connection for which most waits, if too much does for all together.
    pub(super) fn limit_output(&mut self, base: &mut Base, waiting: u64) {
        if waiting <= base.config.request_tcp_send_buffer_total_maximum_bytes {
            return;
        }
        let most = self.connections.iter().max_by_key(|(_, c)| c.unsent());
        if let Some(index) = most.map(|(index, _)| index) {
            self.give_up_unread(base, index);
        }
    }
}

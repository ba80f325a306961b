use crate::session::{Retransmitter, later};
use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddrV4;
use std::time::Duration;
use units::{Nanos, Sqn};

/// A receiver that is connected to a source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Client {
    /// Where it receives.
    pub address: SocketAddrV4,
    /// When it connected.
    pub since: Nanos,
    /// When it last gave a sign of life.
    pub heard: Nanos,
    /// The highest number it has heard of, as it last said.
    pub acked: Sqn,
    /// Numbers it has NAKed.
    pub naks_rcved: u64,
    /// Retransmissions sent to it.
    pub rxs_sent: u64,
}

/// A client came or went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientEvent {
    /// It has acknowledged the connection.
    Connected(SocketAddrV4),
    /// It gave no sign of life for too long, or has said that it leaves.
    TimedOut(SocketAddrV4),
    /// It still loses datagrams at the lowest rate that congestion control goes down to; it has no say in the
    /// rate for a while.
    TooSlow(SocketAddrV4),
}

/// The clients of a source, in the order in which they connected.
pub(super) struct Clients {
    /// Beside the entries, so that a stretch of them is handed out as it is.
    addresses: Vec<SocketAddrV4>,
    entries: Vec<Entry>,
    by_address: BTreeMap<SocketAddrV4, usize>,
    max: usize,
    timeout: Duration,
    /// No client is overdue before.
    expiry: Nanos,
    /// Clients for which a retransmission or a confirmation waits.
    busy: usize,
    /// Where the search for the next of them begins.
    turn: usize,
    events: VecDeque<ClientEvent>,
}

pub(super) struct Entry {
    pub(super) client: Client,
    /// Made with the first NAK.
    repeats: Option<Box<Retransmitter>>,
    busy: bool,
    /// When he is said to have been heard, if that was put off last.
    pardoned: Nanos,
}

/// Events kept for each client that is allowed.
const EVENTS_PER_CLIENT: usize = 2;

impl Clients {
    pub(super) fn new(max: usize, timeout: Duration) -> Clients {
        Clients {
            addresses: Vec::new(),
            entries: Vec::new(),
            by_address: BTreeMap::new(),
            max,
            timeout,
            expiry: Nanos::NEVER,
            busy: 0,
            turn: 0,
            events: VecDeque::new(),
        }
    }

    pub(super) fn memory_bytes(&self) -> usize {
        let repeats = self.entries.iter().filter_map(|e| e.repeats.as_ref());
        let each = size_of::<SocketAddrV4>() + size_of::<Entry>() + size_of::<(SocketAddrV4, usize)>();
        let events = self.events.capacity() * size_of::<ClientEvent>();
        self.entries.capacity() * each + events + repeats.map(|r| r.memory_bytes()).sum::<usize>()
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(super) fn is_full(&self) -> bool {
        self.entries.len() >= self.max
    }

    pub(super) fn addresses(&self) -> &[SocketAddrV4] {
        &self.addresses
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Client> {
        self.entries.iter().map(|e| &e.client)
    }

    pub(super) fn find(&self, address: SocketAddrV4) -> Option<usize> {
        self.by_address.get(&address).copied()
    }

    /// Adds a client; the caller has looked whether there is room and that it is none. Returns whether an
    /// event was dropped for it.
    pub(super) fn add(&mut self, now: Nanos, address: SocketAddrV4, acked: Sqn) -> bool {
        let client = Client { address, since: now, heard: now, acked, naks_rcved: 0, rxs_sent: 0 };
        self.by_address.insert(address, self.entries.len());
        self.addresses.push(address);
        self.entries.push(Entry { client, repeats: None, busy: false, pardoned: Nanos::NEVER });
        self.expiry = self.expiry.min(now + self.timeout);
        self.tell(ClientEvent::Connected(address))
    }

    /// Takes a sign of life.
    pub(super) fn heard(&mut self, at: usize, now: Nanos) -> &mut Client {
        let client = &mut self.entries[at].client;
        client.heard = now;
        client
    }

    /// This source was stopped.
    pub(super) fn after_pause(&mut self, now: Nanos) {
        let earliest = later(now, self.timeout / 4, self.timeout);
        for Entry { client, pardoned, .. } in &mut self.entries {
            // Once, until he is heard.
            if client.heard < earliest && client.heard != *pardoned {
                (client.heard, *pardoned) = (earliest, earliest);
            }
        }
    }

    /// When a client may be overdue.
    pub(super) fn expiry(&self) -> Nanos {
        self.expiry
    }

    /// The place of a client that is overdue; when there is none, when to look again is set.
    pub(super) fn overdue(&mut self, now: Nanos) -> Option<usize> {
        if now < self.expiry {
            return None;
        }
        let timeout = self.timeout;
        let found = self.entries.iter().position(|e| now >= e.client.heard + timeout);
        if found.is_none() {
            let due = self.entries.iter().map(|e| e.client.heard + timeout);
            self.expiry = due.min().unwrap_or(Nanos::NEVER);
        }
        found
    }

    /// Drops a client; those behind it move up. Returns its address, and whether an event was dropped.
    pub(super) fn remove(&mut self, at: usize) -> (SocketAddrV4, bool) {
        self.busy -= usize::from(self.entries[at].busy);
        self.entries.remove(at);
        let address = self.addresses.remove(at);
        self.by_address.remove(&address);
        self.by_address.values_mut().filter(|i| **i > at).for_each(|i| *i -= 1);
        (address, self.tell(ClientEvent::TimedOut(address)))
    }

    /// Keeps an event; returns whether the oldest was dropped for it.
    pub(super) fn tell(&mut self, event: ClientEvent) -> bool {
        let full = self.events.len() >= self.max * EVENTS_PER_CLIENT;
        if full {
            self.events.pop_front();
        }
        self.events.push_back(event);
        full
    }

    pub(super) fn poll_event(&mut self) -> Option<ClientEvent> {
        self.events.pop_front()
    }

    /// The retransmissions of a client, made by `new` if it has none yet.
    pub(super) fn repeats_or(
        &mut self,
        at: usize,
        new: impl FnOnce() -> Retransmitter,
    ) -> &mut Retransmitter {
        self.entries[at].repeats.get_or_insert_with(|| Box::new(new()))
    }

    pub(super) fn repeats(&mut self, at: usize) -> Option<&mut Retransmitter> {
        self.entries[at].repeats.as_deref_mut()
    }

    pub(super) fn client_mut(&mut self, at: usize) -> &mut Client {
        &mut self.entries[at].client
    }

    /// Looks again whether anything waits for a client.
    pub(super) fn refresh(&mut self, at: usize) {
        let entry = &mut self.entries[at];
        let busy = entry.repeats.as_ref().is_some_and(|r| r.has_ncfs() || r.queued() > 0);
        self.busy = self.busy + usize::from(busy) - usize::from(entry.busy);
        entry.busy = busy;
    }

    /// Clients for which something waits, the one whose turn it is first.
    pub(super) fn busy(&self) -> impl Iterator<Item = (usize, &Retransmitter)> {
        let all = if self.busy == 0 { 0 } else { self.entries.len() };
        (0..all)
            .map(move |i| (self.turn + i) % all)
            .filter_map(|at| self.entries[at].repeats.as_deref().map(|r| (at, r)))
            .filter(|(at, _)| self.entries[*at].busy)
    }

    /// The turn of the client at `at` is over.
    pub(super) fn pass_turn(&mut self, at: usize) {
        self.turn = at + 1;
    }

    /// Retransmissions that wait, all clients together.
    pub(super) fn queued(&self) -> u64 {
        self.busy().map(|(_, r)| r.queued() as u64).sum()
    }
}

//! Connections as TCP makes them: in order, each way by itself, late, cut at any place, and over at any moment.

use client::{Endpoint, Socket};
use market::distributor::{PeerId, ProviderId};
use market::p2ps::ClientId;
use units::Nanos;

use super::{Event, World};
use crate::oracle::mix;
use crate::plan::Host;

/// The end that has connected, or the one that was connected to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    Caller = 0,
    Called = 1,
}

impl Side {
    fn other(self) -> Side {
        match self {
            Side::Caller => Side::Called,
            Side::Called => Side::Caller,
        }
    }
}

/// Who takes what arrives.
#[derive(Clone, Copy, Debug)]
pub(super) enum End {
    Provider(usize),
    /// A provider's connection at a distributor.
    Accepted(usize, ProviderId),
    /// A distributor's connection to an upstream server.
    Upstream(usize),
    Client(usize),
    /// A client's connection at a server.
    Served(usize, ClientId),
    /// A link at a server.
    LinkUp(usize, u64),
    /// A link at a distributor.
    LinkDown(usize, PeerId),
    /// A stream of an ordered carrier at a server.
    StreamIn(usize, u64),
    /// The same at a distributor.
    StreamOut(usize),
}

impl End {
    /// Messages arrive whole: their frames are not part of the run.
    fn is_framed(self) -> bool {
        matches!(self, End::LinkUp(..) | End::LinkDown(..))
    }
}

/// The socket of an end that dials.
#[derive(Default)]
pub(super) struct Dialler {
    /// Only the last one counts.
    pub(super) attempt: u32,
    pub(super) connection: Option<usize>,
}

/// What such an end wants of the network.
pub(super) struct Wanted {
    closed: Option<usize>,
    attempt: Option<u32>,
    sent: Option<(usize, Vec<u8>)>,
}

impl Dialler {
    /// Does what an end has to do now.
    pub(super) fn turn<E: Endpoint>(
        &mut self,
        now: Nanos,
        core: &mut E,
        sink: &mut dyn FnMut(E::Event<'_>),
    ) -> Wanted {
        if core.next_wakeup() <= now {
            core.on_wakeup(now, sink);
        }
        let (closed, attempt) = match core.socket(now) {
            Socket::Present => (None, None),
            Socket::Absent => (self.connection.take(), None),
            Socket::Connect(_) => {
                self.attempt += 1;
                (self.connection.take(), Some(self.attempt))
            }
        };
        let bytes = core.pending().to_vec();
        let sent = self.connection.filter(|_| !bytes.is_empty()).map(|connection| (connection, bytes));
        if let Some((_, bytes)) = &sent {
            core.consume(now, bytes.len());
        }
        Wanted { closed, attempt, sent }
    }
}

impl Wanted {
    /// Has it done, for an end on a host.
    pub(super) fn carry_out(self, world: &mut World, host: Host) {
        if let Some(connection) = self.closed {
            world.close(connection, Side::Caller);
        }
        if let Some(attempt) = self.attempt {
            world.dial(host, attempt);
        }
        if let Some((connection, bytes)) = self.sent {
            world.send(connection, Side::Caller, &bytes);
        }
    }
}

pub(super) struct Connection {
    hosts: [Host; 2],
    ends: [End; 2],
    /// When the last that was sent to a side arrives.
    last: [Nanos; 2],
    is_open: [bool; 2],
}

impl World {
    /// A connection that stands.
    pub(super) fn connect(&mut self, caller: (Host, End), called: (Host, End)) -> usize {
        self.connections.push(Connection {
            hosts: [caller.0, called.0],
            ends: [caller.1, called.1],
            last: [self.now; 2],
            is_open: [true; 2],
        });
        self.connections.len() - 1
    }

    pub(super) fn is_open(&self, connection: usize, side: Side) -> bool {
        self.connections[connection].is_open[side as usize]
    }

    fn arrival(&mut self, connection: usize, to: Side) -> Nanos {
        let longest =
            if self.is_healed { std::time::Duration::from_millis(1) } else { self.plan.weather.stream_delay };
        let delay = self.span(longest);
        let known = &self.connections[connection];
        let passes = self.passes_at(known.hosts[to.other() as usize], known.hosts[to as usize]);
        let known = &mut self.connections[connection];
        let at = (passes + delay).max(known.last[to as usize]);
        known.last[to as usize] = at;
        at
    }

    /// Sends from a side.
    pub(super) fn send(&mut self, connection: usize, from: Side, bytes: &[u8]) {
        if bytes.is_empty() || !self.is_open(connection, from) {
            return;
        }
        self.outcome.digest =
            mix(self.outcome.digest, bytes.len() as u64 ^ u64::from(bytes[bytes.len() / 2]) << 32);
        let to = from.other();
        let is_framed = self.connections[connection].ends[to as usize].is_framed();
        let mut rest = bytes;
        while !rest.is_empty() {
            let is_cut = !is_framed && self.rng.chance(self.plan.weather.cut);
            let count = if is_cut { 1 + self.rng.below(rest.len() as u64) as usize } else { rest.len() };
            let (now, later) = rest.split_at(count);
            let at = self.arrival(connection, to);
            self.queue.put(at, Event::Chunk(connection, to, now.to_vec()));
            rest = later;
        }
    }

    /// A side closes its end; the other hears of it behind what was sent.
    pub(super) fn close(&mut self, connection: usize, side: Side) {
        if std::mem::replace(&mut self.connections[connection].is_open[side as usize], false) {
            let to = side.other();
            let at = self.arrival(connection, to);
            self.queue.put(at, Event::Closed(connection, to));
        }
    }

    /// A host is gone, or a process on it.
    pub(super) fn end_connections_of(&mut self, host: Host) {
        for connection in 0..self.connections.len() {
            for side in [Side::Caller, Side::Called] {
                if self.connections[connection].hosts[side as usize] == host {
                    self.close(connection, side);
                }
            }
        }
    }

    /// Connections between two hosts break: each end hears of it in its time.
    pub(super) fn break_between(&mut self, a: Host, b: Host) {
        for connection in 0..self.connections.len() {
            let hosts = self.connections[connection].hosts;
            if hosts == [a, b] || hosts == [b, a] {
                for to in [Side::Caller, Side::Called] {
                    // What was on its way is lost: it comes behind the end.
                    let delay = self.span(std::time::Duration::from_millis(30));
                    let at = self.passes_at(hosts[to.other() as usize], hosts[to as usize]) + delay;
                    self.queue.put(at, Event::Closed(connection, to));
                }
            }
        }
    }

    pub(super) fn arrived(&mut self, connection: usize, side: Side, bytes: Vec<u8>) {
        if !self.is_open(connection, side) {
            return;
        }
        let now = self.now;
        match self.connections[connection].ends[side as usize] {
            End::Provider(at) => {
                self.providers[at].core.on_bytes(now, &bytes, &mut |_: client::ProviderEvent<'_>| ());
                self.provider_turn(at);
            }
            End::Accepted(at, provider) => self.provider_bytes(at, provider, &bytes),
            End::Upstream(at) => self.upstream_bytes(at, &bytes),
            End::Client(at) => self.client_bytes(at, &bytes),
            End::Served(at, client) => self.served_bytes(at, client, &bytes),
            End::LinkUp(at, instance) => self.with_server(at, |core, now, out| {
                core.on_link_message(now, instance, &bytes, out).expect("a legal instance");
            }),
            End::LinkDown(at, peer) => self.with_distributor(at, |core, now, out| {
                core.on_peer_message(now, peer, &bytes, out).expect("a legal peer");
                core.serve_peers(now, out);
            }),
            End::StreamIn(at, instance) => self.stream_bytes(at, instance, &bytes),
            End::StreamOut(_) => {}
        }
    }

    pub(super) fn closed(&mut self, connection: usize, side: Side) {
        if !std::mem::replace(&mut self.connections[connection].is_open[side as usize], false) {
            return;
        }
        let (now, cause) = (self.now, rssl::Disconnect::EndOfStream);
        match self.connections[connection].ends[side as usize] {
            End::Provider(at) => {
                self.providers[at].core.on_disconnected(now, cause, &mut |_| ());
                self.provider_turn(at);
            }
            End::Accepted(at, provider) => self.provider_gone(at, provider),
            End::Upstream(at) => self.upstream_gone(at),
            End::Client(at) => self.client_disconnected(at),
            End::Served(at, client) => self.served_gone(at, client),
            End::LinkUp(at, instance) => {
                self.servers[at].links.remove(&instance);
                self.with_server(at, |core, now, out| core.on_link_down(now, instance, out));
            }
            End::LinkDown(at, peer) => {
                self.distributors[at].links.remove(&peer);
                self.with_distributor(at, |core, now, out| core.on_peer_closed(now, peer, out));
            }
            End::StreamIn(at, instance) => self.stream_closed(at, instance),
            End::StreamOut(at) => self.distributors[at].listeners.retain(|known| *known != connection),
        }
    }
}

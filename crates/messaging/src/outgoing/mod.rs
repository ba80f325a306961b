//! The transport sessions that a context publishes on.

mod binding;
mod claim;
mod closing;
mod ipc;
mod networks;
mod rm;
mod ru;
mod tcp;
mod turns;

use std::collections::HashMap;
use std::net::SocketAddrV4;

use lbt::ordered::Room;
use lbt::resolution::{Origin, TransportSession};
use lbt::rm::{SendError, TopicId};
use lbt::wire::lbmc::Chain;
use net::Ready;
use units::{Nanos, Sqn};

use crate::base::Base;
use crate::error::ContextError;
use crate::publishing::Publishing;
use crate::{Handler, Source};

use crate::statistics::{Peer, SentStatistics};
use binding::Binding;

pub use claim::Claim;
pub(crate) use ipc::{IpcOutgoing, Ring};
pub(crate) use rm::RmOutgoing;
pub(crate) use ru::RuOutgoing;
pub(crate) use tcp::TcpOutgoing;
pub(crate) use turns::Turns;

/// A session that sources of this context publish on.
pub(crate) struct Outgoing {
    pub(crate) transport: TransportSession,
    /// What names it on both networks, if it is on two.
    pub(crate) origin: Option<Origin>,
    pub(crate) kind: OutgoingKind,
    /// Index of the next topic.
    next_index: u32,
    /// Topics whose indexes the configuration gives, and what they go on with when they are created again: receivers
    /// take numbers that come again for duplicates.
    retired: HashMap<u32, Sqn>,
    /// Sources of which a send was refused, to be told when there is room.
    pub(crate) refused: Vec<Source>,
    /// Sources that are within an explicit batch.
    batches: u32,
    /// Sockets to which the kernel refuses to cut runs.
    without_offload: usize,
    /// How many topics it has.
    pub(crate) topics: usize,
}

/// Which session a source belongs on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Place {
    Rm(SocketAddrV4),
    Tcp,
    Ipc,
    Ru,
    /// One that the configuration fixes: its topics are where `resolver_static_source` of others says.
    Fixed(TransportSession),
}

/// A session by its transport.
pub(crate) enum OutgoingKind {
    Rm(Box<RmOutgoing>),
    Tcp(Box<TcpOutgoing>),
    Ipc(Box<IpcOutgoing>),
    Ru(Box<RuOutgoing>),
}

/// Bytes that wait to be retained before further sends make room for themselves.
const KEPT_MAX_BYTES: usize = 1 << 20;

impl Outgoing {
    pub(crate) fn new(transport: TransportSession, kind: OutgoingKind, index: u32) -> Outgoing {
        Outgoing {
            transport,
            origin: None,
            kind,
            next_index: index,
            retired: HashMap::new(),
            refused: Vec::new(),
            batches: 0,
            without_offload: 0,
            topics: 0,
        }
    }

    /// Adds a topic; returns its index in the session as well: the one given, or the next.
    pub(crate) fn add_topic(&mut self, now: Nanos, index: Option<u32>) -> (TopicId, u32) {
        let first = index.map_or(Sqn(0), |given| *self.retired.entry(given).or_insert(Sqn(0)));
        let index = index.unwrap_or_else(|| {
            let next = self.next_index;
            self.next_index = next.wrapping_add(1);
            next
        });
        let id = match &mut self.kind {
            OutgoingKind::Rm(session) => session.session.add_topic_at(now, index, first),
            OutgoingKind::Tcp(session) => session.session.add_topic_at(now, index, first),
            OutgoingKind::Ipc(session) => session.session.add_topic_at(now, index, first),
            OutgoingKind::Ru(session) => session.session.add_topic_at(now, index, first),
        };
        self.topics += 1;
        (id, index)
    }

    /// One more source is within an explicit batch, or one less: what is not full is held until none is.
    pub(crate) fn count_batch(&mut self, begins: bool) {
        self.batches = if begins { self.batches + 1 } else { self.batches - 1 };
        let is_held = self.batches > 0;
        match &mut self.kind {
            OutgoingKind::Rm(session) => session.session.hold(is_held),
            OutgoingKind::Tcp(session) => session.is_held = is_held,
            OutgoingKind::Ipc(session) => session.is_held = is_held,
            OutgoingKind::Ru(session) => session.session.hold(is_held),
        }
    }

    pub(crate) fn remove_topic(&mut self, topic: TopicId) {
        self.topics = self.topics.saturating_sub(1);
        if let Some(going_on) = self.retired.get_mut(&topic.index()) {
            let next = match &self.kind {
                OutgoingKind::Rm(session) => session.session.next_sqn(topic),
                OutgoingKind::Tcp(session) => session.session.next_sqn(topic),
                OutgoingKind::Ipc(session) => session.session.next_sqn(topic),
                OutgoingKind::Ru(session) => session.session.next_sqn(topic),
            };
            *going_on = next.unwrap_or(*going_on);
        }
        match &mut self.kind {
            OutgoingKind::Rm(session) => session.session.remove_topic(topic),
            OutgoingKind::Tcp(session) => session.session.remove_topic(topic),
            OutgoingKind::Ipc(session) => session.session.remove_topic(topic),
            OutgoingKind::Ru(session) => session.session.remove_topic(topic),
        }
    }

    #[inline]
    pub(crate) fn send(&mut self, now: Nanos, topic: TopicId, parts: &[&[u8]]) -> Result<Sqn, SendError> {
        match &mut self.kind {
            OutgoingKind::Rm(session) => session.session.send(now, topic, parts),
            OutgoingKind::Tcp(session) => {
                let sqn = session.session.send(now, topic, parts, &mut session.backlog)?;
                session.on_written();
                Ok(sqn)
            }
            OutgoingKind::Ipc(session) => session.session.send(now, topic, parts, &mut session.ring),
            OutgoingKind::Ru(session) => session.session.send(now, topic, parts),
        }
    }

    pub(crate) fn send_with(
        &mut self,
        now: Nanos,
        topic: TopicId,
        headers: &Chain,
        parts: &[&[u8]],
    ) -> Result<Sqn, SendError> {
        match &mut self.kind {
            OutgoingKind::Rm(session) => session.session.send_with(now, topic, headers, parts),
            OutgoingKind::Tcp(session) => {
                session.session.send_with(now, topic, headers, parts, &mut session.backlog)
            }
            OutgoingKind::Ipc(session) => {
                session.session.send_with(now, topic, headers, parts, &mut session.ring)
            }
            OutgoingKind::Ru(session) => session.session.send_with(now, topic, headers, parts),
        }
    }

    #[inline]
    pub(crate) fn claim(&mut self, now: Nanos, topic: TopicId, len: usize) -> Result<Claim<'_>, SendError> {
        match &mut self.kind {
            OutgoingKind::Rm(session) => session.session.claim(now, topic, len).map(Claim::rm),
            OutgoingKind::Tcp(session) => {
                session.on_written();
                session.session.claim(now, topic, len, &mut session.backlog).map(Claim::tcp)
            }
            OutgoingKind::Ipc(session) => {
                session.session.claim(now, topic, len, &mut session.ring).map(Claim::ipc)
            }
            OutgoingKind::Ru(session) => session.session.claim(now, topic, len).map(Claim::ru),
        }
    }

    /// Begins to keep what is written for [`Outgoing::written`]; the number of the next datagram, where there
    /// are any.
    pub(crate) fn keep_written(&mut self) -> Sqn {
        match &mut self.kind {
            OutgoingKind::Rm(session) => return session.session.next_datagram(),
            OutgoingKind::Ru(session) => return session.session.next_datagram(),
            OutgoingKind::Tcp(session) => session.backlog.keep(KEPT_MAX_BYTES),
            OutgoingKind::Ipc(session) => session.ring.keep(KEPT_MAX_BYTES),
        }
        Sqn(0)
    }

    /// Gives `each` the messages that were written since the last time: of datagrams those that were closed
    /// since number `from`, which is moved.
    pub(crate) fn written(&mut self, from: &mut Sqn, each: impl FnMut(&[u8])) {
        match &mut self.kind {
            OutgoingKind::Rm(session) => session.session.written(from, each),
            OutgoingKind::Ru(session) => session.session.written(from, each),
            OutgoingKind::Tcp(session) => session.backlog.take(each),
            OutgoingKind::Ipc(session) => session.ring.take(each),
        }
    }

    pub(crate) fn claim_max(&self) -> usize {
        match &self.kind {
            OutgoingKind::Rm(session) => session.session.claim_max(),
            OutgoingKind::Tcp(session) => session.session.claim_max(),
            OutgoingKind::Ipc(session) => session.session.claim_max(),
            OutgoingKind::Ru(session) => session.session.claim_max(),
        }
    }

    /// The number of a topic's next message.
    pub(crate) fn next_sqn(&self, topic: TopicId) -> Option<Sqn> {
        match &self.kind {
            OutgoingKind::Rm(session) => session.session.next_sqn(topic),
            OutgoingKind::Tcp(session) => session.session.next_sqn(topic),
            OutgoingKind::Ipc(session) => session.session.next_sqn(topic),
            OutgoingKind::Ru(session) => session.session.next_sqn(topic),
        }
    }

    /// The receivers it knows from a place on, each with its place.
    pub(crate) fn peers(&self, from: usize) -> Box<dyn Iterator<Item = (usize, Peer)> + '_> {
        match &self.kind {
            OutgoingKind::Rm(session) => {
                let of = |asker: lbt::rm::AskedBy| Peer {
                    naks: asker.naks_rcved,
                    shed: asker.shed,
                    heard: Some(asker.heard),
                    ..Peer::at(asker.address.into())
                };
                Box::new(session.session.askers().map(of).enumerate().skip(from))
            }
            OutgoingKind::Ru(session) => {
                let of = |client: &lbt::ru::Client| Peer {
                    naks: client.naks_rcved,
                    retransmissions: client.rxs_sent,
                    heard: Some(client.heard),
                    ..Peer::at(client.address.into())
                };
                Box::new(session.session.clients().map(of).enumerate().skip(from))
            }
            OutgoingKind::Tcp(session) => Box::new(session.peers(from)),
            OutgoingKind::Ipc(session) => Box::new(session.peers().enumerate().skip(from)),
        }
    }

    /// How many of them there are.
    pub(crate) fn peer_count(&self) -> usize {
        match &self.kind {
            OutgoingKind::Rm(session) => session.session.askers().count(),
            OutgoingKind::Ru(session) => session.session.clients().count(),
            OutgoingKind::Tcp(session) => session.peers(0).count(),
            OutgoingKind::Ipc(session) => session.peers().count(),
        }
    }

    /// Bytes that it has sent, retransmissions not counted, and what else is known.
    pub(crate) fn sent(&self) -> (u64, Option<SentStatistics>) {
        let totals = match &self.kind {
            OutgoingKind::Rm(session) => session.session.sent_totals(),
            OutgoingKind::Ru(session) => session.session.sent_totals(),
            OutgoingKind::Tcp(session) => return (session.backlog.written_bytes(), None),
            OutgoingKind::Ipc(session) => return (session.ring.written_bytes(), None),
        };
        (totals.bytes, Some(totals.into()))
    }

    pub(crate) fn is_blocked(&self) -> bool {
        match &self.kind {
            OutgoingKind::Rm(session) => session.session.is_blocked(),
            OutgoingKind::Tcp(session) => session.backlog.is_blocked(),
            OutgoingKind::Ipc(session) => session.ring.was_full() || session.ring.is_blocked(),
            OutgoingKind::Ru(session) => session.session.is_blocked(),
        }
    }

    /// When to flush again what was just flushed, if nothing is sent or comes till then.
    pub(crate) fn flush_due(&self) -> Nanos {
        match &self.kind {
            // Its sockets are looked at in each turn anyway.
            OutgoingKind::Tcp(_) => Nanos::ZERO,
            OutgoingKind::Rm(_) | OutgoingKind::Ipc(_) | OutgoingKind::Ru(_) => self.next_wakeup(),
        }
    }

    pub(crate) fn next_wakeup(&self) -> Nanos {
        match &self.kind {
            OutgoingKind::Rm(session) => session.next_wakeup(),
            OutgoingKind::Tcp(session) => session.next_wakeup(),
            OutgoingKind::Ipc(session) => session.next_wakeup(),
            OutgoingKind::Ru(session) => session.next_wakeup(),
        }
    }
}

impl Publishing {
    /// The session on which a source publishes, opened if there is none.
    pub(crate) fn outgoing_at(&mut self, base: &mut Base, place: Place) -> Result<usize, ContextError> {
        if let Some(&at) = self.by_place.get(&place) {
            return Ok(at);
        }
        let at = self.outgoing.vacant_key();
        let index = base.rng.next_u32();
        let opened = match place {
            Place::Rm(group) => self.open_rm_outgoing(base, at, group, index, self.rm_binding(base))?,
            Place::Tcp => self.open_tcp_outgoing(base, at, index, self.tcp_binding(base))?,
            Place::Ipc => self.open_ipc_outgoing(base, index)?,
            Place::Ru => self.open_ru_outgoing(base, at, index, self.ru_binding(base))?,
            Place::Fixed(session) => self.open_fixed_outgoing(base, at, session, index)?,
        };
        self.by_place.insert(place, at);
        self.stir(at);
        if let OutgoingKind::Ru(_) = opened.kind {
            self.with_lanes.push(at);
        }
        self.outgoing.insert(opened);
        Ok(at)
    }

    /// Sends what a session has closed, and answers what came for it, as far as limits and sockets allow.
    pub(crate) fn transmit(&mut self, base: &mut Base, now: Nanos, at: usize) {
        self.stir(at);
        match self.outgoing.get_mut(at).map(|o| &mut o.kind) {
            Some(OutgoingKind::Rm(session)) => session.transmit(now, &base.counters.context, &mut base.xdp),
            Some(OutgoingKind::Tcp(session)) => session.transmit(),
            Some(OutgoingKind::Ipc(session)) => session.flush(),
            Some(OutgoingKind::Ru(session)) => session.transmit(now, &base.counters.context),
            None => {}
        }
        self.retain(base, now, at);
    }

    /// A turn of the context: sends what waits in a session, but for an explicit batch that is not over.
    #[inline]
    pub(crate) fn turn_outgoing(&mut self, base: &mut Base, now: Nanos, at: usize) {
        match self.outgoing.get(at) {
            Some(outgoing) if outgoing.batches == 0 => self.flush_outgoing(base, now, at),
            Some(Outgoing { kind: OutgoingKind::Rm(_) | OutgoingKind::Ru(_), .. }) => {
                self.transmit(base, now, at)
            }
            _ => {}
        }
    }

    /// Sends everything that waits in a session.
    #[inline]
    pub(crate) fn flush_outgoing(&mut self, base: &mut Base, now: Nanos, at: usize) {
        match self.outgoing.get_mut(at).map(|o| &mut o.kind) {
            Some(OutgoingKind::Rm(session)) => session.flush(now, &base.counters.context, &mut base.xdp),
            Some(OutgoingKind::Tcp(session)) => session.flush(),
            Some(OutgoingKind::Ipc(session)) => session.flush(),
            Some(OutgoingKind::Ru(session)) => session.flush(now, &base.counters.context),
            None => {}
        }
        self.retain(base, now, at);
    }

    pub(crate) fn end_outgoing(&mut self, base: &mut Base, now: Nanos, at: usize) {
        self.stir(at);
        match self.outgoing.get_mut(at).map(|o| &mut o.kind) {
            Some(OutgoingKind::Rm(session)) => session.end(now, &base.counters.context, &mut base.xdp),
            Some(OutgoingKind::Tcp(session)) => session.end(),
            Some(OutgoingKind::Ipc(session)) => session.end(),
            Some(OutgoingKind::Ru(session)) => session.end(now, &base.counters.context),
            None => {}
        }
        self.retain(base, now, at);
    }

    /// Wakes the sessions to which something has happened, or that are due.
    pub(crate) fn wake_outgoing(&mut self, base: &mut Base, now: Nanos, handler: &mut impl Handler) {
        let turn = self.turns.take(now);
        for &at in turn.iter().chain(&self.turns.last()) {
            self.wake_session(base, now, at, handler);
        }
        self.give_back_turn(turn);
        self.quiet_until = Nanos::ZERO;
    }

    fn wake_session(&mut self, base: &mut Base, now: Nanos, at: usize, handler: &mut impl Handler) {
        let Some(outgoing) = self.outgoing.get_mut(at) else { return };
        let counters = &base.counters.context;
        let without_offload = match &mut outgoing.kind {
            OutgoingKind::Rm(session) => {
                session.on_wakeup(now, counters, &mut base.xdp);
                session.without_offload()
            }
            OutgoingKind::Tcp(session) => {
                session.on_wakeup(now);
                0
            }
            OutgoingKind::Ipc(session) => {
                session.on_wakeup(now);
                0
            }
            OutgoingKind::Ru(session) => {
                session.on_wakeup(now, counters);
                session.without_offload()
            }
        };
        let before = std::mem::replace(&mut outgoing.without_offload, without_offload);
        if before != without_offload {
            let all = counters.sockets_without_offload.get() + without_offload as u64;
            counters.sockets_without_offload.set(all - before as u64);
        }
        self.retain(base, now, at);
        self.tell_sources(base, at, handler);
    }

    /// Notes when the sessions are due that have had their turn.
    pub(crate) fn give_back_turn(&mut self, turn: Vec<usize>) {
        let outgoing = &self.outgoing;
        self.turns.give_back(turn, |at| outgoing.get(at).map_or(Nanos::NEVER, Outgoing::next_wakeup));
    }

    /// Looks at what has come for each session, and does what is due.
    pub(crate) fn serve_outgoing(&mut self, base: &mut Base, now: Nanos, handler: &mut impl Handler) {
        for at in 0..self.outgoing.capacity() {
            let _ = self.on_outgoing_ready(base, now, at, handler);
            if let Some(OutgoingKind::Tcp(session)) = self.outgoing.get_mut(at).map(|o| &mut o.kind) {
                session.look_at_clients();
            }
        }
        self.wake_outgoing(base, now, handler);
    }

    /// Something has come for a session: NAKs, or somebody who connects. Whether there may be more.
    pub(crate) fn on_outgoing_ready(
        &mut self,
        base: &mut Base,
        now: Nanos,
        at: usize,
        handler: &mut impl Handler,
    ) -> bool {
        self.stir(at);
        let mut worked = false;
        match self.outgoing.get_mut(at).map(|o| &mut o.kind) {
            Some(OutgoingKind::Rm(session)) => {
                if let Some(batch) = &mut base.batch {
                    worked = session.on_ready(now, batch, &base.counters.context, &mut base.xdp);
                }
            }
            Some(OutgoingKind::Ru(session)) => {
                if let Some(batch) = &mut base.batch {
                    worked = session.on_ready(now, batch, &base.counters.context);
                }
            }
            Some(OutgoingKind::Tcp(_)) => self.accept_tcp(base, at),
            Some(OutgoingKind::Ipc(_)) | None => {}
        }
        self.retain(base, now, at);
        self.tell_sources(base, at, handler);
        worked
    }

    /// A datagram has come to a port of the AF_XDP socket.
    pub(crate) fn on_nak(
        &mut self,
        base: &mut Base,
        now: Nanos,
        from: SocketAddrV4,
        to: SocketAddrV4,
        datagram: &[u8],
    ) {
        if let Some(&at) = base.xdp.sent.get(&to)
            && let Some(OutgoingKind::Rm(session)) = self.outgoing.get_mut(at).map(|o| &mut o.kind)
            && session.on_nak(now, from, to, datagram)
        {
            return self.stir(at);
        }
        base.counters.context.unknown_datagrams.inc();
    }

    /// A connection of a TCP session is ready.
    pub(crate) fn on_tcp_client_ready(
        &mut self,
        base: &mut Base,
        index: usize,
        ready: Ready,
        handler: &mut impl Handler,
    ) {
        let (at, client) = (index >> tcp::CLIENT_BITS, index & ((1 << tcp::CLIENT_BITS) - 1));
        self.stir(at);
        if let Some(OutgoingKind::Tcp(session)) = self.outgoing.get_mut(at).map(|o| &mut o.kind) {
            session.on_client_ready(client, ready);
        }
        self.tell_sources(base, at, handler);
    }

    /// Tells the sources of a session what has happened to it.
    fn tell_sources(&mut self, base: &mut Base, at: usize, handler: &mut impl Handler) {
        let events = match self.outgoing.get_mut(at).map(|o| &mut o.kind) {
            Some(OutgoingKind::Tcp(session)) => {
                session.refused.drain(..).for_each(|text| base.security.refused(text));
                std::mem::take(&mut session.events)
            }
            Some(OutgoingKind::Ipc(session)) => std::mem::take(&mut session.events),
            Some(OutgoingKind::Ru(session)) => std::iter::from_fn(|| session.next_event()).collect(),
            Some(OutgoingKind::Rm(session)) => std::iter::from_fn(|| session.next_event()).collect(),
            None => Vec::new(),
        };
        for event in events {
            self.tell_event(at, event, handler);
        }
        self.tell_room(at, handler);
    }
}

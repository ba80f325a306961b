//! The transport sessions that a context publishes on.
//!
//! [`Session`] is what each transport does; [`Kind`] has a session of one of them, and `each` is the only place that
//! tells them apart after a session was opened. A further transport is a file here, a line there and one in
//! [`Outgoing::open`].

mod binding;
mod claim;
mod closing;
mod ipc;
mod networks;
mod presence;
mod reliable;
mod rm;
mod ru;
mod session;
mod tcp;
mod turns;

use std::collections::HashMap;
use std::io;
use std::net::SocketAddrV4;

use counters::table::MessagingContext;
use lbt::resolution::{Origin, TransportSession};
use lbt::rm::{SendError, TopicId};
use lbt::session::Unsent;
use lbt::wire::lbmc::Chain;
use net::Ready;
use units::{Nanos, Sqn};

use crate::Source;
use crate::base::Base;
use crate::closing::{Patience, SessionLeft};
use crate::error::ContextError;
use crate::event::SourceEvent;
use crate::keys::{NewKeys, PayloadKeysOf};
use crate::ports::Ports;
use crate::statistics::{Peer, SentStatistics};
use binding::Binding;
use ipc::IpcOutgoing;
use presence::Presence;
use rm::RmOutgoing;
use ru::RuOutgoing;
use session::{Opened, Session};
use tcp::TcpOutgoing;

pub use claim::Claim;
pub(crate) use tcp::CLIENT_BITS;
pub(crate) use turns::Turns;

/// A session that sources of this context publish on.
pub(crate) struct Outgoing {
    transport: TransportSession,
    /// What names it on both networks, if it is on two.
    origin: Option<Origin>,
    kind: Kind,
    /// Index of the next topic.
    next_index: u32,
    /// Topics whose indexes the configuration gives, and what they go on with when they are created again: receivers
    /// take numbers that come again for duplicates.
    retired: HashMap<u32, Sqn>,
    /// Sources of which a send was refused, to be told when there is room.
    refused: Vec<Source>,
    /// Sources that are within an explicit batch.
    batches: u32,
    /// Sockets to which the kernel refused to cut runs when it was last woken.
    without_offload: usize,
    /// How many topics it has.
    topics: usize,
    /// Whom it asks while somebody waits for receivers.
    presence: Option<Box<Presence>>,
}

/// Which session a source belongs on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum SessionTarget {
    Rm(SocketAddrV4),
    Tcp,
    Ipc,
    Ru,
    /// One that the configuration fixes: its topics are where `resolver.static_source` of others says.
    Fixed(TransportSession),
}

impl SessionTarget {
    /// Whether messages of a source there are encrypted.
    pub(crate) fn is_encrypted(self, keys: &PayloadKeysOf) -> bool {
        match self {
            SessionTarget::Rm(_) => keys.rm.is_some(),
            SessionTarget::Ru => keys.ru.is_some(),
            SessionTarget::Fixed(session) => keys.encrypts(&session),
            SessionTarget::Tcp | SessionTarget::Ipc => false,
        }
    }
}

/// A session by its transport.
enum Kind {
    Rm(Box<RmOutgoing>),
    Tcp(Box<TcpOutgoing>),
    Ipc(Box<IpcOutgoing>),
    Ru(Box<RuOutgoing>),
}

/// Calls something of a session, whatever its transport.
macro_rules! each {
    ($kind:expr, $session:ident => $do:expr) => {
        match $kind {
            Kind::Rm($session) => $do,
            Kind::Tcp($session) => $do,
            Kind::Ipc($session) => $do,
            Kind::Ru($session) => $do,
        }
    };
}

impl Outgoing {
    /// Opens the session of a target, which stands at `at` among all.
    pub(crate) fn open(
        base: &mut Base,
        ports: &mut Ports,
        at: usize,
        target: SessionTarget,
    ) -> Result<Outgoing, ContextError> {
        let next_index = base.rng.next_u32();
        let opened = match target {
            SessionTarget::Rm(group) => {
                let binding = Binding::rm(&base.config);
                RmOutgoing::open(base, ports, at, group, binding)?.map(Kind::Rm)
            }
            SessionTarget::Tcp => {
                let binding = Binding::tcp(&base.config);
                TcpOutgoing::open(base, at, binding)?.map(Kind::Tcp)
            }
            SessionTarget::Ipc => IpcOutgoing::open(base)?.map(Kind::Ipc),
            SessionTarget::Ru => {
                let binding = Binding::ru(&base.config);
                RuOutgoing::open(base, ports, at, binding)?.map(Kind::Ru)
            }
            SessionTarget::Fixed(session) => Outgoing::open_fixed(base, ports, at, session)?,
        };
        let Opened { session: kind, transport, origin } = opened;
        Ok(Outgoing {
            transport,
            origin,
            kind,
            next_index,
            retired: HashMap::new(),
            refused: Vec::new(),
            batches: 0,
            without_offload: 0,
            topics: 0,
            presence: None,
        })
    }

    /// Opens a session exactly where receivers are configured to find it.
    fn open_fixed(
        base: &mut Base,
        ports: &mut Ports,
        at: usize,
        session: TransportSession,
    ) -> Result<Opened<Kind>, ContextError> {
        let opened = match session {
            TransportSession::LbtRm { key, group } => base.check_own_address(key.source).and_then(|()| {
                let binding = Binding::fixed(key.session.ucast_port, Some(key.session.session_id));
                Ok(RmOutgoing::open(base, ports, at, group, binding)?.map(Kind::Rm))
            }),
            TransportSession::Tcp { address, session_id } => {
                base.check_own_address(*address.ip()).and_then(|()| {
                    let binding = Binding::fixed(address.port(), session_id);
                    Ok(TcpOutgoing::open(base, at, binding)?.map(Kind::Tcp))
                })
            }
            TransportSession::LbtRu { address, session_id } => {
                base.check_own_address(*address.ip()).and_then(|()| {
                    let binding = Binding::fixed(address.port(), session_id);
                    Ok(RuOutgoing::open(base, ports, at, binding)?.map(Kind::Ru))
                })
            }
            // No source string reads as one.
            TransportSession::Ipc { .. } => Err(io::Error::from(io::ErrorKind::Unsupported).into()),
        };
        opened.map_err(|error| match error {
            ContextError::Io(e) => {
                io::Error::new(e.kind(), format!("source_static_session {session}: {e}")).into()
            }
            other => other,
        })
    }

    pub(crate) fn transport(&self) -> TransportSession {
        self.transport
    }

    /// What names it on both networks, if it is on two.
    pub(crate) fn origin(&self) -> Option<Origin> {
        self.origin
    }

    /// How many topics it has.
    pub(crate) fn topics(&self) -> usize {
        self.topics
    }

    /// Adds a topic; returns its index in the session as well: the one given, or the next.
    pub(crate) fn add_topic(&mut self, now: Nanos, index: Option<u32>) -> (TopicId, u32) {
        let first = index.map_or(Sqn(0), |given| *self.retired.entry(given).or_insert(Sqn(0)));
        let index = index.unwrap_or_else(|| {
            let next = self.next_index;
            self.next_index = next.wrapping_add(1);
            next
        });
        self.topics += 1;
        (each!(&mut self.kind, session => session.add_topic(now, index, first)), index)
    }

    /// One more source is within an explicit batch, or one less: what is not full is held until none is.
    pub(crate) fn count_batch(&mut self, begins: bool) {
        self.batches = if begins { self.batches + 1 } else { self.batches - 1 };
        let is_held = self.batches > 0;
        each!(&mut self.kind, session => session.hold(is_held));
    }

    pub(crate) fn remove_topic(&mut self, topic: TopicId) {
        self.topics = self.topics.saturating_sub(1);
        if let Some(going_on) = self.retired.get_mut(&topic.index()) {
            let next = each!(&self.kind, session => session.next_sqn(topic));
            *going_on = next.unwrap_or(*going_on);
        }
        each!(&mut self.kind, session => session.remove_topic(topic));
    }

    #[inline]
    pub(crate) fn send(&mut self, now: Nanos, topic: TopicId, parts: &[&[u8]]) -> Result<Sqn, SendError> {
        each!(&mut self.kind, session => session.send(now, topic, parts))
    }

    pub(crate) fn send_with(
        &mut self,
        now: Nanos,
        topic: TopicId,
        headers: &Chain,
        parts: &[&[u8]],
    ) -> Result<Sqn, SendError> {
        each!(&mut self.kind, session => session.send_with(now, topic, headers, parts))
    }

    #[inline]
    pub(crate) fn claim(&mut self, now: Nanos, topic: TopicId, len: usize) -> Result<Claim<'_>, SendError> {
        each!(&mut self.kind, session => session.claim(now, topic, len))
    }

    pub(crate) fn claim_max(&self) -> usize {
        each!(&self.kind, session => session.claim_max())
    }

    /// The number of a topic's next message.
    pub(crate) fn next_sqn(&self, topic: TopicId) -> Option<Sqn> {
        each!(&self.kind, session => session.next_sqn(topic))
    }

    /// Begins to keep what is written for [`Outgoing::written`]; the number of the next datagram, where there
    /// are any.
    pub(crate) fn keep_written(&mut self) -> Sqn {
        each!(&mut self.kind, session => session.keep_written())
    }

    /// Gives `each` the messages that were written since the last time: of datagrams those that were closed
    /// since number `from`, which is moved.
    pub(crate) fn written(&mut self, from: &mut Sqn, each: impl FnMut(&[u8])) {
        each!(&mut self.kind, session => session.written(from, each));
    }

    /// The receivers it knows from a place on, each with its place.
    pub(crate) fn peers(&self, from: usize) -> Box<dyn Iterator<Item = (usize, Peer)> + '_> {
        each!(&self.kind, session => session.peers(from))
    }

    /// How many of them there are.
    pub(crate) fn peer_count(&self) -> usize {
        each!(&self.kind, session => session.peer_count())
    }

    /// Bytes that it has sent, retransmissions not counted, and what else is known.
    pub(crate) fn sent(&self) -> (u64, Option<SentStatistics>) {
        each!(&self.kind, session => session.sent())
    }

    pub(crate) fn is_blocked(&self) -> bool {
        each!(&self.kind, session => session.is_blocked())
    }

    /// When to flush again what was just flushed, if nothing is sent or comes till then.
    pub(crate) fn flush_due(&self) -> Nanos {
        each!(&self.kind, session => session.flush_due())
    }

    pub(crate) fn next_wakeup(&self) -> Nanos {
        let asks = self.presence.as_ref().map_or(Nanos::NEVER, |presence| presence.due());
        each!(&self.kind, session => session.next_wakeup()).min(asks)
    }

    /// Whether an explicit batch is not over.
    #[inline]
    pub(crate) fn is_held(&self) -> bool {
        self.batches > 0
    }

    /// Whether it sends datagrams: those that are full though the rest is held, and retransmissions after its end.
    pub(crate) fn is_of_datagrams(&self) -> bool {
        each!(&self.kind, session => session.is_of_datagrams())
    }

    /// Sends what it has closed, and answers what came for it, as far as limits and sockets allow.
    pub(crate) fn transmit(&mut self, base: &mut Base, now: Nanos) {
        each!(&mut self.kind, session => session.transmit(base, now));
    }

    /// Sends everything that waits.
    #[inline]
    pub(crate) fn flush(&mut self, base: &mut Base, now: Nanos) {
        each!(&mut self.kind, session => session.flush(base, now));
    }

    /// Says the last number of each topic and the end.
    pub(crate) fn end(&mut self, base: &mut Base, now: Nanos) {
        each!(&mut self.kind, session => session.end(base, now));
    }

    pub(crate) fn on_wakeup(&mut self, base: &mut Base, now: Nanos) {
        let without_offload = each!(&mut self.kind, session => {
            if let Some(presence) = &mut self.presence {
                presence.on_wakeup(now, &mut **session, &base.counters.context);
            }
            session.on_wakeup(base, now);
            session.without_offload()
        });
        if without_offload != self.without_offload {
            self.count_without_offload(without_offload, &base.counters.context);
        }
    }

    #[cold]
    fn count_without_offload(&mut self, now: usize, counters: &MessagingContext) {
        let before = std::mem::replace(&mut self.without_offload, now);
        let all = counters.sockets_without_offload.get() + now as u64;
        counters.sockets_without_offload.set(all - before as u64);
    }

    /// Takes what has come: NAKs, or somebody who connects. Whether there may be more.
    pub(crate) fn on_ready(&mut self, base: &mut Base, now: Nanos) -> bool {
        each!(&mut self.kind, session => session.on_ready(base, now))
    }

    /// Whether it has sockets that the poller may not watch.
    pub(crate) fn has_unwatched(&self) -> bool {
        each!(&self.kind, session => session.has_unwatched())
    }

    /// Looks at sockets that the poller does not watch; whether anything has come.
    pub(crate) fn poll_unwatched(&mut self, base: &mut Base, now: Nanos) -> bool {
        each!(&mut self.kind, session => session.poll_unwatched(base, now))
    }

    /// A datagram has come to a port of the AF_XDP socket; false if that is not its own.
    pub(crate) fn on_nak(
        &mut self,
        now: Nanos,
        from: SocketAddrV4,
        to: SocketAddrV4,
        datagram: &[u8],
    ) -> bool {
        each!(&mut self.kind, session => session.on_nak(now, from, to, datagram))
    }

    /// A connection of a receiver is ready.
    pub(crate) fn on_client_ready(&mut self, client: usize, ready: Ready) {
        each!(&mut self.kind, session => session.on_client_ready(client, ready));
    }

    /// Looks at the connections of all receivers.
    pub(crate) fn look_at_clients(&mut self) {
        each!(&mut self.kind, session => session.look_at_clients());
    }

    /// What has happened to it since the last time.
    pub(crate) fn take_events(&mut self, base: &mut Base) -> Vec<SourceEvent> {
        each!(&mut self.kind, session => {
            let events = session.take_events(base);
            if let Some(presence) = &mut self.presence {
                presence.take_answers(base.now, &mut **session, &events, &base.counters.context);
            }
            events
        })
    }

    /// Begins to ask who receives a topic, or ends it.
    pub(crate) fn watch_receivers(&mut self, base: &mut Base, index: u32, source: Source, watches: bool) {
        if watches {
            let presence = &mut self.presence;
            let presence = presence.get_or_insert_with(|| Box::new(Presence::new(base.rng.next_u32())));
            presence.watch(base.now, index, source);
        } else if let Some(presence) = &mut self.presence {
            let counters = &base.counters.context;
            let is_last =
                each!(&mut self.kind, session => presence.unwatch(base.now, index, &mut **session, counters));
            if is_last {
                self.presence = None;
            }
        }
    }

    /// How many receivers of a topic have answered; none if nobody asks.
    pub(crate) fn receivers(&self, index: u32) -> Option<usize> {
        self.presence.as_ref()?.count(index)
    }

    /// A source whose receivers have changed, and how many there are.
    pub(crate) fn poll_receivers(&mut self) -> Option<(Source, usize)> {
        self.presence.as_mut()?.poll_change()
    }

    /// Notes a source of which a send was refused.
    pub(crate) fn refuse(&mut self, source: Source) {
        self.refused.push(source);
    }

    /// The sources to be told that there is room; to be given back.
    pub(crate) fn take_refused(&mut self) -> Option<Vec<Source>> {
        let waits = self.refused.is_empty() || self.is_blocked();
        if waits { None } else { Some(std::mem::take(&mut self.refused)) }
    }

    pub(crate) fn give_back_refused(&mut self, refused: Vec<Source>) {
        self.refused = refused;
    }

    /// What it has accepted and not got rid of.
    pub(crate) fn left(&self) -> Option<SessionLeft> {
        let (Unsent { messages, bytes }, receivers, owes) = each!(&self.kind, session => session.left());
        let is_empty = messages == 0 && bytes == 0 && receivers == 0 && !owes;
        (!is_empty).then_some(SessionLeft { transport: self.transport, messages, bytes, receivers })
    }

    /// Takes who has connected before the end and was not looked at since: the end is told them too.
    pub(crate) fn take_late_clients(&mut self, base: &mut Base) {
        each!(&mut self.kind, session => session.take_late_clients(base));
    }

    /// Goes on after its end; whether nobody needs it any more.
    pub(crate) fn settle(&mut self, base: &mut Base, now: Nanos, patience: &Patience) -> bool {
        each!(&mut self.kind, session => session.settle(base, now, patience))
    }

    /// Drops what it has not sent and says its end, once more with each call; false if there is no need.
    pub(crate) fn bid_farewell(&mut self, base: &mut Base, now: Nanos) -> bool {
        each!(&mut self.kind, session => session.bid_farewell(base, now))
    }

    /// This process was stopped; whether that changes anything.
    pub(crate) fn after_pause(&mut self, now: Nanos) -> bool {
        each!(&mut self.kind, session => session.after_pause(now))
    }

    /// Shows sockets to the poller that it may not know of yet.
    pub(crate) fn watch(&mut self) -> io::Result<()> {
        each!(&mut self.kind, session => session.watch())
    }

    /// Keys are other ones from now on.
    pub(crate) fn rekey(&mut self, keys: &NewKeys<'_>) {
        each!(&mut self.kind, session => session.rekey(keys));
    }
}

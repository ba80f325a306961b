use std::collections::HashMap;
use std::net::SocketAddrV4;

use lbt::delivery::{BeginOfStream, Delivered, EndOfStream, Lost, Sink};
use lbt::resolution::{QueryId, ResolverSink, SourceRecord};
use lbt::rm::{Receiver, SessionKey};
use net::Interest;
use net::udp::{Sent, UdpSocket};
use units::Nanos;

use crate::context::{Context, ContextError, Port};
use crate::{Handler, SourceInfo};

/// A topic that a context receives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ReceiverId(pub(crate) usize);

/// One source of a topic that is received. Numbers are given once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SourceId(pub u32);

/// A topic that somebody wants.
pub(crate) struct Subscription {
    query: QueryId,
}

/// A multicast group that sessions use.
pub(crate) struct Group {
    address: SocketAddrV4,
    pub(crate) socket: UdpSocket,
}

/// A transport session with topics that somebody wants.
pub(crate) struct Session {
    pub(crate) receiver: Receiver,
    /// Sources with this number come from one process.
    number: u64,
    /// Receiver and topic index of each source.
    sources: HashMap<SourceId, (ReceiverId, u32)>,
}

impl Context {
    /// Begins to receive a topic, from all sources there are and will be.
    ///
    /// # Errors
    /// The name cannot be sent, or is received already.
    pub fn subscribe(
        &mut self,
        now: Nanos,
        topic: &str,
        handler: &mut impl Handler,
    ) -> Result<ReceiverId, ContextError> {
        let mut found = Found::default();
        let query = self.resolver.query(now, topic, &mut found)?;
        let receiver = ReceiverId(self.subscriptions.insert(Subscription { query }));
        self.take_found(now, found, handler);
        self.send_resolution(now);
        Ok(receiver)
    }

    /// Stops receiving a topic; no event of its sources follows.
    pub fn unsubscribe(&mut self, receiver: ReceiverId) {
        let Some(gone) = self.subscriptions.try_remove(receiver.0) else { return };
        self.resolver.stop_query(gone.query);
        for session in self.sessions.values_mut() {
            let Session { receiver: transport, sources, .. } = session;
            sources.retain(|_, (of, topic_index)| {
                let is_gone = *of == receiver;
                if is_gone {
                    transport.unsubscribe(*topic_index);
                }
                !is_gone
            });
        }
        let unused: Vec<SessionKey> =
            self.sessions.iter().filter(|(_, s)| s.sources.is_empty()).map(|(k, _)| *k).collect();
        for key in unused {
            self.sessions.remove(&key);
            self.resolver.forget_session(key);
        }
    }

    pub(crate) fn on_resolution_datagram(&mut self, now: Nanos, datagram: &[u8], handler: &mut impl Handler) {
        let mut found = Found::default();
        // A malformed datagram is counted by the resolver.
        let _ = self.resolver.on_datagram(now, datagram, &mut found);
        self.take_found(now, found, handler);
    }

    fn take_found(&mut self, now: Nanos, found: Found, handler: &mut impl Handler) {
        for (query, record) in found.0 {
            let receiver = self.subscriptions.iter().find(|(_, s)| s.query == query);
            let Some((receiver, _)) = receiver else { continue };
            if self.join(now, ReceiverId(receiver), &record, handler).is_err() {
                // Reported again when it is advertised again.
                self.counters.context.joins_failed.inc();
                self.resolver.forget_session(record.key);
            }
        }
    }

    /// Listens to a source of a topic.
    fn join(
        &mut self,
        now: Nanos,
        receiver: ReceiverId,
        record: &SourceRecord,
        handler: &mut impl Handler,
    ) -> Result<(), ContextError> {
        self.join_group(record.group)?;
        if !self.sessions.contains_key(&record.key) {
            let seed = self.rng.next_u64();
            let transport = Receiver::new(
                &self.config.receiver(),
                record.key,
                seed,
                now,
                self.counters.receiver.clone(),
                self.counters.delivery.clone(),
            )?;
            self.next_session += 1;
            let session = Session { receiver: transport, number: self.next_session, sources: HashMap::new() };
            self.sessions.insert(record.key, session);
        }
        let session = self.sessions.get_mut(&record.key).expect("it was put there above");
        let source = SourceId(self.next_source);
        if session.receiver.subscribe(record.topic_index, source.0.into()).is_err() {
            // The same record again, with another request address, say.
            return Ok(());
        }
        self.next_source += 1;
        session.sources.insert(source, (receiver, record.topic_index));
        let info = SourceInfo { session: session.number, request: record.request };
        handler.on_source(receiver, source, &info);
        Ok(())
    }

    fn join_group(&mut self, address: SocketAddrV4) -> Result<(), ContextError> {
        if self.groups.iter().any(|(_, g)| g.address == address) {
            return Ok(());
        }
        let socket = UdpSocket::multicast_receiver(address, self.options())?;
        let index = self.groups.vacant_key();
        self.registrar.add(&socket, self.token(Port::Group, index), Interest::Read)?;
        self.groups.insert(Group { address, socket });
        Ok(())
    }

    #[inline]
    pub(crate) fn on_session_datagram(
        &mut self,
        now: Nanos,
        from: SocketAddrV4,
        datagram: &[u8],
        handler: &mut impl Handler,
    ) {
        let Some(key) = SessionKey::of(*from.ip(), datagram) else {
            self.counters.context.unknown_datagrams.inc();
            return;
        };
        let Some(session) = self.sessions.get_mut(&key) else {
            self.counters.context.unknown_datagrams.inc();
            return;
        };
        // A malformed datagram is counted by the session.
        let _ = session.receiver.on_datagram(now, from, datagram, &mut Bridge(handler));
        if session.receiver.has_ended() {
            self.drop_session(key, handler);
        }
    }

    pub(crate) fn wake_sessions(&mut self, now: Nanos, handler: &mut impl Handler) {
        let mut ended = Vec::new();
        for (key, session) in &mut self.sessions {
            if now >= session.receiver.next_wakeup() {
                session.receiver.on_wakeup(now, &mut Bridge(handler));
                if session.receiver.has_ended() {
                    ended.push(*key);
                }
            }
        }
        for key in ended {
            self.drop_session(key, handler);
        }
    }

    /// A session is over: its sources end, and are found again if they are advertised again.
    fn drop_session(&mut self, key: SessionKey, handler: &mut impl Handler) {
        if let Some(session) = self.sessions.remove(&key) {
            self.resolver.forget_session(key);
            let mut sources: Vec<SourceId> = session.sources.into_keys().collect();
            sources.sort_unstable();
            for source in sources {
                handler.on_source_ended(source);
            }
        }
    }

    /// Sends NAKs that are due.
    pub(crate) fn send_feedback(&mut self, now: Nanos) {
        for session in self.sessions.values_mut() {
            while let Some(feedback) = session.receiver.poll_transmit(now) {
                match self.control.send_run(feedback.to, feedback.datagram, feedback.datagram.len()) {
                    Ok(Sent::Datagrams(_)) => {}
                    // The numbers are NAKed again.
                    Ok(Sent::WouldBlock) | Err(_) => self.counters.context.sends_failed.inc(),
                }
            }
        }
    }
}

/// What the resolver has found, to be joined once it is not borrowed any more.
#[derive(Default)]
struct Found(Vec<(QueryId, SourceRecord)>);

impl ResolverSink for Found {
    fn source_found(&mut self, query: QueryId, _: &str, source: &SourceRecord) {
        self.0.push((query, *source));
    }
}

/// Hands a session's events on; tokens are source numbers.
struct Bridge<'h, H>(&'h mut H);

impl<H: Handler> Sink for Bridge<'_, H> {
    #[inline]
    fn deliver(&mut self, message: Delivered<'_>) {
        self.0.on_message(SourceId(message.token as u32), message.payload);
    }

    fn lost(&mut self, lost: Lost) {
        self.0.on_loss(SourceId(lost.token as u32), lost.count);
    }

    fn begin_of_stream(&mut self, _: BeginOfStream) {}

    /// Told for all sources together when the session is dropped.
    fn end_of_stream(&mut self, _: EndOfStream) {}
}

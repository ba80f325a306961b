//! What a context receives: its receivers, and the transport sessions they hear.

mod gate;
mod ordered;
mod receivers;
mod recovering;
mod reliable;

use std::collections::{BTreeMap, VecDeque};
use std::io;

use lbt::config::Order;
use lbt::delivery::EndReason;
use lbt::resolution::{QueryId, SourceRecord, TransportSession};
use lbt::session::RunId;
use net::udp::UdpSocket;
use slab::Slab;
use units::{Nanos, Sqn};

use crate::base::{Base, Port};
use crate::departed::Departed;
use crate::direct::Direct;
use crate::error::ContextError;
use crate::failover::Part;
use crate::incoming::{Incoming, ReliableIncoming, RmIncoming, RuIncoming};
use crate::receiver::{Found, ReceiverEntry, Subscription};
use crate::recovery::{Recovering, Wanted};
use crate::session::SessionRef;
use crate::stream::{Heir, NewStream, Streams};
use crate::{Handler, MessagingConfig, Receiver};

use gate::Gate;

/// The receivers of a context, their streams, and the sessions that bring them.
pub(crate) struct Receiving {
    receivers: Slab<ReceiverEntry>,
    subscriptions: Slab<Subscription>,
    /// Subscriptions. A hash table would have to be rebuilt as it grows, in hundreds of milliseconds for a million.
    by_query: BTreeMap<QueryId, usize>,
    found: VecDeque<Found>,
    streams: Streams,
    departed: Departed,
    pub(crate) incoming: Incoming,
    gate: Gate,
    recovering: Recovering,
    next_session: u64,
    /// When sources known by configuration are tried again.
    static_due: Nanos,
}

impl Receiving {
    pub(crate) fn new(config: &MessagingConfig) -> Receiving {
        Receiving {
            receivers: Slab::new(),
            subscriptions: Slab::new(),
            by_query: BTreeMap::new(),
            found: VecDeque::new(),
            streams: Streams::default(),
            departed: Departed::default(),
            incoming: Incoming::default(),
            gate: Gate::new(config),
            recovering: Recovering::default(),
            next_session: 0,
            static_due: Nanos::NEVER,
        }
    }

    /// When something is due.
    pub(crate) fn next_wakeup(&self, base: &Base) -> Nanos {
        if !self.found.is_empty() {
            return Nanos::ZERO;
        }
        let own = self.incoming_wakeup().min(self.recovery_wakeup(base)).min(self.static_due);
        own.min(self.streams.failovers.next_wakeup())
    }

    /// Tells a hot failover receiver that the numbers of its topics begin anew.
    pub(crate) fn restart_failover(&mut self, receiver: Receiver, handler: &mut impl Handler) {
        self.streams.failovers.restart(receiver, handler);
    }

    /// The source of a ring has rung.
    pub(crate) fn on_bell(&mut self, at: usize) {
        self.incoming.ipc.wake(at);
    }

    /// Whether sessions of LBT-RU may be received.
    pub(crate) fn has_ru(&self) -> bool {
        self.incoming.ru.descriptors() > 0
    }

    /// Data sockets and connections.
    pub(crate) fn descriptors(&self) -> usize {
        self.incoming.rm.descriptors() + self.incoming.tcp.descriptors() + self.incoming.ru.descriptors()
    }

    /// Shows the data sockets and the bells of rings to the poller.
    pub(crate) fn watch_data(&mut self, base: &Base) -> io::Result<()> {
        for (index, socket) in self.incoming.rm.sockets() {
            base.show_data(socket, Port::Group, index)?;
        }
        if let Some(socket) = self.incoming.ru.socket(0) {
            base.show_data(socket, Port::RuReceiver, 0)?;
        }
        for (index, connection) in self.incoming.tcp.unwatched() {
            base.show_data(connection, Port::TcpSession, index)?;
        }
        let token = |at| base.token(Port::IpcSession, at);
        self.incoming.ipc.watch(&base.registrar, token, &base.counters.context)
    }

    /// Takes moments back that were put off, so that the next one is exact.
    pub(crate) fn refresh(&mut self, now: Nanos) {
        self.incoming.rm.sessions.refresh(now);
        self.incoming.ru.sessions.refresh(now);
    }

    /// This process was stopped: what came meanwhile is taken.
    pub(crate) fn after_pause(&mut self, now: Nanos) {
        self.incoming.rm.sessions.after_pause(now);
        self.incoming.ru.sessions.after_pause(now);
    }

    /// Its streams, to be looked at.
    pub(crate) fn streams(&self) -> &Streams {
        &self.streams
    }

    /// Whether somebody is to hear of a source.
    pub(crate) fn has_found(&self) -> bool {
        !self.found.is_empty()
    }

    /// Tells what no source of a hot failover receiver can deliver in time.
    pub(crate) fn wake_failovers(&mut self, now: Nanos, handler: &mut impl Handler) {
        self.streams.failovers.on_wakeup(now, handler);
    }

    /// The sockets that bring sessions of datagrams.
    pub(crate) fn data_sockets(&self) -> impl Iterator<Item = &UdpSocket> {
        self.incoming.rm.sockets().map(|(_, socket)| socket).chain(self.incoming.ru.socket(0))
    }

    /// Listens to a source of a topic for a receiver.
    pub(crate) fn join(
        &mut self,
        base: &mut Base,
        direct: &mut Direct,
        receiver: Receiver,
        topic: &str,
        record: &SourceRecord,
    ) -> Result<(), ContextError> {
        let now = base.now;
        let Some(entry) = self.receivers.get(receiver.slot as usize) else { return Ok(()) };
        let (advertised, record) = (record, &self.incoming.rm.known_as(record));
        let (order, has_failover) = (entry.options.source_order(), entry.options.hot_failover);
        let is_ordered = order.unwrap_or(base.config.ordered_delivery.order()) == Order::Topic;
        if let Some(slot) = self.streams.find(record) {
            self.incoming.rm.add_network(base, advertised, record);
            if self.streams.hears(slot, receiver) {
                return Ok(());
            }
            let part = self.part_of(base, receiver, topic, has_failover)?;
            if part.is_some() == has_failover {
                let from = if is_ordered { self.put_in_order(slot) } else { None };
                self.streams.attach(slot, receiver, part, from);
                self.announce(slot, receiver);
            } else {
                base.resolution.resolver.forget_source(now, topic, advertised);
            }
            return Ok(());
        }
        if is_of_another_host(&record.session)? {
            return Ok(());
        }
        if !self.pass_gate(base, receiver, topic, advertised, record) {
            return Ok(());
        }
        let is_new = !self.incoming.is_received(&record.session);
        let Some((session, session_number)) = self.open_session(base, record)? else {
            // It may be heard later: it is reported again when it is advertised again.
            base.resolution.resolver.forget_source(now, topic, advertised);
            return Ok(());
        };
        if is_new {
            self.gate.on_opened(base, session, session_number, &record.session);
        }
        self.incoming.rm.add_network(base, advertised, record);
        let token = self.streams.next_slot() as u64;
        let resumed = self.take_departed(session, record);
        let wanted = Wanted { token, order, resumes: resumed.is_some() };
        self.watch(base, direct, session, record, wanted)?;
        if !self.incoming.subscribe(session, record.topic_index, token, order) {
            self.unwatch(base, session, record.topic_index);
            base.counters.context.joins_failed.inc();
            base.resolution.resolver.forget_source(now, topic, advertised);
            return Ok(());
        }
        if let Some(next) = resumed {
            self.incoming.resume(session, record.topic_index, next);
        }
        let part = self.part_of(base, receiver, topic, has_failover)?;
        if part.is_some() != has_failover {
            // It may be taken later, when another source has ended: it is reported again when it is
            // advertised again.
            self.leave(base, direct, session, record);
            base.resolution.resolver.forget_source(now, topic, advertised);
            return Ok(());
        }
        let burst_min = base.config.delivery_control_maximum_burst_loss;
        let slot = self.streams.insert(&NewStream {
            receiver,
            session,
            session_number,
            record,
            topic,
            burst_min,
            is_ordered,
            part,
        });
        self.announce(slot, receiver);
        Ok(())
    }

    /// What a source is of the merged stream of a receiver with hot failover; none without, or if that has as
    /// many sources as it may.
    fn part_of(
        &mut self,
        base: &mut Base,
        receiver: Receiver,
        topic: &str,
        wanted: bool,
    ) -> Result<Option<Part>, ContextError> {
        if !wanted {
            return Ok(None);
        }
        let (config, counters) = (base.config.failover(), &base.counters.failover);
        Ok(self.streams.failovers.join(receiver, topic, &config, counters)?)
    }

    /// Begins to receive a session, if it is not received already; none if it cannot be heard here.
    fn open_session(
        &mut self,
        base: &mut Base,
        record: &SourceRecord,
    ) -> Result<Option<(SessionRef, u64)>, ContextError> {
        let session = record.session;
        match session {
            TransportSession::LbtRm { key, group } => self.open_rm(base, key, group, record.origin).map(Some),
            TransportSession::Tcp { address, .. } => {
                self.incoming.tcp.open(base, &mut self.next_session, session, address).map(Some)
            }
            TransportSession::LbtRu { address, session_id } => self.open_ru(base, address, session_id),
            TransportSession::Ipc { session_id, transport_id, .. } => {
                let name = net::shm::SessionName { session_id, transport_id };
                self.incoming.ipc.open(base, &mut self.next_session, session, name)
            }
        }
    }

    /// A stream is heard in topic order from now on, by all of its receivers, if it was not. Returns the number from
    /// which on that is so.
    fn put_in_order(&mut self, slot: usize) -> Option<Sqn> {
        let stream = self.streams.get_mut(slot).filter(|stream| !stream.is_ordered)?;
        stream.is_ordered = true;
        self.incoming.put_in_order(stream.session, stream.record.topic_index)
    }

    /// With what a stream goes on that is heard again after its session was lost.
    fn take_departed(&mut self, session: SessionRef, record: &SourceRecord) -> Option<Sqn> {
        let run = self.incoming.run_of(session);
        let receivers = &self.receivers;
        let exists =
            |r: Receiver| receivers.get(r.slot as usize).is_some_and(|entry| entry.number == r.number);
        self.departed.take(&(record.session, run), record.topic_index, exists)
    }

    /// Nobody hears a topic of a session any more; a session that is left without topics is closed.
    pub(crate) fn leave(
        &mut self,
        base: &mut Base,
        direct: &mut Direct,
        session: SessionRef,
        record: &SourceRecord,
    ) {
        let now = base.now;
        let is_last = !self.streams.has_session(session);
        if is_last {
            self.forget_recovery(base, direct, session);
        } else {
            self.unwatch(base, session, record.topic_index);
        }
        if is_last {
            self.incoming.close(base, session);
        } else {
            self.incoming.unsubscribe(session, record.topic_index);
        }
        if is_last {
            base.resolution.resolver.forget_session(now, &record.session);
        }
    }

    /// A session is over: its streams end, and are found again if they are advertised again; what a source
    /// had advertised before it said that it ends does not count.
    pub(crate) fn end_session(
        &mut self,
        base: &mut Base,
        session: SessionRef,
        transport: &TransportSession,
        reason: EndReason,
        handler: &mut impl Handler,
    ) {
        let now = base.now;
        if self.streams.reason_of_end(session).unwrap_or(reason) == EndReason::Ended {
            base.resolution.resolver.end_session(now, transport);
            if self.can_end_be_forged(base, transport) {
                self.departed.remember_ended(now, (*transport, None), self.streams.owed(session));
            } else {
                self.departed.forget(&(*transport, None));
            }
        } else {
            base.resolution.resolver.lose_session(now, transport);
            if !self.may_be_another(base, transport) {
                self.departed.remember((*transport, None), self.streams.owed(session));
            }
        }
        self.streams.end_session(now, session, reason, handler);
    }

    /// A session has ended, and a new receiver stands in the place of the old one, which heard a run of the source,
    /// if that said so: streams end, and their receivers join the new ones at once. If the
    /// session `goes_on`, as numbers were believed that were not its own, these begin where the old ones ended.
    pub(crate) fn begin_anew(
        &mut self,
        base: &mut Base,
        direct: &mut Direct,
        session: SessionRef,
        run: Option<RunId>,
        (reason, goes_on): (EndReason, bool),
        handler: &mut impl Handler,
    ) {
        let now = base.now;
        self.forget_recovery(base, direct, session);
        let heirs = self.streams.heirs(session);
        if let Some(heir) = heirs.first() {
            let of_run = (heir.record.session, run);
            if run.is_some() || goes_on || reason == EndReason::TimedOut {
                // It may yet go on: a stranger can say that it ends, or that another begins.
                self.departed.remember(of_run, self.streams.owed(session));
            } else {
                self.departed.forget(&of_run);
            }
        }
        self.streams.end_session(now, session, reason, handler);
        for Heir { receiver, topic, record } in heirs {
            self.join_counted(base, direct, receiver, &topic, &record);
        }
        // What is heard of them may be at hand.
        self.tell_found(handler);
    }

    /// Whether a session that is heard again may be of another run of its source, which nothing tells: a TCP session
    /// has an id of its own in each run, unless the configuration fixes it.
    fn may_be_another(&self, base: &Base, session: &TransportSession) -> bool {
        matches!(session, TransportSession::Tcp { .. }) && base.is_fixed(session)
    }

    /// Whether anybody can have said that a session is over which goes on. One that the configuration fixes may be another
    /// run of its source when it is heard again, which nothing tells.
    fn can_end_be_forged(&self, base: &Base, session: &TransportSession) -> bool {
        let is_of_datagrams = match session {
            TransportSession::LbtRm { .. } => true,
            TransportSession::LbtRu { session_id, .. } => session_id.is_some(),
            TransportSession::Tcp { .. } | TransportSession::Ipc { .. } => false,
        };
        is_of_datagrams && !base.is_fixed(session)
    }

    /// Ends a session that is over, of which something was still asked for, once nothing is.
    pub(crate) fn end_recovered(
        &mut self,
        base: &mut Base,
        direct: &mut Direct,
        session: SessionRef,
        handler: &mut impl Handler,
    ) {
        match session {
            SessionRef::Rm(at) if self.incoming.rm.sessions.has_ended(at) => {
                self.end::<RmIncoming>(base, direct, at, handler);
            }
            SessionRef::Ru(at) if self.incoming.ru.sessions.has_ended(at) => {
                self.end::<RuIncoming>(base, direct, at, handler);
            }
            SessionRef::Tcp(_) | SessionRef::Ipc(_) => self.finish_ordered(base, direct, session, handler),
            _ => {}
        }
    }

    pub(crate) fn wake_incoming(
        &mut self,
        base: &mut Base,
        direct: &mut Direct,
        now: Nanos,
        handler: &mut impl Handler,
    ) {
        self.wake::<RmIncoming>(base, direct, now, handler);
        self.wake::<RuIncoming>(base, direct, now, handler);
        self.wake_ipc(base, direct, now, handler);
        self.wake_gate(base, direct, now, handler);
    }

    /// Closes a session that has shown no sign of life.
    fn give_up(
        &mut self,
        base: &mut Base,
        direct: &mut Direct,
        session: SessionRef,
        handler: &mut impl Handler,
    ) {
        let now = base.now;
        self.forget_recovery(base, direct, session);
        let gone = self.incoming.close(base, session);
        if let Some(transport) = gone {
            base.resolution.resolver.forget_session(now, &transport);
            self.streams.end_session(now, session, EndReason::TimedOut, handler);
        }
    }

    pub(crate) fn incoming_wakeup(&self) -> Nanos {
        self.incoming.next_wakeup().min(self.gate.next_wakeup())
    }
}

/// Shared memory of another host is never heard: that it is known is not worth an attempt at each advertisement.
fn is_of_another_host(session: &TransportSession) -> io::Result<bool> {
    match *session {
        TransportSession::Ipc { host_id, .. } => Ok(host_id != crate::host::host_id()?),
        TransportSession::LbtRm { .. } | TransportSession::Tcp { .. } | TransportSession::LbtRu { .. } => {
            Ok(false)
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, SocketAddrV4};
    use std::time::Duration;

    use lbt::rm::SessionKey;
    use lbt::wire::lbtrm::SessionHeader;

    use super::*;
    use crate::Context;
    use crate::incoming::Look;
    use lbt::resolution::Resolver;

    use crate::context::tests::lone;
    use crate::{ReceiverOptions, Wait};

    /// Receives a multicast session that nobody sends.
    fn join_group(context: &mut Context) {
        let session = SessionHeader { ucast_port: 9, session_id: 9 };
        let key = SessionKey { source: Ipv4Addr::LOCALHOST, session };
        let group = SocketAddrV4::new(Ipv4Addr::new(239, 246, 9, 9), 9_999);
        context.receiving.open_rm(&mut context.base, key, group, None).expect("loopback has multicast");
    }

    #[test]
    fn a_group_is_left_with_its_last_session_and_the_others_stay() {
        let mut context = lone(9, Wait::Block);
        let group = |n| SocketAddrV4::new(Ipv4Addr::new(239, 246, 9, n), 9_999);
        let session = |id| {
            let session = SessionHeader { ucast_port: 9, session_id: id };
            SessionKey { source: Ipv4Addr::LOCALHOST, session }
        };
        // Sessions 0 and 3 are on group 0, 1 and 4 on group 1, 2 and 5 on group 2.
        let open = |context: &mut Context, id: u32| {
            context
                .receiving
                .open_rm(&mut context.base, session(id), group((id % 3) as u8), None)
                .expect("loopback has multicast")
        };
        let sessions: Vec<_> = (0..6).map(|id| open(&mut context, id).0).collect();
        assert_eq!(context.receiving.incoming.rm.descriptors(), 3);
        let close = |context: &mut Context, id: usize| {
            let SessionRef::Rm(at) = sessions[id] else { unreachable!("it is one") };
            context.receiving.incoming.rm.close(&mut context.base, at)
        };
        for (id, left) in [(0, 3), (1, 3), (4, 2), (3, 1)] {
            assert!(close(&mut context, id).is_some() && close(&mut context, id).is_none());
            assert_eq!(context.receiving.incoming.rm.descriptors(), left, "after session {id}");
            assert_eq!(context.receiving.incoming.rm.sockets().count(), left);
        }
        let now = context.base.now;
        assert!(
            !context.receiving.poll_groups(&mut context.base, &mut context.direct, now, &mut ()),
            "nobody sends"
        );
        open(&mut context, 0);
        assert_eq!(context.receiving.incoming.rm.sockets().count(), 2);
    }

    /// A context hears of a source.
    fn hear_of(context: &mut Context, session: TransportSession) {
        let record = SourceRecord { topic_index: 7, session, request: None, late_join: None, origin: None };
        let (config, counters) = (lbt::config::ResolverConfig::default(), Default::default());
        let mut other = Resolver::new(&config, Nanos::ZERO, counters).expect("allowed");
        other.advertise(Nanos::ZERO, "px", record).expect("a good name");
        let datagram = other.poll_transmit(Nanos::ZERO).expect("it is due").to_vec();
        context.receiving.on_resolution_datagram(&mut context.base, &mut context.direct, &datagram);
    }

    #[test]
    fn a_session_that_times_out_however_late_has_its_topic_asked_for_again() {
        let mut context = lone(4, Wait::Block);
        context.create_receiver("px", &ReceiverOptions::default()).expect("a good name");
        let session = SessionHeader { ucast_port: 9, session_id: 9 };
        let key = SessionKey { source: Ipv4Addr::LOCALHOST, session };
        let group = SocketAddrV4::new(Ipv4Addr::new(239, 246, 9, 9), 9_999);
        let start = context.base.now;
        for day in [1u32, 8, 30] {
            let now = start + Duration::from_secs(86_400) * day;
            context.on_wakeup(now, &mut ());
            hear_of(&mut context, TransportSession::LbtRm { key, group });
            assert_eq!(context.receiving.streams.next_slot(), 1, "day {day}");
            let asked = context.base.counters.resolver.queries_sent.get();
            context.on_wakeup(now + Duration::from_secs(11), &mut ());
            // It was late itself: a quarter of the time-out is waited once more.
            context.on_wakeup(now + Duration::from_secs(15), &mut ());
            let counters = &context.base.counters.resolver;
            assert_eq!(
                (context.receiving.streams.next_slot(), counters.sources_known.get()),
                (0, 0),
                "day {day}"
            );
            assert!(counters.queries_sent.get() > asked, "day {day}");
        }
        assert_eq!(context.base.counters.resolver.queries_resumed.get(), 3);
    }

    #[test]
    fn shared_memory_of_another_host_is_known_and_not_tried_at_each_advertisement() {
        let mut context = lone(5, Wait::Block);
        context.create_receiver("px", &ReceiverOptions::default()).expect("a good name");
        let own = crate::host::host_id().expect("there is one");
        for (host_id, known) in [(own.wrapping_add(1), 1), (own, 1)] {
            // That of this host is not there: it is tried again when it is advertised again.
            hear_of(
                &mut context,
                TransportSession::Ipc { host_id, session_id: 0xdead_0009, transport_id: 9 },
            );
            let counters =
                (context.base.counters.resolver.sources_known.get(), context.receiving.streams.next_slot());
            assert_eq!(counters, (known, 0), "{host_id}");
        }
        assert_eq!(context.base.counters.context.joins_failed.get(), 0);
    }

    fn spoil_group(context: &Context) {
        context
            .receiving
            .incoming
            .rm
            .sockets()
            .for_each(|(_, socket)| net::faults::spoil(socket).expect("there are descriptors"));
    }

    #[test]
    fn broken_sockets_of_sessions_are_counted_whoever_looks_at_them() {
        let mut context = lone(2, Wait::Block);
        join_group(&mut context);
        context
            .receiving
            .open_ru(&mut context.base, SocketAddrV4::new(Ipv4Addr::LOCALHOST, 9), None)
            .expect("a port is free");
        let now = context.base.now;
        let look_at_all = |context: &mut Context| {
            let mut worked =
                context.receiving.poll_groups(&mut context.base, &mut context.direct, now, &mut ());
            worked |= context.receiving.on_socket_ready::<RmIncoming>(
                &mut context.base,
                &mut context.direct,
                now,
                (0, Look::Told),
                &mut (),
            );
            worked |= context.receiving.on_socket_ready::<RuIncoming>(
                &mut context.base,
                &mut context.direct,
                now,
                (0, Look::Direct),
                &mut (),
            );
            worked
                | context.receiving.on_socket_ready::<RuIncoming>(
                    &mut context.base,
                    &mut context.direct,
                    now,
                    (0, Look::Told),
                    &mut (),
                )
        };
        assert!(!look_at_all(&mut context));
        assert_eq!(context.base.counters.context.receives_failed.get(), 0);
        spoil_group(&context);
        net::faults::spoil(context.receiving.incoming.ru.socket(0).expect("it was opened"))
            .expect("there are descriptors");
        assert!(!look_at_all(&mut context));
        assert_eq!(context.base.counters.context.receives_failed.get(), 4);
    }

    #[test]
    fn a_socket_that_the_poller_does_not_take_is_told_by_the_next_turn_and_nobody_sleeps() {
        let mut context = lone(3, Wait::Spin);
        join_group(&mut context);
        spoil_group(&context);
        for _ in 0..2 {
            assert_eq!(context.until_wakeup(), Some(Duration::ZERO));
            assert!(context.poll(&mut ()).is_err());
        }
    }
}

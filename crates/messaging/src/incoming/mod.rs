//! The transport sessions that a context receives.

mod gate;
mod ipc;
mod reliable;
mod rest;
mod rm;
mod ru;
mod tcp;

use std::io;

use lbt::config::Order;
use lbt::delivery::EndReason;
use lbt::resolution::{SourceRecord, TransportSession};
use lbt::session::RunId;
use net::udp::{ReceiveBatch, Received, UdpSocket};
use units::{Nanos, Sqn};

use crate::base::Base;
use crate::direct::Direct;
use crate::error::ContextError;
use crate::failover::Part;
use crate::receiving::Receiving;
use crate::recovery::Wanted;
use crate::session::SessionRef;
use crate::stream::{Heir, NewStream};
use crate::{Handler, Receiver};

use gate::Sign;

pub(crate) use gate::Gate;
pub(crate) use ipc::IpcIncoming;
pub(crate) use rm::RmIncoming;
pub(crate) use ru::RuIncoming;
pub(crate) use tcp::TcpIncoming;

/// Why a socket is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Look {
    /// The poller has told that something is there.
    Told,
    /// It is this one's turn, whether or not something is there. An answer to a message does not wait here for
    /// the NAKs that are due: they leave with the next look at the timers, within 50 us.
    Direct,
}

impl Look {
    #[inline]
    fn at<'b>(self, socket: &UdpSocket, batch: &'b mut ReceiveBatch) -> io::Result<Received<'b>> {
        match self {
            Look::Told => socket.receive(batch),
            Look::Direct => socket.poll(batch),
        }
    }
}

impl Receiving {
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
        let (advertised, record) = (record, &self.rm_in.known_as(record));
        let (order, has_failover) = (entry.options.source_order(), entry.options.hot_failover);
        let is_ordered = order.unwrap_or(base.config.ordered_delivery.order()) == Order::Topic;
        if let Some(slot) = self.streams.find(record) {
            self.rm_in.add_network(base, advertised, record);
            if self.streams.hears(slot, receiver) {
                return Ok(());
            }
            let part = self.part_of(base, receiver, topic, has_failover)?;
            if part.is_some() == has_failover {
                let from = if is_ordered { self.put_in_order(slot) } else { None };
                self.streams.attach(slot, receiver, part, from);
                self.announce(slot, receiver);
            } else {
                base.resolver.forget_source(now, topic, advertised);
            }
            return Ok(());
        }
        if is_of_another_host(&record.session)? {
            return Ok(());
        }
        if !self.pass_gate(base, receiver, topic, advertised, record) {
            return Ok(());
        }
        let is_new = !self.is_received(&record.session);
        let Some((session, session_number)) = self.open_session(base, record)? else {
            // It may be heard later: it is reported again when it is advertised again.
            base.resolver.forget_source(now, topic, advertised);
            return Ok(());
        };
        if is_new {
            self.on_opened(base, session, session_number, &record.session);
        }
        self.rm_in.add_network(base, advertised, record);
        let token = self.streams.next_slot() as u64;
        let resumed = self.take_departed(session, record);
        let wanted = Wanted { token, order, resumes: resumed.is_some() };
        self.watch(base, direct, session, record, wanted)?;
        if !self.subscribe(session, record.topic_index, token, order) {
            self.unwatch(base, session, record.topic_index);
            base.counters.context.joins_failed.inc();
            base.resolver.forget_source(now, topic, advertised);
            return Ok(());
        }
        if let Some(next) = resumed {
            self.resume(session, record.topic_index, next);
        }
        let part = self.part_of(base, receiver, topic, has_failover)?;
        if part.is_some() != has_failover {
            // It may be taken later, when another source has ended: it is reported again when it is
            // advertised again.
            self.leave(base, direct, session, record);
            base.resolver.forget_source(now, topic, advertised);
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
            TransportSession::Tcp { address, .. } => self.open_tcp(base, session, address).map(Some),
            TransportSession::LbtRu { address, session_id } => self.open_ru(base, address, session_id),
            TransportSession::Ipc { session_id, transport_id, .. } => {
                self.open_ipc(base, session, net::shm::SessionName { session_id, transport_id })
            }
        }
    }

    fn subscribe(&mut self, session: SessionRef, index: u32, token: u64, order: Option<Order>) -> bool {
        match session {
            SessionRef::Rm(at) => self.rm_in.sessions.subscribe(at, index, token, order),
            SessionRef::Tcp(at) => self.tcp_in.subscribe(at, index, token, order),
            SessionRef::Ipc(at) => self.ipc_in.subscribe(at, index, token, order),
            SessionRef::Ru(at) => self.ru_in.sessions.subscribe(at, index, token, order),
        }
    }

    /// A stream is heard in topic order from now on, by all of its receivers, if it was not. Returns the number from
    /// which on that is so.
    fn put_in_order(&mut self, slot: usize) -> Option<Sqn> {
        let stream = self.streams.get_mut(slot).filter(|stream| !stream.is_ordered)?;
        stream.is_ordered = true;
        let index = stream.record.topic_index;
        match stream.session {
            SessionRef::Rm(at) => self.rm_in.sessions.put_in_order(at, index),
            SessionRef::Ru(at) => self.ru_in.sessions.put_in_order(at, index),
            SessionRef::Tcp(at) => self.tcp_in.put_in_order(at, index),
            SessionRef::Ipc(at) => self.ipc_in.put_in_order(at, index),
        }
    }

    /// With what a stream goes on that is heard again after its session was lost.
    fn take_departed(&mut self, session: SessionRef, record: &SourceRecord) -> Option<Sqn> {
        let run = self.run_of(session);
        let receivers = &self.receivers;
        let exists =
            |r: Receiver| receivers.get(r.slot as usize).is_some_and(|entry| entry.number == r.number);
        self.departed.take(&(record.session, run), record.topic_index, exists)
    }

    fn resume(&mut self, session: SessionRef, index: u32, next: Sqn) {
        match session {
            SessionRef::Rm(at) => self.rm_in.sessions.resume_topic(at, index, next),
            SessionRef::Ru(at) => self.ru_in.sessions.resume_topic(at, index, next),
            SessionRef::Tcp(at) => self.tcp_in.resume_topic(at, index, next),
            SessionRef::Ipc(at) => self.ipc_in.resume_topic(at, index, next),
        }
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
        match session {
            SessionRef::Rm(at) if is_last => drop(self.rm_in.close(at, &base.registrar, &mut base.xdp)),
            SessionRef::Rm(at) => self.rm_in.sessions.unsubscribe(at, record.topic_index),
            SessionRef::Tcp(at) if is_last => drop(self.tcp_in.close(at)),
            SessionRef::Tcp(at) => self.tcp_in.unsubscribe(at, record.topic_index),
            SessionRef::Ipc(at) if is_last => drop(self.ipc_in.close(at)),
            SessionRef::Ipc(at) => self.ipc_in.unsubscribe(at, record.topic_index),
            SessionRef::Ru(at) if is_last => drop(self.ru_in.close(at)),
            SessionRef::Ru(at) => self.ru_in.sessions.unsubscribe(at, record.topic_index),
        }
        if is_last {
            base.resolver.forget_session(now, &record.session);
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
            base.resolver.end_session(now, transport);
            if self.can_end_be_forged(base, transport) {
                self.departed.remember_ended(now, (*transport, None), self.streams.owed(session));
            } else {
                self.departed.forget(&(*transport, None));
            }
        } else {
            base.resolver.lose_session(now, transport);
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

    /// The run of its source that a session is in, if that is said.
    fn run_of(&self, session: SessionRef) -> Option<RunId> {
        match session {
            SessionRef::Rm(at) => self.rm_in.sessions.run(at),
            SessionRef::Ru(at) => self.ru_in.sessions.run(at),
            SessionRef::Tcp(_) | SessionRef::Ipc(_) => None,
        }
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
            SessionRef::Rm(at) if self.rm_in.sessions.has_ended(at) => {
                self.end_rm(base, direct, at, handler);
            }
            SessionRef::Ru(at) if self.ru_in.sessions.has_ended(at) => {
                self.end_ru(base, direct, at, handler);
            }
            SessionRef::Tcp(at) => self.finish_tcp(base, direct, at, handler),
            SessionRef::Ipc(at) => self.finish_ipc(base, direct, at, handler),
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
        self.wake_rm(base, direct, now, handler);
        self.wake_ru(base, direct, now, handler);
        self.wake_ipc(base, direct, now, handler);
        self.wake_gate(base, direct, now, handler);
    }

    /// Whether a session is received already.
    fn is_received(&self, session: &TransportSession) -> bool {
        match session {
            TransportSession::LbtRm { key, .. } => self.rm_in.receives(*key),
            TransportSession::Tcp { .. } => self.tcp_in.receives(session),
            TransportSession::LbtRu { address, .. } => self.ru_in.receives(*address),
            TransportSession::Ipc { .. } => false,
        }
    }

    /// What a session that was opened under a number has shown; none if it is gone.
    fn sign_of(&self, session: SessionRef, number: u64) -> Option<Sign> {
        let (has_begun, is_connecting) = match session {
            SessionRef::Rm(at) => (self.rm_in.sessions.has_begun(at, number)?, false),
            SessionRef::Ru(at) => (self.ru_in.sessions.has_begun(at, number)?, false),
            SessionRef::Tcp(at) => self.tcp_in.has_begun(at, number)?,
            SessionRef::Ipc(_) => return None,
        };
        Some(if has_begun { Sign::Heard } else { Sign::None { is_connecting } })
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
        let gone = match session {
            SessionRef::Rm(at) => self.rm_in.close(at, &base.registrar, &mut base.xdp),
            SessionRef::Tcp(at) => self.tcp_in.close(at),
            SessionRef::Ru(at) => self.ru_in.close(at),
            SessionRef::Ipc(at) => self.ipc_in.close(at),
        };
        if let Some(transport) = gone {
            base.resolver.forget_session(now, &transport);
            self.streams.end_session(now, session, EndReason::TimedOut, handler);
        }
    }

    pub(crate) fn incoming_wakeup(&self) -> Nanos {
        self.rm_in
            .sessions
            .next_wakeup()
            .min(self.ru_in.sessions.next_wakeup())
            .min(self.ipc_in.next_wakeup())
            .min(self.gate.next_wakeup())
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
        assert_eq!(context.receiving.rm_in.descriptors(), 3);
        let close = |context: &mut Context, id: usize| {
            let SessionRef::Rm(at) = sessions[id] else { unreachable!("it is one") };
            context.receiving.rm_in.close(at, &context.base.registrar, &mut context.base.xdp)
        };
        for (id, left) in [(0, 3), (1, 3), (4, 2), (3, 1)] {
            assert!(close(&mut context, id).is_some() && close(&mut context, id).is_none());
            assert_eq!(context.receiving.rm_in.descriptors(), left, "after session {id}");
            assert_eq!(context.receiving.rm_in.sockets().count(), left);
        }
        let now = context.base.now;
        assert!(
            !context.receiving.poll_groups(&mut context.base, &mut context.direct, now, &mut ()),
            "nobody sends"
        );
        open(&mut context, 0);
        assert_eq!(context.receiving.rm_in.sockets().count(), 2);
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
            .rm_in
            .sockets()
            .for_each(|(_, socket)| net::lab::spoil(socket).expect("there are descriptors"));
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
            worked |= context.receiving.on_group_ready(
                &mut context.base,
                &mut context.direct,
                now,
                0,
                Look::Told,
                &mut (),
            );
            worked |= context.receiving.on_ru_ready(
                &mut context.base,
                &mut context.direct,
                now,
                Look::Direct,
                &mut (),
            );
            worked
                | context.receiving.on_ru_ready(
                    &mut context.base,
                    &mut context.direct,
                    now,
                    Look::Told,
                    &mut (),
                )
        };
        assert!(!look_at_all(&mut context));
        assert_eq!(context.base.counters.context.receives_failed.get(), 0);
        spoil_group(&context);
        net::lab::spoil(context.receiving.ru_in.socket().expect("it was opened"))
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

//! What receivers ask sources for: messages sent before they joined, and what the transport gave up.
//!
//! A session of which a source retains messages has a [`Recovery`] between its receiver and the handler.
//! While something is to be asked for, it has a connection to the source's request port.

use std::net::SocketAddrV4;
use std::ops::Bound;
use std::time::Duration;

use counters::table::LbtrmNetworks;
use lbt::config::Order;
use lbt::recovery::Requester;
use lbt::resolution::SourceRecord;
use units::Nanos;

use crate::context::Context;
use crate::incoming::{IpcIncoming, RmIncoming, RuIncoming, SessionRef, TcpIncoming};
use crate::stream::Bridge;
use crate::{ConnectionId, Handler};

/// What is asked for of one session.
pub(crate) struct Recovery {
    pub(crate) requester: Requester,
    source: SocketAddrV4,
    /// Where it is on the other of two networks, and whether that is asked.
    other: Option<SocketAddrV4>,
    asks_other: bool,
    /// When the source was last heard, or began to be waited for.
    heard: Nanos,
    is_waiting: bool,
    /// Networks that were tried in vain since the source was last heard.
    tries: u32,
    connection: Option<ConnectionId>,
    /// When to try to connect again.
    connects_at: Nanos,
    /// When the connection was last of use.
    used: Nanos,
}

impl Recovery {
    /// The session stands: the source can be asked.
    pub(crate) fn on_established(&mut self) {
        self.connects_at = Nanos::ZERO;
    }

    /// The source has sent something over the connection.
    pub(crate) fn on_heard(&mut self, now: Nanos) {
        (self.heard, self.tries) = (now, 0);
    }

    /// When the other network is tried, if a connection brings nothing of what is waited for.
    fn moves_at(&self, interval: Duration) -> Nanos {
        if self.other.is_none() { Nanos::NEVER } else { self.heard + interval * (2 << self.tries.min(3)) }
    }

    /// Goes on on the other network, if there is one.
    fn move_on(&mut self, counters: &LbtrmNetworks) {
        self.tries += 1;
        if self.other.is_some() {
            self.asks_other = !self.asks_other;
            counters.recoveries_moved.inc();
        }
    }
}

/// The sessions that a context receives, borrowed apart from the rest of it.
pub(crate) struct Incoming<'a> {
    pub(crate) rm: &'a mut RmIncoming,
    pub(crate) tcp: &'a mut TcpIncoming,
    pub(crate) ipc: &'a mut IpcIncoming,
    pub(crate) ru: &'a mut RuIncoming,
}

/// The [`Incoming`] of a context.
macro_rules! incoming {
    ($context:expr) => {
        $crate::recovery::Incoming {
            rm: &mut $context.rm_in,
            tcp: &mut $context.tcp_in,
            ipc: &mut $context.ipc_in,
            ru: &mut $context.ru_in,
        }
    };
}
pub(crate) use incoming;

/// The recovery of a session, if it has one.
pub(crate) fn of(incoming: Incoming<'_>, session: SessionRef) -> Option<&mut Recovery> {
    place(incoming, session)?.as_deref_mut()
}

fn place(incoming: Incoming<'_>, session: SessionRef) -> Option<&mut Option<Box<Recovery>>> {
    match session {
        SessionRef::Rm(at) => incoming.rm.sessions.recovery(at),
        SessionRef::Ru(at) => incoming.ru.sessions.recovery(at),
        SessionRef::Tcp(at) => incoming.tcp.recovery(at),
        SessionRef::Ipc(at) => incoming.ipc.recovery(at),
    }
}

impl Context {
    /// Watches over a topic that is about to be subscribed, if its source retains messages and somebody wants
    /// them. `order` is that of its receiver; only in topic order there is a place for what comes later. One that
    /// `resumes` goes on where it was lost: what is retained of before was heard.
    pub(crate) fn watch(
        &mut self,
        session: SessionRef,
        record: &SourceRecord,
        token: u64,
        order: Option<Order>,
        resumes: bool,
    ) -> Result<(), lbt::config::ConfigError> {
        let (Some(transport), Some(source)) = (record.late_join, record.request) else { return Ok(()) };
        let is_ordered = order.unwrap_or(self.config.ordered_delivery.order()) == Order::Topic;
        if !is_ordered || !(self.config.use_late_join || self.config.use_otr) {
            return Ok(());
        }
        let is_established = match session {
            SessionRef::Tcp(at) => self.tcp_in.is_established(at),
            SessionRef::Rm(_) | SessionRef::Ru(_) | SessionRef::Ipc(_) => true,
        };
        let Some(place) = place(incoming!(self), session) else { return Ok(()) };
        let recovery = match place {
            Some(recovery) => recovery,
            None => {
                self.recovering.insert(session);
                let own = self.direct.address().unwrap_or(SocketAddrV4::new(self.interface, 0));
                let counters = self.counters.recovery.clone();
                let requester = Requester::new(&self.config.recovery(), transport, own, counters)?;
                // Before the session stands its source may send what neither of the two connections brings.
                let connects_at = if is_established { self.now } else { Nanos::NEVER };
                place.insert(Box::new(Recovery {
                    requester,
                    source,
                    other: None,
                    asks_other: false,
                    heard: self.now,
                    is_waiting: false,
                    tries: 0,
                    connection: None,
                    connects_at,
                    used: self.now,
                }))
            }
        };
        // Without, the topic is heard as the transport tells it.
        let (now, index, requester) = (self.now, record.topic_index, &mut recovery.requester);
        let added = match resumes {
            true => requester.resume_topic(now, index, token),
            false => requester.add_topic(now, index, token, true),
        };
        if added.is_err() {
            self.counters.context.joins_failed.inc();
        }
        Ok(())
    }

    /// Nobody hears a topic any more.
    pub(crate) fn unwatch(&mut self, session: SessionRef, topic_index: u32) {
        if let Some(recovery) = of(incoming!(self), session) {
            recovery.requester.remove_topic(topic_index);
        }
    }

    /// A session is about to be closed: its connection is closed as well.
    pub(crate) fn forget_recovery(&mut self, session: SessionRef) {
        if !self.recovering.remove(&session) {
            return;
        }
        let gone = place(incoming!(self), session).and_then(Option::take);
        if let Some(connection) = gone.and_then(|gone| gone.connection) {
            self.disconnect(connection);
        }
    }

    pub(crate) fn wake_recovery(&mut self, now: Nanos, handler: &mut impl Handler) {
        let mut next = self.recovering.first().copied();
        while let Some(session) = next {
            self.drive_recovery(now, session, handler);
            next = self.recovering.range((Bound::Excluded(session), Bound::Unbounded)).next().copied();
        }
    }

    pub(crate) fn recovery_wakeup(&self) -> Nanos {
        let idle = self.config.response_deletion_timeout();
        let interval = self.config.recovery().retransmit_request_interval;
        let due = |(is_over, recovery): (bool, &Recovery)| match recovery.connection {
            _ if is_over && recovery.requester.is_idle() => Nanos::ZERO,
            None if !recovery.requester.wants_connection() => Nanos::NEVER,
            None => recovery.connects_at.min(recovery.requester.next_wakeup()),
            Some(_) if recovery.requester.wants_connection() => {
                recovery.requester.next_wakeup().min(recovery.moves_at(interval))
            }
            Some(_) => recovery.used + idle,
        };
        let of = |session: &SessionRef| match *session {
            SessionRef::Rm(at) => self.rm_in.sessions.state_of_recovery(at),
            SessionRef::Ru(at) => self.ru_in.sessions.state_of_recovery(at),
            SessionRef::Tcp(at) => self.tcp_in.state_of_recovery(at),
            SessionRef::Ipc(at) => self.ipc_in.state_of_recovery(at),
        };
        self.recovering.iter().filter_map(of).map(due).min().unwrap_or(Nanos::NEVER)
    }

    /// Does what is due for a session: gives up, connects, asks, closes an idle connection, and ends a
    /// session that is over once nothing is asked for any more.
    pub(crate) fn drive_recovery(&mut self, now: Nanos, session: SessionRef, handler: &mut impl Handler) {
        let Some(recovery) = of(incoming!(self), session) else { return };
        if recovery.requester.next_wakeup() <= now {
            recovery.requester.on_wakeup(now, &mut Bridge { streams: &mut self.streams, handler, now });
        }
        let (source, waits) = (recovery.source, recovery.requester.wants_connection());
        let other = if waits { self.on_second_network(source) } else { None };
        let interval = self.config.recovery().retransmit_request_interval;
        let Some(recovery) = of(incoming!(self), session) else { return };
        if waits && !recovery.is_waiting {
            recovery.on_heard(now);
        }
        (recovery.is_waiting, recovery.other) = (waits, other);
        if recovery.tries == 0 && self.second.is_none() {
            // One network, and if it is not the first, the source is known here by the second.
            recovery.asks_other = other.is_some();
        }
        match recovery.connection {
            None if waits && now >= recovery.connects_at => {
                recovery.heard = now;
                let source = recovery.other.filter(|_| recovery.asks_other).unwrap_or(source);
                let connection = self.connect_for(source, session);
                self.note_connection(now, session, connection.ok(), handler);
            }
            Some(connection) if waits && now >= recovery.moves_at(interval) => {
                recovery.move_on(&self.counters.networks);
                (recovery.connection, recovery.connects_at) = (None, now);
                recovery.requester.on_disconnected();
                self.disconnect(connection);
            }
            Some(connection) if waits => {
                recovery.used = now;
                if let Some(out) = self.direct.out_of(connection) {
                    while let Some(requests) = recovery.requester.poll_transmit(now) {
                        out.extend_from_slice(requests);
                    }
                }
                self.flush_direct();
            }
            Some(connection) if now >= recovery.used + self.config.response_deletion_timeout() => {
                recovery.connection = None;
                recovery.requester.on_disconnected();
                self.disconnect(connection);
            }
            _ => {}
        }
        self.end_recovered(session, handler);
    }

    fn note_connection(
        &mut self,
        now: Nanos,
        session: SessionRef,
        connection: Option<ConnectionId>,
        handler: &mut impl Handler,
    ) {
        match connection {
            None => self.on_recovery_gone(now, session, false, handler),
            connection => {
                if let Some(recovery) = of(incoming!(self), session) {
                    recovery.connection = connection;
                    recovery.used = now;
                }
            }
        }
    }

    /// The connection for a session stands.
    pub(crate) fn on_recovery_connected(&mut self, session: SessionRef) {
        if let Some(recovery) = of(incoming!(self), session) {
            recovery.requester.on_connected();
        }
    }

    /// The connection for a session is gone, or was not to be had.
    pub(crate) fn on_recovery_gone(
        &mut self,
        now: Nanos,
        session: SessionRef,
        was_established: bool,
        handler: &mut impl Handler,
    ) {
        let Some(recovery) = of(incoming!(self), session) else { return };
        if recovery.requester.wants_connection() {
            self.counters.recovery.connections_failed.inc();
        }
        recovery.connection = None;
        recovery.move_on(&self.counters.networks);
        // The other network is tried at once, and if that fails too, both after a while.
        let has_other = recovery.other.is_some() && recovery.tries % 2 == 1;
        let interval = self.config.recovery().retransmit_request_interval;
        recovery.connects_at = if has_other { now } else { now + interval };
        if was_established || has_other {
            recovery.requester.on_disconnected();
        } else {
            recovery.requester.on_refused(&mut Bridge { streams: &mut self.streams, handler, now });
        }
        self.end_recovered(session, handler);
    }
}

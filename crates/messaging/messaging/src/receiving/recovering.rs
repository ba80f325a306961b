//! Sessions of which something is asked for at their sources.

use std::net::SocketAddrV4;

use lbt::config::Order;
use lbt::recovery::Requester;
use lbt::resolution::SourceRecord;
use lbt::stream::StreamMessage;
use units::Nanos;

use super::Receiving;
use crate::Handler;
use crate::base::Base;
use crate::direct::{Direct, Recoveries, RecoveryEvent};
use crate::recovery::{Recovering, Recovery, Wanted};
use crate::session::SessionRef;
use crate::stream::Bridge;

impl Receiving {
    /// Watches over a topic that is about to be subscribed, if its source retains messages and somebody wants
    /// them. Only in topic order there is a place for what comes later.
    pub(crate) fn watch(
        &mut self,
        base: &mut Base,
        direct: &mut Direct,
        session: SessionRef,
        record: &SourceRecord,
        Wanted { token, order, resumes }: Wanted,
    ) -> Result<(), lbt::config::ConfigError> {
        let (Some(transport), Some(source)) = (record.late_join, record.request) else { return Ok(()) };
        let is_ordered = order.unwrap_or(base.config.ordered_delivery.order()) == Order::Topic;
        if !is_ordered || !(base.config.recovery.use_late_join || base.config.recovery.use_otr) {
            return Ok(());
        }
        // A source that encrypts retains nothing without TLS; whoever says so is another, and could say anything.
        if base.payload_keys.encrypts(&record.session) && !base.config.request_tcp_tls {
            return Ok(());
        }
        let is_established = match session {
            SessionRef::Tcp(at) => self.incoming.tcp.is_established(at),
            SessionRef::Rm(_) | SessionRef::Ru(_) | SessionRef::Ipc(_) => true,
        };
        let Some(place) = self.incoming.place_of_recovery(session) else { return Ok(()) };
        let recovery = match place {
            Some(recovery) => recovery,
            None => {
                let own = direct.address().unwrap_or(SocketAddrV4::new(base.interface, 0));
                let counters = base.counters.recovery.clone();
                let requester = Requester::new(&base.config.recovery(), transport, own, counters)?;
                let key = self.recovering.sessions.insert(session);
                // Before the session stands its source may send what neither of the two connections brings.
                let connects_at = if is_established { base.now } else { Nanos::NEVER };
                place.insert(Box::new(Recovery {
                    requester,
                    source,
                    other: None,
                    asks_other: false,
                    heard: base.now,
                    is_waiting: false,
                    tries: 0,
                    connection: None,
                    connects_at,
                    used: base.now,
                    key,
                    is_stirred: false,
                }))
            }
        };
        // Without, the topic is heard as the transport tells it.
        let (now, index, requester) = (base.now, record.topic_index, &mut recovery.requester);
        let added = match resumes {
            true => requester.resume_topic(now, index, token),
            false => requester.add_topic(now, index, token, true),
        };
        if added.is_err() {
            base.counters.context.joins_failed.inc();
        }
        self.note_recovery(base, session);
        Ok(())
    }

    /// Nobody hears a topic any more.
    pub(crate) fn unwatch(&mut self, base: &Base, session: SessionRef, topic_index: u32) {
        if let Some(recovery) = self.incoming.recovery_of(session) {
            recovery.requester.remove_topic(topic_index);
            self.note_recovery(base, session);
        }
    }

    /// A session is about to be closed: its connection is closed as well.
    pub(crate) fn forget_recovery(&mut self, base: &mut Base, direct: &mut Direct, session: SessionRef) {
        let Some(gone) = self.incoming.place_of_recovery(session).and_then(Option::take) else { return };
        self.recovering.sessions.remove(gone.key);
        self.recovering.due.remove(gone.key as u32);
        if let Some(connection) = gone.connection {
            direct.disconnect(base, connection);
        }
    }

    pub(crate) fn wake_recovery(
        &mut self,
        base: &mut Base,
        direct: &mut Direct,
        now: Nanos,
        handler: &mut impl Handler,
    ) {
        self.settle_recovery(base);
        let mut turn = std::mem::take(&mut self.recovering.turn);
        let Recovering { sessions, due, .. } = &mut self.recovering;
        turn.extend(std::iter::from_fn(|| due.pop_due(now)).filter_map(|key| sessions.get(key as usize)));
        for &session in &turn {
            self.drive_recovery(base, direct, now, session, handler);
        }
        turn.clear();
        self.recovering.turn = turn;
    }

    /// Notes when the sessions are due that were heard since.
    #[inline]
    pub(crate) fn settle_recovery(&mut self, base: &Base) {
        if self.incoming.stirred().iter().any(|(_, stirred)| !stirred.0.is_empty()) {
            self.settle_stirred(base);
        }
    }

    #[cold]
    #[inline(never)]
    fn settle_stirred(&mut self, base: &Base) {
        let Receiving { incoming, recovering, .. } = self;
        incoming.take_stirred(|session| recovering.turn.push(session));
        let mut turn = std::mem::take(&mut self.recovering.turn);
        turn.drain(..).for_each(|session| self.note_recovery(base, session));
        self.recovering.turn = turn;
    }

    /// Something has happened to the recovery of a session: notes when it is due.
    pub(crate) fn note_recovery(&mut self, base: &Base, session: SessionRef) {
        let Some(due) = self.incoming.recovery_due(base, session) else { return };
        let Some(recovery) = self.incoming.recovery_of(session) else { return };
        recovery.is_stirred = false;
        self.recovering.due.set(recovery.key as u32, due);
        #[cfg(test)]
        {
            self.recovering.looks += 1;
        }
    }

    pub(crate) fn recovery_wakeup(&self, base: &Base) -> Nanos {
        let stirred =
            self.incoming.stirred().into_iter().flat_map(|(of, s)| s.0.iter().map(move |at| of(*at)));
        let due = stirred.filter_map(|session| self.incoming.recovery_due(base, session));
        due.fold(self.recovering.due.next(), Nanos::min)
    }

    /// Does what is due for a session: gives up, connects, asks, closes an idle connection, and ends a
    /// session that is over once nothing is asked for any more.
    pub(crate) fn drive_recovery(
        &mut self,
        base: &mut Base,
        direct: &mut Direct,
        now: Nanos,
        session: SessionRef,
        handler: &mut impl Handler,
    ) {
        let Some(recovery) = self.incoming.recovery_of(session) else { return };
        if recovery.requester.next_wakeup() <= now {
            recovery.requester.on_wakeup(now, &mut Bridge { streams: &mut self.streams, handler, now });
        }
        let (source, waits) = (recovery.source, recovery.requester.wants_connection());
        let other = if waits { self.incoming.rm.on_second_network(source) } else { None };
        let interval = base.config.recovery().retransmit_request_interval;
        let Some(recovery) = self.incoming.recovery_of(session) else { return };
        if waits && !recovery.is_waiting {
            recovery.on_heard(now);
        }
        if recovery.is_waiting && !waits {
            recovery.used = now;
        }
        (recovery.is_waiting, recovery.other) = (waits, other);
        if recovery.tries == 0 && base.second.is_none() {
            // One network, and if it is not the first, the source is known here by the second.
            recovery.asks_other = other.is_some();
        }
        match recovery.connection {
            None if waits && now >= recovery.connects_at => {
                recovery.heard = now;
                let source = recovery.other.filter(|_| recovery.asks_other).unwrap_or(source);
                let connection = direct.connect_for(base, source, session);
                match connection {
                    Err(_) => self.on_recovery_gone(base, direct, now, session, false, handler),
                    Ok(connection) => {
                        if let Some(recovery) = self.incoming.recovery_of(session) {
                            (recovery.connection, recovery.used) = (Some(connection), now);
                        }
                    }
                }
            }
            Some(connection) if waits && now >= recovery.moves_at(interval) => {
                recovery.move_on(&base.counters.networks);
                (recovery.connection, recovery.connects_at) = (None, now);
                recovery.requester.on_disconnected();
                direct.disconnect(base, connection);
            }
            Some(connection) if waits => {
                recovery.used = now;
                if let Some(out) = direct.out_of(connection) {
                    while let Some(requests) = recovery.requester.poll_transmit(now) {
                        out.extend_from_slice(requests);
                    }
                }
                direct.flush_direct(base);
            }
            Some(connection) if now >= recovery.used + base.config.response_deletion_timeout() => {
                recovery.connection = None;
                recovery.requester.on_disconnected();
                direct.disconnect(base, connection);
            }
            _ => {}
        }
        self.note_recovery(base, session);
        self.end_recovered(base, direct, session, handler);
    }

    /// Goes on with the sessions whose connections something has happened to.
    pub(crate) fn take_told(&mut self, base: &mut Base, direct: &mut Direct, handler: &mut impl Handler) {
        let now = base.now;
        while let Some(told) = direct.next_recovery_event() {
            match told {
                RecoveryEvent::Used(session) => self.drive_recovery(base, direct, now, session, handler),
                RecoveryEvent::Gone { session, connection, was_established } => {
                    let recovery = self.incoming.recovery_of(session);
                    if recovery.is_some_and(|recovery| recovery.connection == Some(connection)) {
                        self.on_recovery_gone(base, direct, now, session, was_established, handler);
                    }
                }
            }
        }
    }

    /// The connection for a session is gone, or was not to be had.
    pub(crate) fn on_recovery_gone(
        &mut self,
        base: &mut Base,
        direct: &mut Direct,
        now: Nanos,
        session: SessionRef,
        was_established: bool,
        handler: &mut impl Handler,
    ) {
        let Some(recovery) = self.incoming.recovery_of(session) else { return };
        if recovery.requester.wants_connection() {
            base.counters.recovery.connections_failed.inc();
        }
        recovery.connection = None;
        recovery.move_on(&base.counters.networks);
        // The other network is tried at once, and if that fails too, both after a while.
        let has_other = recovery.other.is_some() && recovery.tries % 2 == 1;
        let interval = base.config.recovery().retransmit_request_interval;
        recovery.connects_at = if has_other { now } else { now + interval };
        if was_established || has_other {
            recovery.requester.on_disconnected();
        } else {
            recovery.requester.on_refused(&mut Bridge { streams: &mut self.streams, handler, now });
        }
        self.note_recovery(base, session);
        self.end_recovered(base, direct, session, handler);
    }
}

impl Recoveries for Receiving {
    fn on_connected(&mut self, base: &Base, session: SessionRef) {
        if let Some(recovery) = self.incoming.recovery_of(session) {
            recovery.requester.on_connected();
            self.note_recovery(base, session);
        }
    }

    fn on_heard(&mut self, base: &Base, session: SessionRef) -> bool {
        let now = base.now;
        let recovery = self.incoming.recovery_of(session);
        recovery.map(|recovery| recovery.on_heard(now)).is_some()
    }

    fn on_answer(
        &mut self,
        base: &Base,
        session: SessionRef,
        message: &StreamMessage<'_>,
        handler: &mut impl Handler,
    ) {
        let now = base.now;
        if let Some(recovery) = self.incoming.recovery_of(session) {
            let mut bridge = Bridge { streams: &mut self.streams, handler, now };
            recovery.requester.on_message(now, message, &mut bridge);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;
    use crate::context::tests::lone_with;
    use crate::{Message, ReceiverOptions, SourceOptions, Transport};

    /// How many messages of each source were heard, by the number they begin with.
    #[derive(Default)]
    struct Heard([u32; SESSIONS]);

    impl Handler for Heard {
        fn on_message(&mut self, message: &Message<'_>) {
            self.0[usize::from(message.payload[0])] += 1;
        }
    }

    const SESSIONS: usize = 12;

    #[test]
    fn sessions_that_wait_for_nothing_are_not_looked_at_whatever_others_bring() {
        let context = || {
            lone_with(25, |config| {
                config.transport = Transport::Tcp;
                (config.recovery.late_join, config.recovery.use_late_join, config.recovery.use_otr) =
                    (true, true, true);
                (config.tcp.port_low, config.tcp.port_high) = (30_000, 45_000);
                (config.request_tcp_port_low, config.request_tcp_port_high) = (30_000, 45_000);
            })
        };
        let (mut receiving, mut heard) = (context(), Heard::default());
        receiving.create_receiver("px", &ReceiverOptions::default()).expect("a legal name");
        let mut sources: Vec<_> = (0..SESSIONS)
            .map(|_| {
                let mut context = context();
                let source = context.create_source("px", &SourceOptions::default()).expect("a port is free");
                (context, source)
            })
            .collect();
        let begun = Instant::now();
        while heard.0.contains(&0) || receiving.receiving.recovering.sessions.len() < SESSIONS {
            assert!(begun.elapsed() < Duration::from_secs(60), "they do not meet");
            for (number, (context, source)) in sources.iter_mut().enumerate() {
                if heard.0[number] == 0 {
                    let _ = context.send(*source, &[&[number as u8]]);
                }
                context.wait(Some(Duration::from_millis(1)), &mut ()).expect("the poller works");
            }
            receiving.poll(&mut heard).expect("the poller works");
        }
        // What joining asks for is answered.
        while receiving.receiving.recovering.due.next() < receiving.base.now + Duration::from_secs(5) {
            assert!(begun.elapsed() < Duration::from_secs(60), "something is asked for without end");
            for (context, _) in &mut sources {
                context.wait(Some(Duration::from_millis(1)), &mut ()).expect("the poller works");
            }
            receiving.poll(&mut heard).expect("the poller works");
        }
        let (looks, before) = (receiving.receiving.recovering.looks, heard.0[3]);
        for _ in 0..100 {
            let (context, source) = &mut sources[3];
            context.send(*source, &[&[3]]).expect("there is room");
            context.wait(Some(Duration::from_millis(1)), &mut ()).expect("the poller works");
            receiving.poll(&mut heard).expect("the poller works");
            receiving.on_wakeup(receiving.base.now, &mut heard);
        }
        let looks = receiving.receiving.recovering.looks - looks;
        assert!(
            heard.0[3] > before && looks <= 400,
            "{looks} looks in 100 turns with one busy session of {SESSIONS}"
        );
    }
}

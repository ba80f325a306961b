//! The sessions of a context's sources: their turns, and what comes for them.

use std::io;
use std::net::SocketAddrV4;

use net::Ready;
use units::Nanos;

use super::Publishing;
use crate::base::Base;
use crate::closing::{Patience, SessionLeft};
use crate::error::ContextError;
use crate::event::SourceEvent;
use crate::keys::NewKeys;
use crate::outgoing::{CLIENT_BITS, Outgoing, SessionTarget};
use crate::retention::Retained;
use crate::source::{Current, sealed};
use crate::{Handler, Source};

impl Publishing {
    /// Sends what waits in sessions, but for explicit batches that are not over.
    #[inline]
    pub(crate) fn flush(&mut self, base: &mut Base) {
        let now = base.now;
        if let Some(at) = self.turns.last() {
            self.turn_outgoing(base, now, at);
        }
        if !self.turns.is_quiet(now) {
            self.flush_others(base);
        }
    }

    #[cold]
    #[inline(never)]
    fn flush_others(&mut self, base: &mut Base) {
        let now = base.now;
        let turn = self.turns.take(now);
        for &at in &turn {
            self.turn_outgoing(base, now, at);
        }
        self.give_back_turn(turn);
    }

    /// Flushes explicit batches that are not over as well.
    pub(crate) fn flush_all(&mut self, base: &mut Base) {
        let now = base.now;
        for at in 0..self.outgoing.capacity() {
            self.stir(at);
            self.flush_outgoing(base, now, at);
        }
    }

    /// What is sent by a session may have something to flush.
    #[inline]
    pub(crate) fn stir(&mut self, session: usize) {
        self.quiet_until = Nanos::ZERO;
        if self.turns.stir(session) {
            self.current = Current::default();
        }
    }

    /// Whether flushing has nothing to do.
    #[inline]
    pub(crate) fn is_quiet(&self, now: Nanos) -> bool {
        now < self.quiet_until
    }

    /// Everything was flushed just now.
    pub(crate) fn rest(&mut self) {
        self.quiet_until = self.flush_due();
    }

    /// When to flush again if nothing is sent or comes till then.
    fn flush_due(&self) -> Nanos {
        self.turns.next(|at| self.outgoing.get(at).map_or(Nanos::NEVER, Outgoing::flush_due))
    }

    /// When a session is due.
    pub(crate) fn next_wakeup(&self) -> Nanos {
        self.turns.next(|at| self.outgoing.get(at).map_or(Nanos::NEVER, Outgoing::next_wakeup))
    }

    /// When the first of all sessions is due.
    pub(crate) fn first_wakeup(&self) -> Nanos {
        self.outgoing.iter().map(|(_, o)| o.next_wakeup()).min().unwrap_or(Nanos::NEVER)
    }

    /// Ends all sources: their sessions say the last number of each topic and the end.
    pub(crate) fn end(&mut self, base: &mut Base) {
        for advertisement in self.sources.iter().filter_map(|(_, source)| source.advertisement) {
            base.resolution.resolver.withdraw(advertisement);
        }
        let now = base.now;
        for at in 0..self.outgoing.capacity() {
            self.end_outgoing(base, now, at);
        }
    }

    /// What sessions have accepted and not got rid of.
    pub(crate) fn left(&self) -> Vec<SessionLeft> {
        self.outgoing.iter().filter_map(|(_, outgoing)| outgoing.left()).collect()
    }

    /// Goes on with sessions that have ended; whether none of them needs more time.
    pub(crate) fn settle(&mut self, base: &mut Base, patience: &Patience) -> bool {
        let mut is_settled = true;
        for at in 0..self.outgoing.capacity() {
            is_settled &= self.settle_session(base, at, patience);
        }
        is_settled
    }

    /// Drops what sessions have not sent and says their ends, once more with each call; false if there is no need.
    pub(crate) fn say_farewell(&mut self, base: &mut Base) -> bool {
        let mut has_more = false;
        for at in 0..self.outgoing.capacity() {
            has_more |= self.bid_farewell(base, at);
        }
        has_more
    }

    /// Takes everything that has come for sessions, `batches_max` times of each at most.
    pub(crate) fn take_all(
        &mut self,
        base: &mut Base,
        now: Nanos,
        batches_max: usize,
        handler: &mut impl Handler,
    ) {
        for at in 0..self.outgoing.capacity() {
            for _ in 0..batches_max {
                if !self.on_outgoing_ready(base, now, at, handler) {
                    break;
                }
            }
        }
    }

    /// This process was stopped: what came meanwhile is taken.
    pub(crate) fn after_pause(&mut self, now: Nanos) {
        for (at, outgoing) in &mut self.outgoing {
            if outgoing.after_pause(now) {
                self.turns.stir(at);
                self.current = Current::default();
            }
        }
    }

    /// Shows sockets to the poller that it may not know of yet.
    pub(crate) fn watch(&mut self) -> io::Result<()> {
        self.outgoing.iter_mut().try_for_each(|(_, outgoing)| outgoing.watch())
    }

    /// Keys are other ones from now on.
    pub(crate) fn rekey(&mut self, keys: &NewKeys<'_>) {
        self.outgoing.iter_mut().for_each(|(_, outgoing)| outgoing.rekey(keys));
    }

    /// The session on which a source publishes, opened if there is none.
    pub(super) fn outgoing_at(
        &mut self,
        base: &mut Base,
        target: SessionTarget,
    ) -> Result<usize, ContextError> {
        if let Some(&at) = self.by_target.get(&target) {
            return Ok(at);
        }
        let at = self.outgoing.vacant_key();
        let opened = Outgoing::open(base, &mut self.ports, at, target)?;
        self.by_target.insert(target, at);
        self.stir(at);
        if opened.has_unwatched() {
            self.with_lanes.push(at);
        }
        self.outgoing.insert(opened);
        Ok(at)
    }

    /// Sends what a session has closed, and answers what came for it, as far as limits and sockets allow.
    pub(super) fn transmit(&mut self, base: &mut Base, now: Nanos, at: usize) {
        self.stir(at);
        if let Some(outgoing) = self.outgoing.get_mut(at) {
            outgoing.transmit(base, now);
        }
        self.retain(base, now, at);
    }

    /// A turn of the context: sends what waits in a session, but for an explicit batch that is not over.
    #[inline]
    fn turn_outgoing(&mut self, base: &mut Base, now: Nanos, at: usize) {
        match self.outgoing.get(at) {
            Some(outgoing) if !outgoing.is_held() => self.flush_outgoing(base, now, at),
            Some(outgoing) if outgoing.is_of_datagrams() => self.transmit(base, now, at),
            _ => {}
        }
    }

    /// Sends everything that waits in a session.
    #[inline]
    pub(super) fn flush_outgoing(&mut self, base: &mut Base, now: Nanos, at: usize) {
        if let Some(outgoing) = self.outgoing.get_mut(at) {
            outgoing.flush(base, now);
        }
        self.retain(base, now, at);
    }

    fn end_outgoing(&mut self, base: &mut Base, now: Nanos, at: usize) {
        self.stir(at);
        if let Some(outgoing) = self.outgoing.get_mut(at) {
            outgoing.end(base, now);
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
        outgoing.on_wakeup(base, now);
        self.retain(base, now, at);
        self.tell_sources(base, at, handler);
    }

    /// Notes when the sessions are due that have had their turn.
    fn give_back_turn(&mut self, turn: Vec<usize>) {
        let outgoing = &self.outgoing;
        self.turns.give_back(turn, |at| outgoing.get(at).map_or(Nanos::NEVER, Outgoing::next_wakeup));
    }

    /// Looks at what has come for each session, and does what is due.
    pub(crate) fn serve_outgoing(&mut self, base: &mut Base, now: Nanos, handler: &mut impl Handler) {
        for at in 0..self.outgoing.capacity() {
            self.on_outgoing_ready(base, now, at, handler);
            if let Some(outgoing) = self.outgoing.get_mut(at) {
                outgoing.look_at_clients();
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
        let worked = self.outgoing.get_mut(at).is_some_and(|outgoing| outgoing.on_ready(base, now));
        self.retain(base, now, at);
        self.tell_sources(base, at, handler);
        worked
    }

    /// Looks at the sockets that the poller may not watch.
    pub(crate) fn look_at_lanes(&mut self, base: &mut Base, now: Nanos, handler: &mut impl Handler) {
        for place in 0..self.with_lanes.len() {
            let at = self.with_lanes[place];
            if let Some(outgoing) = self.outgoing.get_mut(at)
                && outgoing.poll_unwatched(base, now)
            {
                self.on_outgoing_ready(base, now, at, handler);
            }
        }
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
            && let Some(outgoing) = self.outgoing.get_mut(at)
            && outgoing.on_nak(now, from, to, datagram)
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
        let (at, client) = (index >> CLIENT_BITS, index & ((1 << CLIENT_BITS) - 1));
        self.stir(at);
        if let Some(outgoing) = self.outgoing.get_mut(at) {
            outgoing.on_client_ready(client, ready);
        }
        self.tell_sources(base, at, handler);
    }

    /// Takes who has connected before the end and was not looked at since: the end is told them too.
    pub(crate) fn take_late_clients(&mut self, base: &mut Base) {
        self.outgoing.iter_mut().for_each(|(_, outgoing)| outgoing.take_late_clients(base));
    }

    fn settle_session(&mut self, base: &mut Base, at: usize, patience: &Patience) -> bool {
        let now = base.now;
        if self.outgoing.get(at).is_some_and(Outgoing::is_of_datagrams) {
            self.on_outgoing_ready(base, now, at, &mut ());
        }
        self.outgoing.get_mut(at).is_none_or(|outgoing| outgoing.settle(base, now, patience))
    }

    fn bid_farewell(&mut self, base: &mut Base, at: usize) -> bool {
        let now = base.now;
        self.outgoing.get_mut(at).is_some_and(|outgoing| outgoing.bid_farewell(base, now))
    }

    /// Begins to retain a topic of a session.
    pub(super) fn retain_topic(
        &mut self,
        base: &mut Base,
        session: usize,
        topic_index: u32,
    ) -> Result<(), ContextError> {
        let config = base.config.retention();
        if base.retained.is_none() {
            let retained = Retained::new(&config, base.now, base.counters.retention.clone())?;
            base.retained = Some(Box::new(retained));
        }
        let Some(retained) = &mut base.retained else { return Ok(()) };
        let outgoing = &mut self.outgoing[session];
        retained.add_topic(session, topic_index, &config, || outgoing.keep_written())?;
        Ok(())
    }

    /// Retains what a session has closed since the last time.
    #[inline]
    fn retain(&mut self, base: &mut Base, now: Nanos, session: usize) {
        if base.retained.is_some() {
            self.retain_written(base, now, session);
        }
    }

    #[inline(never)]
    fn retain_written(&mut self, base: &mut Base, now: Nanos, session: usize) {
        if let Some((from, responder)) = base.retained.as_deref_mut().and_then(|r| r.of(session))
            && let Some(outgoing) = self.outgoing.get_mut(session)
        {
            outgoing.written(from, |messages| responder.retain(now, session as u32, messages));
        }
    }

    /// Tells the sources of a session what has happened to it.
    fn tell_sources(&mut self, base: &mut Base, at: usize, handler: &mut impl Handler) {
        let events = self.outgoing.get_mut(at).map(|outgoing| outgoing.take_events(base));
        for event in events.unwrap_or_default() {
            self.tell_event(at, event, handler);
        }
        while let Some((source, count)) = self.outgoing.get_mut(at).and_then(Outgoing::poll_receivers) {
            handler.on_source_event(source, SourceEvent::ReceiversChanged(count));
        }
        self.tell_room(at, handler);
    }

    /// Tells every source of a session.
    fn tell_event(&self, session: usize, event: SourceEvent, handler: &mut impl Handler) {
        for slot in self.sources_of.of(session) {
            if let Some(entry) = self.sources.get(slot) {
                handler.on_source_event(Source::in_slot(slot, entry.number()), event);
            }
        }
    }

    /// Tells sources of which sends were refused that there is room.
    fn tell_room(&mut self, session: usize, handler: &mut impl Handler) {
        let Some(outgoing) = self.outgoing.get_mut(session) else { return };
        let Some(mut refused) = outgoing.take_refused() else { return };
        for source in refused.drain(..) {
            let entry =
                self.sources.get_mut(source.slot as usize).filter(|e| e.number == sealed(source.number));
            if entry.is_some_and(|entry| std::mem::take(&mut entry.is_refused)) {
                handler.on_source_event(source, SourceEvent::WakeUp);
            }
        }
        // The room of the list is used again.
        self.outgoing[session].give_back_refused(refused);
    }
}

//! What a context publishes: its sources, and the transport sessions they publish on.

use std::collections::HashMap;
use std::io;

use lbt::authentication::Keys;
use lbt::encryption::PayloadKeys;
use lbt::wire::lbmc::Chain;
use slab::Slab;
use units::Nanos;

use crate::Handler;
use crate::base::{Base, Ports};
use crate::closing::{Patience, SessionLeft};
use crate::index::Groups;
use crate::outgoing::{Outgoing, OutgoingKind, Place, Turns};
use crate::source::{Current, SourceEntry};

/// The sources of a context and their sessions.
#[derive(Default)]
pub(crate) struct Publishing {
    pub(crate) sources: Slab<SourceEntry>,
    /// By session.
    pub(crate) sources_of: Groups<usize, usize>,
    pub(crate) outgoing: Slab<Outgoing>,
    pub(crate) by_place: HashMap<Place, usize>,
    pub(crate) ports: Ports,
    pub(crate) turns: Turns,
    /// Sessions of LBT-RU, which have sockets that the poller may not watch.
    pub(crate) with_lanes: Vec<usize>,
    /// Until then flushing has nothing to do, unless something is sent or comes: see [`Publishing::stir`].
    pub(crate) quiet_until: Nanos,
    pub(crate) current: Current,
    /// Headers being built.
    pub(crate) chain: Chain,
}

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
            base.resolver.withdraw(advertisement);
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
            if let OutgoingKind::Ru(session) = &mut outgoing.kind {
                session.after_pause(now);
                self.turns.stir(at);
                self.current = Current::default();
            }
        }
    }

    /// Shows sockets to the poller that it may not know of yet.
    pub(crate) fn watch(&mut self) -> io::Result<()> {
        for (_, outgoing) in &mut self.outgoing {
            if let OutgoingKind::Ru(session) = &mut outgoing.kind {
                session.watch()?;
            }
        }
        Ok(())
    }

    /// Sessions of LBT-RM are authenticated with other keys from now on.
    pub(crate) fn rekey_rm(&mut self, keys: &Keys) {
        for (_, outgoing) in &mut self.outgoing {
            if let OutgoingKind::Rm(session) = &mut outgoing.kind {
                session.rekey(keys.clone());
            }
        }
    }

    /// The same of LBT-RU.
    pub(crate) fn rekey_ru(&mut self, keys: &Keys) {
        for (_, outgoing) in &mut self.outgoing {
            if let OutgoingKind::Ru(session) = &mut outgoing.kind {
                session.rekey(keys.clone());
            }
        }
    }

    /// Sessions of LBT-RM are encrypted with other keys from now on.
    pub(crate) fn rekey_rm_payloads(&mut self, keys: &PayloadKeys) {
        for (_, outgoing) in &mut self.outgoing {
            if let OutgoingKind::Rm(session) = &mut outgoing.kind {
                session.rekey_payloads(keys);
            }
        }
    }

    /// The same of LBT-RU.
    pub(crate) fn rekey_ru_payloads(&mut self, keys: &PayloadKeys) {
        for (_, outgoing) in &mut self.outgoing {
            if let OutgoingKind::Ru(session) = &mut outgoing.kind {
                session.rekey_payloads(keys);
            }
        }
    }
}

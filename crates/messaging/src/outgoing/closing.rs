//! Sessions whose sources have ended: until when each is needed, and what it leaves.

use lbt::session::Unsent;
use units::Nanos;

use super::{Outgoing, OutgoingKind};
use crate::base::Base;
use crate::closing::{Patience, SessionLeft};
use crate::publishing::Publishing;

/// What the end of a session of datagrams has come to.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Farewell {
    /// When everything had been said and sent.
    said_at: Option<Nanos>,
    /// Since when no receiver that is known is behind.
    caught_up_at: Option<Nanos>,
    /// How often it was said that messages are given up.
    given_up: u32,
}

macro_rules! session_of_datagrams {
    ($outgoing:expr, $session:ident => $do:expr, $other:expr) => {
        match $outgoing {
            OutgoingKind::Rm($session) => $do,
            OutgoingKind::Ru($session) => $do,
            _ => $other,
        }
    };
}

impl Outgoing {
    /// What it has accepted and not got rid of.
    pub(crate) fn left(&self) -> Option<SessionLeft> {
        let (Unsent { messages, bytes }, receivers) = match &self.kind {
            OutgoingKind::Rm(session) => (session.session.unsent(), 0),
            OutgoingKind::Ru(session) => {
                let unsent = session.session.unsent();
                let all = || session.session.clients().count();
                (unsent, if unsent.bytes > 0 { all() } else { self.behind() } as u32)
            }
            OutgoingKind::Tcp(session) => session.left(),
            OutgoingKind::Ipc(session) => session.left(),
        };
        let owes = session_of_datagrams!(&self.kind, session => session.session.owes_answers(), false);
        let is_empty = messages == 0 && bytes == 0 && receivers == 0 && !owes;
        (!is_empty).then_some(SessionLeft { transport: self.transport, messages, bytes, receivers })
    }
}

impl Outgoing {
    /// Receivers that are known, and have not said that they have heard of everything of a session that has ended.
    fn behind(&self) -> usize {
        match &self.kind {
            OutgoingKind::Ru(session) if session.session.has_ended() && session.session.has_spoken() => {
                session.session.clients_behind()
            }
            _ => 0,
        }
    }
}

impl Farewell {
    /// Whether nobody needs the session any more. `asked` is when a receiver last did.
    fn is_over(&self, now: Nanos, asked: Nanos, patience: &Patience) -> bool {
        let (Some(said_at), Some(caught_up_at)) = (self.said_at, self.caught_up_at) else { return false };
        let repaired = if asked > said_at { asked + patience.repair } else { Nanos::ZERO };
        now >= (said_at.max(caught_up_at) + patience.quiet).max(repaired)
    }
}

impl Publishing {
    /// Takes who has connected before the end and was not looked at since: the end is told them too.
    pub(crate) fn take_late_clients(&mut self, base: &mut Base) {
        for at in 0..self.outgoing.capacity() {
            if let Some(OutgoingKind::Tcp(_)) = self.outgoing.get(at).map(|outgoing| &outgoing.kind) {
                self.accept_tcp(base, at);
            }
        }
    }

    /// Goes on with a session that has ended; whether nobody needs it any more.
    pub(crate) fn settle_session(&mut self, base: &mut Base, at: usize, patience: &Patience) -> bool {
        let now = base.now;
        let is_of_datagrams = |o: &Outgoing| matches!(o.kind, OutgoingKind::Rm(_) | OutgoingKind::Ru(_));
        if self.outgoing.get(at).is_some_and(is_of_datagrams) {
            let _ = self.on_outgoing_ready(base, now, at, &mut ());
        }
        let counters = &base.counters.context;
        match self.outgoing.get_mut(at).map(|outgoing| &mut outgoing.kind) {
            Some(OutgoingKind::Rm(session)) => session.on_wakeup(now, counters, &mut base.xdp),
            Some(OutgoingKind::Ru(session)) => session.on_wakeup(now, counters),
            Some(OutgoingKind::Tcp(session)) => return session.settle(),
            Some(OutgoingKind::Ipc(session)) => {
                session.on_wakeup(now);
                return session.session.has_said_end();
            }
            None => return true,
        }
        let Some(outgoing) = self.outgoing.get_mut(at) else { return true };
        let behind = outgoing.behind();
        session_of_datagrams!(&mut outgoing.kind, session => {
            if !session.session.has_spoken() {
                return true;
            }
            let (farewell, session) = (&mut session.farewell, &mut session.session);
            if !session.has_ended() {
                return false;
            }
            if farewell.said_at.is_none() {
                farewell.said_at = Some(now);
                session.hurry(now, patience.remind);
            }
            farewell.caught_up_at = if behind > 0 { None } else { farewell.caught_up_at.or(Some(now)) };
            !session.owes_answers() && farewell.is_over(now, session.last_asked(), patience)
        }, true)
    }

    /// Drops what a session has not sent and says its end, once more with each call; false if there is no need.
    pub(crate) fn bid_farewell(&mut self, base: &mut Base, at: usize) -> bool {
        let now = base.now;
        let counters = &base.counters.context;
        let Some(outgoing) = self.outgoing.get_mut(at) else { return false };
        let is_needed = session_of_datagrams!(&mut outgoing.kind, session => {
            if session.farewell.given_up > 0 {
                session.session.repeat_end();
            } else if session.session.has_ended() {
                return false;
            } else {
                session.session.abandon(now);
            }
            session.farewell.given_up += 1;
            session.unblock();
            session.session.has_spoken()
        }, false);
        match &mut outgoing.kind {
            OutgoingKind::Rm(session) => session.transmit(now, counters, &mut base.xdp),
            OutgoingKind::Ru(session) => session.transmit(now, counters),
            OutgoingKind::Tcp(_) | OutgoingKind::Ipc(_) => {}
        }
        is_needed
    }
}

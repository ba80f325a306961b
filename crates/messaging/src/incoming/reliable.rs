//! Sessions of the transports that repair what is lost, with what is asked for beyond that.

use std::net::SocketAddrV4;
use std::ops::Index;

use lbt::config::Order;
use lbt::delivery::{EndReason, Sink, SubscribeError};
use lbt::error::WireError;
use slab::Slab;
use units::Nanos;

use crate::recovery::Recovery;

/// What the receivers of LBT-RM and LBT-RU have alike; see there.
pub(crate) trait Reliable {
    fn subscribe_ordered(
        &mut self,
        index: u32,
        token: u64,
        order: Option<Order>,
    ) -> Result<(), SubscribeError>;
    fn unsubscribe(&mut self, index: u32);
    fn on_datagram<S: Sink>(
        &mut self,
        now: Nanos,
        from: SocketAddrV4,
        datagram: &[u8],
        sink: &mut S,
    ) -> Result<(), WireError>;
    fn on_wakeup<S: Sink>(&mut self, now: Nanos, sink: &mut S);
    fn after_pause(&mut self, now: Nanos);
    fn next_wakeup(&self) -> Nanos;
    fn has_ended(&self) -> bool;
    fn end_reason(&self) -> Option<EndReason>;
}

macro_rules! reliable {
    ($($receiver:ty),*) => {$(
        impl Reliable for $receiver {
            fn subscribe_ordered(
                &mut self,
                index: u32,
                token: u64,
                order: Option<Order>,
            ) -> Result<(), SubscribeError> {
                self.subscribe_ordered(index, token, order)
            }

            fn unsubscribe(&mut self, index: u32) {
                self.unsubscribe(index);
            }

            #[inline]
            fn on_datagram<S: Sink>(
                &mut self,
                now: Nanos,
                from: SocketAddrV4,
                datagram: &[u8],
                sink: &mut S,
            ) -> Result<(), WireError> {
                self.on_datagram(now, from, datagram, sink)
            }

            fn on_wakeup<S: Sink>(&mut self, now: Nanos, sink: &mut S) {
                self.on_wakeup(now, sink);
            }

            fn after_pause(&mut self, now: Nanos) {
                self.after_pause(now);
            }

            fn next_wakeup(&self) -> Nanos {
                self.next_wakeup()
            }

            #[inline]
            fn has_ended(&self) -> bool {
                self.has_ended()
            }

            fn end_reason(&self) -> Option<EndReason> {
                self.end_reason()
            }
        }
    )*};
}

reliable!(lbt::rm::Receiver, lbt::ru::Receiver);

/// A transport session with topics that somebody wants.
pub(crate) struct Session<R, P> {
    pub(super) receiver: R,
    pub(super) number: u64,
    /// What the transport knows of it besides.
    pub(super) place: P,
    /// Of what the transport does not bring, if a source of the session retains it.
    recovery: Option<Box<Recovery>>,
}

/// The sessions of one transport.
pub(crate) struct Sessions<R, P = ()>(Slab<Session<R, P>>);

impl<R, P> Default for Sessions<R, P> {
    fn default() -> Sessions<R, P> {
        Sessions(Slab::new())
    }
}

impl<R, P> Index<usize> for Sessions<R, P> {
    type Output = Session<R, P>;

    fn index(&self, at: usize) -> &Session<R, P> {
        &self.0[at]
    }
}

impl<R: Reliable, P> Sessions<R, P> {
    pub(super) fn insert(&mut self, receiver: R, number: u64, place: P) -> usize {
        self.0.insert(Session { receiver, number, place, recovery: None })
    }

    pub(super) fn remove(&mut self, at: usize) -> Option<Session<R, P>> {
        self.0.try_remove(at)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Session<R, P>> {
        self.0.iter().map(|(_, session)| session)
    }

    pub(super) fn receivers(&mut self) -> impl Iterator<Item = &mut R> {
        self.0.iter_mut().map(|(_, session)| &mut session.receiver)
    }

    pub(super) fn receiver(&mut self, at: usize) -> Option<&mut R> {
        self.0.get_mut(at).map(|session| &mut session.receiver)
    }

    /// Slots of sessions, used or not.
    pub(crate) fn capacity(&self) -> usize {
        self.0.capacity()
    }

    pub(super) fn subscribe(&mut self, at: usize, index: u32, token: u64, order: Option<Order>) -> bool {
        let session = self.0.get_mut(at);
        session.is_some_and(|s| s.receiver.subscribe_ordered(index, token, order).is_ok())
    }

    pub(super) fn unsubscribe(&mut self, at: usize, index: u32) {
        if let Some(session) = self.0.get_mut(at) {
            session.receiver.unsubscribe(index);
        }
    }

    /// Takes a datagram of a session, which must be there; whether the session is over.
    #[inline]
    pub(super) fn on_datagram<S: Sink>(
        &mut self,
        at: usize,
        now: Nanos,
        from: SocketAddrV4,
        datagram: &[u8],
        sink: &mut S,
    ) -> bool {
        let Session { receiver, recovery, .. } = &mut self.0[at];
        // A malformed datagram is counted by the receiver.
        let _ = match recovery {
            None => receiver.on_datagram(now, from, datagram, sink),
            Some(r) => receiver.on_datagram(now, from, datagram, &mut r.requester.tap(now, sink)),
        };
        receiver.has_ended()
    }

    /// Does what is due for a session, if it is there; whether something was and the session is over.
    pub(super) fn on_wakeup<S: Sink>(&mut self, at: usize, now: Nanos, sink: &mut S) -> bool {
        let Some(Session { receiver, recovery, .. }) = self.0.get_mut(at) else { return false };
        if now < receiver.next_wakeup() {
            return false;
        }
        match recovery {
            None => receiver.on_wakeup(now, sink),
            Some(recovery) => receiver.on_wakeup(now, &mut recovery.requester.tap(now, sink)),
        }
        receiver.has_ended()
    }

    /// This process was stopped: what came meanwhile is taken.
    pub(crate) fn after_pause(&mut self, now: Nanos) {
        self.0.iter_mut().for_each(|(_, session)| session.receiver.after_pause(now));
    }

    /// When something is due for one of them.
    pub(super) fn next_wakeup(&self) -> Nanos {
        self.iter().map(|s| s.receiver.next_wakeup()).min().unwrap_or(Nanos::NEVER)
    }

    /// Whether a session is over, though something of it may still be asked for.
    pub(super) fn has_ended(&self, at: usize) -> bool {
        self.0.get(at).is_some_and(|session| session.receiver.has_ended())
    }

    /// Why a session is over. One that was forgotten before it said so was not heard any more.
    pub(super) fn end_reason(&self, at: usize) -> EndReason {
        self.0.get(at).and_then(|s| s.receiver.end_reason()).unwrap_or(EndReason::TimedOut)
    }

    /// Where the recovery of a session is kept.
    pub(crate) fn recovery(&mut self, at: usize) -> Option<&mut Option<Box<Recovery>>> {
        self.0.get_mut(at).map(|session| &mut session.recovery)
    }

    /// The recoveries there are, each with whether its session is over.
    pub(crate) fn recoveries(&self) -> impl Iterator<Item = (bool, &Recovery)> {
        self.iter().filter_map(|session| Some((session.receiver.has_ended(), session.recovery.as_deref()?)))
    }
}

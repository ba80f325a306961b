//! Sessions of the transports that repair what is lost, with what is asked for beyond that.

use std::net::SocketAddrV4;
use std::ops::Index;

use lbt::config::{ConfigError, Order};
use lbt::delivery::{DeliverySink, EndReason, SubscribeError};
use lbt::error::WireError;
use lbt::resolution::TransportSession;
use lbt::session::{Receiver, ReceiverTransport, RunId};
use net::udp::UdpSocket;
use slab::Slab;
use units::{Deadlines, Nanos, Sqn};

use crate::base::Base;
use crate::recovery::{Recovery, Stirred};

/// What [`Sessions`] asks of the receiver of a session: that of LBT-RM or LBT-RU, or one of a test.
pub(crate) trait Reliable {
    fn subscribe_ordered(
        &mut self,
        index: u32,
        token: u64,
        order: Option<Order>,
    ) -> Result<(), SubscribeError>;
    fn put_in_order(&mut self, index: u32) -> Option<Sqn>;
    fn resume_topic(&mut self, index: u32, next: Sqn);
    fn next_number(&self) -> Option<Sqn>;
    fn run(&self) -> Option<RunId>;
    fn knows_runs(&self) -> bool;
    fn unsubscribe(&mut self, index: u32);
    fn on_datagram<S: DeliverySink>(
        &mut self,
        now: Nanos,
        from: SocketAddrV4,
        datagram: &[u8],
        sink: &mut S,
    ) -> Result<(), WireError>;
    fn on_wakeup<S: DeliverySink>(&mut self, now: Nanos, sink: &mut S);
    fn after_pause(&mut self, now: Nanos);
    fn next_wakeup(&self) -> Nanos;
    fn has_begun(&self) -> bool;
    fn has_ended(&self) -> bool;
    fn end_reason(&self) -> Option<EndReason>;
    fn goes_on(&self) -> Option<Sqn>;
}

impl<T: ReceiverTransport> Reliable for Receiver<T> {
    fn subscribe_ordered(
        &mut self,
        index: u32,
        token: u64,
        order: Option<Order>,
    ) -> Result<(), SubscribeError> {
        self.subscribe_ordered(index, token, order)
    }

    fn put_in_order(&mut self, index: u32) -> Option<Sqn> {
        self.put_in_order(index)
    }

    fn resume_topic(&mut self, index: u32, next: Sqn) {
        self.resume_topic(index, next);
    }

    fn next_number(&self) -> Option<Sqn> {
        self.next_number()
    }

    fn run(&self) -> Option<RunId> {
        self.run()
    }

    fn knows_runs(&self) -> bool {
        self.knows_runs()
    }

    fn unsubscribe(&mut self, index: u32) {
        self.unsubscribe(index);
    }

    #[inline]
    fn on_datagram<S: DeliverySink>(
        &mut self,
        now: Nanos,
        from: SocketAddrV4,
        datagram: &[u8],
        sink: &mut S,
    ) -> Result<(), WireError> {
        self.on_datagram(now, from, datagram, sink)
    }

    fn on_wakeup<S: DeliverySink>(&mut self, now: Nanos, sink: &mut S) {
        self.on_wakeup(now, sink);
    }

    fn after_pause(&mut self, now: Nanos) {
        self.after_pause(now);
    }

    fn next_wakeup(&self) -> Nanos {
        self.next_wakeup()
    }

    fn has_begun(&self) -> bool {
        self.has_begun()
    }

    #[inline]
    fn has_ended(&self) -> bool {
        self.has_ended()
    }

    fn end_reason(&self) -> Option<EndReason> {
        self.end_reason()
    }

    fn goes_on(&self) -> Option<Sqn> {
        self.goes_on()
    }
}

/// A transport session with topics that somebody wants.
pub(crate) struct Session<R, P> {
    pub(crate) receiver: R,
    pub(crate) number: u64,
    /// What the transport knows of it besides.
    pub(crate) details: P,
    /// Of what the transport does not bring, if a source of the session retains it.
    recovery: Option<Box<Recovery>>,
    /// It stands in [`Sessions::stirred`].
    is_stirred: bool,
    /// That it cannot be read was told.
    is_unreadable: bool,
}

/// The sessions of one transport.
///
/// What a turn costs does not depend on how many there are: the last that took a datagram is looked at in each turn,
/// others that did are noted, and looked at once for what they have to send and when they are due next; the rest are
/// looked at when they are due.
pub(crate) struct Sessions<R, P = ()> {
    all: Slab<Session<R, P>>,
    /// When to look at each. Datagrams put a session's moment off all the time, which is not followed: it may come
    /// early, never late.
    deadlines: Deadlines,
    /// The one that took the last datagram, or [`NONE`]. It is asked each time what it has to send and when it is due:
    /// most contexts hear one session, or one for long, and noting it each time would cost more.
    last: usize,
    /// Others to which something has happened since.
    stirred: Vec<usize>,
    /// Those whose moment has come, while they are looked at.
    due: Vec<usize>,
    pub(crate) with_recovery: Stirred,
    /// Why the last datagram could not be read, if that is to be told.
    unreadable: Option<WireError>,
}

/// No session stands there.
const NONE: usize = usize::MAX;

impl<R, P> Default for Sessions<R, P> {
    fn default() -> Sessions<R, P> {
        let (all, deadlines) = (Slab::new(), Deadlines::default());
        let (stirred, due, with_recovery) = (Vec::new(), Vec::new(), Stirred::default());
        Sessions { all, deadlines, last: NONE, stirred, due, with_recovery, unreadable: None }
    }
}

impl<R, P> Index<usize> for Sessions<R, P> {
    type Output = Session<R, P>;

    fn index(&self, at: usize) -> &Session<R, P> {
        &self.all[at]
    }
}

impl<R: Reliable, P> Sessions<R, P> {
    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.all.len()
    }

    /// Whether anything was heard of a session that was opened under a number; none if it is gone.
    pub(crate) fn has_begun(&self, at: usize, number: u64) -> Option<bool> {
        let session = self.all.get(at).filter(|session| session.number == number)?;
        Some(session.receiver.has_begun())
    }

    /// Whether anything was heard of a session before it ended.
    pub(crate) fn is_heard(&self, at: usize) -> bool {
        self.all.get(at).is_some_and(|session| session.receiver.has_begun())
    }

    pub(crate) fn insert(&mut self, receiver: R, number: u64, details: P) -> usize {
        let (is_stirred, is_unreadable) = (false, false);
        let session = Session { receiver, number, details, recovery: None, is_stirred, is_unreadable };
        let at = self.all.insert(session);
        self.stir(at);
        at
    }

    /// Puts another receiver in the place of one.
    pub(crate) fn replace(&mut self, at: usize, receiver: R, number: u64) {
        if let Some(session) = self.all.get_mut(at) {
            (session.receiver, session.number) = (receiver, number);
        }
        self.stir(at);
    }

    pub(crate) fn remove(&mut self, at: usize) -> Option<Session<R, P>> {
        self.deadlines.remove(at as u32);
        if at == self.last {
            self.last = NONE;
        }
        self.all.try_remove(at)
    }

    /// Another session takes datagrams than before.
    #[cold]
    #[inline(never)]
    fn change(&mut self, at: usize) {
        let before = std::mem::replace(&mut self.last, at);
        self.stir(before);
    }

    /// A session may have something to send, or be due at another moment than before.
    #[cold]
    #[inline(never)]
    fn stir(&mut self, at: usize) {
        if at != self.last
            && let Some(session) = self.all.get_mut(at)
            && !std::mem::replace(&mut session.is_stirred, true)
        {
            self.stirred.push(at);
        }
    }

    /// Hands each session to `send` to which something has happened, and notes when it is due next.
    #[inline]
    pub(crate) fn settle(&mut self, mut send: impl FnMut(&mut R)) {
        if let Some(last) = self.all.get_mut(self.last) {
            send(&mut last.receiver);
        }
        if !self.stirred.is_empty() {
            self.settle_stirred(send);
        }
    }

    #[cold]
    #[inline(never)]
    fn settle_stirred(&mut self, mut send: impl FnMut(&mut R)) {
        for at in self.stirred.drain(..) {
            // One that is gone may have left its place to another, which stands here for itself if at all.
            let Some(session) = self.all.get_mut(at).filter(|session| session.is_stirred) else { continue };
            session.is_stirred = false;
            send(&mut session.receiver);
            self.deadlines.bring_forward(at as u32, session.receiver.next_wakeup());
        }
    }

    /// Takes the sessions whose moment has come; to be given back, once each was woken.
    pub(crate) fn take_due(&mut self, now: Nanos) -> Vec<usize> {
        let mut due = std::mem::take(&mut self.due);
        due.extend(std::iter::from_fn(|| self.deadlines.pop_due(now)).map(|at| at as usize));
        if self.all.get(self.last).is_some_and(|last| last.receiver.next_wakeup() <= now) {
            due.push(self.last);
        }
        due
    }

    pub(crate) fn give_back_due(&mut self, mut due: Vec<usize>) {
        due.clear();
        self.due = due;
    }

    pub(crate) fn receivers(&mut self) -> impl Iterator<Item = &mut R> {
        self.all.iter_mut().map(|(_, session)| &mut session.receiver)
    }

    /// Places, of which some are free.
    pub(crate) fn capacity(&self) -> usize {
        self.all.capacity()
    }

    pub(crate) fn get(&self, at: usize) -> Option<&R> {
        self.all.get(at).map(|session| &session.receiver)
    }

    pub(crate) fn receiver(&mut self, at: usize) -> Option<&mut R> {
        self.all.get_mut(at).map(|session| &mut session.receiver)
    }

    pub(crate) fn subscribe(&mut self, at: usize, index: u32, token: u64, order: Option<Order>) -> bool {
        let session = self.all.get_mut(at);
        session.is_some_and(|s| s.receiver.subscribe_ordered(index, token, order).is_ok())
    }

    pub(crate) fn put_in_order(&mut self, at: usize, index: u32) -> Option<Sqn> {
        self.all.get_mut(at)?.receiver.put_in_order(index)
    }

    /// A topic that was just subscribed goes on with `next`.
    pub(crate) fn resume_topic(&mut self, at: usize, index: u32, next: Sqn) {
        if let Some(session) = self.all.get_mut(at) {
            session.receiver.resume_topic(index, next);
        }
    }

    /// The transport number that comes next in a session; none if nothing was heard of it.
    pub(crate) fn next_number(&self, at: usize) -> Option<Sqn> {
        self.all.get(at)?.receiver.next_number()
    }

    /// The run of its source that a session is in, or was; none if the source does not say it.
    pub(crate) fn run(&self, at: usize) -> Option<RunId> {
        self.all.get(at)?.receiver.run()
    }

    /// Whether the source of a session says which run it is in, or did.
    pub(crate) fn knows_runs(&self, at: usize) -> bool {
        self.all.get(at).is_some_and(|s| s.receiver.knows_runs())
    }

    pub(crate) fn unsubscribe(&mut self, at: usize, index: u32) {
        if let Some(session) = self.all.get_mut(at) {
            session.receiver.unsubscribe(index);
        }
    }

    /// Takes a datagram of a session, which must be there; whether the session is over, or something is to be told
    /// of it.
    #[inline]
    pub(crate) fn on_datagram<S: DeliverySink>(
        &mut self,
        at: usize,
        now: Nanos,
        from: SocketAddrV4,
        datagram: &[u8],
        sink: &mut S,
    ) -> bool {
        if at != self.last {
            self.change(at);
        }
        let Session { receiver, recovery, is_unreadable, .. } = &mut self.all[at];
        let taken = match recovery {
            None => receiver.on_datagram(now, from, datagram, sink),
            Some(r) => {
                self.with_recovery.note(at, r);
                receiver.on_datagram(now, from, datagram, &mut r.requester.tap(now, sink))
            }
        };
        // A malformed datagram is counted by the receiver.
        let is_told = taken.is_err_and(|error| note_unreadable(is_unreadable, &mut self.unreadable, error));
        receiver.has_ended() || is_told
    }

    /// Why a session cannot be read, if that is to be told.
    pub(crate) fn take_unreadable(&mut self) -> Option<WireError> {
        self.unreadable.take()
    }

    /// Does what is due for a session whose moment has come, if it is there; whether something was and the session is
    /// over.
    pub(crate) fn on_wakeup<S: DeliverySink>(&mut self, at: usize, now: Nanos, sink: &mut S) -> bool {
        self.stir(at);
        let Some(Session { receiver, recovery, .. }) = self.all.get_mut(at) else { return false };
        if now < receiver.next_wakeup() {
            return false;
        }
        match recovery {
            None => receiver.on_wakeup(now, sink),
            Some(recovery) => {
                self.with_recovery.note(at, recovery);
                receiver.on_wakeup(now, &mut recovery.requester.tap(now, sink));
            }
        }
        receiver.has_ended()
    }

    /// This process was stopped: what came meanwhile is taken.
    pub(crate) fn after_pause(&mut self, now: Nanos) {
        for (at, session) in &mut self.all {
            session.receiver.after_pause(now);
            if !std::mem::replace(&mut session.is_stirred, true) {
                self.stirred.push(at);
            }
        }
    }

    /// Takes the moments back that have come and were put off meanwhile, so that the next one is exact.
    pub(crate) fn refresh(&mut self, now: Nanos) {
        while self.deadlines.next() <= now
            && let Some((number, session)) =
                self.deadlines.first().and_then(|n| Some((n, self.all.get(n as usize)?)))
            && session.receiver.next_wakeup() > now
        {
            self.deadlines.set(number, session.receiver.next_wakeup());
        }
    }

    /// When something is due for one of them; it may be early.
    pub(crate) fn next_wakeup(&self) -> Nanos {
        let stirred = self.stirred.iter().chain([&self.last]).filter_map(|at| self.all.get(*at));
        stirred.map(|session| session.receiver.next_wakeup()).fold(self.deadlines.next(), Nanos::min)
    }

    /// Whether a session is over, though something of it may still be asked for.
    pub(crate) fn has_ended(&self, at: usize) -> bool {
        self.all.get(at).is_some_and(|session| session.receiver.has_ended())
    }

    /// Why a session is over. One that was forgotten before it said so was not heard any more.
    pub(crate) fn end_reason(&self, at: usize) -> EndReason {
        self.all.get(at).and_then(|s| s.receiver.end_reason()).unwrap_or(EndReason::TimedOut)
    }

    /// Whether a session goes on that ended as restarted.
    pub(crate) fn goes_on(&self, at: usize) -> bool {
        self.all.get(at).is_some_and(|session| session.receiver.goes_on().is_some())
    }

    /// Where the recovery of a session is kept.
    pub(crate) fn recovery(&mut self, at: usize) -> Option<&mut Option<Box<Recovery>>> {
        self.all.get_mut(at).map(|session| &mut session.recovery)
    }

    /// The recovery of a session, if it has one, with whether the session is over.
    pub(crate) fn state_of_recovery(&self, at: usize) -> Option<(bool, &Recovery)> {
        let session = self.all.get(at)?;
        Some((session.receiver.has_ended(), session.recovery.as_deref()?))
    }
}

/// The sessions of LBT-RM or of LBT-RU, with the sockets that bring them.
pub(crate) trait ReliableIncoming {
    /// What the transport adds to a receiver.
    type Transport: ReceiverTransport;
    /// What is known of a session besides.
    type Details;

    fn sessions(&self) -> &Sessions<Receiver<Self::Transport>, Self::Details>;
    fn sessions_mut(&mut self) -> &mut Sessions<Receiver<Self::Transport>, Self::Details>;
    /// One of the sockets.
    fn socket(&self, index: usize) -> Option<&UdpSocket>;
    /// The session of the next datagram, which is mostly of the same session as the last one.
    fn find_next(&mut self, from: SocketAddrV4, datagram: &[u8]) -> Option<usize>;
    /// What a session is called.
    fn transport(&self, at: usize) -> TransportSession;
    /// Sends what is due for sessions to which something has happened.
    fn send_feedback(&mut self, base: &Base, now: Nanos);
    /// A receiver for the place of one whose session has ended, with all that it knows of the network.
    fn new_in_place(&mut self, base: &mut Base, at: usize) -> Result<Receiver<Self::Transport>, ConfigError>;
    /// Whether a session that has ended is listened for without a break: its source was started again, or may be at
    /// any moment, since its place is fixed.
    fn stays(&self, base: &Base, at: usize) -> bool;
    /// The source of a session has ended it.
    fn on_ended(&mut self, _at: usize) {}
    /// Forgets a session, and what it needed alone.
    fn close(&mut self, base: &mut Base, at: usize) -> Option<TransportSession>;
    /// Whether a session is connected to before it is heard.
    const CONNECTS: bool;

    /// Tells what is to be told of a session; whether it is over.
    fn has_ended(&mut self, base: &mut Base, at: usize) -> bool {
        if let Some(error) = self.sessions_mut().take_unreadable() {
            base.security.unreadable(&self.transport(at), error);
        }
        self.sessions().has_ended(at)
    }
}

/// A datagram was refused; whether that is to be told.
#[cold]
#[inline(never)]
fn note_unreadable(is_told: &mut bool, place: &mut Option<WireError>, error: WireError) -> bool {
    use WireError::{NoPayloadKeys, NotEncrypted, Undeciphered};
    let is_unreadable = matches!(error, NoPayloadKeys | NotEncrypted | Undeciphered { .. });
    let is_new = is_unreadable && !*is_told;
    if is_new {
        (*is_told, *place) = (true, Some(error));
    }
    is_new
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use units::Rng;

    use super::*;

    /// Due when the last datagram said; when woken, a while later; and it has one thing to send after each.
    struct Fake {
        due: Nanos,
        has_to_send: bool,
    }

    impl Reliable for Fake {
        fn subscribe_ordered(&mut self, _: u32, _: u64, _: Option<Order>) -> Result<(), SubscribeError> {
            Ok(())
        }

        fn put_in_order(&mut self, _: u32) -> Option<Sqn> {
            None
        }

        fn resume_topic(&mut self, _: u32, _: Sqn) {}

        fn next_number(&self) -> Option<Sqn> {
            None
        }

        fn run(&self) -> Option<RunId> {
            None
        }

        fn knows_runs(&self) -> bool {
            false
        }

        fn unsubscribe(&mut self, _: u32) {}

        fn on_datagram<S: DeliverySink>(
            &mut self,
            now: Nanos,
            _: SocketAddrV4,
            datagram: &[u8],
            _: &mut S,
        ) -> Result<(), WireError> {
            self.due = Nanos(now.0 + u64::from(datagram[0]));
            self.has_to_send = true;
            Ok(())
        }

        fn on_wakeup<S: DeliverySink>(&mut self, now: Nanos, _: &mut S) {
            self.due = if self.due.0.is_multiple_of(3) { Nanos::NEVER } else { Nanos(now.0 + 40) };
            self.has_to_send = true;
        }

        fn next_wakeup(&self) -> Nanos {
            self.due
        }

        fn has_begun(&self) -> bool {
            true
        }

        fn has_ended(&self) -> bool {
            self.due == Nanos::NEVER
        }

        fn after_pause(&mut self, _: Nanos) {}

        fn end_reason(&self) -> Option<EndReason> {
            None
        }

        fn goes_on(&self) -> Option<Sqn> {
            None
        }
    }

    struct Ignore;

    impl DeliverySink for Ignore {
        fn deliver(&mut self, _: lbt::delivery::Delivered<'_>) {}
        fn lost(&mut self, _: lbt::delivery::Lost) {}
        fn begin_of_stream(&mut self, _: lbt::delivery::BeginOfStream) {}
        fn end_of_stream(&mut self, _: lbt::delivery::EndOfStream) {}
    }

    #[test]
    fn each_session_is_woken_in_the_turn_that_it_is_due_in_and_sends_what_it_has() {
        let _repeat = testkit::repeat!();
        let mut rng = Rng::new(1);
        let mut sessions = Sessions::<Fake>::default();
        let from = SocketAddrV4::new(Ipv4Addr::LOCALHOST, 1);
        let (mut woken, mut looks) = (0, 0);
        for step in 0..30_000 {
            let (now, at) = (Nanos(step), rng.below(40) as usize);
            match rng.below(8) {
                0 => {
                    let due = Nanos(step + rng.below(50));
                    sessions.insert(Fake { due, has_to_send: true }, 1, ());
                }
                1 => drop(sessions.remove(at)),
                2..=5 if sessions.receiver(at).is_some() => {
                    sessions.on_datagram(at, now, from, &[rng.below(200) as u8], &mut Ignore);
                }
                _ => {}
            }
            let is_due = |(at, s): (usize, &Session<Fake, ()>)| (s.receiver.due <= now).then_some(at);
            let mut wanted: Vec<usize> = sessions.all.iter().filter_map(is_due).collect();
            let earliest = sessions.all.iter().map(|(_, s)| s.receiver.due).min();
            assert!(sessions.next_wakeup() <= earliest.unwrap_or(Nanos::NEVER), "never late");
            if sessions.next_wakeup() <= now {
                sessions.settle(|receiver| receiver.has_to_send = false);
                let due = sessions.take_due(now);
                looks += due.len();
                for &at in &due {
                    wanted.retain(|wanted| *wanted != at);
                    let before = sessions.receiver(at).map(|receiver| receiver.due);
                    let has_ended = sessions.on_wakeup(at, now, &mut Ignore);
                    woken += usize::from(before.is_some_and(|due| due <= now));
                    if has_ended && before.is_some_and(|due| due <= now) {
                        sessions.remove(at);
                    }
                }
                sessions.give_back_due(due);
            }
            assert_eq!(wanted, [], "due and not woken");
            if rng.chance(0.5) {
                sessions.settle(|receiver| receiver.has_to_send = false);
                assert!(sessions.all.iter().all(|(_, session)| !session.receiver.has_to_send));
            }
        }
        assert!(woken > 1_000 && looks < 2 * woken, "{looks} looks for {woken} sessions that were due");
    }
}

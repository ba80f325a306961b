//! Shared memory: a reader of each session's ring.

use std::collections::HashMap;
use std::io;
use std::path::Path;
use std::time::Duration;

use counters::table::MessagingContext;
use lbt::config::Order;
use lbt::delivery::{DeliverySink, EndReason};
use lbt::ordered::Receiver as OrderedReceiver;
use lbt::presence::Answer;
use lbt::resolution::TransportSession;
use net::shm::{self, OpenError, ReadError, SessionName, Wait};
use net::{Registrar, Token};
use slab::Slab;
use units::{Deadlines, Nanos, Sqn};

use crate::Handler;
use crate::base::Base;
use crate::base::Port;
use crate::base::show;
use crate::error::ContextError;
use crate::published::Lent;
use crate::recovery::{Recovery, Stirred};
use crate::session::SessionRef;
use crate::stream::{Bridge, Streams};

/// The sessions of shared memory of a context.
///
/// A turn looks at those that are awake. Once the thread has slept, all are awake again as long as they are few; of many
/// only those whose sources have rung, so that the others cost nothing.
#[derive(Default)]
pub(crate) struct IpcIncoming {
    sessions: Slab<Session>,
    /// Those whose sources need not ring, each once. One that is gone may stand here still.
    awake: Vec<usize>,
    /// When to ask whether the source of a session lives, or to look at a ring whose source may not ring.
    due: Deadlines,
    /// How often a ring was looked at.
    #[cfg(test)]
    looks: u64,
    by_transport: HashMap<TransportSession, usize>,
    /// Why a session was not opened last that this user may not.
    denied: Option<Box<str>>,
    pub(crate) with_recovery: Stirred,
}

/// What a look at rings has come to.
pub(crate) struct Looked {
    pub(crate) worked: bool,
    /// A session that is over, and why; the others have their turn next.
    pub(crate) over: Option<(usize, EndReason)>,
    /// Some have brought nothing for long.
    pub(crate) has_idle: bool,
}

struct Session {
    transport: TransportSession,
    number: u64,
    ring: shm::Receiver,
    _shown: Option<Lent>,
    receiver: OrderedReceiver,
    /// When to ask whether the source is alive.
    look_at: Nanos,
    /// The source was told that we sleep: it does not stand among those that are awake.
    is_asleep: bool,
    /// Turns in which there was nothing, since there was something.
    idle_turns: u32,
    /// Its source cannot ring.
    has_no_bell: bool,
    /// The source may not have noticed: look again then.
    doubt_until: Nanos,
    /// Of what was sent before, or overwritten, if a source of the session retains it.
    recovery: Option<Box<Recovery>>,
    /// The session is over, but something is still asked for.
    ended: Option<EndReason>,
}

/// How often a receiver asks whether its source is alive.
const LOOK_EVERY: Duration = Duration::from_millis(250);
/// Up to so many sessions are all looked at in each turn of a thread that is awake.
const AWAKE_ALL_MAX: usize = 8;
/// Beyond them, a session is let asleep after so many turns without a message; its source rings for the next one.
const IDLE_TURNS_MAX: u32 = 10_000;
/// Messages read of a session in one turn.
const MESSAGES_PER_TURN: usize = 4_096;
/// Bytes of the ring after which a turn reads no more, so that who holds back what a turn brings holds little.
const BYTES_PER_TURN: u64 = 1 << 20;
/// Turns in which the rings are to be empty before a thread sleeps in a poller of its own.
pub(crate) const TURNS_PER_DRAIN: usize = 4;
/// Messages between two looks at how many bytes there were: that many of the longest may be read beyond.
const MESSAGES_PER_LOOK: usize = 32;

impl IpcIncoming {
    pub(crate) fn subscribe(&mut self, at: usize, index: u32, token: u64, order: Option<Order>) -> bool {
        let Some(session) = self.sessions.get_mut(at) else { return false };
        let is_subscribed = session.receiver.subscribe(index, token, order).is_ok();
        if is_subscribed && session.ring.position() == 0 {
            // Nothing was ever written: what this receiver is passed over with before it reads the first time is
            // loss too.
            session.receiver.resume_topic(index, Sqn(0));
        }
        is_subscribed
    }

    pub(crate) fn put_in_order(&mut self, at: usize, index: u32) -> Option<Sqn> {
        self.sessions.get_mut(at)?.receiver.put_in_order(index)
    }

    pub(crate) fn resume_topic(&mut self, at: usize, index: u32, next: Sqn) {
        if let Some(session) = self.sessions.get_mut(at) {
            session.receiver.resume_topic(index, next);
        }
    }

    pub(crate) fn unsubscribe(&mut self, at: usize, index: u32) {
        if let Some(session) = self.sessions.get_mut(at) {
            session.receiver.unsubscribe(index);
        }
    }

    /// Forgets a session.
    pub(crate) fn close(&mut self, at: usize) -> Option<TransportSession> {
        let gone = self.sessions.try_remove(at)?;
        self.due.remove(at as u32);
        self.awake.retain(|awake| *awake != at);
        self.by_transport.remove(&gone.transport);
        Some(gone.transport)
    }

    /// Bytes that were read of a session, as they lie in the ring.
    pub(crate) fn bytes(&self, at: usize) -> u64 {
        self.sessions.get(at).map_or(0, |session| session.ring.counters().bytes_rcved.get())
    }

    /// See [`lbt::ordered::Receiver::span`].
    pub(crate) fn span(&self, at: usize, topic: u32, first: Sqn) -> Option<u64> {
        self.sessions.get(at)?.receiver.span(topic, first)
    }

    /// Where the recovery of a session is kept.
    pub(crate) fn recovery(&mut self, at: usize) -> Option<&mut Option<Box<Recovery>>> {
        self.sessions.get_mut(at).map(|session| &mut session.recovery)
    }

    /// The recovery of a session, if it has one, with whether the session is over.
    pub(crate) fn state_of_recovery(&self, at: usize) -> Option<(bool, &Recovery)> {
        let session = self.sessions.get(at)?;
        Some((session.ended.is_some(), session.recovery.as_deref()?))
    }

    pub(crate) fn next_wakeup(&self) -> Nanos {
        self.due.next()
    }

    /// Looks at a ring in the turns to come.
    pub(crate) fn wake(&mut self, at: usize) {
        if let Some(session) = self.sessions.get_mut(at).filter(|session| session.is_asleep) {
            // Its deadline may be too early now, which costs one look.
            session.wake();
            self.awake.push(at);
        }
    }

    fn wake_all(&mut self) {
        (0..self.sessions.capacity()).for_each(|at| self.wake(at));
    }

    /// Lets those asleep for which nothing has come for long.
    #[cold]
    #[inline(never)]
    fn rest(&mut self, now: Nanos, mut has_bell: impl FnMut(usize, &mut shm::Receiver) -> bool) {
        let IpcIncoming { sessions, awake, due, .. } = self;
        awake.retain(|&at| {
            let Some(session) = sessions.get_mut(at) else { return false };
            if session.idle_turns < IDLE_TURNS_MAX || session.has_no_bell {
                return true;
            }
            session.idle_turns = 0;
            session.has_no_bell = !has_bell(at, &mut session.ring);
            let sleeps = !session.has_no_bell && session.before_sleep(now);
            if sleeps {
                due.set(at as u32, session.due());
            }
            !sleeps
        });
    }

    /// What is not read yet is due at once.
    #[cold]
    pub(crate) fn read_on(&mut self, now: Nanos) {
        self.awake.iter().for_each(|at| self.due.bring_forward(*at as u32, now));
    }

    /// Gives each session a bell that the poller watches, the token for a session's number by `token`.
    pub(crate) fn watch(
        &mut self,
        registrar: &Registrar,
        token: impl Fn(usize) -> Token,
        counters: &MessagingContext,
    ) -> io::Result<()> {
        let mut sessions = self.sessions.iter_mut();
        sessions.try_for_each(|(at, session)| watch(&mut session.ring, registrar, token(at), counters))
    }

    /// Tells the sources that this thread is about to sleep. False if there is something to read after all.
    pub(crate) fn before_sleep(&mut self, now: Nanos) -> bool {
        while let Some(&at) = self.awake.last() {
            #[cfg(test)]
            {
                self.looks += 1;
            }
            if let Some(session) = self.sessions.get_mut(at).filter(|session| session.ended.is_none()) {
                if !session.before_sleep(now) {
                    return false;
                }
                // When it is looked at in any case stands there.
                if session.doubt_until != Nanos::NEVER {
                    self.due.bring_forward(at as u32, session.doubt_until);
                }
            }
            self.awake.pop();
        }
        true
    }

    /// Opens a session of this host; none if its source is gone.
    pub(crate) fn open(
        &mut self,
        base: &mut Base,
        next: &mut u64,
        transport: TransportSession,
        name: SessionName,
    ) -> Result<Option<(SessionRef, u64)>, ContextError> {
        if let Some(&at) = self.by_transport.get(&transport) {
            return Ok(Some((SessionRef::Ipc(at), self.sessions[at].number)));
        }
        let mut ring = match shm::Receiver::open(name, Path::new(&base.config.ipc.directory)) {
            Ok(ring) => ring,
            Err(OpenError::Ended) => return Ok(None),
            Err(OpenError::Io(error)) => return Err(error.into()),
            Err(error) => {
                let text = error.to_string();
                if matches!(error, OpenError::Denied { .. } | OpenError::Untrusted { .. }) {
                    base.counters.context.ipc_opens_denied.inc();
                    self.denied = Some(text.clone().into());
                }
                return Err(io::Error::other(text).into());
            }
        };
        let seed = base.rng.next_u64();
        let receiver = OrderedReceiver::new(&base.config.delivery(), seed, base.counters.delivery.clone())?;
        let at = self.sessions.vacant_key();
        if base.watches_data {
            let token = base.token(Port::IpcSession, at);
            watch(&mut ring, &base.registrar, token, &base.counters.context)?;
        }
        *next += 1;
        let number = *next;
        let look_at = base.now + LOOK_EVERY;
        let (is_asleep, doubt_until) = (false, Nanos::NEVER);
        let shown = base.show(&transport, ring.counters().clone());
        let session = Session {
            transport,
            number,
            ring,
            _shown: shown,
            receiver,
            look_at,
            is_asleep,
            idle_turns: 0,
            has_no_bell: false,
            doubt_until,
            recovery: None,
            ended: None,
        };
        self.sessions.insert(session);
        self.awake.push(at);
        self.due.set(at as u32, look_at);
        self.by_transport.insert(transport, at);
        Ok(Some((SessionRef::Ipc(at), number)))
    }

    /// Looks at every ring once that is awake, or at all.
    pub(crate) fn read(&mut self, base: &Base, streams: &mut Streams, handler: &mut impl Handler) -> Looked {
        let now = base.now;
        let (mut worked, mut over, mut has_idle) = (false, None, false);
        // Where time stands still within a turn, nothing may wait for it.
        let is_many = self.sessions.len() > AWAKE_ALL_MAX && !base.is_simulated();
        if !is_many && self.awake.len() < self.sessions.len() {
            self.wake_all();
        }
        for place in 0..self.awake.len() {
            let at = self.awake[place];
            #[cfg(test)]
            {
                self.looks += 1;
            }
            let Some(session) = self.sessions.get_mut(at) else { continue };
            if session.ended.is_some() {
                continue;
            }
            let counters = &base.counters.context;
            let (read, is_over) = session.read(now, streams, handler, counters);
            worked |= read;
            if is_many {
                session.idle_turns = if read { 0 } else { session.idle_turns.saturating_add(1) };
                has_idle |= session.idle_turns >= IDLE_TURNS_MAX;
            }
            if read && let Some(recovery) = &mut session.recovery {
                self.with_recovery.note(at, recovery);
            }
            if is_over {
                let reason = if session.receiver.has_ended() {
                    EndReason::Ended
                } else {
                    session.receiver.on_passed_over();
                    EndReason::Broken
                };
                over = Some((at, reason));
                // The others have their turn next.
                break;
            }
        }
        Looked { worked, over, has_idle }
    }

    /// Lets rings asleep that have brought nothing for long.
    pub(crate) fn let_idle_rest(&mut self, base: &Base) {
        let now = base.now;
        let counters = &base.counters.context;
        self.rest(now, |at, ring| {
            let token = base.token(Port::IpcSession, at);
            watch(ring, &base.registrar, token, counters).is_ok() && ring.has_bell()
        });
    }

    /// Looks after sessions whose moment has come, until one is found that is over, and why.
    pub(crate) fn next_over(&mut self, base: &Base, now: Nanos) -> Option<(usize, EndReason)> {
        while let Some(at) = self.due.pop_due(now) {
            let at = at as usize;
            let Some(session) = self.sessions.get_mut(at).filter(|session| session.ended.is_none()) else {
                continue;
            };
            let is_in_doubt = now >= session.doubt_until;
            let looks = now >= session.look_at;
            if looks {
                session.look_at = now + LOOK_EVERY;
            }
            if is_in_doubt {
                // One look is enough.
                session.idle_turns = IDLE_TURNS_MAX;
            }
            self.due.set(at as u32, session.due().max(now + Duration::from_nanos(1)));
            if is_in_doubt {
                self.wake(at);
            }
            if let Some(session) = self.sessions.get_mut(at)
                && looks
                && session.ring.is_over()
            {
                // All it wrote was read, and what is closed in order is all that was sent. The farewell is missing
                // where a context was dropped, or closed while a receiver that it waits for left no room.
                let reason = if session.ring.has_closed() { EndReason::Ended } else { EndReason::Broken };
                if reason == EndReason::Broken {
                    session.receiver.on_passed_over();
                    base.counters.context.ipc_sessions_broken.inc();
                }
                return Some((at, reason));
            }
            if let Some(session) = self.sessions.get_mut(at)
                && looks
                && session.ring.has_lost_bell()
                && base.watches_data
            {
                let token = base.token(Port::IpcSession, at);
                // Without a bell it is looked at every millisecond, which is counted.
                session.has_no_bell =
                    watch(&mut session.ring, &base.registrar, token, &base.counters.context).is_err()
                        || !session.ring.has_bell();
                self.wake(at);
            }
        }
        None
    }

    /// A session is over: its streams end, but for what is still asked for of it. False if it is gone.
    pub(crate) fn end(
        &mut self,
        now: Nanos,
        streams: &mut Streams,
        (at, reason): (usize, EndReason),
        handler: &mut impl Handler,
    ) -> bool {
        let Some(session) = self.sessions.get_mut(at) else { return false };
        let mut bridge = Bridge { streams, handler, now };
        match session.recovery.as_deref_mut() {
            None => session.receiver.end(reason, &mut bridge),
            Some(recovery) => {
                session.receiver.end(reason, &mut recovery.requester.tap(now, &mut bridge));
            }
        }
        session.wake();
        session.ended = Some(reason);
        true
    }

    /// Why a session is over of which something may still be asked for.
    pub(crate) fn ended(&self, at: usize) -> Option<EndReason> {
        self.sessions.get(at)?.ended
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.sessions.is_empty()
    }
}

/// Gives a ring a bell that the poller watches. A ring that gets none is looked at every millisecond.
fn watch(
    ring: &mut shm::Receiver,
    registrar: &Registrar,
    token: Token,
    counters: &MessagingContext,
) -> io::Result<()> {
    let Ok(bell) = ring.enable_sleep() else {
        counters.ipc_bells_failed.inc();
        return Ok(());
    };
    show(registrar, &bell, token)
}

impl Session {
    /// When to look at it, if nothing happens.
    fn due(&self) -> Nanos {
        self.look_at.min(self.doubt_until)
    }

    fn before_sleep(&mut self, now: Nanos) -> bool {
        if self.is_asleep || self.ended.is_some() {
            return true;
        }
        self.is_asleep = true;
        self.doubt_until = Nanos::NEVER;
        match self.ring.before_sleep() {
            // Nothing more comes, and nothing tells so but what is due.
            Wait::Ready if self.ring.has_closed() && self.ring.is_over() => {
                (self.look_at, self.doubt_until) = (now, now);
            }
            Wait::Ready => {
                self.wake();
                return false;
            }
            Wait::Sleep => {}
            Wait::SleepAtMost(span) => self.doubt_until = now + span,
        }
        true
    }

    #[inline]
    fn wake(&mut self) {
        if self.is_asleep {
            self.ring.after_sleep();
            self.is_asleep = false;
            self.doubt_until = Nanos::NEVER;
        }
    }

    /// Reads what there is; whether that was anything, and whether the session is over.
    #[inline]
    fn read(
        &mut self,
        now: Nanos,
        streams: &mut Streams,
        handler: &mut impl Handler,
        counters: &MessagingContext,
    ) -> (bool, bool) {
        let Session { ring, receiver, recovery, .. } = self;
        let mut bridge = Bridge { streams, handler, now };
        let Taken { count, error, mut is_malformed } = match recovery {
            None => take(ring, receiver, &mut bridge),
            Some(recovery) => take(ring, receiver, &mut recovery.requester.tap(now, &mut bridge)),
        };
        match error {
            None if count == 0 => return (false, false),
            None => {}
            Some(ReadError::Lapped(_)) => receiver.on_passed_over(),
            Some(ReadError::Dropped | ReadError::Nonsense { .. }) => is_malformed = true,
        }
        if is_malformed {
            counters.ipc_sessions_broken.inc();
        }
        if let Some(answer) = receiver.answer(now) {
            let Answer { receiver, number, topics } = answer;
            let is_put = ring.answer(shm::Answer { receiver, number, topics });
            counters.ipc_queries_answered.add(is_put.into());
        }
        (true, is_malformed || receiver.has_ended())
    }
}

/// What a turn has read of a ring.
struct Taken {
    /// Messages.
    count: usize,
    /// Behind them.
    error: Option<ReadError>,
    /// One of them was.
    is_malformed: bool,
}

/// Hands on what a ring has, as much as one turn may.
#[inline]
fn take<S: DeliverySink>(ring: &mut shm::Receiver, receiver: &mut OrderedReceiver, sink: &mut S) -> Taken {
    let mut is_malformed = false;
    let mut hand_on = |frame: shm::Frame<'_>| {
        is_malformed |= receiver.on_bytes(frame.bytes, sink) != Ok(frame.bytes.len());
    };
    let (start, mut count, mut error) = (ring.position(), 0, None);
    while count < MESSAGES_PER_TURN && ring.position() - start < BYTES_PER_TURN {
        match ring.poll(MESSAGES_PER_LOOK, &mut hand_on) {
            Ok(read) => {
                count += read;
                if read < MESSAGES_PER_LOOK {
                    break;
                }
            }
            Err(found) => {
                error = Some(found);
                break;
            }
        }
    }
    Taken { count, error, is_malformed }
}

impl IpcIncoming {
    /// See [`Context::ipc_denied`](crate::Context::ipc_denied).
    #[must_use]
    pub(crate) fn ipc_denied(&self) -> Option<&str> {
        self.denied.as_deref()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;
    use crate::Context;
    use crate::context::tests::{lone, sending};
    use crate::{Message, ReceiverOptions, Source, Transport, Wait};

    /// Payload bytes.
    struct Bytes(usize);

    impl Handler for Bytes {
        fn on_message(&mut self, message: &Message<'_>) {
            self.0 += message.payload.len();
        }
    }

    #[test]
    fn a_turn_brings_a_bounded_part_of_what_a_ring_holds_and_the_next_goes_on() {
        let (mut source, topic) = sending(21, Transport::LbtIpc);
        let (mut context, mut heard) = (lone(21, Wait::Spin), Bytes(0));
        context.create_receiver("px", &ReceiverOptions::default()).expect("a legal name");
        let begun = Instant::now();
        while context.receiving.incoming.ipc.sessions.is_empty() {
            assert!(begun.elapsed() < Duration::from_secs(60), "they do not meet");
            source.wait(Some(Duration::from_millis(1)), &mut ()).expect("the poller works");
            context.poll(&mut heard).expect("the poller works");
        }
        let payload = [7; 60_000];
        for _ in 0..200 {
            source.send(topic, &[&payload]).expect("the source never waits");
        }
        source.flush();
        let turn_max = BYTES_PER_TURN as usize + MESSAGES_PER_LOOK * 65_536;
        let mut turns = 0;
        while heard.0 < 200 * payload.len() {
            let before = heard.0;
            assert!(
                context.receiving.poll_ipc(&mut context.base, &mut context.direct, &mut heard),
                "nothing more comes behind {before} bytes"
            );
            assert!(heard.0 - before <= turn_max, "{} bytes in a turn", heard.0 - before);
            turns += 1;
        }
        assert!(turns > 3, "{turns} turns");
    }

    const SOURCES: usize = AWAKE_ALL_MAX + 4;

    /// Sources of one topic, each with a ring, and somebody who has heard of all.
    fn many(test: u8, wait: Wait) -> (Vec<(Context, Source)>, Context) {
        let mut receiving = lone(test, wait);
        receiving.create_receiver("px", &ReceiverOptions::default()).expect("a legal name");
        let mut sources: Vec<_> = (0..SOURCES).map(|_| sending(test, Transport::LbtIpc)).collect();
        let begun = Instant::now();
        while receiving.receiving.incoming.ipc.sessions.len() < SOURCES {
            assert!(begun.elapsed() < Duration::from_secs(60), "they do not meet");
            for (source, _) in &mut sources {
                source.poll(&mut ()).expect("the poller works");
            }
            receiving.wait(Some(Duration::from_millis(1)), &mut ()).expect("the poller works");
        }
        (sources, receiving)
    }

    /// Sends by each in turn and waits until it is heard.
    fn hear(sources: &mut [(Context, Source)], receiving: &mut Context) {
        let (begun, mut heard) = (Instant::now(), Bytes(0));
        for (source, topic) in sources {
            let before = heard.0;
            source.send(*topic, &[b"px"]).expect("the source never waits");
            source.flush();
            while heard.0 == before {
                assert!(begun.elapsed() < Duration::from_secs(60), "nothing comes");
                receiving.wait(Some(Duration::from_millis(1)), &mut heard).expect("the poller works");
            }
        }
    }

    #[test]
    fn rings_that_are_asleep_are_not_looked_at_whatever_others_bring() {
        let (mut sources, mut receiving) = many(26, Wait::Block);
        hear(&mut sources, &mut receiving);
        let begun = Instant::now();
        while !receiving.receiving.incoming.ipc.awake.is_empty() {
            assert!(begun.elapsed() < Duration::from_secs(60), "they do not fall asleep");
            receiving.wait(Some(Duration::from_millis(1)), &mut ()).expect("the poller works");
        }
        let before = receiving.receiving.incoming.ipc.looks;
        (0..50).for_each(|_| hear(&mut sources[3..4], &mut receiving));
        let looks = receiving.receiving.incoming.ipc.looks - before;
        // Time may pass meanwhile, with turns that look at the one ring once or twice.
        assert!(looks < 50 * SOURCES as u64 / 2, "{looks} looks for 50 messages of one ring of {SOURCES}");
        hear(&mut sources, &mut receiving);
    }

    #[test]
    fn a_thread_that_spins_lets_rings_asleep_that_bring_nothing_and_hears_them_again() {
        let (mut sources, mut receiving) = many(27, Wait::Spin);
        let begun = Instant::now();
        // The second time all sources know that somebody may sleep.
        for _ in 0..2 {
            hear(&mut sources, &mut receiving);
            while !receiving.receiving.incoming.ipc.awake.is_empty() {
                assert!(begun.elapsed() < Duration::from_secs(60), "they do not fall asleep");
                receiving.poll(&mut ()).expect("the poller works");
            }
        }
        let before = receiving.receiving.incoming.ipc.looks;
        for _ in 0..1_000 {
            receiving.poll(&mut ()).expect("the poller works");
        }
        assert_eq!(receiving.receiving.incoming.ipc.looks, before);
        for _ in 0..3 {
            hear(&mut sources, &mut receiving);
        }
    }
}

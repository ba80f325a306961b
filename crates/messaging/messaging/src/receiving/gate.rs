//! Which of the advertised sessions are opened.
//!
//! An advertisement proves nothing: whoever reaches the network can make up any number of them. Sessions are
//! opened within bounds. Beyond those they wait, and those that have shown no sign of life make room: first
//! those of the address that has most of them, then whichever had its time (`session_proof_interval_us`). So a
//! genuine source gets its turn whatever else is advertised for its topic (`tests/strangers.rs`).

mod waiting;

use std::collections::{HashMap, VecDeque};
use std::net::{Ipv4Addr, SocketAddrV4};
use std::time::Duration;

use lbt::resolution::{SourceRecord, TransportSession};
use units::Nanos;

use waiting::{Queue, Waiting};

use super::Receiving;
use crate::base::Base;
use crate::direct::Direct;
use crate::error::ContextError;
use crate::incoming::{Incoming, Sign};
use crate::session::SessionRef;
use crate::{Handler, MessagingConfig, Receiver};

/// What sessions take that is bounded: a group and its sockets, a connection, datagrams to somebody who may not
/// have asked for them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Kind {
    Group,
    Connection,
    Datagrams,
    /// A connection that was made and has brought nothing yet: a source of others may have nothing to say.
    Quiet,
}

/// Those that are opened.
const KINDS: [Kind; 3] = [Kind::Group, Kind::Connection, Kind::Datagrams];

/// Whose a session says it is.
type Owner = (Kind, Ipv4Addr);

/// The sessions that have shown no sign of life, and those that wait to be opened.
pub(crate) struct Gate {
    descriptors_max: usize,
    /// Opened, oldest first.
    unproven: VecDeque<Unproven>,
    held: HashMap<Owner, usize>,
    held_of: [usize; 4],
    /// Of each kind that is opened.
    waiting: [Queue; 3],
    /// Sessions that could not be reached.
    failed: HashMap<TransportSession, Failed>,
    look_at: Nanos,
    /// Those that wait are being opened.
    is_opening: bool,
    /// The system has refused a descriptor or memory: nothing is opened before.
    rests_until: Nanos,
}

struct Unproven {
    session: SessionRef,
    number: u64,
    owner: Owner,
    transport: TransportSession,
    since: Nanos,
}

struct Failed {
    tries: u32,
    again_at: Nanos,
}

/// Why a session cannot be opened now.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Lack {
    Rest,
    Sessions,
    Descriptors,
    OfKind,
    OfOwner,
}

/// Sessions of a kind that are opened, and displaced, in a turn.
const OPENED_MAX: usize = 256;
const DISPLACED_MAX: usize = 16;
/// How often those that wait are looked at, and those that have shown no sign of life.
const LOOK_WAITING: Duration = Duration::from_millis(10);
const LOOK_UNPROVEN: Duration = Duration::from_millis(500);
/// A look takes at most some hundred nanoseconds for each session without a sign of life, a few times over: so that
/// strangers who make thousands of them up take a small part of the thread's time.
const LOOK_PER_UNPROVEN: Duration = Duration::from_micros(10);
/// After the system has refused.
const REST: Duration = Duration::from_millis(100);
/// Between two attempts to reach a session that could not be reached; doubled each time, up to the last.
const RETRY_FIRST: Duration = Duration::from_millis(500);
const RETRY_DOUBLED: u32 = 4;
/// Sessions that could not be reached of which that is known.
const FAILED_MAX: usize = 4_096;

impl Gate {
    pub(crate) fn new(config: &MessagingConfig) -> Gate {
        Gate {
            descriptors_max: config.descriptors_max(),
            unproven: VecDeque::new(),
            held: HashMap::new(),
            held_of: [0; 4],
            waiting: Default::default(),
            failed: HashMap::new(),
            look_at: Nanos::NEVER,
            is_opening: false,
            rests_until: Nanos::ZERO,
        }
    }

    pub(crate) fn next_wakeup(&self) -> Nanos {
        self.look_at
    }

    /// How long those that wait do so until they are looked at again.
    fn look_waiting(&self) -> Duration {
        LOOK_WAITING.max(LOOK_PER_UNPROVEN * self.unproven.len() as u32).min(LOOK_UNPROVEN)
    }

    fn waiting_count(&self) -> usize {
        self.waiting.iter().map(Queue::len).sum()
    }

    fn held_by(&self, owner: Owner) -> usize {
        self.held.get(&owner).copied().unwrap_or(0)
    }

    fn hold(&mut self, owner: Owner) {
        *self.held.entry(owner).or_default() += 1;
        self.held_of[owner.0 as usize] += 1;
    }

    fn let_go(&mut self, owner: Owner) {
        less(&mut self.held, owner);
        self.held_of[owner.0 as usize] -= 1;
    }

    /// A session could not be reached, or said nothing.
    fn fail(&mut self, transport: TransportSession, now: Nanos) {
        if self.failed.len() >= FAILED_MAX {
            self.failed.retain(|_, failed| now < failed.again_at);
        }
        if self.failed.len() < FAILED_MAX {
            let failed = self.failed.entry(transport).or_insert(Failed { tries: 0, again_at: now });
            failed.again_at = now + RETRY_FIRST * (1 << failed.tries.min(RETRY_DOUBLED));
            failed.tries += 1;
        }
    }

    fn let_wait(
        &mut self,
        base: &mut Base,
        receiver: Receiver,
        topic: &str,
        record: &SourceRecord,
        owner: Owner,
    ) {
        let now = base.now;
        let waiting = Waiting { receiver, topic: topic.into(), record: *record, owner };
        if self.waiting[owner.0 as usize].put(waiting) {
            self.look_at = self.look_at.min(base.now + self.look_waiting());
        } else {
            base.counters.context.sessions_refused.inc();
            base.resolution.resolver.forget_source(now, topic, record);
        }
        base.counters.context.sessions_waiting.set(self.waiting_count() as u64);
    }

    /// A session was opened.
    pub(super) fn on_opened(
        &mut self,
        base: &mut Base,
        session: SessionRef,
        number: u64,
        transport: &TransportSession,
    ) {
        let now = base.now;
        let Some(owner) = owner_of(transport) else { return };
        let (transport, since) = (*transport, now);
        self.unproven.push_back(Unproven { session, number, owner, transport, since });
        self.hold(owner);
        self.look_at = self.look_at.min(base.now + LOOK_UNPROVEN);
    }

    /// A session is over; `was_heard` if it has shown a sign of life.
    pub(super) fn on_unreached(&mut self, base: &mut Base, transport: &TransportSession, was_heard: bool) {
        let now = base.now;
        if was_heard {
            self.failed.remove(transport);
        } else {
            self.fail(*transport, now);
        }
    }

    /// Whether a session could not be reached lately. Those that were configured are tried as often as wanted.
    fn backs_off(&self, base: &Base, transport: &TransportSession) -> bool {
        let is_early = self.failed.get(transport).is_some_and(|failed| base.now < failed.again_at);
        let is_fixed = || base.config.resolver.static_source.iter().any(|s| s.record.session == *transport);
        is_early && !is_fixed()
    }

    fn lack(
        &self,
        base: &Base,
        incoming: &Incoming,
        transport: &TransportSession,
        owner: Owner,
    ) -> Option<Lack> {
        let config = &base.config;
        let sessions = incoming.rm.sessions.len() + incoming.tcp.descriptors() + incoming.ru.sessions.len();
        let used = incoming.rm.descriptors() + incoming.tcp.descriptors();
        let needed = match transport {
            TransportSession::LbtRm { group, .. } => incoming.rm.sockets_for(base, *group),
            TransportSession::Tcp { .. } => 1,
            TransportSession::LbtRu { .. } | TransportSession::Ipc { .. } => 0,
        };
        let is_bounded = owner.0 != Kind::Group;
        let held_of = self.held_of[owner.0 as usize];
        if base.now < self.rests_until {
            Some(Lack::Rest)
        } else if sessions >= config.session_maximum_count as usize {
            Some(Lack::Sessions)
        } else if used + needed > self.descriptors_max {
            Some(Lack::Descriptors)
        } else if is_bounded && self.held_by(owner) >= config.session_maximum_unproven_per_address as usize {
            Some(Lack::OfOwner)
        } else if is_bounded && held_of >= config.session_maximum_unproven as usize {
            Some(Lack::OfKind)
        } else {
            None
        }
    }
}

fn less(counts: &mut HashMap<Owner, usize>, owner: Owner) {
    if let Some(count) = counts.get_mut(&owner) {
        *count -= 1;
        if *count == 0 {
            counts.remove(&owner);
        }
    }
}

/// What a session takes, and whose it says it is; none for shared memory, which takes nothing of a stranger.
fn owner_of(session: &TransportSession) -> Option<Owner> {
    Some(match session {
        TransportSession::LbtRm { key, .. } => (Kind::Group, key.source),
        TransportSession::Tcp { address, .. } => (Kind::Connection, *address.ip()),
        TransportSession::LbtRu { address, .. } => (Kind::Datagrams, *address.ip()),
        TransportSession::Ipc { .. } => return None,
    })
}

impl Receiving {
    /// Whether a session that is advertised to a receiver may be opened now. If not, it waits, or is heard of
    /// again when it is advertised again, or is not allowed.
    ///
    /// `known` is the record by which the source is known here, if it is on two networks.
    pub(super) fn pass_gate(
        &mut self,
        base: &mut Base,
        receiver: Receiver,
        topic: &str,
        record: &SourceRecord,
        known: &SourceRecord,
    ) -> bool {
        let now = base.now;
        let Some(owner) = owner_of(&known.session) else { return true };
        if self.incoming.is_received(&known.session) {
            return true;
        }
        let is_allowed = |record| base.config.admits_source(record, base.interface);
        if !is_allowed(record) || !is_allowed(known) {
            base.counters.context.sessions_not_allowed.inc();
            return false;
        }
        if self.gate.backs_off(base, &record.session) {
            base.resolution.resolver.forget_source(now, topic, record);
            return false;
        }
        let is_next = self.gate.is_opening || self.gate.waiting[owner.0 as usize].is_empty();
        if is_next && self.gate.lack(base, &self.incoming, &known.session, owner).is_none() {
            return true;
        }
        self.gate.let_wait(base, receiver, topic, record, owner);
        false
    }

    /// A session could not be opened. What the system lacks passes: the session waits.
    pub(crate) fn on_join_failed(
        &mut self,
        base: &mut Base,
        receiver: Receiver,
        topic: &str,
        record: &SourceRecord,
        error: &ContextError,
    ) {
        let now = base.now;
        base.counters.context.joins_failed.inc();
        if let ContextError::Io(error) = error
            && net::descriptors::are_exhausted(error)
            && let Some(owner) = owner_of(&record.session)
        {
            base.counters.context.descriptors_exhausted.inc();
            self.gate.rests_until = base.now + REST;
            return self.gate.let_wait(base, receiver, topic, record, owner);
        }
        // Reported again when it is advertised again.
        base.resolution.resolver.forget_source(now, topic, record);
    }

    pub(super) fn wake_gate(
        &mut self,
        base: &mut Base,
        direct: &mut Direct,
        now: Nanos,
        handler: &mut impl Handler,
    ) {
        if now < self.gate.look_at {
            return;
        }
        self.sort_out(base, direct, now, handler);
        for kind in KINDS {
            self.open_waiting(base, direct, now, kind, handler);
        }
        let (waiting, is_idle) = (self.gate.waiting_count(), self.gate.unproven.is_empty());
        base.counters.context.sessions_waiting.set(waiting as u64);
        self.gate.look_at = match waiting {
            0 if is_idle => Nanos::NEVER,
            0 => now + LOOK_UNPROVEN,
            _ => now + self.gate.look_waiting(),
        };
    }

    /// Looks at the sessions without a sign of life: some have shown one, some are gone, some connections were
    /// not made in time.
    fn sort_out(&mut self, base: &mut Base, direct: &mut Direct, now: Nanos, handler: &mut impl Handler) {
        let (mut overdue, timeout) = (Vec::new(), base.config.tcp.connect_timeout());
        let mut unproven = std::mem::take(&mut self.gate.unproven);
        unproven.retain_mut(|one| {
            let is_left = match self.incoming.sign_of(one.session, one.number) {
                Some(Sign::Heard) => {
                    self.gate.failed.remove(&one.transport);
                    false
                }
                Some(Sign::None { is_connecting: true }) if now >= one.since + timeout => {
                    overdue.push(one.session);
                    false
                }
                sign => sign.is_some_and(|sign| {
                    if one.owner.0 == Kind::Connection && matches!(sign, Sign::None { is_connecting: false })
                    {
                        self.gate.let_go(one.owner);
                        one.owner.0 = Kind::Quiet;
                        self.gate.hold(one.owner);
                    }
                    true
                }),
            };
            if !is_left {
                self.gate.let_go(one.owner);
            }
            is_left
        });
        self.gate.unproven = unproven;
        for session in overdue {
            base.counters.context.connects_timed_out.inc();
            if let SessionRef::Tcp(at) = session {
                self.end_tcp(base, direct, at, handler);
            }
        }
    }

    fn open_waiting(
        &mut self,
        base: &mut Base,
        direct: &mut Direct,
        now: Nanos,
        kind: Kind,
        handler: &mut impl Handler,
    ) {
        let mut displaced = 0;
        for _ in 0..OPENED_MAX {
            let lack_of = |receiving: &Receiving, base: &Base, place: usize| {
                let waiting = receiving.gate.waiting[kind as usize].get(place)?;
                let transport = waiting.record.session;
                if receiving.incoming.is_received(&transport) || receiving.gate.backs_off(base, &transport) {
                    return Some(None);
                }
                Some(receiving.gate.lack(base, &receiving.incoming, &transport, waiting.owner))
            };
            // In their order as long as there is room; else who has least comes first.
            let place = match lack_of(self, base, 0) {
                None => return,
                Some(None) => 0,
                Some(Some(Lack::Rest)) => return,
                Some(Some(_)) => {
                    let held_by = |owner| self.gate.held_by(owner);
                    self.gate.waiting[kind as usize].poorest(held_by).unwrap_or(0)
                }
            };
            if let Some(Some(lack)) = lack_of(self, base, place) {
                displaced += 1;
                let Some(owner) = self.gate.waiting[kind as usize].get(place).map(|w| w.owner) else {
                    return;
                };
                if displaced > DISPLACED_MAX || !self.make_room(base, direct, now, owner, lack, handler) {
                    return;
                }
            }
            let Some(Waiting { receiver, topic, record, .. }) = self.gate.waiting[kind as usize].take(place)
            else {
                return;
            };
            if self.has_receiver(receiver) {
                self.gate.is_opening = true;
                self.join_counted(base, direct, receiver, &topic, &record);
                self.gate.is_opening = false;
            }
        }
    }

    /// Closes sessions without a sign of life for one that waits; false if none is to go.
    fn make_room(
        &mut self,
        base: &mut Base,
        direct: &mut Direct,
        now: Nanos,
        owner: Owner,
        lack: Lack,
        handler: &mut impl Handler,
    ) -> bool {
        let is_meant = |other: Owner| match lack {
            Lack::Rest => false,
            Lack::Sessions => true,
            Lack::Descriptors => other.0 != Kind::Datagrams,
            Lack::OfKind => other.0 == owner.0,
            Lack::OfOwner => other == owner,
        };
        let most = self.gate.held.iter().filter(|(other, _)| is_meant(**other)).max_by_key(|(_, n)| **n);
        let greedy = most.filter(|(_, n)| **n > self.gate.held_by(owner) + 1).map(|(other, _)| *other);
        let had_time = now.0.saturating_sub(base.config.session_proof_interval_us * 1_000);
        // A group is left when no session on it is alive, with all of them.
        let mut silent = HashMap::<SocketAddrV4, usize>::new();
        if lack == Lack::Descriptors {
            let groups = self.gate.unproven.iter().filter_map(group_of);
            groups.for_each(|group| *silent.entry(group).or_default() += 1);
        }
        let is_free = |one: &&Unproven| {
            let group = group_of(one).filter(|_| lack == Lack::Descriptors);
            group.is_none_or(|group| silent.get(&group) == Some(&self.incoming.rm.sessions_on(group)))
        };
        let mut candidates = self.gate.unproven.iter().filter(|one| match greedy {
            Some(greedy) => one.owner == greedy,
            None => is_meant(one.owner) && one.since.0 <= had_time,
        });
        let Some(victim) = candidates.find(is_free) else { return false };
        let group = group_of(victim).filter(|_| lack == Lack::Descriptors);
        let victim = victim.session;
        let mut unproven = std::mem::take(&mut self.gate.unproven);
        unproven.retain(|one| {
            let goes = one.session == victim || group.is_some() && group_of(one) == group;
            if goes {
                self.gate.let_go(one.owner);
                base.counters.context.sessions_displaced.inc();
                self.give_up(base, direct, one.session, handler);
            }
            !goes
        });
        self.gate.unproven = unproven;
        true
    }
}

fn group_of(one: &Unproven) -> Option<SocketAddrV4> {
    match one.transport {
        TransportSession::LbtRm { group, .. } => Some(group),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::context::tests::lone;
    use crate::{ReceiverOptions, Wait};

    #[test]
    fn the_more_sessions_are_silent_the_rarer_all_are_looked_at() {
        let mut gate = Gate::new(&MessagingConfig::default());
        assert_eq!(gate.look_waiting(), LOOK_WAITING);
        let address = SocketAddrV4::new(Ipv4Addr::LOCALHOST, 9);
        let transport = TransportSession::LbtRu { address, session_id: None };
        let one = |number| Unproven {
            session: SessionRef::Ru(0),
            number,
            owner: (Kind::Datagrams, Ipv4Addr::LOCALHOST),
            transport,
            since: Nanos::ZERO,
        };
        gate.unproven.extend((0..16_384).map(one));
        assert_eq!(gate.look_waiting(), Duration::from_micros(163_840));
        gate.unproven.extend((0..1_000_000).map(one));
        assert_eq!(gate.look_waiting(), LOOK_UNPROVEN);
    }

    #[test]
    fn nobody_fills_the_room_of_those_who_wait_alone() {
        let mut context = lone(31, Wait::Block);
        let receiver = context.create_receiver("px", &ReceiverOptions::default()).expect("a good name");
        // Nothing is opened.
        context.receiving.gate.rests_until = Nanos::NEVER;
        let mut advertise = |last, count: u32| {
            for id in 0..count {
                let address = SocketAddrV4::new(Ipv4Addr::new(127, 0, 1, last), 9);
                let session = TransportSession::Tcp { address, session_id: Some(id) };
                let (topic_index, request, late_join, origin) = (1, None, None, None);
                let record = SourceRecord { topic_index, session, request, late_join, origin };
                assert!(!context.receiving.pass_gate(&mut context.base, receiver, "px", &record, &record));
            }
            let counters = &context.base.counters.context;
            (counters.sessions_waiting.get(), counters.sessions_refused.get())
        };
        assert_eq!(advertise(1, 10_000), (8_192, 1_808), "half of the room");
        assert_eq!(advertise(1, 8_192), (8_192, 1_808), "once each");
        assert_eq!(advertise(2, 1_000), (9_192, 1_808), "there is room for another address");
    }
}

//! Hot services: two instances publish a service from the same input, and the items of the service follow both.
//!
//! The two are the service's *sides*. Their streams are followed alike: numbers, gaps and what waits behind these are
//! each stream's own. What is taken of them is decided item by item ([`Merge`]). From there on an item does not know
//! that there are two: what is taken gets a number of this server's own, and goes the way of every message. So images,
//! watchers, caches and shards behind a relay need no rule for pairs.
//!
//! | what happens | what becomes of the items |
//! |---|---|
//! | a side is lost, its service is down, or it says that an item is suspect or closed | those that are joined at the other side go on from there, and nobody is told; the others are suspect and asked for |
//! | a side comes (again) | its images are asked for in pace and compared, and shown to nobody |
//! | messages of one stream are lost | items concerned go on from the other side, and are joined again |
//! | both are lost | all items are suspect, as without a pair |
//!
//! What is to be done with all items of a service is a sweep, so that a side may be lost under a million items.
//! Proven by `p2ps/tests/hot.rs` and by the simulator's `Pair`.
//!
//! [`Merge`]: super::merge::Merge

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};
use std::time::Duration;

use rwf::{DataState, DecodeError, GenericMsg, RefreshMsg, State, StateCode, StatusMsg, StreamState, UpdateMsg};
use units::Nanos;

use super::base::SourceId;
use super::instance::{Instance, send_to_instance};
use super::items::WatchedItems;
use super::life::{Input, Phase};
use super::merge::{Following, Head, Merge, SideNo, Standing, Verdict, digest, other};
use super::notices::ServerNotice;
use super::recovery::LOST;
use super::service::{Active, What};
use super::sink::ServerSink;
use super::stamps;
use super::stream::{Incoming, Order};
use crate::backbone::{Kind, LinkUp, StreamMsg};
use crate::cached::CachedItem;

/// The instances that a hot service comes from.
#[derive(Debug, Default)]
pub(super) struct Pair {
    pub(super) sides: [Option<PairSide>; 2],
    /// The number of the last message that was taken.
    sequence: u64,
    /// Items that are to be joined at a side.
    joins: VecDeque<(usize, u64, SideNo)>,
    /// Images that are on their way for that: when they were asked for.
    asked: VecDeque<(Nanos, usize, u64, SideNo)>,
    /// Items of which a side waits for the other one, and until when.
    holds: VecDeque<(Nanos, usize, u64)>,
    /// When an image is to be asked for again, if the side is not joined by then.
    later: BinaryHeap<Reverse<(Nanos, usize, u64, SideNo)>>,
    /// Images that are being received, from their first part to their last.
    images: BTreeMap<(usize, SideNo), Arriving>,
}

/// One of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PairSide {
    pub(super) active: Active,
    /// Its provider is there.
    pub(super) is_up: bool,
}

/// An image that is being received.
#[derive(Debug)]
struct Arriving {
    after: u64,
    image: CachedItem,
    parts: Vec<Box<[u8]>>,
}

/// Side images are asked for again so long after one that proved nothing.
const PROVE_AFTER: Duration = Duration::from_secs(1);

/// An image that is older than what clients have had is asked for again so much later.
const YOUNGER_AFTER: Duration = Duration::from_millis(100);

/// Of what is due, so much is done in a turn.
const DUE_PER_TURN: usize = 1_000;

impl Pair {
    /// The side of an instance.
    pub(super) fn side_of(&self, instance: u64) -> Option<SideNo> {
        self.sides.iter().position(|side| side.is_some_and(|side| side.active.instance == instance))
    }

    pub(super) fn is_at(&self, active: Active) -> bool {
        self.sides.iter().flatten().any(|side| side.active == active)
    }

    fn next_due(&self, timeout: Duration, asks_max: usize) -> Nanos {
        if !self.joins.is_empty() && self.asked.len() < asks_max {
            return Nanos::ZERO;
        }
        let asked = self.asked.front().map_or(Nanos::NEVER, |(at, ..)| *at + timeout);
        let holds = self.holds.front().map_or(Nanos::NEVER, |(until, ..)| *until);
        let later = self.later.peek().map_or(Nanos::NEVER, |Reverse((at, ..))| *at);
        asked.min(holds).min(later)
    }
}

/// What is compared of a message of a stream.
fn head_of(msg: &StreamMsg<'_>) -> Result<Head, DecodeError> {
    let mut is_part = false;
    let (number, said) = match msg.kind {
        Kind::Update => {
            let update = UpdateMsg::parse(msg.body)?;
            (update.seq_num, digest(msg.kind, update.container_type.0, update.payload))
        }
        Kind::Refresh => {
            let refresh = RefreshMsg::parse(msg.body)?;
            is_part = refresh.part_num.is_some();
            (refresh.seq_num, digest(msg.kind, refresh.container_type.0, refresh.payload))
        }
        Kind::Status | Kind::Close => StatusMsg::parse(msg.body).map(|_| (None, 0))?,
        Kind::Generic => GenericMsg::parse(msg.body).map(|_| (None, 0))?,
        _ => (None, 0),
    };
    Ok(Head { kind: msg.kind, sequence: msg.sequence, number, digest: said, is_part })
}

/// The instances of a service.
impl WatchedItems {
    /// Decides which instances a hot service comes from. Returns the one that things without a copy go to.
    pub(super) fn choose_sides(&mut self, now: Nanos, id: u16, sink: &mut impl ServerSink) -> Option<Active> {
        let candidates = self.sources.candidates(id);
        let (mut lost, mut changed) = (Vec::new(), Vec::new());
        let service = self.sources.services.get_mut(&id)?;
        let before = service.active;
        let pair = service.hot.as_mut()?;
        for (no, place) in pair.sides.iter_mut().enumerate() {
            let Some(side) = place else { continue };
            match candidates.iter().find(|(active, _)| *active == side.active) {
                None => {
                    lost.push((no, side.active));
                    *place = None;
                }
                Some((_, is_up)) if *is_up != side.is_up => {
                    side.is_up = *is_up;
                    changed.push((no, if *is_up { What::Join(no) } else { What::SideDown(no) }));
                }
                Some(_) => {}
            }
        }
        let is_left = pair.sides.iter().any(Option::is_some);
        for (no, active) in lost {
            if let Some(stream) = self.sources.stream_mut(active.source) {
                stream.deactivate();
                stream.side = None;
            }
            if is_left {
                self.sweep(now, id, What::SideLost(no), sink);
            }
            self.sources.report_not_followed(id, active.instance, sink);
        }
        for (_, what) in changed {
            self.sweep(now, id, what, sink);
        }
        if !is_left && before.is_some() {
            // All of them at once: the items are left as those of any service are.
            return None;
        }
        self.take_sides(now, id, &candidates, sink);
        let pair = self.sources.services.get(&id)?.hot.as_ref()?;
        let sides = pair.sides.iter().flatten();
        sides.max_by_key(|side| (side.is_up, Some(side.active) == before)).map(|side| side.active)
    }

    /// Gives free places to instances that have none.
    fn take_sides(
        &mut self,
        now: Nanos,
        id: u16,
        candidates: &[(Active, bool)],
        sink: &mut impl ServerSink,
    ) {
        for no in 0..2 {
            if self.sources.is_side_being_left(id, no) || self.sources.is_being_left(id) {
                continue;
            }
            let Some(service) = self.sources.services.get_mut(&id) else { return };
            let is_first = service.active.is_none();
            let Some(pair) = service.hot.as_mut().filter(|pair| pair.sides[no].is_none()) else { continue };
            let free = candidates.iter().filter(|(active, _)| !pair.is_at(*active));
            let Some(&(active, is_up)) = free.max_by_key(|(_, is_up)| *is_up) else { continue };
            pair.sides[no] = Some(PairSide { active, is_up });
            if let Some(stream) = self.sources.stream_mut(active.source) {
                stream.side = Some(no);
            }
            if !is_first {
                self.sweep(now, id, What::Join(no), sink);
            }
        }
    }

    /// A service comes from nowhere: nothing is known of its items' sides.
    pub(super) fn leave_sides(&mut self, id: u16) {
        let Some(pair) = self.sources.services.get_mut(&id).and_then(|service| service.hot.as_mut()) else {
            return;
        };
        let (sides, sequence) = (pair.sides, pair.sequence);
        **pair = Pair { sequence, ..Pair::default() };
        for side in sides.into_iter().flatten() {
            if let Some(stream) = self.sources.stream_mut(side.active.source) {
                stream.deactivate();
                stream.side = None;
            }
        }
    }

    /// Does with one item what a sweep over one side of its service does.
    pub(super) fn sweep_side(&mut self, now: Nanos, index: usize, what: What, sink: &mut impl ServerSink) {
        match what {
            What::SideLost(side) => {
                self.unbind_side(index, side);
                self.lose_side(now, index, side, LOST_SIDE, sink);
                if let Some(merge) = self.table.get_mut(index).and_then(|item| item.hot.as_mut()) {
                    merge.sides[side].is_registered = false;
                }
            }
            What::SideDown(side) => self.lose_side(now, index, side, DOWN_SIDE, sink),
            What::Join(side) => {
                let item = &self.table[index];
                let is_out = item.hot.as_ref().is_none_or(|merge| merge.sides[side].standing == Standing::Out);
                if item.life.awaits_image() && is_out {
                    self.table[index].hot.get_or_insert_default();
                    self.ask_side(index, side, sink);
                } else {
                    self.want_side(index, side);
                }
            }
            What::SideLacks(side, lacks) => self.lack_side(now, index, (side, lacks), sink),
            _ => {}
        }
    }

    fn unbind_side(&mut self, index: usize, side: SideNo) {
        let Some(item) = self.table.get_mut(index) else { return };
        let Some(id) = item.hot.as_mut().and_then(|merge| merge.sides[side].id.take()) else { return };
        let service = item.key.service;
        if let Some(source) = self.sources.source_of_side(service, side)
            && let Some(stream) = self.sources.stream_mut(source)
            && stream.item(id) == Some(index)
        {
            stream.unbind(id);
        }
    }

    /// An item is removed: its ids stand for nothing any more, and it is counted no more.
    pub(super) fn forget_sides(&mut self, index: usize) {
        if self.table[index].hot.is_none() {
            return;
        }
        for side in 0..2 {
            self.unbind_side(index, side);
        }
        self.forget_arriving(index);
        if let Some(merge) = self.table[index].hot.take() {
            self.count_following(merge.counted, None);
        }
    }

    fn count_following(&self, before: Option<Following>, now: Option<Following>) {
        let gauge = |following| match following {
            Following::Both => &self.counters.hot_items,
            Following::One => &self.counters.hot_items_single,
            Following::Unnumbered => &self.counters.hot_items_unnumbered,
        };
        if before != now {
            before.map(gauge).iter().for_each(|gauge| gauge.set(gauge.get().saturating_sub(1)));
            now.map(gauge).iter().for_each(|gauge| gauge.set(gauge.get() + 1));
        }
    }

    /// Something has changed about how an item is followed.
    fn recount_sides(&mut self, index: usize) {
        let Some(item) = self.table.get_mut(index) else { return };
        let is_live = item.life.phase() == Phase::Live;
        let Some(merge) = item.hot.as_mut() else { return };
        let following = is_live.then(|| merge.following());
        let before = std::mem::replace(&mut merge.counted, following);
        self.count_following(before, following);
    }
}

/// An item that a side has closed is asked for there again so much later: it may only be there later.
const REOPEN_AFTER: Duration = Duration::from_secs(5);

/// What clients get of an item that one side does not have, and the other one not yet.
const WAITING: State<'static> = State::new(StreamState::Open, DataState::Suspect)
    .because(StateCode::NONE, "waiting for a provider at one of the source distributors of the pair");

const LOST_SIDE: &str = "the source distributor is lost, and the other one of the pair is not ready";
const DOWN_SIDE: &str = "the provider has gone, and the other source distributor of the pair is not ready";
const DIFFERS: &str = "the two source distributors of the pair say different things";
const LATE: &str = "an update has come too late to be put in order";

/// Asking.
impl WatchedItems {
    /// The item's turn to be asked for has come: it is asked for at both sides. Whichever image comes first is shown.
    pub(super) fn ask_sides(&mut self, index: usize, sink: &mut impl ServerSink) {
        let service = self.table[index].key.service;
        let merge = self.table[index].hot.get_or_insert_default();
        merge.is_distrusted = false;
        let prefers = merge.prefers.take();
        for side in 0..2 {
            if prefers == Some(other(side)) && self.sources.side_instance(service, other(side)).is_some() {
                self.table[index].hot.iter_mut().for_each(|merge| merge.sides[side].leave());
            } else {
                self.ask_side(index, side, sink);
            }
        }
        self.forget_arriving(index);
        self.recount_sides(index);
    }

    fn forget_arriving(&mut self, index: usize) {
        let service = self.table[index].key.service;
        if let Some(pair) = self.sources.pair_mut(service) {
            pair.images.remove(&(index, 0));
            pair.images.remove(&(index, 1));
        }
    }

    /// Asks a side for an image. Returns whether there is an instance to ask.
    fn ask_side(&mut self, index: usize, side: SideNo, sink: &mut impl ServerSink) -> bool {
        let WatchedItems { table, sources, counters, .. } = self;
        let item = &mut table[index];
        let Some(instance) = sources.side_instance(item.key.service, side) else { return false };
        let known = sources.instances.get(&instance);
        let key = item.key.as_key();
        if !key.is_plain() && !known.is_some_and(Instance::has_keys_in_full) {
            return false;
        }
        let Some(merge) = item.hot.as_mut() else { return false };
        let own = &mut merge.sides[side];
        let msg = match own.is_registered {
            true => LinkUp::ImageRequest { key },
            false if item.was_live && known.is_some_and(Instance::has_resume) => LinkUp::Resume { key },
            false => LinkUp::Interest { key },
        };
        own.ask();
        counters.images_requested.inc();
        send_to_instance(&sources.instances, instance, msg, sink);
        true
    }

    /// A side is to be joined when its turn has come.
    fn want_side(&mut self, index: usize, side: SideNo) {
        let Some(item) = self.table.get_mut(index).filter(|item| item.life.phase() == Phase::Live) else {
            // It is asked for at both sides when its turn comes, or was already.
            return;
        };
        let Some(merge) = item.hot.as_mut().filter(|merge| merge.sides[side].standing != Standing::Joined)
        else {
            return;
        };
        if merge.number.is_none() && merge.sides[side].is_registered {
            return;
        }
        let (service, serial) = (item.key.service, item.serial);
        if !std::mem::replace(&mut merge.sides[side].is_in_row, true)
            && let Some(pair) = self.sources.pair_mut(service)
        {
            pair.joins.push_back((index, serial, side));
        }
    }

    /// A side that is not proven is asked again after a while, and then less and less often.
    fn prove_later(&mut self, now: Nanos, index: usize, side: SideNo) {
        let Some(merge) = self.table.get_mut(index).and_then(|item| item.hot.as_mut()) else { return };
        let at = now + PROVE_AFTER * (1 << merge.next_proof());
        self.want_side_later(index, side, at);
    }

    /// A side is looked at again at a time: if nothing is known of it then, it is asked.
    fn want_side_later(&mut self, index: usize, side: SideNo, at: Nanos) {
        let Some(item) = self.table.get_mut(index) else { return };
        let (service, serial) = (item.key.service, item.serial);
        let Some(merge) = item.hot.as_mut() else { return };
        if !std::mem::replace(&mut merge.sides[side].is_due, true)
            && let Some(pair) = self.sources.pair_mut(service)
        {
            pair.later.push(Reverse((at, index, serial, side)));
        }
    }

    /// Nobody wants an item any more: both sides are told.
    pub(super) fn give_up_sides(&mut self, index: usize, sink: &mut impl ServerSink) {
        let WatchedItems { table, sources, .. } = self;
        let item = &table[index];
        for side in 0..2 {
            let is_registered = item.hot.as_ref().is_some_and(|merge| merge.sides[side].is_registered);
            if let Some(instance) = sources.side_instance(item.key.service, side).filter(|_| is_registered) {
                let msg = LinkUp::NoInterest { key: item.key.as_key() };
                send_to_instance(&sources.instances, instance, msg, sink);
            }
        }
    }

    /// What is due of the pairs.
    pub(super) fn check_sides(&mut self, now: Nanos, sink: &mut impl ServerSink) {
        let mut next = self.sources.hot.first().copied();
        while let Some(id) = next {
            self.check_pair(now, id, sink);
            next = self.sources.hot.range(id.saturating_add(1)..).next().copied().filter(|next| *next > id);
        }
    }

    fn check_pair(&mut self, now: Nanos, id: u16, sink: &mut impl ServerSink) {
        let (timeout, asks_max) = (self.config.image_timeout, self.config.images_outstanding_max);
        for _ in 0..DUE_PER_TURN {
            let Some(pair) = self.sources.pair_mut(id) else { return };
            let Some(&(_, index, serial)) = pair.holds.front().filter(|(until, ..)| now >= *until) else {
                break;
            };
            pair.holds.pop_front();
            if let Some(merge) = self.merge_of(index, serial) {
                merge.is_listed = false;
                if merge.is_waiting() {
                    merge.give_up_waiting();
                    self.counters.hot_waits_ended.inc();
                    self.drain_sides(now, index, sink);
                }
            }
        }
        for _ in 0..DUE_PER_TURN {
            let Some(pair) = self.sources.pair_mut(id) else { return };
            let Some(&Reverse((_, index, serial, side))) =
                pair.later.peek().filter(|Reverse((at, ..))| now >= *at)
            else {
                break;
            };
            pair.later.pop();
            let Some(merge) = self.merge_of(index, serial) else { continue };
            merge.sides[side].is_due = false;
            let standing = merge.sides[side].standing;
            match standing {
                Standing::Unproven | Standing::Refused { is_closed: true } => self.want_side(index, side),
                Standing::Out if self.table[index].life.phase() == Phase::Live => {
                    self.want_side(index, side);
                }
                Standing::Out if self.table[index].life.awaits_image() => _ = self.ask_side(index, side, sink),
                _ => {}
            }
        }
        loop {
            let Some(pair) = self.sources.pair_mut(id) else { return };
            let Some(&(_, index, serial, side)) = pair.asked.front().filter(|(at, ..)| now >= *at + timeout)
            else {
                break;
            };
            pair.asked.pop_front();
            if let Some(merge) = self.merge_of(index, serial)
                && merge.sides[side].standing == Standing::Asked
            {
                merge.sides[side].leave();
                self.want_side(index, side);
            }
        }
        for _ in 0..self.config.cleanups_per_turn {
            let Some(pair) = self.sources.pair_mut(id).filter(|pair| pair.asked.len() < asks_max) else {
                return;
            };
            let Some((index, serial, side)) = pair.joins.pop_front() else { return };
            let is_live = self.table.get(index).is_some_and(|item| item.life.phase() == Phase::Live);
            let Some(merge) = self.merge_of(index, serial) else { continue };
            merge.sides[side].is_in_row = false;
            let is_wanted = !matches!(merge.sides[side].standing, Standing::Joined | Standing::Asked);
            if is_live && is_wanted && self.ask_side(index, side, sink)
                && let Some(pair) = self.sources.pair_mut(id)
            {
                pair.images.remove(&(index, side));
                pair.asked.push_back((now, index, serial, side));
            }
        }
    }

    fn merge_of(&mut self, index: usize, serial: u64) -> Option<&mut Merge> {
        self.table.get_mut(index).filter(|item| item.serial == serial)?.hot.as_deref_mut()
    }

    /// When [`WatchedItems::check_sides`] is due next.
    pub(super) fn next_side_check(&self) -> Nanos {
        let services = self.sources.hot.iter().filter_map(|id| self.sources.services.get(id));
        let pairs = services.filter_map(|service| service.hot.as_ref());
        let (timeout, asks_max) = (self.config.image_timeout, self.config.images_outstanding_max);
        pairs.map(|pair| pair.next_due(timeout, asks_max)).min().unwrap_or(Nanos::NEVER)
    }
}

/// What comes of a side.
impl WatchedItems {
    /// A message of a side's stream whose turn has come.
    pub(super) fn on_side_message(
        &mut self,
        now: Nanos,
        (source, side): (SourceId, SideNo),
        msg: &StreamMsg<'_>,
        sink: &mut impl ServerSink,
    ) {
        let Some(stream) = self.sources.stream_mut(source) else { return };
        let (service, item) = (stream.service, stream.item(msg.item));
        if msg.kind == Kind::Heartbeat {
            return;
        }
        // Until it is taken.
        stream.count_standby(Order::Next, msg.kind);
        if matches!(msg.kind, Kind::Open | Kind::OpenInFull) {
            let Ok(key) = msg.opened(service) else {
                self.counters.messages_refused.inc();
                return;
            };
            if let Some(index) = self.find_settled(key, sink) {
                self.bind_side(index, side, msg.item);
            }
            return;
        }
        let Some(index) = item else {
            if msg.kind == Kind::Update {
                self.counters.updates_unwatched.inc();
            }
            return;
        };
        self.settle(index, sink);
        if self.table.get(index).and_then(|item| item.hot.as_ref()).is_none() {
            return;
        }
        match head_of(msg) {
            Ok(head) => self.on_side_head(now, (index, source, side), (head, msg), sink),
            Err(_) => {
                self.counters.messages_refused.inc();
                self.lose_side(now, index, side, UNREADABLE, sink);
                self.want_side(index, side);
            }
        }
    }

    fn on_side_head(
        &mut self,
        now: Nanos,
        (index, source, side): (usize, SourceId, SideNo),
        (head, msg): (Head, &StreamMsg<'_>),
        sink: &mut impl ServerSink,
    ) {
        let bytes_max = self.config.held_bytes_max;
        let item = &mut self.table[index];
        let is_live = item.life.phase() == Phase::Live;
        let Some(merge) = item.hot.as_mut() else { return };
        match merge.sides[side].standing {
            Standing::Asked | Standing::Refused { .. } => {
                self.counters.updates_held.inc();
                if !merge.hold(side, head, msg.body, bytes_max) {
                    self.counters.held_overflows.inc();
                }
            }
            // Of an item that is not live, an image is asked for that has it.
            _ if !is_live => {}
            Standing::Out if head.kind == Kind::Refresh => self.on_side_refresh(now, (index, side), msg, sink),
            Standing::Out => {}
            Standing::Unproven | Standing::Joined => {
                let has_waiting = !merge.sides[side].waiting.is_empty();
                let verdict = if has_waiting { Verdict::Hold } else { merge.judge(side, &head) };
                if verdict != Verdict::Hold {
                    let is_stamped = !msg.parts.is_empty()
                        && msg.kind == Kind::Update
                        && matches!(verdict, Verdict::Take | Verdict::TakeAlone)
                        && stamps::begin(self, index, msg, sink);
                    self.carry_out(now, (index, source, side), (head, verdict, msg.body), sink);
                    if is_stamped {
                        sink.end_stamped();
                    }
                    if self.has_waiting(index) {
                        self.drain_sides(now, index, sink);
                    }
                    return;
                }
                if !merge.hold(side, head, msg.body, bytes_max) {
                    self.counters.held_overflows.inc();
                    // Nothing may be lost of what waits for the other side: all of the item comes anew.
                    let is_joined = merge.sides[side].standing == Standing::Joined;
                    merge.sides[side].leave();
                    if is_joined {
                        self.resynchronise_sides(now, index, LOST, sink);
                    } else {
                        self.want_side(index, side);
                    }
                    return;
                }
                let (serial, service, is_listed) = (item.serial, item.key.service, merge.is_listed);
                if merge.sides[side].standing == Standing::Joined && !is_listed {
                    merge.is_listed = true;
                    let until = now + self.config.hot_wait;
                    if let Some(pair) = self.sources.pair_mut(service) {
                        pair.holds.push_back((until, index, serial));
                    }
                }
                self.drain_sides(now, index, sink);
            }
        }
    }

    #[inline]
    fn has_waiting(&self, index: usize) -> bool {
        let merge = self.table.get(index).and_then(|item| item.hot.as_ref());
        merge.is_some_and(|merge| merge.sides.iter().any(|side| !side.waiting.is_empty()))
    }

    /// Goes on with what waits, as far as it can.
    fn drain_sides(&mut self, now: Nanos, index: usize, sink: &mut impl ServerSink) {
        loop {
            let Some(item) = self.table.get_mut(index).filter(|item| item.life.phase() == Phase::Live) else {
                return;
            };
            let service = item.key.service;
            let Some((side, waiting, verdict)) = item.hot.as_mut().and_then(|merge| merge.next_waiting()) else {
                return;
            };
            let Some(source) = self.sources.source_of_side(service, side) else { continue };
            self.carry_out(now, (index, source, side), (waiting.head, verdict, &waiting.body), sink);
        }
    }

    /// Does what was judged of a message.
    fn carry_out(
        &mut self,
        now: Nanos,
        (index, source, side): (usize, SourceId, SideNo),
        (head, verdict, body): (Head, Verdict, &[u8]),
        sink: &mut impl ServerSink,
    ) {
        if self.on_side_state(now, (index, side), (&head, body), sink) {
            return;
        }
        let Some(merge) = self.table[index].hot.as_mut() else { return };
        let was = merge.sides[side].standing;
        let lacks = merge.settle(side, &head, verdict);
        let is_news = merge.sides[side].standing != was;
        if lacks > 0 {
            self.counters.hot_lacking.add(lacks as u64);
        }
        match verdict {
            Verdict::Take => {
                if head.kind == Kind::Close {
                    self.give_up_sides(index, sink);
                }
                self.take_message(now, (index, source), (head.kind, body), sink);
            }
            Verdict::TakeAlone => {
                self.leave_second(index, side);
                if head.kind == Kind::Refresh && head.number.is_some() {
                    // An image begins a new count, to which the other one can be joined.
                    self.table[index].hot.iter_mut().for_each(|merge| merge.adopt(side, head.number));
                    self.want_side(index, other(side));
                    self.recount_sides(index);
                }
                self.take_message(now, (index, source), (head.kind, body), sink);
            }
            Verdict::Drop => self.counters.hot_duplicates.inc(),
            Verdict::Hold => {}
            Verdict::Leave => {
                self.table[index].hot.iter_mut().for_each(|merge| merge.sides[side].leave());
                self.recount_sides(index);
                match head.is_part {
                    // With its further parts it is an image that is compared.
                    true => self.on_side_part(now, (index, side), (head.sequence, body), sink),
                    false => self.prove_later(now, index, side),
                }
            }
            Verdict::Differs if was != Standing::Joined => {
                // It counts for itself, or has not come to where the other one is.
                self.counters.hot_differing.inc();
                self.table[index].hot.iter_mut().for_each(|merge| merge.sides[side].leave());
                self.prove_later(now, index, side);
            }
            Verdict::Differs => self.on_difference(now, index, sink),
            Verdict::Lost => {
                self.counters.hot_late.inc();
                self.table[index].hot.iter_mut().for_each(|merge| merge.prefers = Some(side));
                self.resynchronise_sides(now, index, LATE, sink);
            }
        }
        if is_news {
            self.recount_sides(index);
        }
    }

    /// From here on the item comes from one side alone.
    fn leave_second(&mut self, index: usize, side: SideNo) {
        if let Some(merge) = self.table[index].hot.as_mut() {
            merge.lead = side;
            merge.sides[other(side)].leave();
        }
        self.recount_sides(index);
    }

    /// The two have said different things: the item goes on from the side that leads, if clients have had all of that.
    fn on_difference(&mut self, now: Nanos, index: usize, sink: &mut impl ServerSink) {
        self.counters.hot_differing.inc();
        let item = &mut self.table[index];
        let Some(merge) = item.hot.as_mut() else { return };
        let lead = merge.lead;
        let is_current = merge.sides[lead].is_usable()
            && merge.sides[lead].last == merge.number
            && merge.sides[lead].waiting.is_empty();
        merge.number = None;
        merge.sides[other(lead)].leave();
        if let Some(held_back) = self.sources.ration.take(now) {
            sink.notice(&ServerNotice::Differs { item: item.key.as_key(), held_back });
        }
        if is_current {
            item.hot.iter_mut().for_each(|merge| merge.is_distrusted = true);
            self.recount_sides(index);
        } else {
            self.resynchronise_sides(now, index, DIFFERS, sink);
        }
    }

    /// The next message of an item.
    fn take_message(
        &mut self,
        now: Nanos,
        (index, source): (usize, SourceId),
        (kind, body): (Kind, &[u8]),
        sink: &mut impl ServerSink,
    ) {
        let item = &self.table[index];
        let (service, account) = (item.key.service, item.account);
        let Some(pair) = self.sources.pair_mut(service) else { return };
        pair.sequence += 1;
        let sequence = pair.sequence;
        if let Some(stream) = self.sources.stream_mut(source) {
            stream.take_from_standby();
        }
        if kind != Kind::Update {
            self.ledger.account(account).taken.others += 1;
        }
        self.on_item_message(now, index, sequence, kind, body, sink);
    }

    /// What a status, a close or an image with a bad state says of a side. Returns whether that is all there is to do.
    fn on_side_state(
        &mut self,
        now: Nanos,
        (index, side): (usize, SideNo),
        (head, body): (&Head, &[u8]),
        sink: &mut impl ServerSink,
    ) -> bool {
        let Some(merge) = self.table[index].hot.as_mut() else { return true };
        if head.sequence <= merge.sides[side].after {
            self.counters.hot_duplicates.inc();
            return true;
        }
        let (leads, second) = (merge.lead == side, other(side));
        let state = match head.kind {
            Kind::Status => StatusMsg::parse(body).ok().and_then(|msg| msg.state),
            Kind::Refresh => RefreshMsg::parse(body).ok().map(|msg| msg.state),
            Kind::Close => {
                let is_spare = merge.sides[second].is_usable();
                let is_hoped = merge.sides[second].is_registered;
                merge.sides[side].is_registered = false;
                self.unbind_side(index, side);
                if is_spare || is_hoped {
                    self.lose_side(now, index, side, CLOSED_SIDE, sink);
                    let merge = self.table.get_mut(index).and_then(|item| item.hot.as_mut());
                    if let Some(merge) = merge
                        && merge.sides[side].standing == Standing::Out
                    {
                        merge.sides[side].standing = Standing::Refused { is_closed: true };
                        self.want_side_later(index, side, now + REOPEN_AFTER);
                    }
                    return true;
                }
                return !leads;
            }
            _ => return false,
        };
        let Some(state) = state else { return false };
        let is_end = state.stream != StreamState::Open;
        match state.data {
            DataState::Suspect if !is_end => {
                merge.sides[side].is_good = false;
                if merge.sides[second].is_usable() {
                    self.lose_side(now, index, side, SUSPECT_SIDE, sink);
                    return true;
                }
                !leads
            }
            _ if merge.sides[side].is_good => false,
            DataState::Ok if leads => {
                merge.sides[side].is_good = true;
                false
            }
            DataState::Ok => {
                self.table[index].hot.iter_mut().for_each(|merge| merge.sides[side].leave());
                self.want_side(index, side);
                true
            }
            _ => false,
        }
    }

    /// An unasked image of a side of which nothing is used: it is as good as one that was asked for.
    fn on_side_refresh(
        &mut self,
        now: Nanos,
        (index, side): (usize, SideNo),
        msg: &StreamMsg<'_>,
        sink: &mut impl ServerSink,
    ) {
        self.on_side_part(now, (index, side), (msg.sequence, msg.body), sink);
    }

    /// A side is of no use for an item any more. If the other one is, the item goes on from there, and nobody notices.
    fn lose_side(
        &mut self,
        now: Nanos,
        index: usize,
        side: SideNo,
        why: &str,
        sink: &mut impl ServerSink,
    ) {
        let Some(item) = self.table.get_mut(index) else { return };
        let is_live = item.life.phase() == Phase::Live;
        let Some(merge) = item.hot.as_mut() else { return };
        let (was_usable, led) = (merge.sides[side].standing == Standing::Joined, merge.lead == side);
        merge.sides[side].leave();
        if !is_live {
            // Whether the other one answers alone is known when it does.
            return self.check_refusals(now, index, None, sink);
        }
        if led {
            merge.lead = other(side);
            if !merge.sides[other(side)].is_usable() {
                merge.lead = side;
                return self.resynchronise_sides(now, index, why, sink);
            }
            self.counters.hot_switches.inc();
        }
        if was_usable || led {
            self.recount_sides(index);
            self.drain_sides(now, index, sink);
        }
    }

    /// An item has missed something: it is suspect until one of the sides has sent an image.
    fn resynchronise_sides(&mut self, now: Nanos, index: usize, why: &str, sink: &mut impl ServerSink) {
        let service = self.table[index].key.service;
        let lacks = self.sources.pair_mut(service).map_or(0, |pair| pair.sequence);
        self.resynchronise(now, index, (lacks, why), sink);
        self.recount_sides(index);
        self.send_requests(now, sink);
    }

    /// Messages about an item were lost of a side's stream.
    pub(super) fn lack_side(
        &mut self,
        now: Nanos,
        index: usize,
        (side, lacks): (SideNo, u64),
        sink: &mut impl ServerSink,
    ) {
        let Some(item) = self.table.get_mut(index) else { return };
        let is_live = item.life.phase() == Phase::Live;
        let Some(merge) = item.hot.as_mut() else { return };
        match merge.sides[side].standing {
            Standing::Asked => {
                // The image that is on its way may be older than what was lost.
                let own = &mut merge.sides[side];
                own.ask();
                own.dropped = lacks;
            }
            Standing::Out if is_live => self.prove_later(now, index, side),
            Standing::Out | Standing::Refused { .. } => {}
            Standing::Unproven | Standing::Joined if is_live => {
                self.lose_side(now, index, side, LOST, sink);
                self.want_side(index, side);
            }
            Standing::Unproven | Standing::Joined => merge.sides[side].leave(),
        }
    }
}

const UNREADABLE: &str = "a message of the source distributor could not be used";
const CLOSED_SIDE: &str = "the item is closed at one source distributor of the pair, the other one is asked";
const SUSPECT_SIDE: &str = "the provider is lost at one source distributor of the pair";

/// Images.
impl WatchedItems {
    fn bind_side(&mut self, index: usize, side: SideNo, id: u32) -> bool {
        let service = self.table[index].key.service;
        let Some(own) = self.table[index].hot.as_ref().map(|merge| merge.sides[side].id) else { return false };
        if own == Some(id) {
            return true;
        }
        self.unbind_side(index, side);
        let stream = self.sources.source_of_side(service, side).and_then(|s| self.sources.stream_mut(s));
        let is_bound = stream.is_some_and(|stream| stream.bind(id, index));
        if let Some(merge) = self.table[index].hot.as_mut() {
            merge.sides[side].id = is_bound.then_some(id);
        }
        is_bound
    }

    /// A part of an image that a side was asked for.
    pub(super) fn on_side_image(
        &mut self,
        now: Nanos,
        (index, side): (usize, SideNo),
        (id, after): (u32, u64),
        refresh: &[u8],
        sink: &mut impl ServerSink,
    ) -> Result<(), DecodeError> {
        let msg = RefreshMsg::parse(refresh)?;
        let Some(merge) = self.table[index].hot.as_ref() else { return Ok(()) };
        if !matches!(merge.sides[side].standing, Standing::Asked | Standing::Refused { .. }) {
            return Ok(());
        }
        let is_first = msg.part_num.unwrap_or(0) == 0;
        if msg.state.stream != StreamState::Open {
            // All there is: no update follows, and nothing has to fit.
            self.forget_arriving(index);
            return if self.table[index].life.awaits_image() {
                self.on_image(now, index, id, after, refresh, sink)
            } else {
                Ok(())
            };
        }
        if is_first {
            let was_bound = merge.sides[side].id == Some(id);
            let service = self.table[index].key.service;
            let joins = self.bind_side(index, side, id)
                && self
                    .sources
                    .source_of_side(service, side)
                    .and_then(|source| self.sources.stream_mut(source))
                    .is_some_and(|stream: &mut Incoming| stream.joins_image(after, was_bound));
            if !joins {
                self.ask_side(index, side, sink);
                return Ok(());
            }
        }
        self.counters.images_in.inc();
        self.on_side_part(now, (index, side), (after, refresh), sink);
        Ok(())
    }

    /// A part of an image of a side, taken after a number of its stream.
    fn on_side_part(
        &mut self,
        now: Nanos,
        (index, side): (usize, SideNo),
        (after, refresh): (u64, &[u8]),
        sink: &mut impl ServerSink,
    ) {
        let Ok(msg) = RefreshMsg::parse(refresh) else { return };
        let service = self.table[index].key.service;
        let ripples = self.ripples_of(service);
        let WatchedItems { sources, rules, .. } = self;
        let Some(pair) = sources.pair_mut(service) else { return };
        if msg.part_num.unwrap_or(0) == 0 {
            let arriving = Arriving { after, image: CachedItem::new(ripples), parts: Vec::new() };
            pair.images.insert((index, side), arriving);
        }
        let Some(arriving) = pair.images.get_mut(&(index, side)) else { return };
        // Parts of an unasked image have numbers of their own in the stream; asked ones have all the same.
        arriving.after = arriving.after.max(after);
        arriving.parts.push(refresh.into());
        match arriving.image.on_refresh(&msg, rules) {
            Ok(false) => {}
            Ok(true) => {
                if let Some(arrived) = pair.images.remove(&(index, side)) {
                    self.on_whole_image(now, (index, side), arrived, sink);
                }
            }
            Err(_) => {
                self.counters.messages_refused.inc();
                if let Some(pair) = self.sources.pair_mut(service) {
                    pair.images.remove(&(index, side));
                }
                self.table[index].hot.iter_mut().for_each(|merge| merge.sides[side].leave());
                if self.table[index].life.awaits_image() {
                    self.spoil(now, index, sink);
                }
            }
        }
    }

    fn on_whole_image(
        &mut self,
        now: Nanos,
        (index, side): (usize, SideNo),
        arrived: Arriving,
        sink: &mut impl ServerSink,
    ) {
        let item = &mut self.table[index];
        let service = item.key.service;
        let (is_live, awaits) = (item.life.phase() == Phase::Live, item.life.awaits_image());
        let is_good = arrived.image.state().data != DataState::Suspect;
        let number = arrived.image.seq_num();
        let Some(merge) = item.hot.as_mut() else { return };
        if arrived.after < merge.sides[side].dropped {
            self.ask_side(index, side, sink);
            return;
        }
        let lead_is_bad = merge.lead != side && !merge.sides[merge.lead].is_good;
        merge.sides[side].after = arrived.after;
        merge.sides[side].is_good = is_good;
        if awaits || is_live && (lead_is_bad && is_good || merge.lead == side) {
            let had = item.cached.seq_num();
            if awaits && had.is_some_and(|had| is_older(number, had)) && merge.wants_younger() {
                // Clients have had younger data: the side has not come so far yet.
                merge.sides[side].leave();
                self.want_side_later(index, side, now + YOUNGER_AFTER);
                return;
            }
            merge.adopt(side, number);
            let is_second_out = merge.sides[other(side)].standing == Standing::Out;
            self.show_side_image(now, (index, awaits), &arrived.parts, sink);
            if is_second_out {
                self.want_side(index, other(side));
            }
        } else if is_live {
            let is_equal = (number.is_some() && number == merge.number)
                .then(|| item.cached.is_same_image(&arrived.image))
                .flatten();
            let differs = merge.compare(side, number, is_equal);
            let is_unproven = merge.sides[side].standing == Standing::Unproven;
            if !is_good {
                // Its next image may have come over the stream before this one.
                merge.sides[side].leave();
                self.prove_later(now, index, side);
            } else if differs {
                self.counters.hot_images_differing.inc();
                if let Some(held_back) = self.sources.ration.take(now) {
                    sink.notice(&ServerNotice::Differs { item: item.key.as_key(), held_back });
                }
            } else if is_unproven {
                self.prove_later(now, index, side);
            }
        } else {
            merge.sides[side].leave();
        }
        if let Some(pair) = self.sources.pair_mut(service)
            && let Some(at) = pair.asked.iter().take(ASKED_LOOKED_AT).position(|a| (a.1, a.3) == (index, side))
        {
            pair.asked.remove(at);
        }
        self.recount_sides(index);
        self.drain_sides(now, index, sink);
        self.send_requests(now, sink);
    }

    /// Shows the image of a side to the watchers.
    fn show_side_image(
        &mut self,
        now: Nanos,
        (index, awaits): (usize, bool),
        parts: &[Box<[u8]>],
        sink: &mut impl ServerSink,
    ) {
        let service = self.table[index].key.service;
        let Some(pair) = self.sources.pair_mut(service) else { return };
        pair.sequence += 1;
        let sequence = pair.sequence;
        if awaits {
            for part in parts {
                if self.receive_image(now, index, sequence, part, sink).is_err() {
                    self.spoil(now, index, sink);
                    return;
                }
            }
            return;
        }
        for part in parts {
            let Some(pair) = self.sources.pair_mut(service) else { return };
            pair.sequence += 1;
            let sequence = pair.sequence;
            self.on_item_message(now, index, sequence, Kind::Refresh, part, sink);
        }
    }

    /// What a side has sent of an item alone cannot be read.
    pub(super) fn spoil_side(
        &mut self,
        now: Nanos,
        (index, side): (usize, SideNo),
        sink: &mut impl ServerSink,
    ) {
        let Some(item) = self.table.get_mut(index) else { return };
        if item.life.awaits_image() {
            return self.spoil(now, index, sink);
        }
        self.counters.messages_refused.inc();
        item.hot.iter_mut().for_each(|merge| merge.sides[side].leave());
        self.recount_sides(index);
    }

    /// What a side says of an item to this server alone: there is none, or its image has to wait.
    pub(super) fn on_side_status(
        &mut self,
        now: Nanos,
        (index, side): (usize, SideNo),
        status: &[u8],
        sink: &mut impl ServerSink,
    ) -> Result<(), DecodeError> {
        let state = StatusMsg::parse(status)?.state;
        let is_closed = state.is_some_and(|state| state.stream != StreamState::Open);
        let Some(merge) = self.table[index].hot.as_mut() else { return Ok(()) };
        let own = &mut merge.sides[side];
        own.is_registered &= !is_closed;
        if matches!(own.standing, Standing::Asked | Standing::Refused { .. }) {
            own.standing = Standing::Refused { is_closed };
            if is_closed {
                self.want_side_later(index, side, now + REOPEN_AFTER);
            }
            self.check_refusals(now, index, Some(status), sink);
        }
        Ok(())
    }

    /// An item whose image is awaited: if no side has one to send, watchers are told what the last one has said.
    fn check_refusals(
        &mut self,
        now: Nanos,
        index: usize,
        status: Option<&[u8]>,
        sink: &mut impl ServerSink,
    ) {
        let item = &self.table[index];
        let Some(merge) = item.hot.as_ref().filter(|_| item.life.awaits_image()) else { return };
        let service = item.key.service;
        let mut sides = (0..2).filter(|side| self.sources.side_instance(service, *side).is_some());
        let is_hoped = sides.clone().any(|side| merge.sides[side].standing == Standing::Asked);
        let waits = sides.any(|side| merge.sides[side].standing == Standing::Refused { is_closed: false });
        if is_hoped {
            return;
        }
        let is_closing = status
            .is_some_and(|s| StatusMsg::parse(s).is_ok_and(|m| m.state.is_some_and(|s| s.stream != StreamState::Open)));
        match status {
            Some(status) if !(is_closing && waits) => {
                if self.on_item_status(now, index, status, sink).is_err() {
                    self.spoil(now, index, sink);
                }
            }
            Some(_) => {
                let waiting = StatusMsg {
                    state: Some(WAITING),
                    ..StatusMsg::new(item.key.domain, 0, rwf::DataType::NO_DATA)
                };
                let waiting = self.encoding.encode(|w| waiting.encode(w)).to_vec();
                if self.on_item_status(now, index, &waiting, sink).is_err() {
                    self.spoil(now, index, sink);
                }
            }
            None if waits => {
                self.on_input(index, Input::Wait);
                self.send_requests(now, sink);
            }
            // The side that was hoped for is gone: both are asked.
            None => {
                self.request(index);
                self.send_requests(now, sink);
            }
        }
    }
}

/// So many of the images that are on their way are looked at for the one that has come; the others leave by their time.
const ASKED_LOOKED_AT: usize = 64;

fn is_older(number: Option<u32>, taken: u32) -> bool {
    number.is_some_and(|number| units::Sqn(number).precedes(units::Sqn(taken)))
}

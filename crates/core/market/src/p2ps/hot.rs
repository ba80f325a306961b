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
use std::time::Duration;

use units::Nanos;

use super::instance::{Instance, send_to_instance};
use super::items::WatchedItems;
use super::life::Phase;
use super::merge::{Merge, SideNo, Standing, other};
use super::pair::{Active, Pair, PairSide};
use super::service::What;
use super::side::{drain_sides, lack_side, lose_side, outdate_side};
use super::sink::ServerSink;
use crate::backbone::LinkUp;

/// Side images are asked for again so long after one that proved nothing.
const PROVE_AFTER: Duration = Duration::from_secs(1);

/// Of what is due, so much is done in a turn.
const DUE_PER_TURN: usize = 1_000;

const LOST_SIDE: &str = "the source distributor is lost, and the other one of the pair is not ready";
const DOWN_SIDE: &str = "the provider has gone, and the other source distributor of the pair is not ready";

/// Decides which instances a hot service comes from. Returns the one that things without a copy go to.
pub(super) fn choose_sides(
    items: &mut WatchedItems,
    now: Nanos,
    id: u16,
    sink: &mut impl ServerSink,
) -> Option<Active> {
    let candidates = items.sources.candidates(id);
    let (mut lost, mut changed) = (Vec::new(), Vec::new());
    let service = items.sources.services.get_mut(&id)?;
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
    if lost.is_empty()
        && let Some(no) = replaceable(pair, &candidates)
        && !service.sweeps.iter().any(|sweep| matches!(sweep.what, What::SideLost(_)))
        && let Some(side) = pair.sides[no].take()
    {
        lost.push((no, side.active));
        changed.retain(|(of, _)| *of != no);
    }
    let is_left = pair.sides.iter().any(Option::is_some);
    for (no, active) in lost {
        if let Some(stream) = items.sources.stream_mut(active.source) {
            stream.deactivate();
            stream.set_side(None);
        }
        if is_left {
            items.sweep(now, id, What::SideLost(no), sink);
        }
        items.sources.report_not_followed(id, active.instance, sink);
    }
    for (_, what) in changed {
        items.sweep(now, id, what, sink);
    }
    if !is_left && before.is_some() {
        // All of them at once: the items are left as those of any service are.
        return None;
    }
    take_sides(items, now, id, &candidates, sink);
    let pair = items.sources.services.get(&id)?.hot.as_ref()?;
    let sides = pair.sides.iter().flatten();
    sides.max_by_key(|side| (side.is_up, Some(side.active) == before)).map(|side| side.active)
}

/// The place of an instance whose provider is not there, if another instance without a place has its provider. One of two is
/// replaced at a time.
fn replaceable(pair: &Pair, candidates: &[(Active, bool)]) -> Option<SideNo> {
    let is_spare_up = candidates.iter().any(|(active, is_up)| *is_up && !pair.is_at(*active));
    let is_whole = pair.sides.iter().all(Option::is_some);
    let is_down = |side: &Option<PairSide>| side.is_some_and(|side| !side.is_up);
    pair.sides.iter().position(is_down).filter(|_| is_whole && is_spare_up)
}

/// Gives free places to instances that have none.
pub(super) fn take_sides(
    items: &mut WatchedItems,
    now: Nanos,
    id: u16,
    candidates: &[(Active, bool)],
    sink: &mut impl ServerSink,
) {
    for no in 0..2 {
        if items.sources.is_side_being_left(id, no) || items.sources.is_being_left(id) {
            continue;
        }
        let Some(service) = items.sources.services.get_mut(&id) else { return };
        let is_first = service.active.is_none();
        let Some(pair) = service.hot.as_mut().filter(|pair| pair.sides[no].is_none()) else { continue };
        let free = candidates.iter().filter(|(active, _)| !pair.is_at(*active));
        let Some(&(active, is_up)) = free.max_by_key(|(_, is_up)| *is_up) else { continue };
        pair.sides[no] = Some(PairSide { active, is_up });
        if let Some(stream) = items.sources.stream_mut(active.source) {
            stream.set_side(Some(no));
        }
        if !is_first {
            items.sweep(now, id, What::Join(no), sink);
        }
    }
}

/// A service comes from nowhere: nothing is known of its items' sides.
pub(super) fn leave_sides(items: &mut WatchedItems, id: u16) {
    let Some(pair) = items.sources.services.get_mut(&id).and_then(|service| service.hot.as_mut()) else {
        return;
    };
    let (sides, sequence) = (pair.sides, pair.sequence);
    **pair = Pair { sequence, ..Pair::default() };
    for side in sides.into_iter().flatten() {
        if let Some(stream) = items.sources.stream_mut(side.active.source) {
            stream.deactivate();
            stream.set_side(None);
        }
    }
}

/// Does with one item what a sweep over one side of its service does.
pub(super) fn sweep_side(
    items: &mut WatchedItems,
    now: Nanos,
    index: usize,
    what: What,
    sink: &mut impl ServerSink,
) {
    match what {
        What::SideLost(side) => {
            items.unbind_side(index, side);
            lose_side(items, now, index, side, LOST_SIDE, sink);
            if let Some(merge) = items.table.get_mut(index).and_then(|item| item.hot.as_mut()) {
                merge.sides[side].is_registered = false;
            }
        }
        What::SideDown(side) => lose_side(items, now, index, side, DOWN_SIDE, sink),
        What::SideDownSince(side, sequence) if outdate_side(items, index, side, sequence) => {
            lose_side(items, now, index, side, DOWN_SIDE, sink);
        }
        What::Join(side) => {
            let item = &items.table[index];
            let is_out = item.hot.as_ref().is_none_or(|merge| merge.sides[side].standing == Standing::Out);
            if item.life.awaits_image() && is_out {
                items.table[index].hot.get_or_insert_default();
                ask_side(items, index, side, sink);
            } else {
                want_side(items, index, side);
            }
        }
        What::SideLacks(side, lacks) => lack_side(items, now, index, (side, lacks), sink),
        _ => {}
    }
}

/// Something has changed about how an item is followed.
pub(super) fn recount_sides(items: &mut WatchedItems, index: usize) {
    let Some(item) = items.table.get_mut(index) else { return };
    let is_live = item.life.phase() == Phase::Live;
    let Some(merge) = item.hot.as_mut() else { return };
    let following = is_live.then(|| merge.following());
    let before = std::mem::replace(&mut merge.counted, following);
    items.count_following(before, following);
}

/// The item's turn to be asked for has come: it is asked for at both sides. Whichever image comes first is shown.
pub(super) fn ask_sides(items: &mut WatchedItems, index: usize, sink: &mut impl ServerSink) {
    let service = items.table[index].key.service;
    let merge = items.table[index].hot.get_or_insert_default();
    merge.is_distrusted = false;
    let prefers = merge.prefers.take();
    for side in 0..2 {
        if prefers == Some(other(side)) && items.sources.side_instance(service, other(side)).is_some() {
            items.table[index].hot.iter_mut().for_each(|merge| merge.sides[side].leave());
        } else {
            ask_side(items, index, side, sink);
        }
    }
    if let Some(pair) = items.sources.pair_mut(service) {
        pair.forget_arriving(index);
    }
    recount_sides(items, index);
}

/// Asks a side for an image. Returns whether there is an instance to ask.
pub(super) fn ask_side(
    items: &mut WatchedItems,
    index: usize,
    side: SideNo,
    sink: &mut impl ServerSink,
) -> bool {
    let WatchedItems { table, sources, counters, .. } = items;
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
pub(super) fn want_side(items: &mut WatchedItems, index: usize, side: SideNo) {
    let Some(item) = items.table.get_mut(index).filter(|item| item.life.phase() == Phase::Live) else {
        // It is asked for at both sides when its turn comes, or was already.
        return;
    };
    let Some(merge) = item.hot.as_mut().filter(|merge| merge.sides[side].standing != Standing::Joined) else {
        return;
    };
    if merge.number.is_none() && merge.sides[side].is_registered {
        return;
    }
    let (service, serial) = (item.key.service, item.serial);
    if !std::mem::replace(&mut merge.sides[side].is_in_row, true)
        && let Some(pair) = items.sources.due_pair_mut(service)
    {
        pair.joins.push_back((index, serial, side));
    }
}

/// A side that is not proven is asked again after a while, and then less and less often.
pub(super) fn prove_later(items: &mut WatchedItems, now: Nanos, index: usize, side: SideNo) {
    let Some(merge) = items.table.get_mut(index).and_then(|item| item.hot.as_mut()) else { return };
    let at = now + PROVE_AFTER * (1 << merge.next_proof());
    want_side_later(items, index, side, at);
}

/// A side is looked at again at a time: if nothing is known of it then, it is asked.
pub(super) fn want_side_later(items: &mut WatchedItems, index: usize, side: SideNo, at: Nanos) {
    let Some(item) = items.table.get_mut(index) else { return };
    let (service, serial) = (item.key.service, item.serial);
    let Some(merge) = item.hot.as_mut() else { return };
    if !std::mem::replace(&mut merge.sides[side].is_due, true)
        && let Some(pair) = items.sources.due_pair_mut(service)
    {
        pair.later.push(Reverse((at, index, serial, side)));
    }
}

/// Nobody wants an item any more: both sides are told.
pub(super) fn give_up_sides(items: &mut WatchedItems, index: usize, sink: &mut impl ServerSink) {
    let WatchedItems { table, sources, .. } = items;
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
pub(super) fn check_sides(items: &mut WatchedItems, now: Nanos, sink: &mut impl ServerSink) {
    let mut next = items.sources.pairs_due.first().copied();
    while let Some(id) = next {
        check_pair(items, now, id, sink);
        if items.sources.pair_mut(id).is_none_or(|pair| pair.is_idle()) {
            items.sources.pairs_due.remove(&id);
        }
        next =
            items.sources.pairs_due.range(id.saturating_add(1)..).next().copied().filter(|next| *next > id);
    }
}

pub(super) fn check_pair(items: &mut WatchedItems, now: Nanos, id: u16, sink: &mut impl ServerSink) {
    let (timeout, asks_max) = (items.config.image_timeout, items.config.images_outstanding_max);
    for _ in 0..DUE_PER_TURN {
        let Some(pair) = items.sources.pair_mut(id) else { return };
        let Some(&Reverse((_, index, serial))) =
            pair.holds.peek().filter(|Reverse((until, ..))| now >= *until)
        else {
            break;
        };
        pair.holds.pop();
        if let Some(merge) = merge_of(items, index, serial) {
            merge.is_listed = false;
            if merge.waits_until().is_some_and(|until| now >= until) {
                merge.give_up_waiting();
                items.counters.hot_waits_ended.inc();
            }
            // What waits still has come later.
            drain_sides(items, now, index, sink);
        }
    }
    for _ in 0..DUE_PER_TURN {
        let Some(pair) = items.sources.pair_mut(id) else { return };
        let Some(&Reverse((_, index, serial, side))) =
            pair.later.peek().filter(|Reverse((at, ..))| now >= *at)
        else {
            break;
        };
        pair.later.pop();
        let Some(merge) = merge_of(items, index, serial) else { continue };
        merge.sides[side].is_due = false;
        let standing = merge.sides[side].standing;
        match standing {
            Standing::Unproven | Standing::Refused { is_closed: true } => want_side(items, index, side),
            Standing::Out if items.table[index].life.phase() == Phase::Live => {
                want_side(items, index, side);
            }
            Standing::Out if items.table[index].life.awaits_image() => _ = ask_side(items, index, side, sink),
            _ => {}
        }
    }
    loop {
        let Some(pair) = items.sources.pair_mut(id) else { return };
        let Some(&(_, index, serial, side)) = pair.asked.front().filter(|(at, ..)| now >= *at + timeout)
        else {
            break;
        };
        pair.asked.pop_front();
        if let Some(merge) = merge_of(items, index, serial)
            && merge.sides[side].standing == Standing::Asked
        {
            merge.sides[side].leave();
            want_side(items, index, side);
        }
    }
    for _ in 0..items.config.cleanups_per_turn {
        let Some(pair) = items.sources.pair_mut(id).filter(|pair| pair.asked.len() < asks_max) else {
            return;
        };
        let Some((index, serial, side)) = pair.joins.pop_front() else { return };
        let is_live = items.table.get(index).is_some_and(|item| item.life.phase() == Phase::Live);
        let Some(merge) = merge_of(items, index, serial) else { continue };
        merge.sides[side].is_in_row = false;
        let is_wanted = !matches!(merge.sides[side].standing, Standing::Joined | Standing::Asked);
        if is_live
            && is_wanted
            && ask_side(items, index, side, sink)
            && let Some(pair) = items.sources.pair_mut(id)
        {
            pair.images.remove(&(index, side));
            pair.asked.push_back((now, index, serial, side));
        }
    }
}

pub(super) fn merge_of(items: &mut WatchedItems, index: usize, serial: u64) -> Option<&mut Merge> {
    items.table.get_mut(index).filter(|item| item.serial == serial)?.hot.as_deref_mut()
}

/// When [`WatchedItems::check_sides`] is due next.
pub(super) fn next_side_check(items: &WatchedItems) -> Nanos {
    let services = items.sources.pairs_due.iter().filter_map(|id| items.sources.services.get(id));
    let pairs = services.filter_map(|service| service.hot.as_ref());
    let (timeout, asks_max) = (items.config.image_timeout, items.config.images_outstanding_max);
    pairs.map(|pair| pair.next_due(timeout, asks_max)).min().unwrap_or(Nanos::NEVER)
}

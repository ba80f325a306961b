//! Items of composed services: bound to a member's item, and moved to another member's when that is better.
//!
//! | what happens | what is done |
//! |---|---|
//! | a client asks for an item | it is bound to the first member in order of preference that may have it and is up |
//! | the member closes the item | the next one that is up is asked; after the last one the streams end with its reason |
//! | the member's service is lost or down | the streams move to the first one that is up; if there is none they wait |
//! | a member comes up | streams whose member is down move there at once |
//! | a preferred member has been up for long enough | its item is asked for, and the streams move when it is good |
//! | the member says that the item is suspect | another one's is asked for, and the streams move when it is good |
//!
//! Streams that move are sent the image of the other item, unasked and with "clear the cache", before its first update. If
//! that is not here yet, they are suspect until it comes. What is lost at once for many moves in the sweep over the member's
//! items ([`cleanups`](super::cleanups)); everything else in checks, so many items in a turn.

use std::sync::Arc;
use std::time::Duration;

use rdm::directory::Service as Definition;
use rwf::{DataState, DataType, State, StateCode, StatusMsg, StreamState};
use units::Nanos;

use super::audience::{Form, Group, OnSuspect, Taken};
use super::base::Watcher;
use super::client::Stream;
use super::client_table::Clients;
use super::composed::{Alias, Bound, ComposedItem};
use super::item::Item;
use super::items::WatchedItems;
use super::kept;
use super::ledger::Fate;
use super::life::Phase;
use super::moves::Moves;
use super::service::Service;
use super::sink::ServerSink;
use crate::key::{ItemKey, OwnedKey};

/// Times of checks are multiples of this, so that there are few of them.
const CHECK_STEP: Duration = Duration::from_millis(100);
/// Without a time after which items go back, one whose item is suspect is looked at elsewhere again after this.
const LOOKS_AGAIN: Duration = Duration::from_secs(10);

const MOVES: &str = "the item is taken from another member of the composed service";

/// What clients get of an item that no member can have.
const NO_MEMBER: State<'static> = State::new(StreamState::Closed, DataState::Suspect)
    .because(StateCode::NOT_FOUND, "no member of the composed service has items of this name and domain");

/// A service has changed: what is composed of it may have, too.
pub(super) fn on_member_changed(
    items: &mut WatchedItems,
    now: Nanos,
    id: u16,
    name: &str,
    sink: &mut impl ServerSink,
) {
    for at in 0..items.composed.services.len() {
        let composition = &mut items.composed.services[at];
        let is_meant = |member: usize| composition.config.members[member].service == name;
        let Some(member) = (0..composition.members.len()).find(|member| is_meant(*member)) else {
            continue;
        };
        let (is_up, fail_back) = (items.sources.is_up(id), composition.config.fail_back);
        let state = &mut composition.members[member];
        state.id = Some(id);
        if is_up && state.up_since.is_none() {
            state.up_since = Some(now);
            state.times_up += 1;
            items.composed.check_at(now);
            fail_back.iter().for_each(|delay| check_after(items, now, *delay));
        } else if !is_up {
            state.up_since = None;
        }
        update_composition(items, at, sink);
    }
}

/// What is composed of a service may have changed with it.
pub(super) fn tell_compositions(items: &mut WatchedItems, now: Nanos, id: u16, sink: &mut impl ServerSink) {
    let known = items.sources.services.get(&id).filter(|_| !items.composed.is_empty());
    if let Some(name) = known.map(|known| known.definition.info.name.clone()) {
        on_member_changed(items, now, id, &name, sink);
    }
}

/// All composed items are checked after some time.
fn check_after(items: &mut WatchedItems, now: Nanos, delay: Duration) {
    let step = CHECK_STEP.as_nanos() as u64;
    items.composed.check_at(Nanos((now + delay).0.next_multiple_of(step)));
}

/// Tells clients what has changed of a composed service. It is there from the moment on when the first member is.
fn update_composition(items: &mut WatchedItems, at: usize, sink: &mut impl ServerSink) {
    let composition = &items.composed.services[at];
    let services = &items.sources.services;
    let ids = || composition.members.iter().filter_map(|member| member.id);
    let members: Vec<&Definition> =
        ids().filter_map(|id| services.get(&id)).map(|service| &service.definition).collect();
    let (id, is_up) = (composition.id, ids().any(|id| items.sources.is_up(id)));
    let mut definition = composition.definition(&members, is_up);
    if members.is_empty() {
        // All are withdrawn: it is as it was, and down.
        let Some(known) = services.get(&id) else { return };
        definition = known.definition.clone();
        definition.state.up = false;
    }
    items.config.add_conflated(&mut definition);
    match items.sources.services.get_mut(&id) {
        Some(known) if known.definition == definition => {}
        Some(known) => {
            let before = std::mem::replace(&mut known.definition, definition);
            items.publish_service_changed(id, &before, sink);
        }
        None => {
            let account = items.ledger.open(&definition.info.name);
            items.add_service(id, Service::new(definition, account), sink);
        }
    }
}

/// The definition of a member's service, if it is announced.
fn known_member(items: &WatchedItems, service: usize, member: usize) -> Option<(u16, &Service)> {
    let id = items.composed.services[service].members[member].id?;
    let known = items.sources.services.get(&id).filter(|known| !known.is_withdrawn)?;
    Some((id, known))
}

fn is_member_up(items: &WatchedItems, service: usize, member: usize) -> bool {
    known_member(items, service, member).is_some_and(|(id, _)| items.sources.is_up(id))
}

/// Whether a member has items of a domain, as far as that is known.
fn may_have(items: &WatchedItems, service: usize, member: usize, key: ItemKey<'_>) -> bool {
    let known = known_member(items, service, member);
    known.is_none_or(|(_, known)| known.definition.info.capabilities.contains(&key.domain))
}

/// The first member that is meant, is up and may have an item, and has not closed it.
fn best_member(items: &WatchedItems, item: &ComposedItem, is_meant: impl Fn(usize) -> bool) -> Option<usize> {
    let composition = &items.composed.services[item.service];
    let has_refused =
        |member: usize| item.refused.get(&member) == Some(&composition.members[member].times_up);
    composition.candidates(&item.name, item.only).find(|&member| {
        is_meant(member)
            && !has_refused(member)
            && is_member_up(items, item.service, member)
            && may_have(items, item.service, member, item.alias.key.as_key())
    })
}

/// The key of an item at a member.
fn key_at(items: &WatchedItems, item: &ComposedItem, member: usize) -> Option<OwnedKey> {
    let (id, _) = known_member(items, item.service, member)?;
    Some(item.alias.key.as_key().renamed(id, &item.name).to_owned())
}

/// The place of an item at a member, with nothing of a sweep left for it. The composed item may be gone then.
fn item_at(
    items: &mut WatchedItems,
    alias: &Arc<Alias>,
    member: usize,
    sink: &mut impl ServerSink,
) -> Option<usize> {
    items.composed.item_of(alias)?;
    let key = key_at(items, &items.composed.table[alias.place], member)?;
    items.find_settled(key.as_key(), sink);
    Some(items.find_or_make(key.as_key()))
}

/// The composed item that clients know by a key, bound to a member's item; returns its alias and the key of that item.
///
/// # Errors
/// No member can have it.
pub(super) fn compose(
    items: &mut WatchedItems,
    key: ItemKey<'_>,
    sink: &mut impl ServerSink,
) -> Result<(Arc<Alias>, OwnedKey), State<'static>> {
    let bound = items.composed.find(key).map(|place| items.composed.table[place].bound);
    bound.iter().for_each(|bound| items.settle(bound.index, sink));
    if let Some(place) = items.composed.find(key) {
        return Ok(bound_item(items, place));
    }
    let Some(at) = items.composed.service_of(key.service) else { return Err(NO_MEMBER) };
    let composition = &items.composed.services[at];
    let (name, only) = composition.target(key.name);
    let candidates: Vec<usize> =
        composition.candidates(name, only).filter(|member| may_have(items, at, *member, key)).collect();
    if candidates.is_empty() {
        return Err(NO_MEMBER);
    }
    // One that is down comes back. While none of them is announced, the item waits where no instance is.
    let up = candidates.iter().find(|member| is_member_up(items, at, **member));
    let member =
        up.or_else(|| candidates.iter().find(|member| known_member(items, at, **member).is_some())).copied();
    let id = member.and_then(|member| known_member(items, at, member)).map(|(id, _)| id);
    let target = id.map_or(key, |id| key.renamed(id, name)).to_owned();
    let name = name.into();
    items.find_settled(target.as_key(), sink);
    let index = items.find_or_make(target.as_key());
    let bound = Bound { member, index, serial: items.table[index].serial };
    let place = items.composed.insert((at, key.to_owned()), (name, only), bound);
    items.counters.composed_items.set(items.composed.table.len() as u64);
    Ok((Arc::clone(&items.composed.table[place].alias), target))
}

/// The alias of a composed item, and the key of the member's item that it is bound to.
fn bound_item(items: &mut WatchedItems, place: usize) -> (Arc<Alias>, OwnedKey) {
    let item = &items.composed.table[place];
    let (alias, bound) = (Arc::clone(&item.alias), item.bound);
    let known = items.table.get(bound.index).filter(|known| known.serial == bound.serial);
    if let Some(known) = known {
        return (alias, known.key.clone());
    }
    // What is left of it is streams of clients that are gone: nobody was on the list of the item any more.
    let key = bound.member.and_then(|member| key_at(items, item, member));
    let key = key.unwrap_or_else(|| alias.key.clone());
    let index = items.find_or_make(key.as_key());
    let bound = Bound { index, serial: items.table[index].serial, ..bound };
    items.composed.table[place].bound = bound;
    (alias, key)
}

/// One more stream of a client watches a composed item.
pub(super) fn join_composed(items: &mut WatchedItems, alias: &Arc<Alias>) {
    items.composed.item_of(alias).into_iter().for_each(|item| item.streams += 1);
}

/// The key of an item of a composed service at the member that it is bound to, or would be; `None` if no member that may
/// have it is up.
pub(super) fn member_key(items: &WatchedItems, key: ItemKey<'_>) -> Option<OwnedKey> {
    if let Some(place) = items.composed.find(key) {
        let item = &items.composed.table[place];
        let member = item.bound.member.filter(|member| is_member_up(items, item.service, *member))?;
        return key_at(items, item, member);
    }
    let at = items.composed.service_of(key.service)?;
    let (name, only) = items.composed.services[at].target(key.name);
    let mut candidates = items.composed.services[at].candidates(name, only);
    let member =
        candidates.find(|member| is_member_up(items, at, *member) && may_have(items, at, *member, key))?;
    Some(key.renamed(known_member(items, at, member)?.0, name).to_owned())
}

fn note_refusal(items: &mut WatchedItems, alias: &Arc<Alias>, member: Option<usize>) {
    let Some(item) = items.composed.table.get_mut(alias.place) else { return };
    let Some(member) = member else { return };
    let times_up = items.composed.services[item.service].members[member].times_up;
    item.refused.insert(member, times_up);
    items.counters.composed_refusals.inc();
}

/// Whether streams can go on from an item.
fn is_good(items: &WatchedItems, index: usize) -> bool {
    let item = items.table.get(index).filter(|item| item.life.is_shown());
    item.is_some_and(|item| !item.is_suspect() && item.cached.is_current())
}

/// Whether the provider says that an item is suspect.
fn is_bad(items: &WatchedItems, index: usize) -> bool {
    let item = items.table.get(index).filter(|item| item.life.is_shown());
    item.is_some_and(|item| item.cached.state().data == DataState::Suspect)
}

/// After some time it is looked again whether there is a better member for an item.
fn look_again(items: &mut WatchedItems, now: Nanos, alias: &Arc<Alias>) {
    let Some(item) = items.composed.item_of(alias) else { return };
    let service = item.service;
    let delay = items.composed.services[service].config.fail_back.unwrap_or(LOOKS_AGAIN);
    check_after(items, now, delay.max(CHECK_STEP));
}

/// Checks items, as many as the turn's work allows.
pub(super) fn check_composed(items: &mut WatchedItems, now: Nanos, sink: &mut impl ServerSink) {
    if items.composed.is_empty() {
        return;
    }
    end_probes(items, now);
    while !items.composed.queue.is_empty()
        && !is_probing_enough(items)
        && items.cleanups.take_cleanup(1)
        && let Some(alias) = items.composed.queue.pop_front()
    {
        items.composed.item_of(&alias).into_iter().for_each(|item| item.is_queued = false);
        check_composed_item(items, now, &alias, sink);
    }
    let due = items.composed.checks.partition_point(|at| *at <= now);
    if due > 0 && items.composed.next.is_none() {
        items.composed.checks.drain(..due);
        items.composed.next = Some(0);
    }
    while let Some(place) = items.composed.next
        && !is_probing_enough(items)
        && items.cleanups.take_cleanup(1)
    {
        items.composed.next = (place < items.composed.table.end()).then_some(place + 1);
        if let Some(alias) = items.composed.table.get(place).map(|item| Arc::clone(&item.alias)) {
            check_composed_item(items, now, &alias, sink);
        }
    }
}

/// When [`WatchedItems::check_composed`] is due next.
pub(super) fn next_composed_check(items: &WatchedItems) -> Nanos {
    let composed = &items.composed;
    if !is_probing_enough(items) && (composed.next.is_some() || !composed.queue.is_empty()) {
        return items.cleanups.granted_at;
    }
    let check = composed.checks.first().filter(|_| composed.next.is_none()).copied();
    let probe = composed.probes.front().map(|(until, ..)| *until);
    check.unwrap_or(Nanos::NEVER).min(probe.unwrap_or(Nanos::NEVER))
}

/// Whether no more items may be looked at until something has come of those that are.
fn is_probing_enough(items: &WatchedItems) -> bool {
    items.composed.probing.len() >= items.config.images_outstanding_max
}

/// Gives up looking at items that have not come in time.
fn end_probes(items: &mut WatchedItems, now: Nanos) {
    while let Some((until, alias, probe)) = items.composed.probes.front() {
        let (until, alias, probe) = (*until, Arc::clone(alias), *probe);
        let is_open = items.composed.item_of(&alias).is_some_and(|item| item.probe == Some(probe));
        if is_open && now < until {
            break;
        }
        items.composed.probes.pop_front();
        if is_open {
            items.composed.item_of(&alias).into_iter().for_each(|item| item.probe = None);
            look_again(items, now, &alias);
        }
        if let Some(waiting) = items.composed.probing.get_mut(&probe.index) {
            waiting.retain(|known| known != &alias);
            if waiting.is_empty() {
                items.composed.probing.remove(&probe.index);
            }
        }
        if items.table.get(probe.index).is_some_and(|item| item.serial == probe.serial) {
            items.start_linger(now, probe.index);
        }
    }
}

/// Moves the streams of an item if there is a better member, or looks at that one's item.
fn check_composed_item(items: &mut WatchedItems, now: Nanos, alias: &Arc<Alias>, sink: &mut impl ServerSink) {
    let Some(bound) = items.composed.item_of(alias).map(|item| item.bound) else { return };
    items.settle(bound.index, sink);
    let Some(item) = items.composed.item_of(alias).filter(|item| item.bound == bound) else { return };
    let (service, is_probing) = (item.service, item.probe.is_some());
    let item = &items.composed.table[alias.place];
    let present = bound.member.filter(|member| is_member_up(items, service, *member));
    let Some(present) = present else {
        if let Some(member) = best_member(items, item, |member| Some(member) != bound.member) {
            move_composed(items, now, alias, member, true, sink);
        }
        return;
    };
    if is_probing {
        return;
    }
    let better = if is_bad(items, bound.index) {
        best_member(items, item, |member| member != present)
    } else {
        let composition = &items.composed.services[service];
        best_member(items, item, |member| member < present && composition.is_stable(member, now))
    };
    if let Some(member) = better {
        probe_composed(items, now, alias, member, sink);
    }
}

/// Looks at the item of another member: the streams move there if it is good, at once or when it is here.
fn probe_composed(
    items: &mut WatchedItems,
    now: Nanos,
    alias: &Arc<Alias>,
    member: usize,
    sink: &mut impl ServerSink,
) {
    let Some(index) = item_at(items, alias, member, sink) else { return };
    if is_good(items, index) {
        return move_composed(items, now, alias, member, false, sink);
    }
    if items.table[index].life.is_shown() {
        return look_again(items, now, alias);
    }
    let probe = Bound { member: Some(member), index, serial: items.table[index].serial };
    let Some(item) = items.composed.item_of(alias) else { return };
    item.probe = Some(probe);
    items.composed.probing.entry(index).or_default().push(Arc::clone(alias));
    let until = now + items.config.image_timeout * 2;
    items.composed.probes.push_back((until, Arc::clone(alias), probe));
    items.table[index].lingers_until = None;
    if items.table[index].life.phase() == Phase::Idle {
        items.request(index);
    }
}

/// Moves the streams of an item to another member's. They get its image; until it is here they are suspect, which they
/// know already if `is_told`.
fn move_composed(
    items: &mut WatchedItems,
    now: Nanos,
    alias: &Arc<Alias>,
    member: usize,
    is_told: bool,
    sink: &mut impl ServerSink,
) {
    let Some(index) = item_at(items, alias, member, sink) else { return };
    let bound = Bound { member: Some(member), index, serial: items.table[index].serial };
    let Some(item) = items.composed.item_of(alias) else { return };
    let from = std::mem::replace(&mut item.bound, bound);
    item.probe = None;
    let (service, streams) = (item.service, item.streams);
    items.cleanups.take_cleanup(streams);
    if from.member.is_some() {
        items.counters.composed_switches.inc();
    }
    let composition = &items.composed.services[service];
    if member > 0
        && let Some(delay) = composition.config.fail_back
    {
        check_after(items, now, delay);
    }
    let is_there = |item: &&mut Item| item.serial == from.serial;
    let Some(left) = items.table.get_mut(from.index).filter(is_there) else {
        return items.start_linger(now, index);
    };
    let taken = left.audience.take_alias(alias);
    let taken = rebind(items, taken, from.index, index);
    items.settle_rest(from.index);
    items.table[from.index].forget_changes();
    items.start_linger(now, from.index);
    attach(items, now, index, taken, is_told, sink);
}

/// Streams that were on the list of an item are streams of another one. Those of clients that are gone are left out.
fn rebind(items: &mut WatchedItems, mut taken: Taken, from: usize, to: usize) -> Taken {
    let last = items.table[from].updates;
    let mut owed = 0;
    for group in &mut taken.active {
        group.watchers.retain(|watcher| {
            let lacked = items.clients.settle_change(*watcher, last).updates;
            owed += lacked + items.clients.settle_due(*watcher, last);
            rebind_one(&mut items.clients, &items.table[to], *watcher, from, to)
        });
    }
    for group in &mut taken.paused {
        group.watchers.retain(|watcher| rebind_one(&mut items.clients, &items.table[to], *watcher, from, to));
    }
    taken
        .newcomers
        .retain(|newcomer| rebind_one(&mut items.clients, &items.table[to], newcomer.watcher, from, to));
    items.settle_owed(from, owed, Fate::InImage);
    taken
}

/// Puts streams on the list of an item.
fn attach(
    items: &mut WatchedItems,
    now: Nanos,
    index: usize,
    taken: Taken,
    is_told: bool,
    sink: &mut impl ServerSink,
) {
    items.table[index].lingers_until = None;
    let is_live = items.table[index].life.is_shown();
    let is_good = is_good(items, index);
    let mut closing = Vec::new();
    for Group { form, mut watchers } in taken.active {
        if !is_good && form.on_suspect == OnSuspect::Close {
            closing.append(&mut watchers);
            continue;
        }
        watchers.iter().for_each(|watcher| items.table[index].audience.add(*watcher, &form, false));
        if is_live {
            send_image_later_if_slow(items, now, index, &form, watchers, sink);
        } else if !is_told {
            report_move(items, index, &watchers, sink);
        }
    }
    for Group { form, mut watchers } in taken.paused {
        if !is_good && form.on_suspect == OnSuspect::Close {
            closing.append(&mut watchers);
            continue;
        }
        watchers.iter().for_each(|watcher| items.table[index].audience.add(*watcher, &form, true));
        if !is_live && !is_told {
            report_move(items, index, &watchers, sink);
        }
    }
    for newcomer in taken.newcomers {
        let item = &mut items.table[index];
        if is_live && item.cached.has_image() {
            items.admit_newcomer(now, index, newcomer, sink);
        } else {
            item.audience.await_image(newcomer);
            if is_live {
                kept::recall(items, index, &[], sink);
            }
        }
    }
    items.close_streams(now, index, closing, (StateCode::NONE, MOVES), sink);
    if items.table[index].life.phase() == Phase::Idle {
        items.request(index);
    }
    items.start_linger(now, index);
}

/// Sends streams that are to get updates the image, unasked; those of clients that lag get it when they have room.
fn send_image_later_if_slow(
    items: &mut WatchedItems,
    now: Nanos,
    index: usize,
    form: &Arc<Form>,
    watchers: Vec<Watcher>,
    sink: &mut impl ServerSink,
) {
    let (late, ready): (Vec<Watcher>, Vec<Watcher>) =
        watchers.into_iter().partition(|watcher| sink.lags(watcher.client));
    let item = &mut items.table[index];
    for watcher in late {
        if item.audience.defer_one(watcher, form) {
            items.clients.begin_due(watcher, item.updates);
            items.clients.note_due(watcher);
        }
    }
    ready.iter().for_each(|watcher| items.clients.begin_interval(now, *watcher, form.interval_ms));
    if !ready.is_empty() {
        items.send_image(index, form, &ready, false, sink);
    }
}

/// Tells streams that they are suspect until an image comes.
fn report_move(items: &mut WatchedItems, index: usize, watchers: &[Watcher], sink: &mut impl ServerSink) {
    let state = State::new(StreamState::Open, DataState::Suspect).because(StateCode::NONE, MOVES);
    let domain = items.table[index].key.domain;
    let msg = StatusMsg { state: Some(state), ..StatusMsg::new(domain, 0, DataType::NO_DATA) };
    items.counters.statuses_out.add(watchers.len() as u64);
    sink.fan_out(watchers, items.encoding.encode(|w| msg.encode(w)));
}

/// A client's stream is one of another item from now on; false if the client is gone.
fn rebind_one(clients: &mut Clients, item: &Item, watcher: Watcher, from: usize, to: usize) -> bool {
    let Some(client) = clients.get_mut(watcher.client) else { return false };
    let stream = client.streams.get_mut(&watcher.stream_id).filter(|stream| stream.index() == from);
    stream.map(|stream| *stream = Stream::new(Arc::clone(&stream.form), to, item)).is_some()
}

impl Moves for WatchedItems {
    fn rescue_composed(&mut self, now: Nanos, index: usize, sink: &mut impl ServerSink) {
        if self.composed.is_empty() {
            return;
        }
        for alias in self.table[index].audience.aliases() {
            let Some(item) = self.composed.table.get(alias.place) else { continue };
            let present = item.bound.member;
            if let Some(member) = best_member(self, item, |member| Some(member) != present) {
                move_composed(self, now, &alias, member, false, sink);
            }
        }
    }

    fn refuse_composed(&mut self, now: Nanos, index: usize, sink: &mut impl ServerSink) {
        if self.composed.is_empty() {
            return;
        }
        for alias in self.composed.probing.remove(&index).unwrap_or_default() {
            let probe = self.composed.item_of(&alias).and_then(|item| item.probe.take());
            probe.iter().for_each(|probe| note_refusal(self, &alias, probe.member));
        }
        let is_told = self.table[index].cached.state().data == DataState::Suspect;
        for alias in self.table[index].audience.aliases() {
            let Some(item) = self.composed.item_of(&alias) else { continue };
            let present = item.bound.member;
            note_refusal(self, &alias, present);
            let Some(item) = self.composed.table.get(alias.place) else { continue };
            if let Some(member) = best_member(self, item, |member| Some(member) != present) {
                move_composed(self, now, &alias, member, is_told, sink);
            }
        }
    }

    fn look_composed(&mut self, now: Nanos, index: usize, sink: &mut impl ServerSink) {
        if self.composed.is_empty() {
            return;
        }
        if let Some(waiting) = self.composed.probing.remove(&index) {
            let is_good = is_good(self, index);
            for alias in waiting {
                let Some(probe) = self.composed.item_of(&alias).and_then(|item| item.probe.take()) else {
                    continue;
                };
                match probe.member.filter(|_| is_good) {
                    Some(member) => move_composed(self, now, &alias, member, false, sink),
                    None => look_again(self, now, &alias),
                }
            }
            self.start_linger(now, index);
        }
        if is_bad(self, index) {
            for alias in self.table[index].audience.aliases() {
                self.composed.enqueue(&alias);
            }
        }
    }
}

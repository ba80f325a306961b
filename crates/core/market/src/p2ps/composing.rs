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

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use rdm::directory::Service as Definition;
use rwf::{DataState, DataType, Key, State, StateCode, StatusMsg, StreamState};
use units::Nanos;

use super::audience::{Form, Group, OnSuspect, Taken};
use super::base::Watcher;
use super::client::Stream;
use super::composed::{Alias, Bound, ComposedItem};
use super::items::WatchedItems;
use super::kept;
use super::ledger::Fate;
use super::life::Phase;
use super::service::Service;
use super::sink::ServerSink;
use crate::key::{ItemKey, OwnedKey};
use crate::places::Places;

/// Times of checks are multiples of this, so that there are few of them.
const CHECK_STEP: Duration = Duration::from_millis(100);
/// Without a time after which items go back, one whose item is suspect is looked at elsewhere again after this.
const LOOKS_AGAIN: Duration = Duration::from_secs(10);

const MOVES: &str = "the item is taken from another member of the composed service";

/// What clients get of an item that no member can have.
const NO_MEMBER: State<'static> = State::new(StreamState::Closed, DataState::Suspect)
    .because(StateCode::NOT_FOUND, "no member of the composed service has items of this name and domain");

/// Services.
impl WatchedItems {
    /// A service has changed: what is composed of it may have, too.
    pub(super) fn on_member_changed(&mut self, now: Nanos, id: u16, name: &str, sink: &mut impl ServerSink) {
        for at in 0..self.composed.services.len() {
            let composition = &mut self.composed.services[at];
            let is_meant = |member: usize| composition.config.members[member].service == name;
            let Some(member) = (0..composition.members.len()).find(|member| is_meant(*member)) else {
                continue;
            };
            let (is_up, fail_back) = (self.sources.is_up(id), composition.config.fail_back);
            let state = &mut composition.members[member];
            state.id = Some(id);
            if is_up && state.up_since.is_none() {
                state.up_since = Some(now);
                state.times_up += 1;
                self.composed.check_at(now);
                fail_back.iter().for_each(|delay| self.check_after(now, *delay));
            } else if !is_up {
                state.up_since = None;
            }
            self.update_composition(at, sink);
        }
    }

    /// All composed items are checked after some time.
    fn check_after(&mut self, now: Nanos, delay: Duration) {
        let step = CHECK_STEP.as_nanos() as u64;
        self.composed.check_at(Nanos((now + delay).0.next_multiple_of(step)));
    }

    /// Tells clients what has changed of a composed service. It is there from the moment on when the first member is.
    fn update_composition(&mut self, at: usize, sink: &mut impl ServerSink) {
        let composition = &self.composed.services[at];
        let services = &self.sources.services;
        let ids = || composition.members.iter().filter_map(|member| member.id);
        let members: Vec<&Definition> =
            ids().filter_map(|id| services.get(&id)).map(|service| &service.definition).collect();
        let (id, is_up) = (composition.id, ids().any(|id| self.sources.is_up(id)));
        let mut definition = composition.definition(&members, is_up);
        if members.is_empty() {
            // All are withdrawn: it is as it was, and down.
            let Some(known) = services.get(&id) else { return };
            definition = known.definition.clone();
            definition.state.up = false;
        }
        self.config.add_conflated(&mut definition);
        match self.sources.services.get_mut(&id) {
            Some(known) if known.definition == definition => {}
            Some(known) => {
                let before = std::mem::replace(&mut known.definition, definition);
                self.publish_service_changed(id, &before, sink);
            }
            None => {
                let service = Service {
                    account: self.ledger.open(&definition.info.name),
                    definition,
                    active: None,
                    sources: BTreeSet::new(),
                    items: Places::default(),
                    recheck_at: Nanos::NEVER,
                    is_withdrawn: false,
                    sweeps: VecDeque::new(),
                    hot: None,
                };
                self.sources.services.insert(id, service);
                self.counters.services.set(self.sources.services.len() as u64);
                self.publish_service_added(id, sink);
            }
        }
    }
}

/// Binding.
impl WatchedItems {
    /// The definition of a member's service, if it is announced.
    fn member(&self, service: usize, member: usize) -> Option<(u16, &Service)> {
        let id = self.composed.services[service].members[member].id?;
        let known = self.sources.services.get(&id).filter(|known| !known.is_withdrawn)?;
        Some((id, known))
    }

    fn is_member_up(&self, service: usize, member: usize) -> bool {
        self.member(service, member).is_some_and(|(id, _)| self.sources.is_up(id))
    }

    /// Whether a member has items of a domain, as far as that is known.
    fn may_have(&self, service: usize, member: usize, key: ItemKey<'_>) -> bool {
        let known = self.member(service, member);
        known.is_none_or(|(_, known)| known.definition.info.capabilities.contains(&key.domain))
    }

    /// The first member that is meant, is up and may have an item, and has not closed it.
    fn best_member(&self, item: &ComposedItem, is_meant: impl Fn(usize) -> bool) -> Option<usize> {
        let composition = &self.composed.services[item.service];
        let has_refused =
            |member: usize| item.refused.get(&member) == Some(&composition.members[member].times_up);
        composition.candidates(&item.name, item.only).find(|&member| {
            is_meant(member)
                && !has_refused(member)
                && self.is_member_up(item.service, member)
                && self.may_have(item.service, member, item.alias.key.as_key())
        })
    }

    /// The key of an item at a member.
    fn key_at(&self, item: &ComposedItem, member: usize) -> Option<OwnedKey> {
        let (id, _) = self.member(item.service, member)?;
        Some(item.alias.key.as_key().renamed(id, &item.name).to_owned())
    }

    /// The place of an item at a member, with nothing of a sweep left for it. The composed item may be gone then.
    fn item_at(&mut self, alias: &Arc<Alias>, member: usize, sink: &mut impl ServerSink) -> Option<usize> {
        self.composed.item_of(alias)?;
        let key = self.key_at(&self.composed.table[alias.place], member)?;
        self.find_settled(key.as_key(), sink);
        Some(self.find_or_make(key.as_key()))
    }

    /// The composed item that clients know by a key, bound to a member's item; returns its alias and the key of that item.
    ///
    /// # Errors
    /// No member can have it.
    pub(super) fn compose(
        &mut self,
        key: ItemKey<'_>,
        sink: &mut impl ServerSink,
    ) -> Result<(Arc<Alias>, OwnedKey), State<'static>> {
        let bound = self.composed.find(key).map(|place| self.composed.table[place].bound);
        bound.iter().for_each(|bound| self.settle(bound.index, sink));
        if let Some(place) = self.composed.find(key) {
            return Ok(self.bound_item(place));
        }
        let Some(at) = self.composed.service_of(key.service) else { return Err(NO_MEMBER) };
        let composition = &self.composed.services[at];
        let (name, only) = composition.target(key.name);
        let candidates: Vec<usize> =
            composition.candidates(name, only).filter(|member| self.may_have(at, *member, key)).collect();
        if candidates.is_empty() {
            return Err(NO_MEMBER);
        }
        // One that is down comes back. While none of them is announced, the item waits where no instance is.
        let up = candidates.iter().find(|member| self.is_member_up(at, **member));
        let member =
            up.or_else(|| candidates.iter().find(|member| self.member(at, **member).is_some())).copied();
        let id = member.and_then(|member| self.member(at, member)).map(|(id, _)| id);
        let target = id.map_or(key, |id| key.renamed(id, name)).to_owned();
        let name = name.into();
        self.find_settled(target.as_key(), sink);
        let index = self.find_or_make(target.as_key());
        let bound = Bound { member, index, serial: self.table[index].serial };
        let place = self.composed.insert((at, key.to_owned()), (name, only), bound);
        self.counters.composed_items.set(self.composed.table.len() as u64);
        Ok((Arc::clone(&self.composed.table[place].alias), target))
    }

    /// The alias of a composed item, and the key of the member's item that it is bound to.
    fn bound_item(&mut self, place: usize) -> (Arc<Alias>, OwnedKey) {
        let item = &self.composed.table[place];
        let (alias, bound) = (Arc::clone(&item.alias), item.bound);
        let known = self.table.get(bound.index).filter(|known| known.serial == bound.serial);
        if let Some(known) = known {
            return (alias, known.key.clone());
        }
        // What is left of it is streams of clients that are gone: nobody was on the list of the item any more.
        let key = bound.member.and_then(|member| self.key_at(item, member));
        let key = key.unwrap_or_else(|| alias.key.clone());
        let index = self.find_or_make(key.as_key());
        let bound = Bound { index, serial: self.table[index].serial, ..bound };
        self.composed.table[place].bound = bound;
        (alias, key)
    }

    /// One more stream of a client watches a composed item.
    pub(super) fn join_composed(&mut self, alias: &Arc<Alias>) {
        self.composed.item_of(alias).into_iter().for_each(|item| item.streams += 1);
    }

    /// A stream in this form is closed.
    pub(super) fn leave_composed(&mut self, form: &Form) {
        let Some(alias) = &form.alias else { return };
        let Some(item) = self.composed.item_of(alias) else { return };
        item.streams = item.streams.saturating_sub(1);
        if item.streams == 0 {
            self.composed.remove(alias.place);
            self.counters.composed_items.set(self.composed.table.len() as u64);
        }
    }

    /// The key of an item of a composed service at the member that it is bound to, or would be; `None` if no member that may
    /// have it is up.
    pub(super) fn member_key(&self, key: ItemKey<'_>) -> Option<OwnedKey> {
        if let Some(place) = self.composed.find(key) {
            let item = &self.composed.table[place];
            let member = item.bound.member.filter(|member| self.is_member_up(item.service, *member))?;
            return self.key_at(item, member);
        }
        let at = self.composed.service_of(key.service)?;
        let (name, only) = self.composed.services[at].target(key.name);
        let mut candidates = self.composed.services[at].candidates(name, only);
        let member =
            candidates.find(|member| self.is_member_up(at, *member) && self.may_have(at, *member, key))?;
        Some(key.renamed(self.member(at, member)?.0, name).to_owned())
    }
}

/// Events.
impl WatchedItems {
    /// The service of an item is lost: streams of composed services move to other members that are up.
    pub(super) fn rescue_composed(&mut self, now: Nanos, index: usize, sink: &mut impl ServerSink) {
        if self.composed.is_empty() {
            return;
        }
        for alias in self.table[index].audience.aliases() {
            let Some(item) = self.composed.table.get(alias.place) else { continue };
            let present = item.bound.member;
            if let Some(member) = self.best_member(item, |member| Some(member) != present) {
                self.move_composed(now, &alias, member, false, sink);
            }
        }
    }

    /// A member has closed an item: streams of composed services move to the next one that is up.
    pub(super) fn refuse_composed(&mut self, now: Nanos, index: usize, sink: &mut impl ServerSink) {
        if self.composed.is_empty() {
            return;
        }
        for alias in self.composed.probing.remove(&index).unwrap_or_default() {
            let probe = self.composed.item_of(&alias).and_then(|item| item.probe.take());
            probe.iter().for_each(|probe| self.note_refusal(&alias, probe.member));
        }
        let is_told = self.table[index].cached.state().data == DataState::Suspect;
        for alias in self.table[index].audience.aliases() {
            let Some(item) = self.composed.item_of(&alias) else { continue };
            let present = item.bound.member;
            self.note_refusal(&alias, present);
            let Some(item) = self.composed.table.get(alias.place) else { continue };
            if let Some(member) = self.best_member(item, |member| Some(member) != present) {
                self.move_composed(now, &alias, member, is_told, sink);
            }
        }
    }

    fn note_refusal(&mut self, alias: &Arc<Alias>, member: Option<usize>) {
        let Some(item) = self.composed.table.get_mut(alias.place) else { return };
        let Some(member) = member else { return };
        let times_up = self.composed.services[item.service].members[member].times_up;
        item.refused.insert(member, times_up);
        self.counters.composed_refusals.inc();
    }

    /// The state of an item has changed, or an image of it has come.
    pub(super) fn look_composed(&mut self, now: Nanos, index: usize, sink: &mut impl ServerSink) {
        if self.composed.is_empty() {
            return;
        }
        if let Some(waiting) = self.composed.probing.remove(&index) {
            let is_good = self.is_good(index);
            for alias in waiting {
                let Some(probe) = self.composed.item_of(&alias).and_then(|item| item.probe.take()) else {
                    continue;
                };
                match probe.member.filter(|_| is_good) {
                    Some(member) => self.move_composed(now, &alias, member, false, sink),
                    None => self.look_again(now, &alias),
                }
            }
            self.start_linger(now, index);
        }
        if self.is_bad(index) {
            for alias in self.table[index].audience.aliases() {
                self.composed.enqueue(&alias);
            }
        }
    }

    /// Whether streams can go on from an item.
    fn is_good(&self, index: usize) -> bool {
        let item = self.table.get(index).filter(|item| item.life.phase() == Phase::Live);
        item.is_some_and(|item| !item.is_suspect() && item.cached.is_current())
    }

    /// Whether the provider says that an item is suspect.
    fn is_bad(&self, index: usize) -> bool {
        let item = self.table.get(index).filter(|item| item.life.phase() == Phase::Live);
        item.is_some_and(|item| item.cached.state().data == DataState::Suspect)
    }

    /// After some time it is looked again whether there is a better member for an item.
    fn look_again(&mut self, now: Nanos, alias: &Arc<Alias>) {
        let Some(item) = self.composed.item_of(alias) else { return };
        let service = item.service;
        let delay = self.composed.services[service].config.fail_back.unwrap_or(LOOKS_AGAIN);
        self.check_after(now, delay.max(CHECK_STEP));
    }
}

/// Checks.
impl WatchedItems {
    /// Checks items, as many as the turn's work allows.
    pub(super) fn check_composed(&mut self, now: Nanos, sink: &mut impl ServerSink) {
        if self.composed.is_empty() {
            return;
        }
        self.end_probes(now);
        while !self.composed.queue.is_empty()
            && !self.is_probing_enough()
            && self.cleanups.take_cleanup(1)
            && let Some(alias) = self.composed.queue.pop_front()
        {
            self.composed.item_of(&alias).into_iter().for_each(|item| item.is_queued = false);
            self.check_composed_item(now, &alias, sink);
        }
        let due = self.composed.checks.partition_point(|at| *at <= now);
        if due > 0 && self.composed.next.is_none() {
            self.composed.checks.drain(..due);
            self.composed.next = Some(0);
        }
        while let Some(place) = self.composed.next
            && !self.is_probing_enough()
            && self.cleanups.take_cleanup(1)
        {
            self.composed.next = (place < self.composed.table.end()).then_some(place + 1);
            if let Some(alias) = self.composed.table.get(place).map(|item| Arc::clone(&item.alias)) {
                self.check_composed_item(now, &alias, sink);
            }
        }
    }

    /// When [`WatchedItems::check_composed`] is due next.
    pub(super) fn next_composed_check(&self) -> Nanos {
        let composed = &self.composed;
        if !self.is_probing_enough() && (composed.next.is_some() || !composed.queue.is_empty()) {
            return self.cleanups.granted_at;
        }
        let check = composed.checks.first().filter(|_| composed.next.is_none()).copied();
        let probe = composed.probes.front().map(|(until, ..)| *until);
        check.unwrap_or(Nanos::NEVER).min(probe.unwrap_or(Nanos::NEVER))
    }

    /// Whether no more items may be looked at until something has come of those that are.
    fn is_probing_enough(&self) -> bool {
        self.composed.probing.len() >= self.config.images_outstanding_max
    }

    /// Gives up looking at items that have not come in time.
    fn end_probes(&mut self, now: Nanos) {
        while let Some((until, alias, probe)) = self.composed.probes.front() {
            let (until, alias, probe) = (*until, Arc::clone(alias), *probe);
            let is_open = self.composed.item_of(&alias).is_some_and(|item| item.probe == Some(probe));
            if is_open && now < until {
                break;
            }
            self.composed.probes.pop_front();
            if is_open {
                self.composed.item_of(&alias).into_iter().for_each(|item| item.probe = None);
                self.look_again(now, &alias);
            }
            if let Some(waiting) = self.composed.probing.get_mut(&probe.index) {
                waiting.retain(|known| known != &alias);
                if waiting.is_empty() {
                    self.composed.probing.remove(&probe.index);
                }
            }
            if self.table.get(probe.index).is_some_and(|item| item.serial == probe.serial) {
                self.start_linger(now, probe.index);
            }
        }
    }

    /// Moves the streams of an item if there is a better member, or looks at that one's item.
    fn check_composed_item(&mut self, now: Nanos, alias: &Arc<Alias>, sink: &mut impl ServerSink) {
        let Some(bound) = self.composed.item_of(alias).map(|item| item.bound) else { return };
        self.settle(bound.index, sink);
        let Some(item) = self.composed.item_of(alias).filter(|item| item.bound == bound) else { return };
        let (service, is_probing) = (item.service, item.probe.is_some());
        let item = &self.composed.table[alias.place];
        let present = bound.member.filter(|member| self.is_member_up(service, *member));
        let Some(present) = present else {
            if let Some(member) = self.best_member(item, |member| Some(member) != bound.member) {
                self.move_composed(now, alias, member, true, sink);
            }
            return;
        };
        if is_probing {
            return;
        }
        let better = if self.is_bad(bound.index) {
            self.best_member(item, |member| member != present)
        } else {
            let composition = &self.composed.services[service];
            self.best_member(item, |member| member < present && composition.is_stable(member, now))
        };
        if let Some(member) = better {
            self.probe_composed(now, alias, member, sink);
        }
    }

    /// Looks at the item of another member: the streams move there if it is good, at once or when it is here.
    fn probe_composed(&mut self, now: Nanos, alias: &Arc<Alias>, member: usize, sink: &mut impl ServerSink) {
        let Some(index) = self.item_at(alias, member, sink) else { return };
        if self.is_good(index) {
            return self.move_composed(now, alias, member, false, sink);
        }
        if self.table[index].life.phase() == Phase::Live {
            return self.look_again(now, alias);
        }
        let probe = Bound { member: Some(member), index, serial: self.table[index].serial };
        let Some(item) = self.composed.item_of(alias) else { return };
        item.probe = Some(probe);
        self.composed.probing.entry(index).or_default().push(Arc::clone(alias));
        let until = now + self.config.image_timeout * 2;
        self.composed.probes.push_back((until, Arc::clone(alias), probe));
        self.table[index].lingers_until = None;
        if self.table[index].life.phase() == Phase::Idle {
            self.request(index);
        }
    }
}

/// Moves.
impl WatchedItems {
    /// Moves the streams of an item to another member's. They get its image; until it is here they are suspect, which they
    /// know already if `is_told`.
    fn move_composed(
        &mut self,
        now: Nanos,
        alias: &Arc<Alias>,
        member: usize,
        is_told: bool,
        sink: &mut impl ServerSink,
    ) {
        let Some(index) = self.item_at(alias, member, sink) else { return };
        let bound = Bound { member: Some(member), index, serial: self.table[index].serial };
        let Some(item) = self.composed.item_of(alias) else { return };
        let from = std::mem::replace(&mut item.bound, bound);
        item.probe = None;
        let (service, streams) = (item.service, item.streams);
        self.cleanups.take_cleanup(streams);
        if from.member.is_some() {
            self.counters.composed_switches.inc();
        }
        let composition = &self.composed.services[service];
        if member > 0
            && let Some(delay) = composition.config.fail_back
        {
            self.check_after(now, delay);
        }
        let is_there = |item: &&mut super::item::Item| item.serial == from.serial;
        let Some(left) = self.table.get_mut(from.index).filter(is_there) else {
            return self.start_linger(now, index);
        };
        let taken = left.audience.take_alias(alias);
        let taken = self.rebind(taken, from.index, index);
        self.settle_rest(from.index);
        self.table[from.index].forget_changes();
        self.start_linger(now, from.index);
        self.attach(now, index, taken, is_told, sink);
    }

    /// Streams that were on the list of an item are streams of another one. Those of clients that are gone are left out.
    fn rebind(&mut self, mut taken: Taken, from: usize, to: usize) -> Taken {
        let last = self.table[from].updates;
        let mut owed = 0;
        for group in &mut taken.active {
            group.watchers.retain(|watcher| {
                let lacked = self.clients.settle_change(*watcher, last).updates;
                owed += lacked + self.clients.settle_due(*watcher, last);
                rebind_one(&mut self.clients, &self.table[to], *watcher, from, to)
            });
        }
        for group in &mut taken.paused {
            group
                .watchers
                .retain(|watcher| rebind_one(&mut self.clients, &self.table[to], *watcher, from, to));
        }
        taken
            .newcomers
            .retain(|newcomer| rebind_one(&mut self.clients, &self.table[to], newcomer.watcher, from, to));
        self.settle_owed(from, owed, Fate::InImage);
        taken
    }

    /// Puts streams on the list of an item.
    fn attach(&mut self, now: Nanos, index: usize, taken: Taken, is_told: bool, sink: &mut impl ServerSink) {
        self.table[index].lingers_until = None;
        let is_live = self.table[index].life.phase() == Phase::Live;
        let is_good = self.is_good(index);
        let mut closing = Vec::new();
        for Group { form, mut watchers } in taken.active {
            if !is_good && form.on_suspect == OnSuspect::Close {
                closing.append(&mut watchers);
                continue;
            }
            watchers.iter().for_each(|watcher| self.table[index].audience.add(*watcher, &form, false));
            if is_live {
                self.send_image_later_if_slow(now, index, &form, watchers, sink);
            } else if !is_told {
                self.report_move(index, &watchers, sink);
            }
        }
        for Group { form, mut watchers } in taken.paused {
            if !is_good && form.on_suspect == OnSuspect::Close {
                closing.append(&mut watchers);
                continue;
            }
            watchers.iter().for_each(|watcher| self.table[index].audience.add(*watcher, &form, true));
            if !is_live && !is_told {
                self.report_move(index, &watchers, sink);
            }
        }
        for newcomer in taken.newcomers {
            let item = &mut self.table[index];
            if is_live && item.cached.has_image() {
                self.admit_newcomer(now, index, newcomer, sink);
            } else {
                item.audience.await_image(newcomer);
                if is_live {
                    kept::recall(self, index, &[], sink);
                }
            }
        }
        self.close_streams(now, index, closing, (StateCode::NONE, MOVES), sink);
        if self.table[index].life.phase() == Phase::Idle {
            self.request(index);
        }
        self.start_linger(now, index);
    }

    /// Sends streams that are to get updates the image, unasked; those of clients that lag get it when they have room.
    fn send_image_later_if_slow(
        &mut self,
        now: Nanos,
        index: usize,
        form: &Arc<Form>,
        watchers: Vec<Watcher>,
        sink: &mut impl ServerSink,
    ) {
        let (late, ready): (Vec<Watcher>, Vec<Watcher>) =
            watchers.into_iter().partition(|watcher| sink.lags(watcher.client));
        let item = &mut self.table[index];
        for watcher in late {
            if item.audience.defer_one(watcher, form) {
                self.clients.begin_due(watcher, item.updates);
                self.clients.note_due(watcher);
            }
        }
        ready.iter().for_each(|watcher| self.clients.begin_interval(now, *watcher, form.interval_ms));
        if !ready.is_empty() {
            self.send_image(index, form, &ready, false, sink);
        }
    }

    /// Tells streams that they are suspect until an image comes.
    fn report_move(&mut self, index: usize, watchers: &[Watcher], sink: &mut impl ServerSink) {
        let state = State::new(StreamState::Open, DataState::Suspect).because(StateCode::NONE, MOVES);
        let domain = self.table[index].key.domain;
        let msg = StatusMsg { state: Some(state), ..StatusMsg::new(domain, 0, DataType::NO_DATA) };
        self.counters.statuses_out.add(watchers.len() as u64);
        sink.fan_out(watchers, self.encoding.encode(|w| msg.encode(w)));
    }
}

/// A client's stream is one of another item from now on; false if the client is gone.
fn rebind_one(
    clients: &mut super::client_table::Clients,
    item: &super::item::Item,
    watcher: Watcher,
    from: usize,
    to: usize,
) -> bool {
    let Some(client) = clients.get_mut(watcher.client) else { return false };
    let stream = client.streams.get_mut(&watcher.stream_id).filter(|stream| stream.index() == from);
    stream.map(|stream| *stream = Stream::new(Arc::clone(&stream.form), to, item)).is_some()
}

/// Keys that clients see.
impl WatchedItems {
    /// The key by which a stream was asked for, of an item.
    pub(super) fn key_for(&self, index: usize, watcher: Watcher) -> OwnedKey {
        let key = self.table[index].key.as_key();
        let stream = self.clients.get(watcher.client).and_then(|c| c.streams.get(&watcher.stream_id));
        stream.map_or(key, |stream| stream.form.shown_key(key)).to_owned()
    }

    /// Streams by the alias that they have, if they have one.
    pub(super) fn by_alias(&self, watchers: &[Watcher]) -> (Vec<Watcher>, Vec<(Arc<Alias>, Vec<Watcher>)>) {
        let (mut own, mut others) = (Vec::new(), BTreeMap::<usize, (Arc<Alias>, Vec<Watcher>)>::new());
        for &watcher in watchers {
            let client = self.clients.get(watcher.client);
            let stream = client.and_then(|client| client.streams.get(&watcher.stream_id));
            match stream.and_then(|stream| stream.form.alias.as_ref()) {
                None => own.push(watcher),
                Some(alias) => {
                    let entry = others.entry(alias.place);
                    entry.or_insert_with(|| (Arc::clone(alias), Vec::new())).1.push(watcher);
                }
            }
        }
        (own, others.into_values().collect())
    }

    /// Sends a status about an item of a service to streams of it, each with the key that it was asked for by.
    pub(super) fn fan_out_status(
        &mut self,
        service: u16,
        watchers: &[Watcher],
        status: &[u8],
        sink: &mut impl ServerSink,
    ) {
        let parsed = StatusMsg::parse(status).ok().filter(|msg| msg.key.is_some());
        let Some(msg) = parsed.filter(|_| !self.composed.is_empty()) else {
            return sink.fan_out(watchers, self.in_service(service, status));
        };
        let (own, aliased) = self.by_alias(watchers);
        sink.fan_out(&own, self.in_service(service, status));
        for (alias, watchers) in aliased {
            let key: Option<Key<'_>> = Some(alias.key.as_key().to_key());
            let msg = StatusMsg { key, ..msg };
            sink.fan_out(&watchers, self.encoding.encode(|w| msg.encode(w)));
        }
    }
}

//! Asking for images: first ones, and again after gaps, restarts and silence.

use std::time::Duration;

use rwf::{DataState, State, StateCode, StreamState};
use units::Nanos;

use super::hot;
use super::instance::{Instance, send_to_instance};
use super::item::Item;
use super::items::{WatchedItems, change_life};
use super::life::{Act, Input, Phase};
use super::merge::SideNo;
use super::recall::Step;
use super::service::What;
use super::sink::ServerSink;
use crate::backbone::LinkUp;

/// An item whose image is on its way is looked at again after this at least, when nobody watches it.
const LOOKS_AGAIN: Duration = Duration::from_millis(100);

/// What clients get of an item that an instance of the first version would take for another.
const KEY_UNKNOWN: State<'static> = State::new(StreamState::Closed, DataState::Suspect).because(
    StateCode::NOT_FOUND,
    "the source distributor is of a version that tells items apart by name alone",
);

impl WatchedItems {
    pub(super) fn resynchronise_all(
        &mut self,
        now: Nanos,
        (service, side): (u16, Option<SideNo>),
        lacks: u64,
        sink: &mut impl ServerSink,
    ) {
        self.counters.gap_resyncs.inc();
        match side {
            None => self.sweep(now, service, What::Resync(lacks), sink),
            Some(side) => self.sweep(now, service, What::SideLacks(side, lacks), sink),
        }
    }

    /// Something comes about an item: it may move to another state. Returns what has to be done.
    pub(super) fn on_input(&mut self, index: usize, input: Input) -> Act {
        change_life(self, index, |life| life.on(input))
    }

    /// Asks for an item as soon as it is its turn.
    pub(super) fn request(&mut self, index: usize) {
        if self.on_input(index, Input::Want) == Act::Enqueue {
            self.enqueue(index);
        }
    }

    pub(super) fn enqueue(&mut self, index: usize) {
        self.recovery.queue.push_back((index, self.table[index].serial));
    }

    /// Sends requests until enough are on their way. Not all in the queue are still wanted: so many are looked at, and
    /// the others with the next turn.
    pub(super) fn send_requests(&mut self, now: Nanos, sink: &mut impl ServerSink) {
        for _ in 0..self.config.cleanups_per_turn {
            if !self.has_requests_to_send() {
                break;
            }
            let Some((index, serial)) = self.recovery.queue.pop_front() else { break };
            self.send_request(now, index, serial, sink);
        }
    }

    fn has_requests_to_send(&self) -> bool {
        self.recovery.outstanding < self.config.images_outstanding_max && !self.recovery.queue.is_empty()
    }

    fn send_request(&mut self, now: Nanos, index: usize, serial: u64, sink: &mut impl ServerSink) {
        let is_queued = |item: &&mut Item| {
            item.serial == serial && matches!(item.life.phase(), Phase::Queued | Phase::Requeued)
        };
        let Some(item) = self.table.get_mut(index).filter(is_queued) else { return };
        let service = self.sources.services.get(&item.key.service);
        let Some(instance) = service.and_then(|s| s.active).map(|a| a.instance) else {
            self.on_input(index, Input::TurnInVain);
            return;
        };
        let key = item.key.as_key();
        if service.is_some_and(|service| service.hot.is_some()) {
            item.life.on(Input::Turn);
            hot::ask_sides(self, index, sink);
            self.recovery.outstanding += 1;
            self.recovery.sent.push_back((now, index, serial));
            return;
        }
        if !key.is_plain() && !self.sources.instances.get(&instance).is_some_and(Instance::has_keys_in_full) {
            let key = item.key.clone();
            let status = self.closing_status(key.as_key(), KEY_UNKNOWN);
            self.on_closed(now, index, &status, sink);
            return;
        }
        let can_resume =
            item.was_live && self.sources.instances.get(&instance).is_some_and(Instance::has_resume);
        item.answers_due = item.answers_due.saturating_add(1);
        let msg = match item.life.on(Input::Turn) {
            Act::AskAgain => LinkUp::ImageRequest { key },
            _ if can_resume => LinkUp::Resume { key },
            _ => LinkUp::Interest { key },
        };
        send_to_instance(&self.sources.instances, instance, msg, sink);
        self.recovery.outstanding += 1;
        self.recovery.sent.push_back((now, index, serial));
        self.counters.images_requested.inc();
    }

    /// Asks again for what has not come in time.
    pub(super) fn check_requests(&mut self, now: Nanos, sink: &mut impl ServerSink) {
        while let Some(&(at, index, serial)) = self.recovery.sent.front()
            && now >= at + self.config.image_timeout
        {
            self.recovery.sent.pop_front();
            let item = self.table.get(index);
            if item.is_some_and(|i| i.serial == serial && i.life.phase() == Phase::Requested) {
                self.request(index);
            }
        }
        self.send_requests(now, sink);
    }

    pub(super) fn next_request_check(&self) -> Nanos {
        if self.has_requests_to_send() {
            return Nanos::ZERO;
        }
        self.recovery.sent.front().map_or(Nanos::NEVER, |(at, ..)| *at + self.config.image_timeout)
    }

    /// An item has missed something up to the number `lacks`: it is suspect until an image taken after that
    /// has come.
    pub(super) fn resynchronise(
        &mut self,
        now: Nanos,
        index: usize,
        (lacks, text): (u64, &str),
        sink: &mut impl ServerSink,
    ) {
        if change_life(self, index, |life| life.on_lack(lacks)) == Act::Suspect {
            self.suspect(now, index, (StateCode::GAP_DETECTED, text), sink);
            self.enqueue(index);
        }
    }

    /// Gives up items that nobody has come back to, as many as the turn's work allows.
    pub(super) fn check_lingering(&mut self, now: Nanos, sink: &mut impl ServerSink) {
        while let Some(&(at, index, serial)) = self.lingering.front()
            && now >= at
            && self.cleanups.take_cleanup(1)
        {
            self.lingering.pop_front();
            let known = |item: &&Item| item.serial == serial && item.lingers_until == Some(at);
            let Some(item) = self.table.get(index).filter(known) else { continue };
            let is_recalled = item.recall.as_ref().is_some_and(|recall| recall.step == Step::Asked);
            let is_asked = item.life.phase() == Phase::Requested || is_recalled;
            if (is_asked || item.answers_due > 0) && !units::planted(units::Bug::GivesUpTooSoon) {
                // An image is on its way, and would answer the next request. Of one that nobody is certain to send the
                // item does not wait for ever.
                let due = item.answers_due;
                self.table[index].answers_due = due.saturating_sub(u8::from(!is_asked));
                let until = now + self.config.item_linger.max(LOOKS_AGAIN);
                self.table[index].lingers_until = Some(until);
                self.lingering.push_back((until, index, serial));
            } else {
                self.give_up(index, sink);
            }
        }
    }

    /// Removes an item and tells the instance that it is not wanted any more.
    fn give_up(&mut self, index: usize, sink: &mut impl ServerSink) {
        if self.table[index].hot.is_some() {
            hot::give_up_sides(self, index, sink);
            self.remove(index);
            return;
        }
        let item = self.remove(index);
        let active = self.sources.services.get(&item.key.service).and_then(|s| s.active);
        if let (true, Some(active)) = (item.life.is_registered(), active) {
            let msg = LinkUp::NoInterest { key: item.key.as_key() };
            send_to_instance(&self.sources.instances, active.instance, msg, sink);
        }
    }
}

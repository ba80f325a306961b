//! Failover: which server is the active one, and what a change means for items.

use std::time::Duration;

use rdm::login::StandbyRole;
use rwf::{DataState, State, StateCode, StreamState};
use units::Nanos;

use super::StandbyCore;
use super::state::{ImageSync, ServerStage};
use crate::consumer::ItemRequestSpec;
use crate::consumer::SubscribeError;
use crate::consumer::changes::Wanted;
use crate::consumer::event::{ConsumerEvent, ConsumerSink, ServerEvent};
use crate::table::Slot;

/// How often it is looked whether a preferred server that is back has the items.
const RETURN_CHECK: Duration = Duration::from_millis(250);

impl StandbyCore {
    /// Looks at what an input from a server means for the others.
    #[inline]
    pub(super) fn settle(&mut self, now: Nanos, server: usize, sink: &mut ConsumerSink<'_>) {
        if self.state.servers[server].stage != ServerStage::Up && self.members[server].life.session.is_ready()
        {
            self.on_up(server);
        }
        if !self.state.ended.is_empty() {
            self.drop_ended();
        }
        if !self.state.retries.is_empty() || self.state.waits_due.front().is_some_and(|(due, _)| *due <= now)
        {
            self.go_on(now, sink);
        }
        if std::mem::take(&mut self.state.is_due) || self.return_at <= now {
            self.choose(now, sink);
        }
    }

    /// A server has let the consumer in and sent its directory.
    #[cold]
    fn on_up(&mut self, server: usize) {
        self.state.servers[server].stage = ServerStage::Up;
        self.state.is_due = true;
        for unit in 0..self.state.units.len() {
            self.note_directory(unit, server);
        }
        // What had ended there may be had again.
        let slots: Vec<Slot> = self.state.items.slots().collect();
        for slot in slots {
            let is_missing =
                |entry: &super::state::StandbyItem| entry.is_shared() && entry.handles[server].is_none();
            if self.state.items.get(slot).is_some_and(is_missing) {
                // The active server has taken the same request.
                let _ = self.open(slot, server, 0);
            }
        }
    }

    /// The unit of a service; of a new one it is found out where the service is up.
    pub(super) fn unit_of(&mut self, service: &str) -> u32 {
        let (unit, is_new) = self.state.unit(service);
        if is_new {
            for server in 0..self.members.len() {
                self.note_directory(unit as usize, server);
            }
            self.set_roles(unit as usize);
        }
        unit
    }

    fn note_directory(&mut self, unit: usize, server: usize) {
        if let Some(name) = &self.state.units[unit].service
            && self.state.servers[server].stage == ServerStage::Up
        {
            let service = self.members[server].directory().service_by_name(name);
            let is_up = service.is_some_and(|service| service.state.up);
            self.state.note_service(unit, server, is_up);
        }
    }

    /// Asks a server for an item.
    pub(super) fn open(&mut self, slot: Slot, server: usize, batch: u32) -> Result<(), SubscribeError> {
        let Some(entry) = self.state.items.get_mut(slot) else { return Ok(()) };
        let wish = &entry.wish;
        let view = wish.spec.view.clone();
        let (service, name) = (&*wish.service, &*wish.name);
        let spec = ItemRequestSpec { service, name, view, tag: slot.to_u64(), ..wish.spec };
        let watchlist = &mut self.members[server].life.session.watchlist;
        let handle = watchlist.add(&spec, batch)?;
        if wish.is_paused {
            watchlist.change(handle, Wanted::Paused(true));
        }
        entry.handles[server] = Some(handle);
        self.state.servers[server].by_handle.insert(handle, slot);
        Ok(())
    }

    /// Ends an item at a server.
    pub(super) fn shut(&mut self, slot: Slot, server: usize, batch: u32) {
        let Some(entry) = self.state.items.get_mut(slot) else { return };
        if let Some(handle) = entry.handles[server].take() {
            self.members[server].life.session.watchlist.end(handle, batch);
            self.state.servers[server].by_handle.remove(&handle);
        }
    }

    /// Items that have ended at the active server have ended.
    #[cold]
    fn drop_ended(&mut self) {
        while let Some(slot) = self.state.ended.pop() {
            (0..self.members.len()).for_each(|server| self.shut(slot, server, 0));
            self.state.items.remove(slot);
        }
    }

    /// Looks again at items that wait for their images.
    #[cold]
    fn go_on(&mut self, now: Nanos, sink: &mut ConsumerSink<'_>) {
        for slot in std::mem::take(&mut self.state.retries) {
            self.try_image(now, slot, sink);
        }
        while let Some((_, slot)) = self.state.waits_due.pop_front_if(|(due, _)| *due <= now) {
            self.try_image(now, slot, sink);
        }
    }

    /// Decides who is to be the active server.
    #[cold]
    fn choose(&mut self, now: Nanos, sink: &mut ConsumerSink<'_>) {
        self.return_at = Nanos::NEVER;
        if self.state.is_stopping {
            return;
        }
        for unit in 0..self.state.units.len() {
            let from = self.state.units[unit].active;
            let to = self.best(now, unit);
            let was_leaving = std::mem::take(&mut self.state.units[unit].is_leaving);
            self.state.units[unit].active = to;
            self.report_active(unit, sink);
            if from != to {
                self.state.counters.switches.inc();
            }
            if from != to || was_leaving {
                for slot in self.slots_of(unit) {
                    self.take_over(now, slot, (from, to), sink);
                }
                self.set_roles(unit);
            }
        }
    }

    fn best(&mut self, now: Nanos, unit: usize) -> usize {
        let (active, preferred) = (self.state.units[unit].active, self.state.units[unit].preferred);
        if !self.state.is_usable(unit, active) {
            let is_fresh = self.state.servers[active].stage == ServerStage::Fresh;
            return self.state.successor(unit).filter(|_| !is_fresh).unwrap_or(active);
        }
        if !self.returns || active == preferred || !self.state.is_usable(unit, preferred) {
            return active;
        }
        if self.has_items(unit, active, preferred) {
            self.state.counters.returns.inc();
            return preferred;
        }
        self.return_at = now.after(RETURN_CHECK);
        active
    }

    /// Whether every item that is good at one server is good at the other.
    fn has_items(&self, unit: usize, active: usize, other: usize) -> bool {
        let is_good = |server: usize, slot: Slot| {
            let handle = self.state.items.get(slot).and_then(|entry| entry.handles[server]);
            let state = handle.and_then(|handle| self.members[server].item_state(handle));
            state.is_some_and(|state| state.data == DataState::Ok)
        };
        let is_shared = |slot: Slot| self.state.items.get(slot).is_some_and(|entry| entry.is_shared());
        let mut slots = self.slots_of(unit).into_iter().filter(|slot| is_shared(*slot));
        slots.all(|slot| is_good(other, slot) || !is_good(active, slot))
    }

    fn slots_of(&self, unit: usize) -> Vec<Slot> {
        let of_unit = self.state.items.iter().filter(|(_, entry)| entry.unit as usize == unit);
        of_unit.map(|(slot, _)| slot).collect()
    }

    /// Says which server is the active one, when it is there.
    fn report_active(&mut self, unit: usize, sink: &mut ConsumerSink<'_>) {
        let known = &self.state.units[unit];
        let (active, before) = (known.active, known.reported);
        if before == Some(active) || !self.state.is_usable(unit, active) {
            return;
        }
        let host = self.members[active].life.connector.host();
        let instead_of = before.map(|before| self.members[before].life.connector.host());
        let service = self.state.units[unit].service.as_deref();
        sink(ConsumerEvent::Active(ServerEvent { service, server: active, host, instead_of }));
        self.state.units[unit].reported = Some(active);
    }

    /// Announces to the servers what they are.
    fn set_roles(&mut self, unit: usize) {
        let unit = &self.state.units[unit];
        for (server, member) in self.members.iter_mut().enumerate() {
            let role = if server == unit.active { StandbyRole::Active } else { StandbyRole::Standby };
            member.set_role(unit.service.as_ref(), role);
        }
    }

    /// An item has another active server, or the same one after a loss.
    fn take_over(&mut self, now: Nanos, slot: Slot, (from, to): (usize, usize), sink: &mut ConsumerSink<'_>) {
        let Some(entry) = self.state.items.get_mut(slot) else { return };
        let is_alone = !entry.is_shared() && from != to;
        let is_open = entry.handles[to].is_some();
        entry.sync = if is_open { ImageSync::WAITING } else { ImageSync::Done };
        if is_alone {
            self.shut(slot, from, 0);
        }
        if !is_open {
            // What the former server has taken is legal.
            let _ = self.open(slot, to, 0);
            return self.suspect(slot, sink);
        }
        self.ask_if_needed(slot, to);
        self.try_image(now, slot, sink);
    }

    /// Asks the new active server for an image that it has not sent, or that cannot be replayed.
    fn ask_if_needed(&mut self, slot: Slot, server: usize) {
        let Some(entry) = self.state.items.get_mut(slot) else { return };
        let Some(handle) = entry.handles[server] else { return };
        let member = &mut self.members[server];
        let is_ok = member.item_state(handle).is_some_and(|state| state.data == DataState::Ok);
        let is_silent = member.is_silent(&entry.wish.service);
        let has_image = member.image(handle).is_some_and(|image| image.has_all_updates());
        if is_silent || (is_ok && !has_image) {
            entry.sync = ImageSync::Waiting { behind_until: None, needs_refresh: true };
            member.life.session.watchlist.change(handle, Wanted::Image);
            self.state.counters.images_requested.inc();
        }
    }

    /// Replays the image of an item that waits for one, if that is good and not older than what was reported, or
    /// was waited for long enough.
    fn try_image(&mut self, now: Nanos, slot: Slot, sink: &mut ConsumerSink<'_>) {
        let Some(entry) = self.state.items.get_mut(slot) else { return };
        let ImageSync::Waiting { behind_until, needs_refresh } = entry.sync else { return };
        let server = self.state.units[entry.unit as usize].active;
        let Some(handle) = entry.handles[server] else { return };
        let member = &self.members[server];
        let is_ok = member.item_state(handle).is_some_and(|state| state.data == DataState::Ok);
        let image = member.image(handle).filter(|_| is_ok && !needs_refresh);
        let Some(image) = image else { return self.suspect(slot, sink) };
        if entry.is_behind(image.seq_num()) {
            let due = behind_until.unwrap_or_else(|| now.after(self.catch_up));
            if behind_until.is_none() {
                self.state.counters.waits.inc();
                entry.sync = ImageSync::Waiting { behind_until: Some(due), needs_refresh };
                self.state.waits_due.push_back((due, slot));
            }
            if now < due {
                return;
            }
            self.state.counters.waits_expired.inc();
        }
        let state = &mut self.state;
        let deliver: &mut ConsumerSink<'_> = &mut |event| {
            if let ConsumerEvent::Item(event) = event {
                state.deliver(slot, event, sink);
            }
        };
        if member.replay_image(handle, &mut self.scratch, deliver) {
            self.state.counters.images_told.inc();
            if let Some(entry) = self.state.items.get_mut(slot) {
                entry.sync = ImageSync::Done;
            }
        } else {
            self.suspect(slot, sink);
        }
    }

    /// The application learns that an item is not good, if it was until now.
    fn suspect(&mut self, slot: Slot, sink: &mut ConsumerSink<'_>) {
        let Some(entry) = self.state.items.get(slot).filter(|entry| entry.is_shown_ok()) else { return };
        let server = self.state.units[entry.unit as usize].active;
        let Some(handle) = entry.handles[server] else { return };
        let state = &mut self.state;
        self.members[server].replay_state(handle, NO_IMAGE, &mut |event| {
            if let ConsumerEvent::Item(event) = event {
                state.deliver(slot, event, sink);
            }
        });
    }
}

const NO_IMAGE: State<'static> = State::new(StreamState::Open, DataState::Suspect)
    .because(StateCode::NONE, "the server that took over has no image yet");

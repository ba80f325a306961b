//! What comes in for items.

use rdm::RdmError;
use rdm::directory::GroupElements;
use rwf::{AckMsg, DataType, GenericMsg, MsgClass, MsgHead, RefreshMsg, State, StatusMsg, UpdateMsg};
use units::Nanos;

use super::ItemHandle;
use super::event::{ConsumerEvent, ConsumerSink, ItemEvent, ItemMsg};
use super::fields::FieldScan;
use super::item::{Fate, Item, Phase, Shown};
use super::watchlist::{Lookup, Watchlist};
use crate::table::Slot;

impl Watchlist {
    /// A message for the item at `place`.
    #[inline]
    pub(crate) fn on_message<F: FnMut(ConsumerEvent<'_>)>(
        &mut self,
        now: Nanos,
        place: u32,
        head: &MsgHead,
        bytes: &[u8],
        lookup: Lookup<'_>,
        sink: &mut F,
    ) -> Result<(), RdmError> {
        if head.class != MsgClass::Update {
            return self.on_other(now, place, head, bytes, lookup, sink);
        }
        let msg = UpdateMsg::parse(bytes)?;
        self.counters.updates_in.inc();
        let Some((slot, item)) = self.items.at_mut(place) else { return Ok(()) };
        if let Some(image) = &mut item.image
            && image.on_update(&msg, lookup.rules).is_err()
        {
            self.counters.images_spoilt.inc();
            **image = market::CachedItem::default();
        }
        let state = item.shown.map_or(State::OPEN_OK, Shown::as_state);
        let service = &self.service_queues[item.service as usize].name;
        sink(ConsumerEvent::Item(ItemEvent {
            handle: ItemHandle(slot),
            tag: item.tag,
            name: &item.name,
            service,
            domain: item.domain,
            msg: ItemMsg::Update(&msg),
            bytes: Some(bytes),
            state,
            is_final: false,
            image: item.image.as_deref().filter(|image| image.is_known()),
            dictionary: lookup.dictionary,
            index: Some(lookup.index),
            scan: FieldScan::default(),
        }));
        Ok(())
    }

    #[cold]
    fn on_other(
        &mut self,
        now: Nanos,
        place: u32,
        head: &MsgHead,
        bytes: &[u8],
        lookup: Lookup<'_>,
        sink: &mut ConsumerSink<'_>,
    ) -> Result<(), RdmError> {
        let Some((slot, _)) = self.items.at_mut(place) else { return Ok(()) };
        match head.class {
            MsgClass::Refresh => {
                self.counters.refreshes_in.inc();
                self.on_refresh(now, slot, &RefreshMsg::parse(bytes)?, bytes, lookup, sink);
            }
            MsgClass::Status => {
                self.counters.statuses_in.inc();
                self.on_status(now, slot, &StatusMsg::parse(bytes)?, Some(bytes), lookup, sink);
            }
            MsgClass::Generic => {
                let msg = GenericMsg::parse(bytes)?;
                self.counters.generics_in.inc();
                self.emit(slot, ItemMsg::Generic(&msg), Some(bytes), None, lookup, sink);
            }
            MsgClass::Ack => {
                let msg = AckMsg::parse(bytes)?;
                self.emit(slot, ItemMsg::Ack(&msg), Some(bytes), None, lookup, sink);
            }
            class @ (MsgClass::Request | MsgClass::Close | MsgClass::Post | MsgClass::Update) => {
                return Err(RdmError::WrongClass { domain: head.domain, class });
            }
        }
        Ok(())
    }

    fn on_refresh(
        &mut self,
        now: Nanos,
        slot: Slot,
        msg: &RefreshMsg<'_>,
        bytes: &[u8],
        lookup: Lookup<'_>,
        sink: &mut ConsumerSink<'_>,
    ) {
        self.answered(slot);
        let single_open = self.options.single_open;
        let Some(item) = self.items.get_mut(slot) else { return };
        item.group = group(msg.group_id);
        if let Some(image) = &mut item.image
            && image.on_refresh(msg, lookup.rules).is_err()
        {
            self.counters.images_spoilt.inc();
            **image = market::CachedItem::default();
        }
        let fate = item.fate(msg.state.stream, msg.complete, single_open);
        let state = item.shown_state(msg.state, fate);
        item.shown = Some(Shown::after(item.shown, state));
        let shown = RefreshMsg { state, ..*msg };
        self.emit(slot, ItemMsg::Refresh(&shown), Some(bytes), Some((state, fate)), lookup, sink);
        self.meet(now, slot, fate);
    }

    /// A status of one item, from the server or made here.
    pub(super) fn on_status(
        &mut self,
        now: Nanos,
        slot: Slot,
        msg: &StatusMsg<'_>,
        bytes: Option<&[u8]>,
        lookup: Lookup<'_>,
        sink: &mut ConsumerSink<'_>,
    ) {
        self.answered(slot);
        let single_open = self.options.single_open;
        let Some(item) = self.items.get_mut(slot) else { return };
        if let Some(id) = msg.group_id {
            item.group = group(id);
        }
        let Some(state) = msg.state else {
            if let Some(image) = &mut item.image {
                image.on_status(msg);
            }
            return self.emit(slot, ItemMsg::Status(msg), bytes, None, lookup, sink);
        };
        let fate = item.fate(state.stream, true, single_open);
        // An open status says nothing about the image, so it cannot end a snapshot.
        let fate = if state.stream == rwf::StreamState::Open { Fate::Lives } else { fate };
        let state = item.shown_state(state, fate);
        item.shown = Some(Shown::after(item.shown, state));
        let shown = StatusMsg { state: Some(state), ..*msg };
        if let Some(image) = &mut item.image {
            image.on_status(&shown);
        }
        self.emit(slot, ItemMsg::Status(&shown), bytes, Some((state, fate)), lookup, sink);
        self.meet(now, slot, fate);
    }

    /// The server has said a state for all items of a service.
    pub(crate) fn on_service_status(
        &mut self,
        now: Nanos,
        service_id: u16,
        state: State<'_>,
        lookup: Lookup<'_>,
        sink: &mut ConsumerSink<'_>,
    ) {
        for slot in self.slots_of(service_id, |item| item.phase.stream_id().is_some()) {
            self.on_made_status(now, slot, state, lookup, sink);
        }
    }

    /// The server has said something about a group of a service's items.
    pub(crate) fn on_group(
        &mut self,
        now: Nanos,
        service_id: u16,
        elements: &GroupElements,
        lookup: Lookup<'_>,
        sink: &mut ConsumerSink<'_>,
    ) {
        let named = group(&elements.group_id);
        let in_group =
            |item: &Item| item.phase.stream_id().is_some() && item.group == named && !named.is_empty();
        for slot in self.slots_of(service_id, in_group) {
            if let (Some(item), Some(into)) = (self.items.get_mut(slot), &elements.merged_to) {
                item.group = group(into);
            }
            if let Some(status) = &elements.status {
                self.on_made_status(now, slot, status.borrow(), lookup, sink);
            }
        }
    }

    pub(super) fn on_made_status(
        &mut self,
        now: Nanos,
        slot: Slot,
        state: State<'_>,
        lookup: Lookup<'_>,
        sink: &mut ConsumerSink<'_>,
    ) {
        let Some(item) = self.items.get(slot) else { return };
        let stream_id = item.phase.stream_id().unwrap_or_default();
        let msg =
            StatusMsg { state: Some(state), ..StatusMsg::new(item.domain, stream_id, DataType::NO_DATA) };
        self.on_status(now, slot, &msg, None, lookup, sink);
    }

    fn slots_of(&self, service_id: u16, wanted: impl Fn(&Item) -> bool) -> Vec<Slot> {
        let Some(index) = self.service_queues.iter().position(|queue| queue.service_id == Some(service_id))
        else {
            return Vec::new();
        };
        let of_service = self.items.iter().filter(|(_, item)| item.service as usize == index && wanted(item));
        of_service.map(|(slot, _)| slot).collect()
    }

    /// The server has answered the request of an item.
    fn answered(&mut self, slot: Slot) {
        let Some(item) = self.items.get_mut(slot) else { return };
        if let Phase::Requested { stream_id } = item.phase {
            item.phase = Phase::Open { stream_id };
            let queue = &mut self.service_queues[item.service as usize];
            queue.requested_count -= 1;
            queue.open_count += 1;
            self.is_pump_due |= !queue.waiting.is_empty();
            self.counters.items_open.add(1);
            self.on_answered(slot);
        }
    }

    /// Does with an item what its state means.
    fn meet(&mut self, now: Nanos, slot: Slot, fate: Fate) {
        match fate {
            Fate::Lives => {}
            Fate::Rests => {
                self.counters.items_rested.inc();
                self.leave_stream(slot, Phase::Resting);
                self.rests_due.push_back((now.after(self.options.rest), slot));
                self.publish_gauges();
            }
            Fate::Ends => {
                self.counters.items_ended.inc();
                self.remove(slot);
            }
        }
    }

    /// Tells the application. `state`: the state that the message brings, and what follows from it.
    pub(super) fn emit(
        &self,
        slot: Slot,
        msg: ItemMsg<'_>,
        bytes: Option<&[u8]>,
        state: Option<(State<'_>, Fate)>,
        lookup: Lookup<'_>,
        sink: &mut ConsumerSink<'_>,
    ) {
        let Some(item) = self.items.get(slot) else { return };
        let known = item.shown.map_or(State::OPEN_OK, Shown::as_state);
        sink(ConsumerEvent::Item(ItemEvent {
            handle: ItemHandle(slot),
            tag: item.tag,
            name: &item.name,
            service: self.service_name(item),
            domain: item.domain,
            msg,
            bytes,
            state: state.map_or(known, |(state, _)| state),
            is_final: state.is_some_and(|(_, fate)| fate == Fate::Ends),
            image: item.image.as_deref().filter(|image| image.is_known()),
            dictionary: lookup.dictionary,
            index: Some(lookup.index),
            scan: FieldScan::default(),
        }));
    }
}

/// A group as an item keeps it: none is empty.
fn group(id: &[u8]) -> Box<[u8]> {
    if id == [0, 0] { Box::default() } else { id.into() }
}

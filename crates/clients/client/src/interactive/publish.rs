//! What the application says: images, updates, states, acks, generic messages.

use market::CachedItem;
use rdm::post;
use rwf::{
    AckMsg, DataState, DataType, Key, NakCode, RefreshMsg, State, StateCode, StatusMsg, StreamState,
    UpdateMsg, Writer,
};

use super::PostTicket;
use super::client::{Outlet, Watcher};
use super::core::Core;
use super::items::Item;
use super::port_connection::PortConnection;
use crate::provider::next_number;
use crate::table::Slot;
use crate::{GenericSpec, ItemError, PublishError, PublishSpec, PublishedItem, RefreshSpec, UpdateSpec};

impl Core {
    /// The item of a key, asked for or not.
    pub(crate) fn item(&mut self, spec: &PublishSpec<'_>) -> Result<PublishedItem, ItemError> {
        let service = self.directory.service_by_name(spec.service).ok_or(ItemError::UnknownService)?;
        self.items.open(spec, service.id, None)
    }

    /// Publishes the whole image of an item, to those who wait for it and those who have one. Returns how
    /// many streams get it.
    pub(crate) fn refresh(
        &mut self,
        PublishedItem(slot): PublishedItem,
        spec: &RefreshSpec<'_>,
        mut payload: impl FnMut(&mut Writer<'_>),
        out: &mut impl Outlet,
    ) -> Result<usize, PublishError> {
        let item = self.items.table.get_mut(slot).ok_or(PublishError::UnknownItem)?;
        let seq_num = next_number(item.seq_num);
        let msg = spec.message(item.domain, 0, seq_num, None);
        let bytes = self.message.try_encode_with(self.dictionary.as_deref(), |w| {
            msg.encode_header(w);
            payload(w);
        })?;
        let merged = RefreshMsg::parse(bytes).and_then(|msg| item.image.on_refresh(&msg, &self.rules));
        if let Err(error) = merged {
            item.image = CachedItem::default();
            return Err(PublishError::Payload(error));
        }
        (item.seq_num, item.is_asked_for) = (seq_num, false);
        let (count, known) = (item.watchers().count(), item.live.clone());
        self.send_image(slot, &known, false, out);
        self.answer(slot, out);
        if spec.state.stream != StreamState::Open {
            self.drop_item(slot);
        }
        Ok(count)
    }

    /// Publishes a change. Returns how many streams get it.
    #[inline]
    pub(crate) fn update(
        &mut self,
        PublishedItem(slot): PublishedItem,
        spec: &UpdateSpec<'_>,
        mut payload: impl FnMut(&mut Writer<'_>),
        out: &mut impl Outlet,
    ) -> Result<usize, PublishError> {
        let item = self.items.table.get_mut(slot).ok_or(PublishError::UnknownItem)?;
        if !item.image.is_known() {
            return Err(PublishError::NoImage);
        }
        let seq_num = next_number(item.seq_num);
        let msg = spec.message(item.domain, 0, seq_num, item.key_in_updates.then(|| key(item)));
        let bytes = self.message.try_encode_with(self.dictionary.as_deref(), |w| {
            msg.encode_header(w);
            payload(w);
        })?;
        let merged = UpdateMsg::parse(bytes).and_then(|msg| item.image.on_update(&msg, &self.rules));
        if let Err(error) = merged {
            self.counters.images_spoilt.inc();
            item.image = CachedItem::default();
            return Err(PublishError::Payload(error));
        }
        item.seq_num = seq_num;
        out.fan_out(&item.live, bytes);
        self.counters.updates_out.inc();
        Ok(item.live.len())
    }

    /// Publishes a state, to all who want the item; one that is not open ends it. Returns how many get it.
    pub(crate) fn status(
        &mut self,
        PublishedItem(slot): PublishedItem,
        state: State<'_>,
        out: &mut impl Outlet,
    ) -> Result<usize, PublishError> {
        let item = self.items.table.get_mut(slot).ok_or(PublishError::UnknownItem)?;
        let msg = StatusMsg {
            state: Some(state),
            private_stream: item.private.is_some(),
            key: Some(key(item)),
            ..StatusMsg::new(item.domain, 0, DataType::NO_DATA)
        };
        let bytes = self.message.try_encode(|w| msg.encode(w))?;
        // The vendor's packages over WebSocket take the first message of a stream for its answer: one that goes
        // on without an image yet would be taken for an answer without data.
        let is_open = state.stream == StreamState::Open;
        let told = item.waiting.iter().filter(|watcher| !(is_open && watcher.connection.is_websocket()));
        let watchers: Vec<Watcher> = item.live.iter().chain(&item.paused).chain(told).copied().collect();
        out.fan_out(&watchers, bytes);
        self.counters.statuses_out.inc();
        let known = StatusMsg { state: Some(state), ..StatusMsg::new(item.domain, 0, DataType::NO_DATA) };
        item.image.on_status(&known);
        if state.stream != StreamState::Open {
            self.drop_item(slot);
        }
        Ok(watchers.len())
    }

    /// Ends an item that nobody wants; returns whether it was so.
    pub(crate) fn forget(&mut self, PublishedItem(slot): PublishedItem) -> bool {
        let is_unwanted = self.items.table.get(slot).is_some_and(|item| !item.is_wanted());
        is_unwanted && self.items.remove(slot).is_some()
    }

    /// The item is over for all who had it.
    fn drop_item(&mut self, slot: Slot) {
        let Some(item) = self.items.remove(slot) else { return };
        for watcher in item.watchers() {
            let client = self.clients.get_mut(&watcher.connection);
            if client.is_some_and(|client| client.streams.remove(&watcher.stream_id).is_some()) {
                self.stream_count -= 1;
            }
        }
        self.counters.streams.set(self.stream_count);
    }

    /// Answers a post; returns whether its client is still there.
    pub(crate) fn answer_post(
        &mut self,
        ticket: PostTicket,
        refusal: Option<(NakCode, &str)>,
        out: &mut impl Outlet,
    ) -> bool {
        let connection = ticket.client.connection;
        if !self.is_present(ticket.client) {
            return false;
        }
        let answer = match refusal {
            None => post::ack(&ticket.post),
            Some((code, text)) => post::nak(&ticket.post, code, text),
        };
        self.counters.posts_refused.add(u64::from(refusal.is_some()));
        answer.is_some_and(|ack| self.send_ack(connection, &ack, out))
    }

    pub(super) fn send_ack(
        &mut self,
        connection: PortConnection,
        ack: &AckMsg<'_>,
        out: &mut impl Outlet,
    ) -> bool {
        let Ok(bytes) = self.message.try_encode(|w| ack.encode(w)) else { return false };
        out.send(connection, bytes);
        self.counters.acks_out.inc();
        true
    }

    /// Sends a generic message to all who want an item. Returns how many these are.
    pub(crate) fn generic(
        &mut self,
        PublishedItem(slot): PublishedItem,
        spec: &GenericSpec<'_>,
        mut payload: impl FnMut(&mut Writer<'_>),
        out: &mut impl Outlet,
    ) -> Result<usize, PublishError> {
        let item = self.items.table.get(slot).ok_or(PublishError::UnknownItem)?;
        let msg = spec.message(item.domain, 0);
        let bytes = self.message.try_encode_with(self.dictionary.as_deref(), |w| {
            msg.encode_header(w);
            payload(w);
        })?;
        let watchers: Vec<Watcher> = item.watchers().collect();
        out.fan_out(&watchers, bytes);
        self.counters.generics_out.inc();
        Ok(watchers.len())
    }

    /// Ends an item for good, as not found or not allowed.
    pub(crate) fn close(
        &mut self,
        item: PublishedItem,
        code: StateCode,
        text: &str,
        out: &mut impl Outlet,
    ) -> Result<usize, PublishError> {
        let closed = State::new(StreamState::Closed, DataState::Suspect);
        self.status(item, closed.because(code, text), out)
    }
}

fn key(item: &Item) -> Key<'_> {
    Key::item(item.service_id, item.name.as_bytes())
}

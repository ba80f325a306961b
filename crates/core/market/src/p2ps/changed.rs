//! Clients that read too slowly: their updates are conflated.
//!
//! The front end refuses updates for such a client ([`ServerSink::fan_out_update`]). The stream is then *changed*: it is
//! noted once, in the queue of its client, and further updates of the item cost nothing for it. When the client has room
//! it is sent the newest state of the item, and gets updates again, until the next one is refused. Nothing is kept of
//! what it was not sent: the values are in the item's image.
//!
//! What is not an update keeps its order. A status of the item, its end, and an update that must not be conflated or
//! that no image holds come behind the newest state. What is said of a whole service does not wait for that: the state
//! of the data is in the image that follows. A new image for all is what a changed stream is sent then
//! ([`due`](super::due)). Answers, generic messages, acknowledgements and private streams do not come this way.

use std::num::NonZeroU32;

use rdm::ToVec;
use rdm::login::LoginStatus;
use rwf::{DataState, State, StateCode, StreamState};
use units::Nanos;

use super::PointToPoint;
use super::audience::{Form, Group};
use super::base::{ClientId, Watcher};
use super::item::Item;
use super::items::WatchedItems;
use super::sink::ServerSink;

/// For the front end.
impl PointToPoint {
    /// The updates of a client are conflated from now on, or no longer: the client is told on its login stream, with
    /// `why`.
    pub fn set_conflated(
        &mut self,
        now: Nanos,
        client: ClientId,
        is_conflated: bool,
        why: &str,
        sink: &mut impl ServerSink,
    ) {
        let Some(known) = self.items.clients.get_mut(client) else { return };
        if known.conflation.since.is_some() == is_conflated {
            return;
        }
        known.conflation.since = is_conflated.then_some(now);
        let login = known.login.as_ref().map(|login| login.stream_id);
        let (step, change) = match is_conflated {
            true => (&self.counters.conflations_begun, 1),
            false => (&self.counters.conflations_ended, -1),
        };
        step.inc();
        self.items.clients.count_conflated(change);
        let Some(stream_id) = login else { return };
        let state = State::new(StreamState::Open, DataState::Ok).because(StateCode::NONE, why);
        let status = LoginStatus { stream_id, state: Some(state), ..LoginStatus::default() };
        if let Ok(message) = status.to_vec() {
            sink.send(client, &message);
        }
    }
}

impl Item {
    /// Another update has come.
    #[inline]
    pub(super) fn count_update(&mut self) {
        self.updates = self.updates.checked_add(1).unwrap_or(NonZeroU32::MIN);
    }
}

impl WatchedItems {
    /// Streams of an item were not sent its last update.
    #[cold]
    pub(super) fn note_changes(&mut self, index: usize) {
        let mut refused = std::mem::take(&mut self.refused);
        self.counters.updates_conflated.add(refused.len() as u64);
        for watcher in refused.drain(..) {
            let Some(client) = self.clients.get_mut(watcher.client) else { continue };
            let Some(stream) = client.streams.get_mut(&watcher.stream_id) else { continue };
            let item = &mut self.table[index];
            if stream.index == index && item.audience.change(watcher, &stream.form) {
                stream.changed_from = Some(item.updates);
                client.conflation.changed += 1;
                self.clients.enqueue_due(watcher);
            }
        }
        self.refused = refused;
    }

    /// A stream that has changed is about to be sent newer values, or waits for something else.
    pub(super) fn settle_change(&mut self, watcher: Watcher) {
        let Some(client) = self.clients.get_mut(watcher.client) else { return };
        let Some(stream) = client.streams.get_mut(&watcher.stream_id) else { return };
        let Some(from) = stream.changed_from.take() else { return };
        let last = self.table.get(stream.index).map_or(from, |item| item.updates);
        client.conflation.changed -= 1;
        client.conflation.updates += 1 + u64::from(last.get().wrapping_sub(from.get()));
    }

    /// Sends the newest state of an item to its streams that have changed: something follows that keeps its order.
    pub(super) fn send_pending(&mut self, index: usize, sink: &mut impl ServerSink) {
        let Some(item) = self.table.get_mut(index).filter(|item| item.audience.changed_count() > 0) else {
            return;
        };
        let is_known = item.cached.is_known();
        for Group { form, watchers } in item.audience.take_all_changed() {
            watchers.iter().for_each(|watcher| self.settle_change(*watcher));
            if is_known {
                self.send_newest(index, &form, &watchers, sink);
            }
        }
    }

    /// Sends the newest state of an item to streams that have changed and want it in one form.
    pub(super) fn send_newest(
        &mut self,
        index: usize,
        form: &Form,
        watchers: &[Watcher],
        sink: &mut impl ServerSink,
    ) {
        self.send_image(index, form, watchers, false, sink);
    }
}

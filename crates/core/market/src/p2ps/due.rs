//! Images for clients that have not taken what they were sent before: they wait until there is room.
//!
//! When a feed starts again, all of its items get new images within a moment. A client that reads more slowly than that
//! would lose its connection, for more would wait than may. So an image that it has not asked for in this moment is
//! noted as *due*, by its stream alone. Until it is sent the stream gets no updates, for these are in the image when it is
//! made, and no state but bad ones. First images of items that had to be fetched wait in the same way. Streams whose
//! updates are conflated ([`changed`](super::changed)) stand in the same queue.

use std::sync::Arc;

use rwf::DataState;
use units::Nanos;

use super::PointToPoint;
use super::audience::Newcomer;
use super::base::{ClientId, Watcher};
use super::client::Conflation;
use super::items::WatchedItems;
use super::kept;
use super::ledger::Fate;
use super::sink::ServerSink;

/// For the front end.
impl PointToPoint {
    /// Sends a client images that are due, and the newest values of streams that have changed while its updates are
    /// conflated, in order, while the front end admits them; of a client that is sent rounds those of its round, which
    /// begins with this if none is under way. Returns whether there are more.
    pub fn send_due_images(&mut self, now: Nanos, client: ClientId, sink: &mut impl ServerSink) -> bool {
        loop {
            let Some(known) = self.items.clients.get_mut(client) else { return false };
            let due = known.due.len();
            let Some(stream_id) = known.due.pop_front() else { return false };
            let has_more = !known.due.is_empty();
            let is_last = known.conflation.ends_round(due);
            self.send_due_image(now, Watcher { client, stream_id }, sink);
            if is_last {
                sink.end_round(client);
                return has_more;
            }
            if has_more && !sink.admits_more(client) {
                return true;
            }
        }
    }
}

impl WatchedItems {
    /// Before an image goes to all: streams of clients that lag are to get it later.
    pub(super) fn defer_images(&mut self, index: usize, sink: &mut impl ServerSink) {
        let item = &mut self.table[index];
        let last = item.updates;
        let clients = &self.clients.all;
        let lags = |watcher: Watcher| sink.lags(watcher.client) && clients.contains_key(&watcher.client);
        for watcher in item.audience.defer(lags) {
            self.clients.begin_due(watcher, last);
            self.clients.note_due(watcher);
        }
        // They are in the queue, and what they are sent is this image. Those that wait for their turn wait no longer.
        for watcher in self.table[index].audience.defer_changed() {
            self.clients.begin_due(watcher, last);
            self.clients.settle_change(watcher, last);
            if self.clients.is_paced(watcher) {
                self.clients.enqueue_due(watcher);
            }
        }
        self.table[index].forget_changes();
    }

    /// The same for first images: returns those who get theirs now.
    pub(super) fn defer_newcomers(
        &mut self,
        index: usize,
        newcomers: Vec<Newcomer>,
        sink: &mut impl ServerSink,
    ) -> Vec<Newcomer> {
        let mut present = newcomers;
        let later = present.extract_if(.., |newcomer| sink.lags(newcomer.watcher.client));
        for mut newcomer in later.collect::<Vec<Newcomer>>() {
            if !std::mem::replace(&mut newcomer.is_due, true) {
                self.clients.note_due(newcomer.watcher);
            }
            self.table[index].audience.await_image(newcomer);
        }
        present
    }

    /// Opens a stream with an image that is here.
    pub(super) fn admit_newcomer(
        &mut self,
        now: Nanos,
        index: usize,
        newcomer: Newcomer,
        sink: &mut impl ServerSink,
    ) {
        let Newcomer { watcher, form, is_paused, .. } = newcomer;
        // An image that is being fetched again is shown as it was, marked suspect, and comes anew.
        let is_suspect = self.table[index].cached.state_to_send().data == DataState::Suspect;
        if is_suspect && form.on_suspect.closes(self.is_lost(index)) {
            let text = "the data cannot be trusted at present";
            self.close_streams(now, index, vec![watcher], (rwf::StateCode::NONE, text), sink);
            return;
        }
        self.send_image(index, &form, &[watcher], true, sink);
        if form.is_snapshot {
            self.forget_stream(watcher);
            self.start_linger(now, index);
        } else {
            self.table[index].audience.add(watcher, &form, is_paused);
        }
    }
}

impl Conflation {
    /// The next of so many streams that are due is about to be served: whether its client's round is over with it.
    fn ends_round(&mut self, due: usize) -> bool {
        if self.at_interval_since.is_none() {
            return false;
        }
        if self.round_left == 0 {
            self.round_left = due;
        }
        self.round_left -= 1;
        self.round_left == 0
    }
}

impl PointToPoint {
    fn send_due_image(&mut self, now: Nanos, watcher: Watcher, sink: &mut impl ServerSink) {
        self.items.settle_stream(watcher, sink);
        let known =
            self.items.clients.get(watcher.client).and_then(|client| client.streams.get(&watcher.stream_id));
        let Some((index, form)) = known.map(|stream| (stream.index(), Arc::clone(&stream.form))) else {
            return;
        };
        let item = &mut self.items.table[index];
        if item.cached.is_away() {
            let is_newcomer = item.audience.newcomer(watcher).map(|newcomer| newcomer.is_due = false);
            let is_due = self.items.clients.is_due(watcher);
            if is_newcomer.is_some() || is_due {
                kept::recall(&mut self.items, index, is_due.then_some(watcher).as_slice(), sink);
            }
            return;
        }
        let is_known = item.cached.has_image();
        if item.audience.take_due(watcher) {
            item.audience.add(watcher, &form, false);
            let owed = self.items.clients.settle_due(watcher, item.updates);
            self.items.settle_owed(index, owed, Fate::InImage);
            self.items.settle_rest(index);
            // Without an image here there is one for all when it has come.
            if is_known {
                self.items.clients.begin_interval(now, watcher, form.interval_ms);
                self.items.send_image(index, &form, &[watcher], false, sink);
            }
        } else if item.audience.take_changed(watcher) {
            item.audience.add(watcher, &form, false);
            let last = item.updates;
            let lacked = self.items.clients.settle_change(watcher, last);
            if is_known {
                self.items.send_newest(now, index, &form, (watcher, lacked), sink);
            } else {
                self.items.settle_owed(index, lacked.updates, Fate::InImage);
            }
            self.items.settle_rest(index);
            self.items.table[index].forget_changes();
        } else if !is_known && let Some(newcomer) = item.audience.newcomer(watcher) {
            newcomer.is_due = false;
        } else if let Some(newcomer) = item.audience.take_newcomer(watcher) {
            self.items.admit_newcomer(now, index, newcomer, sink);
        }
    }
}

//! Streams of clients: opened, changed, paused, closed.

use std::sync::Arc;

use rdm::Reply;
use rwf::{DataState, DataType, StateCode, StatusMsg};
use units::Nanos;

use super::audience::{Form, Newcomer};
use super::base::Watcher;
use super::client::{ClosedStream, Stream};
use super::items::WatchedItems;
use super::kept;
use super::ledger::Fate;
use super::life::Phase;
use super::sink::ServerSink;
use crate::key::ItemKey;

/// Streams.
impl WatchedItems {
    /// Changes how an open stream wants its item.
    ///
    /// The answer is a refresh. If none is wanted, there is one all the same where the client would go on
    /// with something that is not so: after a pause, and when it sees other fields than before, which while
    /// it pauses is no matter yet; and where the image is all that is wanted from now on, with which the stream ends.
    pub(super) fn reissue(
        &mut self,
        now: Nanos,
        watcher: Watcher,
        form: &Arc<Form>,
        (pause, no_refresh): (bool, bool),
        sink: &mut impl ServerSink,
    ) {
        self.settle_stream(watcher, sink);
        let Some(client) = self.clients.get_mut(watcher.client) else { return };
        let was_paused = client.pauses(watcher.stream_id);
        // A private stream is its provider's matter, and its requests are passed on one by one.
        let Some(stream) = client.streams.get_mut(&watcher.stream_id) else { return };
        let before = std::mem::replace(&mut stream.form, Arc::clone(form));
        let index = stream.index();
        client.set_paused(watcher.stream_id, pause);
        let is_paused = client.pauses(watcher.stream_id);
        let audience = &mut self.table[index].audience;
        if let Some(newcomer) = audience.newcomer(watcher) {
            newcomer.form = Arc::clone(form);
            newcomer.is_paused = is_paused;
            return;
        }
        let was_changed = audience.take_changed(watcher);
        let was_due = audience.take_due(watcher) || was_changed;
        if was_due || before != *form || was_paused != is_paused {
            audience.remove(watcher);
            if !form.is_snapshot {
                audience.add(watcher, form, is_paused);
            }
        }
        if was_due {
            let fate = if is_paused && !form.is_snapshot { Fate::Ended } else { Fate::InImage };
            self.settle_waiting(watcher, index, fate);
        }
        if form.is_snapshot {
            let newcomer = Newcomer { watcher, form: Arc::clone(form), is_paused, is_due: false };
            return join(self, now, index, newcomer, sink);
        }
        let lacks = !is_paused && (was_due || was_paused || before.view != form.view);
        if !no_refresh || lacks {
            self.send_image(index, form, &[watcher], !no_refresh, sink);
        }
    }

    /// Pauses a stream or lets it go on, as the client's login says of all of them.
    pub(super) fn set_pause(&mut self, watcher: Watcher, is_paused: bool, sink: &mut impl ServerSink) {
        self.settle_stream(watcher, sink);
        let client = self.clients.get(watcher.client);
        let Some(stream) = client.and_then(|c| c.streams.get(&watcher.stream_id)) else { return };
        let (index, form) = (stream.index(), Arc::clone(&stream.form));
        let changes = self.table[index].audience.set_paused(watcher, &form, is_paused);
        if changes && is_paused {
            self.settle_waiting(watcher, index, Fate::Ended);
        } else if changes {
            self.send_image(index, &form, &[watcher], false, sink);
        }
    }

    /// Opens a stream.
    pub(super) fn watch(
        &mut self,
        now: Nanos,
        key: ItemKey<'_>,
        mut newcomer: Newcomer,
        sink: &mut impl ServerSink,
    ) {
        if self.cleanups.is_busy() {
            self.find_settled(key, sink);
        }
        let index = self.find_or_make(key);
        let item = &mut self.table[index];
        item.lingers_until = None;
        let watcher = newcomer.watcher;
        if let Some(client) = self.clients.get_mut(watcher.client) {
            let stream = Stream::new(Arc::clone(&newcomer.form), index, item);
            client.streams.insert(watcher.stream_id, stream);
            client.set_paused(watcher.stream_id, newcomer.is_paused);
            newcomer.is_paused = client.pauses(watcher.stream_id);
        }
        self.clients.count_watchers(1);
        join(self, now, index, newcomer, sink);
    }

    /// Tells a stream that waits for an image why there is none.
    fn report_to_newcomer(&mut self, now: Nanos, index: usize, watcher: Watcher, sink: &mut impl ServerSink) {
        let state = self.table[index].cached.state().clone();
        let state = state.borrow();
        let closing = self.table[index].audience.take_closing(false);
        self.close_streams(now, index, closing, (state.code, &state.text_lossy()), sink);
        if self.table[index].audience.newcomer(watcher).is_some() {
            let key = self.key_for(index, watcher);
            let msg = StatusMsg {
                state: Some(state),
                key: Some(key.as_key().to_key()),
                ..StatusMsg::new(key.domain, 0, DataType::NO_DATA)
            };
            self.counters.statuses_out.inc();
            sink.fan_out(&[watcher], self.encoding.encode(|w| msg.encode(w)));
        }
    }

    /// Asks for an item that has no image; if there is nobody to ask, the watcher is notified.
    fn request_new(&mut self, now: Nanos, index: usize, watcher: Watcher, sink: &mut impl ServerSink) {
        let service = self.sources.services.get(&self.table[index].key.service);
        if service.is_some_and(|s| s.active.is_some()) {
            self.request(index);
            self.send_requests(now, sink);
            return;
        }
        let text = "the service is down, waiting for it";
        let closing = self.table[index].audience.take_closing(true);
        if !closing.is_empty() {
            self.close_streams(now, index, closing, (StateCode::NONE, text), sink);
            return;
        }
        let key = self.key_for(index, watcher);
        let reply = Reply {
            domain: key.domain,
            stream_id: watcher.stream_id,
            key: Some(key.as_key().to_key()),
            private_stream: false,
        };
        let answer = reply.suspect(StateCode::NONE, text);
        self.counters.statuses_out.inc();
        sink.send(watcher.client, self.encoding.encode(|w| answer.encode(w)));
    }

    /// A client is done with a stream, if it is open.
    pub(super) fn leave(&mut self, now: Nanos, watcher: Watcher, sink: &mut impl ServerSink) {
        let Some(client) = self.clients.get_mut(watcher.client) else { return };
        if let Some(number) = client.private.remove(&watcher.stream_id) {
            self.conversations.close_private(number, sink);
            self.clients.count_watchers(-1);
        } else if let Some(closed) = client.take_stream(watcher.stream_id) {
            closed.conversation.map(|number| self.conversations.end(number));
            self.clients.count_watchers(-1);
            self.unwatch(now, &closed, watcher);
        }
    }

    /// A client has left an item; after the last one it lingers.
    pub(super) fn unwatch(&mut self, now: Nanos, closed: &ClosedStream, watcher: Watcher) {
        let stream = &closed.stream;
        self.leave_composed(&stream.form);
        let Some(item) = self.table.get_mut(stream.index()).filter(|item| stream.is_of(item)) else {
            return;
        };
        let (last, was_owed) = (item.updates, item.audience.remove_owed(watcher));
        if was_owed {
            self.settle_owed(stream.index(), closed.owed(last), Fate::Ended);
            self.start_linger(now, stream.index());
        } else if item.audience.remove(watcher) {
            self.start_linger(now, stream.index());
        }
        self.settle_rest(stream.index());
    }
}

/// A stream that is on no list of the item gets the image as its first, at once or when it is here.
fn join(items: &mut WatchedItems, now: Nanos, index: usize, newcomer: Newcomer, sink: &mut impl ServerSink) {
    let watcher = newcomer.watcher;
    let item = &mut items.table[index];
    let phase = item.life.phase();
    let has_to_wait = match phase {
        Phase::Live => item.cached.is_away(),
        _ => !item.cached.has_image(),
    };
    if has_to_wait {
        let is_suspect = item.cached.state().data == DataState::Suspect;
        item.audience.await_image(newcomer);
        match phase {
            Phase::Idle => items.request_new(now, index, watcher, sink),
            Phase::Live => kept::recall(items, index, &[], sink),
            _ if is_suspect => items.report_to_newcomer(now, index, watcher, sink),
            _ => {}
        }
        return;
    }
    items.admit_newcomer(now, index, newcomer, sink);
}

//! Clean-ups too large for one turn: a client that leaves a million streams, a service lost with a million watchers.
//!
//! Each is a task that is done piece by piece, so much work in a turn ([`ServerConfig::cleanups_per_turn`]); those
//! that are under way take turns with each other. One that fits what is left of the present turn is done at once.
//! What is to be done with the items of a service is a *sweep* over them, in the order of their places. Whatever
//! else comes about an item waits for its share of the sweep ([`WatchedItems::settle`] does it out of turn), so that
//! watchers see the same as if the sweep were done at once: that an item was suspect comes before its next image.
//!
//! [`ServerConfig::cleanups_per_turn`]: super::ServerConfig::cleanups_per_turn

use rwf::{DataState, State, StateCode, StreamState};
use units::Nanos;

use super::base::{ClientId, LOST, Watcher};
use super::client::{Client, Stream};
use super::hot;
use super::items::WatchedItems;
use super::life::{Act, Input, Phase};
use super::service::{Sweep, What};
use super::sink::ServerSink;
use super::sweep::{Gone, Task};
use crate::backbone::{Kind, SERVICE_DOWN_TEXT, service_status};
use crate::key::ItemKey;

/// Work of a task before it is another one's turn.
const SLICE_WORK: usize = 256;

/// Turns.
impl WatchedItems {
    /// Goes on with what is not done, as far as the turn's work goes.
    pub(super) fn clean_up(&mut self, now: Nanos, sink: &mut impl ServerSink) {
        if now > self.cleanups.granted_at {
            self.cleanups.grant_cleanups(now);
        }
        if std::mem::replace(&mut self.cleanups.is_running, true) {
            return;
        }
        while self.cleanups.left > 0
            && let Some(&task) = self.cleanups.queue.front()
        {
            let until = self.cleanups.left.saturating_sub(SLICE_WORK);
            let is_done = match task {
                Task::Client(client) => self.forget_some(now, client, until, sink),
                Task::Private => self.close_some(until, sink),
                Task::Service(id) => self.sweep_some(now, id, until, sink),
            };
            self.cleanups.queue.pop_front();
            if is_done {
                self.cleanups.enlisted.remove(&task);
            } else {
                self.cleanups.queue.push_back(task);
            }
        }
        self.cleanups.is_running = false;
        self.counters.cleanups_waiting.set(self.cleanups.queue.len() as u64);
        self.send_requests(now, sink);
    }
}

/// Clients that are gone.
impl WatchedItems {
    /// Takes the streams of a client off their items, in time.
    pub(super) fn forget_client(
        &mut self,
        now: Nanos,
        (client, mut known): (ClientId, Box<Client>),
        sink: &mut impl ServerSink,
    ) {
        self.clients.count_watchers(-(known.stream_count() as i64));
        let streams = std::mem::take(&mut known.streams).into_iter();
        let private = std::mem::take(&mut known.private).into_iter();
        let gone = Gone { known, streams, private };
        self.cleanups.gone.insert(client, gone);
        self.cleanups.enlist(Task::Client(client));
        self.clean_up(now, sink);
    }

    /// The number of a client that is gone is used again, though [`super::PointToPoint::is_leaving`]: what is left of it
    /// goes at once, but for private streams, which know no number.
    pub(super) fn forget_rest(&mut self, client: ClientId) {
        let Some(mut gone) = self.cleanups.gone.remove(&client) else { return };
        while let Some((stream_id, stream)) = gone.streams.next() {
            let watcher = Watcher { client, stream_id };
            self.forget_gone(self.cleanups.granted_at, (&mut gone, stream), watcher);
        }
        if gone.private.len() > 0 {
            self.cleanups.private.extend(gone.private.map(|(_, number)| number));
            self.cleanups.enlist(Task::Private);
        }
    }

    fn close_some(&mut self, until: usize, sink: &mut impl ServerSink) -> bool {
        while self.cleanups.left > until
            && let Some(number) = self.cleanups.private.pop()
        {
            self.conversations.close_private(number, sink);
            self.cleanups.left -= 1;
        }
        self.cleanups.private.is_empty()
    }

    fn forget_some(
        &mut self,
        now: Nanos,
        client: ClientId,
        until: usize,
        sink: &mut impl ServerSink,
    ) -> bool {
        let Some(mut gone) = self.cleanups.gone.remove(&client) else { return true };
        while self.cleanups.left > until {
            if let Some((stream_id, stream)) = gone.streams.next() {
                self.forget_gone(now, (&mut gone, stream), Watcher { client, stream_id });
            } else if let Some((_, number)) = gone.private.next() {
                self.conversations.close_private(number, sink);
            } else {
                return true;
            }
            self.cleanups.left -= 1;
        }
        let is_done = gone.streams.len() == 0 && gone.private.len() == 0;
        if !is_done {
            self.cleanups.gone.insert(client, gone);
        }
        is_done
    }

    fn forget_gone(&mut self, now: Nanos, (gone, stream): (&mut Gone, Stream), watcher: Watcher) {
        let closed = gone.known.close(watcher.stream_id, stream);
        closed.conversation.map(|number| self.conversations.end(number));
        self.unwatch(now, &closed, watcher);
    }
}

/// Items of services.
impl WatchedItems {
    /// Does something with each item of a service, in time.
    pub(super) fn sweep(&mut self, now: Nanos, id: u16, what: What, sink: &mut impl ServerSink) {
        self.cleanups.sweeps += 1;
        let number = self.cleanups.sweeps;
        let Some(service) = self.sources.services.get_mut(&id) else { return };
        service.sweeps.retain(|pending| !what.replaces(pending.what));
        service.sweeps.push_back(Sweep { number, next: 0, what });
        self.cleanups.enlist(Task::Service(id));
        self.clean_up(now, sink);
    }

    fn sweep_some(&mut self, now: Nanos, id: u16, until: usize, sink: &mut impl ServerSink) -> bool {
        while self.cleanups.left > until {
            let Some(service) = self.sources.services.get_mut(&id) else { return true };
            let Some(sweep) = service.sweeps.front_mut() else { return true };
            let Some(index) = service.items.next_from(sweep.next) else {
                let done = service.sweeps.pop_front().map(|sweep| sweep.what);
                self.swept(now, id, done, sink);
                continue;
            };
            sweep.next = index + 1;
            let sweep = *sweep;
            let work = 1 + self.table[index].audience.count();
            self.cleanups.left = self.cleanups.left.saturating_sub(work);
            self.sweep_item(now, index, sweep, sink);
        }
        self.sources.services.get(&id).is_none_or(|service| service.sweeps.is_empty())
    }

    /// A sweep is done.
    fn swept(&mut self, now: Nanos, id: u16, what: Option<What>, sink: &mut impl ServerSink) {
        match what {
            Some(What::Close) if !self.sources.is_offered(id) => self.withdraw_service(now, id, sink),
            Some(What::Lost | What::Close | What::SideLost(_)) => self.choose_active(now, id, sink),
            _ => {}
        }
    }

    fn sweep_item(&mut self, now: Nanos, index: usize, sweep: Sweep, sink: &mut impl ServerSink) {
        let item = &mut self.table[index];
        if item.swept >= sweep.number {
            return;
        }
        item.swept = sweep.number;
        match sweep.what {
            What::Lost => {
                self.on_input(index, Input::Lost);
                self.forget_sides(index);
                (self.table[index].id, self.table[index].answers_due) = (None, 0);
                let reason = (StateCode::NONE, "the source distributor is lost, looking for another");
                self.suspect(now, index, reason, sink);
            }
            What::Down => self.suspect(now, index, (StateCode::NONE, SERVICE_DOWN_TEXT), sink),
            What::DownSince(sequence) => {
                if item.life.on_service_status(sequence) == Act::Doubt {
                    if let Some(recall) = &mut item.recall {
                        let bytes_max = self.config.held_bytes_max;
                        recall.note(sequence, Kind::Status, &service_status(), bytes_max);
                    }
                    self.suspect(now, index, (StateCode::NONE, SERVICE_DOWN_TEXT), sink);
                }
            }
            What::Ask if item.life.phase() == Phase::Idle => self.request(index),
            What::Recheck if item.life.is_shown() && item.cached.state().data == DataState::Suspect => {
                self.request(index);
            }
            What::Ask | What::Recheck => {}
            What::SideLost(_)
            | What::SideDown(_)
            | What::SideDownSince(..)
            | What::Join(_)
            | What::SideLacks(..) => {
                hot::sweep_side(self, now, index, sweep.what, sink);
            }
            What::Resync(lacks) => self.resynchronise(now, index, (lacks, LOST), sink),
            What::Close => {
                let key = item.key.clone();
                let state = State::new(StreamState::ClosedRecover, DataState::Suspect)
                    .because(StateCode::SOURCE_UNKNOWN, "the service is no longer offered");
                let status = self.closing_status(key.as_key(), state);
                self.on_closed(now, index, &status, sink);
            }
        }
    }

    /// Something comes about an item: what sweeps have for it is done first. The item may be gone then.
    #[inline]
    pub(super) fn settle(&mut self, index: usize, sink: &mut impl ServerSink) {
        if self.cleanups.is_busy() {
            self.settle_now(index, sink);
        }
    }

    /// The same for the item of a stream. The stream may be closed then.
    pub(super) fn settle_stream(&mut self, watcher: Watcher, sink: &mut impl ServerSink) {
        let client = self.clients.get(watcher.client);
        if let Some(index) = client.and_then(|c| c.streams.get(&watcher.stream_id)).map(|s| s.index()) {
            self.settle(index, sink);
        }
    }

    /// The item of a key, with nothing of a sweep left for it.
    pub(super) fn find_settled(&mut self, key: ItemKey<'_>, sink: &mut impl ServerSink) -> Option<usize> {
        let index = self.find(key)?;
        if !self.cleanups.is_busy() {
            return Some(index);
        }
        self.settle_now(index, sink);
        self.find(key)
    }

    #[cold]
    #[inline(never)]
    fn settle_now(&mut self, index: usize, sink: &mut impl ServerSink) {
        let now = self.cleanups.granted_at;
        // There are few: of each kind one at most.
        for at in 0.. {
            let Some(item) = self.table.get(index) else { return };
            let sweeps = self.sources.services.get(&item.key.service).map(|service| &service.sweeps);
            let Some(&sweep) = sweeps.and_then(|sweeps| sweeps.get(at)) else { return };
            self.sweep_item(now, index, sweep, sink);
        }
    }
}

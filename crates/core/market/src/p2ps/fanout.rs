//! From streams and links to the watchers of an item.

use rwf::{
    DataState, DecodeError, GenericMsg, Key, MsgClass, RefreshMsg, State, StateCode, StatusMsg, StreamState,
    UpdateMsg, peek,
};
use units::Nanos;

use super::audience::{Audience, Form, Group, Newcomer, Unusable};
use super::base::Watcher;
use super::client::{Changed, clock_ms};
use super::held::HeldMessage;
use super::item::Item;
use super::items::{WatchedItems, change_life};
use super::kept;
use super::ledger::{Fate, before};
use super::life::{Act, Input};
use super::moves::Moves;
use super::notices::ServerNotice;
use super::sink::ServerSink;
use crate::backbone::Kind;
use crate::cached::RefreshForm;

const UNUSABLE: &str = "a message from the source distributor could not be used";

/// What clients get with an image that has come too late, while another one is on its way.
const ASKED_AGAIN: &str = "the image lacks updates, another one is on its way";

/// From instances to clients.
impl WatchedItems {
    /// A generic message for all who watch an item.
    fn apply_generic(
        &mut self,
        index: usize,
        body: &[u8],
        sink: &mut impl ServerSink,
    ) -> Result<(), DecodeError> {
        let msg = GenericMsg::parse(body)?;
        let watchers = self.table[index].audience.everyone();
        self.counters.generics_out.add(watchers.len() as u64);
        let service = self.table[index].key.service;
        let (watchers, aliased) = match msg.key.filter(|_| !self.composed.is_empty()) {
            Some(_) => self.by_alias(&watchers),
            None => (watchers, Vec::new()),
        };
        for (alias, watchers) in aliased {
            let msg = GenericMsg { key: Some(alias.key.as_key().to_key()), ..msg };
            sink.fan_out(&watchers, self.encoding.encode(|w| msg.encode(w)));
        }
        match msg.key.filter(|key| key.service_id.is_some_and(|id| id != service)) {
            None => sink.fan_out(&watchers, body),
            Some(key) => {
                let key = Some(Key { service_id: Some(service), ..key });
                let msg = GenericMsg { key, ..msg };
                sink.fan_out(&watchers, self.encoding.encode(|w| msg.encode(w)));
            }
        }
        Ok(())
    }
}

impl WatchedItems {
    /// A message of the active stream about an item that is watched here.
    #[inline]
    pub(super) fn on_item_message(
        &mut self,
        now: Nanos,
        index: usize,
        sequence: u64,
        kind: Kind,
        body: &[u8],
        sink: &mut impl ServerSink,
    ) {
        if self.cleanups.is_busy() && !self.is_left(index, kind, sink) {
            return;
        }
        let Some(item) = self.table.get_mut(index) else { return };
        match item.life.on_message(sequence) {
            Act::Apply => {
                if let Some(recall) = &mut item.recall {
                    recall.note(sequence, kind, body, self.config.held_bytes_max);
                }
                return self.apply(now, index, kind, body, sink);
            }
            Act::DropStale => self.counters.updates_stale.inc(),
            Act::Hold => {
                self.counters.updates_held.inc();
                if !item.life.hold(sequence, kind, body, self.config.held_bytes_max) {
                    self.counters.held_overflows.inc();
                }
            }
            Act::Renew => renew(self, now, index, sink),
            // What comes before the request is sent is in the image that answers it; not in one that is on
            // its way already.
            _ => {}
        }
        if kind == Kind::Update {
            let account = self.table[index].account;
            self.ledger.account(account).taken.in_images += 1;
        }
    }

    /// Applies a message to the image and passes it on.
    #[inline]
    fn apply(&mut self, now: Nanos, index: usize, kind: Kind, body: &[u8], sink: &mut impl ServerSink) {
        let result = match kind {
            Kind::Update => self.apply_update(now, index, body, sink),
            Kind::Refresh => self.apply_refresh(now, index, body, sink).map_err(Unusable::from),
            Kind::Status => self.apply_status(now, index, body, sink).map_err(Unusable::from),
            Kind::Close => {
                self.on_closed(now, index, body, sink);
                Ok(())
            }
            Kind::Generic => self.apply_generic(index, body, sink).map_err(Unusable::from),
            Kind::Open
            | Kind::OpenInFull
            | Kind::Heartbeat
            | Kind::Directory
            | Kind::ServiceStatus
            | Kind::Unknown(_) => Ok(()),
        };
        if result.is_err() {
            // The image has missed something that the provider meant.
            self.notice_unusable(now, index, sink);
            if let Some(lacks) = self.table.get(index).and_then(|item| item.life.image_after()) {
                self.resynchronise(now, index, (lacks, UNUSABLE), sink);
            }
            self.send_requests(now, sink);
        }
    }

    /// Counts a message about an item that cannot be used, and reports it, of many not each.
    #[cold]
    fn notice_unusable(&mut self, now: Nanos, index: usize, sink: &mut impl ServerSink) {
        self.counters.messages_refused.inc();
        if let (Some(item), Some(held_back)) = (self.table.get(index), self.sources.ration.take(now)) {
            sink.notice(&ServerNotice::Unusable { item: item.key.as_key(), held_back });
        }
    }

    /// What an instance says of one item cannot be used: the item is suspect, and its image asked for again
    /// when it is overdue.
    #[cold]
    pub(super) fn spoil(&mut self, now: Nanos, index: usize, sink: &mut impl ServerSink) {
        self.notice_unusable(now, index, sink);
        self.table[index].life.receive(None);
        self.suspect(now, index, (StateCode::ERROR, UNUSABLE), sink);
    }

    /// Most streams take the provider's bytes; the others get them once for each form that is wanted.
    #[inline]
    fn apply_update(
        &mut self,
        now: Nanos,
        index: usize,
        body: &[u8],
        sink: &mut impl ServerSink,
    ) -> Result<(), Unusable> {
        self.counters.updates_in.inc();
        let Ok(msg) = UpdateMsg::parse(body) else { return self.count_unusable(index) };
        let is_kept = msg.do_not_conflate || msg.do_not_cache;
        if is_kept && self.table[index].audience.changed_count() > 0 {
            self.send_pending(now, index, sink);
        }
        let WatchedItems { table: items, clients, counters, rules, form_room, refused, ledger, .. } = self;
        let item = &mut items[index];
        item.forget_changes();
        if item.cached.on_update(&msg, rules).is_err() {
            return self.count_unusable(index);
        }
        item.count_update();
        // Values that no image holds cannot be sent later.
        let may_refuse = !is_kept && item.cached.has_all_updates();
        let (mut result, mut sent, mut outside) = (Ok(()), 0, 0);
        for Group { form, watchers } in item.audience.active() {
            let bytes = if form.has(&msg) {
                body
            } else {
                match form.update(&msg, item.key.as_key(), form_room) {
                    Ok(Some(bytes)) => bytes,
                    Ok(None) => {
                        outside += watchers.len() as u64;
                        continue;
                    }
                    Err(unusable) => {
                        result = Err(unusable);
                        break;
                    }
                }
            };
            let refused_before = refused.len();
            if may_refuse && form.interval_ms > 0 {
                let its_turn = clients.split_by_turn(now, watchers, form.interval_ms, refused);
                sink.fan_out_update(&its_turn, bytes, refused);
            } else if may_refuse {
                sink.fan_out_update(watchers, bytes, refused);
            } else {
                sink.fan_out(watchers, bytes);
            }
            sent += (watchers.len() - (refused.len() - refused_before)) as u64;
        }
        counters.updates_out.add(sent);
        let (active, owed) = (item.audience.active_count() as u64, item.audience.owed_count() as u64);
        let account = ledger.account(item.account);
        account.taken.applied += 1;
        account.clients.due += active + owed;
        account.clients.delivered += if units::planted(units::Bug::CountsTwice) { 2 * sent } else { sent };
        if owed > 0 {
            counters.updates_conflated.add(item.audience.changed_count() as u64);
            item.waiting += owed;
            account.clients.waiting += owed;
        }
        if outside > 0 || result.is_err() {
            counters.updates_outside_views.add(outside);
            account.clients.outside_views += outside;
            // Of those that come behind a form that it cannot be put into nobody gets it.
            account.clients.unusable += active - sent - outside - refused.len() as u64;
        }
        if !refused.is_empty() {
            item.cached.track_changes(Some(&msg));
            note_changes(self, now, index, sink);
        }
        result
    }

    /// A new image that the provider sent to everybody.
    pub(super) fn apply_refresh(
        &mut self,
        now: Nanos,
        index: usize,
        body: &[u8],
        sink: &mut impl ServerSink,
    ) -> Result<(), DecodeError> {
        let msg = RefreshMsg::parse(body)?;
        if is_older_and_suspect(&self.table[index], &msg) {
            let item = &self.table[index];
            let (id, after) = (item.id.unwrap_or_default(), item.life.image_after().unwrap_or_default());
            keep_newer(self, now, (index, id), (after, &msg.state), sink);
            return Ok(());
        }
        let item = &mut self.table[index];
        match (item.cached.on_refresh(&msg, &self.rules)?, msg.state.stream) {
            (false, _) => {}
            (true, StreamState::Open) => {
                self.count_suspect(index);
                self.send_refreshes(now, index, sink);
                kept::note_here(self, now, index, sink);
            }
            (true, _) => self.end_with_image(index, sink),
        }
        Ok(())
    }

    fn apply_status(
        &mut self,
        now: Nanos,
        index: usize,
        body: &[u8],
        sink: &mut impl ServerSink,
    ) -> Result<(), DecodeError> {
        let msg = StatusMsg::parse(body)?;
        self.send_pending(now, index, sink);
        let item = &mut self.table[index];
        item.cached.on_status(&msg);
        self.count_suspect(index);
        if let Some(state) = msg.state.filter(|state| state.data == DataState::Suspect) {
            let closing = self.table[index].audience.take_closing(false);
            self.close_streams(now, index, closing, (state.code, &state.text_lossy()), sink);
        }
        let audience = &self.table[index].audience;
        // That all is well would not be so for who still has the image before.
        let is_bad = msg.state.is_none_or(|state| state.data == DataState::Suspect);
        let watchers = if is_bad { audience.everyone() } else { audience.everyone_with_image() };
        self.counters.statuses_out.add(watchers.len() as u64);
        let service = self.table[index].key.service;
        self.fan_out_status(service, &watchers, body, sink);
        self.look_composed(now, index, sink);
        Ok(())
    }

    /// One part of an image that this server asked for.
    #[allow(clippy::too_many_arguments)]
    pub(super) fn on_image(
        &mut self,
        now: Nanos,
        index: usize,
        id: u32,
        after: u64,
        refresh: &[u8],
        sink: &mut impl ServerSink,
    ) -> Result<(), DecodeError> {
        self.counters.images_in.inc();
        let msg = RefreshMsg::parse(refresh)?;
        if msg.part_num.unwrap_or(0) == 0 {
            let due = &mut self.table[index].answers_due;
            *due = due.saturating_sub(1);
        }
        if !self.table[index].life.awaits_image() {
            return kept::on_image(self, now, index, (id, after), &msg, sink);
        }
        // An image that ends its stream is all there is: no update follows that it would have to fit.
        let is_last = msg.state.stream != StreamState::Open;
        if is_last && msg.part_num.unwrap_or(0) == 0 {
            self.table[index].life.receive(Some(after));
        } else if msg.part_num.unwrap_or(0) == 0 {
            let was_bound = self.table[index].id == Some(id);
            let joins = self.bind(index, id) && self.joins_stream(index, after, was_bound);
            self.table[index].life.receive(joins.then_some(after));
            if !joins {
                self.request(index);
                self.send_requests(now, sink);
                return Ok(());
            }
            if is_older_and_suspect(&self.table[index], &msg) {
                keep_newer(self, now, (index, id), (after, &msg.state), sink);
                return Ok(());
            }
        }
        let item = &mut self.table[index];
        if !item.life.receives(after) || !item.cached.on_refresh(&msg, &self.rules)? {
            return Ok(());
        }
        item.life.receive(None);
        if is_last {
            self.end_with_image(index, sink);
            self.send_requests(now, sink);
            return Ok(());
        }
        if !item.life.accepts_image(after) {
            // Who comes until there is another one gets this, marked as what it is.
            item.cached.suspect(StateCode::NONE, ASKED_AGAIN);
            self.count_suspect(index);
            self.request(index);
            self.send_requests(now, sink);
            return Ok(());
        }
        let held = show_image(self, now, index, after, sink);
        release_held(self, now, (index, id), held, sink);
        self.send_requests(now, sink);
        Ok(())
    }

    /// Sends the present image: as an answer to those who wait for their first, unasked to the others.
    fn send_refreshes(&mut self, now: Nanos, index: usize, sink: &mut impl ServerSink) {
        close_if_suspect(self, now, index, sink);
        self.defer_images(index, sink);
        let audience = std::mem::take(&mut self.table[index].audience);
        for Group { form, watchers } in audience.active() {
            self.send_image(index, form, watchers, false, sink);
        }
        self.table[index].audience = audience;
        serve_newcomers(self, now, index, sink);
        self.look_composed(now, index, sink);
    }

    /// Sends the image that ends an item to everybody; item and streams are gone then.
    pub(super) fn end_with_image(&mut self, index: usize, sink: &mut impl ServerSink) {
        let mut audience = std::mem::take(&mut self.table[index].audience);
        let watchers = audience.everyone();
        let mut waiting = Audience::default();
        for Newcomer { watcher, form, .. } in audience.take_newcomers() {
            waiting.add(watcher, &form, false);
        }
        for Group { form, watchers } in audience.groups() {
            self.send_image(index, form, watchers, false, sink);
        }
        for Group { form, watchers } in waiting.groups() {
            self.send_image(index, form, watchers, true, sink);
        }
        let waiting = self.table[index].waiting;
        self.settle_owed(index, waiting, Fate::InImage);
        self.remove(index);
        for watcher in watchers {
            self.forget_stream(watcher);
        }
    }

    /// Sends the present image to streams that want it in one form.
    pub(super) fn send_image(
        &mut self,
        index: usize,
        form: &Form,
        watchers: &[Watcher],
        solicited: bool,
        sink: &mut impl ServerSink,
    ) {
        if self.table[index].cached.is_away() {
            return kept::wait(self, index, watchers, solicited, sink);
        }
        let WatchedItems { table: items, counters, scratch, form_room, .. } = self;
        let item = &mut items[index];
        item.image_use.was_sent = true;
        let refresh_form = RefreshForm { solicited, part_bytes: form.part_bytes };
        item.cached.encode_refresh(item.key.as_key(), refresh_form, scratch, |bytes| {
            match form.refresh(bytes, form_room) {
                Ok(bytes) => {
                    counters.refreshes_out.add(watchers.len() as u64);
                    sink.fan_out(watchers, bytes);
                }
                Err(Unusable) => counters.messages_refused.inc(),
            }
        });
    }

    /// What an instance says about an item to this server alone: it is closed, or has to wait.
    pub(super) fn on_item_status(
        &mut self,
        now: Nanos,
        index: usize,
        status: &[u8],
        sink: &mut impl ServerSink,
    ) -> Result<(), DecodeError> {
        if peek(status)?.class != MsgClass::Status {
            return Err(DecodeError::OtherMsgClass {
                class: peek(status)?.class as u8,
                wanted: MsgClass::Status as u8,
            });
        }
        match StatusMsg::parse(status)?.state {
            Some(state) if state.stream != StreamState::Open => self.on_closed(now, index, status, sink),
            state => {
                self.on_input(index, Input::Wait);
                kept::let_wait(self, index);
                match state {
                    Some(_) => self.apply_status(now, index, status, sink)?,
                    // The image takes its time.
                    None => {
                        let item = &self.table[index];
                        sink.image_waits(&item.audience.newcomers(), item.key.as_key());
                    }
                }
            }
        }
        self.send_requests(now, sink);
        Ok(())
    }
}

/// Streams of an item were not sent its last update.
#[cold]
fn note_changes(items: &mut WatchedItems, now: Nanos, index: usize, sink: &mut impl ServerSink) {
    let mut refused = std::mem::take(&mut items.refused);
    items.counters.updates_conflated.add(refused.len() as u64);
    let (all, mut changed) = (refused.len() as u64, 0);
    let mut recalling = Vec::new();
    if units::planted(units::Bug::ForgetsConflated) {
        refused.clear();
    }
    for watcher in refused.drain(..) {
        let Some(client) = items.clients.get_mut(watcher.client) else { continue };
        let Some(stream) = client.streams.get(&watcher.stream_id) else { continue };
        let item = &mut items.table[index];
        let (form, updates, is_away) = (&stream.form, item.updates, item.cached.is_away());
        let was_active = stream.index() == index
            && match is_away {
                true => item.audience.defer_one(watcher, form),
                false => item.audience.change(watcher, form),
            };
        if !was_active {
            continue;
        }
        changed += 1;
        let interval_ms = form.interval_ms;
        if is_away {
            items.clients.begin_due(watcher, before(updates));
        } else {
            let first = Changed { from: updates, at_ms: clock_ms(now) };
            client.conflation.changed.insert(watcher.stream_id, first);
        }
        match interval_ms {
            0 if is_away => recalling.push(watcher),
            0 => items.clients.enqueue_due(watcher),
            _ => items.clients.await_turn(watcher, interval_ms),
        }
    }
    items.refused = refused;
    if !recalling.is_empty() {
        kept::recall(items, index, &recalling, sink);
    }
    let item = &mut items.table[index];
    item.waiting += changed;
    let clients = &mut items.ledger.account(item.account).clients;
    clients.waiting += changed;
    // The others are of clients that are gone.
    clients.ended += all - changed;
}

/// An image that is to be shown is suspect: streams that want none such are closed.
pub(super) fn close_if_suspect(
    items: &mut WatchedItems,
    now: Nanos,
    index: usize,
    sink: &mut impl ServerSink,
) {
    let item = &mut items.table[index];
    if item.cached.state_to_send().data == DataState::Suspect {
        let closing = item.audience.take_closing(false);
        let text = "the data cannot be trusted at present";
        items.close_streams(now, index, closing, (StateCode::NONE, text), sink);
    }
}

/// Sends the image to those who wait for their first; who lags gets it later.
pub(super) fn serve_newcomers(
    items: &mut WatchedItems,
    now: Nanos,
    index: usize,
    sink: &mut impl ServerSink,
) {
    let newcomers = items.table[index].audience.take_newcomers();
    let newcomers = items.defer_newcomers(index, newcomers, sink);
    if let [alone] = &newcomers[..] {
        items.send_image(index, &alone.form, &[alone.watcher], true, sink);
    } else if !newcomers.is_empty() {
        let mut waiting = Audience::default();
        newcomers.iter().for_each(|newcomer| waiting.add(newcomer.watcher, &newcomer.form, false));
        for Group { form, watchers } in waiting.active() {
            items.send_image(index, form, watchers, true, sink);
        }
    }
    for Newcomer { watcher, form, is_paused, .. } in newcomers {
        if form.is_snapshot {
            items.forget_stream(watcher);
        } else {
            items.table[index].audience.add(watcher, &form, is_paused);
        }
    }
    items.start_linger(now, index);
}

/// A whole image is there that was awaited; returns what has waited for it.
fn show_image(
    items: &mut WatchedItems,
    now: Nanos,
    index: usize,
    after: u64,
    sink: &mut impl ServerSink,
) -> Vec<HeldMessage> {
    items.table[index].was_live = true;
    let held = change_life(items, index, |life| life.on_image(after)).unwrap_or_default();
    items.count_suspect(index);
    items.send_refreshes(now, index, sink);
    kept::note_here(items, now, index, sink);
    held
}

/// What was held for an image comes behind it.
fn release_held(
    items: &mut WatchedItems,
    now: Nanos,
    (index, id): (usize, u32),
    held: Vec<HeldMessage>,
    sink: &mut impl ServerSink,
) {
    for (sequence, kind, body) in held {
        // Applying one may close the item or send it back to be asked for.
        if let Some(item) = items.table.get(index).filter(|item| item.id == Some(id)) {
            if kind == Kind::Update {
                // It is counted anew.
                items.ledger.account(item.account).taken.in_images -= 1;
            }
            items.on_item_message(now, index, sequence, kind, &body, sink);
        }
    }
}

/// The instance says more of an item whose image here is newer than its own: it is asked for that.
#[cold]
fn renew(items: &mut WatchedItems, now: Nanos, index: usize, sink: &mut impl ServerSink) {
    items.enqueue(index);
    items.send_requests(now, sink);
}

/// Whether an image says less than what is here: another instance or provider has come further, and this one is lost. The
/// sides of a hot service are told apart before (`side_images`).
fn is_older_and_suspect(item: &Item, msg: &RefreshMsg<'_>) -> bool {
    msg.state.data == DataState::Suspect
        && msg.state.stream == StreamState::Open
        && msg.part_num.unwrap_or(0) == 0
        && item.hot.is_none()
        && item.cached.has_image()
        && item.cached.is_newer_than(msg.seq_num)
}

/// The image that has come is older than what clients have had, and suspect: it brings its state alone.
fn keep_newer(
    items: &mut WatchedItems,
    now: Nanos,
    (index, id): (usize, u32),
    (after, state): (u64, &State<'_>),
    sink: &mut impl ServerSink,
) {
    let life = &mut items.table[index].life;
    life.receive(None);
    if !life.accepts_image(after) {
        items.request(index);
        items.send_requests(now, sink);
        return;
    }
    let held = change_life(items, index, |life| life.on_older_image(after)).unwrap_or_default();
    items.counters.images_older.inc();
    items.suspect(now, index, (state.code, &state.text_lossy()), sink);
    close_if_suspect(items, now, index, sink);
    serve_newcomers(items, now, index, sink);
    items.look_composed(now, index, sink);
    release_held(items, now, (index, id), held, sink);
    items.send_requests(now, sink);
}

/// One part of an image of a hot service's item, which is awaited. What has waited for it waits at its side.
pub(super) fn receive_image(
    items: &mut WatchedItems,
    now: Nanos,
    index: usize,
    after: u64,
    refresh: &[u8],
    sink: &mut impl ServerSink,
) -> Result<(), DecodeError> {
    let msg = RefreshMsg::parse(refresh)?;
    if items.table[index].cached.on_refresh(&msg, &items.rules)? {
        show_image(items, now, index, after, sink);
    }
    Ok(())
}

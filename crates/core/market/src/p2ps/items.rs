//! The items that clients watch, and what their watchers get.
//!
//! What clients ask for is taken apart above it ([`super::PointToPoint`]), and what source distributors say in
//! [`super::instances`]; nothing here depends on these.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use counters::table::PointToPoint as Counters;
use rwf::{DataState, Key, State, StateCode, StatusMsg, StreamState, UpdateMsg};
use units::Nanos;

use super::audience::{Form, FormRoom, Group, Unusable};
use super::base::{ServerConfig, Watcher};
use super::client::ClosedStream;
use super::client_table::{Clients, Lacked};
use super::composed::{Alias, Composed};
use super::conversations::Conversations;
use super::item::Item;
use super::ledger::{Fate, Ledger};
use super::life::{Life, Phase};
use super::merge::{Following, SideNo};
use super::moves::Moves;
use super::queue::Requests;
use super::recall::KeptImages;
use super::service::Service;
use super::sink::ServerSink;
use super::sources::{Source, Sources};
use super::stream::Incoming;
use super::sweep::Cleanups;
use crate::backbone::Kind;
use crate::busiest::Busiest;
use crate::cached::{Conflated, Scratch};
use crate::encoding::Encoding;
use crate::image::FieldRules;
use crate::key::{ItemKey, OwnedKey};
use crate::key_index::KeyIndex;
use crate::table::Table;

/// The streams that know an item by an alias.
pub(super) type OfAlias = (Arc<Alias>, Vec<Watcher>);

/// The items that clients watch, with the clients and with what they come from.
pub(super) struct WatchedItems {
    pub(super) config: Arc<ServerConfig>,
    pub(super) sources: Sources,
    pub(super) clients: Clients,
    pub(super) conversations: Conversations,
    pub(super) table: Table<Item>,
    /// Items that clients know by other keys.
    pub(super) composed: Composed,
    index: KeyIndex,
    pub(super) busiest: Busiest,
    next_serial: u64,
    pub(super) recovery: Requests,
    pub(super) kept: KeptImages,
    pub(super) lingering: VecDeque<(Nanos, usize, u64)>,
    pub(super) cleanups: Cleanups,
    /// Changes with what [`super::PointToPoint::services`] tells.
    pub(super) services_version: u64,
    pub(super) rules: FieldRules,
    pub(super) form_room: FormRoom,
    /// Streams that were not sent an update, until it is through; kept for its room.
    pub(super) refused: Vec<Watcher>,
    pub(super) scratch: Scratch,
    pub(super) encoding: Encoding,
    pub(super) ledger: Ledger,
    pub(super) counters: Arc<Counters>,
}

impl WatchedItems {
    pub(super) fn new(
        config: &Arc<ServerConfig>,
        rules: FieldRules,
        counters: &Arc<Counters>,
    ) -> WatchedItems {
        let mut sources = Sources::new(Arc::clone(counters));
        let interval_of = |name: &str| config.service_interval(name);
        WatchedItems {
            config: Arc::clone(config),
            composed: Composed::new(&config.composed, interval_of, |name| sources.reserve(name)),
            sources,
            clients: Clients::new(Arc::clone(config), Arc::clone(counters)),
            conversations: Conversations::new(Arc::clone(counters)),
            table: Table::default(),
            index: KeyIndex::default(),
            busiest: Busiest::default(),
            next_serial: 0,
            recovery: Requests::default(),
            kept: KeptImages::new(config.kept_images_max),
            lingering: VecDeque::new(),
            cleanups: Cleanups::new(config.cleanups_per_turn),
            services_version: 0,
            rules,
            form_room: FormRoom::default(),
            refused: Vec::new(),
            scratch: Scratch::default(),
            encoding: Encoding::default(),
            ledger: Ledger::default(),
            counters: Arc::clone(counters),
        }
    }
}

impl WatchedItems {
    pub(super) fn end_private(&mut self, number: u64, watcher: Watcher) {
        if let Some(client) = self.clients.get_mut(watcher.client) {
            let was_open = client.private.remove(&watcher.stream_id).is_some();
            self.clients.count_watchers(-i64::from(was_open));
        }
        self.conversations.end(number);
    }
}

/// Streams whose updates are conflated, as `changed` explains.
impl WatchedItems {
    /// Sends the newest state of an item to its streams that have changed: something follows that keeps its order.
    pub(super) fn send_pending(&mut self, now: Nanos, index: usize, sink: &mut impl ServerSink) {
        let Some(item) = self.table.get_mut(index).filter(|item| item.audience.changed_count() > 0) else {
            return;
        };
        let (is_known, last) = (item.cached.has_image(), item.updates);
        for Group { form, watchers } in item.audience.take_all_changed() {
            for watcher in watchers {
                let lacked = self.clients.settle_change(watcher, last);
                if is_known {
                    self.send_newest(now, index, &form, (watcher, lacked), sink);
                } else {
                    self.settle_owed(index, lacked.updates, Fate::InImage);
                }
            }
        }
        self.settle_rest(index);
        self.table[index].forget_changes();
    }

    /// Sends the newest values of an item to a stream that was not sent so many of the last updates: what these have
    /// changed, or the image if an update cannot say it or the data is suspect.
    pub(super) fn send_newest(
        &mut self,
        now: Nanos,
        index: usize,
        form: &Form,
        (watcher, lacked): (Watcher, Lacked),
        sink: &mut impl ServerSink,
    ) {
        self.clients.begin_interval(now, watcher, form.interval_ms);
        let fate = self.send_changes(now, index, form, (watcher, lacked), sink);
        self.settle_owed(index, lacked.updates, fate);
        if fate == Fate::InImage {
            self.send_image(index, form, &[watcher], false, sink);
        }
    }

    /// Sends a stream the newest values of what has changed, if an update can say it; what became of the updates that it
    /// was not sent. `Fate::InImage` if it has to be sent an image.
    fn send_changes(
        &mut self,
        now: Nanos,
        index: usize,
        form: &Form,
        (watcher, lacked): (Watcher, Lacked),
        sink: &mut impl ServerSink,
    ) -> Fate {
        let WatchedItems { table: items, counters, scratch, form_room, .. } = self;
        let (cached, key) = (&items[index].cached, items[index].key.as_key());
        if cached.state_to_send().data == DataState::Suspect {
            // After a suspect state comes an image, not an update.
            return Fate::InImage;
        }
        let since = cached.version().saturating_sub(lacked.updates);
        let waited_ms = form.conflation_info.then(|| lacked.waited_ms(now));
        let bytes = match cached.encode_changes(key, since, waited_ms, scratch) {
            Conflated::Update(bytes) => bytes,
            Conflated::Nothing => return Fate::Conflated,
            Conflated::NeedsImage => return Fate::InImage,
        };
        let Ok(msg) = UpdateMsg::parse(bytes) else { return Fate::Unusable };
        let bytes = if form.has(&msg) { Ok(Some(bytes)) } else { form.update(&msg, key, form_room) };
        match bytes {
            Ok(Some(bytes)) => {
                counters.updates_out.inc();
                sink.fan_out(&[watcher], bytes);
                Fate::Conflated
            }
            Ok(None) => {
                counters.updates_outside_views.inc();
                Fate::OutsideView
            }
            Err(_) => {
                counters.messages_refused.inc();
                Fate::Unusable
            }
        }
    }
}

/// What is counted of updates and of what streams wait for (`ledger`).
impl WatchedItems {
    /// So many updates that a stream of an item has waited for have come to an end.
    pub(super) fn settle_owed(&mut self, index: usize, updates: u64, fate: Fate) {
        let Some(item) = self.table.get_mut(index) else { return };
        debug_assert!(updates <= item.waiting, "{:?}: {updates} of {}", item.key, item.waiting);
        let updates = updates.min(item.waiting);
        item.waiting -= updates;
        self.ledger.account(item.account).clients.settle(updates, fate);
    }

    /// A stream of the backbone is gone.
    pub(super) fn close_account(&mut self, mut stream: Incoming) {
        stream.drop_behind();
        self.ledger.close_stream(stream.account, stream.counts(), stream.lost_ranges());
    }

    /// What streams of an item have waited for is settled. If none waits now, what is left was for streams of clients that
    /// are gone.
    pub(super) fn settle_rest(&mut self, index: usize) {
        let Some(item) = self.table.get_mut(index) else { return };
        if item.waiting > 0 && item.audience.owed_count() == 0 {
            let waiting = std::mem::take(&mut item.waiting);
            self.ledger.account(item.account).clients.settle(waiting, Fate::Ended);
        }
    }

    /// A stream was taken off its client's list.
    pub(super) fn settle_closed(&mut self, closed: &ClosedStream) {
        let stream = &closed.stream;
        let item = self.table.get(stream.index()).filter(|item| stream.is_of(item));
        if let Some(last) = item.map(|item| item.updates) {
            self.settle_owed(stream.index(), closed.owed(last), Fate::Ended);
        }
    }

    /// All that streams of an item wait for has come to an end.
    pub(super) fn settle_item(&mut self, item: &mut Item, fate: Fate) {
        let waiting = std::mem::take(&mut item.waiting);
        self.ledger.account(item.account).clients.settle(waiting, fate);
    }

    /// A stream is not to be sent what it has waited for any more: what it waits for ends so.
    pub(super) fn settle_waiting(&mut self, watcher: Watcher, index: usize, fate: Fate) {
        let last = self.table[index].updates;
        let owed = self.clients.settle_change(watcher, last).updates + self.clients.settle_due(watcher, last);
        self.settle_owed(index, owed, fate);
        self.settle_rest(index);
    }

    /// Whether an item is there after what clean-ups have for it is done. A message about one that is not is dropped.
    #[cold]
    #[inline(never)]
    pub(super) fn is_left(&mut self, index: usize, kind: Kind, sink: &mut impl ServerSink) -> bool {
        let account = self.table.get(index).map_or(0, |item| item.account);
        self.settle(index, sink);
        let is_left = self.table.contains(index);
        if !is_left && kind == Kind::Update {
            self.ledger.account(account).taken.unwatched += 1;
        }
        is_left
    }

    /// An update that nobody gets, because it cannot be read.
    #[cold]
    pub(super) fn count_unusable(&mut self, index: usize) -> Result<(), Unusable> {
        let account = self.table[index].account;
        self.ledger.account(account).taken.unusable += 1;
        Err(Unusable)
    }
}

impl WatchedItems {
    /// Ends streams that want no data that cannot be trusted; their clients may ask again.
    pub(super) fn close_streams(
        &mut self,
        now: Nanos,
        index: usize,
        watchers: Vec<Watcher>,
        (code, text): (StateCode, &str),
        sink: &mut impl ServerSink,
    ) {
        if watchers.is_empty() {
            return;
        }
        let key = self.table[index].key.clone();
        let state = State::new(StreamState::ClosedRecover, DataState::Suspect).because(code, text);
        let status = self.closing_status(key.as_key(), state);
        self.counters.statuses_out.add(watchers.len() as u64);
        self.fan_out_status(key.service, &watchers, &status, sink);
        for watcher in watchers {
            self.forget_stream(watcher);
        }
        self.settle_rest(index);
        self.start_linger(now, index);
    }

    /// Tells everybody on an item about a state.
    fn report_state(&mut self, index: usize, state: State<'_>, sink: &mut impl ServerSink) {
        let item = &self.table[index];
        let watchers = item.audience.everyone();
        let key = item.key.as_key();
        let msg = StatusMsg { state: Some(state), ..StatusMsg::new(key.domain, 0, rwf::DataType::NO_DATA) };
        self.counters.statuses_out.add(watchers.len() as u64);
        sink.fan_out(&watchers, self.encoding.encode(|w| msg.encode(w)));
    }

    /// The item is closed upstream: its streams end with that status.
    pub(super) fn on_closed(&mut self, now: Nanos, index: usize, status: &[u8], sink: &mut impl ServerSink) {
        self.send_pending(now, index, sink);
        self.refuse_composed(now, index, sink);
        let item = self.remove(index);
        let watchers = item.audience.everyone();
        self.counters.statuses_out.add(watchers.len() as u64);
        let is_closing = StatusMsg::parse(status)
            .is_ok_and(|s| s.state.is_some_and(|state| state.stream != StreamState::Open));
        if is_closing {
            self.fan_out_status(item.key.service, &watchers, status, sink);
        } else {
            let state = State::new(StreamState::ClosedRecover, DataState::Suspect);
            let bytes = self.closing_status(item.key.as_key(), state);
            self.fan_out_status(item.key.service, &watchers, &bytes, sink);
        }
        for watcher in watchers {
            self.forget_stream(watcher);
        }
    }

    /// A status message with the id that clients see of its service.
    pub(super) fn in_service<'m>(&'m mut self, service: u16, status: &'m [u8]) -> &'m [u8] {
        let Ok(msg) = StatusMsg::parse(status) else { return status };
        match msg.key.filter(|key| key.service_id.is_some_and(|id| id != service)) {
            None => status,
            Some(key) => {
                let key = Some(Key { service_id: Some(service), ..key });
                let msg = StatusMsg { key, ..msg };
                self.encoding.encode(|w| msg.encode(w))
            }
        }
    }

    /// A status that ends a stream, with the item's key and stream id 0.
    pub(super) fn closing_status(&mut self, key: ItemKey<'_>, state: State<'_>) -> Vec<u8> {
        let msg = StatusMsg {
            state: Some(state),
            key: Some(key.to_key()),
            ..StatusMsg::new(key.domain, 0, rwf::DataType::NO_DATA)
        };
        self.encoding.encode(|w| msg.encode(w)).to_vec()
    }

    pub(super) fn find(&self, key: ItemKey<'_>) -> Option<usize> {
        self.index.find(&self.table, key)
    }

    /// The item of a key, made if nobody has watched it so far.
    pub(super) fn find_or_make(&mut self, key: ItemKey<'_>) -> usize {
        if let Some(index) = self.find(key) {
            return index;
        }
        self.next_serial += 1;
        let account = self.sources.services.get(&key.service).map_or(0, |service| service.account);
        let ripples = self.ripples_of(key.service);
        let swept = self.cleanups.last_sweep();
        let mut item = Item::new(key.to_owned(), (self.next_serial, swept), ripples, account);
        item.image_use.is_uncached = self.is_uncached(key.service);
        let index = self.table.insert(item);
        self.index.insert(&self.table, index);
        if let Some(service) = self.sources.services.get_mut(&key.service) {
            service.items.insert(index);
        }
        self.counters.items.set(self.table.len() as u64);
        self.count_suspect(index);
        index
    }

    /// Whether old values of a service's fields move to the fields that theirs ripple to.
    pub(super) fn ripples_of(&self, service: u16) -> bool {
        let service = self.sources.services.get(&service);
        !service.is_some_and(|service| self.config.unrippled.contains(&service.definition.info.name))
    }

    /// Whether images of a service are kept by the source distributor alone.
    fn is_uncached(&self, service: u16) -> bool {
        let service = self.sources.services.get(&service);
        service.is_some_and(|service| self.config.uncached.contains(&service.definition.info.name))
    }

    /// Removes an item for which nobody is registered any more.
    pub(super) fn remove(&mut self, index: usize) -> Item {
        self.forget_sides(index);
        let mut item = self.table.remove(index);
        item.recall.take().iter().for_each(|recall| self.kept.forget(recall));
        self.settle_item(&mut item, Fate::Ended);
        self.index.remove(index, item.key.as_key());
        self.recovery.count(item.life.phase(), Phase::Idle);
        if let Some(service) = self.sources.services.get_mut(&item.key.service) {
            service.items.remove(index);
            if let (Some(id), Some(source)) = (item.id, service.active_source())
                && let Some(Some(Source::Service { stream, .. })) =
                    self.sources.all.get_mut(source.0 as usize)
            {
                stream.unbind(id);
            }
        }
        self.counters.items.set(self.table.len() as u64);
        if item.is_counted_suspect {
            self.counters.items_suspect.set(self.counters.items_suspect.get().saturating_sub(1));
        }
        item
    }

    /// Marks an item suspect towards its watchers, who are notified unless they know already.
    pub(super) fn suspect(
        &mut self,
        now: Nanos,
        index: usize,
        (code, text): (StateCode, &str),
        sink: &mut impl ServerSink,
    ) {
        let item = &mut self.table[index];
        let was = item.cached.state();
        let is_news = was.data != DataState::Suspect || was.text != text;
        item.cached.suspect(code, text);
        self.count_suspect(index);
        let is_lost = self.is_lost(index);
        if is_lost {
            self.rescue_composed(now, index, sink);
        }
        let closing = self.table[index].audience.take_closing(is_lost);
        self.close_streams(now, index, closing, (code, text), sink);
        if is_news {
            let state = State::new(StreamState::Open, DataState::Suspect).because(code, text);
            self.report_state(index, state, sink);
        }
    }

    /// Whether nothing is behind an item at present: its service is down, or nobody publishes it.
    pub(super) fn is_lost(&self, index: usize) -> bool {
        let service = self.sources.services.get(&self.table[index].key.service);
        service.is_none_or(|service| service.active.is_none() || !service.definition.state.up)
    }

    /// Counts an item whose image or state may have changed among the suspect ones, or takes it out.
    pub(super) fn count_suspect(&mut self, index: usize) {
        let Some(item) = self.table.get_mut(index) else { return };
        let is_suspect = item.is_suspect();
        if std::mem::replace(&mut item.is_counted_suspect, is_suspect) != is_suspect {
            let (count, change) = (self.counters.items_suspect.get(), if is_suspect { 1 } else { -1 });
            self.counters.items_suspect.set(count.saturating_add_signed(change));
        }
    }
}

impl WatchedItems {
    /// Takes a stream off its client's list: the item is done with it.
    pub(super) fn forget_stream(&mut self, watcher: Watcher) {
        let known = self.clients.get_mut(watcher.client);
        if let Some(closed) = known.and_then(|c| c.take_stream(watcher.stream_id)) {
            closed.conversation.map(|number| self.conversations.end(number));
            self.clients.count_watchers(-1);
            self.settle_closed(&closed);
            self.leave_composed(&closed.stream.form);
        }
    }

    /// If nobody watches an item any more, it is given up after a while.
    pub(super) fn start_linger(&mut self, now: Nanos, index: usize) {
        let item = &mut self.table[index];
        if item.audience.is_empty() && item.lingers_until.is_none() {
            let until = now + self.config.item_linger;
            item.lingers_until = Some(until);
            self.lingering.push_back((until, index, item.serial));
        }
    }
}

impl WatchedItems {
    /// Lets an id of the active stream stand for an item. False if the id cannot be one.
    pub(super) fn bind(&mut self, index: usize, id: u32) -> bool {
        let item = &mut self.table[index];
        let source = self.sources.services.get(&item.key.service).and_then(Service::active_source);
        let Some(Some(Source::Service { stream, .. })) =
            source.and_then(|s| self.sources.all.get_mut(s.0 as usize))
        else {
            return false;
        };
        if item.id == Some(id) {
            return true;
        }
        if let Some(before) = item.id {
            stream.unbind(before);
        }
        let bound = stream.bind(id, index);
        item.id = bound.then_some(id);
        // What came before was not held for the item: an image without it answers an earlier request.
        item.life.note(stream.handed_on());
        bound
    }

    /// Whether an image taken after `sequence` and the stream of its item leave no hole between them.
    pub(super) fn joins_stream(&mut self, index: usize, sequence: u64, was_bound: bool) -> bool {
        let service = self.sources.services.get(&self.table[index].key.service);
        match service.and_then(Service::active_source).and_then(|s| self.sources.all.get_mut(s.0 as usize)) {
            Some(Some(Source::Service { stream, .. })) => stream.joins_image(sequence, was_bound),
            _ => false,
        }
    }
}

/// The image that was recalled is not the one that is needed: of an item that is not live any more an image for all comes.
pub(super) fn begin_recall_again(items: &mut WatchedItems, index: usize) {
    if let Some(recall) = &mut items.table[index].recall {
        items.kept.restart(recall);
    }
}

/// Something comes about an item that may move it to another state: the tables beside it follow.
pub(super) fn change_life<R>(
    items: &mut WatchedItems,
    index: usize,
    change: impl FnOnce(&mut Life) -> R,
) -> R {
    let life = &mut items.table[index].life;
    let before = life.phase();
    let result = change(life);
    let after = life.phase();
    items.recovery.count(before, after);
    if before == Phase::Live && after != Phase::Live {
        begin_recall_again(items, index);
    }
    result
}

/// Sides of hot services (`hot`).
impl WatchedItems {
    pub(super) fn unbind_side(&mut self, index: usize, side: SideNo) {
        let Some(item) = self.table.get_mut(index) else { return };
        let Some(id) = item.hot.as_mut().and_then(|merge| merge.sides[side].id.take()) else { return };
        let service = item.key.service;
        if let Some(source) = self.sources.source_of_side(service, side)
            && let Some(stream) = self.sources.stream_mut(source)
            && stream.item(id) == Some(index)
        {
            stream.unbind(id);
        }
    }

    /// An item is removed: its ids stand for nothing any more, and it is counted no more.
    pub(super) fn forget_sides(&mut self, index: usize) {
        if self.table[index].hot.is_none() {
            return;
        }
        for side in 0..2 {
            self.unbind_side(index, side);
        }
        let service = self.table[index].key.service;
        if let Some(pair) = self.sources.pair_mut(service) {
            pair.forget_arriving(index);
        }
        if let Some(merge) = self.table[index].hot.take() {
            self.count_following(merge.counted, None);
        }
    }

    pub(super) fn count_following(&self, before: Option<Following>, now: Option<Following>) {
        let gauge = |following| match following {
            Following::Both => &self.counters.hot_items,
            Following::One => &self.counters.hot_items_single,
            Following::Unnumbered => &self.counters.hot_items_unnumbered,
        };
        if before != now {
            before.map(gauge).iter().for_each(|gauge| gauge.set(gauge.get().saturating_sub(1)));
            now.map(gauge).iter().for_each(|gauge| gauge.set(gauge.get() + 1));
        }
    }
}

/// Streams of composed services.
impl WatchedItems {
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

    /// The key by which a stream was asked for, of an item.
    pub(super) fn key_for(&self, index: usize, watcher: Watcher) -> OwnedKey {
        let key = self.table[index].key.as_key();
        let stream = self.clients.get(watcher.client).and_then(|c| c.streams.get(&watcher.stream_id));
        stream.map_or(key, |stream| stream.form.shown_key(key)).to_owned()
    }

    /// Streams by the alias that they have, if they have one.
    pub(super) fn by_alias(&self, watchers: &[Watcher]) -> (Vec<Watcher>, Vec<OfAlias>) {
        let (mut own, mut others) = (Vec::new(), BTreeMap::<usize, OfAlias>::new());
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
        let parsed = (!self.composed.is_empty()).then(|| StatusMsg::parse(status).ok()).flatten();
        let Some(msg) = parsed.filter(|msg| msg.key.is_some()) else {
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

//! The table of items: what peers want, and what they get.
//!
//! It owns the items, and the providers and links behind them. What comes from a connection is taken apart above it
//! ([`super::Distributor`]); nothing here depends on that.

use std::sync::Arc;

use counters::table::Distributor as Counters;
use rwf::{DataState, Domain, Key, State, StateCode, StatusMsg, StreamState};
use units::Nanos;

use super::base::{DistributorConfig, PeerId, ProviderId, Timer};
use super::item::{Item, ItemSupply};
use super::ledger::{DistributorLedger, ProviderLedger};
use super::links::Links;
use super::provider::{Offer, Target};
use super::recall::{self, Recalls};
use super::sink::DistributorSink;
use super::spoilt_items::Spoilt;
use super::status::{
    CLOSED, NOT_FOUND, SUSPECT, TABLE_FULL, WAITING, close_at, report, report_asked, report_bytes,
    status_bytes,
};
use super::suppliers::Suppliers;
use super::sweep::Cleanups;
use super::timers::Timers;
use super::unknown::UnknownItems;
use crate::backbone::{Kind, LinkDown, StreamMsg};
use crate::busiest::Busiest;
use crate::cached::{CachedItem, RefreshForm, Scratch};
use crate::encoding::Encoding;
use crate::image::FieldRules;
use crate::key::ItemKey;
use crate::key_index::KeyIndex;
use crate::table::Table;

/// What there is, who supplies it, and who wants it.
pub(super) struct Items {
    pub(super) config: Arc<DistributorConfig>,
    pub(super) suppliers: Suppliers,
    pub(super) links: Links,
    pub(super) table: Table<Item>,
    index: KeyIndex,
    pub(super) busiest: Busiest,
    /// Items that peers want and no provider has published yet.
    pub(super) unknown: UnknownItems,
    pub(super) timers: Timers<Timer>,
    pub(super) recalls: Recalls,
    pub(super) cleanups: Cleanups,
    pub(super) spoilt: Spoilt,
    pub(super) rules: FieldRules,
    pub(super) part_bytes: usize,
    pub(super) scratch: Scratch,
    pub(super) encoding: Encoding,
    pub(super) ledger: DistributorLedger,
    pub(super) counters: Arc<Counters>,
}

impl Items {
    pub(super) fn new(
        config: &Arc<DistributorConfig>,
        rules: FieldRules,
        suppliers: Suppliers,
        counters: Arc<Counters>,
    ) -> Items {
        Items {
            config: Arc::clone(config),
            suppliers,
            links: Links::new(Arc::clone(config), Arc::clone(&counters)),
            table: Table::default(),
            index: KeyIndex::default(),
            busiest: Busiest::default(),
            unknown: UnknownItems::default(),
            timers: Timers::default(),
            recalls: Recalls::default(),
            cleanups: Cleanups::new(config.cleanups_per_turn),
            spoilt: Spoilt::default(),
            rules,
            part_bytes: config.image_part_bytes,
            scratch: Scratch::default(),
            encoding: Encoding::default(),
            ledger: DistributorLedger::default(),
            counters,
        }
    }
}

impl Items {
    /// What a provider's stream is for, or the key in the message.
    #[inline]
    pub(super) fn target_of(
        &self,
        provider: ProviderId,
        stream_id: i32,
        domain: Domain,
        key: Option<Key<'_>>,
    ) -> Option<Target> {
        let known = self.suppliers.providers.get(&provider)?;
        match known.streams.get(stream_id) {
            Some(target) => Some(target),
            None => self.find(self.suppliers.key_of(provider, domain, key?)?).map(Target::Item),
        }
    }

    /// The item that a provider publishes on a stream, or under the key in the message.
    pub(super) fn item_of(
        &self,
        provider: ProviderId,
        stream_id: i32,
        domain: Domain,
        key: Option<Key<'_>>,
    ) -> Option<usize> {
        match self.target_of(provider, stream_id, domain, key)? {
            Target::Item(index) => Some(index),
            Target::Private(_) => None,
        }
    }

    /// A peer wants an item of a requested service that is not in the table.
    pub(super) fn on_new_interest(
        &mut self,
        now: Nanos,
        peer: PeerId,
        key: ItemKey<'_>,
        sink: &mut impl DistributorSink,
    ) {
        if self.table.len() >= self.config.items_max {
            self.counters.interests_refused.inc();
            report(peer, key, TABLE_FULL, sink);
            return;
        }
        if !self.suppliers.may_be_offered(key) {
            self.counters.items_not_found.inc();
            report(peer, key, NO_SUCH_DOMAIN, sink);
            return;
        }
        let index = self.make_item(key);
        self.enqueue(index, None);
        self.pump(now, key.service, sink);
        self.grant(now, index, peer, sink);
    }

    /// A peer wants an item that its provider has not published.
    pub(super) fn on_unknown(
        &mut self,
        now: Nanos,
        (peer, key): (PeerId, ItemKey<'_>),
        (resumes, settled_at): (bool, Nanos),
        sink: &mut impl DistributorSink,
    ) {
        let items_max = self.config.items_max;
        let state = self.unknown.want(now, (peer, key), (resumes, settled_at), items_max);
        match state {
            NOT_FOUND => self.counters.items_not_found.inc(),
            TABLE_FULL => self.counters.interests_refused.inc(),
            _ => {}
        }
        report(peer, key, state, sink);
    }

    /// A new state of an item, said of it alone or of many.
    pub(super) fn on_item_status(
        &mut self,
        now: Nanos,
        index: usize,
        msg: &StatusMsg<'_>,
        sink: &mut impl DistributorSink,
    ) {
        if let Some(state) = msg.state.filter(|s| s.stream != StreamState::Open) {
            self.ended(now, index, state, msg, sink);
            return;
        }
        let item = &mut self.table[index];
        item.cached.on_status(msg);
        let state = match msg.state {
            Some(_) if item.cached.is_spoilt() => Some(item.cached.state().borrow()),
            said => said,
        };
        let status = StatusMsg { state, key: Some(item.key.as_key().to_key()), ..*msg };
        let bytes = self.encoding.encode(|w| status.encode(w)).to_vec();
        if self.table[index].supply.is_pending() {
            self.report_to_waiting(index, &bytes, sink);
        } else {
            self.publish(now, index, Kind::Status, &bytes, sink);
        }
        if msg.state.is_some_and(|state| state.data == DataState::Ok) {
            self.confirm_saved(now, index, sink);
        }
    }

    /// A provider says that a stream is over.
    pub(super) fn ended(
        &mut self,
        now: Nanos,
        index: usize,
        state: State<'_>,
        msg: &StatusMsg<'_>,
        sink: &mut impl DistributorSink,
    ) {
        let item = &self.table[index];
        if state.stream == StreamState::ClosedRecover && item.supply.is_asked_for() {
            let again = State { stream: StreamState::Open, data: DataState::Suspect, ..state };
            let avoid = item.supply.provider();
            self.forget_stream(index);
            self.ask_later(now, index, avoid, again, sink);
            return;
        }
        let key = match msg.key.filter(|key| key.name.is_some()) {
            Some(elsewhere) if state.stream == StreamState::Redirected => {
                Key { service_id: Some(item.key.service), ..elsewhere }
            }
            _ => item.key.as_key().to_key(),
        };
        let service = item.key.service;
        let end = StatusMsg { key: Some(key), ..*msg };
        let bytes = self.encoding.encode(|w| end.encode(w)).to_vec();
        self.forget_stream(index);
        self.close_item(now, index, &bytes, sink);
        self.pump(now, service, sink);
    }
}

impl Items {
    pub(super) fn make_item(&mut self, key: ItemKey<'_>) -> usize {
        let ripples = self.suppliers.services.get(&key.service).is_none_or(|service| service.ripples);
        let item = Item {
            key: key.to_owned(),
            swept: self.cleanups.last_sweep(),
            cached: CachedItem::new(ripples),
            version_seen: 0,
            id: None,
            peers: Vec::new(),
            waiting: Vec::new(),
            supply: ItemSupply::None,
            is_uncached: self.suppliers.is_uncached(key.service),
            is_saved: false,
            recall: None,
            standbys: Vec::new(),
        };
        let index = self.table.insert(item);
        self.index.insert(&self.table, index);
        let mut waiting = self.unknown.take(key);
        waiting.retain(|peer| self.links.peers.contains_key(peer));
        self.table[index].waiting = waiting;
        self.counters.items.set(self.table.len() as u64);
        index
    }

    /// A new whole image: for everybody who has interest, and the first one for those who wait for it.
    pub(super) fn publish_image(&mut self, now: Nanos, index: usize, sink: &mut impl DistributorSink) {
        let item = &self.table[index];
        if let (false, Some(service), Some(id)) =
            (item.peers.is_empty(), self.suppliers.services.get_mut(&item.key.service), item.id)
        {
            let form = RefreshForm { solicited: false, part_bytes: self.part_bytes };
            item.cached.encode_refresh(item.key.as_key(), form, &mut self.scratch, |bytes| {
                service.stream.send(now, Kind::Refresh, id, bytes, sink);
                self.counters.stream_messages_out.inc();
            });
        }
        self.serve_waiting(now, index, sink);
    }

    /// The whole image is here: those who wait for it get it, each in its turn.
    pub(super) fn serve_waiting(&mut self, now: Nanos, index: usize, sink: &mut impl DistributorSink) {
        let recalled = recall::take_recalled(self, index);
        for peer in std::mem::take(&mut self.table[index].waiting).into_iter().chain(recalled) {
            self.grant_in_turn(now, index, peer, sink);
        }
        recall::give_up_image(self, index);
        recall::ask(self, now, sink);
    }

    /// The whole image that ends an item is there: everybody gets it, and the item is gone.
    pub(super) fn end_with_image(&mut self, now: Nanos, index: usize, sink: &mut impl DistributorSink) {
        let item = &mut self.table[index];
        let (key, waiting) = (item.key.clone(), std::mem::take(&mut item.waiting));
        if let Some(service) = self.suppliers.services.get_mut(&key.service) {
            if let (false, Some(id)) = (item.peers.is_empty(), item.id) {
                let form = RefreshForm { solicited: false, part_bytes: self.part_bytes };
                item.cached.encode_refresh(key.as_key(), form, &mut self.scratch, |bytes| {
                    service.stream.send(now, Kind::Refresh, id, bytes, sink);
                    self.counters.stream_messages_out.inc();
                });
            }
            let after = service.stream.sequence();
            let form = RefreshForm { solicited: true, part_bytes: self.part_bytes };
            for peer in waiting {
                item.cached.encode_refresh(key.as_key(), form, &mut self.scratch, |refresh| {
                    self.counters.images_out.inc();
                    sink.to_peer(peer, &LinkDown::Image { item: 0, after, key: key.as_key(), refresh });
                });
            }
        }
        let status = status_bytes(key.as_key(), item.cached.state().borrow());
        self.close_item(now, index, &status, sink);
    }

    /// Sends a message about an item to everybody who has interest.
    pub(super) fn publish(
        &mut self,
        now: Nanos,
        index: usize,
        kind: Kind,
        body: &[u8],
        sink: &mut impl DistributorSink,
    ) {
        let item = &self.table[index];
        if let (false, Some(service), Some(id)) =
            (item.peers.is_empty(), self.suppliers.services.get_mut(&item.key.service), item.id)
        {
            service.stream.send(now, kind, id, body, sink);
            // Updates of providers go another way.
            service.posted += u64::from(kind == Kind::Update);
            self.counters.stream_messages_out.inc();
        }
    }

    /// Counts what became of an update of a service.
    pub(super) fn count(&mut self, service: u16, count: impl FnOnce(&mut ProviderLedger)) {
        let known = self.suppliers.services.get_mut(&service);
        count(known.map_or(&mut self.ledger.withdrawn, |service| &mut service.ledger));
    }

    /// Sends the state of an item to those who wait for its first image.
    pub(super) fn report_to_waiting(&mut self, index: usize, status: &[u8], sink: &mut impl DistributorSink) {
        let item = &self.table[index];
        for &peer in &item.waiting {
            report_bytes(peer, item.key.as_key(), status, sink);
        }
    }

    /// The item is gone: everybody is notified, and its id rests.
    pub(super) fn close_item(
        &mut self,
        now: Nanos,
        index: usize,
        status: &[u8],
        sink: &mut impl DistributorSink,
    ) {
        self.detach(index, sink);
        let item = self.table.remove(index);
        for standby in &item.standbys {
            self.suppliers.forget_standby_stream(index, standby);
        }
        self.index.remove(index, item.key.as_key());
        for peer in item.peers.iter().chain(&item.waiting) {
            if let Some(peer) = self.links.peers.get_mut(peer) {
                peer.items.remove(index);
            }
        }
        for &peer in &item.waiting {
            report_bytes(peer, item.key.as_key(), status, sink);
        }
        if let (Some(service), Some(id)) = (self.suppliers.services.get_mut(&item.key.service), item.id) {
            if !item.peers.is_empty() {
                service.stream.send(now, Kind::Close, id, status, sink);
                self.counters.stream_messages_out.inc();
            }
            service.stream.release(id);
        }
        self.counters.items.set(self.table.len() as u64);
    }
}

impl Items {
    pub(super) fn find(&self, key: ItemKey<'_>) -> Option<usize> {
        self.index.find(&self.table, key)
    }

    /// Gives a peer interest in an item: the id first, for everybody, then the image, for this peer.
    pub(super) fn grant(&mut self, now: Nanos, index: usize, peer: PeerId, sink: &mut impl DistributorSink) {
        let Some(known) = self.links.peers.get_mut(&peer) else { return };
        known.items.insert(index);
        self.keep(index);
        let item = &mut self.table[index];
        if !item.cached.is_known() {
            if !item.waiting.contains(&peer) {
                item.waiting.push(peer);
            }
            if item.supply.is_asked_for() {
                self.report_awaited(index, peer, sink);
            } else {
                self.report_unpublished(index, peer, sink);
            }
            return;
        }
        item.waiting.retain(|waiting| *waiting != peer);
        let parts = if item.peers.is_empty() { StreamMsg::ANEW } else { &[] };
        if !item.peers.contains(&peer) {
            item.peers.push(peer);
        }
        let Some(service) = self.suppliers.services.get_mut(&item.key.service) else { return };
        let id = match item.id {
            Some(id) => id,
            // 2^32 − 1 items at once do not fit into memory, and released ids come back.
            None => service.stream.assign().expect("fewer items than ids"),
        };
        item.id = Some(id);
        let (kind, body) = StreamMsg::open(&item.key.as_key());
        service.stream.send_with(now, (kind, parts), id, &body, sink);
        self.counters.stream_messages_out.inc();
        self.send_image(now, index, peer, sink);
        if self.table[index].cached.is_away() {
            self.report_awaited(index, peer, sink);
        }
    }

    /// Sends the image of an item whose id the peer knows or learns from it; one that is away when it has come.
    pub(super) fn send_image(
        &mut self,
        now: Nanos,
        index: usize,
        peer: PeerId,
        sink: &mut impl DistributorSink,
    ) {
        let item = &self.table[index];
        if item.cached.is_away() {
            return recall::recall(self, now, index, peer, sink);
        }
        let (Some(service), Some(id)) = (self.suppliers.services.get(&item.key.service), item.id) else {
            return;
        };
        let (key, mut after) = (item.key.as_key(), service.stream.sequence());
        if units::planted(units::Bug::ImagesTooNew) {
            after += 1;
        }
        let form = RefreshForm { solicited: true, part_bytes: self.part_bytes };
        item.cached.encode_refresh(key, form, &mut self.scratch, |refresh| {
            self.counters.images_out.inc();
            sink.to_peer(peer, &LinkDown::Image { item: id, after, key, refresh });
        });
    }

    /// A peer that has had an item before has an image of it that is at least as new as one that was saved: it waits until
    /// somebody publishes the item. Returns whether it does.
    pub(super) fn awaits_more_than_saved(
        &mut self,
        (index, peer): (usize, PeerId),
        resumes: bool,
        sink: &mut impl DistributorSink,
    ) -> bool {
        let item = &mut self.table[index];
        let waits = item.waiting.contains(&peer);
        if !item.is_saved || item.peers.contains(&peer) || !(resumes || waits) {
            return false;
        }
        let Some(known) = self.links.peers.get_mut(&peer) else { return false };
        known.items.insert(index);
        if !waits {
            item.waiting.push(peer);
        }
        report(peer, item.key.as_key(), WAITING, sink);
        true
    }

    /// Somebody vouches for the image of an item, which may be one that was saved.
    pub(super) fn confirm_saved(&mut self, now: Nanos, index: usize, sink: &mut impl DistributorSink) {
        if std::mem::take(&mut self.table[index].is_saved) {
            self.serve_waiting(now, index, sink);
        }
    }

    /// Tells a peer that an item without an image has to be published, or why it is not there.
    fn report_unpublished(&self, index: usize, peer: PeerId, sink: &mut impl DistributorSink) {
        let item = &self.table[index];
        let state = if item.cached.is_spoilt() { item.cached.state().borrow() } else { WAITING };
        report(peer, item.key.as_key(), state, sink);
    }

    /// The image of an item has come that a server waits for: it gets it now, or in its turn.
    fn grant_in_turn(&mut self, now: Nanos, index: usize, peer: PeerId, sink: &mut impl DistributorSink) {
        if sink.has_room(peer) {
            return self.hand_image(now, index, peer, sink);
        }
        let Some(known) = self.links.peers.get_mut(&peer) else { return };
        self.counters.image_requests_deferred.inc();
        known.kept.keep_image(index);
        let item = &mut self.table[index];
        match item.peers.contains(&peer) {
            true => item.recall.get_or_insert_default().peers.push(peer),
            false => item.waiting.push(peer),
        }
        self.links.put_in_row(peer);
    }

    pub(super) fn grant_awaited(
        &mut self,
        now: Nanos,
        index: usize,
        peer: PeerId,
        sink: &mut impl DistributorSink,
    ) {
        if self.cleanups.has_sweeps() && self.table.contains(index) {
            self.settle(now, index, sink);
        }
        // The item may be gone, or another one by now, or not wanted any more.
        let item = self.table.get(index);
        if item.is_some_and(|item| item.is_awaited_by(peer) && item.cached.has_image()) {
            self.table[index].waiting.retain(|waiting| *waiting != peer);
            recall::forget_recalling(self, index, peer);
            self.hand_image(now, index, peer, sink);
            recall::give_up_image(self, index);
        }
    }

    /// A server that has waited for an image gets it, and from now on the updates, unless it has them already.
    fn hand_image(&mut self, now: Nanos, index: usize, peer: PeerId, sink: &mut impl DistributorSink) {
        if self.table[index].peers.contains(&peer) {
            self.send_image(now, index, peer, sink);
        } else {
            self.grant(now, index, peer, sink);
        }
    }
}

impl Items {
    /// What a peer is told that wants an item whose image is not there: nothing but that it takes its time,
    /// as long as a provider can be asked; else why not.
    fn report_awaited(&self, index: usize, peer: PeerId, sink: &mut impl DistributorSink) {
        let item = &self.table[index];
        let key = item.key.as_key();
        let is_available =
            self.suppliers.services.get(&key.service).and_then(|s| s.requested()).is_some_and(|r| {
                r.sources
                    .iter()
                    .filter_map(|p| self.suppliers.offer(*p, key.service))
                    .any(Offer::is_available)
            });
        match item.supply {
            ItemSupply::Queued { .. } if !is_available => report(peer, key, NO_PROVIDER, sink),
            ItemSupply::Queued { .. } if self.suppliers.is_over_limit(key.service, key.domain) => {
                report(peer, key, OVER_LIMIT, sink);
            }
            ItemSupply::Resting { .. } => report(peer, key, item.cached.state().borrow(), sink),
            _ => report_asked(peer, key, sink),
        }
    }

    /// Somebody wants an item: it is not to be closed for want of interest.
    fn keep(&mut self, index: usize) {
        let item = &mut self.table[index];
        if let ItemSupply::Lingering { provider, stream_id, due } = item.supply {
            self.timers.cancel(due);
            item.supply = ItemSupply::Open { provider, stream_id };
        }
    }

    /// A peer has lost interest in an item. One that nobody wants is kept for a while if it is there, and
    /// forgotten at once if it is not even asked for.
    pub(super) fn check_wanted(&mut self, now: Nanos, index: usize, sink: &mut impl DistributorSink) {
        let item = &mut self.table[index];
        if !item.is_unwanted() {
            return;
        }
        match item.supply {
            ItemSupply::Open { provider, stream_id } => {
                let due = self.timers.set(now + self.config.item_linger, Timer::Linger(index));
                item.supply = ItemSupply::Lingering { provider, stream_id, due };
            }
            ItemSupply::Queued { .. } | ItemSupply::Resting { .. } => self.close_item(now, index, &[], sink),
            _ => {}
        }
    }
}

impl Items {
    /// An item is not to be trusted until its next image: those who know it are notified, and those who wait.
    pub(super) fn suspect(
        &mut self,
        now: Nanos,
        index: usize,
        state: State<'_>,
        sink: &mut impl DistributorSink,
    ) {
        let item = &mut self.table[index];
        item.cached.suspect(state.code, &state.text_lossy());
        let status = status_bytes(item.key.as_key(), state);
        let service = item.key.service;
        self.report_to_waiting(index, &status, sink);
        // That a service is down is said of all its items at once.
        if self.suppliers.is_up(service) {
            self.publish(now, index, Kind::Status, &status, sink);
        }
    }

    /// Ends whatever there is between an item and its provider, which is told if it still thinks of the
    /// stream as open.
    pub(super) fn detach(&mut self, index: usize, sink: &mut impl DistributorSink) {
        let domain = self.table[index].key.domain;
        if let Some(stream) = self.forget_stream(index) {
            close_at(stream, domain, sink);
        }
    }

    /// The same without telling the provider: it has ended the stream itself. Returns the provider's stream,
    /// if the provider is there and was asked for the item.
    pub(super) fn forget_stream(&mut self, index: usize) -> Option<(ProviderId, i32)> {
        recall::forget_due(self, index);
        let item = &mut self.table[index];
        let (service, swept) = (item.key.service, item.swept);
        match std::mem::take(&mut item.supply) {
            ItemSupply::None => None,
            ItemSupply::Published { provider, stream_id } => {
                let streams = &mut self.suppliers.providers.get_mut(&provider)?.streams;
                if streams.get(stream_id) == Some(Target::Item(index)) {
                    streams.remove(stream_id);
                }
                None
            }
            queued @ ItemSupply::Queued { .. } => {
                item.supply = queued;
                self.unqueue(index);
                None
            }
            ItemSupply::Resting { due, .. } => {
                self.timers.cancel(due);
                None
            }
            ItemSupply::Pending { provider, stream_id, due } => {
                self.timers.cancel(due);
                self.suppliers.end_stream(provider, stream_id, (service, swept), true)
            }
            ItemSupply::Lingering { provider, stream_id, due } => {
                self.timers.cancel(due);
                self.suppliers.end_stream(provider, stream_id, (service, swept), false)
            }
            ItemSupply::Open { provider, stream_id } => {
                self.suppliers.end_stream(provider, stream_id, (service, swept), false)
            }
        }
    }
}

const NO_PROVIDER: State<'static> = SUSPECT.because(StateCode::NONE, "waiting for a provider of the service");
pub(super) const OVER_LIMIT: State<'static> = SUSPECT.because(
    StateCode::TOO_MANY_ITEMS,
    "waiting: the providers of the service have as many items open as they take",
);
const NO_SUCH_DOMAIN: State<'static> =
    CLOSED.because(StateCode::NOT_FOUND, "no provider of the service has this domain");

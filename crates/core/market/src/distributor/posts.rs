use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use counters::table::Distributor as Counters;
use rdm::login::LOGIN_STREAM_ID;
use rdm::post;
use rdm::post::{Post, PostUserRights};
use rwf::{
    AckMsg, DataType, Domain, GenericMsg, Key, Msg, NakCode, PostMsg, RefreshMsg, StatusMsg, StreamState,
    UpdateMsg,
};
use units::Nanos;

use super::base::{Conversation, DistributorConfig, PeerId, PostRoute, ProviderId, Timer};
use super::items::Items;
use super::sink::DistributorSink;
use super::status::{NOT_FOUND, status_bytes};
use super::timers::Due;
use crate::backbone::{Kind, LinkDown};
use crate::encoding::Encoding;
use crate::key::ItemKey;

/// Posts that went to dialled providers and are not over, under ids of this instance's own: those of
/// different clients may be the same.
pub(super) struct Posts {
    pub(super) config: Arc<DistributorConfig>,
    by_id: BTreeMap<u32, Pending>,
    ids: HashMap<(Conversation, u32), u32>,
    last_id: u32,
    /// Parts whose acknowledgement is still to come, and posts whose parts are.
    count: usize,
    encoding: Encoding,
    counters: Arc<Counters>,
}

/// A post at a provider.
#[derive(Debug)]
pub(super) struct Pending {
    provider: ProviderId,
    from: Conversation,
    /// The client's id of it.
    post_id: u32,
    domain: Domain,
    /// The sequence number of each part that is to be acknowledged.
    parts: Vec<Option<u32>>,
    /// Its last part is sent.
    is_whole: bool,
    due: Due,
}

const ATTRIBUTES_TOO_LONG: &str = "the attributes of the item's key are too long";

/// Why a post is refused.
type Refusal = (NakCode, &'static str);

impl Posts {
    pub(super) fn new(config: Arc<DistributorConfig>, counters: Arc<Counters>) -> Posts {
        let (by_id, ids, encoding) = (BTreeMap::new(), HashMap::new(), Encoding::default());
        Posts { config, by_id, ids, last_id: 0, count: 0, encoding, counters }
    }

    fn take_id(&mut self) -> u32 {
        loop {
            self.last_id = self.last_id.wrapping_add(1);
            if !self.by_id.contains_key(&self.last_id) {
                return self.last_id;
            }
        }
    }

    fn remove(&mut self, id: u32) -> Option<Pending> {
        let gone = self.by_id.remove(&id)?;
        let theirs = (gone.from, gone.post_id);
        if self.ids.get(&theirs) == Some(&id) {
            self.ids.remove(&theirs);
        }
        self.count -= gone.parts.len().max(1);
        Some(gone)
    }

    fn ids_of(&self, is_meant: impl Fn(&Pending) -> bool) -> Vec<u32> {
        self.by_id.iter().filter(|(_, pending)| is_meant(pending)).map(|(id, _)| *id).collect()
    }
}

impl Posts {
    /// Something that a client says about an item; without a name in `key` it is off stream.
    pub(super) fn on_client_message(
        &mut self,
        items: &mut Items,
        now: Nanos,
        from: Conversation,
        key: ItemKey<'_>,
        message: &[u8],
        sink: &mut impl DistributorSink,
    ) {
        match Msg::parse(message) {
            Ok(Msg::Post(msg)) => self.on_post(items, now, from, key, &msg, sink),
            Ok(Msg::Generic(msg)) => self.on_client_generic(items, key, &msg, sink),
            _ => self.counters.link_messages_refused.inc(),
        }
    }

    fn on_post(
        &mut self,
        items: &mut Items,
        now: Nanos,
        from: Conversation,
        key: ItemKey<'_>,
        msg: &PostMsg<'_>,
        sink: &mut impl DistributorSink,
    ) {
        self.counters.posts_in.inc();
        let is_on_stream = !key.name.is_empty();
        let about = if is_on_stream { key.to_key() } else { msg.key.unwrap_or_default() };
        let Ok(item) = ItemKey::of(key.service, msg.domain, &about) else {
            self.refuse_post(from, msg, (NakCode::INVALID_CONTENT, ATTRIBUTES_TOO_LONG), sink);
            return;
        };
        if !is_on_stream && items.cleanups.has_sweeps() {
            items.settle_key(now, item, sink);
        }
        let result = match items.suppliers.listed(key.service).map(|s| s.posts) {
            None => Err((NakCode::SOURCE_UNKNOWN, "the service is not published here")),
            Some(PostRoute::Refuse) => Err((NakCode::DENIED_BY_SOURCE, "the service takes no posts")),
            Some(PostRoute::Cache) => self.post_to_cache(items, now, item, msg, sink).map(|()| true),
            Some(PostRoute::Provider) => {
                self.post_to_provider(items, now, from, (item, is_on_stream), msg, sink).map(|()| false)
            }
        };
        match result {
            Ok(true) => {
                if let Some(ack) = post::ack(msg) {
                    self.answer(from, &ack, sink);
                }
            }
            Ok(false) => {}
            Err(refusal) => self.refuse_post(from, msg, refusal, sink),
        }
    }

    fn refuse_post(
        &mut self,
        from: Conversation,
        msg: &PostMsg<'_>,
        (code, text): Refusal,
        sink: &mut impl DistributorSink,
    ) {
        self.counters.posts_refused.inc();
        if let Some(nak) = post::nak(msg, code, text) {
            self.answer(from, &nak, sink);
        }
    }

    fn answer(
        &mut self,
        (peer, conversation): Conversation,
        ack: &AckMsg<'_>,
        sink: &mut impl DistributorSink,
    ) {
        let message = self.encoding.encode(|w| ack.encode(w));
        sink.to_peer(peer, &LinkDown::ClientAnswer { conversation, message });
    }

    fn on_client_generic(
        &mut self,
        items: &mut Items,
        key: ItemKey<'_>,
        msg: &GenericMsg<'_>,
        sink: &mut impl DistributorSink,
    ) {
        let open = items.find(key).and_then(|index| items.table[index].supply.open_at());
        let Some((provider, stream_id)) = open else {
            self.counters.link_messages_refused.inc();
            return;
        };
        self.counters.generics_in.inc();
        let msg = GenericMsg { stream_id, ..*msg };
        sink.to_provider(provider, self.encoding.encode(|w| msg.encode(w)));
    }
}

impl Posts {
    fn post_to_provider(
        &mut self,
        items: &mut Items,
        now: Nanos,
        from: Conversation,
        (item, is_on_stream): (ItemKey<'_>, bool),
        msg: &PostMsg<'_>,
        sink: &mut impl DistributorSink,
    ) -> Result<(), Refusal> {
        let (provider, stream_id) = self.post_target(items, item, is_on_stream)?;
        if !items.suppliers.dialled(provider).is_some_and(|d| d.takes_posts) {
            return Err((NakCode::DENIED_BY_SOURCE, "the provider takes no posts"));
        }
        let theirs = items.suppliers.offer(provider, item.service).map(|o| o.theirs);
        let post_id = match msg.post_id {
            Some(post_id) => Some(self.note_post(items, now, provider, (from, post_id), msg)?),
            None => None,
        };
        let key = msg.key.map(|key| Key { service_id: key.service_id.and(theirs), ..key });
        let passed = PostMsg { stream_id, post_id, key, ..*msg };
        self.counters.posts_out.inc();
        sink.to_provider(provider, self.encoding.encode(|w| passed.encode(w)));
        Ok(())
    }

    /// The provider that gets a post, and on which stream: that of the item, or that of the login.
    fn post_target(
        &mut self,
        items: &mut Items,
        item: ItemKey<'_>,
        is_on_stream: bool,
    ) -> Result<(ProviderId, i32), Refusal> {
        let open = items.find(item).and_then(|index| items.table[index].supply.open_at());
        let service = items.suppliers.services.get_mut(&item.service);
        let Some(requested) = service.and_then(|s| s.requested_mut()) else {
            return Err((NakCode::DENIED_BY_SOURCE, "the service's provider takes no posts"));
        };
        match open {
            Some(open) if is_on_stream => return Ok(open),
            Some((provider, _)) => return Ok((provider, LOGIN_STREAM_ID)),
            None if is_on_stream => return Err((NakCode::NOT_OPEN, "the item is not open at a provider")),
            None => {}
        }
        requested.turn = requested.turn.wrapping_add(1);
        let (sources, turn) = (requested.sources.clone(), requested.turn);
        let takes = |p: &ProviderId| {
            items.suppliers.dialled(*p).is_some_and(|d| d.takes_posts)
                && items.suppliers.offer(*p, item.service).is_some_and(|o| o.definition.state.up)
        };
        let able: Vec<ProviderId> = sources.into_iter().filter(takes).collect();
        let chosen = able.get(turn % able.len().max(1));
        let down = (NakCode::SOURCE_DOWN, "no provider of the service takes posts now");
        chosen.map(|provider| (*provider, LOGIN_STREAM_ID)).ok_or(down)
    }

    /// Notes a post, or a part of one, under an id of our own, as long as something of it is to come.
    fn note_post(
        &mut self,
        items: &mut Items,
        now: Nanos,
        provider: ProviderId,
        (from, post_id): (Conversation, u32),
        msg: &PostMsg<'_>,
    ) -> Result<u32, Refusal> {
        let known = self.ids.get(&(from, post_id)).copied();
        let known = known.filter(|id| self.by_id[id].provider == provider);
        if known.is_none() && msg.complete && !msg.ack {
            return Ok(self.take_id());
        }
        if self.count >= self.config.posts_outstanding_max {
            return Err((NakCode::NO_RESOURCES, "too many posts wait for their acknowledgement"));
        }
        let id = known.unwrap_or_else(|| self.take_id());
        let due = items.timers.set(now + self.config.post_timeout, Timer::Post(id));
        let before = self.remove(id);
        if let Some(before) = &before {
            items.timers.cancel(before.due);
        }
        let mut parts = before.map(|pending| pending.parts).unwrap_or_default();
        parts.extend(msg.ack.then_some(msg.seq_num));
        // One that wants no acknowledgement has sent its last part: nothing is to come.
        if parts.is_empty() && msg.complete {
            items.timers.cancel(due);
            return Ok(id);
        }
        let (domain, is_whole) = (msg.domain, msg.complete);
        self.count += parts.len().max(1);
        self.by_id.insert(id, Pending { provider, from, post_id, domain, parts, is_whole, due });
        self.ids.insert((from, post_id), id);
        self.count_posts();
        Ok(id)
    }

    fn count_posts(&self) {
        self.counters.posts_outstanding.set(self.count as u64);
    }

    /// A provider acknowledges a post, or a part of one.
    pub(super) fn on_ack(
        &mut self,
        items: &mut Items,
        provider: ProviderId,
        ack: &AckMsg<'_>,
        sink: &mut impl DistributorSink,
    ) {
        let pending = self.by_id.get_mut(&ack.ack_id).filter(|p| p.provider == provider);
        let Some(pending) = pending.filter(|p| !p.parts.is_empty()) else {
            self.counters.messages_unasked.inc();
            return;
        };
        let part = pending.parts.iter().position(|part| *part == ack.seq_num).unwrap_or(0);
        pending.parts.swap_remove(part);
        let (from, post_id, due) = (pending.from, pending.post_id, pending.due);
        if !pending.parts.is_empty() {
            self.count -= 1;
        } else if pending.is_whole {
            items.timers.cancel(due);
            self.remove(ack.ack_id);
        }
        self.count_posts();
        self.counters.acks_in.inc();
        self.answer(from, &AckMsg { ack_id: post_id, stream_id: 0, key: None, ..*ack }, sink);
    }

    /// A provider did not acknowledge in time.
    pub(super) fn post_overdue(&mut self, items: &mut Items, id: u32, sink: &mut impl DistributorSink) {
        self.refuse(
            items,
            id,
            (NakCode::NO_RESPONSE, "the provider has not answered the post in time"),
            sink,
        );
    }

    /// A provider is gone, and will acknowledge nothing.
    pub(super) fn posts_lost(
        &mut self,
        items: &mut Items,
        provider: ProviderId,
        sink: &mut impl DistributorSink,
    ) {
        for id in self.ids_of(|pending| pending.provider == provider) {
            self.refuse(items, id, (NakCode::SOURCE_DOWN, "the provider is lost"), sink);
        }
    }

    /// A link is gone: nobody waits any more.
    pub(super) fn forget_posts(&mut self, items: &mut Items, peer: PeerId) {
        for id in self.ids_of(|pending| pending.from.0 == peer) {
            if let Some(gone) = self.remove(id) {
                items.timers.cancel(gone.due);
            }
        }
        self.count_posts();
    }

    pub(super) fn refuse(
        &mut self,
        items: &mut Items,
        id: u32,
        (code, text): Refusal,
        sink: &mut impl DistributorSink,
    ) {
        let Some(gone) = self.remove(id) else { return };
        items.timers.cancel(gone.due);
        self.count_posts();
        for seq_num in gone.parts {
            self.counters.posts_refused.inc();
            let nak = AckMsg {
                ack_id: gone.post_id,
                nak_code: Some(code),
                text: Some(text.as_bytes()),
                seq_num,
                ..AckMsg::new(gone.domain, 0, DataType::NO_DATA)
            };
            self.answer(gone.from, &nak, sink);
        }
    }
}

impl Posts {
    /// Applies a post to the image of an item, and sends it to all who watch the item.
    fn post_to_cache(
        &mut self,
        items: &mut Items,
        now: Nanos,
        key: ItemKey<'_>,
        msg: &PostMsg<'_>,
        sink: &mut impl DistributorSink,
    ) -> Result<(), Refusal> {
        let invalid = (NakCode::INVALID_CONTENT, "the post does not hold what it says");
        let post = Post::parse(msg).map_err(|_| invalid)?;
        let (data_type, payload) = match &post.message {
            Some(inner) => (inner.container_type(), inner.payload()),
            None => (msg.container_type, msg.payload),
        };
        // Looked through to its end before anything is merged.
        rwf::walk_container(data_type, payload, None, |_, _| ()).map_err(|_| invalid)?;
        let known = items.find(key).filter(|index| items.table[*index].cached.is_known());
        let unknown = (NakCode::SYMBOL_UNKNOWN, "there is no such item in the cache");
        let user = Some(msg.post_user_info);
        let result = match (&post.message, known) {
            (Some(Msg::Refresh(refresh)), known) => {
                let may_create = post.user_rights().contains(PostUserRights::CREATE);
                let is_there = items.find(key).is_some();
                let index = match known {
                    Some(index) => index,
                    None if may_create => self.create(items, key)?,
                    None => return Err(unknown),
                };
                let result = self.post_image(items, now, index, refresh, sink);
                if result.is_err() && !is_there {
                    let status = status_bytes(key, NOT_FOUND);
                    items.close_item(now, index, &status, sink);
                }
                result
            }
            (_, None) => return Err(unknown),
            (Some(Msg::Status(status)), Some(index)) => {
                let may_close = post.user_rights().contains(PostUserRights::DELETE);
                self.post_status(items, now, index, status, may_close, sink)
            }
            (Some(Msg::Update(update)), Some(index)) => {
                let update = UpdateMsg { key: None, stream_id: 0, post_user_info: user, ..*update };
                self.post_update(items, now, index, &update, sink)
            }
            (_, Some(index)) => {
                let (container_type, post_user_info) = (msg.container_type, user);
                let update = UpdateMsg::new(key.domain, 0, container_type);
                self.post_update(items, now, index, &UpdateMsg { post_user_info, payload, ..update }, sink)
            }
        };
        if result.is_ok() {
            self.counters.posts_cached.inc();
            if let Some(index) = items.find(key) {
                items.confirm_saved(now, index, sink);
            }
        }
        result
    }

    fn create(&mut self, items: &mut Items, key: ItemKey<'_>) -> Result<usize, Refusal> {
        let is_published =
            items.suppliers.services.get(&key.service).is_some_and(|s| s.requested().is_none());
        if !is_published || key.name.is_empty() {
            return Err((NakCode::SYMBOL_UNKNOWN, "the item is not open at a provider"));
        }
        if items.table.len() >= self.config.items_max {
            return Err((NakCode::NO_RESOURCES, "the source distributor keeps no more items"));
        }
        Ok(items.find(key).unwrap_or_else(|| items.make_item(key)))
    }

    fn post_update(
        &mut self,
        items: &mut Items,
        now: Nanos,
        index: usize,
        update: &UpdateMsg<'_>,
        sink: &mut impl DistributorSink,
    ) -> Result<(), Refusal> {
        let cached = &mut items.table[index].cached;
        let ours = cached.image().container_type();
        if ours != update.container_type && ours != DataType::NO_DATA {
            return Err((NakCode::INVALID_CONTENT, "the item has another type of payload"));
        }
        let invalid = (NakCode::INVALID_CONTENT, "the payload cannot be merged");
        // What cannot be merged to its end changes nothing.
        let mut changed = cached.clone();
        changed.on_update(update, &items.rules).map_err(|_| invalid)?;
        *cached = changed;
        let body = self.encoding.encode(|w| update.encode(w)).to_vec();
        items.publish(now, index, Kind::Update, &body, sink);
        Ok(())
    }

    fn post_image(
        &mut self,
        items: &mut Items,
        now: Nanos,
        index: usize,
        refresh: &RefreshMsg<'_>,
        sink: &mut impl DistributorSink,
    ) -> Result<(), Refusal> {
        if refresh.state.stream != StreamState::Open {
            return Err((NakCode::INVALID_CONTENT, "an image closes nothing"));
        }
        let invalid = (NakCode::INVALID_CONTENT, "the image cannot be read");
        let cached = &mut items.table[index].cached;
        let mut changed = cached.clone();
        match changed.on_refresh(refresh, &items.rules) {
            Ok(is_whole) => {
                *cached = changed;
                if is_whole {
                    items.publish_image(now, index, sink);
                }
                Ok(())
            }
            Err(_) => Err(invalid),
        }
    }

    fn post_status(
        &mut self,
        items: &mut Items,
        now: Nanos,
        index: usize,
        status: &StatusMsg<'_>,
        may_close: bool,
        sink: &mut impl DistributorSink,
    ) -> Result<(), Refusal> {
        let closes = status.state.is_some_and(|state| state.stream != StreamState::Open);
        if closes && !may_close {
            return Err((NakCode::ACCESS_DENIED, "the user may not remove items"));
        }
        items.on_item_status(now, index, status, sink);
        Ok(())
    }
}

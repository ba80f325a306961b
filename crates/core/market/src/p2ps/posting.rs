//! Posts and generic messages of clients, and their private streams.

use rdm::post;
use rdm::post::{Post, PostTarget};
use rwf::{Domain, GenericMsg, Key, NakCode, PostMsg};
use units::Nanos;

use super::PointToPoint;
use super::base::{ClientId, Watcher};
use super::composing;
use super::conversations::Private;
use super::instance::send_to_instance;
use super::items::WatchedItems;
use super::posts::PostRefusal;
use super::sink::ServerSink;
use crate::backbone::LinkUp;
use crate::key::{ItemKey, OwnedKey};

/// Where something that a client says goes.
struct Route {
    instance: u64,
    conversation: u64,
    /// The item; without a name it is off stream. `None` for a private stream.
    item: Option<OwnedKey>,
    /// The key of the item at the member, if the client knows it by that of a composed service.
    renamed: Option<OwnedKey>,
}

impl Route {
    fn message<'m>(&'m self, message: &'m [u8]) -> LinkUp<'m> {
        let conversation = self.conversation;
        match &self.item {
            Some(item) => LinkUp::ClientMessage { conversation, key: item.as_key(), message },
            None => LinkUp::PrivateMessage { conversation, message },
        }
    }

    /// The key of a client's message as the provider is to see it.
    fn key<'k>(&'k self, said: Key<'k>) -> Key<'k> {
        self.renamed.as_ref().map_or(said, |key| key.as_key().to_key())
    }
}

/// From clients to instances.
impl PointToPoint {
    /// A post is passed on; one that cannot be is refused, if an acknowledgement is wanted.
    pub(super) fn on_post(
        &mut self,
        now: Nanos,
        client: ClientId,
        msg: &PostMsg<'_>,
        sink: &mut impl ServerSink,
    ) {
        self.counters.posts_in.inc();
        if let Err((code, text)) = self.pass_post(now, client, msg, sink) {
            self.counters.posts_refused.inc();
            if let Some(nak) = post::nak(msg, code, &text) {
                sink.send(client, self.encoding.encode(|w| nak.encode(w)));
            }
        }
    }

    fn pass_post(
        &mut self,
        now: Nanos,
        client: ClientId,
        msg: &PostMsg<'_>,
        sink: &mut impl ServerSink,
    ) -> Result<(), PostRefusal> {
        let refused = |error: rdm::RdmError| (error.nak_code(), error.to_string().into());
        let post = Post::parse(msg).map_err(refused)?;
        let known = self.items.clients.get(client).and_then(|c| c.login.as_ref());
        let login_stream = known.map_or(rdm::login::LOGIN_STREAM_ID, |login| login.stream_id);
        let watcher = Watcher { client, stream_id: msg.stream_id };
        let route = match post.target(login_stream).map_err(refused)? {
            PostTarget::OnStream { .. } => self.route(watcher)?,
            PostTarget::OffStream(item) => {
                let renamed = posted_at_member(&self.items, &item, msg)?;
                let service = renamed.as_ref().map_or(item.service_id, |key| key.service);
                let instance = self.items.sources.active_instance(service)?;
                let conversation = self.off_stream_conversation(watcher)?;
                let about = ItemKey::named(service, msg.domain, b"");
                Route { instance, conversation, item: Some(about.to_owned()), renamed }
            }
        };
        if let Some(post_id) = msg.post_id.filter(|_| msg.ack) {
            if self.items.conversations.posts.len() >= self.config.posts_outstanding_max {
                return Err((NakCode::NO_RESOURCES, "too many posts wait for their acknowledgement".into()));
            }
            let until = now + self.config.post_timeout;
            let to = (route.instance, route.item.is_none());
            self.items.conversations.posts.add((route.conversation, post_id), to, msg, until);
        }
        let post_user_info = self.items.clients.user_info(client, msg.post_user_info);
        let filled = PostMsg { post_user_info, key: msg.key.map(|key| route.key(key)), ..*msg };
        let message = route.message(self.encoding.encode(|w| filled.encode(w)));
        send_to_instance(&self.items.sources.instances, route.instance, message, sink);
        self.counters.posts_outstanding.set(self.items.conversations.posts.len() as u64);
        Ok(())
    }

    /// A generic message on an item's stream goes to its provider.
    pub(super) fn on_generic(
        &mut self,
        client: ClientId,
        msg: &GenericMsg<'_>,
        bytes: &[u8],
        sink: &mut impl ServerSink,
    ) {
        match self.route(Watcher { client, stream_id: msg.stream_id }) {
            Ok(route) => {
                self.counters.generics_in.inc();
                let renamed = msg.key.filter(|_| route.renamed.is_some()).map(|key| route.key(key));
                let bytes = match renamed {
                    None => bytes,
                    Some(_) => self.encoding.encode(|w| GenericMsg { key: renamed, ..*msg }.encode(w)),
                };
                send_to_instance(&self.items.sources.instances, route.instance, route.message(bytes), sink);
            }
            Err(_) => self.counters.client_messages_refused.inc(),
        }
    }

    /// Where what comes on a client's item stream goes.
    fn route(&mut self, watcher: Watcher) -> Result<Route, PostRefusal> {
        let not_open = || (NakCode::NOT_OPEN, "no item is open on this stream".into());
        let client = self.items.clients.get(watcher.client).ok_or_else(not_open)?;
        if let Some(&conversation) = client.private.get(&watcher.stream_id) {
            let private = self.items.conversations.known.get(&conversation).and_then(|c| c.private);
            let instance = private.ok_or_else(not_open)?.instance;
            return Ok(Route { instance, conversation, item: None, renamed: None });
        }
        let stream = client.streams.get(&watcher.stream_id).ok_or_else(not_open)?;
        let conversation =
            client.seldom().and_then(|seldom| seldom.conversations.get(&watcher.stream_id)).copied();
        let item = self.items.table.get(stream.index()).filter(|item| stream.is_of(item));
        let item = item.ok_or_else(not_open)?.key.clone();
        let renamed = stream.form.alias.is_some().then(|| item.clone());
        let instance = self.items.sources.active_instance(item.service)?;
        let conversation = conversation.unwrap_or_else(|| {
            let number = self.items.conversations.begin(watcher, None);
            let client = self.items.clients.get_mut(watcher.client);
            client.map(|client| client.seldom_mut().conversations.insert(watcher.stream_id, number));
            number
        });
        Ok(Route { instance, conversation, item: Some(item), renamed })
    }

    /// The conversation of a client's login stream.
    fn off_stream_conversation(&mut self, watcher: Watcher) -> Result<u64, PostRefusal> {
        let login = self.items.clients.get_mut(watcher.client).and_then(|c| c.login.as_mut());
        let login = login.ok_or((NakCode::ACCESS_DENIED, "log in first".into()))?;
        Ok(*login.conversation.get_or_insert_with(|| self.items.conversations.begin(watcher, None)))
    }
}

/// Private streams, from the client's side.
impl PointToPoint {
    /// Opens a private stream, or changes an open one. `request` is the message as the provider is to see it.
    pub(super) fn on_private_request(
        &mut self,
        watcher: Watcher,
        private: (u16, Domain, bool),
        request: &[u8],
        sink: &mut impl ServerSink,
    ) -> Result<(), &'static str> {
        let Some(client) = self.items.clients.get_mut(watcher.client) else { return Ok(()) };
        if let Some(&conversation) = client.private.get(&watcher.stream_id) {
            let known = self.items.conversations.known.get_mut(&conversation);
            if let Some(open) = known.and_then(|conversation| conversation.private.as_mut()) {
                open.streaming = private.2;
                sink.to_instance(open.instance, &LinkUp::PrivateMessage { conversation, message: request });
            }
            return Ok(());
        }
        let (service, domain, streaming) = private;
        let active = self.items.sources.services.get(&service).and_then(|s| s.active);
        let instance = active.ok_or("the service is down")?.instance;
        let private = Private { instance, service, domain, streaming };
        let conversation = self.items.conversations.begin(watcher, Some(private));
        client.private.insert(watcher.stream_id, conversation);
        self.items.clients.count_watchers(1);
        let msg = LinkUp::PrivateRequest { service, conversation, request };
        send_to_instance(&self.items.sources.instances, instance, msg, sink);
        Ok(())
    }
}

/// The key at a member of an item of a composed service that is posted to off stream; `None` for one of another service.
fn posted_at_member(
    items: &WatchedItems,
    item: &rdm::item::ItemKey<'_>,
    msg: &PostMsg<'_>,
) -> Result<Option<OwnedKey>, PostRefusal> {
    if items.composed.service_of(item.service_id).is_none() {
        return Ok(None);
    }
    let bad = || (NakCode::INVALID_CONTENT, "the item's key has attributes that are too long".into());
    let key = ItemKey::of(item.service_id, msg.domain, &Key::from(*item)).map_err(|_| bad())?;
    let down =
        || (NakCode::SOURCE_DOWN, "no member of the composed service that may have the item is up".into());
    composing::member_key(items, key).ok_or_else(down).map(Some)
}

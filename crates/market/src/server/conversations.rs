//! What clients say to providers: posts and generic messages, and streams that one client has for itself.
//!
//! A client's stream on which something goes up gets a number, its *conversation*, under which the instance
//! answers. It lives as long as the stream.

use std::borrow::Cow;
use std::collections::HashMap;

use rdm::post::{self, Post, PostTarget};
use rwf::{
    AckMsg, CloseMsg, DataState, DataType, DecodeError, Domain, GenericMsg, Key, Msg, MsgClass, NakCode,
    PostMsg, PostUserInfo, State, StateCode, StreamState,
};
use units::Nanos;

use super::posts::Posts;
use super::{ClientId, PointToPoint, ServerSink, Watcher, ids};
use crate::backbone::LinkUp;
use crate::key::{ItemKey, OwnedKey};

/// The conversations of all clients.
#[derive(Debug, Default)]
pub(super) struct Conversations {
    known: HashMap<u64, Conversation>,
    last: u64,
    /// Posts whose acknowledgement is still to come.
    pub(super) posts: Posts,
}

/// A client's stream, as instances know it.
#[derive(Debug)]
struct Conversation {
    watcher: Watcher,
    private: Option<Private>,
}

/// What is to be known of a private stream.
#[derive(Clone, Copy, Debug)]
pub(super) struct Private {
    pub(super) instance: u64,
    pub(super) service: u16,
    pub(super) domain: Domain,
    /// It goes on after its first image.
    pub(super) streaming: bool,
}

impl Conversations {
    /// Begins a conversation. Its number has not been used before.
    pub(super) fn begin(&mut self, watcher: Watcher, private: Option<Private>) -> u64 {
        self.last += 1;
        self.known.insert(self.last, Conversation { watcher, private });
        self.last
    }

    /// Ends a conversation: nothing is expected any more.
    pub(super) fn end(&mut self, number: u64) -> Option<Private> {
        self.posts.forget(number);
        self.known.remove(&number)?.private
    }

    /// The private streams at an instance.
    fn private_at(&self, instance: u64) -> Vec<(u64, Watcher, Domain)> {
        let known = self.known.iter();
        let private = known.filter_map(|(&number, c)| Some((number, c.watcher, c.private?)));
        private
            .filter(|(_, _, private)| private.instance == instance)
            .map(|(number, watcher, private)| (number, watcher, private.domain))
            .collect()
    }
}

/// Why a post goes no further.
type PostRefusal = (NakCode, Cow<'static, str>);

/// Where something that a client says goes.
struct Route {
    instance: u64,
    conversation: u64,
    /// The item; without a name it is off stream. `None` for a private stream.
    item: Option<OwnedKey>,
}

impl Route {
    fn message<'m>(&'m self, message: &'m [u8]) -> LinkUp<'m> {
        let conversation = self.conversation;
        match &self.item {
            Some(item) => LinkUp::ClientMessage { conversation, key: item.as_key(), message },
            None => LinkUp::PrivateMessage { conversation, message },
        }
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
        let known = self.clients.get(&client).and_then(|c| c.login.as_ref());
        let login_stream = known.map_or(rdm::login::LOGIN_STREAM_ID, |login| login.stream_id);
        let watcher = Watcher { client, stream_id: msg.stream_id };
        let route = match post.target(login_stream).map_err(refused)? {
            PostTarget::OnStream { .. } => self.route(watcher)?,
            PostTarget::OffStream(item) => {
                let instance = self.active_instance(item.service_id)?;
                let conversation = self.off_stream_conversation(watcher)?;
                let about = ItemKey::named(item.service_id, msg.domain, b"");
                Route { instance, conversation, item: Some(about.to_owned()) }
            }
        };
        if let Some(post_id) = msg.post_id.filter(|_| msg.ack) {
            if self.conversations.posts.len() >= self.config.posts_outstanding_max {
                return Err((NakCode::NO_RESOURCES, "too many posts wait for their acknowledgement".into()));
            }
            let until = now + self.config.post_timeout;
            let to = (route.instance, route.item.is_none());
            self.conversations.posts.add((route.conversation, post_id), to, msg, until);
        }
        let filled = PostMsg { post_user_info: self.user_info(client, msg.post_user_info), ..*msg };
        let message = route.message(self.encoding.encode(|w| filled.encode(w)));
        ids::tell(&self.instances, route.instance, message, sink);
        self.counters.posts_outstanding.set(self.conversations.posts.len() as u64);
        Ok(())
    }

    /// Who posts: what the client says; where it says nothing, the address it comes from.
    fn user_info(&self, client: ClientId, said: PostUserInfo) -> PostUserInfo {
        let address = if said.address == 0 { self.profile(client).address } else { said.address };
        PostUserInfo { address, ..said }
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
                ids::tell(&self.instances, route.instance, route.message(bytes), sink);
            }
            Err(_) => self.counters.client_messages_refused.inc(),
        }
    }

    /// Where what comes on a client's item stream goes.
    fn route(&mut self, watcher: Watcher) -> Result<Route, PostRefusal> {
        let not_open = || (NakCode::NOT_OPEN, "no item is open on this stream".into());
        let client = self.clients.get(&watcher.client).ok_or_else(not_open)?;
        if let Some(&conversation) = client.private.get(&watcher.stream_id) {
            let private = self.conversations.known.get(&conversation).and_then(|c| c.private);
            let instance = private.ok_or_else(not_open)?.instance;
            return Ok(Route { instance, conversation, item: None });
        }
        let stream = client.streams.get(&watcher.stream_id).ok_or_else(not_open)?;
        let conversation = stream.conversation;
        let item = self.items.get(stream.index).filter(|item| item.serial == stream.serial);
        let item = item.ok_or_else(not_open)?.key.clone();
        let instance = self.active_instance(item.service)?;
        let conversation = conversation.unwrap_or_else(|| {
            let number = self.conversations.begin(watcher, None);
            let client = self.clients.get_mut(&watcher.client);
            if let Some(stream) = client.and_then(|c| c.streams.get_mut(&watcher.stream_id)) {
                stream.conversation = Some(number);
            }
            number
        });
        Ok(Route { instance, conversation, item: Some(item) })
    }

    /// The conversation of a client's login stream.
    fn off_stream_conversation(&mut self, watcher: Watcher) -> Result<u64, PostRefusal> {
        let login = self.clients.get_mut(&watcher.client).and_then(|c| c.login.as_mut());
        let login = login.ok_or((NakCode::ACCESS_DENIED, "log in first".into()))?;
        Ok(*login.conversation.get_or_insert_with(|| self.conversations.begin(watcher, None)))
    }

    fn active_instance(&self, service: u16) -> Result<u64, PostRefusal> {
        let unknown = || (NakCode::SOURCE_UNKNOWN, "there is no service of this id".into());
        let down = || (NakCode::SOURCE_DOWN, "the service is down".into());
        Ok(self.services.get(&service).ok_or_else(unknown)?.active.ok_or_else(down)?.instance)
    }
}

/// From instances to clients.
impl PointToPoint {
    /// An acknowledgement, or a generic message for one client alone.
    pub(super) fn on_client_answer(
        &mut self,
        number: u64,
        message: &[u8],
        sink: &mut impl ServerSink,
    ) -> Result<(), DecodeError> {
        let msg = Msg::parse(message)?;
        let Some(watcher) = self.conversations.known.get(&number).map(|c| c.watcher) else {
            self.counters.answers_late.inc();
            return Ok(());
        };
        match msg {
            Msg::Ack(ack) => self.on_ack((number, watcher), &ack, message, sink),
            Msg::Generic(_) => {
                self.counters.generics_out.inc();
                sink.fan_out(&[watcher], message);
            }
            other => return Err(unwanted(&other, MsgClass::Ack)),
        }
        Ok(())
    }

    fn on_ack(
        &mut self,
        (number, watcher): (u64, Watcher),
        ack: &AckMsg<'_>,
        message: &[u8],
        sink: &mut impl ServerSink,
    ) {
        if !self.conversations.posts.answer((number, ack.ack_id), ack.seq_num) {
            self.counters.answers_late.inc();
            return;
        }
        self.counters.posts_outstanding.set(self.conversations.posts.len() as u64);
        self.counters.acks_out.inc();
        sink.fan_out(&[watcher], message);
    }

    /// A generic message for all who watch an item.
    pub(super) fn apply_generic(
        &mut self,
        index: usize,
        body: &[u8],
        sink: &mut impl ServerSink,
    ) -> Result<(), DecodeError> {
        let msg = GenericMsg::parse(body)?;
        let watchers = self.items[index].audience.everyone();
        self.counters.generics_out.add(watchers.len() as u64);
        let service = self.items[index].key.service;
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

    /// A message of a private stream. Its key, where it has one, gets the service's id here, and it says that
    /// it is private, whatever the provider has made of it.
    pub(super) fn on_private_message(
        &mut self,
        number: u64,
        message: &[u8],
        sink: &mut impl ServerSink,
    ) -> Result<(), DecodeError> {
        let msg = Msg::parse(message)?;
        let known = self.conversations.known.get(&number);
        let Some((watcher, private)) = known.and_then(|c| Some((c.watcher, c.private?))) else {
            self.counters.answers_late.inc();
            return Ok(());
        };
        let ends = match &msg {
            Msg::Refresh(refresh) => {
                self.counters.refreshes_out.inc();
                let is_over = refresh.complete && !private.streaming;
                is_over || refresh.state.stream != StreamState::Open
            }
            Msg::Status(status) => {
                self.counters.statuses_out.inc();
                status.state.is_some_and(|state| state.stream != StreamState::Open)
            }
            Msg::Update(_) => {
                self.counters.updates_out.inc();
                false
            }
            Msg::Generic(_) => {
                self.counters.generics_out.inc();
                false
            }
            Msg::Ack(ack) => {
                self.on_ack((number, watcher), ack, message, sink);
                return Ok(());
            }
            other => return Err(unwanted(other, MsgClass::Refresh)),
        };
        let msg = as_private(msg, private.service);
        sink.fan_out(&[watcher], self.encoding.encode(|w| msg.encode(w)));
        if ends {
            self.end_private(number, watcher);
        }
        Ok(())
    }

    fn end_private(&mut self, number: u64, watcher: Watcher) {
        if let Some(client) = self.clients.get_mut(&watcher.client) {
            let was_open = client.private.remove(&watcher.stream_id).is_some();
            self.count_watchers(-i64::from(was_open));
        }
        self.conversations.end(number);
    }

    /// The link to an instance is gone: its private streams are over, and nothing that was posted to it will
    /// be answered.
    pub(super) fn lose_conversations(&mut self, instance: u64, sink: &mut impl ServerSink) {
        for (number, watcher, domain) in self.conversations.private_at(instance) {
            let text = "the source distributor is lost";
            let state =
                State::new(StreamState::ClosedRecover, DataState::Suspect).because(StateCode::NONE, text);
            let status = rwf::StatusMsg {
                state: Some(state),
                private_stream: true,
                ..rwf::StatusMsg::new(domain, watcher.stream_id, DataType::NO_DATA)
            };
            self.counters.statuses_out.inc();
            sink.send(watcher.client, self.encoding.encode(|w| status.encode(w)));
            self.end_private(number, watcher);
        }
        let lost = self.conversations.posts.take_those_at(instance);
        self.refuse_posts(lost, NakCode::SOURCE_DOWN, "the source distributor is lost", sink);
    }

    /// Refuses posts whose acknowledgement has not come in time.
    pub(super) fn check_posts(&mut self, now: Nanos, sink: &mut impl ServerSink) {
        let overdue = self.conversations.posts.take_overdue(now);
        self.refuse_posts(overdue, NakCode::NO_RESPONSE, "no acknowledgement came in time", sink);
    }

    fn refuse_posts(
        &mut self,
        posts: Vec<super::posts::Unanswered>,
        code: NakCode,
        text: &str,
        sink: &mut impl ServerSink,
    ) {
        for post in posts {
            self.counters.posts_refused.inc();
            let Some(conversation) = self.conversations.known.get(&post.conversation) else { continue };
            let nak = AckMsg {
                ack_id: post.post_id,
                nak_code: Some(code),
                text: Some(text.as_bytes()),
                seq_num: post.seq_num,
                private_stream: post.is_private,
                ..AckMsg::new(post.domain, conversation.watcher.stream_id, DataType::NO_DATA)
            };
            sink.send(conversation.watcher.client, self.encoding.encode(|w| nak.encode(w)));
        }
        self.counters.posts_outstanding.set(self.conversations.posts.len() as u64);
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
        let Some(client) = self.clients.get_mut(&watcher.client) else { return Ok(()) };
        if let Some(&conversation) = client.private.get(&watcher.stream_id) {
            let known = self.conversations.known.get(&conversation).and_then(|c| c.private);
            if let Some(open) = known {
                sink.to_instance(open.instance, &LinkUp::PrivateMessage { conversation, message: request });
            }
            return Ok(());
        }
        let (service, domain, streaming) = private;
        let active = self.services.get(&service).and_then(|s| s.active);
        let instance = active.ok_or("the service is down")?.instance;
        let private = Private { instance, service, domain, streaming };
        let conversation = self.conversations.begin(watcher, Some(private));
        client.private.insert(watcher.stream_id, conversation);
        self.count_watchers(1);
        let msg = LinkUp::PrivateRequest { service, conversation, request };
        ids::tell(&self.instances, instance, msg, sink);
        Ok(())
    }

    /// A client is done with a private stream.
    pub(super) fn close_private(&mut self, number: u64, sink: &mut impl ServerSink) {
        let Some(private) = self.conversations.end(number) else { return };
        let close = CloseMsg::new(private.domain, 0, DataType::NO_DATA);
        let message = self.encoding.encode(|w| close.encode(w));
        sink.to_instance(private.instance, &LinkUp::PrivateMessage { conversation: number, message });
    }
}

fn unwanted(msg: &Msg<'_>, wanted: MsgClass) -> DecodeError {
    DecodeError::OtherMsgClass { class: msg.class() as u8, wanted: wanted as u8 }
}

/// A message of a private stream as the client is to see it.
fn as_private(msg: Msg<'_>, service: u16) -> Msg<'_> {
    match msg {
        Msg::Refresh(m) => {
            Msg::Refresh(rwf::RefreshMsg { private_stream: true, key: at(m.key, service), ..m })
        }
        Msg::Status(m) => Msg::Status(rwf::StatusMsg { private_stream: true, key: at(m.key, service), ..m }),
        Msg::Update(m) => Msg::Update(rwf::UpdateMsg { key: at(m.key, service), ..m }),
        other => other,
    }
}

/// A key with the service's id here in place of the provider's.
fn at(key: Option<Key<'_>>, service: u16) -> Option<Key<'_>> {
    key.map(|key| Key { service_id: key.service_id.and(Some(service)), ..key })
}

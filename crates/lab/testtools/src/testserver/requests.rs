//! What consumers ask for, and its answers.

use std::ops::ControlFlow;
use std::sync::Arc;

use net::clock;
use rdm::dictionary::{DictionaryMsg, DictionaryParts, PartSizes};
use rdm::directory::{DirectoryMsg, DirectoryRefresh};
use rdm::item::{ItemClose, ItemRequest, Target, View};
use rdm::login::{BatchSupport, Features, LoginMsg, LoginRefresh, LoginStatus, Role};
use rdm::post::{self, Post, PostTarget};
use rdm::{RdmError, Reply, ToVec};
use rwf::{CloseMsg, GenericMsg, Msg, NakCode, PostMsg, RequestMsg, StateCode, StatusMsg, UpdateMsg};
use server::rssl::send;
use server::{ConnectionId, Outbox};

use super::core::{Core, Open, WantedImage};
use super::templates::{ShapeId, WHOLE};
use crate::messages::{TIM_TRK_3, stamp_in};

/// Login, directory, dictionary.
impl Core {
    pub(super) fn on_login(
        &mut self,
        connection: ConnectionId,
        msg: &Msg<'_>,
        outbox: &mut Outbox,
    ) -> ControlFlow<()> {
        let request = match LoginMsg::parse(msg) {
            Ok(LoginMsg::Request(request)) => request,
            Ok(LoginMsg::Close(_)) => return ControlFlow::Break(()),
            Ok(LoginMsg::RoundTrip(_) | LoginMsg::Generic(_)) => return ControlFlow::Continue(()),
            Ok(LoginMsg::Refresh(_) | LoginMsg::Status(_)) | Err(_) => {
                self.counts.unusable += 1;
                return ControlFlow::Break(());
            }
        };
        if request.role == Role::Provider {
            self.counts.refused += 1;
            let refusal = LoginStatus::reject(&request, StateCode::USAGE_ERROR, "this port is for consumers");
            if let Ok(bytes) = refusal.to_vec() {
                send(outbox, connection, &bytes);
            }
            return ControlFlow::Break(());
        }
        let Some(client) = self.clients.get_mut(&connection) else { return ControlFlow::Continue(()) };
        self.counts.logins += u64::from(!client.has_login);
        (client.has_login, client.is_paused) = (true, request.pause);
        if !request.no_refresh {
            let features = Features {
                omm_post: Some(self.takes_posts),
                batch_requests: Some(BatchSupport::ALL),
                view_requests: Some(true),
                optimized_pause_resume: Some(true),
                ..Features::default()
            };
            let name = Some(&b"tickcast testserver"[..]);
            let accepted = LoginRefresh::accept(&request);
            // Items that are lost are not recovered here.
            let refresh =
                LoginRefresh { features, application_name: name, single_open: Some(false), ..accepted };
            if let Ok(bytes) = refresh.to_vec() {
                send(outbox, connection, &bytes);
            }
        }
        ControlFlow::Continue(())
    }

    pub(super) fn on_directory(
        &mut self,
        connection: ConnectionId,
        msg: &Msg<'_>,
        outbox: &mut Outbox,
    ) -> Result<(), RdmError> {
        // The directory never changes: nothing is to be kept of who listens.
        if let DirectoryMsg::Request(request) = DirectoryMsg::parse(msg)?
            && !request.no_refresh
        {
            let refresh = DirectoryRefresh::answer(&request, self.directory.services())?;
            send(outbox, connection, &refresh.to_vec()?);
        }
        Ok(())
    }

    pub(super) fn on_dictionary(
        &mut self,
        connection: ConnectionId,
        msg: &Msg<'_>,
        outbox: &mut Outbox,
    ) -> Result<(), RdmError> {
        let DictionaryMsg::Request(request) = DictionaryMsg::parse(msg)? else { return Ok(()) };
        for part in DictionaryParts::new(&request, &self.dictionary, PartSizes::default())?.flatten() {
            send(outbox, connection, &part);
        }
        Ok(())
    }

    /// Answers a request that is not met.
    pub(super) fn refuse(&mut self, connection: ConnectionId, answer: &StatusMsg<'_>, outbox: &mut Outbox) {
        self.counts.refused += 1;
        if let Ok(bytes) = answer.to_vec() {
            send(outbox, connection, &bytes);
        }
    }
}

/// Items.
impl Core {
    pub(super) fn on_request(
        &mut self,
        connection: ConnectionId,
        msg: &RequestMsg<'_>,
        outbox: &mut Outbox,
    ) -> Result<(), RdmError> {
        let is_open =
            self.clients.get(&connection).is_some_and(|client| client.places.contains_key(&msg.stream_id));
        let request = ItemRequest::parse(msg)?;
        if is_open && !msg.batch {
            let name = msg.key.name.unwrap_or_default();
            self.reissue(connection, msg.stream_id, &request, name);
            return Ok(());
        }
        let reply = Reply::to(&Msg::Request(*msg));
        if msg.batch
            && let Ok(bytes) = reply.batch_taken().to_vec()
        {
            send(outbox, connection, &bytes);
        }
        if let Target::Streams(ids) = &request.target {
            for stream_id in ids {
                self.reissue(connection, *stream_id, &request, &[]);
            }
        }
        for single in request.singles() {
            self.on_single(connection, &single, reply, outbox);
        }
        Ok(())
    }

    fn on_single(
        &mut self,
        connection: ConnectionId,
        request: &ItemRequest<'_>,
        reply: Reply<'_>,
        outbox: &mut Outbox,
    ) {
        self.counts.requests += 1;
        let Target::Item(key) = request.target else { return };
        let reply = reply.on(request.stream_id, key);
        if let Some(refusal) = self.directory.refuses(key.service_id, request.domain, request.qos_range()) {
            return self.refuse(connection, &reply.status(refusal.state()), outbox);
        }
        let shape = self.shape_of(request.view.as_ref());
        let open_limit = self.open_limit;
        let Some(client) = self.clients.get_mut(&connection) else { return };
        if client.places.contains_key(&request.stream_id) {
            let answer = reply.closed(StateCode::USAGE_ERROR, "the stream is open already");
            return self.refuse(connection, &answer, outbox);
        }
        // An image that is not sent yet takes as much as a stream.
        if client.places.len().max(client.images.len()) >= open_limit {
            let text = "the connection has as many streams as it may (--open-limit)";
            let answer = reply.closed(StateCode::TOO_MANY_ITEMS, text);
            return self.refuse(connection, &answer, outbox);
        }
        if request.streaming {
            let (stream_id, is_paused) = (request.stream_id, request.pause);
            client.add(Open { stream_id, shape, updates: 0, waits: true, is_paused });
        }
        client.images.push_back(WantedImage {
            stream_id: request.stream_id,
            service_id: key.service_id,
            name: key.name.into(),
            shape,
            is_snapshot: !request.streaming,
            private_stream: request.private_stream,
        });
    }

    /// An open stream is asked for again: paused, resumed, with another view, for its image.
    fn reissue(&mut self, connection: ConnectionId, stream_id: i32, request: &ItemRequest<'_>, name: &[u8]) {
        self.counts.requests += 1;
        let shape = self.shape_of(request.view.as_ref());
        let service_id = self.directory.services().next().map_or(0, |service| service.id);
        let open_limit = self.open_limit;
        let Some(client) = self.clients.get_mut(&connection) else { return };
        let waiting = client.images.len();
        let is_known = client.change(stream_id, |stream| {
            stream.is_paused = request.pause;
            if request.view.is_some() || !request.no_refresh {
                stream.shape = shape;
            }
        });
        if is_known && !request.no_refresh && waiting < open_limit {
            let (name, private_stream) = (name.into(), request.private_stream);
            client.images.push_back(WantedImage {
                stream_id,
                service_id,
                name,
                shape,
                is_snapshot: false,
                private_stream,
            });
        }
    }

    fn shape_of(&mut self, view: Option<&View<'_>>) -> ShapeId {
        match view {
            Some(View::Fields(ids)) => self.templates.of_view(&Arc::clone(ids)),
            // Field lists have no elements.
            Some(View::Elements(_)) | None => WHOLE,
        }
    }

    pub(super) fn on_close(&mut self, connection: ConnectionId, msg: &CloseMsg<'_>) -> Result<(), RdmError> {
        let close = ItemClose::parse(msg)?;
        if let Some(client) = self.clients.get_mut(&connection) {
            for stream_id in close.streams() {
                self.counts.closes += u64::from(client.close(stream_id));
            }
        }
        Ok(())
    }
}

/// What goes back.
impl Core {
    pub(super) fn on_post(&mut self, connection: ConnectionId, msg: &PostMsg<'_>, outbox: &mut Outbox) {
        self.counts.posts += 1;
        let target = Post::parse(msg).and_then(|post| Ok((post, post.target(rdm::login::LOGIN_STREAM_ID)?)));
        let answer = match target {
            _ if !self.takes_posts => Err((NakCode::DENIED_BY_SOURCE, "posts are not taken")),
            Err(error) => Err((error.nak_code(), "the post is malformed")),
            // Whoever has the item of an off-stream post open would be told; nothing is kept of names here.
            Ok((_, PostTarget::OffStream(_))) => Ok(()),
            Ok((post, PostTarget::OnStream { stream_id })) => {
                self.reflect(connection, stream_id, &post, outbox)
            }
        };
        let ack = match answer {
            Ok(()) => post::ack(msg),
            Err((code, text)) => {
                self.counts.refused += 1;
                post::nak(msg, code, text)
            }
        };
        if let Some(Ok(bytes)) = ack.map(|ack| ack.to_vec()) {
            send(outbox, connection, &bytes);
        }
    }

    /// Sends what was posted back as an update of the stream.
    fn reflect(
        &mut self,
        connection: ConnectionId,
        stream_id: i32,
        post: &Post<'_>,
        outbox: &mut Outbox,
    ) -> Result<(), (NakCode, &'static str)> {
        let client = self.clients.get(&connection);
        if !client.is_some_and(|client| client.places.contains_key(&stream_id)) {
            return Err((NakCode::NOT_OPEN, "the stream is not open"));
        }
        let (container_type, payload) = match &post.message {
            Some(Msg::Update(update)) => (update.container_type, update.payload),
            Some(Msg::Refresh(refresh)) => (refresh.container_type, refresh.payload),
            // A state has nothing that an update could hold.
            Some(_) => return Ok(()),
            None => (post.msg.container_type, post.msg.payload),
        };
        let update = UpdateMsg {
            post_user_info: Some(post.msg.post_user_info),
            payload,
            ..UpdateMsg::new(post.msg.domain, stream_id, container_type)
        };
        if let Ok(bytes) = update.to_vec() {
            self.counts.posts_reflected += 1;
            send(outbox, connection, &bytes);
        }
        Ok(())
    }

    pub(super) fn on_generic(&mut self, connection: ConnectionId, msg: &GenericMsg<'_>, outbox: &mut Outbox) {
        self.counts.generics += 1;
        if let Some(stamp) = stamp_in(msg.container_type, msg.payload, TIM_TRK_3)
            && let Some(age) = self.unit.since(stamp, clock::monotonic())
        {
            self.counts.generic_latency.record(age);
        }
        let is_open =
            self.clients.get(&connection).is_some_and(|client| client.places.contains_key(&msg.stream_id));
        if !is_open || !self.answers_generics {
            return;
        }
        let answer = GenericMsg {
            complete: msg.complete,
            seq_num: msg.seq_num,
            secondary_seq_num: msg.seq_num,
            part_num: msg.part_num,
            payload: msg.payload,
            ..GenericMsg::new(msg.domain, msg.stream_id, msg.container_type)
        };
        if let Ok(bytes) = answer.to_vec() {
            self.counts.generics_answered += 1;
            send(outbox, connection, &bytes);
        }
    }
}

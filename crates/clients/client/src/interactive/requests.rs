//! What clients ask for: items, their ends, posts, generic messages.

use rdm::item::{CloseTarget, ItemClose, ItemRequest, Target};
use rdm::post::{self, Post};
use rdm::{RdmError, Reply, ToVec};
use rwf::{
    CloseMsg, DataState, GenericMsg, Msg, NakCode, PostMsg, RequestMsg, State, StateCode, StreamState,
};

use super::client::{Outlet, Stream, Watcher};
use super::core::Core;
use super::port_connection::PortConnection;
use super::{InteractiveEvent, OwnedMsg, PostTicket};
use crate::{ItemError, PublishSpec, PublishedItem};

impl Core {
    pub(super) fn on_item_request(
        &mut self,
        connection: PortConnection,
        msg: &RequestMsg<'_>,
        out: &mut impl Outlet,
    ) -> Result<(), RdmError> {
        // A reissue of one stream needs no key.
        let open = self.clients.get(&connection).and_then(|client| client.streams.get(&msg.stream_id));
        if open.is_some() && !msg.batch {
            self.counters.requests_in.inc();
            self.reissue(Watcher { connection, stream_id: msg.stream_id }, msg.pause, msg.no_refresh, out);
            return Ok(());
        }
        let request = ItemRequest::parse(msg)?;
        let reply = Reply::to(&Msg::Request(*msg));
        if msg.batch {
            let taken = reply.batch_taken();
            if let Ok(bytes) = self.message.try_encode(|w| taken.encode(w)) {
                out.send(connection, bytes);
            }
        }
        if let Target::Streams(ids) = &request.target {
            for stream_id in ids {
                self.counters.requests_in.inc();
                self.reissue(
                    Watcher { connection, stream_id: *stream_id },
                    request.pause,
                    request.no_refresh,
                    out,
                );
            }
        }
        for single in request.singles() {
            self.counters.requests_in.inc();
            self.on_single(connection, &single, reply, out);
        }
        Ok(())
    }

    fn on_single(
        &mut self,
        connection: PortConnection,
        request: &ItemRequest<'_>,
        reply: Reply<'_>,
        out: &mut impl Outlet,
    ) {
        let Target::Item(key) = request.target else { return };
        let reply = reply.on(request.stream_id, key);
        let Some(client) = self.clients.get(&connection) else { return };
        if client.streams.contains_key(&request.stream_id) {
            return self.refuse(
                connection,
                &reply.closed(StateCode::USAGE_ERROR, "the stream is open already"),
                out,
            );
        }
        if let Some(refusal) = self.directory.refuses(key.service_id, request.domain, request.qos_range()) {
            return self.refuse(connection, &reply.status(refusal.state()), out);
        }
        if client.streams.len() >= self.config.client_streams_max as usize {
            let text = "the client has as many streams as it may";
            return self.refuse(connection, &reply.closed(StateCode::TOO_MANY_ITEMS, text), out);
        }
        let Ok(name) = std::str::from_utf8(key.name) else {
            return self.refuse(connection, &reply.closed(StateCode::NOT_FOUND, "the name is no UTF-8"), out);
        };
        let private = request.private_stream.then_some(client.id);
        // The service is known: it was looked at above.
        let spec =
            PublishSpec { seq_nums: self.config.seq_nums, ..PublishSpec::new(request.domain, "", name) };
        match self.items.open(&spec, key.service_id, private) {
            Ok(PublishedItem(slot)) => {
                let (streaming, is_paused) = (request.streaming, request.pause);
                self.add_stream(connection, request.stream_id, Stream { slot, streaming, is_paused }, out);
            }
            Err(ItemError::TooManyItems { .. }) => {
                let text = "the provider has as many items as it may";
                self.refuse(connection, &reply.closed_recover(StateCode::NO_RESOURCES, text), out);
            }
            Err(_) => self.refuse(connection, &reply.closed(StateCode::NOT_FOUND, "no such item"), out),
        }
    }

    /// An open stream is asked for again: paused, resumed, or for its image.
    fn reissue(&mut self, watcher: Watcher, pause: bool, no_refresh: bool, out: &mut impl Outlet) {
        self.set_stream_paused(watcher, pause);
        if !no_refresh {
            self.want_image(watcher, out);
        } else if let Some(stream) =
            self.clients.get(&watcher.connection).and_then(|client| client.streams.get(&watcher.stream_id))
        {
            // One that is resumed without a wish for an image has missed updates all the same.
            self.answer(stream.slot, out);
        }
    }

    /// The end of item streams; of a directory stream too, for whose domain a close in JSON need not name.
    pub(super) fn on_close(
        &mut self,
        connection: PortConnection,
        msg: &CloseMsg<'_>,
        out: &mut impl Outlet,
    ) -> Result<(), RdmError> {
        let close = ItemClose::parse(msg)?;
        let (mut count, mut open_count) = (0, 0);
        for stream_id in close.streams() {
            count += 1;
            self.counters.closes_in.inc();
            open_count += usize::from(self.on_item_close(connection, stream_id));
        }
        // Over WebSocket a close of several streams is answered, over RSSL it is not.
        if connection.is_websocket() && matches!(close.target, CloseTarget::Streams(_)) {
            let text =
                format!("Processed {count} total stream ids from Batch Close Request. {open_count} Ok.");
            let state = State::new(StreamState::Closed, DataState::Ok).because(StateCode::NONE, &text);
            let answer = Reply::to(&Msg::Close(*msg)).status(state);
            out.send(connection, &answer.to_vec()?);
        }
        Ok(())
    }

    /// Whether there was such a stream.
    fn on_item_close(&mut self, connection: PortConnection, stream_id: i32) -> bool {
        let Some(client) = self.clients.get_mut(&connection) else { return false };
        if !client.streams.contains_key(&stream_id) {
            return client.close_directory(stream_id);
        }
        self.end_stream(Watcher { connection, stream_id });
        true
    }

    pub(super) fn on_post(
        &mut self,
        connection: PortConnection,
        msg: &PostMsg<'_>,
        bytes: &[u8],
        out: &mut impl Outlet,
    ) {
        self.counters.posts_in.inc();
        let Some(client) = self.clients.get(&connection) else { return };
        let (id, stream) = (client.id, client.streams.get(&msg.stream_id).copied());
        let login_stream_id = rdm::login::LOGIN_STREAM_ID;
        let checked = Post::parse(msg).and_then(|post| post.target(login_stream_id));
        let refusal = match checked {
            _ if !self.config.takes_posts => Some((NakCode::DENIED_BY_SOURCE, "posts are not taken")),
            Err(error) => Some((error.nak_code(), "the post is malformed")),
            Ok(_) if stream.is_none() && msg.stream_id != login_stream_id => {
                Some((NakCode::NOT_OPEN, "the stream is not open"))
            }
            Ok(_) => None,
        };
        if let Some((code, text)) = refusal {
            self.counters.posts_refused.inc();
            if let Some(nak) = post::nak(msg, code, text) {
                self.send_ack(connection, &nak, out);
            }
            return;
        }
        self.events.push_back(InteractiveEvent::Post {
            client: id,
            item: stream.map(|stream| PublishedItem(stream.slot)),
            message: OwnedMsg(bytes.into()),
            ticket: msg.ack.then_some(PostTicket { client: id, post: post::answerable(msg) }),
        });
    }

    pub(super) fn on_generic(&mut self, connection: PortConnection, msg: &GenericMsg<'_>, bytes: &[u8]) {
        let Some(client) = self.clients.get(&connection) else { return };
        let Some(stream) = client.streams.get(&msg.stream_id) else {
            self.counters.messages_refused.inc();
            return;
        };
        self.counters.generics_in.inc();
        self.events.push_back(InteractiveEvent::Generic {
            client: client.id,
            item: PublishedItem(stream.slot),
            message: OwnedMsg(bytes.into()),
        });
    }
}

//! Requests for items, one or a batch of them: opened, changed, paused, closed.

use rdm::item::{ItemClose, ItemKey as RequestKey, ItemRequest, Target};
use rdm::{RdmError, Reply, ToVec};
use rwf::{
    AckMsg, CloseMsg, DataState, DataType, Domain, Key, RequestMsg, State, StateCode, StatusMsg, StreamState,
};
use units::Nanos;

use super::audience::{Form, Newcomer};
use super::clients::{Client, Stream};
use super::life::Phase;
use super::{ClientId, PointToPoint, ServerSink, Watcher};
use crate::key::ItemKey;
use crate::view::View;

/// Requests.
impl PointToPoint {
    pub(super) fn on_item_request(
        &mut self,
        now: Nanos,
        client: ClientId,
        msg: &RequestMsg<'_>,
        sink: &mut impl ServerSink,
    ) -> Result<(), RdmError> {
        let request = ItemRequest::parse(msg)?;
        let form = self.form(client, &request);
        match &request.target {
            Target::Item(key) if request.private_stream => {
                let bytes = self.encoding.encode(|w| msg.encode(w)).to_vec();
                self.on_private(now, client, (&request, &bytes), key, sink);
            }
            Target::Item(key) => self.on_single(now, client, &request, key, &form, sink),
            // An array has 65,535 entries at most.
            Target::Items { .. } => self.on_batch(now, client, msg, (&request, &form), sink),
            Target::Streams(_) => self.begin_batch(now, client, msg, (&request, &form), sink),
        }
        Ok(())
    }

    /// The form that a request wants its item in.
    fn form(&mut self, client: ClientId, request: &ItemRequest<'_>) -> Form {
        let view = request.view.as_ref().map(|wanted| View::of(wanted, &self.dictionary));
        let login = self.clients.get(&client).and_then(|c| c.login.as_ref());
        Form {
            view: view.map(|view| self.views.share(view)),
            key_in_updates: request.key_in_updates,
            conflation_info: request.conflation_info_in_updates,
            part_bytes: self.profile(client).refresh_part_bytes,
            is_snapshot: !request.streaming,
            on_suspect: login.map(|login| login.on_suspect).unwrap_or_default(),
        }
    }

    /// A request for one item: a new stream, or a change of an open one.
    fn on_single(
        &mut self,
        now: Nanos,
        client: ClientId,
        request: &ItemRequest<'_>,
        key: &RequestKey<'_>,
        form: &Form,
        sink: &mut impl ServerSink,
    ) {
        let watcher = Watcher { client, stream_id: request.stream_id };
        match self.admit(client, request, key, 0) {
            Ok(_) if self.has_stream(client, request.stream_id) => {
                self.reissue(watcher, form, (request.pause, request.no_refresh), sink);
            }
            Ok(key) => {
                let is_paused = request.pause;
                let (is_snapshot, form) = (!request.streaming, form.clone());
                self.watch(now, key, Newcomer { watcher, form, is_snapshot, is_paused, is_due: false }, sink);
            }
            Err(state) => self.refuse_item(now, watcher, request, Key::from(*key), state, sink),
        }
    }

    /// A request for a stream of the client's own: a new one, or a change of an open one. The provider gets
    /// the request as it is.
    fn on_private(
        &mut self,
        now: Nanos,
        client: ClientId,
        (request, bytes): (&ItemRequest<'_>, &[u8]),
        key: &RequestKey<'_>,
        sink: &mut impl ServerSink,
    ) {
        let watcher = Watcher { client, stream_id: request.stream_id };
        let result = self.admit(client, request, key, 0).and_then(|_| {
            let private = (key.service_id, request.domain, request.streaming);
            self.on_private_request(watcher, private, bytes, sink).map_err(|text| {
                State::new(StreamState::ClosedRecover, DataState::Suspect).because(StateCode::NONE, text)
            })
        });
        if let Err(state) = result {
            self.refuse_item(now, watcher, request, Key::from(*key), state, sink);
        }
    }

    /// A request is answered with a closed stream; one that was open under its id is closed with it.
    fn refuse_item(
        &mut self,
        now: Nanos,
        watcher: Watcher,
        request: &ItemRequest<'_>,
        key: Key<'_>,
        state: State<'_>,
        sink: &mut impl ServerSink,
    ) {
        self.counters.requests_refused.inc();
        let key = Some(key).filter(|key| key.name.is_none_or(|name| !name.is_empty()));
        let private_stream = request.private_stream;
        let reply = Reply { domain: request.domain, stream_id: request.stream_id, key, private_stream };
        let answer = reply.status(state);
        sink.send(watcher.client, self.encoding.encode(|w| answer.encode(w)));
        self.leave(now, watcher, sink);
    }

    /// The item that a request is for if it can be served, `opened` others being about to be.
    fn admit<'k>(
        &self,
        client: ClientId,
        request: &ItemRequest<'_>,
        key: &RequestKey<'k>,
        opened: usize,
    ) -> Result<ItemKey<'k>, State<'static>> {
        let closed =
            |code, text| Err(State::new(StreamState::Closed, DataState::Suspect).because(code, text));
        if key.name.is_empty() {
            return closed(StateCode::INVALID_ARGUMENT, "an item needs a name");
        }
        let Some(service) = self.services.get(&key.service_id).filter(|service| !service.is_withdrawn) else {
            return closed(StateCode::SOURCE_UNKNOWN, "there is no service of this id");
        };
        // A service that is down comes back; its items wait for it.
        if let Some(refusal) = service.definition.info.refuses(request.domain, request.qos_range()) {
            return Err(refusal.state());
        }
        let Ok(wanted) = ItemKey::of(key.service_id, request.domain, &Key::from(*key)) else {
            return closed(StateCode::INVALID_ARGUMENT, ATTRIBUTES_TOO_LONG);
        };
        let Some(known) = self.clients.get(&client) else { return Ok(wanted) };
        match self.open_as(known, request.stream_id) {
            None if known.stream_count() + opened < self.config.client_streams_max => Ok(wanted),
            None => closed(StateCode::TOO_MANY_ITEMS, "too many open streams on this connection"),
            Some(OpenAs::Private) if request.private_stream => Ok(wanted),
            Some(OpenAs::Item(open)) if open.is_meant_by(&wanted) && !request.private_stream => Ok(wanted),
            Some(_) => closed(StateCode::ALREADY_OPEN, "the stream is open for another item"),
        }
    }

    /// What a client's stream is open for.
    fn open_as<'s>(&'s self, client: &Client, stream_id: i32) -> Option<OpenAs<'s>> {
        if client.private.contains_key(&stream_id) {
            return Some(OpenAs::Private);
        }
        let stream = client.streams.get(&stream_id)?;
        let item = self.items.get(stream.index).filter(|item| item.serial == stream.serial)?;
        Some(OpenAs::Item(item.key.as_key()))
    }
}

/// [`crate::KEY_ATTRIBUTES_BYTES_MAX`] in words.
const ATTRIBUTES_TOO_LONG: &str = "the attributes of an item's key are longer than 4096 bytes";

/// What a stream is open for.
enum OpenAs<'a> {
    /// An item that others may watch too.
    Item(ItemKey<'a>),
    /// Something of the client's own.
    Private,
}

/// The request for one item of a batch, but for its view.
fn single_of<'a>(request: &ItemRequest<'a>, stream_id: i32, key: RequestKey<'a>) -> ItemRequest<'a> {
    ItemRequest { stream_id, target: Target::Item(key), view: None, ..*request }
}

/// Batches.
impl PointToPoint {
    /// The batch's own stream ends at once; its items live on the stream ids that follow.
    fn on_batch(
        &mut self,
        now: Nanos,
        client: ClientId,
        msg: &RequestMsg<'_>,
        (request, form): (&ItemRequest<'_>, &Form),
        sink: &mut impl ServerSink,
    ) {
        let (mut admitted, mut count) = (0, 0);
        for (stream_id, key) in request.target.keys(request.stream_id) {
            let single = single_of(request, stream_id, key);
            admitted += usize::from(self.admit(client, &single, &key, admitted).is_ok());
            count += 1;
        }
        let text = format!("Processed {count} total items from Batch Request.  {admitted} Ok.");
        self.end_batch(now, client, request, &text, sink);
        self.begin_batch(now, client, msg, (request, form), sink);
    }

    /// One item of a batch.
    pub(super) fn serve_single(
        &mut self,
        now: Nanos,
        client: ClientId,
        (request, form): (&ItemRequest<'_>, &Form),
        (stream_id, key): (i32, RequestKey<'_>),
        sink: &mut impl ServerSink,
    ) {
        let single = single_of(request, stream_id, key);
        if !single.private_stream {
            return self.on_single(now, client, &single, &key, form, sink);
        }
        let single = ItemRequest { view: request.view.clone(), ..single };
        if let Ok(bytes) = single.to_vec() {
            self.on_private(now, client, (&single, &bytes), &key, sink);
        }
    }

    /// The same change of several open streams is made.
    pub(super) fn end_reissue(
        &mut self,
        now: Nanos,
        client: ClientId,
        (request, stream_ids): (&ItemRequest<'_>, &[i32]),
        sink: &mut impl ServerSink,
    ) {
        // Some applications send it on the first of the streams.
        if !self.has_stream(client, request.stream_id) {
            let good = stream_ids.iter().filter(|id| self.has_stream(client, **id)).count();
            let count = stream_ids.len();
            let text = format!("Processed {count} total stream ids from Batch Reissue Request.  {good} Ok.");
            self.end_batch(now, client, request, &text, sink);
        }
    }

    fn end_batch(
        &mut self,
        now: Nanos,
        client: ClientId,
        request: &ItemRequest<'_>,
        text: &str,
        sink: &mut impl ServerSink,
    ) {
        self.counters.batches_in.inc();
        let state = State::new(StreamState::Closed, DataState::Ok).because(StateCode::NONE, text);
        let (domain, stream_id) = (request.domain, request.stream_id);
        let answer = Reply { domain, stream_id, key: None, private_stream: false }.status(state);
        sink.send(client, self.encoding.encode(|w| answer.encode(w)));
        self.leave(now, Watcher { client, stream_id }, sink);
    }
}

/// Streams.
impl PointToPoint {
    /// Changes how an open stream wants its item.
    ///
    /// The answer is a refresh. If none is wanted, there is one all the same where the client would go on
    /// with something that is not so: after a pause, and when it sees other fields than before, which while
    /// it pauses is no matter yet.
    pub(super) fn reissue(
        &mut self,
        watcher: Watcher,
        form: &Form,
        (pause, no_refresh): (bool, bool),
        sink: &mut impl ServerSink,
    ) {
        self.settle_stream(watcher, sink);
        let Some(client) = self.clients.get_mut(&watcher.client) else { return };
        let all_paused = client.login.as_ref().is_some_and(|login| login.is_paused);
        // A private stream is its provider's matter, and its requests are passed on one by one.
        let Some(stream) = client.streams.get_mut(&watcher.stream_id) else { return };
        let before = std::mem::replace(&mut stream.form, form.clone());
        let was_paused = std::mem::replace(&mut stream.is_paused, pause) || all_paused;
        let (index, is_paused) = (stream.index, pause || all_paused);
        let audience = &mut self.items[index].audience;
        if let Some(newcomer) = audience.newcomer(watcher) {
            newcomer.form = form.clone();
            newcomer.is_paused = is_paused;
            return;
        }
        let was_due = audience.take_due(watcher);
        if was_due || before != *form || was_paused != is_paused {
            audience.remove(watcher);
            audience.add(watcher, form, is_paused);
        }
        let lacks = !is_paused && (was_due || was_paused || before.view != form.view);
        if !no_refresh || lacks {
            self.send_image(index, form, &[watcher], !no_refresh, sink);
        }
    }

    /// Pauses a stream or lets it go on, as the client's login says of all of them.
    pub(super) fn set_pause(&mut self, watcher: Watcher, is_paused: bool, sink: &mut impl ServerSink) {
        self.settle_stream(watcher, sink);
        let client = self.clients.get(&watcher.client);
        let Some(stream) = client.and_then(|c| c.streams.get(&watcher.stream_id)) else { return };
        let (index, form) = (stream.index, stream.form.clone());
        if self.items[index].audience.set_paused(watcher, &form, is_paused) && !is_paused {
            self.send_image(index, &form, &[watcher], false, sink);
        }
    }

    /// Opens a stream.
    fn watch(&mut self, now: Nanos, key: ItemKey<'_>, mut newcomer: Newcomer, sink: &mut impl ServerSink) {
        if self.cleanups.is_busy() {
            self.find_settled(key, sink);
        }
        let index = self.find_or_make(key);
        let item = &mut self.items[index];
        item.lingers_until = None;
        let (watcher, serial) = (newcomer.watcher, item.serial);
        if let Some(client) = self.clients.get_mut(&watcher.client) {
            let (form, is_paused) = (newcomer.form.clone(), newcomer.is_paused);
            let stream = Stream { index, serial, form, is_paused, conversation: None };
            client.streams.insert(watcher.stream_id, stream);
            newcomer.is_paused |= client.login.as_ref().is_some_and(|login| login.is_paused);
        }
        self.count_watchers(1);
        let item = &mut self.items[index];
        let phase = item.life.phase();
        if phase != Phase::Live && !item.cached.is_known() {
            let is_idle = phase == Phase::Idle;
            let is_suspect = item.cached.state().data == DataState::Suspect;
            item.audience.await_image(newcomer);
            if is_idle {
                self.request_new(now, index, watcher, sink);
            } else if is_suspect {
                self.tell_newcomer(now, index, watcher, sink);
            }
            return;
        }
        self.admit_newcomer(now, index, newcomer, sink);
    }

    /// Tells a stream that waits for an image why there is none.
    fn tell_newcomer(&mut self, now: Nanos, index: usize, watcher: Watcher, sink: &mut impl ServerSink) {
        let state = self.items[index].cached.state().clone();
        let state = state.borrow();
        let closing = self.items[index].audience.take_closing(false);
        self.close_streams(now, index, closing, (state.code, &state.text_lossy()), sink);
        if self.items[index].audience.newcomer(watcher).is_some() {
            let key = self.items[index].key.as_key();
            let msg = StatusMsg {
                state: Some(state),
                key: Some(key.to_key()),
                ..StatusMsg::new(key.domain, 0, DataType::NO_DATA)
            };
            self.counters.statuses_out.inc();
            sink.fan_out(&[watcher], self.encoding.encode(|w| msg.encode(w)));
        }
    }

    /// Asks for an item that has no image; if there is nobody to ask, the watcher is told.
    fn request_new(&mut self, now: Nanos, index: usize, watcher: Watcher, sink: &mut impl ServerSink) {
        let service = self.services.get(&self.items[index].key.service);
        if service.is_some_and(|s| s.active.is_some()) {
            self.request(index);
            self.send_requests(now, sink);
            return;
        }
        let text = "the service is down, waiting for it";
        let closing = self.items[index].audience.take_closing(true);
        if !closing.is_empty() {
            self.close_streams(now, index, closing, (StateCode::NONE, text), sink);
            return;
        }
        let key = self.items[index].key.clone();
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

    pub(super) fn on_item_close(
        &mut self,
        now: Nanos,
        client: ClientId,
        msg: &CloseMsg<'_>,
        sink: &mut impl ServerSink,
    ) -> Result<(), RdmError> {
        let close = ItemClose::parse(msg)?;
        for stream_id in close.streams() {
            self.leave(now, Watcher { client, stream_id }, sink);
        }
        if close.ack {
            self.acknowledge_close(client, close.domain, close.stream_id, sink);
        }
        Ok(())
    }

    fn acknowledge_close(
        &mut self,
        client: ClientId,
        domain: Domain,
        stream_id: i32,
        sink: &mut impl ServerSink,
    ) {
        let ack = AckMsg { ack_id: stream_id as u32, ..AckMsg::new(domain, stream_id, DataType::NO_DATA) };
        sink.send(client, self.encoding.encode(|w| ack.encode(w)));
    }

    /// A client is done with a stream, if it is open.
    pub(super) fn leave(&mut self, now: Nanos, watcher: Watcher, sink: &mut impl ServerSink) {
        let Some(client) = self.clients.get_mut(&watcher.client) else { return };
        if let Some(number) = client.private.remove(&watcher.stream_id) {
            self.close_private(number, sink);
            self.count_watchers(-1);
        } else if let Some(stream) = client.streams.remove(&watcher.stream_id) {
            stream.conversation.map(|number| self.conversations.end(number));
            self.count_watchers(-1);
            self.unwatch(now, &stream, watcher);
        }
    }

    /// A client has left an item; after the last one it lingers.
    pub(super) fn unwatch(&mut self, now: Nanos, stream: &Stream, watcher: Watcher) {
        let Some(item) = self.items.get_mut(stream.index).filter(|i| i.serial == stream.serial) else {
            return;
        };
        if item.audience.remove(watcher) {
            self.start_linger(now, stream.index);
        }
    }

    /// Takes a stream off its client's list: the item is done with it.
    pub(super) fn forget_stream(&mut self, watcher: Watcher) {
        let known = self.clients.get_mut(&watcher.client);
        if let Some(stream) = known.and_then(|c| c.streams.remove(&watcher.stream_id)) {
            stream.conversation.map(|number| self.conversations.end(number));
            self.count_watchers(-1);
        }
    }

    /// If nobody watches an item any more, it is given up after a while.
    pub(super) fn start_linger(&mut self, now: Nanos, index: usize) {
        let item = &mut self.items[index];
        if item.audience.is_empty() && item.lingers_until.is_none() {
            let until = now + self.config.item_linger;
            item.lingers_until = Some(until);
            self.lingering.push_back((until, index, item.serial));
        }
    }
}

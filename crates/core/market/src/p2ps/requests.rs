//! Requests for items, one or a batch of them: opened, changed, paused, closed.

use std::sync::Arc;

use rdm::item::{ItemClose, ItemKey as RequestKey, ItemRequest, Target};
use rdm::{RdmError, Reply, ToVec};
use rwf::{AckMsg, CloseMsg, DataState, DataType, Domain, Key, RequestMsg, State, StateCode, StreamState};
use units::Nanos;

use super::PointToPoint;
use super::audience::{Form, Newcomer};
use super::base::{ClientClass, ClientId, Watcher};
use super::client::Client;
use super::composing;
use super::sink::ServerSink;
use crate::key::ItemKey;
use crate::view::View;

/// [`crate::KEY_ATTRIBUTES_BYTES_MAX`] in words.
const ATTRIBUTES_TOO_LONG: &str = "the attributes of an item's key are longer than 4096 bytes";

/// What clients get that want a private stream of a composed service.
const PRIVATE_COMPOSED: &str = "a composed service has no private streams: ask one of its members";

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
    pub(super) fn form(&mut self, client: ClientId, request: &ItemRequest<'_>) -> Arc<Form> {
        let view = request.view.as_ref().map(|wanted| View::of(wanted, &self.dictionary));
        let login = self.items.clients.get(client).and_then(|c| c.login.as_ref());
        let form = Form {
            view: view.map(|view| self.views.share(view)),
            key_in_updates: request.key_in_updates,
            conflation_info: request.conflation_info_in_updates,
            part_bytes: self.items.clients.profile(client).refresh_part_bytes,
            is_snapshot: !request.streaming,
            on_suspect: login.map(|login| login.on_suspect).unwrap_or_default(),
            interval_ms: 0,
            quality_ms: 0,
            alias: None,
        };
        self.forms.share(form)
    }

    /// The form with the interval at which a stream is to get updates of an item of a service: the longest of that of the
    /// quality that it gets, of the client's class and of the service. A change of an open stream that names no quality keeps what
    /// it has.
    pub(super) fn paced_form(
        &mut self,
        watcher: Watcher,
        request: &ItemRequest<'_>,
        service_id: u16,
        form: &Arc<Form>,
    ) -> Arc<Form> {
        let open = self.items.clients.get(watcher.client).and_then(|c| c.streams.get(&watcher.stream_id));
        let alias = open.and_then(|stream| stream.form.alias.clone());
        if form.is_snapshot {
            return match alias {
                None => Arc::clone(form),
                Some(_) => self.forms.share(Form { alias, ..Form::clone(form) }),
            };
        }
        let of_class = self.class(watcher.client).map_or(0, |class| class.interval_ms);
        let range = request.qos_range();
        let service = self.items.sources.services.get(&service_id).map(|service| &service.definition.info);
        let quality_ms = match (open, range) {
            (Some(stream), None) => stream.form.quality_ms,
            _ => self.config.interval_of(service.and_then(|info| info.best_qos(range))),
        };
        let of_service = service.map_or(0, |info| self.config.service_interval(&info.name));
        let composed = self.items.composed.service_of(service_id);
        let of_members = composed.map_or(0, |at| self.items.composed.services[at].interval_ms);
        let interval_ms = of_class.max(quality_ms).max(of_service).max(of_members);
        if (interval_ms, quality_ms, &alias) == (form.interval_ms, form.quality_ms, &form.alias) {
            return Arc::clone(form);
        }
        self.forms.share(Form { interval_ms, quality_ms, alias, ..Form::clone(form) })
    }

    /// The id of the service that an open stream is of.
    pub(super) fn service_of(&self, watcher: Watcher) -> Option<u16> {
        let stream = self.items.clients.get(watcher.client)?.streams.get(&watcher.stream_id)?;
        let item = self.items.table.get(stream.index())?;
        Some(stream.form.shown_key(item.key.as_key()).service)
    }

    /// The class of a client's user.
    fn class(&self, client: ClientId) -> Option<&ClientClass> {
        self.items.clients.get(client)?.class.and_then(|at| self.config.classes.get(at))
    }

    /// A request for one item: a new stream, or a change of an open one.
    fn on_single(
        &mut self,
        now: Nanos,
        client: ClientId,
        request: &ItemRequest<'_>,
        key: &RequestKey<'_>,
        form: &Arc<Form>,
        sink: &mut impl ServerSink,
    ) {
        let watcher = Watcher { client, stream_id: request.stream_id };
        let form = self.paced_form(watcher, request, key.service_id, form);
        match self.admit(client, request, key, 0) {
            Ok(_) if self.has_stream(client, request.stream_id) => {
                self.items.reissue(now, watcher, &form, (request.pause, request.no_refresh), sink);
            }
            Ok(wanted) => {
                let newcomer = Newcomer { watcher, form, is_paused: request.pause, is_due: false };
                if self.items.composed.service_of(wanted.service).is_none() {
                    self.items.watch(now, wanted, newcomer, sink);
                } else if let Err(state) = watch_composed(self, now, wanted, newcomer, sink) {
                    self.refuse_item(now, watcher, request, Key::from(*key), state, sink);
                }
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
            if self.items.composed.service_of(key.service_id).is_some() {
                let state = State::new(StreamState::Closed, DataState::Suspect);
                return Err(state.because(StateCode::USAGE_ERROR, PRIVATE_COMPOSED));
            }
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
        self.items.leave(now, watcher, sink);
    }

    /// The item that a request is for if it can be served, `opened` others being about to be.
    pub(super) fn admit<'k>(
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
        let Some(service) =
            self.items.sources.services.get(&key.service_id).filter(|service| !service.is_withdrawn)
        else {
            return closed(StateCode::SOURCE_UNKNOWN, "there is no service of this id");
        };
        // A service that is down comes back; its items wait for it.
        if let Some(refusal) = service.definition.info.refuses(request.domain, request.qos_range()) {
            return Err(refusal.state());
        }
        let Ok(wanted) = ItemKey::of(key.service_id, request.domain, &Key::from(*key)) else {
            return closed(StateCode::INVALID_ARGUMENT, ATTRIBUTES_TOO_LONG);
        };
        let Some(known) = self.items.clients.get(client) else { return Ok(wanted) };
        match self.open_as(known, request.stream_id) {
            None if known.stream_count() + opened < self.streams_max(client) => Ok(wanted),
            None => closed(StateCode::TOO_MANY_ITEMS, "too many open streams on this connection"),
            Some(OpenAs::Private) if request.private_stream => Ok(wanted),
            Some(OpenAs::Item(open)) if open.is_meant_by(&wanted) && !request.private_stream => Ok(wanted),
            Some(_) => closed(StateCode::ALREADY_OPEN, "the stream is open for another item"),
        }
    }

    /// Most streams that a client may have open.
    fn streams_max(&self, client: ClientId) -> usize {
        let of_class = self.class(client).map_or(usize::MAX, |class| class.streams_max);
        self.config.client_streams_max.min(of_class)
    }

    /// What a client's stream is open for.
    fn open_as<'s>(&'s self, client: &'s Client, stream_id: i32) -> Option<OpenAs<'s>> {
        if client.private.contains_key(&stream_id) {
            return Some(OpenAs::Private);
        }
        let stream = client.streams.get(&stream_id)?;
        let item = self.items.table.get(stream.index()).filter(|item| stream.is_of(item))?;
        Some(OpenAs::Item(stream.form.shown_key(item.key.as_key())))
    }
}

/// Batches.
impl PointToPoint {
    /// The batch's own stream ends at once; its items live on the stream ids that follow.
    fn on_batch(
        &mut self,
        now: Nanos,
        client: ClientId,
        msg: &RequestMsg<'_>,
        (request, form): (&ItemRequest<'_>, &Arc<Form>),
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
        (request, form): (&ItemRequest<'_>, &Arc<Form>),
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
        self.items.leave(now, Watcher { client, stream_id }, sink);
    }
}

/// Streams.
impl PointToPoint {
    pub(super) fn on_item_close(
        &mut self,
        now: Nanos,
        client: ClientId,
        msg: &CloseMsg<'_>,
        sink: &mut impl ServerSink,
    ) -> Result<(), RdmError> {
        let close = ItemClose::parse(msg)?;
        for stream_id in close.streams() {
            self.items.leave(now, Watcher { client, stream_id }, sink);
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
}

/// Opens a stream of an item of a composed service.
fn watch_composed(
    core: &mut PointToPoint,
    now: Nanos,
    key: ItemKey<'_>,
    newcomer: Newcomer,
    sink: &mut impl ServerSink,
) -> Result<(), State<'static>> {
    let (alias, target) = composing::compose(&mut core.items, key, sink)?;
    let alias = Some(alias);
    let form = core.forms.share(Form { alias, ..Form::clone(&newcomer.form) });
    form.alias.iter().for_each(|alias| composing::join_composed(&mut core.items, alias));
    core.items.watch(now, target.as_key(), Newcomer { form, ..newcomer }, sink);
    Ok(())
}

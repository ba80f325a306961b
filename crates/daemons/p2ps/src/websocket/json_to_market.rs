use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::ops::ControlFlow;

use backbone::InletCommand;
use market::p2ps::{ClientError, ClientId, ClientProfile, PointToPoint, ServerSink};
use rdm::item::{CloseTarget, ItemClose, ItemRequest, Target, has_items};
use rdm::{Reply, ToVec};
use rwf::{CloseMsg, DataState, DataType, Domain, Msg, RequestMsg, State, StateCode, StreamState};
use rwf_json::PeerError;
use server::websocket::{PART_BYTES, RwfService, WebSocket, answer, cookie_login};
use server::{ConnectionId, Outbox, PortEvent, Service};
use tracing::{debug, info, warn};
use units::Nanos;
use websocket::{CloseReason, Message, Session};

use super::{Input, Json, Streams, client_of, update_services};
use crate::market_to_clients::MarketToClients;
use crate::pace::Pace;
use crate::rssl_to_market::{address, log_end};

/// What JSON clients send, given to the core as RWF: the service behind the WebSocket port.
pub(crate) struct JsonToMarket<'a> {
    pub(crate) core: &'a mut PointToPoint,
    pub(crate) rssl: &'a mut Outbox,
    pub(crate) json: &'a mut Json,
    pub(crate) input: &'a mut Input,
    pub(crate) streams: &'a mut Streams,
    pub(crate) commands: &'a mut Vec<InletCommand>,
    pub(crate) pace: &'a mut Pace,
}

impl Service<WebSocket> for JsonToMarket<'_> {
    const SLICE_BYTES: usize = SLICE_BYTES;

    fn on_connected(
        &mut self,
        now: Nanos,
        connection: ConnectionId,
        session: &Session<'_>,
        peer: SocketAddr,
        outbox: &mut Outbox,
    ) {
        let agent = session.headers.all("User-Agent").next().unwrap_or("");
        let protocol = session.protocol;
        info!(connection = connection.0, %peer, agent, protocol, "WebSocket client connected");
        let profile = ClientProfile {
            // Some clients take the first part of a dictionary or image for all of it.
            dictionary_part_bytes: PART_BYTES,
            refresh_part_bytes: PART_BYTES,
            address: address(peer),
        };
        // What was sent to the last client of this number while it was leaving.
        self.streams.forget_all(connection);
        self.core.on_client_connected(client_of(connection), profile);
        if let Some(login) = cookie_login(session.headers) {
            let mut json_client = self.json_client(now, connection, outbox);
            // A login that is refused is answered; the client may try again with a message.
            let _ =
                json_client.core.on_client_message(now, client_of(connection), &login, &mut json_client.sink);
        }
    }

    fn on_message(
        &mut self,
        now: Nanos,
        connection: ConnectionId,
        message: Message<'_>,
        outbox: &mut Outbox,
    ) -> ControlFlow<()> {
        let Message::Text(text) = message else {
            info!(connection = connection.0, "binary frame where JSON is spoken, connection is closed");
            return ControlFlow::Break(());
        };
        update_services(self.json, self.core);
        let mut reader = std::mem::take(&mut self.input.reader);
        let mut json_client = self.json_client(now, connection, outbox);
        let json = json_client.sink.json;
        let result = json.read(&mut reader, text, connection, &mut json_client);
        self.input.reader = reader;
        match result {
            Ok(()) => ControlFlow::Continue(()),
            Err(reason) => {
                log_end(self.core, connection, reason);
                ControlFlow::Break(())
            }
        }
    }

    fn on_closed(&mut self, now: Nanos, connection: ConnectionId, reason: &CloseReason, outbox: &mut Outbox) {
        info!(connection = connection.0, %reason, "WebSocket client gone");
        self.streams.forget_all(connection);
        self.pace.forget(client_of(connection));
        let mut json_client = self.json_client(now, connection, outbox);
        json_client.core.on_client_closed(now, client_of(connection), &mut json_client.sink);
    }

    fn is_logged_in(&self, connection: ConnectionId) -> bool {
        self.core.is_logged_in(client_of(connection))
    }

    fn is_busy(&self, connection: ConnectionId) -> bool {
        self.pace.is_waiting(client_of(connection))
    }

    fn knows(&self, connection: ConnectionId) -> bool {
        self.core.is_leaving(client_of(connection))
    }

    fn on_port_event(&mut self, event: PortEvent<'_>) {
        if event.is_fault() {
            warn!(port = "websocket", "{event}")
        } else {
            info!(port = "websocket", "{event}")
        }
    }
}

impl JsonToMarket<'_> {
    /// Goes on with a client that waits; returns whether it waits no longer.
    ///
    /// # Errors
    /// Its connection is to be closed.
    pub(crate) fn go_on(
        &mut self,
        now: Nanos,
        client: ClientId,
        connection: ConnectionId,
        outbox: &mut Outbox,
    ) -> Result<bool, ClientError> {
        update_services(self.json, self.core);
        let mut json_client = self.json_client(now, connection, outbox);
        json_client.sink.begin();
        json_client.core.go_on(now, client, &mut json_client.sink);
        while json_client.sink.goes_on(json_client.core, client) {
            let Some(rwf) = json_client.sink.pace.next_message(client) else { return Ok(true) };
            json_client.handle(&rwf)?;
        }
        Ok(false)
    }

    fn json_client<'s>(
        &'s mut self,
        now: Nanos,
        connection: ConnectionId,
        outbox: &'s mut Outbox,
    ) -> JsonClient<'s> {
        let sink = MarketToClients {
            rssl: self.rssl,
            websocket: Some(outbox),
            json: self.json,
            streams: self.streams,
            commands: self.commands,
            pace: self.pace,
            hops: None,
        };
        JsonClient { now, connection, core: self.core, sink }
    }
}

/// What is taken from a connection before it is asked whether the client has to wait: compressed text may become a
/// thousand times as long.
const SLICE_BYTES: usize = 1 << 10;

/// One client that speaks JSON, and what it has to do with.
struct JsonClient<'s> {
    now: Nanos,
    connection: ConnectionId,
    core: &'s mut PointToPoint,
    sink: MarketToClients<'s>,
}

impl RwfService for JsonClient<'_> {
    type Fault = ClientError;

    fn on_rwf(&mut self, rwf: &[u8]) -> Result<(), ClientError> {
        let client = client_of(self.connection);
        if self.sink.defers(self.core, client, rwf) {
            return Ok(());
        }
        self.sink.begin();
        self.handle(rwf)?;
        self.sink.goes_on(self.core, client);
        Ok(())
    }

    fn send(&mut self, rwf: &[u8]) {
        self.sink.send(client_of(self.connection), rwf);
    }

    fn outbox(&mut self) -> &mut Outbox {
        self.sink.websocket.as_deref_mut().expect("the client is at the WebSocket port")
    }

    fn on_error(&mut self, error: PeerError<'_>) {
        let (stream_id, text) = (error.stream_id, String::from_utf8_lossy(error.text));
        debug!(connection = self.connection.0, stream_id, %text, "a message was of no use to the client");
    }
}

impl JsonClient<'_> {
    fn handle(&mut self, rwf: &[u8]) -> Result<(), ClientError> {
        self.sink.settle(self.now, self.core);
        match Msg::parse(rwf) {
            Ok(Msg::Request(request)) => match self.id_in_use(&request) {
                Some((stream_id, domain)) => {
                    self.refuse_id(request.stream_id, stream_id, domain);
                    Ok(())
                }
                None => self.give_core(rwf),
            },
            Ok(Msg::Close(close)) if close.domain != Domain::LOGIN => self.on_close(&close, rwf),
            _ => self.give_core(rwf),
        }
    }

    fn give_core(&mut self, rwf: &[u8]) -> Result<(), ClientError> {
        self.core.on_client_message(self.now, client_of(self.connection), rwf, &mut self.sink)
    }

    /// An id that a request would use and that is in use for a stream of another kind, and what that is. Two
    /// items are told apart by the core.
    fn id_in_use(&self, request: &RequestMsg<'_>) -> Option<(i32, Domain)> {
        let (first, domain) = (request.stream_id, request.domain);
        if !has_items(domain) {
            if self.core.has_stream(client_of(self.connection), first) {
                return Some((first, Domain::MARKET_PRICE));
            }
            let other = self.sink.streams.other_in_use(self.connection, &(first..=first));
            return other.filter(|(_, known)| *known != domain);
        }
        let entries = match ItemRequest::parse(request).map(|request| request.target) {
            Ok(Target::Items { names, .. }) => names.len(),
            _ => 0,
        };
        let last = first.saturating_add(i32::try_from(entries).unwrap_or(i32::MAX));
        self.sink.streams.other_in_use(self.connection, &(first..=last))
    }

    /// A status would end the stream that has the id; an error leaves it alone.
    fn refuse_id(&mut self, of_request: i32, stream_id: i32, domain: Domain) {
        let counters = self.sink.json.counters();
        counters.messages_refused.inc();
        counters.ids_in_use.inc();
        let what = if has_items(domain) { "an item".to_owned() } else { domain.to_string() };
        let text = format!("the id {stream_id} is in use for the stream of {what}");
        let error = serde_json::json!({"ID": of_request, "Type": "Error", "Text": text});
        let connection = self.connection;
        answer(self.outbox(), connection, |json| json.extend_from_slice(error.to_string().as_bytes()));
    }

    /// A close names no domain but that of a login, and one of several streams is answered.
    fn on_close(&mut self, close: &CloseMsg<'_>, rwf: &[u8]) -> Result<(), ClientError> {
        let client = client_of(self.connection);
        // What cannot be read is for the core to refuse.
        let Ok(wanted) = ItemClose::parse(&CloseMsg { domain: Domain::MARKET_PRICE, ..*close }) else {
            return self.give_core(rwf);
        };
        let ids: BTreeSet<i32> = wanted.streams().collect();
        let mut closed = ids.iter().filter(|id| self.core.has_stream(client, **id)).count();
        for &id in &ids {
            closed += usize::from(self.close_other(id)?);
        }
        self.give_core(rwf)?;
        ids.iter().for_each(|id| self.sink.streams.forget(self.connection, *id));
        if let CloseTarget::Streams(listed) = &wanted.target {
            let count = listed.len();
            let text = format!("Processed {count} total stream ids from Batch Close Request. {closed} Ok.");
            let state = State::new(StreamState::Closed, DataState::Ok);
            let state = state.because(StateCode::NONE, &text);
            let (domain, stream_id) = (close.domain, close.stream_id);
            let reply = Reply { domain, stream_id, key: None, private_stream: false };
            if let Ok(status) = reply.status(state).to_vec() {
                self.send(&status);
            }
        }
        Ok(())
    }

    /// Closes a stream that is not about items, if the id is that of one. A login is closed by name alone.
    fn close_other(&mut self, stream_id: i32) -> Result<bool, ClientError> {
        let (connection, streams) = (self.connection, &mut self.sink.streams);
        let other = streams.other_in_use(connection, &(stream_id..=stream_id));
        let Some((_, domain)) = other.filter(|(_, domain)| *domain != Domain::LOGIN) else {
            return Ok(false);
        };
        streams.close_other(connection, stream_id);
        let close = Msg::Close(CloseMsg::new(domain, stream_id, DataType::NO_DATA));
        let Ok(rwf) = close.to_vec() else { return Ok(false) };
        self.give_core(&rwf)?;
        Ok(true)
    }
}

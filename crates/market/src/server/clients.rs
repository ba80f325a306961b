//! Clients: login, directory, dictionary, and the items they ask for.

use std::collections::HashMap;

use rdm::dictionary::{DictionaryMsg, DictionaryParts, PartSizes};
use rdm::directory::{
    DirectoryMsg, DirectoryRefresh, DirectoryRequest, DirectoryUpdate, Service, ServiceDelta,
};
use rdm::item::{ItemClose, ItemRequest, Target};
use rdm::login::{LoginMsg, LoginRefresh, LoginRequest, LoginStatus, Role};
use rdm::{RdmError, Reply, ToVec, post};
use rwf::{AckMsg, CloseMsg, DecodeError, Domain, Msg, NakCode, PostMsg, RequestMsg, StateCode};
use units::Nanos;

use super::item::{Newcomer, Phase};
use super::{ClientId, PointToPoint, ServerSink, Watcher};
use crate::key::ItemKey;

/// What is to be known of a client's connection: how it takes what is long, and where it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientProfile {
    /// About how many bytes a part of a dictionary may have; `usize::MAX` for all in one message.
    pub dictionary_part_bytes: usize,
    /// About how many bytes a part of a refresh may have; `usize::MAX` for all in one message.
    pub refresh_part_bytes: usize,
    /// The client's IPv4 address as a number, 0 if it has none: who posts.
    pub address: u32,
}

impl Default for ClientProfile {
    /// Parts that fit one RSSL message.
    fn default() -> Self {
        ClientProfile { dictionary_part_bytes: 60_000, refresh_part_bytes: 60_000, address: 0 }
    }
}

/// One connection.
#[derive(Debug)]
pub(super) struct Client {
    profile: ClientProfile,
    login: Option<Login>,
    /// Open directory streams.
    directories: Vec<DirectoryRequest>,
    /// Open item streams: place and serial number of the item.
    items: HashMap<i32, (usize, u64)>,
}

#[derive(Debug)]
struct Login {
    user: String,
    position: String,
}

/// Why a client's connection is to be closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ClientError {
    /// Bytes that are not an RWF message.
    Malformed(DecodeError),
    /// The login was refused; the answer says why.
    LoginRefused,
    /// It has logged out.
    LoggedOut,
}

impl std::fmt::Display for ClientError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            ClientError::Malformed(e) => write!(f, "not an RWF message: {e}"),
            ClientError::LoginRefused => f.write_str("the login was refused"),
            ClientError::LoggedOut => f.write_str("logged out"),
        }
    }
}

impl std::error::Error for ClientError {}

/// What a status page shows of a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientInfo<'a> {
    /// The connection.
    pub client: ClientId,
    /// The user's name; empty before the login.
    pub user: &'a str,
    /// Where the user is, as the client says.
    pub position: &'a str,
    /// Open item streams.
    pub streams: usize,
}

/// Connections.
impl PointToPoint {
    /// A client has completed its handshake.
    pub fn on_client_connected(&mut self, client: ClientId, profile: ClientProfile) {
        let (login, directories, items) = (None, Vec::new(), HashMap::new());
        self.clients.insert(client, Client { profile, login, directories, items });
    }

    /// A connection is gone.
    pub fn on_client_closed(&mut self, now: Nanos, client: ClientId, _: &mut impl ServerSink) {
        let Some(gone) = self.clients.remove(&client) else { return };
        for (stream_id, (index, serial)) in gone.items {
            self.unwatch(now, index, serial, Watcher { client, stream_id });
        }
        self.count_clients();
    }

    /// Whether a client has logged in.
    #[must_use]
    pub fn is_logged_in(&self, client: ClientId) -> bool {
        self.clients.get(&client).is_some_and(|c| c.login.is_some())
    }

    /// The connections, for status pages.
    pub fn clients(&self) -> impl Iterator<Item = ClientInfo<'_>> + '_ {
        self.clients.iter().map(|(&client, c)| ClientInfo {
            client,
            user: c.login.as_ref().map_or("", |l| &l.user),
            position: c.login.as_ref().map_or("", |l| &l.position),
            streams: c.items.len(),
        })
    }

    /// A message of a client.
    ///
    /// # Errors
    /// The connection has to be closed, after what was sent to it is out.
    pub fn on_client_message(
        &mut self,
        now: Nanos,
        client: ClientId,
        bytes: &[u8],
        sink: &mut impl ServerSink,
    ) -> Result<(), ClientError> {
        let result = self.client_message(now, client, bytes, sink);
        if matches!(result, Err(ClientError::Malformed(_))) {
            self.counters.client_messages_refused.inc();
        }
        result
    }

    fn client_message(
        &mut self,
        now: Nanos,
        client: ClientId,
        bytes: &[u8],
        sink: &mut impl ServerSink,
    ) -> Result<(), ClientError> {
        let msg = Msg::parse(bytes).map_err(ClientError::Malformed)?;
        let Some(known) = self.clients.get(&client) else { return Ok(()) };
        if msg.domain() != Domain::LOGIN && known.login.is_none() {
            self.refuse(client, &msg, StateCode::USAGE_ERROR, "log in first", sink);
            return Ok(());
        }
        let result = match (&msg, msg.domain()) {
            (Msg::Post(post), _) => {
                self.on_post(client, post, sink);
                Ok(())
            }
            (_, Domain::LOGIN) => return self.on_login(now, client, &msg, sink),
            (_, Domain::SOURCE) => self.on_directory_msg(client, &msg, sink),
            (_, Domain::DICTIONARY) => self.on_dictionary_msg(client, &msg, sink),
            (Msg::Request(request), _) => self.on_item_request(now, client, request, sink),
            (Msg::Close(close), _) => self.on_item_close(now, client, close, sink),
            _ => {
                self.counters.client_messages_refused.inc();
                Ok(())
            }
        };
        if let Err(error) = result {
            self.counters.client_messages_refused.inc();
            if let (Msg::Request(_), Ok(answer)) = (&msg, Reply::to(&msg).refuse(&error)) {
                self.counters.requests_refused.inc();
                sink.send(client, &answer);
            }
        }
        Ok(())
    }

    fn refuse(
        &mut self,
        client: ClientId,
        msg: &Msg<'_>,
        code: StateCode,
        text: &str,
        sink: &mut impl ServerSink,
    ) {
        self.counters.client_messages_refused.inc();
        let answer = Reply::to(msg).closed(code, text);
        sink.send(client, self.encoding.encode(|w| answer.encode(w)));
    }

    fn count_clients(&self) {
        self.counters.clients.set(self.clients.values().filter(|c| c.login.is_some()).count() as u64);
        self.counters.watchers.set(self.clients.values().map(|c| c.items.len()).sum::<usize>() as u64);
    }

    /// Posts are not supported; who wants an acknowledgement is told so.
    fn on_post(&mut self, client: ClientId, msg: &PostMsg<'_>, sink: &mut impl ServerSink) {
        self.counters.client_messages_refused.inc();
        if let Some(nak) = post::nak(msg, NakCode::DENIED_BY_SOURCE, "posting is not supported") {
            sink.send(client, self.encoding.encode(|w| nak.encode(w)));
        }
    }
}

/// Login, directory, dictionary.
impl PointToPoint {
    fn on_login(
        &mut self,
        now: Nanos,
        client: ClientId,
        msg: &Msg<'_>,
        sink: &mut impl ServerSink,
    ) -> Result<(), ClientError> {
        match LoginMsg::parse(msg) {
            Ok(LoginMsg::Request(request)) => self.on_login_request(client, &request, sink),
            Ok(LoginMsg::Close(_)) => {
                self.on_client_closed(now, client, sink);
                Err(ClientError::LoggedOut)
            }
            Ok(LoginMsg::RoundTrip(_) | LoginMsg::Generic(_)) => Ok(()),
            Ok(LoginMsg::Refresh(_) | LoginMsg::Status(_)) => {
                self.counters.client_messages_refused.inc();
                Ok(())
            }
            Err(error) => {
                self.counters.client_messages_refused.inc();
                if let Ok(answer) = Reply::to(msg).refuse(&error) {
                    sink.send(client, &answer);
                }
                Err(ClientError::LoginRefused)
            }
        }
    }

    fn on_login_request(
        &mut self,
        client: ClientId,
        request: &LoginRequest<'_>,
        sink: &mut impl ServerSink,
    ) -> Result<(), ClientError> {
        if request.role == Role::Provider {
            let text = "this port is for consumers, providers connect to a source distributor";
            if let Ok(answer) = LoginStatus::reject(request, StateCode::USAGE_ERROR, text).to_vec() {
                sink.send(client, &answer);
            }
            return Err(ClientError::LoginRefused);
        }
        if let Some(known) = self.clients.get_mut(&client) {
            known.login = Some(Login {
                user: String::from_utf8_lossy(request.name).into_owned(),
                position: String::from_utf8_lossy(request.position.unwrap_or_default()).into_owned(),
            });
        }
        self.count_clients();
        let mut answer =
            LoginRefresh { application_name: Some(b"tickcast"), ..LoginRefresh::accept(request) };
        answer.features.omm_post = Some(false);
        answer.features.view_requests = Some(false);
        answer.features.optimized_pause_resume = Some(false);
        match answer.to_vec() {
            Ok(_) if request.no_refresh => Ok(()),
            Ok(answer) => {
                sink.send(client, &answer);
                Ok(())
            }
            // A position of more than 64 KiB, say.
            Err(_) => Err(ClientError::LoginRefused),
        }
    }

    fn on_directory_msg(
        &mut self,
        client: ClientId,
        msg: &Msg<'_>,
        sink: &mut impl ServerSink,
    ) -> Result<(), RdmError> {
        let request = match DirectoryMsg::parse(msg)? {
            DirectoryMsg::Request(request) => request,
            DirectoryMsg::Close(close) => {
                if let Some(known) = self.clients.get_mut(&client) {
                    known.directories.retain(|d| d.stream_id != close.stream_id);
                }
                return Ok(());
            }
            // What consumers say about themselves.
            DirectoryMsg::Generic(_) => return Ok(()),
            DirectoryMsg::Refresh(_) | DirectoryMsg::Update(_) | DirectoryMsg::Status(_) => {
                self.counters.client_messages_refused.inc();
                return Ok(());
            }
        };
        if let Some(known) = self.clients.get_mut(&client) {
            known.directories.retain(|d| d.stream_id != request.stream_id);
            if request.streaming {
                known.directories.push(request);
            }
        }
        if !request.no_refresh {
            let services = self.services.values().map(|s| &s.definition);
            if let Ok(answer) = DirectoryRefresh::answer(&request, services)?.to_vec() {
                sink.send(client, &answer);
            }
        }
        Ok(())
    }

    fn on_dictionary_msg(
        &mut self,
        client: ClientId,
        msg: &Msg<'_>,
        sink: &mut impl ServerSink,
    ) -> Result<(), RdmError> {
        let DictionaryMsg::Request(request) = DictionaryMsg::parse(msg)? else { return Ok(()) };
        let part_bytes = self.profile(client).dictionary_part_bytes;
        let sizes = PartSizes { fields_bytes_max: part_bytes, enums_bytes_max: part_bytes };
        for part in DictionaryParts::new(&request, &self.dictionary, sizes)?.flatten() {
            sink.send(client, &part);
        }
        Ok(())
    }

    pub(super) fn publish_service_added(&mut self, id: u16, sink: &mut impl ServerSink) {
        let delta = ServiceDelta::added(&self.services[&id].definition);
        self.publish_directory_change(delta, sink);
    }

    pub(super) fn publish_service_changed(&mut self, id: u16, before: &Service, sink: &mut impl ServerSink) {
        if let Some(delta) = ServiceDelta::between(before, &self.services[&id].definition) {
            self.publish_directory_change(delta, sink);
        }
    }

    pub(super) fn publish_service_removed(&mut self, id: u16, sink: &mut impl ServerSink) {
        self.publish_directory_change(ServiceDelta::removed(id), sink);
    }

    fn publish_directory_change(&mut self, delta: ServiceDelta, sink: &mut impl ServerSink) {
        let deltas = [delta];
        for (&client, known) in &self.clients {
            for request in &known.directories {
                if let Some(Ok(update)) = DirectoryUpdate::answer(request, &deltas).map(|u| u.to_vec()) {
                    sink.send(client, &update);
                }
            }
        }
    }
}

/// Items.
impl PointToPoint {
    fn on_item_request(
        &mut self,
        now: Nanos,
        client: ClientId,
        msg: &RequestMsg<'_>,
        sink: &mut impl ServerSink,
    ) -> Result<(), RdmError> {
        let request = ItemRequest::parse(msg)?;
        let Target::Item(item) = &request.target else {
            let text = "batch requests are not supported";
            self.refuse(client, &Msg::Request(*msg), StateCode::UNABLE_TO_REQUEST_AS_BATCH, text, sink);
            return Ok(());
        };
        if request.private_stream {
            let text = "private streams are not supported";
            self.refuse(client, &Msg::Request(*msg), StateCode::USAGE_ERROR, text, sink);
            return Ok(());
        }
        let key = ItemKey { service: item.service_id, domain: request.domain, name: item.name };
        let watcher = Watcher { client, stream_id: request.stream_id };
        if let Some(&(index, serial)) =
            self.clients.get(&client).and_then(|c| c.items.get(&request.stream_id))
        {
            self.on_reissue(client, msg, &request, (index, serial), key, sink);
            return Ok(());
        }
        let Some(service) = self.services.get(&key.service) else {
            self.counters.requests_refused.inc();
            let text = "there is no service of this id";
            self.refuse(client, &Msg::Request(*msg), StateCode::SOURCE_UNKNOWN, text, sink);
            return Ok(());
        };
        // A service that is down comes back; its items wait for it.
        let mut open = service.definition.clone();
        open.state = rdm::directory::ServiceState { up: true, accepting_requests: None, status: None };
        if let Some(refusal) = open.refuses(request.domain, request.qos_range()) {
            self.counters.requests_refused.inc();
            let answer = Reply::to(&Msg::Request(*msg)).status(refusal.state());
            sink.send(client, self.encoding.encode(|w| answer.encode(w)));
            return Ok(());
        }
        if self.clients.get(&client).is_some_and(|c| c.items.len() >= self.config.client_streams_max) {
            self.counters.requests_refused.inc();
            let text = "too many open streams on this connection";
            self.refuse(client, &Msg::Request(*msg), StateCode::TOO_MANY_ITEMS, text, sink);
            return Ok(());
        }
        self.watch(now, key, watcher, !request.streaming, sink);
        Ok(())
    }

    /// Another request on an open stream: the image again, unless it is for another item.
    fn on_reissue(
        &mut self,
        client: ClientId,
        msg: &RequestMsg<'_>,
        request: &ItemRequest<'_>,
        (index, serial): (usize, u64),
        key: ItemKey<'_>,
        sink: &mut impl ServerSink,
    ) {
        let watcher = Watcher { client, stream_id: request.stream_id };
        match self.items.get(index).filter(|i| i.serial == serial) {
            Some(item) if item.key.as_key() == key => {
                if item.watchers.contains(&watcher) && !request.no_refresh {
                    self.send_image(index, &[watcher], true, sink);
                }
            }
            _ => {
                let text = "the stream is open for another item";
                self.refuse(client, &Msg::Request(*msg), StateCode::USAGE_ERROR, text, sink);
            }
        }
    }

    fn watch(
        &mut self,
        now: Nanos,
        key: ItemKey<'_>,
        watcher: Watcher,
        is_snapshot: bool,
        sink: &mut impl ServerSink,
    ) {
        let index = self.find_or_make(key);
        let item = &mut self.items[index];
        item.lingers_until = None;
        let serial = item.serial;
        if let Some(client) = self.clients.get_mut(&watcher.client) {
            client.items.insert(watcher.stream_id, (index, serial));
        }
        self.counters.watchers.set(self.counters.watchers.get() + 1);
        let item = &mut self.items[index];
        // An image that is being fetched again is shown as it was, marked suspect, and comes anew.
        if item.phase == Phase::Live || item.cached.is_known() {
            self.send_image(index, &[watcher], true, sink);
            if is_snapshot {
                self.forget_stream(watcher);
                self.start_linger(now, index);
            } else {
                self.items[index].watchers.push(watcher);
            }
            return;
        }
        item.newcomers.push(Newcomer { watcher, is_snapshot });
        if item.phase == Phase::Idle {
            self.request_new(now, index, watcher, sink);
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
        let key = self.items[index].key.clone();
        let text = "the service is down, waiting for it";
        let reply = Reply {
            domain: key.domain,
            stream_id: watcher.stream_id,
            key: Some(rwf::Key::item(key.service, &key.name)),
            private_stream: false,
        };
        let answer = reply.suspect(StateCode::NONE, text);
        self.counters.statuses_out.inc();
        sink.send(watcher.client, self.encoding.encode(|w| answer.encode(w)));
    }

    /// What a client's connection takes.
    pub(super) fn profile(&self, client: ClientId) -> ClientProfile {
        self.clients.get(&client).map_or_else(ClientProfile::default, |c| c.profile)
    }

    fn on_item_close(
        &mut self,
        now: Nanos,
        client: ClientId,
        msg: &CloseMsg<'_>,
        sink: &mut impl ServerSink,
    ) -> Result<(), RdmError> {
        let close = ItemClose::parse(msg)?;
        for stream_id in close.streams() {
            let open = self.clients.get_mut(&client).and_then(|c| c.items.remove(&stream_id));
            if let Some((index, serial)) = open {
                self.unwatch(now, index, serial, Watcher { client, stream_id });
            }
        }
        if close.ack {
            let ack = AckMsg {
                ack_id: close.stream_id as u32,
                ..AckMsg::new(close.domain, close.stream_id, rwf::DataType::NO_DATA)
            };
            sink.send(client, self.encoding.encode(|w| ack.encode(w)));
        }
        Ok(())
    }

    /// A client has left an item; after the last one it lingers.
    fn unwatch(&mut self, now: Nanos, index: usize, serial: u64, watcher: Watcher) {
        let Some(item) = self.items.get_mut(index).filter(|i| i.serial == serial) else { return };
        if item.forget(watcher) {
            self.counters.watchers.set(self.counters.watchers.get().saturating_sub(1));
            self.start_linger(now, index);
        }
    }

    /// Takes a stream off its client's list: the item is done with it.
    pub(super) fn forget_stream(&mut self, watcher: Watcher) {
        let known = self.clients.get_mut(&watcher.client);
        if known.and_then(|c| c.items.remove(&watcher.stream_id)).is_some() {
            self.counters.watchers.set(self.counters.watchers.get().saturating_sub(1));
        }
    }

    /// If nobody watches an item any more, it is given up after a while.
    pub(super) fn start_linger(&mut self, now: Nanos, index: usize) {
        let item = &mut self.items[index];
        if item.is_unwatched() && item.lingers_until.is_none() {
            let until = now + self.config.item_linger;
            item.lingers_until = Some(until);
            self.lingering.push_back((until, index, item.serial));
        }
    }
}

mod draining;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use backbone::{Inlet, InletCommand};
use counters::Registry;
use counters::table::{JsonClients, PointToPoint as Counters};
use daemon::{
    Describer, Facts, HopLatencies, OrderError, Page, Parameter, Pauses, Query, Status, Subject, UserList,
    Wish, describe_users,
};
use market::Intake;
use market::p2ps::{ClientId, ClientInfo, Parting, PointToPoint, ServerSink};
use net::agent::Agent;
use net::{Ready, Registrar, clock};
use rwf::Dictionary;
use serde_json::{Value, json};
use server::rssl::RsslListener;
use server::websocket::WebSocketListener;
use server::{ConnectionId, ConnectionInfo, StepChange};
use tracing::{info, warn};
use units::Nanos;

use self::draining::Drains;
use crate::P2psConfig;
use crate::announced::Announced;
use crate::backbone_to_market::BackboneToMarket;
use crate::conflation::StepLog;
use crate::hops::Hops;
use crate::inspection;
use crate::intake;
use crate::ledger;
use crate::market_to_clients::MarketToClients;
use crate::pace::Pace;
use crate::rssl_to_market::{RsslToMarket, log_end};
use crate::shards::Shard;
use crate::shares::Shares;
use crate::websocket::{self, Input, Json, JsonToMarket, Streams};

/// A point-to-point server on one thread, over any carrier.
pub struct PointToPointServer<I> {
    core: PointToPoint,
    users: UserList,
    inlet: I,
    /// What has come over the inlet and waits for the core.
    intake: Intake,
    announced: Announced,
    watch: intake::IntakeWatch,
    rssl: RsslListener,
    websocket: Option<WebSocketListener>,
    json: Json,
    input: Input,
    streams: Streams,
    token_space: u32,
    commands: Vec<InletCommand>,
    pace: Pace,
    /// Clients for which images are due and that may have room for them, in turn. Others are among those that await room.
    due: Shares<ClientId>,
    steps: StepLog,
    /// One of them can be served with the next turn.
    is_due: bool,
    /// They were served before those who wait with requests, in the last turn.
    due_came_first: bool,
    describer: Describer,
    /// What its clients' numbers begin with.
    first_id: u64,
    pauses: Pauses,
    hops: Hops,
    drains: Drains,
    counters: Arc<Counters>,
}

/// What is read from a consumer at a time: requests of which each may be answered with a whole book.
const READ_BYTES: usize = 16 << 10;
/// More than this does not wait for the end of a turn to be sent.
const STAGED_BYTES: usize = 64 << 20;
/// A socket of the backbone that has filled a batch is looked at again before anything else is done, so often at most.
pub(crate) const AGAIN_MAX: usize = 64;
/// What waits of the backbone's messages is handled for so long in a turn; then the sockets are emptied again.
pub(crate) const WAITING_TIME: Duration = Duration::from_millis(5);
/// The clock is read once for so many of them.
pub(crate) const CLOCK_EVERY: usize = 32;
/// While the core releases what has waited behind a gap, so many bytes of it are handled in a turn: a part of what is released.
const RELEASING_BYTES: usize = 256 << 10;

impl<I: Inlet> PointToPointServer<I> {
    /// Opens the consumer ports. The server's descriptors use three token spaces from `token_space` on: that
    /// of the RSSL port, that of the inlet, which must have been made with it, and that of the WebSocket
    /// port.
    ///
    /// # Errors
    /// A port is taken or a value is out of range; the error names it.
    pub fn new(
        config: &P2psConfig,
        dictionary: Arc<Dictionary>,
        inlet: I,
        registrar: &Registrar,
        token_space: u32,
        seed: u64,
        registry: &Registry,
    ) -> io::Result<PointToPointServer<I>> {
        let shard = Shard::alone(config);
        PointToPointServer::of_shard(&shard, dictionary, inlet, registrar, token_space, seed, registry)
    }

    /// The same for one of several shards.
    ///
    /// # Errors
    /// As [`PointToPointServer::new`].
    pub fn of_shard(
        shard: &Shard,
        dictionary: Arc<Dictionary>,
        inlet: I,
        registrar: &Registrar,
        token_space: u32,
        seed: u64,
        registry: &Registry,
    ) -> io::Result<PointToPointServer<I>> {
        let config = &shard.config;
        let (users, admitted) = UserList::load(config.users_file.as_deref(), &shard.once(registry), "p2ps")?;
        let counters = Arc::new(Counters::default());
        shard.labelled(&[], |labels| registry.register(labels, counters.clone()));
        let mut rssl = server::rssl::listen_seated(
            &config.rssl,
            config.rssl_port,
            registrar,
            token_space,
            seed,
            READ_BYTES,
            shard.labelled(&[("port", "consumer")], |labels| {
                server::rssl::ListenerCounters::labelled(registry, labels)
            }),
            shard.rssl.clone(),
        )?;
        if shard.number == 0 {
            info!(name = config.name, rssl_port = %rssl.local_address()?, "point-to-point server");
        }
        rssl.set_ladder(config.ladder());
        if let Some(address) = rssl.tls_address()? {
            info!(%address, "encrypted RSSL connections");
        }
        let websocket = open_websocket(shard, registrar, token_space + WEBSOCKET_SPACE, registry)?;
        let peer = units::Rng::new(seed).next_u64();
        let json_counters = Arc::new(JsonClients::default());
        if websocket.is_some() {
            shard.labelled(&[], |labels| registry.register(labels, json_counters.clone()));
        }
        let default_service = config.default_service.clone();
        let json = Json::new(
            &config.websocket,
            default_service,
            Arc::clone(&dictionary),
            Arc::clone(&json_counters),
        );
        let watch = intake::IntakeWatch::new(Arc::clone(&counters));
        let latencies = shard.labelled(&[], |labels| HopLatencies::registered(registry, "p2ps", labels));
        let hops = Hops::new(latencies, Arc::clone(&counters));
        let mut core = PointToPoint::new(peer, shard.core.clone(), dictionary, Arc::clone(&counters));
        core.admit_only(admitted);
        let image_delay = Duration::from_millis(config.json_image_delay_ms);
        Ok(PointToPointServer {
            streams: Streams::new(image_delay, json_counters),
            json,
            core,
            users,
            inlet,
            intake: Intake::new(config.intake()),
            announced: Announced::default(),
            watch,
            rssl,
            websocket,
            input: Input::default(),
            token_space,
            commands: Vec::new(),
            pace: Pace::default(),
            due: Shares::default(),
            steps: StepLog::default(),
            is_due: false,
            due_came_first: false,
            describer: Describer::taking_orders(Parameter::ALL),
            first_id: shard.first_id(),
            pauses: Pauses::new(shard.core.silence_timeout),
            hops,
            drains: Drains::new(
                (shard.number, shard.count),
                Duration::from_millis(config.drain_ms.into()),
                config.patience(),
                seed,
            ),
            counters,
        })
    }

    /// The address of the RSSL port.
    ///
    /// # Errors
    /// None in practice.
    pub fn rssl_address(&self) -> io::Result<SocketAddr> {
        self.rssl.local_address()
    }

    /// Where the server describes itself.
    #[must_use]
    pub fn status(&self) -> Status {
        self.describer.status()
    }

    /// Begins to end: clients are notified, and no new ones are taken. What waits for them is written until `until`,
    /// while the agent is driven; [`Agent::has_ended`] tells when all are gone.
    pub fn end(&mut self, until: Nanos) {
        self.drains.end();
        let (BackboneToMarket { core, mut sink, .. }, _) = self.backbone_to_market();
        core.announce_end(&mut sink);
        self.rssl.end(until);
        if let Some(websocket) = &mut self.websocket {
            websocket.end(until);
        }
    }

    /// What the core is given when something comes from the backbone, and the inlet.
    fn backbone_to_market(&mut self) -> (BackboneToMarket<'_>, &mut I) {
        let PointToPointServer {
            core,
            inlet,
            intake,
            announced,
            rssl,
            websocket,
            json,
            streams,
            commands,
            pace,
            hops,
            ..
        } = self;
        let websocket = websocket.as_mut().map(WebSocketListener::outbox);
        let (rssl, hops) = (rssl.outbox(), Some(hops));
        let sink = MarketToClients { rssl, websocket, json, streams, commands, pace, hops };
        (BackboneToMarket { core, sink, intake, announced }, inlet)
    }

    fn with_rssl(&mut self, act: impl FnOnce(&mut RsslListener, &mut RsslToMarket<'_>)) {
        let PointToPointServer { core, rssl, websocket, json, streams, commands, pace, .. } = self;
        let websocket = websocket.as_mut().map(WebSocketListener::outbox);
        act(rssl, &mut RsslToMarket { core, websocket, json, streams, commands, pace });
    }

    fn with_websocket(&mut self, act: impl FnOnce(&mut WebSocketListener, &mut JsonToMarket<'_>)) {
        let PointToPointServer { core, rssl, websocket, json, input, streams, commands, pace, .. } = self;
        if let Some(websocket) = websocket {
            let rssl = rssl.outbox();
            act(websocket, &mut JsonToMarket { core, rssl, json, input, streams, commands, pace });
        }
    }

    /// Takes what has come on a socket of the backbone, until there is no more. Otherwise datagrams would wait for as
    /// many turns as they are batches, however small they are, and the kernel would drop some while clients are served.
    fn empty_socket(&mut self, now: Nanos, ready: Ready) {
        if self.inlet.keeps_unread() && self.intake.bytes() > 0 {
            return;
        }
        for _ in 0..AGAIN_MAX {
            let (mut adapter, inlet) = self.backbone_to_market();
            let is_emptied = !inlet.on_ready(now, ready, &mut adapter);
            adapter.catch_up(now);
            if is_emptied {
                return;
            }
        }
    }

    /// Handles what waits of the backbone's messages, for a while.
    fn take_waiting(&mut self, now: Nanos) {
        self.intake.renew(now);
        if self.intake.bytes() > 0 {
            self.take_some(now);
            self.hops.begin_turn(now);
        }
        self.watch.look(now, &self.intake);
    }

    #[cold]
    #[inline(never)]
    fn take_some(&mut self, now: Nanos) {
        let until = clock::monotonic() + WAITING_TIME;
        let (mut adapter, _) = self.backbone_to_market();
        let before = adapter.intake.bytes();
        while (0..CLOCK_EVERY).all(|_| adapter.take_waiting(now)) && clock::monotonic() < until {
            // It may be kept behind what is released, and must not grow that.
            let taken = before - adapter.intake.bytes();
            let holds_much = adapter.core.is_releasing() && taken > RELEASING_BYTES;
            if adapter.sink.staged_bytes() > STAGED_BYTES || holds_much {
                break;
            }
        }
        adapter.catch_up(now);
    }

    /// Carries out what the core wants of the backbone.
    fn execute(&mut self, now: Nanos) {
        while !self.commands.is_empty() {
            for command in std::mem::take(&mut self.commands) {
                let (mut adapter, inlet) = self.backbone_to_market();
                inlet.execute(now, command, &mut adapter);
                adapter.catch_up(now);
            }
        }
    }

    /// Serves clients that wait, each once, as far as the turn's work goes.
    fn serve_waiting(&mut self, now: Nanos) {
        for id in self.rssl.take_roomy() {
            self.pace.note_roomy(ClientId(id.0));
        }
        for id in self.websocket.as_mut().map(WebSocketListener::take_roomy).unwrap_or_default() {
            self.pace.note_roomy(websocket::client_of(id));
        }
        let mut again = Vec::new();
        for _ in 0..self.pace.due_count() {
            if !self.pace.has_room() {
                break;
            }
            let Some((priority, client)) = self.pace.next() else { break };
            let before = self.pace.work();
            if self.serve_one(now, client) {
                again.push(client);
            }
            self.pace.charge_share(priority, self.pace.work() - before);
        }
        again.into_iter().for_each(|client| self.pace.requeue(client));
        self.core.count_waiting(self.pace.waiting_count());
    }

    /// Serves a client that waits; returns whether there is more to be done for it.
    fn serve_one(&mut self, now: Nanos, client: ClientId) -> bool {
        let connection = websocket::connection_of(client);
        let id = connection.unwrap_or(ConnectionId(client.0));
        let keeps_up = match (connection, &mut self.websocket) {
            (None, _) => self.rssl.keeps_up(id),
            (Some(_), Some(port)) => port.keeps_up(id),
            (Some(_), None) => true,
        };
        if !keeps_up {
            self.pace.note_stuck(client);
            return false;
        }
        let mut result = Ok(true);
        if connection.is_some() {
            self.with_websocket(|port, clients| result = clients.go_on(now, client, id, port.outbox()));
        } else {
            self.with_rssl(|port, clients| result = clients.go_on(now, client, port.outbox()));
        }
        match result {
            Ok(false) => return true,
            Ok(true) => {
                self.pace.release(client);
                if connection.is_some() {
                    self.with_websocket(|port, clients| port.resume(now, id, clients));
                } else {
                    self.with_rssl(|port, clients| port.resume(now, id, clients));
                }
            }
            Err(reason) => {
                log_end(&self.core, id, reason);
                self.pace.release(client);
                self.dismiss(client);
            }
        }
        false
    }

    /// Sends images that are due to clients that have room for them, as far as the turn's work goes.
    #[cold]
    #[inline(never)]
    fn serve_due(&mut self, now: Nanos) {
        let mut more = self.core.take_due_clients();
        more.extend(self.rssl.outbox().take_roomy().into_iter().map(|id| ClientId(id.0)));
        if let Some(websocket) = &mut self.websocket {
            more.extend(websocket.outbox().take_roomy().into_iter().map(websocket::client_of));
        }
        more.into_iter().for_each(|client| self.due.push(self.pace.priority(client), client));
        self.is_due = false;
        let mut again = Vec::new();
        for _ in 0..self.due.len() {
            if !self.pace.has_room() {
                self.is_due = true;
                break;
            }
            let Some((priority, client)) = self.due.pop() else { break };
            let before = self.pace.work();
            let (BackboneToMarket { core, mut sink, .. }, _) = self.backbone_to_market();
            if sink.has_no_room(client) {
                sink.await_room(client);
                continue;
            }
            sink.begin();
            if core.send_due_images(now, client, &mut sink) {
                again.push((priority, client));
            } else {
                // What came last is work, too.
                sink.admits_more(client);
            }
            self.due.charge(priority, self.pace.work() - before);
        }
        self.is_due |= !again.is_empty();
        again.into_iter().for_each(|(priority, client)| self.due.push(priority, client));
    }

    /// Does what is to be done for clients beside their updates, as far as the turn's work goes. If it did not go far
    /// enough for all, those come first who came last before.
    fn serve_clients(&mut self, now: Nanos) {
        let has_news = self.has_news();
        if has_news {
            self.report_steps(now);
        }
        self.due_came_first = self.is_due && !self.due_came_first;
        if self.due_came_first {
            self.serve_due(now);
            return self.serve_waiting(now);
        }
        self.serve_waiting(now);
        if has_news || self.core.has_due_clients() || !self.due.is_empty() {
            self.serve_due(now);
        }
    }

    /// Whether a port has something to tell of its connections.
    #[inline]
    fn has_news(&self) -> bool {
        self.rssl.has_news() || self.websocket.as_ref().is_some_and(WebSocketListener::has_news)
    }

    /// Reports clients that are served otherwise than before.
    #[cold]
    #[inline(never)]
    fn report_steps(&mut self, now: Nanos) {
        let mut changes: Vec<(ClientId, StepChange)> = Vec::new();
        changes
            .extend(self.rssl.take_steps().into_iter().map(|change| (ClientId(change.connection.0), change)));
        if let Some(websocket) = &mut self.websocket {
            let steps = websocket.take_steps().into_iter();
            changes.extend(steps.map(|change| (websocket::client_of(change.connection), change)));
        }
        let mut log = std::mem::take(&mut self.steps);
        for (client, change) in changes {
            let (BackboneToMarket { core, mut sink, .. }, _) = self.backbone_to_market();
            log.report(now, client, &change, core, &mut sink);
        }
        self.steps = log;
    }

    /// Closes a client's connection behind what it was sent.
    fn dismiss(&mut self, client: ClientId) {
        match (websocket::connection_of(client), &mut self.websocket) {
            (Some(connection), Some(listener)) => listener.dismiss(connection),
            (Some(_), None) => {}
            (None, _) => self.rssl.dismiss(ConnectionId(client.0)),
        }
    }

    /// Sends what was put into the outboxes.
    fn flush_clients(&mut self, now: Nanos) {
        self.with_rssl(|rssl, clients| rssl.flush(now, clients));
        self.with_websocket(|port, clients| {
            websocket::update_services(clients.json, clients.core);
            port.flush(now, clients);
        });
        self.hops.flushed();
        self.pace.renew();
    }

    /// What waits for the flush, in bytes.
    fn staged_bytes(&mut self) -> usize {
        let websocket = self.websocket.as_mut().map_or(0, |port| port.outbox().staged_bytes());
        self.rssl.outbox().staged_bytes() + websocket
    }

    /// Puts a changed list of users in force.
    fn refresh_users(&mut self, now: Nanos) {
        let Some(users) = self.users.refresh(now) else { return };
        let (adapter, _) = self.backbone_to_market();
        let BackboneToMarket { core, mut sink, .. } = adapter;
        for client in core.set_users(users, &mut sink) {
            info!(client = client.0, "client's login is revoked, its connection is closed");
            self.dismiss(client);
        }
    }

    /// Does what operators want.
    fn take_orders(&mut self, now: Nanos) {
        for waiting in self.describer.take_orders(now) {
            let by = waiting.order().by;
            let done = match waiting.order().wish {
                Wish::Disconnect { client, peer } => self.disconnect(client, peer, by),
                Wish::Drain { over } => self.order_drain(now, over, by),
                Wish::Undrain => self.undrain(now, by),
            };
            waiting.answer(done);
        }
    }

    /// Disconnects a client: it is told why, and its connection is closed behind that.
    fn disconnect(
        &mut self,
        number: u64,
        meant: Option<SocketAddr>,
        by: SocketAddr,
    ) -> Result<Value, OrderError> {
        let none = OrderError::NoClient(number);
        let own = number.checked_sub(self.first_id).and_then(|number| u32::try_from(number).ok());
        let client = ClientId(own.ok_or_else(|| none.clone())?);
        let connection = match (websocket::connection_of(client), &mut self.websocket) {
            (None, _) => self.rssl.connection(ConnectionId(client.0)),
            (Some(id), Some(port)) => port.connection(id),
            (Some(_), None) => None,
        };
        let peer = connection.map(|known| known.peer).ok_or_else(|| none.clone())?;
        if meant.is_some_and(|meant| meant != peer) {
            return Err(OrderError::Another { client: number, peer });
        }
        let (BackboneToMarket { core, mut sink, .. }, _) = self.backbone_to_market();
        if !core.announce_disconnect(client, Parting::Disconnected, &mut sink) {
            return Err(none);
        }
        let user = core.client_info_of(client).map(|info| info.user.to_owned()).unwrap_or_default();
        warn!(client = number, user, %peer, %by, "client is disconnected by an operator");
        self.dismiss(client);
        Ok(json!({"disconnected": number, "user": user, "peer": peer.to_string()}))
    }

    fn describe(&mut self, now: Nanos) {
        self.take_orders(now);
        let is_empty = self.has_ended();
        let PointToPointServer { core, intake, rssl, websocket, describer, first_id, hops, drains, .. } =
            self;
        let first_id = *first_id;
        describer.describe(now, |query| {
            match query.subject() {
                Subject::Ledger => return ledger::describe(core),
                Subject::Trace => return hops.traces().answer(now, query, core),
                Subject::Status => {}
            }
            let rssl_count = rssl.connection_count();
            let websocket_count = websocket.as_ref().map_or(0, WebSocketListener::connection_count);
            let mut connection_of = |client| match websocket::connection_of(client) {
                None => ("rssl", rssl.connection(ConnectionId(client.0))),
                Some(id) => ("websocket", websocket.as_mut().and_then(|listener| listener.connection(id))),
            };
            let page = page_of_clients(query, first_id, core, &mut connection_of);
            let clients = page.listed.iter().filter_map(|client| {
                let (protocol, connection) = connection_of(*client);
                let info = core.client_info_of(*client)?;
                Some(describe_client(now, first_id, &info, protocol, connection.as_ref()))
            });
            let mut document = json!({
                "role": "p2ps",
                "services": inspection::describe_services(core),
                "counts": inspection::describe_counts(core),
                "users": describe_users(core.gate()),
                "items": core.item_count(),
                "intake": intake::describe(now, intake),
                "hops": hops.to_json(),
                "connections": rssl_count + websocket_count,
                "websocket_connections": websocket_count,
                "drain": drains.to_json(now, rssl_count + websocket_count, is_empty),
                "clients": clients.collect::<Vec<Value>>(),
                "page": page.to_json(core.client_count()),
            });
            inspection::describe_items(now, query, core, &mut document);
            document
        });
    }
}

/// The token space of the WebSocket port, counted from the server's first.
const WEBSOCKET_SPACE: u32 = 2;

fn open_websocket(
    shard: &Shard,
    registrar: &Registrar,
    token_space: u32,
    registry: &Registry,
) -> io::Result<Option<WebSocketListener>> {
    let config = &shard.config;
    if config.websocket_port == 0 {
        return Ok(None);
    }
    let counters = shard.labelled(&[("port", "websocket")], |labels| {
        server::websocket::ListenerCounters::labelled(registry, labels)
    });
    let mut listener = server::websocket::listen_seated(
        &config.websocket,
        config.websocket_port,
        registrar,
        token_space,
        READ_BYTES,
        counters,
        shard.websocket.clone(),
    )?;
    listener.set_ladder(config.ladder());
    if shard.number == 0 {
        info!(websocket_port = %listener.local_address()?, "WebSocket connections");
    }
    if let Some(address) = listener.tls_address()? {
        info!(%address, "encrypted WebSocket connections");
    }
    Ok(Some(listener))
}

/// Which clients a status page lists. `first_id` is added to the numbers of clients: those of other servers are before
/// it, or behind.
fn page_of_clients(
    query: &Query,
    first_id: u64,
    core: &PointToPoint,
    mut connection_of: impl FnMut(ClientId) -> (&'static str, Option<ConnectionInfo>),
) -> Page<ClientId> {
    let after = query.after().and_then(|after| after.checked_sub(first_id));
    let begin = after.map(|after| ClientId(u32::try_from(after).unwrap_or(u32::MAX)));
    query.page(core.clients_after(begin).map(|client| {
        let (protocol, connection) = connection_of(client.client);
        let facts = Facts {
            user: client.user,
            application: client.application,
            application_id: client.application_id,
            address: connection.as_ref().map(|known| known.peer.ip()),
            protocol,
            state: state_of(&client),
            backlog_bytes: connection.as_ref().map_or(0, |known| known.backlog.depth_bytes as u64),
        };
        (first_id + u64::from(client.client.0), facts, client.client)
    }))
}

/// The state of a client as a status page shows it.
fn state_of(client: &ClientInfo<'_>) -> &'static str {
    match (client.is_logged_in, client.is_paused) {
        (false, _) => "login",
        (true, false) => "open",
        (true, true) => "paused",
    }
}

/// How a client is served.
fn step_of(client: &ClientInfo<'_>) -> &'static str {
    match (client.conflated_since, client.at_interval_since) {
        (_, Some(_)) => "interval",
        (Some(_), None) => "conflated",
        (None, None) => "tick",
    }
}

fn describe_client(
    now: Nanos,
    first_id: u64,
    client: &ClientInfo<'_>,
    protocol: &str,
    connection: Option<&ConnectionInfo>,
) -> Value {
    let roles =
        client.service_roles.iter().map(|(service, role)| ((*service).to_owned(), json!(role.name())));
    json!({
        "id": first_id + u64::from(client.client.0), "state": state_of(client),
        "user": client.user, "class": client.class, "position": client.position, "application": client.application,
        "application_id": client.application_id,
        "streams": client.streams, "paused": client.is_paused, "round_trip_us": client.round_trip_us,
        "step": step_of(client),
        "conflated_ms": client.conflated_since.map(|since| now.since(since).as_millis() as u64),
        "at_interval_ms": client.at_interval_since.map(|since| now.since(since).as_millis() as u64),
        "changed_streams": client.changed_streams, "updates_conflated": client.updates_conflated,
        "standby_role": client.role.map(|role| role.name()),
        "service_roles": roles.collect::<serde_json::Map<_, _>>(),
        "protocol": connection.map(|_| protocol),
        "peer": connection.map(|c| c.peer.to_string()),
        "backlog_bytes": connection.map(|c| c.backlog.depth_bytes),
        "connection": connection.map(ConnectionInfo::to_json),
    })
}

impl<I: Inlet> Agent for PointToPointServer<I> {
    fn owns(&self, token_space: u32) -> bool {
        (self.token_space..=self.token_space + WEBSOCKET_SPACE).contains(&token_space)
    }

    #[inline]
    fn on_ready(&mut self, now: Nanos, ready: Ready) {
        self.hops.begin_turn(now);
        if self.pauses.is_over(now) {
            self.core.after_pause(now);
        }
        match (ready.token.0 >> 32) as u32 - self.token_space {
            0 => self.with_rssl(|rssl, clients| rssl.on_ready(now, ready, clients)),
            WEBSOCKET_SPACE => {
                self.with_websocket(|websocket, clients| websocket.on_ready(now, ready, clients));
            }
            _ => self.empty_socket(now, ready),
        }
        if self.staged_bytes() > STAGED_BYTES {
            self.flush_clients(now);
        }
    }

    fn turn(&mut self, now: Nanos) {
        self.hops.begin_turn(now);
        if self.pauses.is_over(now) {
            self.core.after_pause(now);
        }
        self.refresh_users(now);
        let (mut adapter, inlet) = self.backbone_to_market();
        let rests = inlet.keeps_unread() && adapter.intake.bytes() > 0;
        if now >= inlet.next_wakeup() && !rests {
            inlet.on_wakeup(now, &mut adapter);
            adapter.catch_up(now);
        }
        self.take_waiting(now);
        let (mut adapter, _) = self.backbone_to_market();
        if now >= adapter.core.next_wakeup() {
            adapter.core.on_wakeup(now, &mut adapter.sink);
        }
        adapter.sink.settle(now, adapter.core);
        self.execute(now);
        self.pace.renew();
        self.serve_clients(now);
        self.serve_drain(now);
        self.flush_clients(now);
        self.with_rssl(|port, clients| port.on_wakeup(now, clients));
        self.with_websocket(|port, clients| port.on_wakeup(now, clients));
        let (BackboneToMarket { core, mut sink, .. }, _) = self.backbone_to_market();
        core.report_progress(now, &mut sink);
        self.execute(now);
        self.inlet.flush(now);
        self.describe(now);
    }

    fn has_ended(&self) -> bool {
        self.rssl.has_ended() && self.websocket.as_ref().is_none_or(WebSocketListener::has_ended)
    }

    fn next_wakeup(&self) -> Nanos {
        let websocket = self.websocket.as_ref().map_or(Nanos::NEVER, WebSocketListener::next_wakeup);
        if self.pace.is_due() || self.is_due || self.has_news() {
            return Nanos::ZERO;
        }
        let rests = self.inlet.keeps_unread() && self.intake.bytes() > 0;
        let inlet = if rests { Nanos::NEVER } else { self.inlet.next_wakeup() };
        self.core
            .next_wakeup()
            .min(self.core.next_report())
            .min(self.intake.next_wakeup())
            .min(inlet)
            .min(self.streams.next_due())
            .min(self.users.next_wakeup())
            .min(self.drains.next_wakeup())
            .min(self.rssl.next_wakeup())
            .min(websocket)
            .min(self.describer.next_wakeup())
    }
}

#[cfg(test)]
mod tests {
    use market::backbone::LinkUp;
    use market::p2ps::{ClientProfile, ServerNotice, SourceId, UpstreamSink, Watcher};
    use rdm::ToVec;
    use rdm::login::LoginRequest;

    use super::*;

    /// Takes what clients are sent.
    struct Nowhere;

    impl ServerSink for Nowhere {
        fn send(&mut self, _: ClientId, _: &[u8]) {}
        fn fan_out(&mut self, _: &[Watcher], _: &[u8]) {}
    }

    impl UpstreamSink for Nowhere {
        fn subscribe(&mut self, _: &str) {}
        fn unsubscribe(&mut self, _: &str) {}
        fn connect(&mut self, _: u64, _: SourceId) {}
        fn disconnect_link(&mut self, _: u64) {}
        fn to_instance(&mut self, _: u64, _: &LinkUp<'_>) {}
        fn notice(&mut self, _: &ServerNotice<'_>) {}
    }

    const CROWD: u32 = 10_000;

    /// A core with a crowd on both ports; every hundredth client is a user of its own.
    fn crowd() -> PointToPoint {
        let config = P2psConfig::default().core();
        let mut core = PointToPoint::new(1, config, Arc::new(Dictionary::new()), Arc::default());
        for at in 0..CROWD {
            let client = ClientId(at);
            let client = if at % 2 == 0 { client } else { websocket::client_of(ConnectionId(at)) };
            core.on_client_connected(client, ClientProfile::default());
            let name = if at % 100 == 0 { format!("desk-{at}") } else { "many".to_owned() };
            let login = LoginRequest::consumer(name.as_bytes()).to_vec().expect("it fits");
            core.on_client_message(Nanos(1), client, &login, &mut Nowhere).expect("it may log in");
        }
        core
    }

    fn page(core: &PointToPoint, query: &str) -> Page<ClientId> {
        let query = Query::parse(query, Parameter::ALL).expect("it is allowed");
        page_of_clients(&query, 0, core, |client| {
            (if websocket::connection_of(client).is_some() { "websocket" } else { "rssl" }, None)
        })
    }

    #[test]
    fn ten_thousand_clients_are_listed_page_after_page_and_found_by_what_they_are() {
        let core = crowd();
        let (mut listed, mut query) = (Vec::new(), "limit=700".to_owned());
        loop {
            let page = page(&core, &query);
            assert!(page.listed.len() <= 700);
            listed.extend(page.listed);
            let Some(next) = page.next else { break };
            query = format!("limit=700&after={next}");
        }
        assert_eq!((listed.len(), core.client_count()), (CROWD as usize, CROWD as usize));
        assert!(listed.is_sorted_by(|a, b| a.0 < b.0), "each once");
        let desks = page(&core, "user=desk-*");
        assert_eq!((desks.listed.len(), desks.looked_at, desks.next), (100, CROWD as usize, None));
        assert_eq!(page(&core, "user=desk-4200").listed, [ClientId(4200)]);
        assert_eq!(
            page(&core, "protocol=websocket").looked_at,
            6_000,
            "1,000 behind those of the other port"
        );
        assert!(page(&core, "state=login").listed.is_empty());
        assert!(page(&core, "after=18446744073709551615").listed.is_empty());
    }
}

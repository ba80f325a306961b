//! The ports of an interactive provider: what clients say goes to the core, as RWF, and what the core says to
//! them, as they speak.

use std::io;
use std::net::SocketAddr;
use std::ops::ControlFlow;
use std::sync::Arc;

use counters::table::{JsonClients, RsslConnections, WebSocketConnections};
use net::{Ready, Registrar, clock};
use rwf::Dictionary;
use rwf_json::Reader;
use server::Service;
use server::rssl::{Rssl, RsslListener};
use server::websocket::{
    Json, MessageEffect, RwfService, StagedJson, WebSocket, WebSocketListener, cookie_login,
};
use server::{ConnectionId, ConnectionInfo, Outbox, Staged};
use units::Nanos;
use websocket::Message;

use super::client::{Outlet, Watcher};
use super::core::{Core, Fault};
use super::port_connection::{Port, PortConnection};
use crate::InteractiveConfig;

/// What is read from a client at a time.
const READ_BYTES: usize = 16 << 10;

/// The upper halves of the tokens of the ports' descriptors.
const RSSL_SPACE: u32 = 1;
const WEBSOCKET_SPACE: u32 = 2;

/// The ports and their connections.
pub(super) struct Ports {
    rssl: RsslListener,
    pub(super) connections: Arc<RsslConnections>,
    pub(super) web: Option<Web>,
}

/// The port of clients that speak JSON.
pub(super) struct Web {
    listener: WebSocketListener,
    pub(super) connections: Arc<WebSocketConnections>,
    pub(super) json: Json,
    reader: Reader,
}

impl Ports {
    pub(super) fn open(config: &InteractiveConfig, registrar: &Registrar) -> io::Result<Ports> {
        let counters = server::rssl::ListenerCounters::default();
        let connections = Arc::clone(&counters.connections);
        let rssl = server::rssl::listen(
            &config.rssl,
            config.port,
            registrar,
            RSSL_SPACE,
            clock::seed(),
            READ_BYTES,
            counters,
        )?;
        let web = config.websocket_port.map(|port| Web::open(config, port, registrar)).transpose()?;
        Ok(Ports { rssl, connections, web })
    }

    /// From now on the fields of JSON messages are those of this dictionary.
    pub(super) fn set_dictionary(&mut self, dictionary: &Arc<Dictionary>) {
        if let Some(web) = &mut self.web {
            web.json.set_dictionary(Arc::clone(dictionary));
        }
    }

    /// Takes over which services there are.
    pub(super) fn update_services(&mut self, core: &Core) {
        if let Some(web) = &mut self.web {
            web.json.update_services(core.directory.services().map(|s| (s.id, s.info.name.as_str())));
        }
    }

    pub(super) fn local_address(&self) -> io::Result<SocketAddr> {
        self.rssl.local_address()
    }

    pub(super) fn tls_address(&self) -> io::Result<Option<SocketAddr>> {
        self.rssl.tls_address()
    }

    pub(super) fn websocket_address(&self) -> io::Result<Option<SocketAddr>> {
        self.web.as_ref().map(|web| web.listener.local_address()).transpose()
    }

    pub(super) fn websocket_tls_address(&self) -> io::Result<Option<SocketAddr>> {
        self.web.as_ref().map_or(Ok(None), |web| web.listener.tls_address())
    }

    pub(super) fn json_counters(&self) -> Option<&Arc<JsonClients>> {
        self.web.as_ref().map(|web| web.json.counters())
    }

    pub(super) fn connection(&mut self, connection: PortConnection) -> Option<ConnectionInfo> {
        match connection.port() {
            Port::Rssl(connection) => self.rssl.connection(connection),
            Port::WebSocket(connection) => self.web.as_mut()?.listener.connection(connection),
        }
    }

    /// Where the core puts what it says of itself, not asked by a client.
    #[inline]
    pub(super) fn wires(&mut self) -> Wires<'_> {
        let web = self.web.as_mut().map(|web| JsonWire { outbox: web.listener.outbox(), json: &web.json });
        Wires { rssl: self.rssl.outbox(), web }
    }

    pub(super) fn on_ready(&mut self, now: Nanos, ready: Ready, core: &mut Core) {
        match (ready.token.0 >> 32) as u32 {
            WEBSOCKET_SPACE => self.with_websocket(core, |port, clients| port.on_ready(now, ready, clients)),
            _ => self.with_rssl(core, |port, clients| port.on_ready(now, ready, clients)),
        }
    }

    pub(super) fn on_wakeup(&mut self, now: Nanos, core: &mut Core) {
        self.with_rssl(core, |port, clients| port.on_wakeup(now, clients));
        self.with_websocket(core, |port, clients| port.on_wakeup(now, clients));
    }

    pub(super) fn flush(&mut self, now: Nanos, core: &mut Core) {
        self.with_rssl(core, |port, clients| port.flush(now, clients));
        self.with_websocket(core, |port, clients| port.flush(now, clients));
    }

    pub(super) fn next_wakeup(&self) -> Nanos {
        let websocket = self.web.as_ref().map_or(Nanos::NEVER, |web| web.listener.next_wakeup());
        self.rssl.next_wakeup().min(websocket)
    }

    fn with_rssl(&mut self, core: &mut Core, act: impl FnOnce(&mut RsslListener, &mut RsslToProvider<'_>)) {
        let web = self.web.as_mut().map(|web| JsonWire { outbox: web.listener.outbox(), json: &web.json });
        act(&mut self.rssl, &mut RsslToProvider { core, web });
    }

    fn with_websocket(
        &mut self,
        core: &mut Core,
        act: impl FnOnce(&mut WebSocketListener, &mut JsonToProvider<'_>),
    ) {
        let Some(Web { listener, json, reader, .. }) = &mut self.web else { return };
        act(listener, &mut JsonToProvider { core, rssl: self.rssl.outbox(), json, reader });
    }
}

impl Web {
    fn open(config: &InteractiveConfig, port: u16, registrar: &Registrar) -> io::Result<Web> {
        let counters = server::websocket::ListenerCounters::default();
        let connections = Arc::clone(&counters.connections);
        let settings = &config.websocket;
        let listener =
            server::websocket::listen(settings, port, registrar, WEBSOCKET_SPACE, READ_BYTES, counters)?;
        // What it is to be is known later, if at all.
        let dictionary = Arc::new(Dictionary::new());
        let json = Json::new(settings, config.default_service.clone(), dictionary, Arc::default());
        Ok(Web { listener, connections, json, reader: Reader::new() })
    }
}

/// The outboxes of the ports as the core's outlet.
pub(super) struct Wires<'a> {
    rssl: &'a mut Outbox,
    /// None without a WebSocket port, and so without such clients.
    web: Option<JsonWire<'a>>,
}

/// The outbox of the WebSocket port, and what makes messages into JSON for it.
pub(super) struct JsonWire<'a> {
    outbox: &'a mut Outbox,
    json: &'a Json,
}

impl JsonWire<'_> {
    fn reborrow(&mut self) -> JsonWire<'_> {
        JsonWire { outbox: self.outbox, json: self.json }
    }
}

impl Outlet for Wires<'_> {
    fn send(&mut self, connection: PortConnection, message: &[u8]) {
        match (connection.port(), &mut self.web) {
            (Port::Rssl(connection), _) => server::rssl::send(self.rssl, connection, message),
            (Port::WebSocket(connection), Some(web)) => {
                web.json.send(web.outbox, connection, message);
            }
            (Port::WebSocket(_), None) => {}
        }
    }

    #[inline]
    fn fan_out(&mut self, to: &[Watcher], message: &[u8]) -> bool {
        let mut as_it_is: Option<Staged> = None;
        let mut as_json: Option<Option<StagedJson>> = None;
        for watcher in to {
            match (watcher.connection.port(), &mut self.web) {
                (Port::Rssl(connection), _) => {
                    let staged = *as_it_is.get_or_insert_with(|| self.rssl.stage(message));
                    self.rssl.deliver(connection, staged, watcher.stream_id);
                }
                (Port::WebSocket(connection), Some(web)) => {
                    let shown = *as_json.get_or_insert_with(|| web.json.stage(web.outbox, message));
                    if let Some(shown) = shown {
                        web.outbox.deliver(connection, shown.staged, watcher.stream_id);
                    }
                }
                (Port::WebSocket(_), None) => {}
            }
        }
        !matches!(as_json, Some(Some(StagedJson { effect: MessageEffect::Lost, .. })))
    }
}

/// What RSSL clients send, given to the core: the service behind the RSSL port.
struct RsslToProvider<'a> {
    core: &'a mut Core,
    web: Option<JsonWire<'a>>,
}

impl Service<Rssl> for RsslToProvider<'_> {
    fn on_connected(
        &mut self,
        _: Nanos,
        connection: ConnectionId,
        session: &rssl::Session<'_>,
        peer: SocketAddr,
        _: &mut Outbox,
    ) {
        self.core.on_connected(PortConnection::rssl(connection), peer, session.component_version.to_string());
    }

    fn on_message(
        &mut self,
        _: Nanos,
        connection: ConnectionId,
        message: &[u8],
        outbox: &mut Outbox,
    ) -> ControlFlow<()> {
        let mut wires = Wires { rssl: outbox, web: self.web.as_mut().map(JsonWire::reborrow) };
        to_flow(self.core.on_message(PortConnection::rssl(connection), message, &mut wires))
    }

    fn on_closed(&mut self, _: Nanos, connection: ConnectionId, reason: &rssl::CloseReason, _: &mut Outbox) {
        self.core.on_closed(PortConnection::rssl(connection), reason.to_string());
    }

    fn is_logged_in(&self, connection: ConnectionId) -> bool {
        self.core.is_logged_in(PortConnection::rssl(connection))
    }
}

/// What JSON clients send, given to the core as RWF: the service behind the WebSocket port.
struct JsonToProvider<'a> {
    core: &'a mut Core,
    rssl: &'a mut Outbox,
    json: &'a Json,
    reader: &'a mut Reader,
}

impl Service<WebSocket> for JsonToProvider<'_> {
    fn on_connected(
        &mut self,
        _: Nanos,
        connection: ConnectionId,
        session: &websocket::Session<'_>,
        peer: SocketAddr,
        outbox: &mut Outbox,
    ) {
        let connection = PortConnection::websocket(connection);
        let agent = session.headers.all("User-Agent").next().unwrap_or("");
        self.core.on_connected(connection, peer, agent.escape_debug().to_string());
        if let Some(login) = cookie_login(session.headers) {
            let mut wires = Wires { rssl: self.rssl, web: Some(JsonWire { outbox, json: self.json }) };
            // A login that is refused is answered; the client may try again with a message.
            let _ = self.core.on_message(connection, &login, &mut wires);
        }
    }

    fn on_message(
        &mut self,
        _: Nanos,
        connection: ConnectionId,
        message: Message<'_>,
        outbox: &mut Outbox,
    ) -> ControlFlow<()> {
        // No sub-protocol that is taken has binary messages.
        let Message::Text(text) = message else { return ControlFlow::Break(()) };
        let wires = Wires { rssl: self.rssl, web: Some(JsonWire { outbox, json: self.json }) };
        let mut client =
            JsonClient { connection: PortConnection::websocket(connection), core: self.core, wires };
        to_flow(self.json.read(self.reader, text, connection, &mut client))
    }

    fn on_closed(
        &mut self,
        _: Nanos,
        connection: ConnectionId,
        reason: &websocket::CloseReason,
        _: &mut Outbox,
    ) {
        self.core.on_closed(PortConnection::websocket(connection), reason.to_string());
    }

    fn is_logged_in(&self, connection: ConnectionId) -> bool {
        self.core.is_logged_in(PortConnection::websocket(connection))
    }
}

/// One client that speaks JSON, and the core.
struct JsonClient<'a> {
    connection: PortConnection,
    core: &'a mut Core,
    wires: Wires<'a>,
}

impl RwfService for JsonClient<'_> {
    type Fault = Fault;

    fn on_rwf(&mut self, rwf: &[u8]) -> Result<(), Fault> {
        self.core.on_message(self.connection, rwf, &mut self.wires)
    }

    fn send(&mut self, rwf: &[u8]) {
        self.wires.send(self.connection, rwf);
    }

    fn outbox(&mut self) -> &mut Outbox {
        self.wires.web.as_mut().map(|web| &mut *web.outbox).expect("the client is at the WebSocket port")
    }
}

fn to_flow(result: Result<(), Fault>) -> ControlFlow<()> {
    match result {
        Ok(()) => ControlFlow::Continue(()),
        Err(_) => ControlFlow::Break(()),
    }
}

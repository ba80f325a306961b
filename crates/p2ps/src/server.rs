use std::io;
use std::net::{IpAddr, SocketAddr};
use std::ops::ControlFlow;
use std::sync::Arc;

use backbone::{Inlet, InletCommand, InletEvents};
use counters::Registry;
use counters::table::PointToPoint as Counters;
use daemon::{Describer, Status};
use market::backbone::LinkUp;
use market::server::{
    ClientId, ClientProfile, PointToPoint, ServerSink, SourceId, Topic, UpstreamError, Watcher,
};
use net::agent::Agent;
use net::{Ready, Registrar};
use rssl::{CloseReason, Session};
use rssl_server::{ConnectionId, ListenerCounters, Outbox, PortEvent, Rssl, RsslListener, Service};
use rwf::Dictionary;
use serde_json::{Value, json};
use tracing::{debug, info, warn};
use units::Nanos;

use crate::P2psConfig;

/// A point-to-point server on one thread, over any carrier.
pub struct PointToPointServer<I> {
    core: PointToPoint,
    inlet: I,
    listener: RsslListener,
    token_space: u32,
    commands: Vec<InletCommand>,
    describer: Describer,
}

/// What is read from a consumer at a time: requests of which each may be answered with a whole book.
const READ_BYTES: usize = 16 << 10;
/// How many clients a status page lists.
const CLIENTS_LISTED: usize = 1000;

impl<I: Inlet> PointToPointServer<I> {
    /// Opens the consumer port. The server's descriptors use two token spaces from `token_space` on: the
    /// listener's, and the next one for the inlet, which must have been made with it.
    ///
    /// # Errors
    /// The port is taken or a value is out of range; the error names it.
    pub fn new(
        config: &P2psConfig,
        dictionary: Arc<Dictionary>,
        inlet: I,
        registrar: &Registrar,
        token_space: u32,
        seed: u64,
        registry: &Registry,
    ) -> io::Result<PointToPointServer<I>> {
        let counters = Arc::new(Counters::default());
        registry.register(&[], counters.clone());
        let listener = rssl_server::listen(
            &config.rssl,
            config.rssl_port,
            registrar,
            token_space,
            seed,
            READ_BYTES,
            ListenerCounters::registered(registry, "consumer"),
        )?;
        info!(name = config.name, rssl_port = %listener.local_address()?, "point-to-point server");
        if let Some(address) = listener.tls_address()? {
            info!(%address, "encrypted RSSL connections");
        }
        let peer = units::Rng::new(seed).next_u64();
        Ok(PointToPointServer {
            core: PointToPoint::new(peer, config.core(), dictionary, counters),
            inlet,
            listener,
            token_space,
            commands: Vec::new(),
            describer: Describer::default(),
        })
    }

    /// The address of the consumer port.
    ///
    /// # Errors
    /// None in practice.
    pub fn rssl_address(&self) -> io::Result<SocketAddr> {
        self.listener.local_address()
    }

    /// Where the server describes itself.
    #[must_use]
    pub fn status(&self) -> Status {
        self.describer.status()
    }

    /// Carries out what the core wants of the backbone.
    fn execute(&mut self, now: Nanos) {
        while !self.commands.is_empty() {
            for command in std::mem::take(&mut self.commands) {
                let PointToPointServer { core, inlet, listener, commands, .. } = self;
                inlet.execute(now, command, &mut Upstream { core, outbox: listener.outbox(), commands });
            }
        }
    }

    fn describe(&mut self, now: Nanos) {
        let PointToPointServer { core, listener, describer, .. } = self;
        describer.describe(now, || {
            let backlogs: std::collections::HashMap<u32, (SocketAddr, usize)> =
                listener.connections().map(|c| (c.connection.0, (c.peer, c.backlog.depth_bytes))).collect();
            let clients: Vec<Value> = core
                .clients()
                .take(CLIENTS_LISTED)
                .map(|c| {
                    let (peer, backlog) = backlogs.get(&c.client.0).copied().unzip();
                    json!({
                        "user": c.user, "position": c.position, "application": c.application, "streams": c.streams,
                        "paused": c.is_paused, "round_trip_us": c.round_trip_us,
                        "peer": peer.map(|p| p.to_string()), "backlog_bytes": backlog,
                    })
                })
                .collect();
            let service = |(id, name, up, instance): (u16, &str, bool, Option<u64>)| {
                json!({"id": id, "name": name, "up": up, "instance": instance.map(|i| format!("{i:016x}"))})
            };
            json!({
                "role": "p2ps",
                "services": core.services().map(service).collect::<Vec<Value>>(),
                "items": core.item_count(),
                "connections": listener.connection_count(),
                "clients": clients,
            })
        });
    }
}

impl<I: Inlet> Agent for PointToPointServer<I> {
    fn owns(&self, token_space: u32) -> bool {
        token_space == self.token_space || token_space == self.token_space + 1
    }

    #[inline]
    fn on_ready(&mut self, now: Nanos, ready: Ready) {
        let PointToPointServer { core, inlet, listener, commands, .. } = self;
        if (ready.token.0 >> 32) as u32 == self.token_space {
            listener.on_ready(now, ready, &mut Clients { core, commands });
        } else {
            inlet.on_ready(now, ready, &mut Upstream { core, outbox: listener.outbox(), commands });
        }
    }

    fn turn(&mut self, now: Nanos) {
        let PointToPointServer { core, inlet, listener, commands, .. } = self;
        if now >= inlet.next_wakeup() {
            inlet.on_wakeup(now, &mut Upstream { core, outbox: listener.outbox(), commands });
        }
        if now >= core.next_wakeup() {
            core.on_wakeup(now, &mut Sink { outbox: listener.outbox(), commands });
        }
        self.execute(now);
        let PointToPointServer { core, listener, commands, .. } = self;
        let mut clients = Clients { core, commands };
        listener.flush(now, &mut clients);
        listener.on_wakeup(now, &mut clients);
        self.execute(now);
        self.inlet.flush(now);
        self.describe(now);
    }

    fn next_wakeup(&self) -> Nanos {
        self.core
            .next_wakeup()
            .min(self.inlet.next_wakeup())
            .min(self.listener.next_wakeup())
            .min(self.describer.next_wakeup())
    }
}

/// The core as the listener's service.
struct Clients<'a> {
    core: &'a mut PointToPoint,
    commands: &'a mut Vec<InletCommand>,
}

impl Service<Rssl> for Clients<'_> {
    fn on_connected(
        &mut self,
        _: Nanos,
        connection: ConnectionId,
        session: &Session<'_>,
        peer: SocketAddr,
        _: &mut Outbox,
    ) {
        info!(connection = connection.0, %peer, host = %session.host, version = %session.component_version, "client connected");
        let address = if let IpAddr::V4(address) = peer.ip() { address.to_bits() } else { 0 };
        let profile = ClientProfile { address, ..ClientProfile::default() };
        self.core.on_client_connected(ClientId(connection.0), profile);
    }

    fn on_message(
        &mut self,
        now: Nanos,
        connection: ConnectionId,
        message: &[u8],
        outbox: &mut Outbox,
    ) -> ControlFlow<()> {
        let mut sink = Sink { outbox, commands: self.commands };
        match self.core.on_client_message(now, ClientId(connection.0), message, &mut sink) {
            Ok(()) => ControlFlow::Continue(()),
            Err(reason) => {
                info!(connection = connection.0, %reason, "client's connection is closed");
                ControlFlow::Break(())
            }
        }
    }

    fn on_closed(&mut self, now: Nanos, connection: ConnectionId, reason: &CloseReason, outbox: &mut Outbox) {
        info!(connection = connection.0, %reason, "client gone");
        let mut sink = Sink { outbox, commands: self.commands };
        self.core.on_client_closed(now, ClientId(connection.0), &mut sink);
    }

    fn is_logged_in(&self, connection: ConnectionId) -> bool {
        self.core.is_logged_in(ClientId(connection.0))
    }

    fn on_port_event(&mut self, event: PortEvent<'_>) {
        info!(port = "consumer", "{event}");
    }
}

/// The core as the receiver of what comes from the backbone.
struct Upstream<'a> {
    core: &'a mut PointToPoint,
    outbox: &'a mut Outbox,
    commands: &'a mut Vec<InletCommand>,
}

impl Upstream<'_> {
    fn check(result: Result<(), UpstreamError>) {
        if let Err(error) = result {
            warn!(%error, "a message from a source distributor was refused");
        }
    }
}

impl InletEvents for Upstream<'_> {
    fn on_source(&mut self, now: Nanos, source: SourceId, topic: Topic<'_>, session: u64) {
        info!(source = source.0, ?topic, session, "source found");
        let mut sink = Sink { outbox: self.outbox, commands: self.commands };
        self.core.on_source(now, source, topic, session, &mut sink);
    }

    fn on_source_ended(&mut self, now: Nanos, source: SourceId) {
        info!(source = source.0, "source ended");
        let mut sink = Sink { outbox: self.outbox, commands: self.commands };
        self.core.on_source_ended(now, source, &mut sink);
    }

    #[inline]
    fn on_stream_message(&mut self, now: Nanos, source: SourceId, bytes: &[u8]) {
        let mut sink = Sink { outbox: self.outbox, commands: self.commands };
        Self::check(self.core.on_stream_message(now, source, bytes, &mut sink));
    }

    fn on_link_up(&mut self, _: Nanos, instance: u64) {
        info!(instance = format!("{instance:016x}"), "link up");
        self.core.on_link_up(instance, &mut Sink { outbox: self.outbox, commands: self.commands });
    }

    fn on_link_down(&mut self, now: Nanos, instance: u64) {
        let mut sink = Sink { outbox: self.outbox, commands: self.commands };
        if self.core.on_link_down(now, instance, &mut sink) {
            info!(
                instance = format!("{instance:016x}"),
                "link down, trying again until it is back or another is found"
            );
        } else {
            debug!(instance = format!("{instance:016x}"), "link not opened");
        }
    }

    fn on_link_message(&mut self, now: Nanos, instance: u64, bytes: &[u8]) {
        let mut sink = Sink { outbox: self.outbox, commands: self.commands };
        Self::check(self.core.on_link_message(now, instance, bytes, &mut sink));
    }
}

/// Carries out what the core decides: for clients at once, for the backbone after what is being handled.
struct Sink<'a> {
    outbox: &'a mut Outbox,
    commands: &'a mut Vec<InletCommand>,
}

impl ServerSink for Sink<'_> {
    fn send(&mut self, client: ClientId, msg: &[u8]) {
        rssl_server::send(self.outbox, ConnectionId(client.0), msg);
    }

    #[inline]
    fn fan_out(&mut self, watchers: &[Watcher], msg: &[u8]) {
        if watchers.is_empty() {
            return;
        }
        let staged = self.outbox.stage(msg);
        for watcher in watchers {
            self.outbox.deliver(ConnectionId(watcher.client.0), staged, watcher.stream_id);
        }
    }

    fn subscribe(&mut self, service: &str) {
        self.commands.push(InletCommand::Subscribe(service.to_owned()));
    }

    fn unsubscribe(&mut self, service: &str) {
        self.commands.push(InletCommand::Unsubscribe(service.to_owned()));
    }

    fn connect(&mut self, instance: u64, directory: SourceId) {
        self.commands.push(InletCommand::Connect { instance, directory });
    }

    fn disconnect_link(&mut self, instance: u64) {
        self.commands.push(InletCommand::Disconnect(instance));
    }

    fn to_instance(&mut self, instance: u64, msg: &LinkUp<'_>) {
        let mut bytes = Vec::new();
        msg.encode(&mut bytes);
        self.commands.push(InletCommand::Send { instance, bytes });
    }
}

use std::io;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use connection::Disconnect;
use counters::Flow;
use counters::table::WebSocketConnections;
use net::Registrar;
use units::Nanos;
use websocket::upgrade::Request;
use websocket::{Admission, CloseReason, Handler, Message, Outbound, ServerConnection, Session, Stop};

use super::WebSocketConfig;
use super::origin::Origins;
use super::pack::{self, Compressed};
use crate::{
    Backlog, Bridge, Endpoint, Entry, Limits, Listener, Ports, Protocol, Service, TlsConfig, Traffic,
};

/// A port on which the JSON protocol is spoken.
pub type WebSocketListener = Listener<WebSocket>;

/// JSON over WebSocket as the protocol of a port.
pub struct WebSocket {
    params: Arc<websocket::ServerConfig>,
    counters: Arc<WebSocketConnections>,
    compressed: Compressed,
    origins: Origins,
}

/// What is counted of a port.
pub type ListenerCounters = crate::ListenerCounters<WebSocketConnections>;

/// Listens for WebSocket on a port (0: any free one). Descriptors are added to `registrar` under tokens whose
/// upper 32 bits are `token_space`. At most `read_bytes` are taken from a connection at a time, which bounds
/// what one turn can lead to.
///
/// # Errors
/// A port is taken, or a certificate cannot be used; the error names it.
pub fn listen(
    config: &WebSocketConfig,
    port: u16,
    registrar: &Registrar,
    token_space: u32,
    read_bytes: usize,
    counters: ListenerCounters,
) -> io::Result<WebSocketListener> {
    let min_bytes = config.compression_min_bytes as usize;
    let protocol = WebSocket {
        params: Arc::new(config.params()),
        counters: counters.connections,
        compressed: Compressed::new(config.compression_level.into(), min_bytes),
        origins: Origins::new(&config.allowed_origins),
    };
    let tls = config.tls.as_ref().map(TlsConfig::to_port);
    let ports = Ports { interface: config.interface, port, tls };
    let limits = Limits {
        connections_max: config.connections_max as usize,
        connections_per_address_max: config.connections_per_address_max as usize,
        login_timeout: Duration::from_millis(config.login_timeout_ms.into()),
        read_bytes,
        backlogs_bytes_max: config.backlogs_max_bytes,
    };
    Listener::new(protocol, ports, limits, registrar, token_space, counters.listener)
}

impl Protocol for WebSocket {
    type Endpoint = WebSocketEndpoint;
    type Session<'a> = Session<'a>;
    type Message<'a> = Message<'a>;

    fn accept(&mut self, now: Nanos) -> WebSocketEndpoint {
        WebSocketEndpoint(ServerConnection::new(now, &self.params, &self.counters))
    }

    fn on_bytes<S: Service<WebSocket>>(
        &mut self,
        now: Nanos,
        endpoint: &mut WebSocketEndpoint,
        bytes: &[u8],
        bridge: &mut Bridge<'_, S>,
    ) -> Result<(), CloseReason> {
        endpoint.0.on_bytes(now, bytes, &mut ToService(bridge, &self.origins))
    }

    #[inline]
    fn frame(
        &mut self,
        endpoint: &mut WebSocketEndpoint,
        log: &[u8],
        rest: &mut &[Entry],
        frames: &mut Vec<u8>,
    ) -> Result<(), CloseReason> {
        let out = endpoint.0.outbound();
        let mut written = Flow::default();
        while !rest.is_empty() && frames.len() < crate::WRITE_BYTES {
            written += if out.is_compressing() {
                self.compressed.frame(log, rest, frames)
            } else {
                pack::plain(log, rest, frames)
            };
        }
        out.count_framed(written);
        Ok(())
    }

    fn on_log_cleared(&mut self) {
        self.compressed.clear();
    }
}

/// The WebSocket end of a connection.
pub struct WebSocketEndpoint(ServerConnection);

impl Endpoint for WebSocketEndpoint {
    type Reason = CloseReason;

    fn pending(&mut self) -> &[u8] {
        self.0.outbound().pending()
    }

    fn consume(&mut self, count_bytes: usize) {
        self.0.outbound().consume(count_bytes);
    }

    fn keep(&mut self, frames: &[u8], written_bytes: usize) -> Result<(), CloseReason> {
        self.0.outbound().keep(frames, written_bytes).map_err(|stop| self.0.stop(stop))
    }

    fn backlog(&mut self) -> Backlog {
        let out = self.0.outbound();
        Backlog {
            depth_bytes: out.depth_bytes(),
            high_water_bytes: out.high_water_bytes(),
            limit_bytes: out.limit_bytes(),
        }
    }

    fn traffic(&mut self) -> Traffic {
        let received = self.0.flow_in();
        let out = self.0.outbound();
        let compression = out.is_compressing().then_some("permessage-deflate");
        Traffic { received, sent: out.flow(), compression }
    }

    fn memory_bytes(&self) -> usize {
        self.0.memory_bytes()
    }

    fn on_sign_of_life(&mut self, now: Nanos) {
        self.0.on_sign_of_life(now);
    }

    fn on_wakeup(&mut self, now: Nanos) -> Result<(), CloseReason> {
        self.0.on_wakeup(now)
    }

    fn next_wakeup(&self) -> Nanos {
        self.0.next_wakeup()
    }

    fn on_disconnected(&mut self, cause: Disconnect) -> CloseReason {
        self.0.on_disconnected(cause)
    }

    fn stop(&mut self) -> CloseReason {
        self.0.stop(Stop::Application)
    }
}

/// Hands what a connection brings to the service.
struct ToService<'a, 'b, S>(&'a mut Bridge<'b, S>, &'a Origins);

impl<S: Service<WebSocket>> Handler for ToService<'_, '_, S> {
    fn on_request(&mut self, request: &Request<'_>) -> Admission {
        let ToService(bridge, origins) = self;
        if bridge.is_full() {
            Admission::Full
        } else if origins.allows(request.headers, bridge.is_encrypted()) {
            Admission::Accept
        } else {
            Admission::Origin
        }
    }

    fn on_connected(&mut self, session: &Session<'_>, _: &mut Outbound) -> ControlFlow<Stop> {
        self.0.on_connected::<WebSocket>(session);
        ControlFlow::Continue(())
    }

    #[inline]
    fn on_message(&mut self, message: Message<'_>, _: &mut Outbound) -> ControlFlow<Stop> {
        self.0.on_message::<WebSocket>(message);
        ControlFlow::Continue(())
    }
}

use std::io;
use std::ops::ControlFlow;
use std::sync::Arc;

use counters::Flow;
use counters::table::WebSocketConnections;
use net::Registrar;
use units::Nanos;
use websocket::upgrade::Request;
use websocket::{Admission, CloseReason, Handler, Message, Outbound, ServerConnection, Session, Stop};

use super::WebSocketConfig;
use super::origin::Origins;
use super::pack::{self, Compressed};
use crate::{ConnectionToService, Entry, Listener, Protocol, Seat, Service};

crate::port::port_settings!(WebSocketConfig);

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
    listen_seated(config, port, registrar, token_space, read_bytes, counters, None)
}

/// The same for one of several threads that serve the port.
///
/// # Errors
/// As [`listen`].
pub fn listen_seated(
    config: &WebSocketConfig,
    port: u16,
    registrar: &Registrar,
    token_space: u32,
    read_bytes: usize,
    counters: ListenerCounters,
    seat: Option<Seat>,
) -> io::Result<WebSocketListener> {
    let min_bytes = config.compression_min_bytes as usize;
    let protocol = WebSocket {
        params: Arc::new(config.params()),
        counters: counters.connections,
        compressed: Compressed::new(config.compression_level.into(), min_bytes),
        origins: Origins::new(&config.allowed_origins),
    };
    let (ports, limits) = (config.ports(port), config.limits(read_bytes));
    Listener::seated(protocol, ports, limits, registrar, token_space, counters.listener, seat)
}

impl Protocol for WebSocket {
    type Endpoint = ServerConnection;
    type Session<'a> = Session<'a>;
    type Message<'a> = Message<'a>;

    fn accept(&mut self, now: Nanos) -> ServerConnection {
        ServerConnection::new(now, &self.params, &self.counters)
    }

    fn on_bytes<S: Service<WebSocket>>(
        &mut self,
        now: Nanos,
        endpoint: &mut ServerConnection,
        bytes: &[u8],
        to_service: &mut ConnectionToService<'_, S>,
    ) -> Result<(), CloseReason> {
        endpoint.on_bytes(now, bytes, &mut WebSocketToService(to_service, &self.origins))
    }

    #[inline]
    fn frame(
        &mut self,
        endpoint: &mut ServerConnection,
        log: &[u8],
        rest: &mut &[Entry],
        frames: &mut Vec<u8>,
    ) -> Result<(), CloseReason> {
        let out = endpoint.outbound();
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

/// Hands what a connection brings to the service.
struct WebSocketToService<'a, 'b, S>(&'a mut ConnectionToService<'b, S>, &'a Origins);

impl<S: Service<WebSocket>> Handler for WebSocketToService<'_, '_, S> {
    fn on_request(&mut self, request: &Request<'_>) -> Admission {
        let WebSocketToService(to_service, origins) = self;
        if to_service.is_full() {
            Admission::Full
        } else if origins.allows(request.headers, to_service.is_encrypted()) {
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

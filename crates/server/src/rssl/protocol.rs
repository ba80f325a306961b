use std::io;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use connection::Disconnect;
use counters::table::RsslConnections;
use net::Registrar;
use rssl::handshake::ConnectRequest;
use rssl::{
    Admission, CloseReason, CompressionType, Handler, Outbound, ServerConnection, ServerParams, Session, Stop,
};
use units::{Nanos, Rng};

use super::RsslConfig;
use crate::{
    Backlog, Bridge, ConnectionId, Endpoint, Entry, Limits, Listener, Outbox, Ports, Protocol, Service,
    TlsConfig, Traffic,
};

/// A port on which RSSL is spoken.
pub type RsslListener = Listener<Rssl>;

/// RSSL as the protocol of a port.
pub struct Rssl {
    params: Arc<ServerParams>,
    counters: Arc<RsslConnections>,
    rng: Rng,
}

/// What is counted of a port.
pub type ListenerCounters = crate::ListenerCounters<RsslConnections>;

/// Listens for RSSL on a port (0: any free one). Descriptors are added to `registrar` under tokens whose upper
/// 32 bits are `token_space`. At most `read_bytes` are taken from a connection at a time, which bounds what
/// one turn can lead to.
///
/// # Errors
/// A port is taken, a certificate cannot be used, or a value is out of range; the error names it.
pub fn listen(
    config: &RsslConfig,
    port: u16,
    registrar: &Registrar,
    token_space: u32,
    seed: u64,
    read_bytes: usize,
    counters: ListenerCounters,
) -> io::Result<RsslListener> {
    let params =
        config.params().check().map_err(|e| io::Error::new(io::ErrorKind::InvalidInput, e.to_string()))?;
    let protocol = Rssl { params: Arc::new(params), counters: counters.connections, rng: Rng::new(seed) };
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

/// The offset of the stream id in an RWF message.
const STREAM_ID_AT: usize = 4;

/// Sends one RWF message to one connection, with the stream id that it has.
pub fn send(outbox: &mut Outbox, to: ConnectionId, message: &[u8]) {
    let stream_id = message.get(STREAM_ID_AT..).and_then(<[u8]>::first_chunk);
    let stream_id = i32::from_be_bytes(*stream_id.unwrap_or(&[0; 4]));
    let staged = outbox.stage(message);
    outbox.deliver(to, staged, stream_id);
}

impl Protocol for Rssl {
    type Endpoint = RsslEndpoint;
    type Session<'a> = Session<'a>;
    type Message<'a> = &'a [u8];

    fn accept(&mut self, now: Nanos) -> RsslEndpoint {
        RsslEndpoint(ServerConnection::new(now, &self.params, &self.counters, self.rng.next_u64()))
    }

    fn on_bytes<S: Service<Rssl>>(
        &mut self,
        now: Nanos,
        endpoint: &mut RsslEndpoint,
        bytes: &[u8],
        bridge: &mut Bridge<'_, S>,
    ) -> Result<(), CloseReason> {
        endpoint.0.on_bytes(now, bytes, &mut ToService(bridge))
    }

    #[inline]
    fn frame(
        &mut self,
        endpoint: &mut RsslEndpoint,
        log: &[u8],
        rest: &mut &[Entry],
        frames: &mut Vec<u8>,
    ) -> Result<(), CloseReason> {
        let mut batch = endpoint.0.outbound().batch(frames);
        while let Some((entry, following)) = rest.split_first()
            && batch.len() < crate::WRITE_BYTES
        {
            match batch.push(&log[entry.place()]) {
                Ok(copy) => {
                    if let Some(id) = copy.get_mut(STREAM_ID_AT..).and_then(<[u8]>::first_chunk_mut) {
                        *id = entry.stream_id.to_be_bytes();
                    }
                }
                Err(misuse) => {
                    drop(batch);
                    return Err(endpoint.0.stop(Stop::Misuse(misuse)));
                }
            }
            *rest = following;
        }
        Ok(())
    }
}

/// The RSSL end of a connection.
pub struct RsslEndpoint(ServerConnection);

impl Endpoint for RsslEndpoint {
    type Reason = CloseReason;

    fn pending(&mut self) -> &[u8] {
        self.0.outbound().flush()
    }

    fn consume(&mut self, count_bytes: usize) {
        self.0.outbound().consume(count_bytes);
    }

    fn keep(&mut self, frames: &[u8], written_bytes: usize) -> Result<(), CloseReason> {
        self.0.outbound().keep(frames, written_bytes).map_err(|e| self.0.stop(e.into()))
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
        let compression = match self.0.negotiated().map(|negotiated| negotiated.compression) {
            None | Some(CompressionType::None) => None,
            Some(CompressionType::Zlib) => Some("zlib"),
            Some(CompressionType::Lz4) => Some("lz4"),
        };
        Traffic { received: self.0.flow_in(), sent: self.0.outbound().flow(), compression }
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
struct ToService<'a, 'b, S>(&'a mut Bridge<'b, S>);

impl<S: Service<Rssl>> Handler for ToService<'_, '_, S> {
    fn on_request(&mut self, _: &ConnectRequest<'_>) -> Admission {
        if self.0.is_full() { Admission::Refuse } else { Admission::Accept }
    }

    fn on_connected(&mut self, session: &Session<'_>, _: &mut Outbound) -> ControlFlow<Stop> {
        self.0.on_connected::<Rssl>(session);
        ControlFlow::Continue(())
    }

    #[inline]
    fn on_message(&mut self, message: &[u8], _: &mut Outbound) -> ControlFlow<Stop> {
        self.0.on_message::<Rssl>(message);
        ControlFlow::Continue(())
    }
}

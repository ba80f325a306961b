use std::io;
use std::ops::ControlFlow;
use std::sync::Arc;

use counters::table::RsslConnections;
use net::Registrar;
use rssl::handshake::ConnectRequest;
use rssl::{Admission, CloseReason, Handler, Outbound, ServerConnection, ServerParams, Session, Stop};
use units::{Nanos, Rng};

use super::RsslConfig;
use crate::{ConnectionId, ConnectionToService, Entry, Listener, Outbox, Protocol, Seat, Service};

crate::port::port_settings!(RsslConfig);

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
    listen_seated(config, port, registrar, token_space, seed, read_bytes, counters, None)
}

/// The same for one of several threads that serve the port.
///
/// # Errors
/// As [`listen`].
#[allow(clippy::too_many_arguments)]
pub fn listen_seated(
    config: &RsslConfig,
    port: u16,
    registrar: &Registrar,
    token_space: u32,
    seed: u64,
    read_bytes: usize,
    counters: ListenerCounters,
    seat: Option<Seat>,
) -> io::Result<RsslListener> {
    let protocol = Rssl::new(config, seed, counters.connections)?;
    let (ports, limits) = (config.ports(port), config.limits(read_bytes));
    Listener::seated(protocol, ports, limits, registrar, token_space, counters.listener, seat)
}

/// What [`listen`] gives, without a port: nobody connects.
///
/// # Errors
/// A value is out of range; the error names it.
pub fn without_port(
    config: &RsslConfig,
    registrar: &Registrar,
    token_space: u32,
    read_bytes: usize,
    counters: ListenerCounters,
) -> io::Result<RsslListener> {
    let protocol = Rssl::new(config, 0, counters.connections)?;
    let limits = config.limits(read_bytes);
    Ok(Listener::without_port(protocol, limits, registrar, token_space, counters.listener))
}

impl Rssl {
    fn new(config: &RsslConfig, seed: u64, counters: Arc<RsslConnections>) -> io::Result<Rssl> {
        let params = config
            .params()
            .check()
            .map_err(|e| io::Error::new(io::ErrorKind::InvalidInput, e.to_string()))?;
        Ok(Rssl { params: Arc::new(params), counters, rng: Rng::new(seed) })
    }
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
    type Endpoint = ServerConnection;
    type Session<'a> = Session<'a>;
    type Message<'a> = &'a [u8];

    fn accept(&mut self, now: Nanos) -> ServerConnection {
        ServerConnection::new(now, &self.params, &self.counters, self.rng.next_u64())
    }

    fn on_bytes<S: Service<Rssl>>(
        &mut self,
        now: Nanos,
        endpoint: &mut ServerConnection,
        bytes: &[u8],
        to_service: &mut ConnectionToService<'_, S>,
    ) -> Result<(), CloseReason> {
        endpoint.on_bytes(now, bytes, &mut RsslToService(to_service))
    }

    #[inline]
    fn frame(
        &mut self,
        endpoint: &mut ServerConnection,
        log: &[u8],
        rest: &mut &[Entry],
        frames: &mut Vec<u8>,
    ) -> Result<(), CloseReason> {
        let mut batch = endpoint.outbound().batch(frames);
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
                    return Err(endpoint.stop(Stop::Misuse(misuse)));
                }
            }
            *rest = following;
        }
        Ok(())
    }
}

/// Hands what a connection brings to the service.
struct RsslToService<'a, 'b, S>(&'a mut ConnectionToService<'b, S>);

impl<S: Service<Rssl>> Handler for RsslToService<'_, '_, S> {
    fn on_request(&mut self, _: &ConnectRequest<'_>) -> Admission {
        if self.0.is_full() { Admission::Refuse } else { Admission::Accept }
    }

    fn on_connected(&mut self, session: &Session<'_>, _: &mut Outbound) -> ControlFlow<Stop> {
        self.0.on_connected::<Rssl>(session);
        ControlFlow::Continue(())
    }

    #[inline]
    fn messages_ahead(&self) -> usize {
        self.0.messages_ahead::<Rssl>()
    }

    #[inline]
    fn on_coming(&mut self, message: &[u8]) {
        self.0.on_coming::<Rssl>(message);
    }

    #[inline]
    fn on_message(&mut self, message: &[u8], _: &mut Outbound) -> ControlFlow<Stop> {
        self.0.on_message::<Rssl>(message);
        ControlFlow::Continue(())
    }
}

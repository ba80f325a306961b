//! A listener whose service sends everything back, and clients for it, in one thread.

use std::net::{SocketAddr, TcpStream};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::{Duration, Instant};

use net::tcp::Moved;
use net::{Poller, Ready, Transport};
use rssl::{ClientConfig, ClientConnection, CloseReason, Handler, Outbound, Session, Stop};
use tickcast_server::rssl::{ListenerCounters, Rssl, RsslConfig, RsslListener, listen, send};
use tickcast_server::{ConnectionId, Outbox, PortEvent, Service};
use units::Nanos;

/// Sends every message back.
#[derive(Default)]
pub(crate) struct Mirror {
    pub(crate) events: Vec<String>,
}

impl Service<Rssl> for Mirror {
    fn on_connected(&mut self, _: Nanos, _: ConnectionId, _: &Session<'_>, _: SocketAddr, _: &mut Outbox) {}
    fn on_message(
        &mut self,
        _: Nanos,
        from: ConnectionId,
        message: &[u8],
        outbox: &mut Outbox,
    ) -> ControlFlow<()> {
        send(outbox, from, message);
        ControlFlow::Continue(())
    }
    fn on_closed(&mut self, _: Nanos, _: ConnectionId, _: &CloseReason, _: &mut Outbox) {}
    fn is_logged_in(&self, _: ConnectionId) -> bool {
        true
    }
    fn on_port_event(&mut self, event: PortEvent<'_>) {
        self.events.push(event.to_string());
    }
}

pub(crate) struct Rig {
    poller: Poller,
    pub(crate) listener: RsslListener,
    pub(crate) counters: ListenerCounters,
    pub(crate) service: Mirror,
    pub(crate) now: Nanos,
}

impl Rig {
    pub(crate) fn new(config: &RsslConfig) -> Rig {
        Rig::on(0, config)
    }

    pub(crate) fn on(port: u16, config: &RsslConfig) -> Rig {
        let poller = Poller::new().expect("descriptors are left");
        let counters = ListenerCounters::default();
        let listener = listen(config, port, poller.registrar(), 1, 7, 4096, counters.clone());
        let listener = listener.expect("the port is free");
        Rig { poller, listener, counters, service: Mirror::default(), now: Nanos(1_000) }
    }

    pub(crate) fn connect(&self, address: SocketAddr) -> TcpStream {
        let stream = TcpStream::connect(("127.0.0.1", address.port())).expect("it listens");
        stream.set_nonblocking(true).expect("a socket");
        stream
    }

    /// One turn of the listener's thread.
    pub(crate) fn serve(&mut self) {
        let Rig { poller, listener, service, now, .. } = self;
        let ready: Vec<Ready> = poller.wait(Some(Duration::ZERO)).expect("sockets of this test").collect();
        ready.iter().for_each(|ready| listener.on_ready(*now, *ready, service));
        listener.flush(*now, service);
        listener.on_wakeup(*now, service);
    }

    /// Turns of both sides until `done`.
    pub(crate) fn run(&mut self, peer: &mut Peer, done: impl Fn(&Peer) -> bool) {
        let give_up = Instant::now() + Duration::from_secs(60);
        while !done(peer) {
            assert!(Instant::now() < give_up, "the sides do not get there");
            peer.turn(self.now);
            self.serve();
        }
    }
}

/// A client.
pub(crate) struct Peer {
    transport: Transport,
    rssl: ClientConnection,
    pub(crate) is_connected: bool,
    pub(crate) is_closed: bool,
    pub(crate) received: Vec<Vec<u8>>,
}

impl Peer {
    pub(crate) fn new(transport: Transport) -> Peer {
        Peer::of(transport, ClientConfig::default())
    }

    pub(crate) fn of(transport: Transport, config: ClientConfig) -> Peer {
        let params = Arc::new(config.check().expect("the values are in their ranges"));
        let version = params.config().version_max;
        let rssl = ClientConnection::new(Nanos(1_000), &params, &Arc::default(), version, 3);
        Peer { transport, rssl, is_connected: false, is_closed: false, received: Vec::new() }
    }

    pub(crate) fn send(&mut self, message: &[u8]) {
        self.rssl.outbound().push(message).expect("there is room");
    }

    fn turn(&mut self, now: Nanos) {
        let mut buffer = [0; 8192];
        loop {
            self.write();
            match self.transport.read(&mut buffer) {
                Ok(Moved::Bytes(count)) => {
                    let mut ear = Ear { is_connected: &mut self.is_connected, received: &mut self.received };
                    if self.rssl.on_bytes(now, &buffer[..count], &mut ear).is_err() {
                        return self.is_closed = true;
                    }
                }
                Ok(Moved::WouldBlock) => return,
                Ok(Moved::End) | Err(_) => return self.is_closed = true,
            }
        }
    }

    fn write(&mut self) {
        let pending = self.rssl.outbound().flush();
        if pending.is_empty() {
            self.transport.flush().ok();
        } else if let Ok(Moved::Bytes(count)) = self.transport.write(pending) {
            self.rssl.outbound().consume(count);
        }
    }
}

struct Ear<'a> {
    is_connected: &'a mut bool,
    received: &'a mut Vec<Vec<u8>>,
}

impl Handler for Ear<'_> {
    fn on_connected(&mut self, _: &Session<'_>, _: &mut Outbound) -> ControlFlow<Stop> {
        *self.is_connected = true;
        ControlFlow::Continue(())
    }
    fn on_message(&mut self, message: &[u8], _: &mut Outbound) -> ControlFlow<Stop> {
        self.received.push(message.to_vec());
        ControlFlow::Continue(())
    }
}

//! Ports on which clients and providers connect: RSSL, and the JSON protocol over WebSocket.
//!
//! ```
//! use std::net::{Ipv4Addr, SocketAddr};
//! use std::ops::ControlFlow;
//! use std::time::Duration;
//! use net::{Poller, clock};
//! use rssl::{CloseReason, Session};
//! use tickcast_server::rssl::{ListenerCounters, Rssl, RsslConfig, listen, send};
//! use tickcast_server::{ConnectionId, Outbox, Service};
//! use units::Nanos;
//!
//! /// Sends each message back.
//! struct Echo;
//! impl Service<Rssl> for Echo {
//!     fn on_connected(&mut self, _: Nanos, _: ConnectionId, _: &Session<'_>, _: SocketAddr, _: &mut Outbox) {}
//!     fn on_message(&mut self, _: Nanos, from: ConnectionId, message: &[u8], out: &mut Outbox) -> ControlFlow<()> {
//!         send(out, from, message);
//!         ControlFlow::Continue(())
//!     }
//!     fn on_closed(&mut self, _: Nanos, _: ConnectionId, _: &CloseReason, _: &mut Outbox) {}
//!     fn is_logged_in(&self, _: ConnectionId) -> bool {
//!         true
//!     }
//! }
//!
//! let config = RsslConfig { interface: Ipv4Addr::LOCALHOST, ..RsslConfig::default() };
//! let (mut poller, counters, seed) = (Poller::new()?, ListenerCounters::default(), clock::seed());
//! let mut listener = listen(&config, 0, poller.registrar(), 1, seed, 65_536, counters.clone())?;
//! # use std::io::{Read, Write};
//! # use std::sync::Arc;
//! # struct Client(Vec<u8>);
//! # impl rssl::Handler for Client {
//! #     fn on_connected(&mut self, _: &Session<'_>, out: &mut rssl::Outbound) -> ControlFlow<rssl::Stop> {
//! #         out.push(b"0123456789").map_or_else(|error| ControlFlow::Break(error.into()), |_| ControlFlow::Continue(()))
//! #     }
//! #     fn on_message(&mut self, message: &[u8], _: &mut rssl::Outbound) -> ControlFlow<rssl::Stop> {
//! #         self.0.extend(message);
//! #         ControlFlow::Continue(())
//! #     }
//! # }
//! # let mut socket = std::net::TcpStream::connect(listener.local_address()?)?;
//! # socket.set_nonblocking(true)?;
//! # let params = Arc::new(rssl::ClientConfig::default().check()?);
//! # let version = params.config().version_max;
//! # let mut client = rssl::ClientConnection::new(clock::monotonic(), &params, &Arc::default(), version, 3);
//! # let mut at_client = Client(Vec::new());
//! // A client, not shown, connects and sends a message of ten bytes. These are the turns of the server's thread.
//! # let patience = testkit::watchdog::Patience::new();
//! while counters.connections.messages_out.get() == 0 {
//! #   assert!(patience.lasts(), "the message does not come back");
//! #   let written = socket.write(client.outbound().flush())?;
//! #   client.outbound().consume(written);
//! #   let mut bytes = [0; 1_024];
//! #   if let Ok(count) = socket.read(&mut bytes) {
//! #       client.on_bytes(clock::monotonic(), &bytes[..count], &mut at_client).expect("a good server");
//! #   }
//!     for ready in poller.wait(Some(Duration::from_millis(1)))? {
//!         listener.on_ready(clock::monotonic(), ready, &mut Echo);
//!     }
//!     listener.on_wakeup(clock::monotonic(), &mut Echo);
//!     listener.flush(clock::monotonic(), &mut Echo);
//! }
//! # socket.set_nonblocking(false)?;
//! # socket.set_read_timeout(Some(testkit::watchdog::WATCHDOG))?;
//! # while at_client.0.is_empty() {
//! #   let mut bytes = [0; 1_024];
//! #   let count = socket.read(&mut bytes)?;
//! #   client.on_bytes(clock::monotonic(), &bytes[..count], &mut at_client).expect("a good server");
//! # }
//! # assert_eq!(at_client.0, b"0123456789");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! | module | what is in it |
//! |---|---|
//! | `port`, handed on here | a [`Listener`] and its connections, whatever they speak: sockets, limits, the [`Outbox`] of a fan-out |
//! | [`rssl`] | RSSL as the [`Protocol`] of a port |
//! | [`websocket`] | the JSON protocol over WebSocket as that of a port, and RWF made into JSON and back |
//!
//! One thread owns a [`Listener`]; a port that several threads serve has one for each, with an [`Exchange`] between
//! them that spreads connections by load. What its connections speak is a [`Protocol`]. Input is read into one
//! buffer shared by all connections; output is made in two steps, so that one update for thousands of
//! connections costs little more than its bytes in each of them:
//!
//! 1. While input is handled, a message is put into the [`Outbox`] once, and each connection that gets it
//!    notes where it is and which stream id it is to carry there: twelve bytes.
//! 2. [`Listener::flush`] then serves connection after connection: the protocol copies the messages noted
//!    into frames in one scratch buffer that stays in the cache, the listener writes them with one system
//!    call per 64 KiB, and only what the socket did not take is kept.
//!
//! A connection that does not keep up has a bounded backlog: while it is large nothing is read from it, so
//! that answers pace requests; at its limit the connection is closed and counted.
//!
//! Ports as clients meet them are tested in `tests/ports`, connections that do not log in or do not read in
//! `tests/listener.rs`.

mod port;
pub mod rssl;
pub mod websocket;

pub use connection::{Backlog, LadderConfig, Step};
pub use port::{
    ClientCertificates, ConnectionId, ConnectionInfo, ConnectionToService, Endpoint, Entry, Exchange, Limits,
    Listener, ListenerCounters, Outbox, PortEvent, Ports, Protocol, ReasonOf, Seat, Service, Staged,
    StepChange, TlsConfig, TlsPort, Traffic, WEIGHT_DEFAULT, WRITE_BYTES,
};

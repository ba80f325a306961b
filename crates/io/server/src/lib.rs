//! Ports on which clients and providers connect: RSSL, and the JSON protocol over WebSocket.
//!
//! ```
//! use std::net::SocketAddr;
//! use std::ops::ControlFlow;
//! use net::Poller;
//! use rssl::{CloseReason, Session};
//! use tickcast_server::rssl::{ListenerCounters, Rssl, RsslConfig, listen, send};
//! use tickcast_server::{ConnectionId, Outbox, Service};
//! use units::Nanos;
//!
//! /// Sends every message back to who has sent it.
//! struct Echo;
//!
//! impl Service<Rssl> for Echo {
//!     fn on_connected(&mut self, _: Nanos, _: ConnectionId, _: &Session<'_>, _: SocketAddr, _: &mut Outbox) {}
//!     fn on_message(&mut self, _: Nanos, id: ConnectionId, message: &[u8], out: &mut Outbox) -> ControlFlow<()> {
//!         send(out, id, message);
//!         ControlFlow::Continue(())
//!     }
//!     fn on_closed(&mut self, _: Nanos, _: ConnectionId, _: &CloseReason, _: &mut Outbox) {}
//!     fn is_logged_in(&self, _: ConnectionId) -> bool {
//!         true
//!     }
//! }
//!
//! let (poller, counters) = (Poller::new()?, ListenerCounters::default());
//! let mut port = listen(&RsslConfig::default(), 0, poller.registrar(), 1, 7, 65_536, counters)?;
//! assert_ne!(port.local_address()?.port(), 0, "any free port");
//! // A turn: what the poller says goes to `on_ready`, what that led to leaves with `flush`.
//! port.flush(net::clock::monotonic(), &mut Echo);
//! assert_eq!(port.connection_count(), 0);
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! | module | what is in it |
//! |---|---|
//! | `port`, handed on here | a [`Listener`] and its connections, whatever they speak: sockets, limits, the [`Outbox`] of a fan-out |
//! | [`rssl`] | RSSL as the [`Protocol`] of a port |
//! | [`websocket`] | the JSON protocol over WebSocket as that of a port, and RWF made into JSON and back |
//!
//! One thread owns a [`Listener`]; what its connections speak is a [`Protocol`]. Input is read into one
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
    ClientCertificates, ConnectionId, ConnectionInfo, ConnectionToService, Endpoint, Entry, Limits, Listener,
    ListenerCounters, Outbox, PortEvent, Ports, Protocol, ReasonOf, Service, Staged, StepChange, TlsConfig,
    TlsPort, Traffic, WRITE_BYTES,
};
